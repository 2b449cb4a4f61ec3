#include "passes/adjoint.h"

#include "stdlib/ops/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What words stand for: a name that a `let` binds, or a part of the rule. */
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
    int64_t field; /* of the tuple that is the argument, in each(…) */
    Expr *parts;   /* part(…): the gradient, split like that tuple */
    bool bad;
    Vec(Made) made;
    Vec(Made) named;
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

/* `%data.shape`, `%data.shape[1]`, `%data.dtype`: the extents and the elements' type of an argument, or of the result %out. */
static AttrValue read_type(Reader *r)
{
    const char *from = r->at;
    r->at += strcspn(r->at, ".");
    Str name = {from, (size_t)(r->at - from)};
    const Call *call = r->call->typed;
    int i = find_arg(r, name);
    const Expr *e = i >= 0 ? call->args.at[i] : str_is(name, "out") ? &call->base : NULL;
    const Type *t = e ? type_find(e->type) : NULL;
    if (t && t->kind == TYPE_TENSOR && strncmp(r->at, ".dtype", 6) == 0) {
        r->at += 6;
        return ops_attr_dtype(&r->m, "dtype", t->dtype).value;
    }
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

/* A list of whole numbers. */
static AttrValue ints_value(Reader *r, uint32_t n, const int64_t *v)
{
    AttrValue *at = arena_alloc_must(r->m.arena, n + 1, sizeof *at);
    for (uint32_t i = 0; i < n; i++)
        at[i] = (AttrValue){.kind = ATTR_INT, .i = v[i]};
    return (AttrValue){.kind = ATTR_LIST, .list = {at, n}};
}

static const Type *arg_type(const Reader *r, uint32_t i)
{
    return type_find(r->call->typed->args.at[i]->type);
}

/* inverse(axes): the permutation that undoes another. */
static AttrValue inverse_of(Reader *r, AttrValue axes)
{
    int64_t v[TENSOR_RANK_MOST];
    for (uint32_t i = 0; axes.kind == ATTR_LIST && i < axes.list.n; i++) {
        int64_t a = axes.list.at[i].i;
        v[a < 0 ? a + axes.list.n : a] = i;
    }
    return axes.kind == ATTR_LIST ? ints_value(r, axes.list.n, v) : axes;
}

/* cuts(axis): where the tensors of the argument end along an axis of all of them, but the last. */
static AttrValue cuts_of(Reader *r, int64_t axis)
{
    const Type *t = arg_type(r, 0);
    int64_t v[256], end = 0;
    uint32_t n = t->n < 256 ? t->n : 256;
    for (uint32_t i = 0; i + 1 < n; i++) {
        const Type *one = type_find(t->parts[i]);
        end += one->dims[axis < 0 ? axis + one->n : axis];
        v[i] = end;
    }
    return ints_value(r, n ? n - 1 : 0, v);
}

/* A convolution over two axes: the extents of its data as NCHW and of its weight as OIHW. That of a gradient by the weight has the
 * result in place of the weight, and the kernel's extents as an attribute. */
static bool window_extents(Reader *r, Dim *data, Dim *weight)
{
    const Attrs *a = r->call->typed->attrs;
    int x = find_arg(r, str_of("data")), w = find_arg(r, str_of("weight")), at[4];
    const Type *t = x < 0 ? NULL : arg_type(r, (uint32_t)x);
    bool ok = t && layout_positions(attrs_string(a, "data_layout"), "NCHW", at);
    for (int i = 0; ok && i < 4; i++)
        data[i] = t->dims[at[i]];
    ok = ok && layout_positions(attrs_string(a, "kernel_layout"), "OIHW", at);
    for (int i = 0; ok && w >= 0 && i < 4; i++)
        weight[i] = arg_type(r, (uint32_t)w)->dims[at[i]];
    if (!ok || w >= 0)
        return ok;
    int64_t groups = attrs_int(a, "groups", 1);
    weight[0] = arg_type(r, 0)->dims[1];
    weight[1] = data[1] / (groups ? groups : 1);
    ops_ints(a, "kernel_size", 2, weight + 2);
    return true;
}

/* kernel(), the extents of the kernel; left(), the elements at the end of each axis of the data that no window reaches; grouped(),
 * the extents of the weight in OIHW with a row for each channel of the result, where one of a channel by itself may have a row for
 * each channel of the data. */
static AttrValue window_value(Reader *r, Str name)
{
    const Attrs *a = r->call->typed->attrs;
    int64_t before[2], after[2], strides[2], dilation[2], v[2];
    Dim x[4], w[4];
    if (!window_extents(r, x, w))
        return fail(r), (AttrValue){0};
    if (str_is(name, "kernel"))
        return ints_value(r, 2, w + 2);
    if (str_is(name, "grouped")) {
        int64_t deep = x[1] / attrs_int(a, "groups", 1), all = w[0] * w[1];
        return ints_value(r, 4, (int64_t[]){all / (deep ? deep : 1), deep, w[2], w[3]});
    }
    ops_padding(a, "padding", 2, before, after);
    ops_ints(a, "strides", 2, strides);
    ops_ints(a, "dilation", 2, dilation);
    for (int i = 0; i < 2; i++) {
        int64_t reach = (w[2 + i] - 1) * dilation[i] + 1;
        v[i] = (x[2 + i] + before[i] + after[i] - reach) % strides[i];
    }
    return ints_value(r, 2, v);
}

/* known(): each extent of the argument is. share(): one over the number of elements that the reduction
 * folds to each of the result. */
static AttrValue reduced_value(Reader *r, bool share)
{
    const Type *t = arg_type(r, 0);
    bool on[TENSOR_RANK_MOST], known = true;
    int64_t bad;
    double part = 1;
    if (!ops_reduced_axes(r->call->typed->attrs, (int)t->n, on, &bad))
        return fail(r), (AttrValue){0};
    for (uint32_t i = 0; i < t->n; i++) {
        known &= t->dims[i] >= 0;
        part /= on[i] ? (double)t->dims[i] : 1;
    }
    return share ? (AttrValue){.kind = ATTR_FLOAT, .f = part}
                 : (AttrValue){.kind = ATTR_BOOL, .b = known};
}

/* A function of attributes: its name was read. is(attribute, "text"): the attribute is that text, or number. */
static AttrValue read_function(Reader *r, Str name)
{
    bool some = !next_is(r, ')');
    AttrValue v = some ? read_value(r) : (AttrValue){0};
    if (str_is(name, "is") && next_is(r, ',')) {
        AttrValue other = read_value(r);
        bool same = v.kind == other.kind && (v.kind == ATTR_INT      ? v.i == other.i
                                             : v.kind == ATTR_STRING ? str_eq(v.s, other.s)
                                                                     : false);
        return next_is(r, ')') ? (AttrValue){.kind = ATTR_BOOL, .b = same} : (fail(r), v);
    }
    if (some && !next_is(r, ')'))
        fail(r);
    if (str_is(name, "not"))
        return (AttrValue){.kind = ATTR_BOOL, .b = !v.b};
    if (str_is(name, "inverse"))
        return inverse_of(r, v);
    if (str_is(name, "cuts"))
        return cuts_of(r, v.i);
    if (str_is(name, "known") || str_is(name, "share"))
        return reduced_value(r, str_is(name, "share"));
    if (str_is(name, "result_layout"))
        return (AttrValue){.kind = ATTR_STRING,
                           .s = ops_out_layout(r->call->typed->attrs, "data_layout", "out_layout")};
    if (!str_is(name, "left") && !str_is(name, "kernel") && !str_is(name, "grouped"))
        fail(r);
    return window_value(r, name);
}

static AttrValue read_value(Reader *r)
{
    r->at += strspn(r->at, " \n");
    if (next_is(r, '['))
        return read_list(r);
    if (next_is(r, '%'))
        return read_type(r);
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
    if (next_is(r, '('))
        return read_function(r, name);
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

/* The tensor type of what stands for an argument or for the gradient; NULL for other parts. */
static const Type *type_of_part(const Reader *r, const Expr *e)
{
    const Call *typed = r->call->typed;
    const Type *t = e == r->call->grad ? typed->base.type : NULL;
    for (uint32_t i = 0; i < typed->args.n && !t; i++)
        t = e == r->call->args[i] ? typed->args.at[i]->type : NULL;
    t = t ? type_find(t) : NULL;
    return t && t->kind == TYPE_TENSOR ? t : NULL;
}

/* The extents are those that the part has already. */
static bool has_shape(const Reader *r, const Expr *e, const AttrValue *shape)
{
    const Type *t = type_of_part(r, e);
    bool same = t && shape->kind == ATTR_LIST && shape->list.n == t->n;
    for (uint32_t i = 0, free = 0; same && i < t->n; i++) {
        const AttrValue *d = &shape->list.at[i];
        free += d->i == -1;
        same = d->kind == ATTR_INT && free < 2 && (d->i == -1 || d->i == t->dims[i]);
    }
    return same;
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
    bool layouts = !r->bad && str_is(name, "layout_transform");
    if (layouts && str_eq(attrs[0].value.s, attrs[1].value.s))
        return args[0];
    bool reshaped = !r->bad && str_is(name, "reshape") && n == 1 && n_attrs == 1;
    if (reshaped && has_shape(r, args[0], &attrs[0].value))
        return args[0];
    return r->bad ? NULL : once(r, begin, ops_call(&r->m, op, n, args, n_attrs, attrs));
}

static Expr *read_variable(Reader *r)
{
    const char *from = r->at;
    while (isalnum((unsigned char)*r->at) || *r->at == '_')
        r->at++;
    Str name = {from, (size_t)(r->at - from)};
    int i = find_arg(r, name);
    for (size_t k = 0; k < r->named.n; k++)
        if (str_eq(r->named.at[k].text, name))
            return r->named.at[k].e;
    return str_is(name, "g")     ? r->call->grad
           : str_is(name, "out") ? r->call->out
           : i >= 0              ? r->call->args[i]
                                 : fail(r);
}

/* let %name = E; E: each name stands for one thing in a rule. */
static Expr *read_let(Reader *r)
{
    if (!next_is(r, '%'))
        return fail(r);
    Str name = read_name(r);
    Expr *e = next_is(r, '=') ? read_expr(r) : NULL;
    if (!e || !next_is(r, ';'))
        return fail(r);
    vec_push(&r->named, &r->scratch, ((Made){name, e}));
    return read_expr(r);
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

/* given(attribute, A, B): A where the attribute is True or a value, B where it is False or None. */
static Expr *read_choice(Reader *r)
{
    AttrValue v = read_value(r);
    bool first = v.kind == ATTR_BOOL ? v.b : v.kind != ATTR_NONE;
    next_is(r, ',');
    Expr *a = read_expr(r);
    next_is(r, ',');
    Expr *b = read_expr(r);
    return !next_is(r, ')') ? fail(r) : first ? a : b;
}

/* each(E): a tuple with E for each field of the argument. */
static Expr *read_each(Reader *r)
{
    const Type *t = arg_type(r, 0);
    const char *from = r->at;
    size_t made = r->made.n;
    Expr **fields = arena_alloc_must(r->m.arena, t->n + 1, sizeof(Expr *));
    for (uint32_t i = 0; i < t->n; i++) {
        r->at = from;
        r->field = i;
        fields[i] = read_expr(r);
        r->made.n = made;
    }
    return !next_is(r, ')') ? fail(r) : expr_tuple(r->m.arena, r->m.span, t->n, fields);
}

/* of(value, E): a scalar of the type of the elements of E, an argument. */
static Expr *read_scalar(Reader *r)
{
    AttrValue v = read_value(r);
    next_is(r, ',');
    const Expr *like = read_expr(r);
    const Type *t = type_of_part(r, like);
    if (!t || !next_is(r, ')'))
        return fail(r);
    return ops_constant(&r->m, t->dtype, v.kind == ATTR_INT ? (double)v.i : v.f);
}

/* expanded(E): with the axes that the call folded, as extents of 1. */
static Expr *read_expanded(Reader *r)
{
    const Attrs *a = r->call->typed->attrs;
    int rank = (int)arg_type(r, 0)->n;
    bool on[TENSOR_RANK_MOST];
    int64_t bad;
    Expr *e = read_expr(r);
    if (!next_is(r, ')') || !ops_reduced_axes(a, rank, on, &bad))
        return fail(r);
    for (int i = 0; i < rank && !attrs_bool(a, "keepdims"); i++)
        if (on[i])
            e = ops_call(&r->m, "expand_dims", 1, &e, 1, (Attr[]){ops_attr_int("axis", i)});
    return e;
}

/* squeezed(E): without the axes that the call made. */
static Expr *read_squeezed(Reader *r)
{
    const Attrs *a = r->call->typed->attrs;
    int64_t axis = attrs_int(a, "axis", 0), n = attrs_int(a, "num_newaxis", 1);
    Expr *e = read_expr(r);
    for (int64_t i = 0; i < n; i++)
        e = ops_call(&r->m, "squeeze", 1, &e, 1, (Attr[]){ops_attr_ints(&r->m, "axis", 1, &axis)});
    return next_is(r, ')') ? e : fail(r);
}

/* part(E): in each(…), what of E, split along `axis`, belongs to the field. */
static Expr *read_part(Reader *r)
{
    Expr *e = read_expr(r);
    if (!r->parts)
        r->parts =
            ops_call(&r->m, "split", 1, &e, 2,
                     (Attr[]){ops_attr_int("indices_or_sections", arg_type(r, 0)->n),
                              ops_attr_int("axis", attrs_int(r->call->typed->attrs, "axis", 0))});
    return next_is(r, ')') ? expr_tuple_get(r->m.arena, r->m.span, r->parts, r->field) : fail(r);
}

static Expr *(*find_form(Str name))(Reader *)
{
    static const struct {
        const char *name;
        Expr *(*read)(Reader *);
    } forms[] = {{"given", read_choice},      {"each", read_each},         {"of", read_scalar},
                 {"expanded", read_expanded}, {"squeezed", read_squeezed}, {"part", read_part}};
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (str_is(name, forms[i].name))
            return forms[i].read;
    return NULL;
}

static Expr *read_primary(Reader *r)
{
    r->at += strspn(r->at, " \n");
    if (next_is(r, '%'))
        return read_variable(r);
    if (next_is(r, '('))
        return read_tuple(r);
    if (isdigit((unsigned char)*r->at) || *r->at == '-')
        return read_literal(r);
    Str name = read_name(r);
    if (str_is(name, "let"))
        return read_let(r);
    if (!next_is(r, '('))
        return fail(r);
    Expr *(*read)(Reader *) = find_form(name);
    return read ? read(r) : read_call(r, name);
}

static Expr *read_expr(Reader *r)
{
    r->at += strspn(r->at, " \n");
    const char *from = r->at;
    Expr *e = read_primary(r);
    if (!e || *r->at != '.')
        return e;
    char *end;
    long field = strtol(r->at + 1, &end, 10);
    r->at = end;
    return once(r, from, expr_tuple_get(r->m.arena, r->m.span, e, field));
}

static bool holds_real(const Type *t)
{
    t = type_find(t);
    bool real = t->kind == TYPE_TENSOR && dtype_is_float(t->dtype);
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
        real |= holds_real(t->parts[i]);
    return real;
}

static Expr *zeros_of(const OpsMake *m, const Type *t, Expr *e)
{
    t = type_find(t);
    if (t->kind != TYPE_TUPLE)
        return ops_call1(m, "zeros_like", e);
    Expr **fields = arena_alloc_must(m->arena, t->n + 1, sizeof *fields);
    for (uint32_t i = 0; i < t->n; i++)
        fields[i] = zeros_of(m, t->parts[i], expr_tuple_get(m->arena, m->span, e, i));
    return expr_tuple(m->arena, m->span, t->n, fields);
}

static bool has_none(const AdjointCall *call, const Op *op)
{
    Diag *d = diag_error(call->cx->diags, E0605_NO_GRADIENT, call->typed->base.span,
                         op->no_grad ? "`%s` has no gradient: %s" : "`%s` has no gradient",
                         op->name, op->no_grad);
    diag_help(d, "`:doc %s` shows what the operator is", op->name);
    return false;
}

/* Of a row with words: those; they are one tuple for several arguments. */
static bool read_row(Reader *r, Expr **out)
{
    uint32_t n = r->call->typed->args.n;
    r->at = r->op->grad;
    arena_init(&r->scratch, NULL);
    Expr *all = read_expr(r);
    const Tuple *several = n == 1 ? NULL : expr_as_tuple(all);
    for (uint32_t i = 0; all && i < n; i++)
        out[i] = several && i < several->fields.n ? several->fields.at[i] : all;
    arena_deinit(&r->scratch);
    return all != NULL;
}

bool adjoints(const AdjointCall *call, Expr **out)
{
    const Call *typed = call->typed;
    Reader r = {.call = call,
                .m = {call->cx, call->arena, typed->base.span},
                .op = expr_call_of_op(&typed->base)};
    if (r.op->grad)
        return read_row(&r, out);
    bool real = false;
    for (uint32_t i = 0; i < typed->args.n; i++)
        real |= holds_real(typed->args.at[i]->type);
    if (real && holds_real(typed->base.type))
        return (r.op->compute || r.op->expression) && !r.op->no_grad
                   ? ops_adjoints(&r.m, typed, call->args, call->grad, out)
                   : has_none(call, r.op);
    for (uint32_t i = 0; i < typed->args.n; i++)
        out[i] = zeros_of(&r.m, typed->args.at[i]->type, call->args[i]);
    return true;
}
