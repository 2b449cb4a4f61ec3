#include "session/steps/stepping.h"

#include "base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* ---- the evaluation -------------------------------------------------------------------------------- */

static uint32_t step_line(const RelaySteps *st, const RecordStep *step)
{
    return span_start(&st->s->cx.sources, step->span).line;
}

/* Whether the latest step is what the stepper waits for. */
static bool arrived(RelaySteps *st, const Event *e)
{
    const RecordStep *step = recorder_step(&st->rec, st->rec.n - 1);
    if (st->go.kind == RELAY_GO_LEAVE)
        return false;
    st->at = stops_match(st, e);
    st->stop = st->rec.n - 1;
    RelayStop stop = st->at ? RELAY_STOP_BREAK : stops_why(st, e);
    recorder_mark(&st->rec, stop);
    if (stop != RELAY_STOP_NONE || (st->rec.done && st->asked))
        return true;
    if (st->go.kind == RELAY_GO_ON || st->rec.n - 1 < st->go.number)
        return false;
    return record_depth(step) <= st->go.depth &&
           (st->go.line == 0 || step_line(st, step) == st->go.line);
}

static bool ask(RelaySteps *st)
{
    st->asked = true;
    st->go = st->s->stepper.stopped(st->s->stepper.data, st);
    st->left = st->go.kind == RELAY_GO_LEAVE && !st->rec.done;
    return !st->left;
}

/* Steps in front of a breakpoint that are kept with those behind it. */
#define KEPT_BEFORE 40

/* The first step that matters is where a view opens. */
static void note_stop(RelaySteps *st, RelayStop why)
{
    recorder_mark(&st->rec, why);
    if (st->met || why == RELAY_STOP_NONE || why == RELAY_STOP_PAUSE)
        return;
    st->met = true;
    st->stop = st->rec.n - 1;
}

/* Nobody can say how to go on: the evaluation does, and what is kept lies around the first breakpoint that it met. */
static void pass_stop(RelaySteps *st, const Event *e)
{
    if (!st->met) {
        st->at = stops_match(st, e);
        note_stop(st, st->at ? RELAY_STOP_BREAK : stops_why(st, e));
        if (st->met && st->stop - st->rec.first > KEPT_BEFORE)
            recorder_drop(&st->rec, st->stop - st->rec.first - KEPT_BEFORE);
    }
    st->full = st->met && st->s->stops->n_watched == 0 && st->rec.n - st->rec.first == st->rec.cap;
}

static bool on_event(void *data, const Event *e)
{
    RelaySteps *st = data;
    if (st->full)
        return true;
    recorder_add(&st->rec, e);
    stops_watch(st, e);
    if (limit_hit(&st->s->cx.limits))
        return true;
    if (st->rec.first == st->rec.n)
        return true;
    if (st->asks)
        return !arrived(st, e) || ask(st);
    if (st->breaks)
        pass_stop(st, e);
    else
        note_stop(st, e->kind == EVENT_FAIL ? RELAY_STOP_ERROR : stops_why(st, e));
    st->left = !st->rec.done && st->most && st->rec.n >= st->most;
    return !st->left;
}

bool steps_init(RelaySteps *st, RelaySession *s, size_t kept, uint64_t from)
{
    *st = (RelaySteps){.s = s, .asks = s->stepper.stopped != NULL};
    bool ok = recorder_init(&st->rec, s, kept);
    st->rec.keep_from = from;
    return ok;
}

void steps_deinit(RelaySteps *st)
{
    recorder_deinit(&st->rec);
    ptrmap_deinit(&st->watched_cells);
    ptrmap_deinit(&st->sources);
    stops_forget(st);
    Buf *texts[] = {&st->rule, &st->value, &st->variables, &st->calls, &st->cells, &st->why};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_deinit(texts[i]);
    record_expression_deinit(&st->expression);
}

Value steps_eval(RelaySteps *st, Module *env, Module *keep, Expr *e)
{
    RelaySession *s = st->s;
    Observer observer = {on_event, st};
    st->env = env;
    interp_observe(s->interp, &observer);
    Value v = interp_eval(s->interp, env, keep, e, &s->local_values);
    interp_observe(s->interp, NULL);
    return v;
}

/* ---- what a step shows ------------------------------------------------------------------------------ */

void relay_session_set_stepper(RelaySession *s, RelayStepper stepper)
{
    s->stepper = stepper;
}

uint64_t relay_steps_first(const RelaySteps *steps)
{
    return steps->rec.first;
}

uint64_t relay_steps_end(const RelaySteps *steps)
{
    return steps->rec.n;
}

bool relay_steps_done(const RelaySteps *steps)
{
    return steps->rec.done;
}

uint32_t relay_steps_depth(const RelaySteps *steps, uint64_t number)
{
    return record_depth(recorder_step(&steps->rec, number));
}

uint32_t relay_steps_line(const RelaySteps *steps, uint64_t number)
{
    return step_line(steps, recorder_step(&steps->rec, number));
}

Span steps_region(const RelaySteps *st, const RecordStep *step)
{
    Span r = step->region;
    bool inside =
        r.source == step->span.source && r.from <= step->span.from && step->span.to <= r.to;
    r = inside ? r : step->span;
    const Source *source = sources_get(&st->s->cx.sources, r.source);
    if (!source)
        return r;
    while (r.from > 0 && source->text[r.from - 1] != '\n')
        r.from--;
    while (r.to < source->len && source->text[r.to] != '\n')
        r.to++;
    return r;
}

static void view_variables(RelaySteps *st, const RecordStep *step)
{
    size_t n = 0;
    const Bound **all = record_variables(step->now ? step->now->bound : NULL, SIZE_MAX, &n);
    for (size_t i = 0; all && i < n; i++) {
        buf_char(&st->variables, record_is_fresh(step, all[i]) ? '*' : ' ');
        buf_printf(&st->variables, "%%%s: ", all[i]->is.name->text);
        record_type(st->s, &st->variables, &all[i]->is);
        buf_str(&st->variables, " = ");
        record_content(&st->rec, &st->variables, all[i]->is.value);
        buf_char(&st->variables, '\n');
    }
    free(all);
}

#define CALLS_SHOWN 50

static void view_calls(RelaySteps *st, const RecordStep *step)
{
    const Activation *a = step->now;
    for (int shown = 0; a && shown < CALLS_SHOWN; a = a->caller, shown++) {
        record_call(&st->rec, &st->calls, a);
        buf_char(&st->calls, '\n');
    }
    if (a)
        buf_printf(&st->calls, "… and %u more\n", a->depth + 1);
}

static void view_cells(RelaySteps *st, uint64_t number)
{
    for (size_t i = 0; i < st->rec.n_cells; i++) {
        Value v;
        if (!record_cell(&st->rec, number, i, &v))
            continue;
        buf_printf(&st->cells, "r%zu = ", i + 1);
        record_value(&st->rec, &st->cells, v);
        buf_char(&st->cells, '\n');
    }
}

static void view_source(RelaySteps *st, const RecordStep *step)
{
    RelayStepView *v = &st->view;
    const Source *source = sources_get(&st->s->cx.sources, step->span.source);
    Span region = steps_region(st, step);
    *v = (RelayStepView){.source_name = "", .source = ""};
    if (!source)
        return;
    v->source_name = source->name;
    v->source = source->text;
    v->source_len = source->len;
    v->from = step->span.from;
    v->to = step->span.to;
    v->begin = region.from;
    v->end = region.to;
    v->first_line = source->lines_before + 1;
    v->line = step_line(st, step);
}

const RelayStepView *relay_steps_view(RelaySteps *st, uint64_t number)
{
    const RecordStep *step = recorder_step(&st->rec, number);
    RelayStepView *v = &st->view;
    Buf *texts[] = {&st->rule, &st->value, &st->variables, &st->calls, &st->cells, &st->why};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        buf_clear(texts[i]);
    view_source(st, step);
    v->depth = record_depth(step);
    record_expression(&st->rec, number, &st->expression);
    v->expression = buf_text(&st->expression.text);
    v->own_from = st->expression.from;
    v->own_to = st->expression.to;
    v->becomes = buf_text(&st->expression.value);
    record_rule(&st->rec, &st->rule, step);
    if (!value_is_none(step->value))
        record_value(&st->rec, &st->value, step->value);
    if (st->at && number == st->stop) {
        buf_str(&st->why, "breakpoint ");
        breakpoint_print(&st->why, st->at);
    } else if (step->stop == RELAY_STOP_NAN) {
        buf_str(&st->why, "a NaN or an infinity arises");
    }
    view_variables(st, step);
    view_calls(st, step);
    view_cells(st, number);
    v->rule = buf_text(&st->rule);
    v->value = buf_text(&st->value);
    v->variables = buf_text(&st->variables);
    v->calls = buf_text(&st->calls);
    v->cells = buf_text(&st->cells);
    v->why = buf_text(&st->why);
    return v;
}

/* ---- as text ---------------------------------------------------------------------------------------- */

static Str expression_own(const RecordExpression *e)
{
    return (Str){buf_text(&e->text) + e->from, e->to - e->from};
}

#define TEXT_COLUMNS 26
#define INDENT_MOST 8

static void text_step(RelaySteps *st, Buf *out, uint64_t k)
{
    const RecordStep *step = recorder_step(&st->rec, k);
    bool call = step->kind == EVENT_CALL;
    uint32_t depth = record_depth(step) - (call && record_depth(step) ? 1 : 0);
    uint32_t indent = 2 * (depth < INDENT_MOST ? depth : INDENT_MOST);
    Buf line = {0};
    buf_repeat(&line, ' ', indent);
    record_expression(&st->rec, k, &st->expression);
    Str own = expression_own(&st->expression);
    record_clip(&line, own.ptr, own.len, TEXT_COLUMNS - indent);
    size_t width = utf8_text_width(buf_text(&line), line.n);
    buf_printf(out, "%4llu  %s", (unsigned long long)k, buf_text(&line));
    buf_repeat(out, ' ', 2 + (width < TEXT_COLUMNS ? TEXT_COLUMNS - width : 0));
    record_rule(&st->rec, out, step);
    buf_deinit(&line);
}

void steps_text(RelaySteps *st, Buf *out, uint64_t most)
{
    const Recorder *r = &st->rec;
    uint64_t begin = st->met && st->stop - r->first >= most ? st->stop - most + 1 : r->first;
    uint64_t end = r->n - begin > most ? begin + most : r->n;
    for (uint64_t k = begin; k < end && !limit_hit(&st->s->cx.limits); k++) {
        text_step(st, out, k);
        buf_char(out, '\n');
    }
    if (st->met && recorder_step(r, st->stop)->stop == RELAY_STOP_NAN)
        buf_printf(out, "At step %llu a NaN or an infinity arises.\n",
                   (unsigned long long)st->stop);
    if (end < r->n || !r->done)
        buf_printf(out,
                   "These are the steps %llu to %llu; `:step steps=%llu E` shows more, and "
                   "`:step from=%llu E` what comes then.",
                   (unsigned long long)begin, (unsigned long long)end - 1,
                   (unsigned long long)(end - begin) * 10, (unsigned long long)end);
}

/* ---- as JSON ---------------------------------------------------------------------------------------- */

enum { JSON_COLUMNS = 200 };

static void json_step(RelaySteps *st, Buf *out, uint64_t k)
{
    const RecordStep *step = recorder_step(&st->rec, k);
    Buf text = {0}, rule = {0}, value = {0};
    record_text(&st->rec, &text, step->span, JSON_COLUMNS);
    record_rule(&st->rec, &rule, step);
    if (!value_is_none(step->value))
        record_value(&st->rec, &value, step->value);
    buf_printf(out, "%s{\"step\": %llu, \"line\": %u, \"depth\": %u, ",
               k > st->rec.first ? ",\n" : "\n", (unsigned long long)k,
               (unsigned)step_line(st, step), (unsigned)record_depth(step));
    buf_json_field(out, "text", buf_text(&text), text.n);
    buf_str(out, ", ");
    record_expression(&st->rec, k, &st->expression);
    buf_json_field(out, "expression", buf_text(&st->expression.text), st->expression.text.n);
    buf_str(out, ", ");
    Str own = expression_own(&st->expression);
    buf_json_field(out, "own", own.ptr, own.len);
    buf_str(out, ", ");
    buf_json_field(out, "becomes", buf_text(&st->expression.value), st->expression.value.n);
    buf_str(out, ", ");
    buf_json_field(out, "rule", buf_text(&rule), rule.n);
    buf_str(out, ", ");
    buf_json_field(out, "value", buf_text(&value), value.n);
    buf_printf(out, ", \"stop\": %s}", step->stop == RELAY_STOP_NAN ? "\"nan\"" : "null");
    buf_deinit(&text);
    buf_deinit(&rule);
    buf_deinit(&value);
}

void steps_json(RelaySteps *st, Buf *out, uint64_t start)
{
    buf_str(out, "{\"steps\": [");
    for (uint64_t k = st->rec.first; k < st->rec.n && !limit_hit(&st->s->cx.limits); k++)
        json_step(st, out, k);
    const RelayStepView *v = relay_steps_view(st, start);
    const struct {
        const char *key, *text;
    } rows[] = {{"why", v->why},
                {"variables", v->variables},
                {"calls", v->calls},
                {"references", v->cells}};
    buf_printf(out, "], \"done\": %s, \"at\": {\"step\": %llu", st->rec.done ? "true" : "false",
               (unsigned long long)start);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        buf_str(out, ", ");
        buf_json_field(out, rows[i].key, rows[i].text, strlen(rows[i].text));
    }
    buf_str(out, "}}\n");
}

#define STATE_STEPS 8

static void text_section(Buf *out, const char *title, const char *lines)
{
    if (!*lines)
        return;
    buf_printf(out, "%s\n", title);
    for (const char *p = lines; *p;) {
        size_t n = strcspn(p, "\n");
        bool mark = *p == ' ' || *p == '*';
        buf_printf(out, "    %.*s\n", (int)(n - mark), p + mark);
        p += n + (p[n] == '\n');
    }
}

void steps_state(RelaySteps *st, Buf *out, uint64_t number)
{
    uint64_t k = number - st->rec.first >= STATE_STEPS ? number - STATE_STEPS + 1 : st->rec.first;
    for (; k <= number; k++) {
        text_step(st, out, k);
        buf_char(out, '\n');
    }
    const RelayStepView *v = relay_steps_view(st, number);
    text_section(out, "variables", v->variables);
    text_section(out, "calls", v->calls);
    text_section(out, "references", v->cells);
}
