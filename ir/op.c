#include "ir/op.h"

#include "ir/ctx.h"

#include <string.h>

void op_each(const OpTable *table, bool (*found)(void *data, const Op *op), void *data)
{
    for (const Op *const *family = table->families; *family; family++)
        for (const Op *op = *family; op->name; op++)
            if (!found(data, op))
                return;
}

static bool index_op(void *data, const Op *op)
{
    Ctx *cx = data;
    ptrmap_put(&cx->op_index, ctx_name(cx, op->name), (void *)(uintptr_t)op);
    return true;
}

const Op *op_find(Ctx *cx, Str name)
{
    if (cx->op_index.n == 0 && cx->ops)
        op_each(cx->ops, index_op, cx);
    const Op *op = ptrmap_find(&cx->op_index, ctx_name_str(cx, name));
    cx->forms |= op && op->flags & OP_FORM;
    return op;
}

bool op_is_for_card(const Op *op, const Attrs *attrs)
{
    return op->card && (!op->on_card || op->on_card(attrs));
}

int op_arity(const Op *op)
{
    int n = 0;
    while (op->args && op->args[n].name)
        n++;
    return n;
}

bool op_takes(const Op *op, uint32_t n)
{
    int arity = op_arity(op);
    return (int)n == arity || (op->flags & OP_ONE_FEWER && (int)n + 1 == arity);
}

typedef struct SymbolSearch {
    Str symbol;
    const Op *found;
} SymbolSearch;

static bool match_symbol(void *data, const Op *op)
{
    SymbolSearch *search = data;
    if (op->symbol && str_is(search->symbol, op->symbol))
        search->found = op;
    return !search->found;
}

const Op *op_find_symbol(Ctx *cx, Str symbol)
{
    SymbolSearch search = {symbol, NULL};
    if (cx->ops)
        op_each(cx->ops, match_symbol, &search);
    return search.found;
}
