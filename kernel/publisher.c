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

static const char queue_endpoint[] = "inproc://publisher";

/* Text is sent when it is this old, or this long. */
static const double gather_seconds = 0.05;
enum { GATHER_BYTES = 1 << 16 };

/* The first frame of what is handed over says what it is. */
static const char tag_message[] = "M", tag_text[] = "T", tag_mark[] = "W", tag_end[] = "Q";

/* Streams are told apart by these addresses. */
static const char stream_stdout[] = "stdout", stream_stderr[] = "stderr";

/* ---- handing over ---- */

Socket *publisher_hand(Publisher *p)
{
    Buf why = {0};
    Socket *hand = socket_new(p->wire, SOCKET_HAND, NULL);
    if (hand && !socket_connect(hand, queue_endpoint, &why)) {
        socket_free(hand);
        hand = NULL;
    }
    buf_deinit(&why);
    return hand;
}

void publish_begin(Packet *packet, const char *topic)
{
    packet_clear(packet);
    packet_add(packet, str_of(tag_message));
    packet_add(packet, str_of(topic));
}

void publish(Socket *hand, const Packet *packet)
{
    if (!packet->overflow)
        socket_send(hand, packet, 0);
}

void publish_text(Socket *hand, Packet *packet, const char *stream, Str parent, Str text)
{
    packet_clear(packet);
    packet_add(packet, str_of(tag_text));
    packet_add(packet, str_of(stream));
    packet_add(packet, parent);
    packet_add(packet, text);
    publish(hand, packet);
}

void publish_wait(Publisher *p, Socket *hand, Packet *packet)
{
    packet_clear(packet);
    packet_add(packet, str_of(tag_mark));
    if (packet->overflow || !socket_send(hand, packet, 0))
        return;
    while (sem_wait(&p->passed) != 0)
        continue;
}

/* ---- streams ---- */

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
    socket_send(p->iopub, &p->out, 0);
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
    }
    buf_bytes(&p->text, text.ptr, text.len);
    if (p->text.n >= GATHER_BYTES)
        flush_whole_text(p);
}

static const char *stream_name(Str name)
{
    return str_is(name, stream_stderr) ? stream_stderr : stream_stdout;
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

void publisher_attribute(Publisher *p, Str parent)
{
    pthread_mutex_lock(&p->lock);
    buf_clear(&p->parent);
    buf_bytes(&p->parent, parent.ptr, parent.len);
    pthread_mutex_unlock(&p->lock);
}

static bool anything_printed(Publisher *p)
{
    struct pollfd fds[2] = {{p->captures[0].pipe, POLLIN, 0}, {p->captures[1].pipe, POLLIN, 0}};
    pthread_mutex_lock(&p->lock);
    bool any = poll(fds, 2, 0) > 0;
    pthread_mutex_unlock(&p->lock);
    return any;
}

void publisher_settle(Publisher *p)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000};
    fflush(NULL);
    /* A thread that goes on printing is not waited for. */
    for (int tries = 0; tries < 2000 && anything_printed(p); tries++)
        nanosleep(&pause, NULL);
}

/* ---- the thread ---- */

/* False when it was the order to end. */
static bool handle(Publisher *p, const Packet *packet)
{
    Str tag = packet_frame(packet, 0);
    if (str_is(tag, tag_end))
        return false;
    if (str_is(tag, tag_text)) {
        gather(p, stream_name(packet_frame(packet, 1)), packet_frame(packet, 2),
               packet_frame(packet, 3));
        return true;
    }
    if (str_is(tag, tag_mark)) {
        sem_post(&p->passed);
        return true;
    }
    flush_text(p);
    socket_send(p->iopub, packet, 1);
    return true;
}

/* Everything that waits in the queue. */
static bool handle_queue(Publisher *p)
{
    while (socket_receive(p->queue, &p->packet))
        if (p->packet.n > 0 && !handle(p, &p->packet))
            return false;
    return true;
}

/* What was printed goes behind everything that was handed over before. Whoever runs a cell
 * settles before handing over more, and the lock keeps that until this is done. */
static bool handle_pipes(Publisher *p)
{
    Buf printed[2] = {{0}, {0}};
    bool on = true;
    pthread_mutex_lock(&p->lock);
    for (int i = 0; i < 2; i++)
        read_pipe(p->captures[i].pipe, &printed[i]);
    if (printed[0].n + printed[1].n > 0)
        on = handle_queue(p);
    Str parent = {buf_text(&p->parent), p->parent.n};
    for (int i = 0; i < 2; i++) {
        const char *stream = i == 0 ? stream_stdout : stream_stderr;
        if (printed[i].n > 0)
            gather(p, stream, parent, (Str){printed[i].at, printed[i].n});
        buf_deinit(&printed[i]);
    }
    pthread_mutex_unlock(&p->lock);
    return on;
}

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
        socket_send(p->iopub, &p->out, 0);
    }
}

/* Milliseconds until gathered text must leave; -1 when there is none. */
static int patience(const Publisher *p)
{
    if (p->text.n == 0)
        return -1;
    double left = p->due - clock_seconds();
    return left > 0 ? (int)(left * 1000) + 1 : 0;
}

static void *publisher_main(void *data)
{
    Publisher *p = data;
    memory_patient(true);
    for (;;) {
        Watch watches[] = {{p->queue, -1, false},
                           {p->iopub, -1, false},
                           {NULL, p->captures[0].pipe, false},
                           {NULL, p->captures[1].pipe, false}};
        if (!wire_wait(watches, 4, patience(p)))
            break;
        if (watches[1].ready)
            welcome(p);
        if (watches[0].ready && !handle_queue(p))
            break;
        if ((watches[2].ready || watches[3].ready) && !handle_pipes(p))
            break;
        if (p->text.n > 0 && patience(p) == 0)
            flush_whole_text(p);
    }
    /* Other threads have ended, but the queue takes turns among them and may still hold their
     * last words. */
    handle_queue(p);
    handle_pipes(p);
    flush_text(p);
    return NULL;
}

bool publisher_start(Publisher *p, Wire *wire, Socket *iopub, Sender *sender)
{
    Buf why = {0};
    *p = (Publisher){
        .sender = sender, .iopub = iopub, .wire = wire, .captures = {{-1, -1}, {-1, -1}}};
    pthread_mutex_init(&p->lock, NULL);
    sem_init(&p->passed, 0, 0);
    p->queue = socket_new(wire, SOCKET_COLLECT, NULL);
    bool bound = p->queue && socket_bind(p->queue, queue_endpoint, &why);
    buf_deinit(&why);
    fflush(NULL);
    if (bound && capture_begin(&p->captures[0], STDOUT_FILENO) &&
        capture_begin(&p->captures[1], STDERR_FILENO) &&
        pthread_create(&p->thread, NULL, publisher_main, p) == 0)
        return true;
    capture_end(&p->captures[0], STDOUT_FILENO);
    capture_end(&p->captures[1], STDERR_FILENO);
    socket_free(p->queue);
    p->queue = NULL;
    return false;
}

void publisher_end(Publisher *p)
{
    if (!p->queue)
        return;
    Socket *hand = publisher_hand(p);
    Packet end = {0};
    packet_add(&end, str_of(tag_end));
    if (hand)
        socket_send(hand, &end, 0);
    else
        wire_shutdown(p->wire);
    pthread_join(p->thread, NULL);
    packet_deinit(&end);
    socket_free(hand);
    fflush(NULL);
    capture_end(&p->captures[0], STDOUT_FILENO);
    capture_end(&p->captures[1], STDERR_FILENO);
    socket_free(p->queue);
    packet_deinit(&p->packet);
    packet_deinit(&p->out);
    buf_deinit(&p->text);
    buf_deinit(&p->text_parent);
    buf_deinit(&p->parent);
    pthread_mutex_destroy(&p->lock);
    sem_destroy(&p->passed);
}
