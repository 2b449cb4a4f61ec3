/* Operators that give the same elements another shape, or repeat and sum them to one. */
#include "stdlib/ops/ops.h"

/* ---- reshape ------------------------------------------------------------------------------------- */

typedef struct Reshape {
    Rel *r;
    const Dim *in;
    int n_in, at; /* the cursor into the input's extents */
    bool in_used[TENSOR_RANK_MOST]; /* not to be counted for -1 */
    Dim out[TENSOR_RANK_MOST];
    bool out_used[TENSOR_RANK_MOST];
    int n_out, infer; /* the place of -1; -1: none */
    bool allowzero;
} Reshape;

static bool reshape_fail(const Reshape *s, const char *why)
{
    Diag *d =
        rel_error(s->r, E0216_OPERATOR_ARGUMENT, 0, "`newshape` of `%s` %s", s->r->op->name, why);
    diag_help(d, "0 copies an extent, -1 is what remains, -2 copies all that follow, -3 joins two, "
                 "-4 splits one in the two that come next");
    return false;
}

static bool reshape_push(Reshape *s, Dim d, bool used)
{
    if (s->n_out == TENSOR_RANK_MOST)
        return reshape_fail(s, "has too many extents");
    s->out_used[s->n_out] = used;
    s->out[s->n_out++] = d;
    return true;
}

static bool reshape_take(Reshape *s, Dim *d)
{
    if (s->at >= s->n_in)
        return reshape_fail(s, "copies more extents than there are");
    s->in_used[s->at] = true;
    *d = s->in[s->at++];
    return true;
}

/* -4 a b: one extent in two, one of which may be -1. */
static bool reshape_split(Reshape *s, int64_t a, int64_t b)
{
    Dim d;
    if (!reshape_take(s, &d))
        return false;
    if ((a < 1 && a != -1) || (b < 1 && b != -1) || (a == -1 && b == -1))
        return reshape_fail(s, "has a -4 without two extents behind it");
    if (d >= 0 && ((a == -1 && d % b) || (b == -1 && d % a) ||
                   (a > 0 && b > 0 && dims_product(2, (Dim[]){a, b}) != d)))
        return reshape_fail(s, "splits an extent in parts that do not fit");
    Dim x = a > 0 ? a : dim_floor_div(s->r->cx, d, b),
        y = b > 0 ? b : dim_floor_div(s->r->cx, d, a);
    return reshape_push(s, x, true) && reshape_push(s, y, true);
}

static bool reshape_code(Reshape *s, int64_t code)
{
    Dim d, e;
    switch (code) {
    case 0:
        if (s->allowzero) {
            s->at++;
            return reshape_push(s, 0, false);
        }
        return reshape_take(s, &d) && reshape_push(s, d, true);
    case -1:
        if (s->infer >= 0)
            return reshape_fail(s, "has more than one -1");
        s->infer = s->n_out;
        s->at++;
        return reshape_push(s, 1, true);
    case -2:
        while (s->at < s->n_in)
            if (!reshape_take(s, &d) || !reshape_push(s, d, true))
                return false;
        return true;
    case -3:
        if (!reshape_take(s, &d) || !reshape_take(s, &e))
            return false;
        return reshape_push(s, dim_mul(s->r->cx, d, e), true);
    }
    if (code < 0)
        return reshape_fail(s, "holds a code that does not exist");
    s->at++;
    return reshape_push(s, code, false);
}

/* -1: the elements that no other code accounts for, over the literal extents. */
static bool reshape_infer(Reshape *s)
{
    Dim left = 1, taken = 1;
    for (int i = 0; i < s->n_in; i++)
        if (!s->in_used[i])
            left = dim_mul(s->r->cx, left, s->in[i]);
    for (int i = 0; i < s->n_out; i++)
        if (!s->out_used[i])
            taken = dim_mul(s->r->cx, taken, s->out[i]);
    if (left >= 0 && taken >= 0 && (taken == 0 || left % taken))
        return reshape_fail(s, "does not divide the elements");
    s->out[s->infer] = dim_floor_div(s->r->cx, left, taken);
    return true;
}

static bool reshape_run(Reshape *s, const int64_t *codes, int n)
{
    s->infer = -1;
    for (int i = 0; i < n; i++) {
        if (codes[i] == -4) {
            if (i + 2 >= n)
                return reshape_fail(s, "has a -4 without two extents behind it");
            if (!reshape_split(s, codes[i + 1], codes[i + 2]))
                return false;
            i += 2;
        } else if (!reshape_code(s, codes[i])) {
            return false;
        }
    }
    return s->infer < 0 || reshape_infer(s);
}

/* How many elements: DIM_ANY where it is not known, INT64_MAX where they are too many to count. */
static Dim elements_of(uint32_t n, const Dim *dims)
{
    bool none = false;
    for (uint32_t i = 0; i < n; i++)
        none |= dims[i] == 0;
    Dim all = none ? 0 : dims_product(n, dims);
    return !dims_static(n, dims) ? DIM_ANY : all < 0 ? INT64_MAX : all;
}

static RelResult reshape_done(Rel *r, const Type *t, uint32_t n, const Dim *dims)
{
    Dim from = elements_of(t->n, t->dims), to = elements_of(n, dims);
    if (from >= 0 && to >= 0 && from != to) {
        const char *want = type_str(r->cx, type_tensor(r->cx, t->dtype, n, dims));
        Diag *d = rel_error(r, E0202_SHAPE, 0, "%s%lld elements cannot become %s%lld",
                            from == INT64_MAX ? "at least " : "", (long long)from,
                            to == INT64_MAX ? "at least " : "", (long long)to);
        diag_note(d, "from `%s` to `%s`", type_str(r->cx, t), want);
        diag_help(d, "write -1 for one extent to have it computed");
        return REL_FAILED;
    }
    return rel_out_tensor(r, t->dtype, n, dims);
}

RelResult rel_reshape_to(Rel *r, const Type *t, const int64_t *codes, int n)
{
    bool zero = !attrs_find(r->attrs, "allowzero") || attrs_bool(r->attrs, "allowzero");
    Reshape s = {.r = r, .in = t->dims, .n_in = (int)t->n, .allowzero = zero};
    if (!reshape_run(&s, codes, n))
        return REL_FAILED;
    return reshape_done(r, t, (uint32_t)s.n_out, s.out);
}

#define SHAPES_rel_reshape "(d...) -> as newshape says: 0 keeps an extent, -1 is what is left"
static RelResult rel_reshape(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int64_t codes[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "newshape", codes, TENSOR_RANK_MOST);
    return rel_reshape_to(r, t, codes, n);
}

static void reverse_dims(int n, Dim *dims)
{
    for (int i = 0; i < n / 2; i++) {
        Dim d = dims[i];
        dims[i] = dims[n - 1 - i];
        dims[n - 1 - i] = d;
    }
}

#define SHAPES_rel_reverse_reshape "(d...) -> as newshape says, from the last axis on"
/* The codes and the extents from the right; the two numbers of a -4 stay behind it. */
static RelResult rel_reverse_reshape(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int64_t codes[TENSOR_RANK_MOST], turned[TENSOR_RANK_MOST];
    Dim in[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "newshape", codes, TENSOR_RANK_MOST), m = 0;
    for (int i = n - 1; i >= 0; i--) {
        if (i >= 2 && codes[i - 2] == -4) {
            turned[m++] = -4, turned[m++] = codes[i], turned[m++] = codes[i - 1];
            i -= 2;
        } else {
            turned[m++] = codes[i];
        }
    }
    for (uint32_t i = 0; i < t->n; i++)
        in[i] = t->dims[t->n - 1 - i];
    Reshape s = {
        .r = r, .in = in, .n_in = (int)t->n, .allowzero = attrs_bool(r->attrs, "allowzero")};
    if (!reshape_run(&s, turned, m))
        return REL_FAILED;
    reverse_dims(s.n_out, s.out);
    return reshape_done(r, t, (uint32_t)s.n_out, s.out);
}

void compute_reshape(TeBuilder *b)
{
    te_output(b, ops_reshape(b, te_input(b, 0), te_out_rank(b, 0), te_out_shape(b, 0)));
}

/* ---- reshape_like -------------------------------------------------------------------------------- */

/* A border between axes, counted from the end when negative; -1 after a diagnostic. */
static int border(Rel *r, const char *key, int rank, int none)
{
    int64_t v = attrs_int(r->attrs, key, none);
    if (v < 0)
        v += rank;
    if (v >= 0 && v <= rank)
        return (int)v;
    rel_error(r, E0217_AXIS, -1, "`%s` of `reshape_like` is out of range for rank %d", key, rank);
    return -1;
}

#define SHAPES_rel_reshape_like \
    "(d...), (e...) -> (e...); only some axes where lhs_begin or lhs_end or rhs_begin or rhs_end"
static RelResult rel_reshape_like(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *like = t ? rel_tensor(r, 1) : NULL;
    if (!like)
        return rel_blocked(r);
    int lb = border(r, "lhs_begin", (int)t->n, 0), le = border(r, "lhs_end", (int)t->n, (int)t->n);
    int rb = border(r, "rhs_begin", (int)like->n, 0);
    int re = border(r, "rhs_end", (int)like->n, (int)like->n);
    if (lb < 0 || le < 0 || rb < 0 || re < 0)
        return REL_FAILED;
    Dim dims[2 * TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (int i = 0; i < lb; i++)
        dims[n++] = t->dims[i];
    for (int i = rb; i < re; i++)
        dims[n++] = like->dims[i];
    for (int i = le; i < (int)t->n; i++)
        dims[n++] = t->dims[i];
    return reshape_done(r, t, n, dims);
}

/* ---- expand_dims, squeeze, flatten --------------------------------------------------------------- */

#define SHAPES_rel_expand_dims "(d...) -> (insert(d, axis, 1, num_newaxis)...)"
static RelResult rel_expand_dims(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int64_t more = attrs_int(r->attrs, "num_newaxis", 1);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", 0), t->n + 1);
    if (axis < 0)
        return REL_FAILED;
    if (more < 0 || more > TENSOR_RANK_MOST - (int64_t)t->n) {
        Diag *d = rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`expand_dims` cannot add %lld axes",
                            (long long)more);
        diag_help(d, "a tensor has 0 to %d axes", TENSOR_RANK_MOST);
        return REL_FAILED;
    }
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (int i = 0; i < axis; i++)
        dims[n++] = t->dims[i];
    for (int64_t i = 0; i < more; i++)
        dims[n++] = 1;
    for (uint32_t i = (uint32_t)axis; i < t->n; i++)
        dims[n++] = t->dims[i];
    return rel_out_tensor(r, t->dtype, n, dims);
}

static bool squeezed_axes(Rel *r, const Type *t, bool *drop)
{
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "axis", axes, TENSOR_RANK_MOST);
    for (uint32_t i = 0; i < t->n; i++)
        drop[i] = n < 0 && t->dims[i] == 1;
    if (n < 0 && !dims_static(t->n, t->dims)) {
        Diag *d = rel_error(r, E0202_SHAPE, 0, "`squeeze` without `axis` needs known extents");
        diag_help(d, "name the axes: `axis=[0]`");
        return false;
    }
    for (int i = 0; i < n; i++) {
        int axis = rel_axis(r, axes[i], t->n);
        if (axis < 0)
            return false;
        if (t->dims[axis] != 1 && t->dims[axis] >= 0) {
            Diag *d =
                rel_error(r, E0202_SHAPE, 0, "axis %d has %lld elements and cannot be dropped",
                          axis, (long long)t->dims[axis]);
            diag_help(d, "`squeeze` drops axes with one element; `sum` or `reshape` join others");
            return false;
        }
        drop[axis] = true;
    }
    return true;
}

#define SHAPES_rel_squeeze \
    "(d...) -> (without(d, axis)...); (without(d, ones(d))...) where axis is None"
static RelResult rel_squeeze(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    bool drop[TENSOR_RANK_MOST];
    if (!squeezed_axes(r, t, drop))
        return REL_FAILED;
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (!drop[i])
            dims[n++] = t->dims[i];
    return rel_out_tensor(r, t->dtype, n, dims);
}

#define SHAPES_rel_batch_flatten "(n, d...) -> (n, product(d))"
static RelResult rel_batch_flatten(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (t->n == 0) {
        rel_error(r, E0202_SHAPE, 0, "`nn.batch_flatten` takes a tensor of rank 1 or more");
        return REL_FAILED;
    }
    Dim dims[2] = {t->dims[0], dim_product(r->cx, t->n - 1, t->dims + 1)};
    return rel_out_tensor(r, t->dtype, 2, dims);
}

/* ---- broadcasting and its reverse ---------------------------------------------------------------- */

/* Reports unless `t` broadcasts to the shape. */
static bool check_broadcast(Rel *r, int arg, const Type *t, uint32_t n, const Dim *dims)
{
    bool fits = t->n <= n;
    for (uint32_t k = 1; fits && k <= t->n; k++) {
        Dim from = t->dims[t->n - k], to = dims[n - k];
        fits = from == 1 || dim_agrees(from, to);
    }
    if (!fits) {
        Diag *d =
            rel_error(r, E0202_SHAPE, arg, "`%s` cannot be broadcast to `%s`", type_str(r->cx, t),
                      type_str(r->cx, type_tensor(r->cx, t->dtype, n, dims)));
        diag_help(d, "only axes with one element are repeated, and new axes come first");
    }
    return fits;
}

#define SHAPES_rel_broadcast_to "(d...) -> (shape...)"
static RelResult rel_broadcast_to(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    Dim dims[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "shape", dims, TENSOR_RANK_MOST);
    if (n < 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`broadcast_to` needs its `shape`");
        return REL_FAILED;
    }
    for (int i = 0; i < n; i++)
        if (dims[i] < 0) {
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`shape` of `broadcast_to` holds %lld",
                      (long long)dims[i]);
            return REL_FAILED;
        }
    if (!check_broadcast(r, 0, t, (uint32_t)n, dims))
        return REL_FAILED;
    return rel_out_tensor(r, t->dtype, (uint32_t)n, dims);
}

#define SHAPES_rel_broadcast_to_like "(d...), (e...) -> (e...)"
static RelResult rel_broadcast_to_like(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *like = t ? rel_tensor(r, 1) : NULL;
    if (!like)
        return rel_blocked(r);
    if (!check_broadcast(r, 0, t, like->n, like->dims))
        return REL_FAILED;
    return rel_out_tensor(r, t->dtype, like->n, like->dims);
}

#define SHAPES_rel_collapse_sum_like "(d...), (e...) -> (e...)"
static RelResult rel_collapse_sum_like(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *like = t ? rel_tensor(r, 1) : NULL;
    if (!like)
        return rel_blocked(r);
    if (!check_broadcast(r, 0, like, t->n, t->dims))
        return REL_FAILED;
    return rel_out_tensor(r, t->dtype, like->n, like->dims);
}

#define SHAPES_rel_collapse_sum_to "(d...), (r) -> (shape...)"
static RelResult rel_collapse_sum_to(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *shape = t ? rel_tensor(r, 1) : NULL;
    if (!shape)
        return rel_blocked(r);
    Dim dims[TENSOR_RANK_MOST];
    int n = attrs_ints(r->attrs, "shape", dims, TENSOR_RANK_MOST);
    if (!rel_rank(r, 1, shape, 1))
        return REL_FAILED;
    if (n >= 0 && !rel_has_shape(r, 1, shape, 1, (Dim[]){n}))
        return REL_FAILED;
    n = n < 0 ? rel_ints_of(r, 1, dims, TENSOR_RANK_MOST) : n;
    if (n < 0)
        return rel_unknown(r, t->dtype, shape->dims[0]);
    for (int i = 0; i < n && i < TENSOR_RANK_MOST; i++)
        if (dims[i] < 0) {
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`shape` of `collapse_sum_to` holds %lld",
                      (long long)dims[i]);
            return REL_FAILED;
        }
    RelResult done = rel_out_tensor(r, t->dtype, (uint32_t)n, dims);
    if (done != REL_FAILED &&
        !check_broadcast(r, 0, type_tensor(r->cx, t->dtype, (uint32_t)n, dims), t->n, t->dims))
        return REL_FAILED;
    return done;
}

void compute_broadcast(TeBuilder *b)
{
    ops_emit(b, te_load_broadcast(b, te_input(b, 0), te_out_rank(b, 0)));
}

/* Sums over what broadcasting to the data's shape would have repeated. */
static void compute_collapse(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int r = te_out_rank(b, 0), n = 0;
    const int64_t *shape = te_out_shape(b, 0);
    Te *index[TENSOR_RANK_MOST];
    int64_t extents[TENSOR_RANK_MOST];
    for (int i = 0; i < x.rank; i++) {
        int at = i - (x.rank - r);
        if (at >= 0 && (shape[at] == x.shape[i] || shape[at] != 1)) {
            index[i] = te_axis(b, at);
            continue;
        }
        index[i] = te_axis(b, r + n);
        extents[n++] = x.shape[i];
    }
    if (n)
        te_output(b, te_reduce(b, TE_SUM, x.dtype, r, shape, n, extents, te_load(b, x, index)));
    else
        te_output(b, x);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpAttr reshape_attrs[] = {
    ATTR_MUST("newshape", INTS,
              "the new extents; 0 copies one, -1 is what remains, -2 copies the "
              "rest, -3 joins two, -4 splits one in the next two"),
    ATTR_B("allowzero", 0, "0 is an extent of 0, not a copy"),
    {0},
};
static const OpAttr reshape_like_attrs[] = {
    ATTR_I("lhs_begin", 0, "the first axis of `data` that is replaced"),
    ATTR_NONE("lhs_end", INT, "the axis of `data` behind the last replaced one"),
    ATTR_I("rhs_begin", 0, "the first axis of `shape_like` that is taken"),
    ATTR_NONE("rhs_end", INT, "the axis of `shape_like` behind the last taken one"),
    {0},
};
static const OpAttr expand_dims_attrs[] = {
    ATTR_MUST("axis", INT, "where the new axes stand in the result"),
    ATTR_I("num_newaxis", 1, "how many there are"),
    {0},
};
static const OpAttr squeeze_attrs[] = {
    ATTR_NONE("axis", INTS, "the axes to drop, which have one element; None: all such"), {0}};
static const OpAttr broadcast_to_attrs[] = {
    ATTR_MUST_NONE("shape", INTS, "the extents of the result"),
    ATTR_D("dtype", "", "unused"),
    {0},
};
static const OpAttr collapse_sum_to_attrs[] = {
    ATTR_NONE("shape", INTS,
              "the extents of the result, whatever the argument holds; None: as that says"),
    ATTR_D("dtype", "", "unused"),
    {0}};
static const OpArg broadcast_like_args[] = {
    {"data", "the tensor"}, {"broadcast_type", "gives the shape"}, {0}};
static const OpArg collapse_like_args[] = {
    {"data", "the tensor"}, {"collapse_type", "gives the shape"}, {0}};
static const OpArg collapse_to_args[] = {{"data", "the tensor"}, {"shape", "the extents"}, {0}};

static const OpAttr view_attrs[] = {ATTR_MUST("newshape", INTS, "the new extents"), {0}};
static const OpArg view_args[] = {
    {"data", "the tensor"}, {"shape", "the new extents, as the program computed them"}, {0}};

const Op shape_ops[] = {
    {.name = "reshape",
     .doc = "The elements in the same order in another shape.",
     .args = args_data,
     .attrs = reshape_attrs,
     .samples = "(float32[2,3], newshape=[3, 2]) (float32[2,3,4], newshape=[0, -1]) "
                "(float32[2,3,4], newshape=[-3, 4]) (float32[2,3,4], newshape=[-4, 1, 2, -2])",
     .pattern = OP_INJECTIVE,
     .flags = OP_RESHAPE,
     OP_REL(rel_reshape),
     .compute = compute_reshape,
     .grad = "reshape_like(%g, %data)"},
    {.name = "contrib_reverse_reshape",
     .doc = "As `reshape`, with the codes read from the right.",
     .args = args_data,
     .attrs = reshape_attrs,
     .samples = "(float32[2,3,4], newshape=[-1, 0])",
     .pattern = OP_INJECTIVE,
     .flags = OP_RESHAPE,
     OP_REL(rel_reverse_reshape),
     .compute = compute_reshape,
     .grad = "reshape_like(%g, %data)"},
    {.name = "reshape_like",
     .doc = "The elements of `data` in the shape of another tensor.",
     .args = args_like,
     .attrs = reshape_like_attrs,
     .samples = "(float32[2,3], float32[3,2])",
     .pattern = OP_INJECTIVE,
     .flags = OP_RESHAPE,
     OP_REL(rel_reshape_like),
     .compute = compute_reshape,
     .grad = "(reshape_like(%g, %data), zeros_like(%shape_like))"},
    {.name = "expand_dims",
     .doc = "New axes with one element each.",
     .args = args_data,
     .attrs = expand_dims_attrs,
     .samples = "(float32[2,3], axis=1) (float32[2,3], axis=-1, num_newaxis=2)",
     .pattern = OP_BROADCAST,
     .flags = OP_RESHAPE,
     OP_REL(rel_expand_dims),
     .compute = compute_reshape,
     .grad = "if (%num_newaxis == 1) { squeeze(%g, axis=[%axis]) } "
             "else if (%num_newaxis == 2) { squeeze(squeeze(%g, axis=[%axis]), axis=[%axis]) } "
             "else { reshape_like(%g, %data) }"},
    {.name = "squeeze",
     .doc = "The tensor without axes that have one element.",
     .args = args_data,
     .attrs = squeeze_attrs,
     .samples = "(float32[1,3,1]) (float32[1,3,1], axis=[0])",
     .pattern = OP_INJECTIVE,
     .flags = OP_RESHAPE,
     OP_REL(rel_squeeze),
     .compute = compute_reshape,
     .grad = "reshape_like(%g, %data)"},
    {.name = "nn.batch_flatten",
     .doc = "All axes but the first joined to one.",
     .args = args_data,
     .samples = "(float32[2,3,4])",
     .pattern = OP_INJECTIVE,
     .flags = OP_RESHAPE,
     OP_REL(rel_batch_flatten),
     .compute = compute_reshape,
     .grad = "reshape_like(%g, %data)"},
    {.name = "broadcast_to",
     .doc = "The tensor repeated along axes of one element, to a shape.",
     .args = args_data,
     .attrs = broadcast_to_attrs,
     .samples = "(float32[3], shape=[2, 3])",
     .pattern = OP_BROADCAST,
     OP_REL(rel_broadcast_to),
     .compute = compute_broadcast,
     .grad = "collapse_sum_like(%g, %data)"},
    {.name = "broadcast_to_like",
     .doc = "The tensor repeated along axes of one element, to the shape of another.",
     .args = broadcast_like_args,
     .samples = "(float32[3], float32[2,3])",
     .pattern = OP_BROADCAST,
     OP_REL(rel_broadcast_to_like),
     .compute = compute_broadcast,
     .grad = "(collapse_sum_like(%g, %data), zeros_like(%broadcast_type))"},
    {.name = "collapse_sum_like",
     .doc = "Sums over the axes that broadcasting to the data's shape would repeat.",
     .args = collapse_like_args,
     .samples = "(float32[2,3], float32[3]) (float32[2,3], float32[2,1])",
     .pattern = OP_REDUCE,
     OP_REL(rel_collapse_sum_like),
     .compute = compute_collapse,
     .grad = "(broadcast_to_like(%g, %data), zeros_like(%collapse_type))"},
    {.name = "collapse_sum_to",
     .doc = "Sums to a shape, over the axes that broadcasting from it would repeat.",
     .args = collapse_to_args,
     .attrs = collapse_sum_to_attrs,
     .samples = "(float32[2,3], int32[1], shape=[3])",
     .pattern = OP_REDUCE,
     .flags = OP_SHAPE_FROM_DATA,
     OP_REL(rel_collapse_sum_to),
     .compute = compute_collapse,
     .grad = "(broadcast_to_like(%g, %data), zeros_like(%shape))"},
    {.name = "vm.reshape_tensor",
     .doc = "The same elements in another shape: `reshape` in programs with explicit memory.",
     .args = view_args,
     .attrs = view_attrs,
     .shapes = "(d...), (r) -> as newshape says",
     .samples = "(float32[2,3], int64[1], newshape=[6])",
     .pattern = OP_OPAQUE,
     .flags = OP_NON_COMPUTATIONAL | OP_RESHAPE,
     .rel = rel_reshape,
     .compute = compute_reshape},
    {0},
};
