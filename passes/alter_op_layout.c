/* Brings convolutions into the layouts in which they are computed fastest here.
 *
 *     nn.relu(nn.conv2d(nn.conv2d(%x, meta[0], …), meta[1], …))
 *  => %0 = layout_transform(%x, src_layout="NCHW", dst_layout="NCHW16c");
 *     %1 = nn.conv2d(%0, layout_transform(meta[0], src_layout="OIHW", dst_layout="OIHW16i16o"), …, data_layout="NCHW16c", …);
 *     layout_transform(nn.relu(nn.conv2d(%1, …)), src_layout="NCHW16c", dst_layout="NCHW")
 *
 * What a convolution wants says the row of the strategy that would compute it (sched/strategy.h): channels in blocks of a vector, or
 * planes. Blocks are for convolutions of known weights that lie behind one another, so that images are turned at the edges of the
 * network alone. All others get planes, "NCHW". */
#include "passes/convert_layout.h"
#include "passes/types.h"

#include "runtime/cpu.h"
#include "sched/sched.h"
#include "stdlib/ops/ops.h"
#include "te/te.h"

#define TEXT(t) {.kind = ATTR_STRING, .s = {(t), sizeof(t) - 1}}

/* A convolution that wants blocks. */
typedef struct Wish {
    const Call *conv;
    SchedLayout layout;
    bool joined; /* another gives its data or takes its result */
} Wish;

typedef struct Alter {
    PassRun *run;
    Machine machine;
    PtrMap wishes; /* Call -> Wish */
    PtrMap
        origin; /* a value -> the Wish whose result it is, perhaps after operators that take any layout */
    const Op *conv1d, *conv2d, *conv3d, *concatenate;
    bool any; /* there are convolutions */
} Alter;

/* ---- what strategies want -------------------------------------------------------------------------------------------------- */

/* The type in another layout; NULL: it cannot be in it. */
static const Type *in_layout(Ctx *cx, const Type *t, Str from, Str to)
{
    int64_t dims[TENSOR_RANK_MOST];
    if (!t || !type_is_static(t) || !layout_can_become(cx, from, t, to))
        return NULL;
    layout_extents(cx, from, t->dims, to, dims);
    return type_tensor(cx, t->dtype, layout_rank(to), dims);
}

/* The call over planes, as a tensor program. */
static TeProgram *over_planes(Alter *a, const Call *call)
{
    static const char *const keys[] = {"data_layout", "kernel_layout", "out_layout"};
    Ctx *cx = a->run->cx;
    Str data = attrs_string(call->attrs, "data_layout");
    Str nchw = str_of("NCHW"), oihw = str_of("OIHW");
    const Type *types[2] = {in_layout(cx, expr_tensor_type(call->args.at[0]), data, nchw),
                            in_layout(cx, expr_tensor_type(call->args.at[1]),
                                      attrs_string(call->attrs, "kernel_layout"), oihw)};
    const Type *out = in_layout(cx, expr_tensor_type(&call->base),
                                ops_out_layout(call->attrs, "data_layout", "out_layout"), nchw);
    const Attrs *attrs = call->attrs;
    if (!types[0] || !types[1] || !out)
        return NULL;
    for (int i = 0; i < 3; i++)
        attrs = attrs_with(&a->run->scratch, attrs, keys[i],
                           (AttrValue){.kind = ATTR_STRING, .s = i == 1 ? oihw : nchw});
    return te_of_op(cx, &a->run->scratch, a->conv2d, attrs, call->base.span, 2, types, out);
}

static void find_wish(Alter *a, const Call *call)
{
    const Constant *w = expr_as_constant(call->args.at[1]);
    if (!w || w->value.kind != VALUE_TENSOR)
        return;
    TeProgram *p = over_planes(a, call);
    const Tensor *known[2] = {NULL, w->value.tensor};
    Wish *wish = arena_new(&a->run->scratch, Wish);
    wish->conv = call;
    if (p && sched_layout(a->run->cx, &a->run->scratch, &a->machine, p, known, &wish->layout))
        ptrmap_put(&a->wishes, call, wish);
}

/* ---- which of them are joined -------------------------------------------------------------------------------------------------- */

/* The operand has the layout of the result, whichever it is. */
static bool passes_on(const Alter *a, const Call *call, const Op *op)
{
    return layout_is_free(op) || attrs_find(call->attrs, "layout") || op == a->concatenate;
}

static WalkNext see(void *data, const Expr *e)
{
    Alter *a = data;
    const Op *op = expr_call_of_op(e);
    const Tuple *tuple = expr_as_tuple(e);
    const Call *call = op ? expr_as_call(e) : NULL;
    Expr *const *parts = tuple ? tuple->fields.at : call ? call->args.at : NULL;
    uint32_t n = tuple ? tuple->fields.n : call ? call->args.n : 0;
    a->any |= op && (op == a->conv1d || op == a->conv2d || op == a->conv3d);
    if (op == a->conv2d && !a->run->context->for_card)
        find_wish(a, call);
    Wish *own = ptrmap_find(&a->wishes, e);
    bool on = tuple || (call && passes_on(a, call, op));
    for (uint32_t i = 0; i < (own ? 1 : on ? n : 0); i++) {
        Wish *from = ptrmap_find(&a->origin, parts[i]);
        if (from && own)
            from->joined = own->joined = true;
        else if (from)
            ptrmap_put(&a->origin, e, from);
    }
    if (own)
        ptrmap_put(&a->origin, e, own);
    return limit_hit(&a->run->cx->limits) ? WALK_STOP : WALK_ON;
}

/* ---- layouts ------------------------------------------------------------------------------------------------------------------- */

/* The form with the blocks of the data and of the result for `<` and `>`. */
static Str named(Alter *a, const char *form, const SchedLayout *l)
{
    Buf b = {0};
    for (const char *at = form; *at; at++)
        if (*at == '<' || *at == '>')
            buf_printf(&b, "%lld", (long long)(*at == '<' ? l->in : l->out));
        else
            buf_char(&b, *at);
    Str s = {arena_copy_text(&a->run->module->arena, buf_text(&b), b.n), b.n};
    buf_deinit(&b);
    return s;
}

static bool wish_of(void *data, const Call *call, Layouts *out)
{
    Alter *a = data;
    const Wish *w = ptrmap_find(&a->wishes, call);
    if (!w || !w->joined)
        return false;
    bool each = attrs_int(call->attrs, "groups", 1) > 1;
    const SchedLayout *l = &w->layout;
    out->data = named(a, l->in > 1 ? "NCHW<c" : "NCHW", l);
    out->out = named(a, "NCHW>c", l);
    out->kernel = named(a,
                        !l->packed  ? "OIHW"
                        : each      ? "OIHW1i>o"
                        : l->in > 1 ? "OIHW<i>o"
                                    : "OIHW>o",
                        l);
    return true;
}

static Function *alter(PassRun *run, const Def *def)
{
    static const AttrValue conv1d[] = {TEXT("NCW"), TEXT("default")};
    static const AttrValue conv2d[] = {TEXT("NCHW"), TEXT("default")};
    static const AttrValue conv3d[] = {TEXT("NCDHW"), TEXT("default")};
    static const AttrValue desired[] = {TEXT("nn.conv1d"), ATTR_DEFAULT_LIST(conv1d),
                                        TEXT("nn.conv2d"), ATTR_DEFAULT_LIST(conv2d),
                                        TEXT("nn.conv3d"), ATTR_DEFAULT_LIST(conv3d)};
    static const AttrValue all = ATTR_DEFAULT_LIST(desired);
    size_t bytes = cpu_vector_bytes();
    Alter a = {.run = run,
               .machine = {.vector_bytes = bytes,
                           .registers = bytes == 64 ? 32 : 16,
                           .threads = 1,
                           .transforms = true,
                           .reorders = true},
               .conv1d = op_find(run->cx, str_of("nn.conv1d")),
               .conv2d = op_find(run->cx, str_of("nn.conv2d")),
               .conv3d = op_find(run->cx, str_of("nn.conv3d")),
               .concatenate = op_find(run->cx, str_of("concatenate"))};
    ir_walk(&def->fn->base, NULL, see, &a);
    LayoutWishes wishes = {.of_call = wish_of, .data = &a, .desired = &all};
    Function *f = a.any ? convert_layouts(run, def, &wishes) : def->fn;
    ptrmap_deinit(&a.wishes);
    ptrmap_deinit(&a.origin);
    return f;
}

const Pass pass_alter_op_layout = {
    .name = "AlterOpLayout",
    .doc = "Brings convolutions into the layouts in which they are computed fastest.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .rules = layout_rules,
    .function = alter,
};
