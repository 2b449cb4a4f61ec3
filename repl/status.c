#include "repl/status.h"

#include "base/file.h"
#include "base/limit.h"
#include "base/memory.h"
#include "repl/term.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* So often, in seconds, the line is looked at. */
#define EVERY 0.1

struct Status {
    pthread_t thread;
    pthread_mutex_t lock; /* of what follows, and of the terminal */
    pthread_cond_t changed;
    RelaySession *session;
    int fd;
    bool color;
    bool started; /* the thread is there: with the first work that lasts */
    bool works, ends;
    bool open; /* a line was begun, and stays */
    bool shown; /* the line is there */
    double said; /* when something else was written */
};

static void draw(Status *s)
{
    RelayProgress p;
    int columns = term_columns(s->fd);
    double now = clock_seconds();
    if (s->open || columns < 20 || now - s->said < RELAY_PROGRESS_SOON ||
        !relay_session_progress(s->session, &p) || p.seconds < RELAY_PROGRESS_SOON)
        return;
    Buf out = {0};
    buf_char(&out, '\r');
    if (s->color)
        term_style(&out, STYLE_DIM);
    term_clip(&out, p.line, strlen(p.line), columns - 1);
    if (s->color)
        term_style(&out, STYLE_PLAIN);
    term_clear_line(&out);
    if (!out.failed)
        fd_write(s->fd, buf_text(&out), out.n);
    s->shown = true;
    buf_deinit(&out);
}

static void clear(Status *s)
{
    Buf out = {0};
    if (!s->shown)
        return;
    buf_char(&out, '\r');
    term_clear_line(&out);
    fd_write(s->fd, buf_text(&out), out.n);
    buf_deinit(&out);
    s->shown = false;
}

static void *status_main(void *data)
{
    Status *s = data;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        struct timespec until = clock_after(EVERY);
        if (s->works)
            pthread_cond_timedwait(&s->changed, &s->lock, &until);
        else
            pthread_cond_wait(&s->changed, &s->lock);
        if (s->works && !s->ends)
            draw(s);
    }
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

Status *status_new(RelaySession *session, int fd, bool color)
{
    Status *s = term_can_edit(fd, fd) ? memory_zeroed(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->session = session;
    s->fd = fd;
    s->color = color;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    return s;
}

void status_free(Status *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->ends = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (s->started)
        pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

void status_begin(Status *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->works = true;
    s->open = false;
    s->started = s->started || pthread_create(&s->thread, NULL, status_main, s) == 0;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

void status_end(Status *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->works = false;
    clear(s);
    pthread_mutex_unlock(&s->lock);
}

void status_hold(Status *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    clear(s);
}

void status_release(Status *s, bool open)
{
    if (!s)
        return;
    s->open = open;
    s->said = clock_seconds();
    pthread_mutex_unlock(&s->lock);
}
