/* The processor for which code is made and layouts are chosen. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include <stddef.h>

/* What code is limited to (the environment's RELAY_CPU); NULL: to what this processor has. */
const char *cpu_limit(void);
/* Of the widest register that code is made for. */
size_t cpu_vector_bytes(void);
/* Of the second cache, which a core has for itself; 1 MiB where the system does not say. */
size_t cpu_second_cache(void);

#endif
