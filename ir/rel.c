#include "ir/rel.h"

#include "ir/dim.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* How a tensor is got from an argument that is none. */
static void help_use(const Rel *r, uint32_t i, Diag *d)
{
    const Type *t = type_find(r->in[i]);
    if (t->kind == TYPE_REF)
        diag_help(d, "`ref_read(…)` gives what a reference holds");
    else if (t->kind == TYPE_TUPLE && t->n == 0)
        diag_help(d, "`()` is what `ref_write(…, …)` gives; the value is read by `ref_read(…)`");
    else if (t->kind == TYPE_TUPLE)
        diag_help(d, "a field of a tuple is taken by its number: `.0`");
    else if (t->kind == TYPE_TENSOR)
        diag_help(d, "parentheses and a comma make a tuple: `(%%x, %%y)`, with one field `(%%x,)`");
    else if (t->kind == TYPE_FUNC)
        diag_help(d, "a function is called with its arguments in parentheses");
    else if (t->kind == TYPE_ADT)
        diag_help(d, "`match` takes a value of a data type apart");
}

static const Type *not_a(Rel *r, uint32_t i, const char *wanted)
{
    if (!r->failed)
        help_use(r, i,
                 rel_error(r, E0216_OPERATOR_ARGUMENT, (int)i,
                           "argument %u of `%s` is `%s`, not %s", i + 1, r->op->name,
                           type_str(r->cx, r->in[i]), wanted));
    r->failed = true;
    return NULL;
}

static bool is_unknown(const Type *t)
{
    return t->kind == TYPE_HOLE || t->kind == TYPE_POISON;
}

const Type *rel_tensor(Rel *r, uint32_t i)
{
    const Type *t = type_find(r->in[i]);
    if (t->kind == TYPE_TENSOR)
        return t;
    return is_unknown(t) ? NULL : not_a(r, i, "a tensor");
}

const Type *rel_tensors(Rel *r, uint32_t i)
{
    const Type *t = type_find(r->in[i]);
    if (t->kind != TYPE_TUPLE)
        return is_unknown(t) ? NULL : not_a(r, i, "a tuple of tensors");
    bool known = true;
    for (uint32_t k = 0; k < t->n; k++) {
        const Type *field = type_find(t->parts[k]);
        if (is_unknown(field))
            known = false;
        else if (field->kind != TYPE_TENSOR)
            return not_a(r, i, "a tuple of tensors");
    }
    /* The fields must be plain tensors for the caller, who does not look for holes in them. */
    return known ? type_resolve(r->cx, t) : NULL;
}

RelResult rel_blocked(const Rel *r)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (type_is_poison(r->in[i]))
            return REL_FAILED;
    return r->failed ? REL_FAILED : REL_WAIT;
}

RelResult rel_set_output(Rel *r, const Type *t)
{
    return r->assign(r, -1, t) ? REL_DONE : REL_FAILED;
}

bool rel_set_input(Rel *r, uint32_t i, const Type *t)
{
    return r->assign(r, (int)i, t);
}

Diag *rel_error(Rel *r, DiagCode code, int arg, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (r->running && code == E0202_SHAPE)
        code = E0303_RUNTIME_SHAPE;
    Diag *d = diag_add(r->cx->diags, code, r->span, format, args);
    va_end(args);
    if (arg >= 0 && r->in_spans)
        diag_label(d, r->in_spans[arg], "this is `%s`", type_str(r->cx, r->in[arg]));
    return d;
}

/* The number that is written there, without its suffix; empty where something else stands. */
static Str written_number(Ctx *cx, Span span)
{
    const Source *text = span.source ? sources_get(&cx->sources, span.source) : NULL;
    Str s = {text ? text->text + span.from : "", text ? span.to - span.from : 0};
    size_t n = 0, k;
    while (n < s.len && (isdigit((unsigned char)s.ptr[n]) || s.ptr[n] == '.'))
        n++;
    k = n;
    while (k < s.len && (isdigit((unsigned char)s.ptr[k]) || (k == n && strchr("fi", s.ptr[k]))))
        k++;
    return k == s.len ? (Str){s.ptr, n} : (Str){"", 0};
}

void rel_help_convert(Ctx *cx, Diag *d, Span span, DType to)
{
    Str number = written_number(cx, span);
    bool wide = to.bits == 16 || to.bits == 32 || to.bits == 64;
    bool is_float = to.code == DTYPE_CODE_FLOAT, is_int = to.code == DTYPE_CODE_INT;
    bool whole = !memchr(number.ptr, '.', number.len);
    if (!number.len || !wide || to.lanes > 1 || !(is_float || (is_int && whole))) {
        diag_help(d, "there is no implicit conversion: write `cast(…, dtype=\"%s\")`",
                  type_str(cx, type_scalar(cx, to)));
        return;
    }
    char suffix[8] = "";
    if (to.bits != 32)
        snprintf(suffix, sizeof suffix, "%c%d", is_float ? 'f' : 'i', to.bits);
    else if (is_float)
        snprintf(suffix, sizeof suffix, "f");
    diag_help(d, "a number is written with its type: `%.*s%s`", (int)number.len, number.ptr,
              suffix);
}

int rel_axis(Rel *r, int64_t axis, uint32_t rank)
{
    int64_t from_start = axis < 0 ? axis + (int64_t)rank : axis;
    if (from_start >= 0 && from_start < (int64_t)rank)
        return (int)from_start;
    Diag *d = rel_error(r, E0217_AXIS, -1, "axis %lld of `%s` is out of range", (long long)axis,
                        r->op->name);
    if (rank == 0)
        diag_help(d, "a scalar has no axes: `expand_dims(…, axis=0)` gives it one");
    else if (rank == 1)
        diag_help(d, "there is one axis: 0, or -1 counted from the end");
    else
        diag_help(d, "there are %u axes: 0 to %d, or counted from the end, -1 to %d", rank,
                  (int)rank - 1, -(int)rank);
    return -1;
}

bool dim_agrees(Dim a, Dim b)
{
    return a == b || a < 0 || b < 0;
}

const Value *rel_value(const Rel *r, uint32_t i)
{
    const Value *v = r->values ? r->values[i] : NULL;
    return v && v->kind == VALUE_SCALAR ? v : NULL;
}

bool dims_broadcast(const Ctx *cx, uint32_t na, const Dim *a, uint32_t nb, const Dim *b,
                    uint32_t *n, Dim *out)
{
    *n = na > nb ? na : nb;
    for (uint32_t i = 0; i < *n; i++) {
        Dim p = i + na < *n ? 1 : a[i + na - *n];
        Dim q = i + nb < *n ? 1 : b[i + nb - *n];
        if (p == 1 || (p == DIM_ANY && q != 1))
            out[i] = q;
        else if (q == 1 || q == DIM_ANY || dim_same(cx, p, q))
            out[i] = p;
        else if (!(p < 0 && q < 0) && dim_agrees(p, q))
            out[i] = p < 0 ? q : p;
        else
            return false;
    }
    return true;
}

/* ---- on types without holes ---------------------------------------------------------------------------------------------- */

bool rel_agrees(const Type *t, const Type *needed)
{
    t = type_find(t);
    needed = type_find(needed);
    if (t == needed || is_unknown(t) || is_unknown(needed))
        return true;
    if (t->kind != needed->kind || t->n != needed->n)
        return false;
    if (t->kind != TYPE_TENSOR && t->kind != TYPE_TUPLE)
        return type_equal(t, needed);
    if (t->kind == TYPE_TENSOR && !dtype_eq(t->dtype, needed->dtype))
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->kind == TYPE_TENSOR ? !dim_agrees(t->dims[i], needed->dims[i])
                                   : !rel_agrees(t->parts[i], needed->parts[i]))
            return false;
    return true;
}

static bool assign_plain(Rel *r, int which, const Type *t)
{
    const Type **at = which < 0 ? &r->out : &r->in[which];
    if (which < 0 && !rel_agrees(*at, t)) {
        rel_error(r, E0303_RUNTIME_SHAPE, -1, "`%s` gives `%s` where its type says `%s`",
                  r->op->name, type_str(r->cx, t), type_str(r->cx, *at));
        return false;
    }
    if (!rel_agrees(*at, t)) {
        rel_error(r, E0202_SHAPE, which, "`%s` gets `%s` where it needs `%s`", r->op->name,
                  type_str(r->cx, *at), type_str(r->cx, t));
        return false;
    }
    if (which < 0)
        *at = t;
    return true;
}

const Type *op_type(Ctx *cx, const Op *op, const Attrs *attrs, Span span, uint32_t n,
                    const Type *const *args, const Value *const *values)
{
    const Type *few[16];
    const Type **in = n <= 16 ? few : arena_new_array(ctx_scratch(cx), const Type *, n);
    if (n)
        memcpy(in, args, n * sizeof *in);
    /* On the stack, because results are sized at every call of the running program. */
    Type hole = {.kind = TYPE_HOLE, .open = true, .depth = 1};
    Rel r = {
        .cx = cx,
        .op = op,
        .attrs = attrs,
        .span = span,
        .n = n,
        .in = in,
        .out = &hole,
        .values = values,
        .running = true,
        .assign = assign_plain,
    };
    /* What the values of arguments say is to be what is said without them, as the checker does: of the same rank above all. */
    RelResult result = REL_DONE;
    if (values && op->flags & OP_SHAPE_FROM_DATA) {
        r.values = NULL;
        result = op->rel(&r);
        r.values = values;
    }
    if (result == REL_DONE)
        result = op->rel(&r);
    if (result == REL_WAIT)
        diag_error(cx->diags, E0208_UNSOLVED, span, "the result of `%s` cannot be determined",
                   op->name);
    return result == REL_DONE && r.out != &hole ? r.out : NULL;
}
