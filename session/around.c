/* What stands around the cursor in a text that is being typed: its items are parsed and checked in a world of their own, which ends with
 * the answer. */
#include "ir/walk.h"
#include "base/vec.h"
#include "parser/lexer.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

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
    Diags silent, *before = s->cx.diags;
    diags_init(&silent, &s->cx.limits);
    s->cx.diags = &silent;
    uint32_t source = sources_add(&s->cx.sources, "input", text, len);
    Trail t = {0};
    Span at;
    if (source && trail_init(&t, s))
        trail_read(&t, source, cursor);
    bool found = describe_seen(b, &t, text, source, cursor, what, &at);
    trail_deinit(&t);
    sources_drop(&s->cx.sources, source);
    diags_deinit(&silent);
    s->cx.diags = before;
    return found;
}

/* ---- what is wanted ---------------------------------------------------------------------------------------------------------- */

/* A text that is longer is not checked for each letter. */
enum { WANTED_MOST = 1 << 14 };

typedef struct Bracket {
    char close;
    bool condition; /* of an `if`; or the braces behind it */
} Bracket;

typedef struct Brackets {
    Arena arena;
    Vec(Bracket) open;
} Brackets;

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
        condition = false;
        if (close)
            vec_push(&b->open, &b->arena, ((Bracket){close, opens_if}));
        bool closes = t.kind == TOKEN_RPAREN || t.kind == TOKEN_RBRACKET || t.kind == TOKEN_RBRACE;
        even = even && (!closes || b->open.n);
        if (closes && b->open.n) {
            Bracket last = vec_pop(&b->open);
            condition = last.close == ')' && last.condition;
        }
    }
    return even;
}

void close_brackets(Buf *out, const char *text, size_t len, const char *filler)
{
    Brackets b = {0};
    read_brackets(&b, text, len);
    while (b.open.n) {
        Bracket last = vec_pop(&b.open);
        buf_char(out, last.close);
        if (last.condition && last.close == ')')
            buf_printf(out, " { %s }", filler);
        if (last.condition)
            buf_printf(out, " else { %s }", filler);
    }
    arena_deinit(&b.arena);
}

/* What stands behind the hole stays where its brackets agree. */
static void write_hole(Buf *out, Str text, RelayRange at, int more)
{
    size_t end = at.to;
    while (end < text.len && strchr(" \t\n", text.ptr[end]))
        end++;
    bool last = end == text.len || text.ptr[end] == ')';
    buf_bytes(out, text.ptr, at.from);
    buf_char(out, '_');
    for (int i = 0; last && i < more; i++)
        buf_str(out, ", _");
    size_t n = out->n;
    buf_bytes(out, text.ptr + at.to, text.len - at.to);
    Brackets b = {0};
    bool even = read_brackets(&b, buf_text(out), out->n) && b.open.n == 0;
    arena_deinit(&b.arena);
    if (even)
        return;
    buf_cut(out, n);
    close_brackets(out, buf_text(out), n, "_");
}

static void take_fits(const Wanted *w, const Diags *ds, uint32_t source, size_t from)
{
    for (const Diag *d = ds->first; d; d = d->next)
        if (d->code == E0219_HOLE && d->span.source == source && d->span.from == from)
            for (const DiagFix *f = d->fixes; f; f = f->next)
                w->fits(w->data, f->text);
}

void find_wanted(RelaySession *s, Wanted *w, Str text, RelayRange at, int more)
{
    Buf asked = {0};
    Diags found, *before = s->cx.diags;
    if (text.len > WANTED_MOST)
        return;
    write_hole(&asked, text, at, more);
    diags_init(&found, &s->cx.limits);
    s->cx.diags = &found;
    uint32_t source = sources_add(&s->cx.sources, "input", buf_text(&asked), asked.n);
    Trail t = {0};
    if (source && trail_init(&t, s))
        trail_read(&t, source, at.from);
    Around a = {.source = source, .cursor = at.from};
    for (size_t i = t.seen.n; i-- > 0 && !a.best;)
        look_in(&a, t.seen.at[i].module, t.seen.at[i].span);
    const Var *v = expr_as_var(a.best);
    if (v && a.span.from == at.from && str_is((Str){v->name->text, v->name->len}, HOLE_NAME))
        w->type = type_find(v->base.type);
    take_fits(w, &found, source, at.from);
    trail_deinit(&t);
    sources_drop(&s->cx.sources, source);
    diags_deinit(&found);
    s->cx.diags = before;
    buf_deinit(&asked);
}
