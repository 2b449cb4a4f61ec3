/* Relay text to modules. Never uses the C stack over the depth of its input; after an error it goes on at the next `;`, `}` or `def`, so
 * that one text gives all its messages. */
#ifndef PARSER_PARSER_H
#define PARSER_PARSER_H

#include "ir/ctx.h"
#include "ir/module.h"

/* What a text may refer to besides itself. All lent. */
typedef struct ParseEnv {
    const Module *globals; /* earlier definitions, types and constructors; may be NULL */
    const PtrMap *locals; /* Name -> Var: variables of the session; may be NULL */
    const PtrMap
        *graph; /* Name of the digits ("0") -> Var: graph variables of the session; may be NULL */
    /* `import "prelude.rly"`: the module, retained for the caller, or NULL after a diagnostic at `span`. */
    Module *(*import)(void *data, Str path, Span span);
    void *data;
    bool
        keep_broken; /* a text with errors is a module all the same, which says so: what could be read is to be checked too */
    bool strict; /* what the original could not read is an error */
    const char *
        missing; /* "zeros", "random": constants that the metadata lacks, of the types in comments; NULL: an error */
    bool
        wants_version; /* definitions without a version are an error, unless they were printed so */
    bool gaps; /* some of those could not be read: names that nothing defines are not reported */
    bool redefine; /* a second definition of a name replaces instead of being an error (sessions) */
    /* A piece of a program that is filled in later: what nothing binds is a free variable of the module, `%x.y` too; attributes of
     * operators may be any expressions, and are kept as they are written; a string or `None` stands wherever an expression does, as a
     * variable that has its text as its name. */
    bool template;
} ParseEnv;

/* A whole text: header, imports, definitions and metadata; or one expression. The module is the caller's; NULL after diagnostics (but
 * see keep_broken), and of source 0, for which there was no memory. Types are not inferred. */
Module *parse_text(Ctx *cx, uint32_t source, const ParseEnv *env);

/* Definitions that stand here and there, read again as one module: in each range one `def`, `type` or `extern type`. What `base` imported
 * (NULL: nothing) belongs to the module too. NULL after diagnostics. */
Module *parse_definitions(Ctx *cx, size_t n, const Span *ranges, const Module *base,
                          const ParseEnv *env);

/* One pass parameter list `{k=v, …}` or attribute value in Relay's spelling, dicts included; NULL kind false after a diagnostic. */
bool parse_attr_value(Ctx *cx, Arena *arena, uint32_t source, Span where, AttrValue *out);

/* What the text binds the call of this operator at this place to: `a` of `let %a: T = f(x);`, `3` of `%3 = f(x);`. Empty where it is part
 * of another expression, or of what another operator became: a pass gives all that the place of what it was. */
Str parse_bound_name(const SourceMap *sources, Span span, const char *callee);

/* ---- cells: item by item, since what follows depends on what came before ---------------------------------------------- */

typedef enum CellItemKind {
    CELL_DEFINITIONS, /* one or more `def`, `type`, `import` in a row */
    CELL_LET, /* `let %x = e;` with nothing it is the binding of, or `%0 = e;` */
    CELL_EXPR, /* also one behind `free_var`; its module has those that are no variables of the session */
    CELL_COMMAND, /* `:type 1 + 2`, to the end of the line */
    CELL_END,
    CELL_ERROR, /* reported */
} CellItemKind;

typedef struct CellItem {
    CellItemKind kind;
    Span span;
    Module *module; /* the caller's: definitions, or `expr` for LET (the value) and EXPR */
    Var *var; /* LET, and ERROR in one: the variable that later items see; lies in `module` */
    bool graph; /* the same: it was `%0 = e` */
    bool lost; /* ERROR: nobody knows where the next item begins */
    Str command; /* COMMAND: name without colon */
    Span args; /* COMMAND: the rest of the line, trimmed */
} CellItem;

typedef struct CellParser {
    Ctx *cx;
    uint32_t source;
    uint32_t at; /* byte offset of the next item */
    bool lenient; /* behind one that was lost: names that nothing defines may be its */
} CellParser;

void cell_parser_init(CellParser *p, Ctx *cx, uint32_t source);
/* The next item. `env` may differ from call to call. A `let` whose body follows directly is taken apart: each binding is an item, so
 * that its variable stays visible in later cells. */
void cell_parser_next(CellParser *p, const ParseEnv *env, CellItem *out);

/* One expression in a range of a source: a command's argument. The module's `expr`; NULL after a diagnostic. */
Module *parse_range(Ctx *cx, Span range, const ParseEnv *env);

/* Whether more lines are wanted: brackets open, a string or comment unfinished, `let … ;` or `=>` or an infix operator last. */
typedef enum { TEXT_COMPLETE, TEXT_INCOMPLETE, TEXT_INVALID } TextState;
TextState text_state(const char *text, size_t len, int *indent);

/* Tokens for colouring and completion, of any text however broken: kinds as in relay.h. */
typedef struct LexedToken {
    uint32_t from, to;
    const char *kind;
} LexedToken;
void lex_each(const char *text, size_t len, void (*token)(void *data, const LexedToken *t),
              void *data);
/* Keywords, in alphabetical order, ends with NULL. */
extern const char *const relay_keywords[];

#endif
