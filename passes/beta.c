#include "passes/beta.h"

#include "ir/ctx.h"
#include "ir/walk.h"

Expr *beta(Ctx *cx, Module *module, Purity *purity, const Function *f, uint32_t n,
           Expr *const *args, Expr *const *sources)
{
    const Function *copy = expr_as_function(ir_copy(cx, module, &f->base));
    if (!copy || copy->params.n != n)
        return NULL;
    PtrMap map = {0};
    for (uint32_t i = 0; i < n; i++)
        if (purity_movable(purity, sources[i]))
            ptrmap_put(&map, copy->params.at[i], args[i]);
    Expr *body = ir_substitute(cx, module, copy->body, &map);
    for (uint32_t i = n; body && i-- > 0;)
        if (!ptrmap_has(&map, copy->params.at[i]))
            body = expr_let(&module->arena, f->base.span, copy->params.at[i], args[i], body);
    ptrmap_deinit(&map);
    return body;
}
