/* `relay export`: a program and its weights as a model of another format. */
#include "passes/pass.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/exchange.h"

#include <stdlib.h>
#include <string.h>

typedef struct Arrays {
    Arena arena;
    Vec(ExportArray) found;
} Arrays;

static bool take_array(void *data, const char *name, Tensor *t)
{
    Arrays *a = data;
    const char *copy = arena_copy_text(&a->arena, name, strlen(name));
    vec_push(&a->found, &a->arena, ((ExportArray){copy, t}));
    return true;
}

/* Flat, and functions that are to be put in place are there. */
static Module *flat(RelaySession *s, Module *m)
{
    PassContext pc = {.cx = &s->cx, .any_level = true};
    return passes_run_text(&pc, m, "Inline,ToANormalForm,InferType");
}

static void write_model(RelaySession *s, const RelayRequest *r, const Module *m,
                        const ExportWish *wish)
{
    const ExchangeTable *exchange = session_exchange(s);
    const char *out = request_find(r, "out"), *name = r->name ? r->name : "model";
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - name) : strlen(name);
    Buf model = {0}, path = {0};
    if (out)
        buf_str(&path, out);
    else
        buf_printf(&path, "%.*s.onnx", (int)stem, name);
    if (exchange && exchange->to_onnx(&s->cx, m, wish, &model) &&
        file_write(&s->cx.limits, s->cx.diags, buf_text(&path), model.at, model.n))
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "written: %s\n", buf_text(&path));
    buf_deinit(&model);
    buf_deinit(&path);
}

RelayStatus stage_export(RelaySession *s, const RelayRequest *r)
{
    const char *entry = request_find(r, "entry"), *to = request_find(r, "to");
    Arrays arrays = {0};
    bool ok = to && !strcmp(to, "onnx");
    if (!ok) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` is no format of models",
                             to ? to : "");
        diag_help(d, "write `--to onnx`");
    }
    arena_init(&arrays.arena, &s->cx.limits);
    Module *text = ok ? load_program(s, r->name, r->text, r->len, true) : NULL;
    Module *m = text ? flat(s, text) : NULL;
    for (size_t i = 0; m && i < r->n_params && ok; i++)
        if (!strcmp(r->params[i].key, "params"))
            ok = params_read(&s->cx.limits, s->cx.diags, r->params[i].value, take_array, &arrays);
    if (m && ok)
        write_model(s, r, m,
                    &(ExportWish){.entry = ctx_name(&s->cx, entry ? entry : "main"),
                                  .n_arrays = arrays.found.n,
                                  .arrays = arrays.found.at});
    for (size_t i = 0; i < arrays.found.n; i++)
        tensor_release((Tensor *)arrays.found.at[i].value);
    arena_deinit(&arrays.arena);
    module_release(m);
    module_release(text);
    return session_status(s);
}
