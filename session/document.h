/* What document.c (reading) and document_ask.c (questions) share. */
#ifndef SESSION_DOCUMENT_H
#define SESSION_DOCUMENT_H

#include "session/internal.h"

typedef enum MentionKind {
    MENTION_NONE,
    MENTION_LOCAL,
    MENTION_GRAPH,
    MENTION_GLOBAL,
    MENTION_CON,
    MENTION_TYPE,
    MENTION_OP,
} MentionKind;

/* A name in the text. Two of the same kind and target mean the same. */
typedef struct Mention {
    uint32_t from, to;
    MentionKind kind;
    bool binds;
    bool written; /* its type stands behind it */
    const void
        *target; /* a Var; the Name of a global, constructor or type; an Op; a GraphBinding */
    const Type *type; /* NULL: not known */
} Mention;

/* `%0 = …;` inside a definition, where it is no variable but the expression itself. */
typedef struct GraphBinding {
    const Type *type; /* as its uses know it */
} GraphBinding;

struct RelayDocument {
    RelaySession *s;
    uint64_t world; /* of the session, when the text was read; another: all that it had is gone */
    Buf name, text;
    bool is_module;
    bool is_script; /* unless it is a module */
    bool read; /* there is a trail */
    uint32_t source;
    Trail trail;
    Diags diags;
    Arena arena; /* of the lists */
    Vec(RelayFinding) findings;
    Vec(Mention) mentions; /* in the order of the text */
};

/* A document of the session that sees what `d` defines, with this text; NULL without memory. */
RelayDocument *document_beside(const RelayDocument *d, const Buf *text);

/* mention.c: fills d->mentions from what was read. */
void document_note_mentions(RelayDocument *d);

#endif
