/* Keys of elements, and sorts by them. */
#include "stdlib/ops/order.h"
#include "stdlib/ops/numbers.h"
#include "te/loops.h"

#include <string.h>

Order order_of(const Tensor *x, bool ascend)
{
    DType d = x->dtype;
    int bits = d.bits < 8 ? 8 : d.bits;
    uint64_t top = (uint64_t)1 << (bits - 1), all = top | (top - 1);
    Order o = {.data = x->data,
               .size = dtype_size(d),
               .code_size = bits < 64 ? 4 : 8,
               .bits = bits,
               .turn = (dtype_is_float(d) || dtype_is_signed(d) ? top : 0) ^ (ascend ? 0 : all)};
    if (dtype_is_float(d)) {
        o.low = top - 1;
        o.infinity = d.bits == 64                  ? (uint64_t)0x7ff << 52
                     : d.bits == 32                ? 0x7f800000
                     : d.code == DTYPE_CODE_BFLOAT ? 0x7f80
                                                   : 0x7c00;
    }
    return o;
}

/* Whether there is a negative zero or NaN, of floats; with `alike` both zeros have the key of the positive one. */
#define CODES(NAME, T, CODE)                                                                \
    CLONES static bool NAME(const Order *o, const T *x, int64_t n, bool alike, CODE *codes) \
    {                                                                                       \
        const T low = (T)o->low, turn = (T)o->turn, infinity = (T)o->infinity;              \
        const T zero = alike ? (T)(low + 1) : 0;                                            \
        T odd = 0;                                                                          \
        TE_EACH                                                                             \
        {                                                                                   \
            T v = x[i], is_zero = low && v == (T)(low + 1), is_nan = (v & low) > infinity;  \
            T of = is_zero ? v ^ zero : v;                                                  \
            T key = of ^ (low & (T)(0 - (of >> (8 * sizeof(T) - 1)))) ^ turn;               \
            codes[i] = is_nan ? (T) ~(T)0 : key;                                            \
            odd |= is_zero | is_nan;                                                        \
        }                                                                                   \
        return odd;                                                                         \
    }
CODES(keys_of_8, uint8_t, uint64_t)
CODES(keys_of_16, uint16_t, uint64_t)
CODES(keys_of_32, uint32_t, uint64_t)
CODES(keys_of_64, uint64_t, uint64_t)
CODES(codes_of_8, uint8_t, uint32_t)
CODES(codes_of_16, uint16_t, uint32_t)
CODES(codes_of_32, uint32_t, uint32_t)

void order_keys(const Order *o, int64_t base, int64_t n, uint64_t *keys)
{
    const void *x = o->data + (size_t)base * o->size;
    switch (o->size) {
    case 1: keys_of_8(o, x, n, true, keys); break;
    case 2: keys_of_16(o, x, n, true, keys); break;
    case 4: keys_of_32(o, x, n, true, keys); break;
    default: keys_of_64(o, x, n, true, keys);
    }
}

bool order_codes(const Order *o, const void *x, int64_t n, void *codes)
{
    switch (o->size) {
    case 1: return !codes_of_8(o, x, n, false, codes);
    case 2: return !codes_of_16(o, x, n, false, codes);
    case 4: return !codes_of_32(o, x, n, false, codes);
    default: return !keys_of_64(o, x, n, false, codes);
    }
}

#define ELEMENTS(NAME, T, CODE)                                                 \
    CLONES static void NAME(const Order *o, const CODE *codes, int64_t n, T *x) \
    {                                                                           \
        const T low = (T)o->low, turn = (T)o->turn;                             \
        TE_EACH                                                                 \
        {                                                                       \
            T of = (T)codes[i] ^ turn;                                          \
            x[i] = of ^ (low & (T)(0 - (of >> (8 * sizeof(T) - 1))));           \
        }                                                                       \
    }
ELEMENTS(elements_8, uint8_t, uint32_t)
ELEMENTS(elements_16, uint16_t, uint32_t)
ELEMENTS(elements_32, uint32_t, uint32_t)
ELEMENTS(elements_64, uint64_t, uint64_t)

void order_elements(const Order *o, const void *codes, int64_t n, void *x)
{
    switch (o->size) {
    case 1: elements_8(o, codes, n, x); break;
    case 2: elements_16(o, codes, n, x); break;
    case 4: elements_32(o, codes, n, x); break;
    default: elements_64(o, codes, n, x);
    }
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

static void insert_sort(Item *items, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        Item item = items[i];
        int64_t at = i;
        for (; at > 0 && items[at - 1].key > item.key; at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

static bool sort_runs(Limits *l, Item *items, Item *room, int64_t n, int shift);

/* As many bits of a key as fit, of those in which keys differ, above the place in `from`: such numbers are sorted, in the two halves of `to`,
 * and become items from the last on. */
static Item *sort_words(Limits *l, Item *from, Item *to, int64_t n)
{
    uint64_t *words = (uint64_t *)(void *)to, differ = 0;
    int place = 0, shift = 0; /* bits of a place, and of a key that have no room */
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        differ |= from[i].key ^ from[0].key;
    }
    while (n >> place)
        place++;
    while (differ >> shift >> (64 - place))
        shift++;
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        words[i] = from[i].key >> shift << place | (uint64_t)i;
    }
    if (!numbers_sort(l, words, words + n, n, sizeof *words))
        return NULL;
    for (int64_t i = n - 1; i >= 0; i--) {
        if (limit_hit_at(l, i))
            return NULL;
        to[i] = from[words[i] & (((uint64_t)1 << place) - 1)];
    }
    return !shift || sort_runs(l, to, from, n, shift) ? to : NULL;
}

/* Items in the order of their keys without the last `shift` bits go to that of all bits. Keys of a long run differ in these alone, which then
 * have more room. */
static bool sort_runs(Limits *l, Item *items, Item *room, int64_t n, int shift)
{
    for (int64_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && items[end].key >> shift == items[i].key >> shift; end++)
            if (limit_hit_at(l, end))
                return false;
        if (end - i <= SHORT_ROW)
            insert_sort(items + i, end - i);
        else if (!sort_words(l, items + i, room, end - i))
            return false;
        for (int64_t k = i; end - i > SHORT_ROW && k < end; k++) {
            if (limit_hit_at(l, k))
                return false;
            items[k] = room[k - i];
        }
    }
    return true;
}

/* By keys of a byte: each goes behind those that are less and equal ones in front of it. */
static Item *sort_bytes(Limits *l, const Item *from, Item *to, int64_t n)
{
    int64_t next[UINT8_MAX + 2] = {0};
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        next[from[i].key + 1]++;
    }
    for (int key = 0; key < UINT8_MAX; key++)
        next[key + 1] += next[key];
    for (int64_t i = 0; i < n; i++) {
        if (limit_hit_at(l, i))
            return NULL;
        to[next[from[i].key]++] = from[i];
    }
    return to;
}

Item *order_sort(Limits *l, Item *from, Item *to, int64_t n, int bits)
{
    if (n <= SHORT_ROW)
        return count_sort(from, to, n, bits);
    return bits == 8 ? sort_bytes(l, from, to, n) : sort_words(l, from, to, n);
}
