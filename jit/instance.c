/* Functions at concrete types: which there are, and what their closures look like.
 *
 * A polymorphic function is compiled once for each choice of its type parameters. A function literal is compiled once for each
 * instance of the function that it stands in. An operator or constructor used as a value becomes a function too. */
#include "ir/walk.h"
#include "jit/internal.h"
#include "jit/signature.h"
#include "typecheck/subsume.h"

#include <stdio.h>
#include <string.h>

/* Polymorphic recursion has no last type: beyond so many instances of a function its code is made when it is called. */
#define INSTANCES_AT_ONCE 16

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

Function *instance_normal_form(Gen *g, const Function *fn)
{
    return signature_form(g, fn, NULL);
}

Function *definition_form(Gen *g, const Def *def)
{
    return def && def->fn ? signature_form(g, def->fn, def->name) : NULL;
}

static Instance *first_of(Gen *g, const Function *fn)
{
    return ptrmap_find(&g->unit->by_function, fn);
}

static Instance *instance_new(Gen *g, const Function *fn, const char *name)
{
    Instance *in = arena_new(g->arena, Instance);
    in->fn = fn;
    in->name = name;
    in->next = first_of(g, fn);
    ptrmap_put(&g->unit->by_function, fn, in);
    vec_push(&g->unit->instances, g->arena, in);
    return in;
}

/* ---- declarations ------------------------------------------------------------------------------------------- */

static LLVMTypeRef function_type(Gen *g, LLVMTypeRef result, uint32_t n, const Type *const *params,
                                 bool has_self)
{
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, n + 2);
    unsigned k = 0;
    types[k++] = g->ptr;
    if (has_self)
        types[k++] = g->ptr;
    for (uint32_t i = 0; i < n; i++)
        types[k++] = gen_type(g, repr_of(params[i]));
    return LLVMFunctionType(result, types, k, false);
}

LLVMTypeRef instance_function_type(Gen *g, const Instance *in)
{
    LLVMTypeRef result =
        in->gives_fields ? fields_type(g, in->result) : gen_type(g, repr_of(in->result));
    LLVMTypeRef type = function_type(g, result, in->n, in->params, in->has_self);
    LLVMTypeRef *params = arena_new_array(g->arena, LLVMTypeRef, in->n + 3);
    LLVMGetParamTypes(type, params);
    if (in->terms.spread)
        params[1] = spread_type(g, in);
    for (uint32_t i = 0; i < in->n; i++)
        if (instance_takes_spread(in, i))
            params[1 + in->has_self + i] = spread_type(g, instance_given(in, i));
    unsigned n = 1 + in->has_self + in->n;
    if (in->terms.spare)
        params[n++] = g->ptr;
    return LLVMFunctionType(result, params, n, false);
}

LLVMTypeRef closure_type(Gen *g, const Type *fn)
{
    return function_type(g, gen_type(g, repr_of(fn->result)), fn->n, fn->parts, true);
}

/* ---- conventions --------------------------------------------------------------------------------------------- */

/* Whether a block of a function ends with a call of something else. Blocks nest no deeper than outline.c leaves them. */
static bool ends_with_call(const Expr *e, const Name *self)
{
    const Let *let = expr_as_let(e);
    for (; let && !let_is_last(let); let = expr_as_let(e))
        e = let->body;
    const Call *call = let ? expr_as_call(let->value) : NULL;
    const If *branch = let ? expr_as_if(let->value) : NULL;
    const Match *match = let ? expr_as_match(let->value) : NULL;
    if (call) {
        const GlobalVar *global = expr_as_global(call->callee);
        bool row = call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON;
        return !row && (!global || global->name != self);
    }
    bool ends =
        branch && (ends_with_call(branch->then, self) || ends_with_call(branch->otherwise, self));
    for (uint32_t i = 0; match && i < match->clauses.n && !ends; i++)
        ends = ends_with_call(match->clauses.at[i].body, self);
    return ends;
}

bool instance_is_called_by_name(Gen *g, const Instance *in)
{
    bool alone = in->terms.lends_self || in->terms.spread;
    bool named = (in->global ? !in->has_self : alone) && !in->late && !in->open;
    for (uint32_t i = 0; i < in->n && named; i++)
        named = !shapes_unknown(instance_type(g, in, in->fn->params.at[i]->base.type));
    return named;
}

bool instance_is_plain(Gen *g, Instance *in)
{
    if (in->judged)
        return in->plain;
    in->judged = true;
    if (!instance_is_called_by_name(g, in) || in->terms.spare) /* all calls of that end something */
        return false;
    /* A call of itself may be one of another copy: at other types, or on other terms. */
    bool one = in->n_vars == 0 && instance_lendable(g, in) == 0 && instance_called(g, in) == 0;
    return in->plain = !ends_with_call(in->fn->body, one ? in->global : NULL);
}

/* One more function of the same code. */
static Instance *copy_of(Gen *g, const Instance *in)
{
    Instance *copy = arena_new(g->arena, Instance);
    *copy = *in;
    copy->symbol = NULL;
    copy->number = copy->thunk_number = 0;
    copy->variants = NULL;
    copy->info = NULL;
    copy->behind = NULL;
    return copy;
}

Instance *instance_inner(Gen *g, Instance *in)
{
    if (in->inner)
        return in->inner;
    Instance *copy = copy_of(g, in);
    copy->around = in->around ? in->around : in;
    copy->depth = in->depth + 1;
    copy->inner = NULL;
    copy->loops = ends_with_call(in->fn->body, NULL);
    return in->inner = copy;
}

/* Calls that it comes back from, on that way through the block which has most. */
static uint32_t calls_on_way(const Expr *e, bool tail)
{
    uint32_t n = 0;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        bool last = tail && let_is_last(let);
        const Call *call = expr_as_call(let->value);
        const If *branch = expr_as_if(let->value);
        const Match *match = expr_as_match(let->value);
        bool row = call && (call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON);
        uint32_t most = call && !row && !last;
        for (uint32_t i = 0, of = match ? match->clauses.n : branch ? 2 : 0; i < of; i++) {
            const Expr *way = match    ? match->clauses.at[i].body
                              : i == 0 ? branch->then
                                       : branch->otherwise;
            uint32_t calls = calls_on_way(way, last);
            most = calls > most ? calls : most;
        }
        n += most;
        e = let->body;
    }
    return n;
}

/* Whether the function goes down a tree: about every second call ends without one of its own, and need save nothing for others. With one
 * call on a way few do, and where no value is taken apart there is one such way alone, in front of which LLVM saves. */
static bool branches_out(const Expr *body)
{
    const Let *let = expr_as_let(body);
    while (let && !let_is_last(let))
        let = expr_as_let(let->body);
    const Match *match = let ? expr_as_match(let->value) : NULL;
    bool ends = false, branches = false;
    for (uint32_t i = 0; match && i < match->clauses.n; i++) {
        uint32_t n = calls_on_way(match->clauses.at[i].body, true);
        ends |= n == 0;
        branches |= n > 1;
    }
    return ends && branches;
}

/* Parameters of a function that has a front: with the state they come in registers. */
#define FRONT_PARAMS_MOST 5
/* Clauses of its match: the body is gone through for each that is a function. */
#define FRONT_CLAUSES_MOST 16

static bool is_param(const Instance *in, const Expr *e)
{
    bool is = false;
    for (uint32_t i = 0; i < in->n && !is; i++)
        is = e == &in->fn->params.at[i]->base;
    return is;
}

/* The match that is the whole body; NULL: there is more, or something else, or values that no clause takes. */
static const Match *body_match(const Instance *in)
{
    const Let *let = expr_as_let(in->fn->body);
    const Match *match = let && let_is_last(let) ? expr_as_match(let->value) : NULL;
    return match && match->complete ? match : NULL;
}

bool instance_has_front(const Instance *in)
{
    const Match *match = body_match(in);
    return match && match->clauses.n <= FRONT_CLAUSES_MOST && in->n <= FRONT_PARAMS_MOST &&
           !in->has_self && !in->terms.spare && !in->around && !in->front &&
           is_param(in, match->scrutinee) && branches_out(in->fn->body);
}

bool instance_stands_behind(const Instance *in, uint32_t clause)
{
    return calls_on_way(body_match(in)->clauses.at[clause].body, true) > 0;
}

bool instance_ends_in_front(const Instance *in)
{
    uint32_t n = body_match(in)->clauses.n, ends = 0;
    for (uint32_t i = 0; i < n; i++)
        ends += !instance_stands_behind(in, i);
    return 2 * ends >= n;
}

Instance *instance_behind(Gen *g, Instance *in, uint32_t clause)
{
    if (!in->behind)
        in->behind = arena_new_array(g->arena, Instance *, body_match(in)->clauses.n);
    if (in->behind[clause])
        return in->behind[clause];
    Instance *copy = copy_of(g, in);
    copy->front = in;
    copy->clause = clause;
    return in->behind[clause] = copy;
}

void instance_enter(Gen *g, Instance *in)
{
    if (in->number == g->number)
        return;
    if (!in->symbol || in->epoch != g->unit->epoch) {
        in->symbol = orc_name(g->jit, g->arena, in->name);
        in->epoch = g->unit->epoch;
        in->first = g->number;
        in->fast = instance_is_plain(g, in);
        vec_push(&g->todo, g->arena, in);
    }
    in->number = g->number;
    in->type = instance_function_type(g, in);
    in->value = LLVMAddFunction(g->m, in->symbol, in->type);
    LLVMSetVisibility(in->value, LLVMHiddenVisibility);
    gen_function_convention(g, in->value, in->fast ? FASTCC : TAILCC);
    if (in->plain && branches_out(in->fn->body))
        gen_save_nothing(g, in->value);
    if (in->around)
        gen_attribute(g, in->value, "alwaysinline");
}

void instance_make_fast(Instance *in)
{
    in->fast = true;
    LLVMSetFunctionCallConv(in->value, FASTCC);
    for (LLVMUseRef use = LLVMGetFirstUse(in->value); use; use = LLVMGetNextUse(use))
        gen_set_convention(LLVMGetUser(use));
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
    shapes_find(g, in);
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
    const Type *body = type_find(fn->body->type);
    const Type *own = fn->base.type ? type_find(fn->base.type) : NULL;
    /* A polymorphic function that is given where one type is wanted is given at that type. */
    if (own && own->kind == TYPE_FUNC && body->kind == TYPE_FUNC && body->n_params > 0)
        body = own->result;
    in->result = instance_type(g, in, written && !written->open ? written : body);
}

/* Beyond so many shapes a function has one code for all others. */
#define SHAPES_MOST 16

static bool same_params(const Instance *in, uint32_t n, const Type *const *params)
{
    return in->n == n && (n == 0 || memcmp(in->params, params, n * sizeof *params) == 0);
}

static Instance *global_at(Gen *g, const Def *def, const GlobalUse *use, const Type *const *types)
{
    const Function *callee = definition_form(g, def);
    const Function *fn = use->called || !callee ? callee : signature_value(g, def);
    if (!fn) {
        g->failed = true;
        return NULL;
    }
    uint32_t n = fn->type_params.n, others = 0, shapes = 0;
    Instance made = {.n_vars = n, .vars = fn->type_params.at, .types = types};
    const Type **written = arena_new_array(g->arena, const Type *, use->n + 1);
    const Type **params = arena_new_array(g->arena, const Type *, use->n + 1);
    for (uint32_t i = 0; i < use->n; i++) {
        params[i] = written[i] = instance_type(g, &made, fn->params.at[i]->base.type);
        if (use->shapes && use->shapes[i])
            params[i] = shapes_refined(written[i], use->shapes[i]);
    }
    for (Instance *in = first_of(g, fn); in; in = in->next, others++) {
        if (in->open || !same_types(in, n, types))
            continue;
        if (same_params(in, use->n, params))
            return in;
        shapes++;
    }
    if (shapes >= SHAPES_MOST && memcmp(params, written, use->n * sizeof *params) != 0)
        return global_at(
            g, def, &(GlobalUse){.name = use->name, .n = use->n, .called = use->called}, types);
    Instance *in = instance_new(g, fn, def->name->text);
    if (others >= INSTANCES_AT_ONCE || shapes >= SHAPES_MOST / 4)
        in->late = late_site(g, in);
    in->n_vars = n;
    in->vars = fn->type_params.at;
    in->types = types;
    in->global = fn == callee ? def->name : NULL;
    set_signature(g, in, fn);
    in->gives_fields =
        fn == callee && signature_gives_fields(g, def->name) && fields_fit(in->result);
    in->params = params;
    return declare(g, in);
}

/* What the arguments say of the type parameters. A function of all types, `last`, may be taken at one, which the others and the result tell. */
static bool args_match(const Function *fn, const GlobalUse *use, bool last, const Type **types)
{
    uint32_t n_vars = fn->type_params.n;
    bool ok = true;
    for (uint32_t i = 0; ok && i < use->n && n_vars > 0; i++) {
        const Type *given = use->args[i];
        if (last == (given->kind == TYPE_FUNC && given->n_params > 0))
            ok = types_match(fn->params.at[i]->base.type, given, n_vars, fn->type_params.at, types);
    }
    return ok;
}

Instance *instance_of_global(Gen *g, const GlobalUse *use)
{
    const Def *def = module_find(g->env, use->name);
    if (!def || !def->fn) {
        gen_refuse(g, "`@%s` is not defined", use->name->text);
        return NULL;
    }
    needs(g, use->name, def->fn);
    if (attrs_find(def->fn->attrs, "Compiler")) {
        gen_refuse(g, "`@%s` is left to another compiler", use->name->text);
        return NULL;
    }
    const Function *fn = use->called ? definition_form(g, def) : def->fn;
    if (!fn) {
        g->failed = true;
        return NULL;
    }
    uint32_t n_vars = fn->type_params.n;
    const Type **types = arena_new_array(g->arena, const Type *, n_vars + 1);
    for (uint32_t i = 0; i < n_vars && use->n_type_args == n_vars; i++)
        types[i] = use->type_args[i];
    bool ok = use->n == fn->params.n && args_match(fn, use, false, types);
    const Type *open = fn->ret_type ? fn->ret_type : fn->body->type;
    if (ok && n_vars > 0 && use->result)
        types_match(open, use->result, n_vars, fn->type_params.at, types);
    ok = ok && args_match(fn, use, true, types);
    for (uint32_t i = 0; ok && i < n_vars; i++)
        ok = types[i] != NULL;
    if (ok)
        return global_at(g, def, use, types);
    gen_refuse(g, "the type arguments of `@%s` cannot be told", use->name->text);
    return NULL;
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

const Type *instance_argument(Gen *g, const Instance *in, const Call *call, uint32_t i)
{
    const Type *found = instance_type(g, in, call->args.at[i]->type);
    const Type *f = call->callee->type ? type_find(call->callee->type) : NULL;
    if (found->kind != TYPE_FUNC || found->n_params == 0 || !f || f->kind != TYPE_FUNC ||
        f->n != call->args.n || (f->n_params && f->n_params != call->type_args.n))
        return found;
    const Type *needed = type_subst(g->cx, f->parts[i], f->n_params, f->params, call->type_args.at);
    needed = instance_type(g, in, needed);
    return type_fit(g->cx, &g->holders, found, needed) == FIT_CALLED_AT_ONE ? needed : found;
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
        fn = instance_normal_form(g, fn);
    if (!fn) {
        g->failed = true;
        return NULL;
    }
    Instance *in = instance_new(g, fn, arena_copy_text(g->arena, name, (size_t)len));
    arena_on_free(g->arena, known_free, &in->known);
    in->open = fn->type_params.n > 0;
    in->home = f->in;
    in->self_var = self;
    in->n_vars = f->in->n_vars;
    in->vars = f->in->vars;
    in->types = f->in->types;
    ir_free_vars(&fn->base, capture, &(CaptureSearch){f, in});
    in->has_self = in->captures.n > 0;
    set_signature(g, in, fn);
    if (g->failed)
        return NULL;
    return in->open ? in : declare(g, in);
}

/* ---- what is polymorphic at given types ----------------------------------------------------------------------------- */

/* A literal's: the outer type parameters are chosen already. */
static Instance *literal_at(Gen *g, Instance *open, uint32_t n, const Type *const *args,
                            const Type *result)
{
    const Function *fn = open->fn;
    uint32_t outer = open->n_vars, own = fn->type_params.n;
    const TypeVar **vars = arena_new_array(g->arena, const TypeVar *, outer + own + 1);
    const Type **types = arena_new_array(g->arena, const Type *, outer + own + 1);
    for (uint32_t i = 0; i < outer; i++) {
        vars[i] = open->vars[i];
        types[i] = open->types[i];
    }
    for (uint32_t i = 0; i < own; i++)
        vars[outer + i] = fn->type_params.at[i];
    bool ok = n == fn->params.n;
    for (uint32_t i = 0; ok && i < n; i++)
        ok = types_match(open->params[i], args[i], own, fn->type_params.at, types + outer);
    types_match(open->result, result, own, fn->type_params.at, types + outer);
    for (uint32_t i = 0; ok && i < own; i++)
        ok = types[outer + i] != NULL;
    if (!ok) {
        gen_refuse(g, "the type arguments of `%s` cannot be told", open->name);
        return NULL;
    }
    uint32_t others = 0;
    for (Instance *in = first_of(g, fn); in; in = in->next, others++)
        if (in->of == open && same_types(in, outer + own, types))
            return in;
    Instance *in = instance_new(g, fn, open->name);
    if (others > INSTANCES_AT_ONCE)
        in->late = late_site(g, in);
    in->of = open;
    in->self_var = open->self_var;
    in->n_vars = outer + own;
    in->vars = vars;
    in->types = types;
    in->captures.at = open->captures.at;
    in->captures.n = open->captures.n;
    in->has_self = open->has_self;
    set_signature(g, in, fn);
    return declare(g, in);
}

Instance *instance_at(Gen *g, Instance *open, uint32_t n, const Type *const *args,
                      const Type *result)
{
    if (open->global)
        return instance_of_global(
            g, &(GlobalUse){.name = open->global, .n = n, .args = args, .result = result});
    if (!open->op && !open->con)
        return literal_at(g, open, n, args, result);
    const Type *type = type_func(g->cx, 0, NULL, n, args, result);
    return instance_of_row(g, open->op, open->con, type, (Span){0});
}

Instance *instance_of_atom(Gen *g, const Expr *atom, const Type *type)
{
    const GlobalVar *global = expr_as_global(atom);
    const OpRef *op = expr_as_op(atom);
    const ConRef *con = expr_as_con(atom);
    const void *key = global ? (const void *)global->name : op ? (const void *)op->op : con->con;
    Instance *in = ptrmap_find(&g->unit->by_function, key);
    if (in)
        return in;
    in = arena_new(g->arena, Instance);
    in->open = true;
    in->name = global ? global->name->text : op ? op->op->name : con->con->name->text;
    in->global = global ? global->name : NULL;
    in->op = op ? op->op : NULL;
    in->con = con ? con->con : NULL;
    in->n = type->n;
    in->params = (const Type **)(uintptr_t)type->parts;
    in->result = type->result;
    ptrmap_put(&g->unit->by_function, key, in);
    /* It is made when the code runs, and then it is too late to refuse. */
    const Def *def = global ? module_find(g->env, global->name) : NULL;
    const Function *fn = def && def->fn ? definition_form(g, def) : NULL;
    if (fn)
        function_uses_suit(g, fn);
    return in;
}

/* ---- operators and constructors as values ----------------------------------------------------------------------- */

/* `fn (%x0, …) { callee(%x0, …) }` at these types. */
const Function *instance_eta(Gen *g, Expr *callee, const Attrs *attrs, const Type *type, Span span)
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
    return instance_normal_form(g, fn);
}

static bool same_row(const Instance *in, const Op *op, const Constructor *con, const Type *type)
{
    return (in->op || in->con) && in->op == op && in->con == con && in->n == type->n &&
           in->result == type->result &&
           memcmp(in->params, type->parts, type->n * sizeof *type->parts) == 0;
}

Instance *instance_of_row(Gen *g, const Op *op, const Constructor *con, const Type *type, Span span)
{
    for (size_t i = 0; i < g->unit->instances.n; i++)
        if (same_row(g->unit->instances.at[i], op, con, type))
            return g->unit->instances.at[i];
    Arena *a = &g->code->arena;
    const Attrs *attrs = NULL;
    if (op && op->attrs) {
        attrs = attrs_check(g->cx, a, op->name, op->attrs, NULL, span);
        if (!attrs)
            return g->failed = true, NULL;
    }
    Expr *callee = op ? expr_op(a, span, op) : expr_con(a, span, con);
    const Function *fn = instance_eta(g, callee, attrs, type, span);
    if (!fn)
        return g->failed = true, NULL;
    Instance *in = instance_new(g, fn, op ? op->name : con->name->text);
    in->op = op;
    in->con = con;
    set_signature(g, in, fn);
    return declare(g, in);
}
