/* One function: its code forward, and backward through it. */
#include "passes/vjp.h"

#include "passes/adjoint.h"
#include "passes/facts.h"

#include <string.h>

/* Blocks inside blocks: the C stack. */
enum { DEPTH_MOST = 400 };

/* What backward code needs of a binding. */
typedef struct Step {
    Var *var; /* as it was */
    const Expr *value;
    Expr *back; /* the pullback of a call or a branching; the old content of a reference */
    Vec(Var *) outer; /* the variables whose adjoints the pullback of a branching gives */
    const Pattern *pattern; /* of a `match` with one clause: what took its value apart */
} Step;

/* A stretch of straight-line code: the body of a function, a branch, a clause. */
typedef struct Block {
    Lets lets; /* forward */
    Lets back;
    Vec(Step *) tape;
    PtrMap bound; /* Var as it was that is bound here */
    PtrMap adjoints; /* Var as it was -> Adj */
    const Expr *last; /* the result as it was, an atom */
    Expr *result;
    bool effects; /* of the code backward */
} Block;

static void block_init(Vjp *v, Block *b)
{
    *b = (Block){.lets = {.make = &v->make}, .back = {.make = &v->make}};
}

static void block_deinit(Block *b)
{
    ptrmap_deinit(&b->bound);
    ptrmap_deinit(&b->adjoints);
}

static Expr **new_exprs(const Vjp *v, size_t n)
{
    return arena_alloc_must(v->make.scratch, n + 1, sizeof(Expr *));
}

static Expr *make_tuple(const Vjp *v, uint32_t n, Expr *const *fields)
{
    return expr_tuple(v->make.arena, v->make.span, n, fields);
}

static Expr *make_call(const Vjp *v, Expr *callee, uint32_t n, Expr *const *args)
{
    return expr_call(v->make.arena, v->make.span, callee, n, args, NULL);
}

static Expr *read_ref(const Vjp *v, Expr *ref)
{
    return expr_ref_read(v->make.arena, v->make.span, ref);
}

static void write_ref(const Vjp *v, Lets *l, Expr *ref, Expr *value)
{
    lets_push(l, expr_ref_write(v->make.arena, v->make.span, ref, value));
}

static Expr *new_ref(const Vjp *v, Expr *value)
{
    return expr_ref_new(v->make.arena, v->make.span, value);
}

Var *vjp_var_like(const Vjp *v, const Var *old, const Type *annotation)
{
    return expr_var(v->make.arena, old->base.span, old->name, annotation);
}

/* What decided the type of a constructor's call may be gone. */
Var *vjp_bound_like(Vjp *v, const Var *old, const Expr *value)
{
    bool told = expr_call_of_con(value) && !(vjp_holds(v, value->type) & HOLDS_CODE);
    return vjp_var_like(v, old, told ? vjp_here(v, value->type) : NULL);
}

/* ---- atoms ------------------------------------------------------------------------------------------------------------------- */

bool vjp_is_active(const Vjp *v, const Expr *atom)
{
    return atom->kind == EXPR_VAR && ptrmap_has(&v->active, atom);
}

/* The piece of a definition; `args` of a call say by which parameters it is differentiated, without them it may be by all. */
Expr *vjp_now_global(Vjp *v, const Expr *e, TypeList type_args, const ExprList *args)
{
    const Def *def = find_global(v->call->module, v->call->env, expr_as_global(e)->name);
    if (!def || !def->fn->base.type || function_is_skipped(def->fn)) {
        vjp_refuse(v, e, "its body is not in this program");
        return NULL;
    }
    if (def->fn->type_params.n != type_args.n) {
        vjp_refuse(v, e, "it is polymorphic: call it, or write a function that does");
        return NULL;
    }
    const Type **with = arena_alloc_must(v->make.scratch, type_args.n + 1, sizeof *with);
    for (uint32_t i = 0; i < type_args.n; i++)
        with[i] = vjp_here(v, type_args.at[i]);
    Piece *p = vjp_piece(
        v, (Piece){.kind = PIECE_FUNCTION, .def = def, .vars = def->fn->type_params, .with = with});
    for (uint32_t i = 0; p && i < def->fn->params.n; i++)
        if (!args || vjp_is_active(v, args->at[i]) || vjp_holds(v, args->at[i]->type) & HOLDS_CODE)
            vjp_wants(p, i);
    return p ? &p->var->base : NULL;
}

/* What stands for an operand. */
Expr *vjp_now(Vjp *v, const Expr *e)
{
    Expr *now = e->kind == EXPR_VAR ? ptrmap_find(&v->now, e) : NULL;
    if (now)
        return now;
    if (e->kind == EXPR_GLOBAL)
        return vjp_now_global(v, e, (TypeList){0}, NULL);
    bool code = e->type && vjp_holds(v, e->type) & HOLDS_CODE;
    if (code && e->kind == EXPR_CON && !expr_as_con(e)->con->n)
        code = false;
    if (code) {
        Diag *d = vjp_refuse(v, e, "this function's code is not known here");
        if (e->kind == EXPR_OP || e->kind == EXPR_CON)
            diag_help(d, "write a function that calls it: `fn (%%x: …) { …(%%x) }`");
        return NULL;
    }
    return (Expr *)(uintptr_t)e;
}

Expr **vjp_now_all(Vjp *v, const ExprList *list)
{
    Expr **now = new_exprs(v, list->n);
    for (uint32_t i = 0; i < list->n; i++) {
        now[i] = vjp_now(v, list->at[i]);
        if (!now[i])
            return NULL;
    }
    return now;
}

bool vjp_any_active(const Vjp *v, const ExprList *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (vjp_is_active(v, list->at[i]))
            return true;
    return false;
}

/* ---- binding -------------------------------------------------------------------------------------------------------------------- */

/* The variable stands for the old one from here on. Where a literal uses it, a reference beside it collects what that adds. */
static void bound(Vjp *v, Block *b, const Var *old, Var *now, bool active)
{
    const Type *t = old->base.type;
    ptrmap_put(&v->now, old, now);
    ptrmap_put(&b->bound, old, NULL);
    unsigned holds = vjp_holds(v, t);
    if (!active || !holds) {
        ptrmap_remove(&v->active, old);
        return;
    }
    ptrmap_put(&v->active, old, NULL);
    if (ptrmap_has(&v->captured, old) && holds & HOLDS_FLOAT)
        captured_bound(v, &b->lets, old);
}

static Adj *adjoint_of(Vjp *v, Block *b, const Expr *atom)
{
    void **slot = ptrmap_slot(&b->adjoints, atom);
    if (slot && !*slot)
        *slot = arena_alloc_must(v->make.scratch, 1, sizeof(Adj));
    return *slot;
}

static void add_to(Vjp *v, Block *b, const Expr *atom, Expr *x)
{
    if (vjp_is_active(v, atom))
        adj_add(v, &b->back, adjoint_of(v, b, atom), atom->type, x);
}

static void join_to(Vjp *v, Block *b, const Expr *atom, const Adj *a)
{
    if (vjp_is_active(v, atom) && !adj_is_zero(a))
        adj_join(v, &b->back, adjoint_of(v, b, atom), atom->type, a);
}

/* The adjoint is complete when what the literals added is in it. */
static const Adj *settled(Vjp *v, Block *b, const Var *old)
{
    Expr *parts[2];
    uint32_t n = captured_settle(v, &b->back, old, parts);
    b->effects |= n > 0;
    for (uint32_t i = 0; i < n; i++)
        add_to(v, b, &old->base, parts[i]);
    return ptrmap_find(&b->adjoints, old);
}

static Expr *whole_adjoint(Vjp *v, Block *b, const Var *old)
{
    return adj_expr(v, settled(v, b, old), old->base.type, ptrmap_find(&v->now, old));
}

/* ---- blocks ---------------------------------------------------------------------------------------------------------------------- */

static bool forward(Vjp *v, Block *b, const Expr *body);
static void backward(Vjp *v, Block *b);

/* The variables of blocks around this one that got an adjoint in it. */
static void add_outer(Vjp *v, const Block *b, Step *s)
{
    for (size_t i = 0; i < b->adjoints.n; i++) {
        const PtrEntry *e = &b->adjoints.entries[i];
        bool known = !e->key || ptrmap_has(&b->bound, e->key) || adj_is_zero(e->value);
        for (size_t k = 0; k < s->outer.n && !known; k++)
            known = s->outer.at[k] == e->key;
        if (!known)
            vec_push(&s->outer, v->make.scratch, (Var *)(uintptr_t)e->key);
    }
}

/* fn (%g) { …; (adjoints of the outer variables…) } */
static Expr *branch_back(Vjp *v, Block *b, Var *g, const Step *s)
{
    Expr **all = new_exprs(v, s->outer.n);
    for (size_t i = 0; i < s->outer.n; i++) {
        const Var *var = s->outer.at[i];
        all[i] =
            adj_expr(v, ptrmap_find(&b->adjoints, var), var->base.type, ptrmap_find(&v->now, var));
    }
    Expr *body = lets_close(&b->back, make_tuple(v, (uint32_t)s->outer.n, all));
    return &expr_function(v->make.arena, v->make.span, (TypeVarList){0}, 1, &g, NULL, NULL, body)
                ->base;
}

static Var *adjoint_param(Vjp *v, const Type *t)
{
    Var *g = lets_var(&v->make);
    g->annotation = vjp_adjoint_type(v, t);
    return g;
}

/* The blocks of a branching, after both ways through them. Each gives its result, with a pullback where one is needed. */
static bool close_branches(Vjp *v, Block *outer, Step *s, uint32_t n, Block *blocks, Var *const *g,
                           Expr **out)
{
    bool effects = v->references, active = false;
    for (uint32_t i = 0; i < n; i++) {
        add_outer(v, &blocks[i], s);
        effects |= blocks[i].effects;
        active |= vjp_is_active(v, blocks[i].last);
    }
    bool paired = s->outer.n || effects;
    outer->effects |= effects;
    for (uint32_t i = 0; i < n; i++) {
        Expr *both[2] = {blocks[i].result, paired ? branch_back(v, &blocks[i], g[i], s) : NULL};
        out[i] = lets_close(&blocks[i].lets, paired ? make_tuple(v, 2, both) : both[0]);
        block_deinit(&blocks[i]);
    }
    s->back = paired ? s->back : NULL;
    if (active)
        ptrmap_put(&v->active, s->var, NULL);
    return paired;
}

static bool run_branch(Vjp *v, Block *b, const Expr *body, Var *g)
{
    if (!forward(v, b, body))
        return false;
    add_to(v, b, b->last, &g->base);
    backward(v, b);
    return !v->failed;
}

/* Takes a pair of a result and a pullback apart. */
static Expr *take_pair(Vjp *v, Block *b, Step *s, Expr *pair)
{
    Expr *p = lets_push(&b->lets, pair);
    s->back = lets_push(&b->lets, vjp_get(v, p, 1));
    return vjp_get(v, p, 0);
}

static Expr *forward_if(Vjp *v, Block *b, Step *s, const If *e)
{
    Block blocks[2];
    Var *g[2];
    Expr *now[2], *cond = vjp_now(v, e->cond);
    for (int i = 0; i < 2; i++) {
        block_init(v, &blocks[i]);
        g[i] = adjoint_param(v, e->base.type);
    }
    bool ok = cond && run_branch(v, &blocks[0], e->then, g[0]) &&
              run_branch(v, &blocks[1], e->otherwise, g[1]);
    if (!ok) {
        block_deinit(&blocks[0]);
        block_deinit(&blocks[1]);
        return NULL;
    }
    bool paired = close_branches(v, b, s, 2, blocks, g, now);
    v->make.span = e->base.span;
    Expr *whole = expr_if(v->make.arena, e->base.span, cond, now[0], now[1]);
    return paired ? take_pair(v, b, s, whole) : whole;
}

/* ---- match --------------------------------------------------------------------------------------------------------------------------- */

/* The pattern with new variables. Where the scrutinee is active a wildcard gets one too, to have zeros like what it stands for. */
static Pattern *new_pattern(Vjp *v, Block *b, const Pattern *p, bool active)
{
    Arena *arena = v->make.arena;
    if (p->kind == PATTERN_VAR) {
        Var *now = vjp_var_like(v, p->var, NULL);
        bound(v, b, p->var, now, active);
        return pattern_var(arena, p->span, now);
    }
    if (p->kind == PATTERN_WILDCARD)
        return active ? pattern_var(arena, p->span, lets_var(&v->make))
                      : pattern_wildcard(arena, p->span);
    Pattern **fields = arena_alloc_must(v->make.scratch, p->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < p->n; i++)
        fields[i] = new_pattern(v, b, p->fields[i], active);
    return p->kind == PATTERN_CON ? pattern_con(arena, p->span, p->con, p->n, fields)
                                  : pattern_tuple(arena, p->span, p->n, fields);
}

static bool any_adjoint(Vjp *v, Block *b, const Pattern *p)
{
    bool any = p->kind == PATTERN_VAR && !adj_is_zero(settled(v, b, p->var));
    for (uint32_t i = 0; i < p->n; i++)
        any |= any_adjoint(v, b, p->fields[i]);
    return any;
}

static const Type *field_type(Vjp *v, const Pattern *p, const Type *t, uint32_t i)
{
    return p->kind == PATTERN_TUPLE
               ? t->parts[i]
               : type_subst(v->cx, p->con->fields[i], t->n, t->def->params, t->parts);
}

/* The adjoint of what was matched, put together like the pattern. */
static Expr *matched_adjoint(Vjp *v, Block *b, const Pattern *p, const Pattern *now, const Type *t)
{
    Arena *arena = v->make.arena;
    if (p->kind == PATTERN_VAR)
        return adj_expr(v, ptrmap_find(&b->adjoints, p->var), t, &now->var->base);
    if (p->kind == PATTERN_WILDCARD)
        return vjp_zeros(v, t, &now->var->base);
    Expr **fields = new_exprs(v, p->n);
    for (uint32_t i = 0; i < p->n; i++)
        fields[i] = matched_adjoint(v, b, p->fields[i], now->fields[i], field_type(v, p, t, i));
    if (p->kind == PATTERN_TUPLE)
        return make_tuple(v, p->n, fields);
    return make_call(v, expr_con(arena, v->make.span, p->con), p->n, fields);
}

/* What follows from the adjoints of the variables of a clause for what was matched. */
static void backward_pattern(Vjp *v, Block *b, const Match *e, const Clause *old,
                             const Pattern *now)
{
    v->make.span = old->span;
    if (vjp_is_active(v, e->scrutinee) && any_adjoint(v, b, old->pattern))
        add_to(v, b, e->scrutinee,
               matched_adjoint(v, b, old->pattern, now, vjp_here(v, e->scrutinee->type)));
}

static bool run_clause(Vjp *v, Block *b, const Match *e, const Clause *old, Clause *now, Var *g)
{
    now->span = old->span;
    now->pattern = new_pattern(v, b, old->pattern, vjp_is_active(v, e->scrutinee));
    if (!run_branch(v, b, old->body, g))
        return false;
    backward_pattern(v, b, e, old, now->pattern);
    return true;
}

bool vjp_is_plain(Vjp *v, const Expr *e)
{
    const Type *t = vjp_here(v, e->type);
    if (t->kind != TYPE_ADT || !(vjp_holds(v, t) & HOLDS_CODE))
        return true;
    vjp_refuse(v, e, "this is data that holds functions or references");
    return false;
}

static Expr *forward_match(Vjp *v, Block *b, Step *s, const Match *e)
{
    uint32_t n = e->clauses.n;
    Block *blocks = arena_alloc_must(v->make.scratch, n + 1, sizeof *blocks);
    Clause *clauses = arena_alloc_must(v->make.scratch, n + 1, sizeof *clauses);
    Var **g = arena_alloc_must(v->make.scratch, n + 1, sizeof *g);
    Expr **bodies = new_exprs(v, n), *scrutinee = vjp_now(v, e->scrutinee);
    bool ok = scrutinee && vjp_is_plain(v, e->scrutinee);
    for (uint32_t i = 0; i < n; i++) {
        block_init(v, &blocks[i]);
        g[i] = adjoint_param(v, e->base.type);
        ok = ok && run_clause(v, &blocks[i], e, &e->clauses.at[i], &clauses[i], g[i]);
    }
    for (uint32_t i = 0; i < n && !ok; i++)
        block_deinit(&blocks[i]);
    if (!ok)
        return NULL;
    bool paired = close_branches(v, b, s, n, blocks, g, bodies);
    for (uint32_t i = 0; i < n; i++)
        clauses[i].body = bodies[i];
    v->make.span = e->base.span;
    Expr *whole = expr_match(v->make.arena, e->base.span, scrutinee, n, clauses, e->complete);
    return paired ? take_pair(v, b, s, whole) : whole;
}

/* The adjoints of the branches' variables come out of their pullback. */
static void backward_branching(Vjp *v, Block *b, const Step *s, Expr *adjoint)
{
    if (!s->back)
        return;
    Expr *all = lets_push(&b->back, make_call(v, s->back, 1, &adjoint));
    for (size_t i = 0; i < s->outer.n; i++)
        add_to(v, b, &s->outer.at[i]->base, vjp_get(v, all, (int64_t)i));
}

/* ---- calls --------------------------------------------------------------------------------------------------------------------------- */

/* Numbers come out, or something goes in whose code may see numbers. */
bool vjp_keeps(Vjp *v, const Call *e)
{
    unsigned holds = vjp_holds(v, e->base.type);
    for (uint32_t i = 0; i < e->args.n; i++)
        holds |= vjp_holds(v, e->args.at[i]->type) & HOLDS_CODE;
    return holds != 0;
}

static Expr *forward_call(Vjp *v, Block *b, Step *s, const Call *e)
{
    Arena *arena = v->make.arena;
    Expr **args = vjp_now_all(v, &e->args);
    if (!args)
        return NULL;
    bool op = expr_call_of_op(&e->base), con = expr_call_of_con(&e->base);
    if (op || con) {
        if (vjp_any_active(v, &e->args) && vjp_holds(v, e->base.type))
            ptrmap_put(&v->active, s->var, NULL);
        if (con && !vjp_is_plain(v, &e->base))
            return NULL;
        return expr_call(arena, e->base.span, e->callee, e->args.n, args, e->attrs);
    }
    if (e->callee->kind == EXPR_GLOBAL && !vjp_keeps(v, e))
        return expr_call(arena, e->base.span, e->callee, e->args.n, args, e->attrs);
    Expr *callee = e->callee->kind == EXPR_GLOBAL
                       ? vjp_now_global(v, e->callee, e->type_args, &e->args)
                   : e->type_args.n ? NULL
                                    : vjp_now(v, e->callee);
    if (!callee) {
        if (!v->failed)
            vjp_refuse(v, e->callee, "it is polymorphic, and bound inside the function");
        return NULL;
    }
    ptrmap_put(&v->active, s->var, NULL);
    return take_pair(v, b, s, make_call(v, callee, e->args.n, args));
}

static void backward_op(Vjp *v, Block *b, const Call *e, const Step *s, Expr *adjoint)
{
    Expr **rev = new_exprs(v, e->args.n), **args = vjp_now_all(v, &e->args);
    AdjointCall call = {.cx = v->cx,
                        .arena = v->make.arena,
                        .typed = e,
                        .args = args,
                        .out = ptrmap_find(&v->now, s->var),
                        .grad = adjoint};
    if (!vjp_any_active(v, &e->args))
        return;
    if (!args || !adjoints(&call, rev)) {
        v->failed = true;
        return;
    }
    bool noted = e->args.n == 2 && vjp_is_active(v, e->args.at[1]) &&
                 captured_note(v, &b->back, e, args, adjoint);
    b->effects |= noted;
    for (uint32_t i = 0; i < e->args.n; i++)
        if (i != 1 || !noted)
            add_to(v, b, e->args.at[i], rev[i]);
}

/* match? (adjoint) { C(%a, …) => (%a, …) } */
static void backward_con(Vjp *v, Block *b, const Call *e, Expr *adjoint)
{
    Arena *arena = v->make.arena;
    Span at = v->make.span;
    uint32_t n = e->args.n;
    const Constructor *con = expr_call_of_con(&e->base);
    Pattern **fields = arena_alloc_must(v->make.scratch, n + 1, sizeof *fields);
    Expr **all = new_exprs(v, n);
    if (!vjp_any_active(v, &e->args))
        return;
    for (uint32_t i = 0; i < n; i++) {
        Var *field = lets_var(&v->make);
        fields[i] = pattern_var(arena, at, field);
        all[i] = &field->base;
    }
    Clause clause = {pattern_con(arena, at, con, n, fields), make_tuple(v, n, all), at};
    Expr *parts =
        lets_push(&b->back, expr_match(arena, at, adjoint, 1, &clause, con->type->n_cons == 1));
    for (uint32_t i = 0; i < n; i++)
        add_to(v, b, e->args.at[i], vjp_get(v, parts, i));
}

static void backward_call(Vjp *v, Block *b, const Call *e, const Step *s, Expr *adjoint)
{
    if (expr_call_of_op(&e->base)) {
        backward_op(v, b, e, s, adjoint);
    } else if (expr_call_of_con(&e->base)) {
        backward_con(v, b, e, adjoint);
    } else if (s->back) {
        Expr *all = lets_push(&b->back, make_call(v, s->back, 1, &adjoint));
        b->effects = true;
        for (uint32_t i = 0; i < e->args.n; i++)
            add_to(v, b, e->args.at[i], vjp_get(v, all, i));
    }
}

/* ---- references ---------------------------------------------------------------------------------------------------------------------- */

/* A reference whose content has a derivative is a pair; others are as they were. */
bool vjp_is_pair(Vjp *v, const Expr *ref)
{
    const Type *t = vjp_here(v, ref->type);
    return t->kind == TYPE_REF && vjp_holds(v, t);
}

static Expr *forward_ref(Vjp *v, Block *b, Step *s, const Expr *e)
{
    Arena *arena = v->make.arena;
    const RefNew *make = expr_as_ref_new(e);
    const RefRead *read = expr_as_ref_read(e);
    const RefWrite *write = expr_as_ref_write(e);
    Expr *ref = read ? vjp_now(v, read->ref) : write ? vjp_now(v, write->ref) : NULL;
    Expr *value = make ? vjp_now(v, make->value) : write ? vjp_now(v, write->value) : NULL;
    if ((!ref && !make) || (!value && !read))
        return NULL;
    bool pair = vjp_is_pair(v, make ? e : read ? read->ref : write->ref);
    Expr *cell = pair && ref ? vjp_get(v, ref, 0) : ref;
    if (pair && !write)
        ptrmap_put(&v->active, s->var, NULL);
    if (read)
        return read_ref(v, cell);
    if (make) {
        Expr *both[2] = {expr_ref_new(arena, e->span, value), NULL};
        if (!pair)
            return both[0];
        both[1] = new_ref(v, vjp_zeros(v, make->value->type, value));
        return make_tuple(v, 2, both);
    }
    if (pair) {
        s->back = lets_push(&b->lets, read_ref(v, cell));
        write_ref(v, &b->lets, vjp_get(v, ref, 1), vjp_zeros(v, write->value->type, value));
    }
    return expr_ref_write(arena, e->span, cell, value);
}

/* The second reference holds the adjoint of the content as it is at that time. */
static void backward_ref(Vjp *v, Block *b, const Step *s, const Adj *a)
{
    const RefNew *make = expr_as_ref_new(s->value);
    const RefRead *read = expr_as_ref_read(s->value);
    const RefWrite *write = expr_as_ref_write(s->value);
    const Expr *ref = read ? read->ref : write ? write->ref : s->value;
    if (!vjp_is_pair(v, ref))
        return;
    Expr *pair = make ? ptrmap_find(&v->now, s->var) : vjp_now(v, ref);
    Expr *cell = vjp_get(v, pair, 1);
    b->effects = true;
    if (read) {
        const Type *t = s->var->base.type;
        Expr *more = adj_is_zero(a) ? NULL : adj_expr(v, a, t, ptrmap_find(&v->now, s->var));
        Expr *old = more ? lets_push(&b->back, read_ref(v, cell)) : NULL;
        if (more)
            write_ref(v, &b->back, cell, vjp_sum(v, &b->back, t, old, more));
        return;
    }
    const Expr *value = make ? make->value : write->value;
    Expr *adjoint = lets_push(&b->back, read_ref(v, cell));
    Expr *before = make ? vjp_now(v, value) : s->back;
    write_ref(v, &b->back, cell, vjp_zeros(v, value->type, before));
    add_to(v, b, value, adjoint);
}

/* ---- forward --------------------------------------------------------------------------------------------------------------------------- */

static Expr *forward_value(Vjp *v, Block *b, Step *s)
{
    const Expr *e = s->value;
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    Expr **fields, *from;
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: return forward_call(v, b, s, expr_as_call(e));
    case EXPR_IF: return forward_if(v, b, s, expr_as_if(e));
    case EXPR_MATCH: return forward_match(v, b, s, expr_as_match(e));
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return forward_ref(v, b, s, e);
    case EXPR_TUPLE:
        fields = vjp_now_all(v, &tuple->fields);
        if (vjp_any_active(v, &tuple->fields))
            ptrmap_put(&v->active, s->var, NULL);
        return fields ? expr_tuple(v->make.arena, e->span, tuple->fields.n, fields) : NULL;
    case EXPR_TUPLE_GET:
        from = vjp_now(v, get->tuple);
        if (vjp_is_active(v, get->tuple))
            ptrmap_put(&v->active, s->var, NULL);
        return from ? expr_tuple_get(v->make.arena, e->span, from, get->index) : NULL;
    case EXPR_FUNCTION: {
        ptrmap_put(&v->active, s->var, NULL);
        Function *now = vjp_function(v, expr_as_function(e), VJP_PULLBACK);
        return now ? &now->base : NULL;
    }
    case EXPR_VAR:
    case EXPR_CONSTANT:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
        if (vjp_is_active(v, e))
            ptrmap_put(&v->active, s->var, NULL);
        return vjp_now(v, e);
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    return NULL;
}

static Step *new_step(Vjp *v, Step step)
{
    Step *s = arena_alloc_must(v->make.scratch, 1, sizeof *s);
    *s = step;
    return s;
}

/* One clause is no branching: its code, and all that follows, is part of the same straight line. Gives its result as it was. */
static const Expr *forward_clause(Vjp *v, Block *b, const Match *e)
{
    const Clause *old = &e->clauses.at[0];
    Expr *scrutinee = vjp_now(v, e->scrutinee);
    if (!scrutinee || !vjp_is_plain(v, e->scrutinee))
        return NULL;
    v->make.span = old->span;
    size_t at = lets_match(&b->lets, scrutinee, e->complete);
    Pattern *now = new_pattern(v, b, old->pattern, vjp_is_active(v, e->scrutinee));
    b->lets.bindings.at[at].pattern = now;
    vec_push(&b->tape, v->make.scratch, new_step(v, (Step){.value = &e->base, .pattern = now}));
    return forward(v, b, old->body) ? b->last : NULL;
}

static bool forward_let(Vjp *v, Block *b, const Let *let)
{
    bool literal = let->value->kind == EXPR_FUNCTION;
    if (literal && !times_used(&v->uses, &let->var->base))
        return true;
    const Match *match = expr_as_match(let->value);
    const Expr *from = match && match->clauses.n == 1 ? forward_clause(v, b, match) : let->value;
    if (!from)
        return false;
    Step *s = new_step(v, (Step){.var = let->var, .value = from});
    v->make.span = let->value->span;
    Var *now = vjp_bound_like(v, let->var, from);
    if (literal)
        ptrmap_put(&v->now, let->var, now); /* it may call itself */
    Expr *value = forward_value(v, b, s);
    if (!value || v->failed)
        return false;
    v->make.span = let->value->span;
    lets_bind(&b->lets, now, value);
    bound(v, b, let->var, now, vjp_is_active(v, &let->var->base));
    vec_push(&b->tape, v->make.scratch, s);
    return true;
}

static bool forward(Vjp *v, Block *b, const Expr *body)
{
    const Let *let = expr_as_let(body);
    bool ok = v->depth < DEPTH_MOST && !limit_hit(&v->cx->limits);
    if (v->depth++ >= DEPTH_MOST)
        vjp_refuse(v, body, "functions and branches lie too deep in each other");
    for (; ok && let; let = expr_as_let(body)) {
        ok = forward_let(v, b, let) && !limit_hit(&v->cx->limits);
        body = let->body;
    }
    v->depth--;
    b->last = body;
    b->result = ok ? vjp_now(v, body) : NULL;
    return b->result && !v->failed;
}

/* ---- backward ------------------------------------------------------------------------------------------------------------------------- */

static void backward_step(Vjp *v, Block *b, const Step *s)
{
    const Expr *e = s->value;
    if (s->pattern) {
        backward_pattern(v, b, expr_as_match(e), &expr_as_match(e)->clauses.at[0], s->pattern);
        return;
    }
    const Adj *a = settled(v, b, s->var);
    const Type *t = s->var->base.type;
    const Tuple *tuple = expr_as_tuple(e);
    const TupleGet *get = expr_as_tuple_get(e);
    bool zero = adj_is_zero(a);
    v->make.span = e->span;
    if (e->kind == EXPR_REF_NEW || e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE) {
        backward_ref(v, b, s, a);
        return;
    }
    if (zero && !(s->back && (v->references || vjp_holds(v, t) & HOLDS_CODE)))
        return;
    for (uint32_t i = 0; tuple && a->fields && i < tuple->fields.n; i++)
        join_to(v, b, tuple->fields.at[i], &a->fields[i]);
    if (get && vjp_is_active(v, get->tuple))
        adj_join(v, &b->back,
                 adj_field(v, adjoint_of(v, b, get->tuple), get->tuple->type, get->index), t, a);
    if (e->kind == EXPR_VAR)
        join_to(v, b, e, a);
    bool branching = e->kind == EXPR_IF || e->kind == EXPR_MATCH;
    if (!branching && e->kind != EXPR_CALL)
        return;
    Expr *adjoint = adj_expr(v, a, t, ptrmap_find(&v->now, s->var));
    if (branching)
        backward_branching(v, b, s, adjoint);
    else
        backward_call(v, b, expr_as_call(e), s, adjoint);
}

static void backward(Vjp *v, Block *b)
{
    for (size_t i = b->tape.n; i-- > 0 && !v->failed && !limit_hit(&v->cx->limits);)
        backward_step(v, b, b->tape.at[i]);
}

/* ---- functions ------------------------------------------------------------------------------------------------------------------------ */

/* What the body added to variables around the function goes where they collect it. */
static void add_captured(Vjp *v, Block *b)
{
    for (size_t i = 0; i < b->adjoints.n; i++) {
        const Var *var = b->adjoints.entries[i].key;
        const Adj *a = b->adjoints.entries[i].value;
        if (var && !ptrmap_has(&b->bound, var) && !adj_is_zero(a))
            captured_add(v, &b->back, var, a);
    }
}

static Expr *adjoints_of(Vjp *v, Block *b, const VarList *params)
{
    Expr **all = new_exprs(v, params->n);
    for (uint32_t i = 0; i < params->n; i++)
        all[i] = whole_adjoint(v, b, params->at[i]);
    return make_tuple(v, params->n, all);
}

static const Type *adjoints_type(Vjp *v, const Function *f)
{
    const Type **types = arena_alloc_must(v->make.scratch, f->params.n + 1, sizeof *types);
    for (uint32_t i = 0; i < f->params.n; i++)
        types[i] = vjp_adjoint_type(v, f->params.at[i]->base.type);
    return type_tuple(v->cx, f->params.n, types);
}

/* (R', fn (R^) -> (T^…,)) */
static const Type *pair_type(Vjp *v, const Function *f)
{
    const Type *back = vjp_adjoint_type(v, f->body->type);
    const Type *both[2] = {vjp_dual_type(v, f->body->type),
                           type_func(v->cx, 0, NULL, 1, &back, adjoints_type(v, f))};
    return type_tuple(v->cx, 2, both);
}

/* The body and what is asked of it, once the code forward stands. */
static Expr *function_body(Vjp *v, Block *b, const Function *f, VjpGives gives)
{
    Var *g = adjoint_param(v, f->body->type);
    bool inner = gives == VJP_PULLBACK;
    Expr *seed = inner ? &g->base : vjp_op(v, "ones_like", b->result, NULL);
    add_to(v, b, b->last, seed);
    backward(v, b);
    if (v->failed)
        return NULL;
    v->make.span = f->base.span;
    add_captured(v, b);
    Expr *all = adjoints_of(v, b, &f->params);
    if (!inner) {
        Expr *both[2] = {b->result, all};
        all = lets_close(&b->back, gives == VJP_GRAD ? all : make_tuple(v, 2, both));
        return lets_close(&b->lets, all);
    }
    Expr *back = &expr_function(v->make.arena, f->base.span, (TypeVarList){0}, 1, &g, NULL,
                                adjoints_type(v, f), lets_close(&b->back, all))
                      ->base;
    return lets_close(&b->lets, make_tuple(v, 2, (Expr *[]){b->result, back}));
}

Function *vjp_function(Vjp *v, const Function *f, VjpGives gives)
{
    Block b;
    Var **params = arena_alloc_must(v->make.scratch, f->params.n + 1, sizeof *params);
    if (f->type_params.n && (!v->piece || v->depth)) {
        vjp_refuse(v, &f->base, "it is polymorphic");
        return NULL;
    }
    block_init(v, &b);
    v->functions++;
    for (uint32_t i = 0; i < f->params.n; i++) {
        const Var *old = f->params.at[i];
        params[i] = vjp_var_like(v, old, vjp_dual_type(v, old->base.type));
        bound(v, &b, old, params[i], !v->piece || v->depth || v->piece->active[i]);
    }
    Expr *body = forward(v, &b, f->body) ? function_body(v, &b, f, gives) : NULL;
    block_deinit(&b);
    v->functions--;
    if (!body)
        return NULL;
    return expr_function(v->make.arena, f->base.span, (TypeVarList){0}, f->params.n, params, NULL,
                         gives == VJP_PULLBACK ? pair_type(v, f) : NULL, body);
}
