/* Tensor expressions: what an operator computes, said once.
 *
 * A TeProgram is a list of stages. A stage is a tensor: its index space (extents) and a scalar expression over the space's axes that says
 * each element; a reducing stage has further, reduced axes and folds the expression over them. Expressions read inputs and earlier
 * stages. Shapes and attributes are concrete when a program is built, so an operator's `compute` is ordinary C over them and one
 * function serves every rank and layout.
 *
 *     static void compute_dense(TeBuilder *b)              // out[…, n] = sum over k of x[…, k] * w[n, k]
 *     {
 *         TeTensor x = te_input(b, 0), w = te_input(b, 1);
 *         int r = te_out_rank(b, 0);
 *         Te *xi[TENSOR_RANK_MOST], *k = te_axis(b, r);     // the axes of the space are 0 … r-1, the reduced ones follow
 *         for (int i = 0; i < r - 1; i++)
 *             xi[i] = te_axis(b, i);
 *         xi[r - 1] = k;
 *         Te *wi[2] = {te_axis(b, r - 1), k};
 *         Te *body = te_binary(b, TE_MUL, te_load(b, x, xi), te_load(b, w, wi));
 *         te_output(b, te_reduce(b, TE_SUM, te_out_dtype(b, 0), r, te_out_shape(b, 0), 1, &x.shape[r - 1], body));
 *     }
 *
 * From a program derive the evaluator's strips (te_run), the JIT's loop nests, contractions (te_contraction), the cost and the loops
 * shown to a reader. Integer arithmetic wraps; TE_DIV on integers truncates, a zero divisor is a run-time error. All nodes lie in the
 * builder's arena; nothing is freed on its own. Out of memory or over a limit, `failed` is set and nodes are still valid. */
#ifndef TE_TE_H
#define TE_TE_H

#include "base/vec.h"
#include "ir/ctx.h"

/* Scalar functions. One row: enumerator, the name shown to readers, what its result's dtype is. te/scalar.def holds them. */
typedef enum TeOp {
#define TE_UNARY(ID, name, result) TE_##ID,
#define TE_BINARY(ID, name, result) TE_##ID,
#include "te/scalar.def"
#undef TE_UNARY
#undef TE_BINARY
    TE_OPS
} TeOp;

typedef enum TeKind {
    TE_NODE_CONST, /* a number of `dtype` */
    TE_NODE_AXIS, /* the index along axis `axis`, int64 */
    TE_NODE_LOAD, /* an element of a tensor */
    TE_NODE_UNARY,
    TE_NODE_BINARY,
    TE_NODE_CAST, /* a to `dtype` */
    TE_NODE_SELECT, /* a ? b : c ; both are evaluated, so both must be safe */
} TeKind;

typedef struct Te Te;
struct Te {
    uint8_t kind; /* TeKind */
    uint8_t op; /* TeOp */
    uint8_t n; /* LOAD: indices */
    DType dtype; /* of the value */
    Span span; /* of the expression that it is part of; for readers */
    union {
        Value value; /* CONST: a scalar */
        int axis; /* AXIS */
        struct { /* LOAD */
            int tensor; /* TeTensor.id */
            /* Not 0: of four bytes, the first one there and lowest, each so far behind the one before, as a number of 32 bits; in nests
             * alone. */
            uint8_t word;
            Te **index; /* n of them, int64 */
            Te *otherwise; /* the value where an index lies outside the tensor; NULL: the indices are in range by construction */
        };
        struct {
            Te *a, *b, *c;
        };
    };
};

typedef enum TeReduce {
    TE_NO_REDUCE,
    TE_SUM,
    TE_PROD,
    TE_REDUCE_MAX,
    TE_REDUCE_MIN,
    TE_ALL,
    TE_ANY,
    /* the position in the flattened reduced axes; the first of equals, or the last */
    TE_ARGMAX,
    TE_ARGMIN,
    TE_ARGMAX_LAST,
    TE_ARGMIN_LAST
} TeReduce;

/* A tensor that expressions may read: an input or a stage. */
typedef struct TeTensor {
    int id; /* inputs 0 … n_inputs-1, then stages */
    DType dtype;
    int rank;
    const int64_t *shape;
} TeTensor;

typedef struct TeStage {
    DType
        dtype; /* of the elements; a reduction accumulates in it (float16 in float32, rounded at the end) */
    int rank; /* axes of the space */
    const int64_t *shape;
    TeReduce reduce;
    int n_reduced; /* further axes rank … rank+n_reduced-1 */
    const int64_t *reduced;
    Te *body; /* its dtype is the stage's, except for the position reductions */
    /* A scattering stage has no axes but the reduced ones: it begins as the tensor `onto`, of its shape and type, and each value of the
     * body is folded into the element whose row-major position this says, in their order; where nothing is folded it takes its place.
     * NULL: the stage is no such one. Nests of a GPU have them, te_run has not. */
    Te *at;
    int onto;
    const char *name; /* for readers: the operator that made it */
} TeStage;

typedef struct TeProgram {
    int n_inputs;
    TeTensor *inputs;
    int n_stages;
    TeStage *stages;
    int n_outputs;
    int *outputs; /* ids; an input's id means that the input itself is the result */
    bool tuple; /* the result is a tuple of the outputs, even of one */
} TeProgram;

struct TeBuilder {
    Ctx *cx;
    Arena *arena;
    Span span; /* of the nodes that are made */
    const Op *op; /* whose compute runs */
    const Attrs *attrs;
    const Type *result; /* concrete */
    Vec(TeTensor) tensors; /* inputs and stages of the whole program */
    Vec(TeStage) stages;
    int n_inputs;
    const TeTensor *args; /* what te_input gives: the arguments, tuples flattened */
    int n_args;
    Vec(int) outputs; /* of the running compute */
    bool failed;
};

/* ---- for compute functions ------------------------------------------------------------------------------------------ */

TeTensor te_input(const TeBuilder *b, int i);
int te_n_inputs(const TeBuilder *b);
/* The result's type: output i of a tuple, or i = 0. */
DType te_out_dtype(const TeBuilder *b, int i);
int te_out_rank(const TeBuilder *b, int i);
const int64_t *te_out_shape(const TeBuilder *b, int i);
int te_n_outputs(const TeBuilder *b);

Te *te_axis(TeBuilder *b, int axis);
Te *te_int(TeBuilder *b, int64_t v); /* an int64, for indices */
Te *te_number(TeBuilder *b, DType dtype, double v);
Te *te_bound(TeBuilder *b, DType dtype,
             bool least); /* the least or the greatest value: an infinity for floats */
/* Of a tensor without elements: 0, or what stands for places outside. */
Te *te_load(TeBuilder *b, TeTensor t, Te *const *index);
Te *te_load_or(TeBuilder *b, TeTensor t, Te *const *index, Te *otherwise);
Te *te_unary(TeBuilder *b, TeOp op, Te *x);
Te *te_binary(TeBuilder *b, TeOp op, Te *x,
              Te *y); /* constants and neutral elements of index arithmetic are folded */
Te *te_cast(TeBuilder *b, DType dtype, Te *x);
Te *te_select(TeBuilder *b, Te *cond, Te *x, Te *y);
/* The flattened row-major position of the indices in the shape; and back. */
Te *te_flatten(TeBuilder *b, int rank, const int64_t *shape, Te *const *index);
void te_unflatten(TeBuilder *b, int rank, const int64_t *shape, Te *flat, Te **index);
/* An element of t at the output's axes, aligned at the right, extents of 1 repeated. */
Te *te_load_broadcast(TeBuilder *b, TeTensor t, int out_rank);

TeTensor te_map(TeBuilder *b, DType dtype, int rank, const int64_t *shape, Te *body);
TeTensor te_reduce(TeBuilder *b, TeReduce kind, DType dtype, int rank, const int64_t *shape,
                   int n_reduced, const int64_t *reduced, Te *body);
/* A scattering stage: `at` and the body are over the reduced axes, which are numbered behind those of `onto`. */
TeTensor te_scatter(TeBuilder *b, TeReduce kind, TeTensor onto, int n_reduced,
                    const int64_t *reduced, Te *at, Te *body);
void te_output(TeBuilder *b, TeTensor t);

/* ---- building programs ----------------------------------------------------------------------------------------------- */

void te_begin(TeBuilder *b, Ctx *cx, Arena *arena);
/* An input of the program; only before the first call. */
TeTensor te_add_input(TeBuilder *b, DType dtype, int rank, const int64_t *shape);
/* Appends one operator on tensors of the program; its outputs go to `out` (room for `most`); how many, -1 after a diagnostic. `result`
 * is its concrete type. The operator must have a compute, or an expression for a card or for its adjoint. */
int te_call(TeBuilder *b, const Op *op, const Attrs *attrs, Span span, const Type *result, int n,
            const TeTensor *args, int most, TeTensor *out);
/* Begins a program with the inputs of another. Returned is room for what becomes of the other's tensors, by id; the inputs are there. */
TeTensor *te_begin_from(TeBuilder *b, Ctx *cx, Arena *arena, const TeProgram *p);
/* The stage with another body, which says what that one says. */
TeTensor te_add_stage(TeBuilder *b, const TeStage *s, Te *body);
/* That program with the other's outputs, its mapping stages put in place again; NULL after a diagnostic. */
TeProgram *te_finish_from(TeBuilder *b, const TeProgram *p, const TeTensor *made);
/* The finished program; NULL after a diagnostic. Stages that nothing needs are dropped, except those
 * that may stop with an error. */
TeProgram *te_finish(TeBuilder *b, int n, const TeTensor *outputs, bool tuple);
/* The program of one operator on arguments of these concrete types (tuples flattened). */
TeProgram *te_of_op(Ctx *cx, Arena *arena, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                    const Type *const *args, const Type *result);
/* Puts the expression of mapping stages in place of loads of them where that does not repeat costly work: what fusion is. */
TeProgram *te_inline(Ctx *cx, Arena *arena, const TeProgram *p);

/* Whether the stage has the elements of another tensor in the same order; its id, else -1. With `from` also some of them, one after
 * the other beginning at that one; without it all. */
int te_view_of(const TeProgram *p, const TeStage *s, int64_t *from);
/* The program as bytes, which are the same for programs that compute the same in the same way. */
void te_key(Ctx *cx, Arena *arena, const TeProgram *p, Buf *out);
/* Whether the one result may lie where the input lies: each of its elements is read only to write the same element. */
bool te_in_place(const TeProgram *p, int input);

/* ---- using programs ---------------------------------------------------------------------------------------------------- */

/* Runs the program on the inputs' tensors (any strides; dtypes and shapes as said). Writes n_outputs new tensors, the caller's; false
 * after a diagnostic at `span` (then none). Loops run in vector strips on the pool; contractions go to BLAS. */
bool te_run(Ctx *cx, const TeProgram *p, Span span, const TensorView *inputs, Tensor **outputs);
#define TE_FAULT_ZERO "an integer was divided by zero"
#define TE_FAULT_SHIFT "the count of a shift is negative"
#define TE_FAULT_PLACE "an index is out of range for its axis"
/* Reports what scalar arithmetic does not define, in one of these words. */
void te_fault(Diags *diags, Span span, const char *fault);
/* The same on values: arguments whose tuples are flattened give the inputs. The caller's; VALUE_NONE after a diagnostic. */
Value te_run_values(Ctx *cx, const TeProgram *p, Span span, uint32_t n, const Value *args);
/* A program whose inputs, stages and one output are all of rank 0, on scalars. */
bool te_is_scalar(const TeProgram *p);
Value te_run_scalar(Ctx *cx, const TeProgram *p, Span span, const Value *args);

/* A stage of the form C[i…] = sum over k… of A[affine] * B[affine], integers perhaps widened before: where each load's index is a sum of constants times axes. */
typedef struct TeAffine {
    int tensor;
    int64_t offset; /* in elements of the row-major tensor */
    int64_t stride[2 * TENSOR_RANK_MOST]; /* by axis of space and reduction */
    bool padded; /* may leave the tensor: reads 0 there */
    const Te *load;
} TeAffine;

/* The axes of a sum of products, by what its factors depend on. */
typedef enum TeSide {
    TE_SIDE_NONE, /* it has one value */
    TE_SIDE_EACH, /* of both factors or of none: a product for each value; of one factor, where it is reduced */
    TE_SIDE_ROWS, /* of one factor */
    TE_SIDE_COLUMNS, /* of the other: the one that the last axis is of, along which results lie side by side */
    TE_SIDE_FOLDS, /* reduced, of both */
} TeSide;

typedef struct TeSides {
    bool turned; /* the first factor is that of the columns */
    TeSide of[2 * TENSOR_RANK_MOST]; /* by axis of space and reduction */
} TeSides;

/* Of factors that depend on these axes, a bit each. */
TeSides te_sides(const TeStage *s, uint64_t first, uint64_t second);

typedef struct TeContraction {
    TeAffine a, b;
    TeSides sides;
} TeContraction;

bool te_contraction(const TeProgram *p, int stage, TeContraction *out);
/* One whose factors are read at axes alone, as of matrices and many of them, and not of windows. */
bool te_product(const TeProgram *p, int stage, TeContraction *out);
/* Whether a load's flattened row-major position is affine in the axes. */
bool te_load_affine(const TeProgram *p, const Te *load, TeAffine *out);
/* The number of the element that is loaded, in row-major order, where its indices are made of one; else NULL. */
const Te *te_load_number(const TeProgram *p, const Te *load);

/* Whether an operation of the body stops on some values: a division by what may be zero, a shift by what may be below. */
bool te_holds_fault(Arena *arena, const Te *body);
/* The same of all that the stage computes. */
bool te_stage_faults(Arena *arena, const TeStage *s);
/* Adds where those operations of the body (NULL: there are none) stand, for the key of code that tells it. Whether there are any. */
bool te_fault_places(Arena *arena, const Te *body, Buf *out);
/* The same of the whole program, and behind them, if there are any, where that stands. */
void te_program_fault_places(Arena *arena, const TeProgram *p, Span span, Buf *out);

typedef struct TeCost {
    double operations; /* arithmetic on elements, a fused multiply-add counts 2 */
    double
        multiply_adds; /* those of sums of products of two tensors: matrix products, convolutions */
    double bytes_read, bytes_written;
} TeCost;

TeCost te_cost(const TeProgram *p);

/* The loops, as a reader would write them:
 *     for i0 in 0..4, i1 in 0..8:
 *       out[i0, i1] = sum(k in 0..16) x[i0, k] * w[i1, k]
 * `names` are those of the inputs; NULL: x, y and so on. */
void te_print(Buf *out, const TeProgram *p, const char *const *names);

#endif
