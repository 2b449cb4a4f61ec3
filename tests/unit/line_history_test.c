/* The history: several lines in an entry, several writers, the files of earlier versions, many entries, no place for more. */
#include "repl/history.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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

/* The place of the i-th entry, from the oldest. */
static size_t place(LineHistory *h, size_t i)
{
    size_t at = line_history_match(h, 0, 1, "", 0);
    while (i-- > 0)
        at = line_history_match(h, at, 1, "", 0);
    return at;
}

static size_t count(LineHistory *h)
{
    size_t n = 0, end = line_history_end(h);
    for (size_t at = 0; (at = line_history_match(h, at, 1, "", 0)) < end;)
        n++;
    return n;
}

static void expect_newest(LineHistory *h, size_t back, const char *want)
{
    size_t at = line_history_end(h);
    for (size_t i = 0; i <= back; i++)
        at = line_history_match(h, at, -1, "", 0);
    if (strcmp(line_history_entry(h, at), want) == 0)
        return;
    printf("the newest but %zu is `%s`, not `%s`\n", back, line_history_entry(h, at), want);
    failures++;
}

static void expect_entry(LineHistory *h, size_t i, const char *want)
{
    const char *got = i < count(h) ? line_history_entry(h, place(h, i)) : "(none)";
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
    check(count(h) == 2, "an entry twice in a row is kept once");
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
    size_t at = 0, end = line_history_end(h), first = place(h, 0), second = place(h, 1),
           third = place(h, 2);
    check(line_history_search(h, end, -1, "add", &at) == third && at == 16,
          "the last place counts");
    check(line_history_search(h, third, -1, "add", &at) == second && at == 0, "the next older one");
    check(line_history_search(h, second, -1, "add", &at) == end, "nothing more");
    check(line_history_search(h, second, 1, "add", &at) == third, "the next newer one");
    check(line_history_match(h, end, -1, "let %x", 6) == first, "entries that begin alike");
    check(line_history_match(h, first, 1, "let", 3) == third, "forwards, too");
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
    size_t n = 0, end = line_history_end(h);
    for (size_t at = 0; (at = line_history_match(h, at, 1, "", 0)) < end; n++) {
        int w, entry;
        if (sscanf(line_history_entry(h, at), "writer %d\nentry %d", &w, &entry) != 2 || w < 0 ||
            w >= WRITERS || entry != next[w]++)
            check(false, "an entry is torn or out of order");
    }
    check(n == WRITERS * ENTRIES, "entries are missing");
    line_history_free(h);
}

/* What another run adds meanwhile is not in the way of this one. */
static void test_beside(const char *path)
{
    LineHistory *a = line_history_new(path), *b = line_history_new(path);
    add(a, "of the first");
    add(b, "of the second");
    expect_newest(a, 0, "of the first");
    expect_newest(b, 0, "of the second");
    expect_newest(b, 1, "of the first");
    line_history_free(a);
    line_history_free(b);
}

static void put(const char *folder, const char *name, const char *text)
{
    char path[100];
    snprintf(path, sizeof path, "%s/state/relay/%s", folder, name);
    FILE *f = fopen(path, "w");
    fputs(text, f);
    fclose(f);
}

/* The files of earlier versions, the last line of which may be torn. */
static void test_taken_over(const char *folder, const char *path)
{
    put(folder, "history", "a\\nb\\\\\nwhole\ntor");
    put(folder, "kernel-history.jsonl",
        "[1,0,null,null]\n[1,1,\"1 + 2\",\"3\"]\n[7,1,\"\\u00e9\",null]\nno line\n[8,1,\"to");
    LineHistory *h = line_history_new(path);
    add(h, "new");
    check(count(h) == 6, "six entries");
    expect_entry(h, 0, "1 + 2");
    expect_entry(h, 1, "é");
    expect_entry(h, 2, "a\nb\\");
    expect_entry(h, 4, "tor");
    line_history_free(h);
    h = line_history_new(path);
    check(count(h) == 6, "once");
    line_history_free(h);
}

static double cpu(void)
{
    return (double)clock() / CLOCKS_PER_SEC;
}

/* A hundred thousand entries: whoever asks does not wait. The bounds are ten times what an idle machine takes. */
static void test_large(const char *folder, const char *path)
{
    enum { ENTRIES = 100000 };
    char old[100];
    snprintf(old, sizeof old, "%s/state/relay/history", folder);
    FILE *f = fopen(old, "w");
    for (int i = 0; i < ENTRIES; i++)
        fprintf(f, "entry number %d\n", i);
    fclose(f);
    LineHistory *h = line_history_new(path);
    double began = cpu();
    expect_newest(h, 1, "entry number 99998");
    double opened = cpu();
    add(h, "newest");
    expect_newest(h, 1, "entry number 99999");
    double added = cpu();
    size_t end = line_history_end(h), at;
    check(line_history_search(h, end, -1, "nowhere", &at) == end, "nothing is found");
    check(line_history_match(h, end, -1, "entry number 7", 14) < end, "one is found");
    double searched = cpu();
    for (int i = 0; i < 100; i++)
        line_history_entry(h, end - (size_t)(i * 900) - 1);
    double stepped = cpu();
    printf("%d entries: taken over in %.0f ms, one added in %.2f ms, all searched in %.1f ms, "
           "another one seen in %.3f ms\n",
           ENTRIES, 1e3 * (opened - began), 1e3 * (added - opened), 1e3 * (searched - added) / 2,
           1e3 * (stepped - searched) / 100);
    check(added - opened < 0.02 && searched - added < 0.4 && stepped - searched < 0.5,
          "that took long");
    line_history_free(h);
}

/* Where nothing can be written, history lives for the run. */
static void test_no_place(void)
{
    LineHistory *h = line_history_new("/dev/null/relay/history");
    add(h, "1");
    check(count(h) == 1, "it is kept in memory");
    line_history_free(h);
}

/* As on a disk that gets full: the run goes on with all that it knew, says why once, and leaves what was kept before as it was. */
static void test_full(const char *path)
{
    struct rlimit before;
    struct stat info;
    char log[80];
    LineHistory *h = line_history_new(path);
    add(h, "kept");
    snprintf(log, sizeof log, "%s-wal", path);
    getrlimit(RLIMIT_FSIZE, &before);
    check(stat(log, &info) == 0, "there is no log beside the database");
    setrlimit(RLIMIT_FSIZE, &(struct rlimit){(rlim_t)info.st_size, before.rlim_max});
    const char *why = line_history_add(h, "first", 5);
    check(why && strstr(why, path), "it is not said that the disk is full");
    check(!line_history_add(h, "second", 6), "it is said twice");
    expect_newest(h, 0, "second");
    expect_newest(h, 1, "first");
    expect_newest(h, 2, "kept");
    line_history_free(h);
    setrlimit(RLIMIT_FSIZE, &before);
    h = line_history_new(path);
    expect_newest(h, 0, "kept");
    line_history_free(h);
}

static void test_broken(const char *path)
{
    FILE *file = fopen(path, "w");
    fputs("this is no database", file);
    fclose(file);
    LineHistory *h = line_history_new(path);
    const char *why = line_history_add(h, "first", 5);
    check(why && strstr(why, path), "it is not said that the file is no database");
    expect_newest(h, 0, "first");
    line_history_free(h);
}

int main(void)
{
    char folder[] = "/tmp/relay_history_XXXXXX", path[64], command[64];
    if (!mkdtemp(folder))
        return 2;
    snprintf(path, sizeof path, "%s/state/relay/history.sqlite", folder);
    test_round_trip(path);
    test_search();
    unlink(path);
    test_writers(path);
    test_beside(path);
    unlink(path);
    test_taken_over(folder, path);
    unlink(path);
    test_large(folder, path);
    signal(SIGXFSZ, SIG_IGN);
    snprintf(path, sizeof path, "%s/full/history.sqlite", folder);
    test_full(path);
    test_broken(path);
    test_no_place();
    snprintf(command, sizeof command, "rm -r '%s'", folder);
    return system(command) != 0 || failures != 0;
}
