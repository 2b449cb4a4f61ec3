#include "tests/random/metadata.h"

#include "base/random.h"
#include "ir/dim.h"
#include "ir/walk.h"

enum { SHARED = 4, FIELDS_MOST = 6, DEPTH_MOST = 3 };

typedef struct Giver {
    Ctx *cx;
    Arena *arena;
    uint64_t seed, drawn;
    AttrValue shared[SHARED]; /* objects that several places refer to */
    Dim symbols[3];
} Giver;

static uint64_t draw(Giver *g, uint64_t n)
{
    return random_at(g->seed, g->drawn++) % n;
}

static const char *name_of(Giver *g, const char *text)
{
    return ctx_name(g->cx, text)->text;
}

static AttrValue text_field(const char *text)
{
    return (AttrValue){.kind = ATTR_TEXT, .s = str_of(text)};
}

static AttrValue record(Giver *g, const char *key, const Attrs *fields)
{
    if (!fields)
        fields = arena_new(g->arena, Attrs);
    return (AttrValue){.kind = ATTR_RECORD, .record = {name_of(g, key), fields}};
}

/* Texts with all that a document would have to escape. */
static AttrValue string(Giver *g)
{
    static const char *const texts[] = {"",  "global",       "a\"b\\c",
                                        "7", "\xc3\xa9\n\t", "{\"nodes\": []}"};
    return (AttrValue){.kind = ATTR_STRING,
                       .s = str_of(texts[draw(g, sizeof texts / sizeof *texts)])};
}

static AttrValue device(Giver *g)
{
    static const char *const numbers[] = {"-1", "1", "2", "12"};
    const Attrs *fields = NULL;
    fields = attrs_with(g->arena, fields, name_of(g, "device_type_int"),
                        text_field(numbers[draw(g, 4)]));
    fields = attrs_with(g->arena, fields, name_of(g, "virtual_device_id"),
                        text_field(numbers[1 + draw(g, 3)]));
    fields = attrs_with(g->arena, fields, name_of(g, "memory_scope"), string(g));
    fields = attrs_with(g->arena, fields, name_of(g, "target"), (AttrValue){.kind = ATTR_NONE});
    return record(g, "VirtualDevice", fields);
}

/* What stands in a field itself: names, and numbers that may by chance be those of nodes. */
static AttrValue plain(Giver *g)
{
    static const char *const texts[] = {"float32", "",    "0.5", "00",   "07",
                                        "+7",      "0+1", "-3",  "hello"};
    size_t n = sizeof texts / sizeof *texts;
    uint64_t i = draw(g, 2 * n);
    if (i < n)
        return text_field(texts[i]);
    Buf b = {0};
    buf_uint(&b, draw(g, 60));
    AttrValue v = text_field(arena_copy_text(g->arena, buf_text(&b), b.n));
    buf_deinit(&b);
    return v;
}

static AttrValue value(Giver *g, int depth);

static AttrValue list(Giver *g, int depth)
{
    uint32_t n = (uint32_t)draw(g, 4);
    AttrValue *at = arena_alloc_must(g->arena, n, sizeof *at);
    for (uint32_t i = 0; i < n; i++)
        at[i] = value(g, depth + 1);
    return (AttrValue){.kind = ATTR_LIST, .list = {at, n}};
}

static AttrValue object(Giver *g, int depth)
{
    static const char *const fields[FIELDS_MOST] = {"size",  "kind", "inner",
                                                    "other", "a\"b", "number"};
    const Attrs *attrs = NULL;
    for (int i = 0; i < FIELDS_MOST; i++)
        if (draw(g, 2))
            attrs = attrs_with(g->arena, attrs, name_of(g, fields[i]),
                               draw(g, 2) ? plain(g) : value(g, depth + 1));
    return record(g, draw(g, 2) ? "my.Thing" : "my.Other", attrs);
}

/* What an object refers to. */
static AttrValue value(Giver *g, int depth)
{
    static const DTypeId ints[] = {DT_INT64, DT_INT8, DT_UINT8},
                         floats[] = {DT_FLOAT64, DT_FLOAT16};
    AttrValue v = {.kind = ATTR_NONE};
    switch (draw(g, depth < DEPTH_MOST ? 8 : 4)) {
    case 0:
        v = (AttrValue){.kind = ATTR_INT, .i = (int64_t)draw(g, 100) - 50};
        if (draw(g, 2))
            v.dtype = dtype_of(ints[draw(g, 3)]);
        return v;
    case 1:
        v = (AttrValue){.kind = ATTR_FLOAT, .f = (double)draw(g, 100) / 8 - 3};
        if (draw(g, 2))
            v.dtype = dtype_of(floats[draw(g, 2)]);
        return v;
    case 2: return (AttrValue){.kind = ATTR_BOOL, .b = draw(g, 2)};
    case 3: return string(g);
    case 4: return list(g, depth);
    case 5: return object(g, depth);
    default: return g->shared[draw(g, SHARED)];
    }
}

static Dim extent(Giver *g, Dim number)
{
    Dim symbol = g->symbols[draw(g, 3)];
    switch (draw(g, 4)) {
    case 0: return symbol;
    case 1: return dim_mul(g->cx, symbol, number);
    case 2: return dim_floor_div(g->cx, dim_offset(g->cx, symbol, 1), 2);
    default: return dim_add(g->cx, symbol, g->symbols[draw(g, 3)]);
    }
}

static void give_extents(Giver *g, Var *v)
{
    Dim dims[TENSOR_RANK_MOST];
    const Type *t = v->annotation;
    if (!t || t->kind != TYPE_TENSOR || t->n == 0)
        return;
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = draw(g, 2) ? extent(g, t->dims[i]) : t->dims[i];
    v->annotation = type_tensor(g->cx, t->dtype, t->n, dims);
}

static WalkNext give_function(void *data, const Expr *e)
{
    Giver *g = data;
    Function *f = expr_as_function(e);
    if (!f)
        return WALK_ON;
    for (uint32_t i = 0; i <= f->params.n; i++) {
        const Attrs **to = i < f->params.n ? &f->params.at[i]->attrs : &f->attrs;
        if (draw(g, 3) == 0)
            *to = attrs_with(g->arena, *to, name_of(g, "virtual_device"),
                             draw(g, 2) ? g->shared[0] : device(g));
    }
    if (draw(g, 2))
        f->attrs = attrs_with(g->arena, f->attrs, name_of(g, "thing"), object(g, 0));
    if (draw(g, 3) == 0)
        f->attrs = attrs_with(g->arena, f->attrs, name_of(g, "shared"), g->shared[draw(g, SHARED)]);
    for (uint32_t i = 0; i < f->params.n; i++)
        if (draw(g, 3) == 0)
            give_extents(g, f->params.at[i]);
    return WALK_ON;
}

void give_metadata(Ctx *cx, Module *m, uint64_t seed)
{
    Giver g = {.cx = cx, .arena = &m->arena, .seed = seed};
    static const char *const names[] = {"n", "m", "n"};
    for (uint32_t i = 0; i < 3; i++)
        g.symbols[i] = dim_symbol(cx, (DimSymbol){.name = ctx_name(cx, names[i]),
                                                  .dtype = dtype_of(i == 2 ? DT_INT64 : DT_INT32),
                                                  .is_size = i == 1});
    for (int i = 0; i < SHARED; i++)
        g.shared[i] = device(&g);
    for (int i = 1; i < SHARED; i++)
        g.shared[i] = object(&g, 1);
    for (size_t i = 0; i < m->defs.n; i++)
        if (m->defs.at[i].fn)
            ir_walk(&m->defs.at[i].fn->base, give_function, NULL, &g);
}
