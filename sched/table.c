/* Tables that no input decides, such as the rows that a resized image takes: they are filled while code is made. Where the numbers turn out
 * to be those of a multiplication or a division, loads go by that, and loops see how their positions step. */
#include "sched/strategy.h"

#include "te/walk.h"

#define TABLE_MOST 65536

/* The number at i is i * by / over. */
typedef struct Rule {
    int64_t by, over; /* over 0: there is none */
} Rule;

typedef struct Tables {
    TeBuilder b; /* of the new program */
    TeTensor *made; /* by id of the old program */
    Rule *rule; /* by stage of the old program */
    int n_inputs;
} Tables;

static void find_load(void *data, Te *e)
{
    *(bool *)data |= e->kind == TE_NODE_LOAD;
}

static bool is_table(const Sched *s, const TeStage *t)
{
    PtrMap seen = {0};
    bool loads = t->reduce != TE_NO_REDUCE || t->rank != 1 || t->shape[0] < 1 ||
                 t->shape[0] > TABLE_MOST || t->dtype.code != DTYPE_CODE_INT || t->dtype.bits != 64;
    if (!loads)
        te_each(s->arena, &seen, t->body, find_load, &loads);
    ptrmap_deinit(&seen);
    return !loads;
}

static Tensor *fill(const Sched *s, const TeStage *t)
{
    TeBuilder b;
    te_begin(&b, s->cx, s->arena);
    TeTensor table = te_map(&b, t->dtype, 1, t->shape, t->body);
    const TeProgram *p = te_finish(&b, 1, &table, false);
    Tensor *filled = NULL;
    return p && te_run(s->cx, p, (Span){0}, NULL, &filled) ? filled : NULL;
}

static Rule rule_of(const int64_t *v, int64_t n)
{
    Rule r = {1, 1};
    int64_t step = 1;
    while (step < n && v[step] == 0)
        step++;
    if (step < n && v[step] > TABLE_MOST)
        return (Rule){0};
    if (step > 1)
        r.over = step;
    else if (n > 1)
        r.by = v[1];
    for (int64_t i = 0; i < n; i++)
        if (v[i] != i * r.by / r.over)
            return (Rule){0};
    return r;
}

static Te *by_rule(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Tables *w = data;
    (void)old;
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    const Rule *r = e->tensor < w->n_inputs ? NULL : &w->rule[e->tensor - w->n_inputs];
    if (!r || r->over == 0 || e->otherwise)
        return te_load_or(b, w->made[e->tensor], e->index, e->otherwise);
    Te *at = te_binary(b, TE_MUL, e->index[0], te_int(b, r->by));
    return te_binary(b, TE_DIV, at, te_int(b, r->over));
}

const TeProgram *table_program(const Sched *s)
{
    const TeProgram *p = s->p;
    bool any = false;
    Tables w = {.n_inputs = p->n_inputs};
    w.rule = arena_alloc_must(s->arena, (size_t)p->n_stages + 1, sizeof *w.rule);
    for (int i = 0; i < p->n_stages; i++) {
        Tensor *filled = is_table(s, &p->stages[i]) ? fill(s, &p->stages[i]) : NULL;
        w.rule[i] = filled ? rule_of((const int64_t *)filled->data, filled->size) : (Rule){0};
        any |= w.rule[i].over != 0;
        if (filled)
            tensor_release(filled);
    }
    if (!any)
        return p;
    w.made = te_begin_from(&w.b, s->cx, s->arena, p);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *t = &p->stages[i];
        w.made[p->n_inputs + i] = te_add_stage(&w.b, t, te_rewrite(&w.b, t->body, by_rule, &w));
        vec_last(&w.b.stages).name = t->name;
    }
    return te_finish_from(&w.b, p, w.made);
}
