/* Documents are read as they are written; what is no JSON is refused at its place. */
#include "base/document.h"
#include "tests/unit/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static Arena arena;
static Document d;
static DocumentError error;

static bool read(const char *text)
{
    return document_read(&d, &arena, str_of(text), &error);
}

static bool is_str(const DocumentValue *v, const char *text)
{
    return document_is(v, DOCUMENT_STRING) && str_is(document_str(&d, v), text);
}

static void what_is_in_it(void)
{
    int64_t n;
    CHECK(read(" {\"a\": [1, \"b\", -2], \"list\": [[1], 2], \"o\": {\"x\": {}, \"y\": "
               "\"z\"},\r\n\t\"t\": true} "));
    CHECK(document_count(d.at) == 4);
    const DocumentValue *a = document_get(&d, d.at, "a"), *o = document_get(&d, d.at, "o");
    CHECK(document_count(a) == 3);
    CHECK(document_int(&d, document_item(&d, a, 0), &n) && n == 1);
    CHECK(document_int(&d, document_item(&d, a, 2), &n) && n == -2);
    CHECK(is_str(document_item(&d, a, 1), "b"));
    CHECK(!document_int(&d, document_item(&d, a, 1), &n));
    CHECK(!document_item(&d, a, 3));
    CHECK(is_str(document_get(&d, o, "y"), "z"));
    CHECK(document_count(document_get(&d, o, "x")) == 0);
    CHECK(!document_get(&d, o, "z") && !document_get(&d, a, "y") && !document_get(&d, NULL, "y"));
    CHECK(document_is(document_get(&d, d.at, "t"), DOCUMENT_BOOL));
    /* Items that have parts are met one after the other. */
    const DocumentValue *list = document_get(&d, d.at, "list");
    CHECK(!document_item(&d, list, 1));
    CHECK(document_int(&d, document_next(&d, list + 1), &n) && n == 2);
}

static void strings(void)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"\"\"", ""},
        {"\"/+=\"", "/+="},
        {"\"a\\\"b\\\\c\\/\\b\\f\\n\\r\\t\"", "a\"b\\c/\b\f\n\r\t"},
        {"\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\"", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\"\xc3\xa9 \xf0\x9f\x98\x80\"", "\xc3\xa9 \xf0\x9f\x98\x80"},
        {"\"\xef\xbf\xbd\\n\xef\xbf\xbd\"", "\xef\xbf\xbd\n\xef\xbf\xbd"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        CHECK(read(cases[i].text) && is_str(d.at, cases[i].wanted));
}

static void what_is_none(void)
{
    static const struct {
        const char *text;
        size_t at, line;
    } cases[] = {
        {"", 0, 1},
        {" ", 1, 1},
        {"[", 1, 1},
        {"[1", 2, 1},
        {"[1,]", 3, 1},
        {"[1 2]", 3, 1},
        {"[,]", 1, 1},
        {"{,}", 1, 1},
        {"{\"a\" 1}", 5, 1},
        {"{\"a\":}", 5, 1},
        {"{\"a\":1,}", 7, 1},
        {"{a:1}", 1, 1},
        {"[1}", 2, 1},
        {"{\"a\":1]", 6, 1},
        {"1 2", 2, 1},
        {"]", 0, 1},
        {"\"a", 2, 1},
        {"\"a\\", 3, 1},
        {"\"\\x\"", 3, 1},
        {"\"\\u12\"", 5, 1},
        {"\"\\ud83d\"", 7, 1},
        {"\"\\ud83d\\u0041\"", 13, 1},
        {"\"\\u0000\"", 7, 1},
        {"\"a\nb\"", 2, 1},
        {"\"\\t\nb\"", 3, 1},
        {"\"\xff\"", 1, 1},
        {"\"\\n\xc3\"", 3, 1},
        {"tru", 0, 1},
        {"nul", 0, 1},
        {"01", 2, 1},
        {"-", 1, 1},
        {"1.", 2, 1},
        {"1e", 2, 1},
        {"+1", 0, 1},
        {"nan", 0, 1},
        {"\n\n[\n}", 4, 4},
        {"{\"a\":1,\"b\":2,\"a\":3}", 19, 1},
        {"{\"a\":1,\"\\u0061\":3}", 18, 1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool ok = read(cases[i].text);
        CHECK(!ok && error.what && error.at == cases[i].at && error.line == cases[i].line);
        if (ok || error.at != cases[i].at)
            printf("%s: at %zu, line %zu\n", cases[i].text, error.at, error.line);
    }
    CHECK(!document_read(&d, &arena, (Str){"[1\0]", 4}, &error) && error.at == 2);
}

/* Depth has an end, and so many keys as to be sorted are compared as few are. */
static void large(void)
{
    static char text[200000];
    char *p = text;
    memset(text, '[', DOCUMENT_DEPTH_MOST);
    memset(text + DOCUMENT_DEPTH_MOST, ']', DOCUMENT_DEPTH_MOST);
    CHECK(read(text));
    memset(text, '[', DOCUMENT_DEPTH_MOST + 1);
    CHECK(!read(text) && error.at == DOCUMENT_DEPTH_MOST);
    for (int twice = 0; twice < 2; twice++) {
        p = text;
        for (int i = 0; i < 1000; i++)
            p += sprintf(p, "%s\"k%d\": \"%d\"", i ? "," : "{", i * 7 % (twice ? 999 : 1000), i);
        strcpy(p, "}");
        CHECK(read(text) == !twice);
    }
    CHECK(read("[0.5, -1e3, 99999999999999999999]"));
    int64_t n;
    for (size_t i = 0; i < 3; i++)
        CHECK(!document_int(&d, document_item(&d, d.at, i), &n));
}

static void halves(void)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", NULL},
        {"\"\\n\\\\ud83d\\u0041\"", NULL},
        {"\"\\ud83d\\ude00\\uD83D\\uDE00\"", NULL},
        {"\"\\ud83d\"", "\"\\ufffd\""},
        {"\"\\uDE00\\ud83d\\u0041\"", "\"\\ufffd\\ufffd\\u0041\""},
        {"\"\\ud83d\\ud83d\\ude00\\ude00\"", "\"\\ufffd\\ud83d\\ude00\\ufffd\""},
        {"\"\\ud83d\\ude0", "\"\\ufffd\\ude0"},
        {"\"\\ud83", NULL},
        {"\"\\", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64];
        const char *wanted = cases[i].wanted ? cases[i].wanted : cases[i].text;
        snprintf(text, sizeof text, "%s", cases[i].text);
        CHECK(document_mend(text, strlen(text)) == (cases[i].wanted != NULL));
        CHECK_TEXT(text, wanted);
    }
}

int main(void)
{
    arena_init(&arena, NULL);
    what_is_in_it();
    halves();
    strings();
    what_is_none();
    large();
    arena_deinit(&arena);
    return check_done();
}
