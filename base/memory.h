/* Memory of the system, and what happens when it gives no more.
 *
 * All memory of relay is asked for here. A refusal is counted, so that none is ever lost: `limit_hit` sees that the count has moved
 * since the work began and ends it, and whoever says that something succeeded looks at it first (base/limit.h). The count is the
 * process's, as its memory is.
 *
 * What cannot do without asks with `must`: a stock that was put by serves it when the system does not, long enough for the next
 * `limit_hit` to end the work in order. When the stock is used up too, the work is left at once: the innermost `memory_guard` of the
 * thread returns false, and what the work was changing is lost (session/session.c has the guards). Without one the process ends with
 * a message and status 3.
 *
 * Memory of `must` is given back with memory_free, which also takes all other. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* As malloc, calloc, realloc, aligned_alloc, strndup: NULL when refused. */
void *memory_alloc(size_t n);
void *memory_zeroed(size_t n, size_t size);
void *memory_resize(void *p, size_t n);
void *memory_aligned(size_t align, size_t n);
char *memory_text(const char *text, size_t n);
/* As malloc, and a refusal is not counted: the caller has something to give up first. */
void *memory_try(size_t n);
/* The same at a multiple of a power of two. */
void *memory_try_aligned(size_t align, size_t n);

/* From here on this thread waits where memory is refused, for some seconds: what others wait for, such as the reply to a request, is
 * late rather than missing. Then the process ends with a message and status 3. Such refusals are not counted. A memory_guard is
 * impatient. Returns what was before. */
bool memory_patient(bool on);
/* Where the last words of the process go; at first standard error. */
void memory_voice(int fd);
/* The process ends with this line and status 3, as without memory; also from a signal handler. */
_Noreturn void memory_end(const char *line);
/* Such a wait, for memory that another library asks for. */
void memory_wait(void);

/* From here on the process keeps some of what is freed, rather than give it to the system and ask for it again in the next call. */
void memory_linger(void);

/* Never NULL; not zeroed. */
void *memory_must(size_t n);
void memory_free(void *p);
/* Whether it came from the stock, and so cannot be resized. */
bool memory_is_stock(const void *p);
/* Puts by a stock for the work that begins. */
void memory_stock(void);

/* How often memory was refused so far. */
uint64_t memory_refusals(void);
/* Counts what another library said. */
void memory_refused(void);

/* Calls work(data); false when memory was gone for good in it. What it had begun and not finished stays as it is. */
bool memory_guard(void (*work)(void *data), void *data);
/* Leaves the innermost guard. */
_Noreturn void memory_gone(void);

#endif
