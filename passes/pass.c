/* The driver: what all passes have in common. */
#include "passes/pass.h"

#include "ir/equal.h"
#include "ir/verify.h"
#include "parser/parser.h"
#include "passes/declared_shapes.h"
#include "passes/order.h"
#include "passes/params.h"
#include "passes/say_types.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <limits.h>
#include <string.h>

#define PASS(word) extern const Pass pass_##word;
#include "passes/passes.def"
#undef PASS

const Pass *const passes[] = {
#define PASS(word) &pass_##word,
#include "passes/passes.def"
#undef PASS
    NULL,
};

const Pass *pass_find(Str name)
{
    for (const Pass *const *p = passes; *p; p++)
        if (str_is(name, (*p)->name))
            return *p;
    return NULL;
}

/* ---- which passes run ------------------------------------------------------------------------------------------------------ */

/* Whether a comma-separated list names the pass. */
static bool listed(const char *list, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = list; p && *p; p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
        size_t len = strcspn(p, ",");
        if (len == n && !memcmp(p, name, n))
            return true;
    }
    return false;
}

/* `named`: the person wrote it into the pipeline, and wants to know. */
static bool enabled(const PassContext *pc, const Pass *p, Span where, bool named)
{
    if (listed(pc->disable, p->name) || (pc->exact && p->reorders))
        return false;
    if (listed(pc->require, p->name) || pc->opt_level >= p->opt_level || (named && pc->any_level))
        return true;
    if (named) {
        Diag *d = diag_error(pc->cx->diags, W0602_LEFT_OUT, where,
                             "`%s` is left out: it needs level %d, and this is level %d", p->name,
                             p->opt_level, pc->opt_level);
        diag_help(d, "`-O %d` runs it, and so does `--require %s`", p->opt_level, p->name);
    }
    return false;
}

/* ---- one pass ------------------------------------------------------------------------------------------------------------------ */

bool function_is_skipped(const Function *f)
{
    const AttrValue *skip = attrs_find(f->attrs, "SkipOptimization");
    return attrs_find(f->attrs, "Compiler") || attrs_find(f->attrs, "Extern") ||
           (skip && skip->kind == ATTR_INT && skip->i != 0);
}

/* Passes that are one rewrite tell it without saying so. */
static const PassRule rewritten = {"rewritten", "{at} becomes {made}"};

static void tell_rewritten(void *watcher, const Expr *old, const Expr *made)
{
    pass_decides(watcher, (PassEvent){.rule = &rewritten, .at = old, .made = made});
}

void pass_rewriter_init(Rewriter *rw, PassRun *run, RewriteFn *fn, void *data)
{
    rewriter_init(rw, run->cx, run->module, fn, data);
    rw->most = run->context->rewrites;
    rw->watcher = run;
    rw->replaced = run->context->decided && !run->pass->rules ? tell_rewritten : NULL;
}

static Function *run_rewrite(PassRun *run, const Def *def)
{
    Rewriter rw;
    pass_rewriter_init(&rw, run, run->pass->rewrite, run);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

static Function *run_function(PassRun *run, const Def *def)
{
    uint64_t *left = run->context->rewrites, had = left ? *left : 0;
    if (left && had == 0)
        return def->fn;
    Expr *ordered = order_effects(run, run->pass->order, &def->fn->base);
    if (!ordered)
        return NULL;
    Def from = *def;
    from.fn = expr_as_function(ordered);
    Function *now = run->pass->rewrite ? run_rewrite(run, &from) : run->pass->function(run, &from);
    if (now == from.fn)
        return def->fn;
    if (left && *left == had && now && !ir_equal(&now->base, ordered, false))
        --*left;
    return now;
}

/* A function pass on a bare expression works on a function without parameters around it. */
static Expr *run_on_expr(PassRun *run, Expr *e)
{
    Arena *arena = &run->module->arena;
    Function *around = expr_function(arena, e->span, (TypeVarList){0}, 0, NULL, NULL, NULL, e);
    Def def = {.name = ctx_name(run->cx, ""), .fn = around, .home = run->module};
    Function *now = run_function(run, &def);
    return now ? now->body : NULL;
}

Expr *passes_on_expr(PassContext *pc, Module *m, Expr *e, const char *const *names)
{
    PassRun run = {.context = pc, .cx = pc->cx, .module = m};
    arena_init(&run.scratch, &pc->cx->limits);
    for (; e && *names; names++) {
        run.pass = pass_find(str_of(*names));
        e = run_on_expr(&run, e);
    }
    ptrmap_deinit(&run.purity);
    arena_deinit(&run.scratch);
    return e;
}

static bool run_functions(PassRun *run, Module *old)
{
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn))
            continue;
        Function *now = run_function(run, def);
        if (!now)
            return false;
        if (now != def->fn)
            module_define(run->module, def->name, now, def->span, run->module);
    }
    run->module->expr = old->expr ? run_on_expr(run, old->expr) : NULL;
    return !old->expr || run->module->expr;
}

static bool run_module(PassRun *run, Module *old)
{
    uint64_t *left = run->context->rewrites, had = left ? *left : 0;
    if (left && had == 0)
        return true;
    bool ok = run->pass->module(run, old);
    if (ok && left && *left == had && !ir_module_equal(old, run->module))
        --*left;
    return ok;
}

static Module *apply(PassRun *run, Module *old)
{
    run->module = module_derive(old);
    if (!run->module)
        return NULL;
    run->module->expr = old->expr;
    bool ok = run->pass->module ? run_module(run, old) : run_functions(run, old);
    if (ok)
        return run->module;
    module_release(run->module);
    return NULL;
}

static bool is_sound(PassContext *pc, const Pass *pass, const Module *now)
{
#ifndef NDEBUG
    if (!ir_verify(pc->cx, now, pc->env, true)) {
        diag_bug(pc->cx->diags, (Span){0}, "%s left a module that is not well-formed", pass->name);
        return false;
    }
#else
    (void)pass;
    (void)now;
    (void)pc;
#endif
    return true;
}

/* Runs one pass and infers what it changed; takes `m`, gives the new module. */
static Module *run_pass(PassContext *pc, const Pass *pass, const Attrs *params, Span where,
                        Module *m)
{
    PassRun run = {.context = pc, .cx = pc->cx, .pass = pass, .params = params, .where = where};
    double start = clock_seconds();
    size_t told = pc->cx->diags->errors;
    arena_init(&run.scratch, &pc->cx->limits);
    Module *now = apply(&run, m);
    ptrmap_deinit(&run.purity);
    arena_deinit(&run.scratch);
    if (now && (!typecheck_module(pc->cx, now, pc->env) || !is_sound(pc, pass, now))) {
        module_release(now);
        now = NULL;
    }
    if (!now && pc->cx->diags->errors == told && !limit_hit(&pc->cx->limits))
        diag_bug(pc->cx->diags, where, "%s gave no program and did not say why", pass->name);
    if (now && pc->after)
        pc->after(pc->data, pass->name, clock_seconds() - start, m, now);
    module_release(m);
    return now;
}

/* ---- pipelines ------------------------------------------------------------------------------------------------------------------ */

typedef struct Pipeline {
    PassContext *pc;
    uint32_t source;
    const char *text;
    uint32_t at, len;
    Arena arena; /* of the parameters */
} Pipeline;

static Span span_of(const Pipeline *p, uint32_t from, uint32_t to)
{
    return (Span){p->source, from, to};
}

static void skip_blanks(Pipeline *p)
{
    while (p->at < p->len && isspace((unsigned char)p->text[p->at]))
        p->at++;
}

/* The end of what begins at `at`: the first of the characters outside brackets and strings. */
static uint32_t find_end(const Pipeline *p, uint32_t at, const char *ends)
{
    int depth = 0;
    for (; at < p->len; at++) {
        char c = p->text[at];
        if (depth == 0 && strchr(ends, c))
            return at;
        if (c == '"')
            for (at++; at < p->len && p->text[at] != '"'; at++)
                continue;
        depth += (strchr("{[(", c) != NULL) - (strchr("}])", c) != NULL);
    }
    return at;
}

/* `key=value, …` up to the closing brace. */
static bool read_params(Pipeline *p, const Attrs **out)
{
    Ctx *cx = p->pc->cx;
    uint32_t end = find_end(p, p->at, "}");
    if (end >= p->len) {
        diag_error(cx->diags, E0603_PIPELINE, span_of(p, p->at, p->len),
                   "the brace of the parameters is not closed");
        return false;
    }
    for (skip_blanks(p); p->at < end; skip_blanks(p)) {
        uint32_t stop = find_end(p, p->at, ",}"), eq = find_end(p, p->at, "=,}"), from = p->at;
        if (eq >= stop || p->text[eq] != '=') {
            diag_error(cx->diags, E0603_PIPELINE, span_of(p, from, stop),
                       "a parameter is written `key=value`");
            return false;
        }
        uint32_t key_end = eq;
        while (key_end > from && isspace((unsigned char)p->text[key_end - 1]))
            key_end--;
        AttrValue value;
        if (!parse_attr_value(cx, &p->arena, p->source, span_of(p, eq + 1, stop), &value))
            return false;
        const char *key = arena_copy_text(&p->arena, p->text + from, key_end - from);
        if (attrs_find(*out, key)) {
            diag_error(cx->diags, E0113_DUPLICATE, span_of(p, from, key_end),
                       "parameter `%s` is given twice", key);
            return false;
        }
        Attrs *record = (Attrs *)(uintptr_t)attrs_with(&p->arena, *out, key, value);
        record->at[record->n - 1].span = span_of(p, eq + 1, stop);
        record->at[record->n - 1].key_span = span_of(p, from, key_end);
        *out = record;
        p->at = stop + (stop < end);
    }
    p->at = end + 1;
    return true;
}

const PassAbsent passes_absent[] = {
#define ABSENT(name, why) {name, why},
#include "passes/absent.def"
#undef ABSENT
    {0},
};

static Diag *unknown_pass(Ctx *cx, Str name, Span span)
{
    const char *names[256];
    size_t n = 0;
    for (const Pass *const *row = passes; *row && n < 256; row++)
        names[n++] = (*row)->name;
    char *wanted = arena_copy_text(&cx->diags->arena, name.ptr, name.len);
    Diag *d = diag_error(cx->diags, E0601_UNKNOWN_PASS, span, "there is no pass `%s`", wanted);
    for (const PassAbsent *a = passes_absent; a->name; a++)
        if (str_is(name, a->name)) {
            diag_help(d, "%s", a->why);
            return d;
        }
    diag_suggest(d, wanted, n, names);
    diag_help(d, "`:pass` alone lists the passes");
    return d;
}

bool passes_known(Ctx *cx, const char *option, const char *list)
{
    bool all = true;
    for (const char *p = list; p && *p; p += *p == ',') {
        Str name = {p, strcspn(p, ",")};
        p += name.len;
        if (name.len == 0 || pass_find(name))
            continue;
        all = false;
        diag_note(unknown_pass(cx, name, (Span){0}), "it is named by `--%s`", option);
    }
    return all;
}

static Module *run_text(PassContext *pc, Module *m, uint32_t source, int depth);

static Module *run_default(Pipeline *p, Str name, Span span, Module *m)
{
    int level = name.len == 3 ? name.ptr[2] - '0' : -1;
    const char *text = passes_default(level);
    if (!text) {
        diag_error(p->pc->cx->diags, E0601_UNKNOWN_PASS, span,
                   "the default pipelines are -O0 to -O4");
        module_release(m);
        return NULL;
    }
    int outer = p->pc->opt_level;
    p->pc->opt_level = level;
    Module *now =
        run_text(p->pc, m, sources_constant(&p->pc->cx->sources, "default pipeline", text), 1);
    p->pc->opt_level = outer;
    return now;
}

/* A pipeline that was not written by the user; takes m. */
static Module *run_hidden(PassContext *pc, Module *m, const char *text)
{
    return run_text(pc, m, sources_constant(&pc->cx->sources, "passes", text), 1);
}

static PassContext inner_context(const PassRun *run)
{
    return (PassContext){.cx = run->cx,
                         .opt_level = INT_MAX,
                         .config = run->context->config,
                         .env = run->context->env,
                         .meant = run->context->meant,
                         .for_code = run->context->for_code,
                         .exact = run->context->exact,
                         .rewrites = run->context->rewrites,
                         .decided = run->context->decided,
                         .data = run->context->data};
}

Module *pass_run_inner(PassRun *run, Module *m, const char *pipeline)
{
    PassContext inner = inner_context(run);
    inner.rewrites = NULL;
    return run_hidden(&inner, module_retain(m), pipeline);
}

Module *pass_run_row(PassRun *run, Module *m, const Pass *row)
{
    PassContext inner = inner_context(run);
    return run_pass(&inner, row, run->params, run->where, module_retain(m));
}

void pass_take(PassRun *run, Module *now)
{
    Module *to = run->module;
    for (size_t i = 0; i < to->defs.n; i++)
        if (to->defs.at[i].fn && !module_find(now, to->defs.at[i].name))
            module_remove(to, to->defs.at[i].name);
    for (size_t i = 0; i < now->types.n; i++)
        if (!module_find_type(to, now->types.at[i]->name))
            module_define_type(to, now->types.at[i]);
    for (size_t i = 0; i < now->defs.n; i++) {
        const Def *def = &now->defs.at[i], *had = module_find(to, def->name);
        if (def->fn && !def->imported && (!had || had->fn != def->fn))
            module_define(to, def->name, def->fn, def->span, def->home);
    }
    to->expr = now->expr;
    module_use(to, now);
}

/* The pass with what it wants to run before; takes m. */
static Module *run_enabled(PassContext *pc, const Pass *pass, const Attrs *params, Span where,
                           Module *m)
{
    PassContext any = *pc;
    if (pass->parts) {
        any.opt_level = pc->opt_level > pass->opt_level ? pc->opt_level : pass->opt_level;
        return run_hidden(&any, m, pass->parts);
    }
    if (pass->before) {
        any.opt_level = INT_MAX;
        any.disable = NULL;
        any.rewrites = NULL;
        m = run_hidden(&any, m, pass->before);
    }
    return m ? run_pass(pc, pass, params, where, m) : NULL;
}

/* One element of the pipeline; takes m. */
static Module *run_step(Pipeline *p, Module *m, int depth)
{
    Ctx *cx = p->pc->cx;
    uint32_t from = p->at;
    while (p->at < p->len &&
           (isalnum((unsigned char)p->text[p->at]) || strchr("._-", p->text[p->at])))
        p->at++;
    Str name = {p->text + from, p->at - from};
    Span span = span_of(p, from, p->at);
    const Attrs *written = NULL;
    Diag *before = cx->diags->last;
    skip_blanks(p);
    bool ok = true;
    if (p->at < p->len && p->text[p->at] == '{') {
        p->at++;
        ok = read_params(p, &written);
    }
    const Pass *pass = pass_find(name);
    const Attrs *params = NULL;
    progress_name(cx->progress, pass ? pass->name : "");
    if (ok && name.len > 1 && name.ptr[0] == '-' && depth == 0)
        return run_default(p, name, span, m);
    if (ok && !pass)
        unknown_pass(p->pc->cx, name, span);
    size_t errors = cx->diags->errors;
    if (ok && pass) {
        params = attrs_check_params(cx, &p->arena, pass->name, pass->params, written, span);
        ok = cx->diags->errors == errors && params_name_what_is(p->pc, pass, m, written);
    }
    diags_are_asked(cx->diags, before);
    if (ok && pass && !limit_hit(&cx->limits))
        return enabled(p->pc, pass, span, depth == 0) ? run_enabled(p->pc, pass, params, span, m)
                                                      : m;
    module_release(m);
    return NULL;
}

static uint64_t elements_of(const Pipeline *p)
{
    uint64_t n = 1;
    for (uint32_t at = p->at; (at = find_end(p, at, ",")) < p->len; at++)
        n++;
    return n;
}

/* Takes m. */
static Module *run_text(PassContext *pc, Module *m, uint32_t source, int depth)
{
    const Source *text = sources_get(&pc->cx->sources, source);
    Pipeline p = {.pc = pc,
                  .source = source,
                  .text = text ? text->text : "",
                  .len = text ? (uint32_t)text->len : 0};
    arena_init(&p.arena, &pc->cx->limits);
    unsigned outer = progress_enter(pc->cx->progress, "passes", "", elements_of(&p));
    uint64_t done = 0;
    for (skip_blanks(&p); m && p.at < p.len; skip_blanks(&p)) {
        m = run_step(&p, m, depth);
        progress_step(pc->cx->progress, ++done);
        skip_blanks(&p);
        if (m && p.at < p.len && p.text[p.at++] != ',') {
            diag_error(pc->cx->diags, E0603_PIPELINE, span_of(&p, p.at - 1, p.at),
                       "passes are separated by commas");
            module_release(m);
            m = NULL;
        }
    }
    progress_leave(pc->cx->progress, outer);
    arena_deinit(&p.arena);
    return m;
}

/* Keys of the original that no pass here reads are accepted with values of their kind. */
static const OpAttr config_keys[] = {
    {.name = "relay.FuseOps.max_depth",
     .type = ATTR_TYPE_INT,
     .otherwise = {.kind = ATTR_INT, .i = 256}},
    {.name = "relay.FuseOps.link_params",
     .type = ATTR_TYPE_BOOL,
     .otherwise = {.kind = ATTR_BOOL, .b = false}},
    {.name = "relay.ToMixedPrecision.keep_orig_output_dtype", .type = ATTR_TYPE_BOOL},
    {.name = "relay.remove_standalone_reshapes.enable", .type = ATTR_TYPE_BOOL},
    {.name = "relay.fallback_device_type", .type = ATTR_TYPE_INT},
    {.name = "relay.backend.use_auto_scheduler", .type = ATTR_TYPE_BOOL},
    {.name = "relay.backend.use_meta_schedule", .type = ATTR_TYPE_BOOL},
    {.name = "relay.frontend.fill_span", .type = ATTR_TYPE_BOOL},
    {.name = "relay.collage.tvm_max_depth", .type = ATTR_TYPE_INT},
    {.name = "relay.collage.byoc_max_depth", .type = ATTR_TYPE_INT},
    {.name = "testing.immutable_module", .type = ATTR_TYPE_BOOL},
    {0},
};

const Attrs *pass_config(Ctx *cx, Arena *arena, const Attrs *written)
{
    Diag *before = cx->diags->last;
    const Attrs *known = attrs_check_params(cx, arena, "--config", config_keys, written, (Span){0});
    diags_are_asked(cx->diags, before);
    return known;
}

Module *passes_run(PassContext *pc, Module *m, uint32_t pipeline_source)
{
    Module *now = typecheck_module(pc->cx, m, pc->env) ? module_retain(m) : NULL;
    now = now ? run_text(pc, now, pipeline_source, 0) : NULL;
    return now ? say_types(pc->cx, now, pc->env) : NULL;
}

Module *passes_run_text(PassContext *pc, Module *m, const char *pipeline)
{
    return passes_run(pc, m, sources_add(&pc->cx->sources, "pipeline", pipeline, strlen(pipeline)));
}

/* Levels are kept by the passes themselves: the pipeline is the same at each. */
#define DEFAULT_PIPELINE                                                                      \
    "RemoveUnusedFunctions,ToBasicBlockNormalForm,qnn.CanonicalizeOps,SimplifyInference,"     \
    "EliminateCommonSubexpr,"                                                                 \
    "CombineParallelConv2D,CombineParallelDense,CombineParallelBatchMatmul,FoldConstant,"     \
    "FoldScaleAxis,"                                                                          \
    "SimplifyExpr,CanonicalizeCast,CanonicalizeOps,FlattenAtrousConv,AlterOpLayout,FastMath," \
    "FoldConstant,FuseOps,Inline"

static const char default_pipeline[] = DEFAULT_PIPELINE;
/* Functions that are to be put in place are optimised there. Images lie as strategies for convolutions want them; what comes in and goes
 * out is turned. */
static const char code_pipeline[] =
    "Inline{worthwhile=True},SpecializeRecursion,BatchRecursion,ToGraphNormalForm,"
    "ConvertLayout{desired_layouts={\"nn.conv2d\": [\"NCHW\", "
    "\"OIHW\"]}},WidenHalves,PhaseConvTranspose,StackConv3D,SplitPools," DEFAULT_PIPELINE
    ",JoinKernels";

const char *passes_default(int level)
{
    return level >= 0 && level <= OPT_LEVEL_MOST ? default_pipeline : NULL;
}

/* What code for the processor wants at a level below the one at which the default pipeline would run it. */
static const char code_wants[] =
    "ConvertLayout,EliminateCommonSubexpr,CanonicalizeOps,FoldScaleAxis,AlterOpLayout,"
    "BackwardFoldScaleAxis,ForwardFoldScaleAxis";

/* What is wrong with this program itself is told on. */
static bool tell_bugs(const Diags *from, Diags *to)
{
    bool found = false;
    for (const Diag *d = from->first; d; d = d->next) {
        if (d->severity != SEVERITY_BUG)
            continue;
        diag_bug(to, d->span, "%s", d->message);
        found = true;
    }
    return found;
}

Module *passes_run_for_code(PassContext *pc, Module *m)
{
    Ctx *cx = pc->cx;
    pc->disable = "RemoveUnusedFunctions";
    pc->for_code = true;
    pc->require = pc->opt_level >= 2 ? code_wants : NULL;
    if (!typecheck_module(cx, m, pc->env))
        return NULL;
    Module *checked = declared_shapes_of_module(cx, m, pc->env);
    if (!checked)
        return NULL;
    Attempt attempt;
    attempt_begin(&attempt, cx);
    Module *now = run_text(pc, module_retain(checked),
                           sources_constant(&cx->sources, "default pipeline", code_pipeline), 1);
    /* Types that constants made known may show that a call can only fail. Nobody knows whether it is reached: so the program stays,
     * and says it when it is. */
    bool fails = !now && attempt.found.errors && cx->limits.hit == LIMIT_NONE;
    if (tell_bugs(&attempt.found, attempt.before)) {
        module_release(now);
        now = NULL;
        fails = false;
    }
    attempt_end(&attempt, cx);
    now = fails ? module_retain(checked) : now;
    module_release(checked);
    return now;
}
