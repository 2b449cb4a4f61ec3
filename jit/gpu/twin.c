#include "jit/gpu/twin.h"

#include "base/memory.h"

/* Shares of the card's memory and of the session's limit that twins may take. */
enum { CARD_SHARE = 2, LIMIT_SHARE = 4 };

typedef struct Twin Twin;
struct Twin {
    TensorTwin base;
    Jit *jit; /* NULL: the card was closed */
    CudaBlock block; /* empty: it had to go */
    const char *from; /* the elements, */
    size_t n; /* so many bytes */
    bool used; /* by the run under way */
    bool owed; /* the tensor waits for them */
    Twin *before, *behind; /* used later and earlier */
};

typedef struct Twins {
    Twin *first, *last;
    size_t n, bytes, owed;
} Twins;

static void unlink_twin(Twin *t)
{
    Twins *all = t->jit->twins;
    *(t->before ? &t->before->behind : &all->first) = t->behind;
    *(t->behind ? &t->behind->before : &all->last) = t->before;
    all->n--;
    all->owed -= t->owed;
    all->bytes -= t->block.n;
    t->before = t->behind = NULL;
}

static void link_first(Twin *t)
{
    Twins *all = t->jit->twins;
    t->behind = all->first;
    *(all->first ? &all->first->before : &all->last) = t;
    all->first = t;
    all->n++;
    all->owed += t->owed;
    all->bytes += t->block.n;
}

/* The room goes; what is left knows that there is nothing. */
static void empty(Twin *t)
{
    if (!t->jit || !t->block.at)
        return;
    unlink_twin(t);
    cuda_give(t->jit->cuda, &t->block);
    t->jit = NULL;
}

static void let_go(TensorTwin *base)
{
    empty((Twin *)base);
    memory_free(base);
}

static Twin *twin_of(const Jit *jit, const Tensor *t)
{
    TensorTwin *base = tensor_twin(t);
    Twin *twin = base && base->let_go == let_go ? (Twin *)base : NULL;
    return twin && twin->jit == jit ? twin : NULL;
}

/* The twin that was used the longest ago goes; false: all are in use, or what is owed did not come. */
static bool drop_one(Jit *jit)
{
    Twin *t = jit->twins ? jit->twins->last : NULL;
    while (t && t->used)
        t = t->before;
    if (!t || (t->owed && !twins_home(jit)))
        return false;
    empty(t);
    return true;
}

uint64_t twin_find(Jit *jit, const Tensor *t, size_t bytes)
{
    Twin *twin = twin_of(jit, t);
    if (!twin || twin->from != t->data || twin->n < bytes)
        return 0;
    if (twin->block.generation != cuda_generation(jit->cuda)) {
        if (!twin->owed)
            empty(twin);
        return 0;
    }
    twin->used = true;
    unlink_twin(twin);
    link_first(twin);
    return twin->block.at;
}

bool twin_keep(Jit *jit, const Tensor *t, size_t bytes, CudaBlock *block, bool owed)
{
    size_t most = cuda_info(jit->cuda)->memory / CARD_SHARE, limit = jit->cx->limits.memory_most;
    if (limit > 0 && limit / LIMIT_SHARE < most)
        most = limit / LIMIT_SHARE;
    if (!jit->twins)
        jit->twins = memory_zeroed(1, sizeof *jit->twins);
    Twin *twin = jit->twins && block->n <= most ? memory_zeroed(1, sizeof *twin) : NULL;
    if (!twin)
        return false;
    while (jit->twins->bytes + block->n > most && drop_one(jit))
        continue;
    *twin = (Twin){.base = {let_go},
                   .jit = jit,
                   .block = *block,
                   .from = t->data,
                   .n = bytes,
                   .used = true,
                   .owed = owed};
    if (!tensor_set_twin(t, &twin->base)) {
        memory_free(twin);
        return false;
    }
    link_first(twin);
    *block = (CudaBlock){0};
    return true;
}

bool twin_is_owed(const Jit *jit, const Tensor *t)
{
    const Twin *twin = twin_of(jit, t);
    return twin && twin->owed;
}

static void paid(Twin *t)
{
    t->owed = false;
    t->jit->twins->owed--;
}

static bool bring_home(Jit *jit, const Twin *t)
{
    if (t->block.generation == cuda_generation(jit->cuda))
        return cuda_copy_out(jit->cuda, (char *)(uintptr_t)t->from, t->block.at, t->n);
    Diag *d = diag_error(jit->cx->diags, E0408_DRIVER, (Span){0},
                         "values were lost with what lay on the card");
    diag_help(d, "run it again: what comes next begins anew there");
    return false;
}

bool twins_are_owed(const Jit *jit)
{
    return jit->twins && jit->twins->owed;
}

bool twins_home(Jit *jit)
{
    if (!twins_are_owed(jit))
        return true;
    bool ok = cuda_wait(jit->cuda);
    for (Twin *t = jit->twins->first; t && jit->twins->owed && ok; t = t->behind)
        if (t->owed && (ok = bring_home(jit, t)))
            paid(t);
    ok = ok && cuda_wait(jit->cuda);
    if (!ok)
        twins_forget(jit);
    return ok;
}

void twins_forget(Jit *jit)
{
    for (Twin *next, *t = jit->twins ? jit->twins->first : NULL; t; t = next) {
        next = t->behind;
        if (t->owed)
            empty(t);
    }
}

bool twin_take(Jit *jit, size_t n, CudaBlock *out)
{
    while (!cuda_has_room(jit->cuda, n) && drop_one(jit))
        cuda_trim(jit->cuda);
    return cuda_take(jit->cuda, n, out);
}

void twins_rest(Jit *jit)
{
    for (Twin *t = jit->twins ? jit->twins->first : NULL; t && t->used; t = t->behind)
        t->used = false;
}

void twins_drop(Jit *jit)
{
    while (jit->twins && jit->twins->first)
        empty(jit->twins->first);
    memory_free(jit->twins);
    jit->twins = NULL;
}

size_t twins_count(const Jit *jit, size_t *bytes)
{
    *bytes = jit->twins ? jit->twins->bytes : 0;
    return jit->twins ? jit->twins->n : 0;
}
