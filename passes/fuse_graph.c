#include "passes/fuse_graph.h"

#include "base/limit.h"
#include "ir/walk.h"
#include "passes/facts.h"
#include "passes/types.h"
#include "te/te.h"

/* ---- the forward graph ------------------------------------------------------------------------------------------------------ */

static FuseNode *find(const FuseGraph *g, const Expr *e)
{
    return places_value(&g->index, e);
}

static OpPattern most_of(OpPattern a, OpPattern b)
{
    return a > b ? a : b;
}

static void need(FuseGraph *g, const Expr *e)
{
    FuseNode *n = find(g, e);
    if (!n)
        return;
    n->extern_ref = true;
    n->needed_by = g->needing;
}

static void need_child(void *data, Expr *const *slot)
{
    need(data, *slot);
}

static void need_binder(void *data, Var *v)
{
    need(data, &v->base);
}

static void link_to(FuseGraph *g, const Expr *from, uint32_t to, OpPattern pattern)
{
    FuseNode *n = find(g, from);
    if (!n)
        return;
    FuseEdge *edge = arena_new(&g->arena, FuseEdge);
    *edge = (FuseEdge){to, pattern, n->edges};
    n->edges = edge;
}

/* Scalars of these types are written into the kernel that uses them. */
static OpPattern constant_pattern(const Constant *c)
{
    static const DTypeId written[] = {DT_INT32, DT_INT64, DT_FLOAT32, DT_FLOAT64, DT_BOOL};
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (c->value.kind == VALUE_SCALAR && dtype_eq(c->value.dtype, dtype_of(written[i])))
            return OP_ELEMWISE;
    return OP_OPAQUE;
}

static bool is_tensor(const Type *t)
{
    return t && t->kind == TYPE_TENSOR;
}

static OpPattern call_pattern(const FuseGraph *g, const Call *call)
{
    const Op *op = expr_call_of_op(&call->base);
    if (!op || (g->for_code && !call_has_elements(call)))
        return OP_OPAQUE;
    bool dynamic = call->base.type && !type_is_static(call->base.type);
    return dynamic && (op->flags & OP_SHAPE_FROM_DATA) ? OP_OPAQUE : op->pattern;
}

static void link_call(FuseGraph *g, const Call *call, uint32_t at)
{
    OpPattern pattern = g->nodes.at[at]->pattern;
    bool op = expr_call_of_op(&call->base) != NULL;
    if (!op) {
        link_to(g, call->callee, at, OP_OPAQUE);
        need(g, call->callee);
    }
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Expr *arg = call->args.at[i];
        bool same = pattern == OP_BROADCAST && types_same_shape(arg->type, call->base.type);
        link_to(g, arg, at, same ? OP_ELEMWISE : pattern);
    }
}

static void link_tuple(FuseGraph *g, const Tuple *t, uint32_t at)
{
    for (uint32_t i = 0; i < t->fields.n; i++) {
        if (is_tensor(t->fields.at[i]->type))
            link_to(g, t->fields.at[i], at, OP_INJECTIVE);
        else
            need(g, t->fields.at[i]);
    }
}

enum { OF_TENSORS = 1, OF_OTHERS };

static bool all_tensors(const Type *tuple)
{
    if (tuple->kind != TYPE_TUPLE)
        return false;
    for (uint32_t i = 0; i < tuple->n; i++)
        if (!is_tensor(tuple->parts[i]))
            return false;
    return true;
}

/* Looked at once, however many of its fields are taken. */
static bool is_of_tensors(FuseGraph *g, const Type *tuple)
{
    if (!tuple)
        return false;
    void **known = places_slot(&g->tuples, &g->arena, tuple);
    if (!*known)
        *known = (void *)(uintptr_t)(all_tensors(tuple) ? OF_TENSORS : OF_OTHERS);
    return (uintptr_t)*known == OF_TENSORS;
}

static void link_tuple_get(FuseGraph *g, const TupleGet *t, uint32_t at)
{
    if (is_of_tensors(g, t->tuple->type)) {
        link_to(g, t->tuple, at, OP_INJECTIVE);
        return;
    }
    g->nodes.at[at]->pattern = OP_OPAQUE;
    need(g, t->tuple);
}

static OpPattern own_pattern(const FuseGraph *g, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: return constant_pattern(expr_as_constant(e));
    case EXPR_CALL: return call_pattern(g, expr_as_call(e));
    case EXPR_TUPLE: return OP_TUPLE;
    case EXPR_TUPLE_GET: return OP_INJECTIVE;
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_FUNCTION:
    case EXPR_LET:
    case EXPR_IF:
    case EXPR_MATCH:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE:
    case EXPR_KINDS: break;
    }
    return OP_OPAQUE;
}

static WalkNext skip_foreign(void *data, const Expr *e)
{
    (void)data;
    const Function *f = expr_as_function(e);
    return f && attrs_find(f->attrs, "Compiler") ? WALK_SKIP : WALK_ON;
}

static WalkNext add_node(void *data, const Expr *e)
{
    FuseGraph *g = data;
    if (e->kind == EXPR_GLOBAL || e->kind == EXPR_OP || e->kind == EXPR_CON ||
        e->kind == EXPR_FUNCTION)
        return WALK_ON;
    FuseNode *n = arena_new(&g->arena, FuseNode);
    *n = (FuseNode){.e = (Expr *)(uintptr_t)e, .pattern = own_pattern(g, e), .members = 1};
    n->leader = n;
    vec_push(&g->nodes, &g->arena, n);
    *places_slot(&g->index, &g->arena, e) = n;
    return WALK_ON;
}

static WalkNext link_node(void *data, const Expr *e)
{
    FuseGraph *g = data;
    FuseNode *n = find(g, e);
    uint32_t at = n ? n->mark : 0;
    g->needing = e;
    if (e->kind == EXPR_CALL)
        link_call(g, expr_as_call(e), at);
    else if (e->kind == EXPR_TUPLE)
        link_tuple(g, expr_as_tuple(e), at);
    else if (e->kind == EXPR_TUPLE_GET)
        link_tuple_get(g, expr_as_tuple_get(e), at);
    else {
        ir_children(e, need_child, g);
        ir_binders(e, need_binder, g);
    }
    return WALK_ON;
}

/* ---- the post-dominator tree ------------------------------------------------------------------------------------------------- */

/* Up to the dominator at this depth; `pattern` takes in what is climbed over. */
static FuseNode *lift(FuseNode *a, uint32_t depth, OpPattern *pattern)
{
    while (a->depth > depth) {
        bool far = a->jump->depth >= depth;
        *pattern = most_of(*pattern, far ? a->jump_pattern : a->dom_pattern);
        a = far ? a->jump : a->dom;
    }
    return a;
}

/* The least common ancestor, in steps of the logarithm of the depth. */
static FuseNode *common(FuseNode *a, FuseNode *b, OpPattern *pattern)
{
    if (!a || !b)
        return NULL;
    uint32_t depth = a->depth < b->depth ? a->depth : b->depth;
    a = lift(a, depth, pattern);
    b = lift(b, depth, pattern);
    while (a != b && a->depth > 1) {
        bool far = a->jump != b->jump;
        *pattern = most_of(*pattern, far ? a->jump_pattern : a->dom_pattern);
        *pattern = most_of(*pattern, far ? b->jump_pattern : b->dom_pattern);
        a = far ? a->jump : a->dom;
        b = far ? b->jump : b->dom;
    }
    return a == b ? a : NULL;
}

/* A way up for `common`, as far as two of the dominator's one after the other where these are equally far, else one step. */
static void set_jump(FuseNode *n)
{
    const FuseNode *dom = n->dom;
    if (!dom)
        return;
    n->jump = n->dom;
    n->jump_pattern = n->dom_pattern;
    if (dom->depth - dom->jump->depth != dom->jump->depth - dom->jump->jump->depth)
        return;
    n->jump = dom->jump->jump;
    n->jump_pattern = most_of(n->jump_pattern, most_of(dom->jump_pattern, dom->jump->jump_pattern));
}

static void place(FuseGraph *g, FuseNode *n)
{
    n->depth = 1;
    n->dom_pattern = OP_OPAQUE;
    n->jump = n;
    if (n->extern_ref || !n->edges)
        return;
    OpPattern pattern = OP_ELEMWISE;
    FuseNode *dom = g->nodes.at[n->edges->to];
    for (FuseEdge *edge = n->edges; edge; edge = edge->next) {
        dom = common(dom, g->nodes.at[edge->to], &pattern);
        pattern = most_of(pattern, edge->pattern);
    }
    n->dom = dom;
    n->depth = dom ? dom->depth + 1 : 1;
    n->dom_pattern = pattern;
    set_jump(n);
}

/* ---- groups ------------------------------------------------------------------------------------------------------------------- */

static FuseNode *leader(FuseNode *n)
{
    while (n->leader != n) {
        n->leader = n->leader->leader;
        n = n->leader;
    }
    return n;
}

static void merge(FuseNode *from, FuseNode *into)
{
    FuseNode *a = leader(from), *b = leader(into);
    if (a == b)
        return;
    b->members += a->members;
    a->leader = b;
    if (!a->anchored)
        return;
    b->anchored = true;
    b->group = most_of(a->group, b->group);
}

/* What the groups on the way, and the one at its end, may be. */
typedef bool MayPass(OpPattern group, bool is_sink);

static bool upto_broadcast(OpPattern group, bool is_sink)
{
    (void)is_sink;
    return group <= OP_BROADCAST;
}

static bool upto_injective(OpPattern group, bool is_sink)
{
    (void)is_sink;
    return group <= OP_INJECTIVE;
}

static bool upto_reduce(OpPattern group, bool is_sink)
{
    (void)is_sink;
    return group <= OP_REDUCE;
}

static bool into_kernel(OpPattern group, bool is_sink)
{
    return group <= OP_INJECTIVE || (is_sink && (group == OP_REDUCE || group == OP_OUT_FUSABLE));
}

typedef struct Search {
    FuseGraph *g;
    Arena arena;
    Vec(FuseNode *) todo;
} Search;

static void push_consumers(Search *s, const FuseNode *n)
{
    for (const FuseEdge *edge = n->edges; edge; edge = edge->next) {
        FuseNode *to = s->g->nodes.at[edge->to];
        if (to->mark == s->g->search)
            continue;
        to->mark = s->g->search;
        vec_push(&s->todo, &s->arena, to);
    }
}

/* The first extent that is not 1; 0: there is none. */
static int64_t rows_of(const Type *t)
{
    for (uint32_t i = 0; is_tensor(t) && i < t->n; i++)
        if (t->dims[i] != 1)
            return t->dims[i];
    return 0;
}

/* Whether the call goes through the rows one by one: it says each element from its row, or folds each row. */
static bool goes_by_rows(const FuseNode *n, int64_t rows)
{
    bool alike = n->pattern <= OP_BROADCAST || n->pattern == OP_REDUCE;
    return alike && n->e->kind == EXPR_CALL && rows_of(n->e->type) == rows;
}

/* The first node on the ways from n (left out) to the sink whose group may not be passed, or does not go by `rows` (0: however it goes);
 * n itself where the members that would join it are more than so many. NULL: all may. */
static const FuseNode *path_stop(FuseGraph *g, const FuseNode *n, const FuseNode *sink,
                                 MayPass *may, int64_t rows, uint32_t most)
{
    Search s = {.g = g};
    uint32_t members = n->members;
    const FuseNode *stop = members <= most ? NULL : n;
    arena_init(&s.arena, NULL);
    g->search++;
    push_consumers(&s, n);
    while (!stop && s.todo.n) {
        FuseNode *at = vec_pop(&s.todo);
        if (!may(leader(at)->group, at == sink) || (rows && !goes_by_rows(at, rows)))
            stop = at;
        if (at != sink && !stop) {
            members += at->members;
            stop = members <= most ? NULL : n;
            push_consumers(&s, at);
        }
    }
    arena_deinit(&s.arena);
    return stop;
}

static void merge_path(FuseGraph *g, FuseNode *n, FuseNode *sink)
{
    Search s = {.g = g};
    arena_init(&s.arena, NULL);
    g->search++;
    merge(n, sink);
    push_consumers(&s, n);
    while (s.todo.n) {
        FuseNode *at = vec_pop(&s.todo);
        if (at == sink)
            continue;
        merge(at, sink);
        push_consumers(&s, at);
    }
    arena_deinit(&s.arena);
}

/* What keeps n from joining the group of its dominator in this way; NULL: nothing. */
static const FuseNode *stop_of(FuseGraph *g, const FuseNode *n, MayPass *may)
{
    uint32_t there = leader(n->dom)->members;
    return there <= g->most ? path_stop(g, n, n->dom, may, 0, g->most - there) : n;
}

/* Tuples that were fused into something take in their fields last. */
static MayPass *way_of_field(const FuseNode *n)
{
    bool into = n->group <= OP_INJECTIVE && n->dom->group == OP_TUPLE &&
                leader(n->dom)->group <= OP_INJECTIVE;
    return into ? upto_injective : NULL;
}

/* What a node of this kind may pass on its way to its dominator in this phase; NULL: it goes nowhere. */
static MayPass *way_of(const FuseNode *n, int phase)
{
    if (n->group == OP_OPAQUE || !n->dom)
        return NULL;
    if (phase == 2)
        return way_of_field(n);
    if (n->dom->group == OP_TUPLE)
        return NULL;
    if (n->group == OP_OUT_FUSABLE)
        return phase == 0 && n->dom_pattern == OP_ELEMWISE ? upto_broadcast : NULL;
    if (n->group <= OP_BROADCAST)
        return n->dom_pattern <= OP_INJECTIVE || n->dom_pattern == OP_REDUCE ? into_kernel : NULL;
    bool late = phase == 1 && (n->group == OP_INJECTIVE || n->group == OP_TUPLE);
    return late ? upto_injective : NULL;
}

static void fuse_node(FuseGraph *g, FuseNode *n, int phase)
{
    MayPass *may = way_of(n, phase);
    if (may && (phase == 2 || leader(n) != leader(n->dom)) && !stop_of(g, n, may))
        merge_path(g, n, n->dom);
}

FuseStop fuse_stop(FuseGraph *g, const FuseNode *n, const Expr **with)
{
    const FuseNode *stop = NULL;
    *with = NULL;
    if (n->pattern == OP_OPAQUE)
        return FUSE_STOP_OPAQUE;
    if (n->extern_ref) {
        const Let *let = n->needed_by ? expr_as_let((Expr *)(uintptr_t)n->needed_by) : NULL;
        bool result =
            !n->needed_by || n->needed_by->kind == EXPR_FUNCTION || (let && let->body == n->e);
        *with = result ? NULL : n->needed_by;
        return result ? FUSE_STOP_RESULT : FUSE_STOP_NEEDED;
    }
    if (!n->edges)
        return FUSE_STOP_NONE;
    if (!n->dom)
        return FUSE_STOP_SPLIT;
    *with = n->dom->e;
    for (int phase = 0; phase < 3 && !stop; phase++) {
        MayPass *may = way_of(n, phase);
        stop = may ? stop_of(g, n, may) : NULL;
    }
    if (!stop)
        return FUSE_STOP_KIND;
    *with = stop == n ? n->dom->e : stop->e;
    return stop == n ? FUSE_STOP_FULL : FUSE_STOP_PATH;
}

const char *fuse_pattern_name(OpPattern pattern)
{
    switch (pattern) {
    case OP_ELEMWISE: return "elementwise";
    case OP_BROADCAST: return "broadcast";
    case OP_INJECTIVE: return "injective";
    case OP_REDUCE: return "a reduction";
    case OP_OUT_FUSABLE: return "a kernel";
    case OP_TUPLE: return "a tuple";
    case OP_OPAQUE: break;
    }
    return "opaque";
}

/* ---- rows ---------------------------------------------------------------------------------------------------------------------- */

/* A fold of rows, and what is done with the same rows after it, are one kernel: a row stays in the cache from one to the next. */
static void fuse_rows(FuseGraph *g, FuseNode *n)
{
    int64_t rows = rows_of(n->e->type);
    if (n->pattern != OP_REDUCE || !n->dom || rows == 0 || leader(n) == leader(n->dom))
        return;
    if (!path_stop(g, n, n->dom, upto_reduce, rows, UINT32_MAX))
        merge_path(g, n, n->dom);
}

/* What alone uses the node; NULL: there is no such call. */
static FuseNode *only_user(const FuseGraph *g, const FuseNode *n)
{
    FuseNode *user =
        !n->extern_ref && n->edges && !n->edges->next ? g->nodes.at[n->edges->to] : NULL;
    return user && user->e->kind == EXPR_CALL ? user : NULL;
}

/* A product, what is done with its rows as such, and a product with that: a card needs no memory for what is between them. */
static void fuse_attention(FuseGraph *g, FuseNode *n)
{
    const Call *call = expr_as_call(n->e);
    FuseNode *from = call && call->args.n == 1 ? find(g, call->args.at[0]) : NULL;
    FuseNode *to = only_user(g, n);
    if (!from || !to || n->pattern != OP_OUT_FUSABLE || to->pattern != OP_OUT_FUSABLE ||
        !leader(from)->anchored || leader(from) != from || only_user(g, from) != n ||
        expr_as_call(to->e)->args.at[0] != n->e || !types_same_shape(from->e->type, n->e->type))
        return;
    merge(from, n);
    merge(n, to);
}

/* The call's one stage as a program in `scratch`; NULL: it has more, or none. */
static TeProgram *stage_of(Ctx *cx, Arena *scratch, const FuseNode *n)
{
    const Type *args[2];
    const Call *call = expr_as_call(n->e);
    if (!call || !call_has_elements(call) || call->args.n > 2)
        return NULL;
    for (uint32_t i = 0; i < call->args.n; i++) {
        args[i] = call->args.at[i]->type;
        if (!is_tensor(args[i]) || !type_is_static(args[i]))
            return NULL;
    }
    if (!is_tensor(n->e->type) || !type_is_static(n->e->type))
        return NULL;
    TeProgram *p = te_of_op(cx, scratch, expr_call_of_op(n->e), call->attrs, n->e->span,
                            call->args.n, args, n->e->type);
    return p && p->n_stages == 1 ? p : NULL;
}

static bool is_product(Ctx *cx, Arena *scratch, const FuseNode *n)
{
    TeContraction c;
    TeProgram *p = n->pattern == OP_OUT_FUSABLE ? stage_of(cx, scratch, n) : NULL;
    return p && te_product(p, 0, &c);
}

/* Whether the group of n, which ends there, only puts elements of one tensor to other places. */
static bool only_moves(FuseGraph *g, Ctx *cx, Arena *scratch, FuseNode *n)
{
    uint32_t seen = 0, members = n->members;
    for (; n && seen < members; seen++) {
        TeAffine at;
        TeProgram *p = n->pattern == OP_INJECTIVE ? stage_of(cx, scratch, n) : NULL;
        if (!p || p->n_inputs != 1 || p->stages[0].reduce != TE_NO_REDUCE || p->stages[0].at ||
            !te_load_affine(p, p->stages[0].body, &at) || at.padded)
            return false;
        n = find(g, expr_as_call(n->e)->args.at[0]);
    }
    return seen == members;
}

/* A product reads its factors where they lie: what would only move their elements first joins it. */
static void fuse_moves(FuseGraph *g, FuseNode *n, const FuseWish *wish)
{
    FuseNode *to = leader(n) == n && n->group == OP_INJECTIVE ? only_user(g, n) : NULL;
    if (!to || leader(to) == n || leader(to)->members + n->members > g->most)
        return;
    Arena scratch;
    arena_init(&scratch, NULL);
    if (is_product(wish->cx, &scratch, to) && only_moves(g, wish->cx, &scratch, n))
        merge(n, to);
    arena_deinit(&scratch);
}

void fuse_graph_init(FuseGraph *g, Function *f, FuseWish wish)
{
    *g = (FuseGraph){.most = wish.most, .for_code = wish.for_code};
    arena_init(&g->arena, NULL);
    ir_walk(&f->base, skip_foreign, add_node, g);
    for (uint32_t i = 0; i < g->nodes.n; i++) {
        g->nodes.at[i]->mark = i;
        g->nodes.at[i]->group = g->nodes.at[i]->pattern;
        g->nodes.at[i]->anchored = g->nodes.at[i]->pattern == OP_OUT_FUSABLE;
    }
    if (!limit_hit(wish.limits))
        ir_walk(&f->base, skip_foreign, link_node, g);
    g->needing = NULL;
    need(g, f->body);
    for (size_t i = g->nodes.n; i-- > 0 && !limit_hit(wish.limits);) {
        FuseNode *n = g->nodes.at[i];
        n->group = n->pattern;
        place(g, n);
        n->mark = 0;
    }
    for (int phase = 0; wish.fuse && phase < 3; phase++)
        for (size_t i = 0; i < g->nodes.n && !limit_hit(wish.limits); i++)
            fuse_node(g, g->nodes.at[i], phase);
    for (size_t i = 0; wish.fuse && wish.for_code && i < g->nodes.n && !limit_hit(wish.limits); i++)
        fuse_rows(g, g->nodes.at[i]);
    bool moves = wish.fuse && wish.for_code && !wish.for_card;
    for (size_t i = 0; moves && i < g->nodes.n && !limit_hit(wish.limits); i++)
        fuse_moves(g, g->nodes.at[i], &wish);
    for (size_t i = 0; wish.fuse && wish.for_card && i < g->nodes.n && !limit_hit(wish.limits); i++)
        fuse_attention(g, g->nodes.at[i]);
}

void fuse_graph_deinit(FuseGraph *g)
{
    arena_deinit(&g->arena);
}

FuseNode *fuse_leader(const FuseGraph *g, const Expr *e)
{
    FuseNode *n = find(g, e);
    return n ? leader(n) : NULL;
}
