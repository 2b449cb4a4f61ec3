#define _GNU_SOURCE 1
#include "repl/history.h"

#include "base/buf.h"
#include "base/history.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

struct LineHistory {
    History *history;
    int64_t lines; /* entered in this run */
    Buf entry; /* that was asked for last */
};

LineHistory *line_history_new(const char *path)
{
    LineHistory *h = memory_zeroed(1, sizeof *h);
    if (h)
        h->history = history_new(path);
    if (h && h->history)
        return h;
    free(h);
    return NULL;
}

void line_history_free(LineHistory *h)
{
    if (!h)
        return;
    history_free(h->history);
    buf_deinit(&h->entry);
    free(h);
}

/* ---- searching ----------------------------------------------------------------------------- */

typedef struct Search {
    const char *text;
    size_t n;
    bool inside; /* anywhere, not only at the beginning */
    bool longer; /* only what goes on behind the text */
    size_t most; /* entries that are looked at; 0: all */
    bool found;
    int64_t id;
    size_t at;
    Buf *entry; /* receives what was found; NULL: nothing does */
} Search;

static bool last_occurrence(Str in, const char *text, size_t n, size_t *at)
{
    const char *p = memmem(in.ptr, in.len, text, n), *end = in.ptr + in.len;
    bool found = p != NULL;
    for (; p; p = p < end ? memmem(p + 1, (size_t)(end - p) - 1, text, n) : NULL)
        *at = (size_t)(p - in.ptr);
    return found;
}

static bool wants(void *data, Str input)
{
    Search *s = data;
    bool begins = input.len >= s->n && !memcmp(input.ptr, s->text, s->n);
    s->found = s->inside ? last_occurrence(input, s->text, s->n, &s->at)
                         : begins && !(s->longer && input.len == s->n);
    return s->found || (s->most > 0 && --s->most == 0);
}

/* The entry with which the search ends. */
static bool look(void *data, const HistoryRow *row)
{
    Search *s = data;
    s->id = row->id;
    if (s->found && s->entry) {
        buf_clear(s->entry);
        buf_str(s->entry, row->input);
    }
    return false;
}

static void search(LineHistory *h, size_t from, int step, Search *s)
{
    history_each(h->history,
                 (HistoryRange){.step = step, .from = (int64_t)from, .known = true, .wants = wants},
                 look, s);
}

size_t line_history_end(LineHistory *h)
{
    Search s = {.text = ""};
    search(h, 0, -1, &s);
    return s.found ? (size_t)s.id + 1 : 1;
}

const char *line_history_entry(LineHistory *h, size_t i)
{
    Search s = {.text = "", .entry = &h->entry};
    buf_clear(&h->entry);
    search(h, i + 1, -1, &s);
    return buf_text(&h->entry);
}

size_t line_history_search(LineHistory *h, size_t from, int step, const char *text, size_t *at)
{
    Search s = {.text = text, .n = strlen(text), .inside = true};
    search(h, from, step, &s);
    if (!s.found)
        return line_history_end(h);
    *at = s.at;
    return (size_t)s.id;
}

size_t line_history_match(LineHistory *h, size_t from, int step, const char *text, size_t n)
{
    Search s = {.text = text, .n = n};
    search(h, from, step, &s);
    return s.found ? (size_t)s.id : line_history_end(h);
}

size_t line_history_recent(LineHistory *h, const char *text, size_t n)
{
    Search s = {.text = text, .n = n, .longer = true, .most = 1000};
    search(h, 0, -1, &s);
    return s.found ? (size_t)s.id : line_history_end(h);
}

const char *line_history_add(LineHistory *h, const char *text, size_t n)
{
    const char *newest = line_history_entry(h, line_history_end(h));
    if (n > 0 && (strlen(newest) != n || memcmp(newest, text, n) != 0))
        history_add(h->history, ++h->lines, (Str){text, n}, (Str){"", 0});
    return history_trouble(h->history);
}
