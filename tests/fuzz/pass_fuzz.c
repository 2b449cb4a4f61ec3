/* Passes on programs that nobody would write: the first two bytes choose passes, the rest is a program. What has types before a pass has
 * well-formed types behind it and is read again as it was printed, or the pass says why there is nothing behind it. */
#include "ir/print.h"
#include "ir/verify.h"
#include "parser/parser.h"
#include "passes/pass.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* So long, in seconds, a program may take. */
static const double patience = 2;

static Module *read(Ctx *cx, const char *text, size_t size)
{
    return parse_text(cx, sources_add(&cx->sources, "input", text, size), &(ParseEnv){0});
}

static void check_text(Ctx *cx, const Module *m)
{
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){0});
    Module *again = read(cx, buf_text(&text), text.n);
    if (!again && !text.failed && cx->limits.hit == LIMIT_NONE)
        abort();
    module_release(again);
    buf_deinit(&text);
}

/* The module behind the pass, the caller's. */
static Module *run_pass(Ctx *cx, Module *m, const Pass *pass)
{
    PassContext pc = {.cx = cx, .opt_level = OPT_LEVEL_MOST};
    size_t before = cx->diags->errors;
    Module *now = passes_run_text(&pc, m, pass->name);
    bool limited = cx->limits.hit != LIMIT_NONE;
    if (!now && !limited && cx->diags->errors == before)
        abort();
    if (now && !limited && !ir_verify(cx, now, NULL, true) && cx->limits.hit == LIMIT_NONE)
        abort();
    if (now && cx->limits.hit == LIMIT_NONE)
        check_text(cx, now);
    module_release(m);
    return now;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    Ctx cx;
    size_t n = 0;
    while (passes[n])
        n++;
    if (size < 3 || !ctx_init(&cx, &stdlib_ops))
        return 0;
    cx.limits.memory_most = (size_t)256 << 20;
    cx.limits.seconds_most = patience;
    limits_start(&cx.limits);
    Module *m = read(&cx, (const char *)data + 2, size - 2);
    if (m && !typecheck_module(&cx, m, NULL)) {
        module_release(m);
        m = NULL;
    }
    for (int i = 0; i < 2 && m; i++)
        m = run_pass(&cx, m, passes[data[i] % n]);
    module_release(m);
    ctx_deinit(&cx);
    return 0;
}
