/* What the files of the parser share.
 *
 * Expressions are parsed by a machine with a stack of its own: a Frame is an unfinished construct, and the operand that was read last
 * is given to the frame on top. So the depth of a text is a number of frames and never a depth of C calls. Types and patterns are
 * parsed by functions that call themselves, down to TYPE_DEPTH_MOST.
 *
 * A parsing function that returns false or NULL has reported why. Whoever can go on does: the machine at the end of a
 * statement or a bracket, the loop over definitions at the next definition. */
#ifndef PARSER_INTERNAL_H
#define PARSER_INTERNAL_H

#include "base/vec.h"
#include "ir/ctx.h"
#include "ir/metadata.h"
#include "parser/lexer.h"
#include "parser/parser.h"

/* What a name means that is no variable's alone. */
typedef struct Meaning {
    uint32_t type_at; /* the position in Parser.undo where the type parameter was bound last */
    uint32_t attr_at; /* likewise in Parser.attrs: a function's attribute of this key */
    const TypeVar *type_var; /* the type parameter in scope */
    TypeDef *type_def; /* the type of this text */
    Span type_span; /* where it was defined */
    const Constructor *con; /* of this text or, once looked up, of the environment */
    const Op *op;
    bool looked_up; /* con and op were asked for */
} Meaning;

/* A name at this point of the text. One for each spelling, dotted names included. */
typedef struct Symbol {
    const Name *name; /* NULL: the text has not used it */
    Var *var; /* the local in scope */
    const Var *ended; /* the last local of the name whose scope has ended, */
    Meaning *meaning; /* NULL until it is asked for */
    uint32_t ended_in; /* and the definition it stands in */
    uint32_t var_at; /* the position in Parser.undo where the local was bound last */
    uint32_t reported; /* the definition in which it was reported as undefined: once is enough */
    uint32_t
        own; /* 1 + the size of Parser.undo where the value of a let of this name began, that is still read; 0: none */
} Symbol;

/* A graph variable, and how many names were bound where it was, the last of them with this serial. */
typedef struct GraphBinding {
    Expr *e;
    uint32_t names, serial;
} GraphBinding;

/* What graph variables stand for, by number. Most texts count from 0 without gaps; numbers far beyond what was bound so far
 * are kept by name. */
typedef struct GraphVars {
    Vec(GraphBinding) at;
    PtrMap others; /* Name of the digits -> Expr; NULL once it was reported as unbound */
} GraphVars;

/* Symbols stand by the numbers of their names, in pages, since a text uses names that were met together. */
#define SYMBOL_PAGE 64
typedef Vec(Symbol *) SymbolPages;

/* An expression and the text it came from; `use` tells that the node stands elsewhere and is only referred to here. */
typedef struct Operand {
    Expr *e;
    uint32_t from, to;
    bool use;
    bool statement; /* a match or a block without parentheses */
} Operand;

/* A meaning that the end of a scope brings back. */
typedef struct Undo {
    Symbol *symbol;
    const void *old;
    bool type; /* a type parameter, not a local */
    uint32_t serial; /* from 1 */
} Undo;

/* `let` bindings of a sequence whose body is not read yet. */
typedef struct Pending {
    Var *var;
    Operand value;
    uint32_t from;
} Pending;

typedef enum FrameKind {
    FRAME_TOP, /* a whole text */
    FRAME_ITEM, /* an item of a cell, or the value of its let: no sequence */
    FRAME_FUNCTION, /* the body of fn or def */
    FRAME_BLOCK,
    FRAME_PAREN, /* grouping or tuple */
    FRAME_ARGS, /* arguments of a call */
    FRAME_REF, /* arguments of ref, ref_read, ref_write */
    FRAME_COND,
    FRAME_THEN,
    FRAME_ELSE,
    FRAME_ELSE_IF, /* `if` directly behind `else` */
    FRAME_SCRUTINEE,
    FRAME_CLAUSE,
    FRAME_BINARY, /* left operand and operator */
    FRAME_NEGATE, /* behind a minus that stands before an operand */
    FRAME_LET, /* the value of a let */
    FRAME_CHAIN, /* bindings and one expression, as the value of a let */
    FRAME_GRAPH, /* the value of a graph binding */
    FRAME_ATTR, /* an attribute that is an expression */
} FrameKind;

/* A type definition that was declared: where it begins, ends, and where its constructors stand. */
typedef struct Declared {
    TypeDef *def;
    Span range; /* of the text that is read */
    uint32_t start; /* `extern`, where it stands before */
    uint32_t from, body, end;
    bool is_extern;
} Declared;

/* The head of a function whose body is being read. */
typedef struct FunctionHead {
    TypeVarList type_params;
    VarList params;
    const Attrs *attrs;
    const Type *ret_type;
} FunctionHead;

typedef struct Frame {
    uint8_t kind; /* FrameKind */
    uint8_t token; /* of the operator, of ref…, match or match? */
    bool recursive; /* LET: the variable is in scope in its value */
    bool comma; /* PAREN: a tuple */
    uint32_t from; /* where the construct begins */
    uint32_t open; /* its last opening bracket, for messages */
    uint32_t args; /* what Parser.args, .lets, .undo, .attrs hold up to here is of outer frames */
    uint32_t lets;
    uint32_t undo;
    uint32_t attrs;
    uint32_t scopes; /* what Parser.scopes holds up to here is of outer frames; */
    uint32_t scopes_let; /* and where the first let of this one opened a scope; 0: none did */
    union {
        Operand left; /* BINARY; ARGS: callee; THEN, ELSE: condition; CLAUSE: scrutinee */
        FunctionHead *head; /* FUNCTION */
        struct {
            Var *var;
            Symbol *symbol;
            uint32_t own; /* the symbol's before */
        } let; /* LET */
        Token graph; /* GRAPH */
    };
    union {
        Operand then; /* ELSE, ELSE_IF */
        struct {
            uint32_t clauses, from;
            Pattern *pattern;
        } clause; /* CLAUSE */
    };
} Frame;

typedef struct PendingClause {
    Clause clause;
    Operand body;
} PendingClause;

typedef enum ParseState {
    STATE_STATEMENT, /* a statement is to begin */
    STATE_OPERAND, /* an operand is to begin */
    STATE_VALUE, /* Parser.value was read */
} ParseState;

/* A tensor type as it was written, and what it is. */
typedef struct WrittenType {
    Str text; /* of a source */
    const Type *type; /* NULL: not known */
} WrittenType;

enum { WRITTEN_TYPES = 64, WRITTEN_MOST = 128 };

/* What parse_ahead.c knows of a bracket that is not closed: the function literal whose body it opens, and the `fn`
 * behind it whose body is still to come. */
typedef struct Opened {
    size_t literal; /* its position in Parser.literals + 1; 0: none */
    bool head;
    uint32_t from; /* of the `fn` */
} Opened;

typedef struct Literal {
    uint32_t from, to; /* to: 0 where it is not closed */
} Literal;

typedef struct Parser {
    Ctx *cx;
    Module *m;
    Arena *arena; /* of the module */
    Arena scratch;
    const ParseEnv *env;
    uint32_t source;
    Lexer lx;
    Token tok; /* not taken yet */
    uint32_t last_to; /* end of the token before */
    bool after_fault; /* something that cannot be read was passed over before `tok` */
    uint32_t
        blamed_to; /* end of what was reported last: what is wrong directly behind it follows from that */
    uint32_t doubted; /* behind a bracket that is not closed, as a message said already; 0: none */
    uint32_t errors;
    uint32_t fault_to; /* end of the last character that cannot be read */
    uint32_t passable; /* of them: the text was read, with the poison type where they are; */
    uint32_t unjudged; /* or the text was read, but its types cannot be told */
    uint32_t taken; /* tokens */
    uint32_t definition; /* how many began, from 1 */
    bool nested; /* one began inside another: what stands behind it is the rest of that */
    bool inside; /* one: the variables of the session are out of reach */
    uint32_t depth; /* of types, patterns, attribute lists */
    const Var *item; /* of the item that is a let; NULL: none */
    bool lines; /* a cell: what begins a line is no call of what stands before */
    bool
        import_missing; /* an import or a type could not be read, or is needed: what it would define is not reported */
    bool
        skipping; /* over text that cannot be read: signs of other languages in it are not reported */
    bool minus; /* the number that comes next has one minus more, apart from it */
    bool lambda; /* `(%x: int32)` was reported as the head of a function: `=>` may follow */
    bool lenient; /* names that nothing defines are not reported */
    uint64_t bad_seen[2]; /* ASCII characters that were reported */

    SymbolPages symbols;
    GraphVars graph;
    uint32_t bound; /* names so far */
    Vec(Undo) undo;
    Vec(Operand) args;
    Vec(Pending) lets;
    Vec(Attr) attrs;
    Attrs *lent; /* the record that parse_attrs_lend gives */
    size_t lent_most;
    Vec(PendingClause) clauses;
    Vec(Dim) dims; /* of the shape that is being read */
    Vec(AttrValue) values; /* of the lists that are being read */
    Vec(Frame) frames;
    Vec(Literal) literals; /* as they begin; parse_ahead.c has looked up to `ahead_to` */
    Vec(Opened) opened;
    uint32_t ahead_to;
    ParseState state;
    Operand value;
    const Op *infix[TOKEN_KINDS];
    WrittenType written[WRITTEN_TYPES]; /* by the hashes of their texts */
    PtrMap defaults; /* Op -> the record of calls that give no attributes */
    Vec(Declared) declared; /* in the order of the text */

    Expr *poison; /* stands where an error was reported */

    /* strict.c */
    Vec(const Symbol *)
        scopes; /* what the original has bound, and NULL where a scope of it begins */
    PtrMap numbers; /* Name of the digits of each graph variable of the text */
    bool ended; /* behind an extern type */
    bool scrutinee_called; /* what is matched is a call without parentheses around it */

    Metadata meta;
    PtrMap made_up; /* number of a constant that the metadata lacks + 1 -> the constant */
    bool meta_known; /* the section was looked for */
    bool meta_broken; /* and reported */
    uint32_t meta_from; /* where it begins, behind its mark; 0: not there */
} Parser;

/* ---- parse_base.c: tokens, messages, names ----------------------------------------------------------------------- */

/* False when memory is refused. Takes the first token. */
bool parser_init(Parser *p, Ctx *cx, uint32_t source, uint32_t from, uint32_t to,
                 const ParseEnv *env);
/* Everything but the module. */
void parser_deinit(Parser *p);
/* What belongs to one text alone is forgotten: metadata and graph variables. */
void parser_leave_text(Parser *p);

/* After so many tokens the limits are asked. */
#define TOKENS_TO_ASK 1024

void parse_advance(Parser *p);
/* The token behind the one that was not taken yet. */
Token parse_peek(const Parser *p);
static inline bool parse_at(const Parser *p, TokenKind kind)
{
    return p->tok.kind == kind;
}
/* Whether the next token stands on a later line than the one before. */
/* At a variable that is bound here: numbers behind its name, as in `%input.1`, are part of it. */
void parse_whole_name(Parser *p);
bool parse_line_before(const Parser *p);
bool parse_take(Parser *p, TokenKind kind); /* takes it if it is there */
bool parse_expect(Parser *p, TokenKind kind);
/* The same for a closing bracket; the message shows the opening one. */
bool parse_expect_close(Parser *p, TokenKind kind, uint32_t open);
/* A comma, or the closing bracket (which is not taken); `*more` tells which. */
bool parse_separator(Parser *p, TokenKind close, uint32_t open, bool *more);

Diag *parse_error(Parser *p, DiagCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Where only the original is to be read (ParseEnv.strict): an error that names what it would not read, or would take for something else. */
void parse_wider(Parser *p, Span span, const char *construct, const char *help);

/* ---- strict.c: the same for what needs a closer look. Nothing happens where the original is not asked for. ---- */

/* The original opens a scope, or leaves those behind the first `scopes` entries of Parser.scopes. */
void strict_open(Parser *p);
void strict_close(Parser *p, uint32_t scopes);
void strict_bind(Parser *p, const Symbol *s, Span span);
/* Behind a let of this frame. */
void strict_let(Parser *p, Frame *f);
void strict_local(Parser *p, const Symbol *s, Token t);
void strict_graph(Parser *p, Token t);
void strict_constructor(Parser *p, const Constructor *con, Token t);
void strict_type_name(Parser *p, Token t);
void strict_attrs(Parser *p, const Op *op, const Attrs *written);
/* Of a call whose attributes are right: those that are as releases before 0.9 have them. */
void strict_earlier(Parser *p, const Op *op, const Attrs *written, Span span);
/* All of the text, token by token. */
void strict_tokens(Parser *p);
/* An error of a name, known already or not to be shown. */
static inline void parse_count_name(Parser *p)
{
    p->errors++;
    p->passable++;
}
static inline void parse_count_unjudged(Parser *p)
{
    p->errors++;
    p->unjudged++;
}
/* Errors after which what was read cannot be checked. */
static inline uint32_t parse_unreadable(const Parser *p)
{
    return p->errors - p->passable;
}
/* When no further error would be shown, the text ends here: it may hold a million more. */
bool parse_end_of_errors(Parser *p);
/* "expected WANTED, found …" at the next token. NULL when what stands before it was reported already. */
Diag *parse_expected(Parser *p, DiagCode code, const char *wanted);
/* The token may be put behind what was read last. */
void fix_missing(const Parser *p, Diag *d, TokenKind kind);
/* What to write instead, if `found` is what other languages write where `wanted` is expected: parse_hint.c. */
bool hint_habit(const Parser *p, Diag *d, Str found, const char *wanted);
/* The constructor or type may be the prelude's, which the text does not import. */
bool hint_import(Parser *p, Diag *d, const Name *name);
/* It may be an earlier one, of a type that this text defines again. */
bool hint_replaced(Parser *p, Diag *d, const Name *name);
/* The names of constructors that may have been meant; how many. */
size_t hint_constructors(Parser *p, size_t most, const char **names);
void hint_token(const Parser *p, Diag *d, const char *wanted); /* for the next token */
/* Reports that nesting ends here, and ends the work. */
bool parse_too_deep(Parser *p, const char *what);

static inline Span parse_span(const Parser *p, uint32_t from, uint32_t to)
{
    return (Span){p->source, from, to};
}
static inline Span token_span(const Parser *p, Token t)
{
    return (Span){p->source, t.from, t.to};
}
static inline Str token_text(const Parser *p, Token t)
{
    return (Str){p->lx.text + t.from, t.to - t.from};
}
/* The name behind the sigil. */
static inline Str token_name(const Parser *p, Token t)
{
    return (Str){p->lx.text + t.from + 1, t.to - t.from - 1u};
}
const char *parse_copy(Parser *p, Str s); /* with a NUL, until the parser goes */

Symbol *symbol_get(Parser *p, Str text);
/* NULL where nothing has the name, which then is none. */
Symbol *symbol_known(Parser *p, Str text);
Symbol *symbol_of(Parser *p, const Name *name);
Meaning *symbol_meaning(Parser *p, Symbol *s);
/* The k-th symbol that may be there, in the order in which names were first met; NULL where there is none. */
static inline const Symbol *symbol_at(const Parser *p, size_t k)
{
    const Symbol *page = p->symbols.at[k / SYMBOL_PAGE];
    return page && page[k % SYMBOL_PAGE].name ? &page[k % SYMBOL_PAGE] : NULL;
}
static inline size_t symbols_most(const Parser *p)
{
    return p->symbols.n * SYMBOL_PAGE;
}
/* The constructor or operator of the name; NULL for neither. */
const Constructor *symbol_con(Parser *p, Symbol *s);
const Op *symbol_op(Parser *p, Symbol *s);
/* The type of this text that takes the place of a constructor's type; NULL for none. */
const TypeDef *con_replaced(Parser *p, const Constructor *con);
/* What the digits of a graph variable stand for; NULL for nothing. */
Expr *graph_find(Parser *p, Str digits);
void graph_bind(Parser *p, Str digits, Expr *e);
void scope_bind(Parser *p, Symbol *s, Var *var);
/* Whether the local or the type parameter was bound at this position of Parser.undo or a later one. */
bool scope_binds(const Parser *p, const Symbol *s, uint32_t since);
bool scope_binds_type(const Parser *p, const Symbol *s, uint32_t since);
void scope_bind_type(Parser *p, Symbol *s, const TypeVar *var);
void scope_leave(Parser *p, uint32_t undo);

/* `IDENT { "." IDENT }`, taken. */
bool parse_dotted(Parser *p, Str *out);

/* ---- parse_literal.c ------------------------------------------------------------------------------------------- */

/* The number in the next token, taken; after an error, zero. */
Value parse_number(Parser *p);
/* Takes a number of at most nine digits without anything else, as most are. */
bool parse_small(Parser *p, int32_t *out);
/* The value of a float's token as it is written, not rounded to its type. */
double parse_exact(const Parser *p, Token t);
/* The digits of an index, of a field or else of an object of the metadata. */
bool parse_index(Parser *p, bool field, int64_t *out, uint32_t *to);
/* The same behind the point, which is the next token. */
bool parse_index_behind(Parser *p, int64_t *out, uint32_t *to);
/* The text of a string token with its escapes decoded, in the module's arena. */
Str parse_string(Parser *p);

/* ---- parse_meta.c ---------------------------------------------------------------------------------------------- */

/* `meta[KEY][k]`, taken. */
typedef struct MetaRef {
    Str key;
    int64_t index;
    Span span;
} MetaRef;
bool parse_meta_ref(Parser *p, MetaRef *out);
/* Whether the next token begins the reference to a constant. */
bool parse_at_meta_expr(const Parser *p);
/* The expression that is referred to: one node however often. NULL after an error. */
Expr *parse_meta(Parser *p);
/* Whether the text has a metadata section, which is read now, or was. */
bool parse_metadata(Parser *p);
/* An extent, a value of an attribute; false when the text could not be followed. */
bool parse_meta_extent(Parser *p, Dim *out);
bool parse_meta_value(Parser *p, AttrValue *out);
/* The whole attributes of a call, onto p->attrs; `op` is NULL when it calls no operator. */
bool parse_meta_record(Parser *p, const Op *op);

/* ---- parse_type.c ---------------------------------------------------------------------------------------------- */

const Type *parse_type(Parser *p); /* poison after an error */
/* `[A, B]` if it is there: the parameters are in scope from here on. */
bool parse_type_params(Parser *p, TypeVarList *out);

/* ---- parse_attrs.c --------------------------------------------------------------------------------------------- */

/* Whether the next tokens are `key =`. */
bool parse_at_attr(Parser *p);
/* A key and, unless it is an expression, its value, onto p->attrs. `*expr` tells that an operand is to be read by the machine and
 * to be put into vec_last(&p->attrs). */
bool parse_attr(Parser *p, bool *expr);
bool parse_attr_literal(Parser *p, AttrValue *out);
/* p->attrs from `base` on, taken from there, as a record of the module; NULL for none. */
const Attrs *parse_attrs_take(Parser *p, uint32_t base);
/* The same as a record that the next call overwrites. */
Attrs *parse_attrs_lend(Parser *p, uint32_t base);

/* ---- parse_ahead.c --------------------------------------------------------------------------------------------- */

/* Whether the next tokens are a function literal and nothing besides, that is no call of one. */
bool parse_at_literal(Parser *p);

/* ---- parse_pattern.c ------------------------------------------------------------------------------------------- */

Pattern *parse_pattern(Parser *p);

/* ---- parse_expr.c: the machine --------------------------------------------------------------------------------- */

/* Reads the expression of the module, until the frame at the bottom is done. False when nothing could be read; errors are counted. */
bool parse_expr(Parser *p, FrameKind bottom);
/* `(params) -> T { body }` of a def; the head as far as it was read. */
Function *parse_function(Parser *p, uint32_t from, FunctionHead *head);

Frame *parse_frame_push(Parser *p, FrameKind kind, uint32_t from);
static inline Frame *frame_top(Parser *p)
{
    return &vec_last(&p->frames);
}
void parse_frame_pop(Parser *p);
/* A call of operands, whose places are noted. */
Expr *make_call(Parser *p, Span span, const Operand *callee, uint32_t n, const Operand *args,
                const Attrs *attrs);
/* Notes that the child in this slot was referred to at the operand's place. */
void note_use(Parser *p, Expr *const *slot, Operand o);
void set_value(Parser *p, Expr *e, uint32_t from, uint32_t to);

/* parse_recover.c */
/* The bracket that ends the construct; TOKEN_END for none. */
TokenKind frame_closing(uint8_t kind);
/* A construct whose parts are separated by `;`: what stands in brackets, and a whole text. */
static inline bool frame_is_sequence(uint8_t kind)
{
    return kind == FRAME_TOP || frame_closing(kind) != TOKEN_END;
}
/* Drops the frames above `n`; a variable whose value could not be read is bound all the same. */
void parse_unwind(Parser *p, size_t n);
/* Passes over text to a place where a construct above `base` can go on. False when there is none. */
bool parse_recover(Parser *p, size_t base);

/* parse_atom.c: what begins an operand */
bool step_operand(Parser *p);
bool step_statement(Parser *p);
bool function_head(Parser *p, FunctionHead *head);
/* Notes that the name before the next token is undefined; whether that is counted as an error only, and not reported. */
bool undefined_again(Parser *p, Symbol *s);
bool let_binding(Parser *p);

/* parse_call.c */
bool call_begin(Parser *p);
bool call_continue(Parser *p);
bool close_args(Parser *p);
bool close_attr(Parser *p);
bool function_attrs(Parser *p, TokenKind close, const Attrs **out);

/* ---- parse_module.c --------------------------------------------------------------------------------------------- */

bool parse_at_definition(const Parser *p);
bool parse_at_import(const Parser *p);
bool parse_import(Parser *p);
/* Declares the types that are defined from here on, so that definitions may stand in any order: in the whole text, or in the
 * definitions that follow directly. */
typedef enum DeclareScope { DECLARE_TEXT, DECLARE_GROUP } DeclareScope;
void declare_types(Parser *p, DeclareScope scope);
/* The version line; an error for a version that is not ours. */
void parse_header(Parser *p);
/* Whether `#[word` is next; and the report of one that is unknown, skipped. */
bool parse_at_mark(const Parser *p, const char *word);
void parse_wrong_mark(Parser *p);
/* The next definition; after an error, passes over what cannot be read. */
void parse_definition(Parser *p);

#endif
