/* `relay export` and `:export`: a program and its weights as a model of another format. */
#include "ir/walk.h"
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

static void arrays_free(Arrays *a)
{
    for (size_t i = 0; i < a->found.n; i++)
        tensor_release((Tensor *)(uintptr_t)a->found.at[i].value);
    arena_deinit(&a->arena);
}

/* Flat, and functions that are to be put in place are there. */
static Module *flat(RelaySession *s, Module *m)
{
    PassContext pc = {.cx = &s->cx, .any_level = true};
    return passes_run_text(&pc, m, "InferType,Inline,ToANormalForm,InferType");
}

static void write_model(RelaySession *s, const char *path, const Module *m, const ExportWish *wish)
{
    const ExchangeTable *exchange = session_exchange(s);
    Buf model = {0};
    if (exchange && exchange->to_onnx(&s->cx, m, wish, &model) &&
        file_write(&s->cx.limits, s->cx.diags, path, model.at, model.n))
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "written: %s\n", path);
    buf_deinit(&model);
}

/* `out`, or the program's name with the format's ending. */
static void path_of(Buf *path, const RelayRequest *r)
{
    const char *out = request_find(r, "out"), *name = r->name ? r->name : "model";
    const char *slash = strrchr(name, '/'), *dot = strrchr(name, '.');
    size_t stem = dot && (!slash || dot > slash + 1) ? (size_t)(dot - name) : strlen(name);
    if (out)
        buf_str(path, out);
    else
        buf_printf(path, "%.*s.onnx", (int)stem, name);
}

RelayStatus stage_export(RelaySession *s, const RelayRequest *r)
{
    const char *entry = request_find(r, "entry"), *to = request_find(r, "to");
    Arrays arrays = {0};
    bool ok = !to || !strcmp(to, "onnx");
    if (!ok) {
        Diag *d =
            diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` is no format of models", to);
        diag_help(d, "write `--to onnx`");
    }
    arena_init(&arrays.arena, &s->cx.limits);
    Module *text = ok ? load_program(s, r->name, r->text, r->len, true) : NULL;
    Module *m = text ? flat(s, text) : NULL;
    for (size_t i = 0; m && i < r->n_params && ok; i++)
        if (!strcmp(r->params[i].key, "params"))
            ok = params_read(&s->cx.limits, s->cx.diags, r->params[i].value, take_array, &arrays);
    Buf path = {0};
    path_of(&path, r);
    if (m && ok)
        write_model(s, buf_text(&path), m,
                    &(ExportWish){.entry = ctx_name(&s->cx, entry ? entry : "main"),
                                  .n_arrays = arrays.found.n,
                                  .arrays = arrays.found.at});
    buf_deinit(&path);
    arrays_free(&arrays);
    module_release(m);
    module_release(text);
    return session_status(s);
}

/* ---- in a session ------------------------------------------------------------------------------------------------------------ */

/* The function that is to be a model: variables of the session that it uses are its weights, or written out where they are functions. */
typedef struct Outward {
    RelaySession *s;
    Module *m;
    Arrays arrays;
    Vec(Var *) params;
    PtrMap map; /* Var -> what stands for it */
    bool again; /* something was written out that may use others */
    bool failed;
} Outward;

static bool is_param(const Outward *o, const Name *name)
{
    for (size_t i = 0; i < o->params.n; i++)
        if (o->params.at[i]->name == name)
            return true;
    return false;
}

/* Variables that were bound anew are several of one name. */
static const Name *free_name(Outward *o, const Name *name)
{
    const Name *found = name;
    Buf text = {0};
    for (int k = 1; is_param(o, found); k++) {
        buf_clear(&text);
        buf_printf(&text, "%s_%d", name->text, k);
        found = ctx_name(&o->s->cx, buf_text(&text));
    }
    buf_deinit(&text);
    return found;
}

static void add_weight(Outward *o, Var *v, Value value)
{
    Tensor *t = value_to_tensor(&o->s->cx.limits, value);
    const Name *name = free_name(o, v->name);
    if (!t)
        return;
    Var *param = expr_var(&o->m->arena, v->base.span, name, type_of_tensor(&o->s->cx, t));
    vec_push(&o->params, &o->m->arena, param);
    ptrmap_put(&o->map, v, param);
    take_array(&o->arrays, name->text, t);
}

static void add_free(void *data, Var *v)
{
    Outward *o = data;
    const Value *value = ptrmap_find(&o->s->local_values, v);
    const Expr *written = session_written(o->s, v);
    if (ptrmap_has(&o->map, v) || !value)
        return;
    if (value->kind == VALUE_SCALAR || value->kind == VALUE_TENSOR) {
        add_weight(o, v, *value);
    } else if (written) {
        ptrmap_put(&o->map, v, (void *)(uintptr_t)written);
        o->again = true;
    } else {
        o->failed = true;
        Diag *d = diag_error(o->s->cx.diags, E0406_IMPORT, v->base.span,
                             "`%%%s` is known only as a value, and is no tensor", v->name->text);
        diag_help(d, "a function is known by its text until what it uses is bound anew");
    }
}

/* The expression as a function of inputs and weights. */
static Function *outward_function(Outward *o, Expr *e)
{
    const Function *fn = expr_as_function(e);
    for (uint32_t i = 0; fn && i < fn->params.n; i++)
        vec_push(&o->params, &o->m->arena, fn->params.at[i]);
    do {
        o->again = false;
        ir_free_vars(e, add_free, o);
        e = o->failed ? NULL : ir_substitute(&o->s->cx, o->m, e, &o->map);
    } while (e && o->again && !limit_hit(&o->s->cx.limits));
    fn = expr_as_function(e);
    return e ? expr_function(&o->m->arena, e->span, (TypeVarList){0}, (uint32_t)o->params.n,
                             o->params.at, NULL, NULL, fn ? fn->body : e)
             : NULL;
}

/* What a model is made of: a function of the session, or an expression. */
static void export_to(CommandCall *c, const char *path)
{
    RelaySession *s = c->s;
    const Def *def = command_global(c);
    Outward o = {.s = s};
    Module *given = command_module(c);
    const Name *entry = def ? def->name : ctx_name(&s->cx, "main");
    o.m = given ? session_with(s->env, given) : NULL;
    arena_init(&o.arrays.arena, &s->cx.limits);
    if (o.m && !def) {
        Function *fn = outward_function(&o, given->expr);
        if (fn)
            module_define(o.m, entry, fn, c->args, o.m);
        o.failed |= !fn;
    }
    Module *reached = o.m && !o.failed ? module_slice(s, o.m, entry) : NULL;
    Module *m = reached ? flat(s, reached) : NULL;
    if (m)
        write_model(s, path, m,
                    &(ExportWish){
                        .entry = entry, .n_arrays = o.arrays.found.n, .arrays = o.arrays.found.at});
    module_release(m);
    module_release(reached);
    arrays_free(&o.arrays);
    ptrmap_deinit(&o.map);
    module_release(o.m);
    module_release(given);
}

void command_export(CommandCall *c)
{
    if (!command_need(c, "the file to write, and what"))
        return;
    CommandCall file = *c;
    file.text = command_word(c);
    file.args.to = file.args.from + (uint32_t)file.text.len;
    char *path = command_rest(&file);
    size_t n = path ? strlen(path) : 0;
    if (path && (n < 5 || strcmp(path + n - 5, ".onnx") != 0)) {
        Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, file.args,
                             "`%s` has no ending of a format of models", path);
        diag_help(d, "write `:export NAME.onnx @f`");
    } else if (path && command_need(c, "what to write (`@f`, or a function)") &&
               session_may_write(c->s, path)) {
        export_to(c, path);
    }
    free(path);
}
