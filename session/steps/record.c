#include "session/steps/record.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "runtime/show.h"

#include <stdlib.h>
#include <string.h>

#define CELLS_MOST 10000 /* later references are not listed */

/* ---- counted lists ------------------------------------------------------------------------------- */

static void bound_release(Bound *b)
{
    while (b && --b->refs == 0) {
        Bound *older = b->older;
        value_release(b->is.value);
        free(b);
        b = older;
    }
}

static void branch_release(Branch *b)
{
    while (b && --b->refs == 0) {
        Branch *outer = b->outer;
        bound_release(b->bound);
        free(b);
        b = outer;
    }
}

static void activation_release(Activation *a)
{
    while (a && --a->refs == 0) {
        Activation *caller = a->caller;
        bound_release(a->params);
        bound_release(a->bound);
        branch_release(a->branches);
        free(a);
        a = caller;
    }
}

#define RETAINED(x) ((x) ? ((x)->refs++, (x)) : NULL)

static void *counted(Recorder *r, const void *from, size_t size)
{
    void *p = memory_alloc(size);
    if (p)
        memcpy(p, from, size);
    else
        limit_reach(&r->s->cx.limits, LIMIT_MEMORY);
    return p;
}

/* A copy of the running activation, which the caller changes; the recorder's. */
static Activation *activation_next(Recorder *r)
{
    Activation *old = r->now;
    Activation *a = counted(r, old, sizeof *a);
    if (!a)
        return NULL;
    a->refs = 1;
    RETAINED(a->params);
    RETAINED(a->bound);
    RETAINED(a->branches);
    RETAINED(a->caller);
    r->now = a;
    activation_release(old);
    return a;
}

/* The variable in front of the list, which goes over to the result. */
static Bound *bound_add(Recorder *r, Bound *list, const Binding *is)
{
    Bound *b = counted(r, &(Bound){1, *is, list}, sizeof *b);
    if (!b)
        return list;
    value_retain(is->value);
    return b;
}

static Bound *bound_all(Recorder *r, Bound *list, const Event *e)
{
    for (uint32_t i = 0; i < e->n_bound; i++)
        if (e->bound[i].name)
            list = bound_add(r, list, &e->bound[i]);
    return list;
}

/* ---- references ---------------------------------------------------------------------------------- */

static void note_cell(Recorder *r, Value v, uint64_t born)
{
    if (v.kind != VALUE_REF || ptrmap_has(&r->cell_numbers, v.object) || r->n_cells >= CELLS_MOST)
        return;
    if (r->n_cells == r->cap_cells) {
        size_t cap = r->cap_cells ? 2 * r->cap_cells : 16;
        RecordCell *grown = memory_resize(r->cells, cap * sizeof *grown);
        if (!grown)
            return;
        r->cells = grown;
        r->cap_cells = cap;
    }
    r->cells[r->n_cells++] = (RecordCell){value_retain(v).object, born};
    ptrmap_put(&r->cell_numbers, v.object, (void *)(uintptr_t)r->n_cells);
}

/* Looks from the end back to step k for the first write behind it, which knows what the cell held before. */
bool record_cell(const Recorder *r, uint64_t k, size_t cell, Value *out)
{
    const RecordCell *c = &r->cells[cell];
    if (c->born > k)
        return false;
    *out = object_get(c->cell, 0);
    for (uint64_t i = r->n; i-- > k + 1 && i >= r->first;) {
        const RecordStep *s = recorder_step(r, i);
        if (s->kind == EVENT_REF_WRITE && s->args[0].object == c->cell)
            *out = s->args[2];
    }
    return true;
}

/* ---- frames -------------------------------------------------------------------------------------- */

static void enter(Recorder *r, const Event *e, Activation *caller)
{
    Activation a = {.refs = 1, .what = e->what, .global = e->global, .body = e->body};
    a.call = e->span;
    a.caller = caller;
    a.depth = caller ? caller->depth + 1 : 0;
    for (uint32_t i = 0; i < e->n && i < e->n_bound; i++)
        a.n_params += e->bound[i].name != NULL;
    a.bound = bound_all(r, NULL, e);
    a.params = RETAINED(a.bound);
    r->now = counted(r, &a, sizeof a);
    for (uint32_t i = 0; i < e->n_bound; i++)
        note_cell(r, e->bound[i].value, 0);
}

static void replace(Recorder *r, const Event *e)
{
    Activation *old = r->now, *caller = old->caller;
    enter(r, e, RETAINED(caller));
    if (r->now)
        r->now->call = old->call;
    activation_release(old);
}

static void leave(Recorder *r)
{
    Activation *old = r->now;
    if (!old->caller)
        return;
    r->now = RETAINED(old->caller);
    activation_release(old);
}

static void begin_branch(Recorder *r, const Event *e)
{
    Activation *a = activation_next(r);
    Branch branch = {1, e->id, a ? RETAINED(a->bound) : NULL, a ? a->branches : NULL};
    Branch *b = a ? counted(r, &branch, sizeof branch) : NULL;
    if (!b)
        return;
    a->branches = b;
    a->bound = bound_all(r, a->bound, e);
}

/* What the branch bound is not in scope behind it. */
static void end_branch(Recorder *r, const Event *e)
{
    Activation *a = activation_next(r);
    while (a && a->branches) {
        Branch *b = a->branches;
        bool found = b->id == e->id;
        a->branches = RETAINED(b->outer);
        bound_release(a->bound);
        a->bound = RETAINED(b->bound);
        branch_release(b);
        if (found)
            return;
    }
}

/* `%_` says that nobody wants the value. */
static bool is_wanted(const Name *name)
{
    return name && strcmp(name->text, "_") != 0;
}

static void bind_result(Recorder *r, const Binding *result)
{
    Activation *a = is_wanted(result->name) ? activation_next(r) : NULL;
    if (a)
        a->bound = bound_add(r, a->bound, result);
}

/* The expression's own frame stays in the picture, though the evaluator has no more need of it. */
static Event as_shown(Recorder *r, const Event *e)
{
    Event shown = *e;
    uint32_t depth = r->now ? r->now->depth : 0;
    if (e->kind == EVENT_TAIL_CALL && depth == 0) {
        shown.kind = EVENT_CALL;
        r->handed_over = true;
    }
    if (e->kind == EVENT_RETURN && depth == 1 && r->handed_over)
        shown.span = r->now->call;
    return shown;
}

static bool is_end(const Recorder *r, const Event *e)
{
    if (e->kind == EVENT_FAIL)
        return true;
    return e->kind == EVENT_RETURN && r->now && r->now->depth == (r->handed_over ? 1 : 0);
}

static void follow(Recorder *r, const Event *e)
{
    if (e->kind == EVENT_START || e->kind == EVENT_CALL)
        enter(r, e, r->now);
    if (!r->now)
        return;
    if (e->kind == EVENT_TAIL_CALL)
        replace(r, e);
    else if (e->kind == EVENT_RETURN)
        leave(r);
    else if (e->kind == EVENT_IF || e->kind == EVENT_MATCH)
        begin_branch(r, e);
    else if (e->kind == EVENT_JOIN)
        end_branch(r, e);
}

/* ---- steps --------------------------------------------------------------------------------------- */

static void step_clear(RecordStep *s)
{
    for (uint32_t i = 0; i < s->n_args && i < RECORD_ARGS; i++)
        value_release(s->args[i]);
    value_release(s->value);
    activation_release(s->now);
    free(s->message);
    *s = (RecordStep){0};
}

void recorder_drop(Recorder *r, uint64_t n)
{
    for (uint64_t i = 0; i < n && r->first < r->n; i++)
        step_clear(&r->steps[r->first++ % r->cap]);
}

/* Values that only the recording holds must not be what a program runs out of memory for. */
static void make_room(Recorder *r)
{
    const Limits *l = &r->s->cx.limits;
    if (r->n - r->first == r->cap)
        recorder_drop(r, 1);
    if (l->memory_most && atomic_load(&l->memory) > l->memory_most / 2)
        recorder_drop(r, (r->n - r->first) / 2);
}

/* A binding of the graph form, `%0 = e`, leaves no trace in the program but its text. */
static const Name *graph_name(Recorder *r, Span span)
{
    const Source *source = sources_get(&r->s->cx.sources, span.source);
    if (!source || span.from == 0)
        return NULL;
    const char *p = source->text + span.from, *begin = source->text;
    while (p > begin && (p[-1] == ' ' || p[-1] == '\n'))
        p--;
    if (p == begin || p[-1] != '=')
        return NULL;
    for (p--; p > begin && p[-1] == ' ';)
        p--;
    const char *end = p;
    while (p > begin && p[-1] >= '0' && p[-1] <= '9')
        p--;
    if (p == end || p == begin || p[-1] != '%')
        return NULL;
    return ctx_name_str(&r->s->cx, (Str){p, (size_t)(end - p)});
}

static bool gives_value(EventKind kind)
{
    return kind != EVENT_START && kind != EVENT_IF && kind != EVENT_MATCH && kind != EVENT_CALL &&
           kind != EVENT_TAIL_CALL && kind != EVENT_FAIL;
}

static void step_values(RecordStep *step, const Event *e)
{
    step->n_args = e->n;
    for (uint32_t i = 0; i < e->n && i < RECORD_ARGS; i++)
        step->args[i] = value_retain(e->args[i]);
    step->value = value_retain(e->result.value);
}

static uint32_t count_new(const Activation *before, const Activation *now)
{
    uint32_t n = 0;
    if (!now)
        return 0;
    const Bound *old = before && before->depth == now->depth ? before->bound : NULL;
    for (const Bound *b = now->bound; b && b != old && n < 1000; b = b->older)
        n++;
    return n;
}

/* What a step says besides values, once the state after it is known. */
static RecordStep describe(Recorder *r, const Event *e, const Activation *before)
{
    bool call = e->kind == EVENT_CALL || e->kind == EVENT_TAIL_CALL;
    const Activation *where = call ? before : r->now;
    RecordStep step = {
        .kind = e->kind,
        .choice = e->choice,
        .span = e->span,
        .pattern = e->pattern,
        .region = where ? where->body : e->span,
        .what = e->what,
        .global = e->global,
        .before = where ? where->last : 0,
    };
    if (call || e->kind == EVENT_START || e->kind == EVENT_MATCH)
        step.n_new = count_new(call ? NULL : before, r->now);
    return step;
}

static void push(Recorder *r, RecordStep *step, const Event *e)
{
    if (r->n < r->keep_from) {
        r->first = ++r->n;
        return;
    }
    make_room(r);
    step_values(step, e);
    if (e->kind == EVENT_FAIL && r->s->cx.diags->last)
        step->message =
            memory_text(r->s->cx.diags->last->message, strlen(r->s->cx.diags->last->message));
    step->now = RETAINED(r->now);
    r->steps[r->n++ % r->cap] = *step;
}

void recorder_add(Recorder *r, const Event *event)
{
    Event shown = as_shown(r, event);
    const Event *e = &shown;
    Activation *before = RETAINED(r->now);
    r->done = is_end(r, e);
    follow(r, e);
    RecordStep step = describe(r, e, before);
    Binding result = e->result;
    if (gives_value(e->kind)) {
        result.name = result.name ? result.name : graph_name(r, e->span);
        bind_result(r, &result);
        step.name = is_wanted(result.name) ? result.name : NULL;
        step.n_new = step.name != NULL;
        if (r->now)
            r->now->last = r->n + 1;
    }
    if (e->kind == EVENT_REF_NEW)
        note_cell(r, e->result.value, r->n);
    if (e->kind == EVENT_REF_WRITE || e->kind == EVENT_REF_READ)
        note_cell(r, e->args[0], 0);
    push(r, &step, e);
    activation_release(before);
}

void recorder_mark(Recorder *r, RelayStop stop)
{
    if (r->first < r->n)
        r->steps[(r->n - 1) % r->cap].stop = stop;
}

bool recorder_init(Recorder *r, RelaySession *s, size_t most)
{
    *r = (Recorder){.s = s, .cap = most};
    arena_init(&r->texts, &s->cx.limits);
    r->steps = memory_zeroed(most, sizeof *r->steps);
    return r->steps || !limit_reach(&s->cx.limits, LIMIT_MEMORY);
}

void recorder_deinit(Recorder *r)
{
    recorder_drop(r, r->n - r->first);
    activation_release(r->now);
    for (size_t i = 0; i < r->n_cells; i++)
        value_release(value_object(r->cells[i].cell));
    ptrmap_deinit(&r->cell_numbers);
    arena_deinit(&r->texts);
    free(r->cells);
    free(r->steps);
    *r = (Recorder){0};
}

const RecordStep *recorder_step(const Recorder *r, uint64_t k)
{
    return &r->steps[k % r->cap];
}
