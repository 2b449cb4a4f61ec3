/* Calls of operators: a sample of the row, changed until its relation agrees. */
#include "parser/parser.h"
#include "tests/random/internal.h"

#include <stdlib.h>
#include <string.h>

/* ---- reading samples */

typedef struct Reader {
    Gen *g;
    const char *at;
    /* What becomes of an extent and of an element type of the sample. */
    Dim extents[16];
    DType from, to;
} Reader;

static bool take(Reader *r, char c)
{
    r->at += strspn(r->at, " ");
    if (*r->at != c)
        return false;
    r->at++;
    return true;
}

static const Type *read_tensor(Reader *r)
{
    Dim dims[8];
    uint32_t rank = 0;
    r->at += strspn(r->at, " ");
    size_t n = strcspn(r->at, "[,) ");
    DType dtype;
    if (!dtype_parse((Str){r->at, n}, &dtype))
        return NULL;
    r->at += n;
    if (take(r, '['))
        do
            dims[rank++] = strtoll(r->at, (char **)(uintptr_t)&r->at, 10);
        while (take(r, ','));
    if (rank)
        take(r, ']');
    for (uint32_t i = 0; i < rank; i++)
        if (dims[i] >= 0 && dims[i] < 16)
            dims[i] = r->extents[dims[i]];
    return type_tensor(r->g->cx, dtype_eq(dtype, r->from) ? r->to : dtype, rank, dims);
}

static const Type *read_type(Reader *r)
{
    const Type *fields[ARGS_MOST];
    uint32_t n = 0;
    r->at += strspn(r->at, " ");
    if (!take(r, '('))
        return read_tensor(r);
    do
        fields[n] = read_tensor(r);
    while (fields[n++] && n < ARGS_MOST && take(r, ','));
    take(r, ')');
    return fields[n - 1] ? type_tuple(r->g->cx, n, fields) : NULL;
}

/* The end of an attribute's value: a comma or parenthesis outside brackets and strings. */
static const char *value_end(const char *p)
{
    int depth = 0;
    for (bool text = false; *p; p++) {
        if (*p == '"')
            text = !text;
        if (text)
            continue;
        if (depth == 0 && (*p == ',' || *p == ')'))
            return p;
        depth += (*p == '[') - (*p == ']');
    }
    return p;
}

static bool read_attr(Reader *r, Sample *s)
{
    Gen *g = r->g;
    size_t key = strcspn(r->at, "=");
    const char *value = r->at + key + 1, *end = value_end(value);
    uint32_t source = sources_add(&g->cx->sources, "sample", value, (size_t)(end - value));
    AttrValue v;
    if (!parse_attr_value(g->cx, g->arena, source, (Span){source, 0, (uint32_t)(end - value)}, &v))
        return false;
    s->written = attrs_with(g->arena, s->written, arena_copy_text(g->arena, r->at, key), v);
    r->at = end;
    return true;
}

/* The sample that begins at the reader's place. */
static bool read_sample(Reader *r, Sample *s)
{
    if (!take(r, '('))
        return false;
    while (!take(r, ')')) {
        r->at += strspn(r->at, " ");
        size_t word = strcspn(r->at, "=,)");
        bool good = r->at[word] == '=' && *r->at != '('
                        ? read_attr(r, s)
                        : s->n < ARGS_MOST && (s->args[s->n++] = read_type(r)) != NULL;
        if (!good)
            return false;
        take(r, ',');
    }
    return true;
}

static int samples_of(const Op *op)
{
    int n = 0, depth = 0;
    for (const char *p = op->samples; *p; p++) {
        n += *p == '(' && depth == 0;
        depth += (*p == '(') - (*p == ')');
    }
    return n;
}

static const char *sample_at(const Op *op, int index)
{
    const char *p = op->samples;
    for (int depth = 0; *p; p++) {
        if (*p == '(' && depth == 0 && index-- == 0)
            return p;
        depth += (*p == '(') - (*p == ')');
    }
    return p;
}

/* ---- changing them */

static AttrValue random_attr(Gen *g, const OpAttr *schema, const AttrValue *old)
{
    AttrValue v = *old;
    DTypeId id = (DTypeId)below(g, DTYPE_IDS);
    switch (schema->type) {
    case ATTR_TYPE_INT: return (AttrValue){.kind = ATTR_INT, .i = between(g, -2, 3)};
    case ATTR_TYPE_INT_OR_INTS:
        if (v.kind != ATTR_LIST)
            return (AttrValue){.kind = ATTR_INT, .i = between(g, -2, 3)};
        break;
    case ATTR_TYPE_BOOL: return (AttrValue){.kind = ATTR_BOOL, .b = once_in(g, 2)};
    case ATTR_TYPE_FLOAT:
        return (AttrValue){.kind = ATTR_FLOAT, .f = (double)between(g, -8, 8) / 4};
    case ATTR_TYPE_DTYPE: return (AttrValue){.kind = ATTR_STRING, .s = str_of(dtype_row(id)->name)};
    case ATTR_TYPE_INTS: break;
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_INT_LISTS:
    case ATTR_TYPE_FLOATS:
    case ATTR_TYPE_EXPR:
    case ATTR_TYPE_INTS_OR_EXPR:
    case ATTR_TYPE_DEVICE:
    case ATTR_TYPE_ANY:
    case ATTR_TYPE_DICT:
    case ATTR_TYPE_STRING_LISTS:
    case ATTR_TYPE_STRINGS: return v;
    }
    if (v.kind != ATTR_LIST || v.list.n == 0)
        return v;
    AttrValue *at = arena_copy(g->arena, v.list.at, v.list.n * sizeof *at);
    at[below(g, v.list.n)] = (AttrValue){.kind = ATTR_INT, .i = between(g, -1, 3)};
    v.list.at = at;
    return v;
}

static void change_attrs(Gen *g, Sample *s)
{
    for (const OpAttr *a = s->op->attrs; a && a->name; a++) {
        const AttrValue *old = attrs_find(s->written, a->name);
        if (!once_in(g, 3))
            continue;
        AttrValue now = random_attr(g, a, old ? old : &a->otherwise);
        if (now.kind != ATTR_NONE && now.kind != ATTR_EXPR)
            s->written = attrs_with(g->arena, s->written, a->name, now);
    }
}

/* All arguments of one shape get another shape in common. */
static void change_shape(Gen *g, Sample *s)
{
    Dim dims[SHAPE_MOST];
    uint32_t rank = random_shape(g, 25, dims);
    for (uint32_t i = 0; i < s->n; i++)
        if (s->args[i]->kind == TYPE_TENSOR)
            s->args[i] = type_tensor(g->cx, s->args[i]->dtype, rank, dims);
}

/* A relation that computes less than nothing: numbers below `?` stand for symbolic extents. */
static bool negative(const Type *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->kind == TYPE_TENSOR ? t->dims[i] < DIM_ANY : negative(t->parts[i]))
            return true;
    return false;
}

static bool small(const Type *t)
{
    int64_t size = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        if (t->kind == TYPE_TUPLE && !small(t->parts[i]))
            return false;
        if (t->kind == TYPE_TENSOR && (size *= t->dims[i] < 0 ? 1 : t->dims[i]) > 2000)
            return false;
    }
    return t->kind == TYPE_TENSOR || t->kind == TYPE_TUPLE;
}

/* What the call gives; NULL when it is wrong, about which nothing is said. */
static const Type *type_of_call(Gen *g, Sample *s)
{
    Diags *kept = g->cx->diags;
    g->cx->diags = &g->quiet;
    s->attrs = attrs_check(g->cx, g->arena, s->op->name, s->op->attrs, s->written, (Span){0});
    const Type *t = NULL;
    if (s->attrs || !s->op->attrs)
        t = op_type(g->cx, s->op, s->attrs, (Span){0}, s->n, s->args, NULL);
    g->cx->diags = kept;
    diags_clear(&g->quiet);
    if (!t || t->open || type_is_poison(t) || !small(t))
        return NULL;
    if (g->stats && negative(t))
        ++*(size_t *)ptrmap_slot(&g->stats->negative, s->op);
    return negative(t) ? NULL : t;
}

const Type *draw_sample(Gen *g, const Op *op, int changes, Sample *s)
{
    *s = (Sample){.op = op};
    Reader r = {.g = g, .at = sample_at(op, (int)below(g, (size_t)samples_of(op)))};
    for (int i = 0; i < 16; i++)
        r.extents[i] = changes > 1 && once_in(g, 2) ? between(g, 1, 4) : i;
    if (changes > 1 && once_in(g, 40))
        r.extents[between(g, 2, 4)] = DIM_ANY;
    if (changes > 0 && once_in(g, 2)) {
        r.from = dtype_of(once_in(g, 2) ? DT_FLOAT32 : DT_INT32);
        r.to = dtype_of((DTypeId)below(g, DTYPE_IDS));
    }
    if (!read_sample(&r, s))
        return NULL;
    if (changes > 1 && once_in(g, 3))
        change_shape(g, s);
    if (changes > 0)
        change_attrs(g, s);
    return type_of_call(g, s);
}

/* ---- arguments */

static bool is_index(const Op *op, uint32_t i)
{
    static const char *const words[] = {"ind", "seq", "length", "sparse", "shape"};
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        if (strstr(op->args[i].name, words[k]))
            return true;
    return !strcmp(op->name, "invert_permutation") || strstr(op->name, "right_shift") ||
           strstr(op->name, "left_shift");
}

static bool divides(const Op *op)
{
    return !strcmp(op->name, "divide") || strstr(op->name, "mod") || strstr(op->name, "_divide");
}

static Expr *call_two(Gen *g, const char *name, Expr *a, Expr *b)
{
    return call_op(g, name, 2, (Expr *[]){a, b}, NULL);
}

/* `ref_write(%r, ref_read(%r) * 5 + turn); e` */
static Expr *note_turn(Gen *g, Expr *e)
{
    DType int32 = dtype_of(DT_INT32);
    Expr *read = expr_ref_read(g->arena, (Span){0}, &g->turns->base);
    Expr *next = call_two(g, "add", call_two(g, "multiply", read, make_literal(g, int32, 5)),
                          make_literal(g, int32, ++g->turn));
    Var *none = expr_var(g->arena, (Span){0}, ctx_name(g->cx, "_"), NULL);
    g->noted = g->noted * 5 + g->turn;
    g->effects++;
    return make_let(g, none, expr_ref_write(g->arena, (Span){0}, &g->turns->base, next), e);
}

enum { TURNS_MOST = 10 };

static Expr *make_operand(Gen *g, const Type *t, int size);

/* Often what is computed element by element, and comes into one kernel with its operands. */
static Expr *call_in_turns(Gen *g, const Type *t, int size)
{
    static const char *const names[] = {"subtract", "add", "multiply", "maximum", "minimum"};
    static const char *const of_bools[] = {"logical_and", "logical_or", "logical_xor"};
    if (once_in(g, 2) || t->kind != TYPE_TENSOR || has_any(t))
        return make_operator_call(g, t, size);
    const char *name = dtype_is_bool(t->dtype) ? of_bools[below(g, 3)] : names[below(g, 5)];
    Expr *a = make_operand(g, t, size / 2), *b = make_operand(g, t, size / 2);
    return call_two(g, name, a, b);
}

/* An operand that notes when it is evaluated, or is computed of such. */
static Expr *make_operand(Gen *g, const Type *t, int size)
{
    Var *turns = g->turns;
    if (!turns || g->turn >= TURNS_MOST || g->fuel <= 0)
        return make(g, t, size);
    if (t->kind == TYPE_TUPLE) {
        Expr *fields[ARGS_MOST];
        for (uint32_t i = 0; i < t->n; i++)
            fields[i] = make_operand(g, t->parts[i], size / (int)t->n);
        return expr_tuple(g->arena, (Span){0}, t->n, fields);
    }
    g->fuel--;
    Expr *e = size > 2 && once_in(g, 2) ? call_in_turns(g, t, size) : NULL;
    if (e)
        return e;
    g->turns = NULL;
    e = make(g, t, size / 2);
    g->turns = turns;
    return note_turn(g, e);
}

Expr *make_turns(Gen *g, const Type *t, int size)
{
    DType int32 = dtype_of(DT_INT32);
    Var *turns = g->turns, *y = fresh_var(g, NULL);
    g->turns = expr_var(g->arena, (Span){0}, ctx_name(g->cx, "turns"), NULL);
    g->turn = 0;
    g->noted = 0;
    g->effects++;
    Expr *e = turns ? NULL : call_in_turns(g, t, size);
    Expr *read = expr_ref_read(g->arena, (Span){0}, &g->turns->base);
    Expr *same = call_two(g, "equal", read, make_literal(g, int32, g->noted));
    Expr *start = expr_ref_new(g->arena, (Span){0}, make_literal(g, int32, 0));
    Var *r = g->turns;
    g->turns = turns;
    if (!e)
        return NULL;
    Expr *told = expr_if(g->arena, (Span){0}, same, &y->base, make_constant(g, t));
    return make_let(g, r, start, make_let(g, y, e, told));
}

/* Indices stay in range and nothing is divided by 0, so that most programs have a value. */
static Expr *make_arg(Gen *g, const Sample *s, uint32_t i, int size)
{
    const Type *t = s->args[i];
    if (t->kind == TYPE_TUPLE || has_any(t) || dtype_is_float(t->dtype))
        return make_operand(g, t, size);
    if (dtype_is_bool(t->dtype) && i == 1 && divides(s->op))
        return adapt(g, make_literal(g, dtype_of(DT_BOOL), 1), scalar_of(g, DT_BOOL), t);
    if (dtype_is_bool(t->dtype))
        return make_operand(g, t, size);
    if (is_index(s->op, i))
        return adapt(g, make_literal(g, dtype_of(DT_INT32), 0), scalar_of(g, DT_INT32), t);
    if (i == 1 && divides(s->op))
        return adapt(g, make_literal(g, dtype_of(DT_INT32), (double)between(g, 1, 5)),
                     scalar_of(g, DT_INT32), t);
    return make_operand(g, t, size);
}

static Expr *finish_call(Gen *g, const Sample *s, int size)
{
    Expr *args[ARGS_MOST];
    for (uint32_t i = 0; i < s->n; i++)
        args[i] = make_arg(g, s, i, size / (int)(s->n + 1));
    if (g->stats)
        ++*(size_t *)ptrmap_slot(&g->stats->ops, s->op);
    return expr_call_op(g->arena, (Span){0}, s->op, s->n, args, s->attrs);
}

Expr *random_call(Gen *g, int size, const Type **t)
{
    for (int i = 0; i < 4; i++) {
        const Op *op = g->ops.at[below(g, g->ops.n)];
        Sample s;
        *t = NULL;
        for (int changes = 2; changes >= 0 && !*t; changes--)
            *t = draw_sample(g, op, changes, &s);
        if (*t)
            return finish_call(g, &s, size);
    }
    return NULL;
}

/* ---- a wanted type */

/* An argument that broadcasting makes as large as t. */
static const Type *narrowed(Gen *g, const Type *t)
{
    Dim dims[TENSOR_RANK_MOST];
    uint32_t drop = t->n ? below(g, t->n + 1) : 0;
    for (uint32_t i = drop; i < t->n; i++)
        dims[i - drop] = once_in(g, 4) ? 1 : t->dims[i];
    return type_tensor(g->cx, t->dtype, t->n - drop, dims);
}

/* An operator on arguments like the result: arithmetic, comparisons, where, casts. */
static Expr *alike(Gen *g, const Type *t, int size)
{
    for (int tries = 0; tries < 8; tries++) {
        const Op *op = g->ops.at[below(g, g->ops.n)];
        Sample s = {.op = op, .n = (uint32_t)op_arity(op)};
        if (s.n == 0 || s.n > 3)
            continue;
        const Type *arg = t;
        if (dtype_is_bool(t->dtype) && once_in(g, 2))
            arg = type_tensor(g->cx, random_tensor(g)->dtype, t->n, t->dims);
        uint32_t thin = once_in(g, 3) && !has_any(t) ? below(g, s.n) : s.n;
        for (uint32_t i = 0; i < s.n; i++)
            s.args[i] = i == thin ? narrowed(g, arg) : arg;
        if (s.n == 3)
            s.args[0] = type_tensor(g->cx, dtype_of(DT_BOOL), t->n, t->dims);
        const Type *got = type_of_call(g, &s);
        if (got && type_equal(got, t))
            return finish_call(g, &s, size);
    }
    return NULL;
}

Expr *operator_value(Gen *g, const Type *t)
{
    for (int tries = 0; tries < 30 && t->n_params == 0; tries++) {
        Sample s = {.op = g->ops.at[below(g, g->ops.n)], .n = t->n};
        if (s.op->attrs || (uint32_t)op_arity(s.op) != t->n || t->n == 0 || divides(s.op))
            continue; /* what it is called with is any number */
        memcpy(s.args, t->parts, t->n * sizeof *t->parts);
        const Type *got = type_of_call(g, &s);
        if (got && type_equal(got, t->result))
            return expr_op(g->arena, (Span){0}, s.op);
    }
    return NULL;
}

Expr *make_value_call(Gen *g, const Type *t, int size)
{
    Expr *e = alike(g, t, size);
    const Call *call = expr_as_call(e);
    if (!call || call->attrs)
        return e;
    Var *v = fresh_var(g, NULL);
    Expr *again =
        expr_call(g->arena, (Span){0}, &v->base, call->args.n, call->args.at, call->attrs);
    return make_let(g, v, call->callee, again);
}

Expr *make_operator_call(Gen *g, const Type *t, int size)
{
    Expr *e = once_in(g, 2) ? NULL : alike(g, t, size);
    if (e || has_any(t))
        return e;
    const Type *from = NULL;
    e = random_call(g, size, &from);
    return e ? adapt(g, e, from, t) : NULL;
}

/* ---- between types */

Expr *call_op(Gen *g, const char *name, uint32_t n, Expr *const *args, const Attrs *written)
{
    const Op *op = op_find(g->cx, str_of(name));
    const Attrs *attrs = attrs_check(g->cx, g->arena, name, op->attrs, written, (Span){0});
    return expr_call_op(g->arena, (Span){0}, op, n, args, attrs);
}

static Expr *call_unary(Gen *g, const char *name, Expr *e, const char *key, AttrValue v)
{
    return call_op(g, name, 1, &e, key ? attrs_with(g->arena, NULL, key, v) : NULL);
}

static AttrValue shape_value(Gen *g, const Type *t)
{
    AttrValue *at = arena_new_array(g->arena, AttrValue, t->n);
    for (uint32_t i = 0; i < t->n; i++)
        at[i] = (AttrValue){.kind = ATTR_INT, .i = t->dims[i]};
    return (AttrValue){.kind = ATTR_LIST, .list = {at, t->n}};
}

/* What a float becomes as an integer may differ when it is not finite; whether it is less than this does not, near which no number
 * of a program lies. */
static Expr *convert(Gen *g, Expr *e, DType from, DType to)
{
    if (dtype_is_float(from) && !dtype_is_float(to)) {
        e = call_op(g, "less", 2, (Expr *[]){e, make_literal(g, from, 0.4609375)}, NULL);
        from = dtype_of(DT_BOOL);
    }
    if (dtype_eq(from, to))
        return e;
    const char *name = dtype_row(dtype_id(to))->name;
    return call_unary(g, "cast", e, "dtype", (AttrValue){.kind = ATTR_STRING, .s = str_of(name)});
}

static int64_t elements(const Type *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->n; i++)
        n *= t->dims[i];
    return n;
}

Expr *adapt(Gen *g, Expr *e, const Type *from, const Type *t)
{
    while (from->kind == TYPE_TUPLE) {
        if (from->n == 0)
            return make_leaf(g, t);
        uint32_t i = below(g, from->n);
        e = expr_tuple_get(g->arena, (Span){0}, e, i);
        from = from->parts[i];
    }
    if (type_equal(from, t))
        return e;
    e = convert(g, e, from->dtype, t->dtype);
    bool same = from->n == t->n && !memcmp(from->dims, t->dims, t->n * sizeof *t->dims);
    if (same)
        return e;
    /* An extent of 0 in `newshape` stands for that of the data. */
    if (!has_any(from) && elements(t) > 0 && elements(from) == elements(t))
        return call_unary(g, "reshape", e, "newshape", shape_value(g, t));
    if (from->n)
        e = call_unary(g, dtype_is_bool(t->dtype) ? "any" : "max", e, NULL,
                       (AttrValue){.kind = ATTR_NONE});
    return t->n ? call_unary(g, "broadcast_to", e, "shape", shape_value(g, t)) : e;
}
