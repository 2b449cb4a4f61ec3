/* Writes a pool whose windows are wide as pools along one axis after the other: for each result they look at as many elements as the
 * extents of the window are together, not multiplied.
 *
 *     nn.max_pool2d(%x, pool_size=[5, 5])
 *  => nn.max_pool2d(nn.max_pool2d(%x, pool_size=[5, 1]), pool_size=[1, 5])
 *
 * Rows are folded first, by vectors side by side, and columns of what is left. A pool over three axes is one over planes, and then one
 * over what lies behind each other, of planes as rows. */
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* Places of a window from which on it pays; sooner where windows overlap and a plane has no room near a core, so that strategies for
 * planes do not take it, and over three axes. */
enum { TAPS_LEAST = 25, TAPS_LEAST_FAR = 9, TAPS_LEAST_DEEP = 9, PLANE_NEAR = 128 << 10 };

enum { AXES_MOST = 3, RANK_DEEP = 2 + AXES_MOST };

typedef struct Pool {
    bool mean;
    const Call *call;
    int n; /* axes of the window */
    int64_t size[AXES_MOST], step[AXES_MOST], dilation[AXES_MOST], before[AXES_MOST],
        after[AXES_MOST];
} Pool;

static bool find_pool(const Call *call, const char *name, Pool *p)
{
    static const struct {
        const char *name;
        int axes;
        bool mean;
    } pools[] = {{"nn.max_pool2d", 2, false},
                 {"nn.max_pool3d", 3, false},
                 {"nn.avg_pool2d", 2, true},
                 {"nn.avg_pool3d", 3, true}};
    const Attrs *a = call->attrs;
    size_t i = 0, count = sizeof pools / sizeof *pools;
    while (i < count && strcmp(pools[i].name, name) != 0)
        i++;
    if (i == count)
        return false;
    *p = (Pool){.mean = pools[i].mean, .call = call, .n = pools[i].axes, .dilation = {1, 1, 1}};
    ops_ints(a, "pool_size", p->n, p->size);
    ops_ints(a, "strides", p->n, p->step);
    ops_ints(a, "dilation", p->n, p->dilation);
    ops_padding(a, "padding", p->n, p->before, p->after);
    return true;
}

/* A mean of means is rounded twice, which is nothing to floats wide enough. */
static bool may_be_split(const Pool *p, const Type *x)
{
    return x && (!p->mean || (dtype_is_float(x->dtype) && x->dtype.bits >= 32));
}

/* The pool over planes along axes `y` and `x` of the window; below 0: along none there. */
static Expr *over_planes(const OpsMake *m, const Pool *p, Expr *data, int y, int x,
                         const char *layout)
{
    const Attrs *a = p->call->attrs;
    int at[2] = {y, x};
    int64_t size[2], step[2], dilation[2], around[4];
    for (int i = 0; i < 2; i++) {
        bool none = at[i] < 0;
        size[i] = none ? 1 : p->size[at[i]];
        step[i] = none ? 1 : p->step[at[i]];
        dilation[i] = none ? 1 : p->dilation[at[i]];
        around[i] = none ? 0 : p->before[at[i]];
        around[2 + i] = none ? 0 : p->after[at[i]];
    }
    Attr attrs[7] = {ops_attr_ints(m, "pool_size", 2, size),
                     ops_attr_ints(m, "strides", 2, step),
                     ops_attr_ints(m, "dilation", 2, dilation),
                     ops_attr_ints(m, "padding", 4, around),
                     ops_attr_text(m, "layout", layout),
                     ops_attr_bool("ceil_mode", attrs_bool(a, "ceil_mode"))};
    if (!p->mean)
        return ops_call(m, "nn.max_pool2d", 1, &data, 6, attrs);
    attrs[6] = ops_attr_bool("count_include_pad", attrs_bool(a, "count_include_pad"));
    return ops_call(m, "nn.avg_pool2d", 1, &data, 7, attrs);
}

/* Whether it pays to go along axes y and y + 1 of the window one after the other, over planes of this height and width. */
static bool is_wide(const Pool *p, int y, DType dtype, Dim h, Dim w)
{
    int x = y + 1;
    double bytes = (double)h * (double)w * (dtype.bits / 8);
    bool near = h < 0 || w < 0 || h > PLANE_NEAR || bytes <= PLANE_NEAR;
    bool overlap = p->size[y] > p->step[y] || p->size[x] > p->step[x];
    int64_t least = overlap && !near ? TAPS_LEAST_FAR : TAPS_LEAST;
    return p->size[y] > 1 && p->size[x] > 1 &&
           (double)p->size[y] * (double)p->size[x] >= (double)least;
}

static Expr *one_by_one(const OpsMake *m, const Pool *p, Expr *data, int y, const char *layout)
{
    return over_planes(m, p, over_planes(m, p, data, y, -1, layout), -1, y + 1, layout);
}

static Expr *split_planes(const OpsMake *m, const Pool *p, const Type *type, Expr *data)
{
    int at[2 + AXES_MOST + LAYOUT_SPLIT];
    Str layout = attrs_string(p->call->attrs, "layout");
    layout_places(layout, "NCHW", at);
    if (!is_wide(p, 0, type->dtype, type->dims[at[2]], type->dims[at[3]]))
        return NULL;
    return one_by_one(m, p, data, 0, arena_copy_text(m->arena, layout.ptr, layout.len));
}

/* Planes are images of a channel each; then they are rows, and what lies behind each other a column. */
static Expr *split_deep(const OpsMake *m, const Pool *p, const Type *type, const Type *out,
                        Expr *data)
{
    if ((double)p->size[0] * (double)p->size[1] * (double)p->size[2] < TAPS_LEAST_DEEP ||
        !type_has_extents(type, RANK_DEEP) || !type_has_extents(out, RANK_DEEP) ||
        !str_is(attrs_string(p->call->attrs, "layout"), "NCDHW"))
        return NULL;
    const Dim *in = type->dims, *to = out->dims;
    int64_t planes[4] = {in[0], in[1] * in[2], in[3], in[4]};
    int64_t rows[4] = {in[0], in[1], in[2], to[3] * to[4]};
    Expr *x = ops_call_ints(m, "reshape", data, "newshape", 4, planes);
    x = is_wide(p, 1, type->dtype, in[3], in[4]) ? one_by_one(m, p, x, 1, "NCHW")
                                                 : over_planes(m, p, x, 1, 2, "NCHW");
    x = ops_call_ints(m, "reshape", x, "newshape", 4, rows);
    x = over_planes(m, p, x, 0, -1, "NCHW");
    return ops_call_ints(m, "reshape", x, "newshape", RANK_DEEP, to);
}

static Expr *split_pool(Rewriter *rw, const Expr *old, Expr *now)
{
    const Op *op = expr_call_of_op(now);
    Pool p;
    expr_keep_type(now, old);
    if (!op || !find_pool(expr_as_call(now), op->name, &p))
        return now;
    Expr *data = p.call->args.at[0];
    const Type *x = expr_tensor_type(data), *out = expr_tensor_type(now);
    if (!may_be_split(&p, x))
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, now->span};
    Expr *y = p.n == 2 ? split_planes(&m, &p, x, data) : split_deep(&m, &p, x, out, data);
    return y ? expr_type_ops(rw->cx, y) : now;
}

const Pass pass_split_pools = {
    .name = "SplitPools",
    .doc = "Writes pools of wide windows as pools along one axis after the other.",
    .opt_level = 2,
    .reorders = true,
    .needs_types = true,
    .rewrite = split_pool,
};
