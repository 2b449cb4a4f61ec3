/* What a process in the sandbox can still do, and what not, each tried by a process of its own. */
#define _GNU_SOURCE 1
#include "base/sandbox.h"
#include "tests/unit/check.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

static char named[] = "/tmp/relay-sandbox-XXXXXX";
static int at_border[2];

/* ---- what is tried: 0, or what errno says */

static int result(long r)
{
    return r < 0 ? errno : 0;
}

static int open_named(void)
{
    return result(open(named, O_RDONLY));
}

static int write_named(void)
{
    return result(open(named, O_WRONLY));
}

static int open_other(void)
{
    return result(open("/etc/passwd", O_RDONLY));
}

static int open_itself(void)
{
    return result(open("/proc/self/mem", O_RDWR));
}

static int list_folder(void)
{
    return result(open("/usr/lib", O_RDONLY | O_DIRECTORY));
}

static int make_file(void)
{
    return result(open("/tmp/relay-sandbox-made", O_WRONLY | O_CREAT, 0600));
}

static int make_file_in_memory(void)
{
    return result(syscall(SYS_memfd_create, "code", 0));
}

static int remove_file(void)
{
    return result(unlink(named));
}

static int rename_file(void)
{
    return result(rename(named, "/tmp/relay-sandbox-renamed"));
}

static int link_file(void)
{
    return result(symlink("/etc/passwd", "/tmp/relay-sandbox-link"));
}

static int change_mode(void)
{
    return result(chmod(named, 0666));
}

static int start_program(void)
{
    return result(execl("/bin/true", "true", (char *)NULL));
}

static int start_process(void)
{
    return result(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0));
}

static int end_parent(void)
{
    return result(kill(getppid(), SIGTERM));
}

static int look_into_parent(void)
{
    return result(ptrace(PTRACE_ATTACH, getppid(), NULL, NULL));
}

static int make_socket(void)
{
    return result(socket(AF_INET, SOCK_STREAM, 0));
}

static int make_local_socket(void)
{
    return result(socket(AF_UNIX, SOCK_STREAM, 0));
}

static int use_socket(void)
{
    return result(send(at_border[0], "x", 1, 0));
}

static int type_for_the_person(void)
{
    return result(ioctl(0, TIOCSTI, "x"));
}

static int write_code(void)
{
    void *at =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(at == MAP_FAILED ? -1 : 0);
}

static int open_code_for_writing(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(mprotect(at, 4096, PROT_READ | PROT_WRITE | PROT_EXEC));
}

static int make_code(void)
{
    void *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return result(mprotect(at, 4096, PROT_READ | PROT_EXEC));
}

static void *nothing(void *data)
{
    return data;
}

static int start_thread(void)
{
    pthread_t thread;
    int r = pthread_create(&thread, NULL, nothing, NULL);
    return r ? r : pthread_join(thread, NULL);
}

static void *open_in_thread(void *data)
{
    *(int *)data = open_other();
    return NULL;
}

static int open_other_in_thread(void)
{
    pthread_t thread;
    int r = 0;
    pthread_create(&thread, NULL, open_in_thread, &r);
    pthread_join(thread, NULL);
    return r;
}

static int enter_ring(void)
{
    return result(syscall(SYS_io_uring_setup, 1, NULL));
}

typedef struct Try {
    const char *name;
    int (*what)(void);
    int without, open,
        closed; /* without a network; with one; when it was closed: what errno says */
} Try;

static const Try tries[] = {
    {"read what is named", open_named, 0, 0, 0},
    {"write it", write_named, EACCES, EACCES, EACCES},
    {"read something else", open_other, EACCES, EACCES, EACCES},
    {"the same in a thread", open_other_in_thread, EACCES, EACCES, EACCES},
    {"its own memory as a file", open_itself, EACCES, EACCES, EACCES},
    {"list a folder", list_folder, EACCES, EACCES, EACCES},
    {"make a file", make_file, EACCES, EACCES, EACCES},
    {"make a file in memory", make_file_in_memory, EPERM, EPERM, EPERM},
    {"remove a file", remove_file, EPERM, EPERM, EPERM},
    {"rename a file", rename_file, EPERM, EPERM, EPERM},
    {"make a link", link_file, EPERM, EPERM, EPERM},
    {"change who may read", change_mode, EPERM, EPERM, EPERM},
    {"start a program", start_program, EPERM, EPERM, EPERM},
    {"start a process", start_process, EPERM, EPERM, EPERM},
    {"end another process", end_parent, EPERM, EPERM, EPERM},
    {"look into another process", look_into_parent, EPERM, EPERM, EPERM},
    {"make a socket", make_socket, EPERM, 0, EPERM},
    {"make a local socket", make_local_socket, EPERM, 0, EPERM},
    {"use a socket that is there", use_socket, EPERM, 0, 0},
    {"type for the person", type_for_the_person, EPERM, EPERM, EPERM},
    {"memory to write and run", write_code, EPERM, EPERM, EPERM},
    {"memory to write that runs", open_code_for_writing, EPERM, EPERM, EPERM},
    {"memory to run", make_code, 0, 0, 0},
    {"start a thread", start_thread, 0, 0, 0},
    {"another way to call the system", enter_ring, EPERM, EPERM, EPERM},
};

typedef enum State { WITHOUT, OPEN, CLOSED, STATES } State;

static void try_in_child(const Try *t, State state)
{
    Buf why = {0};
    const char *files[] = {named};
    bool in =
        sandbox_enter(files, 1, state == WITHOUT ? SANDBOX_NO_NETWORK : SANDBOX_NETWORK, &why);
    if (in && state == CLOSED)
        in = sandbox_close_network(&why);
    if (!in)
        printf("%s\n", buf_text(&why));
    int wanted = state == WITHOUT ? t->without : state == OPEN ? t->open : t->closed;
    int got = in ? t->what() : -1;
    if (got != wanted)
        printf("%s (%d): %s, not %s\n", t->name, state, strerror(got), strerror(wanted));
    fflush(stdout);
    _exit(got != wanted);
}

/* Where the system cannot, there is nothing to try. */
static bool is_possible(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, 1) > 0;
}

int main(void)
{
    if (!is_possible()) {
        puts("skipped: this kernel has no Landlock");
        return 77;
    }
    close(mkstemp(named));
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, at_border) == 0);
    for (size_t i = 0; i < sizeof tries / sizeof *tries; i++)
        for (State state = WITHOUT; state < STATES; state++) {
            pid_t child = fork();
            if (child == 0)
                try_in_child(&tries[i], state);
            int status = -1;
            CHECK(waitpid(child, &status, 0) == child && status == 0);
        }
    unlink(named);
    return check_done();
}
