/* RUN lines, compared with a file of output or with CHECK patterns. */
#include "tests/runner.h"

#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool golden_wanted(const Test *t)
{
    Line rest;
    for (size_t i = 0; i < t->n_lines; i++)
        if (line_after(t->lines[i], "// RUN:", &rest))
            return true;
    return false;
}

/* Without what the address sanitizer says of itself, once, where a stack is exchanged. */
static void put_errors(Buf *out, const char *err)
{
    static const char own[] = "WARNING: ASan doesn't fully support makecontext";
    Buf kept = {0};
    while (*err) {
        size_t n = strcspn(err, "\n");
        const char *said = strstr(err, own);
        if (!said || said > err + n)
            buf_bytes(&kept, err, n + (err[n] == '\n'));
        err += n + (err[n] == '\n');
    }
    if (kept.n)
        buf_printf(out, "--- stderr\n%s", buf_text(&kept));
    buf_deinit(&kept);
}

/* Standard output, then what else there is to say, as the golden file has it. */
static int run_commands(Test *t, Buf *out)
{
    int last = 0;
    for (size_t i = 0; i < t->n_lines; i++) {
        Line command;
        if (!line_after(t->lines[i], "// RUN:", &command))
            continue;
        Buf err = {0};
        last = shell_run(t, i + 1, command, out, &err);
        if (out->n && buf_text(out)[out->n - 1] != '\n')
            buf_char(out, '\n');
        put_errors(out, buf_text(&err));
        if (last)
            buf_printf(out, "--- exit %d\n", last);
        buf_deinit(&err);
    }
    return last;
}

static void show_difference(Test *t, const char *expected, const Buf *got)
{
    Buf path = {0}, command = {0}, out = {0}, err = {0};
    buf_printf(&path, "%s/got", t->scratch);
    if (write_file(buf_text(&path), got)) {
        buf_printf(&command, "diff -u --label expected --label got '%s' '%s'", expected,
                   buf_text(&path));
        shell_run(t, 0, (Line){buf_text(&command), command.n}, &out, &err);
        printf("%s%s", buf_text(&out), buf_text(&err));
    }
    buf_deinit(&path);
    buf_deinit(&command);
    buf_deinit(&out);
    buf_deinit(&err);
}

static void compare_file(Test *t, const Buf *got)
{
    Buf path = {0}, want = {0};
    buf_printf(&path, "%.*s.out", (int)(strrchr(t->path, '.') - t->path), t->path);
    bool there = read_file(buf_text(&path), &want);
    bool same = there && want.n == got->n && memcmp(buf_text(&want), buf_text(got), got->n) == 0;
    if (!same && t->bless) {
        if (!write_file(buf_text(&path), got))
            test_fail(t, 0, "%s cannot be written", buf_text(&path));
    } else if (!there) {
        test_fail(t, 0, "%s is missing; --bless makes it from\n%s", buf_text(&path), buf_text(got));
    } else if (!same) {
        test_fail(t, 0, "the output differs from %s", buf_text(&path));
        show_difference(t, buf_text(&path), got);
    }
    buf_deinit(&path);
    buf_deinit(&want);
}

/* A pattern as an extended regular expression: `{{…}}` stands as it is, blanks match blanks of any
   number, all else matches itself. */
static void to_regex(Line pattern, Buf *out)
{
    for (size_t i = 0; i < pattern.n; i++) {
        char c = pattern.at[i];
        if (c == '{' && i + 1 < pattern.n && pattern.at[i + 1] == '{') {
            size_t from = i += 2;
            while (i < pattern.n && !(pattern.at[i] == '}' && pattern.at[i + 1] == '}'))
                i++;
            buf_printf(out, "(%.*s)", (int)(i - from), pattern.at + from);
            i++;
        } else if (c == ' ' || c == '\t') {
            while (i + 1 < pattern.n && (pattern.at[i + 1] == ' ' || pattern.at[i + 1] == '\t'))
                i++;
            buf_str(out, "[[:blank:]]+");
        } else if (strchr(".[]()*+?{}|^$\\", c)) {
            buf_printf(out, "\\%c", c);
        } else {
            buf_char(out, c);
        }
    }
}

/* The first of the lines [from, to) that matches; `to` when none does. */
static size_t find_line(Test *t, size_t at, Line pattern, char *const *lines, size_t from,
                        size_t to)
{
    Buf text = {0};
    regex_t re;
    to_regex(pattern, &text);
    size_t i = to;
    if (regcomp(&re, buf_text(&text), REG_EXTENDED | REG_NOSUB) != 0) {
        test_fail(t, at, "the pattern is not a regular expression");
    } else {
        for (i = from; i < to && regexec(&re, lines[i], 0, NULL, 0) != 0; i++)
            ;
        regfree(&re);
    }
    buf_deinit(&text);
    return i;
}

/* The lines `// CHECK-NOT:` that stand directly before line `end` of the test file must not match
   any output line in [from, to). */
static void check_absent(Test *t, size_t begin, size_t end, char *const *out, size_t from,
                         size_t to)
{
    for (size_t i = begin; i < end; i++) {
        Line pattern;
        if (!line_after(t->lines[i], "// CHECK-NOT:", &pattern))
            continue;
        size_t found = find_line(t, i + 1, pattern, out, from, to);
        if (found < to)
            test_fail(t, i + 1, "this line must not be there: %s", out[found]);
    }
}

static void check_patterns(Test *t, char *const *out, size_t n)
{
    size_t next = 0, done = 0;
    for (size_t i = 0; i < t->n_lines; i++) {
        Line pattern;
        bool adjacent = line_after(t->lines[i], "// CHECK-NEXT:", &pattern);
        if (!adjacent && !line_after(t->lines[i], "// CHECK:", &pattern))
            continue;
        size_t limit = adjacent && next < n ? next + 1 : n;
        size_t found = find_line(t, i + 1, pattern, out, next, limit);
        if (found >= limit) {
            test_fail(t, i + 1, "not found: %.*s", (int)pattern.n, pattern.at);
            if (adjacent && next < n)
                printf("the line is: %s\n", out[next]);
            return;
        }
        check_absent(t, done, i, out, next, found);
        next = found + 1;
        done = i + 1;
    }
    check_absent(t, done, t->n_lines, out, next, n);
}

static bool has_checks(const Test *t)
{
    for (size_t i = 0; i < t->n_lines; i++) {
        Line rest;
        if (line_after(t->lines[i], "// CHECK", &rest))
            return true;
    }
    return false;
}

static void compare_patterns(Test *t, Buf *got, int status)
{
    size_t n = 0, cap = 1;
    for (size_t i = 0; i < got->n; i++)
        cap += got->at[i] == '\n';
    char **out = calloc(cap, sizeof *out);
    for (char *at = got->at, *end; out && at && *at; at = end + 1) {
        out[n++] = at;
        end = strchr(at, '\n');
        if (!end)
            break;
        *end = '\0';
    }
    int before = t->failures;
    check_patterns(t, out, n);
    if (status && t->failures == before) {
        bool expected = false;
        for (size_t i = 0; i < t->n_lines; i++) {
            Line pattern;
            expected |= line_after(t->lines[i], "// CHECK", &pattern) &&
                        line_after(pattern, "--- exit", &pattern);
        }
        if (!expected)
            test_fail(t, 0, "exit status %d", status);
    }
    if (t->failures != before)
        for (size_t i = 0; i < n; i++)
            printf("| %s\n", out[i]);
    free(out);
}

void golden_run(Test *t)
{
    Buf got = {0};
    int status = run_commands(t, &got);
    if (has_checks(t))
        compare_patterns(t, &got, status);
    else
        compare_file(t, &got);
    buf_deinit(&got);
}
