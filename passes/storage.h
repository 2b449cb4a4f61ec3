/* What passes about memory share. */
#ifndef PASSES_STORAGE_H
#define PASSES_STORAGE_H

#include "passes/pass.h"

/* The type `Storage` of the module, which has no values of its own; made where there is none. */
const TypeDef *storage_type(PassRun *run);
/* How many bytes the tensors of a type take; 0 where that is not known. */
int64_t storage_bytes(const Type *t);

#endif
