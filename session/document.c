/* Documents: a text that somebody edits is read and checked as a whole, and kept with what was found until the next one. */
#include "session/document.h"

#include "base/memory.h"
#include "base/render.h"
#include "ir/json_read.h"
#include "parser/lexer.h"

#include <stdlib.h>
#include <string.h>

/* ---- one text after the other ----------------------------------------------------------------------------------------------- */

RelayDocument *relay_document_new(RelaySession *s, const char *name)
{
    RelayDocument *d = memory_zeroed(1, sizeof *d);
    if (!d)
        return NULL;
    d->s = s;
    buf_str(&d->name, name ? name : "input");
    diags_init(&d->diags, NULL);
    arena_init(&d->arena, NULL);
    return d;
}

/* What a session held that was lost is in no known state, and stays where it is. */
static void forget(RelayDocument *d)
{
    if (d->read && d->world == d->s->world) {
        trail_deinit(&d->trail);
        sources_release(&d->s->cx.sources, d->source);
    }
    diags_clear(&d->diags);
    arena_deinit(&d->arena);
    arena_init(&d->arena, NULL);
    memset(&d->trail, 0, sizeof d->trail);
    memset(&d->findings, 0, sizeof d->findings);
    memset(&d->mentions, 0, sizeof d->mentions);
    d->read = false;
    d->source = 0;
}

void relay_document_be_script(RelayDocument *d)
{
    d->is_script = true;
}

void relay_document_free(RelayDocument *d)
{
    if (!d)
        return;
    forget(d);
    diags_deinit(&d->diags);
    arena_deinit(&d->arena);
    buf_deinit(&d->name);
    buf_deinit(&d->text);
    free(d);
}

/* ---- reading ---------------------------------------------------------------------------------------------------------------- */

static bool begins_with_version(const char *text, size_t len)
{
    Lexer lx = {.text = text, .end = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len};
    Token first = lexer_next(&lx), word = lexer_next(&lx);
    return first.kind == TOKEN_HASH &&
           str_is((Str){text + word.from, word.to - word.from}, "version");
}

/* The module is one item, and what it imports is known too. */
static void read_module(RelayDocument *d)
{
    RelaySession *s = d->s;
    ParseEnv env = {
        .import = session_import, .data = s, .keep_broken = true, .wants_version = true};
    Module *m = session_parse(s, d->source, &env);
    if (!m)
        return;
    session_check(s, m, NULL, (CheckWish){.answers = true});
    trail_define(&d->trail, &(CellItem){.module = m, .span = {d->source, 0, (uint32_t)d->text.n}});
}

static void read_text(RelayDocument *d)
{
    RelaySession *s = d->s;
    d->trail = (Trail){.s = s};
    if (d->is_module)
        d->trail.env = module_new(&s->cx);
    else
        trail_init(&d->trail, s);
    d->trail.script = d->is_script;
    d->read = d->trail.env != NULL;
    if (d->read && d->is_module)
        read_module(d);
    else if (d->read)
        trail_read(&d->trail, d->source, d->text.n + 1);
}

/* ---- findings --------------------------------------------------------------------------------------------------------------- */

static RelayRange range_of(const RelayDocument *d, Span span)
{
    if (span.source != d->source || span.to > d->text.n || span.from > span.to)
        return (RelayRange){0, 0};
    return (RelayRange){span.from, span.to};
}

/* What is wrong elsewhere says where. */
static const char *message_of(RelayDocument *d, const Diag *diag)
{
    SourceMap *sources = &d->s->cx.sources;
    const Source *other = span_is_none(diag->span) || diag->span.source == d->source
                              ? NULL
                              : sources_get(sources, diag->span.source);
    Buf b = {0};
    if (other) {
        Position p = span_start(sources, diag->span);
        buf_printf(&b, "%s:%u:%u: ", other->name, p.line, p.column);
    }
    buf_str(&b, diag->message);
    return buf_keep(&b, &d->arena);
}

static const RelayLabel *labels_of(RelayDocument *d, const Diag *diag, size_t *n)
{
    Vec(RelayLabel) out = {0};
    for (const DiagLabel *l = diag->labels; l; l = l->next)
        if (l->span.source == d->source)
            vec_push(&out, &d->arena, ((RelayLabel){range_of(d, l->span), l->text}));
    *n = out.n;
    return out.at;
}

static const RelayFix *fixes_of(RelayDocument *d, const Diag *diag, size_t *n)
{
    Vec(RelayFix) out = {0};
    const char *text = buf_text(&d->text);
    for (const DiagFix *f = diag->fixes; f; f = f->next) {
        RelayRange r = range_of(d, f->span);
        size_t wanted = f->wanted ? strlen(f->wanted) : 0;
        if (f->span.source != d->source)
            continue;
        while (wanted && r.from + wanted <= r.to && memcmp(text + r.from, f->wanted, wanted) != 0)
            r.from++;
        if (wanted && r.from + wanted > r.to)
            continue;
        vec_push(&out, &d->arena, ((RelayFix){{r.from, r.from + wanted}, f->text}));
    }
    *n = out.n;
    return out.at;
}

static void add_findings(RelayDocument *d, const Diags *diags)
{
    for (const Diag *diag = diags->first; diag; diag = diag->next) {
        Buf more = {0};
        RelayFinding f = {
            .severity = diag->severity == SEVERITY_NOTE      ? RELAY_NOTE
                        : diag->severity == SEVERITY_WARNING ? RELAY_WARNING
                                                             : RELAY_ERROR,
            .code = diag_info(diag->code)->code,
            .message = message_of(d, diag),
            .range = range_of(d, diag->span),
        };
        for (const DiagText *t = diag->notes; t; t = t->next)
            buf_printf(&more, "%snote: %s", more.n ? "\n" : "", t->text);
        for (const DiagText *t = diag->helps; t; t = t->next)
            buf_printf(&more, "%shelp: %s", more.n ? "\n" : "", t->text);
        f.labels = labels_of(d, diag, &f.n_labels);
        f.fixes = fixes_of(d, diag, &f.n_fixes);
        f.more = buf_keep(&more, &d->arena);
        vec_push(&d->findings, &d->arena, f);
    }
}

const RelayFinding *relay_document_findings(const RelayDocument *d, size_t *n)
{
    *n = d->findings.n;
    return d->findings.at;
}

bool relay_document_is_module(const RelayDocument *d)
{
    return d->is_module;
}

RelayDocument *document_beside(const RelayDocument *d, const Buf *text)
{
    RelaySession *s = d->s;
    RelayDocument *b = relay_document_new(s, buf_text(&d->name));
    if (!b)
        return NULL;
    buf_bytes(&b->text, buf_text(text), text->n);
    b->world = s->world;
    b->source = sources_add(&s->cx.sources, buf_text(&b->name), buf_text(text), text->n);
    sources_retain(&s->cx.sources, b->source);
    b->trail = (Trail){.s = s, .env = module_derive(d->trail.env)};
    b->read = b->trail.env != NULL;
    Diags *before = s->cx.diags;
    s->cx.diags = &b->diags;
    if (b->read && b->source)
        trail_read(&b->trail, b->source, b->text.n + 1);
    s->cx.diags = before;
    if (b->read)
        document_note_mentions(b);
    return b;
}

/* ---- a new text ------------------------------------------------------------------------------------------------------------- */

typedef struct SetCall {
    RelayDocument *d;
    const char *text;
    size_t len;
    bool ok;
} SetCall;

static void set_text(void *data)
{
    SetCall *call = data;
    RelayDocument *d = call->d;
    RelaySession *s = d->s;
    session_begin(s, (RelaySink){0});
    forget(d);
    buf_clear(&d->text);
    buf_bytes(&d->text, call->text, call->len);
    d->is_module =
        begins_with_version(call->text, call->len) || graph_is_json(call->text, call->len);
    d->world = s->world;
    if (!d->is_module)
        session_load_prelude(s);
    d->source =
        d->text.failed ? 0 : sources_add(&s->cx.sources, buf_text(&d->name), call->text, call->len);
    sources_retain(&s->cx.sources, d->source);
    Diags *before = s->cx.diags;
    s->cx.diags = &d->diags;
    if (d->source)
        read_text(d);
    s->cx.diags = before;
    add_findings(d, &d->diags);
    add_findings(d, before);
    if (d->read)
        document_note_mentions(d);
    call->ok = d->read;
    session_end(s);
}

bool relay_document_set(RelayDocument *d, const char *text, size_t len)
{
    SetCall call = {d, text, len, false};
    return session_guard(d->s, (RelaySink){0}, set_text, &call) && call.ok;
}
