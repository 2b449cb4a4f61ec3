/* The kernel's history without a file: which entries a question finds. */
#include "kernel/history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;

/* Compares what a question finds, as JSON text, with what it should. */
static void check(History *h, HistoryQuery q, const char *want)
{
    json_t *found = history_find(h, &q);
    char *text = json_dumps(found, JSON_COMPACT);
    if (!text || strcmp(text, want) != 0) {
        printf("%s\n  is not %s\n", text ? text : "nothing", want);
        failures++;
    }
    free(text);
    json_decref(found);
}

/* How many of the entries the glob covers. */
static void check_glob(const char *pattern, const char *input, int want)
{
    History *h = history_new("");
    history_add(h, 1, str_of(input), str_of(""));
    HistoryQuery q = {.access = HISTORY_SEARCH, .pattern = pattern, .n = -1};
    json_t *found = history_find(h, &q);
    if (json_array_size(found) != (size_t)want) {
        printf("`%s` and `%s`\n", pattern, input);
        failures++;
    }
    json_decref(found);
    history_free(h);
}

static void test_globs(void)
{
    check_glob("", "", 1);
    check_glob("*", "", 1);
    check_glob("?", "", 0);
    check_glob("a*b*c", "a--b--b--c", 1);
    check_glob("a*b*c", "a--c--b", 0);
    check_glob("?", "\xf0\x9d\x90\x9a", 1);
    check_glob("[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", 1);
    check_glob("[a-c]x", "bx", 1);
    check_glob("[!a-c]x", "bx", 0);
    check_glob("[]]", "]", 1);
    check_glob("[a-]", "-", 1);
    check_glob("[a", "a", 0);
    check_glob("[", "[", 0);
    /* Many stars must not take long. */
    char text[5001];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    check_glob("*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*a*ab", text, 0);
}

int main(void)
{
    unsetenv("XDG_STATE_HOME");
    unsetenv("HOME");
    History *h = history_new("");
    history_add(h, 1, str_of("a"), str_of("1"));
    history_add(h, 2, str_of("b"), str_of(""));
    history_add(h, 3, str_of("a"), str_of("\xff"));
    check(h, (HistoryQuery){.access = HISTORY_TAIL, .n = 2}, "[[1,2,\"b\"],[1,3,\"a\"]]");
    check(h, (HistoryQuery){.access = HISTORY_TAIL, .n = -1, .output = true},
          "[[1,1,[\"a\",\"1\"]],[1,2,[\"b\",null]],[1,3,[\"a\",\"\xef\xbf\xbd\"]]]");
    check(h, (HistoryQuery){.access = HISTORY_TAIL, .n = 0}, "[]");
    check(h, (HistoryQuery){.access = HISTORY_RANGE, .start = 2, .stop = 3}, "[[1,2,\"b\"]]");
    check(h, (HistoryQuery){.access = HISTORY_RANGE, .session = 1, .stop = INT64_MAX, .n = 1},
          "[[1,1,\"a\"],[1,2,\"b\"],[1,3,\"a\"]]");
    check(h, (HistoryQuery){.access = HISTORY_RANGE, .session = INT64_MIN, .stop = 9}, "[]");
    check(h, (HistoryQuery){.access = HISTORY_SEARCH, .pattern = "a", .n = -1, .unique = true},
          "[[1,3,\"a\"]]");
    history_add(h, 4, (Str){"\0a\0b", 4}, (Str){"1\0", 2});
    check(h, (HistoryQuery){.access = HISTORY_TAIL, .n = 1, .output = true},
          "[[1,4,[\"\xef\xbf\xbd"
          "a\xef\xbf\xbd"
          "b\",\"1\xef\xbf\xbd\"]]]");
    history_free(h);
    test_globs();
    return failures > 0;
}
