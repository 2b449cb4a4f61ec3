#include "repl/internal.h"

#include "base/utf8.h"
#include "repl/highlight.h"

#include <string.h>

enum { MENU_ROWS = 10, LABEL_MOST = 40 };

void menu_close(Line *l)
{
    if (l->menu.items)
        relay_completions_free(l->menu.items);
    l->menu.items = NULL;
}

static void put(Line *l, const char *text, size_t n)
{
    text_replace(&l->text, l->menu.from, l->menu.to, text, n);
    l->menu.to = l->menu.from + n;
}

/* Bytes that all items begin with; never a part of a character. */
static size_t common_prefix(const RelayCompletions *c)
{
    const char *first = c->items[0].text;
    size_t n = strlen(first);
    for (size_t i = 1; i < c->n; i++) {
        size_t k = 0;
        while (k < n && c->items[i].text[k] == first[k])
            k++;
        n = k;
    }
    while (n > 0 && ((unsigned char)first[n] & 0xc0) == 0x80)
        n--;
    return n;
}

void menu_open(Line *l)
{
    Text *t = &l->text;
    RelayCompletions *c =
        relay_session_complete(l->session, buf_text(&t->buf), t->buf.n, t->cursor);
    if (!c)
        return;
    l->menu.from = c->from;
    l->menu.to = c->to;
    if (c->n == 0) {
        relay_completions_free(c);
        return;
    }
    size_t common = common_prefix(c), typed = c->to - c->from;
    bool goes_on = !strncmp(c->items[0].text, buf_text(&t->buf) + c->from, typed);
    if ((common > typed && goes_on) || c->n == 1)
        put(l, c->items[0].text, common);
    if (c->n == 1) {
        relay_completions_free(c);
        return;
    }
    buf_clear(&l->menu.typed);
    buf_bytes(&l->menu.typed, buf_text(&t->buf) + l->menu.from, l->menu.to - l->menu.from);
    l->menu.items = c;
    l->menu.selected = c->n;
}

/* One step through the items; one more place, in front of the first, has what was typed. */
static void step(Line *l, size_t by)
{
    Menu *m = &l->menu;
    size_t places = m->items->n + 1;
    m->selected = (m->selected + by) % places;
    if (m->selected == m->items->n)
        put(l, buf_text(&m->typed), m->typed.n);
    else
        put(l, m->items->items[m->selected].text, strlen(m->items->items[m->selected].text));
}

bool menu_key(Line *l, TermKey key)
{
    Menu *m = &l->menu;
    bool chosen = m->selected < m->items->n;
    bool back = (key.code == KEY_TAB && key.mods == MOD_SHIFT) || key.code == KEY_UP;
    if (back || (key.code == KEY_TAB && !key.mods) || (key.code == KEY_DOWN)) {
        step(l, back ? m->items->n : 1);
        return true;
    }
    if (key.code == KEY_ESCAPE || (key.code == 'g' && key.mods == MOD_CTRL)) {
        put(l, buf_text(&m->typed), m->typed.n);
        menu_close(l);
        return true;
    }
    menu_close(l);
    return chosen && key.code == KEY_ENTER;
}

static void pad(Buf *b, int columns)
{
    if (columns > 0)
        buf_repeat(b, ' ', (size_t)columns);
}

static void draw_item(const Line *l, Buf *panel, const RelayCompletion *item, int width,
                      bool selected)
{
    TermStyle style = l->color ? highlight_style(item->kind) : STYLE_PLAIN;
    term_style(panel, selected ? STYLE_REVERSE : style);
    buf_char(panel, ' ');
    size_t len = strlen(item->text);
    bool long_text = (int)utf8_text_width(item->text, len) > width;
    pad(panel, width - long_text - term_clip(panel, item->text, len, width - long_text));
    buf_str(panel, long_text ? "…" : "");
    buf_char(panel, ' ');
    term_style(panel, l->color ? STYLE_DIM : STYLE_PLAIN);
    const char *detail = item->detail && *item->detail ? item->detail : item->kind;
    buf_char(panel, ' ');
    /* One column stays free (view.h). */
    size_t n = strcspn(detail, "\n");
    int room = l->view.columns - 1 - width - 3;
    bool cut = (int)utf8_text_width(detail, n) > room;
    term_clip(panel, detail, n, room - cut);
    buf_str(panel, cut && room > 0 ? "…" : "");
    buf_char(panel, '\n');
}

void menu_draw(const Line *l, Buf *panel)
{
    const Menu *m = &l->menu;
    size_t rows = (size_t)l->view.rows / 2 > MENU_ROWS + 1 ? MENU_ROWS : (size_t)l->view.rows / 2;
    size_t shown = m->selected < m->items->n ? m->selected : 0, first = 0;
    if (m->items->n > rows && rows > 1)
        rows--;
    if (shown >= rows)
        first = shown - rows + 1;
    int width = 0;
    for (size_t i = 0; i < m->items->n; i++) {
        int w = (int)utf8_text_width(m->items->items[i].text, strlen(m->items->items[i].text));
        width = w > width ? w : width;
    }
    if (width > LABEL_MOST)
        width = LABEL_MOST;
    for (size_t i = first; i < m->items->n && i < first + rows; i++)
        draw_item(l, panel, &m->items->items[i], width, i == m->selected);
    if (m->items->n > rows) {
        term_style(panel, l->color ? STYLE_DIM : STYLE_PLAIN);
        buf_printf(panel, " %zu of %zu\n", first + rows, m->items->n);
    }
}
