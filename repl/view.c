#include "repl/view.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

enum { TAB_COLUMNS = 4 };

void view_deinit(View *v)
{
    free(v->layout);
    buf_deinit(&v->out);
}

void view_start(View *v)
{
    v->height = v->cursor_row = 0;
}

/* ---- layout -------------------------------------------------------------------------------- */

/* A screen too narrow for the prompt goes without. */
static int prompt_width(const View *v)
{
    int width = (int)utf8_text_width(v->prompt, strlen(v->prompt));
    return width + 4 <= v->columns ? width : 0;
}

/* The columns of the character at `at`, when it stands in column `column` of its line; `*size`
 * receives its bytes. */
static int cell_width(const ViewScene *s, size_t at, int column, size_t *size)
{
    uint32_t code;
    *size = utf8_decode(s->text + at, s->n - at, &code);
    if (code == '\t')
        return TAB_COLUMNS - column % TAB_COLUMNS;
    if (code < 32 || code == 127)
        return 2;
    return utf8_width(code);
}

static bool add_row(View *v, ViewRow row)
{
    if (v->n_layout == v->cap_layout) {
        int cap = v->cap_layout ? v->cap_layout * 2 : 64;
        ViewRow *grown = memory_resize(v->layout, (size_t)cap * sizeof *grown);
        if (!grown)
            return false;
        v->layout = grown;
        v->cap_layout = cap;
    }
    v->layout[v->n_layout++] = row;
    return true;
}

static void place_cursor(View *v, int column)
{
    v->cursor_at = v->n_layout;
    v->cursor_column = column;
}

/* Lays out one line from `at` to its end, and returns where that is. */
static size_t lay_line(View *v, const ViewScene *s, size_t at)
{
    int prompt = prompt_width(v), used = prompt, column = 0;
    ViewRow row = {.from = at, .to = at, .starts = true};
    for (size_t size; at < s->n && s->text[at] != '\n'; at += size) {
        int width = cell_width(s, at, column, &size);
        if (used + width > v->columns) {
            row.to = at;
            row.wraps = true;
            add_row(v, row);
            row = (ViewRow){.from = at, .column = column};
            used = 0;
        }
        if (at == s->cursor)
            place_cursor(v, used);
        used += width;
        column += width;
    }
    row.to = at;
    if (at == s->cursor && used >= v->columns) {
        row.wraps = true;
        add_row(v, row);
        row = (ViewRow){.from = at, .to = at};
        used = 0;
    }
    if (at == s->cursor)
        place_cursor(v, used);
    add_row(v, row);
    return at;
}

static void lay_out(View *v, const ViewScene *s)
{
    term_size(v->term, &v->columns, &v->rows);
    v->n_layout = 0;
    v->cursor_at = v->cursor_column = 0;
    for (size_t at = 0;; at++) {
        at = lay_line(v, s, at);
        if (at >= s->n)
            break;
    }
}

/* ---- drawing ------------------------------------------------------------------------------- */

static void set_style(View *v, TermStyle *now, TermStyle style)
{
    if (style != *now)
        term_style(&v->out, style);
    *now = style;
}

static TermStyle style_at(const View *v, const ViewScene *s, size_t at)
{
    TermStyle style = v->color && s->styles ? (unsigned char)s->styles[at] : STYLE_PLAIN;
    if (at >= s->mark_from && at < s->mark_to)
        style |= STYLE_UNDERLINE | STYLE_BOLD;
    return style;
}

static void draw_cell(View *v, const ViewScene *s, size_t at, size_t size, int width)
{
    unsigned char c = (unsigned char)s->text[at];
    if (c == '\t') {
        buf_repeat(&v->out, ' ', (size_t)width);
    } else if (c < 32 || c == 127) {
        buf_char(&v->out, '^');
        buf_char(&v->out, (char)(c ^ 64));
    } else if (size == 1 && c >= 128) {
        buf_str(&v->out, "\xef\xbf\xbd");
    } else {
        buf_bytes(&v->out, s->text + at, size);
    }
}

static void draw_prompt(View *v, const ViewRow *row, TermStyle *now)
{
    if (!row->starts || prompt_width(v) == 0)
        return;
    if (v->color)
        set_style(v, now, row->from == 0 ? STYLE_BLUE | STYLE_BOLD : STYLE_DIM);
    buf_str(&v->out, row->from == 0 ? v->prompt : v->more);
}

/* The row with its prompt, up to `to`; returns the columns that this takes. */
static int draw_text(View *v, const ViewScene *s, const ViewRow *row, size_t to)
{
    TermStyle now = STYLE_PLAIN;
    int used = row->starts ? prompt_width(v) : 0, column = row->column;
    draw_prompt(v, row, &now);
    for (size_t at = row->from, size; at < to; at += size) {
        int width = cell_width(s, at, column, &size);
        set_style(v, &now, style_at(v, s, at));
        draw_cell(v, s, at, size, width);
        used += width;
        column += width;
    }
    set_style(v, &now, STYLE_PLAIN);
    return used;
}

static void draw_row(View *v, const ViewScene *s, int index)
{
    const ViewRow *row = &v->layout[index];
    /* Only something printed makes the terminal begin the row behind a full one. */
    if (!row->starts && row->from == row->to)
        buf_str(&v->out, " \r");
    int used = draw_text(v, s, row, row->to);
    /* A terminal that has just filled its last column would clear that one. */
    if (used < v->columns && !row->wraps)
        term_clear_line(&v->out);
    else if (used < v->columns)
        buf_repeat(&v->out, ' ', (size_t)(v->columns - used));
}

static int panel_lines(const ViewScene *s)
{
    int n = 0;
    for (size_t i = 0; i < s->panel_n; i++)
        n += s->panel[i] == '\n';
    return n;
}

/* At most `most` lines, each clipped to the screen; one column stays free, so that none ever
 * wraps. */
static void draw_panel(View *v, const ViewScene *s, int most)
{
    const char *p = s->panel;
    for (int i = 0; i < most; i++) {
        const char *end = memchr(p, '\n', s->panel_n - (size_t)(p - s->panel));
        buf_str(&v->out, "\r\n");
        term_clip(&v->out, p, (size_t)(end - p), v->columns - 1);
        term_style(&v->out, STYLE_PLAIN);
        term_clear_line(&v->out);
        p = end + 1;
    }
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

static int most(int a, int b)
{
    return a > b ? a : b;
}

/* How wide a character is that is joined of several, each terminal decides for itself. */
static bool any_joined(const ViewScene *s, size_t from, size_t to)
{
    for (size_t n; from < to; from += n) {
        uint32_t code;
        n = utf8_cluster(s->text + from, to - from);
        utf8_decode(s->text + from, n, &code);
        if (code >= 128 && (int)utf8_text_width(s->text + from, n) != utf8_width(code))
            return true;
    }
    return false;
}

/* In the row of the cursor, whose text is on the screen. */
static void go_to_cursor(View *v, const ViewScene *s)
{
    const ViewRow *row = &v->layout[v->cursor_at];
    term_column(&v->out, 0);
    if (any_joined(s, row->from, s->cursor))
        draw_text(v, s, row, s->cursor);
    else
        term_column(&v->out, v->cursor_column);
}

/* Draws from the row where the cursor stands, which is the first of the view. */
static void draw_all(View *v, const ViewScene *s)
{
    int panel = least(panel_lines(s), most(v->rows / 2, v->rows - v->n_layout));
    int window = least(v->n_layout, v->rows - panel);
    int first = least(most(0, v->cursor_at - window + 1), v->n_layout - window);
    if (window + panel < v->height)
        term_clear_below(&v->out);
    for (int i = first; i < first + window; i++) {
        draw_row(v, s, i);
        if (i + 1 < first + window && !v->layout[i].wraps)
            buf_str(&v->out, "\r\n");
    }
    draw_panel(v, s, panel);
    term_up(&v->out, window + panel - 1 - (v->cursor_at - first));
    go_to_cursor(v, s);
    v->height = window + panel;
    v->cursor_row = v->cursor_at - first;
}

static void flush(View *v)
{
    term_show_cursor(&v->out);
    term_write(v->term, &v->out);
}

void view_draw(View *v, const ViewScene *scene)
{
    lay_out(v, scene);
    term_hide_cursor(&v->out);
    term_up(&v->out, v->cursor_row);
    term_column(&v->out, 0);
    draw_all(v, scene);
    flush(v);
}

void view_resize(View *v, const ViewScene *scene)
{
    /* Terminals keep the cursor on its character and wrap lines anew, just as the layout does. */
    lay_out(v, scene);
    v->cursor_row = least(v->cursor_at, v->rows - 1);
    v->height = v->rows;
    view_draw(v, scene);
}

void view_finish(View *v, const ViewScene *scene)
{
    ViewScene last = *scene;
    last.cursor = last.n;
    last.panel_n = 0;
    last.mark_from = last.mark_to = 0;
    view_draw(v, &last);
    buf_str(&v->out, "\r\n");
    term_write(v->term, &v->out);
    view_start(v);
}
