#include "base/base64.h"

#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_write(Buf *out, const unsigned char *p, size_t n)
{
    for (; n >= 3; n -= 3, p += 3) {
        char four[4] = {digits[p[0] >> 2], digits[(p[0] & 3) << 4 | p[1] >> 4],
                        digits[(p[1] & 15) << 2 | p[2] >> 6], digits[p[2] & 63]};
        buf_bytes(out, four, 4);
    }
    if (n == 0)
        return;
    unsigned second = n == 2 ? p[1] : 0;
    buf_char(out, digits[p[0] >> 2]);
    buf_char(out, digits[(p[0] & 3) << 4 | second >> 4]);
    buf_char(out, n == 2 ? digits[(second & 15) << 2] : '=');
    buf_char(out, '=');
}

enum { NO_DIGIT = 64 };

static void digit_values(unsigned char values[256])
{
    memset(values, NO_DIGIT, 256);
    for (unsigned char i = 0; i < 64; i++)
        values[(unsigned char)digits[i]] = i;
}

bool base64_read(Buf *out, const char *s, size_t n)
{
    unsigned char values[256];
    const unsigned char *p = (const unsigned char *)s, *end = memchr(s, '=', n);
    end = end ? end : p + n;
    if (!buf_reserve(out, n / 4 * 3 + 3))
        return false;
    digit_values(values);
    unsigned char *to = (unsigned char *)out->at + out->n, all = 0;
    for (; end - p >= 4; p += 4, to += 3) {
        unsigned char a = values[p[0]], b = values[p[1]], c = values[p[2]], d = values[p[3]];
        all |= a | b | c | d;
        to[0] = (unsigned char)(a << 2 | b >> 4);
        to[1] = (unsigned char)(b << 4 | c >> 2);
        to[2] = (unsigned char)(c << 6 | d);
    }
    unsigned char last[3] = {0};
    for (int i = 0; p + i < end; i++)
        all |= last[i] = values[p[i]];
    if (end - p > 1)
        *to++ = (unsigned char)(last[0] << 2 | last[1] >> 4);
    if (end - p > 2)
        *to++ = (unsigned char)(last[1] << 4 | last[2] >> 2);
    if (all >= NO_DIGIT || end - p == 1)
        return false;
    out->n = (size_t)(to - (unsigned char *)out->at);
    *to = '\0';
    return true;
}
