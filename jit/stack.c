/* The stack that generated code runs on, and the memory that its kernels share.
 *
 * Non-tail recursion a million calls deep is ordinary, so the stack is a large reservation that is committed by use. Code compares
 * its stack pointer with a limit above the end, so that there is room for the runtime functions it calls. */
#define _GNU_SOURCE
#include "jit/internal.h"
#include "base/memory.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* Room below the limit for runtime functions. */
#define STACK_ROOM ((size_t)1 << 20)
#define STACK_LEAST ((size_t)64 << 20)
#define STACK_MOST ((size_t)2 << 30)
#define FRAME_BYTES ((size_t)256)
#define FIRST_BYTES ((size_t)4096)
#define SCRATCH_ALIGNMENT ((size_t)64)

/* A quarter of the memory, and no more than what takes a fraction of a second to run through: a recursion
 * without end is to be reported soon. */
static size_t stack_wanted(const Limits *limits)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    size_t size = pages > 0 && page > 0 ? (size_t)pages / 4 * (size_t)page : STACK_LEAST;
    if (limits->memory_most > 0 && size > limits->memory_most)
        size = limits->memory_most;
    if (size < STACK_LEAST)
        size = STACK_LEAST;
    if (size > STACK_MOST)
        size = STACK_MOST;
    return size & ~(STACK_ROOM - 1);
}

static bool stack_reserve(Jit *jit)
{
    if (jit->stack)
        return true;
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    for (size_t size = stack_wanted(&jit->cx->limits); size >= STACK_ROOM * 4; size /= 2) {
        void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, flags, -1, 0);
        if (at == MAP_FAILED)
            continue;
        mprotect(at, STACK_ROOM / 16, PROT_NONE);
        madvise(at, size, MADV_NOHUGEPAGE);
        jit->stack = at;
        jit->stack_size = size;
        return true;
    }
    return !limit_reach(&jit->cx->limits, LIMIT_MEMORY);
}

typedef struct StackCall {
    UnitEntry *entry;
    JitState *state;
    const Value *args;
    Value *out;
    ucontext_t here, there;
} StackCall;

/* makecontext passes ints alone. */
static void stack_main(unsigned low, unsigned high)
{
    StackCall *c = (StackCall *)((uintptr_t)low | (uintptr_t)high << 32);
    c->entry(c->state, c->args, c->out);
}

/* Code does not count its calls: a limit of depth becomes one of bytes, at what a frame takes at most as a rule. */
static const char *stack_limit(const Jit *jit)
{
    uint64_t depth = jit->cx->limits.depth_most;
    size_t room = jit->stack_size - STACK_ROOM;
    if (depth == 0 || depth >= room / FRAME_BYTES)
        return jit->stack + STACK_ROOM;
    return jit->stack + jit->stack_size - (size_t)depth * FRAME_BYTES - FIRST_BYTES;
}

/* Compiled code may call the evaluator, and that compiled code. */
static bool on_stack(const Jit *jit)
{
    const char *here = __builtin_frame_address(0);
    return jit->stack && here >= jit->stack && here < jit->stack + jit->stack_size;
}

static void stack_guard(Jit *jit, const char *limit)
{
    JitState *s = jit->state;
    atomic_store(&s->guard, s->failed ? UINTPTR_MAX : (uintptr_t)limit);
    if (atomic_load(s->interrupted))
        atomic_store(&s->guard, UINTPTR_MAX);
}

void stack_guard_here(Jit *jit)
{
    stack_guard(jit, on_stack(jit) ? jit->state->stack_limit : NULL);
}

bool stack_run(Jit *jit, UnitEntry *entry, uint32_t n, const Value *args, Value *out)
{
    if (!stack_reserve(jit)) {
        values_release(n, args);
        return false;
    }
    if (on_stack(jit)) {
        stack_guard_here(jit);
        entry(jit->state, args, out);
        return true;
    }
    StackCall call = {.entry = entry, .state = jit->state, .args = args, .out = out};
    jit->state->stack_limit = stack_limit(jit);
    stack_guard(jit, jit->state->stack_limit);
    getcontext(&call.there);
    call.there.uc_stack.ss_sp = jit->stack;
    call.there.uc_stack.ss_size = jit->stack_size;
    call.there.uc_link = &call.here;
    uintptr_t at = (uintptr_t)&call;
    makecontext(&call.there, (void (*)(void))stack_main, 2, (unsigned)at, (unsigned)(at >> 32));
    swapcontext(&call.here, &call.there);
    /* What a deep recursion has touched goes back; the first part stays for the next call. */
    if (jit->cx->limits.hit == LIMIT_DEPTH)
        madvise(jit->stack, jit->stack_size - STACK_ROOM * 4, MADV_DONTNEED);
    return true;
}

/* It grows where it lies: what was touched is not touched again. It asks for no large pages, because where a hypervisor takes back what is
 * free, the first touch of one costs more than those of the small ones in it. */
bool jit_scratch(Jit *jit, size_t bytes)
{
    if (bytes <= jit->scratch_size)
        return true;
    Limits *limits = &jit->cx->limits;
    size_t size = (bytes + 4095) & ~(size_t)4095, more = size - jit->scratch_size;
    if (!limit_charge(limits, more))
        return false;
    char *block = memory_resize(jit->scratch_block, size + SCRATCH_ALIGNMENT);
    if (!block) {
        limit_release(limits, more);
        return !limit_reach(limits, LIMIT_MEMORY);
    }
    uintptr_t at = ((uintptr_t)block + SCRATCH_ALIGNMENT - 1) & ~(SCRATCH_ALIGNMENT - 1);
    jit->scratch_block = block;
    jit->scratch = (char *)at;
    jit->scratch_size = size;
    return true;
}

void jit_free_scratch(Jit *jit)
{
    memory_free(jit->scratch_block);
    limit_release(&jit->cx->limits, jit->scratch_size);
    jit->scratch_block = jit->scratch = NULL;
    jit->scratch_size = 0;
}

void stack_free(Jit *jit)
{
    if (jit->stack)
        munmap(jit->stack, jit->stack_size);
}
