/* Patterns: `_`, `%x: T`, `Con(p, q)`, `(p, q)`. */
#include "parser/internal.h"

typedef Vec(Pattern *) PatternVec;

static bool pattern_list(Parser *p, PatternVec *out)
{
    uint32_t open = p->tok.from;
    bool more;
    parse_advance(p);
    more = !parse_at(p, TOKEN_RPAREN);
    while (more) {
        Pattern *one = parse_pattern(p);
        if (!one)
            return false;
        vec_push(out, &p->scratch, one);
        if (!parse_separator(p, TOKEN_RPAREN, open, &more))
            return false;
    }
    return parse_expect_close(p, TOKEN_RPAREN, open);
}

/* Two variables of one pattern cannot have one name; they were bound since the clause began. */
static void check_twice(Parser *p, const Symbol *s, Span span)
{
    if (!scope_binds(p, s, frame_top(p)->undo))
        return;
    Diag *d = parse_error(p, E0113_DUPLICATE, span, "`%%%s` is bound twice in one pattern",
                          s->name->text);
    diag_label(d, s->var->base.span, "first here");
}

static Pattern *var_pattern(Parser *p)
{
    parse_whole_name(p);
    Token t = p->tok;
    const Type *annotation = NULL;
    parse_advance(p);
    if (parse_take(p, TOKEN_COLON) && !(annotation = parse_type(p)))
        return NULL;
    Symbol *s = symbol_get(p, token_name(p, t));
    check_twice(p, s, token_span(p, t));
    Var *var = expr_var(p->arena, token_span(p, t), s->name, annotation);
    scope_bind(p, s, var);
    strict_bind(p, s, token_span(p, t));
    return pattern_var(p->arena, parse_span(p, t.from, p->last_to), var);
}

/* The data type that the match is about, as far as its variable or its clauses say; NULL: they do not. */
static const TypeDef *matched_type(Parser *p)
{
    const Frame *f = frame_top(p);
    if (f->kind != FRAME_CLAUSE || p->depth != 1)
        return NULL;
    const Var *v = expr_as_var(f->left.e);
    const Type *t = v && v->annotation ? type_find(v->annotation) : NULL;
    if (t && t->kind == TYPE_ADT)
        return t->def;
    for (size_t i = f->clause.clauses; i < p->clauses.n; i++)
        if (p->clauses.at[i].clause.pattern->kind == PATTERN_CON)
            return p->clauses.at[i].clause.pattern->con->type;
    return NULL;
}

static void help_constructors(Diag *d, const TypeDef *def)
{
    enum { MOST = 6 };
    Buf b = {0};
    for (uint32_t i = 0; i < def->n_cons && i < MOST; i++)
        buf_printf(&b, "%s`%s`",
                   i == 0                 ? ""
                   : i + 1 == def->n_cons ? " and "
                                          : ", ",
                   def->cons[i]->name->text);
    diag_help(d, "`%s` has %s%s", def->name->text, def->n_cons ? buf_text(&b) : "no constructors",
              def->n_cons > MOST ? " and others" : "");
    buf_deinit(&b);
}

static void unknown_constructor(Parser *p, Token t, Symbol *s)
{
    enum { MOST = 200 };
    const char *names[MOST];
    /* What the clause takes, and which it leaves to others, is not known. */
    parse_count_unjudged(p);
    if (undefined_again(p, s))
        return;
    p->unjudged++;
    Diag *d = parse_error(p, E0112_UNDEFINED_CONSTRUCTOR, token_span(p, t),
                          "there is no constructor `%s`", s->name->text);
    const TypeDef *def = matched_type(p);
    if (!hint_replaced(p, d, s->name) && (def || !hint_import(p, d, s->name)))
        diag_suggest(d, s->name->text, hint_constructors(p, MOST, names), names);
    bool habit = hint_habit(p, d, (Str){s->name->text, s->name->len}, "a pattern");
    if (!habit && s->name->text[0] >= 'a' && s->name->text[0] <= 'z')
        diag_help(d, "a variable is written `%%%s`", s->name->text);
    else if (!d->helps && !d->labels && def)
        help_constructors(d, def);
    else if (!d->helps && !d->labels)
        diag_help(d, "a pattern is a constructor of the type that is matched, `_` or a variable");
}

static Pattern *con_pattern(Parser *p)
{
    Token t = p->tok;
    PatternVec fields = {0};
    Symbol *s = symbol_get(p, token_text(p, t));
    const Constructor *con = symbol_con(p, s);
    parse_advance(p);
    if (!con)
        unknown_constructor(p, t, s);
    else
        strict_constructor(p, con, t);
    if (parse_at(p, TOKEN_LPAREN) && !pattern_list(p, &fields))
        return NULL;
    Span span = parse_span(p, t.from, p->last_to);
    return con ? pattern_con(p->arena, span, con, (uint32_t)fields.n, fields.at)
               : pattern_wildcard(p->arena, span);
}

static Pattern *one_pattern(Parser *p)
{
    Token t = p->tok;
    PatternVec fields = {0};
    switch (t.kind) {
    case TOKEN_UNDERSCORE: parse_advance(p); return pattern_wildcard(p->arena, token_span(p, t));
    case TOKEN_LOCAL: return var_pattern(p);
    case TOKEN_IDENT: return con_pattern(p);
    case TOKEN_LPAREN:
        if (!pattern_list(p, &fields))
            return NULL;
        return pattern_tuple(p->arena, parse_span(p, t.from, p->last_to), (uint32_t)fields.n,
                             fields.at);
    default: break;
    }
    parse_expected(p, E0107_EXPECTED_PATTERN, "a pattern");
    return NULL;
}

Pattern *parse_pattern(Parser *p)
{
    if (p->depth >= TYPE_DEPTH_MOST) {
        parse_too_deep(p, "a pattern is");
        return NULL;
    }
    p->depth++;
    Pattern *one = one_pattern(p);
    p->depth--;
    return one;
}
