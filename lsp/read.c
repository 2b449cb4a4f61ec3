/* Questions: what is at a place, what could be, where a name is used, how a text is coloured. */
#include "lsp/internal.h"

#include "base/file.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- diagnostics ----------------------------------------------------------------------------------------------------- */

static json_t *related(Server *s, Open *o, const RelayFinding *f)
{
    json_t *list = json_array();
    for (size_t i = 0; i < f->n_labels; i++)
        json_array_append_new(list,
                              json_pack("{s:{s:s, s:o}, s:o}", "location", "uri", o->uri, "range",
                                        range_json(o, f->labels[i].range, s->utf8), "message",
                                        text_json(f->labels[i].text, strlen(f->labels[i].text))));
    return list;
}

static json_t *diagnostic(Server *s, Open *o, const RelayFinding *f)
{
    static const int severities[] = {[RELAY_NOTE] = 3, [RELAY_WARNING] = 2, [RELAY_ERROR] = 1};
    Buf text = {0};
    buf_printf(&text, "%s%s%s", f->message, *f->more ? "\n" : "", f->more);
    json_t *d = json_pack(
        "{s:o, s:i, s:s, s:s, s:o, s:o}", "range", range_json(o, f->range, s->utf8), "severity",
        severities[f->severity], "code", f->code, "source", "relay", "message",
        text_json(buf_text(&text), text.n), "relatedInformation", related(s, o, f));
    buf_deinit(&text);
    return d;
}

json_t *diagnostics(Server *s, Open *o)
{
    size_t n = 0;
    const RelayFinding *found = relay_document_findings(o->document, &n);
    json_t *list = json_array();
    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, diagnostic(s, o, &found[i]));
    return list;
}

/* ---- hover ----------------------------------------------------------------------------------------------------------- */

static void take_markdown(void *data, const RelayOutput *out)
{
    const RelayMime *m = relay_output_find(out, "text/markdown");
    if (m)
        buf_bytes(data, m->data, m->size);
}

Answer hover(Server *s, const json_t *params)
{
    size_t offset;
    RelayRange range;
    Open *o = open_at(s, params, &offset);
    Buf text = {0};
    json_t *answer = json_null();
    if (o && relay_document_inspect(o->document, offset, &range, (RelaySink){take_markdown, &text}))
        answer =
            json_pack("{s:{s:s, s:o}, s:o}", "contents", "kind", "markdown", "value",
                      text_json(buf_text(&text), text.n), "range", range_json(o, range, s->utf8));
    buf_deinit(&text);
    return answer_with(answer);
}

/* ---- completion ------------------------------------------------------------------------------------------------------ */

static int completion_kind(const char *kind)
{
    static const struct {
        const char *name;
        int kind;
    } kinds[] = {
        {"keyword", 14}, {"operator", 3}, {"local", 6},       {"global", 3},   {"constructor", 20},
        {"type", 7},     {"dtype", 7},    {"attribute", 10},  {"command", 23}, {"argument", 12},
        {"pass", 9},     {"analysis", 9}, {"diagnostic", 21}, {"field", 5},    {"path", 17},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i].name, kind))
            return kinds[i].kind;
    return 1;
}

Answer completion(Server *s, const json_t *params)
{
    enum { MOST = 500 };
    size_t offset;
    Open *o = open_at(s, params, &offset);
    RelayCompletions *c = o ? relay_document_complete(o->document, offset) : NULL;
    json_t *items = json_array();
    for (size_t i = 0; c && i < c->n && i < MOST; i++) {
        const RelayCompletion *item = &c->items[i];
        char rank[8];
        snprintf(rank, sizeof rank, "%04zu", i);
        json_t *edit =
            json_pack("{s:o, s:o}", "range", range_json(o, (RelayRange){c->from, c->to}, s->utf8),
                      "newText", text_json(item->text, strlen(item->text)));
        json_array_append_new(items, json_pack("{s:o, s:i, s:o, s:s, s:o}", "label",
                                               text_json(item->text, strlen(item->text)), "kind",
                                               completion_kind(item->kind), "detail",
                                               text_json(item->detail, strlen(item->detail)),
                                               "sortText", rank, "textEdit", edit));
    }
    relay_completions_free(c);
    /* What fits best depends on all that was typed. */
    return answer_with(json_pack("{s:b, s:o}", "isIncomplete", 1, "items", items));
}

/* ---- names ----------------------------------------------------------------------------------------------------------- */

static RelayUses *uses_at(Server *s, const json_t *params, Open **o)
{
    size_t offset;
    *o = open_at(s, params, &offset);
    return *o ? relay_document_uses((*o)->document, offset) : NULL;
}

static json_t *location(Server *s, Open *o, RelayRange range)
{
    return json_pack("{s:s, s:o}", "uri", o->uri, "range", range_json(o, range, s->utf8));
}

/* In a file that is not open: its places are counted in its own text. */
static json_t *location_elsewhere(Server *s, const RelayUses *uses)
{
    Open other = {.uri = uri_of_path(uses->file)};
    json_t *found = NULL;
    if (other.uri && file_load(uses->file, NULL, &other.text)) {
        size_t from = 0;
        for (uint32_t line = 1; line < uses->line && from < other.text.n;)
            line += buf_text(&other.text)[from++] == '\n';
        for (uint32_t i = 1; i < uses->column && from < other.text.n; i++)
            do
                from++;
            while (from < other.text.n && ((unsigned char)other.text.at[from] & 0xc0) == 0x80);
        found = location(s, &other, (RelayRange){from, from});
    }
    buf_deinit(&other.text);
    memory_free(other.lines);
    free(other.uri);
    return found;
}

Answer definition(Server *s, const json_t *params)
{
    Open *o;
    RelayUses *uses = uses_at(s, params, &o);
    json_t *list = json_array();
    for (size_t i = 0; uses && i < uses->n; i++)
        if (uses->uses[i].binds)
            json_array_append_new(list, location(s, o, uses->uses[i].range));
    if (uses && uses->file)
        json_array_append_new(list, location_elsewhere(s, uses));
    relay_uses_free(uses);
    return answer_with(list);
}

Answer references(Server *s, const json_t *params)
{
    Open *o;
    RelayUses *uses = uses_at(s, params, &o);
    bool all =
        json_is_true(json_object_get(json_object_get(params, "context"), "includeDeclaration"));
    json_t *list = json_array();
    for (size_t i = 0; uses && i < uses->n; i++)
        if (all || !uses->uses[i].binds)
            json_array_append_new(list, location(s, o, uses->uses[i].range));
    relay_uses_free(uses);
    return answer_with(list);
}

Answer highlights(Server *s, const json_t *params)
{
    enum { READ = 2, WRITE = 3 };
    Open *o;
    RelayUses *uses = uses_at(s, params, &o);
    json_t *list = json_array();
    for (size_t i = 0; uses && i < uses->n; i++)
        json_array_append_new(list, json_pack("{s:o, s:i}", "range",
                                              range_json(o, uses->uses[i].range, s->utf8), "kind",
                                              uses->uses[i].binds ? WRITE : READ));
    relay_uses_free(uses);
    return answer_with(list);
}

/* ---- symbols --------------------------------------------------------------------------------------------------------- */

static int symbol_kind(const char *kind)
{
    return !strcmp(kind, "global")        ? 12
           : !strcmp(kind, "type")        ? 10
           : !strcmp(kind, "constructor") ? 22
                                          : 13;
}

Answer symbols(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    size_t n = 0;
    RelaySymbol *found = o ? relay_document_symbols(o->document, &n) : NULL;
    json_t *list = json_array(), *inner = NULL;
    for (size_t i = 0; i < n; i++) {
        const RelaySymbol *y = &found[i];
        if (!*y->name)
            continue;
        json_t *children = json_array();
        json_t *one =
            json_pack("{s:s, s:o, s:i, s:o, s:o, s:o}", "name", y->name, "detail",
                      text_json(y->detail ? y->detail : "", y->detail ? strlen(y->detail) : 0),
                      "kind", symbol_kind(y->kind), "range", range_json(o, y->whole, s->utf8),
                      "selectionRange", range_json(o, y->at, s->utf8), "children", children);
        json_array_append_new(y->depth && inner ? inner : list, one);
        if (!y->depth)
            inner = children;
    }
    relay_symbols_free(found, n);
    return answer_with(list);
}

/* ---- colours --------------------------------------------------------------------------------------------------------- */

/* The kinds of relay_highlight, and the type and modifiers of the legend that each has. */
static const struct {
    const char *kind, *type;
    int modifiers;
} colors[] = {
    {"keyword", "keyword", 0}, {"operator", "function", 1}, {"local", "variable", 0},
    {"global", "function", 0}, {"graph", "variable", 0},    {"constructor", "enumMember", 0},
    {"type", "type", 0},       {"number", "number", 0},     {"string", "string", 0},
    {"comment", "comment", 0}, {"command", "macro", 0},
};

enum { N_COLORS = sizeof colors / sizeof *colors };

json_t *semantic_legend(void)
{
    json_t *types = json_array();
    for (size_t i = 0; i < N_COLORS; i++)
        json_array_append_new(types, json_string(colors[i].type));
    return json_pack("{s:o, s:[s]}", "tokenTypes", types, "tokenModifiers", "defaultLibrary");
}

typedef struct Coloring {
    Server *s;
    Open *o;
    RelayRange range;
    json_t *data;
    json_int_t line, column; /* of the token before */
} Coloring;

static void color_piece(Coloring *c, size_t from, size_t to, size_t color)
{
    json_t *a = position_of(c->o, from, c->s->utf8), *b = position_of(c->o, to, c->s->utf8);
    json_int_t line = json_integer_value(json_object_get(a, "line"));
    json_int_t column = json_integer_value(json_object_get(a, "character"));
    json_int_t end = json_integer_value(json_object_get(b, "character"));
    json_array_append_new(c->data, json_integer(line - c->line));
    json_array_append_new(c->data, json_integer(line == c->line ? column - c->column : column));
    json_array_append_new(c->data, json_integer(end - column));
    json_array_append_new(c->data, json_integer((json_int_t)color));
    json_array_append_new(c->data, json_integer(colors[color].modifiers));
    c->line = line;
    c->column = column;
    json_decref(a);
    json_decref(b);
}

/* No token of the protocol goes over the end of a line. */
static void color_token(void *data, const RelayToken *t)
{
    Coloring *c = data;
    size_t color = 0;
    while (color < N_COLORS && strcmp(colors[color].kind, t->kind) != 0)
        color++;
    if (color == N_COLORS || t->to <= c->range.from || t->from >= c->range.to)
        return;
    for (size_t from = t->from, end; from < t->to; from = end + line_end_at(c->o, end)) {
        for (end = from; end < t->to && !line_end_at(c->o, end);)
            end++;
        if (end > from)
            color_piece(c, from, end, color);
        if (end == t->to)
            break;
    }
}

Answer semantic_tokens(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    const json_t *range = json_object_get(params, "range");
    if (!o)
        return answer_with(json_null());
    Coloring c = {.s = s, .o = o, .range = {0, o->text.n}, .data = json_array()};
    if (json_is_object(range))
        c.range = (RelayRange){offset_of(o, json_object_get(range, "start"), s->utf8),
                               offset_of(o, json_object_get(range, "end"), s->utf8)};
    relay_highlight(NULL, buf_text(&o->text), o->text.n, color_token, &c);
    return answer_with(json_pack("{s:o}", "data", c.data));
}

/* ---- types ----------------------------------------------------------------------------------------------------------- */

typedef struct Hints {
    Server *s;
    Open *o;
    json_t *list;
} Hints;

static void add_hint(void *data, size_t offset, const char *type)
{
    enum { SHOWN = 60, KIND_TYPE = 1 };
    Hints *h = data;
    Buf label = {0};
    size_t n = strlen(type);
    bool cut = n > SHOWN;
    if (cut)
        for (n = SHOWN; ((unsigned char)type[n] & 0xc0) == 0x80;)
            n--;
    buf_printf(&label, "%.*s%s", (int)n, type, cut ? "…" : "");
    json_array_append_new(h->list, json_pack("{s:o, s:o, s:i, s:o}", "position",
                                             position_of(h->o, offset, h->s->utf8), "label",
                                             text_json(buf_text(&label), label.n), "kind",
                                             KIND_TYPE, "tooltip", text_json(type, strlen(type))));
    buf_deinit(&label);
}

Answer inlay_hints(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    const json_t *range = json_object_get(params, "range");
    Hints h = {s, o, json_array()};
    if (o)
        relay_document_types(o->document,
                             (RelayRange){offset_of(o, json_object_get(range, "start"), s->utf8),
                                          offset_of(o, json_object_get(range, "end"), s->utf8)},
                             add_hint, &h);
    return answer_with(h.list);
}
