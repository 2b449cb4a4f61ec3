/* Motifs: shapes of expressions, written as text, and where a program has them.
 *
 *     nn.relu(add($x, $y:const))          what an external back end takes as one operator
 *
 *     motif = alternative { "|" alternative }      the first that is there
 *     primary = "$" NAME [":const" | ":var"] | "$_" | OPERATOR | "(" motif ")" | "(" motif "," … ")" | "()"
 *             | "dominates" "(" parent "," path "," child ")" | "@"
 *     postfix = "(" motif "," … "," KEY "=" VALUE … ")" | "(" "..." ")" | "{" KEY "=" VALUE … "}" | "." NUMBER | "." "any"
 *             | ".optional" "(" motif ")" | ".dtype" "(" 'name' ")" | ".shape" "(" "[" … "]" ")"
 *
 * A name that stands twice is one node. p.optional(q) is q with p where it says "@", or p. Arguments of add and multiply may stand the
 * other way round, and a product that is divided is a product with a quotient. */
#ifndef PASSES_MOTIF_H
#define PASSES_MOTIF_H

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/expr.h"

typedef enum MotifKind {
    MOTIF_ANY,
    MOTIF_CONSTANT,
    MOTIF_VAR,
    MOTIF_OP,
    MOTIF_CALL,      /* parts: the callee, and unless `open` the arguments */
    MOTIF_TUPLE,     /* parts: the fields */
    MOTIF_GET,       /* part: the tuple */
    MOTIF_EITHER,    /* parts: one or the other */
    MOTIF_ATTRS,     /* part: what has them */
    MOTIF_DTYPE,     /* part: what is a tensor of these elements */
    MOTIF_SHAPE,     /* part: what is a tensor of these extents */
    MOTIF_DOMINATES, /* parts: parent, path, child */
} MotifKind;

typedef struct Motif Motif;
struct Motif {
    MotifKind kind;
    uint32_t index; /* among all of one search */
    uint32_t depth; /* of what it is made of */
    uint32_t n;
    const Motif **parts;
    bool open;      /* a call with any arguments */
    int64_t field;  /* of a projection; -1: any */
    const Op *op;
    const Attrs *attrs; /* wanted; of MOTIF_DTYPE and MOTIF_SHAPE the only value */
};

typedef struct MotifFound {
    Vec(Expr *) at; /* the nodes that the motif stands for; more than one only along a path */
} MotifFound;

/* Reads the text; NULL after a diagnostic at `where`. */
const Motif *motif_parse(Ctx *cx, Arena *arena, Str text, Span where);

/* One search after the other, which share what they need. */
typedef struct MotifSearch {
    Ctx *cx;
    Arena *arena;
    Vec(MotifFound) found; /* by index */
    Vec(uint32_t) order;   /* the indices in the order of finding */
    const Motif *motif;
    bool anew;             /* a motif may stand for several nodes */
    unsigned steps;
} MotifSearch;
MotifSearch *motif_search(Ctx *cx, Arena *arena, const Motif *motif);
/* Whether e has that shape. */
bool motif_matches(MotifSearch *s, const Expr *e);
/* After a match: calls `found` with what each leaf of the motif stands for, in post-order of the motif. Operators, functions, and
 * constants where the motif asks for one belong to the shape and are left out. */
void motif_leaves(MotifSearch *s, void (*found)(void *data, Expr *e), void *data);

#endif
