/* Tensor programs as functions, which are kept by what they compute.
 *
 * The kernels that one module of a unit makes are a batch: an object of its own, counted by the units that call one of them. Equal
 * programs are one kernel, across units: a cell that calls what another has compiled finds its kernels made. A few batches that nobody
 * counts are kept for what comes next. */
#ifndef JIT_KERNEL_H
#define JIT_KERNEL_H

#include "jit/internal.h"
#include "te/te.h"

/* What is known of an input when code is made. */
typedef struct KernelInput {
    const Value *number; /* a rank-0 input, or NULL */
    const Tensor *tensor; /* what another always is, or NULL */
} KernelInput;

/* A tensor that is made of known inputs once, when code is made. */
typedef struct Packed {
    const TeProgram *program;
    const Tensor **from; /* its inputs */
    int *input; /* the kernel's input that each of them is, or -1 */
} Packed;

/* A function void (state, inputs…, outputs…, block, packed…) for a program. */
typedef struct Kernel Kernel;
struct Kernel {
    Kernel *next; /* of the same hash */
    uint64_t hash;
    const char *key; /* what it computes, with the numbers that are known */
    size_t len;
    KernelBatch *batch;
    const char *symbol;
    uint32_t n_inputs, n_outputs;
    DType *numbers; /* by input: of a rank-0 one; others have no bits */
    bool *reads; /* by input: its elements are looked at, and not only what was made of it */
    size_t bytes; /* of the block that it wants for itself */
    Vec(Packed) packed;
    bool fails; /* it may stop with an error */
};

/* Where a kernel comes from, for readers. */
typedef struct KernelOrigin {
    const char *name; /* of what it computes: `dense_add` */
    Span span;
    const char *text; /* the expressions, in lines; wanted where the loops are shown */
    const char *const *names; /* of the inputs; NULL where nobody reads them */
} KernelOrigin;

/* The kernel of the program; equal programs share one, whatever their known tensors are. NULL after refusing. */
Kernel *kernel_of(Gen *g, const TeProgram *p, const KernelOrigin *from, const KernelInput *known);
/* The function, as this module sees it. */
Ssa kernel_function(Gen *g, const Kernel *k);
/* Packed tensor `i` of the kernel, called with these inputs; NULL after a diagnostic. */
Ssa kernel_packed(Gen *g, const Kernel *k, size_t i, const KernelInput *known);
/* A function that the kernels of a batch share. */
typedef struct Shared Shared;
struct Shared {
    Shared *next; /* of the same first half */
    uint64_t digest[2]; /* of all that it does */
    const char *name; /* NULL: it is to be made */
    bool polls, fails; /* as of Emit */
};

Shared *kernel_shared(Gen *g, const uint64_t digest[2]);

#endif
