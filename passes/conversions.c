#include "passes/conversions.h"

#include "passes/facts.h"
#include "passes/types.h"

/* What is known of a node. */
enum { FROM_PARAM = 1, FROM_ENTRY = 2, FROM_EXIT = 4, TO_ENTRY = 8, ENTRY = 16 };

enum { BEFORE, MIDDLE, BEHIND };

typedef struct Border {
    Vec(Expr *) nodes;
    Vec(Var *) vars; /* in their places */
    PtrMap var_of;
} Border;

typedef struct Apart {
    PassRun *run;
    Module *m; /* receives the functions */
    PtrMap facts; /* Expr -> facts + 1 */
    Vec(const Expr *) order; /* operands first */
    unsigned below; /* of the operands of the node at hand */
    bool from_reals; /* some of them are reals that a parameter gives */
    bool from_integers;
    int part; /* of the node whose operands are looked at */
    Border in, out;
} Apart;

static unsigned facts_of(const Apart *a, const Expr *e)
{
    return (unsigned)((uintptr_t)ptrmap_find(&a->facts, e)) >> 1;
}

static void set_facts(Apart *a, const Expr *e, unsigned facts)
{
    ptrmap_put(&a->facts, e, (void *)(uintptr_t)(facts << 1 | 1));
}

static bool is_real(const Expr *e)
{
    const Type *t = expr_tensor_type(e);
    return t && dtype_is_float(t->dtype);
}

static bool is_integer(const Expr *e)
{
    const Type *t = expr_tensor_type(e);
    return t && !dtype_is_float(t->dtype) &&
           !(t->dtype.code == DTYPE_CODE_UINT && t->dtype.bits == 1);
}

static void look_below(void *data, Expr *const *slot)
{
    Apart *a = data;
    unsigned f = facts_of(a, *slot);
    a->below |= f & (FROM_PARAM | FROM_ENTRY | FROM_EXIT);
    a->from_reals |= f & FROM_PARAM && is_real(*slot);
    a->from_integers |= f & FROM_ENTRY && is_integer(*slot);
}

/* Reals become integers in an entry. */
static WalkNext note_node(void *data, const Expr *e)
{
    Apart *a = data;
    if (e->kind == EXPR_FUNCTION || e->kind == EXPR_OP)
        return WALK_ON;
    a->below = e->kind == EXPR_VAR ? FROM_PARAM : 0;
    a->from_reals = a->from_integers = false;
    ir_children(e, look_below, a);
    unsigned facts = a->below;
    if (a->from_reals && is_integer(e))
        facts |= ENTRY | FROM_ENTRY;
    set_facts(a, e, facts);
    vec_push(&a->order, &a->run->scratch, e);
    return WALK_ON;
}

static void lead_to_entry(void *data, Expr *const *slot)
{
    Apart *a = data;
    set_facts(a, *slot, facts_of(a, *slot) | TO_ENTRY);
}

static int part_of(const Apart *a, const Expr *e)
{
    unsigned f = facts_of(a, e);
    if (!(f & FROM_ENTRY) || (f & ENTRY && !(a->below & FROM_ENTRY)))
        return BEFORE;
    return f & FROM_EXIT ? BEHIND : MIDDLE;
}

/* An entry of the first numbers is made in front; one of integers that were reals again is not. */
static int part_at(Apart *a, const Expr *e)
{
    a->below = 0;
    ir_children(e, look_below, a);
    return part_of(a, e);
}

/* Integers become reals in an exit, behind which no entry comes. */
static void note_exits(Apart *a)
{
    for (size_t i = 0; i < a->order.n; i++) {
        const Expr *e = a->order.at[i];
        unsigned facts = facts_of(a, e);
        a->below = 0;
        a->from_integers = false;
        ir_children(e, look_below, a);
        bool is = a->from_integers && is_real(e) && !(facts & (TO_ENTRY | ENTRY));
        set_facts(a, e, facts | (a->below & FROM_EXIT) | (is ? FROM_EXIT : 0));
    }
}

static void put_border(Apart *a, Border *b, Expr *e)
{
    if (ptrmap_has(&b->var_of, e))
        return;
    Var *v = expr_var(&a->m->arena, e->span, ctx_name(a->run->cx, "q"), e->type);
    v->base.type = e->type;
    vec_push(&b->nodes, &a->run->scratch, e);
    vec_push(&b->vars, &a->run->scratch, v);
    ptrmap_put(&b->var_of, e, v);
}

/* What a later part uses of an earlier one crosses the borders between. */
static void cross(void *data, Expr *const *slot)
{
    Apart *a = data;
    unsigned below = a->below;
    int from = part_at(a, *slot);
    a->below = below;
    if (!(facts_of(a, *slot) & FROM_PARAM) || (*slot)->kind == EXPR_OP)
        return;
    if (from == BEFORE && a->part > BEFORE)
        put_border(a, &a->in, *slot);
    if (from < BEHIND && a->part == BEHIND)
        put_border(a, &a->out, *slot);
}

static bool enter_border(Rewriter *rw, const Expr *old, Expr **now)
{
    const Border *b = rw->data;
    Var *v = ptrmap_find(&b->var_of, old);
    if (v)
        *now = &v->base;
    return v != NULL;
}

static Expr *keep(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)rw;
    (void)old;
    return now;
}

/* The expression over the border's variables. */
static Expr *over(Apart *a, Border *b, Expr *e)
{
    Rewriter rw;
    rewriter_init(&rw, a->run->cx, a->m, keep, b);
    rw.enter = enter_border;
    Expr *now = ir_rewrite(&rw, e);
    rewriter_deinit(&rw);
    return now;
}

static bool define(Apart *a, const char *name, uint32_t n, Var *const *params, Expr *body)
{
    if (!body)
        return false;
    Function *f =
        expr_function(&a->m->arena, body->span, (TypeVarList){0}, n, params, NULL, NULL, body);
    module_define(a->m, ctx_name(a->run->cx, name), f, body->span, a->m);
    return true;
}

/* let %r = @name(%all.0, …) */
static Expr *call_of(Apart *a, const char *name, Expr *all, uint32_t n)
{
    Span at = a->run->where;
    Expr **args = arena_alloc_must(&a->run->scratch, n + 1, sizeof *args);
    for (uint32_t i = 0; i < n; i++)
        args[i] = expr_tuple_get(&a->m->arena, at, all, i);
    return expr_call(&a->m->arena, at, expr_global(&a->m->arena, at, ctx_name(a->run->cx, name)), n,
                     args, NULL);
}

static bool define_all(Apart *a, const Def *def)
{
    const Function *fn = def->fn;
    Arena *arena = &a->m->arena;
    uint32_t n = fn->params.n, ins = (uint32_t)a->in.nodes.n, outs = (uint32_t)a->out.nodes.n;
    Expr **middle = arena_alloc_must(&a->run->scratch, outs + 1, sizeof *middle);
    for (uint32_t i = 0; i < outs; i++)
        if (!(middle[i] = over(a, &a->in, a->out.nodes.at[i])))
            return false;
    Var **params = arena_alloc_must(&a->run->scratch, n + 1, sizeof *params);
    Expr **args = arena_alloc_must(&a->run->scratch, n + 1, sizeof *args);
    for (uint32_t i = 0; i < n; i++) {
        const Var *old = fn->params.at[i];
        params[i] = expr_var(arena, old->base.span, old->name, type_find(old->base.type));
        args[i] = &params[i]->base;
    }
    Span at = def->span;
    Expr *first = expr_call(
        arena, at, expr_global(arena, at, ctx_name(a->run->cx, "quantize_inputs")), n, args, NULL);
    Expr *second = call_of(a, "quantized_main", first, ins);
    Expr *whole = call_of(a, "dequantize_outputs", second, outs);
    return define(a, "quantize_inputs", n, fn->params.at,
                  expr_tuple(arena, at, ins, a->in.nodes.at)) &&
           define(a, "quantized_main", ins, a->in.vars.at, expr_tuple(arena, at, outs, middle)) &&
           define(a, "dequantize_outputs", outs, a->out.vars.at, over(a, &a->out, fn->body)) &&
           define(a, def->name->text, n, params, whole);
}

static bool all_integral(Apart *a)
{
    for (size_t i = 0; i < a->order.n; i++) {
        const Expr *e = a->order.at[i];
        if (part_at(a, e) != MIDDLE || !is_real(e) || !(facts_of(a, e) & FROM_PARAM))
            continue;
        Diag *d = diag_error(a->run->cx->diags, E0606_NO_INTEGERS, e->span,
                             "this is computed on reals between integers");
        diag_help(d, "`partition_conversions=\"enabled\"` leaves it there");
        return false;
    }
    return true;
}

Module *conversions_apart(PassRun *run, Module *m, bool integral)
{
    Module *graph = pass_run_inner(run, m, "ToGraphNormalForm");
    Apart a = {.run = run, .m = graph ? module_derive(graph) : NULL};
    const Name *name = run->context->meant ? run->context->meant : ctx_name(run->cx, "main");
    const Def *def = graph ? module_find(graph, name) : NULL;
    bool ok = a.m != NULL;
    if (ok && def && def->fn) {
        ir_walk(&def->fn->base, NULL, note_node, &a);
        for (size_t i = a.order.n; i-- > 0;)
            if (facts_of(&a, a.order.at[i]) & (ENTRY | TO_ENTRY))
                ir_children(a.order.at[i], lead_to_entry, &a);
        note_exits(&a);
        for (size_t i = 0; i < a.order.n; i++) {
            a.part = part_at(&a, a.order.at[i]);
            ir_children(a.order.at[i], cross, &a);
        }
        /* What gives integers has no third part, but for what passes them on. */
        Expr *body = def->fn->body;
        if (a.in.nodes.n && part_at(&a, body) < BEHIND)
            put_border(&a, &a.out, body);
        ok = !a.in.nodes.n || ((!integral || all_integral(&a)) && define_all(&a, def));
    }
    PtrMap *maps[] = {&a.facts, &a.in.var_of, &a.out.var_of};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    module_release(graph);
    if (ok)
        return a.m;
    module_release(a.m);
    return NULL;
}
