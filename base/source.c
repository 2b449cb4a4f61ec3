#include "base/source.h"

#include "base/memory.h"
#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

void sources_init(SourceMap *m)
{
    *m = (SourceMap){0};
}

static void source_free(Source *s)
{
    if (!s)
        return;
    free(s->name);
    free(s->text);
    free(s->lines);
    free(s);
}

void sources_deinit(SourceMap *m)
{
    for (size_t i = 0; i < m->n; i++)
        source_free(m->sources[i]);
    free(m->sources);
    free(m->idle);
    *m = (SourceMap){0};
}

static char *copy_text(const char *text, size_t len)
{
    char *copy = memory_alloc(len + 1);
    if (!copy)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

static Source *at(const SourceMap *m, uint32_t number)
{
    size_t low = 0, high = m->n;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (m->sources[mid]->number < number)
            low = mid + 1;
        else
            high = mid;
    }
    return low < m->n && m->sources[low]->number == number ? m->sources[low] : NULL;
}

/* Without memory for the list the text stays. */
static void note_idle(SourceMap *m, Source *s)
{
    if (s->listed)
        return;
    if (m->n_idle == m->cap_idle) {
        size_t cap = m->cap_idle ? 2 * m->cap_idle : 8;
        uint32_t *idle = memory_resize(m->idle, cap * sizeof *idle);
        if (!idle)
            return;
        m->idle = idle;
        m->cap_idle = cap;
    }
    s->listed = true;
    m->idle[m->n_idle++] = s->number;
}

uint32_t sources_add(SourceMap *m, const char *name, const char *text, size_t len)
{
    if (len >= UINT32_MAX || m->last >= UINT32_MAX - 1)
        return 0;
    if (m->n == m->cap) {
        size_t cap = m->cap ? m->cap * 2 : 8;
        Source **sources = memory_resize(m->sources, cap * sizeof *sources);
        if (!sources)
            return 0;
        m->sources = sources;
        m->cap = cap;
    }
    Source *s = memory_zeroed(1, sizeof *s);
    if (!s)
        return 0;
    s->name = copy_text(name, strlen(name));
    s->text = copy_text(text, len);
    s->len = len;
    if (!s->name || !s->text) {
        source_free(s);
        return 0;
    }
    s->number = ++m->last;
    m->sources[m->n++] = s;
    note_idle(m, s);
    return s->number;
}

void sources_retain(SourceMap *m, uint32_t number)
{
    Source *s = at(m, number);
    if (s)
        s->refs++;
}

void sources_release(SourceMap *m, uint32_t number)
{
    Source *s = at(m, number);
    if (s && --s->refs == 0)
        note_idle(m, s);
}

void sources_sweep(SourceMap *m)
{
    bool any = false;
    for (size_t i = 0; i < m->n_idle; i++) {
        Source *s = at(m, m->idle[i]);
        any |= s && s->refs == 0;
        if (s)
            s->listed = false;
    }
    m->n_idle = 0;
    size_t kept = 0;
    for (size_t i = 0; i < m->n && any; i++) {
        Source *s = m->sources[i];
        if (s->refs == 0 && !s->listed)
            source_free(s);
        else
            m->sources[kept++] = s;
    }
    m->n = any ? kept : m->n;
}

uint32_t sources_constant(SourceMap *m, const char *name, const char *text)
{
    for (size_t i = 0; i < m->n_constants; i++)
        if (m->constants[i].text == text)
            return m->constants[i].number;
    uint32_t number = sources_add(m, name, text, strlen(text));
    sources_retain(m, number);
    if (number && m->n_constants < sizeof m->constants / sizeof *m->constants)
        m->constants[m->n_constants++] = (SourceConstant){text, number};
    return number;
}

void sources_drop(SourceMap *m, uint32_t number)
{
    if (m->n > 0 && m->sources[m->n - 1]->number == number)
        source_free(m->sources[--m->n]);
}

void sources_set_first_line(SourceMap *m, uint32_t number, uint32_t line)
{
    Source *s = at(m, number);
    if (s && line > 0)
        s->lines_before = line - 1;
}

const Source *sources_get(const SourceMap *m, uint32_t number)
{
    return at(m, number);
}

bool span_is_none(Span s)
{
    return s.source == 0;
}

Span span_join(Span a, Span b)
{
    if (span_is_none(a))
        return b;
    if (a.source != b.source)
        return a;
    return (Span){
        .source = a.source,
        .from = a.from < b.from ? a.from : b.from,
        .to = a.to > b.to ? a.to : b.to,
    };
}

/* Makes the table of line starts; false when memory is refused, then lines are counted each
 * time. */
static bool have_lines(Source *s)
{
    if (s->lines)
        return true;
    size_t n = 1;
    for (size_t i = 0; i < s->len; i++)
        n += s->text[i] == '\n';
    s->lines = memory_alloc(n * sizeof *s->lines);
    if (!s->lines)
        return false;
    s->n_lines = n;
    s->lines[0] = 0;
    size_t line = 1;
    for (size_t i = 0; i < s->len; i++) {
        if (s->text[i] == '\n')
            s->lines[line++] = (uint32_t)i + 1;
    }
    return true;
}

/* The line, counted from 0, that `offset` lies in, and where it starts. */
static uint32_t line_of(Source *s, uint32_t offset, uint32_t *start)
{
    if (!have_lines(s)) {
        uint32_t line = 0;
        *start = 0;
        for (uint32_t i = 0; i < offset; i++) {
            if (s->text[i] != '\n')
                continue;
            line++;
            *start = i + 1;
        }
        return line;
    }
    size_t low = 0, high = s->n_lines;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (s->lines[mid] <= offset)
            low = mid;
        else
            high = mid;
    }
    *start = s->lines[low];
    return (uint32_t)low;
}

/* Diagnostics come in the order of the text: the column is counted on from the last one, in case the line is long. */
static uint32_t column_of(Source *s, uint32_t start, uint32_t offset)
{
    bool on = s->known >= start && s->known <= offset;
    uint32_t from = on ? s->known : start;
    s->column = (on ? s->column : 0) + (uint32_t)utf8_count(s->text + from, offset - from);
    s->known = offset;
    return s->column;
}

static Position position(SourceMap *m, uint32_t source, uint32_t offset)
{
    Source *s = at(m, source);
    if (!s)
        return (Position){1, 1};
    if (offset > s->len)
        offset = (uint32_t)s->len;
    uint32_t start;
    uint32_t line = line_of(s, offset, &start);
    return (Position){s->lines_before + line + 1, column_of(s, start, offset) + 1};
}

Position span_start(SourceMap *m, Span s)
{
    return position(m, s.source, s.from);
}

Position span_end(SourceMap *m, Span s)
{
    return position(m, s.source, s.to);
}

void source_line(SourceMap *m, uint32_t source, uint32_t line, const char **text, size_t *len)
{
    *text = "";
    *len = 0;
    Source *s = at(m, source);
    if (!s || line <= s->lines_before)
        return;
    line -= s->lines_before;
    const char *end = s->text + s->len;
    const char *p = s->text;
    if (have_lines(s)) {
        if (line > s->n_lines)
            return;
        p += s->lines[line - 1];
    } else {
        for (uint32_t i = 1; i < line && p; i++) {
            p = memchr(p, '\n', (size_t)(end - p));
            p = p ? p + 1 : NULL;
        }
        if (!p)
            return;
    }
    const char *stop = NULL;
    if (!s->lines)
        stop = memchr(p, '\n', (size_t)(end - p));
    else if (line < s->n_lines)
        stop = s->text + s->lines[line] - 1;
    stop = stop ? stop : end;
    if (stop > p && stop[-1] == '\r')
        stop--;
    *text = p;
    *len = (size_t)(stop - p);
}
