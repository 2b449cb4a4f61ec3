/* What LLVM does when memory is refused to it.
 *
 * It would end the process. Instead its allocations, which cannot fail, are served from a cushion that was put by before a
 * compilation: the compilation goes on to its end, and then the count of refusals drops what it made (base/memory.h). When the
 * cushion is used up too, the work is left as any other that cannot have what it must. LLVM has no C function for the two hooks, so
 * they are declared by the names that their C++ declarations have in libraries. */
#include "base/memory.h"
#include "jit/internal.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Address space only, until it is needed. */
#define CUSHION_SIZE ((size_t)16 << 20)

typedef void NewHandler(void);
typedef void FatalHandler(void *data, const char *reason, bool wants_report);

NewHandler *std_set_new_handler(NewHandler *handler) __asm__("_ZSt15set_new_handlerPFvvE");
void llvm_install_bad_alloc_handler(FatalHandler *handler, void *data) __asm__(
    "_ZN4llvm31install_bad_alloc_error_handlerEPFvPvPKcbES0_");

static _Atomic(void *) cushion;

/* Returning means that the allocation is tried again. */
static void on_refused(void)
{
    void *p = atomic_exchange(&cushion, NULL);
    memory_refused();
    if (!p)
        memory_gone();
    free(p);
}

static void on_bad_alloc(void *data, const char *reason, bool wants_report)
{
    (void)data, (void)reason, (void)wants_report;
    memory_gone();
}

bool cushion_fill(void)
{
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
    cushion_fill();
}
