#include "base/arena.h"
#include "base/diag.h"
#include "base/limit.h"
#include "base/str.h"
#include "base/vec.h"
#include "check.h"

#include <stdint.h>
#include <stdlib.h>

static bool is_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (p[i])
            return false;
    }
    return true;
}

static void test_alloc(void)
{
    Arena a;
    arena_init(&a, NULL);
    char *last = NULL;
    for (size_t size = 0; size < 3000; size += 7) {
        char *p = arena_alloc(&a, size);
        CHECK(p && p != last && (uintptr_t)p % 8 == 0 && is_zero(p, size));
        memset(p, 0xee, size);
        last = p;
    }
    char *big = arena_alloc(&a, ARENA_BIG + 1);
    CHECK(big && is_zero(big, ARENA_BIG + 1));
    CHECK(arena_alloc_array(&a, SIZE_MAX / 2, 3) == NULL);
    CHECK_TEXT(arena_copy_text(&a, "relay and more", 5), "relay");
    arena_deinit(&a);
    CHECK(a.bytes == 0);
}

/* What grows keeps its bytes: in place, moved because something stands behind it, and as a block of its own. */
static void test_grow(void)
{
    Arena a;
    arena_init(&a, NULL);
    for (int between = 0; between < 2; between++) {
        unsigned char *p = NULL;
        size_t n = 0, wrong = 0;
        for (size_t more = 16; more < 4 * ARENA_BIG; more = more * 3 / 2) {
            p = arena_grow(&a, p, n, more);
            memset(p + n, (int)(more & 0xff), more - n);
            for (size_t i = 0, size = 16; size <= more; i = size, size = size * 3 / 2)
                for (size_t k = i; k < size; k += 97)
                    wrong += p[k] != (size & 0xff);
            n = more;
            if (between)
                memset(arena_alloc(&a, 40), 0xee, 40);
        }
        CHECK(wrong == 0);
    }
    char *first = arena_alloc_must(&a, 2 * ARENA_BIG, 1);
    char *second = arena_alloc_must(&a, 2 * ARENA_BIG, 1);
    memset(second, 2, 2 * ARENA_BIG);
    memset(first, 1, 2 * ARENA_BIG);
    first = arena_grow(&a, first, 2 * ARENA_BIG, 64 * ARENA_BIG);
    memset(first + 2 * ARENA_BIG, 1, 62 * ARENA_BIG);
    second = arena_grow(&a, second, 2 * ARENA_BIG, 3 * ARENA_BIG);
    CHECK(first[0] == 1 && first[2 * ARENA_BIG - 1] == 1 && second[2 * ARENA_BIG - 1] == 2);
    arena_deinit(&a);
    CHECK(a.bytes == 0);
}

typedef struct Order {
    int *next;
    int number;
} Order;

static void count_down(void *data)
{
    Order *o = data;
    CHECK(*o->next == o->number);
    --*o->next;
}

static void test_marks(void)
{
    Arena a;
    arena_init(&a, NULL);
    int next = 4;
    Order orders[5];
    for (int i = 0; i < 5; i++)
        orders[i] = (Order){&next, i};
    char *kept = arena_alloc(&a, 100);
    memset(kept, 1, 100);
    arena_on_free(&a, count_down, &orders[0]);
    arena_on_free(&a, count_down, &orders[1]);
    for (int round = 0; round < 50; round++) {
        ArenaMark mark = arena_mark(&a);
        size_t bytes = a.bytes;
        next = 4;
        arena_on_free(&a, count_down, &orders[2]);
        for (int i = 0; i < 100; i++)
            memset(arena_alloc(&a, (size_t)i * 9), 0xee, (size_t)i * 9);
        memset(arena_alloc(&a, ARENA_BIG * 2), 0xee, ARENA_BIG * 2);
        arena_on_free(&a, count_down, &orders[3]);
        arena_on_free(&a, count_down, &orders[4]);
        arena_reset(&a, mark);
        CHECK(next == 1 && a.bytes == bytes);
        CHECK(kept[0] == 1 && kept[99] == 1);
        CHECK(is_zero(arena_alloc(&a, 64), 64));
    }
    arena_deinit(&a);
    CHECK(next == -1);
}

static void test_limit(void)
{
    Limits limits;
    Diags diags;
    diags_init(&diags, &limits);
    limits_init(&limits, &diags);
    Arena a;
    arena_init(&a, &limits);
    limits.memory_most = 10000;
    for (int i = 0; i < 1000; i++)
        memset(arena_alloc(&a, 200), 0xee, 200);
    CHECK(limits.memory <= 10000);
    CHECK(limit_hit(&limits) && limits.hit == LIMIT_MEMORY);
    CHECK(diags.errors == 1 && diags.first->code == E0503_MEMORY);
    CHECK(arena_alloc(&a, ARENA_BIG + 1) == NULL);
    Vec(int) v = {0};
    for (int i = 0; i < 100000; i++)
        vec_push(&v, &a, i);
    CHECK(v.n == 100000 && v.at[99999] == 99999);
    CHECK(diags.errors == 1);
    /* What the reserve gave stays good when the next piece of work begins with a new one. */
    char *before = arena_alloc(&a, 200);
    memset(before, 7, 200);
    limits_start(&limits);
    for (int i = 0; i < 100; i++)
        memset(arena_alloc(&a, 200), 0xee, 200);
    CHECK(before[0] == 7 && before[199] == 7);
    arena_deinit(&a);
    diags_deinit(&diags);
    CHECK(limits.memory == 0);
    limits_deinit(&limits);
}

/* Each charge in turn is refused; nothing may crash or leak, and the report comes once. */
static void test_every_refusal(void)
{
    for (uint64_t refuse = 1; refuse < 60; refuse++) {
        Limits limits;
        Diags diags;
        diags_init(&diags, &limits);
        limits_init(&limits, &diags);
        limits.refuse = refuse;
        Arena a;
        arena_init(&a, &limits);
        Interner names;
        interner_init(&names, &a);
        char text[16];
        for (int i = 0; i < 2000; i++) {
            int n = snprintf(text, sizeof text, "x%d", i);
            const Name *name = name_intern(&names, text, (size_t)n);
            CHECK(name == name_intern(&names, name->text, name->len));
        }
        CHECK(names.names.n == 2000);
        CHECK(diags.errors <= 1 && limit_hit(&limits) == (diags.errors == 1));
        interner_deinit(&names);
        arena_deinit(&a);
        diags_deinit(&diags);
        CHECK(limits.memory == 0);
        limits_deinit(&limits);
    }
}

static void test_time_and_interrupt(void)
{
    Limits limits;
    Diags diags;
    diags_init(&diags, NULL);
    limits_init(&limits, &diags);
    limits.seconds_most = 0.01;
    limits_start(&limits);
    CHECK(!limit_hit(&limits));
    long asked = 0;
    while (!limit_hit(&limits) && asked < 1000000000)
        asked++;
    CHECK(limits.hit == LIMIT_TIME && limit_hit(&limits) && diags.errors == 1);
    limits_start(&limits);
    CHECK(!limit_hit(&limits));
    atomic_store(&limits.interrupted, true);
    CHECK(limit_hit(&limits) && limits.hit == LIMIT_INTERRUPT && diags.errors == 2);
    CHECK(limit_reach(&limits, LIMIT_DEPTH) && limits.hit == LIMIT_INTERRUPT);
    limits_start(&limits);
    CHECK(!limit_hit(&limits));
    diags_deinit(&diags);
    limits_deinit(&limits);
}

int main(void)
{
    test_alloc();
    test_grow();
    test_marks();
    test_limit();
    test_every_refusal();
    test_time_and_interrupt();
    return check_done();
}
