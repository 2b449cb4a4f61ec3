#define _GNU_SOURCE 1
#include "kernel/aside.h"

#include "base/memory.h"
#include "kernel/handlers.h"
#include "kernel/internal.h"

#include <fcntl.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

/* So often, in milliseconds, the line about a cell that runs for long is looked at. */
enum { TELL_MS = 200 };

/* Shorter cells are over before anybody asks. */
static const struct timespec soon = {.tv_nsec = 5 * 1000 * 1000};

bool aside_init(Aside *a)
{
    int ends[2];
    *a = (Aside){.echo = relay_echo_new(), .back_read = -1, .back_write = -1};
    pthread_mutex_init(&a->lock, NULL);
    a->alarm = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    if (!a->echo || a->alarm < 0 || pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    a->back_read = ends[0];
    a->back_write = ends[1];
    return true;
}

void aside_deinit(Aside *a)
{
    relay_echo_free(a->echo);
    if (a->back_read >= 0)
        close(a->back_read);
    if (a->back_write >= 0)
        close(a->back_write);
    if (a->alarm >= 0)
        close(a->alarm);
    pthread_mutex_destroy(&a->lock);
}

void aside_wake(Aside *a)
{
    timerfd_settime(a->alarm, 0, &(struct itimerspec){.it_value = {.tv_nsec = 1}}, NULL);
}

static void wake_soon(Aside *a)
{
    if (!atomic_exchange(&a->set, true))
        timerfd_settime(a->alarm, 0, &(struct itimerspec){.it_value = soon}, NULL);
}

/* ---- the shell thread ---- */

void aside_own(Aside *a)
{
    pthread_mutex_lock(&a->lock);
}

void aside_disown(Aside *a)
{
    pthread_mutex_unlock(&a->lock);
}

void aside_lend(Aside *a)
{
    atomic_store(&a->running, true);
    pthread_mutex_unlock(&a->lock);
    wake_soon(a);
}

void aside_take_back(Aside *a)
{
    char bytes[16];
    atomic_store(&a->running, false);
    if (pthread_mutex_trylock(&a->lock) == 0)
        return;
    ssize_t n = write(a->back_write, "", 1);
    (void)n;
    pthread_mutex_lock(&a->lock);
    while (read(a->back_read, bytes, sizeof bytes) > 0)
        continue;
}

void aside_note(Channel *shell)
{
    Kernel *k = shell->kernel;
    if (relay_echo_note(k->aside.echo, k->session))
        wake_soon(&k->aside);
}

/* ---- the aside thread ---- */

static bool cell_runs(const Kernel *k)
{
    return atomic_load(&k->aside.running) && !atomic_load(&k->stopping);
}

/* The lock is held. */
static void serve(Channel *c)
{
    Kernel *k = c->kernel;
    c->session = relay_echo_session(k->aside.echo);
    c->handed = 0;
    while (c->session && cell_runs(k)) {
        bool full = c->handed >= HELD_MOST;
        Watch watches[] = {{full ? NULL : c->socket, -1, false},
                           {NULL, k->aside.back_read, false},
                           {NULL, k->stop_read, false}};
        if (!wire_wait(watches, 3, TELL_MS))
            return;
        if (cell_runs(k))
            working_tell(c);
        while (cell_runs(k) && c->handed < HELD_MOST &&
               socket_receive(c->socket, &c->request.packet)) {
            channel_handle(c);
            if (c->stop)
                kernel_stop(k);
        }
    }
}

void *aside_main(void *data)
{
    Channel *c = data;
    Kernel *k = c->kernel;
    memory_patient(true);
    while (!atomic_load(&k->stopping)) {
        uint64_t times;
        if (read(k->aside.alarm, &times, sizeof times) < 0)
            continue;
        atomic_store(&k->aside.set, false);
        if (!atomic_load(&k->stopping))
            relay_echo_session(k->aside.echo);
        if (!cell_runs(k))
            continue;
        nanosleep(&soon, NULL);
        if (!cell_runs(k))
            continue;
        pthread_mutex_lock(&k->aside.lock);
        /* The cells before this one are not to be lost with it. */
        if (cell_runs(k))
            history_write(k->history);
        serve(c);
        pthread_mutex_unlock(&k->aside.lock);
    }
    return NULL;
}
