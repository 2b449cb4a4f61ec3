#include "kernel/handlers.h"

#include "base/utf8.h"
#include "kernel/execute.h"

#include <string.h>

/* ---- contents ---- */

json_t *error_content(const char *name, const char *value)
{
    Buf line = {0};
    buf_printf(&line, "%s: %s", name, value);
    json_t *content = json_pack("{s:s, s:s, s:s, s:[o]}", "status", "error", "ename", name,
                                "evalue", value, "traceback", json_text(buf_text(&line), line.n));
    buf_deinit(&line);
    return content;
}

static bool ends_with(const char *text, const char *end)
{
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static json_t *mime_value(const RelayMime *mime)
{
    json_error_t error;
    json_t *value = NULL;
    if (strcmp(mime->type, "application/json") == 0 || ends_with(mime->type, "+json"))
        value = json_loadb(mime->data, mime->size, JSON_DECODE_ANY, &error);
    return value ? value : json_text(mime->data, mime->size);
}

json_t *bundle_of(const RelayOutput *out)
{
    /* Front ends rank a JSON tree above HTML, but it is meant for programs: it goes where
     * nothing else is to be seen. */
    bool shown = relay_output_find(out, "text/html") || relay_output_find(out, "image/svg+xml");
    json_t *bundle = json_object();
    for (size_t i = 0; i < out->n_mimes; i++)
        if (!shown || strcmp(out->mimes[i].type, "application/json") != 0)
            json_object_set_new(bundle, out->mimes[i].type, mime_value(&out->mimes[i]));
    return bundle;
}

/* ---- the request's fields ---- */

static Str code_of(const Channel *c)
{
    json_t *code = json_object_get(c->request.content, "code");
    return (Str){json_string_value(code), json_string_length(code)};
}

static json_int_t integer_of(const Channel *c, const char *name, json_int_t otherwise)
{
    json_t *value = json_object_get(c->request.content, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static bool is_set(const Channel *c, const char *name)
{
    return json_is_true(json_object_get(c->request.content, name));
}

/* The byte offset of the cursor, which front ends count in code points and do not always keep
 * inside the text. */
static size_t cursor_of(const Channel *c, Str code)
{
    json_int_t cursor = integer_of(c, "cursor_pos", 0);
    return cursor > 0 ? utf8_offset(code.ptr, code.len, (size_t)cursor) : 0;
}

/* ---- handlers ---- */

/* The pages of the original about the language, for the menu of help. `:help` and docs/ tell of this implementation. */
#define LANGREF "https://tvm.apache.org/docs/v0.13.0/reference/langref/"

static json_t *help_links(void)
{
    static const char *const links[][2] = {
        {"Relay: expressions", LANGREF "relay_expr.html"},
        {"Relay: types", LANGREF "relay_type.html"},
        {"Relay: data types and matching", LANGREF "relay_adt.html"},
        {"Relay: operators of the original", LANGREF "relay_op.html"},
    };
    json_t *list = json_array();
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "text", links[i][0], "url", links[i][1]));
    return list;
}

#undef LANGREF

static json_t *kernel_info(Channel *c)
{
    (void)c;
    Buf banner = {0};
    buf_printf(&banner, "Relay %s. Type :help for the commands.", relay_version());
    json_t *mode =
        json_pack("{s:s, s:s, s:[s]}", "name", "relay", "mime", "text/x-relay", "extensions", "rs");
    json_t *language =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:o, s:s}", "name", "relay", "version", "0.0.5",
                  "mimetype", "text/x-relay", "file_extension", ".rly", "pygments_lexer", "relay",
                  "codemirror_mode", mode, "nbconvert_exporter", "script");
    json_t *content = json_pack(
        "{s:s, s:s, s:s, s:s, s:o, s:s, s:b, s:[ss], s:o}", "status", "ok", "protocol_version",
        PROTOCOL_VERSION, "implementation", "relay", "implementation_version", relay_version(),
        "language_info", language, "banner", buf_text(&banner), "debugger", 1, "supported_features",
        "debugger", "kernel subshells", "help_links", help_links());
    buf_deinit(&banner);
    return content;
}

/* What the badge of a completion says, in the words that front ends have colours for. */
static const char *completion_type(const char *kind)
{
    static const struct {
        const char *kind, *type;
    } words[] = {
        {"local", "instance"},  {"global", "function"}, {"constructor", "class"}, {"dtype", "type"},
        {"attribute", "param"}, {"command", "magic"},   {"pass", "module"},
    };
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(kind, words[i].kind) == 0)
            return words[i].type;
    return kind;
}

static json_t *complete(Channel *c)
{
    Str code = code_of(c);
    size_t cursor = cursor_of(c, code);
    RelayCompletions *found = relay_session_complete(c->session, code.ptr, code.len, cursor);
    bool any = found && found->n > 0;
    json_int_t from = (json_int_t)utf8_count(code.ptr, any ? found->from : cursor);
    json_int_t to = (json_int_t)utf8_count(code.ptr, any ? found->to : cursor);
    json_t *matches = json_array(), *types = json_array();
    for (size_t i = 0; any && i < found->n; i++) {
        const RelayCompletion *item = &found->items[i];
        json_t *text = json_text(item->text, strlen(item->text));
        json_array_append(matches, text);
        json_array_append_new(types, json_pack("{s:I, s:I, s:o, s:s, s:o}", "start", from, "end",
                                               to, "text", text, "type",
                                               completion_type(item->kind), "signature",
                                               json_text(item->detail, strlen(item->detail))));
    }
    relay_completions_free(found);
    return json_pack("{s:s, s:o, s:I, s:I, s:{s:o}}", "status", "ok", "matches", matches,
                     "cursor_start", from, "cursor_end", to, "metadata",
                     "_jupyter_types_experimental", types);
}

static void take_bundle(void *data, const RelayOutput *out)
{
    json_t **bundle = data;
    if (out->kind != RELAY_OUTPUT_DISPLAY && out->kind != RELAY_OUTPUT_RESULT)
        return;
    json_decref(*bundle);
    *bundle = bundle_of(out);
}

static json_t *inspect(Channel *c)
{
    Str code = code_of(c);
    json_t *data = NULL;
    int detail = integer_of(c, "detail_level", 0) > 0;
    bool found = relay_session_inspect(c->session, code.ptr, code.len, cursor_of(c, code), detail,
                                       (RelaySink){take_bundle, &data});
    found = found && data;
    return json_pack("{s:s, s:b, s:o, s:{}}", "status", "ok", "found", found, "data",
                     data ? data : json_object(), "metadata");
}

static json_t *is_complete(Channel *c)
{
    Str code = code_of(c);
    int indent = 0;
    switch (relay_session_is_complete(c->session, code.ptr, code.len, &indent)) {
    case RELAY_COMPLETE: return json_pack("{s:s}", "status", "complete");
    case RELAY_INVALID: return json_pack("{s:s}", "status", "invalid");
    case RELAY_INCOMPLETE: break;
    }
    Buf blanks = {0};
    buf_repeat(&blanks, ' ', indent > 0 ? (size_t)indent : 0);
    json_t *content = json_pack("{s:s, s:s}", "status", "incomplete", "indent", buf_text(&blanks));
    buf_deinit(&blanks);
    return content;
}

static json_t *history(Channel *c)
{
    const char *access = json_string_value(json_object_get(c->request.content, "hist_access_type"));
    const char *pattern = json_string_value(json_object_get(c->request.content, "pattern"));
    HistoryQuery q = {
        .output = is_set(c, "output"),
        .session = integer_of(c, "session", 0),
        .start = integer_of(c, "start", 0),
        .stop = integer_of(c, "stop", INT64_MAX),
        .n = integer_of(c, "n", -1),
        .pattern = pattern ? pattern : "*",
        .unique = is_set(c, "unique"),
    };
    const char *shell = subshell_of(c);
    if (shell && q.session == 0)
        q.session = subshell_session(&c->kernel->subshells, shell, c->kernel->history);
    if (strcmp(access, "tail") == 0)
        q.access = HISTORY_TAIL;
    else if (strcmp(access, "range") == 0)
        q.access = HISTORY_RANGE;
    else if (strcmp(access, "search") == 0)
        q.access = HISTORY_SEARCH;
    else
        return error_content("BadRequest", "`hist_access_type` is none of tail, range and search");
    return json_pack("{s:s, s:o}", "status", "ok", "history", history_find(c->kernel->history, &q));
}

/* ---- comms ---- */

static const char *comm_id(const Channel *c)
{
    return json_string_value(json_object_get(c->request.content, "comm_id"));
}

static json_t *comm_info(Channel *c)
{
    json_t *wanted = json_object_get(c->request.content, "target_name"), *target;
    json_t *comms = json_object();
    const char *id;
    json_object_foreach(c->kernel->comms, id, target)
    {
        if (!json_is_string(wanted) || json_equal(wanted, target))
            json_object_set_new(comms, id, json_pack("{s:O}", "target_name", target));
    }
    return json_pack("{s:s, s:o}", "status", "ok", "comms", comms);
}

/* The one target that there is: what is wrong with a cell while it is written. What nobody waits for is closed at once. */
static const char check_target[] = "relay.check";

static json_t *comm_open(Channel *c)
{
    json_t *id = json_object_get(c->request.content, "comm_id");
    json_t *target = json_object_get(c->request.content, "target_name");
    if (json_is_string(target) && strcmp(json_string_value(target), check_target) == 0)
        json_object_set(c->kernel->comms, comm_id(c), target);
    else
        channel_publish(c, "comm_close", json_pack("{s:O, s:{}}", "comm_id", id, "data"));
    return NULL;
}

static json_t *comm_close(Channel *c)
{
    json_object_del(c->kernel->comms, comm_id(c));
    return NULL;
}

void comms_close(Channel *c)
{
    const char *id;
    json_t *target;
    json_object_foreach(c->kernel->comms, id, target)
    {
        channel_publish_for(c, (Str){NULL, 0}, "comm_close",
                            json_pack("{s:s, s:{}}", "comm_id", id, "data"));
    }
}

static json_t *place(Str code, size_t offset)
{
    return json_integer((json_int_t)utf8_count(code.ptr, offset));
}

static json_t *fixes_of(const RelayFinding *f, Str code)
{
    json_t *fixes = json_array();
    for (size_t i = 0; i < f->n_fixes; i++) {
        const RelayFix *fix = &f->fixes[i];
        json_array_append_new(fixes,
                              json_pack("{s:o, s:o, s:o}", "from", place(code, fix->range.from),
                                        "to", place(code, fix->range.to), "text",
                                        json_text(fix->text, strlen(fix->text))));
    }
    return fixes;
}

static json_t *problem_of(const RelayFinding *f, Str code)
{
    static const char *const severities[] = {
        [RELAY_NOTE] = "info", [RELAY_WARNING] = "warning", [RELAY_ERROR] = "error"};
    Buf text = {0};
    buf_str(&text, f->message);
    if (f->more[0])
        buf_printf(&text, "\n%s", f->more);
    json_t *problem =
        json_pack("{s:o, s:o, s:s, s:s, s:o, s:o}", "from", place(code, f->range.from), "to",
                  place(code, f->range.to), "severity", severities[f->severity], "code",
                  f->code ? f->code : "", "message", json_text(buf_text(&text), text.n), "fixes",
                  fixes_of(f, code));
    buf_deinit(&text);
    return problem;
}

typedef struct Hints {
    Str code;
    json_t *list;
} Hints;

static void add_hint(void *data, size_t offset, const char *type)
{
    const Hints *h = data;
    json_array_append_new(h->list, json_pack("{s:o, s:o}", "at", place(h->code, offset), "text",
                                             json_text(type, strlen(type))));
}

/* Reads and checks the text in the session as it is. */
static json_t *checked(Channel *c, Str code, json_t *seq)
{
    json_t *problems = json_array();
    Hints hints = {code, json_array()};
    RelayDocument *d = relay_document_new(c->session, "cell");
    size_t n = 0;
    bool read = d && relay_document_set(d, code.ptr, code.len);
    const RelayFinding *findings = read ? relay_document_findings(d, &n) : NULL;
    for (size_t i = 0; i < n; i++)
        json_array_append_new(problems, problem_of(&findings[i], code));
    if (read)
        relay_document_types(d, (RelayRange){0, code.len}, add_hint, &hints);
    relay_document_free(d);
    return json_pack("{s:o, s:o, s:o}", "seq", seq ? json_incref(seq) : json_null(), "problems",
                     problems, "types", hints.list);
}

/* `{"seq": n, "code": text}` gives `{"seq": n, "problems": […], "types": […]}`; places count code points. */
static json_t *comm_message(Channel *c)
{
    json_t *data = json_object_get(c->request.content, "data");
    json_t *code = json_object_get(data, "code"), *seq = json_object_get(data, "seq");
    if (!json_object_get(c->kernel->comms, comm_id(c)) || !json_is_string(code))
        return NULL;
    Str text = {json_string_value(code), json_string_length(code)};
    channel_publish(c, "comm_msg",
                    json_pack("{s:s, s:o}", "comm_id", comm_id(c), "data", checked(c, text, seq)));
    return NULL;
}

static json_t *connect_info(Channel *c)
{
    const int *ports = c->kernel->connection.ports;
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "status", "ok", "shell_port",
                     ports[CHANNEL_SHELL], "control_port", ports[CHANNEL_CONTROL], "stdin_port",
                     ports[CHANNEL_STDIN], "iopub_port", ports[CHANNEL_IOPUB], "hb_port",
                     ports[CHANNEL_HEARTBEAT]);
}

static json_t *shutdown_kernel(Channel *c)
{
    json_t *content = json_pack("{s:s, s:b}", "status", "ok", "restart", is_set(c, "restart"));
    relay_session_interrupt(c->kernel->session);
    channel_publish(c, "shutdown_reply", json_deep_copy(content));
    c->stop = true;
    return content;
}

static json_t *interrupt(Channel *c)
{
    kernel_interrupt(c->kernel);
    return json_pack("{s:s}", "status", "ok");
}

static json_t *usage(Channel *c)
{
    return usage_content(&c->kernel->usage);
}

/* ---- the table ---- */

typedef struct Field {
    const char *name;
    json_type type;
} Field;

typedef struct Handler {
    const char *type;
    unsigned channels; /* bit 1 << ChannelKind for each channel that it may come on */
    bool quick; /* it is answered while a cell, or the debugger, is at another one */
    const char *reply; /* NULL: it is not answered */
    json_t *(*run)(Channel *c); /* gives the content of the reply */
    Field needs[3]; /* fields that must be there; ends with a NULL name */
} Handler;

enum { SHELL = 1 << CHANNEL_SHELL, CONTROL = 1 << CHANNEL_CONTROL };

#define CODE {"code", JSON_STRING}
#define CURSOR {"cursor_pos", JSON_INTEGER}

static const Handler handlers[] = {
    {"execute_request", SHELL, false, "execute_reply", execute_cell, {CODE}},
    {"complete_request", SHELL, true, "complete_reply", complete, {CODE, CURSOR}},
    {"inspect_request", SHELL, true, "inspect_reply", inspect, {CODE, CURSOR}},
    {"is_complete_request", SHELL, true, "is_complete_reply", is_complete, {CODE}},
    {"history_request", SHELL, true, "history_reply", history, {{"hist_access_type", JSON_STRING}}},
    {"kernel_info_request", SHELL | CONTROL, true, "kernel_info_reply", kernel_info, {{0}}},
    {"comm_info_request", SHELL, true, "comm_info_reply", comm_info, {{0}}},
    {"comm_open", SHELL, true, NULL, comm_open, {{"comm_id", JSON_STRING}}},
    {"comm_msg", SHELL, true, NULL, comm_message, {{"comm_id", JSON_STRING}}},
    {"comm_close", SHELL, true, NULL, comm_close, {{"comm_id", JSON_STRING}}},
    {"connect_request", SHELL, true, "connect_reply", connect_info, {{0}}},
    {"shutdown_request", SHELL | CONTROL, true, "shutdown_reply", shutdown_kernel, {{0}}},
    {"usage_request", CONTROL, true, "usage_reply", usage, {{0}}},
    {"create_subshell_request", CONTROL, true, "create_subshell_reply", subshell_create, {{0}}},
    {"delete_subshell_request",
     CONTROL,
     true,
     "delete_subshell_reply",
     subshell_delete,
     {{"subshell_id", JSON_STRING}}},
    {"list_subshell_request", CONTROL, true, "list_subshell_reply", subshell_list, {{0}}},
    {"interrupt_request", CONTROL, true, "interrupt_reply", interrupt, {{0}}},
    {"debug_request", CONTROL, false, "debug_reply", debug_request, {{0}}},
};

#undef CODE
#undef CURSOR

static const Handler *find_handler(const Channel *c)
{
    for (size_t i = 0; i < sizeof handlers / sizeof handlers[0]; i++)
        if ((handlers[i].channels & 1u << c->kind) &&
            strcmp(handlers[i].type, c->request.type) == 0)
            return &handlers[i];
    return NULL;
}

/* The name of the first field that is missing or of another type; NULL when all are there. */
static const char *missing_field(const Handler *h, const json_t *content)
{
    for (const Field *f = h->needs; f < h->needs + 3 && f->name; f++) {
        json_t *value = json_object_get(content, f->name);
        if (!value || json_typeof(value) != f->type)
            return f->name;
    }
    return NULL;
}

/* NULL: it is none. */
static json_t *bad_request(const Channel *c, const Handler *h)
{
    Buf why = {0};
    const char *field = missing_field(h, c->request.content);
    if (!c->request.broken && !field)
        return NULL;
    if (c->request.broken)
        buf_str(&why, c->request.broken);
    else
        buf_printf(&why, "%s needs `%s`", h->type, field);
    json_t *content = error_content("BadRequest", buf_text(&why));
    buf_deinit(&why);
    return content;
}

static void run_handler(Channel *c, const Handler *h)
{
    const char *shell = subshell_of(c);
    json_t *content = NULL;
    if (c->kind == CHANNEL_SHELL && shell && !subshell_exists(&c->kernel->subshells, shell))
        content = error_content("NoSuchSubshell", "there is no subshell with this id");
    else if (!(content = bad_request(c, h)))
        content = h->run(c);
    if (h->reply)
        channel_reply(c, h->reply,
                      content ? content : error_content("InternalError", "there is no memory"));
    else
        json_decref(content);
}

static void publish_state(Channel *c, const char *state)
{
    channel_publish(c, "status", json_pack("{s:s}", "execution_state", state));
}

/* The first of a flood of bad messages tell enough. */
enum { REFUSALS_LOGGED = 20 };

static bool is_quick(const char *type)
{
    for (size_t i = 0; type && i < sizeof handlers / sizeof handlers[0]; i++)
        if (strcmp(handlers[i].type, type) == 0)
            return handlers[i].quick;
    return false;
}

/* What must wait until the cell is over, or a question to the debugger. */
static void hand_over(Channel *c)
{
    bool first = subshell_of(c) != NULL;
    message_done(&c->request);
    if (channel_hold(c->rest, &c->request.packet, false) && first)
        channel_held_goes_first(c->rest);
    c->handed++;
}

/* Front ends take the end of any request for that of the cell, which goes on. What runs at the start is no cell. */
static void still_busy(Channel *c)
{
    Str cell = c->kernel->aside.shell->request.header_text;
    if (cell.len)
        channel_publish_for(c, cell, "status", json_pack("{s:s}", "execution_state", "busy"));
}

static void log_refusal(Channel *c, const char *why)
{
    if (c->refused++ < REFUSALS_LOGGED)
        kernel_log(c->kernel, "a message on %s was dropped: %s", c->name, why);
}

void channel_handle(Channel *c)
{
    const char *fault = message_read(&c->request, &c->kernel->sender, &c->seen);
    if (fault) {
        log_refusal(c, fault);
        message_done(&c->request);
        return;
    }
    if (c->rest && !is_quick(c->request.type)) {
        hand_over(c);
        return;
    }
    channel_note_date(c);
    const Handler *h = find_handler(c);
    if (c->kind == CHANNEL_SHELL && !c->aside)
        publisher_attribute(&c->kernel->publisher, c->request.header_text);
    publish_state(c, "busy");
    if (c->request.broken && !(h && h->reply))
        log_refusal(c, c->request.broken);
    if (h)
        run_handler(c, h);
    publish_state(c, "idle");
    if (c->aside)
        still_busy(c);
    void (*then)(Channel *) = c->then;
    c->then = NULL;
    if (then)
        then(c);
    message_done(&c->request);
}
