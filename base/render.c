#include "base/render.h"

#include "base/utf8.h"
#include "base/vec.h"

#include <limits.h>
#include <string.h>

/* Where a line of source is wider than the screen, or than this, only the part around its marks is shown. */
#define LINE_MOST 120
/* On a narrow screen so much is shown all the same. */
#define LINE_LEAST 40
/* Prose is not broken into shorter lines than this. */
#define PROSE_LEAST 24
/* Columns kept free before the first mark of such a line. */
#define LINE_LEAD 20
#define TAB 4

/* --- One layout, painted as plain text, with terminal colours or as HTML. */

typedef enum Ink { INK_PLAIN, INK_ERROR, INK_WARNING, INK_NOTE, INK_HELP, INK_FRAME, INK_BOLD } Ink;
typedef enum Paper { PAPER_TEXT, PAPER_ANSI, PAPER_HTML } Paper;

typedef struct Painter {
    Buf *out;
    Paper paper;
    int width; /* 0: lines are not broken */
} Painter;

static const struct {
    const char *ansi, *html;
} inks[] = {
    [INK_PLAIN] = {"", ""},
    [INK_ERROR] = {"\x1b[1;31m", "font-weight:bold;color:var(--relay-error,"
                                 "var(--jp-error-color1,#d32f2f))"},
    [INK_WARNING] = {"\x1b[1;33m", "font-weight:bold;color:var(--relay-warning,"
                                   "var(--jp-warn-color1,#b26a00))"},
    [INK_NOTE] = {"\x1b[1;36m", "font-weight:bold;color:var(--relay-note,"
                                "var(--jp-info-color1,#00838f))"},
    [INK_HELP] = {"\x1b[1;32m", "font-weight:bold;color:var(--relay-help,"
                                "var(--jp-success-color1,#388e3c))"},
    [INK_FRAME] = {"\x1b[1;34m", "color:var(--relay-frame,var(--jp-brand-color1,#1976d2))"},
    [INK_BOLD] = {"\x1b[1m", "font-weight:bold"},
};

static void ink_on(Painter *p, Ink ink)
{
    if (ink == INK_PLAIN || p->paper == PAPER_TEXT)
        return;
    if (p->paper == PAPER_ANSI)
        buf_str(p->out, inks[ink].ansi);
    else
        buf_printf(p->out, "<span style=\"%s\">", inks[ink].html);
}

static void ink_off(Painter *p, Ink ink)
{
    if (ink == INK_PLAIN || p->paper == PAPER_TEXT)
        return;
    buf_str(p->out, p->paper == PAPER_ANSI ? "\x1b[0m" : "</span>");
}

/* What stands for a code point: controls are shown as pictures and direction overrides as a
 * replacement, so that no source text steers the terminal or hides what it says. */
static uint32_t visible(uint32_t code)
{
    if (code < 0x20)
        return 0x2400 + code;
    if (code == 0x7f)
        return 0x2421;
    bool hidden = (code >= 0x80 && code < 0xa0) || (code >= 0x202a && code <= 0x202e) ||
                  (code >= 0x2066 && code <= 0x2069);
    return hidden ? 0xfffd : code;
}

static void paint_code(Painter *p, uint32_t code)
{
    char bytes[4];
    size_t n = utf8_encode(visible(code), bytes);
    if (p->paper == PAPER_HTML)
        buf_html(p->out, bytes, n);
    else
        buf_bytes(p->out, bytes, n);
}

/* Whether the word behind the blank at `text` goes beyond the screen, and fits a line of its own. */
static bool is_too_far(const Painter *p, const char *text, size_t column, size_t indent)
{
    size_t width = (size_t)p->width, word = 1;
    if (p->width == 0 || indent + PROSE_LEAST > width || column <= indent)
        return false;
    for (const char *at = text + 1; *at && *at != ' ' && *at != '\n';) {
        uint32_t code;
        at += utf8_decode(at, strlen(at) < 4 ? strlen(at) : 4, &code);
        word += (size_t)utf8_width(visible(code));
    }
    return column + word > width && indent + word <= width;
}

/* A message that begins in a column: further lines of it are indented by `indent`. */
static void paint_message(Painter *p, const char *text, size_t column, size_t indent)
{
    for (size_t i = 0, n = strlen(text); i < n;) {
        uint32_t code;
        size_t at = i;
        i += utf8_decode(text + i, n - i, &code);
        bool breaks = code == '\n' || (code == ' ' && is_too_far(p, text + at, column, indent));
        if (!breaks) {
            paint_code(p, code);
            column += (size_t)utf8_width(visible(code));
            continue;
        }
        buf_char(p->out, '\n');
        buf_repeat(p->out, ' ', indent);
        column = indent;
    }
}

/* The same of one that begins where its further lines do. */
static void paint_text(Painter *p, const char *text, size_t indent)
{
    paint_message(p, text, indent, indent);
}

static void paint(Painter *p, Ink ink, const char *text)
{
    ink_on(p, ink);
    paint_text(p, text, 0);
    ink_off(p, ink);
}

/* --- Marks: the parts of single lines that are underlined. A span of several lines has one on its
 * first line and one on its last. */

typedef struct Mark {
    uint32_t source, line;
    size_t from, to; /* bytes of the line */
    const char *text; /* NULL: none, or it stands at another mark */
    bool primary;
    size_t left, right; /* columns within what is shown of the line */
} Mark;

typedef struct Picture {
    Painter painter;
    SourceMap *sources;
    Arena arena;
    Vec(Mark) marks;
    Ink ink; /* of the primary marks */
    int gutter; /* digits of the largest line number */
} Picture;

static size_t indentation(const char *text, size_t len)
{
    size_t i = 0;
    while (i < len && (text[i] == ' ' || text[i] == '\t'))
        i++;
    return i;
}

/* A place as a line and a byte of it. */
typedef struct Place {
    uint32_t line;
    size_t byte;
} Place;

static Place place_of(Picture *pic, uint32_t source, uint32_t offset, uint32_t line)
{
    const char *text;
    size_t len;
    const Source *s = sources_get(pic->sources, source);
    source_line(pic->sources, source, line, &text, &len);
    size_t at = offset < s->len ? offset : s->len, start = (size_t)(text - s->text);
    return (Place){line, at - start < len ? at - start : len};
}

/* The place of the last character, for a span that ends with a line's end: not the next line. */
static Place last_place(Picture *pic, Span span, uint32_t first_line)
{
    uint32_t line = span_end(pic->sources, span).line;
    Place to = place_of(pic, span.source, span.to, line);
    if (to.line <= first_line || to.byte > 0)
        return to;
    return place_of(pic, span.source, span.to, line - 1);
}

static void add_marks(Picture *pic, Span span, const char *text, bool primary)
{
    if (!sources_get(pic->sources, span.source))
        return;
    if (span.to < span.from)
        span.to = span.from;
    Place from = place_of(pic, span.source, span.from, span_start(pic->sources, span).line);
    Place to = last_place(pic, span, from.line);
    text = text && text[0] ? text : NULL;
    Mark mark = {.source = span.source, .line = from.line, .text = text, .primary = primary};
    mark.from = from.byte;
    mark.to = to.byte;
    if (from.line == to.line) {
        vec_push(&pic->marks, &pic->arena, mark);
        return;
    }
    const char *line;
    size_t len;
    size_t end = mark.to;
    source_line(pic->sources, span.source, from.line, &line, &len);
    mark.to = len;
    mark.text = NULL;
    vec_push(&pic->marks, &pic->arena, mark);
    source_line(pic->sources, span.source, to.line, &line, &len);
    mark.line = to.line;
    mark.from = indentation(line, len);
    mark.to = end;
    if (mark.from > mark.to)
        mark.from = 0;
    mark.text = text;
    vec_push(&pic->marks, &pic->arena, mark);
}

/* --- Columns of a line: tabs go to the next multiple of TAB, controls and lone combining marks
 * take one. */

static size_t column_after(size_t column, uint32_t code)
{
    if (code == '\t')
        return column + TAB - column % TAB;
    return column + (size_t)utf8_width(visible(code));
}

static size_t column_of(const char *text, size_t len, size_t byte)
{
    size_t column = 0;
    for (size_t i = 0; i < len && i < byte;) {
        uint32_t code;
        size_t plain = i;
        while (i < len && i < byte && text[i] >= ' ' && text[i] <= '~')
            i++;
        column += i - plain;
        if (i == len || i >= byte)
            break;
        i += utf8_decode(text + i, len - i, &code);
        column = column_after(column, code);
    }
    return column;
}

/* The columns [from, to) of a line that are shown. Of a very long line, `text` is the part around the marks, `skipped` bytes
 * from its start. */
typedef struct Window {
    const char *text;
    size_t len, skipped;
    size_t from, to;
    bool cut_left, cut_right;
} Window;

#define CUT "..."
#define CUT_WIDTH 3
/* Bytes in front of and behind the first mark of a line that are looked at. */
#define LINE_BYTES 4096

static const Mark *center_of(const Mark *marks, size_t n)
{
    const Mark *center = n ? &marks[0] : NULL;
    for (size_t i = 1; i < n; i++) {
        if (marks[i].primary && !center->primary)
            center = &marks[i];
    }
    return center;
}

static size_t mark_column(const Window *w, size_t byte)
{
    return column_of(w->text, w->len, byte > w->skipped ? byte - w->skipped : 0);
}

/* The line, or the part of it around the byte. */
static void window_text(Window *w, Picture *pic, uint32_t source, uint32_t line, size_t byte)
{
    source_line(pic->sources, source, line, &w->text, &w->len);
    size_t from = byte > LINE_BYTES ? byte - LINE_BYTES : 0;
    while (from > 0 && ((unsigned char)w->text[from] & 0xc0) == 0x80)
        from--;
    w->skipped = from;
    w->text += from;
    w->len -= from;
    if (w->len > 2 * LINE_BYTES)
        w->len = 2 * LINE_BYTES;
}

/* The columns of a line of source that there is room for. */
static size_t room_of(const Picture *pic)
{
    int frame = pic->gutter + 4, width = pic->painter.width;
    if (width == 0)
        return LINE_MOST;
    return width - frame > LINE_LEAST ? (size_t)(width - frame) : LINE_LEAST;
}

static Window window_of(Picture *pic, uint32_t source, uint32_t line, const Mark *marks, size_t n)
{
    Window w = {0};
    const Mark *center = center_of(marks, n);
    window_text(&w, pic, source, line, center ? center->from : 0);
    size_t width = column_of(w.text, w.len, w.len), most = room_of(pic);
    size_t mark = center ? mark_column(&w, center->from) : 0;
    if (width > most && mark + LINE_LEAD > most - CUT_WIDTH)
        w.from = mark - LINE_LEAD;
    w.cut_left = w.from > 0;
    size_t left = most - (w.cut_left ? CUT_WIDTH : 0);
    w.cut_right = width - w.from > left;
    w.to = w.cut_right ? w.from + left - CUT_WIDTH : width;
    return w;
}

static void paint_line(Painter *p, const Window *w)
{
    if (w->cut_left)
        buf_str(p->out, CUT);
    size_t column = 0;
    for (size_t i = 0; i < w->len && column < w->to;) {
        uint32_t code;
        i += utf8_decode(w->text + i, w->len - i, &code);
        size_t next = column_after(column, code);
        if (next > w->to)
            break;
        if (code == '\t' || column < w->from)
            buf_repeat(p->out, ' ',
                       next > w->from ? next - (column > w->from ? column : w->from) : 0);
        else
            paint_code(p, code);
        column = next;
    }
    if (w->cut_right)
        buf_str(p->out, CUT);
}

/* Columns of a mark as shown; a mark of no width takes one column. */
static void place_mark(const Window *w, Mark *m)
{
    size_t shift = w->cut_left ? CUT_WIDTH : 0;
    size_t left = mark_column(w, m->from);
    size_t right = mark_column(w, m->to);
    if (left < w->from)
        left = w->from;
    if (left > w->to)
        left = w->to;
    if (right > w->to)
        right = w->to;
    if (right <= left)
        right = left + 1;
    m->left = left - w->from + shift;
    m->right = right - w->from + shift;
}

/* --- The frame */

static void paint_gutter(Picture *pic, uint32_t line)
{
    Painter *p = &pic->painter;
    ink_on(p, INK_FRAME);
    if (line > 0)
        buf_printf(p->out, " %*u |", pic->gutter, (unsigned)line);
    else
        buf_printf(p->out, " %*s |", pic->gutter, "");
    ink_off(p, INK_FRAME);
}

static Ink mark_ink(const Picture *pic, const Mark *m)
{
    return m->primary ? pic->ink : INK_FRAME;
}

/* Draws narrow marks over wide ones, so that a label within the place at fault is seen; of equals
 * the primary is on top. */
static void draw_marks(Picture *pic, char *row, const Mark *marks, size_t n)
{
    const Mark **order = arena_alloc_must(&pic->arena, n, sizeof *order);
    for (size_t i = 0; i < n; i++) {
        size_t width = marks[i].right - marks[i].left;
        size_t at = i;
        for (; at > 0; at--) {
            size_t other = order[at - 1]->right - order[at - 1]->left;
            if (other > width || (other == width && !order[at - 1]->primary))
                break;
            order[at] = order[at - 1];
        }
        order[at] = &marks[i];
    }
    for (size_t i = 0; i < n; i++)
        memset(row + order[i]->left, order[i]->primary ? '^' : '-',
               order[i]->right - order[i]->left);
}

/* The columns between that of a text's first line and the edge of the screen; a screen that nobody knows has no edge. */
static long room_behind(const Picture *pic, const char *text, size_t column)
{
    long width = pic->painter.width ? pic->painter.width : LONG_MAX / 2;
    return width - pic->gutter - 4 - (long)column -
           (long)utf8_text_width(text, strcspn(text, "\n"));
}

/* The row of `^^^` and `---`. The text of the rightmost mark follows on the same row when
 * nothing stands behind it: then that mark is returned. */
static const Mark *paint_marks(Picture *pic, const Mark *marks, size_t n)
{
    size_t width = 0;
    const Mark *last = NULL;
    for (size_t i = 0; i < n; i++) {
        if (marks[i].right >= width) {
            width = marks[i].right;
            last = &marks[i];
        }
    }
    char *row = arena_alloc_must(&pic->arena, width, 1);
    memset(row, ' ', width);
    draw_marks(pic, row, marks, n);
    Painter *p = &pic->painter;
    paint_gutter(pic, 0);
    buf_char(p->out, ' ');
    for (size_t i = 0; i < width;) {
        size_t from = i;
        while (i < width && row[i] == row[from])
            i++;
        Ink ink = row[from] == '^' ? pic->ink : row[from] == '-' ? INK_FRAME : INK_PLAIN;
        ink_on(p, ink);
        buf_repeat(p->out, row[from], i - from);
        ink_off(p, ink);
    }
    if (last && last->text && room_behind(pic, last->text, last->right + 1) < 0)
        last = NULL;
    if (last && last->text) {
        buf_char(p->out, ' ');
        ink_on(p, mark_ink(pic, last));
        paint_text(p, last->text, (size_t)pic->gutter + 4 + last->right + 1);
        ink_off(p, mark_ink(pic, last));
    }
    buf_char(p->out, '\n');
    return last && last->text ? last : NULL;
}

/* One row per remaining text, the rightmost first, with `|` leading down to those further left. */
static void paint_texts(Picture *pic, const Mark *marks, size_t n, const Mark *done)
{
    Painter *p = &pic->painter;
    Vec(const Mark *) left = {0};
    for (size_t i = 0; i < n; i++) {
        if (&marks[i] != done && marks[i].text)
            vec_push(&left, &pic->arena, &marks[i]);
    }
    /* By column; equal ones keep their order, so that the first said is the first read. */
    for (size_t i = 1; i < left.n; i++) {
        for (size_t k = i; k > 0 && left.at[k - 1]->left > left.at[k]->left; k--) {
            const Mark *m = left.at[k];
            left.at[k] = left.at[k - 1];
            left.at[k - 1] = m;
        }
    }
    while (left.n > 0) {
        size_t at = left.n - 1;
        while (at > 0 && left.at[at - 1]->left == left.at[at]->left)
            at--;
        const Mark *m = left.at[at];
        paint_gutter(pic, 0);
        size_t column = 0;
        buf_char(p->out, ' ');
        for (size_t i = 0; i < at; i++) {
            if (left.at[i]->left < column)
                continue;
            buf_repeat(p->out, ' ', left.at[i]->left - column);
            paint(p, mark_ink(pic, left.at[i]), "|");
            column = left.at[i]->left + 1;
        }
        /* What would go over the edge begins further left, as far as the bars leave room. */
        long over = room_behind(pic, m->text, m->left), most = (long)m->left - (long)column - 1;
        long back = over >= 0 || most <= 0 ? 0 : -over < most ? -over : most;
        size_t left_of = m->left - (size_t)back;
        buf_repeat(p->out, ' ', left_of - column);
        ink_on(p, mark_ink(pic, m));
        paint_text(p, m->text, (size_t)pic->gutter + 4 + left_of);
        ink_off(p, mark_ink(pic, m));
        buf_char(p->out, '\n');
        memmove(left.at + at, left.at + at + 1, (left.n - at - 1) * sizeof *left.at);
        left.n--;
    }
}

/* In front of what is shown of the line: -1, behind it: 1. */
static int side_of(const Window *w, const Mark *m)
{
    size_t left = mark_column(w, m->from), right = mark_column(w, m->to);
    return right <= w->from && left < w->from ? -1 : left >= w->to && w->cut_right ? 1 : 0;
}

static void paint_source_line(Picture *pic, uint32_t source, uint32_t line, Mark *marks, size_t n);

/* The marks that what is shown of the line does not reach: the line is shown for them once more. */
static void paint_side(Picture *pic, const Window *w, const Mark *marks, size_t n, int side)
{
    Vec(Mark) there = {0};
    for (size_t i = 0; i < n; i++)
        if (side_of(w, &marks[i]) == side)
            vec_push(&there, &pic->arena, marks[i]);
    if (there.n)
        paint_source_line(pic, marks->source, marks->line, there.at, there.n);
}

static void paint_window(Picture *pic, const Window *w, uint32_t line, const Mark *all, size_t n)
{
    Painter *p = &pic->painter;
    Vec(Mark) here = {0};
    for (size_t i = 0; i < n; i++)
        if (side_of(w, &all[i]) == 0)
            vec_push(&here, &pic->arena, all[i]);
    paint_gutter(pic, line);
    if (w->len > 0)
        buf_char(p->out, ' ');
    paint_line(p, w);
    buf_char(p->out, '\n');
    for (size_t i = 0; i < here.n; i++)
        place_mark(w, &here.at[i]);
    if (here.n) {
        const Mark *done = paint_marks(pic, here.at, here.n);
        paint_texts(pic, here.at, here.n, done);
    }
}

/* A line of source and, when it has marks, what stands below it. */
static void paint_source_line(Picture *pic, uint32_t source, uint32_t line, Mark *marks, size_t n)
{
    Window w = window_of(pic, source, line, marks, n);
    paint_side(pic, &w, marks, n, -1);
    paint_window(pic, &w, line, marks, n);
    paint_side(pic, &w, marks, n, 1);
}

/* The marks of one source: its lines in order, a single line between two of them shown, more left
 * out. */
static void paint_snippet(Picture *pic, Mark *marks, size_t n)
{
    Painter *p = &pic->painter;
    uint32_t before = 0;
    for (size_t i = 0; i < n;) {
        size_t from = i;
        while (i < n && marks[i].line == marks[from].line)
            i++;
        uint32_t line = marks[from].line;
        if (before > 0 && line == before + 2)
            paint_source_line(pic, marks[from].source, before + 1, NULL, 0);
        else if (before > 0 && line > before + 1)
            paint(p, INK_FRAME, CUT), buf_char(p->out, '\n');
        paint_source_line(pic, marks[from].source, line, marks + from, i - from);
        before = line;
    }
}

/* `--> name:line:column`, and an empty line of the frame. */
static void paint_place(Picture *pic, const char *arrow, Span span)
{
    Painter *p = &pic->painter;
    Position at = span_start(pic->sources, span);
    buf_repeat(p->out, ' ', (size_t)pic->gutter + 1);
    paint(p, INK_FRAME, arrow);
    buf_char(p->out, ' ');
    paint_text(p, sources_get(pic->sources, span.source)->name, 0);
    buf_printf(p->out, ":%u:%u\n", (unsigned)at.line, (unsigned)at.column);
    paint_gutter(pic, 0);
    buf_char(p->out, '\n');
}

/* Sorts by source, in the order in which the sources come up, then by line; the order is kept
 * otherwise. */
static void sort_marks(Picture *pic)
{
    Vec(Mark) sorted = {0};
    Mark *marks = pic->marks.at;
    for (size_t i = 0; i < pic->marks.n; i++) {
        bool seen = false;
        for (size_t k = 0; k < i && !seen; k++)
            seen = marks[k].source == marks[i].source;
        if (seen)
            continue;
        size_t from = sorted.n;
        for (size_t k = i; k < pic->marks.n; k++) {
            if (marks[k].source != marks[i].source)
                continue;
            vec_push(&sorted, &pic->arena, marks[k]);
            for (size_t j = sorted.n - 1; j > from && sorted.at[j - 1].line > sorted.at[j].line;
                 j--) {
                Mark m = sorted.at[j];
                sorted.at[j] = sorted.at[j - 1];
                sorted.at[j - 1] = m;
            }
        }
    }
    memcpy(pic->marks.at, sorted.at, sorted.n * sizeof *sorted.at);
}

/* Where a further source is shown from: the first label in it. */
static Span place_in(const Diag *d, uint32_t source)
{
    if (d->span.source == source)
        return d->span;
    const DiagLabel *l = d->labels;
    while (l->span.source != source)
        l = l->next;
    return l->span;
}

static void paint_places(Picture *pic, const Diag *d)
{
    add_marks(pic, d->span, NULL, true);
    for (const DiagLabel *l = d->labels; l; l = l->next)
        add_marks(pic, l->span, l->text, false);
    if (pic->marks.n == 0)
        return;
    sort_marks(pic);
    uint32_t largest = 0;
    for (size_t i = 0; i < pic->marks.n; i++)
        largest = pic->marks.at[i].line > largest ? pic->marks.at[i].line : largest;
    pic->gutter = 0;
    for (; largest > 0; largest /= 10)
        pic->gutter++;
    for (size_t i = 0; i < pic->marks.n;) {
        size_t from = i;
        uint32_t source = pic->marks.at[from].source;
        while (i < pic->marks.n && pic->marks.at[i].source == source)
            i++;
        paint_place(pic, from == 0 ? "-->" : ":::", place_in(d, source));
        paint_snippet(pic, pic->marks.at + from, i - from);
    }
}

static const char *severity_name(Severity s)
{
    switch (s) {
    case SEVERITY_NOTE: return "note";
    case SEVERITY_WARNING: return "warning";
    case SEVERITY_ERROR: return "error";
    case SEVERITY_BUG: return "bug";
    }
    return "";
}

static Ink severity_ink(Severity s)
{
    switch (s) {
    case SEVERITY_NOTE: return INK_NOTE;
    case SEVERITY_WARNING: return INK_WARNING;
    case SEVERITY_ERROR: return INK_ERROR;
    case SEVERITY_BUG: return INK_ERROR;
    }
    return INK_PLAIN;
}

static void paint_texts_below(Painter *p, Ink ink, const char *word, const DiagText *list)
{
    for (const DiagText *t = list; t; t = t->next) {
        paint(p, ink, word);
        buf_str(p->out, ": ");
        paint_text(p, t->text, strlen(word) + 2);
        buf_char(p->out, '\n');
    }
}

static void render(Painter painter, SourceMap *sources, const Diag *d)
{
    Picture pic = {.painter = painter, .sources = sources, .ink = severity_ink(d->severity)};
    arena_init(&pic.arena, NULL);
    ink_on(&painter, pic.ink);
    buf_printf(painter.out, "%s[%s]", severity_name(d->severity), diag_info(d->code)->code);
    ink_off(&painter, pic.ink);
    ink_on(&painter, INK_BOLD);
    buf_str(painter.out, ": ");
    paint_message(&painter, d->message, strlen(severity_name(d->severity)) + 9, 2);
    ink_off(&painter, INK_BOLD);
    buf_char(painter.out, '\n');
    paint_places(&pic, d);
    paint_texts_below(&painter, INK_NOTE, "note", d->notes);
    paint_texts_below(&painter, INK_HELP, "help", d->helps);
    arena_deinit(&pic.arena);
}

void render_text(Buf *out, SourceMap *sources, const Diag *d, RenderStyle style)
{
    render((Painter){out, style.color ? PAPER_ANSI : PAPER_TEXT, style.width}, sources, d);
}

static void html_begin(Buf *out, const Diag *d)
{
    buf_printf(
        out,
        "<pre class=\"relay-diagnostic relay-%s\" style=\"margin:0;white-space:pre;overflow-x:auto;"
        "background:none;line-height:1.35;font-family:var(--jp-code-font-family,monospace);"
        "font-size:var(--jp-code-font-size,inherit)\">",
        severity_name(d->severity));
}

void render_places(Buf *out, SourceMap *sources, const Diag *d, RenderStyle style)
{
    Painter painter = {out,
                       style.html    ? PAPER_HTML
                       : style.color ? PAPER_ANSI
                                     : PAPER_TEXT,
                       style.width};
    Picture pic = {.painter = painter, .sources = sources, .ink = severity_ink(d->severity)};
    if (style.html)
        html_begin(out, d);
    arena_init(&pic.arena, NULL);
    paint_places(&pic, d);
    arena_deinit(&pic.arena);
    if (style.html)
        buf_str(out, "</pre>");
}

void render_html(Buf *out, SourceMap *sources, const Diag *d)
{
    html_begin(out, d);
    render((Painter){.out = out, .paper = PAPER_HTML}, sources, d);
    buf_str(out, "</pre>");
}

/* --- JSON */

static void json_text(Buf *out, const char *text)
{
    buf_char(out, '"');
    buf_json(out, text, strlen(text));
    buf_char(out, '"');
}

static void json_place(Buf *out, SourceMap *sources, Span span)
{
    Position from = span_start(sources, span), to = span_end(sources, span);
    buf_str(out, "\"file\": ");
    json_text(out, sources_get(sources, span.source)->name);
    buf_printf(out, ", \"line\": %u, \"column\": %u, \"end_line\": %u, \"end_column\": %u",
               (unsigned)from.line, (unsigned)from.column, (unsigned)to.line, (unsigned)to.column);
}

static void json_labels(Buf *out, SourceMap *sources, const Diag *d)
{
    const char *comma = ", \"labels\": [";
    for (const DiagLabel *l = d->labels; l; l = l->next) {
        if (!sources_get(sources, l->span.source))
            continue;
        buf_printf(out, "%s{\"message\": ", comma);
        json_text(out, l->text);
        buf_str(out, ", ");
        json_place(out, sources, l->span);
        buf_char(out, '}');
        comma = ", ";
    }
    if (comma[2] == '\0')
        buf_char(out, ']');
}

void render_json(Buf *out, SourceMap *sources, const Diag *d)
{
    buf_printf(out,
               "{\"severity\": \"%s\", \"code\": \"%s\", \"message\": ", severity_name(d->severity),
               diag_info(d->code)->code);
    json_text(out, d->message);
    if (sources_get(sources, d->span.source)) {
        buf_str(out, ", ");
        json_place(out, sources, d->span);
    }
    json_labels(out, sources, d);
    buf_str(out, ", \"notes\": [");
    for (const DiagText *t = d->notes; t; t = t->next) {
        json_text(out, t->text);
        buf_str(out, t->next ? ", " : "");
    }
    buf_char(out, ']');
    if (d->helps)
        buf_str(out, ", \"help\": \"");
    for (const DiagText *t = d->helps; t; t = t->next) {
        buf_json(out, t->text, strlen(t->text));
        buf_str(out, t->next ? "\\n" : "\"");
    }
    buf_char(out, '}');
}
