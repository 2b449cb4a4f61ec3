/* Commands that evaluate while one looks on: :step and :trace. */
#include "session/steps/stepping.h"

#include <stdlib.h>
#include <string.h>

#define STEPS_IN_TEXT 40
#define STEPS_IN_HTML 1000
#define STEPS_KEPT 100000 /* where one can go back */
#define TRACE_LINES 500
#define TRACE_INDENT_MOST 30

/* ---- :step ------------------------------------------------------------------------------------------ */

static void show_steps(RelaySteps *st, uint64_t in_text)
{
    Buf text = {0}, html = {0}, json = {0};
    uint64_t start = st->met ? st->stop : st->rec.first;
    steps_text(st, &text, in_text);
    steps_html(st, &html, start);
    steps_json(st, &json, start);
    emit_bundle(st->s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

void command_step(CommandCall *c)
{
    RelaySession *s = c->s;
    uint64_t most = 0, from = 0;
    if (!command_setting(c, "steps", &most) || !command_setting(c, "from", &from) ||
        !command_setting(c, "steps", &most))
        return;
    Module *m = command_program(c);
    RelaySteps st;
    bool asks = s->stepper.stopped != NULL;
    uint64_t shown = most ? most : STEPS_IN_HTML;
    if (!m || !steps_init(&st, s, asks ? STEPS_KEPT : shown, asks ? 0 : from)) {
        module_release(m);
        return;
    }
    st.most = from + shown;
    st.go = (RelayGo){.kind = RELAY_GO_TO, .number = from, .depth = UINT32_MAX};
    Value v = steps_eval(&st, s->env, m, m->expr);
    if (!asks && st.rec.n > st.rec.first)
        show_steps(&st, most ? most : STEPS_IN_TEXT);
    if (!asks && st.rec.n == st.rec.first)
        emit_printf(s, RELAY_OUTPUT_DISPLAY, "the evaluation has %llu steps",
                    (unsigned long long)st.rec.n);
    if (asks && !value_is_none(v))
        display_value(s, RELAY_OUTPUT_DISPLAY, v, m->expr->type);
    value_release(v);
    steps_deinit(&st);
    module_release(m);
}

/* ---- :trace ----------------------------------------------------------------------------------------- */

typedef struct Trace {
    RelaySession *s;
    Recorder rec; /* keeps the latest step alone */
    uint64_t lines, most;
} Trace;

static void trace_call(Recorder *r, Buf *b, const Event *e)
{
    const Activation *a = r->now;
    (void)e;
    if (a)
        record_call(r, b, a);
}

static void trace_return(Recorder *r, Buf *b, const Event *e)
{
    if (e->what)
        buf_printf(b, "%c%s ", e->global ? '@' : '%', e->what);
    buf_str(b, "= ");
    record_brief(r, b, e->result.value);
}

static void trace_op(Recorder *r, Buf *b, const Event *e)
{
    buf_printf(b, "%s(", e->what ? e->what : "ref_write");
    for (uint32_t i = 0; i < e->n && (e->what || i < 2); i++) {
        buf_str(b, i ? ", " : "");
        record_brief(r, b, e->args[i]);
    }
    buf_char(b, ')');
    if (!e->what)
        return;
    buf_str(b, " = ");
    record_brief(r, b, e->result.value);
}

static void trace_match(Recorder *r, Buf *b, const Event *e)
{
    buf_str(b, "match ");
    record_brief(r, b, e->args[0]);
    buf_str(b, ": ");
    record_text(r, b, e->pattern, 60);
}

static void trace_fail(Recorder *r, Buf *b, const Event *e)
{
    record_text(r, b, e->span, 60);
    buf_str(b, " fails");
}

/* What is told, and how much less deep it stands than the state after it. */
static const struct {
    void (*print)(Recorder *r, Buf *b, const Event *e);
    int outside;
} traced[] = {
    [EVENT_CALL] = {trace_call, 1},     [EVENT_TAIL_CALL] = {trace_call, 1},
    [EVENT_RETURN] = {trace_return, 0}, [EVENT_OP] = {trace_op, 0},
    [EVENT_MATCH] = {trace_match, 0},   [EVENT_REF_WRITE] = {trace_op, 0},
    [EVENT_FAIL] = {trace_fail, 0},
};

static void trace_line(Trace *t, const Event *e)
{
    Buf b = {0};
    int depth = t->rec.now ? (int)t->rec.now->depth - traced[e->kind].outside : 0;
    depth = depth < 0 ? 0 : depth < TRACE_INDENT_MOST ? depth : TRACE_INDENT_MOST;
    buf_repeat(&b, ' ', 2 * (size_t)depth);
    traced[e->kind].print(&t->rec, &b, e);
    buf_char(&b, '\n');
    emit_text(t->s, RELAY_OUTPUT_STREAM, &b);
    buf_deinit(&b);
}

static bool trace_event(void *data, const Event *e)
{
    Trace *t = data;
    recorder_add(&t->rec, e);
    bool whole = e->kind == EVENT_RETURN && t->rec.done && !t->rec.handed_over;
    if (!traced[e->kind].print || whole)
        return true;
    if (t->lines++ < t->most)
        trace_line(t, e);
    return true;
}

void command_trace(CommandCall *c)
{
    RelaySession *s = c->s;
    Trace t = {.s = s, .most = TRACE_LINES};
    if (!command_setting(c, "lines", &t.most))
        return;
    Module *m = command_program(c);
    if (!m || !recorder_init(&t.rec, s, 1)) {
        module_release(m);
        return;
    }
    Observer observer = {trace_event, &t};
    interp_observe(s->interp, &observer);
    Value v = interp_eval(s->interp, s->env, m, m->expr, &s->local_values);
    interp_observe(s->interp, NULL);
    if (t.lines > t.most)
        emit_printf(s, RELAY_OUTPUT_STREAM,
                    "… and %llu more lines; `:trace lines=%llu E` shows them\n",
                    (unsigned long long)(t.lines - t.most), (unsigned long long)t.lines);
    if (!value_is_none(v))
        display_value(s, RELAY_OUTPUT_DISPLAY, v, m->expr->type);
    value_release(v);
    recorder_deinit(&t.rec);
    module_release(m);
}
