/* A graphics card by its driver, `libcuda.so.1`, which is opened when it is first asked for: the same program runs with and without
 * one. A Cuda is the first card of this machine, with one stream on which all work follows in order.
 *
 *     Buf why = {0};
 *     Cuda *c = cuda_open(limits, diags, &why);            NULL: there is no card, and `why` says why
 *     CudaBlock x = {0};
 *     bool ok = cuda_begin(c, span) && cuda_take(c, bytes, &x) && cuda_write(c, x.at, data, bytes);
 *     …
 *     cuda_give(c, &x);
 *
 * What the driver reports becomes a diagnostic at the place that `cuda_begin` was told; the function gives false then. After an error
 * from which the driver's context cannot recover, the context is made anew: what lay on the card is gone, and `cuda_generation` has
 * moved. An interrupt or a limit ends the waiting, not the card's work: what comes next waits for that.
 *
 * Device memory comes from blocks that are kept for later use, and counts towards the limit of memory while it is in use. A block that
 * was given back may be taken again at once, since all work is done in order. One thread at a time. */
#ifndef RUNTIME_CUDA_H
#define RUNTIME_CUDA_H

#include "base/buf.h"
#include "base/diag.h"
#include "base/limit.h"

typedef struct Cuda Cuda;

typedef struct CudaInfo {
    char name[96];
    int driver; /* 13000: what CUDA version it knows */
    int devices;
    int major, minor; /* sm_90 */
    int processors;
    int clock; /* kHz */
    int memory_clock, bus; /* kHz, bits */
    size_t memory, cache;
    size_t shared; /* that a block can have */
    bool boxes; /* the driver makes maps of tensors */
} CudaInfo;

/* What is there, without a context: cheap. False when there is nothing, and `why` says what is missing in one line. */
bool cuda_find(CudaInfo *out, Buf *why);

/* The diagnostics and limits must outlive it. */
Cuda *cuda_open(Limits *limits, Diags *diags, Buf *why);
void cuda_close(Cuda *c); /* NULL is nothing */
const CudaInfo *cuda_info(const Cuda *c);
/* Moves when the context was made anew: addresses, modules and functions of before mean nothing any more. */
uint32_t cuda_generation(const Cuda *c);

/* Begins a piece of work for which diagnostics go to this list, with this place. Waits for what was interrupted. */
bool cuda_begin(Cuda *c, Diags *diags, Span span);
/* The place of what comes next. */
void cuda_place(Cuda *c, Span span);
/* Calls `settle` before memory of the card is read, written or given back to the driver or before work
 * is waited for: whoever holds launches back asks for them then. False after a diagnostic. */
void cuda_before(Cuda *c, bool (*settle)(void *data), void *data);
/* Until all work is done; false after a diagnostic, of a limit too. */
bool cuda_wait(Cuda *c);
/* What is asked for between these two is work whose time is taken, by device events. */
bool cuda_clock_begin(Cuda *c);
bool cuda_clock_end(Cuda *c);
/* What was done since this was last asked. */
typedef struct CudaWork {
    double seconds; /* of such work that was waited for */
    double to, from; /* bytes that went to the card, and that came back */
} CudaWork;
CudaWork cuda_work(Cuda *c);

/* ---- memory ----------------------------------------------------------------------------------------------------------------- */

typedef struct CudaBlock {
    uint64_t at; /* a multiple of 256; 0: none */
    size_t n;
    uint32_t generation;
} CudaBlock;

/* Whether the session's limit and the card have room for so many bytes more, as far as is known. */
bool cuda_has_room(Cuda *c, size_t n);
/* Fresh memory is not set to anything. */
bool cuda_take(Cuda *c, size_t n, CudaBlock *out);
/* Clears the block; one without memory, or of a context that is gone, is nothing. */
void cuda_give(Cuda *c, CudaBlock *block);
/* Gives back to the driver what nobody uses. */
void cuda_trim(Cuda *c);
/* Bytes in use, and bytes kept for later use. */
void cuda_memory(const Cuda *c, size_t *used, size_t *kept);

bool cuda_write(Cuda *c, uint64_t to, const void *from, size_t n);
/* Waits for all work that was asked for before. */
bool cuda_read(Cuda *c, void *to, uint64_t from, size_t n);
/* The same for many: behind a `cuda_wait`, and the elements are there behind the next one. */
bool cuda_copy_out(Cuda *c, void *to, uint64_t from, size_t n);
bool cuda_fill(Cuda *c, uint64_t at, uint8_t value, size_t n);

/* ---- code ------------------------------------------------------------------------------------------------------------------- */

typedef struct CudaModule CudaModule;

/* Takes PTX text, ended by 0, or what cuda_assemble made. NULL after a diagnostic. */
CudaModule *cuda_load(Cuda *c, const void *image);
/* Whether the driver gives machine code away. */
bool cuda_assembles(const Cuda *c);
/* Appends the machine code of PTX text, which is for this driver and cards of this kind. False after a diagnostic. */
bool cuda_assemble(Cuda *c, const char *ptx, Buf *out);
void cuda_unload(Cuda *c, CudaModule *m); /* NULL is nothing */
/* A kernel that will be launched with so many bytes of dynamic shared memory; NULL after a diagnostic. */
void *cuda_kernel(Cuda *c, CudaModule *m, const char *name, uint32_t shared);

#define CUDA_BOX_AXES 5

/* A tensor on the card of which kernels copy boxes to shared memory as they lie there, in rows of 128 bytes whose parts of 16 bytes are
 * exchanged (loop/nest.h). All in bytes but for extents and lengths; the first axis has neighbours. */
typedef struct CudaBox {
    uint64_t offset, element;
    uint32_t n;
    uint64_t extent[CUDA_BOX_AXES], step[CUDA_BOX_AXES];
    uint32_t length[CUDA_BOX_AXES]; /* of the box */
} CudaBox;

/* What a kernel is told of such a tensor: a parameter, by value. */
typedef struct CudaMap {
    _Alignas(64) uint64_t words[16];
} CudaMap;

/* Of the tensor that begins there. */
bool cuda_map(Cuda *c, uint64_t at, const CudaBox *box, CudaMap *out);

typedef struct CudaLaunch {
    void *kernel;
    const char *name; /* for messages */
    uint32_t grid[3], block[3], shared;
    void **values; /* where each of its parameters lies */
} CudaLaunch;

/* Asks for it; it ends behind the next `cuda_wait`. */
bool cuda_launch(Cuda *c, const CudaLaunch *l);

/* Launches that are asked for again and again, with the same values, as one. */
typedef struct CudaGraph CudaGraph;

/* What `launches` launches is noted, and does not begin. NULL after a diagnostic, from there or here. */
CudaGraph *cuda_record(Cuda *c, bool (*launches)(void *data), void *data);
bool cuda_replay(Cuda *c, const CudaGraph *g);
void cuda_graph_free(Cuda *c, CudaGraph *g); /* NULL is nothing */

#endif
