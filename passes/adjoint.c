#include "passes/adjoint.h"

#include "stdlib/ops/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Made {
    Str text;
    Expr *e;
} Made;

/* The text is a row's, so it is well-formed and not deep. */
typedef struct Reader {
    const AdjointCall *call;
    OpsMake m;
    const Op *op;
    const char *at;
    bool bad;
    Vec(Made) made;
    Arena scratch;
} Reader;

static Expr *read_expr(Reader *r);

static bool next_is(Reader *r, char c)
{
    r->at += strspn(r->at, " \n");
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static void *fail(Reader *r)
{
    if (!r->bad)
        diag_bug(r->m.cx->diags, r->m.span, "the gradient of `%s` cannot be read at `%s`",
                 r->op->name, r->at);
    r->bad = true;
    return NULL;
}

static Str read_name(Reader *r)
{
    const char *from = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_' ||
           (*r->at == '.' && isalpha((unsigned char)r->at[1])))
        r->at++;
    return (Str){from, (size_t)(r->at - from)};
}

/* The index of the argument of that name; -1. */
static int find_arg(const Reader *r, Str name)
{
    for (int i = 0; r->op->args[i].name; i++)
        if (str_is(name, r->op->args[i].name))
            return i;
    return -1;
}

/* ---- attributes ------------------------------------------------------------------------------------------------ */

static AttrValue read_value(Reader *r);

static AttrValue read_list(Reader *r)
{
    AttrValue items[16];
    uint32_t n = 0;
    while (!next_is(r, ']') && n < 16 && !r->bad) {
        items[n++] = read_value(r);
        next_is(r, ',');
    }
    AttrValue *at = arena_alloc_must(r->m.arena, n + 1, sizeof *at);
    memcpy(at, items, n * sizeof *at);
    return (AttrValue){.kind = ATTR_LIST, .list = {at, n}};
}

static AttrValue extent_value(Dim d)
{
    return d < 0 ? (AttrValue){.kind = ATTR_NONE} : (AttrValue){.kind = ATTR_INT, .i = d};
}

/* `%data.shape`, `%data.shape[1]`: the extents of an argument. */
static AttrValue read_shape(Reader *r)
{
    const char *from = r->at;
    r->at += strcspn(r->at, ".");
    int i = find_arg(r, (Str){from, (size_t)(r->at - from)});
    const Type *t = i >= 0 ? type_find(r->call->typed->args.at[i]->type) : NULL;
    if (!t || t->kind != TYPE_TENSOR || strncmp(r->at, ".shape", 6) != 0) {
        fail(r);
        return (AttrValue){0};
    }
    r->at += 6;
    if (*r->at == '[') {
        char *end;
        long axis = strtol(r->at + 1, &end, 10);
        r->at = end + 1;
        axis += axis < 0 ? (long)t->n : 0;
        return axis < (long)t->n ? extent_value(t->dims[axis]) : (AttrValue){.kind = ATTR_NONE};
    }
    AttrValue *at = arena_alloc_must(r->m.arena, t->n + 1, sizeof *at);
    for (uint32_t k = 0; k < t->n; k++)
        at[k] = extent_value(t->dims[k]);
    return (AttrValue){.kind = ATTR_LIST, .list = {at, t->n}};
}

static AttrValue read_number(Reader *r)
{
    char *end;
    double d = strtod(r->at, &end);
    bool real = memchr(r->at, '.', (size_t)(end - r->at)) || *end == 'f';
    AttrValue v = real ? (AttrValue){.kind = ATTR_FLOAT, .f = d}
                       : (AttrValue){.kind = ATTR_INT, .i = (int64_t)d};
    r->at = end + (*end == 'f');
    return v;
}

static AttrValue read_value(Reader *r)
{
    r->at += strspn(r->at, " \n");
    if (next_is(r, '['))
        return read_list(r);
    if (next_is(r, '%'))
        return read_shape(r);
    if (next_is(r, '"')) {
        const char *from = r->at;
        r->at += strcspn(r->at, "\"");
        return (AttrValue){.kind = ATTR_STRING, .s = {from, (size_t)(r->at++ - from)}};
    }
    if (isdigit((unsigned char)*r->at) || *r->at == '-')
        return read_number(r);
    Str name = read_name(r);
    char key[64];
    snprintf(key, sizeof key, "%.*s", (int)name.len, name.ptr);
    const AttrValue *v = attrs_find(r->call->typed->attrs, key);
    if (v)
        return *v;
    if (str_is(name, "True") || str_is(name, "False"))
        return (AttrValue){.kind = ATTR_BOOL, .b = str_is(name, "True")};
    if (!str_is(name, "None"))
        fail(r);
    return (AttrValue){.kind = ATTR_NONE};
}

/* ---- expressions ----------------------------------------------------------------------------------------------- */

/* What was made of the same words before, else e. */
static Expr *once(Reader *r, const char *from, Expr *e)
{
    size_t n = (size_t)(r->at - from);
    for (size_t i = 0; i < r->made.n; i++)
        if (r->made.at[i].text.len == n && !memcmp(r->made.at[i].text.ptr, from, n))
            return r->made.at[i].e;
    if (e)
        vec_push(&r->made, &r->scratch, ((Made){{from, n}, e}));
    return e;
}

static Expr *read_call(Reader *r, Str name)
{
    const char *begin = name.ptr;
    Expr *args[8];
    Attr attrs[16];
    uint32_t n = 0, n_attrs = 0;
    while (!next_is(r, ')') && n < 8 && n_attrs < 16 && !r->bad) {
        r->at += strspn(r->at, " \n");
        const char *from = r->at;
        Str key = read_name(r);
        if (key.len && *r->at == '=') {
            r->at++;
            attrs[n_attrs].key = arena_copy_text(r->m.arena, key.ptr, key.len);
            attrs[n_attrs].span = attrs[n_attrs].key_span = r->m.span;
            attrs[n_attrs++].value = read_value(r);
        } else {
            r->at = from;
            args[n++] = read_expr(r);
        }
        next_is(r, ',');
    }
    char op[64];
    snprintf(op, sizeof op, "%.*s", (int)name.len, name.ptr);
    return r->bad ? NULL : once(r, begin, ops_call(&r->m, op, n, args, n_attrs, attrs));
}

static Expr *read_variable(Reader *r)
{
    const char *from = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    Str name = {from, (size_t)(r->at - from)};
    int i = find_arg(r, name);
    Expr *e = str_is(name, "g")     ? r->call->grad
              : str_is(name, "out") ? r->call->out
              : i >= 0              ? r->call->args[i]
                                    : fail(r);
    if (e && *r->at == '.') {
        char *end;
        long field = strtol(r->at + 1, &end, 10);
        r->at = end;
        e = expr_tuple_get(r->m.arena, r->m.span, e, field);
    }
    return e;
}

static Expr *read_literal(Reader *r)
{
    const char *begin = r->at;
    char *end;
    double d = strtod(r->at, &end);
    DType t = {DTYPE_CODE_INT, 32, 1};
    if (*end == 'f' || *end == 'i') {
        t.code = *end == 'f' ? DTYPE_CODE_FLOAT : DTYPE_CODE_INT;
        long bits = strtol(end + 1, &end, 10);
        t.bits = bits ? (uint8_t)bits : 32;
    }
    r->at = end;
    return once(r, begin, ops_constant(&r->m, t, d));
}

static Expr *read_tuple(Reader *r)
{
    Expr *fields[8];
    uint32_t n = 0;
    while (!next_is(r, ')') && n < 8 && !r->bad) {
        fields[n++] = read_expr(r);
        next_is(r, ',');
    }
    return r->bad ? NULL : expr_tuple(r->m.arena, r->m.span, n, fields);
}

static Expr *read_expr(Reader *r)
{
    r->at += strspn(r->at, " \n");
    if (next_is(r, '%'))
        return read_variable(r);
    if (next_is(r, '('))
        return read_tuple(r);
    if (isdigit((unsigned char)*r->at) || *r->at == '-')
        return read_literal(r);
    Str name = read_name(r);
    return next_is(r, '(') ? read_call(r, name) : fail(r);
}

bool adjoints(const AdjointCall *call, Expr **out)
{
    Reader r = {.call = call,
                .m = {call->cx, call->arena, call->typed->base.span},
                .op = expr_call_of_op(&call->typed->base)};
    uint32_t n = call->typed->args.n;
    if (!r.op->grad) {
        Diag *d = diag_error(call->cx->diags, E0605_NO_GRADIENT, r.m.span, "`%s` has no gradient",
                             r.op->name);
        diag_help(d, "`:doc %s` shows what the operator is", r.op->name);
        return false;
    }
    r.at = r.op->grad;
    arena_init(&r.scratch, NULL);
    Expr *all = read_expr(&r);
    const Tuple *several = n == 1 ? NULL : expr_as_tuple(all);
    for (uint32_t i = 0; all && i < n; i++)
        out[i] = several && i < several->fields.n ? several->fields.at[i] : all;
    arena_deinit(&r.scratch);
    return all != NULL;
}
