/* Continuation-passing style: a function takes one parameter more, a function of its result, and calls it in the end.
 *
 *     def @main(%x: int32) -> int32 { %x + 1 }
 *  => def @main[answer](%x: int32, %k: fn (int32) -> answer) -> answer { let %x_0 = add(%x, 1); %k(%x_0) }
 *
 * The text is written from the front: the place where it goes on is a hole in what is there. A call of a function gets what follows as a
 * function literal, and the text goes on in that literal's body; the branches of an `if` call the continuation that is bound in front of
 * it. Functions that @main calls get twins (@f_cps). Values that several places share are bound to variables first. */
#include "passes/lets.h"
#include "passes/to_a_normal_form.h"

#include <string.h>

/* Expressions inside each other, without those in bodies of `let`s. */
#define NEST_MOST 4000

typedef struct Cps {
    PassRun *run;
    LetMaker make;
    Module *old;
    PtrMap twins; /* name -> that of its twin */
    Vec(const Def *) todo;
    /* of the function at hand */
    const Type *answer;
    PtrMap
        vars; /* Var -> what stands for it now: a variable, or the operator or constructor that it is another name for */
    PtrMap types;
    PtrMap defs; /* data types that were looked at */
    Expr **hole;
    uint32_t nested;
} Cps;

static Expr *convert(Cps *c, const Expr *e);

/* ---- types ------------------------------------------------------------------------------------------------------ */

static const Type *cps_type(Cps *c, const Type *type);

static const Type *arrow(Cps *c, const Type *from)
{
    return type_func(c->make.cx, 0, NULL, 1, &from, c->answer);
}

/* Whether a data type has a function in a field, where its definition keeps it as it is. */
static bool keeps_function(Cps *c, const Type *t)
{
    bool found = t->kind == TYPE_FUNC;
    for (uint32_t i = 0; t->kind != TYPE_TENSOR && i < t->n; i++)
        found |= keeps_function(c, t->parts[i]);
    if (t->kind != TYPE_ADT || ptrmap_has(&c->defs, t->def))
        return found;
    ptrmap_put(&c->defs, t->def, c);
    for (uint32_t i = 0; i < t->def->n_cons; i++)
        for (uint32_t k = 0; k < t->def->cons[i]->n; k++)
            found |= keeps_function(c, t->def->cons[i]->fields[k]);
    return found;
}

static void look_at_fields(Cps *c, const TypeDef *def)
{
    bool found = false;
    for (uint32_t i = 0; !ptrmap_has(&c->defs, def) && i < def->n_cons; i++)
        for (uint32_t k = 0; k < def->cons[i]->n; k++)
            found |= keeps_function(c, def->cons[i]->fields[k]);
    ptrmap_put(&c->defs, def, c);
    if (found)
        diag_error(c->make.cx->diags, E0607_NOT_CPS, def->span,
                   "`%s` holds functions that take no continuation", def->name->text);
}

/* An operator's own type, with its relation, has no other form. */
static void look_at_operator(Cps *c, const Type *fn)
{
    const Op *op = fn->n_params ? fn->params[fn->n_params - 1]->op : NULL;
    if (op)
        diag_error(c->make.cx->diags, E0607_NOT_CPS, c->make.span,
                   "`%s` is kept here as a function of arguments of any type", op->name);
}

/* Types do not nest deep. */
static const Type *cps_type(Cps *c, const Type *type)
{
    Ctx *cx = c->make.cx;
    const Type *t = type_find(type), *known = ptrmap_find(&c->types, t);
    if (known || t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
        t->kind == TYPE_POISON)
        return known ? known : t;
    const Type **parts = arena_alloc_must(&cx->arena, t->n + 2, sizeof *parts);
    for (uint32_t i = 0; i < t->n; i++)
        parts[i] = cps_type(c, t->parts[i]);
    switch ((TypeKind)t->kind) {
    case TYPE_TUPLE: known = type_tuple(cx, t->n, parts); break;
    case TYPE_REF: known = type_ref(cx, parts[0]); break;
    case TYPE_ADT:
        look_at_fields(c, t->def);
        known = type_adt(cx, t->def, t->n, parts);
        break;
    case TYPE_FUNC:
        look_at_operator(c, t);
        parts[t->n] = arrow(c, cps_type(c, t->result));
        known = type_func(cx, t->n_params, t->params, t->n + 1, parts, c->answer);
        break;
    case TYPE_TENSOR:
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: return t;
    }
    ptrmap_put(&c->types, t, (void *)(uintptr_t)known);
    return known;
}

/* ---- writing ------------------------------------------------------------------------------------------------------ */

static void fill(Cps *c, Expr *e)
{
    *c->hole = e;
}

static void bind(Cps *c, Var *var, Expr *value)
{
    Expr *let = expr_let(c->make.arena, c->make.span, var, value, value);
    fill(c, let);
    c->hole = &expr_as_let(let)->body;
}

static Expr *push(Cps *c, Expr *value)
{
    Var *var = lets_var(&c->make);
    bind(c, var, value);
    return &var->base;
}

static Var *new_var(Cps *c, const Var *old)
{
    Var *v = expr_var(c->make.arena, old->base.span, old->name,
                      old->base.type ? cps_type(c, old->base.type) : NULL);
    ptrmap_put(&c->vars, old, v);
    return v;
}

static Expr *variable(const Cps *c, const Expr *old)
{
    Expr *v = ptrmap_find(&c->vars, old);
    return v ? v : (Expr *)(uintptr_t)old;
}

/* fn (%arg) { … }, in whose body the hole is put; sets the variable. */
static Function *open_rest(Cps *c, Expr ***hole, Expr **arg)
{
    Var *v = expr_var(c->make.arena, c->make.span, ctx_name(c->make.cx, "arg"), NULL);
    Function *f =
        expr_function(c->make.arena, c->make.span, (TypeVarList){0}, 1, &v, NULL, NULL, &v->base);
    *hole = &f->body;
    *arg = &v->base;
    return f;
}

static void apply(Cps *c, Expr *k, Expr *e)
{
    fill(c, expr_call(c->make.arena, c->make.span, k, 1, &e, NULL));
}

/* ---- expressions ------------------------------------------------------------------------------------------------------ */

static Expr **convert_all(Cps *c, const ExprList *list, uint32_t more)
{
    Expr **at = arena_alloc_must(c->make.scratch, list->n + more + 1, sizeof *at);
    for (uint32_t i = 0; i < list->n; i++)
        at[i] = convert(c, list->at[i]);
    return at;
}

static Expr *cps_function(Cps *c, const Function *f, const TypeVarList *type_params)
{
    uint32_t n = f->params.n;
    Var **params = arena_alloc_must(c->make.scratch, n + 1, sizeof *params);
    for (uint32_t i = 0; i < n; i++)
        params[i] = new_var(c, f->params.at[i]);
    /* A body without a clause has no type of its own, and one of a wider function a narrower one. */
    const Type *t = f->base.type ? type_find(f->base.type) : NULL;
    const Type *result = t && t->kind == TYPE_FUNC ? t->result : f->body->type;
    params[n] = expr_var(c->make.arena, f->base.span, ctx_name(c->make.cx, "k"),
                         arrow(c, cps_type(c, result)));
    Function *now = expr_function(c->make.arena, f->base.span, *type_params, n + 1, params,
                                  f->attrs, c->answer, f->body);
    Expr **outer = c->hole;
    c->hole = &now->body;
    Expr *value = convert(c, f->body);
    apply(c, &params[n]->base, value);
    c->hole = outer;
    return &now->base;
}

static bool is_row(const Expr *e)
{
    return e->kind == EXPR_OP || e->kind == EXPR_CON;
}

/* A call of an operator or constructor, which needs no continuation. */
static Expr *call_row(Cps *c, Expr *callee, Span span, uint32_t n, Expr *const *args,
                      const Attrs *attrs)
{
    const OpRef *op = expr_as_op(callee);
    if (!op)
        look_at_fields(c, expr_as_con(callee)->con->type);
    if (op && op->op->attrs && !attrs)
        attrs = attrs_check(c->make.cx, c->make.arena, op->op->name, op->op->attrs, NULL, span);
    return expr_call(c->make.arena, span, callee, n, args, attrs);
}

/* fn (%arg, …, %k) { %k(callee(%arg, …)) } for an operator or a constructor that is used as a value. The types of an operator's
 * arguments are those that are wanted where it stands. */
static Expr *row_function(Cps *c, Expr *callee)
{
    Ctx *cx = c->make.cx;
    const Constructor *con = expr_as_con(callee) ? expr_as_con(callee)->con : NULL;
    if (con && con->n == 0) /* a value, as derivatives write it */
        return call_row(c, callee, callee->span, 0, NULL, NULL);
    uint32_t n = con ? con->n : (uint32_t)op_arity(expr_as_op(callee)->op);
    uint32_t n_types = con ? con->type->n_params : 0;
    Var **params = arena_alloc_must(c->make.scratch, n + 1, sizeof *params);
    const TypeVar **vars = arena_alloc_must(c->make.arena, n_types + 1, sizeof *vars);
    const Type **types = arena_alloc_must(c->make.scratch, n_types + 1, sizeof *types);
    for (uint32_t i = 0; i < n_types; i++) {
        vars[i] = typevar_new(cx, con->type->params[i]->name, callee->span);
        types[i] = type_var(cx, vars[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        const Type *t =
            con ? type_subst(cx, con->fields[i], n_types, con->type->params, types) : NULL;
        params[i] = expr_var(c->make.arena, callee->span, ctx_name(cx, "arg"), t);
    }
    Span span = callee->span;
    const Type *result = con ? arrow(c, type_adt(cx, con->type, n_types, types)) : NULL;
    params[n] = expr_var(c->make.arena, span, ctx_name(cx, "k"), result);
    Expr *value = call_row(c, callee, span, n, (Expr *const *)params, NULL);
    Expr *body = expr_call(c->make.arena, span, &params[n]->base, 1, &value, NULL);
    return &expr_function(c->make.arena, span, (TypeVarList){vars, n_types}, n + 1, params, NULL,
                          c->answer, body)
                ->base;
}

static Expr *convert_call(Cps *c, const Call *call)
{
    Arena *arena = c->make.arena;
    uint32_t n = call->args.n;
    Expr **args = convert_all(c, &call->args, 1);
    Expr *row = variable(c, call->callee);
    c->make.span = call->base.span;
    if (is_row(row))
        return push(c, call_row(c, row, call->base.span, n, args, call->attrs));
    Expr *callee = convert(c, call->callee), *arg, **rest;
    c->make.span = call->base.span;
    args[n] = &open_rest(c, &rest, &arg)->base;
    fill(c, expr_call(arena, call->base.span, callee, n + 1, args, NULL));
    c->hole = rest;
    return arg;
}

static Expr *branch(Cps *c, const Expr *e, Expr *k)
{
    Expr *made = NULL;
    c->hole = &made;
    Expr *result = convert(c, e);
    apply(c, k, result);
    return made;
}

static Expr *convert_if(Cps *c, const If *e)
{
    Expr *arg, **rest;
    c->make.span = e->base.span;
    Expr *k = push(c, &open_rest(c, &rest, &arg)->base);
    Expr *cond = convert(c, e->cond), **here = c->hole;
    Expr *then = branch(c, e->then, k), *otherwise = branch(c, e->otherwise, k);
    *here = expr_if(c->make.arena, e->base.span, cond, then, otherwise);
    c->hole = rest;
    return arg;
}

/* Patterns do not nest deep. */
static Pattern *new_pattern(Cps *c, const Pattern *old)
{
    Pattern *p = arena_alloc_must(c->make.arena, 1, sizeof *p);
    *p = *old;
    p->var = old->kind == PATTERN_VAR ? new_var(c, old->var) : old->var;
    p->fields = arena_alloc_must(c->make.arena, old->n + 1, sizeof *p->fields);
    for (uint32_t i = 0; i < old->n; i++)
        p->fields[i] = new_pattern(c, old->fields[i]);
    return p;
}

static Expr *convert_match(Cps *c, const Match *e)
{
    Expr *arg, **rest;
    c->make.span = e->base.span;
    Expr *k = push(c, &open_rest(c, &rest, &arg)->base);
    Expr *data = convert(c, e->scrutinee), **here = c->hole;
    Clause *clauses = arena_alloc_must(c->make.scratch, e->clauses.n + 1, sizeof *clauses);
    for (uint32_t i = 0; i < e->clauses.n; i++) {
        const Clause *old = &e->clauses.at[i];
        clauses[i] = (Clause){new_pattern(c, old->pattern), NULL, old->span};
        clauses[i].body = branch(c, old->body, k);
    }
    *here = expr_match(c->make.arena, e->base.span, data, e->clauses.n, clauses, e->complete);
    c->hole = rest;
    return arg;
}

static Expr *convert_ref(Cps *c, const Expr *e)
{
    const RefNew *fresh = expr_as_ref_new(e);
    const RefRead *read = expr_as_ref_read(e);
    const RefWrite *write = expr_as_ref_write(e);
    if (fresh)
        return expr_ref_new(c->make.arena, e->span, convert(c, fresh->value));
    Expr *ref = convert(c, read ? read->ref : write->ref);
    if (read)
        return push(c, expr_ref_read(c->make.arena, e->span, ref));
    Expr *value = convert(c, write->value);
    return push(c, expr_ref_write(c->make.arena, e->span, ref, value));
}

static Expr *twin(Cps *c, const Expr *e)
{
    const Name *name = expr_as_global(e)->name, *known = ptrmap_find(&c->twins, name);
    const Def *def = module_find(c->old, name);
    if (!def || !def->fn) {
        diag_error(c->make.cx->diags, E0607_NOT_CPS, e->span,
                   "`@%s` cannot be rewritten: its body is not in this program", name->text);
        return (Expr *)(uintptr_t)e;
    }
    if (!known) {
        Buf text = {0};
        buf_printf(&text, "%s_cps", name->text);
        while (module_find_text(c->run->module, buf_text(&text)))
            buf_char(&text, '_');
        known = ctx_name(c->make.cx, buf_text(&text));
        buf_deinit(&text);
        ptrmap_put(&c->twins, name, (void *)(uintptr_t)known);
        vec_push(&c->todo, c->make.scratch, def);
    }
    return expr_global(c->make.arena, e->span, known);
}

static Expr *convert_value(Cps *c, const Expr *e)
{
    Expr *same = (Expr *)(uintptr_t)e;
    switch ((ExprKind)e->kind) {
    case EXPR_VAR: same = variable(c, e); return is_row(same) ? row_function(c, same) : same;
    case EXPR_GLOBAL: return twin(c, e);
    case EXPR_CALL: return convert_call(c, expr_as_call(e));
    case EXPR_FUNCTION:
        return cps_function(c, expr_as_function(e), &expr_as_function(e)->type_params);
    case EXPR_IF: return convert_if(c, expr_as_if(e));
    case EXPR_MATCH: return convert_match(c, expr_as_match(e));
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return convert_ref(c, e);
    case EXPR_TUPLE: {
        const ExprList *fields = &expr_as_tuple(e)->fields;
        return expr_tuple(c->make.arena, e->span, fields->n, convert_all(c, fields, 0));
    }
    case EXPR_TUPLE_GET: {
        Expr *tuple = convert(c, expr_as_tuple_get(e)->tuple);
        return expr_tuple_get(c->make.arena, e->span, tuple, expr_as_tuple_get(e)->index);
    }
    case EXPR_OP:
    case EXPR_CON: return row_function(c, same);
    case EXPR_CONSTANT:
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    return same;
}

/* The value of e where the hole now is: a variable, a constant, a function, or a tuple, a field or a new
 * reference of such. It is to stand in one place. */
static Expr *convert(Cps *c, const Expr *e)
{
    Expr *same = (Expr *)(uintptr_t)e;
    if (c->nested >= NEST_MOST)
        limit_reach(&c->make.cx->limits, LIMIT_DEPTH);
    if (limit_hit(&c->make.cx->limits))
        return same;
    c->nested++;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        Expr *row = variable(c, let->value);
        if (is_row(row)) { /* each use has types of its own */
            ptrmap_put(&c->vars, let->var, row);
            e = let->body;
            continue;
        }
        c->make.span = let->base.span;
        Var *var = new_var(c, let->var);
        Expr *value = convert(c, let->value);
        c->make.span = let->base.span;
        bind(c, var, value);
        e = let->body;
    }
    c->make.span = e->span;
    Expr *value = convert_value(c, e);
    c->nested--;
    return value;
}

/* ---- the passes --------------------------------------------------------------------------------------------------------- */

typedef struct Sharing {
    PtrMap seen;
    bool found;
} Sharing;

static void note_use(void *data, Expr *const *slot)
{
    Sharing *s = data;
    ExprKind kind = (ExprKind)(*slot)->kind;
    if (kind == EXPR_VAR || kind == EXPR_OP || kind == EXPR_CON || kind == EXPR_GLOBAL ||
        kind == EXPR_CONSTANT)
        return;
    s->found |= ptrmap_has(&s->seen, *slot);
    ptrmap_put(&s->seen, *slot, NULL);
}

static WalkNext note_uses(void *data, const Expr *e)
{
    ir_children(e, note_use, data);
    return WALK_ON;
}

static bool shares(const Function *f)
{
    Sharing s = {0};
    ir_walk(&f->base, note_uses, NULL, &s);
    ptrmap_deinit(&s.seen);
    return s.found;
}

/* ---- the name of the answer: one that no function of the program binds inside, nor one that is made of a constructor ---- */

typedef struct AnswerName {
    const Name *name;
    bool bound;
} AnswerName;

static WalkNext note_bound(void *data, const Expr *e)
{
    AnswerName *a = data;
    const Function *f = expr_as_function(e);
    const ConRef *con = expr_as_con(e);
    uint32_t n = f ? f->type_params.n : con ? con->con->type->n_params : 0;
    const TypeVar *const *at = f ? f->type_params.at : con ? con->con->type->params : NULL;
    for (uint32_t i = 0; i < n; i++)
        a->bound |= at[i]->name == a->name;
    return a->bound ? WALK_STOP : WALK_ON;
}

static const Name *answer_name(Ctx *cx, const Function *f)
{
    AnswerName a = {ctx_name(cx, "answer"), false};
    Buf text = {0};
    for (uint32_t i = 1;
         ir_walk(&f->base, note_bound, NULL, &a), a.bound && !limit_hit(&cx->limits); i++) {
        buf_clear(&text);
        buf_printf(&text, "answer%u", i);
        a = (AnswerName){ctx_name(cx, buf_text(&text)), false};
    }
    buf_deinit(&text);
    return a.name;
}

static Function *whole_function(Cps *c, const Function *f)
{
    uint32_t n = f->type_params.n;
    const TypeVar **params = arena_alloc_must(c->make.arena, n + 1, sizeof *params);
    if (n)
        memcpy(params, f->type_params.at, n * sizeof *params);
    params[n] = typevar_new(c->make.cx, answer_name(c->make.cx, f), f->base.span);
    c->answer = type_var(c->make.cx, params[n]);
    ptrmap_clear(&c->vars);
    ptrmap_clear(&c->types);
    if (shares(f))
        f = expr_as_function(to_anf(c->make.cx, c->run->module, (Expr *)(uintptr_t)&f->base));
    return f ? expr_as_function(cps_function(c, f, &(TypeVarList){params, n + 1})) : NULL;
}

static const Def *find_main(PassRun *run, const Module *old)
{
    const Def *def = module_find_text(old, "main");
    if (!def || !def->fn)
        diag_error(run->cx->diags, E0607_NOT_CPS, run->where, "there is no @main to rewrite");
    return def && def->fn ? def : NULL;
}

static bool to_cps(PassRun *run, Module *old)
{
    Cps c = {.run = run, .old = old};
    c.make = (LetMaker){.cx = run->cx, .arena = &run->module->arena, .scratch = &run->scratch};
    size_t errors = run->cx->diags->errors;
    const Def *def = find_main(run, old);
    Function *f = def ? whole_function(&c, def->fn) : NULL;
    for (size_t i = 0; i < c.todo.n && f && !limit_hit(&run->cx->limits); i++) {
        const Def *called = c.todo.at[i];
        Function *twin_fn = whole_function(&c, called->fn);
        if (twin_fn)
            module_define(run->module, ptrmap_find(&c.twins, called->name), twin_fn, called->span,
                          run->module);
    }
    if (f)
        module_define(run->module, def->name, f, def->span, run->module);
    PtrMap *maps[] = {&c.twins, &c.vars, &c.types, &c.defs};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    return f && !limit_hit(&run->cx->limits) && run->cx->diags->errors == errors;
}

/* The type of the result that a function in this style gives to its continuation; NULL when it is none. */
static const Type *result_of(const Function *f)
{
    const Type *k =
        f->params.n && f->type_params.n ? f->params.at[f->params.n - 1]->base.type : NULL;
    k = k ? type_find(k) : NULL;
    return k && k->kind == TYPE_FUNC && k->n == 1 ? k->parts[0] : NULL;
}

/* Whether nothing that goes in or comes out has the type of the answer; an error if it does. */
static bool answers_alone(Ctx *cx, const Function *f, const Type *result)
{
    const TypeVar *const *answer = &f->type_params.at[f->type_params.n - 1];
    const Type *unit = type_tuple(cx, 0, NULL);
    bool alone = type_subst(cx, result, 1, answer, &unit) == type_find(result);
    for (uint32_t i = 0; i + 1 < f->params.n; i++) {
        const Type *t = f->params.at[i]->base.type;
        alone &= type_subst(cx, t, 1, answer, &unit) == type_find(t);
    }
    if (!alone)
        diag_error(cx->diags, E0607_NOT_CPS, f->base.span,
                   "@main takes or returns functions that take a continuation, and these have no "
                   "direct form");
    return alone;
}

static bool un_cps(PassRun *run, Module *old)
{
    const Def *def = find_main(run, old);
    const Type *result = def ? result_of(def->fn) : NULL;
    Arena *arena = &run->module->arena;
    if (def && !result)
        diag_error(run->cx->diags, E0607_NOT_CPS, def->fn->base.span,
                   "@main takes no continuation");
    if (!result)
        return false;
    const Function *f = def->fn;
    uint32_t n = f->params.n - 1;
    if (!answers_alone(run->cx, f, result))
        return false;
    Span span = f->base.span;
    Var **params = arena_alloc_must(&run->scratch, n + 1, sizeof *params);
    Expr **args = arena_alloc_must(&run->scratch, n + 2, sizeof *args);
    for (uint32_t i = 0; i < n; i++) {
        const Var *old_param = f->params.at[i];
        params[i] = expr_var(arena, span, old_param->name, old_param->base.type);
        args[i] = &params[i]->base;
    }
    Var *x = expr_var(arena, span, ctx_name(run->cx, "x"), result);
    args[n] = &expr_function(arena, span, (TypeVarList){0}, 1, &x, NULL, result, &x->base)->base;
    Expr *inner = &expr_function(arena, span, f->type_params, f->params.n, f->params.at, NULL,
                                 f->ret_type, f->body)
                       ->base;
    TypeVarList outer = {f->type_params.at, f->type_params.n - 1};
    Function *now = expr_function(arena, span, outer, n, params, f->attrs, result,
                                  expr_call(arena, span, inner, n + 1, args, NULL));
    module_define(run->module, def->name, now, def->span, run->module);
    return true;
}

const Pass pass_to_cps = {
    .name = "ToCPS",
    .doc = "Gives @main and what it calls a continuation to call with the result.",
    .opt_level = 1,
    .needs_types = true,
    .other_values = true,
    .module = to_cps,
};

const Pass pass_un_cps = {
    .name = "UnCPS",
    .doc = "Gives an @main with a continuation its result back.",
    .opt_level = 1,
    .needs_types = true,
    .other_values = true,
    .module = un_cps,
};
