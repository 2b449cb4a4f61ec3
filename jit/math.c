/* Elementary functions of float32 as straight-line code over scalars and vectors: no branch, no call, no table.
 *
 * Coefficients are minimax fits; errors are a few units in the last place. Infinities, NaN and zeros of both signs come out as the C
 * library has them: comparisons are written so that a NaN passes through. */
#include "te/te.h"
#include "jit/math.h"

/* Single values are the C library's, where there is one. */
static bool is_inline(const Lanes *l)
{
    return l->n > 1 || l->g->device;
}

static Ssa number(const Lanes *l, double v)
{
    return lanes_float(l, l->g->f32, v);
}

static Ssa integer(const Lanes *l, int64_t v)
{
    return lanes_int(l, l->g->i32, v);
}

Ssa lanes_fused(const Lanes *l, Ssa x, Ssa y, Ssa z)
{
    if (!gen_has(l->g, "fma"))
        return LLVMBuildFAdd(l->g->b, LLVMBuildFMul(l->g->b, x, y, ""), z, "");
    Ssa args[3] = {x, y, z};
    return gen_intrinsic(l->g, "llvm.fma", LLVMTypeOf(x), args, 3);
}

static Ssa fused(const Lanes *l, Ssa x, Ssa y, Ssa z)
{
    return lanes_fused(l, x, y, z);
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

/* ---- by tables of sixteen ------------------------------------------------------------------------------------------------------- */

/* Whether a lane of sixteen can be had by its number in one instruction. */
static bool has_tables(const Lanes *l)
{
    return l->n == 16 && gen_has(l->g, "avx512f");
}

/* What stands at each lane's number, which is the last four bits. */
static Ssa chosen(const Lanes *l, Ssa number, const float *row)
{
    Ssa c[16];
    for (int k = 0; k < 16; k++)
        c[k] = LLVMConstReal(l->g->f32, (double)row[k]);
    Ssa args[2] = {LLVMConstVector(c, 16), number};
    return gen_intrinsic(l->g, "llvm.x86.avx512.permvar.sf.512", NULL, args, 2);
}

/* What an operation of AVX-512 with a mask gives in all of sixteen floats or eight doubles, rounded as everything is. `between`: what stands in
 * front of the lanes that others would keep, or NULL. */
static Ssa unmasked(const Lanes *l, const char *name, Ssa x, Ssa between)
{
    Ssa args[5] = {x}, *at = args + 1;
    if (between)
        *at++ = between;
    *at++ = LLVMConstNull(LLVMTypeOf(x));
    *at++ = LLVMConstAllOnes(l->n == 16 ? l->g->i16 : l->g->i8);
    *at++ = gen_int(l->g->i32, 4);
    return gen_intrinsic(l->g, name, NULL, args, (unsigned)(at - args));
}

/* e^x = 2^m e^r, where m is a number of sixteenths: 2^m is a power of two, and one of sixteen numbers. */
static Ssa exp_by_table(const Lanes *l, Ssa x)
{
    static const float sixteenths[16] = {1.0f,        1.04427373f, 1.09050775f, 1.13878858f,
                                         1.18920708f, 1.24185777f, 1.29683959f, 1.35425556f,
                                         1.41421354f, 1.47682619f, 1.54221082f, 1.61049032f,
                                         1.68179286f, 1.75625217f, 1.8340081f,  1.91520655f};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    x = when(l, LLVMRealOGT, x, 89, number(l, 89), x);
    /* What is far below 0, as the mask of a softmax is, is left out: processors stop at what is not exactly nothing. */
    Ssa any = LLVMBuildFCmp(b, LLVMRealUGE, x, number(l, -104), "");
    any = LLVMBuildBitCast(b, any, l->g->i16, "");
    /* At 1.5 * 2^19 the last bits are sixteenths. */
    Ssa at = fused(l, x, number(l, 1.44269504088896341), number(l, 786432));
    Ssa m = LLVMBuildFSub(b, at, number(l, 786432), "");
    Ssa r = fused(l, m, number(l, -0.693359375), x);
    r = fused(l, m, number(l, 2.12194440e-4), r);
    Ssa p = fused(l, r, number(l, 0.16667031), number(l, 0.50001619));
    p = fused(l, LLVMBuildFMul(b, r, r, ""), p, r);
    Ssa power = chosen(l, as_int(l, at), sixteenths);
    p = fused(l, power, p, power);
    Ssa args[5] = {p, m, LLVMConstNull(t), any, gen_int(l->g->i32, 4)};
    return gen_intrinsic(l->g, "llvm.x86.avx512.mask.scalef.ps.512", NULL, args, 5);
}

/* e^x = 2^n e^r; 2^n in two factors, so that subnormal results are rounded once. From 2^-253 on a factor is 0, at which no processor stops. */
static Ssa math_exp(const Lanes *l, Ssa x)
{
    static const double c[] = {0.49999994, 0.166665211, 0.041668389, 0.00836871658, 0.00138145988};
    LLVMBuilderRef b = l->g->b;
    if (has_tables(l))
        return exp_by_table(l, x);
    x = clamped(l, x, -176.0, 89.0);
    Ssa scaled = LLVMBuildFMul(b, x, number(l, 1.44269504088896341), "");
    Ssa n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(x), &scaled, 1);
    Ssa r = fused(l, n, number(l, -0.693359375), x);
    r = fused(l, n, number(l, 2.12194440e-4), r);
    Ssa p = fused(l, LLVMBuildFMul(b, r, r, ""), polynomial(l, r, c, COUNT(c)), r);
    p = LLVMBuildFAdd(b, p, number(l, 1), "");
    /* The conversion of a NaN is no number; freezing makes it one, which the product drops. */
    Ssa i = LLVMBuildFreeze(b, LLVMBuildFPToSI(b, n, lanes_type(l, l->g->i32), ""), "");
    Ssa half = LLVMBuildAShr(b, i, integer(l, 1), "");
    Ssa rest = LLVMBuildSub(b, i, half, "");
    p = LLVMBuildFMul(b, p, power_of_two(l, half), "");
    return LLVMBuildFMul(b, p, power_of_two(l, rest), "");
}

/* Each lane's polynomial of `at`, whose coefficients from the constant one on are rows. */
static Ssa chosen_polynomial(const Lanes *l, Ssa number, Ssa at, const float (*rows)[16], int n)
{
    Ssa r = chosen(l, number, rows[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        r = fused(l, r, at, chosen(l, number, rows[i]));
    return r;
}

/* Around the middles of two parts of each octave from 0.25 on, and around 0. */
static Ssa tanh_by_table(const Lanes *l, Ssa x)
{
    static const float middles[16] = {2.5f, 3.5f, 5.0f,    7.0f,    8.5f,   0.0f,   0.0f,  0.0f,
                                      0.0f, 0.0f, 0.3125f, 0.4375f, 0.625f, 0.875f, 1.25f, 1.75f};
    static const float rows[7][16] = {
        {0.986614287f, 0.998177886f, 0.999909222f, 0.999998331f, 0.99999994f, 0.0f, 0.0f, 0.0f,
         0.0f, 0.0f, 0.302709728f, 0.411570042f, 0.554599702f, 0.703905582f, 0.848283648f,
         0.941375554f},
        {0.026592331f, 0.00364095601f, 0.000181861295f, 3.3312424e-06f, 1.71144677e-07f, 0.0f, 0.0f,
         0.0f, 1.0f, 1.0f, 0.908366799f, 0.830610096f, 0.692419171f, 0.5045169f, 0.28041476f,
         0.113812044f},
        {-0.0262360126f, -0.00363430614f, -0.000181812909f, -3.33067919e-06f, -1.48968113e-07f,
         0.0f, 0.0f, 0.0f, -1.09730206e-06f, -1.09730206e-06f, -0.274971485f, -0.341854244f,
         -0.384015501f, -0.355132312f, -0.237871334f, -0.107139826f},
        {0.0170174874f, 0.0024117264f, 0.00011882175f, 2.17677939e-06f, 1.32444171e-07f, 0.0f, 0.0f,
         0.0f, -0.333270192f, -0.333270192f, -0.219552398f, -0.136173368f, -0.0178378187f,
         0.0818049386f, 0.108326115f, 0.062928237f},
        {-0.0080521144f, -0.00119726651f, -5.94768535e-05f, -1.08987581e-06f, -4.41032633e-08f,
         0.0f, 0.0f, 0.0f, -0.00118371705f, -0.00118371705f, 0.158117235f, 0.169996306f,
         0.137903139f, 0.0607982613f, -0.0125859855f, -0.0235257f},
        {0.00288727414f, 0.000490373641f, 2.84818434e-05f, 5.22859068e-07f, 2.30495161e-08f, 0.0f,
         0.0f, 0.0f, 0.143084243f, 0.143084243f, 0.0455062799f, -0.0059618447f, -0.0543359369f,
         -0.0585476309f, -0.0196906738f, 0.00348227727f},
        {-0.000695584808f, -0.000157809613f, -9.4187335e-06f, -1.73283041e-07f, -7.52085683e-09f,
         0.0f, 0.0f, 0.0f, -0.0369769931f, -0.0369769931f, -0.0723633766f, -0.0616956837f,
         -0.0243664198f, 0.0128528886f, 0.0151049821f, 0.00210907706f},
    };
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1);
    a = when(l, LLVMRealOGT, a, 9.02, number(l, 9.02), a);
    /* The exponent and the first bit behind it. */
    Ssa part = as_int(l, when(l, LLVMRealOLT, a, 0.125, number(l, 0.125), a));
    part = LLVMBuildLShr(l->g->b, part, integer(l, 22), "");
    Ssa near = LLVMBuildFSub(l->g->b, a, chosen(l, part, middles), "");
    Ssa parts[2] = {chosen_polynomial(l, part, near, rows, COUNT(rows)), x};
    return gen_intrinsic(l->g, "llvm.copysign", t, parts, 2);
}

static Ssa math_tanh(const Lanes *l, Ssa x)
{
    static const double c[] = {-0.333332986, 0.133319244, -0.0537838303, 0.020795973,
                               -0.00589515874};
    if (has_tables(l))
        return tanh_by_table(l, x);
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

/* x = m 2^k with m from 3/4 to 3/2. The four bits behind its point name a part of that: what stands there brings m near 1, and its logarithm is
 * all but a float. Around 1 that is 1 itself. Of 0, infinity and NaN the exponent is what the logarithm is. At most 1.2 units in the last place. */
static Ssa log_by_table(const Lanes *l, Ssa x)
{
    static const float inverse[16] = {1,
                                      0.913425744f,
                                      0.86409837f,
                                      0.821119666f,
                                      0.781135321f,
                                      0.744657218f,
                                      0.710069656f,
                                      0.680412114f,
                                      1.30795872f,
                                      1.25516284f,
                                      1.20658553f,
                                      1.16188884f,
                                      1.12070227f,
                                      1.08585131f,
                                      1.04751098f,
                                      1};
    static const float logs[16] = {0,
                                   0.0905531943f,
                                   0.146068662f,
                                   0.197086424f,
                                   0.247006878f,
                                   0.294831276f,
                                   0.342392206f,
                                   0.385056615f,
                                   -0.268467695f,
                                   -0.227265313f,
                                   -0.187794492f,
                                   -0.150046989f,
                                   -0.113955513f,
                                   -0.0823642984f,
                                   -0.0464168563f,
                                   0};
    static const double c[] = {-0.500000009528, 0.333344469195, -0.250066688892, 0.188552117626};
    LLVMBuilderRef b = l->g->b;
    Ssa k = unmasked(l, "llvm.x86.avx512.mask.getexp.ps.512", x, NULL);
    Ssa m = unmasked(l, "llvm.x86.avx512.mask.getmant.ps.512", x, gen_int(l->g->i32, 3));
    k = LLVMBuildFAdd(b, k, when(l, LLVMRealOLT, m, 1, number(l, 1), number(l, 0)), "");
    Ssa part = LLVMBuildLShr(b, as_int(l, m), integer(l, 19), "");
    Ssa z = fused(l, m, chosen(l, part, inverse), number(l, -1));
    Ssa r = fused(l, LLVMBuildFMul(b, z, z, ""), polynomial(l, z, c, COUNT(c)), z);
    Ssa large = fused(l, k, number(l, 0.693145751953125), chosen(l, part, logs));
    r = LLVMBuildFAdd(b, large, fused(l, k, number(l, 1.42860682e-6), r), "");
    return when(l, LLVMRealOLT, x, 0, number(l, __builtin_nan("")), r);
}

/* x = m 2^k with m near 1; log x = k ln 2 + log m. */
static Ssa math_log(const Lanes *l, Ssa x)
{
    static const double c[] = {0.333332151, -0.249997973, 0.200104058, -0.16680488,
                               0.140058681, -0.121842623, 0.139844403, -0.128916785};
    LLVMBuilderRef b = l->g->b;
    if (has_tables(l))
        return log_by_table(l, x);
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

/* Around the quarters from 0 to 3.75, and that of what lies beyond. */
static Ssa erf_by_table(const Lanes *l, Ssa x)
{
    static const float rows[6][16] = {
        {0.0f, 0.276326386f, 0.520499872f, 0.71115563f, 0.842700793f, 0.922900131f, 0.966105149f,
         0.986671672f, 0.995322265f, 0.998537283f, 0.999593048f, 0.999899378f, 0.999977909f,
         0.999995697f, 0.999999257f, 0.999999888f},
        {0.128379167f, 1.06001422f, 0.878782634f, 0.642931097f, 0.415107507f, 0.236521122f,
         0.118930284f, 0.0527749913f, 0.0206669831f, 0.00714231855f, 0.00217828462f,
         0.000586277708f, 0.000139253332f, 2.91891476e-05f, 5.39946877e-06f, 9.29158509e-07f},
        {2.25321617e-07f, -0.264998112f, -0.439384472f, -0.482194627f, -0.415108107f, -0.295654311f,
         -0.178398081f, -0.0923574756f, -0.0413340353f, -0.0160698225f, -0.00544532722f,
         -0.00161203457f, -0.000417657369f, -9.48278763e-05f, -1.88872048e-05f, -2.73047081e-06f},
        {-0.376139568f, -0.309191193f, -0.146478389f, 0.0267797265f, 0.138365183f, 0.167535571f,
         0.138753732f, 0.0901591081f, 0.0482239136f, 0.0217247477f, 0.00834993348f, 0.00276020188f,
         0.000788987269f, 0.000195760207f, 4.22785061e-05f, 1.10137569e-05f},
        {0.000258204529f, 0.126042274f, 0.181912523f, 0.150058648f, 0.0692901337f, -0.00566246596f,
         -0.0441468781f, -0.0478918649f, -0.0344337809f, -0.0191510115f, -0.00868784761f,
         -0.00329699249f, -0.00106175212f, -0.000292780266f, -6.95544715e-05f, -8.17184147e-06f},
        {0.111086862f, 0.0808317167f, 0.00815973278f, -0.0524770256f, -0.0687321514f,
         -0.0471098891f, -0.0150321354f, 0.00643182516f, 0.0129848547f, 0.0106366497f,
         0.00613417359f, 0.00277595438f, 0.00102876252f, 0.000319127372f, 8.39455156e-05f,
         1.91614385e-05f},
    };
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1);
    a = when(l, LLVMRealOGT, a, 3.87, number(l, 3.87), a);
    /* At 1.5 * 2^21 the last bits are quarters. */
    Ssa quarters = LLVMBuildFAdd(b, a, number(l, 3145728), "");
    Ssa middle = LLVMBuildFSub(b, quarters, number(l, 3145728), "");
    Ssa near = LLVMBuildFSub(b, a, middle, "");
    Ssa part = as_int(l, quarters), p = chosen_polynomial(l, part, near, rows + 1, COUNT(rows) - 1);
    /* Around 0 it is x + x P(x). */
    Ssa constant = when(l, LLVMRealOLE, a, 0.125, near, chosen(l, part, rows[0]));
    Ssa parts[2] = {fused(l, p, near, constant), x};
    return gen_intrinsic(l->g, "llvm.copysign", t, parts, 2);
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
    if (has_tables(l))
        return erf_by_table(l, x);
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

/* asin and acos: an odd polynomial near 0; farther out twice that of the half angle, taken from 90 degrees. The border lies where the half
 * angle is below 1/2, so that doubling its error stays within two units of the result. */
static Ssa math_arc(const Lanes *l, int op, Ssa x)
{
    static const double c[] = {0.166666408949,  0.0750159772775,  0.0443158605686,
                               0.0334082658411, 0.00869146890935, 0.0451581174656};
    static const double quarter = 1.57079637050628662, rest = -4.37113883e-8;
    if (!is_inline(l))
        return NULL;
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", t, &x, 1), half = number(l, 0.5), two = number(l, 2);
    Ssa far = LLVMBuildFCmp(b, LLVMRealOGT, a, number(l, 0.55), "");
    Ssa z = fused(l, LLVMBuildFNeg(b, a, ""), half, half);
    Ssa root = gen_intrinsic(l->g, "llvm.sqrt", t, &z, 1);
    z = LLVMBuildSelect(b, far, z, LLVMBuildFMul(b, a, a, ""), "");
    Ssa s = LLVMBuildSelect(b, far, root, a, "");
    Ssa r = fused(l, LLVMBuildFMul(b, s, z, ""), polynomial(l, z, c, COUNT(c)), s);
    Ssa twice = LLVMBuildFMul(b, r, two, "");
    if (op == TE_ASIN) {
        Ssa v = LLVMBuildFSub(b, number(l, quarter), twice, "");
        v = LLVMBuildFAdd(b, v, number(l, rest), "");
        return with_sign(l, LLVMBuildSelect(b, far, v, r, ""), x);
    }
    Ssa off = LLVMBuildFSub(b, with_sign(l, r, x), number(l, rest), "");
    Ssa near = LLVMBuildFSub(b, number(l, quarter), off, "");
    off = LLVMBuildFSub(b, r, number(l, rest), "");
    Ssa below = LLVMBuildFMul(b, LLVMBuildFSub(b, number(l, quarter), off, ""), two, "");
    return LLVMBuildSelect(b, far, when(l, LLVMRealOLT, x, 0, below, twice), near, "");
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

Ssa wide_number(const Lanes *l, double v)
{
    return lanes_float(l, l->g->f64, v);
}

Ssa wide_polynomial(const Lanes *l, Ssa x, const double *c, int n)
{
    Ssa r = wide_number(l, c[n - 1]);
    for (int i = n - 2; i >= 0; i--)
        r = fused(l, r, x, wide_number(l, c[i]));
    return r;
}

Far far_begin(const Lanes *l, Ssa far, Ssa near)
{
    Gen *g = l->g;
    Ssa fn = LLVMGetBasicBlockParent(LLVMGetInsertBlock(g->b));
    LLVMBasicBlockRef apart = gen_block(g, fn, "far");
    Far f = {.go = gen_block(g, fn, "go"), .from = {LLVMGetInsertBlock(g->b)}, .values = {near}};
    gen_branch(g, lanes_any(l, far), apart, f.go, false);
    LLVMPositionBuilderAtEnd(g->b, apart);
    return f;
}

Ssa far_end(const Lanes *l, Far *f, Ssa v)
{
    Gen *g = l->g;
    f->values[1] = v;
    f->from[1] = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, f->go);
    return gen_either(g, f->go, f->values, f->from);
}

Ssa unless_far(const Lanes *l, DType t, Ssa far, Ssa near, const char *name, Ssa *args, unsigned n)
{
    Far f = far_begin(l, far, near);
    return far_end(l, &f, lanes_library(l, name, t, args, n));
}

/* Quadrants that are taken off exactly enough: beyond them the rest of the angle is lost. */
#define ANGLE_MOST 1e7

/* Angles of any size, where no library takes those that are far off. The number is m 2^e with m of 24 bits; of 2 / pi the 96 bits are taken
 * of which a multiple by m 2^e says the quadrant and what is left of it. `*n` is the quadrant, `*r` the angle in it. */
static void reduce_far(const Lanes *l, Ssa x, Ssa *n, Ssa *r)
{
    static const uint32_t two_over_pi[] = {0x28be60db, 0x9391054a, 0x7f09d5f4, 0x7d4d3770,
                                           0x36d8a566, 0x4f10e410, 0x7f9458ea, 0xf7aef158};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i32), longs = lanes_type(l, l->g->i64);
    Ssa bits = as_int(l, x), window[4], words[3];
    Ssa m =
        LLVMBuildOr(b, LLVMBuildAnd(b, bits, integer(l, 0x7fffff), ""), integer(l, 0x800000), "");
    Ssa e = LLVMBuildAnd(b, LLVMBuildLShr(b, bits, integer(l, 23), ""), integer(l, 0xff), "");
    e = LLVMBuildSub(b, e, integer(l, 150), "");
    Ssa first = LLVMBuildLShr(b, e, integer(l, 5), "");
    for (int i = 0; i < 4; i++) {
        window[i] = integer(l, two_over_pi[i + 3]);
        for (int k = 2; k >= 0; k--) {
            Ssa is = LLVMBuildICmp(b, LLVMIntEQ, first, integer(l, k), "");
            window[i] = LLVMBuildSelect(b, is, integer(l, two_over_pi[i + k]), window[i], "");
        }
    }
    for (int i = 0; i < 3; i++) {
        Ssa args[3] = {window[i], window[i + 1], LLVMBuildAnd(b, e, integer(l, 31), "")};
        words[i] = LLVMBuildZExt(b, gen_intrinsic(l->g, "llvm.fshl", ints, args, 3), longs, "");
    }
    Ssa by = LLVMBuildZExt(b, m, longs, ""), half = lanes_int(l, l->g->i64, 32);
    Ssa low = LLVMBuildLShr(b, LLVMBuildMul(b, by, words[2], ""), half, "");
    Ssa p = LLVMBuildAdd(b, LLVMBuildMul(b, by, words[1], ""), low, "");
    p = LLVMBuildAdd(b, p, LLVMBuildShl(b, LLVMBuildMul(b, by, words[0], ""), half, ""), "");
    /* Two bits of the quadrant, and then a fraction of it that may be rounded up. */
    Ssa rest = LLVMBuildShl(b, p, lanes_int(l, l->g->i64, 2), "");
    Ssa up = LLVMBuildLShr(b, rest, lanes_int(l, l->g->i64, 63), "");
    *n = LLVMBuildAdd(b, LLVMBuildLShr(b, p, lanes_int(l, l->g->i64, 62), ""), up, "");
    Ssa angle = LLVMBuildSIToFP(b, rest, lanes_type(l, l->g->f64), "");
    *r = LLVMBuildFMul(b, angle, wide_number(l, 1.5707963267948966 / 18446744073709551616.0), "");
    Ssa below = LLVMBuildFCmp(b, LLVMRealOLT, x, number(l, 0), "");
    *n = LLVMBuildSelect(b, below, LLVMBuildNeg(b, *n, ""), *n, "");
    *r = LLVMBuildSelect(b, below, LLVMBuildFNeg(b, *r, ""), *r, "");
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", LLVMTypeOf(x), &x, 1);
    Ssa finite = LLVMBuildFCmp(b, LLVMRealOLT, size, number(l, __builtin_inf()), "");
    *r = LLVMBuildSelect(b, finite, *r, wide_number(l, __builtin_nan("")), "");
}

/* x = n pi / 2 + r; by the quadrant n, plus `turn`, sin r or cos r with a sign. Tangents are both. */
static Ssa wide_circular(const Lanes *l, int op, Ssa x)
{
    static const double s[] = {1, -1 / 6.0, 1 / 120.0, -1 / 5040.0, 1 / 362880.0, -1 / 39916800.0};
    static const double c[] = {1,           -1 / 2.0,       1 / 24.0,       -1 / 720.0,
                               1 / 40320.0, -1 / 3628800.0, 1 / 479001600.0};
    static const DType f32 = {DTYPE_CODE_FLOAT, 32, 1};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    Ssa w = wide(l, x), n = LLVMBuildFMul(b, w, wide_number(l, 0.63661977236758134), "");
    n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(w), &n, 1);
    Ssa r = fused(l, n, wide_number(l, -1.5707963267948966), w);
    r = fused(l, n, wide_number(l, -6.123233995736766e-17), r);
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", LLVMTypeOf(x), &x, 1);
    Ssa far = LLVMBuildFCmp(b, LLVMRealUGT, size, number(l, ANGLE_MOST), "");
    /* The last bits of n, without a conversion: 1.5 * 2^52 puts them at the end of the number. */
    Ssa q =
        LLVMBuildBitCast(b, LLVMBuildFAdd(b, n, wide_number(l, 6755399441055744.0), ""), ints, "");
    if (l->g->device) {
        Ssa far_q, far_r;
        reduce_far(l, x, &far_q, &far_r);
        q = LLVMBuildSelect(b, far, far_q, q, "");
        r = LLVMBuildSelect(b, far, far_r, r, "");
    }
    Ssa square = LLVMBuildFMul(b, r, r, "");
    Ssa sine = LLVMBuildFMul(b, wide_polynomial(l, square, s, COUNT(s)), r, "");
    Ssa cosine = wide_polynomial(l, square, c, COUNT(c));
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
    if (l->g->device)
        return v;
    return unless_far(l, f32, far, v, op == TE_SIN ? "sin" : op == TE_COS ? "cos" : "tan", &x, 1);
}

/* Angles up to which turns are taken off in floats. */
#define TURNS_MOST 1e5

static Ssa unless_turned_far(const Lanes *l, int op, Ssa x, Ssa near)
{
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", LLVMTypeOf(x), &x, 1);
    Ssa far = LLVMBuildFCmp(l->g->b, LLVMRealUGT, size, number(l, TURNS_MOST), "");
    Far f = far_begin(l, far, near);
    return far_end(l, &f, wide_circular(l, op, x));
}

/* sin and cos: x = n pi + r, with n a half more than a whole number for cos; sin r with the sign of n's last bit. Half a turn is three
 * floats: n times the first leaves a float exactly, as it is added before it is rounded. At most 1.9 units in the last place. */
static Ssa math_wave(const Lanes *l, int op, Ssa x)
{
    static const double turn[] = {-3.1415927410125732, 8.742277657347586e-8,
                                  3.4302490200117637e-15};
    static const double c[] = {-0.166666595446, 0.00833306608293, -0.000198095901173,
                               2.60575073013e-06};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa half = number(l, op == TE_COS ? 0.5 : 0);
    Ssa n = fused(l, x, number(l, 0.31830988618379067), LLVMBuildFNeg(b, half, ""));
    n = gen_intrinsic(l->g, "llvm.rint", t, &n, 1);
    /* 1.5 * 2^23 puts a whole number at the end of the float. */
    Ssa sign = as_int(l, LLVMBuildFAdd(b, n, number(l, 12582912), ""));
    Ssa r = x;
    n = LLVMBuildFAdd(b, n, half, "");
    for (int i = 0; i < COUNT(turn); i++)
        r = fused(l, n, number(l, turn[i]), r);
    if (op == TE_COS)
        sign = LLVMBuildAdd(b, sign, integer(l, 1), "");
    Ssa square = LLVMBuildFMul(b, r, r, "");
    Ssa v = fused(l, LLVMBuildFMul(b, polynomial(l, square, c, COUNT(c)), square, ""), r, r);
    sign = LLVMBuildShl(b, sign, integer(l, 31), "");
    v = as_float(l, LLVMBuildXor(b, as_int(l, v), sign, ""));
    if (op == TE_SIN) /* a zero keeps its sign */
        v = when(l, LLVMRealOEQ, x, 0, x, v);
    return unless_turned_far(l, op, x, v);
}

/* tan: x = n pi / 2 + r + rest, where `rest` is what r was rounded by, near 0 only what the third float of a quarter turn adds: there the
 * rounding is less than that of the result. tan (r + rest) is a sum, too, so that its inverse, for odd n, is rounded once. At most 1.6
 * units in the last place. */
static Ssa math_tangent(const Lanes *l, Ssa x)
{
    static const double turn[] = {-1.5707963705062866, 4.371138828673793e-08,
                                  1.7151245100058819e-15};
    static const double c[] = {0.333331565711,  0.133388069213,   0.0534106462823,
                               0.0244324401794, 0.00311616554158, 0.00938765807926};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    Ssa n = LLVMBuildFMul(b, x, number(l, 0.63661977236758134), "");
    n = gen_intrinsic(l->g, "llvm.rint", t, &n, 1);
    Ssa first = fused(l, n, number(l, turn[0]), x), r = fused(l, n, number(l, turn[1]), first);
    Ssa rest = fused(l, n, number(l, turn[1]), LLVMBuildFSub(b, first, r, ""));
    Ssa size = gen_intrinsic(l->g, "llvm.fabs", t, &r, 1);
    rest = when(l, LLVMRealOGT, size, 0.00390625, rest, number(l, 0));
    rest = fused(l, n, number(l, turn[2]), rest);
    Ssa square = LLVMBuildFMul(b, r, r, "");
    Ssa more = LLVMBuildFMul(b, polynomial(l, square, c, COUNT(c)), square, "");
    more = fused(l, more, r, fused(l, rest, square, rest));
    Ssa v = LLVMBuildFAdd(b, r, more, "");
    more = LLVMBuildFSub(b, more, LLVMBuildFSub(b, v, r, ""), "");
    Ssa inverse = LLVMBuildFDiv(b, number(l, -1), v, "");
    Ssa off = fused(l, inverse, more, fused(l, inverse, v, number(l, 1)));
    inverse = fused(l, inverse, off, inverse);
    /* 1.5 * 2^23 puts a whole number at the end of the float. */
    Ssa odd = as_int(l, LLVMBuildFAdd(b, n, number(l, 12582912), ""));
    odd = LLVMBuildTrunc(b, odd, lanes_type(l, l->g->i1), "");
    v = when(l, LLVMRealOEQ, x, 0, x, LLVMBuildSelect(b, odd, inverse, v, ""));
    return unless_turned_far(l, TE_TAN, x, v);
}

static Ssa math_circular(const Lanes *l, int op, Ssa x)
{
    if (!gen_has(l->g, "fma") || l->g->device)
        return wide_circular(l, op, x);
    return op == TE_TAN ? math_tangent(l, x) : math_wave(l, op, x);
}

/* The angle of a number up to 1, and of greater ones what that of their inverse leaves of 90 degrees. */
static Ssa math_atan(const Lanes *l, Ssa x)
{
    static const double c[] = {-0.333331527358,  0.199937728292,  -0.142110552704,
                               0.106660045179,   -0.075522140476, 0.0432118581925,
                               -0.0163679264843, 0.00292069187089};
    if (!is_inline(l))
        return NULL;
    LLVMBuilderRef b = l->g->b;
    Ssa a = gen_intrinsic(l->g, "llvm.fabs", LLVMTypeOf(x), &x, 1);
    Ssa far = LLVMBuildFCmp(b, LLVMRealOGT, a, number(l, 1), "");
    Ssa inverse = LLVMBuildFDiv(b, number(l, -1), a, "");
    Ssa t = LLVMBuildSelect(b, far, inverse, a, ""), square = LLVMBuildFMul(b, t, t, "");
    Ssa p = LLVMBuildFMul(b, polynomial(l, square, c, COUNT(c)), square, "");
    Ssa v = fused(l, p, t, t);
    Ssa rest = LLVMBuildFAdd(b, v, number(l, -4.371138828673793e-08), "");
    rest = LLVMBuildFAdd(b, rest, number(l, 1.5707963705062866), "");
    return with_sign(l, LLVMBuildSelect(b, far, rest, v, ""), x);
}

/* ---- by tables of sixteen doubles: eight lanes at a time ------------------------------------------------------------------------ */

typedef Ssa WideFunction(const Lanes *l, Ssa x);

/* Sixteen doubles are two vectors. */
static Ssa by_halves(const Lanes *l, WideFunction *f, Ssa x)
{
    LLVMValueRef lane[16];
    for (int k = 0; k < 16; k++)
        lane[k] = gen_int(l->g->i32, k);
    Lanes half = *l;
    half.n = 8;
    Ssa none = LLVMGetUndef(LLVMTypeOf(x)), parts[2];
    for (int k = 0; k < 2; k++)
        parts[k] = f(
            &half, LLVMBuildShuffleVector(l->g->b, x, none, LLVMConstVector(lane + 8 * k, 8), ""));
    return LLVMBuildShuffleVector(l->g->b, parts[0], parts[1], LLVMConstVector(lane, 16), "");
}

static Ssa row_of_eight(const Lanes *l, const double *row)
{
    Ssa c[8];
    for (int k = 0; k < 8; k++)
        c[k] = LLVMConstReal(l->g->f64, row[k]);
    return LLVMConstVector(c, 8);
}

/* What stands at the number in the last four bits. */
static Ssa chosen_of_sixteen(const Lanes *l, Ssa number, const double *row)
{
    Ssa args[3] = {row_of_eight(l, row), number, row_of_eight(l, row + 8)};
    return gen_intrinsic(l->g, "llvm.x86.avx512.vpermi2var.pd.512", NULL, args, 3);
}

/* x = 2^k m with m from 3/4 to 3/2, of which the first four bits behind the point name a sixteenth of an octave below 3/2 or above 3/4: by what
 * stands there m is near 1. Around 1 itself that is 1, so that the logarithm there loses nothing. Of 0, infinity and NaN the exponent is what
 * the logarithm is. Relative error 5e-11. */
static Ssa log2_by_table(const Lanes *l, Ssa x)
{
    static const double inverse[16] = {1,
                                       0.9142856597900391,
                                       0.8648653030395508,
                                       0.8205127716064453,
                                       0.7804880142211914,
                                       0.7441864013671875,
                                       0.7111110687255859,
                                       0.6808509826660156,
                                       1.3061227798461914,
                                       1.2549018859863281,
                                       1.2075471878051758,
                                       1.1636362075805664,
                                       1.1228065490722656,
                                       1.0847454071044922,
                                       1.049180030822754,
                                       1};
    /* Of the upper half one more: the exponent there is one less. */
    static const double logs[16] = {0,
                                    0.12928310293629444,
                                    0.20945263470286876,
                                    0.2854023048535763,
                                    0.35755161765717114,
                                    0.4262640667716585,
                                    0.4918531823210027,
                                    0.5545890236602985,
                                    1 - 0.38529052134787856,
                                    1 - 0.32757457203717644,
                                    1 - 0.27207956693463203,
                                    1 - 0.21864009299484521,
                                    1 - 0.16710938389585472,
                                    1 - 0.11735647768579134,
                                    1 - 0.06926225397826011,
                                    1};
    static const double c[] = {1.44269504086297023,   -0.721347512731901329, 0.480898556142470412,
                               -0.360698607584657137, 0.288504944532761394,  -0.222729798049986925};
    LLVMBuilderRef b = l->g->b;
    Ssa k = unmasked(l, "llvm.x86.avx512.mask.getexp.pd.512", x, NULL);
    Ssa m = unmasked(l, "llvm.x86.avx512.mask.getmant.pd.512", x, gen_int(l->g->i32, 3));
    Ssa part = LLVMBuildBitCast(b, m, lanes_type(l, l->g->i64), "");
    part = LLVMBuildLShr(b, part, lanes_int(l, l->g->i64, 48), "");
    Ssa z = fused(l, m, chosen_of_sixteen(l, part, inverse), wide_number(l, -1));
    k = LLVMBuildFAdd(b, k, chosen_of_sixteen(l, part, logs), "");
    return fused(l, z, wide_polynomial(l, z, c, COUNT(c)), k);
}

/* 2^t = 2^m 2^r, where m is a number of eighths. Relative error 4e-13. */
static Ssa exp2_by_table(const Lanes *l, Ssa t)
{
    static const double eighths[8] = {1,
                                      1.0905077326652577,
                                      1.189207115002721,
                                      1.2968395546510096,
                                      1.4142135623730951,
                                      1.5422108254079407,
                                      1.681792830507429,
                                      1.8340080864093424};
    static const double c[] = {0.693147180560076145, 0.240226505946535712, 0.055504108415364875,
                               0.00961896689303356574, 0.00133347068367312643};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    /* At 1.5 * 2^49 the last bits are eighths. */
    Ssa magic = wide_number(l, 844424930131968), at = LLVMBuildFAdd(b, t, magic, "");
    Ssa m = LLVMBuildFSub(b, at, magic, ""), r = LLVMBuildFSub(b, t, m, "");
    Ssa args[2] = {row_of_eight(l, eighths), LLVMBuildBitCast(b, at, ints, "")};
    Ssa two = gen_intrinsic(l->g, "llvm.x86.avx512.permvar.df.512", NULL, args, 2);
    Ssa p = LLVMBuildFMul(b, wide_polynomial(l, r, c, COUNT(c)), r, "");
    return unmasked(l, "llvm.x86.avx512.mask.scalef.pd.512", fused(l, p, two, two), m);
}

/* k + log2 m of a positive number m 2^k with m near 1: of a double that is no subnormal one, as all floats are. */
static Ssa wide_log2(const Lanes *l, Ssa w)
{
    static const double c[] = {2.8853900817779268,  0.96179669392597561, 0.57707801635558531,
                               0.41219858311113240, 0.32059889797532520, 0.26230818925253880,
                               0.22195308321368670, 0.19235933878519511};
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef ints = lanes_type(l, l->g->i64);
    if (has_tables(l))
        return by_halves(l, log2_by_table, w);
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

/* Of log2 of a float's size what it is at 0, infinity and NaN, which that by tables has of itself. */
static Ssa log2_of_any(const Lanes *l, Ssa w, Ssa near)
{
    if (has_tables(l))
        return near;
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
    if (has_tables(l))
        return by_halves(l, exp2_by_table, t);
    Ssa n = gen_intrinsic(l->g, "llvm.rint", LLVMTypeOf(t), &t, 1);
    Ssa p = wide_polynomial(l, LLVMBuildFSub(b, t, n, ""), c, COUNT(c));
    Ssa i = LLVMBuildFreeze(b, LLVMBuildFPToSI(b, n, ints, ""), "");
    i = LLVMBuildShl(b, LLVMBuildAdd(b, i, lanes_int(l, l->g->i64, 1023), ""),
                     lanes_int(l, l->g->i64, 52), "");
    return LLVMBuildFMul(b, p, LLVMBuildBitCast(b, i, LLVMTypeOf(t), ""), "");
}

/* ---- inverse and hyperbolic functions, of doubles that were floats ------------------------------------------------------------ */

Ssa wide_when(const Lanes *l, LLVMRealPredicate p, Ssa x, double than, Ssa then, Ssa otherwise)
{
    Ssa test = LLVMBuildFCmp(l->g->b, p, x, wide_number(l, than), "");
    return LLVMBuildSelect(l->g->b, test, then, otherwise, "");
}

Ssa wide_call(const Lanes *l, const char *name, Ssa x)
{
    return gen_intrinsic(l->g, name, LLVMTypeOf(x), &x, 1);
}

Ssa with_sign(const Lanes *l, Ssa v, Ssa x)
{
    Ssa parts[2] = {v, x};
    return gen_intrinsic(l->g, "llvm.copysign", LLVMTypeOf(v), parts, 2);
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

typedef Ssa Wide(const Lanes *l, int op, Ssa x, Ssa a);

static Ssa math_wide(const Lanes *l, int op, Ssa x, Wide *f)
{
    Ssa w = is_inline(l) ? wide(l, x) : NULL;
    return w ? narrow(l, f(l, op, w, wide_call(l, "llvm.fabs", w))) : NULL;
}

Ssa signed_power(const Lanes *l, Ssa x, Ssa y, Ssa size, Ssa v)
{
    LLVMBuilderRef b = l->g->b;
    LLVMTypeRef t = LLVMTypeOf(x);
    LLVMTypeRef element = LLVMGetTypeKind(t) == LLVMVectorTypeKind ? LLVMGetElementType(t) : t;
    Ssa zero = lanes_float(l, element, 0), one = lanes_float(l, element, 1);
    Ssa infinity = lanes_float(l, element, __builtin_inf());
    Ssa half = LLVMBuildFMul(b, y, lanes_float(l, element, 0.5), "");
    Ssa whole = LLVMBuildFCmp(b, LLVMRealOEQ, y, wide_call(l, "llvm.floor", y), "");
    Ssa even = LLVMBuildFCmp(b, LLVMRealOEQ, half, wide_call(l, "llvm.floor", half), "");
    Ssa odd = LLVMBuildAnd(b, whole, LLVMBuildNot(b, even, ""), "");
    v = LLVMBuildSelect(b, odd, with_sign(l, v, x), v, "");
    /* Of a number below 0 there is a power only with a whole exponent. */
    Ssa below =
        LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOLT, x, zero, ""),
                     LLVMBuildFCmp(b, LLVMRealOGT, x, LLVMBuildFNeg(b, infinity, ""), ""), "");
    v = LLVMBuildSelect(b, LLVMBuildAnd(b, below, LLVMBuildNot(b, whole, ""), ""),
                        lanes_float(l, element, __builtin_nan("")), v, "");
    /* 1 whatever the other is, and -1 with an infinite exponent. */
    Ssa endless = LLVMBuildFCmp(b, LLVMRealOEQ, wide_call(l, "llvm.fabs", y), infinity, "");
    Ssa minus = LLVMBuildAnd(b, LLVMBuildFCmp(b, LLVMRealOEQ, size, one, ""), endless, "");
    v = LLVMBuildSelect(b, minus, one, v, "");
    v = LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOEQ, x, one, ""), one, v, "");
    return LLVMBuildSelect(b, LLVMBuildFCmp(b, LLVMRealOEQ, y, zero, ""), one, v, "");
}

Ssa lanes_power(const Lanes *l, DType t, Ssa x, Ssa y)
{
    if (t.bits == 64)
        return double_power(l, x, y);
    if (!is_inline(l))
        return NULL;
    LLVMBuilderRef b = l->g->b;
    Ssa size = wide_call(l, "llvm.fabs", x), w = wide(l, size), log = wide_log2(l, w);
    Ssa infinity = number(l, __builtin_inf()), near = NULL;
    Far f;
    if (!l->g->device) {
        /* Of positive numbers there is nothing else to look at. */
        near = narrow(l, wide_exp2(l, LLVMBuildFMul(b, log, wide(l, y), "")));
        Ssa usual = LLVMBuildFCmp(b, LLVMRealOGT, x, number(l, 0), "");
        usual = LLVMBuildAnd(b, usual, LLVMBuildFCmp(b, LLVMRealOLT, x, infinity, ""), "");
        Ssa most = wide_call(l, "llvm.fabs", y);
        usual = LLVMBuildAnd(b, usual, LLVMBuildFCmp(b, LLVMRealOLT, most, infinity, ""), "");
        f = far_begin(l, LLVMBuildNot(b, usual, ""), near);
    }
    Ssa v = LLVMBuildFMul(b, log2_of_any(l, w, log), wide(l, y), "");
    v = signed_power(l, x, y, size, narrow(l, wide_exp2(l, v)));
    return near ? far_end(l, &f, v) : v;
}

Ssa lanes_math(const Lanes *l, int op, DType t, Ssa x)
{
    if (t.bits == 64)
        return double_math(l, op, x);
    switch (op) {
    case TE_EXP: return math_exp(l, x);
    case TE_TANH: return math_tanh(l, x);
    case TE_LOG: return math_log(l, x);
    case TE_ERF: return math_erf(l, x);
    case TE_SIN:
    case TE_COS:
    case TE_TAN: return is_inline(l) ? math_circular(l, op, x) : NULL;
    case TE_ASIN:
    case TE_ACOS: return math_arc(l, op, x);
    case TE_ATAN: return math_atan(l, x);
    case TE_SINH:
    case TE_COSH: return math_wide(l, op, x, math_hyperbolic);
    case TE_ASINH:
    case TE_ACOSH:
    case TE_ATANH: return math_wide(l, op, x, math_area);
    case TE_LOG2: return is_inline(l) ? math_log_to(l, x, 1) : NULL;
    case TE_LOG10: return is_inline(l) ? math_log_to(l, x, 0.30102999566398120) : NULL;
    default: return NULL;
    }
}
