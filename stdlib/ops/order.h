/* The order of elements, as unsigned numbers that order as they do, and sorts by such keys.
 *
 *     Order o = order_of(x, true);                // ascending
 *     order_keys(&o, base, n, keys);
 *     Item *least = order_sort(&c->cx->limits, items, items + n, n, o.bits);
 */
#ifndef STDLIB_OPS_ORDER_H
#define STDLIB_OPS_ORDER_H

#include "stdlib/ops/ops.h"

typedef struct Order {
    const char *data; /* the elements */
    size_t size; /* of one, and of a code: 4 or 8 */
    size_t code_size;
    int bits; /* of a key */
    /* A key is the element with these bits turned: all but the first of negative floats; of any. Floats above the last are no numbers. */
    uint64_t low, turn, infinity;
} Order;

/* A key and where its element stands. */
typedef struct Item {
    uint64_t key;
    int64_t at;
} Item;

enum {
    SHORT_ROW = 128, /* up to which to count what is less is fastest */
    SIDE = 16, /* neighbours that are looked at at once */
};

Order order_of(const Tensor *x, bool ascend);
/* The keys of n elements from number `base` on: both zeros alike, NaN behind everything. */
void order_keys(const Order *o, int64_t base, int64_t n, uint64_t *keys);
/* The keys of n elements that lie at x, as numbers of `code_size` bytes from which order_elements makes the elements again. False where there
 * are some that have no such number: a negative zero, whose place among zeros is that which it had, or NaN. */
bool order_codes(const Order *o, const void *x, int64_t n, void *codes);
void order_elements(const Order *o, const void *codes, int64_t n, void *x);
/* How many keys of at most SHORT_ROW are less than each. */
void order_less(const uint64_t *keys, int64_t n, int bits, uint32_t *less);
/* Where each of at most SHORT_ROW keys goes: behind those that are less, and behind equal ones in front of it. */
void order_places(const uint64_t *keys, int64_t n, int bits, uint32_t *places);
/* The items in order, equal ones in theirs: one of the two arrays, or NULL when a limit was hit. */
Item *order_sort(Limits *l, Item *from, Item *to, int64_t n, int bits);

#endif
