/* Programs as compiled code alone, for processes that have neither their text nor LLVM: what `--emit lib` and `--emit exe` carry.
 *
 *     head        what it is, sizes
 *     words       the build and the processor that it is for; the interface, a module in which each function has its type and calls
 *                 itself; the texts that messages may show; the names of data types; where the code of each function lies
 *     code        of each function, as the JIT keeps it in files (jit/keep.c)
 *
 *     Buf code = {0};
 *     if (compiled_write(s, m, 1, &def, &code)) …         in another process: compiled_open(s, code, size, &opened) */
#ifndef SESSION_COMPILED_H
#define SESSION_COMPILED_H

#include "session/internal.h"

#define COMPILED_ALIGN ((size_t)64)

/* Appends the code of these definitions to `out`, which is empty. False after a diagnostic. */
bool compiled_write(RelaySession *s, Module *m, size_t n, const Def *const *defs, Buf *out);

typedef struct Opened {
    Module *interface; /* counted */
    uint32_t n;
    const Def **functions; /* in the order in which they were written; they lie in the module */
} Opened;

/* Bytes of what was written, which is all there. */
size_t compiled_size(const void *code);
/* Opens what was written, which begins at a multiple of COMPILED_ALIGN and stays as long as the process. False after a diagnostic. */
bool compiled_open(RelaySession *s, const char *code, size_t size, Opened *out);
/* Nothing that came of its calls is there any more. */
void compiled_close(RelaySession *s, Opened *o);
/* Calls a function; the arguments are lent. NONE after a diagnostic. */
Value compiled_call(RelaySession *s, const Opened *o, uint32_t function, const Value *args);

/* ---- compiled_c.c: calls from C -------------------------------------------------------------------------------------- */

/* Whether C can call these functions of the file: they take and give tensors, and tuples of such, and no two are called the same.
 * False after a diagnostic. */
bool compiled_suits_c(RelaySession *s, const char *file, size_t n, const Def *const *defs);
/* The symbol of a function in the library that is made of the file of this name. */
void compiled_symbol(Buf *out, const char *file, const char *function);
/* The header for them. */
void compiled_header(RelaySession *s, const char *file, size_t n, const Def *const *defs, Buf *out);

/* ---- shared_object.c: files that a system opens ------------------------------------------------------------------------ */

/* A shared library with a function for each symbol, which calls that of librelay on `code`, and `error`, which tells what went wrong.
 * `folder`: where librelay lies. */
void shared_object(Buf *out, const Buf *code, const char *name, const char *folder, size_t n,
                   const Buf *symbols, const char *error);

#endif
