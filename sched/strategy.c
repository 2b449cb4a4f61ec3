#include "sched/conv.h"
#include "te/walk.h"

/* Whether the tail's axes are the images' of the convolution. */
static bool takes_images(const Sched *s, int stage, int tail)
{
    Conv c;
    const TeStage *t = &s->p->stages[tail];
    return (conv_of(s->p, stage, &c) || pool_of(s->p, stage, &c)) &&
           t->rank == c.rank + (c.out_block > 1) && t->shape[0] == c.n &&
           t->shape[1] * c.out_block == c.groups * c.oc &&
           (c.rank == 3 || t->shape[2] == c.y.out) && t->shape[c.rank - 1] == c.x.out &&
           (c.out_block == 1 || t->shape[4] == c.out_block);
}

/* Whether the tail's axes may be gone through as the product's columns, rows and batches, which lie in this order. */
static bool takes_matrix(const Sched *s, int stage, int tail)
{
    NestProduct q;
    NestSide outer;
    int64_t extent[TAIL_SIDES], step = 1;
    int axis[TAIL_SIDES];
    if (!product_sides(s->p, stage, &q, &outer))
        return false;
    const NestSide *const side[TAIL_SIDES] = {&q.n, &q.m, &q.batch, &outer};
    for (int i = 0; i < TAIL_SIDES; step *= side[i++]->extent)
        if ((extent[i] = side[i]->extent) > 1 && side[i]->c != step)
            return false;
    return tail_sides(s, tail, extent, axis);
}

static const Strategy strategies[] = {
    {"winograd", winograd_fits, winograd_cost, takes_images, winograd_build, winograd_elsewhere},
    {"direct", direct_fits, direct_cost, takes_images, direct_build, blocked_elsewhere},
    {"matrix", matrix_fits, matrix_cost, takes_images, matrix_build, NULL},
    {"blocked", blocked_fits, blocked_cost, takes_images, blocked_build, NULL},
    {"depthwise", depthwise_fits, depthwise_cost, takes_images, depthwise_build,
     channels_elsewhere},
    {"channels", channels_fits, channels_cost, takes_images, channels_build, NULL},
    {"packed", packed_fits, packed_cost, takes_matrix, packed_build, NULL},
    {"matrices", matrices_fits, matrices_cost, takes_matrix, matrices_build, NULL},
    {"plain", plain_fits, plain_cost, takes_matrix, plain_build, NULL},
    {"turned", turned_fits, turned_cost, takes_matrix, turned_build, NULL},
    {"product", product_fits, product_cost, NULL, product_build, NULL},
    {"slid", slid_fits, slid_cost, NULL, slid_build, NULL},
};

bool strategy_is_idle(const TeStage *st)
{
    bool idle = false;
    for (int a = 0; a < st->rank; a++)
        idle |= st->shape[a] == 0;
    for (int a = 0; a < st->n_reduced; a++)
        idle |= st->reduced[a] == 0;
    return idle;
}

/* Each of them sums in an order of its own, which is nothing to integers. */
const Strategy *strategy_of(const Sched *s, int stage)
{
    const Strategy *best = NULL;
    double least = 0;
    const TeStage *st = &s->p->stages[stage];
    bool any = !strategy_is_idle(st) && (s->m->reorders || !dtype_is_float(st->dtype));
    for (size_t i = 0; any && i < sizeof strategies / sizeof *strategies; i++) {
        if (!strategies[i].fits(s, stage))
            continue;
        double cost = strategies[i].cost(s, stage);
        if (!best || cost < least) {
            best = &strategies[i];
            least = cost;
        }
    }
    double folds = best ? folds_cost(s, stage) : -1;
    return folds >= 0 && folds < least ? NULL : best;
}

int64_t sched_block(const Sched *s, int64_t channels)
{
    int64_t half = s->lanes / 2;
    return channels % s->lanes == 0 ? s->lanes : channels % half == 0 ? half : 1;
}

#define TURNED_PLANES 1.15

bool sched_layout(Ctx *cx, Arena *arena, const Machine *m, const TeProgram *p,
                  const Tensor *const *known, SchedLayout *out)
{
    Sched s = {.cx = cx,
               .arena = arena,
               .m = m,
               .p = p,
               .known = known,
               .lanes = (int)m->vector_bytes / 4};
    Conv c;
    SchedLayout l;
    int stage = 0;
    while (stage < p->n_stages && !conv_of(p, stage, &c))
        stage++;
    const Strategy *row = stage < p->n_stages ? strategy_of(&s, stage) : NULL;
    /* What computes planes next to others in blocks turns them. */
    double least = row ? TURNED_PLANES * row->cost(&s, stage) : -1;
    double planes = row ? planes_cost(&s, stage) : -1;
    least = planes >= 0 && planes < least ? planes : least;
    bool found = false;
    for (size_t i = 0; row && i < sizeof strategies / sizeof *strategies; i++) {
        double cost = strategies[i].elsewhere ? strategies[i].elsewhere(&s, stage, &l) : -1;
        if (cost < 0 || cost > least)
            continue;
        least = cost;
        *out = l;
        found = true;
    }
    return found;
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
    int64_t step = 0;
    bool any = false;
    for (int i = r->last; i >= r->first && r->flat; i--) {
        if (r->s->shape[i] == 1)
            continue;
        r->flat = !any || at.stride[i] == step;
        step = at.stride[i] * r->s->shape[i];
        any = true;
    }
}

static void look_at_axis(void *data, Te *e)
{
    Reads *r = data;
    r->flat = r->flat && (e->kind != TE_NODE_AXIS || e->axis < r->first || e->axis > r->last);
}

int tail_axis(const Sched *s, int tail, int first, int last)
{
    Reads r = {.p = s->p, .s = &s->p->stages[tail], .first = first, .last = last, .flat = true};
    PtrMap seen = {0};
    te_each(s->arena, &seen, r.s->body, look_at_load, &r);
    /* Axes outside of what says where loads read. */
    te_each(s->arena, &r.loads, r.s->body, look_at_axis, &r);
    ptrmap_deinit(&seen);
    ptrmap_deinit(&r.loads);
    int axis = last;
    while (axis > first && r.s->shape[axis] == 1)
        axis--;
    return r.flat ? axis : -1;
}

bool tail_sides(const Sched *s, int tail, const int64_t extent[TAIL_SIDES], int axis[TAIL_SIDES])
{
    const TeStage *t = &s->p->stages[tail];
    int last = t->rank - 1;
    for (int i = 0; i < TAIL_SIDES; i++) {
        int first = last + 1;
        for (int64_t size = 1; size != extent[i]; size *= t->shape[first])
            if (first-- == 0)
                return false;
        axis[i] = first > last ? -1 : tail_axis(s, tail, first, last);
        if (first <= last && axis[i] < 0)
            return false;
        last = first - 1;
    }
    return true;
}
