/* The machine that reads expressions: one step reads what begins a statement or an operand, or gives the operand that was just
 * read to the frame on top. */
#include "parser/internal.h"

/* ---- frames and values --------------------------------------------------------------------------------------------------- */

Frame *parse_frame_push(Parser *p, FrameKind kind, uint32_t from)
{
    vec_room(&p->frames, &p->scratch);
    Frame *f = &p->frames.at[p->frames.n++];
    *f = (Frame){
        .kind = (uint8_t)kind,
        .from = from,
        .args = (uint32_t)p->args.n,
        .lets = (uint32_t)p->lets.n,
        .undo = (uint32_t)p->undo.n,
        .attrs = (uint32_t)p->attrs.n,
        .scopes = (uint32_t)p->scopes.n,
    };
    if (kind == FRAME_BLOCK)
        strict_open(p);
    return f;
}

/* Whether the original opens a scope for the whole of it. */
static bool frame_has_scope(uint8_t kind)
{
    return kind == FRAME_TOP || kind == FRAME_FUNCTION || kind == FRAME_BLOCK ||
           kind == FRAME_THEN || kind == FRAME_ELSE || kind == FRAME_ELSE_IF ||
           kind == FRAME_SCRUTINEE || kind == FRAME_CLAUSE;
}

void parse_frame_pop(Parser *p)
{
    Frame *f = frame_top(p);
    p->args.n = f->args;
    p->lets.n = f->lets;
    p->attrs.n = f->attrs;
    if (frame_has_scope(f->kind))
        strict_close(p, f->scopes);
    p->frames.n--;
}

void set_value(Parser *p, Expr *e, uint32_t from, uint32_t to)
{
    p->value = (Operand){.e = e, .from = from, .to = to};
    p->state = STATE_VALUE;
}

void note_use(Parser *p, Expr *const *slot, Operand o)
{
    if (o.use)
        module_note_use(p->m, slot, parse_span(p, o.from, o.to));
}

/* The nodes of n operands, in a list that was made for them. */
static void fill(Parser *p, ExprList list, const Operand *operands)
{
    for (uint32_t i = 0; i < list.n; i++) {
        list.at[i] = operands[i].e;
        note_use(p, &list.at[i], operands[i]);
    }
}

Expr *make_call(Parser *p, Span span, const Operand *callee, uint32_t n, const Operand *args,
                const Attrs *attrs)
{
    Call *call = expr_as_call(expr_call(p->arena, span, callee->e, n, NULL, attrs));
    note_use(p, &call->callee, *callee);
    fill(p, call->args, args);
    return &call->base;
}

static Expr *make_tuple(Parser *p, Span span, uint32_t n, const Operand *fields)
{
    Tuple *tuple = expr_as_tuple(expr_tuple(p->arena, span, n, NULL));
    fill(p, tuple->fields, fields);
    return &tuple->base;
}

/* ---- sequences --------------------------------------------------------------------------------------------------------------- */

/* The value becomes the body of the bindings before it, the last one first. Ends the scope. */
static void fold_lets(Parser *p, const Frame *f)
{
    Operand body = p->value;
    while (p->lets.n > f->lets) {
        Pending one = vec_pop(&p->lets);
        Let *let = expr_as_let(
            expr_let(p->arena, parse_span(p, one.from, body.to), one.var, one.value.e, body.e));
        note_use(p, &let->value, one.value);
        note_use(p, &let->body, body);
        body = (Operand){.e = &let->base, .from = one.from, .to = body.to};
    }
    p->value = body;
    scope_leave(p, f->undo);
    if (f->scopes_let > 0)
        strict_close(p, f->scopes_let);
}

/* a; b   The value of `a` is bound to a variable without a name. */
static bool sequence(Parser *p)
{
    Pending one = {.value = p->value, .from = p->value.from};
    one.var = expr_var(p->arena, parse_span(p, one.from, p->value.to), ctx_name(p->cx, ""), NULL);
    vec_push(&p->lets, &p->scratch, one);
    parse_advance(p);
    p->state = STATE_STATEMENT;
    return true;
}

/* ---- giving a value to the frame on top ---------------------------------------------------------------------------------------- */

static bool close_function(Parser *p)
{
    Frame *f = frame_top(p);
    uint32_t to = p->tok.to;
    if (!parse_expect_close(p, TOKEN_RBRACE, f->open))
        return false;
    fold_lets(p, f);
    FunctionHead *h = f->head;
    Function *fn = expr_function(p->arena, parse_span(p, f->from, to), h->type_params, h->params.n,
                                 h->params.at, h->attrs, h->ret_type, p->value.e);
    note_use(p, &fn->body, p->value);
    uint32_t from = f->from;
    parse_frame_pop(p);
    set_value(p, &fn->base, from, to);
    return true;
}

/* A block or a grouping: the value inside, on a larger piece of text. */
static bool close_group(Parser *p, TokenKind close)
{
    Frame *f = frame_top(p);
    uint32_t to = p->tok.to;
    if (!parse_expect_close(p, close, f->open))
        return false;
    fold_lets(p, f);
    p->value.from = f->from;
    p->value.to = to;
    p->value.statement = close == TOKEN_RBRACE;
    parse_frame_pop(p);
    return true;
}

static bool close_paren(Parser *p)
{
    Frame *f = frame_top(p);
    bool more;
    if (!f->comma && !parse_at(p, TOKEN_COMMA))
        return close_group(p, TOKEN_RPAREN);
    fold_lets(p, f);
    f->comma = true;
    vec_push(&p->args, &p->scratch, p->value);
    if (!parse_separator(p, TOKEN_RPAREN, f->open, &more))
        return false;
    if (more) {
        p->state = STATE_STATEMENT;
        return true;
    }
    Span span = parse_span(p, f->from, p->tok.to);
    Expr *e = make_tuple(p, span, (uint32_t)p->args.n - f->args, p->args.at + f->args);
    parse_frame_pop(p);
    parse_advance(p);
    set_value(p, e, span.from, span.to);
    return true;
}

static Expr *make_ref(Parser *p, TokenKind kind, Span span, const Operand *args)
{
    if (kind == TOKEN_REF) {
        RefNew *e = expr_as_ref_new(expr_ref_new(p->arena, span, args[0].e));
        note_use(p, &e->value, args[0]);
        return &e->base;
    }
    if (kind == TOKEN_REF_READ) {
        RefRead *e = expr_as_ref_read(expr_ref_read(p->arena, span, args[0].e));
        note_use(p, &e->ref, args[0]);
        return &e->base;
    }
    RefWrite *e = expr_as_ref_write(expr_ref_write(p->arena, span, args[0].e, args[1].e));
    note_use(p, &e->ref, args[0]);
    note_use(p, &e->value, args[1]);
    return &e->base;
}

static bool close_ref(Parser *p)
{
    Frame *f = frame_top(p);
    fold_lets(p, f);
    vec_push(&p->args, &p->scratch, p->value);
    bool more = f->token == TOKEN_REF_WRITE && p->args.n - f->args < 2;
    if (more) {
        p->state = STATE_STATEMENT;
        return parse_expect(p, TOKEN_COMMA);
    }
    if (parse_at(p, TOKEN_COMMA))
        parse_wider(p, token_span(p, p->tok), "a comma behind the last operand", "leave it out");
    parse_take(p, TOKEN_COMMA);
    uint32_t to = p->tok.to;
    if (!parse_expect_close(p, TOKEN_RPAREN, f->open))
        return false;
    Span span = parse_span(p, f->from, to);
    Expr *e = make_ref(p, (TokenKind)f->token, span, p->args.at + f->args);
    parse_frame_pop(p);
    set_value(p, e, span.from, span.to);
    return true;
}

/* `{` of a branch. Until it is there, no `}` can close the frame. */
static bool branch_open(Parser *p, FrameKind kind)
{
    Frame *f = frame_top(p);
    f->kind = FRAME_ELSE_IF;
    f->open = p->tok.from;
    if (!parse_take(p, TOKEN_LBRACE)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, "`{` of a branch");
        return false;
    }
    f->kind = (uint8_t)kind;
    strict_close(p, f->scopes);
    f->scopes_let = 0;
    strict_open(p);
    p->state = STATE_STATEMENT;
    return true;
}

static bool close_condition(Parser *p)
{
    Frame *f = frame_top(p);
    if (!parse_expect_close(p, TOKEN_RPAREN, f->open))
        return false;
    fold_lets(p, f);
    f->left = p->value;
    return branch_open(p, FRAME_THEN);
}

/* The end of the text may be far away. */
static bool missing_else(Parser *p)
{
    if (!parse_at(p, TOKEN_END)) {
        parse_expected(p, E0104_EXPECTED_TOKEN, token_words(TOKEN_ELSE));
        return false;
    }
    Diag *d = parse_error(p, E0104_EXPECTED_TOKEN, parse_span(p, p->last_to - 1, p->last_to),
                          "expected %s behind this", token_words(TOKEN_ELSE));
    hint_token(p, d, token_words(TOKEN_ELSE));
    return false;
}

static bool close_then(Parser *p)
{
    Frame *f = frame_top(p);
    bool closed = parse_expect_close(p, TOKEN_RBRACE, f->open);
    if (!closed && !parse_at(p, TOKEN_ELSE))
        return false;
    fold_lets(p, f);
    f->then = p->value;
    f->kind = FRAME_ELSE_IF;
    if (!parse_take(p, TOKEN_ELSE))
        return missing_else(p);
    if (!parse_at(p, TOKEN_IF))
        return branch_open(p, FRAME_ELSE);
    parse_wider(p, token_span(p, p->tok), "`else if`", "write `else { if (…) { … } else { … } }`");
    p->state = STATE_OPERAND;
    return true;
}

static bool close_else(Parser *p)
{
    Frame *f = frame_top(p);
    uint32_t to = p->value.to;
    if (f->kind == FRAME_ELSE) {
        to = p->tok.to;
        if (!parse_expect_close(p, TOKEN_RBRACE, f->open))
            return false;
        fold_lets(p, f);
    }
    Span span = parse_span(p, f->from, to);
    If *e = expr_as_if(expr_if(p->arena, span, f->left.e, f->then.e, p->value.e));
    note_use(p, &e->cond, f->left);
    note_use(p, &e->then, f->then);
    note_use(p, &e->otherwise, p->value);
    parse_frame_pop(p);
    set_value(p, &e->base, span.from, span.to);
    return true;
}

/* ---- match ------------------------------------------------------------------------------------------------------------------- */

static bool match_finish(Parser *p)
{
    Frame f = *frame_top(p);
    size_t n = p->clauses.n - f.clause.clauses;
    const PendingClause *pending = p->clauses.at + f.clause.clauses;
    Clause *clauses = arena_alloc_must(&p->scratch, n, sizeof *clauses);
    for (size_t i = 0; i < n; i++)
        clauses[i] = pending[i].clause;
    Span span = parse_span(p, f.from, p->tok.to);
    Match *e = expr_as_match(
        expr_match(p->arena, span, f.left.e, (uint32_t)n, clauses, f.token == TOKEN_MATCH));
    note_use(p, &e->scrutinee, f.left);
    for (size_t i = 0; i < n; i++)
        note_use(p, &e->clauses.at[i].body, pending[i].body);
    p->clauses.n = f.clause.clauses;
    parse_frame_pop(p);
    parse_advance(p);
    set_value(p, &e->base, span.from, span.to);
    p->value.statement = true;
    return true;
}

/* pattern => */
static bool clause_begin(Parser *p)
{
    Frame *f = frame_top(p);
    if (parse_at(p, TOKEN_RBRACE))
        return match_finish(p);
    f->clause.from = p->tok.from;
    f->clause.pattern = NULL;
    strict_close(p, f->scopes);
    f->scopes_let = 0;
    strict_open(p);
    Pattern *pattern = parse_pattern(p);
    if (!pattern)
        return false;
    frame_top(p)->clause.pattern = pattern;
    p->state = STATE_STATEMENT;
    return parse_expect(p, TOKEN_FAT_ARROW);
}

static bool close_scrutinee(Parser *p)
{
    Frame *f = frame_top(p);
    f->left = p->value;
    if (p->scrutinee_called)
        parse_wider(p, parse_span(p, p->value.from, p->value.to), "a call as what is matched",
                    "put it in parentheses");
    p->scrutinee_called = false;
    f->open = p->tok.from;
    if (!parse_expect(p, TOKEN_LBRACE))
        return false;
    f->kind = FRAME_CLAUSE;
    f->clause.clauses = (uint32_t)p->clauses.n;
    return clause_begin(p);
}

static bool close_clause(Parser *p)
{
    Frame *f = frame_top(p);
    bool more;
    fold_lets(p, f);
    Span span = parse_span(p, f->clause.from, p->value.to);
    Pattern *pattern = f->clause.pattern ? f->clause.pattern : pattern_wildcard(p->arena, span);
    PendingClause one = {.clause = {pattern, p->value.e, span}, .body = p->value};
    vec_push(&p->clauses, &p->scratch, one);
    return parse_separator(p, TOKEN_RBRACE, f->open, &more) && clause_begin(p);
}

/* ---- bindings -------------------------------------------------------------------------------------------------------------------- */

/* Whether the next token begins a statement on a line of its own: then the missing `;` is all that is wrong. */
static bool new_statement(const Parser *p)
{
    bool starts = parse_at(p, TOKEN_LET) || parse_at(p, TOKEN_GRAPH) || parse_at(p, TOKEN_LOCAL) ||
                  parse_at(p, TOKEN_IDENT) || parse_at(p, TOKEN_IF) || parse_at(p, TOKEN_MATCH) ||
                  parse_at(p, TOKEN_GLOBAL) || parse_at(p, TOKEN_REF_READ) ||
                  parse_at(p, TOKEN_REF_WRITE);
    return starts && parse_line_before(p);
}

static bool missing_semicolon(Parser *p)
{
    Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, token_words(TOKEN_SEMICOLON));
    fix_missing(p, d, TOKEN_SEMICOLON);
    if (parse_line_before(p))
        diag_label(d, parse_span(p, p->last_to, p->last_to), "the `;` is missing here");
    if (d && !d->helps)
        diag_help(d, "a binding ends with `;`, and the last expression of a block has none");
    return new_statement(p);
}

static void bind_let(Parser *p, const Frame *f)
{
    if (!f->recursive)
        scope_bind(p, f->let.symbol, f->let.var);
}

static bool close_let(Parser *p)
{
    Frame f = *frame_top(p);
    if (!parse_take(p, TOKEN_SEMICOLON) && !missing_semicolon(p))
        return false;
    parse_frame_pop(p);
    Pending one = {.var = f.let.var, .value = p->value, .from = f.from};
    vec_push(&p->lets, &p->scratch, one);
    f.let.symbol->own = f.let.own;
    bind_let(p, &f);
    strict_let(p, frame_top(p));
    p->state = STATE_STATEMENT;
    return true;
}

static bool close_graph(Parser *p)
{
    Frame f = *frame_top(p);
    if (!parse_take(p, TOKEN_SEMICOLON) && !missing_semicolon(p))
        return false;
    parse_frame_pop(p);
    graph_bind(p, token_name(p, f.graph), p->value.e);
    p->state = STATE_STATEMENT;
    return true;
}

static bool close_top(Parser *p)
{
    fold_lets(p, frame_top(p));
    parse_frame_pop(p);
    return true;
}

static bool close_frame(Parser *p)
{
    Frame *f = frame_top(p);
    if (parse_at(p, TOKEN_SEMICOLON) && frame_is_sequence(f->kind))
        return sequence(p);
    switch ((FrameKind)f->kind) {
    case FRAME_TOP:
    case FRAME_CHAIN: return close_top(p);
    case FRAME_ITEM: parse_frame_pop(p); return true;
    case FRAME_FUNCTION: return close_function(p);
    case FRAME_BLOCK: return close_group(p, TOKEN_RBRACE);
    case FRAME_PAREN: return close_paren(p);
    case FRAME_ARGS: fold_lets(p, f); return close_args(p);
    case FRAME_REF: return close_ref(p);
    case FRAME_COND: return close_condition(p);
    case FRAME_THEN: return close_then(p);
    case FRAME_ELSE:
    case FRAME_ELSE_IF: return close_else(p);
    case FRAME_SCRUTINEE: return close_scrutinee(p);
    case FRAME_CLAUSE: return close_clause(p);
    case FRAME_LET: return close_let(p);
    case FRAME_GRAPH: return close_graph(p);
    case FRAME_ATTR: return close_attr(p);
    case FRAME_BINARY:
    case FRAME_NEGATE: break;
    }
    return false;
}

/* ---- operators and projections ------------------------------------------------------------------------------------------------ */

/* What a sign calls. */
static Operand named_op(Parser *p, Span sign, const Op *op, const char *words)
{
    Operand callee = {.from = sign.from, .to = sign.to};
    if (op) {
        callee.e = expr_op(p->arena, sign, op);
    } else {
        parse_error(p, E0111_UNDEFINED_OPERATOR, sign, "there is no operator %s", words);
        callee.e = p->poison;
    }
    return callee;
}

static void reduce(Parser *p)
{
    Frame f = *frame_top(p);
    parse_frame_pop(p);
    Operand args[2] = {f.left, p->value};
    Span span = parse_span(p, f.left.from, p->value.to);
    Span sign = parse_span(p, f.open, f.open);
    sign.to += (uint32_t)str_of(token_spelling((TokenKind)f.token)).len;
    Operand callee = named_op(p, sign, p->infix[f.token], token_words((TokenKind)f.token));
    set_value(p, make_call(p, span, &callee, 2, args, NULL), span.from, span.to);
}

/* Behind calls and projections, before every operator with two operands. */
static void negate(Parser *p)
{
    uint32_t from = frame_top(p)->from;
    parse_frame_pop(p);
    Operand arg = p->value;
    Span span = parse_span(p, from, arg.to);
    Operand callee = named_op(p, parse_span(p, from, from + 1), op_find(p->cx, str_of("negative")),
                              "`negative`");
    set_value(p, make_call(p, span, &callee, 1, &arg, NULL), span.from, span.to);
}

/* The original takes signs for a part of the number in front of them. */
static bool glued(const Parser *p)
{
    const Operand *left = &p->value;
    char sign = p->lx.text[p->tok.from], first = p->lx.text[left->from],
         last = p->tok.from ? p->lx.text[p->tok.from - 1] : 0;
    if ((sign != '+' && sign != '-') || left->to != p->tok.from)
        return false;
    bool number =
        left->e->kind == EXPR_CONSTANT && (first == '-' || (first >= '0' && first <= '9'));
    return number || (left->e->kind == EXPR_TUPLE_GET && last >= '0' && last <= '9');
}

/* Climbing precedence; equal levels group to the left. */
static bool infix(Parser *p, int precedence)
{
    if (glued(p))
        parse_wider(p, token_span(p, p->tok), "an operator directly behind a number",
                    "write blanks around it");
    while (frame_top(p)->kind == FRAME_BINARY &&
           token_precedence((TokenKind)frame_top(p)->token) >= precedence)
        reduce(p);
    Operand left = p->value;
    Frame *f = parse_frame_push(p, FRAME_BINARY, left.from);
    f->left = left;
    f->token = p->tok.kind;
    f->open = p->tok.from;
    parse_advance(p);
    p->state = STATE_OPERAND;
    return true;
}

static bool projection(Parser *p)
{
    Operand tuple = p->value;
    int64_t index;
    uint32_t to;
    bool atom = p->lx.text[tuple.from] == '(' || tuple.use;
    if (!atom && (tuple.e->kind == EXPR_CALL || tuple.e->kind == EXPR_TUPLE_GET))
        parse_wider(p, token_span(p, p->tok), "a projection of a call or of a projection",
                    "put what stands before it in parentheses");
    if (!parse_index_behind(p, &index, &to))
        return false;
    TupleGet *e =
        expr_as_tuple_get(expr_tuple_get(p->arena, parse_span(p, tuple.from, to), tuple.e, index));
    note_use(p, &e->tuple, tuple);
    set_value(p, &e->base, tuple.from, to);
    return true;
}

/* In a cell, a parenthesis at the start of a line begins an item instead of calling what stands above. */
static bool begins_item(const Parser *p)
{
    if (!p->lines || !parse_line_before(p))
        return false;
    for (size_t i = p->frames.n; i-- > 0;) {
        uint8_t kind = p->frames.at[i].kind;
        if (kind == FRAME_ITEM || kind == FRAME_TOP)
            return true;
        if (kind != FRAME_BINARY && kind != FRAME_NEGATE && kind != FRAME_ELSE_IF)
            return false;
    }
    return false;
}

/* A minus before the digits was taken for theirs: behind an operand it is an operator. */
static void split_number(Parser *p)
{
    uint32_t from = p->tok.from;
    if (p->lx.text[from] != '-' || begins_item(p))
        return;
    if (!glued(p))
        parse_wider(p, parse_span(p, from, p->tok.to), "an operator directly before a number",
                    "write blanks around it");
    p->tok = (Token){.kind = TOKEN_MINUS, .from = from, .to = from + 1};
    p->lx.at = from + 1;
}

/* A match or a block ends a statement of the original: nothing goes on with its value. */
static void end_statement(Parser *p)
{
    uint32_t from = p->value.from, most = p->value.to;
    bool block = p->lx.text[from] == '{';
    uint32_t to = from + (block ? 1 : (uint32_t)str_of(token_spelling(TOKEN_MATCH)).len);
    if (p->value.statement && frame_is_sequence(frame_top(p)->kind))
        parse_wider(p, parse_span(p, from, to < most ? to : most), "a statement as an operand",
                    "put it in parentheses");
}

static bool step_value(Parser *p)
{
    uint8_t kind = frame_top(p)->kind;
    if (kind == FRAME_ELSE_IF)
        return close_frame(p);
    if (parse_at(p, TOKEN_DOT)) {
        end_statement(p);
        return projection(p);
    }
    if (parse_at(p, TOKEN_LPAREN) && !begins_item(p)) {
        end_statement(p);
        p->scrutinee_called |= kind == FRAME_SCRUTINEE;
        return call_begin(p);
    }
    if (kind == FRAME_NEGATE) {
        negate(p);
        return true;
    }
    if (parse_at(p, TOKEN_NUMBER) && kind != FRAME_SCRUTINEE && kind != FRAME_ATTR)
        split_number(p);
    int precedence = token_precedence((TokenKind)p->tok.kind);
    if (precedence && kind != FRAME_SCRUTINEE && kind != FRAME_ATTR) {
        end_statement(p);
        return infix(p, precedence);
    }
    if (kind != FRAME_BINARY)
        return close_frame(p);
    reduce(p);
    return true;
}

/* ---- running ------------------------------------------------------------------------------------------------------------------------ */

static bool step(Parser *p)
{
    switch (p->state) {
    case STATE_STATEMENT: return step_statement(p);
    case STATE_OPERAND:
        if (parse_at(p, TOKEN_MATCH) || parse_at(p, TOKEN_MATCH_PARTIAL) ||
            parse_at(p, TOKEN_LBRACE) || parse_at(p, TOKEN_LET))
            parse_wider(p, token_span(p, p->tok), "a statement as an operand",
                        "put it in parentheses");
        return step_operand(p);
    case STATE_VALUE: break;
    }
    return step_value(p);
}

#define STEPS_TO_ASK 256

static Expr *run(Parser *p, size_t base)
{
    unsigned steps = 0;
    while (p->frames.n > base) {
        if (++steps % STEPS_TO_ASK == 0 && (parse_end_of_errors(p) || limit_hit(&p->cx->limits))) {
            p->errors++;
            parse_unwind(p, base);
            return NULL;
        }
        if (!step(p) && !parse_recover(p, base))
            return NULL;
    }
    return p->value.e;
}

bool parse_expr(Parser *p, FrameKind bottom)
{
    size_t base = p->frames.n;
    parse_frame_push(p, bottom, p->tok.from);
    p->state = bottom == FRAME_ITEM ? STATE_OPERAND : STATE_STATEMENT;
    p->m->expr = run(p, base);
    if (p->m->expr)
        note_use(p, &p->m->expr, p->value);
    return p->m->expr != NULL;
}

Function *parse_function(Parser *p, uint32_t from, FunctionHead *head)
{
    size_t base = p->frames.n;
    uint32_t undo = (uint32_t)p->undo.n, scopes = (uint32_t)p->scopes.n;
    uint32_t open;
    if (!function_head(p, head) || (open = p->tok.from, !parse_expect(p, TOKEN_LBRACE))) {
        scope_leave(p, undo);
        return NULL;
    }
    Frame *f = parse_frame_push(p, FRAME_FUNCTION, from);
    f->open = open;
    f->undo = undo;
    f->scopes = scopes;
    f->head = head;
    p->state = STATE_STATEMENT;
    return expr_as_function(run(p, base));
}
