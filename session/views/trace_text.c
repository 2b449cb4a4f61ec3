/* A pipeline as text: a row for each pass, and for each pass that changed something what it changed. */
#include "session/views/trace.h"

#include <string.h>

#define LINES_ALL 400 /* of a view of all steps */
#define LINES_STEP 2000 /* of a view of one */
#define EVENTS_ALL 6
#define EVENTS_STEP 200
#define CONTEXT 2
#define COLUMNS 200

/* How much of a step a text says. */
typedef struct Extent {
    size_t lines, events, context, columns;
    bool alone;
} Extent;

static void put_rows(Trace *t, Buf *out, const char *pipeline)
{
    uint32_t before = trace_count(t->nodes);
    buf_printf(out, "// %s: ", pipeline);
    trace_summary_print(t, out);
    buf_char(out, '\n');
    for (size_t i = 0; i < t->steps.n; i++) {
        const TraceStep *step = &t->steps.at[i];
        uint32_t now = trace_count(step->nodes);
        Buf nodes = {0};
        buf_printf(&nodes, "%u", (unsigned)before);
        if (now != before)
            buf_printf(&nodes, " → %u", (unsigned)now);
        int narrow = 11 + (now != before ? 2 : 0); /* the arrow has three bytes */
        buf_printf(out, "// %2zu  %-24s ", i + 1, step->pass);
        if (trace_is_timed(t))
            buf_printf(out, "%7.2f ms ", step->seconds * 1e3);
        buf_printf(out, "%*s nodes  ", narrow, buf_text(&nodes));
        trace_counts_print(out, step);
        buf_char(out, '\n');
        buf_deinit(&nodes);
        before = now;
    }
}

static void put_line(Trace *t, Buf *out, const TraceLine *line, size_t columns)
{
    bool color = t->s->options.color;
    Str text = trace_elide(t, line, columns);
    static const char *const colors[TRACE_N_CHANGES] = {
        [TRACE_LINE_GONE] = "\033[31m",  [TRACE_LINE_WAS] = "\033[31m",
        [TRACE_LINE_NEW] = "\033[32m",   [TRACE_LINE_REPLACED] = "\033[32m",
        [TRACE_LINE_MOVED] = "\033[34m",
    };
    const char *on = color ? colors[line->change] : NULL;
    if (line->change == TRACE_LINE_FOLD) {
        buf_printf(out, "  ⋮ %zu line%s\n", line->folded, line->folded == 1 ? "" : "s");
        return;
    }
    buf_printf(out, "%s%c%.*s%s\n", on ? on : "", trace_change_signs[line->change], (int)text.len,
               text.ptr, on ? "\033[0m" : "");
}

/* A pass without rules tells none of its decisions, whatever it does. */
static void put_silence(Buf *out, const TraceStep *step)
{
    const Pass *pass = pass_find(str_of(step->pass));
    if (!step->changed)
        buf_printf(out, "// %s found nothing to do\n", step->pass);
    else if (!pass || !pass->rules)
        buf_printf(out, "// %s gives no reasons: what it changed is below\n", step->pass);
}

static void put_events(Trace *t, Buf *out, const TraceStep *step, Extent x)
{
    /* A line that says that there is one more would take the place of that. */
    size_t most = step->events.n == x.events + 1 ? step->events.n : x.events;
    for (size_t i = 0; i < step->events.n && i < most; i++) {
        buf_str(out, "// - ");
        trace_event_print(t, out, &step->events.at[i]);
        buf_char(out, '\n');
    }
    if (x.alone && !step->events.n)
        put_silence(out, step);
    if (step->events.n > most)
        buf_printf(out, "// … and %zu more decisions\n", step->events.n - most);
}

/* Without a sign in front, where nothing changed. */
static void put_program(Buf *out, const TraceLines *lines, size_t most)
{
    for (size_t i = 0; i < lines->n && i < most; i++)
        buf_printf(out, "%.*s\n", (int)lines->at[i].text.len, lines->at[i].text.ptr);
    if (lines->n > most)
        buf_printf(out, "  ⋮ %zu lines\n", lines->n - most);
}

static void put_step(Trace *t, Buf *out, size_t k, Extent x)
{
    const TraceStep *step = &t->steps.at[k];
    buf_str(out, "// ");
    if (t->steps.n > 1)
        buf_printf(out, "%zu ", k + 1);
    buf_str(out, step->pass);
    trace_time_print(t, out, step->seconds);
    buf_str(out, step->changed ? "\n" : ": no change\n");
    put_events(t, out, step, x);
    if (!step->changed && (x.alone || t->steps.n == 1))
        put_program(out, &step->text->lines, x.lines);
    if (!step->changed)
        return;
    TraceLines lines = trace_fold(t, &step->lines, x.context, x.lines);
    for (size_t i = 0; i < lines.n && !limit_hit(&t->s->cx.limits); i++)
        put_line(t, out, &lines.at[i], x.columns);
}

void trace_text(Trace *t, Buf *out, TraceView view)
{
    size_t changed = trace_changed(t), alone = trace_alone(t, view);
    if (alone) {
        put_step(t, out, alone - 1, (Extent){LINES_STEP, EVENTS_STEP, LINES_STEP, SIZE_MAX, true});
        return;
    }
    Extent x = {view.whole ? SIZE_MAX : LINES_ALL / (changed ? changed : 1),
                view.whole ? SIZE_MAX : EVENTS_ALL, CONTEXT, view.whole ? SIZE_MAX : COLUMNS,
                false};
    if (t->steps.n > 1)
        put_rows(t, out, view.pipeline);
    for (size_t i = 0; i < t->steps.n; i++)
        if (trace_is_seen(&t->steps.at[i], view) || t->steps.n == 1) {
            if (view.parts)
                buf_char(out, '\f');
            put_step(t, out, i, x);
        }
}

void trace_emit_text(Trace *t, TraceView view)
{
    Buf text = {0}, parts = {0};
    trace_text(t, &text, view);
    view.parts = t->s->options.parts;
    if (view.parts)
        trace_text(t, &parts, view);
    RelayMime mimes[] = {{"text/plain", buf_text(&text), text.n},
                         {"text/x-relay-parts", buf_text(&parts), parts.n}};
    emit_mimes(t->s, RELAY_OUTPUT_DISPLAY, 1 + view.parts, mimes);
    buf_deinit(&text);
    buf_deinit(&parts);
}

void trace_emit(Trace *t, TraceView view)
{
    Buf text = {0}, parts = {0}, html = {0}, json = {0};
    trace_text(t, &text, view);
    trace_html(t, &html, view);
    trace_json(t, &json, view);
    view.parts = t->s->options.parts;
    if (view.parts)
        trace_text(t, &parts, view);
    emit_in_parts(t->s, &text, view.parts ? &parts : NULL, &html, &json);
    buf_deinit(&parts);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}
