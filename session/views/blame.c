#include "session/views/blame.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "ir/print.h"
#include "ir/walk.h"
#include "runtime/show.h"
#include "session/timing.h"
#include "session/views/trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* How long a smaller program is looked for, and how many are tried. */
#define SHRINK_SECONDS 5.0
#define SHRINK_TRIES 400
/* What takes so many times as long is slower, and how long that is measured. */
#define SLOWER 1.2
/* Seconds that a call may take more or less by itself, and how often one that seems slower is looked at. */
#define CALL_VARIES 1e-6
#define LOOKS 4
#define CLOCK_SECONDS 0.02

typedef struct Blame {
    RelaySession *s;
    const BlameWish *wish;
    Arena arena;
    double deadline;
    size_t tries;
} Blame;

/* What the program gives before anything happens to it. */
typedef struct Before {
    Value value;
    double seconds; /* of a run, where times are compared: the least so far */
} Before;

/* What was seen. */
typedef struct Difference {
    Buf why; /* "element [0, 3] was 1 and is 2" */
    Buf was, is; /* the values, or the types */
} Difference;

static void difference_deinit(Difference *d)
{
    buf_deinit(&d->why);
    buf_deinit(&d->was);
    buf_deinit(&d->is);
}

/* ---- values that agree --------------------------------------------------------------------------------------------------------- */

/* What rounding may do; programs are reordered, and some sums are long. */
static double tolerance(DType t)
{
    if (t.code != DTYPE_CODE_FLOAT && t.code != DTYPE_CODE_BFLOAT)
        return 0;
    return t.bits >= 64 ? 1e-9 : t.bits >= 32 ? 1e-4 : 2e-2;
}

static bool same_number(double a, double b, double within)
{
    if (a == b || (isnan(a) && isnan(b)))
        return true;
    return fabs(a - b) <= within * fmax(1, fmax(fabs(a), fabs(b)));
}

static void put_place(Buf *out, const Tensor *t, int64_t at)
{
    int64_t inner = t->size;
    buf_char(out, '[');
    for (int32_t i = 0; i < t->rank; i++) {
        inner /= t->shape[i];
        buf_printf(out, "%s%lld", i ? ", " : "", (long long)(at / inner));
        at %= inner;
    }
    buf_char(out, ']');
}

static bool same_tensor(Blame *b, const Tensor *x, const Tensor *y, Buf *why)
{
    bool alike = dtype_eq(x->dtype, y->dtype) && x->rank == y->rank;
    for (int32_t i = 0; alike && i < x->rank; i++)
        alike = x->shape[i] == y->shape[i];
    if (!alike) {
        buf_str(why, "the shape or the element type is another");
        return false;
    }
    bool whole = dtype_is_int(x->dtype);
    for (int64_t i = 0; i < x->size && !limit_hit_at(&b->s->cx.limits, i); i++) {
        double p = tensor_get_double(x, i), q = tensor_get_double(y, i);
        if (whole ? tensor_get_int(x, i) == tensor_get_int(y, i)
                  : same_number(p, q, tolerance(x->dtype)))
            continue;
        buf_str(why, x->rank ? "element " : "it");
        if (x->rank)
            put_place(why, x, i);
        buf_printf(why, " was %.9g and is %.9g", p, q);
        return false;
    }
    return true;
}

typedef struct Pair {
    Value a, b;
} Pair;

/* Values of one form; functions are not looked into. */
static bool same_value(Blame *b, Value x, Value y, Buf *why)
{
    Arena scratch;
    Vec(Pair) todo = {0};
    bool same = true;
    arena_init(&scratch, &b->s->cx.limits);
    vec_push(&todo, &scratch, ((Pair){x, y}));
    while (same && todo.n && !limit_hit(&b->s->cx.limits)) {
        Pair p = vec_pop(&todo);
        TensorView v, w;
        if (value_view(&p.a, &v) && value_view(&p.b, &w)) {
            same = same_tensor(b, &v.t, &w.t, why);
        } else if (p.a.kind != p.b.kind) {
            same = false;
        } else if (value_is_object(p.a) && p.a.kind != VALUE_FUNCTION) {
            same = object_n(p.a.object) == object_n(p.b.object) &&
                   (p.a.kind != VALUE_CON || object_info(p.a.object) == object_info(p.b.object));
            for (uint32_t i = 0; same && i < object_n(p.a.object); i++)
                vec_push(&todo, &scratch,
                         ((Pair){object_get(p.a.object, i), object_get(p.b.object, i)}));
        }
    }
    arena_deinit(&scratch);
    if (!same && !why->n)
        buf_str(why, "the form of the value is another");
    return same;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------- */

/* A program with inputs: a call of the function on variables that have values, or an expression by itself. */
typedef struct Runs {
    Blame *b;
    Vec(Var *) vars;
    Value *values;
    uint32_t n;
} Runs;

static const Type *type_of_program(const BlameWish *w, const Module *m)
{
    const Def *def = w->entry ? module_find(m, w->entry) : NULL;
    const Expr *e = w->entry ? (def && def->fn ? &def->fn->base : NULL) : m->expr;
    return e && e->type ? type_find(e->type) : NULL;
}

static void runs_deinit(Runs *r)
{
    for (uint32_t i = 0; r->b && i < r->n; i++) {
        ptrmap_remove(&r->b->s->local_values, r->vars.at[i]);
        value_release(r->values[i]);
    }
    free(r->values);
    *r = (Runs){0};
}

/* Random values for the parameters, where the program is a function. False when there is none for a type. */
static bool runs_init(Runs *r, Blame *b, const BlameWish *w, const Module *m)
{
    const Type *t = type_of_program(w, m);
    RelaySession *s = b->s;
    *r = (Runs){.b = b};
    if (!t || t->kind != TYPE_FUNC)
        return t != NULL;
    uint32_t n = t->n;
    uint64_t drawn = 0;
    r->values = memory_zeroed((size_t)n + 1, sizeof *r->values);
    for (uint32_t i = 0; r->values && i < n; i++) {
        Value v = value_random(&s->cx.limits, t->parts[i], w->seed, &drawn);
        if (value_is_none(v)) {
            runs_deinit(r);
            return false;
        }
        Var *var = expr_var(&b->arena, (Span){0}, ctx_name(&s->cx, "input"), t->parts[i]);
        var->base.type = t->parts[i];
        r->values[i] = v;
        vec_push(&r->vars, &b->arena, var);
        ptrmap_put(&s->local_values, var, &r->values[i]);
        r->n++;
    }
    return r->values != NULL;
}

/* The program after some passes as an expression that can be evaluated; the module is the caller's. NULL after a diagnostic. */
static Module *runnable(const Runs *r, const BlameWish *w, Module *m, Module *env)
{
    RelaySession *s = r->b->s;
    const Type *t = type_of_program(w, m);
    Module *out = module_derive(m);
    if (!out || !t)
        return out;
    Arena *arena = &out->arena;
    Expr *fn = w->entry ? expr_global(arena, (Span){0}, w->entry) : m->expr;
    Expr **args = arena_new_array(arena, Expr *, r->n + 1);
    for (uint32_t i = 0; i < r->n; i++)
        args[i] = &r->vars.at[i]->base;
    out->expr = t->kind == TYPE_FUNC ? expr_call(arena, fn->span, fn, r->n, args, NULL) : fn;
    if (typecheck_module(&s->cx, out, env))
        return out;
    module_release(out);
    return NULL;
}

/* `seconds`, if it is not NULL, gets how long a run takes. */
static Value run_jit(RelaySession *s, Module *env, Module *m, double *seconds)
{
    Thunk t;
    Timing timing;
    Runnable code;
    Buf why = {0};
    Value v = value_none();
    if (thunk_make(s, env, m, m->expr, CLOSURES_ALL, &t)) {
        if (engine_compile(s, t.module, t.name, COMPILE_TO_RUN, &code, &why)) {
            if (!seconds)
                v = engine_call(s, &code, t.n, t.args);
            else if (time_calls(s, &code, t.n, t.args,
                                (TimeWish){.seconds = CLOCK_SECONDS, .runs = 3, .result = &v},
                                &timing))
                *seconds = timing.least;
            engine_release(s, &code);
        }
        thunk_free(s, &t);
    }
    buf_deinit(&why);
    return v;
}

static Value run_timed(const Runs *r, const BlameWish *w, Module *m, Engine engine, double *seconds)
{
    RelaySession *s = r->b->s;
    Module *env = session_with(s->env, m);
    Module *program = env ? runnable(r, w, m, env) : NULL;
    Value v = value_none();
    if (program && engine == ENGINE_JIT)
        v = run_jit(s, env, program, seconds);
    else if (program)
        v = interp_eval(s->interp, env, program, program->expr, &s->local_values);
    if (program)
        interp_forget(s->interp, program);
    if (env)
        interp_forget(s->interp, env);
    module_release(program);
    module_release(env);
    return v;
}

static Value run(const Runs *r, const BlameWish *w, Module *m, Engine engine)
{
    return run_timed(r, w, m, engine, NULL);
}

/* How long compiled code takes; infinity where there is none. */
static double clock_program(const Runs *r, const BlameWish *w, Module *m)
{
    double seconds = INFINITY;
    value_release(run_timed(r, w, m, ENGINE_JIT, &seconds));
    return seconds;
}

static Before run_before(const Runs *r, const BlameWish *w, Module *m)
{
    Before b = {.value = run(r, w, m, ENGINE_INTERP)};
    if (w->time && !value_is_none(b.value))
        b.seconds = clock_program(r, w, m);
    return b;
}

/* ---- attempts -------------------------------------------------------------------------------------------------------------------- */

/* The message of what went wrong first; NULL: nothing did. Lent until the end. */
static const char *first_message(const Attempt *a)
{
    const Diag *d = a->found.first;
    while (d && d->severity != SEVERITY_ERROR && d->severity != SEVERITY_BUG)
        d = d->next;
    return d ? d->message : NULL;
}

static void show(Blame *b, Buf *out, Value v)
{
    ShowStyle style = {
        .elements = 12, .list = 12, .large = SHOW_SUMMARY, .limits = &b->s->cx.limits};
    value_show(out, v, style);
}

static bool is_longer(double is, double was)
{
    return isfinite(is) && is > SLOWER * was && is > was + CALL_VARIES;
}

/* Whether it takes longer, however often it is looked at. */
static bool slower(const Runs *r, const BlameWish *w, Before *was, Module *now, Difference *out)
{
    Attempt attempt;
    attempt_begin(&attempt, &r->b->s->cx);
    double is = clock_program(r, w, now);
    for (int i = 1; i < LOOKS && is_longer(is, was->seconds); i++)
        is = fmin(is, clock_program(r, w, now));
    attempt_end(&attempt, &r->b->s->cx);
    bool other = is_longer(is, was->seconds);
    if (other) {
        buf_printf(&out->why, "it takes %.1f times as long", is / was->seconds);
        buf_printf(&out->was, "%.4g µs", was->seconds * 1e6);
        buf_printf(&out->is, "%.4g µs", is * 1e6);
    }
    was->seconds = fmin(was->seconds, is);
    return other && r->b->s->cx.limits.hit == LIMIT_NONE;
}

/* Whether a program has another type, gives something else than before, or, where times are compared, takes longer; `out`: how. */
static bool differs(const Runs *r, const BlameWish *w, Before *before, Module *now, Engine engine,
                    Difference *out)
{
    Blame *b = r->b;
    Value was = before->value;
    const Type *had = type_of_program(w, w->m), *has = type_of_program(w, now);
    if (w->time)
        return slower(r, w, before, now, out);
    if (had && has && !type_equal(had, has)) {
        type_print(&out->was, had);
        type_print(&out->is, has);
        buf_str(&out->why, "the type");
        return true;
    }
    Attempt attempt;
    attempt_begin(&attempt, &b->s->cx);
    Value is = run(r, w, now, engine);
    const char *message = first_message(&attempt);
    bool none = value_is_none(is), other;
    other = none ? message != NULL : !same_value(b, was, is, &out->why);
    if (other && none)
        buf_printf(&out->why, "it fails: %s", message);
    if (other) {
        show(b, &out->was, was);
        show(b, &out->is, is);
    }
    attempt_end(&attempt, &b->s->cx);
    value_release(is);
    return other && b->s->cx.limits.hit == LIMIT_NONE;
}

static Module *run_pipeline(Blame *b, const BlameWish *w, Trace *t)
{
    RelaySession *s = b->s;
    PassContext pc = {.cx = &s->cx, .opt_level = 4, .env = s->env, .meant = w->entry};
    if (t)
        trace_listen(t, &pc);
    uint32_t source = sources_add(&s->cx.sources, "pipeline", w->pipeline.ptr, w->pipeline.len);
    return source ? passes_run(&pc, w->m, source) : NULL;
}

/* Whether another program shows a difference too. */
static bool also_differs(Blame *b, const BlameWish *w)
{
    Runs r = {0};
    Attempt attempt;
    Difference d = {0};
    bool other = false;
    progress_step(&b->s->progress, b->tries++);
    attempt_begin(&attempt, &b->s->cx);
    bool ready = typecheck_module(&b->s->cx, w->m, b->s->env) && runs_init(&r, b, w, w->m);
    Before was = ready ? run_before(&r, w, w->m) : (Before){.value = value_none()};
    Module *now = value_is_none(was.value) ? NULL
                  : w->pipeline.len        ? run_pipeline(b, w, NULL)
                                           : module_retain(w->m);
    attempt_end(&attempt, &b->s->cx);
    if (now)
        other = differs(&r, w, &was, now, w->pipeline.len ? ENGINE_INTERP : ENGINE_JIT, &d);
    difference_deinit(&d);
    module_release(now);
    value_release(was.value);
    runs_deinit(&r);
    return other;
}

/* ---- smaller programs -------------------------------------------------------------------------------------------------------------- */

/* A node that something else stands for. */
typedef struct Change {
    const Expr *at; /* NULL: nothing changes */
    Expr *with; /* NULL: a parameter */
} Change;

static Expr *change_node(Rewriter *rw, const Expr *old, Expr *now)
{
    const Change *c = rw->data;
    return old == c->at ? c->with : now;
}

typedef struct Free {
    Blame *b;
    Module *m;
    PtrMap renamed;
    Vec(Var *) vars;
} Free;

static void note_free(void *data, Var *v)
{
    Free *f = data;
    if (ptrmap_has(&f->b->s->local_values, v))
        return; /* the session's */
    Var *fresh = expr_var(&f->m->arena, v->base.span, v->name, type_find(v->base.type));
    ptrmap_put(&f->renamed, v, &fresh->base);
    vec_push(&f->vars, &f->m->arena, fresh);
}

/* The node, with a change in it, as a function of what it needs; a module of its own. */
static Module *extracted(Blame *b, Module *from, const Expr *node, Change change)
{
    Ctx *cx = &b->s->cx;
    Module *m = module_derive(from);
    if (!m)
        return NULL;
    Free f = {.b = b, .m = m};
    Expr *e = (Expr *)(uintptr_t)node;
    if (change.at) {
        Rewriter rw;
        Var *input = expr_var(&m->arena, change.at->span, ctx_name(cx, "any"), change.at->type);
        input->base.type = change.at->type;
        change.with = change.with ? change.with : &input->base;
        rewriter_init(&rw, cx, m, change_node, &change);
        e = ir_rewrite(&rw, e);
        rewriter_deinit(&rw);
    }
    if (e)
        ir_free_vars(e, note_free, &f);
    e = e ? ir_copy(cx, m, e) : NULL;
    e = e ? ir_substitute(cx, m, e, &f.renamed) : NULL;
    ptrmap_deinit(&f.renamed);
    if (e)
        m->expr = &expr_function(&m->arena, e->span, (TypeVarList){0}, (uint32_t)f.vars.n,
                                 f.vars.at, NULL, NULL, e)
                       ->base;
    if (e)
        return m;
    module_release(m);
    return NULL;
}

static bool goes_on(Blame *b)
{
    return b->tries < SHRINK_TRIES && clock_seconds() < b->deadline && !limit_hit(&b->s->cx.limits);
}

typedef struct Nodes {
    Blame *b;
    Vec(const Expr *) all;
} Nodes;

/* Text has no words for it. */
static bool is_unwritten(const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind != VALUE_SCALAR;
}

static WalkNext note_node(void *data, const Expr *e)
{
    Nodes *n = data;
    if ((e->kind > EXPR_CON || is_unwritten(e)) && e->type && type_find(e->type)->kind != TYPE_FUNC)
        vec_push(&n->all, &n->b->arena, e);
    return WALK_ON;
}

static Nodes nodes_of(Blame *b, const Expr *e)
{
    Nodes n = {.b = b};
    ir_walk(e, NULL, note_node, &n);
    return n;
}

/* Takes the candidate in place of the program where it still shows the difference; gives it back otherwise. */
static bool accept(Blame *b, BlameWish *best, Module *candidate)
{
    BlameWish w = *best;
    w.m = candidate;
    w.entry = NULL;
    if (!candidate || !also_differs(b, &w)) {
        module_release(candidate);
        return false;
    }
    module_release(best->m);
    *best = w;
    return true;
}

static const Expr *body_of(const BlameWish *w)
{
    const Def *def = w->entry ? module_find(w->m, w->entry) : NULL;
    const Function *f = def ? def->fn : expr_as_function(w->m->expr);
    return f ? f->body : w->m->expr;
}

typedef struct Parts {
    const Expr *whole;
    const Expr *at[8]; /* operands of its type */
    size_t n;
} Parts;

static void note_part(void *data, Expr *const *slot)
{
    Parts *p = data;
    bool alike = (*slot)->type && p->whole->type && type_equal((*slot)->type, p->whole->type);
    if (alike && p->n < sizeof p->at / sizeof *p->at)
        p->at[p->n++] = *slot;
}

/* Anything in place of the node, or one of its operands. */
static bool simplify(Blame *b, BlameWish *best, const Expr *body, const Expr *node)
{
    Parts parts = {.whole = node};
    ir_children(node, note_part, &parts);
    if (node != body && accept(b, best, extracted(b, best->m, body, (Change){.at = node})))
        return true;
    for (size_t i = 0; i < parts.n && goes_on(b); i++) {
        Change change = {node, (Expr *)(uintptr_t)parts.at[i]};
        if (accept(b, best, extracted(b, best->m, body, change)))
            return true;
    }
    return false;
}

/* First the least node that shows it, then without what does not matter in it. */
static void shrink(Blame *b, BlameWish *best)
{
    b->deadline = clock_seconds() + SHRINK_SECONDS;
    Nodes nodes = nodes_of(b, body_of(best));
    unsigned outer =
        progress_enter(&b->s->progress, "looking for the least program", "tries", SHRINK_TRIES);
    bool found = false;
    for (size_t i = 0; i < nodes.all.n && !found && goes_on(b); i++)
        found = accept(b, best, extracted(b, best->m, nodes.all.at[i], (Change){0}));
    while (found && goes_on(b)) {
        const Expr *body = body_of(best);
        nodes = nodes_of(b, body);
        found = false;
        for (size_t i = nodes.all.n; i-- > 0 && !found && goes_on(b);)
            found = simplify(b, best, body, nodes.all.at[i]);
    }
    progress_leave(&b->s->progress, outer);
}

/* The element of the pipeline that is this pass, as it was written; else its name. */
static Str element_of(const Blame *b, const char *pass)
{
    Str p = b->wish->pipeline;
    size_t n = strlen(pass);
    for (size_t from = 0, at = 0, depth = 0; at <= p.len; at++) {
        char c = at < p.len ? p.ptr[at] : ',';
        depth += (strchr("{[(", c) != NULL) - (strchr("}])", c) != NULL);
        if (c != ',' || depth)
            continue;
        if (at - from >= n && !memcmp(p.ptr + from, pass, n) &&
            (at - from == n || p.ptr[from + n] == '{'))
            return (Str){p.ptr + from, at - from};
        from = at + 1;
    }
    return str_of(pass);
}

/* ---- what was found ---------------------------------------------------------------------------------------------------------------- */

static void put_inputs(const Runs *r, const BlameWish *w, Buf *out)
{
    const Def *def = w->entry ? module_find(w->m, w->entry) : NULL;
    const Function *f = def ? def->fn : expr_as_function(w->m->expr);
    for (uint32_t i = 0; i < r->n; i++) {
        Buf v = {0};
        show(r->b, &v, r->values[i]);
        buf_printf(out, "%%%s = %s\n", f ? f->params.at[i]->name->text : "input", buf_text(&v));
        buf_deinit(&v);
    }
}

/* On one line, which a command is. */
static void put_expr(Buf *out, const Expr *e)
{
    Buf text = {0};
    ir_print_expr(&text, e, (PrintStyle){.annotations = true, .no_metadata = true});
    for (const char *p = buf_text(&text); *p;) {
        size_t n = strcspn(p, "\n");
        buf_bytes(out, p, n);
        p += n;
        if (*p)
            buf_char(out, ' ');
        p += strspn(p, "\n ");
    }
    buf_deinit(&text);
}

/* A cell that shows it again. */
static void put_cell(Buf *out, const BlameWish *w)
{
    buf_str(out, ":blame ");
    if (w->seed)
        buf_printf(out, "seed=%llu ", (unsigned long long)w->seed);
    if (w->time)
        buf_str(out, "time ");
    if (w->pipeline.len)
        buf_printf(out, "%.*s ", (int)w->pipeline.len, w->pipeline.ptr);
    else
        buf_str(out, "engines ");
    if (w->entry)
        buf_printf(out, "@%s", w->entry->text);
    else
        put_expr(out, w->m->expr);
}

static void put_row(Buf *text, Buf *html, Buf *json, const char *key, const char *label,
                    const Buf *value)
{
    if (!value->n)
        return;
    const char *p = buf_text(value);
    size_t n = value->n;
    while (n && p[n - 1] == '\n')
        n--;
    buf_printf(text, "%-8s", label);
    for (size_t i = 0; i < n; i++) {
        buf_char(text, p[i]);
        buf_str(text, p[i] == '\n' ? "        " : "");
    }
    buf_char(text, '\n');
    buf_printf(html, "<tr><th style=\"text-align:left\">%s</th><td style=\"text-align:left\"><pre>",
               label);
    buf_html(html, p, n);
    buf_str(html, "</pre></td></tr>");
    buf_printf(json, ", \"%s\": \"", key);
    buf_json(json, p, n);
    buf_char(json, '"');
}

static const char style[] =
    "<style>.relay-blame{color:var(--jp-ui-font-color1,#1f2328);font-family:var(--jp-ui-font-"
    "family,"
    "sans-serif);font-size:var(--jp-ui-font-size1,13px)}"
    ".relay-blame>p{font-size:1.15em;margin:0 0 6px}"
    ".relay-blame.relay-blame table{border-collapse:collapse;margin:0 0 8px;font-size:1em}"
    ".relay-blame.relay-blame th,.relay-blame.relay-blame td{text-align:left;vertical-align:top;"
    "padding:2px 12px 2px 0;font-weight:400;background:none}"
    ".relay-blame.relay-blame th{color:var(--jp-ui-font-color2,#57606a);white-space:nowrap}"
    ".relay-blame.relay-blame pre{margin:0;background:none;color:inherit;white-space:pre-wrap;"
    "font-family:var(--jp-code-font-family,monospace);font-size:var(--jp-code-font-size,inherit)}"
    "</style>";

/* ---- inside a pass -------------------------------------------------------------------------------------------------------------- */

typedef struct Travel {
    Blame *b;
    const Runs *runs; /* NULL: the program is not run */
    Before was; /* of the program before the pass */
    const char *pass;
    Trace *trace;
    uint64_t left; /* rewrites to be made */
    bool differs;
    unsigned long long guilty,
        all; /* the first after which it differs, counted from 1, and how many there are */
} Travel;

/* What a pass decides while the last of its rewrites is still to be made is about that one. */
static void hear(void *data, const PassEvent *e)
{
    Travel *t = data;
    if (t->left == 1)
        trace_decided(t->trace, e);
}

/* The program after so many rewrites; NULL after a diagnostic. */
static Module *after_rewrites(Travel *t, Module *m, uint64_t n)
{
    RelaySession *s = t->b->s;
    PassContext pc = {.cx = &s->cx,
                      .opt_level = 4,
                      .any_level = true,
                      .env = s->env,
                      .meant = t->b->wish->entry,
                      .rewrites = &t->left,
                      .decided = hear,
                      .data = t};
    t->left = n;
    return passes_run_text(&pc, m, t->pass);
}

/* Whether it differs after so many rewrites; what goes wrong with them is not told. The module is the caller's. */
static Module *look_after(Travel *t, Module *m, uint64_t n, bool *other)
{
    Attempt attempt;
    Difference d = {0};
    attempt_begin(&attempt, &t->b->s->cx);
    Module *now = after_rewrites(t, m, n);
    attempt_end(&attempt, &t->b->s->cx);
    *other = now && differs(t->runs, t->b->wish, &t->was, now, ENGINE_INTERP, &d);
    difference_deinit(&d);
    return now;
}

/* The first rewrite of the pass after which it differs, by halving, as a step of the record. False where it does not differ by itself. */
static bool find_rewrite(Travel *t, Module *m)
{
    uint64_t most = UINT64_MAX / 2, low = 0;
    bool other = false;
    module_release(look_after(t, m, most, &other));
    uint64_t high = most - t->left;
    t->all = high;
    while (other && low + 1 < high && !limit_hit(&t->b->s->cx.limits)) {
        uint64_t middle = low + (high - low) / 2;
        bool half = false;
        module_release(look_after(t, m, middle, &half));
        *(half ? &high : &low) = middle;
    }
    t->guilty = high;
    if (!other || !high || limit_hit(&t->b->s->cx.limits))
        return false;
    Module *before = low ? after_rewrites(t, m, low) : module_retain(m);
    t->trace->events.n = 0;
    Module *now = before ? after_rewrites(t, m, high) : NULL;
    if (now)
        trace_after(t->trace, t->pass, 0, before, now);
    module_release(before);
    module_release(now);
    return now != NULL;
}

/* The element of the pipeline that the step is. */
static const char *pass_of_step(Blame *b, const Trace *t, size_t step)
{
    Str element = element_of(b, t->steps.at[step - 1].pass);
    return arena_copy_text(&b->arena, element.ptr, element.len);
}

/* ---- all of it ------------------------------------------------------------------------------------------------------------------- */

/* All that is told. */
typedef struct Finding {
    const char *verdict;
    const Difference *seen; /* NULL: there is none */
    const Runs *runs;
    const BlameWish *small; /* what still shows it */
    Trace *trace; /* NULL: no pass is to blame */
    size_t step; /* of it, counted from 1 */
    const Travel *rewrite; /* that did it, inside the pass; NULL: nobody knows */
} Finding;

static void put_rows(Blame *b, const Finding *f, Buf *text, Buf *html, Buf *json)
{
    Buf inputs = {0}, cell = {0}, rewrite = {0};
    if (f->rewrite)
        buf_printf(&rewrite, "%llu of %llu of that pass, shown below", f->rewrite->guilty,
                   f->rewrite->all);
    put_inputs(f->runs, b->wish, &inputs);
    if (f->small)
        put_cell(&cell, f->small);
    if (f->seen) {
        put_row(text, html, json, "why", "differs", &f->seen->why);
        put_row(text, html, json, "was", "before", &f->seen->was);
        put_row(text, html, json, "is", "after", &f->seen->is);
    }
    put_row(text, html, json, "rewrite", "rewrite", &rewrite);
    put_row(text, html, json, "inputs", "inputs", &inputs);
    put_row(text, html, json, "cell", "cell", &cell);
    buf_deinit(&rewrite);
    buf_deinit(&inputs);
    buf_deinit(&cell);
}

static void show_finding(Blame *b, const Finding *f)
{
    Buf text = {0}, html = {0}, json = {0};
    buf_printf(&text, "%s\n", f->verdict);
    buf_printf(&html, "%s<div class=\"relay-blame\"><p>", style);
    html_words(&html, f->verdict);
    buf_str(&html, "</p><table>");
    buf_str(&json, "{\"verdict\": \"");
    buf_json(&json, f->verdict, strlen(f->verdict));
    buf_printf(&json, "\", \"step\": %zu", f->step);
    put_rows(b, f, &text, &html, &json);
    buf_str(&html, "</table>");
    Trace *trace = f->rewrite ? f->rewrite->trace : f->trace;
    if (trace) {
        char *name = arena_copy_text(&b->arena, b->wish->pipeline.ptr, b->wish->pipeline.len);
        TraceView view = {.pipeline = f->rewrite ? f->rewrite->pass : name,
                          .step = f->rewrite ? 1 : f->step};
        trace_text(trace, &text, view);
        trace_html(trace, &html, view);
        buf_str(&json, ", \"trace\": ");
        trace_json(trace, &json, view);
    }
    buf_str(&html, "</div>");
    buf_str(&json, "}");
    emit_bundle(b->s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

/* The first step after which it differs; 0: none. */
static size_t first_other(Blame *b, const Trace *t, const Runs *r, Before *was, Difference *out)
{
    Progress *progress = &b->s->progress;
    unsigned outer = progress_enter(progress, "comparing", "", t->steps.n);
    size_t first = 0;
    for (size_t i = 0; i < t->steps.n && !first; i++) {
        const TraceStep *step = &t->steps.at[i];
        progress_step(progress, i + 1);
        progress_name(progress, step->pass);
        if (step->changed && differs(r, b->wish, was, step->now, ENGINE_INTERP, out))
            first = i + 1;
    }
    progress_leave(progress, outer);
    return first;
}

static void show_step(Blame *b, Finding f, Before *was)
{
    Trace inside;
    trace_init(&inside, b->s);
    Travel t = {.b = b,
                .runs = f.runs,
                .was = *was,
                .trace = &inside,
                .pass = pass_of_step(b, f.trace, f.step)};
    inside.rewrites = true;
    if (find_rewrite(&t, f.step > 1 ? f.trace->steps.at[f.step - 2].now : f.trace->first))
        f.rewrite = &t;
    show_finding(b, &f);
    trace_deinit(&inside);
}

static void blame_step(Blame *b, const Runs *r, Trace *t, size_t step, const Difference *seen,
                       Before *was)
{
    const char *pass = t->steps.at[step - 1].pass;
    const Pass *row = pass_find(str_of(pass));
    BlameWish small = *b->wish;
    Buf verdict = {0};
    module_retain(small.m);
    small.pipeline = element_of(b, pass);
    if (!also_differs(b, &small))
        small.pipeline = b->wish->pipeline;
    shrink(b, &small);
    buf_printf(&verdict, "`%s`, pass %zu of %zu, is the first after which %s%s", pass, step,
               t->steps.n, b->wish->time ? "it takes longer" : "the result differs",
               !b->wish->time && row && row->other_values ? ", which is what it is for" : "");
    show_step(b, (Finding){buf_text(&verdict), seen, r, &small, t, step, NULL}, was);
    module_release(small.m);
    buf_deinit(&verdict);
}

static void blame_pipeline(Blame *b, const Runs *r, Before *was)
{
    Trace t;
    Difference seen = {0};
    trace_init(&t, b->s);
    Module *now = run_pipeline(b, b->wish, &t);
    size_t step = now ? first_other(b, &t, r, was, &seen) : 0;
    if (step)
        blame_step(b, r, &t, step, &seen, was);
    else if (now)
        show_finding(b,
                     &(Finding){.verdict = b->wish->time ? "no pass makes it slower"
                                                         : "no pass changes the type or the result",
                                .runs = r});
    difference_deinit(&seen);
    module_release(now);
    trace_deinit(&t);
}

/* The pass of the pipeline before compiled code after which the evaluator gives something else too; 0: none. */
static size_t pass_of_code(Blame *b, const Runs *r, Before *was, Trace *t, Difference *seen)
{
    RelaySession *s = b->s;
    PassContext pc = {.cx = &s->cx, .opt_level = s->opt_level, .exact = s->exact, .env = s->env};
    trace_listen(t, &pc);
    Module *now = s->opt_level ? passes_run_for_code(&pc, b->wish->m) : NULL;
    size_t step = now ? first_other(b, t, r, was, seen) : 0;
    module_release(now);
    return step;
}

static void show_engines(Blame *b, const Runs *r, Before *was, const Difference *seen,
                         const BlameWish *small)
{
    Trace t;
    Difference earlier = {0};
    Buf verdict = {0};
    trace_init(&t, b->s);
    size_t step = pass_of_code(b, r, was, &t, &earlier);
    buf_str(&verdict, "evaluator and JIT differ");
    if (step)
        buf_printf(&verdict,
                   ": `%s`, pass %zu of %zu before code is made, is the first after which "
                   "the evaluator differs too",
                   t.steps.at[step - 1].pass, step, t.steps.n);
    else if (t.steps.n)
        buf_printf(&verdict,
                   ": not after any of the %zu passes before code is made, so it is how "
                   "the code computes",
                   t.steps.n);
    Finding f = {buf_text(&verdict), seen, r, small, step ? &t : NULL, step, NULL};
    if (step)
        show_step(b, f, was);
    else
        show_finding(b, &f);
    difference_deinit(&earlier);
    buf_deinit(&verdict);
    trace_deinit(&t);
}

/* Where compiled code gives something else, a pass of its pipeline may have done it; else it is how the code is made. */
static void blame_engines(Blame *b, const Runs *r, Before *was)
{
    Difference seen = {0};
    if (!differs(r, b->wish, was, b->wish->m, ENGINE_JIT, &seen)) {
        show_finding(b, &(Finding){.verdict = "evaluator and JIT give the same", .runs = r});
        difference_deinit(&seen);
        return;
    }
    BlameWish small = *b->wish;
    module_retain(small.m);
    shrink(b, &small);
    show_engines(b, r, was, &seen, &small);
    module_release(small.m);
    difference_deinit(&seen);
}

void blame(RelaySession *s, const BlameWish *wish)
{
    Blame b = {.s = s, .wish = wish};
    Runs r = {0};
    arena_init(&b.arena, &s->cx.limits);
    bool ready = typecheck_module(&s->cx, wish->m, s->env);
    if (ready && !runs_init(&r, &b, wish, wish->m)) {
        Diag *d = diag_error(s->cx.diags, E0305_ARGUMENTS, (Span){0},
                             "no random values can be made for all parameters");
        diag_help(d, "write a call with arguments: `:blame %s @f(…)`",
                  wish->pipeline.len ? "-O3" : "engines");
        ready = false;
    }
    Before was = ready ? run_before(&r, wish, wish->m) : (Before){.value = value_none()};
    if (!value_is_none(was.value) && wish->pipeline.len)
        blame_pipeline(&b, &r, &was);
    else if (!value_is_none(was.value))
        blame_engines(&b, &r, &was);
    value_release(was.value);
    runs_deinit(&r);
    arena_deinit(&b.arena);
}

/* ---- the rewrites of one pass ---------------------------------------------------------------------------------------------------- */

/* More are not looked at one by one: each is a run of the pass. */
enum { REWRITES_MOST = 64 };

enum { VALUE_STAYS, VALUE_DIFFERS, VALUE_IS };

static const PassRule value_rules[] = {
    [VALUE_STAYS] = {"stays", "the result is as before, {a}"},
    [VALUE_DIFFERS] = {"differs", "the result differs from here on: it was {a} and is {b}"},
    [VALUE_IS] = {"is", "the result is {a}"},
    {0},
};

/* One line of a value. */
static const char *told(Travel *t, const Buf *value)
{
    Buf line = {0};
    size_t i = 0;
    buf_char(&line, '`');
    while (i < value->n && line.n < 60) {
        size_t n = utf8_cluster(value->at + i, value->n - i);
        if (value->at[i] != '\n' && !(value->at[i] == ' ' && line.at[line.n - 1] == ' '))
            buf_bytes(&line, value->at + i, n);
        i += n;
    }
    buf_str(&line, i < value->n ? "…`" : "`");
    const char *kept = arena_copy_text(&t->trace->arena, buf_text(&line), line.n);
    buf_deinit(&line);
    return kept;
}

static void tell_value(Travel *t, Module *now)
{
    Difference d = {0};
    Buf value = {0};
    PassEvent e = {.rule = &value_rules[VALUE_STAYS]};
    if (!t->runs)
        return;
    bool other = differs(t->runs, t->b->wish, &t->was, now, ENGINE_INTERP, &d);
    if (!other)
        show(t->b, &value, t->was.value);
    e.a = told(t, other ? &d.was : &value);
    if (other && !t->differs) {
        e.rule = &value_rules[VALUE_DIFFERS];
        e.b = told(t, d.is.n ? &d.is : &d.why);
    } else if (other) {
        e.rule = &value_rules[VALUE_IS];
        e.a = told(t, d.is.n ? &d.is : &d.why);
    }
    t->differs |= other;
    trace_decided(t->trace, &e);
    buf_deinit(&value);
    difference_deinit(&d);
}

/* How many there are, REWRITES_MOST at most. */
static size_t note_rewrites(Travel *t, Module *m)
{
    Module *before = module_retain(m);
    size_t n = 0;
    while (before && n < REWRITES_MOST && !limit_hit(&t->b->s->cx.limits)) {
        Module *now = after_rewrites(t, m, n + 1);
        if (now && t->left == 0) {
            tell_value(t, now);
            trace_after(t->trace, t->pass, 0, before, now);
            n++;
        } else {
            module_release(now);
            now = NULL;
        }
        module_release(before);
        before = now;
    }
    module_release(before);
    return n;
}

static void show_rewrites(Travel *t, size_t n)
{
    RelaySession *s = t->b->s;
    const char *name =
        arena_copy_text(&t->trace->arena, t->b->wish->pipeline.ptr, t->b->wish->pipeline.len);
    if (n)
        trace_emit(t->trace, (TraceView){.pipeline = name});
    else if (session_status(s) == RELAY_OK)
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "%s changes nothing here\n", t->pass);
    if (n == REWRITES_MOST)
        emit_printf(s, RELAY_OUTPUT_STREAM, "… and perhaps more rewrites: these are the first %d\n",
                    REWRITES_MOST);
}

/* Whether the program gives something that can be compared; why it does not is told. */
static bool can_be_run(Travel *t, Runs *r, const BlameWish *w)
{
    RelaySession *s = t->b->s;
    Attempt attempt;
    attempt_begin(&attempt, &s->cx);
    bool ready = runs_init(r, t->b, w, w->m);
    t->was = ready ? run_before(r, w, w->m) : (Before){.value = value_none()};
    const char *message = first_message(&attempt);
    bool runs = !value_is_none(t->was.value);
    if (!runs && s->cx.limits.hit == LIMIT_NONE)
        emit_printf(s, RELAY_OUTPUT_STREAM, "it is not run: %s\n",
                    message ? message : "no random values can be made for all parameters");
    attempt_end(&attempt, &s->cx);
    return runs;
}

/* From the program as it is in front of the pass. */
static void travel(Travel *t, BlameWish *w)
{
    Runs r = {0};
    t->b->wish = w;
    t->runs = can_be_run(t, &r, w) ? &r : NULL;
    if (t->b->s->cx.limits.hit == LIMIT_NONE)
        show_rewrites(t, note_rewrites(t, w->m));
    value_release(t->was.value);
    runs_deinit(&r);
}

void rewrites(RelaySession *s, const BlameWish *wish)
{
    BlameWish first = *wish, from = *wish;
    Blame b = {.s = s, .wish = &first};
    Trace trace;
    size_t at = pipeline_last(wish->pipeline);
    arena_init(&b.arena, &s->cx.limits);
    trace_init(&trace, s);
    trace.rewrites = true;
    first.pipeline.len = at ? at - 1 : 0;
    bool checked = typecheck_module(&s->cx, wish->m, s->env);
    from.m = !checked ? NULL : at ? run_pipeline(&b, &first, NULL) : module_retain(wish->m);
    Travel t = {.b = &b, .trace = &trace};
    t.pass = arena_copy_text(&b.arena, wish->pipeline.ptr + at, wish->pipeline.len - at);
    if (from.m)
        travel(&t, &from);
    module_release(from.m);
    trace_deinit(&trace);
    arena_deinit(&b.arena);
}
