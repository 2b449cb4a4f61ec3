/* Where the lanes of a load lie that goes by several indices: a part that all lanes share, and numbers that are known when code is made. */
#include "jit/emit.h"

static Ssa sum(Gen *g, Ssa a, Ssa b)
{
    return !a ? b : !b ? a : LLVMBuildAdd(g->b, a, b, "");
}

static Ssa times(Gen *g, Ssa a, int64_t by)
{
    return !a || by == 1 ? a : by == 0 ? NULL : LLVMBuildMul(g->b, a, gen_int(g->i64, by), "");
}

Ssa emit_running_part(Emit *e, const NestLinear *l, int64_t by)
{
    Gen *g = e->g;
    Ssa v = NULL;
    for (int i = 0; i < l->n; i++) {
        const EmitLevel *level = &e->level[e->depth_of[l->term[i].var] - 1];
        if (!emit_is_straight(level->node))
            v = sum(g, v, times(g, level->value, l->term[i].by / by));
    }
    return v;
}

static bool divides_running(Emit *e, const NestLinear *l, int64_t by)
{
    bool all = true;
    for (int i = 0; i < l->n; i++) {
        const EmitLevel *level = &e->level[e->depth_of[l->term[i].var] - 1];
        all &= emit_is_straight(level->node) || l->term[i].by % by == 0;
    }
    return all;
}

/* The position without what running loops add, by lane. */
static void known_lanes(Emit *e, const NestLinear *l, EmitForm *out)
{
    const NestNode *vector = e->level[e->vector].node;
    int64_t first = emit_known_part(e, l), by = nest_coefficient(l, vector->var);
    for (int i = 0; i < vector->lanes; i++)
        out->lane[i] = first + by * i;
}

/* A position that is divided, which is not below zero. */
static bool form_of_part(Emit *e, const Te *x, EmitForm *out)
{
    int64_t by, low, high;
    const NestNode *vector = e->level[e->vector].node;
    const NestLinear *l = emit_linear(e, x->a), *divisor = emit_linear(e, x->b);
    if (!l || !divisor || divisor->n > 0 || divisor->c < 1)
        return false;
    by = divisor->c;
    if (!divides_running(e, l, by) || !nest_bounds(x->a, e->level[e->depth].node, &low, &high) ||
        low < 0)
        return false;
    known_lanes(e, l, out);
    for (int i = 0; i < vector->lanes; i++) {
        /* A part may be below zero where running loops make up for it. */
        int64_t v = out->lane[i], rest = (v % by + by) % by;
        out->lane[i] = x->op == TE_MOD ? rest : (v - rest) / by;
    }
    out->start = x->op == TE_MOD ? NULL : emit_running_part(e, l, by);
    return true;
}

static bool form_of_sum(Emit *e, const Te *x, EmitForm *out)
{
    Gen *g = e->g;
    EmitForm b;
    if (!emit_form(e, x->a, out) || !emit_form(e, x->b, &b))
        return false;
    if (b.start && x->op == TE_SUB)
        b.start = LLVMBuildNeg(g->b, b.start, "");
    out->start = sum(g, out->start, b.start);
    for (int i = 0; i < e->level[e->vector].node->lanes; i++)
        out->lane[i] += x->op == TE_SUB ? -b.lane[i] : b.lane[i];
    return true;
}

static bool form_of_product(Emit *e, const Te *x, EmitForm *out)
{
    const NestLinear *by = emit_linear(e, x->b);
    if (!by || by->n > 0 || !emit_form(e, x->a, out))
        return false;
    out->start = times(e->g, out->start, by->c);
    for (int i = 0; i < e->level[e->vector].node->lanes; i++)
        out->lane[i] *= by->c;
    return true;
}

bool emit_form(Emit *e, const Te *x, EmitForm *out)
{
    const NestLinear *l = emit_linear(e, x);
    *out = (EmitForm){0};
    if (l) {
        out->start = emit_running_part(e, l, 1);
        known_lanes(e, l, out);
        return true;
    }
    if (!emit_is_vector(e, x)) {
        out->start = emit_value(e, x);
        return true;
    }
    if (x->kind != TE_NODE_BINARY)
        return false;
    switch (x->op) {
    case TE_ADD:
    case TE_SUB: return form_of_sum(e, x, out);
    case TE_DIV:
    case TE_MOD: return form_of_part(e, x, out);
    case TE_MUL: return form_of_product(e, x, out);
    default: return false;
    }
}

Ssa emit_form_lanes(Emit *e, const Te *x)
{
    Gen *g = e->g;
    EmitForm f;
    Ssa parts[64];
    Lanes l = emit_lanes_of(e, true);
    if (l.n < 2 || !emit_form(e, x, &f))
        return NULL;
    for (unsigned i = 0; i < l.n; i++)
        parts[i] = gen_int(g->i64, f.lane[i]);
    Ssa known = LLVMConstVector(parts, l.n);
    return f.start ? LLVMBuildAdd(g->b, lanes_splat(&l, f.start), known, "") : known;
}

/* Whether an index that has this form stays in its extent. */
static void look_outside(Emit *e, const Te *index, const EmitForm *form, int64_t extent,
                         EmitForm *out)
{
    int64_t low, high;
    if (nest_bounds(index, e->level[e->depth].node, &low, &high) && low >= 0 && high < extent)
        return;
    out->may_leave |= form->start != NULL;
    for (int k = 0; k < e->level[e->vector].node->lanes; k++)
        out->outside |= (uint64_t)(form->lane[k] < 0 || form->lane[k] >= extent) << k;
}

bool emit_form_of_load(Emit *e, const Te *x, EmitForm *out)
{
    const NestBuffer *b = &e->n->buffers.at[x->tensor];
    int64_t stride = 1;
    *out = (EmitForm){0};
    for (int i = x->n - 1; i >= 0; i--) {
        EmitForm index;
        if (!emit_form(e, x->index[i], &index))
            return false;
        out->start = sum(e->g, out->start, times(e->g, index.start, stride));
        if (x->otherwise)
            look_outside(e, x->index[i], &index, x->n == 1 ? b->size : b->shape[i], out);
        for (int k = 0; k < e->level[e->vector].node->lanes; k++)
            out->lane[k] += stride * index.lane[k];
        stride *= x->n == 1 ? 1 : b->shape[i];
    }
    return true;
}
