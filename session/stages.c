/* The verbs of the command line: a whole program through the stages. */
#include "ir/json_read.h"
#include "base/memory.h"
#include "ir/json_write.h"
#include "ir/print.h"
#include "ir/walk.h"
#include "passes/pass.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/commands.h"
#include "session/compiled.h"
#include "session/views/follow.h"
#include "session/views/trace.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>
#include <string.h>

/* What could be read, broken or not; to be checked. Whether it is judged: then it has to say its version. */
static Module *read_program(RelaySession *s, const char *name, const char *text, size_t len,
                            bool keep_broken, bool judged)
{
    uint32_t source = sources_add(&s->cx.sources, name ? name : "input", text, len);
    if (!source) {
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` is too large", name);
        return NULL;
    }
    ParseEnv env = {.import = session_import,
                    .data = s,
                    .keep_broken = keep_broken,
                    .strict = s->strict,
                    .missing = s->missing,
                    .wants_version = judged};
    return session_parse(s, source, &env);
}

Module *load_program(RelaySession *s, const char *name, const char *text, size_t len, bool check)
{
    Diag *before = s->cx.diags->last;
    Module *m = read_program(s, name, text, len, check, false);
    if (m && (!check || session_check(s, m, NULL, (CheckWish){0})))
        return m;
    if (m && m->broken)
        diags_sort(s->cx.diags, before);
    module_release(m);
    return NULL;
}

static Module *load_request(RelaySession *s, const RelayRequest *r, bool check)
{
    return load_program(s, r->name, r->text, r->len, check);
}

static bool wishes(const RelayRequest *r, const char *key, const char *value)
{
    const char *given = request_find(r, key);
    return given && !strcmp(given, value);
}

/* What stands in comments, and how floats are written. */
static PrintStyle style_of(const RelayRequest *r, bool types)
{
    bool both = wishes(r, "comments", "both"), asked = request_find(r, "comments") != NULL;
    return (PrintStyle){
        .types = types && (!asked || both || wishes(r, "comments", "types")),
        .annotations = types,
        .spans = both || wishes(r, "comments", "spans"),
        .six_digits = wishes(r, "digits", "six"),
    };
}

static void emit_module(RelaySession *s, const Module *m, PrintStyle style)
{
    Buf out = {0};
    ir_print_module(&out, m, style);
    if (out.failed)
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
    else
        emit_text(s, RELAY_OUTPUT_TEXT, &out);
    buf_deinit(&out);
}

static void emit_json(RelaySession *s, const Module *m)
{
    Buf out = {0};
    graph_write_module(&out, &s->cx, m);
    emit_text(s, RELAY_OUTPUT_TEXT, &out);
    buf_deinit(&out);
}

/* `from` and `to` are "text" or "json". */
static RelayStatus stage_fmt(RelaySession *s, const RelayRequest *r)
{
    const char *from = request_find(r, "from"), *to = request_find(r, "to");
    if (from && (!strcmp(from, "json")) != graph_is_json(r->text, r->len)) {
        diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "`%s` is no program in %s",
                   r->name ? r->name : "input", from);
        return session_status(s);
    }
    s->strict = request_flag(r, "strict");
    Module *m = load_request(s, r, false);
    s->strict = false;
    if (m && s->cx.forms && !session_check(s, m, NULL, (CheckWish){0})) {
        module_release(m);
        return session_status(s);
    }
    if (m && to && !strcmp(to, "json"))
        emit_json(s, m);
    else if (m)
        emit_module(s, m, style_of(r, false));
    module_release(m);
    return session_status(s);
}

static RelayStatus stage_check(RelaySession *s, const RelayRequest *r)
{
    s->strict = request_flag(r, "strict");
    Module *m = read_program(s, r->name, r->text, r->len, true, true);
    s->strict = false;
    if (m && !m->broken && request_flag(r, "explain"))
        explain_module(s, m, NULL);
    else if (m && session_check(s, m, NULL, (CheckWish){.answers = true}))
        emit_module(s, m, style_of(r, true));
    else if (m && m->broken)
        diags_sort(s->cx.diags, NULL);
    module_release(m);
    return session_status(s);
}

/* ---- opt -------------------------------------------------------------------------------------------------------------------- */

typedef struct OptRun {
    RelaySession *s;
    bool print, time;
    Trace *trace; /* NULL: none is wanted */
    double total;
    Buf times;
} OptRun;

static void print_pass(OptRun *run, const char *pass, const Module *now)
{
    Buf text = {0};
    ir_print_module(&text, now, (PrintStyle){.types = true, .no_metadata = true});
    emit_printf(run->s, RELAY_OUTPUT_TEXT, "// after %s\n%s\n", pass, buf_text(&text));
    buf_deinit(&text);
}

static void after_pass(void *data, const char *pass, double seconds, const Module *before,
                       const Module *now)
{
    OptRun *run = data;
    run->total += seconds;
    buf_printf(&run->times, "%-28s %9.3f ms\n", pass, seconds * 1e3);
    if (run->print)
        print_pass(run, pass, now);
    if (run->trace)
        trace_after(run->trace, pass, seconds, before, now);
}

static void pass_decided(void *data, const PassEvent *event)
{
    trace_decided(((OptRun *)data)->trace, event);
}

/* `KEY=VALUE` options become a record of attributes, values in Relay's spelling. */
static const Attrs *read_config(RelaySession *s, const RelayRequest *r, Arena *arena, bool *ok)
{
    Diag *before = s->cx.diags->last;
    Attrs *config = arena_alloc_must(arena, sizeof *config + r->n_params * sizeof *config->at, 1);
    config->n = 0;
    for (size_t i = 0; i < r->n_params && *ok; i++) {
        const char *text = r->params[i].value, *eq = strchr(text, '=');
        if (strcmp(r->params[i].key, "config"))
            continue;
        if (!eq || eq == text) {
            diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`--config %s` is not KEY=VALUE", text);
            *ok = false;
            break;
        }
        AttrValue v;
        uint32_t source = sources_add(&s->cx.sources, "--config", eq + 1, strlen(eq + 1));
        *ok = parse_attr_value(&s->cx, arena, source, (Span){source, 0, (uint32_t)strlen(eq + 1)},
                               &v);
        config->at[config->n++] =
            (Attr){.key = arena_copy_text(arena, text, (size_t)(eq - text)), .value = v};
    }
    diags_are_asked(s->cx.diags, before);
    const Attrs *known = *ok ? pass_config(&s->cx, arena, config) : NULL;
    *ok = known != NULL;
    return known;
}

static bool write_views(RelaySession *s, const RelayRequest *r, Trace *t, const char *pipeline)
{
    const char *html = request_find(r, "html"), *json = request_find(r, "trace");
    TraceView view = {.pipeline = pipeline, .by_itself = true};
    Buf page = {0};
    bool ok = true;
    if (html) {
        html_page_begin(&page, "relay opt");
        trace_html(t, &page, view);
        html_one_sheet(&page);
        ok = file_write(&s->cx.limits, s->cx.diags, html, buf_text(&page), page.n);
        buf_clear(&page);
    }
    if (json) {
        trace_json(t, &page, view);
        ok = file_write(&s->cx.limits, s->cx.diags, json, buf_text(&page), page.n) && ok;
    }
    buf_deinit(&page);
    return ok;
}

/* The values of a list that is given in several options, one behind the other; NULL: there is none. */
static const char *joined(RelaySession *s, const RelayRequest *r, const char *key)
{
    const char *all = NULL;
    for (size_t i = 0; i < r->n_params; i++) {
        const char *one = r->params[i].value;
        if (strcmp(r->params[i].key, key))
            continue;
        Buf b = {0};
        buf_printf(&b, "%s%s%s", all ? all : "", all && *all && *one ? "," : "", one);
        all = buf_keep(&b, &s->cx.arena);
    }
    return all;
}

static RelayStatus stage_opt(RelaySession *s, const RelayRequest *r)
{
    const char *pipeline = joined(s, r, "pipeline");
    Trace trace;
    trace_init(&trace, s);
    OptRun run = {
        .s = s, .print = request_flag(r, "print-after-all"), .time = request_flag(r, "time")};
    Module *text = load_request(s, r, true);
    Module *m = !text                       ? NULL
                : request_find(r, "params") ? with_entry(s, r, text, "main")
                                            : module_retain(text);
    bool ok = m != NULL;
    PassContext pc = {.cx = &s->cx,
                      .opt_level = s->opt_level,
                      .any_level = !request_find(r, "O"),
                      .disable = joined(s, r, "disable"),
                      .require = joined(s, r, "require"),
                      .data = &run};
    ok = passes_known(&s->cx, "disable", pc.disable) && ok;
    ok = passes_known(&s->cx, "require", pc.require) && ok;
    bool diff = request_flag(r, "diff");
    if (diff || request_find(r, "html") || request_find(r, "trace")) {
        run.trace = &trace;
        pc.decided = pass_decided;
    }
    if (run.print || run.time || run.trace)
        pc.after = after_pass;
    if (ok)
        pc.config = read_config(s, r, &m->arena, &ok);
    Buf defaults = {0};
    buf_printf(&defaults, "-O%d", pc.opt_level);
    if (!pipeline)
        pipeline = buf_text(&defaults);
    Module *now =
        ok ? passes_run(&pc, m, sources_add(&s->cx.sources, "pipeline", pipeline, strlen(pipeline)))
           : NULL;
    if (now && !diff)
        emit_module(s, now, (PrintStyle){.types = true});
    if (now && run.time)
        emit_printf(s, RELAY_OUTPUT_STREAM, "%s%-28s %9.3f ms\n", buf_text(&run.times), "total",
                    run.total * 1e3);
    if (now && run.trace)
        write_views(s, r, &trace, pipeline);
    trace.untimed = !run.time;
    if (now && diff)
        trace_emit_text(&trace, (TraceView){.pipeline = pipeline, .whole = true});
    trace_deinit(&trace);
    buf_deinit(&defaults);
    buf_deinit(&run.times);
    module_release(now);
    module_release(m);
    module_release(text);
    return session_status(s);
}

/* ---- run -------------------------------------------------------------------------------------------------------------------- */

Module *with_main(RelaySession *s, Module *m)
{
    if (!m->expr)
        return module_retain(m);
    Module *out = module_derive(m);
    if (!out)
        return NULL;
    /* A polymorphic function is the result as it is only where that is declared. */
    const Type *t = m->expr->type ? type_find(m->expr->type) : NULL;
    const Type *declared = t && t->kind == TYPE_FUNC && t->n_params ? t : NULL;
    Function *fn =
        expr_function(&out->arena, m->expr->span, (TypeVarList){0}, (uint32_t)m->free_vars.n,
                      m->free_vars.at, NULL, declared, m->expr);
    module_define(out, ctx_name(&s->cx, "main"), fn, m->expr->span, out);
    if (typecheck_module(&s->cx, out, NULL))
        return out;
    module_release(out);
    return NULL;
}

const Def *find_entry(RelaySession *s, const Module *m, const char *entry)
{
    const Def *def = module_find_text(m, entry);
    if (def)
        return def;
    Diag *d =
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "the program has no function `@%s`", entry);
    const char **names = arena_new_array(&s->cx.arena, const char *, m->defs.n);
    size_t n = 0;
    for (size_t i = 0; names && i < m->defs.n; i++)
        if (m->defs.at[i].fn && !m->defs.at[i].imported)
            names[n++] = m->defs.at[i].name->text;
    diag_suggest_as(d, "@", entry, n, names);
    diag_help(d, "`--entry NAME` picks another function");
    return NULL;
}

Module *with_entry(RelaySession *s, const RelayRequest *r, Module *text, const char *entry)
{
    Module *m = with_main(s, text);
    Module *bound =
        m && find_entry(s, m, entry) ? request_bound(s, r, m, ctx_name(&s->cx, entry)) : NULL;
    module_release(m);
    return bound;
}

static Engine default_engine(void)
{
    return RELAY_HAS_LLVM ? ENGINE_JIT : ENGINE_INTERP;
}

/* The engine that the request names; false after a diagnostic. */
static bool request_engine(RelaySession *s, const RelayRequest *r, Engine *out)
{
    const char *exec = request_find(r, "exec");
    *out = default_engine();
    if (!exec || engine_parse(exec, out))
        return true;
    diag_error(s->cx.diags, E0402_USAGE, (Span){0},
               "`--exec %s`: there are the engines auto, interp, jit and gpu", exec);
    return false;
}

static void show_result(RelaySession *s, const RelayRequest *r, const Function *fn, Value v)
{
    const char *out = request_find(r, "out");
    if (out && !write_result(s, out, v))
        return;
    if (request_flag(r, "json")) {
        Buf b = {0};
        json_encode_value(s, &b, v);
        emit_text(s, RELAY_OUTPUT_RESULT, &b);
        buf_deinit(&b);
    } else if (!out) {
        display_value(s, RELAY_OUTPUT_RESULT, v, fn->base.type ? fn->base.type->result : NULL);
    }
}

static RelayStatus stage_run(RelaySession *s, const RelayRequest *r)
{
    const char *entry = request_find(r, "entry"), *out = request_find(r, "out");
    Engine engine;
    if (out && !params_can_write(s->cx.diags, out))
        return session_status(s);
    Module *text = request_engine(s, r, &engine) ? load_request(s, r, true) : NULL;
    Module *m = text ? with_entry(s, r, text, entry ? entry : "main") : NULL;
    const Def *def = m ? find_entry(s, m, entry ? entry : "main") : NULL;
    uint32_t n = def ? def->fn->params.n : 0;
    Value *args = memory_zeroed((size_t)n + 1, sizeof *args);
    Runnable code = {0};
    if (args && def && request_args(s, r, m, def->fn, args) &&
        engine_prepare_for(s, engine, m, def->name, args, &code) && !limit_hit(&s->cx.limits)) {
        limits_start(&s->cx.limits);
        Value v = engine_call(s, &code, n, args);
        if (!value_is_none(v))
            show_result(s, r, def->fn, v);
        value_release(v);
    }
    for (uint32_t i = 0; args && i < n; i++)
        value_release(args[i]);
    free(args);
    RelayStatus status = session_status(s);
    engine_release(s, &code);
    module_release(m);
    module_release(text);
    return status;
}

/* What `--emit exe` made: its own code, called with the arguments of the request. */
static RelayStatus stage_call(RelaySession *s, const RelayRequest *r)
{
    Opened o;
    if (!compiled_open(s, r->text, r->len, &o))
        return session_status(s);
    const Function *fn = o.functions[0]->fn;
    Value *args = memory_zeroed((size_t)fn->params.n + 1, sizeof *args);
    if (args && request_arrays(s, r, fn, args) && request_args(s, r, o.interface, fn, args)) {
        limits_start(&s->cx.limits);
        Value v = compiled_call(s, &o, 0, args);
        if (!value_is_none(v))
            show_result(s, r, fn, v);
        value_release(v);
    }
    for (uint32_t i = 0; args && i < fn->params.n; i++)
        value_release(args[i]);
    memory_free(args);
    RelayStatus status = session_status(s);
    compiled_close(s, &o);
    return status;
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

typedef struct Stage {
    const char *name;
    RelayStatus (*run)(RelaySession *s, const RelayRequest *r);
} Stage;

static const Stage stages[] = {
    {"fmt", stage_fmt},         {"check", stage_check},     {"opt", stage_opt},
    {"run", stage_run},         {"compile", stage_compile}, {"bench", stage_bench},
    {"new", stage_new},         {"import", stage_import},   {"summary", stage_summary},
    {"doctor", stage_doctor},   {"version", stage_version}, {"equal", stage_equal},
    {"analyze", stage_analyze}, {"export", stage_export},   {"call", stage_call},
};

typedef struct StageCall {
    RelaySession *s;
    const RelayRequest *request;
    RelaySink sink;
    RelayStatus status;
} StageCall;

static void run_stage(void *data)
{
    StageCall *call = data;
    RelaySession *s = call->s;
    const char *name = call->request->stage;
    session_begin(s, call->sink);
    const char *level = request_find(call->request, "O");
    size_t i = 0;
    while (i < sizeof stages / sizeof *stages && strcmp(stages[i].name, name))
        i++;
    if (request_flag(call->request, "exact"))
        relay_session_set(s, "exact", "on");
    if (request_flag(call->request, "tf32"))
        relay_session_set(s, "tf32", "on");
    if (request_flag(call->request, "no-cache"))
        relay_session_set(s, "cache", "off");
    if (level && !relay_session_set(s, "opt", level))
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`-O %s`: the levels are 0 to 5", level);
    else if (i < sizeof stages / sizeof *stages) {
        s->missing = request_find(call->request, "missing");
        call->status = stages[i].run(s, call->request);
        s->missing = NULL;
    } else
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "there is no stage `%s`", name);
    RelayStatus end = session_end(s);
    call->status = end > call->status ? end : call->status;
}

RelayStatus relay_session_stage(RelaySession *s, const RelayRequest *request, RelaySink sink)
{
    StageCall call = {.s = s, .request = request, .sink = sink};
    return session_guard(s, sink, run_stage, &call) ? call.status : RELAY_LIMIT;
}
