/* What a debugger asks of an evaluation that stands still: its frames, their variables, what these consist of, and expressions over them.
 * Everything is told of a step that is kept, so that going back changes nothing. */
#include "session/steps/stepping.h"

#include "base/memory.h"
#include "ir/expr.h"
#include "session/views/facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MOST = 10000, ROWS_SHOWN = 100 };

/* ---- frames ---------------------------------------------------------------------------------------- */

RelayStop relay_steps_stop(const RelaySteps *steps, uint64_t number)
{
    return recorder_step(&steps->rec, number)->stop;
}

static const Activation *frame_at(const RecordStep *step, uint32_t at)
{
    const Activation *a = step->now;
    while (a && at-- > 0)
        a = a->caller;
    return a;
}

/* A function that was just entered stands at its beginning. */
static Span frame_span(const RecordStep *step, uint32_t at)
{
    if (at > 0)
        return frame_at(step, at - 1)->call;
    bool entered = step->kind == EVENT_CALL || step->kind == EVENT_TAIL_CALL;
    Span from = entered && step->now ? step->now->body : step->span;
    return entered ? (Span){from.source, from.from, from.from} : from;
}

bool relay_steps_frame(RelaySteps *st, uint64_t number, uint32_t at, RelayFrame *out)
{
    const RecordStep *step = recorder_step(&st->rec, number);
    const Activation *a = frame_at(step, at);
    if (!a)
        return false;
    SourceMap *sources = &st->s->cx.sources;
    Span span = frame_span(step, at);
    const Source *source = sources_get(sources, span.source);
    Position from = span_start(sources, span), to = span_end(sources, span);
    buf_clear(&st->why);
    if (a->what)
        buf_printf(&st->why, "%c%s", a->global ? '@' : '%', a->what);
    else
        buf_str(&st->why, a->caller ? "fn" : source ? source->name : "");
    *out = (RelayFrame){
        .name = buf_text(&st->why),
        .source_name = source ? source->name : "",
        .source = source ? source->text : "",
        .source_len = source ? source->len : 0,
        .line = from.line,
        .column = from.column,
        .end_line = to.line,
        .end_column = to.column,
    };
    return true;
}

/* ---- variables --------------------------------------------------------------------------------------- */

/* Something that can be taken apart, at one moment. */
typedef struct Part {
    Value value;
    RelaySteps *steps; /* NULL: now */
    uint64_t step;
} Part;

typedef struct Parts Parts;
struct Parts {
    Part at[PARTS_MOST];
    uint32_t n;
};

/* One question, and who is told the answer. */
typedef struct Asked {
    RelaySession *s;
    RelaySteps *steps;
    uint64_t step;
    RelayVariables to;
    Buf name, type, value;
} Asked;

static void asked_deinit(Asked *a)
{
    buf_deinit(&a->name);
    buf_deinit(&a->type);
    buf_deinit(&a->value);
}

static void asked_clear(Asked *a)
{
    buf_clear(&a->name);
    buf_clear(&a->type);
    buf_clear(&a->value);
}

static bool has_parts(Value v)
{
    if (v.kind == VALUE_TENSOR || v.kind == VALUE_REF)
        return true;
    return (v.kind == VALUE_TUPLE || v.kind == VALUE_CON) && object_n(v.object) > 0;
}

/* A number to ask for what the value consists of; 0 when it has no parts, or there are too many already. */
static uint32_t part_number(Asked *a, Value v)
{
    Stops *stops = has_parts(v) ? stops_get(a->s) : NULL;
    if (stops && !stops->parts)
        stops->parts = memory_zeroed(1, sizeof *stops->parts);
    Parts *parts = stops ? stops->parts : NULL;
    if (!parts || parts->n == PARTS_MOST)
        return 0;
    parts->at[parts->n++] = (Part){value_retain(v), a->steps, a->step};
    return parts->n;
}

void relay_session_forget_parts(RelaySession *s)
{
    Parts *parts = s->stops ? s->stops->parts : NULL;
    for (uint32_t i = 0; parts && i < parts->n; i++)
        value_release(parts->at[i].value);
    free(parts);
    if (parts)
        s->stops->parts = NULL;
}

static void tell(Asked *a, uint32_t parts)
{
    RelayVariable v = {buf_text(&a->name), buf_text(&a->type), buf_text(&a->value), parts};
    a->to.variable(a->to.data, &v);
}

/* The name was put into `a->name`. */
static void tell_value(Asked *a, const Type *type, Value v)
{
    Recorder plain = {.s = a->s};
    record_type(a->s, &a->type, &(Binding){NULL, type, v});
    record_content(a->steps ? &a->steps->rec : &plain, &a->value, v);
    tell(a, part_number(a, v));
    asked_clear(a);
}

void relay_steps_variables(RelaySteps *steps, uint64_t number, uint32_t frame, RelayVariables to)
{
    Asked a = {steps->s, steps, number, to, {0}, {0}, {0}};
    const Activation *at = frame_at(recorder_step(&steps->rec, number), frame);
    size_t n = 0;
    const Bound **all = record_variables(at ? at->bound : NULL, SIZE_MAX, &n);
    for (size_t i = 0; all && i < n; i++) {
        buf_printf(&a.name, "%%%s", all[i]->is.name->text);
        tell_value(&a, all[i]->is.type, all[i]->is.value);
    }
    free(all);
    asked_deinit(&a);
}

void relay_session_variables(RelaySession *s, RelayVariables to)
{
    Asked a = {s, NULL, 0, to, {0}, {0}, {0}};
    for (size_t i = 0; i < s->n_locals; i++) {
        const Local *l = &s->locals[i];
        if (l->result)
            continue;
        buf_printf(&a.name, "%%%s", l->var->name->text);
        tell_value(&a, l->var->base.type, l->value);
    }
    asked_deinit(&a);
}

/* ---- parts ------------------------------------------------------------------------------------------- */

static void tell_number(Asked *a, const char *name, double number)
{
    buf_str(&a->name, name);
    buf_str(&a->type, "float");
    buf_printf(&a->value, "%.6g", number);
    tell(a, 0);
    asked_clear(a);
}

static void tell_count(Asked *a, const char *name, int64_t n)
{
    buf_str(&a->name, name);
    buf_str(&a->type, "int");
    buf_printf(&a->value, "%lld", (long long)n);
    tell(a, 0);
    asked_clear(a);
}

static void tell_facts(Asked *a, const Tensor *t)
{
    TensorFacts f = tensor_facts(t, INT64_MAX, &a->s->cx.limits);
    const struct {
        const char *name;
        double number;
    } numbers[] = {{"min", f.least}, {"max", f.most}, {"mean", f.mean}, {"spread", f.spread}};
    buf_str(&a->name, "shape");
    buf_str(&a->type, "str");
    for (int32_t i = 0; i < t->rank; i++)
        buf_printf(&a->value, "%s%lld", i ? " × " : "", (long long)t->shape[i]);
    tell(a, 0);
    asked_clear(a);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers && f.least <= f.most; i++)
        tell_number(a, numbers[i].name, numbers[i].number);
    tell_count(a, "zeros", f.zeros);
    tell_count(a, "NaN", f.nans);
    tell_count(a, "infinities", f.infinities);
    if (!f.bin_most)
        return;
    buf_str(&a->name, "histogram");
    buf_str(&a->type, "str");
    facts_bars(&a->value, &f);
    tell(a, 0);
    asked_clear(a);
}

/* Its rows, which are its elements where it has one axis. */
static void tell_rows(Asked *a, const Tensor *t)
{
    for (int64_t i = 0; i < t->shape[0] && i < ROWS_SHOWN; i++) {
        Value row = t->rank == 1 ? value_scalar(t->dtype, tensor_element(t, i))
                                 : value_tensor(tensor_view(t, t->rank - 1, t->shape + 1,
                                                            t->strides + 1, i * t->strides[0]));
        buf_printf(&a->name, "[%lld]", (long long)i);
        if (!value_is_none(row))
            tell_value(a, NULL, row);
        asked_clear(a);
        value_release(row);
    }
}

static void tell_fields(Asked *a, const Object *o)
{
    for (uint32_t i = 0; i < object_n(o); i++) {
        buf_printf(&a->name, ".%u", i);
        tell_value(a, NULL, object_get(o, i));
    }
}

static void tell_content(Asked *a, Value ref)
{
    Value held = object_get(ref.object, 0);
    const Recorder *r = a->steps ? &a->steps->rec : NULL;
    for (size_t i = 0; r && i < r->n_cells; i++)
        if (r->cells[i].cell == ref.object)
            record_cell(r, a->step, i, &held);
    buf_str(&a->name, "holds");
    tell_value(a, NULL, held);
}

void relay_session_parts(RelaySession *s, uint32_t number, RelayVariables to)
{
    const Parts *parts = s->stops ? s->stops->parts : NULL;
    if (!parts || number == 0 || number > parts->n)
        return;
    const Part p = parts->at[number - 1];
    Asked a = {s, p.steps, p.step, to, {0}, {0}, {0}};
    if (p.value.kind == VALUE_TENSOR) {
        tell_facts(&a, p.value.tensor);
        tell_rows(&a, p.value.tensor);
    } else if (p.value.kind == VALUE_REF) {
        tell_content(&a, p.value);
    } else {
        tell_fields(&a, p.value.object);
    }
    asked_deinit(&a);
}

/* ---- expressions over a frame ------------------------------------------------------------------------ */

/* The names and values of the session, and over them those of a frame. */
typedef struct Scope {
    Module *home; /* of the nodes that stand for the frame's variables */
    PtrMap names, values;
} Scope;

static void copy_map(PtrMap *to, const PtrMap *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (from->entries[i].key)
            ptrmap_put(to, from->entries[i].key, from->entries[i].value);
}

static bool scope_init(Scope *c, RelaySession *s, const Activation *frame)
{
    *c = (Scope){.home = module_new(&s->cx)};
    if (!c->home)
        return false;
    copy_map(&c->names, &s->local_names);
    copy_map(&c->values, &s->local_values);
    size_t n = 0;
    const Bound **all = record_variables(frame->bound, SIZE_MAX, &n);
    for (size_t i = 0; all && i < n; i++) {
        const Binding *b = &all[i]->is;
        Var *v = expr_var(&c->home->arena, (Span){0}, b->name, NULL);
        v->base.type = b->value.kind == VALUE_SCALAR   ? type_scalar(&s->cx, b->value.dtype)
                       : b->value.kind == VALUE_TENSOR ? type_of_tensor(&s->cx, b->value.tensor)
                       : b->type                       ? b->type
                                                       : s->cx.poison;
        ptrmap_put(&c->names, b->name, v);
        ptrmap_put(&c->values, v, (void *)(uintptr_t)&b->value);
    }
    free(all);
    return true;
}

static void scope_deinit(Scope *c)
{
    module_release(c->home);
    ptrmap_deinit(&c->names);
    ptrmap_deinit(&c->values);
}

Value frame_eval(RelaySteps *st, const Activation *frame, Str text, Module **module)
{
    RelaySession *s = st->s;
    Scope scope;
    *module = NULL;
    if (!scope_init(&scope, s, frame))
        return value_none();
    uint32_t source = sources_add(&s->cx.sources, "expression", text.ptr, text.len);
    ParseEnv env = session_parse_env(s);
    env.locals = &scope.names;
    env.keep_broken = false;
    Module *m = source ? parse_range(&s->cx, (Span){source, 0, (uint32_t)text.len}, &env) : NULL;
    Value v = value_none();
    if (m) {
        module_use(m, scope.home);
        if (session_check(s, m, st->env, (CheckWish){.answers = true}))
            v = interp_eval(s->interp, st->env, m, m->expr, &scope.values);
    }
    *module = m;
    scope_deinit(&scope);
    return v;
}

bool relay_steps_evaluate(RelaySteps *st, uint64_t number, uint32_t frame, const char *text,
                          size_t len, RelayVariables to, RelaySink sink)
{
    RelaySession *s = st->s;
    const Activation *at = frame_at(recorder_step(&st->rec, number), frame);
    RelaySink outer = s->sink;
    DiagsMark mark = diags_mark(s->cx.diags);
    Module *m = NULL;
    s->sink = sink;
    Value v = at ? frame_eval(st, at, (Str){text, len}, &m) : value_none();
    bool ok = !value_is_none(v);
    if (ok) {
        Asked a = {s, st, number, to, {0}, {0}, {0}};
        display_value(s, RELAY_OUTPUT_RESULT, v, m->expr->type);
        buf_bytes(&a.name, text, len);
        tell_value(&a, m->expr->type, v);
        asked_deinit(&a);
    }
    emit_diags_behind(s, mark);
    s->sink = outer;
    value_release(v);
    module_release(m);
    return ok;
}
