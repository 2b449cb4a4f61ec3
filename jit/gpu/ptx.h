/* The kernels of a GPU as one text: LLVM's NVPTX back end translates what emit.c makes of the nests of sched/gpu.h. */
#ifndef JIT_GPU_PTX_H
#define JIT_GPU_PTX_H

#include "jit/gpu/program.h"
#include "jit/kernel.h"

typedef struct Ptx Ptx;

/* What a parameter of a kernel is to its program. */
typedef enum GpuOperandKind {
    GPU_INPUT,
    GPU_OUTPUT,
    GPU_SCRATCH, /* `offset` in memory of the program's own */
    GPU_FAULT,
} GpuOperandKind;

typedef struct GpuOperand {
    GpuOperandKind kind;
    int number; /* of the input or output */
    size_t offset, bytes; /* of scratch memory */
    const char *name;
    DType dtype;
} GpuOperand;

typedef struct GpuLaunch {
    DeviceKernel kernel;
    const GpuOperand *operands; /* one for each of its parameters */
} GpuLaunch;

/* How a program runs on the card; equal programs share it. */
typedef struct GpuCode {
    const char *why; /* what stands against kernels: it runs on the host; NULL: nothing */
    Vec(GpuLaunch) launches;
    size_t bytes; /* of scratch memory */
} GpuCode;

/* Cards that code can be made for, `sm_80` the first of them; ends with NULL. */
const char *ptx_target(int i);
/* An empty text for the target, one of these, which is part of what `g` makes. NULL after refusing. */
Ptx *ptx_open(Gen *g, const char *target);
void ptx_close(Ptx *ptx);
/* The program's kernels, made unless there are such; NULL after a diagnostic or refusing. */
const GpuCode *ptx_code(Ptx *ptx, const TeProgram *p, const KernelOrigin *from,
                        const KernelInput *known, const bool *loose);
/* The text; false after a diagnostic. Nothing can be added behind it. */
bool ptx_text(Ptx *ptx, Buf *out);
/* The same for the runs alone, which have it then. */
bool ptx_keep(Ptx *ptx);
const char *ptx_target_of(const Ptx *ptx);
Arena *ptx_arena(Ptx *ptx);
Ctx *ptx_ctx(Ptx *ptx);
/* How many kernels it has. */
uint32_t ptx_kernels(const Ptx *ptx);
/* The runs that launch its kernels: their text is filled in when there is one. */
void ptx_add_run(Ptx *ptx, DeviceProgram *run);
DeviceProgram *const *ptx_runs(const Ptx *ptx, size_t *n);

#endif
