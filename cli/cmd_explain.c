#include "cli/cli.h"

#include "repl/face.h"

/* The command of the same name in a cell. */
static int run_explain(const CliArgs *args)
{
    Face face;
    Buf cell = {0};
    if (!face_init(&face, &(ReplOptions){.color = args->color}, SIGNALS_SCRIPT))
        return face.worst;
    for (size_t i = 0; i < args->n_operands; i++)
        buf_printf(&cell, ":explain %s\n", args->operands[i]);
    face_eval(&face, &(RelayCell){.text = buf_text(&cell), .len = cell.n, .name = "explain"});
    int status = show_status(&face.show, face.worst);
    face_deinit(&face);
    buf_deinit(&cell);
    return status;
}

const CliCommand cmd_explain = {
    .name = "explain",
    .args = "CODE…",
    .doc = "Says what a diagnostic means, with examples.",
    .least = 1,
    .most = SIZE_MAX,
    .run = run_explain,
};
