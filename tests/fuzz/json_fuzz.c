/* Programs as saved graphs: whatever is read can be written, and what is written reads back as the same program. */
#include "ir/equal.h"
#include "ir/json_read.h"
#include "ir/json_write.h"
#include "ir/print.h"
#include "stdlib/stdlib.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(Ctx *cx, const Module *m)
{
    Buf json = {0};
    graph_write_module(&json, cx, m);
    uint32_t source = sources_add(&cx->sources, "written", buf_text(&json), json.n);
    Module *again = graph_read_module(cx, source, (GraphImport){0});
    if (!again || !ir_module_equal(m, again))
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
