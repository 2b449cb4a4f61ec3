/* Calls: arguments, attributes, and what they become. */
#include "parser/internal.h"

#include <string.h>

/* The original knows attributes by a word and `=`. */
static void check_first_key(Parser *p)
{
    if (parse_at_attr(p) && p->lx.text[p->tok.to] == '.')
        parse_wider(p, token_span(p, p->tok), "a key of several words before all others",
                    "write another attribute first");
}

static bool call_finish(Parser *p);

bool call_begin(Parser *p)
{
    Operand callee = p->value;
    Frame *f = parse_frame_push(p, FRAME_ARGS, callee.from);
    f->left = callee;
    f->open = p->tok.from;
    parse_advance(p);
    return call_continue(p);
}

/* A reference to the metadata that is no constant stands for all attributes at once. */
static bool at_record(const Parser *p)
{
    return parse_at(p, TOKEN_META) && !parse_at_meta_expr(p);
}

/* Attributes stand behind the arguments, up to the closing parenthesis; the commas between them may be missing. */
static bool attrs_continue(Parser *p)
{
    while (!parse_at(p, TOKEN_RPAREN)) {
        bool expr;
        if (at_record(p)) {
            const OpRef *op = expr_as_op(frame_top(p)->left.e);
            if (!parse_meta_record(p, op ? op->op : NULL))
                return false;
            parse_take(p, TOKEN_COMMA);
            continue;
        }
        if (!parse_at_attr(p)) {
            Diag *d = parse_expected(p, E0104_EXPECTED_TOKEN, "an attribute or `)`");
            diag_help(d, "arguments stand before the attributes");
            return false;
        }
        if (!parse_attr(p, &expr))
            return false;
        if (expr) {
            parse_frame_push(p, FRAME_ATTR, p->tok.from);
            p->state = STATE_OPERAND;
            return true;
        }
        if (!parse_take(p, TOKEN_COMMA) && !parse_at(p, TOKEN_RPAREN) && !parse_at_attr(p)) {
            bool more;
            return parse_separator(p, TOKEN_RPAREN, frame_top(p)->open, &more);
        }
    }
    return call_finish(p);
}

bool call_continue(Parser *p)
{
    if (parse_at(p, TOKEN_RPAREN))
        return call_finish(p);
    check_first_key(p);
    if (parse_at_attr(p) || at_record(p))
        return attrs_continue(p);
    p->state = STATE_STATEMENT;
    return true;
}

bool close_attr(Parser *p)
{
    Attr *attr = &vec_last(&p->attrs);
    attr->value = (AttrValue){.kind = ATTR_EXPR, .e = p->value.e};
    attr->span = parse_span(p, p->value.from, p->value.to);
    parse_frame_pop(p);
    parse_take(p, TOKEN_COMMA);
    return attrs_continue(p);
}

bool close_args(Parser *p)
{
    bool more;
    vec_push(&p->args, &p->scratch, p->value);
    if (!parse_separator(p, TOKEN_RPAREN, frame_top(p)->open, &more))
        return false;
    return call_continue(p);
}

/* ---- attributes of an operator ----------------------------------------------------------------------------------------- */

/* A number for an attribute that is an expression stands for a constant. */
static void make_constant(Parser *p, Attr *a)
{
    Value v;
    if (a->value.kind == ATTR_INT)
        v = value_scalar_int(a->value.dtype.bits ? a->value.dtype : dtype_of(DT_INT32), a->value.i);
    else if (a->value.kind == ATTR_FLOAT)
        v = value_scalar_double(a->value.dtype.bits ? a->value.dtype : dtype_of(DT_FLOAT32),
                                a->value.f);
    else if (a->value.kind == ATTR_BOOL)
        v = value_bool(a->value.b);
    else
        return;
    a->value = (AttrValue){.kind = ATTR_EXPR, .e = expr_constant(p->arena, a->span, v)};
}

static const OpAttr *attr_schema(const Op *op, const char *key)
{
    for (const OpAttr *field = op->attrs; field && field->name; field++)
        if (field->name[0] == key[0] && !strcmp(field->name, key))
            return field;
    return NULL;
}

/* Calls that give no attributes share one record. */
static const Attrs *default_attrs(Parser *p, const Op *op, Span span)
{
    const Attrs *kept = ptrmap_find(&p->defaults, op);
    if (kept)
        return kept;
    kept = attrs_check(p->cx, p->arena, op->name, op->attrs, NULL, span);
    if (kept)
        ptrmap_put(&p->defaults, op, (Attrs *)(uintptr_t)kept);
    else
        parse_count_name(p);
    return kept;
}

/* What is no attribute may be an argument that is written like one. */
static bool names_argument(Parser *p, const Op *op, const Attr *a)
{
    for (int k = 0; k < op_arity(op); k++) {
        if (strcmp(op->args[k].name, a->key) != 0)
            continue;
        Diag *d =
            parse_error(p, E0114_ATTRIBUTE_UNKNOWN, a->key_span,
                        "`%s` is argument %d of `%s` and no attribute", a->key, k + 1, op->name);
        diag_help(d, "arguments stand in order, without names, before the attributes");
        return true;
    }
    return false;
}

/* False when an argument stands among the attributes. */
static bool prepare(Parser *p, const Op *op, Attrs *written)
{
    for (uint32_t i = 0; i < written->n; i++) {
        const OpAttr *field = attr_schema(op, written->at[i].key);
        if (!field && names_argument(p, op, &written->at[i]))
            return false;
        if (field && field->type == ATTR_TYPE_EXPR)
            make_constant(p, &written->at[i]);
    }
    return true;
}

/* `whole`: nothing between the parentheses was passed over. */
static const Attrs *op_attrs(Parser *p, const Op *op, Attrs *written, bool whole, Span span)
{
    bool some = op->attrs && op->attrs->name;
    if (p->env->template)
        return written ? arena_copy(p->arena, written,
                                    sizeof *written + written->n * sizeof *written->at)
                       : NULL;
    if (!written)
        return some ? default_attrs(p, op, span) : NULL;
    if (!some && written->n == 1 && !*written->at[0].key)
        return arena_copy(p->arena, written, sizeof *written + sizeof *written->at);
    strict_attrs(p, op, written);
    if (!prepare(p, op, written))
        return NULL;
    size_t before = p->cx->diags->errors;
    const Attrs *record = (whole ? attrs_check : attrs_check_some)(p->cx, p->arena, op->name,
                                                                   op->attrs, written, span);
    uint32_t wrong = (uint32_t)(p->cx->diags->errors - before);
    p->errors += wrong;
    p->passable += wrong;
    if (record)
        strict_earlier(p, op, written, span);
    return record;
}

static const Attrs *other_attrs(Parser *p, const Expr *callee, const Attrs *written)
{
    bool whole = written && !*written->at[0].key;
    if (!written || whole || callee == p->poison || attrs_find(written, "attrs_type_key"))
        return written;
    Diag *d = parse_error(p, E0114_ATTRIBUTE_UNKNOWN, written->at[0].key_span,
                          "`%s` is no attribute: only operators take some", written->at[0].key);
    diag_help(d, "the arguments of a function stand in order, without names");
    return NULL;
}

/* An argument could not be read: it may have been meant as an attribute. Behind attributes that were read only text that was passed
 * over may, in whose place stands what has none (parse_recover). */
static bool is_broken(const Parser *p, uint32_t n, const Operand *args, bool attrs)
{
    for (uint32_t i = 0; i < n && p->errors; i++)
        if (args[i].e == p->poison && (!attrs || args[i].from == args[i].to))
            return true;
    return false;
}

static bool call_finish(Parser *p)
{
    Frame f = *frame_top(p);
    uint32_t n = (uint32_t)p->args.n - f.args;
    const Operand *args = p->args.at + f.args;
    Span span = parse_span(p, f.from, p->tok.to);
    OpRef *op = expr_as_op(f.left.e);
    /* What an operator keeps is a record of its own. */
    Attrs *written = op ? parse_attrs_lend(p, f.attrs) : NULL;
    const Attrs *attrs = NULL;
    uint32_t errors = p->errors;
    bool broken = op && is_broken(p, n, args, written);
    if (!op)
        attrs = other_attrs(p, f.left.e, parse_attrs_take(p, f.attrs));
    else if (!broken || written)
        attrs = op_attrs(p, op->op, written, !broken, span);
    /* What an operator gives is not known without its attributes. */
    Expr *e = broken || (op && p->errors > errors) ? p->poison
                                                   : make_call(p, span, &f.left, n, args, attrs);
    if (f.left.e == p->poison)
        p->blamed_to = span.to;
    parse_frame_pop(p);
    parse_advance(p);
    set_value(p, e, f.from, span.to);
    return true;
}

/* ---- attributes of a function -------------------------------------------------------------------------------------------- */

static void find_name(void *data, Expr *e)
{
    *(bool *)data |= e->kind != EXPR_CONSTANT;
}

/* Where an expression may not stand, a constant may: it is data. */
static bool function_attr(Parser *p)
{
    bool expr, names = false;
    if (!parse_attr(p, &expr))
        return false;
    Attr *a = &vec_last(&p->attrs);
    if (expr && parse_at_meta_expr(p)) {
        a->span = token_span(p, p->tok);
        return parse_meta_value(p, &a->value);
    }
    attr_value_exprs(&a->value, find_name, &names);
    if (!expr && !names)
        return true;
    Diag *d = expr ? parse_expected(p, E0116_ATTRIBUTE_VALUE, "the value of an attribute")
                   : parse_error(p, E0116_ATTRIBUTE_VALUE, a->span,
                                 "the attributes of a function do not depend on variables");
    diag_help(d, "attributes of functions are numbers, strings and lists");
    return false;
}

/* `key=value` up to the closing bracket; a boolean is kept as 0 or 1. */
bool function_attrs(Parser *p, TokenKind close, const Attrs **out)
{
    uint32_t base = (uint32_t)p->attrs.n;
    check_first_key(p);
    while (!parse_at(p, close)) {
        if (!parse_at_attr(p)) {
            parse_expected(p, E0104_EXPECTED_TOKEN,
                           close == TOKEN_RPAREN ? "an attribute or `)`" : "an attribute or `}`");
            return false;
        }
        if (!function_attr(p))
            return false;
        Attr *a = &vec_last(&p->attrs);
        if (a->value.kind == ATTR_BOOL)
            a->value = (AttrValue){.kind = ATTR_INT, .i = a->value.b};
        uint32_t last = (uint32_t)p->attrs.n - 1;
        Meaning *m = symbol_meaning(p, symbol_get(p, str_of(a->key)));
        if (m->attr_at >= base && m->attr_at < last && p->attrs.at[m->attr_at].key == a->key)
            parse_error(p, E0113_DUPLICATE, a->key_span, "attribute `%s` is given twice", a->key);
        m->attr_at = last;
        parse_take(p, TOKEN_COMMA);
    }
    *out = parse_attrs_take(p, base);
    return true;
}
