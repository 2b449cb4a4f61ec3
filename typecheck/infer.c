/* The forms of expression (types.md section 3), bottom up with a stack of tasks: a program may be ten thousand calls deep. */
#include "typecheck/internal.h"
#include "ir/walk.h"

static void push(Checker *ck, TaskKind kind, Expr *e)
{
    vec_push(&ck->tasks, &ck->scratch, ((Task){e, kind}));
}

void set_type(Checker *ck, Expr *e, const Type *t)
{
    e->type = t;
    if (t->open)
        vec_push(&ck->open, &ck->scratch, e);
}

/* ---- variables and names --------------------------------------------------------------------------------------------------- */

static void type_var_node(Checker *ck, Var *v, HoleInfo info)
{
    if (v->base.type)
        return;
    const Type *t = v->annotation ? written_type(ck, v->annotation, info) : hole_new(ck, info);
    if (!v->annotation)
        story_unknown(ck, t, info);
    set_type(ck, &v->base, t);
}

/* Bound variables have a type before they are met; what comes here is free. */
static void visit_var(Checker *ck, Var *v)
{
    type_var_node(ck, v, (HoleInfo){HOLE_VAR, v->base.span, v->name->text, NULL});
}

static WalkNext is_named(void *data, const Expr *e)
{
    const Var *v = expr_as_var(e);
    return v && v->name == data ? WALK_STOP : WALK_ON;
}

static void unknown_global(Checker *ck, const GlobalVar *g)
{
    if (ck->m->gaps)
        return;
    Diag *d = diag_error(ck->cx->diags, E0211_UNDEFINED_GLOBAL, g->base.span,
                         "nothing defines `@%s`", g->name->text);
    Vec(const char *) names = {0};
    for (size_t i = 0; i < ck->m->defs.n; i++)
        if (ck->m->defs.at[i].fn)
            vec_push(&names, &ck->scratch, ck->m->defs.at[i].name->text);
    for (size_t i = 0; ck->env && i < ck->env->defs.n; i++)
        if (ck->env->defs.at[i].fn)
            vec_push(&names, &ck->scratch, ck->env->defs.at[i].name->text);
    if (!ir_walk(ck->root, is_named, NULL, (void *)(uintptr_t)g->name)) {
        diag_help(d, "a variable is written `%%%s`; `@` stands before what `def` defines",
                  g->name->text);
        return;
    }
    bool near = diag_suggest_as(d, "@", g->name->text, names.n, names.at);
    if (!near && ck->m->has_header && ck->m->imports.n == 0)
        diag_help(d, "the functions of the prelude need `import \"prelude.rly\"`");
    else if (!near)
        diag_help(d, "a function is defined by `def @%s(…) { … }`", g->name->text);
}

static const Type *type_of_global(Checker *ck, const GlobalVar *g)
{
    const Def *def = module_find(ck->m, g->name);
    if (!def)
        def = module_find(ck->env, g->name);
    if (!def) {
        unknown_global(ck, g);
        return ck->cx->poison;
    }
    if (def->fn->base.type)
        return def->fn->base.type;
    /* A member of the cycle in work. */
    return function_begin(ck, def->fn, def->name->text, def->span);
}

/* The value of a body: behind its lets. */
static Expr *const *tail(Expr *const *slot)
{
    for (const Let *let; (let = expr_as_let(*slot));)
        slot = &let->body;
    return slot;
}

static Span tail_span(const Checker *ck, Expr *const *slot)
{
    return ir_use_span(ck->home, tail(slot));
}

/* ---- functions ------------------------------------------------------------------------------------------------------------- */

const Type *function_begin(Checker *ck, Function *fn, const char *name, Span span)
{
    const Type *known = ptrmap_find(&ck->functions, fn);
    if (known)
        return known;
    const Type **params = arena_new_array(&ck->scratch, const Type *, fn->params.n);
    for (uint32_t i = 0; i < fn->params.n; i++) {
        Var *v = fn->params.at[i];
        bool parts = v->annotation && v->annotation->kind != TYPE_HOLE;
        HoleInfo info = {parts ? HOLE_WRITTEN : HOLE_PARAM, v->base.span, v->name->text, NULL};
        type_var_node(ck, v, info);
        params[i] = v->base.type;
    }
    ck->polymorphic = ck->polymorphic || (!name && fn->type_params.n);
    HoleInfo info = {HOLE_RESULT, name ? span : function_head_span(ck->cx, fn), name, NULL};
    const Type *result = hole_new(ck, info);
    /* A declared result is a filled hole: the body may widen it. */
    if (fn->ret_type)
        hole_bind(ck, result, written_type(ck, fn->ret_type, info));
    else
        story_unknown(ck, result, info);
    const Type *t =
        type_func(ck->cx, fn->type_params.n, fn->type_params.at, fn->params.n, params, result);
    ptrmap_put(&ck->functions, fn, (void *)(uintptr_t)t);
    return t;
}

static const Type *finish_function(Checker *ck, Function *fn)
{
    const Type *t = ptrmap_find(&ck->functions, fn);
    const Type *body = fn->body->type;
    if (t->kind != TYPE_FUNC)
        return t;
    const Type *declared = fn->ret_type ? type_find(t->result) : NULL;
    const Type *found = type_find(body);
    bool poly = found->kind == TYPE_FUNC && found->n_params;
    if (poly && !(declared && declared->kind == TYPE_FUNC && declared->n_params))
        body = instantiate(ck, found,
                           (HoleInfo){HOLE_TYPE_ARG, tail_span(ck, &fn->body), NULL, NULL}, NULL);
    Rule rule = {fn->ret_type ? "the body of a function has the declared type"
                              : "a function returns what its body is",
                 {.e = &fn->base, .part = fn->params.n + 1},
                 {.slot = tail(&fn->body)}};
    if (!unify_by(ck, rule, t->result, body, WIDEN_BOTH, FLOW_TO_A))
        report_misfit(ck, tail_span(ck, &fn->body), "the function's result", body, t->result);
    return t;
}

/* ---- let ----------------------------------------------------------------------------------------------------------------------- */

/* A function literal may call itself by the variable that it is bound to. */
static void begin_let(Checker *ck, Let *let)
{
    Function *fn = expr_as_function(let->value);
    if (!fn || fn->base.type || let->var->base.type)
        return;
    const Type *t = function_begin(ck, fn, NULL, fn->base.span);
    Var *v = let->var;
    if (!v->annotation) {
        set_type(ck, &v->base, t);
        return;
    }
    type_var_node(ck, v, (HoleInfo){HOLE_WRITTEN, v->base.span, v->name->text, NULL});
}

static void let_value(Checker *ck, Let *let)
{
    Var *v = let->var;
    const Type *value = let->value->type;
    if (!v->base.type && !v->annotation) {
        set_type(ck, &v->base, value);
        return;
    }
    HoleInfo info = {HOLE_WRITTEN, v->base.span, v->name->text, NULL};
    bool typed = v->base.type;
    const Type *declared = typed ? v->base.type : written_type(ck, v->annotation, info);
    Rule rule = {v->annotation ? "the value of a `let` has the declared type"
                               : "a function is the one that its body calls by its variable",
                 {.e = &v->base},
                 {.slot = tail(&let->value)}};
    const Type *both =
        unify_by(ck, rule, declared, value, WIDEN_LEFT, typed ? FLOW_TO_A : FLOW_JOIN);
    if (!both) {
        Diag *d = report_misfit(ck, v->base.span, "the value", value, declared);
        diag_label(d, ir_use_span(ck->home, &let->value), "this is `%s`",
                   type_str(ck->cx, type_resolve(ck->cx, value)));
        both = declared;
    }
    if (!typed)
        set_type(ck, &v->base, both);
}

/* ---- if, references ------------------------------------------------------------------------------------------------------------ */

static void if_cond(Checker *ck, If *e)
{
    const Type *boolean = type_bool(ck->cx);
    Rule rule = {"a condition is a `bool`", {.span = e->base.span}, {.slot = &e->cond}};
    if (unify_by(ck, rule, boolean, e->cond->type, WIDEN_NONE, FLOW_TO_A))
        return;
    report_misfit(ck, ir_use_span(ck->home, &e->cond), "the condition", e->cond->type, boolean);
}

static const Type *finish_if(Checker *ck, If *e)
{
    const Type *then = e->then->type, *otherwise = e->otherwise->type;
    Rule rule = {"both branches of an `if` have one type",
                 {.slot = tail(&e->then)},
                 {.slot = tail(&e->otherwise)}};
    const Type *both = unify_by(ck, rule, then, otherwise, WIDEN_BOTH, FLOW_JOIN);
    if (both)
        return both;
    Diag *d = report_misfit(ck, e->base.span, "the second branch", otherwise, then);
    diag_label(d, tail_span(ck, &e->then), "this is `%s`",
               type_str(ck->cx, type_resolve(ck->cx, then)));
    diag_label(d, tail_span(ck, &e->otherwise), "this is `%s`",
               type_str(ck->cx, type_resolve(ck->cx, otherwise)));
    return ck->cx->poison;
}

/* The content's type of what should be a reference. */
static const Type *content_of(Checker *ck, Expr *const *ref, Span span)
{
    const Type *t = type_find((*ref)->type);
    if (t->kind == TYPE_REF)
        return t->parts[0];
    if (t->kind == TYPE_POISON)
        return t;
    if (t->kind == TYPE_HOLE) {
        const Type *content = hole_new(ck, (HoleInfo){HOLE_PATTERN, span, NULL, NULL});
        Rule rule = {"what is read or written is a reference", {.slot = ref}, {.span = span}};
        unify_by(ck, rule, t, type_ref(ck->cx, content), WIDEN_BOTH, FLOW_TO_A);
        return content;
    }
    Diag *d = diag_error(ck->cx->diags, E0201_MISMATCH, span,
                         "only a reference can be read and written, not `%s`",
                         type_str(ck->cx, type_resolve(ck->cx, t)));
    diag_label(d, ir_use_span(ck->home, ref), "this is no reference");
    diag_help(d, "`ref(…)` makes one: `let %%r = ref(1);`");
    return ck->cx->poison;
}

static const Type *finish_write(Checker *ck, RefWrite *e)
{
    const Type *content = content_of(ck, &e->ref, e->base.span);
    Rule rule = {"what is written has the type of the reference's content",
                 {.slot = &e->ref},
                 {.slot = &e->value}};
    if (!unify_by(ck, rule, content, e->value->type, WIDEN_LEFT, FLOW_TO_A)) {
        Diag *d =
            report_misfit(ck, e->base.span, "the value that is written", e->value->type, content);
        diag_label(d, ir_use_span(ck->home, &e->ref), "this is `%s`",
                   type_str(ck->cx, type_resolve(ck->cx, e->ref->type)));
        diag_label(d, ir_use_span(ck->home, &e->value), "this is `%s`",
                   type_str(ck->cx, type_resolve(ck->cx, e->value->type)));
    }
    return type_unit(ck->cx);
}

static const Type *finish_tuple(Checker *ck, Tuple *e)
{
    const Type *few[8];
    const Type **fields =
        e->fields.n <= 8 ? few : arena_new_array(&ck->scratch, const Type *, e->fields.n);
    for (uint32_t i = 0; i < e->fields.n; i++)
        fields[i] = e->fields.at[i]->type;
    return type_tuple(ck->cx, e->fields.n, fields);
}

static const Type *finish_match(Checker *ck, Match *e)
{
    match_check(ck, e);
    if (e->clauses.n == 0 && e->complete)
        return ck->cx->poison;
    if (e->clauses.n == 0)
        return hole_new(ck, (HoleInfo){HOLE_CALL, e->base.span, NULL, NULL});
    const Type *t = e->clauses.at[0].body->type;
    Expr *const *first = tail(&e->clauses.at[0].body);
    for (uint32_t i = 1; i < e->clauses.n; i++) {
        const Expr *body = e->clauses.at[i].body;
        Rule rule = {"all clauses of a `match` have one type",
                     {.slot = first},
                     {.slot = tail(&e->clauses.at[i].body)}};
        const Type *both = unify_by(ck, rule, t, body->type, WIDEN_BOTH, FLOW_JOIN);
        if (both) {
            t = both;
            continue;
        }
        Diag *d =
            report_misfit(ck, tail_span(ck, &e->clauses.at[i].body), "this clause", body->type, t);
        diag_label(d, tail_span(ck, &e->clauses.at[0].body), "the first one is `%s`",
                   type_str(ck->cx, type_resolve(ck->cx, t)));
    }
    return t;
}

/* ---- the sweep --------------------------------------------------------------------------------------------------------------- */

/* Expressions among the attributes have types too; nothing depends on them. */
static void visit_attr(void *data, Expr *e)
{
    push(data, TASK_VISIT, e);
}

static void visit_call(Checker *ck, Call *e)
{
    push(ck, TASK_FINISH, &e->base);
    attrs_exprs(e->attrs, visit_attr, ck);
    for (uint32_t i = e->args.n; i-- > 0;)
        push(ck, TASK_VISIT, e->args.at[i]);
    if (!expr_as_op(e->callee) && !expr_as_con(e->callee))
        push(ck, TASK_VISIT, e->callee);
}

static void visit_match(Checker *ck, Match *e)
{
    push(ck, TASK_FINISH, &e->base);
    for (uint32_t i = e->clauses.n; i-- > 0;)
        push(ck, TASK_VISIT, e->clauses.at[i].body);
    push(ck, TASK_PATTERNS, &e->base);
    push(ck, TASK_VISIT, e->scrutinee);
}

static void visit_children(Checker *ck, Expr *e);

/* Types a node without children, or asks for its children first. */
static void visit(Checker *ck, Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT:
        set_type(ck, e, type_of_constant(ck->cx, expr_as_constant(e)->value));
        return;
    case EXPR_VAR: visit_var(ck, expr_as_var(e)); return;
    case EXPR_GLOBAL: set_type(ck, e, type_of_global(ck, expr_as_global(e))); return;
    case EXPR_OP: set_type(ck, e, type_of_op(ck->cx, expr_as_op(e)->op)); return;
    case EXPR_CON:
        /* One without fields is a value. */
        set_type(ck, e,
                 expr_as_con(e)->con->n
                     ? type_of_constructor(ck->cx, expr_as_con(e)->con)
                     : infer_constructor(ck, expr_as_con(e)->con, e->span, NULL));
        return;
    case EXPR_TUPLE:
    case EXPR_TUPLE_GET:
    case EXPR_CALL:
    case EXPR_FUNCTION:
    case EXPR_LET:
    case EXPR_IF:
    case EXPR_MATCH:
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: visit_children(ck, e); return;
    case EXPR_KINDS: return;
    }
}

static void visit_children(Checker *ck, Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: visit_call(ck, expr_as_call(e)); return;
    case EXPR_MATCH: visit_match(ck, expr_as_match(e)); return;
    case EXPR_LET:
        begin_let(ck, expr_as_let(e));
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_let(e)->body);
        push(ck, TASK_LET_VALUE, e);
        push(ck, TASK_VISIT, expr_as_let(e)->value);
        return;
    case EXPR_IF:
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_if(e)->otherwise);
        push(ck, TASK_VISIT, expr_as_if(e)->then);
        push(ck, TASK_IF_COND, e);
        push(ck, TASK_VISIT, expr_as_if(e)->cond);
        return;
    case EXPR_FUNCTION:
        function_begin(ck, expr_as_function(e), NULL, e->span);
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_function(e)->body);
        return;
    case EXPR_TUPLE:
        push(ck, TASK_FINISH, e);
        for (uint32_t i = expr_as_tuple(e)->fields.n; i-- > 0;)
            push(ck, TASK_VISIT, expr_as_tuple(e)->fields.at[i]);
        return;
    case EXPR_TUPLE_GET:
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_tuple_get(e)->tuple);
        return;
    case EXPR_REF_NEW:
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_ref_new(e)->value);
        return;
    case EXPR_REF_READ:
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_ref_read(e)->ref);
        return;
    case EXPR_REF_WRITE:
        push(ck, TASK_FINISH, e);
        push(ck, TASK_VISIT, expr_as_ref_write(e)->value);
        push(ck, TASK_VISIT, expr_as_ref_write(e)->ref);
        return;
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: return;
    }
}

static const Type *finish(Checker *ck, Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_TUPLE: return finish_tuple(ck, expr_as_tuple(e));
    case EXPR_TUPLE_GET: {
        TupleGet *get = expr_as_tuple_get(e);
        return relation_project(ck, get->tuple->type, get->index, e->span,
                                ir_use_span(ck->home, &get->tuple));
    }
    case EXPR_CALL: return infer_call(ck, expr_as_call(e));
    case EXPR_FUNCTION: return finish_function(ck, expr_as_function(e));
    case EXPR_LET: return expr_as_let(e)->body->type;
    case EXPR_IF: return finish_if(ck, expr_as_if(e));
    case EXPR_MATCH: return finish_match(ck, expr_as_match(e));
    case EXPR_REF_NEW: return type_ref(ck->cx, expr_as_ref_new(e)->value->type);
    case EXPR_REF_READ: return content_of(ck, &expr_as_ref_read(e)->ref, e->span);
    case EXPR_REF_WRITE: return finish_write(ck, expr_as_ref_write(e));
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: break;
    }
    return ck->cx->poison;
}

/* What is too deep is noticed where types are made, which knows no place. */
static void place_diag(Diag *d, Span span)
{
    if (d && d->code == E0121_TOO_DEEP && span_is_none(d->span))
        d->span = span;
}

bool checker_ends(Checker *ck)
{
    Diags *diags = ck->cx->diags;
    if (!diags_full(diags))
        return limit_hit(&ck->cx->limits);
    diags->cut = true;
    return true;
}

void infer(Checker *ck, Expr *root)
{
    ck->root = root;
    push(ck, TASK_VISIT, root);
    while (ck->tasks.n && !checker_ends(ck)) {
        Task task = vec_pop(&ck->tasks);
        ck->at = task.e->span;
        if (ck->queue_first)
            solve(ck);
        switch (task.kind) {
        case TASK_VISIT:
            if (!task.e->type)
                visit(ck, task.e);
            break;
        case TASK_LET_VALUE: let_value(ck, expr_as_let(task.e)); break;
        case TASK_IF_COND: if_cond(ck, expr_as_if(task.e)); break;
        case TASK_PATTERNS: infer_patterns(ck, expr_as_match(task.e)); break;
        case TASK_FINISH: set_type(ck, task.e, finish(ck, task.e)); break;
        }
        place_diag(ck->cx->diags->last, task.e->span);
    }
    ck->tasks.n = 0;
    solve(ck);
}
