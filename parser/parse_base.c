#include "parser/internal.h"

#include <string.h>

bool parser_init(Parser *p, Ctx *cx, uint32_t source, uint32_t from, uint32_t to,
                 const ParseEnv *env)
{
    static const ParseEnv nothing;
    const Source *text = sources_get(&cx->sources, source);
    *p = (Parser){.cx = cx,
                  .env = env ? env : &nothing,
                  .source = source,
                  .definition = 1,
                  .blamed_to = UINT32_MAX};
    p->m = text ? module_new(cx) : NULL;
    if (!p->m)
        return false;
    module_use_source(p->m, source);
    p->m->gaps = p->import_missing = p->env->gaps;
    p->arena = &p->m->arena;
    p->poison = expr_tuple(p->arena, (Span){0}, 0, NULL);
    p->poison->type = type_poison(cx);
    arena_init(&p->scratch, &cx->limits);
    p->lx = (Lexer){.text = text->text, .end = to, .at = from};
    p->tok = (Token){.from = from, .to = from};
    for (int kind = 0; kind < TOKEN_KINDS; kind++)
        if (token_precedence((TokenKind)kind))
            p->infix[kind] = op_find_symbol(cx, str_of(token_spelling((TokenKind)kind)));
    parse_advance(p);
    return true;
}

void parser_deinit(Parser *p)
{
    if (p->meta_from)
        metadata_close(&p->meta);
    ptrmap_deinit(&p->graph.others);
    ptrmap_deinit(&p->numbers);
    ptrmap_deinit(&p->defaults);
    ptrmap_deinit(&p->made_up);
    arena_deinit(&p->scratch);
}

void parser_leave_text(Parser *p)
{
    if (p->meta_from)
        metadata_close(&p->meta);
    p->meta_from = 0;
    p->meta_known = p->meta_broken = false;
    ptrmap_clear(&p->made_up);
    p->graph.at.n = 0;
    ptrmap_clear(&p->graph.others);
}

const char *parse_copy(Parser *p, Str s)
{
    return arena_copy_text(&p->scratch, s.ptr, s.len);
}

/* ---- messages ------------------------------------------------------------------------------------------------------ */

/* What was read stands for what is there, with the poison type in its place. */
static bool is_passable(DiagCode code)
{
    static const DiagCode codes[] = {
        E0102_BAD_NUMBER, E0103_NUMBER_RANGE,   E0110_UNDEFINED_VARIABLE, E0111_UNDEFINED_OPERATOR,
        E0118_BAD_DTYPE,  E0212_UNDEFINED_TYPE, E0213_TYPE_ARGUMENTS,     E0124_STRICT,
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] == code)
            return true;
    return false;
}

void parse_wider(Parser *p, Span span, const char *construct, const char *help)
{
    if (!p->env->strict)
        return;
    Diag *d = parse_error(p, E0124_STRICT, span, "the original does not read %s", construct);
    diag_help(d, "%s", help);
}

Diag *parse_error(Parser *p, DiagCode code, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *d = diag_add(p->cx->diags, code, span, format, args);
    va_end(args);
    p->errors++;
    p->passable += is_passable(code);
    p->unjudged += code == E0113_DUPLICATE;
    p->blamed_to = span.to;
    parse_end_of_errors(p);
    return d;
}

bool parse_end_of_errors(Parser *p)
{
    if (!diags_full(p->cx->diags))
        return false;
    p->cx->diags->cut = true;
    p->lx.end = p->lx.at;
    return true;
}

#define FOUND_MOST 40

static const char *found(Parser *p)
{
    Buf b = {0};
    Str text = token_text(p, p->tok);
    if (parse_at(p, TOKEN_END))
        buf_str(&b, token_words(TOKEN_END));
    else if (p->tok.kind == TOKEN_STRING || text.len > FOUND_MOST)
        buf_str(&b, token_words((TokenKind)p->tok.kind));
    else
        buf_printf(&b, "`%.*s`", (int)text.len, text.ptr);
    const char *kept = parse_copy(p, (Str){buf_text(&b), b.n});
    buf_deinit(&b);
    return kept;
}

Diag *parse_expected(Parser *p, DiagCode code, const char *wanted)
{
    bool lambda = p->lambda && parse_at(p, TOKEN_FAT_ARROW);
    if (lambda || p->after_fault || p->last_to == p->blamed_to || p->cx->limits.hit != LIMIT_NONE) {
        p->errors++;
        return NULL;
    }
    Diag *d =
        parse_error(p, code, token_span(p, p->tok), "expected %s, found %s", wanted, found(p));
    hint_token(p, d, wanted);
    return d;
}

bool parse_too_deep(Parser *p, const char *what)
{
    if (p->cx->limits.hit == LIMIT_NONE) {
        Diag *d = parse_error(p, E0121_TOO_DEEP, token_span(p, p->tok),
                              "%s nested more than %d levels deep", what, TYPE_DEPTH_MOST);
        diag_help(d, "give the inner part a name of its own");
        p->cx->limits.hit = LIMIT_DEPTH;
    }
    p->errors++;
    return false;
}

static void report_character(Parser *p, Token t)
{
    unsigned char c = (unsigned char)p->lx.text[t.from];
    if (t.kind == TOKEN_BAD && c < 128) {
        uint64_t bit = (uint64_t)1 << (c & 63);
        if (p->bad_seen[c >> 6] & bit)
            return;
        p->bad_seen[c >> 6] |= bit;
    }
    if (t.kind == TOKEN_BAD && (c < ' ' || c == 127)) {
        parse_error(p, E0101_BAD_CHARACTER, token_span(p, t),
                    "a control character cannot stand in Relay text");
        return;
    }
    Str s = token_text(p, t);
    if (t.kind == TOKEN_BAD) {
        Diag *d = parse_error(p, E0101_BAD_CHARACTER, token_span(p, t),
                              "`%.*s` cannot stand in Relay text", (int)s.len, s.ptr);
        hint_habit(p, d, s, "text");
        return;
    }
    Diag *d = parse_error(p, E0101_BAD_CHARACTER, token_span(p, t),
                          "`%.*s` has characters that a name cannot hold", (int)s.len, s.ptr);
    diag_help(d, "names are made of ASCII letters, digits, `_` and `/`");
}

static void report_fault(Parser *p)
{
    Token t = p->tok;
    Str s = token_text(p, t);
    Diag *d;
    /* A word of signs that cannot stand there is one mistake. */
    bool again = p->errors && t.fault == FAULT_CHARACTER && (p->skipping || t.from == p->fault_to);
    p->fault_to = t.to;
    if (again) {
        p->errors++;
        return;
    }
    switch ((TokenFault)t.fault) {
    case FAULT_NONE: return;
    case FAULT_CHARACTER: report_character(p, t); return;
    case FAULT_RETURN:
        parse_error(p, E0101_BAD_CHARACTER, token_span(p, t),
                    "a carriage return without a line feed");
        return;
    case FAULT_STRING:
        d = parse_error(p, E0108_UNTERMINATED, token_span(p, t), "this string never ends");
        diag_help(d, "close it with `\"`; inside a string, write `\\\"`");
        return;
    case FAULT_COMMENT:
        d = parse_error(p, E0108_UNTERMINATED, token_span(p, t), "this comment never ends");
        diag_help(d, "comments nest: each `/*` needs its own `*/`");
        return;
    case FAULT_KEYWORD:
        d = parse_error(p, E0104_EXPECTED_TOKEN, token_span(p, t),
                        "`%.*s` is a keyword and cannot be a name", (int)s.len - 1, s.ptr + 1);
        diag_help(d, "take another name, such as `%.*s_`", (int)s.len, s.ptr);
        return;
    }
}

/* ---- tokens ----------------------------------------------------------------------------------------------------------- */

/* Behind a `#` stands a comment of another language. */
static void skip_line(Parser *p)
{
    const char *at = p->lx.text + p->lx.at;
    const char *end = memchr(at, '\n', p->lx.end - p->lx.at);
    p->lx.at = end ? (uint32_t)(end - p->lx.text) : p->lx.end;
}

/* Past what cannot be read: to a token that can, or that has to be one for the parser. */
static __attribute__((noinline)) void pass_faults(Parser *p)
{
    while (p->tok.fault) {
        report_fault(p);
        if (p->tok.kind != TOKEN_BAD && p->tok.kind != TOKEN_COMMENT)
            return;
        p->after_fault = true;
        if (p->lx.text[p->tok.from] == '#')
            skip_line(p);
        lexer_read(&p->lx, &p->tok);
    }
}

void parse_advance(Parser *p)
{
    p->last_to = p->tok.to;
    p->after_fault = false;
    /* A text that is left behind ends here, whoever reads it. */
    if (++p->taken % TOKENS_TO_ASK == 0 && limit_hit(&p->cx->limits))
        p->lx.end = p->lx.at;
    lexer_read(&p->lx, &p->tok);
    if (p->tok.fault)
        pass_faults(p);
}

Token parse_peek(const Parser *p)
{
    Lexer ahead = p->lx;
    return lexer_next(&ahead);
}

bool parse_line_before(const Parser *p)
{
    return memchr(p->lx.text + p->last_to, '\n', p->tok.from - p->last_to) != NULL;
}

bool parse_take(Parser *p, TokenKind kind)
{
    if (p->tok.kind != kind)
        return false;
    parse_advance(p);
    return true;
}

void fix_missing(const Parser *p, Diag *d, TokenKind kind)
{
    if (token_spelling(kind))
        diag_fix(d, parse_span(p, p->last_to, p->last_to), NULL, token_spelling(kind));
}

bool parse_expect(Parser *p, TokenKind kind)
{
    if (parse_take(p, kind))
        return true;
    Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, token_words(kind));
    fix_missing(p, d, kind);
    return false;
}

/* At the end of the text, the bracket that is missing may stand in a comment: `//` divides in other languages. */
static void label_comment(Parser *p, Diag *d, uint32_t open, char close)
{
    Lexer ahead = {.text = p->lx.text, .end = p->lx.end, .at = open};
    for (Token t = lexer_next(&ahead), last = t; last.kind != TOKEN_END; t = lexer_next(&ahead)) {
        const char *gap = p->lx.text + last.to, *end = p->lx.text + t.from;
        while (gap + 1 < end && (gap[0] != '/' || gap[1] != '/'))
            gap++;
        const char *line = memchr(gap, '\n', (size_t)(end - gap));
        if (gap + 1 < end && memchr(gap, close, (size_t)((line ? line : end) - gap))) {
            uint32_t at = (uint32_t)(gap - p->lx.text);
            diag_label(d, parse_span(p, at, at + 2), "from here on, the line is a comment");
            return;
        }
        last = t;
    }
}

static void help_close(Parser *p, Diag *d, char open, bool list)
{
    char close = open == '(' ? ')' : open == '[' ? ']' : '}';
    bool closes =
        parse_at(p, TOKEN_RPAREN) || parse_at(p, TOKEN_RBRACE) || parse_at(p, TOKEN_RBRACKET);
    if (closes)
        diag_help(d, "`%c` is closed by `%c`: is one missing, or `%c` one too many?", open, close,
                  p->lx.text[p->tok.from]);
    else if (parse_at(p, TOKEN_END) || parse_at_definition(p))
        diag_help(d, "each `%c` needs its own `%c`", open, close);
    else if (list)
        diag_help(d, "what stands in a list is separated by commas");
    else
        diag_help(d, "between two expressions stands an operator, or a `;`");
}

static bool missing_close(Parser *p, TokenKind kind, const char *wanted, uint32_t open)
{
    if (p->doubted == open + 1 && (parse_at(p, TOKEN_RBRACE) || parse_at(p, TOKEN_END))) {
        p->errors++;
        return false;
    }
    Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, wanted);
    diag_label(d, parse_span(p, open, open + 1), "opened here");
    fix_missing(p, d, kind);
    if (d && parse_at(p, TOKEN_END))
        label_comment(p, d, open, wanted[strlen(wanted) - 2]);
    if (d && !d->helps)
        help_close(p, d, p->lx.text[open], *wanted && wanted[1] == ',');
    return false;
}

bool parse_expect_close(Parser *p, TokenKind kind, uint32_t open)
{
    return parse_take(p, kind) || missing_close(p, kind, token_words(kind), open);
}

bool parse_separator(Parser *p, TokenKind close, uint32_t open, bool *more)
{
    bool comma = parse_take(p, TOKEN_COMMA);
    *more = !parse_at(p, close);
    if (comma || !*more)
        return true;
    Buf b = {0};
    bool ends = parse_at(p, TOKEN_END) || parse_at(p, TOKEN_SEMICOLON) || parse_line_before(p);
    buf_printf(&b, "`,` or %s", token_words(close));
    missing_close(p, ends ? close : TOKEN_COMMA, buf_text(&b), open);
    buf_deinit(&b);
    return false;
}

/* ---- names ------------------------------------------------------------------------------------------------------------ */

Symbol *symbol_get(Parser *p, Str text)
{
    return symbol_of(p, ctx_name_str(p->cx, text));
}

Symbol *symbol_known(Parser *p, Str text)
{
    const Name *name = name_find(&p->cx->names, text.ptr, text.len);
    return name ? symbol_of(p, name) : NULL;
}

Symbol *symbol_of(Parser *p, const Name *name)
{
    size_t page = name->id / SYMBOL_PAGE;
    while (p->symbols.n <= page)
        vec_push(&p->symbols, &p->scratch, NULL);
    if (!p->symbols.at[page])
        p->symbols.at[page] = arena_alloc_must(&p->scratch, SYMBOL_PAGE, sizeof(Symbol));
    Symbol *s = &p->symbols.at[page][name->id % SYMBOL_PAGE];
    if (s->name)
        return s;
    s->name = name;
    if (p->env->locals)
        s->var = ptrmap_find(p->env->locals, name);
    return s;
}

Meaning *symbol_meaning(Parser *p, Symbol *s)
{
    if (!s->meaning)
        s->meaning = arena_new(&p->scratch, Meaning);
    return s->meaning;
}

/* ---- graph variables --------------------------------------------------------------------------------------------------- */

/* `%007` is `%7`. */
static Str without_zeros(Str digits)
{
    while (digits.len > 1 && digits.ptr[0] == '0') {
        digits.ptr++;
        digits.len--;
    }
    return digits;
}

/* The number, if it may stand in the array; else SIZE_MAX. */
static size_t near_number(const Parser *p, Str digits)
{
    size_t v = 0;
    if (digits.len > 9)
        return SIZE_MAX;
    for (size_t i = 0; i < digits.len; i++)
        v = 10 * v + (size_t)(digits.ptr[i] - '0');
    return v < 2 * p->graph.at.n + 64 ? v : SIZE_MAX;
}

/* Scopes nest: while the last name that was bound there still is, all are. */
static Expr *graph_known(Parser *p, const GraphBinding *b)
{
    bool left =
        b->names > 0 && (p->undo.n < b->names || p->undo.at[b->names - 1].serial != b->serial);
    p->m->scopes_open |= left;
    return b->e;
}

Expr *graph_find(Parser *p, Str digits)
{
    digits = without_zeros(digits);
    size_t at = near_number(p, digits);
    if (at < p->graph.at.n && p->graph.at.at[at].e)
        return graph_known(p, &p->graph.at.at[at]);
    const Name *name = ctx_name_str(p->cx, digits);
    Expr *e = ptrmap_find(&p->graph.others, name);
    return e || !p->env->graph ? e : ptrmap_find(p->env->graph, name);
}

void graph_bind(Parser *p, Str digits, Expr *e)
{
    digits = without_zeros(digits);
    size_t at = near_number(p, digits);
    if (at == SIZE_MAX) {
        ptrmap_put(&p->graph.others, ctx_name_str(p->cx, digits), e);
        p->m->scopes_open |= p->undo.n > 0;
        return;
    }
    while (p->graph.at.n <= at)
        vec_push(&p->graph.at, &p->scratch, (GraphBinding){0});
    uint32_t names = (uint32_t)p->undo.n;
    p->graph.at.at[at] = (GraphBinding){e, names, names ? vec_last(&p->undo).serial : 0};
}

/* ---- what names mean ----------------------------------------------------------------------------------------------------- */

const TypeDef *con_replaced(Parser *p, const Constructor *con)
{
    const Meaning *m = symbol_of(p, con->type->name)->meaning;
    return m && m->type_def != con->type ? m->type_def : NULL;
}

static const Constructor *earlier_con(Parser *p, const Name *name)
{
    const Constructor *con = module_find_con(p->env->globals, name);
    return con && !con_replaced(p, con) ? con : NULL;
}

static Meaning *look_up(Parser *p, Symbol *s)
{
    Meaning *m = symbol_meaning(p, s);
    if (m->looked_up)
        return m;
    m->looked_up = true;
    if (!m->con && p->m->con_index.n)
        m->con = module_find_con(p->m, s->name);
    if (!m->con && p->env->globals)
        m->con = earlier_con(p, s->name);
    m->op = op_find(p->cx, (Str){s->name->text, s->name->len});
    return m;
}

const Constructor *symbol_con(Parser *p, Symbol *s)
{
    const Constructor *con = look_up(p, s)->con;
    if (con && con->type->broken)
        parse_count_unjudged(p);
    return con;
}

const Op *symbol_op(Parser *p, Symbol *s)
{
    return look_up(p, s)->op;
}

void scope_bind(Parser *p, Symbol *s, Var *var)
{
    Undo undo = {.symbol = s, .old = s->var, .serial = ++p->bound};
    s->var_at = (uint32_t)p->undo.n;
    vec_push(&p->undo, &p->scratch, undo);
    s->var = var;
}

void scope_bind_type(Parser *p, Symbol *s, const TypeVar *var)
{
    Meaning *m = symbol_meaning(p, s);
    Undo undo = {.symbol = s, .old = m->type_var, .type = true, .serial = ++p->bound};
    m->type_at = (uint32_t)p->undo.n;
    vec_push(&p->undo, &p->scratch, undo);
    m->type_var = var;
}

/* The scopes that ended since then bound nothing that is left. */
static bool bound_since(const Parser *p, const Symbol *s, uint32_t at, uint32_t since)
{
    return at >= since && at < p->undo.n && p->undo.at[at].symbol == s;
}

bool scope_binds(const Parser *p, const Symbol *s, uint32_t since)
{
    return bound_since(p, s, s->var_at, since) && !p->undo.at[s->var_at].type;
}

bool scope_binds_type(const Parser *p, const Symbol *s, uint32_t since)
{
    return s->meaning && bound_since(p, s, s->meaning->type_at, since) &&
           p->undo.at[s->meaning->type_at].type;
}

void scope_leave(Parser *p, uint32_t undo)
{
    while (p->undo.n > undo) {
        Undo u = vec_pop(&p->undo);
        if (u.type) {
            u.symbol->meaning->type_var = u.old;
            continue;
        }
        u.symbol->ended = u.symbol->var;
        u.symbol->ended_in = p->definition;
        u.symbol->var = (Var *)(uintptr_t)u.old;
    }
}

static bool word_follows(const Parser *p, uint32_t at)
{
    if (at + 1 >= p->lx.end || p->lx.text[at] != '.')
        return false;
    char c = p->lx.text[at + 1];
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

/* A dotted name with blanks around its points: rare, so the pieces are put together. */
static bool dotted_apart(Parser *p, Str *out)
{
    Buf b = {0};
    buf_bytes(&b, out->ptr, out->len);
    while (parse_at(p, TOKEN_DOT) && parse_peek(p).kind == TOKEN_IDENT) {
        parse_advance(p);
        Str s = token_text(p, p->tok);
        buf_char(&b, '.');
        buf_bytes(&b, s.ptr, s.len);
        parse_advance(p);
    }
    *out = (Str){parse_copy(p, (Str){buf_text(&b), b.n}), b.n};
    buf_deinit(&b);
    return true;
}

bool parse_dotted(Parser *p, Str *out)
{
    uint32_t from = p->tok.from;
    if (!parse_at(p, TOKEN_IDENT))
        return parse_expect(p, TOKEN_IDENT);
    while (word_follows(p, p->tok.to)) {
        p->lx.at = p->tok.to + 1;
        p->tok = lexer_next(&p->lx);
    }
    *out = (Str){p->lx.text + from, p->tok.to - from};
    parse_advance(p);
    if (parse_at(p, TOKEN_DOT) && parse_peek(p).kind == TOKEN_IDENT)
        return dotted_apart(p, out);
    return true;
}
