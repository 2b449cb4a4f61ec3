/* Every operator's attributes as text: a call with an attribute at another value than its default is
 * printed, read and printed again. */
#include "check.h"
#include "ir/equal.h"
#include "ir/print.h"
#include "parser/parser.h"
#include "stdlib/stdlib.h"

static Ctx cx;
static int calls;

static AttrValue number_of(AttrKind kind, double v)
{
    return kind == ATTR_INT ? (AttrValue){.kind = ATTR_INT, .i = (int64_t)v}
                            : (AttrValue){.kind = ATTR_FLOAT, .f = v};
}

/* The first of the words that is not the default; where there is no other, that. */
static AttrValue other_word(const OpAttr *a)
{
    const char *const *word = a->one_of;
    while (word[1] && str_is(a->otherwise.s, *word))
        word++;
    return (AttrValue){.kind = ATTR_STRING, .s = str_of(*word)};
}

/* A value of the field's type that is not its default. */
static AttrValue other_value(Arena *arena, const OpAttr *a, Expr *e)
{
    AttrValue *at = arena_new_array(arena, AttrValue, 3),
              *inner = arena_new_array(arena, AttrValue, 2);
    AttrValue list = {.kind = ATTR_LIST, .list = {at, 3}};
    bool ints = a->type == ATTR_TYPE_INTS || a->type == ATTR_TYPE_INT_OR_INTS;
    for (int i = 0; i < 3; i++)
        at[i] = number_of(ints ? ATTR_INT : ATTR_FLOAT, ints ? 70 - i * 71 : 0.1 - i * 1e20);
    switch (a->type) {
    case ATTR_TYPE_INT: return number_of(ATTR_INT, -77);
    case ATTR_TYPE_BOOL: return (AttrValue){.kind = ATTR_BOOL, .b = !a->otherwise.b};
    case ATTR_TYPE_FLOAT: return number_of(ATTR_FLOAT, -0.1);
    case ATTR_TYPE_STRING:
        return a->one_of ? other_word(a)
                         : (AttrValue){.kind = ATTR_STRING, .s = str_of("a\"b\\\n\t%0")};
    case ATTR_TYPE_DTYPE: return (AttrValue){.kind = ATTR_STRING, .s = str_of("uint16")};
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_INT_OR_INTS:
    case ATTR_TYPE_FLOATS: return list;
    case ATTR_TYPE_INT_LISTS:
        inner[0] = number_of(ATTR_INT, -3);
        inner[1] = number_of(ATTR_INT, 4);
        at[0] = (AttrValue){.kind = ATTR_LIST, .list = {inner, 2}};
        at[1] = at[2] = (AttrValue){.kind = ATTR_LIST};
        return list;
    case ATTR_TYPE_STRINGS:
        for (int i = 0; i < 3; i++)
            at[i] = (AttrValue){.kind = ATTR_STRING, .s = str_of("xy")};
        return list;
    case ATTR_TYPE_EXPR:
    case ATTR_TYPE_INTS_OR_EXPR: return (AttrValue){.kind = ATTR_EXPR, .e = e};
    case ATTR_TYPE_DEVICE:
    case ATTR_TYPE_ANY: return (AttrValue){.kind = ATTR_STRING, .s = str_of("cuda:1/global")};
    case ATTR_TYPE_STRING_LISTS:
    case ATTR_TYPE_DICT: break;
    }
    return a->otherwise;
}

/* A module of one call; the attribute `which` (of n) and those without a default are written. */
static Module *one_call(const Op *op, int which)
{
    Module *m = module_new(&cx);
    Arena *arena = &m->arena;
    Expr *args[16], *one = expr_constant(arena, (Span){0}, value_int32(1));
    int n = op_arity(op);
    for (int i = 0; i < n; i++) {
        Var *v = expr_var(arena, (Span){0}, ctx_name(&cx, op->args[i].name), NULL);
        args[i] = &v->base;
    }
    const Attrs *written = NULL;
    for (int i = 0; op->attrs && op->attrs[i].name; i++)
        if (i == which || op->attrs[i].required)
            written = attrs_with(arena, written, op->attrs[i].name,
                                 other_value(arena, &op->attrs[i], one));
    const Attrs *attrs = attrs_check(&cx, arena, op->name, op->attrs, written, (Span){0});
    CHECK(attrs || !op->attrs);
    m->expr = expr_call_op(arena, (Span){0}, op, (uint32_t)n, args, attrs);
    return m;
}

static void check_call(const Op *op, int which)
{
    Buf first = {0}, second = {0};
    Module *m = one_call(op, which);
    ir_print_module(&first, m, (PrintStyle){0});
    uint32_t source = sources_add(&cx.sources, op->name, buf_text(&first), first.n);
    Module *again = parse_text(&cx, source, &(ParseEnv){0});
    if (again)
        ir_print_module(&second, again, (PrintStyle){0});
    CHECK_TEXT(buf_text(&second), buf_text(&first));
    CHECK(again && ir_equal(m->expr, again->expr, true));
    const char *key = which >= 0 ? op->attrs[which].name : NULL;
    bool only = which >= 0 && op->attrs[which].one_of && !op->attrs[which].one_of[1];
    CHECK(!key || only || strstr(buf_text(&first), key));
    for (const Diag *d = cx.diags->first; d; d = d->next)
        printf("%s: %s\n", diag_info(d->code)->code, d->message);
    diags_clear(cx.diags);
    module_release(again);
    module_release(m);
    buf_deinit(&first);
    buf_deinit(&second);
    calls++;
}

static bool check_op(void *data, const Op *op)
{
    (void)data;
    check_call(op, -1);
    for (int i = 0; op->attrs && op->attrs[i].name; i++)
        check_call(op, i);
    return true;
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    op_each(&stdlib_ops, check_op, NULL);
    CHECK(calls > 600);
    ctx_deinit(&cx);
    return check_done();
}
