#include "passes/vjp.h"

#include "passes/beta.h"
#include "passes/to_a_normal_form.h"
#include "passes/types.h"

#include "typecheck/typecheck.h"

#include <stdlib.h>

/* Bodies are unfolded as long as the whole has no more nodes than this; calls that are left have functions of their own. Types of derivatives are nested deeper than what they are of: a little less than twice. */
enum { UNFOLDED_MOST = 50000, PIECES_MOST = 1000, DEPTH_MOST = TYPE_DEPTH_MOST / 2 };

Diag *vjp_refuse(Vjp *v, const Expr *e, const char *what)
{
    Diag *d = diag_error(v->cx->diags, E0605_NO_GRADIENT,
                         span_is_none(e->span) ? v->call->where : e->span,
                         "`%s` cannot differentiate this: %s", v->call->what, what);
    if (!span_is_none(e->span) && v->call->where.from != e->span.from)
        diag_label(d, v->call->where, "asked for here");
    v->failed = true;
    return d;
}

/* ---- unfolding ------------------------------------------------------------------------------------------------------------------ */

/* A definition that can be called, and whether it is unfolded there. */
typedef struct Called {
    const Def *def;
    Function *body; /* without calls that are unfolded; NULL: not yet made */
    Vec(uint32_t) calls; /* positions in `all` */
    bool stays; /* it reaches itself, has type parameters, or is somebody else's */
    const Loop *loop; /* it becomes a literal; NULL: it does not */
} Called;

typedef struct Unfold {
    Vjp *v;
    PtrMap index; /* Name -> position in `all` + 1 */
    Vec(Called) all;
    size_t at;
    size_t size; /* nodes so far */
    Purity purity;
    bool waits; /* a body that is needed is not made yet */
    size_t unfolded; /* calls of literals */
    PtrMap inner; /* call by which a polymorphic literal calls itself -> NULL */
    PtrMap mixed; /* Var of such a one that calls itself at other types than its own -> NULL */
} Unfold;

static WalkNext note_called(void *data, const Expr *e)
{
    Unfold *u = data;
    const GlobalVar *g = expr_as_global(e);
    Arena *scratch = u->v->make.scratch;
    const Def *def = g ? find_global(u->v->call->module, u->v->call->env, g->name) : NULL;
    if (!def)
        return WALK_ON;
    uint32_t i = (uint32_t)(uintptr_t)ptrmap_find(&u->index, g->name);
    if (!i) {
        vec_push(&u->all, scratch, ((Called){.def = def}));
        i = (uint32_t)u->all.n;
        ptrmap_put(&u->index, g->name, (void *)(uintptr_t)i);
    }
    vec_push(&u->all.at[u->at].calls, scratch, i - 1);
    return WALK_ON;
}

/* Whether calling `start` may call `wanted`; what `without` calls itself does not count. */
static bool reaches(const Unfold *u, uint32_t start, uint32_t wanted, const Called *without)
{
    PtrMap seen = {0};
    Vec(uint32_t) todo = {0};
    bool found = false;
    vec_push(&todo, u->v->make.scratch, start);
    while (todo.n && !found) {
        const Called *c = &u->all.at[vec_pop(&todo)];
        for (size_t i = 0; i < c->calls.n && !found; i++) {
            uint32_t k = c->calls.at[i];
            found = k == wanted && c != without;
            if (k == wanted || ptrmap_has(&seen, u->all.at[k].def))
                continue;
            ptrmap_put(&seen, u->all.at[k].def, NULL);
            vec_push(&todo, u->v->make.scratch, k);
        }
    }
    ptrmap_deinit(&seen);
    return found;
}

static WalkNext note_waiting(void *data, const Expr *e)
{
    Unfold *u = data;
    const GlobalVar *g = expr_as_global(e);
    uint32_t i = g ? (uint32_t)(uintptr_t)ptrmap_find(&u->index, g->name) : 0;
    u->waits |= i && !u->all.at[i - 1].stays && !u->all.at[i - 1].body;
    return u->waits ? WALK_STOP : WALK_ON;
}

typedef struct Itself {
    const Var *var;
    bool found;
} Itself;

static void find_itself(void *data, Var *var)
{
    Itself *i = data;
    i->found |= var == i->var;
}

static bool uses(const Expr *e, const Var *var)
{
    Itself itself = {var, false};
    if (var)
        ir_free_vars(e, find_itself, &itself);
    return itself.found;
}

/* What is put in place of a call; NULL: the call stays. */
static const Function *literal_of(Unfold *u, const Expr *callee)
{
    const GlobalVar *g = expr_as_global(callee);
    uint32_t i = g ? (uint32_t)(uintptr_t)ptrmap_find(&u->index, g->name) : 0;
    if (u->size >= UNFOLDED_MOST)
        return NULL;
    if (i)
        return u->all.at[i - 1].stays ? NULL : u->all.at[i - 1].body;
    const Expr *value = callee->kind == EXPR_VAR ? purity_value(&u->purity, callee) : callee;
    const Function *f = expr_as_function(value);
    if (!f || function_is_skipped(f))
        return NULL;
    return uses(&f->base, expr_as_var(callee)) ? NULL : f;
}

static const Loop *loop_of(const Unfold *u, const Expr *callee)
{
    const GlobalVar *g = expr_as_global(callee);
    uint32_t i = g ? (uint32_t)(uintptr_t)ptrmap_find(&u->index, g->name) : 0;
    return i && u->size < UNFOLDED_MOST ? u->all.at[i - 1].loop : NULL;
}

static WalkNext count_node(void *data, const Expr *e)
{
    (void)e;
    ++*(size_t *)data;
    return WALK_ON;
}

static const Function *polymorphic_literal(const Expr *e)
{
    const Function *f = e ? expr_as_function(e) : NULL;
    return f && f->type_params.n ? f : NULL;
}

typedef struct Inner {
    Unfold *u;
    const Expr *itself;
    const Function *f;
} Inner;

static bool calls_at_own_types(const Function *f, const Call *call)
{
    bool own = call->type_args.n == f->type_params.n;
    for (uint32_t i = 0; i < f->type_params.n && own; i++) {
        const Type *t = type_find(call->type_args.at[i]);
        own = t->kind == TYPE_VAR && t->var == f->type_params.at[i];
    }
    return own;
}

static WalkNext note_inner_call(void *data, const Expr *e)
{
    Inner *inner = data;
    const Call *call = expr_as_call(e);
    if (!call || call->callee != inner->itself)
        return WALK_ON;
    ptrmap_put(&inner->u->inner, e, NULL);
    if (!calls_at_own_types(inner->f, call))
        ptrmap_put(&inner->u->mixed, inner->itself, NULL);
    return WALK_ON;
}

static bool note_inner_calls(Rewriter *rw, const Expr *old, Expr **now)
{
    const Let *let = expr_as_let(old);
    (void)now;
    const Function *f = let ? polymorphic_literal(let->value) : NULL;
    if (f)
        ir_walk(let->value, note_inner_call, NULL, &(Inner){rw->data, &let->var->base, f});
    return false;
}

/* A polymorphic literal that calls itself has a copy for the types of each call from elsewhere: `let %f = …; %f(…)`. NULL: the call stays. */
static Expr *put_instance(Rewriter *rw, const Call *was, const Call *is)
{
    Unfold *u = rw->data;
    Arena *arena = &rw->module->arena;
    Var *itself = expr_as_var(is->callee);
    const Function *f = polymorphic_literal(itself ? purity_value(&u->purity, is->callee) : NULL);
    if (!f || !uses(&f->base, itself) || f->type_params.n != was->type_args.n ||
        u->size >= UNFOLDED_MOST || ptrmap_has(&u->inner, was) || ptrmap_has(&u->mixed, itself))
        return NULL;
    Var *own = expr_var(arena, is->callee->span, itself->name, NULL);
    Function *copy = own ? beta_instance(rw->cx, rw->module, f, was->type_args.at) : NULL;
    PtrMap map = {0};
    ptrmap_put(&map, itself, own);
    Expr *value = copy ? ir_substitute(rw->cx, rw->module, &copy->base, &map) : NULL;
    ptrmap_deinit(&map);
    if (!value)
        return NULL;
    ir_walk(value, count_node, NULL, &u->size);
    u->unfolded++;
    return expr_let(
        arena, is->base.span, own, value,
        expr_call(arena, is->base.span, &own->base, is->args.n, is->args.at, is->attrs));
}

static Expr *put_body(Rewriter *rw, const Expr *old, Expr *now)
{
    Unfold *u = rw->data;
    const Call *was = expr_as_call(old), *is = expr_as_call(now);
    const Let *let = expr_as_let(now);
    const Function *bound = let ? expr_as_function(let->value) : NULL;
    if (bound && bound->type_params.n && !uses(let->body, let->var))
        return let->body;
    const Loop *loop = is ? loop_of(u, is->callee) : NULL;
    if (loop) {
        u->unfolded++; /* what it calls */
        return loop_inside(u->v, loop, is);
    }
    const Function *f = was && is ? literal_of(u, is->callee) : NULL;
    Expr *instance = was && is && !f ? put_instance(rw, was, is) : NULL;
    if (!f || f->params.n != is->args.n)
        return instance ? instance : now;
    if (f->type_params.n != was->type_args.n)
        return now;
    if (f->type_params.n && !(f = beta_instance(rw->cx, rw->module, f, was->type_args.at)))
        return NULL;
    ir_walk(&f->base, count_node, NULL, &u->size);
    u->unfolded += !expr_as_global(is->callee);
    return beta(rw->cx, rw->module, &u->purity, NULL, f, is->args.n, is->args.at, was->args.at);
}

static Function *unfold_in(Unfold *u, const Function *f)
{
    const VjpCall *call = u->v->call;
    Rewriter rw;
    purity_init(&u->purity, call->module, call->env, &f->base);
    rewriter_init(&rw, call->cx, call->module, put_body, u);
    rw.enter = note_inner_calls;
    Expr *now = ir_rewrite(&rw, (Expr *)(uintptr_t)&f->base);
    rewriter_deinit(&rw);
    purity_deinit(&u->purity);
    return expr_as_function(now);
}

/* References to data, in tuples or alone, stand for themselves: beside them stands an adjoint. */
static bool has_cells(Vjp *v, const Type *t)
{
    t = type_find(t);
    if (t->kind == TYPE_REF)
        return !(vjp_holds(v, t->parts[0]) & HOLDS_CODE);
    bool all = t->kind == TYPE_TUPLE;
    for (uint32_t i = 0; all && i < t->n; i++)
        all = !(vjp_holds(v, t->parts[i]) & HOLDS_CODE) || has_cells(v, t->parts[i]);
    return all;
}

/* What a variable of the surroundings holds, and what that uses of them in turn. */
typedef struct Held {
    Var *var; /* NULL: the function itself */
    const Expr *value;
    PtrMap uses; /* Var */
    size_t at; /* of the uses, which are seen to one after the other */
} Held;

/* What stands for the variable inside; NULL: itself, as data does. */
static const Expr *held_value(Vjp *v, Var *var)
{
    const VjpCall *call = v->call;
    bool code = var->base.type && vjp_holds(v, var->base.type) & HOLDS_CODE;
    const Expr *value =
        code && !has_cells(v, var->base.type) ? call->value_of(call->data, var) : NULL;
    if (value && call->is_made_once(call->data, value)) {
        vjp_refuse(v, &var->base, "it is bound outside, and made with a reference");
        return NULL;
    }
    return value;
}

/* Functions that variables of the surroundings hold are bound inside, each once, in front of those that use it. */
static const Function *with_outside(Vjp *v, const Function *f)
{
    Vec(Held *) open = {0}, done = {0};
    PtrMap seen = {0};
    Arena *scratch = v->make.scratch;
    Held *root = arena_alloc_must(scratch, 1, sizeof *root);
    *root = (Held){.value = &f->base};
    ir_free_set(root->value, &root->uses);
    vec_push(&open, scratch, root);
    while (open.n && !v->failed && !limit_hit(&v->cx->limits)) {
        Held *h = vec_last(&open);
        if (h->at == h->uses.n) {
            ptrmap_deinit(&h->uses);
            vec_push(&done, scratch, vec_pop(&open));
            continue;
        }
        Var *var = (Var *)(uintptr_t)h->uses.entries[h->at++].key;
        const Expr *value = ptrmap_has(&seen, var) ? NULL : held_value(v, var);
        ptrmap_put(&seen, var, NULL);
        if (!value)
            continue;
        Held *next = arena_alloc_must(scratch, 1, sizeof *next);
        *next = (Held){.var = var, .value = value};
        ir_free_set(value, &next->uses);
        vec_push(&open, scratch, next);
    }
    for (size_t i = 0; i < open.n; i++)
        ptrmap_deinit(&open.at[i]->uses);
    ptrmap_deinit(&seen);
    if (open.n || done.n == 1)
        return f;
    Expr *body = f->body;
    for (size_t i = done.n - 1; i-- > 0;) {
        body = expr_let(v->make.arena, body->span, done.at[i]->var,
                        (Expr *)(uintptr_t)done.at[i]->value, body);
        body->type = f->body->type;
    }
    Function *now = expr_function(v->make.arena, f->base.span, f->type_params, f->params.n,
                                  f->params.at, f->attrs, f->ret_type, body);
    now->base.type = f->base.type;
    return now;
}

/* Bodies first that call nothing that is unfolded, then those that call these. */
static Function *unfold_once(Vjp *v, const Function *f, size_t *unfolded)
{
    Unfold u = {.v = v};
    Def itself = {.fn = (Function *)(uintptr_t)f};
    vec_push(&u.all, v->make.scratch, ((Called){.def = &itself}));
    for (; u.at < u.all.n; u.at++)
        if (u.at == 0 || !function_is_skipped(u.all.at[u.at].def->fn))
            ir_walk(&u.all.at[u.at].def->fn->base, note_called, NULL, &u);
    for (uint32_t i = 1; i < u.all.n; i++) {
        const Function *fn = u.all.at[i].def->fn;
        bool whole = !fn->type_params.n && !function_is_skipped(fn);
        u.all.at[i].stays = !whole || reaches(&u, i, i, NULL);
        Loop found;
        if (whole && !v->forward && u.all.at[i].stays && !reaches(&u, i, i, &u.all.at[i]) &&
            loop_find(v, u.all.at[i].def, &found)) {
            Loop *loop = arena_alloc_must(v->make.scratch, 1, sizeof *loop);
            *loop = found;
            u.all.at[i].loop = loop;
        }
    }
    bool ok = true;
    for (bool more = true; more && ok;) {
        more = false;
        for (size_t i = 1; i < u.all.n && ok; i++) {
            Called *c = &u.all.at[i];
            if (c->stays || c->body)
                continue;
            u.waits = false;
            ir_walk(&c->def->fn->base, note_waiting, NULL, &u);
            if (u.waits)
                continue;
            c->body = unfold_in(&u, c->def->fn);
            ok = more = c->body != NULL;
        }
    }
    Function *now = ok ? unfold_in(&u, f) : NULL;
    ptrmap_deinit(&u.index);
    ptrmap_deinit(&u.inner);
    ptrmap_deinit(&u.mixed);
    *unfolded = u.unfolded;
    return now;
}

static bool check(Vjp *v, Function *f)
{
    const VjpCall *call = v->call;
    Module *m = module_derive(call->module);
    if (!m)
        return false;
    module_define(m, ctx_name(v->cx, "differentiated.it"), f, call->where, call->module);
    bool ok = typecheck_module(v->cx, m, call->env);
    module_release(m);
    return ok;
}

typedef struct Apart {
    Vjp *v;
    PtrMap values; /* what variables are bound to */
} Apart;

/* Operators that have no rule but are made of others at inference, as norms are: those, for the field of the result that is used. */
static Expr *take_apart(Rewriter *rw, const Expr *old, Expr *now)
{
    Apart *a = rw->data;
    const TupleGet *get = expr_as_tuple_get(old);
    const Expr *value = get ? ptrmap_find(&a->values, get->tuple) : old;
    const Op *op = value ? expr_call_of_op(value) : NULL;
    if (!op || op->grad || !op->inference)
        return now->kind == old->kind ? vjp_literals(a->v, rw, old, now) : now;
    Expr *made =
        op->inference(rw->cx, &rw->module->arena, expr_as_call(value), get ? get->index : -1);
    return made ? expr_type_ops(rw->cx, made) : now;
}

/* In A normal form, with types; so is what it gives. */
static Expr *taken_apart(Vjp *v, Expr *f)
{
    Rewriter rw;
    Apart a = {.v = v};
    note_lets(f, &a.values);
    rewriter_init(&rw, v->cx, v->call->module, take_apart, &a);
    Expr *now = ir_rewrite(&rw, f);
    rewriter_deinit(&rw);
    ptrmap_deinit(&a.values);
    bool changed = now && now != f;
    if (changed && !check(v, expr_as_function(now)))
        return NULL;
    return changed ? to_anf(v->cx, v->call->module, now) : now;
}

/* The function unfolded, with types, in A normal form. Unfolding a literal may show others. */
static Function *prepared(Vjp *v, const Function *f)
{
    size_t unfolded = 1;
    Function *now = NULL;
    f = with_outside(v, f);
    unfolded = !v->failed;
    for (int round = 0; round < 20 && unfolded; round++) {
        now = unfold_once(v, f, &unfolded);
        if (!now || !check(v, now))
            return NULL;
        f = now;
    }
    Expr *anf = now ? to_anf(v->cx, v->call->module, &now->base) : NULL;
    return anf ? expr_as_function(taken_apart(v, anf)) : NULL;
}

/* ---- pieces ---------------------------------------------------------------------------------------------------------------------- */

static bool same_piece(const Piece *a, const Piece *b)
{
    bool same =
        a->kind == b->kind && a->def == b->def && a->type == b->type && a->vars.n == b->vars.n;
    for (uint32_t i = 0; same && i < a->vars.n; i++)
        same = a->with[i] == b->with[i];
    return same;
}

void vjp_no_end(Vjp *v, const char *does, int most, const char *what)
{
    if (v->failed)
        return;
    Diag *d = diag_error(v->cx->diags, E0605_NO_GRADIENT, v->call->where, "`%s` %s more than %d %s",
                         v->call->what, does, most, what);
    diag_help(d, "a polymorphic function that calls itself at ever other types has no end");
    v->failed = true;
}

Piece *vjp_piece(Vjp *v, Piece want)
{
    static const char *const words[] = {
        [PIECE_ZEROS] = "zeros", [PIECE_SUM] = "sum", [PIECE_NOTE] = "note", [PIECE_NOTED] = "sum"};
    for (size_t i = 0; i < v->pieces.n; i++)
        if (same_piece(v->pieces.at[i], &want))
            return v->pieces.at[i];
    uint32_t depth = want.type ? want.type->depth : 0;
    for (uint32_t i = 0; i < want.vars.n; i++)
        depth = want.with[i]->depth > depth ? want.with[i]->depth : depth;
    if (depth > DEPTH_MOST) {
        vjp_no_end(v, "needs derivatives at types that are nested", DEPTH_MOST, "levels deep");
        return NULL;
    }
    if (v->pieces.n >= PIECES_MOST) {
        vjp_no_end(v, "needs the derivatives of", PIECES_MOST, "functions");
        return NULL;
    }
    Piece *p = arena_alloc_must(v->make.scratch, 1, sizeof *p);
    *p = want;
    Buf name = {0};
    if (want.kind == PIECE_FUNCTION)
        buf_printf(&name, v->forward ? "%s_jvp" : "%s_vjp", want.def->name->text);
    else
        buf_printf(&name, "%s_%s", words[want.kind],
                   want.type->kind == TYPE_ADT ? want.type->def->name->text : "products");
    p->var = expr_var(v->make.arena, v->make.span, ctx_name(v->cx, buf_text(&name)), NULL);
    uint32_t n = want.kind == PIECE_FUNCTION ? want.def->fn->params.n : 0;
    p->active = arena_alloc_must(v->make.scratch, n + 1, sizeof *p->active);
    memset(p->active, 0, (n + 1) * sizeof *p->active);
    buf_deinit(&name);
    vec_push(&v->pieces, v->make.scratch, p);
    return p;
}

void vjp_wants(Piece *p, uint32_t param)
{
    p->stale |= !p->active[param];
    p->active[param] = true;
}

typedef struct Captures {
    Vjp *v;
    const Expr *root;
} Captures;

static WalkNext find_captured(void *data, const Expr *e)
{
    Captures *c = data;
    Vjp *v = c->v;
    v->references |= e->kind == EXPR_REF_NEW || e->kind == EXPR_REF_WRITE;
    if (e->kind == EXPR_FUNCTION && e != c->root)
        ir_free_set(e, &v->captured);
    return WALK_ON;
}

static void forget(Vjp *v)
{
    PtrMap *maps[] = {&v->now, &v->active, &v->captured, &v->sums, &v->tangents};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_clear(maps[i]);
}

typedef struct Cells {
    Vjp *v;
    Lets lets;
} Cells;

/* A reference from outside goes on to hold what it holds. Beside it stands, for one call, the adjoint of that, or how it changes. */
static Expr *with_cells(Cells *c, const Type *t, Expr *e)
{
    Vjp *v = c->v;
    Arena *arena = v->make.arena;
    t = type_find(t);
    if (!(vjp_holds(v, t) & HOLDS_CODE))
        return e;
    uint32_t n = t->kind == TYPE_TUPLE ? t->n : 2;
    Expr **fields = arena_alloc_must(v->make.scratch, n + 1, sizeof *fields);
    for (uint32_t i = 0; i < n && t->kind == TYPE_TUPLE; i++)
        fields[i] = with_cells(c, t->parts[i],
                               lets_push(&c->lets, expr_tuple_get(arena, v->make.span, e, i)));
    if (t->kind == TYPE_REF) {
        Expr *old = lets_push(&c->lets, expr_ref_read(arena, v->make.span, e));
        fields[0] = e;
        fields[1] = expr_ref_new(arena, v->make.span, vjp_zeros(v, t->parts[0], old));
    }
    return lets_push(&c->lets, expr_tuple(arena, v->make.span, n, fields));
}

static void note_cell(void *data, Var *var)
{
    Cells *c = data;
    Vjp *v = c->v;
    if (!(vjp_holds(v, var->base.type) & HOLDS_CODE) || !has_cells(v, var->base.type))
        return;
    ptrmap_put(&v->now, var, with_cells(c, var->base.type, &var->base));
    if (!v->forward)
        ptrmap_put(&v->active, var, NULL);
    v->references = true;
}

static Function *derivative_of(Vjp *v, const Function *f, VjpGives gives)
{
    Cells c = {.v = v, .lets = {.make = &v->make}};
    forget(v);
    ir_free_vars(&f->base, note_cell, &c);
    ir_walk(&f->base, find_captured, NULL, &(Captures){v, &f->base});
    count_uses(&f->base, v->make.scratch, &v->uses);
    Function *made = v->forward ? vjp_forward(v, f) : vjp_function(v, f, gives);
    return made ? expr_function(v->make.arena, made->base.span, made->type_params, made->params.n,
                                made->params.at, made->attrs, made->ret_type,
                                lets_close(&c.lets, made->body))
                : NULL;
}

static Function *make_piece(Vjp *v, const Piece *p)
{
    v->piece = p;
    v->make.span = v->call->where;
    v->references = false;
    switch (p->kind) {
    case PIECE_ZEROS: return vjp_make_zeros(v, p->type);
    case PIECE_SUM: return vjp_make_sum(v, p->type);
    case PIECE_NOTE: return vjp_make_note(v, p);
    case PIECE_NOTED: return vjp_make_noted(v, p);
    case PIECE_FUNCTION: break;
    }
    Expr *anf = to_anf(v->cx, v->call->module, &p->def->fn->base);
    const Function *f = anf ? expr_as_function(taken_apart(v, anf)) : NULL;
    return f ? derivative_of(v, f, VJP_PULLBACK) : NULL;
}

/* ---- putting them together ----------------------------------------------------------------------------------------------------------- */

typedef struct Reach {
    Vjp *v;
    bool *row; /* of the piece at hand: which it names */
} Reach;

static void note_piece(void *data, Var *var)
{
    const Reach *r = data;
    for (size_t i = 0; i < r->v->pieces.n; i++)
        r->row[i] |= r->v->pieces.at[i]->var == var;
}

/* Which pieces reach which, and with that their groups and their order. */
static void find_groups(Vjp *v)
{
    size_t n = v->pieces.n;
    bool *to = arena_alloc_must(v->make.scratch, n * n + 1, sizeof *to);
    for (size_t i = 0; i < n; i++)
        ir_free_vars(&v->pieces.at[i]->made->base, note_piece, &(Reach){v, to + i * n});
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; to[i * n + k] && j < n; j++)
                to[i * n + j] |= to[k * n + j];
    for (size_t i = 0; i < n; i++) {
        Piece *p = v->pieces.at[i];
        p->group = (uint32_t)i;
        for (size_t j = n; j-- > 0;) {
            p->reaches += i == j || to[i * n + j];
            if (to[i * n + j] && to[j * n + i])
                p->group = (uint32_t)j < p->group ? (uint32_t)j : p->group;
        }
    }
}

static int by_reach(const void *a, const void *b)
{
    const Piece *x = *(Piece *const *)a, *y = *(Piece *const *)b;
    if (x->reaches != y->reaches)
        return x->reaches < y->reaches ? -1 : 1;
    return x->group < y->group ? -1 : x->group > y->group;
}

/* Functions that call each other are fields of what one function returns:
 * let %all = fn () { (fn (…) { …%all().1(…)… }, …) }; let %f = %all().0; … */
static Expr *bind_together(Vjp *v, Piece *const *at, uint32_t n, Expr *body)
{
    Arena *arena = v->make.arena;
    Span where = v->call->where;
    Var *all = lets_var(&v->make);
    Expr **fields = arena_alloc_must(v->make.scratch, n + 1, sizeof *fields);
    const Type **types = arena_alloc_must(v->make.scratch, n + 1, sizeof *types);
    for (uint32_t i = 0; i < n; i++) {
        const Function *f = at[i]->made;
        const Type **params = arena_alloc_must(v->make.scratch, f->params.n + 1, sizeof *params);
        for (uint32_t k = 0; k < f->params.n; k++)
            params[k] = f->params.at[k]->annotation;
        types[i] = type_func(v->cx, 0, NULL, f->params.n, params, f->ret_type);
        /* Each has calls of its own: what several share is computed around them all, which would never end. */
        PtrMap map = {0};
        for (uint32_t k = 0; k < n; k++) {
            Expr *call = expr_call(arena, where, &all->base, 0, NULL, NULL);
            ptrmap_put(&map, at[k]->var, expr_tuple_get(arena, where, call, k));
        }
        fields[i] = ir_substitute(v->cx, v->call->module, &at[i]->made->base, &map);
        ptrmap_deinit(&map);
    }
    for (uint32_t i = n; i-- > 0;)
        body = expr_let(
            arena, where, at[i]->var,
            expr_tuple_get(arena, where, expr_call(arena, where, &all->base, 0, NULL, NULL), i),
            body);
    Function *make =
        expr_function(arena, where, (TypeVarList){0}, 0, NULL, NULL, type_tuple(v->cx, n, types),
                      expr_tuple(arena, where, n, fields));
    return expr_let(arena, where, all, &make->base, body);
}

/* The pieces in front of what uses them, those that others need first. */
static Expr *bind_pieces(Vjp *v, Expr *body)
{
    Piece **at = v->pieces.at;
    uint32_t n = (uint32_t)v->pieces.n;
    if (!n)
        return body;
    find_groups(v);
    qsort(at, n, sizeof *at, by_reach);
    for (uint32_t end = n; end > 0;) {
        uint32_t from = end - 1;
        while (from > 0 && at[from - 1]->group == at[end - 1]->group)
            from--;
        body = end - from > 1 ? bind_together(v, at + from, end - from, body)
                              : expr_let(v->make.arena, v->call->where, at[from]->var,
                                         &at[from]->made->base, body);
        end = from;
    }
    return body;
}

Expr *vjp(const VjpCall *call, const Function *f, VjpGives gives)
{
    Vjp v = {.call = call, .cx = call->cx, .forward = gives == VJP_FORWARD};
    v.make = (LetMaker){.cx = call->cx,
                        .arena = &call->module->arena,
                        .scratch = call->scratch,
                        .span = call->where};
    const Function *typed = prepared(&v, f);
    Function *made = typed ? derivative_of(&v, typed, gives) : NULL;
    bool ok = made && !v.failed;
    /* A call that comes to light while one is made may want more of another, or of itself. */
    for (bool again = true; ok && again;) {
        again = false;
        for (size_t i = 0; ok && i < v.pieces.n; i++) {
            Piece *p = v.pieces.at[i];
            if (p->made && !p->stale)
                continue;
            p->stale = false;
            p->made = make_piece(&v, p);
            ok = p->made && !v.failed && !limit_hit(&v.cx->limits);
            again = true;
        }
    }
    Expr *out = ok ? bind_pieces(&v, &made->base) : NULL;
    PtrMap *maps[] = {&v.holds, &v.entered, &v.now, &v.active, &v.captured, &v.sums, &v.tangents};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return out;
}
