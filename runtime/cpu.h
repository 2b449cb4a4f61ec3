/* The processor for which code is made and layouts are chosen. */
#ifndef RUNTIME_CPU_H
#define RUNTIME_CPU_H

#include <stdbool.h>
#include <stddef.h>

/* What code is limited to (the environment's RELAY_CPU): `avx2`, or `avx512` without registers of matrices; NULL: to what this processor
 * has. */
const char *cpu_limit(void);
/* Whether it is limited to that. */
bool cpu_is_limited(const char *to);
/* Of the widest register that code is made for. */
size_t cpu_vector_bytes(void);
/* Whether registers of matrices multiply bytes (AMX), and the system lets this process use them; it is asked once, for all threads. */
bool cpu_has_matrices(void);
/* Of the second cache, which a core has for itself; 1 MiB where the system does not say. */
size_t cpu_second_cache(void);

#endif
