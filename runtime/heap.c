#include "runtime/heap.h"

#include "base/memory.h"
#include "base/poison.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* With the address sanitizer each object is an allocation of its own, so that it sees leaks and
 * late uses. */
#define HEAP_PLAIN ADDRESSES_WATCHED

/* Slabs grow with what lives, up to the size of a large page. */
#define SLAB_LEAST ((size_t)64 << 10)
#define SLAB_MOST ((size_t)2 << 20)

/* So many bytes of a slab become free cells at once. */
#define CARVED ((size_t)4096)

/* How much large storage is kept for another use. */
#define SPARE_MOST 32
#define SPARE_BYTES ((size_t)256 << 20)

#define PIECES_MOST (SLAB_MOST / (CARVED - HEAP_SMALL_MOST) + 1)

typedef struct Slab {
    struct Slab *older;
    size_t size;
    size_t used; /* bytes that became cells */
    size_t free; /* while slabs are looked through: bytes of cells on the lists */
    size_t pieces; /* that were carved off */
    uint8_t units[PIECES_MOST]; /* the size of a cell of each */
} Slab;

/* A bit of an object's form that no address has there: cells that live differ in their first word from those on the lists. */
#define FORM_LIVES ((uint32_t)1 << 23)

/* What stands before a reference. */
typedef struct RefLinks {
    uint32_t none, lives; /* as the first word of an object */
    struct RefLinks *next;
    struct RefLinks **before; /* what points here */
} RefLinks;

/* At first; as many as there are forms, later. */
#define FORM_BUCKETS 64

_Static_assert(HEAP_SMALL_MOST / HEAP_UNIT + 1 == LIMIT_LISTS, "a list for each size");

struct Heap {
    Limits *limits;
    FreeCell **cells; /* by size, in units: the free ones */
    char *next, *end; /* the part of the newest slab that was never used */
    Slab *slabs;
    size_t slab_bytes;
    size_t single; /* objects that lie alone */
    RefLinks *refs;
    Storage spare[SPARE_MOST]; /* the oldest first */
    int spares;
    size_t spare_bytes;
    unsigned storages; /* that were made */
    ObjectForm **forms;
    size_t form_buckets, n_forms;
    unsigned patience, waited; /* how often the lists are left as they are (heap_settle) */
};

/* ---- forms ---------------------------------------------------------------------------------- */

/* Most of it is never touched. */
const ObjectForm *object_forms[1 << FORM_BITS];

/* The last numbers are put by, as memory is (base/memory.h): who takes one of them is refused and ends in order. */
enum { FORMS_MOST = 1 << FORM_BITS, FORMS_STOCK = 1 << 16 };

/* Numbers that were given back come first. */
static struct {
    pthread_mutex_t lock;
    uint32_t next;
    uint32_t *free;
    size_t n_free, cap;
} numbers = {.lock = PTHREAD_MUTEX_INITIALIZER, .next = FORM_UNIT + 1};

static void number_take(ObjectForm *form, uint32_t tag)
{
    pthread_mutex_lock(&numbers.lock);
    uint32_t number = numbers.n_free > 0          ? numbers.free[--numbers.n_free]
                      : numbers.next < FORMS_MOST ? numbers.next++
                                                  : 0;
    if (numbers.n_free + FORMS_MOST - numbers.next < FORMS_STOCK)
        memory_refused();
    if (number)
        object_forms[number] = form;
    pthread_mutex_unlock(&numbers.lock);
    if (!number)
        memory_gone();
    Object first = {.refs = 1, .form = number};
    first.form |= FORM_LIVES | (tag > FORM_TAG_MOST ? FORM_TAG_MOST + 1 : tag) << FORM_TAG_SHIFT;
    memcpy(&form->first, &first, sizeof form->first);
}

/* A number that cannot be noted is not used again. */
static void number_give(const ObjectForm *form)
{
    Object first;
    memcpy(&first, &form->first, sizeof form->first);
    uint32_t number = first.form & ((1u << FORM_BITS) - 1);
    pthread_mutex_lock(&numbers.lock);
    object_forms[number] = NULL;
    if (numbers.n_free == numbers.cap) {
        size_t cap = numbers.cap ? 2 * numbers.cap : 64;
        uint32_t *more = memory_resize(numbers.free, cap * sizeof *more);
        numbers.free = more ? more : numbers.free;
        numbers.cap = more ? cap : numbers.cap;
    }
    if (numbers.n_free < numbers.cap)
        numbers.free[numbers.n_free++] = number;
    pthread_mutex_unlock(&numbers.lock);
}

static bool is_small(size_t bytes)
{
    return bytes <= HEAP_SMALL_MOST && !HEAP_PLAIN;
}

bool heap_is_listed(size_t bytes)
{
    return is_small(bytes);
}

static ObjectForm **form_bucket(const Heap *h, const ObjectInfo *info, uint32_t n,
                                const uint64_t *heads)
{
    uint64_t hash = ((uint64_t)(uintptr_t)info >> 4) * 0x9e3779b97f4a7c15u;
    for (uint32_t i = 0; i < n; i++)
        hash = (hash ^ heads[i]) * 0x9e3779b97f4a7c15u;
    return &h->forms[(hash ^ hash >> 32) & (h->form_buckets - 1)];
}

static void forms_spread(Heap *h)
{
    ObjectForm **from = h->forms;
    size_t n = h->form_buckets, buckets = n ? 2 * n : FORM_BUCKETS;
    ObjectForm **to = memory_must(buckets * sizeof *to);
    memset(to, 0, buckets * sizeof *to);
    h->forms = to;
    h->form_buckets = buckets;
    for (size_t i = 0; i < n; i++)
        for (ObjectForm *f = from[i], *next; f; f = next) {
            ObjectForm **bucket = form_bucket(h, f->info, f->n, f->heads);
            next = f->next;
            f->next = *bucket;
            *bucket = f;
        }
    memory_free(from);
}

const ObjectForm *heap_form(Heap *h, const ObjectInfo *info, uint32_t n, const uint64_t *heads)
{
    for (ObjectForm *f = *form_bucket(h, info, n, heads); f; f = f->next)
        if (f->info == info && f->n == n && memcmp(f->heads, heads, n * sizeof *heads) == 0)
            return f;
    ObjectForm *f = memory_must(sizeof *f + n * sizeof *heads);
    if (++h->n_forms > h->form_buckets)
        forms_spread(h);
    ObjectForm **bucket = form_bucket(h, info, n, heads);
    *f = (ObjectForm){.info = info, .heap = h, .n = n, .next = *bucket};
    f->bytes = (uint32_t)(sizeof(Object) + n * sizeof(Field));
    if (heap_is_listed(f->bytes) && info != &ref_info)
        f->cells = &h->cells[f->bytes / HEAP_UNIT];
    memcpy(f->heads, heads, n * sizeof *heads);
    number_take(f, info ? info->tag : 0);
    return *bucket = f;
}

static void forms_free(Heap *h)
{
    for (size_t i = 0; i < h->form_buckets; i++)
        while (h->forms[i]) {
            ObjectForm *f = h->forms[i];
            h->forms[i] = f->next;
            number_give(f);
            memory_free(f);
        }
    memory_free(h->forms);
}

/* ---- slabs ---------------------------------------------------------------------------------- */

static void slab_free(Heap *h, Slab **at)
{
    Slab *s = *at;
    *at = s->older;
    h->slab_bytes -= s->size;
    limit_release(h->limits, s->size);
    free(s);
}

static void spare_free(Heap *h, int i)
{
    Storage s = h->spare[i];
    h->spares--;
    h->spare_bytes -= s.bytes;
    memmove(&h->spare[i], &h->spare[i + 1], (size_t)(h->spares - i) * sizeof s);
    free(s.at);
    limit_release(h->limits, s.bytes);
}

static void heap_delete(Heap *h)
{
    while (h->spares > 0)
        spare_free(h, h->spares - 1);
    while (h->slabs)
        slab_free(h, &h->slabs);
    forms_free(h);
    memory_free(h);
}

/* Large storage asks for large pages: touching it for the first time costs more than most loops
 * over it otherwise. */
static void want_large_pages(void *p, size_t bytes)
{
#ifdef MADV_HUGEPAGE
    if (bytes < SLAB_MOST)
        return;
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)p + page - 1) & ~(page - 1);
    uintptr_t to = ((uintptr_t)p + bytes) & ~(page - 1);
    madvise((void *)from, to - from, MADV_HUGEPAGE);
#else
    (void)p;
    (void)bytes;
#endif
}

/* The slab that the cell lies on: a large one lies at a multiple of its size; of the others there are few. */
static Slab *slab_of(const Heap *h, const void *cell, size_t odd)
{
    for (Slab *s = h->slabs; s && odd > 0; s = s->older) {
        if (s->size == SLAB_MOST)
            continue;
        if ((const char *)cell > (char *)s && (const char *)cell < (char *)s + s->size)
            return s;
        odd--;
    }
    return (Slab *)((uintptr_t)cell & ~(uintptr_t)(SLAB_MOST - 1));
}

static size_t count_odd(const Heap *h)
{
    size_t odd = 0;
    for (const Slab *s = h->slabs; s; s = s->older)
        odd += s->size != SLAB_MOST;
    return odd;
}

/* Notes on each slab how much of it is free. False when that is more than there is: a cell was given back twice. */
static bool count_free(Heap *h)
{
    size_t odd = count_odd(h), used = 0, free = 0;
    for (Slab *s = h->slabs; s; s = s->older) {
        s->free = 0;
        used += s->used;
    }
    for (size_t i = 0; i < LIMIT_LISTS; i++)
        for (FreeCell *c = h->cells[i]; c; c = c->next) {
            slab_of(h, c, odd)->free += i * HEAP_UNIT;
            free += i * HEAP_UNIT;
            if (free > used)
                return false;
        }
    return true;
}

/* Lets go of the slabs on which nothing lives. */
static void heap_trim(Heap *h)
{
    if (!h->slabs || HEAP_PLAIN || !count_free(h))
        return;
    size_t odd = count_odd(h);
    for (size_t i = 0; i < LIMIT_LISTS; i++)
        for (FreeCell **at = &h->cells[i]; *at;) {
            const Slab *s = slab_of(h, *at, odd);
            if (s->free == s->used)
                *at = (*at)->next;
            else
                at = &(*at)->next;
        }
    if (h->slabs->free == h->slabs->used)
        h->next = h->end = NULL; /* what is new lies on the newest */
    for (Slab **at = &h->slabs; *at;) {
        if ((*at)->free == (*at)->used)
            slab_free(h, at);
        else
            at = &(*at)->older;
    }
}

Heap *heap_of(Limits *limits)
{
    if (limits->heap)
        return limits->heap;
    Heap *h = memory_must(sizeof *h);
    memset(h, 0, sizeof *h);
    forms_spread(h);
    h->limits = limits;
    h->cells = limits->words.cells;
    memset(h->cells, 0, sizeof limits->words.cells);
    limits->heap = h;
    limits->heap_free = heap_delete;
    limits->heap_trim = heap_trim;
    return h;
}

/* A slab as large as all so far, or as the limit still allows. */
static bool slab_add(Heap *h)
{
    Limits *l = h->limits;
    size_t size = h->slab_bytes < SLAB_LEAST  ? SLAB_LEAST
                  : h->slab_bytes > SLAB_MOST ? SLAB_MOST
                                              : h->slab_bytes;
    while (size > SLAB_LEAST && l->memory_most > 0 && l->memory + size > l->memory_most)
        size /= 2;
    if (l->memory_most > 0 && l->memory + size > l->memory_most)
        heap_trim(h);
    if (!limit_charge(l, size))
        return false;
    Slab *s = size == SLAB_MOST ? memory_aligned(SLAB_MOST, SLAB_MOST) : memory_alloc(size);
    if (!s) {
        limit_release(l, size);
        return false;
    }
    want_large_pages(s, size);
    *s = (Slab){.older = h->slabs, .size = size};
    h->slabs = s;
    h->slab_bytes += size;
    h->next = (char *)(s + 1);
    h->end = (char *)s + size;
    return true;
}

/* How many cells the next piece of a slab has. */
static size_t piece_cells(const char *at, const char *end, size_t bytes)
{
    size_t room = (size_t)(end - at);
    return (room < CARVED ? room : CARVED) / bytes;
}

/* More cells of the size, in the order of their addresses; the first is the caller's. */
static void *carve(Heap *h, size_t bytes)
{
    if ((size_t)(h->end - h->next) < bytes && !slab_add(h))
        return NULL;
    size_t n = piece_cells(h->next, h->end, bytes);
    char *first = h->next;
    h->next += n * bytes;
    h->slabs->used += n * bytes;
    h->slabs->units[h->slabs->pieces++] = (uint8_t)(bytes / HEAP_UNIT);
    FreeCell *list = NULL;
    for (size_t i = n; i-- > 1;) {
        FreeCell *c = (FreeCell *)(void *)(first + i * bytes);
        c->next = list;
        list = c;
    }
    h->cells[bytes / HEAP_UNIT] = list;
    return first;
}

static void *small_alloc(Heap *h, size_t bytes)
{
    void *p = cell_take(&h->cells[bytes / HEAP_UNIT]);
    return p ? p : carve(h, bytes);
}

static void small_free(Heap *h, void *p, size_t bytes)
{
    cell_give(&h->cells[bytes / HEAP_UNIT], p);
}

static void *large_alloc(Heap *h, size_t bytes)
{
    if (!limit_charge(h->limits, bytes))
        return NULL;
    void *p = memory_alloc(bytes);
    if (p)
        h->single++;
    else
        limit_release(h->limits, bytes);
    return p;
}

static RefLinks *links_of(Object *o)
{
    return (RefLinks *)(void *)o - 1;
}

static Object *object_of(RefLinks *r)
{
    return (Object *)(void *)(r + 1);
}

static void link_in(RefLinks **list, RefLinks *r)
{
    r->next = *list;
    r->before = list;
    if (r->next)
        r->next->before = &r->next;
    *list = r;
}

static void link_out(RefLinks *r)
{
    *r->before = r->next;
    if (r->next)
        r->next->before = r->before;
}

Object *heap_alloc(Limits *limits, size_t bytes, bool is_ref)
{
    Heap *h = heap_of(limits);
    size_t front = is_ref ? sizeof(RefLinks) : 0;
    char *p =
        is_small(bytes + front) ? small_alloc(h, bytes + front) : large_alloc(h, bytes + front);
    if (!p) {
        limit_reach(limits, LIMIT_MEMORY);
        return NULL;
    }
    Object *o = (Object *)(void *)(p + front);
    if (is_ref) {
        links_of(o)->lives = FORM_LIVES;
        link_in(&h->refs, links_of(o));
    }
    return o;
}

void heap_free(Heap *h, Object *o, size_t bytes, bool is_ref)
{
    size_t front = is_ref ? sizeof(RefLinks) : 0;
    if (is_ref)
        link_out(links_of(o));
    char *p = (char *)o - front;
    if (is_small(bytes + front)) {
        small_free(h, p, bytes + front);
        return;
    }
    h->single--;
    limit_release(h->limits, bytes + front);
    free(p);
}

/* ---- the order of free cells ------------------------------------------------------------------- */

/* Below this a heap lies in the processor's first cache however its lists go; what lies in the second is fetched ahead when the lists go
 * by addresses, and several cells of a line come at once. */
#define SETTLED_BYTES ((size_t)1 << 16)
/* Cells of a list that are looked at; how far one may lie from one of the last few, and how many may lie further. */
#define SETTLED_LOOKS 64
#define SETTLED_FAR ((uintptr_t)1024)
#define SETTLED_LAST 4
#define SETTLED_JUMPS 24
#define PATIENCE_MOST 1024

/* Whether cells that follow each other on the list lie all over the place. */
static bool is_shuffled(const FreeCell *c)
{
    uintptr_t last[SETTLED_LAST] = {0};
    unsigned jumps = 0;
    for (unsigned i = 0; i < SETTLED_LOOKS && c; i++, c = c->next) {
        bool near = false;
        for (unsigned k = 0; k < SETTLED_LAST; k++)
            near |= (uintptr_t)c - last[k] + SETTLED_FAR < 2 * SETTLED_FAR;
        jumps += !near;
        last[i % SETTLED_LAST] = (uintptr_t)c;
    }
    return jumps > SETTLED_JUMPS;
}

/* Makes the lists anew, in the order of addresses. Returns how many bytes of how many are free. */
static size_t sort_lists(Heap *h, size_t *used)
{
    FreeCell **last[HEAP_SMALL_MOST / HEAP_UNIT + 1];
    size_t free = 0;
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        last[i] = &h->cells[i];
    for (Slab *s = h->slabs; s; s = s->older) {
        char *at = (char *)(s + 1);
        for (size_t i = 0; i < s->pieces; i++) {
            size_t bytes = s->units[i] * HEAP_UNIT;
            FreeCell **to = last[s->units[i]];
            for (size_t n = piece_cells(at, (char *)s + s->size, bytes); n > 0; n--, at += bytes) {
                Object first;
                memcpy(&first, at, sizeof first);
                if (first.form & FORM_LIVES)
                    continue;
                *to = (FreeCell *)(void *)at;
                to = &(*to)->next;
                free += bytes;
            }
            last[s->units[i]] = to;
        }
        *used += s->used;
    }
    for (size_t i = 0; i < sizeof last / sizeof *last; i++)
        *last[i] = NULL;
    return free;
}

void heap_settle(Limits *limits)
{
    Heap *h = limits->heap;
    if (!h || h->slab_bytes < SETTLED_BYTES || HEAP_PLAIN || h->waited++ < h->patience)
        return;
    bool shuffled = false;
    for (size_t i = 0; i < LIMIT_LISTS && !shuffled; i++)
        shuffled = is_shuffled(h->cells[i]);
    if (!shuffled)
        return;
    size_t used = 0, free = sort_lists(h, &used);
    bool worth = free > used / 4; /* else all was looked through for little */
    h->patience = worth ? 0 : h->patience < PATIENCE_MOST ? 2 * h->patience + 1 : PATIENCE_MOST;
    h->waited = 0;
}

/* ---- looking for mistakes -------------------------------------------------------------------- */

static int by_address(const void *a, const void *b)
{
    const char *x = *(char *const *)a, *y = *(char *const *)b;
    return (x > y) - (x < y);
}

/* Whether a cell lies twice on the list, which has n. */
static bool has_twice(const FreeCell *list, size_t n)
{
    const FreeCell **all = memory_must((n + 1) * sizeof *all);
    size_t k = 0;
    for (const FreeCell *c = list; c && k < n; c = c->next)
        all[k++] = c;
    qsort(all, k, sizeof *all, by_address);
    bool twice = false;
    for (size_t i = 1; i < k && !twice; i++)
        twice = all[i] == all[i - 1];
    memory_free(all);
    return twice;
}

bool heap_check(Limits *limits, size_t *live)
{
    Heap *h = heap_of(limits);
    bool sound = count_free(h);
    *live = h->single * HEAP_UNIT;
    for (const Slab *s = h->slabs; s; s = s->older)
        *live += s->used - (sound ? s->free : 0);
    for (size_t i = 0; i < LIMIT_LISTS && sound; i++) {
        size_t n = 0;
        for (const FreeCell *c = h->cells[i]; c; c = c->next)
            n++;
        sound = !has_twice(h->cells[i], n);
    }
    return sound;
}

/* A reference that has been emptied moves to a list of its own before its value goes, which may
 * free any of them. */
void heap_break_cycles(Limits *limits)
{
    Heap *h = limits ? limits->heap : NULL;
    RefLinks *emptied = NULL;
    while (h && h->refs) {
        RefLinks *r = h->refs;
        link_out(r);
        link_in(&emptied, r);
        Object *o = object_of(r);
        Value held = object_get(o, 0);
        object_set(o, 0, value_none());
        value_release(held);
    }
    while (emptied) {
        RefLinks *r = emptied;
        link_out(r);
        link_in(&h->refs, r);
    }
}

/* --- Large storage */

/* Whole large pages: where one begins in the middle, hundreds of small ones are touched before it and behind the last. */
static void *storage_try(size_t bytes)
{
    return bytes < SLAB_MOST ? memory_try(bytes) : memory_try_aligned(SLAB_MOST, bytes);
}

static Storage storage_new(Limits *limits, size_t bytes)
{
    Storage none = {0};
    size_t most = limits->memory_most;
    Heap *h = limits->heap;
    /* What is kept gives way before the limit is reached. */
    while (h && h->spares > 0 && most > 0 && (bytes > most || limits->memory > most - bytes))
        spare_free(h, 0);
    if (h && most > 0 && (bytes > most || limits->memory > most - bytes))
        heap_trim(h);
    if (!limit_charge(limits, bytes))
        return none;
    void *at = storage_try(bytes);
    while (!at && h && h->spares > 0) {
        spare_free(h, 0);
        at = storage_try(bytes);
    }
    if (!at) {
        memory_refused();
        limit_release(limits, bytes);
        return none;
    }
    want_large_pages(at, bytes);
    return (Storage){at, bytes, h ? h->storages++ : 0};
}

Storage heap_storage_take(Limits *limits, size_t bytes)
{
    Heap *h = heap_of(limits);
    for (int i = h ? h->spares - 1 : -1; i >= 0; i--) {
        Storage s = h->spare[i];
        if (s.bytes < bytes || s.bytes - bytes > bytes / 4)
            continue;
        h->spares--;
        h->spare_bytes -= s.bytes;
        memmove(&h->spare[i], &h->spare[i + 1], (size_t)(h->spares - i) * sizeof s);
        return s;
    }
    return storage_new(limits, bytes);
}

void heap_storage_give(Limits *limits, Storage s)
{
    Heap *h = limits->heap;
    if (!h || s.bytes > SPARE_BYTES || HEAP_PLAIN) {
        free(s.at);
        limit_release(limits, s.bytes);
        return;
    }
    while (h->spares == SPARE_MOST || h->spare_bytes + s.bytes > SPARE_BYTES)
        spare_free(h, 0);
    h->spare[h->spares++] = s;
    h->spare_bytes += s.bytes;
}
