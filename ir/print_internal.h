/* What the files of the printer share.
 *
 * The printer is a machine with a stack of tasks, so the depth of a program never becomes the depth of the C stack. It writes
 * into one buffer; the text of what spans several lines (a function, an if, a match, a let in parentheses) is a Doc, a list of
 * pieces of that buffer, because it is written when it is met and has its place after lines that are written later. */
#ifndef IR_PRINT_INTERNAL_H
#define IR_PRINT_INTERNAL_H

#include "base/places.h"
#include "ir/ctx.h"
#include "ir/print.h"

typedef struct Piece {
    size_t from, to;            /* of Printer.text; or PIECE_DEEPER and PIECE_IN or PIECE_OUT */
    struct Piece *next;
    uint32_t blanks; /* before it */
} Piece;

/* What stands between the two is indented by two blanks more. */
#define PIECE_DEEPER SIZE_MAX
enum { PIECE_OUT, PIECE_IN };

typedef struct Doc {
    Piece *first, *last;
    const Expr *opened_by; /* NULL: a definition */
} Doc;

/* What is known about the order of lines (print_order.c), for as long as the text is made. */
typedef struct PrintOrder {
    Arena arena;
    PtrMap early; /* a node that opens a scope -> what is written before it */
    PtrMap scopes; /* when watched: a node -> what opened the scope of its line */
    PtrMap
        around; /* when uses are watched too: what opened a scope -> what opened the one around it */
    PtrMap open; /* likewise: what opened the scopes that are being made */
    unsigned rounds;
    bool watched, uses, again;
} PrintOrder;

/* What is known about a node. Variables and constants have one too. */
typedef struct PrintNode {
    const Expr *e;
    uint32_t
        uses : 30; /* edges to it; of a constant: the definition where its type was shown last */
    uint32_t met : 1; /* its text was made, or is being made */
    uint32_t is_doc : 1; /* the text is `doc`, else `text` */
    int32_t number; /* graph number, or index in the metadata; -1: none */
    union {
        Doc *doc;
        struct {
            size_t from, n;
        } text; /* a line's worth: in Printer.lines */
        struct {
            const char *at;
            size_t n;
        } name; /* of a variable, without its `%` */
    };
} PrintNode;

typedef struct NodeTable {
    Places places; /* pages of positions in `nodes` + 1 */
    Vec(PrintNode) nodes;
} NodeTable;

typedef struct UsedName {
    bool used;
    uint32_t next; /* the next number to try behind it is one more */
} UsedName;

typedef struct Task {
    uint8_t kind;
    uint32_t i;
    const Expr *e;
} Task;

typedef struct Printer {
    PrintStyle style;
    Limits *limits; /* NULL: none */
    unsigned steps;
    size_t written; /* bytes of `text` and `lines` when it was last asked */
    bool declare; /* free variables are declared */
    Arena arena;
    Buf text; /* whatever goes into a Doc */
    Buf lines; /* texts of calls, tuples, projections */
    size_t making; /* what stands in `lines` below has to stay */
    Buf head; /* for a moment */
    Vec(Doc) docs; /* open; the last one grows at the end of `text` */
    size_t open; /* where the last doc's unfinished piece begins */
    uint32_t blanks; /* to stand before what is written from there */
    unsigned indent;
    unsigned base_indent; /* of the outermost scope */
    int32_t next_number;
    uint32_t def; /* number of the definition being printed, from 1 */
    NodeTable nodes;
    Interner names; /* of all variables, once names_made */
    Vec(UsedName) used; /* by the numbers of `names` */
    bool names_made;
    PtrMap type_names; /* TypeVar -> text, of those that are not called by their own name */
    bool polymorphic; /* functions inside of others have type parameters */
    Vec(unsigned char *) hints; /* a bit for each name that is used as it is, in pages */
    Vec(Task) tasks;
    Ctx *cx; /* NULL: symbolic extents print `?` */
    Vec(Value) constants; /* of the metadata section; lent */
    Vec(Dim) symbols; /* likewise */
    Vec(const AttrValue *) records;
    PrintOrder *order;
    Buf bound; /* a bit for each graph number: its line was written */
    bool failed;
} Printer;

/* ---- print_doc.c ------------------------------------------------------------------------------------------------------ */

/* Opens a doc: what is written from here on belongs to it. */
void doc_begin(Printer *p, const Expr *opened_by);
/* Closes the last doc that was opened. */
Doc doc_end(Printer *p);
/* What the open doc was given so far becomes a piece of it. */
void doc_settle(Printer *p);
/* Writes blanks without a place in the buffer. */
void doc_blanks(Printer *p, uint32_t n);
/* Appends a piece of the buffer, or another doc, which then is a part of this one. */
void doc_add(Printer *p, Doc *doc, size_t from, size_t to);
void doc_splice(Printer *p, Doc inner);
/* The same with two blanks more before each of its lines. */
void doc_splice_deeper(Printer *p, Doc inner);
void doc_write(const Printer *p, Buf *out, Doc doc);

/* ---- print_order.c ---------------------------------------------------------------------------------------------------- */

void order_init(PrintOrder *order);
void order_deinit(PrintOrder *order);
/* Whether the text has to be made again. */
bool order_again(PrintOrder *order);
/* A scope begins inside another one, or ends. */
void order_open(Printer *p, const Expr *opened_by, const Expr *inside);
void order_close(Printer *p, const Expr *opened_by);
/* The node, which has its line, is used in the open doc. */
void order_use(Printer *p, const Expr *e);
/* The node's line is written in the open doc. */
void order_line(Printer *p, const Expr *e);
/* Calls `write` with each node that must have its line before e opens its scope and has none; whether there is one. */
bool order_before(Printer *p, const Expr *e, void (*write)(Printer *p, const Expr *e));
/* Looks over a definition's text. */
void order_check(Printer *p, const char *text, size_t n);

/* ---- print_nodes.c --------------------------------------------------------------------------------------------------- */

PrintNode *node_find(Printer *p, const Expr *e); /* NULL when there is none */
PrintNode *node_get(Printer *p,
                    const Expr *e); /* made when there is none; valid until the next is made */
/* Gives a variable its name, unique in the text. */
PrintNode *name_var(Printer *p, const Var *v);
void put_var(Buf *b, const PrintNode *node);

/* ---- print_text.c ---------------------------------------------------------------------------------------------------- */

/* Written in place wherever it stands. */
static inline bool is_atom(const Expr *e)
{
    return e->kind <= EXPR_CON;
}

/* The type of a node and its place, as the style wishes. */
void put_comment(Printer *p, Buf *b, const Expr *e);
void put_constant(Printer *p, Buf *b, const Constant *c);
/* `meta[relay.Constant][k]` whatever the constant is. */
void put_meta(Printer *p, Buf *b, const Constant *c);
bool constant_is_literal(const Constant *c);
/* A variable where it is bound: name, type, comment. */
void put_binder(Printer *p, Buf *b, const Var *v);
void put_pattern(Printer *p, Buf *b, const Pattern *pattern);
/* Gives each type parameter in e another name that has that of one around it. */
void name_type_params(Printer *p, const Expr *e);
/* "[A, B](%x: T, key=value) -> R" */
void put_function_head(Printer *p, Buf *b, const Function *f);
/* ", key=value" for each attribute that is shown; `first` leaves the comma of the first out. */
void put_op_attrs(Printer *p, Buf *b, const Op *op, const Attrs *attrs, bool first);
void put_attrs(Printer *p, Buf *b, const Attrs *attrs, bool first);
void put_typedef(Printer *p, Buf *b, const TypeDef *def);
/* A type; its symbolic extents refer to the metadata. Whether all of it is there (type_print_as). */
bool put_type(Printer *p, Buf *b, const Type *t);

/* ---- print.c -------------------------------------------------------------------------------------------------------- */

/* The text that stands for a node where it is used: it was asked for before. */
void put_atom(Printer *p, Buf *b, const Expr *e);
/* Counts the edges to the nodes below root; before anything is written. */
void print_count_uses(Printer *p, const Expr *root);
/* Whose line begins here, where the style wants to know. */
void put_mark(Printer *p, const Expr *e);
/* Everything of one scope, behind what stands in the open doc and before `tail`. */
void print_body(Printer *p, Buf *out, const Expr *body, const char *tail);
/* Whether the work goes on. */
bool print_goes_on(Printer *p);

#endif
