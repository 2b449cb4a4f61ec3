/* A library that is loaded before a program and makes one of its calls fail, at a place that can be counted.
 *
 * A point is a call stack from which memory is asked for, or a file is written or read. It is known by a number that is the same in
 * each run of a program: where the frames lie in their libraries. A first run, in which nothing fails, lists the points and how many calls
 * come before each, so that a later one need look at stacks only from shortly before the point that it is about. The environment says what
 * fails:
 *
 *     FAULT_KIND  memory: malloc, calloc, realloc, aligned_alloc, posix_memalign, mmap of memory, pthread_create
 *                 file: open for writing, write, fsync, rename, close of what was written
 *                 read: open and fopen for reading, read, pread, fread
 *                 death: not a refusal; LLVM reads a place that is not there, where it asks for memory while it makes code of a module
 *     FAULT_LOG   a file that holds a Log: whoever watches reads there how far it came, and may change what fails while it runs
 *     FAULT_SAY   1: the stack of the point that fails is written to standard error
 *
 * tests/fault/fault.py drives it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
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

typedef enum Kind { KIND_NONE, KIND_MEMORY, KIND_FILE, KIND_READ, KIND_DEATH } Kind;

typedef struct Point {
    uint64_t stack, call; /* calls that came before it in its round */
} Point;

/* The first five are written by who watches. */
typedef struct Log {
    uint64_t wanted; /* the stack of the point that fails; 0: none does, and points are listed */
    uint64_t from; /* no stack is looked at before so many calls */
    uint32_t calls; /* how many are refused from the point on; 0: all */
    uint32_t armed; /* 0: nothing is counted yet */
    uint32_t round; /* when it changes, counting begins anew */
    uint32_t refused, points, unused; /* calls that were refused; points that are listed */
    Point point[POINTS / 2];
} Log;

static Kind kind;
static uint32_t in_round;
static bool says;
static Log *fault_log;
static uint64_t seen[POINTS], counted; /* of the round: stacks, and calls */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool inside __attribute__((tls_model("initial-exec")));

typedef struct Walk {
    uint64_t hash;
    int left;
} Walk;

/* Where a frame is, wherever its library lies; code that was made lies in none. */
static uint64_t place_of(void *ip)
{
    struct dl_find_object at;
    if (_dl_find_object(ip, &at) != 0)
        return (uintptr_t)ip & 0xfff;
    uintptr_t start = (uintptr_t)at.dlfo_map_start;
    return ((uintptr_t)ip - start) ^ ((uintptr_t)at.dlfo_map_end - start) << 32;
}

static _Unwind_Reason_Code frame(struct _Unwind_Context *c, void *data)
{
    Walk *w = data;
    w->hash = (w->hash ^ place_of((void *)_Unwind_GetIP(c))) * 0x9e3779b97f4a7c15u;
    w->hash ^= w->hash >> 29;
    return --w->left > 0 ? _URC_NO_REASON : _URC_END_OF_STACK;
}

static uint64_t stack_of_call(void)
{
    Walk w = {.hash = 1, .left = DEPTH};
    _Unwind_Backtrace(frame, &w);
    return w.hash | 1;
}

static void begin_round(void)
{
    if (in_round == fault_log->round)
        return;
    in_round = fault_log->round;
    fault_log->points = fault_log->refused = 0;
    counted = 0;
    memset(seen, 0, sizeof seen);
}

static bool is_new(uint64_t stack)
{
    size_t at = stack % POINTS;
    while (seen[at] && seen[at] != stack)
        at = (at + 1) % POINTS;
    if (seen[at] || fault_log->points == POINTS / 2)
        return false;
    seen[at] = stack;
    return true;
}

static void say(void)
{
    void *stack[4 * DEPTH];
    backtrace_symbols_fd(stack, backtrace(stack, 4 * DEPTH), STDERR_FILENO);
}

/* Looking an address up takes a millisecond; the lock is held. */
static bool is_work(uintptr_t ip)
{
    static struct {
        uintptr_t ip;
        bool is;
    } known[8192];
    size_t i = ip * 0x9e3779b97f4a7c15u >> 51;
    Dl_info at;
    if (known[i].ip != ip) {
        known[i].ip = ip;
        known[i].is = dladdr((void *)ip, &at) && at.dli_sname &&
                      (!strcmp(at.dli_sname, "LLVMTargetMachineEmitToMemoryBuffer") ||
                       !strcmp(at.dli_sname, "LLVMRunPasses"));
    }
    return known[i].is;
}

static _Unwind_Reason_Code find_work(struct _Unwind_Context *c, void *found)
{
    *(bool *)found = is_work(_Unwind_GetIP(c));
    return *(bool *)found ? _URC_END_OF_STACK : _URC_NO_REASON;
}

/* LLVM makes code of a module: where it does, nobody has a lock who asks for memory. */
static bool works(void)
{
    bool found = false;
    _Unwind_Backtrace(find_work, &found);
    return found;
}

static bool refuse(Kind which)
{
    if (kind != which || inside || !fault_log->armed)
        return false;
    inside = true;
    pthread_mutex_lock(&lock);
    begin_round();
    bool fails =
        fault_log->refused > 0 && (fault_log->calls == 0 || fault_log->refused < fault_log->calls);
    if (fails && which == KIND_DEATH)
        fails = works();
    uint64_t before = counted++;
    if (fault_log->refused == 0 && before >= fault_log->from) {
        uint64_t stack = stack_of_call();
        if (fault_log->wanted)
            fails = stack == fault_log->wanted;
        else if (is_new(stack) && (which != KIND_DEATH || works()))
            fault_log->point[fault_log->points++] = (Point){stack, before};
        if (fails && says)
            say();
    }
    fault_log->refused += fails;
    pthread_mutex_unlock(&lock);
    inside = false;
    return fails;
}

static volatile uintptr_t nowhere = 8;

static bool no_memory(void)
{
    if (refuse(KIND_DEATH))
        *(volatile int *)nowhere = 0;
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

static bool no_read(void)
{
    if (!refuse(KIND_READ))
        return false;
    errno = EIO;
    return true;
}

__attribute__((constructor)) static void begin(void)
{
    const char *what = getenv("FAULT_KIND"), *path = getenv("FAULT_LOG");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (!what || fd < 0)
        return;
    void *map = mmap(NULL, sizeof(Log), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (map == MAP_FAILED)
        return;
    fault_log = map;
    says = getenv("FAULT_SAY") != NULL;
    /* The unwinder asks for memory when it is first used; programs that are started are not looked at. */
    stack_of_call();
    unsetenv("LD_PRELOAD");
    kind = !strcmp(what, "memory")  ? KIND_MEMORY
           : !strcmp(what, "file")  ? KIND_FILE
           : !strcmp(what, "death") ? KIND_DEATH
                                    : KIND_READ;
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

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *data)
{
    static int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    return refuse(KIND_MEMORY) ? EAGAIN : real(thread, attr, run, data);
}

/* ---- files --------------------------------------------------------------------------------------------------------------------- */

int open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    if (flags & (O_WRONLY | O_RDWR) ? no_room() : no_read())
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

ssize_t read(int fd, void *p, size_t n)
{
    return no_read() ? -1 : syscall(SYS_read, fd, p, n);
}

ssize_t pread(int fd, void *p, size_t n, off_t offset)
{
    return no_read() ? -1 : syscall(SYS_pread64, fd, p, n, offset);
}

FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fopen");
    return *mode == 'r' && no_read() ? NULL : real(path, mode);
}

/* A stream of which a part could not be read says so. */
size_t fread(void *p, size_t size, size_t n, FILE *from)
{
    static size_t (*real)(void *, size_t, size_t, FILE *);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "fread");
    if (!no_read())
        return real(p, size, n, from);
    from->_flags |= _IO_ERR_SEEN;
    return 0;
}

int fsync(int fd)
{
    return no_room() ? -1 : (int)syscall(SYS_fsync, fd);
}

int linkat(int from_folder, const char *from, int to_folder, const char *to, int flags)
{
    return no_room() ? -1 : (int)syscall(SYS_linkat, from_folder, from, to_folder, to, flags);
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
