#include "repl/internal.h"

#include "base/utf8.h"

#include <string.h>

void search_open(Line *l)
{
    line_keep(l);
    l->search.active = true;
    l->search.failed = false;
    l->search.entry = line_history_end(l->history);
    l->search.at = 0;
    buf_clear(&l->search.query);
}

/* Shows the next entry that matches, from the one in `from` on; stays where it is when there is
 * none. */
static void find(Line *l, size_t from, int step)
{
    Search *s = &l->search;
    size_t at, entry = line_history_search(l->history, from, step, buf_text(&s->query), &at);
    s->failed = entry == line_history_end(l->history);
    if (s->failed)
        return;
    s->entry = entry;
    s->at = at;
    const char *text = line_history_entry(l->history, entry);
    text_set(&l->text, text, strlen(text));
    text_move(&l->text, at);
}

static void type(Line *l, uint32_t code)
{
    char bytes[4];
    buf_bytes(&l->search.query, bytes, utf8_encode(code, bytes));
    size_t all = line_history_end(l->history);
    find(l, l->search.entry < all ? l->search.entry + 1 : all, -1);
}

static void erase(Line *l)
{
    Buf *q = &l->search.query;
    while (q->n > 0 && ((unsigned char)q->at[--q->n] & 0xc0) == 0x80)
        continue;
    if (q->at)
        q->at[q->n] = '\0';
    if (q->n > 0)
        find(l, line_history_end(l->history), -1);
}

bool search_key(Line *l, TermKey key)
{
    Search *s = &l->search;
    bool ctrl = key.mods == MOD_CTRL;
    if (ctrl && (key.code == 'r' || key.code == 's')) {
        find(l, s->entry, key.code == 'r' ? -1 : 1);
        return true;
    }
    if (key.code == KEY_BACKSPACE) {
        erase(l);
        return true;
    }
    if (key.code == KEY_ESCAPE || (ctrl && (key.code == 'g' || key.code == 'c'))) {
        line_go_back(l);
        s->active = false;
        return true;
    }
    if (key.code < KEY_NONE && !key.mods) {
        type(l, key.code);
        return true;
    }
    /* What was found is taken as a whole; Enter runs it, and other keys go on where the match is. */
    s->active = false;
    if (key.code == KEY_ENTER && !key.mods)
        text_move(&l->text, l->text.buf.n);
    return false;
}

void search_draw(const Line *l, Buf *panel)
{
    const Search *s = &l->search;
    term_style(panel, l->color ? STYLE_BLUE : STYLE_PLAIN);
    buf_str(panel, s->failed ? "history, nothing more: " : "history: ");
    term_style(panel, STYLE_PLAIN);
    buf_bytes(panel, buf_text(&s->query), s->query.n);
    buf_char(panel, '\n');
}
