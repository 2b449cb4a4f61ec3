#include "session/views/follow.h"

#include "ir/walk.h"
#include "session/optimise.h"
#include "session/views/trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Expressions of larger programs are followed where they have lines of their own. */
#define MERGED_LINES 20000

const char *const follow_stage_names[] = {"passes", "loops", "llvm", "asm"};

/* ---- the expressions of the text --------------------------------------------------------------------------------------------- */

static void add_origin(Follow *f, const Expr *e)
{
    bool own = e->kind > EXPR_CON && e->kind != EXPR_FUNCTION && e->kind != EXPR_LET;
    if ((own || e->kind == EXPR_CONSTANT) && !span_is_none(e->span))
        vec_push(&f->origins, &f->arena, ((FollowOrigin){.span = e->span}));
}

static WalkNext before_node(void *data, const Expr *e)
{
    Follow *f = data;
    add_origin(f, e);
    return limit_hit(&f->s->cx.limits) ? WALK_STOP : WALK_ON;
}

/* In the order of the text, the outer one first. */
static int by_place(const void *a, const void *b)
{
    const Span *x = &((const FollowOrigin *)a)->span, *y = &((const FollowOrigin *)b)->span;
    if (x->source != y->source)
        return x->source < y->source ? -1 : 1;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    return (x->to < y->to) - (x->to > y->to);
}

static bool holds(Span outer, Span inner)
{
    return outer.source == inner.source && outer.from <= inner.from && inner.to <= outer.to;
}

static uint32_t around(const Follow *f, uint32_t at, Span span)
{
    while (at && !holds(f->origins.at[at].span, span))
        at = f->origins.at[at].around;
    return at;
}

static void order_origins(Follow *f)
{
    size_t kept = 1;
    qsort(f->origins.at + 1, f->origins.n - 1, sizeof *f->origins.at, by_place);
    for (size_t i = 1; i < f->origins.n; i++) {
        FollowOrigin o = f->origins.at[i];
        if (kept > 1 && by_place(&o, &f->origins.at[kept - 1]) == 0)
            continue;
        o.around = around(f, (uint32_t)kept - 1, o.span);
        f->origins.at[kept++] = o;
    }
    f->origins.n = kept;
}

static void find_origins(Follow *f, const Module *m)
{
    vec_push(&f->origins, &f->arena, (FollowOrigin){0}); /* there is no origin 0 */
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *def = &m->defs.at[i];
        if (!def->fn || def->imported)
            continue;
        Span span = span_is_none(def->span) ? def->fn->body->span : def->span;
        span = holds(def->fn->base.span, span) ? def->fn->base.span : span;
        if (!span_is_none(span))
            vec_push(&f->regions, &f->arena, (FollowRegion){span});
        ir_walk(&def->fn->base, before_node, NULL, f);
    }
    order_origins(f);
}

/* The least origin that holds the place; 0: none does. */
static uint32_t origin_of(const Follow *f, Span span)
{
    FollowOrigin wanted = {.span = span};
    size_t low = 1, high = f->origins.n;
    while (low < high) {
        size_t mid = (low + high) / 2;
        if (by_place(&f->origins.at[mid], &wanted) <= 0)
            low = mid + 1;
        else
            high = mid;
    }
    return around(f, (uint32_t)low - 1, span);
}

Str follow_text(const Follow *f, uint32_t origin)
{
    Span span = f->origins.at[origin].span;
    const Source *source = sources_get(&f->s->cx.sources, span.source);
    if (!source)
        return (Str){0};
    const char *from = source->text + span.from, *end = source->text + span.to;
    const char *newline = memchr(from, '\n', (size_t)(end - from));
    return (Str){from, (size_t)((newline ? newline : end) - from)};
}

void follow_place(const Follow *f, Buf *out, uint32_t origin)
{
    SourceMap *map = &f->s->cx.sources;
    Span span = f->origins.at[origin].span;
    const Source *source = sources_get(map, span.source);
    Position at = span_start(map, span);
    if (source)
        buf_printf(out, "%s:%u:%u", source->name, (unsigned)at.line, (unsigned)at.column);
}

bool follow_is_of(const FollowLine *line, uint32_t origin)
{
    for (uint32_t i = 0; i < line->n; i++)
        if (line->of[i] == origin)
            return true;
    return false;
}

/* ---- stages ------------------------------------------------------------------------------------------------------------------- */

typedef Vec(uint32_t) Numbers;

static void add_number(Follow *f, Numbers *of, Span span)
{
    uint32_t origin = span_is_none(span) ? 0 : origin_of(f, span);
    for (size_t i = 0; i < of->n; i++)
        if (of->at[i] == origin)
            return;
    if (origin)
        vec_push(of, &f->arena, origin);
}

static int inner_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x < y) - (x > y);
}

static void add_line(Follow *f, FollowStageKind kind, Str text, Numbers *of)
{
    FollowLine line = {text, (uint32_t)of->n, of->at};
    if (of->n > 1)
        qsort(of->at, of->n, sizeof *of->at, inner_first);
    for (size_t i = 0; i < of->n; i++)
        f->origins.at[of->at[i]].lines++;
    vec_push(&f->stages[kind].lines, &f->arena, line);
}

static void begin_part(Follow *f, FollowStageKind kind, Str title)
{
    FollowStage *stage = &f->stages[kind];
    FollowPart part = {title, stage->lines.n, stage->lines.n};
    if (stage->parts.n)
        vec_last(&stage->parts).to = stage->lines.n;
    vec_push(&stage->parts, &f->arena, part);
}

static void end_parts(Follow *f, FollowStageKind kind)
{
    FollowStage *stage = &f->stages[kind];
    if (stage->parts.n)
        vec_last(&stage->parts).to = stage->lines.n;
}

/* Where a function or kernel begins, by its name; none: the line begins nothing. */
static Str title_of(FollowStageKind kind, Str line, bool after_gap)
{
    size_t n = 0;
    const char *at = line.ptr;
    if (kind == FOLLOW_LLVM) {
        if (line.len < 7 || memcmp(line.ptr, "define ", 7) != 0 || !memchr(at, '@', line.len))
            return (Str){0};
        at = (const char *)memchr(at, '@', line.len) + 1;
    } else if (!line.len || *at == ' ' || *at == '\t' || *at == '.' || *at == '#' || *at == '}' ||
               (kind == FOLLOW_LOOPS && !after_gap)) {
        return (Str){0};
    }
    const char *end = line.ptr + line.len;
    while (at + n < end && (isalnum((unsigned char)at[n]) || strchr("._", at[n])))
        n++;
    size_t rest = (size_t)(end - at) - n;
    bool ends = kind != FOLLOW_LOOPS
                    ? rest > 0 && strchr("(:", at[n])
                    : (rest == 1 && at[n] == ':') || (rest > 2 && memcmp(at + n, " = ", 3) == 0);
    return n && ends ? (Str){at, n} : (Str){0};
}

static void read_text(Follow *f, FollowStageKind kind, const JitPlaces *places)
{
    const Buf *text = &f->texts[kind];
    const char *end = buf_text(text) + text->n;
    size_t number = 0, next = 0;
    bool gap = true;
    for (const char *at = buf_text(text); at < end; number++) {
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        const char *stop = newline ? newline : end;
        Str line = {at, (size_t)(stop - at)};
        Numbers of = {0};
        for (; next < places->all.n && places->all.at[next].line <= number; next++)
            if (places->all.at[next].line == number)
                add_number(f, &of, places->all.at[next].span);
        Str title = title_of(kind, line, gap);
        if (title.len || !f->stages[kind].parts.n)
            begin_part(f, kind, title.len ? title : str_of("module"));
        add_line(f, kind, line, &of);
        gap = line.len == 0;
        at = stop + 1;
    }
    end_parts(f, kind);
}

/* What each pass changed, by the nodes of its lines and the constants in them. */
typedef struct Operands {
    Follow *f;
    Numbers *of;
} Operands;

static void add_constant(void *data, Expr *const *slot)
{
    Operands *o = data;
    if (expr_as_constant(*slot))
        add_number(o->f, o->of, (*slot)->span);
}

static void read_trace(Follow *f, Trace *t)
{
    for (size_t i = 0; i < t->steps.n; i++) {
        const TraceStep *step = &t->steps.at[i];
        if (!step->changed)
            continue;
        begin_part(f, FOLLOW_PASSES, str_of(step->pass));
        for (size_t k = 0; k < step->lines.n; k++) {
            const TraceLine *line = &step->lines.at[k];
            Numbers of = {0};
            if (line->change == TRACE_LINE_GONE || line->change == TRACE_LINE_WAS)
                continue;
            if (line->e && line->e->kind != EXPR_FUNCTION) {
                add_number(f, &of, line->e->span);
                ir_children(line->e, add_constant, &(Operands){f, &of});
            }
            add_line(
                f, FOLLOW_PASSES,
                (Str){arena_copy_text(&f->arena, line->text.ptr, line->text.len), line->text.len},
                &of);
        }
    }
    end_parts(f, FOLLOW_PASSES);
}

/* ---- what a stage merges ------------------------------------------------------------------------------------------------------ */

static void join_lines(Follow *f, FollowStage *stage, uint32_t origin)
{
    uint32_t outer = f->origins.at[origin].around;
    for (size_t i = 0; i < stage->lines.n; i++) {
        FollowLine *line = &stage->lines.at[i];
        if (!follow_is_of(line, outer))
            continue;
        uint32_t *of = arena_new_array(&f->arena, uint32_t, line->n + 1);
        memcpy(of, line->of, line->n * sizeof *of);
        of[line->n++] = origin;
        line->of = of;
        f->origins.at[origin].lines++;
    }
}

/* A constant is an operand of an instruction, and a product may be one with the sum around it: what has no lines of its own in a stage
 * has those of what is around it. The outer ones come first. */
static void merge_stage(Follow *f, FollowStageKind kind)
{
    FollowStage *stage = &f->stages[kind];
    bool *there = arena_alloc_must(&f->arena, f->origins.n, sizeof *there);
    for (size_t i = 0; i < stage->lines.n; i++)
        for (uint32_t k = 0; k < stage->lines.at[i].n; k++)
            there[stage->lines.at[i].of[k]] = true;
    for (uint32_t i = 1; i < f->origins.n && !limit_hit(&f->s->cx.limits); i++) {
        FollowOrigin *o = &f->origins.at[i];
        if (there[i] || !o->lines || !there[o->around])
            continue;
        o->merged |= 1u << kind;
        there[i] = true;
        join_lines(f, stage, i);
    }
}

static void follow_merged(Follow *f)
{
    for (FollowStageKind kind = FOLLOW_LOOPS; kind < FOLLOW_STAGES; kind++)
        if (f->stages[kind].lines.n < MERGED_LINES)
            merge_stage(f, kind);
}

/* ---- making it ----------------------------------------------------------------------------------------------------------------- */

static void follow_passes(Follow *f, const Thunk *t)
{
    Trace trace;
    trace_init(&trace, f->s);
    PassContext pc = {0};
    trace_listen(&trace, &pc);
    optimise_watched(f->s, t->module, t->name, &pc);
    read_trace(f, &trace);
    trace_deinit(&trace);
}

static bool follow_code(Follow *f, const Thunk *t, const Runnable *code)
{
    static const JitText kinds[] = {
        [FOLLOW_LOOPS] = JIT_TEXT_LOWERED,
        [FOLLOW_LLVM] = JIT_TEXT_LLVM,
        [FOLLOW_ASM] = JIT_TEXT_ASM,
    };
    for (FollowStageKind kind = FOLLOW_LOOPS; kind < FOLLOW_STAGES; kind++) {
        JitPlaces places = {.arena = &f->arena};
        JitTextWish wish = {.kind = kinds[kind], .n = t->n, .args = t->args, .places = &places};
        if (!f->s->jit_table->text(f->s->jit, code->env, t->name, &wish, &f->texts[kind]))
            return false;
        read_text(f, kind, &places);
    }
    return true;
}

/* What the loops need of the machine. */
static bool follow_costs(Follow *f, const Thunk *t, const Runnable *code)
{
    static const Buf no_loops; /* they stand in a column */
    Buf nests = {0};
    f->report = (JitReport){.arena = &f->arena};
    JitTextWish wish = {
        .kind = JIT_TEXT_SCHEDULE, .n = t->n, .args = t->args, .report = &f->report};
    bool ok = f->s->jit_table->text(f->s->jit, code->env, t->name, &wish, &nests);
    buf_deinit(&nests);
    if (ok)
        f->costs = cost_view(f->s, &f->report, &no_loops, NULL);
    return ok;
}

#define PART_LINES 12 /* of each stage, where an expression has a screen of its own */

static void write_views(Follow *f, const FollowViews *views)
{
    if (views->text)
        follow_as_text(f, views->text, views->lines, false);
    if (views->parts)
        follow_as_text(f, views->parts, PART_LINES, true);
    if (views->html)
        follow_html(f, views->html);
    if (views->json)
        follow_json(f, views->json);
}

static void say_why(RelaySession *s, const Thunk *t, const Buf *why)
{
    if (!s->jit)
        diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "there is no JIT: %s", buf_text(why));
    else if (session_status(s) == RELAY_OK)
        diag_error(s->cx.diags, E0701_CANNOT_COMPILE, (Span){0}, "`@%s` cannot be compiled: %s",
                   t->name->text, buf_text(why));
}

bool follow(RelaySession *s, const Thunk *t, const FollowViews *views)
{
    Follow f = {.s = s};
    Buf why = {0};
    Runnable code;
    arena_init(&f.arena, &s->cx.limits);
    Module *written = module_slice(s, t->module, t->name);
    bool ok = written && engine_compile(s, t->module, t->name, COMPILE_TO_SHOW, &code, &why);
    if (ok) {
        find_origins(&f, written);
        follow_passes(&f, t);
        ok = follow_code(&f, t, &code) && follow_costs(&f, t, &code);
        follow_merged(&f);
        if (ok)
            write_views(&f, views);
        ok = ok && session_status(s) == RELAY_OK;
        engine_release(s, &code);
    } else {
        say_why(s, t, &why);
    }
    for (size_t i = 0; i < FOLLOW_STAGES; i++)
        buf_deinit(&f.texts[i]);
    module_release(written);
    buf_deinit(&why);
    arena_deinit(&f.arena);
    return ok;
}

bool show_all(RelaySession *s, const Thunk *t, size_t lines)
{
    Buf text = {0}, html = {0}, json = {0}, parts = {0};
    Buf *wanted = s->options.parts ? &parts : NULL;
    bool ok = follow(s, t, &(FollowViews){&text, &html, &json, lines, wanted});
    if (ok)
        emit_in_parts(s, &text, wanted, &html, &json);
    buf_deinit(&parts);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
    return ok;
}
