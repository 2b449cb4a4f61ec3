/* What a person wants of every session: settings that were kept, and a file that runs at the start. Both lie in
 * $XDG_CONFIG_HOME/relay, else ~/.config/relay, and are Relay text as one types it. */
#include "base/file.h"
#include "runtime/npy.h"
#include "session/commands.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static bool config_path(Buf *b, const char *name)
{
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    if (config && *config == '/')
        buf_printf(b, "%s/relay/%s", config, name);
    else if (home && *home)
        buf_printf(b, "%s/.config/relay/%s", home, name);
    return b->n > 0 && !b->failed;
}

void settings_keep(CommandCall *c)
{
    RelaySession *s = c->s;
    Buf path = {0}, text = {0};
    buf_printf(&text, ":set opt %d\n:set exact %s\n:set tf32 %s\n:set cache %s\n", s->opt_level,
               s->exact ? "on" : "off", s->tf32 ? "on" : "off", s->no_cache ? "off" : "on");
    if (!config_path(&path, "settings.rly"))
        diag_error(s->cx.diags, E0402_USAGE, c->args, "there is no folder for settings: no HOME");
    else if (!file_make_folders(path.at, FILE_OURS))
        diag_error(s->cx.diags, E0401_FILE, c->args, "`%s` cannot be made: %s", path.at,
                   strerror(errno));
    else if (file_write(&s->cx.limits, s->cx.diags, path.at, buf_text(&text), text.n))
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "kept in %s", path.at);
    buf_deinit(&path);
    buf_deinit(&text);
}

/* Of what the files say only mistakes are shown. */
static void show_mistakes(void *data, const RelayOutput *out)
{
    const RelaySink *sink = data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && sink->emit)
        sink->emit(sink->data, out);
}

/* False when the file was not run to its end. */
static bool run_file(RelaySession *s, const char *path, RelaySink *sink)
{
    RelaySink mistakes = {show_mistakes, sink};
    char *text;
    size_t len;
    RelayStatus status = relay_session_read(s, path, &text, &len, mistakes);
    if (status == RELAY_OK)
        status = relay_session_eval(
            s, &(RelayCell){.text = text, .len = len, .name = path, .silent = true, .go_on = true},
            mistakes);
    free(text);
    return status != RELAY_LIMIT;
}

void relay_session_start(RelaySession *s, RelaySink sink)
{
    static const char *const names[] = {"settings.rly", "startup.rly"};
    bool more = true;
    for (size_t i = 0; i < sizeof names / sizeof *names && more; i++) {
        Buf path = {0};
        if (config_path(&path, names[i]) && access(path.at, R_OK) == 0)
            more = run_file(s, path.at, &sink);
        buf_deinit(&path);
    }
}
