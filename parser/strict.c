/* What the original does not read, or reads as something else, where the parser alone would not notice: names that are bound twice in
 * one of the original's scopes, and what stands inside of tokens (language.md 1, 5 and 7).
 *
 * The original's scopes are counted beside ours. A function with its parameters, a branch, a clause with its pattern and a block open
 * one; a `let` binds in the innermost one before its value is read, where a name that is there already keeps its meaning, and opens
 * one for what follows. So the first let of a body shares the scope of the parameters. */
#include "parser/internal.h"

#include <string.h>

/* ---- scopes ----------------------------------------------------------------------------------------------------------------- */

void strict_open(Parser *p)
{
    if (p->env->strict)
        vec_push(&p->scopes, &p->scratch, NULL);
}

void strict_close(Parser *p, uint32_t scopes)
{
    if (p->scopes.n > scopes)
        p->scopes.n = scopes;
}

void strict_bind(Parser *p, const Symbol *s, Span span)
{
    if (!p->env->strict)
        return;
    for (size_t i = p->scopes.n; i > 0 && p->scopes.at[i - 1]; i--)
        if (p->scopes.at[i - 1] == s) {
            parse_wider(p, span, "a name that is bound again in its scope as a new variable",
                        "give one of the two another name");
            return;
        }
    vec_push(&p->scopes, &p->scratch, s);
}

void strict_let(Parser *p, Frame *f)
{
    if (!p->env->strict)
        return;
    if (f->scopes_let == 0)
        f->scopes_let = (uint32_t)p->scopes.n;
    strict_open(p);
}

void strict_local(Parser *p, const Symbol *s, Token t)
{
    if (p->env->strict && s->own && !scope_binds(p, s, s->own - 1))
        parse_wider(p, token_span(p, t), "a variable of the same name in the value of a `let`",
                    "give one of the two another name");
}

void strict_graph(Parser *p, Token t)
{
    if (!p->env->strict)
        return;
    Str digits = token_name(p, t);
    while (digits.len > 1 && *digits.ptr == '0') {
        digits.ptr++;
        digits.len--;
    }
    const Name *name = ctx_name_str(p->cx, digits);
    if (ptrmap_has(&p->numbers, name))
        parse_wider(p, token_span(p, t), "a graph variable that is bound twice",
                    "give each a number of its own");
    ptrmap_put(&p->numbers, name, p);
}

void strict_constructor(Parser *p, const Constructor *con, Token t)
{
    if (con->span.source == p->source && con->span.from > t.from)
        parse_wider(p, token_span(p, t), "a constructor before its definition",
                    "write the type above what uses it");
}

/* ---- names of types --------------------------------------------------------------------------------------------------------- */

void strict_type_name(Parser *p, Token t)
{
    static const char *const beginnings[] = {"int", "uint", "float", "bool"};
    Str name = token_text(p, t);
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        if (!strncmp(name.ptr, beginnings[i], strlen(beginnings[i])))
            parse_wider(p, token_span(p, t), "the name of a type that begins like an element type",
                        "give it another name");
}

/* ---- operators that keep their attributes to themselves ------------------------------------------------------------------------ */

void strict_earlier(Parser *p, const Op *op, const Attrs *written, Span span)
{
    for (const OpAttr *f = op->attrs; p->env->strict && f && f->name; f++)
        if (f->required && !attrs_find(written, f->name))
            parse_wider(p, span, "a call without an attribute that has no default", "add it");
    for (uint32_t i = 0; p->env->strict && i < written->n; i++) {
        const Attr *a = &written->at[i];
        bool now = !strcmp(a->key, "attrs_type_key");
        for (const OpAttr *f = op->attrs; f && f->name && !now; f++)
            now = !strcmp(f->name, a->key);
        if (!now)
            parse_wider(p, a->key_span, "an attribute of an earlier release",
                        "give it its name of today");
    }
}

void strict_attrs(Parser *p, const Op *op, const Attrs *written)
{
    /* Their records are not known to what reads fields. */
    static const char *const names[] = {
        "cumsum",
        "cumprod",
        "scatter",
        "scatter_add",
        "scatter_elements",
        "scatter_nd",
        "unique",
        "stft",
        "dft",
        "trilu",
        "nn.dilate",
        "collapse_sum_to",
        "dyn.expand_dims",
        "annotation.compiler_begin",
        "annotation.compiler_end",
        "annotation.cast_hint",
        "vision.get_valid_counts",
        "vision.non_max_suppression",
        "vision.all_class_non_max_suppression",
        "vision.regular_non_max_suppression",
        "vision.proposal",
        "vision.roi_align",
        "vision.roi_pool",
    };
    bool kept = false;
    for (size_t i = 0; p->env->strict && i < sizeof names / sizeof *names; i++)
        kept |= !strcmp(op->name, names[i]);
    if (kept && written->n > 0 && written->at[0].key && *written->at[0].key &&
        !attrs_find(written, "attrs_type_key"))
        parse_wider(p, written->at[0].key_span,
                    "attributes of this operator without the name of their record",
                    "add `attrs_type_key=\"relay.attrs.…\"`");
}

/* ---- tokens ----------------------------------------------------------------------------------------------------------------- */

/* It takes stars in pairs. */
static void check_comment(Parser *p, Token t)
{
    uint32_t to = t.to - 1, stars = 0;
    while (to - stars - 1 > t.from + 1 && p->lx.text[to - stars - 1] == '*')
        stars++;
    if (p->lx.text[t.from + 1] == '*' && stars % 2 == 0)
        parse_wider(p, parse_span(p, t.to - 3, t.to), "the end of a comment behind another star",
                    "put a blank before `*/`");
}

static void check_string(Parser *p, Token t)
{
    if (memchr(p->lx.text + t.from, '\\', t.to - t.from))
        parse_wider(p, token_span(p, t), "an escape in a string", "it knows none");
}

static void check_number(Parser *p, Token t)
{
    Str text = token_text(p, t);
    while (text.len > 0 && *text.ptr == '-') {
        text.ptr++;
        text.len--;
    }
    if (text.len > 0 && (*text.ptr == 'n' || (*text.ptr == 'i' && text.len > 4)))
        parse_wider(p, token_span(p, t), "this literal", "it knows `inff` alone");
}

void strict_tokens(Parser *p)
{
    if (!p->env->strict)
        return;
    Lexer lx = {.text = p->lx.text, .end = p->lx.end, .comments = true};
    TokenKind before = TOKEN_END;
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx)) {
        Str text = token_text(p, t);
        if (limit_hit(&p->cx->limits) || (before == TOKEN_HASH && str_is(text, "metadata")))
            return;
        if (t.kind == TOKEN_COMMENT && !t.fault)
            check_comment(p, t);
        else if (t.kind == TOKEN_STRING && !t.fault)
            check_string(p, t);
        else if (t.kind == TOKEN_NUMBER)
            check_number(p, t);
        else if (t.kind == TOKEN_IDENT && text.len > 4 && !memcmp(text.ptr, "inff", 4))
            parse_wider(p, token_span(p, t), "a name that begins with `inff`",
                        "give it another name");
        else if (t.kind == TOKEN_LOCAL && !t.fault && memchr(text.ptr, ':', text.len))
            parse_wider(p, token_span(p, t), "a name with `::`", "give it another name");
        else if (t.kind == TOKEN_LOCAL && !t.fault && memchr(text.ptr, '.', text.len))
            parse_wider(p, token_span(p, t), "a name with `.`", "give it another name");
        before = (TokenKind)t.kind;
    }
}
