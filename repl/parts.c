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

/* So many columns are wide enough for two; an answer that nobody can change any more has two only where lines seldom wrap. */
enum { WIDE = 120, WIDE_ANSWER = 160 };

typedef struct Parts {
    Term *term;
    bool color;
    bool chosen, two; /* somebody chose one column or two; two */
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

/* ---- two columns ---------------------------------------------------------------------------------- */

/* The line without its colours, and behind it. */
static const char *take_line(const char *at, const char *end, Buf *line)
{
    const char *newline = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
    buf_clear(line);
    term_strip(line, at, (size_t)((newline ? newline : end) - at));
    return newline ? newline + 1 : end;
}

static bool has_sign(const Buf *line, char sign)
{
    return line->n && line->at[0] == sign;
}

static bool is_fold(const Buf *line)
{
    return strncmp(buf_text(line), "  ⋮", strlen("  ⋮")) == 0;
}

static TermStyle style_of(const Buf *line)
{
    switch (line->n ? line->at[0] : ' ') {
    case '-': return STYLE_RED;
    case '+': return STYLE_GREEN;
    case '>': return STYLE_BLUE;
    default: return STYLE_PLAIN;
    }
}

/* A row of a column, and what is left of it. */
static const char *put_cell(const Parts *p, Buf *out, const char *at, int columns, TermStyle style)
{
    size_t n = strcspn(at, "\n");
    if (p->color && n)
        term_style(out, style);
    int used = term_clip(out, at, n, columns);
    if (p->color && n)
        term_style(out, STYLE_PLAIN);
    buf_repeat(out, ' ', (size_t)(columns - used));
    return at + n + (at[n] == '\n');
}

/* What a line was beside what it is; either may be empty. */
static void put_pair(const Parts *p, Buf *out, const Buf *was, const Buf *is)
{
    int half = (p->columns - 1 - 3) / 2;
    Buf left = {0}, right = {0};
    term_wrap(&left, buf_text(was), was->n, half);
    term_wrap(&right, buf_text(is), is->n, half);
    const char *a = buf_text(&left), *b = buf_text(&right);
    do {
        a = put_cell(p, out, a, half, style_of(was));
        buf_str(out, " │ ");
        b = put_cell(p, out, b, half, style_of(is));
        buf_char(out, '\n');
    } while (*a || *b);
    buf_deinit(&left);
    buf_deinit(&right);
}

/* What goes stands on the left, what comes on the right, and a line that stays in both; what is said about the program goes through
 * both. */
static void side_by_side(const Parts *p, Buf *out, const Part *part)
{
    Buf line = {0}, next = {0};
    const Buf nothing = {0};
    const char *at = part->text, *end = at + part->n;
    while (at < end) {
        const char *behind = take_line(at, end, &line);
        if (has_sign(&line, '-')) {
            const char *after = take_line(behind, end, &next);
            bool pair = has_sign(&next, '+');
            put_pair(p, out, &line, pair ? &next : &nothing);
            behind = pair ? after : behind;
        } else if (has_sign(&line, '+') || has_sign(&line, '>')) {
            put_pair(p, out, &nothing, &line);
        } else if (has_sign(&line, ' ') && !is_fold(&line)) {
            put_pair(p, out, &line, &line);
        } else {
            buf_bytes(out, at, (size_t)(behind - at));
        }
        at = behind;
    }
    buf_deinit(&line);
    buf_deinit(&next);
}

/* Whether the part says what changed. */
static bool is_difference(const Part *part)
{
    Buf line = {0};
    bool found = false;
    for (const char *at = part->text, *end = at + part->n; at < end && !found;) {
        at = take_line(at, end, &line);
        found = has_sign(&line, '-') || has_sign(&line, '+') || has_sign(&line, '>');
    }
    buf_deinit(&line);
    return found;
}

/* A screen that became wider or narrower shows as many columns as fit there, until somebody chooses. */
static bool in_two(const Parts *p)
{
    return p->chosen ? p->two : p->columns >= WIDE;
}

static void draw(Parts *p)
{
    Buf lines = {0}, title = {0}, beside = {0};
    const Part *part = &p->all.at[p->at];
    term_size(p->term, &p->columns, &p->rows);
    Part shown = *part;
    bool difference = p->at && is_difference(part);
    if (difference && in_two(p)) {
        side_by_side(p, &beside, part);
        shown = (Part){buf_text(&beside), beside.n};
    }
    term_wrap(&lines, shown.text, shown.n, p->columns - 1);
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
    put_bar(p, difference
                   ? " → forward   ← back   ↑ ↓ lines   c columns   Home all   End last   q leave"
                   : " → forward   ← back   ↑ ↓ lines   Home all   End last   q leave");
    term_write(p->term, &p->out);
    buf_deinit(&lines);
    buf_deinit(&title);
    buf_deinit(&beside);
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
    if (key.mods == MOD_CTRL && key.code == 'z')
        term_suspend_screen(p->term, &p->out);
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
    case 'c':
        p->two = !in_two(p);
        p->chosen = true;
        break;
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
    bool shows = p.all.n > 1 && p.all.at[0].n && pager_needed(t, text);
    if (shows)
        look(&p);
    buf_deinit(&p.out);
    arena_deinit(&p.arena);
    return shows;
}

bool parts_beside(const Buf *text, int columns, bool color, Buf *out)
{
    Parts p = {.color = color, .columns = columns};
    bool found = false;
    arena_init(&p.arena, NULL);
    split(&p, text);
    for (size_t i = 0; i < p.all.n && p.columns >= WIDE_ANSWER; i++) {
        const Part *part = &p.all.at[i];
        bool difference = is_difference(part);
        found |= difference;
        if (difference)
            side_by_side(&p, out, part);
        else
            term_wrap(out, part->text, part->n, p.columns);
    }
    arena_deinit(&p.arena);
    return found;
}
