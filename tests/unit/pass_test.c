/* The driver of passes and a pass that gives nothing: that is never taken for an answer. */
#include "check.h"
#include "passes/pass.h"

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

int main(void)
{
    CHECK(code_of(silent) == E0901_BUG);
    CHECK(code_of(reports) == E0603_PIPELINE);
    CHECK(code_of(interrupted) == E0501_INTERRUPTED);
    return check_done();
}
