#include "jit/open_tuples.h"

#include "base/limit.h"
#include "ir/ctx.h"
#include "ir/walk.h"
#include "jit/live.h"
#include "passes/types.h"

/* Of a tuple that is matched. */
#define FIELDS_MOST 16
/* What stands in one another is opened from outside in. */
#define ROUNDS_MOST 4

typedef struct Opened {
    const Var *var;
    uint32_t n;
    Var **fields; /* NULL: not looked at */
} Opened;

/* A tuple, or a value of a constructor, that is written and then matched. */
typedef struct Written {
    const Constructor *con; /* NULL: a tuple */
    ExprList fields;
    Span span;
} Written;

typedef struct Opening {
    Ctx *cx;
    Module *module;
    Arena scratch;
    PtrMap opened; /* Var -> Opened; NULL for one that is more than looked into */
    PtrMap written; /* Var -> Written; NULL for one that is more than matched */
    PtrMap looked; /* what matches look at, as entries */
    PtrMap fields; /* Var of a pattern -> the Var that it is another name for */
    Vec(const Match *) matches;
    Expr *const *scrutinee; /* of the match at hand, which is no other use */
    Vec(const Let *) giving; /* whose values are matches that end with something written */
    bool any;
} Opening;

/* Kernels make and take tuples of tensors by themselves. */
static bool is_worth_opening(const Type *t)
{
    if (t->kind != TYPE_TUPLE)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->parts[i]->kind == TYPE_TENSOR && t->parts[i]->n > 0)
            return false;
    return t->n > 0;
}

static void note_use(void *data, Expr *const *slot)
{
    Opening *o = data;
    if (expr_as_var(*slot) && ptrmap_has(&o->opened, *slot))
        ptrmap_put(&o->opened, *slot, NULL);
    if (expr_as_var(*slot) && slot != o->scrutinee && ptrmap_has(&o->written, *slot))
        ptrmap_put(&o->written, *slot, NULL);
}

/* Fields that are variables, each another. */
static bool has_plain_fields(ExprList fields)
{
    for (uint32_t i = 0; i < fields.n; i++) {
        if (!expr_as_var(fields.at[i]))
            return false;
        for (uint32_t k = 0; k < i; k++)
            if (fields.at[k] == fields.at[i])
                return false;
    }
    return fields.n > 0 && fields.n <= FIELDS_MOST;
}

static void note_written(Opening *o, const Let *let)
{
    const Tuple *tuple = expr_as_tuple(let->value);
    const Call *call = expr_as_call(let->value);
    const ConRef *con = call ? expr_as_con(call->callee) : NULL;
    if (!tuple && !con)
        return;
    ExprList fields = tuple ? tuple->fields : call->args;
    if (!has_plain_fields(fields))
        return;
    Written *w = arena_new(&o->scratch, Written);
    *w = (Written){.con = con ? con->con : NULL, .fields = fields, .span = let->value->span};
    ptrmap_put(&o->written, let->var, w);
}

/* Whether no clause wants the tuple itself. */
static bool only_looks_into(const Match *m)
{
    bool only = m->complete;
    for (uint32_t i = 0; i < m->clauses.n && only; i++)
        only = m->clauses.at[i].pattern->kind != PATTERN_VAR;
    return only;
}

static void note_match(Opening *o, const Match *m)
{
    Written *w = ptrmap_find(&o->written, m->scrutinee);
    ptrmap_put(&o->looked, m->scrutinee, NULL);
    if (!w)
        return;
    if (!only_looks_into(m)) {
        ptrmap_put(&o->written, m->scrutinee, NULL);
        return;
    }
    o->scrutinee = &m->scrutinee;
    vec_push(&o->matches, &o->scratch, m);
}

static Var *field_itself(const Opening *o, const Expr *field)
{
    Var *other = ptrmap_find(&o->fields, field);
    return other ? other : expr_as_var((Expr *)(uintptr_t)field);
}

/* A second name for data that has one. */
static bool is_alias(const Let *let)
{
    const Var *other = expr_as_var(let->value);
    const Type *t = let->var->base.type;
    return other && t && t == other->base.type && t->kind != TYPE_FUNC &&
           let->body != &let->var->base;
}

/* Whether the value of the let is written at the end of a match with one clause. */
static bool gives_known(const Let *let)
{
    const Match *m = expr_as_match(let->value);
    if (!m || m->clauses.n != 1 || !m->complete || let->body == &let->var->base)
        return false;
    const Expr *e = m->clauses.at[0].body;
    const Let *last = NULL;
    for (const Let *one = expr_as_let(e); one; one = expr_as_let(e)) {
        last = one;
        e = one->body;
    }
    const Call *call = last ? expr_as_call(last->value) : NULL;
    return last && e == &last->var->base &&
           (last->value->kind == EXPR_TUPLE || (call && call->callee->kind == EXPR_CON));
}

/* Variables are bound before they are used. */
static WalkNext note(void *data, const Expr *e)
{
    Opening *o = data;
    const Let *let = expr_as_let(e);
    const Call *call = let ? expr_as_call(let->value) : NULL;
    if (call && call->callee->kind == EXPR_GLOBAL && let->var->base.type &&
        is_worth_opening(type_resolve(o->cx, let->var->base.type))) {
        Opened *opened = arena_new(&o->scratch, Opened);
        opened->var = let->var;
        opened->n = type_resolve(o->cx, let->var->base.type)->n;
        opened->fields = arena_alloc_must(&o->module->arena, opened->n, sizeof(Var *));
        ptrmap_put(&o->opened, let->var, opened);
    }
    if (let)
        note_written(o, let);
    if (let && is_alias(let)) {
        ptrmap_put(&o->fields, let->var, field_itself(o, let->value));
        o->any = true;
    }
    if (let && gives_known(let))
        vec_push(&o->giving, &o->scratch, let);
    o->scrutinee = NULL;
    if (expr_as_match(e))
        note_match(o, expr_as_match(e));
    if (e->kind != EXPR_TUPLE_GET)
        ir_children(e, note_use, o);
    else if (ptrmap_has(&o->written, expr_as_tuple_get(e)->tuple))
        ptrmap_put(&o->written, expr_as_tuple_get(e)->tuple, NULL);
    return WALK_ON;
}

/* Whether the pattern may fit what is written: that has another constructor, or it is looked at field by field. */
static bool may_fit(const Written *w, const Pattern *p)
{
    return p->kind != PATTERN_CON || p->con == w->con;
}

/* Names that the clauses give to fields as a whole become the fields. The matches are in the order of the text: what they stand in
 * comes first. */
static void name_fields(Opening *o)
{
    for (size_t i = 0; i < o->matches.n; i++) {
        const Match *m = o->matches.at[i];
        const Written *w = ptrmap_find(&o->written, m->scrutinee);
        for (uint32_t k = 0; w && k < m->clauses.n; k++) {
            const Pattern *p = m->clauses.at[k].pattern;
            for (uint32_t n = 0; n < p->n && may_fit(w, p); n++)
                if (p->fields[n]->kind == PATTERN_VAR)
                    ptrmap_put(&o->fields, p->fields[n]->var, field_itself(o, w->fields.at[n]));
        }
        o->any |= w != NULL;
    }
}

static bool is_looked_into(const Pattern *p)
{
    return p->kind == PATTERN_CON || p->kind == PATTERN_TUPLE;
}

/* The match of those fields of what is written into which a clause looks; where none does, what the first clause gives. */
static Expr *match_fields(Opening *o, const Match *m, const Written *w)
{
    Arena *a = &o->module->arena;
    Clause *clauses = arena_alloc_must(a, m->clauses.n, sizeof *clauses);
    Pattern **kept[FIELDS_MOST] = {0};
    Expr *fields[FIELDS_MOST];
    const Type *types[FIELDS_MOST];
    uint32_t n = 0, n_clauses = 0;
    for (uint32_t i = 0; i < m->clauses.n; i++)
        if (may_fit(w, m->clauses.at[i].pattern))
            clauses[n_clauses++] = m->clauses.at[i];
    for (uint32_t k = 0; k < w->fields.n; k++) {
        Pattern **column = arena_alloc_must(a, n_clauses, sizeof *column);
        bool looked = false;
        for (uint32_t i = 0; i < n_clauses; i++) {
            Pattern *p = clauses[i].pattern;
            bool into = is_looked_into(p) && is_looked_into(p->fields[k]);
            column[i] = into ? p->fields[k] : pattern_wildcard(a, p->span);
            looked |= into;
        }
        if (!looked)
            continue;
        kept[n] = column;
        fields[n] = &field_itself(o, w->fields.at[k])->base;
        types[n] = fields[n]->type;
        n++;
    }
    if (n == 0)
        return clauses[0].body;
    for (uint32_t i = 0; i < n_clauses; i++) {
        Pattern *row[FIELDS_MOST];
        for (uint32_t k = 0; k < n; k++)
            row[k] = kept[k][i];
        clauses[i].pattern = pattern_tuple(a, clauses[i].pattern->span, n, row);
    }
    Expr *scrutinee = expr_tuple(a, w->span, n, fields);
    scrutinee->type = type_tuple(o->cx, n, types);
    Expr *now = expr_match(a, m->base.span, scrutinee, n_clauses, clauses, m->complete);
    now->type = m->base.type;
    return now;
}

static Var *field_of(Opening *o, Opened *opened, Span span, uint32_t i)
{
    if (!opened->fields[i]) {
        const Var *tuple = opened->var;
        opened->fields[i] = expr_var(&o->module->arena, span, ctx_name(o->cx, ""), NULL);
        opened->fields[i]->base.type = type_resolve(o->cx, tuple->base.type)->parts[i];
    }
    return opened->fields[i];
}

/* The rest of the block as the one clause of a match. */
static Expr *open_rest(Opening *o, const Opened *opened, Let *let)
{
    Arena *a = &o->module->arena;
    Span span = let->base.span;
    Pattern **fields = arena_alloc_must(a, opened->n, sizeof *fields);
    for (uint32_t i = 0; i < opened->n; i++)
        fields[i] =
            opened->fields[i] ? pattern_var(a, span, opened->fields[i]) : pattern_wildcard(a, span);
    Clause clause = {pattern_tuple(a, span, opened->n, fields), let->body, span};
    Var *result = expr_var(a, span, ctx_name(o->cx, ""), NULL);
    result->base.type = let->base.type;
    Expr *match = expr_match(a, span, &let->var->base, 1, &clause, true);
    match->type = let->base.type;
    Expr *rest = expr_let(a, span, result, match, &result->base);
    Expr *out = expr_let(a, span, let->var, let->value, rest);
    rest->type = out->type = let->base.type;
    return out;
}

/* The lets of the block in front of this one, whose value is the block's. */
static Expr *splice(Opening *o, Expr *block, const Let *let)
{
    if (let_is_last(let))
        return block;
    Arena *a = &o->module->arena;
    Vec(const Let *) inner = {0};
    for (const Let *one = expr_as_let(block); one; one = expr_as_let(block)) {
        vec_push(&inner, &o->scratch, one);
        block = one->body;
    }
    Expr *out = expr_let(a, let->base.span, let->var, block, let->body);
    out->type = let->base.type;
    for (size_t i = inner.n; i-- > 0;) {
        out = expr_let(a, inner.at[i]->base.span, inner.at[i]->var, inner.at[i]->value, out);
        out->type = let->base.type;
    }
    return out;
}

/* The rest of the block goes into the clause. */
static Expr *sink_rest(Opening *o, const Let *let)
{
    Arena *a = &o->module->arena;
    const Match *m = expr_as_match(let->value);
    Clause clause = m->clauses.at[0];
    clause.body = splice(o, clause.body, let);
    Var *result = expr_var(a, let->base.span, ctx_name(o->cx, ""), NULL);
    result->base.type = let->base.type;
    Expr *match = expr_match(a, m->base.span, m->scrutinee, 1, &clause, true);
    match->type = let->base.type;
    Expr *out = expr_let(a, let->base.span, result, match, &result->base);
    out->type = let->base.type;
    return out;
}

static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    Opening *o = rw->data;
    expr_keep_type(now, old);
    if (old->kind == EXPR_VAR)
        return &field_itself(o, now)->base;
    const Match *match = expr_as_match(old);
    const Written *written = match ? ptrmap_find(&o->written, match->scrutinee) : NULL;
    if (written)
        return match_fields(o, expr_as_match(now), written);
    const TupleGet *get = expr_as_tuple_get(old);
    Opened *opened = get ? ptrmap_find(&o->opened, get->tuple) : NULL;
    if (opened)
        return &field_of(o, opened, old->span, (uint32_t)get->index)->base;
    const Let *let = expr_as_let(old);
    if (let && ptrmap_find(&o->written, let->var))
        return expr_as_let(now)->body;
    if (let && is_alias(let))
        return expr_as_let(now)->body;
    if (let && expr_as_let(expr_as_let(now)->value))
        return splice(o, expr_as_let(now)->value, expr_as_let(now));
    bool gives = let && gives_known(let) && ptrmap_has(&o->looked, let->var);
    if (gives && expr_as_match(expr_as_let(now)->value))
        return sink_rest(o, expr_as_let(now));
    opened = let ? ptrmap_find(&o->opened, let->var) : NULL;
    return opened ? open_rest(o, opened, expr_as_let(now)) : now;
}

static Function *open_once(Ctx *cx, Module *module, Function *fn, bool *any)
{
    Opening o = {.cx = cx, .module = module};
    arena_init(&o.scratch, &cx->limits);
    ir_walk(&fn->base, note, NULL, &o);
    name_fields(&o);
    for (size_t i = 0; i < o.opened.n && !o.any; i++)
        o.any = o.opened.entries[i].key && o.opened.entries[i].value;
    for (size_t i = 0; i < o.giving.n && !o.any; i++)
        o.any = ptrmap_has(&o.looked, o.giving.at[i]->var);
    if (o.any && !limit_hit(&cx->limits)) {
        Rewriter rw;
        rewriter_init(&rw, cx, module, node_now, &o);
        fn = expr_as_function(ir_rewrite(&rw, &fn->base));
        rewriter_deinit(&rw);
    }
    *any = o.any;
    ptrmap_deinit(&o.opened);
    ptrmap_deinit(&o.written);
    ptrmap_deinit(&o.looked);
    ptrmap_deinit(&o.fields);
    arena_deinit(&o.scratch);
    return limit_hit(&cx->limits) ? NULL : fn;
}

Function *open_tuples(Ctx *cx, Module *module, Function *fn)
{
    bool more = true;
    for (unsigned round = 0; fn && more && round < ROUNDS_MOST; round++)
        fn = open_once(cx, module, fn, &more);
    return fn;
}
