/* The two engines behind one door. */
#include "base/plugin.h"
#include "base/memory.h"
#include "ir/walk.h"
#include "runtime/heap.h"
#include "session/internal.h"
#include "session/optimise.h"
#include "session/steps/stepping.h"

#include <stdlib.h>
#include <string.h>

const char *const engine_names[ENGINES] = {
    [ENGINE_AUTO] = "auto",
    [ENGINE_INTERP] = "interp",
    [ENGINE_JIT] = "jit",
    [ENGINE_GPU] = "gpu",
};

bool engine_parse(const char *text, Engine *out)
{
    for (int i = 0; i < ENGINES; i++)
        if (!strcmp(text, engine_names[i])) {
            *out = (Engine)i;
            return true;
        }
    return false;
}

#if RELAY_HAS_LLVM
static const JitTable *open_table(RelaySession *s)
{
    const JitTable *(*entry)(void) =
        (const JitTable *(*)(void))plugin_open("jit", "relay_jit_table", &s->jit_why);
    return entry ? entry() : NULL;
}
#else
static const JitTable *open_table(RelaySession *s)
{
    buf_str(&s->jit_why, "relay was built without LLVM");
    return NULL;
}
#endif

bool session_jit(RelaySession *s)
{
    if (!s->jit_tried) {
        s->jit_tried = true;
        s->jit_table = open_table(s);
        s->jit = s->jit_table ? s->jit_table->create(&s->cx) : NULL;
        if (s->jit_table && !s->jit && s->jit_why.n == 0)
            buf_str(&s->jit_why, "LLVM could not be started");
        /* For want of memory, which there may be again. */
        if (!s->jit && limit_refused(&s->cx.limits)) {
            s->jit_tried = false;
            buf_clear(&s->jit_why);
        }
    }
    if (s->jit)
        s->jit_table->set_mode(s->jit, (JitMode){.exact = s->exact,
                                                 .tf32 = s->tf32,
                                                 .keep = !s->no_cache && !s->steps,
                                                 .level = s->opt_level,
                                                 .steps = s->steps,
                                                 .gpu = s->on_gpu,
                                                 .target = s->gpu_target,
                                                 .clocked = s->clocked});
    return s->jit != NULL;
}

bool engine_on_gpu(RelaySession *s, bool on)
{
    bool was = s->on_gpu;
    s->on_gpu = on;
    if (was != on)
        session_jit(s);
    return was;
}

static void warn_interpreted(RelaySession *s, Span span, const char *why)
{
    Diag *d = diag_error(s->cx.diags, W0701_INTERPRETED, span, "the evaluator runs this: %s", why);
    diag_help(d,
              "`:engine interp` (or `--exec interp`) asks for the evaluator and leaves this out");
}

Engine session_steady_engine(RelaySession *s)
{
    return s->engine != ENGINE_AUTO ? s->engine : session_jit(s) ? ENGINE_JIT : ENGINE_INTERP;
}

/* False after a diagnostic, or when the JIT cannot, which `why` says. */
bool engine_compile(RelaySession *s, Module *env, const Name *name, CompileFor use, Runnable *out,
                    Buf *why)
{
    if (!session_jit(s)) {
        buf_str(why, buf_text(&s->jit_why));
        return false;
    }
    const Def *def = module_find(env, name);
    unsigned outer = progress_enter(&s->progress, "compiling", "", 0);
    JitKey *key = NULL;
    const JitTable *jit = s->jit_table;
    bool ok = use != COMPILE_TO_SHOW && !optimised_already(s, env, name) &&
              jit->load(s->jit, env, name, &key);
    *out = (Runnable){.engine = s->on_gpu ? ENGINE_GPU : ENGINE_JIT,
                      .written = module_retain(env),
                      .env = ok ? module_retain(env) : optimise(s, env, name),
                      .name = name,
                      .span = def ? def->span : (Span){0}};
    /* What the optimiser knew is nothing to keep, and who times it is told. */
    if (ok || !out->env || runnable_is_constant(out)) {
        jit->free_key(key);
        key = NULL;
    }
    ok = ok || (out->env && (use == COMPILE_BESIDE ? jit->begin : jit->prepare)(s->jit, out->env,
                                                                                name, key, why));
    progress_leave(&s->progress, outer);
    if (!ok)
        engine_release(s, out);
    return ok;
}

bool engine_ready(RelaySession *s, Engine engine, Span asked)
{
    if (engine != ENGINE_GPU)
        return true;
    Buf why = {0};
    bool jit = session_jit(s);
    if (!jit && limit_refused(&s->cx.limits))
        return false;
    if (!jit)
        buf_str(&why, buf_text(&s->jit_why));
    else if (s->jit_table->gpu_open(s->jit, &why))
        return true;
    Diag *d = diag_error(s->cx.diags, E0407_DEVICE, asked, "nothing runs on a GPU here: %s",
                         buf_text(&why));
    buf_deinit(&why);
    diag_help(d, "`:engine jit` (or `--exec jit`) compiles for the processor");
    return false;
}

bool engine_prepare(RelaySession *s, Engine engine, Module *env, const Name *name, Runnable *out)
{
    const Def *def = module_find(env, name);
    Span span = def ? def->span : (Span){0};
    *out = (Runnable){0};
    if (ptrmap_has(&s->failed_names, name))
        return false;
    if (!engine_ready(s, engine, (Span){0}))
        return false;
    Buf why = {0};
    size_t errors = s->cx.diags->errors;
    bool compiles = engine_compiles(engine), was = engine_on_gpu(s, engine == ENGINE_GPU);
    bool compiled = compiles && engine_compile(s, env, name, COMPILE_TO_RUN, out, &why);
    engine_on_gpu(s, was);
    if (compiles && !compiled && s->cx.diags->errors == errors && s->cx.limits.hit == LIMIT_NONE)
        warn_interpreted(s, span, buf_text(&why));
    buf_deinit(&why);
    if (!compiled)
        *out = (Runnable){engine == ENGINE_AUTO ? engine : ENGINE_INTERP, module_retain(env),
                          module_retain(env), name, span};
    if (session_status(s) == RELAY_OK)
        return true;
    engine_release(s, out);
    return false;
}

bool engine_prepare_for(RelaySession *s, Engine engine, Module *env, const Name *name,
                        const Value *args, Runnable *out)
{
    bool compiles = engine_compiles(engine) && !ptrmap_has(&s->failed_names, name);
    Module *at = compiles ? optimise_for_shapes(s, env, name, args) : module_retain(env);
    bool ok = at && engine_prepare(s, engine, at, name, out);
    module_release(at);
    return ok;
}

/* Compiled code knows no place for a limit that it hits; what it was asked for is one. */
static Value placed(RelaySession *s, Value v, Span span)
{
    Diag *d = s->cx.diags->last;
    if (value_is_none(v) && d && span_is_none(d->span))
        d->span = span;
    return v;
}

/* Which of the two it was, where nobody chose one. */
static void say_engine(RelaySession *s)
{
    Diag *d = s->cx.diags->last;
    if (s->hot_failed)
        diag_note(d, "`@%s`, which is hot, ran as code of the JIT", s->hot_failed->text);
    else if (!s->jit_tried || s->jit)
        diag_note(d, "this ran on the evaluator");
}

/* Around what the evaluator does for the engine: for `auto` hot definitions go to the JIT. */
typedef struct Evaluation {
    bool tier_was;
    size_t errors;
} Evaluation;

static Evaluation evaluation_begin(RelaySession *s, Engine engine)
{
    s->hot_failed = NULL;
    return (Evaluation){interp_tier_on(s->interp, engine == ENGINE_AUTO), s->cx.diags->errors};
}

static Value evaluation_end(RelaySession *s, Engine engine, Evaluation e, Value v)
{
    interp_tier_on(s->interp, e.tier_was);
    heap_settle(&s->cx.limits);
    bool interrupted = s->cx.limits.hit == LIMIT_INTERRUPT;
    if (engine == ENGINE_AUTO && RELAY_HAS_LLVM && s->cx.diags->errors > e.errors && !interrupted)
        say_engine(s);
    return v;
}

Value engine_call_code(RelaySession *s, const Runnable *r, uint32_t n, const Value *args, Span span,
                       Buf *why)
{
    Value v = s->jit_table->call(s->jit, r->env, r->name, n, args, span, why);
    if (why->n == 0)
        return v;
    v = interp_call_global(s->interp, r->written, r->name, n, args, span);
    values_release(n, args);
    return v;
}

Value engine_call(RelaySession *s, const Runnable *r, uint32_t n, const Value *args)
{
    if (!engine_compiles(r->engine)) {
        Evaluation e = evaluation_begin(s, r->engine);
        return evaluation_end(s, r->engine, e,
                              interp_call_global(s->interp, r->env, r->name, n, args, r->span));
    }
    /* Functions of the evaluator that it calls find what is defined as it was written. */
    interp_set_env(s->interp, r->written ? r->written : r->env);
    bool was = engine_on_gpu(s, r->engine == ENGINE_GPU);
    Buf why = {0};
    values_retain(n, args);
    Value v = engine_call_code(s, r, n, args, r->span, &why);
    engine_on_gpu(s, was);
    /* Once, however often it is called to be timed. */
    const Diag *last = s->cx.diags->last;
    if (why.n > 0 && (!last || last->code != W0701_INTERPRETED))
        warn_interpreted(s, r->span, buf_text(&why));
    buf_deinit(&why);
    heap_settle(&s->cx.limits);
    return placed(s, v, r->span);
}

bool runnable_is_constant(const Runnable *r)
{
    const Def *def = module_find(r->env, r->name);
    const Expr *body = def && def->fn ? def->fn->body : NULL;
    const Tuple *t = expr_as_tuple(body);
    bool constant = body && (t || body->kind == EXPR_CONSTANT);
    for (uint32_t i = 0; constant && t && i < t->fields.n; i++)
        constant = t->fields.at[i]->kind == EXPR_CONSTANT;
    return constant;
}

void engine_release(RelaySession *s, Runnable *r)
{
    if (r->env && r->env != s->env && engine_compiles(r->engine))
        s->jit_table->forget(s->jit, r->env);
    if (r->written && r->written != s->env) {
        optimise_forget(s, r->written);
        interp_forget(s->interp, r->written);
    }
    module_release(r->env);
    module_release(r->written);
    *r = (Runnable){0};
}

typedef struct Failed {
    const RelaySession *s;
    bool found;
} Failed;

static void note_poison(void *data, Var *v)
{
    Failed *f = data;
    f->found = f->found || type_is_poison(v->base.type);
}

bool session_failed(const RelaySession *s, const Name *name)
{
    return ptrmap_has(&s->failed_names, name) || (s->gaps && !module_find(s->env, name));
}

static WalkNext note_failed(void *data, const Expr *e)
{
    Failed *f = data;
    const GlobalVar *g = expr_as_global(e);
    f->found = g && session_failed(f->s, g->name);
    return f->found ? WALK_STOP : WALK_ON;
}

bool session_uses_failed(const RelaySession *s, const Expr *e)
{
    Failed f = {.s = s};
    if (s->failed)
        ir_free_vars(e, note_poison, &f);
    if (!f.found && (s->failed_names.n || s->gaps))
        ir_walk(e, note_failed, NULL, &f);
    return f.found;
}

static Value evaluate(RelaySession *s, Engine engine, Module *env, Module *keep, Expr *e)
{
    Evaluation at = evaluation_begin(s, engine);
    unsigned outer = progress_enter(&s->progress, "evaluating", "steps", work_steps(env, e));
    interp_count(s->interp, progress_count(&s->progress));
    Value v = interp_eval(s->interp, env, keep, e, &s->local_values);
    interp_count(s->interp, NULL);
    progress_leave(&s->progress, outer);
    return evaluation_end(s, engine, at, v);
}

Value engine_eval(RelaySession *s, Engine engine, Module *env, Module *keep, Expr *e)
{
    if (session_uses_failed(s, e))
        return value_none();
    if (!engine_ready(s, engine, (Span){0}))
        return value_none();
    if (stops_any(s))
        return stops_eval(s, env, keep, e);
    Thunk t;
    if (!engine_compiles(engine) || !thunk_make(s, env, keep, e, CLOSURES_UNCOMPILED, &t))
        return session_status(s) == RELAY_OK ? evaluate(s, engine, env, keep, e) : value_none();
    Runnable r;
    Value v = value_none();
    if (engine_prepare(s, engine, t.module, t.name, &r)) {
        unsigned outer = progress_enter(&s->progress, "running compiled code", "", 0);
        v = engine_compiles(r.engine) ? engine_call(s, &r, t.n, t.args)
                                      : evaluate(s, ENGINE_INTERP, env, keep, e);
        progress_leave(&s->progress, outer);
        engine_release(s, &r);
    }
    thunk_free(s, &t);
    return v;
}
