/* Calls of recursive functions with arguments that never change.
 *
 *     def @f(%n: int32, %x: …, %w: …) { if (%n == 0) { %x } else { @f(%n - 1, nn.dense(%x, %w), %w) } }     @f(3, %x, const)
 *  => let %f = fn (%n: int32, %x: …) { if (%n == 0) { %x } else { %f(%n - 1, nn.dense(%x, const)) } };      %f(3, %x)
 *
 * so weights are known where they are multiplied with. A loop that counts the rows of a tensor and multiplies each with the same weights
 * multiplies all of them in front of it:
 *
 *     def @f(%i: int32, %h: …, %xs: …, %w: …) { if (%i == 64) { %h } else { … nn.dense(take(%xs, %i, axis=0), %w) … } }
 *  => let %all = reshape(nn.dense(reshape(%xs, …), const), …);  let %f = fn (…) { … take(%all, %i, axis=0) … };  …
 *
 * and so for any row of a known table: what the product is of each is known beforehand. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/op.h"
#include "stdlib/ops/ops.h"

/* Of the products of a table's rows: how many elements there may be, and how many multiplications they may take. */
#define TABLE_ELEMENTS_MOST ((int64_t)1 << 20)
#define TABLE_WORK_MOST ((int64_t)1 << 27)

/* What is known of a definition that calls itself. */
typedef struct Recursive {
    const Def *def;
    bool calls_itself;
    bool *stays; /* by parameter: each call of itself hands it on as it is */
    bool *counts; /* each adds one to it */
} Recursive;

typedef struct Specializer {
    PassRun *run;
    const Def *def; /* that is looked at */
    OpsMake m;
    PtrMap known_of; /* Def -> Recursive: each is read once */
    /* of the call at hand */
    const Recursive *of;
    const Call *call;
    Expr *const *args;
    Var *self;
    const bool *known; /* by parameter: a constant takes its place */
    int counter; /* the parameter; -1: it is no loop that counts */
    int64_t turns;
    Vec(Var *) all; /* products of all turns, and what they are */
    Vec(Expr *) products;
    PtrMap made; /* product of a turn -> Var of all */
} Specializer;

static const Call *call_of(const Specializer *s, const Expr *e, const char *op)
{
    const Op *is = expr_call_of_op(e);
    return is && is == op_find(s->run->cx, str_of(op)) ? expr_as_call(e) : NULL;
}

static bool is_number(const Expr *e, int64_t *out)
{
    const Constant *c = expr_as_constant(e);
    if (!c || c->value.kind != VALUE_SCALAR || c->value.dtype.code != DTYPE_CODE_INT)
        return false;
    *out = value_as_int(c->value);
    return true;
}

static int param_of(const Function *f, const Expr *e)
{
    for (uint32_t i = 0; i < f->params.n; i++)
        if (&f->params.at[i]->base == e)
            return (int)i;
    return -1;
}

/* ---- the function ---------------------------------------------------------------------------------------------------------- */

typedef struct Reading {
    const Specializer *s;
    Recursive *r;
} Reading;

static WalkNext read_call(void *data, const Expr *e)
{
    Reading *read = data;
    Recursive *r = read->r;
    const Call *call = expr_as_call(e);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    int64_t one;
    if (!g || g->name != r->def->name || call->args.n != r->def->fn->params.n)
        return WALK_ON;
    r->calls_itself = true;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Expr *param = &r->def->fn->params.at[i]->base, *arg = call->args.at[i];
        const Call *sum = call_of(read->s, arg, "add");
        r->stays[i] &= arg == param;
        r->counts[i] &=
            sum && sum->args.at[0] == param && is_number(sum->args.at[1], &one) && one == 1;
    }
    return WALK_ON;
}

/* NULL: it is none that may be specialized. */
static const Recursive *recursive_of(Specializer *s, const Def *def)
{
    const Function *f = def->fn;
    Recursive *out = ptrmap_find(&s->known_of, def);
    if (out)
        return out->calls_itself ? out : NULL;
    if (f->type_params.n || !f->base.type || f->base.type->kind != TYPE_FUNC ||
        function_is_skipped(f))
        return NULL;
    out = arena_alloc_must(&s->run->scratch, 1, sizeof *out);
    *out = (Recursive){.def = def};
    ptrmap_put(&s->known_of, def, out);
    out->stays = arena_new_array(&s->run->scratch, bool, f->params.n + 1);
    out->counts = arena_new_array(&s->run->scratch, bool, f->params.n + 1);
    for (uint32_t i = 0; i < f->params.n; i++)
        out->stays[i] = out->counts[i] = true;
    Reading read = {s, out};
    ir_walk(f->body, read_call, NULL, &read);
    return out->calls_itself ? out : NULL;
}

/* The parameter that counts from 0 to the number at which the function ends: `if (equal(%i, 64)) { … } else { … }`. */
static void find_counter(Specializer *s)
{
    const Function *f = s->of->def->fn;
    const If *branch = expr_as_if(f->body);
    const Call *test = branch ? call_of(s, branch->cond, "equal") : NULL;
    int64_t first;
    s->counter = test ? param_of(f, test->args.at[0]) : -1;
    if (s->counter >= 0 && !(s->of->counts[s->counter] && is_number(test->args.at[1], &s->turns) &&
                             is_number(s->call->args.at[s->counter], &first) && first == 0))
        s->counter = -1;
}

/* ---- products of all turns --------------------------------------------------------------------------------------------------- */

/* What the call is handed for an expression of the loop that is the same in all turns; NULL: it is not. */
static Expr *handed(const Specializer *s, Expr *e)
{
    int param = param_of(s->of->def->fn, e);
    if (param >= 0)
        return s->of->stays[param] ? s->args[param] : NULL;
    return e->kind == EXPR_CONSTANT ? e : NULL;
}

/* Whether the rows that are taken are of a known table, small enough that the products of all are made beforehand. */
static bool is_table(const Specializer *s, const Call *take, const Type *t, const Call *dense)
{
    const Type *index = expr_tensor_type(take->args.at[1]);
    const Type *y = expr_tensor_type(&dense->base);
    const Expr *table = handed(s, take->args.at[0]), *w = handed(s, dense->args.at[1]);
    int64_t width = y->dims[1], work;
    return table->kind == EXPR_CONSTANT && w->kind == EXPR_CONSTANT && index && index->n == 0 &&
           t->n == 2 && y->dims[0] == 1 && t->dims[0] <= TABLE_ELEMENTS_MOST / width &&
           !__builtin_mul_overflow(t->dims[0] * width, t->dims[1], &work) &&
           work <= TABLE_WORK_MOST;
}

/* The tensor whose rows are taken one after the other, or as they are needed, as rows of so many elements; NULL: the expression is
 * something else. */
static const Call *row_of(const Specializer *s, const Call *dense, int64_t elements)
{
    const Expr *e = dense->args.at[0];
    const Call *shaped = call_of(s, e, "reshape");
    const Call *take = call_of(s, shaped ? shaped->args.at[0] : e, "take");
    const Type *t = take ? expr_tensor_type(take->args.at[0]) : NULL;
    int64_t size;
    if (!t || t->n < 2 || t->dims[0] < 1 || attrs_int(take->attrs, "axis", -1) != 0 ||
        attrs_int(take->attrs, "batch_dims", 0) != 0 ||
        !shape_size((int)t->n - 1, t->dims + 1, &size) || size != elements ||
        !handed(s, take->args.at[0]))
        return NULL;
    bool each = s->counter >= 0 && t->dims[0] == s->turns &&
                param_of(s->of->def->fn, take->args.at[1]) == s->counter;
    return each || is_table(s, take, t, dense) ? take : NULL;
}

/* The product of a turn as a row of the product of all. */
static Expr *hoisted(Specializer *s, const Rewriter *rw, const Expr *old)
{
    const Call *dense = call_of(s, old, "nn.dense");
    const Type *x = dense ? expr_tensor_type(dense->args.at[0]) : NULL,
               *y = dense ? expr_tensor_type(old) : NULL;
    Expr *w = dense ? handed(s, dense->args.at[1]) : NULL;
    if (!w || !x || !y || x->n != 2 || y->n != 2 || x->dims[0] < 1 || x->dims[1] < 1 ||
        y->dims[1] < 1)
        return NULL;
    const Call *take = row_of(s, dense, x->dims[0] * x->dims[1]);
    if (!take)
        return NULL;
    OpsMake m = s->m;
    int64_t turns = expr_tensor_type(take->args.at[0])->dims[0];
    Var *all = ptrmap_find(&s->made, old);
    if (!all) {
        Attr rows = ops_attr_ints(&m, "newshape", 2, (int64_t[]){turns * x->dims[0], x->dims[1]});
        Attr apart = ops_attr_ints(&m, "newshape", 3, (int64_t[]){turns, y->dims[0], y->dims[1]});
        Expr *xs = handed(s, take->args.at[0]), *data = ops_call(&m, "reshape", 1, &xs, 1, &rows);
        Expr *args[2] = {data, w};
        Expr *product =
            data ? expr_call(m.arena, m.span, dense->callee, 2, args, dense->attrs) : NULL;
        product = product ? ops_call(&m, "reshape", 1, &product, 1, &apart) : NULL;
        if (!product)
            return NULL;
        all = expr_var(m.arena, m.span, ctx_name(s->run->cx, "all"), NULL);
        vec_push(&s->all, &s->run->scratch, all);
        vec_push(&s->products, &s->run->scratch, product);
        ptrmap_put(&s->made, old, all);
    }
    Expr *index = rewriter_now(rw, take->args.at[1]);
    Expr *args[2] = {&all->base, index ? index : take->args.at[1]};
    return expr_call(m.arena, old->span, take->callee, 2, args, take->attrs);
}

/* ---- a copy for the call ------------------------------------------------------------------------------------------------------- */

/* The arguments of parameters that stay. */
static Expr *call_self(Specializer *s, Span span, Expr *const *given, uint32_t n)
{
    Expr **args = arena_new_array(&s->run->scratch, Expr *, n + 1);
    uint32_t left = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!s->known[i])
            args[left++] = given[i];
    return expr_call(s->m.arena, span, &s->self->base, left, args, NULL);
}

static Expr *put_special(Rewriter *rw, const Expr *old, Expr *now)
{
    Specializer *s = rw->data;
    const Call *call = expr_as_call(old);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    if (g && g->name == s->of->def->name && call->args.n == s->of->def->fn->params.n)
        return call_self(s, old->span, expr_as_call(now)->args.at, call->args.n);
    Expr *row = call ? hoisted(s, rw, old) : NULL;
    return row ? row : now;
}

/* The function over the parameters that are left. */
static Expr *special_function(Specializer *s)
{
    const Function *f = s->of->def->fn;
    Var **params = arena_new_array(&s->run->scratch, Var *, f->params.n + 1);
    uint32_t left = 0;
    Rewriter rw;
    rewriter_init(&rw, s->run->cx, s->run->module, put_special, s);
    for (uint32_t i = 0; i < f->params.n; i++) {
        const Var *was = f->params.at[i];
        Expr *with = s->known[i] ? s->args[i] : NULL;
        if (!with) {
            params[left] = expr_var(s->m.arena, was->base.span, was->name, was->base.type);
            with = &params[left++]->base;
        }
        rewriter_put(&rw, was, with);
    }
    Expr *body = ir_rewrite(&rw, f->body);
    rewriter_deinit(&rw);
    if (!body)
        return NULL;
    const Type *type = f->base.type;
    Function *made = expr_function(s->m.arena, f->base.span, (TypeVarList){0}, left, params, NULL,
                                   type->result, body);
    /* Nothing in it is shared with the definition. */
    return ir_copy(s->run->cx, s->run->module, &made->base);
}

static Expr *specialized(Specializer *s, const Call *now)
{
    Arena *arena = s->m.arena;
    s->args = now->args.at;
    s->all.n = s->products.n = 0;
    s->self = expr_var(arena, now->base.span, s->of->def->name, NULL);
    Expr *fn = special_function(s);
    if (!fn)
        return NULL;
    Expr *e = expr_let(arena, now->base.span, s->self, fn,
                       call_self(s, now->base.span, s->args, now->args.n));
    while (s->all.n) {
        Var *all = vec_pop(&s->all);
        e = expr_let(arena, now->base.span, all, vec_pop(&s->products), e);
    }
    ptrmap_clear(&s->made);
    return e;
}

/* Weights: a number is as fast in a register. */
static bool is_weight(const Expr *e)
{
    const Constant *c = expr_as_constant(e);
    return c && c->value.kind == VALUE_TENSOR;
}

static bool has_weight(const Call *call)
{
    bool has = false;
    for (uint32_t i = 0; i < call->args.n && !has; i++)
        has = is_weight(call->args.at[i]);
    return has;
}

static Expr *look_at_call(Rewriter *rw, const Expr *old, Expr *now)
{
    Specializer *s = rw->data;
    const Call *call = expr_as_call(now);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    const Def *def = g && g->name != s->def->name
                         ? find_global(s->run->module, s->run->context->env, g->name)
                         : NULL;
    if (!def || call->args.n != def->fn->params.n || !has_weight(call))
        return now;
    const Recursive *r = recursive_of(s, def);
    if (!r)
        return now;
    bool any = false, *known = arena_new_array(&s->run->scratch, bool, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++) {
        known[i] = r->stays[i] && is_weight(call->args.at[i]);
        any |= known[i];
    }
    if (!any)
        return now;
    s->of = r;
    s->call = call;
    s->known = known;
    s->m.span = old->span;
    find_counter(s);
    return specialized(s, call);
}

static Function *specialize(PassRun *run, const Def *def)
{
    Specializer s = {.run = run, .def = def, .m = {run->cx, &run->module->arena, def->span}};
    Rewriter rw;
    pass_rewriter_init(&rw, run, look_at_call, &s);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    ptrmap_deinit(&s.made);
    ptrmap_deinit(&s.known_of);
    return expr_as_function(now);
}

const Pass pass_specialize_recursion = {
    .name = "SpecializeRecursion",
    .doc = "Gives recursive functions with constants among their arguments a copy for these; "
           "products of all turns of a counted "
           "loop with the same weights are one, in front of it, and those of a known table's rows "
           "a table.",
    .opt_level = 2,
    .needs_types = true,
    .reorders = true,
    .function = specialize,
};
