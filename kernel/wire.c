#include "kernel/wire.h"

#include "base/memory.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <zmq.h>

/* No message of a notebook comes near this size; a peer that sends more is disconnected. */
static const int64_t largest_frame = (int64_t)256 << 20;
static const int64_t largest_echo = 1 << 16;

/* ---- packets ---- */

void packet_deinit(Packet *p)
{
    buf_deinit(&p->bytes);
    packet_clear(p);
}

void packet_clear(Packet *p)
{
    /* Storage that one huge message needed is not kept for ever. */
    if (p->bytes.cap > (size_t)1 << 20)
        buf_deinit(&p->bytes);
    buf_clear(&p->bytes);
    p->bytes.failed = false;
    p->n = 0;
    p->overflow = false;
}

void packet_add(Packet *p, Str frame)
{
    if (p->n == PACKET_FRAMES || p->overflow || !buf_reserve(&p->bytes, frame.len)) {
        p->overflow = true;
        return;
    }
    buf_bytes(&p->bytes, frame.ptr, frame.len);
    p->ends[p->n++] = p->bytes.n;
}

Str packet_frame(const Packet *p, size_t i)
{
    size_t from = i > 0 ? p->ends[i - 1] : 0;
    return (Str){buf_text(&p->bytes) + from, p->ends[i] - from};
}

size_t packet_delimiter(const Packet *p)
{
    for (size_t i = 0; i < p->n; i++)
        if (str_is(packet_frame(p, i), WIRE_DELIMITER))
            return i;
    return p->n;
}

/* ---- signatures ---- */

void signer_init(Signer *s, Str key)
{
    s->signs = key.len > 0;
    hmac_key_init(&s->key, key.ptr, key.len);
}

void signer_sign(const Signer *s, const Str *frames, size_t n, char out[SIGNATURE_SIZE + 1])
{
    out[0] = '\0';
    if (!s->signs)
        return;
    Sha256 h = hmac_start(&s->key);
    for (size_t i = 0; i < n; i++)
        sha256_add(&h, frames[i].ptr, frames[i].len);
    unsigned char digest[SHA256_SIZE];
    hmac_finish(&s->key, &h, digest);
    for (size_t i = 0; i < SHA256_SIZE; i++) {
        out[2 * i] = "0123456789abcdef"[digest[i] >> 4];
        out[2 * i + 1] = "0123456789abcdef"[digest[i] & 15];
    }
    out[SIGNATURE_SIZE] = '\0';
}

bool signer_verify(const Signer *s, const Str *frames, size_t n, Str signature)
{
    if (!s->signs)
        return true;
    if (signature.len != SIGNATURE_SIZE)
        return false;
    char right[SIGNATURE_SIZE + 1];
    signer_sign(s, frames, n, right);
    unsigned char differ = 0;
    for (size_t i = 0; i < SIGNATURE_SIZE; i++)
        differ |= (unsigned char)(right[i] ^ signature.ptr[i]);
    return differ == 0;
}

/* ---- sockets ---- */

typedef void NewHandler(void);

struct Wire {
    void *context;
};

struct Socket {
    void *handle;
};

/* What libzmq asks of C++ is waited for; what it asks of the system, and is refused, it answers with abort. */
NewHandler *std_set_new_handler(NewHandler *handler) __asm__("_ZSt15set_new_handlerPFvvE");

static void on_abort(int number)
{
    (void)number;
    memory_end("relay kernel: libzmq cannot go on\n");
}

Wire *wire_new(void)
{
    std_set_new_handler(memory_wait);
    signal(SIGABRT, on_abort);
    Wire *w = memory_alloc(sizeof *w);
    void *context = zmq_ctx_new();
    if (!w || !context) {
        free(w);
        if (context)
            zmq_ctx_term(context);
        return NULL;
    }
    w->context = context;
    return w;
}

void wire_shutdown(Wire *w)
{
    zmq_ctx_shutdown(w->context);
}

void wire_free(Wire *w)
{
    while (zmq_ctx_term(w->context) != 0 && errno == EINTR)
        continue;
    free(w);
}

bool wire_has_curve(void)
{
    return zmq_has("curve") == 1;
}

static int zmq_kind(SocketRole role)
{
    switch (role) {
    case SOCKET_REQUESTS: return ZMQ_ROUTER;
    case SOCKET_BROADCAST: return ZMQ_XPUB;
    case SOCKET_ECHO: return ZMQ_ROUTER;
    case SOCKET_DEALER: return ZMQ_DEALER;
    }
    return -1;
}

static bool set_int(void *handle, int option, int value)
{
    return zmq_setsockopt(handle, option, &value, sizeof value) == 0;
}

static bool set_role(void *handle, SocketRole role)
{
    int64_t largest = role == SOCKET_ECHO ? largest_echo : largest_frame;
    if (!set_int(handle, ZMQ_LINGER, 1000))
        return false;
    switch (role) {
    case SOCKET_REQUESTS:
    case SOCKET_ECHO:
        return set_int(handle, ZMQ_ROUTER_HANDOVER, 1) &&
               zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &largest, sizeof largest) == 0;
    case SOCKET_BROADCAST:
        /* The default would silently drop all above a thousand waiting messages of a slow
         * client. */
        return set_int(handle, ZMQ_XPUB_VERBOSE, 1) && set_int(handle, ZMQ_SNDHWM, 100000) &&
               zmq_setsockopt(handle, ZMQ_MAXMSGSIZE, &largest, sizeof largest) == 0;
    case SOCKET_DEALER: return set_int(handle, ZMQ_LINGER, 0);
    }
    return true;
}

static bool set_curve(void *handle, const WireCurve *curve)
{
    return set_int(handle, ZMQ_CURVE_SERVER, 1) &&
           zmq_setsockopt(handle, ZMQ_CURVE_SECRETKEY, curve->secret_key, 40) == 0 &&
           zmq_setsockopt(handle, ZMQ_CURVE_PUBLICKEY, curve->public_key, 40) == 0;
}

Socket *socket_new(Wire *w, SocketRole role, const WireCurve *curve)
{
    Socket *s = memory_alloc(sizeof *s);
    if (!s)
        return NULL;
    s->handle = zmq_socket(w->context, zmq_kind(role));
    if (s->handle && set_role(s->handle, role) && (!curve || set_curve(s->handle, curve)))
        return s;
    socket_free(s);
    return NULL;
}

void socket_free(Socket *s)
{
    if (!s)
        return;
    if (s->handle)
        zmq_close(s->handle);
    free(s);
}

/* Sockets speak IPv6 only where the address is one, so that machines without it are not asked. */
static void choose_family(Socket *s, const char *endpoint)
{
    if (strchr(endpoint, '['))
        set_int(s->handle, ZMQ_IPV6, 1);
}

bool socket_take(Socket *s, int fd)
{
    return set_int(s->handle, ZMQ_USE_FD, fd);
}

bool socket_bind(Socket *s, const char *endpoint, Buf *why)
{
    choose_family(s, endpoint);
    /* After a restart the same ports are used at once, and the old process may still hold them. */
    const struct timespec pause = {.tv_nsec = 20 * 1000 * 1000};
    for (int tries = 0; zmq_bind(s->handle, endpoint) != 0; tries++) {
        int error = errno;
        if (error == EINTR)
            continue;
        if (error != EADDRINUSE || tries == 100) {
            buf_printf(why, "cannot bind %s: %s", endpoint, zmq_strerror(error));
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return true;
}

bool socket_connect(Socket *s, const char *endpoint, Buf *why)
{
    choose_family(s, endpoint);
    if (zmq_connect(s->handle, endpoint) == 0)
        return true;
    buf_printf(why, "cannot connect to %s: %s", endpoint, zmq_strerror(errno));
    return false;
}

void socket_endpoint(Socket *s, Buf *out)
{
    char text[512];
    size_t size = sizeof text;
    if (zmq_getsockopt(s->handle, ZMQ_LAST_ENDPOINT, text, &size) == 0)
        buf_str(out, text);
}

/* Whether what refused a call passes, and the call is to be made again. */
static bool passes(void)
{
    if (errno == ENOMEM)
        memory_wait();
    return errno == ENOMEM || errno == EINTR;
}

/* One frame into the packet; false when there was none or the context is gone. */
static bool receive_frame(void *handle, Packet *p, bool *more)
{
    zmq_msg_t frame;
    zmq_msg_init(&frame);
    int n;
    do {
        n = zmq_msg_recv(&frame, handle, ZMQ_DONTWAIT);
    } while (n < 0 && passes());
    *more = n >= 0 && zmq_msg_more(&frame);
    if (n >= 0)
        packet_add(p, (Str){zmq_msg_data(&frame), zmq_msg_size(&frame)});
    zmq_msg_close(&frame);
    return n >= 0;
}

bool socket_receive(Socket *s, Packet *p)
{
    packet_clear(p);
    bool more;
    do {
        if (!receive_frame(s->handle, p, &more))
            return false;
    } while (more);
    return true;
}

bool socket_send(Socket *s, const Packet *p)
{
    for (size_t i = 0; i < p->n; i++) {
        Str frame = packet_frame(p, i);
        int flags = i + 1 < p->n ? ZMQ_SNDMORE : 0;
        int n;
        do {
            n = zmq_send(s->handle, frame.ptr, frame.len, flags);
        } while (n < 0 && passes());
        if (n < 0)
            return false;
    }
    return p->n > 0;
}

int socket_descriptor(const Socket *s)
{
    int fd = -1;
    size_t size = sizeof fd;
    return zmq_getsockopt(s->handle, ZMQ_FD, &fd, &size) == 0 ? fd : -1;
}

void socket_echo(Socket *s)
{
    while (zmq_proxy(s->handle, s->handle, NULL) != 0 && passes())
        continue;
}

bool wire_wait(Watch *watches, size_t n, int milliseconds)
{
    zmq_pollitem_t items[WATCH_MOST];
    Watch *origin[WATCH_MOST];
    int used = 0;
    for (size_t i = 0; i < n; i++) {
        Watch *w = &watches[i];
        w->ready = false;
        if (!w->socket && w->fd < 0)
            continue;
        origin[used] = w;
        items[used++] = (zmq_pollitem_t){.socket = w->socket ? w->socket->handle : NULL,
                                         .fd = w->socket ? 0 : w->fd,
                                         .events = ZMQ_POLLIN};
    }
    int ready = zmq_poll(items, used, milliseconds);
    if (ready < 0)
        return passes();
    for (int i = 0; i < used; i++)
        origin[i]->ready = items[i].revents != 0;
    return true;
}
