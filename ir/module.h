/* Modules: counted snapshots of definitions.
 *
 * A module owns the arena of the nodes that were made for it and keeps alive the modules whose nodes it still uses. It is filled while
 * it is made and changes no more afterwards. A text that is a bare expression is a module with `expr`. */
#ifndef IR_MODULE_H
#define IR_MODULE_H

#include "base/table.h"
#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/expr.h"

typedef struct Module Module;

typedef struct Def {
    const Name *name;
    Function *fn;
    Span span;              /* of the name */
    Module *home;           /* whose arena the function lies in; kept alive */
    bool imported;          /* from a library: present, but not part of the text */
    Function *written; /* before what stands for programs in it was replaced; NULL: `fn` is that */
} Def;

/* Where the child in a slot was written. There are as many as uses of variables: the source stands once. */
typedef struct UseSpan {
    Expr *const *slot;
    uint32_t from, to;
} UseSpan;

/* `_` where an expression is wanted: a variable that nothing binds, and what was in scope there. */
typedef struct ExprHole {
    Var *var;
    Var *const *scope;
    uint32_t n;
} ExprHole;

struct Module {
    uint32_t refs;
    Ctx *cx;
    Arena arena;
    TypeRoot root;
    Vec(Def) defs; /* in order of definition; at most one for a name; a removed one has no `fn` */
    Vec(const TypeDef *) types; /* likewise */
    Vec(const TypeDef *) imported_types; /* those of `types` that came from a library */
    PtrMap def_index; /* name -> position in defs + 1 */
    PtrMap type_index; /* name -> TypeDef */
    PtrMap con_index; /* name -> Constructor */
    Vec(Module *) uses; /* counted */
    PtrMap used; /* the same, to ask */
    Vec(uint32_t) sources; /* counted: the texts that it was read from, by their numbers */
    Module *next_dead; /* in the list of those being freed */
    Vec(UseSpan) use_spans; /* ir_use_span */
    bool use_spans_sorted; /* by slot */
    uint32_t use_source; /* of the first use that was noted */
    PtrMap use_sources; /* slot -> source, where it is another */
    Vec(Str) imports; /* the texts behind `import`, in order */
    Vec(Var *) free_vars; /* declared by free_var, in order */
    Vec(ExprHole) holes; /* of a text that is not finished: it has an error for each */
    Expr *expr; /* of a bare expression; else NULL */
    Expr *
        written; /* the same before what stands for programs in it was replaced; NULL: `expr` is that */
    struct GraphDocument *saved; /* the graph that it was read from (json_read.h); else NULL */
    bool scopes_open; /* variables may be used where nothing binds them: typecheck_module looks */
    bool has_header; /* the text began with its version */
    bool
        broken; /* the text had errors: definitions that could not be read have their declared types, and nothing may be run */
    bool gaps; /* and there may be definitions in it whose names are not known */
};

Module *module_new(Ctx *cx);
Module *module_retain(Module *m);
void module_release(Module *m); /* NULL is nothing */
/* Keeps `other` alive as long as m. */
void module_use(Module *m, Module *other);

/* From here on `part`, which was made from `owner`, lives as long as that: neither it nor what it keeps alive keeps `owner`. */
void module_own(Module *owner, Module *part);

/* Keeps the text alive as long as m. */
void module_use_source(Module *m, uint32_t source);

/* A new module with the definitions and types of m that keeps alive what those lie in, and not m. */
Module *module_snapshot(Module *m);
/* A new module with m's definitions, types, imports and header, that keeps m alive: what a pass starts from. Not `expr`. */
Module *module_derive(Module *m);
/* Whether the second holds what the first does, node for node the same: nothing was made anew. */
bool module_same(const Module *a, const Module *b);

/* Adds or replaces the definition of the name. `home` is kept alive when it is not m itself. */
void module_define(Module *m, const Name *name, Function *fn, Span span, Module *home);
void module_define_type(Module *m, const TypeDef *def);
/* Everything `from` defines, marked as imported; what m has already stays. */
void module_import(Module *m, Module *from);
/* What `from` imported, as imported. */
void module_adopt_imports(Module *m, const Module *from);
void module_remove(Module *m, const Name *name);
void module_remove_type(Module *m, const TypeDef *def);

const Def *module_find(const Module *m, const Name *name);
/* Whether it has a function of that name and type; any type for NULL. */
bool module_defines(const Module *m, const Name *name, const Type *type);
const Def *module_find_text(const Module *m, const char *name);
const TypeDef *module_find_type(const Module *m, const Name *name);
const Constructor *module_find_con(const Module *m, const Name *name);

/* The parser notes where a child that is shared (a variable, a graph binding) was written; `slot` is the address of the parent's
 * field or list element that holds it. */
void module_note_use(Module *m, Expr *const *slot, Span span);
/* Where the child in this slot was written: the noted place, else the child's own span. */
Span ir_use_span(const Module *m, Expr *const *slot);

/* Definitions in the order of printing: sorted by name in byte order. `out` has room for defs.n; returns how many. */
size_t module_sorted_defs(const Module *m, const Def **out, bool imported);

#endif
