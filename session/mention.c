/* Which names stand in a document, and what each means: the program's nodes know what they mean and where they begin, with the brackets
 * around them, the tokens of the text where the name is and how far it goes. */
#include "session/document.h"

#include "ir/walk.h"
#include "parser/lexer.h"

#include <stdlib.h>
#include <string.h>

/* What a node knows of the name that begins at a place, or behind brackets there. */
typedef struct Known {
    uint32_t from, to;
    MentionKind kind;
    bool binds, written;
    const void *target;
    const Type *type;
} Known;

typedef struct Notes {
    RelayDocument *d;
    const Module *home;
    Arena scratch;
    Vec(Known) known;
    Vec(const Pattern *) patterns;
} Notes;

static void know(Notes *n, Span span, Known k)
{
    if (span.source != n->d->source || span.from >= n->d->text.n)
        return;
    k.from = span.from;
    k.to = span.to;
    if (k.type && type_is_poison(type_find(k.type)))
        k.type = NULL;
    vec_push(&n->known, &n->scratch, k);
}

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

static void know_var(Notes *n, Span span, const Var *v, bool binds)
{
    know(n, span,
         (Known){.kind = MENTION_LOCAL,
                 .binds = binds,
                 .written = binds && v->annotation,
                 .target = v,
                 .type = v->base.type});
}

static void know_con(Notes *n, Span span, const Constructor *con, bool binds)
{
    know(n, span, (Known){.kind = MENTION_CON, .binds = binds, .target = con->name});
}

static void know_expr(Notes *n, const Expr *e, Span span)
{
    Known k = {.type = e->type};
    const Var *v = expr_as_var(e);
    const GlobalVar *g = expr_as_global(e);
    const ConRef *con = expr_as_con(e);
    const OpRef *op = expr_as_op(e);
    const char *text = buf_text(&n->d->text);
    if (v) {
        know_var(n, span, v, false);
    } else if (con) {
        know_con(n, span, con->con, false);
    } else if (g || op) {
        k.kind = g ? MENTION_GLOBAL : MENTION_OP;
        k.target = g ? (const void *)g->name : op->op;
        know(n, span, k);
    } else if (span.from < n->d->text.n && strchr("%({", text[span.from])) {
        /* `%0`: the narrowest expression that begins there. */
        k.kind = MENTION_GRAPH;
        know(n, span, k);
    }
}

static void know_child(void *data, Expr *const *slot)
{
    Notes *n = data;
    know_expr(n, *slot, ir_use_span(n->home, slot));
}

static void know_binder(void *data, Var *v)
{
    /* `a; b` binds `a` to a variable without a name. */
    if (v->name->len)
        know_var(data, v->base.span, v, true);
}

static void know_pattern(Notes *n, const Pattern *p)
{
    n->patterns.n = 0;
    vec_push(&n->patterns, &n->scratch, p);
    while (n->patterns.n) {
        p = vec_pop(&n->patterns);
        if (p->kind == PATTERN_CON)
            know_con(n, p->span, p->con, false);
        for (uint32_t i = 0; i < p->n; i++)
            vec_push(&n->patterns, &n->scratch, p->fields[i]);
    }
}

static WalkNext know_inside(void *data, const Expr *e)
{
    Notes *n = data;
    const Match *match = expr_as_match(e);
    ir_children(e, know_child, n);
    ir_binders(e, know_binder, n);
    for (uint32_t i = 0; match && i < match->clauses.n; i++)
        know_pattern(n, match->clauses.at[i].pattern);
    return WALK_ON;
}

static void know_type(Notes *n, const TypeDef *def)
{
    know(n, def->span, (Known){.kind = MENTION_TYPE, .binds = true, .target = def->name});
    for (uint32_t i = 0; i < def->n_cons; i++)
        know_con(n, def->cons[i]->span, def->cons[i], true);
}

static void know_module(Notes *n, const Module *m)
{
    n->home = m;
    for (size_t i = 0; i < m->types.n; i++)
        know_type(n, m->types.at[i]);
    for (size_t i = 0; i < m->free_vars.n; i++)
        know_var(n, m->free_vars.at[i]->base.span, m->free_vars.at[i], true);
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        const Function *fn = d->written ? d->written : d->fn;
        if (!fn || d->imported)
            continue;
        know(n, d->span,
             (Known){.kind = MENTION_GLOBAL,
                     .binds = true,
                     .written = fn->ret_type != NULL,
                     .target = d->name,
                     .type = fn->base.type});
        ir_walk(&fn->base, know_inside, NULL, n);
    }
    const Expr *e = m->written ? m->written : m->expr;
    if (e) {
        /* The item `let %x = …;` of a script is a `let`, and its place that of its value. */
        const Let *let = expr_as_let(e);
        know_expr(n, let ? let->value : e, ir_use_span(m, &m->expr));
        ir_walk(e, know_inside, NULL, n);
    }
}

/* ---- tokens ----------------------------------------------------------------------------------------------------------------- */

/* `%0 = …;` is known from its end to the end of the braces around it. */
typedef struct Graph {
    Str digits;
    GraphBinding *binding;
    long depth;
    bool open; /* its end was not met yet */
} Graph;

typedef struct Scan {
    Notes *n;
    Lexer lx;
    size_t at; /* in n->known */
    uint32_t from; /* the end of the last token that opened no bracket */
    long depth;
    Vec(Graph) graph;
} Scan;

static void scan_braces(Scan *sc, TokenKind kind)
{
    if (kind == TOKEN_LBRACE)
        sc->depth++;
    if (kind == TOKEN_SEMICOLON)
        for (size_t i = sc->graph.n; i-- > 0 && sc->graph.at[i].depth >= sc->depth;)
            sc->graph.at[i].open = false;
    if (kind != TOKEN_RBRACE)
        return;
    while (sc->graph.n && vec_last(&sc->graph).depth >= sc->depth)
        sc->graph.n--;
    sc->depth--;
}

/* What a graph variable means that is no variable of a session. */
static void scan_graph(Scan *sc, Mention *m)
{
    const char *text = sc->lx.text;
    Str digits = {text + m->from + 1, m->to - m->from - 1};
    Lexer ahead = sc->lx;
    m->kind = MENTION_GRAPH;
    m->target = NULL;
    if (lexer_next(&ahead).kind == TOKEN_ASSIGN) {
        GraphBinding *b = arena_new(&sc->n->d->arena, GraphBinding);
        m->target = b;
        m->binds = true;
        vec_push(&sc->graph, &sc->n->scratch, ((Graph){digits, b, sc->depth, true}));
        return;
    }
    for (size_t i = sc->graph.n; i-- > 0;) {
        Graph *g = &sc->graph.at[i];
        if (g->open || !str_eq(g->digits, digits))
            continue;
        m->target = g->binding;
        if (m->type)
            g->binding->type = m->type;
        return;
    }
}

/* `nn.relu` is one name. */
static void scan_dots(Scan *sc, Mention *m)
{
    Lexer ahead = sc->lx;
    for (;;) {
        Token dot = lexer_next(&ahead), word = lexer_next(&ahead);
        if (dot.kind != TOKEN_DOT || dot.from != m->to || word.kind != TOKEN_IDENT ||
            word.from != dot.to)
            return;
        m->to = word.to;
        sc->lx = ahead;
    }
}

static void scan_word(Scan *sc, Mention *m)
{
    RelayDocument *d = sc->n->d;
    scan_dots(sc, m);
    Str word = {sc->lx.text + m->from, m->to - m->from};
    const Name *name = m->kind == MENTION_NONE ? ctx_name_str(&d->s->cx, word) : NULL;
    const Op *op = name ? op_find(&d->s->cx, word) : NULL;
    if (op) {
        m->kind = MENTION_OP;
        m->target = op;
    } else if (name && module_find_type(d->trail.env, name)) {
        m->kind = MENTION_TYPE;
        m->target = name;
    }
}

/* Whether `a` says more of a name than `b`: a binder than a use, and a name than an expression that begins with it, the narrowest first. */
static bool is_nearer(const Known *a, const Known *b)
{
    bool name = a->kind != MENTION_GRAPH;
    if (!b || a->binds != b->binds)
        return !b || a->binds;
    if (name != (b->kind != MENTION_GRAPH))
        return name;
    return a->to - a->from < b->to - b->from;
}

/* What is known of the token at `at`, behind the brackets before it. */
static const Known *scan_known(Scan *sc, uint32_t at)
{
    const Known *found = NULL;
    while (sc->at < sc->n->known.n && sc->n->known.at[sc->at].from < sc->from)
        sc->at++;
    for (; sc->at < sc->n->known.n && sc->n->known.at[sc->at].from <= at; sc->at++)
        if (is_nearer(&sc->n->known.at[sc->at], found))
            found = &sc->n->known.at[sc->at];
    return found;
}

static void scan_name(Scan *sc, Token t)
{
    RelayDocument *d = sc->n->d;
    Mention m = {.from = t.from, .to = t.to};
    const Known *k = scan_known(sc, t.from);
    if (k && (k->kind != MENTION_GRAPH || t.kind == TOKEN_GRAPH)) {
        m.kind = k->kind;
        m.binds = k->binds;
        m.written = k->written;
        m.target = k->target;
        m.type = k->type;
    }
    if (t.kind == TOKEN_IDENT)
        scan_word(sc, &m);
    else if (t.kind == TOKEN_GRAPH && m.kind != MENTION_LOCAL)
        scan_graph(sc, &m);
    else if (t.kind == TOKEN_GLOBAL && m.kind == MENTION_NONE) {
        m.kind = MENTION_GLOBAL;
        m.target = ctx_name_str(&d->s->cx, (Str){sc->lx.text + t.from + 1, t.to - t.from - 1});
    }
    if (m.kind != MENTION_NONE)
        vec_push(&d->mentions, &d->arena, m);
}

static int by_place(const void *a, const void *b)
{
    const Known *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

static void settle_graphs(RelayDocument *d)
{
    for (size_t i = 0; i < d->mentions.n; i++) {
        Mention *m = &d->mentions.at[i];
        const GraphBinding *b = m->kind == MENTION_GRAPH ? m->target : NULL;
        if (b && !m->type)
            m->type = b->type;
    }
}

void document_note_mentions(RelayDocument *d)
{
    Notes n = {.d = d};
    arena_init(&n.scratch, NULL);
    for (size_t i = 0; i < d->trail.seen.n; i++)
        know_module(&n, d->trail.seen.at[i].module);
    if (n.known.n)
        qsort(n.known.at, n.known.n, sizeof *n.known.at, by_place);
    Scan sc = {.n = &n, .lx = {.text = buf_text(&d->text), .end = (uint32_t)d->text.n}};
    for (Token t = lexer_next(&sc.lx); t.kind != TOKEN_END; t = lexer_next(&sc.lx)) {
        scan_braces(&sc, (TokenKind)t.kind);
        if (t.kind == TOKEN_IDENT || t.kind == TOKEN_LOCAL || t.kind == TOKEN_GRAPH ||
            t.kind == TOKEN_GLOBAL)
            scan_name(&sc, t);
        if (t.kind != TOKEN_LPAREN && t.kind != TOKEN_LBRACE)
            sc.from = t.to;
    }
    settle_graphs(d);
    arena_deinit(&n.scratch);
}
