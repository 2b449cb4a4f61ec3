/* The JIT: typed functions to machine code through LLVM ORC.
 *
 * The entry points are gathered in a table because the library behind them, and LLVM with it, is a plug-in that is opened on first use:
 * session/jit_plugin.c opens it and calls `relay_jit_table`. What the JIT cannot compile yet it says by name (W0701), and the evaluator
 * runs it. */
#ifndef JIT_JIT_H
#define JIT_JIT_H

#include "ir/content.h"
#include "ir/ctx.h"
#include "ir/module.h"
#include "runtime/cuda.h"

typedef struct Jit Jit;
typedef struct JitKey JitKey; /* what a definition is, for finding its code again */

typedef enum JitText {
    JIT_TEXT_LOWERED,
    JIT_TEXT_SCHEDULE, /* the nests alone, with what each costs */
    JIT_TEXT_LLVM,
    JIT_TEXT_ASM,
    JIT_TEXT_OBJECT,
    JIT_TEXT_PTX
} JitText;

/* A line of a text, counted from 0, and an expression that it was made of. A line may have several. */
typedef struct JitPlace {
    size_t line;
    Span span;
} JitPlace;

typedef struct JitPlaces {
    Arena *arena;
    Vec(JitPlace) all; /* by line */
} JitPlaces;

/* What the call of a kernel costs (sched/sched.h). */
typedef struct JitKernelCost {
    const char *name;
    double work, operations, bytes;
} JitKernelCost;

/* What a place of the code that calls a kernel took, in seconds. */
typedef struct JitClock {
    uint64_t calls;
    double least, all;
} JitClock;

/* What lies in memory while kernels [first, last] of a run are called, at an offset of its block. */
typedef struct JitRoom {
    int first, last;
    size_t offset, size;
} JitRoom;

typedef struct JitReport {
    Arena *arena;
    int vector_bytes;
    Vec(JitKernelCost) kernels; /* a call each */
    Vec(JitRoom) rooms; /* of the run that needs most */
    size_t block; /* the bytes of it */
} JitReport;

typedef struct JitTextWish {
    JitText kind;
    const char *
        target; /* the GPU that it or the loops are for, one of gpu_target; NULL: for PTX the card that was opened or the
                           first of them, this processor for all else */
    uint32_t n;
    const Value
        *args; /* of a call: the code is that for their shapes; NULL: for the shapes of the types */
    JitReport *report; /* receives what kernels cost; wanted of a schedule, and of nothing else */
    JitPlaces
        *places; /* receives those of the text: loops, LLVM IR and assembly; NULL: nobody asks */
} JitTextWish;

/* Kernels of compiled code: the calls of some, how many different ones, and how many of these were made for it. */
typedef struct JitCounts {
    uint32_t calls, kernels, made;
    bool kept; /* the code was there: another process made it, or this one for another cell */
} JitCounts;

/* What lies on the card, in bytes. */
typedef struct JitDevice {
    size_t used, kept; /* all in use; for later use */
    size_t twins; /* values, */
    size_t twin_bytes; /* of `used` */
} JitDevice;

typedef struct JitMode {
    bool exact; /* no sum in another order than written, nothing approximated */
    bool tf32; /* a card's products of float32 may round their factors to TF32 */
    bool keep; /* code is kept in files, and taken from there */
    int level; /* of the pipeline that the program went through */
    const char *
        steps; /* by hand, for the one kernel of what is compiled (sched/hand.h); NULL: strategies decide */
    bool gpu; /* kernels are the card's, which has been opened */
    const char
        *target; /* for which they are made, one of gpu_target; NULL: the last that it has all of */
    bool clocked; /* each call of a kernel of this processor is timed */
} JitMode;

typedef struct JitTable {
    Jit *(*create)(Ctx *cx);
    void (*destroy)(Jit *jit);
    /* Whether code is there that was made of what `name` of `env` is as it is written, for the present mode: in a file, or loaded from one
     * before. It may be called then, by `env`. Else `*key` is what `prepare` keeps it
     * under, and takes over; NULL when it is not kept. */
    bool (*load)(Jit *jit, Module *env, const Name *name, JitKey **key);
    void (*free_key)(JitKey *key);
    /* Compiles what `name` of `env` needs (itself, the functions it calls, closures); false when something in it cannot be compiled: then
     * `why` receives one line that names it. Nothing is reported. Results are cached until `forget`. */
    bool (*prepare)(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why);
    /* The same, and LLVM's part goes on beside what the session does next: `prepare` waits for it. */
    bool (*begin)(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why);
    /* Calls the prepared function. Arguments are taken, and what nobody else holds is changed in place; the result is the
     * caller's; VALUE_NONE after a diagnostic (limits, run-time errors). Also where it cannot be compiled, which for some is known when
     * the extents are: then `why` receives a line, nothing is reported, and the arguments are left. */
    Value (*call)(Jit *jit, Module *env, const Name *name, uint32_t n, const Value *args, Span span,
                  Buf *why);
    /* The code made for `name` as text (an object: as bytes). False after a diagnostic. */
    bool (*text)(Jit *jit, Module *env, const Name *name, const JitTextWish *wish, Buf *out);
    /* Appends the code of `name`, for all shapes that its types allow, as bytes that begin at a multiple of 64: another process calls
     * it without having the program. They count on the order in which the contents have texts and data types. False: `why` says why
     * there is none, if a diagnostic does not. */
    bool (*save)(Jit *jit, Module *env, const Name *name, const Content *c, Buf *out, Buf *why);
    /* The same bytes, which stay, are the code of `name` of `env` from here on, whatever is written there. False: they are damaged. */
    bool (*open)(Jit *jit, Module *env, const Name *name, const Content *c, Str bytes);
    /* What tells this build of the code's library from others; false: nothing does. */
    bool (*build)(Buf *out);
    /* What of this processor compiled code may use: names between blanks. */
    void (*features)(Buf *out);
    /* Ends with NULL. */
    const char *(*gpu_target)(int i);
    /* Opens the card of this machine, once; false: `why` says why nothing runs on one. */
    bool (*gpu_open)(Jit *jit, Buf *why);
    /* What it has done since this was asked last. */
    CudaWork (*gpu_work)(Jit *jit);
    /* From now on what calls return may stay on the card alone: nobody reads it. */
    void (*gpu_leave)(Jit *jit, bool leave);
    JitDevice (*gpu_memory)(const Jit *jit);
    void (*forget)(Jit *jit, const Module *m);
    /* How what is compiled from now on was made and is to be made. */
    void (*set_mode)(Jit *jit, JitMode mode);
    /* Waits until nothing is written to files beside what runs: that takes time from what is measured. */
    void (*settle)(Jit *jit);
    /* Of the code that was used last; zeroes when there is none. */
    JitCounts (*counts)(Jit *jit, Module *env, const Name *name);
    /* Of the same code, where its kernels are timed: in the order in which a report has them. */
    const JitClock *const *(*clocks)(Jit *jit, Module *env, const Name *name, size_t *n);
    const char *(*version_text)(void); /* "19.1.7" */
    /* "sapphirerapids"; NULL: LLVM cannot be opened, and `why` says why. */
    const char *(*cpu_name)(Jit *jit, Buf *why);
} JitTable;

/* The one symbol of the plug-in. */
const JitTable *relay_jit_table(void);

#endif
