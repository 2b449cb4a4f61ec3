#define _GNU_SOURCE 1
#include "kernel/publisher.h"

#include "base/limit.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Text is sent when it is this old, or this long. */
static const double gather_seconds = 0.05;
enum { GATHER_BYTES = 1 << 16 };

/* Streams are told apart by these addresses. */
static const char stream_stdout[] = "stdout", stream_stderr[] = "stderr";

/* ---- streams ---- */

/* The thread looks again. */
static void wake(Publisher *p)
{
    ssize_t n = write(p->wake_write, "", 1);
    (void)n;
}

/* How many bytes at the end begin a character that has not come whole yet. */
static size_t unfinished(Str text)
{
    for (size_t back = 1; back <= 3 && back <= text.len; back++) {
        unsigned char c = (unsigned char)text.ptr[text.len - back];
        if (c < 0x80)
            return 0;
        if (c >= 0xC0)
            return back < (c >= 0xF0 ? 4u : c >= 0xE0 ? 3u : 2u) ? back : 0;
    }
    return 0;
}

static void send_text(Publisher *p, size_t n)
{
    Str parent = {buf_text(&p->text_parent), p->text_parent.n};
    packet_clear(&p->out);
    packet_add(&p->out, str_of(p->stream));
    message_write(
        &p->out, p->sender, "stream", parent, NULL,
        json_pack("{s:s, s:o}", "name", p->stream, "text", json_text(buf_text(&p->text), n)));
    socket_send(p->iopub, &p->out);
}

/* Everything gathered leaves, whole characters or not. */
static void flush_text(Publisher *p)
{
    if (p->text.n > 0)
        send_text(p, p->text.n);
    buf_clear(&p->text);
}

/* What is gathered leaves up to the last whole character; one that does not get whole in time
 * leaves, too. */
static void flush_whole_text(Publisher *p)
{
    Str text = {buf_text(&p->text), p->text.n};
    size_t rest = unfinished(text);
    if (rest == text.len) {
        flush_text(p);
        return;
    }
    send_text(p, text.len - rest);
    char tail[4];
    memcpy(tail, text.ptr + text.len - rest, rest);
    buf_clear(&p->text);
    buf_bytes(&p->text, tail, rest);
    p->due = clock_seconds() + gather_seconds;
}

static void gather(Publisher *p, const char *stream, Str parent, Str text)
{
    Str before = {buf_text(&p->text_parent), p->text_parent.n};
    if (p->text.n > 0 && (p->stream != stream || !str_eq(before, parent)))
        flush_text(p);
    if (p->text.n == 0) {
        p->stream = stream;
        p->due = clock_seconds() + gather_seconds;
        buf_clear(&p->text_parent);
        buf_bytes(&p->text_parent, parent.ptr, parent.len);
        wake(p);
    }
    buf_bytes(&p->text, text.ptr, text.len);
    if (p->text.n >= GATHER_BYTES)
        flush_whole_text(p);
}

/* ---- what C libraries print ---- */

static bool capture_begin(Capture *c, int fd)
{
    int ends[2];
    if (pipe(ends) != 0)
        return false;
    c->original = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    fcntl(ends[0], F_SETFD, FD_CLOEXEC);
    if (c->original < 0 || dup2(ends[1], fd) < 0) {
        close(ends[0]);
        ends[0] = -1;
    }
    close(ends[1]);
    c->pipe = ends[0];
    return c->pipe >= 0;
}

static void capture_end(Capture *c, int fd)
{
    if (c->original >= 0) {
        dup2(c->original, fd);
        close(c->original);
    }
    if (c->pipe >= 0)
        close(c->pipe);
    *c = (Capture){-1, -1};
}

/* What waits in a pipe, at most about what fits into one. */
static void read_pipe(int fd, Buf *out)
{
    char bytes[4096];
    for (int rounds = 0; rounds < 32 && fd >= 0; rounds++) {
        ssize_t n = read(fd, bytes, sizeof bytes);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return;
        buf_bytes(out, bytes, (size_t)n);
    }
}

/* What was printed goes behind everything that was published before. The lock is held. */
static void take_printed(Publisher *p)
{
    Str parent = {buf_text(&p->parent), p->parent.n};
    struct pollfd fds[2] = {{p->captures[0].pipe, POLLIN, 0}, {p->captures[1].pipe, POLLIN, 0}};
    if (poll(fds, 2, 0) <= 0)
        return;
    for (int i = 0; i < 2; i++) {
        Buf printed = {0};
        read_pipe(p->captures[i].pipe, &printed);
        if (printed.n > 0)
            gather(p, i == 0 ? stream_stdout : stream_stderr, parent,
                   (Str){buf_text(&printed), printed.n});
        buf_deinit(&printed);
    }
}

void publisher_attribute(Publisher *p, Str parent)
{
    pthread_mutex_lock(&p->lock);
    buf_clear(&p->parent);
    buf_bytes(&p->parent, parent.ptr, parent.len);
    pthread_mutex_unlock(&p->lock);
}

void publisher_settle(Publisher *p)
{
    /* A full pipe is emptied by the thread, for which it needs the lock. */
    fflush(NULL);
    pthread_mutex_lock(&p->lock);
    take_printed(p);
    pthread_mutex_unlock(&p->lock);
}

/* ---- messages ---- */

/* A subscription is the byte 1 and the topic. Everybody subscribed to it sees the welcome. */
static void welcome(Publisher *p)
{
    while (socket_receive(p->iopub, &p->packet)) {
        if (p->packet.n != 1)
            continue;
        Str event = packet_frame(&p->packet, 0);
        if (event.len == 0 || event.ptr[0] != 1)
            continue;
        json_t *topic = json_stringn(event.ptr + 1, event.len - 1);
        if (!topic)
            continue;
        packet_clear(&p->out);
        packet_add(&p->out, (Str){event.ptr + 1, event.len - 1});
        message_write(&p->out, p->sender, "iopub_welcome", (Str){NULL, 0}, NULL,
                      json_pack("{s:o}", "subscription", topic));
        socket_send(p->iopub, &p->out);
    }
}

void publish_begin(Packet *packet, const char *topic)
{
    packet_clear(packet);
    packet_add(packet, str_of(topic));
}

void publish(Publisher *p, const Packet *packet)
{
    if (packet->overflow)
        return;
    pthread_mutex_lock(&p->lock);
    flush_text(p);
    socket_send(p->iopub, packet);
    welcome(p);
    pthread_mutex_unlock(&p->lock);
}

void publish_text(Publisher *p, const char *stream, Str parent, Str text)
{
    pthread_mutex_lock(&p->lock);
    gather(p, strcmp(stream, stream_stderr) == 0 ? stream_stderr : stream_stdout, parent, text);
    pthread_mutex_unlock(&p->lock);
}

/* ---- the thread ---- */

/* Milliseconds until gathered text must leave; -1 when there is none. */
static int patience(const Publisher *p)
{
    if (p->text.n == 0)
        return -1;
    double left = p->due - clock_seconds();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

/* The lock is held. False when it was the order to end. */
static bool look(Publisher *p)
{
    char bytes[64];
    while (read(p->wake_read, bytes, sizeof bytes) > 0)
        continue;
    take_printed(p);
    if (p->text.n > 0 && (p->ending || patience(p) == 0))
        flush_whole_text(p);
    welcome(p);
    return !p->ending;
}

static void *publisher_main(void *data)
{
    Publisher *p = data;
    memory_patient(true);
    pthread_mutex_lock(&p->lock);
    while (look(p)) {
        Watch watches[] = {{NULL, socket_descriptor(p->iopub), false},
                           {NULL, p->wake_read, false},
                           {NULL, p->captures[0].pipe, false},
                           {NULL, p->captures[1].pipe, false}};
        int milliseconds = patience(p);
        pthread_mutex_unlock(&p->lock);
        wire_wait(watches, 4, milliseconds);
        pthread_mutex_lock(&p->lock);
    }
    flush_text(p);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void close_end(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* What is not the thread's. */
static void let_go(Publisher *p)
{
    fflush(NULL);
    capture_end(&p->captures[0], STDOUT_FILENO);
    capture_end(&p->captures[1], STDERR_FILENO);
    close_end(&p->wake_read);
    close_end(&p->wake_write);
    pthread_mutex_destroy(&p->lock);
}

bool publisher_start(Publisher *p, Socket *iopub, Sender *sender)
{
    int ends[2] = {-1, -1};
    *p = (Publisher){.sender = sender, .iopub = iopub, .captures = {{-1, -1}, {-1, -1}}};
    pthread_mutex_init(&p->lock, NULL);
    fflush(NULL);
    bool woken = pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0;
    p->wake_read = ends[0];
    p->wake_write = ends[1];
    if (woken && socket_descriptor(iopub) >= 0 && capture_begin(&p->captures[0], STDOUT_FILENO) &&
        capture_begin(&p->captures[1], STDERR_FILENO) &&
        pthread_create(&p->thread, NULL, publisher_main, p) == 0)
        return true;
    let_go(p);
    return false;
}

void publisher_end(Publisher *p)
{
    fflush(NULL);
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    wake(p);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    let_go(p);
    packet_deinit(&p->packet);
    packet_deinit(&p->out);
    buf_deinit(&p->text);
    buf_deinit(&p->text_parent);
    buf_deinit(&p->parent);
}
