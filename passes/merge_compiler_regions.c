/* Makes one region of those of one target that follow each other.
 *
 *     %1 = annotation.compiler_end(nn.relu(annotation.compiler_begin(%x, compiler="acc")), compiler="acc");
 *     annotation.compiler_end(exp(annotation.compiler_begin(%1, compiler="acc")), compiler="acc")
 *  => annotation.compiler_end(exp(nn.relu(annotation.compiler_begin(%x, compiler="acc"))), compiler="acc")
 *
 * Two regions stay apart where a path leads out of one and, through something else, back into the other: as one they would need
 * their own result. For each region and each node between regions it is known which regions are on the way to it behind
 * something else. */
#include "passes/annotate.h"
#include "passes/types.h"

#include <string.h>

/* Regions by their numbers. */
typedef struct Bits {
    uint64_t *at;
    size_t n; /* words */
} Bits;

/* A region, or a node that is in none. */
typedef struct Place {
    Region *region; /* as it was at first */
    const Expr *node;
    Bits behind;  /* the regions on the way to it, but with something between */
    Bits members; /* of a region: those that were merged into it, itself included */
    bool done, begun;
} Place;

typedef struct MergeRegions {
    Regions regions;
    PassRun *run;
    PtrMap places; /* node in no region -> Place */
    Vec(Place *) todo;
    Vec(Place *) parents; /* of the place at hand */
    PtrMap seen;
} MergeRegions;

static void bits_add(MergeRegions *m, Bits *to, const Bits *from)
{
    if (to->n < from->n) {
        uint64_t *at = arena_new_array(&m->run->scratch, uint64_t, from->n);
        if (!at)
            return;
        memset(at, 0, from->n * sizeof *at);
        if (to->n)
            memcpy(at, to->at, to->n * sizeof *at);
        *to = (Bits){at, from->n};
    }
    for (size_t i = 0; i < from->n; i++)
        to->at[i] |= from->at[i];
}

static bool bits_meet(const Bits *a, const Bits *b)
{
    for (size_t i = 0; i < a->n && i < b->n; i++)
        if (a->at[i] & b->at[i])
            return true;
    return false;
}

static Place *place_of_region(MergeRegions *m, Region *region)
{
    if (region->data)
        return region->data;
    Place *p = region->data = arena_new(&m->run->scratch, Place);
    size_t n = region->id / 64 + 1;
    *p = (Place){.region = region, .members = {arena_new_array(&m->run->scratch, uint64_t, n), n}};
    memset(p->members.at, 0, n * sizeof *p->members.at);
    p->members.at[n - 1] = (uint64_t)1 << region->id % 64;
    return p;
}

/* NULL for what is computed from nothing. */
static Place *place_of(MergeRegions *m, const Expr *e)
{
    Region *region = regions_of(&m->regions, e);
    if (region)
        return place_of_region(m, region);
    if (expr_is_atom(e) || e->kind == EXPR_CONSTANT)
        return NULL;
    void **slot = ptrmap_slot(&m->places, e);
    if (slot && !*slot) {
        Place *p = *slot = arena_new(&m->run->scratch, Place);
        *p = (Place){.node = e};
    }
    return slot ? *slot : NULL;
}

static void note_parent(void *data, Expr *const *slot)
{
    MergeRegions *m = data;
    Place *p = place_of(m, *slot);
    if (!p || ptrmap_has(&m->seen, p))
        return;
    ptrmap_put(&m->seen, p, NULL);
    vec_push(&m->parents, &m->run->scratch, p);
}

static void find_parents(MergeRegions *m, Place *p)
{
    m->parents.n = 0;
    ptrmap_clear(&m->seen);
    ptrmap_put(&m->seen, p, NULL);
    if (!p->region) {
        ir_children(p->node, note_parent, m);
        return;
    }
    for (const MarkList *in = p->region->ins; in; in = in->next)
        note_parent(m, &in->mark->args.at[0]);
}

/* All that leads to it is done. */
static void finish(MergeRegions *m, Place *p)
{
    find_parents(m, p);
    for (size_t i = 0; i < m->parents.n; i++)
        bits_add(m, &p->behind, &m->parents.at[i]->behind);
    for (size_t i = 0; i < m->parents.n; i++) {
        Place *parent = m->parents.at[i];
        if (!parent->region)
            continue;
        if (!p->region || !parent->done || !regions_fit(parent->region, p->region)) {
            bits_add(m, &p->behind, &parent->members);
        } else if (!bits_meet(&p->behind, &parent->members)) {
            regions_merge(parent->region, p->region);
            bits_add(m, &p->members, &parent->members);
        }
    }
    p->done = true;
}

/* Does what leads to it first. A place that leads to itself is cut there. */
static void reach(MergeRegions *m, Place *first)
{
    vec_push(&m->todo, &m->run->scratch, first);
    while (m->todo.n && !limit_hit(&m->run->cx->limits)) {
        Place *p = vec_last(&m->todo);
        if (p->done || p->begun) {
            m->todo.n--;
            if (!p->done)
                finish(m, p);
            continue;
        }
        p->begun = true;
        find_parents(m, p);
        for (size_t i = 0; i < m->parents.n; i++)
            if (!m->parents.at[i]->begun)
                vec_push(&m->todo, &m->run->scratch, m->parents.at[i]);
    }
}

/* A mark that ends a region, and one behind it that begins the same, are nothing. */
static Expr *drop_marks(Rewriter *rw, const Expr *old, Expr *now)
{
    MergeRegions *m = rw->data;
    const Call *begin = expr_as_call(old);
    expr_keep_type(now, old);
    if (annotate_mark(old, NULL) != MARK_BEGIN ||
        annotate_mark(begin->args.at[0], NULL) != MARK_END ||
        regions_of(&m->regions, old) != regions_of(&m->regions, begin->args.at[0]))
        return now;
    return expr_as_call(expr_as_call(now)->args.at[0])->args.at[0];
}

static Function *merge(PassRun *run, const Def *def)
{
    MergeRegions m = {.run = run};
    Expr *now = NULL;
    if (regions_init(&m.regions, run, def->fn)) {
        for (size_t i = 0; i < m.regions.order.n; i++)
            if (annotate_mark(m.regions.order.at[i], NULL) == MARK_END)
                reach(&m, place_of(&m, m.regions.order.at[i]));
        Rewriter rw;
        rewriter_init(&rw, run->cx, run->module, drop_marks, &m);
        now = ir_rewrite(&rw, &def->fn->base);
        rewriter_deinit(&rw);
    }
    regions_deinit(&m.regions);
    ptrmap_deinit(&m.places);
    ptrmap_deinit(&m.seen);
    return expr_as_function(now);
}

const Pass pass_merge_compiler_regions = {
    .name = "MergeCompilerRegions",
    .doc = "Makes one region of those of one external back end that follow each other.",
    .opt_level = 0,
    .needs_types = true,
    .function = merge,
};
