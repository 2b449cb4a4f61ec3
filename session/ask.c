/* What a command asks the person who typed it: what it lacks, and whether what it would do is meant. A script is not asked: it
 * means what it says. */
#include "base/memory.h"
#include "session/commands.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void relay_session_set_asker(RelaySession *s, RelayAsker asker)
{
    s->asker = asker;
}

/* ---- asking ------------------------------------------------------------------------------------------------------------------ */

/* What a file says that is loaded was not typed now. */
static bool has_person(const RelaySession *s)
{
    return s->asker.ask && s->loading == 0;
}

/* The time in which a person thinks is not the cell's. An interrupt ends the cell as it does anywhere. */
static RelayAskEnd ask(RelaySession *s, const char *question, const char **answer)
{
    emit_diags(s);
    double began = clock_seconds();
    atomic_store(&s->asking, true);
    RelayAskEnd end = s->asker.ask(s->asker.data, question, answer);
    atomic_store(&s->asking, false);
    session_skip(s, clock_seconds() - began);
    if (end == RELAY_ASK_INTERRUPTED) {
        limit_interrupt(&s->cx.limits);
        limit_hit(&s->cx.limits);
    }
    return end;
}

bool session_ask(RelaySession *s, const char *question, Buf *answer)
{
    const char *text = NULL;
    buf_clear(answer);
    if (!has_person(s) || ask(s, question, &text) != RELAY_ASK_ANSWERED)
        return false;
    buf_str(answer, text);
    return true;
}

static bool is_word(const char *text, const char *letter, const char *word)
{
    return !strcasecmp(text, letter) || !strcasecmp(text, word);
}

static bool confirm(RelaySession *s, const char *question)
{
    Buf prompt = {0};
    buf_printf(&prompt, "%s? [y/N] ", question);
    RelayAskEnd end = RELAY_ASK_ANSWERED;
    bool yes = false, no = false;
    while (end == RELAY_ASK_ANSWERED && !yes && !no) {
        const char *answer = "";
        end = ask(s, buf_text(&prompt), &answer);
        answer += strspn(answer, " \t");
        yes = end == RELAY_ASK_ANSWERED && is_word(answer, "y", "yes");
        no = !*answer || is_word(answer, "n", "no");
    }
    buf_deinit(&prompt);
    if (end == RELAY_ASK_NOBODY)
        emit_printf(s, RELAY_OUTPUT_STREAM,
                    "note: %s: done unasked, since nobody can answer here\n", question);
    else if (!yes && end != RELAY_ASK_INTERRUPTED)
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "nothing is changed");
    return yes || end == RELAY_ASK_NOBODY;
}

bool session_confirm(RelaySession *s, const char *format, ...)
{
    if (!has_person(s))
        return true;
    Buf question = {0};
    va_list args;
    va_start(args, format);
    buf_vprintf(&question, format, args);
    va_end(args);
    bool go = confirm(s, buf_text(&question));
    buf_deinit(&question);
    return go;
}

/* ---- files that are there ---------------------------------------------------------------------------------------------------- */

struct Written {
    Written *next;
    char path[];
};

void written_forget(RelaySession *s)
{
    for (Written *w = s->written; w; w = s->written) {
        s->written = w->next;
        free(w);
    }
}

static bool was_written(const RelaySession *s, const char *path)
{
    const Written *w = s->written;
    while (w && strcmp(w->path, path) != 0)
        w = w->next;
    return w != NULL;
}

bool session_may_write(RelaySession *s, const char *path)
{
    struct stat found;
    if (was_written(s, path))
        return true;
    if (stat(path, &found) == 0 && S_ISREG(found.st_mode) &&
        !session_confirm(s, "write over `%s`, which is there already", path))
        return false;
    size_t n = strlen(path) + 1;
    Written *w = memory_alloc(sizeof *w + n);
    if (w) {
        memcpy(w->path, path, n);
        w->next = s->written;
        s->written = w;
    }
    return true;
}
