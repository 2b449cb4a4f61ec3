/* What begins a statement or an operand. */
#include "parser/internal.h"

static void take_value(Parser *p, Expr *e, Token t, bool use)
{
    set_value(p, e, t.from, t.to);
    p->value.use = use;
}

/* ---- names ---------------------------------------------------------------------------------------------------------------- */

enum { NAMES_MOST = 2000 };

typedef struct NameList {
    const char *at[NAMES_MOST];
    size_t n;
} NameList;

static bool add_op(void *data, const Op *op)
{
    NameList *list = data;
    list->at[list->n++] = op->name;
    return list->n < NAMES_MOST;
}

static void suggest_local(Parser *p, Diag *d, const char *wanted, char sigil)
{
    NameList *list = arena_new(&p->scratch, NameList);
    for (size_t i = 0; i < symbols_most(p) && list->n < NAMES_MOST; i++) {
        const Symbol *s = symbol_at(p, i);
        if (!s || !s->var)
            continue;
        Buf b = {0};
        buf_printf(&b, "%c%s", sigil, s->name->text);
        list->at[list->n++] = parse_copy(p, (Str){buf_text(&b), b.n});
        buf_deinit(&b);
    }
    diag_suggest(d, wanted, list->n, list->at);
}

/* In the value of a binding, whose frames begin at `first`, another statement began: more often than not, a bracket was not closed. */
static void label_unclosed(Parser *p, Diag *d, size_t first, uint32_t lets)
{
    for (size_t i = first; i < p->frames.n && p->lets.n > lets; i++) {
        const Frame *f = &p->frames.at[i];
        if (f->kind != FRAME_ARGS && f->kind != FRAME_PAREN && f->kind != FRAME_REF)
            continue;
        diag_label(d, parse_span(p, f->open, f->open + 1), "is this closed?");
        diag_help(d, "the value ends at its `;`: close each bracket before it");
        p->doubted = f->open + 1;
        return;
    }
}

static bool inside_own_value(Parser *p, Token t, const Symbol *s)
{
    const Var *var = p->item && p->item->name == s->name ? p->item : NULL;
    size_t i = p->frames.n;
    while (i > 0 && (p->frames.at[i - 1].kind != FRAME_LET || p->frames.at[i - 1].let.symbol != s))
        i--;
    if (i > 0)
        var = p->frames.at[i - 1].let.var;
    if (!var)
        return false;
    Diag *d = parse_error(p, E0110_UNDEFINED_VARIABLE, token_span(p, t),
                          "`%%%s` is not bound yet: this is still inside its value", s->name->text);
    diag_label(d, var->base.span, "bound here");
    label_unclosed(p, d, i, i > 0 ? p->frames.at[i - 1].lets : 0);
    if (!d->helps)
        diag_help(d,
                  "take another name for the new value; a function alone may use its own: "
                  "`let %%%s = fn (…) { … };`",
                  s->name->text);
    return true;
}

static void undefined_local(Parser *p, Token t, Symbol *s)
{
    /* Behind something that cannot be read it may have been bound there. */
    bool again = s->reported == p->definition || p->lenient || p->after_fault;
    if (again)
        parse_count_name(p);
    s->reported = p->definition;
    if (again)
        return;
    if (inside_own_value(p, t, s))
        return;
    Diag *d = parse_error(p, E0110_UNDEFINED_VARIABLE, token_span(p, t),
                          "there is no variable `%%%s` here", s->name->text);
    Str text = token_text(p, t);
    if (text.ptr[text.len - 1] == '/')
        diag_help(d, "a slash belongs to the name before it: write a blank in front to divide");
    else if (parse_peek(p).kind == TOKEN_ASSIGN && frame_top(p)->kind == FRAME_ARGS)
        diag_help(d, "an attribute is given by its name alone: `%s=…`", s->name->text);
    else if (parse_peek(p).kind == TOKEN_ASSIGN)
        diag_help(d, "to bind it, write `let %%%s = …;`", s->name->text);
    else if (parse_peek(p).kind == TOKEN_COLON) {
        diag_help(d, "a function without a name is `fn (%%%s: …) { … }`", s->name->text);
        p->lambda = true;
    } else if (s->ended_in == p->definition) {
        diag_label(d, s->ended->base.span, "this one is known only inside its block");
        diag_help(d, "bind it before the block, or let it be the block's value");
    } else if (module_find(p->m, s->name) ||
               (p->env->globals && module_find(p->env->globals, s->name))) {
        diag_help(d, "did you mean the function `@%s`?", s->name->text);
        diag_fix(d, parse_span(p, t.from, t.from + 1), "%", "@");
    } else if (text.len > 2)
        suggest_local(p, d, parse_copy(p, text), '%');
    if (!d->helps)
        diag_help(d,
                  p->inside ? "bind it by `let %%%s = …;`, or make it a parameter"
                            : "bind it by `let %%%s = …;`",
                  s->name->text);
}

/* A definition may be called anywhere, and the variables of a session come and go. */
static bool out_of_reach(Parser *p, Token t, const Name *name, const PtrMap *locals,
                         const Expr *found)
{
    if (!p->inside || !found || !locals || ptrmap_find(locals, name) != found)
        return false;
    if (p->lenient) {
        parse_count_name(p);
        return true;
    }
    Diag *d = parse_error(p, E0110_UNDEFINED_VARIABLE, token_span(p, t),
                          "a definition cannot use `%%%s`, a variable of the session", name->text);
    diag_help(d, "give the function a parameter for it, or bind a function: `let %%f = fn …;`");
    return true;
}

/* Behind the `.` and digits at a place of the text, or the same place. */
static uint32_t behind_digits(const Parser *p, uint32_t at)
{
    uint32_t to = at + 1;
    while (to < p->lx.end && p->lx.text[to] >= '0' && p->lx.text[to] <= '9')
        to++;
    return at < p->lx.end && p->lx.text[at] == '.' && to > at + 1 ? to : at;
}

static void take_name_to(Parser *p, uint32_t to)
{
    p->tok.to = to;
    p->lx.at = to;
}

/* `%input.1` is a variable where one of that name is bound, and else a projection; and so `%x.first` is none where there is `%x`. */
static void take_known_name(Parser *p)
{
    uint32_t most = p->tok.to, next, found = most;
    Token t = p->tok;
    const char *text = p->lx.text + t.from, *dot = memchr(text, '.', t.to - t.from);
    if (dot && !p->env->template && !symbol_get(p, token_name(p, t))->var) {
        t.to = t.from + (uint32_t)(dot - text);
        const Symbol *head = symbol_get(p, token_name(p, t));
        if (head->var || head->own || head->reported == p->definition)
            take_name_to(p, t.to);
        return;
    }
    while ((next = behind_digits(p, most)) > most) {
        t.to = most = next;
        const Symbol *s = symbol_known(p, token_name(p, t));
        if (s && s->var)
            found = most;
    }
    if (found > p->tok.to)
        take_name_to(p, found);
}

void parse_whole_name(Parser *p)
{
    uint32_t to = p->tok.to, next;
    while ((next = behind_digits(p, to)) > to)
        to = next;
    if (to == p->tok.to)
        return;
    take_name_to(p, to);
    parse_wider(p, token_span(p, p->tok), "a name with `.`", "give it another name");
}

static bool local(Parser *p)
{
    take_known_name(p);
    Token t = p->tok;
    Symbol *s = symbol_get(p, token_name(p, t));
    if (!s->var && p->env->template) {
        s->var = expr_var(p->arena, token_span(p, t), s->name, NULL);
        vec_push(&p->m->free_vars, p->arena, s->var);
    }
    Var *var = s->var;
    strict_local(p, s, t);
    if (!var)
        undefined_local(p, t, s);
    else if (out_of_reach(p, t, s->name, p->env->locals, &var->base))
        var = NULL; /* it may go before the definition does */
    parse_advance(p);
    if (!var) {
        var = expr_var(p->arena, token_span(p, t), s->name, NULL);
        var->base.type = type_poison(p->cx);
    }
    take_value(p, &var->base, t, true);
    return true;
}

static void undefined_graph(Parser *p, Token t, Str digits)
{
    size_t i = p->frames.n;
    while (i > 0 && (p->frames.at[i - 1].kind != FRAME_GRAPH ||
                     !str_eq(token_name(p, p->frames.at[i - 1].graph), digits)))
        i--;
    if (i == 0) {
        Diag *d = parse_error(p, E0110_UNDEFINED_VARIABLE, token_span(p, t),
                              "nothing is bound to `%%%.*s` yet", (int)digits.len, digits.ptr);
        diag_help(d, "bind it first: `%%%.*s = …;`", (int)digits.len, digits.ptr);
        return;
    }
    const Frame *binding = &p->frames.at[i - 1];
    Diag *d = parse_error(p, E0110_UNDEFINED_VARIABLE, token_span(p, t),
                          "`%%%.*s` is not bound yet: this is still inside its value",
                          (int)digits.len, digits.ptr);
    diag_label(d, token_span(p, binding->graph), "bound here");
    label_unclosed(p, d, i, binding->lets);
    if (!d->helps)
        diag_help(d, "a value uses what was bound before it: take another number");
}

static bool graph(Parser *p)
{
    Token t = p->tok;
    Str digits = token_name(p, t);
    Expr *e = graph_find(p, digits);
    bool out = p->env->graph && out_of_reach(p, t, ctx_name_str(p->cx, digits), p->env->graph, e);
    if (out)
        e = p->poison;
    if (!e && !p->lenient) {
        undefined_graph(p, t, digits);
        graph_bind(p, digits, p->poison);
    } else if (!e) {
        parse_count_name(p);
    }
    parse_advance(p);
    take_value(p, e ? e : p->poison, t, true);
    return true;
}

static bool global(Parser *p)
{
    Token t = p->tok;
    const Name *name = ctx_name_str(p->cx, token_name(p, t));
    parse_advance(p);
    take_value(p, expr_global(p->arena, token_span(p, t), name), t, false);
    return true;
}

/* A name that nothing defines is reported once in a definition. What an import may define is not
 * reported where the import failed or was suggested. */
bool undefined_again(Parser *p, Symbol *s)
{
    bool imported = p->import_missing && s->name->text[0] >= 'A' && s->name->text[0] <= 'Z';
    bool again = s->reported == p->definition || imported || p->lenient;
    s->reported = p->definition;
    if (again) {
        parse_count_name(p);
        p->blamed_to = p->last_to;
    }
    return again;
}

static void suggest_name(Parser *p, Diag *d, const char *wanted)
{
    NameList *list = arena_new(&p->scratch, NameList);
    list->n = hint_constructors(p, NAMES_MOST / 2, list->at);
    for (int kind = TOKEN_FALSE; kind <= TOKEN_TYPE; kind++)
        list->at[list->n++] = token_spelling((TokenKind)kind);
    if (p->cx->ops)
        op_each(p->cx->ops, add_op, list);
    diag_suggest(d, wanted, list->n, list->at);
}

/* The operator behind the first words of a dotted name, as in `relay.nn.relu`. */
static const char *known_behind(const Parser *p, const char *name)
{
    while ((name = strchr(name, '.')))
        if (op_find(p->cx, str_of(++name)))
            return name;
    return NULL;
}

/* Habits are known by the last word of a name: `relay.var`, `np.array`. */
static Str last_word(const char *name)
{
    const char *dot = strrchr(name, '.');
    return str_of(dot ? dot + 1 : name);
}

static bool undefined_name(Parser *p, Token t, Symbol *s)
{
    take_value(p, p->poison, t, false);
    if (undefined_again(p, s))
        return true;
    Diag *d = parse_error(p, E0111_UNDEFINED_OPERATOR, token_span(p, t),
                          "`%s` is neither an operator nor a constructor", s->name->text);
    const Def *def = p->env->globals ? module_find(p->env->globals, s->name) : NULL;
    const char *behind = known_behind(p, s->name->text);
    if (parse_at(p, TOKEN_COLON) && frame_top(p)->kind == FRAME_ARGS)
        diag_help(d, "an attribute is given by `=`: `%s=…`", s->name->text);
    else if (parse_at(p, TOKEN_ASSIGN) && frame_top(p)->kind != FRAME_ARGS)
        diag_help(d, "a variable is bound by `let %%%s = …;`", s->name->text);
    else if (behind) {
        diag_help(d, "did you mean `%s`?", behind);
        diag_fix(d, d->span, s->name->text, behind);
    } else if (s->var) {
        diag_help(d, "did you mean the variable `%%%s`?", s->name->text);
        diag_fix(d, d->span, NULL, "%");
    } else if (def || module_find(p->m, s->name)) {
        diag_help(d, "did you mean the function `@%s`?", s->name->text);
        diag_fix(d, d->span, NULL, "@");
    } else if (!hint_replaced(p, d, s->name) &&
               !hint_habit(p, d, last_word(s->name->text), "a value") &&
               !hint_import(p, d, s->name))
        suggest_name(p, d, s->name->text);
    if (!d->helps && strchr(s->name->text, '.'))
        diag_help(d, "Tab, or `:doc`, knows the operators by name, such as `add` and `nn.dense`");
    else if (!d->helps && !d->labels && s->name->text[0] >= 'A' && s->name->text[0] <= 'Z')
        diag_help(d, "a constructor is defined with its type: `type Name { %s }`", s->name->text);
    else if (!d->helps && !d->labels)
        diag_help(d, "a variable is written `%%%s`, a function `@%s`", last_word(s->name->text).ptr,
                  last_word(s->name->text).ptr);
    return true;
}

/* A constructor without fields, written without parentheses, is a call of it. */
static Expr *constructor(Parser *p, Span span, const Constructor *con)
{
    Expr *e = expr_con(p->arena, span, con);
    if (con->n > 0 || parse_at(p, TOKEN_LPAREN))
        return e;
    return expr_call(p->arena, span, e, 0, NULL, NULL);
}

/* In a template: what only an attribute can be. */
static bool word(Parser *p)
{
    Token t = p->tok;
    const Name *text = ctx_name_str(p->cx, token_text(p, t));
    parse_advance(p);
    take_value(p, &expr_var(p->arena, token_span(p, t), text, NULL)->base, t, false);
    return true;
}

static bool name(Parser *p)
{
    Str text;
    Token t = p->tok;
    if (p->env->template && str_is(token_text(p, t), "None"))
        return word(p);
    if (!parse_dotted(p, &text))
        return false;
    t.to = p->last_to;
    Symbol *s = symbol_get(p, text);
    const Constructor *con = symbol_con(p, s);
    if (con) {
        strict_constructor(p, con, t);
        take_value(p, constructor(p, token_span(p, t), con), t, false);
        return true;
    }
    const Op *op = symbol_op(p, s);
    if (!op)
        return undefined_name(p, t, s);
    if (op->flags & OP_FORM)
        parse_wider(p, token_span(p, t), "what stands for a program that is made from a function",
                    "`fmt` without `--strict` writes that program");
    take_value(p, expr_op(p->arena, token_span(p, t), op), t, false);
    return true;
}

/* ---- literals --------------------------------------------------------------------------------------------------------------- */

static bool literal(Parser *p)
{
    Token t = p->tok;
    Value v;
    uint32_t errors = p->errors;
    if (parse_at(p, TOKEN_NUMBER)) {
        v = parse_number(p);
    } else {
        v = value_bool(parse_at(p, TOKEN_TRUE));
        parse_advance(p);
    }
    Expr *e = p->errors > errors ? p->poison : expr_constant(p->arena, token_span(p, t), v);
    take_value(p, e, t, false);
    return true;
}

static bool meta(Parser *p)
{
    Token t = p->tok;
    Expr *e = parse_meta(p);
    t.to = p->last_to;
    take_value(p, e ? e : p->poison, t, true);
    return true;
}

/* ---- constructs ------------------------------------------------------------------------------------------------------------- */

/* A frame for what stands between brackets; the next token must be the opening one. */
static bool open_bracket(Parser *p, FrameKind kind, TokenKind open, uint32_t from)
{
    uint32_t at = p->tok.from;
    if (!parse_expect(p, open))
        return false;
    Frame *f = parse_frame_push(p, kind, from);
    f->open = at;
    p->state = STATE_STATEMENT;
    return true;
}

static bool paren(Parser *p)
{
    uint32_t from = p->tok.from;
    parse_advance(p);
    if (parse_at(p, TOKEN_RPAREN)) {
        Span span = parse_span(p, from, p->tok.to);
        parse_advance(p);
        set_value(p, expr_tuple(p->arena, span, 0, NULL), from, span.to);
        return true;
    }
    Frame *f = parse_frame_push(p, FRAME_PAREN, from);
    f->open = from;
    p->state = STATE_STATEMENT;
    return true;
}

static bool reference(Parser *p)
{
    Token t = p->tok;
    parse_advance(p);
    if (!parse_at(p, TOKEN_LPAREN)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, "`(` of the operand");
        return false;
    }
    if (!open_bracket(p, FRAME_REF, TOKEN_LPAREN, t.from))
        return false;
    frame_top(p)->token = t.kind;
    return true;
}

static bool condition(Parser *p)
{
    uint32_t from = p->tok.from;
    parse_advance(p);
    if (parse_at(p, TOKEN_LPAREN))
        return open_bracket(p, FRAME_COND, TOKEN_LPAREN, from);
    parse_expected(p, E0104_EXPECTED_TOKEN, "`(` of the condition");
    return false;
}

static bool match(Parser *p)
{
    Frame *f = parse_frame_push(p, FRAME_SCRUTINEE, p->tok.from);
    f->token = p->tok.kind;
    parse_advance(p);
    p->state = STATE_OPERAND;
    return true;
}

/* The variable that is bound here, taken. One without its `%` is reported and bound all the same. */
static Symbol *binder(Parser *p, const char *wanted, Token *t)
{
    if (parse_at(p, TOKEN_LOCAL))
        parse_whole_name(p);
    *t = p->tok;
    if (parse_at(p, TOKEN_LOCAL)) {
        parse_advance(p);
        return symbol_get(p, token_name(p, *t));
    }
    Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, wanted);
    if (d && !d->helps && !parse_at(p, TOKEN_IDENT))
        diag_help(d, "variables are written `%%x`, and their types behind them: `%%x: int32`");
    if (!parse_at(p, TOKEN_IDENT))
        return NULL;
    Str text = token_text(p, *t);
    if (parse_peek(p).kind != TOKEN_LOCAL) {
        diag_help(d, "did you mean `%%%.*s`?", (int)text.len, text.ptr);
        diag_fix(d, token_span(p, *t), NULL, "%");
    } else if (dtype_parse(text, &(DType){0}))
        diag_help(d, "the type stands behind the name: `%%x: %.*s`", (int)text.len, text.ptr);
    /* The name comes behind the word. */
    if (parse_peek(p).kind == TOKEN_LOCAL) {
        parse_advance(p);
        *t = p->tok;
        parse_advance(p);
        return symbol_get(p, token_name(p, *t));
    }
    Symbol *s = symbol_get(p, token_text(p, *t));
    s->reported = p->definition;
    parse_advance(p);
    return s;
}

/* False where a type follows that is not written as one of a parameter: `%x int32`, `%f: int32 -> int32`. */
static bool parameter_ends(Parser *p, const Var *var)
{
    Diag *d;
    if (var->annotation && parse_at(p, TOKEN_ARROW)) {
        d = parse_expected(p, E0104_EXPECTED_TOKEN, "`,` or `)`");
        diag_help(d, "a type of functions is `fn (int32) -> int32`");
        return false;
    }
    if (var->annotation || !parse_at(p, TOKEN_IDENT) || parse_at_attr(p))
        return true;
    d = parse_expected(p, E0104_EXPECTED_TOKEN, "`:` and a type, `,` or `)`");
    diag_help(d, "a type stands behind a colon: `%%%s: int32`", var->name->text);
    return false;
}

/* `%x` [ `{` attrs `}` ] [ `:` type ]: the attributes of a parameter name devices, which nothing here distinguishes. */
static Var *parameter(Parser *p)
{
    Token t;
    const Type *annotation = NULL;
    const Attrs *attrs = NULL;
    const Symbol *s = binder(p, "a parameter such as `%x`", &t);
    if (!s)
        return NULL;
    uint32_t open = p->tok.from;
    if (parse_take(p, TOKEN_LBRACE) &&
        (!function_attrs(p, TOKEN_RBRACE, &attrs) || !parse_expect_close(p, TOKEN_RBRACE, open)))
        return NULL;
    if (parse_take(p, TOKEN_COLON) && !(annotation = parse_type(p)))
        return NULL;
    Var *var = expr_var(p->arena, token_span(p, t), s->name, annotation);
    var->attrs = attrs;
    return var;
}

static bool parameters(Parser *p, FunctionHead *head)
{
    Vec(Var *) params = {0};
    uint32_t open = p->tok.from, undo = (uint32_t)p->undo.n;
    if (!parse_take(p, TOKEN_LPAREN)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, "`(` of the parameters");
        return false;
    }
    bool more = !parse_at(p, TOKEN_RPAREN);
    while (more && !parse_at_attr(p)) {
        Var *var = parameter(p);
        if (!var)
            return false;
        Symbol *s = symbol_of(p, var->name);
        if (scope_binds(p, s, undo)) {
            Diag *d = parse_error(p, E0113_DUPLICATE, var->base.span,
                                  "parameter `%%%s` is given twice", s->name->text);
            diag_label(d, s->var->base.span, "first here");
            diag_help(d, "give one of them another name");
        }
        scope_bind(p, s, var);
        strict_bind(p, s, var->base.span);
        vec_push(&params, &p->scratch, var);
        if (!parameter_ends(p, var) || !parse_separator(p, TOKEN_RPAREN, open, &more))
            return false;
    }
    if (more && !function_attrs(p, TOKEN_RPAREN, &head->attrs))
        return false;
    head->params.n = (uint32_t)params.n;
    head->params.at = params.at;
    return parse_expect_close(p, TOKEN_RPAREN, open);
}

/* [ "[" names "]" ] "(" parameters attributes ")" [ "->" type ] */
bool function_head(Parser *p, FunctionHead *head)
{
    *head = (FunctionHead){0};
    strict_open(p);
    if (!parse_type_params(p, &head->type_params) || !parameters(p, head))
        return false;
    if (parse_take(p, TOKEN_ARROW) && !(head->ret_type = parse_type(p)))
        return false;
    return true;
}

static bool function(Parser *p)
{
    uint32_t from = p->tok.from, undo = (uint32_t)p->undo.n, scopes = (uint32_t)p->scopes.n;
    FunctionHead *head = arena_new(&p->scratch, FunctionHead);
    parse_advance(p);
    bool ok = function_head(p, head) && open_bracket(p, FRAME_FUNCTION, TOKEN_LBRACE, from);
    if (!ok) {
        scope_leave(p, undo);
        return false;
    }
    frame_top(p)->undo = undo;
    frame_top(p)->scopes = scopes;
    frame_top(p)->head = head;
    return true;
}

static bool takes_list(AttrType type)
{
    return type == ATTR_TYPE_INTS || type == ATTR_TYPE_INT_OR_INTS || type == ATTR_TYPE_INT_LISTS;
}

static bool takes_string(AttrType type)
{
    return type == ATTR_TYPE_STRING || type == ATTR_TYPE_DTYPE;
}

/* A list or a string as the argument of an operator was meant for an attribute: the first that takes one. */
static bool hint_attribute(Parser *p, Diag *d, bool (*takes)(AttrType type), const char *value)
{
    const Frame *f = frame_top(p);
    const OpRef *op = f->kind == FRAME_ARGS ? expr_as_op(f->left.e) : NULL;
    for (const OpAttr *field = op ? op->op->attrs : NULL; field && field->name; field++)
        if (takes(field->type)) {
            diag_help(d, "attributes are given by name: `%s=%s`", field->name, value);
            return true;
        }
    return false;
}

static void hint_list(Parser *p, Diag *d)
{
    static const char words[] =
        "a list is `Cons(1, Cons(2, Nil))`, a tensor `stack((1, 2), axis=0)`";
    const Frame *f = frame_top(p);
    const OpRef *op = f->kind == FRAME_ARGS ? expr_as_op(f->left.e) : NULL;
    if (op && op->op->args[0].name && strstr(op->op->args[0].doc, "tuple"))
        diag_help(d, "the tensors stand in a tuple: `%s((%%x, %%y), …)`", op->op->name);
    else if (!hint_attribute(p, d, takes_list, "[…]"))
        diag_help(d, "brackets are for attributes and types; %s", words);
}

static void hint_string(Parser *p, Diag *d)
{
    if (!hint_attribute(p, d, takes_string, parse_copy(p, token_text(p, p->tok))))
        diag_help(d, "strings are values of attributes only");
}

/* What an unknown function takes is not known either: a list or a string may be meant for one. */
static bool given_to_unknown(Parser *p)
{
    const Frame *f = frame_top(p);
    bool unknown = f->kind == FRAME_ARGS && f->left.e == p->poison && p->errors > 0 &&
                   (parse_at(p, TOKEN_LBRACKET) || parse_at(p, TOKEN_STRING));
    p->errors += unknown;
    return unknown;
}

static bool no_operand(Parser *p)
{
    if (given_to_unknown(p))
        return false;
    Diag *d = parse_expected(p, E0105_EXPECTED_EXPRESSION, "an expression");
    p->nested |= parse_at(p, TOKEN_DEF);
    if (parse_at(p, TOKEN_LBRACKET))
        hint_list(p, d);
    else if (parse_at(p, TOKEN_STRING))
        hint_string(p, d);
    if (!parse_at(p, TOKEN_RBRACE) || p->last_to == 0 || p->lx.text[p->last_to - 1] != ';') {
        if (d && !d->helps)
            diag_help(d, "such as `1f`, `%%x`, `add(%%x, 1f)`, `(%%x, %%y)`, `if (…) { … } else "
                         "{ … }`, `fn (%%x: int32) { … }`");
        return false;
    }
    bool binds = p->lets.n > frame_top(p)->lets && vec_last(&p->lets).var->name->len > 0;
    diag_help(d, binds ? "behind a `let` stands an expression, the value of the block"
                       : "the last expression of a block is its value and has no `;` behind it");
    return false;
}

/* A let as the value of a let is taken without parentheses too: bindings up to the first expression. */
static bool chain(Parser *p)
{
    uint8_t kind = frame_top(p)->kind;
    if (kind != FRAME_LET && kind != FRAME_GRAPH)
        return no_operand(p);
    parse_frame_push(p, FRAME_CHAIN, p->tok.from);
    return let_binding(p);
}

/* `-%x`, and `- 1`, which is a number as `-1` is. */
static bool minus(Parser *p)
{
    uint32_t from = p->tok.from, to = p->tok.to;
    parse_advance(p);
    if (!parse_at(p, TOKEN_NUMBER)) {
        parse_wider(p, parse_span(p, from, to), "a minus before an operand", "write `negative(…)`");
        parse_frame_push(p, FRAME_NEGATE, from);
        return true;
    }
    parse_wider(p, parse_span(p, from, to), "a minus apart from its number",
                "write it directly before the digits");
    p->minus = true;
    bool ok = literal(p);
    p->value.from = from;
    return ok;
}

/* What is in scope at a hole: it may be filled by that. */
static ExprHole hole_of(Parser *p, Var *var)
{
    enum { SCOPE_MOST = 200 };
    Vec(Var *) scope = {0};
    for (size_t i = 0; i < symbols_most(p) && scope.n < SCOPE_MOST; i++) {
        const Symbol *s = symbol_at(p, i);
        if (s && s->var)
            vec_push(&scope, &p->scratch, s->var);
    }
    for (size_t i = p->inside || !p->env->locals ? 0 : p->env->locals->n; i-- > 0;) {
        Var *v = p->env->locals->entries[i].key ? p->env->locals->entries[i].value : NULL;
        if (v && scope.n < SCOPE_MOST)
            vec_push(&scope, &p->scratch, v);
    }
    Var **at = scope.n ? arena_copy(p->arena, scope.at, scope.n * sizeof *at) : NULL;
    return (ExprHole){var, at, at ? (uint32_t)scope.n : 0};
}

static bool hole(Parser *p)
{
    Token t = p->tok;
    parse_wider(p, token_span(p, t), "a hole", "write an expression");
    parse_advance(p);
    Var *v = expr_var(p->arena, token_span(p, t), ctx_name(p->cx, HOLE_NAME), NULL);
    vec_push(&p->m->holes, p->arena, hole_of(p, v));
    take_value(p, &v->base, t, false);
    return true;
}

bool step_operand(Parser *p)
{
    switch (p->tok.kind) {
    case TOKEN_MINUS: return minus(p);
    case TOKEN_LET: return chain(p);
    case TOKEN_LOCAL: return local(p);
    case TOKEN_GRAPH: return graph(p);
    case TOKEN_GLOBAL: return global(p);
    case TOKEN_IDENT: return name(p);
    case TOKEN_NUMBER:
    case TOKEN_TRUE:
    case TOKEN_FALSE: return literal(p);
    case TOKEN_META: return meta(p);
    case TOKEN_UNDERSCORE: return hole(p);
    case TOKEN_STRING: return p->env->template ? word(p) : no_operand(p);
    case TOKEN_LPAREN: return paren(p);
    case TOKEN_LBRACE: return open_bracket(p, FRAME_BLOCK, TOKEN_LBRACE, p->tok.from);
    case TOKEN_FN: return function(p);
    case TOKEN_IF: return condition(p);
    case TOKEN_MATCH:
    case TOKEN_MATCH_PARTIAL: return match(p);
    case TOKEN_REF:
    case TOKEN_REF_READ:
    case TOKEN_REF_WRITE: return reference(p);
    default: return no_operand(p);
    }
}

/* ---- statements ---------------------------------------------------------------------------------------------------------------- */

bool let_binding(Parser *p)
{
    uint32_t from = p->tok.from;
    const Type *annotation = NULL;
    parse_advance(p);
    Token t;
    Symbol *s = binder(p, "a variable such as `%x`", &t);
    if (!s)
        return false;
    bool ok = !parse_take(p, TOKEN_COLON) || (annotation = parse_type(p)) != NULL;
    if (ok && !parse_take(p, TOKEN_ASSIGN)) {
        Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, token_words(TOKEN_ASSIGN));
        if (d && !d->helps && !annotation)
            diag_help(d, "a binding is `let %%x = …;`, with a type `let %%x: int32 = …;`");
        ok = false;
    }
    if (!ok) {
        s->reported = p->definition; /* what uses it has nothing wrong of its own */
        return false;
    }
    Var *var = expr_var(p->arena, token_span(p, t), s->name, annotation);
    /* A function may call itself by the variable that it is bound to; any other value sees what the name meant before. */
    bool recursive = parse_at_literal(p);
    if (recursive)
        scope_bind(p, s, var);
    Frame *f = parse_frame_push(p, FRAME_LET, from);
    f->let.var = var;
    f->let.symbol = s;
    f->let.own = s->own;
    f->recursive = recursive;
    s->own = recursive ? 0 : (uint32_t)p->undo.n + 1;
    strict_bind(p, s, token_span(p, t));
    p->state = STATE_OPERAND;
    return true;
}

static bool graph_binding(Parser *p)
{
    uint32_t from = p->tok.from;
    Token name_token = p->tok;
    parse_advance(p);
    parse_advance(p);
    Frame *f = parse_frame_push(p, FRAME_GRAPH, from);
    f->graph = name_token;
    strict_graph(p, name_token);
    p->state = STATE_OPERAND;
    return true;
}

/* In a session the text means the variable of that name, if it has the type that the text says. */
static Var *session_variable(const Parser *p, const Name *name, const Type *annotation)
{
    Var *v = p->env->locals ? ptrmap_find(p->env->locals, name) : NULL;
    const Type *t = v ? v->base.type : NULL;
    return t && (!annotation || type_equal(annotation, t) || type_is_poison(t)) ? v : NULL;
}

/* free_var %x: T; The variable belongs to the whole text. */
static bool free_variable(Parser *p)
{
    const Type *annotation = NULL;
    parse_advance(p);
    if (parse_at(p, TOKEN_LOCAL))
        parse_whole_name(p);
    Token t = p->tok;
    if (!parse_expect(p, TOKEN_LOCAL))
        return false;
    if (parse_take(p, TOKEN_COLON) && !(annotation = parse_type(p)))
        return false;
    Symbol *s = symbol_get(p, token_name(p, t));
    s->var = session_variable(p, s->name, annotation);
    if (!s->var) {
        s->var = expr_var(p->arena, token_span(p, t), s->name, annotation);
        vec_push(&p->m->free_vars, p->arena, s->var);
        p->m->scopes_open = true;
    }
    p->state = STATE_STATEMENT;
    return parse_expect(p, TOKEN_SEMICOLON);
}

bool step_statement(Parser *p)
{
    switch (p->tok.kind) {
    case TOKEN_LET: return let_binding(p);
    case TOKEN_FREE_VAR: return free_variable(p);
    case TOKEN_GRAPH:
        if (parse_peek(p).kind == TOKEN_ASSIGN)
            return graph_binding(p);
        if (parse_peek(p).kind == TOKEN_EQUAL)
            parse_wider(p, token_span(p, p->tok), "a comparison that begins with a graph variable",
                        "put it in parentheses");
        return step_operand(p);
    default: return step_operand(p);
    }
}
