#include "sched/words.h"

static const DType i32 = {DTYPE_CODE_INT, 32, 1};

#define HIGH_BITS (-2139062144.0) /* 0x80808080 */
#define ONES 16843009.0 /* 0x01010101 */

static bool is_float32(DType t)
{
    return t.code == DTYPE_CODE_FLOAT && t.bits == 32;
}

static bool is_byte(DType t)
{
    return dtype_is_int(t) && t.bits == 8;
}

/* A number of 16 bits with its sign holds it. */
static bool is_half(DType t)
{
    return is_byte(t) || (dtype_is_signed(t) && t.bits == 16);
}

bool words_of(bool dots, DType sum, DType data, DType weights, Words *out)
{
    *out = (Words){.each = 1};
    if (is_float32(sum) || dtype_eq(data, i32))
        return dtype_eq(sum, data) && dtype_eq(sum, weights);
    if (!dtype_eq(sum, i32) || !is_half(data) || !is_half(weights))
        return false;
    out->each = 2;
    if (dots && is_byte(data) && is_byte(weights)) {
        out->each = 4;
        out->flips = dtype_is_signed(data) == dtype_is_signed(weights);
        out->turned = !dtype_is_signed(weights);
    }
    return true;
}

DType words_dtype(const Words *w, DType element)
{
    return w->each > 1 ? i32 : element;
}

int64_t words_along(const Words *w, int64_t extent)
{
    return (extent + w->each - 1) / w->each;
}

double words_zero(const Words *w)
{
    return w->flips ? HIGH_BITS : 0;
}

Te *words_pack(TeBuilder *b, const Words *w, Te *const *elements, int n, bool data)
{
    if (w->each == 1)
        return elements[0];
    int bits = 32 / w->each;
    Te *mask = te_number(b, i32, w->each == 4 ? 0xff : 0xffff), *word = NULL;
    for (int i = 0; i < n; i++) {
        Te *part = te_binary(b, TE_AND, te_cast(b, i32, elements[i]), mask);
        if (i > 0)
            part = te_binary(b, TE_SHL, part, te_number(b, i32, bits * i));
        word = word ? te_binary(b, TE_OR, word, part) : part;
    }
    return data && w->flips ? te_binary(b, TE_XOR, word, te_number(b, i32, HIGH_BITS)) : word;
}

Te *words_product(TeBuilder *b, const Words *w, Te *data, Te *weights)
{
    if (w->each == 1)
        return te_binary(b, TE_MUL, data, weights);
    if (w->each == 2)
        return te_binary(b, TE_PAIRS, data, weights);
    return w->turned ? te_binary(b, TE_DOTS, weights, data) : te_binary(b, TE_DOTS, data, weights);
}

Te *words_start(TeBuilder *b, const Words *w, Te *weights)
{
    Te *ones = te_number(b, i32, ONES);
    Te *sum = words_product(b, w, ones, weights);
    return te_binary(b, TE_MUL, sum, te_number(b, i32, w->turned ? 128 : -128));
}
