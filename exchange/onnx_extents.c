/* What is known of integers that say shapes: numbers and symbolic extents. An exporter writes the shape of a batch as nodes that take a
 * shape apart and put it together again; followed here, they end as attributes, and where all of a result are numbers it is a constant. */
#include "exchange/onnx_internal.h"

#include "ir/dim.h"

#include <string.h>

typedef struct Known {
    Dim at[ONNX_INTS_MOST];
    uint32_t n;
} Known;

/* False: the value is no row of few integers. */
static bool known_of(OnnxNode *n, size_t i, Known *out)
{
    const OnnxValue *v = onnx_has(n, i) ? onnx_value(n, i) : NULL;
    if (!v || !v->type || v->type->kind != TYPE_TENSOR || v->type->n > 1 ||
        dtype_is_float(v->type->dtype) || dtype_is_bool(v->type->dtype))
        return false;
    Dim count = v->type->n == 0 ? 1 : v->type->dims[0];
    if (count < 0 || count > ONNX_INTS_MOST)
        return false;
    out->n = (uint32_t)count;
    for (uint32_t k = 0; k < out->n; k++)
        out->at[k] = onnx_element(v, k);
    return true;
}

/* Places in a row, of which a negative one counts from the end: DIM_ANY looks like the last one and is none. */
static bool places_of(OnnxNode *n, size_t i, Known *out)
{
    bool known = known_of(n, i, out);
    for (uint32_t k = 0; known && k < out->n; k++)
        known = onnx_value(n, i)->constant || out->at[k] != DIM_ANY;
    return known;
}

static bool extents_same(OnnxNode *n, Known *out)
{
    return known_of(n, 0, out);
}

static bool extents_shape(OnnxNode *n, Known *out)
{
    const Type *t = onnx_value(n, 0)->type;
    int64_t from = onnx_attr_int(n, "start", 0), to = onnx_attr_int(n, "end", t->n);
    from += from < 0 ? t->n : 0;
    to += to < 0 ? t->n : 0;
    for (int64_t i = from < 0 ? 0 : from; i < to && i < t->n; i++)
        out->at[out->n++] = t->dims[i];
    return true;
}

static bool extents_gather(OnnxNode *n, Known *out)
{
    Known from, which;
    if (!known_of(n, 0, &from) || !places_of(n, 1, &which) || onnx_rank(n, 0) != 1)
        return false;
    for (uint32_t k = 0; k < which.n; k++) {
        Dim i = which.at[k] + (which.at[k] < 0 ? from.n : 0);
        out->at[out->n++] = i >= 0 && i < from.n ? from.at[i] : DIM_ANY;
    }
    return true;
}

static bool extents_concat(OnnxNode *n, Known *out)
{
    for (size_t i = 0; i < n->proto->n_input; i++) {
        Known part;
        if (!known_of(n, i, &part) || out->n + part.n > ONNX_INTS_MOST)
            return false;
        memcpy(out->at + out->n, part.at, part.n * sizeof *part.at);
        out->n += part.n;
    }
    return true;
}

static bool extents_slice(OnnxNode *n, Known *out)
{
    Known from, begin, end, step = {{1}, 1};
    if (n->version < 10 || !known_of(n, 0, &from) || !places_of(n, 1, &begin) || begin.n != 1 ||
        !places_of(n, 2, &end) || end.n != 1 || (onnx_has(n, 4) && !known_of(n, 4, &step)) ||
        step.at[0] != 1 || begin.at[0] < -(Dim)from.n || dim_is_symbol(begin.at[0]) ||
        dim_is_symbol(end.at[0]))
        return false;
    Dim b = begin.at[0] + (begin.at[0] < 0 ? from.n : 0),
        e = end.at[0] + (end.at[0] < 0 ? from.n : 0);
    for (Dim k = b < 0 ? 0 : b; k < e && k < from.n; k++)
        out->at[out->n++] = from.at[k];
    return true;
}

static bool extents_binary(OnnxNode *n, Known *out)
{
    Known a, b;
    if (!known_of(n, 0, &a) || !known_of(n, 1, &b) || (a.n != b.n && a.n != 1 && b.n != 1))
        return false;
    static Dim (*const how[])(Ctx *, Dim, Dim) = {dim_add, dim_sub, dim_mul, dim_floor_div};
    static const char *const ops[] = {"Add", "Sub", "Mul", "Div"};
    out->n = a.n == 1 ? b.n : a.n;
    for (uint32_t k = 0; k < out->n; k++)
        for (size_t i = 0; i < 4; i++) {
            Dim x = a.at[a.n == 1 ? 0 : k], y = b.at[b.n == 1 ? 0 : k];
            /* -1 is what is left, and `?` both: of such nothing is known. */
            bool known =
                (x >= 0 || dim_is_symbol(x)) && (y > 0 || dim_is_symbol(y) || (y == 0 && i < 3));
            if (!strcmp(n->proto->op_type, ops[i]))
                out->at[k] = known ? how[i](onnx_ctx(n), x, y) : DIM_ANY;
        }
    return true;
}

static const struct ExtentRow {
    const char *op;
    bool (*known)(OnnxNode *n, Known *out);
} rows[] = {
    {"Add", extents_binary},   {"Cast", extents_same},     {"Concat", extents_concat},
    {"Div", extents_binary},   {"Gather", extents_gather}, {"Mul", extents_binary},
    {"Reshape", extents_same}, {"Shape", extents_shape},   {"Slice", extents_slice},
    {"Squeeze", extents_same}, {"Sub", extents_binary},    {"Unsqueeze", extents_same},
};

void import_extents(OnnxNode *n)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows && n->proto->op_type; i++) {
        Known out = {.n = 0};
        if (!strcmp(rows[i].op, n->proto->op_type) && rows[i].known(n, &out))
            onnx_know(n, 0, out.n, out.at);
    }
}
