/* Binds every value by a `let` in its block (passes/scope.h), in the order of evaluation, so that operands are atoms.
 *
 *     add(multiply(%x, 2f), 1f)
 *  => let %x_1 = 2f; let %x_2 = multiply(%x, %x_1); let %x_3 = 1f; let %x_4 = add(%x_2, %x_3); %x_4
 *
 * What a branch alone needs is bound in the branch; what both need, before the `if`. Lets that are there already keep their
 * variables, and nested ones become one chain; the value of a `let` as a whole gets a variable too, as in the original, unless nobody
 * reads it. */
#include "passes/to_a_normal_form.h"

#include "ir/ctx.h"
#include "passes/pass.h"
#include "passes/scope.h"

#include <stdio.h>

typedef struct Binding {
    Var *var;
    Expr *value;
    bool own; /* the program has a `let` for it */
} Binding;

typedef struct Bindings {
    Vec(Binding) list;
} Bindings;

/* Which values are bound. */
typedef struct Wish {
    bool (*binds)(void *data, const Expr *e); /* NULL: all */
    void *data;
    uint32_t *numbers; /* variables made so far; NULL: they get no number */
} Wish;

typedef struct Anf {
    Ctx *cx;
    Arena *arena; /* of the new nodes */
    Scopes scopes;
    Wish wish;
    const Name *plain;
} Anf;

static void bind(Anf *anf, Block *block, Var *var, Expr *value, bool own)
{
    Arena *scratch = &anf->scopes.arena;
    if (!block->data)
        block->data = arena_new(scratch, Bindings);
    Bindings *b = block->data;
    if (!var->base.type)
        var->base.type = value->type;
    vec_push(&b->list, scratch, ((Binding){var, value, own}));
}

static Var *fresh_var(Anf *anf, const Expr *value)
{
    if (!anf->wish.numbers)
        return expr_var(anf->arena, value->span, anf->plain, NULL);
    char name[16];
    snprintf(name, sizeof name, "x_%u", ++*anf->wish.numbers);
    return expr_var(anf->arena, value->span, ctx_name(anf->cx, name), NULL);
}

/* What stands for the expression once it is bound: itself or a variable. */
static Expr *atom(const Anf *anf, Expr *e)
{
    const ScopeNode *node = scopes_node(&anf->scopes, e);
    return node ? node->data : e;
}

static bool atoms(const Anf *anf, ExprList list, Expr **out)
{
    bool changed = false;
    for (uint32_t i = 0; i < list.n; i++) {
        out[i] = atom(anf, list.at[i]);
        changed |= out[i] != list.at[i];
    }
    return changed;
}

/* The chain of what was bound in the block, around its result. */
static Expr *close_block(Anf *anf, const Block *block, Expr *result)
{
    const Bindings *b = block->data;
    Expr *body = atom(anf, result);
    size_t n = b ? b->list.n : 0;
    const Binding *last = n ? &b->list.at[n - 1] : NULL;
    if (last && anf->wish.binds && !last->own && body == &last->var->base) {
        body = last->value;
        n--;
    }
    for (size_t i = n; i-- > 0;) {
        const Binding *at = &b->list.at[i];
        const Type *type = body->type;
        body = expr_let(anf->arena, at->value->span, at->var, at->value, body);
        body->type = type;
    }
    return body;
}

/* ---- one node over its atoms ------------------------------------------------------------------- */

static Expr *tuple_now(Anf *anf, Tuple *e)
{
    Expr **fields = arena_new_array(&anf->scopes.arena, Expr *, e->fields.n);
    if (!fields || !atoms(anf, e->fields, fields))
        return &e->base;
    return expr_tuple(anf->arena, e->base.span, e->fields.n, fields);
}

static Expr *call_now(Anf *anf, Call *e)
{
    Expr **args = arena_new_array(&anf->scopes.arena, Expr *, e->args.n);
    Expr *callee = atom(anf, e->callee);
    if (!args || (!atoms(anf, e->args, args) && callee == e->callee))
        return &e->base;
    Expr *now = expr_call(anf->arena, e->base.span, callee, e->args.n, args, e->attrs);
    expr_as_call(now)->type_args = e->type_args;
    return now;
}

static Expr *function_with(Anf *anf, Function *f, Expr *body)
{
    Function *now = expr_function(anf->arena, f->base.span, f->type_params, f->params.n,
                                  f->params.at, f->attrs, f->ret_type, body);
    now->base.type = f->base.type;
    return &now->base;
}

static Expr *match_now(Anf *anf, const ScopeNode *node, Match *e)
{
    Clause *clauses = arena_new_array(&anf->scopes.arena, Clause, e->clauses.n);
    for (uint32_t i = 0; clauses && i < e->clauses.n; i++) {
        clauses[i] = e->clauses.at[i];
        clauses[i].body = close_block(anf, &node->inner[i], clauses[i].body);
    }
    uint32_t n = clauses ? e->clauses.n : 0;
    return expr_match(anf->arena, e->base.span, atom(anf, e->scrutinee), n, clauses, e->complete);
}

static Expr *if_now(Anf *anf, const ScopeNode *node, If *e)
{
    return expr_if(anf->arena, e->base.span, atom(anf, e->cond),
                   close_block(anf, &node->inner[0], e->then),
                   close_block(anf, &node->inner[1], e->otherwise));
}

static Expr *node_now(Anf *anf, const ScopeNode *node)
{
    Expr *e = node->e;
    switch ((ExprKind)e->kind) {
    case EXPR_TUPLE: return tuple_now(anf, expr_as_tuple(e));
    case EXPR_CALL: return call_now(anf, expr_as_call(e));
    case EXPR_IF: return if_now(anf, node, expr_as_if(e));
    case EXPR_MATCH: return match_now(anf, node, expr_as_match(e));
    case EXPR_LET: return atom(anf, expr_as_let(e)->body);
    case EXPR_TUPLE_GET: {
        const TupleGet *get = expr_as_tuple_get(e);
        return expr_tuple_get(anf->arena, e->span, atom(anf, get->tuple), get->index);
    }
    case EXPR_FUNCTION: {
        Function *f = expr_as_function(e);
        if (function_is_primitive(f))
            return e;
        return function_with(anf, f, close_block(anf, &node->inner[0], f->body));
    }
    case EXPR_REF_NEW:
        return expr_ref_new(anf->arena, e->span, atom(anf, expr_as_ref_new(e)->value));
    case EXPR_REF_READ:
        return expr_ref_read(anf->arena, e->span, atom(anf, expr_as_ref_read(e)->ref));
    case EXPR_REF_WRITE: {
        const RefWrite *write = expr_as_ref_write(e);
        return expr_ref_write(anf->arena, e->span, atom(anf, write->ref), atom(anf, write->value));
    }
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: break;
    }
    return e;
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void bind_node(Anf *anf, ScopeNode *node, const ScopeStep *next)
{
    const Let *whole = expr_as_let(node->e);
    const Wish *wish = &anf->wish;
    if (whole && (!wish->numbers || wish->binds)) {
        node->data = atom(anf, whole->body);
        return;
    }
    Expr *now = node_now(anf, node);
    if (!now->type)
        now->type = node->e->type;
    if (wish->binds && !wish->binds(wish->data, node->e)) {
        node->data = now;
        return;
    }
    Let *let = next && next->event == SCOPE_BIND ? expr_as_let(next->node->e) : NULL;
    Var *var = let && let->value == node->e ? let->var : fresh_var(anf, now);
    bind(anf, node->block, var, now, let && var == let->var);
    node->data = var;
}

/* A value that was bound before, or is an atom, gets a second name. */
static void bind_let(Anf *anf, const ScopeNode *node)
{
    const Let *let = expr_as_let(node->e);
    Expr *value = atom(anf, let->value);
    if (value != &let->var->base)
        bind(anf, node->block, let->var, value, true);
}

static Expr *body_to_anf(Ctx *cx, Module *module, Expr *body, Wish wish)
{
    Anf anf = {.cx = cx, .arena = &module->arena, .wish = wish, .plain = ctx_name(cx, "")};
    Expr *now = NULL;
    if (scopes_init(&anf.scopes, cx, body)) {
        size_t i = 0;
        for (; i < anf.scopes.steps.n && !limit_hit(&cx->limits); i++) {
            const ScopeStep *step = &anf.scopes.steps.at[i];
            if (step->event == SCOPE_DONE)
                bind_node(&anf, step->node, i + 1 < anf.scopes.steps.n ? step + 1 : NULL);
            else
                bind_let(&anf, step->node);
        }
        if (i == anf.scopes.steps.n)
            now = close_block(&anf, &anf.scopes.root, body);
    }
    scopes_deinit(&anf.scopes);
    return now;
}

static Expr *to_anf_wished(Ctx *cx, Module *module, Expr *root, Wish wish)
{
    Function *f = expr_as_function(root);
    Expr *body = body_to_anf(cx, module, f ? f->body : root, wish);
    return f && body ? function_with(&(Anf){.arena = &module->arena}, f, body) : body;
}

Expr *to_anf(Ctx *cx, Module *module, Expr *root)
{
    uint32_t numbers = 0;
    return to_anf_wished(cx, module, root, (Wish){.numbers = &numbers});
}

Expr *to_anf_unnamed(Ctx *cx, Module *module, Expr *root)
{
    return to_anf_wished(cx, module, root, (Wish){0});
}

Expr *to_anf_where(Ctx *cx, Module *module, Expr *root, bool (*binds)(void *data, const Expr *e),
                   void *data)
{
    uint32_t numbers = 0;
    return to_anf_wished(cx, module, root, (Wish){binds, data, &numbers});
}

static bool module_to_anf(PassRun *run, Module *old)
{
    uint32_t numbers = 0;
    Wish wish = {.numbers = &numbers};
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn))
            continue;
        Expr *now = to_anf_wished(run->cx, run->module, &def->fn->base, wish);
        if (!now)
            return false;
        module_define(run->module, def->name, expr_as_function(now), def->span, run->module);
    }
    if (old->expr)
        run->module->expr = to_anf_wished(run->cx, run->module, old->expr, wish);
    return !old->expr || run->module->expr;
}

const Pass pass_to_a_normal_form = {
    .name = "ToANormalForm",
    .doc = "Binds every value by a `let`, in the order of evaluation, so that operands are atoms.",
    .opt_level = 1,
    .module = module_to_anf,
};
