#include "repl/face.h"

#include "repl/status.h"
#include "repl/term.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The command that would choose the engine says what is wrong with it. */
static void say_why_not(Face *f, const char *engine)
{
    char text[40];
    int n = snprintf(text, sizeof text, ":engine %s", engine);
    face_eval(f, &(RelayCell){.text = text, .len = (size_t)n, .name = "--exec"});
}

bool face_init(Face *f, const ReplOptions *options, SignalsUse use)
{
    *f = (Face){0};
    show_init(&f->show, options->color);
    f->show.columns = options->columns;
    f->show.pictures = !options->plain && term_has_pictures(f->show.out);
    f->signals = signals_new(use);
    int columns = options->columns ? options->columns : term_columns(f->show.out);
    RelayOptions session = {
        .color = f->show.out_color || f->show.err_color,
        .width = columns,
        .pixels = f->show.pictures,
        .parts = columns && !options->plain,
    };
    f->session = relay_session_new(&session);
    if (!f->session) {
        show_error(&f->show, "there is no memory for a session");
        signals_free(f->signals);
        f->worst = RELAY_LIMIT;
        return false;
    }
    for (size_t i = 0; i < options->n_params; i++)
        if (strstr(options->params[i].key, "_limit"))
            relay_session_set(f->session, options->params[i].key, options->params[i].value);
    signals_attach(f->signals, f->session);
    const Show *show = &f->show;
    bool out = term_can_edit(show->out, show->out);
    if (!options->plain)
        f->show.status = status_new(f->session, out ? show->out : show->err,
                                    out ? show->out_color : show->err_color);
    if (!options->engine || relay_session_set(f->session, "engine", options->engine))
        return true;
    say_why_not(f, options->engine);
    /* What stood against it may have passed since. */
    if (f->worst == RELAY_OK)
        return true;
    face_deinit(f);
    return false;
}

void face_deinit(Face *f)
{
    status_free(f->show.status);
    signals_free(f->signals);
    relay_session_free(f->session);
}

bool face_read(Face *f, const char *path, Buf *out)
{
    char *text;
    size_t len;
    signals_begin(f->signals);
    RelayStatus status = relay_session_read(f->session, path, &text, &len, show_sink(&f->show));
    int why = errno;
    signals_end(f->signals);
    if (status == RELAY_OK)
        *out = (Buf){.at = text, .n = len, .cap = len + 1};
    if (status == RELAY_USAGE)
        show_error(&f->show, "%s cannot be read: %s", path,
                   why == EISDIR ? "it is a folder (one that holds a single NAME.rly can be run)"
                                 : strerror(why));
    if (why == EFBIG || why == ENOMEM)
        status = RELAY_LIMIT;
    if (status > f->worst)
        f->worst = status;
    return status == RELAY_OK;
}

void face_start(Face *f)
{
    signals_begin(f->signals);
    status_begin(f->show.status);
    relay_session_start(f->session, show_sink(&f->show));
    status_end(f->show.status);
    signals_end(f->signals);
}

void face_eval(Face *f, const RelayCell *cell)
{
    signals_begin(f->signals);
    status_begin(f->show.status);
    RelayStatus status = relay_session_eval(f->session, cell, show_sink(&f->show));
    status_end(f->show.status);
    signals_end(f->signals);
    if (status > f->worst)
        f->worst = status;
}

RelayStatus face_stage(Face *f, const RelayRequest *request, const RelaySink *sink)
{
    signals_begin(f->signals);
    status_begin(f->show.status);
    RelayStatus status =
        relay_session_stage(f->session, request, sink ? *sink : show_sink(&f->show));
    status_end(f->show.status);
    signals_end(f->signals);
    if (status > f->worst)
        f->worst = status;
    return status;
}

bool face_done(const Face *f)
{
    return f->show.quit || f->show.failed || signals_ended(f->signals);
}
