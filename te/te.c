#include "te/internal.h"

#include "base/number.h"
#include "base/table.h"

static const DType index_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType bool_dtype = {DTYPE_CODE_UINT, 1, 1};

/* ---- what a compute function asks -------------------------------------------------------------- */

TeTensor te_input(const TeBuilder *b, int i)
{
    return b->args[i];
}

int te_n_inputs(const TeBuilder *b)
{
    return b->n_args;
}

int te_n_outputs(const TeBuilder *b)
{
    return b->result->kind == TYPE_TUPLE ? (int)b->result->n : 1;
}

static const Type *out_type(const TeBuilder *b, int i)
{
    return b->result->kind == TYPE_TUPLE ? b->result->parts[i] : b->result;
}

DType te_out_dtype(const TeBuilder *b, int i)
{
    return out_type(b, i)->dtype;
}

int te_out_rank(const TeBuilder *b, int i)
{
    return (int)out_type(b, i)->n;
}

const int64_t *te_out_shape(const TeBuilder *b, int i)
{
    return out_type(b, i)->dims;
}

/* ---- nodes ------------------------------------------------------------------------------------- */

static Te *te_node(TeBuilder *b, TeKind kind, DType dtype)
{
    Te *e = arena_new(b->arena, Te);
    e->kind = (uint8_t)kind;
    e->dtype = dtype;
    e->span = b->span;
    return e;
}

Te *te_axis(TeBuilder *b, int axis)
{
    Te *e = te_node(b, TE_NODE_AXIS, index_dtype);
    e->axis = axis;
    return e;
}

Te *te_int(TeBuilder *b, int64_t v)
{
    Te *e = te_node(b, TE_NODE_CONST, index_dtype);
    e->value = value_int64(v);
    return e;
}

Te *te_number(TeBuilder *b, DType dtype, double v)
{
    Te *e = te_node(b, TE_NODE_CONST, dtype);
    e->value = value_scalar_double(dtype, v);
    return e;
}

Te *te_bound(TeBuilder *b, DType dtype, bool least)
{
    Te *e = te_node(b, TE_NODE_CONST, dtype);
    if (dtype_is_float(dtype)) {
        e->value = value_scalar_double(dtype, least ? -__builtin_inf() : __builtin_inf());
    } else if (dtype_is_signed(dtype)) {
        int64_t low = dtype.bits >= 64 ? INT64_MIN : -((int64_t)1 << (dtype.bits - 1));
        e->value = value_scalar_int(dtype, least ? low : -(low + 1));
    } else {
        e->value = value_scalar_int(dtype, least ? 0 : dtype_is_bool(dtype) ? 1 : -1);
    }
    return e;
}

Te *te_load_or(TeBuilder *b, TeTensor t, Te *const *index, Te *otherwise)
{
    for (int i = 0; i < t.rank; i++)
        if (t.shape[i] == 0) /* no index is in range, clamped or not */
            return otherwise ? otherwise : te_number(b, t.dtype, 0);
    Te *e = te_node(b, TE_NODE_LOAD, t.dtype);
    e->tensor = t.id;
    e->n = (uint8_t)t.rank;
    e->index = arena_copy(b->arena, index, (size_t)t.rank * sizeof(Te *));
    e->otherwise = otherwise;
    return e;
}

Te *te_load(TeBuilder *b, TeTensor t, Te *const *index)
{
    return te_load_or(b, t, index, NULL);
}

Te *te_cast(TeBuilder *b, DType dtype, Te *x)
{
    if (dtype_eq(dtype, x->dtype))
        return x;
    Te *e = te_node(b, TE_NODE_CAST, dtype);
    e->a = x;
    return e;
}

Te *te_select(TeBuilder *b, Te *cond, Te *x, Te *y)
{
    Te *e = te_node(b, TE_NODE_SELECT, x->dtype);
    e->a = cond;
    e->b = x;
    e->c = y;
    return e;
}

static DType te_result_dtype(TeOp op, DType operand)
{
    enum { SAME, BOOL };
    static const uint8_t results[TE_OPS] = {
#define TE_UNARY(ID, name, result) [TE_##ID] = result,
#define TE_BINARY(ID, name, result) [TE_##ID] = result,
#include "te/scalar.def"
#undef TE_UNARY
#undef TE_BINARY
    };
    return results[op] == BOOL ? bool_dtype : operand;
}

/* Integers have no logarithms and the like: those are the ones of the number. */
static bool is_of_floats(TeOp op)
{
    return op != TE_NEG && op != TE_ABS && op != TE_FLOOR && op != TE_CEIL && op != TE_TRUNC &&
           op != TE_ROUND && op != TE_SIGN && op != TE_NOT && op != TE_ISNAN && op != TE_ISINF &&
           op != TE_ISFINITE;
}

Te *te_unary(TeBuilder *b, TeOp op, Te *x)
{
    static const DType number = {DTYPE_CODE_FLOAT, 32, 1};
    if (!dtype_is_float(x->dtype) && is_of_floats(op))
        return te_cast(b, x->dtype, te_unary(b, op, te_cast(b, number, x)));
    Te *e = te_node(b, TE_NODE_UNARY, te_result_dtype(op, x->dtype));
    e->op = (uint8_t)op;
    e->a = x;
    return e;
}

static bool is_index_const(const Te *e, int64_t *v)
{
    if (e->kind != TE_NODE_CONST || !dtype_eq(e->dtype, index_dtype))
        return false;
    *v = value_as_int(e->value);
    return true;
}

/* The value of two constants of index arithmetic; false for what is not folded. */
static bool fold_consts(TeOp op, int64_t x, int64_t y, int64_t *v)
{
    if (op == TE_ADD)
        return int64_add(x, y, v);
    if (op == TE_MUL)
        return int64_mul(x, y, v);
    if (op == TE_SUB)
        return int64_sub(x, y, v);
    if (op == TE_DIV && y > 0)
        return *v = x / y, true;
    if (op == TE_MOD && y > 0)
        return *v = x % y, true;
    return false;
}

/* Index arithmetic with a neutral or absorbing constant; NULL when it is neither. */
static Te *fold_neutral(TeBuilder *b, TeOp op, Te *x, Te *y)
{
    int64_t v;
    if (is_index_const(x, &v)) {
        if (op == TE_ADD && v == 0)
            return y;
        if (op == TE_MUL && (v == 0 || v == 1))
            return v ? y : x;
    }
    if (is_index_const(y, &v)) {
        if ((op == TE_ADD || op == TE_SUB) && v == 0)
            return x;
        if (op == TE_MUL && (v == 0 || v == 1))
            return v ? x : y;
        if (op == TE_DIV && v == 1)
            return x;
        if (op == TE_MOD && v == 1)
            return te_int(b, 0);
    }
    return NULL;
}

Te *te_binary(TeBuilder *b, TeOp op, Te *x, Te *y)
{
    if (dtype_eq(x->dtype, index_dtype)) {
        int64_t u, v, folded;
        if (is_index_const(x, &u) && is_index_const(y, &v) && fold_consts(op, u, v, &folded))
            return te_int(b, folded);
        Te *e = fold_neutral(b, op, x, y);
        if (e)
            return e;
    }
    Te *e = te_node(b, TE_NODE_BINARY, te_result_dtype(op, x->dtype));
    e->op = (uint8_t)op;
    e->a = x;
    e->b = y;
    return e;
}

/* ---- positions --------------------------------------------------------------------------------- */

/* `n` notes what te_split needs to know. */
Te *te_join(TeBuilder *b, Te *x, int64_t extent, Te *y)
{
    Te *e = te_binary(b, TE_ADD, te_binary(b, TE_MUL, x, te_int(b, extent)), y);
    if (e->kind == TE_NODE_BINARY && e->op == TE_ADD && e->b == y && e->a->kind == TE_NODE_BINARY &&
        e->a->op == TE_MUL)
        e->n = 1;
    return e;
}

void te_split(TeBuilder *b, Te *flat, int64_t extent, Te **quotient, Te **remainder)
{
    int64_t c = 0;
    if (extent < 1)
        extent = 1; /* the space is empty: nothing will be computed */
    if (flat->kind == TE_NODE_BINARY && flat->n == 1 && is_index_const(flat->a->b, &c) && c > 0) {
        Te *x = flat->a->a, *y = flat->b, *q, *r;
        if (c % extent == 0) {
            te_split(b, y, extent, &q, remainder);
            *quotient = te_join(b, x, c / extent, q);
            if (c == extent)
                *quotient = x, *remainder = y;
            return;
        }
        if (extent % c == 0) {
            te_split(b, x, extent / c, quotient, &r);
            *remainder = te_join(b, r, c, y);
            return;
        }
    }
    *quotient = te_binary(b, TE_DIV, flat, te_int(b, extent));
    *remainder = te_binary(b, TE_MOD, flat, te_int(b, extent));
}

Te *te_flatten(TeBuilder *b, int rank, const int64_t *shape, Te *const *index)
{
    Te *flat = NULL;
    for (int i = 0; i < rank; i++)
        if (shape[i] != 1)
            flat = flat ? te_join(b, flat, shape[i], index[i]) : index[i];
    return flat ? flat : te_int(b, 0);
}

void te_unflatten(TeBuilder *b, int rank, const int64_t *shape, Te *flat, Te **index)
{
    int first = 0;
    while (first < rank && shape[first] == 1)
        index[first++] = te_int(b, 0);
    for (int i = rank - 1; i > first; i--) {
        if (shape[i] == 1)
            index[i] = te_int(b, 0);
        else
            te_split(b, flat, shape[i], &flat, &index[i]);
    }
    if (first < rank)
        index[first] = flat;
}

Te *te_load_broadcast(TeBuilder *b, TeTensor t, int out_rank)
{
    Te *index[TENSOR_RANK_MOST];
    for (int i = 0; i < t.rank; i++)
        index[i] = t.shape[i] == 1 ? te_int(b, 0) : te_axis(b, out_rank - t.rank + i);
    return te_load(b, t, index);
}

/* ---- stages ------------------------------------------------------------------------------------ */

static TeTensor te_add_tensor(TeBuilder *b, DType dtype, int rank, const int64_t *shape)
{
    TeTensor t = {.id = (int)b->tensors.n, .dtype = dtype, .rank = rank, .shape = shape};
    vec_push(&b->tensors, b->arena, t);
    return t;
}

static bool is_empty(int n, const int64_t *shape)
{
    for (int i = 0; i < n; i++)
        if (shape[i] == 0)
            return true;
    return false;
}

/* What a fold of no elements is. */
static Te *of_nothing(TeBuilder *b, TeReduce kind, DType dtype)
{
    if (kind >= TE_ARGMAX)
        return te_number(b, dtype, 0);
    DTypeId id = te_fold_dtype(dtype_id(dtype));
    uint64_t start = 0;
    te_loop_fold_start(kind, id, &start);
    Te *e = te_node(b, TE_NODE_CONST, dtype_of(id));
    e->value = value_scalar(dtype_of(id), &start);
    return te_cast(b, dtype, e);
}

TeTensor te_reduce(TeBuilder *b, TeReduce kind, DType dtype, int rank, const int64_t *shape,
                   int n_reduced, const int64_t *reduced, Te *body)
{
    /* So nobody who reads or computes a program meets a fold of nothing. */
    if (is_empty(n_reduced, reduced))
        return te_map(b, dtype, rank, shape, of_nothing(b, kind, dtype));
    TeStage s = {.dtype = dtype,
                 .rank = rank,
                 .shape = arena_copy(b->arena, shape, (size_t)rank * sizeof *shape),
                 .reduce = kind,
                 .n_reduced = n_reduced,
                 .reduced = arena_copy(b->arena, reduced, (size_t)n_reduced * sizeof *reduced),
                 .body = body,
                 .name = b->op ? b->op->name : NULL};
    vec_push(&b->stages, b->arena, s);
    return te_add_tensor(b, dtype, rank, s.shape);
}

TeTensor te_map(TeBuilder *b, DType dtype, int rank, const int64_t *shape, Te *body)
{
    return te_reduce(b, TE_NO_REDUCE, dtype, rank, shape, 0, shape, body);
}

TeTensor te_scatter(TeBuilder *b, TeReduce kind, TeTensor onto, int n_reduced,
                    const int64_t *reduced, Te *at, Te *body)
{
    Te *axes[TE_AXES_MOST];
    for (int i = 0; i < onto.rank; i++)
        axes[i] = te_axis(b, i);
    if (is_empty(n_reduced, reduced))
        return te_map(b, onto.dtype, onto.rank, onto.shape, te_load(b, onto, axes));
    TeTensor t = te_reduce(b, kind, onto.dtype, onto.rank, onto.shape, n_reduced, reduced, body);
    vec_last(&b->stages).at = at;
    vec_last(&b->stages).onto = onto.id;
    return t;
}

void te_output(TeBuilder *b, TeTensor t)
{
    vec_push(&b->outputs, b->arena, t.id);
}

/* ---- programs ---------------------------------------------------------------------------------- */

void te_begin(TeBuilder *b, Ctx *cx, Arena *arena)
{
    *b = (TeBuilder){.cx = cx, .arena = arena};
}

TeTensor te_add_input(TeBuilder *b, DType dtype, int rank, const int64_t *shape)
{
    b->n_inputs++;
    return te_add_tensor(b, dtype, rank, arena_copy(b->arena, shape, (size_t)rank * sizeof *shape));
}

int te_call(TeBuilder *b, const Op *op, const Attrs *attrs, Span span, const Type *result, int n,
            const TeTensor *args, int most, TeTensor *out)
{
    b->op = op;
    b->attrs = attrs;
    b->span = span;
    b->result = result;
    b->args = args;
    b->n_args = n;
    b->outputs.n = 0;
    (op->compute ? op->compute : op->card ? op->card : op->expression)(b);
    if (b->failed)
        return -1;
    int made = (int)b->outputs.n;
    if (made != te_n_outputs(b) || made > most) {
        diag_bug(b->cx->diags, span, "`%s` computed %d results", op->name, made);
        b->failed = true;
        return -1;
    }
    for (int i = 0; i < made; i++)
        out[i] = b->tensors.at[b->outputs.at[i]];
    return made;
}

static void mark_load(void *data, Te *e)
{
    bool *needed = data;
    if (e->kind == TE_NODE_LOAD)
        needed[e->tensor] = true;
}

static void renumber_load(void *data, Te *e)
{
    const int *ids = data;
    if (e->kind == TE_NODE_LOAD)
        e->tensor = ids[e->tensor];
}

bool te_may_fault(const Te *e)
{
    bool risky =
        e->kind == TE_NODE_BINARY &&
        (e->op == TE_DIV || e->op == TE_MOD || e->op == TE_FLOORDIV || e->op == TE_FLOORMOD ||
         e->op == TE_TRUNCDIV || e->op == TE_SHL || e->op == TE_SHR);
    if (e->kind == TE_NODE_BINARY && e->op == TE_PLACE)
        return true;
    if (!risky || dtype_is_float(e->a->dtype))
        return false;
    return e->b->kind != TE_NODE_CONST || value_as_int(e->b->value) <= 0;
}

static void note_fault(void *data, Te *e)
{
    bool *found = data;
    *found |= te_may_fault(e);
}

bool te_holds_fault(Arena *arena, const Te *body)
{
    bool found = false;
    PtrMap seen = {0};
    te_each(arena, &seen, (Te *)(uintptr_t)body, note_fault, &found);
    ptrmap_deinit(&seen);
    return found;
}

bool te_stage_faults(Arena *arena, const TeStage *s)
{
    return te_holds_fault(arena, s->body) || (s->at && te_holds_fault(arena, s->at));
}

static void add_place(void *data, Te *e)
{
    if (te_may_fault(e))
        buf_bytes(data, (const char *)&e->span, sizeof e->span);
}

bool te_fault_places(Arena *arena, const Te *body, Buf *out)
{
    PtrMap seen = {0};
    size_t before = out->n;
    if (body)
        te_each(arena, &seen, (Te *)(uintptr_t)body, add_place, out);
    ptrmap_deinit(&seen);
    return out->n > before;
}

void te_program_fault_places(Arena *arena, const TeProgram *p, Span span, Buf *out)
{
    bool any = false;
    for (int i = 0; i < p->n_stages; i++) {
        any |= te_fault_places(arena, p->stages[i].body, out);
        any |= te_fault_places(arena, p->stages[i].at, out);
    }
    if (any)
        buf_bytes(out, (const char *)&span, sizeof span);
}

/* Drops the stages that no output needs; the others move up. What may stop with an error stays: a
 * value that nobody uses is computed all the same. */
static void drop_unneeded(TeProgram *p, Arena *arena, const bool *gone)
{
    int n = p->n_inputs + p->n_stages, next = p->n_inputs;
    bool *needed = arena_alloc_must(arena, (size_t)n, sizeof *needed);
    int *ids = arena_alloc_must(arena, (size_t)n, sizeof *ids);
    for (int i = 0; i < p->n_outputs; i++)
        needed[p->outputs[i]] = true;
    for (int i = 0; i < p->n_stages; i++)
        if (!(gone && gone[i]) && te_stage_faults(arena, &p->stages[i]))
            needed[p->n_inputs + i] = true;
    PtrMap seen = {0};
    for (int i = p->n_stages - 1; i >= 0; i--) {
        const TeStage *s = &p->stages[i];
        if (needed[p->n_inputs + i])
            te_each(arena, &seen, s->body, mark_load, needed);
        if (needed[p->n_inputs + i] && s->at) {
            te_each(arena, &seen, s->at, mark_load, needed);
            needed[s->onto] = true;
        }
    }
    ptrmap_deinit(&seen);
    for (int i = 0; i < n; i++)
        ids[i] = i < p->n_inputs ? i : needed[i] ? next++ : -1;
    if (next == n)
        return;
    int kept = 0;
    for (int i = 0; i < p->n_stages; i++)
        if (needed[p->n_inputs + i])
            p->stages[kept++] = p->stages[i];
    p->n_stages = kept;
    PtrMap renumbered = {0};
    for (int i = 0; i < kept; i++) {
        TeStage *s = &p->stages[i];
        te_each(arena, &renumbered, s->body, renumber_load, ids);
        if (s->at) {
            te_each(arena, &renumbered, s->at, renumber_load, ids);
            s->onto = ids[s->onto];
        }
    }
    ptrmap_deinit(&renumbered);
    for (int i = 0; i < p->n_outputs; i++)
        p->outputs[i] = ids[p->outputs[i]];
}

TeProgram *te_finish_without(TeBuilder *b, int n, const TeTensor *outputs, bool tuple,
                             const bool *gone)
{
    if (b->failed)
        return NULL;
    TeProgram *p = arena_new(b->arena, TeProgram);
    p->n_inputs = b->n_inputs;
    p->inputs = b->tensors.at;
    p->n_stages = (int)b->stages.n;
    p->stages = b->stages.at;
    p->n_outputs = n;
    p->outputs = arena_new_array(b->arena, int, (size_t)n + 1);
    p->tuple = tuple;
    for (int i = 0; i < n; i++)
        p->outputs[i] = outputs[i].id;
    drop_unneeded(p, b->arena, gone);
    return p;
}

TeProgram *te_finish(TeBuilder *b, int n, const TeTensor *outputs, bool tuple)
{
    return te_finish_without(b, n, outputs, tuple, NULL);
}

TeTensor *te_begin_from(TeBuilder *b, Ctx *cx, Arena *arena, const TeProgram *p)
{
    te_begin(b, cx, arena);
    TeTensor *made = arena_alloc_must(arena, (size_t)(p->n_inputs + p->n_stages) + 1, sizeof *made);
    for (int i = 0; i < p->n_inputs; i++)
        made[i] = te_add_input(b, p->inputs[i].dtype, p->inputs[i].rank, p->inputs[i].shape);
    return made;
}

TeTensor te_add_stage(TeBuilder *b, const TeStage *s, Te *body)
{
    return te_reduce(b, s->reduce, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced, body);
}

TeProgram *te_finish_from(TeBuilder *b, const TeProgram *p, const TeTensor *made)
{
    TeTensor *outputs = arena_alloc_must(b->arena, (size_t)p->n_outputs + 1, sizeof *outputs);
    for (int i = 0; i < p->n_outputs; i++)
        outputs[i] = made[p->outputs[i]];
    p = te_finish(b, p->n_outputs, outputs, p->tuple);
    return p ? te_inline(b->cx, b->arena, p) : NULL;
}

static void add_inputs(TeBuilder *b, const Type *t)
{
    if (t->kind == TYPE_TUPLE) {
        for (uint32_t i = 0; i < t->n; i++)
            add_inputs(b, t->parts[i]);
        return;
    }
    if (t->kind != TYPE_TENSOR) {
        diag_bug(b->cx->diags, b->span, "an operator was given a %s", type_str(b->cx, t));
        b->failed = true;
        return;
    }
    te_add_input(b, t->dtype, (int)t->n, t->dims);
}

TeProgram *te_of_op(Ctx *cx, Arena *arena, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                    const Type *const *args, const Type *result)
{
    TeBuilder b;
    te_begin(&b, cx, arena);
    b.span = span;
    for (uint32_t i = 0; i < n; i++)
        add_inputs(&b, args[i]);
    if (b.failed)
        return NULL;
    int n_out = result->kind == TYPE_TUPLE ? (int)result->n : 1;
    TeTensor *in = arena_copy(arena, b.tensors.at, (size_t)b.n_inputs * sizeof *in);
    TeTensor *out = arena_alloc_must(arena, (size_t)n_out + 1, sizeof *out);
    int made = te_call(&b, op, attrs, span, result, b.n_inputs, in, n_out, out);
    return made < 0 ? NULL : te_finish(&b, made, out, result->kind == TYPE_TUPLE);
}
