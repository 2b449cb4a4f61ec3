/* What the files of the JIT share.
 *
 * A definition and all it reaches become one Unit: an LLVM module, an object, an image, and more of these for what is made
 * when it is first called. Making one goes
 *
 *     to_anf ─▶ live.c (last uses) ─▶ function.c, call.c, match.c (control code)     ─▶ orc.c (object, link)
 *                                     plan.c ─▶ kernel.c ─▶ sched/ ─▶ emit.c (tensor code)
 *
 * Generated functions take the JitState first. A value is held by its type: a scalar natively, all else as a pointer. Arguments that
 * are pointers are owned by the callee, results by the caller; a variable's last use hands its value on, and every other use retains.
 * What fails gives NULL or zero. Code looks at NULL, lets go of what it owns and returns; with a zero that is none it goes on, because
 * the next function that it calls stops at its guard, and what it computes is not looked at. */
#ifndef JIT_INTERNAL_H
#define JIT_INTERNAL_H

#include "base/vec.h"
#include "ir/content.h"
#include "ir/decide.h"
#include "ir/shapes.h"
#include "jit/cache.h"
#include "jit/image.h"
#include "jit/jit.h"
#include "jit/live.h"
#include "runtime/heap.h"

#include <llvm-c/Core.h>
#include <llvm-c/TargetMachine.h>

typedef struct TeProgram TeProgram;

/* A value of LLVM's, in single static assignment. */
typedef LLVMValueRef Ssa;
typedef Vec(Ssa) SsaList;

/* LLVM's convention with tail calls between different prototypes; its C interface has no name for it. */
#define TAILCC 18
/* That of functions which make no calls in tail position: who calls pays for no others. */
#define FASTCC 8
/* That of functions which save all that they change. */
#define KEEPCC 14
/* Functions that end values call each other so deep. */
#define DROP_LEVELS 3

/* What generated code reads and writes, in the words of the limits; it knows the offsets from offsetof. */
typedef struct JitState {
    atomic_uintptr_t
        guard; /* as stack_limit; the greatest when it is to stop: an interrupt, or a failure; 0: on a stack of others */
    uint32_t failed; /* a diagnostic was reported */
    const char *stack_limit; /* below it calls are nested too deeply */
    const atomic_bool *interrupted;
    Jit *jit;
} JitState;

/* A compiled definition. */
typedef struct Dependency {
    const Name *name;
    const Function *fn;
} Dependency;

typedef struct Gen Gen;
/* The arguments are the code's, so that what nobody else holds is changed in place. */
typedef void UnitEntry(JitState *state, const Value *args, Value *out);
typedef struct Instance Instance;
typedef struct PartOf PartOf;

/* What the closures over one instance share. They count their unit, so that the code lives as long as they. */
typedef struct FunctionInfo {
    ObjectInfo info; /* first: a closure finds the rest by it */
    struct Unit *unit;
    uint32_t number; /* among its unit's */
    Instance *in; /* NULL while the unit is asleep, and so is the type of a polymorphic one */
    const Type *type;
    void *code; /* with the convention of closures */
    UnitEntry *invoke; /* for C: args[0] is the closure */
    PtrMap
        at; /* of a polymorphic one: Type of a function, which the unit keeps -> the code at this type */
} FunctionInfo;

/* What code refers to and no object has: it is found anew wherever the code is linked. */
typedef enum ImportKind {
    IMPORT_HERE, /* an address that only this process knows */
    IMPORT_FORM, /* its address is the first word of what is made */
    IMPORT_UNIT, /* the empty tuple */
    IMPORT_NULLARY, /* the value of one without fields */
    IMPORT_CLOSURE, /* the ObjectInfo of closures of this name */
    IMPORT_TENSOR, /* a constant */
    IMPORT_CLOSED, /* the object of a Closed */
    IMPORT_PACKED, /* the elements of a tensor that was laid out for a kernel */
    IMPORT_SITE, /* an OpSite */
    IMPORT_SOURCE, /* its address is the number of a source */
    IMPORT_RUN, /* a DeviceRun */
    IMPORT_TYPE, /* that something is called at */
    IMPORT_INFO, /* a FunctionInfo of the unit */
    IMPORT_LATE, /* a LateSite of the unit */
    IMPORT_VARIANTS, /* a VariantSite of the unit */
    IMPORT_NOTHING, /* in a file: code does without it */
} ImportKind;

typedef struct FormUse {
    ValueKind kind;
    const Constructor *con; /* NULL for what has none */
    const ObjectForm *form;
} FormUse;

typedef struct Import {
    ImportKind kind;
    const void *
        at; /* a FormUse, a Constructor, a Name, a Tensor, a Closed; HERE: the address itself; SOURCE: the number */
    const void *address;
    bool used; /* linked code refers to it */
} Import;

#define IMPORT_PREFIX "import."

/* What the code of a module is for. */
typedef enum LateKind {
    LATE_NOTHING, /* kernels */
    LATE_ENTRY, /* the unit's function */
    LATE_SITE, /* a LateSite */
    LATE_GENERIC, /* a VariantSite, for all shapes */
    LATE_SHAPES, /* a VariantSite, for arguments of these types */
    LATE_TYPE, /* a polymorphic closure, at this type as closures of it want it */
} LateKind;

typedef struct LateWish {
    LateKind kind;
    uint32_t number; /* of the site, or of the FunctionInfo */
    const Type *type;
    const Type *const *shapes;
} LateWish;

/* A module that was compiled. */
typedef struct Code {
    Image *image;
    Vec(Str) objects; /* what it was linked from; empty when nobody wants to keep them */
    bool lent; /* they lie in the unit's file */
    Vec(Import) imports; /* symbol `import.N` is number N */
    LateWish wish;
    uint32_t epoch; /* of the unit when it was made */
    const char *
        table; /* the symbol of the addresses of what `infos` point to, then of what was wished; NULL: of nothing */
    Vec(FunctionInfo *) infos; /* of closures that it makes and that may leave the unit */
} Code;

typedef struct KernelBatch KernelBatch;
typedef struct LateSite LateSite;
typedef struct VariantSite VariantSite;
typedef struct Unit Unit;
struct Unit {
    Jit *jit;
    Unit *next; /* of all that there are */
    uint32_t refs; /* of the cache, and one for each closure */
    Arena arena;
    TypeRoot root;
    const Name *name;
    Module *env; /* where it was found; kept alive */
    Module *code; /* whose arena holds the code in A normal form */
    Vec(Dependency) needs; /* every definition that was looked up */
    Vec(Instance *) instances;
    PtrMap by_function; /* Function in A normal form -> the first Instance */
    PtrMap handling; /* Function in A normal form -> what it does with its parameters (terms.c) */
    PtrMap makes; /* Function in A normal form -> what cell_sizes gives */
    Vec(FunctionInfo *) infos;
    Vec(LateSite *) lates;
    Vec(VariantSite *) variants;
    bool asleep; /* its code was read from a file: these know no functions yet (late.c) */
    uint32_t infos_woken, lates_woken, variants_woken;
    Vec(const Type *) types; /* that code and tables name, beside what lies in the arena */
    PtrMap anf; /* Function -> the same in A normal form */
    PtrMap
        signatures; /* Name of a definition -> which of its tuples come field by field (signature.h) */
    PtrMap values; /* Function of one -> that which takes them as they are and calls it */
    PtrMap closed; /* Object -> the Closed that it is */
    unsigned rounds; /* that signatures have */
    bool results; /* some give fields of their results */
    uint32_t epoch; /* code made before it changed is not used by what is made now */
    bool open; /* functions come in from outside, or go there */
    uint32_t n;
    const Type *const *params;
    const Type *result;
    const Type *const *shapes; /* those of the arguments that it is made for; NULL: for all */
    Unit *sibling; /* of the same definition, for other shapes */
    uint64_t used; /* when it was last called */
    uint32_t dropped; /* siblings, so far */
    const char *why; /* why it cannot be compiled; NULL when it can */
    bool nests; /* calls may nest: run on the large stack */
    Vec(Code *) codes; /* of its modules */
    Vec(KernelBatch *) batches; /* whose kernels its code calls */
    JitCounts counts;
    bool whole; /* its code goes elsewhere as it is: none is made for shapes that come */
    bool given; /* for good: there is no program of which another could be made */
    bool exact, tf32, clocked; /* as the JIT's when it was made */
    Vec(JitClock *) clocks; /* of the calls of kernels */
    int level; /* likewise */
    const char *gpu; /* likewise */
    UnitEntry *entry;
    const char *entry_name; /* the symbol */
    CacheFile *file; /* that it was read from, in which things of its code lie; NULL: none */
    JitKey
        *key; /* counted: its code is to be kept, and what it was linked from is; NULL: no more */
    uint64_t key_for[2]; /* the same with the shapes */
    uint64_t compiled[2]; /* the contents of what was compiled, where more code is made of it */
    size_t kept; /* of its codes, in the file */
    struct Writing *keeping; /* its file is to be written, or is being; NULL: no more */
    struct Making *making; /* its code is being made beside; NULL: not now */
};

/* The target: orc.c. */
typedef enum MachineKind {
    MACHINE_GOOD,
    MACHINE_PLAIN, /* for what is too large for more, or runs once */
    MACHINE_KINDS
} MachineKind;
#define MACHINES_MOST 16

typedef struct Orc {
    bool tried, there; /* the library */
    Buf why; /* it is not */
    LLVMTargetRef target;
    _Atomic(LLVMTargetMachineRef) machines[MACHINE_KINDS][MACHINES_MOST]; /* that no thread uses */
    char *triple, *cpu, *features, *layout;
    uint32_t numbers; /* of symbols made so far */
} Orc;

struct Jit {
    JitState *state;
    Ctx *cx;
    Orc orc;
    PtrMap units; /* Function -> Unit */
    Unit *all; /* those that closures keep alive too */
    bool exact; /* nothing is reordered or approximated in what is compiled from now on */
    bool tf32; /* factors of float32 are rounded in products on a card */
    bool clocked; /* calls of kernels are timed */
    int level; /* of the pipeline that made what is compiled from now on */
    const char *steps; /* by hand, for its kernel; NULL: strategies decide */
    JitReport *report; /* to which what kernels cost is added; NULL: nobody asks */
    const char *
        gpu; /* for which its kernels are made, one of gpu_target; NULL: they are the processor's */
    struct Cuda *cuda; /* the card, once it was opened, */
    struct Twins *twins; /* values that lie there too, */
    const char *gpu_target; /* for which code is made so, */
    bool gpu_boxes; /* and its driver makes maps of tensors, where it is not another machine's */
    bool gpu_busy; /* it may be at work for the calls in progress */
    bool gpu_leave; /* what calls return may stay there alone */
    struct DeviceQueue *gpu_queue; /* what was asked for and is not begun (gpu/queue.h) */
    Cache cache;
    JitKey *key; /* of what is compiled now; NULL: it is not kept */
    PtrMap waiting; /* Function -> JitKey: of what is compiled when it is called, and then kept */
    bool unused; /* some of them may go */
    Unit *beside; /* whose code is being made beside what the session does; NULL: none */
    uint64_t calls; /* from outside, so far */
    uint32_t modules; /* made so far */
    PtrMap kernels; /* hash -> Kernel */
    KernelBatch *unused_batches; /* that no unit counts, the last one first */
    PtrMap infos; /* Name -> ObjectInfo of closures */
    char *stack; /* reserved, committed by use; NULL until the first call */
    size_t stack_size;
    char *scratch; /* of the kernel that runs */
    size_t scratch_size;
    char *scratch_block; /* that it lies in */
    uint32_t running; /* calls in progress */
    struct Watch *watch; /* of the call in progress; NULL: no time limit */
};

/* ---- orc.c ---------------------------------------------------------------------------------------------------------- */

/* Opens LLVM, which nothing but making code needs; false: `why` says why there is none, or memory is refused now. */
bool orc_open(Jit *jit, Buf *why);
void orc_deinit(Jit *jit);
/* Whether the processor has what LLVM calls by that name. */
bool orc_has(const Orc *o, const char *feature);
/* Whether four products of bytes are added to a sum by one instruction. */
bool orc_has_dots(const Orc *o);
typedef struct OrcModule {
    Gen *g; /* that made it, and receives the object */
    LLVMModuleRef m;
    bool plain; /* how good its code is does not matter */
} OrcModule;

/* Modules of which objects are made, on several threads, beside the making of more modules; and beside all that the session does, where
 * their generator says so: then no limit ends it. */
typedef struct OrcWork OrcWork;
/* One more; nobody but LLVM looks at it from here on. `*work` is NULL before the first. */
void orc_give(OrcWork **work, OrcModule module);
/* No more come, and they go on while the caller does something else; false: no thread makes them. */
bool orc_leave(OrcWork *work);
/* All are made; false when a limit was hit first, and then they go on. */
bool orc_wait(OrcWork *work);
/* All are made, and with their generators, in the order in which they came. Before each the limits are asked. False after a
 * diagnostic. */
bool orc_finish(OrcWork **work);
/* What is not made is not wanted. NULL is nothing. */
void orc_drop(OrcWork **work);
/* Its code is made in little time rather than good, whatever follows. */
bool orc_is_plain(const Gen *g);
uint32_t orc_instructions(LLVMValueRef f);
uint32_t orc_module_instructions(LLVMModuleRef m);
void code_free(Code *code);
/* The address of what it defines for others; NULL: it does not. */
void *code_find(const Code *code, const char *symbol);
/* Links the objects; false: `why` says why not. What the code calls of others is its unit's. */
bool code_link(Unit *u, Code *code, Buf *why);
/* The same for what was made here; false after a diagnostic. */
bool code_finish(Unit *u, Code *code);
/* What it was linked from is not wanted any more. */
void code_drop_objects(Code *code);
/* A new name for something in a module. */
const char *orc_name(Jit *jit, Arena *arena, const char *hint);
/* The generator's module as assembly or object, by this machine; NULL: for this processor. False after a diagnostic, also where LLVM dies
 * of it. */
bool orc_emit(Gen *g, LLVMTargetMachineRef machine, LLVMCodeGenFileType kind, Buf *out);
/* Runs LLVM's passes over the module, as `opt -passes` would; likewise. */
bool orc_improve(Gen *g, LLVMTargetMachineRef machine, const char *passes);

/* ---- keep.c: units in files ----------------------------------------------------------------------------------------- */

struct JitKey {
    uint32_t refs;
    Content content;
    Module *written; /* counted: what the contents are of */
    Module *env; /* that it waits for */
};

/* The contents of a definition as it is written, for this build, processor and mode. NULL when there is no cache. */
JitKey *keep_key(Jit *jit, Module *env, const Def *def);
/* That of what is compiled when it is called; NULL: it is not kept. */
JitKey *keep_waiting(Jit *jit, const Function *fn);
/* Takes the key over, NULL too; the function is what `env` calls it. */
void keep_wait(Jit *jit, Module *env, const Function *fn, JitKey *key);
/* Of the functions of this module; NULL: of all. */
void keep_forget(Jit *jit, const Module *env);
/* Gives up one count. */
void keep_free_key(JitKey *key);
/* The unit's code, which is made next, is kept as what was made of these contents for these shapes. */
void keep_as(Unit *u, JitKey *key, const Type *const *shapes, uint32_t n);
/* It is not. */
void keep_not(Unit *u);
/* Writes the unit's code, if no part of it belongs to this process alone. What more may be made of waits for the end of a call. */
void keep_store(Unit *u);
/* A call has ended: what waits is written, and what is large from here on, beside what the session does. */
void keep_begin(Unit *u);
/* It is written now, if that was left for later. */
void keep_end(Unit *u);
/* So is what was made since. */
void keep_last(Unit *u);
/* Fills the unit, which is kept as something, with the code that was; false when there is none. Where more code may be made of it, only
 * when its environment has what was compiled then. */
bool keep_load(Unit *u, bool compiled);
/* The file of the unit, appended; false when a part of its code belongs to this process alone, or more of it may be made while it runs.
 * What it says of texts and data types counts on the order in which the contents have them. */
bool keep_save(Unit *u, const Content *c, Buf *out);
/* Fills the unit from such a file, which stays as long as the process, whatever it was made of; false when it is damaged. */
bool keep_open(Unit *u, const Content *c, Str bytes);
/* JitTable.features, JitTable.build */
void keep_features(Buf *out);
bool keep_build(Buf *out);

/* ---- abi.c ---------------------------------------------------------------------------------------------------------- */

typedef struct AbiRow {
    const char *name;
    void *address;
    /* The result and the parameters: v void, i int32, l int64, p pointer, f float, d double. */
    const char *signature;
} AbiRow;

/* Ends with a NULL name. */
extern const AbiRow abi_table[];

/* A call of an operator that runs through op_eval; lives as long as its unit. */
typedef struct OpSite {
    const Op *op;
    const Attrs *attrs;
    Span span;
    uint32_t n;
    bool last; /* the first argument is let go of behind the call */
    const Type *result; /* what the caller relies on */
} OpSite;

/* What a tensor that code makes or relies on looks like. */
typedef struct TensorSite {
    DType dtype;
    int32_t rank;
    int64_t shape[];
} TensorSite;

/* C[m,n] = op(A) op(B), `batch` times; steps between matrices and leading dimensions in elements. */
typedef struct GemmSite {
    int64_t batch, m, n, k, lda, ldb, ldc, step_a, step_b, step_c;
    bool transpose_a, transpose_b;
} GemmSite;

/* ---- stack.c -------------------------------------------------------------------------------------------------------- */

/* Calls the entry on the large stack; false after a diagnostic when there is none. The arguments are taken either way. */
bool stack_run(Jit *jit, UnitEntry *entry, uint32_t n, const Value *args, Value *out);
void stack_free(Jit *jit);
/* Code that is called from here on stops where this stack says, or at once when it has failed. */
void stack_guard_here(Jit *jit);
/* Makes room for a kernel's intermediate tensors; false after a diagnostic. */
bool jit_scratch(Jit *jit, size_t bytes);
void jit_free_scratch(Jit *jit);

/* ---- how a value is held: repr.c ------------------------------------------------------------------------------------ */

typedef enum ReprKind { REPR_NONE, REPR_SCALAR, REPR_TENSOR, REPR_OBJECT } ReprKind;

typedef struct Repr {
    ReprKind kind;
    DType dtype; /* of scalars and tensors */
    ValueKind value;
    bool mortal; /* an object that has fields: none of its kind is immortal */
} Repr;

/* REPR_NONE for a type that the JIT has no form for. */
Repr repr_of(const Type *t);
/* Whether a value of the type may hold a function. */
bool type_holds_function(const Type *t);
/* Whether the type speaks of a polymorphic function. */
bool type_holds_polymorphic(const Type *t);

/* ---- units: unit.c -------------------------------------------------------------------------------------------------- */

/* The unit of a definition, made when it is wanted first and again when something in it was redefined; NULL: `why` says why not. */
Unit *unit_of(Jit *jit, Module *env, const Name *name, Buf *why);
/* Begins to make it, if it is not there; the key is taken over. False: `why` says why it cannot be. */
bool unit_begin(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why);
/* The same for a call with these arguments: by their shapes, when it has parameters of which the type does not say them. */
Unit *unit_of_call(Jit *jit, Module *env, const Name *name, uint32_t n, const Value *args,
                   Buf *why);
/* The unit that was made of these contents and kept, unless it is there already; NULL: there is none. */
Unit *unit_kept(Jit *jit, Module *env, const Def *def, JitKey *key);
/* JitTable.save, JitTable.open */
bool unit_save(Jit *jit, Module *env, const Name *name, const Content *c, Buf *out, Buf *why);
bool unit_open(Jit *jit, Module *env, const Name *name, const Content *c, Str bytes);
/* Whether the definition is compiled when it is called. */
bool unit_waits(Module *env, const Name *name);
void unit_release(Unit *u);
/* No file of theirs is being written any more. */
void units_settle(Jit *jit);
JitCounts unit_counts(Jit *jit, Module *env, const Name *name);
const JitClock *const *unit_clocks(Jit *jit, Module *env, const Name *name, size_t *n);
/* The code, made now. NULL after a diagnostic, or when there is none for the shapes. */
void *unit_late(Unit *u, LateWish wish);
/* The code of the unit's closures as it is in an environment that may define something differently; false after a diagnostic. */
bool unit_renew(Unit *u, Module *env);
/* Those whose environment is the module leave the cache. */
void units_forget(Jit *jit, const Module *m);
void units_free(Jit *jit);
/* Calls with arguments of the right types, which it takes; VALUE_NONE after a diagnostic. */
Value unit_call(Unit *u, UnitEntry *entry, uint32_t n, const Value *args);
/* The functions of a unit that was read from a file are found again, as they were when its code was made; false after a diagnostic. */
bool unit_wake(Unit *u);
typedef struct UnitWish {
    const char *target; /* kernels are made for this GPU, and no code calls them; may be NULL */
    uint32_t n;
    const Value *args; /* for whose shapes it is; NULL: for those of the types */
    Buf *lowered; /* receives the loops as text; may be NULL */
    JitPlaces *places; /* of the text that is made of it; may be NULL */
    bool elsewhere; /* other programs run it */
} UnitWish;

/* The definition's module, made and handed to `use`, which it does not survive; `why` says when it cannot be compiled. */
bool unit_module(Jit *jit, Module *env, const Name *name, const UnitWish *wish, Buf *why,
                 bool (*use)(Gen *g, void *data), void *data);
extern const FunctionKind compiled_functions;

/* ---- making one module --------------------------------------------------------------------------------------------- */

typedef struct Fn Fn;

typedef struct Origins Origins;

struct Gen {
    Jit *jit;
    Ctx *cx;
    Unit *unit;
    Module *env, *code;
    Arena *arena; /* the unit's */
    LLVMContextRef c;
    LLVMModuleRef m;
    bool plain; /* m's code: it waits for kernels nearly all the time */
    Vec(OrcModule) full; /* that came before it, each with its context */
    struct OrcWork *work; /* on these, and on modules of kernels; NULL: none so far */
    uint32_t instructions; /* of `m` */
    double operations; /* of the kernels that the function being made calls */
    LLVMBuilderRef b;
    LLVMTypeRef i1, i8, i16, i32, i64, f32, f64, ptr, nothing;
    uint32_t number, begun; /* of the module, of its first one */
    Vec(Instance *) todo; /* instances whose code is to be made */
    size_t done;
    PtrMap
        bridges; /* Type of a function -> Ssa: closures of it that are not compiled are called through this */
    PtrMap looked_at; /* functions: what they use suits */
    PtrMap holders; /* what def_only_holds found */
    PtrMap invokes; /* Type of a function -> Ssa: through this C calls closures of it */
    PtrMap abi; /* row -> Ssa */
    PtrMap drops[DROP_LEVELS]; /* Type -> Ssa: ends a value of it (drop.c) */
    PtrMap outside; /* what is imported -> Ssa */
    Code *out; /* of this module: its imports so far */
    Buf *why;
    Buf *lowered; /* receives the loops as text; may be NULL */
    const char *entry; /* the symbol of the function that C calls */
    Instance *late; /* whose address is wanted */
    bool late_thunk; /* with the convention of closures */
    bool
        again; /* the code is there, and only what was known of it is wanted: no objects are made */
    KernelBatch *batch; /* of the kernels that it makes; NULL: none so far */
    bool calls; /* one of its functions so far calls another, or itself */
    bool once; /* its code has no loop and calls none of its own: little of it is run */
    bool beside; /* objects are made beside what the session does */
    bool alone; /* its kernels are part of the module, and nobody else's */
    bool elsewhere; /* other programs run its code, which did not ask for registers of matrices */
    PtrMap kernels; /* Kernel -> Ssa */
    uint32_t size; /* lets and blocks made so far */
    uint32_t looking; /* instances whose facts are being found */
    bool device; /* its code is for a GPU */
    Origins *origins; /* what its code is made of is noted here; NULL: nobody asks */
    struct Ptx *ptx; /* receives the kernels for a GPU instead; NULL: they are the processor's */
    struct DeviceCode *device_code; /* that its runs call; NULL: no code calls them */
    bool control; /* functions of the program, no kernels: LLVM may improve them */
    bool failed; /* `why` says it, or a diagnostic was reported */
    bool left; /* LLVM died of one of its modules: they stay as they are, for good */
};

/* An empty module in a context of its own, even where it has failed; and its end. */
void gen_open(Gen *g, const char *name);
/* What is made from here on goes into another module: LLVM makes one as a whole, on one thread. */
void gen_turn(Gen *g);
/* Makes the objects of the modules that are full. */
bool gen_empty(Gen *g);
void gen_close(Gen *g);

/* kernel.c: the address of a kernel of the batch; NULL: it has none of that name. */
const void *batch_find(const KernelBatch *b, const char *symbol);
const Code *batch_code(const KernelBatch *b);
/* Links these kernels; false after a diagnostic. */
bool kernels_link(Gen *g);
/* LLVM makes code of all kernels that there are. */
void kernels_give(Gen *g);
/* Lets go of what the module made and did not link. */
void kernels_drop(Gen *g);
void batch_release(Jit *jit, KernelBatch *b);
/* Those that are kept for what may come. */
void batches_free(Jit *jit);

/* Whether what the code is for has what LLVM calls by that name. */
bool gen_has(const Gen *g, const char *feature);

/* Says why this cannot be compiled. Always false. */
bool gen_refuse(Gen *g, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Whether something failed or a limit is hit: asked before each let. */
bool gen_ended(Gen *g);

/* Makes the code of `fn`, the definition `unit->name`, and of all it reaches into g->m. */
bool gen_unit(Gen *g, const Function *fn);
/* Makes the code of the unit's closures, and of all they reach. */
bool gen_again(Gen *g);
/* Makes code of the instance as g->late. */
bool gen_late(Gen *g, LateWish wish);

typedef struct Capture {
    Var *var;
    const Type *type;
    Instance *known;
} Capture;

/* The address of an instance's code once it was called; it is made at the first call. */
struct LateSite {
    Unit *unit;
    uint32_t number; /* among its unit's */
    Instance *in; /* NULL while the unit is asleep */
    void *code;
};

/* A call with shapes that are known when it happens: the code for those that came, and that for all others. */
#define VARIANTS_MOST 16
typedef struct Variant {
    const Type *const *shapes;
    void *code;
} Variant;

struct VariantSite {
    Unit *unit;
    uint32_t number; /* among its unit's */
    uint32_t n_args;
    Instance *in; /* for all shapes; NULL while the unit is asleep */
    void *generic;
    uint32_t n;
    Variant variants[VARIANTS_MOST];
};

/* late.c: what a unit has one more of; while it is woken, those that it had. */
LateSite *late_site(Gen *g, Instance *in);
VariantSite *late_variants(Gen *g, Instance *in);
FunctionInfo *late_info(Unit *u);
/* Of a unit that is read from a file. */
LateSite *late_site_new(Unit *u);
VariantSite *late_variants_new(Unit *u, uint32_t n_args);
FunctionInfo *late_info_new(Unit *u);
/* Whether more code may be made for it. */
bool late_grows(const Unit *u);
/* The instance whose code is wanted. */
Instance *late_wanted(const Unit *u, LateWish wish);
/* How many types a wish with shapes has. */
uint32_t late_types(const Unit *u, LateWish wish);
/* That code is called from now on. */
void late_made(Unit *u, LateWish wish, void *code);
/* What was made last for such a wish; NULL: nothing. */
void *late_found(const Unit *u, LateWish wish);

/* What is known of an instance's variables beyond their types: which extents a `?` stands for, and values that decide shapes. */
typedef struct Facts {
    PtrMap types; /* Var -> Type */
    PtrMap values; /* Var -> Constant */
    PtrMap lets; /* Let -> the Expr that its value comes to */
    PtrMap
        misfits; /* calls of operators that do not take such shapes, which is said when the program comes there */
} Facts;

/* Of the first so many parameters: with the state and the closure in front of them they have bits of one word. */
#define TERMS_PARAMS_MOST 62

/* What is known of calls beyond types. */
typedef struct Terms {
    uint64_t lent; /* parameters, as bits, that stay the caller's */
    bool lends_self; /* and so does the closure */
    bool lends_result; /* a part of these, which gets no count */
    bool spread; /* the closure comes as what it captured */
    uint32_t
        spare; /* behind the parameters comes a cell of so many fields, or NULL; 0: none does */
    Instance *const
        *given; /* by parameter: the function that it always is, or NULL; NULL: none is known */
} Terms;

/* A function at concrete types; or one that is polymorphic, of which such are made. */
struct Instance {
    const Function *fn; /* in A normal form */
    Instance *next; /* of the same function */
    bool open; /* its own type parameters are not chosen: it has no code */
    Instance *of; /* the open one that it was made from */
    const Op *op; /* of an operator or constructor used as a value */
    const Constructor *con;
    const Name *global; /* of a definition */
    VariantSite *variants; /* where its calls look for code for their shapes */
    Facts *facts; /* NULL: its types say all */
    LateSite *late; /* called through this; NULL: its code is made with what calls it */
    const char *name;
    Var *self_var; /* of a literal: the variable it is bound to */
    uint32_t n_vars; /* type variables in scope, the outer ones included */
    const TypeVar *const *vars;
    const Type *const *types;
    Vec(Capture) captures;
    PtrMap known; /* captured variables that are functions without captures -> Instance */
    uint32_t n;
    const Type **params;
    const Type *result;
    bool has_self; /* takes its closure after the state */
    bool gives_fields; /* of the tuple that is its result (fields.c) */
    const char
        *symbol; /* of its code, made or to be made, in this epoch of the unit; NULL: in none */
    uint32_t epoch;
    FunctionInfo *info; /* of its closures, in a unit that is open */
    uint32_t number; /* of the module that the following belong to */
    Ssa value;
    LLVMTypeRef type;
    uint32_t thunk_number; /* likewise */
    Ssa thunk; /* the same behind the convention of closures */
    Instance *home; /* of a literal: what it stands in */
    Terms terms; /* this is a copy for calls that keep to them */
    Instance *copies; /* such copies */
    PartOf *source; /* of its result (results.c); NULL: nobody asked */
    Instance *own; /* of a copy: the one for any call, which its calls of itself mean too */
    bool plain; /* calls nothing in tail position but its own start: its convention is FASTCC */
    bool judged; /* whether it is */
    bool fast; /* the same of its code: convention.c finds more of them */
    uint32_t first; /* the module that knew it first */
    Instance **behind; /* by clause: the copy that it stands in; NULL: none */
    Instance *front; /* of such a copy: the function; NULL: it is none */
    uint32_t clause; /* of such a copy */
    Instance *inner; /* a copy that stands in place of calls of itself; NULL: none */
    Instance *around; /* of such a copy: the function; NULL: it is none */
    uint32_t depth; /* such copies around this one, itself one */
    bool loops; /* such a copy calls itself in tail position */
    uint32_t listed; /* among the infos of the Gen that begun so */
};

/* How a definition is called. */
typedef struct GlobalUse {
    const Name *name;
    uint32_t n;
    const Type *const *args; /* as they are written */
    const Type *const *shapes; /* with the extents that are known here; NULL: none */
    const Type *result; /* may be NULL */
    uint32_t n_type_args;
    const Type *const *type_args;
    bool called; /* by its name, and may take the fields of tuples (signature.h) */
} GlobalUse;

/* instance.c: each returns NULL after refusing. */
Instance *instance_of_global(Gen *g, const GlobalUse *use);
/* Open when the function is polymorphic. */
Instance *instance_of_literal(Fn *f, const Function *fn, Var *self);
/* `fn (%x0, …) { callee(%x0, …) }` at a function type without type parameters, in A normal form. */
const Function *instance_eta(Gen *g, Expr *callee, const Attrs *attrs, const Type *type, Span span);
Instance *instance_of_row(Gen *g, const Op *op, const Constructor *con, const Type *type,
                          Span span);
/* The function in A normal form, which is made once; NULL when a limit is hit. */
Function *instance_normal_form(Gen *g, const Function *fn);
/* That of a definition; NULL when it has none, or a limit is hit. */
Function *definition_form(Gen *g, const Def *def);
/* Of a definition, an operator or a constructor that is used as a polymorphic value of this type; open. */
Instance *instance_of_atom(Gen *g, const Expr *atom, const Type *type);
/* Whether its convention is FASTCC. */
bool instance_is_plain(Gen *g, Instance *in);
/* Whether its code is only called by name: made late, or for shapes that come, it is called as anything is. */
bool instance_is_called_by_name(Gen *g, const Instance *in);
/* Its convention is FASTCC from here on, where it stands and is called in the module. */
void instance_make_fast(Instance *in);
/* Whether clauses of the match that is its body are functions of their own: those that come back from calls. What calls it finds the clause
 * then, and in the others no register is saved. */
bool instance_has_front(const Instance *in);
bool instance_stands_behind(const Instance *in, uint32_t clause);
/* Whether half of the clauses of one that has a front, or more, end there. */
bool instance_ends_in_front(const Instance *in);
/* The copy that is the clause. */
Instance *instance_behind(Gen *g, Instance *in, uint32_t clause);
/* A copy for putting in place of calls of itself, once. */
Instance *instance_inner(Gen *g, Instance *in);
/* Of an open one at these types. */
Instance *instance_at(Gen *g, Instance *open, uint32_t n, const Type *const *args,
                      const Type *result);
/* Finds the bindings of the type parameters that make `open` equal `given`; false when there are none. */
bool types_match(const Type *open, const Type *given, uint32_t n, const TypeVar *const *vars,
                 const Type **types);
const Type *instance_type(Gen *g, const Instance *in, const Type *t);
/* The type that argument i of a call is handed over as: that of the value, or the single one that a function of all types is called at. */
const Type *instance_argument(Gen *g, const Instance *in, const Call *call, uint32_t i);
LLVMTypeRef instance_function_type(Gen *g, const Instance *in);
/* The LLVM function type that closures of this Relay type have. */
LLVMTypeRef closure_type(Gen *g, const Type *fn);
/* Makes its value usable in this module, whose code it becomes unless it has been made. */
void instance_enter(Gen *g, Instance *in);

/* terms.c */
/* Parameters, as bits, that may be lent: those that the function takes apart, or hands to one that does. */
uint64_t instance_lendable(Gen *g, const Instance *in);
/* Whether calls of the definition may lend it this argument. */
bool instance_takes_lent(Gen *g, const Name *global, uint32_t arg);
/* Parameters, as bits, that the function calls, or hands to one that does. */
uint64_t instance_called(Gen *g, const Instance *in);
/* Whether a copy for the function as this argument is worth while, and no first one of ever more. */
bool instance_may_be_given(Gen *g, Instance *in, uint32_t param, const Instance *given);
/* The sizes of cells that a call of the definition in tail position may bring along, as bits. */
uint64_t definition_takes_spare(Gen *g, const Instance *caller, const Name *callee);
/* That of the cell which such a call brings along, of those that are there; 0: none. */
uint32_t instance_takes_spare(Gen *g, const Instance *caller, const Instance *in, uint64_t sizes);
/* Its copy for calls on such terms; itself for none. */
Instance *instance_on(Gen *g, Instance *in, Terms terms);
/* The function that the parameter always is; NULL: it is not known. */
Instance *instance_given(const Instance *in, uint32_t param);
/* Whether the parameter comes without a value: it is a function that captures nothing. */
bool instance_goes_without(const Instance *in, uint32_t param);
/* Whether closures of the instance need not be made: what they captured goes in their place, where the function is known that it is for. */
bool instance_is_spread(const Instance *in);
/* Whether the parameter comes so. */
bool instance_takes_spread(const Instance *in, uint32_t param);
/* Whether calls hand over no count of the parameter. */
bool instance_is_lent(const Instance *in, uint32_t param);

/* results.c */
/* Whether the result is a part of arguments that live until the caller has returned: these, as bits. */
bool instance_may_lend_result(Gen *g, Instance *in, uint64_t staying);
/* Whether a call of the one may lead to a call of the other, as far as is known. */
bool definition_leads_back(Gen *g, const Name *callee, const Name *caller);

/* shapes.c */
/* Finds the facts of an instance whose parameters have their types, and with them its result. */
void shapes_find(Gen *g, Instance *in);
/* Whether the call's operator does not take the shapes that were found: then it runs by itself and says so. */
bool shapes_misfit(const Instance *in, const Call *call);
/* What is called, from inside an instance. NULL after refusing. */
Instance *shapes_callee(Gen *g, const Instance *in, const Call *call, const Type *result);

/* closure.c */
/* What a closure of the instance captured, as one value. */
LLVMTypeRef spread_type(Gen *g, const Instance *in);
/* Of this operand, which is such a closure. */
Ssa fn_spread(Fn *f, const Expr *atom);
/* The closure with what was captured so. */
Ssa fn_closure_of_spread(Fn *f, Instance *in, Ssa captured);
/* What closures of this name say of themselves, when they do not keep their unit alive. */
const ObjectInfo *closure_info(Jit *jit, const Name *name);
/* A closure: the address of its code stands in the first field, what it captures behind it. */
Ssa fn_closure(Fn *f, Instance *in);
/* What it says of its closures, which have this name. */
void closure_describe(FunctionInfo *info, const char *name);
/* Whether its closures are cells and no more: they do not count their unit. */
bool closure_is_plain(const Gen *g, const Instance *in);
/* The code of the instance with the convention of closures. */
Ssa closure_thunk(Gen *g, Instance *in);
/* What an open instance captured, as a closure of the concrete one. */
Ssa fn_closure_at(Fn *f, Instance *in, Ssa open);
/* The code of a closure that came from anywhere, called as one of type `fn`, with the convention of closures; `type` is what it is, and
 * may be polymorphic. */
Ssa closure_code(Fn *f, const Type *fn, const Type *type, Ssa closure);
/* The instance's closures belong to those whose code this module has. */
void closure_list(Gen *g, Instance *in);
/* The table with the addresses that the module's infos point to. */
void closure_table(Gen *g);
/* After linking: gives the infos their addresses, and the sites of the unit what was wished; false when the code has no such table. */
bool closure_addresses(Unit *u, const Code *code);

/* ---- building.c: short words for LLVM's builder ---------------------------------------------------------------------- */

LLVMTypeRef gen_type(Gen *g, Repr r);
LLVMTypeRef gen_dtype(Gen *g, DType t); /* in a register: bool is i1, 16-bit floats are float */
LLVMTypeRef gen_stored(Gen *g, DType t); /* in memory: bool is i8, 16-bit floats are i16 */
Ssa gen_int(LLVMTypeRef t, int64_t v);
Ssa gen_offset(Gen *g, Ssa base, size_t bytes);
Ssa gen_load(Gen *g, LLVMTypeRef t, Ssa base, size_t bytes);
void gen_store(Gen *g, Ssa v, Ssa base, size_t bytes);
Ssa gen_call_abi(Gen *g, const char *name, Ssa *args, unsigned n);
/* The same where it is rarely done: values stay in the registers that they are in, so that the usual way saves none. */
Ssa gen_call_rare(Gen *g, const char *name, Ssa *args, unsigned n);
Ssa gen_intrinsic(Gen *g, const char *name, LLVMTypeRef overload, Ssa *args, unsigned n);
/* A constant pointer to something outside the module. */
Ssa gen_outside(Gen *g, ImportKind kind, const void *at);
/* The address that code has for it. */
const void *import_address(Jit *jit, ImportKind kind, const void *at);
/* The form of objects of the kind with such fields, in the session's heap. */
const ObjectForm *import_form(Ctx *cx, ValueKind kind, const Constructor *con, uint32_t n,
                              const uint64_t *heads);
/* A constant pointer to a copy of these bytes in the module. */
Ssa gen_bytes(Gen *g, const void *bytes, size_t n);
/* The arguments for a function that takes a place in a text. */
void gen_span(Gen *g, Span span, Ssa out[3]);
LLVMBasicBlockRef gen_block(Gen *g, Ssa fn, const char *name);
/* The conditional jump says which way is the usual one. */
void gen_branch(Gen *g, Ssa cond, LLVMBasicBlockRef then, LLVMBasicBlockRef otherwise, bool likely);
/* Goes on in `go`, with the value of the block of `from` that it was reached from. */
Ssa gen_either(Gen *g, LLVMBasicBlockRef go, Ssa values[2], LLVMBasicBlockRef from[2]);
void gen_attribute(Gen *g, Ssa fn, const char *name);
/* Whether the interrupt flag is set, as one bit. */
Ssa gen_interrupted(Gen *g, Ssa state);
/* A scalar as the 64 bits of a Value, and back; the head of a Value. */
Ssa gen_bits(Gen *g, Repr r, Ssa v);
Ssa gen_unbits(Gen *g, Repr r, Ssa bits);
Ssa gen_head(Gen *g, Repr r);
/* What is number i of the values at `values`. */
Ssa gen_argument(Gen *g, Repr r, Ssa values, uint32_t i);
/* Of a function that takes the state first. */
void gen_function_convention(Gen *g, Ssa fn, unsigned convention);
/* Tags are compared, where LLVM would look them up in a table. */
void gen_compare_tags(Gen *g, Ssa fn);
/* The function need not save registers for its callers, which then keep in none what they want behind the call. */
void gen_save_nothing(Gen *g, Ssa fn);
/* The call's convention, now that of what it calls: TAILCC unless a function says otherwise. */
unsigned gen_set_convention(Ssa call);
/* Calls, stores the result as a Value where the third parameter of the function says, and returns. */
void gen_give_back(Fn *f, LLVMTypeRef type, Ssa callee, Ssa *args, unsigned n, const Type *result);
/* Between register and memory. */
Ssa gen_to_stored(Gen *g, DType t, Ssa v);
Ssa gen_from_stored(Gen *g, DType t, Ssa v);

/* convention.c: the functions that the module has so far; no more come. */
void conventions_choose(Gen *g);
/* fronts.c: likewise; and when passes ran over it: LLVM marks calls where it goes no further round, which then contradict themselves. */
void fronts_choose(Gen *g);
void fronts_settle(LLVMModuleRef m);
/* align.c: before anything else is in the module, and when it is as it becomes code. */
void align_open(Gen *g);
void align_settle(LLVMModuleRef m);

/* ---- closed.c ------------------------------------------------------------------------------------------------------- */

/* A scalar, or a tuple or constructor of such, that is made once. */
typedef struct Closed {
    const Constructor *con; /* NULL: a scalar or a tuple */
    uint32_t n;
    const struct Closed *const *fields;
    uint32_t size; /* of how many it consists, itself one of them */
    Value value; /* counted by the arena */
} Closed;

/* NULL of what is no scalar, and of a constructor with fields. */
const Closed *closed_scalar(Arena *a, Value v);
const Closed *closed_nullary(Arena *a, const Constructor *con);
/* NULL when it is too large or memory is refused. */
const Closed *closed_object(Ctx *cx, Arena *a, const Constructor *con, uint32_t n,
                            const Closed *const *fields);
/* The function, in A normal form, with constants in place of constructors of what is known; NULL when a limit is hit. */
Function *closed_once(Gen *g, Function *fn);
/* rebuilt.c: the same with what is taken apart and written again as what it was. */
Function *rebuilt_once(Gen *g, Function *fn);

/* ---- making one function --------------------------------------------------------------------------------------------- */

/* What a variable stands for. */
typedef struct Val {
    const Type *type;
    Repr repr;
    Ssa at; /* NULL: not computed yet (plan.c), or made when it is needed */
    Instance *known; /* the function that it is */
    const Expr *atom; /* the global function, operator or constructor that it is another name for */
    Function *group; /* the kernel that it is, in A normal form (plan.c) */
    bool fixed; /* owned by nobody here: never released, retained when it is handed on */
    bool spread; /* a closure that is held as what it captured */
    bool lent; /* the same, by a value that lives at least as long */
    bool stays; /* lent, and it lives until the function has returned */
    bool held; /* lent, and it lives until then or until a call in tail position */
    bool dense; /* a tensor that is row-major without gaps */
    const Tensor *tensor; /* the one that it always is, where that is known */
    const Value *number; /* the same of a number */
} Val;

typedef struct Plan Plan;
typedef struct Own Own;
typedef Vec(const Var *) VarStack;

/* The memory of an object whose fields were moved out, or NULL, for another with as many; or a value that the block holds. */
typedef struct KeptCell {
    Ssa cell;
    uint32_t n;
    bool sure; /* it is not NULL */
    const Type *held; /* of the value; NULL: it is memory */
    const LiveBlock *block; /* where it ends */
    bool ends_inside; /* of the blocks that come next */
} KeptCell;
typedef Vec(KeptCell) KeptCells;

/* A value of which the clause at hand reads the fields; where it ends before they do, they move out of it. */
typedef struct Opened {
    const Var *var;
    const Pattern *pattern;
    const Type *type;
} Opened;

/* A value made for an operand of the position at hand, with one count that nothing has yet. */
typedef struct Made {
    const Expr *atom;
    const Type *type; /* that it is wanted at */
    Ssa value;
    const LiveBlock *block; /* that the position is in */
} Made;

/* A variable that owns its value in one block, and is lent it outside. */
typedef struct Rebound {
    const Var *var;
    Val *before;
} Rebound;

/* What a block does to the scope, which is then as before again. */
typedef struct ScopeChange {
    const Var *dropped; /* NULL: a variable was added */
    size_t at;
    bool stood; /* its value, in the frame */
    uint32_t place; /* of the frame, and one */
} ScopeChange;

typedef struct Frame Frame;

struct Fn {
    Gen *g;
    Instance *in;
    Ssa fn, state, self;
    Live *live;
    LLVMBasicBlockRef entry, loop; /* where self calls in tail position jump to */
    Ssa *phis;
    PtrMap vals; /* Var -> Val */
    VarStack scope; /* bound and not ended, for letting go on failure */
    Vec(ScopeChange) changes; /* by the blocks that the code stands in, without the first */
    LiveBlock *block;
    bool tail; /* its end is the function's */
    uint32_t at; /* position in it */
    Expr *here; /* the let at that position, or what the block ends with */
    VarStack
        ended_inside; /* branches of the position at hand, of which another may be still to come */
    VarStack moved; /* handed on by the position being made */
    VarStack waiting; /* ended, but the plan still reads them */
    KeptCells kept;
    Vec(Opened) opened;
    Vec(Rebound) rebound;
    Vec(Made) made; /* let go of where the code leaves */
    Frame *
        frame; /* where ways that fail find what the function owns (leave.c); NULL: each knows by itself */
    PtrMap sizes; /* body of a block -> which objects it may make (cell.c) */
    PtrMap last_sizes; /* the same in tail position, with those of the call by which it ends */
    Plan *plan;
    Own *own; /* NULL: nothing is noted (own.c) */
    unsigned
        drops; /* how many functions that end values this one stands below, itself one of them */
    bool ended; /* the block has its terminator: nothing follows */
    bool guarded; /* the stack and the interrupt were looked at */
    size_t ways; /* that a tag decides between, at most */
    bool front; /* clauses that come back from calls are functions of their own */
    bool split; /* the clause at hand is made twice (match.c) */
    LLVMBasicBlockRef counted; /* whose instructions up to `counted_to` are `count` (fn_cut) */
    Ssa counted_to;
    size_t count;
    bool wants_fields; /* of the tuple that the block at hand gives */
    Ssa fields; /* that the last let of the block gave; NULL: none */
};

/* Code at the start of a block, before what it does not use ends. */
typedef void BlockStart(Fn *f, void *data);

/* gen.c: looks at the stack and the interrupt, before the first block on a way that calls: what ends without a call needs neither. */
void fn_guard(Fn *f);

/* Begins another block of LLVM's where the one at hand is long: where values are bound, made or let go of in a row. */
void fn_cut(Fn *f);

/* function.c */
bool function_make(Gen *g, Instance *in);
/* Whether each value in the function is one of the type that it is used as, or code makes one of it; refuses otherwise. */
bool function_uses_suit(Gen *g, const Function *fn);
/* With the extents that are known. */
const Type *fn_type(Fn *f, const Expr *e);
Val *fn_val(Fn *f, const Expr *atom);
Val *fn_bind(Fn *f, const Var *v, const Type *t, Ssa at);
/* The function of this type that a definition, an operator or a constructor is as a value; NULL after refusing. */
Instance *fn_instance_of_atom(Fn *f, const Expr *atom, const Type *type);
/* False after refusing: a polymorphic function that came from elsewhere has no code at the one type that is wanted. */
bool fn_stands_for(Fn *f, const Type *own, const Type *wanted);
/* The operand's value, lent. */
Ssa fn_borrow(Fn *f, const Expr *atom);
/* The operand's value, owned: moved when this is its last use. */
Ssa fn_take(Fn *f, const Expr *atom);
/* The same where a function is wanted as a value of this type. */
Ssa fn_take_as(Fn *f, const Expr *atom, const Type *type);
/* The values that operands come to: what may fail has happened before the first of them is taken. Types: those they are wanted at; NULL:
 * their own. */
void fn_settle(Fn *f, uint32_t n, Expr *const *atoms, const Type *const *types);
/* Until it has another owner the value is let go of where the code leaves. */
void fn_hold(Fn *f, const Type *type, Ssa v);
void fn_unhold(Fn *f, Ssa v);
/* The variable's value has been handed on. */
void fn_moved(Fn *f, const Var *v);
/* Whether the parameter is used nowhere: where it was bound it was let go of, by the front where there is one. */
bool fn_let_go(const Fn *f, uint32_t param);
/* Whether the variable's value ends with the current position (and is ours to end). */
bool fn_dies(Fn *f, const Var *v);
void fn_retain(Fn *f, Repr r, Ssa v);
void fn_release(Fn *f, Repr r, Ssa v);
/* The same, faster, for what is known by its type. */
void fn_release_as(Fn *f, const Type *type, Ssa v);
/* What the variable has. */
void fn_release_val(Fn *f, const Val *val);
void fn_release_cold(Fn *f, Repr r, Ssa v);
/* Gives up a count of an object that has others. */
void fn_release_shared(Fn *f, Repr r, Ssa object, Ssa refs);
/* Lets go of what ends with this position and was not moved. */
void fn_release_dead(Fn *f);
/* Code for the block; in tail position it returns by itself and the result is NULL. The result is owned. */
Ssa fn_block(Fn *f, LiveBlock *block, const Type *type, bool tail, BlockStart *start, void *data);
void fn_return(Fn *f, Ssa v);

/* fields.c */
/* Whether a function may give the tuple field by field. */
bool fields_fit(const Type *t);
/* Of a tuple as its fields. */
LLVMTypeRef fields_type(Gen *g, const Type *t);
/* Whether the value is a tuple as its fields. */
bool fn_is_fields(Ssa v);
/* The tuple of these operands as its fields, owned. */
Ssa fn_fields(Fn *f, const Type *type, Expr *const *fields);
/* From a tuple to its fields and back; what comes is owned, and was. */
Ssa fn_open_tuple(Fn *f, const Type *type, Ssa tuple);
Ssa fn_close_tuple(Fn *f, const Type *type, Ssa fields);
/* How many lets follow this one that take each field of its variable at most once, when nothing else uses it; 0: something does. */
uint32_t fn_projections(Fn *f, const Let *let);
/* Binds them. Gives the last one. */
Let *fn_bind_projections(Fn *f, Let *let, uint32_t n, const Type *type, Ssa fields);

/* leave.c */
/* A variable is bound; it has ended. */
void scope_add(Fn *f, const Var *v);
void scope_drop(Fn *f, const Var *v);
/* A value made for an operand has an owner, or was let go of. */
void made_drop(Fn *f, size_t i);
/* Behind the block at hand: the scope is again what it was when there were so many changes. */
void scope_return(Fn *f, size_t changes);
/* Behind all branches of the let at hand: what ended in them is not in scope any more. */
void scope_end(Fn *f);
/* What the function gives when it fails. */
Ssa fn_zero(Fn *f);
/* Whether the variable owns a count. */
bool val_is_counted(const Val *v);
/* Goes on when `bad` is false; else lets go of everything and returns. */
void fn_fail_if(Fn *f, Ssa bad);
void fn_fail_if_failed(Fn *f);
void fn_fail_if_null(Fn *f, Ssa pointer);
/* Lets go of everything and returns. */
void fn_leave(Fn *f);
/* The same, and of these tensors, which may be NULL. */
void fn_leave_holding(Fn *f, const SsaList *held);
/* Where code goes straight ahead, before something is asked that may fail: what is owned now, `held` included, goes into the frame. */
void frame_fill(Fn *f, const SsaList *held);
/* The same before what hardly ever fails, or fails in branches: where so much is owned that it is worth it. */
void frame_fill_much(Fn *f);
/* The function may have a frame; its end, when all ways lead there that will. */
void frame_begin(Fn *f);
void frame_end(Fn *f);

/* call.c: the value is owned; `tail` calls return by themselves (NULL and f->ended). */
Ssa fn_call(Fn *f, const Call *call, const Var *var, bool tail);
/* Goes on in the clause's own function. */
void fn_go_behind(Fn *f, uint32_t clause);
Ssa fn_tuple(Fn *f, const Type *type, uint32_t n, Expr *const *fields);
/* The number of the constructor of a value of a data type with so many. */
Ssa fn_tag(Fn *f, Ssa object, uint32_t n_cons);
void fn_set_field(Fn *f, Ssa object, uint32_t i, Repr r, Ssa v);
Ssa fn_get_field(Fn *f, Ssa object, uint32_t i, Repr r);
/* Room in the frame, made once however often the code runs. */
Ssa fn_room(Fn *f, LLVMTypeRef type, unsigned n);
/* The operator on scalars as code; NULL when it is none of that kind. */
Ssa fn_scalar_op(Fn *f, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                 const Type *const *types, Ssa *args, const Type *result);

/* cell.c */
/* A new object whose fields, held so, the caller stores at once. */
Ssa fn_object(Fn *f, ValueKind kind, const Constructor *con, uint32_t n, const Repr *fields);
/* Whether the code itself takes the memory of objects with n fields from a list, and gives it back. */
bool fn_cell_is_listed(uint32_t n);
/* Gives back the memory of an object with n fields that were moved out. */
void fn_free_cell(Fn *f, Ssa object, uint32_t n);
/* Whether the block may make an object with n fields; then such a cell may be kept for it. */
bool fn_wants_cell(Fn *f, uint32_t n);
void fn_keep_cell(Fn *f, Ssa cell, uint32_t n, bool sure);
/* That of an object whose fields moved out of it where the code comes from `alone`. */
void fn_keep_moved(Fn *f, Ssa object, uint32_t n, LLVMBasicBlockRef alone,
                   LLVMBasicBlockRef shared);
/* The sizes of cells that may go along with the call by which the block ends, as bits; such a cell, or NULL. */
uint64_t fn_spare_sizes(const Fn *f);
Ssa fn_spare(Fn *f, uint32_t n);
/* The sizes of the objects that the function of that name may make of a cell that comes along, as bits: none where it calls itself, as it would
 * have one the first time alone. */
uint64_t cell_sizes(Gen *g, const Function *fn, const Name *self);
/* A value that lives until the block ends, or until it ends with a call in tail position. */
void fn_hold_value(Fn *f, const Type *type, Ssa v);
/* Before the blocks of an `if` or `match`, at the beginning of each, and behind them. */
void fn_cells_branch(Fn *f, const Expr *e, bool tail);
void fn_cells_enter(Fn *f);
void fn_cells_join(Fn *f);
/* Gives back what this block kept and did not use: at its end, before a call in its place. */
void fn_cells_end(Fn *f);
/* The same on the way out. */
void fn_cells_leave(Fn *f);

/* drop.c: ends an object of the type, whose last count was given up; a closure of the instance, where that is known. */
void fn_drop(Fn *f, const Type *type, const Instance *closure, Ssa v);

/* match.c */
Ssa fn_if(Fn *f, const If *e, const Type *type, bool tail);
Ssa fn_match(Fn *f, const Match *e, const Type *type, bool tail);
/* The variable's value, which is ours, ends at the beginning of this block. */
void fn_end_value(Fn *f, const Var *v);

/* Whether the value is one that the match takes apart. */
bool match_looks_at(const Match *e, const Var *v);
/* Whether a value of the type may wait in the plan of kernels, and be read later. */
bool match_may_wait(const Type *t);

/* decide.c */
/* Code that goes from here to the clause that takes the values. Behind the last clause: where what none takes goes; NULL: there is no
 * such value. */
void fn_decide(Fn *f, const Match *e, const Type *const *types, const Ssa *values,
               const LLVMBasicBlockRef *clauses);
/* Of the field of a value of the type that fits the pattern. */
const Type *pattern_field_type(Fn *f, const Pattern *p, const Type *type, uint32_t i);

/* ---- own.c: what code does to the counts of values is noted and checked in builds for development -------------------- */

#ifndef NDEBUG
/* Between these all that the code of the function does is noted; at the end it is checked. */
void own_begin(Fn *f);
void own_end(Fn *f);
/* The code up to here has made this value, or taken it from where nothing keeps it alive: one count is the function's. */
void own_make(Fn *f, Ssa v);
/* The code up to here has counted it once more, or given up one count. */
void own_gain(Fn *f, Ssa v);
void own_lose(Fn *f, Ssa v);
/* Takes over one count of the value that comes. */
void own_phi(Fn *f, Ssa phi);
#else
#define own_begin(f) ((void)(f))
#define own_end(f) ((void)(f))
#define own_make(f, v) ((void)(v))
#define own_gain(f, v) ((void)(v))
#define own_lose(f, v) ((void)(v))
#define own_phi(f, phi) ((void)(phi))
#endif

/* ---- scalar.c, math.c: the meaning of scalar functions, for scalars and for vectors of them --------------------------- */

typedef struct Lanes {
    Gen *g;
    unsigned n; /* 1: plain scalars */
    Ssa mask; /* of the lanes that count; NULL: all */
    /* Code for the case that `bad` (one bit) holds: the function named by `report` tells what went wrong. */
    void (*fault)(void *data, Ssa bad, const char *report);
    void *data;
} Lanes;

LLVMTypeRef lanes_type(const Lanes *l, LLVMTypeRef element);
Ssa lanes_splat(const Lanes *l, Ssa scalar);
Ssa lanes_float(const Lanes *l, LLVMTypeRef element, double v);
Ssa lanes_int(const Lanes *l, LLVMTypeRef element, int64_t v);
Ssa lanes_unary(const Lanes *l, int op, DType t, Ssa a);
Ssa lanes_binary(const Lanes *l, int op, DType t, Ssa a, Ssa b);
/* TE_DOTS or TE_PAIRS of x and y, added to acc where it is not NULL. */
Ssa lanes_dots(const Lanes *l, int op, Ssa acc, Ssa x, Ssa y);
Ssa lanes_cast(const Lanes *l, DType to, DType from, Ssa a);
Ssa lanes_const(const Lanes *l, Value v);
/* A function of the C library, a call for each lane. */
Ssa lanes_library(const Lanes *l, const char *name, DType t, Ssa *args, unsigned n);
/* Whether the bit is set in a lane that counts. */
Ssa lanes_any(const Lanes *l, Ssa bits);
/* Functions as polynomials, 16-bit floats being float32 here; NULL for those that have none. */
Ssa lanes_math(const Lanes *l, int op, DType t, Ssa x);
Ssa lanes_power(const Lanes *l, DType t, Ssa x, Ssa y);

#endif
