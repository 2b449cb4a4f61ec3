/* The least that a kernel of libzmq can do: it answers whatever it is asked at once, with signed messages, and knows no language. What
 * kernels.py measures of it is the client's share, libzmq's and the system's, which no kernel can save.
 *
 *     cc -O2 -I. -o null tests/bench/null_kernel.c kernel/sha256.c -lzmq
 *     null CONNECTION_FILE */
#include "kernel/sha256.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

enum { MOST = 16, SIZE = 1 << 16 };

static HmacKey key;
static void *context, *iopub;

/* The text of a field of the connection file, which is flat. */
static void field(const char *json, const char *name, char *out, size_t size)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    const char *at = strstr(json, quoted);
    at = at ? strchr(at + strlen(quoted), ':') + 1 : "";
    at += strspn(at, " \"");
    snprintf(out, size, "%.*s", (int)strcspn(at, "\",}\n"), at);
}

static void *open_socket(const char *json, const char *name, int type)
{
    char ip[64], port[64], address[160];
    field(json, "ip", ip, sizeof ip);
    field(json, name, port, sizeof port);
    snprintf(address, sizeof address, "tcp://%s:%s", ip, port);
    void *socket = zmq_socket(context, type);
    if (zmq_bind(socket, address) != 0) {
        fprintf(stderr, "%s: %s\n", address, zmq_strerror(zmq_errno()));
        exit(2);
    }
    return socket;
}

typedef struct Frames {
    char bytes[MOST][SIZE];
    size_t sizes[MOST];
    int n, delimiter;
} Frames;

static bool receive(void *socket, Frames *f)
{
    int more = 1;
    size_t size = sizeof more;
    f->delimiter = 0;
    for (f->n = 0; more && f->n < MOST; f->n++) {
        int got = zmq_recv(socket, f->bytes[f->n], SIZE - 1, 0);
        if (got < 0 || got >= SIZE)
            return false;
        f->bytes[f->n][got] = 0;
        f->sizes[f->n] = (size_t)got;
        if (strcmp(f->bytes[f->n], "<IDS|MSG>") == 0)
            f->delimiter = f->n;
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
    }
    return !more && f->n >= f->delimiter + 6;
}

static void send_message(void *socket, const Frames *request, const char *type, const char *format,
                         ...)
{
    static unsigned long sent;
    char header[400], content[1000], signature[2 * SHA256_SIZE + 1];
    va_list args;
    va_start(args, format);
    vsnprintf(content, sizeof content, format, args);
    va_end(args);
    snprintf(header, sizeof header,
             "{\"msg_id\":\"null_%lu\",\"session\":\"null\",\"username\":\"\",\"date\":\"2024-01-"
             "01T00:00:00.000000Z\","
             "\"msg_type\":\"%s\",\"version\":\"5.3\"}",
             ++sent, type);
    const char *parts[] = {header, request->bytes[request->delimiter + 2], "{}", content};
    unsigned char digest[SHA256_SIZE];
    Sha256 h = hmac_start(&key);
    for (int i = 0; i < 4; i++)
        sha256_add(&h, parts[i], strlen(parts[i]));
    hmac_finish(&key, &h, digest);
    for (int i = 0; i < SHA256_SIZE; i++)
        snprintf(signature + 2 * i, 3, "%02x", digest[i]);
    if (socket == iopub)
        zmq_send(socket, type, strlen(type), ZMQ_SNDMORE);
    for (int i = 0; socket != iopub && i < request->delimiter; i++)
        zmq_send(socket, request->bytes[i], request->sizes[i], ZMQ_SNDMORE);
    zmq_send(socket, "<IDS|MSG>", 9, ZMQ_SNDMORE);
    zmq_send(socket, signature, 2 * SHA256_SIZE, ZMQ_SNDMORE);
    for (int i = 0; i < 4; i++)
        zmq_send(socket, parts[i], strlen(parts[i]), i < 3 ? ZMQ_SNDMORE : 0);
}

static void execute(void *socket, const Frames *f)
{
    static int count;
    count++;
    send_message(iopub, f, "execute_input", "{\"code\":\"\",\"execution_count\":%d}", count);
    send_message(iopub, f, "execute_result",
                 "{\"data\":{\"text/plain\":\"3\"},\"metadata\":{},\"execution_count\":%d}", count);
    send_message(
        socket, f, "execute_reply",
        "{\"status\":\"ok\",\"execution_count\":%d,\"payload\":[],\"user_expressions\":{}}", count);
}

static void serve(void *socket)
{
    static Frames f;
    if (!receive(socket, &f))
        return;
    const char *header = f.bytes[f.delimiter + 2];
    send_message(iopub, &f, "status", "{\"execution_state\":\"busy\"}");
    if (strstr(header, "\"execute_request\""))
        execute(socket, &f);
    else if (strstr(header, "\"kernel_info_request\""))
        send_message(socket, &f, "kernel_info_reply",
                     "{\"status\":\"ok\",\"protocol_version\":\"5.3\",\"implementation\":\"null\","
                     "\"implementation_version\":\"0\","
                     "\"banner\":\"\",\"language_info\":{\"name\":\"null\",\"version\":\"0\","
                     "\"mimetype\":\"text/plain\","
                     "\"file_extension\":\".txt\"},\"help_links\":[]}");
    send_message(iopub, &f, "status", "{\"execution_state\":\"idle\"}");
}

static void beat(void *socket)
{
    static Frames f;
    int more = 1;
    size_t size = sizeof more;
    while (more) {
        int got = zmq_recv(socket, f.bytes[0], SIZE, 0);
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
        zmq_send(socket, f.bytes[0], got > 0 ? (size_t)got : 0, more ? ZMQ_SNDMORE : 0);
    }
}

int main(int argc, char **argv)
{
    static char json[SIZE], secret[200];
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file || fread(json, 1, sizeof json - 1, file) == 0)
        return 2;
    fclose(file);
    field(json, "key", secret, sizeof secret);
    hmac_key_init(&key, secret, strlen(secret));
    context = zmq_ctx_new();
    iopub = open_socket(json, "iopub_port", ZMQ_PUB);
    open_socket(json, "stdin_port", ZMQ_ROUTER);
    void *shell = open_socket(json, "shell_port", ZMQ_ROUTER),
         *control = open_socket(json, "control_port", ZMQ_ROUTER),
         *heart = open_socket(json, "hb_port", ZMQ_ROUTER);
    for (;;) {
        zmq_pollitem_t items[] = {
            {shell, 0, ZMQ_POLLIN, 0}, {control, 0, ZMQ_POLLIN, 0}, {heart, 0, ZMQ_POLLIN, 0}};
        if (zmq_poll(items, 3, -1) < 0)
            continue;
        for (int i = 0; i < 2; i++)
            if (items[i].revents)
                serve(items[i].socket);
        if (items[2].revents)
            beat(heart);
    }
}
