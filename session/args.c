/* The arguments of an entry, from the options of a request. */
#include "base/memory.h"
#include "base/number.h"
#include "base/random.h"
#include "ir/dim.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/internal.h"

#include <stdlib.h>
#include <string.h>

const char *request_find(const RelayRequest *r, const char *key)
{
    for (size_t i = r->n_params; i-- > 0;)
        if (!strcmp(r->params[i].key, key))
            return r->params[i].value;
    return NULL;
}

bool request_flag(const RelayRequest *r, const char *key)
{
    const char *v = request_find(r, key);
    return v && strcmp(v, "0") != 0;
}

static bool known_symbol(void *data, Dim symbol, int64_t *out)
{
    const DimValues *values = data;
    for (size_t i = 0; values && i < values->n; i++)
        if (values->at[i].symbol == symbol) {
            *out = values->at[i].extent;
            return true;
        }
    return false;
}

/* A symbolic extent is what the first argument says, for all of them. An expression is what its symbols make it, once they are
 * known. */
static bool bind_symbol(Ctx *cx, DimValues *values, Dim symbol, int64_t extent)
{
    int64_t v;
    const DimSymbol *s = dim_symbol_get(cx, symbol);
    if (dim_value(cx, symbol, known_symbol, values, &v))
        return v == extent;
    if (values && s && s->op == DIM_VAR)
        vec_push(values, &cx->arena, ((DimValue){symbol, extent}));
    return s != NULL;
}

static bool tensor_has_type(Ctx *cx, const Tensor *t, const Type *type, DimValues *values)
{
    if (!dtype_eq(t->dtype, type->dtype) || (uint32_t)t->rank != type->n)
        return false;
    for (int32_t i = 0; i < t->rank; i++) {
        Dim d = type->dims[i];
        if (d >= 0 ? d != t->shape[i]
                   : dim_is_symbol(d) && !bind_symbol(cx, values, d, t->shape[i]))
            return false;
    }
    return true;
}

/* The constructor of a value among those of its type; NULL when it belongs to another. */
static const Constructor *constructor_of(const Type *adt, const Object *o)
{
    for (uint32_t k = 0; k < adt->def->n_cons; k++)
        if (adt->def->cons[k]->info == object_info(o))
            return adt->def->cons[k];
    return NULL;
}

typedef struct Check {
    Value value;
    const Type *type;
} Check;

typedef struct Checks {
    Ctx *cx;
    Arena arena;
    DimValues *symbols;
    Vec(Check) todo;
} Checks;

static bool check_one(Checks *cs, Value v, const Type *t)
{
    TensorView view;
    t = type_find(t);
    if (t->kind == TYPE_TENSOR)
        return value_view(&v, &view) && tensor_has_type(cs->cx, &view.t, t, cs->symbols);
    if (t->kind == TYPE_FUNC || t->kind == TYPE_VAR || t->kind == TYPE_POISON ||
        t->kind == TYPE_HOLE)
        return true;
    ValueKind want = t->kind == TYPE_TUPLE ? VALUE_TUPLE
                     : t->kind == TYPE_REF ? VALUE_REF
                                           : VALUE_CON;
    if (v.kind != want)
        return false;
    const Constructor *con = want == VALUE_CON ? constructor_of(t, v.object) : NULL;
    if (object_n(v.object) != (con ? con->n : t->n) || (want == VALUE_CON && !con))
        return false;
    for (uint32_t i = 0; i < object_n(v.object); i++) {
        const Type *field =
            con ? type_subst(cs->cx, con->fields[i], t->def->n_params, t->def->params, t->parts)
                : t->parts[i];
        vec_push(&cs->todo, &cs->arena, ((Check){object_get(v.object, i), field}));
    }
    return true;
}

bool value_has_type(Ctx *cx, Value v, const Type *t, DimValues *symbols)
{
    Checks cs = {.cx = cx, .symbols = symbols};
    arena_init(&cs.arena, &cx->limits);
    vec_push(&cs.todo, &cs.arena, ((Check){v, t}));
    bool ok = true;
    while (ok && cs.todo.n) {
        Check c = vec_pop(&cs.todo);
        ok = check_one(&cs, c.value, c.type);
    }
    arena_deinit(&cs.arena);
    return ok;
}

/* ---- the sources of arguments ----------------------------------------------------------------------------------------------- */

typedef struct Filling {
    RelaySession *s;
    const Function *fn;
    Value *args;
    DimValues symbols;
    Buf unused; /* names of arrays that are no parameters */
    size_t n_unused;
    bool bound; /* parameters may be constants already */
} Filling;

int param_index(const Function *fn, const char *name, size_t len)
{
    for (uint32_t i = 0; i < fn->params.n; i++)
        if (fn->params.at[i]->name->len == len && !memcmp(fn->params.at[i]->name->text, name, len))
            return (int)i;
    return -1;
}

static void put_arg(Filling *f, int i, Tensor *t)
{
    value_release(f->args[i]);
    f->args[i] = value_tensor(t);
}

/* False after a diagnostic: which of both is meant nobody knows. */
static bool is_first(Filling *f, int i, const char *key, const char *text)
{
    if (value_is_none(f->args[i]))
        return true;
    Diag *d = diag_error(f->s->cx.diags, E0402_USAGE, (Span){0},
                         "`--%s %s` gives `%s`, which was given before", key, text,
                         f->fn->params.at[i]->name->text);
    diag_help(d, "give each argument once");
    return false;
}

/* Arrays whose names are no parameters are left alone, since one file may serve several functions, and named, since a name may be
 * mistaken. */
static bool take_array(void *data, const char *name, Tensor *t)
{
    enum { NAMED = 5 };
    Filling *f = data;
    int i = param_index(f->fn, name, strlen(name));
    if (i >= 0) {
        put_arg(f, i, t);
        return true;
    }
    tensor_release(t);
    if (f->n_unused++ < NAMED)
        buf_printf(&f->unused, "%s`%s`", f->unused.n ? ", " : "", name);
    else if (f->n_unused == NAMED + 1)
        buf_str(&f->unused, " and others");
    return true;
}

Tensor *bytes_of_file(RelaySession *s, const char *path)
{
    size_t len;
    char *text = file_read(&s->cx.limits, s->cx.diags, path, &len);
    int64_t shape = text ? (int64_t)len : 0;
    Tensor *t = text ? tensor_new_raw(&s->cx.limits, dtype_of(DT_UINT8), 1, &shape) : NULL;
    if (t && len)
        memcpy(t->data, text, len);
    free(text);
    return t;
}

/* `NAME=FILE` of the option `--KEY`: an .npy file, or the bytes of any file. */
static bool take_arg(Filling *f, const char *key, const char *text)
{
    const char *eq = strchr(text, '=');
    int i = eq ? param_index(f->fn, text, (size_t)(eq - text)) : -1;
    if (i < 0) {
        Diag *d = diag_error(f->s->cx.diags, E0402_USAGE, (Span){0}, "`--%s %s` names no parameter",
                             key, text);
        for (uint32_t k = 0; k < f->fn->params.n; k++)
            diag_note(d, "there is a parameter `%s`", f->fn->params.at[k]->name->text);
        if (f->bound)
            diag_note(d, "what `--params` binds is none any more");
        diag_help(d, "write `--%s NAME=FILE`", key);
        return false;
    }
    if (!is_first(f, i, key, text))
        return false;
    Tensor *t = strcmp(key, "bytes") == 0 ? bytes_of_file(f->s, eq + 1)
                                          : npy_read(&f->s->cx.limits, f->s->cx.diags, eq + 1);
    if (t)
        put_arg(f, i, t);
    return t != NULL;
}

static Value random_tensor(Limits *limits, const Type *type, uint64_t seed, uint64_t *drawn)
{
    if (dtype_id(type->dtype) == DTYPE_IDS || !type_is_static(type))
        return value_none();
    Tensor *t = tensor_new_raw(limits, type->dtype, (int32_t)type->n, type->dims);
    if (t && tensor_fill_uniform(limits, t, seed, drawn))
        return value_tensor(t);
    tensor_release(t);
    return value_none();
}

typedef struct Place {
    Object *tuple; /* NULL: the whole value */
    uint32_t i;
    const Type *type;
} Place;

Value value_random(Limits *limits, const Type *type, uint64_t seed, uint64_t *drawn)
{
    Value whole = value_none();
    Arena arena;
    Vec(Place) todo = {0};
    arena_init(&arena, limits);
    vec_push(&todo, &arena, ((Place){.type = type}));
    bool ok = true;
    while (ok && todo.n) {
        Place p = vec_pop(&todo);
        const Type *t = type_find(p.type);
        Object *o = t->kind == TYPE_TUPLE ? object_new(limits, &tuple_info, t->n) : NULL;
        Value v = o                        ? value_object(o)
                  : t->kind == TYPE_TENSOR ? random_tensor(limits, t, seed, drawn)
                                           : value_none();
        ok = !value_is_none(v) && !limit_hit(limits);
        if (p.tuple)
            object_set(p.tuple, p.i, v);
        else
            whole = v;
        for (uint32_t i = o ? t->n : 0; i-- > 0;)
            vec_push(&todo, &arena, ((Place){o, i, t->parts[i]}));
    }
    arena_deinit(&arena);
    if (ok)
        return whole;
    value_release(whole);
    return value_none();
}

static bool take_random(Filling *f, int i, const Type *type, uint64_t seed, uint64_t *drawn)
{
    RelaySession *s = f->s;
    f->args[i] = value_random(&s->cx.limits, type, seed, drawn);
    if (!value_is_none(f->args[i]))
        return true;
    if (limit_hit(&s->cx.limits))
        return false;
    const Var *p = f->fn->params.at[i];
    Diag *d = diag_error(s->cx.diags, E0305_ARGUMENTS, p->base.span,
                         "`%%%s` has type `%s`, for which no random value can be made",
                         p->name->text, type_str(&s->cx, type));
    diag_help(d,
              type_find(type)->kind == TYPE_TENSOR ? "give it: `--arg %s=FILE.npy`"
                                                   : "give it, as `%s`, in `--args FILE.json`",
              p->name->text);
    return false;
}

/* The value, if there is one, is of the parameter's type. */
static bool check_type(Filling *f, int i)
{
    RelaySession *s = f->s;
    const Var *p = f->fn->params.at[i];
    const Type *type = p->base.type ? type_find(p->base.type) : NULL;
    if (!type || value_is_none(f->args[i]) || value_has_type(&s->cx, f->args[i], type, &f->symbols))
        return true;
    TensorView view;
    Diag *d = diag_error(s->cx.diags, E0305_ARGUMENTS, p->base.span,
                         "the argument for `%%%s` does not fit", p->name->text);
    diag_label(d, p->base.span, "this is `%s`", type_str(&s->cx, type));
    if (value_view(&f->args[i], &view))
        diag_note(d, "the argument is `%s`", type_str(&s->cx, type_of_tensor(&s->cx, &view.t)));
    for (size_t k = 0; k < f->symbols.n; k++)
        diag_note(d, "`%s` is %lld", dim_symbol_get(&s->cx, f->symbols.at[k].symbol)->name->text,
                  (long long)f->symbols.at[k].extent);
    return false;
}

static bool check_arg(Filling *f, int i)
{
    RelaySession *s = f->s;
    const Var *p = f->fn->params.at[i];
    if (!value_is_none(f->args[i]))
        return check_type(f, i);
    Diag *d = diag_error(s->cx.diags, E0305_ARGUMENTS, p->base.span, "no argument for `%%%s`",
                         p->name->text);
    if (p->base.type)
        diag_label(d, p->base.span, "this is `%s`", type_str(&s->cx, type_find(p->base.type)));
    diag_help(d, "give `--args FILE.json`, `--arg %s=FILE.npy`, `--params FILE` or `--random SEED`",
              p->name->text);
    return false;
}

bool request_arrays(RelaySession *s, const RelayRequest *r, const Function *fn, Value *args)
{
    Filling f = {.s = s, .fn = fn, .args = args};
    bool ok = true;
    for (size_t i = 0; i < r->n_params && ok; i++) {
        if (strcmp(r->params[i].key, "params") != 0)
            continue;
        ok = params_read(&s->cx.limits, s->cx.diags, r->params[i].value, take_array, &f);
        if (ok && f.n_unused)
            emit_printf(s, RELAY_OUTPUT_STREAM, "note: `%s` holds what is no parameter: %s\n",
                        r->params[i].value, buf_text(&f.unused));
        buf_clear(&f.unused);
        f.n_unused = 0;
    }
    buf_deinit(&f.unused);
    return ok;
}

/* The arguments that a file says, none of which was given before. */
static bool take_args(Filling *f, const char *path, Module *m)
{
    uint32_t n = f->fn->params.n;
    Value *read = memory_zeroed((size_t)n + 1, sizeof *read);
    bool ok = read && json_read_args(f->s, path, m, f->fn, read);
    for (uint32_t i = 0; read && i < n; i++) {
        bool given = !value_is_none(read[i]);
        if (ok && given)
            ok = is_first(f, (int)i, "args", path);
        if (!ok)
            value_release(read[i]);
        else if (given)
            f->args[i] = read[i];
    }
    free(read);
    return ok;
}

Module *request_bound(RelaySession *s, const RelayRequest *r, Module *m, const Name *entry)
{
    const Def *def = module_find(m, entry);
    if (!def || !def->fn || !request_find(r, "params"))
        return module_retain(m);
    uint32_t n = def->fn->params.n;
    Filling f = {.s = s, .fn = def->fn, .args = memory_zeroed((size_t)n + 1, sizeof(Value))};
    bool *known = memory_zeroed((size_t)n + 1, sizeof *known), ok = f.args && known;
    ok = ok && request_arrays(s, r, def->fn, f.args);
    for (uint32_t i = 0; i < n && ok; i++) {
        known[i] = !value_is_none(f.args[i]);
        ok = check_type(&f, (int)i);
    }
    Module *bound = ok ? bind_params(s, m, entry, known, f.args) : NULL;
    for (uint32_t i = 0; f.args && i < n; i++)
        value_release(f.args[i]);
    free(f.args);
    free(known);
    return bound;
}

bool request_args(RelaySession *s, const RelayRequest *r, Module *m, const Function *fn,
                  Value *args)
{
    Filling f = {.s = s, .fn = fn, .args = args, .bound = request_find(r, "params") != NULL};
    bool ok = true;
    const char *seed = NULL;
    for (size_t i = 0; i < r->n_params && ok; i++) {
        const RelayParam *p = &r->params[i];
        if (!strcmp(p->key, "args"))
            ok = take_args(&f, p->value, m);
        else if (!strcmp(p->key, "arg") || !strcmp(p->key, "bytes"))
            ok = take_arg(&f, p->key, p->value);
        else if (!strcmp(p->key, "random"))
            seed = p->value;
    }
    uint64_t start = seed ? strtoull(seed, NULL, 10) : 0, drawn = 0;
    for (uint32_t i = 0; i < fn->params.n && ok; i++) {
        const Type *type = fn->params.at[i]->base.type;
        if (seed && type && value_is_none(args[i]))
            ok = take_random(&f, (int)i, type_find(type), start, &drawn);
        ok = ok && check_arg(&f, (int)i);
    }
    return ok;
}
