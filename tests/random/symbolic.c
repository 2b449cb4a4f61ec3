/* Types of calls with symbolic extents, against those with numbers in their place.
 *
 * In a call that is right some numbers become a symbol: all that are equal, or one alone. What its type then
 * says of an axis, a number or an expression, must be so whatever number the symbol stands for, as
 * long as the call is right with that. `?` says nothing, and is always right. */
#include "ir/dim.h"
#include "tests/random/internal.h"

#include <stdio.h>

enum { CHANGED = 60, NUMBERS = 7 };

typedef struct Symbolic {
    Gen g;
    Dim symbol;
    int64_t number; /* in the symbol's place */
    int64_t from; /* the number that becomes the symbol */
    int at, met; /* the only axis that does; -1: all */
    long calls, said, wrong;
    long rows, compared,
        silent; /* operators; those that said something of an axis, and those that only say `?` or have none */
} Symbolic;

static bool number_of(void *data, Dim symbol, int64_t *out)
{
    const Symbolic *sy = data;
    *out = sy->number;
    return symbol == sy->symbol;
}

/* The type with `to` where the number stood. */
static const Type *replace(Symbolic *sy, const Type *t, Dim to)
{
    Dim dims[TENSOR_RANK_MOST];
    const Type *parts[ARGS_MOST];
    if (t->kind == TYPE_TUPLE) {
        for (uint32_t i = 0; i < t->n; i++)
            parts[i] = replace(sy, t->parts[i], to);
        return type_tuple(sy->g.cx, t->n, parts);
    }
    for (uint32_t i = 0; i < t->n; i++) {
        bool here = sy->at < 0 || sy->at == sy->met;
        sy->met++;
        dims[i] = here && t->dims[i] == sy->from ? to : t->dims[i];
    }
    return type_tensor(sy->g.cx, t->dtype, t->n, dims);
}

static const Type *type_with(Symbolic *sy, const Sample *s, Dim to)
{
    const Type *args[ARGS_MOST];
    Ctx *cx = sy->g.cx;
    Diags *kept = cx->diags;
    sy->met = 0;
    for (uint32_t i = 0; i < s->n; i++)
        args[i] = replace(sy, s->args[i], to);
    cx->diags = &sy->g.quiet;
    const Type *t = op_type(cx, s->op, s->attrs, (Span){0}, s->n, args, NULL);
    cx->diags = kept;
    diags_clear(&sy->g.quiet);
    return t && !t->open && !type_is_poison(t) ? t : NULL;
}

/* Whether what is said holds of what is. */
static bool holds(Symbolic *sy, const Type *said, const Type *is)
{
    int64_t v;
    if (said->kind != is->kind || said->n != is->n)
        return false;
    for (uint32_t i = 0; i < said->n; i++) {
        if (said->kind == TYPE_TUPLE) {
            if (!holds(sy, said->parts[i], is->parts[i]))
                return false;
            continue;
        }
        if (said->kind != TYPE_TENSOR || said->dims[i] == DIM_ANY || is->dims[i] == DIM_ANY)
            continue;
        sy->said++;
        if (!dim_value(sy->g.cx, said->dims[i], number_of, sy, &v) || v != is->dims[i])
            return false;
    }
    return true;
}

static void report(Symbolic *sy, const Sample *s, const Type *said, const Type *is)
{
    sy->wrong++;
    printf("`%s` of", s->op->name);
    sy->met = 0;
    for (uint32_t i = 0; i < s->n; i++)
        printf(" %s", type_str(sy->g.cx, replace(sy, s->args[i], sy->symbol)));
    printf("\n  is said to be %s, but for n = %lld it is %s\n", type_str(sy->g.cx, said),
           (long long)sy->number, type_str(sy->g.cx, is));
}

/* One choice of what becomes a symbol. */
static bool check_choice(Symbolic *sy, const Sample *s)
{
    const Type *said = type_with(sy, s, sy->symbol);
    if (!said)
        return true;
    sy->calls++;
    const int64_t numbers[NUMBERS] = {
        sy->from, sy->from + 1, sy->from + 2, sy->from + 3, sy->from * 2, sy->from * 4, 1};
    for (int i = 0; i < NUMBERS; i++) {
        const Type *is = type_with(sy, s, numbers[i]);
        sy->number = numbers[i];
        if (is && !holds(sy, said, is)) {
            report(sy, s, said, is);
            return false;
        }
    }
    return true;
}

static int numbers_in(const Type *t, int64_t *out, int n)
{
    for (uint32_t i = 0; i < t->n && n < 64; i++)
        if (t->kind == TYPE_TUPLE)
            n = numbers_in(t->parts[i], out, n);
        else
            out[n++] = t->dims[i];
    return n;
}

static bool check_sample(Symbolic *sy, const Sample *s)
{
    int64_t numbers[64];
    int n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n = numbers_in(s->args[i], numbers, n);
    for (int i = 0; i < n; i++) {
        sy->from = numbers[i];
        if (sy->from < 0)
            continue;
        sy->at = i;
        if (!check_choice(sy, s))
            return false;
        sy->at = -1;
        if (!check_choice(sy, s))
            return false;
    }
    return true;
}

static bool check_op(void *data, const Op *op)
{
    Symbolic *sy = data;
    long calls = sy->calls, said = sy->said;
    for (int i = 0; op->samples && op->samples[0] == '(' && i < CHANGED; i++) {
        Sample s;
        if (draw_sample(&sy->g, op, i < 10 ? 0 : 2, &s) && !check_sample(sy, &s))
            break;
    }
    sy->rows++;
    sy->compared += sy->said > said;
    sy->silent += sy->calls > calls && sy->said == said;
    return true;
}

long check_symbolic(Ctx *cx, uint64_t seed)
{
    Module *m = module_new(cx);
    Symbolic sy = {.g = {.cx = cx, .m = m, .arena = &m->arena, .seed = seed}};
    diags_init(&sy.g.quiet, NULL);
    sy.symbol = dim_symbol(cx, (DimSymbol){.name = ctx_name(cx, "n"), .dtype = dtype_of(DT_INT32)});
    op_each(cx->ops, check_op, &sy);
    printf("%ld operators: %ld say something of an axis, %ld nothing, %ld take no symbol\n",
           sy.rows, sy.compared, sy.silent, sy.rows - sy.compared - sy.silent);
    printf("%ld calls, %ld axes compared, %ld operators wrong\n", sy.calls, sy.said, sy.wrong);
    diags_deinit(&sy.g.quiet);
    module_release(m);
    return sy.wrong;
}
