/* Messages of a kernel: any bytes, cut into frames, are a message or are refused. The first byte
 * says whether the frames get a right signature, without which nothing behind it would be
 * reached. */
#include "kernel/message.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Frames end at bytes of value 0xFF, which no JSON text has. */
static void cut(Packet *p, const char *bytes, size_t n)
{
    while (n > 0) {
        const char *end = memchr(bytes, 0xFF, n);
        size_t len = end ? (size_t)(end - bytes) : n;
        packet_add(p, (Str){bytes, len});
        bytes += end ? len + 1 : len;
        n -= end ? len + 1 : len;
    }
}

static void sign(Packet *p, const Sender *sender, const char *bytes, size_t n)
{
    Packet parts = {0};
    cut(&parts, bytes, n);
    Str frames[4] = {{0}};
    for (size_t i = 0; i < 4 && i < parts.n; i++)
        frames[i] = packet_frame(&parts, i);
    char signature[SIGNATURE_SIZE + 1];
    signer_sign(&sender->signer, frames, 4, signature);
    packet_add(p, str_of("somebody"));
    packet_add(p, str_of(WIRE_DELIMITER));
    packet_add(p, str_of(signature));
    for (size_t i = 0; i < parts.n; i++)
        packet_add(p, packet_frame(&parts, i));
    packet_deinit(&parts);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const char *bytes = (const char *)data + 1;
    Sender sender;
    Message m = {0};
    if (!sender_init(&sender, str_of("key")))
        return 0;
    if (data[0] % 4)
        sign(&m.packet, &sender, bytes, size - 1);
    else
        cut(&m.packet, bytes, size - 1);
    Packet reply = {0};
    if (!message_read(&m, &sender, NULL))
        message_write(&reply, &sender, m.type, m.header_text, NULL, json_incref(m.content));
    packet_deinit(&reply);
    message_deinit(&m);
    return 0;
}
