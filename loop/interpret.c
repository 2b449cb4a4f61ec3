/* Nests run as they are written, one element at a time.
 *
 * The threads of a GPU's block go through the statements in step: each statement is done by all threads that are there before the next
 * one is. What that order hides is found by notes of who touched which place last, and when. */
#include "base/memory.h"
#include "loop/access.h"
#include "te/loops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Who touched a place, and between which barriers. */
typedef struct Touch {
    int64_t block, phase; /* ANY: several; -1: nobody */
    int thread;
    bool atomic; /* one of the folds that may meet */
    bool comes; /* what was written is a copy that has not arrived */
} Touch;

enum { NOBODY = -1, ANY = -2 };

/* What the kernel's threads did with a buffer that one of them writes. */
typedef struct Touched {
    Touch *written, *read; /* by place; NULL: nothing is noted */
} Touched;

/* A copied element that has not arrived. */
typedef struct Arrival {
    int thread, group, buffer;
    int64_t at;
    char bytes[8];
} Arrival;

/* A box that has not arrived. */
typedef struct Box {
    const NestNode *s;
    int64_t to, gate, first[NEST_BOX_AXES];
} Box;

/* What lies in a gate's memory. */
typedef struct Gate {
    uint16_t wanted, came; /* boxes of this turn */
    uint32_t turn;
} Gate;

enum { CLOSED = 0xffff }; /* `wanted` of memory that was never made a gate */

typedef struct Run {
    Nest *n;
    char **memory; /* by buffer; of each thread for what it has for itself */
    int64_t *var;
    const char *failed; /* why; NULL: it has not */
    /* in a kernel */
    int threads; /* of a block; 0: outside */
    Touch now;
    bool folds; /* what is written now is folded atomically */
    int64_t **own; /* by variable: its values by thread; NULL: the same for all */
    Touched *touched; /* by buffer */
    Vec(Arrival) underway;
    Vec(Box) boxes; /* underway, too */
    int *groups; /* by thread: of its copies, that are closed */
} Run;

typedef union Element {
    uint64_t bits;
    double d;
    float f;
    int64_t i;
    char bytes[8];
} Element;

static Element eval(Run *r, const Te *e);

static int64_t eval_index(Run *r, const Te *e)
{
    return eval(r, e).i;
}

static bool is_own(const NestBuffer *b)
{
    return b->place == NEST_LOCAL || b->place == NEST_REGISTER;
}

static char *element_at(const Run *r, int buffer, int64_t at)
{
    const NestBuffer *b = &r->n->buffers.at[buffer];
    at += r->threads && is_own(b) ? r->now.thread * b->size : 0;
    return r->memory[buffer] + (size_t)at * dtype_size(b->dtype);
}

/* ---- races ------------------------------------------------------------------------------------------------------------- */

static bool apart(const Run *r, const NestBuffer *b, const Touch *t)
{
    if (t->block == NOBODY)
        return true;
    if (t->block != r->now.block)
        return b->place == NEST_SHARED;
    return t->phase != r->now.phase || t->thread == r->now.thread;
}

/* Folds that may meet do so in any order, but nobody else comes to where they meet. */
static void note_atomic(Run *r, const NestBuffer *b, const Touched *notes, int64_t at)
{
    Touch *written = &notes->written[at];
    if ((!written->atomic && !apart(r, b, written)) || !apart(r, b, &notes->read[at]))
        r->failed = "two threads touch the same place, and nothing says which comes first";
    int64_t block = written->atomic && written->block != r->now.block ? ANY : r->now.block;
    *written = r->now;
    written->block = block;
    written->atomic = true;
}

static void note_touch(Run *r, int buffer, int64_t at, bool writes)
{
    const Touched *notes = r->touched ? &r->touched[buffer] : NULL;
    const NestBuffer *b = &r->n->buffers.at[buffer];
    if (!notes || !notes->written)
        return;
    if (writes && r->folds) {
        note_atomic(r, b, notes, at);
        return;
    }
    Touch *written = &notes->written[at], *read = &notes->read[at];
    if (written->block == r->now.block && written->comes)
        r->failed = "a copy is touched before it has arrived";
    if (!apart(r, b, written) || (writes && !apart(r, b, read)))
        r->failed = "two threads touch the same place, and nothing says which comes first";
    if (writes) {
        *written = r->now;
        return;
    }
    bool other_block = read->block != NOBODY && read->block != r->now.block;
    if (other_block && b->place != NEST_SHARED)
        read->block = ANY;
    else if (read->block == r->now.block && read->phase == r->now.phase &&
             read->thread != r->now.thread)
        read->thread = ANY;
    else
        *read = r->now;
}

static bool reach(Run *r, int buffer, int64_t at, bool writes)
{
    if (at < 0 || at >= r->n->buffers.at[buffer].size)
        r->failed = "a position lies outside of its buffer";
    else
        note_touch(r, buffer, at, writes);
    return !r->failed;
}

/* Notes that a copy is on its way to the place, or that it is there. */
static void comes(Run *r, int buffer, int64_t at, bool underway)
{
    Touch *written = r->touched ? r->touched[buffer].written : NULL;
    if (written)
        written[at].comes = underway;
}

/* ---- expressions --------------------------------------------------------------------------------------------------------- */

static Element eval_load(Run *r, const Te *e)
{
    const NestBuffer *b = &r->n->buffers.at[e->tensor];
    int64_t at = 0;
    bool flat = e->n == 1 && !e->otherwise, inside = true;
    if (flat)
        at = eval_index(r, e->index[0]);
    for (int i = 0; i < e->n && !flat; i++) {
        int64_t v = eval_index(r, e->index[i]);
        inside = inside && v >= 0 && v < b->shape[i];
        at = at * b->shape[i] + v;
    }
    if (!inside && e->otherwise)
        return eval(r, e->otherwise);
    Element out = {0};
    size_t size = dtype_size(b->dtype);
    for (int i = 0; i < (e->word ? NEST_WORD : 1); i++)
        if (reach(r, e->tensor, inside ? at + i * e->word : -1, false))
            memcpy(out.bytes + (size_t)i * size, element_at(r, e->tensor, at + i * e->word), size);
    return out;
}

static Element eval(Run *r, const Te *e)
{
    Element out = {0}, a, b;
    DTypeId id = dtype_id(e->dtype);
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: memcpy(out.bytes, &e->value.bits, dtype_size(e->dtype)); break;
    case TE_NODE_AXIS:
        out.i = r->own && r->own[e->axis] ? r->own[e->axis][r->now.thread] : r->var[e->axis];
        break;
    case TE_NODE_LOAD: return eval_load(r, e);
    case TE_NODE_UNARY:
        a = eval(r, e->a);
        te_loop_unary((TeOp)e->op, dtype_id(e->a->dtype), out.bytes, a.bytes, 1);
        break;
    case TE_NODE_BINARY:
        a = eval(r, e->a);
        b = eval(r, e->b);
        if (!dtype_is_float(e->a->dtype) &&
            te_loop_fault((TeOp)e->op, dtype_id(e->a->dtype), a.bytes, b.bytes, 1))
            r->failed = "a value cannot be computed";
        else
            te_loop_binary((TeOp)e->op, dtype_id(e->a->dtype), out.bytes, a.bytes, b.bytes, 1);
        break;
    case TE_NODE_CAST:
        a = eval(r, e->a);
        te_loop_cast(id, dtype_id(e->a->dtype), out.bytes, a.bytes, 1);
        break;
    case TE_NODE_SELECT: return eval(r, e->a).bytes[0] ? eval(r, e->b) : eval(r, e->c);
    }
    return out;
}

static bool is_nan(DType t, const char *at)
{
    Value v = {.kind = VALUE_SCALAR, .dtype = t};
    memcpy(&v.bits, at, dtype_size(t));
    return dtype_is_float(t) && isnan(value_as_double(v));
}

static bool compares(TeOp op, DType t, const char *a, const char *b)
{
    char out = 0;
    te_loop_binary(op, dtype_id(t), &out, a, b, 1);
    return out != 0;
}

/* A candidate for a position, among others in any order. A NaN wins where it is the first of all alone, as it does in order. */
static void fold_candidate(Run *r, const NestNode *s, int64_t place, const Element *v)
{
    DType t = s->value->dtype;
    char *best = element_at(r, s->winner, place);
    int64_t number = eval_index(r, s->number), at;
    memcpy(&at, element_at(r, s->buffer, place), sizeof at);
    bool greatest = s->fold == TE_ARGMAX || s->fold == TE_ARGMAX_LAST;
    bool last = s->fold == TE_ARGMAX_LAST || s->fold == TE_ARGMIN_LAST;
    bool wins = at < 0 || compares(greatest ? TE_GT : TE_LT, t, v->bytes, best) ||
                (compares(TE_EQ, t, v->bytes, best) && (last ? number > at : number < at)) ||
                (is_nan(t, best) && at != 0) || (is_nan(t, v->bytes) && number == 0);
    if (number < 0 || !wins || r->failed)
        return;
    memcpy(best, v->bytes, dtype_size(t));
    memcpy(element_at(r, s->buffer, place), &number, sizeof number);
}

static void run_statement(Run *r, const NestNode *s)
{
    int64_t at = eval_index(r, s->at);
    Element v = eval(r, s->value);
    r->folds = s->kind == NEST_FOLD && s->atomic;
    bool there = !r->failed && reach(r, s->buffer, at, true);
    r->folds = false;
    if (!there)
        return;
    char *to = element_at(r, s->buffer, at);
    if (s->copies) {
        Arrival a = {r->now.thread, r->groups[r->now.thread], s->buffer, at, {0}};
        memcpy(a.bytes, v.bytes, sizeof a.bytes);
        vec_push(&r->underway, r->n->arena, a);
        memset(to, 0xff, dtype_size(s->value->dtype));
        comes(r, s->buffer, at, true);
        return;
    }
    DTypeId id = dtype_id(s->value->dtype);
    if (s->kind == NEST_PAIR)
        memcpy(to + 2, eval(r, s->number).bytes, 2);
    if (s->kind == NEST_STORE || s->kind == NEST_PAIR)
        memcpy(to, v.bytes, dtype_size(s->value->dtype));
    else if (nest_is_position(s->fold) && s->any_order)
        fold_candidate(r, s, at, &v);
    else if (nest_is_position(s->fold))
        te_loop_fold_many_at(s->fold, id, element_at(r, s->winner, at), (int64_t *)(void *)to,
                             v.bytes, eval_index(r, s->number), 1);
    else if (!s->any_order || !is_nan(s->value->dtype, to))
        te_loop_fold_many(s->fold, id, to, v.bytes, 1);
}

static double number_at(const Run *r, int buffer, int64_t at)
{
    DType t = r->n->buffers.at[buffer].dtype;
    Value v = {.kind = VALUE_SCALAR, .dtype = t};
    memcpy(&v.bits, element_at(r, buffer, at), dtype_size(t));
    return value_as_double(v);
}

static void run_product(const Run *r, const NestNode *s)
{
    const NestProduct *p = &s->product;
    DType t = r->n->buffers.at[s->buffer].dtype;
    for (int64_t b = 0; b < p->batch.extent; b++)
        for (int64_t i = 0; i < p->m.extent; i++)
            for (int64_t j = 0; j < p->n.extent; j++) {
                double sum = 0;
                int64_t a0 = p->a_from + b * p->batch.a + i * p->m.a;
                int64_t b0 = p->b_from + b * p->batch.b + j * p->n.b;
                for (int64_t k = 0; k < p->k.extent; k++)
                    sum +=
                        number_at(r, p->a, a0 + k * p->k.a) * number_at(r, p->b, b0 + k * p->k.b);
                Value v = value_scalar_double(t, sum);
                int64_t at = b * p->batch.c + i * p->m.c + j * p->n.c;
                memcpy(element_at(r, s->buffer, at), &v.bits, dtype_size(t));
            }
}

/* Four products of bytes of the matrix's words. */
static uint32_t dots_of(const NestMatrix *m, const char *a, const char *b)
{
    uint32_t sum = 0;
    for (int i = 0; i < NEST_WORD; i++) {
        double x = dtype_get_double(m->factors[0], a + i),
               y = dtype_get_double(m->factors[1], b + i);
        sum += (uint32_t)(int32_t)(x * y);
    }
    return sum;
}

/* The sum of one place, from where its row and column begin; false: a word is out of reach. */
static bool sum_of_matrix(Run *r, const NestNode *s, int64_t a, int64_t b, uint32_t *sum)
{
    const NestMatrix *m = s->matrix;
    int64_t turn[NEST_MATRIX_AXES] = {0};
    int i;
    *sum = 0;
    do {
        int64_t from = a, to = b;
        for (i = 0; i < m->n; i++) {
            from += turn[i] * m->axis[i].first;
            to += turn[i] * m->axis[i].second;
        }
        for (int64_t k = 0; k < NEST_MATRIX_SIDE; k++) {
            int64_t second = to + k * m->second_word;
            if (!reach(r, s->value->tensor, from + k, false) ||
                !reach(r, s->number->tensor, second, false))
                return false;
            *sum += dots_of(m, element_at(r, s->value->tensor, from + k),
                            element_at(r, s->number->tensor, second));
        }
        for (i = m->n - 1; i >= 0 && ++turn[i] == m->axis[i].extent; i--)
            turn[i] = 0;
    } while (i >= 0);
    return true;
}

static void run_matrix(Run *r, const NestNode *s)
{
    const NestMatrix *m = s->matrix;
    int64_t at = eval_index(r, s->at), a = eval_index(r, s->value->index[0]),
            b = eval_index(r, s->number->index[0]);
    for (int64_t i = 0; i < m->rows && !r->failed; i++)
        for (int64_t j = 0; j < m->columns && !r->failed; j++) {
            uint32_t sum;
            int64_t column = j / NEST_MATRIX_SIDE * m->second_block + j % NEST_MATRIX_SIDE;
            if (sum_of_matrix(r, s, a + i * m->first_row, b + column, &sum) &&
                reach(r, s->buffer, at + i * m->row_step + j, true))
                memcpy(element_at(r, s->buffer, at + i * m->row_step + j), &sum, sizeof sum);
        }
}

/* ---- threads of a block ------------------------------------------------------------------------------------------------- */

/* Which threads are there, by number. */
typedef struct There {
    bool is[NEST_THREADS_MOST];
    int n;
} There;

static void run_in_step(Run *r, const NestBlock *block, const There *there);

static void shuffle(Run *r, const NestNode *s, const There *there)
{
    Element v[NEST_WARP];
    for (int first = 0; first < r->threads && !r->failed; first += NEST_WARP) {
        for (int i = 0; i < NEST_WARP; i++) {
            r->now.thread = first + i;
            if (first + i >= r->threads || there->is[first + i] != there->is[first])
                r->failed = "a shuffle misses threads of its warp";
            else if (there->is[first])
                v[i] = eval(r, s->value);
        }
        for (int i = 0; i < NEST_WARP && there->is[first] && !r->failed; i++) {
            r->now.thread = first + i;
            int64_t at = eval_index(r, s->at);
            if (reach(r, s->buffer, at, true))
                memcpy(element_at(r, s->buffer, at), v[i ^ s->lanes].bytes,
                       dtype_size(s->value->dtype));
        }
    }
}

/* Whether all threads of the warp that begins with this one are there, or none, which `some` says. */
static bool is_whole(Run *r, int first, const There *there, bool *some)
{
    *some = there->is[first];
    for (int i = 0; i < NEST_WARP; i++)
        if (first + i >= r->threads || there->is[first + i] != *some)
            r->failed = "tensor cores miss threads of a warp";
    return !r->failed;
}

/* `n` words of the thread from the place on. */
static bool words_at(Run *r, int buffer, const Te *place, int n, bool writes, uint32_t **out)
{
    int64_t at = eval_index(r, place);
    if (r->failed || !reach(r, buffer, at, writes) || !reach(r, buffer, at + n - 1, writes))
        return false;
    *out = (uint32_t *)(void *)element_at(r, buffer, at);
    return true;
}

static void fetch_of_warp(Run *r, const NestNode *s, int first)
{
    char rows[4][8][NEST_ROW_BYTES];
    const Te *row = s->value;
    size_t size = dtype_size(row->dtype);
    for (int t = 0; t < 8 * s->lanes; t++) {
        r->now.thread = first + t;
        int64_t at = eval_index(r, row->index[0]);
        for (size_t i = 0; i < NEST_ROW_BYTES / size; i++) {
            if (r->failed || !reach(r, row->tensor, at + (int64_t)i, false))
                return;
            memcpy(rows[t / 8][t % 8] + i * size, element_at(r, row->tensor, at + (int64_t)i),
                   size);
        }
    }
    for (int t = 0; t < NEST_WARP; t++) {
        uint32_t *to;
        r->now.thread = first + t;
        if (!words_at(r, s->buffer, s->at, s->lanes, true, &to))
            return;
        for (int m = 0; m < s->lanes; m++)
            for (int half = 0; half < 2; half++) {
                int along = t % 4 * 2 + half, across = t / 4;
                char *from = s->turned ? rows[m][along] + 2 * across : rows[m][across] + 2 * along;
                memcpy((char *)&to[m] + 2 * half, from, 2);
            }
    }
}

/* An element of a word, as tensor cores see it. */
static double in_word(DType t, uint32_t word, int which)
{
    if (t.bits == 32)
        word &= ~(uint32_t)0x1fff;
    return dtype_get_double(t, (char *)&word + (size_t)which * dtype_size(t));
}

/* Sums of integers wrap. */
static void set_sum(DType t, uint32_t *to, double sum)
{
    if (dtype_is_float(t))
        dtype_set_double(t, (char *)to, sum);
    else
        *to = (uint32_t)(int64_t)sum;
}

static void tile_of_warp(Run *r, const NestNode *s, int first)
{
    double a[NEST_TILE_ROWS][32], b[NEST_TILE_COLUMNS][32];
    int each = nest_in_word(s->factors[0]), depth = 8 * each;
    uint32_t *words;
    for (int t = 0; t < NEST_WARP; t++) {
        r->now.thread = first + t;
        if (!words_at(r, s->value->tensor, s->value->index[0], NEST_TILE_FIRST, false, &words))
            return;
        for (int i = 0; i < NEST_TILE_FIRST * each; i++)
            a[t / 4 + i / each % 2 * 8][(i / each / 2 * 4 + t % 4) * each + i % each] =
                in_word(s->factors[0], words[i / each], i % each);
        if (!words_at(r, s->number->tensor, s->number->index[0], NEST_TILE_SECOND, false, &words))
            return;
        for (int i = 0; i < NEST_TILE_SECOND * each; i++)
            b[t / 4][(i / each * 4 + t % 4) * each + i % each] =
                in_word(s->factors[1], words[i / each], i % each);
    }
    DType sums = r->n->buffers.at[s->buffer].dtype;
    for (int t = 0; t < NEST_WARP; t++) {
        r->now.thread = first + t;
        if (!words_at(r, s->buffer, s->at, NEST_TILE_SUMS, true, &words))
            return;
        for (int i = 0; i < NEST_TILE_SUMS; i++) {
            double sum = dtype_get_double(sums, (char *)&words[i]);
            for (int k = 0; k < depth; k++)
                sum += a[t / 4 + i / 2 * 8][k] * b[t % 4 * 2 + i % 2][k];
            set_sum(sums, &words[i], sum);
        }
    }
}

/* Where an element of the box lies behind its first one: rows of 128 bytes, whose parts of 16 are exchanged. */
static int64_t place_in_box(DType t, int64_t row, int64_t at)
{
    int64_t size = (int64_t)dtype_size(t), byte = at * size;
    int64_t part = byte / NEST_ROW_BYTES ^ row % 8;
    return (row * NEST_BOX_ROW + part * NEST_ROW_BYTES + byte % NEST_ROW_BYTES) / size;
}

/* A factor's element as the group's tensor cores find it: row and fold. */
static double in_matrices(Run *r, const NestNode *s, int which, int64_t from, int64_t row,
                          int64_t fold)
{
    const Te *load = which ? s->number : s->value;
    int64_t at = from + (s->boxed ? place_in_box(load->dtype, row, fold)
                                  : fold / 8 * s->pitch[which] + row * 8 + fold % 8);
    if (r->failed || !reach(r, load->tensor, at, false))
        return 0;
    double v = dtype_get_double(load->dtype, element_at(r, load->tensor, at));
    uint32_t word;
    if (load->dtype.bits != 32)
        return v;
    memcpy(&word, element_at(r, load->tensor, at), sizeof word);
    return in_word(load->dtype, word, 0);
}

static void group_of_warps(Run *r, const NestNode *s, int first, const int64_t from[2])
{
    enum { ROWS = NEST_GROUP_ROWS, COLUMNS = NEST_GROUP_COLUMNS_MOST };
    static double sums[ROWS][COLUMNS];
    double a[ROWS], b[COLUMNS];
    memset(sums, 0, sizeof sums);
    for (int64_t k = 0; k < s->folds && !r->failed; k++) {
        for (int i = 0; i < ROWS; i++) {
            r->now.thread = first + 2 * i;
            a[i] = in_matrices(r, s, 0, from[0], i, k);
        }
        for (int j = 0; j < s->lanes; j++) {
            r->now.thread = first + j % NEST_GROUP_THREADS;
            b[j] = in_matrices(r, s, 1, from[1], j, k);
        }
        for (int i = 0; i < ROWS; i++)
            for (int j = 0; j < s->lanes; j++)
                sums[i][j] += a[i] * b[j];
    }
    DType t = r->n->buffers.at[s->buffer].dtype;
    for (int thread = 0; thread < NEST_GROUP_THREADS; thread++) {
        uint32_t *words;
        r->now.thread = first + thread;
        if (!words_at(r, s->buffer, s->at, s->lanes / 2, true, &words))
            return;
        for (int i = 0; i < s->lanes / 2; i++) {
            int row = thread / NEST_WARP * 16 + thread % NEST_WARP / 4 + i / 2 % 2 * 8;
            int column = i / 4 * 8 + thread % 4 * 2 + i % 2;
            set_sum(t, &words[i], dtype_get_double(t, (char *)&words[i]) + sums[row][column]);
        }
    }
}

/* The same for groups; the first row and column are where the group's first thread says, and all others say the same. */
static void groups(Run *r, const NestNode *s, const There *there)
{
    for (int first = 0; first < r->threads && !r->failed; first += NEST_GROUP_THREADS) {
        int64_t from[2];
        for (int t = first; t < first + NEST_GROUP_THREADS; t++) {
            r->now.thread = t;
            if (t >= r->threads || there->is[t] != there->is[first]) {
                r->failed = "tensor cores miss threads of a group";
                return;
            }
            int64_t own[2] = {eval_index(r, s->value->index[0]),
                              eval_index(r, s->number->index[0])};
            if (t == first)
                memcpy(from, own, sizeof own);
            else if (there->is[t] && memcmp(from, own, sizeof own) != 0)
                r->failed = "threads of a group multiply different things";
        }
        if (there->is[first] && !r->failed)
            group_of_warps(r, s, first, from);
    }
}

static void matrices(Run *r, const NestNode *s, const There *there)
{
    bool some;
    for (int first = 0; first < r->threads; first += NEST_WARP) {
        if (!is_whole(r, first, there, &some))
            return;
        if (some && s->kind == NEST_FETCH)
            fetch_of_warp(r, s, first);
        else if (some)
            tile_of_warp(r, s, first);
    }
}

/* What the threads asked for arrives, but for the last groups. */
static void wait_for_copies(Run *r, const NestNode *s, const There *there)
{
    size_t left = 0;
    for (int t = 0; t < r->threads; t++)
        r->groups[t] += there->is[t];
    for (size_t i = 0; i < r->underway.n; i++) {
        const Arrival a = r->underway.at[i];
        r->now.thread = a.thread;
        if (!there->is[a.thread] || a.group >= r->groups[a.thread] - s->lanes) {
            r->underway.at[left++] = a;
            continue;
        }
        comes(r, a.buffer, a.at, false);
        if (reach(r, a.buffer, a.at, true))
            memcpy(element_at(r, a.buffer, a.at), a.bytes,
                   dtype_size(r->n->buffers.at[a.buffer].dtype));
    }
    r->underway.n = left;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------------- */

/* The gate, for one who makes it or is at it; NULL after a failure. */
static Gate *gate_at(Run *r, int buffer, int64_t at, bool makes)
{
    if (!reach(r, buffer, at, makes))
        return NULL;
    Gate *g = (Gate *)(void *)element_at(r, buffer, at);
    if (!makes && g->wanted == CLOSED)
        r->failed = "a gate was never made one";
    return r->failed ? NULL : g;
}

static void open_gate(Run *r, const NestNode *s)
{
    Gate *g = gate_at(r, s->buffer, eval_index(r, s->at), true);
    if (g)
        *g = (Gate){.wanted = (uint16_t)s->lanes};
}

/* Nobody knows when it comes: what lies there until then is of no use to anybody. */
static void ask_for_box(Run *r, const NestNode *s)
{
    Box b = {.s = s, .to = eval_index(r, s->at), .gate = eval_index(r, s->number)};
    int64_t n = nest_box_size(s->box);
    size_t size = dtype_size(r->n->buffers.at[s->buffer].dtype);
    Gate *g = gate_at(r, s->gate, b.gate, false);
    if (g && g->came == g->wanted)
        r->failed = "more boxes come to a gate than it waits for";
    for (int i = 0; i < s->box->n; i++)
        b.first[i] = eval_index(r, s->box->axis[i].first);
    for (int64_t i = 0; i < n; i++) {
        if (r->failed || !reach(r, s->buffer, b.to + i, true))
            return;
        memset(element_at(r, s->buffer, b.to + i), 0xff, size);
        comes(r, s->buffer, b.to + i, true);
    }
    g->came++;
    vec_push(&r->boxes, r->n->arena, b);
}

/* An element of the box comes from where it lies, or is 0 where the tensor has none. */
static void bring_element(Run *r, const Box *b, int64_t row, int64_t at)
{
    const NestNode *s = b->s;
    const NestBox *box = s->box;
    int64_t from = box->offset, rest = row;
    bool inside = true;
    for (int i = 0; i < box->n; i++) {
        int64_t v = b->first[i] + (i ? rest % box->axis[i].length : at);
        rest = i ? rest / box->axis[i].length : rest;
        inside = inside && v >= 0 && v < box->axis[i].extent;
        from += v * box->axis[i].step;
    }
    DType t = r->n->buffers.at[s->buffer].dtype;
    int64_t to = b->to + place_in_box(t, row, at);
    char *place = element_at(r, s->buffer, to);
    memset(place, 0, dtype_size(t));
    if (inside && reach(r, box->from, from, false))
        memcpy(place, element_at(r, box->from, from), dtype_size(t));
    /* It was written before anything that comes now, and by nobody. */
    Touch *written = r->touched[s->buffer].written;
    written[to] = (Touch){.block = r->now.block, .phase = NOBODY, .thread = ANY};
}

/* All boxes of the gate's turn are there; the next turn begins. */
static void finish_turn(Run *r, int gates, int64_t gate, Gate *g)
{
    size_t left = 0;
    for (size_t i = 0; i < r->boxes.n; i++) {
        const Box b = r->boxes.at[i];
        int64_t row = b.s->box->axis[0].length, n = nest_box_size(b.s->box);
        if (b.s->gate != gates || b.gate != gate)
            r->boxes.at[left++] = b;
        for (int64_t k = 0; k < n && b.s->gate == gates && b.gate == gate && !r->failed; k++)
            bring_element(r, &b, k / row, k % row);
    }
    r->boxes.n = left;
    g->came = 0;
    g->turn++;
}

/* All threads come to one gate, and it is this turn that ends or has just ended. */
static void pass(Run *r, const NestNode *s, const There *there)
{
    int64_t gate = 0, turn = 0;
    Gate *g = NULL;
    for (int t = 0; t < r->threads && !r->failed; t++) {
        r->now.thread = t;
        int64_t own[2] = {eval_index(r, s->at), eval_index(r, s->value)};
        if (there->n < r->threads)
            r->failed = "threads that do not come wait for boxes";
        else if (t > 0 && (own[0] != gate || own[1] != turn))
            r->failed = "threads wait for different boxes";
        gate = own[0];
        turn = own[1];
        g = gate_at(r, s->buffer, gate, false);
    }
    if (g && g->came == g->wanted)
        finish_turn(r, s->buffer, gate, g);
    if (g && g->turn != turn + 1)
        r->failed = "threads wait for boxes that nobody asked for";
}

/* The threads that the condition or the bound of the node lets in. */
static There let_in(Run *r, const NestNode *s, const There *there)
{
    There in = {.n = 0};
    for (int t = 0; t < r->threads && !r->failed; t++) {
        r->now.thread = t;
        if (!there->is[t])
            continue;
        if (s->kind == NEST_IF) {
            in.is[t] = eval(r, s->value).bytes[0];
        } else {
            r->own[s->var][t] = eval_index(r, s->value);
            in.is[t] = r->own[s->var][t] < s->extent;
            if (r->own[s->var][t] < 0)
                r->failed = "a bound variable lies below 0";
        }
        in.n += in.is[t];
    }
    return in;
}

static void run_node_in_step(Run *r, const NestNode *s, const There *there)
{
    if (s->kind == NEST_BARRIER) {
        if (there->n < r->threads)
            r->failed = "a barrier misses threads of its block";
        r->now.phase++;
    } else if (s->kind == NEST_SHUFFLE) {
        shuffle(r, s, there);
    } else if (s->kind == NEST_FETCH || s->kind == NEST_TILE) {
        matrices(r, s, there);
    } else if (s->kind == NEST_GROUP) {
        groups(r, s, there);
    } else if (s->kind == NEST_WAIT) {
        wait_for_copies(r, s, there);
    } else if (s->kind == NEST_PASS) {
        pass(r, s, there);
    } else if (s->kind == NEST_IF || (s->kind == NEST_LOOP && s->way == NEST_BOUND)) {
        There in = let_in(r, s, there);
        if (in.n > 0)
            run_in_step(r, &s->body, &in);
    } else if (s->kind == NEST_LOOP) {
        int64_t *var = &r->var[s->var];
        for (*var = 0; *var < s->extent && !r->failed; ++*var)
            run_in_step(r, &s->body, there);
    } else if (s->kind == NEST_PRODUCT || s->kind == NEST_MATRIX) {
        r->failed = "a processor's product is wanted inside of a kernel";
    } else {
        for (int t = 0; t < r->threads && !r->failed; t++) {
            r->now.thread = t;
            if (there->is[t] && s->kind == NEST_OPEN)
                open_gate(r, s);
            else if (there->is[t] && s->kind == NEST_BULK)
                ask_for_box(r, s);
            else if (there->is[t])
                run_statement(r, s);
        }
    }
}

static void run_in_step(Run *r, const NestBlock *block, const There *there)
{
    for (size_t i = 0; i < block->n && !r->failed; i++)
        run_node_in_step(r, block->at[i], there);
}

/* What nobody wrote in this block is seen. */
static void clear_block(Run *r, const NestNode *grid)
{
    for (size_t i = 0; i < r->n->buffers.n; i++) {
        const NestBuffer *b = &r->n->buffers.at[i];
        int64_t each = is_own(b) ? r->threads : 1;
        if (b->home && nest_holds(grid, b->home))
            memset(r->memory[i], 0xff, (size_t)(b->size * each) * dtype_size(b->dtype));
    }
}

/* The loops of the grid around the threads, outermost first. */
static void run_blocks(Run *r, const NestNode *grid, const NestNode *loop, const There *all)
{
    if (loop->way == NEST_THREADS) {
        clear_block(r, grid);
        r->now.phase = 0;
        r->now.block++;
        r->underway.n = 0;
        r->boxes.n = 0;
        while (loop->body.n == 1 && loop->body.at[0]->way == NEST_THREADS)
            loop = loop->body.at[0];
        run_in_step(r, &loop->body, all);
        return;
    }
    for (r->var[loop->var] = 0; r->var[loop->var] < loop->extent && !r->failed; r->var[loop->var]++)
        run_blocks(r, grid, loop->body.at[0], all);
}

/* Threads are numbered with the innermost of their loops fastest. */
static void number_threads(Run *r, const NestNode *grid)
{
    const NestNode *loop = grid;
    while (loop->way == NEST_GRID)
        loop = loop->body.at[0];
    int around = 1;
    r->threads = 1;
    for (const NestNode *l = loop; l->way == NEST_THREADS; l = l->body.at[0])
        r->threads *= (int)l->extent;
    for (const NestNode *l = loop; l->way == NEST_THREADS; l = l->body.at[0]) {
        around *= (int)l->extent;
        for (int t = 0; t < r->threads; t++)
            r->own[l->var][t] = t / (r->threads / around) % (int)l->extent;
    }
}

static void find_own(void *data, NestNode *node)
{
    Run *r = data;
    if (node->kind == NEST_LOOP && (node->way == NEST_THREADS || node->way == NEST_BOUND))
        r->own[node->var] = arena_alloc_must(r->n->arena, NEST_THREADS_MOST, sizeof(int64_t));
}

static Touch *touches(int64_t n)
{
    Touch *t = memory_must((size_t)(n + 1) * sizeof *t);
    for (int64_t i = 0; i < n; i++)
        t[i] = (Touch){.block = NOBODY};
    return t;
}

static void run_kernel(Run *r, NestNode *grid)
{
    Nest *n = r->n;
    There all = {.n = 0};
    r->own = arena_alloc_must(n->arena, n->vars.n + 1, sizeof *r->own);
    r->touched = arena_alloc_must(n->arena, n->buffers.n + 1, sizeof *r->touched);
    r->groups = arena_alloc_must(n->arena, NEST_THREADS_MOST, sizeof *r->groups);
    nest_each(grid, find_own, r);
    number_threads(r, grid);
    NestAccesses accesses = nest_accesses(n, grid);
    for (size_t i = 0; i < accesses.n; i++) {
        const NestBuffer *b = &n->buffers.at[accesses.at[i].buffer];
        Touched *t = &r->touched[accesses.at[i].buffer];
        if (accesses.at[i].writes && !is_own(b) && !t->written)
            *t = (Touched){touches(b->size), touches(b->size)};
    }
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        if (b->home && nest_holds(grid, b->home))
            r->memory[i] = memory_must((size_t)(b->size * r->threads + 1) * 8);
    }
    for (all.n = 0; all.n < r->threads; all.n++)
        all.is[all.n] = true;
    r->now = (Touch){.block = 0};
    run_blocks(r, grid, grid, &all);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        memory_free(r->touched[i].written);
        memory_free(r->touched[i].read);
        if (b->home && nest_holds(grid, b->home))
            memory_free(r->memory[i]);
    }
    r->threads = 0;
    r->own = NULL;
    r->touched = NULL;
}

/* ---- all else ------------------------------------------------------------------------------------------------------------- */

static void run_block(Run *r, const NestBlock *block)
{
    for (size_t i = 0; i < block->n && !r->failed; i++) {
        NestNode *s = block->at[i];
        if (s->kind == NEST_LOOP && s->way == NEST_GRID) {
            run_kernel(r, s);
        } else if (s->kind == NEST_PRODUCT) {
            run_product(r, s);
        } else if (s->kind == NEST_MATRIX) {
            run_matrix(r, s);
        } else if (s->kind == NEST_LOOP) {
            for (r->var[s->var] = 0; r->var[s->var] < s->extent && !r->failed; r->var[s->var]++)
                run_block(r, &s->body);
        } else if (s->kind == NEST_IF) {
            if (eval(r, s->value).bytes[0])
                run_block(r, &s->body);
        } else if (s->kind != NEST_NEAR) {
            run_statement(r, s);
        }
    }
}

static void release_tensor(void *t)
{
    tensor_release(t);
}

/* What is known when code is made is computed now. */
static char *constant_memory(Run *r, const NestBuffer *b)
{
    TensorView *views = arena_new_array(r->n->arena, TensorView, (size_t)b->made->n_inputs + 1);
    Tensor *out = NULL;
    for (int i = 0; i < b->made->n_inputs; i++)
        views[i].t = *b->from[i];
    if (!te_run(r->n->te.cx, b->made, (Span){0}, views, &out) || !out) {
        r->failed = "a constant cannot be computed";
        return NULL;
    }
    arena_on_free(r->n->arena, release_tensor, out);
    return out->data;
}

const char *nest_fault(Nest *n, char *const *memory)
{
    Run r = {.n = n};
    r.memory = arena_alloc_must(n->arena, n->buffers.n + 1, sizeof *r.memory);
    r.var = arena_alloc_must(n->arena, n->vars.n + 1, sizeof *r.var);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        r.memory[i] = b->place == NEST_CONSTANT ? constant_memory(&r, b)
                      : is_own(b)               ? arena_alloc_must(n->arena, (size_t)b->size + 1, 8)
                                                : memory[i];
    }
    if (!r.failed)
        run_block(&r, &n->root);
    return r.failed;
}

bool nest_run(Nest *n, char *const *memory)
{
    return !nest_fault(n, memory);
}
