/* Programs with one mistake, each certain: no such program may be accepted. */
#ifndef TESTS_RANDOM_MISTAKES_H
#define TESTS_RANDOM_MISTAKES_H

#include "base/buf.h"

#include <stdint.h>

/* Changes one token of a program's text, chosen by the seed; what was done, or NULL when the kind of mistake that the seed chose has no
 * place in it. The text shows the types. */
const char *make_mistake(Buf *text, uint64_t seed);

#endif
