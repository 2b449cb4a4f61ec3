/* Quotients by roots, such as those of what is normalised by its deviation: where many elements are divided by one root, they are multiplied by
 * one over it, as a division takes as long as several products. */
#include "sched/sched.h"

#include "te/walk.h"

typedef struct Roots {
    TeBuilder b; /* of the new program */
    const TeProgram *p;
    TeTensor *made; /* by id of the old program */
    bool *is; /* by id of the old program: a root that is a divisor alone */
    bool *many; /* and one of more elements than there are roots */
    const TeStage *reader;
} Roots;

/* What is computed, before it is folded. */
static double elements(const TeStage *t)
{
    double n = 1;
    for (int i = 0; i < t->rank; i++)
        n *= (double)t->shape[i];
    for (int i = 0; i < t->n_reduced; i++)
        n *= (double)t->reduced[i];
    return n;
}

static void note_root(Roots *r, const Te *e, bool divides)
{
    if (e->kind != TE_NODE_LOAD)
        return;
    r->is[e->tensor] &= divides && !e->otherwise;
    r->many[e->tensor] |= r->is[e->tensor] &&
                          elements(r->reader) > elements(&r->p->stages[e->tensor - r->p->n_inputs]);
}

static void find_divisors(void *data, Te *e)
{
    bool quotient = e->kind == TE_NODE_BINARY && e->op == TE_DIV;
    for (int i = 0; i < te_children(e); i++)
        note_root(data, te_child(e, i), quotient && i == 1);
}

/* Whether there are any. */
static bool find_roots(Roots *r, Arena *arena)
{
    const TeProgram *p = r->p;
    bool any = false;
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *t = &p->stages[i];
        r->is[p->n_inputs + i] = t->reduce == TE_NO_REDUCE && t->body->kind == TE_NODE_UNARY &&
                                 t->body->op == TE_SQRT && dtype_is_float(t->dtype);
    }
    for (int i = 0; i < p->n_outputs; i++)
        r->is[p->outputs[i]] = false;
    for (int i = 0; i < p->n_stages; i++) {
        PtrMap seen = {0};
        r->reader = &p->stages[i];
        note_root(r, r->reader->body, false);
        te_each(arena, &seen, r->reader->body, find_divisors, r);
        ptrmap_deinit(&seen);
    }
    for (int i = 0; i < p->n_stages; i++) {
        r->is[p->n_inputs + i] &= r->many[p->n_inputs + i];
        any |= r->is[p->n_inputs + i];
    }
    return any;
}

static Te *by_inverse(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Roots *r = data;
    if (e->kind == TE_NODE_LOAD)
        return te_load_or(b, r->made[e->tensor], e->index, e->otherwise);
    bool quotient = e->kind == TE_NODE_BINARY && e->op == TE_DIV;
    return quotient && old->b->kind == TE_NODE_LOAD && r->is[old->b->tensor]
               ? te_binary(b, TE_MUL, e->a, e->b)
               : NULL;
}

const TeProgram *root_program(const Sched *s)
{
    const TeProgram *p = s->p;
    Roots r = {.p = p};
    size_t n = (size_t)p->n_inputs + (size_t)p->n_stages + 1;
    r.is = arena_alloc_must(s->arena, n, sizeof *r.is);
    r.many = arena_alloc_must(s->arena, n, sizeof *r.many);
    if (!find_roots(&r, s->arena))
        return p;
    r.made = te_begin_from(&r.b, s->cx, s->arena, p);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *t = &p->stages[i];
        bool root = r.is[p->n_inputs + i];
        Te *body = te_rewrite(&r.b, root ? t->body->a : t->body, by_inverse, &r);
        body = root ? te_unary(&r.b, TE_RSQRT, body) : body;
        r.made[p->n_inputs + i] = te_add_stage(&r.b, t, body);
        vec_last(&r.b.stages).name = t->name;
    }
    return te_finish_from(&r.b, p, r.made);
}
