/* Elementary functions written so that loops over them become vector code: no branches, no calls,
 * no tables. Each is within a few units in the last place of the exact value. The double forms are
 * the C library's. */
#ifndef TE_MATH_H
#define TE_MATH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline float te_float_of_bits(int32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static inline int32_t te_bits_of_float(float v)
{
    int32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

/* 2^e for -126 <= e <= 127. */
static inline float te_power_of_two(int32_t e)
{
    return te_float_of_bits((int32_t)((uint32_t)(e + 127) << 23));
}

/* e^x = 2^k e^r with |r| <= ln 2 / 2; e^r by its Taylor polynomial. 2^k is applied in two factors,
 * so that subnormal results come out right. */
static inline float te_expf(float x)
{
    float c = x < 89.0f ? x : 89.0f; /* a NaN too */
    c = c > -104.0f ? c : -104.0f;
    float shifted = c * 1.44269504f + 12582912.0f; /* 1.5 * 2^23: rounds to an integer */
    float k = shifted - 12582912.0f;
    float r = c - k * 0.693145752f;
    r = r - k * 1.42860677e-6f;
    float p = 1.98412698e-4f;
    p = p * r + 1.38888889e-3f;
    p = p * r + 8.33333333e-3f;
    p = p * r + 4.16666667e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r * r + r + 1.0f;
    int32_t e = (int32_t)k, half = e >> 1;
    float y = p * te_power_of_two(half) * te_power_of_two(e - half);
    return x != x ? x : y;
}

/* log(m 2^k) = log m + k ln 2 with m in [sqrt(1/2), sqrt 2); log m by the series of
 * 2 atanh((m - 1) / (m + 1)). */
static inline float te_logf(float x)
{
    float small = x < 1.17549435e-38f ? 8388608.0f : 1.0f;
    float scaled = x * small;
    uint32_t bits = (uint32_t)te_bits_of_float(scaled);
    int32_t k = (int32_t)((bits - 0x3f3504f3) >> 23);
    k = k > 255 ? k - 512 : k;
    float m = te_float_of_bits((int32_t)(bits - ((uint32_t)k << 23)));
    float s = (m - 1.0f) / (m + 1.0f), z = s * s;
    float p = 0.2222222f * z;
    p = (p + 0.2857143f) * z;
    p = (p + 0.4f) * z;
    p = (p + 0.66666667f) * z;
    float f = m - 1.0f;
    /* 2s = f - s f: keeps the small part of the sum apart from the large one. */
    float kf = (float)k - (small > 1.0f ? 23.0f : 0.0f);
    float y = f - (s * f - s * p);
    y = kf * 1.42860677e-6f + y;
    y = kf * 0.693145752f + y;
    y = x == 0.0f ? -INFINITY : y;
    y = x < 0.0f ? NAN : y;
    return x == INFINITY || x != x ? x : y;
}

/* (e^2x - 1) / (e^2x + 1) away from zero, where nothing cancels; a polynomial near it. */
static inline float te_tanhf(float x)
{
    float a = fabsf(x);
    float e = te_expf(a + a);
    float large = 1.0f - 2.0f / (e + 1.0f);
    float z = x * x, p = 2.04979302e-3f;
    p = p * z - 8.07171781e-3f;
    p = p * z + 2.16557682e-2f;
    p = p * z - 5.39379232e-2f;
    p = p * z + 1.33331254e-1f;
    p = p * z - 3.33333284e-1f;
    float small = a + a * z * p;
    float y = a < 0.65f ? small : large;
    y = x < 0.0f ? -y : y;
    return x != x ? x : x == 0.0f ? x : y;
}

/* x times a polynomial in x^2 near zero; 1 - e^q away from it, where q is a polynomial near
 * log erfc |x|. From 4 on that is 1. Both were fitted to the least relative error. */
static inline float te_erff(float x)
{
    float a = fabsf(x), z = x * x;
    float p = 8.21541835e-5f;
    p = p * z - 8.10596393e-4f;
    p = p * z + 5.19779697e-3f;
    p = p * z - 2.68581044e-2f;
    p = p * z + 1.12836726e-1f;
    p = p * z - 3.76126319e-1f;
    p = p * z + 1.12837923f;
    float c = a > 4.0f ? 4.0f : a;
    float q = 1.97183804e-4f;
    q = q * c - 3.05562676e-3f;
    q = q * c + 2.22771578e-2f;
    q = q * c - 1.04037501e-1f;
    q = q * c - 6.37059629e-1f;
    q = q * c - 1.12774968f;
    q = q * c - 1.77476424e-4f;
    float large = 1.0f - te_expf(q);
    large = x < 0.0f ? -large : large;
    float y = a < 0.95f ? x * p : large;
    return x != x ? x : y;
}

/* Halves without branches. The product puts the exponent right, also of subnormal numbers. */
static inline float te_float_of_half(uint16_t h)
{
    uint32_t bits = (uint32_t)(h & 0x7fff) << 13;
    float v = te_float_of_bits((int32_t)bits) * 5.19229686e33f; /* 2^112 */
    uint32_t up = (uint32_t)te_bits_of_float(v);
    up = bits >= 0x0f800000 ? bits | 0x7f800000 : up;
    return te_float_of_bits((int32_t)(up | ((uint32_t)(h & 0x8000) << 16)));
}

/* To the nearest, ties to even. Below the least normal half the sum with 0.5 rounds at the right bit. */
static inline uint16_t te_half_of_float(float v)
{
    uint32_t bits = (uint32_t)te_bits_of_float(v), a = bits & 0x7fffffff;
    uint32_t normal = (a + 0xfff + ((a >> 13) & 1) - 0x38000000) >> 13;
    uint32_t small = (uint32_t)te_bits_of_float(te_float_of_bits((int32_t)a) + 0.5f) - 0x3f000000;
    uint32_t h = a < 0x38800000 ? small : normal;
    h = a >= 0x477ff000 ? 0x7c00 : h;
    h = a > 0x7f800000 ? 0x7e00 : h;
    return (uint16_t)(h | ((bits >> 16) & 0x8000));
}

static inline float te_float_of_bfloat(uint16_t b)
{
    return te_float_of_bits((int32_t)((uint32_t)b << 16));
}

static inline uint16_t te_bfloat_of_float(float v)
{
    uint32_t bits = (uint32_t)te_bits_of_float(v);
    uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? bits >> 16 | 0x40 : rounded);
}

static inline double te_exp(double x)
{
    return exp(x);
}

static inline double te_log(double x)
{
    return log(x);
}

static inline double te_tanh(double x)
{
    return tanh(x);
}

static inline double te_erf(double x)
{
    return erf(x);
}

#endif
