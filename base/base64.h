/* Bytes as text, by the alphabet of RFC 4648: what JSON and terminals carry binary data in. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/buf.h"

void base64_write(Buf *out, const unsigned char *p, size_t n);
/* False when a character is no digit, or digits are missing at the end. */
bool base64_read(Buf *out, const char *s, size_t n);

#endif
