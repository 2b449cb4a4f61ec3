/* What the families of operators share: relations, argument tables, and short forms for rows.
 *
 * Each family is one file with its functions, its tables and, at the end, its array of rows. The
 * arrays are listed in stdlib/families.def. */
#ifndef STDLIB_OPS_OPS_H
#define STDLIB_OPS_OPS_H

#include "ir/dim.h"
#include "ir/rel.h"
#include "te/te.h"
#include "stdlib/families.h"

/* ---- rows of attribute tables -------------------------------------------------------------------
 * I integer, B bool, F float, S string, D dtype, IS list of integers; MUST has no default, NONE
 * takes None. */

#define ATTR(NAME, TYPE, DEFAULT, DOC) \
    {.name = NAME, .type = ATTR_TYPE_##TYPE, .otherwise = DEFAULT, .doc = DOC}
#define ATTR_MUST(NAME, TYPE, DOC) \
    {.name = NAME, .type = ATTR_TYPE_##TYPE, .required = true, .doc = DOC}
#define ATTR_NONE(NAME, TYPE, DOC)   \
    {.name = NAME,                   \
     .type = ATTR_TYPE_##TYPE,       \
     .or_none = true,                \
     .otherwise = ATTR_DEFAULT_NONE, \
     .doc = DOC}
#define ATTR_MUST_NONE(NAME, TYPE, DOC) \
    {.name = NAME, .type = ATTR_TYPE_##TYPE, .required = true, .or_none = true, .doc = DOC}
#define ATTR_I(NAME, V, DOC) ATTR(NAME, INT, ATTR_DEFAULT_INT(V), DOC)
#define ATTR_B(NAME, V, DOC) ATTR(NAME, BOOL, ATTR_DEFAULT_BOOL(V), DOC)
#define ATTR_F(NAME, V, DOC) ATTR(NAME, FLOAT, ATTR_DEFAULT_FLOAT(V), DOC)
#define ATTR_S(NAME, V, DOC) ATTR(NAME, STRING, ATTR_DEFAULT_STRING(V), DOC)
/* One of the strings behind DOC. */
#define ATTR_ONE(NAME, V, DOC, ...)                                                              \
    {                                                                                            \
        .name = NAME, .type = ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING(V), .doc = DOC, \
        .one_of = (const char *const[])                                                          \
        {                                                                                        \
            __VA_ARGS__, NULL                                                                    \
        }                                                                                        \
    }
#define ATTR_D(NAME, V, DOC) ATTR(NAME, DTYPE, ATTR_DEFAULT_STRING(V), DOC)
#define ATTR_IS(NAME, ARRAY, DOC) ATTR(NAME, INTS, ATTR_DEFAULT_LIST(ARRAY), DOC)

/* The largest stride, kernel or padding: sums and products of a few of them fit an int64. */
#define OPS_MOST ((int64_t)1 << 30)

extern const OpArg args_data[]; /* data */
extern const OpArg args_pair[]; /* lhs, rhs */
extern const OpArg args_like[]; /* data, shape_like */
extern const OpArg args_tuple[]; /* data: a tuple of tensors */
extern const AttrValue ops_zeros[], ops_ones[]; /* six ints each, for defaults */

/* A row's relation, and beside it the shapes that it gives: SHAPES_name stands above the function. */
#define OP_REL(NAME) .rel = NAME, .shapes = SHAPES_##NAME

/* ---- relations ---------------------------------------------------------------------------------- */

#define SHAPES_rel_same "(d...) -> (d...)"
/* Result like the only argument, or the argument like the result. The others also say which
 * elements the operator takes. */
RelResult rel_same(Rel *r);
#define SHAPES_rel_same_float SHAPES_rel_same
RelResult rel_same_float(Rel *r);
#define SHAPES_rel_same_number SHAPES_rel_same
RelResult rel_same_number(Rel *r); /* not bool */
#define SHAPES_rel_same_int SHAPES_rel_same
RelResult rel_same_int(Rel *r); /* bool and integers */
#define SHAPES_rel_same_bool SHAPES_rel_same
RelResult rel_same_bool(Rel *r);
#define SHAPES_rel_test SHAPES_rel_same
RelResult rel_test(Rel *r); /* shape of the argument, bool */
#define SHAPES_rel_broadcast "(a...), (b...) -> (broadcast(a, b)...)"
/* Shapes broadcast, equal dtypes. */
RelResult rel_broadcast(Rel *r);
#define SHAPES_rel_broadcast_float SHAPES_rel_broadcast
RelResult rel_broadcast_float(Rel *r);
#define SHAPES_rel_broadcast_int SHAPES_rel_broadcast
RelResult rel_broadcast_int(Rel *r);
#define SHAPES_rel_broadcast_bool SHAPES_rel_broadcast
RelResult rel_broadcast_bool(Rel *r);
#define SHAPES_rel_compare SHAPES_rel_broadcast
RelResult rel_compare(Rel *r);

/* The dtype of an attribute; `otherwise` when it is unset. */
DType ops_dtype(const Attrs *a, const char *key, DType otherwise);
/* Marks the axes that a reduction folds: `axis` (None or empty: all), or with `exclude` the others. False
 * when one is out of range; `bad` receives it. */
bool ops_reduced_axes(const Attrs *a, int rank, bool *on, int64_t *bad);
/* An attribute that holds a pair for each of n axes; false when it does not, or an element is beyond OPS_MOST. */
bool ops_pairs(const Attrs *a, const char *key, uint32_t n, int64_t *before, int64_t *after);
/* Reports unless argument i has that rank; `name` is the argument's. */
bool rel_rank(Rel *r, uint32_t i, const Type *t, uint32_t rank);
/* Reports unless the dtypes of two arguments agree. */
bool rel_dtypes_agree(Rel *r, uint32_t i, const Type *a, uint32_t j, const Type *b);
bool rel_is_scalar(Rel *r, uint32_t i, const Type *t);
bool rel_is_int(Rel *r, uint32_t i, const Type *t);
/* The same for floats, which all arguments are: a root of integers, or their gradient, would be nothing. */
bool rel_is_float(Rel *r, const Type *t);
/* Reports unless argument i, of type t, has these extents, as far as they are known. */
bool rel_has_shape(Rel *r, uint32_t i, const Type *t, uint32_t rank, const Dim *dims);
/* Whether the arguments from `from` on are scalars: not yet, or REL_FAILED after a diagnostic. */
RelResult rel_are_scalars(Rel *r, uint32_t from);
/* Sets an argument's type from dims. */
bool rel_set_tensor(Rel *r, uint32_t i, DType dtype, uint32_t rank, const Dim *dims);
RelResult rel_out_tensor(Rel *r, DType dtype, uint32_t rank, const Dim *dims);
bool dims_static(uint32_t n, const Dim *dims);
/* Product of extents; DIM_ANY when one is unknown. */
Dim dims_product(uint32_t n, const Dim *dims);
/* A list attribute with one value a spatial axis, or `most` of them: paddings. Fills before and after
 * for n axes from 1, n or 2n numbers; false after a diagnostic. */
bool rel_padding(Rel *r, const char *key, int n, int64_t *before, int64_t *after);
void ops_padding(const Attrs *a, const char *key, int n, int64_t *before, int64_t *after);
/* n numbers of a list (one number: all the same). */
bool rel_ints(Rel *r, const char *key, int n, int64_t *out);
bool rel_extents(Rel *r, const char *key, int n, int64_t *out); /* one number is not all the same */
/* Reports that an axis of the first argument would get an extent beyond all numbers. */
RelResult rel_uncounted(Rel *r, int axis);
void ops_ints(const Attrs *a, const char *key, int n, int64_t *out);

/* A layout is a word: a capital is an axis, a number and a small letter a block split off one ("NCHW16c"). How many axes a tensor in it
 * has, blocks included; the letter of an axis, 0: it has none; the axis of a letter, -1: it has none; how many are blocks. */
uint32_t layout_rank(Str layout);
char layout_letter(Str layout, int64_t axis);
int layout_axis(Str layout, char letter);
int layout_blocks(Str layout);
/* The letters of a plain layout ("NCHW"): position of each letter of `letters`; false when the layout
 * holds other letters, sub-axes or letters twice. */
bool layout_positions(Str layout, const char *letters, int *at);
/* The same for a layout whose first letters, batch and channels, may be split in blocks ("NCHW16c"): of how many axes it is; 0 for
 * what is no such layout. */
enum { LAYOUT_SPLIT = 2 };
uint32_t layout_places(Str layout, const char *letters, int *at);
/* Whether argument i, of type t, has as many axes as the attribute `layout`, whose places `at` gets; false after a diagnostic. */
bool rel_places(Rel *r, uint32_t i, const Type *t, const char *letters, int *at);
/* How many spatial axes the operator has: its default layout has two letters more. */
int ops_spatial(const Op *op);
/* The same as a relation asks it, with a diagnostic about the attribute. */
bool rel_layout(Rel *r, const char *key, const char *letters, int *at);
/* Whether a layout holds just these axes, some of them split in blocks ("NCHW16c"), or all whole. */
bool layout_is_blocked(Str layout, const char *letters);
/* Whether both are layouts of the same axes, whichever of them are split. */
bool layout_same_axes(Str a, Str b);
/* Whether a tensor of type t in the layout `src` can be in `dst`: both name the same axes, and blocks divide them. */
bool layout_can_become(Ctx *cx, Str src, const Type *t, Str dst);
/* The extents in another layout that holds the same axes. */
void layout_extents(Ctx *cx, Str src, const int64_t *shape, Str dst, int64_t *out);
/* The type t, of argument i, in another layout; NULL after a diagnostic. */
const Type *rel_layout_type(Rel *r, int i, const Type *t, Str src, Str dst);
/* The tensor in another layout: a stage. */
TeTensor ops_layout(TeBuilder *b, TeTensor x, Str src, Str dst);
/* out_layout, or data_layout where it is "". */
Str ops_out_layout(const Attrs *a, const char *data_key, const char *out_key);

/* The numbers in argument i, where its value is known: how many, copied to `out` up to `most`; -1: unknown. */
int rel_ints_of(Rel *r, uint32_t i, int64_t *out, int most);
/* Whether none of the n extents that argument i gives is below 0. Reports else. */
bool ops_extents_good(Rel *r, uint32_t i, int n, const int64_t *dims);
/* Argument i as a number, where its value is known. */
bool rel_double_of(Rel *r, uint32_t i, double *out);
/* `n` unknown extents. */
RelResult rel_unknown(Rel *r, DType dtype, Dim n);
/* The result of a reshape by these codes; reports and fails like `reshape`. */
RelResult rel_reshape_to(Rel *r, const Type *t, const int64_t *codes, int n);
/* A part of an axis: where it begins, its step, how many elements. */
typedef struct Slice {
    int64_t begin, step, extent;
} Slice;
/* The part of an axis of extent d that begin, end (NULL: the whole axis) and step say; with `sizes` the end is a
 * number of elements. False when it lies the wrong way. */
bool slice_axis(int64_t d, bool sizes, const int64_t *begin, const int64_t *end, int64_t step,
                Slice *out);
/* The convolution of two tensors as the running operator's attributes say, as its output. */
void ops_conv(TeBuilder *b, TeTensor x, TeTensor w);
#define SHAPES_rel_conv "(N, C, d...), (O, C/groups, k...) -> (N, O, window(d, k)...)"
RelResult rel_conv(Rel *r);
#define SHAPES_rel_dense "(d..., K), (N, K) -> (d..., N)"
RelResult rel_dense(Rel *r);
/* The data times the transposed weight, whose blocks are joined before, as the output. */
void ops_dense(TeBuilder *b, TeTensor x, TeTensor w);
RelResult rel_concatenate_of(Rel *r, const Type *t);
extern const OpAttr conv2d_attrs[], conv2d_transpose_attrs[], dense_attrs[], dense_pack_attrs[],
    batch_matmul_attrs[];
extern const OpAttr avg2d_attrs[];
/* The same for transposed convolutions, products of matrices, and the mean of windows. */
void ops_conv_transpose(TeBuilder *b, TeTensor x, TeTensor w);
void ops_batch_matmul(TeBuilder *b, TeTensor x, TeTensor y);
TeTensor ops_avg_pool(TeBuilder *b, TeTensor x);
#define SHAPES_rel_conv_transpose "(N, C, d...), (O/groups, C, k...) -> (N, O, spread(d, k)...)"
RelResult rel_conv_transpose(Rel *r);
#define SHAPES_rel_batch_matmul \
    "(A, M, K), (B, K, N) -> (max(A, B), M, N); turned round where transpose_a or transpose_b"
RelResult rel_batch_matmul(Rel *r);
#define SHAPES_rel_pool \
    "(N, C, d...) -> (N, C, window(d, pool_size)...); rounded up where ceil_mode"
RelResult rel_pool(Rel *r);
/* Exponentials along an axis, scaled to sum to one. */
TeTensor ops_softmax(TeBuilder *b, TeTensor x, int axis);
void compute_reshape(TeBuilder *b);
void compute_broadcast(TeBuilder *b);
void compute_tile(TeBuilder *b);
void compute_zeros(TeBuilder *b);
void compute_ones(TeBuilder *b);
void compute_full(TeBuilder *b);
void compute_one_hot(TeBuilder *b);
bool kernel_topk(OpCall *c);

/* ---- computing ------------------------------------------------------------------------------------ */

/* The only output: `body` at each position, in the output's dtype. */
void ops_emit(TeBuilder *b, Te *body);
bool ops_out_is_empty(const TeBuilder *b);
/* Whether there is an element along the axis to be read; false after a diagnostic, where the program stops. */
bool ops_holds_elements(TeBuilder *b, const char *op, int64_t extent);
/* A position that is data, as int64. Of uint64, what is beyond that is the greatest: it is behind all elements and counts nothing from the
 * end. */
Te *ops_index(TeBuilder *b, Te *index);
/* The index, of which a negative one counts from the end, in so many elements; outside of them the program stops. */
Te *ops_place(TeBuilder *b, Te *index, int64_t extent);
/* axis first, first + 1, … */
void ops_axes(TeBuilder *b, int first, int n, Te **out);
/* Element of t at axes 0 … rank-1, cast to dtype. */
Te *ops_at_axes(TeBuilder *b, TeTensor t);
/* A constant of the output's dtype. */
Te *ops_number(TeBuilder *b, double v);
/* An axis attribute that a relation has checked, from 0. */
int ops_axis(const Attrs *a, const char *key, int rank);
/* The same elements in another shape: a stage that the evaluator runs as a view. */
TeTensor ops_reshape(TeBuilder *b, TeTensor t, int rank, const int64_t *shape);
/* clamp(x, 0, extent - 1) of an int64. */
Te *ops_clamp(TeBuilder *b, Te *x, int64_t extent);
/* x*by + y*times + plus, of int64: where a window's element lies. */
Te *ops_affine(TeBuilder *b, Te *x, int64_t by, Te *y, int64_t times, int64_t plus);
/* Element of a tensor of rank 0. */
Te *ops_scalar(TeBuilder *b, TeTensor t);

/* The output: the gradient of an operator of one tensor, with these attributes, where that of its result is `grad`. */
void ops_derive(TeBuilder *b, const char *op, TeTensor x, TeTensor grad);

/* ---- kernels --------------------------------------------------------------------------------------- */

/* Argument i as a tensor without gaps; the caller releases. NULL when memory is refused. */
Tensor *kernel_arg(OpCall *c, uint32_t i);
/* The same with its elements cast. */
Tensor *kernel_arg_as(OpCall *c, uint32_t i, DType as);
/* The tensor's elements in another type, of its own type itself; takes it. NULL for NULL and when memory is refused. */
Tensor *kernel_cast(OpCall *c, Tensor *t, DType to);
/* The same to a tensor that is there. */
bool kernel_cast_all(OpCall *c, Tensor *to, const Tensor *from);
/* The result, of the type of the first argument and with its elements, for those that are to change: `x`, which kernel_arg gave for it,
 * where nobody else needs these elements, else a copy. */
Tensor *kernel_changed(OpCall *c, Tensor *x);
/* The first element of argument i as a number. */
double kernel_number(OpCall *c, uint32_t i, double otherwise);
/* Sets the output to the tensor (taken); false when it is NULL. */
bool kernel_set(OpCall *c, Tensor *t);
/* Sets it to a tuple of tensors, which are taken; false when one is NULL. */
bool kernel_set_tuple(OpCall *c, uint32_t n, Tensor *const *tensors);
/* Releases n tensors, of which some may be NULL; false when one is. */
bool kernel_release(uint32_t n, Tensor *const *tensors);
/* A new tensor of the type; field `i` of a tuple type. */
Tensor *kernel_out(OpCall *c, uint32_t i);
/* The same for those that write every element of it. */
Tensor *kernel_out_raw(OpCall *c, uint32_t i);
/* Product of extents from `from` up to `to`. */
int64_t kernel_span(const Tensor *t, int from, int to);
/* Element i of an integer tensor without gaps. */
int64_t kernel_int(const Tensor *t, int64_t i);
/* The integer v brought within [0, extent), counted from the end when negative; -1 after a diagnostic. */
int64_t kernel_index(OpCall *c, int64_t v, int64_t extent);
/* Whether indices for one axis of the data have no more elements than it along the others: they are for its beginning there. The original
 * wants as many where it gathers, and not where it scatters; other frameworks, and the gradient of what was scattered, do not. */
bool ops_indices_fit(Rel *r, int axis, const Type *data, const Type *index);

/* Positions in a tensor without gaps, one for each element of `index`: its own place, but along `axis` where the element says. Turns hand
 * on the positions of as many elements as lie in a row, KERNEL_PLACES at most; false after a diagnostic, or when `use` says so. */
#define KERNEL_PLACES 256
bool kernel_places(OpCall *c, const Tensor *index, const Tensor *in, int axis,
                   bool (*use)(void *data, int64_t from, int64_t n, const int64_t *places),
                   void *data);
/* The same for points: along the first axis of `index` stand the places along the axes of the data from `batch` on, and the axes of `index`
 * behind that begin with the data's first `batch`. A position is where what the point names begins; long rows come one at a time. */
bool kernel_points(OpCall *c, const Tensor *index, const Tensor *in, int batch,
                   bool (*use)(void *data, int64_t from, int64_t n, const int64_t *places),
                   void *data);

/* ---- building expressions ---------------------------------------------------------------------------- */

typedef struct OpsMake {
    Ctx *cx;
    Arena *arena;
    Span span;
} OpsMake;

/* A call of the operator; attributes that are not given have their defaults. NULL after a diagnostic. */
Expr *ops_call(const OpsMake *m, const char *op, uint32_t n, Expr *const *args, uint32_t n_attrs,
               const Attr *attrs);
Expr *ops_call1(const OpsMake *m, const char *op, Expr *x);
Expr *ops_call2(const OpsMake *m, const char *op, Expr *x, Expr *y);
/* `cast(x, dtype=…)`. */
Expr *ops_cast(const OpsMake *m, Expr *x, DType to);
/* The same with one attribute, a list of numbers. */
Expr *ops_call_ints(const OpsMake *m, const char *op, Expr *x, const char *key, uint32_t n,
                    const int64_t *v);
/* x in this shape, of known extents; 0 is one. */
Expr *ops_reshaped(const OpsMake *m, Expr *x, uint32_t n, const int64_t *shape);
/* x with so many elements of `value` in front of and behind each axis; x where there are none. */
Expr *ops_padded(const OpsMake *m, Expr *x, Expr *value, uint32_t rank, const int64_t *before,
                 const int64_t *after);
Attr ops_attr_int(const char *key, int64_t v);
Attr ops_attr_bool(const char *key, bool v);
Attr ops_attr_ints(const OpsMake *m, const char *key, uint32_t n, const int64_t *v);
Attr ops_attr_text(const OpsMake *m, const char *key, const char *text);
Attr ops_attr_dtype(const OpsMake *m, const char *key, DType dtype);
/* A scalar constant of the dtype; a cast of one where values of the dtype cannot be stored. */
Expr *ops_constant(const OpsMake *m, DType dtype, double v);
/* x with axes of extent 1 behind it, so that it broadcasts along `axis` of a tensor of this rank. */
Expr *ops_expand_to_axis(const OpsMake *m, Expr *x, int rank, int axis);
/* Whether v is sure to be a vector of one element for each along `axis` of t: with `?` that is found when the program runs, by the operators
 * that ask for it and not by those that broadcast. */
bool ops_is_along(const Ctx *cx, const Expr *v, const Type *t, int axis);

/* The gradients by the arguments of a typed call whose operator has a `compute`, out of that of its result; `args` stand for the arguments.
 * False after a diagnostic. */
bool ops_adjoints(const OpsMake *m, const Call *call, Expr *const *args, Expr *grad, Expr **out);

/* Gradients (passes/adjoint.h reads them). The place of each element of the data, and the gradient of what
 * only moves elements: G is added where the places AT, moved likewise, say. */
#define GRAD_PLACES                                                                           \
    "reshape_like(cumsum(reshape(ones_like(%data), newshape=[-1]), axis=0, dtype=\"int64\", " \
    "exclusive=True), %data)"
#define GRAD_BACK(AT, G)                                                                   \
    "reshape_like(scatter_elements(reshape(zeros_like(%data), newshape=[-1]), reshape(" AT \
    ", newshape=[-1]), reshape(" G ", newshape=[-1]), axis=0, reduction=\"add\"), %data)"

/* Of `topk`, which TOPK with the attribute K begins: where its elements were. */
#define TOPK_PUT(TOPK, K, G)                                                             \
    "scatter_elements(zeros_like(%data), " TOPK K ", axis=%axis, ret_type=\"indices\", " \
    "is_ascend=%is_ascend, dtype=\"int64\"), " G ", axis=%axis, reduction=\"add\")"
#define TOPK_GRAD(TOPK, K)                                                                \
    "if (%ret_type == \"indices\") { zeros_like(%data) } "                                \
    "else if (%ret_type == \"both\") { " TOPK_PUT(TOPK, K, "%g.0") " } else { " TOPK_PUT( \
        TOPK, K, "%g") " }"

/* A row of a family; `...` is its meaning (`.compute` or `.kernel`) and whatever else it has. */
#define OP_ROW(NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, DOC, ...) \
    {.name = NAME,                                                 \
     .doc = DOC,                                                   \
     .args = ARGS,                                                 \
     .attrs = ATTRS,                                               \
     .samples = SAMPLES,                                           \
     .pattern = PATTERN,                                           \
     .rel = REL,                                                   \
     __VA_ARGS__}

#endif
