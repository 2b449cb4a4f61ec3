/* The texts that an editor has open, as it changes them, and places in them as it counts. */
#include "lsp/internal.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void open_free(Open *o)
{
    relay_document_free(o->document);
    buf_deinit(&o->text);
    memory_free(o->lines);
    free(o->uri);
    free(o->path);
    memory_free(o);
}

/* ---- URIs ----------------------------------------------------------------------------------------------------------- */

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 32;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

char *path_of_uri(const char *uri)
{
    static const char scheme[] = "file://";
    size_t n = sizeof scheme - 1;
    if (strncmp(uri, scheme, n) != 0)
        return memory_text(uri, strlen(uri));
    /* The host, which is this one, ends at the path. */
    const char *path = strchr(uri + n, '/');
    Buf b = {0};
    for (const char *p = path ? path : uri + n; *p; p++) {
        int high = *p == '%' ? hex(p[1]) : -1, low = high >= 0 ? hex(p[2]) : -1;
        bool code = low >= 0 && (high || low);
        buf_char(&b, code ? (char)(high * 16 + low) : *p);
        p += code ? 2 : 0;
    }
    return buf_take(&b);
}

char *uri_of_path(const char *path)
{
    Buf b = {0};
    char *full = path[0] == '/' ? NULL : realpath(path, NULL);
    buf_str(&b, "file://");
    for (const char *p = full ? full : path; *p; p++) {
        bool plain = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') ||
                     (*p >= '0' && *p <= '9') || strchr("/-_.~", *p);
        if (plain)
            buf_char(&b, *p);
        else
            buf_printf(&b, "%%%02X", (unsigned char)*p);
    }
    free(full);
    return buf_take(&b);
}

/* ---- places --------------------------------------------------------------------------------------------------------- */

/* The protocol counts lines by these ends; to Relay a return alone is none. */
size_t line_end_at(const Open *o, size_t at)
{
    const char *text = buf_text(&o->text);
    if (at >= o->text.n || (text[at] != '\n' && text[at] != '\r'))
        return 0;
    return text[at] == '\r' && at + 1 < o->text.n && text[at + 1] == '\n' ? 2 : 1;
}

static void find_lines(Open *o)
{
    size_t n = 1;
    if (o->lines)
        return;
    for (size_t i = 0; i < o->text.n; i++)
        n += line_end_at(o, i) == 1;
    o->lines = memory_must(n * sizeof *o->lines);
    o->lines[0] = 0;
    o->n_lines = 1;
    for (size_t i = 0; i < o->text.n; i++)
        if (line_end_at(o, i) == 1)
            o->lines[o->n_lines++] = i + 1;
}

static size_t line_end(const Open *o, size_t line)
{
    if (line + 1 >= o->n_lines)
        return o->text.n;
    size_t end = o->lines[line + 1] - 1;
    return end > o->lines[line] && line_end_at(o, end - 1) == 2 ? end - 1 : end;
}

/* Units that a code point of so many bytes takes. */
static size_t units_of(size_t bytes, bool utf8)
{
    return utf8 ? bytes : bytes == 4 ? 2 : 1;
}

size_t offset_of(Open *o, const json_t *position, bool utf8)
{
    json_int_t line = json_integer_value(json_object_get(position, "line"));
    json_int_t column = json_integer_value(json_object_get(position, "character"));
    find_lines(o);
    if (line < 0)
        return 0;
    if ((size_t)line >= o->n_lines)
        return o->text.n;
    size_t at = o->lines[line], end = line_end(o, (size_t)line), units = 0;
    while (at < end && column > 0) {
        uint32_t code;
        size_t n = utf8_decode(buf_text(&o->text) + at, end - at, &code);
        units += units_of(n, utf8);
        if (units > (size_t)column)
            break;
        at += n;
        if (units == (size_t)column)
            break;
    }
    return at;
}

json_t *position_of(Open *o, size_t offset, bool utf8)
{
    find_lines(o);
    offset = offset < o->text.n ? offset : o->text.n;
    size_t low = 0, high = o->n_lines;
    while (high - low > 1) {
        size_t mid = (low + high) / 2;
        if (o->lines[mid] <= offset)
            low = mid;
        else
            high = mid;
    }
    size_t units = 0;
    for (size_t at = o->lines[low]; at < offset;) {
        uint32_t code;
        size_t n = utf8_decode(buf_text(&o->text) + at, offset - at, &code);
        units += units_of(n, utf8);
        at += n;
    }
    return json_pack("{s:I, s:I}", "line", (json_int_t)low, "character", (json_int_t)units);
}

json_t *range_json(Open *o, RelayRange range, bool utf8)
{
    return json_pack("{s:o, s:o}", "start", position_of(o, range.from, utf8), "end",
                     position_of(o, range.to, utf8));
}

/* ---- changes -------------------------------------------------------------------------------------------------------- */

static void changed(Open *o)
{
    memory_free(o->lines);
    o->lines = NULL;
    o->n_lines = 0;
    o->stale = o->unseen = true;
}

void open_lose(Open *o)
{
    o->lost = o->unseen = true;
}

void open_set(Open *o, const char *text, size_t len)
{
    buf_clear(&o->text);
    buf_bytes(&o->text, text, len);
    changed(o);
    o->lost = o->text.failed;
}

void open_change(Open *o, const json_t *change, bool utf8)
{
    const json_t *text = json_object_get(change, "text"), *range = json_object_get(change, "range");
    const char *put = json_string_value(text);
    size_t n = json_string_length(text);
    if (put && !json_is_object(range)) {
        open_set(o, put, n);
        return;
    }
    size_t from = offset_of(o, json_object_get(range, "start"), utf8);
    size_t to = offset_of(o, json_object_get(range, "end"), utf8);
    if (!put || to < from)
        open_lose(o);
    if (o->lost)
        return;
    Buf now = {0};
    const char *old = buf_text(&o->text);
    buf_reserve(&now, o->text.n + n);
    buf_bytes(&now, old, from);
    buf_bytes(&now, put, n);
    buf_bytes(&now, old + to, o->text.n - to);
    buf_deinit(&o->text);
    o->text = now;
    changed(o);
    o->lost = now.failed;
}
