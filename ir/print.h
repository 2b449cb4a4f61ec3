/* Canonical text, as language.md section 10 says. Printing never recurses over the depth of the program. */
#ifndef IR_PRINT_H
#define IR_PRINT_H

#include "ir/module.h"

/* Texts of one program at several moments: a line's number, which is not counted but asked for, and what tells whose line it is. */
typedef struct PrintNodes {
    /* At least 0, and another for each node. */
    int32_t (*number)(void *data, const Expr *e);
    /* What stands for the node in front of its line, behind the blanks, between the bytes 1 and 2. */
    uint32_t (*mark)(void *data, const Expr *e);
    /* What a variable is called, asked once for each as they are met: another name for each, that begins with `stem`. */
    const char *(*name)(void *data, const Var *v, const char *stem);
    void *data;
} PrintNodes;

#define PRINT_MARK_BEGIN '\1'
#define PRINT_MARK_END '\2'

typedef struct PrintStyle {
    bool types; /* annotations that inference found, and comments behind nodes */
    bool annotations; /* the former without the latter */
    bool spans; /* places in comments, where they are known */
    bool no_header; /* without the version line */
    bool no_metadata; /* meta[…][k] without the section */
    bool six_digits; /* floats as %g prints them, instead of the shortest that reads back */
    bool imported; /* definitions that came from a library too */
    const PrintNodes *nodes; /* NULL: lines are numbered in the order in which they are written */
} PrintStyle;

/* When a limit ends it, the text is not whole and `failed` is set in it. */
void ir_print_module(Buf *out, const Module *m, PrintStyle style);
/* An expression by itself, free variables undeclared: for messages and results. */
void ir_print_expr(Buf *out, const Expr *e, PrintStyle style);
/* A literal or `meta[relay.Constant]` for a constant's value; attribute values. */
void ir_print_attr(Buf *out, const AttrValue *v);

#endif
