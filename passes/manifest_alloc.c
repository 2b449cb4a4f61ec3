/* Makes the memory of lowered calls visible: each result gets storage and a tensor in it, which the function fills.
 *
 *     let %a = on_device(call_lowered(@f, (%x,)), virtual_device="cpu:0", constrain_result=True);
 *  => let %storage_0 = on_device(memory.alloc_storage(16i64, 64i64, …), …);
 *     let %tensor_0 = on_device(memory.alloc_tensor(%storage_0, 0i64, %shape, assert_shape=[4]), …);
 *     let %x_0 = on_device(vm.invoke_tvm_op(@f, (%x,), (%tensor_0,)), …);
 *     let %a = %tensor_0;
 *
 * What only reshapes becomes a view. Sizes and shapes are on the host. A call whose result has extents that nobody knows stays. */
#include "passes/pass.h"
#include "passes/storage.h"

#include "ir/device.h"
#include "ir/op.h"
#include "stdlib/ops/ops.h"

#include <stdio.h>
#include <string.h>

#define ALIGNMENT 64

typedef struct Alloc {
    PassRun *run;
    Str host; /* where sizes and shapes are */
    Str around; /* where a function says that it is, for values that do not */
    PtrMap numbers; /* let of a lowered call -> its number + 1 */
    uintptr_t n;
} Alloc;

/* A lowered call as the value of a `let`. */
typedef struct Lowered {
    const Call *call;
    const Function *fn; /* that it calls */
    Str device;
} Lowered;

static bool calls(const Expr *e, const char *name)
{
    const Op *op = expr_call_of_op(e);
    return op && !strcmp(op->name, name);
}

/* Tensors of which all extents are known, or a tuple of such. */
static bool is_sized(const Type *t)
{
    t = t ? type_find(t) : NULL;
    bool sized = t && type_is_static(t);
    for (uint32_t i = 0; sized && t->kind == TYPE_TUPLE && i < t->n; i++)
        sized = type_find(t->parts[i])->kind == TYPE_TENSOR;
    return sized && (t->kind == TYPE_TENSOR || t->kind == TYPE_TUPLE);
}

static bool is_lowered(Alloc *a, const Let *let, Lowered *out)
{
    const Expr *value = let->value;
    out->device = a->around;
    if (calls(value, "on_device")) {
        const Call *mark = expr_as_call(value);
        Str device =
            device_of_attr(&a->run->module->arena, attrs_find(mark->attrs, "virtual_device"));
        out->device = device.len ? device : out->device;
        value = mark->args.at[0];
    }
    out->call = calls(value, "call_lowered") ? expr_as_call(value) : NULL;
    const GlobalVar *name = out->call ? expr_as_global(out->call->args.at[0]) : NULL;
    const Def *def = name ? module_find(a->run->module, name->name) : NULL;
    out->fn = def ? def->fn : NULL;
    return out->fn && out->call->args.n == 2 && out->call->args.at[1]->kind == EXPR_TUPLE &&
           is_sized(value->type);
}

/* ---- making ------------------------------------------------------------------------------------------------------------------- */

static Expr *on_device(const OpsMake *m, Expr *e, Str device)
{
    Attr attrs[2] = {{.key = "virtual_device", .value = {.kind = ATTR_STRING, .s = device}},
                     ops_attr_bool("constrain_result", true)};
    return ops_call(m, "on_device", 1, &e, 2, attrs);
}

static Expr *number(const OpsMake *m, int64_t n)
{
    return expr_constant(m->arena, m->span, value_scalar_int(dtype_of(DT_INT64), n));
}

static Expr *shape_on_host(Alloc *a, const OpsMake *m, const Type *t)
{
    int64_t rank = t->n;
    Tensor *shape = tensor_new(&a->run->cx->limits, dtype_of(DT_INT64), 1, &rank);
    if (shape)
        memcpy(shape->data, t->dims, t->n * sizeof *t->dims);
    Value v = shape ? value_tensor(shape) : value_none();
    Expr *e = shape ? expr_constant(m->arena, m->span, v) : NULL;
    value_release(v);
    return e ? on_device(m, e, a->host) : NULL;
}

/* Lets that are still without what they are in front of. */
typedef struct Chain {
    const OpsMake *m;
    Vec(Let *) lets;
    Arena *scratch;
} Chain;

static Expr *bind(Chain *c, Ctx *cx, const char *name, uintptr_t number_of_it, Expr *value)
{
    char text[48];
    snprintf(text, sizeof text, "%s_%ju", name, (uintmax_t)number_of_it);
    Var *v = expr_var(c->m->arena, c->m->span, ctx_name(cx, text), NULL);
    vec_push(&c->lets, c->scratch,
             expr_as_let(expr_let(c->m->arena, c->m->span, v, value, &v->base)));
    return &v->base;
}

/* Storage for one result, and the tensor in it. */
static Expr *alloc(Alloc *a, Chain *c, const Type *t, uint32_t i, Str device)
{
    const OpsMake *m = c->m;
    int64_t most =
        (int64_t)dtype_size(t->dtype) > ALIGNMENT ? (int64_t)dtype_size(t->dtype) : ALIGNMENT;
    Expr *bytes[2] = {on_device(m, number(m, storage_bytes(t)), a->host), number(m, most)};
    Attr where = {.key = "virtual_device", .value = {.kind = ATTR_STRING, .s = device}};
    Expr *storage = ops_call(m, "memory.alloc_storage", 2, bytes, 1, &where);
    storage = bind(c, a->run->cx, "storage", i, on_device(m, storage, device));
    Expr *shape = shape_on_host(a, m, t);
    if (!shape)
        return NULL;
    Buf b = {0};
    dtype_print(&b, t->dtype);
    Str dtype = str_of(buf_keep(&b, m->arena));
    Expr *parts[3] = {storage, on_device(m, number(m, 0), a->host), shape};
    Attr attrs[2] = {{.key = "dtype", .value = {.kind = ATTR_STRING, .s = dtype}},
                     ops_attr_ints(m, "assert_shape", t->n, t->dims)};
    Expr *tensor = ops_call(m, "memory.alloc_tensor", 3, parts, 2, attrs);
    return bind(c, a->run->cx, "tensor", i, on_device(m, tensor, device));
}

static Expr *view(Alloc *a, const OpsMake *m, const Lowered *l, Expr *args)
{
    const Type *t = type_find(l->call->base.type);
    Expr *parts[2] = {expr_as_tuple(args)->fields.at[0], shape_on_host(a, m, t)};
    Attr attr = ops_attr_ints(m, "newshape", t->n, t->dims);
    return parts[1] ? on_device(m, ops_call(m, "vm.reshape_tensor", 2, parts, 1, &attr), l->device)
                    : NULL;
}

/* What the variable of the call is bound to now; what must stand before that goes into the chain. */
static Expr *invoke(Alloc *a, Chain *c, const Lowered *l, uintptr_t k, Expr *callee, Expr *args)
{
    const OpsMake *m = c->m;
    const Type *t = type_find(l->call->base.type);
    bool several = t->kind == TYPE_TUPLE;
    uint32_t n = several ? t->n : 1;
    Expr **tensors = arena_alloc_must(c->scratch, n + 1, sizeof *tensors);
    for (uint32_t i = 0; i < n; i++)
        if (!(tensors[i] = alloc(a, c, several ? type_find(t->parts[i]) : t, i, l->device)))
            return NULL;
    Expr *call[3] = {callee, args, expr_tuple(m->arena, m->span, n, tensors)};
    Expr *done = ops_call(m, "vm.invoke_tvm_op", 3, call, 0, NULL);
    bind(c, a->run->cx, "x", k, on_device(m, done, l->device));
    return several ? on_device(m, expr_tuple(m->arena, m->span, n, tensors), l->device)
                   : tensors[0];
}

/* ---- the traversal ---------------------------------------------------------------------------------------------------------- */

/* Numbers are given in the order of the text, which is not that of rewriting. */
static WalkNext number_calls(void *data, const Expr *e)
{
    Alloc *a = data;
    const Let *let = expr_as_let(e);
    const Function *f = expr_as_function(e);
    Lowered l;
    if (f && function_is_primitive(f))
        return WALK_SKIP;
    if (let && is_lowered(a, let, &l) && !attrs_find(l.fn->attrs, "relay.reshape_only"))
        ptrmap_put(&a->numbers, let, (void *)++a->n);
    return WALK_ON;
}

static Expr *make_visible(Rewriter *rw, const Expr *old, Expr *now)
{
    Alloc *a = rw->data;
    const Let *was = expr_as_let(old), *let = expr_as_let(now);
    Lowered l;
    if (!was || !is_lowered(a, was, &l))
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, l.call->base.span};
    Chain c = {.m = &m, .scratch = &a->run->scratch};
    const Expr *value =
        calls(let->value, "on_device") ? expr_as_call(let->value)->args.at[0] : let->value;
    Expr *const *args = expr_as_call(value)->args.at;
    uintptr_t k = (uintptr_t)ptrmap_find(&a->numbers, was);
    Expr *result = k ? invoke(a, &c, &l, k - 1, args[0], args[1]) : view(a, &m, &l, args[1]);
    if (!result)
        return NULL;
    Expr *e = expr_let(m.arena, now->span, let->var, result, let->body);
    for (size_t i = c.lets.n; i--;) {
        c.lets.at[i]->body = e;
        e = &c.lets.at[i]->base;
    }
    return e;
}

static bool leave_primitive(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static Function *alloc_function(PassRun *run, Alloc *a, const Function *f)
{
    Str device = device_of_attr(&run->module->arena, attrs_find(f->attrs, "virtual_device"));
    a->around = device.len ? device : a->host;
    ir_walk(&f->base, number_calls, NULL, a);
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, make_visible, a);
    rw.enter = leave_primitive;
    Expr *now = ir_rewrite(&rw, (Expr *)(uintptr_t)&f->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

static bool manifest_alloc(PassRun *run, Module *old)
{
    Alloc a = {.run = run};
    Str kind = attrs_string(run->params, "target");
    a.host = (Str){arena_alloc_must(&run->module->arena, kind.len + 3, 1), kind.len + 2};
    snprintf((char *)(uintptr_t)a.host.ptr, a.host.len + 1, "%.*s:0", (int)kind.len, kind.ptr);
    /* A bare expression stays: its text has no place for types. */
    bool ok = true;
    if (!old->expr)
        storage_type(run);
    for (size_t i = 0; i < old->defs.n && ok && !old->expr; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn))
            continue;
        Function *now = alloc_function(run, &a, def->fn);
        ok = now != NULL;
        if (ok && now != def->fn)
            module_define(run->module, def->name, now, def->span, run->module);
    }
    ptrmap_deinit(&a.numbers);
    return ok;
}

static const OpAttr params[] = {
    {"target", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("cpu"),
     .names = ATTR_NAMES_DEVICE_KINDS, .doc = "the kind of the device where sizes and shapes are"},
    {0},
};

const Pass pass_manifest_alloc = {
    .name = "ManifestAlloc",
    .doc = "Makes the memory of lowered calls visible.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .module = manifest_alloc,
};
