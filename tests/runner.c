#define _GNU_SOURCE 1
#include "tests/runner.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SKIPPED = 77, STATUS_BUG = 70, STATUS_SANITIZER = 99 };

void test_fail(Test *t, size_t line, const char *format, ...)
{
    t->failures++;
    if (line)
        printf("%s:%zu: ", t->path, line);
    else
        printf("%s: ", t->path);
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

bool read_file(const char *path, Buf *out)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    char part[65536];
    size_t n;
    while ((n = fread(part, 1, sizeof part, f)) > 0)
        buf_bytes(out, part, n);
    bool good = !ferror(f);
    fclose(f);
    return good;
}

bool write_file(const char *path, const Buf *text)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return false;
    bool good = fwrite(buf_text(text), 1, text->n, f) == text->n;
    return fclose(f) == 0 && good;
}

bool line_starts(Line l, const char *prefix)
{
    size_t n = strlen(prefix);
    return l.n >= n && memcmp(l.at, prefix, n) == 0;
}

bool line_blank(Line l)
{
    for (size_t i = 0; i < l.n; i++)
        if (l.at[i] != ' ' && l.at[i] != '\t' && l.at[i] != '\r')
            return false;
    return true;
}

bool line_after(Line l, const char *mark, Line *rest)
{
    const char *found = memmem(l.at, l.n, mark, strlen(mark));
    if (!found)
        return false;
    const char *from = found + strlen(mark), *end = l.at + l.n;
    while (from < end && (*from == ' ' || *from == '\t'))
        from++;
    while (end > from && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\r'))
        end--;
    *rest = (Line){from, (size_t)(end - from)};
    return true;
}

static void split_lines(Test *t, const Buf *text)
{
    const char *at = buf_text(text), *end = at + text->n;
    size_t count = 1;
    for (const char *p = at; p < end; p++)
        count += *p == '\n';
    t->lines = calloc(count, sizeof *t->lines);
    while (at < end && t->lines) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop)
            stop = end;
        t->lines[t->n_lines++] = (Line){at, (size_t)(stop - at)};
        at = stop + 1;
    }
}

/* The command with `%s` and `%t` put in. */
static void substitute(const Test *t, Line command, Buf *out)
{
    for (size_t i = 0; i < command.n; i++) {
        bool mark = command.at[i] == '%' && i + 1 < command.n;
        if (mark && command.at[i + 1] == 's')
            buf_str(out, t->path);
        else if (mark && command.at[i + 1] == 't')
            buf_printf(out, "%s/t", t->scratch);
        else
            buf_char(out, command.at[i]);
        if (mark && (command.at[i + 1] == 's' || command.at[i + 1] == 't'))
            i++;
    }
}

/* Puts `%t` for the scratch path, which differs from run to run. */
static void hide_scratch(const Test *t, Buf *text)
{
    Buf path = {0}, clean = {0};
    buf_printf(&path, "%s/t", t->scratch);
    const char *at = buf_text(text), *found;
    while ((found = strstr(at, buf_text(&path)))) {
        buf_bytes(&clean, at, (size_t)(found - at));
        buf_str(&clean, "%t");
        at = found + path.n;
    }
    buf_str(&clean, at);
    buf_deinit(&path);
    buf_deinit(text);
    *text = clean;
}

int shell_run(Test *t, size_t line, Line command, Buf *out, Buf *err)
{
    Buf text = {0}, out_path = {0}, err_path = {0};
    buf_printf(&out_path, "%s/out", t->scratch);
    buf_printf(&err_path, "%s/err", t->scratch);
    buf_str(&text, "{ ");
    substitute(t, command, &text);
    buf_printf(&text, "\n} >%s 2>%s </dev/null", buf_text(&out_path), buf_text(&err_path));
    int status = system(buf_text(&text));
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!read_file(buf_text(&out_path), out) || !read_file(buf_text(&err_path), err))
        test_fail(t, line, "the command's output cannot be read");
    hide_scratch(t, out);
    hide_scratch(t, err);
    if (code == STATUS_BUG || code == STATUS_SANITIZER || code >= 126)
        test_fail(t, line, "exit status %d from: %.*s\n%s", code, (int)command.n, command.at,
                  buf_text(err));
    buf_deinit(&text);
    buf_deinit(&out_path);
    buf_deinit(&err_path);
    return code;
}

static bool has_engine(const Test *t, const char *name, size_t n)
{
    for (const char *at = t->engines; *at;) {
        size_t len = strcspn(at, ",");
        if (len == n && memcmp(at, name, n) == 0)
            return true;
        at += len + (at[len] == ',');
    }
    return false;
}

static bool needs_absent_engine(const Test *t)
{
    for (size_t i = 0; i < t->n_lines; i++) {
        Line name;
        if (line_after(t->lines[i], "// NEEDS:", &name) && !has_engine(t, name.at, name.n)) {
            printf("skipped: the engine %.*s is not built in\n", (int)name.n, name.at);
            return true;
        }
    }
    return false;
}

/* Has each engine run the fenced blocks of a document that are marked as Relay. */
static void run_document(Test *t, const char *engine)
{
    for (size_t i = 0; i < t->n_lines; i++) {
        bool relay = line_starts(t->lines[i], "```relay");
        if (!line_starts(t->lines[i], "```"))
            continue;
        size_t from = ++i;
        while (i < t->n_lines && !line_starts(t->lines[i], "```"))
            i++;
        if (relay)
            cells_run(t, engine, from, i);
    }
}

static void run_by_engines(Test *t, bool document)
{
    for (const char *at = t->engines; *at;) {
        size_t n = strcspn(at, ",");
        char engine[32];
        snprintf(engine, sizeof engine, "%.*s", (int)n, at);
        if (document)
            run_document(t, engine);
        else
            cells_run(t, engine, 0, t->n_lines);
        if (t->bless)
            return; /* the first engine writes, the others compare with it in the next run */
        at += n + (at[n] == ',');
    }
}

static void run(Test *t)
{
    const char *dot = strrchr(t->path, '.');
    const char *kind = dot ? dot : "";
    if (strcmp(kind, ".txt") == 0 || strcmp(kind, ".md") == 0) {
        transcript_run(t);
        if (strcmp(kind, ".md") == 0)
            run_by_engines(t, true);
        return;
    }
    if (golden_wanted(t))
        golden_run(t);
    else
        run_by_engines(t, false);
}

/* The folder of the runner is the folder of `relay`: commands find it there. */
static void set_environment(const char *self)
{
    char folder[4096];
    ssize_t n = readlink("/proc/self/exe", folder, sizeof folder - 1);
    folder[n > 0 ? n : 0] = '\0';
    char *slash = strrchr(n > 0 ? folder : strcpy(folder, self), '/');
    if (slash)
        *slash = '\0';
    Buf path = {0};
    const char *old = getenv("PATH");
    buf_printf(&path, "%s:%s", folder, old ? old : "/usr/bin:/bin");
    setenv("PATH", buf_text(&path), 1);
    setenv("NO_COLOR", "1", 1);
    setenv("LC_ALL", "C.UTF-8", 1);
    buf_deinit(&path);
}

static int usage(void)
{
    fprintf(stderr, "usage: runner [--engines LIST] [--bless] FILE\n");
    return 2;
}

static void remove_scratch(Test *t)
{
    Buf command = {0};
    buf_printf(&command, "rm -rf '%s'", t->scratch);
    if (system(buf_text(&command)) != 0)
        fprintf(stderr, "%s stays behind\n", t->scratch);
    buf_deinit(&command);
}

int main(int argc, char **argv)
{
    Test t = {.engines = "interp"};
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--bless") == 0)
            t.bless = true;
        else if (strcmp(argv[i], "--engines") == 0 && i + 1 < argc)
            t.engines = argv[++i];
        else if (!t.path && argv[i][0] != '-')
            t.path = argv[i];
        else
            return usage();
    }
    if (!t.path)
        return usage();
    setvbuf(stdout, NULL, _IOLBF, 0);
    set_environment(argv[0]);
    char scratch[] = "/tmp/relay_test_XXXXXX";
    t.scratch = mkdtemp(scratch);
    Buf text = {0};
    if (!t.scratch || !read_file(t.path, &text)) {
        fprintf(stderr, "%s cannot be read\n", t.path);
        return 2;
    }
    split_lines(&t, &text);
    bool skipped = needs_absent_engine(&t);
    if (!skipped)
        run(&t);
    remove_scratch(&t);
    free(t.lines);
    buf_deinit(&text);
    return skipped ? EXIT_SKIPPED : t.failures ? 1 : 0;
}
