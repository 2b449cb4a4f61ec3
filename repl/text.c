#include "repl/text.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

static void state_drop(TextState *s)
{
    free(s->text);
    *s = (TextState){0};
}

static void forget_undo(Text *t)
{
    for (int i = 0; i < t->n_undo + t->n_redo; i++)
        state_drop(&t->undo[i]);
    t->n_undo = t->n_redo = 0;
}

void text_deinit(Text *t)
{
    forget_undo(t);
    for (int i = 0; i < TEXT_CUTS; i++)
        buf_deinit(&t->cuts[i]);
    buf_deinit(&t->buf);
}

void text_reset(Text *t)
{
    forget_undo(t);
    buf_clear(&t->buf);
    t->cursor = 0;
    t->action = ACTION_OTHER;
}

/* ---- undo ---------------------------------------------------------------------------------- */

static bool state_take(const Text *t, TextState *s)
{
    *s = (TextState){.text = memory_alloc(t->buf.n + 1), .n = t->buf.n, .cursor = t->cursor};
    if (!s->text)
        return false;
    memcpy(s->text, buf_text(&t->buf), t->buf.n);
    return true;
}

static void state_restore(Text *t, const TextState *s)
{
    buf_clear(&t->buf);
    buf_bytes(&t->buf, s->text, s->n);
    t->cursor = s->cursor;
}

/* Called before every change: keeps the state, unless the change goes on with what the last one
 * did. */
static void begin(Text *t, TextAction action)
{
    bool goes_on = action == t->action && (action == ACTION_TYPE || action == ACTION_ERASE);
    t->action = action;
    if (goes_on && t->n_undo > 0)
        return;
    for (int i = 0; i < t->n_redo; i++)
        state_drop(&t->undo[t->n_undo + i]);
    t->n_redo = 0;
    if (t->n_undo == TEXT_UNDOS) {
        state_drop(&t->undo[0]);
        memmove(t->undo, t->undo + 1, (TEXT_UNDOS - 1) * sizeof *t->undo);
        t->undo[--t->n_undo] = (TextState){0};
    }
    if (state_take(t, &t->undo[t->n_undo]))
        t->n_undo++;
}

/* Exchanges the text with the state in that slot. */
static bool exchange(Text *t, TextState *slot)
{
    TextState now;
    if (!state_take(t, &now))
        return false;
    state_restore(t, slot);
    state_drop(slot);
    *slot = now;
    t->action = ACTION_OTHER;
    return true;
}

void text_undo(Text *t)
{
    if (t->n_undo == 0 || !exchange(t, &t->undo[t->n_undo - 1]))
        return;
    t->n_undo--;
    t->n_redo++;
}

void text_redo(Text *t)
{
    if (t->n_redo == 0 || !exchange(t, &t->undo[t->n_undo]))
        return;
    t->n_undo++;
    t->n_redo--;
}

/* ---- changes ------------------------------------------------------------------------------- */

static void splice(Text *t, size_t from, size_t to, const char *p, size_t n)
{
    Buf *b = &t->buf;
    if (!buf_reserve(b, n))
        return;
    memmove(b->at + from + n, b->at + to, b->n - to);
    memcpy(b->at + from, p, n);
    b->n = b->n - (to - from) + n;
    b->at[b->n] = '\0';
    t->cursor = from + n;
}

void text_set(Text *t, const char *p, size_t n)
{
    begin(t, ACTION_OTHER);
    splice(t, 0, t->buf.n, p, n);
}

void text_move(Text *t, size_t to)
{
    t->cursor = to;
    t->action = ACTION_OTHER;
}

void text_insert(Text *t, const char *p, size_t n)
{
    begin(t, ACTION_OTHER);
    splice(t, t->cursor, t->cursor, p, n);
}

void text_type(Text *t, const char *p, size_t n)
{
    begin(t, ACTION_TYPE);
    splice(t, t->cursor, t->cursor, p, n);
}

void text_replace(Text *t, size_t from, size_t to, const char *p, size_t n)
{
    begin(t, ACTION_OTHER);
    splice(t, from, to, p, n);
}

void text_erase(Text *t, size_t from, size_t to)
{
    if (from == to)
        return;
    begin(t, ACTION_ERASE);
    splice(t, from, to, "", 0);
}

/* A new piece in front; the oldest falls out, and its storage serves the new one. */
static Buf *new_cut(Text *t)
{
    Buf oldest = t->cuts[TEXT_CUTS - 1];
    memmove(t->cuts + 1, t->cuts, (TEXT_CUTS - 1) * sizeof *t->cuts);
    buf_clear(&oldest);
    t->cuts[0] = oldest;
    return &t->cuts[0];
}

void text_cut(Text *t, size_t from, size_t to)
{
    if (from == to)
        return;
    const char *piece = t->buf.at + from;
    size_t n = to - from;
    if (t->action != ACTION_CUT) {
        buf_bytes(new_cut(t), piece, n);
    } else if (from < t->cursor) {
        Buf joined = {0};
        buf_bytes(&joined, piece, n);
        buf_bytes(&joined, buf_text(&t->cuts[0]), t->cuts[0].n);
        buf_deinit(&t->cuts[0]);
        t->cuts[0] = joined;
    } else {
        buf_bytes(&t->cuts[0], piece, n);
    }
    begin(t, ACTION_CUT);
    splice(t, from, to, "", 0);
}

void text_paste(Text *t)
{
    const Buf *cut = &t->cuts[0];
    if (cut->n == 0)
        return;
    begin(t, ACTION_PASTE);
    t->pasted_from = t->cursor;
    t->pasted = 0;
    splice(t, t->cursor, t->cursor, buf_text(cut), cut->n);
}

void text_paste_other(Text *t)
{
    if (t->action != ACTION_PASTE)
        return;
    t->pasted = (t->pasted + 1) % TEXT_CUTS;
    if (t->cuts[t->pasted].n == 0)
        t->pasted = 0;
    const Buf *cut = &t->cuts[t->pasted];
    splice(t, t->pasted_from, t->cursor, buf_text(cut), cut->n);
}

void text_transpose(Text *t)
{
    size_t at = t->cursor == t->buf.n ? text_back(t, t->cursor) : t->cursor;
    size_t left = text_back(t, at), right = text_next(t, at);
    if (left == at || right == at)
        return;
    Buf swapped = {0};
    buf_bytes(&swapped, t->buf.at + at, right - at);
    buf_bytes(&swapped, t->buf.at + left, at - left);
    text_replace(t, left, right, buf_text(&swapped), swapped.n);
    buf_deinit(&swapped);
}

/* ---- positions ----------------------------------------------------------------------------- */

size_t text_next(const Text *t, size_t at)
{
    return at >= t->buf.n ? t->buf.n : at + utf8_cluster(t->buf.at + at, t->buf.n - at);
}

/* Where a character begins that is joined to others shows only from the front: from the start of its line. */
size_t text_back(const Text *t, size_t at)
{
    size_t from = at > 0 ? text_line_start(t, at - 1) : 0;
    if (at > 0 && t->buf.at[at - 1] == '\n')
        return at - 1;
    while (from < at) {
        size_t next = text_next(t, from);
        if (next >= at)
            return from;
        from = next;
    }
    return from;
}

/* Letters, digits, `_`, and whatever is not ASCII. */
static bool in_word(const Text *t, size_t at)
{
    unsigned char c = (unsigned char)t->buf.at[at];
    return c >= 128 || c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

size_t text_word_next(const Text *t, size_t at)
{
    while (at < t->buf.n && !in_word(t, at))
        at++;
    while (at < t->buf.n && in_word(t, at))
        at++;
    return at;
}

size_t text_word_back(const Text *t, size_t at)
{
    while (at > 0 && !in_word(t, at - 1))
        at--;
    while (at > 0 && in_word(t, at - 1))
        at--;
    return at;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

size_t text_blank_back(const Text *t, size_t at)
{
    while (at > 0 && is_blank(t->buf.at[at - 1]))
        at--;
    while (at > 0 && !is_blank(t->buf.at[at - 1]))
        at--;
    return at;
}

size_t text_line_start(const Text *t, size_t at)
{
    while (at > 0 && t->buf.at[at - 1] != '\n')
        at--;
    return at;
}

size_t text_line_end(const Text *t, size_t at)
{
    while (at < t->buf.n && t->buf.at[at] != '\n')
        at++;
    return at;
}

int text_column(const Text *t, size_t at)
{
    size_t start = text_line_start(t, at);
    return (int)utf8_text_width(buf_text(&t->buf) + start, at - start);
}

/* The position in the line from `at` on that lies nearest to the column, from the left. */
static size_t at_column(const Text *t, size_t at, int column)
{
    size_t start = at;
    while (at < t->buf.n && t->buf.at[at] != '\n') {
        size_t next = text_next(t, at);
        if ((int)utf8_text_width(t->buf.at + start, next - start) > column)
            break;
        at = next;
    }
    return at;
}

size_t text_line_above(const Text *t, size_t at, int column)
{
    size_t start = text_line_start(t, at);
    if (start == 0)
        return at;
    return at_column(t, text_line_start(t, start - 1), column);
}

size_t text_line_below(const Text *t, size_t at, int column)
{
    size_t end = text_line_end(t, at);
    if (end == t->buf.n)
        return at;
    return at_column(t, end + 1, column);
}

bool text_is_blank(const Text *t, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (!is_blank(t->buf.at[i]))
            return false;
    return true;
}
