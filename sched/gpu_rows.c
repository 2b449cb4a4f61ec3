/* Rows: what is folded along one, and what else is done with it, by the threads of a block or of a warp.
 *
 * Each thread takes every so many elements of the row, in the same places in every part of what is done, so that it reads what it wrote
 * itself. What the threads have folded is folded over the warp by exchanges and over the block through shared memory, and then all of them
 * have it. */
#include "loop/access.h"
#include "sched/gpu.h"
#include "te/walk.h"

#define BLOCK_MOST 256
/* Warps of a block whose rows are a warp's each. */
#define WARPS_MOST 4
/* Elements of a row for each thread that may stay in registers. */
#define KEPT_MOST 16

typedef struct Rows {
    Gpu *s;
    NestNode *row; /* the innermost loop of the rows */
    int64_t threads; /* of a row */
    Te *lane; /* a thread's number in its row */
    Te *warp; /* the number of its warp in the row */
    NestNode *grid;
} Rows;

static NestNode *fold_in(NestNode *node)
{
    NestNode *found = node->kind == NEST_FOLD ? node : NULL;
    for (size_t i = 0; i < node->body.n && !found; i++)
        found = fold_in(node->body.at[i]);
    return found;
}

/* ---- when ------------------------------------------------------------------------------------------------------------------ */

/* Outputs from which on a thread for each keeps the card busy. */
#define MANY 8192

static bool keeps_order(const Gpu *s, const NestNode *fold)
{
    return !s->m->reorders && !nest_is_position(fold->fold) && dtype_is_float(fold->value->dtype);
}

/* Whether threads along the loop would read side by side. */
static bool reads_evenly(Gpu *s, NestNode *fold, const NestNode *loop)
{
    NestAccesses all = nest_accesses(s->n, fold);
    bool any = false;
    for (size_t i = 0; i < all.n; i++) {
        const NestAccess *a = &all.at[i];
        if (a->writes || s->n->buffers.at[a->buffer].place == NEST_REGISTER)
            continue;
        int64_t by = a->linear ? nest_coefficient(&a->at, loop->var) : 2;
        if (by != 0 && by != 1)
            return false;
        any |= by == 1;
    }
    return any;
}

/* Whether the node folds along rows that threads had better share. */
static bool folds_rows(Gpu *s, NestNode *node)
{
    GpuChain c = gpu_chain(s, node);
    NestNode *fold = fold_in(node), *row = c.n ? c.at[c.n - 1] : NULL;
    if (!fold || !row || keeps_order(s, fold) || s->n->buffers.at[fold->buffer].home != row ||
        fold->parent == row)
        return false;
    int64_t folds = 1;
    for (const NestNode *l = fold->parent; l != row; l = l->parent)
        folds *= l->extent;
    if (folds < s->m->folds_least)
        return false;
    return c.turns < MANY || (reads_evenly(s, fold, fold->parent) && !reads_evenly(s, fold, row));
}

/* ---- parts of a row ---------------------------------------------------------------------------------------------------------- */

typedef struct Part {
    NestNode *loop; /* NULL: a statement */
    NestNode *statement;
    NestNode *fold; /* into what lives in the row; NULL: elements for themselves */
    GpuChain chain;
} Part;

static bool is_memory(const NestBuffer *b)
{
    return b->place != NEST_REGISTER;
}

/* Loops that stand alone in each other down to the fold. */
static bool fold_chain(Part *p)
{
    p->chain = (GpuChain){.turns = 1};
    for (NestNode *l = p->loop; l != p->fold; l = l->body.at[0]) {
        if (l->body.n != 1 || l->kind != NEST_LOOP || p->chain.n == GPU_CHAIN_MOST)
            return false;
        p->chain.at[p->chain.n++] = l;
        p->chain.turns *= l->extent;
    }
    return true;
}

static bool part_of(Rows *r, NestNode *node, Part *p)
{
    Gpu *s = r->s;
    *p = (Part){.statement = node};
    if (node->kind == NEST_STORE || node->kind == NEST_IF)
        return true;
    if (node->kind != NEST_LOOP)
        return false;
    p->loop = node;
    gpu_fuse(s, node);
    NestNode *fold = fold_in(node);
    bool own = fold && s->n->buffers.at[fold->buffer].home == r->row;
    if (!own) {
        p->chain = gpu_chain(s, node);
        return p->chain.n > 0;
    }
    p->fold = fold;
    return !keeps_order(s, fold) && fold_chain(p);
}

/* Where the access lies but for the element of the part's loop that it is of; false where it is of another. */
static bool own_place(const Part *p, const NestAccess *a, NestLinear *rest)
{
    *rest = a->at;
    return p->loop && p->chain.n == 1 && a->linear && nest_coefficient(rest, p->loop->var) == 1 &&
           nest_add_term(rest, p->loop->var, -1);
}

static bool same_linear(const NestLinear *a, const NestLinear *b)
{
    for (int i = 0; i < a->n; i++)
        if (nest_coefficient(b, a->term[i].var) != a->term[i].by)
            return false;
    return a->c == b->c && a->n == b->n;
}

/* Whether each thread reads of the buffer only what it wrote itself: its places go with the numbers of elements, in all parts alike. */
static bool keeps_to_itself(Rows *r, int buffer, const Part *parts, size_t n)
{
    NestLinear first = {0}, rest;
    int64_t turns = 0;
    int touched = 0;
    bool even = true;
    for (size_t k = 0; k < n; k++) {
        NestAccesses all = nest_accesses(r->s->n, parts[k].statement);
        for (size_t i = 0; i < all.n; i++) {
            if (all.at[i].buffer != buffer)
                continue;
            even &= own_place(&parts[k], &all.at[i], &rest);
            if (touched++ == 0) {
                first = rest;
                turns = parts[k].chain.turns;
            }
            even &= same_linear(&first, &rest) && turns == parts[k].chain.turns;
        }
    }
    return even || touched < 2;
}

/* ---- what a part becomes -------------------------------------------------------------------------------------------------- */

static Te *mul(Gpu *s, Te *a, int64_t by)
{
    return te_binary(&s->n->te, TE_MUL, a, te_int(&s->n->te, by));
}

static Te *add(Gpu *s, Te *a, Te *b)
{
    return te_binary(&s->n->te, TE_ADD, a, b);
}

/* The part's loops become a thread's: every so many elements, from its number on. */
static NestNode *share(Rows *r, const Part *p)
{
    Gpu *s = r->s;
    Nest *n = s->n;
    int64_t turns = (p->chain.turns + r->threads - 1) / r->threads;
    NestNode *loop = nest_loop(n, "turn", turns), *home = p->loop->parent;
    size_t at = nest_index(n, p->loop);
    Te *number = add(s, mul(s, te_axis(&n->te, loop->var), r->threads), r->lane);
    nest_remove(n, p->loop);
    nest_insert(n, home, at, loop);
    nest_append(n, loop, p->loop);
    gpu_bind(s, &p->chain, number);
    if (turns <= KEPT_MOST)
        loop->way = NEST_UNROLLED;
    return loop;
}

/* A thread of the row alone. */
static void by_one(Rows *r, NestNode *statement)
{
    Nest *n = r->s->n;
    NestNode *one = nest_loop(n, "one", 1), *home = statement->parent;
    size_t at = nest_index(n, statement);
    nest_bind(one, r->lane);
    nest_remove(n, statement);
    nest_insert(n, home, at, one);
    nest_append(n, one, statement);
}

/* The fold of what other threads have, which `value` and of positions `number` say. */
static NestNode *fold_like(Rows *r, const NestNode *fold, Te *value, Te *number)
{
    NestNode *made = nest_fold(r->s->n, fold->fold, fold->buffer, fold->at, value);
    made->any_order = fold->any_order;
    made->winner = fold->winner;
    made->number = nest_is_position(fold->fold) ? number : NULL;
    return made;
}

/* Where a fold has its value, and the number of that where there is one: buffers, or such beside them. */
typedef struct Folded {
    int value, number; /* -1: none */
} Folded;

static Folded folded_of(const NestNode *fold)
{
    bool position = nest_is_position(fold->fold);
    return (Folded){position ? fold->winner : fold->buffer, position ? fold->buffer : -1};
}

static Folded beside(Gpu *s, Folded of, const NestBuffer *like, int64_t size)
{
    int from[2] = {of.value, of.number}, to[2] = {-1, -1};
    for (int i = 0; i < 2 && from[i] >= 0; i++) {
        NestBuffer b = *like;
        b.dtype = s->n->buffers.at[from[i]].dtype;
        b.size = size;
        to[i] = nest_buffer(s->n, b);
    }
    return (Folded){to[0], to[1]};
}

static Te *load_number(Nest *n, Folded f, Te *at)
{
    return f.number < 0 ? NULL : nest_load(n, f.number, at);
}

/* The nodes behind one of a row, in their order. */
typedef struct Behind {
    Rows *r;
    NestNode *last;
} Behind;

static void put(Behind *b, NestNode *node)
{
    Nest *n = b->r->s->n;
    nest_insert(n, b->last->parent, nest_index(n, b->last) + 1, node);
    b->last = node;
}

static void fold_warp(Behind *b, const NestNode *fold)
{
    Nest *n = b->r->s->n;
    NestBuffer like = n->buffers.at[fold->buffer];
    like.name = "other";
    Folded own = folded_of(fold), other = beside(b->r->s, own, &like, 1);
    Te *zero = te_int(&n->te, 0);
    for (int lanes = NEST_WARP / 2; lanes > 0; lanes /= 2) {
        put(b, nest_shuffle(n, other.value, zero, lanes, nest_load(n, own.value, fold->at)));
        if (own.number >= 0)
            put(b, nest_shuffle(n, other.number, zero, lanes, nest_load(n, own.number, fold->at)));
        Te *number = load_number(n, other, zero);
        put(b, fold_like(b->r, fold, nest_load(n, other.value, zero), number));
    }
}

/* What the warps have, through memory that each of these folds has for itself: so that one barrier is enough. */
static void fold_block(Behind *b, const NestNode *fold)
{
    Rows *r = b->r;
    Nest *n = r->s->n;
    int64_t warps = r->threads / NEST_WARP;
    NestBuffer like = {.name = "warps", .place = NEST_SHARED, .home = r->grid};
    Folded own = folded_of(fold), all_own = beside(r->s, own, &like, warps);
    Te *first = te_binary(&n->te, TE_MOD, r->lane, te_int(&n->te, NEST_WARP));
    NestNode *one = nest_loop(n, "one", 1), *warp = nest_loop(n, "warp", warps);
    NestNode *all = nest_loop(n, "warp", warps);
    nest_bind(one, first);
    nest_bind(warp, r->warp);
    put(b, one);
    nest_append(n, one, warp);
    Te *to = te_axis(&n->te, warp->var), *from = te_axis(&n->te, all->var);
    nest_append(n, warp, nest_store(n, all_own.value, to, nest_load(n, own.value, fold->at)));
    if (own.number >= 0)
        nest_append(n, warp, nest_store(n, all_own.number, to, nest_load(n, own.number, fold->at)));
    put(b, nest_barrier(n));
    DType dtype = n->buffers.at[own.value].dtype;
    put(b, nest_store(n, own.value, fold->at, nest_start_of(n, fold->fold, dtype)));
    if (own.number >= 0)
        put(b, nest_store(n, own.number, fold->at, te_int(&n->te, -1)));
    all->way = NEST_UNROLLED;
    put(b, all);
    Te *number = load_number(n, all_own, from);
    nest_append(n, all, fold_like(r, fold, nest_load(n, all_own.value, from), number));
}

/* Extremes of floats: where a NaN is among them the order matters, and each thread goes through all of the row. */
static bool order_matters(const NestNode *fold)
{
    return (fold->fold == TE_REDUCE_MAX || fold->fold == TE_REDUCE_MIN) &&
           dtype_is_float(fold->value->dtype) && !fold->any_order;
}

/* The fold may take any order from now on: what stands behind it then, where that needs something. */
static NestNode *free_order(Nest *n, NestNode *fold, const NestNode *loop)
{
    NestNode *check = NULL;
    fold->any_order |= nest_is_position(fold->fold);
    if (order_matters(fold)) {
        DType dtype = n->buffers.at[fold->buffer].dtype;
        Te *start = nest_start_of(n, fold->fold, dtype);
        check = nest_if_nan(n, fold->buffer, fold->at);
        nest_append(n, check, nest_store(n, fold->buffer, fold->at, start));
        nest_append(n, check, nest_copy(n, loop));
        fold->any_order = true;
    }
    return check;
}

static void make_part(Rows *r, const Part *p)
{
    Nest *n = r->s->n;
    if (!p->loop) {
        if (is_memory(&n->buffers.at[p->statement->buffer]))
            by_one(r, p->statement);
        return;
    }
    NestNode *again = p->fold ? free_order(n, p->fold, p->loop) : NULL;
    Behind b = {r, share(r, p)};
    if (!p->fold)
        return;
    fold_warp(&b, p->fold);
    if (r->threads > NEST_WARP)
        fold_block(&b, p->fold);
    if (again)
        put(&b, again);
}

/* ---- rows kept between parts -------------------------------------------------------------------------------------------------- */

typedef struct Kept {
    Nest *n;
    int buffer, from, to; /* the variable of the element, and that of the thread's turn */
} Kept;

static Te *kept_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Kept *k = data;
    (void)old;
    if (e->kind != TE_NODE_LOAD || e->tensor != k->buffer)
        return NULL;
    return nest_load(k->n, k->buffer, te_axis(b, k->to));
}

static void keep_statement(void *data, NestNode *s)
{
    Kept *k = data;
    if (s->kind == NEST_LOOP)
        return;
    if (s->value)
        s->value = te_rewrite(&k->n->te, s->value, kept_node, k);
    if (s->kind != NEST_BARRIER && s->buffer == k->buffer)
        s->at = te_axis(&k->n->te, k->to);
}

/* A row that the parts hand on, each thread its own elements: in registers where they are few, else in shared memory. */
static void keep_row(Rows *r, int buffer, const Part *parts, size_t n)
{
    Nest *nest = r->s->n;
    NestBuffer *b = &nest->buffers.at[buffer];
    int64_t turns = (b->size + r->threads - 1) / r->threads;
    if (turns > KEPT_MOST) {
        b->place = NEST_SHARED;
        b->home = r->grid;
        return;
    }
    b->place = NEST_REGISTER;
    b->size = turns;
    for (size_t i = 0; i < n; i++) {
        if (!parts[i].loop)
            continue;
        Kept k = {nest, buffer, parts[i].loop->var, parts[i].loop->parent->var};
        nest_each(parts[i].loop, keep_statement, &k);
    }
    /* What a thread has no element for is a number all the same. */
    NestNode *begin = nest_loop(nest, "turn", turns);
    begin->way = NEST_UNROLLED;
    Te *zero = te_number(&nest->te, nest->buffers.at[buffer].dtype, 0);
    nest_insert(nest, r->row, 0, begin);
    nest_append(nest, begin, nest_store(nest, buffer, te_axis(&nest->te, begin->var), zero));
}

/* Whether a part must read what other threads keep. */
static bool reads_others(Rows *r, const Part *p, const bool *kept)
{
    NestAccesses all = nest_accesses(r->s->n, p->statement);
    bool reads = false;
    bool all_read = p->statement->kind == NEST_IF || (p->fold && order_matters(p->fold));
    for (size_t i = 0; i < all.n && all_read; i++)
        reads |= kept[all.at[i].buffer];
    return reads;
}

/* ---- rows ------------------------------------------------------------------------------------------------------------------------ */

static bool holds_loop(const NestNode *loop)
{
    for (size_t i = 0; i < loop->body.n; i++)
        if (loop->body.at[i]->kind == NEST_LOOP)
            return true;
    return false;
}

static void join_inside(Gpu *s, NestNode *loop)
{
    for (size_t i = 0; i < loop->body.n; i++) {
        NestNode *child = loop->body.at[i];
        bool any = false;
        while (child->kind == NEST_LOOP && holds_loop(child) && nest_join(s->n, child))
            any = true;
        if (any)
            join_inside(s, child);
    }
}

/* Whatever is done with the same rows behind the node joins it. */
static void join_rows(Gpu *s, NestNode *node)
{
    bool any = false;
    while (true) {
        size_t next = nest_index(s->n, node) + 1;
        NestNode *other = next < s->n->root.n ? s->n->root.at[next] : NULL;
        if (!other || other->kind != NEST_LOOP || !nest_join(s->n, node))
            break;
        any = true;
    }
    if (any)
        join_inside(s, node);
}

/* Bytes of shared memory for rows. */
#define ROW_BYTES ((int64_t)40 << 10)

/* Tensors between the parts become the row's, where they fit. */
static void narrow_rows(Gpu *s, NestNode *node, int64_t rows, int64_t threads)
{
    NestAccesses all = nest_accesses(s->n, node);
    int64_t bytes = 0;
    for (size_t i = 0; i < all.n; i++) {
        const NestBuffer *b = &s->n->buffers.at[all.at[i].buffer];
        if (!all.at[i].writes || b->place != NEST_SCRATCH)
            continue;
        int64_t each = b->size / rows, size = each * (int64_t)dtype_size(b->dtype);
        bool small = each <= KEPT_MOST * threads;
        if (!small && bytes + size > ROW_BYTES)
            continue;
        bytes += small ? 0 : size;
        if (nest_narrow(s->n, all.at[i].buffer))
            nest_to_registers(s->n, all.at[i].buffer);
    }
}

static int64_t threads_of(int64_t folds)
{
    int64_t threads = NEST_WARP;
    while (threads < BLOCK_MOST && threads * 4 < folds)
        threads *= 2;
    return threads;
}

/* Blocks of one row, or of a few with a warp for each. */
static void place_rows(Rows *r, const GpuChain *rows)
{
    Gpu *s = r->s;
    Nest *n = s->n;
    int64_t each = 1;
    while (r->threads == NEST_WARP && each < WARPS_MOST && rows->turns % (each * 2) == 0)
        each *= 2;
    NestNode *grid = nest_loop(n, "block", rows->turns / each), *top = rows->at[0];
    NestNode *lanes = nest_loop(n, "thread", r->threads * each);
    grid->way = NEST_GRID;
    lanes->way = NEST_THREADS;
    size_t at = nest_index(n, top);
    nest_remove(n, top);
    nest_insert(n, NULL, at, grid);
    nest_append(n, grid, lanes);
    nest_append(n, lanes, top);
    Te *block = te_axis(&n->te, grid->var), *thread = te_axis(&n->te, lanes->var);
    r->grid = grid;
    r->lane = each == 1 ? thread : te_binary(&n->te, TE_MOD, thread, te_int(&n->te, NEST_WARP));
    r->warp = te_binary(&n->te, TE_DIV, thread, te_int(&n->te, NEST_WARP));
    gpu_bind(s, rows, each == 1 ? block : add(s, mul(s, block, each), r->warp));
}

/* ---- few long rows --------------------------------------------------------------------------------------------------------------- */

/* Rows that are too few to keep the card busy, what one is folded in, and the length of a part that is worth a block. */
#define FEW 64
#define PARTS_MOST 256
#define PARTS_LEAST 8
#define PART_LEAST 512

/* So many parts, all alike; 0: none. */
static int64_t parts_of(const Gpu *s, int64_t folds)
{
    int64_t least = s->m->folds_least * PART_LEAST / 32;
    for (int64_t parts = PARTS_MOST; parts >= PARTS_LEAST; parts--)
        if (folds % parts == 0 && folds / parts >= least)
            return parts;
    return 0;
}

static void move_home(Nest *n, const NestNode *from, NestNode *to)
{
    for (size_t i = 0; i < n->buffers.n; i++)
        if (n->buffers.at[i].home == from)
            n->buffers.at[i].home = to;
}

/* Where the result of a part of a row stands. */
static Te *part_place(Gpu *s, const GpuChain *rows, int64_t parts, const NestNode *part)
{
    NestLinear at = {0};
    int64_t by = parts;
    nest_add_term(&at, part->var, 1);
    for (int i = rows->n - 1; i >= 0; by *= rows->at[i--]->extent)
        nest_add_term(&at, rows->at[i]->var, by);
    return nest_position(s->n, &at);
}

/* The node folds what a kernel in front of it has folded of parts; NULL: there is no need, or no way. */
static NestNode *in_parts(Gpu *s, NestNode *node)
{
    Nest *n = s->n;
    GpuChain rows = gpu_chain(s, node);
    NestNode *row = rows.at[rows.n - 1], *fold = fold_in(node);
    /* What it begins with, the loop, the result. */
    size_t begins = nest_is_position(fold->fold) ? 2 : 1;
    if (rows.turns >= FEW || row->body.n != begins + 2 || row->body.at[begins]->kind != NEST_LOOP)
        return NULL;
    gpu_fuse(s, row->body.at[begins]);
    NestNode *loop = row->body.at[begins];
    fold = fold_in(node);
    int64_t parts = parts_of(s, loop->extent);
    if (loop != fold->parent || loop->body.n != 1 || parts == 0)
        return NULL;
    NestNode *again = free_order(n, fold, loop), *before = nest_copy(n, node);
    nest_insert(n, NULL, nest_index(n, node), before);
    GpuChain its = gpu_chain(s, before);
    NestNode *home = its.at[its.n - 1], *part = nest_loop(n, "part", parts);
    while (home->body.n > 0) {
        NestNode *child = home->body.at[0];
        nest_remove(n, child);
        nest_append(n, part, child);
    }
    nest_append(n, home, part);
    move_home(n, home, part);
    NestNode *inner = part->body.at[begins], *result = part->body.at[begins + 1];
    NestLinear at = {0};
    inner->extent = loop->extent / parts;
    nest_add_term(&at, part->var, inner->extent);
    nest_add_term(&at, inner->var, 1);
    nest_substitute(n, inner, inner->var, &at);
    int64_t *size = arena_new(n->arena, int64_t);
    *size = rows.turns * parts;
    NestBuffer like = {.name = "parts", .place = NEST_SCRATCH, .rank = 1, .shape = size};
    Folded own = folded_of(fold_in(inner)), made = beside(s, own, &like, *size);
    Te *zero = te_int(&n->te, 0), *to = part_place(s, &its, parts, part);
    result->buffer = made.value;
    result->at = to;
    result->value = nest_load(n, own.value, zero);
    if (made.number >= 0)
        nest_append(n, part, nest_store(n, made.number, to, nest_load(n, own.number, zero)));
    loop->extent = parts;
    Te *from = part_place(s, &rows, parts, loop);
    fold->value = nest_load(n, made.value, from);
    fold->number = load_number(n, made, from);
    if (again)
        nest_insert(n, row, nest_index(n, loop) + 1, again);
    return before;
}

/* With what else is done with the rows, or alone. */
static bool make_rows(Gpu *s, NestNode *node, bool alone)
{
    NestNode *fold = fold_in(node);
    int64_t folds = 1;
    GpuChain rows = gpu_chain(s, node);
    for (const NestNode *l = fold->parent; l != rows.at[rows.n - 1]; l = l->parent)
        folds *= l->extent;
    if (!alone)
        join_rows(s, node);
    rows = gpu_chain(s, node);
    Rows r = {.s = s, .row = rows.at[rows.n - 1], .threads = threads_of(folds)};
    narrow_rows(s, node, rows.turns, r.threads);
    size_t n = r.row->body.n;
    Part *parts = arena_new_array(s->arena, Part, n + 1);
    for (size_t i = 0; i < n; i++)
        if (!part_of(&r, r.row->body.at[i], &parts[i]))
            return false;
    NestAccesses all = nest_accesses(s->n, r.row);
    bool *kept = arena_alloc_must(s->arena, s->n->buffers.n + 1, sizeof *kept);
    for (size_t i = 0; i < all.n; i++) {
        const NestBuffer *b = &s->n->buffers.at[all.at[i].buffer];
        bool outside = b->home == NULL || b->home == r.row;
        if (!all.at[i].writes || !is_memory(b) || !outside)
            continue;
        if (!keeps_to_itself(&r, all.at[i].buffer, parts, n))
            return false;
        kept[all.at[i].buffer] |= b->place == NEST_LOCAL;
    }
    for (size_t i = 0; i < n; i++)
        if (reads_others(&r, &parts[i], kept))
            return false;
    /* Rows in shared memory are a block's. */
    size_t known = s->n->buffers.n;
    for (size_t i = 0; i < known; i++)
        if (kept[i] && s->n->buffers.at[i].size > KEPT_MOST * r.threads && r.threads == NEST_WARP)
            return false;
    place_rows(&r, &rows);
    for (size_t i = 0; i < n; i++)
        make_part(&r, &parts[i]);
    for (size_t i = 0; i < known; i++)
        if (kept[i])
            keep_row(&r, (int)i, parts, n);
    return true;
}

bool gpu_rows(Gpu *s, NestNode *node)
{
    if (!folds_rows(s, node))
        return false;
    NestNode *before = in_parts(s, node);
    if (before && !make_rows(s, before, true))
        gpu_elements(s, before);
    return make_rows(s, node, false);
}
