#define _GNU_SOURCE 1
#include "runtime/cpu.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__) && defined(__linux__)
#include <cpuid.h>
#include <sys/syscall.h>
#endif

const char *cpu_limit(void)
{
    const char *cpu = getenv("RELAY_CPU");
    return cpu && *cpu ? cpu : NULL;
}

bool cpu_is_limited(const char *to)
{
    return cpu_limit() && !strcmp(cpu_limit(), to);
}

size_t cpu_vector_bytes(void)
{
    bool widest = false;
#if defined(__x86_64__)
    widest = !cpu_is_limited("avx2") && __builtin_cpu_supports("avx512f");
#endif
    return widest ? 64 : 32;
}

static bool has_matrices;

static void ask_for_matrices(void)
{
#if defined(__x86_64__) && defined(__linux__)
    enum { LET_USE = 0x1023, TILES = 18 }; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */
    const unsigned wanted = 1u << 24 | 1u << 25; /* tiles, and products of bytes */
    unsigned a, b, c, d;
    has_matrices = !cpu_limit() && cpu_vector_bytes() == 64 &&
                   __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d & wanted) == wanted &&
                   syscall(SYS_arch_prctl, LET_USE, TILES) == 0;
#endif
}

bool cpu_has_matrices(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_matrices);
    return has_matrices;
}

size_t cpu_second_cache(void)
{
    long bytes = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}
