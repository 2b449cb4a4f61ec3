/* `:schedule`: the loops that code is made of, what they cost by count and by the clock, and what this machine could do at best. */
#include "sched/hand.h"
#include "session/views/bench.h"
#include "session/views/cost.h"

#include "base/memory.h"

#include <stdlib.h>

/* Text, page and what programs read. */
static void show_costs(RelaySession *s, const JitReport *report, const Buf *nests,
                       const CostClocks *measured)
{
    CostView v = cost_view(s, report, nests, measured);
    Buf text = {0}, parts = {0}, html = {0}, json = {0};
    cost_text(&v, &text);
    cost_html(&v, &html);
    cost_json(&v, &json);
    if (s->options.parts)
        cost_parts(&v, &parts);
    emit_in_parts(s, &text, s->options.parts ? &parts : NULL, &html, &json);
    buf_deinit(&parts);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

static bool by_strategies(const char *steps)
{
    return !steps || hand_is(steps, "plain") || hand_is(steps, "direct");
}

/* Of several kernels the first refuses steps that may have been meant for another, so what is said is that there are several. */
static bool has_several(RelaySession *s, Module *env, const Name *name)
{
    const char *steps = s->steps;
    Buf why = {0}, nests = {0};
    Runnable code;
    Arena scratch;
    JitReport report = {.arena = &scratch};
    JitTextWish wish = {.kind = JIT_TEXT_SCHEDULE, .report = &report};
    arena_init(&scratch, &s->cx.limits);
    s->steps = NULL;
    if (s->jit && engine_compile(s, env, name, COMPILE_TO_SHOW, &code, &why)) {
        s->jit_table->text(s->jit, code.env, name, &wish, &nests);
        engine_release(s, &code);
    }
    s->steps = steps;
    bool several = report.kernels.n > 1;
    buf_deinit(&why);
    buf_deinit(&nests);
    arena_deinit(&scratch);
    return several;
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

/* Times the calls as they are, and then with a clock around each kernel, which takes time itself. */
static bool measure(RelaySession *s, Module *env, const Name *name, const Runnable *code,
                    const Thunk *call, Arena *scratch, CostClocks *out)
{
    Runnable clocked;
    Timing unused;
    Buf why = {0};
    size_t n;
    if (!time_calls(s, code, call->n, call->args, (TimeWish){.seconds = 0.2}, &out->whole))
        return false;
    s->clocked = true;
    bool ok = engine_compile(s, env, name, COMPILE_TO_SHOW, &clocked, &why);
    if (ok && time_calls(s, &clocked, call->n, call->args, (TimeWish){.seconds = 0.2}, &unused)) {
        const JitClock *const *at = s->jit_table->clocks(s->jit, clocked.env, clocked.name, &n);
        for (size_t i = 0; i < n; i++)
            vec_push(&out->kernels, scratch, *at[i]);
    }
    if (ok)
        engine_release(s, &clocked);
    s->clocked = false;
    buf_deinit(&why);
    return session_status(s) == RELAY_OK;
}

/* A definition is shown; an expression also runs, on what it is given by variables. */
static void schedule(CommandCall *c, Module *env, const Name *name, const Thunk *call, Span steps)
{
    RelaySession *s = c->s;
    Buf why = {0}, nests = {0};
    Runnable code;
    CostClocks measured = {0};
    Arena scratch;
    JitReport report = {.arena = &scratch};
    JitTextWish wish = {.kind = JIT_TEXT_SCHEDULE, .report = &report};
    arena_init(&scratch, &s->cx.limits);
    if (call) {
        wish.n = call->n;
        wish.args = call->args;
    }
    /* What is kept in files does not say what the loops are. */
    if (engine_compile(s, env, name, COMPILE_TO_SHOW, &code, &why)) {
        bool ok = s->jit_table->text(s->jit, code.env, name, &wish, &nests) &&
                  (!call || measure(s, env, name, &code, call, &scratch, &measured));
        bool shows = ok && session_status(s) == RELAY_OK;
        if (shows && !report.kernels.n && !by_strategies(s->steps))
            diag_error(s->cx.diags, E0402_USAGE, steps,
                       "here is no nest of loops that steps could change");
        else if (shows && report.kernels.n)
            show_costs(s, &report, &nests, call ? &measured : NULL);
        else if (shows)
            emit_printf(s, RELAY_OUTPUT_DISPLAY, "%s",
                        runnable_is_constant(&code) ? TIME_KNOWN : NO_LOOPS);
        engine_release(s, &code);
    } else {
        if (why.n && !by_strategies(s->steps) && has_several(s, env, name)) {
            buf_clear(&why);
            buf_str(&why, HAND_ONE_KERNEL);
        }
        say_why(c, steps, &why);
    }
    buf_deinit(&why);
    buf_deinit(&nests);
    arena_deinit(&scratch);
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

/* What stands behind the expression and is no step may have been meant as one. */
static void suggest_step(const CommandCall *c, DiagsMark before)
{
    enum { NAMES_MOST = 32 };
    const char *names[NAMES_MOST];
    size_t n = 0;
    Diag *d = diags_within(c->s->cx.diags, before, c->args);
    const Source *source = d && d->code == E0104_EXPECTED_TOKEN
                               ? sources_get(&c->s->cx.sources, d->span.source)
                               : NULL;
    while (n < NAMES_MOST && (names[n] = hand_name(n)))
        n++;
    char *word =
        source ? memory_text(source->text + d->span.from, d->span.to - d->span.from) : NULL;
    if (word)
        diag_suggest(d, word, n, names);
    free(word);
}

void command_schedule(CommandCall *c)
{
    RelaySession *s = c->s;
    Span at = c->args;
    char *steps = take_steps(c, &at);
    DiagsMark before = diags_mark(s->cx.diags);
    const Def *def = command_global(c);
    Module *m = command_module(c);
    Thunk t;
    s->steps = steps;
    if (m && def) {
        schedule(c, s->env, def->name, NULL, at);
    } else if (m && code_thunk(s, m, &t)) {
        schedule(c, t.module, t.name, expr_as_function(m->expr) ? NULL : &t, at);
        thunk_free(s, &t);
    }
    if (!m)
        suggest_step(c, before);
    s->steps = NULL;
    module_release(m);
    free(steps);
}
