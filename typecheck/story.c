#include "typecheck/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void story_init(Story *s, Ctx *cx)
{
    *s = (Story){.cx = cx};
    arena_init(&s->arena, &cx->limits);
}

void story_deinit(Story *s)
{
    ptrmap_deinit(&s->names);
    arena_deinit(&s->arena);
}

/* ---- holes by their numbers --------------------------------------------------------------------------------------------------- */

/* A type variable that prints as the hole's number. */
static const Type *number_of(Story *s, const Type *hole)
{
    const Type *known = ptrmap_find(&s->names, hole);
    if (known)
        return known;
    char text[16];
    snprintf(text, sizeof text, "?%u", ++s->n_names);
    const Name *name = ctx_name(s->cx, text);
    known = ptrmap_find(&s->cx->stand_ins, name);
    if (!known)
        known = type_var(s->cx, typevar_new(s->cx, name, (Span){0}));
    ptrmap_put(&s->cx->stand_ins, name, (void *)(uintptr_t)known);
    ptrmap_put(&s->names, hole, (void *)(uintptr_t)known);
    return known;
}

typedef struct OpenHoles {
    Story *s;
    PtrMap seen;
    Vec(Type *) holes;
} OpenHoles;

static void find_open(OpenHoles *o, const Type *t, uint32_t depth)
{
    t = type_find(t);
    if (!t->open || depth > TYPE_DEPTH_MOST || ptrmap_has(&o->seen, t))
        return;
    ptrmap_put(&o->seen, t, o);
    if (t->kind == TYPE_HOLE) {
        vec_push(&o->holes, &o->s->arena, (Type *)(uintptr_t)t);
        return;
    }
    for (uint32_t i = 0; i < t->n; i++)
        find_open(o, t->parts[i], depth + 1);
    if (t->kind == TYPE_FUNC)
        find_open(o, t->result, depth + 1);
}

/* The holes have their numbers as types while the text is made. */
const char *story_type(Story *s, const Type *t)
{
    OpenHoles o = {.s = s};
    find_open(&o, t, 0);
    for (size_t i = 0; i < o.holes.n; i++)
        o.holes.at[i]->bound = number_of(s, o.holes.at[i]);
    const char *text = type_str(s->cx, t);
    for (size_t i = 0; i < o.holes.n; i++)
        o.holes.at[i]->bound = NULL;
    ptrmap_deinit(&o.seen);
    return text;
}

/* ---- events -------------------------------------------------------------------------------------------------------------------- */

bool story_begin(Checker *ck)
{
    if (!ck->story || ck->story->open)
        return false;
    ck->story->open = true;
    ck->story->changed.n = 0;
    return true;
}

void story_bound(Checker *ck, const Type *hole)
{
    Story *s = ck->story;
    if (!s || !s->open)
        return;
    for (size_t i = 0; i < s->changed.n; i++)
        if (s->changed.at[i] == hole)
            return;
    vec_push(&s->changed, &s->arena, hole);
}

static const char *decisions(Story *s)
{
    Buf b = {0};
    for (size_t i = 0; i < s->changed.n; i++)
        buf_printf(&b, "%s%s = %s", i ? "\n" : "", number_of(s, s->changed.at[i])->var->name->text,
                   story_type(s, s->changed.at[i]->bound));
    return buf_keep(&b, &s->arena);
}

void story_end(Checker *ck, StoryEvent e)
{
    Story *s = ck->story;
    e.after = decisions(s);
    vec_push(&s->events, &s->arena, e);
    s->open = false;
}

const char *story_text(Checker *ck, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = buf_vkeep(&ck->story->arena, format, args);
    va_end(args);
    return text;
}

StoryPlace story_side(Checker *ck, Side side, const Type *t)
{
    return (StoryPlace){side_span(ck, side), story_type(ck->story, t)};
}

void story_unknown(Checker *ck, const Type *hole, HoleInfo info)
{
    if (!story_begin(ck))
        return;
    const char *what = info.origin == HOLE_RESULT    ? "the result of the function"
                       : info.origin == HOLE_WRITTEN ? "what `_` stands for"
                                                     : "the type of";
    const char *sigil = info.name && info.origin == HOLE_RESULT ? " `@" : " `%";
    bool named = info.name && info.origin != HOLE_WRITTEN;
    StoryEvent e = {
        .kind = STORY_UNKNOWN,
        .at = info.span,
        .rule = story_text(ck, "%s%s%s%s is not written", what, named ? sigil : "",
                           named ? info.name : "", named ? "`" : ""),
        .before = story_text(ck, "it is called %s", story_type(ck->story, hole)),
    };
    story_end(ck, e);
}

void story_instance(Checker *ck, const char *whole, HoleInfo info, uint32_t n,
                    const TypeVar *const *params, const Type *const *with)
{
    if (!n || !story_begin(ck))
        return;
    Buf b = {0};
    for (uint32_t i = 0; i < n; i++)
        buf_printf(&b, "%s%s is %s", i ? ", " : "", params[i]->name->text,
                   story_type(ck->story, with[i]));
    StoryEvent e = {
        .kind = STORY_INSTANCE,
        .at = info.span,
        .rule =
            story_text(ck, "%s%s%s is polymorphic: this use has types of its own",
                       info.of ? "`" : "", info.of ? info.of : "the function", info.of ? "`" : ""),
        .before = story_text(ck, "%s, where %s", whole, buf_text(&b)),
    };
    buf_deinit(&b);
    story_end(ck, e);
}

void story_unsolved(Checker *ck, const Type *hole, HoleInfo info)
{
    if (!story_begin(ck))
        return;
    StoryEvent e = {
        .kind = STORY_END,
        .result = STORY_FAILED,
        .at = info.span,
        .rule = "nothing is left that could decide this",
        .before = story_text(ck, "%s stays unknown", story_type(ck->story, hole)),
    };
    story_end(ck, e);
    story_failed(ck, ck->cx->diags->last);
}

void story_failed(Checker *ck, const Diag *d)
{
    Story *s = ck->story;
    if (!s || s->open || !s->events.n)
        return;
    StoryEvent *last = &vec_last(&s->events);
    if (last->result == STORY_FAILED && !last->diag)
        last->diag = d;
}

/* ---- unification for a reason ----------------------------------------------------------------------------------------------------- */

const Type *unify_by(Checker *ck, Rule rule, const Type *a, const Type *b, Widen widen, Flow flow)
{
    ck->rule = rule;
    if (!story_begin(ck))
        return unify(ck, a, b, widen, flow);
    StoryEvent e = {.kind = STORY_UNIFY, .rule = rule.text, .n_places = 2};
    e.places[0] = story_side(ck, rule.needed, a);
    e.places[1] = story_side(ck, rule.found, b);
    e.at = e.places[1].span;
    e.before = story_text(ck, "%s = %s", e.places[0].text, e.places[1].text);
    const Type *both = unify(ck, a, b, widen, flow);
    e.result = both ? STORY_DECIDED : STORY_FAILED;
    story_end(ck, e);
    return both;
}
