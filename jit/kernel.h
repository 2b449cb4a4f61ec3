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

/* A tensor that is made of known inputs once, when code is made. */
typedef struct Packed {
    const TeProgram *program;
    const Tensor **from; /* its inputs */
    int *input; /* the kernel's input that each of them is, or -1 */
} Packed;

/* A function void (state, inputs…, outputs…, block, packed…) for a program. */
typedef struct Kernel {
    uint64_t hash;
    const char *key; /* what it computes, with the numbers that are known */
    size_t len;
    Ssa fn;
    size_t bytes; /* of the block that it wants for itself */
    Vec(Packed) packed;
    bool fails; /* it may stop with an error */
} Kernel;

/* The kernel of the program, which equal programs of one module share, whatever their known tensors are. `hint` is part of its name.
 * NULL after refusing. */
Kernel *kernel_of(Gen *g, const TeProgram *p, const char *hint, Span span,
                  const KernelInput *known);
/* Packed tensor `i` of the kernel, called with these inputs; NULL after a diagnostic. */
Ssa kernel_packed(Gen *g, const Kernel *k, size_t i, const KernelInput *known);

#endif
