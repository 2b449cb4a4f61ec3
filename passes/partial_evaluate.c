/* Computes what is known when the program is compiled, through calls, branches, matches and references.
 *
 *     def @pow(%x: float32, %n: int32) -> float32 { if (%n == 0) { 1f } else { %x * @pow(%x, %n - 1) } }
 *     def @main(%x: float32) -> float32 { @pow(%x, 3) }
 *  => def @main(%x: float32) -> float32 { … let %x_16 = multiply(%x, 1f); let %x_17 = multiply(%x, %x_16); multiply(%x, %x_17) }
 *
 * A value is known in part: it has an atom that stands for it in the new program, and perhaps a tensor, fields, a function, or the
 * identity of a reference. The new program is in A normal form; run DeadCodeElimination{inline_once=True} next.
 *
 * A call of a known function is unfolded as long as that comes nearer to an end: some argument is an older value, or a smaller number,
 * than in the calls of that function that are being unfolded; and as long as the program does not become too large (budget.h). */
#include "passes/beta.h"
#include "passes/budget.h"
#include "passes/fold.h"
#include "passes/lets.h"
#include "passes/to_a_normal_form.h"
#include "passes/types.h"

#include <stdio.h>

/* Calls that are unfolded inside each other; further ones stay calls. */
#define UNFOLD_MOST 600
/* Functions, branches and calls inside each other. */
#define NEST_MOST 4000

typedef struct Known Known;
typedef struct Frame Frame;

typedef enum KnownKind {
    KNOWN_NOTHING,
    KNOWN_TENSOR,
    KNOWN_TUPLE,
    KNOWN_REF,
    KNOWN_FUNCTION,
    KNOWN_CON, /* a constructor with its fields */
} KnownKind;

struct Known {
    KnownKind kind;
    Expr *atom;
    uint64_t time; /* when it was made */
    Value value; /* of a tensor: lent by its constant */
    uint32_t n;
    Known **fields;
    const Constructor *con;
    const Function *fn;
    Frame *env;
};

/* The variables of one activation, and those around the function. */
struct Frame {
    Frame *outer, *next;
    PtrMap vars; /* Var -> Known */
    uint32_t n_types;
    const TypeVar *const *types; /* of the function, and what they are here */
    const Type *const *with;
};

typedef struct Fuel {
    uint64_t time, value;
} Fuel;

typedef struct Stored {
    const Known *ref;
    Known *value;
} Stored;

typedef struct Partial {
    PassRun *run;
    LetMaker make;
    const Module *old;
    PtrMap globals; /* name -> Known */
    PtrMap fuels; /* Function -> Fuel of each argument, while it is being unfolded */
    Frame *frames;
    uint64_t clock;
    Vec(Stored) store;
    size_t valid; /* what was stored before is not known any more */
    uint32_t unfolded, nested;
    SizeBudget budget; /* of expressions looked at, each of which may become one */
} Partial;

static Known *evaluate(Partial *p, Frame *f, Lets *l, Expr *e);

enum { RULE_UNFOLD, RULE_STAYS, RULE_OP, RULE_IF, RULE_MATCH };

static const PassRule rules[] = {
    [RULE_UNFOLD] = {"unfold", "a call of {with} is unfolded"},
    [RULE_STAYS] = {"stays", "a call of {with} stays: {a}"},
    [RULE_OP] = {"op", "{at} is {made}: its operands are known"},
    [RULE_IF] = {"if", "the condition of {at} is known: its {a} branch stays"},
    [RULE_MATCH] = {"match", "{at} is its clause number {a}: the value is known that far"},
    {0},
};

static void tell(const Partial *p, int rule, const Expr *at, const char *a)
{
    pass_decides(p->run, (PassEvent){.rule = &rules[rule], .at = at, .a = a});
}

/* ---- values ------------------------------------------------------------------------------------------------------ */

static Known *known(Partial *p, KnownKind kind, Expr *atom)
{
    Known *k = arena_alloc_must(p->make.scratch, 1, sizeof *k);
    *k = (Known){.kind = kind, .atom = atom, .time = p->clock++};
    return k;
}

static Known *nothing(Partial *p, Lets *l, Expr *e)
{
    return known(p, KNOWN_NOTHING, lets_push(l, e));
}

static Known *with_fields(Partial *p, KnownKind kind, Expr *atom, uint32_t n, Known **fields)
{
    Known *k = known(p, kind, atom);
    k->n = n;
    k->fields = fields;
    return k;
}

static Known **fields_new(Partial *p, uint32_t n)
{
    return arena_alloc_must(p->make.scratch, n + 1, sizeof(Known *));
}

static Expr **exprs_new(Partial *p, uint32_t n)
{
    return arena_alloc_must(p->make.scratch, n + 1, sizeof(Expr *));
}

static Expr **atoms_of(Partial *p, uint32_t n, Known *const *fields)
{
    Expr **atoms = exprs_new(p, n);
    for (uint32_t i = 0; i < n; i++)
        atoms[i] = fields[i]->atom;
    return atoms;
}

/* A constant, or a tuple of them. */
static Known *of_constants(Partial *p, Lets *l, Expr *e)
{
    const Tuple *t = expr_as_tuple(e);
    if (!t) {
        Known *k = known(p, KNOWN_TENSOR, lets_push(l, e));
        k->value = expr_as_constant(e)->value;
        return k;
    }
    Known **fields = fields_new(p, t->fields.n);
    for (uint32_t i = 0; i < t->fields.n; i++)
        fields[i] = of_constants(p, l, t->fields.at[i]);
    Expr *tuple = expr_tuple(p->make.arena, e->span, t->fields.n, atoms_of(p, t->fields.n, fields));
    return with_fields(p, KNOWN_TUPLE, lets_push(l, tuple), t->fields.n, fields);
}

/* The value as an expression of constants; NULL when it is not known. */
static Expr *constants_of(Partial *p, const Known *k)
{
    if (k->kind == KNOWN_TENSOR)
        return expr_constant(p->make.arena, p->make.span, k->value);
    if (k->kind != KNOWN_TUPLE)
        return NULL;
    Expr **fields = exprs_new(p, k->n);
    for (uint32_t i = 0; i < k->n; i++) {
        /* Tuples of tensors are what operators take. */
        fields[i] = k->fields[i]->kind == KNOWN_TENSOR ? constants_of(p, k->fields[i]) : NULL;
        if (!fields[i])
            return NULL;
    }
    return expr_tuple(p->make.arena, p->make.span, k->n, fields);
}

/* ---- variables, types, references ----------------------------------------------------------------------------------- */

static Frame *frame_new(Partial *p, Frame *outer)
{
    Frame *f = arena_alloc_must(p->make.scratch, 1, sizeof *f);
    *f = (Frame){.outer = outer, .next = p->frames};
    p->frames = f;
    return f;
}

static Known *look_up(Partial *p, Frame *f, Expr *var)
{
    for (; f; f = f->outer) {
        Known *k = ptrmap_find(&f->vars, var);
        if (k)
            return k;
    }
    return known(p, KNOWN_NOTHING, var); /* a free variable of the text */
}

static const Type *type_here(Partial *p, const Frame *f, const Type *t)
{
    for (; f && t; f = f->outer)
        if (f->n_types)
            t = type_subst(p->make.cx, t, f->n_types, f->types, f->with);
    return t;
}

static Var *fresh_var(Partial *p, const Frame *f, const Var *v)
{
    const Type *t = v->annotation ? v->annotation : v->base.type;
    return expr_var(p->make.arena, v->base.span, v->name, type_here(p, f, t));
}

static void forget(Partial *p)
{
    p->valid = p->store.n;
}

static void store(Partial *p, const Known *ref, Known *value)
{
    vec_push(&p->store, p->make.scratch, ((Stored){ref, value}));
}

static Known *stored(const Partial *p, const Known *ref)
{
    for (size_t i = p->store.n; i-- > p->valid;)
        if (p->store.at[i].ref == ref)
            return p->store.at[i].value;
    return NULL;
}

/* The part on its own, with what it stores undone. */
static Expr *apart(Partial *p, Frame *f, Expr *e)
{
    size_t n = p->store.n, valid = p->valid;
    Lets l = {.make = &p->make};
    Known *k = evaluate(p, f, &l, e);
    Expr *now = lets_close(&l, k->atom);
    p->store.n = n;
    p->valid = valid;
    return now;
}

/* ---- functions ---------------------------------------------------------------------------------------------------- */

static Fuel fuel_of(const Known *k)
{
    Fuel fuel = {k->time, 0};
    bool number = k->kind == KNOWN_TENSOR && k->value.kind == VALUE_SCALAR &&
                  k->value.dtype.code == DTYPE_CODE_INT && k->value.dtype.bits >= 32;
    if (number && value_as_int(k->value) >= 0)
        fuel.value = (uint64_t)value_as_int(k->value);
    return fuel;
}

/* Takes what is least of both into `out`; whether that is less than before. */
static bool burn(const Fuel *had, uint32_t n, Known *const *args, Fuel *out)
{
    bool less = !had;
    for (uint32_t i = 0; i < n; i++) {
        Fuel now = fuel_of(args[i]);
        less |= had && (now.time < had[i].time || now.value < had[i].value);
        out[i].time = had && had[i].time < now.time ? had[i].time : now.time;
        out[i].value = had && had[i].value < now.value ? had[i].value : now.value;
    }
    return less;
}

/* What is known of the value by the name of a variable that has less types than it: what is made of it is of the variable's. */
static Known *as_bound(Partial *p, Lets *l, const Frame *from, const Expr *value, const Frame *to,
                       const Var *v, Known *k)
{
    const Type *found = type_here(p, from, value->type), *type = type_here(p, to, v->base.type);
    if (types_as_it_is(p->make.cx, found, type))
        return k;
    Known *bound = arena_alloc_must(p->make.scratch, 1, sizeof *bound);
    Var *now = expr_var(p->make.arena, v->base.span, v->name, type);
    *bound = *k;
    bound->atom = &now->base;
    if (k->kind != KNOWN_FUNCTION)
        bound->kind = KNOWN_NOTHING; /* its parts are of more types too */
    lets_bind(l, now, k->atom);
    return bound;
}

/* `call` is NULL where nothing is known of the arguments. */
static Known *run_body(Partial *p, const Known *f, const Call *call, Known *const *args,
                       TypeList types, const Frame *caller, Fuel *fuel, Lets *l)
{
    Frame *frame = frame_new(p, f->env);
    void *had = ptrmap_find(&p->fuels, f->fn);
    uint32_t k = f->fn->type_params.n;
    if (k && types.n == k) {
        const Type **with = arena_alloc_must(&p->make.cx->arena, k, sizeof *with);
        for (uint32_t i = 0; i < k; i++)
            with[i] = type_here(p, caller, types.at[i]);
        frame->n_types = k;
        frame->types = f->fn->type_params.at;
        frame->with = with;
    }
    for (uint32_t i = 0; i < f->fn->params.n; i++) {
        Var *v = f->fn->params.at[i];
        ptrmap_put(&frame->vars, v,
                   call ? as_bound(p, l, caller, call->args.at[i], frame, v, args[i]) : args[i]);
    }
    ptrmap_put(&p->fuels, f->fn, fuel);
    Known *result = evaluate(p, frame, l, f->fn->body);
    ptrmap_put(&p->fuels, f->fn, had);
    return result;
}

static Known *emit_call(Partial *p, Lets *l, Expr *callee, uint32_t n, Known *const *args)
{
    forget(p);
    return nothing(p, l,
                   expr_call(p->make.arena, p->make.span, callee, n, atoms_of(p, n, args), NULL));
}

/* Why the call of a known function is not unfolded; NULL: it is. */
static const char *why_not(Partial *p, const Known *f, uint32_t n, Known *const *args,
                           TypeList types, Fuel *fuel)
{
    if (types.n != f->fn->type_params.n || f->fn->params.n != n)
        return "it says not all types";
    if (p->unfolded >= UNFOLD_MOST)
        return "too many calls are unfolded inside each other already";
    if (function_is_primitive(f->fn) || function_is_skipped(f->fn))
        return "its function is to stay as it is";
    if (!burn(ptrmap_find(&p->fuels, f->fn), n, args, fuel))
        return "unfolding it comes no nearer to an end";
    return size_spend(&p->budget, 1) ? NULL : "the program would become too large";
}

static Known *call_function(Partial *p, const Known *f, const Call *call, Known *const *args,
                            const Frame *caller, Lets *l)
{
    uint32_t n = call->args.n;
    TypeList types = call->type_args;
    Fuel *fuel = arena_alloc_must(p->make.scratch, n + 1, sizeof *fuel);
    const char *why = why_not(p, f, n, args, types, fuel);
    pass_decides(p->run, (PassEvent){.rule = &rules[why ? RULE_STAYS : RULE_UNFOLD],
                                     .at = &call->base,
                                     .with = call->callee,
                                     .a = why});
    if (why)
        return emit_call(p, l, f->atom, n, args);
    p->unfolded++;
    Known *result = run_body(p, f, call, args, types, caller, fuel, l);
    p->unfolded--;
    return result;
}

/* What is written of the result, or has to be: a polymorphic function that comes out of another is of one type otherwise. */
static const Type *result_to_write(const Function *fn)
{
    const Type *t = fn->base.type ? type_find(fn->base.type) : NULL;
    bool many = t && t->kind == TYPE_FUNC && type_find(t->result)->n_params > 0;
    return many && !fn->ret_type ? t->result : fn->ret_type;
}

/* The function on arguments of which nothing is known. Each copy has type parameters of its own: one may stand in another. */
static Function *emit_function(Partial *p, const Known *f)
{
    uint32_t n = f->fn->params.n, k = f->fn->type_params.n;
    Var **params = arena_alloc_must(p->make.scratch, n + 1, sizeof *params);
    Known **args = fields_new(p, n);
    Ctx *cx = p->make.cx;
    const Type **types = arena_alloc_must(&cx->arena, k + 1, sizeof *types);
    const TypeVar **vars = arena_alloc_must(p->make.arena, k + 1, sizeof *vars);
    Fuel *fuel = arena_alloc_must(p->make.scratch, n + 1, sizeof *fuel);
    size_t stores = p->store.n, valid = p->valid;
    Lets l = {.make = &p->make};
    for (uint32_t i = 0; i < k; i++) {
        const TypeVar *old = f->fn->type_params.at[i];
        vars[i] = f->env ? typevar_new(cx, old->name, old->span) : old;
        types[i] = type_var(cx, vars[i]);
    }
    Frame *own = frame_new(p, f->env);
    own->n_types = k;
    own->types = f->fn->type_params.at;
    own->with = types;
    for (uint32_t i = 0; i < n; i++) {
        params[i] = fresh_var(p, own, f->fn->params.at[i]);
        args[i] = known(p, KNOWN_NOTHING, &params[i]->base);
    }
    burn(NULL, n, args, fuel);
    forget(p);
    Known *result = run_body(p, f, NULL, args, (TypeList){types, k}, NULL, fuel, &l);
    p->store.n = stores;
    p->valid = valid;
    return expr_function(p->make.arena, f->fn->base.span, (TypeVarList){vars, k}, n, params,
                         f->fn->attrs, type_here(p, own, result_to_write(f->fn)),
                         lets_close(&l, result->atom));
}

/* A group stays as it is, a copy in each place that what is around it is unfolded to, with the types that it has there. */
static Function *group_here(Partial *p, const Frame *f, const Function *group)
{
    Ctx *cx = p->make.cx;
    Function *copy = expr_as_function(ir_copy(cx, p->run->module, &group->base));
    for (; f && copy; f = f->outer) {
        if (!f->n_types)
            continue;
        copy->type_params = (TypeVarList){f->types, f->n_types};
        copy = beta_instance(cx, p->run->module, copy, f->with);
    }
    if (copy)
        copy->type_params = group->type_params;
    return copy;
}

/* A function literal, bound to a variable of that name. */
static Known *closure(Partial *p, Frame *f, Lets *l, const Function *fn, const Var *name)
{
    Var *var =
        name ? expr_var(p->make.arena, fn->base.span, name->name, type_here(p, f, name->annotation))
             : lets_var(&p->make);
    Known *k = known(p, KNOWN_FUNCTION, &var->base);
    k->fn = fn;
    k->env = f;
    if (name)
        ptrmap_put(&f->vars, name, k);
    Function *made = function_is_primitive(fn) ? group_here(p, f, fn) : emit_function(p, k);
    lets_bind(l, var, made ? &made->base : NULL);
    return k;
}

static Known *global(Partial *p, Expr *e)
{
    const Name *name = expr_as_global(e)->name;
    Known *k = ptrmap_find(&p->globals, name);
    if (k)
        return k;
    const Def *def = module_find(p->old, name);
    k = known(p, KNOWN_NOTHING, expr_global(p->make.arena, e->span, name));
    const Function *f = def && def->fn
                            ? expr_as_function(to_anf(p->make.cx, p->run->module, &def->fn->base))
                            : NULL;
    if (f) {
        k->kind = KNOWN_FUNCTION;
        k->fn = f;
    }
    ptrmap_put(&p->globals, name, k);
    return k;
}

/* ---- calls of operators and constructors ------------------------------------------------------------------------------ */

static Known *call_op(Partial *p, Lets *l, const Call *call, Known **args)
{
    uint32_t n = call->args.n;
    Expr **constants = exprs_new(p, n);
    bool all = n > 0;
    for (uint32_t i = 0; i < n && all; i++)
        all = (constants[i] = constants_of(p, args[i])) != NULL;
    if (all) {
        Expr *known_call =
            expr_call(p->make.arena, call->base.span, call->callee, n, constants, call->attrs);
        Expr *folded = fold_op_call(p->make.cx, p->run->module, call, known_call, FOLD_NEVER);
        if (folded && folded != known_call) {
            pass_decides(p->run,
                         (PassEvent){.rule = &rules[RULE_OP], .at = &call->base, .made = folded});
            return of_constants(p, l, folded);
        }
    }
    return nothing(p, l,
                   expr_call(p->make.arena, call->base.span, call->callee, n, atoms_of(p, n, args),
                             call->attrs));
}

static Known *evaluate_call(Partial *p, Frame *f, Lets *l, const Call *call)
{
    uint32_t n = call->args.n;
    Known **args = fields_new(p, n);
    Known *callee = call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON
                        ? NULL
                        : evaluate(p, f, l, call->callee);
    for (uint32_t i = 0; i < n; i++)
        args[i] = evaluate(p, f, l, call->args.at[i]);
    p->make.span = call->base.span;
    if (call->callee->kind == EXPR_OP)
        return call_op(p, l, call, args);
    if (!callee) {
        Expr *atom = lets_push(l, expr_call(p->make.arena, call->base.span, call->callee, n,
                                            atoms_of(p, n, args), NULL));
        /* What decided the type may be gone. */
        expr_as_var(atom)->annotation = type_here(p, f, call->base.type);
        Known *k = with_fields(p, KNOWN_CON, atom, n, args);
        k->con = expr_call_of_con(&call->base);
        return k;
    }
    if (callee->kind == KNOWN_FUNCTION)
        return call_function(p, callee, call, args, f, l);
    return emit_call(p, l, callee->atom, n, args);
}

/* ---- matches ------------------------------------------------------------------------------------------------------------ */

typedef enum Takes { TAKES_NO, TAKES_YES, TAKES_UNKNOWN } Takes;

static Takes fits(Partial *p, Frame *f, const Pattern *pattern, Known *k)
{
    if (pattern->kind == PATTERN_WILDCARD)
        return TAKES_YES;
    if (pattern->kind == PATTERN_VAR) {
        ptrmap_put(&f->vars, pattern->var, k);
        return TAKES_YES;
    }
    if (k->kind != KNOWN_CON && k->kind != KNOWN_TUPLE)
        return TAKES_UNKNOWN;
    if (pattern->kind == PATTERN_CON && pattern->con != k->con)
        return TAKES_NO;
    for (uint32_t i = 0; i < pattern->n; i++) {
        Takes fit = fits(p, f, pattern->fields[i], k->fields[i]);
        if (fit != TAKES_YES)
            return fit;
    }
    return TAKES_YES;
}

static Pattern *fresh_pattern(Partial *p, Frame *f, const Pattern *old)
{
    Pattern *copy = arena_alloc_must(p->make.arena, 1, sizeof *copy);
    *copy = *old;
    if (old->kind == PATTERN_VAR) {
        copy->var = fresh_var(p, f, old->var);
        ptrmap_put(&f->vars, old->var, known(p, KNOWN_NOTHING, &copy->var->base));
    }
    copy->fields = arena_alloc_must(p->make.arena, old->n + 1, sizeof *copy->fields);
    for (uint32_t i = 0; i < old->n; i++)
        copy->fields[i] = fresh_pattern(p, f, old->fields[i]);
    return copy;
}

static Known *emit_match(Partial *p, Frame *f, Lets *l, const Match *match, const Known *k)
{
    Clause *clauses = arena_alloc_must(p->make.scratch, match->clauses.n + 1, sizeof *clauses);
    for (uint32_t i = 0; i < match->clauses.n; i++) {
        const Clause *c = &match->clauses.at[i];
        clauses[i] = (Clause){fresh_pattern(p, f, c->pattern), NULL, c->span};
        clauses[i].body = apart(p, f, c->body);
    }
    forget(p);
    return nothing(p, l,
                   expr_match(p->make.arena, match->base.span, k->atom, match->clauses.n, clauses,
                              match->complete));
}

static Known *evaluate_match(Partial *p, Frame *f, Lets *l, const Match *match)
{
    Known *k = evaluate(p, f, l, match->scrutinee);
    for (uint32_t i = 0; i < match->clauses.n; i++) {
        Takes fit = fits(p, f, match->clauses.at[i].pattern, k);
        if (fit == TAKES_YES) {
            char number[16];
            snprintf(number, sizeof number, "%u", i + 1);
            tell(p, RULE_MATCH, &match->base, number);
            return evaluate(p, f, l, match->clauses.at[i].body);
        }
        if (fit == TAKES_UNKNOWN)
            break;
    }
    return emit_match(p, f, l, match, k);
}

/* ---- everything else ---------------------------------------------------------------------------------------------------- */

static Known *evaluate_if(Partial *p, Frame *f, Lets *l, const If *e)
{
    const Known *cond = evaluate(p, f, l, e->cond);
    if (cond->kind == KNOWN_TENSOR) {
        bool yes = value_is_true(cond->value);
        tell(p, RULE_IF, &e->base, yes ? "first" : "second");
        return evaluate(p, f, l, yes ? e->then : e->otherwise);
    }
    Expr *then = apart(p, f, e->then);
    Expr *otherwise = apart(p, f, e->otherwise);
    forget(p);
    return nothing(p, l, expr_if(p->make.arena, e->base.span, cond->atom, then, otherwise));
}

static Known *evaluate_tuple(Partial *p, Frame *f, Lets *l, const Tuple *t)
{
    Known **fields = fields_new(p, t->fields.n);
    for (uint32_t i = 0; i < t->fields.n; i++)
        fields[i] = evaluate(p, f, l, t->fields.at[i]);
    Expr *e =
        expr_tuple(p->make.arena, t->base.span, t->fields.n, atoms_of(p, t->fields.n, fields));
    return with_fields(p, KNOWN_TUPLE, lets_push(l, e), t->fields.n, fields);
}

static Known *evaluate_ref(Partial *p, Frame *f, Lets *l, Expr *e)
{
    const RefNew *fresh = expr_as_ref_new(e);
    const RefRead *read = expr_as_ref_read(e);
    const RefWrite *write = expr_as_ref_write(e);
    Arena *arena = p->make.arena;
    if (fresh) {
        Known *v = evaluate(p, f, l, fresh->value);
        Known *r = known(p, KNOWN_REF, lets_push(l, expr_ref_new(arena, e->span, v->atom)));
        store(p, r, v);
        return r;
    }
    Known *r = evaluate(p, f, l, read ? read->ref : write->ref);
    if (read) {
        Known *v = r->kind == KNOWN_REF ? stored(p, r) : NULL;
        return v ? v : nothing(p, l, expr_ref_read(arena, e->span, r->atom));
    }
    Known *v = evaluate(p, f, l, write->value);
    if (r->kind == KNOWN_REF)
        store(p, r, v);
    else
        forget(p);
    return with_fields(p, KNOWN_TUPLE,
                       lets_push(l, expr_ref_write(arena, e->span, r->atom, v->atom)), 0,
                       fields_new(p, 0));
}

static Known *evaluate_value(Partial *p, Frame *f, Lets *l, Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT:
        return of_constants(p, l,
                            expr_constant(p->make.arena, e->span, expr_as_constant(e)->value));
    case EXPR_VAR: return look_up(p, f, e);
    case EXPR_GLOBAL: return global(p, e);
    case EXPR_TUPLE: return evaluate_tuple(p, f, l, expr_as_tuple(e));
    case EXPR_TUPLE_GET: {
        const TupleGet *get = expr_as_tuple_get(e);
        Known *t = evaluate(p, f, l, get->tuple);
        return t->kind == KNOWN_TUPLE
                   ? t->fields[get->index]
                   : nothing(p, l, expr_tuple_get(p->make.arena, e->span, t->atom, get->index));
    }
    case EXPR_CALL: return evaluate_call(p, f, l, expr_as_call(e));
    case EXPR_FUNCTION: return closure(p, f, l, expr_as_function(e), NULL);
    case EXPR_IF: return evaluate_if(p, f, l, expr_as_if(e));
    case EXPR_MATCH: return evaluate_match(p, f, l, expr_as_match(e));
    case EXPR_REF_NEW:
    case EXPR_REF_READ:
    case EXPR_REF_WRITE: return evaluate_ref(p, f, l, e);
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    return known(p, KNOWN_NOTHING, e);
}

static void spend(Partial *p)
{
    p->budget.made += p->budget.made < p->budget.most;
}

static Known *evaluate(Partial *p, Frame *f, Lets *l, Expr *e)
{
    spend(p);
    if (p->nested >= NEST_MOST)
        limit_reach(&p->make.cx->limits, LIMIT_DEPTH);
    if (limit_hit(&p->make.cx->limits))
        return known(p, KNOWN_NOTHING, e);
    p->nested++;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        const Function *fn = expr_as_function(let->value);
        p->make.span = let->value->span;
        Known *k =
            fn ? closure(p, f, l, fn, let->var)
               : as_bound(p, l, f, let->value, f, let->var, evaluate_value(p, f, l, let->value));
        ptrmap_put(&f->vars, let->var, k);
        e = let->body;
        spend(p);
        if (limit_hit(&p->make.cx->limits))
            break;
    }
    Known *k = evaluate_value(p, f, l, e);
    p->nested--;
    return k;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------ */

static bool evaluate_defs(Partial *p, Module *old)
{
    for (size_t i = 0; i < old->defs.n; i++) {
        const Def *def = &old->defs.at[i];
        if (!def->fn || def->imported || function_is_skipped(def->fn) ||
            function_is_primitive(def->fn))
            continue;
        Expr *name = expr_global(p->make.arena, def->span, def->name);
        const Known *k = global(p, name);
        if (k->kind != KNOWN_FUNCTION)
            return false;
        Function *f = emit_function(p, k);
        if (limit_hit(&p->make.cx->limits))
            return false;
        module_define(p->run->module, def->name, f, def->span, p->run->module);
    }
    if (!old->expr)
        return true;
    Lets l = {.make = &p->make};
    Expr *anf = to_anf(p->make.cx, p->run->module, old->expr);
    Known *k = anf ? evaluate(p, frame_new(p, NULL), &l, anf) : NULL;
    p->run->module->expr = k ? lets_close(&l, k->atom) : NULL;
    return k && !limit_hit(&p->make.cx->limits);
}

static bool partial_evaluate(PassRun *run, Module *old)
{
    Partial p = {.run = run, .old = old, .budget = size_budget(run, old)};
    p.make = (LetMaker){.cx = run->cx, .arena = &run->module->arena, .scratch = &run->scratch};
    bool ok = evaluate_defs(&p, old);
    size_report(&p.budget, run, "calls");
    for (Frame *f = p.frames; f; f = f->next)
        ptrmap_deinit(&f->vars);
    ptrmap_deinit(&p.globals);
    ptrmap_deinit(&p.fuels);
    return ok;
}

static const OpAttr params[] = {SIZE_MOST_PARAM, {0}};

const Pass pass_partial_evaluate = {
    .name = "PartialEvaluate",
    .doc =
        "Unfolds calls of known functions and evaluates what is known, through the whole language.",
    .opt_level = 1,
    .needs_types = true,
    .params = params,
    .rules = rules,
    .module = partial_evaluate,
};
