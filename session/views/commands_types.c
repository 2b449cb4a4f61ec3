/* Commands about types: how inference got to one, step by step; where each part of one came from. */
#include "base/render.h"
#include "ir/walk.h"
#include "session/commands.h"
#include "typecheck/story.h"
#include "typecheck/typecheck.h"
#include "typecheck/why.h"

#include <stdarg.h>
#include <string.h>

/* ---- programs to infer again ------------------------------------------------------------------------------------------------------ */

typedef struct Slots {
    Arena *arena;
    Vec(Expr *const *) at;
} Slots;

static void note_slot(void *data, Expr *const *slot)
{
    Slots *slots = data;
    vec_push(&slots->at, slots->arena, slot);
}

static WalkNext note_slots(void *data, const Expr *e)
{
    ir_children(e, note_slot, data);
    return WALK_ON;
}

/* A copy without types whose uses have the places that the original's have. */
static Expr *copy_untyped(RelaySession *s, Module *m, const Module *home, const Expr *old)
{
    Expr *copy = ir_copy(&s->cx, m, old);
    if (!copy || !home)
        return copy;
    Slots from = {.arena = &m->arena}, to = {.arena = &m->arena};
    ir_walk(old, note_slots, NULL, &from);
    ir_walk(copy, note_slots, NULL, &to);
    for (size_t i = 0; i < from.at.n && i < to.at.n; i++)
        module_note_use(m, to.at.at[i], ir_use_span(home, from.at.at[i]));
    return copy;
}

static const Local *local_named(RelaySession *s, Str word)
{
    if (word.len < 2 || word.ptr[0] != '%')
        return NULL;
    const Name *name = ctx_name_str(&s->cx, (Str){word.ptr + 1, word.len - 1});
    const Var *v = ptrmap_find(&s->local_names, name);
    v = v ? v : ptrmap_find(&s->graph_names, name);
    for (size_t i = 0; i < s->n_locals && v; i++)
        if (s->locals[i].var == v)
            return &s->locals[i];
    return NULL;
}

/* The newest item of a cell, whether it was right or wrong. */
static Module *untyped_last(RelaySession *s)
{
    const Module *last = s->last;
    Module *m = module_new(&s->cx);
    if (!m)
        return NULL;
    module_use(m, s->last);
    module_adopt_imports(m, last);
    for (size_t i = 0; i < last->types.n; i++)
        module_define_type(m, last->types.at[i]);
    if (last->expr)
        m->expr = copy_untyped(s, m, last, last->expr);
    for (size_t i = 0; i < last->defs.n; i++) {
        const Def *d = &last->defs.at[i];
        Expr *copy = d->fn && !d->imported ? copy_untyped(s, m, last, &d->fn->base) : NULL;
        if (copy)
            module_define(m, d->name, expr_as_function(copy), d->span, m);
    }
    return m;
}

/* What the command is about, not yet inferred: a definition, the binding of a session's variable, or an expression. The caller's; NULL
 * after diagnostics. */
static Module *untyped_target(CommandCall *c)
{
    RelaySession *s = c->s;
    const Def *def = command_global(c);
    const Local *local = local_named(s, c->text);
    if (c->text.len == 0 && s->last)
        return untyped_last(s);
    if (!def && !(local && local->module->expr)) {
        ParseEnv env = session_parse_env(s);
        return command_need(c, "an expression") ? parse_range(&s->cx, c->args, &env) : NULL;
    }
    Module *m = module_new(&s->cx);
    if (!m)
        return NULL;
    if (local) {
        m->expr = copy_untyped(s, m, local->module, local->module->expr);
        module_use(m, local->module);
        return m;
    }
    Function *fn = expr_as_function(copy_untyped(s, m, def->home, &def->fn->base));
    module_use(m, def->home);
    if (fn)
        module_define(m, def->name, fn, def->span, m);
    return m;
}

/* ---- a step as text ----------------------------------------------------------------------------------------------------------------- */

typedef struct StoryView {
    RelaySession *s;
    const Story *story;
    Buf text, html, json;
} StoryView;

/* The event's places as a diagnostic's, for the one picture of source lines that there is. */
static void step_places(Buf *out, RelaySession *s, const StoryEvent *e, bool html)
{
    DiagLabel labels[2];
    Diag d = {.severity = e->result == STORY_FAILED ? SEVERITY_ERROR : SEVERITY_NOTE,
              .span = e->at,
              .message = ""};
    uint32_t n = 0;
    for (uint32_t i = 0; i < e->n_places; i++)
        if (!span_is_none(e->places[i].span))
            labels[n++] = (DiagLabel){.span = e->places[i].span, .text = e->places[i].text};
    for (uint32_t i = 0; i < n; i++)
        labels[i].next = i + 1 < n ? &labels[i + 1] : NULL;
    d.labels = n ? labels : NULL;
    render_places(out, &s->cx.sources, &d,
                  (RenderStyle){.color = s->options.color,
                                .html = html,
                                .width = html ? 0 : s->options.width});
}

/* What came of it: the holes that were filled, one a line; or why there are none. */
static void step_decision(Buf *out, const StoryEvent *e, const char *indent)
{
    static const char *const nothing[] = {
        [STORY_UNKNOWN] = "",
        [STORY_UNIFY] = "they agree",
        [STORY_RELATION] = "nothing new",
        [STORY_INSTANCE] = "",
        [STORY_END] = "",
    };
    if (e->result == STORY_FAILED) {
        buf_printf(out, "%sthis fails\n", indent);
        return;
    }
    if (!e->after[0]) {
        if (nothing[e->kind][0] && e->result == STORY_DECIDED)
            buf_printf(out, "%s%s\n", indent, nothing[e->kind]);
        return;
    }
    for (const char *p = e->after; *p;) {
        size_t n = strcspn(p, "\n");
        buf_printf(out, "%s%s %.*s\n", indent, p == e->after ? "so" : "  ", (int)n, p);
        p += n + (p[n] == '\n');
    }
}

static void step_text(StoryView *v, size_t i)
{
    const StoryEvent *e = &v->story->events.at[i];
    buf_printf(&v->text, "%zu. %s\n", i + 1, e->rule);
    step_places(&v->text, v->s, e, false);
    buf_printf(&v->text, "    %s\n", e->before);
    step_decision(&v->text, e, "    ");
}

/* ---- a step as JSON ----------------------------------------------------------------------------------------------------------------- */

static void put_span(Buf *out, RelaySession *s, Span span)
{
    const Source *source = sources_get(&s->cx.sources, span.source);
    if (!source || span_is_none(span)) {
        buf_str(out, "null");
        return;
    }
    Position from = span_start(&s->cx.sources, span), to = span_end(&s->cx.sources, span);
    buf_char(out, '{');
    buf_json_field(out, "file", source->name, strlen(source->name));
    buf_printf(out, ", \"line\": %u, \"column\": %u, \"end_line\": %u, \"end_column\": %u}",
               (unsigned)from.line, (unsigned)from.column, (unsigned)to.line, (unsigned)to.column);
}

static void step_json(StoryView *v, size_t i)
{
    static const char *const results[] = {
        [STORY_DECIDED] = "decided", [STORY_WAITS] = "waits", [STORY_FAILED] = "failed"};
    const StoryEvent *e = &v->story->events.at[i];
    Buf *out = &v->json, decision = {0};
    buf_str(out, i ? ",\n{" : "\n{");
    buf_json_field(out, "rule", e->rule, strlen(e->rule));
    buf_str(out, ", \"at\": ");
    put_span(out, v->s, e->at);
    buf_str(out, ", \"places\": [");
    for (uint32_t k = 0; k < e->n_places; k++) {
        const char *says = e->places[k].text ? e->places[k].text : "";
        buf_str(out, k ? ", {" : "{");
        buf_json_field(out, "says", says, strlen(says));
        buf_str(out, ", \"at\": ");
        put_span(out, v->s, e->places[k].span);
        buf_char(out, '}');
    }
    buf_str(out, "], ");
    buf_json_field(out, "before", e->before, strlen(e->before));
    buf_str(out, ", ");
    step_decision(&decision, e, "");
    buf_json_field(out, "decision", buf_text(&decision), decision.n);
    buf_printf(out, ", \"result\": \"%s\"}", results[e->result]);
    buf_deinit(&decision);
}

/* ---- a step as HTML ----------------------------------------------------------------------------------------------------------------- */

#define STEPS_MOST 400 /* in HTML, which holds the source once for each */
#define LINES_MOST 24
#define BYTES_MOST 8000

/* All lines of a short text, else those around the place. */
static HtmlLines lines_around(RelaySession *s, const Source *source, Span at)
{
    HtmlLines lines = {.before = source->lines_before};
    Span all = {at.source, 0, (uint32_t)source->len};
    uint32_t n = span_end(&s->cx.sources, all).line - lines.before;
    uint32_t line = span_start(&s->cx.sources, at).line - lines.before;
    if (n <= LINES_MOST)
        return lines;
    lines.from = line > LINES_MOST / 2 ? line - LINES_MOST / 2 : 1;
    lines.to = lines.from + LINES_MOST - 1;
    return lines;
}

static size_t bytes_of(RelaySession *s, uint32_t source, HtmlLines lines)
{
    size_t all = 0, n;
    const char *text;
    for (uint32_t i = lines.from; lines.from > 0 && i <= lines.to; i++) {
        source_line(&s->cx.sources, source, i + lines.before, &text, &n);
        all += n;
    }
    return lines.from > 0 ? all : sources_get(&s->cx.sources, source)->len;
}

/* The lines with what was looked at in colour; of lines that are very long the parts that matter. */
static void step_source(Buf *out, RelaySession *s, const StoryEvent *e)
{
    const Source *source = sources_get(&s->cx.sources, e->at.source);
    if (!source)
        return;
    HtmlLines lines = lines_around(s, source, e->at);
    if (bytes_of(s, e->at.source, lines) > BYTES_MOST) {
        step_places(out, s, e, true);
        return;
    }
    HtmlMark marks[3] = {{.from = e->at.from,
                          .to = e->at.to,
                          .kind = e->result == STORY_FAILED ? HTML_MARK_WRONG : HTML_MARK_AT}};
    size_t n = 1;
    for (uint32_t i = 0; i < e->n_places; i++) {
        Span p = e->places[i].span;
        bool same = p.from == e->at.from && p.to == e->at.to;
        if (p.source == e->at.source && !same && p.from < p.to)
            marks[n++] = (HtmlMark){.from = p.from, .to = p.to, .kind = HTML_MARK_OTHER};
    }
    html_source(out, source->text, source->len, lines, n, marks);
}

static void html_pre(Buf *out, const Buf *text)
{
    buf_str(out, "<pre>");
    buf_html(out, buf_text(text), text->n);
    buf_str(out, "</pre>");
}

static void step_html(StoryView *v, HtmlSteps *steps, size_t i)
{
    const StoryEvent *e = &v->story->events.at[i];
    html_step_begin(steps, e->rule, e->result == STORY_FAILED ? HTML_STEP_WRONG : HTML_STEP_PLAIN);
    step_source(&v->html, v->s, e);
    Buf text = {0};
    buf_printf(&text, "%s\n", e->before);
    step_decision(&text, e, "");
    html_pre(&v->html, &text);
    buf_deinit(&text);
    if (e->diag)
        render_html(&v->html, &v->s->cx.sources, e->diag);
    html_step_end(steps);
}

/* ---- the whole story ---------------------------------------------------------------------------------------------------------------- */

/* The first ones; the first failure is always among those that are shown. */
static void story_html(StoryView *v, const char *end)
{
    const StoryEvent *events = v->story->events.at;
    size_t n = v->story->events.n, wrong = 0;
    while (wrong < n && events[wrong].result != STORY_FAILED)
        wrong++;
    size_t shown = n < STEPS_MOST ? n : STEPS_MOST;
    bool jump = wrong < n && wrong >= shown;
    HtmlSteps steps;
    html_steps_begin(&steps, &v->html, shown + jump);
    /* What went wrong is what one wants to see. */
    steps.start = jump ? shown + 1 : wrong < n ? wrong + 1 : 1;
    for (size_t i = 0; i < shown && !limit_hit(&v->s->cx.limits); i++)
        step_html(v, &steps, i);
    if (jump)
        step_html(v, &steps, wrong);
    Buf text = {0};
    if (shown < n)
        buf_printf(&text, "%zu of %zu steps are shown here\n", shown + jump, n);
    buf_str(&text, end);
    html_pre(&v->html, &text);
    buf_deinit(&text);
    html_steps_end(&steps);
}

static bool story_has(const Story *story, const Diag *d)
{
    for (size_t i = 0; i < story->events.n; i++)
        if (story->events.at[i].diag == d)
            return true;
    return false;
}

/* What was reported is a part of the view, once: at its step, or behind the last one. */
static void story_errors(StoryView *v, DiagsMark before)
{
    Diags *ds = v->s->cx.diags;
    const char *between = "";
    for (const Diag *d = before.last ? before.last->next : ds->first; d; d = d->next) {
        buf_char(&v->text, '\n');
        render_text(&v->text, &v->s->cx.sources, d,
                    (RenderStyle){.color = v->s->options.color, .width = v->s->options.width});
        if (!story_has(v->story, d))
            render_html(&v->html, &v->s->cx.sources, d);
        buf_str(&v->json, between);
        render_json(&v->json, &v->s->cx.sources, d);
        between = ",\n";
    }
    while (v->text.n && v->text.at[v->text.n - 1] == '\n')
        buf_cut(&v->text, v->text.n - 1);
}

/* `before`: what was reported behind it is shown here, and nowhere else; NULL: the caller reports. */
static void story_show(RelaySession *s, const Story *story, const char *end,
                       const DiagsMark *before)
{
    StoryView v = {.s = s, .story = story};
    buf_str(&v.json, "{\"steps\": [");
    for (size_t i = 0; i < story->events.n && !limit_hit(&s->cx.limits); i++) {
        step_text(&v, i);
        step_json(&v, i);
    }
    buf_str(&v.text, end);
    buf_str(&v.json, "], ");
    buf_json_field(&v.json, "end", end, strlen(end));
    buf_str(&v.json, ", \"errors\": [");
    story_html(&v, end);
    if (before)
        story_errors(&v, *before);
    buf_str(&v.json, "]}\n");
    emit_bundle(s, &v.text, &v.html, &v.json);
    buf_deinit(&v.text);
    buf_deinit(&v.html);
    buf_deinit(&v.json);
}

/* The last line: what all steps came to. */
static void story_end_text(Buf *out, const Module *m, bool ok)
{
    if (!ok) {
        buf_str(out, "there is no type: the error says why");
        return;
    }
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (d->imported || !d->fn || !d->fn->base.type)
            continue;
        buf_printf(out, "%s@%s: ", out->n ? "\n" : "", d->name->text);
        type_print(out, d->fn->base.type);
    }
    if (m->expr) {
        buf_str(out, out->n ? "\n" : "the type is ");
        type_print(out, m->expr->type);
    }
}

static bool explain(RelaySession *s, Module *m, const Module *env, const DiagsMark *before)
{
    Story story;
    story_init(&story, &s->cx);
    bool ok = typecheck_module_as(&s->cx, m, env, (CheckWish){.story = &story});
    Buf end = {0};
    story_end_text(&end, m, ok);
    story_show(s, &story, buf_text(&end), before);
    buf_deinit(&end);
    story_deinit(&story);
    return ok;
}

bool explain_module(RelaySession *s, Module *m, const Module *env)
{
    return explain(s, m, env, NULL);
}

void explain_types(CommandCall *c)
{
    Module *m = untyped_target(c);
    DiagsMark before = diags_mark(c->s->cx.diags);
    if (m)
        explain(c->s, m, c->s->env, &before);
    if (m && c->s->cx.limits.hit == LIMIT_NONE)
        diags_back(c->s->cx.diags, before);
    module_release(m);
}

/* ---- :why ------------------------------------------------------------------------------------------------------------------------------ */

#define SOURCES_MOST 4
#define TENSORS_MOST 16 /* inside one type */
#define VISITED_MOST 1000

typedef struct WhyView {
    RelaySession *s;
    Why why;
    const Expr *e;
    Buf text, html, json;
    const char *of; /* the part of the type that lines are about, in words */
    Vec(DiagLabel) labels;
    uint32_t tensors, visited;
} WhyView;

/* The place in the picture; sources of several parts share a label. */
static void why_label(WhyView *v, Span span, const char *what)
{
    Arena *a = &v->why.arena;
    for (size_t i = 0; i < v->labels.n; i++) {
        DiagLabel *l = &v->labels.at[i];
        if (l->span.source != span.source || l->span.from != span.from || l->span.to != span.to)
            continue;
        if (strstr(l->text, what))
            return;
        Buf b = {0};
        buf_printf(&b, "%s, %s", l->text, what);
        l->text = buf_keep(&b, a);
        return;
    }
    vec_push(&v->labels, a, ((DiagLabel){.span = span, .text = what}));
}

static const char *callee_name(const Expr *e)
{
    const Call *call = expr_as_call(e);
    const Op *op = expr_call_of_op(e);
    const GlobalVar *g = expr_as_global(call->callee);
    const Var *v = expr_as_var(call->callee);
    return op ? op->name : g ? g->name->text : v ? v->name->text : NULL;
}

/* The calls that the part came through unchanged, without the one that decided it. */
static void why_through(WhyView *v, const WhySource *s)
{
    uint32_t shown = 0;
    buf_str(&v->json, ", \"through\": [");
    for (uint32_t i = 0; i < s->n_through && shown < 5; i++) {
        const Expr *call = s->through[i];
        bool decided = s->span.source == call->span.source && s->span.from >= call->span.from &&
                       s->span.to <= call->span.to && i + 1 == s->n_through;
        if (!callee_name(call) || decided)
            continue;
        if (shown == 4) {
            buf_str(&v->text, " …");
        } else {
            buf_printf(&v->text, "%s`%s`", shown ? ", " : ", through ", callee_name(call));
            buf_printf(&v->json, "%s\"%s\"", shown ? ", " : "", callee_name(call));
        }
        shown++;
    }
    buf_str(&v->json, "]}");
}

/* Two literals of one line are told of once: the last of the n parts of a line, which begin at `starts`, is cut off where one before it is
 * the same. */
static bool why_repeats(WhyView *v, const size_t *starts, size_t n)
{
    static const char between[] = ", and ";
    const char *text = buf_text(&v->text), *last = text + starts[n - 1];
    size_t len = v->text.n - starts[n - 1];
    for (size_t i = 0; i + 1 < n; i++)
        if (starts[i + 1] - starts[i] == len + strlen(between) &&
            memcmp(text + starts[i], last, len) == 0) {
            buf_cut(&v->text, starts[n - 1] - strlen(between));
            return true;
        }
    return false;
}

static void why_line(WhyView *v, Part part, const char *what)
{
    size_t starts[SOURCES_MOST], kept = 0;
    WhySource sources[SOURCES_MOST];
    size_t n = why_part(&v->why, v->e, part, sources, SOURCES_MOST);
    buf_printf(&v->text, "  %s: ", what);
    buf_str(&v->json, v->json.at[v->json.n - 1] == '[' ? "\n{" : ",\n{");
    buf_json_field(&v->json, "of", v->of, strlen(v->of));
    buf_str(&v->json, ", ");
    buf_json_field(&v->json, "part", what, strlen(what));
    buf_str(&v->json, ", \"sources\": [");
    for (size_t i = 0; i < n; i++) {
        buf_str(&v->json, i ? ", {" : "{");
        buf_json_field(&v->json, "says", sources[i].text, strlen(sources[i].text));
        buf_str(&v->json, ", \"at\": ");
        put_span(&v->json, v->s, sources[i].span);
        buf_str(&v->text, i ? ", and " : "");
        starts[kept++] = v->text.n;
        buf_str(&v->text, sources[i].text);
        why_print_place(&v->text, &v->s->cx, sources[i].span, v->e->span);
        why_through(v, &sources[i]);
        kept -= why_repeats(v, starts, kept);
        why_label(v, sources[i].span, what);
    }
    buf_str(&v->text, n ? "\n" : "nothing in the text says so\n");
    buf_str(&v->json, "]}");
}

__attribute__((format(printf, 2, 3))) static const char *why_words(WhyView *v, const char *format,
                                                                   ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&v->why.arena, format, args);
    va_end(args);
    return text;
}

static void why_tensor(WhyView *v, const Type *t, Part part, const char *name)
{
    if (++v->tensors > TENSORS_MOST)
        return;
    if (name[0])
        buf_printf(&v->text, " %s\n", name);
    v->of = name;
    part.kind = PART_DIM;
    for (part.dim = 0; part.dim < t->n; part.dim++) {
        const char *what =
            t->dims[part.dim] >= 0
                ? why_words(v, "axis %u is %lld", part.dim, (long long)t->dims[part.dim])
                : why_words(v, "axis %u is known at run time", part.dim);
        why_line(v, part, what);
    }
    if (t->n == 0) {
        part.kind = PART_RANK;
        why_line(v, part, "no axes");
    }
    part.kind = PART_DTYPE;
    Buf b = {0};
    dtype_print(&b, t->dtype);
    why_line(v, part, why_words(v, "%s", buf_text(&b)));
    buf_deinit(&b);
}

static const char *part_name(WhyView *v, const Type *t, uint32_t i, const char *name)
{
    const char *space = name[0] ? " of " : "";
    if (t->kind == TYPE_TUPLE)
        return why_words(v, "field %u%s%s", i, space, name);
    if (t->kind == TYPE_REF)
        return why_words(v, "the content%s%s", space, name);
    if (t->kind == TYPE_ADT)
        return why_words(v, "`%s`%s%s", t->def->params[i]->name->text, space, name);
    return i < t->n ? why_words(v, "argument %u%s%s", i + 1, space, name)
                    : why_words(v, "the result%s%s", space, name);
}

static void why_type(WhyView *v, const Type *t, Part part, const char *name)
{
    t = type_find(t);
    if (++v->visited > VISITED_MOST)
        return;
    if (t->kind == TYPE_TENSOR) {
        why_tensor(v, t, part, name);
        return;
    }
    bool parts =
        t->kind == TYPE_TUPLE || t->kind == TYPE_REF || t->kind == TYPE_ADT || t->kind == TYPE_FUNC;
    uint32_t n = parts ? t->n + (t->kind == TYPE_FUNC) : 0;
    for (uint32_t i = 0; i < n && part.n < PART_PATH && v->tensors < TENSORS_MOST; i++) {
        Part inner = part;
        inner.path[inner.n++] = i;
        why_type(v, i < t->n ? t->parts[i] : t->result, inner, part_name(v, t, i, name));
    }
}

static void why_picture(WhyView *v)
{
    for (size_t i = 0; i + 1 < v->labels.n; i++)
        v->labels.at[i].next = &v->labels.at[i + 1];
    Diag d = {
        .severity = SEVERITY_NOTE, .span = v->e->span, .labels = v->labels.n ? v->labels.at : NULL};
    buf_str(&v->html, "<pre style=\"margin:0 0 6px;white-space:pre-wrap;background:none;"
                      "line-height:1.35;font-family:var(--jp-code-font-family,monospace);"
                      "font-size:var(--jp-code-font-size,inherit)\">");
    buf_html(&v->html, buf_text(&v->text), v->text.n);
    buf_str(&v->html, "</pre>");
    render_places(&v->html, &v->s->cx.sources, &d, (RenderStyle){.html = true});
    render_places(&v->text, &v->s->cx.sources, &d,
                  (RenderStyle){.color = v->s->options.color, .width = v->s->options.width});
    if (v->text.n && v->text.at[v->text.n - 1] == '\n')
        v->text.at[--v->text.n] = 0;
}

/* The expression that the command is about; what it stands in goes to `keep`, the caller's. NULL after diagnostics. */
static const Expr *why_target(CommandCall *c, Module **keep)
{
    const Def *def = command_global(c);
    const Local *local = local_named(c->s, c->text);
    if (def)
        return &def->fn->base;
    if (local)
        return &local->var->base;
    *keep = command_expr(c);
    return *keep ? (*keep)->expr : NULL;
}

void command_why(CommandCall *c)
{
    RelaySession *s = c->s;
    Module *keep = NULL;
    WhyView v = {.s = s, .e = why_target(c, &keep)};
    if (!v.e || !v.e->type) {
        module_release(keep);
        return;
    }
    why_init(&v.why, &s->cx, NULL, s->env);
    for (size_t i = 0; i < s->n_locals; i++)
        why_add(&v.why, s->locals[i].module->expr);
    why_add(&v.why, v.e);
    buf_printf(&v.text, "%.*s: ", (int)c->text.len, c->text.ptr);
    type_print(&v.text, v.e->type);
    buf_char(&v.json, '{');
    buf_json_field(&v.json, "says", buf_text(&v.text), v.text.n);
    buf_str(&v.json, ", \"parts\": [");
    buf_char(&v.text, '\n');
    why_type(&v, v.e->type, (Part){0}, "");
    buf_str(&v.json, "]}\n");
    why_picture(&v);
    emit_bundle(s, &v.text, &v.html, &v.json);
    buf_deinit(&v.text);
    buf_deinit(&v.html);
    buf_deinit(&v.json);
    why_deinit(&v.why);
    module_release(keep);
}
