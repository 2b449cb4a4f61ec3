/* How much the evaluator has to do for an expression, as far as that can be known beforehand. */
#include "ir/walk.h"
#include "session/internal.h"

/* More than anybody waits for. */
#define WORK_MOST ((uint64_t)1 << 40)
/* More definitions inside each other are not looked through. */
enum { WORK_DEPTH_MOST = 64 };

typedef struct Count {
    const Module *env;
    PtrMap known; /* Function -> its steps as a number; it is its own count that is under way: 0 */
    uint64_t steps;
    int depth;
    bool unknown;
} Count;

static uint64_t steps_of(Count *c, const Function *fn);

/* A recursion has no end that can be seen, and neither has what is called or chosen by a value. */
static WalkNext count_node(void *data, const Expr *e)
{
    Count *c = data;
    const Call *call = expr_as_call(e);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    const Def *def = g ? module_find(c->env, g->name) : NULL;
    if (e->kind == EXPR_IF || e->kind == EXPR_MATCH || e->kind == EXPR_FUNCTION)
        c->unknown = true;
    else if (call && call->callee->kind == EXPR_OP)
        c->steps++;
    else if (def && def->fn)
        c->steps += 1 + steps_of(c, def->fn);
    else if (call && call->callee->kind != EXPR_CON)
        c->unknown = true;
    c->unknown |= c->steps > WORK_MOST;
    return c->unknown ? WALK_STOP : WALK_ON;
}

static uint64_t steps_of(Count *c, const Function *fn)
{
    if (ptrmap_has(&c->known, fn)) {
        uint64_t known = (uintptr_t)ptrmap_find(&c->known, fn);
        c->unknown |= known == 0;
        return known - (known > 0);
    }
    uint64_t before = c->steps;
    ptrmap_put(&c->known, fn, NULL);
    c->steps = 0;
    c->unknown |= c->depth++ == WORK_DEPTH_MOST;
    if (!c->unknown)
        ir_walk(fn->body, count_node, NULL, c);
    c->depth--;
    uint64_t steps = c->steps;
    ptrmap_put(&c->known, fn, (void *)(uintptr_t)(steps + 1));
    c->steps = before;
    return steps;
}

uint64_t work_steps(const Module *env, const Expr *e)
{
    Count c = {.env = env};
    ir_walk(e, count_node, NULL, &c);
    ptrmap_deinit(&c.known);
    return c.unknown ? 0 : c.steps;
}
