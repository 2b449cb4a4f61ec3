#include "repl/status.h"

#include "base/file.h"
#include "base/limit.h"
#include "base/memory.h"
#include "repl/term.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

/* What is over sooner needs no word. */
static const double soon = 0.5;
/* So often the line is looked at. */
enum { EVERY_MS = 100 };

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
    if (s->open || columns < 20 || now - s->said < soon ||
        !relay_session_progress(s->session, &p) || p.seconds < soon)
        return;
    Buf line = {0}, out = {0};
    buf_printf(&line, "%.0f s  ", p.seconds);
    if (p.share >= 0)
        buf_printf(&line, "%2.0f %%  ", p.share * 100);
    buf_str(&line, p.text[0] ? p.text : "running");
    buf_char(&out, '\r');
    if (s->color)
        term_style(&out, STYLE_DIM);
    term_clip(&out, buf_text(&line), line.n, columns - 1);
    if (s->color)
        term_style(&out, STYLE_PLAIN);
    term_clear_line(&out);
    if (!line.failed && !out.failed)
        fd_write(s->fd, buf_text(&out), out.n);
    s->shown = true;
    buf_deinit(&line);
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

static void wait_a_little(Status *s)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += EVERY_MS * 1000000L;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    pthread_cond_timedwait(&s->changed, &s->lock, &until);
}

static void *status_main(void *data)
{
    Status *s = data;
    pthread_mutex_lock(&s->lock);
    while (!s->ends) {
        if (s->works)
            wait_a_little(s);
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
