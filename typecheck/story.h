/* How inference got to its types: every constraint in the order solved, as data.
 *
 * A checker that is given a Story adds an event for each unification, each run of a relation, each use of something polymorphic and
 * each type that nobody wrote. An event says by which rule, where in the source it came from, what was known before, and which
 * holes got which type; holes are numbered in the order in which they come up: ?1, ?2. Without a Story nothing is recorded and one
 * test of a pointer is all it costs. Views (terminal, HTML) stand elsewhere and compute nothing.
 *
 *     Story story;
 *     story_init(&story, cx);
 *     bool ok = typecheck_module_as(cx, m, env, (CheckWish){.story = &story});
 *     for (size_t i = 0; i < story.events.n; i++) …
 *     story_deinit(&story);
 */
#ifndef TYPECHECK_STORY_H
#define TYPECHECK_STORY_H

#include "base/vec.h"
#include "ir/ctx.h"

typedef enum StoryKind {
    STORY_UNKNOWN,  /* a type that nobody wrote gets a name */
    STORY_UNIFY,    /* two types must agree */
    STORY_RELATION, /* an operator or a projection relates its operands and its result */
    STORY_INSTANCE, /* type parameters get unknown types for this use */
    STORY_END,      /* nothing is left to learn from */
} StoryKind;

typedef enum StoryResult {
    STORY_DECIDED, /* or nothing was open */
    STORY_WAITS,   /* too little is known yet */
    STORY_FAILED,
} StoryResult;

/* Somewhere in the source that takes part, and what is known of it before: "?1", "Tensor[(2), float32]". */
typedef struct StoryPlace {
    Span span;
    const char *text;
} StoryPlace;

typedef struct StoryEvent {
    StoryKind kind;
    StoryResult result;
    Span at; /* what the constraint is about */
    const char *rule; /* in words: "the value of a `let` has the declared type" */
    const char *before; /* the constraint: "Tensor[(2), ?1] = Tensor[(2), float32]" */
    const char *after; /* what was decided, one a line: "?1 = float32"; empty: nothing new */
    StoryPlace places[2]; /* both sources of a unification; the first operands of a relation */
    uint32_t n_places;
    const Diag
        *diag; /* of a failure: what was reported about it; lives as long as the diagnostics */
} StoryEvent;

typedef struct Story {
    Ctx *cx;
    Arena arena;
    Vec(StoryEvent) events;
    PtrMap names; /* hole -> the type variable that shows its number */
    uint32_t n_names;
    Vec(const Type *) changed; /* holes that were filled since the event began */
    bool open; /* an event is being recorded: constraints inside are a part of it */
} Story;

void story_init(Story *s, Ctx *cx);
void story_deinit(Story *s);

/* A type with the numbers of its holes, as text that lives as long as the story. */
const char *story_type(Story *s, const Type *t);

#endif
