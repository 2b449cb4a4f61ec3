/* Streams of numbers that are the same everywhere: each name has its own. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* The seed of a name's stream: FNV-1a, 64 bit (G. Fowler, L. C. Noll, K.-P. Vo). */
uint64_t random_seed(const char *name);
/* Element i of the stream of a seed: SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, 2014). */
uint64_t random_at(uint64_t seed, uint64_t i);

#endif
