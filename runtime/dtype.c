#include "runtime/dtype.h"

#include "base/number.h"

#include <float.h>
#include <math.h>
#include <string.h>

static const DTypeRow rows[] = {
#define DTYPE(id, name, code, bits, ctype, numpy) {name, {code, bits, 1}, sizeof(ctype), numpy},
#include "runtime/dtypes.def"
#undef DTYPE
};

const DTypeRow *dtype_row(DTypeId id)
{
    return &rows[id];
}

DTypeId dtype_id(DType t)
{
    /* Numbers from 1, by code and bits; a byte of bits and three bits of code. */
    static const uint8_t ids[1 << 11] = {
#define DTYPE(id, name, code, bits, ctype, numpy) [(code) << 8 | (bits)] = DT_##id + 1,
#include "runtime/dtypes.def"
#undef DTYPE
    };
    uint8_t id = t.code < 8 && t.lanes == 1 ? ids[t.code << 8 | t.bits] : 0;
    return id ? (DTypeId)(id - 1) : DTYPE_IDS;
}

DType dtype_of(DTypeId id)
{
    return rows[id].dtype;
}

size_t dtype_size(DType t)
{
    DTypeId id = dtype_id(t);
    return id == DTYPE_IDS ? 0 : rows[id].size;
}

bool dtype_eq(DType a, DType b)
{
    return a.code == b.code && a.bits == b.bits && a.lanes == b.lanes;
}

bool dtype_is_void(DType t)
{
    return t.bits == 0;
}

bool dtype_is_bool(DType t)
{
    return t.code == DTYPE_CODE_UINT && t.bits == 1;
}

bool dtype_is_int(DType t)
{
    return (t.code == DTYPE_CODE_INT || t.code == DTYPE_CODE_UINT) && t.bits > 1;
}

bool dtype_is_signed(DType t)
{
    return t.code != DTYPE_CODE_UINT;
}

bool dtype_is_float(DType t)
{
    return t.code == DTYPE_CODE_FLOAT || t.code == DTYPE_CODE_BFLOAT;
}

double dtype_largest(DType t)
{
    return t.bits >= 64                  ? DBL_MAX
           : t.code == DTYPE_CODE_BFLOAT ? 3.3895313892515355e38
           : t.bits == 32                ? (double)FLT_MAX
                                         : 65504.0;
}

static double half_load(const void *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return (double)half_to_float(bits);
}

static double bfloat_load(const void *p)
{
    uint16_t bits;
    memcpy(&bits, p, sizeof bits);
    return (double)bfloat_to_float(bits);
}

#define CASES(M)        \
    M(BOOL, uint8_t)    \
    M(INT8, int8_t)     \
    M(INT16, int16_t)   \
    M(INT32, int32_t)   \
    M(INT64, int64_t)   \
    M(UINT8, uint8_t)   \
    M(UINT16, uint16_t) \
    M(UINT32, uint32_t) \
    M(UINT64, uint64_t)

double dtype_get_double(DType t, const void *element)
{
    switch (dtype_id(t)) {
#define GET(id, ctype)                 \
    case DT_##id: {                    \
        ctype v;                       \
        memcpy(&v, element, sizeof v); \
        return (double)v;              \
    }
        CASES(GET)
        GET(FLOAT32, float)
        GET(FLOAT64, double)
#undef GET
    case DT_FLOAT16: return half_load(element);
    case DT_BFLOAT16: return bfloat_load(element);
    case DTYPE_IDS: break;
    }
    return 0;
}

static int64_t saturate(double v)
{
    if (isnan(v))
        return 0;
    if (v >= 0x1p63)
        return INT64_MAX;
    if (v < -0x1p63)
        return INT64_MIN;
    return (int64_t)v;
}

int64_t dtype_get_int(DType t, const void *element)
{
    switch (dtype_id(t)) {
#define GET(id, ctype)                 \
    case DT_##id: {                    \
        ctype v;                       \
        memcpy(&v, element, sizeof v); \
        return (int64_t)v;             \
    }
        CASES(GET)
#undef GET
    case DT_FLOAT16:
    case DT_FLOAT32:
    case DT_FLOAT64:
    case DT_BFLOAT16: return saturate(dtype_get_double(t, element));
    case DTYPE_IDS: break;
    }
    return 0;
}

void dtype_set_int(DType t, void *element, int64_t v)
{
    switch (dtype_id(t)) {
#define SET(id, ctype)                                      \
    case DT_##id: {                                         \
        ctype x = (ctype)(DT_##id == DT_BOOL ? v != 0 : v); \
        memcpy(element, &x, sizeof x);                      \
        return;                                             \
    }
        CASES(SET)
        SET(FLOAT32, float)
        SET(FLOAT64, double)
#undef SET
    case DT_FLOAT16:
    case DT_BFLOAT16: dtype_set_double(t, element, (double)v); return;
    case DTYPE_IDS: return;
    }
}

/* An integer type from a double: towards zero, held at the ends of its range. */
static void set_clamped(DType t, void *element, double v)
{
    int bits = t.bits;
    bool is_signed = dtype_is_signed(t);
    double most = ldexp(1, is_signed ? bits - 1 : bits);
    double least = is_signed ? -most : 0;
    if (isnan(v))
        v = 0;
    v = trunc(v);
    if (v >= most) {
        uint64_t ones = is_signed ? (UINT64_MAX >> 1) >> (64 - bits) : UINT64_MAX >> (64 - bits);
        dtype_set_int(t, element, (int64_t)ones);
        return;
    }
    if (v <= least)
        v = least;
    dtype_set_int(t, element, v >= 0x1p63 ? (int64_t)(uint64_t)v : (int64_t)v);
}

void dtype_set_double(DType t, void *element, double v)
{
    uint16_t bits;
    float f;
    switch (dtype_id(t)) {
    case DT_BOOL: *(uint8_t *)element = v != 0; return;
    case DT_INT8:
    case DT_INT16:
    case DT_INT32:
    case DT_INT64:
    case DT_UINT8:
    case DT_UINT16:
    case DT_UINT32:
    case DT_UINT64: set_clamped(t, element, v); return;
    case DT_FLOAT16:
        bits = half_from_double(v);
        memcpy(element, &bits, sizeof bits);
        return;
    case DT_BFLOAT16:
        bits = bfloat_from_double(v);
        memcpy(element, &bits, sizeof bits);
        return;
    case DT_FLOAT32:
        f = (float)v;
        memcpy(element, &f, sizeof f);
        return;
    case DT_FLOAT64: memcpy(element, &v, sizeof v); return;
    case DTYPE_IDS: return;
    }
}

/* Names of the codes as text begins them, and the width when none follows (0: one must). */
static const struct {
    const char *word;
    DTypeCode code;
    uint8_t bits;
} words[] = {
    {"int", DTYPE_CODE_INT, 32},
    {"uint", DTYPE_CODE_UINT, 32},
    {"float", DTYPE_CODE_FLOAT, 32},
    {"bfloat", DTYPE_CODE_BFLOAT, 0},
};

/* A number from 1 to `most` at the start of `s`, which moves on; 0 when there is none. */
static uint64_t take_number(Str *s, uint64_t most)
{
    uint64_t v = 0;
    while (s->len > 0 && s->ptr[0] >= '0' && s->ptr[0] <= '9' && v <= most) {
        v = v * 10 + (uint64_t)(s->ptr[0] - '0');
        *s = (Str){s->ptr + 1, s->len - 1};
    }
    return v <= most ? v : 0;
}

/* dtype ::= "" | "void" | ( "bool" | ("int"|"uint"|"float") [bits] | "bfloat16" ) [ "x" lanes ] */
bool dtype_parse(Str name, DType *out)
{
    DType t = {0};
    if (name.len == 0 || str_is(name, "void")) {
        *out = t;
        return true;
    }
    t.lanes = 1;
    if (name.len >= 4 && memcmp(name.ptr, "bool", 4) == 0) {
        t.code = DTYPE_CODE_UINT;
        t.bits = 1;
        name = (Str){name.ptr + 4, name.len - 4};
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0] && t.bits == 0; i++) {
        size_t n = strlen(words[i].word);
        if (name.len < n || memcmp(name.ptr, words[i].word, n) != 0)
            continue;
        name = (Str){name.ptr + n, name.len - n};
        bool given = name.len > 0 && name.ptr[0] != 'x';
        t.code = (uint8_t)words[i].code;
        t.bits = given ? (uint8_t)take_number(&name, 128) : words[i].bits;
        if (t.bits == 0 || (t.code == DTYPE_CODE_BFLOAT && t.bits != 16))
            return false;
    }
    if (t.bits == 0)
        return false;
    if (name.len > 1 && name.ptr[0] == 'x') {
        name = (Str){name.ptr + 1, name.len - 1};
        t.lanes = (uint16_t)take_number(&name, UINT16_MAX);
    }
    if (name.len > 0 || t.lanes == 0)
        return false;
    *out = t;
    return true;
}

void dtype_print(Buf *b, DType t)
{
    if (dtype_is_void(t)) {
        buf_str(b, "void");
        return;
    }
    if (dtype_is_bool(t) && t.lanes == 1) {
        buf_str(b, "bool");
        return;
    }
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (words[i].code == t.code)
            buf_str(b, words[i].word);
    }
    buf_uint(b, t.bits);
    if (t.lanes > 1)
        buf_printf(b, "x%u", t.lanes);
}
