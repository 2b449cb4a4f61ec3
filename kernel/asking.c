#define _GNU_SOURCE 1
#include "kernel/asking.h"

#include "kernel/internal.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

bool asking_init(Asking *a, Kernel *k)
{
    int ends[2];
    *a = (Asking){.kernel = k, .wake_read = -1, .wake_write = -1};
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    a->wake_read = ends[0];
    a->wake_write = ends[1];
    return true;
}

void asking_deinit(Asking *a)
{
    buf_deinit(&a->answer);
    if (a->wake_read >= 0)
        close(a->wake_read);
    if (a->wake_write >= 0)
        close(a->wake_write);
}

void asking_begin(Asking *a, Channel *shell)
{
    a->shell = shell;
}

void asking_wake(Asking *a)
{
    ssize_t n = write(a->wake_write, "", 1);
    (void)n;
}

void asking_drop(Asking *a)
{
    Packet packet = {0};
    while (socket_receive(a->kernel->sockets[CHANNEL_STDIN], &packet))
        continue;
    packet_deinit(&packet);
}

/* ---- a question ---- */

/* End of file is a character, as a terminal has it. */
static const char end_of_file[] = "\x04";

/* Whether it comes from who was asked, and is about this question: not every client says what it answers. */
static bool is_answer(const Message *m, const Message *request, const json_t *question)
{
    const Packet *got = &m->packet, *asked = &request->packet;
    bool same = m->prefix == request->prefix && strcmp(m->type, "input_reply") == 0;
    for (size_t i = 0; same && i < m->prefix; i++)
        same = str_eq(packet_frame(got, i), packet_frame(asked, i));
    json_error_t error;
    Str text = packet_frame(got, m->prefix + 3);
    json_t *parent = json_loadb(text.ptr, text.len, 0, &error);
    json_t *id = json_object_get(parent, "msg_id");
    same = same && (!id || json_equal(id, json_object_get(question, "msg_id"))) &&
           json_is_string(json_object_get(m->content, "value"));
    json_decref(parent);
    return same;
}

/* Takes what waits in the socket; whether the answer was among it. */
static bool take(Asking *a, const json_t *question)
{
    Kernel *k = a->kernel;
    Message m = {0};
    bool found = false;
    while (!found && socket_receive(k->sockets[CHANNEL_STDIN], &m.packet)) {
        const char *fault = message_read(&m, &k->sender, NULL);
        found = !fault && is_answer(&m, &a->shell->request, question);
        if (found) {
            const json_t *value = json_object_get(m.content, "value");
            buf_clear(&a->answer);
            buf_bytes(&a->answer, json_string_value(value), json_string_length(value));
        }
        message_done(&m);
    }
    message_deinit(&m);
    return found;
}

static RelayAskEnd await(Asking *a, const json_t *question)
{
    Kernel *k = a->kernel;
    for (;;) {
        Watch watches[] = {{k->sockets[CHANNEL_STDIN], -1, false},
                           {NULL, a->wake_read, false},
                           {NULL, k->stop_read, false}};
        if (!wire_wait(watches, 3, -1) || watches[1].ready || watches[2].ready)
            return RELAY_ASK_INTERRUPTED;
        if (take(a, question))
            return strcmp(buf_text(&a->answer), end_of_file) == 0 ? RELAY_ASK_ENDED
                                                                  : RELAY_ASK_ANSWERED;
    }
}

RelayAskEnd asking_ask(void *data, const char *question, const char **answer)
{
    Asking *a = data;
    Kernel *k = a->kernel;
    Channel *c = a->shell;
    char bytes[16];
    if (!c)
        return RELAY_ASK_NOBODY;
    asking_drop(a);
    while (read(a->wake_read, bytes, sizeof bytes) > 0)
        continue;
    if (atomic_load(&k->interrupted))
        return RELAY_ASK_INTERRUPTED;
    json_t *content =
        json_pack("{s:o, s:b}", "prompt", json_text(question, strlen(question)), "password", 0);
    if (!channel_send(c, k->sockets[CHANNEL_STDIN], "input_request", NULL, content))
        return RELAY_ASK_NOBODY;
    json_error_t error;
    Str header = packet_frame(&c->out, c->request.prefix + 2);
    json_t *sent = json_loadb(header.ptr, header.len, 0, &error);
    RelayAskEnd end = await(a, sent);
    json_decref(sent);
    *answer = buf_text(&a->answer);
    return end;
}
