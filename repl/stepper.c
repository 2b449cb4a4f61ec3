#include "repl/stepper.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "repl/highlight.h"

#include <stdlib.h>
#include <string.h>

enum { LEAST_SIDE = 24, SOURCE_SHARE = 60 /* of the columns, in hundredths */ };

/* What a key wants: another step that is kept, or the evaluation to go on. */
typedef enum Next { NEXT_KEY, NEXT_GO, NEXT_LEAVE } Next;

struct Stepper {
    Term *term;
    bool color, open;
    RelaySteps *steps;
    uint64_t at;            /* the step that is shown */
    RelayGo go;
    uint32_t line;          /* that the arrow points at; 0: none */
    bool help;
    Buf out, styles;
};

Stepper *stepper_new(Term *term, bool color)
{
    Stepper *s = memory_zeroed(1, sizeof *s);
    if (!s)
        return NULL;
    s->term = term;
    s->color = color;
    return s;
}

void stepper_free(Stepper *s)
{
    if (!s)
        return;
    stepper_close(s);
    buf_deinit(&s->out);
    buf_deinit(&s->styles);
    free(s);
}

void stepper_close(Stepper *s)
{
    if (!s || !s->open)
        return;
    term_other_screen(&s->out, false);
    term_show_cursor(&s->out);
    term_write(s->term, &s->out);
    term_leave(s->term);
    s->open = false;
    s->help = false;
}

static void open_screen(Stepper *s)
{
    term_edit(s->term);
    if (s->open)
        return;
    term_other_screen(&s->out, true);
    term_hide_cursor(&s->out);
    s->open = true;
}

/* ---- drawing --------------------------------------------------------------------------------------- */

typedef struct Screen {
    Stepper *s;
    const RelayStepView *v;
    int columns, rows, row; /* row: the next to be drawn */
} Screen;

/* One row: text up to the right edge, and nothing behind it. */
static void put_row(Screen *c, const Buf *text)
{
    Buf *out = &c->s->out;
    if (c->row >= c->rows)
        return;
    if (c->row > 0)
        buf_str(out, "\r\n");
    term_clip(out, buf_text(text), text->n, c->columns - 1);
    term_style(out, STYLE_PLAIN);
    term_clear_line(out);
    c->row++;
}

static void rule_row(Screen *c, int split, const char *joint)
{
    Buf b = {0};
    if (c->s->color)
        term_style(&b, STYLE_DIM);
    for (int i = 0; i < c->columns - 1; i++)
        buf_str(&b, i == split ? joint : "─");
    put_row(c, &b);
    buf_deinit(&b);
}

static void title_row(Screen *c)
{
    Buf b = {0};
    const char *newline = strchr(c->v->calls, '\n');
    term_style(&b, STYLE_REVERSE | STYLE_BOLD);
    buf_printf(&b, " step %llu", (unsigned long long)c->s->at);
    if (relay_steps_done(c->s->steps))
        buf_printf(&b, " of %llu", (unsigned long long)relay_steps_end(c->s->steps) - 1);
    buf_str(&b, c->v->why[0] ? "  " : "");
    buf_str(&b, c->v->why);
    buf_str(&b, "  in ");
    buf_bytes(&b, c->v->calls, newline ? (size_t)(newline - c->v->calls) : strlen(c->v->calls));
    int width = 0;
    Buf plain = {0};
    term_strip(&plain, buf_text(&b), b.n);
    width = (int)utf8_text_width(buf_text(&plain), plain.n);
    if (width < c->columns - 1)
        buf_repeat(&b, ' ', (size_t)(c->columns - 1 - width));
    put_row(c, &b);
    buf_deinit(&plain);
    buf_deinit(&b);
}

/* A row of the source: a line, or what of it did not fit into the row before. */
typedef struct Row {
    size_t from, to;
    uint32_t number; /* of the line; 0: it goes on */
} Row;

typedef struct Rows {
    Row *at;
    int n, cap, marked; /* marked: the first with something of the step's expression */
} Rows;

enum { NUMBER_COLUMNS = 6 };

/* A row of the source into the left half, with its number and the marked bytes. */
static void source_row(Screen *c, Buf *b, const Row *row, int columns)
{
    const RelayStepView *v = c->v;
    Buf text = {0};
    if (c->s->color)
        term_style(&text, STYLE_DIM);
    if (row->number)
        buf_printf(&text, "%s%4u ", row->number == c->s->line ? "→" : " ", row->number);
    else
        buf_repeat(&text, ' ', NUMBER_COLUMNS);
    TermStyle now = STYLE_PLAIN;
    term_style(&text, now);
    for (size_t i = row->from; i < row->to; i++) {
        size_t at = i - v->begin;
        bool painted = c->s->color && at < c->s->styles.n;
        TermStyle wanted = painted ? (unsigned char)c->s->styles.at[at] : STYLE_PLAIN;
        if (i >= v->from && i < v->to)
            wanted = STYLE_REVERSE;
        if (wanted != now)
            term_style(&text, wanted);
        now = wanted;
        buf_char(&text, v->source[i] == '\t' ? ' ' : v->source[i]);
    }
    int used = term_clip(b, buf_text(&text), text.n, columns);
    term_style(b, STYLE_PLAIN);
    buf_repeat(b, ' ', (size_t)(columns - used));
    buf_deinit(&text);
}

static uint32_t line_number(const RelayStepView *v, size_t at)
{
    uint32_t line = v->first_line;
    for (size_t i = 0; i < at; i++)
        line += v->source[i] == '\n';
    return line;
}

/* Bytes of the text that fit into so many columns, up to a blank where there is one in their second half; at least one character. */
static size_t fitting(const char *text, size_t n, int columns)
{
    size_t at = 0, size, word = 0;
    int used = 0;
    for (; at < n; at += size) {
        uint32_t code;
        size = utf8_decode(text + at, n - at, &code);
        int width = code < 32 ? 1 : utf8_width(code);
        if (used + width > columns && at > 0)
            return word > at / 2 ? word : at;
        used += width;
        word = code == ' ' ? at + 1 : word;
    }
    return n;
}

static void add_row(Rows *rows, Row row)
{
    if (rows->n == rows->cap) {
        int cap = rows->cap ? rows->cap * 2 : 64;
        Row *grown = memory_resize(rows->at, (size_t)cap * sizeof *grown);
        if (!grown)
            return;
        rows->at = grown;
        rows->cap = cap;
    }
    rows->at[rows->n++] = row;
}

static Rows find_rows(const RelayStepView *v, int columns)
{
    Rows rows = {.marked = -1};
    uint32_t number = line_number(v, v->begin);
    for (size_t from = v->begin; from <= v->end && v->source; number++) {
        size_t to = from + strcspn(v->source + from, "\n");
        to = to > v->end ? v->end : to;
        for (size_t at = from, n; at < to || at == from; at += n) {
            n = fitting(v->source + at, to - at, columns - NUMBER_COLUMNS);
            add_row(&rows, (Row){at, at + n, at == from ? number : 0});
            if (rows.marked < 0 && at + n > v->from)
                rows.marked = rows.n - 1;
            if (n == 0)
                break;
        }
        from = to + 1;
    }
    return rows;
}

/* The right half: variables, calls, references, one under the other. */
static void side_section(const Screen *c, Buf *side, int columns, const char *title,
                         const char *lines)
{
    if (!*lines)
        return;
    if (side->n)
        buf_char(side, '\n');
    if (c->s->color)
        term_style(side, STYLE_BOLD);
    buf_printf(side, "%s", title);
    term_style(side, STYLE_PLAIN);
    buf_char(side, '\n');
    for (const char *p = lines; *p;) {
        size_t n = strcspn(p, "\n");
        bool fresh = *p == '*', mark = fresh || *p == ' ';
        if (fresh && c->s->color)
            term_style(side, STYLE_YELLOW | STYLE_BOLD);
        for (size_t at = mark, k; at < n; at += k) {
            buf_str(side, at > mark ? "\n    " : fresh ? "*" : " ");
            k = fitting(p + at, n - at, at > mark ? columns - 4 : columns - 1);
            buf_bytes(side, p + at, k);
        }
        if (fresh && c->s->color)
            term_style(side, STYLE_PLAIN);
        buf_char(side, '\n');
        p += n + (p[n] == '\n');
    }
}

static void body_rows(Screen *c, int n, int left)
{
    Rows rows = find_rows(c->v, left);
    Buf side = {0};
    int right = c->columns - left - 3;
    side_section(c, &side, right, "variables", c->v->variables);
    side_section(c, &side, right, "calls", c->v->calls);
    side_section(c, &side, right, "references", c->v->cells);
    int first = rows.n > n ? rows.marked - n / 3 : 0;
    first = first > rows.n - n ? rows.n - n : first;
    first = first < 0 ? 0 : first;
    const char *p = buf_text(&side);
    for (int i = 0; i < n; i++) {
        Buf b = {0};
        if (first + i < rows.n)
            source_row(c, &b, &rows.at[first + i], left);
        else
            buf_repeat(&b, ' ', (size_t)left);
        if (c->s->color)
            term_style(&b, STYLE_DIM);
        buf_str(&b, "│ ");
        term_style(&b, STYLE_PLAIN);
        size_t k = strcspn(p, "\n");
        buf_bytes(&b, p, k);
        p += k + (p[k] == '\n');
        put_row(c, &b);
        buf_deinit(&b);
    }
    buf_deinit(&side);
    free(rows.at);
}

/* Words over as many rows as there are, broken at blanks; code between backquotes stands out. */
static void words_rows(Screen *c, const char *text, int rows)
{
    bool code = false;
    for (int i = 0; i < rows; i++) {
        size_t all = strlen(text), n = all;
        size_t room = (size_t)(c->columns > 4 ? c->columns - 3 : 1);
        if (utf8_text_width(text, n) > room) {
            n = utf8_offset(text, all, room);
            size_t cut = n;
            while (cut > 0 && text[cut] != ' ')
                cut--;
            n = cut ? cut : n;
        }
        Buf b = {0};
        buf_char(&b, ' ');
        if (code && c->s->color)
            term_style(&b, STYLE_CYAN | STYLE_BOLD);
        for (size_t k = 0; k < n; k++) {
            bool quote = text[k] == '`';
            code ^= quote;
            if (!quote || !c->s->color)
                buf_char(&b, text[k]);
            else
                term_style(&b, code ? STYLE_CYAN | STYLE_BOLD : STYLE_PLAIN);
        }
        put_row(c, &b);
        buf_deinit(&b);
        text += n + (text[n] == ' ');
    }
}

/* The statement with values in it: the step's own expression stands out, and what does not fit is left out around it. */
static void expression_row(Screen *c, const char *sign, const char *text, size_t from, size_t to,
                           TermStyle style)
{
    const char *p = text, *end = text + strlen(text);
    size_t room = (size_t)(c->columns > 9 ? c->columns - 6 : 3), skip = 0;
    size_t before = utf8_text_width(text, from), own = utf8_text_width(text + from, to - from);
    if (utf8_text_width(text, strlen(text)) > room && before + own > room)
        skip = own < room ? before + own - room + 2 : before > 2 ? before - 2 : 0;
    p += utf8_offset(text, strlen(text), skip);
    p = p > text + from ? text + from : p;
    Buf b = {0};
    buf_str(&b, sign);
    buf_str(&b, p > text ? "…" : "");
    buf_bytes(&b, p, (size_t)(text + from - p));
    term_style(&b, style);
    buf_bytes(&b, text + from, to - from);
    term_style(&b, STYLE_PLAIN);
    buf_bytes(&b, text + to, (size_t)(end - text) - to);
    put_row(c, &b);
    buf_deinit(&b);
}

enum { EXPRESSION_ROWS = 2 };

/* As it was, and as it is. */
static void expression_rows(Screen *c)
{
    const RelayStepView *v = c->v;
    expression_row(c, "  ", v->expression, v->own_from, v->own_to, STYLE_REVERSE);
    Buf b = {0};
    if (!v->becomes[0]) {
        put_row(c, &b);
        return;
    }
    size_t to = v->own_from + strlen(v->becomes);
    buf_bytes(&b, v->expression, v->own_from);
    buf_str(&b, v->becomes);
    buf_str(&b, v->expression + v->own_to);
    expression_row(c, "→ ", buf_text(&b), v->own_from, to,
                   STYLE_BOLD | (c->s->color ? STYLE_YELLOW : STYLE_PLAIN));
    buf_deinit(&b);
}

static const char *const help_lines[] = {
    " →  space  n   the next step             o         over the call",
    " ←  p          the step before           u         out of the function",
    " ↑ ↓  enter    run to a line             e  end    to the end, or a breakpoint",
    " g  home       the first step            q  esc    leave",
};

static void help_rows(Screen *c)
{
    Buf b = {0};
    size_t n = sizeof help_lines / sizeof *help_lines;
    for (size_t i = 0; c->s->help && i < n; i++) {
        buf_clear(&b);
        buf_str(&b, help_lines[i]);
        put_row(c, &b);
    }
    buf_clear(&b);
    if (c->s->color)
        term_style(&b, STYLE_DIM);
    buf_str(&b, " ← back  → forward  o over  u out  ↑↓ enter run to line  e end  ? keys  q leave");
    if (!c->s->help)
        put_row(c, &b);
    buf_deinit(&b);
}

static void draw(Stepper *s)
{
    Screen c = {.s = s, .v = relay_steps_view(s->steps, s->at)};
    term_size(s->term, &c.columns, &c.rows);
    int help = s->help ? (int)(sizeof help_lines / sizeof *help_lines) : 1;
    int left = c.columns * SOURCE_SHARE / 100;
    if (c.columns - left < LEAST_SIDE)
        left = c.columns / 2;
    int words = c.rows > 16 ? 2 : 1, shown = c.rows > 12 ? EXPRESSION_ROWS : 0;
    int body = c.rows - help - words - shown - 3;
    highlight(&s->styles, NULL, c.v->source + c.v->begin, c.v->end - c.v->begin);
    term_home(&s->out);
    title_row(&c);
    words_rows(&c, c.v->rule, words);
    if (shown)
        expression_rows(&c);
    rule_row(&c, left, "┬");
    body_rows(&c, body > 0 ? body : 0, left);
    rule_row(&c, left, "┴");
    help_rows(&c);
    term_clear_below(&s->out);
    term_write(s->term, &s->out);
}

/* ---- keys ------------------------------------------------------------------------------------------ */

/* The evaluation goes on to a step like this, unless it is over. */
static Next go(Stepper *s, uint64_t number, uint32_t depth, uint32_t line)
{
    if (relay_steps_done(s->steps)) {
        s->at = relay_steps_end(s->steps) - 1;
        return NEXT_KEY;
    }
    s->go = (RelayGo){RELAY_GO_TO, number, depth, line};
    return NEXT_GO;
}

/* To the first step behind this one that is at most so deep, on the line; of those that are kept, or of what is still to be evaluated. */
static Next forward(Stepper *s, uint32_t depth, uint32_t line)
{
    for (uint64_t k = s->at + 1; k < relay_steps_end(s->steps); k++)
        if (relay_steps_depth(s->steps, k) <= depth &&
            (!line || relay_steps_line(s->steps, k) == line)) {
            s->at = k;
            return NEXT_KEY;
        }
    return go(s, relay_steps_end(s->steps), depth, line);
}

static Next key_forward(Stepper *s)
{
    return forward(s, UINT32_MAX, 0);
}

static Next key_back(Stepper *s)
{
    if (s->at > relay_steps_first(s->steps))
        s->at--;
    return NEXT_KEY;
}

/* A call is one deeper than the step before it, where it stands. */
static Next key_over(Stepper *s)
{
    uint32_t depth = relay_steps_depth(s->steps, s->at);
    bool call =
        s->at > relay_steps_first(s->steps) && relay_steps_depth(s->steps, s->at - 1) < depth;
    return forward(s, call ? depth - 1 : depth, 0);
}

static Next key_out(Stepper *s)
{
    uint32_t depth = relay_steps_depth(s->steps, s->at);
    return forward(s, depth ? depth - 1 : 0, 0);
}

static Next key_first(Stepper *s)
{
    s->at = relay_steps_first(s->steps);
    return NEXT_KEY;
}

static Next key_end(Stepper *s)
{
    if (s->at + 1 < relay_steps_end(s->steps) || relay_steps_done(s->steps)) {
        s->at = relay_steps_end(s->steps) - 1;
        return NEXT_KEY;
    }
    s->go = (RelayGo){.kind = RELAY_GO_ON};
    return NEXT_GO;
}

static Next move_line(Stepper *s, int by)
{
    const RelayStepView *v = relay_steps_view(s->steps, s->at);
    uint32_t first = line_number(v, v->begin), last = line_number(v, v->end);
    uint32_t line = s->line ? s->line : v->line;
    line = by < 0 ? line - 1 : line + 1;
    if (line >= first && line <= last)
        s->line = line;
    return NEXT_KEY;
}

static Next key_up(Stepper *s)
{
    return move_line(s, -1);
}

static Next key_down(Stepper *s)
{
    return move_line(s, 1);
}

static Next key_run(Stepper *s)
{
    return s->line ? forward(s, UINT32_MAX, s->line) : key_forward(s);
}

static Next key_help(Stepper *s)
{
    s->help = !s->help;
    return NEXT_KEY;
}

static Next key_leave(Stepper *s)
{
    (void)s;
    return NEXT_LEAVE;
}

static Next key_redraw(Stepper *s)
{
    term_clear_screen(&s->out);
    return NEXT_KEY;
}

static Next key_suspend(Stepper *s)
{
    term_suspend_screen(s->term, &s->out);
    return NEXT_KEY;
}

static const struct {
    uint32_t code;
    unsigned mods;
    Next (*run)(Stepper *s);
} keys[] = {
    {KEY_RIGHT, 0, key_forward}, {'n', 0, key_forward},
    {' ', 0, key_forward},       {KEY_LEFT, 0, key_back},
    {'p', 0, key_back},          {KEY_BACKSPACE, 0, key_back},
    {'o', 0, key_over},          {'u', 0, key_out},
    {KEY_UP, 0, key_up},         {KEY_DOWN, 0, key_down},
    {KEY_ENTER, 0, key_run},     {'e', 0, key_end},
    {KEY_END, 0, key_end},       {'g', 0, key_first},
    {KEY_HOME, 0, key_first},    {'?', 0, key_help},
    {'h', 0, key_help},          {KEY_F1, 0, key_help},
    {'q', 0, key_leave},         {KEY_ESCAPE, 0, key_leave},
    {'c', MOD_CTRL, key_leave},  {'d', MOD_CTRL, key_leave},
    {KEY_CLOSED, 0, key_leave},  {'l', MOD_CTRL, key_redraw},
    {KEY_RESIZE, 0, key_redraw}, {'z', MOD_CTRL, key_suspend},
};

static Next run_key(Stepper *s, TermKey key)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].code == key.code && keys[i].mods == (key.mods & ~(unsigned)MOD_SHIFT))
            return keys[i].run(s);
    return NEXT_KEY;
}

RelayGo stepper_stopped(void *stepper, RelaySteps *steps)
{
    Stepper *s = stepper;
    s->steps = steps;
    s->at = relay_steps_end(steps) - 1;
    open_screen(s);
    for (;;) {
        draw(s);
        switch (run_key(s, term_read(s->term))) {
        case NEXT_KEY: continue;
        case NEXT_GO:
            /* Ctrl-C is to be a signal while the program runs. */
            term_leave(s->term);
            return s->go;
        case NEXT_LEAVE: return (RelayGo){.kind = RELAY_GO_LEAVE};
        }
    }
}
