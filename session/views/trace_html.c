/* A pipeline as HTML: a strip with a cell for each pass, and below it what the pass that is chosen changed.
 *
 * Only passes that changed something can be chosen. However large the program, the view has a bounded number of elements: what does
 * not fit is folded, and lines lose their colours before they are left out. */
#include "session/views/trace.h"

#include <string.h>

#define ELEMENTS 2400
#define BYTES 150000
#define LINES_ALL 300
#define EVENTS_SHOWN 12
#define EVENTS_ALONE 200
#define CONTEXT 2
#define COLUMNS 300

static const char style[] =
    "<style>.relay-lab{border:1px solid var(--jp-border-color2,#d0d4da);border-radius:6px;"
    "overflow:hidden;max-width:100%;color:var(--jp-ui-font-color1,#1f2328);background:var(--jp-"
    "layout-color1,#fff);font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-ui-"
    "font-size1,13px)}"
    ".relay-lab>header{padding:8px 14px;border-bottom:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-lab>header code{background:none;color:inherit;padding:0;font-weight:600}"
    ".relay-strip{display:flex;flex-wrap:wrap;gap:4px;padding:8px 14px}"
    ".relay-strip>*{border:1px solid var(--jp-border-color2,#d0d4da);border-radius:4px;"
    "padding:2px 8px;min-width:7em}"
    ".relay-strip>label{cursor:pointer;background:var(--jp-layout-color2,#eef1f4)}"
    ".relay-strip>label:hover{border-color:var(--jp-brand-color1,#1976d2)}"
    ".relay-strip>span{opacity:.6}"
    ".relay-strip small{display:block;color:var(--jp-ui-font-color2,#57606a);font-size:.85em}"
    ".relay-lab .relay-steps{border:0;border-top:1px solid var(--jp-border-color2,#d0d4da);"
    "border-radius:0;padding:8px 14px}"
    ".relay-lab ul{margin:0 0 6px;padding-left:1.4em;line-height:1.5}"
    ".relay-lab li code{background:var(--jp-layout-color2,#eef1f4);border-radius:3px;padding:0 4px;"
    "color:inherit}"
    ".relay-lab p{margin:0 0 6px;color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-lab .relay-steps pre.relay-program.relay-program{max-height:36em;overflow:auto;"
    "white-space:pre}"
    "@media print{.relay-lab>header label{display:none}.relay-strip>*{break-inside:avoid}"
    ".relay-lab .relay-steps pre.relay-program.relay-program{max-height:none;white-space:pre-wrap}}"
    ".relay-lab .relay-program div.relay-fold{color:var(--jp-ui-font-color2,#57606a);"
    "user-select:none}"
    ".relay-moved{background:rgba(33,150,243,.16)}"
    ".relay-lab>header label{float:right;cursor:pointer;color:var(--jp-brand-color1,#1976d2)}"
    /* In two columns what was stands beside what is; a line that stays goes through both. */
    ".relay-lab:has(>header input:checked) pre.relay-program{display:grid;"
    "grid-template-columns:minmax(0,1fr) minmax(0,1fr);column-gap:10px}"
    ".relay-lab:has(>header input:checked) pre.relay-program>div{grid-column:1/3;width:auto;"
    "min-width:0;white-space:pre-wrap}"
    ".relay-lab:has(>header input:checked) pre.relay-program>.relay-removed{grid-column:1}"
    ".relay-lab:has(>header input:checked) pre.relay-program>.relay-added{grid-column:2}"
    "</style>";

typedef struct Page {
    Trace *t;
    TraceView view;
    Buf *out;
    size_t seen; /* how many steps are */
    size_t elements, lines; /* that are left */
    size_t events; /* of a step that are told */
} Page;

/* The facts of a step, for programs that read the page. */
static void put_facts(Buf *out, const TraceStep *step)
{
    buf_printf(out,
               " data-pass=\"%s\" data-changed=\"%d\" data-nodes=\"%u\" data-new=\"%u\" "
               "data-gone=\"%u\" data-replaced=\"%u\" data-moved=\"%u\" data-events=\"%zu\"",
               step->pass, step->changed, (unsigned)trace_count(step->nodes),
               (unsigned)step->counts[TRACE_LINE_NEW], (unsigned)step->counts[TRACE_LINE_GONE],
               (unsigned)step->counts[TRACE_LINE_REPLACED],
               (unsigned)step->counts[TRACE_LINE_MOVED], step->events.n);
}

static void put_cell(Page *p, const HtmlSteps *steps, size_t k, size_t section)
{
    Buf *out = p->out;
    const TraceStep *step = &p->t->steps.at[k];
    uint32_t before = trace_count(k ? step[-1].nodes : p->t->nodes);
    uint32_t now = trace_count(step->nodes);
    bool seen = trace_is_seen(step, p->view);
    const char *tag = seen ? "label" : "span";
    buf_printf(out, "<%s", tag);
    put_facts(out, step);
    if (seen)
        buf_printf(out, " for=\"rs%016llx-%zu\"", (unsigned long long)steps->id, section);
    buf_printf(out, ">%zu %s <small>", k + 1, step->pass);
    trace_counts_print(out, step);
    buf_printf(out, " · %u", (unsigned)before);
    if (now != before)
        buf_printf(out, " → %u", (unsigned)now);
    buf_str(out, " nodes");
    if (trace_is_timed(p->t))
        buf_printf(out, " · %.2f ms", step->seconds * 1e3);
    buf_printf(out, "</small></%s>\n", tag);
}

/* The cell of the step that is seen stands out. */
static void put_choice(Page *p, const HtmlSteps *steps)
{
    buf_str(p->out, "<style>");
    for (size_t i = 1; i <= steps->n; i++)
        buf_printf(p->out,
                   "%s.relay-lab:has(#rs%016llx-%zu:checked) .relay-strip "
                   "label[for=\"rs%016llx-%zu\"]",
                   i > 1 ? "," : "", (unsigned long long)steps->id, i,
                   (unsigned long long)steps->id, i);
    buf_str(p->out, "{border-color:var(--jp-brand-color1,#1976d2);box-shadow:inset 0 -3px 0 "
                    "var(--jp-brand-color1,#1976d2);color:inherit}</style>");
}

static void put_strip(Page *p, const HtmlSteps *steps)
{
    size_t section = 0;
    buf_str(p->out, "<div class=\"relay-strip\">");
    for (size_t i = 0; i < p->t->steps.n; i++) {
        const TraceStep *step = &p->t->steps.at[i];
        section += trace_is_seen(step, p->view);
        put_cell(p, steps, i, section);
    }
    buf_str(p->out, "</div>");
    if (steps->n > 1)
        put_choice(p, steps);
}

static size_t count_elements(const char *html, size_t n)
{
    size_t found = 0;
    for (size_t i = 0; i + 1 < n; i++)
        found += html[i] == '<' && html[i + 1] != '/';
    return found;
}

static void put_title(Page *p, const TraceLine *line)
{
    Buf words = {0}, origin = {0};
    if (!line->e)
        return;
    if (line->e->type)
        type_print(&words, line->e->type);
    trace_origin_print(p->t, &origin, line->e);
    if (origin.n)
        buf_printf(&words, "%sfrom %s", words.n ? "\n" : "", buf_text(&origin));
    if (words.n) {
        buf_str(p->out, " title=\"");
        buf_html(p->out, buf_text(&words), words.n);
        buf_char(p->out, '"');
    }
    buf_deinit(&words);
    buf_deinit(&origin);
}

static void put_line(Page *p, const TraceLine *line, bool colored)
{
    static const char *const classes[TRACE_N_CHANGES] = {
        [TRACE_LINE_GONE] = "relay-removed", [TRACE_LINE_WAS] = "relay-removed",
        [TRACE_LINE_NEW] = "relay-added",    [TRACE_LINE_REPLACED] = "relay-added",
        [TRACE_LINE_MOVED] = "relay-moved",
    };
    Buf *out = p->out;
    if (line->change == TRACE_LINE_FOLD) {
        buf_printf(out, "<div class=\"relay-fold\">⋮ %zu line%s\n</div>", line->folded,
                   line->folded == 1 ? "" : "s");
        return;
    }
    buf_str(out, "<div");
    if (classes[line->change])
        buf_printf(out, " class=\"%s\" data-change=\"%s\"", classes[line->change],
                   trace_change_words[line->change]);
    if (colored)
        put_title(p, line);
    buf_printf(out, ">%c ", trace_change_signs[line->change]);
    Str text = trace_elide(p->t, line, COLUMNS);
    if (colored)
        html_tokens(out, text.ptr, text.len);
    else
        buf_html(out, text.ptr, text.len);
    buf_str(out, "\n</div>");
}

/* `share` of the page's elements are for these lines. */
static void put_lines(Page *p, const TraceLines *all, size_t context, size_t share)
{
    size_t most = p->lines / share, least = p->elements - p->elements / share;
    TraceLines lines = trace_fold(p->t, all, context, most < 12 ? 12 : most);
    size_t limit = p->elements - least;
    buf_str(p->out, "<pre class=\"relay-program\">");
    for (size_t i = 0; i < lines.n && !limit_hit(&p->t->s->cx.limits); i++) {
        size_t from = p->out->n;
        bool room = limit > 30 + (lines.n - i) && p->out->n < BYTES;
        put_line(p, &lines.at[i], room);
        size_t used = count_elements(buf_text(p->out) + from, p->out->n - from);
        limit -= used < limit ? used : limit;
        p->elements -= used < p->elements ? used : p->elements;
    }
    p->lines -= lines.n < p->lines ? lines.n : p->lines;
    buf_str(p->out, "</pre>");
}

static void put_nodes(Page *p, const uint32_t *before, const uint32_t *now)
{
    Buf *out = p->out;
    const char *between = "";
    buf_str(out, "<p>");
    for (size_t i = 0; i < TRACE_N_CATEGORIES; i++) {
        if (!before[i] && !now[i])
            continue;
        buf_printf(out, "%s%s %u", between, trace_category_names[i], (unsigned)before[i]);
        if (now[i] != before[i])
            buf_printf(out, " → %u", (unsigned)now[i]);
        between = ", ";
    }
    buf_str(out, "</p>");
}

static void put_events(Page *p, const TraceStep *step)
{
    size_t n = step->events.n < p->events ? step->events.n : p->events;
    if (!n)
        return;
    buf_str(p->out, "<ul>");
    for (size_t i = 0; i < n && !limit_hit(&p->t->s->cx.limits); i++) {
        Buf words = {0};
        size_t from = p->out->n;
        trace_event_print(p->t, &words, &step->events.at[i]);
        buf_printf(p->out, "<li data-rule=\"%s\">", step->events.at[i].rule->name);
        html_words(p->out, buf_text(&words));
        buf_str(p->out, "</li>");
        size_t used = count_elements(buf_text(p->out) + from, p->out->n - from);
        p->elements -= used < p->elements ? used : p->elements;
        buf_deinit(&words);
    }
    if (step->events.n > n)
        buf_printf(p->out, "<li>… and %zu more decision%s</li>", step->events.n - n,
                   step->events.n - n == 1 ? "" : "s");
    buf_str(p->out, "</ul>");
}

static void put_step(Page *p, HtmlSteps *steps, size_t k, size_t share)
{
    const TraceStep *step = &p->t->steps.at[k];
    Buf title = {0};
    buf_printf(&title, "`%s`", step->pass);
    trace_time_print(p->t, &title, step->seconds);
    html_step_begin(steps, buf_text(&title), HTML_STEP_PLAIN);
    put_nodes(p, k ? p->t->steps.at[k - 1].nodes : p->t->nodes, step->nodes);
    put_events(p, step);
    if (step->changed)
        put_lines(p, &step->lines, CONTEXT, share);
    else
        put_lines(p, &step->text->lines, p->lines, share);
    html_step_end(steps);
    buf_deinit(&title);
}

static void put_header(Page *p, const char *pipeline)
{
    Buf *out = p->out;
    buf_str(out, "<header><code>");
    buf_html(out, pipeline, strlen(pipeline));
    buf_str(out, "</code>: ");
    trace_summary_print(p->t, out);
    if (p->seen)
        buf_str(out, " <label><input type=\"checkbox\"> two columns</label>");
    buf_str(out, "</header>");
}

void trace_html(Trace *t, Buf *out, TraceView view)
{
    Page p = {.t = t, .view = view, .out = out, .elements = ELEMENTS, .lines = LINES_ALL};
    for (size_t i = 0; i < t->steps.n; i++)
        p.seen += trace_is_seen(&t->steps.at[i], view);
    size_t only = t->steps.n == 1 ? 1 : trace_alone(t, view), n = only ? 1 : p.seen;
    bool one = only != 0;
    p.events = trace_alone(t, view) ? EVENTS_ALONE : EVENTS_SHOWN;
    Buf body = {0};
    HtmlSteps steps;
    html_steps_begin(&steps, &body, n);
    steps.id = view.by_itself ? 1 : steps.id;
    buf_str(out, style);
    buf_str(out, "<div class=\"relay-lab\">");
    put_header(&p, view.pipeline);
    if (!one)
        put_strip(&p, &steps);
    buf_bytes(out, buf_text(&body), body.n);
    buf_deinit(&body);
    steps.out = out;
    if (one)
        put_step(&p, &steps, only - 1, 1);
    for (size_t i = 0, left = n; !one && i < t->steps.n; i++)
        if (trace_is_seen(&t->steps.at[i], view))
            put_step(&p, &steps, i, left--);
    html_steps_end(&steps);
    buf_str(out, "</div>");
}
