#include "repl/signals.h"

#include "base/memory.h"
#include "base/buf.h"
#include "base/diag.h"
#include "base/limit.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define AGAIN_SECONDS 0.2

struct Signals {
    pthread_t thread;
    sigset_t set;
    int pipe[2];
    SignalsUse use;
    int patience; /* a cell that has ignored more interrupts than this ends the process */
    atomic_int ignored;
    double last;                /* when the last interrupt was passed on; of the thread alone */
    atomic_bool running, ended, stop;
    _Atomic(RelaySession *) session;
};

/* A descriptor that takes no more has enough to say already. */
static void put(int fd, char c)
{
    ssize_t written = write(fd, &c, 1);
    (void)written;
}

/* No session is at work that could say it. */
static void end_now(void)
{
    Buf b = {0};
    buf_printf(&b, "error[%s]: interrupted\n", diag_info(E0501_INTERRUPTED)->code);
    for (size_t i = 0; i < b.n; i++)
        put(STDERR_FILENO, b.at[i]);
    _exit(RELAY_LIMIT);
}

static void interrupt(Signals *s)
{
    bool running = atomic_load(&s->running);
    if (!running && s->use == SIGNALS_SCRIPT)
        end_now();
    if (!running)
        return;
    /* Who interrupts a group of processes may reach one of them twice. */
    double now = clock_seconds();
    if (now - s->last < AGAIN_SECONDS)
        return;
    s->last = now;
    if (atomic_fetch_add(&s->ignored, 1) >= s->patience)
        end_now();
    RelaySession *session = atomic_load(&s->session);
    if (s->use == SIGNALS_TERMINAL)
        put(STDERR_FILENO, '\n'); /* behind the ^C that the terminal has shown */
    if (session)
        relay_session_interrupt(session);
}

/* The next signal. Until it ends, what was interrupted is so again and again: a session that was about to begin has not heard it. */
static int next_signal(Signals *s)
{
    struct timespec soon = {.tv_nsec = 10000000};
    int number = -1;
    while (number < 0 && s->use == SIGNALS_SCRIPT && atomic_load(&s->running) &&
           atomic_load(&s->ignored) > 0) {
        relay_session_interrupt(atomic_load(&s->session));
        number = sigtimedwait(&s->set, NULL, &soon);
    }
    return number >= 0 || sigwait(&s->set, &number) == 0 ? number : 0;
}

static void *wait_for_signals(void *data)
{
    Signals *s = data;
    int number;
    while ((number = next_signal(s)) > 0 && !atomic_load(&s->stop)) {
        if (number == SIGWINCH) {
            put(s->pipe[1], 'w');
            continue;
        }
        if (number != SIGINT || s->use == SIGNALS_SCRIPT)
            atomic_store(&s->ended, true);
        if (number != SIGINT || !atomic_load(&s->running))
            put(s->pipe[1], number == SIGINT ? 'i' : 't');
        interrupt(s);
    }
    return NULL;
}

/* A program that was started in the background is told to ignore Ctrl-C, and does. */
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction old;
    if (sigaction(number, NULL, &old) == 0 && old.sa_handler != SIG_IGN)
        sigaddset(set, number);
}

/* One of the set; 0 when it is empty. */
static int any_signal(const sigset_t *set)
{
    static const int numbers[] = {SIGINT, SIGWINCH, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        if (sigismember(set, numbers[i]) == 1)
            return numbers[i];
    return 0;
}

static void set_flags(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

Signals *signals_new(SignalsUse use)
{
    Signals *s = memory_zeroed(1, sizeof *s);
    if (!s)
        return NULL;
    sigemptyset(&s->set);
    add_unless_ignored(&s->set, SIGINT);
    s->use = use;
    s->patience = 1;
    if (use == SIGNALS_TERMINAL) {
        s->patience = 2;
        sigaddset(&s->set, SIGWINCH);
        add_unless_ignored(&s->set, SIGTERM);
        add_unless_ignored(&s->set, SIGHUP);
    }
    if (!any_signal(&s->set) || pipe(s->pipe) != 0) {
        free(s);
        return NULL;
    }
    set_flags(s->pipe[0]);
    set_flags(s->pipe[1]);
    sigset_t before;
    pthread_sigmask(SIG_BLOCK, &s->set, &before);
    if (pthread_create(&s->thread, NULL, wait_for_signals, s) == 0)
        return s;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    close(s->pipe[0]);
    close(s->pipe[1]);
    free(s);
    return NULL;
}

void signals_free(Signals *s)
{
    if (!s)
        return;
    atomic_store(&s->stop, true);
    pthread_kill(s->thread, any_signal(&s->set));
    pthread_join(s->thread, NULL);
    close(s->pipe[0]);
    close(s->pipe[1]);
    free(s);
}

void signals_attach(Signals *s, RelaySession *session)
{
    if (s)
        atomic_store(&s->session, session);
}

void signals_begin(Signals *s)
{
    if (!s)
        return;
    atomic_store(&s->ignored, 0);
    atomic_store(&s->running, true);
}

void signals_end(Signals *s)
{
    if (s)
        atomic_store(&s->running, false);
}

int signals_fd(const Signals *s)
{
    return s ? s->pipe[0] : -1;
}

bool signals_ended(const Signals *s)
{
    return s && atomic_load(&s->ended);
}
