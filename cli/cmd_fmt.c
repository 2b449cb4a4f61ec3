#include "cli/cli.h"

#include "base/memory.h"
#include "repl/face.h"
#include "base/file.h"

#include <errno.h>
#include <string.h>

static const CliOption options[] = {
    {.letter = 'i', .name = "in-place", .doc = "writes the text back into the file"},
    {.name = "check",
     .doc = "prints nothing; the exit code is 1 when a file is not in canonical form"},
    {.name = "from",
     .arg = "text|json",
     .doc = "what the file must be: Relay text, or the saved graph of the original"},
    {.name = "to", .arg = "text|json", .doc = "what is printed; default `text`"},
    {.name = "comments",
     .arg = "none|spans",
     .doc = "what stands in comments; `spans`: where each node was written"},
    {.name = "digits",
     .arg = "short|six",
     .doc = "of floats: as few as read back, or six, as the original prints"},
    {.name = "strict",
     .doc = "refuses what the original could not read, or reads as something else"},
    {.name = "missing",
     .arg = "random|zeros",
     .doc = "what constants are that the metadata lacks; their types stand in comments"},
    {0},
};

/* Keeps the text that the stage makes, to be compared or written back, and shows all else. */
typedef struct Keep {
    RelaySink show;
    Buf text;
} Keep;

static void keep_text(void *data, const RelayOutput *out)
{
    Keep *keep = data;
    const RelayMime *text = relay_output_find(out, "text/plain");
    if (out->kind == RELAY_OUTPUT_TEXT && text)
        buf_bytes(&keep->text, text->data, text->size);
    else
        keep->show.emit(keep->show.data, out);
}

static RelayStatus put_back(Face *face, const char *path, const Buf *text)
{
    if (memory_refusals() > 0) {
        show_refused();
        return RELAY_LIMIT;
    }
    if (file_store(path, buf_text(text), text->n, FILE_EVERYBODYS))
        return RELAY_OK;
    show_error(&face->show, "%s cannot be written: %s", path, strerror(errno));
    return RELAY_USAGE;
}

static RelayStatus finish(Face *face, const CliArgs *args, const char *path, const Buf *before,
                          const Buf *after)
{
    bool same = before->n == after->n && memcmp(buf_text(before), buf_text(after), after->n) == 0;
    if (cli_value(args, "in-place"))
        return same ? RELAY_OK : put_back(face, path, after);
    if (same)
        return RELAY_OK;
    show_error(&face->show, "%s is not in canonical form", cli_name_of(path));
    return RELAY_WRONG;
}

static RelayStatus format_file(Face *face, const CliArgs *args, const char *path)
{
    Buf text = {0};
    if (!face_read(face, path, &text))
        return face->worst;
    bool keeps = cli_value(args, "in-place") || cli_value(args, "check");
    Keep keep = {.show = show_sink(&face->show)};
    RelaySink sink = keeps ? (RelaySink){keep_text, &keep} : keep.show;
    RelayRequest request = {
        .stage = "fmt",
        .text = buf_text(&text),
        .len = text.n,
        .name = cli_name_of(path),
        .params = args->params,
        .n_params = args->n_params,
    };
    RelayStatus status = face_stage(face, &request, &sink);
    if (status == RELAY_OK && keep.text.failed) {
        show_refused();
        status = RELAY_LIMIT;
    }
    if (status == RELAY_OK && keeps)
        status = finish(face, args, path, &text, &keep.text);
    buf_deinit(&keep.text);
    buf_deinit(&text);
    return status;
}

static int run_fmt(const CliArgs *args)
{
    Face face;
    if (cli_value(args, "in-place") && cli_value(args, "check"))
        return cli_wrong(args->command, "--in-place and --check exclude each other");
    for (size_t i = 0; i < args->n_operands; i++)
        if (cli_value(args, "in-place") && strcmp(args->operands[i], "-") == 0)
            return cli_wrong(args->command, "standard input cannot be written in place");
    if (!face_init(&face,
                   &(ReplOptions){
                       .color = args->color, .params = args->params, .n_params = args->n_params},
                   SIGNALS_SCRIPT))
        return face.worst;
    RelayStatus worst = RELAY_OK;
    for (size_t i = 0; i < args->n_operands && !face_done(&face); i++) {
        RelayStatus status = format_file(&face, args, args->operands[i]);
        worst = status > worst ? status : worst;
    }
    worst = show_status(&face.show, worst);
    face_deinit(&face);
    return worst;
}

const CliCommand cmd_fmt = {
    .name = "fmt",
    .args = "FILE…",
    .doc = "Prints a module or an expression in canonical text.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = SIZE_MAX,
    .run = run_fmt,
};
