/* Running programs: stage by stage, each as a view, as matrix products, or in strips. */
#include "te/internal.h"

#include <string.h>

bool te_run_stopped(TeRun *run)
{
    if (atomic_load_explicit(&run->refused, memory_order_relaxed))
        limit_reach(&run->cx->limits, LIMIT_MEMORY);
    return atomic_load_explicit(&run->fault, memory_order_relaxed) || limit_hit(&run->cx->limits);
}

bool te_run_loop(TeRun *run, int64_t n, int64_t grain,
                 void (*body)(void *data, int64_t from, int64_t to), void *data)
{
    pool_for(run->cx->pool, n, grain, body, data);
    return !te_run_stopped(run);
}

/* ---- maps ---------------------------------------------------------------------------------------- */

/* A range of one axis and the expression there. */
typedef struct Piece {
    int axis; /* -1: the whole space */
    int64_t low, high;
    const Te *body;
} Piece;

/* axis < constant, the condition that joins leave. */
static bool is_below(const Te *cond, int *axis, int64_t *limit)
{
    if (cond->kind != TE_NODE_BINARY || cond->op != TE_LT || cond->a->kind != TE_NODE_AXIS ||
        cond->b->kind != TE_NODE_CONST)
        return false;
    *axis = cond->a->axis;
    *limit = value_as_int(cond->b->value);
    return true;
}

/* The next piece of a chain of selects along one axis from `low` on; what remains goes to *body. */
static Piece next_piece(const TeStage *s, const Te **body, int64_t low, int axis)
{
    int at;
    int64_t limit;
    const Te *e = *body;
    while (e->kind == TE_NODE_SELECT && is_below(e->a, &at, &limit) && (axis < 0 || at == axis)) {
        if (limit > low && limit < s->shape[at]) {
            *body = e->c;
            return (Piece){at, low, limit, e->b};
        }
        e = limit <= low ? e->c : e->b;
    }
    *body = NULL;
    return (Piece){axis, low, axis < 0 ? 0 : s->shape[axis], e};
}

typedef struct MapWork {
    TeRun *run;
    const Strip *strip;
    char *out;
    size_t size;
    int64_t length, pitch,
        first; /* rows of `length` positions, each `pitch` behind the one before */
} MapWork;

static void note_fault(TeRun *run, const StripFrame *f)
{
    if (f->fault)
        atomic_store(&run->fault, f->fault);
}

static void map_range(void *data, int64_t from, int64_t to)
{
    const MapWork *w = data;
    StripFrame f;
    int64_t most = w->length < to - from ? w->length : to - from, length = strip_length(w->strip);
    if (!strip_begin(&f, w->strip, most)) {
        atomic_store(&w->run->refused, true);
        return;
    }
    if (length > most)
        length = most;
    while (from < to && !te_run_waits(w->run)) {
        int64_t row = from / w->length, at = from % w->length, n = w->length - at;
        n = n < to - from ? n : to - from;
        n = n < length ? n : length;
        int64_t position = w->first + row * w->pitch + at;
        if (!strip_eval(&f, position, n, w->out + (size_t)position * w->size))
            break;
        from += n;
    }
    note_fault(w->run, &f);
    strip_end(&f);
}

static void whole_space(const TeStage *s, StripSpace *space)
{
    memset(space, 0, sizeof *space);
    for (int i = 0; i < s->rank + s->n_reduced; i++)
        space->high[i] = i < s->rank ? s->shape[i] : s->reduced[i - s->rank];
    space->n = s->rank;
    for (int i = 0; i < s->rank; i++) {
        space->axis[i] = i;
        space->extent[i] = s->shape[i];
    }
}

static int64_t span_of(const int64_t *shape, int from, int to)
{
    int64_t n = 1;
    for (int i = from; i < to; i++)
        n *= shape[i];
    return n;
}

enum { MAP_GRAIN = 16384 };

static bool run_piece(TeRun *run, const TeStage *s, const Piece *piece, char *out)
{
    StripSpace space;
    whole_space(s, &space);
    MapWork w = {.run = run, .out = out, .size = dtype_size(s->dtype)};
    int64_t inner = 1, rows = 1;
    w.length = span_of(s->shape, 0, s->rank);
    if (piece->axis >= 0) {
        space.low[piece->axis] = piece->low;
        space.high[piece->axis] = piece->high;
        inner = span_of(s->shape, piece->axis + 1, s->rank);
        rows = span_of(s->shape, 0, piece->axis);
        w.length = (piece->high - piece->low) * inner;
        w.pitch = s->shape[piece->axis] * inner;
        w.first = piece->low * inner;
    }
    if (w.length * rows == 0)
        return true;
    w.strip = strip_make(&run->arena, run->p, run->data, piece->body, &space);
    return te_run_loop(run, w.length * rows, MAP_GRAIN, map_range, &w);
}

bool te_run_map(TeRun *run, const TeStage *s, char *out)
{
    const Te *body = s->body;
    int axis = -1;
    int64_t low = 0;
    while (body) {
        Piece piece = next_piece(s, &body, low, axis);
        axis = piece.axis;
        low = piece.high;
        if (!run_piece(run, s, &piece, out))
            return false;
    }
    return true;
}

/* ---- programs ------------------------------------------------------------------------------------ */

static bool run_stage(TeRun *run, int i)
{
    const TeProgram *p = run->p;
    const TeStage *s = &p->stages[i];
    int id = p->n_inputs + i, view = te_view_of(p, s, NULL);
    if (view >= 0) {
        int64_t strides[TENSOR_RANK_MOST];
        shape_strides(s->rank, s->shape, strides);
        run->tensors[id] = tensor_view(run->tensors[view], s->rank, s->shape, strides, 0);
        run->data[id] = run->data[view];
        return run->tensors[id] != NULL;
    }
    Tensor *t = tensor_new_raw(&run->cx->limits, s->dtype, s->rank, s->shape);
    if (!t)
        return false;
    run->tensors[id] = t;
    run->data[id] = t->data;
    if (t->size == 0)
        return true;
    if (s->reduce == TE_NO_REDUCE)
        return te_run_map(run, s, t->data);
    if (te_run_contraction(run, i, t->data))
        return !te_run_stopped(run);
    return te_run_reduce(run, s, t->data);
}

typedef struct Reading {
    int id;
    bool found;
} Reading;

static void note_reading(void *data, Te *e)
{
    Reading *r = data;
    r->found = r->found || (e->kind == TE_NODE_LOAD && e->tensor == r->id);
}

/* Whether any element of the input is needed: a shape may be all that is asked for. */
static bool is_read(TeRun *run, int id)
{
    const TeProgram *p = run->p;
    Reading r = {.id = id};
    PtrMap seen = {0};
    for (int i = 0; i < p->n_stages && !r.found; i++)
        te_each(&run->arena, &seen, p->stages[i].body, note_reading, &r);
    for (int i = 0; i < p->n_outputs; i++)
        r.found = r.found || p->outputs[i] == id;
    ptrmap_deinit(&seen);
    return r.found;
}

/* An input as a tensor of its own without gaps: views with a buffer share it, immediates are copied. */
static Tensor *own_input(TeRun *run, const TensorView *v, int id)
{
    if (v->t.buffer) {
        Tensor *t = tensor_view(&v->t, v->t.rank, v->t.shape, v->t.strides, 0);
        if (t && !tensor_is_contiguous(t) && !is_read(run, id))
            return t;
        Tensor *packed = t ? tensor_contiguous(&run->cx->limits, t) : NULL;
        tensor_release(t);
        return packed;
    }
    Tensor *t = tensor_new_raw(&run->cx->limits, v->t.dtype, v->t.rank, v->t.shape);
    if (t)
        memcpy(t->data, v->t.data, (size_t)t->size * dtype_size(t->dtype));
    return t;
}

void te_fault(Diags *diags, Span span, const char *fault)
{
    static const struct {
        const char *fault;
        DiagCode code;
        const char *help;
    } faults[] = {
        {TE_FAULT_ZERO, E0302_DIVIDE_BY_ZERO, "ask first: `if (… == 0) { … } else { … }`"},
        {TE_FAULT_SHIFT, E0307_RUNTIME_VALUE, "counts are 0 or more"},
        {TE_FAULT_PLACE, E0304_INDEX,
         "indices are below the extent; negative ones count from the end"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++)
        if (!strcmp(fault, faults[i].fault))
            diag_help(diag_error(diags, faults[i].code, span, "%s", fault), "%s", faults[i].help);
}

static void report_fault(TeRun *run)
{
    const char *fault = atomic_load(&run->fault);
    if (!fault)
        return;
    te_fault(run->cx->diags, run->span, fault);
}

static bool run_program(TeRun *run, const TensorView *inputs)
{
    const TeProgram *p = run->p;
    int n = p->n_inputs + p->n_stages;
    run->tensors = arena_alloc_must(&run->arena, (size_t)n + 1, sizeof *run->tensors);
    run->data = arena_alloc_must(&run->arena, (size_t)n + 1, sizeof *run->data);
    for (int i = 0; i < p->n_inputs; i++) {
        run->tensors[i] = own_input(run, &inputs[i], i);
        if (!run->tensors[i])
            return false;
        run->data[i] = run->tensors[i]->data;
    }
    for (int i = 0; i < p->n_stages; i++) {
        if (run_stage(run, i))
            continue;
        report_fault(run);
        return false;
    }
    return true;
}

bool te_run(Ctx *cx, const TeProgram *p, Span span, const TensorView *inputs, Tensor **outputs)
{
    TeRun run = {.cx = cx, .p = p, .span = span};
    arena_init(&run.arena, &cx->limits);
    bool good = run_program(&run, inputs);
    for (int i = 0; good && i < p->n_outputs; i++)
        outputs[i] = tensor_retain(run.tensors[p->outputs[i]]);
    for (int i = 0; run.tensors && i < p->n_inputs + p->n_stages; i++)
        tensor_release(run.tensors[i]);
    arena_deinit(&run.arena);
    return good;
}

/* ---- scalars ------------------------------------------------------------------------------------- */

bool te_is_scalar(const TeProgram *p)
{
    if (p->n_outputs != 1 || p->tuple)
        return false;
    for (int i = 0; i < p->n_inputs; i++)
        if (p->inputs[i].rank)
            return false;
    for (int i = 0; i < p->n_stages; i++)
        if (p->stages[i].rank || p->stages[i].reduce != TE_NO_REDUCE)
            return false;
    return true;
}

enum { SCALAR_DEPTH = 100 };

typedef struct Scalars {
    const TeProgram *p;
    const Value *args;
    const Value *stages;
    const char *fault;
    int depth;
} Scalars;

static uint64_t scalar_of(Scalars *s, const Te *e)
{
    uint64_t out = 0, a, b;
    if (++s->depth > SCALAR_DEPTH) {
        s->fault = "";
        return 0;
    }
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: out = e->value.bits; break;
    case TE_NODE_AXIS: break;
    case TE_NODE_LOAD:
        out = e->tensor < s->p->n_inputs ? s->args[e->tensor].bits
                                         : s->stages[e->tensor - s->p->n_inputs].bits;
        break;
    case TE_NODE_UNARY:
        a = scalar_of(s, e->a);
        te_loop_unary((TeOp)e->op, dtype_id(e->a->dtype), &out, &a, 1);
        break;
    case TE_NODE_BINARY: {
        DTypeId id = dtype_id(e->a->dtype);
        a = scalar_of(s, e->a);
        b = scalar_of(s, e->b);
        if (!s->fault && !dtype_is_float(e->a->dtype))
            s->fault = te_loop_fault((TeOp)e->op, id, &a, &b, 1);
        if (!s->fault)
            te_loop_binary((TeOp)e->op, id, &out, &a, &b, 1);
        break;
    }
    case TE_NODE_CAST:
        a = scalar_of(s, e->a);
        te_loop_cast(dtype_id(e->dtype), dtype_id(e->a->dtype), &out, &a, 1);
        break;
    case TE_NODE_SELECT: /* both are computed, as for tensors: one that stops with an error does so here, too */
        out = scalar_of(s, e->a);
        a = scalar_of(s, e->b);
        b = scalar_of(s, e->c);
        out = out & 0xff ? a : b;
        break;
    }
    s->depth--;
    return out;
}

/* The expression is too deep for recursion: as tensors of rank 0. */
static Value run_deep_scalar(Ctx *cx, const TeProgram *p, Span span, const Value *args)
{
    Arena scratch;
    Tensor *out = NULL;
    arena_init(&scratch, &cx->limits);
    TensorView *views = arena_alloc_must(&scratch, (size_t)p->n_inputs + 1, sizeof *views);
    for (int i = 0; i < p->n_inputs; i++)
        value_view(&args[i], &views[i]);
    Value v = te_run(cx, p, span, views, &out) ? value_tensor(out) : value_none();
    arena_deinit(&scratch);
    return v;
}

Value te_run_scalar(Ctx *cx, const TeProgram *p, Span span, const Value *args)
{
    Value few[8];
    Scalars s = {.p = p, .args = args, .stages = few};
    int out = p->outputs[0];
    if (out < p->n_inputs)
        return args[out];
    if (p->n_stages > 8)
        return run_deep_scalar(cx, p, span, args);
    for (int i = 0; i < p->n_stages; i++) {
        few[i] = (Value){.kind = VALUE_SCALAR, .dtype = p->stages[i].dtype};
        few[i].bits = scalar_of(&s, p->stages[i].body);
        if (!s.fault)
            continue;
        if (!*s.fault)
            return run_deep_scalar(cx, p, span, args);
        TeRun run = {.cx = cx, .p = p, .span = span};
        atomic_store(&run.fault, s.fault);
        report_fault(&run);
        return value_none();
    }
    return few[out - p->n_inputs];
}
