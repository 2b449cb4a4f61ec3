/* Kernels of a GPU for rows, products, images and turned tensors of random sizes: as nests they compute what the plain nests do, without a
 * race, and the ways that they are made in are those that are meant. */
#include "sched/gpu.h"
#include "stdlib/stdlib.h"
#include "tests/unit/check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static Ctx cx;
static Arena arena;
static uint64_t state = 1;

static const DType f32 = {DTYPE_CODE_FLOAT, 32, 1};

static int64_t below(int64_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((state >> 33) % (uint64_t)n);
}

static int64_t some(int64_t least, int64_t most)
{
    return least + below(most - least + 1);
}

/* ---- programs ----------------------------------------------------------------------------------------------------------- */

static Te *op(TeBuilder *b, TeOp o, Te *x, Te *y)
{
    return te_binary(b, o, x, y);
}

/* exp(x - max) over its sum, along the last of three axes. */
static TeProgram *softmax(TeBuilder *b)
{
    int64_t s[3] = {some(1, 3), some(1, 9), some(1, 700)};
    TeTensor x = te_add_input(b, f32, 3, s);
    Te *at[3] = {te_axis(b, 0), te_axis(b, 1), te_axis(b, 2)};
    TeTensor most = te_reduce(b, TE_REDUCE_MAX, f32, 2, s, 1, s + 2, te_load(b, x, at));
    Te *less = op(b, TE_SUB, te_load(b, x, at), te_load(b, most, at));
    TeTensor e = te_map(b, f32, 3, s, te_unary(b, TE_EXP, less));
    TeTensor sum = te_reduce(b, TE_SUM, f32, 2, s, 1, s + 2, te_load(b, e, at));
    TeTensor y = te_map(b, f32, 3, s, op(b, TE_DIV, te_load(b, e, at), te_load(b, sum, at)));
    return te_finish(b, 1, &y, false);
}

/* Long rows, which stay in shared memory or nowhere. */
static TeProgram *long_rows(TeBuilder *b)
{
    int64_t s[2] = {some(1, 3), some(3000, 12000)};
    TeTensor x = te_add_input(b, f32, 2, s);
    Te *at[2] = {te_axis(b, 0), te_axis(b, 1)};
    Te *square = op(b, TE_MUL, te_load(b, x, at), te_load(b, x, at));
    TeTensor e = te_map(b, f32, 2, s, te_unary(b, TE_EXP, square));
    TeTensor sum = te_reduce(b, TE_SUM, f32, 1, s, 1, s + 1, te_load(b, e, at));
    TeTensor y = te_map(b, f32, 2, s, op(b, TE_DIV, te_load(b, e, at), te_load(b, sum, at)));
    return te_finish(b, 1, &y, false);
}

/* Folds of several axes, or of all; of columns too. */
static TeProgram *folds(TeBuilder *b)
{
    static const TeReduce kinds[] = {TE_SUM,    TE_REDUCE_MAX, TE_REDUCE_MIN,  TE_PROD,
                                     TE_ARGMAX, TE_ARGMIN,     TE_ARGMAX_LAST, TE_ARGMIN_LAST};
    static const DType i64 = {DTYPE_CODE_INT, 64, 1};
    int64_t s[4] = {some(1, 5), some(1, 40), some(1, 40), some(1, 30)};
    TeTensor x = te_add_input(b, f32, 4, s);
    int kept = (int)below(4), first = (int)below(2) ? 0 : kept;
    int64_t space[4], reduced[4];
    Te *at[4];
    for (int i = 0; i < 4; i++) {
        /* Either the last axes are folded or the first. */
        bool is_folded = first ? i >= kept : i < 4 - kept;
        int k = first ? (is_folded ? i - kept : i) : (is_folded ? i : i - (4 - kept));
        (is_folded ? reduced : space)[k] = s[i];
        at[i] = te_axis(b, is_folded ? kept + k : k);
    }
    TeReduce kind = kinds[below(8)];
    TeTensor y = te_reduce(b, kind, nest_is_position(kind) ? i64 : f32, kept, space, 4 - kept,
                           reduced, te_load(b, x, at));
    return te_finish(b, 1, &y, false);
}

/* Axes in another order, with something done to the elements. */
static TeProgram *turned(TeBuilder *b)
{
    int64_t s[3] = {some(1, 4), some(1, 70), some(1, 70)};
    static const int orders[][3] = {{0, 2, 1}, {2, 1, 0}, {1, 0, 2}, {2, 0, 1}};
    const int *order = orders[below(4)];
    int64_t t[3];
    Te *at[3];
    for (int i = 0; i < 3; i++) {
        t[i] = s[order[i]];
        at[order[i]] = te_axis(b, i);
    }
    TeTensor x = te_add_input(b, f32, 3, s), y = te_add_input(b, f32, 3, t);
    Te *same[3] = {te_axis(b, 0), te_axis(b, 1), te_axis(b, 2)};
    Te *v = op(b, TE_ADD, te_unary(b, TE_SQRT, op(b, TE_MUL, te_load(b, x, at), te_load(b, x, at))),
               te_load(b, y, same));
    TeTensor z = te_map(b, f32, 3, t, v);
    return te_finish(b, 1, &z, false);
}

/* What products are made of, and the type of their sums. */
static DType factors[2], sums;
static int64_t most; /* of its extents, rows and columns of tiles included */
static bool deep; /* there are many folds beside those */
static bool groups, boxes; /* of warps multiply whole tiles; or any, which come by themselves */

/* An extent, often one that steps of any length divide. */
static int64_t length(void)
{
    return deep ? some(8, 24) : below(2) ? some(1, most) : 64 * some(1, most / 64);
}

/* [B,] M x K by K x N, either turned, with a bias and relu behind it or none. */
static TeProgram *product(TeBuilder *b)
{
    int64_t batch = !groups && below(2) ? some(2, 3) : 1, m = groups ? 128 : length();
    int64_t k = groups ? 64 * some(1, 4) : deep ? 128 * some(2, 4) : length();
    int64_t n = groups ? 128 * some(1, 2) : length();
    if (boxes) {
        /* Rows of 16 bytes and tiles that are more than half full are all that they want. */
        int64_t row = 128 / factors[0].bits;
        batch = deep || below(3) ? 1 : 2;
        m = some(65, 128);
        n = some(65, deep ? 128 : 140);
        k = deep ? 256 : row * some(9, 20);
    }
    bool ta = !groups && below(2), tb = groups || below(2);
    int64_t as[3] = {batch, ta ? k : m, ta ? m : k}, bs[3] = {batch, tb ? n : k, tb ? k : n};
    int64_t cs[3] = {batch, m, n};
    TeTensor x = te_add_input(b, factors[0], 3, as), w = te_add_input(b, factors[1], 3, bs);
    TeTensor bias = te_add_input(b, sums, 1, &n);
    Te *i = te_axis(b, 1), *j = te_axis(b, 2), *r = te_axis(b, 3), *o = te_axis(b, 0);
    Te *xi[3] = {o, ta ? r : i, ta ? i : r}, *wi[3] = {o, tb ? j : r, tb ? r : j};
    TeTensor y = te_reduce(
        b, TE_SUM, sums, 3, cs, 1, &k,
        op(b, TE_MUL, te_cast(b, sums, te_load(b, x, xi)), te_cast(b, sums, te_load(b, w, wi))));
    Te *at[3] = {o, i, j};
    if (below(2)) {
        Te *v = op(b, TE_ADD, te_load(b, y, at), te_load(b, bias, &j));
        y = te_map(b, sums, 3, cs, op(b, TE_MAX, v, te_number(b, sums, 0)));
    }
    return te_finish(b, 1, &y, false);
}

/* Shares of products of queries and keys, scaled, masked or neither, by which values are summed: the shares as quotients, or by the inverse
 * of the sum, and the values turned or not. */
static TeProgram *attention(TeBuilder *b)
{
    DType t = factors[0];
    int64_t batch = some(1, 2), m = some(8, 40), n = some(8, 70), d = some(8, 24), e = some(8, 40);
    if (deep) {
        batch = 1;
        m = some(60, 70);
        n = 64 * some(1, 2);
        d = 16;
        e = 16 * some(1, 2);
    }
    bool turned = below(2), inverse = below(2);
    int kind = (int)below(3);
    int64_t qs[3] = {batch, m, d}, ks[3] = {batch, n, d}, ss[3] = {batch, m, n},
            os[3] = {batch, m, e};
    int64_t vs[3] = {batch, turned ? e : n, turned ? n : e};
    TeTensor q = te_add_input(b, t, 3, qs), k = te_add_input(b, t, 3, ks);
    TeTensor v = te_add_input(b, t, 3, vs), mask = te_add_input(b, t, 2, ss + 1);
    Te *o = te_axis(b, 0), *i = te_axis(b, 1), *j = te_axis(b, 2), *r = te_axis(b, 3);
    Te *qi[3] = {o, i, r}, *ki[3] = {o, j, r}, *at[3] = {o, i, j}, *sum_at[3] = {o, i, r};
    Te *vi[3] = {o, turned ? j : r, turned ? r : j}, *mi[2] = {i, j};
    TeTensor s =
        te_reduce(b, TE_SUM, t, 3, ss, 1, &d, op(b, TE_MUL, te_load(b, q, qi), te_load(b, k, ki)));
    if (kind > 0) {
        Te *x = op(b, TE_DIV, te_load(b, s, at), te_number(b, t, t.bits == 16 ? 4 : 0.25));
        /* Masked are most of the keys, and often all of a step or of a row. */
        Te *hidden = op(b, TE_LT, te_load(b, mask, mi), te_number(b, t, 0.9));
        Te *few = op(b, TE_AND, hidden, op(b, TE_LT, i, te_int(b, 20)));
        x = kind > 1 ? te_select(b, few, te_bound(b, t, true), x) : x;
        s = te_map(b, t, 3, ss, x);
    }
    /* Stages have nodes in common, as those do into which another one went. */
    Te *score = te_load(b, s, at);
    TeTensor top = te_reduce(b, TE_REDUCE_MAX, t, 2, ss, 1, ss + 2, score);
    Te *less = op(b, TE_SUB, score, te_load(b, top, at));
    TeTensor p = te_map(b, t, 3, ss, te_unary(b, TE_EXP, less));
    TeTensor sum = te_reduce(b, TE_SUM, t, 2, ss, 1, ss + 2, te_load(b, p, at));
    TeTensor over = te_map(b, t, 2, ss, op(b, TE_DIV, te_number(b, t, 1), te_load(b, sum, at)));
    TeTensor part = te_map(
        b, t, 3, ss,
        op(b, inverse ? TE_MUL : TE_DIV, te_load(b, p, at), te_load(b, inverse ? over : sum, at)));
    TeTensor y = te_reduce(b, TE_SUM, t, 3, os, 1, ss + 2,
                           op(b, TE_MUL, te_load(b, part, sum_at), te_load(b, v, vi)));
    if (below(2))
        y = te_map(b, t, 3, os, op(b, TE_MAX, te_load(b, y, at), te_number(b, t, 0)));
    return te_finish(b, 1, &y, false);
}

/* A convolution of images with a border of zeros. */
static TeProgram *image(TeBuilder *b)
{
    int64_t c = some(1, 9), oc = some(1, 70), h = some(3, 14), taps = below(2) ? 3 : 1;
    int64_t stride = some(1, 2), pad = taps / 2;
    int64_t out = (h + 2 * pad - taps) / stride + 1;
    int64_t xs[4] = {some(1, 2), c, h, h}, ws[4] = {oc, c, taps, taps};
    int64_t ys[4] = {xs[0], oc, out, out}, reduced[3] = {c, taps, taps};
    TeTensor x = te_add_input(b, factors[0], 4, xs), w = te_add_input(b, factors[1], 4, ws);
    Te *xi[4] = {te_axis(b, 0), te_axis(b, 4)}, *wi[4] = {te_axis(b, 1), te_axis(b, 4)};
    for (int a = 2; a < 4; a++) {
        Te *at = op(b, TE_MUL, te_axis(b, a), te_int(b, stride));
        xi[a] = op(b, TE_SUB, op(b, TE_ADD, at, te_axis(b, 3 + a)), te_int(b, pad));
        wi[a] = te_axis(b, 3 + a);
    }
    Te *load = pad ? te_load_or(b, x, xi, te_number(b, factors[0], 0)) : te_load(b, x, xi);
    TeTensor y =
        te_reduce(b, TE_SUM, sums, 4, ys, 3, reduced,
                  op(b, TE_MUL, te_cast(b, sums, load), te_cast(b, sums, te_load(b, w, wi))));
    return te_finish(b, 1, &y, false);
}

/* ---- comparing ------------------------------------------------------------------------------------------------------------ */

static char **memory_of(const Nest *n, char **inputs)
{
    char **memory = calloc(n->buffers.n + 1, sizeof *memory);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        size_t bytes = (size_t)b->size * dtype_size(b->dtype);
        if ((int)i < n->n_inputs) {
            memory[i] = inputs[i];
        } else if (b->place == NEST_GIVEN || b->place == NEST_SCRATCH) {
            memory[i] = malloc(bytes + 1);
            memset(memory[i], 0xff, bytes);
        }
    }
    return memory;
}

static void free_memory(const Nest *n, char **memory)
{
    for (size_t i = (size_t)n->n_inputs; i < n->buffers.n; i++)
        free(memory[i]);
    free(memory);
}

static bool are_close(const NestBuffer *b, const char *x, const char *y, double near)
{
    size_t size = dtype_size(b->dtype);
    if (!dtype_is_float(b->dtype))
        return memcmp(x, y, (size_t)b->size * size) == 0;
    for (size_t i = 0; i < (size_t)b->size; i++) {
        double p = dtype_get_double(b->dtype, x + i * size);
        double q = dtype_get_double(b->dtype, y + i * size);
        if (!(isnan(p) && isnan(q)) && p != q && !(fabs(p - q) <= near * (1 + fabs(p))))
            return false;
    }
    return true;
}

typedef struct Seen {
    long kernels, barriers, shuffles, vectors, tiles, groups, boxes, copies, turned;
} Seen;

static void look(void *data, NestNode *node)
{
    Seen *seen = data;
    seen->kernels += node->kind == NEST_LOOP && node->way == NEST_GRID && !node->parent;
    seen->barriers += node->kind == NEST_BARRIER;
    seen->shuffles += node->kind == NEST_SHUFFLE;
    seen->tiles += node->kind == NEST_TILE;
    seen->groups += node->kind == NEST_GROUP;
    seen->boxes += node->kind == NEST_BULK;
    seen->copies += node->copies;
    seen->turned += node->turned;
    seen->vectors += node->kind == NEST_LOOP && node->way == NEST_VECTOR;
}

static bool in_order; /* Sums are taken in the order of the elements. */

static bool check(const TeProgram *p, Seen *seen, bool tf32)
{
    GpuMachine machine = {.threads = 64,
                          .wide_least = below(2) ? 1 : 16384,
                          .folds_least = 8,
                          .blocks = !groups ? 128
                                    : deep  ? 4
                                            : 1,
                          .groups = groups,
                          .boxes = boxes,
                          .reorders = !in_order,
                          .tf32 = tf32};
    char *inputs[4] = {NULL};
    bool nan = below(6) == 0;
    for (int i = 0; i < p->n_inputs; i++) {
        int64_t size;
        shape_size(p->inputs[i].rank, p->inputs[i].shape, &size);
        DType t = p->inputs[i].dtype;
        inputs[i] = malloc((size_t)size * dtype_size(t) + 4);
        for (int64_t k = 0; k < size; k++) {
            double v = !dtype_is_float(t)      ? (double)(below(250) - dtype_is_signed(t) * 125)
                       : nan && below(50) == 0 ? (double)NAN
                                               : (double)(below(2001) - 1000) / 1000;
            dtype_set_double(t, inputs[i] + (size_t)k * dtype_size(t), v);
        }
    }
    Nest *plain = nest_of(&cx, &arena, p, NULL), *n = sched_gpu(&cx, &arena, &machine, p, NULL);
    char **wanted = memory_of(plain, inputs), **got = memory_of(n, inputs);
    const char *wrong = nest_verify(n);
    CHECK(nest_run(plain, wanted));
    wrong = wrong ? wrong : nest_fault(n, got);
    int out = p->outputs[0];
    DType made = n->buffers.at[out].dtype;
    double near = made.code == DTYPE_CODE_BFLOAT ? 3e-2
                  : made.bits == 16              ? 4e-3
                  : tf32                         ? 2e-2
                                                 : 1e-4;
    if (!wrong && !are_close(&n->buffers.at[out], wanted[out], got[out], near))
        wrong = "it gives other numbers";
    for (size_t i = 0; i < n->root.n; i++)
        nest_each(n->root.at[i], look, seen);
    if (!CHECK(!wrong)) {
        Buf text = {0};
        te_print(&text, p, NULL);
        nest_print(&text, n);
        printf("%s\n%.6000s\n", wrong, buf_text(&text));
        buf_deinit(&text);
    }
    free_memory(plain, wanted);
    free_memory(n, got);
    for (int i = 0; i < p->n_inputs; i++)
        free(inputs[i]);
    return !wrong;
}

static Seen test_as(TeProgram *(*make)(TeBuilder *b), int turns, bool tf32)
{
    Seen seen = {0};
    bool good = true;
    for (int turn = 0; turn < turns && good; turn++) {
        ArenaMark mark = arena_mark(&arena);
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        good = check(make(&b), &seen, tf32);
        arena_reset(&arena, mark);
    }
    return seen;
}

static Seen test(TeProgram *(*make)(TeBuilder *b), int turns)
{
    factors[0] = factors[1] = sums = f32;
    most = 100;
    return test_as(make, turns, false);
}

enum { N_KINDS = 6 };

/* One of the kinds of products that tensor cores have; whether it is one of rounded floats. */
static bool set_kind(size_t i)
{
    static const DType half = {DTYPE_CODE_FLOAT, 16, 1}, brain = {DTYPE_CODE_BFLOAT, 16, 1};
    static const DType i8 = {DTYPE_CODE_INT, 8, 1}, u8 = {DTYPE_CODE_UINT, 8, 1};
    static const DType i32 = {DTYPE_CODE_INT, 32, 1};
    static const DType kinds[N_KINDS][3] = {{half, half, f32}, {brain, brain, f32}, {f32, f32, f32},
                                            {i8, i8, i32},     {u8, i8, i32},       {u8, u8, i32}};
    factors[0] = kinds[i][0];
    factors[1] = kinds[i][1];
    sums = kinds[i][2];
    return factors[0].bits == 32;
}

/* Products of each kind that tensor cores have; their folds are taken in parts where they are many. */
static void test_tiles(void)
{
    Seen all = {0};
    most = 70;
    for (size_t i = 0; i < N_KINDS; i++) {
        bool tf32 = set_kind(i);
        Seen seen = test_as(product, 3, tf32);
        CHECK(seen.tiles > 0);
        deep = true;
        Seen parts = test_as(product, 1, tf32);
        CHECK(parts.kernels == 2 && parts.tiles > 0);
        deep = false;
        all.copies += seen.copies;
        all.turned += seen.turned;
        seen = test_as(image, 1, tf32);
        all.tiles += seen.tiles;
    }
    CHECK(all.tiles > 0 && all.copies > 6 && all.turned > 0);
}

/* Factors that become shorter are none that tensor cores have as they are, and sums that have an order are no product of tiles. */
static void test_other_products(void)
{
    static const DType f64 = {DTYPE_CODE_FLOAT, 64, 1};
    factors[0] = factors[1] = f64;
    sums = f32;
    most = 70;
    Seen seen = test_as(product, 1, false);
    CHECK(seen.kernels > 0 && seen.tiles == 0);
    in_order = true;
    seen = test(product, 2);
    CHECK(seen.kernels >= 2 && seen.barriers == 0);
    in_order = false;
}

/* Whole tiles straight from shared memory. */
static void test_groups(void)
{
    groups = true;
    for (int i = 0; i < 2; i++) {
        factors[0] = factors[1] = (DType){i ? DTYPE_CODE_BFLOAT : DTYPE_CODE_FLOAT, 16, 1};
        sums = f32;
        Seen seen = test_as(product, 1, false);
        CHECK(seen.groups == 1 && seen.tiles == 0);
    }
    groups = false;
}

/* The same of boxes that come by themselves, of elements of each size and of any extents; their folds in parts too. */
static void test_boxes(void)
{
    groups = boxes = true;
    for (size_t i = 0; i < N_KINDS; i += 2) {
        bool tf32 = set_kind(i);
        Seen seen = test_as(product, 1, tf32);
        CHECK(seen.groups == 1 && seen.boxes >= 2 && seen.tiles == 0 && seen.copies == 0);
    }
    deep = true;
    set_kind(0);
    Seen parts = test_as(product, 1, false);
    CHECK(parts.kernels == 2 && parts.groups == 1 && parts.tiles == 0);
    deep = false;
    groups = boxes = false;
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    arena_init(&arena, &cx.limits);
    Seen seen = test(softmax, 24);
    CHECK(seen.kernels < 36 && seen.shuffles > 160 && seen.barriers > 20);
    seen = test(long_rows, 3);
    CHECK(seen.kernels < 9 && seen.barriers > 2);
    seen = test(folds, 60);
    CHECK(seen.shuffles > 160);
    seen = test(turned, 24);
    CHECK(seen.kernels == 24 && seen.barriers > 8);
    seen = test(product, 12);
    CHECK(seen.kernels < 20 && seen.barriers > 12);
    deep = true;
    seen = test(product, 4);
    CHECK(seen.kernels == 8);
    deep = false;
    seen = test(image, 12);
    CHECK(seen.kernels == 12 && seen.barriers > 6);
    test_tiles();
    seen = test(attention, 6);
    CHECK(seen.kernels == 6 && seen.barriers == 18);
    for (int brain = 0; brain < 2; brain++) {
        factors[0] = (DType){brain ? DTYPE_CODE_BFLOAT : DTYPE_CODE_FLOAT, 16, 1};
        for (int turn = 0; turn < 2; turn++) {
            deep = turn;
            seen = test_as(attention, 1, false);
            CHECK(seen.kernels == 1 && seen.tiles == 2 && (seen.copies > 0) == deep);
        }
        deep = false;
    }
    test_other_products();
    test_groups();
    test_boxes();
    ctx_deinit(&cx);
    arena_deinit(&arena);
    return check_done();
}
