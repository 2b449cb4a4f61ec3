/* A library that is loaded before a program and makes one of its calls fail, at a place that can be counted.
 *
 * A point is a call stack from which memory is asked for, or a file is written; the points of a run are numbered as they are first
 * reached, so that the same run has the same numbers. The environment says what fails:
 *
 *     FAULT_KIND  memory: malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap of memory
 *                 file: open for writing, write, fsync, rename, close of what was written
 *     FAULT_AT    the number of the point that fails, from 1; 0: none
 *     FAULT_FROM  1: so does all that follows
 *     FAULT_LOG   a file of two numbers: the points that were reached, and the calls that were refused
 *
 * tests/fault/fault.py drives it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <unwind.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);

/* How much of a stack tells one from another: what lies further out hardly changes what a failure does. */
#define DEPTH 10
#define POINTS 65536

typedef enum Kind { KIND_NONE, KIND_MEMORY, KIND_FILE } Kind;

typedef struct Log {
    uint32_t points, refused;
} Log;

static Kind kind;
static uint32_t wanted;
static bool onward, over;
static Log *fault_log;
static uint64_t seen[POINTS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

typedef struct Walk {
    uint64_t hash;
    int left;
} Walk;

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *data)
{
    Walk *w = data;
    w->hash = (w->hash ^ (uint64_t)_Unwind_GetIP(c)) * 0x9e3779b97f4a7c15u;
    w->hash ^= w->hash >> 29;
    return --w->left > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/* The stack is new. */
static bool is_new(uint64_t hash)
{
    size_t at = hash % POINTS;
    while (seen[at] && seen[at] != hash)
        at = (at + 1) % POINTS;
    if (seen[at] || fault_log->points == POINTS / 2)
        return false;
    seen[at] = hash;
    return true;
}

static bool refuse(Kind which)
{
    if (kind != which || inside)
        return false;
    inside = true;
    pthread_mutex_lock(&lock);
    bool fails = over && onward;
    if (!over) {
        Walk w = {.hash = 1, .left = DEPTH};
        _Unwind_Backtrace(frame, &w);
        if (is_new(w.hash | 1))
            fails = ++fault_log->points == wanted;
        over = fails;
    }
    fault_log->refused += fails;
    pthread_mutex_unlock(&lock);
    inside = false;
    return fails;
}

static bool no_memory(void)
{
    if (!refuse(KIND_MEMORY))
        return false;
    errno = ENOMEM;
    return true;
}

static bool no_room(void)
{
    if (!refuse(KIND_FILE))
        return false;
    errno = ENOSPC;
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("FAULT_KIND"), *at = getenv("FAULT_AT"), *from = getenv("FAULT_FROM"),
               *path = getenv("FAULT_LOG");
    int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (!what || fd < 0 || ftruncate(fd, sizeof(Log)) != 0)
        return;
    void *map = mmap(NULL, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map == MAP_FAILED)
        return;
    fault_log = map;
    wanted = at ? (uint32_t)strtoul(at, NULL, 10) : 0;
    onward = from && *from == '1';
    /* The unwinder asks for memory when it is first used; programs that are started are not looked at. */
    Walk w = {.left = DEPTH};
    _Unwind_Backtrace(frame, &w);
    unsetenv("LD_PRELOAD");
    kind = strcmp(what, "memory") == 0 ? KIND_MEMORY : KIND_FILE;
}

/* ---- memory -------------------------------------------------------------------------------------------------------------------- */

void *malloc(size_t n)
{
    return no_memory() ? NULL : __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    return no_memory() ? NULL : __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    return no_memory() ? NULL : __libc_realloc(p, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    return no_memory() ? NULL : __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    *out = no_memory() ? NULL : __libc_memalign(align, n);
    return *out ? 0 : ENOMEM;
}

void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t offset)
{
    if ((flags & MAP_ANONYMOUS) && no_memory())
        return MAP_FAILED;
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, offset);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
    va_end(args);
    if ((flags & (O_WRONLY | O_RDWR)) && no_room())
        return -1;
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

ssize_t write(int fd, const void *p, size_t n)
{
    /* What a failure says must be readable. */
    if (fd != STDERR_FILENO && no_room())
        return -1;
    return syscall(SYS_write, fd, p, n);
}

int fsync(int fd)
{
    return no_room() ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to)
{
    return no_room() ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

/* What was only read loses nothing when it is closed. */
int close(int fd)
{
    int flags = kind == KIND_FILE ? fcntl(fd, F_GETFL) : O_RDONLY;
    bool fails = flags >= 0 && (flags & O_ACCMODE) != O_RDONLY && no_room();
    int status = (int)syscall(SYS_close, fd);
    if (fails)
        errno = ENOSPC;
    return fails ? -1 : status;
}
