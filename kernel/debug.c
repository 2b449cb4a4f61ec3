#define _GNU_SOURCE 1
#include "kernel/debug.h"

#include "kernel/handlers.h"
#include "kernel/internal.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Cells have no files: the path of a text is its hash between these. */
enum { HASH_SEED = 0x5eed };
static const char path_end[] = ".rly";

enum { FRAMES_MOST = 200 };

/* References 1 and 2 of each frame are its variables and those of the session; parts come behind all frames. */
enum { SCOPES = 2, PARTS_FROM = SCOPES * FRAMES_MOST + 1 };

bool debug_init(Debugger *d)
{
    int ends[2], back[2];
    *d = (Debugger){.wake_read = -1, .wake_write = -1, .back_read = -1, .back_write = -1};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->changed, NULL);
    d->texts = json_object();
    d->breaks = json_object();
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    d->wake_read = ends[0];
    d->wake_write = ends[1];
    if (pipe2(back, O_CLOEXEC | O_NONBLOCK) != 0)
        return false;
    d->back_read = back[0];
    d->back_write = back[1];
    return d->texts && d->breaks;
}

void debug_deinit(Debugger *d)
{
    json_t *all[] = {d->texts, d->breaks, d->known, d->question, d->answer};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        json_decref(all[i]);
    int pipes[] = {d->wake_read, d->wake_write, d->back_read, d->back_write};
    for (size_t i = 0; i < sizeof pipes / sizeof *pipes; i++)
        if (pipes[i] >= 0)
            close(pipes[i]);
    pthread_cond_destroy(&d->changed);
    pthread_mutex_destroy(&d->lock);
}

/* ---- paths ------------------------------------------------------------------------------------------- */

/* MurmurHash2, by which front ends know cells. */
static uint32_t murmur2(const char *text, size_t len, uint32_t seed)
{
    const uint32_t m = 0x5bd1e995;
    const unsigned char *p = (const unsigned char *)text;
    uint32_t h = seed ^ (uint32_t)len;
    for (; len >= 4; p += 4, len -= 4) {
        uint32_t k = p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
        k *= m;
        k ^= k >> 24;
        k *= m;
        h *= m;
        h ^= k;
    }
    if (len >= 3)
        h ^= (uint32_t)p[2] << 16;
    if (len >= 2)
        h ^= (uint32_t)p[1] << 8;
    if (len >= 1) {
        h ^= p[0];
        h *= m;
    }
    h ^= h >> 13;
    h *= m;
    return h ^ h >> 15;
}

/* Another one in each process, so that front ends notice a restart. */
static void path_begin(Buf *out)
{
    buf_printf(out, "/tmp/relay_%ld/", (long)getpid());
}

/* The path of a text, which is kept for who wants to see it. */
static json_t *path_of(Debugger *d, const char *text, size_t len)
{
    Buf b = {0};
    path_begin(&b);
    buf_printf(&b, "%" PRIu32 "%s", murmur2(text, len, HASH_SEED), path_end);
    if (!json_object_get(d->texts, buf_text(&b)))
        json_object_set_new(d->texts, buf_text(&b), json_text(text, len));
    json_t *path = json_text(buf_text(&b), b.n);
    buf_deinit(&b);
    return path;
}

/* ---- answers ----------------------------------------------------------------------------------------- */

static json_t *argument(const json_t *request, const char *name)
{
    return json_object_get(json_object_get(request, "arguments"), name);
}

static json_int_t number(const json_t *request, const char *name, json_int_t otherwise)
{
    json_t *value = argument(request, name);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static Str string(const json_t *value)
{
    return json_is_string(value) ? (Str){json_string_value(value), json_string_length(value)}
                                 : (Str){"", 0};
}

/* Instead of a body. */
static json_t *refuse(const char *why)
{
    return json_pack("{s:s}", "refused", why);
}

static json_t *response(Debugger *d, const json_t *request, json_t *body)
{
    json_t *refused = json_object_get(body, "refused"), *seq = json_object_get(request, "seq");
    const char *command = json_string_value(json_object_get(request, "command"));
    json_t *out = json_pack("{s:s, s:I, s:I, s:b, s:s}", "type", "response", "seq",
                            (json_int_t)++d->sent, "request_seq", json_integer_value(seq),
                            "success", !refused, "command", command ? command : "");
    if (refused)
        json_object_set(out, "message", refused);
    json_object_set_new(out, "body", refused ? json_object() : json_incref(body));
    json_decref(body);
    return out;
}

static void send_event(Channel *c, const char *event, json_t *body)
{
    Debugger *d = &c->kernel->debugger;
    pthread_mutex_lock(&d->lock);
    json_int_t seq = ++d->sent;
    pthread_mutex_unlock(&d->lock);
    channel_publish(c, "debug_event",
                    json_pack("{s:s, s:I, s:s, s:o}", "type", "event", "seq", seq, "event", event,
                              "body", body ? body : json_object()));
}

/* ---- what a stopped evaluation, or else the session, is asked ------------------------------------------- */

/* Scalars by the words for which the panel of variables shows the value. */
static const char *panel_type(const char *type)
{
    static const struct {
        const char *begins, *word;
    } words[] = {
        {"int", "int"}, {"uint", "int"}, {"float", "float"}, {"bfloat", "float"}, {"bool", "bool"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strncmp(type, words[i].begins, strlen(words[i].begins)) == 0)
            return words[i].word;
    return type;
}

static void add_variable(void *data, const RelayVariable *v)
{
    const char *name = v->name;
    json_array_append_new(
        data, json_pack("{s:o, s:o, s:s, s:i, s:o}", "name", json_text(name, strlen(name)), "value",
                        json_text(v->value, strlen(v->value)), "type", panel_type(v->type),
                        "variablesReference", v->parts ? (int)(v->parts + PARTS_FROM) : 0,
                        "evaluateName", json_text(name, strlen(name))));
}

static json_t *stack_trace(Debugger *d, const json_t *request)
{
    (void)request;
    json_t *frames = json_array();
    RelayFrame f;
    for (uint32_t i = 0; i < FRAMES_MOST && relay_steps_frame(d->steps, d->at, i, &f); i++) {
        json_t *path = path_of(d, f.source, f.source_len);
        json_array_append_new(frames, json_pack("{s:i, s:s, s:i, s:i, s:i, s:i, s:{s:s, s:o}}",
                                                "id", (int)i + 1, "name", f.name, "line",
                                                (int)f.line, "column", (int)f.column, "endLine",
                                                (int)f.end_line, "endColumn", (int)f.end_column,
                                                "source", "name", f.source_name, "path", path));
    }
    json_int_t n = (json_int_t)json_array_size(frames);
    return json_pack("{s:o, s:I}", "stackFrames", frames, "totalFrames", n);
}

/* The frame that the request names, from 0; the innermost when it names none. */
static uint32_t frame_of(const json_t *request)
{
    json_int_t id = number(request, "frameId", 1);
    return id >= 1 && id <= FRAMES_MOST ? (uint32_t)id - 1 : 0;
}

static json_t *scopes(Debugger *d, const json_t *request)
{
    (void)d;
    int first = SCOPES * (int)frame_of(request) + 1;
    return json_pack("{s:[{s:s, s:i, s:b}, {s:s, s:i, s:b}]}", "scopes", "name", "Locals",
                     "variablesReference", first, "expensive", 0, "name", "Session",
                     "variablesReference", first + 1, "expensive", 0);
}

static json_t *variables(Debugger *d, const json_t *request)
{
    json_int_t reference = number(request, "variablesReference", 0);
    json_t *list = json_array();
    RelayVariables to = {add_variable, list};
    RelaySession *s = d->shell->kernel->session;
    if (reference > PARTS_FROM)
        relay_session_parts(s, (uint32_t)(reference - PARTS_FROM), to);
    else if (reference > 0 && reference % SCOPES == 0)
        relay_session_variables(s, to);
    else if (reference > 0 && d->steps)
        relay_steps_variables(d->steps, d->at, (uint32_t)(reference - 1) / SCOPES, to);
    return json_pack("{s:o}", "variables", list);
}

static json_t *inspect_variables(Debugger *d, const json_t *request)
{
    (void)request;
    json_t *list = json_array();
    if (!d->steps)
        relay_session_forget_parts(d->shell->kernel->session);
    relay_session_variables(d->shell->kernel->session, (RelayVariables){add_variable, list});
    json_t *body = json_pack("{s:o}", "variables", list);
    json_decref(d->known);
    d->known = json_deep_copy(body);
    return body;
}

/* What an expression gave: its bundle, what it is, or the first error. */
typedef struct Result {
    json_t *bundle, *is;
    Buf error;
} Result;

static void take_output(void *data, const RelayOutput *out)
{
    Result *r = data;
    if (out->kind == RELAY_OUTPUT_RESULT) {
        json_decref(r->bundle);
        r->bundle = bundle_of(out);
    } else if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR &&
               !r->error.n) {
        buf_str(&r->error, out->title ? out->title : "the expression is wrong");
    }
}

/* An expression in the frame, or in the session when nothing stands still. False when it is wrong: `refusal` says why. */
static bool evaluated(Debugger *d, const json_t *request, const char *what, Result *r,
                      json_t **refusal)
{
    Str text = string(argument(request, what));
    *r = (Result){.is = json_array()};
    RelaySink sink = {take_output, r};
    bool ok;
    if (d->steps) {
        ok = relay_steps_evaluate(d->steps, d->at, frame_of(request), text.ptr, text.len,
                                  (RelayVariables){add_variable, r->is}, sink);
    } else {
        RelayCell cell = {.text = text.ptr, .len = text.len, .name = "expression"};
        /* It cannot stand still itself: who would say how to go on waits for its value. */
        relay_session_set_stepper(d->shell->kernel->session, (RelayStepper){0});
        ok = relay_session_eval(d->shell->kernel->session, &cell, sink) == RELAY_OK;
    }
    ok = ok && r->bundle;
    if (!ok)
        *refusal = refuse(r->error.n ? buf_text(&r->error) : "this has no value");
    return ok;
}

static void result_deinit(Result *r)
{
    json_decref(r->bundle);
    json_decref(r->is);
    buf_deinit(&r->error);
}

static json_t *evaluate(Debugger *d, const json_t *request)
{
    Result r;
    json_t *body = NULL;
    if (evaluated(d, request, "expression", &r, &body)) {
        json_t *is = json_array_get(r.is, 0);
        json_t *type = json_object_get(is, "type");
        json_t *parts = json_object_get(is, "variablesReference");
        body = json_pack("{s:O, s:o, s:o}", "result", json_object_get(r.bundle, "text/plain"),
                         "type", type ? json_incref(type) : json_string(""), "variablesReference",
                         parts ? json_incref(parts) : json_integer(0));
    }
    result_deinit(&r);
    return body;
}

static json_t *rich_variables(Debugger *d, const json_t *request)
{
    Result r;
    json_t *body = NULL;
    if (evaluated(d, request, "variableName", &r, &body))
        body = json_pack("{s:O, s:{}}", "data", r.bundle, "metadata");
    result_deinit(&r);
    return body;
}

/* ---- going on ---------------------------------------------------------------------------------------- */

typedef struct Place {
    uint32_t line, depth;
    const char *source;
} Place;

static Place place_of(RelaySteps *steps, uint64_t k)
{
    RelayFrame f = {0};
    relay_steps_frame(steps, k, 0, &f);
    return (Place){f.line, relay_steps_depth(steps, k), f.source};
}

/* Whether it stood still there, or would have: a pause belongs to its moment. */
static bool is_stop(const RelaySteps *steps, uint64_t k)
{
    RelayStop stop = relay_steps_stop(steps, k);
    return stop != RELAY_STOP_NONE && stop != RELAY_STOP_PAUSE;
}

/* Whether step k is where it was to go, from the place that it came from. */
static bool arrived(const Debugger *d, RelaySteps *steps, uint64_t k)
{
    Place p = place_of(steps, k);
    bool moved = d->fine || p.line != d->from_line || p.source != d->from_source;
    switch (d->mode) {
    case MODE_CONTINUE:
    case MODE_BACK_TO_STOP: return is_stop(steps, k);
    case MODE_IN: return moved || p.depth != d->from_depth;
    case MODE_NEXT:
    case MODE_BACK: return p.depth < d->from_depth || (p.depth == d->from_depth && moved);
    case MODE_OUT: return p.depth < d->from_depth;
    case MODE_LEAVE: break;
    }
    return true;
}

/* Goes there among the steps that are kept. False: it lies ahead of them. */
static bool go_kept(Debugger *d)
{
    bool back = d->mode == MODE_BACK || d->mode == MODE_BACK_TO_STOP;
    uint64_t first = relay_steps_first(d->steps), end = relay_steps_end(d->steps);
    Place p = place_of(d->steps, d->at);
    d->from_line = p.line;
    d->from_depth = p.depth;
    d->from_source = p.source;
    if (!back) {
        for (uint64_t k = d->at + 1; k < end; k++)
            if (arrived(d, d->steps, k) || is_stop(d->steps, k)) {
                d->at = k;
                return true;
            }
        return false;
    }
    while (d->at > first && !arrived(d, d->steps, --d->at))
        continue;
    return true;
}

static const char *reason(RelayStop stop)
{
    switch (stop) {
    case RELAY_STOP_NONE: return "step";
    case RELAY_STOP_BREAK: return "breakpoint";
    case RELAY_STOP_NAN:
    case RELAY_STOP_ERROR: return "exception";
    case RELAY_STOP_PAUSE: return "pause";
    }
    return "step";
}

static void tell_stop(Debugger *d, RelayStop stop)
{
    const RelayStepView *view = relay_steps_view(d->steps, d->at);
    const char *text = stop == RELAY_STOP_NAN ? "a NaN or an infinity arises" : view->rule;
    send_event(d->shell, "stopped",
               json_pack("{s:s, s:o, s:o, s:i, s:b}", "reason", reason(stop), "description",
                         json_text(view->rule, strlen(view->rule)), "text",
                         json_text(text, strlen(text)), "threadId", 1, "allThreadsStopped", 1));
}

/* ---- the shell thread -------------------------------------------------------------------------------- */

static void put_breaks(Debugger *d)
{
    RelaySession *s = d->shell->kernel->session;
    const char *path;
    json_t *list, *one;
    size_t i;
    json_object_foreach(d->breaks, path, list)
    {
        Str text = string(json_object_get(d->texts, path));
        RelayBreak all[256];
        size_t n = 0;
        json_array_foreach(list, i, one)
        {
            json_t *condition = json_object_get(one, "condition");
            uint32_t line = (uint32_t)json_integer_value(json_object_get(one, "line"));
            if (n < sizeof all / sizeof *all)
                all[n++] = (RelayBreak){line, json_string_value(condition)};
        }
        relay_session_break_text(s, text.ptr, text.len, all, d->started ? n : 0);
    }
    relay_session_break_on(s, d->started ? d->stops : 0);
    d->fresh = false;
}

typedef struct Question {
    const char *command;
    json_t *(*answer)(Debugger *d, const json_t *request);
    bool stopped; /* only of an evaluation that stands still */
} Question;

static const Question questions[] = {
    {"stackTrace", stack_trace, true},
    {"scopes", scopes, true},
    {"variables", variables, false},
    {"inspectVariables", inspect_variables, false},
    {"richInspectVariables", rich_variables, false},
    {"evaluate", evaluate, false},
};

static const Question *find_question(const char *command)
{
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (strcmp(questions[i].command, command) == 0)
            return &questions[i];
    return NULL;
}

/* Both threads look again. The lock is held. */
static void tell_change(Debugger *d)
{
    ssize_t n = write(d->back_write, "", 1);
    (void)n;
    pthread_cond_broadcast(&d->changed);
}

/* The lock is held, and let go of meanwhile: the control thread waits. */
static void answer_question(Debugger *d)
{
    json_t *request = d->question;
    const Question *q = find_question(json_string_value(json_object_get(request, "command")));
    pthread_mutex_unlock(&d->lock);
    json_t *body = q->stopped && !d->steps ? refuse("nothing stands still") : q->answer(d, request);
    pthread_mutex_lock(&d->lock);
    d->answer = body;
    d->answered = true;
    tell_change(d);
}

void debug_answer(Channel *shell)
{
    Debugger *d = &shell->kernel->debugger;
    char bytes[16];
    while (read(d->wake_read, bytes, sizeof bytes) > 0)
        continue;
    pthread_mutex_lock(&d->lock);
    d->shell = shell;
    if (d->asks && !d->answered)
        answer_question(d);
    pthread_mutex_unlock(&d->lock);
}

static RelayGo keep_going(Debugger *d, RelaySteps *steps)
{
    if (d->mode == MODE_LEAVE)
        return (RelayGo){.kind = RELAY_GO_LEAVE};
    if (d->mode == MODE_CONTINUE)
        return (RelayGo){.kind = RELAY_GO_ON};
    return (RelayGo){.kind = RELAY_GO_TO, .number = relay_steps_end(steps), .depth = UINT32_MAX};
}

static bool ends(const Kernel *k)
{
    return atomic_load(&k->stopping) || atomic_load(&k->interrupted);
}

/* Stands still until somebody says how to go on, or the cell is to end. */
static void stand_still(Debugger *d)
{
    const Kernel *k = d->shell->kernel;
    pthread_mutex_lock(&d->lock);
    while (!d->going && !ends(k)) {
        if (d->asks && !d->answered)
            answer_question(d);
        else
            pthread_cond_wait(&d->changed, &d->lock);
    }
    if (!d->going)
        d->mode = MODE_CONTINUE;
    d->state = DEBUG_RUNS;
    if (d->fresh)
        put_breaks(d);
    tell_change(d);
    pthread_mutex_unlock(&d->lock);
}

/* Whether what the evaluation came to is something to stand still at. Its end is not, but for a failure. */
static bool is_due(Debugger *d, RelaySteps *steps, uint64_t now, RelayStop stop)
{
    bool due = d->started && (!relay_steps_done(steps) || stop == RELAY_STOP_ERROR);
    switch (stop) {
    case RELAY_STOP_PAUSE: return due && (d->paused || d->carried);
    case RELAY_STOP_NONE: return due && (d->mode == MODE_CONTINUE || arrived(d, steps, now));
    case RELAY_STOP_BREAK:
    case RELAY_STOP_NAN:
    case RELAY_STOP_ERROR: break;
    }
    return due;
}

/* Who steps over the end of an evaluation comes to the beginning of the next one in the cell. */
static void carry_on(Debugger *d, const RelaySteps *steps)
{
    d->carried = relay_steps_done(steps) && d->mode != MODE_CONTINUE && d->mode != MODE_LEAVE;
    if (d->carried)
        relay_session_pause(d->shell->kernel->session);
}

/* Shows one step after the other of those that are kept, until the evaluation is to go on. */
static void visit(Debugger *d, RelayStop stop)
{
    do {
        /* Who is told may ask at once. */
        pthread_mutex_lock(&d->lock);
        d->state = DEBUG_STOPPED;
        d->going = false;
        pthread_mutex_unlock(&d->lock);
        tell_stop(d, stop);
        stand_still(d);
        relay_session_forget_parts(d->shell->kernel->session);
        send_event(d->shell, "continued",
                   json_pack("{s:i, s:b}", "threadId", 1, "allThreadsContinued", 1));
        if (d->mode == MODE_LEAVE || ends(d->shell->kernel) || !go_kept(d))
            return;
        stop = is_stop(d->steps, d->at) ? relay_steps_stop(d->steps, d->at) : RELAY_STOP_NONE;
    } while (d->started);
}

static RelayGo stopped(void *data, RelaySteps *steps)
{
    Debugger *d = data;
    uint64_t now = relay_steps_end(steps) - 1;
    RelayStop stop = relay_steps_stop(steps, now);
    pthread_mutex_lock(&d->lock);
    if (d->fresh)
        put_breaks(d);
    bool due = is_due(d, steps, now, stop);
    if (stop == RELAY_STOP_PAUSE)
        d->paused = d->carried = false;
    pthread_mutex_unlock(&d->lock);
    if (due) {
        d->steps = steps;
        d->at = now;
        visit(d, stop);
        d->steps = NULL;
    }
    carry_on(d, steps);
    return keep_going(d, steps);
}

void debug_begin(Channel *shell)
{
    Debugger *d = &shell->kernel->debugger;
    RelaySession *s = shell->kernel->session;
    pthread_mutex_lock(&d->lock);
    d->shell = shell;
    d->state = DEBUG_RUNS;
    d->mode = MODE_CONTINUE;
    d->paused = d->carried = false;
    if (d->started || d->fresh)
        put_breaks(d);
    relay_session_set_stepper(s, d->started ? (RelayStepper){stopped, d} : (RelayStepper){0});
    tell_change(d);
    pthread_mutex_unlock(&d->lock);
}

void debug_end(Channel *shell)
{
    Debugger *d = &shell->kernel->debugger;
    pthread_mutex_lock(&d->lock);
    d->state = DEBUG_WAITS;
    pthread_mutex_unlock(&d->lock);
}

void debug_leave(Debugger *d)
{
    pthread_mutex_lock(&d->lock);
    d->state = DEBUG_ENDED;
    tell_change(d);
    pthread_mutex_unlock(&d->lock);
}

void debug_wake(Debugger *d)
{
    pthread_mutex_lock(&d->lock);
    tell_change(d);
    pthread_mutex_unlock(&d->lock);
}

/* ---- the control thread: what needs no session ------------------------------------------------------------ */

static json_t *breaks_listed(const Debugger *d)
{
    json_t *out = json_array(), *list, *one;
    const char *path;
    size_t i;
    json_object_foreach(d->breaks, path, list)
    {
        json_t *lines = json_array();
        json_array_foreach(list, i, one) json_array_append(lines, one);
        if (json_array_size(lines))
            json_array_append_new(out,
                                  json_pack("{s:s, s:O}", "source", path, "breakpoints", lines));
        json_decref(lines);
    }
    return out;
}

static json_t *debug_info(Channel *c, const json_t *request)
{
    (void)request;
    Debugger *d = &c->kernel->debugger;
    Buf begin = {0};
    path_begin(&begin);
    json_t *threads = json_array();
    if (d->state == DEBUG_STOPPED)
        json_array_append_new(threads, json_integer(1));
    json_t *body = json_pack(
        "{s:b, s:s, s:i, s:s, s:s, s:o, s:o, s:b, s:[s, s], s:b}", "isStarted", d->started,
        "hashMethod", "Murmur2", "hashSeed", HASH_SEED, "tmpFilePrefix", buf_text(&begin),
        "tmpFileSuffix", path_end, "breakpoints", breaks_listed(d), "stoppedThreads", threads,
        "richRendering", 1, "exceptionPaths", "nan", "error", "copyToGlobals", 0);
    buf_deinit(&begin);
    return body;
}

static void say_initialized(Channel *c)
{
    send_event(c, "initialized", NULL);
}

static json_t *initialize(Channel *c, const json_t *request)
{
    (void)request;
    c->kernel->debugger.started = true;
    c->then = say_initialized;
    return json_pack("{s:b, s:b, s:b, s:b, s:b, s:[{s:s, s:s, s:b}, {s:s, s:s, s:b}]}",
                     "supportsConfigurationDoneRequest", 1, "supportsConditionalBreakpoints", 1,
                     "supportsStepBack", 1, "supportsEvaluateForHovers", 1,
                     "supportsSteppingGranularity", 1, "exceptionBreakpointFilters", "filter",
                     "nan", "label", "NaN and infinity", "default", 0, "filter", "error", "label",
                     "Errors", "default", 0);
}

static json_t *threads(Channel *c, const json_t *request)
{
    (void)c;
    (void)request;
    return json_pack("{s:[{s:i, s:s}]}", "threads", "id", 1, "name", "cells");
}

static json_t *nothing(Channel *c, const json_t *request)
{
    (void)c;
    (void)request;
    return json_object();
}

static json_t *dump_cell(Channel *c, const json_t *request)
{
    Str code = string(argument(request, "code"));
    return json_pack("{s:o}", "sourcePath", path_of(&c->kernel->debugger, code.ptr, code.len));
}

static json_t *source(Channel *c, const json_t *request)
{
    const char *path = json_string_value(json_object_get(argument(request, "source"), "path"));
    json_t *text = path ? json_object_get(c->kernel->debugger.texts, path) : NULL;
    return text ? json_pack("{s:O, s:s}", "content", text, "mimeType", "text/x-relay")
                : refuse("there is no such source");
}

static json_t *set_exceptions(Channel *c, const json_t *request)
{
    static const struct {
        const char *filter;
        RelayStop stop;
    } known[] = {{"nan", RELAY_STOP_NAN}, {"error", RELAY_STOP_ERROR}};
    Debugger *d = &c->kernel->debugger;
    json_t *one;
    size_t i;
    d->stops = 0;
    json_array_foreach(argument(request, "filters"), i,
                       one) for (size_t k = 0; k < sizeof known / sizeof *known;
                                 k++) if (str_is(string(one), known[k].filter)) d->stops |=
        1u << known[k].stop;
    d->fresh = true;
    relay_session_pause(c->kernel->session);
    return json_object();
}

/* The lines on which something can begin: all but those of comments and closing brackets. */
typedef struct Lines {
    const char *text;
    size_t at; /* of what was counted */
    uint32_t line, wanted, found; /* found: the first from the wanted one on; 0: none yet */
} Lines;

static void note_line(void *data, const RelayToken *t)
{
    Lines *l = data;
    for (; l->at < t->from; l->at++)
        l->line += l->text[l->at] == '\n';
    bool begins = strcmp(t->kind, "punctuation") != 0 && strcmp(t->kind, "comment") != 0;
    if (!l->found && begins && l->line >= l->wanted)
        l->found = l->line;
}

static uint32_t line_of(Str text, json_int_t wanted)
{
    Lines l = {.text = text.ptr, .line = 1, .wanted = (uint32_t)wanted};
    relay_highlight(NULL, text.ptr, text.len, note_line, &l);
    return l.found;
}

static json_t *set_breakpoints(Channel *c, const json_t *request)
{
    Debugger *d = &c->kernel->debugger;
    const char *path = json_string_value(json_object_get(argument(request, "source"), "path"));
    json_t *text = path ? json_object_get(d->texts, path) : NULL;
    if (!text)
        return refuse("no such cell was dumped");
    json_t *kept = json_array(), *out = json_array(), *one;
    size_t i;
    json_array_foreach(argument(request, "breakpoints"), i, one)
    {
        json_t *condition = json_object_get(one, "condition");
        uint32_t line = line_of(string(text), json_integer_value(json_object_get(one, "line")));
        json_array_append_new(out, json_pack("{s:b, s:i, s:{s:s}}", "verified", line != 0, "line",
                                             (int)line, "source", "path", path));
        if (line == 0)
            continue;
        json_t *entry = json_pack("{s:i}", "line", (int)line);
        if (json_is_string(condition) && json_string_length(condition))
            json_object_set(entry, "condition", condition);
        json_array_append_new(kept, entry);
    }
    json_object_set_new(d->breaks, path, kept);
    d->fresh = true;
    relay_session_pause(c->kernel->session);
    return json_pack("{s:o}", "breakpoints", out);
}

static json_t *pause_running(Channel *c, const json_t *request)
{
    (void)request;
    Debugger *d = &c->kernel->debugger;
    if (d->state != DEBUG_RUNS)
        return refuse("no cell runs");
    d->paused = true;
    relay_session_pause(c->kernel->session);
    return json_object();
}

static json_t *modules(Channel *c, const json_t *request)
{
    (void)request;
    json_t *list = json_array(), *text;
    const char *path;
    json_object_foreach(c->kernel->debugger.texts, path, text) json_array_append_new(
        list, json_pack("{s:s, s:s, s:s}", "id", path, "name", path, "path", path));
    json_int_t n = (json_int_t)json_array_size(list);
    return json_pack("{s:o, s:I}", "modules", list, "totalModules", n);
}

/* Once the reply is on its way, so that the next stop comes behind it. */
static void let_go(Channel *c)
{
    Debugger *d = &c->kernel->debugger;
    pthread_mutex_lock(&d->lock);
    d->going = true;
    pthread_cond_broadcast(&d->changed);
    pthread_mutex_unlock(&d->lock);
}

static json_t *disconnect(Channel *c, const json_t *request)
{
    Debugger *d = &c->kernel->debugger;
    d->started = false;
    d->stops = 0;
    d->fresh = true;
    json_t *path_list;
    const char *path;
    json_object_foreach(d->breaks, path, path_list) json_array_clear(path_list);
    d->mode = json_is_true(argument(request, "terminateDebuggee")) ? MODE_LEAVE : MODE_CONTINUE;
    if (d->state == DEBUG_STOPPED)
        c->then = let_go;
    return json_object();
}

static const struct {
    const char *command;
    DebugMode mode;
} ways[] = {
    {"continue", MODE_CONTINUE}, {"next", MODE_NEXT},     {"stepIn", MODE_IN},
    {"stepOut", MODE_OUT},       {"stepBack", MODE_BACK}, {"reverseContinue", MODE_BACK_TO_STOP},
    {"terminate", MODE_LEAVE},
};

static const struct {
    const char *command;
    json_t *(*answer)(Channel *c, const json_t *request);
} settings[] = {
    {"debugInfo", debug_info},
    {"initialize", initialize},
    {"attach", nothing},
    {"configurationDone", nothing},
    {"setExceptionBreakpoints", set_exceptions},
    {"dumpCell", dump_cell},
    {"setBreakpoints", set_breakpoints},
    {"source", source},
    {"modules", modules},
    {"threads", threads},
    {"pause", pause_running},
    {"disconnect", disconnect},
};

static json_t *go(Channel *c, const json_t *request, DebugMode mode)
{
    Debugger *d = &c->kernel->debugger;
    if (d->state != DEBUG_STOPPED)
        return refuse("nothing stands still");
    d->mode = mode;
    d->fine = str_is(string(argument(request, "granularity")), "instruction");
    c->then = let_go;
    return json_pack("{s:b}", "allThreadsContinued", 1);
}

/* ---- the control thread: what the shell thread is asked ----------------------------------------------------- */

enum { AGAIN_MS = 10 };

/* Answers what else comes, until there may be an answer. An interrupt is repeated: one that comes just before an evaluation begins does
 * not count. The lock is held, and let go of meanwhile. */
static void await_answer(Channel *c)
{
    Kernel *k = c->kernel;
    Debugger *d = &k->debugger;
    char bytes[16];
    pthread_mutex_unlock(&d->lock);
    bool interrupted = atomic_load(&k->interrupted);
    if (interrupted)
        relay_session_interrupt(k->session);
    channel_serve_beside(c, d->back_read, interrupted ? AGAIN_MS : -1);
    while (read(d->back_read, bytes, sizeof bytes) > 0)
        continue;
    pthread_mutex_lock(&d->lock);
}

/* The lock is held. */
static json_t *ask(Channel *c, json_t *request)
{
    Debugger *d = &c->kernel->debugger;
    /* What there was before is no interrupt of this. */
    if (d->state == DEBUG_WAITS)
        atomic_store(&c->kernel->interrupted, false);
    if (d->state == DEBUG_WAITS) {
        ssize_t n = write(d->wake_write, "", 1);
        (void)n;
    }
    d->question = request;
    d->asks = true;
    d->answered = false;
    d->answer = NULL;
    c->beside->handed = 0;
    pthread_cond_broadcast(&d->changed);
    while (!d->answered && (d->state == DEBUG_WAITS || d->state == DEBUG_STOPPED))
        await_answer(c);
    json_t *answer = d->answer;
    d->asks = false;
    d->answer = d->question = NULL;
    if (!answer && d->known &&
        str_is(string(json_object_get(request, "command")), "inspectVariables"))
        answer = json_deep_copy(d->known);
    return answer ? answer : refuse("a cell runs");
}

static json_t *answer(Channel *c, json_t *request)
{
    const char *command = json_string_value(json_object_get(request, "command"));
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (command && strcmp(settings[i].command, command) == 0)
            return settings[i].answer(c, request);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        if (command && strcmp(ways[i].command, command) == 0)
            return go(c, request, ways[i].mode);
    return command && find_question(command) ? ask(c, request) : refuse("there is no such command");
}

json_t *debug_request(Channel *c)
{
    Debugger *d = &c->kernel->debugger;
    pthread_mutex_lock(&d->lock);
    json_t *out = response(d, c->request.content, answer(c, c->request.content));
    pthread_mutex_unlock(&d->lock);
    return out;
}
