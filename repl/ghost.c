/* What the editor says unasked while one types: how the text may go on, and what is wrong with it so far. */
#include "repl/internal.h"

#include <string.h>

enum { CHECKED_MOST = 1 << 12 };

static bool is_quiet(Line *l)
{
    return !l->session || l->over || l->menu.items || l->search.active || term_pending(l->term);
}

/* ---- how it may go on ---------------------------------------------------------------------------------------------- */

static void from_history(Line *l)
{
    const Buf *text = &l->text.buf;
    size_t end = line_history_end(l->history);
    size_t at = line_history_recent(l->history, buf_text(text), text->n);
    if (at < end)
        buf_str(&l->ghost, line_history_entry(l->history, at) + text->n);
}

/* The best completion of a name that has begun, if it begins as was typed. */
static void from_names(Line *l)
{
    const Buf *text = &l->text.buf;
    RelayCompletions *c =
        relay_session_complete(l->session, buf_text(text), text->n, l->text.cursor);
    if (c && c->n > 0 && c->to == text->n && c->to >= c->from + 2) {
        const char *best = c->items[0].text;
        size_t typed = c->to - c->from;
        if (!strncmp(best, buf_text(text) + c->from, typed))
            buf_str(&l->ghost, best + typed);
    }
    relay_completions_free(c);
}

void ghost_find(Line *l)
{
    buf_clear(&l->ghost);
    if (!l->color || is_quiet(l) || l->browsing || l->text.buf.n == 0 ||
        l->text.cursor != l->text.buf.n)
        return;
    from_history(l);
    if (l->ghost.n == 0)
        from_names(l);
}

bool ghost_take(Line *l)
{
    if (l->ghost.n == 0 || l->text.cursor != l->text.buf.n)
        return false;
    text_insert(&l->text, buf_text(&l->ghost), l->ghost.n);
    return true;
}

/* ---- what is wrong ------------------------------------------------------------------------------------------------- */

/* The first mistake that is not where one types: what stands there is not finished. */
static void say_mistake(const Line *l, const RelayDocument *d, Buf *panel)
{
    size_t n;
    const RelayFinding *found = relay_document_findings(d, &n);
    for (size_t i = 0; i < n; i++) {
        const RelayFinding *f = &found[i];
        if (f->severity != RELAY_ERROR || f->range.to >= l->text.cursor)
            continue;
        term_style(panel, l->color ? STYLE_RED : STYLE_PLAIN);
        buf_printf(panel, "error[%s]: ", f->code);
        term_style(panel, STYLE_PLAIN);
        buf_printf(panel, "%s\n", f->message);
        return;
    }
}

void live_check(Line *l, Buf *panel)
{
    const Text *t = &l->text;
    if (is_quiet(l) || t->buf.n == 0 || t->buf.n > CHECKED_MOST || t->cursor != t->buf.n)
        return;
    RelayDocument *d = relay_document_new(l->session, "input");
    if (d && relay_document_set(d, buf_text(&t->buf), t->buf.n))
        say_mistake(l, d, panel);
    relay_document_free(d);
}
