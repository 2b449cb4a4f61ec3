/* SHA-256 and HMAC-SHA256 (FIPS 180-4, RFC 2104), for the signatures of messages.
 *
 *     HmacKey key;
 *     hmac_key_init(&key, text, strlen(text));
 *     Sha256 h = hmac_start(&key);
 *     sha256_add(&h, bytes, n);
 *     hmac_finish(&key, &h, digest);
 *
 * Nothing is allocated; every struct is a plain value that may be copied. */
#ifndef KERNEL_SHA256_H
#define KERNEL_SHA256_H

#include <stddef.h>
#include <stdint.h>

enum { SHA256_SIZE = 32, SHA256_BLOCK = 64 };

typedef struct Sha256 {
    uint32_t state[8];
    uint64_t total;                     /* bytes so far */
    unsigned char block[SHA256_BLOCK];  /* the last total % SHA256_BLOCK of them */
} Sha256;

/* From now on the processor's own instructions for this are left alone: tests see the other way, too. */
void sha256_without_instructions(void);

void sha256_init(Sha256 *h);
void sha256_add(Sha256 *h, const void *bytes, size_t n);
void sha256_finish(Sha256 *h, unsigned char digest[SHA256_SIZE]);

/* A key, worked into the two hashes that every message starts from. */
typedef struct HmacKey {
    Sha256 inner, outer;
} HmacKey;

void hmac_key_init(HmacKey *key, const void *bytes, size_t n);
/* The hash that receives the message with sha256_add. */
Sha256 hmac_start(const HmacKey *key);
void hmac_finish(const HmacKey *key, Sha256 *h, unsigned char digest[SHA256_SIZE]);

#endif
