#include "passes/budget.h"

#define SIZE_LEAST 65536
#define SIZE_TIMES 8

static WalkNext count_node(void *data, const Expr *e)
{
    (void)e;
    ++*(uint64_t *)data;
    return WALK_ON;
}

uint64_t count_nodes(const Expr *root)
{
    uint64_t n = 0;
    ir_walk(root, count_node, NULL, &n);
    return n;
}

static WalkNext count_down(void *data, const Expr *e)
{
    (void)e;
    uint64_t *left = data;
    return *left && (*left)-- ? WALK_ON : WALK_STOP;
}

bool has_at_most(const Expr *root, uint64_t most)
{
    return ir_walk(root, count_down, NULL, &most);
}

SizeBudget size_budget(PassRun *run, const Module *old)
{
    int64_t most = attrs_int(run->params, "size_most", 0);
    if (most > 0)
        return (SizeBudget){.most = (uint64_t)most};
    uint64_t n = old->expr ? count_nodes(old->expr) : 0;
    for (size_t i = 0; i < old->defs.n; i++)
        if (old->defs.at[i].fn && !old->defs.at[i].imported)
            n += count_nodes(&old->defs.at[i].fn->base);
    return (SizeBudget){.most = SIZE_LEAST + SIZE_TIMES * n};
}

bool size_spend(SizeBudget *b, uint64_t nodes)
{
    if (nodes > b->most - b->made) {
        b->left++;
        return false;
    }
    b->made += nodes;
    return true;
}

void size_report(const SizeBudget *b, PassRun *run, const char *what)
{
    if (b->left == 0 || run->context->for_code)
        return;
    Diag *d =
        diag_error(run->cx->diags, W0603_SIZE, run->where,
                   "`%s` may make %llu nodes; %s that need more and stay as they are: %llu",
                   run->pass->name, (unsigned long long)b->most, what, (unsigned long long)b->left);
    diag_help(d, "`%s{size_most=N}` sets another bound", run->pass->name);
}
