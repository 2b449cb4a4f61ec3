/* Looking for motifs.
 *
 * Each motif that was found stands for one node; where an attempt fails, what it found is forgotten. Along the paths of `dominates`,
 * and only there, a motif may stand for several. */
#include "passes/motif.h"

#include "ir/op.h"
#include "ir/walk.h"

#include <string.h>

static bool match(MotifSearch *s, const Motif *m, const Expr *e);

/* ---- what was found ------------------------------------------------------------------------------------------------- */

static MotifFound *found_of(MotifSearch *s, const Motif *m)
{
    while (s->found.n <= m->index)
        vec_push(&s->found, s->arena, (MotifFound){0});
    return &s->found.at[m->index];
}

static void forget(MotifSearch *s, size_t mark)
{
    while (s->order.n > mark)
        s->found.at[vec_pop(&s->order)].at.n = 0;
}

/* A motif that the text does not have: what it has stands for the same in another order. */
static const Motif *rearranged(MotifSearch *s, const Motif *callee, const Motif *x, const Motif *y)
{
    Motif *m = arena_new(s->arena, Motif);
    const Motif *parts[] = {callee, x, y};
    *m = (Motif){.kind = MOTIF_CALL, .index = (uint32_t)s->found.n, .n = 3};
    m->parts = arena_copy(s->arena, parts, sizeof parts);
    found_of(s, m);
    return m;
}

/* ---- values ---------------------------------------------------------------------------------------------------------- */

static bool same_value(const AttrValue *has, const AttrValue *wants)
{
    if (has->kind != wants->kind)
        return false;
    switch (has->kind) {
    case ATTR_NONE: return true;
    case ATTR_INT: return has->i == wants->i;
    case ATTR_FLOAT: return (float)has->f == (float)wants->f;
    case ATTR_BOOL: return has->b == wants->b;
    case ATTR_STRING: return str_eq(has->s, wants->s);
    case ATTR_LIST:
        if (has->list.n != wants->list.n)
            return false;
        for (uint32_t i = 0; i < has->list.n; i++)
            if (!same_value(&has->list.at[i], &wants->list.at[i]))
                return false;
        return true;
    case ATTR_EXPR:
    case ATTR_RECORD:
    case ATTR_TEXT: return false;
    }
    return false;
}

static bool has_attrs(const Expr *e, const Attrs *wanted)
{
    const Call *call = expr_as_call(e);
    const Function *f = expr_as_function(e);
    const OpRef *op = expr_as_op(e);
    for (uint32_t i = 0; i < wanted->n; i++) {
        AttrValue pattern = {.kind = ATTR_INT, .i = op ? op->op->pattern : 0};
        const char *key = wanted->at[i].key;
        const AttrValue *has = op ? (!strcmp(key, "TOpPattern") ? &pattern : NULL)
                                  : attrs_find(call ? call->attrs
                                               : f  ? f->attrs
                                                    : NULL,
                                               key);
        if (!has || !same_value(has, &wanted->at[i].value))
            return false;
    }
    return true;
}

static bool has_type(const Motif *m, const Expr *e)
{
    const Type *t = e->type ? type_find(e->type) : NULL;
    const AttrValue *wants = &m->attrs->at[0].value;
    DType dtype;
    if (!t || t->kind != TYPE_TENSOR)
        return false;
    if (m->kind == MOTIF_DTYPE)
        return dtype_parse(wants->s, &dtype) && dtype_eq(t->dtype, dtype);
    if (t->n != wants->list.n)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (wants->list.at[i].kind != ATTR_INT || wants->list.at[i].i != t->dims[i])
            return false;
    return true;
}

/* ---- calls ------------------------------------------------------------------------------------------------------------ */

static bool match_args(MotifSearch *s, const Motif *m, const Call *call, bool reversed)
{
    size_t mark = s->order.n;
    uint32_t n = m->n - 1;
    for (uint32_t i = 0; i < n; i++) {
        if (match(s, m->parts[1 + (reversed ? n - 1 - i : i)], call->args.at[i]))
            continue;
        forget(s, mark);
        return false;
    }
    return true;
}

static bool calls(const Motif *m, const char *op)
{
    return m->kind == MOTIF_CALL && m->n == 3 && m->parts[0]->kind == MOTIF_OP &&
           !strcmp(m->parts[0]->op->name, op);
}

static bool is_call(const Expr *e, const char *name)
{
    const Op *op = expr_call_of_op(e);
    return op && !strcmp(op->name, name);
}

static bool has_arg(const Call *call, const char *op)
{
    return is_call(call->args.at[0], op) || is_call(call->args.at[1], op);
}

/* (a b) / c as a (b / c). */
static bool match_quotient(MotifSearch *s, const Motif *m, const Call *call)
{
    const Motif *product = m->parts[1];
    if (!calls(m, "divide") || !calls(product, "multiply") || !is_call(&call->base, "multiply") ||
        !has_arg(call, "divide"))
        return false;
    for (uint32_t i = 0; i < 2; i++) {
        const Motif *quotient = rearranged(s, m->parts[0], product->parts[1 + i], m->parts[2]);
        if (match(s, rearranged(s, product->parts[0], product->parts[2 - i], quotient),
                  &call->base))
            return true;
    }
    return false;
}

/* a (b / c) as (b a) / c. */
static bool match_product(MotifSearch *s, const Motif *m, const Call *call)
{
    if (!calls(m, "multiply") || !is_call(&call->base, "divide") || !has_arg(call, "multiply"))
        return false;
    for (uint32_t i = 1; i < 3; i++) {
        const Motif *quotient = m->parts[i];
        if (!calls(quotient, "divide"))
            continue;
        const Motif *product = rearranged(s, m->parts[0], quotient->parts[1], m->parts[3 - i]);
        return match(s, rearranged(s, quotient->parts[0], product, quotient->parts[2]),
                     &call->base);
    }
    return false;
}

static bool match_call(MotifSearch *s, const Motif *m, const Expr *e)
{
    const Call *call = expr_as_call(e);
    if (!call)
        return false;
    if (!match(s, m->parts[0], call->callee))
        return match_quotient(s, m, call) || match_product(s, m, call);
    if (m->open)
        return true;
    if (m->n - 1 != call->args.n)
        return false;
    return match_args(s, m, call, false) ||
           ((calls(m, "add") || calls(m, "multiply")) && match_args(s, m, call, true));
}

/* ---- paths ------------------------------------------------------------------------------------------------------------ */

typedef struct Step {
    Vec(Expr *) inputs;
    size_t next;
} Step;

typedef struct Climb {
    MotifSearch *search;
    Vec(Step) steps;
    PtrMap seen;
} Climb;

static void note_input(void *data, Expr *const *slot)
{
    Climb *c = data;
    if (!expr_as_op(*slot))
        vec_push(&vec_last(&c->steps).inputs, c->search->arena, *slot);
}

static void climb_from(Climb *c, const Expr *e)
{
    vec_push(&c->steps, c->search->arena, (Step){0});
    ptrmap_put(&c->seen, e, NULL);
    ir_children(e, note_input, c);
}

/* Going up from the arguments of e, every node is the parent, behind which its sisters count no more, or lies on the path. */
static bool climb(MotifSearch *s, const Motif *m, const Expr *e)
{
    const Motif *parent = m->parts[0], *path = m->parts[1];
    Climb c = {.search = s};
    bool good = true;
    climb_from(&c, e);
    while (good && c.steps.n) {
        Step *top = &vec_last(&c.steps);
        if (top->next == top->inputs.n) {
            c.steps.n--;
            continue;
        }
        Expr *input = top->inputs.at[top->next++];
        if (match(s, parent, input)) {
            top->next = top->inputs.n;
            continue;
        }
        s->anew = true;
        good = match(s, path, input);
        s->anew = false;
        if (good && !ptrmap_has(&c.seen, input))
            climb_from(&c, input);
    }
    ptrmap_deinit(&c.seen);
    return good && found_of(s, parent)->at.n > 0;
}

/* ---- any motif -------------------------------------------------------------------------------------------------------- */

static bool match_tuple(MotifSearch *s, const Motif *m, const Expr *e)
{
    const Tuple *t = expr_as_tuple(e);
    bool good = t && t->fields.n == m->n;
    for (uint32_t i = 0; good && i < m->n; i++)
        good = match(s, m->parts[i], t->fields.at[i]);
    return good;
}

static bool match_kind(MotifSearch *s, const Motif *m, const Expr *e)
{
    const TupleGet *get = expr_as_tuple_get(e);
    switch (m->kind) {
    case MOTIF_ANY: return true;
    case MOTIF_CONSTANT: return e->kind == EXPR_CONSTANT;
    case MOTIF_VAR: return e->kind == EXPR_VAR;
    case MOTIF_OP: return e->kind == EXPR_OP && expr_as_op(e)->op == m->op;
    case MOTIF_CALL: return match_call(s, m, e);
    case MOTIF_TUPLE: return match_tuple(s, m, e);
    case MOTIF_GET:
        return get && (m->field < 0 || m->field == get->index) && match(s, m->parts[0], get->tuple);
    case MOTIF_EITHER: return match(s, m->parts[0], e) || match(s, m->parts[1], e);
    case MOTIF_ATTRS: return match(s, m->parts[0], e) && has_attrs(e, m->attrs);
    case MOTIF_DTYPE:
    case MOTIF_SHAPE: return match(s, m->parts[0], e) && has_type(m, e);
    case MOTIF_DOMINATES: return match(s, m->parts[2], e) && climb(s, m, e);
    }
    return false;
}

static bool match(MotifSearch *s, const Motif *m, const Expr *e)
{
    const MotifFound *known = found_of(s, m);
    if (!s->anew && known->at.n)
        return known->at.at[0] == e;
    /* What may be turned round can be tried in very many ways. */
    if (s->steps++ % 1024 == 1023 && limit_hit(&s->cx->limits))
        return false;
    size_t mark = s->order.n;
    if (!match_kind(s, m, e)) {
        forget(s, mark);
        return false;
    }
    vec_push(&found_of(s, m)->at, s->arena, (Expr *)(uintptr_t)e);
    vec_push(&s->order, s->arena, m->index);
    return true;
}

MotifSearch *motif_search(Ctx *cx, Arena *arena, const Motif *motif)
{
    MotifSearch *s = arena_new(arena, MotifSearch);
    *s = (MotifSearch){.cx = cx, .arena = arena, .motif = motif};
    found_of(s, motif); /* the last that was read: behind it come those that are rearranged */
    return s;
}

bool motif_matches(MotifSearch *s, const Expr *e)
{
    forget(s, 0);
    s->found.n = s->motif->index + 1;
    return match(s, s->motif, e);
}

/* ---- leaves ----------------------------------------------------------------------------------------------------------- */

typedef struct Leaves {
    MotifSearch *search;
    PtrMap seen; /* motifs */
    PtrMap inner; /* nodes on the paths of `dominates`, which are no leaves */
    void (*found)(void *data, Expr *e);
    void *data;
} Leaves;

static void each_part(Leaves *l, const Motif *m, void (*visit)(Leaves *l, const Motif *m))
{
    if (ptrmap_has(&l->seen, m))
        return;
    ptrmap_put(&l->seen, m, NULL);
    for (uint32_t i = 0; i < m->n; i++)
        each_part(l, m->parts[i], visit);
    visit(l, m);
}

static void note_inner(Leaves *l, const Motif *m)
{
    for (int k = 0; m->kind == MOTIF_DOMINATES && k < 2; k++) {
        const MotifFound *f = found_of(l->search, m->parts[k]);
        for (size_t i = 0; i < f->at.n; i++)
            ptrmap_put(&l->inner, f->at.at[i], NULL);
    }
}

static void tell(Leaves *l, const Motif *m, Expr *e)
{
    bool embedded = e->kind == EXPR_CONSTANT && m->kind == MOTIF_CONSTANT;
    if (!embedded && e->kind != EXPR_OP && e->kind != EXPR_FUNCTION && !ptrmap_has(&l->inner, e))
        l->found(l->data, e);
}

static void tell_leaf(Leaves *l, const Motif *m)
{
    const MotifFound *f = found_of(l->search, m);
    for (size_t i = 0; i < f->at.n; i++) {
        const Call *call = expr_as_call(f->at.at[i]);
        for (uint32_t k = 0; m->open && k < call->args.n; k++)
            tell(l, m, call->args.at[k]);
        if (m->n == 0)
            tell(l, m, f->at.at[i]);
    }
}

void motif_leaves(MotifSearch *s, void (*found)(void *data, Expr *e), void *data)
{
    Leaves l = {.search = s, .found = found, .data = data};
    each_part(&l, s->motif, note_inner);
    ptrmap_clear(&l.seen);
    each_part(&l, s->motif, tell_leaf);
    ptrmap_deinit(&l.seen);
    ptrmap_deinit(&l.inner);
}
