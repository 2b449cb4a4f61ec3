/* Memory that is planned ahead: what lives at the same time never overlaps. */
#include "base/random.h"
#include "sched/memory.h"
#include "tests/unit/check.h"

#define MOST 48

static uint64_t seed;
static uint64_t drawn;

static uint64_t below(uint64_t n)
{
    return random_at(seed, drawn++) % n;
}

/* By looking at every byte range at every step. */
static bool is_sound(const MemoryNeed *needs, size_t n, size_t total)
{
    for (int step = 0; step < 32; step++)
        for (size_t i = 0; i < n; i++) {
            const MemoryNeed *a = &needs[i];
            if (step < a->first || step > a->last || a->size == 0)
                continue;
            if (a->offset + a->size > total || a->offset % MEMORY_ALIGN)
                return false;
            for (size_t k = 0; k < i; k++) {
                const MemoryNeed *b = &needs[k];
                if (step >= b->first && step <= b->last && b->size > 0 &&
                    a->offset < b->offset + b->size && b->offset < a->offset + a->size)
                    return false;
            }
        }
    return true;
}

static size_t aligned(size_t n)
{
    return (n + MEMORY_ALIGN - 1) & ~(MEMORY_ALIGN - 1);
}

/* No plan needs less than what lives in the fullest step, and none should need more than all together. */
static void check_total(const MemoryNeed *needs, size_t n, size_t total)
{
    size_t all = 0, fullest = 0;
    for (int step = 0; step < 32; step++) {
        size_t now = 0;
        for (size_t i = 0; i < n; i++)
            now += step >= needs[i].first && step <= needs[i].last ? needs[i].size : 0;
        fullest = now > fullest ? now : fullest;
    }
    for (size_t i = 0; i < n; i++)
        all += aligned(needs[i].size);
    CHECK(total >= fullest && total <= all);
}

static size_t draw(MemoryNeed *needs)
{
    size_t n = 1 + below(MOST - 1);
    for (size_t i = 0; i < n; i++) {
        int first = (int)below(32);
        needs[i] = (MemoryNeed){.size = below(4) ? below(1000) : 64 * below(40),
                                .first = first,
                                .last = first - 1 + (int)below((uint64_t)(33 - first))};
    }
    return n;
}

/* Moves one onto another that lives at the same time; false when no two do. */
static bool plant(MemoryNeed *needs, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < i; k++) {
            MemoryNeed *a = &needs[i], *b = &needs[k];
            if (a->size && b->size && a->first <= a->last && b->first <= b->last &&
                a->first <= b->last && b->first <= a->last) {
                a->offset = b->offset;
                return true;
            }
        }
    return false;
}

int main(void)
{
    Arena arena;
    MemoryNeed needs[MOST];
    seed = random_seed("block");
    for (int round = 0; round < 3000; round++) {
        arena_init(&arena, NULL);
        size_t n = draw(needs), first = memory_plan(&arena, needs, n, 1);
        size_t total = memory_plan(&arena, needs, n, 1 + round % 4);
        CHECK(is_sound(needs, n, total));
        check_total(needs, n, first);
        CHECK(total <= first + first / 4);
        if (plant(needs, n))
            CHECK(!is_sound(needs, n, total));
        arena_deinit(&arena);
    }
    /* One after the other they share a place. */
    MemoryNeed chain[3] = {{64, 0, 1, 9}, {64, 1, 2, 9}, {64, 2, 3, 9}};
    arena_init(&arena, NULL);
    CHECK(memory_plan(&arena, chain, 3, 1) == 128);
    /* Of two threads each writes the half that it wrote before. */
    MemoryNeed halves[2] = {{256, 0, 0, 9}, {128, 1, 1, 9}};
    CHECK(memory_plan(&arena, halves, 2, 1) == 256 && halves[1].offset == 0);
    CHECK(memory_plan(&arena, halves, 2, 2) == 256 && halves[1].offset == 64);
    arena_deinit(&arena);
    return check_done();
}
