/* The parser and the printer: any text is read or refused, and what is printed reads back as the same text. */
#include "ir/print.h"
#include "parser/parser.h"
#include "stdlib/stdlib.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static Module *read(Ctx *cx, Str text)
{
    const ParseEnv env = {0};
    return parse_text(cx, sources_add(&cx->sources, "input", text.ptr, text.len), &env);
}

/* Printed text that is read differently is a bug. */
static void check_again(Ctx *cx, const Module *m)
{
    Buf first = {0}, second = {0};
    ir_print_module(&first, m, (PrintStyle){0});
    Module *again = read(cx, (Str){buf_text(&first), first.n});
    if (again)
        ir_print_module(&second, again, (PrintStyle){0});
    bool same = again && strcmp(buf_text(&first), buf_text(&second)) == 0;
    bool limited = cx->limits.hit != LIMIT_NONE;
    module_release(again);
    if (!same && !limited)
        abort();
    buf_deinit(&first);
    buf_deinit(&second);
}

static void read_cells(Ctx *cx, Str text)
{
    const ParseEnv env = {.redefine = true};
    CellParser cells;
    CellItem item;
    cell_parser_init(&cells, cx, sources_add(&cx->sources, "cell", text.ptr, text.len));
    do {
        cell_parser_next(&cells, &env, &item);
        module_release(item.module);
    } while (item.kind != CELL_END && item.kind != CELL_ERROR && cells.at < text.len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ctx cx;
    if (!ctx_init(&cx, &stdlib_ops))
        return 0;
    Str text = {(const char *)data, size};
    Module *m = read(&cx, text);
    if (m)
        check_again(&cx, m);
    module_release(m);
    read_cells(&cx, text);
    ctx_deinit(&cx);
    return 0;
}
