#include "base/utf8.h"

#include <stdbool.h>
#include <string.h>

size_t utf8_decode(const char *p, size_t n, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)p;
    *code = s[0];
    if (s[0] < 0x80)
        return 1;
    size_t len = s[0] >= 0xf0 ? 4 : s[0] >= 0xe0 ? 3 : 2;
    *code = 0xfffd;
    if (s[0] < 0xc2 || s[0] > 0xf4 || len > n)
        return 1;
    uint32_t c = s[0] & (0xffu >> (len + 1));
    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 1;
        c = c << 6 | (s[i] & 0x3f);
    }
    /* Longer than need be, beyond Unicode, or half of a UTF-16 pair. */
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 1;
    *code = c;
    return len;
}

size_t utf8_encode(uint32_t code, char out[4])
{
    if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
        code = 0xfffd;
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    size_t len = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = len - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3f));
        code >>= 6;
    }
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
    out[0] = (char)(lead[len] | code);
    return len;
}

typedef struct WidthRange {
    uint32_t first, last;
    int width;
} WidthRange;

static const WidthRange widths[] = {
#define WIDTH(first, last, width) {first, last, width},
#include "base/utf8_widths.def"
#undef WIDTH
};

int utf8_width(uint32_t code)
{
    if (code < 0x300)
        return 1;
    size_t low = 0, high = sizeof widths / sizeof widths[0];
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (code > widths[mid].last)
            low = mid + 1;
        else if (code < widths[mid].first)
            high = mid;
        else
            return widths[mid].width;
    }
    return 1;
}

size_t utf8_text_width(const char *p, size_t n)
{
    size_t width = 0;
    for (size_t i = 0; i < n;) {
        uint32_t code;
        i += utf8_decode(p + i, n - i, &code);
        width += (size_t)utf8_width(code);
    }
    return width;
}

/* How many bytes from the start are ASCII, counted by words: most text is nothing else. */
static size_t ascii_run(const char *p, size_t n)
{
    size_t i = 0;
    uint64_t word;
    for (; i + sizeof word <= n; i += sizeof word) {
        memcpy(&word, p + i, sizeof word);
        if (word & 0x8080808080808080u)
            break;
    }
    while (i < n && (unsigned char)p[i] < 0x80)
        i++;
    return i;
}

size_t utf8_count(const char *p, size_t n)
{
    size_t count = 0;
    for (size_t i = 0; i < n; count++) {
        size_t run = ascii_run(p + i, n - i);
        i += run;
        count += run;
        if (i == n)
            return count;
        uint32_t code;
        i += utf8_decode(p + i, n - i, &code);
    }
    return count;
}

size_t utf8_offset(const char *p, size_t n, size_t k)
{
    size_t i = 0;
    for (; k > 0 && i < n; k--) {
        uint32_t code;
        i += utf8_decode(p + i, n - i, &code);
    }
    return i;
}

/* ---- characters as a reader sees them ------------------------------------------------------------------------------------- */

enum { JOINER = 0x200d };

static bool is_flag_letter(uint32_t code)
{
    return code >= 0x1f1e6 && code <= 0x1f1ff;
}

static bool is_skin_colour(uint32_t code)
{
    return code >= 0x1f3fb && code <= 0x1f3ff;
}

size_t utf8_cluster(const char *p, size_t n)
{
    uint32_t before, code;
    size_t at = utf8_decode(p, n, &before);
    bool flag = is_flag_letter(before);
    while (at < n) {
        size_t k = utf8_decode(p + at, n - at, &code);
        bool joined = before == JOINER && code >= 128;
        bool mark = code >= 128 && (utf8_width(code) == 0 || is_skin_colour(code));
        if (!joined && !mark && !(flag && is_flag_letter(code)))
            break;
        flag = false;
        before = code;
        at += k;
    }
    return at;
}
