/* What LLVM does when memory is refused to it.
 *
 * It would end the process. Instead its allocations, which cannot fail, are served from a cushion that was put by before a
 * compilation: the compilation goes on to its end, and then the count of refusals drops what it made (base/memory.h). When the
 * cushion is used up too, the work is left as any other that cannot have what it must. LLVM has no C function for the two hooks, so
 * they are declared by the names that their C++ declarations have in libraries. Its C interface and its parts in C ask the system
 * itself and do not look at what they get: where LLVM is linked into the plug-in, the linker puts the functions with `__wrap_` below
 * in place of the system's (cmake/Dependencies.cmake). */
#include "jit/llvm/cushion.h"

#include "base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Address space only, until it is needed. */
#define CUSHION_SIZE ((size_t)16 << 20)

typedef void NewHandler(void);
typedef void FatalHandler(void *data, const char *reason, bool wants_report);

NewHandler *std_set_new_handler(NewHandler *handler) __asm__("_ZSt15set_new_handlerPFvvE");
void llvm_install_bad_alloc_handler(FatalHandler *handler, void *data) __asm__(
    "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static _Atomic(void *) cushion;
/* LLVM was left in the middle of something: it may hold its locks, and what it had begun is not whole. */
static atomic_bool left;

void relay_llvm_leave(void)
{
    atomic_store(&left, true);
}

bool relay_llvm_there(void)
{
    return !atomic_load(&left);
}

_Noreturn static void leave(void)
{
    relay_llvm_leave();
    memory_gone();
}

/* Returning means that the allocation is tried again. */
static void on_refused(void)
{
    void *p = atomic_exchange(&cushion, NULL);
    memory_refused();
    if (!p)
        leave();
    free(p);
}

static void on_bad_alloc(void *data, const char *reason, bool wants_report)
{
    (void)data, (void)reason, (void)wants_report;
    leave();
}

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t n)
{
    void *p;
    while (!(p = memory_alloc(n)))
        on_refused();
    return p;
}

void *__wrap_calloc(size_t n, size_t size)
{
    void *p;
    while (!(p = memory_zeroed(n, size)))
        on_refused();
    return p;
}

void *__wrap_realloc(void *p, size_t n)
{
    void *larger;
    while (!(larger = memory_resize(p, n)))
        on_refused();
    return larger;
}

char *__wrap_strdup(const char *text)
{
    char *copy;
    while (!(copy = memory_text(text, strlen(text))))
        on_refused();
    return copy;
}

bool relay_llvm_cushion(void)
{
    if (atomic_load(&left))
        return false;
    if (atomic_load(&cushion))
        return true;
    void *p = memory_alloc(CUSHION_SIZE), *none = NULL;
    if (p && !atomic_compare_exchange_strong(&cushion, &none, p))
        free(p);
    return p != NULL;
}

/* Before LLVM makes what is there from the start: a priority comes before none. */
__attribute__((constructor(101))) static void install(void)
{
    std_set_new_handler(on_refused);
    llvm_install_bad_alloc_handler(on_bad_alloc, NULL);
    relay_llvm_cushion();
}
