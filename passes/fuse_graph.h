/* Which operator calls of a function become one kernel: forward graph, post-dominator tree and groups (passes.md section 4). */
#ifndef PASSES_FUSE_GRAPH_H
#define PASSES_FUSE_GRAPH_H

#include "base/places.h"
#include "ir/module.h"
#include "ir/op.h"

typedef struct FuseEdge {
    uint32_t to; /* the consumer */
    OpPattern pattern;
    struct FuseEdge *next;
} FuseEdge;

typedef struct FuseNode {
    Expr *e;
    OpPattern pattern;
    bool extern_ref; /* needed by something that cannot be fused through */
    const Expr *needed_by; /* that; NULL: it is the result */
    FuseEdge *edges; /* to consumers */
    /* the post-dominator tree */
    struct FuseNode *dom;
    uint32_t depth;
    OpPattern dom_pattern; /* the most of the patterns on the way to `dom` */
    struct FuseNode *jump; /* a dominator further up; itself where there is none */
    OpPattern jump_pattern; /* the most on the way there */
    /* the group, by union-find */
    struct FuseNode *leader;
    OpPattern group; /* of the group, at its leader */
    bool anchored; /* a call that fuses only with what follows it is inside */
    uint32_t members;
    uint32_t mark; /* of the last search that came by */
} FuseNode;

typedef struct FuseGraph {
    Arena arena;
    Vec(FuseNode *) nodes; /* operands before what uses them */
    Places index; /* Expr -> FuseNode */
    Places tuples; /* Type -> whether it is a tuple of tensors alone */
    uint32_t search;
    uint32_t most; /* calls in one group */
    bool for_code;
    const Expr *needing; /* while edges are made: what needs the nodes below it */
} FuseGraph;

typedef struct FuseWish {
    bool fuse; /* false: every call by itself */
    bool
        for_code; /* what follows a fold of rows and goes by the same rows joins it; what has no expression stands alone */
    Ctx *cx; /* with the operators, whose expressions say what they move */
    bool for_card; /* two products with shares of rows between them are one */
    uint32_t most;
    Limits *limits; /* grouping ends early where one is hit */
} FuseWish;

/* Groups the calls in the body of f, nested functions included. */
void fuse_graph_init(FuseGraph *g, Function *f, FuseWish wish);
void fuse_graph_deinit(FuseGraph *g);
/* The node that stands for e's group; NULL for what is no value of its own. The group's root is the expression its leader holds. */
FuseNode *fuse_leader(const FuseGraph *g, const Expr *e);

/* Why a group ends where it does. */
typedef enum FuseStop {
    FUSE_STOP_NONE, /* nothing uses it */
    FUSE_STOP_OPAQUE,
    FUSE_STOP_RESULT,
    FUSE_STOP_NEEDED, /* by something that is no operator */
    FUSE_STOP_SPLIT, /* its uses do not come together again */
    FUSE_STOP_KIND, /* operators of its kind take in nothing of the kind that follows */
    FUSE_STOP_PATH, /* something on the way to where its uses come together takes nothing in */
    FUSE_STOP_FULL,
} FuseStop;

/* Of the node that leads a group; what it ends at goes to `*with`, NULL where that is nothing in particular. */
FuseStop fuse_stop(FuseGraph *g, const FuseNode *leader, const Expr **with);
const char *fuse_pattern_name(OpPattern pattern);

#endif
