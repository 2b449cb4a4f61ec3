/* Keys of elements, and sorts by them. */
#include "stdlib/ops/order.h"
#include "te/loops.h"

#include <string.h>

enum {
    DIGIT = 8,
    DIGITS = 1 << DIGIT,
    WORD = 32,
};

bool order_begin(Order *o, OpCall *c, Tensor *x, bool ascend)
{
    DType d = x->dtype;
    DTypeId to = dtype_is_float(d)    ? d.bits == 64 ? DT_FLOAT64 : DT_FLOAT32
                 : dtype_is_signed(d) ? DT_INT64
                                      : DT_UINT64;
    tensor_retain(x);
    o->dtype = d;
    o->ascend = ascend;
    o->bits = dtype_is_float(d) && d.bits < 32 ? 32 : d.bits < 8 ? 8 : d.bits;
    o->wide = kernel_cast(c, x, dtype_of(to));
    return o->wide != NULL;
}

void order_end(Order *o)
{
    tensor_release(o->wide);
}

/* The order of floats as an order of unsigned numbers: both zeros alike, NaN behind everything. */
CLONES static void keys_of_floats(const float *x, int64_t n, uint32_t flip, uint64_t *keys)
{
    TE_EACH
    {
        float v = x[i] + 0.0f;
        uint32_t bits;
        memcpy(&bits, &v, sizeof bits);
        uint32_t key = bits ^ (0x80000000U | (0U - (bits >> 31))) ^ flip;
        keys[i] = v != v ? UINT32_MAX : key;
    }
}

CLONES static void keys_of_doubles(const double *x, int64_t n, uint64_t flip, uint64_t *keys)
{
    TE_EACH
    {
        double v = x[i] + 0.0;
        uint64_t bits;
        memcpy(&bits, &v, sizeof bits);
        uint64_t key = bits ^ ((uint64_t)1 << 63 | (0U - (bits >> 63))) ^ flip;
        keys[i] = v != v ? UINT64_MAX : key;
    }
}

CLONES static void keys_of_ints(const uint64_t *x, int64_t n, uint64_t all, uint64_t flip,
                                uint64_t *keys)
{
    TE_EACH keys[i] = (x[i] & all) ^ flip;
}

void order_keys(const Order *o, int64_t base, int64_t n, uint64_t *keys)
{
    uint64_t top = (uint64_t)1 << (o->bits - 1), all = top | (top - 1), flip = o->ascend ? 0 : all;
    const void *x = o->wide->data + (size_t)base * dtype_size(o->wide->dtype);
    if (!dtype_is_float(o->dtype))
        keys_of_ints(x, n, all, flip ^ (dtype_is_signed(o->dtype) ? top : 0), keys);
    else if (o->bits == 64)
        keys_of_doubles(x, n, flip, keys);
    else
        keys_of_floats(x, n, (uint32_t)flip, keys);
}

/* ---- few of them --------------------------------------------------------------------------------- */

typedef uint64_t Wide __attribute__((vector_size(SIDE * sizeof(uint64_t) / 2)));
typedef uint32_t Narrow __attribute__((vector_size(SIDE * sizeof(uint32_t))));

CLONES static void less_narrow(const uint64_t *keys, int64_t n, uint32_t *less)
{
    uint32_t narrow[SHORT_ROW];
    for (int64_t i = 0; i < n; i++)
        narrow[i] = (uint32_t)keys[i];
    for (int64_t i = 0; i < n; i += SIDE) {
        Narrow of, sum = {0};
        memcpy(&of, narrow + i, sizeof of);
        for (int64_t k = 0; k < n; k++)
            sum -= (Narrow)(narrow[k] < of);
        memcpy(less + i, &sum, sizeof sum);
    }
}

CLONES static void less_wide(const uint64_t *keys, int64_t n, uint32_t *less)
{
    uint64_t wide[SHORT_ROW];
    for (int64_t i = 0; i < n; i++)
        wide[i] = keys[i];
    for (int64_t i = 0; i < n; i += SIDE / 2) {
        Wide of, sum = {0};
        memcpy(&of, wide + i, sizeof of);
        for (int64_t k = 0; k < n; k++)
            sum -= (Wide)(wide[k] < of);
        for (int64_t j = 0; j < SIDE / 2; j++)
            less[i + j] = (uint32_t)sum[j];
    }
}

void order_less(const uint64_t *keys, int64_t n, int bits, uint32_t *less)
{
    if (bits <= 32)
        less_narrow(keys, n, less);
    else
        less_wide(keys, n, less);
}

void order_places(const uint64_t *keys, int64_t n, int bits, uint32_t *places)
{
    uint8_t equal[SHORT_ROW] = {0};
    order_less(keys, n, bits, places);
    for (int64_t i = 0; i < n; i++)
        places[i] += equal[places[i]]++;
}

static Item *count_sort(const Item *from, Item *to, int64_t n, int bits)
{
    uint64_t keys[SHORT_ROW] = {0};
    uint32_t places[SHORT_ROW];
    for (int64_t i = 0; i < n; i++)
        keys[i] = from[i].key;
    order_places(keys, n, bits, places);
    for (int64_t i = 0; i < n; i++)
        to[places[i]] = from[i];
    return to;
}

/* ---- many of them -------------------------------------------------------------------------------- */

/* By one digit after the other, the lowest first; what is equal keeps its order. Digits that all keys share are left out. */
static Item *radix_sort(Limits *l, Item *from, Item *to, int64_t n, int bits)
{
    uint64_t differ = 0;
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        differ |= from[i].key ^ from[0].key;
    }
    for (int shift = 0; shift < bits; shift += DIGIT) {
        int64_t next[DIGITS] = {0}, at = 0;
        if (!(differ >> shift & (DIGITS - 1)))
            continue;
        for (int64_t i = 0; i < n; i++) {
            if (limit_hit_at(l, i))
                return NULL;
            next[from[i].key >> shift & (DIGITS - 1)]++;
        }
        for (int d = 0; d < DIGITS; d++) {
            int64_t many = next[d];
            next[d] = at;
            at += many;
        }
        for (int64_t i = 0; i < n; i++) {
            if (limit_hit_at(l, i))
                return NULL;
            to[next[from[i].key >> shift & (DIGITS - 1)]++] = from[i];
        }
        Item *t = from;
        from = to;
        to = t;
    }
    return from;
}

/* Where each digit's items go, of how many there are; false where one digit has them all. */
static bool places_of_digits(uint32_t *next, int64_t n)
{
    uint32_t at = 0;
    for (int d = 0; d < DIGITS; d++) {
        uint32_t many = next[d];
        if (many == n)
            return false;
        next[d] = at;
        at += many;
    }
    return true;
}

/* The same of keys of WORD bits at most, each in one number above its place, so that half as much is moved. They lie in the two halves
 * of `to`. */
static Item *sort_words(Limits *l, Item *from, Item *to, int64_t n)
{
    uint64_t *words = (uint64_t *)(void *)to, *sorted = words + n;
    uint32_t next[WORD / DIGIT][DIGITS] = {{0}};
    uint64_t places = 0;
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        for (int d = 0; d < WORD / DIGIT; d++)
            next[d][from[i].key >> d * DIGIT & (DIGITS - 1)]++;
        words[i] = from[i].key << WORD | (uint64_t)from[i].at;
        places |= (uint64_t)from[i].at;
    }
    if (places > UINT32_MAX)
        return radix_sort(l, from, to, n, WORD);
    for (int d = 0; d < WORD / DIGIT; d++) {
        if (!places_of_digits(next[d], n))
            continue;
        for (int64_t i = 0; i < n; i++) {
            if (limit_hit_at(l, i))
                return NULL;
            sorted[next[d][words[i] >> (WORD + d * DIGIT) & (DIGITS - 1)]++] = words[i];
        }
        uint64_t *t = words;
        words = sorted;
        sorted = t;
    }
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        from[i] = (Item){words[i] >> WORD, (int64_t)(words[i] & UINT32_MAX)};
    }
    return from;
}

Item *order_sort(Limits *l, Item *from, Item *to, int64_t n, int bits)
{
    if (n <= SHORT_ROW)
        return count_sort(from, to, n, bits);
    return bits <= WORD && n <= UINT32_MAX ? sort_words(l, from, to, n)
                                           : radix_sort(l, from, to, n, bits);
}
