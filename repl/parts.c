#include "repl/parts.h"

#include "base/arena.h"
#include "base/vec.h"
#include "repl/pager.h"

#include <string.h>

/* A part, or what stands in front of them. */
typedef struct Part {
    const char *text;
    size_t n;
} Part;

typedef struct Parts {
    Term *term;
    bool color;
    Arena arena;
    Vec(Part) all;
    size_t at, row; /* the part that is shown, and its first row */
    int columns, rows;
    size_t beyond; /* its rows that do not fit */
    Buf out;
} Parts;

static void split(Parts *p, const Buf *text)
{
    const char *end = text->at + text->n;
    for (const char *at = text->at; at <= end;) {
        const char *feed = memchr(at, '\f', (size_t)(end - at));
        const char *stop = feed ? feed : end;
        vec_push(&p->all, &p->arena, ((Part){at, (size_t)(stop - at)}));
        at = stop + 1;
    }
}

/* ---- drawing ----------------------------------------------------------------------------------- */

static void put_bar(Parts *p, const char *text)
{
    term_style(&p->out, p->color ? STYLE_REVERSE : STYLE_PLAIN);
    term_clip(&p->out, text, strlen(text), p->columns - 1);
    term_style(&p->out, STYLE_PLAIN);
    term_clear_line(&p->out);
}

static void draw(Parts *p)
{
    Buf lines = {0}, title = {0};
    const Part *part = &p->all.at[p->at];
    term_size(p->term, &p->columns, &p->rows);
    term_wrap(&lines, part->text, part->n, p->columns - 1);
    size_t n = pager_lines(&lines), room = p->rows > 3 ? (size_t)p->rows - 2 : 1;
    p->beyond = n > room ? n - room : 0;
    p->row = p->row < p->beyond ? p->row : p->beyond;
    if (p->at)
        buf_printf(&title, " %zu of %zu", p->at, p->all.n - 1);
    else
        buf_printf(&title, " all %zu", p->all.n - 1);
    if (p->beyond)
        buf_printf(&title, "   lines %zu to %zu of %zu", p->row + 1, p->row + room, n);
    term_home(&p->out);
    put_bar(p, buf_text(&title));
    const char *at = buf_text(&lines), *end = at + lines.n;
    for (size_t i = 0; i < p->row + room; i++) {
        const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
        const char *stop = newline ? newline : end;
        if (i >= p->row) {
            buf_str(&p->out, "\r\n");
            if (at < end)
                term_clip(&p->out, at, (size_t)(stop - at), p->columns - 1);
            term_style(&p->out, STYLE_PLAIN);
            term_clear_line(&p->out);
        }
        at = stop < end ? stop + 1 : end;
    }
    buf_str(&p->out, "\r\n");
    put_bar(p, " → forward   ← back   ↑ ↓ lines   Home all   End last   q leave");
    term_write(p->term, &p->out);
    buf_deinit(&lines);
    buf_deinit(&title);
}

/* ---- keys -------------------------------------------------------------------------------------- */

static void go(Parts *p, size_t to)
{
    p->at = to < p->all.n ? to : p->all.n - 1;
    p->row = 0;
}

static void scroll(Parts *p, int by)
{
    size_t most = p->beyond;
    p->row = by < 0 ? (p->row > (size_t)-by ? p->row - (size_t)-by : 0) : p->row + (size_t)by;
    p->row = p->row < most ? p->row : most;
}

/* False when the person has seen enough. */
static bool run_key(Parts *p, TermKey key)
{
    int page = p->rows > 4 ? p->rows - 3 : 1;
    if (key.mods == MOD_CTRL && (key.code == 'c' || key.code == 'd'))
        return false;
    switch (key.code) {
    case KEY_RIGHT:
    case 'n':
    case ' ': go(p, p->at + 1); break;
    case KEY_LEFT:
    case 'p':
    case KEY_BACKSPACE: go(p, p->at ? p->at - 1 : 0); break;
    case KEY_UP:
    case 'k': scroll(p, -1); break;
    case KEY_DOWN:
    case 'j':
    case KEY_ENTER: scroll(p, 1); break;
    case KEY_PAGE_UP: scroll(p, -page); break;
    case KEY_PAGE_DOWN: scroll(p, page); break;
    case KEY_HOME:
    case 'g': go(p, 0); break;
    case KEY_END:
    case 'G':
    case 'e': go(p, p->all.n - 1); break;
    case 'q':
    case KEY_ESCAPE:
    case KEY_CLOSED: return false;
    default: break;
    }
    return true;
}

static void look(Parts *p)
{
    term_edit(p->term);
    term_other_screen(&p->out, true);
    term_hide_cursor(&p->out);
    do
        draw(p);
    while (run_key(p, term_read(p->term)));
    term_other_screen(&p->out, false);
    term_show_cursor(&p->out);
    term_wrap(&p->out, p->all.at[0].text, p->all.at[0].n, p->columns);
    term_write(p->term, &p->out);
    term_leave(p->term);
}

bool parts_show(Term *t, const Buf *text, bool color)
{
    Parts p = {.term = t, .color = color};
    arena_init(&p.arena, NULL);
    term_size(t, &p.columns, &p.rows);
    split(&p, text);
    bool shows = p.all.n > 2 && pager_needed(t, text);
    if (shows)
        look(&p);
    buf_deinit(&p.out);
    arena_deinit(&p.arena);
    return shows;
}
