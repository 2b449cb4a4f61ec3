/* A tensor program as a function. */
#ifndef JIT_KERNEL_H
#define JIT_KERNEL_H

#include "jit/internal.h"
#include "te/te.h"

/* What is known of an input when code is made. */
typedef struct KernelInput {
    Ssa scalar; /* the value of a rank-0 input, or NULL */
    const Tensor *tensor; /* what another always is, or NULL */
} KernelInput;

/* A function void (state, inputs…, outputs…, scratch) for the program. Gives the bytes of scratch memory that it wants. NULL after
 * refusing. */
Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const KernelInput *known, size_t *scratch);

#endif
