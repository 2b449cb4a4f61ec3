/* Products of matrices, with OpenBLAS and without, against the plainest sum; and loops on worker threads. */
#include "base/limit.h"
#include "check.h"
#include "runtime/blas.h"
#include "runtime/pool.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define MOST 24

static uint32_t state = 1;

static double next_random(void)
{
    state = state * 1664525 + 1013904223;
    return (double)(state >> 8) / (1 << 23) - 1;
}

static void compare(Blas *b, bool ta, bool tb, int m, int n, int k, double beta)
{
    float a[MOST * MOST], bb[MOST * MOST], c[MOST * MOST], before[MOST * MOST];
    double da[MOST * MOST], db[MOST * MOST], dc[MOST * MOST];
    for (int i = 0; i < MOST * MOST; i++) {
        da[i] = a[i] = (float)next_random();
        db[i] = bb[i] = (float)next_random();
        /* What beta = 0 must not read. */
        before[i] = c[i] = beta == 0 ? NAN : (float)next_random();
        dc[i] = before[i];
    }
    blas_sgemm(b, ta, tb, m, n, k, 0.5f, a, MOST, bb, MOST, (float)beta, c, MOST);
    blas_dgemm(b, ta, tb, m, n, k, 0.5, da, MOST, db, MOST, beta, dc, MOST);
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int p = 0; p < k; p++)
                sum += da[ta ? p * MOST + i : i * MOST + p] * db[tb ? j * MOST + p : p * MOST + j];
            sum = 0.5 * sum + (beta == 0 ? 0 : beta * (double)before[i * MOST + j]);
            CHECK(fabs(sum - (double)c[i * MOST + j]) < 1e-4);
            CHECK(fabs(sum - dc[i * MOST + j]) < 1e-12);
        }
    }
    CHECK(m == 0 || n == 0 || n == MOST || memcmp(&c[n], &before[n], sizeof(float)) == 0);
}

static void test_gemm(Blas *b)
{
    static const int sizes[] = {0, 1, 2, 5, 16, MOST};
    for (int i = 0; i < 6 * 6 * 6; i++) {
        for (int t = 0; t < 4; t++)
            compare(b, t & 1, t & 2, sizes[i % 6], sizes[i / 6 % 6], sizes[i / 36], t == 0 ? 0 : 2);
    }
    /* A single row may come with any stride. */
    float a[3] = {1, 2, 3}, bb[3] = {4, 5, 6}, c[1] = {0};
    blas_sgemm(b, false, false, 1, 1, 3, 1, a, 0, bb, 0, 0, c, 0);
    CHECK(c[0] == (b ? 32 : 24));
    blas_sgemm(b, false, false, 1, 1, 3, 1, a, 3, bb, 1, 0, c, 1);
    CHECK(c[0] == 32);
}

/* Without the library, products of this size go in several blocks along every axis. */
enum { M = 700, N = 530, K = 1100 };

static double element(int64_t i, int64_t j)
{
    return (double)((i * 7 + j * 13) % 11) - 5;
}

static void test_blocks(void)
{
    double *a = malloc(sizeof(double) * M * K), *bb = malloc(sizeof(double) * K * N);
    double *c = malloc(sizeof(double) * M * N);
    for (int t = 0; t < 4; t++) {
        bool ta = t & 1, tb = t & 2;
        for (int64_t i = 0; i < M * K; i++)
            a[i] = ta ? element(i % M, i / M) : element(i / K, i % K);
        for (int64_t i = 0; i < K * N; i++)
            bb[i] = tb ? element(i / K, i % K) : element(i % N, i / N);
        for (int64_t i = 0; i < M * N; i++)
            c[i] = 3;
        blas_dgemm(NULL, ta, tb, M, N, K, 1, a, ta ? M : K, bb, tb ? K : N, 2, c, N);
        for (int64_t i = 0; i < M * N; i += 1 + i % 97) {
            double sum = 6;
            for (int64_t k = 0; k < K; k++)
                sum += element(i / N, k) * element(i % N, k);
            CHECK(sum == c[i]);
        }
    }
    /* An interrupt that came before ends it at once. */
    Limits limits;
    limits_init(&limits, NULL);
    atomic_store(&limits.interrupted, true);
    Blas *b = blas_new(1, &limits);
    c[0] = 77;
    blas_dgemm(b, false, false, M, N, K, 1, a, K, bb, N, 0, c, N);
    CHECK(c[0] == 77);
    blas_free(b);
    limits_deinit(&limits);
    free(a);
    free(bb);
    free(c);
}

typedef struct Loop {
    Pool *pool;
    atomic_int *touched;
    atomic_int parts;
    bool nested;
    int64_t half;
    atomic_int across; /* parts that go across it */
    double *sums;
} Loop;

static void touch(void *data, int64_t from, int64_t to)
{
    Loop *l = data;
    atomic_fetch_add(&l->parts, 1);
    atomic_fetch_add(&l->across, l->half > from && l->half < to);
    if (l->nested) {
        Loop inner = {.touched = l->touched};
        pool_for(l->pool, to - from, 1, touch, &inner);
    }
    for (int64_t i = from; i < to && !l->nested; i++)
        atomic_fetch_add(&l->touched[i], 1);
}

static void test_pool(int threads)
{
    static atomic_int touched[10000];
    Pool *p = threads > 0 ? pool_new(threads) : NULL;
    CHECK(pool_threads(p) == (threads > 0 ? threads : 1));
    int parts_alone = 0;
    for (int64_t n = 0; n <= 10000; n = n * 3 + 1) {
        for (int64_t grain = 0; grain <= 1000; grain = grain * 10 + 1) {
            for (int64_t i = 0; i < n; i++)
                atomic_store(&touched[i], 0);
            Loop l = {.touched = touched}, alone = {.touched = touched};
            pool_for(p, n, grain, touch, &l);
            for (int64_t i = 0; i < n; i++)
                CHECK(touched[i] == 1);
            pool_for(NULL, n, grain, touch, &alone);
            CHECK(l.parts == alone.parts);
            parts_alone += alone.parts;
        }
    }
    CHECK(parts_alone > 100);
    for (int64_t i = 0; i < 10000; i++)
        atomic_store(&touched[i], 0);
    Loop outer = {.pool = p, .touched = touched, .nested = true};
    pool_for(p, 640, 10, touch, &outer);
    int sum = 0;
    for (int64_t i = 0; i < 10000; i++)
        sum += touched[i];
    CHECK(sum == 640);
    for (int i = 0; i < 3000; i++) {
        Loop l = {.touched = touched};
        pool_for(p, 8, 1, touch, &l);
        CHECK(l.parts == 8);
    }
    /* Some loops are of fewer parts than threads, so that a share is not looked at in each of them. */
    for (int64_t i = 0; i < 3000; i++) {
        int64_t n = 2 + i % 97;
        for (int64_t k = 0; k < n; k++)
            atomic_store(&touched[k], 0);
        Loop l = {.touched = touched};
        pool_share(p, n, 1, touch, &l);
        for (int64_t k = 0; k < n; k++)
            CHECK(touched[k] == 1);
    }
    /* What two threads begin with are halves, however many parts there are. */
    for (int64_t n = 4; threads == 2 && n < 400; n += 14)
        for (int64_t grain = 1; grain <= n / 2; grain += 1 + grain / 4) {
            Loop l = {.touched = touched, .half = n / 2};
            pool_share(p, n, grain, touch, &l);
            CHECK(l.across == 0);
        }
    pool_free(p);
}

/* Addresses of this process, in bytes. */
static rlim_t addresses(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    CHECK(f && fscanf(f, "%lu", &pages) == 1);
    if (f)
        fclose(f);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Where there is too little memory for the library products go on without it, and it is used when there is more. */
static void test_want(Blas *b)
{
    struct rlimit before, little;
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    little = before;
    for (int k = 0; k < 2; k++) {
        little.rlim_cur = addresses() + ((rlim_t)100 << 20);
        CHECK(setrlimit(RLIMIT_AS, &little) == 0);
        compare(b, false, true, MOST, 5, 16, 2);
        CHECK(!blas_core(b) && strstr(blas_error(b), "memory"));
        CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    }
}

enum { SIDE = 200 };
static float ones[SIDE * SIDE];

/* Threads that are in the library at once have a buffer each, or do without. */
static void multiply_in_part(void *data, int64_t from, int64_t to)
{
    float *out = malloc(sizeof ones);
    for (int64_t i = from; i < to && out; i++) {
        blas_sgemm(data, false, false, SIDE, SIDE, SIDE, 1, ones, SIDE, ones, SIDE, 0, out, SIDE);
        CHECK(out[0] == SIDE && out[SIDE * SIDE - 1] == SIDE);
    }
    free(out);
}

static void test_threads_in_want(Blas *b)
{
    struct rlimit before, little;
    Pool *p = pool_new(4);
    for (int i = 0; i < SIDE * SIDE; i++)
        ones[i] = 1;
    pool_for(p, 4, 1, multiply_in_part, b);
    CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    little = before;
    little.rlim_cur = addresses() + ((rlim_t)20 << 20);
    CHECK(setrlimit(RLIMIT_AS, &little) == 0);
    pool_for(p, 64, 1, multiply_in_part, b);
    CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    pool_free(p);
}

int main(void)
{
    test_blocks();
    Blas *b = blas_new(2, NULL);
    /* A sanitizer takes all addresses there are. */
    bool limits = addresses() < (rlim_t)1 << 40;
    if (limits)
        test_want(b);
    test_gemm(b);
    test_gemm(NULL);
    if (blas_error(b))
        printf("without OpenBLAS: %s\n", blas_error(b));
    else
        CHECK(blas_core(b) && blas_config(b));
    blas_set_threads(b, 1);
    test_gemm(b);
    if (limits)
        test_threads_in_want(b);
    blas_free(b);
    test_pool(0);
    test_pool(1);
    test_pool(2);
    test_pool(7);
    pool_free(pool_new(3));
    return check_done();
}
