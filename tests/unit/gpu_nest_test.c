/* Kernels in the loop language: what a right one computes, and that each planted fault is found: by nest_verify where it can be seen, else
 * when it happens. */
#include "loop/nest.h"
#include "stdlib/stdlib.h"
#include "tests/unit/check.h"

#include <string.h>

static Ctx cx;
static Arena arena;

static const DType f32 = {DTYPE_CODE_FLOAT, 32, 1};

enum { BLOCKS = 3, THREADS = 64, N = BLOCKS * THREADS };

/* out[i] = in[i] + in[i ^ 1 … 32 or so]: a tile in shared memory, a barrier, another's element. */
typedef struct Kernel {
    Nest *n;
    NestNode *grid, *threads;
    int tile, own;
    Te *block, *thread, *i;
    float in[N], out[N];
} Kernel;

static Te *add(Kernel *k, Te *a, Te *b)
{
    return te_binary(&k->n->te, TE_ADD, a, b);
}

static Te *number(Kernel *k, int64_t v)
{
    return te_int(&k->n->te, v);
}

static Kernel begin(void)
{
    Kernel k = {0};
    TeBuilder b;
    int64_t size = N;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 1, &size);
    Te *i = te_axis(&b, 0);
    TeTensor y = te_map(&b, f32, 1, &size, te_load(&b, x, &i));
    k.n = nest_of(&cx, &arena, te_finish(&b, 1, &y, false), NULL);
    nest_remove(k.n, k.n->root.at[0]);
    k.grid = nest_loop(k.n, "block", BLOCKS);
    k.threads = nest_loop(k.n, "thread", THREADS);
    k.grid->way = NEST_GRID;
    k.threads->way = NEST_THREADS;
    nest_append(k.n, NULL, k.grid);
    nest_append(k.n, k.grid, k.threads);
    k.tile = nest_buffer(
        k.n,
        (NestBuffer){
            .name = "tile", .dtype = f32, .place = NEST_SHARED, .size = THREADS, .home = k.grid});
    k.own = nest_buffer(
        k.n,
        (NestBuffer){
            .name = "own", .dtype = f32, .place = NEST_REGISTER, .size = 1, .home = k.threads});
    k.block = te_axis(&k.n->te, k.grid->var);
    k.thread = te_axis(&k.n->te, k.threads->var);
    k.i = add(&k, te_binary(&k.n->te, TE_MUL, k.block, number(&k, THREADS)), k.thread);
    for (int at = 0; at < N; at++)
        k.in[at] = (float)(at % 17);
    return k;
}

static void store(Kernel *k, NestNode *in, int buffer, Te *at, Te *value)
{
    nest_append(k->n, in, nest_store(k->n, buffer, at, value));
}

static Te *load(Kernel *k, int buffer, Te *at)
{
    return nest_load(k->n, buffer, at);
}

/* What is wrong with it: what the verifier says, or else what happens. */
static const char *run(Kernel *k)
{
    const char *wrong = nest_verify(k->n);
    char *memory[8] = {(char *)k->in, (char *)k->out};
    return wrong ? wrong : nest_fault(k->n, memory);
}

static bool says(const char *wrong, const char *word)
{
    if (wrong && strstr(wrong, word))
        return true;
    printf("said: %s, wanted: %s\n", wrong ? wrong : "nothing", word);
    return false;
}

/* The last thread's element first. */
static Te *mirrored(Kernel *k)
{
    Te *minus = te_binary(&k->n->te, TE_MUL, k->thread, number(k, -1));
    return add(k, minus, number(k, THREADS - 1));
}

static void test_tile(bool barrier)
{
    Kernel k = begin();
    store(&k, k.threads, k.tile, k.thread, load(&k, 0, k.i));
    if (barrier)
        nest_append(k.n, k.threads, nest_barrier(k.n));
    store(&k, k.threads, 1, k.i, load(&k, k.tile, mirrored(&k)));
    const char *wrong = run(&k);
    if (!barrier) {
        CHECK(says(wrong, "two threads touch the same place"));
        return;
    }
    bool good = CHECK(!wrong);
    for (int i = 0; i < N && good; i++)
        good = CHECK(k.out[i] == k.in[i / THREADS * THREADS + THREADS - 1 - i % THREADS]);
}

/* The tile is used again before all have read it. */
static void test_reuse(bool barrier)
{
    Kernel k = begin();
    NestNode *twice = nest_loop(k.n, "turn", 2);
    nest_append(k.n, k.threads, twice);
    store(&k, twice, k.tile, k.thread, load(&k, 0, k.i));
    nest_append(k.n, twice, nest_barrier(k.n));
    store(&k, twice, 1, k.i, load(&k, k.tile, mirrored(&k)));
    if (barrier)
        nest_append(k.n, twice, nest_barrier(k.n));
    const char *wrong = run(&k);
    CHECK(barrier ? !wrong : says(wrong, "two threads touch the same place"));
}

static void test_blocks(void)
{
    Kernel k = begin();
    store(&k, k.threads, 1, k.thread, load(&k, 0, k.i));
    CHECK(says(run(&k), "two threads touch the same place"));
    /* What another block wrote nobody knows, barrier or not. */
    k = begin();
    store(&k, k.threads, 1, k.i, load(&k, 0, k.i));
    nest_append(k.n, k.threads, nest_barrier(k.n));
    store(&k, k.threads, k.own, number(&k, 0), load(&k, 1, k.thread));
    CHECK(says(run(&k), "two threads touch the same place"));
}

static void test_sum_of_warps(void)
{
    Kernel k = begin();
    int other = nest_buffer(k.n, k.n->buffers.at[k.own]);
    Te *zero = number(&k, 0);
    store(&k, k.threads, k.own, zero, load(&k, 0, k.i));
    for (int lanes = NEST_WARP / 2; lanes > 0; lanes /= 2) {
        nest_append(k.n, k.threads, nest_shuffle(k.n, other, zero, lanes, load(&k, k.own, zero)));
        nest_append(k.n, k.threads, nest_fold(k.n, TE_SUM, k.own, zero, load(&k, other, zero)));
    }
    store(&k, k.threads, 1, k.i, load(&k, k.own, zero));
    bool good = CHECK(!run(&k));
    for (int i = 0; i < N && good; i++) {
        float sum = 0;
        for (int lane = 0; lane < NEST_WARP; lane++)
            sum += k.in[i / NEST_WARP * NEST_WARP + lane];
        good = CHECK(k.out[i] == sum);
    }
}

/* A variable that lets in the threads whose value is below the extent. */
static NestNode *bound(Kernel *k, NestNode *in, int64_t extent, Te *value)
{
    NestNode *loop = nest_loop(k->n, "some", extent);
    nest_bind(loop, value);
    nest_append(k->n, in, loop);
    return loop;
}

static void test_some_threads(void)
{
    Kernel k = begin();
    NestNode *some = bound(&k, k.threads, 10, k.thread);
    nest_append(k.n, some, nest_barrier(k.n));
    CHECK(says(nest_verify(k.n), "do not come meet"));
    char *memory[8] = {(char *)k.in, (char *)k.out};
    CHECK(says(nest_fault(k.n, memory), "a barrier misses threads"));
    k = begin();
    some = bound(&k, k.threads, 10, k.thread);
    nest_append(k.n, some, nest_shuffle(k.n, k.own, number(&k, 0), 1, load(&k, 0, k.i)));
    CHECK(says(nest_verify(k.n), "do not come meet"));
    CHECK(says(nest_fault(k.n, memory), "a shuffle misses threads"));
    /* All threads of some blocks may meet. */
    k = begin();
    some = bound(&k, k.threads, 2, k.block);
    nest_append(k.n, some, nest_barrier(k.n));
    CHECK(!run(&k));
}

static void test_places(void)
{
    Kernel k = begin();
    store(&k, k.threads, 1, add(&k, k.i, number(&k, 1)), load(&k, 0, k.i));
    CHECK(says(nest_verify(k.n), "outside of its buffer"));
    CHECK(says(run(&k), "outside of its buffer"));
    /* Where the position says nothing it is found when it happens. */
    k = begin();
    Te *far = te_cast(&k.n->te, (DType){DTYPE_CODE_INT, 64, 1}, load(&k, 0, k.i));
    store(&k, k.threads, k.tile, te_binary(&k.n->te, TE_MUL, far, number(&k, 1000)),
          load(&k, 0, k.i));
    CHECK(says(run(&k), "outside of its buffer"));
    /* What nobody wrote is no number that somebody expects. */
    k = begin();
    store(&k, k.threads, 1, k.i, load(&k, k.tile, k.thread));
    CHECK(!run(&k) && CHECK(k.out[0] != k.out[0]));
}

static void test_sizes(void)
{
    Kernel k = begin();
    k.threads->extent = NEST_THREADS_MOST + 1;
    store(&k, k.threads, k.own, number(&k, 0), load(&k, 0, number(&k, 0)));
    CHECK(says(nest_verify(k.n), "more threads than a GPU"));
    k = begin();
    k.n->buffers.at[k.tile].size = 1 << 20;
    CHECK(says(nest_verify(k.n), "shares more memory"));
    k = begin();
    k.threads->way = NEST_SERIAL;
    CHECK(says(nest_verify(k.n), "a grid has no threads"));
}

/* Rows of the tile, which are copied, come as matrices: each thread stores its words. */
static void test_matrices(bool waits, bool whole)
{
    static const DType word = {DTYPE_CODE_UINT, 32, 1};
    Kernel k = begin();
    TeBuilder *b = &k.n->te;
    NestBuffer words = {
        .name = "words", .dtype = word, .place = NEST_REGISTER, .size = 2, .home = k.threads};
    int w = nest_buffer(k.n, words);
    NestNode *row = nest_loop(k.n, "row", THREADS / 4), *lane = nest_loop(k.n, "lane", 4);
    nest_bind(row, k.thread);
    lane->way = NEST_VECTOR;
    lane->lanes = 4;
    nest_append(k.n, k.threads, row);
    nest_append(k.n, row, lane);
    Te *place =
        add(&k, te_binary(b, TE_MUL, te_axis(b, row->var), number(&k, 4)), te_axis(b, lane->var));
    Te *from = add(&k, te_binary(b, TE_MUL, k.block, number(&k, THREADS)), place);
    NestNode *copy = nest_store(k.n, k.tile, place, load(&k, 0, from));
    copy->copies = true;
    nest_append(k.n, lane, copy);
    nest_append(k.n, k.threads, nest_wait(k.n, waits ? 0 : 1));
    nest_append(k.n, k.threads, nest_barrier(k.n));
    NestNode *some = nest_loop(k.n, "some", whole ? THREADS : THREADS / 2 + 1);
    nest_bind(some, k.thread);
    nest_append(k.n, k.threads, some);
    NestNode *low = nest_loop(k.n, "low", 16);
    nest_bind(low, te_binary(b, TE_MOD, k.thread, number(&k, 16)));
    nest_append(k.n, some, low);
    Te *begins = te_binary(b, TE_MUL, te_axis(b, low->var), number(&k, 4));
    nest_append(k.n, low, nest_fetch(k.n, w, number(&k, 0), 2, load(&k, k.tile, begins)));
    store(&k, low, 1, k.i, te_cast(b, f32, load(&k, w, number(&k, 1))));
    const char *wrong = run(&k);
    if (!whole || !waits) {
        CHECK(says(wrong, !whole ? "threads that do not come meet others"
                                 : "a copy is touched before it has arrived"));
        return;
    }
    bool good = CHECK(!wrong);
    for (int i = 0; i < N && good; i++) {
        float v = k.in[i / THREADS * THREADS + THREADS / 2 + i % 32];
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        good = CHECK(k.out[i] == (float)bits);
    }
}

typedef enum Fault {
    NONE,
    NARROW, /* the box's rows are half as long as those of its pattern */
    ODD, /* it begins between parts of 16 bytes */
    UNOPENED, /* the gate is none */
    UNSEEN, /* other threads may come to the gate before it is one */
    UNASKED, /* nobody asks for the box, */
    BY_ALL, /* or everybody does */
    UNMET, /* not all threads wait for it, */
    UNAWAITED, /* or none does, */
    OTHER_TURN, /* or for another one */
    REUSED, /* the next one goes there before all have read it */
} Fault;

/* Rows of 32 of the input, from one that each block has, come by themselves, and each thread stores what it finds. */
static void test_boxes(Fault fault, const char *word)
{
    static const DType bits = {DTYPE_CODE_UINT, 64, 1};
    Kernel k = begin();
    TeBuilder *b = &k.n->te;
    NestBuffer room = {.name = "gates", .dtype = bits, .place = NEST_SHARED, .size = 1};
    room.home = k.grid;
    int gates = nest_buffer(k.n, room);
    k.n->buffers.at[k.tile].boxed = true;
    NestBox box = {.from = 0, .offset = fault == ODD, .n = 2};
    box.axis[0].extent = box.axis[0].length = 32;
    box.axis[0].length /= fault == NARROW ? 2 : 1;
    box.axis[0].step = 1;
    box.axis[0].first = number(&k, 0);
    box.axis[1].extent = N / 32 - (fault == ODD);
    box.axis[1].step = 32;
    box.axis[1].length = 2;
    box.axis[1].first = add(&k, te_binary(b, TE_MUL, k.block, number(&k, 2)), number(&k, 1));
    NestNode *one[3];
    for (int i = 0; i < 3; i++) {
        one[i] = nest_loop(k.n, "one", fault == BY_ALL && i == 1 ? THREADS : 1);
        nest_bind(one[i], k.thread);
    }
    if (fault != UNOPENED)
        nest_append(k.n, one[0], nest_open(k.n, gates, number(&k, 0), 1));
    nest_append(k.n, k.threads, one[0]);
    if (fault != UNSEEN)
        nest_append(k.n, k.threads, nest_barrier(k.n));
    if (fault != UNASKED)
        nest_append(k.n, one[1], nest_bulk(k.n, k.tile, number(&k, 0), &box, gates, number(&k, 0)));
    nest_append(k.n, k.threads, one[1]);
    NestNode *in = k.threads;
    if (fault == UNMET) {
        in = nest_loop(k.n, "some", THREADS - 1);
        nest_bind(in, k.thread);
        nest_append(k.n, k.threads, in);
    }
    if (fault != UNAWAITED)
        nest_append(k.n, in, nest_pass(k.n, gates, number(&k, 0), number(&k, fault == OTHER_TURN)));
    store(&k, k.threads, 1, k.i, load(&k, k.tile, k.thread));
    if (fault == REUSED) {
        nest_append(k.n, one[2], nest_bulk(k.n, k.tile, number(&k, 0), &box, gates, number(&k, 0)));
        nest_append(k.n, k.threads, one[2]);
    }
    const char *wrong = run(&k);
    if (fault) {
        CHECK(says(wrong, word));
        return;
    }
    bool good = CHECK(!wrong);
    for (int i = 0; i < N && good; i++) {
        /* The other row's parts of 16 bytes are exchanged; the last block's is outside. */
        int row = i / 32, from = (row + 1) * 32 + (row % 2 ? i % 32 ^ 4 : i % 32);
        good = CHECK(k.out[i] == (from < N ? k.in[from] : 0));
    }
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    arena_init(&arena, &cx.limits);
    test_tile(true);
    test_tile(false);
    test_reuse(true);
    test_reuse(false);
    test_blocks();
    test_sum_of_warps();
    test_some_threads();
    test_places();
    test_sizes();
    test_matrices(true, true);
    test_matrices(false, true);
    test_matrices(true, false);
    test_boxes(NONE, NULL);
    test_boxes(NARROW, "a box is not one that comes by itself");
    test_boxes(ODD, "a box is not one that comes by itself");
    test_boxes(UNOPENED, "a gate was never made one");
    test_boxes(UNSEEN, "two threads touch the same place");
    test_boxes(UNASKED, "threads wait for boxes that nobody asked for");
    test_boxes(BY_ALL, "more boxes come to a gate than it waits for");
    test_boxes(UNMET, "threads that do not come meet others");
    test_boxes(UNAWAITED, "a copy is touched before it has arrived");
    test_boxes(OTHER_TURN, "threads wait for boxes that nobody asked for");
    test_boxes(REUSED, "two threads touch the same place");
    ctx_deinit(&cx);
    arena_deinit(&arena);
    return check_done();
}
