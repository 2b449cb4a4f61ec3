#include "ir/dim.h"

#include "base/number.h"
#include "ir/ctx.h"

#include <string.h>

static const struct {
    const char *key, *sign;
} ops[] = {
    {"", ""},
#define DIM_OP(OP, key, sign) {key, sign},
#include "ir/dims.def"
#undef DIM_OP
};

enum { N_OPS = sizeof ops / sizeof *ops };

const char *dim_op_key(DimOp op)
{
    return ops[op].key;
}

DimOp dim_op_find(const char *key)
{
    for (int op = DIM_VAR + 1; op < N_OPS; op++)
        if (strcmp(ops[op].key, key) == 0)
            return (DimOp)op;
    return DIM_VAR;
}

/* ---- expressions ------------------------------------------------------------------------------------ */

static uint32_t size_of(const Ctx *cx, Dim d)
{
    const DimSymbol *s = dim_symbol_get(cx, d);
    return s ? s->size : 0;
}

static DType dtype_of_dim(const Ctx *cx, Dim a, Dim b)
{
    const DimSymbol *s = dim_symbol_get(cx, a);
    s = s ? s : dim_symbol_get(cx, b);
    return s ? s->dtype : dtype_of(DT_INT32);
}

static Dim node(Ctx *cx, DimOp op, Dim a, Dim b, Dim normal)
{
    uint32_t size = size_of(cx, a) + size_of(cx, b) + 1;
    if (size > DIM_SIZE_MOST || cx->symbols.n >= DIM_SYMBOLS_MOST)
        return DIM_ANY;
    return dim_symbol(cx, (DimSymbol){.op = op,
                                      .a = a,
                                      .b = b,
                                      .dtype = dtype_of_dim(cx, a, b),
                                      .normal = normal,
                                      .size = size});
}

static Dim normal_of(const Ctx *cx, Dim d)
{
    const DimSymbol *s = dim_symbol_get(cx, d);
    return s && s->normal ? s->normal : d;
}

/* ---- sums of products -------------------------------------------------------------------------------- */

enum { TERMS_MOST = 8 };

/* constant + sum of times * what, where what is a symbol, or an expression that is no sum. */
typedef struct Sum {
    int64_t constant;
    int n;
    struct Term {
        Dim what;
        int64_t times;
    } terms[TERMS_MOST];
    bool failed; /* too long, too large, or something unknown in it */
} Sum;

static void add_term(Sum *s, Dim what, int64_t times)
{
    int i = 0;
    while (i < s->n && s->terms[i].what < what)
        i++;
    if (i < s->n && s->terms[i].what == what) {
        s->failed |= __builtin_add_overflow(s->terms[i].times, times, &s->terms[i].times);
        if (s->terms[i].times == 0)
            memmove(&s->terms[i], &s->terms[i + 1], (size_t)(--s->n - i) * sizeof *s->terms);
        return;
    }
    s->failed |= s->n == TERMS_MOST;
    if (s->failed)
        return;
    memmove(&s->terms[i + 1], &s->terms[i], (size_t)(s->n++ - i) * sizeof *s->terms);
    s->terms[i] = (struct Term){what, times};
}

static void add_to(const Ctx *cx, Sum *s, Dim d, int64_t times)
{
    int64_t v;
    const DimSymbol *e = dim_symbol_get(cx, d);
    if (d >= 0) {
        s->failed |= __builtin_mul_overflow(d, times, &v) ||
                     __builtin_add_overflow(s->constant, v, &s->constant);
    } else if (!e) {
        s->failed = true;
    } else if (e->op == DIM_ADD || e->op == DIM_SUB) {
        add_to(cx, s, e->a, times);
        s->failed |= times == INT64_MIN;
        add_to(cx, s, e->b, e->op == DIM_ADD || s->failed ? times : -times);
    } else if (e->op == DIM_MUL && (e->a >= 0 || e->b >= 0)) {
        s->failed |= __builtin_mul_overflow(times, e->a >= 0 ? e->a : e->b, &v);
        add_to(cx, s, e->a >= 0 ? e->b : e->a, s->failed ? 1 : v);
    } else if (times != 0) {
        add_term(s, d, times);
    }
}

static Dim with_term(Ctx *cx, Dim sum, bool first, const struct Term *t)
{
    int64_t times = t->times < 0 ? -t->times : t->times;
    Dim product = times == 1 ? t->what : node(cx, DIM_MUL, t->what, times, 0);
    if (product == DIM_ANY || first)
        return product;
    return node(cx, t->times < 0 ? DIM_SUB : DIM_ADD, sum, product, 0);
}

/* What is added stands first, then what is subtracted, then the number. */
static Dim of_sum(Ctx *cx, const Sum *s)
{
    bool first = true, number_first = false;
    Dim sum = 0;
    if (s->failed)
        return DIM_ANY;
    if (s->n == 0)
        return s->constant < 0 ? DIM_ANY : s->constant;
    for (int i = 0; i < s->n && sum != DIM_ANY; i++)
        if (s->terms[i].times > 0) {
            sum = with_term(cx, sum, first, &s->terms[i]);
            first = false;
        }
    if (first) {
        if (s->constant <= 0)
            return DIM_ANY;
        sum = s->constant;
        number_first = true;
    }
    for (int i = 0; i < s->n && sum != DIM_ANY; i++)
        if (s->terms[i].times < 0)
            sum =
                s->terms[i].times == INT64_MIN ? DIM_ANY : with_term(cx, sum, false, &s->terms[i]);
    if (number_first || s->constant == 0 || sum == DIM_ANY)
        return sum;
    return s->constant > 0 ? node(cx, DIM_ADD, sum, s->constant, 0)
                           : node(cx, DIM_SUB, sum, -s->constant, 0);
}

/* ---- operations --------------------------------------------------------------------------------------- */

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
}

/* (q * b + rest) // b is q + rest // b. */
static Dim divide_sum(Ctx *cx, const Sum *s, int64_t b)
{
    Sum whole = {.constant = floor_div(s->constant, b)}, rest = {0};
    rest.constant = s->constant - whole.constant * b;
    for (int i = 0; i < s->n; i++) {
        int64_t q = floor_div(s->terms[i].times, b), left = s->terms[i].times - q * b;
        if (q)
            add_term(&whole, s->terms[i].what, q);
        if (left)
            add_term(&rest, s->terms[i].what, left);
    }
    if (rest.n) {
        Dim part = of_sum(cx, &rest);
        part = part == DIM_ANY ? part : node(cx, DIM_FLOOR_DIV, part, b, 0);
        if (part == DIM_ANY)
            return part;
        add_term(&whole, part, 1);
    }
    whole.failed |= s->failed;
    return of_sum(cx, &whole);
}

static bool fold(DimOp op, int64_t a, int64_t b, int64_t *out)
{
    bool divides = op == DIM_FLOOR_DIV || op == DIM_FLOOR_MOD || op == DIM_DIV;
    if (divides && (b == 0 || (b == -1 && a == INT64_MIN)))
        return false;
    switch (op) {
    case DIM_ADD: return !__builtin_add_overflow(a, b, out);
    case DIM_SUB: return !__builtin_sub_overflow(a, b, out);
    case DIM_MUL: return !__builtin_mul_overflow(a, b, out);
    case DIM_FLOOR_DIV: *out = floor_div(a, b); return true;
    case DIM_FLOOR_MOD: *out = a - floor_div(a, b) * b; return true;
    case DIM_DIV: *out = a / b; return true;
    case DIM_MIN: *out = a < b ? a : b; return true;
    case DIM_MAX: *out = a > b ? a : b; return true;
    case DIM_VAR: break;
    }
    return false;
}

static Dim apply(Ctx *cx, DimOp op, Dim a, Dim b)
{
    Sum s = {0};
    int64_t v;
    if (a == DIM_ANY || b == DIM_ANY)
        return DIM_ANY;
    if (a >= 0 && b >= 0)
        return fold(op, a, b, &v) && v >= 0 ? v : DIM_ANY;
    a = normal_of(cx, a);
    b = normal_of(cx, b);
    if (op == DIM_ADD || op == DIM_SUB) {
        add_to(cx, &s, a, 1);
        add_to(cx, &s, b, op == DIM_ADD ? 1 : -1);
        return of_sum(cx, &s);
    }
    if (op == DIM_MUL && (a >= 0 || b >= 0)) {
        add_to(cx, &s, a >= 0 ? b : a, a >= 0 ? a : b);
        return of_sum(cx, &s);
    }
    if (op == DIM_FLOOR_DIV && b > 0) {
        add_to(cx, &s, a, 1);
        return divide_sum(cx, &s, b);
    }
    bool either_way = op == DIM_MUL || op == DIM_MIN || op == DIM_MAX;
    return either_way && a > b ? node(cx, op, b, a, 0) : node(cx, op, a, b, 0);
}

Dim dim_add(Ctx *cx, Dim a, Dim b)
{
    return apply(cx, DIM_ADD, a, b);
}

Dim dim_sub(Ctx *cx, Dim a, Dim b)
{
    return apply(cx, DIM_SUB, a, b);
}

Dim dim_mul(Ctx *cx, Dim a, Dim b)
{
    return apply(cx, DIM_MUL, a, b);
}

Dim dim_floor_div(Ctx *cx, Dim a, Dim b)
{
    return apply(cx, DIM_FLOOR_DIV, a, b);
}

Dim dim_offset(Ctx *cx, Dim d, int64_t by)
{
    Sum s = {.constant = by};
    add_to(cx, &s, normal_of(cx, d), 1);
    return of_sum(cx, &s);
}

Dim dim_product(Ctx *cx, uint32_t n, const Dim *dims)
{
    Dim p = 1;
    for (uint32_t i = 0; i < n; i++)
        p = dim_mul(cx, p, dims[i]);
    return p;
}

Dim dim_windows(Ctx *cx, Dim d, int64_t pad, int64_t window, int64_t stride)
{
    Sum s = {0};
    add_to(cx, &s, normal_of(cx, d), 1);
    s.failed |= __builtin_add_overflow(s.constant, pad, &s.constant) ||
                __builtin_sub_overflow(s.constant, window, &s.constant) ||
                __builtin_add_overflow(s.constant, stride, &s.constant);
    return s.failed ? DIM_ANY : divide_sum(cx, &s, stride);
}

Dim dim_expr(Ctx *cx, DimOp op, Dim a, Dim b)
{
    Dim plain = apply(cx, op, a, b);
    if (!dim_is_symbol(plain))
        return plain;
    const DimSymbol *s = dim_symbol_get(cx, plain);
    return s->op == op && s->a == a && s->b == b ? plain : node(cx, op, a, b, plain);
}

bool dim_same(const Ctx *cx, Dim a, Dim b)
{
    return a == b || (dim_is_symbol(a) && dim_is_symbol(b) && normal_of(cx, a) == normal_of(cx, b));
}

bool dim_value(const Ctx *cx, Dim d, bool (*value)(void *data, Dim symbol, int64_t *out),
               void *data, int64_t *out)
{
    int64_t a, b;
    const DimSymbol *s = dim_symbol_get(cx, d);
    *out = d;
    if (d >= 0)
        return true;
    if (!s || s->op == DIM_VAR)
        return s && value(data, d, out);
    return dim_value(cx, s->a, value, data, &a) && dim_value(cx, s->b, value, data, &b) &&
           fold(s->op, a, b, out);
}

static void print_operand(Buf *b, const Ctx *cx, Dim d)
{
    const DimSymbol *s = dim_symbol_get(cx, d);
    bool parens = s && s->op != DIM_VAR;
    buf_str(b, parens ? "(" : "");
    dim_print(b, cx, d);
    buf_str(b, parens ? ")" : "");
}

void dim_print(Buf *b, const Ctx *cx, Dim d)
{
    const DimSymbol *s = dim_symbol_get(cx, d);
    if (d >= 0)
        buf_int(b, d);
    else if (!s || s->op == DIM_VAR)
        buf_str(b, s ? s->name->text : "?");
    if (!s || s->op == DIM_VAR)
        return;
    if (s->op == DIM_MIN || s->op == DIM_MAX) {
        buf_printf(b, "%s(", ops[s->op].sign);
        dim_print(b, cx, s->a);
        buf_str(b, ", ");
        dim_print(b, cx, s->b);
        buf_char(b, ')');
        return;
    }
    print_operand(b, cx, s->a);
    buf_printf(b, " %s ", ops[s->op].sign);
    print_operand(b, cx, s->b);
}
