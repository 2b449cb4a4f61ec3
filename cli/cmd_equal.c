#include "cli/cli.h"

#include "repl/face.h"

static const CliOption options[] = {
    {.name = "map-free-vars",
     .doc = "free variables are matched in the order in which they appear"},
    {.name = "hash", .doc = "prints the structural hash of the file, or of each of the two"},
    {0},
};

/* The second program goes along by its path. */
static RelayStatus equal_stage(Face *face, const CliArgs *args, const char *path, const char *other)
{
    Buf text = {0};
    if (!face_read(face, path, &text))
        return face->worst;
    RelayParam params[3];
    size_t n = 0;
    if (other)
        params[n++] = (RelayParam){"other", other};
    if (cli_value(args, "map-free-vars"))
        params[n++] = (RelayParam){"map-free-vars", "1"};
    if (cli_value(args, "hash"))
        params[n++] = (RelayParam){"hash", "1"};
    RelayRequest request = {
        .stage = "equal",
        .text = buf_text(&text),
        .len = text.n,
        .name = cli_name_of(path),
        .params = params,
        .n_params = n,
    };
    RelayStatus status = face_stage(face, &request, NULL);
    buf_deinit(&text);
    return status;
}

static int run_equal(const CliArgs *args)
{
    Face face;
    bool hash = cli_value(args, "hash") != NULL;
    if (args->n_operands < 2 && !hash)
        return cli_wrong(args->command, "two files are compared; here is one");
    if (!face_init(&face,
                   &(ReplOptions){
                       .color = args->color, .params = args->params, .n_params = args->n_params},
                   SIGNALS_SCRIPT))
        return face.worst;
    RelayStatus worst = RELAY_OK;
    for (size_t i = 0; hash && i < args->n_operands && worst == RELAY_OK; i++)
        worst = equal_stage(&face, args, args->operands[i], NULL);
    if (!hash)
        worst = equal_stage(&face, args, args->operands[0], args->operands[1]);
    worst = show_status(&face.show, worst);
    face_deinit(&face);
    return worst;
}

const CliCommand cmd_equal = {
    .name = "equal",
    .args = "A B",
    .doc = "Says whether two programs are equal up to names, and if not, where they differ.",
    .more =
        "The exit code is 0 when they are equal, 1 when they differ. The files hold modules or\n"
        "expressions, as text or as JSON; `-` is standard input.\n",
    .options = options,
    .limits = true,
    .least = 1,
    .most = 2,
    .run = run_equal,
};
