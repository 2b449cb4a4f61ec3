/* What instructions do to the 32 lanes of a warp: rows by name, made for each type by macros. A function reads operands and
 * writes into memory of its own; which lanes take the result is the caller's business. */
#include "tests/gpu/standin/standin.h"

#include <fenv.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef uint8_t pred;
typedef uint16_t u16, b16;
typedef uint32_t u32, b32;
typedef uint64_t u64, b64;
typedef int16_t s16;
typedef int32_t s32;
typedef int64_t s64;
typedef float f32;
typedef double f64;
typedef uint16_t f16, bf16;
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

/* ---- floats of 16 bits ---------------------------------------------------------------------------------------------- */

static float float_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static uint32_t bits_of(float f)
{
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float half_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
    if (e == 31)
        return float_of(sign | 0x7f800000 | m << 13);
    if (e)
        return float_of(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

float brain_float(uint16_t h)
{
    return float_of((uint32_t)h << 16);
}

int rounding_set(char round)
{
    int old = fegetround();
    switch (round) {
    case 'z':
    case 'Z': fesetround(FE_TOWARDZERO); break;
    case 'm':
    case 'M': fesetround(FE_DOWNWARD); break;
    case 'p':
    case 'P': fesetround(FE_UPWARD); break;
    default: fesetround(FE_TONEAREST);
    }
    return old;
}

void rounding_reset(int old)
{
    fesetround(old);
}

/* `x` with `bits` bits of mantissa and no exponent below `least`, in the processor's rounding; `away`: ties away from zero. */
static double round_to(double x, int bits, int least, bool away)
{
    if (x == 0 || !isfinite(x))
        return x;
    int e;
    frexp(x, &e);
    int unit = (e < least ? least : e) - bits;
    double scaled = ldexp(x, -unit);
    return ldexp(away ? round(scaled) : nearbyint(scaled), unit);
}

static uint16_t to_half(double x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    if (isnan(x))
        return 0x7fff;
    double r = fabs(round_to(x, 11, -13, false));
    if (isinf(x) || r >= 65536)
        /* Rounding towards zero, or away from this side's infinity, ends at the largest number. */
        return isinf(x) || fegetround() == FE_TONEAREST ||
                       fegetround() == (sign ? FE_DOWNWARD : FE_UPWARD)
                   ? sign | 0x7c00
                   : sign | 0x7bff;
    if (r < 0x1p-14)
        return sign | (uint16_t)(r * 0x1p24);
    uint32_t bits = bits_of((float)r);
    return sign | (uint16_t)((bits >> 13) - (112 << 10));
}

static uint16_t to_brain(double x)
{
    if (isnan(x))
        return 0x7fff;
    double r = round_to(x, 8, -125, false);
    if (isfinite(x) && fabs(r) >= 0x1p128)
        r = fegetround() == FE_TONEAREST || fegetround() == (r < 0 ? FE_DOWNWARD : FE_UPWARD)
                ? r
                : copysign(0x1.fep127, r);
    return (uint16_t)(bits_of((float)r) >> 16);
}

/* a * b + c of numbers whose product is exact, rounded so that rounding once more gives what one rounding would have. */
static double fma_odd(double a, double b, double c)
{
    double p = a * b, s = p + c, v = s - p, lost = (p - (s - v)) + (c - v);
    uint64_t bits;
    memcpy(&bits, &s, sizeof bits);
    if (lost == 0 || !isfinite(s) || bits & 1)
        return s;
    return nextafter(s, lost > 0 ? INFINITY : -INFINITY);
}

static double least_of(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a < b || (a == b && signbit(a)) ? a : b;
}

static double most_of(double a, double b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a > b || (a == b && signbit(b)) ? a : b;
}

static double nan_of(double a, double b, double r)
{
    return isnan(a) || isnan(b) ? (double)NAN : r;
}

/* ---- functions ------------------------------------------------------------------------------------------------------ */

#define FN1(name, D, A, expr)                                 \
    static void name(void *restrict to, const void *const *s) \
    {                                                         \
        D *d = to;                                            \
        const A *pa = s[0];                                   \
        for (int i = 0; i < LANES * (int)(FOLD); i++) {       \
            const A a = pa[i];                                \
            d[i] = (D)(expr);                                 \
        }                                                     \
    }
#define FN2(name, D, A, B, expr)                              \
    static void name(void *restrict to, const void *const *s) \
    {                                                         \
        D *d = to;                                            \
        const A *pa = s[0];                                   \
        const B *pb = s[1];                                   \
        for (int i = 0; i < LANES * (int)(FOLD); i++) {       \
            const A a = pa[i];                                \
            const B b = pb[i];                                \
            d[i] = (D)(expr);                                 \
        }                                                     \
    }
#define FN3(name, D, A, B, C, expr)                           \
    static void name(void *restrict to, const void *const *s) \
    {                                                         \
        D *d = to;                                            \
        const A *pa = s[0];                                   \
        const B *pb = s[1];                                   \
        const C *pc = s[2];                                   \
        for (int i = 0; i < LANES * (int)(FOLD); i++) {       \
            const A a = pa[i];                                \
            const B b = pb[i];                                \
            const C c = pc[i];                                \
            d[i] = (D)(expr);                                 \
        }                                                     \
    }
#define FN4(name, D, A, B, C, E, expr)                        \
    static void name(void *restrict to, const void *const *s) \
    {                                                         \
        D *d = to;                                            \
        const A *pa = s[0];                                   \
        const B *pb = s[1];                                   \
        const C *pc = s[2];                                   \
        const E *pe = s[3];                                   \
        for (int i = 0; i < LANES; i++) {                     \
            const A a = pa[i];                                \
            const B b = pb[i];                                \
            const C c = pc[i];                                \
            const E e = pe[i];                                \
            d[i] = (D)(expr);                                 \
        }                                                     \
    }
#define FOLD 1

#define SIZED(X) X(u16) X(s16) X(u32) X(s32) X(u64) X(s64)
#define BITS(X) X(b16) X(b32) X(b64)
#define WIDENED(X) X(u16, u32) X(s16, s32) X(u32, u64) X(s32, s64)

#define INTEGERS(T)                                                                          \
    FN2(add_##T, T, T, T, a + b)                                                             \
    FN2(sub_##T, T, T, T, a - b)                                                             \
    FN2(mul_lo_##T, T, T, T, a *b)                                                           \
    FN3(mad_lo_##T, T, T, T, T, a *b + c)                                                    \
    FN2(div_##T, T, T, T, b == 0 ? (T) - 1 : b == (T) - 1 && (T) - 1 < 1 ? (T)0 - a : a / b) \
    FN2(rem_##T, T, T, T, b == 0 ? (T) - 1 : b == (T) - 1 && (T) - 1 < 1 ? 0 : a % b)        \
    FN2(min_##T, T, T, T, a < b ? a : b)                                                     \
    FN2(max_##T, T, T, T, a > b ? a : b)                                                     \
    FN1(abs_##T, T, T, a < 1 ? (T)0 - a : a)                                                 \
    FN1(neg_##T, T, T, (T)0 - a)                                                             \
    FN2(shr_##T, T, T, u32, b < 8 * sizeof a ? a >> b : a < 1 && a ? (T) - 1 : (T)0)         \
    FN2(mul_hi_##T, T, T, T,                                                                 \
        (T) - 1 < 1 ? (T)((s128)a * b >> 8 * sizeof a) : (T)((u128)a * b >> 8 * sizeof a))   \
    FN3(sad_##T, T, T, T, T, c + (a < b ? b - a : a - b))                                    \
    FN2(eq_##T, pred, T, T, a == b)                                                          \
    FN2(ne_##T, pred, T, T, a != b)                                                          \
    FN2(lt_##T, pred, T, T, a < b)                                                           \
    FN2(le_##T, pred, T, T, a <= b)                                                          \
    FN2(gt_##T, pred, T, T, a > b)                                                           \
    FN2(ge_##T, pred, T, T, a >= b)
SIZED(INTEGERS)
#define WIDE(T, W)                      \
    FN2(mul_wide_##T, W, T, T, (W)a *b) \
    FN3(mad_wide_##T, W, T, T, W, (W)a *b + c)
WIDENED(WIDE)
#define BITWISE(T)                                              \
    FN1(mov_##T, T, T, a)                                       \
    FN2(and_##T, T, T, T, a &b)                                 \
    FN2(or_##T, T, T, T, a | b)                                 \
    FN2(xor_##T, T, T, T, a ^ b)                                \
    FN1(not_##T, T, T, ~a)                                      \
    FN1(cnot_##T, T, T, a == 0)                                 \
    FN2(shl_##T, T, T, u32, b < 8 * sizeof a ? (u64)a << b : 0) \
    FN3(selp_##T, T, T, T, pred, c ? a : b)
BITS(BITWISE)
FN1(mov_pred, pred, pred, a)
FN2(and_pred, pred, pred, pred, a &b)
FN2(or_pred, pred, pred, pred, a | b)
FN2(xor_pred, pred, pred, pred, a ^ b)
FN1(not_pred, pred, pred, !a)

static int leading(uint64_t x, int bits)
{
    return x ? __builtin_clzll(x) - (64 - bits) : bits;
}

static uint64_t reversed(uint64_t x, int bits)
{
    uint64_t r = 0;
    for (int i = 0; i < bits; i++)
        r |= (x >> i & 1) << (bits - 1 - i);
    return r;
}

/* The highest bit that is not the sign, or how far it is from the top; none: all ones. */
static uint32_t find_bit(uint64_t x, bool sign, int bits, bool shift)
{
    if (sign && x >> (bits - 1) & 1)
        x = ~x & (~0ull >> (64 - bits));
    int at = 63 - (x ? __builtin_clzll(x) : 64);
    return at < 0 ? ~0u : (uint32_t)(shift ? bits - 1 - at : at);
}

static uint64_t extract(uint64_t x, uint32_t at, uint32_t n, bool sign, uint32_t bits)
{
    at &= 255;
    n &= 255;
    uint32_t top = at + n - 1 < bits - 1 ? at + n - 1 : bits - 1;
    uint64_t fill = sign && n && x >> top & 1 ? ~0ull : 0, r = 0;
    for (uint32_t i = 0; i < bits; i++)
        r |= (i < n && at + i < bits ? x >> (at + i) & 1 : fill & 1) << i;
    return r;
}

static uint64_t insert(uint64_t f, uint64_t into, uint32_t at, uint32_t n, uint32_t bits)
{
    at &= 255;
    n &= 255;
    for (uint32_t i = 0; i < n && at + i < bits; i++)
        into = (into & ~(1ull << (at + i))) | (f >> i & 1) << (at + i);
    return into;
}

static uint32_t permute(uint32_t a, uint32_t b, uint32_t how)
{
    uint64_t all = (uint64_t)b << 32 | a;
    uint32_t r = 0;
    for (int i = 0; i < 4; i++) {
        uint32_t which = how >> (4 * i), byte = (uint32_t)(all >> 8 * (which & 7)) & 255;
        if (which & 8)
            byte = byte & 128 ? 255 : 0;
        r |= byte << 8 * i;
    }
    return r;
}

static uint32_t logic3(uint32_t a, uint32_t b, uint32_t c, uint32_t table)
{
    uint32_t r = 0;
    for (int i = 0; i < 8; i++)
        if (table >> i & 1)
            r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
    return r;
}

static int32_t dot4(uint32_t a, uint32_t b, int32_t c, bool sa, bool sb)
{
    for (int i = 0; i < 32; i += 8)
        c += (sa ? (int8_t)(a >> i) : (int)(a >> i & 255)) *
             (sb ? (int8_t)(b >> i) : (int)(b >> i & 255));
    return c;
}

FN1(popc_b32, u32, u32, __builtin_popcount(a))
FN1(popc_b64, u32, u64, __builtin_popcountll(a))
FN1(clz_b32, u32, u32, leading(a, 32))
FN1(clz_b64, u32, u64, leading(a, 64))
FN1(brev_b32, u32, u32, reversed(a, 32))
FN1(brev_b64, u64, u64, reversed(a, 64))
FN1(bfind_u32, u32, u32, find_bit(a, false, 32, false))
FN1(bfind_s32, u32, u32, find_bit(a, true, 32, false))
FN1(bfind_u64, u32, u64, find_bit(a, false, 64, false))
FN1(bfind_s64, u32, u64, find_bit(a, true, 64, false))
FN1(bfind_shiftamt_u32, u32, u32, find_bit(a, false, 32, true))
FN1(bfind_shiftamt_s32, u32, u32, find_bit(a, true, 32, true))
FN3(bfe_u32, u32, u32, u32, u32, extract(a, b, c, false, 32))
FN3(bfe_s32, u32, u32, u32, u32, extract(a, b, c, true, 32))
FN3(bfe_u64, u64, u64, u32, u32, extract(a, b, c, false, 64))
FN3(bfe_s64, u64, u64, u32, u32, extract(a, b, c, true, 64))
FN4(bfi_b32, u32, u32, u32, u32, u32, insert(a, b, c, e, 32))
FN4(bfi_b64, u64, u64, u64, u32, u32, insert(a, b, c, e, 64))
FN3(prmt_b32, u32, u32, u32, u32, permute(a, b, c))
FN4(lop3_b32, u32, u32, u32, u32, u32, logic3(a, b, c, e))
FN3(shf_l_wrap, u32, u32, u32, u32, ((u64)b << 32 | a) << (c & 31) >> 32)
FN3(shf_r_wrap, u32, u32, u32, u32, ((u64)b << 32 | a) >> (c & 31))
FN3(shf_l_clamp, u32, u32, u32, u32, c > 31 ? a : ((u64)b << 32 | a) << c >> 32)
FN3(shf_r_clamp, u32, u32, u32, u32, c > 31 ? b : ((u64)b << 32 | a) >> c)
FN3(dp4a_u32_u32, u32, u32, u32, s32, dot4(a, b, c, false, false))
FN3(dp4a_s32_s32, u32, u32, u32, s32, dot4(a, b, c, true, true))
FN3(dp4a_u32_s32, u32, u32, u32, s32, dot4(a, b, c, false, true))
FN3(dp4a_s32_u32, u32, u32, u32, s32, dot4(a, b, c, true, false))

/* Of a type of floats: its name, how it lies in memory, the type in which it is computed, and the ways there and back. */
#define SAME(x) (x)
#define FLOATS(T, M, W, IN, OUT)                                                    \
    FN2(add_##T, M, M, M, OUT(IN(a) + IN(b)))                                       \
    FN2(sub_##T, M, M, M, OUT(IN(a) - IN(b)))                                       \
    FN2(mul_##T, M, M, M, OUT(IN(a) * IN(b)))                                       \
    FN1(neg_##T, M, M, OUT(-IN(a)))                                                 \
    FN1(abs_##T, M, M, OUT((W)fabs(IN(a))))                                         \
    FN2(min_##T, M, M, M, OUT((W)least_of(IN(a), IN(b))))                           \
    FN2(max_##T, M, M, M, OUT((W)most_of(IN(a), IN(b))))                            \
    FN2(min_nan_##T, M, M, M, OUT((W)nan_of(IN(a), IN(b), least_of(IN(a), IN(b))))) \
    FN2(max_nan_##T, M, M, M, OUT((W)nan_of(IN(a), IN(b), most_of(IN(a), IN(b)))))  \
    COMPARE(T, M, IN)
#define COMPARE(T, M, IN)                                       \
    FN2(eq_##T, pred, M, M, IN(a) == IN(b))                     \
    FN2(ne_##T, pred, M, M, IN(a) < IN(b) || IN(a) > IN(b))     \
    FN2(lt_##T, pred, M, M, IN(a) < IN(b))                      \
    FN2(le_##T, pred, M, M, IN(a) <= IN(b))                     \
    FN2(gt_##T, pred, M, M, IN(a) > IN(b))                      \
    FN2(ge_##T, pred, M, M, IN(a) >= IN(b))                     \
    FN2(equ_##T, pred, M, M, !(IN(a) < IN(b) || IN(a) > IN(b))) \
    FN2(neu_##T, pred, M, M, IN(a) != IN(b))                    \
    FN2(ltu_##T, pred, M, M, !(IN(a) >= IN(b)))                 \
    FN2(leu_##T, pred, M, M, !(IN(a) > IN(b)))                  \
    FN2(gtu_##T, pred, M, M, !(IN(a) <= IN(b)))                 \
    FN2(geu_##T, pred, M, M, !(IN(a) < IN(b)))                  \
    FN2(num_##T, pred, M, M, IN(a) == IN(a) && IN(b) == IN(b))  \
    FN2(nan_##T, pred, M, M, IN(a) != IN(a) || IN(b) != IN(b))
FLOATS(f32, f32, f32, SAME, SAME)
FLOATS(f64, f64, f64, SAME, SAME)
FN3(fma_f32, f32, f32, f32, f32, fmaf(a, b, c))
FN3(fma_f64, f64, f64, f64, f64, fma(a, b, c))
#ifdef __x86_64__
/* The same where the processor has it as an instruction: most of what a product of matrices does. */
#define WITH_FMA __attribute__((target("avx2,fma")))
WITH_FMA FN3(fast_fma_f32, f32, f32, f32, f32,
             __builtin_fmaf(a, b, c)) WITH_FMA FN3(fast_fma_f64, f64, f64, f64, f64,
                                                   __builtin_fma(a, b, c))
#endif
/* Sums and products of such numbers are exact as doubles, or rounded so that it does not show. */
#define HALF(x) ((double)half_float(x))
#define BRAIN(x) ((double)brain_float(x))
    FLOATS(f16, f16, f64, HALF, to_half) FLOATS(bf16, bf16, f64, BRAIN, to_brain) FN3(
        fma_f16, f16, f16, f16, f16, to_half(fma_odd(HALF(a), HALF(b), HALF(c))))
        FN3(fma_bf16, bf16, bf16, bf16, bf16, to_brain(fma_odd(BRAIN(a), BRAIN(b), BRAIN(c)))) FN3(
            fma_relu_f16, f16, f16, f16, f16, to_half(fmax(fma_odd(HALF(a), HALF(b), HALF(c)), 0)))
            FN3(fma_relu_bf16, bf16, bf16, bf16, bf16,
                to_brain(fmax(fma_odd(BRAIN(a), BRAIN(b), BRAIN(c)), 0)))
/* Two in a register of 32 bits: twice the lanes. */
#undef FOLD
#define FOLD 2
#undef COMPARE
#define COMPARE(T, M, IN)
                FLOATS(f16x2, f16, f64, HALF, to_half) FLOATS(bf16x2, bf16, f64, BRAIN, to_brain)
                    FN3(fma_f16x2, f16, f16, f16, f16, to_half(fma_odd(HALF(a), HALF(b), HALF(c))))
                        FN3(fma_bf16x2, bf16, bf16, bf16, bf16,
                            to_brain(fma_odd(BRAIN(a), BRAIN(b), BRAIN(c))))
#undef FOLD
#define FOLD 1

                            FN2(div_f32, f32, f32, f32,
                                a / b) FN2(div_f64, f64, f64, f64,
                                           a / b) FN1(rcp_f32, f32, f32, 1 / a)
                                FN1(rcp_f64, f64, f64, 1 / a) FN1(sqrt_f32, f32, f32, sqrtf(a)) FN1(
                                    sqrt_f64, f64, f64,
                                    sqrt(a)) FN1(rsqrt_f32, f32, f32, (f32)(1 / sqrt((double)a)))
                                    FN1(rsqrt_f64, f64, f64,
                                        1 / sqrt(a)) FN1(ex2_f32, f32, f32, (f32)exp2((double)a))
                                        FN1(lg2_f32, f32, f32, (f32)log2((double)a))
                                            FN1(sin_f32, f32, f32, (f32)sin((double)a))
                                                FN1(cos_f32, f32, f32, (f32)cos((double)a))
                                                    FN1(tanh_f32, f32, f32, (f32)tanh((double)a))
                                                        FN1(ex2_f16, f16, f16,
                                                            to_half(exp2(HALF(a))))
                                                            FN1(ex2_bf16, bf16, bf16,
                                                                to_brain(exp2(BRAIN(a))))
                                                                FN1(tanh_f16, f16, f16,
                                                                    to_half(tanh(HALF(a))))
                                                                    FN1(tanh_bf16, bf16, bf16,
                                                                        to_brain(tanh(BRAIN(a))))
    /* The sign is the first operand's. */
    FN2(copysign_f32, f32, f32, f32, copysignf(b, a))
        FN2(copysign_f64, f64, f64, f64, copysign(b, a))
#define CLASSES(T)                         \
    FN1(finite_##T, pred, T, isfinite(a))  \
    FN1(infinite_##T, pred, T, isinf(a))   \
    FN1(number_##T, pred, T, !isnan(a))    \
    FN1(notanumber_##T, pred, T, isnan(a)) \
    FN1(normal_##T, pred, T, isnormal(a))  \
    FN1(subnormal_##T, pred, T, a != 0 && isfinite(a) && !isnormal(a))
            CLASSES(f32) CLASSES(f64)

    /* Conversions of which kernels have many; the others go lane by lane (lanes_convert). */
    FN1(cvt_u64_u32, u64, u32, a) FN1(cvt_s64_s32, s64, s32, a) FN1(cvt_u32_u64, u32, u64, a)
        FN1(cvt_u32_u16, u32, u16, a) FN1(cvt_s32_s16, s32, s16, a) FN1(cvt_u16_u32, u16, u32, a)
            FN1(cvt_f32_s32, f32, s32, a) FN1(cvt_f32_f16, f32, f16, half_float(a))
                FN1(cvt_f32_bf16, f32, bf16, brain_float(a)) FN1(cvt_f64_f32, f64, f32,
                                                                 a) FN1(cvt_f32_f64, f32, f64, a)

                    FN1(cvta_shared, u64, u64, a + WINDOW(SPACE_SHARED))
                        FN1(cvta_local, u64, u64, a + WINDOW(SPACE_LOCAL))
                            FN1(cvta_param, u64, u64, a + WINDOW(SPACE_PARAM))
                                FN1(cvta_to_shared, u64, u64, a - WINDOW(SPACE_SHARED))
                                    FN1(cvta_to_local, u64, u64, a - WINDOW(SPACE_LOCAL))
                                        FN1(cvta_to_param, u64, u64, a - WINDOW(SPACE_PARAM))

/* ---- rows ----------------------------------------------------------------------------------------------------------- */

#define INTEGER_ROWS(T)                                                                          \
    {"add." #T, "ttt", add_##T}, {"sub." #T, "ttt", sub_##T}, {"mul.lo." #T, "ttt", mul_lo_##T}, \
        {"mad.lo." #T, "tttt", mad_lo_##T}, {"div." #T, "ttt", div_##T},                         \
        {"rem." #T, "ttt", rem_##T}, {"min." #T, "ttt", min_##T}, {"max." #T, "ttt", max_##T},   \
        {"abs." #T, "tt", abs_##T}, {"neg." #T, "tt", neg_##T}, {"shr." #T, "tti", shr_##T},     \
        {"mul.hi." #T, "ttt", mul_hi_##T}, {"sad." #T, "tttt", sad_##T},                         \
        {"setp.eq." #T, "ptt", eq_##T}, {"setp.ne." #T, "ptt", ne_##T},                          \
        {"setp.lt." #T, "ptt", lt_##T}, {"setp.le." #T, "ptt", le_##T},                          \
        {"setp.gt." #T, "ptt", gt_##T}, {"setp.ge." #T, "ptt", ge_##T},                          \
        {"setp.lo." #T, "ptt", lt_##T}, {"setp.ls." #T, "ptt", le_##T},                          \
        {"setp.hi." #T, "ptt", gt_##T}, {"setp.hs." #T, "ptt", ge_##T},
#define WIDE_ROWS(T, W) \
    {"mul.wide." #T, "wtt", mul_wide_##T}, {"mad.wide." #T, "wttw", mad_wide_##T},
/* Moves and selections ask for bits alone, whatever the type is called. */
#define MOVE_ROWS(T, B) {"mov." #T, "tt", mov_##B}, {"selp." #T, "tttp", selp_##B},
#define BITWISE_ROWS(T, N)                                                                     \
    {"and." #T, "ttt", and_##T}, {"or." #T, "ttt", or_##T}, {"xor." #T, "ttt", xor_##T},       \
        {"not." #T, "tt", not_##T}, {"cnot." #T, "tt", cnot_##T}, {"shl." #T, "tti", shl_##T}, \
        {"shr." #T, "tti", shr_u##N}, {"setp.eq." #T, "ptt", eq_u##N},                         \
        {"setp.ne." #T, "ptt", ne_u##N},                                                       \
        MOVE_ROWS(b##N, b##N) MOVE_ROWS(u##N, b##N) MOVE_ROWS(s##N, b##N)
#define ARITHMETIC_ROWS(T)                                                                    \
    {"add." #T, "ttt", add_##T}, {"sub." #T, "ttt", sub_##T}, {"mul." #T, "ttt", mul_##T},    \
        {"neg." #T, "tt", neg_##T}, {"abs." #T, "tt", abs_##T}, {"fma." #T, "tttt", fma_##T}, \
        {"min." #T, "ttt", min_##T}, {"max." #T, "ttt", max_##T},                             \
        {"min.NaN." #T, "ttt", min_nan_##T}, {"max.NaN." #T, "ttt", max_nan_##T},
#define FLOAT_ROWS(T)                                                                 \
    ARITHMETIC_ROWS(T){"setp.eq." #T, "ptt", eq_##T}, {"setp.ne." #T, "ptt", ne_##T}, \
        {"setp.lt." #T, "ptt", lt_##T}, {"setp.le." #T, "ptt", le_##T},               \
        {"setp.gt." #T, "ptt", gt_##T}, {"setp.ge." #T, "ptt", ge_##T},               \
        {"setp.equ." #T, "ptt", equ_##T}, {"setp.neu." #T, "ptt", neu_##T},           \
        {"setp.ltu." #T, "ptt", ltu_##T}, {"setp.leu." #T, "ptt", leu_##T},           \
        {"setp.gtu." #T, "ptt", gtu_##T}, {"setp.geu." #T, "ptt", geu_##T},           \
        {"setp.num." #T, "ptt", num_##T}, {"setp.nan." #T, "ptt", nan_##T},
#define CLASS_ROWS(T)                                                                           \
    {"testp.finite." #T, "pt", finite_##T}, {"testp.infinite." #T, "pt", infinite_##T},         \
        {"testp.number." #T, "pt", number_##T}, {"testp.notanumber." #T, "pt", notanumber_##T}, \
        {"testp.normal." #T, "pt", normal_##T}, {"testp.subnormal." #T, "pt", subnormal_##T},
#define ROW1(name, T, fn) {name "." #T, "tt", fn##_##T},

                                            static const LaneRow rows[] = {
                                                SIZED(INTEGER_ROWS) /* */
                                                WIDENED(WIDE_ROWS) /* */
                                                BITWISE_ROWS(b16, 16) /* */
                                                BITWISE_ROWS(b32, 32) /* */
                                                BITWISE_ROWS(b64, 64) /* */
                                                MOVE_ROWS(f16, b16) /* */
                                                MOVE_ROWS(bf16, b16) /* */
                                                MOVE_ROWS(f32, b32) /* */
                                                MOVE_ROWS(f64, b64) /* */
                                                MOVE_ROWS(f16x2, b32) /* */
                                                MOVE_ROWS(bf16x2, b32) /* */
                                                {"mov.pred", "pp", mov_pred}, /* */
                                                {"and.pred", "ppp", and_pred}, /* */
                                                {"or.pred", "ppp", or_pred}, /* */
                                                {"xor.pred", "ppp", xor_pred}, /* */
                                                {"not.pred", "pp", not_pred}, /* */
                                                FLOAT_ROWS(f32) /* */
                                                FLOAT_ROWS(f64) /* */
                                                FLOAT_ROWS(f16) /* */
                                                FLOAT_ROWS(bf16) /* */
                                                ARITHMETIC_ROWS(f16x2) /* */
                                                ARITHMETIC_ROWS(bf16x2) /* */
                                                CLASS_ROWS(f32) /* */
                                                CLASS_ROWS(f64) /* */
                                                ROW1("rcp", f32, rcp) /* */
                                                ROW1("rcp", f64, rcp) /* */
                                                ROW1("sqrt", f32, sqrt) /* */
                                                ROW1("sqrt", f64, sqrt) /* */
                                                ROW1("rsqrt", f32, rsqrt) /* */
                                                ROW1("rsqrt", f64, rsqrt) /* */
                                                ROW1("ex2", f32, ex2) /* */
                                                ROW1("ex2", f16, ex2) /* */
                                                ROW1("ex2", bf16, ex2) /* */
                                                ROW1("lg2", f32, lg2) /* */
                                                ROW1("sin", f32, sin) /* */
                                                ROW1("cos", f32, cos) /* */
                                                ROW1("tanh", f32, tanh) /* */
                                                ROW1("tanh", f16, tanh) /* */
                                                ROW1("tanh", bf16, tanh) /* */
                                                {"fma.relu.f16", "tttt", fma_relu_f16},
                                                {"fma.relu.bf16", "tttt", fma_relu_bf16},
                                                {"div.f32", "ttt", div_f32},
                                                {"div.f64", "ttt", div_f64},
                                                {"copysign.f32", "ttt", copysign_f32},
                                                {"copysign.f64", "ttt", copysign_f64},
                                                {"popc.b32", "it", popc_b32},
                                                {"popc.b64", "it", popc_b64},
                                                {"clz.b32", "it", clz_b32},
                                                {"clz.b64", "it", clz_b64},
                                                {"brev.b32", "tt", brev_b32},
                                                {"brev.b64", "tt", brev_b64},
                                                {"bfind.u32", "it", bfind_u32},
                                                {"bfind.s32", "it", bfind_s32},
                                                {"bfind.u64", "it", bfind_u64},
                                                {"bfind.s64", "it", bfind_s64},
                                                {"bfind.shiftamt.u32", "it", bfind_shiftamt_u32},
                                                {"bfind.shiftamt.s32", "it", bfind_shiftamt_s32},
                                                {"bfe.u32", "ttii", bfe_u32},
                                                {"bfe.s32", "ttii", bfe_s32},
                                                {"bfe.u64", "ttii", bfe_u64},
                                                {"bfe.s64", "ttii", bfe_s64},
                                                {"bfi.b32", "tttii", bfi_b32},
                                                {"bfi.b64", "tttii", bfi_b64},
                                                {"prmt.b32", "tttt", prmt_b32},
                                                {"lop3.b32", "ttttt", lop3_b32},
                                                {"shf.l.wrap.b32", "tttt", shf_l_wrap},
                                                {"shf.r.wrap.b32", "tttt", shf_r_wrap},
                                                {"shf.l.clamp.b32", "tttt", shf_l_clamp},
                                                {"shf.r.clamp.b32", "tttt", shf_r_clamp},
                                                {"dp4a.u32.u32", "tttt", dp4a_u32_u32},
                                                {"dp4a.s32.s32", "tttt", dp4a_s32_s32},
                                                {"dp4a.u32.s32", "tttt", dp4a_u32_s32},
                                                {"dp4a.s32.u32", "tttt", dp4a_s32_u32},
                                                {"cvt.u64.u32", "dt", cvt_u64_u32},
                                                {"cvt.s64.s32", "dt", cvt_s64_s32},
                                                {"cvt.u32.u64", "dt", cvt_u32_u64},
                                                {"cvt.u32.u16", "dt", cvt_u32_u16},
                                                {"cvt.s32.s16", "dt", cvt_s32_s16},
                                                {"cvt.u16.u32", "dt", cvt_u16_u32},
                                                {"cvt.f32.s32", "dt", cvt_f32_s32},
                                                {"cvt.f32.f16", "dt", cvt_f32_f16},
                                                {"cvt.f32.bf16", "dt", cvt_f32_bf16},
                                                {"cvt.f64.f32", "dt", cvt_f64_f32},
                                                {"cvt.f32.f64", "dt", cvt_f32_f64},
                                                {"cvta.global.u64", "tt", mov_b64},
                                                {"cvta.const.u64", "tt", mov_b64},
                                                {"cvta.to.global.u64", "tt", mov_b64},
                                                {"cvta.to.const.u64", "tt", mov_b64},
                                                {"cvta.shared.u64", "tt", cvta_shared},
                                                {"cvta.local.u64", "tt", cvta_local},
                                                {"cvta.param.u64", "tt", cvta_param},
                                                {"cvta.to.shared.u64", "tt", cvta_to_shared},
                                                {"cvta.to.local.u64", "tt", cvta_to_local},
                                                {"cvta.to.param.u64", "tt", cvta_to_param},
};

const LaneRow *lane_row(const char *name)
{
#ifdef __x86_64__
    static const LaneRow fast[] = {{"fma.f32", "tttt", fast_fma_f32},
                                   {"fma.f64", "tttt", fast_fma_f64}};
    for (size_t i = 0; i < sizeof fast / sizeof *fast && __builtin_cpu_supports("fma"); i++)
        if (!strcmp(fast[i].name, name))
            return &fast[i];
#endif
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (!strcmp(rows[i].name, name))
            return &rows[i];
    return NULL;
}

/* ---- conversions ---------------------------------------------------------------------------------------------------- */

typedef struct Number {
    bool real;
    double f;
    s128 i;
} Number;

static Number number_read(Type t, uint64_t bits)
{
    Number x = {0};
    switch (t.kind) {
    case 'f':
        x.real = true;
        if (t.width == 8)
            memcpy(&x.f, &bits, 8);
        else
            x.f = t.width == 4 ? float_of((uint32_t)bits) : half_float((uint16_t)bits);
        break;
    case 'h':
        x.real = true;
        x.f = brain_float((uint16_t)bits);
        break;
    case 's': {
        int up = 64 - 8 * t.width;
        x.i = (int64_t)(bits << up) >> up;
        break;
    }
    default: x.i = bits & (~0ull >> (64 - 8 * t.width));
    }
    return x;
}

static s128 clamp(s128 x, Type t)
{
    s128 one = 1, least = t.kind == 's' ? -(one << (8 * t.width - 1)) : 0;
    s128 most = (one << (8 * t.width - (t.kind == 's'))) - 1;
    return x < least ? least : x > most ? most : x;
}

static uint64_t to_integer(const Ins *in, Number x)
{
    if (!x.real)
        return (uint64_t)(in->sat ? clamp(x.i, in->type) : x.i);
    if (isnan(x.f))
        return 0;
    double r = nearbyint(x.f);
    return (uint64_t)clamp(r > 0x1p80    ? (s128)1 << 80
                           : r < -0x1p80 ? -((s128)1 << 80)
                                         : (s128)r,
                           in->type);
}

static uint64_t to_float(const Ins *in, Number x)
{
    bool whole = in->round >= 'A' && in->round <= 'Z';
    if (in->type.width == 4 && !x.real && in->type.kind == 'f')
        return bits_of(in->from.kind == 's' ? (float)(int64_t)x.i : (float)(uint64_t)x.i);
    double f = x.real ? x.f : in->from.kind == 's' ? (double)(int64_t)x.i : (double)(uint64_t)x.i;
    if (whole)
        f = nearbyint(f);
    if (in->sat)
        f = f > 0 ? fmin(f, 1) : 0;
    switch (in->type.kind) {
    case 'h': return to_brain(f);
    case 't':
        return isnan(f) ? 0x7fffffff : bits_of((float)round_to(f, 11, -125, in->round == 'a'));
    default: break;
    }
    uint64_t bits;
    memcpy(&bits, &f, sizeof bits);
    return in->type.width == 8 ? bits : in->type.width == 4 ? bits_of((float)f) : to_half(f);
}

static uint64_t lane_read(const void *p, size_t width, int i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const uint8_t *)p + width * (size_t)i, width);
    return bits;
}

void lanes_convert(const Ins *in, void *d, const void *s, const void *s2)
{
    size_t width = in->op[0].width;
    char to = in->type.kind;
    for (int i = 0; i < LANES; i++) {
        Number x = number_read(in->from, lane_read(s, in->op[1].width, i));
        uint64_t bits = to == 'f' || to == 'h' || to == 't' ? to_float(in, x) : to_integer(in, x);
        if (in->type.lanes == 2)
            bits =
                bits << 16 | to_float(in, number_read(in->from, lane_read(s2, in->op[2].width, i)));
        else
            bits =
                (uint64_t)number_read(to == 's' ? in->type : (Type){'u', in->type.width, 1}, bits)
                    .i;
        memcpy((uint8_t *)d + width * (size_t)i, &bits, width);
    }
}

/* ---- atomics -------------------------------------------------------------------------------------------------------- */

static uint64_t atomic_float(const Ins *in, uint64_t old, uint64_t b)
{
    const void *from[2] = {&old, &b};
    char name[32];
    const char *type = in->type.kind == 'h'  ? (in->type.lanes == 2 ? "bf16x2" : "bf16")
                       : in->type.lanes == 2 ? "f16x2"
                       : in->type.width == 8 ? "f64"
                       : in->type.width == 4 ? "f32"
                                             : "f16";
    uint64_t a32[LANES] = {0}, b32s[LANES] = {0}, r[LANES];
    memcpy(a32, &old, 8);
    memcpy(b32s, &b, 8);
    from[0] = a32;
    from[1] = b32s;
    size_t n = 0;
    for (const char *p = in->what; *p && n < 16; p++)
        name[n++] = *p;
    name[n++] = '.';
    strcpy(name + n, type);
    const LaneRow *row = lane_row(name);
    row->fn(r, from);
    uint64_t bits = 0;
    memcpy(&bits, r, in->type.width);
    return bits;
}

uint64_t lanes_atomic(const Ins *in, uint64_t old, uint64_t b, uint64_t c)
{
    const char *op = in->what;
    if (in->type.kind == 'f' || in->type.kind == 'h')
        return atomic_float(in, old, b);
    s128 x = number_read(in->type, old).i, y = number_read(in->type, b).i;
    switch (op[0]) {
    case 'a': return op[1] == 'd' ? old + b : old & b;
    case 'o': return old | b;
    case 'x': return old ^ b;
    case 'e': return b;
    case 'm': return (op[1] == 'i') == (x < y) ? old : b;
    case 'i': return x >= y ? 0 : old + 1;
    case 'd': return x == 0 || x > y ? b : old - 1;
    default: return x == y ? c : old; /* cas */
    }
}
