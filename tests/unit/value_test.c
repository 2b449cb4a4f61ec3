/* Element types, tensors, values and how they show. */
#include "base/diag.h"
#include "base/number.h"
#include "check.h"
#include "runtime/heap.h"
#include "runtime/show.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const ObjectInfo cons_info = {
    .kind = VALUE_CON, .tag = 0, .arity = 2, .name = "Cons", .type_name = "List"};
static const ObjectInfo nil_info = {
    .kind = VALUE_CON, .tag = 1, .name = "Nil", .type_name = "List"};
static const ObjectInfo node_info = {
    .kind = VALUE_CON, .arity = 2, .name = "Node", .type_name = "Tree"};
static Object nil;

static Limits limits;
static Diags diags;

static Value make(const ObjectInfo *info, Value a, Value b)
{
    Object *o = object_new(&limits, info, 2);
    if (!o) {
        value_release(a);
        value_release(b);
        return value_none();
    }
    object_set(o, 0, a);
    object_set(o, 1, b);
    return value_object(o);
}

static Value make_ref(Value v)
{
    Object *o = object_new(&limits, &ref_info, 1);
    object_set(o, 0, v);
    return value_object(o);
}

static Value make_list(int n)
{
    Value list = value_object(&nil);
    while (n-- > 0)
        list = make(&cons_info, value_int32(n), list);
    return list;
}

static Tensor *make_tensor(DTypeId id, int32_t rank, const int64_t *shape)
{
    Tensor *t = tensor_new(&limits, dtype_of(id), rank, shape);
    for (int64_t i = 0; i < t->size; i++)
        dtype_set_int(t->dtype, t->data + i * (int64_t)dtype_size(t->dtype), i);
    return t;
}

static void check_shown(Value v, ShowStyle style, const char *wanted)
{
    Buf b = {0};
    value_show(&b, v, style);
    CHECK_TEXT(buf_text(&b), wanted);
    buf_deinit(&b);
}

static void test_dtypes(void)
{
    static const struct {
        const char *text, *printed;
    } good[] = {{"float32", "float32"}, {"int", "int32"},         {"uint", "uint32"},
                {"float", "float32"},   {"bool", "bool"},         {"uint1", "bool"},
                {"int4", "int4"},       {"bfloat16", "bfloat16"}, {"void", "void"},
                {"", "void"},           {"int8x4", "int8x4"},     {"float16x4", "float16x4"},
                {"uint1x4", "uint1x4"}, {"float32x1", "float32"}, {"boolx4", "uint1x4"}};
    static const char *const bad[] = {"integer",  "float0",  "int-8",   "float32x", "bfloat",
                                      "bfloat32", "Float32", "boolean", "int8x0",   "float32x99999",
                                      "int999",   "x4",      "float 32"};
    DType t;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        Buf b = {0};
        CHECK(dtype_parse(str_of(good[i].text), &t));
        dtype_print(&b, t);
        CHECK_TEXT(buf_text(&b), good[i].printed);
        buf_deinit(&b);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(!dtype_parse(str_of(bad[i]), &t));
    for (int i = 0; i < DTYPE_IDS; i++) {
        const DTypeRow *row = dtype_row((DTypeId)i);
        CHECK(dtype_parse(str_of(row->name), &t) && dtype_id(t) == (DTypeId)i);
        CHECK(dtype_size(t) == row->size && dtype_is_bool(t) == (i == DT_BOOL));
        CHECK(dtype_is_float(t) + dtype_is_int(t) + dtype_is_bool(t) == 1);
    }
    CHECK(dtype_parse(str_of("int4"), &t) && dtype_id(t) == DTYPE_IDS && dtype_size(t) == 0);
}

static void test_scalars(void)
{
    CHECK(value_as_int(value_int32(-5)) == -5 && value_as_double(value_float32(0.5f)) == 0.5);
    CHECK(value_is_true(value_bool(true)) && !value_is_true(value_bool(false)));
    CHECK(value_as_int(value_scalar_int(dtype_of(DT_INT8), 300)) == 44);
    CHECK(value_as_int(value_scalar_int(dtype_of(DT_BOOL), 300)) == 1);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_INT8), 300.7)) == 127);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_INT8), -300.7)) == -128);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_UINT8), -1)) == 0);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_INT32), -2.9)) == -2);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_INT64), NAN)) == 0);
    CHECK(value_as_int(value_scalar_double(dtype_of(DT_INT64), 1e300)) == INT64_MAX);
    CHECK(value_scalar_double(dtype_of(DT_UINT64), 1e300).bits == UINT64_MAX);
    CHECK(value_scalar_double(dtype_of(DT_UINT64), 0x1p63).bits == (uint64_t)1 << 63);
    CHECK(value_as_double(value_scalar_double(dtype_of(DT_FLOAT16), 1.5)) == 1.5);
    CHECK(value_as_double(value_scalar_int(dtype_of(DT_BFLOAT16), 3)) == 3);
    CHECK(value_as_int(value_float64(-1e300)) == INT64_MIN);
    check_shown(value_int64(-7), (ShowStyle){0}, "-7");
    check_shown(value_bool(true), (ShowStyle){0}, "True");
    check_shown(value_float32(0.1f), (ShowStyle){0}, "0.1");
    check_shown(value_scalar_int(dtype_of(DT_UINT64), -1), (ShowStyle){0}, "18446744073709551615");
    check_shown(value_none(), (ShowStyle){0}, "<none>");
}

/* No row is wider than the screen, and where one number has an exponent all have. */
static void test_rows(void)
{
    const int64_t shape[] = {6}, pair[] = {2};
    Tensor *t = make_tensor(DT_FLOAT64, 1, shape);
    double exact[] = {1e-7, 1, 12.5, -300, 0, INFINITY};
    memcpy(t->data, exact, sizeof exact);
    check_shown(value_tensor(t), (ShowStyle){.width = 22},
                "[   1e-07,    1e+00,\n 1.25e+01,   -3e+02,\n    0e+00,      inf] : Tensor[(6), "
                "float64]");
    check_shown(value_tensor(t), (ShowStyle){.width = 19, .bare = true},
                "[   1e-07,\n    1e+00,\n 1.25e+01,\n   -3e+02,\n    0e+00,\n      inf]");
    tensor_release(t);
    t = make_tensor(DT_INT32, 1, pair);
    check_shown(value_tensor(t), (ShowStyle){.width = 25}, "[0, 1]\n : Tensor[(2), int32]");
    tensor_release(t);
}

static void let_go(void *owner)
{
    ++*(int *)owner;
}

static void test_elements_of_others(void)
{
    static const int32_t elements[] = {1, 2, 3, 4, 5, 6};
    int gone = 0;
    CHECK(!tensor_over(dtype_of(DT_INT32), 1, (int64_t[]){-1}, elements, let_go, &gone));
    Tensor *t = tensor_over(dtype_of(DT_INT32), 2, (int64_t[]){2, 3}, elements, let_go, &gone);
    Tensor *view = tensor_view(t, 2, (int64_t[]){3, 2}, (int64_t[]){1, 3}, 0);
    CHECK(tensor_is_contiguous(t) && tensor_get_int(t, 4) == 5 && tensor_get_int(view, 4) == 3);
    tensor_release(t);
    CHECK(gone == 0);
    tensor_release(view);
    CHECK(gone == 1);
}

static void test_tensors(void)
{
    const int64_t shape[] = {2, 3, 4}, huge[] = {INT64_MAX, 2}, empty[] = {INT64_MAX, 5, 0};
    int64_t size;
    CHECK(!shape_size(2, huge, &size) && shape_size(3, empty, &size) && size == 0);
    CHECK(!shape_size(1, (int64_t[]){-1}, &size));
    Tensor *t = make_tensor(DT_INT32, 3, shape);
    CHECK(t->size == 24 && (uintptr_t)t->data % 64 == 0 && tensor_is_contiguous(t));
    CHECK(tensor_get_int(t, 23) == 23 && tensor_get_double(t, 5) == 5);
    /* The transpose, backwards along one axis. */
    Tensor *view = tensor_view(t, 3, (int64_t[]){4, 3, 2}, (int64_t[]){1, -4, 12}, 8);
    CHECK(!tensor_is_contiguous(view) && view->size == 24);
    for (int64_t i = 0; i < 24; i++)
        CHECK(tensor_get_int(view, i) == i % 2 * 12 + (2 - i / 2 % 3) * 4 + i / 6);
    Tensor *copy = tensor_contiguous(&limits, view);
    CHECK(copy != view && tensor_is_contiguous(copy));
    for (int64_t i = 0; i < 24; i++)
        CHECK(tensor_get_int(copy, i) == tensor_get_int(view, i));
    Value a = value_tensor(copy), b = value_tensor(view);
    CHECK(value_equal(a, b));
    ((int32_t *)copy->data)[7]++;
    CHECK(!value_equal(a, b));
    tensor_release(t);
    value_release(a);
    value_release(b);
    t = tensor_new(&limits, dtype_of(DT_FLOAT32), 3, empty);
    CHECK(t && t->size == 0 && tensor_is_contiguous(t));
    tensor_release(t);
    Tensor *one = tensor_new(&limits, dtype_of(DT_FLOAT64), 0, NULL);
    *(double *)one->data = 2.5;
    Value v = value_tensor(one);
    CHECK(v.kind == VALUE_SCALAR && value_as_double(v) == 2.5);
    one = value_to_tensor(&limits, v);
    CHECK(one && one->rank == 0 && *(double *)one->data == 2.5);
    tensor_release(one);
    TensorView tv;
    CHECK(value_view(&v, &tv) && tensor_get_double(&tv.t, 0) == 2.5 && tv.t.size == 1);
    tensor_release(NULL);
    CHECK(limits.memory == 0);
}

/* Whole vectors fit, and large buffers begin at different places of their pages. */
static void test_places(void)
{
    Tensor *all[8];
    int64_t shape[1] = {1 << 20};
    bool differ = false;
    for (int i = 0; i < 8; i++) {
        all[i] = tensor_new_raw(&limits, dtype_of(DT_FLOAT32), 1, shape);
        CHECK((uintptr_t)all[i]->data % 64 == 0);
        differ |= (((uintptr_t)all[i]->data ^ (uintptr_t)all[0]->data) & 4095) != 0;
        memset(all[i]->data, i, (size_t)shape[0] * 4);
    }
    CHECK(differ);
    for (int i = 0; i < 8; i++)
        tensor_release(all[i]);
}

static void test_refused_tensors(void)
{
    CHECK(tensor_new(&limits, dtype_of(DT_FLOAT32), 2, (int64_t[]){INT64_MAX, 2}) == NULL);
    CHECK(limits.hit == LIMIT_MEMORY && diags.errors == 1);
    limits_start(&limits);
    CHECK(tensor_new(&limits, dtype_of(DT_FLOAT32), 1, (int64_t[]){INT64_MAX / 8}) == NULL);
    CHECK(limits.hit == LIMIT_MEMORY);
    limits_start(&limits);
    limits.memory_most = 10000;
    Tensor *t = tensor_new(&limits, dtype_of(DT_INT8), 1, (int64_t[]){5000});
    CHECK(t && !tensor_new(&limits, dtype_of(DT_INT8), 1, (int64_t[]){5000}));
    tensor_release(t);
    t = tensor_new(&limits, dtype_of(DT_INT8), 1, (int64_t[]){5000});
    CHECK(t != NULL && tensor_new(NULL, (DType){DTYPE_CODE_INT, 4, 1}, 0, NULL) == NULL);
    tensor_release(t);
    limits.memory_most = 0;
    limits_start(&limits);
    diags_clear(&diags);
    CHECK(limits.memory == 0);
}

static void test_objects(void)
{
    const int most = 1000000;
    Value list = make_list(most), same = make_list(most);
    CHECK(value_equal(list, same));
    value_release(same);
    same = make_list(most - 1);
    CHECK(!value_equal(list, same));
    value_release(same);
    value_release(list);
    /* The same depth through the first field, and through both with sharing. */
    Value tree = value_int32(0);
    for (int i = 0; i < most; i++)
        tree = make(&node_info, tree, value_int32(i));
    value_release(tree);
    tree = value_int32(0);
    for (int i = 0; i < 200; i++)
        tree = make(&node_info, value_retain(tree), tree);
    Buf b = {0};
    value_show(&b, tree, (ShowStyle){.list = 50});
    CHECK(b.n < 100000);
    buf_deinit(&b);
    value_release(tree);
    /* A full tree. */
    Value level[18];
    for (int i = 0; i < 1 << 17; i++) {
        Value v = value_int32(i);
        int k = 0;
        for (; i >> k & 1; k++)
            v = make(&node_info, level[k], v);
        level[k] = v;
    }
    value_release(level[17]);
    Value unit = value_unit();
    value_release(value_retain(unit));
    CHECK(unit.object->refs == UINT32_MAX && object_n(unit.object) == 0);
    heap_break_cycles(&limits);
}

static int destroyed;

static void destroy(Object *o)
{
    destroyed += (int)object_n(o);
}

static void print(Buf *out, const Object *o)
{
    buf_printf(out, "<fn of %u>", object_n(o));
}

static const ObjectInfo fn_info = {.kind = VALUE_FUNCTION, .destroy = destroy, .print = print};

static void test_cycles(void)
{
    for (int i = 0; i < 100; i++) {
        /* r = ref((closure of r, list, big tuple)), and a chain of references into it. */
        Value r = make_ref(value_none());
        Object *fn = object_new(&limits, &fn_info, FUNCTION_CAPTURED + 1);
        object_set(fn, FUNCTION_CAPTURED, value_retain(r));
        Object *wide = object_new(&limits, &tuple_info, 100);
        for (int k = 0; k < 100; k++)
            object_set(wide, (uint32_t)k, value_int32(k));
        object_set(wide, 50, make(&cons_info, make_ref(value_retain(r)), make_list(10)));
        object_set(r.object, 0, make(&tuple_info, value_object(fn), value_object(wide)));
        if (i == 0)
            check_shown(r, (ShowStyle){.list = 4},
                        "ref((<fn of 3>, (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, "
                        "15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, "
                        "31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, "
                        "47, 48, 49, [ref(...), 0, 1, 2, ...], 51, 52, 53, 54, 55, ...)))");
        Value other = i % 2 ? make_ref(value_retain(r)) : value_none();
        value_release(other);
        value_release(r);
    }
    CHECK(destroyed == 0);
    heap_break_cycles(&limits);
    CHECK(destroyed == 300);
    /* Equal cycles are equal, and comparing them ends. */
    Value a = make_ref(value_none()), b = make_ref(value_none());
    object_set(a.object, 0, make(&tuple_info, value_int32(1), value_retain(a)));
    object_set(b.object, 0, make(&tuple_info, value_int32(1), value_retain(b)));
    CHECK(value_equal(a, b));
    object_set(object_get(b.object, 0).object, 0, value_int32(2));
    CHECK(!value_equal(a, b));
    value_release(a);
    value_release(b);
    heap_break_cycles(&limits);
}

static void test_refused_objects(void)
{
    limits.memory_most = 3000000;
    limits_start(&limits); /* lets go of what earlier work left */
    Value list = value_object(&nil);
    int cells = 0;
    while (list.kind != VALUE_NONE && cells < 10000000) {
        list = make(&cons_info, value_int32(cells), list);
        cells++;
    }
    CHECK(cells > 100000 && cells < 130000);
    CHECK(limits.hit == LIMIT_MEMORY && diags.errors == 1);
    limits.memory_most = 0;
    limits_start(&limits);
    diags_clear(&diags);
}

static Value make_in(Limits *l, Value a, Value b)
{
    Object *o = object_new(l, &cons_info, 2);
    if (!o)
        return value_none();
    object_set(o, 0, a);
    object_set(o, 1, b);
    return value_object(o);
}

static Value make_list_in(Limits *l, int n)
{
    Value list = value_unit();
    while (n-- > 0 && list.kind != VALUE_NONE)
        list = make_in(l, value_int32(n), list);
    return list;
}

static size_t live_in(Limits *l)
{
    size_t live = 0;
    CHECK(heap_check(l, &live));
    return live;
}

/* What is forgotten and what is given back twice is found. */
static void test_heap(void)
{
    Limits l;
    limits_init(&l, &diags);
    CHECK(live_in(&l) == 0);
    Value list = make_list_in(&l, 1000);
    CHECK(live_in(&l) > 0);
    Value again = value_retain(list);
    value_release(list);
    CHECK(live_in(&l) > 0);
    value_release(again);
    CHECK(live_in(&l) == 0);
    size_t bytes = sizeof(Object) + 2 * sizeof(Field);
    if (heap_is_listed(bytes)) {
        Object *o = make_list_in(&l, 1).object;
        heap_free(heap_of(&l), o, bytes, false);
        CHECK(live_in(&l) == 0);
        heap_free(heap_of(&l), o, bytes, false);
        size_t live;
        CHECK(!heap_check(&l, &live));
    }
    limits_deinit(&l);
}

/* Slabs on which nothing lives make room for other things before a limit is reached, and none is let go of that is used. */
static void test_heap_gives_way(void)
{
    Limits l;
    limits_init(&l, &diags);
    l.memory_most = (size_t)16 << 20;
    Value small = make_list_in(&l, 10), large = make_list_in(&l, 500000),
          kept = make_list_in(&l, 10);
    CHECK(large.kind != VALUE_NONE && l.hit == LIMIT_NONE);
    value_release(large);
    Tensor *t = tensor_new(&l, dtype_of(DT_INT8), 1, (int64_t[]){12 << 20});
    CHECK(t && l.hit == LIMIT_NONE);
    tensor_release(t);
    large = make_list_in(&l, 100000);
    Value same = make_list_in(&l, 10);
    CHECK(value_equal(small, kept) && value_equal(small, same));
    value_release(small);
    value_release(large);
    value_release(kept);
    value_release(same);
    CHECK(live_in(&l) == 0);
    limits_deinit(&l);
    CHECK(l.memory == 0);
}

/* Of the places where cells come from next, those that do not follow the one before. */
static size_t count_jumps(Limits *l, size_t n)
{
    size_t jumps = 0;
    const FreeCell *c = l->words.cells[(sizeof(Object) + 2 * sizeof(Field)) / HEAP_UNIT];
    for (; c && c->next && n > 0; c = c->next, n--)
        jumps += (uintptr_t)c->next - (uintptr_t)c > 1024;
    return jumps;
}

/* Cells that were given back in any order are taken in that of their places, and what lives stays as it was. */
static void test_lists_in_order(void)
{
    enum { CELLS = 100000 };
    Limits l;
    limits_init(&l, &diags);
    Value kept = make_list_in(&l, 1000), same = make_list_in(&l, 1000);
    Object *ref = object_new(&l, &ref_info, 1);
    object_set(ref, 0, value_int32(7));
    Object **all = calloc(CELLS, sizeof *all);
    for (size_t i = 0; i < CELLS; i++)
        all[i] = make_in(&l, value_int32((int)i), value_unit()).object;
    for (size_t i = 0; i < CELLS; i++)
        object_release(all[i * 7919 % CELLS]);
    free(all);
    if (heap_is_listed(sizeof(Object) + 2 * sizeof(Field))) {
        CHECK(count_jumps(&l, 50000) > 40000);
        heap_settle(&l);
        CHECK(count_jumps(&l, 50000) < 1000);
    }
    CHECK(value_equal(kept, same));
    CHECK(value_as_int(object_get(ref, 0)) == 7);
    value_release(kept);
    value_release(same);
    object_release(ref);
    Value again = make_list_in(&l, CELLS);
    CHECK(again.kind != VALUE_NONE);
    value_release(again);
    CHECK(live_in(&l) == 0);
    limits_deinit(&l);
}

/* Sessions in two threads meet in the numbers of forms alone. */
static void *two_sessions(void *data)
{
    (void)data;
    for (int i = 0; i < 200; i++) {
        Limits l;
        limits_init(&l, &diags);
        Value list = make_list_in(&l, 5);
        for (int k = 0; k < 20; k++)
            list = make_in(&l, value_scalar_int(dtype_of((DTypeId)(k % 4)), k), list);
        value_release(list);
        size_t live;
        if (!heap_check(&l, &live) || live > 0)
            return &diags;
        limits_deinit(&l);
    }
    return NULL;
}

static void test_two_heaps(void)
{
    pthread_t other;
    void *failed = NULL;
    CHECK(pthread_create(&other, NULL, two_sessions, NULL) == 0);
    CHECK(!two_sessions(NULL));
    CHECK(pthread_join(other, &failed) == 0 && !failed);
}

/* A list is let go of without recursion, whichever field leads on. */
static void test_long_chains(void)
{
    Value right = make_list(3000000), left = value_object(&nil);
    for (int i = 0; i < 3000000; i++)
        left = make(&node_info, left, value_int32(i));
    value_release(right);
    value_release(left);
}

/* Where each element of a long line ends is found from where the one before did: else this takes minutes. */
static void test_long_line(void)
{
    enum { MANY = 200000 };
    Buf b = {0};
    Value list = make_list(MANY);
    value_show(&b, list, (ShowStyle){.list = MANY});
    CHECK(b.n == sizeof "[]" - 1 + 2 * (MANY - 1) + 10 + 180 + 2700 + 36000 + 450000 + 600000);
    buf_deinit(&b);
    value_release(list);
}

static void test_show(void)
{
    Value t = value_tensor(make_tensor(DT_FLOAT32, 2, (int64_t[]){2, 2}));
    check_shown(t, (ShowStyle){0}, "[[0, 1], [2, 3]] : Tensor[(2, 2), float32]");
    check_shown(t, (ShowStyle){.width = 10}, "[[0, 1],\n [2, 3]] : Tensor[(2, 2), float32]");
    Value pair = make(&tuple_info, value_retain(t), value_bool(false));
    check_shown(pair, (ShowStyle){0}, "([[0, 1], [2, 3]], False)");
    check_shown(pair, (ShowStyle){.width = 10}, "([[0, 1],\n  [2, 3]], False)");
    value_release(pair);
    value_release(t);
    t = value_tensor(make_tensor(DT_INT32, 1, (int64_t[]){2000}));
    check_shown(t, (ShowStyle){0}, "[0, 1, 2, ..., 1997, 1998, 1999] : Tensor[(2000), int32]");
    value_release(t);
    t = value_tensor(make_tensor(DT_INT16, 1, (int64_t[]){12}));
    check_shown(t, (ShowStyle){.width = 20},
                "[ 0,  1,  2,  3,  4,\n  5,  6,  7,  8,  9,\n 10, 11] : Tensor[(12), int16]");
    value_release(t);
    t = value_tensor(make_tensor(DT_BOOL, 1, (int64_t[]){3}));
    check_shown(t, (ShowStyle){0}, "[False, True, True] : Tensor[(3), bool]");
    value_release(t);
    t = value_tensor(make_tensor(DT_INT32, 3, (int64_t[]){10, 10, 10}));
    check_shown(
        t, (ShowStyle){.elements = 10, .edge = 1, .width = 20},
        "[[[  0, ...,   9],\n  ...,\n  [ 90, ...,  99]],\n\n ...,\n\n [[900, ..., 909],\n  ...,\n"
        "  [990, ..., 999]]] : Tensor[(10, 10, 10), int32]");
    value_release(t);
    t = value_tensor(tensor_new(&limits, dtype_of(DT_FLOAT32), 2, (int64_t[]){0, 3}));
    check_shown(t, (ShowStyle){0}, "[] : Tensor[(0, 3), float32]");
    value_release(t);
    Tensor *f = tensor_new(&limits, dtype_of(DT_FLOAT64), 2, (int64_t[]){2, 2});
    memcpy(f->data, (double[]){1, -22.5, NAN, 0.125}, 32);
    t = value_tensor(f);
    check_shown(t, (ShowStyle){.width = 20},
                "[[  1    , -22.5  ],\n [nan    ,   0.125]] : Tensor[(2, 2), float64]");
    Buf b = {0};
    tensor_summary(&b, f, NULL);
    CHECK_TEXT(buf_text(&b), "1, -22.5, nan, …; min -22.5, max 1, mean -7.125, 1 NaN");
    buf_deinit(&b);
    value_release(t);

    Value list = make_list(3);
    check_shown(list, (ShowStyle){0}, "[0, 1, 2]");
    check_shown(list, (ShowStyle){.exact = true}, "Cons(0, Cons(1, Cons(2, Nil)))");
    check_shown(list, (ShowStyle){.list = 2}, "[0, 1, ...]");
    value_release(list);
    check_shown(value_object(&nil), (ShowStyle){0}, "[]");
    check_shown(value_object(&nil), (ShowStyle){.exact = true}, "Nil");
    check_shown(value_unit(), (ShowStyle){0}, "()");
    Object *single = object_new(&limits, &tuple_info, 1);
    object_set(single, 0, make_ref(make(&node_info, make_list(1), value_unit())));
    check_shown(value_object(single), (ShowStyle){0}, "(ref(Node([0], ())),)");
    value_release(value_object(single));
    Value deep = value_int32(1);
    for (int i = 0; i < 100000; i++)
        deep = make_ref(deep);
    check_shown(deep, (ShowStyle){.list = 3}, "ref(ref(ref(ref(...))))");
    value_release(deep);
}

int main(void)
{
    diags_init(&diags, &limits);
    limits_init(&limits, &diags);
    object_immortal(&limits, &nil_info, &nil);
    test_dtypes();
    test_scalars();
    test_rows();
    test_tensors();
    test_elements_of_others();
    test_places();
    test_refused_tensors();
    test_objects();
    test_cycles();
    test_refused_objects();
    test_heap();
    test_heap_gives_way();
    test_lists_in_order();
    test_two_heaps();
    test_long_chains();
    test_show();
    test_long_line();
    diags_deinit(&diags);
    limits_deinit(&limits);
    CHECK(limits.memory == 0);
    return check_done();
}
