/* `relay import`: a model of another framework as a program and its weights. */
#include "base/file.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "ir/print.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "session/exchange.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

const ExchangeTable *session_exchange(RelaySession *s)
{
    Buf why = {0};
    const ExchangeTable *(*entry)(void) =
        (const ExchangeTable *(*)(void))plugin_open("exchange", "relay_exchange_table", &why);
    const ExchangeTable *table = entry ? entry() : NULL;
    if (!table) {
        Diag *d = diag_error(s->cx.diags, E0404_LIBRARY, (Span){0},
                             "models of others cannot be read or written: %s", buf_text(&why));
        diag_help(d, "`relay doctor` says what is missing");
    }
    buf_deinit(&why);
    return table;
}

/* `NAME=1,3,224,224`. */
static bool read_shape(RelaySession *s, const char *text, ImportShape *out)
{
    const char *eq = strrchr(text, '=');
    *out = (ImportShape){.name = {text, eq ? (size_t)(eq - text) : 0}};
    bool ok = eq && eq > text;
    for (const char *p = eq ? eq + 1 : ""; ok && *p;) {
        char *end;
        long long d = strtoll(p, &end, 10);
        ok = end > p && d >= 0 && out->rank < TENSOR_RANK_MOST && (*end == 0 || *end == ',');
        if (ok)
            out->dims[out->rank++] = d;
        p = *end == ',' ? end + 1 : end;
    }
    if (ok)
        return true;
    Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "`%s` is no shape of an input", text);
    diag_help(d, "write `--shape NAME=1,3,224,224`");
    return false;
}

/* The folder, or nothing, and the model's name without its ending. */
static void target_of(Buf *out, const char *path, const char *folder)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    name = strcmp(name, "-") != 0 ? name : "model"; /* from standard input */
    const char *dot = strrchr(name, '.');
    if (folder && *folder)
        buf_printf(out, "%s%s", folder, folder[strlen(folder) - 1] == '/' ? "" : "/");
    buf_bytes(out, name, dot && dot > name ? (size_t)(dot - name) : strlen(name));
}

static void put_table(Buf *b, const Imported *im)
{
    size_t width = strlen("operator");
    for (size_t i = 0; i < im->ops.n; i++)
        width = strlen(im->ops.at[i].name) > width ? strlen(im->ops.at[i].name) : width;
    buf_printf(b, "%-*s  nodes  computed\n", (int)width, "operator");
    for (size_t i = 0; i < im->ops.n; i++) {
        const ImportedOp *op = &im->ops.at[i];
        buf_printf(b, "%-*s  %5u", (int)width, op->name, op->nodes);
        if (op->folded)
            buf_printf(b, "  %8u", op->folded);
        buf_char(b, '\n');
    }
}

static bool write_arrays(RelaySession *s, const char *path, const Imported *im)
{
    const char **names = memory_zeroed(im->arrays.n + 1, sizeof *names);
    Tensor **tensors = memory_zeroed(im->arrays.n + 1, sizeof *tensors);
    bool ok = names && tensors;
    for (size_t i = 0; ok && i < im->arrays.n; i++) {
        names[i] = im->arrays.at[i].name;
        tensors[i] = im->arrays.at[i].value;
    }
    ok = ok && params_write(&s->cx.limits, s->cx.diags, path, im->arrays.n, names, tensors);
    memory_free(names);
    memory_free(tensors);
    return ok;
}

/* The program as it is printed everywhere: what the rules wrote is read again, and has types. */
static bool write_program(RelaySession *s, const RelayRequest *r, const char *path,
                          const Imported *im)
{
    Buf base = {0}, program = {0}, arrays = {0}, text = {0}, said = {0};
    Module *m = load_program(s, path, im->text.at, im->text.n, true);
    bool check = request_find(r, "check") != NULL;
    target_of(&base, path, request_find(r, "out"));
    buf_printf(&program, "%s.rly", buf_text(&base));
    buf_printf(&arrays, "%s.npz", buf_text(&base));
    if (m)
        ir_print_module(&text, m, (PrintStyle){.annotations = true});
    if (m && !check)
        file_make_folders(base.at, FILE_EVERYBODYS); /* what fails, writing says */
    bool ok =
        m && !text.failed &&
        (check || (write_arrays(s, buf_text(&arrays), im) &&
                   file_write(&s->cx.limits, s->cx.diags, buf_text(&program), text.at, text.n)));
    if (ok)
        put_table(&said, im);
    if (ok && check) {
        buf_str(&said, "checked: ");
        if (im->compared > 0)
            buf_printf(&said, "%u types that the model states agree", im->compared);
        else
            buf_str(&said, "the program has types");
        buf_str(&said, "; nothing is written\n");
        emit_text(s, RELAY_OUTPUT_DISPLAY, &said);
    } else if (ok) {
        buf_printf(&said, "written: %s, %s\nrelay run %s --params %s --random 1\n",
                   buf_text(&program), buf_text(&arrays), buf_text(&program), buf_text(&arrays));
        emit_text(s, RELAY_OUTPUT_DISPLAY, &said);
    }
    if (m)
        interp_forget(s->interp, m);
    module_release(m);
    buf_deinit(&base);
    buf_deinit(&program);
    buf_deinit(&arrays);
    buf_deinit(&text);
    buf_deinit(&said);
    return ok;
}

static bool read_model(RelaySession *s, const ImportWish *wish, Imported *out)
{
    *out = (Imported){0};
    if (saved_graph_is(wish->path))
        return saved_graph_import(s, wish, out);
    const ExchangeTable *exchange = session_exchange(s);
    return exchange && exchange->onnx(&s->cx, s->interp, wish, out);
}

static void imported_free(Imported *im)
{
    for (size_t i = 0; i < im->arrays.n; i++)
        tensor_release(im->arrays.at[i].value);
    buf_deinit(&im->text);
    arena_deinit(&im->arena);
}

RelayStatus stage_import(RelaySession *s, const RelayRequest *r)
{
    ImportShape *shapes = memory_zeroed(r->n_params + 1, sizeof *shapes);
    const char *path = request_find(r, "model");
    ImportWish wish = {
        .path = path ? path : "", .shapes = shapes, .check = request_find(r, "check") != NULL};
    bool ok = shapes != NULL;
    for (size_t i = 0; ok && i < r->n_params; i++)
        if (!strcmp(r->params[i].key, "shape"))
            ok = read_shape(s, r->params[i].value, &shapes[wish.n_shapes++]);
    Imported im;
    if (ok && read_model(s, &wish, &im))
        write_program(s, r, path, &im);
    if (ok)
        imported_free(&im);
    memory_free(shapes);
    return session_status(s);
}

/* ---- in a session ------------------------------------------------------------------------------------------------------------ */

/* What the file is called, as a name of the language. */
static void name_of_file(Buf *out, const char *path)
{
    target_of(out, strrchr(path, '/') ? strrchr(path, '/') + 1 : path, NULL);
    if (out->n == 0 || !isalpha((unsigned char)out->at[0])) {
        char *rest = buf_take(out);
        buf_printf(out, "model%s%s", rest && *rest ? "_" : "", rest ? rest : "");
        free(rest);
    }
    for (size_t i = 0; i < out->n; i++)
        if (!isalnum((unsigned char)out->at[i]))
            out->at[i] = '_';
}

static bool run_text(RelaySession *s, const char *name, const Buf *text, bool silent)
{
    uint32_t source = text->failed ? 0 : sources_add(&s->cx.sources, name, text->at, text->n);
    return source && cell_run(s, (CellRun){.source = source, .silent = silent}) == RELAY_OK;
}

/* Under a name that begins with the model's: models call their weights alike. */
static bool bind_weight(CommandCall *c, const char *model, const ImportedArray *a)
{
    RelaySession *s = c->s;
    Module *m = module_new(&s->cx);
    if (!m)
        return false;
    Buf name = {0};
    buf_printf(&name, "%s_%s", model, a->name);
    Var *v = expr_var(&m->arena, c->args, ctx_name(&s->cx, buf_text(&name)), NULL);
    v->base.type = type_of_tensor(&s->cx, a->value);
    session_bind(s, v, value_tensor(tensor_retain(a->value)), m, false);
    module_release(m);
    buf_deinit(&name);
    return true;
}

/* What there is now: a network has too many weights for their types to be read. */
static void tell_model(CommandCall *c, const char *name, const Imported *im)
{
    Buf b = {0};
    double bytes = 0;
    size_t nodes = 0, functions = 0, length = strlen(name);
    for (size_t i = 0; i < im->ops.n; i++)
        nodes += im->ops.at[i].nodes;
    for (size_t i = 0; i < im->arrays.n; i++) {
        const Tensor *t = im->arrays.at[i].value;
        bytes += (double)t->size * (double)dtype_size(t->dtype);
    }
    buf_printf(&b, "@%s: ", name);
    if (nodes > 0)
        buf_printf(&b, "%zu nodes, ", nodes);
    buf_printf(&b, "%zu weights", im->arrays.n);
    static const char *const units[] = {"bytes", "KiB", "MiB"};
    int unit = bytes < 1 << 10 ? 0 : bytes < 1 << 20 ? 1 : 2;
    if (im->arrays.n > 0)
        buf_printf(&b, " of %.*f %s", unit > 0, bytes / (1 << 10 * unit), units[unit]);
    if (im->arrays.n > 0)
        buf_printf(&b, " (%%%s_%s%s)", name, im->arrays.at[0].name, im->arrays.n > 1 ? ", …" : "");
    for (size_t i = 0; i < c->s->env->defs.n; i++) {
        const char *other = c->s->env->defs.at[i].name->text;
        if (!strncmp(other, name, length) && other[length] == '_' && strstr(im->text.at, other))
            buf_printf(&b, "%s@%s", functions++ ? ", " : "; with ", other);
    }
    buf_char(&b, '\n');
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* The definition, its weights as variables, and a function of the inputs alone. */
static void define_model(CommandCall *c, const char *name, const Imported *im)
{
    const Def *def =
        run_text(c->s, name, &im->text, true) ? module_find_text(c->s->env, name) : NULL;
    if (!def)
        return;
    Buf text = {0}, inputs = {0};
    bool ok = true;
    for (uint32_t i = 0; i < im->inputs; i++)
        buf_printf(&inputs, "%s%%%s", i > 0 ? ", " : "", def->fn->params.at[i]->name->text);
    buf_printf(&text, "let %%%s = fn (%s) { @%s(%s", name, buf_text(&inputs), name,
               buf_text(&inputs));
    for (size_t i = 0; ok && i < im->arrays.n; i++) {
        ok = bind_weight(c, name, &im->arrays.at[i]);
        buf_printf(&text, "%s%%%s_%s", i > 0 || im->inputs > 0 ? ", " : "", name,
                   im->arrays.at[i].name);
    }
    buf_str(&text, ") };");
    if (ok && run_text(c->s, name, &text, false))
        tell_model(c, name, im);
    buf_deinit(&text);
    buf_deinit(&inputs);
}

void command_import(CommandCall *c)
{
    char *path = command_need(c, "a model's file") ? command_file(c) : NULL;
    if (!path)
        return;
    Imported im;
    Buf name = {0};
    name_of_file(&name, path);
    ImportWish wish = {.path = path, .entry = buf_text(&name)};
    if (read_model(c->s, &wish, &im))
        define_model(c, buf_text(&name), &im);
    imported_free(&im);
    buf_deinit(&name);
    free(path);
}
