#include "passes/each.h"

#include "ir/walk.h"
#include "stdlib/ops/ops.h"

#include <math.h>
#include <string.h>

static const DType number = {DTYPE_CODE_FLOAT, 32, 1};

/* Data types in each other are looked into as deep as anybody writes them. */
enum { DEPTH_MOST = 20 };

typedef struct Each Each;
struct Each {
    EachCall *call;
    Ctx *cx;
    LetMaker *make;
    /* What takes the place of tensors of one type; NULL after a diagnostic. */
    Expr *(*leaf)(Each *e, Lets *l, const Type *t, Expr *const *in);
    uint32_t n; /* values that are gone through together */
    Expr *state; /* what goes from tensor to tensor, and its type; NULL: nothing does */
    const Type *state_type;
    bool only_state; /* is asked for */
    /* the data types around the one at hand: the function over each, and whether it was called */
    struct {
        const Type *type;
        Var *self;
        bool called;
    } around[DEPTH_MOST];
    int depth;
    const Function *f; /* of numbers */
};

static Expr *over(Each *e, Lets *l, const Type *t, Expr *const *in);

static Diag *refuse(const Each *e, Span at, const char *what)
{
    const Call *form = e->call->form;
    Diag *d =
        diag_error(e->cx->diags, E0216_OPERATOR_ARGUMENT, span_is_none(at) ? form->base.span : at,
                   "`%s` %s", expr_as_op(form->callee)->op->name, what);
    if (!span_is_none(at) && at.from != form->base.span.from)
        diag_label(d, form->base.span, "asked for here");
    return d;
}

/* ---- data ------------------------------------------------------------------------------------------------------------------------- */

static const Type *field_type(const Each *e, const Type *t, const Type *field)
{
    return type_subst(e->cx, field, t->n, t->def->params, t->parts);
}

static Expr *tuple_of(const Each *e, uint32_t n, Expr *const *fields)
{
    return n == 1 ? fields[0] : expr_tuple(e->make->arena, e->make->span, n, fields);
}

/* C(%a…), C(%b…) => C(…), and the state behind it. */
static bool clause_of(Each *e, const Type *t, const Constructor *con, Clause *out)
{
    Lets l = {.make = e->make};
    Pattern **patterns = arena_alloc_must(e->make->scratch, e->n, sizeof(Pattern *));
    Var **vars = arena_alloc_must(e->make->scratch, e->n * con->n + 1, sizeof *vars);
    Expr **fields = arena_alloc_must(e->make->scratch, con->n + 1, sizeof *fields);
    Expr **in = arena_alloc_must(e->make->scratch, e->n, sizeof *in);
    for (uint32_t k = 0; k < e->n; k++)
        patterns[k] = lets_pattern(e->make, con, vars + k * con->n);
    for (uint32_t i = 0; i < con->n; i++) {
        for (uint32_t k = 0; k < e->n; k++)
            in[k] = &vars[k * con->n + i]->base;
        if (!(fields[i] = over(e, &l, field_type(e, t, con->fields[i]), in)))
            return false;
    }
    Expr *both[2] = {lets_construct(e->make, con, fields), e->state};
    Span at = e->make->span;
    Pattern *pattern = e->n == 1 ? patterns[0] : pattern_tuple(e->make->arena, at, e->n, patterns);
    *out = (Clause){pattern, lets_close(&l, tuple_of(e, e->state ? 2 : 1, both)), at};
    return true;
}

/* match ((%a, %b)) { (C(…), C(…)) => C(…), … } */
static Expr *match_of(Each *e, const Type *t, Expr *const *in)
{
    uint32_t n = t->def->n_cons;
    Clause *clauses = arena_alloc_must(e->make->scratch, n + 1, sizeof *clauses);
    Expr *state = e->state;
    for (uint32_t i = 0; i < n; i++) {
        e->state = state;
        if (!clause_of(e, t, t->def->cons[i], &clauses[i]))
            return NULL;
    }
    return expr_match(e->make->arena, e->make->span, tuple_of(e, e->n, in), n, clauses,
                      e->n < 2 || n < 2);
}

/* The value and the state of what gives both. */
static Expr *taken(Each *e, Lets *l, Expr *made)
{
    Expr *all = lets_push(l, made);
    if (!e->state)
        return all;
    e->state = expr_tuple_get(e->make->arena, e->make->span, all, 1);
    return expr_tuple_get(e->make->arena, e->make->span, all, 0);
}

static Expr *called(Each *e, Var *self, Expr *const *in)
{
    Expr **args = arena_alloc_must(e->make->scratch, e->n + 1, sizeof *args);
    memcpy(args, in, e->n * sizeof *args);
    args[e->n] = e->state;
    return expr_call(e->make->arena, e->make->span, &self->base, e->n + (e->state ? 1 : 0), args,
                     NULL);
}

static Expr *over_data(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    for (int i = 0; i < e->depth; i++)
        if (e->around[i].type == t) {
            e->around[i].called = true;
            return taken(e, l, called(e, e->around[i].self, in));
        }
    if (e->depth == DEPTH_MOST) {
        refuse(e, e->call->form->base.span, "finds data in data without end");
        return NULL;
    }
    int at = e->depth++;
    Var *self = lets_var(e->make);
    e->around[at].type = t;
    e->around[at].self = self;
    e->around[at].called = false;
    Expr *state = e->state;
    Var **params = arena_alloc_must(e->make->scratch, e->n + 1, sizeof *params);
    Expr **inside = arena_alloc_must(e->make->scratch, e->n + 1, sizeof *inside);
    for (uint32_t k = 0; k <= e->n; k++) {
        params[k] = lets_var(e->make);
        params[k]->annotation = k < e->n ? t : e->state_type;
        inside[k] = &params[k]->base;
    }
    e->state = state ? inside[e->n] : NULL;
    Expr *body = match_of(e, t, inside);
    e->state = state;
    e->depth--;
    if (!body)
        return NULL;
    uint32_t n = e->n + (state ? 1 : 0);
    if (!e->around[at].called) {
        for (uint32_t k = 0; k < n; k++)
            lets_bind(l, params[k], k < e->n ? in[k] : state);
        return taken(e, l, body);
    }
    const Type *both[2] = {t, e->state_type};
    const Type *result = state ? type_tuple(e->cx, 2, both) : t;
    Function *f = expr_function(e->make->arena, e->make->span, (TypeVarList){0}, n, params, NULL,
                                result, body);
    lets_bind(l, self, &f->base);
    return taken(e, l, called(e, self, in));
}

static Expr *over_tuple(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    Expr **fields = arena_alloc_must(e->make->scratch, t->n + 1, sizeof *fields);
    Expr **parts = arena_alloc_must(e->make->scratch, e->n, sizeof *parts);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t k = 0; k < e->n; k++)
            parts[k] = expr_tuple_get(e->make->arena, e->make->span, in[k], i);
        if (!(fields[i] = over(e, l, t->parts[i], parts)))
            return NULL;
    }
    return expr_tuple(e->make->arena, e->make->span, t->n, fields);
}

/* Types share parts, and what is made of them does not: it may be too much. */
static Expr *over(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    if (limit_hit(&e->cx->limits))
        return NULL;
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR: return dtype_is_float(t->dtype) ? e->leaf(e, l, t, in) : in[0];
    case TYPE_TUPLE: return over_tuple(e, l, t, in);
    case TYPE_ADT: return t->def->is_extern ? in[0] : over_data(e, l, t, in);
    case TYPE_FUNC:
    case TYPE_REF:
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return in[0];
}

static Expr *over_all(Each *e, Expr *const *values)
{
    Lets l = {.make = e->make};
    const Call *form = e->call->form;
    const Type *t = type_resolve(e->cx, form->args.at[1]->type);
    t = e->f ? t->parts[0] : t;
    Expr **in = arena_alloc_must(e->make->scratch, e->n, sizeof *in);
    for (uint32_t k = 0; k < e->n; k++)
        in[k] = lets_push(&l, values[k]);
    Expr *made = over(e, &l, t, in);
    return made ? lets_close(&l, e->only_state ? e->state : made) : NULL;
}

/* ---- a function of numbers ----------------------------------------------------------------------------------------------------------- */

typedef struct Check {
    Each *e;
    bool ok;
} Check;

/* What works element by element works on all of them. */
static WalkNext check_node(void *data, const Expr *at)
{
    Check *c = data;
    const Op *op = expr_call_of_op(at);
    const Type *t = at->type ? type_find(at->type) : NULL;
    bool scalar = t && t->kind == TYPE_TENSOR && t->n == 0;
    bool ok = false;
    switch ((ExprKind)at->kind) {
    case EXPR_CALL: ok = op && op->pattern <= OP_BROADCAST && !(op->flags & OP_FORM); break;
    case EXPR_VAR:
    case EXPR_CONSTANT: ok = scalar; break;
    case EXPR_OP:
    case EXPR_LET: ok = true; break;
    default: break;
    }
    ok |= at == &c->e->f->base;
    if (c->ok && !ok) {
        Diag *d = refuse(c->e, at->span,
                         "takes a function of numbers whose operators work element by element");
        diag_help(d, "`where(%%x > 0f, %%a, %%b)` chooses between numbers");
    }
    c->ok = c->ok && ok;
    return c->ok ? WALK_ON : WALK_STOP;
}

static bool is_of_numbers(Each *e)
{
    Check c = {e, true};
    ir_walk(&e->f->base, check_node, NULL, &c);
    return c.ok;
}

typedef struct Put {
    Each *e;
    DType dtype;
} Put;

static void put_binder(void *data, Var *v)
{
    Rewriter *rw = data;
    rewriter_put(rw, v, expr_var(&rw->module->arena, v->base.span, v->name, NULL));
}

static bool put_enter(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)now;
    ir_binders(old, put_binder, rw);
    return false;
}

/* Numbers that are given from outside are of the tensor's type. */
static Expr *put_number(Rewriter *rw, const Expr *old, Expr *now)
{
    const Put *p = rw->data;
    bool own = old->kind == EXPR_VAR && rewriter_now(rw, old) && now != old;
    bool given = old->kind == EXPR_CONSTANT || (old->kind == EXPR_VAR && !own);
    OpsMake m = {rw->cx, &rw->module->arena, old->span};
    if (!given || dtype_eq(p->dtype, number) || !type_is_scalar(type_find(old->type), number))
        return now;
    return ops_cast(&m, now, p->dtype);
}

/* The function of the numbers of tensors, as large as they are. */
static Expr *of_numbers(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    Put put = {e, t->dtype};
    Rewriter rw;
    rewriter_init(&rw, e->cx, e->call->module, put_number, &put);
    rw.enter = put_enter;
    rw.copying = true;
    for (uint32_t k = 0; k < e->n; k++)
        rewriter_put(&rw, e->f->params.at[k], in[k]);
    Expr *body = ir_rewrite(&rw, e->f->body);
    rewriter_deinit(&rw);
    OpsMake m = {e->cx, e->make->arena, e->make->span};
    /* A function that does not use its number gives one for all. */
    Expr *whole = body ? ops_call2(&m, "broadcast_to_like", lets_push(l, body), in[0]) : NULL;
    return whole ? lets_push(l, whole) : NULL;
}

/* Their sum is added to the state. */
static Expr *leaf_total(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    OpsMake m = {e->cx, e->make->arena, e->make->span};
    Expr *all = of_numbers(e, l, t, in);
    Expr *sum = all ? ops_call1(&m, "sum", all) : NULL;
    if (sum && !dtype_eq(t->dtype, number))
        sum = ops_cast(&m, sum, number);
    Expr *state = sum ? ops_call2(&m, "add", e->state, sum) : NULL;
    e->state = state ? lets_push(l, state) : NULL;
    return state ? in[0] : NULL;
}

/* With what the function takes bound in front. */
static Expr *of_function(Each *e)
{
    const EachCall *call = e->call;
    e->n = e->f->params.n;
    if (!is_of_numbers(e))
        return NULL;
    Lets l = {.make = e->make};
    const Tuple *known = expr_as_tuple(call->args[1]);
    Expr *all = known ? NULL : lets_push(&l, call->args[1]);
    Expr **values = arena_alloc_must(e->make->scratch, e->n, sizeof *values);
    for (uint32_t k = 0; k < e->n; k++)
        values[k] =
            known ? known->fields.at[k] : expr_tuple_get(e->make->arena, e->make->span, all, k);
    Expr *made = over_all(e, values);
    return made ? lets_close(&l, made) : NULL;
}

Expr *each_of_function(EachCall *call, const Function *f)
{
    Each e = {.call = call, .cx = call->make.cx, .make = &call->make, .leaf = of_numbers, .f = f};
    return of_function(&e);
}

Expr *each_total(EachCall *call, const Function *f)
{
    Each e = {.call = call, .cx = call->make.cx, .make = &call->make, .leaf = leaf_total, .f = f};
    OpsMake m = {e.cx, e.make->arena, e.make->span};
    e.state_type = type_scalar(e.cx, number);
    e.state = ops_constant(&m, number, 0);
    e.only_state = true;
    return of_function(&e);
}

/* ---- random numbers ----------------------------------------------------------------------------------------------------------------------- */

/* How far the numbers of a layer spread: of K. He and others 2015, X. Glorot and Y. Bengio 2010, Y. LeCun and others 1998. */
static const struct {
    const char *name;
    double over; /* the variance is this by the numbers that go in, */
    bool out; /* or by those and the ones that come out */
} schemes[] = {{"he", 2, false}, {"xavier", 2, true}, {"lecun", 1, false}};

static Expr *leaf_initial(Each *e, Lets *l, const Type *t, Expr *const *in)
{
    Str scheme = attrs_string(e->call->form->attrs, "scheme");
    double variance = 0, into = 1, out = 1;
    if (t->n < 2)
        return in[0];
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->dims[i] < 0) {
            Diag *d = refuse(e, e->call->form->base.span, "draws tensors of known extents");
            diag_label(d, e->call->form->args.at[1]->span, "this holds a `%s`", type_str(e->cx, t));
            return NULL;
        }
        into *= i ? (double)t->dims[i] : 1;
        out *= i == 1 ? 1 : (double)t->dims[i];
    }
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (str_is(scheme, schemes[i].name))
            variance = schemes[i].over / fmax(1, schemes[i].out ? into + out : into);
    if (variance == 0) {
        diag_help(refuse(e, e->call->form->base.span, "knows no such scheme"),
                  "`he`, `xavier` or `lecun`");
        return NULL;
    }
    OpsMake m = {e->cx, e->make->arena, e->make->span};
    DType drawn = {DTYPE_CODE_FLOAT, t->dtype.bits == 64 ? 64 : 32, 1};
    Attr attrs[2] = {ops_attr_ints(&m, "out_shape", t->n, t->dims),
                     ops_attr_dtype(&m, "out_dtype", drawn)};
    Expr *args[3] = {e->state, ops_constant(&m, drawn, 0), ops_constant(&m, drawn, sqrt(variance))};
    Expr *made = ops_call(&m, "random.normal", 3, args, 2, attrs);
    Expr *all = made ? lets_push(l, made) : NULL;
    if (!all)
        return NULL;
    e->state = expr_tuple_get(e->make->arena, e->make->span, all, 0);
    Expr *value = expr_tuple_get(e->make->arena, e->make->span, all, 1);
    return dtype_eq(drawn, t->dtype) ? value : ops_cast(&m, value, t->dtype);
}

Expr *each_initial(EachCall *call)
{
    Each e = {.call = call, .cx = call->make.cx, .make = &call->make, .leaf = leaf_initial, .n = 1};
    Lets l = {.make = e.make};
    e.state_type = type_find(call->form->args.at[0]->type);
    e.state = lets_push(&l, call->args[0]);
    Expr *made = over_all(&e, &call->args[1]);
    return made ? lets_close(&l, made) : NULL;
}
