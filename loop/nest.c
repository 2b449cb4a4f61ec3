/* Nodes of loop nests, linear positions, copies. */
#include "loop/nest.h"

#include "te/walk.h"

/* ---- linear positions ------------------------------------------------------------------------------------------------ */

bool nest_add_term(NestLinear *l, int var, int64_t by)
{
    int i = 0;
    while (i < l->n && l->term[i].var != var)
        i++;
    if (i == NEST_TERMS_MOST)
        return by == 0;
    if (i == l->n) {
        l->term[l->n].var = var;
        l->term[l->n++].by = 0;
    }
    l->term[i].by += by;
    if (l->term[i].by == 0)
        l->term[i] = l->term[--l->n];
    return true;
}

int64_t nest_coefficient(const NestLinear *l, int var)
{
    for (int i = 0; i < l->n; i++)
        if (l->term[i].var == var)
            return l->term[i].by;
    return 0;
}

static bool const_of(const Te *e, int64_t *v)
{
    if (e->kind != TE_NODE_CONST)
        return false;
    *v = value_as_int(e->value);
    return true;
}

/* Expressions of positions are shallow; deeper ones simply do not count as linear. */
enum { LINEAR_DEPTH = 200 };

static bool add_linear(const Te *e, int64_t factor, NestLinear *out, int depth)
{
    int64_t v;
    if (depth == LINEAR_DEPTH)
        return false;
    if (e->kind == TE_NODE_AXIS)
        return nest_add_term(out, e->axis, factor);
    if (const_of(e, &v)) {
        out->c += factor * v;
        return true;
    }
    if (e->kind != TE_NODE_BINARY)
        return false;
    if (e->op == TE_ADD || e->op == TE_SUB)
        return add_linear(e->a, factor, out, depth + 1) &&
               add_linear(e->b, e->op == TE_ADD ? factor : -factor, out, depth + 1);
    if (e->op == TE_MUL && const_of(e->b, &v))
        return add_linear(e->a, factor * v, out, depth + 1);
    if (e->op == TE_MUL && const_of(e->a, &v))
        return add_linear(e->b, factor * v, out, depth + 1);
    return false;
}

bool nest_linear(const Te *e, NestLinear *out)
{
    out->c = 0;
    out->n = 0;
    return e->dtype.code == DTYPE_CODE_INT && e->dtype.bits == 64 && add_linear(e, 1, out, 0);
}

Te *nest_position(Nest *n, const NestLinear *l)
{
    Te *e = NULL;
    for (int i = 0; i < l->n; i++) {
        Te *v = te_binary(&n->te, TE_MUL, te_axis(&n->te, l->term[i].var),
                          te_int(&n->te, l->term[i].by));
        e = e ? te_binary(&n->te, TE_ADD, e, v) : v;
    }
    Te *c = te_int(&n->te, l->c);
    return !e ? c : l->c ? te_binary(&n->te, TE_ADD, e, c) : e;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------------- */

int nest_var(Nest *n, const char *name)
{
    vec_push(&n->vars, n->arena, name);
    return (int)n->vars.n - 1;
}

int nest_buffer(Nest *n, NestBuffer b)
{
    vec_push(&n->buffers, n->arena, b);
    return (int)n->buffers.n - 1;
}

static NestNode *node_new(Nest *n, NestKind kind)
{
    NestNode *node = arena_new(n->arena, NestNode);
    node->kind = kind;
    return node;
}

NestNode *nest_loop(Nest *n, const char *name, int64_t extent)
{
    NestNode *loop = node_new(n, NEST_LOOP);
    loop->var = nest_var(n, name);
    loop->extent = extent;
    return loop;
}

NestNode *nest_store(Nest *n, int buffer, Te *at, Te *value)
{
    NestNode *s = node_new(n, NEST_STORE);
    s->buffer = buffer;
    s->at = at;
    s->value = value;
    return s;
}

NestNode *nest_fold(Nest *n, TeReduce fold, int buffer, Te *at, Te *value)
{
    NestNode *s = nest_store(n, buffer, at, value);
    s->kind = NEST_FOLD;
    s->fold = fold;
    return s;
}

NestNode *nest_product(Nest *n, int buffer, const NestProduct *product)
{
    NestNode *node = node_new(n, NEST_PRODUCT);
    node->buffer = buffer;
    node->product = *product;
    return node;
}

NestNode *nest_if(Nest *n, Te *value)
{
    NestNode *node = node_new(n, NEST_IF);
    node->value = value;
    return node;
}

NestNode *nest_if_nan(Nest *n, int buffer, Te *at)
{
    return nest_if(n, te_unary(&n->te, TE_ISNAN, nest_load(n, buffer, at)));
}

NestNode *nest_barrier(Nest *n)
{
    return node_new(n, NEST_BARRIER);
}

NestNode *nest_shuffle(Nest *n, int buffer, Te *at, int lanes, Te *value)
{
    NestNode *s = nest_store(n, buffer, at, value);
    s->kind = NEST_SHUFFLE;
    s->lanes = lanes;
    return s;
}

NestNode *nest_fetch(Nest *n, int buffer, Te *at, int matrices, Te *row)
{
    NestNode *s = nest_store(n, buffer, at, row);
    s->kind = NEST_FETCH;
    s->lanes = matrices;
    return s;
}

NestNode *nest_tile(Nest *n, int buffer, Te *at, const DType factors[2], Te *first, Te *second)
{
    NestNode *s = nest_store(n, buffer, at, first);
    s->kind = NEST_TILE;
    s->number = second;
    for (int i = 0; i < 2; i++)
        s->factors[i] = factors[i];
    return s;
}

NestNode *nest_matrix(Nest *n, int buffer, Te *at, const NestMatrix *m, Te *first, Te *second)
{
    NestNode *s = nest_store(n, buffer, at, first);
    s->kind = NEST_MATRIX;
    s->number = second;
    s->matrix = arena_copy(n->arena, m, sizeof *m);
    return s;
}

void nest_matrix_spans(const NestMatrix *m, int64_t out[3])
{
    enum { SIDE = NEST_MATRIX_SIDE };
    out[0] = (m->rows - 1) * m->first_row + SIDE;
    out[1] = (SIDE - 1) * m->second_word + (m->columns / SIDE - 1) * m->second_block + SIDE;
    out[2] = (m->rows - 1) * m->row_step + m->columns;
    for (int i = 0; i < m->n; i++) {
        out[0] += (m->axis[i].extent - 1) * m->axis[i].first;
        out[1] += (m->axis[i].extent - 1) * m->axis[i].second;
    }
}

NestNode *nest_group(Nest *n, int buffer, Te *at, const NestGroup *g, Te *first, Te *second)
{
    NestNode *s = nest_tile(n, buffer, at, g->factors, first, second);
    s->kind = NEST_GROUP;
    s->lanes = g->columns;
    s->folds = g->folds;
    s->boxed = g->boxed;
    for (int i = 0; i < 2; i++)
        s->pitch[i] = g->pitch[i];
    return s;
}

NestNode *nest_pair(Nest *n, int buffer, Te *at, Te *low, Te *high)
{
    NestNode *s = nest_store(n, buffer, at, low);
    s->kind = NEST_PAIR;
    s->number = high;
    return s;
}

int nest_in_word(DType factor)
{
    return 32 / factor.bits;
}

bool nest_has_tile(const DType factors[2], DType sums)
{
    DType a = factors[0], b = factors[1];
    if (a.bits == 8 && b.bits == 8 && !dtype_is_bool(a) && !dtype_is_bool(b))
        return sums.code == DTYPE_CODE_INT && sums.bits == 32;
    return dtype_eq(a, b) && dtype_is_float(a) && a.bits <= 32 && sums.code == DTYPE_CODE_FLOAT &&
           sums.bits == 32;
}

NestNode *nest_near(Nest *n, int buffer, Te *at)
{
    NestNode *s = nest_store(n, buffer, at, NULL);
    s->kind = NEST_NEAR;
    return s;
}

NestNode *nest_wait(Nest *n, int groups)
{
    NestNode *s = node_new(n, NEST_WAIT);
    s->lanes = groups;
    return s;
}

NestNode *nest_open(Nest *n, int gates, Te *at, int boxes)
{
    NestNode *s = nest_store(n, gates, at, NULL);
    s->kind = NEST_OPEN;
    s->lanes = boxes;
    return s;
}

NestNode *nest_bulk(Nest *n, int buffer, Te *at, const NestBox *box, int gates, Te *gate)
{
    NestNode *s = nest_store(n, buffer, at, NULL);
    s->kind = NEST_BULK;
    s->box = arena_copy(n->arena, box, sizeof *box);
    s->gate = gates;
    s->number = gate;
    return s;
}

NestNode *nest_pass(Nest *n, int gates, Te *at, Te *turn)
{
    NestNode *s = nest_store(n, gates, at, turn);
    s->kind = NEST_PASS;
    return s;
}

int64_t nest_box_size(const NestBox *box)
{
    int64_t size = 1;
    for (int i = 0; i < box->n; i++)
        size *= box->axis[i].length;
    return size;
}

void nest_bind(NestNode *loop, Te *value)
{
    loop->way = NEST_BOUND;
    loop->value = value;
}

NestBlock *nest_block(Nest *n, NestNode *parent)
{
    return parent ? &parent->body : &n->root;
}

void nest_insert(Nest *n, NestNode *parent, size_t at, NestNode *child)
{
    NestBlock *block = nest_block(n, parent);
    vec_push(block, n->arena, child);
    for (size_t i = block->n - 1; i > at; i--)
        block->at[i] = block->at[i - 1];
    block->at[at] = child;
    child->parent = parent;
}

void nest_append(Nest *n, NestNode *parent, NestNode *child)
{
    nest_insert(n, parent, nest_block(n, parent)->n, child);
}

size_t nest_index(Nest *n, const NestNode *child)
{
    NestBlock *block = nest_block(n, child->parent);
    size_t i = 0;
    while (block->at[i] != child)
        i++;
    return i;
}

void nest_remove(Nest *n, NestNode *child)
{
    NestBlock *block = nest_block(n, child->parent);
    for (size_t i = nest_index(n, child) + 1; i < block->n; i++)
        block->at[i - 1] = block->at[i];
    block->n--;
    child->parent = NULL;
}

void nest_each(NestNode *node, void (*found)(void *data, NestNode *node), void *data)
{
    found(data, node);
    for (size_t i = 0; i < node->body.n; i++)
        nest_each(node->body.at[i], found, data);
}

bool nest_holds(const NestNode *outer, const NestNode *inner)
{
    while (inner && inner != outer)
        inner = inner->parent;
    return inner == outer;
}

Te *nest_load(Nest *n, int buffer, Te *at)
{
    int64_t size = n->buffers.at[buffer].size;
    TeTensor t = {buffer, n->buffers.at[buffer].dtype, 1, &size};
    return te_load(&n->te, t, &at);
}

Te *nest_word(Nest *n, int buffer, Te *at, int apart)
{
    static const DType i32 = {DTYPE_CODE_INT, 32, 1};
    Te *word = nest_load(n, buffer, at);
    if (word->kind != TE_NODE_LOAD) /* of nothing */
        return te_number(&n->te, i32, 0);
    word->dtype = i32;
    word->word = (uint8_t)apart;
    return word;
}

Te *nest_load_like(Nest *n, const Te *load, int buffer, Te *at)
{
    return load->word ? nest_word(n, buffer, at, load->word) : nest_load(n, buffer, at);
}

Te *nest_start_of(Nest *n, TeReduce fold, DType dtype)
{
    switch (fold) {
    case TE_NO_REDUCE:
    case TE_SUM:
    case TE_ANY: return te_number(&n->te, dtype, 0);
    case TE_PROD:
    case TE_ALL: return te_number(&n->te, dtype, 1);
    case TE_REDUCE_MAX:
    case TE_ARGMAX:
    case TE_ARGMAX_LAST: return te_bound(&n->te, dtype, true);
    case TE_REDUCE_MIN:
    case TE_ARGMIN:
    case TE_ARGMIN_LAST: return te_bound(&n->te, dtype, false);
    }
    return NULL;
}

bool nest_is_position(TeReduce fold)
{
    return fold == TE_ARGMAX || fold == TE_ARGMIN || fold == TE_ARGMAX_LAST ||
           fold == TE_ARGMIN_LAST;
}

NestNode *nest_only_loop(const NestNode *loop)
{
    NestNode *inner = loop->body.n == 1 ? loop->body.at[0] : NULL;
    return inner && inner->kind == NEST_LOOP ? inner : NULL;
}

bool nest_shares(const NestNode *loop)
{
    bool shares = false;
    for (size_t i = 0; i < loop->body.n && loop->way == NEST_PARALLEL; i++)
        shares |= loop->body.at[i]->kind == NEST_LOOP && loop->body.at[i]->way == NEST_PARALLEL;
    return shares;
}

int64_t nest_turns(const NestNode *loop)
{
    int64_t inside = 0;
    if (loop->kind != NEST_LOOP || loop->way != NEST_PARALLEL)
        return 1;
    for (size_t i = 0; i < loop->body.n && nest_shares(loop); i++)
        inside += nest_turns(loop->body.at[i]);
    return (loop->across ? 1 : loop->extent) * (inside > 0 ? inside : 1);
}

/* ---- rewriting ------------------------------------------------------------------------------------------------------------ */

typedef struct Change {
    Nest *n;
    int var; /* -1: none */
    const NestLinear *with;
    int *buffers; /* by buffer: the one that takes its place; NULL: each stays */
} Change;

static Te *change_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    const Change *c = data;
    if (e->kind == TE_NODE_AXIS && e->axis == c->var)
        return nest_position(c->n, c->with);
    if (e->kind != TE_NODE_LOAD)
        return NULL;
    NestLinear l;
    bool moves = c->buffers && c->buffers[e->tensor] != e->tensor;
    bool flat = e->n == 1 && e->index[0] != old->index[0] && nest_linear(e->index[0], &l);
    if (!moves && !flat)
        return NULL;
    Te *made = arena_new(b->arena, Te);
    *made = *e;
    made->index = arena_copy(b->arena, e->index, e->n * sizeof *e->index);
    made->tensor = c->buffers ? c->buffers[e->tensor] : e->tensor;
    /* Positions are kept as plain sums, so that they stay small however often they change. */
    if (flat)
        made->index[0] = nest_position(c->n, &l);
    return made;
}

static Te *changed(Change *c, Te *e, bool is_position)
{
    NestLinear l;
    e = e ? te_rewrite(&c->n->te, e, change_node, c) : NULL;
    return e && is_position && nest_linear(e, &l) ? nest_position(c->n, &l) : e;
}

static void change_statement(void *data, NestNode *s)
{
    Change *c = data;
    s->value = changed(c, s->value, false);
    if (s->kind == NEST_LOOP)
        return;
    s->at = changed(c, s->at, true);
    s->number = changed(c, s->number, true);
    for (int i = 0; s->box && i < s->box->n; i++)
        s->box->axis[i].first = changed(c, s->box->axis[i].first, true);
    if (c->buffers && s->kind != NEST_PRODUCT) {
        s->buffer = c->buffers[s->buffer];
        s->winner = c->buffers[s->winner];
    }
}

void nest_substitute(Nest *n, NestNode *node, int var, const NestLinear *with)
{
    Change c = {.n = n, .var = var, .with = with};
    nest_each(node, change_statement, &c);
}

static NestNode *copy_tree(Nest *n, const NestNode *node, NestNode *parent)
{
    NestNode *made = arena_new(n->arena, NestNode);
    *made = *node;
    made->parent = parent;
    made->body = (NestBlock){0};
    if (node->box)
        made->box = arena_copy(n->arena, node->box, sizeof *node->box);
    for (size_t i = 0; i < node->body.n; i++)
        vec_push(&made->body, n->arena, copy_tree(n, node->body.at[i], made));
    return made;
}

/* Loops of the copy get variables, and what lives in it gets buffers of its own. */
static void own_parts(Nest *n, NestNode *made, const NestNode *old, NestNode *top)
{
    if (made->kind == NEST_LOOP) {
        NestLinear with = {.n = 1};
        with.term[0].var = nest_var(n, n->vars.at[old->var]);
        with.term[0].by = 1;
        nest_substitute(n, made, made->var, &with);
        made->var = with.term[0].var;
    }
    int *ids = NULL;
    size_t known = n->buffers.n;
    for (size_t i = 0; i < known; i++) {
        NestBuffer b = n->buffers.at[i];
        if (b.home != old || (b.place != NEST_LOCAL && b.place != NEST_REGISTER))
            continue;
        if (!ids)
            ids = arena_alloc_must(n->arena, known, sizeof *ids);
        b.home = made;
        ids[i] = nest_buffer(n, b) + 1;
    }
    if (ids) {
        for (size_t i = 0; i < known; i++)
            ids[i] = ids[i] ? ids[i] - 1 : (int)i;
        Change c = {.n = n, .var = -1, .buffers = ids};
        nest_each(made, change_statement, &c);
    }
    for (size_t i = 0; i < made->body.n; i++)
        own_parts(n, made->body.at[i], old->body.at[i], top);
}

NestNode *nest_copy(Nest *n, const NestNode *node)
{
    NestNode *made = copy_tree(n, node, NULL);
    own_parts(n, made, node, made);
    return made;
}
