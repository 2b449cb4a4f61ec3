/* Signals, and what picks elements by their values. */
#include "exchange/onnx_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- spectra ---------------------------------------------------------------------------------------------------------------- */

static const char *part_of(OnnxNode *n, const char *x, int64_t from, int64_t to, int axis)
{
    return onnx_text(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[%d])", x,
                     (long long)from, (long long)to, axis);
}

/* Cut or filled with zeros to so many elements along the last axis. */
static const char *of_length(OnnxNode *n, const char *x, int rank, int64_t has, int64_t want)
{
    if (has == want)
        return x;
    if (has > want)
        return onnx_let(n, part_of(n, x, 0, want, rank - 1));
    Buf width = {0};
    for (int i = 0; i < rank; i++)
        buf_printf(&width, "%s[0, %lld]", i ? ", " : "",
                   i == rank - 1 ? (long long)(want - has) : 0);
    x = onnx_step(n, "nn.pad(%s, %s, pad_width=[%s])", x, onnx_literal(n, 0, onnx_in_dtype(n, 0)),
                  buf_text(&width));
    buf_deinit(&width);
    return x;
}

static const char *exchange_axes(OnnxNode *n, const char *x, int rank, int a, int b)
{
    OnnxInts axes = {.n = rank};
    for (int i = 0; i < rank; i++)
        axes.at[i] = i == a ? b : i == b ? a : i;
    return a == b ? x : onnx_text(n, "transpose(%s, axes=%s)", x, onnx_list(n, axes));
}

/* The axis is an attribute before version 20, an input since. Real and imaginary parts lie along the last axis. */
void rule_dft(OnnxNode *n)
{
    int rank = onnx_rank(n, 0), r = rank - 1;
    OnnxInts axis_in = n->version >= 20 ? onnx_ints(n, 2) : (OnnxInts){.n = -1},
             length_in = onnx_ints(n, 1);
    int64_t axis = axis_in.n > 0      ? axis_in.at[0]
                   : n->version >= 20 ? -2
                                      : onnx_attr_int(n, "axis", 1);
    axis += axis < 0 ? rank : 0;
    bool inverse = onnx_attr_int(n, "inverse", 0) != 0, half = onnx_attr_int(n, "onesided", 0) != 0;
    if (rank < 2 || axis < 0 || axis >= r) {
        onnx_refuse(n, "there is no axis %lld", (long long)axis);
        return;
    }
    int64_t parts = onnx_known_extent(n, 0, -1), has = onnx_known_extent(n, 0, axis);
    int64_t length = length_in.n > 0 ? length_in.at[0] : inverse && half ? 2 * (has - 1) : has;
    const char *p[2];
    if (parts != 1 && parts != 2) {
        onnx_refuse(n, "%lld numbers along the last axis are no real or complex one",
                    (long long)parts);
        return;
    }
    n->constant = false;
    for (int i = 0; i < 2; i++) {
        if (i >= parts) { /* of a length that is right already */
            p[i] = onnx_step(n, "zeros_like(%s)", p[0]);
            break;
        }
        p[i] = onnx_step(n, "%s",
                         exchange_axes(n,
                                       onnx_text(n, "squeeze(%s, axis=[-1])",
                                                 part_of(n, onnx_in(n, 0), i, i + 1, rank - 1)),
                                       r, (int)axis, r - 1));
        p[i] = of_length(n, p[i], r, has, inverse && half ? length / 2 + 1 : length);
        if (inverse &&
            half) { /* the other half is the first, turned round, its imaginary parts with the other sign */
            const char *rest = part_of(n, p[i], 1, (length + 1) / 2, r - 1);
            rest = onnx_text(n, "reverse(%s, axis=%d)", rest, r - 1);
            p[i] = onnx_step(n, "concatenate((%s, %s%s%s), axis=%d)", p[i], i ? "negative(" : "",
                             rest, i ? ")" : "", r - 1);
        }
    }
    const char *y = onnx_step(n, "dft(%s, %s, inverse=%s)", p[0], p[1], onnx_bool(inverse));
    for (int i = 0; i < 2; i++) {
        p[i] = onnx_text(n, "%s.%d", y, i);
        if (half && !inverse)
            p[i] = part_of(n, p[i], 0, length / 2 + 1, r - 1);
        p[i] = exchange_axes(n, p[i], r, (int)axis, r - 1);
    }
    onnx_give(n, inverse && half ? onnx_text(n, "expand_dims(%s, axis=%d)", p[0], r)
                                 : onnx_text(n, "stack((%s, %s), axis=%d)", p[0], p[1], r));
}

void rule_stft(OnnxNode *n)
{
    bool half = onnx_attr_int(n, "onesided", 1) != 0, windowed = onnx_has(n, 2);
    long long step = onnx_integer(n, 1);
    long long size = onnx_has(n, 3) ? onnx_integer(n, 3)
                     : windowed     ? (long long)onnx_known_extent(n, 2, 0)
                                    : 0;
    if (onnx_rank(n, 0) != 3 || onnx_known_extent(n, 0, 2) != 1 || size < 1) {
        onnx_refuse(n, "a signal that is not real, or frames of no length");
        return;
    }
    const char *t = onnx_dtype_text(n, onnx_in_dtype(n, 0));
    const char *window =
        windowed ? onnx_in(n, 2) : onnx_text(n, "ones(shape=[%lld], dtype=\"%s\")", size, t);
    onnx_give(n, onnx_text(n,
                           "transpose(stft(squeeze(%s, axis=[2]), %s, n_fft=%lld, hop_length=%lld, "
                           "win_length=%lld, "
                           "onesided=%s), axes=[0, 2, 1, 3])",
                           onnx_in(n, 0), window, size, step, size, onnx_bool(half)));
}

/* a - b cos(2 pi k / N) + c cos(4 pi k / N), with the three numbers as the row gives them. */
void rule_window_function(OnnxNode *n)
{
    char *rest;
    double a = strtod(n->word, &rest), b = strtod(rest, &rest), c = strtod(rest, &rest);
    int32_t type = (int32_t)onnx_attr_int(n, "output_datatype", 1);
    DType to = onnx_dtype(type), f64 = dtype_of(DT_FLOAT64);
    if (dtype_size(to) == 0)
        onnx_refuse(n, "Relay has no element type `%s`", onnx_dtype_name(type));
    const char *size = onnx_scalar_as(n, 0, f64);
    const char *last = onnx_attr_int(n, "periodic", 1)
                           ? size
                           : onnx_text(n, "subtract(%s, %s)", size, onnx_literal(n, 1, f64));
    const char *x = onnx_step(n, "divide(multiply(%s, arange(%s, %s, %s, dtype=\"float64\")), %s)",
                              onnx_literal(n, 2 * M_PI, f64), onnx_literal(n, 0, f64), size,
                              onnx_literal(n, 1, f64), last);
    onnx_give(n, onnx_text(n,
                           "cast(add(subtract(%s, multiply(%s, cos(%s))), multiply(%s, "
                           "cos(multiply(%s, %s)))), dtype=\"%s\")",
                           onnx_literal(n, a, f64), onnx_literal(n, b, f64), x,
                           onnx_literal(n, c, f64), onnx_literal(n, 2, f64), x,
                           onnx_dtype_text(n, dtype_size(to) ? to : f64)));
}

/* Triangles between frequencies that are equally far apart to the ear. */
void rule_mel_weights(OnnxNode *n)
{
    double v[5] = {0};
    for (size_t i = 0; i < 5; i++)
        v[i] = onnx_number(n, i, 0);
    if (n->failed || v[0] < 1 || v[0] > 65536 || v[1] < 1 || v[1] > (1 << 20) || v[2] < 1 ||
        !(v[3] >= 0) || !(v[4] > v[3]) || v[4] > 1e9 ||
        onnx_attr_int(n, "output_datatype", 1) != 1) {
        onnx_refuse(n, "numbers out of range");
        return;
    }
    int64_t bins = (int64_t)v[0], shape[] = {(int64_t)v[1] / 2 + 1, bins};
    double low = 2595 * log10(1 + v[3] / 700), high = 2595 * log10(1 + v[4] / 700),
           step = (high - low) / (double)(bins + 2);
    Tensor *t = onnx_table(n, dtype_of(DT_FLOAT32), 2, shape);
    for (int64_t i = 0; t && i < bins; i++) {
        int64_t f[3];
        for (int k = 0; k < 3; k++)
            f[k] = (int64_t)floor((v[1] + 1) * 700 *
                                  (pow(10, ((double)(i + k) * step + low) / 2595) - 1) / v[2]);
        for (int64_t j = f[0]; j < shape[0] && (j < f[2] || j == f[1]); j++) {
            double up = f[1] == f[0] ? 1 : (double)(j - f[0]) / (double)(f[1] - f[0]);
            double down = f[2] == f[1] ? 1 : (double)(f[2] - j) / (double)(f[2] - f[1]);
            if (j >= 0)
                ((float *)t->data)[j * bins + i] = (float)(j < f[1]                    ? up
                                                           : j == f[1] && f[2] == f[1] ? up
                                                                                       : down);
        }
    }
    if (t)
        onnx_give_constant(n, t);
}

/* ---- by value --------------------------------------------------------------------------------------------------------------- */

void rule_compress(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    bool flat = !onnx_has_attr(n, "axis");
    const char *at = onnx_text(n, "reshape(argwhere(%s), newshape=[-1])", onnx_in(n, 1));
    onnx_give(n,
              flat ? onnx_text(n, "take(reshape(%s, newshape=[-1]), %s, axis=0)", onnx_in(n, 0), at)
                   : onnx_text(n, "take(%s, %s, axis=%lld)", onnx_in(n, 0), at,
                               (long long)onnx_attr_axis(n, "axis", 0, rank)));
}

/* Each slice is compared with each: it stands where the first that is equal to it does. */
static void unique_slices(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_axis(n, "axis", 0, rank);
    OnnxInts order = {{axis}, 1};
    for (int i = 0; i < rank; i++)
        if (i != axis)
            order.at[order.n++] = i;
    const char *x = onnx_in(n, 0);
    const char *rows =
        onnx_step(n, "reshape(transpose(%s, axes=%s), newshape=[0, -1])", x, onnx_list(n, order));
    const char *others =
        onnx_step(n, "not_equal(expand_dims(%s, axis=1), expand_dims(%s, axis=0))", rows, rows);
    const char *same = onnx_step(n, "logical_not(any(%s, axis=[2]))", others);
    const char *first =
        onnx_step(n, "cast(argmax(cast(%s, dtype=\"int32\"), axis=[1]), dtype=\"int64\")", same);
    const char *places = onnx_step(n, "arange(0i64, %lldi64, 1i64, dtype=\"int64\")",
                                   (long long)onnx_known_extent(n, 0, axis));
    const char *leads = onnx_step(n, "equal(%s, %s)", first, places);
    /* Whether slice i comes before slice k. */
    const char *before;
    if (onnx_attr_int(n, "sorted", 1)) {
        const char *less = onnx_step(n,
                                     "cast(less(expand_dims(%s, axis=1), expand_dims(%s, axis=0)), "
                                     "dtype=\"int32\")",
                                     rows, rows);
        const char *at =
            onnx_step(n, "argmax(cast(%s, dtype=\"int32\"), axis=[2], keepdims=True)", others);
        before = onnx_step(n, "cast(squeeze(gather(%s, %s, axis=2), axis=[2]), dtype=\"bool\")",
                           less, at);
    } else {
        before =
            onnx_step(n, "less(expand_dims(%s, axis=1), expand_dims(%s, axis=0))", places, first);
    }
    const char *number = onnx_step(
        n, "sum(cast(logical_and(%s, expand_dims(%s, axis=1)), dtype=\"int64\"), axis=[0])", before,
        leads);
    const char *found = onnx_step(n, "cast(take(argwhere(%s), 0, axis=1), dtype=\"int64\")", leads);
    const char *chosen =
        onnx_step(n, "take(%s, argsort(take(%s, %s, axis=0), dtype=\"int64\"), axis=0)", found,
                  number, found);
    onnx_give(n, onnx_text(n, "take(%s, %s, axis=%lld)", x, chosen, (long long)axis));
    onnx_give(n, chosen);
    onnx_give(n, number);
    onnx_give(n, onnx_text(n, "take(sum(cast(%s, dtype=\"int64\"), axis=[1]), %s, axis=0)", same,
                           chosen));
}

void rule_unique(OnnxNode *n)
{
    n->constant = false;
    if (onnx_has_attr(n, "axis") && onnx_rank(n, 0) != 1) {
        unique_slices(n);
        return;
    }
    const char *y =
        onnx_step(n, "unique(reshape(%s, newshape=[-1]), sorted=%s, return_counts=True)",
                  onnx_in(n, 0), onnx_bool(onnx_attr_int(n, "sorted", 1) != 0));
    const char *first = onnx_step(
        n, "arange(0i64, cast(squeeze(%s.3, axis=[0]), dtype=\"int64\"), 1i64, dtype=\"int64\")",
        y);
    onnx_give(n, onnx_text(n, "take(%s.0, %s, axis=0)", y, first));
    onnx_give(n, onnx_text(n, "cast(take(%s.1, %s, axis=0), dtype=\"int64\")", y, first));
    onnx_give(n, onnx_text(n, "cast(%s.2, dtype=\"int64\")", y));
    onnx_give(n, onnx_text(n, "cast(take(%s.4, %s, axis=0), dtype=\"int64\")", y, first));
}

/* By the rule of Sarrus. */
void rule_det(OnnxNode *n)
{
    int64_t d = onnx_known_extent(n, 0, -1);
    if (d < 1 || d > 3 || onnx_known_extent(n, 0, -2) != d) {
        onnx_refuse(n, "matrices of %lld rows", (long long)d);
        return;
    }
    const char *e[3][3];
    for (int i = 0; i < d; i++)
        for (int j = 0; j < d; j++)
            e[i][j] =
                onnx_step(n, "take(take(%s, %di64, axis=-2), %di64, axis=-1)", onnx_in(n, 0), i, j);
    if (d == 1)
        onnx_give(n, e[0][0]);
    else if (d == 2)
        onnx_give(n, onnx_text(n, "subtract(multiply(%s, %s), multiply(%s, %s))", e[0][0], e[1][1],
                               e[0][1], e[1][0]));
    else
        onnx_give(
            n,
            onnx_text(
                n,
                "subtract(add(add(multiply(multiply(%s, %s), %s), multiply(multiply(%s, %s), %s)), "
                "multiply(multiply(%s, %s), %s)), add(add(multiply(multiply(%s, %s), %s), "
                "multiply(multiply(%s, %s), %s)), multiply(multiply(%s, %s), %s)))",
                e[0][0], e[1][1], e[2][2], e[0][1], e[1][2], e[2][0], e[0][2], e[1][0], e[2][1],
                e[0][2], e[1][1], e[2][0], e[0][1], e[1][0], e[2][2], e[0][0], e[1][2], e[2][1]));
}

/* New entries of a cache, for each image of the batch from a place of its own. */
void rule_tensor_scatter(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_axis(n, "axis", -2, rank);
    OnnxInts row = {.n = rank}, first = {.n = rank}, shape = {.n = rank};
    for (int i = 0; i < rank; i++) {
        row.at[i] = i == axis ? -1 : 1;
        first.at[i] = i == 0 ? -1 : 1;
        shape.at[i] = onnx_known_extent(n, 1, i);
    }
    const char *at =
        onnx_text(n, "reshape(arange(0i64, %lldi64, 1i64, dtype=\"int64\"), newshape=%s)",
                  (long long)shape.at[axis], onnx_list(n, row));
    if (onnx_has(n, 2))
        at = onnx_text(n, "add(%s, reshape(%s, newshape=%s))", at, onnx_in(n, 2),
                       onnx_list(n, first));
    if (!strcmp(onnx_attr_text(n, "mode", "linear"), "circular"))
        at = onnx_text(n, "floor_mod(%s, %lldi64)", at, (long long)onnx_known_extent(n, 0, axis));
    onnx_give(n, onnx_text(n, "scatter_elements(%s, broadcast_to(%s, shape=%s), %s, axis=%lld)",
                           onnx_in(n, 0), at, onnx_list(n, shape), onnx_in(n, 1), (long long)axis));
}

/* ---- words ------------------------------------------------------------------------------------------------------------------ */

/* How often the word sequences of one length stand in each row: (rows…, sequences). */
static const char *count_sequences(OnnxNode *n, const int64_t *pool, int64_t count, int64_t length,
                                   int64_t skips)
{
    int64_t extent = onnx_known_extent(n, 0, -1);
    const char *sum = NULL, *words[ONNX_INTS_MOST];
    for (int64_t j = 0; j < length; j++) {
        Tensor *t = onnx_zeros(n, count, onnx_in_dtype(n, 0));
        for (int64_t k = 0; t && k < count; k++) {
            int64_t word = pool[k * length + j];
            if (dtype_size(t->dtype) == 8)
                ((int64_t *)t->data)[k] = word;
            else
                ((int32_t *)t->data)[k] = (int32_t)word;
        }
        words[j] = t ? onnx_array(n, t, "words") : "";
    }
    for (int64_t skip = 1; skip <= (length > 1 ? skips + 1 : 1); skip++) {
        int64_t places = extent - (length - 1) * skip;
        const char *found = NULL;
        for (int64_t j = 0; j < length && places > 0; j++) {
            const char *here = onnx_text(
                n,
                "equal(expand_dims(strided_slice(%s, begin=[%lld], end=[%lld], strides=None, "
                "axes=[-1]), axis=-1), %s)",
                onnx_in(n, 0), (long long)(j * skip), (long long)(j * skip + places), words[j]);
            found = found ? onnx_text(n, "logical_and(%s, %s)", found, here) : here;
        }
        if (!found)
            break;
        const char *times = onnx_step(n, "sum(cast(%s, dtype=\"float32\"), axis=[-2])", found);
        sum = sum ? onnx_step(n, "add(%s, %s)", sum, times) : times;
    }
    return sum;
}

/* Of sequences of integers; those of strings are refused with their input. */
void rule_tf_idf(OnnxNode *n)
{
    enum { COLUMNS_MOST = 1 << 24 };
    OnnxInts starts = onnx_attr_ints(n, "ngram_counts");
    const Onnx__AttributeProto *weights = onnx_attr(n, "weights"),
                               *pool = onnx_attr(n, "pool_int64s"),
                               *columns = onnx_attr(n, "ngram_indexes");
    const char *mode = onnx_attr_text(n, "mode", "TF");
    int64_t least = onnx_attr_int(n, "min_gram_length", 1),
            most = onnx_attr_int(n, "max_gram_length", 1),
            skips = onnx_attr_int(n, "max_skip_count", 0), width = 0, number = 0;
    DType t = onnx_in_dtype(n, 0);
    bool words = dtype_eq(t, dtype_of(DT_INT64)) || dtype_eq(t, dtype_of(DT_INT32));
    if (starts.n < 1 || !pool || !columns || !words || skips < 0 || skips > ONNX_INTS_MOST) {
        onnx_refuse(n, "sequences that are not of integers, or have too large gaps");
        return;
    }
    for (size_t i = 0; i < columns->n_ints; i++) {
        width = columns->ints[i] >= width ? columns->ints[i] + 1 : width;
        if (columns->ints[i] < 0 || columns->ints[i] > COLUMNS_MOST) {
            onnx_refuse(n, "column %lld", (long long)columns->ints[i]);
            return;
        }
    }
    Tensor *table =
        onnx_table(n, dtype_of(DT_FLOAT32), 2, (int64_t[]){(int64_t)columns->n_ints, width});
    Buf parts = {0};
    for (int64_t length = 1; table && length <= starts.n && !n->failed; length++) {
        int64_t from = starts.at[length - 1],
                to = length < starts.n ? starts.at[length] : (int64_t)pool->n_ints;
        int64_t count =
            from >= 0 && to <= (int64_t)pool->n_ints && from < to ? (to - from) / length : 0;
        const char *times = count && length >= least && length <= most
                                ? count_sequences(n, pool->ints + from, count, length, skips)
                                : NULL;
        for (int64_t k = 0; k < count && number < (int64_t)columns->n_ints; k++, number++)
            if (times)
                ((float *)table->data)[number * width + columns->ints[number]] =
                    !strcmp(mode, "TF") || !weights || (size_t)number >= weights->n_floats
                        ? 1
                        : weights->floats[number];
        if (count && !times) {
            OnnxInts shape = {.n = onnx_rank(n, 0)};
            for (int i = 0; i + 1 < shape.n; i++)
                shape.at[i] = onnx_known_extent(n, 0, i);
            if (shape.n > 0)
                shape.at[shape.n - 1] = count;
            times = onnx_text(n, "zeros(shape=%s, dtype=\"float32\")", onnx_list(n, shape));
        }
        if (count)
            buf_printf(&parts, "%s, ", times);
    }
    const char *counts =
        parts.n && !n->failed ? onnx_step(n, "concatenate((%s), axis=-1)", buf_text(&parts)) : "";
    buf_deinit(&parts);
    if (!strcmp(mode, "IDF"))
        counts = onnx_step(n, "cast(greater(%s, 0f), dtype=\"float32\")", counts);
    const char *by = table ? onnx_array(n, table, "columns") : "";
    onnx_give(n, onnx_product(n, counts, by, onnx_rank(n, 0), 2));
}
