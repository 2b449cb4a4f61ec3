/* Resolved code, frames and what the files of the evaluator share.
 *
 * A function in A normal form becomes a tree of blocks; a block is a chain of steps, and a step is one binding. Its operands are
 * places: slots of the frame, values that the closure captured, or constants. Where a slot is read for the last time its value is
 * moved out, so that what nobody needs is released at once and at a return every slot is empty. Blocks end by returning, by a tail
 * call, or by joining the step whose branch they are. */
#ifndef INTERP_INTERNAL_H
#define INTERP_INTERNAL_H

#include "interp/interp.h"
#include "interp/observe.h"
#include "interp/tier.h"
#include "ir/decide.h"
#include "te/te.h"

#include <string.h>

typedef struct Step Step;
typedef struct Code Code;
typedef struct OpSite OpSite;
typedef struct Tally Tally;

#define NO_SLOT UINT32_MAX

/* What the loop over steps does for each of them costs no call. */
#define INLINE static inline __attribute__((always_inline))

typedef enum OperandBase { BASE_SLOTS, BASE_CAPTURED, BASE_CONSTANTS, BASES } OperandBase;

/* What the type of a value says of how it is kept. A scalar of a known dtype is KNOWN_SCALAR and the dtype's id. */
typedef enum Known {
    KNOWN_NOTHING,
    KNOWN_TUPLE,
    KNOWN_CON,
    KNOWN_REF,
    KNOWN_FUNCTION,
    KNOWN_SCALAR
} Known;

typedef struct Operand {
    uint32_t at; /* in the frame: what was captured stands behind the slots */
    uint8_t base; /* OperandBase */
    bool last; /* a slot that is not read again: its value is moved out */
    uint8_t known;
} Operand;

typedef enum StepKind {
    STEP_OP, /* an operator on args */
    STEP_OP_IF, /* the same, and its result only decides at the IF that follows */
    STEP_IF, /* args[0] decides between two blocks */
    STEP_CALL, /* the closure args[n] on n args */
    STEP_CALL_GLOBAL,
    STEP_TAIL_CALL,
    STEP_TAIL_GLOBAL,
    STEP_RETURN, /* args[0] to the caller */
    STEP_JOIN, /* args[0] to the dest of `join`, where it goes on */
    STEP_MATCH, /* args[0] against the clauses */
    STEP_CON,
    STEP_TUPLE,
    STEP_GET, /* field `index` of args[0] */
    STEP_CLOSURE, /* `code` with args as its captured values */
    STEP_GLOBAL, /* a global function as a value */
    STEP_REF_NEW,
    STEP_REF_READ,
    STEP_REF_WRITE,
    STEP_DROP, /* args are not needed on this way */
    STEP_KINDS
} StepKind;

/* How a step is run: as its kind says or, where types tell more, by one of these, which read what was put together for them. An operation
 * on two scalars has three forms: both stand in the frame, or the second, or the first, is a constant. Whoever watches steps runs
 * them as their kinds say. */
typedef enum ScalarForm { FORM_SLOTS, FORM_SECOND, FORM_FIRST, SCALAR_FORMS } ScalarForm;

typedef enum StepRun {
    RUN_KINDS = STEP_KINDS - 1,
#define FORMS(name) RUN_##name, RUN_##name##_SECOND, RUN_##name##_FIRST
#define SCALAR(name, op, dtype, T, result) FORMS(name),
#define DIVISION(name, op, dtype, T, result) FORMS(name),
#define DECISION(name, op, dtype, T, result) FORMS(name), FORMS(IF_##name),
#include "interp/scalar.def"
#undef FORMS
    RUN_IF, /* words[a] decides */
    RUN_MATCH, /* by the tags */
    RUN_MATCH_FIELDS, /* a tuple and the match behind it: the tuple is not made */
    RUN_OBJECT, /* an object whose form is the same each time */
    RUN_CLOSURE, /* likewise */
    RUN_RETURN_OBJECT, /* the same, and the step behind them returns it */
    RUN_RETURN_CLOSURE,
    RUN_GET, /* a field of which it is known how it is kept */
    RUN_RETURN, /* the scalar words[a] */
    RUN_AGAIN, /* a call of itself as the last thing, whose arguments can be moved one after the other */
} StepRun;

typedef struct CodeBlock {
    Step *first;
    Vec(Step *) steps; /* without the drops in front */
} CodeBlock;

/* A constructor or tuple of a pattern, after those that it lies in: where its value stands, and what it must be. The first is the
 * scrutinee itself. */
typedef struct PatternTest {
    const Constructor *con; /* NULL: a tuple, which fits */
    uint32_t n; /* its fields */
    uint32_t parent, field;
} PatternTest;

/* A variable of a pattern. */
typedef struct PatternBind {
    const Var *var;
    uint32_t slot; /* NO_SLOT: it is not used */
    uint32_t parent, field;
    uint8_t known;
} PatternBind;

typedef struct PatternCode {
    bool is_var; /* the pattern is one variable, binds.at[0], or `_` */
    Span span;
    Vec(PatternTest) tests;
    Vec(PatternBind) binds;
} PatternCode;

/* A variable that got its value, which was there already, without a step. */
typedef struct StepNote {
    const Var *var;
    Span span;
    Operand at;
    bool gone; /* nobody reads it, and its place may be another's by now */
} StepNote;

/* For an observer: the variables of the text. */
typedef struct StepInfo {
    const Var *var; /* receives the result; NULL: a temporary */
    Vec(StepNote) notes; /* from before this step */
} StepInfo;

/* At which types a call calls a polymorphic definition. */
typedef struct TypedCall {
    uint32_t n;
    const Type **types; /* in the type variables of the definition that calls */
    uint64_t epoch; /* what follows is of this epoch, for the frames of `of` */
    const Tally *of;
    Tally *tally;
} TypedCall;

/* A field of an object that a clause takes apart. */
typedef struct MatchField {
    uint64_t head; /* 0: the object's form knows */
    uint32_t slot; /* NO_SLOT: nobody wants it */
    uint32_t field;
    uint32_t part; /* it is taken apart itself, as the part of this number; 0: it is not */
} MatchField;

/* An object that a clause takes apart: its fields in four groups, each of which ends where the next one begins. */
typedef struct MatchPart {
    MatchField *fields;
    uint32_t parts; /* taken apart themselves */
    uint32_t scalars; /* bound, and known to be scalars */
    uint32_t bound;
    uint32_t n; /* the last: somebody must let go of them, when that is whoever takes it apart */
} MatchPart;

/* The fields that lead from the value that is matched, or from the first field of the tuple in its place, to what is looked at. Longer
 * ways are left to trying one clause after the other. */
#define PATH_MOST 6

/* What a `match` by the tags does with one constructor, or with all that were not named: it reads another tag, or the clause is found. */
typedef struct MatchCase {
    const struct MatchCase *cases; /* of the tag that is read; NULL: the clause is found */
    uint32_t
        from; /* of a tuple that is not made: the word of the frame where the field stands on which the way begins */
    uint8_t depth;
    uint8_t path[PATH_MOST];
    bool by_tag; /* its cases stand by their tags, not one behind the other */
    bool more; /* others come behind this one, which takes one tag only */
    uint8_t tag;
    bool any; /* the clause takes any value, and nothing apart */
    const Step *first; /* of the clause; NULL: none takes the value */
    MatchPart whole; /* the value itself */
    MatchPart *others; /* each behind the one that holds it: the part number 1 is the first */
    uint32_t n_others;
    uint32_t slot; /* for the value as it is, where `any`; or NO_SLOT */
} MatchCase;

/* A part on its way to the slots. */
typedef struct Held {
    Object *object;
    bool ours; /* a count of it is to be given up */
} Held;

/* An argument of a tail call on its way to the slot of the parameter. */
typedef struct Move {
    Operand from;
    uint32_t to;
} Move;

struct Step {
    uint16_t run; /* StepRun, or its kind */
    uint8_t kind; /* StepKind */
    uint8_t known; /* of the result */
    uint32_t n; /* args */
    uint32_t dest; /* the slot of the result; NO_SLOT: it is not needed */
    uint32_t a, b, out; /* where the two scalars and the result stand, in words of the frame */
    Step *next;
    uint64_t constant; /* in place of one of the two */
    union {
        uint64_t head; /* of the result */
        const Step *to[2]; /* where a decision goes */
        const MatchCase *cases;
        const Move *moves; /* of RUN_AGAIN, so many as `a` says */
    };
    Operand *args;
    StepInfo *info; /* NULL: nothing to say */
    Span span;
    union {
        struct { /* OP */
            const Op *op;
            const Attrs *attrs;
            OpSite *site;
        };
        struct { /* IF, MATCH */
            uint32_t n_blocks;
            CodeBlock *blocks;
            PatternCode *patterns; /* one for a block */
            const MatchDecision *decision; /* NULL: clauses are tried one by one */
        };
        struct { /* CALL_GLOBAL, GLOBAL */
            const Name *name;
            const Code *found; /* in the environment number `epoch` */
            uint64_t epoch;
            TypedCall *typed; /* NULL: the definition is not polymorphic */
        };
        struct { /* CLOSURE, CON, TUPLE, REF_NEW */
            union {
                const Code *code;
                const Constructor *con;
            };
            const ObjectForm *made; /* the form of the object that it made last */
        };
        const Step *join; /* JOIN */
        int64_t index; /* GET */
    };
};

/* A definition that a step names, the type that the step was checked with, and the code that it is a step of. */
typedef struct Named {
    const Name *name;
    const Type *type;
    const Code *in;
} Named;

/* What was prepared together and goes together: a definition or an expression, and the functions inside. */
typedef struct Unit {
    Interp *in; /* of the engine that made it */
    uint32_t refs;
    Arena arena;
    TypeRoot root;
    Module *keep; /* in whose arenas attributes lie */
    Module *checks; /* those of checks of declared shapes; NULL: there are none */
    Vec(Value) constants;
    Vec(Code *) codes;
    Vec(Named) globals;
    uint32_t most_args, most_tests, steps;
} Unit;

/* What a definition has done at these types, in steps and elements (tier.h). */
struct Tally {
    uint64_t work, next; /* the count at which something is to be done */
    const Code *code;
    bool begun; /* code was asked for */
    uint32_t n_types;
    const Type *const *types;
    void *made; /* code of the tier's, begun or made; NULL: none */
    Tally *next_made; /* of the evaluator's */
    uint64_t epoch; /* in which calls go to it; 0: none */
    Tally *other; /* of the same code */
};

struct Code {
    ObjectInfo info; /* of the closures over this code; first, so that a closure finds its code */
    Unit *unit;
    const Code *outer; /* in which the function stands; NULL: in none */
    CodeBlock body;
    const Value *constants; /* the unit's */
    uint32_t frame_bytes;
    uint32_t cost; /* what a call counts: the steps of a closure, or of all the unit */
    const Type *type; /* of the function; NULL when unknown */
    const Name *name; /* of a definition; NULL: something inside one, or an expression */
    uint32_t n_vars; /* its type parameters */
    const TypeVar *const *vars;
    Tally *tally; /* of a definition and its closures; of a polymorphic one the newest, or NULL */
    uint32_t n_params; /* in the first slots */
    uint32_t n_slots;
    uint32_t n_counted; /* the slots behind these never hold anything but scalars */
    uint32_t
        self_slot; /* receives the closure itself, so that it need not capture itself; or NO_SLOT */
    Vec(Var *) free_vars; /* of an expression: what it captures, to be given by the caller */
    Span span; /* the text of the function */
    const Var *var; /* to which the closure is bound; NULL: none of the text */
    Vec(const Var *) params, captured; /* for an observer; NULL: none of the text */
};

typedef struct Frame Frame;
struct Frame {
    Frame *caller;
    const Step *call; /* the caller's step that waits; NULL: the evaluation ends with this frame */
    Object *closure; /* counted; NULL for a global function */
    const Code *code;
    Tally *tally; /* what it does counts here; NULL: nowhere */
    Value slots[];
};

typedef struct Segment Segment;

/* Frames lie in segments, so that they never move and deep recursion copies nothing. */
typedef struct Stack {
    Segment *segment; /* the newest that holds a frame; one spare may hang on it */
    char *first, *next, *end; /* of it */
    size_t bytes; /* of all segments */
    uint64_t depth, depth_most;
} Stack;

#define PROGRAM_BUCKETS 1024

/* The tensor programs of the operators that ran, by operator, attributes and types. */
typedef struct Programs {
    Arena arena;
    TypeRoot root;
    struct OpProgram *buckets[PROGRAM_BUCKETS];
    uint64_t generation; /* changes when they are forgotten; never 0 */
} Programs;

struct Interp {
    Ctx *cx;
    Frame *frame;
    Stack stack;
    uint32_t calls; /* until the limits are asked */
    uint32_t stride; /* of them since they were, when it comes to that */
    atomic_uint_least64_t *counted; /* steps, where somebody looks; NULL: nobody does */
    Module *env; /* counted */
    uint64_t epoch; /* changes with the environment */
    PtrMap codes; /* Function -> Code of a definition, whose unit is counted */
    Programs programs;
    Arena scratch; /* of one operator call */
    Value *args; /* room for the arguments of any call */
    Held *held; /* room for the tests of any pattern */
    uint32_t args_cap, held_cap;
    const ObjectForm *plain_function; /* of closures that captured nothing; NULL: not known yet */
    Value result; /* of the evaluation, when it has ended */
    bool stopped; /* the frame where the evaluation began is gone */
    const Step *failed; /* of an evaluation that ended by a failure in its last frame */
    const Observer *observer; /* NULL: nobody watches */
    const Tier *tier; /* NULL: none */
    Tally *made; /* those with code */
    bool tier_on;
    uint64_t tier_begin, tier_take; /* the counts */
    int turns_between; /* calls of code that are not done, each inside the one before */
};

/* ---- prepare.c, lifetime.c, slots.c, choose.c ---------------------------------------------------------------------- */

/* The code of a function, or of an expression as a function without parameters. Its unit is the caller's; NULL after a diagnostic. */
Code *code_prepare(Interp *in, Module *keep, Expr *root);
void unit_release(Unit *u);
/* Marks the last use of each slot and drops what a branch does not need. */
void code_mark_last(Unit *u, Code *code);
/* Renumbers the slots after that, so that values which never live at once share one. */
void code_share_slots(Unit *u, Code *code);
/* Puts together for each step, last of all, what it is run by. */
void code_choose_runs(Interp *in, Unit *u, Code *code);

/* ---- stack.c ------------------------------------------------------------------------------------ */

/* Room for a frame that the newest segment has not; false when a limit was hit. */
bool stack_grow(Interp *in, size_t bytes);
/* The newest segment has no frame any more. */
void stack_shrink(Interp *in);
void stack_deinit(Interp *in);

/* limit_hit, asked at every so many calls, between which nothing takes long: an operator that may resets the count. */
#define CALLS_BETWEEN 256

/* One thread counts. */
static inline void interp_note_steps(Interp *in, uint32_t more)
{
    if (in->counted)
        atomic_store_explicit(in->counted,
                              atomic_load_explicit(in->counted, memory_order_relaxed) + more,
                              memory_order_relaxed);
}

/* The limits are asked at the next call. */
static inline void eval_ask_soon(Interp *in)
{
    in->stride -= in->calls - 1;
    in->calls = 1;
}

INLINE bool eval_must_stop(Interp *in)
{
    if (--in->calls > 0)
        return false;
    interp_note_steps(in, in->stride);
    in->calls = in->stride = CALLS_BETWEEN;
    return limit_hit(&in->cx->limits);
}

INLINE void frame_begin(Stack *st, Frame *f, const Code *code)
{
    st->next = (char *)f + code->frame_bytes;
    f->code = code;
    for (uint32_t i = code->n_params; i < code->n_counted; i++)
        f->slots[i].kind = VALUE_NONE;
}

INLINE Frame *frame_new(Interp *in, const Code *code)
{
    Stack *st = &in->stack;
    if (st->depth >= st->depth_most) {
        limit_reach(&in->cx->limits, LIMIT_DEPTH);
        return NULL;
    }
    if ((size_t)(st->end - st->next) < code->frame_bytes && !stack_grow(in, code->frame_bytes))
        return NULL;
    Frame *f = (Frame *)(void *)st->next;
    st->depth++;
    frame_begin(st, f, code);
    return f;
}

/* A frame on top of the stack for the caller to fill: the parameters, what it belongs to, where it returns to. Its other slots that may hold
 * something counted are empty. NULL when a limit was hit. */
INLINE Frame *eval_frame_push(Interp *in, const Code *code)
{
    return eval_must_stop(in) ? NULL : frame_new(in, code);
}

static inline void eval_frame_pop(Interp *in, Frame *f)
{
    Stack *st = &in->stack;
    st->depth--;
    st->next = (char *)f;
    if (st->next == st->first)
        stack_shrink(in);
}

/* A frame that returns to where the newest one would have, which is empty and goes. NULL when a limit was hit. */
INLINE Frame *eval_frame_replace(Interp *in, Frame *f, const Code *code)
{
    Stack *st = &in->stack;
    bool stop = eval_must_stop(in);
    if (!stop && (size_t)(st->end - (char *)f) >= code->frame_bytes) {
        frame_begin(st, f, code);
        return f;
    }
    Frame *caller = f->caller;
    const Step *call = f->call;
    eval_frame_pop(in, f);
    f = stop ? NULL : frame_new(in, code);
    if (f) {
        f->caller = caller;
        f->call = call;
    }
    return f;
}

/* Where the values stand that the frame's closure captured, lent: behind the slots and the one for an observer. */
static inline uint32_t captured_at(const Code *code)
{
    return code->n_slots + 1;
}

/* ---- eval.c ------------------------------------------------------------------------------------- */

/* Runs the pushed frame, whose arguments and closure are in place, to its end. VALUE_NONE after a diagnostic. */
Value eval_frame_run(Interp *in, Frame *f);

/* Runs one step and returns the next. */
const Step *eval_step(Interp *in, Step *s);
/* Makes the pushed frame the running one; its first step. */
const Step *eval_frame_start(Interp *in, Frame *f);

/* ---- observe.c ---------------------------------------------------------------------------------- */

/* Runs the pushed frame, telling the observer. Returns the step that failed; NULL when the evaluation has ended. */
const Step *observe_frame(Interp *in, Frame *f);

/* ---- call.c ------------------------------------------------------------------------------------- */

/* The code of the global that the step names; NULL after a diagnostic. */
const Code *global_code(Interp *in, Step *s);
/* A closure over the code with room for n captured values; VALUE_NONE when memory is refused. */
Value closure_new(Interp *in, const Code *code, uint32_t n);
extern const FunctionKind evaluated_functions;
/* The code of a function value; NULL when it is none of this engine's. */
static inline const Code *closure_code(Value v)
{
    const ObjectInfo *info =
        v.kind == VALUE_FUNCTION
            ? (const ObjectInfo *)(uintptr_t)v.object->fields[FUNCTION_INFO].bits
            : NULL;
    return info && info->function == &evaluated_functions ? (const Code *)(const void *)info : NULL;
}
/* Puts a function of this engine in the place of one of another; when it cannot, the value stays. */
void adopt_function(Interp *in, Value *fn);
/* Calls a function value of another engine on arguments, which stay; VALUE_NONE after a diagnostic. */
Value foreign_call(Interp *in, Value fn, uint32_t n, const Value *args, Span span);

/* ---- tier.c ------------------------------------------------------------------------------------- */

/* Gives the code of the definition what it counts with. */
void tally_init(Code *code, const Function *fn);
/* Nobody calls the definition any more, but what closures of it do is still counted: that leads nowhere. */
void tally_end(const Code *code);
/* Lets go of what was made for the unit's definitions. */
void tally_drop(const Unit *u);
/* Likewise for those of all units, which may live on with closures. */
void tally_drop_all(Interp *in);
/* Where a call of a polymorphic definition counts while the tier is on; NULL: nowhere. */
Tally *tally_at(Interp *in, const Step *s, const Code *code);
/* A count was reached: code may be wanted. */
void tally_wants(Interp *in, Tally *t);
/* Counts what an operator computed, or a closure did. */
static inline void tally_work(Interp *in, Tally *t, uint64_t work)
{
    t->work += work;
    if (t->work >= t->next)
        tally_wants(in, t);
}
/* Counts a call of the closure for the definition that it stands in. Gives where it counts; NULL: nowhere. */
static inline Tally *tally_closure(Interp *in, const Code *code)
{
    Tally *t = code->unit->in == in ? code->tally : NULL;
    if (t)
        tally_work(in, t, code->cost);
    return t;
}
/* A count was reached: whether the tier takes this call. */
bool tally_takes(Interp *in, Tally *t);
/* Its result; the arguments are taken. */
Value tally_call(Interp *in, const Tally *t, uint32_t n, const Value *args, Span span);

/* Counts a call of the code; whether the tier takes it. */
static inline bool tally_add(Interp *in, Tally *t, const Code *code)
{
    if (!t)
        return false;
    t->work += code->cost;
    return t->work >= t->next && tally_takes(in, t);
}

/* ---- site.c, scalar.c --------------------------------------------------------------------------- */

typedef struct OpProgram OpProgram;

/* What an operator call remembers. */
struct OpSite {
    const OpProgram *latest; /* while the generation is that of the table */
    uint64_t generation;
};

/* Runs the operator of the step on its arguments, which stay. VALUE_NONE after a diagnostic. */
Value site_run(Interp *in, Step *s);
void programs_clear(Programs *ps);
/* An operator on scalars of these dtypes that is one operation on two scalars, the second of which is zero where it takes one. */
typedef struct ScalarOp {
    uint16_t run; /* StepRun, in its first form; 0: it is none */
    bool decides; /* a bool is the result: the forms that branch come after its own */
    bool swapped; /* it takes the second argument first */
    uint64_t head; /* of the result */
} ScalarOp;

ScalarOp site_scalar(Interp *in, const Step *s, const DType *dtypes);
/* The step that the scalar operation on two operands of the dtype is; 0: none. */
uint16_t scalar_find(TeOp op, DType dtype);

/* ---- match.c ------------------------------------------------------------------------------------ */

/* The tests and variables of a pattern; `slot_of` gives a variable its slot. */
void pattern_compile(Unit *u, const Pattern *p, PatternCode *out,
                     uint32_t (*slot_of)(void *data, Var *v), void *data);
/* How tags tell which clause takes a value; NULL: there are too many. */
const MatchDecision *pattern_decide(Unit *u, const Match *e, const PatternCode *patterns);
/* The block of the first clause that fits, its variables bound; NULL after a diagnostic. */
const Step *match_run(Interp *in, const Step *s);

/* ---- operands ----------------------------------------------------------------------------------- */

INLINE Value *frame_operand(Frame *f, Operand o)
{
    return (o.base == BASE_CONSTANTS ? (Value *)(uintptr_t)f->code->constants : f->slots) + o.at;
}

static inline Value *operand_at(const Interp *in, Operand o)
{
    return frame_operand(in->frame, o);
}

/* The operand's value as the caller's own. */
INLINE Value operand_take(Frame *f, Operand o)
{
    Value *at = frame_operand(f, o), v;
    value_put(&v, value_head(at), at->bits);
    if (o.known >= KNOWN_SCALAR)
        return v;
    if (o.last)
        at->kind = VALUE_NONE;
    else if (o.known == KNOWN_NOTHING)
        value_retain(v);
    else
        object_retain(v.object);
    return v;
}

/* Lets go of an operand that was only looked at. */
static inline void operand_done(Frame *f, Operand o)
{
    if (!o.last || o.known >= KNOWN_SCALAR)
        return;
    Value *at = &f->slots[o.at];
    uint32_t kind = at->kind;
    at->kind = VALUE_NONE;
    if (kind == VALUE_TENSOR)
        tensor_release(at->tensor);
    else if (kind > VALUE_TENSOR)
        object_release(at->object);
}

/* How the type says that its values are kept. */
uint8_t known_of(const Type *t);
/* Kind and dtype of a value of which something is known. */
uint64_t known_head(uint8_t known);

#endif
