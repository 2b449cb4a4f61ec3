/* Elementary functions of float32 as straight-line code over scalars and vectors: no branch, no call, no table.
 *
 * Coefficients are minimax fits; errors are a few units in the last place. Infinities, NaN and zeros of both signs come out as the C
 * library has them: comparisons are written so that a NaN passes through. */
#include "te/te.h"
#include "jit/internal.h"

#include <string.h>

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

static Ssa number(const Lanes *l, double v)
{
    return lanes_float(l, l->g->f32, v);
}

static Ssa integer(const Lanes *l, int64_t v)
{
    return lanes_int(l, l->g->i32, v);
}

/* x * y + z, in one rounding where the processor has it. */
static Ssa fused(const Lanes *l, Ssa x, Ssa y, Ssa z)
{
    if (!strstr(l->g->jit->orc.features, "+fma"))
        return LLVMBuildFAdd(l->g->b, LLVMBuildFMul(l->g->b, x, y, ""), z, "");
    Ssa args[3] = {x, y, z};
    return gen_intrinsic(l->g, "llvm.fma", LLVMTypeOf(x), args, 3);
}

/* c[0] + c[1] x + c[2] x² … */
static Ssa polynomial(const Lanes *l, Ssa x, const double *c, int n)
{
    Ssa r = number(l, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        r = fused(l, r, x, number(l, c[i]));
    return r;
}

static Ssa when(const Lanes *l, LLVMRealPredicate p, Ssa x, double than, Ssa then, Ssa otherwise)
{
    Ssa test = LLVMBuildFCmp(l->g->b, p, x, number(l, than), "");
    return LLVMBuildSelect(l->g->b, test, then, otherwise, "");
}

static Ssa clamped(const Lanes *l, Ssa x, double low, double high)
{
    x = when(l, LLVMRealOGT, x, high, number(l, high), x);
    return when(l, LLVMRealOLT, x, low, number(l, low), x);
}

static Ssa as_int(const Lanes *l, Ssa x)
{
    return LLVMBuildBitCast(l->g->b, x, lanes_type(l, l->g->i32), "");
}

static Ssa as_float(const Lanes *l, Ssa x)
{
    return LLVMBuildBitCast(l->g->b, x, lanes_type(l, l->g->f32), "");
}

/* 2^i for an i within the exponent's range. */
static Ssa power_of_two(const Lanes *l, Ssa i)
{
    Ssa biased = LLVMBuildAdd(l->g->b, i, integer(l, 127), "");
    return as_float(l, LLVMBuildShl(l->g->b, biased, integer(l, 23), ""));
}

/* e^x = 2^n e^r; 2^n in two factors, so that subnormal results are rounded once. */
static Ssa math_exp(const Lanes *l, Ssa x)
{
    static const double c[] = {0.49999994, 0.166665211, 0.041668389, 0.00836871658, 0.00138145988};
    LLVMBuilderRef b = l->g->b;
    x = clamped(l, x, -104.0, 89.0);
    Ssa scaled = LLVMBuildFMul(b, x, number(l, 1.44269504088896341), "");
    Ssa n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(x), &scaled, 1);
    Ssa r = fused(l, n, number(l, -0.693359375), x);
    r = fused(l, n, number(l, 2.12194440e-4), r);
    Ssa p = fused(l, LLVMBuildFMul(b, r, r, ""), polynomial(l, r, c, COUNT(c)), r);
    p = LLVMBuildFAdd(b, p, number(l, 1), "");
    if (l->n == 16 && strstr(l->g->jit->orc.features, "+avx512f")) {
        LLVMTypeRef t = LLVMTypeOf(x);
        Ssa args[5] = {p, n, LLVMConstNull(t), gen_int(l->g->i16, -1), gen_int(l->g->i32, 4)};
        return gen_intrinsic(l->g, "llvm.x86.avx512.mask.scalef.ps.512", NULL, args, 5);
    }
    /* The conversion of a NaN is no number; freezing makes it one, which the product drops. */
    Ssa i = LLVMBuildFreeze(b, LLVMBuildFPToSI(b, n, lanes_type(l, l->g->i32), ""), "");
    Ssa half = LLVMBuildAShr(b, i, integer(l, 1), "");
    Ssa rest = LLVMBuildSub(b, i, half, "");
    p = LLVMBuildFMul(b, p, power_of_two(l, half), "");
    return LLVMBuildFMul(b, p, power_of_two(l, rest), "");
}

static Ssa math_tanh(const Lanes *l, Ssa x)
{
    static const double c[] = {-0.333332986, 0.133319244, -0.0537838303, 0.020795973,
                               -0.00589515874};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1);
    Ssa square = LLVMBuildFMul(b, x, x, "");
    Ssa cube = LLVMBuildFMul(b, a, square, "");
    Ssa small = fused(l, cube, polynomial(l, square, c, COUNT(c)), a);
    Ssa e = LLVMBuildFAdd(b, math_exp(l, LLVMBuildFAdd(b, a, a, "")), number(l, 1), "");
    Ssa large = LLVMBuildFSub(b, number(l, 1), LLVMBuildFDiv(b, number(l, 2), e, ""), "");
    Ssa parts[2] = {when(l, LLVMRealOLT, a, 0.6, small, large), x};
    return gen_intrinsic(l->g, "llvm.copysign", t, parts, 2);
}

/* x = m 2^k with m near 1; log x = k ln 2 + log m. */
static Ssa math_log(const Lanes *l, Ssa x)
{
    static const double c[] = {0.333332151, -0.249997973, 0.200104058, -0.16680488,
                               0.140058681, -0.121842623, 0.139844403, -0.128916785};
    LLVMBuilderRef b = l->g->b;
    Ssa raised = LLVMBuildFMul(b, x, number(l, 8388608.0), "");
    Ssa s = when(l, LLVMRealOLT, x, 1.17549435e-38, raised, x);
    Ssa k0 = when(l, LLVMRealOLT, x, 1.17549435e-38, number(l, -23), number(l, 0));
    Ssa bits = as_int(l, s);
    Ssa above = LLVMBuildSub(b, bits, integer(l, 0x3f2aaaab), "");
    Ssa exponent = LLVMBuildAnd(b, above, integer(l, (int32_t)0xff800000), "");
    Ssa m = as_float(l, LLVMBuildSub(b, bits, exponent, ""));
    Ssa k = LLVMBuildAShr(b, exponent, integer(l, 23), "");
    k = LLVMBuildFAdd(b, LLVMBuildSIToFP(b, k, LLVMTypeOf(x), ""), k0, "");
    Ssa f = LLVMBuildFSub(b, m, number(l, 1), "");
    Ssa r = fused(l, polynomial(l, f, c, COUNT(c)), f, number(l, -0.5));
    Ssa low = LLVMBuildFMul(b, k, number(l, -2.12194440e-4), "");
    r = fused(l, r, LLVMBuildFMul(b, f, f, ""), low);
    r = fused(l, k, number(l, 0.693359375), LLVMBuildFAdd(b, r, f, ""));
    r = when(l, LLVMRealOLT, x, __builtin_inf(), r, x);
    r = when(l, LLVMRealOEQ, x, 0, number(l, -__builtin_inf()), r);
    return when(l, LLVMRealOLT, x, 0, number(l, __builtin_nan("")), r);
}

/* x + x P(x²); and 1 - Q(|x|)^4, which from 4 on is 1. Lanes choose the numbers of their polynomial, which costs less than two of them. */
static Ssa math_erf(const Lanes *l, Ssa x)
{
    enum { N = 9 };
    static const double p[N] = {0.128379151,   -0.376125246,  0.112821408,
                                -0.0267789084, 0.00501196226, -0.000609035778};
    static const double q[N] = {1.00128961,    -0.289307714, -0.102124587,
                                -0.0073994985, 0.0367517173, -0.00966350827,
                                -4.65402e-05,  0.0003000445, -2.99992134e-05};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1);
    Ssa is_small = LLVMBuildFCmp(b, LLVMRealOLT, a, number(l, 0.9), "");
    Ssa near = when(l, LLVMRealOGT, a, 4, number(l, 4), a);
    Ssa at = LLVMBuildSelect(b, is_small, LLVMBuildFMul(b, a, a, ""), near, ""), r = NULL;
    for (int i = N - 1; i >= 0; i--) {
        Ssa c = LLVMBuildSelect(b, is_small, number(l, p[i]), number(l, q[i]), "");
        r = r ? fused(l, r, at, c) : c;
    }
    Ssa square = LLVMBuildFMul(b, r, r, "");
    Ssa large = fused(l, LLVMBuildFNeg(b, square, ""), square, number(l, 1));
    Ssa parts[2] = {LLVMBuildSelect(b, is_small, fused(l, a, r, a), large, ""), x};
    return gen_intrinsic(l->g, "llvm.copysign", t, parts, 2);
}

/* ---- in double precision: what is rounded once to a float is right but for ties ------------------------------------------------ */

/* Lanes of the same number, as doubles. */
static Ssa wide(const Lanes *l, Ssa x)
{
    return LLVMBuildFPExt(l->g->b, x, lanes_type(l, l->g->f64), "");
}

static Ssa narrow(const Lanes *l, Ssa x)
{
    return LLVMBuildFPTrunc(l->g->b, x, lanes_type(l, l->g->f32), "");
}

static Ssa wide_number(const Lanes *l, double v)
{
    return lanes_float(l, l->g->f64, v);
}

static Ssa wide_polynomial(const Lanes *l, Ssa x, const double *c, int n)
{
    Ssa r = wide_number(l, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        r = fused(l, r, x, wide_number(l, c[i]));
    return r;
}

/* What the branch gives where some lane is beyond what the polynomials reach: a call for each. */
static Ssa unless_far(const Lanes *l, Ssa far, Ssa near, const char *name, Ssa *args, unsigned n)
{
    Gen *g = l->g;
    DType f32 = {DTYPE_CODE_FLOAT, 32, 1};
    Ssa fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->b));
    LLVMBasicBlockRef call = gen_block(g, fn, "far"), go = gen_block(g, fn, "go");
    LLVMBasicBlockRef from[2] = {LLVMGetInsertBlock(g->b)};
    gen_branch(g, lanes_any(l, far), call, go, false);
    LLVMPositionBuilderAtEnd(g->b, call);
    Ssa values[2] = {near, lanes_library(l, name, f32, args, n)};
    from[1] = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    return gen_either(g, go, values, from);
}

/* Quadrants that are taken off exactly enough: beyond them the rest of the angle is lost. */
#define ANGLE_MOST 1e7

/* x = n pi / 2 + r; by the quadrant n, plus `turn`, sin r or cos r with a sign. Tangents are both. */
static Ssa math_circular(const Lanes *l, int op, Ssa x)
{
    static const double s[] = {1, -1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0, -1 / 39916800.0};
    static const double c[] = {1,           -1 / 2.0,       1 / 24.0,       -1 / 720.0,
                               1 / 40320.0, -1 / 3628800.0, 1 / 479001600.0};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    Ssa w = wide(l, x), n = LLVMBuildFMul(b, w, wide_number(l, 0.63661977236758134), "");
    n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(w), &n, 1);
    Ssa r = fused(l, n, wide_number(l, -1.5707963267948966), w);
    r = fused(l, n, wide_number(l, -6.123233995736766e-17), r);
    Ssa square = LLVMBuildFMul(b, r, r, "");
    Ssa sine = LLVMBuildFMul(b, wide_polynomial(l, square, s, COUNT(s)), r, "");
    Ssa cosine = wide_polynomial(l, square, c, COUNT(c));
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", LLVMTypeOf(x), &x, 1);
    Ssa far = LLVMBuildFCmp(b, LLVMRealUGT, size, number(l, ANGLE_MOST), "");
    /* The last bits of n, without a conversion: 1.5 * 2^52 puts them at the end of the number. */
    Ssa q =
        LLVMBuildBitCast(b, LLVMBuildFAdd(b, n, wide_number(l, 6755399441055744.0), ""), ints, "");
    if (op == TE_COS)
        q = LLVMBuildAdd(b, q, lanes_int(l, l->g->i64, 1), "");
    Ssa odd = LLVMBuildTrunc(b, q, lanes_type(l, l->g->i1), ""), v;
    if (op == TE_TAN) {
        Ssa top = LLVMBuildSelect(b, odd, LLVMBuildFNeg(b, cosine, ""), sine, "");
        v = LLVMBuildFDiv(b, top, LLVMBuildSelect(b, odd, sine, cosine, ""), "");
    } else {
        v = LLVMBuildSelect(b, odd, cosine, sine, "");
        Ssa sign = LLVMBuildShl(b, LLVMBuildLShr(b, q, lanes_int(l, l->g->i64, 1), ""),
                                lanes_int(l, l->g->i64, 63), "");
        v = LLVMBuildXor(b, LLVMBuildBitCast(b, v, ints, ""), sign, "");
        v = LLVMBuildBitCast(b, v, LLVMTypeOf(w), "");
    }
    v = narrow(l, v);
    /* A zero keeps its sign. */
    if (op != TE_COS)
        v = when(l, LLVMRealOEQ, x, 0, x, v);
    return unless_far(l, far, v, op == TE_SIN ? "sin" : op == TE_COS ? "cos" : "tan", &x, 1);
}

/* k + log2 m of a positive number m 2^k with m near 1: of a double that is no subnormal one, as all floats are. */
static Ssa wide_log2(const Lanes *l, Ssa w)
{
    static const double c[] = {2.8853900817779268,  0.96179669392597561, 0.57707801635558531,
                               0.41219858311113240, 0.32059889797532520, 0.26230818925253880,
                               0.22195308321368670, 0.19235933878519511};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    Ssa bits = LLVMBuildBitCast(b, w, ints, "");
    Ssa above = LLVMBuildSub(b, bits, lanes_int(l, l->g->i64, 0x3fe6a09e00000000), "");
    Ssa k = LLVMBuildAShr(b, above, lanes_int(l, l->g->i64, 52), "");
    Ssa m = LLVMBuildSub(b, bits, LLVMBuildShl(b, k, lanes_int(l, l->g->i64, 52), ""), "");
    m = LLVMBuildBitCast(b, m, LLVMTypeOf(w), "");
    Ssa z = LLVMBuildFDiv(b, LLVMBuildFSub(b, m, wide_number(l, 1), ""),
                          LLVMBuildFAdd(b, m, wide_number(l, 1), ""), "");
    Ssa p = LLVMBuildFMul(b, wide_polynomial(l, LLVMBuildFMul(b, z, z, ""), c, COUNT(c)), z, "");
    return LLVMBuildFAdd(b, LLVMBuildSIToFP(b, k, LLVMTypeOf(w), ""), p, "");
}

/* Of log2 of a float's size what it is at 0, infinity and NaN. */
static Ssa log2_of_any(const Lanes *l, Ssa w, Ssa near)
{
    LLVMBuilderRef b = l->g->b;
    Ssa infinity = wide_number(l, __builtin_inf()), zero = wide_number(l, 0);
    near = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, w, infinity, ""), near, w, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOEQ, w, zero, ""),
                           wide_number(l, -__builtin_inf()), near, "");
}

static Ssa math_log_to(const Lanes *l, Ssa x, double base)
{
    LLVMBuilderRef b = l->g->b;
    Ssa w = wide(l, x), v = log2_of_any(l, w, wide_log2(l, w));
    v = narrow(l, LLVMBuildFMul(b, v, wide_number(l, base), ""));
    return when(l, LLVMRealOLT, x, 0, number(l, __builtin_nan("")), v);
}

/* 2^t, in the range of doubles; a NaN stays. */
static Ssa wide_exp2(const Lanes *l, Ssa t)
{
    static const double c[] = {1,
                               0.69314718055994531,
                               0.24022650695910072,
                               0.055504108664821580,
                               0.0096181291076284772,
                               0.0013333558146428443,
                               0.00015403530393381610,
                               1.5252733804059840e-05,
                               1.3215486790144310e-06,
                               1.0178086009239699e-07};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    Ssa most = wide_number(l, 1000), least = wide_number(l, -1000);
    t = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOGT, t, most, ""), most, t, "");
    t = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOLT, t, least, ""), least, t, "");
    Ssa n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(t), &t, 1);
    Ssa p = wide_polynomial(l, LLVMBuildFSub(b, t, n, ""), c, COUNT(c));
    Ssa i = LLVMBuildFreeze(b, LLVMBuildFPToSI(b, n, ints, ""), "");
    i = LLVMBuildShl(b, LLVMBuildAdd(b, i, lanes_int(l, l->g->i64, 1023), ""),
                     lanes_int(l, l->g->i64, 52), "");
    return LLVMBuildFMul(b, p, LLVMBuildBitCast(b, i, LLVMTypeOf(t), ""), "");
}

/* ---- inverse and hyperbolic functions, of doubles that were floats ------------------------------------------------------------ */

static Ssa wide_when(const Lanes *l, LLVMRealPredicate p, Ssa x, double than, Ssa then,
                     Ssa otherwise)
{
    Ssa test = LLVMBuildFCmp(l->g->b, p, x, wide_number(l, than), "");
    return LLVMBuildSelect(l->g->b, test, then, otherwise, "");
}

static Ssa wide_call(const Lanes *l, const char *name, Ssa x)
{
    return gen_intrinsic(l->g, name, LLVMTypeOf(x), &x, 1);
}

/* What has the sign of x, as all odd functions have. */
static Ssa with_sign(const Lanes *l, Ssa v, Ssa x)
{
    Ssa parts[2] = {v, x};
    return gen_intrinsic(l->g, "llvm.copysign", LLVMTypeOf(v), parts, 2);
}

/* Of a number that is not below 0: an angle of 0, 45 or 90 degrees and that of what is left, which is small. */
static Ssa wide_atan(const Lanes *l, Ssa a)
{
    static const double c[] = {1,        -1 / 3.0,  1 / 5.0,  -1 / 7.0,  1 / 9.0,  -1 / 11.0,
                               1 / 13.0, -1 / 15.0, 1 / 17.0, -1 / 19.0, 1 / 21.0, -1 / 23.0};
    LLVMBuilderRef b = l->g->b;
    Ssa one = wide_number(l, 1), zero = wide_number(l, 0);
    Ssa half = LLVMBuildFCmp(b, LLVMRealOGT, a, wide_number(l, 0.41421356237309503), "");
    Ssa whole = LLVMBuildFCmp(b, LLVMRealOGT, a, wide_number(l, 2.4142135623730950), "");
    Ssa top = LLVMBuildSelect(b, half, LLVMBuildFSub(b, a, one, ""), a, "");
    top = LLVMBuildSelect(b, whole, wide_number(l, -1), top, "");
    Ssa below = LLVMBuildSelect(b, half, LLVMBuildFAdd(b, a, one, ""), one, "");
    below = LLVMBuildSelect(b, whole, a, below, "");
    Ssa from = LLVMBuildSelect(b, half, wide_number(l, 0.78539816339744831), zero, "");
    from = LLVMBuildSelect(b, whole, wide_number(l, 1.5707963267948966), from, "");
    Ssa t = LLVMBuildFDiv(b, top, below, "");
    Ssa p = wide_polynomial(l, LLVMBuildFMul(b, t, t, ""), c, COUNT(c));
    return fused(l, p, t, from);
}

static Ssa wide_log(const Lanes *l, Ssa a)
{
    Ssa v = log2_of_any(l, a, wide_log2(l, a));
    return LLVMBuildFMul(l->g->b, v, wide_number(l, 0.69314718055994531), "");
}

static Ssa wide_exp(const Lanes *l, Ssa x)
{
    return wide_exp2(l, LLVMBuildFMul(l->g->b, x, wide_number(l, 1.4426950408889634), ""));
}

/* Below this, odd functions are x but for less than their rounding. */
#define TINY 1e-5

static Ssa math_hyperbolic(const Lanes *l, int op, Ssa x, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    Ssa half = wide_number(l, 0.5), e = LLVMBuildFMul(b, wide_exp(l, a), half, "");
    Ssa other = LLVMBuildFDiv(b, wide_number(l, 0.25), e, "");
    if (op == TE_COSH)
        return LLVMBuildFAdd(b, e, other, "");
    /* Near 0 the powers cancel: x + x³ / 6. */
    Ssa cube = LLVMBuildFMul(b, LLVMBuildFMul(b, a, a, ""), wide_number(l, 1 / 6.0), "");
    Ssa small = fused(l, cube, a, a), v = LLVMBuildFSub(b, e, other, "");
    return with_sign(l, wide_when(l, LLVMRealOLT, a, 0.01, small, v), x);
}

static Ssa math_area(const Lanes *l, int op, Ssa x, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    Ssa one = wide_number(l, 1), square = LLVMBuildFMul(b, x, x, ""), v;
    if (op == TE_ACOSH) {
        Ssa root = wide_call(l, "llvm.sqrt", LLVMBuildFSub(b, square, one, ""));
        v = wide_log(l, LLVMBuildFAdd(b, x, root, ""));
        return wide_when(l, LLVMRealOLT, x, 1, wide_number(l, __builtin_nan("")), v);
    }
    if (op == TE_ASINH) {
        Ssa root = wide_call(l, "llvm.sqrt", LLVMBuildFAdd(b, square, one, ""));
        v = wide_log(l, LLVMBuildFAdd(b, a, root, ""));
    } else {
        Ssa share =
            LLVMBuildFDiv(b, LLVMBuildFAdd(b, one, a, ""), LLVMBuildFSub(b, one, a, ""), "");
        v = LLVMBuildFMul(b, wide_log(l, share), wide_number(l, 0.5), "");
        v = wide_when(l, LLVMRealOGT, a, 1, wide_number(l, __builtin_nan("")), v);
    }
    return with_sign(l, wide_when(l, LLVMRealOLT, a, TINY, a, v), x);
}

static Ssa math_angle(const Lanes *l, int op, Ssa x, Ssa a)
{
    LLVMBuilderRef b = l->g->b;
    Ssa one = wide_number(l, 1);
    if (op == TE_ATAN)
        return with_sign(l, wide_atan(l, a), x);
    Ssa less = LLVMBuildFSub(b, one, op == TE_ACOS ? x : a, "");
    Ssa more = LLVMBuildFAdd(b, one, op == TE_ACOS ? x : a, "");
    if (op == TE_ASIN) {
        Ssa root = wide_call(l, "llvm.sqrt", LLVMBuildFMul(b, less, more, ""));
        return with_sign(l, wide_atan(l, LLVMBuildFDiv(b, a, root, "")), x);
    }
    Ssa v = wide_atan(l, wide_call(l, "llvm.sqrt", LLVMBuildFDiv(b, less, more, "")));
    return LLVMBuildFAdd(b, v, v, "");
}

typedef Ssa Wide(const Lanes *l, int op, Ssa x, Ssa a);

static Ssa math_wide(const Lanes *l, int op, Ssa x, Wide *f)
{
    Ssa w = l->n > 1 ? wide(l, x) : NULL;
    return w ? narrow(l, f(l, op, w, wide_call(l, "llvm.fabs", w))) : NULL;
}

/* |x|^y, and what the C library says of signs, zeros and infinities. */
Ssa lanes_power(const Lanes *l, Ssa x, Ssa y)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    if (l->n == 1)
        return NULL;
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1), w = wide(l, size);
    Ssa v = LLVMBuildFMul(b, log2_of_any(l, w, wide_log2(l, w)), wide(l, y), "");
    v = narrow(l, wide_exp2(l, v));
    Ssa half = LLVMBuildFMul(b, y, number(l, 0.5), "");
    Ssa whole = LLVMBuildFCmp(b, LLVMRealOEQ, y, gen_intrinsic(l->g, "llvm.floor", t, &y, 1), "");
    Ssa even =
        LLVMBuildFCmp(b, LLVMRealOEQ, half, gen_intrinsic(l->g, "llvm.floor", t, &half, 1), "");
    Ssa odd = LLVMBuildAnd(b, whole, LLVMBuildNot(b, even, ""), "");
    Ssa signs[2] = {v, x};
    v = LLVMBuildSelect(b, odd, gen_intrinsic(l->g, "llvm.copysign", t, signs, 2), v, "");
    /* Of a number below 0 there is a power only with a whole exponent. */
    Ssa below = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOLT, x, number(l, 0), ""),
                             LLVMBuildFCmp(b, LLVMRealOGT, x, number(l, -__builtin_inf()), ""), "");
    v = LLVMBuildSelect(b, LLVMBuildAnd(b, below, LLVMBuildNot(b, whole, ""), ""),
                        number(l, __builtin_nan("")), v, "");
    /* 1 whatever the other is, and -1 with an infinite exponent. */
    Ssa sizes = gen_intrinsic(l->g, "llvm.fabs", t, &y, 1);
    Ssa minus =
        LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOEQ, size, number(l, 1), ""),
                     LLVMBuildFCmp(b, LLVMRealOEQ, sizes, number(l, __builtin_inf()), ""), "");
    v = LLVMBuildSelect(b, minus, number(l, 1), v, "");
    v = when(l, LLVMRealOEQ, x, 1, number(l, 1), v);
    return when(l, LLVMRealOEQ, y, 0, number(l, 1), v);
}

Ssa lanes_math(const Lanes *l, int op, Ssa x)
{
    switch (op) {
    case TE_EXP: return math_exp(l, x);
    case TE_TANH: return math_tanh(l, x);
    case TE_LOG: return math_log(l, x);
    case TE_ERF: return math_erf(l, x);
    case TE_SIN:
    case TE_COS:
    case TE_TAN: return l->n > 1 ? math_circular(l, op, x) : NULL;
    case TE_ASIN:
    case TE_ACOS:
    case TE_ATAN: return math_wide(l, op, x, math_angle);
    case TE_SINH:
    case TE_COSH: return math_wide(l, op, x, math_hyperbolic);
    case TE_ASINH:
    case TE_ACOSH:
    case TE_ATANH: return math_wide(l, op, x, math_area);
    case TE_LOG2: return l->n > 1 ? math_log_to(l, x, 1) : NULL;
    case TE_LOG10: return l->n > 1 ? math_log_to(l, x, 0.30102999566398120) : NULL;
    default: return NULL;
    }
}
