/* The order of elements, as unsigned numbers that order as they do, and sorts by such keys.
 *
 *     Order o;
 *     if (order_begin(&o, c, x, true)) …          // ascending; o.wide goes with order_end
 *     order_keys(&o, base, n, keys);
 *     Item *least = order_sort(&c->cx->limits, items, items + n, n, o.bits);
 */
#ifndef STDLIB_OPS_ORDER_H
#define STDLIB_OPS_ORDER_H

#include "stdlib/ops/ops.h"

typedef struct Order {
    DType dtype; /* of the elements */
    Tensor *wide; /* these as float32 or float64, or as int64 or uint64 */
    int bits; /* of a key */
    bool ascend;
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

/* False where memory is refused. */
bool order_begin(Order *o, OpCall *c, Tensor *x, bool ascend);
/* The keys of n elements side by side: both zeros alike, NaN behind everything. */
void order_keys(const Order *o, int64_t base, int64_t n, uint64_t *keys);
/* How many keys of at most SHORT_ROW are less than each. */
void order_less(const uint64_t *keys, int64_t n, int bits, uint32_t *less);
/* Where each of at most SHORT_ROW keys goes: behind those that are less, and behind equal ones in front of it. */
void order_places(const uint64_t *keys, int64_t n, int bits, uint32_t *places);
/* The items in order, equal ones in theirs: one of the two arrays, or NULL when a limit was hit. */
Item *order_sort(Limits *l, Item *from, Item *to, int64_t n, int bits);
void order_end(Order *o);

#endif
