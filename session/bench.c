/* Timing: a workload of a benchmark folder, or `@main` of any program. What is timed stands in that folder's workloads.md. */
#include "runtime/npy.h"
#include "base/memory.h"
#include "session/internal.h"
#include "session/manifest.h"
#include "session/timing.h"
#include "session/views/bench.h"
#include "typecheck/typecheck.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct Bench {
    RelaySession *s;
    const char *name; /* of the workload or file */
    Engine engine;
    Module *module;
    const Name *entry;
    Runnable code;
    Value *args;
    uint32_t n;
    double started; /* before the text was parsed */
    TimeWish wish;
    Timing timing;
    JitCounts kernels;
    double compile; /* from the text to the end of the first call */
    Value result;
    const Peers *peers; /* NULL: there is no file */
} Bench;

/* ---- parameters -------------------------------------------------------------------------------------------------------------- */

static bool make_args(Bench *b, const Workload *w)
{
    for (size_t i = 0; i < w->n; i++) {
        const WorkloadParam *p = &w->params[i];
        b->args[i] = workload_value(b->s, b->module, w->name, p, 0);
        if (value_is_none(b->args[i]))
            return false;
    }
    return true;
}

/* Weights are known when the program is compiled; inputs never are. */
static bool bind_weights(Bench *b, const Workload *w)
{
    bool *known = memory_zeroed(w->n + 1, sizeof *known);
    for (size_t i = 0; known && i < w->n; i++)
        known[i] = w->params[i].weight;
    Module *bound = known ? bind_params(b->s, b->module, b->entry, known, b->args) : NULL;
    free(known);
    if (!bound)
        return false;
    module_release(b->module);
    b->module = bound;
    b->n = module_find(bound, b->entry)->fn->params.n;
    return true;
}

/* ---- timing ------------------------------------------------------------------------------------------------------------------ */

static bool measure(Bench *b)
{
    if (!engine_prepare_for(b->s, b->engine, b->module, b->entry, b->args, &b->code))
        return false;
    if (engine_compiles(b->code.engine) && b->s->opt_level > 0 && runnable_is_constant(&b->code)) {
        Diag *d =
            diag_error(b->s->cx.diags, E0402_USAGE, (Span){0},
                       "`%s`: the optimiser knew the result, and nothing is left to time", b->name);
        diag_help(d, "what is to be measured has to be a parameter without a value in `--params`; "
                     "`-O 0` compiles the program as written");
        return false;
    }
    b->wish.result = &b->result;
    b->compile = clock_seconds() - b->started;
    if (!time_calls(b->s, &b->code, b->n, b->args, b->wish, &b->timing))
        return false;
    b->compile += b->timing.first;
    if (engine_compiles(b->code.engine))
        b->kernels = b->s->jit_table->counts(b->s->jit, b->code.env, b->entry);
    return true;
}

/* ---- what came out -------------------------------------------------------------------------------------------------------- */

typedef struct Flat {
    double *at;
    int64_t n, cap;
    bool integers;
} Flat;

static bool flatten(Flat *f, Value v, int depth)
{
    TensorView view;
    if (v.kind == VALUE_TUPLE && depth < 64) {
        bool ok = true;
        for (uint32_t i = 0; i < object_n(v.object) && ok; i++)
            ok = flatten(f, object_get(v.object, i), depth + 1);
        return ok;
    }
    if (!value_view(&v, &view))
        return true;
    if (f->n + view.t.size > f->cap) {
        f->cap = 2 * (f->n + view.t.size);
        double *grown = memory_resize(f->at, (size_t)f->cap * sizeof *grown);
        if (!grown)
            return false;
        f->at = grown;
    }
    f->integers &= !dtype_is_float(view.t.dtype);
    for (int64_t i = 0; i < view.t.size; i++)
        f->at[f->n++] = tensor_get_double(&view.t, i);
    return true;
}

/* JSON has no numbers that are none. */
static void print_number(Buf *out, bool integer, double v)
{
    if (isnan(v) || isinf(v))
        buf_str(out, isnan(v) ? "\"nan\"" : v > 0 ? "\"inf\"" : "\"-inf\"");
    else
        buf_printf(out, integer ? "%.0f" : "%.17g", v);
}

static void describe(Buf *out, const Flat *f)
{
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < f->n; i++) {
        sum += f->at[i];
        squares += f->at[i] * f->at[i];
    }
    buf_printf(out, "{\"size\": %lld, \"first\": [", (long long)f->n);
    for (int64_t i = 0; i < 8 && i < f->n; i++) {
        buf_str(out, i ? ", " : "");
        print_number(out, f->integers, f->at[i]);
    }
    buf_str(out, "], \"spread\": [");
    int64_t n = f->n < 24 ? f->n : 24;
    for (int64_t i = 0; i < n; i++) {
        buf_str(out, i ? ", " : "");
        print_number(out, f->integers, f->at[i * f->n / 24]);
    }
    buf_str(out, "], \"sum\": ");
    print_number(out, false, sum);
    buf_str(out, ", \"l2\": ");
    print_number(out, false, sqrt(squares));
    buf_char(out, '}');
}

static void report(Bench *b, bool json)
{
    Buf out = {0};
    Flat f = {.integers = true};
    double least = b->timing.least * 1e3, median = b->timing.median * 1e3;
    int threads = pool_threads(b->s->cx.pool);
    Buf how = {0}; /* the evaluator runs what is written, at no level */
    buf_str(&how, engine_names[b->code.engine]);
    if (b->code.engine != ENGINE_INTERP)
        buf_printf(&how, " level %d", b->s->opt_level);
    if (json && flatten(&f, b->result, 0)) {
        buf_printf(&out, "{\"workload\": \"");
        buf_json(&out, b->name, strlen(b->name));
        buf_printf(&out,
                   "\", \"peer\": \"ours\", \"threads\": %d, \"exec\": \"%s\", \"min_ms\": %.6g, "
                   "\"median_ms\": "
                   "%.6g, \"runs\": %d, \"compile_ms\": %.6g, \"opt_level\": %d, "
                   "\"kernel_calls\": %u, \"kernels\": %u, \"cached\": %s, ",
                   threads, engine_names[b->code.engine], least, median, b->timing.runs,
                   b->compile * 1e3, b->s->opt_level, b->kernels.calls, b->kernels.kernels,
                   b->kernels.kept ? "true" : "false");
        if (b->code.engine == ENGINE_GPU)
            buf_printf(&out, "\"gpu_ms\": %.6g, \"gpu_in\": %.0f, \"gpu_out\": %.0f, ",
                       b->timing.card.seconds * 1e3, b->timing.card.to, b->timing.card.from);
        if (b->peers) {
            peers_json(b->peers, &b->timing, &out);
            buf_str(&out, ", ");
        }
        buf_str(&out, "\"out\": ");
        describe(&out, &f);
        buf_str(&out, "}\n");
    } else {
        buf_printf(&out,
                   "%-28s %-12s  %d thread%s  min %10.4f ms  median %10.4f ms  %6d runs  "
                   "first %8.1f ms  "
                   "%u calls of %u kernels%s",
                   b->name, buf_text(&how), threads, threads == 1 ? " " : "s", least, median,
                   b->timing.runs, b->compile * 1e3, b->kernels.calls, b->kernels.kernels,
                   b->kernels.kept ? ", from the cache" : "");
        if (b->code.engine == ENGINE_GPU)
            buf_printf(&out, ", on the card %.4f ms", b->timing.card.seconds * 1e3);
        buf_char(&out, '\n');
        if (b->peers) {
            peers_text(b->peers, &b->timing, &out);
            buf_char(&out, '\n');
        }
    }
    free(f.at);
    emit_text(b->s, RELAY_OUTPUT_TEXT, &out);
    buf_deinit(&how);
    buf_deinit(&out);
}

/* ---- the verb ------------------------------------------------------------------------------------------------------------------ */

/* The entry's parameters as they are now. */
static bool take_entry(Bench *b, const char *name)
{
    const Def *def = module_find(b->module, b->entry);
    if (!def)
        diag_error(b->s->cx.diags, E0402_USAGE, (Span){0}, "`%s` has no function `@%s`", name,
                   b->entry->text);
    b->n = def ? def->fn->params.n : 0;
    b->args = def ? memory_zeroed((size_t)b->n + 1, sizeof *b->args) : NULL;
    return b->args != NULL;
}

static bool load(Bench *b, const char *name, const char *text, size_t len, const char *entry)
{
    b->started = clock_seconds();
    b->module = load_program(b->s, name, text, len, true);
    b->entry = ctx_name(&b->s->cx, entry);
    return b->module != NULL;
}

static bool load_workload(Bench *b, Arena *arena, const char *dir, const char *name)
{
    Workload w = {0};
    Buf path = {0};
    if (!manifest_read(b->s, arena, dir, name, &w))
        return false;
    buf_printf(&path, "%s/%s", dir, w.program);
    size_t len;
    char *text = file_read(&b->s->cx.limits, b->s->cx.diags, buf_text(&path), &len);
    bool ok = text && load(b, buf_text(&path), text, len, w.entry) && take_entry(b, name);
    if (ok && b->n != w.n) {
        diag_error(b->s->cx.diags, E0403_FORMAT, (Span){0},
                   "`%s`: the manifest has %zu parameters, `@%s` has %u", name, w.n, w.entry, b->n);
        ok = false;
    }
    free(text);
    buf_deinit(&path);
    /* The parameters are made before the clock starts again. */
    double before = clock_seconds();
    ok = ok && make_args(b, &w);
    b->started += clock_seconds() - before;
    return ok && bind_weights(b, &w);
}

static bool load_file(Bench *b, const RelayRequest *r)
{
    const char *entry = request_find(r, "entry");
    if (!load(b, r->name, r->text, r->len, entry ? entry : "main"))
        return false;
    double before = clock_seconds();
    Module *bound = request_bound(b->s, r, b->module, b->entry);
    if (!bound)
        return false;
    module_release(b->module);
    b->module = bound;
    bool ok = take_entry(b, r->name) &&
              request_args(b->s, r, b->module, module_find(b->module, b->entry)->fn, b->args);
    b->started += clock_seconds() - before;
    return ok;
}

RelayStatus stage_bench(RelaySession *s, const RelayRequest *r)
{
    const char *workload = request_find(r, "workload"), *dir = request_find(r, "bench");
    const char *threads = request_find(r, "threads"), *seconds = request_find(r, "seconds");
    const char *runs = request_find(r, "runs"), *exec = request_find(r, "exec");
    const char *target = request_find(r, "target");
    Bench b = {
        .s = s,
        .name = workload ? workload : r->name,
        .engine = RELAY_HAS_LLVM ? ENGINE_JIT : ENGINE_INTERP,
        .wish = {.seconds = seconds ? strtod(seconds, NULL) : 1, .runs = runs ? atoi(runs) : 3}};
    b.wish.runs = b.wish.runs < 1 ? 1 : b.wish.runs;
    if (exec && !engine_parse(exec, &b.engine))
        diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                   "`--exec %s`: there are the engines auto, interp, jit and gpu", exec);
    if (target && b.engine != ENGINE_GPU)
        diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                   "`--target` says what kernels are made for, with `--exec gpu`");
    else if (target && session_jit(s))
        s->gpu_target = stage_target(s, target);
    relay_session_set(s, "threads", threads ? threads : "1");
    /* With more threads the library sums in another order. */
    blas_set_threads(s->cx.blas, threads && !s->exact ? atoi(threads) : 1);
    Arena arena;
    arena_init(&arena, &s->cx.limits);
    const char *file = request_find(r, "peers");
    Peers peers;
    b.peers = file ? &peers : NULL;
    bool ok = session_status(s) == RELAY_OK &&
              (!file || peers_read(s, &arena, file, str_of(workload ? workload : ""), &peers)) &&
              (workload ? load_workload(&b, &arena, dir ? dir : ".", workload) : load_file(&b, r));
    if (ok && measure(&b))
        report(&b, request_flag(r, "json"));
    for (uint32_t i = 0; b.args && i < b.n; i++)
        value_release(b.args[i]);
    value_release(b.result);
    free(b.args);
    RelayStatus status = session_status(s);
    engine_release(s, &b.code);
    module_release(b.module);
    arena_deinit(&arena);
    return status;
}
