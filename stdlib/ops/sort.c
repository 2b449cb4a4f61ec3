/* Sorting, and scans along an axis. They have no form as tensor expressions. */
#include "stdlib/ops/order.h"
#include "stdlib/ops/numbers.h"

#include "base/memory.h"
#include "base/number.h"
#include "te/loops.h"

#include <stdlib.h>
#include <string.h>

static const DType int32_dtype = {DTYPE_CODE_INT, 32, 1};

#define SHAPES_rel_sort "(d...) -> (d...)"
static RelResult rel_sort(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (t && rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n) < 0)
        return REL_FAILED;
    return rel_same(r);
}

#define SHAPES_rel_argsort "(d...) -> (d...)"
static RelResult rel_argsort(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    if (rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n) < 0)
        return REL_FAILED;
    return rel_out_tensor(r, ops_dtype(r->attrs, "dtype", int32_dtype), t->n, t->dims);
}

#define SHAPES_rel_topk                                                                          \
    "(d...) -> ((d[axis := k]...), (d[axis := k]...)); one of them where ret_type != \"both\"; " \
    "whole axes where k is None or k < 1"
static RelResult rel_topk(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    int axis = rel_axis(r, attrs_int(r->attrs, "axis", -1), t->n);
    int64_t k = attrs_int(r->attrs, "k", 0);
    if (axis < 0)
        return REL_FAILED;
    if (k > 0 && t->dims[axis] >= 0 && k > t->dims[axis]) {
        rel_error(r, E0216_OPERATOR_ARGUMENT, 0, "`k` is %lld, but axis %d has %lld elements",
                  (long long)k, axis, (long long)t->dims[axis]);
        return REL_FAILED;
    }
    Dim dims[TENSOR_RANK_MOST];
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = (int)i == axis && k > 0 ? k : t->dims[i];
    const Type *values = type_tensor(r->cx, t->dtype, t->n, dims);
    const Type *indices = type_tensor(r->cx, ops_dtype(r->attrs, "dtype", int32_dtype), t->n, dims);
    Str ret = attrs_string(r->attrs, "ret_type");
    if (str_is(ret, "values"))
        return rel_set_output(r, values);
    if (str_is(ret, "indices"))
        return rel_set_output(r, indices);
    return rel_set_output(r, type_tuple(r->cx, 2, (const Type *[]){values, indices}));
}

typedef struct Sort {
    Limits *limits;
    Tensor *x, *values, *indices; /* of the results one may be NULL */
    Order order;
    int axis;
    int64_t k, n, stride; /* of what is kept of a row, and of the row */
    uint64_t *keys; /* of some rows, one behind the other */
    Item *items; /* room for two rows */
    char *
        codes; /* room for those of rows side by side and for their elements, or for two rows of them */
} Sort;

enum {
    VERY_SHORT = 32, /* rows whose places are found at once, however few are kept */
    FEW = 8, /* that are kept of a short row one by one */
    ROWS_LEAST = 16, /* that are read at once, where their elements lie apart, and at most */
    ROWS_MOST = 64,
    PARTS_LEAST = SIDE,
};

/* The keys of so many rows that lie one behind the other, or whose first elements lie side by side. */
static bool keys_of_rows(const Sort *s, int64_t base, int64_t rows)
{
    int64_t all = s->stride == 1 ? rows * s->n : 0;
    for (int64_t i = 0; i < all; i += LIMIT_EVERY) {
        if (limit_hit(s->limits))
            return false;
        order_keys(&s->order, base + i, all - i < LIMIT_EVERY ? all - i : LIMIT_EVERY, s->keys + i);
    }
    for (int64_t i = 0; s->stride > 1 && i < s->n; i++) {
        uint64_t side[ROWS_MOST];
        if (limit_hit_at(s->limits, i))
            return false;
        order_keys(&s->order, base + i * s->stride, rows, side);
        for (int64_t r = 0; r < rows; r++)
            s->keys[r * s->n + i] = side[r];
    }
    return true;
}

/* ---- the least of many --------------------------------------------------------------------------- */

/* Into `least` what is less, element by element of each part. */
CLONES static void fold_parts(const uint64_t *keys, int64_t n, uint64_t *least, int64_t parts)
{
    int64_t whole = n / parts * parts;
    for (int64_t j = 0; j < parts; j += SIDE) {
        uint64_t now[SIDE];
        memcpy(now, least + j, sizeof now);
        for (int64_t i = j; i < whole; i += parts)
            for (int k = 0; k < SIDE; k++)
                now[k] = keys[i + k] < now[k] ? keys[i + k] : now[k];
        memcpy(least + j, now, sizeof now);
    }
    for (int64_t j = 0; whole + j < n; j++)
        least[j] = keys[whole + j] < least[j] ? keys[whole + j] : least[j];
}

/* The k-th of them: the greatest that fewer than k are less than. */
static uint64_t bound_of_few(const Sort *s, const uint64_t *keys, int64_t n)
{
    uint32_t less[SHORT_ROW];
    uint64_t bound = 0;
    order_less(keys, n, s->order.bits, less);
    for (int64_t i = 0; i < n; i++)
        bound = less[i] < s->k && keys[i] > bound ? keys[i] : bound;
    return bound;
}

/* A number that k keys at least do not exceed, and few more: of the least in each of some parts the k-th. */
static bool bound_of(const Sort *s, const uint64_t *keys, uint64_t *bound)
{
    int64_t parts = PARTS_LEAST, n = s->n;
    while (parts < 2 * s->k)
        parts *= 2;
    uint64_t *least = (uint64_t *)(void *)(s->items + n);
    memset(least, 0xff, (size_t)parts * sizeof *least);
    int64_t step = parts < LIMIT_EVERY ? LIMIT_EVERY : parts;
    for (int64_t i = 0; i < n; i += step) {
        if (limit_hit(s->limits))
            return false;
        fold_parts(keys + i, n - i < step ? n - i : step, least, parts);
    }
    if (parts <= SHORT_ROW) {
        *bound = bound_of_few(s, least, parts);
        return true;
    }
    for (int64_t i = 0; i < parts; i++) {
        if (limit_hit_at(s->limits, i))
            return false;
        s->items[i] = (Item){least[i], i};
    }
    const Item *order = order_sort(s->limits, s->items, s->items + parts, parts, s->order.bits);
    if (order)
        *bound = order[s->k - 1].key;
    return order != NULL;
}

/* The first of the neighbours from i on of which any is within the bound; n: there are none. */
CLONES static int64_t next_within(const uint64_t *keys, int64_t i, int64_t n, uint64_t bound)
{
    uint64_t any = 0;
    for (; i + SIDE <= n; i += SIDE) {
        for (int j = 0; j < SIDE; j++)
            any |= keys[i + j] <= bound;
        if (any)
            return i;
    }
    for (int64_t j = i; j < n; j++)
        any |= keys[j] <= bound;
    return any ? i : n;
}

/* The items within the bound, in their order; when as many as are kept lie at the bound, only what is less. How many, or -1. */
static int64_t take_within(const Sort *s, const uint64_t *keys, uint64_t bound)
{
    int64_t have = 0, n = s->n, equal = s->k;
    for (int64_t from = 0; from < n; from += LIMIT_EVERY) {
        int64_t end = n - from < LIMIT_EVERY ? n : from + LIMIT_EVERY;
        if (limit_hit(s->limits))
            return -1;
        for (int64_t i = from; (i = next_within(keys, i, end, bound)) < end;) {
            for (int64_t stop = end - i < SIDE ? end : i + SIDE; i < stop; i++) {
                s->items[have] = (Item){keys[i], i};
                equal -= keys[i] == bound;
                have += keys[i] <= bound;
            }
            if (equal <= 0 && bound > 0) {
                bound--;
                equal = INT64_MAX;
            }
        }
    }
    return have;
}

/* Few of a short row: each that is less than the last one kept goes to its place, behind what is equal. */
static Item *kept_few(const Sort *s, const uint64_t *keys)
{
    Item *kept = s->items;
    for (int64_t i = 0, have = 0; i < s->n; i++) {
        if (have == s->k && keys[i] >= kept[have - 1].key)
            continue;
        have += have < s->k;
        int64_t at = have - 1;
        for (; at > 0 && kept[at - 1].key > keys[i]; at--)
            kept[at] = kept[at - 1];
        kept[at] = (Item){keys[i], i};
    }
    return kept;
}

/* The items of a row in order, or those of them that are kept and perhaps more. */
static Item *in_order(const Sort *s, const uint64_t *keys)
{
    int64_t n = s->n, m = 0;
    uint64_t bound;
    if (s->k <= FEW && n <= SHORT_ROW)
        return kept_few(s, keys);
    if (n >= 4 * PARTS_LEAST && s->k <= n / 8) {
        m = bound_of(s, keys, &bound) ? take_within(s, keys, bound) : -1;
        return m < 0 ? NULL : order_sort(s->limits, s->items, s->items + n, m, s->order.bits);
    }
    while (m < n) {
        int64_t end = n - m < LIMIT_EVERY ? n : m + LIMIT_EVERY;
        if (limit_hit(s->limits))
            return NULL;
        for (; m < end; m++)
            s->items[m] = (Item){keys[m], m};
    }
    return order_sort(s->limits, s->items, s->items + n, n, s->order.bits);
}

/* A short row's places in order. */
static void places_in_order(const Sort *s, const uint64_t *keys, Item *items)
{
    uint32_t places[SHORT_ROW];
    order_places(keys, s->n, s->order.bits, places);
    for (int64_t i = 0; i < s->n; i++)
        items[places[i]].at = i;
}

static inline void put_values(const Sort *s, const Item *items, int64_t from, int64_t to, int64_t k,
                              size_t size)
{
    const char *x = s->x->data + (size_t)from * size;
    char *out = s->values->data + (size_t)to * size;
    for (int64_t i = 0; i < k; i++)
        memcpy(out + (size_t)(i * s->stride) * size, x + (size_t)(items[i].at * s->stride) * size,
               size);
}

/* Copies of a size that the compiler knows are one instruction. */
static void put(const Sort *s, const Item *items, int64_t from, int64_t to, int64_t k)
{
    size_t size = dtype_size(s->x->dtype);
    DTypeId id = s->indices ? dtype_id(s->indices->dtype) : DT_INT64;
    if (s->values && size == 4)
        put_values(s, items, from, to, k, 4);
    else if (s->values && size == 8)
        put_values(s, items, from, to, k, 8);
    else if (s->values)
        put_values(s, items, from, to, k, size);
    for (int64_t i = 0; s->indices && i < k; i++) {
        int64_t at = to + i * s->stride;
        if (id == DT_INT32)
            ((int32_t *)(void *)s->indices->data)[at] = (int32_t)items[i].at;
        else if (id == DT_INT64)
            ((int64_t *)(void *)s->indices->data)[at] = items[i].at;
        else
            te_loop_cast(id, DT_INT64, s->indices->data + (size_t)at * dtype_row(id)->size,
                         &items[i].at, 1);
    }
}

static bool sort_row(const Sort *s, const uint64_t *keys, int64_t from, int64_t to)
{
    if (s->n <= VERY_SHORT || (s->n <= SHORT_ROW && s->k > FEW)) {
        places_in_order(s, keys, s->items);
        put(s, s->items, from, to, s->k);
        return true;
    }
    const Item *items = limit_hit(s->limits) ? NULL : in_order(s, keys);
    for (int64_t i = 0; items && i < s->k; i += LIMIT_EVERY) {
        if (limit_hit(s->limits))
            return false;
        put(s, items + i, from, to + i * s->stride,
            s->k - i < LIMIT_EVERY ? s->k - i : LIMIT_EVERY);
    }
    return items != NULL;
}

/* ---- some rows ----------------------------------------------------------------------------------- */

/* As many rows as are few elements; where these lie apart some at least, unless they are long. */
static int64_t rows_at_once(const Sort *s)
{
    int64_t rows = LIMIT_EVERY / (s->n + 1), least = s->stride == 1 ? 1 : ROWS_LEAST;
    if (s->n > LIMIT_EVERY)
        return 1;
    return rows < least ? least : rows > ROWS_MOST ? ROWS_MOST : rows;
}

static bool sort_some(const Sort *s, int64_t base, int64_t to, int64_t rows)
{
    bool apart = s->stride > 1, good = keys_of_rows(s, base, rows);
    int64_t from_step = apart ? 1 : s->n, to_step = apart ? 1 : s->k;
    for (int64_t r = 0; r < rows && good; r++)
        good = sort_row(s, s->keys + r * s->n, base + r * from_step, to + r * to_step);
    return good;
}

/* ---- rows side by side --------------------------------------------------------------------------- */

enum {
    LINE = NUMBERS_LINE,
    WORD = 32, /* bits of a place, below those of its key */
    BESIDE_MOST =
        1024, /* up to which rows go through the network, unless their values lie side by side already */
};

/* As many rows as fill lines, by short keys with their places. */
static bool words_beside(const Sort *s, int64_t base, int64_t to, int64_t rows)
{
    int64_t n = (s->n + NUMBERS_STEP - 1) & -NUMBERS_STEP;
    uint64_t *words = (uint64_t *)(void *)s->codes, *room = words + n * rows + SIDE;
    bool apart = s->stride > 1;
    int64_t row = apart ? 1 : s->n,
            next = apart ? rows : 1; /* where words of rows and of a row begin */
    if (!apart)
        order_keys(&s->order, base, s->n * rows, words);
    for (int64_t i = 0; apart && i < s->n; i++)
        order_keys(&s->order, base + i * s->stride, rows, words + i * rows);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < s->n; i++)
            words[r * row + i * next] = words[r * row + i * next] << WORD | (uint64_t)i;
    if (apart) {
        memset(words + s->n * rows, 0xff, (size_t)(n - s->n) * LINE);
        numbers_beside(words, n, sizeof *words);
    } else
        numbers_rows(words, room, s->n, s->k, sizeof *words);
    for (int64_t r = 0; r < rows; r++) {
        for (int64_t i = 0; i < s->k; i++)
            s->items[i].at = (int64_t)(words[r * (apart ? 1 : s->k) + i * next] & UINT32_MAX);
        put(s, s->items, base + r * row, to + r * (apart ? 1 : s->k), s->k);
    }
    return true;
}

/* Values alone, by codes: as many rows as fill lines. */
static bool codes_beside(const Sort *s, int64_t base, int64_t to, int64_t rows)
{
    size_t size = s->order.size, step = (size_t)s->stride * size, side = (size_t)rows * size;
    int64_t n = (s->n + NUMBERS_STEP - 1) & -NUMBERS_STEP;
    char *codes = s->codes, *room = codes + n * LINE + NUMBERS_SPARE;
    char *out = s->values->data + (size_t)to * size;
    const char *x = s->x->data + (size_t)base * size;
    if (s->stride == 1) {
        if (!order_codes(&s->order, x, s->n * rows, codes))
            return sort_some(s, base, to, rows);
        numbers_rows(codes, room, s->n, s->k, s->order.code_size);
        order_elements(&s->order, codes, s->k * rows, out);
        return true;
    }
    for (int64_t i = 0; i < s->n; i++)
        memcpy(room + (size_t)i * side, x + (size_t)i * step, side);
    if (!order_codes(&s->order, room, s->n * rows, codes))
        return sort_some(s, base, to, rows);
    memset(codes + s->n * LINE, 0xff, (size_t)(n - s->n) * LINE);
    numbers_beside(codes, n, s->order.code_size);
    order_elements(&s->order, codes, s->k * rows, room);
    for (int64_t i = 0; i < s->k; i++)
        memcpy(out + (size_t)i * step, room + (size_t)i * side, side);
    return true;
}

/* The same for one row of elements side by side: where the result is as large as the codes they lie there. */
static bool codes_of_row(const Sort *s, int64_t base, int64_t to, int64_t rows)
{
    size_t size = s->order.size, code = s->order.code_size;
    bool there = size == code && s->k == s->n;
    char *out = s->values->data + (size_t)to * size, *room = (char *)s->items;
    char *codes = there ? out : room + (size_t)s->n * code;
    const char *x = s->x->data + (size_t)base * size;
    for (int64_t i = 0; i < s->n; i += LIMIT_EVERY) {
        int64_t n = s->n - i < LIMIT_EVERY ? s->n - i : LIMIT_EVERY;
        if (limit_hit(s->limits))
            return false;
        if (!order_codes(&s->order, x + (size_t)i * size, n, codes + (size_t)i * code))
            return sort_some(s, base, to, rows);
    }
    if (!numbers_sort(s->limits, codes, room, s->n, code))
        return false;
    for (int64_t i = 0; i < s->k; i += LIMIT_EVERY) {
        int64_t n = s->k - i < LIMIT_EVERY ? s->k - i : LIMIT_EVERY;
        if (limit_hit(s->limits))
            return false;
        order_elements(&s->order, codes + (size_t)i * code, n, out + (size_t)i * size);
    }
    return true;
}

/* ---- all rows ------------------------------------------------------------------------------------ */

typedef bool SortSome(const Sort *s, int64_t base, int64_t to, int64_t rows);

/* How rows are sorted, of which `rows` follow each other, and how many at once. Where few are kept of long rows, to look for a bound takes
 * less. */
static SortSome *way_of(const Sort *s, int64_t rows, int64_t *most)
{
    bool codes = s->values && !s->indices, apart = s->stride > 1;
    int64_t side = LINE / (int64_t)(codes ? s->order.code_size : sizeof(uint64_t));
    bool beside = rows >= side && s->n <= (codes && apart ? LIMIT_EVERY : BESIDE_MOST);
    bool many = s->n <= 2 * SHORT_ROW || s->k > s->n / (beside ? 32 : 8);
    if (many && beside && (codes || s->order.bits <= WORD))
        return *most = side, codes ? codes_beside : words_beside;
    bool row = codes && many && !apart && s->n > SHORT_ROW;
    *most = row ? 1 : rows_at_once(s);
    return row ? codes_of_row : sort_some;
}

/* Rows whose elements begin so far apart; the last come again where fewer are left than fill lines. */
static bool sort_rows(const Sort *s, SortSome *some, int64_t most, int64_t base, int64_t to,
                      int64_t rows)
{
    int64_t from_step = s->stride > 1 ? 1 : s->n, to_step = s->stride > 1 ? 1 : s->k;
    for (int64_t i = 0; i < rows; i += most) {
        if ((some == codes_beside || some == words_beside) && rows - i < most)
            i = rows - most;
        if (limit_hit(s->limits) ||
            !some(s, base + i * from_step, to + i * to_step, rows - i < most ? rows - i : most))
            return false;
    }
    return true;
}

static bool sort_run(OpCall *c, Sort *s)
{
    s->n = s->x->shape[s->axis];
    s->stride = kernel_span(s->x, s->axis + 1, s->x->rank);
    s->order = order_of(s->x, attrs_bool(c->attrs, "is_ascend"));
    int64_t outer = kernel_span(s->x, 0, s->axis), most;
    int64_t groups = s->stride == 1 ? 1 : outer, rows = s->stride == 1 ? outer : s->stride;
    SortSome *some = way_of(s, rows, &most);
    size_t codes = some == codes_beside || some == words_beside ? 2 * LINE : 0,
           bytes; /* for each place of a row */
    size_t all = codes + 2 * sizeof(Item) + (size_t)most * sizeof *s->keys;
    if (!size_mul((size_t)s->n + 3 * NUMBERS_STEP, all, &bytes) ||
        !limit_charge(&c->cx->limits, bytes))
        return false;
    char *room = memory_alloc(bytes);
    bool good = room || !limit_reach(&c->cx->limits, LIMIT_MEMORY);
    s->codes = room + (-(uintptr_t)room & (LINE - 1));
    s->items = (Item *)(void *)(s->codes + ((size_t)s->n + 2 * NUMBERS_STEP) * codes);
    s->keys = (uint64_t *)(void *)(s->items + 2 * (s->n + 1));
    for (int64_t i = 0; i < groups && good; i++)
        good = sort_rows(s, some, most, i * s->n * s->stride, i * s->k * s->stride, rows);
    free(room);
    limit_release(&c->cx->limits, bytes);
    return good;
}

static bool sort_kernel(OpCall *c, bool values, bool indices)
{
    Tensor *x = kernel_arg(c, 0);
    if (!x)
        return false;
    Sort s = {.limits = &c->cx->limits,
              .x = x,
              .values = values ? kernel_out_raw(c, 0) : NULL,
              .indices = indices ? kernel_out_raw(c, values ? 1 : 0) : NULL,
              .axis = ops_axis(c->attrs, "axis", x->rank)};
    bool good = (!values || s.values) && (!indices || s.indices);
    if (good) {
        s.k = (values ? s.values : s.indices)->shape[s.axis];
        good = sort_run(c, &s);
    }
    tensor_release(x);
    if (!good) {
        tensor_release(s.values);
        tensor_release(s.indices);
        return false;
    }
    if (values && indices)
        return kernel_set_tuple(c, 2, (Tensor *[]){s.values, s.indices});
    return kernel_set(c, values ? s.values : s.indices);
}

static bool kernel_sort(OpCall *c)
{
    return sort_kernel(c, true, false);
}

static bool kernel_argsort(OpCall *c)
{
    return sort_kernel(c, false, true);
}

bool kernel_topk(OpCall *c)
{
    Str ret = attrs_string(c->attrs, "ret_type");
    return sort_kernel(c, !str_is(ret, "indices"), !str_is(ret, "values"));
}

/* ---- cumsum, cumprod ----------------------------------------------------------------------------- */

#define SHAPES_rel_scan "(d...) -> (d...); (product(d)) where axis is None"
static RelResult rel_scan(Rel *r)
{
    const Type *t = rel_tensor(r, 0);
    if (!t)
        return rel_blocked(r);
    DType dtype = ops_dtype(r->attrs, "dtype", t->dtype);
    const AttrValue *axis = attrs_find(r->attrs, "axis");
    if (axis->kind == ATTR_NONE) {
        Dim n = dims_product(t->n, t->dims);
        return rel_out_tensor(r, dtype, 1, &n);
    }
    if (rel_axis(r, axis->i, t->n) < 0)
        return REL_FAILED;
    return rel_out_tensor(r, dtype, t->n, t->dims);
}

/* Blocks of n rows of `row.n` elements. */
typedef struct Scan {
    Limits *limits;
    const Tensor *x;
    Tensor *out;
    DTypeId id;
    TeScan row;
    int64_t n;
} Scan;

/* As many blocks as are few elements at once, and of long ones some that lie one behind the other, of each some rows at a time: sums of
 * one row do not wait for those of another. False where it cannot, or a limit was hit. */
static bool scan_blocks(const Scan *s)
{
    TeScan now = s->row;
    int64_t size = (int64_t)dtype_row(s->id)->size, all = s->x->size / now.step;
    int64_t some = LIMIT_EVERY / now.step < SIDE ? SIDE : LIMIT_EVERY / now.step;
    for (int64_t b = 0; b < all; b += some) {
        now.blocks = all - b < some ? all - b : some;
        int64_t at = b * now.step * size, rows = 1 + LIMIT_EVERY / (now.n * now.blocks);
        for (int64_t i = 0; i < s->n; i += rows)
            if (limit_hit(s->limits) ||
                !te_loop_scan(&now, s->id, s->out->data + at, s->x->data + at, i,
                              s->n - i < rows ? s->n : i + rows))
                return false;
    }
    return true;
}

/* Of elements for which there is only the operation itself, and of rows that are long. */
static bool scan_block(const Scan *s, int64_t base)
{
    int64_t size = (int64_t)dtype_row(s->id)->size, row = s->row.n * size, since = 0;
    char *to = s->out->data + base * size;
    const char *from = s->x->data + base * size;
    Value start = value_scalar_int(s->out->dtype, s->row.op == TE_MUL);
    if (s->row.exclusive) {
        te_loop_fill((size_t)size, to, &start.bits, s->row.n);
    } else {
        memcpy(to, from, (size_t)row);
        from += row;
    }
    for (int64_t i = 0; i + 1 < s->n; i++)
        for (int64_t j = 0; j < s->row.n; j += LIMIT_EVERY) {
            int64_t n = s->row.n - j < LIMIT_EVERY ? s->row.n - j : LIMIT_EVERY;
            int64_t at = i * row + j * size;
            if ((since += n) >= LIMIT_EVERY && limit_hit(s->limits))
                return false;
            since %= LIMIT_EVERY;
            te_loop_binary(s->row.op, s->id, to + at + row, to + at, from + at, n);
        }
    return true;
}

static bool scan_run(const Scan *s)
{
    if (s->x->size == 0 || (s->row.n <= LIMIT_EVERY && scan_blocks(s)))
        return true;
    bool good = !limit_hit(s->limits);
    for (int64_t at = 0; good && at < s->x->size; at += s->row.step)
        good = scan_block(s, at);
    return good;
}

static bool scan_kernel(OpCall *c, bool product)
{
    Tensor *x = kernel_arg(c, 0), *out = x ? kernel_out_raw(c, 0) : NULL;
    Tensor *same = out ? kernel_cast(c, tensor_retain(x), out->dtype) : NULL;
    bool flat = attrs_find(c->attrs, "axis")->kind == ATTR_NONE, good = same != NULL;
    if (good) {
        int axis = flat ? 0 : ops_axis(c->attrs, "axis", x->rank);
        int64_t n = flat ? x->size : x->shape[axis];
        int64_t inner = flat ? 1 : kernel_span(x, axis + 1, x->rank);
        TeScan row = {.op = product ? TE_MUL : TE_ADD,
                      .exclusive = attrs_bool(c->attrs, "exclusive"),
                      .n = inner,
                      .step = n * inner};
        Scan s = {&c->cx->limits, same, out, dtype_id(out->dtype), row, n};
        good = scan_run(&s);
    }
    tensor_release(x);
    tensor_release(same);
    if (good)
        return kernel_set(c, out);
    tensor_release(out);
    return false;
}

static bool kernel_cumsum(OpCall *c)
{
    return scan_kernel(c, false);
}

static bool kernel_cumprod(OpCall *c)
{
    return scan_kernel(c, true);
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define SORT_ATTRS(ASCEND)                              \
    ATTR_I("axis", -1, "the axis along which to sort"), \
        ATTR_B("is_ascend", ASCEND, "the least element first")
static const OpAttr sort_attrs[] = {SORT_ATTRS(1), ATTR_D("dtype", "", "unused"), {0}};
static const OpAttr argsort_attrs[] = {
    SORT_ATTRS(1), ATTR_D("dtype", "", "the type of the positions"), {0}};
static const OpAttr topk_attrs[] = {
    ATTR_MUST_NONE("k", INT, "how many elements; less than 1 or None: all"),
    ATTR_I("axis", -1, "the axis along which to sort"),
    ATTR_ONE("ret_type", "both", "\"both\", \"values\" or \"indices\"", "both", "values",
             "indices"),
    ATTR_B("is_ascend", 0, "the least element first"),
    ATTR_D("dtype", "", "the type of the positions"),
    {0},
};
static const OpAttr scan_attrs[] = {
    ATTR_NONE("axis", INT, "the axis; None: all elements in one row"),
    ATTR_D("dtype", "", "the type to fold in and of the result"),
    ATTR_B("exclusive", 0, "each result leaves out its own element"),
    {0},
};

/* Gradients of sums and products up to each place. Where a product meets its first 0, the later ones are those without it, and behind it
 * all is 0. That of its second 0 is 0, and grows with the first. */
#define SCANNED                                                                      \
    "let %at = if (%axis == None) { 0 } else { %axis }; "                            \
    "let %x = if (%axis == None) { reshape(%data, newshape=[-1]) } else { %data }; " \
    "let %slope = cast_like(%g, %data); "
#define BACK_SUM(E) \
    "reverse(cumsum(reverse(" E ", axis=%at), axis=%at, exclusive=%exclusive), axis=%at)"
#define BACK_WITHOUT(E) \
    BACK_SUM("multiply(%slope, cumprod(where(" E ", %ones, %x), axis=%at, exclusive=%exclusive))")
#define LIKE_DATA(E) "if (%axis == None) { reshape_like(" E ", %data) } else { " E " }"
#define SUM_GRAD SCANNED "let %back = " BACK_SUM("%slope") "; " LIKE_DATA("%back")
/* clang-format off */
#define PROD_GRAD                                                                             \
    SCANNED                                                                                   \
    "let %ones = ones_like(%x); let %zeros = zeros_like(%x); let %null = equal(%x, %zeros); " \
    "let %nulls = cumsum(cast(%null, dtype=\"int32\"), axis=%at); "                           \
    "let %first = logical_and(%null, equal(%nulls, 1i32)); "                                  \
    "let %second = logical_and(%null, equal(%nulls, 2i32)); "                                 \
    "let %all = multiply(%slope, cast_like(%out, %data)); "                                   \
    "let %full = where(%null, %ones, %x); "                                                   \
    "let %back = where(%first, " BACK_WITHOUT("%first") ", "                                  \
    "where(%second, " BACK_WITHOUT("%second") ", "                                            \
    "where(%null, %zeros, divide(" BACK_SUM("%all") ", %full)))); " LIKE_DATA("%back")
/* clang-format on */

const Op sort_ops[] = {
    {.name = "sort",
     .doc = "The elements along an axis in order; equal ones keep theirs.",
     .args = args_data,
     .attrs = sort_attrs,
     .samples = "(float32[2,5]) (int32[3,2], axis=0, is_ascend=False)",
     .pattern = OP_OPAQUE,
     OP_REL(rel_sort),
     .kernel = kernel_sort,
     .grad =
         "scatter_elements(zeros_like(%data), argsort(%data, axis=%axis, is_ascend=%is_ascend), "
         "%g, axis=%axis, reduction=\"add\")"},
    {.name = "argsort",
     .doc = "The positions that sort the elements along an axis.",
     .args = args_data,
     .attrs = argsort_attrs,
     .samples = "(float32[2,5], dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     OP_REL(rel_argsort),
     .kernel = kernel_argsort},
    {.name = "topk",
     .doc = "The greatest (or least) elements along an axis, and their positions.",
     .args = args_data,
     .attrs = topk_attrs,
     .samples = "(float32[2,5], k=2, dtype=\"int32\")",
     .pattern = OP_OPAQUE,
     OP_REL(rel_topk),
     .kernel = kernel_topk,
     .grad = TOPK_GRAD("topk(%data", ", k=%k")},
    {.name = "cumsum",
     .doc = "The sums of the elements up to each place of an axis.",
     .args = args_data,
     .attrs = scan_attrs,
     .samples = "(float32[2,3], axis=1) (int32[2,3])",
     .pattern = OP_OPAQUE,
     OP_REL(rel_scan),
     .kernel = kernel_cumsum,
     .grad = SUM_GRAD},
    {.name = "cumprod",
     .doc = "The products of the elements up to each place of an axis.",
     .args = args_data,
     .attrs = scan_attrs,
     .samples = "(float32[2,3], axis=1)",
     .pattern = OP_OPAQUE,
     OP_REL(rel_scan),
     .kernel = kernel_cumprod,
     .grad = PROD_GRAD},
    {0},
};
