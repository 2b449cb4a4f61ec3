/* Transcripts: what a person types, and below it what the session or the command answers. */
#define _GNU_SOURCE 1
#include "tests/runner.h"

#include "include/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char prompt[] = "relay> ";
static const char more[] = "  ...> ";
static const char shell[] = "$ relay";

typedef struct {
    Test *test;
    RelaySession *session;
    int number;  /* of the cell, as in In[1] */
    Buf blessed; /* the file with what really came out */
} Transcript;

static void take_output(void *data, const RelayOutput *out)
{
    Buf *text = data;
    const RelayMime *plain = out->n_mimes ? &out->mimes[0] : NULL;
    if (!plain || plain->size == 0)
        return;
    buf_bytes(text, plain->data, plain->size);
    if (out->kind != RELAY_OUTPUT_STREAM && plain->data[plain->size - 1] != '\n')
        buf_char(text, '\n');
}

/* A prompt at the end of a line stands without its blank. */
static bool is_prompt(Line l, const char *mark, Line *rest)
{
    size_t n = strlen(mark);
    if (line_starts(l, mark))
        *rest = (Line){l.at + n, l.n - n};
    else if (l.n == n - 1 && memcmp(l.at, mark, n - 1) == 0)
        *rest = (Line){l.at + l.n, 0};
    else
        return false;
    return true;
}

static bool is_input(Line l)
{
    Line rest;
    return is_prompt(l, prompt, &rest) || line_starts(l, shell);
}

static void keep(Transcript *tr, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        buf_bytes(&tr->blessed, tr->test->lines[i].at, tr->test->lines[i].n);
        buf_char(&tr->blessed, '\n');
    }
}

/* One line against one with `...` for any text. */
static bool line_matches(Line want, Line got)
{
    const char *dots = memmem(want.at, want.n, "...", 3);
    if (!dots)
        return want.n == got.n && memcmp(want.at, got.at, got.n) == 0;
    size_t before = (size_t)(dots - want.at);
    if (got.n < before || memcmp(want.at, got.at, before) != 0)
        return false;
    Line rest = {dots + 3, want.n - before - 3};
    for (size_t i = before; i <= got.n; i++)
        if (line_matches(rest, (Line){got.at + i, got.n - i}))
            return true;
    return false;
}

static bool any_lines(Line want)
{
    return want.n == 3 && memcmp(want.at, "...", 3) == 0;
}

/* Greedy with one place to come back to: the last `...` line takes one line more each time. */
static bool lines_match(const Line *want, size_t n_want, const Line *got, size_t n_got)
{
    size_t w = 0, g = 0, star = n_want, resume = 0;
    while (g < n_got) {
        if (w < n_want && any_lines(want[w])) {
            star = w++;
            resume = g;
        } else if (w < n_want && line_matches(want[w], got[g])) {
            w++;
            g++;
        } else if (star < n_want) {
            w = star + 1;
            g = ++resume;
        } else {
            return false;
        }
    }
    while (w < n_want && any_lines(want[w]))
        w++;
    return w == n_want;
}

/* Compares the output with the lines [from, to) of the file, blank lines at the end aside. */
static void compare(Transcript *tr, size_t from, size_t to, const Buf *out)
{
    Test *t = tr->test;
    size_t end = to;
    while (end > from && line_blank(t->lines[end - 1]))
        end--;
    size_t cap = 1, n = 0;
    for (size_t i = 0; i < out->n; i++)
        cap += out->at[i] == '\n';
    Line *got = calloc(cap, sizeof *got);
    for (const char *at = buf_text(out), *stop; got && *at; at = stop + (*stop == '\n')) {
        stop = at + strcspn(at, "\n");
        got[n++] = (Line){at, (size_t)(stop - at)};
    }
    while (n && line_blank(got[n - 1]))
        n--;
    bool same = lines_match(t->lines + from, end - from, got, n);
    if (!same && !t->bless) {
        test_fail(t, from, "expected:");
        for (size_t i = from; i < end; i++)
            printf("| %.*s\n", (int)t->lines[i].n, t->lines[i].at);
        printf("got:\n%s", buf_text(out));
    }
    if (same)
        keep(tr, from, end);
    for (size_t i = 0; i < n && !same; i++)
        buf_printf(&tr->blessed, "%.*s\n", (int)got[i].n, got[i].at);
    keep(tr, end, to);
    free(got);
}

/* The cell or the command at line `at`; `end` is the end of the block. The line after its output. */
static size_t run_input(Transcript *tr, size_t at, size_t end)
{
    Test *t = tr->test;
    Line part;
    Buf text = {0}, out = {0};
    size_t from = at + 1;
    if (is_prompt(t->lines[at], prompt, &part)) {
        buf_bytes(&text, part.at, part.n);
        for (; from < end && is_prompt(t->lines[from], more, &part); from++) {
            buf_char(&text, '\n');
            buf_bytes(&text, part.at, part.n);
        }
        char name[32];
        snprintf(name, sizeof name, "In[%d]", ++tr->number);
        RelayCell cell = {
            .text = buf_text(&text), .len = text.n, .name = name, .number = (uint32_t)tr->number};
        relay_session_eval(tr->session, &cell, (RelaySink){take_output, &out});
    } else {
        Buf err = {0};
        shell_run(t, at + 1, (Line){t->lines[at].at + 2, t->lines[at].n - 2}, &out, &err);
        buf_bytes(&out, buf_text(&err), err.n);
        buf_deinit(&err);
    }
    size_t to = from;
    while (to < end && !is_input(t->lines[to]))
        to++;
    keep(tr, at, from);
    compare(tr, from, to, &out);
    buf_deinit(&text);
    buf_deinit(&out);
    return to;
}

static void run_block(Transcript *tr, size_t from, size_t to)
{
    size_t at = from;
    while (at < to && !is_input(tr->test->lines[at]))
        at++;
    keep(tr, from, at);
    while (at < to)
        at = run_input(tr, at, to);
}

/* The fenced blocks whose first line is input; all share one session. */
static void run_blocks(Transcript *tr)
{
    Test *t = tr->test;
    for (size_t i = 0; i < t->n_lines; i++) {
        keep(tr, i, i + 1);
        if (!line_starts(t->lines[i], "```"))
            continue;
        size_t from = i + 1, to = from;
        while (to < t->n_lines && !line_starts(t->lines[to], "```"))
            to++;
        if (from < to && is_input(t->lines[from]))
            run_block(tr, from, to);
        else
            keep(tr, from, to);
        if (to < t->n_lines)
            keep(tr, to, to + 1);
        i = to;
    }
}

void transcript_run(Test *t)
{
    Transcript tr = {.test = t, .session = relay_session_new(NULL)};
    if (!tr.session) {
        test_fail(t, 0, "no session");
        return;
    }
    const char *dot = strrchr(t->path, '.');
    if (strcmp(dot, ".md") == 0)
        run_blocks(&tr);
    else
        run_block(&tr, 0, t->n_lines);
    relay_session_free(tr.session);
    if (t->bless && !write_file(t->path, &tr.blessed))
        test_fail(t, 0, "cannot be written");
    buf_deinit(&tr.blessed);
}
