#include "kernel/execute.h"

#include "base/limit.h"
#include "kernel/crash.h"
#include "kernel/handlers.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The errors of one run. The first gives name and value, all of them the traceback. */
typedef struct Failure {
    Buf name, value;
    Buf text;                   /* reports as text, one behind the other */
} Failure;

static void failure_deinit(Failure *f)
{
    buf_deinit(&f->name);
    buf_deinit(&f->value);
    buf_deinit(&f->text);
}

static Str plain_text(const RelayOutput *out)
{
    const RelayMime *plain = relay_output_find(out, "text/plain");
    return plain ? (Str){plain->data, plain->size} : (Str){"", 0};
}

static void failure_add(Failure *f, const RelayOutput *out)
{
    if (f->name.n == 0) {
        buf_str(&f->name, out->code ? out->code : "Error");
        buf_str(&f->value, out->title ? out->title : "");
    }
    Str text = plain_text(out);
    if (f->text.n > 0)
        buf_char(&f->text, '\n');
    buf_bytes(&f->text, text.ptr, text.len);
    if (text.len > 0 && text.ptr[text.len - 1] != '\n')
        buf_char(&f->text, '\n');
}

/* A run that failed says why even if nothing was reported. */
static void failure_complete(Failure *f, RelayStatus status)
{
    if (f->name.n > 0)
        return;
    switch (status) {
    case RELAY_OK:
    case RELAY_WRONG:
        buf_str(&f->name, "Error");
        buf_str(&f->value, "the cell failed");
        break;
    case RELAY_USAGE:
        buf_str(&f->name, "BadRequest");
        buf_str(&f->value, "the cell cannot be run");
        break;
    case RELAY_LIMIT:
        buf_str(&f->name, "Limit");
        buf_str(&f->value, "a limit was hit");
        break;
    case RELAY_BUG:
        buf_str(&f->name, "InternalError");
        buf_str(&f->value, "this is a bug in the program");
        break;
    }
    buf_printf(&f->text, "%s: %s\n", buf_text(&f->name), buf_text(&f->value));
}

typedef struct PageColor {
    const char *terminal, *page;
} PageColor;

/* Pages show reports on light red or dark red. Named colours are too dark for one of them or too
 * light for the other; these have a contrast above 3 with both. */
static const PageColor page_colors[] = {
    {"\x1b[1;31m", "\x1b[1;38;2;224;64;58m"},  {"\x1b[1;32m", "\x1b[1;38;2;46;139;87m"},
    {"\x1b[1;33m", "\x1b[1;38;2;176;112;20m"}, {"\x1b[1;34m", "\x1b[1;38;2;61;127;208m"},
    {"\x1b[1;36m", "\x1b[1;38;2;42;135;143m"},
};

static void for_pages(Buf *out, const char *at, const char *end)
{
    while (at < end) {
        size_t known = 0;
        for (size_t i = 0; *at == '\x1b' && i < sizeof page_colors / sizeof *page_colors; i++) {
            size_t n = strlen(page_colors[i].terminal);
            if ((size_t)(end - at) < n || memcmp(at, page_colors[i].terminal, n) != 0)
                continue;
            buf_str(out, page_colors[i].page);
            known = n;
        }
        if (known == 0)
            buf_char(out, *at);
        at += known ? known : 1;
    }
}

/* The lines of the reports. */
static json_t *traceback(const Failure *f)
{
    json_t *lines = json_array();
    Buf text = {0};
    for_pages(&text, buf_text(&f->text), buf_text(&f->text) + f->text.n);
    const char *at = buf_text(&text), *end = at + text.n;
    while (at < end) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        json_array_append_new(lines, json_text(at, (size_t)(stop - at)));
        at = newline ? newline + 1 : end;
    }
    buf_deinit(&text);
    return lines;
}

static json_t *failure_content(const Failure *f)
{
    return json_pack("{s:o, s:o, s:o}", "ename", json_text(buf_text(&f->name), f->name.n), "evalue",
                     json_text(buf_text(&f->value), f->value.n), "traceback", traceback(f));
}

static json_t *failure_status(const Failure *f)
{
    json_t *content = failure_content(f);
    json_object_set_new(content, "status", json_string("error"));
    return content;
}

/* ---- how much a cell may show ---- */

/* Jupyter's server drops what comes faster than a million bytes a second over three seconds, and a page holds all of it. So a cell
 * that has shown a good deal waits in between, and one that has shown more than anybody reads shows no more. */
static const size_t shown_most = (size_t)4 << 20, shown_at_once = (size_t)512 << 10;
static const double shown_a_second = 800000;

/* Waits until what was sent is no faster than it may be; an interrupt ends that. */
static void throttle(Channel *c)
{
    const struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
    double due = c->began + ((double)c->sent - (double)shown_at_once) / shown_a_second;
    while (clock_seconds() < due && !atomic_load(&c->kernel->interrupted) &&
           !atomic_load(&c->kernel->stopping))
        nanosleep(&pause, NULL);
}

/* Whether so many bytes more are shown. Says once that they are not. */
static bool may_show(Channel *c, size_t bytes)
{
    if (c->cut)
        return false;
    c->cut = c->sent + bytes > shown_most;
    if (c->cut) {
        Buf notice = {0};
        buf_printf(&notice,
                   "… this cell has more to show than %zu MB, and no more of it is shown; "
                   "`:limit output N` bounds how much of a value is\n",
                   shown_most >> 20);
        channel_stream(c, "stderr", (Str){buf_text(&notice), notice.n});
        buf_deinit(&notice);
        return false;
    }
    throttle(c);
    c->sent += bytes;
    return true;
}

static size_t size_of(const RelayOutput *out)
{
    size_t bytes = 0;
    for (size_t i = 0; i < out->n_mimes; i++)
        bytes += out->mimes[i].size;
    return bytes;
}

/* ---- the cell ---- */

typedef struct Run {
    Channel *channel;
    bool silent;
    bool quit;
    bool pages; /* what is shown goes into a pager */
    unsigned live; /* what is being shown and replaced */
    json_t *payload; /* of the reply */
    Failure failure;
} Run;

static void emit_bundle(Run *r, const char *type, const RelayOutput *out)
{
    json_t *content = json_pack("{s:o, s:{}}", "data", bundle_of(out), "metadata");
    char id[48];
    snprintf(id, sizeof id, "relay-%lld-%u", (long long)r->channel->count, out->live);
    if (out->live)
        json_object_set_new(content, "transient", json_pack("{s:s}", "display_id", id));
    if (out->kind == RELAY_OUTPUT_RESULT)
        json_object_set_new(content, "execution_count", json_integer(r->channel->count));
    channel_publish(r->channel, type, content);
}

/* Where front ends show it is theirs to say: in a pager, or below the cell. */
static void emit_page(Run *r, const RelayOutput *out)
{
    json_array_append_new(r->payload, json_pack("{s:s, s:o, s:i}", "source", "page", "data",
                                                bundle_of(out), "start", 0));
}

/* A cell below, or the text of the next prompt. */
static void add_input(Run *r, Str text)
{
    json_array_append_new(r->payload,
                          json_pack("{s:s, s:o, s:b}", "source", "set_next_input", "text",
                                    json_text(text.ptr, text.len), "replace", 0));
}

/* `?name`, and nothing else. */
static bool is_question(Str code)
{
    while (code.len > 0 && strchr(" \t\n", code.ptr[0]))
        code = (Str){code.ptr + 1, code.len - 1};
    while (code.len > 0 && strchr(" \t\n", code.ptr[code.len - 1]))
        code.len--;
    return code.len > 0 && code.ptr[0] == '?' && !memchr(code.ptr, '\n', code.len);
}

static void emit_text(Run *r, const char *stream, const RelayOutput *out)
{
    Str text = plain_text(out);
    if (text.len > 0)
        channel_stream(r->channel, stream, text);
}

/* Errors are kept for the one message about them; notes and warnings are shown as they come. */
static void emit_diagnostic(Run *r, const RelayOutput *out)
{
    if (out->severity == RELAY_ERROR) {
        failure_add(&r->failure, out);
        return;
    }
    if (r->silent)
        return;
    working_yield(r->channel, false);
    emit_text(r, "stderr", out);
    Str text = plain_text(out);
    if (text.len > 0 && text.ptr[text.len - 1] != '\n')
        channel_stream(r->channel, "stderr", str_of("\n"));
}

static void emit(void *data, const RelayOutput *out)
{
    Run *r = data;
    if (out->kind == RELAY_OUTPUT_QUIT) {
        r->quit = true;
        return;
    }
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC) {
        emit_diagnostic(r, out);
        return;
    }
    if (r->silent || !may_show(r->channel, size_of(out)))
        return;
    working_yield(r->channel, out->live && out->more);
    switch (out->kind) {
    case RELAY_OUTPUT_RESULT:
        buf_clear(&r->channel->result);
        buf_bytes(&r->channel->result, plain_text(out).ptr, plain_text(out).len);
        emit_bundle(r, "execute_result", out);
        break;
    case RELAY_OUTPUT_DISPLAY:
        if (r->pages && !out->live)
            emit_page(r, out);
        else if (out->live && out->live == r->live)
            emit_bundle(r, "update_display_data", out);
        else
            emit_bundle(r, "display_data", out);
        r->live = out->live ? out->live : r->live;
        break;
    case RELAY_OUTPUT_INPUT: add_input(r, plain_text(out)); break;
    case RELAY_OUTPUT_TEXT:
    case RELAY_OUTPUT_STREAM: emit_text(r, "stdout", out); break;
    case RELAY_OUTPUT_CLEAR:
        channel_publish(r->channel, "clear_output", json_pack("{s:b}", "wait", 0));
        break;
    case RELAY_OUTPUT_DIAGNOSTIC:
    case RELAY_OUTPUT_QUIT: break;
    }
}

/* ---- expressions that front ends want to know after the cell ---- */

typedef struct Ask {
    json_t *data;
    Failure failure;
} Ask;

static void emit_answer(void *data, const RelayOutput *out)
{
    Ask *a = data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR)
        failure_add(&a->failure, out);
    if (out->kind != RELAY_OUTPUT_RESULT && out->kind != RELAY_OUTPUT_DISPLAY)
        return;
    json_decref(a->data);
    a->data = bundle_of(out);
}

static json_t *answer(Channel *c, const char *name, const char *text, size_t len)
{
    Ask a = {0};
    RelayCell cell = {.text = text, .len = len, .name = name};
    RelayStatus status =
        relay_session_eval(c->kernel->session, &cell, (RelaySink){emit_answer, &a});
    json_t *content;
    if (status == RELAY_OK) {
        content = json_pack("{s:s, s:o, s:{}}", "status", "ok", "data",
                            a.data ? a.data : json_object(), "metadata");
        a.data = NULL;
    } else {
        failure_complete(&a.failure, status);
        content = failure_status(&a.failure);
    }
    json_decref(a.data);
    failure_deinit(&a.failure);
    return content;
}

static json_t *answer_all(Channel *c)
{
    json_t *answers = json_object(),
           *wanted = json_object_get(c->request.content, "user_expressions");
    const char *name;
    json_t *text;
    json_object_foreach(wanted, name, text)
    {
        if (json_is_string(text))
            json_object_set_new(answers, name,
                                answer(c, name, json_string_value(text), json_string_length(text)));
    }
    return answers;
}

/* ---- the request ---- */

static bool flag(const Channel *c, const char *name, bool otherwise)
{
    json_t *value = json_object_get(c->request.content, name);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

static json_t *finish(json_t *content, Channel *c, json_t *payload, json_t *answers)
{
    json_object_set_new(content, "execution_count", json_integer(c->count));
    json_object_set_new(content, "payload", payload);
    json_object_set_new(content, "user_expressions", answers);
    return content;
}

/* Errors of a run that went well all the same are only told. */
static void end_run(Run *r, RelayStatus status)
{
    if (status != RELAY_OK)
        failure_complete(&r->failure, status);
    working_end(r->channel);
    if (r->silent)
        return;
    if (status != RELAY_OK)
        channel_publish(r->channel, "error", failure_content(&r->failure));
    else if (r->failure.text.n > 0)
        channel_stream(r->channel, "stderr", (Str){r->failure.text.at, r->failure.text.n});
}

/* Front ends show the number of the reply at the cell, and one that did not run keeps none. */
static json_t *aborted(void)
{
    json_t *content = error_content("ExecutionAborted", "an earlier cell failed");
    json_object_set_new(content, "execution_count", json_null());
    json_object_set_new(content, "payload", json_array());
    json_object_set_new(content, "user_expressions", json_object());
    return content;
}

static void start_run(Channel *c, Str code)
{
    channel_publish(c, "execute_input",
                    json_pack("{s:o, s:I}", "code", json_text(code.ptr, code.len),
                              "execution_count", (json_int_t)c->count));
}

/* The reply's metadata: when the cell began. */
static void note_start(Channel *c)
{
    char date[DATE_SIZE];
    message_date(date);
    c->metadata = json_pack("{s:s}", "started", date);
}

static Str code_of(const Channel *c)
{
    json_t *text = json_object_get(c->request.content, "code");
    return (Str){json_string_value(text), json_string_length(text)};
}

/* What nobody waits for: behind the reply. */
static void settle_cell(Channel *c)
{
    Kernel *k = c->kernel;
    const char *shell = subshell_of(c);
    aside_note(c);
    const char *trouble = history_trouble(k->history);
    if (trouble)
        kernel_log(k, "%s", trouble);
    if (c->store)
        history_add_soon(k->history,
                         shell ? subshell_session(&k->subshells, shell, k->history)
                               : history_session(k->history),
                         c->count, code_of(c), (Str){buf_text(&c->result), c->result.n});
    buf_deinit(&c->result);
}

json_t *execute_cell(Channel *c)
{
    const char *shell = subshell_of(c);
    if (!shell && (c->abort || channel_sent_before_failure(c)))
        return aborted();
    Kernel *k = c->kernel;
    Str code = code_of(c);
    Run r = {.channel = c,
             .silent = flag(c, "silent", false),
             .pages = is_question(code),
             .payload = json_array()};
    bool store = !r.silent && flag(c, "store_history", true);
    note_start(c);
    buf_clear(&c->result);
    c->sent = 0;
    c->cut = false;
    c->began = clock_seconds();
    atomic_store(&k->interrupted, false);
    c->count = shell ? subshell_count(&k->subshells, shell, store) : (k->count += store);
    if (!r.silent)
        start_run(c, code);
    char name[40];
    snprintf(name, sizeof name, "%s[%" PRId64 "]", shell ? "Sub" : "In", c->count);
    RelayCell cell = {.text = code.ptr,
                      .len = code.len,
                      .name = name,
                      .silent = r.silent,
                      .number = store && !shell ? (uint32_t)c->count : 0};
    if (!r.silent && k->crash.n > 0) {
        channel_stream(c, "stderr", (Str){buf_text(&k->crash), k->crash.n});
        buf_clear(&k->crash);
    }
    crash_running(name);
    working_begin(c, r.silent);
    asking_begin(&k->asking, flag(c, "allow_stdin", false) && !r.silent ? c : NULL);
    debug_begin(c);
    aside_lend(&k->aside);
    RelayStatus status = relay_session_eval(k->session, &cell, (RelaySink){emit, &r});
    crash_running("");
    asking_begin(&k->asking, NULL);
    end_run(&r, status);
    if (r.quit)
        json_array_append_new(r.payload,
                              json_pack("{s:s, s:b}", "source", "ask_exit", "keepkernel", 0));
    json_t *content =
        status == RELAY_OK ? json_pack("{s:s}", "status", "ok") : failure_status(&r.failure);
    finish(content, c, r.payload, status == RELAY_OK ? answer_all(c) : json_object());
    debug_end(c);
    aside_take_back(&k->aside);
    c->store = store;
    c->then = settle_cell;
    if (store)
        history_note(k->history, shell != NULL, c->count, code,
                     (Str){buf_text(&c->result), c->result.n});
    c->stop = r.quit;
    if (status != RELAY_OK && !shell && !r.silent && flag(c, "stop_on_error", true))
        channel_abort_waiting(c);
    failure_deinit(&r.failure);
    return content;
}
