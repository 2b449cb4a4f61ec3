#include "passes/forms.h"

#include "passes/beta.h"
#include "passes/each.h"
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"
#include "passes/vjp.h"
#include "stdlib/ops/ops.h"
#include "typecheck/typecheck.h"

#include <string.h>

typedef struct Forms {
    Ctx *cx;
    Module *m;
    const Module *env;
    FormsWish wish;
    Arena scratch;
    PtrMap values; /* Var -> what a `let` binds it to */
    const Expr *left; /* a form that had to wait */
    PtrMap open; /* Def -> whether a form in it waits for the types it is called at, + 1 */
    uint32_t rounds;
    PtrMap failed; /* Name of a definition in which one stands for nothing */
    PtrMap made; /* what took the place of a form in this round */
} Forms;

/* ---- finding them ------------------------------------------------------------------------------------------------------------- */

static bool is_form(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    return op && op->flags & OP_FORM;
}

typedef struct Look {
    Forms *f;
    bool (*is)(const Expr *e);
    PtrMap seen;
    Vec(const Expr *) todo;
    bool found;
} Look;

/* Something was reported here. */
static bool is_poisoned(const Expr *e)
{
    return e->type && type_is_poison(e->type);
}

static bool is_wrong(const Forms *f, const GlobalVar *g)
{
    return g && f->wish.is_wrong && f->wish.is_wrong(f->wish.data, g->name);
}

static WalkNext look_at(void *data, const Expr *e)
{
    Look *l = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? find_global(l->f->m, l->f->env, g->name) : NULL;
    const Expr *next = def ? &def->fn->base : ptrmap_find(&l->f->values, e);
    l->found |= l->is(e) || (l->is == is_poisoned && is_wrong(l->f, g));
    if (next && !ptrmap_has(&l->seen, next)) {
        ptrmap_put(&l->seen, next, NULL);
        vec_push(&l->todo, &l->f->scratch, next);
    }
    return l->found ? WALK_STOP : WALK_ON;
}

/* Whether there is such a node in the expression, or in what it calls and uses. */
static bool reaches(Forms *f, const Expr *e, bool (*is)(const Expr *e))
{
    Look l = {.f = f, .is = is};
    vec_push(&l.todo, &f->scratch, e);
    while (l.todo.n && !l.found)
        ir_walk(vec_pop(&l.todo), look_at, NULL, &l);
    ptrmap_deinit(&l.seen);
    return l.found;
}

static bool makes_reference(const Expr *e)
{
    return e->kind == EXPR_REF_NEW;
}

/* A form of what was reported; nothing of it runs. */
static bool is_broken(Forms *f, const Expr *e)
{
    return is_form(e) && reaches(f, expr_as_call(e)->args.at[0], is_poisoned);
}

static bool mentions_var(const Type *t)
{
    TypesOf of = {0};
    types_of_note(&of, t);
    bool found = of.used.n > 0;
    types_of_free(&of);
    return found;
}

static bool is_each(const Op *op)
{
    return !strcmp(op->name, "each") || !strcmp(op->name, "total") || !strcmp(op->name, "initial");
}

/* A form over values of a type that only a call of the definition around it decides. */
static bool is_open_form(const Expr *e)
{
    const Call *form = is_form(e) ? expr_as_call(e) : NULL;
    return form && is_each(expr_call_of_op(e)) && form->args.at[1]->type &&
           mentions_var(form->args.at[1]->type);
}

static bool is_open(Forms *f, const Def *def)
{
    if (!def || !def->fn || !def->fn->type_params.n)
        return false;
    if (!ptrmap_has(&f->open, def->fn))
        ptrmap_put(&f->open, def->fn,
                   (void *)(uintptr_t)(reaches(f, def->fn->body, is_open_form) + 1));
    return (uintptr_t)ptrmap_find(&f->open, def->fn) > 1;
}

typedef struct Find {
    Forms *f;
    bool found;
} Find;

static WalkNext find_form(void *data, const Expr *e)
{
    Find *find = data;
    const GlobalVar *g = expr_as_global(e);
    const Forms *f = find->f;
    find->found |= is_form(e) || (e->kind == EXPR_OP && expr_as_op(e)->op->flags & OP_FORM) ||
                   (g && is_open(find->f, find_global(f->m, f->env, g->name)));
    return find->found ? WALK_STOP : WALK_ON;
}

static bool forms_in(Forms *f, const Expr *e)
{
    Find find = {f, false};
    ir_walk(e, find_form, NULL, &find);
    return find.found;
}

/* ---- the function that is meant ---------------------------------------------------------------------------------------------------- */

static Diag *refuse(const Forms *f, const Call *form, Span at, const char *what)
{
    const Op *op = expr_call_of_op(&form->base);
    Diag *d = diag_error(f->cx->diags, E0605_NO_GRADIENT, at,
                         "`%s` needs the code of its function, and %s", op->name, what);
    if (at.from != form->base.span.from)
        diag_label(d, form->base.span, "asked for here");
    return d;
}

/* fn (%x…) { e(%x…) } */
static const Function *called(Forms *f, const Expr *e)
{
    const Type *t = type_find(e->type);
    Arena *arena = &f->m->arena;
    Var **params = arena_alloc_must(&f->scratch, t->n + 1, sizeof *params);
    Expr **args = arena_alloc_must(&f->scratch, t->n + 1, sizeof *args);
    for (uint32_t i = 0; i < t->n; i++) {
        params[i] = expr_var(arena, e->span, ctx_name(f->cx, "x"), t->parts[i]);
        params[i]->base.type = t->parts[i];
        args[i] = &params[i]->base;
    }
    Expr *body = expr_call(arena, e->span, (Expr *)(uintptr_t)e, t->n, args, NULL);
    body->type = t->result;
    Function *fn = expr_function(arena, e->span, (TypeVarList){0}, t->n, params, NULL, NULL, body);
    fn->base.type = t;
    return fn;
}

/* What a variable is bound to, here or in the surroundings. */
static const Expr *value_of(void *data, const Var *v)
{
    const Forms *f = data;
    const Expr *value = ptrmap_find(&f->values, v);
    return value || !f->wish.value_of ? value : f->wish.value_of(f->wish.data, v);
}

static bool is_pure(const Forms *f, const Expr *e)
{
    Purity purity;
    purity_init(&purity, f->m, f->env, e);
    bool pure = purity_of(&purity, e);
    purity_deinit(&purity);
    return pure;
}

static bool has_effect(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    const Function *f = expr_as_function(e);
    return e->kind == EXPR_REF_NEW || e->kind == EXPR_REF_READ || e->kind == EXPR_REF_WRITE ||
           (op && op->flags & OP_STATEFUL) || (f && function_is_skipped(f));
}

typedef struct Strangers {
    Forms *f;
    PtrMap seen;
    Vec(const Expr *) todo;
    bool any;
} Strangers;

static void note_stranger(void *data, Var *v)
{
    Strangers *s = data;
    const Constructor *con;
    const Expr *value = value_of(s->f, v);
    s->any |= !value && (!v->base.type || vjp_holds_code(s->f->cx, v->base.type, &con));
    if (value && !ptrmap_has(&s->seen, value)) {
        ptrmap_put(&s->seen, value, NULL);
        vec_push(&s->todo, &s->f->scratch, value);
    }
}

/* Whether it uses a function or a reference of which nobody knows here what it is. */
static bool uses_strangers(Forms *f, const Expr *e)
{
    Strangers s = {.f = f};
    vec_push(&s.todo, &f->scratch, e);
    while (s.todo.n && !s.any)
        ir_free_vars(vec_pop(&s.todo), note_stranger, &s);
    ptrmap_deinit(&s.seen);
    return s.any;
}

/* What has an effect, or makes a reference. Where a function comes through a parameter purity is not known from the call alone, but there are
 * no others than those that it names. */
static bool is_made_once(void *data, const Expr *e)
{
    Forms *f = data;
    if (e->kind == EXPR_FUNCTION)
        return false;
    if (reaches(f, e, makes_reference))
        return true;
    return !is_pure(f, e) && (reaches(f, e, has_effect) || uses_strangers(f, e));
}

typedef struct Uses {
    const Var *var;
    bool found;
} Uses;

static void note_use(void *data, Var *v)
{
    Uses *u = data;
    u->found |= u->var == v;
}

static bool uses(const Expr *e, const Var *v)
{
    Uses u = {v, false};
    ir_free_vars(e, note_use, &u);
    return u.found;
}

/* The function behind an expression: a definition, a literal, or what is computed without an effect. NULL after a diagnostic. */
static const Function *function_of(Forms *f, const Call *form)
{
    const Expr *e = form->args.at[0];
    Span at = ir_use_span(f->m, &form->args.at[0]);
    const Var *var = NULL, *named = NULL;
    for (const Expr *value = e; value;
         value = e->kind == EXPR_VAR ? value_of(f, expr_as_var(e)) : NULL) {
        e = value;
        var = expr_as_var(e);
        named = var ? var : named;
    }
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? find_global(f->m, f->env, g->name) : NULL;
    if (e->kind == EXPR_FUNCTION) /* its own name means it only where that is bound */
        return named && uses(e, named) ? called(f, &named->base) : expr_as_function(e);
    if (def)
        return def->fn;
    if (var) {
        bool again = f->m->expr && uses(f->m->expr, var);
        Diag *d = refuse(f, form, at,
                         again ? "this one uses a variable as it was before it was bound again"
                               : "this one is known only when the program runs");
        diag_label(d, var->base.span, "`%%%s` is bound here", var->name->text);
        diag_help(d,
                  again ? "bind `%%%s` again"
                        : "give it a definition, a literal, or a variable that is bound to one",
                  var->name->text);
        return NULL;
    }
    bool pure = !is_made_once(f, e);
    if (pure && e->kind != EXPR_OP && e->kind != EXPR_CON && e->kind != EXPR_GLOBAL)
        return called(f, e);
    Diag *d =
        refuse(f, form, at,
               pure                   ? "this one is not written in Relay"
               : uses_strangers(f, e) ? "what makes this one is known only when the program runs"
                                      : "this one is made with a reference");
    diag_help(d, "give it a definition or a literal: `fn (%%x: …) { … }`");
    return NULL;
}

/* ---- what they stand for -------------------------------------------------------------------------------------------------------------- */

static VjpCall vjp_call(Forms *f, const Call *form)
{
    return (VjpCall){.cx = f->cx,
                     .module = f->m,
                     .env = f->env,
                     .scratch = &f->scratch,
                     .where = form->base.span,
                     .what = expr_call_of_op(&form->base)->name,
                     .value_of = value_of,
                     .is_made_once = is_made_once,
                     .data = f};
}

/* What goes in and comes out has an adjoint of its own type: it holds neither functions nor references. */
static bool is_data(Forms *f, const Call *form, const Type *t, Span at, const char *what)
{
    const Constructor *con = NULL;
    if (!vjp_holds_code(f->cx, t, &con))
        return true;
    Diag *d = diag_error(f->cx->diags, E0605_NO_GRADIENT, at,
                         "`%s` differentiates functions of data in data, and %s is `%s`",
                         expr_call_of_op(&form->base)->name, what, type_str(f->cx, t));
    if (con)
        diag_label(d, con->span, "`%s` holds a function or a reference", con->name->text);
    if (at.from != form->base.span.from)
        diag_label(d, form->base.span, "asked for here");
    if (type_find(t)->kind == TYPE_REF)
        diag_help(
            d,
            "take and give what the reference holds; the function may make references of its own");
    else
        diag_help(d,
                  "a literal may use functions from outside: `%s(fn (%%x: float32) { %%f(%%x) })`",
                  expr_call_of_op(&form->base)->name);
    return false;
}

static bool of_data(Forms *f, const Call *form, const Function *fn)
{
    bool ok = true;
    for (uint32_t i = 0; i < fn->params.n && ok; i++) {
        const Var *p = fn->params.at[i];
        Span at = span_is_none(p->base.span) ? form->base.span : p->base.span;
        ok = is_data(f, form, p->base.type, at, "this parameter");
    }
    return ok &&
           is_data(f, form, fn->body->type,
                   span_is_none(fn->body->span) ? form->base.span : fn->body->span, "the result");
}

static Expr *expand_vjp(Forms *f, const Call *form, const Function *fn)
{
    VjpCall call = vjp_call(f, form);
    return of_data(f, form, fn) ? vjp(&call, fn, VJP_PULLBACK) : NULL;
}

/* The result must be a tensor of floating numbers: its adjoint is ones. */
static bool has_ones(Forms *f, const Call *form, const Function *fn)
{
    const Type *t = type_find(fn->body->type);
    bool ok = t->kind == TYPE_TENSOR &&
              (t->dtype.code == DTYPE_CODE_FLOAT || t->dtype.code == DTYPE_CODE_BFLOAT);
    if (ok)
        return true;
    const Op *op = expr_call_of_op(&form->base);
    Diag *d = diag_error(
        f->cx->diags, E0605_NO_GRADIENT, form->base.span,
        "`%s` differentiates a tensor of floating numbers, and the result of this function is `%s`",
        op->name, type_str(f->cx, t));
    diag_label(d, fn->body->span, "the result");
    if (t->kind == TYPE_TUPLE)
        diag_help(d,
                  "`%s(fn (…) { %%f(…).0 })` takes a field of it, `vjp` functions with any result",
                  op->name);
    else
        diag_help(d, "`vjp` takes functions with any result");
    return false;
}

static Expr *expand_grad(Forms *f, const Call *form, const Function *fn)
{
    VjpCall call = vjp_call(f, form);
    return of_data(f, form, fn) && has_ones(f, form, fn) ? vjp(&call, fn, VJP_GRAD) : NULL;
}

static Expr *expand_value_and_grad(Forms *f, const Call *form, const Function *fn)
{
    VjpCall call = vjp_call(f, form);
    bool ok = of_data(f, form, fn) && has_ones(f, form, fn);
    return ok ? vjp(&call, fn, VJP_VALUE_AND_GRAD) : NULL;
}

static Var *new_var(Forms *f, const char *name, const Type *t)
{
    return expr_var(&f->m->arena, (Span){0}, ctx_name(f->cx, name), t);
}

static Expr *expand_jvp(Forms *f, const Call *form, const Function *fn)
{
    VjpCall call = vjp_call(f, form);
    return of_data(f, form, fn) ? vjp(&call, fn, VJP_FORWARD) : NULL;
}

typedef struct Outer {
    Forms *f;
    Vec(Var *) vars; /* what the function uses from outside */
    Vec(Var *) params; /* in their place while passes run */
    PtrMap in, out; /* Var -> parameter, and back */
} Outer;

static void note_free(void *data, Var *var)
{
    Outer *o = data;
    Var *param = new_var(o->f, var->name->text, type_find(var->base.type));
    param->base.type = type_find(var->base.type);
    vec_push(&o->vars, &o->f->scratch, var);
    vec_push(&o->params, &o->f->scratch, param);
    ptrmap_put(&o->in, var, &param->base);
}

/* What the function uses from outside becomes parameters in front of its own. */
static Function *closed(Outer *o, const Function *fn)
{
    Forms *f = o->f;
    ir_free_vars(&fn->base, note_free, o);
    if (!o->vars.n)
        return (Function *)(uintptr_t)fn;
    for (uint32_t i = 0; i < fn->params.n; i++)
        vec_push(&o->params, &f->scratch, fn->params.at[i]);
    Expr *body = ir_substitute(f->cx, f->m, fn->body, &o->in);
    return body ? expr_function(&f->m->arena, fn->base.span, fn->type_params, (uint32_t)o->params.n,
                                o->params.at, fn->attrs, fn->ret_type, body)
                : NULL;
}

/* What a pipeline made must take and give what the function did. */
static bool keeps_type(Forms *f, const Call *form, const Function *before, const Function *made)
{
    const Type *t = type_find(made->base.type);
    bool same = t->kind == TYPE_FUNC && t->n == before->params.n &&
                type_equal(t->result, before->body->type);
    for (uint32_t i = 0; same && i < t->n; i++)
        same = type_equal(t->parts[i], before->params.at[i]->base.type);
    if (same)
        return true;
    Diag *d =
        diag_error(f->cx->diags, E0216_OPERATOR_ARGUMENT, form->base.span,
                   "`pass` gives a function of the same type, and after these passes it is `%s`",
                   type_str(f->cx, t));
    diag_help(d, "in a session `:pass … @f as @g` gives what became of it a name of its own");
    return false;
}

/* The way back. */
static Expr *opened(Outer *o, const Function *made)
{
    Forms *f = o->f;
    const Function *fn = expr_as_function(ir_copy(f->cx, f->m, &made->base));
    uint32_t n = (uint32_t)o->vars.n;
    if (!fn || !n)
        return fn ? (Expr *)(uintptr_t)&fn->base : NULL;
    for (uint32_t i = 0; i < n; i++)
        ptrmap_put(&o->out, fn->params.at[i], &o->vars.at[i]->base);
    Expr *body = ir_substitute(f->cx, f->m, fn->body, &o->out);
    return body ? &expr_function(&f->m->arena, fn->base.span, fn->type_params, fn->params.n - n,
                                 fn->params.at + n, fn->attrs, fn->ret_type, body)
                       ->base
                : NULL;
}

static bool names_main(const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    return g && !strcmp(g->name->text, "main");
}

/* What the passes defined besides goes with it. */
static Expr *passed(Outer *o, const Call *form, const Function *fn)
{
    Forms *f = o->f;
    Str pipeline = attrs_string(form->attrs, "passes");
    Module *m = module_derive(f->m);
    if (!m)
        return NULL;
    /* Some passes work on @main. */
    const Name *name = ctx_name(f->cx, reaches(f, &fn->base, names_main) ? "passed.it" : "main");
    module_define(m, name, (Function *)(uintptr_t)fn, form->base.span, f->m);
    PassContext pc = {.cx = f->cx,
                      .opt_level = 2,
                      .any_level = true,
                      .env = f->env,
                      .meant = name,
                      .written = true};
    const char *text = arena_copy_text(&f->scratch, pipeline.ptr, pipeline.len);
    Diag *before = f->cx->diags->last;
    Module *now = passes_run_text(&pc, m, text);
    diags_are_written(f->cx->diags, before);
    if (!now && f->cx->diags->last)
        diag_label(f->cx->diags->last, form->base.span, "asked for here");
    const Def *made = now ? module_find(now, name) : NULL;
    bool ok = made && made->fn && keeps_type(f, form, fn, made->fn);
    for (size_t i = 0; ok && i < now->defs.n; i++) {
        const Def *d = &now->defs.at[i];
        if (d->fn && d->name != name && !find_global(f->m, f->env, d->name))
            module_define(f->m, d->name, d->fn, d->span, now);
    }
    Expr *out = ok ? opened(o, made->fn) : NULL;
    module_release(m);
    if (now)
        module_own(f->m, now);
    module_release(now);
    return out;
}

/* The function after a pipeline. */
static Expr *expand_pass(Forms *f, const Call *form, const Function *fn)
{
    Outer outer = {.f = f};
    const Function *alone = closed(&outer, fn);
    Expr *out = alone ? passed(&outer, form, alone) : NULL;
    ptrmap_deinit(&outer.in);
    ptrmap_deinit(&outer.out);
    return out;
}

static EachCall each_call(Forms *f, const Call *form, Expr *const *args)
{
    return (EachCall){.module = f->m,
                      .make = {.cx = f->cx,
                               .arena = &f->m->arena,
                               .scratch = &f->scratch,
                               .span = form->base.span},
                      .form = form,
                      .args = args};
}

static Expr *expand(Forms *f, const Call *form, const Function *fn)
{
    static const struct {
        const char *name;
        Expr *(*expand)(Forms *f, const Call *form, const Function *fn);
    } rows[] = {
        {"grad", expand_grad}, {"value_and_grad", expand_value_and_grad},
        {"vjp", expand_vjp},   {"jvp", expand_jvp},
        {"pass", expand_pass},
    };
    const char *name = expr_call_of_op(&form->base)->name;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return rows[i].expand(f, form, fn);
    diag_bug(f->cx->diags, form->base.span, "the form `%s` stands for nothing", name);
    return NULL;
}

/* ---- rounds: those first that others are made of ------------------------------------------------------------------------------------------ */

/* So many rounds may calls of polymorphic definitions unfold. */
enum { ROUNDS_MOST = 64 };

/* @step(%w, …), whose definition has a form over its type parameters: the definition at these types takes its place. */
static Expr *replace_generic(Forms *f, const Call *old, Call *now)
{
    const GlobalVar *g = old ? expr_as_global(old->callee) : NULL;
    const Def *def = g ? find_global(f->m, f->env, g->name) : NULL;
    if (!is_open(f, def) || old->type_args.n != def->fn->type_params.n)
        return &now->base;
    for (uint32_t i = 0; i < old->type_args.n; i++)
        if (mentions_var(old->type_args.at[i]) || type_is_poison(old->type_args.at[i]))
            return &now->base;
    if (f->rounds > ROUNDS_MOST) {
        Diag *d = diag_error(f->cx->diags, E0216_OPERATOR_ARGUMENT, old->base.span,
                             "`@%s` asks a form of values of its type parameters, and calls itself",
                             g->name->text);
        diag_help(d, "a function that it takes may do so: `fn (%%w: Weights) { @%s(%%w) }`",
                  g->name->text);
        return NULL;
    }
    Function *at = beta_instance(f->cx, f->m, def->fn, old->type_args.at);
    return at ? expr_call(&f->m->arena, old->base.span, &at->base, now->args.n, now->args.at, NULL)
              : NULL;
}

/* A form over the tensors of values. */
static Expr *replace_each(Forms *f, const Call *form, const Call *now)
{
    EachCall call = each_call(f, form, now->args.at);
    const char *name = expr_call_of_op(&form->base)->name;
    const Type *t = form->args.at[1]->type;
    if (mentions_var(t) || type_is_poison(t) || type_is_poison(form->base.type))
        return (Expr *)(uintptr_t)&now->base;
    if (!strcmp(name, "initial"))
        return each_initial(&call);
    const Function *fn = function_of(f, form);
    return !fn                      ? NULL
           : !strcmp(name, "total") ? each_total(&call, fn)
                                    : each_of_function(&call, fn);
}

static Expr *replace(Rewriter *rw, const Expr *old, Expr *now)
{
    Forms *f = rw->data;
    const Call *form = expr_as_call(old);
    if (!is_form(old))
        return form ? replace_generic(f, form, expr_as_call(now)) : now;
    if (is_each(expr_call_of_op(old))) {
        Expr *made = replace_each(f, form, expr_as_call(now));
        if (made && made != now)
            ptrmap_put(&f->made, made, NULL);
        return made;
    }
    if (reaches(f, form->args.at[0], is_form)) {
        f->left = f->left ? f->left : old;
        return now;
    }
    if (is_broken(f, old))
        return now;
    const Function *fn = function_of(f, form);
    Expr *made = fn ? expand(f, form, fn) : NULL;
    if (made)
        ptrmap_put(&f->made, made, NULL);
    return made;
}

/* ---- functions that a call makes known ---------------------------------------------------------------------------------------------------- */

/* So large may a text be that literals are still unfolded in. */
enum { UNFOLDED_MOST = 50000 };

/* let %apply = fn (%g: …) { grad(%g) }; %apply(@f): a literal that asks a form of a parameter is put in place of its calls. */
typedef struct Open {
    Forms *f;
    const Expr *root;
    PtrMap params; /* Var -> the literal whose parameter it is */
    PtrMap literals; /* those to unfold */
    Purity purity;
    size_t nodes;
    bool unfolded;
} Open;

static WalkNext note_params(void *data, const Expr *e)
{
    Open *o = data;
    const Function *fn = e == o->root ? NULL : expr_as_function(e);
    o->nodes++;
    for (uint32_t i = 0; fn && i < fn->params.n; i++)
        ptrmap_put(&o->params, fn->params.at[i], (void *)(uintptr_t)fn);
    return WALK_ON;
}

static WalkNext note_open(void *data, const Expr *e)
{
    Open *o = data;
    const Expr *arg = is_form(e) ? expr_as_call(e)->args.at[0] : NULL;
    for (const Expr *value = arg; value; value = ptrmap_find(&o->f->values, value))
        arg = value;
    void *literal = arg ? ptrmap_find(&o->params, arg) : NULL;
    if (literal)
        ptrmap_put(&o->literals, literal, NULL);
    return WALK_ON;
}

static Expr *unfold_open(Rewriter *rw, const Expr *old, Expr *now)
{
    Open *o = rw->data;
    const Let *let = expr_as_let(old);
    if (let && ptrmap_has(&o->literals, let->value) && !uses(expr_as_let(now)->body, let->var))
        return expr_as_let(now)->body;
    const Call *was = expr_as_call(old), *is = expr_as_call(now);
    const Var *var = was ? expr_as_var(was->callee) : NULL;
    const Function *fn =
        was ? expr_as_function(var ? ptrmap_find(&o->f->values, var) : was->callee) : NULL;
    if (!fn || !ptrmap_has(&o->literals, fn) || fn->type_params.n || fn->params.n != was->args.n ||
        (var && uses(&fn->base, var)))
        return now;
    o->unfolded = true;
    return beta(rw->cx, rw->module, &o->purity, NULL, fn, is->args.n, is->args.at, was->args.at);
}

/* The expression with such literals unfolded; itself where there are none. */
static Expr *without_open(Forms *f, Expr *e)
{
    Open o = {.f = f, .root = e};
    Expr *now = e;
    ir_walk(e, NULL, note_params, &o);
    ir_walk(e, NULL, note_open, &o);
    if (o.literals.n && o.nodes < UNFOLDED_MOST) {
        Rewriter rw;
        purity_init(&o.purity, f->m, f->env, e);
        rewriter_init(&rw, f->cx, f->m, unfold_open, &o);
        now = ir_rewrite(&rw, e);
        rewriter_deinit(&rw);
        purity_deinit(&o.purity);
    }
    ptrmap_deinit(&o.params);
    ptrmap_deinit(&o.literals);
    return o.unfolded ? now : e;
}

static Expr *replace_in(Forms *f, Expr *e)
{
    Rewriter rw;
    ptrmap_clear(&f->values);
    note_lets(e, &f->values);
    Expr *unfolded = without_open(f, e);
    if (unfolded != e)
        return unfolded; /* it has no types yet: the next round goes on */
    rewriter_init(&rw, f->cx, f->m, replace, f);
    Expr *now = ir_rewrite(&rw, e);
    rewriter_deinit(&rw);
    return now;
}

/* What takes the place of a definition; NULL: nothing does. One that fails fails alone: the others can still be used. */
static Function *replace_in_def(Forms *f, const Def *def)
{
    const Name *name = def->name;
    const Expr *before = &def->fn->base;
    if (ptrmap_has(&f->failed, name) || !forms_in(f, before))
        return NULL;
    Expr *now = replace_in(f, (Expr *)(uintptr_t)before);
    if (!now)
        ptrmap_put(&f->failed, name, NULL);
    return now == before ? NULL : expr_as_function(now);
}

/* All see the others as they were before the round, with types. True when something was replaced. */
static bool one_round(Forms *f)
{
    size_t n = f->m->defs.n;
    bool changed = false;
    Function **now = arena_alloc_must(&f->scratch, n + 1, sizeof *now);
    Expr *before = f->m->expr, *expr = before;
    f->left = NULL;
    f->rounds++;
    for (size_t i = 0; i < n; i++) {
        const Def *def = &f->m->defs.at[i];
        now[i] = def->fn && !def->imported ? replace_in_def(f, def) : NULL;
    }
    if (before && !ptrmap_has(&f->failed, f->m) && forms_in(f, before))
        expr = replace_in(f, before);
    if (!expr && before)
        ptrmap_put(&f->failed, f->m, NULL);
    for (size_t i = 0; i < n; i++) {
        Def *def = &f->m->defs.at[i];
        if (!now[i])
            continue;
        def->written = def->written ? def->written : def->fn;
        def->fn = now[i];
        changed = true;
    }
    if (expr && expr != before)
        f->m->written = f->m->written ? f->m->written : before;
    f->m->expr = expr ? expr : before;
    return changed || f->m->expr != before;
}

/* ---- short texts -------------------------------------------------------------------------------------------------------------------- */

static bool shorten_made(Rewriter *rw, const Expr *old, Expr **now)
{
    static const char *const names[] = {"SimplifyGradient", "DeadCodeElimination", NULL};
    Forms *f = rw->data;
    PassContext pc = {.cx = f->cx, .env = f->env};
    if (!ptrmap_has(&f->made, old))
        return false;
    *now = passes_on_expr(&pc, f->m, (Expr *)(uintptr_t)old, names);
    return true;
}

static Expr *keep(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)rw;
    (void)old;
    return now;
}

/* What was made in this round, and has types now, without what changes nothing. */
static bool shorten(Forms *f)
{
    Rewriter rw;
    rewriter_init(&rw, f->cx, f->m, keep, f);
    rw.enter = shorten_made;
    bool ok = true;
    for (size_t i = 0; i < f->m->defs.n && ok; i++) {
        Def *def = &f->m->defs.at[i];
        Expr *now = def->written ? ir_rewrite(&rw, &def->fn->base) : NULL;
        ok = now || !def->written;
        def->fn = now ? expr_as_function(now) : def->fn;
    }
    Expr *now = ok && f->m->written ? ir_rewrite(&rw, f->m->expr) : NULL;
    ok = ok && (now || !f->m->written);
    f->m->expr = now ? now : f->m->expr;
    rewriter_deinit(&rw);
    ptrmap_clear(&f->made);
    return ok && typecheck_module(f->cx, f->m, f->env);
}

typedef struct Left {
    Forms *f;
    const Expr *bare; /* a form that is given nothing */
    const Expr *open; /* over a type parameter that no call of a definition decides */
    const Expr *value; /* a definition with such a form, which nobody calls */
    bool broken;
} Left;

static WalkNext find_left(void *data, const Expr *e)
{
    Left *l = data;
    const Forms *f = l->f;
    const GlobalVar *g = expr_as_global(e);
    const OpRef *op = expr_as_op(e);
    if (is_broken(l->f, e))
        l->broken = true;
    else if (is_open_form(e))
        l->open = e;
    else if (op && op->op->flags & OP_FORM)
        l->bare = e;
    else if (g && e != f->m->expr && is_open(l->f, find_global(f->m, f->env, g->name)))
        l->value = e;
    return l->broken || l->bare || l->open || l->value ? WALK_STOP : WALK_ON;
}

/* No form stands for nothing. */
static bool none_left(Forms *f)
{
    Left l = {.f = f};
    bool whole = true;
    for (size_t i = 0; i < f->m->defs.n && whole; i++)
        if (f->m->defs.at[i].fn && !f->m->defs.at[i].imported && !is_open(f, &f->m->defs.at[i]))
            whole = ir_walk(&f->m->defs.at[i].fn->base, find_left, NULL, &l);
    if (f->m->expr && whole)
        whole = ir_walk(f->m->expr, find_left, NULL, &l);
    if (whole || l.broken)
        return whole;
    const Expr *at = l.bare ? l.bare : l.open ? l.open : l.value;
    const char *name = l.bare   ? expr_as_op(at)->op->name
                       : l.open ? expr_call_of_op(at)->name
                                : expr_as_global(at)->name->text;
    Diag *d = diag_error(
        f->cx->diags, l.bare ? E0605_NO_GRADIENT : E0216_OPERATOR_ARGUMENT, at->span,
        l.bare   ? "`%s` is no value by itself"
        : l.open ? "no call decides the type that `%s` goes through here"
                 : "`@%s` asks a form of values of its type parameters: it is no value, but called",
        name);
    if (l.bare)
        diag_help(d, "it is called with the function that is meant: `%s(@f)`", name);
    else if (l.open)
        diag_help(d, "definitions may have type parameters, and function literals types: `fn (%%w: "
                     "Weights)`");
    else
        diag_help(d, "a literal calls it: `fn (%%w: Weights) { @%s(%%w) }`", name);
    return false;
}

bool forms_expand(Ctx *cx, Module *m, const Module *env, FormsWish wish)
{
    if (!cx->forms)
        return true;
    Forms f = {.cx = cx, .m = m, .env = env, .wish = wish};
    arena_init(&f.scratch, &cx->limits);
    bool ok = true;
    while (ok && one_round(&f))
        ok = !limit_hit(&cx->limits) && typecheck_module(cx, m, env) && shorten(&f);
    if (ok && !f.failed.n && f.left && !is_broken(&f, f.left))
        diag_error(cx->diags, E0605_NO_GRADIENT, f.left->span,
                   "`%s` is asked of a function that contains this very call",
                   expr_call_of_op(f.left)->name);
    ok = ok && !f.failed.n && !f.left && none_left(&f);
    ptrmap_deinit(&f.values);
    ptrmap_deinit(&f.open);
    ptrmap_deinit(&f.failed);
    ptrmap_deinit(&f.made);
    arena_deinit(&f.scratch);
    return ok;
}
