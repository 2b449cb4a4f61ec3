/* A tensor program as a function. */
#ifndef JIT_KERNEL_H
#define JIT_KERNEL_H

#include "jit/internal.h"
#include "te/te.h"

/* A function void (state, inputs…, outputs…, scratch) for the program. `constants[i]` is the value of a rank-0 input that is known
 * now, or NULL. Gives the bytes of scratch memory that it wants. NULL after refusing. */
Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const Ssa *constants, size_t *scratch);

#endif
