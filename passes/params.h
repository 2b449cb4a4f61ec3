/* What parameters of passes name must be there. */
#ifndef PASSES_PARAMS_H
#define PASSES_PARAMS_H

#include "passes/pass.h"

/* Whether all that the written parameters name is there: in the program `m` or around it, or in the tables; reports what is not. */
bool params_name_what_is(const PassContext *pc, const Pass *pass, const Module *m,
                         const Attrs *written);

#endif
