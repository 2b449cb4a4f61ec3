/* Other orders of axes, and blocks moved between axes. */
#include "stdlib/ops/ops.h"

#include "base/number.h"

#include <string.h>

/* ---- words ---------------------------------------------------------------------------------------- */

static bool is_letter(char c)
{
    return c > '9';
}

uint32_t layout_rank(Str layout)
{
    uint32_t n = 0;
    for (size_t i = 0; i < layout.len; i++)
        n += is_letter(layout.ptr[i]);
    return n;
}

char layout_letter(Str layout, int64_t axis)
{
    for (size_t i = 0; i < layout.len; i++)
        if (is_letter(layout.ptr[i]) && axis-- == 0)
            return layout.ptr[i];
    return 0;
}

int layout_axis(Str layout, char letter)
{
    int axis = 0;
    for (size_t i = 0; i < layout.len; i++) {
        if (layout.ptr[i] == letter)
            return axis;
        axis += is_letter(layout.ptr[i]);
    }
    return -1;
}

int layout_blocks(Str layout)
{
    int n = 0;
    for (size_t i = 0; i < layout.len; i++)
        n += layout.ptr[i] >= 'a';
    return n;
}

/* ---- layout_transform ---------------------------------------------------------------------------- */

/* What each letter of a layout stands for. */
typedef struct Layout {
    int n;
    char letter[TENSOR_RANK_MOST]; /* capital */
    int64_t factor[TENSOR_RANK_MOST]; /* of a block; 0: the axis itself */
} Layout;

static bool read_layout(Str text, Layout *l)
{
    l->n = 0;
    for (size_t i = 0; i < text.len; i++) {
        int64_t factor = 0;
        while (i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9' && factor < 1000000)
            factor = factor * 10 + (text.ptr[i++] - '0');
        char c = i < text.len ? text.ptr[i] : 0;
        bool capital = c >= 'A' && c <= 'Z', small = c >= 'a' && c <= 'z';
        if ((!capital && !small) || capital != (factor == 0) || l->n == TENSOR_RANK_MOST)
            return false;
        l->letter[l->n] = capital ? c : (char)(c - 'a' + 'A');
        l->factor[l->n++] = factor;
    }
    return l->n > 0;
}

/* The parts of one axis, outermost first: their places in the layout. */
static int parts_of(const Layout *l, char letter, int *at)
{
    int n = 0;
    for (int k = 0; k < 2; k++)
        for (int i = 0; i < l->n; i++)
            if (l->letter[i] == letter && (l->factor[i] == 0) == (k == 0))
                at[n++] = i;
    return n;
}

static bool same_axes(const Layout *a, const Layout *b)
{
    int at[TENSOR_RANK_MOST];
    for (int i = 0; i < a->n; i++)
        if (a->factor[i] == 0 && (parts_of(b, a->letter[i], at) == 0 || b->factor[at[0]] != 0))
            return false;
    return true;
}

static bool once_each(const Layout *l)
{
    for (int i = 0; i < l->n; i++) {
        int capitals = 0;
        for (int k = 0; k < l->n; k++)
            capitals += l->letter[k] == l->letter[i] && l->factor[k] == 0;
        if (capitals != 1)
            return false;
    }
    return true;
}

/* The extents in the other layout; false when a block does not divide its axis. Symbolic ones are numbers in the end, which blocks
 * divide. */
static bool convert_shape(Ctx *cx, const Layout *from, const Dim *in, const Layout *to, Dim *out)
{
    for (int i = 0; i < to->n; i++) {
        int at[TENSOR_RANK_MOST], n = parts_of(from, to->letter[i], at);
        Dim total = 1, block = 1;
        if (to->factor[i]) {
            out[i] = to->factor[i];
            continue;
        }
        for (int k = 0; k < n; k++)
            total = dim_mul(cx, total, in[at[k]]);
        for (int k = 0; k < to->n; k++)
            block *= to->letter[k] == to->letter[i] && to->factor[k] ? to->factor[k] : 1;
        if (total >= 0 && total % block)
            return false;
        out[i] = dim_floor_div(cx, total, block);
    }
    return true;
}

/* Reads both; false unless they hold the same axes. */
static bool read_layouts(Str a, Str b, Layout *from, Layout *to)
{
    return read_layout(a, from) && read_layout(b, to) && once_each(from) && once_each(to) &&
           same_axes(from, to) && same_axes(to, from);
}

bool layout_is_blocked(Str layout, const char *letters)
{
    Layout blocked, plain;
    return layout.len && read_layouts(layout, str_of(letters), &blocked, &plain);
}

bool layout_same_axes(Str a, Str b)
{
    Layout from, to;
    return read_layouts(a, b, &from, &to);
}

bool layout_can_become(Ctx *cx, Str src, const Type *t, Str dst)
{
    Layout from, to;
    Dim dims[TENSOR_RANK_MOST];
    bool fits = read_layouts(src, dst, &from, &to) && (uint32_t)from.n == t->n;
    for (int k = 0; fits && k < from.n; k++)
        fits = from.factor[k] == 0 || dim_agrees(from.factor[k], t->dims[k]);
    return fits && convert_shape(cx, &from, t->dims, &to, dims);
}

void layout_extents(Ctx *cx, Str src, const int64_t *shape, Str dst, int64_t *out)
{
    Layout from, to;
    if (read_layouts(src, dst, &from, &to))
        convert_shape(cx, &from, shape, &to, out);
}

const Type *rel_layout_type(Rel *r, int i, const Type *t, Str src, Str dst)
{
    Layout from, to;
    Dim dims[TENSOR_RANK_MOST];
    if (layout_can_become(r->cx, src, t, dst) && read_layouts(src, dst, &from, &to)) {
        convert_shape(r->cx, &from, t->dims, &to, dims);
        return type_tensor(r->cx, t->dtype, (uint32_t)to.n, dims);
    }
    rel_error(r, E0202_SHAPE, i, "`%s` does not fit the layouts \"%.*s\" and \"%.*s\"",
              type_str(r->cx, t), (int)src.len, src.ptr, (int)dst.len, dst.ptr);
    return NULL;
}

#define SHAPES_rel_layout_transform \
    "(d...) -> as the layouts say: (N, C, H, W) in NCHW is (N, C/4, H, W, 4) in NCHW4c"
static RelResult rel_layout_transform(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    Layout from, to;
    Str a = attrs_string(r->attrs, "src_layout"), b = attrs_string(r->attrs, "dst_layout");
    if (!read_layouts(a, b, &from, &to)) {
        Diag *d =
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "layout \"%.*s\" cannot become \"%.*s\"",
                      (int)a.len, a.ptr, (int)b.len, b.ptr);
        diag_help(d, "both name the same axes with capitals; blocks are such as `16c`");
        return REL_FAILED;
    }
    const Type *out = rel_layout_type(r, 0, t, a, b);
    return out ? rel_set_output(r, out) : REL_FAILED;
}

TeTensor ops_layout(TeBuilder *b, TeTensor x, Str src, Str dst)
{
    Layout from, to;
    Dim out[TENSOR_RANK_MOST];
    Te *index[TENSOR_RANK_MOST];
    read_layouts(src, dst, &from, &to);
    convert_shape(b->cx, &from, x.shape, &to, out);
    for (int i = 0; i < from.n; i++) {
        if (from.factor[i])
            continue;
        int at[TENSOR_RANK_MOST], n = parts_of(&to, from.letter[i], at);
        int64_t shape[TENSOR_RANK_MOST];
        Te *parts[TENSOR_RANK_MOST];
        for (int k = 0; k < n; k++) {
            shape[k] = out[at[k]];
            parts[k] = te_axis(b, at[k]);
        }
        Te *whole = te_flatten(b, n, shape, parts);
        n = parts_of(&from, from.letter[i], at);
        for (int k = 0; k < n; k++)
            shape[k] = x.shape[at[k]];
        te_unflatten(b, n, shape, whole, parts);
        for (int k = 0; k < n; k++)
            index[at[k]] = parts[k];
    }
    return te_map(b, x.dtype, to.n, out, te_load(b, x, index));
}

static void compute_layout_transform(TeBuilder *b)
{
    te_output(b, ops_layout(b, te_input(b, 0), attrs_string(b->attrs, "src_layout"),
                            attrs_string(b->attrs, "dst_layout")));
}

/* ---- layouts that a schedule chose ----------------------------------------------------------------
 *
 * Each axis of a tensor is a part of a whole axis: (whole / step) % extent. */

typedef struct Parts {
    int n, wholes;
    int whole[TENSOR_RANK_MOST];
    int64_t step[TENSOR_RANK_MOST], extent[TENSOR_RANK_MOST];
} Parts;

/* "2h3w4h": extents and names of the axes; parts of one name are those of one whole, the outermost first. */
static bool read_parts(Str text, Parts *p)
{
    *p = (Parts){.wholes = 'z' + 1};
    for (size_t i = 0; i < text.len; i++) {
        int64_t extent = 0;
        while (i < text.len && text.ptr[i] >= '0' && text.ptr[i] <= '9' && extent < OPS_MOST)
            extent = extent * 10 + (text.ptr[i++] - '0');
        char c = i < text.len ? text.ptr[i] : 0;
        bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (!letter || extent < 1 || extent > OPS_MOST || p->n == TENSOR_RANK_MOST)
            return false;
        for (int k = 0; k < p->n; k++)
            if (p->whole[k] == c && __builtin_mul_overflow(p->step[k], extent, &p->step[k]))
                return false;
        p->whole[p->n] = c;
        p->step[p->n] = 1;
        p->extent[p->n++] = extent;
    }
    return true;
}

/* [axis of the data, step, extent] for each axis of the result. */
static bool read_index_map(const Attrs *a, int rank, Parts *p)
{
    const AttrValue *map = attrs_find(a, "index_map");
    *p = (Parts){.wholes = rank};
    for (uint32_t i = 0; i < map->list.n; i++, p->n++) {
        const AttrValue *v = &map->list.at[i];
        if (v->kind != ATTR_LIST || v->list.n != 3 || i == TENSOR_RANK_MOST)
            return false;
        const AttrValue *one = v->list.at;
        for (int k = 0; k < 3; k++)
            if (one[k].i < (k ? 1 : 0) || one[k].i > (k ? OPS_MOST : rank - 1))
                return false;
        p->whole[i] = (int)one[0].i;
        p->step[i] = one[1].i;
        p->extent[i] = one[2].i;
    }
    return true;
}

/* The extent of a whole axis: 1 where it has no parts; -1 when its parts leave gaps or overlap. */
static int64_t whole_extent(const Parts *p, int whole)
{
    int64_t total = 1;
    for (;;) {
        int next = -1;
        for (int i = 0; i < p->n; i++)
            if (p->whole[i] == whole && p->step[i] >= total && p->extent[i] > 1 &&
                (next < 0 || p->step[i] < p->step[next]))
                next = i;
        if (next < 0)
            break;
        if (p->step[next] != total || __builtin_mul_overflow(total, p->extent[next], &total))
            return -1;
    }
    for (int i = 0; i < p->n; i++)
        if (p->whole[i] == whole && p->extent[i] > 1 && p->step[i] >= total)
            return -1;
    return total;
}

/* What the data and the result are parts of. */
static bool parts_of_call(const Attrs *a, uint32_t rank, const Dim *dims, Parts *from, Parts *to)
{
    if (!attrs_find(a, "index_map"))
        return read_parts(attrs_string(a, "src_layout"), from) &&
               read_parts(attrs_string(a, "dst_layout"), to);
    *from = (Parts){.n = (int)rank, .wholes = (int)rank};
    for (uint32_t i = 0; i < rank; i++) {
        from->whole[i] = (int)i;
        from->step[i] = 1;
        from->extent[i] = dims[i];
    }
    bool good = read_index_map(a, (int)rank, to);
    for (uint32_t i = 0; good && i < rank; i++)
        if (dims[i] < 0) /* it is what its parts make of it */
            from->extent[i] = whole_extent(to, (int)i);
    return good;
}

#define SHAPES_rel_chosen_layout "(d...) -> the extents of the parts, in their order"
static RelResult rel_chosen_layout(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    Parts from, to;
    if (!t)
        return rel_blocked(r);
    bool fits = parts_of_call(r->attrs, t->n, t->dims, &from, &to) && from.n == (int)t->n;
    for (int i = 0; fits && i < from.n; i++)
        fits = dim_agrees(t->dims[i], from.extent[i]) && from.extent[i] > 0;
    for (int i = 0; fits && i < from.wholes; i++)
        fits = whole_extent(&from, i) == whole_extent(&to, i) && whole_extent(&to, i) > 0;
    if (fits)
        return rel_out_tensor(r, t->dtype, (uint32_t)to.n, to.extent);
    rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "the parts of the axes do not fit `%s` or each other",
              type_str(r->cx, t));
    return REL_FAILED;
}

static void compute_chosen_layout(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Parts from, to;
    Te *index[TENSOR_RANK_MOST];
    parts_of_call(b->attrs, (uint32_t)x.rank, x.shape, &from, &to);
    for (int i = 0; i < from.n; i++) {
        Te *whole = te_int(b, 0);
        for (int k = 0; k < to.n; k++)
            if (to.whole[k] == from.whole[i])
                whole = ops_affine(b, whole, 1, te_axis(b, k), to.step[k], 0);
        Te *part = te_binary(b, TE_DIV, whole, te_int(b, from.step[i]));
        index[i] = te_binary(b, TE_MOD, part, te_int(b, from.extent[i]));
    }
    ops_emit(b, te_load(b, x, index));
}

/* ---- nn.depth_to_space, nn.space_to_depth --------------------------------------------------------- */

static RelResult block_rel(Rel *r, bool to_space)
{
    const Type *t = rel_tensor(r, 0);
    int at[4];
    if (!t)
        return rel_blocked(r);
    int64_t b = attrs_int(r->attrs, "block_size", 1);
    if (!rel_rank(r, 0, t, 4) || !rel_layout(r, "layout", "NCHW", at))
        return REL_FAILED;
    Dim dims[4], c = t->dims[at[1]], h = t->dims[at[2]], w = t->dims[at[3]];
    bool fits =
        b > 0 && b <= INT32_MAX &&
        (to_space ? c < 0 || c % (b * b) == 0 : (h < 0 || h % b == 0) && (w < 0 || w % b == 0));
    if (!fits) {
        rel_error(r, E0202_SHAPE, 0, "`%s` cannot be moved in blocks of %lld", type_str(r->cx, t),
                  (long long)b);
        return REL_FAILED;
    }
    dims[at[0]] = t->dims[at[0]];
    dims[at[1]] = to_space ? dim_floor_div(r->cx, c, b * b) : dim_mul(r->cx, c, b * b);
    dims[at[2]] = to_space ? dim_mul(r->cx, h, b) : dim_floor_div(r->cx, h, b);
    dims[at[3]] = to_space ? dim_mul(r->cx, w, b) : dim_floor_div(r->cx, w, b);
    return rel_out_tensor(r, t->dtype, 4, dims);
}

#define SHAPES_rel_depth_to_space \
    "(N, C, H, W) -> (N, C/block_size/block_size, H*block_size, W*block_size)"
static RelResult rel_depth_to_space(Rel *r)
{
    return block_rel(r, true);
}

#define SHAPES_rel_space_to_depth \
    "(N, C, H, W) -> (N, C*block_size*block_size, H/block_size, W/block_size)"
static RelResult rel_space_to_depth(Rel *r)
{
    return block_rel(r, false);
}

/* DCR: a channel is (place in the block, channel); CRD: (channel, place in the block). */
static void compute_depth_to_space(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int at[4];
    int64_t block = attrs_int(b->attrs, "block_size", 1);
    bool crd = str_is(attrs_string(b->attrs, "mode"), "CRD");
    Te *index[4], *y, *yb, *z, *zb;
    layout_positions(attrs_string(b->attrs, "layout"), "NCHW", at);
    int64_t channels = te_out_shape(b, 0)[at[1]], row[2], joined[3];
    row[1] = block;
    row[0] = te_out_shape(b, 0)[at[2]] / block;
    Te *parts[2];
    te_unflatten(b, 2, row, te_axis(b, at[2]), parts);
    y = parts[0], yb = row[0] == 1 ? te_axis(b, at[2]) : parts[1];
    row[0] = te_out_shape(b, 0)[at[3]] / block;
    te_unflatten(b, 2, row, te_axis(b, at[3]), parts);
    z = parts[0], zb = row[0] == 1 ? te_axis(b, at[3]) : parts[1];
    Te *c = te_axis(b, at[1]), *order[3] = {crd ? c : yb, crd ? yb : zb, crd ? zb : c};
    joined[0] = crd ? channels : block;
    joined[1] = block;
    joined[2] = crd ? block : channels;
    index[at[0]] = te_axis(b, at[0]);
    index[at[1]] = te_flatten(b, 3, joined, order);
    index[at[2]] = y;
    index[at[3]] = z;
    ops_emit(b, te_load(b, x, index));
}

static void compute_space_to_depth(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int at[4];
    int64_t block = attrs_int(b->attrs, "block_size", 1);
    Te *index[4], *parts[3];
    layout_positions(attrs_string(b->attrs, "layout"), "NCHW", at);
    Te *channel = te_axis(b, at[1]), *size = te_int(b, block),
       *c = te_int(b, x.shape[at[1]] ? x.shape[at[1]] : 1);
    parts[2] = te_binary(b, TE_MOD, channel, c);
    Te *place = te_binary(b, TE_DIV, channel, c);
    parts[0] = te_binary(b, TE_DIV, place, size);
    parts[1] = te_binary(b, TE_MOD, place, size);
    index[at[0]] = te_axis(b, at[0]);
    index[at[1]] = parts[2];
    index[at[2]] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, te_axis(b, at[2]), size), parts[0]);
    index[at[3]] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, te_axis(b, at[3]), size), parts[1]);
    ops_emit(b, te_load(b, x, index));
}

/* ---- nn.space_to_batch_nd, nn.batch_to_space_nd ---------------------------------------------------- */

typedef struct Blocks {
    int n;
    int64_t size[TENSOR_RANK_MOST], before[TENSOR_RANK_MOST], after[TENSOR_RANK_MOST], product;
} Blocks;

static bool blocks_of(const Attrs *a, const char *key, Blocks *k)
{
    k->n = attrs_ints(a, "block_shape", k->size, TENSOR_RANK_MOST);
    k->product = 1;
    for (int i = 0; i < k->n; i++)
        if (k->size[i] < 1 || __builtin_mul_overflow(k->product, k->size[i], &k->product))
            return false;
    return ops_pairs(a, key, (uint32_t)k->n, k->before, k->after);
}

#define SHAPES_rel_space_to_batch \
    "(n, d..., r...) -> (n*product(block_shape), (d + paddings)/block_shape..., r...)"
static RelResult rel_space_to_batch(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    Blocks k;
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    bool fits = blocks_of(r->attrs, "paddings", &k) && k.n + 1 <= (int)t->n;
    for (uint32_t i = 0; fits && i < t->n; i++) {
        dims[i] = i == 0 ? dim_mul(r->cx, t->dims[i], k.product) : t->dims[i];
        if (i == 0 || (int)i > k.n)
            continue;
        int64_t more = k.before[i - 1] + k.after[i - 1];
        int64_t padded = -1;
        fits = dims[i] < 0 ||
               (int64_add(dims[i], more, &padded) && padded >= 0 && padded % k.size[i - 1] == 0);
        dims[i] = dim_floor_div(r->cx, dim_offset(r->cx, dims[i], more), k.size[i - 1]);
    }
    if (fits)
        return rel_out_tensor(r, t->dtype, t->n, dims);
    rel_error(r, E0202_SHAPE, 0, "blocks and paddings do not fit `%s`", type_str(r->cx, t));
    return REL_FAILED;
}

#define SHAPES_rel_batch_to_space \
    "(n, d..., r...) -> (n/product(block_shape), d*block_shape - crops..., r...)"
static RelResult rel_batch_to_space(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    Blocks k;
    Dim dims[TENSOR_RANK_MOST];
    if (!t)
        return rel_blocked(r);
    bool fits = blocks_of(r->attrs, "crops", &k) && k.n + 1 <= (int)t->n;
    for (uint32_t i = 0; fits && i < t->n; i++) {
        dims[i] = t->dims[i];
        if (i == 0) {
            fits = dims[i] < 0 || dims[i] % k.product == 0;
            dims[i] = dim_floor_div(r->cx, dims[i], k.product);
        } else if ((int)i <= k.n) {
            int64_t crop = k.before[i - 1] + k.after[i - 1];
            Dim whole = dim_mul(r->cx, dims[i], k.size[i - 1]);
            fits = (whole < 0 || whole >= crop) && k.before[i - 1] >= 0 && k.after[i - 1] >= 0;
            dims[i] = dim_offset(r->cx, whole, -crop);
        }
    }
    if (fits)
        return rel_out_tensor(r, t->dtype, t->n, dims);
    rel_error(r, E0202_SHAPE, 0, "blocks and crops do not fit `%s`", type_str(r->cx, t));
    return REL_FAILED;
}

/* The batch of the result is (place in the block, batch). */
static void compute_space_to_batch(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Blocks k;
    Te *index[TENSOR_RANK_MOST], *batch = te_int(b, x.shape[0] ? x.shape[0] : 1);
    blocks_of(b->attrs, "paddings", &k);
    ops_axes(b, 0, x.rank, index);
    Te *place = te_binary(b, TE_DIV, index[0], batch);
    index[0] = te_binary(b, TE_MOD, index[0], batch);
    for (int i = k.n - 1; i >= 0; i--) {
        Te *size = te_int(b, k.size[i]), *in = te_binary(b, TE_MOD, place, size);
        place = te_binary(b, TE_DIV, place, size);
        Te *at = te_binary(b, TE_ADD, te_binary(b, TE_MUL, index[i + 1], size), in);
        index[i + 1] = te_binary(b, TE_SUB, at, te_int(b, k.before[i]));
    }
    ops_emit(b, te_load_or(b, x, index, ops_number(b, attrs_float(b->attrs, "pad_value"))));
}

static void compute_batch_to_space(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    Blocks k;
    Te *index[TENSOR_RANK_MOST], *place = te_int(b, 0);
    blocks_of(b->attrs, "crops", &k);
    ops_axes(b, 0, x.rank, index);
    for (int i = 0; i < k.n; i++) {
        Te *size = te_int(b, k.size[i]),
           *at = te_binary(b, TE_ADD, index[i + 1], te_int(b, k.before[i]));
        place =
            te_binary(b, TE_ADD, te_binary(b, TE_MUL, place, size), te_binary(b, TE_MOD, at, size));
        index[i + 1] = te_binary(b, TE_DIV, at, size);
    }
    index[0] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, place, te_int(b, te_out_shape(b, 0)[0])),
                         index[0]);
    ops_emit(b, te_load(b, x, index));
}

/* ---- rows ---------------------------------------------------------------------------------------- */

static const OpAttr layout_attrs[] = {
    ATTR_MUST("src_layout", STRING, "the order of the axes, such as \"NCHW\""),
    ATTR_MUST("dst_layout", STRING, "the order in the result, such as \"NCHW16c\""),
    {0}};
static const OpAttr chosen_attrs[] = {
    ATTR_MUST("src_layout", STRING, "extents and names of the data's axes, such as \"8h6w\""),
    ATTR_MUST("dst_layout", STRING, "those of the result's, such as \"2h6w4h\""),
    {0}};
static const OpAttr index_map_attrs[] = {
    ATTR_MUST("index_map", INT_LISTS,
              "for each axis of the result [axis, step, extent]: (index / step) % extent"),
    {0}};
static const OpAttr block_attrs[] = {
    ATTR_I("block_size", 1, "elements of a block along each axis"),
    ATTR_S("layout", "NCHW", "the order of the axes"),
    ATTR_ONE("mode", "DCR", "what varies fastest: the channel (DCR) or the place (CRD)", "DCR",
             "CRD"),
    {0}};
static const OpAttr space_to_batch_attrs[] = {
    {.name = "block_shape",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
     .doc = "extents of a block"},
    ATTR_MUST("paddings", INT_LISTS, "for each blocked axis how many before and after"),
    ATTR_F("pad_value", 0, "the new elements"),
    {0}};
static const OpAttr batch_to_space_attrs[] = {
    {.name = "block_shape",
     .type = ATTR_TYPE_INTS,
     .otherwise = {.kind = ATTR_LIST, .list = {ops_ones, 2}},
     .doc = "extents of a block"},
    ATTR_MUST("crops", INT_LISTS, "for each blocked axis how many to cut before and after"),
    {0}};

const Op layout_ops[] = {
    {.name = "layout_transform",
     .doc = "The elements with their axes in another order, or split in blocks.",
     .args = args_data,
     .attrs = layout_attrs,
     .samples = "(float32[1,4,2,3], src_layout=\"NCHW\", dst_layout=\"NHWC\") "
                "(float32[1,4,2,3], src_layout=\"NCHW\", dst_layout=\"NCHW2c\")",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_layout_transform),
     .compute = compute_layout_transform,
     .grad = "layout_transform(%g, src_layout=%dst_layout, dst_layout=%src_layout)"},
    OP_ROW("auto_scheduler_layout_transform", args_data, chosen_attrs, OP_INJECTIVE,
           rel_chosen_layout, "(float32[4,6], src_layout=\"4h6w\", dst_layout=\"2h6w2h\")",
           "The elements with axes split in parts, in the order that a schedule chose.",
           .shapes = SHAPES_rel_chosen_layout, .compute = compute_chosen_layout),
    OP_ROW("meta_schedule_layout_transform", args_data, index_map_attrs, OP_INJECTIVE,
           rel_chosen_layout, "(float32[4,6], index_map=[[0, 2, 2], [1, 1, 6], [0, 1, 2]])",
           "The elements with axes split in parts, as a map of indices says.",
           .shapes = SHAPES_rel_chosen_layout, .compute = compute_chosen_layout),
    {.name = "nn.depth_to_space",
     .doc = "Blocks of channels moved to places.",
     .args = args_data,
     .attrs = block_attrs,
     .samples = "(float32[1,8,2,3], block_size=2)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_depth_to_space),
     .compute = compute_depth_to_space},
    {.name = "nn.space_to_depth",
     .doc = "Blocks of places moved to channels.",
     .args = args_data,
     .attrs = block_attrs,
     .samples = "(float32[1,2,4,6], block_size=2)",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_space_to_depth),
     .compute = compute_space_to_depth},
    {.name = "nn.space_to_batch_nd",
     .doc = "Blocks of places, padded, moved to the batch.",
     .args = args_data,
     .attrs = space_to_batch_attrs,
     .samples = "(float32[1,4,4,1], block_shape=[2, 2], paddings=[[0, 0], [0, 0]])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_space_to_batch),
     .compute = compute_space_to_batch},
    {.name = "nn.batch_to_space_nd",
     .doc = "Blocks of the batch moved to places, and cut.",
     .args = args_data,
     .attrs = batch_to_space_attrs,
     .samples = "(float32[4,2,2,1], block_shape=[2, 2], crops=[[0, 0], [0, 0]])",
     .pattern = OP_INJECTIVE,
     OP_REL(rel_batch_to_space),
     .compute = compute_batch_to_space},
    {0},
};
