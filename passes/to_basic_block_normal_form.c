/* Binds by a `let` each value that more than one block uses; within a block values stay a graph.
 *
 *     %0 = exp(%x); if (%c) { add(%0, %x) } else { multiply(%0, %0) }
 *  => let %x_0 = exp(%x); if (%c) { add(%x_0, %x) } else { multiply(%x_0, %x_0) }
 *
 * The `let` stands where the innermost block that all uses have in common begins. Constants are not bound, and neither is what has an
 * effect, which must not come before what is evaluated ahead of it. */
#include "passes/to_basic_block_normal_form.h"

#include "passes/facts.h"
#include "passes/scope.h"
#include "passes/types.h"

#include <stdio.h>

typedef struct Bound {
    Var *var;
    Expr *value;
} Bound;

typedef struct BoundList {
    Vec(Bound) list;
} BoundList;

typedef struct Blocks {
    PassRun *run;
    Purity purity;
    Scopes scopes;
    bool shares;        /* what could not be bound is used in several blocks */
    uint32_t vars;      /* made so far */
} Blocks;

/* What was bound in the block, around its result. */
static Expr *close_block(Rewriter *rw, const Block *block, Expr *result)
{
    const BoundList *b = block->data;
    for (size_t i = b ? b->list.n : 0; i-- > 0;) {
        const Bound *at = &b->list.at[i];
        const Type *type = result->type;
        result = expr_let(&rw->module->arena, at->value->span, at->var, at->value, result);
        result->type = at->value->type ? type : NULL;
    }
    return result;
}

static Expr *bind_value(Rewriter *rw, const ScopeNode *node, Expr *value)
{
    Blocks *b = rw->data;
    char name[16];
    snprintf(name, sizeof name, "x_%u", b->vars++);
    Var *var = expr_var(&rw->module->arena, value->span, ctx_name(rw->cx, name), NULL);
    var->base.type = value->type;
    if (!node->block->data)
        node->block->data = arena_new(&b->scopes.arena, BoundList);
    BoundList *list = node->block->data;
    if (list)
        vec_push(&list->list, &b->scopes.arena, ((Bound){var, value}));
    return list ? &var->base : NULL;
}

static Expr *close_match(Rewriter *rw, const ScopeNode *node, Match *e)
{
    Clause *clauses = arena_new_array(&rw->module->arena, Clause, e->clauses.n);
    for (uint32_t i = 0; clauses && i < e->clauses.n; i++) {
        clauses[i] = e->clauses.at[i];
        clauses[i].body = close_block(rw, &node->inner[i], clauses[i].body);
    }
    return clauses ? expr_match(&rw->module->arena, e->base.span, e->scrutinee, e->clauses.n,
                                clauses, e->complete)
                   : NULL;
}

static Expr *close_function(Rewriter *rw, const ScopeNode *node, Function *f)
{
    Expr *body = close_block(rw, &node->inner[0], f->body);
    Function *now = expr_function(&rw->module->arena, f->base.span, f->type_params, f->params.n,
                                  f->params.at, f->attrs, f->ret_type, body);
    return &now->base;
}

/* The node with what was bound in the blocks that it opens. */
static Expr *close_node(Rewriter *rw, const ScopeNode *node, Expr *now, uint32_t opened)
{
    bool any = false;
    for (uint32_t i = 0; i < opened; i++)
        any |= node->inner[i].data != NULL;
    if (!any)
        return now;
    Arena *arena = &rw->module->arena;
    const If *branches = expr_as_if(now);
    const Let *let = expr_as_let(now);
    if (branches)
        return expr_if(arena, now->span, branches->cond,
                       close_block(rw, &node->inner[0], branches->then),
                       close_block(rw, &node->inner[1], branches->otherwise));
    if (let)
        return expr_let(arena, now->span, let->var, let->value,
                        close_block(rw, &node->inner[0], let->body));
    if (now->kind == EXPR_MATCH)
        return close_match(rw, node, expr_as_match(now));
    return close_function(rw, node, expr_as_function(now));
}

static uint32_t blocks_opened(const Expr *e)
{
    const Match *match = expr_as_match(e);
    const Function *f = expr_as_function(e);
    if (match)
        return match->clauses.n;
    return e->kind == EXPR_IF ? 2 : e->kind == EXPR_LET || (f && !function_is_primitive(f));
}

static Expr *place(Rewriter *rw, const Expr *old, Expr *now)
{
    Blocks *b = rw->data;
    const ScopeNode *node = scopes_node(&b->scopes, old);
    if (!node)
        return now;
    now = close_node(rw, node, now, blocks_opened(old));
    if (now)
        expr_keep_type(now, old);
    if (!now || !node->spread || old->kind == EXPR_CONSTANT)
        return now;
    if (!purity_of(&b->purity, old)) {
        b->shares = true;
        return now;
    }
    return bind_value(rw, node, now);
}

static bool enter_node(Rewriter *rw, const Expr *old, Expr **now)
{
    Blocks *b = rw->data;
    const Function *f = expr_as_function(old);
    const ScopeNode *node = f && function_is_primitive(f) ? scopes_node(&b->scopes, old) : NULL;
    *now = (Expr *)(uintptr_t)old;
    if (node && node->spread)
        *now = bind_value(rw, node, *now);
    return node != NULL;
}

static Expr *body_to_blocks(Blocks *b, Expr *body)
{
    Rewriter rw;
    PassRun *run = b->run;
    purity_init(&b->purity, run->module, run->context->env, body);
    rewriter_init(&rw, run->cx, run->module, place, b);
    rw.enter = enter_node;
    Expr *now = ir_rewrite(&rw, body);
    now = now ? close_block(&rw, &b->scopes.root, now) : NULL;
    rewriter_deinit(&rw);
    purity_deinit(&b->purity);
    return now;
}

Function *function_to_blocks(PassRun *run, Function *f, bool *shares)
{
    Blocks b = {.run = run};
    Expr *body =
        scopes_init_with_lets(&b.scopes, run->cx, f->body) ? body_to_blocks(&b, f->body) : NULL;
    scopes_deinit(&b.scopes);
    *shares = b.shares;
    if (!body || body == f->body)
        return body ? f : NULL;
    Function *now = expr_function(&run->module->arena, f->base.span, f->type_params, f->params.n,
                                  f->params.at, f->attrs, f->ret_type, body);
    expr_keep_type(&now->base, &f->base);
    return now;
}

static Function *to_blocks(PassRun *run, const Def *def)
{
    bool shares;
    return function_to_blocks(run, def->fn, &shares);
}

const Pass pass_to_basic_block_normal_form = {
    .name = "ToBasicBlockNormalForm",
    .doc = "Binds by a `let` what more than one block uses.",
    .opt_level = 1,
    .needs_types = true,
    .function = to_blocks,
};
