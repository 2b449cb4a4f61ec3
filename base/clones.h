/* Functions that are compiled for several processors; which is called is decided when the program is loaded. */
#ifndef BASE_CLONES_H
#define BASE_CLONES_H

#include <limits.h> /* says which C library it is */

/* Sanitizers start too late for that. */
#if defined(__x86_64__) && defined(__GLIBC__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#define RELAY_HAS_CLONES 1
#else
#define CLONES
#endif

#endif
