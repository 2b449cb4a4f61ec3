/* Sequences and optionals: lists and options of the prelude. */
#include "exchange/onnx.h"

#include <string.h>

static const char *int32_of(OnnxNode *n, size_t i)
{
    return onnx_scalar_as(n, i, dtype_of(DT_INT32));
}

/* A position that may count from the end. */
static const char *position(OnnxNode *n, size_t i)
{
    const char *at = int32_of(n, i);
    if (onnx_is_known(n, i) && onnx_number(n, i, 0) >= 0)
        return at;
    at = onnx_step(n, "%s", at);
    return onnx_step(n, "where(less(%s, 0), add(%s, @length(%s)), %s)", at, at, onnx_in(n, 0), at);
}

void rule_sequence_empty(OnnxNode *n)
{
    onnx_need_prelude(n);
    onnx_give_open(n, "Nil");
}

void rule_sequence_construct(OnnxNode *n)
{
    n->constant = false;
    onnx_need_prelude(n);
    const char *list = "Nil";
    for (size_t i = n->proto->n_input; i-- > 0;)
        list = onnx_text(n, "Cons(%s, %s)", onnx_in(n, i), list);
    onnx_give(n, list);
}

void rule_sequence_length(OnnxNode *n)
{
    onnx_give(n, onnx_value(n, 0) && onnx_value(n, 0)->open
                     ? "0i64"
                     : onnx_text(n, "cast(@length(%s), dtype=\"int64\")", onnx_in(n, 0)));
}

void rule_sequence_at(OnnxNode *n)
{
    onnx_give(n, onnx_text(n, "@nth(%s, %s)", onnx_in(n, 0), position(n, 1)));
}

/* A function of the program's own for what the prelude has not: a list with `change` at a place. */
static const char *at_place(OnnxNode *n, const char *there, const char *at)
{
    const Type *list = onnx_value(n, 0)->type;
    const char *type = onnx_type_text(n, list);
    const char *name = onnx_name(n, "walk");
    onnx_define(
        n, name,
        onnx_text(
            n,
            "fn (%%xs: %s, %%at: int32) -> %s {\nif (equal(%%at, 0)) { %s } else { match? (%%xs) { "
            "Cons(%%x, %%rest) => Cons(%%x, %%%s(%%rest, subtract(%%at, 1))) } } }",
            type, type, there, name));
    return onnx_text(n, "%%%s(%s, %s)", name, onnx_in(n, 0), at);
}

void rule_sequence_insert(OnnxNode *n)
{
    n->constant = false;
    OnnxValue *list = onnx_value(n, 0);
    if (!list)
        return;
    if (list->open)
        onnx_give(n, onnx_text(n, "Cons(%s, Nil)", onnx_in(n, 1)));
    else if (onnx_has(n, 2))
        onnx_give(n, at_place(n, onnx_text(n, "Cons(%s, %%xs)", onnx_in(n, 1)), position(n, 2)));
    else
        onnx_give(n, onnx_text(n, "@concat(%s, Cons(%s, Nil))", onnx_in(n, 0), onnx_in(n, 1)));
}

void rule_sequence_erase(OnnxNode *n)
{
    const char *at =
        onnx_has(n, 1) ? position(n, 1) : onnx_text(n, "subtract(@length(%s), 1)", onnx_in(n, 0));
    if (onnx_value(n, 0) && onnx_value(n, 0)->type)
        onnx_give(n, at_place(n, "@tl(%xs)", at));
    else
        onnx_refuse(n, "it takes from an empty sequence");
}

void rule_sequence_map(OnnxNode *n)
{
    const Onnx__AttributeProto *a = onnx_attr(n, "body");
    const OnnxValue *list = onnx_value(n, 0);
    size_t count = n->proto->n_input;
    if (!a || !a->g || a->g->n_input != count || !list || !list->type ||
        list->type->kind != TYPE_ADT) {
        onnx_refuse(n, "a body that does not fit its inputs");
        return;
    }
    for (size_t k = 0; k < a->g->n_output && !n->failed; k++) {
        onnx_block_begin(n);
        Buf lines = {0};
        const char *pair = NULL, *lists = onnx_in(n, 0);
        const Type *type = list->type->parts[0];
        for (size_t i = 0; i < count; i++) {
            const OnnxValue *v = onnx_value(n, i);
            bool each = v && v->type->kind == TYPE_ADT;
            const Type *one = each ? v->type->parts[0] : v ? v->type : type;
            const char *x = each ? onnx_param(n, a->g->input[i]->name, one) : onnx_in(n, i);
            if (each && i > 0) {
                lists = onnx_text(n, "@zip(%s, %s)", lists, onnx_in(n, i));
                const Type *both[] = {type, one};
                type = type_tuple(onnx_ctx(n), 2, both);
            }
            onnx_block_bind(n, a->g->input[i]->name, (OnnxValue){.text = x, .type = one});
        }
        const char *whole = onnx_param(n, "pair", type), *rest = whole;
        for (size_t i = count; i-- > 0;) {
            const OnnxValue *v = onnx_value(n, i);
            if (!v || v->type->kind != TYPE_ADT)
                continue;
            const OnnxValue *inside = onnx_block_result(n, a->g->input[i]->name);
            bool first = i == 0;
            buf_printf(&lines, "let %s = %s%s;\n", inside ? inside->text : "%x", rest,
                       first ? "" : ".1");
            rest = first ? rest : onnx_text(n, "%s.0", rest);
        }
        pair = onnx_text(n, "%s", buf_text(&lines));
        buf_deinit(&lines);
        onnx_block_graph(n, a->g);
        const OnnxValue *y = onnx_block_result(n, a->g->output[k]->name);
        const char *text = onnx_block_end(n, y ? y->text : "0");
        onnx_give(n, onnx_text(n, "@map(fn (%s: %s) {\n%s%s\n}, %s)", whole,
                               onnx_type_text(n, type), pair, text, lists));
    }
}

/* Parts of known sizes; the last may be smaller. */
void rule_split_to_sequence(OnnxNode *n)
{
    int rank = onnx_rank(n, 0);
    int64_t axis = onnx_attr_axis(n, "axis", 0, rank), d = onnx_known_extent(n, 0, axis), at = 0;
    bool keep = onnx_attr_int(n, "keepdims", 1) != 0 || onnx_has(n, 1);
    OnnxInts parts = onnx_ints(n, 1), sizes = {.n = 0};
    bool equal = parts.n < 0 || onnx_rank(n, 1) == 0;
    int64_t size = parts.n < 0 ? 1 : parts.n > 0 ? parts.at[0] : 0;
    if (n->failed || (equal && (size < 1 || d / size >= ONNX_INTS_MOST))) {
        onnx_refuse(n, "%lld parts", size < 1 ? 0 : (long long)(d / size));
        return;
    }
    for (; equal && at < d; at += size)
        sizes.at[sizes.n++] = d - at < size ? d - at : size;
    sizes = equal ? sizes : parts;
    onnx_need_prelude(n);
    n->constant = false;
    const char *x = onnx_in(n, 0), *list = "Nil";
    at = d;
    for (int i = sizes.n; i-- > 0;) {
        const char *part =
            onnx_text(n, "strided_slice(%s, begin=[%lld], end=[%lld], strides=[1], axes=[%lld])", x,
                      (long long)(at - sizes.at[i]), (long long)at, (long long)axis);
        at -= sizes.at[i];
        if (!keep)
            part = onnx_text(n, "squeeze(%s, axis=[%lld])", part, (long long)axis);
        Dim dims[TENSOR_RANK_MOST];
        const Type *t = onnx_value(n, 0)->type;
        memcpy(dims, t->dims, t->n * sizeof *dims);
        dims[axis] = DIM_ANY;
        bool same = sizes.at[i] == sizes.at[0] && sizes.at[sizes.n - 1] == sizes.at[0];
        if (!same) { /* elements of a list have one type */
            const char *name = onnx_name(n, "part");
            onnx_define(n, name,
                        onnx_text(n, "let %%p: %s = %s; %%p",
                                  onnx_type_text(n, type_tensor(onnx_ctx(n), t->dtype, t->n, dims)),
                                  part));
            part = onnx_text(n, "%%%s", name);
        }
        list = onnx_text(n, "Cons(%s, %s)", part, list);
    }
    onnx_give(n, list);
}

void rule_concat_from_sequence(OnnxNode *n)
{
    long long axis = (long long)onnx_attr_int(n, "axis", 0);
    bool stack = onnx_attr_int(n, "new_axis", 0) != 0;
    const OnnxValue *v = onnx_value(n, 0);
    if (!v || !v->type || v->type->kind != TYPE_ADT || v->type->parts[0]->kind != TYPE_TENSOR) {
        onnx_refuse(n, "joins what is no list of tensors");
        return;
    }
    const Type *one = v->type->parts[0];
    uint32_t rank = one->n + (stack ? 1 : 0);
    if (axis < 0)
        axis += rank;
    Dim dims[TENSOR_RANK_MOST + 1];
    for (uint32_t i = 0, k = 0; i < rank && rank <= TENSOR_RANK_MOST; i++)
        dims[i] = i == (uint32_t)axis ? DIM_ANY : one->dims[stack ? k++ : i];
    const char *type = onnx_type_text(n, type_tensor(onnx_ctx(n), one->dtype, rank, dims));
    const char *element = onnx_type_text(n, one);
    const char *x = stack ? onnx_text(n, "expand_dims(%%x, axis=%lld)", axis) : "%x";
    onnx_give(n, onnx_text(n,
                           "match? (%s) { Cons(%%x, %%xs) => @foldl(fn (%%all: %s, %%x: %s) -> %s "
                           "{ concatenate((%%all, "
                           "%s), axis=%lld) }, %s, %%xs) }",
                           onnx_in(n, 0), type, element, type, x, axis, x));
}

void rule_optional(OnnxNode *n)
{
    n->constant = false;
    onnx_need_prelude(n);
    if (!onnx_has(n, 0))
        onnx_give_open(n, "None");
    else
        onnx_give(n, onnx_text(n, "Some(%s)", onnx_in(n, 0)));
}

static bool is_option(OnnxNode *n)
{
    const OnnxValue *v = onnx_value(n, 0);
    return v && v->type && v->type->kind == TYPE_ADT && !strcmp(v->type->def->name->text, "Option");
}

/* Since version 18 what is no optional is taken for one that is there. */
void rule_optional_get(OnnxNode *n)
{
    if (is_option(n))
        onnx_give(n, onnx_text(n, "match? (%s) { Some(%%x) => %%x }", onnx_in(n, 0)));
    else
        onnx_give_input(n, 0);
}

void rule_optional_has(OnnxNode *n)
{
    if (!onnx_has(n, 0) || (onnx_value(n, 0) && onnx_value(n, 0)->open))
        onnx_give(n, "False");
    else if (!is_option(n))
        onnx_give(n, "True");
    else
        onnx_give(n, onnx_text(n, "match (%s) { Some(_) => True, None => False }", onnx_in(n, 0)));
}
