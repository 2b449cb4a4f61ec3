/* Loop nests: every primitive, in random order on random programs, leaves what the plain nest computes. */
#include "loop/access.h"
#include "loop/primitive.h"
#include "stdlib/stdlib.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

static Ctx cx;
static Arena arena;
static uint64_t state = 1;

static const DType i32 = {DTYPE_CODE_INT, 32, 1};
static const DType i8 = {DTYPE_CODE_INT, 8, 1};
static const DType i64 = {DTYPE_CODE_INT, 64, 1};

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* ---- programs ------------------------------------------------------------------------------------------------------- */

/* out[i, j] = sum over k of a[i, k] * b[k, j] + c[j] */
static TeProgram *product(TeBuilder *b)
{
    int64_t m = 1 + below(9), k = 1 + below(9), n = 1 + below(9);
    int64_t as[2] = {m, k}, bs[2] = {k, n}, cs[2] = {m, n};
    TeTensor a = te_add_input(b, i32, 2, as), w = te_add_input(b, i32, 2, bs);
    TeTensor c = te_add_input(b, i32, 1, &n);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1), *r = te_axis(b, 2);
    Te *body = te_binary(b, TE_MUL, te_load(b, a, (Te *[]){i, r}), te_load(b, w, (Te *[]){r, j}));
    TeTensor sum = te_reduce(b, TE_SUM, i32, 2, cs, 1, &k, body);
    Te *more = te_binary(b, TE_ADD, te_load(b, sum, (Te *[]){i, j}), te_load(b, c, &j));
    TeTensor out = te_map(b, i32, 2, cs, more);
    return te_finish(b, 1, &out, false);
}

/* Rows less their greatest element, and the place of the least: reductions and what depends on them. */
static TeProgram *rows(TeBuilder *b)
{
    int64_t s[2] = {1 + below(6), 1 + below(20)};
    TeTensor x = te_add_input(b, i32, 2, s);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1), *ij[2] = {i, j};
    TeTensor most = te_reduce(b, TE_REDUCE_MAX, i32, 1, s, 1, s + 1, te_load(b, x, ij));
    Te *less = te_binary(b, TE_SUB, te_load(b, x, ij), te_load(b, most, &i));
    TeTensor d = te_map(b, i32, 2, s, less);
    TeTensor sum = te_reduce(b, TE_SUM, i32, 1, s, 1, s + 1, te_load(b, d, ij));
    TeTensor at = te_reduce(b, TE_ARGMIN, i64, 1, s, 1, s + 1, te_load(b, x, ij));
    Te *v = te_binary(b, TE_ADD, te_load(b, d, ij), te_load(b, sum, &i));
    TeTensor outs[2] = {te_map(b, i32, 2, s, v), at};
    return te_finish(b, 2, outs, true);
}

/* A transposition of three axes, a border of zeros around it, and numbers of its axes. */
static TeProgram *moved(TeBuilder *b)
{
    int64_t s[3] = {1 + below(5), 1 + below(5), 1 + below(5)};
    int64_t t[3] = {s[2], s[0] + 2, s[1]};
    TeTensor x = te_add_input(b, i32, 3, s);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1), *k = te_axis(b, 2);
    Te *index[3] = {te_binary(b, TE_SUB, j, te_int(b, 1)), k, i};
    Te *v = te_cast(b, i64, te_load_or(b, x, index, te_number(b, i32, 7)));
    Te *first[3] = {te_int(b, 0), te_int(b, 0), te_int(b, 0)};
    v = te_cast(b, i32, te_binary(b, TE_MUL, v, te_cast(b, i64, te_load(b, x, first))));
    Te *numbers[3] = {te_binary(b, TE_MUL, i, j), j, te_int(b, 3)};
    v = te_binary(b, TE_ADD, v, te_cast(b, i32, numbers[below(3)]));
    TeTensor y = te_map(b, i32, 3, t, v);
    Te *all[3] = {i, j, k};
    TeTensor z =
        te_map(b, i32, 3, t, te_binary(b, TE_MUL, te_load(b, y, all), te_number(b, i32, 3)));
    return te_finish(b, 1, &z, false);
}

/* Elements that come from here or there by where they stand, some from outside. */
static TeProgram *chosen(TeBuilder *b)
{
    int64_t s[2] = {2 + below(6), 2 + below(20)}, t[2] = {s[0] + below(5), s[1] + 1 + below(9)};
    TeTensor x = te_add_input(b, i32, 2, s);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1), *zero = te_number(b, i32, 5);
    Te *low[2] = {i, j}, *high[2] = {i, te_binary(b, TE_SUB, j, te_int(b, t[1] - s[1]))};
    Te *where[4] = {te_binary(b, TE_LT, j, te_int(b, below(t[1] + 2))),
                    te_binary(b, TE_GE, te_int(b, below(t[1])), j),
                    te_binary(b, TE_LE, te_binary(b, TE_MUL, i, te_int(b, 2)), te_int(b, below(9))),
                    te_binary(b, TE_GT, te_binary(b, TE_SUB, i, te_int(b, 3)), te_int(b, -1))};
    Te *v =
        te_select(b, where[below(4)], te_load_or(b, x, low, zero), te_load_or(b, x, high, zero));
    v = te_select(b, where[below(4)], v, te_cast(b, i32, j));
    TeTensor y = te_map(b, i32, 2, t, v);
    return te_finish(b, 1, &y, false);
}

/* Tiles, repetitions and edges: positions that are divided, and the nearest that are inside. */
static TeProgram *divided(TeBuilder *b)
{
    int64_t s[2] = {1 + below(6), 1 + below(12)}, rows = 1 + below(4), columns = 1 + below(4);
    int64_t t[2] = {s[0] * rows, s[1] * columns}, more = below(3);
    TeTensor x = te_add_input(b, i32, 2, s);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1);
    Te *tile[2] = {te_binary(b, TE_MOD, te_binary(b, TE_ADD, i, te_int(b, more)), te_int(b, s[0])),
                   te_binary(b, TE_MOD, j, te_int(b, s[1]))};
    Te *repeat[2] = {te_binary(b, TE_DIV, i, te_int(b, rows)),
                     te_binary(b, TE_DIV, j, te_int(b, columns))};
    Te *before = te_binary(b, TE_SUB, j, te_int(b, below(3))), *last = te_int(b, s[1] - 1);
    Te *inside[2] = {tile[0],
                     te_binary(b, TE_MIN, te_binary(b, TE_MAX, before, te_int(b, 0)), last)};
    Te **ways[3] = {tile, repeat, inside};
    Te *v = te_binary(b, TE_ADD, te_load(b, x, ways[below(3)]), te_load(b, x, ways[below(3)]));
    TeTensor y = te_map(b, i32, 2, t, v);
    return te_finish(b, 1, &y, false);
}

/* A window of two axes sliding over one. */
static TeProgram *windows(TeBuilder *b)
{
    int64_t c = 1 + below(4), w = 4 + below(12), taps = 1 + below(3), stride = 1 + below(2);
    int64_t s[2] = {c, w}, out[2] = {c, (w - taps) / stride + 1};
    TeTensor x = te_add_input(b, i32, 2, s);
    Te *place =
        te_binary(b, TE_ADD, te_binary(b, TE_MUL, te_axis(b, 1), te_int(b, stride)), te_axis(b, 2));
    Te *index[2] = {te_axis(b, 0), place};
    TeTensor y = te_reduce(b, TE_SUM, i32, 2, out, 1, &taps, te_load(b, x, index));
    return te_finish(b, 1, &y, false);
}

/* Four elements from a place on as a word. */
static Te *word(TeBuilder *b, TeTensor t, Te *const *index, int64_t apart)
{
    Te *load = te_load(b, t, index);
    load->dtype = i32;
    load->word = (uint8_t)apart;
    return load;
}

/* Words of a row of bytes, which may overlap; `missing`: as many bytes of the last one are not there. */
static TeProgram *sums_of_words(TeBuilder *b, DType of, int64_t missing)
{
    int64_t words = 1 + below(3), stride = 1 + below(5), columns = 1 + below(20);
    int64_t apart = below(2) ? 1 : 1 + below(NEST_APART_MOST);
    int64_t last = (columns - 1) * stride + NEST_WORD * (words - 1) + (NEST_WORD - 1) * apart;
    int64_t s[2] = {1 + below(4), last + 1 - missing};
    int64_t out[2] = {s[0], columns};
    TeTensor x = te_add_input(b, i32, 2, s);
    Te *at[2] = {te_axis(b, 0), te_axis(b, 1)};
    TeTensor bytes = te_map(b, of, 2, s, te_cast(b, of, te_load(b, x, at)));
    at[1] = te_binary(b, TE_ADD, te_binary(b, TE_MUL, at[1], te_int(b, stride)),
                      te_binary(b, TE_MUL, te_axis(b, 2), te_int(b, NEST_WORD)));
    TeTensor y = te_reduce(b, TE_SUM, i32, 2, out, 1, &words, word(b, bytes, at, apart));
    return te_finish(b, 1, &y, false);
}

static TeProgram *words(TeBuilder *b)
{
    return sums_of_words(b, i8, 0);
}

/* ---- memory ----------------------------------------------------------------------------------------------------------- */

static char **memory_of(const Nest *n)
{
    char **memory = arena_alloc_must(&arena, n->buffers.n + 1, sizeof *memory);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        memory[i] = arena_alloc_must(&arena, (size_t)b->size + 1, 8);
        for (int64_t k = 0; k < b->size && (int)i < n->n_inputs; k++)
            ((int32_t *)(void *)memory[i])[k] = (int32_t)((k * 37 + (int64_t)i * 11) % 23 - 11);
    }
    return memory;
}

static bool same_results(const Nest *a, char **x, char **y)
{
    for (size_t i = (size_t)a->n_inputs; i < a->buffers.n; i++) {
        const NestBuffer *b = &a->buffers.at[i];
        if (b->place == NEST_GIVEN &&
            memcmp(x[i], y[i], (size_t)b->size * dtype_size(b->dtype)) != 0)
            return false;
    }
    return true;
}

/* ---- primitives --------------------------------------------------------------------------------------------------------- */

typedef struct Nodes {
    Vec(NestNode *) all;
} Nodes;

static void add_node(void *data, NestNode *node)
{
    Nodes *nodes = data;
    vec_push(&nodes->all, &arena, node);
}

static NestNode *any_node(Nest *n, bool loop)
{
    Nodes nodes = {0};
    for (size_t i = 0; i < n->root.n; i++)
        nest_each(n->root.at[i], add_node, &nodes);
    for (int tries = 0; tries < 20 && nodes.all.n; tries++) {
        NestNode *node = nodes.all.at[below((int64_t)nodes.all.n)];
        if (!loop || node->kind == NEST_LOOP)
            return node;
    }
    return NULL;
}

/* The last is to leave it as it is. */
enum { PRIMITIVES = 18 };
static long taken[PRIMITIVES];

static bool apply(Nest *n, int which)
{
    NestNode *loop = any_node(n, which != 8), *inner, *tail;
    if (!loop)
        return false;
    switch (which) {
    case 0: return nest_split(n, loop, 2 + below(4), &inner, &tail);
    case 1: return nest_reorder(n, loop);
    case 2: return nest_fuse(n, loop);
    case 3: return nest_run_as(n, loop, NEST_UNROLLED, 0);
    case 4: return nest_run_as(n, loop, NEST_VECTOR, 4 << below(2));
    case 5: return nest_run_as(n, loop, NEST_PARALLEL, 0);
    case 6: return (loop->way == NEST_VECTOR || loop->way == NEST_UNROLLED) && nest_jam(n, loop);
    case 7: return nest_partial(n, loop, (NestNode *[]){NULL});
    case 8: return nest_raise(n, loop);
    case 9: return nest_join(n, loop);
    case 10: return nest_narrow(n, (int)below((int64_t)n->buffers.n));
    case 11: return nest_to_registers(n, (int)below((int64_t)n->buffers.n));
    case 12: return nest_cut(n, loop);
    case 13: return nest_settle(n, (int)below((int64_t)n->buffers.n));
    case 14: return nest_undivide(n, loop, 1 + below(5));
    case 16: return nest_flatten(n, loop);
    case 15: {
        NestNode *root = loop;
        while (root->parent)
            root = root->parent;
        return nest_part(n, root, loop, 1 + below(6)) != NULL;
    }
    }
    return false;
}

static void show(const Nest *n, const char *what)
{
    Buf b = {0};
    nest_print(&b, n);
    printf("%s\n%s\n", what, buf_text(&b));
    buf_deinit(&b);
}

/* Stages that go over the same rows become one loop, and what they hand on lives in it. */
static void join_all(Nest *n)
{
    for (size_t i = 0; i < n->root.n; i++)
        while (n->root.at[i]->kind == NEST_LOOP && nest_join(n, n->root.at[i]))
            taken[9]++;
    for (size_t i = 0; i < n->buffers.n; i++)
        taken[10] += nest_narrow(n, (int)i);
    for (size_t i = 0; i < n->buffers.n; i++)
        taken[11] += nest_to_registers(n, (int)i);
}

static long turned;

/* Bodies that keep apart may as well run in another order. */
static void turn_bodies(Nest *n)
{
    Nodes nodes = {0};
    for (size_t i = 0; i < n->root.n; i++)
        nest_each(n->root.at[i], add_node, &nodes);
    for (size_t i = 0; i < nodes.all.n; i++) {
        NestNode *loop = nodes.all.at[i];
        if (loop->kind != NEST_LOOP || loop->body.n < 2 || !nest_bodies_apart(n, loop))
            continue;
        NestNode *first = loop->body.at[0], **last = &loop->body.at[loop->body.n - 1];
        loop->body.at[0] = *last;
        *last = first;
        turned++;
    }
}

static void test_random(TeProgram *(*make)(TeBuilder *b), int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        TeProgram *p = make(&b);
        Nest *plain = nest_of(&cx, &arena, p, NULL), *n = nest_of(&cx, &arena, p, NULL);
        char **wanted = memory_of(plain), **got = memory_of(n);
        CHECK(nest_verify(plain) == NULL);
        if (below(2))
            join_all(n);
        CHECK(nest_run(plain, wanted));
        for (int64_t step = 1 + below(14); step > 0; step--) {
            int which = (int)below(PRIMITIVES);
            taken[which] += apply(n, which);
            const char *wrong = nest_verify(n);
            bool ran = nest_run(n, got);
            if (CHECK(!wrong) && CHECK(ran) && CHECK(same_results(plain, wanted, got)))
                continue;
            printf("after primitive %d: %s\n", which, wrong ? wrong : "");
            show(n, "nest:");
            break;
        }
        turn_bodies(n);
        CHECK(nest_run(n, got) && same_results(plain, wanted, got));
        arena_reset(&arena, mark);
    }
}

static bool is_well_formed(DType of, int64_t missing)
{
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    return !nest_verify(nest_of(&cx, &arena, sums_of_words(&b, of, missing), NULL));
}

/* Three words of bytes `apart`, and how they are written. */
static void check_words(int64_t apart, const int32_t *wanted, const char *written)
{
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    int64_t s = 9, columns = 3;
    TeTensor x = te_add_input(&b, i8, 1, &s);
    Te *at = te_axis(&b, 0);
    TeTensor y = te_map(&b, i32, 1, &columns, word(&b, x, &at, apart));
    Nest *n = nest_of(&cx, &arena, te_finish(&b, 1, &y, false), NULL);
    char bytes[9] = {1, -2, 3, -4, 5, 6, 7, 8, 9};
    int32_t out[3];
    char *memory[2] = {bytes, (char *)out};
    CHECK(!nest_verify(n) && nest_run(n, memory));
    CHECK(!memcmp(out, wanted, sizeof out));
    Buf text = {0};
    nest_print(&text, n);
    CHECK(strstr(buf_text(&text), written) != NULL);
    buf_deinit(&text);
    n->buffers.at[0].place = NEST_REGISTER;
    CHECK(nest_verify(n) != NULL);
}

/* A word is of bytes, the first of them the lowest, all in the buffer and in memory. */
static void test_words(void)
{
    check_words(1, (int32_t[]){(int32_t)0xfc03fe01, 0x05fc03fe, 0x0605fc03}, "= word(x0[");
    check_words(2, (int32_t[]){0x07050301, 0x0806fcfe, 0x09070503}, " by 2)");
    for (int i = 0; i < 10; i++)
        CHECK(is_well_formed(i8, 0) && !is_well_formed(i8, 1) && !is_well_formed(i32, 0));
}

/* ---- matrices ------------------------------------------------------------------------------------------------------------ */

static NestMatrix random_matrix(void)
{
    NestMatrix m = {.rows = 16 + 16 * (int)below(2),
                    .columns = 16 + 16 * (int)below(2),
                    .first_row = below(40),
                    .second_word = below(40),
                    .second_block = below(40),
                    .n = 1 + (int)below(NEST_MATRIX_AXES)};
    m.row_step = m.columns + below(5);
    for (int i = 0; i < 2; i++)
        m.factors[i] = (DType){below(2) ? DTYPE_CODE_INT : DTYPE_CODE_UINT, 8, 1};
    for (int i = 0; i < m.n; i++) {
        m.axis[i].extent = 1 + below(3);
        m.axis[i].first = below(30);
        m.axis[i].second = below(30);
    }
    return m;
}

static bool build_matrix(void *data, Nest *n, int stage)
{
    NestNode *loop = nest_loop(n, "i", 1);
    Te *zero = te_int(&n->te, 0);
    nest_append(n, NULL, loop);
    nest_append(n, loop,
                nest_matrix(n, n->n_inputs + stage, zero, data, nest_load(n, 0, zero),
                            nest_load(n, 1, zero)));
    return true;
}

/* One statement whose buffers lack as many elements. */
static Nest *matrix_nest(NestMatrix *m, const int64_t missing[3])
{
    TeBuilder b;
    int64_t size[3];
    nest_matrix_spans(m, size);
    for (int i = 0; i < 3; i++)
        size[i] -= missing[i];
    te_begin(&b, &cx, &arena);
    te_add_input(&b, i32, 1, &size[0]);
    te_add_input(&b, i32, 1, &size[1]);
    TeTensor y = te_map(&b, i32, 1, &size[2], te_number(&b, i32, 0));
    return nest_of(&cx, &arena, te_finish(&b, 1, &y, false),
                   &(NestParts){.build = build_matrix, .data = m});
}

static int byte_of(DType t, uint32_t word, int i)
{
    uint8_t v = (uint8_t)(word >> 8 * i);
    return dtype_is_signed(t) ? (int8_t)v : v;
}

static uint32_t matrix_sum(const NestMatrix *m, const uint32_t *a, const uint32_t *b, int axis)
{
    uint32_t sum = 0;
    if (axis < m->n && axis < NEST_MATRIX_AXES) {
        for (int64_t k = 0; k < m->axis[axis].extent; k++)
            sum +=
                matrix_sum(m, a + k * m->axis[axis].first, b + k * m->axis[axis].second, axis + 1);
        return sum;
    }
    for (int64_t k = 0; k < 16; k++)
        for (int i = 0; i < 4; i++)
            sum += (uint32_t)(byte_of(m->factors[0], a[k], i) *
                              byte_of(m->factors[1], b[k * m->second_word], i));
    return sum;
}

/* Bytes with and without signs, and all words in reach; what lies between the rows of sums stays. */
static void test_matrices(void)
{
    for (int turn = 0; turn < 40; turn++) {
        NestMatrix m = random_matrix();
        Nest *n = matrix_nest(&m, (int64_t[3]){0});
        uint32_t *memory[3];
        for (int i = 0; i < 3; i++) {
            int64_t size = n->buffers.at[i].size;
            memory[i] = arena_new_array(&arena, uint32_t, (size_t)size);
            for (int64_t k = 0; k < size; k++)
                memory[i][k] = (uint32_t)below((int64_t)1 << 32);
        }
        uint32_t before = memory[2][m.columns];
        bool ran = CHECK(!nest_verify(n)) && CHECK(nest_run(n, (char **)memory));
        bool same = true;
        for (int64_t i = 0; i < m.rows; i++)
            for (int64_t j = 0; j < m.columns; j++)
                same &= memory[2][i * m.row_step + j] ==
                        matrix_sum(&m, memory[0] + i * m.first_row,
                                   memory[1] + j / 16 * m.second_block + j % 16, 0);
        CHECK(ran && same);
        CHECK(m.row_step == m.columns || memory[2][m.columns] == before);
        for (int i = 0; i < 3; i++)
            CHECK(nest_verify(matrix_nest(&m, (int64_t[3]){i == 0, i == 1, i == 2})) != NULL);
        Buf text = {0};
        nest_print(&text, n);
        CHECK(strstr(buf_text(&text), " = matrix of ") != NULL);
        buf_deinit(&text);
    }
    NestMatrix wrong[4];
    for (int i = 0; i < 4; i++)
        wrong[i] = random_matrix();
    wrong[0].rows = 17;
    wrong[1].row_step = wrong[1].columns - 1;
    wrong[2].factors[1] = i32;
    wrong[3].n = 0;
    for (int i = 0; i < 4; i++)
        CHECK(nest_verify(matrix_nest(&wrong[i], (int64_t[3]){0})) != NULL);
}

/* Only factors are fetched ahead. */
static void test_ahead(void)
{
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    int64_t s = 6;
    TeTensor x = te_add_input(&b, i8, 1, &s);
    Te *at = te_axis(&b, 0), *reduced = te_axis(&b, 0);
    TeTensor y = te_map(&b, i8, 1, &s, te_load(&b, x, &at));
    Nest *n = nest_of(&cx, &arena, te_finish(&b, 1, &y, false), NULL);
    n->root.at[0]->body.at[0]->ahead = 64;
    CHECK(nest_verify(n) != NULL);
    te_begin(&b, &cx, &arena);
    x = te_add_input(&b, i8, 1, &s);
    TeTensor z = te_add_input(&b, i8, 1, &s);
    Te *product = te_binary(&b, TE_MUL, te_load(&b, x, &reduced), te_load(&b, z, &reduced));
    y = te_reduce(&b, TE_SUM, i8, 0, NULL, 1, &s, product);
    n = nest_of(&cx, &arena, te_finish(&b, 1, &y, false), NULL);
    bool any = false;
    for (size_t i = 0; i < n->root.n; i++) {
        NestNode *node = n->root.at[i];
        while (node->kind == NEST_LOOP)
            node = node->body.at[node->body.n - 1];
        if (node->kind == NEST_FOLD) {
            node->ahead = 64;
            any = true;
        }
    }
    CHECK(any && !nest_verify(n));
}

/* ---- accesses -------------------------------------------------------------------------------------------------------- */

static void count_reads(void *data, const NestAccess *a)
{
    *(int *)data += a->buffer == 0 && !a->writes;
}

/* Statements may share what they compute: each reads it. A buffer is called as what fills it, inputs are not. */
static void test_accesses(void)
{
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, i32, 0, NULL);
    TeTensor y = te_map(&b, i32, 0, NULL, te_load(&b, x, NULL));
    TeProgram *p = te_finish(&b, 1, &y, false);
    p->stages[0].name = "copy";
    Nest *n = nest_of(&cx, &arena, p, NULL);
    CHECK(!n->buffers.at[0].name && n->buffers.at[1].name == p->stages[0].name);
    NestNode *loop = nest_loop(n, "i", 2);
    nest_append(n, NULL, loop);
    Te *zero = te_int(&n->te, 0), *value = nest_load(n, 0, zero);
    int reads = 0;
    for (int i = 0; i < 2; i++)
        nest_append(n, loop, nest_store(n, 1, zero, value));
    nest_each_access(n, loop, count_reads, &reads);
    CHECK(reads == 2);
}

/* ---- what keeps apart ----------------------------------------------------------------------------------------------------- */

enum { BODIES = 3, STORES = 4, LEVELS = 3 };

/* Loops in two others, which store at places that step with all three; the last store stands in the first body. */
typedef struct Bodies {
    int64_t extent[2], inner[BODIES], from[STORES], by[STORES][LEVELS];
    NestNode *loop; /* the second */
} Bodies;

static bool build_bodies(void *data, Nest *n, int stage)
{
    Bodies *d = data;
    NestNode *outer = nest_loop(n, "p", d->extent[0]);
    d->loop = nest_loop(n, "o", d->extent[1]);
    nest_append(n, NULL, outer);
    nest_append(n, outer, d->loop);
    for (int k = 0; k < STORES; k++) {
        NestNode *in = k < BODIES ? nest_loop(n, "i", d->inner[k]) : d->loop->body.at[k - BODIES];
        NestLinear at = {.c = d->from[k]};
        if (k < BODIES)
            nest_append(n, d->loop, in);
        nest_add_term(&at, outer->var, d->by[k][0]);
        nest_add_term(&at, d->loop->var, d->by[k][1]);
        nest_add_term(&at, in->var, d->by[k][2]);
        nest_append(
            n, in,
            nest_store(n, n->n_inputs + stage, nest_position(n, &at), te_number(&n->te, i32, 1)));
    }
    return true;
}

static Nest *random_bodies(Bodies *d)
{
    static const int64_t steps[] = {0, 1, 1, 2, 3, 4, 6, 8, 12, 24, 24, 48};
    int64_t size = 1 << 12;
    TeBuilder b;
    for (int i = 0; i < 2; i++)
        d->extent[i] = 1 + below(4);
    for (int k = 0; k < BODIES; k++)
        d->inner[k] = 1 + below(4);
    for (int k = 0; k < STORES; k++) {
        d->from[k] = steps[below(12)] + (below(4) ? 0 : below(6));
        for (int i = 0; i < LEVELS; i++)
            d->by[k][i] = k && below(6) ? d->by[0][i] : steps[below(12)];
    }
    te_begin(&b, &cx, &arena);
    TeTensor y = te_map(&b, i32, 1, &size, te_number(&b, i32, 0));
    return nest_of(&cx, &arena, te_finish(&b, 1, &y, false),
                   &(NestParts){.build = build_bodies, .data = d});
}

/* Whether one place is stored to in turns o and q of the second loop, for one turn of the first, by these statements. */
static bool meets(const Bodies *d, int64_t o, int a, int64_t q, int b)
{
    bool meet = false;
    for (int64_t p = 0; p < d->extent[0]; p++)
        for (int64_t i = 0; i < d->inner[a % BODIES]; i++)
            for (int64_t k = 0; k < d->inner[b % BODIES]; k++)
                meet |= d->from[a] + p * d->by[a][0] + o * d->by[a][1] + i * d->by[a][2] ==
                        d->from[b] + p * d->by[b][0] + q * d->by[b][1] + k * d->by[b][2];
    return meet;
}

/* What is said to keep apart does: loops in the turns of another, and the turns. */
static void test_apart(void)
{
    int found[2] = {0};
    for (int turn = 0; turn < 20000; turn++) {
        ArenaMark mark = arena_mark(&arena);
        Bodies d;
        Nest *n = random_bodies(&d);
        bool bodies = false, turns = false;
        for (int64_t o = 0; o < d.extent[1]; o++)
            for (int64_t q = 0; q < d.extent[1]; q++)
                for (int k = 0; k < STORES * STORES; k++) {
                    int a = k / STORES, b = k % STORES;
                    bool others = o != q || a % BODIES != b % BODIES;
                    bool meet = others && meets(&d, o, a, q, b);
                    bodies |= meet && o == q;
                    turns |= meet && o != q;
                }
        bool apart = nest_bodies_apart(n, d.loop), independent = nest_independent(n, d.loop);
        CHECK(!apart || !bodies);
        CHECK(!independent || !turns);
        found[0] += apart;
        found[1] += independent && d.extent[1] > 1;
        arena_reset(&arena, mark);
    }
    CHECK(found[0] > 100 && found[1] > 100);
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    arena_init(&arena, &cx.limits);
    test_random(product, 3000);
    test_random(rows, 6500);
    test_random(moved, 2000);
    test_random(windows, 2000);
    test_random(chosen, 2000);
    test_random(divided, 2000);
    test_random(words, 2000);
    test_matrices();
    test_accesses();
    test_words();
    test_ahead();
    test_apart();
    for (int i = 0; i < PRIMITIVES - 1; i++)
        if (!CHECK(taken[i] > 100 && turned > 100))
            printf("primitive %d was taken %ld times\n", i, taken[i]);
    ctx_deinit(&cx);
    arena_deinit(&arena);
    return check_done();
}
