/* Types, as language.md section 4 writes them. A NULL means that the text could not be followed any further; poison, that it could but
 * means nothing. */
#include "parser/internal.h"

#include <string.h>

typedef Vec(const Type *) TypeVec;

/* list(type) up to the closing bracket, which is taken; `open` is the place of the opening one. */
static bool type_list(Parser *p, TokenKind close, uint32_t open, TypeVec *out)
{
    bool more = !parse_at(p, close);
    while (more) {
        const Type *t = parse_type(p);
        if (!t)
            return false;
        vec_push(out, &p->scratch, t);
        if (!parse_separator(p, close, open, &more))
            return false;
    }
    return parse_expect_close(p, close, open);
}

/* A poisoned part poisons the whole, so that one message is all. */
static bool any_poison(const TypeVec *parts)
{
    for (size_t i = 0; i < parts->n; i++)
        if (type_is_poison(parts->at[i]))
            return true;
    return false;
}

static const Type *tuple_type(Parser *p)
{
    TypeVec fields = {0};
    uint32_t open = p->tok.from;
    parse_advance(p);
    if (!type_list(p, TOKEN_RPAREN, open, &fields))
        return NULL;
    return any_poison(&fields) ? type_poison(p->cx)
                               : type_tuple(p->cx, (uint32_t)fields.n, fields.at);
}

/* fn [A](T, U) -> R */
static const Type *function_type(Parser *p)
{
    TypeVec args = {0};
    TypeVarList params = {0};
    uint32_t undo = (uint32_t)p->undo.n;
    parse_advance(p);
    if (parse_at(p, TOKEN_LBRACKET))
        parse_wider(p, token_span(p, p->tok), "the parameters of a function type",
                    "give the function itself type parameters");
    if (!parse_type_params(p, &params))
        return NULL;
    uint32_t open = p->tok.from;
    if (!parse_expect(p, TOKEN_LPAREN) || !type_list(p, TOKEN_RPAREN, open, &args) ||
        !parse_expect(p, TOKEN_ARROW))
        return NULL;
    const Type *result = parse_type(p);
    scope_leave(p, undo);
    if (!result)
        return NULL;
    if (any_poison(&args) || type_is_poison(result))
        return type_poison(p->cx);
    return type_func(p->cx, params.n, params.at, (uint32_t)args.n, args.at, result);
}

static const Type *ref_type(Parser *p)
{
    parse_wider(p, token_span(p, p->tok), "the type of a reference", "leave the type out");
    parse_advance(p);
    uint32_t open = p->tok.from;
    if (!parse_expect(p, TOKEN_LPAREN))
        return NULL;
    const Type *content = parse_type(p);
    if (!content || !parse_expect_close(p, TOKEN_RPAREN, open))
        return NULL;
    return type_is_poison(content) ? content : type_ref(p->cx, content);
}

static bool extent(Parser *p, Dim *out)
{
    *out = 0;
    if (parse_take(p, TOKEN_QUESTION)) {
        *out = DIM_ANY;
        return true;
    }
    if (parse_at(p, TOKEN_META))
        return parse_meta_extent(p, out);
    if (!parse_at(p, TOKEN_NUMBER)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, "an extent");
        return false;
    }
    Token t = p->tok;
    Value v = parse_number(p);
    *out = value_as_int(v);
    if (!dtype_is_int(v.dtype) || *out < 0) {
        Diag *d = parse_error(p, E0103_NUMBER_RANGE, token_span(p, t),
                              "an extent is a whole number, 0 or more");
        diag_help(d, "an extent that is known only when the program runs is `?`");
        *out = 0;
    }
    return true;
}

static bool element_type(Parser *p, DType *out, bool *ok)
{
    *ok = true;
    if (!parse_at(p, TOKEN_IDENT)) {
        parse_expected(p, E0106_EXPECTED_TYPE, "an element type");
        return false;
    }
    Str name = token_text(p, p->tok);
    if (!dtype_parse(name, out) || dtype_is_void(*out)) {
        const char *names[DTYPE_IDS];
        for (int i = 0; i < DTYPE_IDS; i++)
            names[i] = dtype_row((DTypeId)i)->name;
        Diag *d = parse_error(p, E0118_BAD_DTYPE, token_span(p, p->tok),
                              "`%.*s` is no element type", (int)name.len, name.ptr);
        if (!hint_habit(p, d, name, "a type") &&
            !diag_suggest(d, parse_copy(p, name), DTYPE_IDS, names))
            diag_help(d, "such as `float32`, `int32` and `bool`: `:explain E0118` lists them all");
        *ok = false;
    }
    parse_advance(p);
    return true;
}

/* Tensor[(2, ?), float32] */
static const Type *tensor_type(Parser *p)
{
    DType dtype = {0};
    bool ok;
    uint32_t open = p->tok.from;
    if (!parse_take(p, TOKEN_LBRACKET)) {
        Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, token_words(TOKEN_LBRACKET));
        diag_help(d, "a tensor type has a shape and an element type: `Tensor[(2, 3), float32]`");
        return NULL;
    }
    uint32_t paren = p->tok.from;
    if (!parse_expect(p, TOKEN_LPAREN))
        return NULL;
    bool more = !parse_at(p, TOKEN_RPAREN);
    p->dims.n = 0;
    while (more) {
        Dim dim;
        if (!extent(p, &dim) || !parse_separator(p, TOKEN_RPAREN, paren, &more))
            return NULL;
        vec_push(&p->dims, &p->scratch, dim);
    }
    if (!parse_expect_close(p, TOKEN_RPAREN, paren) || !parse_expect(p, TOKEN_COMMA) ||
        !element_type(p, &dtype, &ok) || !parse_expect_close(p, TOKEN_RBRACKET, open))
        return NULL;
    if (p->dims.n > TENSOR_RANK_MOST) {
        parse_error(p, E0202_SHAPE, parse_span(p, paren, p->last_to),
                    "a tensor has at most %d axes, not %zu", TENSOR_RANK_MOST, p->dims.n);
        ok = false;
    }
    return ok ? type_tensor(p->cx, dtype, (uint32_t)p->dims.n, p->dims.at) : type_poison(p->cx);
}

static void help_types(Diag *d)
{
    diag_help(d, "types are such as `int32`, `Tensor[(2, 3), float32]`, `(int32, bool)`, "
                 "`fn (int32) -> int32`, or defined by `type Name { … }`");
}

static void collect_types(const char **names, size_t *n, size_t most, const Module *m)
{
    for (size_t i = 0; m && i < m->types.n && *n < most; i++)
        names[(*n)++] = m->types.at[i]->name->text;
}

static const Type *unknown_type(Parser *p, Token t, Symbol *s)
{
    enum { MOST = 200 };
    const char *names[MOST];
    size_t n = 0;
    if (undefined_again(p, s))
        return type_poison(p->cx);
    for (int i = 0; i < DTYPE_IDS; i++)
        names[n++] = dtype_row((DTypeId)i)->name;
    names[n++] = "Tensor";
    for (size_t i = 0; i < symbols_most(p) && n < MOST / 2; i++) {
        const Symbol *other = symbol_at(p, i);
        if (other && other->meaning && (other->meaning->type_def || other->meaning->type_var))
            names[n++] = other->name->text;
    }
    collect_types(names, &n, MOST, p->m);
    collect_types(names, &n, MOST, p->env->globals);
    Diag *d = parse_error(p, E0212_UNDEFINED_TYPE, token_span(p, t), "there is no type `%s`",
                          s->name->text);
    const Constructor *con = symbol_con(p, s);
    Str name = {s->name->text, s->name->len};
    if (parse_at(p, TOKEN_COLON))
        diag_help(d, "fields have types and no names: `Point(int32, int32)`");
    else if (con)
        diag_help(d, "`%s` is a constructor of the type `%s`", s->name->text,
                  con->type->name->text);
    else if (name.len == 1 && name.ptr[0] >= 'A' && name.ptr[0] <= 'Z')
        diag_help(
            d, "a type parameter is written before the parameters: `def @f[%s](…)`, `fn [%s](…)`",
            s->name->text, s->name->text);
    else if (!hint_habit(p, d, name, "a type") && !hint_import(p, d, s->name))
        diag_suggest(d, s->name->text, n, names);
    if (!d->helps)
        help_types(d);
    return type_poison(p->cx);
}

/* `tensor[(2, …`: the name of the type is all that is wrong. */
static bool at_shape(const Parser *p)
{
    Lexer ahead = p->lx;
    if (!parse_at(p, TOKEN_LBRACKET) || lexer_next(&ahead).kind != TOKEN_LPAREN)
        return false;
    TokenKind kind = (TokenKind)lexer_next(&ahead).kind;
    return kind == TOKEN_NUMBER || kind == TOKEN_QUESTION || kind == TOKEN_RPAREN;
}

static const Type *adt_type(Parser *p, Token t, Symbol *s)
{
    TypeVec args = {0};
    const TypeDef *def = s->meaning ? s->meaning->type_def : NULL;
    def = def ? def : module_find_type(p->m, s->name);
    if (!def && p->env->globals)
        def = module_find_type(p->env->globals, s->name);
    if (!def && at_shape(p)) {
        unknown_type(p, t, s);
        return tensor_type(p) ? type_poison(p->cx) : NULL;
    }
    uint32_t open = p->tok.from;
    bool brackets = parse_take(p, TOKEN_LBRACKET);
    if (brackets && !type_list(p, TOKEN_RBRACKET, open, &args))
        return NULL;
    if (!def)
        return unknown_type(p, t, s);
    if (def->broken)
        parse_count_unjudged(p);
    if (any_poison(&args))
        return type_poison(p->cx);
    if (args.n == def->n_params)
        return type_adt(p->cx, def, (uint32_t)args.n, args.at);
    Diag *d = parse_error(p, E0213_TYPE_ARGUMENTS, parse_span(p, t.from, p->last_to),
                          "`%s` takes %u type argument%s, not %zu", s->name->text, def->n_params,
                          def->n_params == 1 ? "" : "s", args.n);
    if (def->span.source)
        diag_label(d, def->span, "defined here");
    if (!brackets)
        diag_help(d, "type arguments stand in brackets, such as `%s[int32]`", s->name->text);
    return type_poison(p->cx);
}

/* Only data types are applied. */
static const Type *applied_var(Parser *p, Token t, const TypeVar *var)
{
    TypeVec args = {0};
    uint32_t open = p->tok.from;
    if (!parse_take(p, TOKEN_LBRACKET))
        return type_var(p->cx, var);
    if (!type_list(p, TOKEN_RBRACKET, open, &args))
        return NULL;
    Diag *d = parse_error(p, E0213_TYPE_ARGUMENTS, parse_span(p, t.from, p->last_to),
                          "`%s` is a type parameter and takes no type arguments", var->name->text);
    diag_label(d, var->span, "defined here");
    return type_poison(p->cx);
}

/* The entry for a tensor type that is written at the next token. Its text ends at the first `]`; what has another one inside, as
 * extents of the metadata do, is found not to end there and is read each time. */
static WrittenType *written_type(Parser *p)
{
    const char *text = p->lx.text + p->tok.from;
    size_t most = p->lx.end - p->tok.from;
    const char *close = memchr(text, ']', most < WRITTEN_MOST ? most : WRITTEN_MOST);
    if (!close)
        return NULL;
    Str written = {text, (size_t)(close - text) + 1};
    WrittenType *w = &p->written[hash_bytes(written.ptr, written.len, 0) % WRITTEN_TYPES];
    if (!str_eq(w->text, written))
        *w = (WrittenType){.text = written};
    return w;
}

/* `Tensor[…]`. A program writes the same few types again and again. */
static const Type *tensor_type_at(Parser *p)
{
    WrittenType *w = written_type(p);
    uint32_t end = w ? p->tok.from + (uint32_t)w->text.len : 0;
    if (w && w->type) {
        p->lx.at = p->tok.to = end;
        parse_advance(p);
        return w->type;
    }
    parse_advance(p);
    const Type *t = tensor_type(p);
    if (w && t && !type_is_poison(t) && p->last_to == end)
        w->type = t;
    return t;
}

static const Type *named_type(Parser *p)
{
    Token t = p->tok;
    Str name = token_text(p, t);
    DType dtype;
    bool tensor = str_is(name, "Tensor");
    if (tensor && p->lx.text[t.to] == '[')
        return tensor_type_at(p);
    parse_advance(p);
    if (tensor && parse_at(p, TOKEN_LBRACKET))
        return tensor_type(p);
    Symbol *s = symbol_get(p, name);
    if (tensor && !(s->meaning && s->meaning->type_def))
        return tensor_type(p);
    bool scalar = dtype_parse(name, &dtype) && !dtype_is_void(dtype);
    if (!scalar)
        strict_type_name(p, t);
    else if (dtype.code == DTYPE_CODE_BFLOAT)
        parse_wider(p, token_span(p, t), "this element type outside of `Tensor[…]`",
                    "write `Tensor[(), bfloat16]`");
    if (s->meaning && s->meaning->type_var)
        return applied_var(p, t, s->meaning->type_var);
    if (scalar && parse_at(p, TOKEN_LBRACKET) && !parse_line_before(p)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, "the end of the type");
        return NULL;
    }
    if (scalar)
        return type_scalar(p->cx, dtype);
    return adt_type(p, t, s);
}

static const Type *hole(Parser *p)
{
    Token t = p->tok;
    MetaRef ref;
    if (parse_take(p, TOKEN_UNDERSCORE))
        return type_hole(p->cx, token_span(p, t));
    if (!parse_meta_ref(p, &ref))
        return NULL;
    if (!str_is(ref.key, "IncompleteType") && !str_is(ref.key, "relay.IncompleteType"))
        parse_error(p, E0117_METADATA, ref.span, "`%.*s` cannot be a type", (int)ref.key.len,
                    ref.key.ptr);
    return type_hole(p->cx, token_span(p, t));
}

static const Type *one_type(Parser *p)
{
    switch (p->tok.kind) {
    case TOKEN_IDENT: return named_type(p);
    case TOKEN_LPAREN: return tuple_type(p);
    case TOKEN_FN: return function_type(p);
    case TOKEN_REF: return ref_type(p);
    case TOKEN_UNDERSCORE:
    case TOKEN_META: return hole(p);
    default: break;
    }
    Diag *d = parse_expected(p, E0106_EXPECTED_TYPE, "a type");
    if (d && !d->helps)
        help_types(d);
    return NULL;
}

const Type *parse_type(Parser *p)
{
    if (p->depth >= TYPE_DEPTH_MOST) {
        parse_too_deep(p, "a type is");
        return NULL;
    }
    p->depth++;
    const Type *t = one_type(p);
    p->depth--;
    return t;
}

bool parse_type_params(Parser *p, TypeVarList *out)
{
    Vec(const TypeVar *) params = {0};
    uint32_t open = p->tok.from, undo = (uint32_t)p->undo.n;
    *out = (TypeVarList){0};
    if (!parse_take(p, TOKEN_LBRACKET))
        return true;
    bool more = !parse_at(p, TOKEN_RBRACKET);
    while (more) {
        Token t = p->tok;
        if (!parse_expect(p, TOKEN_IDENT))
            return false;
        Symbol *s = symbol_get(p, token_text(p, t));
        const TypeVar *var = typevar_new(p->cx, s->name, token_span(p, t));
        if (scope_binds_type(p, s, undo))
            parse_error(p, E0113_DUPLICATE, token_span(p, t), "type parameter `%s` is given twice",
                        s->name->text);
        scope_bind_type(p, s, var);
        vec_push(&params, &p->scratch, var);
        if (!parse_separator(p, TOKEN_RBRACKET, open, &more))
            return false;
    }
    out->n = (uint32_t)params.n;
    out->at = params.n ? arena_copy(p->arena, params.at, params.n * sizeof *params.at) : NULL;
    return parse_expect_close(p, TOKEN_RBRACKET, open);
}
