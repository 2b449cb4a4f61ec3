/* The history file: several lines in an entry, several writers, broken ends, a file grown too large. */
#include "repl/history.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int failures;

static void check(bool good, const char *what)
{
    if (good)
        return;
    printf("%s\n", what);
    failures++;
}

static void add(LineHistory *h, const char *text)
{
    line_history_add(h, text, strlen(text));
}

static void expect_entry(LineHistory *h, size_t i, const char *want)
{
    const char *got = i < line_history_count(h) ? line_history_entry(h, i) : "(none)";
    if (strcmp(got, want) == 0)
        return;
    printf("entry %zu is `%s`, not `%s`\n", i, got, want);
    failures++;
}

static void test_round_trip(const char *path)
{
    LineHistory *h = line_history_new(path);
    add(h, "1 + 2");
    add(h, "1 + 2");
    add(h, "def @f() {\n  \"a\\n\\\\\"\n}");
    line_history_free(h);
    h = line_history_new(path);
    check(line_history_count(h) == 2, "an entry twice in a row is kept once");
    expect_entry(h, 0, "1 + 2");
    expect_entry(h, 1, "def @f() {\n  \"a\\n\\\\\"\n}");
    line_history_free(h);
    struct stat st;
    check(stat(path, &st) == 0 && (st.st_mode & 077) == 0, "others may read the file");
}

static void test_search(void)
{
    LineHistory *h = line_history_new("");
    add(h, "let %x = 1");
    add(h, "add(1, 2)");
    add(h, "let %y = add(3, add(4, 5))");
    size_t at = 0, n = line_history_count(h);
    check(line_history_search(h, n, -1, "add", &at) == 2 && at == 16, "the last place counts");
    check(line_history_search(h, 2, -1, "add", &at) == 1 && at == 0, "the next older one");
    check(line_history_search(h, 1, -1, "add", &at) == n, "nothing more");
    check(line_history_search(h, 1, 1, "add", &at) == 2, "the next newer one");
    check(line_history_match(h, n, -1, "let %x", 6) == 0, "entries that begin alike");
    check(line_history_match(h, 0, 1, "let", 3) == 2, "forwards, too");
    line_history_free(h);
}

/* Each writer's entries are there, whole, and in its order. */
static void test_writers(const char *path)
{
    enum { WRITERS = 8, ENTRIES = 50 };
    for (int w = 0; w < WRITERS; w++) {
        if (fork() != 0)
            continue;
        LineHistory *h = line_history_new(path);
        for (int i = 0; i < ENTRIES; i++) {
            char text[64];
            snprintf(text, sizeof text, "writer %d\nentry %d", w, i);
            add(h, text);
        }
        line_history_free(h);
        _exit(0);
    }
    while (wait(NULL) > 0)
        continue;
    LineHistory *h = line_history_new(path);
    int next[WRITERS] = {0};
    size_t n = line_history_count(h);
    check(n == WRITERS * ENTRIES, "entries are missing");
    for (size_t i = 0; i < n; i++) {
        int w, entry;
        if (sscanf(line_history_entry(h, i), "writer %d\nentry %d", &w, &entry) != 2 || w < 0 ||
            w >= WRITERS || entry != next[w]++)
            check(false, "an entry is torn or out of order");
    }
    line_history_free(h);
}

static void test_torn_end(const char *path)
{
    FILE *f = fopen(path, "w");
    fputs("whole\ntor", f);
    fclose(f);
    LineHistory *h = line_history_new(path);
    add(h, "new");
    line_history_free(h);
    h = line_history_new(path);
    expect_entry(h, 0, "whole");
    expect_entry(h, 2, "new");
    line_history_free(h);
}

static void test_large(const char *path)
{
    FILE *f = fopen(path, "w");
    for (int i = 0; i < 400000; i++)
        fprintf(f, "entry number %d\n", i);
    fclose(f);
    struct stat before, after;
    stat(path, &before);
    LineHistory *h = line_history_new(path);
    expect_entry(h, line_history_count(h) - 1, "entry number 399999");
    add(h, "newest");
    line_history_free(h);
    check(stat(path, &after) == 0 && after.st_size < before.st_size * 2 / 3, "it was not cut");
    h = line_history_new(path);
    expect_entry(h, line_history_count(h) - 1, "newest");
    expect_entry(h, line_history_count(h) - 2, "entry number 399999");
    line_history_free(h);
}

/* Where nothing can be written, history lives for the run. */
static void test_no_place(void)
{
    LineHistory *h = line_history_new("/dev/null/relay/history");
    add(h, "1");
    check(line_history_count(h) == 1, "it is kept in memory");
    line_history_free(h);
}

int main(void)
{
    char folder[] = "/tmp/relay_history_XXXXXX", path[64], command[64];
    if (!mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/state/relay/history", folder);
    test_round_trip(path);
    test_search();
    unlink(path);
    test_writers(path);
    test_torn_end(path);
    test_large(path);
    test_no_place();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0 || failures != 0;
}
