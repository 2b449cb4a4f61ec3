/* `:schedule`: the loops that code is made of, what they cost by count and by the clock, and what this machine could do at best. */
#include "runtime/pool.h"
#include "runtime/speed.h"
#include "sched/hand.h"
#include "session/commands.h"

#include "base/memory.h"

#include <stdlib.h>

/* What of the time on this machine must pass: for arithmetic, and for memory. */
typedef struct Bound {
    double arithmetic, memory, peak, bandwidth;
} Bound;

static Bound bound_of(RelaySession *s, const JitCost *cost)
{
    Bound b = {0};
    if (s->peak == 0)
        s->peak = speed_of_sums();
    b.peak = s->peak * pool_threads(s->cx.pool);
    b.bandwidth = speed_of_copies(cost->bytes);
    b.arithmetic = cost->operations / b.peak;
    b.memory = b.bandwidth > 0 ? cost->bytes / b.bandwidth : 0;
    return b;
}

static void print_rows(RelaySession *s, const JitCost *cost, const Timing *measured, Buf *out)
{
    Bound b = bound_of(s, cost);
    double bound = b.arithmetic > b.memory ? b.arithmetic : b.memory;
    /* Each operation on a vector is one of a multiplication with an addition. */
    double work = cost->work * 2 * cost->vector_bytes / 4 / s->peak;
    buf_str(out, "\npredicted ");
    print_time(out, work > b.memory ? work : b.memory);
    buf_str(out, "\nbound     ");
    print_time(out, bound);
    if (b.arithmetic > b.memory)
        buf_printf(out, "   by arithmetic: %.3g operations at %.3g a second\n", cost->operations,
                   b.peak);
    else
        buf_printf(out, "   by memory: %.3g bytes at %.3g a second\n", cost->bytes, b.bandwidth);
    if (!measured) {
        buf_str(out, "measured  a call with arguments would be, as of `let %x = …;`\n");
        return;
    }
    buf_str(out, "measured  ");
    print_time(out, measured->least);
    buf_printf(out, "   %.0f %% of the bound, %d run%s\n", 100 * bound / measured->least,
               measured->runs, measured->runs == 1 ? "" : "s");
}

/* Why something was not compiled: a step that cannot be taken, or code that the JIT does not make. */
static void say_why(const CommandCall *c, Span steps, const Buf *why)
{
    RelaySession *s = c->s;
    if (session_status(s) != RELAY_OK || !why->n)
        return;
    if (!s->jit)
        diag_error(s->cx.diags, E0404_LIBRARY, c->args, "there is no JIT: %s", buf_text(why));
    else if (s->steps)
        diag_error(s->cx.diags, E0402_USAGE, steps, "%s", buf_text(why));
    else
        diag_error(s->cx.diags, E0701_CANNOT_COMPILE, c->args, "%s", buf_text(why));
}

/* A definition is shown; an expression also runs, on what it is given by variables. */
static void schedule(CommandCall *c, Module *env, const Name *name, const Thunk *call, Span steps)
{
    RelaySession *s = c->s;
    Buf why = {0}, nests = {0};
    Runnable code;
    Timing measured;
    JitTextWish wish = {.kind = JIT_TEXT_SCHEDULE};
    if (call) {
        wish.n = call->n;
        wish.args = call->args;
    }
    if (engine_compile(s, env, name, call ? COMPILE_TO_RUN : COMPILE_TO_SHOW, &code, &why)) {
        bool ok = s->jit_table->text(s->jit, code.env, name, &wish, &nests) &&
                  (!call || time_calls(s, &code, call, &measured));
        JitCost cost = s->jit_table->cost(s->jit);
        if (ok && cost.kernels == 0)
            buf_str(&nests, NO_LOOPS);
        else if (ok)
            print_rows(s, &cost, call ? &measured : NULL, &nests);
        if (ok && session_status(s) == RELAY_OK)
            emit_text(s, RELAY_OUTPUT_DISPLAY, &nests);
        engine_release(s, &code);
    } else {
        say_why(c, steps, &why);
    }
    buf_deinit(&why);
    buf_deinit(&nests);
}

/* Takes the steps off the arguments. */
static char *take_steps(CommandCall *c, Span *at)
{
    const char *steps = hand_steps(c->text.ptr, c->text.len);
    if (!steps)
        return NULL;
    size_t before = (size_t)(steps - c->text.ptr);
    char *text = memory_text(steps, c->text.len - before);
    *at = (Span){c->args.source, c->args.from + (uint32_t)before, c->args.to};
    while (before > 0 && c->text.ptr[before - 1] == ' ')
        before--;
    c->text.len = before;
    c->args.to = c->args.from + (uint32_t)before;
    return text;
}

void command_schedule(CommandCall *c)
{
    RelaySession *s = c->s;
    Span at = c->args;
    char *steps = take_steps(c, &at);
    const Def *def = command_global(c);
    Module *m = command_module(c);
    Thunk t;
    s->steps = steps;
    if (m && def) {
        schedule(c, s->env, def->name, NULL, at);
    } else if (m && code_thunk(s, m, &t)) {
        schedule(c, t.module, t.name, expr_as_function(m->expr) ? NULL : &t, at);
        thunk_free(&t);
    }
    s->steps = NULL;
    module_release(m);
    free(steps);
}
