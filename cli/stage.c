#include "cli/cli.h"
#include "base/memory.h"

#include "base/buf.h"
#include "base/str.h"
#include "repl/face.h"

#include <stdlib.h>
#include <string.h>

/* Of a file, or of bytes. */
static int run_stage(Face *face, const CliArgs *args, const char *stage, const char *path,
                     Str bytes)
{
    Buf text = {0};
    if (path && !face_read(face, path, &text))
        return show_status(&face->show, face->worst);
    RelayRequest request = {
        .stage = stage,
        .text = path ? buf_text(&text) : bytes.ptr,
        .len = path ? text.n : bytes.len,
        .name = path ? cli_name_of(path) : NULL,
        .params = args->params,
        .n_params = args->n_params,
    };
    face_stage(face, &request, NULL);
    buf_deinit(&text);
    return show_status(&face->show, face->worst);
}

/* The text may come late, so signals are seen to first. */
static int stage_of(const CliArgs *args, const char *stage, const char *path, Str bytes)
{
    Face face;
    const char *columns = cli_value(args, "columns");
    if (!face_init(&face,
                   &(ReplOptions){.color = args->color,
                                  .columns = columns ? (int)strtol(columns, NULL, 10) : 0,
                                  .params = args->params,
                                  .n_params = args->n_params},
                   SIGNALS_SCRIPT))
        return face.worst;
    face.show.stream = face.show.err;
    face.show.json = cli_value(args, "json") != NULL;
    int status = run_stage(&face, args, stage, path, bytes);
    face_deinit(&face);
    return status;
}

int cli_stage(const CliArgs *args, const char *stage, const char *path)
{
    return stage_of(args, stage, path, (Str){0});
}

int cli_stage_of_bytes(const CliArgs *args, const char *stage, const char *at, size_t n)
{
    return stage_of(args, stage, NULL, (Str){at, n});
}

int cli_stage_with(const CliArgs *args, const char *stage, const char *path, const char *key,
                   const char *value)
{
    CliArgs with = *args;
    with.params = memory_zeroed(args->n_params + 1, sizeof *with.params);
    if (!with.params) {
        show_refused();
        return RELAY_LIMIT;
    }
    for (size_t i = 0; i < args->n_params; i++)
        with.params[i] = args->params[i];
    with.params[with.n_params++] = (RelayParam){key, value};
    int status = cli_stage(&with, stage, path);
    free(with.params);
    return status;
}

int cli_stage_of_file(const CliArgs *args)
{
    return cli_stage(args, args->command->name, args->operands[0]);
}

int cli_stage_alone(const CliArgs *args)
{
    return cli_stage(args, args->command->name, NULL);
}

const char *cli_name_of(const char *path)
{
    return strcmp(path, "-") == 0 ? "input" : path;
}
