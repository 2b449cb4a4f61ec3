#define _GNU_SOURCE 1
#include "runtime/blas.h"

#include "base/buf.h"
#include "base/guard.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "runtime/pool.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include <cblas.h>

struct Blas {
    const Limits *limits;   /* asked between blocks; NULL: nothing is */
    int threads;            /* wanted; 0: as many as the library thinks */
    bool opened;            /* tried */
    void *library;          /* NULL: plain loops */
    Buf error;
    const char *asked;
    __typeof__(cblas_sgemm) *sgemm;
    __typeof__(cblas_dgemm) *dgemm;
    __typeof__(cblas_sgemv) *sgemv;
    __typeof__(cblas_dgemv) *dgemv;
    __typeof__(openblas_set_num_threads) *set_threads;
    __typeof__(openblas_get_corename) *core;
    __typeof__(openblas_get_config) *config;
};

static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};

Blas *blas_new(int threads, const Limits *limits)
{
    Blas *b = memory_zeroed(1, sizeof *b);
    if (!b)
        return NULL;
    b->threads = threads;
    b->limits = limits;
    return b;
}

/* The library stays open: its threads cannot be ended. */
void blas_free(Blas *b)
{
    if (!b)
        return;
    buf_deinit(&b->error);
    free(b);
}

/* The core whose kernels fit this processor: those of older lists fall back to SSE on one that they
 * do not know. NULL where there is nothing to correct. */
static const char *core_of_this_machine(void)
{
#if defined(__x86_64__)
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                  __builtin_cpu_supports("avx512cd");
    if (avx512)
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return __builtin_cpu_is("amd") ? "Zen" : "Haswell";
#endif
    return NULL;
}

/* A function of the library, written to where its pointer stands; POSIX lets a data pointer hold
 * it. */
static bool find(Blas *b, const char *name, void *to)
{
    void *symbol = dlsym(b->library, name);
    if (!symbol) {
        buf_printf(&b->error, "%s does not have `%s`", names[0], name);
        return false;
    }
    memcpy(to, &symbol, sizeof symbol);
    return true;
}

static bool find_all(Blas *b)
{
    return find(b, "cblas_sgemm", &b->sgemm) && find(b, "cblas_dgemm", &b->dgemm) &&
           find(b, "cblas_sgemv", &b->sgemv) && find(b, "cblas_dgemv", &b->dgemv) &&
           find(b, "openblas_set_num_threads", &b->set_threads) &&
           find(b, "openblas_get_corename", &b->core) && find(b, "openblas_get_config", &b->config);
}

/* ---- memory of the library ------------------------------------------------------------------------------------------------------
 *
 * OpenBLAS keeps a buffer for each thread that is in it at once. Where the system has none to give it asks again, for ever. So nobody
 * enters before that much is there: products go the plain way meanwhile. */

/* Addresses that a buffer takes where the library has kernels for many processors, and what it takes to load. */
#define BUFFER ((size_t)128 << 20)
#define LIBRARY ((size_t)64 << 20)

/* Threads in the library: the process's, as the library is. */
static atomic_int inside;

static bool is_room(size_t n)
{
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p != MAP_FAILED && munmap(p, n) == 0;
}

/* The first has a buffer since the library was loaded. False: there is no memory for one. */
static bool enter(void)
{
    int others = atomic_fetch_add(&inside, 1);
    if (others == 0 || is_room(LIBRARY + (size_t)others * BUFFER))
        return true;
    atomic_fetch_sub(&inside, 1);
    return false;
}

static void leave(void)
{
    atomic_fetch_sub(&inside, 1);
}

/* ---- loading ------------------------------------------------------------------------------------------------------------------- */

/* Sessions in several threads load it one after the other. */
static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;

/* Large enough for all threads, and for the kernels that want a buffer. */
enum { FIRST = 256 };

/* The library's own threads get their buffers in a product that they share. */
static void use_threads(Blas *b, int threads)
{
    static const float zeros[FIRST * FIRST];
    static float out[FIRST * FIRST];
    if (threads > 0)
        b->set_threads(threads);
    b->sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, FIRST, FIRST, FIRST, 1, zeros, FIRST, zeros,
             FIRST, 0, out, FIRST);
}

static size_t room_for(int threads)
{
    return LIBRARY + (size_t)(threads > 0 ? threads : pool_cores()) * BUFFER;
}

/* The library reads its settings while it loads and nowhere else. What the person has set stays. */
static void load(void *data)
{
    Blas *b = data;
    const char *core = getenv("OPENBLAS_CORETYPE");
    b->asked = core ? core : core_of_this_machine();
    bool set_core = !core && b->asked;
    bool set_threads = b->threads > 0 && !getenv("OPENBLAS_NUM_THREADS");
    Buf threads = {0};
    buf_int(&threads, b->threads);
    if (set_core)
        setenv("OPENBLAS_CORETYPE", b->asked, 0);
    if (set_threads)
        setenv("OPENBLAS_NUM_THREADS", buf_text(&threads), 0);
    b->library =
        library_open(names, sizeof names / sizeof names[0], RTLD_NOW | RTLD_LOCAL, &b->error);
    if (set_core)
        unsetenv("OPENBLAS_CORETYPE");
    if (set_threads)
        unsetenv("OPENBLAS_NUM_THREADS");
    buf_deinit(&threads);
    if (!b->library)
        return;
    buf_clear(&b->error);
    if (!find_all(b)) {
        dlclose(b->library);
        b->library = NULL;
        return;
    }
    use_threads(b, b->threads);
}

static const char last_words[] = "relay: the system gives no more memory for OpenBLAS\n";
/* Seconds of processor time after which a library that loads is taken to ask for memory for ever. */
#define PATIENCE 3

static atomic_bool loads;

static void on_exit_of_process(void)
{
    if (atomic_load(&loads))
        memory_end(last_words);
}

static void watch_exit(void)
{
    atexit(on_exit_of_process);
}

static void on_time(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    if (info->si_code == SI_TIMER && info->si_value.sival_ptr == &loads)
        memory_end(last_words);
}

/* Memory may be gone in the midst of it after all. What the library is built on then ends the process, calls itself until the stack is
 * used up, or asks for ever: in each case this is said. */
static void load_with_care(Blas *b)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_exit);
    struct sigaction before, ours = {.sa_sigaction = on_time, .sa_flags = SA_SIGINFO};
    struct sigevent event = {
        .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGVTALRM, .sigev_value.sival_ptr = &loads};
    timer_t timer;
    pthread_mutex_lock(&loading);
    sigaction(SIGVTALRM, &ours, &before);
    bool timed = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer) == 0;
    if (timed)
        timer_settime(timer, 0, &(struct itimerspec){.it_value = {.tv_sec = PATIENCE}}, NULL);
    atomic_store(&loads, true);
    if (guard_death(load, b) != 0)
        memory_end(last_words);
    atomic_store(&loads, false);
    if (timed)
        timer_delete(timer);
    sigaction(SIGVTALRM, &before, NULL);
    pthread_mutex_unlock(&loading);
}

static bool ready(Blas *b)
{
    if (!b)
        return false;
    if (b->opened)
        return b->library != NULL;
    if (!is_room(room_for(b->threads))) {
        buf_clear(&b->error);
        buf_str(&b->error, "the system has not enough memory for it");
        return false;
    }
    b->opened = true;
    load_with_care(b);
    return b->library != NULL;
}

void blas_set_threads(Blas *b, int threads)
{
    bool more = b && b->library && threads > b->threads;
    if (!b || (more && !is_room(room_for(threads))))
        return;
    b->threads = threads;
    pthread_mutex_lock(&loading);
    if (more)
        use_threads(b, threads);
    else if (b->library && threads > 0)
        b->set_threads(threads);
    pthread_mutex_unlock(&loading);
}

const char *blas_core(Blas *b)
{
    return ready(b) ? b->core() : NULL;
}

const char *blas_core_asked(Blas *b)
{
    ready(b);
    return b ? b->asked : NULL;
}

const char *blas_config(Blas *b)
{
    return ready(b) ? b->config() : NULL;
}

const char *blas_error(Blas *b)
{
    ready(b);
    return b && b->error.n > 0 ? buf_text(&b->error) : NULL;
}

/* The library counts in int, and demands a leading dimension even where there is one row only. */
static bool fits(int64_t m, int64_t n, int64_t k, int64_t lda, int64_t ldb, int64_t ldc)
{
    return m <= INT_MAX && n <= INT_MAX && k <= INT_MAX && lda <= INT_MAX && ldb <= INT_MAX &&
           ldc <= INT_MAX;
}

static int64_t leading(int64_t given, int64_t columns)
{
    int64_t least = columns > 1 ? columns : 1;
    return given > least ? given : least;
}

static CBLAS_TRANSPOSE op(bool transposed)
{
    return transposed ? CblasTrans : CblasNoTrans;
}

/* The same without the library. The middle loop runs over the rows of op(B), so that the innermost
 * one goes along rows of C. A beta of zero does not read C. */
#define PLAIN_GEMM(name, type)                                                                     \
    static void name(bool ta, bool tb, int64_t m, int64_t n, int64_t k, type alpha, const type *a, \
                     int64_t lda, const type *bb, int64_t ldb, type beta, type *c, int64_t ldc)    \
    {                                                                                              \
        for (int64_t i = 0; i < m; i++) {                                                          \
            type *row = c + i * ldc;                                                               \
            for (int64_t j = 0; j < n; j++)                                                        \
                row[j] = beta == 0 ? 0 : beta * row[j];                                            \
            for (int64_t p = 0; p < k; p++) {                                                      \
                type x = alpha * (ta ? a[p * lda + i] : a[i * lda + p]);                           \
                const type *from = tb ? bb + p : bb + p * ldb;                                     \
                int64_t step = tb ? ldb : 1;                                                       \
                for (int64_t j = 0; j < n; j++)                                                    \
                    row[j] += x * from[j * step];                                                  \
            }                                                                                      \
        }                                                                                          \
    }
PLAIN_GEMM(plain_sgemm, float)
PLAIN_GEMM(plain_dgemm, double)
#undef PLAIN_GEMM

/* A product with a single row or column. The library would copy the matrix first and then use it
 * once. */
#define VECTOR_GEMM(name, gemv, type)                                                           \
    static void name(Blas *b, bool ta, bool tb, int m, int n, int k, type alpha, const type *a, \
                     int lda, const type *bb, int ldb, type beta, type *c, int ldc)             \
    {                                                                                           \
        if (m == 1)                                                                             \
            b->gemv(CblasRowMajor, op(!tb), tb ? n : k, tb ? k : n, alpha, bb, ldb, a,          \
                    ta ? lda : 1, beta, c, 1);                                                  \
        else                                                                                    \
            b->gemv(CblasRowMajor, op(ta), ta ? k : m, ta ? m : k, alpha, a, lda, bb,           \
                    tb ? 1 : ldb, beta, c, ldc);                                                \
    }
VECTOR_GEMM(vector_sgemm, sgemv, float)
VECTOR_GEMM(vector_dgemm, dgemv, double)
#undef VECTOR_GEMM

/* ---- in blocks -------------------------------------------------------------------------------------------------------------------- */

typedef struct Extents {
    int64_t m, n, k;
} Extents;

/* What is done between two looks at the limits, in products of two numbers: some hundredths of a second. Moving an element costs as
 * much as some products. */
#define WORK_SINGLE ((int64_t)5 << 28)
#define WORK_DOUBLE ((int64_t)5 << 27)
#define WORK_PLAIN ((int64_t)1 << 25)
#define MOVE 16

static bool is_too_much(Extents e, int64_t most)
{
    double work = (double)e.m * (double)e.n * (double)e.k;
    double moves =
        (double)e.m * (double)e.k + (double)e.k * (double)e.n + (double)e.m * (double)e.n;
    return work + MOVE * moves > (double)most;
}

/* Rows and columns are cut first: that changes no sum. Below so many of both the library gets slow, and the sums are cut. */
enum { NARROW = 512, STEP = 64 };

static Extents block_of(Extents e, int64_t most)
{
    while (is_too_much(e, most)) {
        int64_t *cut = e.m >= e.n ? &e.m : &e.n;
        if (*cut <= NARROW)
            cut = &e.k;
        *cut = (*cut / 2 + STEP - 1) / STEP * STEP;
    }
    return e;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The sums of one block after the other; false behind the last. */
static bool next_block(Extents *at, Extents part, Extents all)
{
    at->k += part.k;
    if (at->k < all.k)
        return true;
    at->k = 0;
    at->n += part.n;
    if (at->n < all.n)
        return true;
    at->n = 0;
    at->m += part.m;
    return at->m < all.m;
}

#define GEMM(name, type, plain, vector, gemm, work)                                               \
    void name(Blas *b, bool ta, bool tb, int64_t m, int64_t n, int64_t k, type alpha,             \
              const type *a, int64_t lda, const type *bb, int64_t ldb, type beta, type *c,        \
              int64_t ldc)                                                                        \
    {                                                                                             \
        if (m <= 0 || n <= 0)                                                                     \
            return;                                                                               \
        bool fast = k > 0 && fits(m, n, k, lda, ldb, ldc) && ready(b);                            \
        bool slow = !fast || !enter();                                                            \
        int64_t la = slow ? lda : leading(lda, ta ? m : k);                                       \
        int64_t lb = slow ? ldb : leading(ldb, tb ? k : n), lc = slow ? ldc : leading(ldc, n);    \
        Extents part = block_of((Extents){m, n, k > 0 ? k : 1}, slow ? WORK_PLAIN : work);        \
        Extents at = {0, 0, 0};                                                                   \
        do {                                                                                      \
            if (b && b->limits && limit_waits(b->limits))                                         \
                break;                                                                            \
            int64_t mm = least(part.m, m - at.m), nn = least(part.n, n - at.n);                   \
            int64_t kk = least(part.k, k - at.k);                                                 \
            const type *x = a + (ta ? at.k * la + at.m : at.m * la + at.k);                       \
            const type *y = bb + (tb ? at.n * lb + at.k : at.k * lb + at.n);                      \
            type *z = c + at.m * lc + at.n, plus = at.k > 0 ? 1 : beta;                           \
            if (slow)                                                                             \
                plain(ta, tb, mm, nn, kk, alpha, x, la, y, lb, plus, z, lc);                      \
            else if (mm == 1 || nn == 1)                                                          \
                vector(b, ta, tb, (int)mm, (int)nn, (int)kk, alpha, x, (int)la, y, (int)lb, plus, \
                       z, (int)lc);                                                               \
            else                                                                                  \
                b->gemm(CblasRowMajor, op(ta), op(tb), (int)mm, (int)nn, (int)kk, alpha, x,       \
                        (int)la, y, (int)lb, plus, z, (int)lc);                                   \
        } while (next_block(&at, part, (Extents){m, n, k}));                                      \
        if (!slow)                                                                                \
            leave();                                                                              \
    }
GEMM(blas_sgemm, float, plain_sgemm, vector_sgemm, sgemm, WORK_SINGLE)
GEMM(blas_dgemm, double, plain_dgemm, vector_dgemm, dgemm, WORK_DOUBLE)
#undef GEMM
