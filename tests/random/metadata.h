/* Metadata for random programs. */
#ifndef TESTS_RANDOM_METADATA_H
#define TESTS_RANDOM_METADATA_H

#include "ir/module.h"

/* Functions and parameters get devices and objects of kinds that nobody knows, some of them by one object, and extents of parameters
 * become symbolic expressions. The module has no types behind this. */
void give_metadata(Ctx *cx, Module *m, uint64_t seed);

#endif
