/* Schedules: convolutions and products of random shapes, with known weights and an elementwise tail or without, for processors of different widths
 * and several threads, compute what their plain nests do; of small integers to the last bit. */
#include "loop/access.h"
#include "sched/conv.h"
#include "stdlib/stdlib.h"
#include "te/walk.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdlib.h>

static Ctx cx;
static Arena arena;
static uint64_t state = 1;

static const DType i32 = {DTYPE_CODE_INT, 32, 1};

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

/* What is multiplied, and what sums, biases and results are of. */
typedef struct Types {
    DType data, weight, sum;
} Types;

static const Types floats = {
    {DTYPE_CODE_FLOAT, 32, 1}, {DTYPE_CODE_FLOAT, 32, 1}, {DTYPE_CODE_FLOAT, 32, 1}};
static Types types;

/* Every pair of types that has a way of its own, and some that have none. */
static Types some_integers(void)
{
    static const DType of[] = {{DTYPE_CODE_INT, 8, 1},  {DTYPE_CODE_UINT, 8, 1},
                               {DTYPE_CODE_INT, 8, 1},  {DTYPE_CODE_UINT, 8, 1},
                               {DTYPE_CODE_INT, 16, 1}, {DTYPE_CODE_INT, 32, 1},
                               {DTYPE_CODE_UINT, 16, 1}};
    return (Types){of[below(7)], of[below(7)], i32};
}

typedef struct Case {
    int64_t n, groups; /* 0: a convolution of all channels; else of each on its own, */
    int64_t group[2]; /* or of so many of the input and of the output */
    int64_t ic, oc, in[2], taps[2], stride[2], dilation[2], before[2], after[2];
    TeReduce pool; /* with groups: no weights, but this fold */
    int tail; /* 0: none, 1: bias and relu, 2: a residual too, 3: two readers */
} Case;

static int64_t out_of(const Case *c, int a)
{
    int64_t room = c->in[a] + c->before[a] + c->after[a] - (c->taps[a] - 1) * c->dilation[a] - 1;
    return room < 0 ? 0 : room / c->stride[a] + 1;
}

static Te *place(TeBuilder *b, const Case *c, int a)
{
    int space = (c->groups && !c->pool ? 3 : 2) + a,
        reduced = c->pool ? 4 + a : (c->groups ? 6 : 5) + a;
    Te *at = te_binary(b, TE_MUL, te_axis(b, space), te_int(b, c->stride[a]));
    Te *tap = te_binary(b, TE_MUL, te_axis(b, reduced), te_int(b, c->dilation[a]));
    return te_binary(b, TE_SUB, te_binary(b, TE_ADD, at, tap), te_int(b, c->before[a]));
}

static Te *product(TeBuilder *b, Te *x, Te *w)
{
    return te_binary(b, TE_MUL, te_cast(b, types.sum, x), te_cast(b, types.sum, w));
}

/* The sum of all channels, or with an axis for the groups and one for their only channel. */
static TeTensor sum_of(TeBuilder *b, const Case *c, TeTensor x, TeTensor w, const int64_t *ys)
{
    bool padded = c->before[0] || c->before[1] || c->after[0] || c->after[1];
    int64_t split[5] = {c->n, c->groups, c->group[0] ? c->group[1] : 1, ys[2], ys[3]};
    int g = c->groups ? 1 : 0, r = 4 + g;
    Te *channel = g ? te_axis(b, 1) : te_axis(b, r), *out = te_axis(b, 1);
    Te *xi[4] = {te_axis(b, 0), channel, place(b, c, 0), place(b, c, 1)};
    if (c->pool) {
        Te *outside = te_number(b, x.dtype, c->pool == TE_SUM ? 0 : -7);
        Te *v = padded ? te_load_or(b, x, xi, outside) : te_load(b, x, xi);
        return te_reduce(b, c->pool, types.sum, 4, ys, 2, c->taps, te_cast(b, types.sum, v));
    }
    if (c->group[0]) {
        Te *in = te_binary(b, TE_MUL, channel, te_int(b, c->group[0]));
        xi[1] = te_binary(b, TE_ADD, in, te_axis(b, r));
        out =
            te_binary(b, TE_ADD, te_binary(b, TE_MUL, out, te_int(b, c->group[1])), te_axis(b, 2));
    }
    Te *wi[4] = {out, te_axis(b, r), te_axis(b, r + 1), te_axis(b, r + 2)};
    Te *load = padded ? te_load_or(b, x, xi, te_number(b, x.dtype, 0)) : te_load(b, x, xi);
    return te_reduce(b, TE_SUM, types.sum, r, g ? split : ys, 3, w.shape + 1,
                     product(b, load, te_load(b, w, wi)));
}

/* Inputs: data, weights, bias, residual. */
static TeProgram *program_of(TeBuilder *b, const Case *c)
{
    int64_t channels = c->groups ? c->groups : c->oc, ic = c->groups ? c->groups : c->ic;
    int64_t each = c->groups ? 1 : ic;
    if (c->group[0]) {
        channels *= c->group[1];
        ic *= each = c->group[0];
    }
    int64_t xs[4] = {c->n, ic, c->in[0], c->in[1]};
    int64_t ws[4] = {channels, each, c->taps[0], c->taps[1]};
    int64_t ys[4] = {c->n, channels, out_of(c, 0), out_of(c, 1)};
    TeTensor x = te_add_input(b, types.data, 4, xs), w = te_add_input(b, types.weight, 4, ws);
    TeTensor bias = te_add_input(b, types.sum, 1, &channels),
             more = te_add_input(b, types.sum, 4, ys);
    TeTensor y = sum_of(b, c, x, w, ys);
    Te *all[4], *of_sum[5];
    for (int i = 0; i < 4; i++)
        all[i] = of_sum[i + (c->groups && !c->pool && i > 1)] = te_axis(b, i);
    if (c->groups && !c->pool)
        of_sum[2] = te_int(b, 0);
    if (!c->tail)
        return te_finish(b, 1, &y, false);
    Te *channel = te_axis(b, 1);
    Te *v = te_binary(b, TE_ADD, te_load(b, y, of_sum), te_load(b, bias, &channel));
    if (c->tail > 1)
        v = te_binary(b, TE_ADD, v, te_load(b, more, all));
    v = te_binary(b, TE_MAX, v, te_number(b, types.sum, 0));
    TeTensor out[2] = {te_map(b, types.sum, 4, ys, v), y};
    return te_finish(b, c->tail == 3 ? 2 : 1, out, c->tail == 3);
}

static Tensor *random_tensor(const TeTensor *of)
{
    Tensor *t = tensor_new(&cx.limits, of->dtype, of->rank, of->shape);
    size_t size = dtype_size(of->dtype);
    for (int64_t i = 0; i < t->size && dtype_is_float(of->dtype); i++)
        ((float *)(void *)t->data)[i] = (float)(below(2001) - 1000) / 1000;
    /* Least and greatest numbers are frequent: nothing may saturate. */
    bool extreme = below(3) == 0;
    for (int64_t i = 0; i < t->size && !dtype_is_float(of->dtype); i++) {
        int64_t most = ((int64_t)1 << (of->dtype.bits - 1)) - 1;
        int64_t v = extreme ? most + below(2) : below((int64_t)1 << 31);
        memcpy(t->data + (size_t)i * size, &v, size);
    }
    return t;
}

static long words, matrices;

static void count_word(void *data, const NestAccess *a)
{
    (void)data;
    words += a->word;
    matrices += a->node->kind == NEST_MATRIX;
}

static char **memory_of(const Nest *n, Tensor *const *inputs)
{
    char **memory = arena_alloc_must(&arena, n->buffers.n + 1, sizeof *memory);
    for (size_t i = 0; i < n->buffers.n; i++) {
        memory[i] =
            (int)i < n->n_inputs ? inputs[i]->data : malloc((size_t)n->buffers.at[i].size * 4 + 64);
        /* What nobody wrote is seen. */
        if ((int)i >= n->n_inputs)
            memset(memory[i], 0xff, (size_t)n->buffers.at[i].size * 4);
    }
    return memory;
}

static void free_memory(const Nest *n, char **memory)
{
    for (size_t i = (size_t)n->n_inputs; i < n->buffers.n; i++)
        free(memory[i]);
}

static bool are_close(const float *a, const float *b, int64_t n, double scale)
{
    if (!dtype_is_float(types.sum))
        return memcmp(a, b, (size_t)n * 4) == 0;
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)a[i] - (double)b[i]) <= 2e-5 * scale))
            return false;
    return true;
}

static void show_case(const Case *c)
{
    printf("groups %lld n %lld ic %lld oc %lld", (long long)c->groups, (long long)c->n,
           (long long)c->ic, (long long)c->oc);
    for (int a = 0; a < 2; a++)
        printf(", in %lld taps %lld stride %lld dilation %lld before %lld after %lld",
               (long long)c->in[a], (long long)c->taps[a], (long long)c->stride[a],
               (long long)c->dilation[a], (long long)c->before[a], (long long)c->after[a]);
    printf(", tail %d\n", c->tail);
}

static void show(const TeProgram *p, const Nest *n)
{
    Buf b = {0};
    te_print(&b, p, NULL);
    nest_print(&b, n);
    printf("%.4000s\n", buf_text(&b));
    buf_deinit(&b);
}

/* Whether the schedule of the program, whose second input is mostly known, computes what its plain nest does. */
static bool check_program(const TeProgram *p, const Machine *m, double scale)
{
    Tensor *inputs[4];
    const Tensor *known[4] = {0};
    for (int i = 0; i < 4; i++)
        inputs[i] = random_tensor(&p->inputs[i]);
    known[1] = below(4) ? inputs[1] : NULL;
    Nest *plain = nest_of(&cx, &arena, p, NULL);
    Nest *n = sched_program(&cx, &arena, m, p, known);
    const char *wrong = nest_verify(n);
    for (size_t i = 0; i < n->root.n; i++)
        nest_each_access(n, n->root.at[i], count_word, NULL);
    char **wanted = memory_of(plain, inputs), **got = memory_of(n, inputs);
    bool good = CHECK(!wrong) && CHECK(nest_run(plain, wanted)) && CHECK(nest_run(n, got));
    for (int i = 0; i < p->n_outputs && good; i++)
        good = CHECK(are_close((float *)(void *)wanted[p->outputs[i]],
                               (float *)(void *)got[n->p->outputs[i]],
                               plain->buffers.at[p->outputs[i]].size, 1 + sqrt(scale)));
    if (!good) {
        printf("%s\n", wrong ? wrong : "");
        show(p, n);
    }
    free_memory(plain, wanted);
    free_memory(n, got);
    for (int i = 0; i < 4; i++)
        tensor_release(inputs[i]);
    return good;
}

static void check_case(const Case *c, const Machine *m)
{
    ArenaMark mark = arena_mark(&arena);
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    if (!check_program(program_of(&b, c), m, (double)(c->ic * c->taps[0] * c->taps[1])))
        show_case(c);
    arena_reset(&arena, mark);
}

static Machine machine_of(void)
{
    bool wide = below(2);
    return (Machine){wide ? 64 : 32,
                     wide ? 32 : 16,
                     1 + (int)below(3),
                     below(2) ? 1 << 20 : 1 << 16,
                     below(2),
                     below(2),
                     below(2),
                     true,
                     true};
}

static Machine machine_of_matrices(void)
{
    Machine m = machine_of();
    m.vector_bytes = 64;
    m.registers = 32;
    m.dots = m.matrices = true;
    return m;
}

static Types signs(int turn)
{
    return (Types){{turn & 1 ? DTYPE_CODE_INT : DTYPE_CODE_UINT, 8, 1},
                   {turn & 2 ? DTYPE_CODE_INT : DTYPE_CODE_UINT, 8, 1},
                   i32};
}

/* Windows of 3 x 3 that step by one, over enough channels for transforms, which are made a few rows at a time where the cache is small. */
static void test_transforms(void)
{
    for (int turn = 0; turn < 5; turn++) {
        Case c = {.n = 1 + (below(4) == 0),
                  .ic = 32 + below(6),
                  .oc = 32 + below(18),
                  .tail = (int)below(4)};
        for (int a = 0; a < 2; a++) {
            c.taps[a] = 3;
            c.stride[a] = c.dilation[a] = 1;
            c.in[a] = (turn % 4 ? 6 : 12) + below(3);
            c.before[a] = below(3);
            c.after[a] = below(3);
        }
        Machine m = machine_of();
        check_case(&c, &m);
    }
}

/* Any window, with and without a border, over few and many channels or each on its own, and pools. */
static void test_windows(int turns, bool depthwise, bool integers)
{
    for (int turn = 0; turn < turns; turn++) {
        types = integers ? some_integers() : floats;
        Case c = {
            .n = 1 + below(2), .ic = 1 + below(9), .oc = 4 + below(40), .tail = (int)below(4)};
        static const TeReduce pools[] = {TE_NO_REDUCE, TE_SUM, TE_REDUCE_MAX, TE_REDUCE_MIN};
        if (depthwise) {
            c.groups = 2 + below(6);
            c.pool = pools[below(4)];
        }
        for (int a = 0; a < 2; a++) {
            c.taps[a] = 1 + below(turn % 3 ? 4 : 1);
            c.stride[a] = 1 + below(turn % 2 ? 3 : 1);
            c.dilation[a] = 1 + below(2);
            c.in[a] = 1 + below(depthwise ? 36 : 16);
            c.before[a] = turn % 4 ? below(3) : 0;
            c.after[a] = turn % 4 ? below(3) : 0;
        }
        if (depthwise && !c.pool && below(2)) {
            c.group[0] = 1 + below(6);
            c.group[1] = 4 + below(20);
            c.tail = 0;
            c.in[0] = c.taps[0] + below(9);
            c.in[1] = c.taps[1] + below(9);
        }
        Machine m = machine_of();
        m.transforms = false;
        m.reorders = turn % 8 != 7;
        check_case(&c, &m);
    }
}

/* Windows of bytes, of each channel on its own, where the processor adds products of words: rows of one word and of several. */
static void test_bytes(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        types = signs(turn);
        Case c = {.n = 1 + below(2), .ic = 1, .groups = 2 + below(9), .tail = (int)below(4)};
        for (int a = 0; a < 2; a++) {
            c.taps[a] = 1 + below(a ? 9 : 4);
            c.stride[a] = 1 + below(5);
            c.dilation[a] = 1 + below(3);
            c.in[a] = 1 + below(a ? 70 : 12);
            c.before[a] = below(4);
            c.after[a] = below(4);
        }
        Machine m = machine_of();
        m.dots = true;
        check_case(&c, &m);
    }
    CHECK(words > 0);
}

/* The same over enough channels for registers of matrices; operands have a sign or none. */
static void test_matrices(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        types = signs(turn);
        Case c = {
            .n = 1 + below(2), .ic = 20 + below(60), .oc = 10 + below(40), .tail = (int)below(4)};
        for (int a = 0; a < 2; a++) {
            c.taps[a] = 1 + below(3);
            c.stride[a] = a ? 1 : 1 + below(2);
            c.dilation[a] = 1 + below(2);
            c.in[a] = a ? 12 + below(24) : 5 + below(2);
            c.before[a] = below(3);
            c.after[a] = below(3);
        }
        Machine m = machine_of_matrices();
        check_case(&c, &m);
    }
    CHECK(matrices > 0);
}

/* out[i, j, n] = sum over k of x[i, j, k] * w[n, k], with weights as they are or the other way round, perhaps of each i; then a bias and
 * a residual. */
static TeProgram *product_of(TeBuilder *b, int64_t rows, int64_t n, int64_t k, int tail)
{
    int64_t xs[3] = {1 + below(3), rows, k};
    int64_t ys[3] = {xs[0], xs[1], n};
    bool turned = below(2), each = below(4) == 0;
    int64_t ws[3] = {each ? xs[0] : 1, turned ? k : n, turned ? n : k};
    TeTensor x = te_add_input(b, types.data, 3, xs), w = te_add_input(b, types.weight, 3, ws);
    TeTensor bias = te_add_input(b, types.sum, 1, &n), more = te_add_input(b, types.sum, 3, ys);
    Te *i = te_axis(b, 0), *j = te_axis(b, 1), *o = te_axis(b, 2), *r = te_axis(b, 3);
    Te *wi[3] = {each ? i : te_int(b, 0), turned ? r : o, turned ? o : r};
    Te *both = product(b, te_load(b, x, (Te *[]){i, j, r}), te_load(b, w, wi));
    TeTensor y = te_reduce(b, TE_SUM, types.sum, 3, ys, 1, &k, both);
    if (!tail)
        return te_finish(b, 1, &y, false);
    Te *all[3] = {i, j, o};
    Te *v = te_binary(b, TE_ADD, te_load(b, y, all), te_load(b, bias, &o));
    if (tail > 1)
        v = te_binary(b, TE_ADD, v, te_load(b, more, all));
    /* A number of an axis of its own does not go over all rows as one. */
    if (tail > 2)
        v = te_binary(b, TE_ADD, v, te_cast(b, types.sum, te_axis(b, 1)));
    TeTensor out = te_map(b, types.sum, 3, ys, v);
    return te_finish(b, 1, &out, false);
}

static void test_products(int turns, bool integers)
{
    for (int turn = 0; turn < turns; turn++) {
        types = integers ? some_integers() : floats;
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        int64_t k = turn % 15 ? 1 + below(30) : 128;
        Machine m = machine_of();
        check_program(product_of(&b, 1 + below(30), 1 + below(70), k, (int)below(4)), &m,
                      (double)k);
        arena_reset(&arena, mark);
    }
}

/* out[b, h, i, j] = sum over k of x[b, i, h, k] * w[b, j, h, k], or of w that lies the other way round: batches in batches, which no one step
 * goes through. Then what differs by rows and columns, or by a batch alone, is added. */
static TeProgram *heads_of(TeBuilder *b, int64_t batches, int64_t heads, int64_t rows, int64_t n,
                           int64_t k, bool turned, int tail)
{
    int64_t xs[4] = {batches, rows, heads, k};
    int64_t ws[4] = {xs[0], turned ? k : n, xs[2], turned ? n : k};
    int64_t ys[4] = {xs[0], xs[2], rows, n};
    TeTensor x = te_add_input(b, types.data, 4, xs), w = te_add_input(b, types.weight, 4, ws);
    Te *p = te_axis(b, 0), *h = te_axis(b, 1), *i = te_axis(b, 2), *j = te_axis(b, 3);
    Te *r = te_axis(b, 4), *at[4] = {p, h, i, j};
    Te *wi[4] = {p, turned ? r : j, h, turned ? j : r};
    int64_t more[2] = {tail == 1 ? rows : ys[0], tail == 1 ? n : ys[1]};
    TeTensor m = te_add_input(b, types.sum, 2, more);
    te_add_input(b, types.sum, 2, more);
    Te *both = product(b, te_load(b, x, (Te *[]){p, i, h, r}), te_load(b, w, wi));
    TeTensor y = te_reduce(b, TE_SUM, types.sum, 4, ys, 1, &k, both);
    if (!tail)
        return te_finish(b, 1, &y, false);
    Te *v = te_load(b, m, tail == 1 ? (Te *[]){i, j} : (Te *[]){p, h});
    TeTensor out = te_map(b, types.sum, 4, ys, te_binary(b, TE_ADD, te_load(b, y, at), v));
    return te_finish(b, 1, &out, false);
}

static void test_heads(int turns)
{
    for (int turn = 0; turn < turns; turn++) {
        types = turn % 3 ? floats : some_integers();
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        int64_t k = 8 + below(20), heads = 1 + below(3), rows = 8 + below(20);
        Machine m = machine_of();
        check_program(
            heads_of(&b, 1 + below(3), heads, rows, 16 + below(40), k, below(2), (int)below(3)), &m,
            (double)k);
        arena_reset(&arena, mark);
    }
}

static bool has_buffer(const Nest *n, const char *name)
{
    bool has = false;
    for (size_t i = 0; i < n->buffers.n; i++)
        has |= n->buffers.at[i].name && !strcmp(n->buffers.at[i].name, name);
    return has;
}

/* Rows of heads a power of two apart are copied where the second cache does not hold those of all heads, and read where they lie where it
 * does. */
static void test_crowded_heads(void)
{
    types = floats;
    for (int large = 0; large < 2; large++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        Machine m = {.vector_bytes = 32, .registers = 16, .threads = 1, .reorders = true};
        m.second_cache = large ? 1 << 20 : 1 << 14;
        const TeProgram *p = heads_of(&b, 1, 4, 16, 64, 128, true, 0);
        const Tensor *known[4] = {0};
        CHECK(has_buffer(sched_program(&cx, &arena, &m, p, known), "rows") != large);
        if (!large)
            check_program(p, &m, 128);
        arena_reset(&arena, mark);
    }
}

/* Rows of one product are copied where those of a tile share sets of the first cache and are gone through often. */
static void test_crowded_rows(void)
{
    static const int64_t k[3] = {1024, 1024, 512}, n[3] = {1024, 64, 1024};
    types = floats;
    for (int i = 0; i < 3; i++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        Machine m = {.vector_bytes = 32, .registers = 16, .threads = 1, .reorders = true};
        m.second_cache = 1 << 20;
        TeTensor x = te_add_input(&b, types.data, 2, (int64_t[]){256, k[i]});
        TeTensor w = te_add_input(&b, types.weight, 2, (int64_t[]){n[i], k[i]});
        Te *row = te_axis(&b, 0), *column = te_axis(&b, 1), *r = te_axis(&b, 2);
        Te *both =
            product(&b, te_load(&b, x, (Te *[]){row, r}), te_load(&b, w, (Te *[]){column, r}));
        TeTensor y = te_reduce(&b, TE_SUM, types.sum, 2, (int64_t[]){256, n[i]}, 1, &k[i], both);
        const TeProgram *p = te_finish(&b, 1, &y, false);
        const Tensor *known[2] = {0};
        CHECK(has_buffer(sched_program(&cx, &arena, &m, p, known), "rows") == (i == 0));
        arena_reset(&arena, mark);
    }
}

/* Enough rows that each of two threads has some of its own, whose last ones do not fill a register of a matrix. */
static void test_rows_of_matrices(int turns)
{
    matrices = 0;
    for (int turn = 0; turn < turns; turn++) {
        types = signs(turn);
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        int64_t rows = 256 + 2 * below(100), k = 121 + below(8);
        Machine m = machine_of_matrices();
        m.threads = 2;
        check_program(product_of(&b, rows, 33 + below(15), k, (int)below(3)), &m, (double)k);
        arena_reset(&arena, mark);
    }
    CHECK(matrices > 0);
}

/* exp(x - the greatest of a row) by the sum of the row, of rows that three axes count. One of `by` values is taken from each first: that of the
 * axis, or everywhere the same with -1. */
static TeProgram *softmax_of(TeBuilder *b, const int64_t *shape, int by)
{
    int64_t one = 1;
    TeTensor x = te_add_input(b, types.data, 4, shape);
    TeTensor less = te_add_input(b, types.data, 1, by < 0 ? &one : &shape[by]);
    te_add_input(b, types.sum, 1, &one);
    te_add_input(b, types.sum, 1, &one);
    Te *at[4] = {te_axis(b, 0), te_axis(b, 1), te_axis(b, 2), te_axis(b, 3)};
    Te *of = by < 0 ? te_int(b, 0) : at[by];
    Te *v = te_binary(b, TE_SUB, te_load(b, x, at), te_load(b, less, &of));
    TeTensor most = te_reduce(b, TE_REDUCE_MAX, types.sum, 3, shape, 1, &shape[3], v);
    Te *e = te_unary(b, TE_EXP, te_binary(b, TE_SUB, v, te_load(b, most, at)));
    TeTensor up = te_map(b, types.sum, 4, shape, e);
    TeTensor sum = te_reduce(b, TE_SUM, types.sum, 3, shape, 1, &shape[3], te_load(b, up, at));
    TeTensor by_sum = te_map(b, types.sum, 3, shape,
                             te_binary(b, TE_DIV, te_number(b, types.sum, 1), te_load(b, sum, at)));
    TeTensor out = te_map(b, types.sum, 4, shape,
                          te_binary(b, TE_MUL, te_load(b, up, at), te_load(b, by_sum, at)));
    return te_finish(b, 1, &out, false);
}

static void find_near(void *data, NestNode *node)
{
    *(bool *)data |= node->kind == NEST_NEAR;
}

/* Rows are one loop however many axes count them, and many of them are more than a thread keeps. The next one comes near where they do not stay
 * in the second cache. */
static void test_rows(void)
{
    for (int turn = 0; turn < 40; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        bool large = turn < 4;
        int64_t shape[4] = {large ? 2 : 1 + below(3), large ? 3 : 1 + below(4),
                            large ? 90 : 1 + below(5), large ? 64 : 1 + below(70)};
        Machine m = machine_of();
        int by = (int)below(5) - 1;
        const TeProgram *p = softmax_of(&b, shape, large && by != 3 ? -1 : by);
        if (large) {
            Nest *n = sched_program(&cx, &arena, &m, p, (const Tensor *[4]){0});
            bool near = false;
            nest_each(n->root.at[0], find_near, &near);
            if (!CHECK(n->root.n == 1) || !CHECK(near == (m.second_cache < 1 << 17)))
                printf("axis %d\n", by);
        }
        check_program(p, &m, (double)shape[3]);
        arena_reset(&arena, mark);
    }
}

/* The sum over channels in blocks, and over windows of so many taps each way. */
static TeProgram *blocks_of_channels(TeBuilder *b, int64_t taps)
{
    int64_t in = 6 + taps, ks[4] = {4, taps, taps, 16}, ys[5] = {1, 2, 7, 7, 16};
    TeTensor x = te_add_input(b, types.data, 5, (int64_t[]){1, 4, in, in, 16});
    TeTensor w = te_add_input(b, types.weight, 6, (int64_t[]){2, 4, taps, taps, 16, 16});
    for (int i = 0; i < 2; i++)
        te_add_input(b, types.sum, 1, &in);
    Te *at[9];
    for (int i = 0; i < 9; i++)
        at[i] = te_axis(b, i);
    Te *from[5] = {at[0], at[5], te_binary(b, TE_ADD, at[2], at[6]),
                   te_binary(b, TE_ADD, at[3], at[7]), at[8]};
    Te *weight[6] = {at[1], at[5], at[6], at[7], at[8], at[4]};
    TeTensor y = te_reduce(b, TE_SUM, types.sum, 5, ys, 4, ks,
                           product(b, te_load(b, x, from), te_load(b, w, weight)));
    return te_finish(b, 1, &y, false);
}

/* What a tile reads of the next block of channels comes near where none of it was read before. */
static void test_near_blocks(void)
{
    types = floats;
    for (int64_t taps = 1; taps <= 3; taps += 2) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        const TeProgram *p = blocks_of_channels(&b, taps);
        const Machine m = {64, 32, 2, 1 << 20, false, false, false, false, true};
        bool near = false;
        Nest *n = sched_program(&cx, &arena, &m, p, (const Tensor *[4]){0});
        for (size_t i = 0; i < n->root.n; i++)
            nest_each(n->root.at[i], find_near, &near);
        CHECK(near == (taps == 1));
        check_program(p, &m, (double)(64 * taps * taps));
        arena_reset(&arena, mark);
    }
}

/* Each of two threads lays out the columns of its own heads, where these are laid out; of three heads all threads share the parts. */
static void test_joined_heads(void)
{
    int laid_out[2] = {0, 0};
    types = floats;
    for (int turn = 0; turn < 12; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        const Machine m = {64, 32, 2, 1 << 20, false, false, false, false, true};
        const TeProgram *p = heads_of(&b, 1, 2 + turn % 2, 16, 128, 64, turn / 2 % 2, 0);
        Nest *n = sched_program(&cx, &arena, &m, p, (const Tensor *[4]){0});
        bool columns = has_buffer(n, "columns");
        laid_out[turn % 2] += columns;
        CHECK(n->root.n == (columns && turn % 2 ? 2 : 1));
        CHECK(n->root.at[0]->way == NEST_PARALLEL);
        if (turn < 4)
            check_program(p, &m, 64);
        arena_reset(&arena, mark);
    }
    CHECK(laid_out[0] > 0 && laid_out[1] > 0);
}

enum { ROOT_OF_ROWS, ROOT_READ, ROOT_GIVEN, ROOT_OF_ELEMENTS, ROOT_FOLDED, ROOT_KINDS };

/* x by sqrt(y * y + 1), y of rows or of elements; the root is also read otherwise, or a result; the quotients are folded. */
static TeProgram *root_of(TeBuilder *b, const int64_t *shape, int kind)
{
    int64_t one = 1;
    int rank = kind == ROOT_OF_ELEMENTS ? 2 : 1;
    TeTensor x = te_add_input(b, types.sum, 2, shape), y = te_add_input(b, types.sum, rank, shape);
    te_add_input(b, types.sum, 1, &one);
    te_add_input(b, types.sum, 1, &one);
    Te *at[2] = {te_axis(b, 0), te_axis(b, 1)}, *v = te_load(b, y, at);
    v = te_binary(b, TE_ADD, te_binary(b, TE_MUL, v, v), te_number(b, types.sum, 1));
    TeTensor outs[2], root = te_map(b, types.sum, rank, shape, te_unary(b, TE_SQRT, v));
    Te *by = te_load(b, root, at), *quotient = te_binary(b, TE_DIV, te_load(b, x, at), by);
    if (kind == ROOT_READ)
        quotient = te_binary(b, TE_ADD, quotient, by);
    outs[0] = kind == ROOT_FOLDED
                  ? te_reduce(b, TE_SUM, types.sum, 1, shape, 1, &shape[1], quotient)
                  : te_map(b, types.sum, 2, shape, quotient);
    outs[1] = root;
    return te_finish(b, kind == ROOT_GIVEN ? 2 : 1, outs, kind == ROOT_GIVEN);
}

static void find_inverse(void *data, Te *e)
{
    *(bool *)data |= e->kind == TE_NODE_UNARY && e->op == TE_RSQRT;
}

static void find_inverses(void *data, NestNode *node)
{
    PtrMap seen = {0};
    if (node->value)
        te_each(&arena, &seen, node->value, find_inverse, data);
    ptrmap_deinit(&seen);
}

/* Many quotients by one root are products where nothing else needs the root, and rounding is free. */
static void test_roots(void)
{
    for (int turn = 0; turn < 4 * ROOT_KINDS; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        int kind = turn % ROOT_KINDS;
        int64_t shape[2] = {2 + below(9), 2 + below(90)};
        Machine m = machine_of();
        m.reorders = below(4) > 0;
        const TeProgram *p = root_of(&b, shape, kind);
        Nest *n = sched_program(&cx, &arena, &m, p, (const Tensor *[4]){0});
        bool inverse = false;
        for (size_t i = 0; i < n->root.n; i++)
            nest_each(n->root.at[i], find_inverses, &inverse);
        if (!CHECK(inverse == (m.reorders && (kind == ROOT_OF_ROWS || kind == ROOT_FOLDED))))
            printf("root %d\n", kind);
        check_program(p, &m, 1);
        arena_reset(&arena, mark);
    }
}

static TeProgram *turned_of(TeBuilder *b, const int64_t *shape)
{
    int64_t turned[2] = {shape[1], shape[0]};
    TeTensor x = te_add_input(b, types.sum, 2, turned), y = te_add_input(b, types.sum, 2, shape);
    te_add_input(b, types.sum, 2, shape);
    te_add_input(b, types.sum, 2, shape);
    Te *at[2] = {te_axis(b, 0), te_axis(b, 1)}, *across[2] = {at[1], at[0]};
    TeTensor out = te_map(b, types.sum, 2, shape,
                          te_binary(b, TE_ADD, te_load(b, x, across), te_load(b, y, at)));
    return te_finish(b, 1, &out, false);
}

/* The turns of the loop that holds the straight ones of a block. */
static int64_t blocks_of(const NestNode *node)
{
    while (nest_only_loop(node) && nest_only_loop(node)->way != NEST_UNROLLED)
        node = nest_only_loop(node);
    return node->extent;
}

static int64_t lanes_of_block(const NestNode *node)
{
    while (nest_only_loop(node))
        node = nest_only_loop(node);
    return node->extent;
}

/* Blocks of a transposition, some at once where the second cache is smaller than the tensor; of 64 rows, of such that begin in the middle of a
 * line, and then of any. */
static void test_turned(void)
{
    for (int turn = 0; turn < 40; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        int64_t shape[2] = {turn < 6 ? 64 : 1 + below(90), turn < 4   ? 96
                                                           : turn < 6 ? 72
                                                                      : 1 + below(90)};
        Machine m = machine_of();
        m.second_cache = turn % 2 ? 1 << 20 : 1 << 13;
        const TeProgram *p = turned_of(&b, shape);
        int64_t lanes = (int64_t)m.vector_bytes / 4;
        Nest *n = sched_program(&cx, &arena, &m, p, (const Tensor *[4]){0});
        if (turn < 4)
            CHECK(blocks_of(n->root.at[0]) == (turn % 2 ? shape[1] / lanes : 128 / 4 / lanes));
        else if (turn < 6)
            CHECK(lanes_of_block(n->root.at[0]) == (turn % 2 ? lanes : 8));
        check_program(p, &m, 1);
        arena_reset(&arena, mark);
    }
}

static int64_t statements(const NestNode *node)
{
    int64_t n = node->kind == NEST_LOOP ? 0 : 1;
    for (size_t i = 0; i < node->body.n; i++)
        n += statements(node->body.at[i]);
    return node->kind == NEST_LOOP ? n * node->extent : n;
}

/* Turns that may run at once. */
static int64_t turns_of(const NestNode *node)
{
    int64_t turns = 1;
    for (; node && node->kind == NEST_LOOP && node->way == NEST_PARALLEL;
         node = nest_only_loop(node))
        turns *= node->extent;
    return turns;
}

/* Most of a convolution is spread over the threads: three by transforms, one over a small image, one of a window of one element, whose
 * rows are one. The first has tiles enough for a thread to take some from end to end. */
static void test_threads(void)
{
    static const Case cases[] = {
        {.n = 1, .ic = 64, .oc = 64, .in = {32, 32}, .taps = {3, 3}, .before = {1, 1}},
        {.n = 1, .ic = 64, .oc = 64, .in = {28, 28}, .taps = {3, 3}, .before = {1, 1}},
        {.n = 1, .ic = 256, .oc = 256, .in = {56, 56}, .taps = {3, 3}, .before = {1, 1}},
        {.n = 1, .ic = 384, .oc = 384, .in = {7, 7}, .taps = {3, 3}, .before = {1, 1}},
        {.n = 1, .ic = 200, .oc = 96, .in = {14, 14}, .taps = {1, 1}},
        {.n = 1, .groups = 96, .ic = 1, .in = {28, 28}, .taps = {3, 3}, .before = {1, 1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ArenaMark mark = arena_mark(&arena);
        Case c = cases[i];
        for (int a = 0; a < 2; a++) {
            c.stride[a] = c.dilation[a] = 1;
            c.after[a] = c.before[a];
        }
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        const TeProgram *p = program_of(&b, &c);
        Tensor *w = random_tensor(&p->inputs[1]);
        const Tensor *known[4] = {NULL, w};
        Machine m = {64, 32, 2, 1 << 20, false, false, false, true, true};
        Nest *n = sched_program(&cx, &arena, &m, p, known);
        int64_t all = 0, spread = 0, most = 0;
        for (size_t k = 0; k < n->root.n; k++) {
            int64_t work = statements(n->root.at[k]);
            all += work;
            spread += turns_of(n->root.at[k]) > 1 ? work : 0;
            most = work > most ? work : most;
        }
        if (!CHECK(spread * 10 >= all * 8) || (i == 0 && !CHECK(most * 10 >= all * 8)))
            show(p, n);
        tensor_release(w);
        arena_reset(&arena, mark);
    }
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    arena_init(&arena, &cx.limits);
    types = floats;
    test_transforms();
    test_threads();
    test_turned();
    test_roots();
    test_rows();
    test_windows(60, false, false);
    test_windows(160, true, false);
    test_products(150, false);
    test_windows(30, false, true);
    test_windows(40, true, true);
    test_products(75, true);
    test_bytes(60);
    test_matrices(4);
    test_rows_of_matrices(4);
    test_heads(60);
    test_crowded_heads();
    test_crowded_rows();
    test_joined_heads();
    test_near_blocks();
    ctx_deinit(&cx);
    arena_deinit(&arena);
    return check_done();
}
