/* Tensor expressions: building, folding, recognising, running, printing. */
#include "te/te.h"

#include "stdlib/stdlib.h"
#include "te/op_eval.h"
#include "tests/unit/check.h"

#include <string.h>

static Ctx cx;
static Arena arena;

static const DType f32 = {DTYPE_CODE_FLOAT, 32, 1};
static const DType i32 = {DTYPE_CODE_INT, 32, 1};

static Tensor *filled(DType dtype, int rank, const int64_t *shape, int from)
{
    Tensor *t = tensor_new(&cx.limits, dtype, rank, shape);
    for (int64_t i = 0; i < t->size; i++) {
        Value v = value_scalar_double(dtype, (double)((from + i * 7) % 11 - 5));
        memcpy(t->data + (size_t)i * dtype_size(dtype), &v.bits, dtype_size(dtype));
    }
    return t;
}

static Tensor *run_one(const TeProgram *p, int n, Tensor *const *inputs)
{
    TensorView views[4];
    Tensor *out = NULL;
    for (int i = 0; i < n; i++)
        views[i].t = *inputs[i];
    return te_run(&cx, p, (Span){0}, views, &out) ? out : NULL;
}

static const char *printed(const TeProgram *p)
{
    Buf b = {0};
    te_print(&b, p, NULL);
    return buf_keep(&b, &arena);
}

/* A reshape that merges and splits axes is a view: no division is left in the index. */
static void test_reshape_is_view(void)
{
    int64_t from[3] = {2, 3, 4}, to[2] = {6, 4};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 3, from);
    Te *axes[2] = {te_axis(&b, 0), te_axis(&b, 1)}, *index[3];
    te_unflatten(&b, 3, from, te_flatten(&b, 2, to, axes), index);
    CHECK(index[2] == axes[1]);
    TeTensor y = te_map(&b, f32, 2, to, te_load(&b, x, index));
    TeProgram *p = te_finish(&b, 1, &y, false);
    Tensor *in = filled(f32, 3, from, 0), *out = run_one(p, 1, &in);
    CHECK(out && out->data == in->data && out->rank == 2);
    tensor_release(in);
    tensor_release(out);
}

/* Stages that nothing needs are dropped, and the loads follow the new numbers. */
static void test_unneeded(void)
{
    int64_t shape[1] = {4};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 1, shape);
    Te *i[1] = {te_axis(&b, 0)};
    te_map(&b, f32, 1, shape, te_unary(&b, TE_EXP, te_load(&b, x, i)));
    TeTensor y = te_map(&b, f32, 1, shape, te_unary(&b, TE_NEG, te_load(&b, x, i)));
    TeTensor z = te_map(&b, f32, 1, shape, te_unary(&b, TE_ABS, te_load(&b, y, i)));
    TeProgram *p = te_finish(&b, 1, &z, false);
    CHECK(p->n_stages == 2 && p->outputs[0] == 2);
    CHECK_TEXT(printed(p),
               "for i0 in 0..4:\n  t0[i0] = -x[i0]\nfor i0 in 0..4:\n  out[i0] = abs(t0[i0])\n");
    TeProgram *q = te_inline(&cx, &arena, p);
    CHECK(q->n_stages == 1);
    CHECK_TEXT(printed(q), "for i0 in 0..4:\n  out[i0] = abs(-x[i0])\n");
}

/* sum over k of t[b, i, k] * y[b, k, j], of a tensor t whose element (b, i, k) is x[i, by * b + k], or with `window` sum over k of
 * t[b, i + k, j] * y[b, k, j]. `apart`: x has rows of two elements for one. */
static const TeProgram *moved_product(bool window, bool apart)
{
    int64_t flat[2] = {6, apart ? 24 : 12}, moved[3] = {3, 6, 4}, other[3] = {3, 4, 4}, k = 4;
    int64_t shape[3] = {3, window ? 3 : 6, 4};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 2, flat), y = te_add_input(&b, f32, 3, other);
    Te *column = te_binary(&b, TE_MUL, te_axis(&b, 0), te_int(&b, 4));
    column = te_binary(&b, TE_ADD, column, te_axis(&b, 2));
    if (apart)
        column = te_binary(&b, TE_MUL, column, te_int(&b, 2));
    Te *from[2] = {te_axis(&b, 1), column};
    TeTensor t = te_map(&b, f32, 3, moved, te_load(&b, x, from));
    Te *row = te_axis(&b, 1), *fold = te_axis(&b, 3);
    Te *first[3] = {te_axis(&b, 0), window ? te_binary(&b, TE_ADD, row, fold) : row,
                    window ? te_axis(&b, 2) : fold};
    Te *second[3] = {te_axis(&b, 0), fold, te_axis(&b, 2)};
    Te *product = te_binary(&b, TE_MUL, te_load(&b, t, first), te_load(&b, y, second));
    TeTensor out = te_reduce(&b, TE_SUM, f32, 3, shape, 1, &k, product);
    return te_inline(&cx, &arena, te_finish(&b, 1, &out, false));
}

/* A product reads its factors where they lie when their elements lie side by side there too; windows are read from what was moved. */
static void test_moved_factors(void)
{
    const TeProgram *p = moved_product(false, false);
    TeContraction c;
    CHECK(p->n_stages == 1 && te_contraction(p, 0, &c) && c.a.tensor == 0);
    CHECK(c.a.stride[0] == 4 && c.a.stride[1] == 12 && c.a.stride[3] == 1);
    CHECK(moved_product(false, true)->n_stages == 2);
    CHECK(moved_product(true, false)->n_stages == 2);
}

/* What a reader sees: a name for what is used twice, no sums with negative numbers, brackets where they are needed. */
static void test_printed(void)
{
    int64_t shape[1] = {4};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 1, shape);
    Te *i[1] = {te_binary(&b, TE_ADD, te_axis(&b, 0), te_int(&b, -1))};
    Te *v = te_load_or(&b, x, i, te_number(&b, f32, 0));
    v = te_binary(&b, TE_MUL,
                  te_unary(&b, TE_EXP, te_binary(&b, TE_ADD, v, te_number(&b, f32, -0.5))),
                  te_number(&b, f32, 3));
    v = te_select(&b, te_binary(&b, TE_GT, v, te_number(&b, f32, 1)), v, te_number(&b, f32, 1));
    TeTensor y = te_map(&b, f32, 1, shape, v);
    CHECK_TEXT(printed(te_finish(&b, 1, &y, false)),
               "for i0 in 0..4:\n  out[i0] = v0 > 1 ? v0 : 1\n"
               "    where v0 = exp((x[i0 - 1] or 0) - 0.5) * 3\n");
}

/* Up to four inputs have letters, more have numbers. */
static void test_names_of_inputs(void)
{
    int64_t shape[1] = {2};
    for (int n = 4; n <= 5; n++) {
        TeBuilder b;
        te_begin(&b, &cx, &arena);
        Te *i[1] = {te_axis(&b, 0)}, *sum = NULL;
        for (int k = 0; k < n; k++) {
            Te *one = te_load(&b, te_add_input(&b, f32, 1, shape), i);
            sum = sum ? te_binary(&b, TE_ADD, sum, one) : one;
        }
        TeTensor y = te_map(&b, f32, 1, shape, sum);
        CHECK_TEXT(printed(te_finish(&b, 1, &y, false)),
                   n == 4 ? "for i0 in 0..2:\n  out[i0] = x[i0] + y[i0] + z[i0] + w[i0]\n"
                          : "for i0 in 0..2:\n"
                            "  out[i0] = x0[i0] + x1[i0] + x2[i0] + x3[i0] + x4[i0]\n");
    }
}

static TeProgram *product_of(int64_t m, int64_t k, int64_t n, DType dtype)
{
    int64_t a[2] = {m, k}, c[2] = {k, n}, out[2] = {m, n};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, dtype, 2, a), y = te_add_input(&b, dtype, 2, c);
    Te *xi[2] = {te_axis(&b, 0), te_axis(&b, 2)}, *yi[2] = {te_axis(&b, 2), te_axis(&b, 1)};
    Te *body = te_binary(&b, TE_MUL, te_load(&b, x, xi), te_load(&b, y, yi));
    TeTensor z = te_reduce(&b, TE_SUM, dtype, 2, out, 1, &k, body);
    return te_finish(&b, 1, &z, false);
}

/* Axes by what the factors depend on: the last one with more than one value is of the columns, whichever factor has it. */
static void test_sides(void)
{
    static const int64_t shape[] = {5, 4, 3, 1}, reduced[] = {7, 6, 1};
    TeStage s = {.rank = 4, .shape = shape, .n_reduced = 3, .reduced = reduced};
    static const TeSide plain[] = {TE_SIDE_EACH, TE_SIDE_ROWS,  TE_SIDE_COLUMNS, TE_SIDE_NONE,
                                   TE_SIDE_EACH, TE_SIDE_FOLDS, TE_SIDE_NONE};
    TeSides a = te_sides(&s, 0x23, 0x35), b = te_sides(&s, 0x35, 0x23);
    CHECK(!a.turned && b.turned);
    for (int i = 0; i < 7; i++)
        CHECK(a.of[i] == plain[i] && b.of[i] == plain[i]);
    CHECK(te_sides(&s, 0x22, 0x34).of[0] == TE_SIDE_EACH);
}

/* Matrix products are recognised, and agree with the loops that integers take. */
static void test_contraction(void)
{
    int64_t m = 17, k = 40, n = 23, a[2] = {m, k}, c[2] = {k, n};
    TeProgram *p = product_of(m, k, n, f32), *q = product_of(m, k, n, i32);
    TeContraction t;
    CHECK(te_contraction(p, 0, &t));
    CHECK(t.a.stride[0] == k && t.a.stride[2] == 1 && t.b.stride[2] == n && t.b.stride[1] == 1);
    CHECK_TEXT(
        printed(p),
        "for i0 in 0..17, i1 in 0..23:\n  out[i0, i1] = sum(k in 0..40) x[i0, k] * y[k, i1]\n");
    TeCost cost = te_cost(p);
    CHECK(cost.multiply_adds == (double)(m * k * n));
    CHECK(cost.operations == 2.0 * (double)(m * k * n) &&
          cost.bytes_written == 4.0 * (double)(m * n));
    Tensor *xf[2] = {filled(f32, 2, a, 3), filled(f32, 2, c, 1)};
    Tensor *xi[2] = {filled(i32, 2, a, 3), filled(i32, 2, c, 1)};
    Tensor *f = run_one(p, 2, xf), *i = run_one(q, 2, xi);
    bool same = f && i;
    for (int64_t at = 0; same && at < f->size; at++)
        same = tensor_get_double(f, at) == (double)tensor_get_int(i, at);
    CHECK(same);
    for (int at = 0; at < 2; at++) {
        tensor_release(xf[at]);
        tensor_release(xi[at]);
    }
    tensor_release(f);
    tensor_release(i);
}

/* A place lies inside from minus the extent on, and below the extent. */
static void test_places(void)
{
    static const DType i64 = {DTYPE_CODE_INT, 64, 1};
    static const struct {
        int64_t place;
        bool inside;
    } cases[] = {{-4, false}, {-3, true}, {0, true}, {2, true}, {3, false}};
    int64_t shape[1] = {40};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    Te *at[1] = {te_axis(&b, 0)};
    Te *v = te_load(&b, te_add_input(&b, i64, 1, shape), at);
    TeTensor y = te_map(&b, i64, 1, shape, te_binary(&b, TE_PLACE, v, te_int(&b, 3)));
    const TeProgram *p = te_finish(&b, 1, &y, false);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        Tensor *x = tensor_new(&cx.limits, i64, 1, shape);
        memcpy(x->data + 39 * 8, &cases[k].place, 8);
        Tensor *out = run_one(p, 1, &x);
        CHECK((out != NULL) == cases[k].inside);
        tensor_release(out);
        tensor_release(x);
    }
    diags_clear(cx.diags);
}

/* What one operator does to scalars, through te_run_scalar and through op_eval. */
static Value scalar_op(const char *name, Value x, Value y)
{
    Value args[2] = {x, y};
    return op_eval(&cx, op_find(&cx, str_of(name)), NULL, (Span){0}, 2, args);
}

static void test_scalars(void)
{
    CHECK(value_as_int(scalar_op("add", value_int32(2000000000), value_int32(2000000000))) ==
          -294967296);
    CHECK(value_as_int(scalar_op("divide", value_int32(-7), value_int32(2))) == -3);
    CHECK(value_as_int(scalar_op("floor_divide", value_int32(-7), value_int32(2))) == -4);
    CHECK(value_as_int(scalar_op("divide", value_int32(INT32_MIN), value_int32(-1))) == INT32_MIN);
    CHECK(value_as_int(scalar_op("mod", value_int32(INT32_MIN), value_int32(-1))) == 0);
    CHECK(value_is_true(scalar_op("less", value_int64(3), value_int64(4))));
    CHECK(value_as_double(
              scalar_op("maximum", value_float32(__builtin_nanf("")), value_float32(1))) == 1);
    CHECK(cx.diags->errors == 0);
    CHECK(value_is_none(scalar_op("divide", value_int32(1), value_int32(0))));
    CHECK(cx.diags->first && cx.diags->first->code == E0302_DIVIDE_BY_ZERO);
    diags_clear(cx.diags);
}

/* A kernel that changes few elements writes those of an argument that nobody else holds, and no others. */
static void test_changed(void)
{
    int64_t shape[1] = {4};
    const Op *op = op_find(&cx, str_of("scatter_add"));
    Tensor *x = filled(f32, 1, shape, 1), *at = filled(i32, 1, (int64_t[]){1}, 0);
    Tensor *y = filled(f32, 1, (int64_t[]){1}, 1), *flat = tensor_view(x, 1, shape, x->strides, 0);
    memset(at->data, 0, sizeof(int32_t));
    Value args[3] = {value_tensor(x), value_tensor(at), value_tensor(y)}, v;
    double first = tensor_get_double(x, 0), more = tensor_get_double(y, 0);
    for (int i = 0; i < 3; i++) { /* there is a view of it, the caller keeps it, neither */
        if (i == 1)
            tensor_release(flat);
        v = (i == 1 ? op_eval : op_eval_last)(&cx, op, NULL, (Span){0}, 3, args);
        CHECK(v.kind == VALUE_TENSOR && (v.tensor == x) == (i == 2));
        CHECK(tensor_get_double(v.tensor, 0) == first + more);
        CHECK(tensor_get_double(x, 0) == (i == 2 ? first + more : first));
        value_release(v);
    }
    tensor_release(x);
    tensor_release(at);
    tensor_release(y);
}

/* Sums do not depend on how many threads there are. */
static void test_threads(void)
{
    int64_t shape[1] = {1000003};
    TeBuilder b;
    te_begin(&b, &cx, &arena);
    TeTensor x = te_add_input(&b, f32, 1, shape);
    Te *i[1] = {te_axis(&b, 0)};
    Te *body = te_unary(&b, TE_EXP, te_load(&b, x, i));
    TeTensor s = te_reduce(&b, TE_SUM, f32, 0, NULL, 1, shape, body);
    TeProgram *p = te_finish(&b, 1, &s, false);
    Tensor *in = filled(f32, 1, shape, 0), *first = run_one(p, 1, &in);
    Pool *kept = cx.pool;
    for (int threads = 1; threads <= 3; threads++) {
        cx.pool = pool_new(threads);
        Tensor *again = run_one(p, 1, &in);
        CHECK(again && memcmp(again->data, first->data, sizeof(float)) == 0);
        tensor_release(again);
        pool_free(cx.pool);
    }
    cx.pool = kept;
    tensor_release(in);
    tensor_release(first);
}

static bool has_doc(void *data, const Op *op)
{
    int *n = data;
    bool good = op->doc && *op->doc && op->args && op->rel && op->shapes &&
                !(op->compute && op->kernel) && op->samples;
    for (const OpArg *a = op->args; good && a->name; a++)
        good = a->doc && *a->doc;
    for (const OpAttr *a = op->attrs; good && a && a->name; a++)
        good = a->doc && *a->doc;
    if (!good || op_find(&cx, str_of(op->name)) != op)
        printf("the row of %s is incomplete, or there are two\n", op->name);
    CHECK(good && op_find(&cx, str_of(op->name)) == op);
    ++*n;
    return true;
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    arena_init(&arena, &cx.limits);
    test_reshape_is_view();
    test_unneeded();
    test_moved_factors();
    test_printed();
    test_names_of_inputs();
    test_places();
    test_sides();
    test_contraction();
    test_scalars();
    test_changed();
    test_threads();
    int n = 0;
    op_each(&stdlib_ops, has_doc, &n);
    CHECK(n > 100);
    arena_deinit(&arena);
    ctx_deinit(&cx);
    return check_done();
}
