/* Text: buffers, UTF-8, slices, names, distances, tables. */
#include "base/buf.h"
#include "base/str.h"
#include "base/table.h"
#include "base/utf8.h"
#include "check.h"

#include <stdlib.h>

static void test_buf(void)
{
    Buf b = {0};
    CHECK_TEXT(buf_text(&b), "");
    buf_printf(&b, "%s-%d", "x", 42);
    buf_char(&b, ' ');
    buf_int(&b, INT64_MIN);
    buf_char(&b, ' ');
    buf_uint(&b, UINT64_MAX);
    buf_repeat(&b, '=', 3);
    CHECK_TEXT(buf_text(&b), "x-42 -9223372036854775808 18446744073709551615===");
    buf_clear(&b);
    buf_printf(&b, "%0200d", 7);
    CHECK(b.n == 200 && b.at[199] == '7' && b.at[0] == '0');
    for (int i = 0; i < 5000; i++)
        buf_str(&b, "ab");
    CHECK(b.n == 10200);
    char *text = buf_take(&b);
    CHECK(strlen(text) == 10200 && b.n == 0 && !b.at);
    free(text);
    CHECK(!buf_reserve(&b, SIZE_MAX - 5) && b.failed);
    buf_str(&b, "lost");
    CHECK(b.n == 0);
    buf_deinit(&b);
    text = buf_take(&b);
    CHECK_TEXT(text, "");
    free(text);
}

static void test_escapes(void)
{
    Buf b = {0};
    const char raw[] = "<a href=\"x\">'&\0\xff\xe4\xbd\xa0";
    buf_html(&b, raw, sizeof raw - 1);
    CHECK_TEXT(buf_text(&b),
               "&lt;a href=&quot;x&quot;&gt;&#39;&amp;\xef\xbf\xbd\xef\xbf\xbd\xe4\xbd\xa0");
    buf_clear(&b);
    const char raw2[] = "\"\\\n\t\x01\x7f\0\xc0\x80z\xed\xa0\x80";
    buf_json(&b, raw2, sizeof raw2 - 1);
    CHECK_TEXT(buf_text(&b), "\\\"\\\\\\n\\t\\u0001\\u007f\\u0000\xef\xbf\xbd\xef\xbf\xbdz"
                             "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd");
    buf_deinit(&b);
}

static void test_utf8(void)
{
    for (uint32_t code = 0; code <= 0x10ffff; code++) {
        if (code >= 0xd800 && code <= 0xdfff)
            continue;
        char bytes[4];
        uint32_t back;
        size_t n = utf8_encode(code, bytes);
        CHECK(utf8_decode(bytes, n, &back) == n && back == code);
        /* What is cut short is a bad byte. */
        CHECK(n == 1 || (utf8_decode(bytes, n - 1, &back) == 1 && back == 0xfffd));
    }
    CHECK(utf8_width('a') == 1 && utf8_width(0x4f60) == 2 && utf8_width(0x301) == 0);
    CHECK(utf8_width(0x1f600) == 2 && utf8_width(0xe9) == 1 && utf8_width(0x200b) == 0);
    CHECK(utf8_text_width("a\xe4\xbd\xa0"
                          "e\xcc\x81",
                          7) == 4);
    CHECK(utf8_count("a\xe4\xbd\xa0\xff", 5) == 3);
    CHECK(utf8_offset("a\xe4\xbd\xa0z", 5, 2) == 4 && utf8_offset("az", 2, 9) == 2);
}

static void test_str(void)
{
    CHECK(str_is((Str){"relay", 5}, "relay") && !str_is((Str){"relay", 4}, "relay"));
    CHECK(str_eq((Str){NULL, 0}, str_of("")));
    CHECK(hash_bytes("abcdefgh1", 9, 0) != hash_bytes("abcdefgh2", 9, 0));
    CHECK(hash_bytes("a\0", 2, 0) != hash_bytes("a", 1, 0));
    CHECK(hash_bytes("a", 1, 0) != hash_bytes("a", 1, 1));
    CHECK(str_distance(str_of("dense"), str_of("dense"), 3) == 0);
    CHECK(str_distance(str_of("dense"), str_of("desne"), 3) == 1);
    CHECK(str_distance(str_of("kitten"), str_of("sitting"), 5) == 3);
    CHECK(str_distance(str_of("kitten"), str_of("sitting"), 2) == 3);
    CHECK(str_distance(str_of(""), str_of("abc"), 3) == 3);
    CHECK(str_distance(str_of("abc"), str_of("abcdefgh"), 3) == 4);
}

#define KEYS 500

/* Random changes, compared with the plainest table there is. */
static void test_table(void)
{
    static char keys[KEYS];
    static void *values[KEYS];
    PtrMap m = {0};
    uint32_t random = 12345;
    CHECK(ptrmap_find(&m, keys) == NULL && !ptrmap_has(&m, keys));
    for (int step = 0; step < 200000; step++) {
        random = random * 1664525 + 1013904223;
        size_t k = (random >> 8) % KEYS;
        void *value = &keys[(random >> 4) % KEYS];
        if (random >> 30 == 0) {
            ptrmap_remove(&m, &keys[k]);
            values[k] = NULL;
        } else {
            ptrmap_put(&m, &keys[k], value);
            values[k] = value;
        }
        k = (random >> 16) % KEYS;
        CHECK(ptrmap_find(&m, &keys[k]) == values[k] && ptrmap_has(&m, &keys[k]) == !!values[k]);
        if (step % 50000 == 49999) {
            ptrmap_clear(&m);
            memset(values, 0, sizeof values);
        }
    }
    size_t live = 0;
    for (size_t i = 0; i < KEYS; i++)
        live += values[i] != NULL;
    size_t entries = 0;
    for (size_t i = 0; i < m.n; i++)
        entries += m.entries[i].key != NULL;
    CHECK(live == entries && m.n - m.removed == live);
    ptrmap_deinit(&m);
    /* Insertion order, whatever the addresses. */
    for (size_t i = 0; i < KEYS; i++)
        ptrmap_put(&m, &keys[i * 7 % KEYS], NULL);
    for (size_t i = 0; i < KEYS; i++)
        CHECK(m.entries[i].key == &keys[i * 7 % KEYS]);
    *ptrmap_slot(&m, &keys[3]) = keys;
    CHECK(ptrmap_find(&m, &keys[3]) == keys && m.n == KEYS);
    ptrmap_deinit(&m);
}

static void test_names(void)
{
    Arena a;
    Interner in;
    arena_init(&a, NULL);
    interner_init(&in, &a);
    const Name *x = name_intern(&in, "x", 1), *empty = name_intern(&in, "", 0);
    CHECK(x == name_intern(&in, "xyz", 1) && x != empty && empty->len == 0);
    CHECK(name_intern(&in, "a\0b", 3) != name_intern(&in, "a", 1));
    CHECK_TEXT(x->text, "x");
    interner_deinit(&in);
    arena_deinit(&a);
}

int main(void)
{
    test_buf();
    test_escapes();
    test_utf8();
    test_str();
    test_table();
    test_names();
    return check_done();
}
