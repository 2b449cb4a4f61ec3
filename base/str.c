#include "base/str.h"

#include <stdlib.h>
#include <string.h>

Str str_of(const char *text)
{
    return (Str){text, strlen(text)};
}

bool str_eq(Str a, Str b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.ptr, b.ptr, a.len) == 0);
}

bool str_is(Str a, const char *text)
{
    return str_eq(a, str_of(text));
}

/* Multiplication spreads upwards, the shift brings the high bits down again. */
static uint64_t mix(uint64_t h)
{
    h *= 0x9e3779b97f4a7c15u;
    return h ^ h >> 32;
}

/* Fewer than eight bytes as a word, zeroes above; without a call, since most names are short. */
static uint64_t few_bytes(const char *s, size_t n)
{
    uint32_t first, last;
    if (n < 4) {
        uint64_t word = (unsigned char)s[0];
        word |= n > 1 ? (uint64_t)(unsigned char)s[1] << 8 : 0;
        return word | (n > 2 ? (uint64_t)(unsigned char)s[2] << 16 : 0);
    }
    memcpy(&first, s, sizeof first);
    memcpy(&last, s + n - sizeof last, sizeof last);
    return first | (uint64_t)last << 8 * (n - 4);
}

uint64_t hash_bytes(const void *p, size_t n, uint64_t seed)
{
    const char *s = p;
    uint64_t h = mix(seed ^ n);
    uint64_t word;
    for (; n >= sizeof word; n -= sizeof word, s += sizeof word) {
        memcpy(&word, s, sizeof word);
        h = mix(h ^ word);
    }
    if (n > 0)
        h = mix(h ^ few_bytes(s, n));
    return mix(h);
}

void interner_init(Interner *in, Arena *arena)
{
    *in = (Interner){.arena = arena};
}

void interner_deinit(Interner *in)
{
    *in = (Interner){0};
}

/* Names that differ in their last character alone, as `x10` and `x11`, stand side by side: such are made and used one after the
 * other, and of a large program's names most would be in no cache. */
static uint32_t hash_name(const char *text, size_t len)
{
    uint32_t last = len ? (unsigned char)text[len - 1] : 0;
    return ((uint32_t)hash_bytes(text, len - !!len, 0) << 4) + (last & 15);
}

/* The slots live in the arena too: interning never fails. */
static void grow(Interner *in)
{
    size_t cap = in->cap ? in->cap * 2 : 64;
    NameSlot *slots = arena_alloc_must(in->arena, cap, sizeof *slots);
    for (size_t i = 0; i < in->cap; i++) {
        if (!in->slots[i].number)
            continue;
        size_t at = in->slots[i].hash & (cap - 1);
        while (slots[at].number)
            at = (at + 1) & (cap - 1);
        slots[at] = in->slots[i];
    }
    in->slots = slots;
    in->cap = cap;
}

/* Where the name stands, or would. */
static NameSlot *slot_of(const Interner *in, const char *text, size_t len, uint32_t hash)
{
    size_t at = hash & (in->cap - 1);
    for (; in->slots[at].number; at = (at + 1) & (in->cap - 1)) {
        if (in->slots[at].hash != hash)
            continue;
        const Name *old = in->names.at[in->slots[at].number - 1];
        if (str_eq((Str){old->text, old->len}, (Str){text, len}))
            break;
    }
    return &in->slots[at];
}

const Name *name_find(const Interner *in, const char *text, size_t len)
{
    if (in->names.n == 0 || len > in->longest)
        return NULL;
    uint32_t number = slot_of(in, text, len, hash_name(text, len))->number;
    return number ? in->names.at[number - 1] : NULL;
}

const Name *name_intern(Interner *in, const char *text, size_t len)
{
    if (in->names.n * 2 >= in->cap)
        grow(in);
    uint32_t hash = hash_name(text, len);
    NameSlot *slot = slot_of(in, text, len, hash);
    if (slot->number)
        return in->names.at[slot->number - 1];
    Name *name = arena_alloc_must(in->arena, sizeof *name + len + 1, 1);
    name->id = (uint32_t)in->names.n;
    name->len = (uint32_t)len;
    if (len > 0)
        memcpy(name->text, text, len);
    vec_push(&in->names, in->arena, name);
    in->longest = len > in->longest ? len : in->longest;
    *slot = (NameSlot){(uint32_t)in->names.n, hash};
    return name;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Names longer than this are never near to one another. */
#define DISTANCE_TEXT 64

int str_distance(Str a, Str b, int most)
{
    size_t gap = a.len > b.len ? a.len - b.len : b.len - a.len;
    if (gap > (size_t)most || a.len > DISTANCE_TEXT || b.len > DISTANCE_TEXT)
        return str_eq(a, b) ? 0 : most + 1;
    /* rows[i % 3][j] is the distance of the first i characters of a and the first j of b. */
    int rows[3][DISTANCE_TEXT + 1];
    for (size_t j = 0; j <= b.len; j++)
        rows[0][j] = (int)j;
    for (size_t i = 1; i <= a.len; i++) {
        int *row = rows[i % 3];
        const int *above = rows[(i - 1) % 3];
        row[0] = (int)i;
        for (size_t j = 1; j <= b.len; j++) {
            int same = a.ptr[i - 1] == b.ptr[j - 1] ? 0 : 1;
            row[j] = least(above[j - 1] + same, least(above[j], row[j - 1]) + 1);
            bool swapped =
                i > 1 && j > 1 && a.ptr[i - 1] == b.ptr[j - 2] && a.ptr[i - 2] == b.ptr[j - 1];
            if (swapped)
                row[j] = least(row[j], rows[(i - 2) % 3][j - 2] + 1);
        }
    }
    return least(rows[a.len % 3][b.len], most + 1);
}
