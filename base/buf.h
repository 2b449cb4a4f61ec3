/* Growable text on the heap; all printing goes into one.
 *
 * The text always ends in a NUL that is not counted. A Buf of zeroes is an empty one. When memory
 * is refused the text stops growing and `failed` says so; nothing crashes, and the refusal is counted (base/memory.h). */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct Arena Arena;

typedef struct Buf {
    char *at;               /* NULL while empty and never grown: use buf_text */
    size_t n, cap;
    bool failed;
} Buf;

void buf_deinit(Buf *b);
void buf_clear(Buf *b);                       /* keeps the storage */
void buf_cut(Buf *b, size_t n); /* keeps the first n bytes of more */
const char *buf_text(const Buf *b);           /* never NULL; lent until the next change */
char *buf_take(Buf *b); /* the caller frees; the buffer is empty afterwards */
bool buf_reserve(Buf *b, size_t more); /* room for `more` bytes and a NUL */
/* The text, now in the arena; the buffer is empty afterwards. And a text that is made there. */
char *buf_keep(Buf *b, Arena *a);
char *buf_vkeep(Arena *a, const char *format, va_list args) __attribute__((format(printf, 2, 0)));

void buf_bytes_slow(Buf *b, const char *p, size_t n); /* what does not fit */
static inline void buf_bytes(Buf *b, const char *p, size_t n)
{
    if (n >= b->cap - b->n || n == 0) {
        buf_bytes_slow(b, p, n);
        return;
    }
    memcpy(b->at + b->n, p, n);
    b->n += n;
    b->at[b->n] = '\0';
}
static inline void buf_char(Buf *b, char c)
{
    buf_bytes(b, &c, 1);
}
static inline void buf_str(Buf *b, const char *s)
{
    buf_bytes(b, s, strlen(s));
}
void buf_repeat(Buf *b, char c, size_t n);
void buf_int(Buf *b, int64_t v);
void buf_uint(Buf *b, uint64_t v);
void buf_printf(Buf *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
void buf_vprintf(Buf *b, const char *format, va_list args) __attribute__((format(printf, 2, 0)));
/* Text with the five characters of HTML escaped; and as the inside of a JSON string. Bad UTF-8
 * becomes U+FFFD. */
void buf_html(Buf *b, const char *p, size_t n);
void buf_json(Buf *b, const char *p, size_t n);
/* A key and a text, `"key": "text"`. */
void buf_json_field(Buf *b, const char *key, const char *p, size_t n);

#endif
