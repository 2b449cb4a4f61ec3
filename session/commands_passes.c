/* Commands that take a program through passes: `:pass`, `:explain pass`, `:blame`. */
#include "ir/print.h"
#include "session/commands.h"
#include "session/views/blame.h"
#include "session/views/trace.h"

#include <ctype.h>
#include <string.h>

static void list_passes(CommandCall *c)
{
    enum { COLUMN = 36 };
    Buf b = {0}, left = {0};
    for (const Pass *const *p = passes; *p; p++) {
        buf_clear(&left);
        buf_printf(&left, "%-26s level %d", (*p)->name, (*p)->opt_level);
        fill_row(&b, buf_text(&left), str_of((*p)->doc), COLUMN, session_width(c->s));
    }
    buf_deinit(&left);
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* ` as @h` at the end of the text, which it takes off; false after a diagnostic. `name` is empty where it is not there. */
static bool take_name(CommandCall *target, Str *name)
{
    Str t = target->text;
    size_t end = t.len, at = 0;
    *name = (Str){0};
    while (end && isspace((unsigned char)t.ptr[end - 1]))
        end--;
    for (at = end; at && !isspace((unsigned char)t.ptr[at - 1]); at--)
        continue;
    size_t before = at;
    while (before && isspace((unsigned char)t.ptr[before - 1]))
        before--;
    bool as = before > 2 && t.ptr[before - 1] == 's' && t.ptr[before - 2] == 'a' &&
              isspace((unsigned char)t.ptr[before - 3]);
    if (!as)
        return true;
    if (t.ptr[at] != '@' || end - at < 2) {
        Span span = target->args;
        span.from += (uint32_t)at;
        span.to = span.from + (uint32_t)(end - at);
        Diag *d = diag_error(target->s->cx.diags, E0402_USAGE, span,
                             "`as` names a definition, and this is none");
        diag_help(d, "for instance `:pass FoldConstant @f as @g`");
        return false;
    }
    *name = (Str){t.ptr + at + 1, end - at - 1};
    before -= 2;
    while (before && isspace((unsigned char)t.ptr[before - 1]))
        before--;
    target->text.len = before;
    target->args.to = target->args.from + (uint32_t)target->text.len;
    return true;
}

static void note_free(void *data, Var *v)
{
    const Var **first = data;
    *first = *first ? *first : v;
}

static bool is_made_once(const Expr *e)
{
    return e->kind == EXPR_FUNCTION || e->kind == EXPR_CONSTANT || e->kind == EXPR_VAR;
}

/* An expression as a definition: a function literal, or a variable that one is bound to, with what is bound in front of it inside. NULL
 * after a diagnostic. */
static Function *as_definition(CommandCall *target, Module *m)
{
    Ctx *cx = &target->s->cx;
    const Expr *e = m->expr;
    const Var *outer = NULL;
    Vec(const Let *) lets = {0};
    Arena scratch;
    arena_init(&scratch, &cx->limits);
    for (const Let *let = expr_as_let(e); let && is_made_once(let->value); let = expr_as_let(e)) {
        vec_push(&lets, &scratch, let);
        e = let->body;
    }
    if (lets.n && e == &vec_last(&lets)->var->base)
        e = vec_pop(&lets)->value;
    const Function *f = expr_as_function(e);
    Expr *body = f ? f->body : NULL;
    while (f && lets.n) {
        const Let *last = vec_pop(&lets);
        body = expr_let(&m->arena, last->base.span, last->var, last->value, body);
    }
    arena_deinit(&scratch);
    Function *made = f ? expr_function(&m->arena, f->base.span, f->type_params, f->params.n,
                                       f->params.at, f->attrs, f->ret_type, body)
                       : NULL;
    if (made)
        ir_free_vars(&made->base, note_free, &outer);
    if (made && !outer)
        return made;
    Diag *d =
        diag_error(cx->diags, E0402_USAGE, target->args,
                   made ? "`as` makes a definition, and this uses `%%%s`, which is no part of it"
                        : "`as` gives a name to a function, and this is none that is written out",
                   made ? outer->name->text : "");
    diag_help(d, made ? "make it a parameter" : "for instance `:pass FoldConstant @f as @g`");
    return NULL;
}

/* What the passes made, and of what it calls, as definitions: `from`, or the expression, under `name`, those that are new or other than
 * in the session under names that begin with it. */
static Module *renamed(CommandCall *target, Module *now, const Name *from, Str name)
{
    RelaySession *s = target->s;
    Function *literal = from ? NULL : as_definition(target, now);
    Module *out = from || literal ? module_new(&s->cx) : NULL;
    Vec(const Name *) names = {0};
    Arena scratch;
    arena_init(&scratch, &s->cx.limits);
    if (out && literal) {
        module_define(out, ctx_name_str(&s->cx, name), literal, target->args, now);
        vec_push(&names, &scratch, ctx_name(&s->cx, ""));
    }
    for (size_t i = 0; out && i < now->defs.n; i++) {
        const Def *d = &now->defs.at[i], *old = module_find(s->env, d->name);
        if (!d->fn || (old && old->fn == d->fn && d->name != from))
            continue;
        Buf text = {0};
        buf_printf(&text, "%.*s", (int)name.len, name.ptr);
        if (d->name != from)
            buf_printf(&text, "_%s", d->name->text);
        const Name *to = ctx_name(&s->cx, buf_text(&text));
        buf_deinit(&text);
        module_define(out, to, d->fn, d->span, d->home);
        vec_push(&names, &scratch, d->name);
    }
    for (size_t i = 0; out && i < out->defs.n; i++) {
        Expr *fn = &out->defs.at[i].fn->base;
        for (size_t k = 0; fn && k < names.n; k++)
            fn = rename_global(&s->cx, out, fn, names.at[k], out->defs.at[k].name);
        if (fn)
            out->defs.at[i].fn = expr_as_function(fn);
    }
    arena_deinit(&scratch);
    return out;
}

/* What a pass made becomes a text like any other, so that everything that is known of definitions holds for it. */
static void define_as(RelaySession *s, Module *m, const char *what)
{
    Buf text = {0};
    Module *read = NULL;
    ir_print_module(&text, m, (PrintStyle){0});
    uint32_t source = text.failed ? 0 : sources_add(&s->cx.sources, what, text.at, text.n);
    ParseEnv env = session_parse_env(s);
    if (source)
        read = session_parse(s, source, &env);
    buf_deinit(&text);
    if (!read)
        return;
    Redefinition r;
    redefinition_init(&r, s, read);
    if (redefinition_check(&r, false) && redefinition_commit(&r)) {
        s->binds++;
        redefinition_show(&r);
    }
    redefinition_deinit(&r);
    module_release(read);
}

Str command_pipeline(CommandCall *c)
{
    /* The pipeline ends at the first blank outside brackets. */
    size_t n = 0;
    for (int depth = 0; n < c->text.len && (depth || !isspace((unsigned char)c->text.ptr[n])); n++)
        depth += (strchr("{[(", c->text.ptr[n]) != NULL) - (strchr("}])", c->text.ptr[n]) != NULL);
    Str pipeline = {c->text.ptr, n};
    while (n < c->text.len && isspace((unsigned char)c->text.ptr[n]))
        n++;
    c->text = (Str){c->text.ptr + n, c->text.len - n};
    c->args.from += (uint32_t)n;
    return pipeline;
}

size_t pipeline_last(Str pipeline)
{
    size_t at = 0;
    for (size_t i = 0, depth = 0; i < pipeline.len; i++) {
        char c = pipeline.ptr[i];
        depth += (strchr("{[(", c) != NULL) - (strchr("}])", c) != NULL);
        if (c == ',' && depth == 0)
            at = i + 1;
    }
    return at;
}

typedef struct PassCall {
    CommandCall target;
    Str pipeline;
    Str name; /* of the definition that the result becomes; empty: none */
    TraceView view;
} PassCall;

static void run_passes(RelaySession *s, PassCall *call, Module *m)
{
    const Def *def = command_global(&call->target);
    const Name *from = def ? def->name : NULL;
    Trace trace;
    trace_init(&trace, s);
    PassContext pc = {.cx = &s->cx, .opt_level = 4, .env = s->env, .meant = from};
    trace_listen(&trace, &pc);
    call->view.pipeline = arena_copy_text(&trace.arena, call->pipeline.ptr, call->pipeline.len);
    uint32_t source =
        sources_add(&s->cx.sources, "pipeline", call->pipeline.ptr, call->pipeline.len);
    Module *now = source ? passes_run(&pc, m, source) : NULL;
    bool none = now && call->view.step != TRACE_LAST && call->view.step > trace.steps.n;
    if (none)
        diag_error(s->cx.diags, E0402_USAGE, call->target.args,
                   "there is no step %zu: the pipeline has %zu", call->view.step, trace.steps.n);
    else if (trace.steps.n && (now || !call->view.why))
        trace_emit(&trace, call->view);
    Module *made =
        now && !none && call->name.len ? renamed(&call->target, now, from, call->name) : NULL;
    if (made)
        define_as(s, made, "what the passes made");
    module_release(made);
    module_release(now);
    trace_deinit(&trace);
}

static void passes_of_command(PassCall *call)
{
    Module *m =
        command_need(&call->target, "what the passes are to run on (`@f`, or an expression)")
            ? command_module(&call->target)
            : NULL;
    /* Of an expression that calls definitions, what passes decide in these is what one asks for. */
    if (m && m->expr && call->view.why) {
        Module *all = module_with_reached(call->target.s->env, m);
        module_release(m);
        m = all;
    }
    if (m)
        run_passes(call->target.s, call, m);
    module_release(m);
}

void command_pass(CommandCall *c)
{
    uint64_t step = 0;
    if (!command_setting(c, "step", &step))
        return;
    if (c->text.len == 0) {
        list_passes(c);
        return;
    }
    PassCall call = {.target = *c, .view = {.step = step}};
    call.pipeline = command_pipeline(&call.target);
    if (take_name(&call.target, &call.name))
        passes_of_command(&call);
}

/* Whether the pipeline ends in a pass that is not several. */
static bool is_one_pass(Str pipeline)
{
    size_t from = pipeline_last(pipeline), end = from;
    while (end < pipeline.len && pipeline.ptr[end] != '{')
        end++;
    const Pass *pass = pass_find((Str){pipeline.ptr + from, end - from});
    return pass && !pass->parts;
}

void explain_pass(CommandCall *c)
{
    PassCall call = {.target = *c, .view = {.why = true}};
    call.pipeline = command_pipeline(&call.target);
    call.view.step = is_one_pass(call.pipeline) ? TRACE_LAST : 0;
    if (command_need(c, "a pass, and what it is to run on"))
        passes_of_command(&call);
}

void command_rewrites(CommandCall *c)
{
    uint64_t seed = 0;
    if (!command_setting(c, "seed", &seed))
        return;
    BlameWish wish = {.seed = seed, .pipeline = command_pipeline(c)};
    const Def *def = command_need(c, "a pass, and what it is to run on") ? command_global(c) : NULL;
    wish.m = c->text.len ? command_module(c) : NULL;
    wish.entry = def ? def->name : NULL;
    if (wish.m)
        rewrites(c->s, &wish);
    module_release(wish.m);
}

void command_blame(CommandCall *c)
{
    uint64_t seed = 0;
    if (!command_setting(c, "seed", &seed))
        return;
    BlameWish wish = {.seed = seed, .pipeline = command_pipeline(c)};
    wish.time = str_is(wish.pipeline, "time");
    if (wish.time)
        wish.pipeline = command_pipeline(c);
    else if (str_is(wish.pipeline, "engines"))
        wish.pipeline.len = 0;
    const Def *def =
        command_need(c, "what to run (`@f`, or an expression)") ? command_global(c) : NULL;
    wish.m = c->text.len ? command_module(c) : NULL;
    wish.entry = def ? def->name : NULL;
    if (wish.m)
        blame(c->s, &wish);
    module_release(wish.m);
}
