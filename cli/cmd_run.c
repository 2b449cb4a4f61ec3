#include "cli/cli.h"

#include "base/memory.h"
#include "base/plugin.h"
#include "base/sandbox.h"

#include <stdlib.h>
#include <string.h>

/* Where values come from and go to: for `relay run`, and for programs that `relay compile --emit exe` made. */
#define VALUE_OPTIONS                                                                             \
    {.name = "args",                                                                              \
     .arg = "FILE.json",                                                                          \
     .doc = "the arguments: an array, or an object by parameter name"},                           \
        {.name = "arg", .arg = "NAME=FILE.npy", .doc = "one argument; may be repeated"},          \
        {.name = "bytes",                                                                         \
         .arg = "NAME=FILE",                                                                      \
         .doc = "one argument: the bytes of any file; may be repeated"},                          \
        {.name = "params",                                                                        \
         .arg = "FILE",                                                                           \
         .doc = "parameters of the function by name, which become constants of what is compiled " \
                "now: .npz or .params"},                                                          \
        {.name = "random",                                                                        \
         .arg = "SEED",                                                                           \
         .seed = true,                                                                            \
         .doc = "uniform values for the tensors that remain"},                                    \
        {.name = "json", .doc = "prints the result as JSON, and diagnostics as JSON lines"},      \
        {.letter = 'o',                                                                           \
         .name = "out",                                                                           \
         .arg = "FILE",                                                                           \
         .doc = "writes the result: .npz, or .params"}

static const CliOption options[] = {
    {.name = "entry", .arg = "NAME", .doc = "the function; default `main`"},
    {.name = "exec",
     .arg = "auto|interp|jit|gpu",
     .doc = "the engine; default `jit` where it is built in"},
    {.letter = 'O',
     .key = "O",
     .arg = "N",
     .number = true,
     .doc = "the level of the pipeline before code is made; default 2; 0: as written"},
    {.name = "exact", .doc = "no sum in another order than written, nothing approximated"},
    {.name = "tf32", .doc = "on a card, products of float32 may round their factors to TF32"},
    {.name = "no-cache", .doc = "compiled code is neither kept in files nor taken from them"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {.name = "sandbox",
     .doc =
         "for programs of strangers: opens no file but those named here, no network, no process"},
    VALUE_OPTIONS,
    {0},
};

/* The file that the value of the option names; NULL: none that is read. */
static const char *file_named(const RelayParam *param)
{
    for (const CliOption *o = options; o->name || o->letter; o++) {
        const char *key = o->key ? o->key : o->name;
        if (strcmp(key, param->key) != 0 || !o->arg || !strstr(o->arg, "FILE"))
            continue;
        const char *equals = strchr(o->arg, '=') ? strchr(param->value, '=') : NULL;
        return equals ? equals + 1 : param->value;
    }
    return NULL;
}

/* What is opened later without being named: the code generator. Plug-ins that are open already are not looked for again. */
static void open_plugins(const CliArgs *args)
{
    const char *engine = cli_value(args, "exec");
    Buf why = {0};
    if (!engine || !strcmp(engine, "jit") || !strcmp(engine, "auto")) {
        plugin_open("jit", "relay_jit_table", &why);
        plugin_open("llvm", "relay_llvm_cushion", &why);
    }
    buf_deinit(&why);
}

static int run_sandboxed(const CliArgs *args)
{
    if (cli_value(args, "out"))
        return cli_wrong(&cmd_run, "--sandbox writes no file: the result goes to standard output");
    const char *engine = cli_value(args, "exec");
    if (engine && !strcmp(engine, "gpu"))
        return cli_wrong(&cmd_run,
                         "--sandbox opens no device: --exec auto, interp or jit run in it");
    const char **files = memory_alloc((args->n_params + 1) * sizeof *files);
    size_t n = 0;
    for (size_t i = 0; files && i < args->n_params; i++) {
        const char *file = file_named(&args->params[i]);
        if (file)
            files[n++] = file;
    }
    if (files)
        files[n++] = args->operands[0];
    open_plugins(args);
    Buf why = {0};
    bool inside = files && sandbox_enter(files, n, SANDBOX_NO_NETWORK, &why);
    free(files);
    int status = inside ? cli_stage_with(args, "run", args->operands[0], "no-cache", "1")
                        : cli_wrong(&cmd_run, "there is no sandbox here: %s", buf_text(&why));
    buf_deinit(&why);
    return status;
}

static int run(const CliArgs *args)
{
    return cli_value(args, "sandbox") ? run_sandboxed(args) : cli_stage_of_file(args);
}

const CliCommand cmd_run = {
    .name = "run",
    .args = "FILE|DIR",
    .doc = "Evaluates a function of a module, or an expression, and prints the value.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 1,
    .run = run,
};

/* ---- programs of their own ------------------------------------------------------------------- */

static const CliOption attached_options[] = {VALUE_OPTIONS, {0}};
static Attached attached;

static int run_attached(const CliArgs *args)
{
    return cli_stage_of_bytes(args, "call", attached.at, attached.n);
}

int cli_run_attached(const Attached *code, int argc, char **argv)
{
    attached = *code;
    plugin_also_in(code->folder);
    const CliCommand self = {
        .program = argc > 0 ? argv[0] : "",
        .name = "",
        .args = "",
        .doc = "Evaluates the function that it was compiled of, and prints the value.",
        .options = attached_options,
        .limits = true,
        .run = run_attached,
    };
    return cli_run(&self, argc > 0 ? argc - 1 : 0, argv + (argc > 0));
}
