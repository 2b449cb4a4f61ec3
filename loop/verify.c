/* What a well-formed nest is. */
#include "loop/access.h"
#include "loop/primitive.h"
#include "te/walk.h"

typedef struct Verify {
    Nest *n;
    const char *wrong;
    NestNode *node;
} Verify;

static void fail(Verify *v, const char *what)
{
    v->wrong = v->wrong ? v->wrong : what;
}

static void check_var(void *data, Te *e)
{
    Verify *v = data;
    if (e->kind == TE_NODE_AXIS && !nest_loop_of(v->node, e->axis))
        fail(v, "a variable is used outside of its loop");
}

static void check_expression(Verify *v, Te *e)
{
    PtrMap seen = {0};
    if (e)
        te_each(v->n->arena, &seen, e, check_var, v);
    ptrmap_deinit(&seen);
}

static void check_register(Verify *v, const NestAccess *a)
{
    for (int i = 0; i < a->at.n; i++) {
        const NestNode *loop = nest_loop_of(a->node, a->at.term[i].var);
        if (loop && loop->way != NEST_UNROLLED && loop->way != NEST_VECTOR)
            fail(v, "a register is chosen by a loop that runs");
        if (loop && loop->way == NEST_VECTOR && a->at.term[i].by != 1)
            fail(v, "the lanes of a register are not side by side");
    }
}

static void check_apart(Verify *v, const NestAccess *a)
{
    const NestBuffer *b = &v->n->buffers.at[a->buffer];
    for (const NestNode *p = a->node; p; p = p->parent)
        if (p->apart && b->place == NEST_REGISTER && (!b->home || !nest_holds(p, b->home)))
            fail(v, "code of its own uses a register of what stands around it");
}

static void check_access(Verify *v, const NestAccess *a)
{
    check_apart(v, a);
    const NestBuffer *b = &v->n->buffers.at[a->buffer];
    int64_t low, high;
    if (b->place == NEST_SHARED && (!b->home || b->home->way != NEST_GRID))
        fail(v, "shared memory lives outside of a block");
    if (b->home && !nest_holds(b->home, a->node))
        fail(v, "a buffer is used outside of its home");
    if (b->place == NEST_REGISTER && !a->linear)
        fail(v, "a register's position is not linear");
    if (a->word && (b->place == NEST_REGISTER || dtype_size(b->dtype) != 1))
        fail(v, "a word is not of bytes in memory");
    for (const NestNode *p = a->node; p && b->home; p = p->parent)
        if (p->kind == NEST_LOOP && p->way == NEST_VECTOR && nest_holds(p, b->home) &&
            nest_coefficient(&a->at, p->var) == 0)
            fail(v, "the lanes of a vector share what each of them has for itself");
    if (!a->linear)
        return;
    nest_range(&a->at, a->node, NULL, &low, &high);
    if (low < 0 || high >= b->size)
        fail(v, "a position lies outside of its buffer");
    if (b->place == NEST_REGISTER)
        check_register(v, a);
}

static bool is_loop_of(const NestNode *node, NestWay way)
{
    return node->kind == NEST_LOOP && node->way == way;
}

static bool is_of_kernel(NestWay way)
{
    return way == NEST_GRID || way == NEST_THREADS;
}

/* The grid stands in the root, the threads in the grid, each loop alone in the one around it. */
static void check_kernel_loop(Verify *v, const NestNode *loop)
{
    const NestNode *around = loop->parent;
    bool grid = loop->way == NEST_GRID, alone = around && around->body.n == 1;
    int64_t turns = 1, most = grid ? INT32_MAX : NEST_THREADS_MOST;
    int n = 0;
    if (grid ? around && !(is_loop_of(around, NEST_GRID) && alone)
             : !alone || !is_of_kernel(around->way))
        fail(v, "a grid or its threads stand inside of what is neither");
    if (grid && (loop->body.n != 1 || !is_of_kernel(loop->body.at[0]->way)))
        fail(v, "a grid has no threads");
    for (const NestNode *l = loop; l && l->way == loop->way; l = l->parent, n++)
        turns *= l->extent;
    if (n > 3 || turns > most || (grid && n < 3 && loop->parent && loop->parent->extent > 65535))
        fail(v, "a grid or a block has more threads than a GPU");
}

static void check_bound(Verify *v, const NestNode *bound)
{
    int64_t low, high;
    check_expression(v, bound->value);
    if (nest_bounds(bound->value, bound->parent, &low, &high) && low < 0)
        fail(v, "a bound variable may lie below 0");
}

static void check_loop(Verify *v, const NestNode *loop)
{
    if (loop->extent < 1)
        fail(v, "a loop runs never");
    if (is_of_kernel(loop->way))
        check_kernel_loop(v, loop);
    if (loop->way == NEST_BOUND)
        check_bound(v, loop);

    if (loop->way == NEST_VECTOR && (loop->extent > loop->lanes || loop->lanes & (loop->lanes - 1)))
        fail(v, "a vector loop does not fit its lanes");
    if (loop->way == NEST_PARALLEL && loop->parent && loop->parent->way != NEST_PARALLEL)
        fail(v, "a parallel loop stands inside of what is not");
    if (loop->across && (loop->parent || !nest_shares(loop)))
        fail(v, "threads share nothing in a loop that each of them goes through");
    if (nest_shares(loop) && loop->body.n > 1 && !nest_bodies_apart(v->n, loop))
        fail(v, "threads share what touches the same places");
    for (const NestNode *p = loop->parent; p && loop->way == NEST_VECTOR; p = p->parent)
        if (is_loop_of(p, NEST_VECTOR))
            fail(v, "a vector loop stands inside of another");
}

static bool depends_on_thread(const Te *e, const NestNode *node)
{
    const NestNode *loop = e->kind == TE_NODE_AXIS ? nest_loop_of(node, e->axis) : NULL;
    bool depends =
        e->kind == TE_NODE_LOAD || (loop && loop->way == NEST_THREADS) ||
        (loop && loop->way == NEST_BOUND && depends_on_thread(loop->value, loop->parent));
    for (int i = 0; i < te_children(e) && !depends; i++)
        depends = depends_on_thread(te_child(e, i), node);
    return depends;
}

/* All threads of the block come to a barrier, and all of a warp to a shuffle. */
static void check_meeting(Verify *v, const NestNode *node)
{
    const NestNode *threads = NULL;
    int64_t n = 1;
    for (const NestNode *p = node->parent; p; p = p->parent) {
        bool leaves = is_loop_of(p, NEST_BOUND) && nest_may_leave(p);
        if (p->kind == NEST_IF || (leaves && depends_on_thread(p->value, p->parent)))
            fail(v, "threads that do not come meet others");
        if (is_loop_of(p, NEST_THREADS)) {
            threads = p;
            n *= p->extent;
        }
    }
    if (!threads)
        fail(v, "threads meet outside of a block");
    if (node->kind == NEST_SHUFFLE && (node->lanes < 1 || node->lanes >= NEST_WARP))
        fail(v, "a shuffle goes beyond its warp");
    if (node->kind == NEST_GROUP && n % NEST_GROUP_THREADS)
        fail(v, "a group is not of four warps");
    if (node->kind != NEST_BARRIER && node->kind != NEST_PASS && n % NEST_WARP)
        fail(v, "threads exchange values that are no warps");
}

static bool is_words(const Verify *v, int buffer)
{
    const NestBuffer *b = &v->n->buffers.at[buffer];
    return b->place == NEST_REGISTER && b->dtype.code == DTYPE_CODE_UINT && b->dtype.bits == 32;
}

static bool is_flat_load(const Te *e)
{
    return e && e->kind == TE_NODE_LOAD && e->n == 1 && !e->otherwise;
}

/* Whether every position is one at which a row of a matrix may begin. */
static bool begins_row(const Te *at, DType dtype, int but)
{
    NestLinear l;
    int64_t each = NEST_ROW_BYTES / (int64_t)dtype_size(dtype);
    bool even = nest_linear(at, &l) && l.c % each == 0;
    for (int i = 0; even && i < l.n; i++)
        even = l.term[i].by % each == 0 || l.term[i].var == but;
    return even;
}

static void check_fetch(Verify *v, const NestNode *s)
{
    bool flat = is_flat_load(s->value), two = flat && dtype_size(s->value->dtype) == 2;
    if (!flat || v->n->buffers.at[s->value->tensor].place != NEST_SHARED ||
        !is_words(v, s->buffer) || (s->lanes != 1 && s->lanes != 2 && s->lanes != 4) ||
        (s->turned && !two) || !begins_row(s->value->index[0], s->value->dtype, -1))
        fail(v, "matrices do not come from shared memory to words");
}

static void check_tile(Verify *v, const NestNode *s)
{
    const NestBuffer *sums = &v->n->buffers.at[s->buffer];
    if (!is_flat_load(s->value) || !is_words(v, s->value->tensor) || !is_flat_load(s->number) ||
        !is_words(v, s->number->tensor) || sums->place != NEST_REGISTER ||
        !nest_has_tile(s->factors, sums->dtype))
        fail(v, "tensor cores do not add such products");
}

/* What one thread writes the tensor cores see behind the next barrier only if it was copied, and shown. */
static void find_unshown(void *data, NestNode *node)
{
    Verify *v = data;
    int buffer = v->node->value->tensor, other = v->node->number->tensor;
    bool there = node->kind == NEST_STORE && (node->buffer == buffer || node->buffer == other);
    if (there && v->node->boxed)
        fail(v, "a group multiplies what did not come as a box");
    else if ((there && !node->copies) || (node->kind == NEST_WAIT && !node->shown))
        fail(v, "a group multiplies what was not shown to it");
}

/* Whether every position is one at which the pattern of boxes begins. */
static bool begins_box(const Te *at, DType dtype)
{
    NestLinear l;
    int64_t each = NEST_BOX_ALIGN / (int64_t)dtype_size(dtype);
    bool even = nest_linear(at, &l) && l.c % each == 0;
    for (int i = 0; even && i < l.n; i++)
        even = l.term[i].by % each == 0;
    return even;
}

/* Whether the factor lies where boxes leave it, or in matrices. */
static bool is_factor(const Verify *v, const NestNode *s, int which, int64_t rows)
{
    const Te *load = which ? s->number : s->value;
    DType t = s->factors[which];
    if (!is_flat_load(load) || !dtype_eq(load->dtype, t))
        return false;
    const NestBuffer *b = &v->n->buffers.at[load->tensor];
    if (b->place != NEST_SHARED || b->boxed != s->boxed)
        return false;
    return s->boxed ? begins_box(load->index[0], t)
                    : begins_row(load->index[0], t, -1) && s->pitch[which] % 8 == 0 &&
                          s->pitch[which] >= 8 * rows;
}

static void check_group(Verify *v, NestNode *s)
{
    const NestBuffer *sums = &v->n->buffers.at[s->buffer];
    int64_t bytes = s->folds * (int64_t)dtype_size(s->factors[0]);
    bool fits = sums->place == NEST_REGISTER && nest_has_tile(s->factors, sums->dtype) &&
                s->lanes % 16 == 0 && s->lanes > 0 && s->lanes <= NEST_GROUP_COLUMNS_MOST &&
                is_factor(v, s, 0, NEST_GROUP_ROWS) && is_factor(v, s, 1, s->lanes);
    /* Matrices of eight rows of eight elements are those of 16 bits. */
    if (s->boxed)
        fits = fits && bytes == NEST_BOX_ROW;
    else
        fits = fits && s->factors[0].bits == 16 && bytes % NEST_GROUP_BYTES == 0 && bytes > 0;
    if (!fits) {
        fail(v, "a group does not multiply so");
        return;
    }
    NestNode *root = s;
    while (root->parent)
        root = root->parent;
    nest_each(root, find_unshown, v);
    v->node = s;
}

static bool is_half(const Te *e)
{
    return e && dtype_is_float(e->dtype) && e->dtype.bits == 16;
}

static void check_pair(Verify *v, const NestNode *s)
{
    if (!is_words(v, s->buffer) || !is_half(s->value) || !is_half(s->number) ||
        !dtype_eq(s->value->dtype, s->number->dtype))
        fail(v, "a word is not of two halves");
}

/* What is copied while the threads go on: as many bytes as the card copies at once. */
static void check_copy(Verify *v, const NestNode *s)
{
    const NestNode *loop = s->parent;
    NestLinear to, from;
    bool lanes = loop && loop->way == NEST_VECTOR && loop->extent == loop->lanes &&
                 (size_t)loop->lanes * dtype_size(s->value->dtype) == NEST_ROW_BYTES;
    bool flat = lanes && is_flat_load(s->value) && nest_linear(s->at, &to) &&
                nest_linear(s->value->index[0], &from);
    const NestBuffer *b = &v->n->buffers.at[s->buffer];
    if (!flat || nest_coefficient(&to, loop->var) != 1 || nest_coefficient(&from, loop->var) != 1 ||
        b->place != NEST_SHARED || !begins_row(s->at, b->dtype, loop->var) ||
        !begins_row(s->value->index[0], b->dtype, loop->var) ||
        !dtype_eq(b->dtype, v->n->buffers.at[s->value->tensor].dtype))
        fail(v, "a copy is not of what lies side by side");
}

static bool is_word_of(const Verify *v, const Te *load)
{
    const NestBuffer *b = is_flat_load(load) ? &v->n->buffers.at[load->tensor] : NULL;
    return b && b->place != NEST_REGISTER && b->dtype.code == DTYPE_CODE_INT && b->dtype.bits == 32;
}

/* Positions are looked at as accesses. */
static void check_matrix(Verify *v, const NestNode *s)
{
    const NestMatrix *m = s->matrix;
    const NestBuffer *sums = &v->n->buffers.at[s->buffer];
    bool fits = sums->place != NEST_REGISTER && sums->dtype.code == DTYPE_CODE_INT &&
                sums->dtype.bits == 32 && is_word_of(v, s->value) && is_word_of(v, s->number) &&
                (m->rows == NEST_MATRIX_SIDE || m->rows == 2 * NEST_MATRIX_SIDE) &&
                (m->columns == NEST_MATRIX_SIDE || m->columns == 2 * NEST_MATRIX_SIDE) &&
                m->n > 0 && m->n <= NEST_MATRIX_AXES && m->row_step >= m->columns &&
                m->first_row >= 0 && m->second_word >= 0 && m->second_block >= 0;
    for (int i = 0; i < 2; i++)
        fits = fits && dtype_is_int(m->factors[i]) && m->factors[i].bits == 8;
    for (int i = 0; i < m->n && fits; i++)
        fits = m->axis[i].extent > 0 && m->axis[i].first >= 0 && m->axis[i].second >= 0;
    if (!fits)
        fail(v, "a matrix is not of words of bytes");
}

static bool is_gate(const Verify *v, int buffer)
{
    const NestBuffer *b = &v->n->buffers.at[buffer];
    return b->place == NEST_SHARED && b->dtype.code == DTYPE_CODE_UINT && b->dtype.bits == 64;
}

/* What the card's unit for copies takes: whole rows to where their pattern begins, from memory whose rows begin at multiples of 16 bytes. */
static void check_bulk(Verify *v, const NestNode *s)
{
    const NestBox *box = s->box;
    const NestBuffer *to = &v->n->buffers.at[s->buffer], *from = &v->n->buffers.at[box->from];
    int64_t size = (int64_t)dtype_size(to->dtype), last = box->offset;
    bool fits = is_gate(v, s->gate) && to->place == NEST_SHARED && to->boxed &&
                begins_box(s->at, to->dtype) && dtype_eq(to->dtype, from->dtype) &&
                (from->place == NEST_GIVEN || from->place == NEST_SCRATCH) && box->n >= 2 &&
                box->n <= NEST_BOX_AXES && box->axis[0].step == 1 &&
                box->axis[0].length * size == NEST_BOX_ROW &&
                box->offset * size % NEST_ROW_BYTES == 0 && box->offset >= 0;
    for (int i = 0; fits && i < box->n; i++) {
        fits = box->axis[i].length >= 1 && box->axis[i].length <= NEST_BOX_MOST &&
               box->axis[i].extent >= 1 && box->axis[i].extent <= INT32_MAX &&
               box->axis[i].step >= 1 && box->axis[i].step < NEST_STEP_MOST &&
               (i == 0 || box->axis[i].step * size % NEST_ROW_BYTES == 0);
        last += (box->axis[i].extent - 1) * box->axis[i].step;
        check_expression(v, box->axis[i].first);
    }
    if (!fits || last >= from->size)
        fail(v, "a box is not one that comes by itself");
}

static void check_gate(Verify *v, const NestNode *s)
{
    if (!is_gate(v, s->buffer) || (s->kind == NEST_OPEN && s->lanes < 1))
        fail(v, "a gate is not of 64 bits in shared memory");
}

static void check_shared(Verify *v, const NestNode *grid)
{
    size_t bytes = 0;
    for (size_t i = 0; i < v->n->buffers.n; i++) {
        const NestBuffer *b = &v->n->buffers.at[i];
        size_t align = b->boxed ? NEST_BOX_ALIGN : NEST_ROW_BYTES;
        if (b->place == NEST_SHARED && b->home == grid)
            bytes = ((bytes + align - 1) & ~(align - 1)) + (size_t)b->size * dtype_size(b->dtype);
    }
    if (bytes > NEST_SHARED_MOST)
        fail(v, "a block shares more memory than it has");
}

static void check_condition(Verify *v, const NestNode *node)
{
    if (dtype_id(node->value->dtype) != DT_BOOL)
        fail(v, "a condition is not true or false");
    for (const NestNode *p = node->parent; p; p = p->parent)
        if (is_loop_of(p, NEST_VECTOR))
            fail(v, "lanes of a vector go different ways");
}

static void check_node(void *data, NestNode *node)
{
    Verify *v = data;
    v->node = node;
    for (size_t i = 0; i < node->body.n; i++)
        if (node->body.at[i]->parent != node)
            fail(v, "a node does not know where it stands");
    if (node->kind == NEST_LOOP) {
        check_loop(v, node);
        if (node->way == NEST_GRID)
            check_shared(v, node);
        return;
    }
    bool matrices = node->kind == NEST_FETCH || node->kind == NEST_TILE || node->kind == NEST_GROUP;
    if (node->kind == NEST_BARRIER || node->kind == NEST_SHUFFLE || node->kind == NEST_PASS ||
        matrices)
        check_meeting(v, node);
    if (node->kind == NEST_PRODUCT || node->kind == NEST_BARRIER || node->kind == NEST_WAIT)
        return;
    if (node->kind == NEST_FETCH)
        check_fetch(v, node);
    if (node->kind == NEST_TILE)
        check_tile(v, node);
    if (node->kind == NEST_GROUP)
        check_group(v, node);
    if (node->kind == NEST_MATRIX)
        check_matrix(v, node);
    if (node->kind == NEST_PAIR)
        check_pair(v, node);
    if (node->kind == NEST_OPEN || node->kind == NEST_PASS)
        check_gate(v, node);
    if (node->kind == NEST_BULK)
        check_bulk(v, node);
    if (node->copies)
        check_copy(v, node);
    if (node->ahead && !(node->kind == NEST_FOLD && node->value->kind == TE_NODE_BINARY &&
                         is_flat_load(node->value->a) && is_flat_load(node->value->b)))
        fail(v, "what is fetched ahead is no factor");
    if (node->kind == NEST_IF)
        check_condition(v, node);
    check_expression(v, node->at);
    check_expression(v, node->value);
    check_expression(v, node->number);
}

const char *nest_verify(Nest *n)
{
    Verify v = {.n = n};
    for (size_t i = 0; i < n->root.n; i++) {
        nest_each(n->root.at[i], check_node, &v);
        NestAccesses all = nest_accesses(n, n->root.at[i]);
        for (size_t k = 0; k < all.n; k++)
            if (all.at[k].node->kind != NEST_PRODUCT)
                check_access(&v, &all.at[k]);
    }
    return v.wrong;
}
