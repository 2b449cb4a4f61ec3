/* The arrays of rows, one a family; each ends with a NULL name. */
#ifndef STDLIB_FAMILIES_H
#define STDLIB_FAMILIES_H

#include "ir/op.h"

#define FAMILY(name) extern const Op name##_ops[];
#include "stdlib/families.def"
#undef FAMILY

#endif
