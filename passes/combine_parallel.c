#include "passes/combine_parallel.h"

#include "passes/convert_layout.h"
#include "passes/scope.h"
#include "passes/types.h"

#include <string.h>

typedef struct Branch {
    Vec(const Call *) calls; /* the operator, then what follows */
    ScopeNode *node;         /* of the first */
    size_t at;               /* its place in the order of evaluation */
    Call *part;              /* what stands for the last; its operand is filled in at the end */
    int64_t begin;
} Branch;

typedef struct Group {
    Vec(Branch *) branches;
    size_t depth; /* how many calls of each are combined */
} Group;

typedef struct Combine {
    PassRun *run;
    const Combiner *how;
    Scopes scopes;
    PtrMap uses;    /* node -> number of uses */
    PtrMap users;   /* node -> the last call that uses it as an argument */
    PtrMap places;  /* node -> its place in the order of evaluation + 1 */
    PtrMap binders; /* Var -> the block in which it is bound */
    PtrMap members; /* the first call of each branch of an accepted group -> the group */
    PtrMap lasts;   /* the last combined call -> Branch */
    PtrMap by_data; /* data -> list of groups */
    Vec(Group *) groups;
    Vec(Group *) taken;
} Combine;

typedef struct GroupList {
    Vec(Group *) at;
} GroupList;

static bool is_tensor_of(const Expr *e, const Type **t)
{
    *t = expr_tensor_type(e);
    return *t && type_is_static(*t);
}

bool combine_same_attrs(const Call *a, const Call *b, const char *const *keys)
{
    for (; *keys; keys++)
        if (!attr_value_equal(attrs_find(a->attrs, *keys), attrs_find(b->attrs, *keys)))
            return false;
    return true;
}

/* ---- what is there ------------------------------------------------------------------------------------------- */

static void count_use(void *data, Expr *const *slot)
{
    Combine *c = data;
    void **n = ptrmap_slot(&c->uses, *slot);
    if (n)
        *n = (void *)((uintptr_t)*n + 1);
}

static void note_binder(void *data, Var *v)
{
    void **at = data;
    ptrmap_put(at[0], v, at[1]);
}

/* The variables that a node binds, with the blocks in which they are seen. */
static void note_binders(Combine *c, const ScopeNode *node)
{
    const Match *match = expr_as_match(node->e);
    void *at[2] = {&c->binders, NULL};
    if (match)
        for (uint32_t i = 0; i < match->clauses.n; i++) {
            at[1] = &node->inner[i];
            pattern_vars(match->clauses.at[i].pattern, note_binder, at);
        }
    else if (node->e->kind == EXPR_LET || node->e->kind == EXPR_FUNCTION) {
        at[1] = node->inner;
        if (node->inner)
            ir_binders(node->e, note_binder, at);
    }
}

static void look(Combine *c)
{
    for (size_t i = 0; i < c->scopes.steps.n; i++) {
        const ScopeStep *step = &c->scopes.steps.at[i];
        if (step->event != SCOPE_DONE)
            continue;
        const Expr *e = step->node->e;
        const Call *call = expr_as_call(e);
        ptrmap_put(&c->places, e, (void *)(uintptr_t)(i + 1));
        note_binders(c, step->node);
        if (e->kind != EXPR_FUNCTION || !function_is_primitive(expr_as_function(e)))
            ir_children(e, count_use, c);
        for (uint32_t k = 0; call && k < call->args.n; k++)
            ptrmap_put(&c->users, call->args.at[k], (void *)(uintptr_t)e);
    }
}

static size_t place_of(const Combine *c, const Expr *e)
{
    return (size_t)(uintptr_t)ptrmap_find(&c->places, e);
}

/* ---- branches ------------------------------------------------------------------------------------------------ */

static Branch *make_branch(Combine *c, const Call *call)
{
    Arena *arena = &c->run->scratch;
    Branch *b = arena_new(arena, Branch);
    b->node = scopes_node(&c->scopes, &call->base);
    b->at = place_of(c, &call->base);
    vec_push(&b->calls, arena, call);
    for (;;) {
        const Expr *last = &vec_last(&b->calls)->base;
        const Call *user = ptrmap_find(&c->users, last);
        const Op *op = user ? expr_call_of_op(&user->base) : NULL;
        if (!op || op->pattern > OP_BROADCAST || (uintptr_t)ptrmap_find(&c->uses, last) != 1 ||
            scopes_node(&c->scopes, &user->base)->block != b->node->block)
            return b;
        vec_push(&b->calls, arena, user);
    }
}

/* Everything that `e` is computed from can be had where the first branch stands. */
static bool is_visible(const Combine *c, const Expr *e, Block *block)
{
    ScopeNode *node = scopes_node(&c->scopes, e);
    Block *where = node ? node->block : e->kind == EXPR_VAR ? ptrmap_find(&c->binders, e) : NULL;
    return !where || block_encloses(where, block);
}

static bool fits_group(const Combine *c, const Group *g, const Branch *b)
{
    const Branch *first = g->branches.at[0];
    const Call *call = b->calls.at[0];
    return c->how->alike(first->calls.at[0], call) &&
           first->node->block->stretch == b->node->block->stretch &&
           block_encloses(first->node->block, b->node->block) &&
           is_visible(c, call->args.at[1], first->node->block);
}

static void add_branch(Combine *c, const Call *call)
{
    Arena *arena = &c->run->scratch;
    const Type *weight, *out;
    if (!is_tensor_of(call->args.at[1], &weight) || !is_tensor_of(&call->base, &out) ||
        !c->how->alike(call, call))
        return;
    void **slot = ptrmap_slot(&c->by_data, call->args.at[0]);
    if (!slot)
        return;
    GroupList *list = *slot = *slot ? *slot : arena_new(arena, GroupList);
    Branch *b = make_branch(c, call);
    Group *g = NULL;
    for (size_t i = 0; i < list->at.n && !g; i++)
        g = fits_group(c, list->at.at[i], b) ? list->at.at[i] : NULL;
    if (!g) {
        g = arena_new(arena, Group);
        vec_push(&list->at, arena, g);
        vec_push(&c->groups, arena, g);
    }
    vec_push(&g->branches, arena, b);
}

/* ---- what may be combined ------------------------------------------------------------------------------------ */

typedef struct Reach {
    Combine *c;
    Vec(const Expr *) todo;
    PtrMap seen;
    const Group *goal;
    size_t first; /* nothing before it reaches the goal, but through what was combined */
    bool found;
} Reach;

static void reach_child(void *data, Expr *const *slot)
{
    Reach *r = data;
    if (expr_is_atom(*slot) || ptrmap_has(&r->seen, *slot))
        return;
    ptrmap_put(&r->seen, *slot, NULL);
    vec_push(&r->todo, &r->c->run->scratch, *slot);
}

/* A call that was combined needs what all the calls of its group need. */
static void reach_group(Reach *r, const Group *g)
{
    r->found |= g == r->goal;
    for (size_t i = 0; i < g->branches.n; i++)
        for (size_t k = 0; k < g->depth; k++)
            ir_children(&g->branches.at[i]->calls.at[k]->base, reach_child, r);
}

/* Whether an argument of call `depth` of a branch needs one of the calls that shall be combined. */
static bool is_circular(Combine *c, Group *g, size_t depth)
{
    Reach r = {.c = c, .goal = g, .first = SIZE_MAX};
    for (size_t i = 0; i < g->branches.n; i++)
        r.first = g->branches.at[i]->at < r.first ? g->branches.at[i]->at : r.first;
    for (size_t i = 0; i < g->branches.n; i++) {
        const Call *call = g->branches.at[i]->calls.at[depth];
        const Expr *before = depth ? &g->branches.at[i]->calls.at[depth - 1]->base : NULL;
        for (uint32_t k = 0; k < call->args.n; k++)
            if (call->args.at[k] != before)
                reach_child(&r, &call->args.at[k]);
    }
    while (r.todo.n && !r.found) {
        const Expr *e = vec_pop(&r.todo);
        const Group *in = ptrmap_find(&c->members, e);
        if (in)
            reach_group(&r, in);
        else if (place_of(c, e) > r.first || c->members.n > g->branches.n)
            ir_children(e, reach_child, &r);
    }
    ptrmap_deinit(&r.seen);
    return r.found;
}

static bool same_extents(const Type *a, const Type *b, int but)
{
    bool same = a->n == b->n;
    for (uint32_t i = 0; same && i < a->n; i++)
        same = (int)i == but || a->dims[i] == b->dims[i];
    return same;
}

/* The axis of an operand that lies along the axis of the results; -1: it has none. */
static int operand_axis(const Type *operand, const Type *out, int axis)
{
    return axis - (int)out->n + (int)operand->n;
}

static bool operands_join(const Combine *c, const Call *op, const Call *a, const Call *b,
                          uint32_t i)
{
    const Type *ta, *tb, *out_a = expr_tensor_type(&a->base), *out_b = expr_tensor_type(&b->base);
    if (!is_tensor_of(a->args.at[i], &ta) || !is_tensor_of(b->args.at[i], &tb) ||
        !dtype_eq(ta->dtype, tb->dtype) || ta->n > out_a->n)
        return false;
    if (c->how->stacked)
        return same_extents(ta, tb, -1);
    if (c->how->repeats)
        return same_extents(ta, tb, (int)ta->n - 1);
    int axis = c->how->out_axis(op), at;
    axis = axis < 0 ? axis + (int)out_a->n : axis;
    at = operand_axis(ta, out_a, axis);
    return at >= 0 && same_extents(ta, tb, at) && ta->dims[at] == out_a->dims[axis] &&
           tb->dims[at] == out_b->dims[axis];
}

/* What follows a call has its extents. Along the last axis, where everything is joined, others may be put in front. */
static bool keeps_shape(const Combine *c, const Type *t, const Type *was)
{
    if (!c->how->repeats)
        return same_extents(t, was, -1);
    return t->n >= was->n && t->dims[t->n - 1] == was->dims[was->n - 1];
}

/* Each element comes from those at its place, wherever that is: so it is beside others, too. */
static bool goes_along(const Combine *c, const Group *g, const Call *call)
{
    const Type *out = expr_tensor_type(&call->base);
    const Op *op = expr_call_of_op(&call->base);
    /* Of several operands those that are no data, as what fills a tensor, are numbers and cannot be joined. */
    if (!op || !out || (call->args.n > 1 && op->pattern != OP_BROADCAST))
        return false;
    if (!op->attrs || layout_is_free(op))
        return true;
    if (c->how->stacked || !attrs_find(call->attrs, "axis"))
        return false;
    int axis = c->how->out_axis(g->branches.at[0]->calls.at[0]);
    return ops_axis(call->attrs, "axis", (int)out->n) == (axis < 0 ? axis + (int)out->n : axis);
}

/* Call number `depth` is the same in every branch but for operands that can be joined. */
static bool level_agrees(const Combine *c, const Group *g, size_t depth)
{
    const Call *first = g->branches.at[0]->calls.at[depth];
    for (size_t i = 0; i < g->branches.n; i++) {
        const Call *call = g->branches.at[i]->calls.at[depth];
        const Call *before = g->branches.at[i]->calls.at[depth - 1];
        const Call *first_before = g->branches.at[0]->calls.at[depth - 1];
        const Type *t, *was;
        if (call->callee->kind != EXPR_OP ||
            expr_call_of_op(&call->base) != expr_call_of_op(&first->base) ||
            !attrs_equal(call->attrs, first->attrs) || call->args.n != first->args.n ||
            !goes_along(c, g, call) || !is_tensor_of(&call->base, &t) ||
            !is_tensor_of(&before->base, &was) || !keeps_shape(c, t, was))
            return false;
        for (uint32_t k = 0; k < call->args.n; k++) {
            bool chain = call->args.at[k] == &before->base;
            if (chain != (first->args.at[k] == &first_before->base) ||
                (!chain && (!operands_join(c, g->branches.at[0]->calls.at[0], first, call, k) ||
                            !is_visible(c, call->args.at[k], g->branches.at[0]->node->block))))
                return false;
        }
    }
    return true;
}

static size_t least_length(const Group *g)
{
    size_t n = SIZE_MAX;
    for (size_t i = 0; i < g->branches.n; i++)
        n = g->branches.at[i]->calls.n < n ? g->branches.at[i]->calls.n : n;
    return n;
}

static void take_group(Combine *c, Group *g)
{
    for (size_t i = 0; i < g->branches.n; i++)
        ptrmap_put(&c->members, g->branches.at[i]->calls.at[0], g);
    g->depth = 1;
    if (is_circular(c, g, 0)) {
        for (size_t i = 0; i < g->branches.n; i++)
            ptrmap_remove(&c->members, g->branches.at[i]->calls.at[0]);
        return;
    }
    for (size_t most = least_length(g); g->depth < most; g->depth++)
        if (!level_agrees(c, g, g->depth) || is_circular(c, g, g->depth))
            break;
    vec_push(&c->taken, &c->run->scratch, g);
    for (size_t i = 0; i < g->branches.n; i++) {
        Branch *b = g->branches.at[i];
        for (size_t k = 1; k < g->depth; k++)
            ptrmap_put(&c->members, b->calls.at[k], g);
        ptrmap_put(&c->lasts, b->calls.at[g->depth - 1], b);
    }
}

/* ---- making the calls ---------------------------------------------------------------------------------------- */

/* The part of the whole that stands for `last`, the last call of the branch. */
static Expr *part_of(Combine *c, const OpsMake *m, Branch *b, const Expr *last, Expr *whole)
{
    const Type *t = expr_tensor_type(last);
    int axis = c->how->out_axis(b->calls.at[0]);
    axis = axis < 0 ? axis + (int)t->n : axis;
    if (c->how->stacked) {
        Expr *field = expr_tuple_get(m->arena, m->span, whole, b->begin);
        Attr attr = ops_attr_ints(m, "axis", 1, (int64_t[]){0});
        return ops_call(m, "squeeze", 1, &field, 1, &attr);
    }
    int64_t begin[TENSOR_RANK_MOST], end[TENSOR_RANK_MOST], strides[TENSOR_RANK_MOST];
    for (int i = 0; i <= axis; i++) {
        begin[i] = i < axis ? 0 : b->begin;
        end[i] = i < axis ? -1 : t->dims[i];
        strides[i] = 1;
    }
    uint32_t n = (uint32_t)axis + 1;
    Attr attrs[] = {ops_attr_ints(m, "begin", n, begin),
                    ops_attr_ints(m, "end", n, end),
                    ops_attr_ints(m, "strides", n, strides),
                    ops_attr_text(m, "slice_mode", "size"),
                    {.key = "axes", .value = {.kind = ATTR_NONE}}};
    return ops_call(m, "strided_slice", 1, &whole, 5, attrs);
}

/* What stands for the last call of a branch; its operand is filled in when everything else is there. */
static Expr *put_part(Rewriter *rw, const Expr *old, Expr *now)
{
    Combine *c = rw->data;
    Branch *b = ptrmap_find(&c->lasts, old);
    if (!b)
        return now;
    OpsMake m = {rw->cx, &rw->module->arena, old->span};
    Expr *part = part_of(c, &m, b, old, now);
    b->part = expr_as_call(part);
    return part;
}

static Expr *now_of(const Rewriter *rw, Expr *e)
{
    Expr *now = rewriter_now(rw, e);
    return now ? now : e;
}

/* In front of a stacked operand as many axes as its result has. */
static Expr *to_rank(const OpsMake *m, Expr *e, const Type *t, uint32_t rank)
{
    Attr attrs[2] = {ops_attr_int("axis", 0), ops_attr_int("num_newaxis", (int64_t)rank - t->n)};
    return t->n < rank ? ops_call(m, "expand_dims", 1, &e, 2, attrs) : e;
}

/* An operand that is the same along the last axis, written out along it. */
static Expr *along_last(const OpsMake *m, Expr *e, const Type *t, int64_t size)
{
    Attr axis = ops_attr_int("axis", -1);
    Attr attrs[2] = {ops_attr_int("repeats", size), ops_attr_int("axis", t->n ? t->n - 1 : 0)};
    if (t->n == 0)
        e = ops_call(m, "expand_dims", 1, &e, 1, &axis);
    else if (size == 1 || t->dims[t->n - 1] != 1)
        return e;
    return ops_call(m, "repeat", 1, &e, 2, attrs);
}

/* Operand i of call `depth` of all branches, as one. */
static Expr *join(const Rewriter *rw, const OpsMake *m, const Group *g, size_t depth, uint32_t i,
                  int axis)
{
    const Combine *c = rw->data;
    Expr **parts = arena_new_array(&c->run->scratch, Expr *, g->branches.n + 1);
    for (size_t k = 0; k < g->branches.n; k++) {
        const Call *call = g->branches.at[k]->calls.at[depth];
        parts[k] = now_of(rw, call->args.at[i]);
        const Type *out = expr_tensor_type(&call->base);
        if (c->how->repeats && depth)
            parts[k] =
                along_last(m, parts[k], expr_tensor_type(call->args.at[i]), out->dims[out->n - 1]);
        if (c->how->stacked && depth)
            parts[k] = to_rank(m, parts[k], expr_tensor_type(call->args.at[i]),
                               expr_tensor_type(&call->base)->n);
    }
    Expr *all = expr_tuple(m->arena, m->span, (uint32_t)g->branches.n, parts);
    Attr attr = ops_attr_int("axis", c->how->stacked ? 0 : axis);
    return ops_call(m, c->how->stacked ? "stack" : "concatenate", 1, &all, 1, &attr);
}

static Expr *make_first(const Rewriter *rw, const OpsMake *m, const Group *g)
{
    const Combine *c = rw->data;
    const Call *first = g->branches.at[0]->calls.at[0];
    int64_t size = 0;
    for (size_t i = 0; i < g->branches.n; i++) {
        const Call *call = g->branches.at[i]->calls.at[0];
        const Type *t = expr_tensor_type(&call->base);
        int axis = c->how->out_axis(call);
        g->branches.at[i]->begin = c->how->stacked ? (int64_t)i : size;
        size += t->dims[axis < 0 ? axis + (int)t->n : axis];
    }
    Expr *data = c->how->stacked ? join(rw, m, g, 0, 0, 0) : now_of(rw, first->args.at[0]);
    Expr *weight = join(rw, m, g, 0, 1, c->how->stacked ? 0 : c->how->weight_axis(first));
    return c->how->whole(m, first, data, weight, size);
}

static Expr *make_next(const Rewriter *rw, const OpsMake *m, const Group *g, size_t depth,
                       Expr *whole)
{
    const Combine *c = rw->data;
    const Branch *b = g->branches.at[0];
    const Call *call = b->calls.at[depth];
    const Type *out = expr_tensor_type(&call->base);
    int axis = c->how->out_axis(b->calls.at[0]);
    axis += axis < 0 ? (int)out->n : 0;
    Expr **args = arena_new_array(&c->run->scratch, Expr *, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = expr_tensor_type(call->args.at[i]);
        bool chain = call->args.at[i] == &b->calls.at[depth - 1]->base;
        int at = c->how->from_end ? -1 : operand_axis(t, out, axis);
        args[i] = chain ? whole : join(rw, m, g, depth, i, t->n ? at : 0);
    }
    return expr_call(m->arena, m->span, call->callee, call->args.n, args, call->attrs);
}

static bool fill_parts(const Rewriter *rw, Group *g)
{
    const Combine *c = rw->data;
    Branch *first = g->branches.at[0];
    OpsMake m = {rw->cx, &rw->module->arena, first->calls.at[0]->base.span};
    Expr *whole = make_first(rw, &m, g);
    for (size_t i = 1; i < g->depth && whole; i++)
        whole = make_next(rw, &m, g, i, whole);
    if (c->how->stacked && whole) {
        Attr attrs[2] = {ops_attr_int("indices_or_sections", (int64_t)g->branches.n),
                         ops_attr_int("axis", 0)};
        whole = ops_call(&m, "split", 1, &whole, 2, attrs);
    }
    for (size_t i = 0; i < g->branches.n && whole; i++) {
        Branch *b = g->branches.at[i];
        OpsMake here = {rw->cx, &rw->module->arena, b->part->base.span};
        *b->part = *expr_as_call(
            part_of((Combine *)rw->data, &here, b, &b->calls.at[g->depth - 1]->base, whole));
    }
    return whole != NULL;
}

static Expr *combine_all(Combine *c, Expr *root)
{
    Rewriter rw;
    rewriter_init(&rw, c->run->cx, c->run->module, put_part, c);
    Expr *now = ir_rewrite(&rw, root);
    for (size_t i = 0; i < c->taken.n && now; i++)
        now = fill_parts(&rw, c->taken.at[i]) ? now : NULL;
    rewriter_deinit(&rw);
    return now;
}

Function *combine_parallel(PassRun *run, const Def *def, const Combiner *how, int64_t least)
{
    Combine c = {.run = run, .how = how};
    const Op *op = op_find(run->cx, str_of(how->op));
    Expr *now = NULL;
    if (scopes_init_with_lets(&c.scopes, run->cx, def->fn->body)) {
        look(&c);
        for (size_t i = 0; i < c.scopes.steps.n; i++)
            if (c.scopes.steps.at[i].event == SCOPE_DONE &&
                expr_call_of_op(c.scopes.steps.at[i].node->e) == op)
                add_branch(&c, expr_as_call(c.scopes.steps.at[i].node->e));
        for (size_t i = 0; i < c.groups.n && !limit_hit(&run->cx->limits); i++)
            if (c.groups.at[i]->branches.n >= 2 && (int64_t)c.groups.at[i]->branches.n >= least &&
                pass_may_change(run))
                take_group(&c, c.groups.at[i]);
        now = combine_all(&c, &def->fn->base);
    }
    PtrMap *maps[] = {&c.uses, &c.users, &c.places, &c.binders, &c.members, &c.lasts, &c.by_data};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    scopes_deinit(&c.scopes);
    return expr_as_function(now);
}

const OpAttr combine_params[] = {
    {"min_num_branches", ATTR_TYPE_INT, .otherwise = ATTR_DEFAULT_INT(3), .most = INT64_MAX,
     .doc = "how many branches there must be"},
    {0},
};
