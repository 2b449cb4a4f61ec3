#include "runtime/cpu.h"

#include <stdbool.h>
#include <stdlib.h>

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
