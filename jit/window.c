/* Sums of products over windows (convolutions), made ready for the processor by a copy of the windowed operand.
 *
 * Large ones become one matrix product: the operand is written out with an element for each position of the window and of the result
 * ("columns"). The others read a copy with its border of zeros, so that no load has to ask whether it lies inside. The copy and the sum
 * are a program of two stages whose inputs are all tensors of the program that the sum comes from. */
#include "jit/loops.h"

#include <string.h>

#define COLUMNS_MOST ((size_t)64 << 20)
#define DEPTH_MOST 100

/* The expression with other axes. NULL when it is nested too deeply. */
static Te *renamed(TeBuilder *b, const Te *e, Te *const *axes, int depth)
{
    if (depth > DEPTH_MOST)
        return NULL;
    if (e->kind == TE_NODE_AXIS)
        return axes[e->axis];
    if (e->kind == TE_NODE_CONST)
        return (Te *)(uintptr_t)e;
    if (e->kind != TE_NODE_BINARY)
        return NULL;
    Te *x = renamed(b, e->a, axes, depth + 1), *y = renamed(b, e->b, axes, depth + 1);
    return x && y ? te_binary(b, (TeOp)e->op, x, y) : NULL;
}

static void begin(TeBuilder *b, Kernel *k)
{
    te_begin(b, k->g->cx, k->g->arena);
    for (int i = 0; i < k->p->n_inputs + k->p->n_stages; i++) {
        TeTensor t = program_tensor(k->p, i);
        te_add_input(b, t.dtype, t.rank, t.shape);
    }
}

/* The sum over the copy instead of the operand that was copied. */
static TeProgram *finish(TeBuilder *b, const TeStage *s, Te *now, const Te *other)
{
    Te *body = te_binary(b, TE_MUL, now, (Te *)(uintptr_t)other);
    TeTensor sum =
        te_reduce(b, TE_SUM, s->dtype, s->rank, s->shape, s->n_reduced, s->reduced, body);
    return te_finish(b, 1, &sum, false);
}

/* ---- columns --------------------------------------------------------------------------------------------------------- */

/* Axes of the copy: those of the reduction, then those of the space, that the operand steps along. */
static int column_axes(const TeStage *s, const TeAffine *at, int *axes, int64_t *shape)
{
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int a = pass ? 0 : s->rank; a < (pass ? s->rank : s->rank + s->n_reduced); a++) {
            if (at->stride[a] == 0 || stage_extent(s, a) == 1)
                continue;
            shape[n] = stage_extent(s, a);
            axes[n++] = a;
        }
    return n;
}

static TeProgram *with_columns(Kernel *k, const TeStage *s, const Te *load, const Te *other,
                               const TeAffine *at)
{
    TeBuilder b;
    int axes[AXES_MOST];
    int64_t shape[AXES_MOST], size;
    int n = column_axes(s, at, axes, shape);
    if (n == 0 || n > TENSOR_RANK_MOST || !shape_size(n, shape, &size) ||
        (size_t)size * dtype_size(load->dtype) > COLUMNS_MOST)
        return NULL;
    begin(&b, k);
    Te *to_copy[AXES_MOST], *index[TENSOR_RANK_MOST], *of_sum[TENSOR_RANK_MOST];
    for (int a = 0; a < AXES_MOST; a++)
        to_copy[a] = te_int(&b, 0);
    for (int i = 0; i < n; i++) {
        to_copy[axes[i]] = te_axis(&b, i);
        of_sum[i] = te_axis(&b, axes[i]);
    }
    for (int i = 0; i < load->n; i++)
        if (!(index[i] = renamed(&b, load->index[i], to_copy, 0)))
            return NULL;
    Te *body = te_load_or(&b, program_tensor(k->p, load->tensor), index, load->otherwise);
    TeTensor copy = te_map(&b, load->dtype, n, shape, body);
    return finish(&b, s, te_load(&b, copy, of_sum), other);
}

/* ---- borders ----------------------------------------------------------------------------------------------------------- */

static TeProgram *with_border(Kernel *k, const TeStage *s, const Te *load, const Te *other)
{
    TeBuilder b;
    TeTensor t = program_tensor(k->p, load->tensor);
    int64_t shape[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST], *of_sum[TENSOR_RANK_MOST];
    begin(&b, k);
    for (int i = 0; i < load->n; i++) {
        Linear at;
        int64_t low, high;
        if (!linear_of(load->index[i], &at))
            return NULL;
        linear_range(&at, s, &low, &high);
        low = low < 0 ? low : 0;
        high = high >= t.shape[i] ? high : t.shape[i] - 1;
        shape[i] = high - low + 1;
        index[i] = te_binary(&b, TE_ADD, te_axis(&b, i), te_int(&b, low));
        of_sum[i] = te_binary(&b, TE_ADD, load->index[i], te_int(&b, -low));
    }
    TeTensor copy =
        te_map(&b, load->dtype, t.rank, shape, te_load_or(&b, t, index, load->otherwise));
    return finish(&b, s, te_load(&b, copy, of_sum), other);
}

/* ---- choice -------------------------------------------------------------------------------------------------------------- */

TeProgram *window_program(Kernel *k, int stage)
{
    const TeStage *s = &k->p->stages[stage];
    TeContraction t;
    if (!te_contraction(k->p, stage, &t) || product_is_gemm(k->p, stage))
        return NULL;
    const Te *a = s->body->a, *b = s->body->b;
    bool first = t.a.padded || !t.b.padded;
    const Te *load = first ? a : b, *other = first ? b : a;
    if (t.a.padded && t.b.padded)
        return NULL;
    TeProgram *p = with_columns(k, s, load, other, first ? &t.a : &t.b);
    if (p && p->n_stages == 2 && product_is_gemm(p, 1))
        return p;
    return load->otherwise ? with_border(k, s, load, other) : NULL;
}
