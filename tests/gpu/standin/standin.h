/* A stand-in for the CUDA driver, `libcuda.so.1`, for machines without a card: PTX text is read once into instructions
 * (parse.c) and run on the processor, 32 threads of a warp at a time (warp.c, lanes.c). It is stricter than a card: every
 * address is checked against what was allocated, memory and registers begin as NaNs, a barrier that not all threads of a
 * block reach is an error, and a result of an asynchronous copy is not there before it was waited for. What groups of warps multiply
 * (`wgmma`) is done at once, by each warp for its rows: that it must be waited for is not looked at.
 *
 * What it does not know it refuses when the module is loaded, with the line of the text; driver.c is the driver's interface
 * and says how failures are asked for. */
#ifndef STANDIN_H
#define STANDIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    LANES = 32,
    MAX_OPERANDS = 20,
    MAX_THREADS = 1024,
    STATIC_SHARED = 48 * 1024,
    MOST_SHARED = 227 * 1024
};

/* The driver's numbers of what can go wrong. */
enum {
    OK = 0,
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_CONTEXT = 201,
    INVALID_PTX = 218,
    INVALID_HANDLE = 400,
    NOT_SUPPORTED = 801,
    NOT_FOUND = 500,
    NOT_READY = 600,
    CAPTURE_UNSUPPORTED = 900,
    ILLEGAL_ADDRESS = 700,
    LAUNCH_TIMEOUT = 702,
    MISALIGNED_ADDRESS = 716,
    LAUNCH_FAILED = 719
};

typedef enum Space {
    SPACE_GENERIC,
    SPACE_GLOBAL,
    SPACE_SHARED,
    SPACE_LOCAL,
    SPACE_PARAM,
    SPACE_CONST
} Space;

/* Where the other spaces lie among generic addresses; no address of global memory is as low. */
#define WINDOW(space) (0x700000000000u + ((uint64_t)(space) << 36))
#define WINDOW_SIZE (1ull << 36)
#define GLOBAL_START 0x7f0000000000u

/* A type of PTX by its letter ('s', 'u', 'b', 'f', 'h' for bf16, 't' for tf32, 'p'), its bytes, and how many lie in one. */
typedef struct Type {
    char kind;
    uint8_t width, lanes;
} Type;

typedef enum OperandKind {
    OPERAND_NONE,
    OPERAND_REG, /* registers, and numbers, which lie in registers too */
    OPERAND_ADDRESS,
    OPERAND_LABEL
} OperandKind;

typedef struct Operand {
    OperandKind kind;
    uint8_t width; /* of the register; of an address 0: it has none */
    bool negated, sink;
    uint32_t at; /* in the register file; of a label: the instruction */
    int64_t offset;
} Operand;

typedef void LaneFn(void *restrict d, const void *const *s);

typedef enum Kind {
    KIND_LANES, /* `fn` on each lane */
    KIND_CVT,
    KIND_MOVE, /* between parts and wholes: mov.b64 {a, b}, c */
    KIND_LD,
    KIND_ST,
    KIND_ATOM,
    KIND_BRA,
    KIND_BRX,
    KIND_EXIT,
    KIND_TRAP,
    KIND_BAR,
    KIND_ARRIVE,
    KIND_WARP_BAR,
    KIND_SHFL,
    KIND_VOTE,
    KIND_REDUX,
    KIND_MATCH,
    KIND_ACTIVE,
    KIND_CP_ASYNC,
    KIND_CP_WAIT,
    KIND_LDMATRIX,
    KIND_MMA,
    KIND_WGMMA,
    KIND_GATE, /* mbarrier */
    KIND_BULK,
    KIND_NOTHING /* fences, prefetches */
} Kind;

typedef struct Ins {
    Kind kind;
    LaneFn *fn;
    Operand op[MAX_OPERANDS];
    uint8_t n, results;
    bool guarded, guard_not, ftz, sat, trans;
    uint32_t guard;
    char round; /* 'n', 'z', 'm', 'p', 'a'; in upper case to whole numbers; 0: not said */
    char what[12]; /* which vote, shuffle, atomic, shape */
    Type type, from;
    Space space;
    int line;
} Ins;

typedef struct Special {
    uint32_t at;
    int which;
} Special;

typedef struct Constant {
    uint32_t at;
    uint8_t width;
    uint64_t bits;
} Constant;

typedef struct Param {
    char name[128];
    uint32_t at, size;
} Param;

typedef struct Kernel {
    char name[128];
    struct Module *module;
    Ins *ins;
    int n;
    Param *params;
    int n_params;
    uint32_t param_size, file_size, shared_size, local_size;
    uint32_t dynamic_at; /* where shared memory of a size known at the launch begins */
    uint32_t dynamic_most; /* what cuFuncSetAttribute allowed */
    uint32_t most[3]; /* .maxntid; 0: not said */
    Special *specials;
    int n_specials;
    Constant *constants;
    int n_constants;
    Operand *sums; /* of wgmma, which has more of them than other instructions have operands */
    int n_sums;
    int *targets; /* of brx.idx, one list behind the other, each with its length before it */
    int n_targets;
} Kernel;

typedef struct Global {
    char name[128];
    uint64_t at;
    size_t size;
    Space space;
} Global;

typedef struct Module {
    Kernel **kernels;
    int n_kernels;
    Global *globals;
    int n_globals;
} Module;

/* ---- parse.c */

/* NULL when the text is wrong or has what the stand-in does not know; `log` says which line. */
Module *module_parse(const char *text, char *log, size_t room);
void module_free(Module *m);
Kernel *module_kernel(Module *m, const char *name);

bool type_parse(const char *token, Type *out);

/* ---- lanes.c: what an instruction does to 32 lanes, and what its operands are */

typedef struct LaneRow {
    const char *name; /* with its types, without what says how it rounds */
    const char *
        operands; /* t: as its type; w: twice as wide; d: as the type before; i: 32 bits; p: a predicate */
    LaneFn *fn;
} LaneRow;

const LaneRow *lane_row(const char *name);
void lanes_convert(const Ins *in, void *d, const void *s, const void *s2);
uint64_t lanes_atomic(const Ins *in, uint64_t old, uint64_t b, uint64_t c);
/* Sets the processor's rounding as `round` says, and gives what it was. */
int rounding_set(char round);
void rounding_reset(int old);
float half_float(uint16_t h);
float brain_float(uint16_t h);

/* ---- driver.c: what cuTensorMapEncodeTiled makes and a copy of a box is given */

enum { MAP_AXES = 5, MAP_MARK = 0x70616d };

typedef struct Map {
    uint32_t mark, n, element;
    uint64_t at;
    uint32_t extent[MAP_AXES], length[MAP_AXES];
    uint64_t step[MAP_AXES]; /* bytes; of neighbours first */
} Map;

/* ---- warp.c */

typedef struct Launch {
    Kernel *kernel;
    uint32_t grid[3], block[3], dynamic;
    uint8_t *params;
} Launch;

/* What a launch ends with; `text` says where and why when it fails. */
int launch_run(const Launch *l, char *text, size_t room);

/* ---- memory.c: addresses are never used twice, and no two allocations touch */

uint64_t device_alloc(size_t n);
bool device_free(uint64_t at);
void *device_find(uint64_t at, size_t n);
/* Where the allocation that is nearest to `at` begins, and how large it is; false when there is none. */
bool device_nearest(uint64_t at, uint64_t *begin, size_t *n);
void device_reset(void);
size_t device_used(void);

#endif
