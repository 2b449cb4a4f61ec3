/* Choosing among overlapping boxes. What is chosen depends on what was chosen before, so these are kernels. */
#include "stdlib/ops/boxes.h"

#include <stdlib.h>
#include <string.h>

static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};
static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};
static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

/* ---- vision.get_valid_counts ---------------------------------------------------------------------- */

static RelResult rel_valid(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 3))
        return REL_FAILED;
    RelResult scalars = rel_are_scalars(r, 1);
    if (scalars != REL_DONE)
        return scalars;
    return rel_set_output(
        r, type_tuple(r->cx, 3,
                      (const Type *[]){type_tensor(r->cx, int32_dtype, 1, t->dims), t,
                                       type_tensor(r->cx, int32_dtype, 2, t->dims)}));
}

/* Rows whose score is above the threshold (and whose class is no background) to the front; the rest is -1. */
static void count_valid(OpCall *c, const Tensor *x, double threshold, Tensor *const out[3])
{
    int64_t n = x->shape[1], width = x->shape[2], id = attrs_int(c->attrs, "id_index", 0);
    int64_t score = attrs_int(c->attrs, "score_index", 1);
    for (int64_t b = 0; b < x->shape[0]; b++) {
        int32_t found = 0;
        for (int64_t i = 0; i < n && !limit_hit_at(&c->cx->limits, i); i++) {
            const double *row = reals(x) + (b * n + i) * width;
            if (row[score] <= threshold || (id >= 0 && row[id] < 0))
                continue;
            memcpy(reals(out[1]) + (b * n + found) * width, row, (size_t)width * sizeof *row);
            ints(out[2])[b * n + found++] = (int32_t)i;
        }
        ints(out[0])[b] = found;
        for (int64_t i = found; i < n && !limit_hit_at(&c->cx->limits, i); i++) {
            ints(out[2])[b * n + i] = -1;
            for (int64_t k = 0; k < width; k++)
                reals(out[1])[(b * n + i) * width + k] = -1;
        }
    }
}

/* Whether a box of `width` numbers has `n` of them from the one that attribute `key` says. */
static bool column_good(OpCall *c, const char *key, int64_t at, int64_t width, int64_t least,
                        int64_t n)
{
    if (at >= least && at <= width - n)
        return true;
    Diag *d =
        diag_error(c->cx->diags, E0304_INDEX, c->span, "`%s` is %lld, but a box has %lld numbers",
                   key, (long long)at, (long long)width);
    if (n > 1)
        diag_help(d, "there are to be %lld from there on", (long long)n);
    return false;
}

static bool columns_good(OpCall *c, const Tensor *x)
{
    int64_t width = x->shape[2];
    return column_good(c, "score_index", attrs_int(c->attrs, "score_index", 1), width, 0, 1) &&
           column_good(c, "id_index", attrs_int(c->attrs, "id_index", 0), width, -1, 1);
}

static bool kernel_valid(OpCall *c)
{
    Tensor *x = kernel_arg_as(c, 0, float64_dtype);
    DType d = c->type->parts[1]->dtype;
    Tensor *out[3] = {kernel_out(c, 0), NULL, kernel_out(c, 2)};
    if (x && columns_good(c, x))
        out[1] = tensor_new(&c->cx->limits, float64_dtype, 3, x->shape);
    if (x && out[0] && out[1] && out[2])
        count_valid(c, x, kernel_number(c, 1, 0), out);
    tensor_release(x);
    out[1] = kernel_cast(c, out[1], d);
    return kernel_set_tuple(c, 3, out);
}

/* ---- vision.non_max_suppression ------------------------------------------------------------------- */

static RelResult rel_nms(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *valid = t ? rel_tensor(r, 1) : NULL;
    const Type *indices = valid ? rel_tensor(r, 2) : NULL;
    if (!indices)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 3) || !rel_is_int(r, 1, valid) || !rel_is_int(r, 2, indices) ||
        !rel_has_shape(r, 1, valid, 1, t->dims) || !rel_has_shape(r, 2, indices, 2, t->dims))
        return REL_FAILED;
    RelResult scalars = rel_are_scalars(r, 3);
    if (scalars != REL_DONE)
        return scalars;
    if (!attrs_bool(r->attrs, "return_indices"))
        return rel_set_output(r, t);
    return rel_set_output(
        r,
        type_tuple(r->cx, 2,
                   (const Type *[]){type_tensor(r->cx, int32_dtype, 2, t->dims),
                                    type_tensor(r->cx, int32_dtype, 2, (Dim[]){t->dims[0], 1})}));
}

typedef struct Nms {
    int64_t n, width, id, score, coord, top_k, most;
    double threshold;
    bool force;
    bool seen; /* the rows are the result, where they stand */
} Nms;

/* A row counts while its score is positive and its class none of the suppressed. */
static bool alive(const Nms *s, const double *row)
{
    return row[s->score] > 0 && (s->id < 0 || row[s->id] >= 0);
}

static void erase(double *row, int64_t width)
{
    for (int64_t k = 0; k < width; k++)
        row[k] = -1;
}

/* Rows in the order of their scores to `out`, their places to `at`; -1 behind `top_k`. */
static void order_rows(Limits *limits, const Nms *s, const double *rows, int64_t valid,
                       Scored *order, double *out, int64_t *at)
{
    for (int64_t i = 0; i < valid && !limit_hit_at(limits, i); i++)
        order[i] = (Scored){rows[i * s->width + s->score], i};
    if (s->threshold > 0)
        scored_sort(limits, order, valid);
    for (int64_t i = 0; i < s->n && !limit_hit_at(limits, i); i++) {
        bool kept = i < valid && (s->threshold <= 0 || s->top_k <= 0 || i < s->top_k);
        at[i] = kept ? order[i].at : -1;
        if (kept)
            memcpy(out + i * s->width, rows + order[i].at * s->width,
                   (size_t)s->width * sizeof *out);
        else
            erase(out + i * s->width, s->width);
    }
}

/* Whether a row kept before overlaps this one too much: then it counts no more. */
static bool suppressed(const Nms *s, BoxSet *kept, double *row)
{
    if (!(s->threshold > 0) || !alive(s, row))
        return false;
    Box b = box_of(kept, row + s->coord, s->force || s->id < 0 ? 0 : row[s->id]);
    if (!box_set_meets(kept, &b)) {
        box_set_add(kept, &b);
        return false;
    }
    row[s->score] = -1;
    if (s->id >= 0)
        row[s->id] = -1;
    return true;
}

/* Each row, best first, is kept or suppressed by one that was. Which of the two it is behind as many as are to be kept shows in nothing but
 * the rows where they stand. */
static bool suppress(Limits *limits, const Nms *s, BoxSet *kept, int64_t valid, double *rows,
                     int64_t *at)
{
    int64_t found = 0;
    kept->n = 0;
    for (int64_t k = 0; k < valid; k++) {
        double *row = rows + k * s->width;
        bool enough = s->most > 0 && found == s->most;
        if (limit_hit(limits))
            return false;
        if ((enough && !s->seen) || suppressed(s, kept, row))
            at[k] = -1;
        if (at[k] < 0)
            continue;
        if (enough) {
            erase(row, s->width);
            at[k] = -1;
        } else
            found++;
    }
    return true;
}

/* The rows that are left to the front, -1 behind them. */
static void to_front(Limits *limits, const Nms *s, const int64_t *at, double *rows)
{
    int64_t found = 0;
    for (int64_t i = 0; i < s->n && !limit_hit_at(limits, i); i++)
        if (at[i] >= 0)
            memmove(rows + found++ * s->width, rows + i * s->width,
                    (size_t)s->width * sizeof *rows);
    for (int64_t i = found; i < s->n && !limit_hit_at(limits, i); i++)
        erase(rows + i * s->width, s->width);
}

static void set_indices(Limits *limits, const Nms *s, const int64_t *at, const int64_t *names,
                        int32_t *out, int32_t *count)
{
    int32_t found = 0;
    for (int64_t i = 0; i < s->n && !limit_hit_at(limits, i); i++)
        if (at[i] >= 0)
            out[found++] = (int32_t)names[at[i]];
    *count = found;
    for (int64_t i = found; i < s->n && !limit_hit_at(limits, i); i++)
        out[i] = -1;
}

static bool nms_run(OpCall *c, const Nms *s, BoxSet *kept, Tensor *const in[3],
                    Tensor *const work[3], Tensor *const out[2])
{
    for (int64_t b = 0; b < in[0]->shape[0]; b++) {
        double *rows = reals(work[0]) + b * s->n * s->width;
        int64_t *at = longs(work[1]), valid = longs(in[1])[b];
        valid = valid < 0 ? 0 : valid > s->n ? s->n : valid;
        order_rows(&c->cx->limits, s, reals(in[0]) + b * s->n * s->width, valid,
                   (Scored *)(void *)work[2]->data, rows, at);
        if (!suppress(&c->cx->limits, s, kept, valid, rows, at))
            return false;
        if (out[0])
            set_indices(&c->cx->limits, s, at, longs(in[2]) + b * s->n, ints(out[0]) + b * s->n,
                        ints(out[1]) + b);
        else if (attrs_bool(c->attrs, "invalid_to_bottom"))
            to_front(&c->cx->limits, s, at, rows);
    }
    return true;
}

static bool kernel_nms(OpCall *c)
{
    Tensor *in[3] = {kernel_arg_as(c, 0, float64_dtype), kernel_arg_as(c, 1, int64_dtype),
                     kernel_arg_as(c, 2, int64_dtype)};
    Tensor *work[3] = {NULL}, *out[2] = {NULL};
    bool indices = attrs_bool(c->attrs, "return_indices"), good = in[0] && in[1] && in[2];
    Nms s = {.id = attrs_int(c->attrs, "id_index", 0),
             .score = attrs_int(c->attrs, "score_index", 1),
             .coord = attrs_int(c->attrs, "coord_start", 2),
             .top_k = attrs_int(c->attrs, "top_k", -1),
             .force = attrs_bool(c->attrs, "force_suppress"),
             .most = (int64_t)kernel_number(c, 3, -1),
             .threshold = kernel_number(c, 4, 0),
             .seen = !indices && !attrs_bool(c->attrs, "invalid_to_bottom")};
    BoxSet kept = {.threshold = s.threshold, .at_threshold = true};
    good = good && columns_good(c, in[0]) &&
           column_good(c, "coord_start", s.coord, in[0]->shape[2], 0, 4);
    if (good) {
        s.n = in[0]->shape[1];
        s.width = in[0]->shape[2];
        work[0] = tensor_new(&c->cx->limits, float64_dtype, 3, in[0]->shape);
        work[1] = tensor_new(&c->cx->limits, int64_dtype, 1, &s.n);
        work[2] = kernel_scored(c, s.n);
        for (uint32_t i = 0; indices && i < 2; i++)
            out[i] = kernel_out(c, i);
        good = work[0] && work[1] && work[2] && (!indices || (out[0] && out[1])) &&
               box_set_begin(c, &kept, s.n) && nms_run(c, &s, &kept, in, work, out);
    }
    Tensor *rows =
        work[0] && !indices && good ? kernel_cast(c, tensor_retain(work[0]), c->type->dtype) : NULL;
    kernel_release(3, in);
    kernel_release(3, work);
    tensor_release(kept.room);
    if (good)
        return indices ? kernel_set_tuple(c, 2, out) : kernel_set(c, rows);
    kernel_release(2, out);
    return false;
}

/* ---- vision.all_class_non_max_suppression --------------------------------------------------------- */

static bool is_onnx(const Attrs *a)
{
    return str_is(attrs_string(a, "output_format"), "onnx");
}

/* Boxes are of four corners, and as many as there are scores of each class. */
static bool boxes_fit(Rel *r, const Type *boxes, const Type *scores, int class_axis)
{
    return rel_rank(r, 1, scores, 3) &&
           rel_has_shape(r, 0, boxes, 3, (Dim[]){scores->dims[0], scores->dims[3 - class_axis], 4});
}

static RelResult rel_all_class(Rel *r)
{
    const Type *boxes = rel_tensor(r, 0), *scores = boxes ? rel_tensor(r, 1) : NULL;
    if (!scores)
        return rel_blocked(r);
    if (!boxes_fit(r, boxes, scores, 1))
        return REL_FAILED;
    RelResult scalars = rel_are_scalars(r, 2);
    if (scalars != REL_DONE)
        return scalars;
    Dim b = scores->dims[0], n = dims_product(2, scores->dims + 1);
    Dim all = dims_product(3, scores->dims);
    const Type *one = type_tensor(r->cx, int64_dtype, 1, (Dim[]){1});
    if (is_onnx(r->attrs))
        return rel_set_output(
            r,
            type_tuple(r->cx, 2,
                       (const Type *[]){type_tensor(r->cx, int64_dtype, 2, (Dim[]){all, 3}), one}));
    return rel_set_output(
        r, type_tuple(r->cx, 3,
                      (const Type *[]){type_tensor(r->cx, int64_dtype, 3, (Dim[]){b, n, 2}),
                                       type_tensor(r->cx, float32_dtype, 2, (Dim[]){b, n}),
                                       type_tensor(r->cx, int64_dtype, 1, &b)}));
}

/* What the kernels by class share: boxes (b, n, 4), scores, room for the order and for what is kept of one class. */
typedef struct ByClass {
    Tensor *boxes, *scores, *order, *kept;
    BoxSet set;
    int64_t batches, classes, n;
    int64_t stride, step; /* of scores: from class to class, from box to box */
    double least;
} ByClass;

static bool by_class_begin(OpCall *c, ByClass *s, int class_axis)
{
    s->boxes = kernel_arg_as(c, 0, float64_dtype);
    s->scores = kernel_arg_as(c, 1, float64_dtype);
    if (!s->boxes || !s->scores)
        return false;
    const int64_t *shape = s->scores->shape;
    s->batches = shape[0];
    s->classes = shape[class_axis];
    s->n = shape[3 - class_axis];
    s->stride = class_axis == 1 ? s->n : 1;
    s->step = class_axis == 1 ? 1 : s->classes;
    s->order = kernel_scored(c, s->n);
    s->kept = tensor_new(&c->cx->limits, int64_dtype, 1, &s->n);
    return s->order && s->kept && box_set_begin(c, &s->set, s->n);
}

static void by_class_end(ByClass *s)
{
    kernel_release(5, (Tensor *[]){s->boxes, s->scores, s->order, s->kept, s->set.room});
}

static double score_of(const ByClass *s, int64_t batch, int64_t class, int64_t box)
{
    return reals(s->scores)[batch * s->n * s->classes + class * s->stride + box * s->step];
}

/* The boxes of one class that are kept, in s->kept: how many. */
static int64_t keep_class(OpCall *c, ByClass *s, int64_t batch, int64_t class, int64_t most,
                          bool equal)
{
    Scored *order = (Scored *)(void *)s->order->data;
    int64_t n = 0;
    for (int64_t i = 0; i < s->n && !limit_hit_at(&c->cx->limits, i); i++) {
        double score = score_of(s, batch, class, i);
        if (score > s->least || (equal && score == s->least))
            order[n++] = (Scored){score, i};
    }
    scored_sort(&c->cx->limits, order, n);
    return boxes_keep(&c->cx->limits, &s->set, reals(s->boxes) + batch * s->n * 4, order, n, most,
                      longs(s->kept));
}

static void all_class_run(OpCall *c, ByClass *s, int64_t most, Tensor *const out[3])
{
    bool onnx = is_onnx(c->attrs);
    int64_t total = 0;
    for (int64_t b = 0; b < s->batches; b++) {
        int64_t first = total;
        for (int64_t k = 0; k < s->classes; k++) {
            int64_t found = keep_class(c, s, b, k, most, false);
            for (int64_t i = 0; i < found; i++, total++) {
                int64_t box = longs(s->kept)[i], place = b * s->classes * s->n + total - first;
                if (onnx) {
                    memcpy(longs(out[0]) + 3 * total, (int64_t[]){b, k, box}, 3 * sizeof box);
                    continue;
                }
                memcpy(longs(out[0]) + 2 * place, (int64_t[]){k, box}, 2 * sizeof box);
                ((float *)(void *)out[1]->data)[place] = (float)score_of(s, b, k, box);
            }
        }
        if (!onnx)
            longs(out[2])[b] = total - first;
    }
    if (onnx)
        longs(out[1])[0] = total;
}

static bool kernel_all_class(OpCall *c)
{
    ByClass s = {.set.threshold = kernel_number(c, 3, 0), .least = kernel_number(c, 4, 0)};
    uint32_t n = c->type->n;
    Tensor *out[3] = {NULL};
    bool good = by_class_begin(c, &s, 1);
    for (uint32_t i = 0; good && i < n; i++)
        good = (out[i] = kernel_out(c, i)) != NULL;
    if (good)
        all_class_run(c, &s, (int64_t)kernel_number(c, 2, 0), out);
    by_class_end(&s);
    if (good && !limit_hit(&c->cx->limits))
        return kernel_set_tuple(c, n, out);
    kernel_release(n, out);
    return false;
}

/* ---- vision.regular_non_max_suppression ----------------------------------------------------------- */

static RelResult rel_regular(Rel *r)
{
    const Type *boxes = rel_tensor(r, 0), *scores = boxes ? rel_tensor(r, 1) : NULL;
    if (!scores)
        return rel_blocked(r);
    if (!boxes_fit(r, boxes, scores, 2))
        return REL_FAILED;
    Dim dims[3] = {boxes->dims[0], attrs_int(r->attrs, "max_detections", 0), 4};
    if (dims[1] < 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`max_detections` is %lld", (long long)dims[1]);
        return REL_FAILED;
    }
    int64_t classes = attrs_int(r->attrs, "num_classes", 0);
    if (classes < 0) {
        Diag *d =
            rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`num_classes` is %lld", (long long)classes);
        diag_help(d, "it says how many of the last classes in `scores` count");
        return REL_FAILED;
    }
    const Type *rows = type_tensor(r->cx, float32_dtype, 2, dims);
    return rel_set_output(
        r, type_tuple(r->cx, 4,
                      (const Type *[]){type_tensor(r->cx, float32_dtype, 3, dims), rows, rows,
                                       type_tensor(r->cx, int32_dtype, 1, dims)}));
}

/* The best of all classes of a batch: `all` holds score and class * n + box of each that was kept. */
static void write_best(const ByClass *s, int64_t batch, const Scored *all, int64_t n,
                       Tensor *const out[4])
{
    int64_t most = out[0]->shape[1], count = n < most ? n : most;
    ints(out[3])[batch] = (int32_t)count;
    for (int64_t i = 0; i < count; i++) {
        const double *box = reals(s->boxes) + (batch * s->n + all[i].at % s->n) * 4;
        for (int k = 0; k < 4; k++)
            ((float *)(void *)out[0]->data)[(batch * most + i) * 4 + k] = (float)box[k];
        ((float *)(void *)out[1]->data)[batch * most + i] = (float)(all[i].at / s->n);
        ((float *)(void *)out[2]->data)[batch * most + i] = (float)all[i].score;
    }
}

static void regular_run(OpCall *c, ByClass *s, Scored *all, Tensor *const out[4])
{
    int64_t most = attrs_int(c->attrs, "max_detections_per_class", 0);
    int64_t classes = attrs_int(c->attrs, "num_classes", 0), first = 0;
    /* A score more than there are classes is the background's, in front. */
    if (classes < s->classes)
        first = s->classes - classes;
    for (int64_t b = 0; b < s->batches; b++) {
        int64_t n = 0;
        for (int64_t k = first; k < s->classes; k++) {
            int64_t found = keep_class(c, s, b, k, most, true);
            for (int64_t i = 0; i < found; i++) {
                int64_t box = longs(s->kept)[i];
                all[n++] = (Scored){score_of(s, b, k, box), (k - first) * s->n + box};
            }
        }
        scored_sort(&c->cx->limits, all, n);
        write_best(s, b, all, n, out);
    }
}

static bool kernel_regular(OpCall *c)
{
    ByClass s = {.set.threshold = attrs_float(c->attrs, "iou_threshold"),
                 .least = attrs_float(c->attrs, "score_threshold")};
    Tensor *out[4] = {NULL}, *all = NULL;
    bool good = by_class_begin(c, &s, 2) && (all = kernel_scored(c, s.n * s.classes));
    for (uint32_t i = 0; good && i < 4; i++)
        good = (out[i] = kernel_out(c, i)) != NULL;
    if (good)
        regular_run(c, &s, (Scored *)(void *)all->data, out);
    tensor_release(all);
    by_class_end(&s);
    if (good && !limit_hit(&c->cx->limits))
        return kernel_set_tuple(c, 4, out);
    kernel_release(4, out);
    return false;
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg valid_args[] = {{"data", "images of boxes of numbers: class, score, corners"},
                                   {"score_threshold", "what a score must exceed: a scalar"},
                                   {0}};
static const OpArg nms_args[] = {{"data", "images of boxes of numbers: class, score, corners"},
                                 {"valid_count", "how many boxes of each image count"},
                                 {"indices", "names of the boxes"},
                                 {"max_output_size", "how many to keep; -1: all"},
                                 {"iou_threshold", "the overlap that suppresses"},
                                 {0}};
#define BOXES {"boxes", "images of boxes of four corners"}
static const OpArg all_class_args[] = {BOXES,
                                       {"scores", "images of classes of boxes"},
                                       {"max_output_boxes_per_class", "how many to keep"},
                                       {"iou_threshold", "the overlap above which to suppress"},
                                       {"score_threshold", "what a score must exceed"},
                                       {0}};
static const OpArg regular_args[] = {BOXES, {"scores", "images of boxes of classes"}, {0}};

#define COLUMNS                                                  \
    ATTR_I("score_index", 1, "where in a box the score stands"), \
        ATTR_I("id_index", 0, "where in a box the class stands; -1: none")
static const OpAttr valid_attrs[] = {
    ATTR_NONE("score_threshold", FLOAT, "unused: the argument gives it"),
    ATTR_I("id_index", 0, "where in a box the class stands; -1: none"),
    ATTR_I("score_index", 1, "where in a box the score stands"),
    {0}};
static const OpAttr nms_attrs[] = {
    ATTR_B("force_suppress", 0, "boxes of other classes are suppressed too"),
    ATTR_I("top_k", -1, "how many of the best to look at; -1: all"),
    ATTR_I("coord_start", 2, "where in a box the corners begin"),
    COLUMNS,
    ATTR_B("return_indices", 1, "the result is the boxes' names and how many there are"),
    ATTR_B("invalid_to_bottom", 0, "what is suppressed stands behind what is kept"),
    {0}};
static const OpAttr all_class_attrs[] = {
    ATTR_ONE("output_format", "onnx", "\"onnx\" or \"tensorflow\"", "onnx", "tensorflow"), {0}};
static const OpAttr regular_attrs[] = {
    ATTR_MUST("max_detections_per_class", INT, "how many to keep of a class"),
    ATTR_MUST("max_detections", INT, "how many to keep of an image"),
    ATTR_MUST("num_classes", INT, "how many classes there are"),
    ATTR_MUST("iou_threshold", FLOAT, "the overlap above which to suppress"),
    ATTR_MUST("score_threshold", FLOAT, "the least score"),
    {0}};

#define JUMPS .no_grad = "which boxes remain changes by jumps"

/* %box is which each of those in front was, for all its numbers; negative: none. */
#define VALID_GRAD                                                                        \
    "let %box = broadcast_to_like(expand_dims(%out.2, axis=2), %data); "                  \
    "let %zeros = zeros_like(%data); let %kept = where(less(%box, 0i32), %zeros, %g.1); " \
    "(scatter_elements(%zeros, maximum(%box, 0i32), %kept, axis=1, reduction=\"add\"), "  \
    "zeros_like(%score_threshold))"

/* The last argument is its doc, and whatever else the row has. */
#define ROW(NAME, ID, SHAPES, SAMPLES, ...)                                                  \
    OP_ROW("vision." NAME, ID##_args, ID##_attrs, OP_OPAQUE, rel_##ID, SAMPLES, __VA_ARGS__, \
           .shapes = SHAPES, .kernel = kernel_##ID)

const Op nms_ops[] = {
    ROW("get_valid_counts", valid, "(b, n, k), () -> ((b), (b, n, k), (b, n))",
        "(float32[1,3,6], float32)",
        "How many boxes have a score above a threshold, these boxes in front, and where they "
        "were.",
        .grad = VALID_GRAD),
    ROW("non_max_suppression", nms,
        "(b, n, k), (b), (b, n), (), () -> ((b, n), (b, 1)); without return_indices (b, n, k)",
        "(float32[1,3,6], int32[1], int32[1,3], int32, float32)",
        "The boxes that remain when each, best first, removes those of its class that overlap it.",
        .example =
            "let %data = reshape(stack((0f, 0.9f, 0f, 0f, 4f, 4f,\n"
            "                           0f, 0.8f, 0f, 0f, 4f, 3f,\n"
            "                           0f, 0.7f, 6f, 6f, 9f, 9f), axis=0), newshape=[1, 3, 6]);\n"
            "let %valid_count = full(3, shape=[1], dtype=\"int32\");\n"
            "let %indices = reshape(arange(0, 3, 1, dtype=\"int32\"), newshape=[1, 3]);\n"
            "vision.non_max_suppression(%data, %valid_count, %indices, -1, 0.5f)",
        JUMPS),
    ROW("all_class_non_max_suppression", all_class,
        "(b, n, 4), (b, c, n), (), (), () -> ((b*c*n, 3), (1)); \"tensorflow\": "
        "((b, c*n, 2), (b, c*n), (b))",
        "(float32[1,3,4], float32[1,2,3], int64, float32, float32)",
        "For each class the boxes that remain when each, best first, removes those that overlap "
        "it.",
        JUMPS),
    ROW("regular_non_max_suppression", regular,
        "(b, n, 4), (b, n, c) -> ((b, m, 4), (b, m), (b, m), (b)) with m = max_detections",
        "(float32[1,3,4], float32[1,3,2], max_detections_per_class=2, max_detections=3, "
        "num_classes=2, iou_threshold=0.5f, score_threshold=0.1f)",
        "The best boxes of all classes after suppression in each: boxes, classes, scores, how "
        "many.",
        JUMPS),
    {0},
};
