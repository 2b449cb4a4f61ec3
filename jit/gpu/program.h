/* What a run on a GPU does, as data: the text of its kernels, the memory that it touches, and the steps in their order.
 *
 * The compiler makes it (ptx.c, from the nests that sched/ binds to a grid) and whoever runs it decides nothing: it loads `ptx` once, has
 * an address ready for each buffer, and takes the steps one after the other on one stream.
 *
 * Every parameter of a kernel is the address of a buffer on the device, a number's too (rank 0: one element), or the map of one, of which it
 * copies boxes. Addresses of arguments,
 * results and constants are multiples of DEVICE_ALIGN, and so is that of the block; elements lie row-major without gaps, truth values
 * as bytes of 0 and 1, 16-bit floats as they are. What a kernel reads was written by a step before it or comes from outside. */
#ifndef JIT_GPU_PROGRAM_H
#define JIT_GPU_PROGRAM_H

#include "runtime/cuda.h"
#include "te/te.h"

#define DEVICE_ALIGN ((size_t)256)

/* Where the memory of a buffer comes from. */
typedef enum DeviceHome {
    DEVICE_ARGUMENT, /* argument `number` of the run */
    DEVICE_RESULT, /* result `number`: new memory, which is the caller's behind the run */
    DEVICE_CONSTANT, /* the elements of `tensor`, brought to the device once */
    DEVICE_BLOCK, /* the run's own memory, of which nothing is left behind it */
    DEVICE_FAULT, /* one uint32, 0 when the run begins */
} DeviceHome;

typedef struct DeviceBuffer {
    const char *name; /* for readers */
    DeviceHome home;
    uint32_t number; /* of the argument or result */
    const Tensor *tensor; /* of a constant; row-major without gaps or not */
    size_t offset; /* where it begins, in bytes from its home's address */
    size_t bytes; /* not 0 but where a step on the host takes or makes a tensor without elements */
    DType dtype;
    int rank;
    const int64_t *shape;
} DeviceBuffer;

/* Whether it is an argument that comes as a number and not as a tensor. */
static inline bool device_is_number(const DeviceBuffer *b)
{
    return b->home == DEVICE_ARGUMENT && b->rank == 0;
}

#define DEVICE_BOXES_MOST 4

/* A parameter that is a map of its buffer. */
typedef struct DeviceBox {
    uint32_t parameter;
    CudaBox box;
} DeviceBox;

typedef struct DeviceKernel {
    const char *name; /* of the entry in the text */
    uint32_t grid[3], block[3]; /* x, y, z */
    uint32_t
        shared; /* bytes of dynamic shared memory; a kernel that wants more than 48 KiB must be told so (its attribute) */
    uint32_t n; /* parameters */
    uint32_t n_boxes;
    const DeviceBox *boxes; /* of those */
} DeviceKernel;

typedef enum DeviceAction {
    DEVICE_LAUNCH, /* the kernel */
    DEVICE_ON_HOST, /* the tensor program, by te_run: what it reads goes to the host, what it makes comes back */
} DeviceAction;

typedef struct DeviceStep {
    DeviceAction action;
    const char *name; /* of what it computes: `dense_add` */
    Span span; /* for messages */
    const DeviceKernel *kernel;
    const TeProgram *program;
    const char *why; /* ON_HOST: what stands against a kernel */
    uint32_t n;
    const uint32_t
        *buffers; /* one for each parameter; of a program first its inputs, then its outputs */
} DeviceStep;

/* What the number in the fault buffer, less 1, says behind a run: a message of te_fault. The run has no results then. */
typedef struct DeviceMessage {
    const char *fault;
    Span span;
} DeviceMessage;

typedef struct DeviceProgram {
    const char *target; /* `sm_90` */
    const char *ptx; /* one module with all kernels, ended by 0; "" without kernels */
    size_t ptx_bytes;
    uint32_t n_kernels;
    const DeviceKernel *kernels;
    uint32_t n_buffers;
    const DeviceBuffer *buffers;
    uint32_t n_steps;
    const DeviceStep *steps;
    uint32_t n_arguments, n_results;
    size_t block; /* bytes of the run's own memory */
    uint32_t n_messages; /* 0: nothing can fail, and there is no fault buffer */
    const DeviceMessage *messages;
} DeviceProgram;

#endif
