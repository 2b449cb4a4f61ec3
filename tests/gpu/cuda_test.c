/* The driver's side of device memory and launches (runtime/cuda.h), on the stand-in: values there and back, memory that is kept and
 * given back, every failure of every call, and interrupts. */
#include "runtime/cuda.h"
#include "tests/unit/check.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static const char twice[] = ".version 8.0\n.target sm_90\n.address_size 64\n"
                            ".visible .entry twice(.param .u64 x)\n{\n"
                            "    .reg .b32 %r<3>;\n    .reg .f32 %f<3>;\n    .reg .b64 %d<3>;\n"
                            "    ld.param.u64 %d1, [x];\n    mov.u32 %r1, %tid.x;\n"
                            "    mul.wide.u32 %d2, %r1, 4;\n    add.s64 %d1, %d1, %d2;\n"
                            "    ld.global.f32 %f1, [%d1];\n    add.rn.f32 %f1, %f1, %f1;\n"
                            "    st.global.f32 [%d1], %f1;\n    ret;\n}\n";

typedef struct World {
    Limits limits;
    Diags diags;
    Buf why;
    Cuda *c;
} World;

static void world_open(World *w)
{
    *w = (World){0};
    limits_init(&w->limits, NULL);
    diags_init(&w->diags, NULL);
    w->limits.diags = &w->diags;
    limits_start(&w->limits);
    w->c = cuda_open(&w->limits, &w->diags, &w->why);
}

static void world_close(World *w)
{
    cuda_close(w->c);
    CHECK(w->limits.memory == 0);
    buf_deinit(&w->why);
    diags_deinit(&w->diags);
    limits_deinit(&w->limits);
}

typedef struct Launching {
    Cuda *c;
    const CudaLaunch *launch;
} Launching;

static bool launches(void *data)
{
    const Launching *l = data;
    return cuda_launch(l->c, l->launch);
}

/* Doubles numbers on the card, the second time by what was noted. Asks for more shared memory than is usual, so that every entry is called. */
static bool run(World *w, float *x, int n)
{
    Cuda *c = w->c;
    size_t bytes = (size_t)n * sizeof *x;
    uint32_t shared = 60 * 1024;
    CudaBlock block = {0};
    CudaModule *m = NULL;
    CudaGraph *graph = NULL;
    bool ok = cuda_begin(c, &w->diags, (Span){0}) && cuda_take(c, bytes, &block) &&
              cuda_fill(c, block.at, 0, bytes) && cuda_write(c, block.at, x, bytes);
    m = ok ? cuda_load(c, twice) : NULL;
    void *kernel = m ? cuda_kernel(c, m, "twice", shared) : NULL;
    void *values[] = {&block.at};
    CudaLaunch launch = {.kernel = kernel,
                         .name = "twice",
                         .grid = {1, 1, 1},
                         .block = {1, 1, 1},
                         .shared = shared,
                         .values = values};
    launch.block[0] = (uint32_t)n;
    ok = kernel && cuda_clock_begin(c) && cuda_launch(c, &launch) && cuda_clock_end(c);
    graph = ok ? cuda_record(c, launches, &(Launching){c, &launch}) : NULL;
    ok = graph && cuda_replay(c, graph) && cuda_read(c, x, block.at, bytes);
    CudaWork work = cuda_work(c);
    ok = ok && work.seconds >= 0 && work.to >= (double)bytes && work.from == (double)bytes;
    cuda_graph_free(c, graph);
    cuda_unload(c, m);
    cuda_give(c, &block);
    return ok;
}

static bool right(World *w)
{
    float x[5] = {1, 2, 3, 4, 5};
    return run(w, x, 5) && x[0] == 4 && x[4] == 20;
}

static void test_values(void)
{
    World w;
    world_open(&w);
    if (!CHECK(w.c != NULL)) {
        printf("%s\n", buf_text(&w.why));
        return;
    }
    CHECK_TEXT(cuda_info(w.c)->name, "stand-in");
    CHECK(cuda_info(w.c)->major == 9 && cuda_info(w.c)->shared == 227 * 1024);
    CHECK(right(&w) && right(&w));
    world_close(&w);
}

static void test_memory(void)
{
    World w;
    CudaBlock a, b, other;
    size_t used, kept;
    world_open(&w);
    CHECK(cuda_begin(w.c, &w.diags, (Span){0}));
    CHECK(cuda_take(w.c, 3000, &a) && cuda_take(w.c, 3000, &b) && a.at != b.at && a.at % 256 == 0);
    cuda_memory(w.c, &used, &kept);
    CHECK(used == 6144 && kept == 0 && w.limits.memory == used);
    uint64_t at = a.at;
    cuda_give(w.c, &a);
    CHECK(a.at == 0);
    cuda_give(w.c, &a);
    CHECK(cuda_take(w.c, 2900, &other) && other.at == at);
    cuda_give(w.c, &other);
    cuda_give(w.c, &b);
    cuda_memory(w.c, &used, &kept);
    CHECK(used == 0 && kept == 6144);
    /* What is kept is given back before there is none left. */
    setenv("STANDIN_MEMORY", "9000", 1);
    CHECK(cuda_take(w.c, 8000, &a));
    CHECK(!cuda_take(w.c, 8000, &b) && w.diags.n == 1 &&
          w.diags.first->code == E0409_DEVICE_MEMORY);
    cuda_give(w.c, &a);
    unsetenv("STANDIN_MEMORY");
    w.limits.memory_most = 1000;
    CHECK(!cuda_take(w.c, 8000, &a) && w.limits.hit == LIMIT_MEMORY);
    world_close(&w);
}

/* Each call fails once, in some ways. The work fails then, and is right the next time. */
static void test_failures(void)
{
    static const int codes[] = {1, 2, 100, 201, 218, 700, 719, 999};
    int failed = 0;
    for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
        for (int nth = 1;; nth++) {
            char text[32];
            World w;
            snprintf(text, sizeof text, "*:%d:%d", nth, codes[k]);
            setenv("STANDIN_FAIL", text, 1);
            world_open(&w);
            bool fine = w.c && right(&w);
            bool said = w.c ? w.diags.errors > 0 : w.why.n > 0;
            unsetenv("STANDIN_FAIL");
            if (!CHECK(fine != said || (!w.c && said)))
                printf("%s: %s\n", text, fine ? "an error that was none" : "no word");
            if (!fine)
                failed++;
            if (w.c && !CHECK(right(&w)))
                printf("%s: not right behind it\n", text);
            world_close(&w);
            if (fine && nth > 60)
                break;
        }
    CHECK(failed > 100);
}

static void test_lost(void)
{
    World w;
    CudaBlock block;
    world_open(&w);
    uint32_t generation = cuda_generation(w.c);
    CHECK(cuda_begin(w.c, &w.diags, (Span){0}) && cuda_take(w.c, 100, &block));
    setenv("STANDIN_FAIL", "cuEventQuery:1:700", 1);
    CHECK(!cuda_wait(w.c));
    unsetenv("STANDIN_FAIL");
    CHECK(cuda_generation(w.c) != generation && w.diags.n == 1);
    CHECK(w.diags.first->code == E0408_DRIVER && w.diags.first->notes != NULL);
    cuda_give(w.c, &block);
    CHECK(right(&w));
    /* Also where something is given back. */
    generation = cuda_generation(w.c);
    setenv("STANDIN_FAIL", "cuGraphExecDestroy:1:700", 1);
    CHECK(right(&w) && cuda_generation(w.c) != generation);
    unsetenv("STANDIN_FAIL");
    CHECK(right(&w));
    world_close(&w);
}

static void test_absent(void)
{
    World w;
    setenv("STANDIN_DEVICES", "0", 1);
    world_open(&w);
    CHECK(!w.c);
    CHECK_TEXT(buf_text(&w.why), "the driver finds no card");
    world_close(&w);
    unsetenv("STANDIN_DEVICES");
}

static void *interrupt(void *limits)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    atomic_store(&((Limits *)limits)->interrupted, true);
    return NULL;
}

/* Work that never ends gives the prompt back, and what comes behind it waits until it is done. */
static void test_interrupt(void)
{
    World w;
    pthread_t thread;
    world_open(&w);
    for (int i = 0; i < 2; i++) {
        setenv("STANDIN_BUSY", "-1", 1);
        pthread_create(&thread, NULL, interrupt, &w.limits);
        CHECK(!right(&w) && w.limits.hit == LIMIT_INTERRUPT);
        pthread_join(thread, NULL);
        diags_clear(&w.diags);
        limits_start(&w.limits);
    }
    setenv("STANDIN_BUSY", "3", 1);
    CHECK(right(&w));
    unsetenv("STANDIN_BUSY");
    world_close(&w);
}

int main(void)
{
    test_values();
    test_memory();
    test_failures();
    test_lost();
    test_absent();
    test_interrupt();
    return check_done();
}
