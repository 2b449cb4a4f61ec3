/* SHA-256 and HMAC against published vectors, in one piece and in all sizes of pieces, with the processor's instructions and without. */
#include "kernel/sha256.h"

#include <stdio.h>
#include <string.h>

static int failures;

static void check_hex(const char *what, const unsigned char digest[SHA256_SIZE], const char *want)
{
    char hex[2 * SHA256_SIZE + 1];
    for (int i = 0; i < SHA256_SIZE; i++)
        snprintf(hex + 2 * i, 3, "%02x", digest[i]);
    if (strcmp(hex, want) == 0)
        return;
    printf("%s: %s, not %s\n", what, hex, want);
    failures++;
}

static void check_hash(const char *text, size_t n, const char *want)
{
    for (size_t piece = 1; piece <= n + 1; piece += piece < 130 ? 1 : n) {
        Sha256 h;
        unsigned char digest[SHA256_SIZE];
        sha256_init(&h);
        for (size_t at = 0; at < n; at += piece)
            sha256_add(&h, text + at, n - at < piece ? n - at : piece);
        sha256_finish(&h, digest);
        check_hex("sha256", digest, want);
    }
}

static void check_hmac(const char *what, const void *key, size_t n, const char *text,
                       const char *want)
{
    HmacKey k;
    hmac_key_init(&k, key, n);
    /* A key serves many messages. */
    for (int i = 0; i < 2; i++) {
        Sha256 h = hmac_start(&k);
        unsigned char digest[SHA256_SIZE];
        sha256_add(&h, text, strlen(text));
        hmac_finish(&k, &h, digest);
        check_hex(what, digest, want);
    }
}

static void check_million(void)
{
    Sha256 h;
    unsigned char digest[SHA256_SIZE];
    char many[1000];
    memset(many, 'a', sizeof many);
    sha256_init(&h);
    for (int i = 0; i < 1000; i++)
        sha256_add(&h, many, sizeof many);
    sha256_finish(&h, digest);
    check_hex("a million times `a`", digest,
              "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void check_all(void)
{
    check_hash("", 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    check_hash("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    check_hash("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
               "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    check_hash("abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
               "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu",
               112, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
    check_million();

    char long_key[131];
    memset(long_key, 0xaa, sizeof long_key);
    check_hmac("RFC 4231, 2", "Jefe", 4, "what do ya want for nothing?",
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    check_hmac("RFC 4231, 6", long_key, sizeof long_key,
               "Test Using Larger Than Block-Size Key - Hash Key First",
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    memset(long_key, 'x', sizeof long_key);
    check_hmac("a key of 65 bytes", long_key, 65, "abc",
               "2e79414eb71d9e4b8662a941f8e68a5aa76403452622e32d25aa4dfd1523b34d");
    check_hmac("an empty message", "k", 1, "",
               "8bb990c40a7d61cb97597a942125025be50ac8beb74436e3735b98893a7f6620");
}

int main(void)
{
    check_all();
    sha256_without_instructions();
    check_all();
    return failures > 0;
}
