#define _GNU_SOURCE 1
#include "kernel/history.h"

#include "base/utf8.h"
#include "kernel/message.h"

#include <string.h>

/* ---- questions ---- */

/* Whether a set `[a-z]`, whose first character stands at *p, holds the code point; *p moves
 * behind the set. A set that is not closed holds nothing and ends the pattern. */
static bool in_set(const char **p, const char *end, uint32_t code)
{
    bool negated = *p < end && (**p == '!' || **p == '^'), found = false;
    if (negated)
        (*p)++;
    for (bool first = true; *p < end; first = false) {
        uint32_t low, high;
        if (**p == ']' && !first) {
            (*p)++;
            return found != negated;
        }
        *p += utf8_decode(*p, (size_t)(end - *p), &low);
        high = low;
        if (end - *p >= 2 && **p == '-' && (*p)[1] != ']') {
            (*p)++;
            *p += utf8_decode(*p, (size_t)(end - *p), &high);
        }
        found = found || (low <= code && code <= high);
    }
    return false;
}

/* One step of the glob at *p, which is not a star, against one character of the text. */
static bool step(const char **p, const char *end, uint32_t code)
{
    uint32_t want;
    if (*p == end)
        return false;
    *p += utf8_decode(*p, (size_t)(end - *p), &want);
    if (want == '[')
        return in_set(p, end, code);
    return want == '?' || want == code;
}

/* Behind a star: moves the text to where the characters up to the next sign of the glob stand, and both behind them. Where that is, or
 * NULL: nowhere. */
static const char *behind_star(const char **p, const char **text, const char *text_end)
{
    size_t n = strcspn(*p, "*?[");
    const char *at = n ? memmem(*text, (size_t)(text_end - *text), *p, n) : *text;
    *p += n;
    *text = at + (at ? n : 0);
    return at;
}

/* Whether the whole text is as the glob says. Only the latest star is ever tried again, which is
 * enough and keeps the work below the product of both lengths. */
static bool glob(const char *p, Str input)
{
    const char *end = p + strlen(p), *text = input.ptr, *text_end = text + input.len;
    const char *star = NULL, *star_text = NULL;
    while (text < text_end) {
        uint32_t code;
        size_t n = utf8_decode(text, (size_t)(text_end - text), &code);
        if (p < end && *p == '*') {
            star = ++p;
        } else if (step(&p, end, code)) {
            text += n;
            continue;
        } else if (star) {
            p = star;
            text = star_text + utf8_decode(star_text, (size_t)(text_end - star_text), &code);
        } else {
            return false;
        }
        star_text = behind_star(&p, &text, text_end);
        if (!star_text)
            return false;
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}

/* A question that is being answered, from the newest entry on. */
typedef struct Finding {
    const HistoryQuery *query;
    int64_t session;
    json_t *inputs, *newest_first;
} Finding;

static bool wants(void *data, Str input)
{
    const Finding *f = data;
    return glob(f->query->pattern, input);
}

static bool listed(json_t *inputs, const char *input)
{
    if (json_object_get(inputs, input))
        return true;
    json_object_set_new(inputs, input, json_true());
    return false;
}

static json_t *item(const HistoryRow *row, bool with_output)
{
    json_t *text = json_text(row->input, strlen(row->input));
    if (with_output)
        text = json_pack("[o, o?]", text,
                         row->output ? json_text(row->output, strlen(row->output)) : NULL);
    return json_pack("[I, I, o]", (json_int_t)row->session, (json_int_t)row->line, text);
}

static bool find(void *data, const HistoryRow *row)
{
    Finding *f = data;
    const HistoryQuery *q = f->query;
    bool counted = q->access != HISTORY_RANGE && q->n >= 0;
    if (counted && json_array_size(f->newest_first) >= (size_t)q->n)
        return false;
    bool here = q->access != HISTORY_RANGE || (row->line >= q->start && row->line < q->stop);
    if (here && !(q->unique && listed(f->inputs, row->input)))
        json_array_append_new(f->newest_first, item(row, q->output));
    return true;
}

json_t *history_find(History *h, const HistoryQuery *q)
{
    Finding f = {q, history_session(h), json_object(), json_array()};
    bool ranged = q->access == HISTORY_RANGE;
    int64_t session = !ranged                   ? 0
                      : q->session > 0          ? q->session
                      : q->session > -f.session ? f.session + q->session
                                                : -1;
    history_each(h,
                 (HistoryRange){.step = -1,
                                .session = session,
                                .wants = q->access == HISTORY_SEARCH ? wants : NULL},
                 find, &f);
    json_t *oldest_first = json_array();
    for (size_t i = json_array_size(f.newest_first); i-- > 0;)
        json_array_append(oldest_first, json_array_get(f.newest_first, i));
    json_decref(f.newest_first);
    json_decref(f.inputs);
    return oldest_first;
}
