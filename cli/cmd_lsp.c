#include "cli/cli.h"

#include "lsp/lsp.h"

#include <string.h>

static int serve(const CliArgs *args)
{
    (void)args;
    const char *why;
    int error, status = lsp_run(&why, &error);
    if (error) {
        Show show;
        show_init(&show, COLOR_NEVER);
        show_error(&show, "%s: %s", why, strerror(error));
    }
    return status;
}

/* Editors that serve several languages say how they speak: there is one way. */
static const CliOption options[] = {
    {.name = "stdio", .doc = "serves on standard input and output, as without it"},
    {0},
};

const CliCommand cmd_lsp = {
    .name = "lsp",
    .args = "",
    .doc = "Serves an editor: a language server on standard input and output.",
    .options = options,
    .run = serve,
};
