#include "include/relay.h"
#include "base/memory.h"

#include "base/file.h"
#include "ir/json_read.h"
#include "ir/walk.h"
#include "passes/pass.h"
#include "session/optimise.h"
#include "session/steps/stepping.h"
#include "session/tier.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *relay_version(void)
{
    return RELAY_VERSION;
}

/* A context and what stands in it. */
static bool world_new(RelaySession *s)
{
    s->world++;
    bool ok = ctx_init(&s->cx, &stdlib_ops);
    s->cx.progress = &s->progress;
    s->interp = ok ? interp_new(&s->cx) : NULL;
    s->env = ok ? module_new(&s->cx) : NULL;
    if (s->interp)
        tier_start(s);
    return s->interp && s->env;
}

static void session_init(void *data)
{
    RelaySession *s = data;
    world_new(s);
    s->cx.limits.memory_most =
        s->options.memory_limit ? s->options.memory_limit : limit_default_memory();
    s->cx.limits.seconds_most = s->options.time_limit;
    s->cx.limits.depth_most = s->options.depth_limit;
    s->cx.pool = pool_new(s->options.threads);
    s->opt_level = OPT_LEVEL_USUAL;
    const char *cache = getenv("RELAY_CACHE");
    s->no_cache = cache && !strcmp(cache, "off");
    if (s->options.engine)
        engine_parse(s->options.engine, &s->engine);
    s->options.engine = NULL;
}

RelaySession *relay_session_new(const RelayOptions *options)
{
    RelaySession *s = memory_zeroed(1, sizeof *s);
    if (!s)
        return NULL;
    if (options)
        s->options = *options;
    s->lost = !memory_guard(session_init, s);
    if (!s->lost && s->interp && s->env && s->cx.pool)
        return s;
    relay_session_free(s);
    return NULL;
}

static void free_locals(RelaySession *s)
{
    for (size_t i = 0; i < s->n_locals; i++) {
        value_release(s->locals[i].value);
        module_release(s->locals[i].module);
    }
    free(s->locals);
    s->locals = NULL;
    s->n_locals = s->cap_locals = 0;
    module_release(s->failed);
    module_release(s->last);
    s->failed = s->last = NULL;
    ptrmap_deinit(&s->failed_old[0]);
    ptrmap_deinit(&s->failed_old[1]);
    ptrmap_deinit(&s->failed_names);
    ptrmap_deinit(&s->local_names);
    ptrmap_deinit(&s->graph_names);
    ptrmap_deinit(&s->local_values);
    ptrmap_deinit(&s->local_places[0]);
    ptrmap_deinit(&s->local_places[1]);
}

static void world_free(RelaySession *s)
{
    undo_forget(s);
    stops_free(s);
    stale_forget_all(s);
    free_locals(s);
    heap_break_cycles(&s->cx.limits);
    if (s->jit)
        s->jit_table->destroy(s->jit);
    s->jit = NULL;
    optimise_forget(s, NULL);
    ptrmap_deinit(&s->said);
    ptrmap_deinit(&s->optimised[0]);
    ptrmap_deinit(&s->optimised[1]);
    interp_free(s->interp);
    module_release(s->env);
    for (size_t i = 0; i < sizeof s->libraries / sizeof *s->libraries; i++)
        module_release(s->libraries[i]);
    memset(s->libraries, 0, sizeof s->libraries);
    session_forget_imports(s);
    ctx_deinit(&s->cx);
    s->interp = NULL;
    s->env = NULL;
}

void relay_session_free(RelaySession *s)
{
    /* What a lost session holds is in no known state. */
    if (!s || s->lost)
        return;
    world_free(s);
    ptrmap_deinit(&s->uses);
    buf_deinit(&s->jit_why);
    journal_free(s);
    buf_deinit(&s->answers);
    free(s->loaded);
    written_forget(s);
    free(s);
}

void session_set_env(RelaySession *s, Module *env)
{
    module_release(s->env);
    s->env = env;
    s->defines++;
}

void session_reset(RelaySession *s)
{
    undo_forget(s);
    journal_free(s);
    stops_free(s);
    stale_forget_all(s);
    free_locals(s);
    Module *fresh = module_new(&s->cx);
    if (!fresh)
        return;
    interp_forget(s->interp, s->env);
    if (s->jit)
        s->jit_table->forget(s->jit, s->env);
    optimise_forget(s, NULL);
    session_set_env(s, fresh);
    s->prelude_loaded = false;
    s->fresh = true;
}

static bool nothing_is_defined(const RelaySession *s)
{
    for (size_t i = 0; i < s->env->defs.n; i++)
        if (s->env->defs.at[i].fn && !s->env->defs.at[i].imported)
            return false;
    return s->n_locals == 0 && s->env->types.n == s->env->imported_types.n && !s->stale;
}

/* Behind a cell that forgot everything: names and types belong to the context, which ends with what was said in it. */
static void renew(RelaySession *s)
{
    s->fresh = false;
    if (!nothing_is_defined(s))
        return;
    const Limits old = s->cx.limits;
    Pool *pool = s->cx.pool;
    s->cx.pool = NULL;
    world_free(s);
    bool ok = world_new(s);
    s->cx.pool = pool;
    s->cx.limits.memory_most = old.memory_most;
    s->cx.limits.seconds_most = old.seconds_most;
    s->cx.limits.depth_most = old.depth_most;
    s->jit_tried = false;
    s->prelude_loaded = false;
    if (ok)
        malloc_trim(0);
    else
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
}

/* What was compiled was made at other settings. */
static void forget_code(RelaySession *s)
{
    optimise_forget(s, NULL);
    interp_tier_renew(s->interp);
}

/* False, and nothing is set, when it is neither `on` nor `off`. */
static bool read_switch(const char *value, bool *on)
{
    bool is_on = !strcmp(value, "on");
    if (!is_on && strcmp(value, "off"))
        return false;
    *on = is_on;
    return true;
}

bool relay_session_set(RelaySession *s, const char *option, const char *value)
{
    bool on = !strcmp(value, "1") || !strcmp(value, "true");
    if (!strcmp(option, "color"))
        s->options.color = on;
    else if (!strcmp(option, "width"))
        s->options.width = atoi(value);
    else if (!strcmp(option, "engine")) {
        Engine engine;
        if (!engine_parse(value, &engine) || !engine_ready(s, engine, (Span){0}))
            return false;
        s->engine = engine;
    } else if (!strcmp(option, "opt")) {
        if (strlen(value) != 1 || *value < '0' || *value > '0' + OPT_LEVEL_MOST)
            return false;
        s->opt_level = *value - '0';
        forget_code(s);
    } else if (!strcmp(option, "exact")) {
        if (!read_switch(value, &s->exact))
            return false;
        forget_code(s);
    } else if (!strcmp(option, "tf32")) {
        if (!read_switch(value, &s->tf32))
            return false;
        forget_code(s);
    } else if (!strcmp(option, "cache")) {
        if (!read_switch(value, &on))
            return false;
        s->no_cache = !on;
    } else if (!strcmp(option, "hot")) {
        uint64_t count = strtoull(value, NULL, 10);
        interp_tier_counts(s->interp, count, count);
    } else if (!strcmp(option, "threads")) {
        pool_free(s->cx.pool);
        s->cx.pool = pool_new(atoi(value));
    } else if (!strcmp(option, "warm"))
        session_load_prelude(s);
    else
        return limit_set(s, option, value);
    return true;
}

void relay_session_interrupt(RelaySession *s)
{
    if (atomic_load(&s->running))
        limit_interrupt(&s->cx.limits);
}

static uint64_t microseconds(void)
{
    return (uint64_t)(clock_seconds() * 1e6);
}

double session_seconds(RelaySession *s)
{
    return (double)(microseconds() - atomic_load(&s->began)) * 1e-6;
}

void session_skip(RelaySession *s, double seconds)
{
    s->cx.limits.started += seconds;
    atomic_fetch_add(&s->began, (uint64_t)(seconds * 1e6));
}

bool relay_session_progress(RelaySession *s, RelayProgress *out)
{
    Buf text = {0}, share = {0};
    *out = (RelayProgress){.share = progress_print(&s->progress, &text)};
    out->seconds = session_seconds(s);
    if (out->share >= 0)
        buf_printf(&share, "%2.0f %%  ", out->share * 100);
    snprintf(out->line, sizeof out->line, "%.0f s  %s%s", out->seconds, buf_text(&share),
             text.n ? buf_text(&text) : "running");
    buf_deinit(&share);
    buf_deinit(&text);
    return atomic_load(&s->running) && !atomic_load(&s->asking);
}

/* ---- one public call -------------------------------------------------------------------------------------------------- */

void session_begin(RelaySession *s, RelaySink sink)
{
    s->sink = sink;
    s->quit = false;
    diags_clear(s->cx.diags);
    limits_start(&s->cx.limits);
    progress_begin(&s->progress);
    atomic_store(&s->began, microseconds());
    atomic_store(&s->running, true);
}

/* Codes E04 are about the request and the world around; so is a pipeline, with its parameters, unless the program has it. */
static bool is_usage(const Diag *d)
{
    if (d->written)
        return false;
    return d->asked || !strncmp(diag_info(d->code)->code, "E04", 3) ||
           d->code == E0601_UNKNOWN_PASS || d->code == E0603_PIPELINE;
}

RelayStatus session_status(RelaySession *s)
{
    limit_refused(&s->cx.limits);
    const Diags *ds = s->cx.diags;
    bool usage = false, limit = s->cx.limits.hit != LIMIT_NONE;
    if (ds->errors == 0 && !limit)
        return RELAY_OK;
    for (const Diag *d = ds->first; d; d = d->next) {
        if (d->severity == SEVERITY_BUG)
            return RELAY_BUG;
        usage |= d->severity == SEVERITY_ERROR && is_usage(d);
        limit |=
            d->code == E0121_TOO_DEEP || d->code == E0503_MEMORY || d->code == E0409_DEVICE_MEMORY;
    }
    if (limit)
        return RELAY_LIMIT;
    return usage ? RELAY_USAGE : RELAY_WRONG;
}

RelayStatus session_end(RelaySession *s)
{
    RelayStatus status = session_status(s);
    emit_diags(s);
    if (s->fresh)
        renew(s);
    sources_sweep(&s->cx.sources);
    ctx_collect(&s->cx);
    /* Refused while that was shown. */
    if (status < RELAY_LIMIT && limit_refused(&s->cx.limits)) {
        status = RELAY_LIMIT;
        emit_diags(s);
    }
    atomic_store(&s->running, false);
    s->sink = (RelaySink){0};
    return status;
}

/* A lost session begins anew with its settings. What it had stays where it is, since nobody knows what of it is whole. False
 * when there is still no memory. */
static bool revive(RelaySession *s)
{
    const RelaySession old = *s;
    memset(s, 0, sizeof *s);
    s->options = old.options;
    if (!memory_guard(session_init, s) || !s->interp || !s->env || !s->cx.pool) {
        *s = old;
        return false;
    }
    s->cx.limits.memory_most = old.cx.limits.memory_most;
    s->cx.limits.seconds_most = old.cx.limits.seconds_most;
    s->cx.limits.depth_most = old.cx.limits.depth_most;
    s->engine = old.engine;
    s->opt_level = old.opt_level;
    s->exact = old.exact;
    s->tf32 = old.tf32;
    s->output_most = old.output_most;
    s->stepper = old.stepper;
    return true;
}

bool session_guard(RelaySession *s, RelaySink sink, void (*work)(void *data), void *data)
{
    bool patient = memory_patient(false);
    bool dead = s->lost && !revive(s);
    s->patient = patient;
    s->lost = dead || !memory_guard(work, data);
    memory_patient(patient);
    if (!s->lost)
        return true;
    s->sink = sink;
    emit_lost(s);
    atomic_store(&s->running, false);
    s->sink = (RelaySink){0};
    return false;
}

typedef struct ReadCall {
    RelaySession *s;
    const char *path;
    RelaySink sink;
    Buf text;
    int why; /* 0: it was read, or a limit ended it */
    RelayStatus status;
} ReadCall;

static void read_text(void *data)
{
    ReadCall *c = data;
    session_begin(c->s, c->sink);
    c->why = file_load(c->path, &c->s->cx.limits, &c->text) ? 0 : errno;
    c->status = session_end(c->s);
}

RelayStatus relay_session_read(RelaySession *s, const char *path, char **text, size_t *len,
                               RelaySink sink)
{
    ReadCall call = {.s = s, .path = path, .sink = sink};
    RelayStatus status = session_guard(s, sink, read_text, &call) ? call.status : RELAY_LIMIT;
    *text = NULL;
    *len = call.text.n;
    if (status == RELAY_OK && call.why)
        status = RELAY_USAGE;
    if (status == RELAY_OK)
        *text = buf_take(&call.text);
    buf_deinit(&call.text);
    errno = call.why;
    return status;
}

/* ---- libraries and imports ----------------------------------------------------------------------------------------------- */

Module *session_parse(RelaySession *s, uint32_t source, const ParseEnv *env)
{
    const Source *text = sources_get(&s->cx.sources, source);
    if (text && graph_is_json(text->text, text->len))
        return graph_read_module(&s->cx, source, (GraphImport){env->import, env->data});
    return source ? parse_text(&s->cx, source, env) : NULL;
}

void session_load_prelude(RelaySession *s)
{
    if (s->prelude_loaded || s->options.no_prelude)
        return;
    Module *lib = session_library(s, str_of("prelude.rly"));
    if (lib) {
        module_import(s->env, lib);
        s->defines++;
    }
    module_release(lib);
    /* What was refused memory is tried again. */
    s->prelude_loaded = !limit_refused(&s->cx.limits);
}

ParseEnv session_parse_env(RelaySession *s)
{
    return (ParseEnv){
        .globals = s->env,
        .locals = &s->local_names,
        .graph = &s->graph_names,
        .import = session_import,
        .data = s,
        .keep_broken = true,
        .gaps = s->gaps,
        .redefine = true,
    };
}

/* ---- what cells define ----------------------------------------------------------------------------------------------------- */

/* The maps say where in the array these variables are now. */
static void index_places(RelaySession *s, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        Local *l = &s->locals[i];
        ptrmap_put(&s->local_values, l->var, &l->value);
        ptrmap_put(&s->local_places[l->graph], l->var->name, (void *)(i + 1));
    }
}

typedef struct Uses {
    const RelaySession *s;
    Module *m;
    uint32_t depth;
} Uses;

static void note_use(void *data, Var *v)
{
    Uses *u = data;
    const char *value = ptrmap_find(&u->s->local_values, v);
    if (!value)
        return;
    const Local *l = (const Local *)(const void *)(value - offsetof(Local, value));
    module_use(u->m, l->module);
    u->depth = l->depth >= u->depth ? l->depth + 1 : u->depth;
}

uint32_t session_keep_used(const RelaySession *s, Module *m)
{
    Uses u = {.s = s, .m = m};
    if (m->expr)
        ir_free_vars(m->expr, note_use, &u);
    return u.depth;
}

Local *session_local(const RelaySession *s, const Name *name, bool graph)
{
    size_t place = (size_t)ptrmap_find(&s->local_places[graph], name);
    return place ? &s->locals[place - 1] : NULL;
}

void session_unbind(RelaySession *s, const Name *name, bool graph)
{
    Local *l = session_local(s, name, graph);
    if (l) {
        size_t at = (size_t)(l - s->locals);
        undo_note(s, name, graph, l);
        ptrmap_remove(&s->local_values, l->var);
        ptrmap_remove(&s->local_places[graph], name);
        value_release(l->value);
        module_release(l->module);
        memmove(l, l + 1, (s->n_locals - at - 1) * sizeof *l);
        s->n_locals--;
        index_places(s, at, s->n_locals);
    }
    ptrmap_remove(graph ? &s->graph_names : &s->local_names, name);
}

typedef struct Sources {
    Module *m;
    PtrMap seen;
} Sources;

static void use_sources(Sources *u, const Type *t)
{
    t = type_find(t);
    bool leaf = t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
                t->kind == TYPE_POISON;
    if (leaf || ptrmap_has(&u->seen, t))
        return;
    ptrmap_put(&u->seen, t, NULL);
    if (t->kind == TYPE_ADT)
        module_use_source(u->m, t->def->span.source);
    if (t->kind == TYPE_FUNC)
        use_sources(u, t->result);
    for (uint32_t i = 0; i < t->n; i++)
        use_sources(u, t->parts[i]);
}

/* Messages show where a variable is bound and where the data types of its value are defined, even if they are defined again since. */
static void keep_sources(Module *module, const Var *var)
{
    Sources u = {.m = module};
    module_use_source(module, var->base.span.source);
    if (var->base.type)
        use_sources(&u, var->base.type);
    ptrmap_deinit(&u.seen);
}

void session_bind(RelaySession *s, Var *var, Value value, Module *module, bool graph)
{
    Local *old = session_local(s, var->name, graph);
    size_t at = old ? (size_t)(old - s->locals) : s->n_locals, moved = at;
    s->binds++;
    undo_note(s, var->name, graph, old);
    if (old) {
        ptrmap_remove(&s->local_values, old->var);
        value_release(old->value);
        module_release(old->module);
    } else if (s->n_locals == s->cap_locals) {
        size_t cap = s->cap_locals ? 2 * s->cap_locals : 16;
        Local *grown = memory_resize(s->locals, cap * sizeof *grown);
        if (!grown) {
            limit_reach(&s->cx.limits, LIMIT_MEMORY);
            value_release(value);
            return;
        }
        s->locals = grown;
        s->cap_locals = cap;
        moved = 0;
    }
    keep_sources(module, var);
    s->locals[at] =
        (Local){.var = var, .value = value, .module = module_retain(module), .graph = graph};
    s->n_locals += at == s->n_locals;
    ptrmap_put(graph ? &s->graph_names : &s->local_names, var->name, var);
    stale_forget(s, '%', graph, var->name);
    index_places(s, moved, old ? at + 1 : s->n_locals);
}

void session_rebind(RelaySession *s, const Local *l, Value value)
{
    /* What was made of the old one goes on with it: a variable is its node. */
    Module *m = module_new(&s->cx);
    if (!m) {
        value_release(value);
        return;
    }
    Var *var = expr_var(&m->arena, l->var->base.span, l->var->name, NULL);
    var->base.type = l->var->base.type;
    if (type_holds_code(var->base.type))
        module_use(m, l->module);
    session_bind(s, var, value, m, l->graph);
    module_release(m);
}

Module *session_with(Module *env, Module *m)
{
    Module *next = module_snapshot(env);
    if (!next)
        return NULL;
    for (size_t i = 0; i < m->types.n; i++) {
        module_define_type(next, m->types.at[i]);
        module_use_source(next, m->types.at[i]->span.source);
    }
    for (size_t i = 0; i < m->imported_types.n; i++)
        vec_push(&next->imported_types, &next->arena, m->imported_types.at[i]);
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (!d->fn)
            continue;
        module_define(next, d->name, d->fn, d->span, d->home ? d->home : m);
        Def *now = (Def *)(uintptr_t)module_find(next, d->name);
        now->imported = d->imported;
        now->written = d->written;
    }
    return next;
}
