/* One function with dual numbers: beside each variable stands how it changes. */
#include "passes/vjp.h"

#include "passes/adjoint.h"
#include "passes/facts.h"

/* Blocks inside blocks: the C stack. */
enum { DEPTH_MOST = 400 };

static bool is_number(Vjp *v, const Type *t)
{
    return vjp_holds(v, t) & HOLDS_FLOAT;
}

static Expr *pair_of(const Vjp *v, Expr *a, Expr *b)
{
    return expr_tuple(v->make.arena, v->make.span, 2, (Expr *[]){a, b});
}

/* ---- variables -------------------------------------------------------------------------------------------------------- */

static const Adj *tangent_of(const Vjp *v, const Expr *atom)
{
    return atom->kind == EXPR_VAR ? ptrmap_find(&v->tangents, atom) : NULL;
}

/* The whole, with zeros where it does not change. */
static Expr *tangent_expr(Vjp *v, const Expr *atom)
{
    return adj_expr(v, tangent_of(v, atom), atom->type, vjp_now(v, atom));
}

/* The variable stands for the old one from here on, and changes like that; zero where it does not. */
static void bound(Vjp *v, const Var *old, Expr *now, const Adj *a)
{
    ptrmap_put(&v->now, old, now);
    ptrmap_remove(&v->tangents, old);
    ptrmap_remove(&v->active, old);
    if (adj_is_zero(a))
        return;
    ptrmap_put(&v->tangents, old, arena_copy(v->make.scratch, a, sizeof *a));
    ptrmap_put(&v->active, old, NULL);
}

static Adj adj_of(Vjp *v, const Type *t, Expr *tangent)
{
    Adj a = {0};
    adj_add(v, NULL, &a, t, tangent);
    return a;
}

/* ---- operators ------------------------------------------------------------------------------------------------------------ */

/* What stands for an operand while its operator is differentiated alone: a variable with its type. */
static Expr *stand_in(Vjp *v, PtrMap *map, const Type *t, Expr *now)
{
    if (now->kind != EXPR_VAR)
        return now;
    Var *var = lets_var(&v->make);
    var->annotation = var->base.type = vjp_here(v, t);
    ptrmap_put(map, var, now);
    return &var->base;
}

/* fn (%g) { (the adjoints of the operands that change,) } */
static Function *pullback_of(Vjp *v, PtrMap *map, const Call *e, Expr **args, Expr *out)
{
    uint32_t n = 0;
    Expr **rev = arena_alloc_must(v->make.scratch, e->args.n + 1, sizeof *rev);
    Expr **in = arena_alloc_must(v->make.scratch, e->args.n + 1, sizeof *in);
    Var *g = lets_var(&v->make);
    g->annotation = vjp_here(v, e->base.type);
    ptrmap_put(map, g, out);
    for (uint32_t i = 0; i < e->args.n; i++)
        in[i] = stand_in(v, map, e->args.at[i]->type, args[i]);
    AdjointCall call = {.cx = v->cx,
                        .arena = v->make.arena,
                        .typed = e,
                        .args = in,
                        .out = stand_in(v, map, e->base.type, out),
                        .grad = &g->base};
    if (!adjoints(&call, rev))
        return NULL;
    for (uint32_t i = 0; i < e->args.n; i++)
        if (vjp_is_active(v, e->args.at[i]))
            rev[n++] = rev[i];
    Expr *all = expr_tuple(v->make.arena, v->make.span, n, rev);
    return expr_function(v->make.arena, v->make.span, (TypeVarList){0}, 1, &g, NULL, NULL, all);
}

/* Binds what a chain of `let`s binds; what it ends with. */
static Expr *bind_chain(Lets *l, Expr *e)
{
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        lets_bind(l, let->var, let->value);
        e = let->body;
    }
    return e;
}

/* The pullback by the operands that change is linear: transposed, by its own pullback at any point, it takes how these change to how the
 * result does. */
static Expr *transpose(Vjp *v, Lets *l, PtrMap *map, const Function *back, Expr *changes)
{
    Expr *twice = vjp(v->call, back, VJP_PULLBACK);
    const Function *f = expr_as_function(twice);
    Lets inner = {.make = &v->make};
    const Tuple *pair = f ? expr_as_tuple(bind_chain(&inner, f->body)) : NULL;
    const Function *linear = pair ? expr_as_function(pair->fields.at[1]) : NULL;
    if (!linear) {
        if (twice)
            vjp_refuse(v, &back->base, "its slope is no straight line");
        return NULL;
    }
    ptrmap_put(map, f->params.at[0], ptrmap_find(map, back->params.at[0]));
    ptrmap_put(map, linear->params.at[0], changes);
    Expr *body = ir_substitute(v->cx, v->call->module, lets_close(&inner, linear->body), map);
    const Tuple *only = body ? expr_as_tuple(bind_chain(l, body)) : NULL;
    return only ? only->fields.at[0] : NULL;
}

static Adj change_of_op(Vjp *v, Lets *l, const Call *e, Expr *out)
{
    uint32_t n = 0;
    PtrMap map = {0};
    Expr **args = vjp_now_all(v, &e->args);
    Expr **changes = arena_alloc_must(v->make.scratch, e->args.n + 1, sizeof *changes);
    for (uint32_t i = 0; i < e->args.n; i++)
        if (vjp_is_active(v, e->args.at[i]))
            changes[n++] = tangent_expr(v, e->args.at[i]);
    Function *back = pullback_of(v, &map, e, args, out);
    Expr *change =
        back ? transpose(v, l, &map, back, expr_tuple(v->make.arena, v->make.span, n, changes))
             : NULL;
    ptrmap_deinit(&map);
    v->failed |= !change;
    return change ? adj_of(v, e->base.type, lets_push(l, change)) : (Adj){0};
}

/* How the value of a call of an operator or a constructor changes, once it is bound to `out`. */
static Adj change_of_call(Vjp *v, Lets *l, const Call *e, Expr *out)
{
    const Constructor *con = expr_call_of_con(&e->base);
    if (!vjp_any_active(v, &e->args) || !is_number(v, e->base.type))
        return (Adj){0};
    if (!con)
        return change_of_op(v, l, e, out);
    Expr **fields = arena_alloc_must(v->make.scratch, e->args.n + 1, sizeof *fields);
    for (uint32_t i = 0; i < e->args.n; i++)
        fields[i] = tangent_expr(v, e->args.at[i]);
    return (Adj){.e = lets_push(l, lets_construct(&v->make, con, fields))};
}

/* ---- what a binding becomes ------------------------------------------------------------------------------------------------- */

static Expr *run_tail(Vjp *v, const Expr *body);
static const Expr *run(Vjp *v, Lets *l, const Expr *body);

/* A call of the program's own functions: what goes in, and how those numbers change. */
static Expr *dual_call(Vjp *v, const Call *e)
{
    uint32_t n = 0;
    Expr **args = arena_alloc_must(v->make.scratch, 2 * (size_t)e->args.n + 1, sizeof *args);
    Expr *callee = e->callee->kind == EXPR_GLOBAL
                       ? vjp_now_global(v, e->callee, e->type_args, &e->args)
                   : e->type_args.n ? NULL
                                    : vjp_now(v, e->callee);
    if (!callee && !v->failed)
        vjp_refuse(v, e->callee, "it is polymorphic, and bound inside the function");
    for (uint32_t i = 0; i < e->args.n && !v->failed; i++)
        args[n++] = vjp_now(v, e->args.at[i]);
    for (uint32_t i = 0; i < e->args.n && !v->failed; i++)
        if (is_number(v, e->args.at[i]->type))
            args[n++] = tangent_expr(v, e->args.at[i]);
    return v->failed ? NULL : expr_call(v->make.arena, e->base.span, callee, n, args, NULL);
}

/* Of an operator, a constructor, or of a definition in which nothing changes. */
static bool is_plain_call(Vjp *v, const Call *e)
{
    bool code = vjp_holds(v, e->base.type) & HOLDS_CODE;
    for (uint32_t i = 0; i < e->args.n; i++)
        code |= vjp_holds(v, e->args.at[i]->type) & HOLDS_CODE;
    bool constant = e->callee->kind == EXPR_GLOBAL && !code &&
                    (!vjp_keeps(v, e) || !vjp_any_active(v, &e->args));
    return constant || expr_call_of_op(&e->base) || expr_call_of_con(&e->base);
}

static Expr *plain_call(Vjp *v, const Call *e)
{
    Expr **args = vjp_now_all(v, &e->args);
    bool plain = args && (!expr_call_of_con(&e->base) || vjp_is_plain(v, &e->base));
    return plain ? expr_call(v->make.arena, e->base.span, e->callee, e->args.n, args, e->attrs)
                 : NULL;
}

static Expr *dual_if(Vjp *v, const If *e)
{
    Expr *cond = vjp_now(v, e->cond), *then = cond ? run_tail(v, e->then) : NULL;
    Expr *otherwise = then ? run_tail(v, e->otherwise) : NULL;
    return otherwise ? expr_if(v->make.arena, e->base.span, cond, then, otherwise) : NULL;
}

/* The pattern with new variables; `change`, which may be NULL, is to become the same for how the value changes. */
static Pattern *dual_pattern(Vjp *v, const Pattern *p, Pattern **change)
{
    Arena *arena = v->make.arena;
    if (change)
        *change = pattern_wildcard(arena, p->span);
    if (p->kind == PATTERN_WILDCARD)
        return pattern_wildcard(arena, p->span);
    if (p->kind == PATTERN_VAR) {
        Var *now = vjp_var_like(v, p->var, NULL), *d = NULL;
        if (change && is_number(v, p->var->base.type)) {
            d = lets_var(&v->make);
            *change = pattern_var(arena, p->span, d);
        }
        Adj a = d ? adj_of(v, p->var->base.type, &d->base) : (Adj){0};
        bound(v, p->var, &now->base, &a);
        return pattern_var(arena, p->span, now);
    }
    Pattern **fields = arena_alloc_must(v->make.scratch, p->n + 1, sizeof *fields);
    Pattern **changes = arena_alloc_must(v->make.scratch, p->n + 1, sizeof *changes);
    for (uint32_t i = 0; i < p->n; i++)
        fields[i] = dual_pattern(v, p->fields[i], change ? &changes[i] : NULL);
    bool con = p->kind == PATTERN_CON;
    if (change)
        *change = con ? pattern_con(arena, p->span, p->con, p->n, changes)
                      : pattern_tuple(arena, p->span, p->n, changes);
    return con ? pattern_con(arena, p->span, p->con, p->n, fields)
               : pattern_tuple(arena, p->span, p->n, fields);
}

/* What is matched: the value, or with how it changes, which has the same constructors. */
static Expr *matched(Vjp *v, const Match *e)
{
    Expr *now = vjp_now(v, e->scrutinee);
    if (!now || !vjp_is_plain(v, e->scrutinee))
        return NULL;
    return vjp_is_active(v, e->scrutinee) ? pair_of(v, now, tangent_expr(v, e->scrutinee)) : now;
}

static Pattern *matched_pattern(Vjp *v, const Match *e, const Pattern *p)
{
    Pattern *both[2];
    if (!vjp_is_active(v, e->scrutinee))
        return dual_pattern(v, p, NULL);
    both[0] = dual_pattern(v, p, &both[1]);
    return pattern_tuple(v->make.arena, p->span, 2, both);
}

/* Two values with the same constructors are matched: the checker sees more cases than there are. */
static bool is_complete(const Vjp *v, const Match *e)
{
    return e->complete && (e->clauses.n == 1 || !vjp_is_active(v, e->scrutinee));
}

static Expr *dual_match(Vjp *v, const Match *e)
{
    uint32_t n = e->clauses.n;
    Clause *clauses = arena_alloc_must(v->make.scratch, n + 1, sizeof *clauses);
    Expr *value = matched(v, e);
    for (uint32_t i = 0; value && i < n; i++) {
        const Clause *old = &e->clauses.at[i];
        clauses[i] = (Clause){.pattern = matched_pattern(v, e, old->pattern), .span = old->span};
        clauses[i].body = run_tail(v, old->body);
        value = clauses[i].body ? value : NULL;
    }
    return value ? expr_match(v->make.arena, e->base.span, value, n, clauses, is_complete(v, e))
                 : NULL;
}

/* A reference whose content changes is one to the content and one to how that does. */
static Expr *dual_ref(Vjp *v, Lets *l, const Expr *e, Adj *a)
{
    Arena *arena = v->make.arena;
    const RefNew *make = expr_as_ref_new(e);
    const RefRead *read = expr_as_ref_read(e);
    const RefWrite *write = expr_as_ref_write(e);
    const Expr *old = make ? make->value : write ? write->value : NULL;
    const Expr *cell = read ? read->ref : write ? write->ref : e;
    Expr *value = old ? vjp_now(v, old) : NULL, *ref = make ? NULL : vjp_now(v, cell);
    bool pair = vjp_is_pair(v, cell);
    if ((old && !value) || (!make && !ref))
        return NULL;
    if (make) {
        Expr *first = expr_ref_new(arena, e->span, value);
        return pair ? pair_of(v, first, expr_ref_new(arena, e->span, tangent_expr(v, old))) : first;
    }
    Expr *first = pair ? vjp_get(v, ref, 0) : ref, *second = pair ? vjp_get(v, ref, 1) : NULL;
    if (read && pair)
        *a = adj_of(v, e->type, lets_push(l, expr_ref_read(arena, e->span, second)));
    if (read)
        return expr_ref_read(arena, e->span, first);
    if (pair)
        lets_push(l, expr_ref_write(arena, e->span, second, tangent_expr(v, old)));
    return expr_ref_write(arena, e->span, first, value);
}

/* The value gives itself and how it changes in one, where it is made of numbers. */
static bool gives_pair(Vjp *v, const Expr *e)
{
    bool dual = e->kind == EXPR_IF || e->kind == EXPR_MATCH ||
                (e->kind == EXPR_CALL && !is_plain_call(v, expr_as_call(e)));
    return dual && is_number(v, e->type);
}

static Expr *dual_value(Vjp *v, Lets *l, const Expr *e, Adj *a)
{
    const Call *call = expr_as_call(e);
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    Expr **fields, *from;
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: return is_plain_call(v, call) ? plain_call(v, call) : dual_call(v, call);
    case EXPR_IF: return dual_if(v, expr_as_if(e));
    case EXPR_MATCH: return dual_match(v, expr_as_match(e));
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return dual_ref(v, l, e, a);
    case EXPR_TUPLE:
        fields = vjp_now_all(v, &tuple->fields);
        for (uint32_t i = 0; i < tuple->fields.n; i++)
            if (vjp_is_active(v, tuple->fields.at[i]))
                *adj_field(v, a, e->type, i) = *tangent_of(v, tuple->fields.at[i]);
        return fields ? expr_tuple(v->make.arena, e->span, tuple->fields.n, fields) : NULL;
    case EXPR_TUPLE_GET:
        from = vjp_now(v, get->tuple);
        if (vjp_is_active(v, get->tuple))
            *a = tangent_of(v, get->tuple)->fields[get->index];
        return from ? expr_tuple_get(v->make.arena, e->span, from, get->index) : NULL;
    case EXPR_FUNCTION: {
        Function *f = vjp_forward(v, expr_as_function(e));
        return f ? &f->base : NULL;
    }
    case EXPR_VAR:
    case EXPR_CONSTANT:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
        if (vjp_is_active(v, e))
            *a = *tangent_of(v, e);
        return vjp_now(v, e);
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    return NULL;
}

/* ---- blocks ------------------------------------------------------------------------------------------------------------------- */

/* One clause is no branching: its code, and all that follows, is part of the same straight line. Gives its result as it was. */
static const Expr *run_clause(Vjp *v, Lets *l, const Match *e)
{
    Expr *value = matched(v, e);
    if (!value)
        return NULL;
    size_t at = lets_match(l, value, is_complete(v, e));
    Pattern *p = matched_pattern(v, e, e->clauses.at[0].pattern);
    l->bindings.at[at].pattern = p;
    return run(v, l, e->clauses.at[0].body);
}

static bool run_let(Vjp *v, Lets *l, const Let *let)
{
    const Match *match = expr_as_match(let->value);
    bool literal = let->value->kind == EXPR_FUNCTION;
    if (literal && !times_used(&v->uses, &let->var->base))
        return true;
    v->make.span = let->value->span;
    const Expr *from = match && match->clauses.n == 1 ? run_clause(v, l, match) : let->value;
    if (!from)
        return false;
    Adj a = {0};
    Var *now = vjp_bound_like(v, let->var, from);
    if (literal)
        ptrmap_put(&v->now, let->var, now); /* it may call itself */
    Expr *value = dual_value(v, l, from, &a);
    if (!value || v->failed)
        return false;
    v->make.span = let->value->span;
    bool pair = gives_pair(v, from);
    Expr *both = pair ? lets_push(l, value) : NULL;
    if (pair)
        a = adj_of(v, from->type, lets_push(l, vjp_get(v, both, 1)));
    lets_bind(l, now, pair ? vjp_get(v, both, 0) : value);
    if (!pair && from->kind == EXPR_CALL)
        a = change_of_call(v, l, expr_as_call(from), &now->base);
    bound(v, let->var, &now->base, &a);
    return !v->failed;
}

/* Binds all; the result as it was, an atom. NULL after a diagnostic. */
static const Expr *run(Vjp *v, Lets *l, const Expr *body)
{
    for (const Let *let = expr_as_let(body); let; let = expr_as_let(body)) {
        if (limit_hit(&v->cx->limits) || !run_let(v, l, let))
            return NULL;
        body = let->body;
    }
    return body;
}

/* What comes last gives its pair on, so that a call in tail position stays one. */
static Expr *run_last(Vjp *v, Lets *l, const Expr *body)
{
    for (const Let *let = expr_as_let(body); let; let = expr_as_let(body)) {
        if (let->body == &let->var->base && gives_pair(v, let->value)) {
            v->make.span = let->value->span;
            return dual_value(v, l, let->value, &(Adj){0});
        }
        if (limit_hit(&v->cx->limits) || !run_let(v, l, let))
            return NULL;
        body = let->body;
    }
    Expr *now = vjp_now(v, body);
    return now && is_number(v, body->type) ? pair_of(v, now, tangent_expr(v, body)) : now;
}

static Expr *run_tail(Vjp *v, const Expr *body)
{
    Lets l = {.make = &v->make};
    if (v->depth++ >= DEPTH_MOST)
        vjp_refuse(v, body, "functions and branches lie too deep in each other");
    Expr *last = v->failed ? NULL : run_last(v, &l, body);
    v->depth--;
    return last && !v->failed ? lets_close(&l, last) : NULL;
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------ */

Function *vjp_forward(Vjp *v, const Function *f)
{
    bool whole =
        !v->piece && !v->depth; /* what was asked for: all its parameters have a direction */
    uint32_t n = f->params.n, all = n;
    Var **params = arena_alloc_must(v->make.scratch, 2 * (size_t)n + 1, sizeof *params);
    if (f->type_params.n && (!v->piece || v->depth)) {
        vjp_refuse(v, &f->base, "it is polymorphic");
        return NULL;
    }
    for (uint32_t i = 0; i < n; i++) {
        const Var *old = f->params.at[i];
        const Type *t = old->base.type;
        bool number = is_number(v, t);
        Var *change = number || whole ? vjp_var_like(v, old, vjp_adjoint_type(v, t)) : NULL;
        bool active = number && (whole || v->depth || v->piece->active[i]);
        Adj a = active ? adj_of(v, t, &change->base) : (Adj){0};
        params[i] = vjp_var_like(v, old, vjp_dual_type(v, t));
        bound(v, old, &params[i]->base, &a);
        if (change)
            params[all++] = change;
    }
    Expr *body = run_tail(v, f->body);
    const Type *t = f->body->type;
    bool number = is_number(v, t);
    const Type *both[2] = {vjp_dual_type(v, t), vjp_adjoint_type(v, t)};
    if (body && whole && !number) {
        Var *r = lets_var(&v->make);
        body = expr_let(v->make.arena, f->base.span, r, body,
                        pair_of(v, &r->base, vjp_zeros(v, t, &r->base)));
    }
    return body ? expr_function(v->make.arena, f->base.span, (TypeVarList){0}, all, params, NULL,
                                number || whole ? type_tuple(v->cx, 2, both) : both[0], body)
                : NULL;
}
