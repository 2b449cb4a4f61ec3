#include "repl/pager.h"

#include <string.h>

size_t pager_lines(const Buf *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->n; i++)
        lines += text->at[i] == '\n';
    return lines + (text->n > 0 && text->at[text->n - 1] != '\n');
}

bool pager_needed(const Term *t, const Buf *text)
{
    int columns, rows;
    term_size(t, &columns, &rows);
    return pager_lines(text) >= (size_t)rows;
}

/* Appends so many lines from `at` on; returns where they end. */
static size_t take_lines(Buf *out, const Buf *text, size_t at, int lines)
{
    while (lines-- > 0 && at < text->n) {
        size_t n = strcspn(text->at + at, "\n");
        buf_bytes(out, text->at + at, n);
        buf_char(out, '\n');
        at += n + (text->at[at + n] == '\n');
    }
    return at;
}

static void put_question(Term *t, Buf *out, bool color)
{
    term_style(out, color ? STYLE_REVERSE : STYLE_PLAIN);
    buf_str(out, "-- more: Space, a line: Enter, all: End, enough: q --");
    term_style(out, STYLE_PLAIN);
    term_write(t, out);
}

static void clear_question(Buf *out)
{
    term_column(out, 0);
    term_clear_line(out);
}

static void suspend(Term *t, Buf *out, bool color)
{
    clear_question(out);
    term_write(t, out);
    term_suspend(t);
    put_question(t, out, color);
}

/* How many lines the person wants to see; 0: no more. */
static int ask(Term *t, Buf *out, int page, bool color)
{
    enum { ALL = 1 << 30 };
    int lines = -1;
    put_question(t, out, color);
    while (lines < 0) {
        TermKey key = term_read(t);
        if (key.mods == MOD_CTRL && key.code == 'z')
            suspend(t, out, color);
        switch (key.code) {
        case ' ':
        case 'f':
        case KEY_PAGE_DOWN: lines = page; break;
        case KEY_ENTER:
        case 'j':
        case KEY_DOWN: lines = 1; break;
        case 'G':
        case KEY_END: lines = ALL; break;
        case 'q':
        case KEY_ESCAPE:
        case KEY_CLOSED: lines = 0; break;
        case 'c':
        case 'd': lines = key.mods == MOD_CTRL ? 0 : -1; break;
        default: break;
        }
    }
    clear_question(out);
    return lines;
}

void pager_show(Term *t, const Buf *text, bool color)
{
    Buf out = {0};
    int columns, rows;
    term_edit(t);
    term_size(t, &columns, &rows);
    size_t at = take_lines(&out, text, 0, rows - 1);
    while (at < text->n) {
        term_size(t, &columns, &rows);
        int lines = ask(t, &out, rows > 2 ? rows - 1 : 1, color);
        if (lines == 0)
            break;
        at = take_lines(&out, text, at, lines);
    }
    term_write(t, &out);
    term_leave(t);
    buf_deinit(&out);
}
