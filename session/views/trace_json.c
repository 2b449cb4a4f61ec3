/* A pipeline as JSON: all that the other views show, and what they fold. */
#include "session/views/trace.h"

static void put_string(Buf *out, const char *key, Str text)
{
    buf_json_field(out, key, text.ptr, text.len);
}

static void put_nodes(Buf *out, const char *key, const uint32_t *nodes)
{
    buf_printf(out, "\"%s\": {\"all\": %u", key, (unsigned)trace_count(nodes));
    for (size_t i = 0; i < TRACE_N_CATEGORIES; i++)
        if (nodes[i])
            buf_printf(out, ", \"%s\": %u", trace_category_names[i], (unsigned)nodes[i]);
    buf_char(out, '}');
}

static void put_line(Trace *t, Buf *out, const TraceLine *line)
{
    buf_char(out, '{');
    put_string(out, "change", str_of(trace_change_words[line->change]));
    if (line->change == TRACE_LINE_FOLD) {
        buf_printf(out, ", \"lines\": %zu}", line->folded);
        return;
    }
    buf_str(out, ", ");
    put_string(out, "text", line->text);
    if (line->node) {
        Buf origin = {0}, type = {0};
        trace_origin_print(t, &origin, line->e);
        if (line->e->type)
            type_print(&type, line->e->type);
        buf_printf(out, ", \"node\": %u", (unsigned)line->node);
        if (origin.n)
            buf_str(out, ", "), put_string(out, "origin", (Str){buf_text(&origin), origin.n});
        if (type.n)
            buf_str(out, ", "), put_string(out, "type", (Str){buf_text(&type), type.n});
        buf_deinit(&origin);
        buf_deinit(&type);
    }
    buf_char(out, '}');
}

static void put_event(Trace *t, Buf *out, const TraceEvent *e)
{
    Buf words = {0};
    buf_char(out, '{');
    put_string(out, "rule", str_of(e->rule->name));
    trace_event_print(t, &words, e);
    buf_str(out, ", ");
    put_string(out, "says", (Str){buf_text(&words), words.n});
    static const char *const keys[] = {"at", "with", "made"};
    for (size_t i = 0; i < 3; i++)
        if (e->nodes[i] && trace_node(t, e->nodes[i]))
            buf_printf(out, ", \"%s\": %u", keys[i], (unsigned)trace_node(t, e->nodes[i]));
    buf_char(out, '}');
    buf_deinit(&words);
}

static void put_step(Trace *t, Buf *out, const TraceStep *step)
{
    static const TraceChange told[] = {TRACE_LINE_NEW, TRACE_LINE_GONE, TRACE_LINE_REPLACED,
                                       TRACE_LINE_MOVED};
    buf_char(out, '{');
    put_string(out, "pass", str_of(step->pass));
    buf_printf(out, ", \"ms\": %.4f, \"changed\": %s, ", step->seconds * 1e3,
               step->changed ? "true" : "false");
    put_nodes(out, "nodes", step->nodes);
    for (size_t i = 0; i < sizeof told / sizeof *told; i++)
        buf_printf(out, ", \"%s\": %u", trace_change_words[told[i]],
                   (unsigned)step->counts[told[i]]);
    buf_str(out, ", \"events\": [");
    for (size_t i = 0; i < step->events.n && !limit_hit(&t->s->cx.limits); i++) {
        buf_str(out, i ? ", " : "");
        put_event(t, out, &step->events.at[i]);
    }
    buf_str(out, "], \"lines\": [");
    TraceLines lines = trace_fold(t, &step->lines, 2, SIZE_MAX);
    for (size_t i = 0; i < lines.n && !limit_hit(&t->s->cx.limits); i++) {
        buf_str(out, i ? ", " : "");
        put_line(t, out, &lines.at[i]);
    }
    buf_str(out, "]}");
}

void trace_json(Trace *t, Buf *out, TraceView view)
{
    buf_char(out, '{');
    put_string(out, "pipeline", str_of(view.pipeline));
    buf_printf(out, ", \"ms\": %.4f, ", t->seconds * 1e3);
    put_nodes(out, "nodes", t->nodes);
    buf_str(out, ", \"steps\": [");
    for (size_t i = 0; i < t->steps.n && !limit_hit(&t->s->cx.limits); i++) {
        buf_str(out, i ? ",\n" : "\n");
        put_step(t, out, &t->steps.at[i]);
    }
    buf_str(out, "]}\n");
}
