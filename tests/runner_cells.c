/* Files of values: cells, each with the value or the diagnostics that it must give. */
#include "tests/runner.h"

#include "include/relay.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum { EXPECT_VALUE, EXPECT_CLOSE, EXPECT_ERROR, EXPECT_WARNING } ExpectKind;

typedef struct {
    ExpectKind kind;
    size_t line; /* from 1 */
    Line text;
    bool met;
} Expect;

enum { MAX_EXPECTS = 64 };

typedef struct {
    Test *test;
    const char *engine;
    size_t first; /* the cell's first line, from 0 */
    Expect expects[MAX_EXPECTS];
    size_t n;
    bool has_value;
    Buf value; /* the last result */
} Cell;

static bool find_expect(Line l, size_t number, Expect *e)
{
    static const struct {
        const char *mark;
        ExpectKind kind;
    } marks[] = {
        {"// =>", EXPECT_VALUE},
        {"// ~>", EXPECT_CLOSE},
        {"// error:", EXPECT_ERROR},
        {"// warning:", EXPECT_WARNING},
    };
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        Line text;
        if (line_after(l, marks[i].mark, &text)) {
            *e = (Expect){.kind = marks[i].kind, .line = number, .text = text};
            return true;
        }
    }
    return false;
}

static bool is_value(const Expect *e)
{
    return e->kind == EXPECT_VALUE || e->kind == EXPECT_CLOSE;
}

/* The number after `"line":` in a diagnostic's JSON line, 0 when it has none. */
static size_t diagnostic_line(const RelayOutput *out)
{
    const RelayMime *json = relay_output_find(out, "application/json");
    const char *at = json ? strstr(json->data, "\"line\":") : NULL;
    return at ? strtoul(at + strlen("\"line\":"), NULL, 10) : 0;
}

/* Whether the expectation names this diagnostic: its code, if it gives one, and a part of its text
   behind the code, if it gives that. */
static bool names_diagnostic(const Expect *e, const RelayOutput *out)
{
    bool error = out->severity == RELAY_ERROR;
    if (e->met || is_value(e) || error != (e->kind == EXPECT_ERROR))
        return false;
    size_t code = 0;
    while (code < e->text.n && !isspace((unsigned char)e->text.at[code]))
        code++;
    if (code &&
        (!out->code || strlen(out->code) != code || memcmp(out->code, e->text.at, code) != 0))
        return false;
    Buf part = {0};
    Line rest = {e->text.at + code, e->text.n - code};
    while (rest.n && rest.at[0] == ' ')
        rest = (Line){rest.at + 1, rest.n - 1};
    buf_bytes(&part, rest.at, rest.n);
    bool found = strstr(out->mimes[0].data, buf_text(&part)) != NULL;
    buf_deinit(&part);
    return found;
}

/* A diagnostic of the cell must stand on the line that expects it; one whose place is in another
   cell (a function that is called here) may be expected anywhere in this one. */
static void take_diagnostic(Cell *c, const RelayOutput *out)
{
    size_t line = diagnostic_line(out);
    Expect *other = NULL;
    for (size_t i = 0; i < c->n; i++) {
        Expect *e = &c->expects[i];
        if (!names_diagnostic(e, out))
            continue;
        if (line && e->line == c->first + line) {
            e->met = true;
            return;
        }
        if (!other)
            other = e;
    }
    char name[64];
    snprintf(name, sizeof name, "cell_%zu", c->first + 1);
    bool here = strstr(out->mimes[0].data, name) != NULL;
    if (other && !here) {
        other->met = true;
        return;
    }
    if (out->severity == RELAY_ERROR)
        test_fail(c->test, line ? c->first + line : 0, "%s: not expected:\n%s", c->engine,
                  out->mimes[0].data);
}

static void take_output(void *data, const RelayOutput *out)
{
    Cell *c = data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC)
        take_diagnostic(c, out);
    if (out->kind != RELAY_OUTPUT_RESULT)
        return;
    c->has_value = true;
    buf_clear(&c->value);
    buf_bytes(&c->value, out->mimes[0].data, out->mimes[0].size);
}

/* Any white space is one blank; none at the ends. */
static void squeeze(const char *text, size_t n, Buf *out)
{
    for (size_t i = 0; i < n; i++) {
        bool blank = isspace((unsigned char)text[i]);
        if (blank && out->n && out->at[out->n - 1] != ' ')
            buf_char(out, ' ');
        else if (!blank)
            buf_char(out, text[i]);
    }
    while (out->n && out->at[out->n - 1] == ' ')
        out->at[--out->n] = '\0';
}

/* The same text, up to the last digits of floating-point numbers. */
static bool same_numbers(const char *a, const char *b)
{
    while (*a && *b) {
        bool number =
            (isdigit((unsigned char)*a) || *a == '-') && (isdigit((unsigned char)*b) || *b == '-');
        if (!number && *a++ != *b++)
            return false;
        if (!number)
            continue;
        char *end_a, *end_b;
        double x = strtod(a, &end_a), y = strtod(b, &end_b);
        if (end_a == a || end_b == b)
            return false;
        if (fabs(x - y) > 1e-5 * fmax(fabs(x), fabs(y)) && fabs(x - y) > 1e-7)
            return false;
        a = end_a;
        b = end_b;
    }
    return *a == *b;
}

/* The expected value may go on in comments below; `text` receives all of it. */
static void expected_value(const Cell *c, Buf *text)
{
    Buf all = {0};
    for (size_t i = 0; i < c->n; i++) {
        if (!is_value(&c->expects[i]))
            continue;
        buf_bytes(&all, c->expects[i].text.at, c->expects[i].text.n);
        buf_char(&all, '\n');
    }
    squeeze(buf_text(&all), all.n, text);
    buf_deinit(&all);
}

/* False when the value is other than what the file says; `--bless` says nothing about it. */
static bool judge_value(Cell *c)
{
    const Expect *e = NULL;
    for (size_t i = 0; i < c->n && !e; i++)
        if (is_value(&c->expects[i]))
            e = &c->expects[i];
    if (!e)
        return true;
    Buf want = {0}, got = {0};
    expected_value(c, &want);
    squeeze(buf_text(&c->value), c->value.n, &got);
    bool same = strcmp(buf_text(&want), buf_text(&got)) == 0 ||
                (e->kind == EXPECT_CLOSE && same_numbers(buf_text(&want), buf_text(&got)));
    if (!c->has_value)
        test_fail(c->test, e->line, "%s: no value", c->engine);
    else if (!same && !c->test->bless)
        test_fail(c->test, e->line, "%s: expected %s\n  got %s", c->engine, buf_text(&want),
                  buf_text(&got));
    buf_deinit(&want);
    buf_deinit(&got);
    return same || !c->has_value;
}

static void judge_diagnostics(Cell *c)
{
    for (size_t i = 0; i < c->n; i++)
        if (!is_value(&c->expects[i]) && !c->expects[i].met)
            test_fail(c->test, c->expects[i].line, "%s: expected the diagnostic %.*s", c->engine,
                      (int)c->expects[i].text.n, c->expects[i].text.at);
}

static bool only_comment(Line l)
{
    while (l.n && (*l.at == ' ' || *l.at == '\t'))
        l = (Line){l.at + 1, l.n - 1};
    return line_starts(l, "//");
}

/* The end of the cell that begins at `from`. Its expectations are collected. */
static size_t cell_end(Cell *c, size_t from, size_t to)
{
    bool wrong = false;
    for (size_t i = from; i < to; i++) {
        Line l = c->test->lines[i];
        Expect e;
        if (wrong && line_blank(l))
            return i;
        if (!find_expect(l, i + 1, &e) || c->n == MAX_EXPECTS)
            continue;
        c->expects[c->n++] = e;
        wrong |= !is_value(&e);
        if (!is_value(&e))
            continue;
        Expect more;
        while (++i < to && c->n < MAX_EXPECTS && only_comment(c->test->lines[i]) &&
               find_expect(c->test->lines[i], i + 1, &more) && is_value(&more))
            c->expects[c->n++] = more;
        return i;
    }
    return to;
}

/* What the cell gave is copied into the comment of its value. */
static void bless_value(const Cell *c, Buf *out)
{
    Buf got = {0};
    squeeze(buf_text(&c->value), c->value.n, &got);
    for (size_t i = 0; i < c->n; i++) {
        const Expect *e = &c->expects[i];
        if (!is_value(e))
            continue;
        const Line l = c->test->lines[e->line - 1];
        buf_bytes(out, l.at, (size_t)(e->text.at - l.at));
        buf_printf(out, "%s%s\n", e->text.n ? "" : " ", buf_text(&got));
        break;
    }
    buf_deinit(&got);
}

static void copy_lines(const Test *t, size_t from, size_t to, Buf *out)
{
    for (size_t i = from; i < to; i++) {
        buf_bytes(out, t->lines[i].at, t->lines[i].n);
        buf_char(out, '\n');
    }
}

static size_t run_cell(Cell *c, RelaySession *s, size_t to, Buf *blessed)
{
    size_t end = cell_end(c, c->first, to);
    Buf text = {0};
    copy_lines(c->test, c->first, end, &text);
    char name[64];
    snprintf(name, sizeof name, "cell_%zu", c->first + 1);
    RelayCell cell = {.text = buf_text(&text), .len = text.n, .name = name};
    RelayStatus status = relay_session_eval(s, &cell, (RelaySink){take_output, c});
    if (status == RELAY_BUG)
        test_fail(c->test, c->first + 1, "%s: a bug was reported", c->engine);
    judge_diagnostics(c);
    size_t value_line = end;
    for (size_t i = 0; i < c->n; i++)
        if (is_value(&c->expects[i]) && c->expects[i].line <= value_line)
            value_line = c->expects[i].line - 1;
    if (!judge_value(c) && c->test->bless) {
        copy_lines(c->test, c->first, value_line, blessed);
        bless_value(c, blessed);
    } else {
        copy_lines(c->test, c->first, end, blessed);
    }
    buf_deinit(&text);
    return end;
}

void cells_run(Test *t, const char *engine, size_t from, size_t to)
{
    RelaySession *s = relay_session_new(&(RelayOptions){.engine = engine});
    if (!s) {
        test_fail(t, 0, "%s: no session", engine);
        return;
    }
    relay_session_set(s, "hot", "1"); /* with `auto` every call of a definition goes to the JIT */
    Buf blessed = {0};
    copy_lines(t, 0, from, &blessed);
    size_t expects = 0;
    for (size_t at = from; at < to;) {
        Cell c = {.test = t, .engine = engine, .first = at};
        at = run_cell(&c, s, to, &blessed);
        expects += c.n;
        buf_deinit(&c.value);
    }
    copy_lines(t, to, t->n_lines, &blessed);
    relay_session_free(s);
    bool whole = from == 0 && to == t->n_lines;
    if (expects == 0 && whole)
        test_fail(t, 0, "the file expects nothing");
    if (t->bless && expects && whole && !write_file(t->path, &blessed))
        test_fail(t, 0, "cannot be written");
    buf_deinit(&blessed);
}
