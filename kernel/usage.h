/* What the kernel and its machine use up. */
#ifndef KERNEL_USAGE_H
#define KERNEL_USAGE_H

#include <jansson.h>

/* What was used up when it was asked last; zeroes: never. */
typedef struct Usage {
    double wall, cpu; /* seconds, of this process */
    double all, busy; /* ticks of the machine */
} Usage;

/* The content of a usage_reply; shares of time are those since the last one. */
json_t *usage_content(Usage *last);

#endif
