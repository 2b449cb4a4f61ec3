/* Operators, constructors and polymorphic functions as values have code for the types of a call alone: where one is handed on, or is the result
 * of a branch or a function, a literal that calls it stands instead. */
#include "passes/vjp.h"

#include "passes/beta.h"

/* The type as that of a function without type parameters; NULL: it is none. */
static const Type *of_function(const Type *t)
{
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_FUNC && !t->n_params ? t : NULL;
}

/* What the callee wants of an argument; NULL: no function, or it is not known. */
static const Type *wanted(Vjp *v, const Call *e, uint32_t i)
{
    const ConRef *con = expr_as_con(e->callee);
    const Type *t = con ? type_of_constructor(v->cx, con->con) : e->callee->type;
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_FUNC || i >= t->n || t->n_params != e->type_args.n)
        return NULL;
    return of_function(type_subst(v->cx, t->parts[i], t->n_params, t->params, e->type_args.at));
}

static bool is_bare(const Vjp *v, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? find_global(v->call->module, v->call->env, g->name) : NULL;
    return e->kind == EXPR_OP || (e->kind == EXPR_CON && expr_as_con(e)->con->n) ||
           (def && def->fn->type_params.n);
}

/* Puts a literal of this type (NULL: it is not known) around what stands there; false: it stays. */
static bool put(Vjp *v, Rewriter *rw, Expr **at, const Type *t)
{
    Function *f =
        t && is_bare(v, *at) ? eta(rw->cx, rw->module, v->make.scratch, *at, t, NULL) : NULL;
    *at = f ? &f->base : *at;
    return f != NULL;
}

static Expr *in_call(Vjp *v, Rewriter *rw, const Call *old, Call *now)
{
    Expr **args = arena_copy(v->make.scratch, now->args.at, now->args.n * sizeof *args);
    bool any = false;
    for (uint32_t i = 0; i < now->args.n; i++)
        any |= is_bare(v, args[i]) && put(v, rw, &args[i], wanted(v, old, i));
    return any ? expr_call(&rw->module->arena, now->base.span, now->callee, now->args.n, args,
                           now->attrs)
               : &now->base;
}

static Expr *in_if(Vjp *v, Rewriter *rw, const Type *t, If *now)
{
    Expr *then = now->then, *otherwise = now->otherwise;
    bool any = put(v, rw, &then, t);
    any |= put(v, rw, &otherwise, t);
    return any ? expr_if(&rw->module->arena, now->base.span, now->cond, then, otherwise)
               : &now->base;
}

static Expr *in_match(Vjp *v, Rewriter *rw, const Type *t, Match *now)
{
    uint32_t n = now->clauses.n;
    Clause *clauses = arena_copy(v->make.scratch, now->clauses.at, n * sizeof *clauses);
    bool any = false;
    for (uint32_t i = 0; i < n; i++)
        any |= put(v, rw, &clauses[i].body, t);
    return any ? expr_match(&rw->module->arena, now->base.span, now->scrutinee, n, clauses,
                            now->complete)
               : &now->base;
}

static Expr *in_function(Vjp *v, Rewriter *rw, const Type *t, Function *now)
{
    Expr *body = now->body;
    return put(v, rw, &body, t)
               ? &expr_function(&rw->module->arena, now->base.span, now->type_params, now->params.n,
                                now->params.at, now->attrs, now->ret_type, body)
                      ->base
               : &now->base;
}

Expr *vjp_literals(Vjp *v, Rewriter *rw, const Expr *old, Expr *now)
{
    const Type *t = of_function(old->type);
    switch (old->kind) {
    case EXPR_CALL: return in_call(v, rw, expr_as_call(old), expr_as_call(now));
    case EXPR_IF: return in_if(v, rw, t, expr_as_if(now));
    case EXPR_MATCH: return in_match(v, rw, t, expr_as_match(now));
    case EXPR_FUNCTION: {
        const Type *of = old->type ? type_find(old->type) : NULL;
        return in_function(v, rw, of && of->kind == TYPE_FUNC ? of_function(of->result) : NULL,
                           expr_as_function(now));
    }
    default: return now;
    }
}
