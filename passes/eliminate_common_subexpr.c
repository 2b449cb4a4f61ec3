/* Merges equal calls of operators and equal projections.
 *
 *     %0 = exp(%x); %1 = exp(%x); add(%0, %1)      =>      %0 = exp(%x); add(%0, %0)
 *
 * Equal are calls of one operator with equal attributes and the same arguments, in order; scalar constants count as the same when
 * their values are. Stateful operators, calls of functions and what is inside primitive functions stay. What may fail is merged where one
 * of both is computed whenever the other is: of two branches neither says that there is no error in the block around them. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/scope.h"
#include "passes/types.h"

#include "ir/equal.h"
#include "ir/op.h"

typedef struct Known {
    Expr *e;
    const Expr *old; /* the outermost of those that it stands for */
    struct Known *next;
} Known;

typedef struct Cse {
    PassRun *run;
    PtrMap known; /* key_of -> Known: what was met with it */
    Totality total;
    Expr *body;
    Scopes scopes; /* of the body */
    bool asked; /* for these */
    bool placed; /* they were found */
} Cse;

static bool is_scalar(const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind == VALUE_SCALAR;
}

static bool same_operand(const Expr *a, const Expr *b)
{
    return a == b || (is_scalar(a) && is_scalar(b) && ir_equal(a, b, false));
}

static bool same(const Expr *a, const Expr *b)
{
    const TupleGet *p = expr_as_tuple_get(a), *q = expr_as_tuple_get(b);
    if (p || q)
        return p && q && p->tuple == q->tuple && p->index == q->index;
    const Call *f = expr_as_call(a), *g = expr_as_call(b);
    if (expr_call_of_op(a) != expr_call_of_op(b) || f->args.n != g->args.n ||
        !attrs_equal(f->attrs, g->attrs))
        return false;
    for (uint32_t i = 0; i < f->args.n; i++)
        if (!same_operand(f->args.at[i], g->args.at[i]))
            return false;
    return true;
}

static uint64_t mixed(uint64_t hash, const void *p, size_t n)
{
    return hash_bytes(p, n, hash);
}

/* Of what most calls of one operator on one operand differ in. */
static uint64_t mixed_attr(uint64_t hash, const AttrValue *v)
{
    if (v->kind == ATTR_INT)
        return mixed(hash, &v->i, sizeof v->i);
    if (v->kind == ATTR_STRING)
        return mixed(hash, v->s.ptr, v->s.len);
    for (size_t i = 0; v->kind == ATTR_LIST && i < v->list.n; i++)
        hash = mixed_attr(hash, &v->list.at[i]);
    return hash;
}

/* Equal nodes have equal keys, and other nodes mostly others. */
static const void *key_of(const Expr *e)
{
    const TupleGet *get = expr_as_tuple_get(e);
    uint64_t hash = 0;
    if (get) {
        hash = mixed(mixed(hash, &get->tuple, sizeof get->tuple), &get->index, sizeof get->index);
        return (const void *)(uintptr_t)(hash | 1);
    }
    const Call *call = expr_as_call(e);
    const Op *op = expr_call_of_op(e);
    hash = mixed(hash, &op, sizeof op);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Expr *arg = call->args.at[i];
        uint64_t value = is_scalar(arg) ? ir_hash(arg) : (uint64_t)(uintptr_t)arg;
        hash = mixed(hash, &value, sizeof value);
    }
    /* In any order. */
    for (uint32_t i = 0; call->attrs && i < call->attrs->n; i++)
        hash += mixed_attr(0, &call->attrs->at[i].value);
    return (const void *)(uintptr_t)(hash | 1);
}

static Block *block_of(const Cse *cse, const Expr *e)
{
    const ScopeNode *node = scopes_node(&cse->scopes, e);
    return node ? node->block : NULL;
}

/* Whether the node may be computed in the block that both have in common. */
static bool may_merge(Cse *cse, Known *k, const Expr *old)
{
    if (old->kind == EXPR_TUPLE_GET || total_of(&cse->total, old))
        return true;
    if (!cse->asked)
        cse->placed = scopes_init(&cse->scopes, cse->run->cx, cse->body);
    cse->asked = true;
    Block *first = cse->placed ? block_of(cse, k->old) : NULL, *other = block_of(cse, old);
    if (!first || !other)
        return false;
    if (block_encloses(other, first))
        k->old = old;
    return k->old == old || block_encloses(first, other);
}

enum { RULE_MERGED, RULE_STATEFUL, RULE_APART };

static const PassRule rules[] = {
    [RULE_MERGED] = {"merged", "{at} is computed already: {with} stands for it"},
    [RULE_STATEFUL] = {"stateful", "{at} stays: each call of it may give something else"},
    [RULE_APART] =
        {"apart",
         "{at} stays beside {with}: it may fail, and neither is computed whenever the other is"},
    {0},
};

static Expr *merge(Rewriter *rw, const Expr *old, Expr *now)
{
    Cse *cse = rw->data;
    const Op *op = expr_call_of_op(now);
    expr_keep_type(now, old);
    /* What has no arguments costs nothing, and each user may take it in. */
    if (op && (op->flags & OP_STATEFUL))
        pass_decides(cse->run, (PassEvent){.rule = &rules[RULE_STATEFUL], .at = old});
    if (now->kind != EXPR_TUPLE_GET &&
        (!op || (op->flags & OP_STATEFUL) || expr_as_call(now)->args.n == 0))
        return now;
    void **first = ptrmap_slot(&cse->known, key_of(now));
    for (Known *k = first ? *first : NULL; k; k = k->next) {
        if (!same(k->e, now))
            continue;
        bool merges = may_merge(cse, k, old);
        unsigned rule = merges ? RULE_MERGED : RULE_APART;
        pass_decides(cse->run, (PassEvent){.rule = &rules[rule], .at = old, .with = k->e});
        if (merges)
            return k->e;
    }
    Known *known = first ? arena_new(&cse->run->scratch, Known) : NULL;
    if (known) {
        *known = (Known){now, old, *first};
        *first = known;
    }
    return now;
}

static Function *eliminate(PassRun *run, const Def *def)
{
    Cse cse = {.run = run, .total = {.cx = run->cx}, .body = def->fn->body};
    Rewriter rw;
    pass_rewriter_init(&rw, run, merge, &cse);
    rw.enter = enter_past_kernel;
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&cse.known);
    totality_deinit(&cse.total);
    if (cse.asked)
        scopes_deinit(&cse.scopes);
    return expr_as_function(now);
}

const Pass pass_eliminate_common_subexpr = {
    .name = "EliminateCommonSubexpr",
    .doc = "Merges equal calls of operators and equal projections.",
    .opt_level = 3,
    .needs_types = true,
    .rules = rules,
    .function = eliminate,
};
