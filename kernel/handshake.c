#include "kernel/handshake.h"

#include "base/limit.h"

#include <stdlib.h>

static const double handshake_seconds = 5;

/* The ports, as text: that is what launchers expect. */
static json_t *registration(const Connection *c)
{
    json_t *content = json_object();
    json_object_set(content, "kernel_id", json_object_get(c->fields, "kernel_id"));
    for (int i = 0; i < CHANNEL_KINDS; i++)
        json_object_set_new(content, connection_port_name((ChannelKind)i),
                            json_sprintf("%d", c->ports[i]));
    return content;
}

static void send_registration(const Connection *c, Socket *launcher, const Signer *signer,
                              Packet *packet)
{
    json_t *content = registration(c);
    char *text = json_dumps(content, JSON_COMPACT);
    json_decref(content);
    Str frame = str_of(text ? text : "{}");
    char signature[SIGNATURE_SIZE + 1];
    signer_sign(signer, &frame, 1, signature);
    packet_clear(packet);
    packet_add(packet, str_of(WIRE_DELIMITER));
    packet_add(packet, str_of(signature));
    packet_add(packet, frame);
    free(text);
    socket_send(launcher, packet);
}

static bool is_acknowledgement(const Packet *packet, const Signer *signer)
{
    size_t delimiter = packet_delimiter(packet);
    if (packet->overflow || packet->n < delimiter + 3)
        return false;
    Str content = packet_frame(packet, delimiter + 2);
    return signer_verify(signer, &content, 1, packet_frame(packet, delimiter + 1));
}

static bool await_acknowledgement(Socket *launcher, const Signer *signer, Packet *packet)
{
    double until = clock_seconds() + handshake_seconds;
    for (double left = handshake_seconds; left > 0; left = until - clock_seconds()) {
        Watch watch = {launcher, -1, false};
        if (!wire_wait(&watch, 1, (int)(left * 1000) + 1))
            return false;
        while (socket_receive(launcher, packet))
            if (is_acknowledgement(packet, signer))
                return true;
    }
    return false;
}

bool handshake(const Connection *c, Wire *wire, const Signer *signer, Buf *why)
{
    if (c->registration_port == 0)
        return true;
    Buf endpoint = {0};
    Packet packet = {0};
    buf_printf(&endpoint, "%s://%s%c%d", c->transport, c->ip, c->transport[0] == 'i' ? '-' : ':',
               c->registration_port);
    Socket *launcher = socket_new(wire, SOCKET_DEALER, NULL);
    bool ok = launcher && socket_connect(launcher, buf_text(&endpoint), why);
    if (ok) {
        send_registration(c, launcher, signer, &packet);
        ok = await_acknowledgement(launcher, signer, &packet);
    }
    if (!ok && why->n == 0)
        buf_printf(why, "the launcher at %s did not acknowledge", buf_text(&endpoint));
    socket_free(launcher);
    packet_deinit(&packet);
    buf_deinit(&endpoint);
    return ok;
}
