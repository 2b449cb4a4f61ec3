/* Reductions: vectors along the results or along what is folded, and tiles of registers along an axis that some loads do not depend
 * on, so that one load serves several results. */
#include "sched/sched.h"

#include "loop/access.h"

/* A reduction in the plain nest: loops of the space, and in the innermost what begins, the loops that fold, and the result. */
typedef struct Reduction {
    NestNode *space[NEST_TERMS_MOST]; /* outermost first */
    int n;
    NestNode *folds; /* the outermost loop that folds; NULL: a fold alone */
    NestNode *fold; /* the statement */
} Reduction;

static void find_fold(void *data, NestNode *node)
{
    Reduction *r = data;
    if (node->kind == NEST_FOLD)
        r->fold = node;
}

/* The loops of the space are those from the node, or the one around it that holds it alone, to the one in which the result is
 * folded. */
static Reduction take_apart(Sched *s, NestNode *node)
{
    Reduction r = {0};
    nest_each(node, find_fold, &r);
    NestNode *home = s->n->buffers.at[r.fold->buffer].home, *top = home;
    while (top && top->parent && top->parent->body.n == 1)
        top = top->parent;
    for (NestNode *l = home; l && l != top->parent; l = l->parent)
        r.n++;
    int i = r.n;
    for (NestNode *l = home; l && l != top->parent; l = l->parent)
        r.space[--i] = l;
    r.folds = r.fold;
    while (r.folds->parent != home)
        r.folds = r.folds->parent;
    if (r.folds->kind != NEST_LOOP)
        r.folds = NULL;
    return r;
}

static NestNode *innermost(NestNode *loop)
{
    while (loop->body.n == 1 && loop->body.at[0]->kind == NEST_LOOP)
        loop = loop->body.at[0];
    return loop;
}

/* Bytes that the first cache surely holds. */
#define FIRST_CACHE ((int64_t)32 << 10)

/* Loads that do not depend on the loop, so that tiles along it share them; those of vectors count twice. `*bytes` are those of the largest
 * of the tensors that they read. */
static int shared_loads(Sched *s, const NestNode *loop, const NestNode *vector, NestNode *fold,
                        int *loads, int64_t *bytes)
{
    NestAccesses all = nest_accesses(s->n, fold);
    int n = 0;
    *loads = 0;
    *bytes = 0;
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        const NestBuffer *b = &s->n->buffers.at[a->buffer];
        int64_t size = b->size * (int64_t)dtype_size(b->dtype);
        if (a->writes || b->place == NEST_REGISTER)
            continue;
        ++*loads;
        if (!a->linear || nest_coefficient(&a->at, loop->var) != 0)
            continue;
        n += nest_coefficient(&a->at, vector->var) ? 2 : 1;
        *bytes = size > *bytes ? size : *bytes;
    }
    return n;
}

/* Of two loops along which as much is shared the inner one, unless the outer one shares more than the first cache holds: that comes from
 * afar, and then it comes once. */
static int tile_of(Sched *s, const Reduction *r, const NestNode *vector)
{
    int best = -1, most = 0, loads;
    int64_t bytes, least = 0;
    for (int i = r->n - 1; i >= 0; i--) {
        if (r->space[i] == vector || r->space[i]->extent < 2)
            continue;
        int n = shared_loads(s, r->space[i], vector, r->fold, &loads, &bytes);
        if (loads > 1 && (n > most || (n > 0 && n == most && bytes > least))) {
            best = i;
            most = n;
            least = bytes > FIRST_CACHE ? bytes : FIRST_CACHE;
        }
    }
    return best;
}

static int64_t block_of(int64_t extent, int64_t most)
{
    for (int64_t b = most; b >= 4; b--)
        if (extent % b == 0)
            return b;
    return extent < most ? extent : most;
}

static void unroll(Sched *s, NestNode *loop)
{
    if (nest_run_as(s->n, loop, NEST_UNROLLED, 0))
        nest_jam(s->n, loop);
}

/* Moves the loop inwards past the only loops below it, as far as they go. */
static void sink(Sched *s, NestNode **loop)
{
    NestNode *at = *loop;
    while (at->body.n == 1 && at->body.at[0]->kind == NEST_LOOP && nest_reorder(s->n, at))
        at = at->body.at[0];
    *loop = at;
}

/* Extremes of floats: `a > b ? a : b` step by step, so a NaN makes the order matter: then it is done again, in order. */
static bool order_matters(const Reduction *r)
{
    return (r->fold->fold == TE_REDUCE_MAX || r->fold->fold == TE_REDUCE_MIN) &&
           dtype_is_float(r->fold->value->dtype);
}

/* False: where the fold begins stands elsewhere, so that it cannot be done again here. */
static bool keep_order(Sched *s, const Reduction *r)
{
    NestNode *home = r->folds->parent, *begin = NULL;
    NestBlock *block = nest_block(s->n, home);
    for (size_t i = nest_index(s->n, r->folds); i-- > 0 && !begin;)
        if (block->at[i]->kind == NEST_STORE && block->at[i]->buffer == r->fold->buffer)
            begin = block->at[i];
    if (!begin)
        return false;
    NestNode *check = nest_if_nan(s->n, r->fold->buffer, r->fold->at);
    nest_append(s->n, check, nest_copy(s->n, begin));
    nest_append(s->n, check, nest_copy(s->n, r->folds));
    nest_insert(s->n, home, nest_index(s->n, r->folds) + 1, check);
    r->fold->any_order = true;
    return true;
}

/* ---- vectors along what is folded ---------------------------------------------------------------------------------------- */

/* So many vectors are folded side by side, where there are as many: a sum takes longer than it takes to begin the next one. */
#define FOLDS_MOST 4

static void vector_fold(Sched *s, NestNode *loop, int at_once)
{
    NestNode *inner = NULL, *lane = loop, *rest[3] = {NULL}, *none;
    int unrolled = loop->extent >= at_once * (int64_t)s->lanes ? at_once : 1;
    int lanes = s->lanes;
    if (loop->extent > lanes) {
        nest_split(s->n, loop, (int64_t)unrolled * lanes, &lane, &rest[0]);
        if (unrolled > 1) {
            inner = lane == loop ? loop : lane;
            nest_split(s->n, inner, lanes, &lane, &none);
        }
        /* What is left over: whole vectors, then a part of one. */
        if (rest[0] && nest_split(s->n, rest[0], lanes, &rest[2], &rest[1])) {
            rest[0] = rest[2];
            rest[2] = NULL;
        }
    } else {
        while (lanes / 2 >= loop->extent)
            lanes /= 2;
    }
    nest_run_as(s->n, lane, NEST_VECTOR, lanes);
    for (int i = 0; rest[i]; i++)
        nest_run_as(s->n, rest[i], NEST_VECTOR, lanes);
    nest_partial(s->n, lane, rest);
    rest[0] = NULL;
    if (inner && nest_run_as(s->n, inner, NEST_UNROLLED, 0))
        nest_partial(s->n, inner, rest);
}

/* ---- positions of extremes ------------------------------------------------------------------------------------------------ */

/* The loops once more, folding `value` into the register, which begins at `start`, in front of node `at` of `home`. */
static size_t fold_again(Sched *s, const Reduction *r, size_t at, int into, TeReduce kind,
                         Te *start, bool places)
{
    Nest *n = s->n;
    NestNode *home = r->folds->parent, *loops = nest_copy(n, r->folds);
    Reduction again = {0};
    Te *zero = te_int(&n->te, 0);
    nest_each(loops, find_fold, &again);
    NestNode *fold = again.fold;
    int best = fold->winner;
    fold->fold = kind;
    fold->winner = 0;
    if (places) {
        DType dtype = n->buffers.at[into].dtype;
        Te *is = te_binary(&n->te, TE_EQ, fold->value, nest_load(n, best, zero));
        fold->value = te_select(&n->te, is, te_cast(&n->te, dtype, fold->number), start);
    } else {
        fold->any_order = order_matters(&again);
    }
    fold->number = NULL;
    fold->buffer = into;
    nest_insert(n, home, at, nest_store(n, into, zero, start));
    nest_insert(n, home, at + 1, loops);
    vector_fold(s, innermost(loops), FOLDS_MOST);
    return nest_index(n, r->folds);
}

/* What a search for the place of an extreme knows. */
typedef struct Search {
    TeReduce extreme, place_of; /* the place is the least, or the greatest */
    Te *start, *none; /* of the extreme, and of the place */
    int best, place; /* registers */
} Search;

/* The extreme along the loops, and then the place where it stands, each by vectors in front of the loops, which go. Returns where they were. */
static size_t fold_twice(Sched *s, const Reduction *r, const Search *f)
{
    size_t at = fold_again(s, r, nest_index(s->n, r->folds), f->best, f->extreme, f->start, false);
    at = fold_again(s, r, at, f->place, f->place_of, f->none, true);
    nest_remove(s->n, r->folds);
    return at;
}

static Te *number_of(Nest *n, int place)
{
    static const DType wide = {DTYPE_CODE_INT, 64, 1};
    return te_cast(&n->te, wide, nest_load(n, place, te_int(&n->te, 0)));
}

/* Whether a block with this extreme holds the place: of equal ones the first, or the last. */
static Te *wins_over(Sched *s, const Search *f, Te *extreme, int best, int place)
{
    TeBuilder *b = &s->n->te;
    Te *zero = te_int(b, 0), *known = nest_load(s->n, place, zero);
    bool greatest = f->extreme == TE_REDUCE_MAX, last = f->place_of == TE_REDUCE_MAX;
    TeOp op = last ? (greatest ? TE_GE : TE_LE) : (greatest ? TE_GT : TE_LT);
    Te *first = te_binary(b, TE_LT, known, te_number(b, known->dtype, 0));
    return te_binary(b, TE_OR, first, te_binary(b, op, extreme, nest_load(s->n, best, zero)));
}

/* Elements that are still near when they are looked through again. */
enum { SEARCH_BLOCK = 8192 };

/* The extreme of each block, and the place only where that one wins; `*whole` is the register of the extreme of all, where a NaN stays.
 * Returns what is behind all that; 0 where all is near as it is. */
static size_t search_blocks(Sched *s, const Reduction *r, Search f, int *whole)
{
    Nest *n = s->n;
    NestNode *loops[2] = {NULL}, *home = r->folds->parent;
    NestBuffer b = n->buffers.at[f.best];
    if (nest_only_loop(r->folds) || r->folds->extent < 4 * SEARCH_BLOCK ||
        r->folds->extent * (int64_t)dtype_size(b.dtype) <= s->m->second_cache / 2 ||
        !nest_split(n, r->folds, SEARCH_BLOCK, &loops[0], &loops[1]))
        return 0;
    int best = f.best, buffer = r->fold->buffer;
    NestBuffer places = n->buffers.at[f.place];
    b.name = "whole";
    *whole = nest_buffer(n, b);
    b.name = "block";
    nest_insert(n, home, nest_index(n, r->folds),
                nest_store(n, *whole, te_int(&n->te, 0), f.start));
    size_t behind = nest_index(n, r->folds) + 1;
    for (int i = 0; i < 2 && loops[i]; i++) {
        Reduction part = {.folds = loops[i]};
        nest_each(loops[i], find_fold, &part);
        NestNode *outer = loops[i]->parent;
        /* Registers stand in the loop that folds into them. */
        b.home = outer == home ? n->buffers.at[best].home : outer;
        part.fold->winner = nest_buffer(n, b);
        Te *zero = te_int(&n->te, 0), *mine = nest_load(n, part.fold->winner, zero);
        NestNode *most = nest_fold(n, f.extreme, *whole, zero, mine);
        most->any_order = dtype_is_float(b.dtype); /* a NaN stays */
        size_t at = fold_again(s, &part, nest_index(n, part.folds), part.fold->winner, f.extreme,
                               f.start, false);
        NestNode *wins = nest_if(n, wins_over(s, &f, mine, best, buffer));
        nest_insert(n, outer, at, most);
        nest_insert(n, outer, at + 1, wins);
        nest_remove(n, part.folds);
        nest_append(n, wins, part.folds);
        places.home = wins;
        f.place = nest_buffer(n, places);
        fold_again(s, &part, 0, f.place, f.place_of, f.none, true);
        nest_remove(n, part.folds);
        nest_append(n, wins, nest_store(n, best, zero, mine));
        nest_append(n, wins, nest_store(n, buffer, zero, number_of(n, f.place)));
        behind = outer == home ? at + 2 : behind;
    }
    return behind;
}

/* The extreme along the loops, and then the first place where it stands, or the last: both by vectors. Where a NaN makes the order matter
 * the place is looked for as it is written. False where there are more places than 32 bits count. */
static bool sched_positions(Sched *s, const Reduction *r)
{
    static const DType narrow = {DTYPE_CODE_INT, 32, 1};
    Nest *n = s->n;
    NestNode *fold = r->fold, *home = r->folds->parent;
    bool greatest = fold->fold == TE_ARGMAX || fold->fold == TE_ARGMAX_LAST;
    bool last = fold->fold == TE_ARGMAX_LAST || fold->fold == TE_ARGMIN_LAST;
    int64_t places = 1;
    for (const NestNode *l = r->folds; l->kind == NEST_LOOP; l = l->body.at[0])
        if (__builtin_mul_overflow(places, l->extent, &places) || places > INT32_MAX)
            return false;
    NestBuffer b = n->buffers.at[fold->buffer];
    b.name = "place";
    b.dtype = narrow;
    Search f = {.extreme = greatest ? TE_REDUCE_MAX : TE_REDUCE_MIN,
                .place_of = last ? TE_REDUCE_MAX : TE_REDUCE_MIN,
                .none = te_number(&n->te, narrow, last ? -1 : (double)places),
                .best = fold->winner,
                .place = nest_buffer(n, b)};
    f.start = nest_start_of(n, f.extreme, fold->value->dtype);
    NestNode *plain = dtype_is_float(fold->value->dtype) ? nest_copy(n, r->folds) : NULL;
    int buffer = fold->buffer, all = f.best;
    size_t behind = search_blocks(s, r, f, &all);
    if (!behind) {
        behind = fold_twice(s, r, &f) + 1;
        nest_insert(n, home, behind - 1,
                    nest_store(n, buffer, te_int(&n->te, 0), number_of(n, f.place)));
    }
    if (!plain)
        return true;
    NestNode *check = nest_if_nan(n, all, te_int(&n->te, 0));
    nest_append(n, check, nest_store(n, f.best, te_int(&n->te, 0), f.start));
    nest_append(n, check, nest_store(n, buffer, te_int(&n->te, 0), te_int(&n->te, -1)));
    nest_append(n, check, plain);
    nest_insert(n, home, behind, check);
    return true;
}

/* ---- the order -------------------------------------------------------------------------------------------------------------- */

/* Tiles of the loop, which becomes the innermost of the space: `each` is done with the loop of a tile, and with that of what is left
 * over. */
static void in_tiles(Sched *s, NestNode *loop, int64_t block,
                     void (*each)(Sched *s, NestNode *tile))
{
    NestNode *tile = loop, *tail = NULL;
    if (nest_split(s->n, loop, block, &tile, &tail) && tail)
        each(s, tail);
    each(s, tile);
}

static void tile_of_folds(Sched *s, NestNode *tile)
{
    sink(s, &tile);
    Reduction r = take_apart(s, tile);
    vector_fold(s, innermost(r.folds), FOLDS_MOST);
    unroll(s, tile);
}

/* Results in rows and columns, each load of which serves as many as stand there: the innermost loop is that of the rows. */
static void tile_of_both(Sched *s, NestNode *columns)
{
    NestNode *rows = columns->body.at[0];
    Reduction r = take_apart(s, columns);
    int at_once = FOLDS_MOST;
    while (at_once > 1 && rows->extent * columns->extent * at_once > s->m->registers / 2)
        at_once /= 2;
    vector_fold(s, innermost(r.folds), at_once);
    unroll(s, rows);
    unroll(s, columns);
}

static void tile_of_rows(Sched *s, NestNode *rows)
{
    const NestNode *outer = rows;
    sink(s, &rows);
    if (rows == outer) {
        tile_of_folds(s, rows);
        return;
    }
    NestNode *columns = rows->parent;
    in_tiles(s, columns, block_of(columns->extent, 4), tile_of_both);
}

/* The loop of the rows, where the two innermost ones share one each of two loads; NULL: they do not. */
static NestNode *rows_of(Sched *s, const Reduction *r, const NestNode *vector)
{
    int loads;
    int64_t bytes;
    for (int i = 1; i <= 2; i++)
        if (r->n < i || r->folds != vector || r->space[r->n - i]->extent < 2 ||
            shared_loads(s, r->space[r->n - i], vector, r->fold, &loads, &bytes) != 2 || loads != 2)
            return NULL;
    return r->space[r->n - 2];
}

/* Vectors side by side in a tile of results: with a tile's rows they fill the registers. */
static int vectors_of(const Sched *s, const NestNode *vector)
{
    int most = s->m->registers >= 32 ? 3 : 2;
    for (int n = most; n > 1; n--)
        if (vector->extent % (n * (int64_t)s->lanes) == 0)
            return n;
    while (most > 1 && vector->extent < most * (int64_t)s->lanes)
        most--;
    return most;
}

static void tile_of_results(Sched *s, NestNode *tile)
{
    sink(s, &tile);
    Reduction r = take_apart(s, tile);
    NestNode *vector = tile->parent, *fold = r.folds ? innermost(r.folds) : NULL;
    /* A window's few places are straight code. */
    if (fold && fold != r.folds && fold->extent <= 8)
        nest_run_as(s->n, fold, NEST_UNROLLED, 0);
    unroll(s, tile);
    sched_vectors(s, vector, vectors_of(s, vector));
}

/* Results are stored along the last axis of the space. */
static bool stores_evenly(Sched *s, const NestNode *loop)
{
    NestAccesses all = nest_accesses(s->n, (NestNode *)(uintptr_t)loop);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].writes && s->n->buffers.at[all.at[i].buffer].place != NEST_REGISTER &&
            nest_coefficient(&all.at[i].at, loop->var) != 1)
            return false;
    return true;
}

/* Sums of floats that are to be taken in the order in which they are written; and extremes, for of zeros of both signs the last one stays. */
static bool keeps_order(const Sched *s, const NestNode *fold)
{
    return !s->m->reorders && !nest_is_position(fold->fold) && dtype_is_float(fold->value->dtype);
}

/* What folding the lanes of one vector costs at last, for each element: nothing beside the many elements of a long fold. */
static double lanes_cost(const Sched *s, const NestNode *folds)
{
    int steps = 0;
    while (1 << steps < s->lanes && 1 << steps < folds->extent)
        steps++;
    return 2 * steps / (double)folds->extent;
}

static NestNode *vector_of(Sched *s, const Reduction *r)
{
    NestNode *space = r->n ? r->space[r->n - 1] : NULL;
    NestNode *folds = r->folds ? innermost(r->folds) : NULL;
    if (space && (space->extent < 2 || !stores_evenly(s, space)))
        space = NULL;
    if (!folds || nest_is_position(r->fold->fold) || keeps_order(s, r->fold))
        return space;
    if (!space)
        return folds;
    double along_folds = sched_vector_cost(s, folds) + lanes_cost(s, folds);
    return along_folds < sched_vector_cost(s, space) ? folds : space;
}

/* Where what is folded lies side by side, and results do not: as many turns as there are lanes are straight code, whose loads are turned
 * in registers. */
static void turn_folds(Sched *s, const NestNode *vector, NestNode *folds)
{
    NestNode *fold = folds ? innermost(folds) : NULL, *inner, *tail;
    if (!fold || fold->extent < s->lanes || vector->extent < s->lanes)
        return;
    NestAccesses all = nest_accesses(s->n, fold);
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        if (a->writes || !a->linear || nest_coefficient(&a->at, fold->var) != 1 ||
            nest_coefficient(&a->at, vector->var) < 2)
            continue;
        if (nest_split(s->n, fold, s->lanes, &inner, &tail))
            nest_run_as(s->n, inner, NEST_UNROLLED, 0);
        return;
    }
}

void sched_reduction(Sched *s, NestNode *node)
{
    Reduction r = take_apart(s, node);
    if (r.folds)
        sched_fuse(s, r.folds);
    if (r.n)
        sched_fuse(s, r.space[0]);
    r = take_apart(s, r.n ? r.space[0] : node);
    NestNode *vector = vector_of(s, &r);
    /* A few places, as of a window, fill no vector. */
    if (r.folds && nest_is_position(r.fold->fold) && s->m->reorders &&
        (!vector || (innermost(r.folds)->extent * 2 > s->lanes &&
                     sched_vector_cost(s, innermost(r.folds)) < sched_vector_cost(s, vector))) &&
        sched_positions(s, &r))
        return;
    if (!vector)
        return;
    bool along_space = r.n && vector == r.space[r.n - 1];
    if (!along_space && order_matters(&r)) {
        if (keep_order(s, &r))
            vector_fold(s, vector, FOLDS_MOST);
        return;
    }
    int tile = nest_is_position(r.fold->fold) ? -1 : tile_of(s, &r, vector);
    if (tile >= 0) {
        int64_t most = s->m->registers >= 32 || vectors_of(s, vector) == 1 ? 8 : 6;
        int64_t block = block_of(r.space[tile]->extent, along_space ? most : 4);
        NestNode *rows = along_space ? NULL : rows_of(s, &r, vector);
        if (rows)
            in_tiles(s, rows, s->m->registers >= 32 ? block_of(rows->extent, 4) : 3, tile_of_rows);
        else
            in_tiles(s, r.space[tile], block, along_space ? tile_of_results : tile_of_folds);
    } else if (along_space) {
        turn_folds(s, vector, r.folds);
        sched_vectors(s, vector, vector->extent >= 4 * (int64_t)s->lanes && r.folds ? 4 : 2);
    } else {
        vector_fold(s, vector, FOLDS_MOST);
    }
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

/* A reduction whose vectors go along what is folded, once for each turn of the outermost loop. */
static bool folds_rows(Sched *s, NestNode *node)
{
    Reduction r = {0};
    nest_each(node, find_fold, &r);
    if (!r.fold || nest_is_position(r.fold->fold))
        return false;
    r = take_apart(s, node);
    NestNode *vector = r.n ? vector_of(s, &r) : NULL;
    return vector && vector != r.space[r.n - 1];
}

static void join_inside(Sched *s, NestNode *loop)
{
    for (size_t i = 0; i < loop->body.n; i++) {
        NestNode *child = loop->body.at[i];
        bool any = false;
        while (child->kind == NEST_LOOP && child->body.n && child->body.at[0]->kind == NEST_LOOP &&
               nest_join(s->n, child))
            any = true;
        if (any)
            join_inside(s, child);
    }
}

void sched_narrow(Sched *s, NestNode *node)
{
    NestAccesses all = nest_accesses(s->n, node);
    for (size_t i = 0; i < all.n; i++)
        if (all.at[i].writes && nest_narrow(s->n, all.at[i].buffer) &&
            !nest_to_registers(s->n, all.at[i].buffer))
            nest_settle(s->n, all.at[i].buffer);
}

/* What makes the elements of a row and what then folds them become one loop, where the order of the folds is free. */
static void join_folds(Sched *s, NestNode *row)
{
    for (size_t i = 0; i + 1 < row->body.n; i++) {
        NestNode *maps = row->body.at[i];
        Reduction map = {0}, fold = {0};
        if (maps->kind != NEST_LOOP || innermost(maps)->body.n > 1)
            continue;
        nest_each(maps, find_fold, &map);
        /* Behind it what the fold begins with, which goes to its front. */
        NestNode *begin = row->body.at[i + 1],
                 *folds = i + 2 < row->body.n ? row->body.at[i + 2] : NULL;
        if (map.fold || begin->kind != NEST_STORE || !folds || folds->kind != NEST_LOOP)
            continue;
        nest_each(folds, find_fold, &fold);
        if (!fold.fold || s->n->buffers.at[fold.fold->buffer].home != row ||
            nest_is_position(fold.fold->fold) || keeps_order(s, fold.fold) || order_matters(&fold))
            continue;
        sched_fuse(s, maps);
        sched_fuse(s, folds);
        if (nest_raise(s->n, begin))
            nest_join(s->n, maps);
    }
}

static void schedule_row(Sched *s, NestNode *loop)
{
    NestBlock parts = {0};
    join_folds(s, loop);
    for (size_t i = 0; i < loop->body.n; i++)
        vec_push(&parts, s->n->arena, loop->body.at[i]);
    for (size_t i = 0; i < parts.n; i++) {
        NestNode *part = parts.at[i];
        Reduction r = {0};
        if (part->kind != NEST_LOOP)
            continue;
        nest_each(part, find_fold, &r);
        if (!r.fold && part->body.n > 1) {
            schedule_row(s, part);
        } else if (!r.fold) {
            sched_map(s, part);
        } else if (s->n->buffers.at[r.fold->buffer].home == loop) {
            sched_fuse(s, part);
            r.folds = part;
            nest_each(part, find_fold, &r);
            if (nest_is_position(r.fold->fold) || keeps_order(s, r.fold))
                continue;
            if (order_matters(&r) && !keep_order(s, &r))
                continue;
            vector_fold(s, innermost(part), FOLDS_MOST);
        } else if (part->body.n > 1) {
            schedule_row(s, part);
        } else {
            sched_reduction(s, part);
        }
    }
}

/* Whether a row of what the loop's turns hand on fits: it is to stay in the first cache, and on a thread's stack. */
static bool rows_fit(Sched *s, NestNode *node)
{
    NestAccesses all = nest_accesses(s->n, node);
    int64_t bytes = 0;
    for (size_t i = 0; i < all.n; i++) {
        const NestBuffer *b = &s->n->buffers.at[all.at[i].buffer];
        if (all.at[i].writes && b->place == NEST_SCRATCH)
            bytes += b->size / node->extent * (int64_t)dtype_size(b->dtype);
    }
    return bytes <= FIRST_CACHE;
}

/* How many loops inside the first's outermost one have the same extents in both and can be fused with those around them, of `most`. */
static int fusions(Sched *s, const NestNode *first, const NestNode *part, int most)
{
    int n = 0;
    const NestNode *a = first, *b = part;
    while (n < most && (a = nest_only_loop(a)) && (b = nest_only_loop(b)) && a->extent == b->extent)
        n++;
    NestNode *trial = nest_copy(s->n, part);
    for (most = n, n = 0; n < most && nest_fuse(s->n, trial);)
        n++;
    return n;
}

/* Rows that several loops count are counted by one, in all that is done with them: a turn of the outermost alone would be many rows. */
static void fuse_rows(Sched *s, NestNode *node)
{
    NestBlock *root = nest_block(s->n, node->parent);
    size_t from = nest_index(s->n, node), to = from;
    int64_t turns = node->extent;
    int most = take_apart(s, node).n - 1;
    for (; most > 0 && to < root->n && root->at[to]->kind == NEST_LOOP &&
           root->at[to]->extent == turns;
         to++)
        most = fusions(s, node, root->at[to], most);
    for (size_t i = from; most > 0 && i < to; i++)
        for (int k = 0; k < most; k++)
            nest_fuse(s->n, root->at[i]);
}

bool sched_rows(Sched *s, NestNode *node)
{
    bool any = false;
    if (node->kind != NEST_LOOP || !folds_rows(s, node))
        return false;
    fuse_rows(s, node);
    while (true) {
        NestBlock *root = nest_block(s->n, node->parent);
        size_t next = nest_index(s->n, node) + 1;
        if (next >= root->n || root->at[next]->kind != NEST_LOOP || !rows_fit(s, root->at[next]) ||
            !nest_independent(s->n, root->at[next]) || !nest_join(s->n, node))
            break;
        any = true;
    }
    if (!any)
        return false;
    join_inside(s, node);
    sched_narrow(s, node);
    schedule_row(s, node);
    sched_near(s, node);
    return true;
}
