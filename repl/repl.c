#include "repl/repl.h"

#include "base/buf.h"
#include "repl/answer.h"
#include "repl/face.h"
#include "repl/line.h"
#include "repl/pager.h"
#include "repl/parts.h"
#include "repl/script.h"
#include "repl/status.h"
#include "repl/stepper.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

typedef struct Repl {
    Face face;
    Term *term;
    LineHistory *history;
    Line *line;
    Stepper *stepper;
    int cells;                  /* entered so far */
    int width;                  /* that the session knows */
    Buf answer; /* the latest */
} Repl;

static void greet(Show *show)
{
    Buf b = {0};
    if (show->out_color)
        term_style(&b, STYLE_BOLD);
    buf_printf(&b, "Relay %s", relay_version());
    if (show->out_color)
        term_style(&b, STYLE_PLAIN);
    buf_str(&b, "   :help lists the commands, Tab completes, Ctrl-D leaves\n");
    show_text(show, buf_text(&b), b.n);
    buf_deinit(&b);
}

/* While the person reads the first prompt, the session opens what its first cell will need. */
static void warm_up(void *data)
{
    const Repl *r = data;
    relay_session_set(r->face.session, "warm", "1");
    line_history_end(r->history);
}

static void follow_width(Repl *r)
{
    int width = term_columns(r->face.show.out);
    if (width == r->width)
        return;
    Buf text = {0};
    buf_int(&text, width);
    relay_session_set(r->face.session, "width", buf_text(&text));
    buf_deinit(&text);
    r->width = width;
}

static void clear_screen(Repl *r)
{
    Buf b = {0};
    term_clear_screen(&b);
    term_write(r->term, &b);
    buf_deinit(&b);
    r->face.show.clear = false;
}

static bool is_blank(const Buf *text)
{
    return strspn(buf_text(text), " \t\n") == text->n;
}

/* What the session says is for the screen on which its cells stand. */
static void leave_stepper(void *data)
{
    const Repl *r = data;
    stepper_close(r->stepper);
}

/* The status has no place on its screen. */
static RelayGo stopped(void *data, RelaySteps *steps)
{
    const Repl *r = data;
    status_hold(r->face.show.status);
    RelayGo go = stepper_stopped(r->stepper, steps);
    status_release(r->face.show.status, false);
    return go;
}

static RelayAskEnd ask(void *data, const char *question, const char **answer)
{
    Repl *r = data;
    stepper_close(r->stepper);
    status_hold(r->face.show.status);
    if (r->face.show.open_line)
        show_text(&r->face.show, "\n", 1);
    RelayAskEnd end = answer_read(r->term, question, r->face.show.out_color, &r->answer);
    status_release(r->face.show.status, false);
    *answer = buf_text(&r->answer);
    return end;
}

static bool page(void *data, const Buf *text)
{
    const Repl *r = data;
    if (!pager_needed(r->term, text))
        return false;
    pager_show(r->term, text, r->face.show.out_color);
    return true;
}

static bool show_parts(void *data, const Buf *text)
{
    const Repl *r = data;
    return parts_show(r->term, text, r->face.show.out_color);
}

static void offer(void *data, const char *text, size_t n)
{
    const Repl *r = data;
    line_offer(r->line, text, n);
}

static void run_cell(Repl *r, const Buf *text)
{
    Buf name = {0};
    if (text->failed) {
        r->face.show.failed = ENOMEM;
        return;
    }
    follow_width(r);
    buf_printf(&name, "In[%d]", ++r->cells);
    RelayCell cell = {.text = buf_text(text),
                      .len = text->n,
                      .name = buf_text(&name),
                      .number = (uint32_t)r->cells};
    face_eval(&r->face, &cell);
    stepper_close(r->stepper);
    if (r->face.show.open_line)
        show_text(&r->face.show, "\n", 1);
    if (r->face.show.clear)
        clear_screen(r);
    buf_deinit(&name);
}

static void add_entry(Repl *r, const Buf *text)
{
    const char *why = line_history_add(r->history, buf_text(text), text->n);
    Buf note = {0};
    if (why)
        buf_printf(&note, "note: %s\n", why);
    if (note.n > 0)
        show_text(&r->face.show, note.at, note.n);
    buf_deinit(&note);
}

static void converse(Repl *r)
{
    Buf text = {0};
    line_on_idle(r->line, warm_up, r);
    while (!face_done(&r->face)) {
        LineEnd end = line_read(r->line, &text);
        if (end == LINE_LEFT)
            break;
        if (end == LINE_CANCELLED || is_blank(&text))
            continue;
        add_entry(r, &text);
        run_cell(r, &text);
    }
    buf_deinit(&text);
}

/* The status of a conversation says how it ended, not whether every cell was right. */
static RelayStatus end_status(const Repl *r)
{
    RelayStatus status = signals_ended(r->face.signals) ? RELAY_LIMIT : RELAY_OK;
    return show_status(&r->face.show, r->face.worst == RELAY_BUG ? RELAY_BUG : status);
}

static RelayStatus run_terminal(const ReplOptions *options)
{
    Repl r = {0};
    RelayStatus status = RELAY_LIMIT;
    if (!face_init(&r.face, options, SIGNALS_TERMINAL))
        return r.face.worst;
    r.width = term_columns(r.face.show.out);
    r.term = term_new(STDIN_FILENO, STDOUT_FILENO, signals_fd(r.face.signals));
    r.history = line_history_new(NULL);
    if (r.term && r.history)
        r.line = line_new(r.term, r.face.session, r.history, r.face.show.out_color);
    r.stepper = r.line ? stepper_new(r.term, r.face.show.out_color) : NULL;
    if (r.stepper) {
        relay_session_set_stepper(r.face.session, (RelayStepper){stopped, &r});
        r.face.show.before = leave_stepper;
        r.face.show.page = page;
        r.face.show.parts = show_parts;
        r.face.show.input = offer;
        r.face.show.data = &r;
        greet(&r.face.show);
        face_start(&r.face);
        relay_session_set_asker(r.face.session, (RelayAsker){ask, &r});
        converse(&r);
        status = end_status(&r);
    } else {
        show_refused();
    }
    stepper_free(r.stepper);
    line_free(r.line);
    line_history_free(r.history);
    term_free(r.term);
    face_deinit(&r.face);
    buf_deinit(&r.answer);
    return status;
}

/* A terminal that cannot edit: lines as it sends them, with prompts. */
static RelayStatus run_dumb(const ReplOptions *options)
{
    Face face;
    if (!face_init(&face, options, SIGNALS_TERMINAL))
        return face.worst;
    greet(&face.show);
    face_start(&face);
    script_run_lines(&face, SCRIPT_PROMPTS);
    RelayStatus status = signals_ended(face.signals) ? RELAY_LIMIT : RELAY_OK;
    status = show_status(&face.show, status);
    face_deinit(&face);
    return status;
}

static RelayStatus run_pipe(const ReplOptions *options)
{
    Face face;
    if (!face_init(&face, options, SIGNALS_SCRIPT))
        return face.worst;
    script_run_lines(&face, SCRIPT_SILENT);
    RelayStatus status = show_status(&face.show, face.worst);
    face_deinit(&face);
    return status;
}

RelayStatus repl_run(const ReplOptions *options)
{
    if (!isatty(STDIN_FILENO))
        return run_pipe(options);
    if (!options->plain && term_can_edit(STDIN_FILENO, STDOUT_FILENO))
        return run_terminal(options);
    ReplOptions plain = *options;
    plain.color = options->plain ? COLOR_NEVER : options->color;
    return run_dumb(&plain);
}

RelayStatus repl_run_files(const ReplOptions *options, size_t n, char *const *paths)
{
    Face face;
    if (!face_init(&face, options, SIGNALS_SCRIPT))
        return face.worst;
    for (size_t i = 0; i < n && !face_done(&face); i++)
        script_run_file(&face, paths[i]);
    RelayStatus status = show_status(&face.show, face.worst);
    face_deinit(&face);
    return status;
}
