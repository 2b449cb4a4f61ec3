/* UTF-8: decoding, columns, display width. Bad bytes count as one U+FFFD each; nothing fails. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the code point at `p` (n > 0 bytes left) and returns how many bytes it takes (at least
 * 1). */
size_t utf8_decode(const char *p, size_t n, uint32_t *code);
/* Writes a code point as UTF-8, at most 4 bytes; returns how many. */
size_t utf8_encode(uint32_t code, char out[4]);
/* Columns on a terminal: 0 for combining marks, 2 for wide ones, else 1. */
int utf8_width(uint32_t code);
size_t utf8_text_width(const char *p, size_t n);
/* Bytes of the character that a reader sees at `p` (n > 0 bytes left): a code point with the marks, joiners and colours that belong to
 * it, or the two letters of a flag. */
size_t utf8_cluster(const char *p, size_t n);
/* Code points in n bytes; the byte offset of code point `k` (n when there are fewer). */
size_t utf8_count(const char *p, size_t n);
size_t utf8_offset(const char *p, size_t n, size_t k);

#endif
