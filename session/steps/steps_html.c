/* The steps of an evaluation as HTML.
 *
 * Each step says its rule and which marks and parts of the page go with it; a mark or part stands in the page once, however many
 * steps show it, and rules of style (`:has` of the button that is on) bring it out. So a step costs some hundred bytes. The script
 * only adds that a click on an expression goes to the next step that evaluates it. */
#include "session/html.h"
#include "base/memory.h"
#include "base/utf8.h"
#include "session/steps/stepping.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS_SHOWN 12
#define VARIABLES_SHOWN 30
#define VARIABLES_LEAST 8
#define VARIABLES_PAGE 12000 /* with all steps */
#define CELLS_SHOWN 20

typedef struct Region {
    Span lines;
    Vec(HtmlMark) marks;
    PtrMap numbers; /* by where a mark begins and ends: 1 + its number */
} Region;

typedef struct Part {
    char *html;
    size_t n;
} Part;

/* Where a part stands in the page. */
typedef enum Place { PLACE_VARIABLES, PLACE_CALLS, PLACE_CELLS, PLACES } Place;

typedef struct Parts {
    Part *at;
    size_t n, cap;
    PtrMap numbers; /* by hash: 1 + the first such part */
} Parts;

typedef struct Shown {      /* with a step */
    uint32_t region, mark, pattern;
    uint32_t parts[PLACES];
    size_t not_deeper, less_deep; /* the next steps that are; the page's number of steps: none is */
} Shown;

typedef struct Page {
    RelaySteps *st;
    uint32_t rows[PLACES]; /* the most of any step */
    Recorder *rec;
    Arena arena;
    Vec(Region) regions;
    Vec(Span) marks;
    Parts parts[PLACES];
    Shown *shown;
    size_t n, variables; /* steps; how many variables are shown with each */
    const Activation *outermost; /* call that is shown: the one that the expression itself makes */
} Page;

/* ---- what the steps have in common --------------------------------------------------------------- */

static bool same_span(Span a, Span b)
{
    return a.source == b.source && a.from == b.from && a.to == b.to;
}

static uint32_t region_number(Page *p, const RecordStep *step)
{
    Span lines = steps_region(p->st, step);
    for (size_t i = 0; i < p->regions.n; i++)
        if (same_span(p->regions.at[i].lines, lines))
            return (uint32_t)i;
    Region region = {.lines = lines};
    vec_push(&p->regions, &p->arena, region);
    return (uint32_t)p->regions.n - 1;
}

static uint32_t mark_number(Page *p, uint32_t region, Span span)
{
    Region *r = &p->regions.at[region];
    const void *key = (const void *)(((uintptr_t)span.from << 32) + span.to);
    uint32_t number = (uint32_t)(uintptr_t)ptrmap_find(&r->numbers, key);
    if (number)
        return number - 1;
    number = (uint32_t)p->marks.n;
    vec_push(&p->marks, &p->arena, span);
    ptrmap_put(&r->numbers, key, (void *)(uintptr_t)(number + 1));
    HtmlMark mark = {
        .from = span.from, .to = span.to, .kind = HTML_MARK_NUMBERED, .number = number};
    if (span.source == r->lines.source)
        vec_push(&r->marks, &p->arena, mark);
    return number;
}

static void count_rows(Page *p, Place place, const Buf *html)
{
    uint32_t n = 0;
    for (const char *at = buf_text(html); (at = strstr(at, "<tr")); at++)
        n++;
    if (p->rows[place] < n)
        p->rows[place] = n;
}

/* Takes the text. */
static uint32_t part_number(Page *p, Place place, Buf *html)
{
    Parts *parts = &p->parts[place];
    count_rows(p, place, html);
    const void *key = (const void *)(uintptr_t)(hash_bytes(buf_text(html), html->n, 0) | 1);
    size_t known = (size_t)(uintptr_t)ptrmap_find(&parts->numbers, key);
    const Part *same = known ? &parts->at[known - 1] : NULL;
    if (same && same->n == html->n && memcmp(same->html, buf_text(html), html->n) == 0) {
        buf_deinit(html);
        return (uint32_t)known - 1;
    }
    if (parts->n == parts->cap) {
        size_t cap = parts->cap ? 2 * parts->cap : 64;
        Part *grown = memory_resize(parts->at, cap * sizeof *grown);
        if (!grown) {
            buf_deinit(html);
            return 0;
        }
        parts->at = grown;
        parts->cap = cap;
    }
    size_t n = html->n;
    parts->at[parts->n++] = (Part){buf_take(html), n};
    ptrmap_put(&parts->numbers, key, (void *)(uintptr_t)parts->n);
    return (uint32_t)parts->n - 1;
}

/* ---- parts ----------------------------------------------------------------------------------------- */

static void html_buf(Buf *out, Buf *text)
{
    buf_html(out, buf_text(text), text->n);
    buf_clear(text);
}

static uint32_t variables_part(Page *p, const RecordStep *step)
{
    Buf html = {0}, text = {0};
    size_t n = 0;
    const Bound **all = record_variables(step->now ? step->now->bound : NULL, p->variables + 1, &n);
    bool more = n > p->variables;
    size_t from = more ? n - p->variables : 0;
    if (more)
        buf_str(&html, "<tr><td class=\"relay-dim\">… earlier ones …</td></tr>");
    for (size_t i = from; all && i < n; i++) {
        const Binding *b = &all[i]->is;
        buf_printf(&html, "<tr%s><th>%%%s</th><td>",
                   record_is_fresh(step, all[i]) ? " class=\"relay-new\"" : "", b->name->text);
        record_content(p->rec, &text, b->value);
        html_buf(&html, &text);
        buf_str(&html, "</td><td class=\"relay-dim\">");
        record_type(p->rec->s, &text, b);
        html_buf(&html, &text);
        buf_str(&html, "</td></tr>");
    }
    free(all);
    buf_deinit(&text);
    return part_number(p, PLACE_VARIABLES, &html);
}

static uint32_t calls_part(Page *p, const RecordStep *step)
{
    Buf html = {0}, text = {0};
    const Activation *a = step->now;
    for (int shown = 0; a && (shown < CALLS_SHOWN || a->depth == 0); a = a->caller, shown++) {
        buf_printf(&html, "<tr%s><td>", shown == 0 ? " class=\"relay-top\"" : "");
        record_call(p->rec, &text, a);
        html_buf(&html, &text);
        buf_str(&html, "</td></tr>");
        if (shown + 1 < CALLS_SHOWN || a->depth < 2)
            continue;
        buf_printf(&html, "<tr><td class=\"relay-dim\">… %u more …</td></tr>", a->depth - 1);
        /* The outermost is the same for all, but for its variables. */
        while (!p->outermost && a->caller && a->caller->depth > 0)
            a = a->caller;
        p->outermost = p->outermost ? p->outermost : a;
        a = p->outermost;
    }
    buf_deinit(&text);
    return part_number(p, PLACE_CALLS, &html);
}

static uint32_t cells_part(Page *p, uint64_t number)
{
    Buf html = {0}, text = {0};
    const RecordStep *step = recorder_step(p->rec, number);
    size_t end = p->rec->n_cells;
    while (end > 0 && p->rec->cells[end - 1].born > number)
        end--;
    for (size_t i = end > CELLS_SHOWN ? end - CELLS_SHOWN : 0; i < end; i++) {
        Value v;
        if (!record_cell(p->rec, number, i, &v))
            continue;
        bool written =
            (step->kind == EVENT_REF_WRITE && step->args[0].object == p->rec->cells[i].cell) ||
            (step->kind == EVENT_REF_NEW && p->rec->cells[i].born == number);
        buf_printf(&html, "<tr%s><th>r%zu</th><td>", written ? " class=\"relay-new\"" : "", i + 1);
        record_value(p->rec, &text, v);
        html_buf(&html, &text);
        buf_str(&html, "</td></tr>");
    }
    buf_deinit(&text);
    return part_number(p, PLACE_CELLS, &html);
}

static void collect(Page *p)
{
    for (size_t i = 0; i < p->n && !limit_hit(&p->st->s->cx.limits); i++) {
        uint64_t number = p->rec->first + i;
        const RecordStep *step = recorder_step(p->rec, number);
        Shown *s = &p->shown[i];
        s->region = region_number(p, step);
        s->mark = mark_number(p, s->region, step->span);
        s->pattern = step->kind == EVENT_MATCH ? mark_number(p, s->region, step->pattern) : 0;
        s->parts[PLACE_VARIABLES] = variables_part(p, step);
        s->parts[PLACE_CALLS] = calls_part(p, step);
        s->parts[PLACE_CELLS] = cells_part(p, number);
    }
}

/* ---- the page -------------------------------------------------------------------------------------- */

static const char page_style[] =
    "<style>.relay-eval{border:1px solid var(--jp-border-color2,#d0d4da);border-radius:6px;"
    "max-width:100%;overflow:hidden;font-size:var(--jp-ui-font-size1,13px);"
    "color:var(--jp-ui-font-color1,#1f2328);background:var(--jp-layout-color1,#fff)}"
    ".relay-eval .relay-steps{border:0;border-radius:0;padding:10px 14px 0}"
    ".relay-eval .relay-steps nav{flex-wrap:wrap;margin-bottom:0}"
    ".relay-eval .relay-steps nav b{font-family:var(--jp-code-font-family,monospace);"
    "font-weight:400;color:var(--jp-ui-font-color2,#57606a);overflow:hidden;"
    "text-overflow:ellipsis;white-space:nowrap}"
    ".relay-rule{font-size:1.25em;line-height:1.5;min-height:3em;margin:10px 0}"
    ".relay-rule code{background:var(--jp-layout-color2,#eef1f4);border-radius:3px;"
    "padding:1px 5px;font-size:.95em;color:inherit}"
    ".relay-rule div{font-family:var(--jp-code-font-family,monospace);font-size:.8em;"
    "color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-eval pre.relay-now.relay-now{margin:0 0 10px;background:none;color:inherit;"
    "white-space:pre-wrap;font-size:1.1em;min-height:2.8em}"
    ".relay-panes{display:grid;grid-template-columns:minmax(0,3fr) minmax(0,2fr);"
    "border-top:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-where{padding:10px 14px;overflow:auto;max-height:32em;font-size:1.1em;"
    "border-right:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-state{padding:10px 14px;overflow:auto;max-height:32em}"
    ".relay-where pre.relay-program{margin:0;background:none;color:inherit}"
    ".relay-where .relay-program mark{cursor:pointer;border-radius:0;padding:1px 0}"
    ".relay-where h4,.relay-state h4{margin:0 0 4px;font-size:.85em;font-weight:600;"
    "letter-spacing:.04em;text-transform:uppercase;color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-where h4{text-transform:none;letter-spacing:0}"
    ".relay-state h4~h4,.relay-state div~h4{margin-top:14px}"
    ".relay-where>div+div{margin-top:12px}"
    ".relay-where>div,.relay-state>div>table{display:none}"
    ".relay-state>div{min-height:1.6em}"
    ".relay-eval.relay-eval.relay-eval "
    "table{border-collapse:collapse;width:100%;margin:0;border:0;table-layout:auto;"
    "font-family:var(--jp-code-font-family,monospace);font-size:1em}"
    ".relay-eval.relay-eval.relay-eval table tr,.relay-eval.relay-eval.relay-eval table "
    "tr:hover{background:none}"
    ".relay-eval.relay-eval.relay-eval table td,.relay-eval.relay-eval.relay-eval table "
    "th{text-align:left;padding:2px 10px 2px 4px;border:0;"
    "vertical-align:top;font-weight:400;max-width:none;white-space:pre-wrap;"
    "overflow-wrap:anywhere}"
    ".relay-eval.relay-eval.relay-eval table th{white-space:nowrap;width:1%;"
    "color:var(--jp-mirror-editor-variable-color,#1a1a8c)}"
    ".relay-eval.relay-eval.relay-eval table tr.relay-new,.relay-eval.relay-eval.relay-eval table "
    "tr.relay-new:hover"
    "{background:var(--relay-mark-at,rgba(255,193,7,.38))}"
    ".relay-eval.relay-eval.relay-eval table tr.relay-top td{font-weight:700}"
    ".relay-eval.relay-eval.relay-eval table td.relay-dim{color:var(--jp-ui-font-color2,#57606a)}"
    "@media print{.relay-where,.relay-state{max-height:none;overflow:visible}}"
    "@media (max-width:640px){.relay-panes{grid-template-columns:minmax(0,1fr)}"
    ".relay-where{border-right:0}}</style>";

static const char page_script[] =
    "<script>(function(){var v=document.getElementById('%s');if(!v)return;"
    "var s=[].slice.call(v.querySelectorAll('.relay-steps>input'));"
    "function on(i){if(!s[i])return;s[i].checked=true;see();}"
    "function now(){for(var i=0;i<s.length;i++)if(s[i].checked)return i;return 0;}"
    "function see(){var k=/k\\d+/.exec(s[now()].className);"
    "var m=k&&v.querySelector('.relay-where mark.'+k[0]),w=v.querySelector('.relay-where');"
    "if(m){var a=m.getBoundingClientRect(),b=w.getBoundingClientRect();"
    "if(a.top<b.top||a.bottom>b.bottom)w.scrollTop+=a.top-b.top-b.height/3;}}"
    "v.addEventListener('change',see);"
    "v.addEventListener('click',function(e){var m=e.target.closest&&e.target.closest('mark');"
    "if(!m)return;var n=now(),best=-1;m.classList.forEach(function(c){"
    "if(!/^k\\d+$/.test(c))return;for(var d=1;d<=s.length;d++){"
    "var i=(n+d)%%s.length;if(s[i].classList.contains(c)){"
    "if(best<0||d<best)best=d;break;}}});"
    "if(best>0){on((n+best)%%s.length);s[now()].focus({preventScroll:true});}});"
    "see();})();</script>";

static uint32_t depth_of(const Page *p, size_t i)
{
    return record_depth(recorder_step(p->rec, p->rec->first + i));
}

/* Where each step is over and where its call is. From the last to the first: what lies between a step and the end of what is behind it is
 * deeper, and is jumped over. */
static void find_ends(Page *p)
{
    for (size_t i = p->n; i-- > 0;) {
        Shown *s = &p->shown[i];
        uint32_t depth = depth_of(p, i);
        s->not_deeper = s->less_deep = i + 1;
        while (s->not_deeper < p->n && depth_of(p, s->not_deeper) > depth)
            s->not_deeper = p->shown[s->not_deeper].not_deeper;
        while (s->less_deep < p->n && depth_of(p, s->less_deep) >= depth)
            s->less_deep = p->shown[s->less_deep].less_deep;
    }
}

/* Counted from 1; 0: there is none. */
static size_t counted(const Page *p, size_t k)
{
    return k < p->n ? k + 1 : 0;
}

/* A call stands in the frame that it made; over it means over its body. */
static size_t over(const Page *p, size_t i)
{
    const RecordStep *step = recorder_step(p->rec, p->rec->first + i);
    const Shown *s = &p->shown[i];
    return counted(p, step->kind == EVENT_CALL ? s->less_deep : s->not_deeper);
}

static size_t out_of(const Page *p, size_t i)
{
    return depth_of(p, i) ? counted(p, p->shown[i].less_deep) : 0;
}

/* So much of the statement is seen on each side. */
#define EXPRESSION_BYTES 160

/* One line of it: what stands in place of the step's own expression is marked. Without colours of tokens, which are most of a page. */
static void print_statement(Buf *out, const RecordExpression *e, Str own, const char *kind)
{
    const char *text = buf_text(&e->text), *behind = text + e->to;
    size_t from = e->from > EXPRESSION_BYTES ? e->from - EXPRESSION_BYTES : 0;
    size_t n = e->text.n - e->to, shown = n < EXPRESSION_BYTES ? n : EXPRESSION_BYTES;
    from = utf8_offset(text, e->text.n, utf8_count(text, from));
    shown = utf8_offset(behind, n, utf8_count(behind, shown));
    buf_str(out, from ? "… " : "");
    buf_html(out, text + from, e->from - from);
    buf_printf(out, "<mark class=\"%s\">", kind);
    buf_html(out, own.ptr, own.len);
    buf_str(out, "</mark>");
    buf_html(out, behind, shown);
    buf_str(out, shown < n ? " …" : "");
}

/* The statement as it was before the step, and as it is. */
static void print_expression(Page *p, Buf *out, uint64_t k)
{
    RecordExpression *e = &p->st->expression;
    record_expression(p->rec, k, e);
    Str own = {buf_text(&e->text) + e->from, e->to - e->from};
    buf_str(out, "<pre class=\"relay-program relay-now\">  ");
    print_statement(out, e, own, "relay-mark-at");
    buf_char(out, '\n');
    if (e->value.n) {
        buf_str(out, "→ ");
        print_statement(out, e, (Str){buf_text(&e->value), e->value.n}, "relay-mark-other");
    }
    buf_str(out, "\n</pre>");
}

static void print_step(Page *p, HtmlSteps *steps, size_t i)
{
    const RecordStep *step = recorder_step(p->rec, p->rec->first + i);
    const Shown *s = &p->shown[i];
    Buf classes = {0}, title = {0}, text = {0};
    buf_printf(&classes, "k%u w%u v%u c%u r%u", s->mark, s->region, s->parts[0], s->parts[1],
               s->parts[2]);
    if (step->now)
        record_call(p->rec, &title, step->now);
    if (s->pattern)
        buf_printf(&classes, " p%u", s->pattern);
    steps->classes = buf_text(&classes);
    html_step_begin(steps, buf_text(&title),
                    step->kind == EVENT_FAIL ? HTML_STEP_WRONG : HTML_STEP_PLAIN);
    Buf *out = steps->out;
    out->n -= strlen("</nav>");
    html_step_link(steps, over(p, i), "over");
    html_step_link(steps, out_of(p, i), "out");
    buf_str(out, "</nav><div class=\"relay-rule\">");
    record_rule(p->rec, &text, step);
    html_words(out, buf_text(&text));
    buf_clear(&text);
    if (step->value.kind == VALUE_TENSOR)
        record_value(p->rec, &text, step->value);
    if (text.n) {
        buf_str(out, "<div>");
        html_buf(out, &text);
        buf_str(out, "</div>");
    }
    buf_str(out, "</div>");
    print_expression(p, out, p->rec->first + i);
    html_step_end(steps);
    buf_deinit(&classes);
    buf_deinit(&title);
    buf_deinit(&text);
}

#define LINES_SEEN 24
#define LINES_KEPT 400
#define LINES_AROUND 10

/* Whether all functions that the steps go through are seen at once, or only the one of the step. */
static bool all_seen(const Page *p)
{
    SourceMap *map = &p->st->s->cx.sources;
    uint32_t lines = 0;
    for (size_t i = 0; i < p->regions.n; i++) {
        Span at = p->regions.at[i].lines;
        lines += span_end(map, at).line - span_start(map, at).line + 3;
    }
    return lines <= LINES_SEEN;
}

static void print_rules(const Page *p, Buf *out, const char *id)
{
    static const char letters[] = "vcr";
    buf_str(out, "<style>");
    /* The page stays where it is while one steps. */
    uint32_t rows = p->rows[PLACE_VARIABLES] + p->rows[PLACE_CALLS] + p->rows[PLACE_CELLS];
    buf_printf(out, "#%s .relay-state{min-height:%uem}", id, rows < 14 ? 2 * rows + 6 : 32);
    if (all_seen(p))
        buf_printf(out, "#%s .relay-where>div{display:block;opacity:.5}", id);
    for (size_t i = 0; i < p->marks.n; i++)
        buf_printf(
            out,
            "#%s:has(.k%zu:checked) mark.k%zu{background:var(--relay-mark-at,rgba(255,193,7,.45))}"
            "#%s:has(.k%zu:checked) mark.k%zu span{color:inherit}",
            id, i, i, id, i, i);
    PtrMap told = {0};
    for (size_t i = 0; i < p->n; i++) {
        const void *pattern = (const void *)(uintptr_t)p->shown[i].pattern;
        if (pattern && !ptrmap_has(&told, pattern))
            buf_printf(out,
                       "#%s:has(.p%u:checked) "
                       "mark.k%u{background:var(--relay-mark-other,rgba(33,150,243,.35))}",
                       id, p->shown[i].pattern, p->shown[i].pattern);
        if (pattern)
            ptrmap_put(&told, pattern, NULL);
    }
    ptrmap_deinit(&told);
    for (size_t i = 0; i < p->regions.n; i++)
        buf_printf(out, "#%s:has(.w%zu:checked) .x%zu{display:block;opacity:1}", id, i, i);
    for (int place = 0; place < PLACES; place++)
        for (size_t i = 0; i < p->parts[place].n; i++)
            buf_printf(out, "#%s:has(.%c%zu:checked) .%c%zut{display:table}", id, letters[place], i,
                       letters[place], i);
    buf_str(out, "</style>");
}

/* Of a function that is longer than anybody looks at, the lines around what the steps evaluate. */
static void keep_lines(const Page *p, const Region *r, HtmlLines *lines)
{
    SourceMap *map = &p->st->s->cx.sources;
    Span all = {r->lines.source, r->lines.to, r->lines.from};
    for (size_t i = 0; i < r->marks.n; i++) {
        const HtmlMark *m = &r->marks.at[i];
        bool whole = m->from <= r->lines.from && m->to + 1 >= r->lines.to;
        if (!whole && m->from < all.from)
            all.from = (uint32_t)m->from;
        if (!whole && m->from > all.to)
            all.to = (uint32_t)m->from;
    }
    if (lines->to - lines->from < LINES_KEPT || all.from > all.to)
        return;
    uint32_t first = span_start(map, all).line - lines->before;
    uint32_t last = span_end(map, all).line - lines->before + LINES_AROUND;
    if (first > lines->from + LINES_AROUND)
        lines->from = first - LINES_AROUND;
    if (last < lines->to)
        lines->to = last;
}

static void print_region(const Page *p, Buf *out, size_t i)
{
    const Region *r = &p->regions.at[i];
    const Source *source = sources_get(&p->st->s->cx.sources, r->lines.source);
    SourceMap *map = &p->st->s->cx.sources;
    if (!source)
        return;
    HtmlLines lines = {.before = source->lines_before};
    lines.from = span_start(map, r->lines).line - lines.before;
    lines.to = span_end(map, r->lines).line - lines.before;
    keep_lines(p, r, &lines);
    buf_printf(out, "<div class=\"x%zu\"><h4>", i);
    buf_html(out, source->name, strlen(source->name));
    buf_str(out, "</h4>");
    html_source(out, source->text, source->len, lines, r->marks.n, r->marks.at);
    buf_str(out, "</div>");
}

static void print_panes(const Page *p, Buf *out)
{
    static const char *const titles[] = {"variables", "calls", "references"};
    static const char letters[] = "vcr";
    buf_str(out, "<div class=\"relay-panes\"><div class=\"relay-where\">");
    for (size_t i = 0; i < p->regions.n; i++)
        print_region(p, out, i);
    buf_str(out, "</div><div class=\"relay-state\">");
    for (int place = 0; place < PLACES; place++) {
        if (place == PLACE_CELLS && p->rec->n_cells == 0)
            continue;
        buf_printf(out, "<h4>%s</h4><div>", titles[place]);
        for (size_t i = 0; i < p->parts[place].n; i++) {
            buf_printf(out, "<table class=\"%c%zut\">", letters[place], i);
            buf_bytes(out, p->parts[place].at[i].html, p->parts[place].at[i].n);
            buf_str(out, "</table>");
        }
        buf_str(out, "</div>");
    }
    buf_str(out, "</div></div>");
}

static void page_free(Page *p)
{
    for (int place = 0; place < PLACES; place++) {
        for (size_t i = 0; i < p->parts[place].n; i++)
            free(p->parts[place].at[i].html);
        free(p->parts[place].at);
        ptrmap_deinit(&p->parts[place].numbers);
    }
    for (size_t i = 0; i < p->regions.n; i++)
        ptrmap_deinit(&p->regions.at[i].numbers);
    free(p->shown);
    arena_deinit(&p->arena);
}

static void print_end(const Page *p, Buf *out)
{
    const Recorder *r = p->rec;
    if (r->done && r->first == 0)
        return;
    buf_printf(out, "<p style=\"margin:6px 14px\" class=\"relay-dim\">Steps %llu to %llu",
               (unsigned long long)r->first, (unsigned long long)r->n - 1);
    if (!r->done && p->st->most)
        buf_printf(out, "; <code>:step from=%llu E</code> shows what comes then",
                   (unsigned long long)r->n);
    buf_str(out, ".</p>");
}

void steps_html(RelaySteps *st, Buf *out, uint64_t start)
{
    Page p = {.st = st, .rec = &st->rec, .n = (size_t)(st->rec.n - st->rec.first)};
    arena_init(&p.arena, &st->s->cx.limits);
    p.variables = VARIABLES_PAGE / (p.n + 1);
    p.variables = p.variables < VARIABLES_LEAST   ? VARIABLES_LEAST
                  : p.variables > VARIABLES_SHOWN ? VARIABLES_SHOWN
                                                  : p.variables;
    p.shown = memory_zeroed(p.n + 1, sizeof *p.shown);
    if (p.shown) {
        collect(&p);
        find_ends(&p);
    }
    Buf body = {0};
    HtmlSteps steps;
    html_steps_begin(&steps, &body, p.n);
    steps.start = (size_t)(start - st->rec.first) + 1;
    for (size_t i = 0; p.shown && i < p.n; i++)
        print_step(&p, &steps, i);
    html_steps_end(&steps);
    char id[32];
    snprintf(id, sizeof id, "re%016llx", (unsigned long long)steps.id);
    buf_printf(out, "<div class=\"relay-eval\" id=\"%s\">", id);
    buf_str(out, page_style);
    print_rules(&p, out, id);
    buf_bytes(out, buf_text(&body), body.n);
    print_panes(&p, out);
    print_end(&p, out);
    buf_str(out, "</div>");
    buf_printf(out, page_script, id);
    buf_deinit(&body);
    page_free(&p);
}
