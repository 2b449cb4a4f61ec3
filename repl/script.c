#include "repl/script.h"

#include "base/buf.h"
#include "base/file.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum {
    /* Up to this size a cell is asked after each line whether it is whole; then only each time
     * that it has grown by a sixteenth, so that the work stays in proportion to the text. */
    EVERY_LINE = 32768,
    GROWTH = 16,
};

/* Standard input, a line at a time. */
typedef struct Reader {
    char bytes[16384];
    size_t at, n;
    int wake; /* signals_fd */
} Reader;

typedef enum ReadEnd { READ_LINE, READ_END, READ_CANCELLED, READ_FAILED } ReadEnd;

typedef struct Script {
    Face *face;
    ScriptUse use;
    Reader reader;
    Buf cell, answer;
    uint32_t line; /* at which the cell begins */
    uint32_t cells; /* so many were run */
    size_t ask_at; /* the size at which the session is asked next */
} Script;

/* True when a signal came first. */
static bool wait_input(Reader *r, char *signal)
{
    struct pollfd fds[2] = {{.fd = STDIN_FILENO, .events = POLLIN},
                            {.fd = r->wake, .events = POLLIN}};
    for (;;) {
        int ready = poll(fds, r->wake >= 0 ? 2 : 1, -1);
        if (ready < 0 && errno == EINTR)
            continue;
        if (ready < 0 || !fds[1].revents)
            return false;
        if (read(r->wake, signal, 1) == 1 && *signal != 'w')
            return true;
    }
}

/* Appends the rest of the line with its end; READ_END when nothing is left, which may follow a
 * line without an end. READ_FAILED: errno says why. */
static ReadEnd read_line(Reader *r, Buf *out)
{
    size_t before = out->n;
    for (;;) {
        const char *from = r->bytes + r->at;
        const char *end = memchr(from, '\n', r->n - r->at);
        size_t n = end ? (size_t)(end - from) + 1 : r->n - r->at;
        buf_bytes(out, from, n);
        r->at += n;
        if (end)
            return READ_LINE;
        char signal;
        if (wait_input(r, &signal))
            return signal == 't' ? READ_END : READ_CANCELLED;
        ssize_t k = read(STDIN_FILENO, r->bytes, sizeof r->bytes);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (k < 0)
            return READ_FAILED;
        if (k == 0)
            return out->n > before ? READ_LINE : READ_END;
        r->at = 0;
        r->n = (size_t)k;
    }
}

/* On standard output where that is seen, so that prompts and results stay in order. */
static void say(const char *text)
{
    fd_write(isatty(STDOUT_FILENO) ? STDOUT_FILENO : STDERR_FILENO, text, strlen(text));
}

static void prompt(Script *s)
{
    if (s->use == SCRIPT_PROMPTS)
        say(s->cell.n == 0 ? "relay> " : "  ...> ");
}

/* The person who types lines is asked for one more. */
static RelayAskEnd ask(void *data, const char *question, const char **answer)
{
    static const RelayAskEnd ends[] = {[READ_LINE] = RELAY_ASK_ANSWERED,
                                       [READ_END] = RELAY_ASK_ENDED,
                                       [READ_CANCELLED] = RELAY_ASK_INTERRUPTED,
                                       [READ_FAILED] = RELAY_ASK_ENDED};
    Script *s = data;
    say(question);
    buf_clear(&s->answer);
    signals_end(s->face->signals);
    ReadEnd end = read_line(&s->reader, &s->answer);
    signals_begin(s->face->signals);
    buf_cut(&s->answer, strcspn(buf_text(&s->answer), "\r\n"));
    *answer = buf_text(&s->answer);
    return ends[end];
}

static void drop_cell(Script *s)
{
    for (size_t i = 0; i < s->cell.n; i++)
        s->line += s->cell.at[i] == '\n';
    buf_clear(&s->cell);
    s->ask_at = 0;
}

static bool is_blank(const Buf *text)
{
    return strspn(buf_text(text), " \t\r\n") == text->n;
}

static void run_cell(Script *s)
{
    if (s->cell.failed) {
        s->face->show.failed = ENOMEM;
    } else if (!is_blank(&s->cell)) {
        RelayCell cell = {.text = buf_text(&s->cell),
                          .len = s->cell.n,
                          .name = "input",
                          .line = s->line,
                          .number = ++s->cells,
                          .go_on = s->use != SCRIPT_PROMPTS};
        face_eval(s->face, &cell);
    }
    drop_cell(s);
}

static bool is_whole(Script *s)
{
    const Buf *cell = &s->cell;
    if (cell->n < s->ask_at)
        return false;
    if (cell->n > EVERY_LINE)
        s->ask_at = cell->n + cell->n / GROWTH;
    if (is_blank(cell))
        return true;
    return relay_session_is_complete(s->face->session, buf_text(cell), cell->n, NULL) !=
           RELAY_INCOMPLETE;
}

static void input_failed(Face *face, const char *name, int why)
{
    RelayStatus status = why == EFBIG || why == ENOMEM ? RELAY_LIMIT : RELAY_USAGE;
    show_error(&face->show, "%s cannot be read: %s", name, strerror(why));
    if (face->worst < status)
        face->worst = status;
}

static void run_lines(Script *s)
{
    while (!face_done(s->face)) {
        prompt(s);
        switch (read_line(&s->reader, &s->cell)) {
        case READ_LINE:
            if (is_whole(s))
                run_cell(s);
            continue;
        case READ_CANCELLED:
            drop_cell(s);
            if (s->use == SCRIPT_PROMPTS)
                show_text(&s->face->show, "\n", 1);
            continue;
        case READ_END: run_cell(s); return;
        case READ_FAILED: input_failed(s->face, "standard input", errno); return;
        }
    }
}

void script_run_lines(Face *face, ScriptUse use)
{
    Script s = {.face = face, .use = use, .line = 1};
    /* A line that there is no memory for ends the script, since nobody knows what follows it: most need none. */
    buf_reserve(&s.cell, EVERY_LINE);
    s.reader.wake = use == SCRIPT_PROMPTS ? signals_fd(face->signals) : -1;
    if (use == SCRIPT_PROMPTS)
        relay_session_set_asker(face->session, (RelayAsker){ask, &s});
    run_lines(&s);
    relay_session_set_asker(face->session, (RelayAsker){0});
    if (use == SCRIPT_PROMPTS && !face->show.quit)
        show_text(&face->show, "\n", 1);
    buf_deinit(&s.cell);
    buf_deinit(&s.answer);
}

void script_run_file(Face *face, const char *path)
{
    Buf text = {0};
    if (face_read(face, path, &text)) {
        const char *name = strcmp(path, "-") == 0 ? "input" : path;
        RelayCell cell = {
            .text = buf_text(&text), .len = text.n, .name = name, .go_on = true, .items = true};
        face_eval(face, &cell);
    }
    buf_deinit(&text);
}
