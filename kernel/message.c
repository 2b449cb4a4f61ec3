#define _GNU_SOURCE 1
#include "kernel/message.h"

#include "base/document.h"
#include "base/utf8.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

bool sender_init(Sender *s, Str key)
{
    unsigned char id[16];
    if (getrandom(id, sizeof id, 0) != (ssize_t)sizeof id)
        return false;
    for (size_t i = 0; i < sizeof id; i++)
        snprintf(s->session + 2 * i, 3, "%02x", id[i]);
    const char *name = getenv("LOGNAME");
    snprintf(s->username, sizeof s->username, "%s", name ? name : "");
    atomic_init(&s->sent, 0);
    signer_init(&s->signer, key);
    return true;
}

void message_date(char out[DATE_SIZE])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    size_t n = strftime(out, DATE_SIZE, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out + n, DATE_SIZE - n, ".%06uZ", (unsigned)(now.tv_nsec / 1000) % 1000000u);
}

double message_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

double message_time(const json_t *header)
{
    const char *date = json_string_value(json_object_get(header, "date"));
    struct tm utc = {0};
    const char *rest = date ? strptime(date, "%Y-%m-%dT%H:%M:%S", &utc) : NULL;
    if (!rest)
        return NAN;
    double seconds = (double)timegm(&utc);
    char *zone = (char *)(uintptr_t)rest;
    if (*rest == '.')
        seconds += strtod(rest, &zone);
    int hours = 0, minutes = 0;
    if (*zone == '+' || *zone == '-')
        sscanf(zone + 1, "%2d:%2d", &hours, &minutes);
    return seconds - (*zone == '-' ? -1 : 1) * (hours * 3600.0 + minutes * 60.0);
}

json_t *json_text(const char *bytes, size_t n)
{
    json_t *text = json_stringn(bytes, n);
    if (text)
        return text;
    Buf repaired = {0};
    for (size_t i = 0; i < n;) {
        uint32_t code;
        i += utf8_decode(bytes + i, n - i, &code);
        char encoded[4];
        buf_bytes(&repaired, encoded, utf8_encode(code, encoded));
    }
    text = json_stringn(buf_text(&repaired), repaired.n);
    buf_deinit(&repaired);
    return text;
}

/* ---- reading ---- */

/* Whether the signature came before; remembers it. Its first 16 digits are enough to tell
 * messages apart. */
static bool seen_before(Seen *seen, Str signature)
{
    size_t size = sizeof seen->signatures[0];
    if (signature.len < size)
        return false;
    size_t n = sizeof seen->signatures / size;
    for (size_t i = 0; i < n; i++)
        if (memcmp(seen->signatures[i], signature.ptr, size) == 0)
            return true;
    memcpy(seen->signatures[seen->next], signature.ptr, size);
    seen->next = (seen->next + 1) % n;
    return false;
}

/* The frame stays as it is: its bytes are signed, and a header's are those of the answers' parent. */
static json_t *load(Str frame, size_t flags, json_error_t *error)
{
    json_t *value = json_loadb(frame.ptr, frame.len, JSON_ALLOW_NUL | flags, error);
    Buf mended = {0};
    if (!value)
        buf_bytes(&mended, frame.ptr, frame.len);
    if (mended.n && document_mend(mended.at, mended.n))
        value = json_loadb(mended.at, mended.n, JSON_ALLOW_NUL | flags, error);
    buf_deinit(&mended);
    return value;
}

static json_t *read_object(Str frame)
{
    json_error_t error;
    json_t *value = load(frame, 0, &error);
    /* JSON bounds no number: what is beyond an int64 makes all of this part real. */
    if (!value && json_error_code(&error) == json_error_numeric_overflow)
        value = load(frame, JSON_DECODE_INT_AS_REAL, &error);
    if (json_is_object(value))
        return value;
    json_decref(value);
    return NULL;
}

static json_t *read_part(Message *m, Str part, const char *what)
{
    json_t *object = read_object(part);
    if (object)
        return object;
    m->broken = what;
    return json_object();
}

static const char *read_parts(Message *m, const Str parts[4])
{
    m->broken = NULL;
    m->header = read_object(parts[0]);
    if (!m->header)
        return "the header is not a JSON object";
    json_decref(read_part(m, parts[1], "the parent header is not a JSON object"));
    m->metadata = read_part(m, parts[2], "the metadata is not a JSON object");
    m->content = read_part(m, parts[3], "the content is not a JSON object");
    m->type = json_string_value(json_object_get(m->header, "msg_type"));
    if (!m->type || !json_is_string(json_object_get(m->header, "msg_id")))
        return "the header lacks msg_type or msg_id";
    return NULL;
}

const char *message_read(Message *m, const Sender *sender, Seen *seen)
{
    const Packet *p = &m->packet;
    m->prefix = packet_delimiter(p);
    if (p->overflow)
        return "it has too many frames";
    if (m->prefix == p->n)
        return "it has no delimiter";
    if (p->n - m->prefix < 6)
        return "it has too few frames";
    Str signature = packet_frame(p, m->prefix + 1);
    Str parts[4];
    for (size_t i = 0; i < 4; i++)
        parts[i] = packet_frame(p, m->prefix + 2 + i);
    if (!signer_verify(&sender->signer, parts, 4, signature))
        return "its signature is wrong";
    if (seen && seen_before(seen, signature))
        return "it came before";
    m->header_text = parts[0];
    return read_parts(m, parts);
}

void message_done(Message *m)
{
    json_decref(m->header);
    json_decref(m->metadata);
    json_decref(m->content);
    m->header = m->metadata = m->content = NULL;
    m->type = NULL;
}

void message_deinit(Message *m)
{
    message_done(m);
    packet_deinit(&m->packet);
}

/* ---- writing ---- */

/* As text at once, since each message has one; NULL without memory. */
static char *make_header(Sender *sender, const char *type)
{
    char date[DATE_SIZE];
    Buf header = {0};
    message_date(date);
    buf_printf(&header,
               "{\"msg_id\":\"%s_%llu\",\"session\":\"%s\",\"date\":\"%s\","
               "\"version\":\"" PROTOCOL_VERSION "\",",
               sender->session, (unsigned long long)atomic_fetch_add(&sender->sent, 1),
               sender->session, date);
    buf_json_field(&header, "msg_type", type, strlen(type));
    buf_char(&header, ',');
    buf_json_field(&header, "username", sender->username, strlen(sender->username));
    buf_char(&header, '}');
    if (!header.failed)
        return buf_take(&header);
    buf_deinit(&header);
    return NULL;
}

/* Takes over `value`; the text is the caller's to free. */
static char *write_object(json_t *value)
{
    char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
    json_decref(value);
    return text;
}

void message_write(Packet *out, Sender *sender, const char *type, Str parent, json_t *metadata,
                   json_t *content)
{
    char *made[4] = {make_header(sender, type), NULL, write_object(metadata),
                     write_object(content)};
    Str parts[4];
    for (int i = 0; i < 4; i++)
        parts[i] = str_of(made[i] ? made[i] : "{}");
    if (parent.len > 0)
        parts[1] = parent;
    char signature[SIGNATURE_SIZE + 1];
    signer_sign(&sender->signer, parts, 4, signature);
    packet_add(out, str_of(WIRE_DELIMITER));
    packet_add(out, str_of(signature));
    for (int i = 0; i < 4; i++) {
        packet_add(out, parts[i]);
        free(made[i]);
    }
}
