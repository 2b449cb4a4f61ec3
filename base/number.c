#include "base/number.h"

#include "base/memory.h"

#include <errno.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

bool number_parse_uint(Str s, uint64_t *out)
{
    if (s.len > 0 && s.ptr[0] == '+')
        s = (Str){s.ptr + 1, s.len - 1};
    if (s.len == 0)
        return false;
    uint64_t v = 0;
    for (size_t i = 0; i < s.len; i++) {
        if (!is_digit(s.ptr[i]))
            return false;
        uint64_t digit = (uint64_t)(s.ptr[i] - '0');
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, digit, &v))
            return false;
    }
    *out = v;
    return true;
}

bool number_parse_int(Str s, int64_t *out)
{
    bool negative = s.len > 0 && s.ptr[0] == '-';
    if (negative) {
        s = (Str){s.ptr + 1, s.len - 1};
        if (s.len > 0 && s.ptr[0] == '+')
            return false;
    }
    uint64_t v;
    if (!number_parse_uint(s, &v) || v > (uint64_t)INT64_MAX + negative)
        return false;
    *out = (int64_t)(negative ? 0 - v : v);
    return true;
}

static size_t skip_digits(Str s, size_t i)
{
    while (i < s.len && is_digit(s.ptr[i]))
        i++;
    return i;
}

/* float ::= [sign] ( digits [ "." [digits] ] | "." digits ) [ ("e"|"E") [sign] digits ] | [sign]
 * ("inf"|"nan") */
static bool is_float(Str s)
{
    size_t i = s.len > 0 && (s.ptr[0] == '+' || s.ptr[0] == '-');
    Str rest = {s.ptr + i, s.len - i};
    if (str_is(rest, "inf") || str_is(rest, "nan"))
        return true;
    size_t from = i;
    i = skip_digits(s, i);
    size_t digits = i - from;
    if (i < s.len && s.ptr[i] == '.') {
        from = ++i;
        i = skip_digits(s, i);
        digits += i - from;
    }
    if (digits == 0)
        return false;
    if (i < s.len && (s.ptr[i] == 'e' || s.ptr[i] == 'E')) {
        i++;
        if (i < s.len && (s.ptr[i] == '+' || s.ptr[i] == '-'))
            i++;
        from = i;
        i = skip_digits(s, i);
        if (i == from)
            return false;
    }
    return i == s.len;
}

/* Powers of ten that a float and a double hold exactly. */
static const float float_tens[] = {1e0f, 1e1f, 1e2f, 1e3f, 1e4f, 1e5f,
                                   1e6f, 1e7f, 1e8f, 1e9f, 1e10f};
static const double double_tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                     1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                     1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

/* digits [ "." digits ] of at most 19 digits: the number is whole / 10^places. */
static bool short_decimal(Str s, uint64_t *whole, unsigned *places)
{
    bool point = false;
    *whole = *places = 0;
    if (s.len == 0 || s.len > 19 || !is_digit(s.ptr[0]))
        return false;
    for (size_t i = 0; i < s.len; i++) {
        if (s.ptr[i] == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(s.ptr[i]))
            return false;
        *whole = 10 * *whole + (uint64_t)(s.ptr[i] - '0');
        *places += point;
    }
    return true;
}

/* The text with a NUL behind it, in `small` when it fits. */
static char *with_end(Str s, char *small, size_t size)
{
    char *text = s.len < size ? small : memory_alloc(s.len + 1);
    if (!text)
        return NULL;
    memcpy(text, s.ptr, s.len);
    text[s.len] = '\0';
    return text;
}

/* Both numbers of the division are exact, so its rounding is the only one (W. D. Clinger, How to Read Floating Point Numbers
 * Accurately, 1990). */
bool number_parse_double(Str s, double *out)
{
    char small[64];
    uint64_t whole;
    unsigned places;
    if (short_decimal(s, &whole, &places) && whole <= (uint64_t)1 << 53) {
        *out = (double)whole / double_tens[places];
        return true;
    }
    char *text = is_float(s) ? with_end(s, small, sizeof small) : NULL;
    if (!text)
        return false;
    *out = strtod(text, NULL);
    if (text != small)
        free(text);
    return true;
}

bool number_parse_float(Str s, float *out)
{
    char small[64];
    uint64_t whole;
    unsigned places;
    if (short_decimal(s, &whole, &places) && whole <= (uint64_t)1 << 24 && places <= 10) {
        *out = (float)whole / float_tens[places];
        return true;
    }
    char *text = is_float(s) ? with_end(s, small, sizeof small) : NULL;
    if (!text)
        return false;
    *out = strtof(text, NULL);
    if (text != small)
        free(text);
    return true;
}

/* Room for any double with 17 digits. */
#define NUMBER_TEXT 32

static bool print_special(Buf *b, double v)
{
    if (isnan(v))
        buf_str(b, "nan");
    else if (isinf(v))
        buf_str(b, v > 0 ? "inf" : "-inf");
    else
        return false;
    return true;
}

void number_print_g6(Buf *b, double v)
{
    if (!print_special(b, v))
        buf_printf(b, "%g", v);
}

/* Six digits at most, of which `places` stand behind the point; no last zero there. */
static void print_short_decimal(Buf *b, bool negative, unsigned whole, unsigned places)
{
    char text[16];
    size_t at = sizeof text;
    for (unsigned i = 0; whole > 0 || i <= places; i++, whole /= 10) {
        if (i == places && places > 0)
            text[--at] = '.';
        text[--at] = (char)('0' + whole % 10);
    }
    if (negative)
        text[--at] = '-';
    buf_bytes(b, text + at, sizeof text - at);
}

/* What a whole number of at most six digits, or a fraction of few places, says: the text is the same as "%.6g" writes, whose six
 * digits are further apart than floats are. */
static bool print_few_digits(Buf *b, float v)
{
    float size = fabsf(v);
    if (!(size < 1e6f) || (size < 1e-4f && size > 0))
        return false;
    for (unsigned places = 0; places <= 4 && size * float_tens[places] < 1e6f; places++) {
        unsigned whole = (unsigned)(size * float_tens[places] + 0.5f);
        if (whole < 1000000 && (float)whole / float_tens[places] == size) {
            print_short_decimal(b, signbit(v), whole, places);
            return true;
        }
    }
    return false;
}

/* Significant digits of a number as %g wrote it. */
static int count_digits(const char *text)
{
    int digits = 0;
    for (; *text && *text != 'e'; text++)
        digits += is_digit(*text) && (digits > 0 || *text != '0');
    return digits;
}

/* Six digits come first, so that what they can say looks as "%g" writes it: "1e+06", not
 * "1000000". Any decimal of 15 digits survives the way through a double: what 15 digits say is
 * the shortest. Subnormal numbers lie further apart, and may need fewer. */
void number_print_double(Buf *b, double v)
{
    if (print_special(b, v))
        return;
    char text[NUMBER_TEXT];
    bool subnormal = fabs(v) < DBL_MIN;
    for (int precision = subnormal ? 1 : 6; precision <= 17; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        if (strtod(text, NULL) == v)
            break;
        if (precision == 6 && !subnormal)
            precision = 14;
    }
    int digits = count_digits(text);
    if (digits > 6)
        snprintf(text, sizeof text, "%.*g", digits, v);
    buf_str(b, text);
}

void number_print_float(Buf *b, float v)
{
    if (print_special(b, (double)v) || print_few_digits(b, v))
        return;
    char text[NUMBER_TEXT];
    for (int precision = fabsf(v) < FLT_MIN ? 1 : 6; precision <= 9; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, (double)v);
        if (strtof(text, NULL) == v)
            break;
    }
    buf_str(b, text);
}

/* The fewest digits that `round` brings back to `bits`; at most five, so six digits print them
 * exactly. */
static void print_short(Buf *b, double v, uint16_t bits, uint16_t (*round)(double v))
{
    if (print_special(b, v))
        return;
    char text[NUMBER_TEXT];
    double near = v;
    for (int precision = 1; precision <= 5; precision++) {
        snprintf(text, sizeof text, "%.*g", precision, v);
        near = strtod(text, NULL);
        if (round(near) == bits)
            break;
    }
    buf_printf(b, "%g", near);
}

/* A whole number is as long with zeros at its end as it is exactly, and that is what the original prints. */
void number_print_half(Buf *b, uint16_t bits)
{
    double v = (double)half_to_float(bits);
    if (isfinite(v) && v == floor(v))
        number_print_g6(b, v);
    else
        print_short(b, v, bits, half_from_double);
}

void number_print_bfloat(Buf *b, uint16_t bits)
{
    print_short(b, (double)bfloat_to_float(bits), bits, bfloat_from_double);
}

static uint32_t float_bits(float v)
{
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static float float_of_bits(uint32_t bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

float half_to_float(uint16_t bits)
{
    uint32_t sign = (uint32_t)(bits & 0x8000) << 16;
    uint32_t exponent = bits >> 10 & 0x1f;
    uint32_t fraction = bits & 0x3ff;
    if (exponent == 0x1f)
        return float_of_bits(sign | 0x7f800000 | fraction << 13);
    if (exponent == 0) {
        float v = (float)fraction * 0x1p-24f;
        return sign ? -v : v;
    }
    return float_of_bits(sign | (exponent + 112) << 23 | fraction << 13);
}

uint16_t half_from_double(double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    uint16_t sign = (uint16_t)(bits >> 48 & 0x8000);
    int exponent = (int)(bits >> 52 & 0x7ff) - 1023;
    uint64_t fraction = bits & 0xfffffffffffffu;
    if (exponent == 1024) {
        if (fraction == 0)
            return sign | 0x7c00;
        return (uint16_t)(sign | 0x7e00 | fraction >> 42);
    }
    if (exponent > 15)
        return sign | 0x7c00;
    if (exponent < -25)
        return sign;
    /* Below 2^-14 the unit stays 2^-24. The carry of the rounding runs into the exponent, as it
     * should. */
    int shift = exponent < -14 ? 42 + (-14 - exponent) : 42;
    uint64_t whole =
        exponent < -14 ? fraction | (uint64_t)1 << 52 : fraction | (uint64_t)(exponent + 15) << 52;
    uint64_t rest = whole & (((uint64_t)1 << shift) - 1);
    uint64_t tie = (uint64_t)1 << (shift - 1);
    whole >>= shift;
    whole += rest > tie || (rest == tie && (whole & 1));
    return (uint16_t)(sign | whole);
}

uint16_t half_from_float(float v)
{
    return half_from_double((double)v);
}

float bfloat_to_float(uint16_t bits)
{
    return float_of_bits((uint32_t)bits << 16);
}

float float_odd(double v)
{
    float near = (float)v;
    uint32_t bits = float_bits(near);
    bits -= fabs((double)near) > fabs(v);
    return isnan(v) || (double)near == v ? near : float_of_bits(bits | 1);
}

uint16_t bfloat_from_double(double v)
{
    return bfloat_from_float(float_odd(v));
}

uint16_t bfloat_from_float(float v)
{
    uint32_t bits = float_bits(v);
    if (isnan(v))
        return (uint16_t)(bits >> 16 | 0x40);
    bits += 0x7fff + (bits >> 16 & 1);
    return (uint16_t)(bits >> 16);
}

bool size_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool size_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool int64_mul(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

bool int64_add(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}

bool int64_sub(int64_t a, int64_t b, int64_t *out)
{
    return !__builtin_sub_overflow(a, b, out);
}
