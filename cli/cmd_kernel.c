#include "cli/cli.h"

#include "base/plugin.h"
#include "kernel/kernel_main.h"

#include <string.h>

static const CliOption run_options[] = {
    {.letter = 'f',
     .name = "connection",
     .arg = "FILE",
     .doc = "the connection file that Jupyter has written"},
    {.name = "sandbox",
     .doc = "for notebooks of strangers: opens no file, no network but Jupyter's, no process"},
    {0},
};

/* The kernel and its libraries are opened only here. */
static PluginEntry *open_kernel(const char *entry)
{
    Show show;
    Buf why = {0};
    PluginEntry *found = plugin_open("kernel", entry, &why);
    show_init(&show, COLOR_NEVER);
    if (!found)
        show_error(&show, "the kernel cannot be opened: %s", buf_text(&why));
    buf_deinit(&why);
    return found;
}

static int run_kernel(const CliArgs *args)
{
    int (*run)(const KernelOptions *) =
        (int (*)(const KernelOptions *))open_kernel("relay_kernel_run");
    KernelOptions asked = {cli_value(args, "connection"), cli_value(args, "sandbox") != NULL};
    return run ? run(&asked) : RELAY_USAGE;
}

static const CliCommand kernel_run = {
    .name = "kernel run",
    .args = "",
    .doc = "Serves a notebook; without -f it makes a connection file and prints its name.",
    .options = run_options,
    .run = run_kernel,
};

static int install_kernel(int argc, char **argv)
{
    int (*install)(int, char **) = (int (*)(int, char **))open_kernel("relay_kernel_install");
    return install ? install(argc, argv) : RELAY_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "install") == 0)
        return install_kernel(argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "run") == 0)
        return cli_run(&kernel_run, argc - 1, argv + 1);
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return cli_help(&cmd_kernel);
    return cli_wrong(&cmd_kernel, "`install` or `run` is missing");
}

const CliCommand cmd_kernel = {
    .name = "kernel",
    .args = "install | run -f CONNECTION",
    .doc = "Installs the Jupyter kernel, or runs it.",
    .more = "`relay kernel install --help` and `relay kernel run --help` say more.\n",
    .raw = dispatch,
};
