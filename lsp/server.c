/* The server's loop and the table of methods. What is asked is answered at once, in order; what was found in a text is sent when nothing
 * more is waiting, so that who types fast is not made to wait for texts that are gone.
 *
 * The server itself waits for memory (base/memory.h); what the session found without it is not sent. */
#include "lsp/internal.h"
#include "lsp/lsp.h"

#include "base/memory.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

json_t *text_json(const char *text, size_t n)
{
    json_t *whole = json_stringn(text, n);
    return whole ? whole : json_string("");
}

static Answer without_memory(void)
{
    return answer_error(ERROR_FAILED, "there is no memory");
}

Answer answer_with(json_t *result)
{
    return result ? (Answer){.result = result} : without_memory();
}

Answer answer_error(int error, const char *message)
{
    return (Answer){.error = error, .message = message};
}

void server_reply(Server *s, const json_t *id, Answer answer)
{
    json_t *reply = json_pack("{s:s, s:O?}", "jsonrpc", "2.0", "id", (json_t *)(uintptr_t)id);
    if (answer.error)
        json_object_set_new(
            reply, "error",
            json_pack("{s:i, s:s}", "code", answer.error, "message", answer.message));
    else
        json_object_set_new(reply, "result", answer.result);
    wire_send(&s->wire, reply);
}

void server_notify(Server *s, const char *method, json_t *params)
{
    wire_send(&s->wire,
              json_pack("{s:s, s:s, s:o}", "jsonrpc", "2.0", "method", method, "params", params));
}

/* ---- documents ------------------------------------------------------------------------------------------------------ */

enum { MESSAGE_WARNING = 2 }; /* of `window/showMessage` */

static const char *uri_of(const json_t *params)
{
    return json_string_value(json_object_get(json_object_get(params, "textDocument"), "uri"));
}

static Open **find_open(Server *s, const char *uri)
{
    Open **o = &s->open;
    while (*o && (!uri || strcmp((*o)->uri, uri) != 0))
        o = &(*o)->next;
    return o;
}

static bool bring_up(const Server *s, Open *o)
{
    if (!o->document) {
        o->document = relay_document_new(s->session, o->path);
        if (o->document)
            relay_document_be_script(o->document);
    }
    uint64_t refused = memory_refusals();
    if (o->stale && o->document)
        o->stale = !relay_document_set(o->document, buf_text(&o->text), o->text.n) ||
                   memory_refusals() != refused;
    return o->document != NULL;
}

Open *open_of(Server *s, const json_t *params)
{
    Open *o = *find_open(s, uri_of(params));
    return o && !o->lost && bring_up(s, o) ? o : NULL;
}

Open *open_at(Server *s, const json_t *params, size_t *offset)
{
    Open *o = open_of(s, params);
    if (o)
        *offset = offset_of(o, json_object_get(params, "position"), s->utf8);
    return o;
}

/* False: there was no memory for it; it is tried again behind the next message. */
static bool publish(Server *s, Open *o)
{
    uint64_t refused = memory_refusals();
    json_t *found = o->lost ? json_array() : bring_up(s, o) ? diagnostics(s, o) : NULL;
    if (!found || memory_refusals() != refused) {
        json_decref(found);
        o->stale = true;
        return false;
    }
    o->unseen = false;
    server_notify(
        s, "textDocument/publishDiagnostics",
        json_pack("{s:s, s:I, s:o}", "uri", o->uri, "version", o->version, "diagnostics", found));
    return true;
}

static bool publish_next(Server *s)
{
    Open *o = s->open;
    while (o && !o->unseen)
        o = o->next;
    return o && publish(s, o);
}

/* Nobody knows which text was changed. Who edits is told why there are no answers any more. */
static void lose_texts(Server *s)
{
    bool any = false;
    for (Open *o = s->open; o; o = o->next) {
        any |= !o->lost;
        open_lose(o);
    }
    if (any)
        server_notify(s, "window/showMessage",
                      json_pack("{s:i, s:s}", "type", MESSAGE_WARNING, "message",
                                "A change cannot be read: open the file again."));
}

static Answer did_open(Server *s, const json_t *params)
{
    const json_t *d = json_object_get(params, "textDocument");
    const char *uri = uri_of(params);
    const json_t *text = json_object_get(d, "text");
    if (!uri || !json_is_string(text))
        return (Answer){0};
    Open **place = find_open(s, uri), *o = *place;
    if (!o) {
        o = *place = memory_must(sizeof *o);
        memset(o, 0, sizeof *o);
        o->uri = memory_text(uri, strlen(uri));
        o->path = path_of_uri(uri);
    }
    o->version = json_integer_value(json_object_get(d, "version"));
    open_set(o, json_string_value(text), json_string_length(text));
    return (Answer){0};
}

static Answer did_change(Server *s, const json_t *params)
{
    Open *o = *find_open(s, uri_of(params));
    const json_t *changes = json_object_get(params, "contentChanges"), *change;
    size_t i;
    if (!o)
        return (Answer){0};
    if (!json_is_array(changes))
        open_lose(o);
    json_array_foreach(changes, i, change) open_change(o, change, s->utf8);
    o->version =
        json_integer_value(json_object_get(json_object_get(params, "textDocument"), "version"));
    return (Answer){0};
}

static Answer did_close(Server *s, const json_t *params)
{
    Open **place = find_open(s, uri_of(params)), *o = *place;
    if (!o)
        return (Answer){0};
    *place = o->next;
    server_notify(s, "textDocument/publishDiagnostics",
                  json_pack("{s:s, s:[]}", "uri", o->uri, "diagnostics"));
    open_free(o);
    return (Answer){0};
}

/* What another text imports may have changed. */
static Answer did_save(Server *s, const json_t *params)
{
    (void)params;
    for (Open *o = s->open; o; o = o->next)
        o->stale = o->unseen = true;
    return (Answer){0};
}

static Answer pull_diagnostics(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    json_t *items = o ? diagnostics(s, o) : json_array();
    return answer_with(json_pack("{s:s, s:o}", "kind", "full", "items", items));
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static bool speaks_utf8(const json_t *params)
{
    const json_t *general = json_object_get(json_object_get(params, "capabilities"), "general");
    const json_t *encodings = json_object_get(general, "positionEncodings"), *one;
    size_t i;
    json_array_foreach(encodings, i, one) if (json_is_string(one) &&
                                              !strcmp(json_string_value(one), "utf-8")) return true;
    return false;
}

static json_t *capabilities(const Server *s)
{
    json_t *sync =
        json_pack("{s:b, s:i, s:{s:b}}", "openClose", 1, "change", 2, "save", "includeText", 0);
    json_t *semantic =
        json_pack("{s:o, s:b, s:b}", "legend", semantic_legend(), "full", 1, "range", 1);
    json_t *all =
        json_pack("{s:s, s:o, s:b, s:b, s:b, s:b, s:b, s:b, s:b, s:o}", "positionEncoding",
                  s->utf8 ? "utf-8" : "utf-16", "textDocumentSync", sync, "hoverProvider", 1,
                  "definitionProvider", 1, "referencesProvider", 1, "documentHighlightProvider", 1,
                  "documentSymbolProvider", 1, "documentFormattingProvider", 1, "inlayHintProvider",
                  1, "semanticTokensProvider", semantic);
    json_t *more =
        json_pack("{s:{s:[ssss], s:b}, s:{s:b}, s:{s:[ss]}, s:{s:b}, s:{s:o}, s:{s:b, s:b}}",
                  "completionProvider", "triggerCharacters", "%", "@", ".", ":", "resolveProvider",
                  0, "renameProvider", "prepareProvider", 1, "codeActionProvider",
                  "codeActionKinds", "quickfix", "refactor.rewrite", "codeLensProvider",
                  "resolveProvider", 0, "executeCommandProvider", "commands", job_commands(),
                  "diagnosticProvider", "interFileDependencies", 1, "workspaceDiagnostics", 0);
    if (all && more)
        json_object_update(all, more);
    json_decref(more);
    return all;
}

static Answer initialize(Server *s, const json_t *params)
{
    if (s->initialized)
        return answer_error(ERROR_REQUEST, "the server is initialized already");
    s->initialized = true;
    s->utf8 = speaks_utf8(params);
    return answer_with(json_pack("{s:o, s:{s:s, s:s}}", "capabilities", capabilities(s),
                                 "serverInfo", "name", "relay", "version", relay_version()));
}

static Answer shut_down(Server *s, const json_t *params)
{
    (void)params;
    s->shutdown = true;
    return answer_with(json_null());
}

static Answer leave(Server *s, const json_t *params)
{
    (void)params;
    s->exit = true;
    return (Answer){0};
}

static Answer cancel(Server *s, const json_t *params)
{
    jobs_cancel(s, json_object_get(params, "id"));
    return (Answer){0};
}

static Answer nothing(Server *s, const json_t *params)
{
    (void)s;
    (void)params;
    return (Answer){0};
}

/* ---- the table ------------------------------------------------------------------------------------------------------- */

typedef struct Method {
    const char *name;
    bool request; /* it is answered */
    Answer (*run)(Server *s, const json_t *params);
} Method;

static const Method methods[] = {
    {"initialize", true, initialize},
    {"initialized", false, nothing},
    {"shutdown", true, shut_down},
    {"exit", false, leave},
    {"$/cancelRequest", false, cancel},
    {"$/setTrace", false, nothing},
    {"textDocument/didOpen", false, did_open},
    {"textDocument/didChange", false, did_change},
    {"textDocument/didClose", false, did_close},
    {"textDocument/didSave", false, did_save},
    {"workspace/didChangeWatchedFiles", false, did_save},
    {"textDocument/diagnostic", true, pull_diagnostics},
    {"textDocument/hover", true, hover},
    {"textDocument/completion", true, completion},
    {"textDocument/definition", true, definition},
    {"textDocument/references", true, references},
    {"textDocument/documentHighlight", true, highlights},
    {"textDocument/documentSymbol", true, symbols},
    {"textDocument/semanticTokens/full", true, semantic_tokens},
    {"textDocument/semanticTokens/range", true, semantic_tokens},
    {"textDocument/inlayHint", true, inlay_hints},
    {"textDocument/formatting", true, formatting},
    {"textDocument/prepareRename", true, prepare_rename},
    {"textDocument/rename", true, rename_all},
    {"textDocument/codeAction", true, code_actions},
    {"textDocument/codeLens", true, code_lenses},
};

static const Method *find_method(const char *name)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        if (!strcmp(methods[i].name, name))
            return &methods[i];
    return NULL;
}

static Answer answer_to(Server *s, const char *name, const json_t *params, const json_t *id)
{
    const Method *m = find_method(name);
    if (!s->initialized && strcmp(name, "initialize") != 0 && strcmp(name, "exit") != 0)
        return answer_error(ERROR_EARLY, "the server is not initialized");
    if (s->shutdown && strcmp(name, "exit") != 0)
        return answer_error(ERROR_REQUEST, "the server was shut down");
    if (!strcmp(name, "workspace/executeCommand") && id)
        return execute(s, params, id);
    if (!m || (m->request && !id))
        return answer_error(ERROR_METHOD, "there is no such method");
    Answer a = m->run(s, params);
    return a.result || a.error || !id ? a : answer_with(json_null());
}

static void handle(Server *s, const json_t *message)
{
    const json_t *id = json_object_get(message, "id");
    const char *name = json_string_value(json_object_get(message, "method"));
    if (json_is_array(message) || !name) {
        /* A reply to something that this server asked: it asks nothing. */
        bool reply = json_object_get(message, "result") || json_object_get(message, "error");
        if (!reply)
            server_reply(s, id, answer_error(ERROR_REQUEST, "a request has a method"));
        return;
    }
    uint64_t refused = memory_refusals();
    Answer a = answer_to(s, name, json_object_get(message, "params"), id);
    if (a.result && memory_refusals() != refused) {
        json_decref(a.result);
        a = without_memory();
    }
    if (id && !a.later)
        server_reply(s, id, a);
    else
        json_decref(a.result);
}

/* ---- the loop ------------------------------------------------------------------------------------------------------- */

enum { JOBS_MOST = 4 };

static bool is_waiting(Server *s, int timeout)
{
    struct pollfd fds[JOBS_MOST + 1] = {{.fd = s->wire.in, .events = POLLIN}};
    size_t n = 1 + jobs_poll(s, fds + 1, JOBS_MOST);
    if (poll(fds, (nfds_t)n, timeout) <= 0)
        return false;
    for (size_t i = 1; i < n; i++)
        if (fds[i].revents) {
            jobs_read(s);
            break;
        }
    return fds[0].revents != 0;
}

static void serve(Server *s)
{
    while (!s->exit && !s->wire.failed) {
        json_t *message;
        WireState state = wire_next(&s->wire, &message);
        if (state == WIRE_MESSAGE) {
            handle(s, message);
            json_decref(message);
        } else if (state != WIRE_WAIT) {
            if (state == WIRE_LOST)
                lose_texts(s);
            server_reply(s, NULL, answer_error(ERROR_PARSE, "this is no message"));
        } else if (s->wire.ended) {
            return;
        } else if (is_waiting(s, 0)) {
            wire_read(&s->wire);
        } else if (!publish_next(s) && is_waiting(s, -1)) {
            wire_read(&s->wire);
        }
    }
}

int lsp_run(const char **why, int *error)
{
    /* A text that takes longer says so, and the next one is read. */
    Server s = {.wire = {.in = 0, .out = 1}};
    s.session = relay_session_new(&(RelayOptions){.engine = "interp", .time_limit = 20});
    *error = s.session ? 0 : ENOMEM;
    *why = "a session cannot begin";
    if (!s.session)
        return RELAY_LIMIT;
    json_set_alloc_funcs(memory_alloc, free);
    memory_patient(true);
    serve(&s);
    jobs_end(&s);
    while (s.open) {
        Open *o = s.open;
        s.open = o->next;
        open_free(o);
    }
    buf_deinit(&s.wire.waiting);
    relay_session_free(s.session);
    /* Who reads has left: that is no mistake of the system. */
    *error = s.wire.failed != EPIPE ? s.wire.failed : 0;
    *why = "standard output cannot be written";
    if (!*error && (*error = s.wire.unread))
        *why = "standard input cannot be read";
    return *error ? RELAY_USAGE : s.exit && s.shutdown && !s.wire.failed ? RELAY_OK : RELAY_WRONG;
}
