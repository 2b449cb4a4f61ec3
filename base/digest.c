#include "base/digest.h"

#include <string.h>

/* Odd numbers with as many ones as zeros, in no pattern. */
static const uint64_t keys[8] = {
    0x8d5a3c96e1724bb5u, 0x4f9be86c35d1a2c7u, 0xb16e79c8d2354a5du, 0x27d3a94ee58b1c6bu,
    0xe3946b1d5c78a2f1u, 0x5ac7d8329e16b4d9u, 0x9c2f51e7b46ad833u, 0x364be1da978f52c5u,
};

/* Both halves of the product: each bit of the result depends on all bits of both. */
static uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 Wide;
    Wide p = (Wide)a * b;
    return (uint64_t)p ^ (uint64_t)(p >> 64);
}

/* What was there is added again, so that a product with nothing loses nothing. */
static void add_block(Digest *d, const unsigned char *p)
{
    uint64_t w[8];
    memcpy(w, p, sizeof w);
    for (int i = 0; i < 4; i++)
        d->lanes[i] = fold(w[2 * i] ^ d->lanes[i], w[2 * i + 1] ^ keys[i]) + w[2 * i + 1];
}

void digest_begin(Digest *d)
{
    *d = (Digest){.lanes = {keys[4], keys[5], keys[6], keys[7]}};
}

void digest_add(Digest *d, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    size_t have = d->total % DIGEST_BLOCK;
    d->total += n;
    if (have) {
        size_t more = n < DIGEST_BLOCK - have ? n : DIGEST_BLOCK - have;
        memcpy(d->waiting + have, p, more);
        if (have + more < DIGEST_BLOCK)
            return;
        add_block(d, d->waiting);
        p += more;
        n -= more;
    }
    for (; n >= DIGEST_BLOCK; n -= DIGEST_BLOCK, p += DIGEST_BLOCK)
        add_block(d, p);
    if (n)
        memcpy(d->waiting, p, n);
}

void digest_end(Digest *d, uint64_t out[2])
{
    size_t have = d->total % DIGEST_BLOCK;
    memset(d->waiting + have, 0, DIGEST_BLOCK - have);
    add_block(d, d->waiting);
    for (int i = 0; i < 2; i++) {
        uint64_t h = fold(d->lanes[0] ^ keys[i], d->lanes[1] ^ d->total ^ keys[i + 2]);
        h = fold(h ^ d->lanes[2] ^ keys[i + 4], d->lanes[3] ^ keys[i + 5]);
        out[i] = fold(h ^ keys[i + 6], d->total ^ keys[i + 1]) ^ h;
    }
}
