/* Digests: the same however the bytes are cut, another for every bit that differs. */
#include "base/digest.h"
#include "tests/unit/check.h"

#include <string.h>

static void digest_of(const unsigned char *p, size_t n, size_t cut, uint64_t out[2])
{
    Digest d;
    digest_begin(&d);
    for (size_t at = 0; at < n; at += cut)
        digest_add(&d, p + at, n - at < cut ? n - at : cut);
    digest_end(&d, out);
}

int main(void)
{
    unsigned char bytes[517];
    uint64_t whole[2], other[2], seen[518][2];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 37 + 11);
    digest_of(bytes, sizeof bytes, sizeof bytes, whole);
    for (size_t cut = 1; cut < 200; cut++) {
        digest_of(bytes, sizeof bytes, cut, other);
        CHECK(!memcmp(whole, other, sizeof whole));
    }
    for (size_t bit = 0; bit < 8 * sizeof bytes; bit++) {
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
        digest_of(bytes, sizeof bytes, 64, other);
        CHECK(whole[0] != other[0] && whole[1] != other[1]);
        bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
    /* Zeros are told apart by their number. */
    memset(bytes, 0, sizeof bytes);
    for (size_t n = 0; n <= sizeof bytes; n++) {
        digest_of(bytes, n, 64, seen[n]);
        for (size_t i = 0; i < n; i++)
            CHECK(memcmp(seen[i], seen[n], sizeof seen[n]) != 0);
    }
    /* Where one factor of a product is nothing, the other is not lost. */
    Digest start;
    digest_begin(&start);
    memcpy(bytes, &start.lanes[0], 8);
    digest_of(bytes, 64, 64, whole);
    bytes[8] = 1;
    digest_of(bytes, 64, 64, other);
    CHECK(memcmp(whole, other, sizeof whole) != 0);
    return check_done();
}
