/* 128 bits that stand for any number of bytes: for telling contents apart and for noticing damage, not against somebody who wants two
 * texts of one digest. As fast as memory.
 *
 *     Digest d;
 *     digest_begin(&d);
 *     digest_add(&d, text, n);
 *     uint64_t out[2];
 *     digest_end(&d, out); */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DIGEST_BLOCK 64

typedef struct Digest {
    uint64_t lanes[4];
    uint64_t total; /* bytes so far */
    unsigned char waiting[DIGEST_BLOCK]; /* those that fill no block yet */
} Digest;

void digest_begin(Digest *d);
void digest_add(Digest *d, const void *bytes, size_t n);
/* The same bytes give the same digest, however they were cut. */
void digest_end(Digest *d, uint64_t out[2]);

static inline void digest_word(Digest *d, uint64_t v)
{
    digest_add(d, &v, sizeof v);
}

#endif
