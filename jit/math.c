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

/* x P(x²) / Q(x²). */
static Ssa math_erf(const Lanes *l, Ssa x)
{
    static const double p[] = {1.12837911,    0.190777972,    0.052789513,
                               0.00377935707, 0.000284802751, 2.04201433e-06};
    static const double q[] = {1.0,          0.502405286,   0.114255108,
                               0.0149969356, 0.00116515113, 3.80042184e-05};
    LLVMBuilderRef b = l->g->b;
    x = clamped(l, x, -3.93, 3.93);
    Ssa t = LLVMBuildFMul(b, x, x, "");
    Ssa top = LLVMBuildFMul(b, x, polynomial(l, t, p, COUNT(p)), "");
    return LLVMBuildFDiv(b, top, polynomial(l, t, q, COUNT(q)), "");
}

Ssa lanes_math(const Lanes *l, int op, Ssa x)
{
    switch (op) {
    case TE_EXP: return math_exp(l, x);
    case TE_TANH: return math_tanh(l, x);
    case TE_LOG: return math_log(l, x);
    case TE_ERF: return math_erf(l, x);
    default: return NULL;
    }
}
