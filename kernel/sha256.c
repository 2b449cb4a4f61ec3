#include "kernel/sha256.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#ifdef __x86_64__
#include <cpuid.h>
#include <immintrin.h>
#endif

/* The first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t round_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int by)
{
    return x >> by | x << (32 - by);
}

static uint32_t read_be32(const unsigned char *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static void write_be32(unsigned char *p, uint32_t v)
{
    p[0] = (unsigned char)(v >> 24);
    p[1] = (unsigned char)(v >> 16);
    p[2] = (unsigned char)(v >> 8);
    p[3] = (unsigned char)v;
}

/* The message schedule: the block's 16 words, stretched to 64. */
static void schedule(uint32_t w[64], const unsigned char block[SHA256_BLOCK])
{
    for (int i = 0; i < 16; i++)
        w[i] = read_be32(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t a = w[i - 15], b = w[i - 2];
        uint32_t s0 = rotate(a, 7) ^ rotate(a, 18) ^ a >> 3;
        uint32_t s1 = rotate(b, 17) ^ rotate(b, 19) ^ b >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
}

static void compress_anywhere(uint32_t state[8], const unsigned char block[SHA256_BLOCK])
{
    uint32_t w[64];
    schedule(w, block);
    uint32_t v[8];
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choose = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choose + round_constants[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof v[0]);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

#ifdef __x86_64__
enum { CPUID_SSSE3 = 1 << 9, CPUID_SSE41 = 1 << 19, CPUID_SHA = 1 << 29 };

static bool has_instructions(void)
{
    unsigned a, b, c, d, extended;
    return __get_cpuid_count(7, 0, &a, &extended, &c, &d) && (extended & CPUID_SHA) &&
           __get_cpuid(1, &a, &b, &c, &d) && (c & CPUID_SSSE3) && (c & CPUID_SSE41);
}

/* By the instructions that processors have for it: two rounds each, on the words a, b, e, f and c, d, g, h. */
__attribute__((target("sha,ssse3,sse4.1"))) static void
compress_by_instructions(uint32_t state[8], const unsigned char block[SHA256_BLOCK])
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    const __m128i dcba = _mm_loadu_si128((const __m128i *)state);
    const __m128i hgfe = _mm_loadu_si128((const __m128i *)(state + 4));
    const __m128i cdab = _mm_shuffle_epi32(dcba, 0xB1), efgh = _mm_shuffle_epi32(hgfe, 0x1B);
    __m128i abef = _mm_alignr_epi8(cdab, efgh, 8), cdgh = _mm_blend_epi16(efgh, cdab, 0xF0);
    const __m128i abef_before = abef, cdgh_before = cdgh;
    __m128i w[4]; /* the sixteen words of the schedule that are next */
    for (int i = 0; i < 4; i++)
        w[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)block + i), big_endian);
    for (int i = 0; i < 16; i++) {
        __m128i sum =
            _mm_add_epi32(w[0], _mm_loadu_si128((const __m128i *)(round_constants + 4 * i)));
        cdgh = _mm_sha256rnds2_epu32(cdgh, abef, sum);
        abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(sum, 0x0E));
        __m128i next =
            _mm_add_epi32(_mm_sha256msg1_epu32(w[0], w[1]), _mm_alignr_epi8(w[3], w[2], 4));
        w[0] = w[1];
        w[1] = w[2];
        w[2] = w[3];
        w[3] = _mm_sha256msg2_epu32(next, w[2]);
    }
    abef = _mm_add_epi32(abef, abef_before);
    cdgh = _mm_add_epi32(cdgh, cdgh_before);
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1B), dchg = _mm_shuffle_epi32(cdgh, 0xB1);
    _mm_storeu_si128((__m128i *)state, _mm_blend_epi16(feba, dchg, 0xF0));
    _mm_storeu_si128((__m128i *)(state + 4), _mm_alignr_epi8(dchg, feba, 8));
}
#endif

/* Whether the processor's instructions are used; 0: that is not known yet. */
static atomic_int instructions;

void sha256_without_instructions(void)
{
    atomic_store(&instructions, -1);
}

/* Without instructions for them the signatures are a tenth of what a cell takes. */
static void compress(uint32_t state[8], const unsigned char block[SHA256_BLOCK])
{
#ifdef __x86_64__
    int known = atomic_load_explicit(&instructions, memory_order_relaxed);
    if (known == 0)
        atomic_store(&instructions, known = has_instructions() ? 1 : -1);
    if (known > 0) {
        compress_by_instructions(state, block);
        return;
    }
#endif
    compress_anywhere(state, block);
}

void sha256_init(Sha256 *h)
{
    static const uint32_t start[8] = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    memcpy(h->state, start, sizeof start);
    h->total = 0;
    memset(h->block, 0, sizeof h->block);
}

void sha256_add(Sha256 *h, const void *bytes, size_t n)
{
    const unsigned char *p = bytes;
    while (n > 0) {
        size_t used = h->total % SHA256_BLOCK;
        if (used == 0 && n >= SHA256_BLOCK) {
            compress(h->state, p);
            h->total += SHA256_BLOCK;
            p += SHA256_BLOCK;
            n -= SHA256_BLOCK;
            continue;
        }
        size_t part = SHA256_BLOCK - used < n ? SHA256_BLOCK - used : n;
        memcpy(h->block + used, p, part);
        h->total += part;
        p += part;
        n -= part;
        if (used + part == SHA256_BLOCK)
            compress(h->state, h->block);
    }
}

void sha256_finish(Sha256 *h, unsigned char digest[SHA256_SIZE])
{
    static const unsigned char padding[SHA256_BLOCK] = {0x80};
    uint64_t bits = h->total * 8;
    size_t used = h->total % SHA256_BLOCK;
    sha256_add(h, padding, (used < 56 ? 56 : 56 + SHA256_BLOCK) - used);
    unsigned char length[8];
    write_be32(length, (uint32_t)(bits >> 32));
    write_be32(length + 4, (uint32_t)bits);
    sha256_add(h, length, sizeof length);
    for (int i = 0; i < 8; i++)
        write_be32(digest + 4 * i, h->state[i]);
}

static void hmac_pad(Sha256 *h, const unsigned char key[SHA256_BLOCK], unsigned char with)
{
    unsigned char block[SHA256_BLOCK];
    for (int i = 0; i < SHA256_BLOCK; i++)
        block[i] = key[i] ^ with;
    sha256_init(h);
    sha256_add(h, block, sizeof block);
}

void hmac_key_init(HmacKey *key, const void *bytes, size_t n)
{
    unsigned char block[SHA256_BLOCK] = {0};
    if (n > SHA256_BLOCK) {
        Sha256 h;
        sha256_init(&h);
        sha256_add(&h, bytes, n);
        sha256_finish(&h, block);
    } else if (n > 0) {
        memcpy(block, bytes, n);
    }
    hmac_pad(&key->inner, block, 0x36);
    hmac_pad(&key->outer, block, 0x5c);
}

Sha256 hmac_start(const HmacKey *key)
{
    return key->inner;
}

void hmac_finish(const HmacKey *key, Sha256 *h, unsigned char digest[SHA256_SIZE])
{
    unsigned char inner[SHA256_SIZE];
    sha256_finish(h, inner);
    Sha256 outer = key->outer;
    sha256_add(&outer, inner, sizeof inner);
    sha256_finish(&outer, digest);
}
