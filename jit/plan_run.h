/* What a run is made of: the calls of kernels, the tensors between them, and where these lie. */
#ifndef JIT_PLAN_RUN_H
#define JIT_PLAN_RUN_H

#include "jit/kernel.h"
#include "sched/memory.h"

/* A tensor of a run: an argument, or what a kernel makes. */
typedef struct Held Held;
struct Held {
    const Type *type;
    uint32_t input;     /* position in the plan's inputs + 1; 0: a kernel makes it */
    const Constant *constant; /* of a kernel's own */
    Held *in;           /* lies where this one does */
    int64_t from;       /* from this byte on */
    int by, last;       /* steps: the one that makes it, the last that reads it */
    bool needed;
    bool wanted;        /* behind the run */
    Held *result;       /* the wanted one whose tensor it lies in */
    size_t room;        /* its place in the run's memory + 1 */
    Ssa made;           /* once it is there: the tensor, or the number */
    Ssa at;             /* the address of its elements, or of the number */
    uint32_t owners; /* to which `made` is handed behind the run */
};

/* A variable whose value waits: a tensor, or a tuple of such. */
typedef struct Item Item;
struct Item {
    int n;              /* fields of a tuple; -1: one tensor */
    Item *fields;
    Held *tensor;
};

typedef struct Waiting {
    Let *let;
    const Type *type;
    Function *group;    /* what is called: in A normal form; NULL: an operator */
    Item *item;         /* once the run is planned */
} Waiting;

typedef struct Input {
    const Expr *atom;
    int field;          /* of a tuple; -1: the value itself */
    Held *tensor;
    Ssa value;          /* what a kernel gets: a scalar, or the tensor */
    Ssa held;           /* a tensor that is released after the run */
} Input;

/* The call of a kernel. */
typedef struct Step {
    const Waiting *w;
    TeBuilder b;
    Vec(Held *) in, out;
    Vec(TeTensor) made; /* what the program has for `out` */
    const char *name;
    KernelInput *known; /* by input */
    Kernel *kernel;     /* NULL: nothing is to be done */
    const struct GpuCode *device; /* the same for a GPU */
    const TeProgram *program;
    size_t room;        /* of its own memory + 1 */
} Step;

struct Plan {
    Vec(Waiting) lets;
    PtrMap index;       /* Var -> position in lets + 1 */
    PtrMap reads;       /* variables that what waits will read */
    PtrMap told; /* Var -> the Waiting that was bound to it, for the names of what is shown */
    size_t harmless; /* so many of them cannot fail */
    bool flushing;
    /* of the run that is made */
    Vec(Input) inputs;
    PtrMap arguments;   /* Var -> Item of inputs */
    Vec(Step *) steps;
    Vec(Held *) helds;  /* those that kernels make, in their order */
    Vec(MemoryNeed) needs;
    LLVMBasicBlockRef fail; /* where a kernel that failed goes */
};

/* The tensor that it lies in, which may be itself. */
static inline Held *held_place(Held *h)
{
    while (h->in)
        h = h->in;
    return h;
}

#endif
