/* What stands around the cursor in a text that is being typed: its items are parsed and checked in a world of their own, which ends with
 * the answer. */
#include "ir/walk.h"
#include "base/memory.h"
#include "base/vec.h"
#include "parser/lexer.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>
#include <string.h>

/* The innermost expression of a text at the cursor. */
typedef struct Around {
    const Module *home;
    uint32_t source;
    size_t cursor;
    const Expr *best, *parent; /* what it stands in: its call, for a callee */
    Span span;
} Around;

static void look_at(Around *a, const Expr *e, Span span, const Expr *parent)
{
    bool here = span.source == a->source && span.from <= a->cursor && a->cursor <= span.to;
    /* At the end of one expression another may begin. */
    bool narrower = !a->best || span.to - span.from < a->span.to - a->span.from ||
                    (span.to - span.from == a->span.to - a->span.from && span.from > a->span.from);
    /* An operator that is called has no type of its own: the call has. */
    const Call *call = expr_as_call(parent);
    bool known = e->type ? !type_is_poison(e->type) : call && call->callee == e;
    if (!here || !narrower || !known)
        return;
    a->best = e;
    a->parent = parent;
    a->span = span;
}

typedef struct Child {
    Around *around;
    const Expr *parent;
} Child;

static void look_at_child(void *data, Expr *const *slot)
{
    Child *c = data;
    look_at(c->around, *slot, ir_use_span(c->around->home, slot), c->parent);
}

static void look_at_binder(void *data, Var *v)
{
    Child *c = data;
    look_at(c->around, &v->base, v->base.span, c->parent);
}

static WalkNext look_inside(void *data, const Expr *e)
{
    Child c = {data, e};
    ir_children(e, look_at_child, &c);
    ir_binders(e, look_at_binder, &c);
    return WALK_ON;
}

static void look_in(Around *a, const Module *m, Span whole)
{
    a->home = m;
    if (m->expr) {
        look_at(a, m->expr, whole, NULL);
        ir_walk(m->expr, look_inside, NULL, a);
    }
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (!d->fn || d->imported)
            continue;
        look_at(a, &d->fn->base, d->span, NULL);
        ir_walk(&d->fn->base, look_inside, NULL, a);
    }
}

bool describe_seen(Buf *b, const Trail *t, const char *text, uint32_t source, size_t cursor,
                   AroundWhat what, Span *at)
{
    bool callee = what == AROUND_CALLEE;
    Around a = {.source = source, .cursor = cursor};
    for (size_t i = t->seen.n; i-- > 0 && !a.best;)
        look_in(&a, t->seen.at[i].module, t->seen.at[i].span);
    const Call *call = expr_as_call(a.parent);
    bool called = a.best && call && call->callee == a.best && call->base.type;
    bool found = a.best && (callee ? called : a.best->type || called);
    if (found && !a.best->type) {
        a.best = &call->base;
        a.span = call->base.span;
    }
    *at = a.span;
    if (found && callee) {
        buf_str(b, "\nthis call: ");
        type_print(b, call->base.type);
    } else if (found) {
        /* A long one is known by its beginning. */
        size_t n = a.span.to - a.span.from, line = 0;
        while (line < n && line < 60 && text[a.span.from + line] != '\n')
            line++;
        buf_printf(b, "%.*s%s: ", (int)line, text + a.span.from, line < n ? "…" : "");
        type_print(b, a.best->type);
    }
    return found;
}

bool describe_around(RelaySession *s, Buf *b, const char *text, size_t len, size_t cursor,
                     AroundWhat what)
{
    Attempt attempt;
    attempt_begin(&attempt, &s->cx);
    uint32_t source = sources_add(&s->cx.sources, "input", text, len);
    Trail t = {0};
    Span at;
    if (source && trail_init(&t, s))
        trail_read(&t, source, cursor);
    bool found = describe_seen(b, &t, text, source, cursor, what, &at);
    trail_deinit(&t);
    sources_drop(&s->cx.sources, source);
    attempt_end(&attempt, &s->cx);
    return found;
}

/* ---- what is wanted ---------------------------------------------------------------------------------------------------------- */

/* A text that is longer is not checked for each letter. */
enum { WANTED_MOST = 1 << 14 };

typedef struct Bracket {
    char close;
    bool condition; /* of an `if`; or the braces behind it */
    bool matches; /* `match` was written, and its braces come */
    bool clauses; /* the braces of a `match` */
    bool pattern; /* what stands here is a pattern, or a field of one */
    bool begun; /* behind the last comma something stands */
    Token before;
} Bracket;

typedef struct Brackets {
    Arena arena;
    Vec(Bracket) open;
    Bracket outside;
} Brackets;

/* What the next token stands in. */
static Bracket *innermost(Brackets *b)
{
    return b->open.n ? &vec_last(&b->open) : &b->outside;
}

static void read_in_bracket(Bracket *b, TokenKind kind)
{
    b->begun = kind != TOKEN_COMMA;
    b->matches =
        (b->matches && kind != TOKEN_LBRACE) || kind == TOKEN_MATCH || kind == TOKEN_MATCH_PARTIAL;
    if (b->clauses && (kind == TOKEN_COMMA || kind == TOKEN_FAT_ARROW))
        b->pattern = kind == TOKEN_COMMA;
}

/* Those that are open at the end. False: more are closed than were opened. */
static bool read_brackets(Brackets *b, const char *text, size_t len)
{
    Lexer lx = {.text = text, .end = (uint32_t)len};
    Token before = {.kind = TOKEN_END};
    bool condition = false, even = true;
    arena_init(&b->arena, NULL);
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; before = t, t = lexer_next(&lx)) {
        char close = t.kind == TOKEN_LPAREN     ? ')'
                     : t.kind == TOKEN_LBRACKET ? ']'
                     : t.kind == TOKEN_LBRACE   ? '}'
                                                : 0;
        bool opens_if = close == ')' ? before.kind == TOKEN_IF : close == '}' && condition;
        Bracket *in = innermost(b),
                opened = {.close = close, .condition = opens_if, .before = before};
        opened.clauses = close == '}' && in->matches;
        opened.pattern = opened.clauses || (close == ')' && in->pattern);
        condition = false;
        read_in_bracket(in, (TokenKind)t.kind);
        if (close)
            vec_push(&b->open, &b->arena, opened);
        bool closes = t.kind == TOKEN_RPAREN || t.kind == TOKEN_RBRACKET || t.kind == TOKEN_RBRACE;
        even = even && (!closes || b->open.n);
        if (closes && b->open.n) {
            Bracket last = vec_pop(&b->open);
            condition = last.close == ')' && last.condition;
        }
    }
    return even;
}

typedef struct TokenAt {
    size_t cursor;
    bool named, found;
    LexedToken *token;
} TokenAt;

static void find_token(void *data, const LexedToken *t)
{
    TokenAt *at = data;
    bool ends = at->named && at->cursor == t->to;
    bool fits = strcmp(t->kind, "comment") && !(at->named && !strcmp(t->kind, "punctuation"));
    if (fits && t->from <= at->cursor && (ends || at->cursor < t->to)) {
        *at->token = *t;
        at->found = true;
    }
}

bool lexed_at(const char *text, size_t len, size_t cursor, bool named, LexedToken *token)
{
    TokenAt at = {cursor, named, false, token};
    lex_each(text, len, find_token, &at);
    return at.found;
}

bool callee_before(const char *text, size_t cursor, LexedToken *callee)
{
    Brackets b = {0};
    bool found = false;
    read_brackets(&b, text, cursor);
    while (b.open.n && !found) {
        Token t = vec_pop(&b.open).before;
        found = b.open.at[b.open.n].close == ')' &&
                (t.kind == TOKEN_IDENT || t.kind == TOKEN_GLOBAL || t.kind == TOKEN_LOCAL);
        *callee = (LexedToken){t.from, t.to, ""};
    }
    arena_deinit(&b.arena);
    return found;
}

void close_brackets(Buf *out, const char *text, size_t len, const char *filler)
{
    Brackets b = {0};
    read_brackets(&b, text, len);
    while (b.open.n) {
        Bracket last = vec_pop(&b.open);
        if (last.clauses && last.pattern && last.begun)
            buf_printf(out, " => %s", filler);
        buf_char(out, last.close);
        if (last.condition && last.close == ')')
            buf_printf(out, " { %s }", filler);
        if (last.condition)
            buf_printf(out, " else { %s }", filler);
    }
    arena_deinit(&b.arena);
}

PatternPlace pattern_place(const char *text, size_t len)
{
    Brackets b = {0};
    read_brackets(&b, text, len);
    Bracket in = *innermost(&b);
    arena_deinit(&b.arena);
    return !in.pattern || in.begun ? PATTERN_NOWHERE : in.clauses ? PATTERN_CLAUSE : PATTERN_FIELD;
}

static size_t skip_blanks(Str text, size_t at)
{
    while (at < text.len && strchr(" \t\n", text.ptr[at]))
        at++;
    return at;
}

/* Behind the fields that a constructor has already. */
static size_t skip_fields(Str text, size_t at)
{
    long depth = 0;
    for (size_t i = skip_blanks(text, at); i < text.len; i++) {
        depth += (text.ptr[i] == '(') - (text.ptr[i] == ')');
        if (depth <= 0)
            return text.ptr[i] == ')' && i > at ? i + 1 : at;
    }
    return at;
}

/* The hole of an expression, and of a pattern a variable, with what has to stand behind it and does not. */
static size_t write_filler(Buf *out, Str text, size_t end, PatternPlace place, int more)
{
    if (place != PATTERN_NOWHERE)
        end = skip_fields(text, end);
    size_t next = skip_blanks(text, end);
    bool last = next == text.len || text.ptr[next] == ')';
    bool arrow = next + 1 < text.len && !memcmp(text.ptr + next, "=>", 2);
    bool alone = last || strchr("},", text.ptr[next]);
    buf_str(out, place == PATTERN_NOWHERE ? "_" : "%_");
    if (place == PATTERN_CLAUSE && !arrow)
        buf_str(out, alone ? " => _" : " => _, ");
    for (int i = 0; place == PATTERN_NOWHERE && last && i < more; i++)
        buf_str(out, ", _");
    return end;
}

/* What stands behind the hole stays where its brackets agree. */
static void write_hole(Buf *out, Str text, RelayRange at, PatternPlace place, int more)
{
    buf_bytes(out, text.ptr, at.from);
    size_t end = write_filler(out, text, at.to, place, more), n = out->n;
    buf_bytes(out, text.ptr + end, text.len - end);
    Brackets b = {0};
    bool even = read_brackets(&b, buf_text(out), out->n) && b.open.n == 0;
    arena_deinit(&b.arena);
    if (even)
        return;
    buf_cut(out, n);
    close_brackets(out, buf_text(out), n, "_");
}

/* ---- patterns ------------------------------------------------------------------------------------------------------------------ */

static bool holds_var(const Pattern *p, const Var *v)
{
    if (p->kind == PATTERN_VAR)
        return p->var == v;
    bool found = false;
    for (uint32_t i = 0; i < p->n && !found; i++)
        found = holds_var(p->fields[i], v);
    return found;
}

/* The pattern with the constructor in place of the variable. The parser holds patterns to a depth. */
static Pattern *with_constructor(Arena *a, Pattern *p, const Var *v, const Constructor *con)
{
    bool here = p->kind == PATTERN_VAR && p->var == v;
    uint32_t n = here ? con->n : p->n;
    Pattern **fields = arena_alloc_must(a, n, sizeof(Pattern *));
    for (uint32_t i = 0; i < n; i++)
        fields[i] = here ? pattern_wildcard(a, p->span) : with_constructor(a, p->fields[i], v, con);
    return here                       ? pattern_con(a, p->span, con, n, fields)
           : p->kind == PATTERN_CON   ? pattern_con(a, p->span, p->con, n, fields)
           : p->kind == PATTERN_TUPLE ? pattern_tuple(a, p->span, n, fields)
                                      : p;
}

/* What may stand in place of the variable of the last of these clauses. */
static void take_patterns(RelaySession *s, const Wanted *w, Match *m, const Var *v, bool called)
{
    const Type *t = type_find(v->base.type);
    const Source *text = sources_get(&s->cx.sources, m->base.span.source);
    uint32_t last = m->clauses.n - 1;
    Pattern *whole = m->clauses.at[last].pattern;
    Arena arena;
    Buf b = {0};
    arena_init(&arena, &s->cx.limits);
    for (uint32_t i = 0; t->kind == TYPE_ADT && i < t->def->n_cons; i++) {
        const Constructor *con = t->def->cons[i];
        m->clauses.at[last].pattern = with_constructor(&arena, whole, v, con);
        buf_clear(&b);
        pattern_sketch(&b, con, called ? 0 : con->n, text);
        w->fits(w->data, buf_text(&b), match_takes(&s->cx, m, last) ? FITS_NOW : FITS_ELSEWHERE);
    }
    m->clauses.at[last].pattern = whole;
    buf_clear(&b);
    if (t->kind == TYPE_TUPLE && !called) {
        pattern_sketch(&b, NULL, t->n, text);
        w->fits(w->data, buf_text(&b), FITS_NOW);
    }
    arena_deinit(&arena);
    buf_deinit(&b);
}

/* Of the match that the text was given a clause more: its patterns, and all that its other clauses miss. */
static void find_patterns(RelaySession *s, const Wanted *w, const Match *match, const Var *v,
                          bool called)
{
    uint32_t n = 0, at = 0;
    Clause *clauses = memory_alloc(match->clauses.n * sizeof *clauses);
    Match others = *match;
    if (!clauses)
        return;
    for (uint32_t i = 0; i < match->clauses.n; i++) {
        if (holds_var(match->clauses.at[i].pattern, v))
            at = i;
        else
            clauses[n++] = match->clauses.at[i];
    }
    others.clauses = (ClauseList){clauses, n};
    Buf all = {0};
    if (w->place == PATTERN_CLAUSE && !called && match_clauses(&s->cx, &others, ", ", &all) > 1)
        w->fits(w->data, buf_text(&all), FITS_ALL);
    clauses[n] = match->clauses.at[at];
    others.clauses.n = n + 1;
    take_patterns(s, w, &others, v, called);
    buf_deinit(&all);
    free(clauses);
}

static void take_fits(const Wanted *w, const Diags *ds, uint32_t source, size_t from)
{
    for (const Diag *d = ds->first; d; d = d->next)
        if (d->code == E0219_HOLE && d->span.source == source && d->span.from == from)
            for (const DiagFix *f = d->fixes; f; f = f->next)
                w->fits(w->data, f->text, FITS_NOW);
}

void find_wanted(RelaySession *s, Wanted *w, Str text, RelayRange at, int more)
{
    Buf asked = {0};
    Attempt attempt;
    if (text.len > WANTED_MOST)
        return;
    w->place = pattern_place(text.ptr, at.from);
    write_hole(&asked, text, at, w->place, more);
    attempt_begin(&attempt, &s->cx);
    uint32_t source = sources_add(&s->cx.sources, "input", buf_text(&asked), asked.n);
    Trail t = {0};
    if (source && trail_init(&t, s))
        trail_read(&t, source, at.from);
    Around a = {.source = source, .cursor = at.from};
    for (size_t i = t.seen.n; i-- > 0 && !a.best;)
        look_in(&a, t.seen.at[i].module, t.seen.at[i].span);
    const Var *v = expr_as_var(a.best);
    const Match *match = expr_as_match(a.parent);
    bool here = v && a.span.from == at.from;
    if (here && (w->place == PATTERN_NOWHERE ? str_is((Str){v->name->text, v->name->len}, HOLE_NAME)
                                             : match != NULL))
        w->type = type_find(v->base.type);
    if (w->type && w->place != PATTERN_NOWHERE)
        find_patterns(s, w, match, v, skip_fields(text, at.to) > at.to);
    if (w->place == PATTERN_NOWHERE)
        take_fits(w, &attempt.found, source, at.from);
    trail_deinit(&t);
    sources_drop(&s->cx.sources, source);
    attempt_end(&attempt, &s->cx);
    buf_deinit(&asked);
}
