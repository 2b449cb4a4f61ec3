/* An expression followed through all that is made of it: passes, loops, LLVM IR and machine code, side by side.
 *
 * An origin is an expression of the text, by its place. A line of a later stage has the origins that it was made of: nodes keep the
 * place of what they stand for, loops and code say it line by line (JitPlaces). What has a place that no expression has, as what a pass
 * made of several, belongs to the least expression around it. */
#ifndef SESSION_VIEWS_FOLLOW_H
#define SESSION_VIEWS_FOLLOW_H

#include "session/views/cost.h"

typedef struct FollowOrigin {
    Span span;
    uint32_t around; /* the least origin that holds it; 0: none does */
    uint32_t lines; /* of all stages */
    uint32_t merged; /* the stages, as bits, in which its lines are those of what is around it */
} FollowOrigin;

typedef struct FollowLine {
    Str text;
    uint32_t n;
    const uint32_t *of; /* origins, the inner ones first */
} FollowLine;

/* Lines [from, to): a pass, a kernel, a function. */
typedef struct FollowPart {
    Str title;
    size_t from, to;
} FollowPart;

typedef enum FollowStageKind {
    FOLLOW_PASSES,
    FOLLOW_LOOPS,
    FOLLOW_LLVM,
    FOLLOW_ASM,
    FOLLOW_STAGES
} FollowStageKind;

typedef struct FollowStage {
    Vec(FollowLine) lines;
    Vec(FollowPart) parts;
} FollowStage;

/* A definition of the text. */
typedef struct FollowRegion {
    Span span;
} FollowRegion;

typedef struct Follow {
    RelaySession *s;
    Arena arena;
    Vec(FollowOrigin) origins; /* by number, from 1, in the order of the text */
    Vec(FollowRegion) regions;
    FollowStage stages[FOLLOW_STAGES];
    Buf texts[FOLLOW_STAGES]; /* in which lines lie */
    JitReport report; /* what kernels need */
    CostView costs; /* of it */
} Follow;

extern const char *const follow_stage_names[FOLLOW_STAGES];

/* The views that are wanted; NULL: that one is not. */
typedef struct FollowViews {
    Buf *text, *html, *json;
    size_t lines; /* of each stage for an expression, in the text */
    Buf *parts; /* the text with a form feed in front of each expression */
} FollowViews;

/* The code of `t` and where it is from; false after a diagnostic. */
bool follow(RelaySession *s, const Thunk *t, const FollowViews *views);
/* The same, shown. */
bool show_all(RelaySession *s, const Thunk *t, size_t lines);
/* The text of an origin, its first line, and where it stands, `In[3]:1:5`. */
Str follow_text(const Follow *f, uint32_t origin);
void follow_place(const Follow *f, Buf *out, uint32_t origin);
bool follow_is_of(const FollowLine *line, uint32_t origin);

void follow_html(Follow *f, Buf *out);
void follow_as_text(Follow *f, Buf *out, size_t lines, bool parts);
void follow_json(Follow *f, Buf *out);

#endif
