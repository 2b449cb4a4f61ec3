/* Elementary functions written so that loops over them become vector code: no branches, no calls,
 * no tables. Each is within a few units in the last place of the exact value. The double forms are
 * the C library's. */
#ifndef IR_TE_MATH_H
#define IR_TE_MATH_H

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

/* e^x = 2^k e^r with |r| <= ln 2 / 2; e^r by its Taylor polynomial. 2^k is applied in two factors,
 * so that subnormal results come out right. */
static inline float te_expf(float x)
{
    float c = x > 89.0f ? 89.0f : x;
    c = c < -104.0f ? -104.0f : c;
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
    float y = p * te_float_of_bits((half + 127) << 23) * te_float_of_bits((e - half + 127) << 23);
    return x != x ? x : y;
}

/* log(m 2^k) = log m + k ln 2 with m in [sqrt(1/2), sqrt 2); log m by the series of
 * 2 atanh((m - 1) / (m + 1)). */
static inline float te_logf(float x)
{
    float small = x < 1.17549435e-38f ? 8388608.0f : 1.0f;
    float scaled = x * small;
    int32_t bits = te_bits_of_float(scaled);
    int32_t k = (int32_t)((uint32_t)(bits - 0x3f3504f3) >> 23);
    k = k > 255 ? k - 512 : k;
    float m = te_float_of_bits((int32_t)((uint32_t)bits - ((uint32_t)k << 23)));
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

/* (e^2x - 1) / (e^2x + 1) away from zero, where nothing cancels; a rational function near it. */
static inline float te_tanhf(float x)
{
    float a = fabsf(x);
    float e = te_expf(a + a);
    float large = 1.0f - 2.0f / (e + 1.0f);
    float z = x * x;
    float p = z * (z * (z * (z * (z * 0.00359212803657f - 0.00886323552990f) + 0.0218694885361f) -
                        0.0539682539683f) + 0.133333333333f) - 0.333333333333f;
    float small = a + a * z * p;
    float y = a < 0.25f ? small : large;
    y = x < 0.0f ? -y : y;
    return x != x ? x : x == 0.0f ? x : y;
}

static inline float te_erff(float x)
{
    return erff(x);
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
