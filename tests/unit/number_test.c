#include "base/number.h"
#include "check.h"

#include <math.h>

static uint64_t state = 0x9e3779b97f4a7c15u;

static uint64_t next_random(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
}

/* Each half and bfloat there is: to float and back, and through its text. */
static void test_short_formats(void)
{
    Buf b = {0};
    for (uint32_t i = 0; i < 65536; i++) {
        uint16_t bits = (uint16_t)i;
        float h = half_to_float(bits), f = bfloat_to_float(bits);
        double v;
        CHECK(isnan(h) ? isnan(half_to_float(half_from_float(h))) : half_from_float(h) == bits);
        CHECK(isnan(f) ? isnan(bfloat_to_float(bfloat_from_float(f)))
                       : bfloat_from_float(f) == bits);
        buf_clear(&b);
        number_print_half(&b, bits);
        CHECK(number_parse_double(str_of(buf_text(&b)), &v));
        CHECK(isnan(h) ? isnan(v) : half_from_double(v) == bits);
        buf_clear(&b);
        number_print_bfloat(&b, bits);
        CHECK(number_parse_double(str_of(buf_text(&b)), &v));
        CHECK(isnan(f) ? isnan(v) : bfloat_from_float((float)v) == bits);
    }
    buf_deinit(&b);
}

/* Ties go to the even neighbour, everything else to the nearer one. */
static void test_rounding(void)
{
    for (uint32_t i = 0; i < 0x7bff; i++) {
        double low = (double)half_to_float((uint16_t)i),
               high = (double)half_to_float((uint16_t)(i + 1));
        double middle = (low + high) / 2;
        CHECK(half_from_double(middle) == (i & 1 ? i + 1 : i));
        CHECK(half_from_double(nextafter(middle, 0)) == i);
        CHECK(half_from_double(nextafter(middle, 1e9)) == i + 1);
        CHECK(half_from_double(-middle) == (0x8000 | (i & 1 ? i + 1 : i)));
    }
    CHECK(half_from_double(65519.99) == 0x7bff);
    CHECK(half_from_double(65520) == 0x7c00);
    CHECK(half_from_double(1e-30) == 0);
    CHECK(half_from_double(-1e-30) == 0x8000);
    CHECK(half_from_double(0x1p-25) == 0);
    CHECK(half_from_double(0x1.8p-25) == 1);
    CHECK(bfloat_from_float(INFINITY) == 0x7f80);
    CHECK(bfloat_from_float(3.4e38f) == 0x7f80);
    CHECK(bfloat_from_float(1.00390625f) == 0x3f80);
    CHECK(bfloat_from_double(1.00390625 + 0x1p-30) == 0x3f81);
    CHECK(bfloat_from_double(1.01171875 - 0x1p-30) == 0x3f81);
    CHECK(bfloat_from_float(1.01171875f) == 0x3f82);
}

static void test_round_trips(void)
{
    Buf b = {0};
    for (int i = 0; i < 100000; i++) {
        uint64_t bits = next_random();
        uint32_t half = (uint32_t)bits;
        double d, d2;
        float f, f2;
        memcpy(&d, &bits, sizeof d);
        memcpy(&f, &half, sizeof f);
        buf_clear(&b);
        number_print_double(&b, d);
        CHECK(number_parse_double(str_of(buf_text(&b)), &d2) && (isnan(d) ? isnan(d2) : d == d2));
        buf_clear(&b);
        number_print_float(&b, f);
        CHECK(number_parse_float(str_of(buf_text(&b)), &f2) && (isnan(f) ? isnan(f2) : f == f2));
    }
    buf_deinit(&b);
}

/* Nothing shorter than what was printed reads back to the same number. */
static void test_shortest(void)
{
    Buf b = {0};
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = next_random();
        double d;
        memcpy(&d, &bits, sizeof d);
        if (!isfinite(d) || fabs(d) < 1e-300)
            continue;
        int digits = 1;
        char text[40];
        for (; digits < 17; digits++) {
            double back;
            snprintf(text, sizeof text, "%.*e", digits - 1, d);
            if (number_parse_double(str_of(text), &back) && back == d)
                break;
        }
        buf_clear(&b);
        number_print_double(&b, d);
        int printed = 0;
        for (const char *p = buf_text(&b); *p && *p != 'e'; p++)
            printed += (*p >= '0' && *p <= '9') && (printed > 0 || *p != '0');
        CHECK(printed <= digits);
    }
    buf_deinit(&b);
}

static const struct {
    double value;
    const char *as_double, *as_float;
} forms[] = {
    {0, "0", "0"},
    {-0.0, "-0", "-0"},
    {1, "1", "1"},
    {-3, "-3", "-3"},
    {100000, "100000", "100000"},
    {1e6, "1e+06", "1e+06"},
    {123456, "123456", "123456"},
    {1234567, "1234567", "1234567"},
    {16777216, "16777216", "16777216"},
    {0.1, "0.1", "0.1"},
    {0.0001, "0.0001", "0.0001"},
    {0.00001, "1e-05", "1e-05"},
    {1e10, "1e+10", "1e+10"},
    {1e22, "1e+22", "1e+22"},
    {0.30000000000000004, "0.30000000000000004", "0.3"},
    {1.0 / 3, "0.3333333333333333", "0.33333334"},
    {3.141592653589793, "3.141592653589793", "3.1415927"},
    {5e-324, "5e-324", "0"},
    {1e-45, "1e-45", "1e-45"},
    {1.1e-44, "1.1e-44", "1.1e-44"},
    {1e-320, "1e-320", "0"},
    {1.1754942e-38, "1.1754942e-38", "1.1754942e-38"},
    {INFINITY, "inf", "inf"},
    {-INFINITY, "-inf", "-inf"},
};

static void test_forms(void)
{
    Buf b = {0};
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        buf_clear(&b);
        number_print_double(&b, forms[i].value);
        CHECK_TEXT(buf_text(&b), forms[i].as_double);
        buf_clear(&b);
        number_print_float(&b, (float)forms[i].value);
        CHECK_TEXT(buf_text(&b), forms[i].as_float);
    }
    buf_clear(&b);
    number_print_g6(&b, 3.141592653589793);
    buf_char(&b, ' ');
    number_print_g6(&b, -NAN);
    buf_char(&b, ' ');
    number_print_half(&b, half_from_double(0.1));
    buf_char(&b, ' ');
    number_print_half(&b, half_from_double(10));
    CHECK_TEXT(buf_text(&b), "3.14159 nan 0.1 10");
    buf_deinit(&b);
}

static void test_parse(void)
{
    static const char *const bad[] = {"",     "-",     "+",      ".",    "e5", "1e",   "1e+",
                                      "0x10", "1.2.3", "1 ",     " 1",   "1f", "in",   "INF",
                                      "infi", "--1",   "nan(1)", "1e5.", "١",  "1e++", "-+inf"};
    double d;
    int64_t i;
    uint64_t u;
    for (size_t k = 0; k < sizeof bad / sizeof bad[0]; k++) {
        CHECK(!number_parse_double(str_of(bad[k]), &d));
        CHECK(!number_parse_int(str_of(bad[k]), &i));
    }
    CHECK(number_parse_double(str_of("1."), &d) && d == 1);
    CHECK(number_parse_double(str_of(".5e1"), &d) && d == 5);
    CHECK(number_parse_double(str_of("1e999"), &d) && isinf(d));
    CHECK(number_parse_double(str_of("-inf"), &d) && isinf(d) && d < 0);
    CHECK(number_parse_double((Str){"12345", 3}, &d) && d == 123);
    char digits[400];
    memset(digits, '1', sizeof digits - 1);
    digits[sizeof digits - 1] = '\0';
    CHECK(number_parse_double(str_of(digits), &d) && isinf(d));
    CHECK(number_parse_int(str_of("9223372036854775807"), &i) && i == INT64_MAX);
    CHECK(!number_parse_int(str_of("9223372036854775808"), &i));
    CHECK(number_parse_int(str_of("-9223372036854775808"), &i) && i == INT64_MIN);
    CHECK(!number_parse_int(str_of("-9223372036854775809"), &i));
    CHECK(number_parse_uint(str_of("18446744073709551615"), &u) && u == UINT64_MAX);
    CHECK(!number_parse_uint(str_of("18446744073709551616"), &u));
    CHECK(!number_parse_uint(str_of("-1"), &u));
    CHECK(number_parse_int(str_of("+007"), &i) && i == 7);
}

static void test_checked(void)
{
    size_t s;
    int64_t i;
    CHECK(size_mul(1u << 20, 1u << 20, &s) && s == (size_t)1 << 40);
    CHECK(!size_mul(SIZE_MAX, 2, &s));
    CHECK(!size_add(SIZE_MAX, 1, &s));
    CHECK(!int64_mul(INT64_MAX, 2, &i));
    CHECK(int64_mul(-3, 4, &i) && i == -12);
    CHECK(!int64_add(INT64_MIN, -1, &i));
}

int main(void)
{
    test_short_formats();
    test_rounding();
    test_round_trips();
    test_shortest();
    test_forms();
    test_parse();
    test_checked();
    return check_done();
}
