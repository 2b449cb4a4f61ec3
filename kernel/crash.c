#define _GNU_SOURCE 1
#include "kernel/crash.h"

#include "base/file.h"
#include "base/guard.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A signal handler may read nothing but these. */
static char *path;
static int log_fd = -1;
static char running[48];

static char stack[1 << 16];

static void put(int fd, const char *text)
{
    ssize_t n = write(fd, text, strlen(text));
    (void)n;
}

static void report(int fd, const char *what)
{
    put(fd, "relay kernel: a kernel ended because of ");
    put(fd, what);
    put(fd, running[0] ? ", while it ran " : ", while it ran no cell");
    put(fd, running);
    put(fd, ". What it had defined is gone. This is a bug in Relay.\n");
}

static void on_crash(int number)
{
    const char *what = guard_signal_words(number);
    report(log_fd, what);
    int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600) : -1;
    if (fd >= 0)
        report(fd, what);
    raise(number); /* which has no handler any more */
}

void crash_watch(const char *connection_file, int log, Buf *left)
{
    Buf name = {0};
    buf_printf(&name, "%s.crash", connection_file);
    path = buf_take(&name);
    log_fd = log;
    running[0] = '\0';
    if (path && access(path, F_OK) == 0 && file_load(path, NULL, left))
        unlink(path);
    for (size_t i = 0; guard_signal(i); i++) {
        struct sigaction before,
            ours = {.sa_handler = on_crash, .sa_flags = (int)(SA_ONSTACK | SA_RESETHAND)};
        if (sigaction(guard_signal(i), NULL, &before) == 0 && before.sa_handler == SIG_DFL)
            sigaction(guard_signal(i), &ours, NULL);
    }
}

void crash_end(void)
{
    free(path);
    path = NULL;
}

void crash_own_stack(void)
{
    stack_t before;
    if (sigaltstack(NULL, &before) == 0 && before.ss_flags & SS_DISABLE)
        sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
}

void crash_running(const char *name)
{
    snprintf(running, sizeof running, "%s", name);
}
