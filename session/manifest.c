#include "session/manifest.h"

#include "base/random.h"
#include "parser/parser.h"
#include "typecheck/typecheck.h"

#include "runtime/npy.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(Arena *arena, json_t *j, const char *key)
{
    const char *text = json_string_value(json_object_get(j, key));
    return text ? arena_copy_text(arena, text, strlen(text)) : NULL;
}

static double number_of(json_t *j, const char *key)
{
    return json_number_value(json_object_get(j, key));
}

static bool read_gen(Arena *arena, json_t *gen, WorkloadParam *p)
{
    const char *kind = json_string_value(json_object_get(gen, "kind"));
    static const struct {
        const char *name;
        GenKind gen;
    } kinds[] = {
        {"uniform", GEN_UNIFORM},
        {"int", GEN_INT},
        {"value", GEN_VALUE},
        {"values", GEN_VALUES},
    };
    size_t i = 0;
    while (i < 4 && (!kind || strcmp(kinds[i].name, kind)))
        i++;
    if (i == 4)
        return false;
    p->gen = kinds[i].gen;
    p->scale = number_of(gen, "scale");
    p->offset = number_of(gen, "offset");
    p->low = (int64_t)number_of(gen, "low");
    p->high = (int64_t)number_of(gen, "high");
    p->value = number_of(gen, "value");
    json_t *values = json_object_get(gen, "values");
    p->n_values = json_array_size(values);
    double *at = arena_new_array(arena, double, p->n_values);
    for (size_t k = 0; k < p->n_values; k++)
        at[k] = json_number_value(json_array_get(values, k));
    p->values = at;
    return p->gen != GEN_INT || p->high > p->low;
}

static bool read_param(Arena *arena, json_t *j, WorkloadParam *p)
{
    p->name = text_of(arena, j, "name");
    p->expr = text_of(arena, j, "expr");
    const char *role = json_string_value(json_object_get(j, "role"));
    p->weight = role && !strcmp(role, "weight");
    if (p->expr)
        p->gen = GEN_EXPR;
    if (!p->name || p->expr)
        return p->name != NULL;
    const char *dtype = json_string_value(json_object_get(j, "dtype"));
    json_t *shape = json_object_get(j, "shape");
    if (!dtype || !dtype_parse(str_of(dtype), &p->dtype) ||
        json_array_size(shape) > TENSOR_RANK_MOST)
        return false;
    p->rank = (int32_t)json_array_size(shape);
    for (int32_t i = 0; i < p->rank; i++)
        p->shape[i] = json_integer_value(json_array_get(shape, (size_t)i));
    return read_gen(arena, json_object_get(j, "gen"), p);
}

static bool read_workload(Arena *arena, json_t *row, const char *name, Workload *out)
{
    json_t *params = json_object_get(row, "params");
    out->name = arena_copy_text(arena, name, strlen(name));
    out->program = text_of(arena, row, "program");
    out->entry = text_of(arena, row, "entry");
    out->flops = number_of(row, "flops");
    out->bytes = number_of(row, "nbytes");
    out->n = json_array_size(params);
    out->params = arena_new_array(arena, WorkloadParam, out->n);
    bool ok = out->program && out->params;
    for (size_t i = 0; i < out->n && ok; i++)
        ok = read_param(arena, json_array_get(params, i), &out->params[i]);
    if (!out->entry)
        out->entry = "main";
    return ok;
}

bool manifest_read(RelaySession *s, Arena *arena, const char *dir, const char *name, Workload *out)
{
    Buf path = {0};
    buf_printf(&path, "%s/manifest.json", dir);
    size_t len;
    char *text = file_read(&s->cx.limits, s->cx.diags, buf_text(&path), &len);
    json_error_t error;
    json_t *root = text ? json_loadb(text, len, 0, &error) : NULL;
    json_t *row = json_object_get(root, name);
    bool ok = row && read_workload(arena, row, name, out);
    if (text && !root)
        diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "`%s` is not JSON: line %d: %s",
                   buf_text(&path), error.line, error.text);
    else if (root && !row)
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` has no workload `%s`",
                   buf_text(&path), name);
    else if (root && !ok)
        diag_error(s->cx.diags, E0403_FORMAT, (Span){0}, "`%s`: the row of `%s` cannot be read",
                   buf_text(&path), name);
    json_decref(root);
    free(text);
    buf_deinit(&path);
    return ok;
}

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static double uniform_value(const WorkloadParam *p, uint64_t z)
{
    return p->offset + p->scale * ((double)(z >> 40) * 0x1p-23 - 1.0);
}

static Value stream_value(const WorkloadParam *p, uint64_t seed, int64_t i)
{
    uint64_t z = random_at(seed, (uint64_t)i);
    switch (p->gen) {
    case GEN_UNIFORM: return value_scalar_double(p->dtype, uniform_value(p, z));
    case GEN_INT:
        return value_scalar_int(p->dtype,
                                p->low + (int64_t)((z >> 33) % (uint64_t)(p->high - p->low)));
    case GEN_VALUES:
        return value_scalar_double(p->dtype, (size_t)i < p->n_values ? p->values[i] : 0);
    case GEN_VALUE:
    case GEN_EXPR: break;
    }
    return value_scalar_double(p->dtype, p->value);
}

static Value make_tensor(RelaySession *s, const WorkloadParam *p, uint64_t seed)
{
    Tensor *t = tensor_new_raw(&s->cx.limits, p->dtype, p->rank, p->shape);
    size_t size = dtype_size(p->dtype);
    /* The weights of networks are many. */
    bool floats = t && p->gen == GEN_UNIFORM && dtype_id(p->dtype) == DT_FLOAT32;
    for (int64_t i = 0; floats && i < t->size; i++)
        ((float *)(void *)t->data)[i] = (float)uniform_value(p, random_at(seed, (uint64_t)i));
    for (int64_t i = 0; t && !floats && i < t->size; i++) {
        Value v = stream_value(p, seed, i);
        memcpy(t->data + (size_t)i * size, &v.bits, size);
    }
    return value_tensor(t);
}

static Value make_expr(RelaySession *s, Module *m, const WorkloadParam *p)
{
    uint32_t source = sources_add(&s->cx.sources, p->name, p->expr, strlen(p->expr));
    ParseEnv env = {.globals = m, .import = session_import, .data = s};
    Module *text = source ? parse_text(&s->cx, source, &env) : NULL;
    Value v = value_none();
    if (text && text->expr && session_check(s, text, m, (CheckWish){0}))
        v = interp_eval(s->interp, m, text, text->expr, NULL);
    module_release(text);
    return v;
}

Value workload_value(RelaySession *s, Module *m, const char *workload, const WorkloadParam *p,
                     uint64_t seed)
{
    Buf stream = {0};
    if (p->gen == GEN_EXPR)
        return make_expr(s, m, p);
    buf_printf(&stream, "%s/%s", workload, p->name);
    Value v = make_tensor(s, p, random_seed(buf_text(&stream)) ^ seed);
    buf_deinit(&stream);
    return v;
}
