/* The driver of passes: a pass that gives nothing is never taken for an answer, and between no change and all of them lie programs. */
#include "check.h"
#include "ir/equal.h"
#include "ir/verify.h"
#include "parser/parser.h"
#include "passes/pass.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <string.h>

static bool silent(PassRun *run, Module *old)
{
    (void)run;
    (void)old;
    return false;
}

static bool reports(PassRun *run, Module *old)
{
    (void)old;
    diag_error(run->cx->diags, E0603_PIPELINE, run->where, "not like this");
    return false;
}

static bool interrupted(PassRun *run, Module *old)
{
    (void)old;
    atomic_store(&run->cx->limits.interrupted, true);
    return !limit_hit(&run->cx->limits);
}

/* What the pass leads to: a code, the only one. */
static DiagCode code_of(bool (*module)(PassRun *run, Module *old))
{
    Ctx cx;
    CHECK(ctx_init(&cx, NULL));
    limits_start(&cx.limits);
    Module *m = module_new(&cx);
    const Pass row = {.name = "Silent", .doc = "Gives nothing.", .module = module};
    PassContext context = {.cx = &cx};
    PassRun run = {.context = &context, .cx = &cx, .pass = &row};
    CHECK(pass_run_row(&run, m, &row) == NULL);
    CHECK(cx.diags->n == 1);
    DiagCode code = cx.diags->first ? cx.diags->first->code : E0401_FILE;
    module_release(m);
    ctx_deinit(&cx);
    return code;
}

/* ---- the changes of a pass, one by one ------------------------------------------------------------------------------------------- */

static const char *const programs[] = {
    "def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], "
    "%s: Tensor[(4, 1, 1), float32], %v: Tensor[(4, 4, 3, 3), float32]) {"
    "  %0 = nn.conv2d(%x, %w, padding=[1, 1]) * %s; %1 = nn.relu(%0 * (2f + 3f));"
    "  %2 = nn.conv2d(%1 * %s, %v, padding=[1, 1]); nn.softmax(mean(%2, axis=[2, 3]) / 2f) }",
    "def @main(%x: Tensor[(2, 3), float32], %v: Tensor[(4, 3), float32], "
    "%w: Tensor[(4, 3), float32]) {"
    "  let %a = nn.dense(%x, %v, units=4); let %b = nn.dense(%x, %w, units=4);"
    "  let %dead = exp(%a); (nn.relu(%a) + 0f, nn.relu(%a) + 0f, sqrt(%b * %b)) }",
    "def @sq(%x: float32, Inline=1) { %x * %x }"
    "def @f(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @f(%n - 1) } }"
    "def @main(%x: float32) { let %g = fn (%y: float32) { @sq(%y) + %x };"
    "  let %r = ref(%g(%x)); let %u = ref_write(%r, @sq(2f)); (ref_read(%r), @f(3)) }",
    "type Tree { Leaf, Node(Tree, float32, Tree), }"
    "def @sum(%t: Tree) -> float32 { match (%t) { Leaf => 0f, "
    "  Node(%l, %v, %r) => @sum(%l) + %v + @sum(%r) } }"
    "def @main(%x: float32) { @sum(Node(Node(Leaf, %x, Leaf), 1f + 2f, Leaf)) }",
    "def @main(%x: Tensor[(1, 4, 8, 8), int8], %w: Tensor[(4, 4, 1, 1), int8]) {"
    "  %0 = qnn.dequantize(%x, 0.5f, 1); %1 = qnn.dequantize(%w, 0.25f, 0);"
    "  %2 = nn.relu(nn.conv2d(%0, %1)); qnn.quantize(%2, 0.5f, 3, out_dtype=\"int8\") }",
};

static Module *module_of(Ctx *cx, const char *text)
{
    uint32_t source = sources_add(&cx->sources, "test", text, strlen(text));
    Module *m = parse_text(cx, source, &(ParseEnv){0});
    CHECK(m && typecheck_module(cx, m, NULL));
    return m;
}

static Module *run_counted(Ctx *cx, Module *m, const char *pass, uint64_t *left)
{
    PassContext pc = {.cx = cx, .opt_level = OPT_LEVEL_MOST, .any_level = true, .rewrites = left};
    return passes_run_text(&pc, m, pass);
}

static void check_changes(Ctx *cx, Module *m, const char *pass, Module *whole, uint64_t n)
{
    Module *before = NULL;
    for (uint64_t k = 0; k <= n && k < 40; k++) {
        uint64_t left = k;
        Module *now = run_counted(cx, m, pass, &left);
        bool sound = now && left == 0 && ir_verify(cx, now, NULL, true) &&
                     (k < n || ir_module_equal(now, whole)) &&
                     !(before && ir_module_equal(before, now));
        if (!sound)
            printf("%s after %llu of %llu changes\n", pass, (unsigned long long)k,
                   (unsigned long long)n);
        CHECK(sound);
        module_release(before);
        before = now;
        diags_clear(cx->diags);
    }
    module_release(before);
}

/* After any number of its changes a pass leaves a program, another with each, and after the last one what it makes when nobody counts. */
static size_t check_prefixes(const char *text)
{
    Ctx cx;
    size_t changes = 0;
    CHECK(ctx_init(&cx, &stdlib_ops));
    Module *m = module_of(&cx, text);
    for (const Pass *const *p = passes; *p; p++) {
        uint64_t left = UINT64_MAX;
        limits_start(&cx.limits);
        Module *whole = run_counted(&cx, m, (*p)->name, NULL);
        Module *counted = whole ? run_counted(&cx, m, (*p)->name, &left) : NULL;
        if (counted)
            check_changes(&cx, m, (*p)->name, whole, UINT64_MAX - left);
        changes += UINT64_MAX - left;
        module_release(counted);
        module_release(whole);
        diags_clear(cx.diags);
    }
    module_release(m);
    ctx_deinit(&cx);
    return changes;
}

int main(void)
{
    size_t changes = 0;
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
        changes += check_prefixes(programs[i]);
    CHECK(changes > 100);
    CHECK(code_of(silent) == E0901_BUG);
    CHECK(code_of(reports) == E0603_PIPELINE);
    CHECK(code_of(interrupted) == E0501_INTERRUPTED);
    return check_done();
}
