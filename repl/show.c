#include "repl/show.h"

#include "base/buf.h"
#include "base/diag.h"
#include "base/file.h"
#include "repl/highlight.h"
#include "repl/parts.h"
#include "repl/status.h"
#include "repl/term.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static bool wants_color(ColorMode mode, int fd)
{
    switch (mode) {
    case COLOR_ALWAYS: return true;
    case COLOR_NEVER: return false;
    case COLOR_AUTO: break;
    }
    return term_has_color(fd);
}

void show_init(Show *show, ColorMode mode)
{
    *show = (Show){.out = STDOUT_FILENO, .err = STDERR_FILENO, .stream = STDOUT_FILENO};
    show->out_color = wants_color(mode, show->out);
    show->err_color = wants_color(mode, show->err);
}

bool show_text(Show *show, const char *text, size_t n)
{
    if (!show->failed)
        show->failed = fd_write(show->out, text, n);
    if (n > 0)
        show->open_line = text[n - 1] != '\n';
    return !show->failed;
}

static void put(Show *show, int fd, const char *text, size_t n)
{
    if (fd == show->out)
        show_text(show, text, n);
    else
        fd_write(fd, text, n);
}

/* Text for people: ends in a line end, and has colours only where they are wanted. */
static void take_lines(Buf *b, const RelayMime *text, bool color)
{
    if (color)
        buf_bytes(b, text->data, text->size);
    else
        term_strip(b, text->data, text->size);
    if (b->n > 0 && b->at[b->n - 1] != '\n')
        buf_char(b, '\n');
}

static void put_lines(Show *show, int fd, const RelayMime *text)
{
    Buf b = {0};
    take_lines(&b, text, fd == show->out ? show->out_color : show->err_color);
    /* What could not be made was counted, and the session says so. */
    if (!b.failed)
        put(show, fd, buf_text(&b), b.n);
    else if (fd != show->out)
        fd_write(fd, text->data, text->size);
    buf_deinit(&b);
}

/* Values have the colours of Relay text. */
static void color_code(Buf *text, const char *language)
{
    Buf styles = {0}, out = {0};
    highlight(&styles, language, buf_text(text), text->n);
    unsigned char now = STYLE_PLAIN;
    for (size_t i = 0; !styles.failed && i < text->n; i++) {
        unsigned char style = (unsigned char)styles.at[i];
        if (style != now)
            term_style(&out, now = style);
        buf_char(&out, text->at[i]);
    }
    if (now != STYLE_PLAIN)
        term_style(&out, STYLE_PLAIN);
    bool whole = !styles.failed && !out.failed && !memchr(buf_text(text), 27, text->n);
    buf_deinit(&styles);
    if (!whole) {
        buf_deinit(&out);
        return;
    }
    buf_deinit(text);
    *text = out;
}

/* A display that changes: it takes the place of the one before when nothing was shown behind that. */
static void put_live(Show *show, const RelayOutput *out, const RelayMime *text)
{
    int columns = term_columns(show->out);
    if (columns == 0 && out->more)
        return;
    Buf lines = {0}, wrapped = {0};
    if (columns && show->live == out->live) {
        term_up(&wrapped, show->live_rows);
        buf_char(&wrapped, '\r');
        term_clear_below(&wrapped);
    }
    size_t from = wrapped.n;
    take_lines(&lines, text, show->out_color);
    term_wrap(&wrapped, buf_text(&lines), lines.n, columns ? columns : INT_MAX);
    if (!lines.failed && !wrapped.failed)
        show_text(show, buf_text(&wrapped), wrapped.n);
    show->live = out->live;
    show->live_rows = 0;
    for (size_t i = from; i < wrapped.n; i++)
        show->live_rows += wrapped.at[i] == '\n';
    buf_deinit(&lines);
    buf_deinit(&wrapped);
}

/* False where it is none that the session makes. */
static bool put_picture(Show *show, const RelayMime *pixels)
{
    int width, height, at = 0;
    Buf out = {0};
    if (sscanf(pixels->data, "P5 %d %d 255%n", &width, &height, &at) != 2 ||
        (size_t)at + 1 + (size_t)width * (size_t)height != pixels->size)
        return false;
    term_picture(&out, (const unsigned char *)pixels->data + at + 1, width, height);
    buf_char(&out, '\n');
    bool whole = !out.failed;
    if (whole)
        show_text(show, buf_text(&out), out.n);
    buf_deinit(&out);
    return whole;
}

static int columns_of(const Show *show)
{
    return show->columns ? show->columns : term_columns(show->out);
}

/* True when somebody shows the parts; else `beside` has them in two columns where that fits a screen. */
static bool put_parts(Show *show, const RelayOutput *out, int columns, Buf *beside)
{
    const RelayMime *parts = relay_output_find(out, "text/x-relay-parts");
    Buf lines = {0};
    if (parts)
        take_lines(&lines, parts, show->out_color);
    bool shown = parts && !lines.failed && show->parts && show->parts(show->data, &lines);
    if (parts && !shown && !parts_beside(&lines, columns, show->out_color, beside))
        buf_clear(beside);
    buf_deinit(&lines);
    return shown;
}

/* A value or an answer: on a terminal its lines are no longer than that is wide, and a long answer is paged. */
static void put_answer(Show *show, const RelayOutput *out, const RelayMime *text)
{
    int columns = columns_of(show);
    const RelayMime *pixels = relay_output_find(out, "image/x-portable-graymap");
    if (columns && show->pictures && pixels && put_picture(show, pixels))
        return;
    Buf lines = {0}, wrapped = {0};
    if (columns && put_parts(show, out, columns, &wrapped))
        return;
    take_lines(&lines, text, show->out_color);
    if (show->out_color && (out->kind == RELAY_OUTPUT_RESULT || out->language))
        color_code(&lines, out->language);
    if (columns && !wrapped.n)
        term_wrap(&wrapped, buf_text(&lines), lines.n, columns);
    else if (!columns)
        buf_bytes(&wrapped, buf_text(&lines), lines.n);
    bool answer = columns && out->kind == RELAY_OUTPUT_DISPLAY && show->page;
    bool whole = !lines.failed && !wrapped.failed;
    if (whole && (!answer || !show->page(show->data, &wrapped)))
        show_text(show, buf_text(&wrapped), wrapped.n);
    buf_deinit(&lines);
    buf_deinit(&wrapped);
}

static void show_diagnostic(Show *show, const RelayOutput *out)
{
    const RelayMime *json = relay_output_find(out, "application/json");
    const RelayMime *text = relay_output_find(out, "text/plain");
    if (show->json && json)
        text = json;
    if (text)
        put_lines(show, show->err, text);
}

static void put_output(Show *show, const RelayOutput *out)
{
    if (show->before)
        show->before(show->data);
    const RelayMime *text = relay_output_find(out, "text/plain");
    if (out->live && text) {
        put_live(show, out, text);
        return;
    }
    show->live = 0;
    switch (out->kind) {
    case RELAY_OUTPUT_DIAGNOSTIC: show_diagnostic(show, out); return;
    case RELAY_OUTPUT_QUIT: show->quit = true; return;
    case RELAY_OUTPUT_CLEAR: show->clear = true; return;
    case RELAY_OUTPUT_INPUT:
        if (text && show->input)
            show->input(show->data, text->data, text->size);
        else if (text)
            put_lines(show, show->out, text);
        return;
    case RELAY_OUTPUT_TEXT:
        if (text)
            show_text(show, text->data, text->size);
        return;
    case RELAY_OUTPUT_STREAM:
        if (text)
            put(show, show->stream, text->data, text->size);
        return;
    case RELAY_OUTPUT_RESULT:
    case RELAY_OUTPUT_DISPLAY:
        if (text)
            put_answer(show, out, text);
        return;
    }
}

static void show_output(void *data, const RelayOutput *out)
{
    Show *show = data;
    status_hold(show->status);
    put_output(show, out);
    status_release(show->status, show->open_line);
}

RelaySink show_sink(Show *show)
{
    return (RelaySink){show_output, show};
}

void show_error(const Show *show, const char *format, ...)
{
    Buf b = {0}, line = {0};
    va_list args;
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    if (show->json) {
        buf_printf(&line, "{\"severity\": \"error\", \"code\": \"%s\", ",
                   diag_info(E0401_FILE)->code);
        buf_json_field(&line, "message", buf_text(&b), b.n);
        buf_str(&line, ", \"notes\": []}\n");
    } else {
        buf_printf(&line, "relay: %s\n", buf_text(&b));
    }
    if (b.failed || line.failed)
        show_refused();
    else
        fd_write(show->err, buf_text(&line), line.n);
    buf_deinit(&b);
    buf_deinit(&line);
}

void show_refused(void)
{
    static const char text[] = "relay: the system gives no more memory\n";
    fd_write(STDERR_FILENO, text, sizeof text - 1);
}

RelayStatus show_status(const Show *show, RelayStatus status)
{
    /* Who reads has seen enough: that is no mistake. */
    if (!show->failed || show->failed == EPIPE)
        return status;
    if (show->failed == ENOMEM) {
        show_refused();
        return RELAY_LIMIT;
    }
    show_error(show, "standard output cannot be written: %s", strerror(show->failed));
    return status > RELAY_USAGE ? status : RELAY_USAGE;
}
