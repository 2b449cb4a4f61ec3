/* `relay new model NAME`: a network of stdlib/models as a program, its weights and an example of its inputs. */
#include "stdlib/models/models.h"
#include "base/memory.h"

#include "ir/print.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/internal.h"
#include "session/manifest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct NewModel {
    RelaySession *s;
    const ModelRow *row;
    Model model;
    Module *module;
    uint64_t seed; /* into every stream */
} NewModel;

/* ---- values ------------------------------------------------------------------------------------------------------------------ */

static double fan_in(const Type *t)
{
    double n = 1;
    for (uint32_t i = 1; i < t->n; i++)
        n *= (double)t->dims[i];
    return n;
}

static double fan_out(const Type *t)
{
    double n = t->n ? (double)t->dims[0] : 1;
    for (uint32_t i = 2; i < t->n; i++)
        n *= (double)t->dims[i];
    return n;
}

/* The bounds are single-precision numbers, as in a manifest. */
static void fill_uniform(WorkloadParam *p, double scale, double offset)
{
    p->gen = GEN_UNIFORM;
    p->scale = (double)(float)scale;
    p->offset = (double)(float)offset;
}

/* How the parameter is filled, now that its type is known. */
static WorkloadParam param_of(const ModelParam *mp, const Type *t)
{
    WorkloadParam p = {.name = mp->name, .weight = mp->weight, .expr = ""};
    if (mp->fill.kind == FILL_EXPR) {
        p.gen = GEN_EXPR;
        return p;
    }
    p.dtype = t->dtype;
    p.rank = (int32_t)t->n;
    memcpy(p.shape, t->dims, t->n * sizeof *t->dims);
    switch (mp->fill.kind) {
    case FILL_UNIFORM: fill_uniform(&p, mp->fill.a, mp->fill.b); break;
    case FILL_FAN_IN: fill_uniform(&p, sqrt(mp->fill.a / fan_in(t)), 0); break;
    case FILL_XAVIER: fill_uniform(&p, sqrt(6 / (fan_in(t) + fan_out(t))), 0); break;
    case FILL_INT:
        p.gen = GEN_INT;
        p.low = (int64_t)mp->fill.a;
        p.high = (int64_t)mp->fill.b;
        break;
    case FILL_VALUE:
    case FILL_EXPR:
        p.gen = GEN_VALUE;
        p.value = mp->fill.a;
        break;
    }
    return p;
}

static Value value_of(NewModel *n, size_t i)
{
    const ModelParam *mp = &n->model.params.at[i];
    const Def *main = module_find_text(n->module, "main");
    WorkloadParam p = param_of(mp, type_find(main->fn->params.at[i]->base.type));
    Buf expr = {0};
    buf_printf(&expr, "@%s()", mp->var);
    p.expr = buf_text(&expr);
    Value v = workload_value(n->s, n->module, n->row->name, &p, n->seed);
    buf_deinit(&expr);
    return v;
}

/* ---- files ------------------------------------------------------------------------------------------------------------------- */

/* The program's path with another ending. */
static void beside(Buf *out, const char *path, const char *ending)
{
    size_t n = strlen(path);
    if (n > 4 && strcmp(path + n - 4, ".rly") == 0)
        n -= 4;
    buf_bytes(out, path, n);
    buf_str(out, ending);
}

static bool write_weights(NewModel *n, const char *path)
{
    size_t most = n->model.params.n, found = 0;
    const char **names = memory_zeroed(most + 1, sizeof *names);
    Tensor **tensors = memory_zeroed(most + 1, sizeof *tensors);
    bool ok = names && tensors;
    for (size_t i = 0; i < most && ok; i++) {
        if (!n->model.params.at[i].weight)
            continue;
        Value v = value_of(n, i);
        tensors[found] = value_is_none(v) ? NULL : value_to_tensor(&n->s->cx.limits, v);
        value_release(v);
        ok = tensors[found] != NULL;
        names[found++] = n->model.params.at[i].var;
    }
    ok = ok && params_write(&n->s->cx.limits, n->s->cx.diags, path, found, names, tensors);
    for (size_t i = 0; tensors && i < found; i++)
        tensor_release(tensors[i]);
    free(names);
    free(tensors);
    return ok;
}

static bool write_inputs(NewModel *n, const char *path)
{
    Buf json = {0};
    bool ok = true;
    buf_str(&json, "{");
    for (size_t i = 0; i < n->model.params.n && ok; i++) {
        if (n->model.params.at[i].weight)
            continue;
        Value v = value_of(n, i);
        ok = !value_is_none(v);
        buf_printf(&json, "%s\"%s\": ", json.n > 1 ? ",\n " : "", n->model.params.at[i].var);
        if (ok)
            json_encode_value(n->s, &json, v);
        value_release(v);
    }
    buf_str(&json, "}\n");
    ok = ok && file_write(&n->s->cx.limits, n->s->cx.diags, path, buf_text(&json), json.n);
    buf_deinit(&json);
    return ok;
}

/* NAME.rly, and beside it NAME.weights.npz and NAME.inputs.json. */
static bool write_files(NewModel *n, const char *path, const Buf *text)
{
    Buf weights = {0}, inputs = {0};
    beside(&weights, path, ".weights.npz");
    beside(&inputs, path, ".inputs.json");
    bool ok = file_write(&n->s->cx.limits, n->s->cx.diags, path, buf_text(text), text->n) &&
              write_weights(n, buf_text(&weights)) && write_inputs(n, buf_text(&inputs));
    if (ok)
        emit_printf(n->s, RELAY_OUTPUT_DISPLAY,
                    "written: %s, %s, %s\nrelay run %s --params %s --args %s", path,
                    buf_text(&weights), buf_text(&inputs), path, buf_text(&weights),
                    buf_text(&inputs));
    buf_deinit(&weights);
    buf_deinit(&inputs);
    return ok;
}

/* ---- the verb ---------------------------------------------------------------------------------------------------------------- */

static void list_models(RelaySession *s)
{
    Buf b = {0};
    for (size_t i = 0; i < n_model_rows; i++)
        buf_printf(&b, "%-24s %s\n", model_rows[i].name, model_rows[i].doc);
    emit_text(s, RELAY_OUTPUT_TEXT, &b);
    buf_deinit(&b);
}

static const ModelRow *find_model(RelaySession *s, const char *name)
{
    const ModelRow *row = model_find(name);
    if (row)
        return row;
    const char **names = arena_new_array(&s->cx.arena, const char *, n_model_rows);
    for (size_t i = 0; names && i < n_model_rows; i++)
        names[i] = model_rows[i].name;
    Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "there is no model `%s`", name);
    diag_suggest(d, name, names ? n_model_rows : 0, names);
    diag_help(d, "`relay new model` lists them");
    return NULL;
}

RelayStatus stage_new(RelaySession *s, const RelayRequest *r)
{
    const char *name = request_find(r, "model"), *seed = request_find(r, "seed");
    const char *path = request_find(r, "out");
    if (!name) {
        list_models(s);
        return RELAY_OK;
    }
    Arena arena;
    arena_init(&arena, &s->cx.limits);
    NewModel n = {.s = s, .row = find_model(s, name), .model = {.arena = &arena}};
    /* A seed of 0 leaves the streams as the benchmark's workloads have them. */
    uint64_t number = seed ? strtoull(seed, NULL, 10) : 0;
    n.seed = number * 0x9E3779B97F4A7C15u;
    if (n.row)
        model_build(n.row, &n.model);
    if (n.model.text.n)
        n.module = load_program(s, n.row->name, buf_text(&n.model.text), n.model.text.n, true);
    Buf text = {0};
    if (n.module)
        ir_print_module(&text, n.module, (PrintStyle){.annotations = true});
    if (n.module && path)
        write_files(&n, path, &text);
    else if (n.module)
        emit_text(s, RELAY_OUTPUT_TEXT, &text);
    buf_deinit(&text);
    buf_deinit(&n.model.text);
    if (n.module)
        interp_forget(s->interp, n.module);
    module_release(n.module);
    arena_deinit(&arena);
    return session_status(s);
}
