/* Questions about a document: what it defines, where a name is used, what stands at a place and what could. */
#include "session/document.h"

#include "base/memory.h"
#include "ir/print.h"
#include "parser/lexer.h"
#include "session/help.h"
#include "session/op_doc.h"
#include "stdlib/stdlib.h"

#include <stdlib.h>
#include <string.h>

/* Whether the answers of the last reading are still about this session. */
static bool is_there(const RelayDocument *d)
{
    return d->read && d->world == d->s->world && !d->s->lost;
}

static const char *kind_name(MentionKind kind)
{
    switch (kind) {
    case MENTION_LOCAL: return "local";
    case MENTION_GRAPH: return "graph";
    case MENTION_GLOBAL: return "global";
    case MENTION_CON: return "constructor";
    case MENTION_TYPE: return "type";
    case MENTION_OP: return "operator";
    case MENTION_NONE: break;
    }
    return "";
}

static char *printed(const Type *t)
{
    Buf b = {0};
    if (t)
        type_print(&b, t);
    char *text = buf_take(&b);
    return text ? text : memory_text("", 0);
}

/* The mention that the offset lies in, or else the one that ends there. */
static const Mention *mention_at(const RelayDocument *d, size_t offset)
{
    size_t low = 0, high = d->mentions.n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (d->mentions.at[mid].from <= offset)
            low = mid + 1;
        else
            high = mid;
    }
    const Mention *m = low > 0 ? &d->mentions.at[low - 1] : NULL;
    return m && offset <= m->to ? m : NULL;
}

static RelayRange range_of(const Mention *m)
{
    return (RelayRange){m->from, m->to};
}

/* ---- symbols ---------------------------------------------------------------------------------------------------------------- */

typedef struct Symbols {
    RelayDocument *d;
    RelaySymbol *at;
    size_t n, cap;
} Symbols;

/* Takes the detail. */
static void add_symbol(Symbols *s, RelaySymbol symbol)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 64;
        RelaySymbol *grown = memory_resize(s->at, cap * sizeof *grown);
        if (!grown) {
            free(symbol.detail);
            return;
        }
        s->at = grown;
        s->cap = cap;
    }
    s->at[s->n++] = symbol;
}

static RelaySymbol symbol_of(const Symbols *s, MentionKind kind, const char *sigil,
                             const Name *name, Span at, Span whole)
{
    Buf b = {0};
    buf_printf(&b, "%s%s", sigil, name->text);
    RelaySymbol symbol = {
        .name = buf_keep(&b, &s->d->arena),
        .kind = kind_name(kind),
        .whole = {whole.from, whole.to},
        .at = {at.from, at.to},
    };
    /* What could not be read to its end has a name at least. */
    if (symbol.whole.from > at.from || whole.source != s->d->source)
        symbol.whole.from = at.from;
    if (symbol.whole.to < at.to || whole.source != s->d->source)
        symbol.whole.to = at.to;
    return symbol;
}

static void add_type_symbols(Symbols *s, const TypeDef *def)
{
    RelayDocument *d = s->d;
    if (def->span.source != d->source)
        return;
    RelaySymbol type = symbol_of(s, MENTION_TYPE, "", def->name, def->span, def->text);
    type.detail = printed(NULL);
    add_symbol(s, type);
    for (uint32_t i = 0; i < def->n_cons; i++) {
        const Constructor *con = def->cons[i];
        RelaySymbol c = symbol_of(s, MENTION_CON, "", con->name, con->span, con->span);
        c.depth = 1;
        c.detail = printed(type_of_constructor(&d->s->cx, con));
        add_symbol(s, c);
    }
}

static void add_def_symbol(Symbols *s, const Def *def)
{
    const Function *fn = def->written ? def->written : def->fn;
    if (!fn || def->imported || def->span.source != s->d->source)
        return;
    RelaySymbol f = symbol_of(s, MENTION_GLOBAL, "@", def->name, def->span, fn->base.span);
    f.params = fn->params.n;
    bool known = def->fn->base.type && !type_is_poison(def->fn->base.type);
    f.detail = printed(known ? def->fn->base.type : NULL);
    add_symbol(s, f);
}

static void add_item_symbol(Symbols *s, const Module *m, Span span)
{
    const Let *let = expr_as_let(m->expr);
    bool known = m->expr->type && !type_is_poison(m->expr->type);
    RelaySymbol e = {.name = "", .kind = "expression", .whole = {span.from, span.to}};
    /* The item `let %x = …;` of a script is a `let` whose body is its variable. */
    if (let && let->body == &let->var->base) {
        bool graph = buf_text(&s->d->text)[span.from] == '%';
        e = symbol_of(s, graph ? MENTION_GRAPH : MENTION_LOCAL, "%", let->var->name,
                      let->var->base.span, span);
    } else {
        e.at = e.whole;
    }
    e.detail = printed(known ? m->expr->type : NULL);
    add_symbol(s, e);
}

static int by_place(const void *a, const void *b)
{
    const RelaySymbol *x = a, *y = b;
    return x->at.from != y->at.from ? (x->at.from < y->at.from ? -1 : 1) : 0;
}

RelaySymbol *relay_document_symbols(RelayDocument *d, size_t *n)
{
    Symbols s = {.d = d};
    for (size_t i = 0; is_there(d) && i < d->trail.seen.n; i++) {
        const Module *m = d->trail.seen.at[i].module;
        for (size_t k = 0; k < m->types.n; k++)
            add_type_symbols(&s, m->types.at[k]);
        for (size_t k = 0; k < m->defs.n; k++)
            add_def_symbol(&s, &m->defs.at[k]);
        if (m->expr)
            add_item_symbol(&s, m, d->trail.seen.at[i].span);
    }
    if (s.n)
        qsort(s.at, s.n, sizeof *s.at, by_place);
    *n = s.n;
    return s.at;
}

void relay_symbols_free(RelaySymbol *symbols, size_t n)
{
    for (size_t i = 0; i < n; i++)
        free(symbols[i].detail);
    free(symbols);
}

/* ---- uses ------------------------------------------------------------------------------------------------------------------- */

static bool same_meaning(const Mention *a, const Mention *b)
{
    return a->kind == b->kind && a->target == b->target;
}

/* Where something that the text does not define was defined: a file that it imports. */
static void find_elsewhere(RelayDocument *d, const Mention *m, RelayUses *out)
{
    const Module *env = d->trail.env;
    SourceMap *sources = &d->s->cx.sources;
    const Def *def = m->kind == MENTION_GLOBAL ? module_find(env, m->target) : NULL;
    const TypeDef *type = m->kind == MENTION_TYPE ? module_find_type(env, m->target) : NULL;
    const Constructor *con = m->kind == MENTION_CON ? module_find_con(env, m->target) : NULL;
    Span span = def ? def->span : type ? type->span : con ? con->span : (Span){0};
    const Source *source = sources_get(sources, span.source);
    if (!source || stdlib_text(str_of(source->name)))
        return;
    Position p = span_start(sources, span);
    out->file = memory_text(source->name, strlen(source->name));
    out->line = p.line;
    out->column = p.column;
}

RelayUses *relay_document_uses(RelayDocument *d, size_t offset)
{
    const Mention *m = is_there(d) ? mention_at(d, offset) : NULL;
    if (!m || !m->target)
        return NULL;
    RelayUses *out = memory_zeroed(1, sizeof *out);
    if (!out)
        return NULL;
    out->at = range_of(m);
    /* In a script `%0` is a variable of the session, with such a name. */
    char first = buf_text(&d->text)[m->from + 1];
    bool graph = m->kind == MENTION_LOCAL && first >= '0' && first <= '9';
    out->kind = kind_name(graph ? MENTION_GRAPH : m->kind);
    size_t n = 0;
    for (size_t i = 0; i < d->mentions.n; i++)
        n += same_meaning(&d->mentions.at[i], m);
    out->uses = memory_alloc(n * sizeof *out->uses);
    for (size_t i = 0; out->uses && i < d->mentions.n; i++) {
        const Mention *use = &d->mentions.at[i];
        if (!same_meaning(use, m))
            continue;
        out->uses[out->n++] = (RelayUse){range_of(use), use->binds};
        out->defined |= use->binds;
    }
    if (!out->defined)
        find_elsewhere(d, m, out);
    return out;
}

void relay_uses_free(RelayUses *uses)
{
    if (!uses)
        return;
    free(uses->uses);
    free(uses->file);
    free(uses);
}

/* ---- types ------------------------------------------------------------------------------------------------------------------ */

/* Behind the parameters of a definition, where the type of its result may stand. */
static size_t behind_params(const RelayDocument *d, const Mention *m)
{
    Lexer lx = {.text = buf_text(&d->text), .end = (uint32_t)d->text.n, .at = m->to};
    long depth = 0;
    size_t last = m->to;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx)) {
        depth += (t.kind == TOKEN_LPAREN || t.kind == TOKEN_LBRACKET) -
                 (t.kind == TOKEN_RPAREN || t.kind == TOKEN_RBRACKET);
        if (depth == 0 && t.kind == TOKEN_LBRACE)
            return last;
        last = t.to;
    }
    return m->to;
}

void relay_document_types(RelayDocument *d, RelayRange range,
                          void (*hint)(void *data, size_t offset, const char *type), void *data)
{
    for (size_t i = 0; is_there(d) && i < d->mentions.n; i++) {
        const Mention *m = &d->mentions.at[i];
        bool named = m->kind == MENTION_LOCAL || m->kind == MENTION_GRAPH;
        bool result = m->kind == MENTION_GLOBAL && m->type && m->type->kind == TYPE_FUNC;
        if (m->from < range.from || m->from > range.to || !m->binds || m->written || !m->type ||
            (!named && !result))
            continue;
        const Type *type = result ? type_find(m->type->result) : m->type;
        if (type_is_poison(type))
            continue;
        Buf b = {0};
        buf_str(&b, result ? " -> " : ": ");
        type_print(&b, type);
        hint(data, result ? behind_params(d, m) : m->to, buf_text(&b));
        buf_deinit(&b);
    }
}

/* ---- what is at a place ----------------------------------------------------------------------------------------------------- */

/* The session as it would be at a place of the text: its definitions, and variables without values. */
typedef struct World {
    Module *env;
    Local *locals;
    size_t n_locals, cap_locals;
    PtrMap local_names, graph_names, places[2];
} World;

static void exchange(RelaySession *s, World *w)
{
    World now = {s->env,
                 s->locals,
                 s->n_locals,
                 s->cap_locals,
                 s->local_names,
                 s->graph_names,
                 {s->local_places[0], s->local_places[1]}};
    s->env = w->env;
    s->locals = w->locals;
    s->n_locals = w->n_locals;
    s->cap_locals = w->cap_locals;
    s->local_names = w->local_names;
    s->graph_names = w->graph_names;
    memcpy(s->local_places, w->places, sizeof w->places);
    *w = now;
}

typedef struct Scoped {
    const Mention *m;
    long depth; /* of the braces that it ends with */
    bool open; /* its value has not ended */
} Scoped;

typedef struct Scopes {
    Arena arena;
    Vec(Scoped) bound;
    long depth;
    bool head; /* of a function: what is bound belongs to the braces that follow */
    bool let;
} Scopes;

static void scope_token(Scopes *sc, TokenKind kind)
{
    if (kind == TOKEN_FN || kind == TOKEN_DEF)
        sc->head = true;
    if (kind == TOKEN_LBRACE) {
        sc->depth++;
        sc->head = false;
    }
    sc->let = kind == TOKEN_LET;
    if (kind == TOKEN_SEMICOLON)
        for (size_t i = sc->bound.n; i-- > 0 && sc->bound.at[i].depth >= sc->depth;)
            sc->bound.at[i].open = false;
    if (kind != TOKEN_RBRACE)
        return;
    while (sc->bound.n && vec_last(&sc->bound).depth >= sc->depth)
        sc->bound.n--;
    sc->depth -= sc->depth > 0;
}

/* What is bound before the offset and known there. */
static void find_scope(const RelayDocument *d, size_t offset, Scopes *sc)
{
    Lexer lx = {.text = buf_text(&d->text), .end = (uint32_t)d->text.n};
    size_t at = 0;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END && t.from < offset; t = lexer_next(&lx)) {
        bool let = sc->let;
        while (at < d->mentions.n && d->mentions.at[at].from < t.from)
            at++;
        const Mention *m =
            at < d->mentions.n && d->mentions.at[at].from == t.from ? &d->mentions.at[at] : NULL;
        bool named = m && (m->kind == MENTION_LOCAL || m->kind == MENTION_GRAPH);
        if (named && m->binds && m->type && t.to < offset)
            vec_push(&sc->bound, &sc->arena,
                     ((Scoped){m, sc->depth + sc->head, let || m->kind == MENTION_GRAPH}));
        scope_token(sc, (TokenKind)t.kind);
    }
}

/* `graph` holds the variables of the world that are no nodes of the text. */
static World world_at(const RelayDocument *d, size_t offset, Module *graph)
{
    Scopes sc = {0};
    World w = {.env = d->trail.env};
    arena_init(&sc.arena, NULL);
    find_scope(d, offset, &sc);
    w.locals = memory_zeroed(sc.bound.n + 1, sizeof *w.locals);
    for (size_t i = 0; w.locals && i < sc.bound.n; i++) {
        const Mention *m = sc.bound.at[i].m;
        Str word = {buf_text(&d->text) + m->from + 1, m->to - m->from - 1};
        const Name *name = ctx_name_str(&d->s->cx, word);
        bool is_graph = m->kind == MENTION_GRAPH;
        Var *v = (Var *)(uintptr_t)m->target;
        if (sc.bound.at[i].open)
            continue;
        if (is_graph) {
            v = expr_var(&graph->arena, (Span){0}, name, NULL);
            v->base.type = m->type;
        }
        w.locals[w.n_locals++] = (Local){.var = v, .graph = is_graph};
        ptrmap_put(is_graph ? &w.graph_names : &w.local_names, name, v);
        ptrmap_put(&w.places[is_graph], name, (void *)w.n_locals);
    }
    arena_deinit(&sc.arena);
    return w;
}

static void world_end(World *w)
{
    free(w->locals);
    ptrmap_deinit(&w->local_names);
    ptrmap_deinit(&w->graph_names);
    ptrmap_deinit(&w->places[0]);
    ptrmap_deinit(&w->places[1]);
}

/* The definition around the offset, whose variables are no one else's; false, and the whole text, where there is none. */
static bool definition_around(const RelayDocument *d, size_t offset, RelayRange *out)
{
    Lexer lx = {.text = buf_text(&d->text), .end = (uint32_t)d->text.n};
    RelayRange r = {0, d->text.n};
    long depth = 0;
    bool inside = false;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx)) {
        if (t.kind == TOKEN_DEF && t.from >= offset) {
            r.to = t.from;
            break;
        }
        depth += (t.kind == TOKEN_LBRACE) - (t.kind == TOKEN_RBRACE);
        if (t.kind == TOKEN_DEF) {
            depth = 0;
            r.from = t.from;
            inside = true;
        } else if (t.kind == TOKEN_RBRACE && depth <= 0 && t.to <= offset) {
            inside = false;
        }
    }
    *out = inside ? r : (RelayRange){0, d->text.n};
    return inside;
}

/* What can be read of a definition in which somebody types: its statements before the offset, and brackets that close it. Where in that
 * text the offset is. */
static size_t readable_part(const RelayDocument *d, size_t from, size_t offset, Buf *out)
{
    const char *text = buf_text(&d->text);
    Lexer lx = {.text = text, .end = (uint32_t)offset, .at = (uint32_t)from};
    size_t cut = from;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx))
        if (t.kind == TOKEN_LBRACE || t.kind == TOKEN_SEMICOLON || t.kind == TOKEN_FAT_ARROW)
            cut = t.to;
    buf_bytes(out, text + from, cut - from);
    buf_str(out, pattern_place(text + from, cut - from) == PATTERN_NOWHERE ? " ()" : " ");
    close_brackets(out, text + from, cut - from, "()");
    return cut - from + 1;
}

static bool has_error(const RelayDocument *d, RelayRange r)
{
    for (size_t i = 0; i < d->findings.n; i++) {
        const RelayFinding *f = &d->findings.at[i];
        if (f->severity == RELAY_ERROR && f->range.from < r.to && r.from < f->range.to)
            return true;
    }
    return false;
}

typedef struct CompleteCall {
    RelayDocument *d;
    size_t offset;
    RelayCompletions *out;
} CompleteCall;

static void complete(void *data)
{
    CompleteCall *call = data;
    RelayDocument *d = call->d;
    Module *graph = module_new(&d->s->cx);
    if (!graph)
        return;
    RelayRange r;
    size_t at = call->offset;
    RelayDocument *beside = NULL;
    if (definition_around(d, call->offset, &r) && has_error(d, r)) {
        Buf part = {0};
        at = readable_part(d, r.from, call->offset, &part);
        beside = document_beside(d, &part);
        at = beside ? at : call->offset;
        buf_deinit(&part);
    }
    World w = world_at(beside ? beside : d, at, graph);
    w.env = d->trail.env;
    exchange(d->s, &w);
    complete_at(d->s, buf_text(&d->text) + r.from, r.to - r.from, call->offset - r.from, call->out);
    call->out->from += r.from;
    call->out->to += r.from;
    exchange(d->s, &w);
    world_end(&w);
    module_release(graph);
    relay_document_free(beside);
}

RelayCompletions *relay_document_complete(RelayDocument *d, size_t offset)
{
    CompleteCall call = {d, offset, memory_zeroed(1, sizeof *call.out)};
    if (call.out && is_there(d))
        session_guard(d->s, (RelaySink){0}, complete, &call);
    return call.out;
}

typedef struct InspectCall {
    RelayDocument *d;
    size_t offset;
    RelayRange *range;
    RelaySink sink;
    bool found;
} InspectCall;

/* The name alone, with its type or what it is. */
static bool describe_mention(RelayDocument *d, Buf *b, const Mention *m)
{
    RelaySession *s = d->s;
    Str word = {buf_text(&d->text) + m->from, m->to - m->from};
    const Def *def = m->kind == MENTION_GLOBAL ? module_find(d->trail.env, m->target) : NULL;
    const Type *type = def && def->fn ? def->fn->base.type : m->type;
    if (m->kind == MENTION_CON || m->kind == MENTION_TYPE || m->kind == MENTION_OP) {
        World w = {.env = d->trail.env};
        exchange(s, &w);
        bool found = describe_name(s, b, word, 0);
        exchange(s, &w);
        return found;
    }
    if (!type || type_is_poison(type))
        return false;
    buf_printf(b, "%.*s: ", (int)word.len, word.ptr);
    type_print(b, type);
    return true;
}

/* A command by its name, or a word of the language. */
static bool describe_help(RelayDocument *d, Buf *b, size_t offset, RelayRange *range)
{
    const char *text = buf_text(&d->text);
    LexedToken at;
    if (!lexed_at(text, d->text.n, offset, false, &at))
        return false;
    *range = (RelayRange){at.from, at.to};
    bool command = text[range->from] == ':';
    Str word = {text + range->from + command, range->to - range->from - command};
    int width = session_width(d->s);
    return word.len && (command ? help_command(b, word, width) : help_word(b, word, width));
}

static void emit_inspected(const InspectCall *call, const Buf *b, const Op *op)
{
    Buf page = {0};
    buf_printf(&page, "```relay\n%s\n```\n", buf_text(b));
    if (op)
        op_page(&call->d->s->cx, &page, op, false);
    RelayMime mimes[] = {{"text/plain", buf_text(b), b->n},
                         {"text/markdown", buf_text(&page), page.n}};
    call->sink.emit(call->sink.data,
                    &(RelayOutput){.kind = RELAY_OUTPUT_DISPLAY, .mimes = mimes, .n_mimes = 2});
    buf_deinit(&page);
}

static void inspect(void *data)
{
    InspectCall *call = data;
    RelayDocument *d = call->d;
    const char *text = buf_text(&d->text);
    const Mention *m = mention_at(d, call->offset);
    Buf b = {0};
    Span at = {0};
    call->found = m && describe_mention(d, &b, m);
    if (call->found) {
        *call->range = range_of(m);
        if (m->kind == MENTION_OP || m->kind == MENTION_GLOBAL)
            describe_seen(&b, &d->trail, text, d->source, m->from, AROUND_CALLEE, &at);
    } else if (describe_seen(&b, &d->trail, text, d->source, call->offset, AROUND_ALL, &at)) {
        call->found = true;
        *call->range = (RelayRange){at.from, at.to};
    } else {
        call->found = describe_help(d, &b, call->offset, call->range);
    }
    if (call->found)
        emit_inspected(call, &b, m && m->kind == MENTION_OP ? m->target : NULL);
    buf_deinit(&b);
}

bool relay_document_inspect(RelayDocument *d, size_t offset, RelayRange *range, RelaySink sink)
{
    InspectCall call = {d, offset, range, sink, false};
    return is_there(d) && session_guard(d->s, (RelaySink){0}, inspect, &call) && call.found;
}
