/* From a loop nest to LLVM IR. Decides nothing: every loop, register and copy is in the nest.
 *
 *     plan.c       which operators become one program, and the call of its kernel
 *     kernel.c     a program as one function: asks for the nest (sched/), lays out what it needs of memory
 *     emit.c       loops and statements;   emit_expr.c  the values of expressions in them;   emit_form.c  where lanes lie
 *     emit_apart.c code of its own, which nests share;   emit_matrix.c  registers of matrices
 *     gpu/ptx.c    the kernels of a GPU, each a function with the same loops and statements
 *
 * Values that no loop further in changes are computed in front of it. Registers of a nest are values of LLVM's, which loops hand on
 * from turn to turn. */
#ifndef JIT_EMIT_H
#define JIT_EMIT_H

#include "jit/internal.h"
#include "loop/nest.h"

#define EMIT_DEPTH_MOST 60
/* The widest access of a GPU. */
#define EMIT_ALIGN_MOST 16

/* A loop or condition around the place where code is made. */
typedef struct EmitLevel {
    const NestNode *node; /* NULL: the function */
    Ssa value; /* of the variable; of vectors the first lane */
    int64_t number; /* of an unrolled loop's turn */
    PtrMap values; /* Te -> EmitCopy, of expressions that read nothing the nest writes */
    PtrMap splats; /* Ssa -> the vector of it */
    PtrMap places; /* address of the levels above -> EmitPlaces with this level's variable */
} EmitLevel;

typedef struct EmitCopy EmitCopy;
typedef struct EmitApart EmitApart;

typedef struct Emit Emit;
struct Emit {
    Gen *g;
    Nest *n;
    Span span;
    Ssa fn, state;
    Ssa *base; /* by buffer: where its elements are; of a rank-0 input its value */
    Ssa **slots; /* by register buffer: the values in it now */
    int *granule; /* by register buffer: elements of a slot */
    int *depth_of; /* by variable: its loop's level + 1, where code is made */
    bool *written; /* by buffer: by the part of the nest that is being made */
    EmitLevel level[EMIT_DEPTH_MOST + 1];
    int depth; /* of the innermost level */
    int vector; /* level of the vector loop; 0: none */
    EmitApart *
        apart; /* what is made is shared: the places and numbers that it is given; NULL: it is not */
    int branch; /* level whose turns come to one of several codes: what those make of an address is nothing to the levels around */
    int keep; /* level + 1 that remembers values while what stands in front of a loop is made; 0: the innermost */
    bool fails; /* it may stop with an error */
    bool computes; /* the function has statements of its own, and does not only call others */
    bool in_part; /* the function is a part of another, which looks whether it was to stop */
    bool polls; /* and it was told so */
    PtrMap masks; /* Te -> levels that it depends on, as bits, shifted by one */
    PtrMap impure; /* Te -> whether it reads what the nest writes */
    PtrMap linear; /* Te -> NestLinear */
    PtrMap positions; /* load of several indices -> its position, where that is linear */
    PtrMap now; /* values of the statement that is being made */
    PtrMap boxes; /* NestBox -> the kernel's parameter that is the map of its tensor, + 1 */
    PtrMap columns; /* Te -> values of a load by turns of the unrolled loop that is being made */
    /* on a GPU: notes that `bad` holds, which stops nothing; NULL: not on one */
    void (*fault)(Emit *e, Ssa bad, const char *report, Span span);
    void *data; /* of whoever makes kernels */
};

/* What all functions that hold nests are to LLVM. */
void emit_attributes(Gen *g, Ssa fn);
/* Behind what e->fn does: where that is to call others, code is made in half the time. */
void emit_settle(Emit *e);
/* The code of a node of the root. */
bool emit_root(Emit *e, NestNode *node);
void emit_begin(Emit *e, Gen *g, Nest *n, Span span);
void emit_end(Emit *e);

/* The body of an unrolled or vector loop, as straight code. */
void emit_straight(Emit *e, const NestNode *loop);
/* A loop with much to do looks now and then whether it is to stop: after so many turns. 0: never, short loops pay nothing. */
int64_t emit_turns_unseen(Emit *e, const NestNode *loop, int64_t extent);
/* Returns where somebody wants the work to end, and goes on in `go` else. */
void emit_stop(Emit *e, LLVMBasicBlockRef go);

/* ---- emit_apart.c ----------------------------------------------------------------------------------------------------- */

/* A call of the node's code. */
void emit_apart(Emit *e, const NestNode *node);
/* How often a loop that runs turns. */
Ssa emit_turns(Emit *e, const NestNode *loop);
/* In shared code: whether a level stands around it; the address that the levels around give; the step of a loop in bytes, NULL where it is
 * to be a constant; and an address with what constants and unrolled loops add. */
bool emit_is_around(const Emit *e, int depth);
Ssa emit_apart_base(Emit *e, int buffer, const NestLinear *l);
Ssa emit_apart_step(Emit *e, int buffer, const NestLinear *l, const NestNode *loop);
Ssa emit_apart_place(Emit *e, int buffer, const NestLinear *l, Ssa base);

/* ---- emit_expr.c ------------------------------------------------------------------------------------------------------ */

/* The expression's value: a vector where it depends on the vector loop. */
Ssa emit_value(Emit *e, const Te *x);
/* The same, repeated in all lanes where there are lanes. */
Ssa emit_lanes(Emit *e, const Te *x);
bool emit_is_vector(Emit *e, const Te *x);
const NestLinear *emit_linear(Emit *e, const Te *at);
/* The address of a position in memory, of its first lane; and of one that nothing straight goes into. */
Ssa emit_place(Emit *e, int buffer, const Te *at);
Ssa emit_place_of(Emit *e, int buffer, const NestLinear *at);
/* Of that address: on a GPU, where buffers begin even, all that the position says of it. */
unsigned emit_alignment(Emit *e, int buffer, const Te *at);
/* Forgets what loads have ready for the turns of the unrolled loop. */
void emit_end_columns(Emit *e);
/* The slot of a register and the lane in it; -1: all of the slot. */
int emit_slot(Emit *e, int buffer, const Te *at, int *lane);
Ssa emit_register(Emit *e, int buffer, const Te *at);
/* Loops that become straight code: unrolled ones and vectors. */
static inline bool emit_is_straight(const NestNode *node)
{
    return node->kind == NEST_LOOP && (node->way == NEST_UNROLLED || node->way == NEST_VECTOR);
}
/* What is below may be left out. */
static inline bool emit_is_condition(const NestNode *node)
{
    return node->kind == NEST_IF || (node->kind == NEST_LOOP && node->way == NEST_BOUND);
}
/* Computes the address of a position as far as the levels down to `depth` know it. */
void emit_hoist_place(Emit *e, int buffer, const Te *at, int depth);
/* An index that is not below 0, in as few bits as hold it. */
Ssa emit_index(Emit *e, const Te *x);
/* Of the vector loop; one lane outside. */
Lanes emit_lanes_of(Emit *e, bool vector);
/* Levels on which the expression depends, as bits. */
uint64_t emit_mask(Emit *e, const Te *x);
bool emit_is_pure(Emit *e, const Te *x);
/* What constants and unrolled loops add to a position. */
int64_t emit_known_part(Emit *e, const NestLinear *l);

/* ---- emit_matrix.c ---------------------------------------------------------------------------------------------------- */

/* A statement of the kind NEST_MATRIX. */
void emit_matrix(Emit *e, const NestNode *s);

/* ---- emit_form.c ------------------------------------------------------------------------------------------------------ */

/* A number by lane: `start`, which all lanes share (NULL: 0), and what is known when code is made. */
typedef struct EmitForm {
    Ssa start;
    int64_t lane[64];
    uint64_t outside; /* of a load that may leave its tensor: the lanes that do */
    bool may_leave; /* it is not known of all of them */
} EmitForm;

/* What running loops add to a position, divided by `by`, which divides each step; NULL: nothing. */
Ssa emit_running_part(Emit *e, const NestLinear *l, int64_t by);
/* False: the lanes differ in what is not known. The expression is an index, and there is a vector loop. */
bool emit_form(Emit *e, const Te *x, EmitForm *out);
/* The number of each lane as a vector; NULL: as above. */
Ssa emit_form_lanes(Emit *e, const Te *x);
/* The same of the position of a load, in elements. */
bool emit_form_of_load(Emit *e, const Te *x, EmitForm *out);

#endif
