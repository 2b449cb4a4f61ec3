#include "jit/plan.h"

#include "base/memory.h"
#include "base/number.h"
#include "ir/walk.h"
#include "jit/gpu/record.h"
#include "jit/gpu/run.h"
#include "jit/origin.h"
#include "jit/plan_run.h"
#include "parser/parser.h"
#include "passes/facts.h"
#include "runtime/pool.h"

#include <stdio.h>
#include <string.h>

void plan_begin(Fn *f)
{
    f->plan = arena_new(f->g->arena, Plan);
}

void plan_end(Fn *f)
{
    ptrmap_deinit(&f->plan->index);
    ptrmap_deinit(&f->plan->arguments);
    ptrmap_deinit(&f->plan->reads);
    ptrmap_deinit(&f->plan->told);
}

/* ---- what may wait --------------------------------------------------------------------------------------------------- */

/* Elements of the largest tensor that loops are made for: more bytes than a machine addresses. What has more is for the operators, which
 * check their sizes; places and turns of loops are numbers that hold all that is made. */
#define ELEMENTS_MOST ((int64_t)1 << 48)

static bool is_static_tensor(const Type *t)
{
    if (t->kind != TYPE_TENSOR || dtype_id(t->dtype) == DTYPE_IDS)
        return false;
    int64_t elements = 1; /* beside axes without extent, which have strides all the same */
    for (uint32_t i = 0; i < t->n; i++) {
        int64_t extent = t->dims[i] == 0 ? 1 : t->dims[i];
        if (extent < 0 || !int64_mul(elements, extent, &elements) || elements > ELEMENTS_MOST)
            return false;
    }
    return true;
}

static bool is_static(const Type *t)
{
    bool ok = t->kind == TYPE_TENSOR ? is_static_tensor(t) : t->kind == TYPE_TUPLE;
    for (uint32_t i = 0; ok && t->kind == TYPE_TUPLE && i < t->n; i++)
        ok = is_static_tensor(t->parts[i]);
    return ok;
}

bool plan_waits(const Fn *f, const Expr *atom)
{
    return ptrmap_has(&f->plan->index, atom);
}

static bool is_scalar(const Type *t)
{
    return t->kind == TYPE_TENSOR && t->n == 0;
}

/* A tuple that is lent may end before the plan is done. */
static bool is_lent_tuple(const Fn *f, const Expr *atom)
{
    const Val *val = ptrmap_find(&f->vals, atom);
    return val && val->lent && val->type->kind == TYPE_TUPLE;
}

static bool argument_fits(Fn *f, const Expr *atom)
{
    return expr_as_var(atom) && is_static(fn_type(f, atom)) && !is_lent_tuple(f, atom);
}

/* What a card computes where else a function of its own does. */
static bool is_for_card(Fn *f, const Call *call)
{
    const Op *op = f->g->ptx ? expr_call_of_op(&call->base) : NULL;
    if (!op || !op_is_for_card(op, call->attrs))
        return false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = fn_type(f, call->args.at[i]);
        for (uint32_t k = 0; k < t->n && t->kind == TYPE_TENSOR; k++)
            if (t->dims[k] == 0)
                return false;
    }
    return true;
}

static bool operator_fits(Fn *f, const Call *call, const Type *type)
{
    if (!(call_has_elements(call) || is_for_card(f, call)) || shapes_misfit(f->in, call) ||
        !is_static(type))
        return false;
    bool scalars = is_scalar(type), any_waits = false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        if (!argument_fits(f, call->args.at[i]))
            return false;
        scalars &= is_scalar(fn_type(f, call->args.at[i]));
        any_waits |= plan_waits(f, call->args.at[i]);
    }
    return !scalars || any_waits;
}

/* A tuple of tensors is worth holding back when it is likely to be an operator's argument or full of what waits. */
static bool tuple_fits(Fn *f, const Tuple *t, const Type *type)
{
    if (t->fields.n == 0 || !is_static(type))
        return false;
    for (uint32_t i = 0; i < t->fields.n; i++)
        if (!argument_fits(f, t->fields.at[i]) || fn_type(f, t->fields.at[i])->kind != TYPE_TENSOR)
            return false;
    return true;
}

/* The value that the let's comes to where all shapes are known. */
static const Expr *value_here(const Fn *f, const Let *let)
{
    const Expr *known = f->in->facts ? ptrmap_find(&f->in->facts->lets, let) : NULL;
    return known ? known : let->value;
}

/* Only operators with an expression, tuples of tensors and their fields, over its parameters and own constants. */
static bool body_fits(Fn *f, const Function *group)
{
    const Expr *e = group->body;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        const Expr *value = value_here(f, let);
        const Call *call = expr_as_call(value);
        bool shape = value->kind == EXPR_CONSTANT || value->kind == EXPR_VAR ||
                     value->kind == EXPR_TUPLE || value->kind == EXPR_TUPLE_GET;
        bool fits = call ? call_has_elements(call) && !shapes_misfit(f->in, call) : shape;
        if (!fits || !is_static(fn_type(f, &let->var->base)))
            return false;
        for (uint32_t i = 0; call && i < call->args.n; i++)
            if (!expr_as_var(call->args.at[i]))
                return false;
        e = let->body;
    }
    return expr_as_var(e) != NULL;
}

/* The group that the variable is bound to; NULL: none. */
static Function *group_at(const Fn *f, const Expr *callee)
{
    const Val *val = expr_as_var(callee) ? ptrmap_find(&f->vals, callee) : NULL;
    return val && val->group ? val->group : NULL;
}

static bool group_fits(Fn *f, const Call *call, Function *group, const Type *type)
{
    if (!is_static(type) || call->args.n != group->params.n)
        return false;
    for (uint32_t i = 0; i < call->args.n; i++)
        if (!argument_fits(f, call->args.at[i]) ||
            fn_type(f, call->args.at[i]) != fn_type(f, &group->params.at[i]->base))
            return false;
    return body_fits(f, group);
}

static bool fits(Fn *f, Expr *value, const Type *type)
{
    const Call *call = expr_as_call(value);
    if (call) {
        Function *group = group_at(f, call->callee);
        return group ? group_fits(f, call, group, type) : operator_fits(f, call, type);
    }
    const Tuple *tuple = expr_as_tuple(value);
    if (tuple)
        return tuple_fits(f, tuple, type);
    const TupleGet *get = expr_as_tuple_get(value);
    return get && plan_waits(f, get->tuple);
}

/* The let's last uses are last uses of the plan. */
static void hold_slot(void *data, Expr *const *slot)
{
    Fn *f = data;
    const Var *v = expr_as_var(*slot);
    if (!v || plan_waits(f, *slot))
        return;
    ptrmap_put(&f->plan->reads, v, f);
    if (!fn_dies(f, v))
        return;
    Val *val = ptrmap_find(&f->vals, v);
    fn_moved(f, v);
    if (val_is_counted(val))
        vec_push(&f->waiting, f->g->arena, v);
}

/* Calls of one run: looking for their places in memory takes the square of their number. */
#define LETS_MOST 1024

bool plan_add(Fn *f, Let *let, const Type *type)
{
    Plan *p = f->plan;
    if (p->lets.n >= LETS_MOST)
        plan_flush(f);
    if (!fits(f, let->value, type))
        return false;
    const Call *call = expr_as_call(let->value);
    Function *group = call ? group_at(f, call->callee) : NULL;
    ir_children(let->value, hold_slot, f);
    vec_push(&p->lets, f->g->arena, ((Waiting){let, type, group, NULL}));
    ptrmap_put(&p->index, let->var, (void *)(uintptr_t)p->lets.n);
    if (f->g->lowered) {
        Waiting *told = arena_new(f->g->arena, Waiting);
        *told = vec_last(&p->lets);
        ptrmap_put(&p->told, let->var, told);
    }
    fn_bind(f, let->var, type, NULL);
    return true;
}

bool plan_group(Fn *f, const Let *let, const Type *type)
{
    const Function *fn = expr_as_function(let->value);
    if (!fn || !live_is_group(fn))
        return false;
    Function *group = instance_normal_form(f->g, fn);
    if (!group)
        return !(f->g->failed = true);
    Val *val = fn_bind(f, let->var, type, NULL);
    val->group = group;
    val->atom = let->value;
    return true;
}

static void look_for_loss(void *data, Expr *const *slot)
{
    Fn *f = data;
    const Var *v = expr_as_var(*slot);
    if (v && ptrmap_has(&f->plan->reads, v) && fn_dies(f, v))
        plan_flush(f);
}

/* Floats are never wrong. */
static bool has_integers(const Type *t)
{
    bool has = t->kind == TYPE_TENSOR && !dtype_is_float(t->dtype);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n && !has; i++)
        has = has_integers(t->parts[i]);
    return has;
}

static bool call_may_fail(Fn *f, const Expr *value, const Type *type)
{
    Gen *g = f->g;
    const Call *call = expr_as_call(value);
    bool may = false;
    uint32_t n = call ? call->args.n : 0;
    const Type **types = arena_new_array(g->arena, const Type *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        types[i] = fn_type(f, call->args.at[i]);
        may |= has_integers(types[i]);
    }
    if (!may)
        return false;
    const TeProgram *p =
        te_of_op(g->cx, g->arena, expr_call_of_op(value), call->attrs, value->span, n, types, type);
    g->failed |= !p;
    for (int i = 0; p && i < p->n_stages; i++)
        if (te_stage_faults(g->arena, &p->stages[i]))
            return true;
    return false;
}

static bool waiting_may_fail(Fn *f, const Waiting *w)
{
    if (!w->group)
        return call_may_fail(f, w->let->value, w->type);
    bool may = false;
    for (Let *let = expr_as_let(w->group->body); let && !may; let = expr_as_let(let->body))
        may = call_may_fail(f, value_here(f, let), fn_type(f, &let->var->base));
    return may;
}

/* Whether something that waits may stop with an error: then that comes before what others see of the program behind it. */
static bool may_fail(Fn *f)
{
    Plan *p = f->plan;
    for (; p->harmless < p->lets.n && !f->g->failed; p->harmless++)
        if (waiting_may_fail(f, &p->lets.at[p->harmless]))
            return true;
    return false;
}

static bool is_seen(const Expr *value)
{
    const Call *call = expr_as_call(value);
    return (call && call->callee->kind != EXPR_CON) || value->kind == EXPR_REF_WRITE;
}

void plan_before(Fn *f, const Expr *value)
{
    if (is_seen(value) && may_fail(f))
        plan_flush(f);
    if (value->kind == EXPR_IF || value->kind == EXPR_MATCH || value->kind == EXPR_FUNCTION)
        plan_flush(f);
    else if (value->kind == EXPR_VAR) /* an alias: what it takes over may be dropped with it */
        look_for_loss(f, &(Expr *){(Expr *)(uintptr_t)value});
    else
        ir_children(value, look_for_loss, f);
}

/* ---- items ---------------------------------------------------------------------------------------------------------------- */

static Held *held_new(Fn *f, const Type *type)
{
    Held *h = arena_new(f->g->arena, Held);
    *h = (Held){.type = type, .by = -1, .last = -1};
    return h;
}

static Item *item_new(Fn *f, const Type *type)
{
    Item *item = arena_new(f->g->arena, Item);
    item->n = type->kind == TYPE_TUPLE ? (int)type->n : -1;
    if (item->n >= 0)
        item->fields = arena_new_array(f->g->arena, Item, type->n + 1);
    else
        item->tensor = held_new(f, type);
    for (int i = 0; i < item->n; i++)
        item->fields[i] = (Item){.n = -1, .tensor = held_new(f, type->parts[i])};
    return item;
}

static void add_held_input(Fn *f, const Expr *atom, int field, Held *h)
{
    Plan *p = f->plan;
    vec_push(&p->inputs, f->g->arena, ((Input){.atom = atom, .field = field, .tensor = h}));
    h->input = (uint32_t)p->inputs.n;
}

static Item *input_item(Fn *f, const Expr *atom)
{
    Item *item = ptrmap_find(&f->plan->arguments, atom);
    if (item)
        return item;
    item = item_new(f, fn_type(f, atom));
    ptrmap_put(&f->plan->arguments, atom, item);
    if (item->n < 0)
        add_held_input(f, atom, -1, item->tensor);
    for (int i = 0; i < item->n; i++)
        add_held_input(f, atom, i, item->fields[i].tensor);
    return item;
}

static Item *atom_item(Fn *f, const Expr *atom)
{
    size_t i = (size_t)(uintptr_t)ptrmap_find(&f->plan->index, atom);
    return i ? f->plan->lets.at[i - 1].item : input_item(f, atom);
}

static Held *field_of(const Item *item, int i)
{
    return item->n < 0 ? item->tensor : item->fields[i].tensor;
}

static int fields_of(const Item *item)
{
    return item->n < 0 ? 1 : item->n;
}

/* ---- the programs of kernels ------------------------------------------------------------------------------------------------ */

/* Inside of a kernel a variable stands for tensors of its program. */
typedef struct Parts {
    int n; /* fields of a tuple; -1: one tensor */
    TeTensor *at;
} Parts;

typedef struct Building {
    Fn *f;
    Step *step;
    PtrMap parts; /* Var -> Parts */
} Building;

static Parts *parts_new(Building *b, const Type *type)
{
    Parts *parts = arena_new(b->f->g->arena, Parts);
    parts->n = type->kind == TYPE_TUPLE ? (int)type->n : -1;
    parts->at =
        arena_new_array(b->f->g->arena, TeTensor, (size_t)(parts->n < 0 ? 1 : parts->n) + 1);
    return parts;
}

static int count_parts(const Parts *parts)
{
    return parts->n < 0 ? 1 : parts->n;
}

/* The tensor as an input of the kernel's program. */
static TeTensor add_input(Building *b, Held *h)
{
    Step *s = b->step;
    for (size_t i = 0; i < s->in.n; i++)
        if (s->in.at[i] == h)
            return s->b.tensors.at[i];
    vec_push(&s->in, b->f->g->arena, h);
    return te_add_input(&s->b, h->type->dtype, (int)h->type->n, h->type->dims);
}

static void add_argument(Building *b, const Expr *var, const Expr *atom)
{
    if (ptrmap_has(&b->parts, var))
        return;
    const Item *item = atom_item(b->f, atom);
    Parts *parts = parts_new(b, fn_type(b->f, atom));
    for (int i = 0; i < fields_of(item); i++)
        parts->at[i] = add_input(b, field_of(item, i));
    ptrmap_put(&b->parts, var, parts);
}

static void add_constant(Building *b, const Var *var, const Constant *c)
{
    Held *h = held_new(b->f, fn_type(b->f, &var->base));
    Parts *parts = parts_new(b, h->type);
    h->constant = c;
    parts->at[0] = add_input(b, h);
    ptrmap_put(&b->parts, var, parts);
}

static Parts *call_parts(Building *b, const Call *call, const Type *type)
{
    Gen *g = b->f->g;
    uint32_t n = 0, n_args = 0;
    Parts *out = parts_new(b, type);
    for (uint32_t i = 0; i < call->args.n; i++)
        n += (uint32_t)count_parts(ptrmap_find(&b->parts, call->args.at[i]));
    TeTensor *args = arena_new_array(g->arena, TeTensor, n + 1);
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Parts *parts = ptrmap_find(&b->parts, call->args.at[i]);
        for (int k = 0; k < count_parts(parts); k++)
            args[n_args++] = parts->at[k];
    }
    g->failed |= te_call(&b->step->b, expr_call_of_op(&call->base), call->attrs, call->base.span,
                         type, (int)n, args, count_parts(out), out->at) < 0;
    return out;
}

static Parts *value_parts(Building *b, const Expr *value, const Type *type)
{
    const Call *call = expr_as_call(value);
    const TupleGet *get = expr_as_tuple_get(value);
    const Tuple *tuple = expr_as_tuple(value);
    if (call)
        return call_parts(b, call, type);
    if (value->kind == EXPR_VAR)
        return ptrmap_find(&b->parts, value);
    Parts *parts = parts_new(b, type);
    if (get)
        parts->at[0] = ((Parts *)ptrmap_find(&b->parts, get->tuple))->at[get->index];
    for (uint32_t i = 0; tuple && i < tuple->fields.n; i++)
        parts->at[i] = ((Parts *)ptrmap_find(&b->parts, tuple->fields.at[i]))->at[0];
    return parts;
}

static Parts *group_parts(Building *b, const Call *call, const Function *group)
{
    Expr *e = group->body;
    for (uint32_t i = 0; i < call->args.n; i++)
        add_argument(b, &group->params.at[i]->base, call->args.at[i]);
    for (Let *let = expr_as_let(e); let; let = expr_as_let(let->body)) {
        const Constant *c = expr_as_constant(value_here(b->f, let));
        if (c)
            add_constant(b, let->var, c);
    }
    for (Let *let = expr_as_let(e); let && !b->f->g->failed; let = expr_as_let(e)) {
        const Type *type = fn_type(b->f, &let->var->base);
        if (!ptrmap_has(&b->parts, let->var))
            ptrmap_put(&b->parts, let->var, value_parts(b, value_here(b->f, let), type));
        e = let->body;
    }
    return b->f->g->failed ? NULL : ptrmap_find(&b->parts, e);
}

/* Names of the operators in a kernel, for those who read its code: `dense_add`. */
static void add_name(Buf *out, const Call *call)
{
    const Op *op = call ? expr_call_of_op(&call->base) : NULL;
    const char *dot = op ? strrchr(op->name, '.') : NULL;
    if (op && out->n < 40)
        buf_printf(out, "%s%s", out->n ? "_" : "", dot ? dot + 1 : op->name);
}

static const char *step_name(Gen *g, const Waiting *w)
{
    Buf name = {0};
    if (!w->group)
        add_name(&name, expr_as_call(w->let->value));
    for (Let *let = w->group ? expr_as_let(w->group->body) : NULL; let;
         let = expr_as_let(let->body))
        add_name(&name, expr_as_call(let->value));
    return buf_keep(&name, g->arena);
}

/* A field that is an argument as it came is that tensor. */
static void bind_outputs(Fn *f, Step *s, const Item *item, const Parts *parts)
{
    for (int i = 0; i < fields_of(item); i++) {
        int id = parts->at[i].id;
        Item *field = item->n < 0 ? (Item *)(uintptr_t)item : &item->fields[i];
        TeTensor made = parts->at[i];
        Held *same = id < s->b.n_inputs && !s->in.at[id]->constant ? s->in.at[id] : NULL;
        for (size_t k = 0; k < s->made.n && !same; k++)
            same = s->made.at[k].id == id ? s->out.at[k] : NULL;
        if (same) {
            field->tensor = same;
            continue;
        }
        if (id < s->b.n_inputs) /* a constant */
            made = te_map(&s->b, made.dtype, made.rank, made.shape,
                          te_load_broadcast(&s->b, made, made.rank));
        field->tensor->by = (int)f->plan->steps.n - 1;
        vec_push(&s->out, f->g->arena, field->tensor);
        vec_push(&s->made, f->g->arena, made);
        vec_push(&f->plan->helds, f->g->arena, field->tensor);
    }
}

static Item *kernel_item(Fn *f, const Waiting *w)
{
    Gen *g = f->g;
    Step *s = arena_new(g->arena, Step);
    const Call *call = expr_as_call(w->let->value);
    Building b = {f, s, {0}};
    s->w = w;
    te_begin(&s->b, g->cx, g->arena);
    Parts *parts;
    if (w->group) {
        parts = group_parts(&b, call, w->group);
    } else {
        for (uint32_t i = 0; i < call->args.n; i++)
            add_argument(&b, call->args.at[i], call->args.at[i]);
        parts = call_parts(&b, call, w->type);
    }
    ptrmap_deinit(&b.parts);
    if (g->failed)
        return NULL;
    vec_push(&f->plan->steps, g->arena, s);
    Item *item = item_new(f, w->type);
    bind_outputs(f, s, item, parts);
    return item;
}

static Item *let_item(Fn *f, const Waiting *w)
{
    Expr *value = w->let->value;
    const TupleGet *get = expr_as_tuple_get(value);
    if (get)
        return &atom_item(f, get->tuple)->fields[get->index];
    const Tuple *tuple = expr_as_tuple(value);
    if (!tuple)
        return kernel_item(f, w);
    Item *item = item_new(f, w->type);
    for (uint32_t i = 0; i < tuple->fields.n; i++)
        item->fields[i].tensor = atom_item(f, tuple->fields.at[i])->tensor;
    return item;
}

/* ---- what is computed, and where it lies --------------------------------------------------------------------------------------- */

/* Whether the variable is used at the current position or behind it. */
static bool is_wanted(Fn *f, const Waiting *w)
{
    return f->at == 0 || live_after(f->live, f->block, f->at - 1, w->let->var);
}

static bool step_is_needed(const Fn *f, const Step *s)
{
    for (size_t i = 0; i < s->out.n; i++)
        if (s->out.at[i]->needed)
            return true;
    for (size_t i = 0; i < s->b.stages.n; i++)
        if (te_stage_faults(f->g->arena, &s->b.stages.at[i]))
            return true;
    return false;
}

/* Which kernels there are, from the last one to the first. */
static void make_kernels(Fn *f, bool *needed)
{
    Plan *p = f->plan;
    for (size_t i = p->steps.n; i-- > 0;) {
        Step *s = p->steps.at[i];
        needed[i] = step_is_needed(f, s);
        for (size_t k = 0; needed[i] && k < s->in.n; k++) {
            s->in.at[k]->needed = true;
            if (s->in.at[k]->last < 0)
                s->in.at[k]->last = (int)i;
        }
    }
}

static int64_t bytes_of(const Type *t)
{
    int64_t n = (int64_t)dtype_size(t->dtype);
    for (uint32_t i = 0; i < t->n; i++)
        if (__builtin_mul_overflow(n, t->dims[i], &n))
            return -1;
    return n;
}

/* What is to be behind the run needs a tensor of its own, in which something else may lie before. */
static bool may_lie_in(const Held *h, const Held *place, int64_t from)
{
    if (is_scalar(h->type) || is_scalar(place->type))
        return false;
    return !h->wanted || (!place->input && !place->constant && !place->wanted && !place->result &&
                          from == 0 && bytes_of(h->type) == bytes_of(place->type));
}

static void lie_in(Held *h, Held *place, int64_t from)
{
    if (h->wanted)
        place->result = h;
    if (h->last > place->last)
        place->last = h->last;
    h->in = place;
    h->from = from;
}

static bool is_shared(const Step *s, const Held *place)
{
    int n = 0;
    for (size_t i = 0; i < s->in.n; i++)
        n += held_place(s->in.at[i]) == place;
    return n > 1;
}

/* The result takes the place of an argument that ends here, if each element is read only where it is written. */
static void take_place(Step *s, int at, const TeProgram *program)
{
    for (size_t k = 0; k < s->in.n && s->out.n == 1; k++) {
        Held *h = s->out.at[0], *place = held_place(s->in.at[k]);
        bool free = place->last == at && !place->input && !place->constant && !place->wanted &&
                    !place->result && !is_shared(s, place);
        if (free && bytes_of(h->type) == bytes_of(place->type) && may_lie_in(h, place, 0) &&
            te_in_place(program, (int)k)) {
            lie_in(h, place, 0);
            return;
        }
    }
}

static void add_need(Fn *f, size_t *room, int64_t size, int first, int last)
{
    if (size < 0 || size > INT64_MAX / 16) {
        gen_refuse(f->g, "a tensor that is too large is needed");
        return;
    }
    vec_push(&f->plan->needs, f->g->arena,
             ((MemoryNeed){.size = (size_t)size, .first = first, .last = last}));
    *room = f->plan->needs.n;
}

static KernelInput known_of(Fn *f, const Held *h)
{
    const Input *in = h->input ? &f->plan->inputs.at[h->input - 1] : NULL;
    const Val *val = in && in->field < 0 ? ptrmap_find(&f->vals, in->atom) : NULL;
    if (is_scalar(h->type))
        return (KernelInput){.number = h->constant ? &h->constant->value
                                       : val       ? val->number
                                                   : NULL};
    return (KernelInput){.tensor = h->constant ? h->constant->value.tensor
                                   : val       ? val->tensor
                                               : NULL};
}

/* Results that nobody reads are left out of the program. */
static const TeProgram *step_program(Fn *f, Step *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->out.n; i++) {
        if (!s->out.at[i]->needed)
            continue;
        s->out.at[n] = s->out.at[i];
        s->made.at[n++] = s->made.at[i];
    }
    s->out.n = s->made.n = n;
    TeProgram *program = te_finish(&s->b, (int)n, s->made.at, true);
    program = program ? te_inline(f->g->cx, f->g->arena, program) : NULL;
    f->g->failed |= program == NULL;
    return program;
}

/* Results that are views of arguments, all of them, lie there. */
static bool are_views(Step *s, const TeProgram *program)
{
    int64_t *from = arena_new_array(s->b.arena, int64_t, s->out.n + 1);
    int *of = arena_new_array(s->b.arena, int, s->out.n + 1);
    for (size_t i = 0; i < s->out.n; i++) {
        int stage = program->outputs[i] - program->n_inputs;
        of[i] = stage < 0 ? -1 : te_view_of(program, &program->stages[stage], &from[i]);
        const Held *in = of[i] >= 0 && of[i] < program->n_inputs ? s->in.at[of[i]] : NULL;
        if (!in || in->constant || (s->out.n > 1 && s->out.at[i]->wanted))
            return false;
        from[i] = in->from + from[i] * (int64_t)dtype_size(in->type->dtype);
        if (!may_lie_in(s->out.at[i], held_place(s->in.at[of[i]]), from[i]))
            return false;
    }
    for (size_t i = 0; i < s->out.n; i++)
        lie_in(s->out.at[i], held_place(s->in.at[of[i]]), from[i]);
    return true;
}

/* ---- for readers ---- */

#define TEXT_MOST 72

/* `nn.dense(%x, %w)` at 3:8 */
static void add_place(Buf *out, SourceMap *sources, const Call *call)
{
    const Source *text = call ? sources_get(sources, call->base.span.source) : NULL;
    if (!text)
        return;
    Span span = call->base.span;
    Position at = span_start(sources, span);
    const char *from = text->text + span.from;
    size_t n = strcspn(from, "\n");
    bool whole = span.to - span.from <= n && span.to - span.from <= TEXT_MOST;
    n = span.to - span.from < n ? span.to - span.from : n;
    buf_printf(out, "  from `%.*s%s` at %u:%u\n", (int)(n < TEXT_MOST ? n : TEXT_MOST), from,
               whole ? "" : " …", at.line, at.column);
}

/* A name that loops, axes and what a kernel makes for itself may have too keeps its sigil: `%k` is no axis, nor is `%3` a number. */
static bool is_of_loops(Str name)
{
    static const char *const own[] = {"k", "out"};
    for (size_t i = 0; i < 2; i++)
        if (str_is(name, own[i]))
            return true;
    return name.len && name.ptr[name.len - 1] >= '0' && name.ptr[name.len - 1] <= '9';
}

/* The last of what the kernel computes, and which of its fields it gives; -1: itself. */
static const Expr *result_of(const Waiting *w, int *field)
{
    const Expr *last = w->let->value;
    *field = -1;
    for (Let *let = w->group ? expr_as_let(w->group->body) : NULL; let;
         let = expr_as_let(let->body)) {
        const TupleGet *get = expr_as_tuple_get(let->value);
        last = get ? last : let->value;
        *field = get ? (int)get->index : -1;
    }
    return last;
}

/* What the text calls the value, or else the kernel that made it. */
static void name_value(const Fn *f, Buf *out, const Var *var, int field)
{
    const Waiting *w = ptrmap_find(&f->plan->told, var);
    int taken = -1;
    const Expr *value = w ? result_of(w, &taken) : NULL;
    const Op *op = value ? expr_call_of_op(value) : NULL;
    Str name = str_of(var->name->text);
    if (!name.len && op)
        name = parse_bound_name(&f->g->cx->sources, value->span, op->name);
    if (name.len)
        buf_printf(out, "%s%.*s", is_of_loops(name) ? "%" : "", (int)name.len, name.ptr);
    else if (w)
        buf_str(out, step_name(f->g, w));
    field = field < 0 ? taken : field;
    if (out->n && field >= 0)
        buf_printf(out, ".%d", field);
}

/* Nothing where it has none. */
static void held_name(const Fn *f, const Held *h, Buf *out)
{
    const Plan *p = f->plan;
    if (h->input) {
        const Input *in = &p->inputs.at[h->input - 1];
        const Var *var = expr_as_var((Expr *)(uintptr_t)in->atom);
        if (var)
            name_value(f, out, var, in->field);
        return;
    }
    for (size_t i = 0; i < p->lets.n; i++) {
        const Waiting *w = &p->lets.at[i];
        for (int k = 0; w->item && k < fields_of(w->item); k++) {
            if (field_of(w->item, k) != h)
                continue;
            name_value(f, out, w->let->var, w->item->n < 0 ? -1 : k);
            return;
        }
    }
}

static bool is_taken(const char *const *names, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

/* Its expressions, and what its inputs are called where they come from. */
static void show_origin(Fn *f, const Step *s, KernelOrigin *from)
{
    Gen *g = f->g;
    Buf text = {0};
    if (!s->w->group)
        add_place(&text, &g->cx->sources, expr_as_call(s->w->let->value));
    for (Let *let = s->w->group ? expr_as_let(s->w->group->body) : NULL; let;
         let = expr_as_let(let->body))
        add_place(&text, &g->cx->sources, expr_as_call(let->value));
    from->text = buf_keep(&text, g->arena);
    const char **names = arena_new_array(g->arena, const char *, s->in.n + 1);
    for (size_t i = 0; i < s->in.n; i++) {
        Buf name = {0};
        held_name(f, s->in.at[i], &name);
        if (!name.n || is_taken(names, i, buf_text(&name)))
            buf_printf(&name, "%sx%zu", name.n ? "_" : "", i);
        names[i] = buf_keep(&name, g->arena);
    }
    from->names = names;
}

static void plan_step(Fn *f, Step *s, int at)
{
    const TeProgram *program = step_program(f, s);
    if (!program || (s->out.n > 0 && are_views(s, program)))
        return;
    f->g->operations += te_cost(program).operations;
    s->known = arena_new_array(f->g->arena, KernelInput, s->in.n + 1);
    for (size_t i = 0; i < s->in.n; i++)
        s->known[i] = known_of(f, s->in.at[i]);
    KernelOrigin from = {.name = step_name(f->g, s->w), .span = s->w->let->value->span};
    if (f->g->lowered)
        show_origin(f, s, &from);
    size_t bytes = 0;
    if (f->g->ptx) {
        s->program = program;
        s->device = record_code(f->g->ptx, s, &from);
        bytes = s->device ? s->device->bytes : 0;
    } else {
        s->kernel = kernel_of(f->g, program, &from, s->known);
        bytes = s->kernel ? s->kernel->bytes : 0;
    }
    if (f->g->failed)
        return;
    take_place(s, at, program);
    if (bytes > 0)
        add_need(f, &s->room, (int64_t)bytes, at, at);
}

/* Of several runs the one that needs most is told. */
static void report_rooms(Fn *f, size_t block)
{
    const Plan *p = f->plan;
    JitReport *report = f->g->jit->report;
    if (!report || block <= report->block)
        return;
    report->block = block;
    report->rooms.n = 0;
    for (size_t i = 0; i < p->needs.n; i++) {
        const MemoryNeed *need = &p->needs.at[i];
        JitRoom room = {need->first, need->last, need->offset, need->size};
        if (need->first <= need->last)
            vec_push(&report->rooms, report->arena, room);
    }
}

/* The bytes of the memory that the run needs for itself. */
static size_t plan_memory(Fn *f)
{
    Plan *p = f->plan;
    for (size_t i = 0; i < p->helds.n; i++) {
        Held *h = p->helds.at[i];
        bool has_room = f->g->ptx || !is_scalar(h->type);
        if (h->needed && !h->in && !h->wanted && !h->result && has_room)
            add_need(f, &h->room, bytes_of(h->type), h->by, h->last < h->by ? h->by : h->last);
    }
    if (f->g->failed)
        return 0;
    size_t bytes = memory_plan(f->g->arena, p->needs.at, p->needs.n,
                               f->g->ptx ? 1 : pool_threads(f->g->cx->pool));
    report_rooms(f, bytes);
    return bytes;
}

static bool plan_run(Fn *f, size_t *bytes)
{
    Plan *p = f->plan;
    Gen *g = f->g;
    for (size_t i = 0; i < p->lets.n && !g->failed; i++)
        p->lets.at[i].item = let_item(f, &p->lets.at[i]);
    if (g->failed)
        return false;
    for (size_t i = 0; i < p->lets.n; i++)
        for (int k = 0; is_wanted(f, &p->lets.at[i]) && k < fields_of(p->lets.at[i].item); k++) {
            Held *h = field_of(p->lets.at[i].item, k);
            h->wanted = h->needed = true;
        }
    bool *needed = arena_new_array(g->arena, bool, p->steps.n + 1);
    make_kernels(f, needed);
    for (size_t i = 0; i < p->steps.n && !g->failed; i++)
        if (needed[i])
            plan_step(f, p->steps.at[i], (int)i);
    if (!g->failed)
        *bytes = plan_memory(f);
    return !g->failed;
}

/* ---- the code --------------------------------------------------------------------------------------------------------------------- */

static Ssa tensor_site(Gen *g, const Type *t)
{
    size_t n = sizeof(TensorSite) + t->n * sizeof *t->dims;
    TensorSite *site = arena_alloc(g->arena, n);
    *site = (TensorSite){.dtype = t->dtype, .rank = (int32_t)t->n};
    memcpy(site->shape, t->dims, t->n * sizeof *t->dims);
    return gen_bytes(g, site, n);
}

/* Lets go of tensors that may be NULL, and of everything else. */
static void leave_if_failed(Fn *f, const SsaList *held)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    if (!p->fail)
        frame_fill(f, held);
    Ssa failed = gen_load(g, g->i32, f->state, offsetof(JitState, failed));
    LLVMBasicBlockRef go = gen_block(g, f->fn, "go"), from = LLVMGetInsertBlock(g->b);
    if (!p->fail) {
        p->fail = gen_block(g, f->fn, "fail");
        LLVMPositionBuilderAtEnd(g->b, p->fail);
        fn_leave_holding(f, held);
        LLVMPositionBuilderAtEnd(g->b, from);
    }
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntNE, failed, gen_int(g->i32, 0), ""), p->fail, go,
               false);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* Inputs must be what their types say, without gaps. */
static void hold_inputs(Fn *f, SsaList *held)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    for (size_t i = 0; i < p->inputs.n; i++) {
        Input *in = &p->inputs.at[i];
        const Type *t = in->tensor->type;
        if (!in->tensor->needed)
            continue;
        fn_cut(f);
        Val *val = ptrmap_find(&f->vals, in->atom);
        in->value =
            in->field < 0 ? val->at : fn_get_field(f, val->at, (uint32_t)in->field, repr_of(t));
        if (t->n == 0 || (in->field < 0 && val->fixed && val->dense))
            continue;
        Ssa args[3] = {f->state, in->value, tensor_site(g, t)};
        in->held = gen_call_abi(g, "relay_input", args, 3);
        own_make(f, in->held);
        vec_push(held, g->arena, in->held);
    }
}

static void make_results(Fn *f, SsaList *held)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    for (size_t i = 0; i < p->helds.n; i++) {
        Held *h = p->helds.at[i];
        fn_cut(f);
        if (is_scalar(h->type) && h->needed)
            h->at = fn_room(f, g->i64, 1);
        if (!h->wanted || is_scalar(h->type))
            continue;
        Ssa args[2] = {f->state, tensor_site(g, h->type)};
        h->made = gen_call_abi(g, "relay_tensor", args, 2);
        own_make(f, h->made);
        vec_push(held, g->arena, h->made);
    }
}

static Ssa elements_of(Gen *g, Ssa tensor)
{
    return gen_load(g, g->ptr, tensor, offsetof(Tensor, data));
}

/* Where the elements are, read once. */
static Ssa address_of(Fn *f, Held *h, Ssa block)
{
    Gen *g = f->g;
    if (h->at)
        return h->at;
    if (h->in)
        h->at = gen_offset(g, address_of(f, h->in, block), (size_t)h->from);
    else if (h->constant)
        h->at = elements_of(g, gen_outside(g, IMPORT_TENSOR, h->constant->value.tensor));
    else if (h->input) {
        const Input *in = &f->plan->inputs.at[h->input - 1];
        h->at = elements_of(g, in->held ? in->held : in->value);
    } else if (h->wanted || h->result)
        h->at = elements_of(g, h->wanted ? h->made : h->result->made);
    else
        h->at = gen_offset(g, block, f->plan->needs.at[h->room - 1].offset);
    return h->at;
}

static Ssa number_of(Fn *f, const Held *h)
{
    Gen *g = f->g;
    Lanes one = {.g = g, .n = 1};
    if (h->constant)
        return lanes_const(&one, h->constant->value);
    if (h->input)
        return f->plan->inputs.at[h->input - 1].value;
    DType t = h->type->dtype;
    return gen_from_stored(g, t, gen_load(g, gen_stored(g, t), h->at, 0));
}

/* Behind a call of a kernel, which began then. */
static void note_clock(Gen *g, Ssa begun)
{
    JitClock *clock = arena_new(g->arena, JitClock);
    Ssa args[2] = {gen_outside(g, IMPORT_HERE, clock), begun};
    vec_push(&g->unit->clocks, g->arena, clock);
    gen_call_abi(g, "relay_clocked", args, 2);
}

static void call_kernel(Fn *f, const Step *s, Ssa block)
{
    Gen *g = f->g;
    origin_at(g, s->w->let->value->span);
    size_t packed = s->kernel->packed.n;
    fn_cut(f);
    Ssa *args = arena_new_array(g->arena, Ssa, s->in.n + s->out.n + packed + 2);
    unsigned n = 0;
    args[n++] = f->state;
    for (size_t i = 0; i < s->in.n; i++)
        args[n++] = is_scalar(s->in.at[i]->type) ? number_of(f, s->in.at[i])
                    : s->kernel->reads[i]        ? address_of(f, s->in.at[i], block)
                                                 : LLVMConstNull(g->ptr);
    for (size_t i = 0; i < s->out.n; i++)
        args[n++] = address_of(f, s->out.at[i], block);
    args[n++] = s->room ? gen_offset(g, block, f->plan->needs.at[s->room - 1].offset)
                        : LLVMConstNull(g->ptr);
    for (size_t i = 0; i < packed && !g->failed; i++)
        args[n++] = kernel_packed(g, s->kernel, i, s->known);
    if (g->failed)
        return;
    Ssa fn = kernel_function(g, s->kernel), begun = NULL;
    if (g->unit->clocked)
        begun = gen_call_abi(g, "relay_clock", NULL, 0);
    LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, n, "");
    if (begun)
        note_clock(g, begun);
}

/* Scalars are read from their room; a result that is an input is that tensor itself. */
static void read_results(Fn *f)
{
    Plan *p = f->plan;
    for (size_t i = 0; i < p->helds.n; i++)
        if (p->helds.at[i]->wanted && is_scalar(p->helds.at[i]->type))
            p->helds.at[i]->made = number_of(f, p->helds.at[i]);
    for (size_t i = 0; i < p->inputs.n; i++) {
        const Input *in = &p->inputs.at[i];
        Held *h = in->tensor;
        if (!h->wanted)
            continue;
        fn_cut(f);
        h->made = in->held ? in->held : in->value;
        fn_retain(f, repr_of(h->type), h->made);
    }
}

/* Releases that stand inline: more of them, as of a network's weights, are calls, of which LLVM makes code in a fifth of the time. */
#define INLINE_MOST 16

static void release_inputs(Fn *f)
{
    Plan *p = f->plan;
    void (*release)(Fn *, Repr, Ssa) =
        p->inputs.n + f->waiting.n > INLINE_MOST ? fn_release_cold : fn_release;
    for (size_t i = 0; i < p->inputs.n; i++)
        if (p->inputs.at[i].held) {
            fn_cut(f);
            release(f, (Repr){.kind = REPR_TENSOR}, p->inputs.at[i].held);
        }
    for (size_t i = 0; i < f->waiting.n; i++) {
        fn_cut(f);
        Val *val = ptrmap_find(&f->vals, f->waiting.at[i]);
        release(f, val->repr, val->at);
    }
    f->waiting.n = 0;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

static void count_owners(const Item *item)
{
    if (item->n < 0)
        item->tensor->owners++;
    for (int i = 0; i < item->n; i++)
        item->fields[i].tensor->owners++;
}

/* A count for each owner: making tuples may fail before it has them. */
static void hold_result(Fn *f, const Held *h)
{
    for (uint32_t i = 0; h->wanted && !is_scalar(h->type) && i < h->owners; i++) {
        fn_cut(f);
        if (i > 0)
            fn_retain(f, repr_of(h->type), h->made);
        fn_hold(f, h->type, h->made);
    }
}

static Ssa give(Fn *f, const Held *h)
{
    if (!is_scalar(h->type))
        fn_unhold(f, h->made);
    return h->made;
}

static void bind_result(Fn *f, const Waiting *w)
{
    Val *val = ptrmap_find(&f->vals, w->let->var);
    const Item *item = w->item;
    if (item->n < 0) {
        val->at = give(f, item->tensor);
        val->dense = true;
        return;
    }
    uint32_t n = (uint32_t)item->n;
    Repr *fields = arena_new_array(f->g->arena, Repr, n + 1);
    for (uint32_t i = 0; i < n; i++)
        fields[i] = repr_of(item->fields[i].tensor->type);
    Ssa object = fn_object(f, VALUE_TUPLE, NULL, n, fields);
    for (uint32_t i = 0; i < n; i++) {
        fn_cut(f);
        fn_set_field(f, object, i, fields[i], give(f, item->fields[i].tensor));
    }
    val->at = object;
}

/* Where the elements of an argument are; a number gets a room. */
static Ssa argument_address(Fn *f, const Input *in)
{
    Gen *g = f->g;
    const Type *t = in->tensor->type;
    if (!in->tensor->needed)
        return LLVMConstNull(g->ptr);
    if (!is_scalar(t))
        return elements_of(g, in->held ? in->held : in->value);
    Ssa room = fn_room(f, g->i64, 1);
    gen_store(g, gen_to_stored(g, t->dtype, in->value), room, 0);
    return room;
}

/* The whole run on the card, as it was recorded. */
static void call_device(Fn *f, const DeviceProgram *program)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    DeviceRun *run = device_run_make(g->device_code, g->arena, program);
    g->unit->counts.calls += program->n_steps;
    /* Of each a DeviceValue. */
    Ssa list = fn_room(f, g->ptr, 2 * (program->n_arguments + program->n_results) + 1);
    size_t at = 0;
    for (size_t i = 0; i < p->inputs.n; i++, at += sizeof(DeviceValue)) {
        const Input *in = &p->inputs.at[i];
        bool tensor = in->tensor->needed && !is_scalar(in->tensor->type);
        gen_store(g, argument_address(f, in), list, at);
        gen_store(g,
                  !tensor    ? LLVMConstNull(g->ptr)
                  : in->held ? in->held
                             : in->value,
                  list, at + offsetof(DeviceValue, tensor));
    }
    for (size_t i = 0; i < p->helds.n; i++) {
        Held *h = p->helds.at[i];
        if (!h->wanted)
            continue;
        bool number = is_scalar(h->type);
        gen_store(g, number ? h->at : elements_of(g, h->made), list, at);
        gen_store(g, number ? LLVMConstNull(g->ptr) : h->made, list,
                  at + offsetof(DeviceValue, tensor));
        at += sizeof(DeviceValue);
    }
    Ssa args[3] = {f->state, gen_outside(g, IMPORT_RUN, run), list};
    gen_call_abi(g, "relay_device", args, 3);
}

static void make_run(Fn *f, size_t bytes, const DeviceProgram *program)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    SsaList held = {0};
    /* Tensors without elements may be all that lies in it. */
    Ssa block = LLVMConstNull(g->ptr);
    p->fail = NULL;
    hold_inputs(f, &held);
    make_results(f, &held);
    bool on_device = g->device_code && program->n_steps > 0, scratch = bytes > 0 && !on_device;
    if (scratch) {
        Ssa args[2] = {f->state, gen_int(g->i64, (int64_t)bytes)};
        block = gen_call_abi(g, "relay_scratch", args, 2);
    }
    if (held.n > 0 || scratch)
        leave_if_failed(f, &held);
    if (on_device) {
        call_device(f, program);
        leave_if_failed(f, &held);
    }
    for (size_t i = 0; i < p->steps.n; i++) {
        if (!p->steps.at[i]->kernel)
            continue;
        call_kernel(f, p->steps.at[i], block);
        if (p->steps.at[i]->kernel->fails)
            leave_if_failed(f, &held);
    }
    read_results(f);
    release_inputs(f);
    for (size_t i = 0; i < p->lets.n; i++)
        if (is_wanted(f, &p->lets.at[i]))
            count_owners(p->lets.at[i].item);
    for (size_t i = 0; i < p->helds.n; i++)
        hold_result(f, p->helds.at[i]);
    for (size_t i = 0; i < p->inputs.n; i++)
        hold_result(f, p->inputs.at[i].tensor);
    for (size_t i = 0; i < p->lets.n; i++)
        if (is_wanted(f, &p->lets.at[i]))
            bind_result(f, &p->lets.at[i]);
}

void plan_flush(Fn *f)
{
    Plan *p = f->plan;
    size_t bytes = 0;
    if (p->lets.n == 0 || p->flushing || f->g->failed)
        return;
    p->flushing = true;
    const DeviceProgram *program = NULL;
    if (plan_run(f, &bytes) && f->g->ptx)
        program = record_run(f->g->ptx, p, bytes);
    if (!f->g->failed)
        make_run(f, bytes, program);
    p->flushing = false;
    p->lets.n = p->inputs.n = p->steps.n = p->helds.n = p->needs.n = p->harmless = 0;
    ptrmap_clear(&p->index);
    ptrmap_clear(&p->arguments);
    ptrmap_clear(&p->reads);
}
