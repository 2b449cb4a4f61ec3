#include "kernel/history.h"

#include "base/memory.h"
#include "base/buf.h"
#include "base/utf8.h"
#include "kernel/files.h"
#include "kernel/message.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Of more than the first number of entries the second are kept. */
enum { ENTRIES_MOST = 20000, ENTRIES_KEEP = 10000 };

void history_init(History *h)
{
    *h = (History){.file = -1};
}

static void entry_deinit(HistoryEntry *e)
{
    free(e->input);
    free(e->output);
}

static void entries_deinit(HistoryEntries *es)
{
    for (size_t i = 0; i < es->n; i++)
        entry_deinit(&es->at[i]);
    free(es->at);
}

void history_deinit(History *h)
{
    entries_deinit(&h->unwritten);
    if (h->file >= 0)
        close(h->file);
    history_init(h);
}

/* Forgets the oldest entries, if there are too many. */
static void cut(HistoryEntries *es)
{
    if (es->n <= ENTRIES_MOST)
        return;
    size_t gone = es->n - ENTRIES_KEEP;
    for (size_t i = 0; i < gone; i++)
        entry_deinit(&es->at[i]);
    memmove(es->at, es->at + gone, ENTRIES_KEEP * sizeof *es->at);
    es->n = ENTRIES_KEEP;
}

/* Takes over the texts. */
static void push(HistoryEntries *es, HistoryEntry e)
{
    if (es->n == es->cap) {
        size_t cap = es->cap ? 2 * es->cap : 64;
        HistoryEntry *at = memory_resize(es->at, cap * sizeof *at);
        if (!at) {
            entry_deinit(&e);
            return;
        }
        es->at = at;
        es->cap = cap;
    }
    if (e.input)
        es->at[es->n++] = e;
    else
        entry_deinit(&e);
}

/* ---- the file ---- */

/* The path of the file, its folders made; NULL without a home. */
static char *history_path(void)
{
    const char *state = getenv("XDG_STATE_HOME"), *home = getenv("HOME");
    Buf path = {0};
    if (state && *state)
        buf_str(&path, state);
    else if (home && *home)
        buf_printf(&path, "%s/.local/state", home);
    else
        return NULL;
    buf_str(&path, "/relay/kernel-history.jsonl");
    char *text = buf_take(&path);
    if (text)
        files_make_folders(text, FILE_OURS);
    return text;
}

static void lock_file(int fd, short how)
{
    struct flock lock = {.l_type = how, .l_whence = SEEK_SET};
    while (fcntl(fd, F_SETLKW, &lock) != 0 && errno == EINTR)
        continue;
}

static char *copy_string(const json_t *value)
{
    const char *text = json_string_value(value);
    return text ? memory_text(text, strlen(text)) : NULL;
}

/* One line of the file. Lines that are none of ours are passed over; one without input only
 * claims a session. */
static void read_line(HistoryEntries *es, const char *line, size_t n)
{
    json_error_t error;
    json_t *row = json_loadb(line, n, 0, &error);
    json_int_t session = json_integer_value(json_array_get(row, 0));
    if (session > es->session && session < INT64_MAX)
        es->session = session;
    push(es,
         (HistoryEntry){session, json_integer_value(json_array_get(row, 1)),
                        copy_string(json_array_get(row, 2)), copy_string(json_array_get(row, 3))});
    json_decref(row);
}

/* The whole file; the lock is the caller's. By positions of its own, since the descriptor is one for appending, and closing another of
 * the same file would drop the lock. */
static void read_file(int fd, HistoryEntries *es)
{
    Buf text = {0};
    char part[1 << 14];
    ssize_t n;
    while ((n = pread(fd, part, sizeof part, (off_t)text.n)) > 0)
        buf_bytes(&text, part, (size_t)n);
    for (size_t at = 0; at < text.n;) {
        const char *end = memchr(text.at + at, '\n', text.n - at);
        size_t line = end ? (size_t)(end - text.at) - at : text.n - at;
        read_line(es, text.at + at, line);
        at += line + 1;
    }
    buf_deinit(&text);
}

static bool write_row(int fd, int64_t session, int64_t line, json_t *input, json_t *output)
{
    json_t *row = json_pack("[I, I, o?, o?]", (json_int_t)session, (json_int_t)line, input, output);
    char *text = row ? json_dumps(row, JSON_COMPACT) : NULL;
    json_decref(row);
    Buf out = {0};
    if (text)
        buf_printf(&out, "%s\n", text);
    free(text);
    /* One write of an appending file: lines of several kernels do not mix. */
    bool ok = out.n > 0 && write(fd, out.at, out.n) == (ssize_t)out.n;
    buf_deinit(&out);
    return ok;
}

static bool write_entry(int fd, const HistoryEntry *e)
{
    return write_row(fd, e->session, e->line, json_text(e->input, strlen(e->input)),
                     e->output ? json_text(e->output, strlen(e->output)) : NULL);
}

/* Leaves the newest entries in the file, which is locked. */
static void cut_file(int fd, HistoryEntries *es)
{
    if (es->n <= ENTRIES_MOST)
        return;
    cut(es);
    bool ok = ftruncate(fd, 0) == 0;
    for (size_t i = 0; i < es->n && ok; i++)
        ok = write_entry(fd, &es->at[i]);
}

/* Opens the file and claims a session number in it, once. */
static void open_history(History *h)
{
    if (h->session > 0)
        return;
    HistoryEntries old = {0};
    char *path = history_path();
    h->file = path ? open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (h->file >= 0) {
        lock_file(h->file, F_WRLCK);
        read_file(h->file, &old);
        cut_file(h->file, &old);
        write_row(h->file, old.session + 1, 0, NULL, NULL);
        lock_file(h->file, F_UNLCK);
    }
    free(path);
    h->session = old.session + 1;
    entries_deinit(&old);
}

void history_add(History *h, int64_t line, Str input, Str output)
{
    open_history(h);
    HistoryEntry e = {h->session, line, memory_text(input.ptr, input.len),
                      output.len > 0 ? memory_text(output.ptr, output.len) : NULL};
    bool written = false;
    if (h->file >= 0 && e.input) {
        lock_file(h->file, F_WRLCK);
        written = write_entry(h->file, &e);
        lock_file(h->file, F_UNLCK);
    }
    if (written) {
        entry_deinit(&e);
        return;
    }
    push(&h->unwritten, e);
    cut(&h->unwritten);
}

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

/* Whether the whole text is as the glob says. Only the latest star is ever tried again, which is
 * enough and keeps the work below the product of both lengths. */
static bool glob(const char *p, const char *text)
{
    const char *end = p + strlen(p), *text_end = text + strlen(text);
    const char *star = NULL, *star_text = NULL;
    while (text < text_end) {
        uint32_t code;
        if (p < end && *p == '*') {
            star = ++p;
            star_text = text;
            continue;
        }
        size_t n = utf8_decode(text, (size_t)(text_end - text), &code);
        if (step(&p, end, code)) {
            text += n;
            continue;
        }
        if (!star)
            return false;
        star_text += utf8_decode(star_text, (size_t)(text_end - star_text), &code);
        text = star_text;
        p = star;
    }
    while (p < end && *p == '*')
        p++;
    return p == end;
}

static bool wanted(const History *h, const HistoryQuery *q, const HistoryEntry *e)
{
    switch (q->access) {
    case HISTORY_TAIL: return true;
    case HISTORY_RANGE:
        return e->session == (q->session > 0 ? q->session : h->session + q->session) &&
               e->line >= q->start && e->line < q->stop;
    case HISTORY_SEARCH: return glob(q->pattern, e->input);
    }
    return false;
}

static bool listed(json_t *inputs, const HistoryEntry *e)
{
    if (json_object_get(inputs, e->input))
        return true;
    json_object_set_new(inputs, e->input, json_true());
    return false;
}

static json_t *item(const HistoryEntry *e, bool with_output)
{
    json_t *text = json_text(e->input, strlen(e->input));
    if (with_output)
        text =
            json_pack("[o, o?]", text, e->output ? json_text(e->output, strlen(e->output)) : NULL);
    return json_pack("[I, I, o]", (json_int_t)e->session, (json_int_t)e->line, text);
}

/* What is asked for of these entries, in front of what was found in newer ones. */
static void find_in(const History *h, const HistoryEntries *es, const HistoryQuery *q,
                    json_t *inputs, json_t *newest_first)
{
    bool counted = q->access != HISTORY_RANGE && q->n >= 0;
    for (size_t i = es->n; i-- > 0;) {
        const HistoryEntry *e = &es->at[i];
        if (counted && json_array_size(newest_first) >= (size_t)q->n)
            break;
        if (wanted(h, q, e) && !(q->unique && listed(inputs, e)))
            json_array_append_new(newest_first, item(e, q->output));
    }
}

json_t *history_find(History *h, const HistoryQuery *q)
{
    open_history(h);
    HistoryEntries old = {0};
    if (h->file >= 0) {
        lock_file(h->file, F_RDLCK);
        read_file(h->file, &old);
        lock_file(h->file, F_UNLCK);
    }
    json_t *list = json_array(), *inputs = json_object();
    find_in(h, &h->unwritten, q, inputs, list);
    find_in(h, &old, q, inputs, list);
    entries_deinit(&old);
    json_decref(inputs);
    json_t *oldest_first = json_array();
    for (size_t i = json_array_size(list); i-- > 0;)
        json_array_append(oldest_first, json_array_get(list, i));
    json_decref(list);
    return oldest_first;
}
