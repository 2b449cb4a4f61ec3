#include "ir/print_internal.h"

#include "ir/walk.h"

typedef enum TaskKind {
    TASK_ENTER,         /* make the texts of the nodes below, then this one's */
    TASK_FINISH, /* the text of a call, tuple, projection or reference: all below have theirs */
    TASK_ASK, /* give it a number and a line, if it needs one */
    TASK_SCOPE, /* all of a scope: lets, lines, result */
    TASK_RESULT,
    TASK_LET_LINE, /* a let line whose value has its text */
    TASK_LET_OPEN, /* a let in parentheses, whose first value has its text */
    TASK_LET_CLOSE,
    TASK_FUNCTION_CLOSE,
    TASK_IF_OPEN,
    TASK_IF_ELSE,
    TASK_IF_CLOSE,
    TASK_MATCH_OPEN,
    TASK_CLAUSE, /* closes clause i - 1 and opens clause i */
} TaskKind;

/* Deeper scopes stay at this level, and much deeper ones have no blanks at all: otherwise those of a program nested a million deep
 * would fill the memory. */
#define INDENT_MOST 64
#define INDENT_SEEN 1024

static void task(Printer *p, TaskKind kind, const Expr *e, uint32_t i)
{
    Task one = {.kind = (uint8_t)kind, .i = i, .e = e};
    vec_push(&p->tasks, &p->arena, one);
}

/* From here on the blanks of a line take less room as a number. */
#define INDENT_COUNTED 24

static void indent(Printer *p)
{
    uint32_t level = p->indent < INDENT_MOST ? p->indent : INDENT_MOST;
    if (p->indent > INDENT_SEEN)
        return;
    if (level < INDENT_COUNTED)
        buf_repeat(&p->text, ' ', 2 * (size_t)level);
    else
        doc_blanks(p, 2 * level);
}

/* ---- nodes where they are used ---------------------------------------------------------------------------------------------------- */

static void put_number(Buf *b, int32_t number)
{
    buf_char(b, '%');
    buf_uint(b, (uint64_t)number);
}

void put_atom(Printer *p, Buf *b, const Expr *e)
{
    PrintNode *node;
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: put_constant(p, b, expr_as_constant(e)); return;
    case EXPR_GLOBAL:
        buf_char(b, '@');
        buf_str(b, expr_as_global(e)->name->text);
        return;
    case EXPR_OP: buf_str(b, expr_as_op(e)->op->name); return;
    case EXPR_CON: buf_str(b, expr_as_con(e)->con->name->text); return;
    case EXPR_VAR:
        node = node_find(p, e);
        if (node && node->met)
            put_var(b, node);
        return;
    default: break;
    }
    node = node_find(p, e);
    put_number(b, node ? node->number : 0);
}

/* A variable that nothing bound: it is declared in the outermost scope, before the lines that use it. */
static void declare(Printer *p, const Var *v)
{
    if (!p->declare || var_is_hole(v)) {
        name_var(p, v);
        return;
    }
    doc_settle(p);
    unsigned level = p->indent;
    p->indent = p->base_indent;
    indent(p);
    buf_str(&p->text, "free_var ");
    put_binder(p, &p->text, v);
    buf_str(&p->text, ";\n");
    p->indent = level;
    doc_add(p, &p->docs.at[0], p->open, p->text.n);
    p->open = p->text.n;
}

static PrintNode *named(Printer *p, const Expr *var)
{
    PrintNode *node = node_find(p, var);
    if (node && node->met)
        return node;
    declare(p, expr_as_var(var));
    return node_get(p, var);
}

/* A line's worth is written once: its place is free again when nothing was made behind it and no text is being made there. */
static void put_line_text(Printer *p, const PrintNode *node)
{
    buf_bytes(&p->text, p->lines.at + node->text.from, node->text.n);
    if (node->text.from + node->text.n == p->lines.n && node->text.from >= p->making)
        buf_cut(&p->lines, node->text.from);
}

/* The node's whole text, at the end of `text`. */
static void put_text(Printer *p, const PrintNode *node)
{
    if (node->is_doc)
        doc_splice(p, *node->doc);
    else
        put_line_text(p, node);
}

void put_mark(Printer *p, const Expr *e)
{
    const PrintNodes *nodes = p->style.nodes;
    if (!nodes)
        return;
    buf_char(&p->text, PRINT_MARK_BEGIN);
    buf_uint(&p->text, nodes->mark(nodes->data, e));
    buf_char(&p->text, PRINT_MARK_END);
}

static int32_t number_for(Printer *p, const Expr *e)
{
    const PrintNodes *nodes = p->style.nodes;
    int32_t number = nodes ? nodes->number(nodes->data, e) : p->next_number;
    p->next_number = number < p->next_number ? p->next_number : number + 1;
    return number;
}

static void hoist(Printer *p, PrintNode *node)
{
    node->number = number_for(p, node->e);
    order_line(p, node->e);
    indent(p);
    put_mark(p, node->e);
    put_number(&p->text, node->number);
    buf_str(&p->text, " = ");
    put_text(p, node);
    buf_str(&p->text, ";\n");
}

/* Gives the node what it needs to be written where it is used: a graph number and a line, or a free variable's declaration. */
static PrintNode *ask(Printer *p, const Expr *e)
{
    if (e->kind == EXPR_VAR)
        return named(p, e);
    PrintNode *node = node_get(p, e);
    if (is_atom(e))
        return node;
    if (node->number < 0)
        hoist(p, node);
    else
        order_use(p, e);
    return node;
}

static void ask_and_put(Printer *p, Buf *b, const Expr *e)
{
    if (e->kind == EXPR_VAR) {
        put_var(b, named(p, e));
    } else if (is_atom(e)) {
        put_atom(p, b, e);
    } else {
        put_number(b, ask(p, e)->number);
    }
}

/* ---- calls, tuples, projections, references ---------------------------------------------------------------------------------------- */

static void put_list(Printer *p, Buf *b, ExprList list)
{
    for (uint32_t i = 0; i < list.n; i++) {
        if (i)
            buf_bytes(b, ", ", 2);
        ask_and_put(p, b, list.at[i]);
    }
}

static void ask_attr(void *data, Expr *e)
{
    ask(data, e);
}

static void put_call(Printer *p, Buf *b, const Call *call)
{
    const OpRef *op = expr_as_op(call->callee);
    const ConRef *con = expr_as_con(call->callee);
    if (!is_atom(call->callee)) {
        for (uint32_t i = 0; i < call->args.n; i++)
            ask(p, call->args.at[i]);
        attrs_exprs(call->attrs, ask_attr, p);
    }
    ask_and_put(p, b, call->callee);
    if (con && con->con->n == 0 && call->args.n == 0)
        return;
    buf_char(b, '(');
    put_list(p, b, call->args);
    if (call->attrs) {
        attrs_exprs(call->attrs, ask_attr, p);
        if (op)
            put_op_attrs(p, b, op->op, call->attrs, call->args.n == 0);
        else
            put_attrs(p, b, call->attrs, call->args.n == 0);
    }
    buf_char(b, ')');
}

static void put_tuple(Printer *p, Buf *b, const Tuple *t)
{
    buf_char(b, '(');
    put_list(p, b, t->fields);
    buf_str(b, t->fields.n == 1 ? ",)" : ")");
}

/* Behind a number, the point would be a part of it. */
static void put_tuple_get(Printer *p, Buf *b, const TupleGet *get)
{
    const Constant *c = expr_as_constant(get->tuple);
    bool parens = c && constant_is_literal(c);
    if (parens)
        buf_char(b, '(');
    ask_and_put(p, b, get->tuple);
    if (parens)
        buf_char(b, ')');
    buf_char(b, '.');
    buf_int(b, get->index);
}

static void finish(Printer *p, const Expr *e)
{
    Buf *b = &p->lines;
    size_t from = p->making = b->n;
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: put_call(p, b, expr_as_call(e)); break;
    case EXPR_TUPLE: put_tuple(p, b, expr_as_tuple(e)); break;
    case EXPR_TUPLE_GET: put_tuple_get(p, b, expr_as_tuple_get(e)); break;
    case EXPR_REF_NEW:
        buf_str(b, "ref(");
        ask_and_put(p, b, expr_as_ref_new(e)->value);
        buf_char(b, ')');
        break;
    case EXPR_REF_READ:
        buf_str(b, "ref_read(");
        ask_and_put(p, b, expr_as_ref_read(e)->ref);
        buf_char(b, ')');
        break;
    case EXPR_REF_WRITE:
        buf_str(b, "ref_write(");
        ask_and_put(p, b, expr_as_ref_write(e)->ref);
        buf_str(b, ", ");
        ask_and_put(p, b, expr_as_ref_write(e)->value);
        buf_char(b, ')');
        break;
    default: break;
    }
    if (e->kind == EXPR_CALL || e->kind == EXPR_TUPLE || e->kind == EXPR_TUPLE_GET)
        put_comment(p, b, e);
    PrintNode *node = node_get(p, e);
    node->text.from = from;
    node->text.n = b->n - from;
    p->making = 0;
}

/* ---- scopes ------------------------------------------------------------------------------------------------------------------------- */

static bool in_place(Printer *p, const Expr *e)
{
    const PrintNode *node = node_find(p, e);
    return node && node->uses <= 1 && node->number < 0;
}

/* A let is a part of the scope that it ends, unless it is used elsewhere too. */
static bool continues_scope(Printer *p, const Expr *e)
{
    const PrintNode *node = e->kind == EXPR_LET ? node_find(p, e) : NULL;
    return node && node->uses <= 1 && !node->met;
}

/* The value of a let, or the result of a scope: written out when it is used nowhere else. */
static void put_once(Printer *p, const Expr *e)
{
    if (is_atom(e))
        put_atom(p, &p->text, e);
    else if (in_place(p, e))
        put_text(p, node_find(p, e));
    else
        put_number(&p->text, node_get(p, e)->number);
}

static void prepare_once(Printer *p, const Expr *e)
{
    if (is_atom(e) || !in_place(p, e))
        ask(p, e);
}

static void result(Printer *p, const Expr *e)
{
    prepare_once(p, e);
    indent(p);
    if (!is_atom(e) && in_place(p, e))
        put_mark(p, e);
    put_once(p, e);
}

/* The variable is named when its let is met, before those inside its value. Its head waits in the let's own text. */
static void name_let(Printer *p, const Let *let)
{
    size_t from = p->lines.n;
    put_binder(p, &p->lines, let->var);
    PrintNode *node = node_get(p, &let->base);
    node->text.from = from;
    node->text.n = p->lines.n - from;
}

static void let_line(Printer *p, const Let *let, bool first)
{
    const PrintNode *node = node_get(p, &let->base);
    indent(p);
    put_mark(p, !is_atom(let->value) && in_place(p, let->value) ? let->value : &let->base);
    buf_str(&p->text, "let ");
    put_line_text(p, node);
    buf_str(&p->text, " = ");
    /* The text of the first value was made outside the parenthesis. */
    const PrintNode *value = first ? node_find(p, let->value) : NULL;
    if (value && value->is_doc && in_place(p, let->value))
        doc_splice_deeper(p, *value->doc);
    else
        put_once(p, let->value);
    buf_str(&p->text, ";\n");
}

static void scope(Printer *p, const Expr *e)
{
    if (!continues_scope(p, e)) {
        task(p, TASK_RESULT, e, 0);
        task(p, TASK_ENTER, e, 0);
        return;
    }
    const Let *let = expr_as_let(e);
    node_get(p, e)->met = true;
    name_let(p, let);
    task(p, TASK_SCOPE, let->body, 0);
    task(p, TASK_LET_LINE, e, 0);
    task(p, TASK_ENTER, let->value, 0);
}

/* ---- what spans several lines ---------------------------------------------------------------------------------------------------------- */

static void open_brace(Printer *p)
{
    buf_str(&p->text, " {\n");
    p->indent++;
}

/* A new line with what closes a scope. */
static void close_scope(Printer *p, const char *text)
{
    p->indent--;
    buf_char(&p->text, '\n');
    indent(p);
    buf_str(&p->text, text);
}

static void keep_doc(Printer *p, const Expr *e)
{
    Doc *doc = arena_new(&p->arena, Doc);
    *doc = doc_end(p);
    PrintNode *node = node_get(p, e);
    node->is_doc = true;
    node->doc = doc;
}

static void function_open(Printer *p, const Function *f)
{
    doc_begin(p, &f->base);
    buf_str(&p->text, "fn ");
    put_function_head(p, &p->text, f);
    open_brace(p);
    task(p, TASK_FUNCTION_CLOSE, &f->base, 0);
    task(p, TASK_SCOPE, f->body, 0);
}

static void function_close(Printer *p, const Expr *e)
{
    close_scope(p, "}");
    put_comment(p, &p->text, e);
    keep_doc(p, e);
}

static void if_open(Printer *p, const If *e)
{
    ask(p, e->cond);
    doc_begin(p, &e->base);
    buf_str(&p->text, "if (");
    ask_and_put(p, &p->text, e->cond);
    buf_char(&p->text, ')');
    open_brace(p);
    task(p, TASK_IF_ELSE, &e->base, 0);
    task(p, TASK_SCOPE, e->then, 0);
}

static void if_else(Printer *p, const If *e)
{
    close_scope(p, "} else");
    open_brace(p);
    task(p, TASK_IF_CLOSE, &e->base, 0);
    task(p, TASK_SCOPE, e->otherwise, 0);
}

static void match_open(Printer *p, const Match *e)
{
    ask(p, e->scrutinee);
    doc_begin(p, &e->base);
    buf_str(&p->text, e->complete ? "match (" : "match? (");
    ask_and_put(p, &p->text, e->scrutinee);
    buf_str(&p->text, ") {\n");
    p->indent++;
    task(p, TASK_CLAUSE, &e->base, 0);
}

static void clause(Printer *p, const Match *e, uint32_t i)
{
    if (i > 0)
        close_scope(p, "},\n");
    if (i == e->clauses.n) {
        p->indent--;
        indent(p);
        buf_char(&p->text, '}');
        keep_doc(p, &e->base);
        return;
    }
    indent(p);
    put_pattern(p, &p->text, e->clauses.at[i].pattern);
    buf_str(&p->text, " =>");
    open_brace(p);
    task(p, TASK_CLAUSE, &e->base, i + 1);
    task(p, TASK_SCOPE, e->clauses.at[i].body, 0);
}

/* What the first value of the chain needs stands before the parenthesis. */
static void let_open(Printer *p, const Let *let)
{
    prepare_once(p, let->value);
    doc_begin(p, &let->base);
    buf_str(&p->text, "(\n");
    p->indent++;
    let_line(p, let, true);
    task(p, TASK_LET_CLOSE, &let->base, 0);
    task(p, TASK_SCOPE, let->body, 0);
}

/* ---- the machine --------------------------------------------------------------------------------------------------------------------- */

static void enter_attr(void *data, Expr *e)
{
    if (!is_atom(e))
        task(data, TASK_ENTER, e, 0);
}

static void enter_all(Printer *p, const Attrs *attrs, ExprList list)
{
    size_t first = p->tasks.n;
    attrs_exprs(attrs, enter_attr, p);
    for (size_t i = first, k = p->tasks.n; i + 1 < k; i++) { /* the first is done first */
        Task t = p->tasks.at[i];
        p->tasks.at[i] = p->tasks.at[--k];
        p->tasks.at[k] = t;
    }
    for (uint32_t i = list.n; i-- > 0;)
        if (!is_atom(list.at[i]) || list.at[i]->kind == EXPR_CONSTANT)
            task(p, TASK_ENTER, list.at[i], 0);
}

/* A part of something that is no dataflow is asked for as soon as its text is made. */
static void enter_asked(Printer *p, const Expr *e)
{
    task(p, TASK_ASK, e, 0);
    task(p, TASK_ENTER, e, 0);
}

static void enter_node(Printer *p, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CALL:
        task(p, TASK_FINISH, e, 0);
        enter_all(p, expr_as_call(e)->attrs, expr_as_call(e)->args);
        task(p, TASK_ENTER, expr_as_call(e)->callee, 0);
        return;
    case EXPR_TUPLE:
        task(p, TASK_FINISH, e, 0);
        enter_all(p, NULL, expr_as_tuple(e)->fields);
        return;
    case EXPR_TUPLE_GET:
        task(p, TASK_FINISH, e, 0);
        task(p, TASK_ENTER, expr_as_tuple_get(e)->tuple, 0);
        return;
    case EXPR_REF_NEW:
        task(p, TASK_FINISH, e, 0);
        enter_asked(p, expr_as_ref_new(e)->value);
        return;
    case EXPR_REF_READ:
        task(p, TASK_FINISH, e, 0);
        enter_asked(p, expr_as_ref_read(e)->ref);
        return;
    case EXPR_REF_WRITE:
        task(p, TASK_FINISH, e, 0);
        enter_asked(p, expr_as_ref_write(e)->value);
        enter_asked(p, expr_as_ref_write(e)->ref);
        return;
    case EXPR_IF:
        task(p, TASK_IF_OPEN, e, 0);
        task(p, TASK_ENTER, expr_as_if(e)->cond, 0);
        return;
    case EXPR_MATCH:
        task(p, TASK_MATCH_OPEN, e, 0);
        task(p, TASK_ENTER, expr_as_match(e)->scrutinee, 0);
        return;
    case EXPR_LET:
        name_let(p, expr_as_let(e));
        task(p, TASK_LET_OPEN, e, 0);
        task(p, TASK_ENTER, expr_as_let(e)->value, 0);
        return;
    case EXPR_FUNCTION: function_open(p, expr_as_function(e)); return;
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: return;
    }
}

/* Puts off what opens a scope until the nodes are written that have to be outside. */
static bool enter_later(Printer *p, const Expr *e)
{
    size_t tasks = p->tasks.n;
    task(p, TASK_ENTER, e, 0);
    if (order_before(p, e, enter_asked))
        return true;
    p->tasks.n = tasks;
    return false;
}

static void enter(Printer *p, const Expr *e)
{
    const Constant *constant = expr_as_constant(e);
    if (constant && !constant_is_literal(constant))
        put_meta(p, NULL, constant);
    if (is_atom(e))
        return;
    PrintNode *node = node_get(p, e);
    if (node->met || (p->order->early.n && enter_later(p, e)))
        return;
    node_get(p, e)->met = true;
    enter_node(p, e);
}

#define STEPS_TO_ASK 1024
#define BYTES_TO_ASK ((size_t)1 << 20)

bool print_goes_on(Printer *p)
{
    size_t written = p->text.n + p->lines.n;
    bool much = written > p->written + BYTES_TO_ASK;
    if (p->limits && (++p->steps % STEPS_TO_ASK == 0 || much) && limit_hit(p->limits))
        p->failed = true;
    if (much || written < p->written)
        p->written = written;
    return !p->text.failed && !p->lines.failed && !p->failed;
}

static void run(Printer *p)
{
    while (p->tasks.n && print_goes_on(p)) {
        Task one = vec_pop(&p->tasks);
        switch ((TaskKind)one.kind) {
        case TASK_ENTER: enter(p, one.e); break;
        case TASK_FINISH: finish(p, one.e); break;
        case TASK_ASK: ask(p, one.e); break;
        case TASK_SCOPE: scope(p, one.e); break;
        case TASK_RESULT: result(p, one.e); break;
        case TASK_LET_LINE:
            prepare_once(p, expr_as_let(one.e)->value);
            let_line(p, expr_as_let(one.e), false);
            break;
        case TASK_LET_OPEN: let_open(p, expr_as_let(one.e)); break;
        case TASK_LET_CLOSE:
            close_scope(p, ")");
            keep_doc(p, one.e);
            break;
        case TASK_FUNCTION_CLOSE: function_close(p, one.e); break;
        case TASK_IF_OPEN: if_open(p, expr_as_if(one.e)); break;
        case TASK_IF_ELSE: if_else(p, expr_as_if(one.e)); break;
        case TASK_IF_CLOSE:
            close_scope(p, "}");
            keep_doc(p, one.e);
            break;
        case TASK_MATCH_OPEN: match_open(p, expr_as_match(one.e)); break;
        case TASK_CLAUSE: clause(p, expr_as_match(one.e), one.i); break;
        }
    }
}

/* ---- counting uses ------------------------------------------------------------------------------------------------------------------------ */

static void count_child(void *data, Expr *const *slot)
{
    Printer *p = data;
    if (is_atom(*slot))
        return;
    const Function *f = expr_as_function(*slot);
    p->polymorphic = p->polymorphic || (f && f->type_params.n);
    PrintNode *node = node_get(p, *slot);
    if (node->uses++ == 0)
        task(p, TASK_ENTER, *slot, 0);
}

void print_count_uses(Printer *p, const Expr *root)
{
    PrintNode *node = is_atom(root) ? NULL : node_get(p, root);
    if (node && node->uses++ == 0)
        task(p, TASK_ENTER, root, 0);
    while (p->tasks.n && print_goes_on(p))
        ir_children(vec_pop(&p->tasks).e, count_child, p);
}

/* ---- a whole scope ---------------------------------------------------------------------------------------------------------------------- */

void print_body(Printer *p, Buf *out, const Expr *body, const char *tail)
{
    size_t from = out->n;
    p->base_indent = p->indent;
    task(p, TASK_SCOPE, body, 0);
    run(p);
    buf_str(&p->text, tail);
    doc_write(p, out, doc_end(p));
    order_check(p, buf_text(out) + from, out->n - from);
    out->failed |= p->text.failed || p->lines.failed || p->failed;
    buf_clear(&p->text);
    buf_clear(&p->lines);
}
