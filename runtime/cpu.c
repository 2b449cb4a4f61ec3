#include "runtime/cpu.h"

#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

const char *cpu_limit(void)
{
    const char *cpu = getenv("RELAY_CPU");
    return cpu && *cpu ? cpu : NULL;
}

size_t cpu_vector_bytes(void)
{
    bool widest = false;
#if defined(__x86_64__)
    widest = !cpu_limit() && __builtin_cpu_supports("avx512f");
#endif
    return widest ? 64 : 32;
}

size_t cpu_second_cache(void)
{
    long bytes = 0;
#if defined(_SC_LEVEL2_CACHE_SIZE)
    bytes = sysconf(_SC_LEVEL2_CACHE_SIZE);
#endif
    return bytes > 0 ? (size_t)bytes : (size_t)1 << 20;
}
