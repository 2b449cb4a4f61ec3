#include "typecheck/why.h"

#include "ir/walk.h"

#include <string.h>

/* Steps of one question, so that it ends soon in any program. */
#define STEPS_MOST 2000

typedef enum BinderKind { BINDER_LET, BINDER_PARAM, BINDER_PATTERN } BinderKind;

typedef struct Binder {
    BinderKind kind;
    const Expr *owner;
    uint32_t index; /* of the parameter, of the clause */
} Binder;

void why_init(Why *w, Ctx *cx, const Module *m, const Module *env)
{
    *w = (Why){.cx = cx, .m = m, .env = env};
    arena_init(&w->arena, &cx->limits);
    diags_init(&w->silent, &cx->limits);
}

void why_deinit(Why *w)
{
    diags_deinit(&w->silent);
    ptrmap_deinit(&w->binders);
    ptrmap_deinit(&w->roots);
    ptrmap_deinit(&w->asked);
    arena_deinit(&w->arena);
}

/* ---- what is bound ----------------------------------------------------------------------------------------------------------------- */

static void bind(Why *w, const Var *v, BinderKind kind, const Expr *owner, uint32_t index)
{
    Binder *b = arena_new(&w->arena, Binder);
    *b = (Binder){kind, owner, index};
    ptrmap_put(&w->binders, v, b);
}

typedef struct PatternBind {
    Why *w;
    const Expr *owner;
    uint32_t index;
} PatternBind;

static void bind_pattern_var(void *data, Var *v)
{
    PatternBind *p = data;
    bind(p->w, v, BINDER_PATTERN, p->owner, p->index);
}

static WalkNext add_node(void *data, const Expr *e)
{
    Why *w = data;
    const Let *let = expr_as_let(e);
    const Function *fn = expr_as_function(e);
    const Match *match = expr_as_match(e);
    if (expr_as_call(e))
        vec_push(&w->calls, &w->arena, expr_as_call(e));
    if (let && let->var->annotation && expr_as_var(let->value))
        vec_push(&w->aliases, &w->arena, let);
    if (let)
        bind(w, let->var, BINDER_LET, e, 0);
    for (uint32_t i = 0; fn && i < fn->params.n; i++)
        bind(w, fn->params.at[i], BINDER_PARAM, e, i);
    for (uint32_t i = 0; match && i < match->clauses.n; i++) {
        PatternBind p = {w, e, i};
        pattern_vars(match->clauses.at[i].pattern, bind_pattern_var, &p);
    }
    return WALK_ON;
}

void why_add(Why *w, const Expr *root)
{
    if (!root || ptrmap_has(&w->roots, root))
        return;
    ptrmap_put(&w->roots, root, (void *)(uintptr_t)root);
    ir_walk(root, add_node, NULL, w);
}

/* ---- parts -------------------------------------------------------------------------------------------------------------------------- */

const Type *part_type(const Type *t, const Part *part)
{
    t = type_find(t);
    for (uint32_t i = 0; i < part->n; i++) {
        uint32_t at = part->path[i];
        bool inner = t->kind == TYPE_TUPLE || t->kind == TYPE_REF || t->kind == TYPE_ADT ||
                     t->kind == TYPE_FUNC;
        if (!inner || at > t->n || (at == t->n && t->kind != TYPE_FUNC))
            return NULL;
        t = type_find(at == t->n ? t->result : t->parts[at]);
    }
    if (part->kind == PART_DIM && (t->kind != TYPE_TENSOR || part->dim >= t->n))
        return NULL;
    return t;
}

bool part_inside(Part *part, uint32_t i)
{
    if (part->n == PART_PATH)
        return false;
    memmove(part->path + 1, part->path, part->n * sizeof *part->path);
    part->path[0] = i;
    part->n++;
    return true;
}

/* The part seen from inside the outermost type. */
static Part part_rest(Part part)
{
    part.n--;
    memmove(part.path, part.path + 1, part.n * sizeof *part.path);
    return part;
}

/* Whether a written type says what the part is. */
static bool part_written(const Type *t, const Part *part)
{
    t = t ? part_type(t, part) : NULL;
    if (!t || t->kind == TYPE_HOLE || t->kind == TYPE_POISON)
        return false;
    return part->kind != PART_DIM || t->dims[part->dim] != DIM_ANY;
}

static bool part_equal(const Part *a, const Part *b)
{
    return a->kind == b->kind && (a->kind != PART_DIM || a->dim == b->dim) && a->n == b->n &&
           !memcmp(a->path, b->path, a->n * sizeof *a->path);
}

/* ---- following a question ------------------------------------------------------------------------------------------------------------ */

static void ask(Why *w, uint32_t from, const Expr *e, Part part)
{
    if (w->steps.n >= STEPS_MOST)
        return;
    uint32_t newest = (uint32_t)(uintptr_t)ptrmap_find(&w->asked, e);
    for (uint32_t i = newest; i; i = w->steps.at[i - 1].older)
        if (part_equal(&w->steps.at[i - 1].part, &part))
            return;
    vec_push(&w->steps, &w->arena, ((WhyStep){e, part, from, newest}));
    ptrmap_put(&w->asked, e, (void *)(uintptr_t)w->steps.n);
}

/* The calls between the question and this step. */
static void add_through(Why *w, WhySource *s, uint32_t step)
{
    Vec(const Expr *) calls = {0};
    for (uint32_t i = step;; i = w->steps.at[i].from) {
        if (expr_as_call(w->steps.at[i].e))
            vec_push(&calls, &w->arena, w->steps.at[i].e);
        if (w->steps.at[i].from == i)
            break;
    }
    for (size_t i = 0; i < calls.n / 2; i++) {
        const Expr *e = calls.at[i];
        calls.at[i] = calls.at[calls.n - 1 - i];
        calls.at[calls.n - 1 - i] = e;
    }
    s->through = calls.at;
    s->n_through = (uint32_t)calls.n;
}

static void answer(Why *w, uint32_t step, WhySource s)
{
    for (size_t i = 0; i < w->n_out; i++)
        if (w->out[i].span.from == s.span.from && w->out[i].span.source == s.span.source &&
            !strcmp(w->out[i].text, s.text))
            return;
    if (w->n_out == w->most)
        return;
    add_through(w, &s, step);
    w->out[w->n_out++] = s;
}

__attribute__((format(printf, 4, 5))) static void answer_text(Why *w, uint32_t step, Span span,
                                                              const char *format, ...)
{
    va_list args;
    va_start(args, format);
    answer(w, step, (WhySource){.span = span, .text = buf_vkeep(&w->arena, format, args)});
    va_end(args);
}

static void ask_part_of(Why *w, uint32_t step, const Expr *e, Part part, uint32_t i)
{
    if (part_inside(&part, i))
        ask(w, step, e, part);
    else
        answer_text(w, step, e->span, "this decides it");
}

/* ---- calls ---------------------------------------------------------------------------------------------------------------------------- */

/* The causes of a part of the trial's target. */
static void follow_trial(Why *w, uint32_t step, Trial *t, const Part *part)
{
    Given causes[8];
    size_t n = trial_causes(t, part, causes, 8);
    for (size_t i = 0; i < n; i++) {
        if (causes[i].attr >= 0)
            answer(w, step, trial_attr_source(t, causes[i].attr));
        else
            ask(w, step, t->call->args.at[causes[i].arg], causes[i].part);
    }
    if (n == 0)
        answer_text(w, step, t->call->base.span, "`%s` makes it so", t->op->name);
}

/* Types that share parts can be exponentially larger than what is stored. */
#define FIND_MOST 10000

/* Where in t the type variable stands: the path to it, as the part that is asked for inside it. */
static bool find_var(const Type *t, const TypeVar *v, Part *part, uint32_t *work)
{
    t = type_find(t);
    if (++*work > FIND_MOST)
        return false;
    if (t->kind == TYPE_VAR)
        return t->var == v;
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_HOLE || t->kind == TYPE_POISON)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (find_var(t->parts[i], v, part, work))
            return part_inside(part, i);
    return t->kind == TYPE_FUNC && find_var(t->result, v, part, work) && part_inside(part, t->n);
}

/* The type variable that the part leads into; `rest` is the part inside it. */
static const TypeVar *var_on_path(const Type *t, Part part, Part *rest)
{
    for (;;) {
        t = type_find(t);
        if (t->kind == TYPE_VAR) {
            *rest = part;
            return t->var;
        }
        if (part.n == 0)
            return NULL;
        Part first = {.kind = PART_WHOLE, .n = 1, .path = {part.path[0]}};
        t = part_type(t, &first);
        if (!t)
            return NULL;
        part = part_rest(part);
    }
}

/* The first of the n arguments whose parameter mentions the type variable, and where in it: that is what it stands for. NULL: none. */
static const Expr *argument_with(const Call *call, const Type *const *params, uint32_t n,
                                 const TypeVar *v, const Part *rest, Part *out)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t work = 0;
        *out = *rest;
        if (find_var(params[i], v, out, &work) && call->args.at[i]->type &&
            part_type(call->args.at[i]->type, out))
            return call->args.at[i];
    }
    return NULL;
}

/* A part of the result that is what a type variable stands for comes from the arguments whose parameters mention it. */
static bool ask_arguments(Why *w, uint32_t step, const Call *call, const Type *const *params,
                          const TypeVar *v, const Part *rest)
{
    Part part;
    const Expr *arg = argument_with(call, params, call->args.n, v, rest, &part);
    if (arg)
        ask(w, step, arg, part);
    return arg != NULL;
}

size_t why_parameter(Why *w, const Call *call, uint32_t i, Part part, WhySource *out, size_t most)
{
    const Type *f = call->callee->type ? type_find(call->callee->type) : NULL;
    bool known = f && f->kind == TYPE_FUNC && f->n == call->args.n;
    Part rest, inside;
    const TypeVar *v = known ? var_on_path(f->parts[i], part, &rest) : NULL;
    bool own = false;
    for (uint32_t k = 0; v && k < f->n_params; k++)
        own = own || f->params[k] == v;
    const Expr *arg = own ? argument_with(call, f->parts, i, v, &rest, &inside) : NULL;
    if (arg)
        return why_part(w, arg, inside, out, most);
    return part_inside(&part, i) ? why_part(w, call->callee, part, out, most) : 0;
}

static void follow_constructor(Why *w, uint32_t step, const Call *call, const Constructor *con,
                               Part part)
{
    const TypeDef *def = con->type;
    bool inside = part.n && part.path[0] < def->n_params && call->args.n == con->n;
    Part rest = inside ? part_rest(part) : part;
    if (inside && ask_arguments(w, step, call, con->fields, def->params[part.path[0]], &rest))
        return;
    answer_text(w, step, call->base.span, "`%s` makes a `%s`", con->name->text, def->name->text);
}

static void follow_call(Why *w, uint32_t step, const Call *call, Part part)
{
    const Op *op = expr_call_of_op(&call->base);
    const Constructor *con = expr_call_of_con(&call->base);
    if (op) {
        Trial t = trial_of(w, call, -1);
        follow_trial(w, step, &t, &part);
        return;
    }
    if (con) {
        follow_constructor(w, step, call, con, part);
        return;
    }
    const Type *f = call->callee->type ? type_find(call->callee->type) : NULL;
    Part rest;
    const TypeVar *v = f && f->kind == TYPE_FUNC && f->n == call->args.n
                           ? var_on_path(f->result, part, &rest)
                           : NULL;
    if (v && ask_arguments(w, step, call, f->parts, v, &rest))
        return;
    ask_part_of(w, step, call->callee, part, call->args.n);
}

/* ---- variables ------------------------------------------------------------------------------------------------------------------------ */

Span function_head_span(Ctx *cx, const Function *fn)
{
    Span head = fn->base.span, body = fn->body->span;
    const Source *source = sources_get(&cx->sources, head.source);
    if (!source || body.source != head.source || body.from <= head.from || body.from > source->len)
        return head;
    const char *from = source->text + head.from, *to = source->text + body.from;
    const char *line = memchr(from, '\n', (size_t)(to - from));
    to = line ? line : to;
    while (to > from + 1 && strchr(" \t\r\n{(", to[-1]))
        to--;
    head.to = head.from + (uint32_t)(to - from);
    return head;
}

static const Function *function_behind(Why *w, const Expr *callee)
{
    const Binder *b = ptrmap_find(&w->binders, callee);
    if (b && b->kind == BINDER_LET)
        callee = expr_as_let(b->owner)->value;
    return expr_as_function(callee);
}

static bool is_callee(Why *w, const Call *call, const Expr *fn)
{
    const Function *callee = function_behind(w, call->callee);
    return callee && &callee->base == fn;
}

/* A call of the parameter's function that gives the part. */
static bool ask_callers(Why *w, uint32_t step, const Binder *b, const Part *part)
{
    for (size_t i = 0; i < w->calls.n; i++) {
        const Call *call = w->calls.at[i];
        if (!is_callee(w, call, b->owner) || b->index >= call->args.n)
            continue;
        const Type *t = call->args.at[b->index]->type;
        if (!t || !part_written(t, part))
            continue;
        ask(w, step, call->args.at[b->index], *part);
        return true;
    }
    return false;
}

/* A use of the variable as an argument whose type follows from the rest of the call. */
static bool ask_use(Why *w, uint32_t step, const Var *v, const Call *call, uint32_t i,
                    const Part *part)
{
    if (call->args.at[i] != &v->base)
        return false;
    if (expr_call_of_op(&call->base)) {
        Trial t = trial_of(w, call, (int)i);
        if (trial_run(&t) != TRIAL_DONE || !part_type(t.got, part))
            return false;
        ask(w, step, &call->base, (Part){.kind = PART_WHOLE, .n = 0});
        follow_trial(w, (uint32_t)w->steps.n - 1, &t, part);
        return true;
    }
    const Type *f = call->callee->type ? type_find(call->callee->type) : NULL;
    Part there = *part;
    if (!f || f->kind != TYPE_FUNC || !part_inside(&there, i) || !part_written(f, &there))
        return false;
    ask(w, step, call->callee, there);
    return true;
}

static void follow_param(Why *w, uint32_t step, const Var *v, const Binder *b, const Part *part)
{
    if (ask_callers(w, step, b, part))
        return;
    for (size_t i = 0; i < w->calls.n; i++)
        for (uint32_t k = 0; k < w->calls.at[i]->args.n; k++)
            if (ask_use(w, step, v, w->calls.at[i], k, part))
                return;
    for (size_t i = 0; i < w->aliases.n; i++)
        if (w->aliases.at[i]->value == &v->base &&
            part_written(w->aliases.at[i]->var->annotation, part)) {
            ask(w, step, &w->aliases.at[i]->var->base, *part);
            return;
        }
    const Function *fn = expr_as_function(b->owner);
    Part result = *part;
    if (fn->body == &v->base && part_written(fn->ret_type, part) &&
        part_inside(&result, fn->params.n)) {
        ask(w, step, &fn->base, result);
        return;
    }
    answer_text(w, step, v->base.span, "the uses of `%%%s` decide", v->name->text);
}

/* The path in a pattern to a variable, while the types on it come from what is matched; `fixed` is the pattern that a constructor's
 * declaration decides for. */
static bool find_in_pattern(const Pattern *p, const Var *v, Part *part, const Pattern **fixed)
{
    if (p->kind == PATTERN_VAR)
        return p->var == v;
    for (uint32_t i = 0; i < p->n; i++) {
        if (!find_in_pattern(p->fields[i], v, part, fixed))
            continue;
        if (*fixed || p->kind == PATTERN_TUPLE)
            return *fixed || part_inside(part, i);
        if (i >= p->con->n) /* the pattern has a field too many, and that is reported */
            return false;
        Part rest;
        const TypeVar *var = var_on_path(p->con->fields[i], *part, &rest);
        for (uint32_t k = 0; var && k < p->con->type->n_params; k++)
            if (p->con->type->params[k] == var) {
                *part = rest;
                return part_inside(part, k);
            }
        *fixed = p;
        return true;
    }
    return false;
}

static void follow_pattern(Why *w, uint32_t step, const Var *v, const Binder *b, Part part)
{
    const Match *match = expr_as_match(b->owner);
    const Pattern *fixed = NULL;
    bool found = find_in_pattern(match->clauses.at[b->index].pattern, v, &part, &fixed);
    if (found && !fixed)
        ask(w, step, match->scrutinee, part);
    else if (fixed)
        answer_text(w, step, fixed->con->span, "`%s` is declared so", fixed->con->name->text);
    else
        answer_text(w, step, v->base.span, "the pattern decides");
}

/* A `?` that is written, unless it became known all the same. */
static bool is_declared_open(const Type *written, const Type *now, const Part *part)
{
    written = written && part->kind == PART_DIM ? part_type(written, part) : NULL;
    now = written && now ? part_type(now, part) : NULL;
    return now && written->dims[part->dim] == DIM_ANY && now->dims[part->dim] < 0;
}

static void follow_var(Why *w, uint32_t step, const Var *v, const Part *part)
{
    const Binder *b = ptrmap_find(&w->binders, v);
    bool is_param = b && b->kind == BINDER_PARAM;
    if (part_written(v->annotation, part) ||
        (is_param && is_declared_open(v->annotation, v->base.type, part))) {
        answer_text(w, step, v->base.span, "`%%%s` is declared so", v->name->text);
        return;
    }
    if (!b) {
        answer_text(w, step, v->base.span, "`%%%s` is given so", v->name->text);
        return;
    }
    switch (b->kind) {
    case BINDER_LET: ask(w, step, expr_as_let(b->owner)->value, *part); return;
    case BINDER_PARAM: follow_param(w, step, v, b, part); return;
    case BINDER_PATTERN: follow_pattern(w, step, v, b, *part); return;
    }
}

/* ---- the other forms ----------------------------------------------------------------------------------------------------------------- */

static void follow_function(Why *w, uint32_t step, const Function *fn, Part part)
{
    if (part.n == 0) {
        answer_text(w, step, fn->base.span, "this is a function");
        return;
    }
    uint32_t at = part.path[0];
    part = part_rest(part);
    if (at < fn->params.n)
        ask(w, step, &fn->params.at[at]->base, part);
    else if (part_written(fn->ret_type, &part))
        answer_text(w, step, function_head_span(w->cx, fn),
                    "the function is declared to return it");
    else
        ask(w, step, fn->body, part);
}

static void follow_global(Why *w, uint32_t step, const GlobalVar *g, Part part)
{
    const Def *def = module_find(w->m, g->name);
    if (!def)
        def = module_find(w->env, g->name);
    if (!def || !def->fn)
        return;
    why_add(w, &def->fn->base);
    bool result = part.n && part.path[0] == def->fn->params.n;
    Part inner = result ? part_rest(part) : part;
    if (result && part_written(def->fn->ret_type, &inner))
        answer_text(w, step, def->span, "`@%s` is declared to return it", g->name->text);
    else
        ask(w, step, &def->fn->base, part);
}

/* Of branches, each that has the part as it came out; what is known of one alone comes from it. */
static void ask_branch(Why *w, uint32_t step, const Expr *branch, const Part *part, bool *any)
{
    const Type *whole = w->steps.at[step].e->type, *mine = branch->type;
    whole = whole ? part_type(whole, part) : NULL;
    mine = mine ? part_type(mine, part) : NULL;
    bool same = whole && mine &&
                (part->kind != PART_DIM || whole->dims[part->dim] == mine->dims[part->dim]);
    if (*any && !same)
        return;
    *any = true;
    ask(w, step, branch, *part);
}

static void follow(Why *w, uint32_t step)
{
    const Expr *e = w->steps.at[step].e;
    Part part = w->steps.at[step].part;
    bool any = false;
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: answer_text(w, step, e->span, "the literal is written so"); return;
    case EXPR_VAR: follow_var(w, step, expr_as_var(e), &part); return;
    case EXPR_GLOBAL: follow_global(w, step, expr_as_global(e), part); return;
    case EXPR_CALL:
        if (part.kind != PART_WHOLE)
            follow_call(w, step, expr_as_call(e), part);
        return;
    case EXPR_FUNCTION: follow_function(w, step, expr_as_function(e), part); return;
    case EXPR_LET: ask(w, step, expr_as_let(e)->body, part); return;
    case EXPR_IF:
        ask_branch(w, step, expr_as_if(e)->then, &part, &any);
        ask_branch(w, step, expr_as_if(e)->otherwise, &part, &any);
        return;
    case EXPR_MATCH:
        for (uint32_t i = 0; i < expr_as_match(e)->clauses.n; i++)
            ask_branch(w, step, expr_as_match(e)->clauses.at[i].body, &part, &any);
        return;
    case EXPR_TUPLE:
        if (part.n && part.path[0] < expr_as_tuple(e)->fields.n)
            ask(w, step, expr_as_tuple(e)->fields.at[part.path[0]], part_rest(part));
        else
            answer_text(w, step, e->span, "this is a tuple");
        return;
    case EXPR_TUPLE_GET:
        ask_part_of(w, step, expr_as_tuple_get(e)->tuple, part,
                    (uint32_t)expr_as_tuple_get(e)->index);
        return;
    case EXPR_REF_NEW:
        if (part.n)
            ask(w, step, expr_as_ref_new(e)->value, part_rest(part));
        else
            answer_text(w, step, e->span, "this is a reference");
        return;
    case EXPR_REF_READ: ask_part_of(w, step, expr_as_ref_read(e)->ref, part, 0); return;
    case EXPR_REF_WRITE:
    case EXPR_OP:
    case EXPR_CON: answer_text(w, step, e->span, "this makes it so"); return;
    case EXPR_KINDS: return;
    }
}

size_t why_part(Why *w, const Expr *e, Part part, WhySource *out, size_t most)
{
    w->steps.n = 0;
    ptrmap_clear(&w->asked);
    w->out = out;
    w->n_out = 0;
    w->most = most;
    ask(w, 0, e, part);
    for (uint32_t i = 0; i < w->steps.n && w->n_out < most && !limit_hit(&w->cx->limits); i++)
        follow(w, i);
    return w->n_out;
}

/* ---- in words -------------------------------------------------------------------------------------------------------------------------- */

void why_print_place(Buf *b, Ctx *cx, Span at, Span near)
{
    const Source *source = sources_get(&cx->sources, at.source);
    if (!source)
        return;
    buf_str(b, " (");
    if (at.source != near.source)
        buf_printf(b, "%s, ", source->name);
    buf_printf(b, "line %u)", (unsigned)span_start(&cx->sources, at).line);
}

void why_print_sources(Buf *b, Ctx *cx, const WhySource *sources, size_t n, Span near)
{
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, "%s%s", i ? " and " : "", sources[i].text);
        why_print_place(b, cx, sources[i].span, near);
    }
}

static size_t dim_width(Dim d)
{
    Buf b = {0};
    if (d >= 0)
        buf_int(&b, d);
    size_t n = d >= 0 ? b.n : 1;
    buf_deinit(&b);
    return n;
}

/* One row: extents right-aligned in columns that both shapes share, the last axes above each other. `row` gets the marks. */
static void draw_shape(Buf *b, const Type *t, uint32_t marked, uint32_t rank, const size_t *widths,
                       Buf *row)
{
    size_t start = b->n;
    uint32_t missing = rank - t->n;
    buf_str(b, "Tensor[(");
    for (uint32_t k = 0; k < rank; k++) {
        if (k < missing) {
            buf_repeat(b, ' ', widths[k] + 2);
            continue;
        }
        Dim extent = t->dims[k - missing];
        buf_str(b, k > missing ? ", " : "");
        if (marked >> (k - missing) & 1) {
            buf_repeat(row, ' ', b->n - start - row->n);
            buf_repeat(row, '^', widths[k]);
        }
        buf_repeat(b, ' ', widths[k] - dim_width(extent));
        if (extent >= 0)
            buf_int(b, extent);
        else
            buf_char(b, '?');
    }
    buf_str(b, "), ");
    dtype_print(b, t->dtype);
    buf_char(b, ']');
}

void why_draw_shapes(Buf *b, const Type *p, uint32_t p_axes, const Type *q, uint32_t q_axes)
{
    uint32_t rank = p->n > q->n ? p->n : q->n;
    size_t widths[TENSOR_RANK_MOST];
    for (uint32_t k = 0; k < rank; k++) {
        size_t a = k + p->n < rank ? 0 : dim_width(p->dims[k + p->n - rank]);
        size_t c = k + q->n < rank ? 0 : dim_width(q->dims[k + q->n - rank]);
        widths[k] = a > c ? a : c;
    }
    Buf up = {0}, down = {0};
    draw_shape(b, p, p_axes, rank, widths, &up);
    size_t at = b->n;
    buf_char(b, '\n');
    draw_shape(b, q, q_axes, rank, widths, &down);
    /* Axes that face each other are marked once. */
    if (strcmp(buf_text(&up), buf_text(&down)) != 0) {
        Buf second = {0};
        buf_str(&second, b->at + at);
        b->n = at;
        buf_printf(b, "\n%s%s", buf_text(&up), buf_text(&second));
        buf_deinit(&second);
    }
    buf_printf(b, "\n%s", buf_text(&down));
    buf_deinit(&up);
    buf_deinit(&down);
}
