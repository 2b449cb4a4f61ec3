/* Packets, signatures and messages, without a socket; then a short conversation over one. */
#include "kernel/message.h"

#include "base/limit.h"

#include <stdio.h>
#include <string.h>

static int failures;

static void check(bool ok, const char *what)
{
    if (ok)
        return;
    printf("failed: %s\n", what);
    failures++;
}

static const char key[] = "a0436f6c-1916-498b-8eb9-e81ab9368e84";
static const char header[] = "{\"msg_id\":\"1\",\"session\":\"s\",\"username\":\"u\",\"date\":"
                             "\"2024-01-01T00:00:00.000000Z\","
                             "\"msg_type\":\"kernel_info_request\",\"version\":\"5.3\"}";
static const char signature[] = "e04d47934620dd625bb4af58a1de2d36f4cceecab5e5317e301f6cd2b91565c3";

static void test_signatures(void)
{
    Signer s;
    signer_init(&s, str_of(key));
    Str parts[4] = {str_of(header), str_of("{}"), str_of("{}"), str_of("{}")};
    char out[SIGNATURE_SIZE + 1];
    signer_sign(&s, parts, 4, out);
    check(strcmp(out, signature) == 0, "the signature of a known message");
    check(signer_verify(&s, parts, 4, str_of(signature)), "a right signature");
    for (size_t i = 0; i < SIGNATURE_SIZE; i++) {
        char wrong[SIGNATURE_SIZE + 1];
        memcpy(wrong, signature, sizeof wrong);
        wrong[i] ^= 1;
        check(!signer_verify(&s, parts, 4, str_of(wrong)), "a signature with one wrong digit");
        check(!signer_verify(&s, parts, 4, (Str){signature, i}), "a signature that is too short");
    }
    parts[3] = str_of("{ }");
    check(!signer_verify(&s, parts, 4, str_of(signature)), "the signature of another content");

    signer_init(&s, str_of(""));
    signer_sign(&s, parts, 4, out);
    check(out[0] == '\0', "no key, no signature");
    check(signer_verify(&s, parts, 4, str_of("anything")), "no key, nothing to verify");
}

static void test_packets(void)
{
    Packet p = {0};
    check(packet_delimiter(&p) == 0, "an empty packet has no delimiter");
    packet_add(&p, (Str){"\0id", 3});
    packet_add(&p, str_of(""));
    packet_add(&p, str_of("<IDS|MSG"));
    packet_add(&p, str_of(WIRE_DELIMITER));
    check(packet_delimiter(&p) == 3, "the delimiter is a whole frame");
    check(packet_frame(&p, 0).len == 3 && memcmp(packet_frame(&p, 0).ptr, "\0id", 3) == 0,
          "frame 0");
    check(packet_frame(&p, 1).len == 0, "an empty frame");
    for (int i = 0; i < PACKET_FRAMES; i++)
        packet_add(&p, str_of("x"));
    check(p.overflow && p.n == PACKET_FRAMES, "too many frames are left out");
    packet_clear(&p);
    check(p.n == 0 && !p.overflow, "a cleared packet is empty");
    packet_deinit(&p);
}

/* What message_read says about a message with these parts, correctly signed, or that cannot be answered as it is. */
static const char *read_signed(Sender *sender, const char *const texts[4], int n)
{
    Message m = {0};
    Str parts[4] = {{0}};
    char digits[SIGNATURE_SIZE + 1];
    for (int i = 0; i < 4; i++)
        parts[i] = str_of(texts[i]);
    signer_sign(&sender->signer, parts, 4, digits);
    packet_add(&m.packet, str_of("somebody"));
    packet_add(&m.packet, str_of(WIRE_DELIMITER));
    packet_add(&m.packet, str_of(digits));
    for (int i = 0; i < n; i++)
        packet_add(&m.packet, parts[i]);
    const char *fault = message_read(&m, sender, NULL);
    fault = fault ? fault : m.broken;
    message_deinit(&m);
    return fault;
}

static void test_bad_messages(void)
{
    static const char good[] = "{\"msg_type\":\"x\",\"msg_id\":\"1\"}";
    static const char *const bad[][4] = {
        {"", "{}", "{}", "{}"},
        {"[]", "{}", "{}", "{}"},
        {"{", "{}", "{}", "{}"},
        {"{\"msg_type\":\"x\"}", "{}", "{}", "{}"},
        {"{\"msg_id\":\"x\"}", "{}", "{}", "{}"},
        {"{\"msg_type\":1,\"msg_id\":\"1\"}", "{}", "{}", "{}"},
        {"{\"msg_type\":\"x\",\"msg_id\":null}", "{}", "{}", "{}"},
        {good, "null", "{}", "{}"},
        {good, "{}", "[]", "{}"},
        {good, "{}", "{}", "\xff"},
        {good, "{}", "{}", "{\"a\":1e999}"},
        {good, "{}", "{}", "{} {}"},
    };
    Sender sender;
    check(sender_init(&sender, str_of(key)), "a sender");
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        check(read_signed(&sender, bad[i], 4) != NULL, bad[i][0]);
    const char *const fine[4] = {good, "{}", "{}", "{\"a\":\"\\u0000\"}"};
    check(!read_signed(&sender, fine, 4), "a message with all it needs");
    const char *const half[4] = {good, "{}", "{}", "{\"a\":\"\\ud83d\"}"};
    check(!read_signed(&sender, half, 4), "half of a pair, which is read as U+FFFD");
    for (int n = 0; n < 4; n++)
        check(read_signed(&sender, fine, n) != NULL, "a message with frames missing");
}

static void test_round_trip(void)
{
    Sender sender;
    Seen *seen = &(Seen){0};
    Message m = {0};
    check(sender_init(&sender, str_of(key)), "a sender");
    packet_add(&m.packet, str_of("identity"));
    json_t *content = json_pack("{s:o}", "text", json_text("a\xc3\xa9\xff", 4));
    message_write(&m.packet, &sender, "stream", str_of(header), NULL, content);
    check(message_read(&m, &sender, seen) == NULL, "what is written can be read");
    check(m.prefix == 1, "the prefix is one frame");
    check(m.type && strcmp(m.type, "stream") == 0, "the type");
    check(str_is(packet_frame(&m.packet, 4), header), "the parent, byte for byte");
    check(strcmp(json_string_value(json_object_get(m.content, "text")), "a\xc3\xa9\xef\xbf\xbd") ==
              0,
          "bytes that are not UTF-8 become U+FFFD");
    message_done(&m);
    check(message_read(&m, &sender, seen) != NULL, "the same message again");
    Message other = {0};
    message_write(&other.packet, &sender, "stream", str_of(header), NULL, json_object());
    check(message_read(&other, &sender, seen) == NULL, "another message");
    message_done(&other);
    check(message_read(&m, &sender, seen) != NULL, "the first one again, behind another");
    message_deinit(&other);
    message_deinit(&m);
}

static void test_sockets(void)
{
    Wire *wire = wire_new();
    Socket *router = socket_new(wire, SOCKET_REQUESTS, NULL),
           *dealer = socket_new(wire, SOCKET_DEALER, NULL);
    Buf why = {0}, endpoint = {0};
    check(socket_bind(router, "tcp://127.0.0.1:*", &why), "binding");
    socket_endpoint(router, &endpoint);
    check(socket_connect(dealer, buf_text(&endpoint), &why), "connecting");
    check(!socket_bind(router, "nowhere://", &why) && why.n > 0, "binding nowhere");
    Packet p = {0};
    check(!socket_receive(router, &p), "nothing has come yet");
    packet_add(&p, str_of("question"));
    packet_add(&p, str_of(""));
    check(socket_send(dealer, &p), "sending");
    Watch watches[] = {{NULL, -1, false}, {router, -1, false}};
    check(wire_wait(watches, 2, 5000) && watches[1].ready && !watches[0].ready, "waiting");
    check(socket_receive(router, &p) && p.n == 3 && str_is(packet_frame(&p, 1), "question"),
          "receiving");
    check(!socket_receive(router, &p), "one message only");
    packet_deinit(&p);
    buf_deinit(&why);
    buf_deinit(&endpoint);
    socket_free(router);
    socket_free(dealer);
    wire_free(wire);
}

int main(void)
{
    test_signatures();
    test_packets();
    test_bad_messages();
    test_round_trip();
    test_sockets();
    return failures > 0;
}
