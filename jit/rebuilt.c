/* A value that is taken apart and written again is that value.
 *
 *     match (%s) { K(%m) => … let %v = K(%m); … %v … }
 *  => match (%s) { K(%m) => … %s … }
 *
 * So it is neither counted, nor given back, nor made. Only of numbers: fields that are values move out of one that nobody else holds, and
 * would have to be counted while it lives on. */
#include "ir/decide.h"
#include "ir/walk.h"
#include "jit/internal.h"
#include "passes/types.h"

typedef struct Apart {
    const Var *value;
    const Pattern *pattern; /* of its fields, which are variables */
} Apart;

typedef struct Rebuilding {
    Gen *g;
    const Function *fn;
    PtrMap apart; /* the first field's Var -> Apart */
    PtrMap same; /* Var of what is written again -> the Var that it is */
} Rebuilding;

static bool is_number(Gen *g, const Var *v)
{
    const Type *t = type_resolve(g->cx, v->base.type);
    return t->kind == TYPE_TENSOR && t->n == 0;
}

static bool has_numbers(Gen *g, const Pattern *p)
{
    bool has = p->kind == PATTERN_CON && p->n > 0;
    for (uint32_t i = 0; i < p->n && has; i++)
        has = p->fields[i]->kind == PATTERN_VAR && is_number(g, p->fields[i]->var);
    return has;
}

static const Var *itself(const Rebuilding *r, const Var *v)
{
    const Var *same = ptrmap_find(&r->same, v);
    return same ? same : v;
}

static void note_clause(Rebuilding *r, const Match *m, uint32_t clause)
{
    const Tuple *tuple = expr_as_tuple(m->scrutinee);
    for (uint32_t i = 0; i < match_roots(m); i++) {
        const Pattern *p = match_pattern(m, clause, i);
        const Var *value = expr_as_var(tuple ? tuple->fields.at[i] : m->scrutinee);
        if (!value || !p || !has_numbers(r->g, p))
            continue;
        Apart *apart = arena_new(r->g->arena, Apart);
        *apart = (Apart){itself(r, value), p};
        ptrmap_put(&r->apart, p->fields[0]->var, apart);
    }
}

/* NULL: it is another one. */
static const Var *written_again(const Rebuilding *r, const Let *let)
{
    const Call *call = expr_as_call(let->value);
    const ConRef *con = call ? expr_as_con(call->callee) : NULL;
    const Apart *apart = con && call->args.n > 0 ? ptrmap_find(&r->apart, call->args.at[0]) : NULL;
    bool is = apart && apart->pattern->con == con->con &&
              type_resolve(r->g->cx, apart->value->base.type) ==
                  type_resolve(r->g->cx, let->var->base.type);
    for (uint32_t i = 0; is && i < call->args.n; i++)
        is = call->args.at[i] == &apart->pattern->fields[i]->var->base;
    return is ? apart->value : NULL;
}

/* Of functions inside what is captured stays as it is. */
static WalkNext note(void *data, const Expr *e)
{
    Rebuilding *r = data;
    const Match *m = expr_as_match(e);
    const Let *let = expr_as_let(e);
    for (uint32_t i = 0; m && i < m->clauses.n; i++)
        note_clause(r, m, i);
    const Var *value = let ? written_again(r, let) : NULL;
    if (value)
        ptrmap_put(&r->same, let->var, (void *)(uintptr_t)value);
    return expr_as_function(e) && e != &r->fn->base ? WALK_SKIP : WALK_ON;
}

static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    const PtrMap *same = &((Rebuilding *)rw->data)->same;
    const Let *let = expr_as_let(old);
    Expr *value = ptrmap_find(same, old);
    if (value)
        return value;
    if (let && ptrmap_has(same, let->var))
        return expr_as_let(now)->body;
    expr_keep_type(now, old);
    return now;
}

Function *rebuilt_once(Gen *g, Function *fn)
{
    Rebuilding r = {.g = g, .fn = fn};
    ir_walk(&fn->base, note, NULL, &r);
    if (r.same.n > 0) {
        Rewriter rw;
        rewriter_init(&rw, g->cx, g->code, node_now, &r);
        fn = expr_as_function(ir_rewrite(&rw, &fn->base));
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&r.apart);
    ptrmap_deinit(&r.same);
    return fn;
}
