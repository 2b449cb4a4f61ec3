/* Elementary functions of float64 as straight-line code, for vectors and for a GPU: a few units in the last place.
 *
 * Coefficients are those of Taylor's series after a reduction of the argument, or minimax fits; constants that a sum must keep exactly are
 * given in two parts (Cody and Waite, Software Manual for the Elementary Functions, 1980). All of it needs fused multiplication. */
#include "te/te.h"
#include "jit/math.h"

#define LN2_HIGH 0.6931471803691238
#define LN2_LOW 1.9082149292705877e-10
#define LN2 0.6931471805599453

static Ssa sum(const Lanes *l, Ssa x, Ssa y)
{
    return LLVMBuildFAdd(l->g->b, x, y, "");
}

static Ssa difference(const Lanes *l, Ssa x, Ssa y)
{
    return LLVMBuildFSub(l->g->b, x, y, "");
}

static Ssa product(const Lanes *l, Ssa x, Ssa y)
{
    return LLVMBuildFMul(l->g->b, x, y, "");
}

static Ssa quotient(const Lanes *l, Ssa x, Ssa y)
{
    return LLVMBuildFDiv(l->g->b, x, y, "");
}

static Ssa times(const Lanes *l, Ssa x, double v)
{
    return product(l, x, wide_number(l, v));
}

static Ssa plus(const Lanes *l, Ssa x, double v)
{
    return sum(l, x, wide_number(l, v));
}

static Ssa fused(const Lanes *l, Ssa x, Ssa y, Ssa z)
{
    return lanes_fused(l, x, y, z);
}

static Ssa longs(const Lanes *l, int64_t v)
{
    return lanes_int(l, l->g->i64, v);
}

static Ssa as_bits(const Lanes *l, Ssa x)
{
    return LLVMBuildBitCast(l->g->b, x, lanes_type(l, l->g->i64), "");
}

static Ssa as_double(const Lanes *l, Ssa bits)
{
    return LLVMBuildBitCast(l->g->b, bits, lanes_type(l, l->g->f64), "");
}

/* ---- powers of e -------------------------------------------------------------------------------------------------------------- */

/* 2^i, i an integer that a normal number has as its exponent. */
static Ssa power_of_two(const Lanes *l, Ssa i)
{
    LLVMBuilderRef b = l->g->b;
    return as_double(l, LLVMBuildShl(b, LLVMBuildAdd(b, i, longs(l, 1023), ""), longs(l, 52), ""));
}

/* x + low = n ln 2 + r, r near 0; the result is e^r - 1. `low` may be NULL. */
static Ssa reduced_exp(const Lanes *l, Ssa x, Ssa low, Ssa *n)
{
    /* Near 1/2!, 1/3! …: the least error is 4e-18. */
    static const double c[] = {0.5000000000000011,     0.1666666666666641,
                               0.04166666666652973,    0.008333333333494983,
                               0.0013888888943759728,  0.00019841269505759532,
                               2.4801492949819634e-05, 2.7557586817680152e-06,
                               2.7630306202999693e-07, 2.5000014254856074e-08};
    *n = wide_call(l, "llvm.rint", times(l, x, 1.4426950408889634));
    Ssa r = fused(l, *n, wide_number(l, -LN2_HIGH), x);
    r = fused(l, *n, wide_number(l, -LN2_LOW), r);
    r = low ? sum(l, r, low) : r;
    return fused(l, product(l, r, r), wide_polynomial(l, r, c, COUNT(c)), r);
}

static Ssa as_whole(const Lanes *l, Ssa n)
{
    LLVMBuilderRef b = l->g->b;
    return LLVMBuildFreeze(b, LLVMBuildFPToSI(b, n, lanes_type(l, l->g->i64), ""), "");
}

/* e^(x + low) 2^more; over and under the range of doubles too. What is far below 0 is nothing by a factor of 0 or is left out: processors stop at
 * what is not exactly nothing. */
static Ssa exp_of(const Lanes *l, Ssa x, Ssa low, int more)
{
    LLVMBuilderRef b = l->g->b;
    bool scales = l->n == 8 && gen_has(l->g, "avx512f");
    double least = (-2045.75 - more) * 0.6931471805599453;
    Ssa n;
    x = wide_when(l, LLVMRealOGT, x, 711, wide_number(l, 711), x);
    if (!scales)
        x = wide_when(l, LLVMRealOLT, x, least, wide_number(l, least), x);
    Ssa p = plus(l, reduced_exp(l, x, low, &n), 1);
    if (scales) {
        Ssa any = LLVMBuildFCmp(b, LLVMRealUGE, x, wide_number(l, -746), "");
        Ssa args[5] = {p, more ? plus(l, n, more) : n, LLVMConstNull(LLVMTypeOf(x)),
                       LLVMBuildBitCast(b, any, l->g->i8, ""), gen_int(l->g->i32, 4)};
        return gen_intrinsic(l->g, "llvm.x86.avx512.mask.scalef.pd.512", NULL, args, 5);
    }
    Ssa i = LLVMBuildAdd(b, as_whole(l, n), longs(l, more), "");
    Ssa half = LLVMBuildAShr(b, i, longs(l, 1), "");
    p = product(l, p, power_of_two(l, half));
    return product(l, p, power_of_two(l, LLVMBuildSub(b, i, half, "")));
}

/* e^x - 1, of numbers up to 50. */
static Ssa exp_less_one(const Lanes *l, Ssa x)
{
    Ssa n, e = reduced_exp(l, x, NULL, &n), two = power_of_two(l, as_whole(l, n));
    return fused(l, two, e, plus(l, two, -1));
}

/* ---- logarithms ---------------------------------------------------------------------------------------------------------------- */

/* ln x = k ln 2 + high + low of a positive number. */
typedef struct Log {
    Ssa k, high, low;
} Log;

static Log log_parts(const Lanes *l, Ssa x)
{
    /* atanh s = s + s³/3 + …, doubled */
    static const double c[] = {2 / 3.0,  2 / 5.0,  2 / 7.0,  2 / 9.0,  2 / 11.0, 2 / 13.0,
                               2 / 15.0, 2 / 17.0, 2 / 19.0, 2 / 21.0, 2 / 23.0};
    LLVMBuilderRef b = l->g->b;
    Ssa tiny = LLVMBuildFCmp(b, LLVMRealOLT, x, wide_number(l, 0x1p-1022), "");
    Ssa bits = as_bits(l, LLVMBuildSelect(b, tiny, times(l, x, 0x1p54), x, ""));
    Ssa k =
        LLVMBuildAShr(b, LLVMBuildSub(b, bits, longs(l, 0x3fe6a09e667f3bcd), ""), longs(l, 52), "");
    Ssa m = as_double(l, LLVMBuildSub(b, bits, LLVMBuildShl(b, k, longs(l, 52), ""), ""));
    k = LLVMBuildSIToFP(b, k, lanes_type(l, l->g->f64), "");
    k = LLVMBuildSelect(b, tiny, plus(l, k, -54), k, "");
    /* s = (m - 1) / (m + 1), with what the division and the sum leave. */
    Ssa f = plus(l, m, -1), d = plus(l, m, 1);
    Ssa d_low = difference(l, m, plus(l, d, -1));
    Ssa inverse = quotient(l, wide_number(l, 1), d), s = product(l, f, inverse);
    Ssa rest = fused(l, LLVMBuildFNeg(b, s, ""), d, f);
    Ssa s_low = product(l, fused(l, LLVMBuildFNeg(b, s, ""), d_low, rest), inverse);
    Ssa z = product(l, s, s), r = product(l, wide_polynomial(l, z, c, COUNT(c)), z);
    return (Log){k, sum(l, s, s), fused(l, s, r, sum(l, s_low, s_low))};
}

/* Of a logarithm what it is of 0, infinity, NaN and numbers below 0. */
static Ssa log_of_any(const Lanes *l, Ssa x, Ssa v)
{
    v = wide_when(l, LLVMRealOLT, x, __builtin_inf(), v, x);
    v = wide_when(l, LLVMRealOLT, x, 0, wide_number(l, __builtin_nan("")), v);
    return wide_when(l, LLVMRealOEQ, x, 0, wide_number(l, -__builtin_inf()), v);
}

static Ssa log_of(const Lanes *l, Ssa x)
{
    Log p = log_parts(l, x);
    Ssa low = fused(l, p.k, wide_number(l, LN2_LOW), p.low);
    return log_of_any(l, x, fused(l, p.k, wide_number(l, LN2_HIGH), sum(l, p.high, low)));
}

/* The logarithm to another base, of which 2 has the logarithm two_high + two_low and e has e_high + e_low. */
static Ssa log_to(const Lanes *l, Ssa x, double two_high, double two_low, double e_high,
                  double e_low)
{
    Log p = log_parts(l, x);
    Ssa low = fused(l, p.high, wide_number(l, e_low), product(l, p.low, wide_number(l, e_high)));
    low = fused(l, p.k, wide_number(l, two_low), low);
    Ssa near = fused(l, p.high, wide_number(l, e_high), low);
    return log_of_any(l, x, fused(l, p.k, wide_number(l, two_high), near));
}

/* ln (1 + u), u not below 0. */
static Ssa log_of_one_more(const Lanes *l, Ssa u)
{
    Ssa w = plus(l, u, 1), lost = difference(l, u, plus(l, w, -1));
    Ssa more = quotient(l, lost, w);
    more = wide_when(l, LLVMRealOLT, w, __builtin_inf(), more, wide_number(l, 0));
    return sum(l, log_of(l, w), more);
}

/* ---- angles -------------------------------------------------------------------------------------------------------------------- */

/* Up to here quadrants are taken off exactly enough. */
#define ANGLE_MOST 1e9

/* High 64 bits of a product. */
static Ssa product_high(const Lanes *l, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef wide = LLVMIntTypeInContext(l->g->c, 128);
    Ssa both = LLVMBuildMul(b, LLVMBuildZExt(b, x, wide, ""), LLVMBuildZExt(b, y, wide, ""), "");
    return LLVMBuildTrunc(b, LLVMBuildLShr(b, both, LLVMConstInt(wide, 64, false), ""), l->g->i64,
                          "");
}

/* 64 zeros and the first 1280 bits of 2 / pi. */
static Ssa two_over_pi(const Lanes *l)
{
    static const uint64_t words[] = {0,
                                     0xa2f9836e4e441529,
                                     0xfc2757d1f534ddc0,
                                     0xdb6295993c439041,
                                     0xfe5163abdebbc561,
                                     0xb7246e3a424dd2e0,
                                     0x06492eea09d1921c,
                                     0xfe1deb1cb129a73e,
                                     0xe88235f52ebb4484,
                                     0xe99c7026b45f7e41,
                                     0x3991d639835339f4,
                                     0x9c845f8bbdf9283b,
                                     0x1ff897ffde05980f,
                                     0xef2f118b5a0a6d1f,
                                     0x6d367ecf27cb09b7,
                                     0x4f463f669e5fea2d,
                                     0x7527bac7ebe5f17b,
                                     0x3d0739f78a5292ea,
                                     0x6bfb5fb11f8d5d08,
                                     0x56033046fc7b6bab,
                                     0xf0cfbc209af4361d};
    static const char name[] = "two_over_pi";
    Gen *g = l->g;
    Ssa table = LLVMGetNamedGlobal(g->m, name);
    if (table)
        return table;
    Ssa all[COUNT(words)];
    for (int i = 0; i < COUNT(words); i++)
        all[i] = LLVMConstInt(g->i64, words[i], false);
    LLVMTypeRef type = LLVMArrayType2(g->i64, COUNT(words));
    table = LLVMAddGlobalInAddressSpace(g->m, type, name, 1); /* that of a card's global memory */
    LLVMSetInitializer(table, LLVMConstArray2(g->i64, all, COUNT(words)));
    LLVMSetGlobalConstant(table, true);
    LLVMSetLinkage(table, LLVMInternalLinkage);
    LLVMSetAlignment(table, 8);
    return table;
}

/* Angles of any size on a card (Payne and Hanek, 1983). The number is m 2^e with m of 53 bits; of 2 / pi the 192 bits are taken of which
 * a multiple by m 2^e says the quadrant and what is left of it. `*n` is the quadrant, `*r` the angle in it. */
static void reduce_far(const Lanes *l, Ssa x, Ssa *n, Ssa *r)
{
    Gen *g = l->g;
    LLVMBuilderRef b = g->b;
    Ssa bits = as_bits(l, x), words[4], window[3];
    Ssa m = LLVMBuildAnd(b, bits, longs(l, 0xfffffffffffff), "");
    m = LLVMBuildOr(b, m, longs(l, 0x10000000000000), "");
    Ssa e = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, longs(l, 52), ""), longs(l, 0x7ff), "");
    Ssa first = LLVMBuildSub(b, e, longs(l, 1075 - 62), "");
    /* Of other numbers anything that is there. */
    Ssa far = LLVMBuildICmp(b, LLVMIntUGT, first, longs(l, 1033), "");
    first = LLVMBuildSelect(b, far, longs(l, 64), first, "");
    Ssa word = LLVMBuildLShr(b, first, longs(l, 6), ""), table = two_over_pi(l);
    for (int i = 0; i < 4; i++) {
        Ssa at = LLVMBuildAdd(b, word, longs(l, i), "");
        words[i] = LLVMBuildLoad2(b, g->i64, LLVMBuildGEP2(b, g->i64, table, &at, 1, ""), "");
        LLVMSetAlignment(words[i], 8);
    }
    for (int i = 0; i < 3; i++) {
        Ssa args[3] = {words[i], words[i + 1], LLVMBuildAnd(b, first, longs(l, 63), "")};
        window[i] = gen_intrinsic(g, "llvm.fshl", g->i64, args, 3);
    }
    Ssa low = LLVMBuildMul(b, m, window[1], "");
    Ssa mid = LLVMBuildAdd(b, low, product_high(l, m, window[2]), "");
    Ssa carry = LLVMBuildZExt(b, LLVMBuildICmp(b, LLVMIntULT, mid, low, ""), g->i64, "");
    Ssa top = LLVMBuildAdd(b, LLVMBuildMul(b, m, window[0], ""), product_high(l, m, window[1]), "");
    top = LLVMBuildAdd(b, top, carry, "");
    /* Two bits of the quadrant, and then a fraction of it that may be rounded up. */
    Ssa args[3] = {top, mid, longs(l, 2)};
    Ssa rest = gen_intrinsic(g, "llvm.fshl", g->i64, args, 3);
    Ssa less = LLVMBuildShl(b, mid, longs(l, 2), "");
    *n = LLVMBuildAdd(b, LLVMBuildLShr(b, top, longs(l, 62), ""),
                      LLVMBuildLShr(b, rest, longs(l, 63), ""), "");
    *r = fused(l, LLVMBuildUIToFP(b, less, g->f64, ""), wide_number(l, 0x1p-64),
               LLVMBuildSIToFP(b, rest, g->f64, ""));
    *r = times(l, *r, 1.5707963267948966 * 0x1p-64);
    Ssa below = LLVMBuildFCmp(b, LLVMRealOLT, x, wide_number(l, 0), "");
    *n = LLVMBuildSelect(b, below, LLVMBuildNeg(b, *n, ""), *n, "");
    *r = LLVMBuildSelect(b, below, LLVMBuildFNeg(b, *r, ""), *r, "");
    Ssa size = wide_call(l, "llvm.fabs", x), none = wide_number(l, __builtin_nan(""));
    *r = wide_when(l, LLVMRealOLT, size, __builtin_inf(), *r, none);
}

static Ssa sine_of(const Lanes *l, Ssa r, Ssa z)
{
    static const double c[] = {-1 / 6.0,          1 / 120.0,         -1 / 5040.0,
                               1 / 362880.0,      -1 / 39916800.0,   1 / 6227020800.0,
                               -1 / 1307674368e3, 1 / 355687428096e3};
    return fused(l, product(l, z, wide_polynomial(l, z, c, COUNT(c))), r, r);
}

static Ssa cosine_of(const Lanes *l, Ssa z)
{
    static const double c[] = {1 / 24.0,          -1 / 720.0,          1 / 40320.0,
                               -1 / 3628800.0,    1 / 479001600.0,     -1 / 87178291200.0,
                               1 / 20922789888e3, -1 / 6402373705728e3};
    Ssa half = times(l, z, 0.5), near = difference(l, wide_number(l, 1), half);
    Ssa lost = difference(l, difference(l, wide_number(l, 1), near), half);
    return sum(l, near, fused(l, product(l, z, z), wide_polynomial(l, z, c, COUNT(c)), lost));
}

/* x = n pi / 2 + r; by the quadrant n, plus a turn for cosines, sin r or cos r with a sign. Tangents are both. */
static Ssa circular(const Lanes *l, int op, Ssa x)
{
    static const DType f64 = {DTYPE_CODE_FLOAT, 64, 1};
    LLVMBuilderRef b = l->g->b;
    Ssa n = wide_call(l, "llvm.rint", times(l, x, 0.63661977236758134)), v;
    Ssa r = fused(l, n, wide_number(l, -1.5707963267948966), x);
    r = fused(l, n, wide_number(l, -6.123233995736766e-17), r);
    Ssa size = wide_call(l, "llvm.fabs", x);
    Ssa far = LLVMBuildFCmp(b, LLVMRealUGT, size, wide_number(l, ANGLE_MOST), "");
    /* The last bits of n: 1.5 * 2^52 puts them at the end of the number. */
    Ssa q = as_bits(l, plus(l, n, 6755399441055744.0));
    if (l->g->device) {
        Ssa far_q, far_r;
        reduce_far(l, x, &far_q, &far_r);
        q = LLVMBuildSelect(b, far, far_q, q, "");
        r = LLVMBuildSelect(b, far, far_r, r, "");
    }
    Ssa z = product(l, r, r), sine = sine_of(l, r, z), cosine = cosine_of(l, z);
    if (op == TE_COS)
        q = LLVMBuildAdd(b, q, longs(l, 1), "");
    Ssa odd = LLVMBuildTrunc(b, q, lanes_type(l, l->g->i1), "");
    if (op == TE_TAN) {
        Ssa top = LLVMBuildSelect(b, odd, LLVMBuildFNeg(b, cosine, ""), sine, "");
        v = quotient(l, top, LLVMBuildSelect(b, odd, sine, cosine, ""));
    } else {
        Ssa sign = LLVMBuildShl(b, LLVMBuildLShr(b, q, longs(l, 1), ""), longs(l, 63), "");
        v = LLVMBuildSelect(b, odd, cosine, sine, "");
        v = as_double(l, LLVMBuildXor(b, as_bits(l, v), sign, ""));
    }
    /* A zero keeps its sign. */
    if (op != TE_COS)
        v = wide_when(l, LLVMRealOEQ, x, 0, x, v);
    if (l->g->device)
        return v;
    return unless_far(l, f64, far, v, op == TE_SIN ? "sin" : op == TE_COS ? "cos" : "tan", &x, 1);
}

/* A card's thread has what it reads at once as a vector; each number of it looks for its own words. */
static Ssa circular_of_each(const Lanes *l, int op, Ssa x)
{
    Gen *g = l->g;
    Lanes one = *l;
    one.n = 1;
    Ssa out = LLVMGetPoison(LLVMTypeOf(x));
    for (unsigned i = 0; i < l->n; i++) {
        Ssa lane = gen_int(g->i32, i);
        Ssa v = circular(&one, op, LLVMBuildExtractElement(g->b, x, lane, ""));
        out = LLVMBuildInsertElement(g->b, out, v, lane, "");
    }
    return out;
}

/* Of a number that is not below 0: an angle of 0, 45 or 90 degrees and that of what is left, which is small. */
static Ssa atan_of(const Lanes *l, Ssa a)
{
    double c[20];
    for (int i = 0; i < COUNT(c); i++)
        c[i] = (i % 2 ? 1 : -1) / (2.0 * i + 3);
    LLVMBuilderRef b = l->g->b;
    Ssa one = wide_number(l, 1), zero = wide_number(l, 0);
    Ssa half = LLVMBuildFCmp(b, LLVMRealOGT, a, wide_number(l, 0.41421356237309503), "");
    Ssa whole = LLVMBuildFCmp(b, LLVMRealOGT, a, wide_number(l, 2.4142135623730950), "");
    Ssa top = LLVMBuildSelect(b, half, difference(l, a, one), a, "");
    top = LLVMBuildSelect(b, whole, wide_number(l, -1), top, "");
    Ssa below = LLVMBuildSelect(b, half, sum(l, a, one), one, "");
    below = LLVMBuildSelect(b, whole, a, below, "");
    Ssa from = LLVMBuildSelect(b, half, wide_number(l, 0.78539816339744831), zero, "");
    from = LLVMBuildSelect(b, whole, wide_number(l, 1.5707963267948966), from, "");
    Ssa low = times(l, from, 3.061616997868383e-17 / 0.78539816339744831);
    Ssa t = quotient(l, top, below), z = product(l, t, t);
    Ssa more = fused(l, product(l, z, wide_polynomial(l, z, c, COUNT(c))), t, low);
    return sum(l, from, sum(l, t, more));
}

static Ssa angle(const Lanes *l, int op, Ssa x, Ssa a)
{
    Ssa one = wide_number(l, 1), of = op == TE_ACOS ? x : a;
    if (op == TE_ATAN)
        return with_sign(l, atan_of(l, a), x);
    Ssa less = difference(l, one, of), more = sum(l, one, of);
    if (op == TE_ASIN) {
        Ssa root = wide_call(l, "llvm.sqrt", product(l, less, more));
        return with_sign(l, atan_of(l, quotient(l, a, root)), x);
    }
    Ssa v = atan_of(l, wide_call(l, "llvm.sqrt", quotient(l, less, more)));
    return sum(l, v, v);
}

/* ---- hyperbolic functions, and those of the normal distribution ---------------------------------------------------------------- */

static Ssa hyperbolic(const Lanes *l, int op, Ssa x, Ssa a)
{
    /* Beyond this e^-x is lost beside e^x. */
    Ssa most = wide_number(l, 22), near = wide_when(l, LLVMRealOGT, a, 22, most, a);
    if (op == TE_TANH) {
        Ssa t = exp_less_one(l, sum(l, near, near));
        return with_sign(l, quotient(l, t, plus(l, t, 2)), x);
    }
    Ssa half = exp_of(l, a, NULL, -1);
    if (op == TE_COSH)
        return sum(l, half, quotient(l, wide_number(l, 0.25), half));
    Ssa t = exp_less_one(l, near), v = times(l, sum(l, t, quotient(l, t, plus(l, t, 1))), 0.5);
    return with_sign(l, wide_when(l, LLVMRealOGT, a, 22, half, v), x);
}

static Ssa area(const Lanes *l, int op, Ssa x, Ssa a)
{
    Ssa large = plus(l, log_of(l, a), LN2), v, none = wide_number(l, __builtin_nan(""));
    if (op == TE_ACOSH) {
        Ssa t = plus(l, x, -1), root = wide_call(l, "llvm.sqrt", fused(l, t, t, sum(l, t, t)));
        v = wide_when(l, LLVMRealUGT, x, 1e8, large, log_of_one_more(l, sum(l, t, root)));
        return wide_when(l, LLVMRealOLT, x, 1, none, v);
    }
    if (op == TE_ASINH) {
        Ssa square = product(l, a, a), root = wide_call(l, "llvm.sqrt", plus(l, square, 1));
        Ssa u = sum(l, a, quotient(l, square, plus(l, root, 1)));
        v = wide_when(l, LLVMRealUGT, a, 1e8, large, log_of_one_more(l, u));
    } else {
        Ssa u = quotient(l, sum(l, a, a), difference(l, wide_number(l, 1), a));
        v = wide_when(l, LLVMRealOGT, a, 1, none, times(l, log_of_one_more(l, u), 0.5));
    }
    return with_sign(l, v, x);
}

static Ssa error_function(const Lanes *l, Ssa x, Ssa a)
{
    /* By t = 2 / (2 + a), erfc a = t e^(-a² + p(t - 0.49…)) between 0.7 and 6.2. */
    static const double c[] = {
        -0.6821124107843232,  1.3423122113837445,  0.1979580853640128,   -0.3701478216623197,
        -0.16870056712010895, 0.27684114023020207, 0.12863561112770622,  -0.29722731872788266,
        -0.06150287973984739, 0.351107712485142,   -0.06473104338185974, -0.38264564036697124,
        0.26384161789183397,  0.31320148031725253, -0.4908823282521718,  -0.06931028445038531,
        0.6067180434328256,   -0.3085737053766972, -0.42734903836443533, 0.48724193908137825};
    double small[16], factorial = 1; /* (-1)^k / (k! (2k + 1)) of 2 / sqrt pi */
    for (int k = 0; k < COUNT(small); k++) {
        small[k] = (k % 2 ? -1.1283791670955126 : 1.1283791670955126) / (factorial * (2 * k + 1));
        factorial *= k + 1;
    }
    Ssa z = product(l, a, a), near = product(l, wide_polynomial(l, z, small, COUNT(small)), a);
    Ssa least = wide_when(l, LLVMRealOGT, a, 6, wide_number(l, 6), a);
    Ssa t = quotient(l, wide_number(l, 2), plus(l, least, 2));
    Ssa p = wide_polynomial(l, plus(l, t, -0.49232158988256546905), c, COUNT(c));
    Ssa e = exp_of(l, fused(l, LLVMBuildFNeg(l->g->b, least, ""), least, p), NULL, 0);
    Ssa far = fused(l, LLVMBuildFNeg(l->g->b, t, ""), e, wide_number(l, 1));
    return with_sign(l, wide_when(l, LLVMRealOLT, a, 0.75, near, far), x);
}

/* ---- the table ------------------------------------------------------------------------------------------------------------------ */

/* Single values are the C library's, where there is one; and all are where results are to be as if nothing was approximated. */
static bool is_ours(const Lanes *l)
{
    return l->g->device || (l->n > 1 && gen_has(l->g, "fma") && !l->g->jit->exact);
}

Ssa double_math(const Lanes *l, int op, Ssa x)
{
    if (!is_ours(l))
        return NULL;
    Ssa a = wide_call(l, "llvm.fabs", x);
    switch (op) {
    case TE_EXP: return exp_of(l, x, NULL, 0);
    case TE_LOG: return log_of(l, x);
    case TE_LOG2: return log_to(l, x, 1, 0, 1.4426950408889634, 2.0355273740931033e-17);
    case TE_LOG10:
        return log_to(l, x, 0.3010299955494702, 1.1451100898021838e-10, 0.4342944819032518,
                      1.098319650216765e-17);
    case TE_SIN:
    case TE_COS:
    case TE_TAN: return l->g->device && l->n > 1 ? circular_of_each(l, op, x) : circular(l, op, x);
    case TE_ASIN:
    case TE_ACOS:
    case TE_ATAN: return angle(l, op, x, a);
    case TE_TANH:
    case TE_SINH:
    case TE_COSH: return hyperbolic(l, op, x, a);
    case TE_ASINH:
    case TE_ACOSH:
    case TE_ATANH: return area(l, op, x, a);
    case TE_ERF: return error_function(l, x, a);
    default: return NULL;
    }
}

Ssa double_power(const Lanes *l, Ssa x, Ssa y)
{
    if (!is_ours(l))
        return NULL;
    LLVMBuilderRef b = l->g->b;
    Ssa size = wide_call(l, "llvm.fabs", x), zero = wide_number(l, 0);
    /* y (k ln 2 + high + low), of which the parts that a sum loses are kept apart. */
    Log p = log_parts(l, size);
    Ssa large = times(l, p.k, LN2_HIGH), high = sum(l, large, p.high);
    Ssa low = sum(l, sum(l, difference(l, large, high), p.high), p.low);
    low = fused(l, p.k, wide_number(l, LN2_LOW), low);
    Ssa whole = sum(l, high, low);
    low = sum(l, difference(l, high, whole), low);
    high = log_of_any(l, size, whole);
    Ssa t = product(l, y, high);
    Ssa rest = fused(l, y, low, fused(l, y, high, LLVMBuildFNeg(b, t, "")));
    Ssa usual = wide_call(l, "llvm.fabs", t);
    rest = wide_when(l, LLVMRealOLT, usual, 1000, rest, zero);
    return signed_power(l, x, y, size, exp_of(l, t, rest, 0));
}
