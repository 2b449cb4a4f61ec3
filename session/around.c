/* What stands around the cursor in a text that is being typed: its items are parsed and checked in a world of their own, which ends with
 * the answer. */
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

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
