/* What a compilation shares. One for a session; the first argument of nearly everything above `ir`. No global state besides. */
#ifndef IR_CTX_H
#define IR_CTX_H

#include "base/diag.h"
#include "base/limit.h"
#include "base/progress.h"
#include "base/source.h"
#include "base/table.h"
#include "base/vec.h"
#include "ir/op.h"
#include "ir/type.h"
#include "ir/type_heap.h"
#include "runtime/blas.h"
#include "runtime/pool.h"

/* An arena from which types are reached, in the list of its context as long as it lives. */
typedef struct TypeRoot TypeRoot;
struct TypeRoot {
    Ctx *cx;
    const Arena *arena;
    TypeRoot *older, *newer;
};

struct Ctx {
    Arena arena; /* names, and what else lives as long as the context */
    TypeHeap heap; /* types, their variables, the definitions of data types */
    TypeRoot *roots; /* the newest */
    Arena *
        open; /* of the checker at work: types with holes, and what making types takes; NULL: `arena` */
    Interner names;
    SourceMap sources;
    Diags own_diags;
    Diags *diags; /* where diagnostics go now; normally &own_diags */
    Limits limits;
    Progress *progress; /* of the session's work; NULL: nobody looks */
    TypeTable types;
    uint32_t holes; /* number of the next hole */
    uint32_t vars; /* of the next type variable */
    Vec(DimSymbol) symbols; /* extent INT64_MIN + k is symbol k */
    const OpTable *ops; /* the operators there are */
    PtrMap op_index; /* name -> Op; made when an operator is first looked up */
    bool forms; /* an operator was named that stands for a program (OP_FORM) */
    PtrMap op_types; /* Op -> Type: of operators used as values */
    PtrMap rules; /* Op -> Module: the text of its gradient (passes/adjoint.h), once it was read */
    PtrMap con_infos; /* hash of what tells constructors apart -> what their values share */
    PtrMap
        stand_ins; /* Name -> Type: variables that stand for holes where those are shown, as `?1` */
    Pool *pool;
    Blas *blas;
    const Type *poison, *unit, *boolean; /* made once */
    const TypeDef *rows; /* likewise */
};

/* For what making a type takes. */
static inline Arena *ctx_scratch(Ctx *cx)
{
    return cx->open ? cx->open : &cx->arena;
}

/* False when memory is refused. The table must outlive the context. */
bool ctx_init(Ctx *cx, const OpTable *ops);
void ctx_deinit(Ctx *cx);

/* An attempt whose diagnostics nobody hears: `found` has them until it ends. */
typedef struct Attempt {
    Diags found, *before;
} Attempt;
void attempt_begin(Attempt *a, Ctx *cx);
void attempt_end(Attempt *a, Ctx *cx);

const Name *ctx_name(Ctx *cx, const char *text);
const Name *ctx_name_str(Ctx *cx, Str text);

/* Whoever keeps types, variables or type definitions anywhere but on the stack of the work that goes on keeps them in an arena that the
 * context knows: those of modules, and of what the engines make. */
void ctx_root_add(Ctx *cx, TypeRoot *root, const Arena *arena);
void ctx_root_remove(TypeRoot *root);
/* When no work is under way: gives back the memory of types that nothing alive speaks of, if there may be enough of them. */
void ctx_collect(Ctx *cx);

/* A type definition whose constructors follow by `typedef_con`. */
TypeDef *typedef_new(Ctx *cx, const Name *name, uint32_t n_params, const TypeVar *const *params,
                     Span span);
Constructor *typedef_con(Ctx *cx, TypeDef *def, const Name *name, uint32_t n,
                         const Type *const *fields, Span span);
TypeVar *typevar_new(Ctx *cx, const Name *name, Span span);
/* `type Rows[A] { Row(A, Rows[A]), NoRow }`: lists of what passes gather; one for all programs of a context. */
const TypeDef *typedef_rows(Ctx *cx);

#endif
