/* Computes convolutions and pooling with their axes in another order.
 *
 *     ConvertLayout{desired_layouts={"nn.conv2d": ["NHWC", "default"]}}        nn.relu(nn.conv2d(%x, %w, …))
 *  => %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NHWC"); %1 = layout_transform(%w, src_layout="OIHW", dst_layout="HWIO");
 *     %2 = nn.conv2d(%0, %1, …, data_layout="NHWC", kernel_layout="HWIO");
 *     layout_transform(nn.relu(%2), src_layout="NHWC", dst_layout="NCHW")
 *
 * Operators to which the order does not matter, or that can be told of it, take the values as they then are; in front of all others,
 * and of results, the axes are put back. */
#include "passes/convert_layout.h"

#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <string.h>

/* A value whose axes lie in another order now. */
typedef struct Moved {
    Expr *now;
    Str from, to;
} Moved;

typedef struct Transform {
    Str from, to;
    Expr *e;
    struct Transform *next;
} Transform;

typedef struct Convert {
    PassRun *run;
    const LayoutWishes *wishes;
    PtrMap moved;             /* a value with its axes put back -> Moved */
    PtrMap transforms;        /* a value -> Transform */
    bool refused;             /* a wish that is none, after a diagnostic */
} Convert;

typedef struct Site {
    Convert *c;
    OpsMake m;
    const Call *old, *now;
} Site;

/* ---- layouts ------------------------------------------------------------------------------------------------------ */

/* The same letters, each once, in another order or the same. */
static bool is_order_of(Str a, Str b)
{
    bool same = a.len == b.len;
    for (size_t i = 0; same && i < a.len; i++)
        same = a.ptr[i] >= 'A' && a.ptr[i] <= 'Z' && layout_axis(a, a.ptr[i]) == (int)i &&
               layout_axis(b, a.ptr[i]) >= 0;
    return same;
}

static Expr *transform(Site *s, Expr *e, Str from, Str to)
{
    const Moved *m = ptrmap_find(&s->c->moved, e);
    if (str_eq(from, to))
        return e;
    if (m && str_eq(m->from, from) && str_eq(m->to, to))
        return m->now;
    void **slot = ptrmap_slot(&s->c->transforms, e);
    for (const Transform *t = slot ? *slot : NULL; t; t = t->next)
        if (str_eq(t->from, from) && str_eq(t->to, to))
            return t->e;
    Attr attrs[2] = {{.key = "src_layout", .value = {.kind = ATTR_STRING, .s = from}},
                     {.key = "dst_layout", .value = {.kind = ATTR_STRING, .s = to}}};
    Transform *made = arena_new(&s->c->run->scratch, Transform);
    Expr *now = ops_call(&s->m, "layout_transform", 1, &e, 2, attrs);
    if (made && slot) {
        *made = (Transform){from, to, now, *slot};
        *slot = made;
    }
    return now;
}

/* The value with its axes put back, remembered as what it is now. */
static Expr *put_back(Site *s, Expr *now, Str from, Str to)
{
    if (!now || str_eq(from, to))
        return now;
    Expr *back = transform(s, now, to, from);
    Moved *m = arena_new(&s->c->run->scratch, Moved);
    if (m && back) {
        *m = (Moved){now, from, to};
        ptrmap_put(&s->c->moved, back, m);
    }
    return back;
}

/* A layout of the parameters, which do not live as long as the program. */
static Str kept(Site *s, Str layout)
{
    return (Str){arena_copy_text(s->m.arena, layout.ptr, layout.len), layout.len};
}

static const Attrs *with_text(Site *s, const Attrs *attrs, const char *key, Str text)
{
    return attrs_with(s->m.arena, attrs, key, (AttrValue){.kind = ATTR_STRING, .s = text});
}

static Expr *call_again(Site *s, uint32_t n, Expr *const *args, const Attrs *attrs)
{
    return expr_call(s->m.arena, s->m.span, s->old->callee, n, args, attrs);
}

/* ---- operators with a layout of their own --------------------------------------------------------------------------- */

/* The operand that `kernel_layout` tells of; 0: none. */
static uint32_t kernel_of(const Call *call)
{
    const OpArg *args = expr_call_of_op(&call->base)->args;
    for (uint32_t i = 1; attrs_find(call->attrs, "kernel_layout") && i < call->args.n; i++)
        if (!strcmp(args[i].name, "weight"))
            return i;
    return 0;
}

/* Offsets of a convolution's places stand in the order of its data. */
static bool lies_like_data(const Call *call, uint32_t i)
{
    return i == 0 || !strcmp(expr_call_of_op(&call->base)->args[i].name, "offset");
}

static bool is_depthwise(const Call *conv, Str kernel)
{
    uint32_t weight = kernel_of(conv);
    const Type *w = weight ? expr_tensor_type(conv->args.at[weight]) : NULL;
    int o = layout_axis(kernel, 'O'), i = layout_axis(kernel, 'I');
    int64_t groups = attrs_int(conv->attrs, "groups", 1);
    return w && o >= 0 && i >= 0 && groups > 1 && w->dims[o] == groups && w->dims[i] == 1;
}

/* The order of a kernel that goes with that of the data. */
static Str kernel_for(const Call *conv, Str data, Str kernel)
{
    static const char *const usual[][2] = {{"NHWC", "HWIO"},   {"NCHW", "OIHW"},
                                           {"NWC", "WIO"},     {"NCW", "OIW"},
                                           {"NDHWC", "DHWIO"}, {"NCDHW", "OIDHW"}};
    if (str_is(data, "NHWC") && is_depthwise(conv, kernel))
        return str_of("HWOI");
    bool unpacks = layout_blocks(kernel) && !layout_blocks(data);
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (str_is(data, usual[i][0]) && (unpacks || is_order_of(str_of(usual[i][1]), kernel)))
            return str_of(usual[i][1]);
    return kernel;
}

static const AttrValue *desired_of(const Convert *c, const Op *op)
{
    const AttrValue *desired = c->wishes->desired;
    for (uint32_t i = 0; i + 1 < desired->list.n; i += 2)
        if (desired->list.at[i].kind == ATTR_STRING && str_is(desired->list.at[i].s, op->name))
            return &desired->list.at[i + 1];
    return NULL;
}

static const char *layout_key(const Call *call)
{
    return !call->attrs                             ? NULL
           : attrs_find(call->attrs, "data_layout") ? "data_layout"
           : attrs_find(call->attrs, "layout")      ? "layout"
                                                    : NULL;
}

/* Whether values of the type have whole blocks in the layout; an axis whose extent is not known is not split. */
static bool can_become(Site *s, Str from, const Type *t, Str to)
{
    if (!layout_can_become(s->c->run->cx, from, t, to))
        return false;
    for (size_t i = 0; i < to.len && !str_eq(from, to); i++) {
        int axis = to.ptr[i] >= 'a' ? layout_axis(from, (char)(to.ptr[i] - 'a' + 'A')) : -1;
        if (axis >= 0 && t->dims[axis] < 0)
            return false;
    }
    return true;
}

/* The operand of a call that gets another order; NULL when it cannot be told what becomes of it. Regions, scales and zero points have
 * no axes of the data. */
static Expr *operand_in(Site *s, uint32_t i, Str from, Str to, Str kernel_to)
{
    Expr *e = s->now->args.at[i];
    const Type *t = expr_tensor_type(s->old->args.at[i]);
    if (lies_like_data(s->old, i))
        return t && can_become(s, from, t, to) ? transform(s, e, from, to) : NULL;
    if (i == kernel_of(s->old)) {
        Str kernel = attrs_string(s->old->attrs, "kernel_layout");
        return t && can_become(s, kernel, t, kernel_to) ? transform(s, e, kernel, kernel_to) : NULL;
    }
    return t && t->n < layout_rank(from) ? e : NULL;
}

/* The call with these orders of its data, of its kernel where it has one, and of its result. */
static Expr *in_layout(Site *s, Str to, Str kernel_to, Str out_to)
{
    const Call *old = s->old;
    const char *key = layout_key(old);
    Str from = attrs_string(old->attrs, key);
    const AttrValue *out = attrs_find(old->attrs, "out_layout");
    Str back = out && out->s.len ? out->s : from;
    const Type *t = expr_tensor_type(&old->base);
    if (!t || !can_become(s, back, t, out_to))
        return NULL;
    Expr **args = arena_alloc_must(&s->c->run->scratch, old->args.n, sizeof *args);
    for (uint32_t i = 0; i < old->args.n; i++)
        if (!(args[i] = operand_in(s, i, from, to, kernel_to)))
            return NULL;
    const Attrs *attrs = with_text(s, old->attrs, key, to);
    if (out)
        attrs = with_text(s, attrs, "out_layout", str_eq(out_to, to) ? str_of("") : out_to);
    if (kernel_of(old))
        attrs = with_text(s, attrs, "kernel_layout", kernel_to);
    return put_back(s, call_again(s, old->args.n, args, attrs), back, out_to);
}

/* The layouts that parameters of the pass name; "default" stands for what goes with the others. */
static Layouts named_layouts(Site *s, const AttrValue *layouts)
{
    const AttrValue *first =
        layouts->kind == ATTR_LIST && layouts->list.n ? layouts->list.at : layouts;
    const AttrValue *second =
        layouts->kind == ATTR_LIST && layouts->list.n > 1 ? &layouts->list.at[1] : NULL;
    Str to = first->kind == ATTR_STRING ? first->s : str_of("");
    Str kernel = str_of("");
    to = str_is(to, "default") ? attrs_string(s->old->attrs, layout_key(s->old)) : kept(s, to);
    if (kernel_of(s->old)) {
        kernel = attrs_string(s->old->attrs, "kernel_layout");
        kernel = second && second->kind == ATTR_STRING && !str_is(second->s, "default")
                     ? kept(s, second->s)
                     : kernel_for(s->old, to, kernel);
    }
    return (Layouts){to, kernel, to};
}

/* Whether a wish's text is one for the operator, whatever the extents are. */
static bool is_order_for(Site *s, Layouts wish, Str *has, Str *wrong)
{
    *has = attrs_string(s->old->attrs, layout_key(s->old));
    *wrong = wish.data;
    if (!layout_same_axes(*has, wish.data))
        return false;
    for (uint32_t i = 0; i < s->old->args.n; i++) {
        const Type *t = expr_tensor_type(s->old->args.at[i]);
        bool follows = lies_like_data(s->old, i) || (kernel_of(s->old) && i == kernel_of(s->old));
        if (!follows && t && t->n >= layout_rank(*has))
            return false;
    }
    if (!kernel_of(s->old))
        return true;
    *has = attrs_string(s->old->attrs, "kernel_layout");
    *wrong = wish.kernel;
    return layout_same_axes(*has, wish.kernel);
}

/* A call whose extents are not of whole blocks stays as it is; a text that is no order for the operator is a mistake. */
static Expr *convert_wished(Site *s, Layouts wish)
{
    Expr *e = in_layout(s, wish.data, wish.kernel, wish.out);
    Str has, wrong;
    if (!e && s->c->wishes->asked && !is_order_for(s, wish, &has, &wrong)) {
        Diag *d = diag_error(s->m.cx->diags, E0603_PIPELINE, s->c->run->where,
                             "`%s` cannot have its axes in the order \"%.*s\"",
                             expr_call_of_op(&s->old->base)->name, (int)wrong.len, wrong.ptr);
        diag_help(d,
                  "it has \"%.*s\": another order is of the same letters, and blocks are written "
                  "\"NCHW8c\"",
                  (int)has.len, has.ptr);
        s->c->refused = true;
    }
    return e;
}

/* ---- operators that take what comes ----------------------------------------------------------------------------------- */

static const Moved *moved_of(const Convert *c, const Expr *e)
{
    return ptrmap_find(&c->moved, e);
}

/* The operand has one element along the axis; where `from` splits it, in its block as well. */
static bool has_one(Str from, const Type *t, uint32_t ahead, int axis)
{
    int block = layout_axis(from, (char)(layout_letter(from, (uint32_t)axis) - 'A' + 'a'));
    bool one = (uint32_t)axis < ahead || t->dims[(uint32_t)axis - ahead] == 1;
    return one && (block < 0 || (uint32_t)block < ahead || t->dims[(uint32_t)block - ahead] == 1);
}

/* Where the operand has one element along an axis that is split, its block has one, too: "NCHW16c" is "NCHW1c" for it. */
static Str with_ones(Site *s, Str from, const Type *t, uint32_t ahead, Str to)
{
    char *at = arena_alloc_must(s->m.arena, to.len + 1, 1);
    size_t n = 0, digits = 0;
    for (size_t i = 0; i < to.len; i++) {
        char c = to.ptr[i];
        int axis = c >= 'a' ? layout_axis(from, (char)(c - 'a' + 'A')) : -1;
        bool one = axis >= 0 && has_one(from, t, ahead, axis);
        if (one)
            n -= digits;
        if (one)
            at[n++] = '1';
        digits = c <= '9' ? digits + 1 : 0;
        at[n++] = c;
    }
    return (Str){at, n};
}

/* In a layout with blocks, an operand has whole blocks. */
static bool has_whole_blocks(Str layout, const Type *t, const Type *out)
{
    bool whole = t->n == out->n;
    for (uint32_t i = 0; whole && i < t->n; i++) {
        char c = layout_letter(layout, i);
        char inner = c < 'a' ? (char)(c - 'A' + 'a') : c;
        whole = layout_axis(layout, inner) < 0 || t->dims[i] == out->dims[i];
    }
    return whole;
}

/* The operand in the order of the others; what has fewer axes gets them in front. */
static Expr *aligned(Site *s, uint32_t i, const Moved *like)
{
    Expr *e = s->now->args.at[i];
    const Type *t = expr_tensor_type(s->old->args.at[i]);
    const Type *out = expr_tensor_type(&s->old->base);
    uint32_t rank = layout_rank(like->from);
    if (!t || t->n > rank)
        return NULL;
    if (t->n == 0)
        return e;
    if (layout_blocks(like->from) && !has_whole_blocks(like->from, t, out))
        return NULL;
    Str to =
        layout_blocks(like->to) ? with_ones(s, like->from, t, rank - t->n, like->to) : like->to;
    if (t->n < rank) {
        Attr attrs[2] = {ops_attr_int("axis", 0), ops_attr_int("num_newaxis", rank - t->n)};
        e = ops_call(&s->m, "expand_dims", 1, &e, 2, attrs);
    }
    return transform(s, e, like->from, str_eq(to, like->to) ? like->to : to);
}

static Expr *convert_broadcast(Site *s, const Moved *like)
{
    uint32_t n = s->old->args.n;
    const Type *out = expr_tensor_type(&s->old->base);
    Expr **args = arena_alloc_must(&s->c->run->scratch, n + 1, sizeof *args);
    if (!out || !can_become(s, like->from, out, like->to))
        return NULL;
    for (uint32_t i = 0; i < n; i++)
        if (!(args[i] = aligned(s, i, like)))
            return NULL;
    return put_back(s, call_again(s, n, args, s->old->attrs), like->from, like->to);
}

static Expr *convert_concatenate(Site *s, const Tuple *fields, const Moved *like)
{
    const Type *out = expr_tensor_type(&s->old->base);
    Expr **args = arena_alloc_must(&s->c->run->scratch, fields->fields.n + 1, sizeof *args);
    if (!out || out->n != layout_rank(like->from))
        return NULL;
    for (uint32_t i = 0; i < fields->fields.n; i++) {
        const Moved *m = moved_of(s->c, fields->fields.at[i]);
        if (!m || !str_eq(m->from, like->from) || !str_eq(m->to, like->to))
            return NULL;
        args[i] = m->now;
    }
    int axis = layout_axis(like->to,
                           layout_letter(like->from, ops_axis(s->old->attrs, "axis", (int)out->n)));
    if (axis < 0)
        return NULL;
    const Attrs *attrs =
        attrs_with(s->m.arena, s->old->attrs, "axis", (AttrValue){.kind = ATTR_INT, .i = axis});
    Expr *tuple = expr_tuple(s->m.arena, fields->base.span, fields->fields.n, args);
    return put_back(s, call_again(s, 1, &tuple, attrs), like->from, like->to);
}

/* Where an axis of the old order is now. */
static int64_t axis_now(const Moved *m, int64_t axis)
{
    return layout_axis(m->to, m->from.ptr[axis + (axis < 0 ? (int64_t)m->from.len : 0)]);
}

/* The layout without the letters at these places. */
static Str without(Site *s, Str layout, int n, const int64_t *places)
{
    char *at = arena_alloc_must(s->m.arena, layout.len + 1, 1);
    size_t kept_letters = 0;
    for (size_t i = 0; i < layout.len; i++) {
        bool goes = false;
        for (int k = 0; k < n; k++)
            goes |= places[k] == (int64_t)i;
        if (!goes)
            at[kept_letters++] = layout.ptr[i];
    }
    return (Str){at, kept_letters};
}

static const Attrs *with_ints(Site *s, const Attrs *attrs, const char *key, int n, const int64_t *v)
{
    return attrs_with(s->m.arena, attrs, key, ops_attr_ints(&s->m, key, (uint32_t)n, v).value);
}

static const Attrs *with_axis(Site *s, int64_t axis)
{
    return attrs_with(s->m.arena, s->old->attrs, "axis", (AttrValue){.kind = ATTR_INT, .i = axis});
}

/* The axes of an attribute as they were, from 0, and as they are; those of the whole tensor when it names none. */
static int axes_of(Site *s, const Moved *like, int64_t *was, int64_t *now)
{
    int rank = (int)like->from.len, n = attrs_ints(s->old->attrs, "axis", was, TENSOR_RANK_MOST);
    for (int i = 0; n < 0 && i < rank; i++)
        was[i] = i;
    n = n < 0 ? rank : n;
    for (int i = 0; i < n; i++) {
        was[i] += was[i] < 0 ? rank : 0;
        now[i] = axis_now(like, was[i]);
    }
    return n;
}

static void sort_axes(int n, int64_t *axes)
{
    for (int i = 1; i < n; i++)
        for (int k = i; k > 0 && axes[k - 1] > axes[k]; k--) {
            int64_t low = axes[k];
            axes[k] = axes[k - 1];
            axes[k - 1] = low;
        }
}

/* Whether a reduction lists axes; where it lists none all go, also with `exclude`. */
static bool lists_axes(const Site *s)
{
    int64_t axes[TENSOR_RANK_MOST];
    return attrs_ints(s->old->attrs, "axis", axes, TENSOR_RANK_MOST) > 0;
}

/* Sums and the like: the result has the axes that stay, in the order of the operand. */
static Expr *convert_reduce(Site *s, const Moved *like)
{
    int64_t was[TENSOR_RANK_MOST], now[TENSOR_RANK_MOST];
    int rank = (int)like->from.len, n = axes_of(s, like, was, now);
    bool keeps = attrs_bool(s->old->attrs, "keepdims");
    bool lists = lists_axes(s), exclude = lists && attrs_bool(s->old->attrs, "exclude");
    Expr *arg = like->now;
    sort_axes(n, now);
    Expr *e =
        call_again(s, 1, &arg, lists ? with_ints(s, s->old->attrs, "axis", n, now) : s->old->attrs);
    if (keeps)
        return put_back(s, e, like->from, like->to);
    Str from = without(s, like->from, n, was), to = without(s, like->to, n, now);
    if (!exclude)
        return put_back(s, e, from, to);
    /* The listed axes are those that stay. */
    int64_t gone[TENSOR_RANK_MOST], gone_now[TENSOR_RANK_MOST];
    int n_gone = 0;
    for (int i = 0; i < rank; i++)
        if (layout_axis(from, like->from.ptr[i]) >= 0) {
            gone[n_gone] = i;
            gone_now[n_gone++] = axis_now(like, i);
        }
    return put_back(s, e, without(s, like->from, n_gone, gone),
                    without(s, like->to, n_gone, gone_now));
}

/* Places of extremes are counted through the axes that go, in the order that these have. */
static Expr *convert_places(Site *s, const Moved *like)
{
    int64_t was[TENSOR_RANK_MOST], now[TENSOR_RANK_MOST], before = -1;
    int rank = (int)like->from.len, n = axes_of(s, like, was, now);
    bool exclude = lists_axes(s) && attrs_bool(s->old->attrs, "exclude");
    for (int i = 0; i < rank; i++) {
        bool listed = false;
        for (int k = 0; k < n; k++)
            listed |= was[k] == i;
        if (listed == exclude)
            continue;
        if (axis_now(like, i) < before)
            return NULL;
        before = axis_now(like, i);
    }
    return convert_reduce(s, like);
}

/* A transposition takes each axis from where it is now, so its result is as before. */
static Expr *convert_transpose(Site *s, const Moved *like)
{
    int64_t axes[TENSOR_RANK_MOST];
    int rank = (int)like->from.len;
    bool given = attrs_ints(s->old->attrs, "axes", axes, rank) == rank;
    for (int i = 0; i < rank; i++)
        axes[i] = axis_now(like, given ? axes[i] : rank - 1 - i);
    Expr *arg = like->now;
    return call_again(s, 1, &arg, with_ints(s, s->old->attrs, "axes", rank, axes));
}

static Expr *convert_squeeze(Site *s, const Moved *like)
{
    int64_t was[TENSOR_RANK_MOST], now[TENSOR_RANK_MOST];
    const Type *t = expr_tensor_type(s->old->args.at[0]);
    int n = axes_of(s, like, was, now), ones = 0;
    const AttrValue *axis = attrs_find(s->old->attrs, "axis");
    for (int i = 0; i < n; i++)
        if (axis->kind == ATTR_LIST || (t && t->dims[was[i]] == 1)) {
            was[ones] = was[i];
            now[ones++] = now[i];
        }
    Expr *arg = like->now;
    return put_back(s, call_again(s, 1, &arg, with_ints(s, s->old->attrs, "axis", ones, now)),
                    without(s, like->from, ones, was), without(s, like->to, ones, now));
}

static Expr *convert_slice(Site *s, const Moved *like)
{
    static const char *const keys[] = {"begin", "end", "strides"};
    int64_t axes[TENSOR_RANK_MOST];
    const Attrs *attrs = s->old->attrs;
    const Type *t = expr_tensor_type(s->old->args.at[0]);
    int rank = (int)like->from.len, n = attrs_ints(attrs, "axes", axes, rank);
    bool sized = str_is(attrs_string(attrs, "slice_mode"), "size");
    for (int i = 0; i < n; i++)
        axes[i] = axis_now(like, axes[i]);
    if (!t || !type_is_static(t))
        return NULL;
    if (n >= 0)
        attrs = with_ints(s, attrs, "axes", n, axes);
    for (int k = 0; k < 3 && n < 0; k++) {
        int64_t was[TENSOR_RANK_MOST], now[TENSOR_RANK_MOST];
        int given = attrs_ints(attrs, keys[k], was, rank);
        for (int i = 0; i < rank; i++) {
            int from = layout_axis(like->from, like->to.ptr[i]);
            int64_t whole = k == 0 ? 0 : k == 1 ? t->dims[from] : 1;
            now[i] = from < given && !(k == 2 && sized) ? was[from] : whole;
        }
        attrs = with_ints(s, attrs, keys[k], rank, now);
    }
    Expr *arg = like->now;
    return put_back(s, call_again(s, 1, &arg, attrs), like->from, like->to);
}

/* An axis is split or normalised along; other operands are as they were. */
static Expr *convert_along_axis(Site *s, const Moved *like)
{
    uint32_t n = s->old->args.n;
    const Type *t = s->old->base.type ? type_find(s->old->base.type) : NULL;
    Expr **args = arena_copy(s->m.arena, s->now->args.at, n * sizeof *args);
    int64_t axis = attrs_int(s->old->attrs, "axis", 0);
    if (!t || !args || like->from.ptr[0] != like->to.ptr[0])
        return NULL;
    args[0] = like->now;
    Expr *e = call_again(s, n, args, with_axis(s, axis_now(like, axis)));
    if (t->kind != TYPE_TUPLE)
        return put_back(s, e, like->from, like->to);
    Expr **fields = arena_new_array(s->m.arena, Expr *, t->n + 1);
    for (uint32_t i = 0; fields && i < t->n; i++) {
        const Type *field = type_find(t->parts[i]);
        fields[i] = expr_tuple_get(s->m.arena, s->m.span, e, i);
        if (field->kind == TYPE_TENSOR && field->n == like->from.len)
            fields[i] = put_back(s, fields[i], like->from, like->to);
    }
    return expr_tuple(s->m.arena, s->m.span, t->n, fields);
}

/* The extents of the second operand stand where those of the first do. */
static Expr *convert_slice_like(Site *s, const Moved *like)
{
    int64_t axes[TENSOR_RANK_MOST];
    const Attrs *attrs = s->old->attrs;
    int n = attrs_ints(attrs, "axes", axes, (int)like->from.len);
    const Type *shape = expr_tensor_type(s->old->args.at[1]);
    if (!shape || shape->n != like->from.len)
        return NULL;
    Expr *args[2] = {like->now, transform(s, s->now->args.at[1], like->from, like->to)};
    for (int i = 0; i < n; i++)
        axes[i] = axis_now(like, axes[i]);
    if (n > 0)
        attrs = with_ints(s, attrs, "axes", n, axes);
    return put_back(s, call_again(s, 2, args, attrs), like->from, like->to);
}

/* Its axes are a list, and the result has them all. */
static Expr *convert_axes(Site *s, const Moved *like)
{
    int64_t was[TENSOR_RANK_MOST], now[TENSOR_RANK_MOST];
    int n = axes_of(s, like, was, now);
    Expr *arg = like->now;
    sort_axes(n, now);
    return put_back(s, call_again(s, 1, &arg, with_ints(s, s->old->attrs, "axis", n, now)),
                    like->from, like->to);
}

/* Scales and zero points are one for all of an operand, or stay where they are told of its axis. */
static Expr *convert_quantized(Site *s, const Moved *like)
{
    bool per_axis = attrs_int(s->old->attrs, "lhs_axis", -1) >= 0 ||
                    attrs_int(s->old->attrs, "rhs_axis", -1) >= 0;
    return per_axis ? NULL : convert_broadcast(s, like);
}

static Expr *convert_pad(Site *s, const Moved *like)
{
    const AttrValue *widths = attrs_find(s->old->attrs, "pad_width");
    if (widths->kind != ATTR_LIST || widths->list.n != like->from.len)
        return NULL;
    AttrValue *at = arena_alloc_must(s->m.arena, widths->list.n, sizeof *at);
    for (size_t i = 0; i < like->to.len; i++)
        at[i] = widths->list.at[layout_axis(like->from, like->to.ptr[i])];
    AttrValue list = {.kind = ATTR_LIST, .list = {at, widths->list.n}};
    Expr *args[2] = {like->now, s->now->args.at[1]};
    return put_back(
        s, call_again(s, 2, args, attrs_with(s->m.arena, s->old->attrs, "pad_width", list)),
        like->from, like->to);
}

static bool is_named(const Op *op, const char *const *names)
{
    for (; *names; names++)
        if (!strcmp(*names, op->name))
            return true;
    return false;
}

bool layout_is_free(const Op *op)
{
    static const char *const names[] = {"clip", "cast", "nn.leaky_relu", "fixed_point_multiply",
                                        NULL};
    return op->pattern <= OP_BROADCAST && op_arity(op) <= 2 && (!op->attrs || is_named(op, names));
}

/* Operators with attributes that name axes. */
static const struct {
    const char *op;
    Expr *(*convert)(Site *s, const Moved *like);
} with_axes[] = {
    {"sum", convert_reduce},
    {"mean", convert_reduce},
    {"max", convert_reduce},
    {"min", convert_reduce},
    {"prod", convert_reduce},
    {"all", convert_reduce},
    {"any", convert_reduce},
    {"argmax", convert_places},
    {"argmin", convert_places},
    {"nn.pad", convert_pad},
    {"transpose", convert_transpose},
    {"squeeze", convert_squeeze},
    {"strided_slice", convert_slice},
    {"slice_like", convert_slice_like},
    {"topk", convert_along_axis},
    {"split", convert_along_axis},
    {"nn.batch_norm", convert_along_axis},
    {"nn.instance_norm", convert_along_axis},
    {"nn.layer_norm", convert_along_axis},
    {"nn.lrn", convert_along_axis},
    {"nn.prelu", convert_along_axis},
    {"nn.l2_normalize", convert_axes},
    {"qnn.requantize", convert_along_axis},
    {"qnn.add", convert_quantized},
    {"qnn.subtract", convert_quantized},
    {"qnn.mul", convert_quantized},
};

static Expr *convert_following(Site *s)
{
    const Op *op = expr_call_of_op(&s->old->base);
    const Tuple *fields = s->now->args.n ? expr_as_tuple(s->now->args.at[0]) : NULL;
    const Moved *like = NULL;
    if (op == op_find(s->m.cx, str_of("concatenate")) && fields) {
        for (uint32_t i = 0; i < fields->fields.n && !like; i++)
            like = moved_of(s->c, fields->fields.at[i]);
        return like ? convert_concatenate(s, fields, like) : NULL;
    }
    for (uint32_t i = 0; i < s->now->args.n && !like; i++)
        like = moved_of(s->c, s->now->args.at[i]);
    if (!like)
        return NULL;
    if (layout_is_free(op))
        return convert_broadcast(s, like);
    if (!moved_of(s->c, s->now->args.at[0]))
        return NULL;
    bool split = layout_blocks(like->from) || layout_blocks(like->to);
    for (size_t i = 0; i < sizeof with_axes / sizeof *with_axes && !split; i++)
        if (!strcmp(with_axes[i].op, op->name))
            return with_axes[i].convert(s, like);
    const char *key = layout_key(s->old);
    bool told = key && !strcmp(key, "layout") && s->old->args.n == 1 &&
                str_eq(attrs_string(s->old->attrs, key), like->from) &&
                expr_tensor_type(&s->old->base) &&
                expr_tensor_type(&s->old->base)->n == layout_rank(like->from);
    return told ? in_layout(s, like->to, str_of(""), like->to) : NULL;
}

/* ---- what is told -------------------------------------------------------------------------------------------------- */

enum { RULE_IN, RULE_WITH_KERNEL, RULE_CANNOT, RULE_FOLLOWS, RULE_BACK };

const PassRule layout_rules[] = {
    [RULE_IN] = {"in", "{at} is computed in {a}"},
    [RULE_WITH_KERNEL] = {"with_kernel", "{at} is computed in {a}, with its kernel in {b}"},
    [RULE_CANNOT] = {"cannot", "{at} stays in {a}: it cannot be computed in {b}"},
    [RULE_FOLLOWS] = {"follows", "{at} takes its operands as they lie, in {a}"},
    [RULE_BACK] = {"back", "{at} needs its operands in {a}, and gets them so: they lie in {b}"},
    {0},
};

static const char *words(Site *s, Str text)
{
    return arena_copy_text(&s->c->run->scratch, text.ptr, text.len);
}

/* Whether the call is not in the layouts already. */
static bool is_other(Site *s, const Layouts *wish)
{
    const Attrs *attrs = s->old->attrs;
    const char *key = layout_key(s->old);
    return !str_eq(attrs_string(attrs, key), wish->data) ||
           (attrs_find(attrs, "out_layout") &&
            !str_eq(ops_out_layout(attrs, key, "out_layout"), wish->out)) ||
           (kernel_of(s->old) && !str_eq(attrs_string(attrs, "kernel_layout"), wish->kernel));
}

/* Where a wish says nothing new there is nothing to tell. */
static void tell_wished(Site *s, const Layouts *wish, bool other, bool done)
{
    Str was = attrs_string(s->old->attrs, layout_key(s->old));
    PassEvent e = {.at = &s->old->base, .a = words(s, wish->data), .b = words(s, wish->kernel)};
    e.rule = &layout_rules[wish->kernel.len ? RULE_WITH_KERNEL : RULE_IN];
    if (!done) {
        e.rule = &layout_rules[RULE_CANNOT];
        e.b = e.a;
        e.a = words(s, was);
    }
    if (other)
        pass_decides(s->c->run, e);
}

/* Of a call with an operand whose axes lie in another order. */
static void tell_following(Site *s, bool done)
{
    const Moved *like = NULL;
    for (uint32_t i = 0; i < s->now->args.n && !like; i++)
        like = moved_of(s->c, s->now->args.at[i]);
    if (!like)
        return;
    PassEvent e = {
        .rule = &layout_rules[RULE_FOLLOWS], .at = &s->old->base, .a = words(s, like->to)};
    if (!done) {
        e.rule = &layout_rules[RULE_BACK];
        e.b = e.a;
        e.a = words(s, like->from);
    }
    pass_decides(s->c->run, e);
}

static Expr *convert_node(Rewriter *rw, const Expr *old, Expr *now)
{
    Convert *c = rw->data;
    const Op *op = expr_call_of_op(old);
    const TupleGet *get = expr_as_tuple_get(now), *was = expr_as_tuple_get(old);
    const Tuple *fields = get ? expr_as_tuple(get->tuple) : NULL;
    /* Of a call's result that is put back field by field. */
    if (fields && !expr_as_tuple(was->tuple))
        return fields->fields.at[get->index];
    if (!op || pass_is_done(c->run))
        return now;
    Site s = {c, {rw->cx, &rw->module->arena, old->span}, expr_as_call(old), expr_as_call(now)};
    /* What has no layout of its own follows its operands, whether it is named or not. */
    const LayoutWishes *w = c->wishes;
    Layouts wish = {0};
    bool wished = layout_key(s.old) && w->of_call && w->of_call(w->data, s.old, &wish);
    const AttrValue *desired = layout_key(s.old) && !wished ? desired_of(c, op) : NULL;
    if (desired)
        wish = named_layouts(&s, desired);
    bool other = wished || desired ? is_other(&s, &wish) : true;
    Expr *e = wished || desired ? convert_wished(&s, wish) : convert_following(&s);
    if (c->run->context->decided && (wished || desired))
        tell_wished(&s, &wish, other, e != NULL);
    else if (c->run->context->decided)
        tell_following(&s, e != NULL);
    if (c->refused)
        return NULL;
    if (e && other)
        pass_may_change(c->run);
    return e ? e : now;
}

Function *convert_layouts(PassRun *run, const Def *def, const LayoutWishes *wishes)
{
    Convert c = {.run = run, .wishes = wishes};
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, convert_node, &c);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&c.moved);
    ptrmap_deinit(&c.transforms);
    return expr_as_function(now);
}

/* A convolution over windows that folds channels: what another order makes faster than it costs to turn images. */
static WalkNext find_window(void *data, const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    const Call *call = op ? expr_as_call(e) : NULL;
    Str layout = call && layout_key(call) && call->args.n > 1
                     ? attrs_string(call->attrs, "kernel_layout")
                     : str_of("");
    const Type *w = layout.len ? expr_tensor_type(call->args.at[1]) : NULL;
    bool *found = data;
    bool many = false;
    for (size_t i = 0; w && w->n == layout.len && i < layout.len; i++)
        if (layout.ptr[i] == 'I')
            *found |= w->dims[i] > 1;
        else if (layout.ptr[i] != 'O')
            many |= w->dims[i] > 1;
    *found &= many;
    return *found ? WALK_STOP : WALK_ON;
}

static Function *convert(PassRun *run, const Def *def)
{
    bool asked = !run->context->for_code, worth = asked;
    if (!asked)
        ir_walk(&def->fn->base, find_window, NULL, &worth);
    LayoutWishes wishes = {.desired = attrs_find(run->params, "desired_layouts"), .asked = asked};
    return worth ? convert_layouts(run, def, &wishes) : def->fn;
}

static const OpAttr params[] = {
    {"desired_layouts", ATTR_TYPE_DICT, .otherwise = {.kind = ATTR_LIST},
     .names = ATTR_NAMES_OPERATORS,
     .doc =
         "for each operator the order of the axes of its data and of its kernel, or \"default\""},
    {0},
};

const Pass pass_convert_layout = {
    .name = "ConvertLayout",
    .doc = "Computes convolutions and pooling with their axes in another order.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .before = "CanonicalizeOps",
    .params = params,
    .rules = layout_rules,
    .function = convert,
};
