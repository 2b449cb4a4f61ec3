#include "sched/conv.h"
#include "te/walk.h"

/* Whether the tail's axes are the images' of the convolution. */
static bool takes_images(const Sched *s, int stage, int tail)
{
    Conv c;
    const TeStage *t = &s->p->stages[tail];
    return conv_of(s->p, stage, &c) && t->rank == 4 && t->shape[0] == c.n &&
           t->shape[1] == c.groups * c.oc && t->shape[2] == c.y.out && t->shape[3] == c.x.out;
}

/* Whether the tail's last axis is that of the product's columns, and the others may be gone through as its rows. */
static bool takes_matrix(const Sched *s, int stage, int tail)
{
    NestProduct q;
    const TeStage *t = &s->p->stages[tail];
    return product_sides(s->p, stage, &q) && t->rank > 0 && t->shape[t->rank - 1] == q.n.extent &&
           (q.m.extent == 1 || q.m.c == q.n.extent) &&
           tail_is_flat(s, &(Tail){.stage = tail}, 0, t->rank - 2);
}

static const Strategy strategies[] = {
    {"winograd", winograd_fits, winograd_cost, takes_images, winograd_build},
    {"direct", direct_fits, direct_cost, takes_images, direct_build},
    {"depthwise", depthwise_fits, depthwise_cost, takes_images, depthwise_build},
    {"packed", packed_fits, packed_cost, takes_matrix, packed_build},
    {"product", product_fits, product_cost, NULL, product_build},
};

/* Each of them sums in an order of its own. */
const Strategy *strategy_of(const Sched *s, int stage)
{
    const Strategy *best = NULL;
    double least = 0;
    for (size_t i = 0; s->m->reorders && i < sizeof strategies / sizeof *strategies; i++) {
        if (!strategies[i].fits(s, stage))
            continue;
        double cost = strategies[i].cost(s, stage);
        if (!best || cost < least) {
            best = &strategies[i];
            least = cost;
        }
    }
    return best;
}

/* ---- tails --------------------------------------------------------------------------------------------------------------- */

typedef struct Reads {
    const TeProgram *p;
    const TeStage *s;
    int first, last;
    PtrMap loads;
    bool flat;
} Reads;

static void look_at_load(void *data, Te *e)
{
    Reads *r = data;
    TeAffine at;
    if (e->kind != TE_NODE_LOAD)
        return;
    ptrmap_put(&r->loads, e, e);
    r->flat = r->flat && !e->otherwise && te_load_affine(r->p, e, &at);
    for (int i = r->first; i < r->last && r->flat; i++)
        r->flat = at.stride[i] == at.stride[i + 1] * r->s->shape[i + 1];
}

static void look_at_axis(void *data, Te *e)
{
    Reads *r = data;
    r->flat = r->flat && (e->kind != TE_NODE_AXIS || e->axis < r->first || e->axis > r->last);
}

bool tail_is_flat(const Sched *s, const Tail *t, int first, int last)
{
    if (t->stage < 0)
        return true;
    Reads r = {.p = s->p, .s = &s->p->stages[t->stage], .first = first, .last = last, .flat = true};
    PtrMap seen = {0};
    te_each(s->arena, &seen, r.s->body, look_at_load, &r);
    /* Axes outside of what says where loads read. */
    te_each(s->arena, &r.loads, r.s->body, look_at_axis, &r);
    ptrmap_deinit(&seen);
    ptrmap_deinit(&r.loads);
    return r.flat;
}
