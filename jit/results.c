/* Results that are lent: a function that only goes through what it is lent, and gives a part of that, as one that looks something up
 * does, gives it without a count where its arguments live until the caller has returned.
 *
 * What is found here must be what the code for it comes to: match.c lends the fields of a value that is matched under the conditions
 * that `lends_fields` asks for. */
#include "ir/walk.h"
#include "jit/internal.h"

struct PartOf {
    bool counted; /* it is, or may be, something else than a part */
    uint64_t params; /* that it may be a part of, as bits; of none: one that lives with the code */
};

typedef struct Search {
    Gen *g;
    const Instance *in;
    PartOf of; /* what was found of the result so far */
    PtrMap vars; /* Var -> PartOf of one that is a part */
} Search;

static PartOf joined(PartOf a, PartOf b)
{
    return (PartOf){a.counted || b.counted, a.params | b.params};
}

static PartOf source_of_atom(const Search *s, const Expr *e)
{
    const PartOf *known = ptrmap_find(&s->vars, e);
    return known ? *known : (PartOf){.counted = e->kind != EXPR_CON};
}

static void put_source(Search *s, const Var *v, PartOf source)
{
    if (source.counted || instance_type(s->g, s->in, v->base.type)->kind != TYPE_ADT)
        return;
    PartOf *own = arena_new(s->g->arena, PartOf);
    *own = source;
    ptrmap_put(&s->vars, v, own);
}

/* A call of the function itself gives what that is found to give. */
static PartOf source_of_call(const Search *s, const Call *call)
{
    const GlobalVar *global = expr_as_global(call->callee);
    const Function *fn = s->in->fn;
    if (call->callee->kind == EXPR_CON)
        return (PartOf){.counted = call->args.n > 0};
    PartOf all = s->of;
    all.counted |= !global || global->name != s->in->global || call->args.n != fn->params.n;
    all.params = 0;
    for (uint32_t i = 0; i < call->args.n && !all.counted; i++) {
        const Expr *arg = call->args.at[i];
        all.counted = type_find(arg->type) != type_find(fn->params.at[i]->base.type);
        if (i < TERMS_PARAMS_MOST && (s->of.params >> i & 1))
            all = joined(all, source_of_atom(s, arg));
    }
    return all;
}

/* ---- through a function ------------------------------------------------------------------------------------------ */

/* What waits in the plan of kernels is not lent, and then nothing of the value is. */
static bool lends_fields(const Search *s, const Pattern *p)
{
    const Type *t = p->kind == PATTERN_VAR ? instance_type(s->g, s->in, p->var->base.type) : NULL;
    bool lends = !t || !match_may_wait(t);
    for (uint32_t i = 0; i < p->n && lends; i++)
        lends = lends_fields(s, p->fields[i]);
    return lends;
}

static void note_fields(Search *s, const Pattern *p, PartOf source)
{
    if (p->kind == PATTERN_VAR)
        put_source(s, p->var, source);
    for (uint32_t i = 0; i < p->n; i++)
        note_fields(s, p->fields[i], source);
}

static bool is_matched_once(const Match *m, const Expr *value)
{
    const Tuple *tuple = expr_as_tuple(m->scrutinee);
    uint32_t n = !tuple;
    for (uint32_t i = 0; tuple && i < tuple->fields.n; i++)
        n += tuple->fields.at[i] == value;
    return n == 1;
}

static void note_clause(Search *s, const Match *m, uint32_t clause)
{
    const Tuple *tuple = expr_as_tuple(m->scrutinee);
    for (uint32_t i = 0; i < (tuple ? tuple->fields.n : 1); i++) {
        const Expr *value = tuple ? tuple->fields.at[i] : m->scrutinee;
        const Pattern *p = match_pattern(m, clause, i);
        PartOf source = source_of_atom(s, value);
        if (p && p->n > 0 && !source.counted && is_matched_once(m, value) && lends_fields(s, p))
            note_fields(s, p, source);
    }
}

static PartOf source_of_block(Search *s, const Expr *e);

/* Of what a let has for its value; with `last` that is what the block gives. */
static PartOf source_of_value(Search *s, const Expr *e, bool last)
{
    const If *branch = expr_as_if(e);
    const Match *match = expr_as_match(e);
    const Call *call = expr_as_call(e);
    if (call)
        return source_of_call(s, call);
    if (last && branch)
        return joined(source_of_block(s, branch->then), source_of_block(s, branch->otherwise));
    bool made = e->kind == EXPR_CON || e->kind == EXPR_CONSTANT; /* and lives with the code */
    PartOf all = {.counted = !(last && match) && !made};
    for (uint32_t i = 0; last && match && i < match->clauses.n; i++) {
        note_clause(s, match, i);
        all = joined(all, source_of_block(s, match->clauses.at[i].body));
    }
    return all;
}

/* Blocks nest no deeper than outline.c leaves them. */
static PartOf source_of_block(Search *s, const Expr *e)
{
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        PartOf source = source_of_value(s, let->value, let_is_last(let));
        if (let_is_last(let))
            return source;
        put_source(s, let->var, source);
        e = let->body;
    }
    return source_of_atom(s, e);
}

static void find_source(Search *s)
{
    uint64_t before, lendable = instance_lendable(s->g, s->in);
    const Function *fn = s->in->fn;
    do {
        before = s->of.params;
        ptrmap_clear(&s->vars);
        for (uint32_t i = 0; i < fn->params.n && i < TERMS_PARAMS_MOST; i++)
            if (lendable >> i & 1)
                put_source(s, fn->params.at[i], (PartOf){.params = (uint64_t)1 << i});
        s->of = joined(s->of, source_of_block(s, fn->body));
    } while (!s->of.counted && s->of.params != before);
    ptrmap_deinit(&s->vars);
}

static bool may_be_part(const Instance *in)
{
    bool may = in->global && !in->late && !in->open && in->result->kind == TYPE_ADT;
    for (uint32_t i = 0; i < in->n && may; i++)
        may = !shapes_unknown(in->params[i]);
    return may;
}

bool instance_may_lend_result(Gen *g, Instance *in, uint64_t staying)
{
    if (!may_be_part(in))
        return false;
    if (!in->source) {
        Search s = {.g = g, .in = in};
        find_source(&s);
        in->source = arena_new(g->arena, PartOf);
        *in->source = s.of;
    }
    return !in->source->counted && in->source->params != 0 && (in->source->params & ~staying) == 0;
}

/* ---- calls that never lead back ------------------------------------------------------------------------------------ */

/* Nodes that are looked at for a call; where they do not suffice, it is taken to lead back. */
#define REACH_MOST 4096

typedef struct Reach {
    Gen *g;
    const Name *from;
    size_t nodes; /* looked at so far */
    PtrMap seen; /* Name, as entries */
    Vec(const Name *) todo;
    bool leads; /* back, or nobody knows where */
} Reach;

static WalkNext note_reached(void *data, const Expr *e)
{
    Reach *r = data;
    const Call *call = expr_as_call(e);
    const GlobalVar *global = expr_as_global(e);
    r->leads |= ++r->nodes > REACH_MOST || (call && expr_as_var(call->callee));
    if (global && !ptrmap_has(&r->seen, global->name)) {
        ptrmap_put(&r->seen, global->name, r);
        vec_push(&r->todo, r->g->arena, global->name);
        r->leads |= global->name == r->from;
    }
    return r->leads ? WALK_STOP : WALK_ON;
}

bool definition_leads_back(Gen *g, const Name *callee, const Name *caller)
{
    Reach r = {.g = g, .from = caller, .leads = callee == caller};
    vec_push(&r.todo, g->arena, callee);
    while (r.todo.n > 0 && !r.leads && !gen_ended(g)) {
        const Def *def = module_find(g->env, vec_pop(&r.todo));
        if (!def || !def->fn)
            r.leads = true;
        else
            ir_walk(&def->fn->base, note_reached, NULL, &r);
    }
    ptrmap_deinit(&r.seen);
    return r.leads;
}
