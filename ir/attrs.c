#include "ir/attrs.h"

#include "ir/ctx.h"
#include "ir/device.h"
#include "ir/equal.h"

#include <string.h>

const Attr *attrs_get(const Attrs *a, const char *key, uint32_t first)
{
    if (a && first < a->n && !strcmp(a->at[first].key, key))
        return &a->at[first];
    for (uint32_t i = 0; a && i < a->n; i++)
        if (!strcmp(a->at[i].key, key))
            return &a->at[i];
    return NULL;
}

const AttrValue *attrs_find(const Attrs *a, const char *key)
{
    const Attr *attr = attrs_get(a, key, 0);
    return attr ? &attr->value : NULL;
}

int64_t attrs_int(const Attrs *a, const char *key, int64_t none)
{
    const AttrValue *v = attrs_find(a, key);
    return v && v->kind == ATTR_INT ? v->i : none;
}

bool attrs_bool(const Attrs *a, const char *key)
{
    const AttrValue *v = attrs_find(a, key);
    return v && v->kind == ATTR_BOOL && v->b;
}

double attrs_float(const Attrs *a, const char *key)
{
    const AttrValue *v = attrs_find(a, key);
    return v && v->kind == ATTR_FLOAT ? v->f : 0;
}

Str attrs_string(const Attrs *a, const char *key)
{
    const AttrValue *v = attrs_find(a, key);
    return v && v->kind == ATTR_STRING ? v->s : str_of("");
}

DType attrs_dtype(const Attrs *a, const char *key)
{
    DType t = {0};
    dtype_parse(attrs_string(a, key), &t);
    return t;
}

int attrs_ints(const Attrs *a, const char *key, int64_t *out, int most)
{
    const AttrValue *v = attrs_find(a, key);
    if (!v || v->kind == ATTR_NONE)
        return -1;
    if (v->kind == ATTR_INT && most > 0) {
        out[0] = v->i;
        return 1;
    }
    int n = 0;
    for (uint32_t i = 0; v->kind == ATTR_LIST && i < v->list.n && n < most; i++)
        out[n++] = v->list.at[i].i;
    return n;
}

/* ---- checking a record against its schema ---------------------------------------------------------------------- */

const char *attr_type_words(const OpAttr *schema)
{
    switch (schema->type) {
    case ATTR_TYPE_INT: return "an integer";
    case ATTR_TYPE_BOOL: return "True or False";
    case ATTR_TYPE_FLOAT: return "a number";
    case ATTR_TYPE_STRING: return "a string";
    case ATTR_TYPE_DTYPE: return "the name of an element type in quotes";
    case ATTR_TYPE_INTS: return "a list of integers";
    case ATTR_TYPE_INT_OR_INTS: return "an integer or a list of integers";
    case ATTR_TYPE_INT_LISTS: return "a list of lists of integers";
    case ATTR_TYPE_FLOATS: return "a list of numbers";
    case ATTR_TYPE_EXPR: return "an expression";
    case ATTR_TYPE_INTS_OR_EXPR: return "a list of integers or a constant";
    case ATTR_TYPE_DEVICE: return "a device";
    case ATTR_TYPE_ANY: return "anything";
    case ATTR_TYPE_DICT: return "a dictionary";
    case ATTR_TYPE_STRINGS: return "a list of strings";
    case ATTR_TYPE_STRING_LISTS: return "a list of lists of strings";
    }
    return "a value";
}

static bool list_of(const AttrValue *v, AttrKind kind)
{
    if (v->kind != ATTR_LIST)
        return false;
    for (uint32_t i = 0; i < v->list.n; i++)
        if (v->list.at[i].kind != kind)
            return false;
    return true;
}

static bool list_of_lists(const AttrValue *v, AttrKind kind)
{
    if (v->kind != ATTR_LIST)
        return false;
    for (uint32_t i = 0; i < v->list.n; i++)
        if (!list_of(&v->list.at[i], kind))
            return false;
    return true;
}

/* Ints are taken where floats are wanted. */
static bool take_floats(Arena *arena, AttrValue *v)
{
    if (v->kind != ATTR_LIST)
        return false;
    AttrValue *at = arena_new_array(arena, AttrValue, v->list.n);
    for (uint32_t i = 0; i < v->list.n; i++) {
        at[i] = v->list.at[i];
        if (at[i].kind == ATTR_INT)
            at[i] = (AttrValue){.kind = ATTR_FLOAT, .f = (double)at[i].i};
        if (at[i].kind != ATTR_FLOAT)
            return false;
    }
    v->list.at = at;
    return true;
}

/* Brings a written value to what the schema stores; false when it cannot be. */
static bool take_value(Arena *arena, const OpAttr *schema, AttrValue *v)
{
    if (v->kind == ATTR_NONE)
        return schema->or_none;
    switch (schema->type) {
    case ATTR_TYPE_INT:
        /* A number that fits 64 bits only has no need to say so. */
        if (v->kind == ATTR_INT && v->i != (int32_t)v->i)
            v->dtype = (DType){0};
        return v->kind == ATTR_INT;
    case ATTR_TYPE_BOOL:
        if (v->kind == ATTR_INT && (v->i == 0 || v->i == 1))
            *v = (AttrValue){.kind = ATTR_BOOL, .b = v->i == 1};
        return v->kind == ATTR_BOOL;
    case ATTR_TYPE_FLOAT:
        if (v->kind == ATTR_INT)
            *v = (AttrValue){.kind = ATTR_FLOAT, .f = (double)v->i};
        /* The field is a double, however it was written. */
        if (v->kind == ATTR_FLOAT)
            v->dtype = (DType){0};
        return v->kind == ATTR_FLOAT;
    case ATTR_TYPE_STRING:
    case ATTR_TYPE_DTYPE: return v->kind == ATTR_STRING;
    case ATTR_TYPE_INTS: return list_of(v, ATTR_INT);
    case ATTR_TYPE_INT_OR_INTS: return v->kind == ATTR_INT || list_of(v, ATTR_INT);
    case ATTR_TYPE_INT_LISTS: return list_of_lists(v, ATTR_INT);
    case ATTR_TYPE_FLOATS: return take_floats(arena, v);
    case ATTR_TYPE_EXPR: return v->kind == ATTR_EXPR;
    case ATTR_TYPE_INTS_OR_EXPR: return v->kind == ATTR_EXPR || list_of(v, ATTR_INT);
    case ATTR_TYPE_DEVICE:
        if (v->kind == ATTR_INT && v->i > 0) /* of a kind, as releases before 0.9 write it */
            *v = (AttrValue){.kind = ATTR_STRING, .s = device_print(arena, v->i, -1, (Str){"", 0})};
        return v->kind == ATTR_STRING ||
               (v->kind == ATTR_RECORD && !strcmp(v->record.key, "VirtualDevice"));
    case ATTR_TYPE_ANY: return true;
    case ATTR_TYPE_DICT: return v->kind == ATTR_LIST;
    case ATTR_TYPE_STRINGS: return list_of(v, ATTR_STRING);
    case ATTR_TYPE_STRING_LISTS: return list_of_lists(v, ATTR_STRING);
    }
    return false;
}

#define SCHEMA_MOST 64

static int schema_size(const OpAttr *schema)
{
    int n = 0;
    while (schema && n < SCHEMA_MOST && schema[n].name)
        n++;
    return n;
}

/* Whose attributes they are, and what they are called there. */
typedef struct Owner {
    const char *name, *word;
    uint32_t most; /* numbers in a list that is for axes */
    bool misspelt; /* something that it does not have is given; perhaps for one that is missing */
} Owner;

static void suggest_keys(Diag *d, const Owner *owner, const OpAttr *schema, const char *key)
{
    const char *names[SCHEMA_MOST] = {0};
    int n = schema_size(schema);
    for (int i = 0; i < n && i < SCHEMA_MOST; i++)
        names[i] = schema[i].name;
    diag_suggest(d, key, (size_t)n, names);
    if (n == 0) {
        diag_help(d, "`%s` has no %ss", owner->name, owner->word);
        return;
    }
    Buf b = {0};
    for (int i = 0; i < n; i++)
        buf_printf(&b, "%s`%s`", i ? ", " : "", names[i]);
    diag_help(d, "the %ss of `%s` are %s", owner->word, owner->name, buf_text(&b));
    buf_deinit(&b);
}

static void report_twice(Ctx *cx, const Owner *owner, const Attr *first, const Attr *again)
{
    Diag *d = diag_error(cx->diags, E0113_DUPLICATE, again->key_span, "%s `%s` is given twice",
                         owner->word, again->key);
    diag_label(d, first->key_span, "first here");
}

static void report_unknown(Ctx *cx, Owner *owner, const OpAttr *schema, const Attr *a)
{
    owner->misspelt = true;
    Diag *d = diag_error(cx->diags, E0114_ATTRIBUTE_UNKNOWN, a->key_span, "`%s` has no %s `%s`",
                         owner->name, owner->word, a->key);
    suggest_keys(d, owner, schema, a->key);
}

/* What releases before 0.9 call otherwise, or (without a name) do not know: they mean None. */
static const struct {
    const char *owner, *key, *now;
} earlier[] = {
    {"on_device", "device_type", "virtual_device"},
    {"on_device", "is_fixed", "constrain_result"},
    {"device_copy", "src_dev_type", "src_virtual_device"},
    {"device_copy", "dst_dev_type", "dst_virtual_device"},
    {"strided_slice", NULL, "axes"},
};

static const char *name_now(const Owner *owner, const char *key)
{
    for (size_t i = 0; i < sizeof earlier / sizeof *earlier; i++)
        if (earlier[i].key && !strcmp(earlier[i].key, key) &&
            !strcmp(earlier[i].owner, owner->name))
            return earlier[i].now;
    return key;
}

const char *attrs_earlier(const char *owner, const char *now)
{
    for (size_t i = 0; i < sizeof earlier / sizeof *earlier; i++)
        if (!strcmp(earlier[i].now, now) && !strcmp(earlier[i].owner, owner))
            return earlier[i].key;
    return NULL;
}

static bool is_later(const Owner *owner, const char *name)
{
    for (size_t i = 0; i < sizeof earlier / sizeof *earlier; i++)
        if (!earlier[i].key && !strcmp(earlier[i].now, name) &&
            !strcmp(earlier[i].owner, owner->name))
            return true;
    return false;
}

static int find_field(const OpAttr *schema, int n, const char *key)
{
    int k = 0;
    while (k < n && (schema[k].name[0] != key[0] || strcmp(schema[k].name, key) != 0))
        k++;
    return k;
}

/* Puts what was written to the fields of the schema; behind them stands "attrs_type_key". */
static bool find_given(Ctx *cx, Owner *owner, const OpAttr *schema, int n, const Attrs *written,
                       const Attr **given)
{
    bool ok = true;
    for (int i = 0; i <= n; i++)
        given[i] = NULL;
    for (uint32_t i = 0; written && i < written->n; i++) {
        const Attr *a = &written->at[i];
        int k = find_field(schema, n, a->key);
        if (k == n)
            k = find_field(schema, n, name_now(owner, a->key));
        if (k == n && strcmp(a->key, "attrs_type_key") != 0)
            report_unknown(cx, owner, schema, a);
        else if (!given[k])
            given[k] = a;
        else
            report_twice(cx, owner, given[k], a);
        ok &= given[k] == a;
    }
    return ok;
}

static const char *attr_type_example(const OpAttr *schema)
{
    switch (schema->type) {
    case ATTR_TYPE_INT: return "1";
    case ATTR_TYPE_BOOL: return "True";
    case ATTR_TYPE_FLOAT: return "0.5f";
    case ATTR_TYPE_STRING: return "\"…\"";
    case ATTR_TYPE_DTYPE: return "\"float32\"";
    case ATTR_TYPE_INTS:
    case ATTR_TYPE_INTS_OR_EXPR:
    case ATTR_TYPE_INT_OR_INTS: return "[1, 2]";
    case ATTR_TYPE_DEVICE: return "\"cpu:0\"";
    case ATTR_TYPE_ANY: return "\"…\"";
    case ATTR_TYPE_INT_LISTS: return "[[1, 2], [3, 4]]";
    case ATTR_TYPE_FLOATS: return "[0.5f, 1f]";
    case ATTR_TYPE_EXPR: return "%x";
    case ATTR_TYPE_DICT: return "{\"key\": 1}";
    case ATTR_TYPE_STRINGS: return "[\"…\", \"…\"]";
    case ATTR_TYPE_STRING_LISTS: return "[[\"…\", \"…\"]]";
    }
    return "…";
}

/* `pool_size=(2, 2)`: the brackets are all that is wrong. */
static bool help_brackets(Ctx *cx, Diag *d, const OpAttr *schema, Span span)
{
    const Source *text = span.source ? sources_get(&cx->sources, span.source) : NULL;
    bool list = schema->type == ATTR_TYPE_INTS || schema->type == ATTR_TYPE_INT_OR_INTS ||
                schema->type == ATTR_TYPE_FLOATS;
    if (!text || !list || text->text[span.from] != '(' || text->text[span.to - 1] != ')')
        return false;
    diag_help(d, "a list stands in brackets: `%s=[%.*s]`", schema->name,
              (int)(span.to - span.from - 2), text->text + span.from + 1);
    return true;
}

static bool report_value(Ctx *cx, const Owner *owner, const OpAttr *schema, const Attr *written)
{
    Diag *d = diag_error(cx->diags, E0116_ATTRIBUTE_VALUE, written->span,
                         "%s `%s` of `%s` must be %s%s", owner->word, schema->name, owner->name,
                         attr_type_words(schema), schema->or_none ? " or None" : "");
    if (schema->doc)
        diag_note(d, "`%s`: %s", schema->name, schema->doc);
    if (schema->type == ATTR_TYPE_INTS && written->value.kind == ATTR_INT)
        diag_help(d, "write a list: `%s=[%lld]`", schema->name, (long long)written->value.i);
    else if (!help_brackets(cx, d, schema, written->span))
        diag_help(d, "for instance `%s=%s`", schema->name, attr_type_example(schema));
    return false;
}

static bool is_one_of(const char *const *words, const AttrValue *v)
{
    while (*words && !(v->kind == ATTR_STRING && str_is(v->s, *words)))
        words++;
    return *words;
}

static bool report_choice(Ctx *cx, const Owner *owner, const OpAttr *schema, const Attr *written)
{
    Buf b = {0};
    size_t n = 0;
    for (; schema->one_of[n]; n++)
        buf_printf(&b, "%s\"%s\"",
                   n == 0                  ? ""
                   : schema->one_of[n + 1] ? ", "
                                           : " or ",
                   schema->one_of[n]);
    Diag *d =
        diag_error(cx->diags, E0116_ATTRIBUTE_VALUE, written->span, "%s `%s` of `%s` must be %s",
                   owner->word, schema->name, owner->name, buf_text(&b));
    buf_deinit(&b);
    if (schema->doc)
        diag_note(d, "`%s`: %s", schema->name, schema->doc);
    Str s = written->value.s;
    diag_suggest(d, arena_copy_text(&cx->arena, s.ptr, s.len), n, schema->one_of);
    return false;
}

static bool is_in_range(const OpAttr *schema, const AttrValue *v)
{
    return v->kind != ATTR_INT || (schema->least == 0 && schema->most == 0) ||
           (v->i >= schema->least && v->i <= schema->most);
}

static bool report_range(Ctx *cx, const Owner *owner, const OpAttr *schema, const Attr *written)
{
    Diag *d = diag_error(cx->diags, E0116_ATTRIBUTE_VALUE, written->span,
                         "%s `%s` of `%s` cannot be %lld", owner->word, schema->name, owner->name,
                         (long long)written->value.i);
    if (schema->doc)
        diag_note(d, "`%s`: %s", schema->name, schema->doc);
    if (schema->most == INT64_MAX)
        diag_help(d, "it is %lld or more", (long long)schema->least);
    else
        diag_help(d, "it is from %lld to %lld", (long long)schema->least, (long long)schema->most);
    return false;
}

/* Under the name that it is printed by, so that one type is one value: `int` is `int32`. */
static void name_dtype(Arena *arena, DType t, AttrValue *v)
{
    Buf b = {0};
    if (!dtype_is_void(t))
        dtype_print(&b, t);
    if (!str_is(v->s, buf_text(&b)))
        v->s = (Str){arena_copy_text(arena, buf_text(&b), b.n), b.n};
    buf_deinit(&b);
}

static bool take_dtype(Ctx *cx, Arena *arena, const Attr *written, AttrValue *v)
{
    DType t;
    if (dtype_parse(v->s, &t)) {
        name_dtype(arena, t, v);
        return true;
    }
    const char *names[DTYPE_IDS];
    for (int i = 0; i < DTYPE_IDS; i++)
        names[i] = dtype_row((DTypeId)i)->name;
    Str s = written->value.s;
    Diag *d = diag_error(cx->diags, E0118_BAD_DTYPE, written->span, "`%.*s` is no element type",
                         (int)s.len, s.ptr);
    if (!diag_suggest(d, arena_copy_text(&cx->arena, s.ptr, s.len), DTYPE_IDS, names))
        diag_help(d, "`:explain E0118` lists the element types");
    return false;
}

static bool report_length(Ctx *cx, const Owner *owner, const OpAttr *schema, const Attr *written)
{
    Diag *d = diag_error(cx->diags, E0116_ATTRIBUTE_VALUE, written->span,
                         "%s `%s` of `%s` holds %u numbers", owner->word, schema->name, owner->name,
                         (unsigned)written->value.list.n);
    diag_help(d, "there are %u at most, as a tensor has no more axes", (unsigned)owner->most);
    return false;
}

static bool fill_field(Ctx *cx, Arena *arena, const Owner *owner, const OpAttr *schema,
                       const Attr *given, Span span, Attr *out)
{
    out->key = schema->name;
    out->span = given ? given->span : span;
    out->key_span = given ? given->key_span : span;
    if (given) {
        out->value = given->value;
        if (!take_value(arena, schema, &out->value))
            return report_value(cx, owner, schema, given);
        if (schema->type == ATTR_TYPE_INTS && out->value.kind == ATTR_LIST &&
            out->value.list.n > owner->most)
            return report_length(cx, owner, schema, given);
        if (schema->one_of && out->value.kind != ATTR_NONE &&
            !is_one_of(schema->one_of, &out->value))
            return report_choice(cx, owner, schema, given);
        if (!is_in_range(schema, &out->value))
            return report_range(cx, owner, schema, given);
        return schema->type != ATTR_TYPE_DTYPE || given->value.kind == ATTR_NONE ||
               take_dtype(cx, arena, given, &out->value);
    }
    out->value = schema->otherwise;
    if (!schema->required || is_later(owner, schema->name))
        return true;
    if (owner->misspelt)
        return false;
    Diag *d = diag_error(cx->diags, E0115_ATTRIBUTE_MISSING, span, "`%s` needs the %s `%s`",
                         owner->name, owner->word, schema->name);
    diag_help(d, "add `%s=…`, %s%s", schema->name, attr_type_words(schema),
              schema->or_none ? " or None" : "");
    return false;
}

bool attrs_are_needed(const char *op, const OpAttr *schema)
{
    Owner owner = {.name = op};
    for (int i = 0; i < schema_size(schema); i++)
        if (schema[i].required && !is_later(&owner, schema[i].name))
            return true;
    return false;
}

static const Attrs *check(Ctx *cx, Arena *arena, Owner *owner, const OpAttr *schema,
                          const Attrs *written, Span span)
{
    const Attr *given[SCHEMA_MOST + 1];
    int n = schema_size(schema);
    bool ok = find_given(cx, owner, schema, n, written, given);
    if (n == 0)
        return NULL;
    Attrs *record = arena_alloc(arena, sizeof *record + (size_t)n * sizeof *record->at);
    record->n = (uint32_t)n;
    for (int i = 0; i < n; i++)
        ok &= fill_field(cx, arena, owner, &schema[i], given[i], span, &record->at[i]);
    return ok ? record : NULL;
}

const Attrs *attrs_check(Ctx *cx, Arena *arena, const char *op, const OpAttr *schema,
                         const Attrs *written, Span span)
{
    return check(cx, arena, &(Owner){op, "attribute", TENSOR_RANK_MOST, false}, schema, written,
                 span);
}

const Attrs *attrs_check_some(Ctx *cx, Arena *arena, const char *op, const OpAttr *schema,
                              const Attrs *written, Span span)
{
    return check(cx, arena, &(Owner){op, "attribute", TENSOR_RANK_MOST, true}, schema, written,
                 span);
}

const Attrs *attrs_check_params(Ctx *cx, Arena *arena, const char *pass, const OpAttr *schema,
                                const Attrs *written, Span span)
{
    return check(cx, arena, &(Owner){pass, "parameter", UINT32_MAX, false}, schema, written, span);
}

const Attrs *attrs_with(Arena *arena, const Attrs *a, const char *key, AttrValue value)
{
    uint32_t n = a ? a->n : 0;
    Attrs *record = arena_alloc(arena, sizeof *record + (n + 1u) * sizeof *record->at);
    record->n = n;
    if (n)
        memcpy(record->at, a->at, n * sizeof *a->at);
    for (uint32_t i = 0; i < n; i++)
        if (!strcmp(record->at[i].key, key)) {
            record->at[i].value = value;
            return record;
        }
    record->at[record->n++] = (Attr){.key = key, .value = value};
    return record;
}

/* Lists nest as deep as schemas say, which is twice. */
static bool copy_value(Arena *arena, AttrValue *v)
{
    if (v->kind == ATTR_STRING || v->kind == ATTR_TEXT)
        v->s.ptr = arena_copy_text(arena, v->s.ptr, v->s.len);
    if (v->kind == ATTR_RECORD)
        return (v->record.fields = attrs_copy(arena, v->record.fields)) != NULL;
    if (v->kind != ATTR_LIST || v->list.n == 0)
        return v->kind != ATTR_EXPR;
    AttrValue *at = arena_copy(arena, v->list.at, v->list.n * sizeof *at);
    bool ok = at != NULL;
    for (uint32_t i = 0; ok && i < v->list.n; i++)
        ok = copy_value(arena, &at[i]);
    v->list.at = at;
    return ok;
}

const Attrs *attrs_copy(Arena *arena, const Attrs *a)
{
    Attrs *copy = arena_copy(arena, a, sizeof *a + a->n * sizeof *a->at);
    bool ok = copy != NULL;
    for (uint32_t i = 0; ok && i < a->n; i++)
        ok = copy_value(arena, &copy->at[i].value);
    return ok ? copy : NULL;
}

void attr_value_exprs(const AttrValue *v, void (*found)(void *data, Expr *e), void *data)
{
    if (v->kind == ATTR_EXPR)
        found(data, v->e);
    for (uint32_t i = 0; v->kind == ATTR_LIST && i < v->list.n; i++)
        if (v->list.at[i].kind >= ATTR_LIST)
            attr_value_exprs(&v->list.at[i], found, data);
}

void attrs_exprs(const Attrs *a, void (*found)(void *data, Expr *e), void *data)
{
    for (uint32_t i = 0; a && i < a->n; i++)
        if (a->at[i].value.kind >= ATTR_LIST)
            attr_value_exprs(&a->at[i].value, found, data);
}

bool attr_value_equal(const AttrValue *a, const AttrValue *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case ATTR_NONE: return true;
    case ATTR_INT: return a->i == b->i;
    case ATTR_FLOAT: return !memcmp(&a->f, &b->f, sizeof a->f);
    case ATTR_BOOL: return a->b == b->b;
    case ATTR_STRING:
    case ATTR_TEXT: return str_eq(a->s, b->s);
    case ATTR_EXPR: return a->e == b->e || ir_equal(a->e, b->e, false);
    case ATTR_RECORD:
        return !strcmp(a->record.key, b->record.key) &&
               attrs_equal(a->record.fields, b->record.fields);
    case ATTR_LIST: break;
    }
    if (a->list.n != b->list.n)
        return false;
    for (uint32_t i = 0; i < a->list.n; i++)
        if (!attr_value_equal(&a->list.at[i], &b->list.at[i]))
            return false;
    return true;
}

bool attrs_equal(const Attrs *a, const Attrs *b)
{
    uint32_t na = a ? a->n : 0, nb = b ? b->n : 0;
    if (na != nb)
        return false;
    for (uint32_t i = 0; i < na; i++) {
        const Attr *other = attrs_get(b, a->at[i].key, i);
        if (!other || !attr_value_equal(&a->at[i].value, &other->value))
            return false;
    }
    return true;
}
