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

/* A tuple, or a value of a constructor, whose fields are known. */
typedef struct Written {
    Expr *con; /* NULL: a tuple */
    ExprList fields;
    Span span;
    const Type *type;
    bool looked; /* something looks into it */
} Written;

typedef struct Opening {
    Ctx *cx;
    Module *module;
    Arena scratch;
    const Function *fn;
    const Opens *opens; /* NULL: no function takes fields */
    bool first; /* what it says is still to be done */
    PtrMap opened; /* Var -> Opened; NULL for one that is more than looked into */
    PtrMap known; /* Var -> Written */
    PtrMap written; /* the same; NULL for one that is wanted as a whole */
    PtrMap given; /* Var whose value comes field by field, as entries */
    PtrMap looked; /* what matches look at, as entries */
    PtrMap fields; /* Var of a pattern -> the Var that it is another name for */
    Vec(const Match *) matches;
    const Expr *at; /* the node at hand */
    Vec(const Let *) giving; /* whose values are matches that end with something written */
    bool any;
} Opening;

bool tuple_is_worth_opening(const Type *t)
{
    if (t->kind != TYPE_TUPLE)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->parts[i]->kind == TYPE_TENSOR && t->parts[i]->n > 0)
            return false;
    return t->n > 0;
}

static const Signature *signature_of(const Opens *opens, const Call *call)
{
    const GlobalVar *callee = opens ? expr_as_global(call->callee) : NULL;
    return callee ? ptrmap_find(opens->signatures, callee->name) : NULL;
}

uint64_t opens_args(const Opens *opens, const Call *call)
{
    const Signature *s = signature_of(opens, call);
    return s && !opens->results ? s->opened[opens->round] : 0;
}

bool opens_result(const Opens *opens, const Call *call)
{
    const Signature *s = signature_of(opens, call);
    return s && opens->results && s->gives_fields;
}

bool expr_is_end(const Expr *e, Expr *const *slot)
{
    switch ((ExprKind)e->kind) {
    case EXPR_LET: return slot == &expr_as_let(e)->body && !let_is_last(expr_as_let(e));
    case EXPR_IF: return slot != &expr_as_if(e)->cond;
    case EXPR_MATCH: return slot != &expr_as_match(e)->scrutinee;
    default: return false;
    }
}

bool match_only_looks(const Match *m)
{
    bool only = m->complete;
    for (uint32_t i = 0; i < m->clauses.n && only; i++)
        only = m->clauses.at[i].pattern->kind != PATTERN_VAR;
    return only;
}

/* Whether the slot is one that takes the fields of a value as well. */
static bool takes_fields(const Opening *o, Expr *const *slot)
{
    const Call *call = expr_as_call(o->at);
    const Match *match = expr_as_match(o->at);
    if (call)
        for (uint32_t i = 0; i < call->args.n && i < 64; i++)
            if (slot == &call->args.at[i])
                return opens_args(o->opens, call) >> i & 1;
    return match && slot == &match->scrutinee;
}

static void note_use(void *data, Expr *const *slot)
{
    Opening *o = data;
    if (!expr_as_var(*slot))
        return;
    bool takes = takes_fields(o, slot);
    if (ptrmap_has(&o->opened, *slot) && !(takes && expr_as_call(o->at)))
        ptrmap_put(&o->opened, *slot, NULL);
    Written *w = ptrmap_find(&o->written, *slot);
    if (w && takes)
        w->looked = true;
    else if (w && !expr_is_end(o->at, slot))
        ptrmap_put(&o->written, *slot, NULL);
}

/* What is not made, because all that is done with it is to look into it. */
static const Written *unmade(const Opening *o, const Expr *var)
{
    const Written *w = ptrmap_find(&o->written, var);
    return w && w->looked ? w : NULL;
}

/* What the match is known to look into. A value without fields is known however else it is used. */
static const Written *looked_into(const Opening *o, const Match *m)
{
    const Written *w = ptrmap_find(&o->known, m->scrutinee);
    return w && w->fields.n == 0 && match_only_looks(m) ? w : unmade(o, m->scrutinee);
}

static bool has_plain_fields(ExprList fields)
{
    for (uint32_t i = 0; i < fields.n; i++)
        if (!expr_as_var(fields.at[i]))
            return false;
    return fields.n <= FIELDS_MOST;
}

static void add_written(Opening *o, const Var *var, Written w)
{
    Written *own = arena_new(&o->scratch, Written);
    *own = w;
    ptrmap_put(&o->known, var, own);
    ptrmap_put(&o->written, var, own);
}

static void note_written(Opening *o, const Let *let)
{
    const Tuple *tuple = expr_as_tuple(let->value);
    const Call *call = expr_as_call(let->value);
    Expr *con = call ? call->callee : let->value;
    if (!tuple && !expr_as_con(con))
        return;
    ExprList fields = tuple ? tuple->fields : call ? call->args : (ExprList){0};
    if (!has_plain_fields(fields) || (tuple && fields.n == 0) || let_is_last(let))
        return;
    add_written(o, let->var,
                (Written){.con = tuple ? NULL : con,
                          .fields = fields,
                          .span = let->value->span,
                          .type = let->var->base.type});
}

static void note_match(Opening *o, const Match *m)
{
    ptrmap_put(&o->looked, m->scrutinee, NULL);
    if (!ptrmap_has(&o->known, m->scrutinee))
        return;
    if (!match_only_looks(m))
        ptrmap_put(&o->written, m->scrutinee, NULL);
    else
        vec_push(&o->matches, &o->scratch, m);
}

static void note_get(Opening *o, const TupleGet *get)
{
    Written *w = ptrmap_find(&o->written, get->tuple);
    if (w)
        w->looked = true;
}

/* A pattern's variable gets its field when all text was seen: what was noted as a name for that variable before leads on. */
static Var *field_itself(const Opening *o, const Expr *field)
{
    for (const Var *other; (other = ptrmap_find(&o->fields, field));)
        field = &other->base;
    return expr_as_var((Expr *)(uintptr_t)field);
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

static Var *new_var(Opening *o, Span span, const Type *type)
{
    Var *v = expr_var(&o->module->arena, span, ctx_name(o->cx, ""), NULL);
    v->base.type = type;
    return v;
}

/* A variable for each field of a tuple. */
static ExprList new_fields(Opening *o, Span span, const Type *type)
{
    const Type *t = type_resolve(o->cx, type);
    ExprList fields = {arena_alloc_must(&o->module->arena, t->n, sizeof(Expr *)), t->n};
    for (uint32_t i = 0; i < t->n; i++)
        fields.at[i] = &new_var(o, span, t->parts[i])->base;
    return fields;
}

static Expr *typed(Expr *e, const Type *type)
{
    e->type = type;
    return e;
}

/* What comes field by field. */
static void note_params(Opening *o)
{
    for (uint32_t i = 0; o->opens && i < o->fn->params.n && i < 64; i++) {
        const Var *v = o->fn->params.at[i];
        if (!(o->opens->params >> i & 1))
            continue;
        ExprList fields = new_fields(o, v->base.span, v->base.type);
        for (uint32_t k = 0; k < fields.n; k++) {
            expr_as_var(fields.at[k])->name = v->name;
            expr_as_var(fields.at[k])->annotation = fields.at[k]->type;
        }
        add_written(
            o, v,
            (Written){
                .fields = fields, .span = v->base.span, .type = v->base.type, .looked = true});
    }
}

/* What a call gives field by field. */
static void note_result(Opening *o, const Let *let)
{
    const Var *v = let->var;
    ExprList fields = new_fields(o, let->base.span, v->base.type);
    add_written(o, v, (Written){.fields = fields, .span = let->base.span, .type = v->base.type});
    ptrmap_put(&o->given, v, o);
    o->any = true;
}

typedef Vec(const Expr *) Blocks;

static bool push_blocks(Opening *o, const Expr *value, Blocks *blocks)
{
    const If *branch = expr_as_if(value);
    const Match *match = expr_as_match(value);
    if (branch) {
        vec_push(blocks, &o->scratch, branch->then);
        vec_push(blocks, &o->scratch, branch->otherwise);
    }
    for (uint32_t i = 0; match && i < match->clauses.n; i++)
        vec_push(blocks, &o->scratch, match->clauses.at[i].body);
    return branch || match;
}

/* Whether the block ends with a tuple that is written; blocks that it ends with are to come. */
static bool ends_written(Opening *o, const Expr *e, Blocks *blocks)
{
    const Let *last = NULL;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        last = let_is_last(let) ? let : NULL;
        e = let->body;
    }
    const Expr *value = last ? last->value : NULL;
    return push_blocks(o, value, blocks) || (value && value->kind == EXPR_TUPLE) ||
           (expr_as_call(value) && opens_result(o->opens, expr_as_call(value)));
}

/* Whether a projection of each field follows already. */
static bool is_projected(const Let *let, uint32_t n)
{
    const Let *next = expr_as_let(let->body);
    for (uint32_t i = 0; i < n; i++, next = expr_as_let(next->body)) {
        const TupleGet *get = next ? expr_as_tuple_get(next->value) : NULL;
        if (!get || get->tuple != &let->var->base || get->index != i)
            return false;
    }
    return true;
}

/* Whether the let is what several ways come to that each write a tuple. */
static bool gives_written(Opening *o, const Let *let)
{
    const Match *match = expr_as_match(let->value);
    const Type *t = let->var->base.type ? type_resolve(o->cx, let->var->base.type) : NULL;
    if ((!expr_as_if(let->value) && !(match && match->clauses.n > 1)) || let_is_last(let) || !t ||
        !tuple_is_worth_opening(t) || t->n > FIELDS_MOST || is_projected(let, t->n))
        return false;
    Blocks blocks = {0};
    bool written = push_blocks(o, let->value, &blocks);
    while (written && blocks.n > 0)
        written = ends_written(o, vec_pop(&blocks), &blocks);
    return written;
}

/* It is opened unless something more is done with it. */
static void note_opened(Opening *o, const Var *v)
{
    const Type *t = v->base.type ? type_resolve(o->cx, v->base.type) : NULL;
    if (!t || !tuple_is_worth_opening(t))
        return;
    Opened *opened = arena_new(&o->scratch, Opened);
    opened->var = v;
    opened->n = t->n;
    opened->fields = arena_alloc_must(&o->module->arena, opened->n, sizeof(Var *));
    ptrmap_put(&o->opened, v, opened);
}

/* What comes as it is. */
static void note_opened_params(Opening *o, const Function *fn)
{
    for (uint32_t i = 0; i < fn->params.n && !function_is_primitive(fn); i++)
        if (!ptrmap_has(&o->known, fn->params.at[i]))
            note_opened(o, fn->params.at[i]);
}

/* Variables are bound before they are used. */
static WalkNext note(void *data, const Expr *e)
{
    Opening *o = data;
    const Let *let = expr_as_let(e);
    const Call *call = let ? expr_as_call(let->value) : NULL;
    bool gives = call && opens_result(o->opens, call);
    if ((gives && o->first && !let_is_last(let)) || (let && gives_written(o, let)))
        note_result(o, let);
    if (call && !gives && call->callee->kind == EXPR_GLOBAL)
        note_opened(o, let->var);
    if (expr_as_function(e))
        note_opened_params(o, expr_as_function(e));
    if (let)
        note_written(o, let);
    if (let && is_alias(let)) {
        ptrmap_put(&o->fields, let->var, field_itself(o, let->value));
        o->any = true;
    }
    if (let && gives_known(let))
        vec_push(&o->giving, &o->scratch, let);
    o->at = e;
    if (expr_as_match(e))
        note_match(o, expr_as_match(e));
    if (expr_as_call(e) && opens_args(o->opens, expr_as_call(e)))
        o->any = true;
    if (e->kind != EXPR_TUPLE_GET)
        ir_children(e, note_use, o);
    else
        note_get(o, expr_as_tuple_get(e));
    return WALK_ON;
}

static bool is_of(const Written *w, const Pattern *p)
{
    return p->kind != PATTERN_CON || p->con == expr_as_con(w->con)->con;
}

/* What the field is known to be a constructor's value of; NULL: nothing. */
static const Written *known_con(const Opening *o, const Expr *field)
{
    const Written *w = ptrmap_find(&o->known, field_itself(o, field));
    return w && w->con ? w : NULL;
}

/* Whether the pattern may fit what is written: neither that nor a field of it is known to have another constructor. */
static bool may_fit(const Opening *o, const Written *w, const Pattern *p)
{
    bool may = is_of(w, p);
    for (uint32_t k = 0; may && k < p->n; k++) {
        const Written *field = known_con(o, w->fields.at[k]);
        may = !field || is_of(field, p->fields[k]);
    }
    return may;
}

/* What is known of it is all that a pattern asks. */
static bool has_no_fields(const Written *w)
{
    return w && w->fields.n == 0;
}

/* Names that the clauses give to fields as a whole become the fields. The matches are in the order of the text: what they stand in
 * comes first. */
static void name_fields(Opening *o)
{
    for (size_t i = 0; i < o->matches.n; i++) {
        const Match *m = o->matches.at[i];
        const Written *w = looked_into(o, m);
        for (uint32_t k = 0; w && k < m->clauses.n; k++) {
            const Pattern *p = m->clauses.at[k].pattern;
            for (uint32_t n = 0; n < p->n && is_of(w, p); n++)
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
        if (may_fit(o, w, m->clauses.at[i].pattern))
            clauses[n_clauses++] = m->clauses.at[i];
    for (uint32_t k = 0; k < w->fields.n; k++) {
        Pattern **column = arena_alloc_must(a, n_clauses, sizeof *column);
        bool looked = false;
        for (uint32_t i = 0; i < n_clauses; i++) {
            Pattern *p = clauses[i].pattern;
            bool into = is_looked_into(p) && is_looked_into(p->fields[k]) &&
                        !has_no_fields(known_con(o, w->fields.at[k]));
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
        const Type *tuple = type_resolve(o->cx, opened->var->base.type);
        opened->fields[i] = new_var(o, span, tuple->parts[i]);
    }
    return opened->fields[i];
}

/* The rest of a block as the one clause of a match. */
static Expr *open_rest(Opening *o, const Opened *opened, Span span, Expr *rest, const Type *type)
{
    Arena *a = &o->module->arena;
    Pattern **fields = arena_alloc_must(a, opened->n, sizeof *fields);
    for (uint32_t i = 0; i < opened->n; i++)
        fields[i] =
            opened->fields[i] ? pattern_var(a, span, opened->fields[i]) : pattern_wildcard(a, span);
    Clause clause = {pattern_tuple(a, span, opened->n, fields), rest, span};
    Var *result = new_var(o, span, type);
    Expr *tuple = (Expr *)(uintptr_t)&opened->var->base;
    Expr *match = typed(expr_match(a, span, tuple, 1, &clause, true), type);
    return typed(expr_let(a, span, result, match, &result->base), type);
}

static Expr *open_let(Opening *o, const Opened *opened, Let *let)
{
    Expr *rest = open_rest(o, opened, let->base.span, let->body, let->base.type);
    return typed(expr_let(&o->module->arena, let->base.span, let->var, let->value, rest),
                 let->base.type);
}

static bool any_field(const Opened *opened)
{
    bool any = false;
    for (uint32_t i = 0; i < opened->n && !any; i++)
        any = opened->fields[i] != NULL;
    return any;
}

/* The function whose body begins with taking apart what it only looks into. */
static Expr *open_in_front(Opening *o, Function *fn, const Type *type)
{
    Expr *body = fn->body;
    for (uint32_t i = fn->params.n; i-- > 0;) {
        const Opened *opened = ptrmap_find(&o->opened, fn->params.at[i]);
        if (opened && any_field(opened))
            body = open_rest(o, opened, fn->params.at[i]->base.span, body, type);
    }
    if (body == fn->body)
        return &fn->base;
    return typed(&expr_function(&o->module->arena, fn->base.span, fn->type_params, fn->params.n,
                                fn->params.at, fn->attrs, fn->ret_type, body)
                      ->base,
                 fn->base.type);
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
    Var *result = new_var(o, let->base.span, let->base.type);
    Expr *match = expr_match(a, m->base.span, m->scrutinee, 1, &clause, true);
    match->type = let->base.type;
    Expr *out = expr_let(a, let->base.span, result, match, &result->base);
    out->type = let->base.type;
    return out;
}

/* ---- fields across calls -------------------------------------------------------------------------------------- */

static Expr *make(Opening *o, const Written *w)
{
    Arena *a = &o->module->arena;
    Expr *fields[FIELDS_MOST];
    for (uint32_t i = 0; i < w->fields.n; i++)
        fields[i] = &field_itself(o, w->fields.at[i])->base;
    if (w->fields.n == 0)
        return w->con;
    Expr *value = w->con ? expr_call(a, w->span, w->con, w->fields.n, fields, NULL)
                         : expr_tuple(a, w->span, w->fields.n, fields);
    return typed(value, w->type);
}

/* What a block ends with; what is not made before is made there. */
static Expr *end_of(Opening *o, Expr *end)
{
    const Written *w = expr_as_var(end) ? unmade(o, end) : NULL;
    if (!w)
        return end;
    Var *v = new_var(o, w->span, w->type);
    return typed(expr_let(&o->module->arena, w->span, v, make(o, w), &v->base), w->type);
}

static Expr *match_with_ends(Opening *o, Match *m)
{
    Arena *a = &o->module->arena;
    Clause *clauses = arena_alloc_must(a, m->clauses.n, sizeof *clauses);
    bool same = true;
    for (uint32_t i = 0; i < m->clauses.n; i++) {
        clauses[i] = m->clauses.at[i];
        clauses[i].body = end_of(o, clauses[i].body);
        same &= clauses[i].body == m->clauses.at[i].body;
    }
    if (same)
        return &m->base;
    return expr_match(a, m->base.span, m->scrutinee, m->clauses.n, clauses, m->complete);
}

static Expr *with_ends(Opening *o, Expr *e)
{
    Arena *a = &o->module->arena;
    Let *let = expr_as_let(e);
    If *branch = expr_as_if(e);
    Expr *now = e;
    if (let && end_of(o, let->body) != let->body)
        now = expr_let(a, e->span, let->var, let->value, end_of(o, let->body));
    if (branch)
        now = expr_if(a, e->span, branch->cond, end_of(o, branch->then),
                      end_of(o, branch->otherwise));
    if (expr_as_match(e))
        now = match_with_ends(o, expr_as_match(e));
    return typed(now, e->type);
}

/* The fields of a tuple that is an argument; NULL: it must be taken apart for that. */
static const Expr *const *fields_of(Opening *o, const Expr *tuple)
{
    const Written *w = ptrmap_find(&o->known, tuple);
    Opened *opened = ptrmap_find(&o->opened, tuple);
    if (!w && !opened)
        return NULL;
    uint32_t n = w ? w->fields.n : opened->n;
    const Expr **fields = arena_new_array(&o->scratch, const Expr *, n);
    for (uint32_t i = 0; i < n; i++)
        fields[i] = w ? &field_itself(o, w->fields.at[i])->base
                      : &field_of(o, opened, tuple->span, i)->base;
    return fields;
}

/* The let as what a match of the tuple goes on with. */
static Expr *behind_match(Opening *o, Expr *tuple, ExprList fields, Expr *let)
{
    Arena *a = &o->module->arena;
    Span span = let->span;
    Pattern *patterns[FIELDS_MOST];
    for (uint32_t i = 0; i < fields.n; i++)
        patterns[i] = pattern_var(a, span, expr_as_var(fields.at[i]));
    Clause clause = {pattern_tuple(a, span, fields.n, patterns), let, span};
    Var *result = new_var(o, span, let->type);
    Expr *match = typed(expr_match(a, span, tuple, 1, &clause, true), let->type);
    return typed(expr_let(a, span, result, match, &result->base), let->type);
}

/* The call of a function that takes these arguments field by field. */
static Expr *hand_on_fields(Opening *o, Let *let, uint64_t opened)
{
    Arena *a = &o->module->arena;
    Call *call = expr_as_call(let->value);
    Vec(Expr *) args = {0};
    struct Apart {
        Expr *tuple;
        ExprList fields;
    };
    Vec(struct Apart) apart = {0};
    for (uint32_t i = 0; i < call->args.n; i++) {
        Expr *arg = call->args.at[i];
        if (i >= 64 || !(opened >> i & 1)) {
            vec_push(&args, &o->scratch, arg);
            continue;
        }
        uint32_t n = type_resolve(o->cx, arg->type)->n;
        const Expr *const *known = fields_of(o, arg);
        ExprList fields = {(Expr **)(uintptr_t)known, n};
        if (!known) {
            fields = new_fields(o, call->base.span, arg->type);
            vec_push(&apart, &o->scratch, ((struct Apart){arg, fields}));
        }
        for (uint32_t k = 0; k < n; k++)
            vec_push(&args, &o->scratch, fields.at[k]);
    }
    Call *now = expr_as_call(
        expr_call(a, call->base.span, call->callee, (uint32_t)args.n, args.at, call->attrs));
    now->base.type = call->base.type;
    now->type_args = call->type_args;
    Expr *out = expr_let(a, let->base.span, let->var, &now->base, let->body);
    out->type = let->base.type;
    for (size_t i = apart.n; i-- > 0;)
        out = behind_match(o, apart.at[i].tuple, apart.at[i].fields, out);
    return out;
}

/* The call whose result comes field by field; the tuple is made where it is wanted as a whole. */
static Expr *open_result(Opening *o, Let *let)
{
    Arena *a = &o->module->arena;
    Span span = let->base.span;
    const Written *w = ptrmap_find(&o->known, let->var);
    Expr *body = let->body;
    if (!unmade(o, &let->var->base))
        body = typed(expr_let(a, span, let->var, make(o, w), body), let->base.type);
    Var *given = new_var(o, span, w->type);
    for (uint32_t i = w->fields.n; i-- > 0;) {
        Expr *get = typed(expr_tuple_get(a, span, &given->base, i), w->fields.at[i]->type);
        body = typed(expr_let(a, span, expr_as_var(w->fields.at[i]), get, body), let->base.type);
    }
    return typed(expr_let(a, span, given, let->value, body), let->base.type);
}

/* The function with the fields in place of the tuples; where one is wanted as a whole it is made first. */
static Expr *open_params(Opening *o, Function *fn)
{
    Arena *a = &o->module->arena;
    Vec(Var *) params = {0};
    Vec(const Type *) types = {0};
    Expr *body = fn->body;
    for (uint32_t i = 0; i < fn->params.n; i++) {
        Var *v = fn->params.at[i];
        const Written *w = i < 64 && (o->opens->params >> i & 1) ? ptrmap_find(&o->known, v) : NULL;
        if (w && !unmade(o, &v->base))
            body = typed(expr_let(a, v->base.span, v, make(o, w), body), fn->body->type);
        for (uint32_t k = 0; k < (w ? w->fields.n : 1); k++) {
            Var *param = w ? expr_as_var(w->fields.at[k]) : v;
            vec_push(&params, &o->scratch, param);
            vec_push(&types, &o->scratch, param->base.type);
        }
    }
    Function *now = expr_function(a, fn->base.span, fn->type_params, (uint32_t)params.n, params.at,
                                  fn->attrs, fn->ret_type, body);
    const Type *type = fn->base.type ? type_resolve(o->cx, fn->base.type) : NULL;
    if (type)
        now->base.type = type_func(o->cx, type->n_params, type->params, (uint32_t)types.n, types.at,
                                   type->result);
    return &now->base;
}

static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    Opening *o = rw->data;
    expr_keep_type(now, old);
    if (old->kind == EXPR_VAR)
        return &field_itself(o, now)->base;
    const Match *match = expr_as_match(old);
    const Written *written = match ? looked_into(o, match) : NULL;
    if (written)
        return match_fields(o, expr_as_match(with_ends(o, now)), written);
    const TupleGet *get = expr_as_tuple_get(old);
    Opened *opened = get ? ptrmap_find(&o->opened, get->tuple) : NULL;
    if (opened)
        return &field_of(o, opened, old->span, (uint32_t)get->index)->base;
    written = get ? unmade(o, get->tuple) : NULL;
    if (written)
        return &field_itself(o, written->fields.at[get->index])->base;
    if (expr_as_function(old))
        now = open_in_front(o, expr_as_function(now), expr_as_function(old)->body->type);
    if (old == &o->fn->base && o->opens)
        return open_params(o, expr_as_function(now));
    now = with_ends(o, now);
    const Let *let = expr_as_let(old);
    if (let && ptrmap_has(&o->given, let->var))
        now = open_result(o, expr_as_let(now));
    else if (let && unmade(o, &let->var->base))
        return expr_as_let(now)->body;
    if (let && is_alias(let))
        return expr_as_let(now)->body;
    if (let && expr_as_let(expr_as_let(now)->value))
        return splice(o, expr_as_let(now)->value, expr_as_let(now));
    bool gives = let && gives_known(let) && ptrmap_has(&o->looked, let->var);
    if (gives && expr_as_match(expr_as_let(now)->value))
        return sink_rest(o, expr_as_let(now));
    opened = let ? ptrmap_find(&o->opened, let->var) : NULL;
    if (opened)
        now = open_let(o, opened, expr_as_let(now));
    const Call *call = let ? expr_as_call(let->value) : NULL;
    uint64_t args = call ? opens_args(o->opens, call) : 0;
    return args ? hand_on_fields(o, expr_as_let(now), args) : now;
}

static Function *open_once(Ctx *cx, Module *module, Function *fn, const Opens *opens, bool first,
                           bool *any)
{
    Opening o = {.cx = cx, .module = module, .fn = fn, .opens = opens, .first = first};
    arena_init(&o.scratch, &cx->limits);
    o.any = opens && opens->params;
    note_params(&o);
    ir_walk(&fn->base, note, NULL, &o);
    name_fields(&o);
    for (size_t i = 0; i < o.written.n && !o.any; i++)
        o.any = o.written.entries[i].value && ((const Written *)o.written.entries[i].value)->looked;
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
    ptrmap_deinit(&o.known);
    ptrmap_deinit(&o.written);
    ptrmap_deinit(&o.given);
    ptrmap_deinit(&o.looked);
    ptrmap_deinit(&o.fields);
    arena_deinit(&o.scratch);
    return limit_hit(&cx->limits) ? NULL : fn;
}

Function *open_tuples(Ctx *cx, Module *module, Function *fn, const Opens *opens)
{
    bool more = true;
    const Opens *behind = opens && opens->results ? opens : NULL;
    for (unsigned round = 0; fn && more && round < ROUNDS_MOST; round++)
        fn = open_once(cx, module, fn, round == 0 ? opens : behind, round == 0, &more);
    return fn;
}
