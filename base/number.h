/* Numbers as text and back, and the short floating-point formats. Independent of the locale. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include "base/buf.h"
#include "base/str.h"

/* Decimal digits with an optional sign; false when it is none or does not fit. */
bool number_parse_int(Str s, int64_t *out);
bool number_parse_uint(Str s, uint64_t *out);
/* A C decimal float, also "inf" and "nan"; false when it is none. Correctly rounded. */
bool number_parse_double(Str s, double *out);
bool number_parse_float(Str s, float *out);

/* The shortest decimal that reads back to the same value, in the manner of %g: "0.1", "1e+10", "3",
 * "inf", "nan". */
void number_print_double(Buf *b, double v);
void number_print_float(Buf *b, float v);
/* C's "%g" with its six digits, which does not always read back; "nan" without a sign. */
void number_print_g6(Buf *b, double v);
/* The shortest decimal that reads back to the same half or bfloat after rounding; a half that is whole exactly. */
void number_print_half(Buf *b, uint16_t bits);
void number_print_bfloat(Buf *b, uint16_t bits);

/* IEEE half and bfloat16, round to nearest even; NaN stays NaN. */
float half_to_float(uint16_t bits);
uint16_t half_from_float(float v);
uint16_t half_from_double(double v);
float bfloat_to_float(uint16_t bits);
uint16_t bfloat_from_float(float v);
uint16_t bfloat_from_double(double v);
/* The float next to v whose last bit is 1, or v itself: rounding it once more to fewer bits gives what rounding v would. */
float float_odd(double v);

/* a * b, a + b and a - b; false on overflow. */
bool size_mul(size_t a, size_t b, size_t *out);
bool size_add(size_t a, size_t b, size_t *out);
bool int64_mul(int64_t a, int64_t b, int64_t *out);
bool int64_add(int64_t a, int64_t b, int64_t *out);
bool int64_sub(int64_t a, int64_t b, int64_t *out);

#endif
