#define _GNU_SOURCE 1
/* Messages: a header that says how long they are, and JSON. */
#include "lsp/internal.h"

#include "base/document.h"
#include "base/file.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

enum { HEADER_MOST = 1 << 14, MESSAGE_MOST = 1 << 28, CHUNK = 1 << 16 };

/* The value of the header's length; false when it has none. */
static bool length_of(const char *header, size_t n, size_t *out)
{
    static const char name[] = "Content-Length:";
    const char *end = header + n;
    for (const char *p = header; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        size_t len = (size_t)((line ? line : end) - p);
        if (len >= sizeof name && !strncasecmp(p, name, sizeof name - 1)) {
            size_t value = 0;
            const char *d = p + sizeof name - 1;
            while (*d == ' ' || *d == '\t')
                d++;
            bool any = *d >= '0' && *d <= '9';
            for (; *d >= '0' && *d <= '9' && value <= MESSAGE_MOST; d++)
                value = 10 * value + (size_t)(*d - '0');
            *out = value;
            return any;
        }
        p += len + 1;
    }
    return false;
}

/* Behind the empty line; 0: it has not come yet. */
static size_t header_end(const char *p, size_t n)
{
    for (size_t i = 0; i + 1 < n; i++) {
        if (p[i] == '\n' && p[i + 1] == '\n')
            return i + 2;
        if (p[i] == '\n' && i + 2 < n && p[i + 1] == '\r' && p[i + 2] == '\n')
            return i + 3;
    }
    return 0;
}

static void drop(Wire *w, size_t n)
{
    w->at += n;
    if (w->at == w->waiting.n) {
        buf_clear(&w->waiting);
        w->at = 0;
    }
}

static void skip(Wire *w)
{
    size_t there = w->waiting.n - w->at, n = w->skip < there ? w->skip : there;
    w->skip -= n;
    drop(w, n);
}

static json_t *load(char *p, size_t n, size_t flags, json_error_t *error)
{
    flags |= JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL;
    json_t *message = json_loadb(p, n, flags, error);
    return message || !document_mend(p, n) ? message : json_loadb(p, n, flags, error);
}

/* JSON bounds no number: what is beyond an int64 makes all numbers of the message real. The one that its answer repeats is none of them. */
static json_t *read_message(char *p, size_t n)
{
    json_error_t error;
    json_t *message = load(p, n, 0, &error);
    if (message || json_error_code(&error) != json_error_numeric_overflow)
        return message;
    message = load(p, n, JSON_DECODE_INT_AS_REAL, &error);
    double id = json_real_value(json_object_get(message, "id"));
    if (id == rint(id) && fabs(id) <= 0x1p53 && json_is_real(json_object_get(message, "id")))
        json_object_set_new(message, "id", json_integer((json_int_t)id));
    return message;
}

/* Whether what cannot be read may have changed a text. */
static WireState wrong(const char *p, size_t n)
{
    static const char change[] = "didChange\"";
    return memmem(p, n, change, sizeof change - 1) ? WIRE_LOST : WIRE_WRONG;
}

WireState wire_next(Wire *w, json_t **out)
{
    *out = NULL;
    skip(w);
    size_t there = w->waiting.n - w->at, length = 0;
    char *p = w->waiting.n ? w->waiting.at + w->at : NULL;
    size_t header = header_end(p, there < HEADER_MOST ? there : HEADER_MOST);
    if (w->skip || (!header && there < HEADER_MOST))
        return WIRE_WAIT;
    if (!header || !length_of(p, header, &length)) {
        /* Nobody knows where the next one begins: behind what there is, or this header. */
        WireState state = wrong(p, there);
        drop(w, header ? header : there);
        return state;
    }
    if (length > MESSAGE_MOST) {
        w->skip = length;
        drop(w, header);
        skip(w);
        return WIRE_LOST;
    }
    if (there - header < length)
        return WIRE_WAIT;
    *out = read_message(p + header, length);
    WireState state = *out ? WIRE_MESSAGE : wrong(p + header, length);
    drop(w, header + length);
    return state;
}

void wire_read(Wire *w)
{
    if (w->at > w->waiting.n / 2) {
        memmove(w->waiting.at, w->waiting.at + w->at, w->waiting.n - w->at);
        buf_cut(&w->waiting, w->waiting.n - w->at);
        w->at = 0;
    }
    ssize_t n = -1;
    if (buf_reserve(&w->waiting, CHUNK)) {
        do
            n = read(w->in, w->waiting.at + w->waiting.n, CHUNK);
        while (n < 0 && errno == EINTR);
    }
    if (n > 0)
        w->waiting.n += (size_t)n;
    else
        w->ended = true;
    w->unread = n < 0 ? errno : 0;
}

void wire_send(Wire *w, json_t *message)
{
    char *text = message ? json_dumps(message, JSON_COMPACT) : NULL;
    json_decref(message);
    if (!text) {
        w->failed = ENOMEM;
        return;
    }
    Buf out = {0};
    buf_printf(&out, "Content-Length: %zu\r\n\r\n", strlen(text));
    buf_str(&out, text);
    free(text);
    if (out.failed)
        w->failed = ENOMEM;
    else if (!w->failed)
        w->failed = fd_write(w->out, buf_text(&out), out.n);
    buf_deinit(&out);
}
