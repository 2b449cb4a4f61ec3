/* Programs as saved graphs: whatever is read can be written and read back, and what has its
 * variables in scope is the same program then. */
#include "ir/equal.h"
#include "ir/json_read.h"
#include "ir/json_write.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "stdlib/stdlib.h"

#include <stdlib.h>
#include <string.h>

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t most);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(Ctx *cx, const Module *m)
{
    Buf json = {0};
    graph_write_module(&json, cx, m);
    uint32_t source = sources_add(&cx->sources, "written", buf_text(&json), json.n);
    Module *again = graph_read_module(cx, source, (GraphImport){0});
    if (!again || (ir_verify(cx, m, NULL, false) && !ir_module_equal(m, again)))
        abort();
    module_release(again);
    buf_deinit(&json);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ctx cx;
    if (!ctx_init(&cx, &stdlib_ops))
        return 0;
    uint32_t source = sources_add(&cx.sources, "input", (const char *)data, size);
    Module *m = graph_read_module(&cx, source, (GraphImport){0});
    if (!m && cx.diags->errors == 0)
        abort();
    if (m) {
        Buf text = {0};
        ir_print_module(&text, m, (PrintStyle){0});
        buf_deinit(&text);
        read_back(&cx, m);
    }
    module_release(m);
    ctx_deinit(&cx);
    return 0;
}

/* The number at or behind a place: most are references between nodes. */
static size_t next_number(const uint8_t *data, size_t size, size_t at, size_t *end)
{
    while (at < size && (data[at] < '0' || data[at] > '9'))
        at++;
    for (*end = at; *end < size && data[*end] >= '0' && data[*end] <= '9';)
        ++*end;
    return at;
}

/* Three times of four a reference leads elsewhere, to where another one does; else bytes change. */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t most, unsigned seed)
{
    size_t from_end, to_end;
    if (size == 0 || seed % 4 == 0)
        return LLVMFuzzerMutate(data, size, most);
    size_t from = next_number(data, size, (seed / 4) % size, &from_end);
    size_t to = next_number(data, size, (size_t)(seed * 2654435761u) % size, &to_end);
    size_t n = from_end - from;
    uint8_t number[8];
    if (n == 0 || n > sizeof number || size - (to_end - to) + n > most)
        return LLVMFuzzerMutate(data, size, most);
    memcpy(number, data + from, n);
    memmove(data + to + n, data + to_end, size - to_end);
    memcpy(data + to, number, n);
    return size - (to_end - to) + n;
}
