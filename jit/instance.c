/* Functions at concrete types: which there are, and what their closures look like.
 *
 * A polymorphic function is compiled once for each choice of its type parameters. A function literal is compiled once for each
 * instance of the function that it stands in. An operator or constructor used as a value becomes a function too. */
#include "ir/walk.h"
#include "jit/internal.h"
#include "passes/to_a_normal_form.h"

#include <stdio.h>
#include <string.h>

#define INSTANCES_MOST 2000

bool types_match(const Type *open, const Type *given, uint32_t n, const TypeVar *const *vars,
                 const Type **types)
{
    if (open->kind == TYPE_VAR) {
        for (uint32_t i = 0; i < n; i++) {
            if (vars[i] != open->var)
                continue;
            if (!types[i])
                types[i] = given;
            return true;
        }
    }
    if (open == given || open->kind != given->kind)
        return open == given;
    switch ((TypeKind)open->kind) {
    case TYPE_TENSOR: return open->n == given->n && dtype_eq(open->dtype, given->dtype);
    case TYPE_ADT:
        if (open->def != given->def)
            return false;
        break;
    case TYPE_FUNC:
        if (given->n_params > 0 || open->n_params > 0)
            return true; /* decided by the other arguments */
        if (!types_match(open->result, given->result, n, vars, types))
            return false;
        break;
    case TYPE_TUPLE:
    case TYPE_REF: break;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: return false;
    }
    bool same = open->n == given->n;
    for (uint32_t i = 0; same && i < open->n; i++)
        same = types_match(open->parts[i], given->parts[i], n, vars, types);
    return same;
}

const Type *instance_type(Gen *g, const Instance *in, const Type *t)
{
    t = type_resolve(g->cx, t);
    if (in->n_vars == 0)
        return t;
    return type_subst(g->cx, t, in->n_vars, in->vars, in->types);
}

static Function *in_normal_form(Gen *g, const Function *fn)
{
    Function *now = ptrmap_find(&g->anf, fn);
    if (now)
        return now;
    now = expr_as_function(to_anf(g->cx, g->code, (Expr *)(uintptr_t)&fn->base));
    if (now)
        ptrmap_put(&g->anf, fn, now);
    return now;
}

static Instance *instance_new(Gen *g, const Function *fn, const char *name)
{
    if (g->instances.n >= INSTANCES_MOST) {
        gen_refuse(g, "`%s` needs too many instances of polymorphic functions", name);
        return NULL;
    }
    Instance *in = arena_new(g->arena, Instance);
    in->fn = fn;
    in->name = name;
    vec_push(&g->instances, g->arena, in);
    return in;
}

/* ---- declarations ------------------------------------------------------------------------------------------- */

static LLVMTypeRef function_type(Gen *g, const Type *result, uint32_t n, const Type *const *params,
                                 bool has_self)
{
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, n + 2);
    unsigned k = 0;
    types[k++] = g->ptr;
    if (has_self)
        types[k++] = g->ptr;
    for (uint32_t i = 0; i < n; i++)
        types[k++] = gen_type(g, repr_of(params[i]));
    return LLVMFunctionType(gen_type(g, repr_of(result)), types, k, false);
}

LLVMTypeRef closure_type(Gen *g, const Type *fn)
{
    return function_type(g, fn->result, fn->n, fn->parts, true);
}

static bool has_form(Gen *g, const Instance *in, const Type *t)
{
    if (repr_of(t).kind != REPR_NONE)
        return true;
    return gen_refuse(g, "`%s` has a value of type `%s`", in->name, type_str(g->cx, t));
}

static Instance *declare(Gen *g, Instance *in)
{
    bool ok = has_form(g, in, in->result);
    for (uint32_t i = 0; ok && i < in->n; i++)
        ok = has_form(g, in, in->params[i]);
    if (!ok)
        return NULL;
    in->type = function_type(g, in->result, in->n, in->params, in->has_self);
    in->value = LLVMAddFunction(g->m, orc_name(g->jit, in->name), in->type);
    LLVMSetLinkage(in->value, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(in->value, TAILCC);
    return in;
}

/* ---- global functions ---------------------------------------------------------------------------------------- */

static bool same_types(const Instance *in, uint32_t n, const Type *const *types)
{
    return in->n_vars == n && (n == 0 || memcmp(in->types, types, n * sizeof *types) == 0);
}

static void needs(Gen *g, const Name *name, const Function *fn)
{
    for (size_t i = 0; i < g->unit->needs.n; i++)
        if (g->unit->needs.at[i].name == name)
            return;
    vec_push(&g->unit->needs, g->arena, ((Dependency){name, fn}));
}

static void set_signature(Gen *g, Instance *in, const Function *fn)
{
    in->n = fn->params.n;
    in->params = arena_new_array(g->arena, const Type *, fn->params.n);
    for (uint32_t i = 0; i < in->n; i++)
        in->params[i] = instance_type(g, in, fn->params.at[i]->base.type);
    const Type *written = fn->ret_type ? type_resolve(g->cx, fn->ret_type) : NULL;
    in->result = instance_type(g, in, written && !written->open ? written : fn->body->type);
}

static Instance *global_at(Gen *g, const Def *def, const Type *const *types)
{
    const Function *fn = in_normal_form(g, def->fn);
    if (!fn) {
        g->failed = true;
        return NULL;
    }
    uint32_t n = fn->type_params.n;
    for (size_t i = 0; i < g->instances.n; i++)
        if (g->instances.at[i]->fn == fn && same_types(g->instances.at[i], n, types))
            return g->instances.at[i];
    Instance *in = instance_new(g, fn, def->name->text);
    if (!in)
        return NULL;
    in->n_vars = n;
    in->vars = fn->type_params.at;
    in->types = types;
    set_signature(g, in, fn);
    return declare(g, in);
}

Instance *instance_of_global(Gen *g, const Name *name, uint32_t n, const Type *const *args,
                             const Type *result, uint32_t n_type_args, const Type *const *type_args)
{
    const Def *def = module_find(g->env, name);
    if (!def || !def->fn) {
        gen_refuse(g, "`@%s` is not defined", name->text);
        return NULL;
    }
    const Function *fn = def->fn;
    needs(g, name, fn);
    if (attrs_find(fn->attrs, "Compiler")) {
        gen_refuse(g, "`@%s` is left to another compiler", name->text);
        return NULL;
    }
    uint32_t n_vars = fn->type_params.n;
    const Type **types = arena_new_array(g->arena, const Type *, n_vars + 1);
    for (uint32_t i = 0; i < n_vars && n_type_args == n_vars; i++)
        types[i] = type_args[i];
    bool ok = n == fn->params.n;
    for (uint32_t i = 0; ok && i < n && n_vars > 0; i++)
        ok = types_match(fn->params.at[i]->base.type, args[i], n_vars, fn->type_params.at, types);
    const Type *open = fn->ret_type ? fn->ret_type : fn->body->type;
    if (ok && n_vars > 0 && result)
        types_match(open, result, n_vars, fn->type_params.at, types);
    for (uint32_t i = 0; ok && i < n_vars; i++)
        ok = types[i] != NULL;
    if (ok)
        return global_at(g, def, types);
    gen_refuse(g, "the type arguments of `@%s` cannot be told", name->text);
    return NULL;
}

/* ---- function literals ---------------------------------------------------------------------------------------- */

typedef struct CaptureSearch {
    Fn *f;
    Instance *in;
} CaptureSearch;

static void capture(void *data, Var *v)
{
    CaptureSearch *s = data;
    if (v == s->in->self_var)
        return;
    Val *val = fn_val(s->f, &v->base);
    if (!val)
        return;
    if (val->known && !val->known->has_self)
        ptrmap_put(&s->in->known, v, val->known);
    else
        vec_push(&s->in->captures, s->f->g->arena, ((Capture){v, val->type, val->known}));
}

static void known_free(void *map)
{
    ptrmap_deinit(map);
}

Instance *instance_of_literal(Fn *f, const Function *fn, Var *self)
{
    Gen *g = f->g;
    char name[80];
    int len = snprintf(name, sizeof name, "%.32s.%.32s", f->in->name, self->name->text);
    if (function_is_primitive(fn))
        fn = in_normal_form(g, fn);
    Instance *in = fn ? instance_new(g, fn, arena_copy_text(g->arena, name, (size_t)len)) : NULL;
    if (!in) {
        g->failed = true;
        return NULL;
    }
    arena_on_free(g->arena, known_free, &in->known);
    in->self_var = self;
    in->n_vars = f->in->n_vars;
    in->vars = f->in->vars;
    in->types = f->in->types;
    ir_free_vars(&fn->base, capture, &(CaptureSearch){f, in});
    in->has_self = in->captures.n > 0;
    set_signature(g, in, fn);
    return g->failed ? NULL : declare(g, in);
}

static Instance *open_at(Gen *g, const Function *fn, const Type *const *types, uint32_t outer)
{
    for (size_t i = 0; i < g->instances.n; i++) {
        Instance *in = g->instances.at[i];
        if (in->fn == fn && same_types(in, outer + fn->type_params.n, types))
            return in;
    }
    return NULL;
}

Instance *instance_of_open(Fn *f, const Function *fn, Var *self, uint32_t n,
                           const Type *const *args, const Type *result)
{
    Gen *g = f->g;
    uint32_t outer = f->in->n_vars, own = fn->type_params.n;
    const TypeVar **vars = arena_new_array(g->arena, const TypeVar *, outer + own + 1);
    const Type **types = arena_new_array(g->arena, const Type *, outer + own + 1);
    for (uint32_t i = 0; i < outer; i++) {
        vars[i] = f->in->vars[i];
        types[i] = f->in->types[i];
    }
    for (uint32_t i = 0; i < own; i++)
        vars[outer + i] = fn->type_params.at[i];
    bool ok = n == fn->params.n;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = types_match(instance_type(g, f->in, fn->params.at[i]->base.type), args[i], own,
                         fn->type_params.at, types + outer);
    types_match(instance_type(g, f->in, fn->body->type), result, own, fn->type_params.at,
                types + outer);
    for (uint32_t i = 0; ok && i < own; i++)
        ok = types[outer + i] != NULL;
    if (!ok) {
        gen_refuse(g, "the type arguments of `%%%s` cannot be told", self->name->text);
        return NULL;
    }
    Instance *in = open_at(g, fn, types, outer);
    if (in)
        return in;
    in = instance_new(g, fn, self->name->text);
    if (!in)
        return NULL;
    arena_on_free(g->arena, known_free, &in->known);
    in->self_var = self;
    in->n_vars = outer + own;
    in->vars = vars;
    in->types = types;
    ir_free_vars(&fn->base, capture, &(CaptureSearch){f, in});
    if (in->captures.n > 0)
        gen_refuse(g, "the local function `%%%s` is polymorphic and captures `%%%s`",
                   self->name->text, in->captures.at[0].var->name->text);
    set_signature(g, in, fn);
    return g->failed ? NULL : declare(g, in);
}

/* ---- operators and constructors as values ----------------------------------------------------------------------- */

/* `fn (%x0, …) { callee(%x0, …) }` at these types. */
static const Function *eta(Gen *g, Expr *callee, const Attrs *attrs, const Type *type, Span span)
{
    Arena *a = &g->code->arena;
    Var **params = arena_new_array(g->arena, Var *, type->n + 1);
    for (uint32_t i = 0; i < type->n; i++) {
        params[i] = expr_var(a, span, ctx_name(g->cx, "x"), NULL);
        params[i]->base.type = type->parts[i];
    }
    Expr *call = expr_call(a, span, callee, type->n, (Expr *const *)params, attrs);
    call->type = type->result;
    Function *fn =
        expr_function(a, span, (TypeVarList){0}, type->n, params, NULL, type->result, call);
    fn->base.type = type;
    return in_normal_form(g, fn);
}

static bool same_row(const Instance *in, const Op *op, const Constructor *con, const Type *type)
{
    return (in->op || in->con) && in->op == op && in->con == con && in->n == type->n &&
           in->result == type->result &&
           memcmp(in->params, type->parts, type->n * sizeof *type->parts) == 0;
}

Instance *instance_of_row(Gen *g, const Op *op, const Constructor *con, const Type *type, Span span)
{
    for (size_t i = 0; i < g->instances.n; i++)
        if (same_row(g->instances.at[i], op, con, type))
            return g->instances.at[i];
    Arena *a = &g->code->arena;
    const Attrs *attrs = NULL;
    if (op && op->attrs) {
        attrs = attrs_check(g->cx, a, op->name, op->attrs, NULL, span);
        if (!attrs)
            return g->failed = true, NULL;
    }
    Expr *callee = op ? expr_op(a, span, op) : expr_con(a, span, con);
    const Function *fn = eta(g, callee, attrs, type, span);
    Instance *in = fn ? instance_new(g, fn, op ? op->name : con->name->text) : NULL;
    if (!in)
        return g->failed = true, NULL;
    in->op = op;
    in->con = con;
    set_signature(g, in, fn);
    return declare(g, in);
}

/* ---- closures --------------------------------------------------------------------------------------------------- */

static void print_function(Buf *out, const Object *o)
{
    buf_printf(out, "<fn %s>", o->info->name);
}

/* A function without captures, behind the convention of closures. */
static Ssa make_thunk(Gen *g, Instance *in)
{
    LLVMTypeRef type = function_type(g, in->result, in->n, in->params, true);
    Ssa thunk = LLVMAddFunction(g->m, orc_name(g->jit, in->name), type);
    LLVMSetLinkage(thunk, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(thunk, TAILCC);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, thunk, ""));
    Ssa *args = arena_new_array(g->arena, Ssa, in->n + 1);
    args[0] = LLVMGetParam(thunk, 0);
    for (uint32_t i = 0; i < in->n; i++)
        args[i + 1] = LLVMGetParam(thunk, i + 2);
    fn_release(&(Fn){.g = g, .fn = thunk}, (Repr){.kind = REPR_OBJECT}, LLVMGetParam(thunk, 1));
    Ssa call = LLVMBuildCall2(g->b, in->type, in->value, args, in->n + 1, "");
    LLVMSetInstructionCallConv(call, TAILCC);
    LLVMSetTailCallKind(call, LLVMTailCallKindMustTail);
    LLVMBuildRet(g->b, call);
    LLVMPositionBuilderAtEnd(g->b, before);
    return thunk;
}

/* Closures may outlive the code (in a cycle of references), so what they say of themselves lives as long as the context. */
static const ObjectInfo *info_of(Gen *g, const Instance *in)
{
    const Name *name = ctx_name(g->cx, in->name);
    ObjectInfo *info = ptrmap_find(&g->jit->infos, name);
    if (info)
        return info;
    info = arena_new(&g->cx->arena, ObjectInfo);
    *info = (ObjectInfo){.kind = VALUE_FUNCTION, .name = name->text, .print = print_function};
    ptrmap_put(&g->jit->infos, name, info);
    return info;
}

Ssa fn_closure(Fn *f, Instance *in)
{
    Gen *g = f->g;
    for (size_t i = 0; i < in->captures.n; i++)
        fn_val(f, &in->captures.at[i].var->base);
    if (!in->thunk)
        in->thunk = in->has_self ? in->value : make_thunk(g, in);
    uint32_t n = (uint32_t)in->captures.n;
    Ssa o = fn_object(f, info_of(g, in), "closure", n + 1);
    gen_store(g, gen_head(g, (Repr){.value = VALUE_SCALAR, .dtype = dtype_of(DT_UINT64)}), o,
              offsetof(Object, fields));
    gen_store(g, in->thunk, o, offsetof(Object, fields) + 8);
    for (uint32_t i = 0; i < n; i++) {
        Capture *c = &in->captures.at[i];
        fn_set_field(f, o, i + 1, repr_of(c->type), fn_take(f, &c->var->base));
    }
    return o;
}
