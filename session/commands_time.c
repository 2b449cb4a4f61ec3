/* Commands that measure: `:time`, `:bench`. */
#include "session/commands.h"
#include "session/tier.h"
#include "session/views/bench.h"

static const TimeWish time_wish = {.seconds = 0.2};

static void time_row(Buf *b, const char *name, Timing t)
{
    buf_printf(b, "%-10s", name);
    print_time(b, t.least);
    buf_str(b, "   first ");
    print_time(b, t.first);
    buf_printf(b, "   %6d run%s\n", t.runs, t.runs == 1 ? "" : "s");
}

/* What a run brings to the card, and what comes back for this machine to read. */
static void say_transfers(Buf *b, const CudaWork *card)
{
    buf_printf(b, ", %.1f KiB go to it and %.1f KiB come back", card->to / 1024, card->from / 1024);
}

/* Adds the row of the JIT or of the card; false when nothing was measured. */
static bool time_compiled(RelaySession *s, Engine engine, const Thunk *t, double evaluator, Buf *b)
{
    const char *name = engine == ENGINE_GPU ? "GPU" : "JIT";
    Buf why = {0};
    Runnable code;
    Timing jit;
    double start = clock_seconds();
    bool was = engine_on_gpu(s, engine == ENGINE_GPU);
    bool compiled = engine_compile(s, t->module, t->name, COMPILE_TO_RUN, &code, &why);
    engine_on_gpu(s, was);
    double compile = clock_seconds() - start;
    bool ok = compiled && time_calls(s, &code, t->n, t->args, time_wish, &jit);
    if (ok) {
        jit.first += compile;
        time_row(b, name, jit);
        JitCounts kernels = s->jit_table->counts(s->jit, code.env, t->name);
        buf_printf(b, "%-10s%8.1f times as fast; %s in %.1f ms at level %d", "",
                   evaluator / jit.least, kernels.kept ? "taken from the cache" : "compiled",
                   compile * 1e3, s->opt_level);
        if (kernels.kernels)
            buf_printf(b, "; %u call%s of %u kernel%s, %u made before", kernels.calls,
                       kernels.calls == 1 ? "" : "s", kernels.kernels,
                       kernels.kernels == 1 ? "" : "s", kernels.kernels - kernels.made);
        if (runnable_is_constant(&code))
            buf_str(b, "\n" TIME_KNOWN);
    } else if (!compiled) {
        buf_printf(b, "%-10s%s", name, buf_text(&why));
    }
    if (ok && engine == ENGINE_GPU) {
        buf_str(b, "; of a run the card works ");
        print_time(b, jit.card.seconds);
        say_transfers(b, &jit.card);
    }
    if (compiled)
        engine_release(s, &code);
    buf_deinit(&why);
    return ok;
}

static bool is_function(const Expr *e)
{
    const Type *type = e ? type_find(e->type) : NULL;
    return type && type->kind == TYPE_FUNC;
}

void command_time(CommandCall *c)
{
    RelaySession *s = c->s;
    Module *m = command_program(c);
    Thunk t;
    if (!m || !thunk_make(s, s->env, m, m->expr, CLOSURES_ALL, &t)) {
        module_release(m);
        return;
    }
    Buf b = {0};
    Timing evaluator;
    Runnable code;
    bool ok = engine_prepare(s, ENGINE_INTERP, t.module, t.name, &code) &&
              time_calls(s, &code, t.n, t.args, time_wish, &evaluator);
    if (ok) {
        time_row(&b, "evaluator", evaluator);
        time_compiled(s, ENGINE_JIT, &t, evaluator.least, &b);
        if (s->engine == ENGINE_GPU) {
            buf_char(&b, '\n');
            time_compiled(s, ENGINE_GPU, &t, evaluator.least, &b);
        }
        if (s->engine == ENGINE_AUTO) {
            buf_str(&b, "\ncells run on the evaluator");
            tier_describe(s, &b);
        }
        if (is_function(m->expr))
            buf_str(&b, "\n" TIME_FUNCTION);
    }
    if (ok && session_status(s) == RELAY_OK)
        emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    engine_release(s, &code);
    buf_deinit(&b);
    thunk_free(s, &t);
    module_release(m);
}

static void bench(RelaySession *s, const Thunk *t, bool function, TimeWish wish, const Peers *peers)
{
    Runnable code;
    Timing timing;
    double start = clock_seconds();
    if (!engine_prepare(s, session_steady_engine(s), t->module, t->name, &code))
        return;
    double prepare = clock_seconds() - start;
    if (time_calls(s, &code, t->n, t->args, wish, &timing) && session_status(s) == RELAY_OK) {
        timing.first += prepare;
        bench_emit(s, &(BenchView){.code = &code,
                                   .timing = &timing,
                                   .peers = peers,
                                   .opt_level = s->opt_level,
                                   .function = function,
                                   .constant = engine_compiles(code.engine) &&
                                               runnable_is_constant(&code)});
    }
    engine_release(s, &code);
}

void command_bench(CommandCall *c)
{
    RelaySession *s = c->s;
    uint64_t runs = 3;
    double seconds = 1;
    Str file = {"", 0}, workload = {"", 0};
    for (size_t left = 0; left != c->text.len;) {
        left = c->text.len;
        if (!command_real_setting(c, "seconds", &seconds) || !command_setting(c, "runs", &runs))
            return;
        command_word_setting(c, "peers", &file);
        command_word_setting(c, "workload", &workload);
    }
    Module *m = command_program(c);
    Thunk t;
    Arena arena;
    arena_init(&arena, &s->cx.limits);
    Peers peers;
    const char *path = arena_copy_text(&arena, file.ptr, file.len);
    if (m && (!file.len || peers_read(s, &arena, path, workload, &peers)) &&
        thunk_make(s, s->env, m, m->expr, CLOSURES_ALL, &t)) {
        bench(s, &t, is_function(m->expr), (TimeWish){.seconds = seconds, .runs = (int)runs},
              file.len ? &peers : NULL);
        thunk_free(s, &t);
    }
    arena_deinit(&arena);
    module_release(m);
}
