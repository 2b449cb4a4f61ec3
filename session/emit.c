#include "base/memory.h"
#include "base/render.h"
#include "base/utf8.h"
#include "session/internal.h"

#include <stdarg.h>
#include <string.h>

const RelayMime *relay_output_find(const RelayOutput *out, const char *mime)
{
    for (size_t i = 0; i < out->n_mimes; i++)
        if (!strcmp(out->mimes[i].type, mime))
            return &out->mimes[i];
    return NULL;
}

/* What is made by work that a limit ended, or while memory was refused, may not be whole. */
static bool may_be_wrong(RelaySession *s, RelayOutputKind kind)
{
    bool made =
        kind == RELAY_OUTPUT_RESULT || kind == RELAY_OUTPUT_DISPLAY || kind == RELAY_OUTPUT_TEXT;
    return made && (limit_refused(&s->cx.limits) || s->cx.limits.hit != LIMIT_NONE);
}

static void emit(RelaySession *s, const RelayOutput *out)
{
    if (!s->sink.emit || may_be_wrong(s, out->kind))
        return;
    bool before = memory_patient(s->patient);
    s->sink.emit(s->sink.data, out);
    memory_patient(before);
}

void emit_mimes(RelaySession *s, RelayOutputKind kind, size_t n, const RelayMime *mimes)
{
    emit(s, &(RelayOutput){.kind = kind, .mimes = mimes, .n_mimes = n});
}

void emit_text(RelaySession *s, RelayOutputKind kind, const Buf *text)
{
    RelayMime mime = {"text/plain", buf_text(text), text->n};
    emit_mimes(s, kind, 1, &mime);
}

void emit_code(RelaySession *s, const char *language, const Buf *text, Buf *html, const Buf *json)
{
    html_one_sheet(html);
    RelayMime mimes[] = {{"text/plain", buf_text(text), text->n},
                         {"application/json", buf_text(json), json->n},
                         {"text/html", buf_text(html), html->n}};
    emit(s, &(RelayOutput){.kind = RELAY_OUTPUT_DISPLAY,
                           .mimes = mimes,
                           .n_mimes = sizeof mimes / sizeof *mimes,
                           .language = language});
}

void emit_in_parts(RelaySession *s, const Buf *text, const Buf *parts, Buf *html, const Buf *json)
{
    RelayMime mimes[4] = {{"text/plain", buf_text(text), text->n}};
    size_t n = 1;
    html_one_sheet(html);
    if (parts)
        mimes[n++] = (RelayMime){"text/x-relay-parts", buf_text(parts), parts->n};
    mimes[n++] = (RelayMime){"application/json", buf_text(json), json->n};
    mimes[n++] = (RelayMime){"text/html", buf_text(html), html->n};
    emit_mimes(s, RELAY_OUTPUT_DISPLAY, n, mimes);
}

void emit_bundle(RelaySession *s, const Buf *text, Buf *html, const Buf *json)
{
    emit_in_parts(s, text, NULL, html, json);
}

void emit_live(RelaySession *s, unsigned live, bool more, size_t n, const RelayMime *mimes)
{
    emit(s, &(RelayOutput){.kind = RELAY_OUTPUT_DISPLAY,
                           .mimes = mimes,
                           .n_mimes = n,
                           .live = live,
                           .more = more});
}

void emit_printf(RelaySession *s, RelayOutputKind kind, const char *format, ...)
{
    Buf b = {0};
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    emit_text(s, kind, &b);
    buf_deinit(&b);
}

static RelaySeverity severity_of(const Diag *d)
{
    if (d->severity == SEVERITY_NOTE)
        return RELAY_NOTE;
    return d->severity == SEVERITY_WARNING ? RELAY_WARNING : RELAY_ERROR;
}

static void emit_constant(RelaySession *s, const char *text, const char *html)
{
    static const char title[] = "the system gives no more memory";
    static const char json[] = "{\"severity\":\"error\",\"code\":\"E0503\",\"message\":\"the "
                               "system gives no more memory\"}";
    const RelayMime mimes[] = {
        {"text/plain", text, strlen(text)},
        {"application/json", json, sizeof json - 1},
        {"text/html", html, strlen(html)},
    };
    emit(s, &(RelayOutput){
                .kind = RELAY_OUTPUT_DIAGNOSTIC,
                .severity = RELAY_ERROR,
                .code = "E0503",
                .title = title,
                .mimes = mimes,
                .n_mimes = sizeof mimes / sizeof *mimes,
            });
}

void emit_refused(RelaySession *s)
{
    emit_constant(s, "error[E0503]: the system gives no more memory\n",
                  "<pre>error[E0503]: the system gives no more memory</pre>");
}

void emit_lost(RelaySession *s)
{
    emit_constant(s,
                  "error[E0503]: the system gives no more memory\n"
                  "note: what was defined so far is gone with it\n",
                  "<pre>error[E0503]: the system gives no more memory\n"
                  "note: what was defined so far is gone with it</pre>");
}

/* False when memory was refused to it, and nothing was shown. */
static bool emit_diag(RelaySession *s, const Diag *d)
{
    Buf text = {0}, html = {0}, json = {0};
    render_text(&text, &s->cx.sources, d,
                (RenderStyle){.color = s->options.color, .width = s->options.width});
    render_html(&html, &s->cx.sources, d);
    render_json(&json, &s->cx.sources, d);
    RelayMime mimes[] = {
        {"text/plain", buf_text(&text), text.n},
        {"application/json", buf_text(&json), json.n},
        {"text/html", buf_text(&html), html.n},
    };
    bool whole = !text.failed && !html.failed && !json.failed;
    if (whole)
        emit(s, &(RelayOutput){
                    .kind = RELAY_OUTPUT_DIAGNOSTIC,
                    .severity = severity_of(d),
                    .code = diag_info(d->code)->code,
                    .title = d->message,
                    .mimes = mimes,
                    .n_mimes = sizeof mimes / sizeof *mimes,
                });
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
    return whole;
}

/* Texts are checked again when what they use is defined anew; what was said of a clause of theirs then is no news. */
static bool was_said(RelaySession *s, const Diag *d)
{
    void *place = (void *)((uintptr_t)d->span.source << 32 | d->span.from);
    if (d->code != W0201_UNREACHABLE || span_is_none(d->span))
        return false;
    bool said = ptrmap_has(&s->said, place);
    ptrmap_put(&s->said, place, NULL);
    return said;
}

void emit_diags(RelaySession *s)
{
    bool whole = true;
    for (const Diag *d = s->cx.diags->first; d; d = d->next)
        whole &= was_said(s, d) || emit_diag(s, d);
    if (!whole)
        emit_refused(s);
    size_t shown = s->cx.diags->n;
    if (s->cx.diags->cut)
        emit_printf(s, RELAY_OUTPUT_STREAM, "… and more\n");
    else if (s->cx.diags->errors > shown)
        emit_printf(s, RELAY_OUTPUT_STREAM, "… and %zu more errors\n", s->cx.diags->errors - shown);
    diags_clear(s->cx.diags);
}

void emit_diags_behind(RelaySession *s, DiagsMark mark)
{
    for (const Diag *d = mark.last ? mark.last->next : s->cx.diags->first; d; d = d->next)
        emit_diag(s, d);
    diags_back(s->cx.diags, mark);
}

/* ---- prose ----------------------------------------------------------------------------------------------------------------------- */

int session_width(const RelaySession *s)
{
    enum { READABLE = 100 };
    int width = s->options.width > 0 ? s->options.width : 80;
    return width < READABLE ? width : READABLE;
}

void fill_words(Buf *b, Str text, int column, int width)
{
    int at = column;
    const char *end = text.ptr + text.len;
    for (const char *p = text.ptr; p < end;) {
        size_t n = 0;
        while (p + n < end && p[n] != ' ' && p[n] != '\n')
            n++;
        int wide = (int)utf8_text_width(p, n);
        if (at > column && at + 1 + wide > width) {
            buf_char(b, '\n');
            buf_repeat(b, ' ', (size_t)column);
            at = column;
        } else if (at > column) {
            buf_char(b, ' ');
            at++;
        }
        buf_bytes(b, p, n);
        at += wide;
        p += n;
        while (p < end && (*p == ' ' || *p == '\n'))
            p++;
    }
}

void fill_row(Buf *b, const char *name, Str text, int column, int width)
{
    enum { PROSE_LEAST = 20, GAP = 2 };
    int used = (int)utf8_text_width(name, strlen(name));
    buf_str(b, name);
    if (used + GAP > column) {
        buf_char(b, '\n');
        used = 0;
    }
    buf_repeat(b, ' ', (size_t)(column - used));
    fill_words(b, text, column, width > column + PROSE_LEAST ? width : column + PROSE_LEAST);
    buf_char(b, '\n');
}
