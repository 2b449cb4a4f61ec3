#include "base/buf.h"

#include "base/arena.h"
#include "base/memory.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void buf_deinit(Buf *b)
{
    free(b->at);
    *b = (Buf){0};
}

void buf_clear(Buf *b)
{
    b->n = 0;
    b->failed = false;
    if (b->at)
        b->at[0] = '\0';
}

void buf_cut(Buf *b, size_t n)
{
    if (n >= b->n)
        return;
    b->n = n;
    b->at[n] = '\0';
}

const char *buf_text(const Buf *b)
{
    return b->at ? b->at : "";
}

char *buf_take(Buf *b)
{
    char *text = b->at ? b->at : memory_zeroed(1, 1);
    *b = (Buf){0};
    return text;
}

char *buf_keep(Buf *b, Arena *a)
{
    char *text = arena_copy_text(a, buf_text(b), b->n);
    buf_deinit(b);
    return text;
}

char *buf_vkeep(Arena *a, const char *format, va_list args)
{
    Buf b = {0};
    buf_vprintf(&b, format, args);
    return buf_keep(&b, a);
}

/* A text with a gap is of no use: what comes later has no room either. */
static bool fail(Buf *b)
{
    memory_refused();
    b->failed = true;
    b->cap = b->n;
    return false;
}

bool buf_reserve(Buf *b, size_t more)
{
    if (b->failed)
        return false;
    if (more < b->cap - b->n)
        return true;
    size_t cap = b->cap < 32 ? 64 : b->cap * 2;
    if (more >= SIZE_MAX / 4 - b->n)
        return fail(b);
    if (cap < b->n + more + 1)
        cap = b->n + more + 1;
    char *at = memory_resize(b->at, cap);
    if (!at)
        return fail(b);
    b->at = at;
    b->cap = cap;
    b->at[b->n] = '\0';
    return true;
}

void buf_bytes_slow(Buf *b, const char *p, size_t n)
{
    if (n > 0 && buf_reserve(b, n))
        buf_bytes(b, p, n);
}

void buf_repeat(Buf *b, char c, size_t n)
{
    if (n == 0 || !buf_reserve(b, n))
        return;
    memset(b->at + b->n, c, n);
    b->n += n;
    b->at[b->n] = '\0';
}

void buf_uint(Buf *b, uint64_t v)
{
    char digits[20];
    size_t i = sizeof digits;
    do
        digits[--i] = (char)('0' + v % 10);
    while (v /= 10);
    buf_bytes(b, digits + i, sizeof digits - i);
}

void buf_int(Buf *b, int64_t v)
{
    if (v < 0)
        buf_char(b, '-');
    buf_uint(b, v < 0 ? 0 - (uint64_t)v : (uint64_t)v);
}

void buf_printf(Buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    buf_vprintf(b, format, args);
    va_end(args);
}

void buf_vprintf(Buf *b, const char *format, va_list args)
{
    /* Most texts are short: the first attempt prints into what room there is. */
    if (!buf_reserve(b, 31))
        return;
    va_list again;
    va_copy(again, args);
    size_t room = b->cap - b->n;
    int n = vsnprintf(b->at + b->n, room, format, args);
    if (n >= 0 && (size_t)n >= room) {
        if (buf_reserve(b, (size_t)n))
            vsnprintf(b->at + b->n, (size_t)n + 1, format, again);
        else
            n = -1;
    }
    va_end(again);
    if (n >= 0)
        b->n += (size_t)n;
    else
        b->at[b->n] = '\0';
    if (n < 0)
        memory_refused();
    b->failed |= n < 0;
}

/* What stands for itself wherever texts are escaped. */
static bool is_plain(char c)
{
    return (c >= '(' && c <= ';') || (c >= '?' && c <= '[') || (c >= ']' && c <= '~') ||
           (c >= ' ' && c <= '%' && c != '"');
}

/* Bytes [p, p + n) with some replaced: `special` writes the replacement of a code point, if any. */
static void escaped(Buf *b, const char *p, size_t n, bool (*special)(Buf *b, uint32_t code))
{
    for (size_t i = 0; i < n;) {
        size_t plain = 0;
        while (i + plain < n && is_plain(p[i + plain]))
            plain++;
        buf_bytes(b, p + i, plain);
        i += plain;
        if (i == n)
            break;
        uint32_t code;
        size_t k = utf8_decode(p + i, n - i, &code);
        bool bad = code == 0xfffd && k == 1;
        if (bad)
            buf_str(b, "\xef\xbf\xbd");
        else if (!special(b, code))
            buf_bytes(b, p + i, k);
        i += k;
    }
}

static bool html_special(Buf *b, uint32_t code)
{
    switch (code) {
    case '&': buf_str(b, "&amp;"); return true;
    case '<': buf_str(b, "&lt;"); return true;
    case '>': buf_str(b, "&gt;"); return true;
    case '"': buf_str(b, "&quot;"); return true;
    case '\'': buf_str(b, "&#39;"); return true;
    case 0: buf_str(b, "\xef\xbf\xbd"); return true;
    default: return false;
    }
}

void buf_html(Buf *b, const char *p, size_t n)
{
    escaped(b, p, n, html_special);
}

static bool json_special(Buf *b, uint32_t code)
{
    switch (code) {
    case '"': buf_str(b, "\\\""); return true;
    case '\\': buf_str(b, "\\\\"); return true;
    case '\n': buf_str(b, "\\n"); return true;
    case '\r': buf_str(b, "\\r"); return true;
    case '\t': buf_str(b, "\\t"); return true;
    case '\b': buf_str(b, "\\b"); return true;
    case '\f': buf_str(b, "\\f"); return true;
    default: break;
    }
    if (code >= 0x20 && code != 0x7f)
        return false;
    buf_printf(b, "\\u%04" PRIx32, code);
    return true;
}

void buf_json(Buf *b, const char *p, size_t n)
{
    escaped(b, p, n, json_special);
}

void buf_json_field(Buf *b, const char *key, const char *p, size_t n)
{
    buf_printf(b, "\"%s\": \"", key);
    buf_json(b, p, n);
    buf_char(b, '"');
}
