#include "passes/facts.h"

#include "base/vec.h"
#include "ir/op.h"
#include "ir/walk.h"
#include "passes/scope.h"
#include "passes/types.h"
#include "te/te.h"

static WalkNext note_value(void *data, const Expr *e)
{
    const Let *let = expr_as_let(e);
    if (let)
        ptrmap_put(data, let->var, let->value);
    return WALK_ON;
}

void note_lets(const Expr *root, PtrMap *values)
{
    ir_walk(root, note_value, NULL, values);
}

const Def *find_global(const Module *module, const Module *env, const Name *name)
{
    const Def *def = module_find(module, name);
    def = def && def->fn ? def : module_find(env, name);
    return def && def->fn ? def : NULL;
}

void purity_init(Purity *p, const Module *module, const Module *env, const Expr *root)
{
    *p = (Purity){.module = module, .env = env, .root = root, .whole = root};
}

void purity_deinit(Purity *p)
{
    ptrmap_deinit(&p->values);
    ptrmap_deinit(&p->known);
    ptrmap_deinit(&p->ties);
}

/* What is to be looked at: a callee, which somebody calls, or the body that calling it evaluates. */
typedef struct Asked {
    const Expr *e;
    const void *
        of; /* who is impure when this is: a key of `known`; NULL for the expression that was asked for */
    bool evaluated;
} Asked;

/* One question: what is evaluated, and what is called, must be looked at, each once; what is being looked at is assumed pure. */
typedef struct Question {
    Purity *purity;
    Arena arena;
    Vec(Asked) todo;
    PtrMap asked; /* key of `known` -> who asked for it first */
    const void *of; /* whose body, or callee, is being looked at */
    bool elsewhere; /* a function of another compiler was called, which may become ours */
} Question;

/* Each place that names a global has a node of its own. */
static const void *key_of(const Expr *callee)
{
    const GlobalVar *g = expr_as_global(callee);
    return g ? (const void *)g->name : callee;
}

static bool ask_call(Question *q, const Expr *callee)
{
    const void *key = key_of(callee);
    if (ptrmap_has(&q->purity->known, key))
        return !ptrmap_find(&q->purity->known, key);
    if (ptrmap_has(&q->asked, key))
        return true;
    ptrmap_put(&q->asked, key, (void *)q->of);
    vec_push(&q->todo, &q->arena, ((Asked){.e = callee, .of = key}));
    return true;
}

static LiteralTie tie_of(Purity *p, const Expr *literal);

static WalkNext look(void *data, const Expr *e)
{
    Question *q = data;
    const Call *call = expr_as_call(e);
    if (e->kind == EXPR_FUNCTION)
        return tie_of(q->purity, e) == TIE_EFFECT ? WALK_STOP : WALK_SKIP;
    if (e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE)
        return WALK_STOP;
    return call && !ask_call(q, call->callee) ? WALK_STOP : WALK_ON;
}

/* The pass may have rewritten the body, which then has no type yet. */
static bool gives_function(const Function *f)
{
    const Type *t = f->body->type ? f->body->type : f->ret_type;
    return !t || type_find(t)->kind == TYPE_FUNC;
}

const Expr *purity_value(Purity *p, const Expr *var)
{
    if (p->root)
        note_lets(p->root, &p->values);
    p->root = NULL;
    return ptrmap_find(&p->values, var);
}

static bool look_at_function(Question *q, const Function *f)
{
    q->elsewhere = !f || attrs_find(f->attrs, "Compiler") || attrs_find(f->attrs, "Extern");
    if (q->elsewhere)
        return false;
    vec_push(&q->todo, &q->arena, ((Asked){.e = f->body, .of = q->of, .evaluated = true}));
    return !gives_function(f) || ask_call(q, f->body);
}

static const Function *global_function(const Purity *p, const GlobalVar *g)
{
    const Def *def = find_global(p->module, p->env, g->name);
    return def ? def->fn : NULL;
}

/* Calling e has no effect, nor has calling what that gives. Where a function came through a parameter, a tuple, a reference or a
 * data type, nobody knows. */
static bool look_at_callee(Question *q, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_OP: return !(expr_as_op(e)->op->flags & OP_STATEFUL);
    case EXPR_CON: return true;
    case EXPR_FUNCTION: return look_at_function(q, expr_as_function(e));
    case EXPR_GLOBAL: return look_at_function(q, global_function(q->purity, expr_as_global(e)));
    case EXPR_VAR: {
        const Expr *value = purity_value(q->purity, e);
        return value && ask_call(q, value);
    }
    case EXPR_CALL: return ask_call(q, expr_as_call(e)->callee);
    case EXPR_LET: return ask_call(q, expr_as_let(e)->body);
    case EXPR_IF: return ask_call(q, expr_as_if(e)->then) && ask_call(q, expr_as_if(e)->otherwise);
    case EXPR_MATCH: {
        const Match *match = expr_as_match(e);
        bool pure = true;
        for (uint32_t i = 0; pure && i < match->clauses.n; i++)
            pure = ask_call(q, match->clauses.at[i].body);
        return pure;
    }
    default: return false;
    }
}

/* Whether evaluating e, or calling it, is pure. */
static bool ask(Purity *p, const Expr *e, bool called)
{
    Question q = {.purity = p};
    arena_init(&q.arena, NULL);
    bool pure = called ? ask_call(&q, e) : ir_walk(e, look, NULL, &q);
    while (pure && q.todo.n) {
        Asked next = vec_pop(&q.todo);
        q.of = next.of;
        pure = next.evaluated ? ir_walk(next.e, look, NULL, &q) : look_at_callee(&q, next.e);
    }
    /* All of them are pure together; when one is not, neither is who asked for it, and the others may still be. */
    for (size_t i = 0; pure && i < q.asked.n; i++)
        ptrmap_put(&p->known, q.asked.entries[i].key, NULL);
    for (const void *of = q.elsewhere ? NULL : q.of; !pure && of; of = ptrmap_find(&q.asked, of))
        ptrmap_put(&p->known, of, p);
    ptrmap_deinit(&q.asked);
    arena_deinit(&q.arena);
    return pure;
}

bool purity_of(Purity *p, const Expr *e)
{
    return ask(p, e, false);
}

bool purity_of_call(Purity *p, const Expr *callee)
{
    return ask(p, callee, true);
}

/* ---- values that may be moved ------------------------------------------------------------------------------------------- */

typedef struct TypeWalk {
    Arena arena;
    Vec(const Type *) todo;
    PtrMap defs; /* data types that were looked into */
    PtrMap tuples; /* types share parts */
} TypeWalk;

static void look_into_tuple(TypeWalk *w, const Type *t)
{
    if (ptrmap_has(&w->tuples, t))
        return;
    ptrmap_put(&w->tuples, t, NULL);
    for (uint32_t i = 0; i < t->n; i++)
        vec_push(&w->todo, &w->arena, t->parts[i]);
}

static void look_into_adt(TypeWalk *w, const Type *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        vec_push(&w->todo, &w->arena, t->parts[i]);
    if (ptrmap_has(&w->defs, t->def))
        return;
    ptrmap_put(&w->defs, t->def, NULL);
    for (uint32_t i = 0; i < t->def->n_cons; i++)
        for (uint32_t k = 0; k < t->def->cons[i]->n; k++)
            vec_push(&w->todo, &w->arena, t->def->cons[i]->fields[k]);
}

/* Tensors and what is built of them alone; the parameters of a data type stand for its arguments. */
static bool is_plain_data(const Type *type)
{
    TypeWalk w = {0};
    bool plain = type != NULL;
    arena_init(&w.arena, NULL);
    if (type)
        vec_push(&w.todo, &w.arena, type);
    while (plain && w.todo.n) {
        const Type *t = type_find(vec_pop(&w.todo));
        if (t->kind == TYPE_TUPLE)
            look_into_tuple(&w, t);
        else if (t->kind == TYPE_ADT)
            look_into_adt(&w, t);
        else
            plain = t->kind == TYPE_TENSOR || (t->kind == TYPE_VAR && w.defs.n);
    }
    ptrmap_deinit(&w.defs);
    ptrmap_deinit(&w.tuples);
    arena_deinit(&w.arena);
    return plain;
}

/* ---- what literals share with the places around them ------------------------------------------------------------------------ */

typedef struct Ties {
    Scopes scopes;
    PtrMap effects; /* nodes with one */
    PtrMap shared; /* nodes that several blocks use and that are not to be copied -> LiteralTie */
    bool effect; /* the node at hand has one */
    const ScopeNode *literal;
    LiteralTie tie; /* of the literal */
} Ties;

static void find_effect(void *data, Expr *const *slot)
{
    Ties *t = data;
    t->effect |= ptrmap_has(&t->effects, *slot);
}

/* What is below comes before. */
static void note_shared(Purity *p, Ties *t, const ScopeNode *node)
{
    const Expr *e = node->e;
    const Call *call = expr_as_call(e);
    if (e->kind == EXPR_FUNCTION || e->kind == EXPR_CONSTANT)
        return;
    t->effect = e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE ||
                (call && !ask(p, call->callee, true));
    if (!t->effect)
        ir_children(e, find_effect, t);
    if (t->effect)
        ptrmap_put(&t->effects, e, t);
    LiteralTie tie = t->effect ? TIE_EFFECT : is_plain_data(e->type) ? 0 : TIE_HELD;
    if (node->spread && tie)
        ptrmap_put(&t->shared, e, (void *)(uintptr_t)tie);
}

static WalkNext find_tie(void *data, const Expr *e)
{
    Ties *t = data;
    LiteralTie tie = (LiteralTie)(uintptr_t)ptrmap_find(&t->shared, e);
    if (tie > t->tie && !block_encloses(t->literal->inner, scopes_node(&t->scopes, e)->block))
        t->tie = tie;
    return t->tie == TIE_EFFECT ? WALK_STOP : WALK_ON;
}

static void find_ties(Purity *p, const Expr *root)
{
    const Function *f = expr_as_function(root);
    Ties t = {0};
    bool ok = scopes_init(&t.scopes, p->module->cx, f ? f->body : (Expr *)(uintptr_t)root);
    for (size_t i = 0; ok && i < t.scopes.steps.n; i++)
        if (t.scopes.steps.at[i].event == SCOPE_DONE)
            note_shared(p, &t, t.scopes.steps.at[i].node);
    for (size_t i = 0; ok && t.shared.n && i < t.scopes.steps.n; i++) {
        const ScopeStep *step = &t.scopes.steps.at[i];
        if (step->event != SCOPE_DONE || step->node->e->kind != EXPR_FUNCTION)
            continue;
        t.literal = step->node;
        t.tie = 0;
        ir_walk(step->node->e, find_tie, NULL, &t);
        if (t.tie)
            ptrmap_put(&p->ties, step->node->e, (void *)(uintptr_t)t.tie);
    }
    ptrmap_deinit(&t.effects);
    ptrmap_deinit(&t.shared);
    scopes_deinit(&t.scopes);
}

static LiteralTie tie_of(Purity *p, const Expr *literal)
{
    const Expr *root = p->whole;
    p->whole = NULL;
    if (root)
        find_ties(p, root);
    return (LiteralTie)(uintptr_t)ptrmap_find(&p->ties, literal);
}

bool purity_copyable(Purity *p, const Expr *literal)
{
    return !tie_of(p, literal);
}

bool purity_movable(Purity *p, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON: return true;
    case EXPR_FUNCTION: return purity_copyable(p, e);
    default: return is_plain_data(e->type) && purity_of(p, e);
    }
}

static WalkNext note_global(void *data, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    if (g)
        ptrmap_put(data, g->name, NULL);
    return WALK_ON;
}

void note_named(const Module *m, PtrMap *named)
{
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, note_global, NULL, named);
}

typedef struct Count {
    Arena *arena;
    Places *uses;
} Count;

static void count_use(void *data, Expr *const *slot)
{
    Count *c = data;
    void **n = places_slot(c->uses, c->arena, *slot);
    *n = (void *)((uintptr_t)*n + 1);
}

static WalkNext count_children(void *data, const Expr *e)
{
    ir_children(e, count_use, data);
    return WALK_ON;
}

void count_uses(const Expr *root, Arena *arena, Places *uses)
{
    Count c = {arena, uses};
    *uses = (Places){0};
    ir_walk(root, count_children, NULL, &c);
}

uintptr_t times_used(const Places *uses, const Expr *e)
{
    return (uintptr_t)places_value(uses, e);
}

/* ---- totality ------------------------------------------------------------------------------------------------------------------ */

void totality_deinit(Totality *t)
{
    ptrmap_deinit(&t->weighed);
}

/* No memory can hold a result of some element types. */
static bool is_stored(const Type *t)
{
    bool stored = t->kind != TYPE_TENSOR || dtype_id(t->dtype) != DTYPE_IDS;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && stored; i++)
        stored = is_stored(type_find(t->parts[i]));
    return stored;
}

/* Integers may be divided by zero, extents that nobody knows may not fit. */
static bool may_fail(Totality *t, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    const Type *result = call->base.type ? type_find(call->base.type) : NULL;
    bool known = op->compute && result && type_is_static(result) && is_stored(result);
    for (uint32_t i = 0; i < call->args.n && known; i++)
        known = call->args.at[i]->type && type_is_static(type_find(call->args.at[i]->type));
    if (!known || (result->kind == TYPE_TENSOR && dtype_is_float(result->dtype)))
        return !known;
    Arena arena;
    arena_init(&arena, &t->cx->limits);
    const Type **types = arena_new_array(&arena, const Type *, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++)
        types[i] = type_find(call->args.at[i]->type);
    const TeProgram *p =
        te_of_op(t->cx, &arena, op, call->attrs, call->base.span, call->args.n, types, result);
    bool fails = !p;
    for (int i = 0; p && i < p->n_stages && !fails; i++)
        fails = te_holds_fault(&arena, p->stages[i].body);
    arena_deinit(&arena);
    return fails;
}

static bool is_value(const Totality *t, const Expr *e)
{
    return e->kind == EXPR_VAR || e->kind == EXPR_OP || e->kind == EXPR_CONSTANT ||
           (t->data && (e->kind == EXPR_CON || e->kind == EXPR_GLOBAL || e->kind == EXPR_FUNCTION));
}

static void note_partial(void *data, Expr *const *slot)
{
    Totality *t = data;
    t->partial = t->partial || (!is_value(t, *slot) && ptrmap_find(&t->weighed, *slot) != t);
}

static WalkNext skip_weighed(void *data, const Expr *e)
{
    const Totality *t = data;
    return ptrmap_has(&t->weighed, e) || expr_as_function(e) ? WALK_SKIP : WALK_ON;
}

static WalkNext weigh(void *data, const Expr *e)
{
    Totality *t = data;
    const Call *call = expr_as_call(e);
    bool makes = call && t->data && call->callee->kind == EXPR_CON;
    t->partial = expr_call_of_op(e) ? may_fail(t, call)
                                    : !makes && e->kind != EXPR_TUPLE &&
                                          e->kind != EXPR_TUPLE_GET && e->kind != EXPR_LET;
    ir_children(e, note_partial, t);
    ptrmap_put(&t->weighed, e, t->partial ? NULL : t);
    return WALK_ON;
}

bool total_of(Totality *t, const Expr *e)
{
    if (e->kind == EXPR_CONSTANT || (t->data && is_value(t, e)))
        return true;
    ir_walk(e, skip_weighed, weigh, t);
    return ptrmap_find(&t->weighed, e) == t;
}

/* ---- types that are not said --------------------------------------------------------------------------------------------------- */

void vagueness_deinit(Vagueness *v)
{
    ptrmap_deinit(&v->looked);
}

static const Type *general_type(const Vagueness *v, const Expr *e)
{
    const ConRef *con = expr_as_con(e);
    const GlobalVar *global = expr_as_global(e);
    const Def *def = global ? find_global(v->module, v->env, global->name) : NULL;
    if (con)
        return type_of_constructor(v->cx, con->con);
    const Type *t = def ? def->fn->base.type : e->type;
    return t ? type_find(t) : NULL;
}

/* Whether no argument that says its type decides one of the type parameters of what is called. */
static bool is_vague_call(const Vagueness *v, const Call *call)
{
    const Type *t = general_type(v, call->callee);
    if (!t || t->kind != TYPE_FUNC || !t->n_params)
        return false;
    TypesOf decided = {0};
    bool vague = false;
    for (uint32_t i = 0; i < t->n && i < call->args.n; i++)
        if (!ptrmap_find(&v->looked, call->args.at[i]))
            types_of_note(&decided, t->parts[i]);
    for (uint32_t i = 0; i < t->n_params && !vague; i++)
        vague = !ptrmap_has(&decided.used, t->params[i]);
    types_of_free(&decided);
    return vague;
}

static bool is_general(const Vagueness *v, const Expr *e)
{
    const Type *t = e->kind == EXPR_GLOBAL || e->kind == EXPR_CON ? general_type(v, e) : NULL;
    return t && t->kind == TYPE_FUNC && t->n_params;
}

static void note_vague(void *data, Expr *const *slot)
{
    Vagueness *v = data;
    v->vague |= ptrmap_find(&v->looked, *slot) != NULL;
}

static WalkNext skip_looked(void *data, const Expr *e)
{
    const Vagueness *v = data;
    return ptrmap_has(&v->looked, e) || expr_as_function(e) ? WALK_SKIP : WALK_ON;
}

static WalkNext note_whether_vague(void *data, const Expr *e)
{
    Vagueness *v = data;
    const Call *call = expr_as_call(e);
    bool by_args = call && !expr_call_of_op(e);
    v->vague = by_args ? is_vague_call(v, call) : is_general(v, e);
    if (!by_args)
        ir_children(e, note_vague, v);
    ptrmap_put(&v->looked, e, v->vague ? (void *)(uintptr_t)e : NULL);
    return WALK_ON;
}

bool vague_of(Vagueness *v, const Expr *e)
{
    ir_walk(e, skip_looked, note_whether_vague, v);
    return ptrmap_find(&v->looked, e) != NULL;
}

/* ---- kernels ------------------------------------------------------------------------------------------------------------------- */

/* What joins more tensors than these is a choice among all of them in each element: its own loops are faster, and the code of such a
 * choice takes LLVM time beyond all proportion. */
#define TENSORS_MOST 64

/* The checker knows no values: a shape that it found needs none. That of a scalar has no extents that could be unknown, and still it is
 * the values that say whether there is one. */
static bool is_shape_known(const Call *call, const Op *op)
{
    const Type *t = op->flags & OP_SHAPE_FROM_DATA ? call->base.type : NULL;
    return !(op->flags & OP_SHAPE_FROM_DATA) || (t && type_find(t)->n > 0 && type_is_static(t));
}

bool call_has_elements(const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    if (!op || !op->compute || op->flags & OP_STATEFUL || !is_shape_known(call, op))
        return false;
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = call->args.at[i]->type ? type_find(call->args.at[i]->type) : NULL;
        n += t && t->kind == TYPE_TUPLE ? t->n : 1;
    }
    return n <= TENSORS_MOST;
}

bool enter_past_kernel(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}
