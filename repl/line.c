#include "repl/internal.h"
#include "base/memory.h"

#include "base/utf8.h"
#include "repl/editor.h"
#include "repl/highlight.h"

#include <stdlib.h>
#include <string.h>

enum { INDENT = 2 };

/* What a key does to the loop: most go on. */
typedef enum Next { NEXT_KEY, NEXT_ENTERED, NEXT_CANCELLED, NEXT_LEFT } Next;

Line *line_new(Term *term, RelaySession *session, LineHistory *history, bool color)
{
    Line *l = memory_zeroed(1, sizeof *l);
    if (!l)
        return NULL;
    l->term = term;
    l->session = session;
    l->history = history;
    l->color = color;
    l->view = (View){.term = term, .prompt = "relay> ", .more = "  ...> ", .color = color};
    term_size(term, &l->view.columns, &l->view.rows);
    return l;
}

void line_free(Line *l)
{
    if (!l)
        return;
    menu_close(l);
    text_deinit(&l->text);
    view_deinit(&l->view);
    buf_deinit(&l->styles);
    buf_deinit(&l->panel);
    buf_deinit(&l->menu.typed);
    buf_deinit(&l->search.query);
    buf_deinit(&l->kept);
    buf_deinit(&l->ghost);
    buf_deinit(&l->shown);
    buf_deinit(&l->offered);
    free(l);
}

void line_on_idle(Line *l, void (*idle)(void *data), void *data)
{
    l->idle = idle;
    l->idle_data = data;
}

/* ---- moving -------------------------------------------------------------------------------- */

static Next key_left(Line *l)
{
    text_move(&l->text, text_back(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_right(Line *l)
{
    if (ghost_take(l))
        return NEXT_KEY;
    text_move(&l->text, text_next(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_word_left(Line *l)
{
    text_move(&l->text, text_word_back(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_word_right(Line *l)
{
    text_move(&l->text, text_word_next(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_home(Line *l)
{
    text_move(&l->text, text_line_start(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_end(Line *l)
{
    if (ghost_take(l))
        return NEXT_KEY;
    text_move(&l->text, text_line_end(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_first(Line *l)
{
    text_move(&l->text, 0);
    return NEXT_KEY;
}

static Next key_last(Line *l)
{
    text_move(&l->text, l->text.buf.n);
    return NEXT_KEY;
}

/* ---- history ------------------------------------------------------------------------------- */

void line_keep(Line *l)
{
    buf_clear(&l->kept);
    buf_bytes(&l->kept, buf_text(&l->text.buf), l->text.buf.n);
    l->kept_cursor = l->text.cursor;
}

void line_go_back(Line *l)
{
    text_set(&l->text, buf_text(&l->kept), l->kept.n);
    text_move(&l->text, l->kept_cursor);
}

/* One step through the entries that begin with what was typed before the first step. */
static void browse(Line *l, int step)
{
    if (!l->history)
        return;
    size_t all = line_history_end(l->history);
    if (!l->browsing || l->browsed > all) {
        line_keep(l);
        l->browsed = all;
    }
    size_t typed = l->kept_cursor == l->kept.n ? l->kept.n : 0;
    size_t found = line_history_match(l->history, l->browsed, step, buf_text(&l->kept), typed);
    l->browsing = true;
    if (found < all) {
        const char *text = line_history_entry(l->history, found);
        text_set(&l->text, text, strlen(text));
        l->browsed = found;
    } else if (step > 0 && l->browsed < all) {
        line_go_back(l);
        l->browsed = all;
    }
}

static void aim(Line *l)
{
    if (l->column < 0)
        l->column = text_column(&l->text, l->text.cursor);
}

static Next key_up(Line *l)
{
    if (l->browsing || text_line_start(&l->text, l->text.cursor) == 0) {
        browse(l, -1);
        return NEXT_KEY;
    }
    aim(l);
    text_move(&l->text, text_line_above(&l->text, l->text.cursor, l->column));
    return NEXT_KEY;
}

static Next key_down(Line *l)
{
    if (l->browsing || text_line_end(&l->text, l->text.cursor) == l->text.buf.n) {
        browse(l, 1);
        return NEXT_KEY;
    }
    aim(l);
    text_move(&l->text, text_line_below(&l->text, l->text.cursor, l->column));
    return NEXT_KEY;
}

static Next key_older(Line *l)
{
    browse(l, -1);
    return NEXT_KEY;
}

static Next key_newer(Line *l)
{
    browse(l, 1);
    return NEXT_KEY;
}

static Next key_search(Line *l)
{
    if (l->history)
        search_open(l);
    return NEXT_KEY;
}

/* ---- changing ------------------------------------------------------------------------------ */

static Next key_backspace(Line *l)
{
    Text *t = &l->text;
    size_t start = text_line_start(t, t->cursor), to = t->cursor, from = text_back(t, to);
    /* In the indentation a step goes at once. */
    if (to - start >= INDENT && (to - start) % INDENT == 0 && text_is_blank(t, start, to))
        from = to - INDENT;
    text_erase(t, from, to);
    return NEXT_KEY;
}

static Next key_delete(Line *l)
{
    text_erase(&l->text, l->text.cursor, text_next(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_delete_or_leave(Line *l)
{
    return l->text.buf.n == 0 ? NEXT_LEFT : key_delete(l);
}

/* To the end of the line; at the end, the line end itself. */
static Next key_cut_right(Line *l)
{
    size_t at = l->text.cursor, end = text_line_end(&l->text, at);
    text_cut(&l->text, at, end == at ? text_next(&l->text, at) : end);
    return NEXT_KEY;
}

static Next key_cut_left(Line *l)
{
    size_t at = l->text.cursor, start = text_line_start(&l->text, at);
    text_cut(&l->text, start == at ? text_back(&l->text, at) : start, at);
    return NEXT_KEY;
}

static Next key_cut_word_right(Line *l)
{
    text_cut(&l->text, l->text.cursor, text_word_next(&l->text, l->text.cursor));
    return NEXT_KEY;
}

static Next key_cut_word_left(Line *l)
{
    text_cut(&l->text, text_word_back(&l->text, l->text.cursor), l->text.cursor);
    return NEXT_KEY;
}

static Next key_cut_blank_left(Line *l)
{
    text_cut(&l->text, text_blank_back(&l->text, l->text.cursor), l->text.cursor);
    return NEXT_KEY;
}

static Next key_paste(Line *l)
{
    text_paste(&l->text);
    return NEXT_KEY;
}

static Next key_paste_other(Line *l)
{
    text_paste_other(&l->text);
    return NEXT_KEY;
}

static Next key_transpose(Line *l)
{
    text_transpose(&l->text);
    return NEXT_KEY;
}

static Next key_undo(Line *l)
{
    text_undo(&l->text);
    return NEXT_KEY;
}

static Next key_redo(Line *l)
{
    text_redo(&l->text);
    return NEXT_KEY;
}

/* What stands behind the prompt of a line of a transcript; NULL for a line that has none. */
static const char *behind_prompt(const Line *l, const char *line, size_t n)
{
    const char *const prompts[] = {l->view.prompt, l->view.more};
    for (size_t i = 0; i < 2; i++) {
        size_t k = strlen(prompts[i]);
        /* An empty line may have lost the blank at its end. */
        if (n >= k - 1 && !memcmp(line, prompts[i], n < k ? k - 1 : k))
            return line + (n < k ? n : k);
    }
    return NULL;
}

/* A transcript, which begins with a prompt, is the lines that have one, without it: what was answered is no input. */
static void strip_transcript(const Line *l, Buf *text)
{
    const char *from = buf_text(text);
    while (strspn(from, " \t\n") > strcspn(from, "\n"))
        from += strcspn(from, "\n") + 1;
    if (!behind_prompt(l, from, strcspn(from, "\n")))
        return;
    Buf out = {0};
    for (size_t n; *from; from += n + (from[n] == '\n')) {
        n = strcspn(from, "\n");
        const char *line = behind_prompt(l, from, n);
        if (!line)
            continue;
        buf_str(&out, out.n ? "\n" : "");
        buf_bytes(&out, line, (size_t)(from + n - line));
    }
    buf_deinit(text);
    *text = out;
}

static Next key_pasted(Line *l)
{
    size_t n;
    const char *text = term_pasted(l->term, &n);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    Buf clean = {0};
    for (size_t i = 0; i < n; i++)
        if (text[i])
            buf_char(&clean, text[i]);
    if (l->session)
        strip_transcript(l, &clean);
    else
        buf_cut(&clean, strcspn(buf_text(&clean), "\n"));
    text_insert(&l->text, buf_text(&clean), clean.n);
    buf_deinit(&clean);
    return NEXT_KEY;
}

/* A closing bracket that begins its line stands one step to the left. */
static void type_character(Line *l, uint32_t code)
{
    Text *t = &l->text;
    size_t start = text_line_start(t, t->cursor);
    bool closes = code == '}' || code == ')' || code == ']';
    char bytes[4];
    size_t n = utf8_encode(code, bytes);
    if (closes && t->cursor - start >= INDENT && text_is_blank(t, start, t->cursor) &&
        !term_pending(l->term))
        text_erase(t, t->cursor - INDENT, t->cursor);
    text_type(t, bytes, n);
}

/* ---- ending -------------------------------------------------------------------------------- */

static void new_line(Line *l, int indent)
{
    Buf b = {0};
    buf_char(&b, '\n');
    if (indent > 0 && !term_pending(l->term))
        buf_repeat(&b, ' ', (size_t)indent);
    text_insert(&l->text, buf_text(&b), b.n);
    buf_deinit(&b);
}

static int indent_at(Line *l)
{
    int indent = 0;
    relay_session_is_complete(l->session, buf_text(&l->text.buf), l->text.cursor, &indent);
    return indent;
}

static Next key_new_line(Line *l)
{
    if (l->session)
        new_line(l, indent_at(l));
    return NEXT_KEY;
}

/* The person has left two lines empty: whatever is missing, they want an answer. */
static bool gave_up(const Text *t)
{
    size_t last = text_line_start(t, t->buf.n);
    if (last == 0)
        return false;
    size_t before = text_line_start(t, last - 1);
    return before > 0 && text_is_blank(t, before, t->buf.n);
}

static Next key_enter(Line *l)
{
    Text *t = &l->text;
    int indent = 0;
    if (!l->session || text_is_blank(t, 0, t->buf.n))
        return NEXT_ENTERED;
    if (text_line_end(t, t->cursor) != t->buf.n)
        return key_new_line(l);
    RelayComplete whole =
        relay_session_is_complete(l->session, buf_text(&t->buf), t->buf.n, &indent);
    if (whole != RELAY_INCOMPLETE || gave_up(t))
        return NEXT_ENTERED;
    if (t->cursor != t->buf.n)
        indent = indent_at(l);
    new_line(l, indent);
    return NEXT_KEY;
}

static Next key_cancel(Line *l)
{
    (void)l;
    return NEXT_CANCELLED;
}

static Next key_closed(Line *l)
{
    (void)l;
    return NEXT_LEFT;
}

/* ---- help and the screen ------------------------------------------------------------------- */

static Next key_tab(Line *l)
{
    Text *t = &l->text;
    size_t start = text_line_start(t, t->cursor);
    if (!l->session)
        return NEXT_KEY;
    if (term_pending(l->term))
        text_type(t, "\t", 1);
    else if (text_is_blank(t, start, t->cursor) && t->buf.n > 0)
        text_type(t, "  ", INDENT - (t->cursor - start) % INDENT);
    else
        menu_open(l);
    return NEXT_KEY;
}

static void show_in_panel(void *data, const RelayOutput *out)
{
    Buf *panel = data;
    const RelayMime *text = relay_output_find(out, "text/plain");
    if (!text)
        return;
    buf_bytes(panel, text->data, text->size);
    if (panel->n > 0 && panel->at[panel->n - 1] != '\n')
        buf_char(panel, '\n');
}

static Next key_inspect(Line *l)
{
    const Text *t = &l->text;
    if (l->session)
        relay_session_inspect(l->session, buf_text(&t->buf), t->buf.n, t->cursor, 0,
                              (RelaySink){show_in_panel, &l->panel});
    return NEXT_KEY;
}

static Next key_clear(Line *l)
{
    term_clear_screen(&l->view.out);
    view_start(&l->view);
    return NEXT_KEY;
}

/* How the text may go on stands behind it, in its first line. */
static void show_ghost(Line *l, ViewScene *s)
{
    size_t n = strcspn(buf_text(&l->ghost), "\n");
    if (n == 0 || !s->styles)
        return;
    buf_clear(&l->shown);
    buf_bytes(&l->shown, s->text, s->n);
    buf_bytes(&l->shown, buf_text(&l->ghost), n);
    buf_repeat(&l->styles, STYLE_DIM, n);
    if (l->shown.failed || l->styles.failed)
        return;
    s->text = buf_text(&l->shown);
    s->n = l->shown.n;
    s->styles = buf_text(&l->styles);
}

static ViewScene scene(Line *l)
{
    const Text *t = &l->text;
    ViewScene s = {.text = buf_text(&t->buf), .n = t->buf.n, .cursor = t->cursor};
    ghost_find(l);
    if (l->color && l->session) {
        highlight(&l->styles, NULL, s.text, s.n);
        s.styles = l->styles.failed ? NULL : buf_text(&l->styles);
        show_ghost(l, &s);
    }
    if (l->search.active) {
        buf_clear(&l->panel);
        search_draw(l, &l->panel);
        if (l->search.entry < line_history_end(l->history)) {
            s.mark_from = l->search.at;
            s.mark_to = s.mark_from + (l->search.failed ? 0 : l->search.query.n);
        }
    } else if (l->menu.items) {
        buf_clear(&l->panel);
        menu_draw(l, &l->panel);
    } else if (l->panel.n == 0) {
        live_check(l, &l->panel);
    }
    s.panel = buf_text(&l->panel);
    s.panel_n = l->panel.n;
    return s;
}

static void draw(Line *l)
{
    ViewScene s = scene(l);
    view_draw(&l->view, &s);
}

static Next key_suspend(Line *l)
{
    ViewScene s = scene(l);
    view_finish(&l->view, &s);
    term_suspend(l->term);
    return NEXT_KEY;
}

static Next key_resize(Line *l)
{
    ViewScene s = scene(l);
    view_resize(&l->view, &s);
    return NEXT_KEY;
}

static Next key_editor(Line *l)
{
    Buf text = {0};
    buf_bytes(&text, buf_text(&l->text.buf), l->text.buf.n);
    l->over = true;
    ViewScene s = scene(l);
    view_finish(&l->view, &s);
    l->over = false;
    term_leave(l->term);
    if (editor_run(&text))
        text_set(&l->text, buf_text(&text), text.n);
    term_edit(l->term);
    buf_deinit(&text);
    return NEXT_KEY;
}

/* ---- the keys ------------------------------------------------------------------------------ */

static const struct {
    uint32_t code;
    unsigned mods;
    Next (*run)(Line *l);
} keys[] = {
    {KEY_ENTER, 0, key_enter},
    {KEY_ENTER, MOD_ALT, key_new_line},
    {KEY_ENTER, MOD_SHIFT, key_new_line},
    {KEY_ENTER, MOD_CTRL, key_new_line},
    {KEY_TAB, 0, key_tab},
    {KEY_BACKSPACE, 0, key_backspace},
    {KEY_DELETE, 0, key_delete},
    {'d', MOD_CTRL, key_delete_or_leave},
    {'c', MOD_CTRL, key_cancel},
    {KEY_LEFT, 0, key_left},
    {'b', MOD_CTRL, key_left},
    {KEY_RIGHT, 0, key_right},
    {'f', MOD_CTRL, key_right},
    {KEY_LEFT, MOD_CTRL, key_word_left},
    {KEY_LEFT, MOD_ALT, key_word_left},
    {'b', MOD_ALT, key_word_left},
    {KEY_RIGHT, MOD_CTRL, key_word_right},
    {KEY_RIGHT, MOD_ALT, key_word_right},
    {'f', MOD_ALT, key_word_right},
    {KEY_HOME, 0, key_home},
    {'a', MOD_CTRL, key_home},
    {KEY_END, 0, key_end},
    {'e', MOD_CTRL, key_end},
    {KEY_HOME, MOD_CTRL, key_first},
    {'<', MOD_ALT, key_first},
    {KEY_END, MOD_CTRL, key_last},
    {'>', MOD_ALT, key_last},
    {KEY_UP, 0, key_up},
    {KEY_DOWN, 0, key_down},
    {'p', MOD_CTRL, key_up},
    {'n', MOD_CTRL, key_down},
    {KEY_PAGE_UP, 0, key_older},
    {KEY_PAGE_DOWN, 0, key_newer},
    {'p', MOD_ALT, key_older},
    {'n', MOD_ALT, key_newer},
    {'r', MOD_CTRL, key_search},
    {'k', MOD_CTRL, key_cut_right},
    {'u', MOD_CTRL, key_cut_left},
    {'w', MOD_CTRL, key_cut_blank_left},
    {'d', MOD_ALT, key_cut_word_right},
    {KEY_DELETE, MOD_CTRL, key_cut_word_right},
    {KEY_BACKSPACE, MOD_ALT, key_cut_word_left},
    {'y', MOD_CTRL, key_paste},
    {'y', MOD_ALT, key_paste_other},
    {'t', MOD_CTRL, key_transpose},
    {'7', MOD_CTRL, key_undo}, /* Ctrl-_ and Ctrl-/ send this */
    {'z', MOD_ALT, key_undo},
    {'_', MOD_ALT, key_redo},
    {'l', MOD_CTRL, key_clear},
    {'z', MOD_CTRL, key_suspend},
    {'e', MOD_ALT, key_editor},
    {'h', MOD_ALT, key_inspect},
    {KEY_F1, 0, key_inspect},
    {KEY_PASTE, 0, key_pasted},
    {KEY_CLOSED, 0, key_closed},
};

static Next run_key(Line *l, TermKey key)
{
    bool vertical = key.code == KEY_UP || key.code == KEY_DOWN ||
                    ((key.code == 'p' || key.code == 'n') && key.mods);
    if (!vertical)
        l->column = -1;
    if (!vertical && key.code != KEY_PAGE_UP && key.code != KEY_PAGE_DOWN)
        l->browsing = false;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (keys[i].code == key.code && keys[i].mods == key.mods)
            return keys[i].run(l);
    if (key.code < KEY_NONE && !(key.mods & ~(unsigned)MOD_SHIFT))
        type_character(l, key.code);
    return NEXT_KEY;
}

static Next handle(Line *l, TermKey key)
{
    if (key.code == KEY_NONE)
        return NEXT_KEY;
    if (key.code == KEY_RESIZE)
        return key_resize(l);
    buf_clear(&l->panel);
    if (l->search.active && search_key(l, key))
        return NEXT_KEY;
    if (l->menu.items && menu_key(l, key))
        return NEXT_KEY;
    return run_key(l, key);
}

static Next read_keys(Line *l)
{
    for (;;) {
        if (!term_pending(l->term)) {
            draw(l);
            if (l->idle) {
                void (*idle)(void *data) = l->idle;
                l->idle = NULL;
                idle(l->idle_data);
            }
        }
        Next next = handle(l, term_read(l->term));
        if (next != NEXT_KEY)
            return next;
    }
}

void line_offer(Line *l, const char *text, size_t n)
{
    while (n > 0 && text[n - 1] == '\n')
        n--;
    buf_clear(&l->offered);
    buf_bytes(&l->offered, text, n);
}

LineEnd line_read(Line *l, Buf *out)
{
    text_reset(&l->text);
    if (l->offered.n)
        text_set(&l->text, buf_text(&l->offered), l->offered.n);
    buf_clear(&l->offered);
    buf_clear(&l->panel);
    view_start(&l->view);
    l->browsing = false;
    l->column = -1;
    term_edit(l->term);
    Next next = read_keys(l);
    menu_close(l);
    l->search.active = false;
    l->over = true;
    ViewScene s = scene(l);
    view_finish(&l->view, &s);
    l->over = false;
    term_leave(l->term);
    buf_clear(out);
    if (next == NEXT_LEFT)
        return LINE_LEFT;
    if (next == NEXT_CANCELLED)
        return LINE_CANCELLED;
    buf_bytes(out, l->text.buf.n ? l->text.buf.at : "", l->text.buf.n);
    return LINE_ENTERED;
}
