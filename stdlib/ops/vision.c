/* Boxes in images: some to start from, those that a network proposes. */
#include "stdlib/ops/boxes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LIST_MOST = 32 };

static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};
static const DType int64_dtype = {DTYPE_CODE_INT, 64, 1};
static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

static int floats_of(const Attrs *a, const char *key, double *out)
{
    const AttrValue *v = attrs_find(a, key);
    int n = 0;
    for (uint32_t i = 0; v->kind == ATTR_LIST && i < v->list.n && n < LIST_MOST; i++)
        out[n++] = v->list.at[i].kind == ATTR_INT ? (double)v->list.at[i].i : v->list.at[i].f;
    return n;
}

/* Whether the list `key` holds `least` to `most` numbers. */
static bool rel_floats(Rel *r, const char *key, uint32_t least, uint32_t most)
{
    uint32_t n = attrs_find(r->attrs, key)->list.n;
    if (n >= least && n <= most)
        return true;
    const char *op = r->op->name;
    Diag *d =
        least == most
            ? rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`%s` of `%s` must hold %u numbers, not %u",
                        key, op, most, n)
            : rel_error(r, E0216_OPERATOR_ARGUMENT, -1,
                        "`%s` of `%s` must hold %u to %u numbers, not %u", key, op, least, most, n);
    diag_help(d, "where it is not written it is the default, which `:doc %s` shows", op);
    return false;
}

/* ---- vision.yolo_reorg ---------------------------------------------------------------------------- */

static RelResult rel_reorg(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    int64_t s = attrs_int(r->attrs, "stride", 1);
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 4))
        return REL_FAILED;
    if (s >= 1 && t->dims[1] >= 0 && t->dims[1] / s < s) {
        rel_error(r, E0202_SHAPE, 0, "`stride` is %lld: `%s` needs its square of channels or more",
                  (long long)s, type_str(r->cx, t));
        return REL_FAILED;
    }
    Dim dims[4] = {t->dims[0], dims_product(3, (Dim[]){t->dims[1], s, s}), t->dims[2], t->dims[3]};
    for (int i = 2; i < 4; i++) {
        if (s < 1 || (dims[i] >= 0 && dims[i] % s)) {
            rel_error(r, E0202_SHAPE, 0, "`stride` is %lld, which does not divide axis %d of `%s`",
                      (long long)s, i, type_str(r->cx, t));
            return REL_FAILED;
        }
        dims[i] = dims[i] < 0 ? DIM_ANY : dims[i] / s;
    }
    return rel_out_tensor(r, t->dtype, 4, dims);
}

static Te *divided(TeBuilder *b, Te *x, int64_t by)
{
    return te_binary(b, TE_DIV, x, te_int(b, by));
}

static Te *rest(TeBuilder *b, Te *x, int64_t by)
{
    return te_binary(b, TE_MOD, x, te_int(b, by));
}

/* x * by + more */
static Te *scaled(TeBuilder *b, Te *x, int64_t by, Te *more)
{
    return te_binary(b, TE_ADD, te_binary(b, TE_MUL, x, te_int(b, by)), more);
}

/* As Darknet has it: the elements of an image in the order of (C, H, W) are those that blocks of places have in an image of fewer and
 * larger channels, (C/s/s, H s, W s) of the same elements; the result's shape comes on top of that. */
static void compute_reorg(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    int64_t s = attrs_int(b->attrs, "stride", 1), c = x.shape[1], h = x.shape[2], w = x.shape[3];
    int64_t wide_c = c / (s * s), row = w ? w : 1, image = h * w > 0 ? h * w : 1;
    Te *flat = scaled(b, scaled(b, te_axis(b, 1), h / s, te_axis(b, 2)), w / s, te_axis(b, 3));
    Te *k = divided(b, flat, image), *block = divided(b, k, wide_c);
    Te *y = scaled(b, rest(b, divided(b, flat, row), h ? h : 1), s, divided(b, block, s));
    Te *at = scaled(b, rest(b, flat, row), s, rest(b, block, s));
    at = scaled(b, scaled(b, rest(b, k, wide_c), h * s, y), w * s, at);
    Te *index[4] = {te_axis(b, 0), divided(b, at, image), rest(b, divided(b, at, row), h ? h : 1),
                    rest(b, at, row)};
    ops_emit(b, te_load(b, x, index));
}

/* ---- vision.multibox_prior ------------------------------------------------------------------------ */

static RelResult rel_prior(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    double list[LIST_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 4))
        return REL_FAILED;
    if (!rel_floats(r, "sizes", 1, LIST_MOST) || !rel_floats(r, "ratios", 1, LIST_MOST) ||
        !rel_floats(r, "steps", 2, 2) || !rel_floats(r, "offsets", 2, 2))
        return REL_FAILED;
    int sizes = floats_of(r->attrs, "sizes", list), ratios = floats_of(r->attrs, "ratios", list);
    int n = sizes + ratios - 1;
    Dim boxes = dims_product(3, (Dim[]){t->dims[2], t->dims[3], n});
    return rel_out_tensor(r, t->dtype, 3, (Dim[]){1, boxes, 4});
}

/* Half the height and width of the boxes at each place: all sizes with the first ratio, then the first size with the other ratios. */
static int halves(const Attrs *a, double aspect, double (*half)[2])
{
    double sizes[LIST_MOST], ratios[LIST_MOST];
    int ns = floats_of(a, "sizes", sizes), nr = floats_of(a, "ratios", ratios);
    for (int k = 0; k < ns + nr - 1; k++) {
        double size = sizes[k < ns ? k : 0], stretch = k < ns ? 1 : sqrt(ratios[k - ns + 1]);
        half[k][0] = size / stretch / 2;
        half[k][1] = size * aspect * stretch / 2;
    }
    return ns + nr - 1;
}

static void compute_prior(TeBuilder *b)
{
    TeTensor x = te_input(b, 0);
    DType d = te_out_dtype(b, 0);
    double half[2 * LIST_MOST][2], steps[LIST_MOST], offsets[LIST_MOST];
    int n = halves(b->attrs, (double)x.shape[2] / (double)(x.shape[3] ? x.shape[3] : 1), half);
    floats_of(b->attrs, "steps", steps);
    floats_of(b->attrs, "offsets", offsets);
    Te *i = te_axis(b, 1), *corner = te_axis(b, 2), *k = te_binary(b, TE_MOD, i, te_int(b, n));
    Te *place = te_binary(b, TE_DIV, i, te_int(b, n)), *wide = te_int(b, x.shape[3]);
    Te *at[2] = {te_binary(b, TE_DIV, place, wide), te_binary(b, TE_MOD, place, wide)}, *v[2];
    for (int y = 0; y < 2; y++) {
        double step = steps[y] > 0 ? steps[y] : 1.0 / (double)x.shape[2 + y];
        Te *centre = te_binary(b, TE_ADD, te_cast(b, d, at[y]), te_number(b, d, offsets[y]));
        centre = te_binary(b, TE_MUL, centre, te_number(b, d, step));
        Te *reach = te_number(b, d, half[0][y]);
        for (int j = 1; j < n; j++)
            reach = te_select(b, te_binary(b, TE_EQ, k, te_int(b, j)), te_number(b, d, half[j][y]),
                              reach);
        Te *low = te_binary(b, TE_LT, corner, te_int(b, 2));
        v[y] = te_select(b, low, te_binary(b, TE_SUB, centre, reach),
                         te_binary(b, TE_ADD, centre, reach));
    }
    Te *odd = te_binary(b, TE_EQ, te_binary(b, TE_MOD, corner, te_int(b, 2)), te_int(b, 1));
    Te *body = te_select(b, odd, v[0], v[1]);
    if (attrs_bool(b->attrs, "clip"))
        body = te_binary(b, TE_MIN, te_binary(b, TE_MAX, body, te_number(b, d, 0)),
                         te_number(b, d, 1));
    ops_emit(b, body);
}

/* ---- vision.multibox_transform_loc ---------------------------------------------------------------- */

static RelResult rel_transform(Rel *r)
{
    const Type *t = rel_tensor(r, 0), *move = t ? rel_tensor(r, 1) : NULL;
    const Type *anchor = move ? rel_tensor(r, 2) : NULL;
    if (!anchor)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 3) || !rel_rank(r, 1, move, 2) || !rel_rank(r, 2, anchor, 3) ||
        !rel_floats(r, "variances", 4, 4))
        return REL_FAILED;
    Dim n = t->dims[2];
    if (!dim_agrees(anchor->dims[1], n) || !dim_agrees(anchor->dims[2], 4) ||
        !dim_agrees(move->dims[1], n < 0 ? DIM_ANY : dim_mul(r->cx, 4, n))) {
        rel_error(r, E0202_SHAPE, 0, "scores `%s`, moves `%s` and anchors `%s` do not fit",
                  type_str(r->cx, t), type_str(r->cx, move), type_str(r->cx, anchor));
        return REL_FAILED;
    }
    return rel_set_output(
        r, type_tuple(r->cx, 2,
                      (const Type *[]){type_tensor(r->cx, t->dtype, 3, (Dim[]){t->dims[0], n, 6}),
                                       type_tensor(r->cx, int32_dtype, 1, t->dims)}));
}

typedef struct Transform {
    Tensor *scores, *moves, *anchors, *out;
    double threshold, variances[LIST_MOST];
    bool clip, background;
} Transform;

/* A box moved by four numbers, which are in parts of its size. */
static void transform_box(const Transform *s, const double *anchor, const double *by, double *out)
{
    for (int i = 0; i < 2; i++) {
        double size = anchor[i + 2] - anchor[i], centre = (anchor[i] + anchor[i + 2]) / 2;
        double half = exp(by[i + 2] * s->variances[i + 2]) * size / 2;
        centre += by[i] * s->variances[i] * size;
        out[i] = s->clip ? fmin(fmax(centre - half, 0), 1) : centre - half;
        out[i + 2] = s->clip ? fmin(fmax(centre + half, 0), 1) : centre + half;
    }
}

/* Writes the boxes of batch b whose best class is good enough; how many. */
static int32_t transform_batch(Limits *limits, const Transform *s, int64_t b)
{
    int64_t classes = s->scores->shape[1], n = s->scores->shape[2];
    const double *scores = reals(s->scores) + b * classes * n;
    int32_t found = 0;
    for (int64_t i = 0; i < n && !limit_hit_at(limits, i); i++) {
        int64_t best = 0;
        double score = -1;
        for (int64_t k = s->background ? 0 : 1; k < classes; k++) {
            if (!(scores[k * n + i] > score))
                continue;
            score = scores[k * n + i];
            best = k;
        }
        if (best > 0 && score < s->threshold)
            best = 0;
        if (best == 0 && !s->background)
            continue;
        double *row = reals(s->out) + (b * n + found++) * 6;
        row[0] = (double)(s->background ? best : best - 1);
        row[1] = score;
        transform_box(s, reals(s->anchors) + 4 * i, reals(s->moves) + (b * n + i) * 4, row + 2);
    }
    return found;
}

static bool kernel_transform(OpCall *c)
{
    Transform s = {.scores = kernel_arg_as(c, 0, float64_dtype),
                   .moves = kernel_arg_as(c, 1, float64_dtype),
                   .anchors = kernel_arg_as(c, 2, float64_dtype),
                   .out = tensor_new(&c->cx->limits, float64_dtype, 3, c->type->parts[0]->dims),
                   .threshold = attrs_float(c->attrs, "threshold"),
                   .clip = attrs_bool(c->attrs, "clip"),
                   .background = attrs_bool(c->attrs, "keep_background")};
    Tensor *count = kernel_out(c, 1);
    floats_of(c->attrs, "variances", s.variances);
    bool good = s.scores && s.moves && s.anchors && s.out && count;
    for (int64_t i = 0; good && i < s.out->size && !limit_hit_at(&c->cx->limits, i); i++)
        reals(s.out)[i] = -1;
    for (int64_t b = 0; good && b < s.scores->shape[0]; b++) {
        ints(count)[b] = transform_batch(&c->cx->limits, &s, b);
        good = !limit_hit(&c->cx->limits);
    }
    kernel_release(3, (Tensor *[]){s.scores, s.moves, s.anchors});
    if (good)
        return kernel_set_tuple(
            c, 2, (Tensor *[]){kernel_cast(c, s.out, c->type->parts[0]->dtype), count});
    kernel_release(2, (Tensor *[]){s.out, count});
    return false;
}

/* ---- vision.proposal ------------------------------------------------------------------------------ */

static RelResult rel_proposal(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    double list[LIST_MOST];
    if (!t)
        return rel_blocked(r);
    if (!rel_rank(r, 0, t, 4) || !rel_floats(r, "scales", 1, LIST_MOST) ||
        !rel_floats(r, "ratios", 1, LIST_MOST))
        return REL_FAILED;
    int anchors = floats_of(r->attrs, "scales", list) * floats_of(r->attrs, "ratios", list);
    if (!dim_agrees(t->dims[1], 2 * anchors)) {
        rel_error(r, E0202_SHAPE, 0, "%d anchors need %d channels of `cls_prob`, but this is `%s`",
                  anchors, 2 * anchors, type_str(r->cx, t));
        return REL_FAILED;
    }
    int64_t most = attrs_int(r->attrs, "rpn_post_nms_top_n", 0);
    if (most < 0) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`rpn_post_nms_top_n` is %lld", (long long)most);
        return REL_FAILED;
    }
    Dim dims[2] = {dims_product(2, (Dim[]){t->dims[0], most}), 5};
    return rel_out_tensor(r, t->dtype, 2, dims);
}

typedef struct Proposal {
    Tensor *scores, *moves, *info, *boxes, *order, *kept, *out;
    BoxSet set;
    int anchors;
    double anchor[LIST_MOST * LIST_MOST][4];
    double stride, least;
    bool iou_loss;
} Proposal;

/* The boxes of the size `stride` at the origin, stretched to each ratio and scale in whole pixels. */
static void make_anchors(const Attrs *a, Proposal *p)
{
    double scales[LIST_MOST], ratios[LIST_MOST];
    int ns = floats_of(a, "scales", scales), nr = floats_of(a, "ratios", ratios);
    double middle = 0.5 * (p->stride - 1);
    for (int i = 0; i < nr; i++)
        for (int k = 0; k < ns; k++) {
            double w = floor(sqrt(floor(p->stride * p->stride / ratios[i])) + 0.5);
            double h = floor(w * ratios[i] + 0.5);
            double x = 0.5 * (w * scales[k] - 1), y = 0.5 * (h * scales[k] - 1);
            double *box = p->anchor[p->anchors++];
            box[0] = middle - x;
            box[1] = middle - y;
            box[2] = middle + x;
            box[3] = middle + y;
        }
}

/* Moves a box by the network's four numbers: corners, or centre and logarithm of the size. */
static void move_box(double *box, const double *by, bool corners)
{
    for (int i = 0; i < 2; i++) {
        if (corners) {
            box[i] += by[i];
            box[i + 2] += by[i + 2];
            continue;
        }
        double size = box[i + 2] - box[i] + 1, centre = box[i] + 0.5 * (size - 1) + by[i] * size;
        double half = 0.5 * (exp(by[i + 2]) * size - 1);
        box[i] = centre - half;
        box[i + 2] = centre + half;
    }
}

/* The box of anchor k at a place of batch b, clipped to the image, and its score: -1 where it is too small or outside. */
static double propose(const Proposal *p, int64_t b, int64_t k, int64_t y, int64_t x, double *box)
{
    int64_t h = p->scores->shape[2], w = p->scores->shape[3], n = p->anchors;
    const double *info = reals(p->info) + 3 * b;
    double by[4];
    for (int i = 0; i < 4; i++) {
        by[i] = reals(p->moves)[((b * 4 * n + 4 * k + i) * h + y) * w + x];
        box[i] = p->anchor[k][i] + (double)(i % 2 ? y : x) * p->stride;
    }
    move_box(box, by, p->iou_loss);
    bool small = false;
    for (int i = 0; i < 4; i++)
        box[i] = fmax(fmin(box[i], info[i % 2 ? 0 : 1] - 1), 0);
    for (int i = 0; i < 2; i++)
        small = small || box[i + 2] - box[i] + 1 < p->least * info[2];
    for (int i = 0; small && i < 4; i++)
        box[i] += (i < 2 ? -0.5 : 0.5) * p->least * info[2];
    if (small || (double)y >= floor(info[0] / p->stride) || (double)x >= floor(info[1] / p->stride))
        return -1;
    return reals(p->scores)[((b * 2 * n + n + k) * h + y) * w + x];
}

static void propose_batch(OpCall *c, Proposal *p, int64_t b)
{
    int64_t h = p->scores->shape[2], w = p->scores->shape[3], n = 0;
    int64_t before = attrs_int(c->attrs, "rpn_pre_nms_top_n", 0);
    int64_t most = attrs_int(c->attrs, "rpn_post_nms_top_n", 0);
    Scored *order = (Scored *)(void *)p->order->data;
    for (int64_t y = 0; y < h && !limit_hit(&c->cx->limits); y++)
        for (int64_t x = 0; x < w; x++)
            for (int64_t k = 0; k < p->anchors; k++, n++)
                order[n] = (Scored){propose(p, b, k, y, x, reals(p->boxes) + 4 * n), n};
    scored_sort(&c->cx->limits, order, n);
    if (before > 0 && before < n)
        n = before;
    int64_t found = boxes_keep(&c->cx->limits, &p->set, reals(p->boxes), order, n,
                               most < n ? most : n, longs(p->kept));
    for (int64_t i = 0; found && i < most && !limit_hit_at(&c->cx->limits, i); i++) {
        double *to = reals(p->out) + (b * most + i) * 5;
        to[0] = (double)b;
        memcpy(to + 1, reals(p->boxes) + 4 * longs(p->kept)[i % found], 4 * sizeof *to);
    }
}

static bool proposal_begin(OpCall *c, Proposal *p)
{
    p->scores = kernel_arg_as(c, 0, float64_dtype);
    p->moves = kernel_arg_as(c, 1, float64_dtype);
    p->info = kernel_arg_as(c, 2, float64_dtype);
    make_anchors(c->attrs, p);
    if (!p->scores || !p->moves || !p->info)
        return false;
    int64_t n = kernel_span(p->scores, 2, 4) * p->anchors;
    if (p->moves->size != p->scores->shape[0] * n * 4 || p->info->size != p->scores->shape[0] * 3) {
        diag_error(c->cx->diags, E0303_RUNTIME_SHAPE, c->span,
                   "`bbox_pred` needs four channels an anchor, `im_info` three numbers an image");
        return false;
    }
    p->boxes = tensor_new(&c->cx->limits, float64_dtype, 2, (int64_t[]){n, 4});
    p->order = kernel_scored(c, n);
    p->kept = tensor_new(&c->cx->limits, int64_dtype, 1, &n);
    p->out = tensor_new(&c->cx->limits, float64_dtype, 2, c->type->dims);
    return p->boxes && p->order && p->kept && p->out && box_set_begin(c, &p->set, n);
}

static bool kernel_proposal(OpCall *c)
{
    Proposal p = {.stride = (double)attrs_int(c->attrs, "feature_stride", 16),
                  .least = (double)attrs_int(c->attrs, "rpn_min_size", 16),
                  .iou_loss = attrs_bool(c->attrs, "iou_loss"),
                  .set = {.threshold = attrs_float(c->attrs, "threshold"), .edge = 1}};
    bool good = proposal_begin(c, &p);
    for (int64_t b = 0; good && b < p.scores->shape[0]; b++) {
        propose_batch(c, &p, b);
        good = !limit_hit(&c->cx->limits);
    }
    kernel_release(7,
                   (Tensor *[]){p.scores, p.moves, p.info, p.boxes, p.order, p.kept, p.set.room});
    if (good)
        return kernel_set(c, kernel_cast(c, p.out, c->type->dtype));
    tensor_release(p.out);
    return false;
}

/* ---- rows ----------------------------------------------------------------------------------------- */

static const OpArg transform_args[] = {{"cls_prob", "images of classes of anchors: scores"},
                                       {"loc_pred", "four moves for each anchor"},
                                       {"anchor", "the anchors' corners"},
                                       {0}};
static const OpArg proposal_args[] = {{"cls_prob", "scores of background, then of objects"},
                                      {"bbox_pred", "four moves for each anchor"},
                                      {"im_info", "height, width and scale of each image"},
                                      {0}};

#define NUMBER(V) {.kind = ATTR_FLOAT, .f = (V)}
static const AttrValue ones[] = {NUMBER(1), NUMBER(1)}, none[] = {NUMBER(-1), NUMBER(-1)};
static const AttrValue middle[] = {NUMBER(0.5), NUMBER(0.5)};
static const AttrValue variances[] = {NUMBER(0.1), NUMBER(0.1), NUMBER(0.2), NUMBER(0.2)};
static const AttrValue four_scales[] = {NUMBER(4), NUMBER(8), NUMBER(16), NUMBER(32)};
static const AttrValue three_ratios[] = {NUMBER(0.5), NUMBER(1), NUMBER(2)};
#define NUMBERS(NAME, ARRAY, N, DOC)                           \
    {.name = NAME,                                             \
     .type = ATTR_TYPE_FLOATS,                                 \
     .otherwise = {.kind = ATTR_LIST, .list = {(ARRAY), (N)}}, \
     .doc = DOC}

static const OpAttr reorg_attrs[] = {ATTR_I("stride", 1, "extent of a block along each axis"), {0}};
static const OpAttr prior_attrs[] = {
    NUMBERS("sizes", ones, 1, "heights in parts of the image's"),
    NUMBERS("ratios", ones, 1, "widths in parts of the height"),
    NUMBERS("steps", none, 2, "distances of the centres; negative: of the data's places"),
    NUMBERS("offsets", middle, 2, "where in a place the centre lies"),
    ATTR_B("clip", 0, "corners are brought into the image"),
    {0}};
static const OpAttr transform_attrs[] = {
    ATTR_B("clip", 1, "corners are brought into the image"),
    ATTR_F("threshold", 0.01, "the least score"),
    NUMBERS("variances", variances, 4, "what the moves are multiplied by"),
    ATTR_B("keep_background", 0, "boxes of the background, class 0, are kept"),
    {0}};
static const OpAttr proposal_attrs[] = {
    NUMBERS("scales", four_scales, 4, "sizes of the anchors in parts of `feature_stride`"),
    NUMBERS("ratios", three_ratios, 3, "heights of the anchors in parts of their widths"),
    ATTR_I("feature_stride", 16, "pixels from one place of the scores to the next"),
    ATTR_F("threshold", 0.7, "the overlap above which to suppress"),
    ATTR_I("rpn_pre_nms_top_n", 6000, "how many of the best to look at"),
    ATTR_I("rpn_post_nms_top_n", 300, "how many to propose"),
    ATTR_I("rpn_min_size", 16, "the least extent of a box"),
    ATTR_B("iou_loss", 0, "moves are of the corners, in pixels"),
    {0}};

#define ROW(NAME, ARGS, ATTRS, PATTERN, REL, COMPUTE, SHAPES, SAMPLES, ...)                   \
    OP_ROW("vision." NAME, ARGS, ATTRS, PATTERN, REL, SAMPLES, __VA_ARGS__, .shapes = SHAPES, \
           COMPUTE)

const Op vision_ops[] = {
    ROW("yolo_reorg", args_data, reorg_attrs, OP_INJECTIVE, rel_reorg, .compute = compute_reorg,
        "(N, C, H, W) -> (N, C*stride*stride, H/stride, W/stride)", "(float32[1,4,4,6], stride=2)",
        "Blocks of places as channels, in Darknet's order."),
    ROW("multibox_prior", args_data, prior_attrs, OP_OPAQUE, rel_prior, .compute = compute_prior,
        "(N, C, H, W) -> (1, H*W*(sizes + ratios - 1), 4)",
        "(float32[1,1,2,3], sizes=[0.5f, 0.25f], ratios=[1f, 2f])",
        "Boxes of several sizes and ratios around each place of the data."),
    ROW("multibox_transform_loc", transform_args, transform_attrs, OP_OPAQUE, rel_transform,
        .kernel = kernel_transform, "(b, c, n), (b, 4*n), (1, n, 4) -> ((b, n, 6), (b))",
        "(float32[1,2,3], float32[1,12], float32[1,3,4])",
        "Anchors with their best class and score, moved to where a network says, and how many.",
        .no_grad = "which boxes remain changes by jumps"),
    ROW("proposal", proposal_args, proposal_attrs, OP_OPAQUE, rel_proposal,
        .kernel = kernel_proposal,
        "(b, 2*anchors, H, W), (b, 4*anchors, H, W), (b, 3) -> (b*rpn_post_nms_top_n, 5)",
        "(float32[1,2,2,3], float32[1,4,2,3], float32[1,3], scales=[1f], ratios=[1f], "
        "rpn_post_nms_top_n=4)",
        "Anchors moved to where a network says, the best of them after suppression.",
        .no_grad = "which boxes remain changes by jumps"),
    {0},
};
