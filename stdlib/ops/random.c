/* Random numbers: Threefry-4x64 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3"),
 * split along a path (Claessen and Palka, "Splittable pseudorandom number generators").
 *
 * A key is ten words: four of the key, two of the path, two of the counter (of which the second counts), and two
 * with one bit set, where the path goes on. */
#include "stdlib/ops/ops.h"

#include <math.h>
#include <string.h>

enum { KEY = 0, PATH = 4, COUNT = 7, NEXT = 8, WORDS = 10 };

static const DType word_dtype = {DTYPE_CODE_UINT, 64, 1};
static const DType float64_dtype = {DTYPE_CODE_FLOAT, 64, 1};
static const DType float32_dtype = {DTYPE_CODE_FLOAT, 32, 1};
static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

static uint64_t turned(uint64_t v, int by)
{
    return v << by | v >> (64 - by);
}

/* x = the hash of the counter x under the key. */
static void threefry(const uint64_t *key, uint64_t x[4])
{
    static const uint8_t turns[8][2] = {{14, 16}, {52, 57}, {23, 40}, {5, 37},
                                        {25, 33}, {46, 12}, {58, 22}, {32, 32}};
    uint64_t k[5] = {key[0], key[1], key[2], key[3],
                     0x1BD11BDAA9FC1A22u ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
    for (unsigned round = 0; round <= 20; round++) {
        unsigned s = round / 4;
        for (unsigned j = 0; round % 4 == 0 && j < 4; j++)
            x[j] += k[(s + j) % 5] + (j == 3 ? s : 0);
        if (round == 20)
            break;
        x[0] += x[1];
        x[2] += x[3];
        uint64_t odd = x[0] ^ turned(x[1], turns[round % 8][0]);
        x[1] = x[2] ^ turned(x[3], turns[round % 8][1]);
        x[3] = odd;
    }
}

/* The bit that says where the path goes on moves one to the right, over both words. */
static void advance(uint64_t next[2])
{
    next[1] = next[0] == 1 ? (uint64_t)1 << 63 : next[0] ? 0 : next[1] >> 1;
    next[0] >>= 1;
}

static void fresh(uint64_t *state, unsigned next)
{
    memset(state + PATH, 0, (WORDS - PATH) * sizeof *state);
    state[NEXT] = (uint64_t)1 << next;
}

/* A state whose counter has room for n more numbers: the same, else one further along the path, else one with a new key. */
static void make_room(uint64_t *state, uint64_t n)
{
    if (state[COUNT] < UINT64_MAX - n)
        return;
    if (state[NEXT] || state[NEXT + 1]) {
        for (int i = 0; i < 2; i++) {
            state[PATH + i] |= state[NEXT + i];
            state[PATH + 2 + i] = 0;
        }
        advance(state + NEXT);
        return;
    }
    uint64_t key[4] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    threefry(state, key);
    memcpy(state, key, sizeof key);
    fresh(state, 63);
}

/* Writes n numbers and moves the state behind them. Block i hashes path and counter, to each word of which i is added. */
static bool generate(OpCall *c, uint64_t *state, uint64_t *out, int64_t n)
{
    make_room(state, (uint64_t)n);
    for (int64_t i = 0; i < n; i += 4) {
        uint64_t x[4];
        /* What does not fill a block comes from a block of its own, behind the numbers before it. */
        uint64_t plus = n - i < 4 ? 0 : (uint64_t)(i / 4), skip = n - i < 4 ? (uint64_t)i : 0;
        for (int j = 0; j < 4; j++)
            x[j] = state[PATH + j] + plus + (j == 3 ? skip : 0);
        threefry(state, x);
        memcpy(out + i, x, (size_t)(n - i < 4 ? n - i : 4) * sizeof *x);
        if (limit_hit_at(&c->cx->limits, i))
            return false;
    }
    state[PATH + 2] = 0;
    state[COUNT] += (uint64_t)(n + 3) / 4 * 4;
    return true;
}

/* ---- relations ----------------------------------------------------------------------------------- */

static const Type *key_type(Rel *r)
{
    return type_tensor(r->cx, word_dtype, 1, (Dim[]){WORDS});
}

static RelResult rel_key_and(Rel *r, const Type *t)
{
    return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){key_type(r), t}));
}

static bool shape_of(Rel *r, uint32_t *n, Dim *dims)
{
    int given = attrs_ints(r->attrs, "out_shape", dims, TENSOR_RANK_MOST);
    *n = given < 0 ? 0 : (uint32_t)given;
    for (uint32_t i = 0; i < *n; i++) {
        if (dims[i] >= 0)
            continue;
        rel_error(r, E0216_OPERATOR_ARGUMENT, -1, "`out_shape` of `%s` holds the extent %lld",
                  r->op->name, (long long)dims[i]);
        return false;
    }
    return true;
}

#define SHAPES_rel_split                                                                       \
    "(d...) -> a tuple of parts along axis, each (d[axis := d[axis]/indices_or_sections]...) " \
    "where that is a number"
static RelResult rel_split(Rel *r)
{
    return rel_set_input(r, 0, key_type(r)) ? rel_key_and(r, key_type(r)) : REL_FAILED;
}

static RelResult rel_generate(Rel *r)
{
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n;
    if (!rel_set_input(r, 0, key_type(r)) || !shape_of(r, &n, dims))
        return REL_FAILED;
    return rel_key_and(r, type_tensor(r->cx, word_dtype, n, dims));
}

static RelResult rel_drawn(Rel *r)
{
    DType d = ops_dtype(r->attrs, "out_dtype", float32_dtype);
    Dim dims[TENSOR_RANK_MOST];
    uint32_t n;
    if (!dtype_eq(d, float32_dtype) && !dtype_eq(d, float64_dtype)) {
        rel_error(r, E0203_DTYPE, -1, "`%s` makes numbers of type float32 or float64", r->op->name);
        return REL_FAILED;
    }
    if (!rel_set_input(r, 0, key_type(r)) || !rel_set_tensor(r, 1, d, 0, NULL) ||
        !rel_set_tensor(r, 2, d, 0, NULL) || !shape_of(r, &n, dims))
        return REL_FAILED;
    return rel_key_and(r, type_tensor(r->cx, d, n, dims));
}

static RelResult rel_multinomial(Rel *r)
{
    const Type *p = rel_tensor(r, 1);
    Dim dims[TENSOR_RANK_MOST];
    if (!p)
        return rel_blocked(r);
    if (!rel_set_input(r, 0, key_type(r)))
        return REL_FAILED;
    int64_t n = attrs_int(r->attrs, "num_samples", 1);
    if (p->n == 0 || !dtype_is_float(p->dtype) || n < 0) {
        rel_error(
            r, E0216_OPERATOR_ARGUMENT, 1,
            "`random.multinomial` takes probabilities along a last axis, and how many to draw");
        return REL_FAILED;
    }
    memcpy(dims, p->dims, p->n * sizeof *dims);
    dims[p->n - 1] = n;
    return rel_key_and(r, type_tensor(r->cx, int32_dtype, p->n, dims));
}

/* ---- kernels -------------------------------------------------------------------------------------- */

/* A copy of the key, to be changed: the first field of the result. */
static Tensor *new_key(OpCall *c)
{
    Tensor *key = kernel_arg(c, 0), *copy = key ? kernel_out(c, 0) : NULL;
    if (copy)
        memcpy(copy->data, key->data, WORDS * sizeof(uint64_t));
    tensor_release(key);
    return copy;
}

static uint64_t *words(const Tensor *t)
{
    return (uint64_t *)(void *)t->data;
}

static bool finish(OpCall *c, Tensor *key, Tensor *out, bool good)
{
    if (!good)
        return kernel_release(2, (Tensor *[]){key, out}), false;
    return kernel_set_tuple(c, 2, (Tensor *[]){key, out});
}

/* n numbers in a new tensor; moves the key. NULL after a diagnostic. */
static Tensor *numbers(OpCall *c, Tensor *key, int64_t n)
{
    Tensor *t = key ? tensor_new_raw(&c->cx->limits, word_dtype, 1, &n) : NULL;
    if (t && generate(c, words(key), words(t), n))
        return t;
    tensor_release(t);
    return NULL;
}

static bool kernel_generate(OpCall *c)
{
    Tensor *key = new_key(c), *out = kernel_out(c, 1);
    return finish(c, key, out, key && out && generate(c, words(key), words(out), out->size));
}

/* Left goes on along the path with a 0, right with a 1; at its end both get a new key. */
static bool kernel_split(OpCall *c)
{
    Tensor *left = new_key(c), *right = kernel_out(c, 1);
    bool good = left && right;
    if (good) {
        uint64_t *l = words(left), *r = words(right), bit[2] = {l[NEXT], l[NEXT + 1]};
        if (bit[0] || bit[1]) {
            advance(l + NEXT);
        } else {
            memcpy(r, l + PATH, 4 * sizeof *l);
            threefry(l, r);
            memcpy(l, r, 4 * sizeof *l);
            fresh(l, 62);
            bit[0] = (uint64_t)1 << 63;
        }
        memcpy(r, l, WORDS * sizeof *l);
        r[PATH] |= bit[0];
        r[PATH + 1] |= bit[1];
    }
    return finish(c, left, right, good);
}

/* A number in [0, 1) of the float's precision from the upper bits of a word. */
static double unit(uint64_t bits, bool narrow)
{
    int fraction = narrow ? 23 : 52;
    return ldexp((double)(bits >> (64 - fraction)), -fraction);
}

/* `a` and `b` are the two scalars behind the key; `u` and `v` numbers in [0, 1). Computed in the result's type. */
#define DRAW(NAME, T, LOG, SQRT, SIN)                                                        \
    static T uniform_##NAME(T a, T b, T u, T v)                                              \
    {                                                                                        \
        (void)v;                                                                             \
        return u * (b - a) + a;                                                              \
    }                                                                                        \
    static T normal_##NAME(T a, T b, T u, T v)                                               \
    {                                                                                        \
        T length = SQRT((T) - 2 * LOG((T)1 - u));                                            \
        return length * SIN((T)(2 * 3.14159265358979323846) * v) * b + a;                    \
    }                                                                                        \
    static void draw_##NAME(Limits *l, T (*f)(T, T, T, T), const Tensor *a, const Tensor *b, \
                            const uint64_t *bits, int64_t second, Tensor *out)               \
    {                                                                                        \
        T low = *(const T *)(const void *)a->data;                                           \
        T high = *(const T *)(const void *)b->data, *to = (T *)(void *)out->data;            \
        for (int64_t i = 0; i < out->size && !limit_hit_at(l, i); i++)                       \
            to[i] = f(low, high, (T)unit(bits[i], sizeof(T) == 4),                           \
                      (T)unit(bits[i + second], sizeof(T) == 4));                            \
    }
DRAW(float32, float, logf, sqrtf, sinf)
DRAW(float64, double, log, sqrt, sin)
#undef DRAW

/* Normal numbers are made of two uniform ones each (Box and Muller): first all first ones are drawn, then the second. */
static bool draw(OpCall *c, bool normal)
{
    Tensor *key = new_key(c), *a = kernel_arg(c, 1), *b = kernel_arg(c, 2), *out = kernel_out(c, 1);
    Tensor *bits = a && b && out ? numbers(c, key, out->size * (normal ? 2 : 1)) : NULL;
    if (bits && dtype_eq(out->dtype, float32_dtype))
        draw_float32(&c->cx->limits, normal ? normal_float32 : uniform_float32, a, b, words(bits),
                     normal ? out->size : 0, out);
    else if (bits)
        draw_float64(&c->cx->limits, normal ? normal_float64 : uniform_float64, a, b, words(bits),
                     normal ? out->size : 0, out);
    bool good = kernel_release(3, (Tensor *[]){a, b, bits});
    return finish(c, key, out, good);
}

static bool kernel_uniform(OpCall *c)
{
    return draw(c, false);
}

static bool kernel_normal(OpCall *c)
{
    return draw(c, true);
}

/* The first position up to which the probabilities sum to more than u of their total. */
static int32_t pick(const double *p, int64_t n, double total, double u)
{
    double sum = 0;
    int64_t i = 0;
    while (i < n - 1 && (sum += p[i]) <= u * total)
        i++;
    return (int32_t)i;
}

static bool kernel_multinomial(OpCall *c)
{
    Tensor *key = new_key(c), *p = kernel_arg_as(c, 1, float64_dtype), *out = kernel_out(c, 1);
    Tensor *bits = p && out ? numbers(c, key, out->size) : NULL;
    int64_t n = p ? p->shape[p->rank - 1] : 0, draws = out ? out->shape[out->rank - 1] : 0;
    for (int64_t i = 0; bits && i < out->size; i++) {
        const double *row = (const double *)(const void *)p->data + i / draws * n;
        double total = 0;
        if (limit_hit_at(&c->cx->limits, i))
            break;
        for (int64_t k = 0; k < n; k++)
            total += row[k];
        ((int32_t *)(void *)out->data)[i] = pick(row, n, total, unit(words(bits)[i], true));
    }
    bool good = kernel_release(2, (Tensor *[]){p, bits});
    return finish(c, key, out, good);
}

/* ---- rows ----------------------------------------------------------------------------------------- */

#define KEY_ARG {"key", "a key, used only here: `Tensor[(10), uint64]`"}
static const OpArg key_args[] = {KEY_ARG, {0}};
static const OpArg uniform_args[] = {
    KEY_ARG, {"low", "the least: a scalar"}, {"high", "lies above all: a scalar"}, {0}};
static const OpArg normal_args[] = {
    KEY_ARG, {"mean", "the mean: a scalar"}, {"scale", "the standard deviation: a scalar"}, {0}};
static const OpArg multinomial_args[] = {
    KEY_ARG, {"probs", "probabilities along the last axis, up to a factor"}, {0}};

#define OUT_SHAPE ATTR_MUST("out_shape", INTS, "the extents of the numbers")
static const OpAttr generate_attrs[] = {OUT_SHAPE, {0}};
static const OpAttr draw_attrs[] = {
    OUT_SHAPE, ATTR_D("out_dtype", "", "the type of the numbers: float32 or float64"), {0}};
static const OpAttr multinomial_attrs[] = {
    ATTR_I("num_samples", 1, "how many to draw from each row"), {0}};

#define ROW(NAME, ID, ARGS, ATTRS, SHAPES, SAMPLES, DOC)                                     \
    OP_ROW("random." NAME, ARGS, ATTRS, OP_OPAQUE, rel_##ID, SAMPLES, DOC, .shapes = SHAPES, \
           .kernel = kernel_##ID)

#define DRAW_EXAMPLE(NAME)                                                         \
    "let %key = cast(arange(0, 10, 1, dtype=\"int32\"), dtype=\"uint64\");\n" NAME \
    "(%key, 0f, 1f, out_shape=[2, 3], out_dtype=\"float32\")"

/* What was drawn before it was scaled and moved. */
#define DRAWN(FROM, SCALE)                                               \
    "let %slope = %g.1; let %made = %out.1; let %from = cast_like(" FROM \
    ", %made); let %drawn = divide(subtract(%made, %from), " SCALE "); "
#define UNIFORM_GRAD                                                               \
    DRAWN("%low", "subtract(cast_like(%high, %made), %from)")                      \
    "(zeros_like(%key), "                                                          \
    "cast_like(sum(multiply(%slope, subtract(ones_like(%made), %drawn))), %low), " \
    "cast_like(sum(multiply(%slope, %drawn)), %high))"
#define NORMAL_GRAD                                      \
    DRAWN("%mean", "cast_like(%scale, %made)")           \
    "(zeros_like(%key), cast_like(sum(%slope), %mean), " \
    "cast_like(sum(multiply(%slope, %drawn)), %scale))"

const Op random_ops[] = {
    ROW("threefry_generate", generate, key_args, generate_attrs, "(10) -> ((10), (out_shape...))",
        "(uint64[10], out_shape=[2, 4])",
        "A new key and random words: the Threefry hash of the key's path and counter."),
    ROW("threefry_split", split, key_args, NULL, "(10) -> ((10), (10))", "(uint64[10])",
        "Two keys whose numbers have nothing to do with each other."),
    {.name = "random.uniform",
     .doc = "A new key and random numbers, equally likely everywhere between two bounds.",
     .args = uniform_args,
     .attrs = draw_attrs,
     .shapes = "(10), (), () -> ((10), (out_shape...))",
     .samples = "(uint64[10], float32, float32, out_shape=[2, 3], out_dtype=\"float32\")",
     .example = DRAW_EXAMPLE("random.uniform"),
     .pattern = OP_OPAQUE,
     .rel = rel_drawn,
     .kernel = kernel_uniform,
     .grad = UNIFORM_GRAD},
    {.name = "random.normal",
     .doc = "A new key and random numbers of a normal distribution.",
     .args = normal_args,
     .attrs = draw_attrs,
     .shapes = "(10), (), () -> ((10), (out_shape...))",
     .samples = "(uint64[10], float32, float32, out_shape=[2, 3], out_dtype=\"float32\")",
     .example = DRAW_EXAMPLE("random.normal"),
     .pattern = OP_OPAQUE,
     .rel = rel_drawn,
     .kernel = kernel_normal,
     .grad = NORMAL_GRAD},
    ROW("multinomial", multinomial, multinomial_args, multinomial_attrs,
        "(10), (d..., n) -> ((10), (d..., num_samples))",
        "(uint64[10], float32[2,3], num_samples=4)",
        "A new key and random positions, each as likely as its probability."),
    {0},
};
