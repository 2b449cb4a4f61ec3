/* Differentiation of a function, as a function; in reverse mode:
 *
 * Every function f: fn (T…) -> R that the program calls becomes one that returns its result and a pullback, which makes the adjoints of
 * the arguments out of that of the result:
 *
 *     fn (%x: T) { multiply(%x, exp(%x)) }
 *  => fn (%x: T) { let %a = exp(%x); let %b = multiply(%x, %a); (%b, fn (%g: T) { (…,) }) }
 *
 * A straight line is undone by a straight line. Each branch of an `if` and each clause of a `match` has a pullback of its own, which
 * gives the adjoints of the variables that it uses. What a function literal captures cannot stand in its type: a reference beside
 * the variable collects what its pullbacks add. A reference is a pair of itself and one for the adjoint of its content. Data types
 * are their own adjoints, field by field. Nothing else is added to the language, so a derivative can be differentiated again.
 *
 * The scheme for closures follows B. A. Pearlmutter and J. M. Siskind, "Reverse-Mode AD in a Functional Framework: Lambda the Ultimate
 * Backpropagator", TOPLAS 30(2), 2008; that of straight lines is in A. Griewank and A. Walther, "Evaluating Derivatives", SIAM 2008,
 * chapter 3.
 *
 * Forward mode has dual numbers: beside each variable stands how it changes. Functions take and give both, so that the code stays as it
 * was, its loops, recursions and data too:
 *
 *     fn (%x: T) { multiply(%x, exp(%x)) }
 *  => fn (%x: T, %d: T) { let %a = exp(%x); let %b = multiply(%d, %a); …; (multiply(%x, %a), …) }
 *
 * How the result of an operator changes is the transpose of its pullback, which is in its row.
 *
 * Of a function that is called only the derivatives are computed that some call wants (`Piece.active`); the others are zeros.
 *
 * Functions that do not reach themselves are unfolded first, and those that multiply by what they hand on to themselves become literals. The others are bound in front of the result, each once for each choice of
 * its type parameters (a `Piece`), and so are the functions that make zeros of a data type and add two values of it. */
#ifndef PASSES_VJP_H
#define PASSES_VJP_H

#include "passes/lets.h"
#include "passes/pass.h"

typedef enum VjpGives {
    VJP_PULLBACK, /* fn (T…) -> (R, fn (R) -> (T…,)) */
    VJP_VALUE_AND_GRAD, /* fn (T…) -> (R, (T…,)): the adjoint of the result is ones */
    VJP_GRAD, /* fn (T…) -> (T…,) */
    VJP_FORWARD, /* fn (T…, T…) -> (R, R): the result, and how it changes in a direction */
} VjpGives;

/* What a derivative is made of, and where it goes. */
typedef struct VjpCall {
    Ctx *cx;
    Module *module; /* receives the nodes; its definitions can be called */
    const Module *env; /* and those of this one; NULL: none */
    Arena *scratch;
    Span where; /* of the form that asks */
    const char *what; /* its name */
    /* The expression that a variable which is bound outside stands for; NULL: nobody knows. */
    const Expr *(*value_of)(void *data, const Var *v);
    bool (*is_made_once)(void *data, const Expr *e); /* made again it would be another */
    void *data;
} VjpCall;

/* The derivative of a typed function, an expression without types. NULL after a diagnostic. */
Expr *vjp(const VjpCall *call, const Function *f, VjpGives gives);

/* Whether values of the type hold functions or references. `con`, which may be NULL, becomes the constructor in a field of which one lies,
 * where there is such. */
bool vjp_holds_code(Ctx *cx, const Type *t, const Constructor **con);

/* ---- what its files share ------------------------------------------------------------------------------------------------- */

typedef enum PieceKind {
    PIECE_FUNCTION,
    PIECE_ZEROS,
    PIECE_SUM,
    PIECE_NOTE,
    PIECE_NOTED
} PieceKind;

typedef struct Piece {
    PieceKind kind;
    const Def *def; /* of a function */
    const Type *type; /* of the data; of a pair of factors */
    TypeVarList vars; /* the type parameters of a function, and what they are here */
    const Type *const *with;
    Var *var;
    bool *active; /* of a function: the parameters by which some call wants a derivative */
    bool stale; /* more of them than when it was made */
    Function *made;
    uint32_t group; /* of pieces that reach each other: the least of their numbers */
    uint32_t reaches; /* how many pieces it reaches */
} Piece;

/* The adjoint of a value while the backward code is written. Neither part: zero. */
typedef struct Adj {
    Expr *e; /* of a tensor or of data */
    struct Adj *fields; /* of a tuple */
} Adj;

typedef enum Holds { HOLDS_FLOAT = 1, HOLDS_CODE = 2 } Holds;

typedef struct Vjp {
    const VjpCall *call;
    Ctx *cx;
    LetMaker make;
    PtrMap holds; /* Type -> Holds + 1 */
    PtrMap entered; /* data types whose fields are being looked at */
    bool unsure; /* what a type holds depends on one of them */
    Vec(Piece *) pieces;
    const Piece *piece; /* the one at hand; NULL: the function itself */
    /* of the one at hand */
    PtrMap now; /* Var as it was -> what stands for it */
    PtrMap active; /* Var as it was, if it depends on a parameter */
    PtrMap captured; /* Var as it was, if a literal inside uses it */
    PtrMap sums; /* Var as it was -> what collects its adjoint */
    Places uses; /* as count_uses */
    PtrMap tangents; /* Var as it was -> Adj: how it changes; of a function with dual numbers */
    uint32_t functions; /* literals around the code at hand */
    uint32_t depth;
    int64_t parts; /* of values, that were gone over */
    bool forward; /* functions with dual numbers are made */
    bool references; /* there are some: every pullback has effects */
    bool failed; /* and it was reported */
} Vjp;

/* A node of the program cannot be differentiated: E0605. Returns NULL. */
Diag *vjp_refuse(Vjp *v, const Expr *e, const char *what);

/* It `does` `more than most` of something, as only what never ends does: E0605, once. */
void vjp_no_end(Vjp *v, const char *does, int most, const char *what);

/* vjp_value.c: types, and values like others. `t` is a type as the node has it. */
const Type *vjp_here(const Vjp *v, const Type *t); /* at the types of the piece */
unsigned vjp_holds(Vjp *v, const Type *t);
const Type *vjp_dual_type(Vjp *v, const Type *t); /* of what stands for a value of the type */
const Type *vjp_adjoint_type(Vjp *v, const Type *t);
Expr *vjp_zeros(Vjp *v, const Type *t, Expr *like);
Expr *vjp_sum(Vjp *v, Lets *l, const Type *t, Expr *a, Expr *b);
Piece *vjp_piece(Vjp *v, Piece want); /* the one that there is, or a new one */
void vjp_wants(Piece *p, uint32_t param); /* the derivative by that parameter */
Function *vjp_make_zeros(Vjp *v, const Type *t);
Function *vjp_make_sum(Vjp *v, const Type *t);
/* A call of a piece that is no function of the program. */
Expr *vjp_call_piece(Vjp *v, PieceKind kind, const Type *t, uint32_t n, Expr *const *args);
Expr *vjp_get(const Vjp *v, Expr *tuple, int64_t i);
Expr *vjp_op(const Vjp *v, const char *op, Expr *a, Expr *b); /* b NULL: of one argument */

bool adj_is_zero(const Adj *a);
/* Adds to an adjoint; what is computed is bound in l. */
void adj_add(Vjp *v, Lets *l, Adj *a, const Type *t, Expr *x);
void adj_join(Vjp *v, Lets *l, Adj *to, const Type *t, const Adj *from);
Adj *adj_field(Vjp *v, Adj *a, const Type *t, uint32_t i);
/* The whole, with zeros like `like` where it is zero. */
Expr *adj_expr(Vjp *v, const Adj *a, const Type *t, Expr *like);

/* vjp_loop.c: a definition that calls itself and hands on matrices by which it multiplies becomes a literal where it is called, which uses
 * them from outside: so their adjoints are collected there. */
typedef struct Loop {
    const Def *def;
    const bool *outside; /* the parameters that it then has no longer */
} Loop;

/* Whether the definition is such; it reaches itself by its own calls alone. */
bool loop_find(Vjp *v, const Def *def, Loop *out);
/* What stands for a call of it, without types. */
Expr *loop_inside(Vjp *v, const Loop *loop, const Call *call);

/* vjp_captured.c: variables that a literal inside uses. One was bound in l; code backward adds to its adjoint; what it is in the end. */
void captured_bound(Vjp *v, Lets *l, const Var *old);
void captured_add(Vjp *v, Lets *l, const Var *old, const Adj *a);
/* The same for the second operand of a call, out of the adjoint of its result. False: this is for `captured_add`. */
bool captured_note(Vjp *v, Lets *l, const Call *e, Expr *const *args, Expr *adjoint);
/* Sets the parts of the sum, and what collects it to zero; returns how many. Behind all code that adds to it. */
uint32_t captured_settle(Vjp *v, Lets *l, const Var *old, Expr *parts[2]);
/* fn (noted, pair) -> noted: notes a pair of factors; fn (noted) -> Tensor: the sum of the products of all. */
Function *vjp_make_note(Vjp *v, const Piece *p);
Function *vjp_make_noted(Vjp *v, const Piece *p);

/* vjp_block.c: the function in A normal form with its pullback. */
Function *vjp_function(Vjp *v, const Function *f, VjpGives gives);

/* And what that shares with the way forward: what stands for an operand, or for all of a list; NULL after a diagnostic. */
Expr *vjp_now(Vjp *v, const Expr *e);
Expr **vjp_now_all(Vjp *v, const ExprList *list);
/* The piece of a definition; `args` of a call say by which parameters it is differentiated, without them it may be by all. */
Expr *vjp_now_global(Vjp *v, const Expr *e, TypeList type_args, const ExprList *args);
bool vjp_is_active(const Vjp *v, const Expr *atom); /* it depends on a parameter */
bool vjp_any_active(const Vjp *v, const ExprList *list);
bool vjp_keeps(
    Vjp *v, const Call *e); /* numbers come out, or something goes in whose code may see numbers */
bool vjp_is_plain(Vjp *v, const Expr *e); /* no data that holds code; else a diagnostic */
bool vjp_is_pair(Vjp *v, const Expr *ref); /* a reference whose content has a derivative */
Var *vjp_var_like(const Vjp *v, const Var *old, const Type *annotation);
Var *vjp_bound_like(Vjp *v, const Var *old, const Expr *value);

/* vjp_forward.c: the function in A normal form with dual numbers. */
Function *vjp_forward(Vjp *v, const Function *f);

/* The node with literals around operators, constructors and polymorphic functions that it hands on or has as results. `old` has types. */
Expr *vjp_literals(Vjp *v, Rewriter *rw, const Expr *old, Expr *now);

#endif
