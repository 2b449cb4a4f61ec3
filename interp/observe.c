/* The loop for a program that is watched: it runs the same steps, and tells each. */
#include "interp/observe.h"

#include "base/memory.h"
#include "interp/internal.h"

#include <stdlib.h>

/* What one event is put together from. */
typedef struct Telling {
    Interp *in;
    Value *args;            /* the caller's own, because a step may move its operands out */
    Binding *bound;
    uint32_t args_cap, bound_cap;
    bool failed;
} Telling;

void interp_observe(Interp *in, const Observer *observer)
{
    in->observer = observer;
}

static bool tell(Telling *t, const Event *e)
{
    const Observer *o = t->in->observer;
    /* Whoever watches may evaluate something, which nobody watches. */
    t->in->observer = NULL;
    bool on = o->event(o->data, e);
    t->in->observer = o;
    return on;
}

static void *room(Telling *t, void *at, uint32_t n, uint32_t *cap, size_t size)
{
    if (n <= *cap)
        return at;
    void *grown = memory_resize(at, n * size);
    if (!grown) {
        t->failed = limit_reach(&t->in->cx->limits, LIMIT_MEMORY);
        return at;
    }
    *cap = n;
    return grown;
}

static bool bound_room(Telling *t, size_t n)
{
    t->bound = room(t, t->bound, (uint32_t)n, &t->bound_cap, sizeof *t->bound);
    return !t->failed;
}

static Binding binding(const Var *v, Value value)
{
    return (Binding){v ? v->name : NULL, v ? v->base.type : NULL, value};
}

/* A value with the variable of the `let` that receives it. */
static Binding result_of(const StepInfo *info, Value v)
{
    return binding(info ? info->var : NULL, v);
}

/* ---- functions ---------------------------------------------------------------------------------- */

static void name_function(Event *e, const Code *code)
{
    e->body = code->unit->codes.at[0]->span;
    e->what = code->name ? code->name->text : code->var ? code->var->name->text : NULL;
    e->global = code->name != NULL;
}

/* The frame that begins: its parameters and what it captured. */
static bool tell_frame(Telling *t, EventKind kind, Span span)
{
    const Frame *f = t->in->frame;
    const Code *code = f->code;
    Event e = {.kind = kind, .span = span, .n = code->n_params, .args = f->slots};
    name_function(&e, code);
    if (!bound_room(t, code->params.n + code->captured.n))
        return false;
    for (size_t i = 0; i < code->params.n; i++)
        t->bound[e.n_bound++] = binding(code->params.at[i], f->slots[i]);
    for (size_t i = 0; f->closure && i < code->captured.n; i++)
        if (code->captured.at[i])
            t->bound[e.n_bound++] = binding(
                code->captured.at[i], object_get(f->closure, FUNCTION_CAPTURED + (uint32_t)i));
    e.bound = t->bound;
    return tell(t, &e);
}

static bool tell_return(Telling *t, const Step *s)
{
    const Frame *f = t->in->frame;
    Event e = {.kind = EVENT_RETURN};
    name_function(&e, f->code);
    e.span = f->call ? f->call->span : f->code->span;
    e.result = result_of(f->call ? f->call->info : NULL, *operand_at(t->in, s->args[0]));
    return tell(t, &e);
}

/* ---- branches ----------------------------------------------------------------------------------- */

static bool tell_join(Telling *t, const Step *s)
{
    Event e = {.kind = EVENT_JOIN, .span = s->join->span, .id = s->join};
    e.what = s->join->kind == STEP_IF ? "if" : "match";
    e.result = result_of(s->join->info, *operand_at(t->in, s->args[0]));
    return tell(t, &e);
}

static bool tell_if(Telling *t, const Step *s)
{
    const Value *cond = operand_at(t->in, s->args[0]);
    return tell(t, &(Event){.kind = EVENT_IF,
                            .span = s->span,
                            .id = s,
                            .n = 1,
                            .args = cond,
                            .choice = cond->bits ? 0 : 1});
}

static bool tell_match(Telling *t, const Step *s, const Step *next)
{
    Event e = {.kind = EVENT_MATCH, .span = s->span, .id = s, .n = 1, .args = t->args};
    while (e.choice + 1 < s->n_blocks && s->blocks[e.choice].first != next)
        e.choice++;
    const PatternCode *pattern = &s->patterns[e.choice];
    e.pattern = pattern->span;
    if (!bound_room(t, pattern->binds.n))
        return false;
    for (size_t i = 0; i < pattern->binds.n; i++) {
        const PatternBind *b = &pattern->binds.at[i];
        if (b->slot != NO_SLOT)
            t->bound[e.n_bound++] = binding(b->var, t->in->frame->slots[b->slot]);
    }
    e.bound = t->bound;
    return tell(t, &e);
}

/* ---- values ------------------------------------------------------------------------------------- */

static const char *name_of(const Step *s)
{
    switch ((StepKind)s->kind) {
    case STEP_OP:
    case STEP_OP_IF: return s->op->name;
    case STEP_CON: return s->con->name->text;
    case STEP_GLOBAL: return s->name->text;
    default: return NULL;
    }
}

/* The event of a step that gives a value; START for the others. */
static EventKind value_event(const Step *s)
{
    switch ((StepKind)s->kind) {
    case STEP_OP:
    case STEP_OP_IF: return EVENT_OP;
    case STEP_CON: return EVENT_CON;
    case STEP_TUPLE: return EVENT_TUPLE;
    case STEP_GET: return EVENT_GET;
    case STEP_CLOSURE: return EVENT_CLOSURE;
    case STEP_GLOBAL: return EVENT_GLOBAL;
    case STEP_REF_NEW: return EVENT_REF_NEW;
    case STEP_REF_READ: return EVENT_REF_READ;
    case STEP_REF_WRITE: return EVENT_REF_WRITE;
    default: return EVENT_START;
    }
}

/* The operands before the step; of a write also what the cell holds. */
static uint32_t keep_args(Telling *t, const Step *s)
{
    t->args = room(t, t->args, s->n + 1, &t->args_cap, sizeof *t->args);
    if (t->failed)
        return 0;
    for (uint32_t i = 0; i < s->n; i++)
        t->args[i] = value_retain(*operand_at(t->in, s->args[i]));
    if (s->kind != STEP_REF_WRITE)
        return s->n;
    t->args[s->n] = value_retain(object_get(t->args[0].object, 0));
    return s->n + 1;
}

static void drop_args(Telling *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        value_release(t->args[i]);
}

static bool bind_captured(Telling *t, const Step *s, Event *e)
{
    if (!bound_room(t, s->n))
        return false;
    for (uint32_t i = 0; i < s->n && i < s->code->captured.n; i++)
        if (s->code->captured.at[i])
            t->bound[e->n_bound++] = binding(s->code->captured.at[i], t->args[i]);
    e->bound = t->bound;
    return true;
}

/* A result that nobody uses goes to the slot behind the others, where it can be looked at. */
static const Step *run_value(Telling *t, Step *s, uint32_t n_args, bool *on)
{
    Step seen = *s;
    if (s->kind == STEP_OP_IF)
        seen.kind = STEP_OP;
    bool unused = s->dest == NO_SLOT;
    if (unused)
        seen.dest = t->in->frame->code->n_slots;
    const Step *next = eval_step(t->in, &seen);
    if (!next)
        return NULL;
    Value *value = &t->in->frame->slots[seen.dest];
    Event e = {.kind = value_event(s), .span = s->span, .what = name_of(s)};
    e.n = n_args;
    e.args = t->args;
    e.choice = s->kind == STEP_GET ? (uint32_t)s->index : 0;
    e.result = result_of(s->info, *value);
    *on = (s->kind != STEP_CLOSURE || bind_captured(t, s, &e)) && tell(t, &e);
    if (unused) {
        value_release(*value);
        value->kind = VALUE_NONE;
    }
    return next;
}

/* ---- the loop ----------------------------------------------------------------------------------- */

static bool tell_notes(Telling *t, const Step *s)
{
    for (size_t i = 0; s->info && i < s->info->notes.n; i++) {
        const StepNote *note = &s->info->notes.at[i];
        Value v = note->gone ? value_none() : *operand_at(t->in, note->at);
        Event e = {.kind = EVENT_LET, .span = note->span, .result = binding(note->var, v)};
        if (!tell(t, &e))
            return false;
    }
    return true;
}

/* NULL with `*on`: the step failed or was the last; without: nothing more is wanted. */
static const Step *watch_step(Telling *t, Step *s, bool *on)
{
    Interp *in = t->in;
    const Step *next;
    uint32_t n = 0;
    switch ((StepKind)s->kind) {
    case STEP_DROP:
    case STEP_KINDS: return eval_step(in, s);
    case STEP_IF: *on = tell_if(t, s); return *on ? eval_step(in, s) : NULL;
    case STEP_JOIN: *on = tell_join(t, s); return *on ? eval_step(in, s) : NULL;
    case STEP_RETURN: *on = tell_return(t, s); return *on ? eval_step(in, s) : NULL;
    case STEP_CALL:
    case STEP_CALL_GLOBAL:
        next = eval_step(in, s);
        *on = !next || tell_frame(t, EVENT_CALL, s->span);
        return next;
    case STEP_TAIL_CALL:
    case STEP_TAIL_GLOBAL: {
        Span span = s->span; /* the step may go with the frame's closure */
        next = eval_step(in, s);
        *on = !next || tell_frame(t, EVENT_TAIL_CALL, span);
        return next;
    }
    case STEP_MATCH:
    case STEP_OP:
    case STEP_OP_IF:
    case STEP_CON:
    case STEP_TUPLE:
    case STEP_GET:
    case STEP_CLOSURE:
    case STEP_GLOBAL:
    case STEP_REF_NEW:
    case STEP_REF_READ:
    case STEP_REF_WRITE:
        n = keep_args(t, s);
        if (t->failed)
            return NULL;
        if (s->kind == STEP_MATCH) {
            next = eval_step(in, s);
            *on = !next || tell_match(t, s, next);
        } else {
            next = run_value(t, s, n, on);
        }
        drop_args(t, n);
        return next;
    }
    return NULL;
}

static const Step *watch_steps(Telling *t, Frame *f)
{
    Interp *in = t->in;
    Step *s = (Step *)(uintptr_t)eval_frame_start(in, f);
    if (!tell_frame(t, EVENT_START, f->code->span))
        return s;
    for (;;) {
        bool on = tell_notes(t, s);
        const Step *next = on ? watch_step(t, s, &on) : NULL;
        if (on && next) {
            s = (Step *)(uintptr_t)next;
            continue;
        }
        if (on && in->stopped && !in->failed)
            return NULL;
        if (on)
            tell(t, &(Event){.kind = EVENT_FAIL, .span = s->span});
        return s;
    }
}

const Step *observe_frame(Interp *in, Frame *f)
{
    Telling t = {.in = in};
    const Step *failed = watch_steps(&t, f);
    free(t.args);
    free(t.bound);
    return failed;
}
