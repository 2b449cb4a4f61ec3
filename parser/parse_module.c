/* Whole texts: header, imports, definitions, metadata. */
#include "parser/internal.h"

#include <stdlib.h>
#include <string.h>

static bool at_word(const Parser *p, const char *word)
{
    return parse_at(p, TOKEN_IDENT) && str_is(token_text(p, p->tok), word);
}

bool parse_at_import(const Parser *p)
{
    return at_word(p, "import") && parse_peek(p).kind == TOKEN_STRING;
}

bool parse_at_definition(const Parser *p)
{
    return parse_at(p, TOKEN_DEF) || parse_at(p, TOKEN_TYPE) || parse_at(p, TOKEN_EXTERN) ||
           parse_at_import(p);
}

/* ---- types are declared before anything is read ----------------------------------------------------------------------------- */

static Span whole_text(const Parser *p)
{
    return parse_span(p, 0, p->lx.end);
}

/* Goes to a place in a text; the token there becomes the next. */
static void jump(Parser *p, Span text, uint32_t to)
{
    if (text.source != p->source)
        parser_leave_text(p);
    module_use_source(p->m, text.source);
    p->ahead_to = 0;
    p->source = text.source;
    p->lx.text = sources_get(&p->cx->sources, text.source)->text;
    p->lx.end = text.to;
    if (to > p->lx.end)
        to = p->lx.end;
    p->lx.at = to;
    p->tok.to = to;
    parse_advance(p);
}

static bool word_byte(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c && strchr("_/%@.\"", c));
}

/* Whether the word `type` may stand in the text: most models define none, and then no token needs to be looked at twice. */
static bool mentions_type(const Parser *p)
{
    const char *at = p->lx.text + p->tok.from, *end = p->lx.text + p->lx.end;
    while ((at = memchr(at, 'y', (size_t)(end - at)))) {
        const char *word = at++ - 1;
        if (word < p->lx.text || end - word < 4 || memcmp(word, "type", 4) != 0)
            continue;
        bool before = word > p->lx.text && word_byte(word[-1]);
        if (!before && (word + 4 == end || !word_byte(word[4]) || word[4] == '/'))
            return true;
    }
    return false;
}

/* Calls declare for each `type` that begins a definition. A group ends at the first token outside of brackets that begins none, and at a
 * `;` there. */
static void find_types(Parser *p, DeclareScope scope)
{
    Lexer ahead = p->lx;
    Token t = p->tok, last = {.kind = TOKEN_END};
    long depth = 0;
    unsigned seen = 0;
    for (; t.kind != TOKEN_END; last = t, t = lexer_next(&ahead)) {
        if (++seen % TOKENS_TO_ASK == 0 && limit_hit(&p->cx->limits))
            return;
        bool opens = t.kind == TOKEN_LBRACE || t.kind == TOKEN_LPAREN;
        bool closes = t.kind == TOKEN_RBRACE || t.kind == TOKEN_RPAREN;
        depth += opens - closes;
        if (t.kind == TOKEN_HASH && scope == DECLARE_TEXT && lexer_next(&ahead).kind == TOKEN_IDENT)
            return;
        bool outside = depth == 0 && !closes && last.kind == TOKEN_RBRACE;
        bool begins = t.kind == TOKEN_DEF || t.kind == TOKEN_TYPE || t.kind == TOKEN_EXTERN ||
                      t.kind == TOKEN_IDENT;
        bool apart = depth == 0 && t.kind == TOKEN_SEMICOLON;
        if (scope == DECLARE_GROUP && ((outside && !begins) || apart))
            return;
        if (t.kind != TOKEN_TYPE)
            continue;
        bool is_extern = last.kind == TOKEN_EXTERN;
        Declared one = {.range = whole_text(p),
                        .start = is_extern ? last.from : t.from,
                        .from = t.from,
                        .is_extern = is_extern};
        vec_push(&p->declared, &p->scratch, one);
    }
}

static void report_twice(Parser *p, Span span, const char *what, const char *name, Span first)
{
    Diag *d = parse_error(p, E0113_DUPLICATE, span, "%s `%s` is defined twice", what, name);
    if (first.source)
        diag_label(d, first, "first here");
    diag_help(d, "give one of them another name");
}

/* type NAME [ "[" names "]" ] */
static void declare_head(Parser *p, Declared *one)
{
    TypeVarList params = {0};
    uint32_t undo = (uint32_t)p->undo.n;
    jump(p, one->range, one->from);
    parse_advance(p);
    Token t = p->tok;
    one->end = p->tok.from;
    if (!parse_expect(p, TOKEN_IDENT) || !parse_type_params(p, &params)) {
        p->import_missing = true;
        return;
    }
    scope_leave(p, undo);
    Symbol *s = symbol_get(p, token_text(p, t));
    Meaning *meaning = symbol_meaning(p, s);
    const TypeDef *old = meaning->type_def ? meaning->type_def : module_find_type(p->m, s->name);
    if (old && !p->env->redefine)
        report_twice(p, token_span(p, t), "type", s->name->text, old->span);
    one->def = typedef_new(p->cx, s->name, params.n, params.at, token_span(p, t));
    one->def->is_extern = one->is_extern;
    one->body = p->tok.from;
    meaning->type_def = one->def;
}

/* NAME [ "(" list(type) ")" ] */
static bool declare_constructor(Parser *p, TypeDef *def)
{
    Vec(const Type *) fields = {0};
    Token t = p->tok;
    if (!parse_expect(p, TOKEN_IDENT))
        return false;
    uint32_t open = p->tok.from;
    if (parse_take(p, TOKEN_LPAREN)) {
        bool more = !parse_at(p, TOKEN_RPAREN);
        while (more) {
            const Type *field = parse_type(p);
            if (!field || !parse_separator(p, TOKEN_RPAREN, open, &more))
                return false;
            vec_push(&fields, &p->scratch, field);
        }
        if (!parse_expect_close(p, TOKEN_RPAREN, open))
            return false;
    } else if (parse_at(p, TOKEN_IDENT) && dtype_parse(token_text(p, p->tok), &(DType){0})) {
        Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, "`(` of the fields, `,` or `}`");
        Str name = token_text(p, t), type = token_text(p, p->tok);
        diag_help(d, "fields stand in parentheses: `%.*s(%.*s)`", (int)name.len, name.ptr,
                  (int)type.len, type.ptr);
        return false;
    }
    Symbol *s = symbol_get(p, token_text(p, t));
    Meaning *meaning = symbol_meaning(p, s);
    const Constructor *old = meaning->con ? meaning->con : module_find_con(p->m, s->name);
    if (old && (!p->env->redefine || old->type == def))
        report_twice(p, token_span(p, t), "constructor", s->name->text, old->span);
    meaning->con =
        typedef_con(p->cx, def, s->name, (uint32_t)fields.n, fields.at, token_span(p, t));
    return true;
}

static void declare_constructors(Parser *p, Declared *one)
{
    jump(p, one->range, one->body);
    uint32_t undo = (uint32_t)p->undo.n, open = p->tok.from;
    if (!parse_at(p, TOKEN_LBRACE) && !parse_at(p, TOKEN_ASSIGN)) {
        one->end = p->tok.from;
        module_define_type(p->m, one->def);
        return;
    }
    bool ok = parse_at(p, TOKEN_LBRACE);
    if (!ok)
        parse_expected(p, E0104_EXPECTED_TOKEN, "constructors in braces, or the end of the type");
    else if (one->is_extern)
        parse_error(p, E0119_EXTERN_CONSTRUCTORS, token_span(p, p->tok),
                    "the extern type `%s` cannot have constructors", one->def->name->text);
    parse_advance(p);
    for (uint32_t i = 0; i < one->def->n_params; i++) {
        const Name *name = one->def->params[i]->name;
        scope_bind_type(p, symbol_of(p, name), one->def->params[i]);
    }
    bool more = !parse_at(p, TOKEN_RBRACE);
    while (more && ok)
        ok = declare_constructor(p, one->def) && parse_separator(p, TOKEN_RBRACE, open, &more) &&
             !limit_hit(&p->cx->limits);
    scope_leave(p, undo);
    p->import_missing |= !ok;
    one->def->broken = !ok;
    p->skipping = !ok;
    while (!ok && !parse_at(p, TOKEN_RBRACE) && !parse_at(p, TOKEN_END) && !parse_at_definition(p))
        parse_advance(p);
    p->skipping = false;
    one->end = p->tok.kind == TOKEN_RBRACE ? p->tok.to : p->tok.from;
    module_define_type(p->m, one->def);
}

static void declare_found(Parser *p)
{
    for (size_t i = 0; i < p->declared.n; i++)
        declare_head(p, &p->declared.at[i]);
    for (size_t i = 0; i < p->declared.n; i++) {
        Declared *one = &p->declared.at[i];
        if (!one->def)
            continue;
        declare_constructors(p, one);
        one->def->text = parse_span(p, one->start, one->end);
    }
}

void declare_types(Parser *p, DeclareScope scope)
{
    uint32_t at = p->tok.from;
    Span text = whole_text(p);
    p->declared.n = 0;
    if (scope == DECLARE_TEXT ? !mentions_type(p) : !parse_at_definition(p))
        return;
    find_types(p, scope);
    declare_found(p);
    if (p->declared.n)
        jump(p, text, at);
}

/* ---- definitions ---------------------------------------------------------------------------------------------------------------- */

static void skip_to_definition(Parser *p)
{
    p->skipping = true;
    while (!parse_at(p, TOKEN_END) && !parse_at(p, TOKEN_HASH) && !parse_at(p, TOKEN_DEF) &&
           !parse_at(p, TOKEN_TYPE) && !parse_at(p, TOKEN_EXTERN))
        parse_advance(p);
    p->skipping = false;
}

static int by_place(const void *a, const void *b)
{
    const Declared *x = a, *y = b;
    return (x->from > y->from) - (x->from < y->from);
}

/* The type was read when it was declared: goes behind it. */
static void type_definition(Parser *p)
{
    Declared key = {.from = p->tok.from};
    const Declared *one =
        p->declared.n ? bsearch(&key, p->declared.at, p->declared.n, sizeof key, by_place) : NULL;
    if (one && one->end > p->tok.from)
        jump(p, one->range, one->end);
    else
        parse_advance(p);
    if (!one || !one->def)
        skip_to_definition(p);
}

static void extern_definition(Parser *p)
{
    parse_advance(p);
    if (parse_at(p, TOKEN_TYPE))
        type_definition(p);
    else if (!parse_expect(p, TOKEN_TYPE))
        skip_to_definition(p);
}

/* `fun @main`: an unknown word where a definition was meant. */
static bool at_unknown_definition(const Parser *p)
{
    return (parse_at(p, TOKEN_IDENT) || parse_at(p, TOKEN_FN)) &&
           parse_peek(p).kind == TOKEN_GLOBAL;
}

static const Type *known(Parser *p, const Type *t)
{
    return t && !t->open ? t : type_poison(p->cx);
}

/* In place of a definition that could not be read: those that use it go by what its head says. */
static Function *declared_function(Parser *p, Span span, const FunctionHead *head)
{
    Function *fn = expr_function(p->arena, span, head->type_params, head->params.n, head->params.at,
                                 NULL, head->ret_type, p->poison);
    const Type **args = arena_new_array(&p->scratch, const Type *, head->params.n);
    for (uint32_t i = 0; i < head->params.n; i++)
        args[i] = known(p, head->params.at[i]->annotation);
    fn->base.type = head->ret_type ? type_func(p->cx, head->type_params.n, head->type_params.at,
                                               head->params.n, args, known(p, head->ret_type))
                                   : type_poison(p->cx);
    return fn;
}

static void function_definition(Parser *p)
{
    uint32_t from = p->tok.from;
    p->definition++;
    parse_advance(p);
    Token t = p->tok;
    Str text = token_name(p, t);
    if (!parse_at(p, TOKEN_GLOBAL)) {
        Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, "a global name such as `@main`");
        if (!parse_at(p, TOKEN_IDENT)) {
            diag_help(d, "a function of the program is `def @name(…) { … }`");
            p->m->gaps = true;
            skip_to_definition(p);
            return;
        }
        text = token_text(p, t);
        diag_help(d, "did you mean `@%.*s`?", (int)text.len, text.ptr);
        diag_fix(d, token_span(p, t), NULL, "@");
    }
    parse_advance(p);
    p->inside = true;
    FunctionHead head = {0};
    uint32_t unreadable = parse_unreadable(p);
    Function *fn = parse_function(p, from, &head);
    p->inside = false;
    if (!fn)
        skip_to_definition(p);
    if (!fn || parse_unreadable(p) > unreadable)
        fn = declared_function(p, parse_span(p, from, p->last_to), &head);
    const Name *name = ctx_name_str(p->cx, text);
    const Def *old = module_find(p->m, name);
    if (old && !old->imported && !p->env->redefine) {
        report_twice(p, token_span(p, t), "function", parse_copy(p, token_text(p, t)), old->span);
        /* Which of them was meant where is not known. */
        fn = declared_function(p, fn->base.span, &(FunctionHead){0});
    }
    module_define(p->m, name, fn, token_span(p, t), p->m);
}

bool parse_import(Parser *p)
{
    Token t = p->tok;
    parse_advance(p);
    Token file = p->tok;
    Span span = parse_span(p, t.from, file.to);
    Str path = parse_string(p);
    parse_take(p, TOKEN_SEMICOLON);
    parse_wider(p, span, "an import", "write what it defines into the text");
    if (!p->env->import) {
        parse_error(p, E0120_IMPORT, span, "nothing can be imported here");
        return false;
    }
    Module *from = p->env->import(p->env->data, path, token_span(p, file));
    if (!from) {
        p->errors++;
        p->import_missing = p->m->gaps = true;
        return false;
    }
    module_import(p->m, from);
    module_release(from);
    vec_push(&p->m->imports, p->arena, path);
    return true;
}

/* A word before a global name was meant for `def`. */
static void no_definition(Parser *p)
{
    static const char *const words[] = {"def", "type", "extern", "import"};
    if (p->nested) {
        p->nested = false;
        skip_to_definition(p);
        return;
    }
    Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, "a definition");
    if (parse_at(p, TOKEN_IDENT))
        diag_suggest(d, parse_copy(p, token_text(p, p->tok)), sizeof words / sizeof *words, words);
    if (at_unknown_definition(p)) {
        function_definition(p);
        return;
    }
    p->m->gaps = true;
    parse_advance(p);
    skip_to_definition(p);
}

void parse_definition(Parser *p)
{
    if (p->ended)
        parse_wider(p, token_span(p, p->tok), "a definition behind an extern type",
                    "write extern types behind all others");
    p->ended = parse_at(p, TOKEN_EXTERN);
    if (parse_at(p, TOKEN_DEF)) {
        function_definition(p);
    } else if (parse_at(p, TOKEN_TYPE)) {
        type_definition(p);
    } else if (parse_at(p, TOKEN_EXTERN)) {
        extern_definition(p);
    } else if (parse_at_import(p)) {
        parse_import(p);
    } else {
        no_definition(p);
    }
}

/* ---- the whole text ---------------------------------------------------------------------------------------------------------------- */

#define VERSION "0.0.5"

bool parse_at_mark(const Parser *p, const char *word)
{
    Lexer ahead = p->lx;
    if (!parse_at(p, TOKEN_HASH))
        return false;
    Token t = lexer_next(&ahead);
    return t.kind == TOKEN_IDENT && str_is(token_text(p, t), word);
}

static void skip_mark(Parser *p)
{
    while (!parse_at(p, TOKEN_RBRACKET) && !parse_at(p, TOKEN_END) && !parse_at(p, TOKEN_DEF))
        parse_advance(p);
    parse_take(p, TOKEN_RBRACKET);
}

/* What an older release wrote is read as well: it means the same. */
static void check_version(Parser *p, Str version, Span span)
{
    bool older = str_is(version, "0.0.4");
    if (older)
        parse_wider(p, span, "text of version 0.0.4", "write `#[version = \"" VERSION "\"]`");
    if (older || str_is(version, VERSION))
        return;
    Diag *d = parse_error(p, E0109_VERSION, span, "text of version `%.*s` cannot be read",
                          (int)version.len, version.ptr);
    diag_help(d, "this program reads version `%s`", VERSION);
}

/* "#[" "version" "=" STRING "]" */
void parse_header(Parser *p)
{
    uint32_t from = p->tok.from;
    parse_advance(p);
    parse_advance(p);
    Token t = p->tok;
    if (!parse_expect(p, TOKEN_ASSIGN)) {
        skip_mark(p);
        return;
    }
    t = p->tok;
    if (t.kind != TOKEN_STRING) {
        parse_expected(p, E0109_VERSION, "a version in quotes");
        skip_mark(p);
        return;
    }
    check_version(p, parse_string(p), token_span(p, t));
    if (!parse_expect_close(p, TOKEN_RBRACKET, from))
        skip_mark(p);
    p->m->has_header = true;
}

/* "v0.0.4" on a line of its own, as texts began before they had a header. */
static void bare_version(Parser *p)
{
    uint32_t from = p->tok.from, to = p->tok.to;
    while (to < p->lx.end && (p->lx.text[to] == '.' || (unsigned)(p->lx.text[to] - '0') < 10))
        to++;
    if (!parse_at(p, TOKEN_IDENT) || !str_is(token_text(p, p->tok), "v0") || to == p->tok.to)
        return;
    check_version(p, (Str){p->lx.text + from + 1, to - from - 1}, parse_span(p, from, to));
    p->m->has_header = true;
    p->lx.at = to;
    parse_advance(p);
}

void parse_wrong_mark(Parser *p)
{
    uint32_t from = p->tok.from;
    parse_advance(p);
    Str word = token_text(p, p->tok);
    parse_error(p, E0104_EXPECTED_TOKEN, parse_span(p, from, p->tok.to),
                "`#[%.*s` means nothing here", (int)word.len, word.ptr);
    skip_mark(p);
}

static void missing_header(Parser *p)
{
    Diag *d = parse_error(p, E0109_VERSION, token_span(p, p->tok),
                          "the text does not begin with its version");
    diag_help(d, "write `#[version = \"%s\"]` on the first line", VERSION);
    diag_fix(d, parse_span(p, 0, 0), NULL, "#[version = \"" VERSION "\"]\n");
}

/* Whether the body of the first definition begins on a line of its own, as everything that was printed does. */
static bool is_printed(const Parser *p)
{
    Lexer ahead = p->lx;
    long depth = 0;
    for (Token t = p->tok; t.kind != TOKEN_END; t = lexer_next(&ahead)) {
        depth += (t.kind == TOKEN_LPAREN) - (t.kind == TOKEN_RPAREN);
        if (t.kind == TOKEN_LBRACE && depth == 0)
            return p->lx.text[t.to] == '\n' || p->lx.text[t.to] == '\r';
    }
    return false;
}

static void definitions(Parser *p)
{
    /* A dump for people to read has no version: only what was written by hand is asked for it, and only where that matters. */
    bool wanted = p->env->strict || (p->env->wants_version && !is_printed(p));
    if (!p->m->has_header && !p->errors && !parse_at(p, TOKEN_END) && wanted)
        missing_header(p);
    while (parse_at_import(p))
        parse_import(p);
    declare_types(p, DECLARE_TEXT);
    while (!parse_at(p, TOKEN_END) && p->cx->limits.hit == LIMIT_NONE &&
           !limit_hit(&p->cx->limits)) {
        if (parse_at_mark(p, "metadata"))
            return;
        if (parse_at(p, TOKEN_HASH))
            parse_wrong_mark(p);
        else
            parse_definition(p);
    }
}

static void expression(Parser *p)
{
    bool read = parse_expr(p, FRAME_TOP);
    if (parse_at(p, TOKEN_END) || parse_at_mark(p, "metadata") || (p->errors && !read))
        return;
    parse_expected(p, E0104_EXPECTED_TOKEN,
                   parse_at_definition(p) ? "the end of the expression" : "an operator or the end");
}

Module *parse_text(Ctx *cx, uint32_t source, const ParseEnv *env)
{
    Parser p;
    Diag *before = cx->diags->last;
    const Source *text = sources_get(&cx->sources, source);
    if (!parser_init(&p, cx, source, 0, text ? (uint32_t)text->len : 0, env))
        return NULL;
    strict_tokens(&p);
    if (parse_at_mark(&p, "version"))
        parse_header(&p);
    else
        bare_version(&p);
    while (parse_at(&p, TOKEN_HASH) && !parse_at_mark(&p, "metadata"))
        parse_wrong_mark(&p);
    if (parse_at_definition(&p) || at_unknown_definition(&p) || parse_at(&p, TOKEN_END) ||
        parse_at_mark(&p, "metadata"))
        definitions(&p);
    else
        expression(&p);
    /* What nothing refers to is not looked at before: text behind the mark would vanish without a word. */
    if (parse_at_mark(&p, "metadata"))
        parse_metadata(&p);
    Module *m = p.m;
    m->broken = p.errors > 0;
    if (parse_unreadable(&p))
        m->expr = NULL;
    bool failed = (m->broken && !p.env->keep_broken) || limit_hit(&cx->limits);
    parser_deinit(&p);
    if (m->broken)
        diags_sort(cx->diags, before);
    if (!failed)
        return m;
    module_release(m);
    return NULL;
}

Module *parse_definitions(Ctx *cx, size_t n, const Span *ranges, const Module *base,
                          const ParseEnv *env)
{
    Parser p;
    Diag *before = cx->diags->last;
    if (n == 0 || !parser_init(&p, cx, ranges[0].source, ranges[0].from, ranges[0].to, env))
        return NULL;
    if (base)
        module_adopt_imports(p.m, base);
    for (size_t i = 0; i < n; i++) {
        jump(&p, ranges[i], ranges[i].from);
        find_types(&p, DECLARE_TEXT);
    }
    declare_found(&p);
    for (size_t i = 0; i < n && !limit_hit(&cx->limits); i++) {
        jump(&p, ranges[i], ranges[i].from);
        if (parse_at(&p, TOKEN_DEF))
            parse_definition(&p);
    }
    Module *m = p.m;
    bool failed = p.errors > 0 || limit_hit(&cx->limits);
    parser_deinit(&p);
    if (!failed)
        return m;
    diags_sort(cx->diags, before);
    module_release(m);
    return NULL;
}

Module *parse_range(Ctx *cx, Span range, const ParseEnv *env)
{
    Parser p;
    if (!parser_init(&p, cx, range.source, range.from, range.to, env))
        return NULL;
    expression(&p);
    Module *m = p.m;
    bool failed = p.errors > 0 || limit_hit(&cx->limits);
    parser_deinit(&p);
    if (!failed)
        return m;
    module_release(m);
    return NULL;
}

bool parse_attr_value(Ctx *cx, Arena *arena, uint32_t source, Span where, AttrValue *out)
{
    Parser p;
    *out = (AttrValue){.kind = ATTR_NONE};
    if (!parser_init(&p, cx, source, where.from, where.to, NULL))
        return false;
    p.arena = arena;
    bool ok = parse_attr_literal(&p, out);
    if (ok && !parse_at(&p, TOKEN_END))
        parse_expected(&p, E0104_EXPECTED_TOKEN, "the end of the value");
    ok = ok && p.errors == 0;
    Module *m = p.m;
    parser_deinit(&p);
    module_release(m);
    return ok;
}
