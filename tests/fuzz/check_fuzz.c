/* Type inference: whatever the parser accepts gets its types or is refused with a diagnostic. */
#include "ir/print.h"
#include "parser/parser.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ctx cx;
    if (!ctx_init(&cx, &stdlib_ops))
        return 0;
    const ParseEnv env = {0};
    uint32_t source = sources_add(&cx.sources, "input", (const char *)data, size);
    Module *m = parse_text(&cx, source, &env);
    size_t before = cx.diags->errors;
    if (m && typecheck_module(&cx, m, NULL)) {
        Buf text = {0};
        ir_print_module(&text, m, (PrintStyle){.types = true});
        buf_deinit(&text);
    } else if (m && cx.diags->errors == before) {
        abort();
    }
    module_release(m);
    ctx_deinit(&cx);
    return 0;
}
