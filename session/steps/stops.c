/* Breakpoints and watched variables. */
#include "session/steps/stepping.h"
#include "base/memory.h"

#include "ir/expr.h"
#include "typecheck/typecheck.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_TO_STEP ((size_t)100000) /* steps, where one can go back */
#define KEPT_TO_SHOW ((size_t)200)
#define WATCH_LINES_MOST 1000

/* ---- the lists -------------------------------------------------------------------------------------- */

bool stops_any(const RelaySession *s)
{
    const Stops *stops = s->stops;
    return stops && (stops->n_breaks || stops->n_watched || stops->n_texts || stops->events ||
                     stops->by_hand);
}

static void breakpoint_free(Breakpoint *b)
{
    free(b->condition);
}

static void text_breaks_free(TextBreaks *t)
{
    for (size_t i = 0; i < t->n; i++)
        breakpoint_free(&t->at[i]);
    free(t->at);
    free(t->text);
}

void stops_free(RelaySession *s)
{
    Stops *stops = s->stops;
    for (size_t i = 0; stops && i < stops->n_breaks; i++)
        breakpoint_free(&stops->breaks[i]);
    for (size_t i = 0; stops && i < stops->n_texts; i++)
        text_breaks_free(&stops->texts[i]);
    relay_session_forget_parts(s);
    if (stops) {
        free(stops->breaks);
        free(stops->watched);
        free(stops->texts);
    }
    free(stops);
    s->stops = NULL;
}

Stops *stops_get(RelaySession *s)
{
    if (!s->stops)
        s->stops = memory_zeroed(1, sizeof *s->stops);
    if (!s->stops)
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
    return s->stops;
}

void breakpoint_print(Buf *out, const Breakpoint *b)
{
    if (b->name)
        buf_printf(out, "%c%s", b->global ? '@' : '%', b->name->text);
    if (b->line)
        buf_printf(out, b->name ? ":%u" : "on line %u", b->line);
    if (b->condition)
        buf_printf(out, " if %s", b->condition);
}

/* ---- conditions ------------------------------------------------------------------------------------- */

static const Function *function_of(RelaySession *s, const Breakpoint *b)
{
    const Def *def = b->global ? module_find(s->env, b->name) : NULL;
    return def ? def->fn : NULL;
}

/* The condition as a checked expression over the function's parameters; the caller's. NULL after diagnostics. */
static Module *condition_module(RelaySession *s, const Breakpoint *b, Span where)
{
    const Function *fn = function_of(s, b);
    PtrMap params = {0};
    for (uint32_t i = 0; fn && i < fn->params.n; i++)
        ptrmap_put(&params, fn->params.at[i]->name, fn->params.at[i]);
    ParseEnv env = session_parse_env(s);
    env.locals = &params;
    Module *m = parse_range(&s->cx, where, &env);
    bool ok = m && session_check(s, m, s->env, (CheckWish){0});
    if (ok && !type_equal(m->expr->type, s->cx.boolean)) {
        diag_error(s->cx.diags, E0201_MISMATCH, m->expr->span,
                   "the condition of a breakpoint is a `bool`, and this is `%s`",
                   type_str(&s->cx, m->expr->type));
        ok = false;
    }
    ptrmap_deinit(&params);
    if (ok)
        return m;
    module_release(m);
    return NULL;
}

static Span condition_span(RelaySession *s, const Breakpoint *b)
{
    size_t n = strlen(b->condition);
    uint32_t source = sources_add(&s->cx.sources, "condition", b->condition, n);
    return (Span){source, 0, (uint32_t)n};
}

/* Whether it holds for these arguments; where it cannot be told, it does, and the diagnostic says why. */
static bool condition_holds(RelaySteps *st, const Breakpoint *b, const Event *e)
{
    RelaySession *s = st->s;
    const Function *fn = function_of(s, b);
    if (!b->condition || !fn || fn->params.n != e->n)
        return true;
    Module *m = ptrmap_find(&st->conditions, b);
    if (!m) {
        m = condition_module(s, b, condition_span(s, b));
        ptrmap_put(&st->conditions, b, m);
    }
    if (!m)
        return true;
    PtrMap values = {0};
    for (uint32_t i = 0; i < fn->params.n; i++)
        ptrmap_put(&values, fn->params.at[i], (void *)(uintptr_t)&e->args[i]);
    Value v = interp_eval(s->interp, st->env, m, m->expr, &values);
    ptrmap_deinit(&values);
    return value_is_none(v) || v.bits != 0;
}

void stops_forget(RelaySteps *st)
{
    for (size_t i = 0; i < st->conditions.n; i++)
        if (st->conditions.entries[i].key)
            module_release(st->conditions.entries[i].value);
    ptrmap_deinit(&st->conditions);
}

/* ---- matching --------------------------------------------------------------------------------------- */

static bool is_call(const Event *e)
{
    return e->kind == EVENT_CALL || e->kind == EVENT_TAIL_CALL;
}

/* The depth of the frame that the step is one of. */
static uint32_t own_depth(const RecordStep *step)
{
    return record_depth(step) - (step->kind == EVENT_CALL);
}

static uint32_t line_at(RelaySteps *st, Span at)
{
    return span_start(&st->s->cx.sources, at).line;
}

/* Whether the latest step is the first of its frame that begins on the line. What ends there began before. */
static bool begins_on(RelaySteps *st, const Event *e, uint32_t line)
{
    const Recorder *r = &st->rec;
    if (e->kind == EVENT_START || e->kind == EVENT_RETURN || e->kind == EVENT_JOIN ||
        line_at(st, e->span) != line || r->first == r->n)
        return false;
    if (r->n < 2 || r->first > r->n - 2)
        return true;
    const RecordStep *before = recorder_step(r, r->n - 2), *now = recorder_step(r, r->n - 1);
    return before->span.source != e->span.source || is_call(&(Event){.kind = before->kind}) ||
           own_depth(before) != own_depth(now) || line_at(st, before->span) != line;
}

static bool line_met(RelaySteps *st, const Breakpoint *b, const Event *e)
{
    const Function *fn = function_of(st->s, b);
    Span body = fn ? fn->base.span : (Span){0};
    return fn && e->span.source == body.source && e->span.from >= body.from &&
           e->span.to <= body.to && begins_on(st, e, b->line);
}

/* ---- breakpoints of texts --------------------------------------------------------------------------- */

static size_t find_text(const Stops *stops, Str text)
{
    for (size_t i = 0; i < stops->n_texts; i++)
        if (str_eq((Str){stops->texts[i].text, stops->texts[i].len}, text))
            return i;
    return stops->n_texts;
}

static const TextBreaks *breaks_of(RelaySteps *st, uint32_t source)
{
    const Stops *stops = st->s->stops;
    const Source *text = sources_get(&st->s->cx.sources, source);
    if (!text)
        return NULL;
    if (st->changes != stops->changes)
        ptrmap_clear(&st->sources);
    st->changes = stops->changes;
    const void *key = (const void *)(uintptr_t)source;
    uintptr_t known = (uintptr_t)ptrmap_find(&st->sources, key);
    if (!known && !ptrmap_has(&st->sources, key)) {
        size_t at = find_text(stops, (Str){text->text, text->len});
        known = at < stops->n_texts ? at + 1 : 0;
        ptrmap_put(&st->sources, key, (void *)known);
    }
    return known ? &stops->texts[known - 1] : NULL;
}

/* Where a function or an item begins, that it is entered is all that is met; else what begins on the line. */
static bool place_met(RelaySteps *st, const Breakpoint *b, const Event *e, uint32_t source)
{
    bool enters = is_call(e) || e->kind == EVENT_START;
    if (enters && e->body.source == source && line_at(st, e->body) == b->line)
        return true;
    Span around = recorder_step(&st->rec, st->rec.n - 1)->region;
    if (e->span.source != source || (around.source == source && line_at(st, around) == b->line))
        return false;
    return begins_on(st, e, b->line);
}

/* A condition that cannot be told holds. */
static bool condition_met(RelaySteps *st, const Breakpoint *b)
{
    const RecordStep *now = recorder_step(&st->rec, st->rec.n - 1);
    if (!b->condition || !now->now)
        return true;
    DiagsMark mark = diags_mark(st->s->cx.diags);
    Module *m = NULL;
    Value v = frame_eval(st, now->now, str_of(b->condition), &m);
    bool met = v.kind != VALUE_SCALAR || v.bits != 0;
    diags_back(st->s->cx.diags, mark);
    value_release(v);
    module_release(m);
    return met;
}

static const Breakpoint *text_break(RelaySteps *st, const Event *e)
{
    if (!st->s->stops->n_texts || st->rec.first == st->rec.n)
        return NULL;
    bool enters = is_call(e) || e->kind == EVENT_START;
    const uint32_t sources[] = {enters ? e->body.source : 0, e->span.source};
    for (size_t k = 0; k < 2; k++) {
        const TextBreaks *t =
            sources[k] && (k == 0 || sources[1] != sources[0]) ? breaks_of(st, sources[k]) : NULL;
        for (size_t i = 0; t && i < t->n; i++)
            if (place_met(st, &t->at[i], e, sources[k]) && condition_met(st, &t->at[i])) {
                /* Whoever is asked may change the list. */
                st->place = (Breakpoint){.line = t->at[i].line};
                return &st->place;
            }
    }
    return NULL;
}

/* Takes the list. */
static bool put_text(Stops *stops, Str text, Breakpoint *at, size_t n)
{
    size_t i = find_text(stops, text);
    if (i == stops->n_texts && n > 0) {
        TextBreaks *grown = memory_resize(stops->texts, (i + 1) * sizeof *grown);
        char *copy = grown ? memory_text(text.ptr, text.len) : NULL;
        stops->texts = grown ? grown : stops->texts;
        if (!copy)
            return false;
        stops->texts[stops->n_texts++] = (TextBreaks){.text = copy, .len = text.len};
    }
    if (i == stops->n_texts)
        return true;
    TextBreaks *t = &stops->texts[i];
    for (size_t k = 0; k < t->n; k++)
        breakpoint_free(&t->at[k]);
    free(t->at);
    t->at = at;
    t->n = n;
    if (n == 0) {
        text_breaks_free(t);
        *t = stops->texts[--stops->n_texts];
    }
    return true;
}

bool relay_session_break_text(RelaySession *s, const char *text, size_t len,
                              const RelayBreak *breaks, size_t n)
{
    Stops *stops = stops_get(s);
    Breakpoint *at = stops && n ? memory_zeroed(n, sizeof *at) : NULL;
    bool ok = stops && (at || n == 0);
    for (size_t i = 0; i < n && ok; i++) {
        at[i].line = breaks[i].line;
        if (breaks[i].condition)
            at[i].condition = memory_text(breaks[i].condition, strlen(breaks[i].condition));
    }
    if (ok)
        stops->changes++;
    if (ok && put_text(stops, (Str){text, len}, at, n))
        return true;
    for (size_t i = 0; i < n && at; i++)
        breakpoint_free(&at[i]);
    free(at);
    return false;
}

bool relay_session_break_on(RelaySession *s, unsigned events)
{
    if (!s->stops && !events)
        return true;
    Stops *stops = stops_get(s);
    if (stops)
        stops->events = events;
    return stops != NULL;
}

void relay_session_pause(RelaySession *s)
{
    atomic_store(&s->pause, true);
}

/* ---- numbers that are none --------------------------------------------------------------------------- */

static bool is_finite(Value v, Limits *limits)
{
    TensorView view;
    if (!value_view(&v, &view) || !dtype_is_float(view.t.dtype))
        return true;
    for (int64_t i = 0; i < view.t.size && !limit_hit_at(limits, i); i++)
        if (!isfinite(tensor_get_double(&view.t, i)))
            return false;
    return true;
}

/* Whether the operator made it: what was there before came from somewhere else. */
static bool nan_arises(RelaySteps *st, const Event *e)
{
    Limits *limits = &st->s->cx.limits;
    if (e->kind != EVENT_OP || is_finite(e->result.value, limits))
        return false;
    for (uint32_t i = 0; i < e->n; i++)
        if (!is_finite(e->args[i], limits))
            return false;
    return true;
}

RelayStop stops_why(RelaySteps *st, const Event *e)
{
    /* Whoever steps wants to see where numbers go wrong. */
    unsigned events = st->breaks ? 0 : 1u << RELAY_STOP_NAN;
    if (st->s->stops)
        events |= st->s->stops->events | st->s->stops->by_hand;
    if (atomic_exchange(&st->s->pause, false))
        return RELAY_STOP_PAUSE;
    if ((events & 1u << RELAY_STOP_ERROR) && e->kind == EVENT_FAIL)
        return RELAY_STOP_ERROR;
    return (events & 1u << RELAY_STOP_NAN) && nan_arises(st, e) ? RELAY_STOP_NAN : RELAY_STOP_NONE;
}

const Breakpoint *stops_match(RelaySteps *st, const Event *e)
{
    const Stops *stops = st->s->stops;
    for (size_t i = 0; stops && i < stops->n_breaks; i++) {
        const Breakpoint *b = &stops->breaks[i];
        if (b->line ? line_met(st, b, e)
                    : is_call(e) && e->what && e->global == b->global &&
                          strcmp(e->what, b->name->text) == 0 && condition_holds(st, b, e))
            return b;
    }
    return stops ? text_break(st, e) : NULL;
}

/* ---- watching --------------------------------------------------------------------------------------- */

static bool is_watched(const RelaySession *s, const Name *name)
{
    for (size_t i = 0; name && i < s->stops->n_watched; i++)
        if (s->stops->watched[i] == name)
            return true;
    return false;
}

static void watch_line(RelaySteps *st, const Event *e, const Name *name, const char *how, Value v)
{
    if (st->watch_lines++ == WATCH_LINES_MOST)
        emit_printf(st->s, RELAY_OUTPUT_STREAM, "… what is watched changes more often than that\n");
    if (st->watch_lines > WATCH_LINES_MOST)
        return;
    Buf b = {0};
    const Source *source = sources_get(&st->s->cx.sources, e->span.source);
    buf_printf(&b, "%%%s %s ", name->text, how);
    record_value(&st->rec, &b, v);
    if (source)
        buf_printf(&b, "    %s:%u", source->name, span_start(&st->s->cx.sources, e->span).line);
    buf_char(&b, '\n');
    emit_text(st->s, RELAY_OUTPUT_STREAM, &b);
    buf_deinit(&b);
}

static void watch_binding(RelaySteps *st, const Event *e, const Binding *b)
{
    if (!is_watched(st->s, b->name) || value_is_none(b->value))
        return;
    if (b->value.kind == VALUE_REF)
        ptrmap_put(&st->watched_cells, b->value.object, (void *)(uintptr_t)b->name);
    watch_line(st, e, b->name, "=", b->value);
}

void stops_watch(RelaySteps *st, const Event *e)
{
    if (!st->s->stops || !st->s->stops->n_watched)
        return;
    for (uint32_t i = 0; i < e->n_bound && e->kind != EVENT_CLOSURE; i++)
        watch_binding(st, e, &e->bound[i]);
    const RecordStep *step = recorder_step(&st->rec, st->rec.n - 1);
    Binding result = {step->name, NULL, e->result.value};
    watch_binding(st, e, &result);
    const Name *cell =
        e->kind == EVENT_REF_WRITE ? ptrmap_find(&st->watched_cells, e->args[0].object) : NULL;
    if (cell)
        watch_line(st, e, cell, "holds", e->args[1]);
}

/* ---- cells ------------------------------------------------------------------------------------------ */

static void show_stop(RelaySteps *st)
{
    Buf text = {0}, html = {0}, json = {0};
    uint64_t stop = st->stop < st->rec.first ? st->rec.first : st->stop;
    steps_state(st, &text, stop);
    steps_html(st, &html, stop);
    steps_json(st, &json, stop);
    emit_bundle(st->s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

static void report_stop(RelaySteps *st)
{
    const RecordStep *step = recorder_step(&st->rec, st->rec.n - 1);
    Buf name = {0};
    if (st->at)
        breakpoint_print(&name, st->at);
    diag_error(st->s->cx.diags, E0505_STOPPED, step->span,
               st->at ? "the evaluation ended at the breakpoint `%s`"
                      : "the evaluation was ended by whoever stepped through it%s",
               buf_text(&name));
    buf_deinit(&name);
}

Value stops_eval(RelaySession *s, Module *env, Module *keep, Expr *e)
{
    RelaySteps st;
    bool ok = steps_init(&st, s, s->stepper.stopped ? KEPT_TO_STEP : KEPT_TO_SHOW, 0);
    st.go.kind = RELAY_GO_ON;
    st.breaks = true;
    Value v = ok ? steps_eval(&st, env, keep, e) : value_none();
    if (st.met && !st.asks)
        show_stop(&st);
    if (st.left)
        report_stop(&st);
    steps_deinit(&st);
    return v;
}

/* ---- commands --------------------------------------------------------------------------------------- */

/* What evaluations stop at beside places. */
static const struct {
    const char *word;
    RelayStop stop;
    const char *says;
} reasons[] = {
    {"nan", RELAY_STOP_NAN, "breakpoint where a NaN or an infinity arises"},
    {"error", RELAY_STOP_ERROR, "breakpoint where the evaluation fails"},
};
enum { N_REASONS = sizeof reasons / sizeof *reasons };

/* Whether the text is one of these words, which is then a reason or no longer one. */
static bool take_reason(CommandCall *c, bool on)
{
    for (size_t i = 0; i < N_REASONS; i++) {
        Stops *stops = str_is(c->text, reasons[i].word) ? stops_get(c->s) : NULL;
        unsigned bit = 1u << reasons[i].stop;
        if (stops)
            stops->by_hand = on ? stops->by_hand | bit : stops->by_hand & ~bit;
        if (stops)
            return true;
    }
    return false;
}

static void list_stops(RelaySession *s)
{
    Buf b = {0};
    const Stops *stops = s->stops;
    for (size_t i = 0; stops && i < stops->n_breaks; i++) {
        buf_str(&b, b.n ? "\nbreakpoint " : "breakpoint ");
        breakpoint_print(&b, &stops->breaks[i]);
    }
    for (size_t i = 0; stops && i < N_REASONS; i++)
        if (stops->by_hand & 1u << reasons[i].stop)
            buf_printf(&b, "%s%s", b.n ? "\n" : "", reasons[i].says);
    for (size_t i = 0; stops && i < stops->n_watched; i++)
        buf_printf(&b, "%swatched %%%s", b.n ? "\n" : "", stops->watched[i]->text);
    if (!b.n)
        buf_str(&b, "there are no breakpoints, and no variable is watched");
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* `@f` or `%f`, and `:line` behind it. */
static bool parse_place(CommandCall *c, Breakpoint *b)
{
    Span at = c->args;
    Str word = command_word(c);
    size_t n = 1;
    while (n < word.len && word.ptr[n] != ':')
        n++;
    at.to = at.from + (uint32_t)word.len;
    b->global = word.len > 1 && word.ptr[0] == '@';
    if (n < 2 || (!b->global && word.ptr[0] != '%')) {
        Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, at, "this names no function");
        diag_help(d, "for instance `:break @f`, `:break @f:3` for a line, `:break @f if %%n == 0`");
        return false;
    }
    b->name = ctx_name_str(&c->s->cx, (Str){word.ptr + 1, n - 1});
    if (n < word.len)
        b->line = (uint32_t)strtoul(word.ptr + n + 1, NULL, 10);
    if (b->global && !module_find(c->s->env, b->name)) {
        diag_error(c->s->cx.diags, E0211_UNDEFINED_GLOBAL, at, "nothing defines `@%s`",
                   b->name->text);
        return false;
    }
    if (n == word.len)
        return true;
    const Function *fn = function_of(c->s, b);
    Position from = {0}, to = {0};
    if (fn) {
        from = span_start(&c->s->cx.sources, fn->base.span);
        to = span_end(&c->s->cx.sources, fn->base.span);
    }
    if (fn && b->line >= from.line && b->line <= to.line)
        return true;
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, at, "the function does not stand there");
    if (fn)
        diag_help(d, "`@%s` has the lines %u to %u", b->name->text, from.line, to.line);
    return false;
}

static bool parse_condition(CommandCall *c, Breakpoint *b)
{
    if (!c->text.len)
        return true;
    Span word = c->args;
    if (!str_is(command_word(c), "if") || !c->text.len || !b->global || b->line) {
        Diag *d = diag_error(
            c->s->cx.diags, E0402_USAGE, word,
            "only `if` and a condition can follow, and only where a definition is called");
        diag_help(d, "for instance `:break @f if %%n == 0`, over the parameters of `@f`");
        return false;
    }
    Module *m = condition_module(c->s, b, c->args);
    b->condition = m ? command_rest(c) : NULL;
    module_release(m);
    return b->condition != NULL;
}

static void add_breakpoint(RelaySession *s, Breakpoint b)
{
    Stops *stops = stops_get(s);
    Breakpoint *grown =
        stops ? memory_resize(stops->breaks, (stops->n_breaks + 1) * sizeof *grown) : NULL;
    if (!grown) {
        breakpoint_free(&b);
        return;
    }
    stops->breaks = grown;
    stops->breaks[stops->n_breaks++] = b;
}

static void drop_breakpoints(RelaySession *s, const Breakpoint *like)
{
    Stops *stops = s->stops;
    size_t kept = 0;
    for (size_t i = 0; stops && i < stops->n_breaks; i++) {
        Breakpoint *b = &stops->breaks[i];
        if (!like || (b->name == like->name && b->global == like->global &&
                      (!like->line || b->line == like->line)))
            breakpoint_free(b);
        else
            stops->breaks[kept++] = *b;
    }
    if (stops)
        stops->n_breaks = kept;
    if (stops && !like)
        stops->by_hand = 0;
}

void command_break(CommandCall *c)
{
    Breakpoint b = {0};
    if (str_is(c->text, "-"))
        drop_breakpoints(c->s, NULL);
    else if (c->text.len && !take_reason(c, true)) {
        if (!parse_place(c, &b) || !parse_condition(c, &b))
            return;
        add_breakpoint(c->s, b);
    }
    list_stops(c->s);
}

void command_unbreak(CommandCall *c)
{
    Breakpoint b = {0};
    bool reason = take_reason(c, false);
    if (c->text.len && !reason && !parse_place(c, &b))
        return;
    if (!reason)
        drop_breakpoints(c->s, b.name ? &b : NULL);
    list_stops(c->s);
}

static void watch(RelaySession *s, const Name *name)
{
    Stops *stops = stops_get(s);
    if (!stops || is_watched(s, name))
        return;
    const Name **grown = memory_resize(stops->watched, (stops->n_watched + 1) * sizeof *grown);
    if (!grown)
        return;
    stops->watched = grown;
    stops->watched[stops->n_watched++] = name;
}

void command_watch(CommandCall *c)
{
    Str word = c->text;
    if (str_is(word, "-")) {
        if (c->s->stops)
            c->s->stops->n_watched = 0;
    } else if (word.len) {
        size_t n = 1;
        while (n < word.len && (isalnum((unsigned char)word.ptr[n]) || word.ptr[n] == '_'))
            n++;
        if (word.ptr[0] != '%' || n < 2 || n < word.len) {
            Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, c->args, "this is no variable");
            diag_help(d, "for instance `:watch %%x`; `:watch -` ends it");
            return;
        }
        watch(c->s, ctx_name_str(&c->s->cx, (Str){word.ptr + 1, n - 1}));
    }
    list_stops(c->s);
}
