/* Weights in another form: transposed ahead, or block-sparse.
 *
 *     nn.dense(%x, %w, units=8)                                with weight_name=["w"], weight_shape=[[4, 2, 1, 4, 5]]
 *  => nn.sparse_dense(%x, %w_data, %w_indices, %w_indptr)      with three parameters more
 *
 * A parameter that nothing uses any more goes; the new ones stand behind the others. */
#include "passes/facts.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "stdlib/ops/ops.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

typedef struct Weights {
    PassRun *run;
    PtrMap params; /* those of the function at hand */
    Vec(Var *) made;
    bool failed;
} Weights;

typedef Expr *PutWeight(Weights *w, const Call *call, const Call *typed, const Var *weight);

static Var *new_param(Weights *w, const Var *of, const char *suffix, DType dtype, uint32_t n,
                      const Dim *dims)
{
    Buf name = {0};
    const Type *t = type_tensor(w->run->cx, dtype, n, dims);
    buf_printf(&name, "%s_%s", of->name->text, suffix);
    Var *v =
        expr_var(&w->run->module->arena, of->base.span, ctx_name(w->run->cx, buf_text(&name)), t);
    v->base.type = t;
    buf_deinit(&name);
    vec_push(&w->made, &w->run->scratch, v);
    return v;
}

static int64_t listed(const AttrValue *names, const Var *v)
{
    for (uint32_t i = 0; i < names->list.n; i++)
        if (str_is(names->list.at[i].s, v->name->text))
            return i;
    return -1;
}

static bool is_param(const Weights *w, const Expr *e)
{
    return e->kind == EXPR_VAR && ptrmap_has(&w->params, e);
}

/* ---- transposed ahead ------------------------------------------------------------------------------------------------------- */

static Expr *put_transposed(Weights *w, const Call *call, const Call *typed, const Var *weight)
{
    const Type *t = expr_tensor_type(typed->args.at[1]);
    if (!t || listed(attrs_find(w->run->params, "target_weight_name"), weight) < 0)
        return NULL;
    Var *v = new_param(w, weight, "T", t->dtype, t->n, t->dims);
    return expr_call(&w->run->module->arena, call->base.span, call->callee, 2,
                     (Expr *[]){call->args.at[0], &v->base}, call->attrs);
}

static bool turns_round(const Call *transpose)
{
    int64_t axes[TENSOR_RANK_MOST];
    int n = attrs_ints(transpose->attrs, "axes", axes, TENSOR_RANK_MOST);
    return n < 0 || (n == 2 && axes[0] == 1 && axes[1] == 0);
}

/* ---- sparse ----------------------------------------------------------------------------------------------------------------- */

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

/* The extents of the weight as a matrix: a row for each channel of the result. False where they are not known. */
static bool matrix_of(const Call *call, const Type *t, int64_t extents[2])
{
    int at[4] = {0, 1, 2, 3};
    if (t->n != 2 &&
        (t->n != 4 || !layout_positions(attrs_string(call->attrs, "kernel_layout"), "OIHW", at)))
        return false;
    extents[0] = t->dims[at[0]];
    extents[1] = 1;
    for (uint32_t i = 1; i < t->n; i++)
        extents[1] *= t->dims[at[i]];
    for (uint32_t i = 0; i < t->n; i++)
        if (t->dims[i] < 0)
            return false;
    return true;
}

/* Whether so many blocks of that size, with an index each and a beginning for each row of blocks and one more, can be the matrix. */
static bool are_blocks_of(const int64_t d[5], const int64_t matrix[2])
{
    return d[1] >= 1 && d[2] >= 1 && matrix[0] % d[1] == 0 && matrix[1] % d[2] == 0 && d[0] >= 0 &&
           d[0] <= matrix[0] / d[1] * (matrix[1] / d[2]) && d[3] == d[0] &&
           d[4] == matrix[0] / d[1] + 1;
}

static bool refuse_shape(Weights *w, const Var *weight, const char *why, const int64_t *matrix)
{
    Diag *d = diag_error(w->run->cx->diags, E0603_PIPELINE, w->run->where,
                         "`weight_shape` %s the weight `%s`", why, weight->name->text);
    if (matrix)
        diag_note(d, "the weight has %" PRId64 " rows and %" PRId64 " columns", matrix[0],
                  matrix[1]);
    diag_help(d, "of each weight: how many blocks, their two extents, as many indices, and a "
                 "beginning for each row of blocks and one more");
    w->failed = true;
    return false;
}

/* The parts of a weight of the table: its blocks, where they stand, and where rows begin. */
static bool sparse_parts(Weights *w, const Call *call, const Var *weight, const Type *t,
                         Expr **parts)
{
    int64_t at = listed(attrs_find(w->run->params, "weight_name"), weight), d[5], matrix[2];
    const AttrValue *shapes = attrs_find(w->run->params, "weight_shape");
    if (at < 0)
        return false;
    if (at >= (int64_t)shapes->list.n || shapes->list.at[at].list.n != 5)
        return refuse_shape(w, weight, "has no list of five numbers for", NULL);
    for (int i = 0; i < 5; i++)
        d[i] = shapes->list.at[at].list.at[i].i;
    if (matrix_of(call, t, matrix) && !are_blocks_of(d, matrix))
        return refuse_shape(w, weight, "is none that fits", matrix);
    parts[0] = &new_param(w, weight, "data", t->dtype, 3, d)->base;
    parts[1] = &new_param(w, weight, "indices", int32_dtype, 1, d + 3)->base;
    parts[2] = &new_param(w, weight, "indptr", int32_dtype, 1, d + 4)->base;
    return true;
}

static Expr *sparse_conv2d(Weights *w, const Call *call, Expr **args)
{
    OpsMake m = {w->run->cx, &w->run->module->arena, call->base.span};
    int64_t k = attrs_int(w->run->params, "kernel_size", 1), kernel[2] = {k, k};
    Str layout = attrs_string(w->run->params, "layout");
    const char *text = arena_copy_text(m.arena, layout.ptr, layout.len);
    Attr attrs[2] = {ops_attr_ints(&m, "kernel_size", 2, kernel),
                     ops_attr_text(&m, "layout", text)};
    return ops_call(&m, "nn.sparse_conv2d", 4, args, 2, attrs);
}

static Expr *put_sparse(Weights *w, const Call *call, const Call *typed, const Var *weight)
{
    const Type *t = expr_tensor_type(typed->args.at[1]);
    bool conv = attrs_find(w->run->params, "layout") != NULL;
    Expr *args[4] = {call->args.at[0]};
    if (!t || w->failed || !sparse_parts(w, typed, weight, t, args + 1))
        return NULL;
    OpsMake m = {w->run->cx, &w->run->module->arena, call->base.span};
    return conv ? sparse_conv2d(w, call, args) : ops_call(&m, "nn.sparse_dense", 4, args, 0, NULL);
}
/* ---- weights that are known -------------------------------------------------------------------------------------------------- */

/* A weight as a matrix: a row for each channel of the result, in it what lies under the kernel, in the order kernel row, kernel column,
 * channel. Rows and columns in blocks. */
typedef struct Blocks {
    const Tensor *weight;
    int at[4]; /* where the axes O, I, H, W stand */
    int64_t rows, cols;
    int64_t block[2];
} Blocks;

static const char *weight_at(const Blocks *b, int64_t row, int64_t col)
{
    const Tensor *t = b->weight;
    int64_t channels = t->shape[b->at[1]], width = t->shape[b->at[3]], index[4], at = 0;
    index[b->at[0]] = row;
    index[b->at[1]] = col % channels;
    index[b->at[2]] = col / channels / width;
    index[b->at[3]] = col / channels % width;
    for (int i = 0; i < 4; i++)
        at = at * t->shape[i] + index[i];
    return tensor_element(t, at);
}

/* The part of the weight's elements that are 0. */
static double sparsity(const Tensor *t)
{
    int64_t zeros = 0;
    for (int64_t i = 0; i < t->size; i++)
        zeros += tensor_get_double(t, i) == 0;
    return t->size ? (double)zeros / (double)t->size : 0;
}

static bool is_zero(const Blocks *b, int64_t row, int64_t col)
{
    Value v = value_scalar(b->weight->dtype, weight_at(b, row, col));
    return value_as_double(v) == 0;
}

static bool has_element(const Blocks *b, int64_t block_row, int64_t block_col)
{
    for (int64_t i = 0; i < b->block[0]; i++)
        for (int64_t j = 0; j < b->block[1]; j++)
            if (!is_zero(b, block_row * b->block[0] + i, block_col * b->block[1] + j))
                return true;
    return false;
}

static char *put_block(const Blocks *b, int64_t block_row, int64_t block_col, char *to)
{
    size_t size = dtype_size(b->weight->dtype);
    for (int64_t i = 0; i < b->block[0]; i++)
        for (int64_t j = 0; j < b->block[1]; j++, to += size)
            memcpy(to, weight_at(b, block_row * b->block[0] + i, block_col * b->block[1] + j),
                   size);
    return to;
}

/* Of each row of blocks, those that hold something; NULL parts when a limit was reached. */
static bool put_blocks(PassRun *run, const Blocks *b, Tensor *parts[3])
{
    Limits *limits = &run->cx->limits;
    int64_t rows = b->rows / b->block[0], cols = b->cols / b->block[1], ends = rows + 1;
    Vec(int32_t) places = {0};
    if (!(parts[2] = tensor_new(limits, int32_dtype, 1, &ends)))
        return false;
    for (int64_t i = 0; i < rows * cols; i++) {
        if (limit_hit(limits))
            return false;
        if (has_element(b, i / cols, i % cols))
            vec_push(&places, &run->scratch, (int32_t)(i % cols));
        ((int32_t *)parts[2]->data)[i / cols + 1] = (int32_t)places.n;
    }
    int64_t n = (int64_t)places.n, shape[3] = {n, b->block[0], b->block[1]};
    parts[0] = tensor_new(limits, b->weight->dtype, 3, shape);
    parts[1] = tensor_new(limits, int32_dtype, 1, &n);
    if (!parts[0] || !parts[1])
        return false;
    char *to = parts[0]->data;
    const int32_t *ends_of = (const int32_t *)parts[2]->data;
    for (int64_t row = 0; row < rows; row++)
        for (int32_t k = ends_of[row]; k < ends_of[row + 1]; k++)
            to = put_block(b, row, places.at[k], to);
    if (n)
        memcpy(parts[1]->data, places.at, (size_t)n * sizeof *places.at);
    return true;
}

/* ---- where they are used ------------------------------------------------------------------------------------------------------ */

typedef struct Kind {
    const char *op;
    bool transposed; /* the weight stands behind a transpose */
    PutWeight *put;
} Kind;

static const Kind transposes = {"nn.dense", true, put_transposed};
static const Kind dense = {"nn.dense", false, put_sparse};
static const Kind conv2d = {"nn.conv2d", false, put_sparse};

typedef struct Replace {
    Weights weights;
    const Kind *kind;
} Replace;

/* A convolution that the sparse one computes: steps of 1, the padding that keeps the extents, the wanted layout, and what comes out in that
 * and in the type of the data. */
static bool has_layout(const Weights *w, const Call *call)
{
    const AttrValue *layout = attrs_find(w->run->params, "layout");
    int64_t kernel[2], strides[2], dilation[2], before[2], after[2], k;
    if (!layout)
        return true;
    k = attrs_int(w->run->params, "kernel_size", 1);
    if (attrs_ints(call->attrs, "kernel_size", kernel, 2) != 2)
        return false;
    ops_ints(call->attrs, "strides", 2, strides);
    ops_ints(call->attrs, "dilation", 2, dilation);
    ops_padding(call->attrs, "padding", 2, before, after);
    for (int i = 0; i < 2; i++)
        if (kernel[i] != k || strides[i] != 1 || (k > 1 && dilation[i] != 1) ||
            before[i] != k / 2 || after[i] != k - 1 - before[i])
            return false;
    Str out = attrs_string(call->attrs, "out_layout");
    const Type *data = expr_tensor_type(call->args.at[0]), *made = expr_tensor_type(&call->base);
    return str_eq(attrs_string(call->attrs, "data_layout"), layout->s) &&
           (!out.len || str_eq(out, layout->s)) && data && made &&
           dtype_eq(data->dtype, made->dtype) && attrs_int(call->attrs, "groups", 1) == 1;
}

static Expr *replace(Rewriter *rw, const Expr *old, Expr *now)
{
    Replace *r = rw->data;
    const Op *op = expr_call_of_op(now);
    const Call *typed = expr_as_call(old), *call = expr_as_call(now);
    expr_keep_type(now, old);
    if (!op || strcmp(op->name, r->kind->op) != 0 || !has_layout(&r->weights, typed))
        return now;
    Expr *weight = typed->args.at[1];
    const Op *of = expr_call_of_op(weight);
    if (r->kind->transposed) {
        if (!of || strcmp(of->name, "transpose") != 0 || !turns_round(expr_as_call(weight)))
            return now;
        weight = expr_as_call(weight)->args.at[0];
    }
    if (!is_param(&r->weights, weight))
        return now;
    Expr *with = r->kind->put(&r->weights, call, typed, expr_as_var(weight));
    return with ? with : now;
}

/* A constant weight that can be cut into blocks and has zeros enough. */
static bool find_blocks(const PassRun *run, const Call *call, const Tensor *t, Blocks *b)
{
    const AttrValue *least = attrs_find(run->params, "sparsity_threshold");
    *b = (Blocks){.weight = t};
    if (t->rank != 4 || attrs_ints(run->params, "blocksize", b->block, 2) != 2 || b->block[0] < 1 ||
        b->block[1] < 1 ||
        !layout_positions(attrs_string(call->attrs, "kernel_layout"), "OIHW", b->at))
        return false;
    b->rows = t->shape[b->at[0]];
    b->cols = t->shape[b->at[1]] * t->shape[b->at[2]] * t->shape[b->at[3]];
    return b->rows % b->block[0] == 0 && b->cols % b->block[1] == 0 && sparsity(t) >= least->f;
}

static Expr *put_known(Rewriter *rw, const Expr *old, Expr *now)
{
    Weights *w = rw->data;
    const Op *op = expr_call_of_op(now);
    const Call *call = expr_as_call(now);
    TensorView view;
    Blocks b;
    expr_keep_type(now, old);
    if (!op || strcmp(op->name, "nn.conv2d") != 0 || !has_layout(w, expr_as_call(old)))
        return now;
    const Constant *weight = expr_as_constant(call->args.at[1]);
    if (!weight || !value_view(&weight->value, &view) || !find_blocks(w->run, call, &view.t, &b))
        return now;
    Tensor *parts[3] = {0};
    Expr *args[4] = {call->args.at[0]};
    bool made = put_blocks(w->run, &b, parts);
    for (int i = 0; i < 3; i++) {
        Value v = parts[i] ? value_tensor(parts[i]) : value_none();
        if (made)
            args[i + 1] = expr_constant(&w->run->module->arena, weight->base.span, v);
        value_release(v);
    }
    return made ? sparse_conv2d(w, call, args) : now;
}

static Function *conv2d_to_sparse2(PassRun *run, const Def *def)
{
    const AttrValue *block = attrs_find(run->params, "blocksize");
    if (block->list.n != 2 || block->list.at[0].i < 1 || block->list.at[1].i < 1) {
        diag_error(run->cx->diags, E0603_PIPELINE, run->where,
                   "`blocksize` is two numbers from 1: the rows and the columns of a block");
        return NULL;
    }
    Weights w = {.run = run};
    Rewriter rw;
    pass_rewriter_init(&rw, run, put_known, &w);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    return expr_as_function(now);
}

/* The function with the parameters that are used, and the new ones. */
static Function *with_params(Weights *w, const Function *f, Expr *body)
{
    PtrMap used = {0};
    Vec(Var *) params = {0};
    const AttrValue *names = attrs_find(w->run->params, "weight_name");
    names = names ? names : attrs_find(w->run->params, "target_weight_name");
    ir_free_set(body, &used);
    for (uint32_t i = 0; i < f->params.n; i++)
        if (ptrmap_has(&used, f->params.at[i]) || listed(names, f->params.at[i]) < 0)
            vec_push(&params, &w->run->scratch, f->params.at[i]);
    for (size_t i = 0; i < w->made.n; i++)
        vec_push(&params, &w->run->scratch, w->made.at[i]);
    ptrmap_deinit(&used);
    return expr_function(&w->run->module->arena, f->base.span, f->type_params, (uint32_t)params.n,
                         params.at, f->attrs, f->ret_type, body);
}

static Function *replace_weights(PassRun *run, const Def *def, const Kind *kind)
{
    Replace r = {.weights = {.run = run}, .kind = kind};
    Rewriter rw;
    if (def->name->len == 0)
        return def->fn;
    for (uint32_t i = 0; i < def->fn->params.n; i++)
        ptrmap_put(&r.weights.params, def->fn->params.at[i], NULL);
    rewriter_init(&rw, run->cx, run->module, replace, &r);
    Expr *body = ir_rewrite(&rw, def->fn->body);
    rewriter_deinit(&rw);
    ptrmap_deinit(&r.weights.params);
    if (!body || r.weights.failed)
        return NULL;
    if (!r.weights.made.n)
        return def->fn;
    return with_params(&r.weights, def->fn, body);
}

static Function *simplify_transposes(PassRun *run, const Def *def)
{
    return replace_weights(run, def, &transposes);
}

static Function *dense_to_sparse(PassRun *run, const Def *def)
{
    return replace_weights(run, def, &dense);
}

static Function *conv2d_to_sparse(PassRun *run, const Def *def)
{
    return replace_weights(run, def, &conv2d);
}

static const OpAttr transpose_params[] = {
    {"target_weight_name", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},
     .names = ATTR_NAMES_PARAMETERS, .doc = "parameters that are weights"},
    {0},
};
#define SPARSE_PARAMS                                                                         \
    {"weight_name", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},                      \
     .names = ATTR_NAMES_PARAMETERS, .doc = "parameters that are weights"},                   \
        {"weight_shape", ATTR_TYPE_INT_LISTS, .otherwise = {.kind = ATTR_LIST},               \
         .doc = "of each: how many blocks, their two extents, how many indices and how many " \
                "beginnings of rows"}
static const OpAttr dense_params[] = {SPARSE_PARAMS, {0}};
#define CONV_PARAMS                                                         \
    {"layout", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("NHWC"),  \
     .one_of = (const char *const[]){"NHWC", "NCHW", NULL},                 \
     .doc = "the order of the data's axes"},                                \
        {"kernel_size", ATTR_TYPE_INT,    .otherwise = ATTR_DEFAULT_INT(1), \
         .least = 1,    .most = OPS_MOST, .doc = "the extent of the kernel"}
static const OpAttr conv2d_params[] = {SPARSE_PARAMS, CONV_PARAMS, {0}};
static const AttrValue single[] = {{.kind = ATTR_INT, .i = 1}, {.kind = ATTR_INT, .i = 1}};
static const OpAttr conv2d_known_params[] = {
    CONV_PARAMS,
    {"blocksize", ATTR_TYPE_INTS, .otherwise = ATTR_DEFAULT_LIST(single),
     .doc = "the extents of a block: channels of the result, and what lies under the kernel"},
    {"sparsity_threshold", ATTR_TYPE_FLOAT, .otherwise = ATTR_DEFAULT_FLOAT(0.5),
     .doc = "the part of the elements that are 0, at least"},
    {0},
};

const Pass pass_simplify_fc_transpose = {
    .name = "SimplifyFCTranspose",
    .doc = "Takes weights of dense layers as parameters that are transposed ahead.",
    .opt_level = 4,
    .needs_types = true,
    .other_values = true,
    .params = transpose_params,
    .before = "DeadCodeElimination",
    .function = simplify_transposes,
};

const Pass pass_dense_to_sparse = {
    .name = "DenseToSparse",
    .doc = "Takes weights of dense layers as block-sparse parameters.",
    .opt_level = 4,
    .needs_types = true,
    .other_values = true,
    .params = dense_params,
    .before = "DeadCodeElimination",
    .function = dense_to_sparse,
};

const Pass pass_conv2d_to_sparse = {
    .name = "Conv2dToSparse",
    .doc = "Takes weights of convolutions as block-sparse parameters.",
    .opt_level = 4,
    .needs_types = true,
    .other_values = true,
    .params = conv2d_params,
    .before = "DeadCodeElimination",
    .function = conv2d_to_sparse,
};

const Pass pass_conv2d_to_sparse2 = {
    .name = "Conv2dToSparse2",
    .doc = "Makes constant weights of convolutions with many zeros block-sparse.",
    .opt_level = 5,
    .needs_types = true,
    .params = conv2d_known_params,
    .before = "DeadCodeElimination",
    .function = conv2d_to_sparse2,
};
