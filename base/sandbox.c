#define _GNU_SOURCE 1
#include "base/sandbox.h"

#include "base/memory.h"

#include <asm/ioctls.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static bool fails(Buf *why, const char *what)
{
    buf_printf(why, "%s: %s", what, strerror(errno));
    return false;
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

/* What the kernel's header of today knows; the kernel is told only what it says that it knows itself. */
typedef struct Ruleset {
    uint64_t files, network, scoped;
} Ruleset;

/* All that can be done with files, with TCP and across the border, by the version of Landlock. */
static Ruleset everything(int version, SandboxNetwork network, size_t *size)
{
    int rights = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
    Ruleset all = {.files = ((uint64_t)1 << rights) - 1};
    *size = version >= 6 ? 24 : version >= 4 ? 16 : 8;
    if (version >= 4 && network == SANDBOX_NO_NETWORK)
        all.network = 3; /* bind and connect */
    if (version >= 6)
        all.scoped = 3; /* abstract sockets and signals */
    return all;
}

/* What is not there cannot be opened, with or without a rule. */
static bool allow_path(int ruleset, const char *path, uint64_t rights, Buf *why)
{
    int fd = open(path, O_PATH | O_CLOEXEC);
    if (fd < 0)
        return true;
    struct stat st;
    bool folder = fstat(fd, &st) == 0 && S_ISDIR(st.st_mode);
    struct landlock_path_beneath_attr rule = {
        .parent_fd = fd,
        .allowed_access = folder ? rights : rights & ~(uint64_t)LANDLOCK_ACCESS_FS_READ_DIR,
    };
    bool ok = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
    close(fd);
    return ok || fails(why, path);
}

/* Libraries are opened when they are first used. */
static const char *const libraries[] = {"/lib",       "/lib64",         "/usr/lib",
                                        "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"};

static bool confine_files(const char *const *files, size_t n, SandboxNetwork network, Buf *why)
{
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < 1)
        return fails(why, "the kernel has no Landlock");
    size_t size;
    Ruleset all = everything((int)version, network, &size);
    int ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, size, 0);
    if (ruleset < 0)
        return fails(why, "Landlock");
    bool ok = true;
    for (size_t i = 0; i < n && ok; i++)
        ok = allow_path(ruleset, files[i], LANDLOCK_ACCESS_FS_READ_FILE, why);
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries && ok; i++)
        ok = allow_path(ruleset, libraries[i],
                        LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_EXECUTE, why);
    if (ok && syscall(SYS_landlock_restrict_self, ruleset, 0) != 0)
        ok = fails(why, "Landlock");
    close(ruleset);
    return ok;
}

/* ---- calls of the system ------------------------------------------------------------------------------------------ */

typedef enum Test {
    ALWAYS,
    EQUALS, /* the argument is the value */
    HAS, /* it has one of the bits */
    HAS_NOT_ALL, /* it has not all of the bits */
    OWN, /* it is the number of this process */
    NEW_SOCKETS, /* only as long as there is a network */
    OLD_SOCKETS, /* only when there was one */
} Test;

/* A call that is allowed; of several rows for one call each is a way to make it. */
typedef struct Rule {
    int call;
    Test test;
    int arg;
    uint32_t value;
} Rule;

#define CALL(name) {SYS_##name, ALWAYS, 0, 0}
#define CALL_IF(name, test, arg, value) {SYS_##name, test, arg, value}

static const Rule rules[] = {
    /* memory */
    CALL(brk),
    CALL(madvise),
    CALL(mremap),
    CALL(munmap),
    CALL(membarrier),
    CALL_IF(mmap, HAS_NOT_ALL, 2, PROT_WRITE | PROT_EXEC),
    CALL_IF(mprotect, HAS_NOT_ALL, 2, PROT_WRITE | PROT_EXEC),
    /* files: Landlock decides which */
    CALL(close),
    CALL(faccessat),
    CALL(faccessat2),
    CALL(fcntl),
    CALL(fstat),
    CALL(getcwd),
    CALL(getdents64),
    CALL(lseek),
    CALL(newfstatat),
    CALL(openat),
    CALL(pread64),
    CALL(read),
    CALL(readlinkat),
    CALL(readv),
    CALL(statx),
    CALL(write),
    CALL(writev),
    CALL(dup),
    CALL(dup3),
    CALL(pipe2),
    CALL(ppoll),
    CALL(pselect6),
    CALL(epoll_create1),
    CALL(epoll_ctl),
    CALL(epoll_pwait),
    CALL(eventfd2),
#ifdef __x86_64__
    CALL(access),
    CALL(dup2),
    CALL(epoll_wait),
    CALL(lstat),
    CALL(open),
    CALL(pipe),
    CALL(poll),
    CALL(readlink),
    CALL(select),
    CALL(stat),
    CALL(arch_prctl),
    CALL(time),
#endif
    CALL_IF(ioctl, EQUALS, 1, TCGETS),
    CALL_IF(ioctl, EQUALS, 1, TCSETS),
    CALL_IF(ioctl, EQUALS, 1, TCSETSW),
    CALL_IF(ioctl, EQUALS, 1, TCSETSF),
    CALL_IF(ioctl, EQUALS, 1, TIOCGWINSZ),
    CALL_IF(ioctl, EQUALS, 1, FIONREAD),
    CALL_IF(ioctl, EQUALS, 1, FIONBIO),
    /* threads, and no processes; a call that cannot be looked into is said not to exist */
    CALL_IF(clone, HAS, 0, CLONE_THREAD),
    CALL(exit),
    CALL(exit_group),
    CALL(futex),
    CALL(gettid),
    CALL(getpid),
    CALL(getppid),
    CALL(rseq),
    CALL(sched_getaffinity),
    CALL(sched_yield),
    CALL(set_robust_list),
    CALL(set_tid_address),
    CALL(getcpu),
    CALL(sched_getparam),
    CALL(sched_getscheduler),
    CALL_IF(sched_setscheduler, EQUALS, 1, SCHED_OTHER),
    CALL_IF(prctl, EQUALS, 0, PR_SET_NAME),
    CALL_IF(prctl, EQUALS, 0, PR_SET_NO_NEW_PRIVS),
    CALL(seccomp),
    /* signals, to itself; and asking whether a process is there */
    CALL(rt_sigaction),
    CALL(rt_sigprocmask),
    CALL(rt_sigreturn),
    CALL(rt_sigtimedwait),
    CALL(sigaltstack),
    CALL(restart_syscall),
    CALL_IF(tgkill, OWN, 0, 0),
    CALL_IF(kill, EQUALS, 1, 0),
    /* time and the machine */
    CALL(clock_getres),
    CALL(clock_gettime),
    CALL(clock_nanosleep),
    CALL(getrusage),
    CALL(getuid),
    CALL(geteuid),
    CALL(getgid),
    CALL(getegid),
    CALL(gettimeofday),
    CALL(nanosleep),
    CALL(getrandom),
    CALL(sysinfo),
    CALL(timer_create),
    CALL(timer_delete),
    CALL(timer_settime),
    CALL(timerfd_settime),
    CALL(setitimer),
    CALL(uname),
    CALL_IF(prlimit64, EQUALS, 0, 0),
    /* sockets */
    CALL_IF(socket, NEW_SOCKETS, 0, 0),
    CALL_IF(socketpair, NEW_SOCKETS, 0, 0),
    CALL_IF(bind, NEW_SOCKETS, 0, 0),
    CALL_IF(connect, NEW_SOCKETS, 0, 0),
    CALL_IF(listen, NEW_SOCKETS, 0, 0),
    CALL_IF(accept, OLD_SOCKETS, 0, 0),
    CALL_IF(accept4, OLD_SOCKETS, 0, 0),
    CALL_IF(getpeername, OLD_SOCKETS, 0, 0),
    CALL_IF(getsockname, OLD_SOCKETS, 0, 0),
    CALL_IF(getsockopt, OLD_SOCKETS, 0, 0),
    CALL_IF(recvfrom, OLD_SOCKETS, 0, 0),
    CALL_IF(recvmsg, OLD_SOCKETS, 0, 0),
    CALL_IF(sendmsg, OLD_SOCKETS, 0, 0),
    CALL_IF(sendto, OLD_SOCKETS, 0, 0),
    CALL_IF(setsockopt, OLD_SOCKETS, 0, 0),
    CALL_IF(shutdown, OLD_SOCKETS, 0, 0),
};
enum { RULES = sizeof rules / sizeof *rules, STEPS_EACH = 6, STEPS_AROUND = 9 };

#ifdef __x86_64__
#define MACHINE AUDIT_ARCH_X86_64
#else
#define MACHINE AUDIT_ARCH_AARCH64
#endif

typedef struct Filter {
    struct sock_filter at[RULES * STEPS_EACH + STEPS_AROUND];
    unsigned short n;
} Filter;

static void step(Filter *f, uint16_t code, uint32_t k, uint8_t yes, uint8_t no)
{
    f->at[f->n++] = (struct sock_filter){code, yes, no, k};
}

static void load(Filter *f, size_t at)
{
    step(f, BPF_LD | BPF_W | BPF_ABS, (uint32_t)at, 0, 0);
}

static void end(Filter *f, uint32_t action)
{
    step(f, BPF_RET | BPF_K, action, 0, 0);
}

/* The call's number is loaded. Values are 32 bits wide, and what is above them in the argument is not looked at by the calls. */
static void add_rule(Filter *f, const Rule *r)
{
    size_t arg = offsetof(struct seccomp_data, args) + (size_t)r->arg * sizeof(uint64_t);
    if (r->test == ALWAYS || r->test == NEW_SOCKETS || r->test == OLD_SOCKETS) {
        step(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->call, 0, 1);
        end(f, SECCOMP_RET_ALLOW);
        return;
    }
    step(f, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)r->call, 0, r->test == HAS_NOT_ALL ? 5 : 4);
    load(f, arg);
    if (r->test == HAS)
        step(f, BPF_JMP | BPF_JSET | BPF_K, r->value, 0, 1);
    else if (r->test == HAS_NOT_ALL) {
        step(f, BPF_ALU | BPF_AND | BPF_K, r->value, 0, 0);
        step(f, BPF_JMP | BPF_JEQ | BPF_K, r->value, 1, 0);
    } else
        step(f, BPF_JMP | BPF_JEQ | BPF_K, r->test == OWN ? (uint32_t)getpid() : r->value, 0, 1);
    end(f, SECCOMP_RET_ALLOW);
    load(f, offsetof(struct seccomp_data, nr));
}

static bool is_wanted(const Rule *r, bool new_sockets, bool old_sockets)
{
    return r->test == NEW_SOCKETS ? new_sockets : r->test == OLD_SOCKETS ? old_sockets : true;
}

/* Of all threads. */
static bool confine_calls(bool new_sockets, bool old_sockets, Buf *why)
{
    Filter f = {.n = 0};
    load(&f, offsetof(struct seccomp_data, arch));
    step(&f, BPF_JMP | BPF_JEQ | BPF_K, MACHINE, 1, 0);
    end(&f, SECCOMP_RET_KILL_PROCESS);
    load(&f, offsetof(struct seccomp_data, nr));
    for (int i = 0; i < RULES; i++)
        if (is_wanted(&rules[i], new_sockets, old_sockets))
            add_rule(&f, &rules[i]);
    step(&f, BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1);
    end(&f, SECCOMP_RET_ERRNO | ENOSYS);
    end(&f, SECCOMP_RET_ERRNO | EPERM);
    struct sock_fprog program = {f.n, f.at};
    long r = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
    return r == 0 || fails(why, "the kernel has no seccomp");
}

/* ---- both ------------------------------------------------------------------------------------------------------------ */

/* Where the named files lie; as long as the process. NULL: there is no sandbox. */
static char **shown;
static size_t n_shown;

static bool note_shown(const char *const *files, size_t n)
{
    shown = memory_alloc((n + 1) * sizeof *shown);
    for (size_t i = 0; shown && i < n; i++) {
        shown[n_shown] = realpath(files[i], NULL);
        n_shown += shown[n_shown] != NULL;
    }
    return shown;
}

bool sandbox_shows(const char *path)
{
    char *real = shown ? realpath(path, NULL) : NULL;
    bool shows = !shown;
    for (size_t i = 0; real && i < n_shown && !shows; i++) {
        size_t len = strlen(shown[i]);
        shows = !strncmp(real, shown[i], len) && (real[len] == 0 || real[len] == '/');
    }
    free(real);
    return shows;
}

bool sandbox_enter(const char *const *files, size_t n, SandboxNetwork network, Buf *why)
{
    bool sockets = network == SANDBOX_NETWORK;
    if (!note_shown(files, n))
        return fails(why, "memory");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return fails(why, "prctl");
    return confine_files(files, n, network, why) && confine_calls(sockets, sockets, why);
}

bool sandbox_close_network(Buf *why)
{
    return confine_calls(false, true, why);
}
