/* Counting what definitions do, and handing calls of those that are hot to the tier. */
#include "interp/tier.h"

#include "interp/internal.h"

/* A definition at more types than this is left to the evaluator. */
#define TALLIES_MOST 16

/* Code that calls closures of the evaluator, which call code again: each such turn takes stack, even of calls that are the last thing done.
 * Further in, the evaluator goes on alone, where those take none. */
#define BETWEEN_MOST 64

void interp_set_tier(Interp *in, const Tier *tier)
{
    in->tier = tier;
    interp_tier_counts(in, TIER_BEGIN, TIER_TAKE);
}

void interp_tier_counts(Interp *in, uint64_t begin, uint64_t take)
{
    in->tier_begin = begin;
    in->tier_take = take;
}

bool interp_tier_on(Interp *in, bool on)
{
    bool was = in->tier_on;
    in->tier_on = on && in->tier;
    if (!was)
        in->turns_between = 0;
    return was;
}

void interp_tier_renew(Interp *in)
{
    in->epoch++;
}

void tally_init(Code *code, const Function *fn)
{
    Arena *a = &code->unit->arena;
    code->n_vars = fn->type_params.n;
    code->vars = arena_copy(a, fn->type_params.at, code->n_vars * sizeof *code->vars);
    if (code->n_vars > 0)
        return;
    Tally *tally = arena_new(a, Tally);
    *tally = (Tally){.code = code, .next = code->unit->in->tier_begin};
    for (size_t i = 0; i < code->unit->codes.n; i++)
        code->unit->codes.at[i]->tally = tally;
}

static void set_made(Interp *in, Tally *t, void *made)
{
    Tally **at = &in->made;
    while (*at && *at != t)
        at = &(*at)->next_made;
    if (made && !*at) {
        t->next_made = NULL;
        *at = t;
    } else if (!made && *at) {
        *at = t->next_made;
    }
    t->made = made;
}

static void drop_made(Interp *in, Tally *t)
{
    void *made = t->made;
    set_made(in, t, NULL);
    in->tier->drop(in->tier->data, made);
}

void tally_end(const Code *code)
{
    if (code->tally)
        code->tally->next = UINT64_MAX;
}

/* A closure may live longer than the evaluator, which has then let go of all that was made. */
void tally_drop(const Unit *u)
{
    for (size_t i = 0; i < u->codes.n; i++)
        for (Tally *t = u->codes.at[i]->tally; t; t = t->other)
            if (t->made)
                drop_made(u->in, t);
}

void tally_drop_all(Interp *in)
{
    while (in->made)
        drop_made(in, in->made);
}

/* ---- at which types ----------------------------------------------------------------------------------- */

#define CLOSED_DEPTH_MOST 32

/* No type variable is left in it. */
static bool is_closed(const Type *t)
{
    bool closed = t->kind != TYPE_VAR && t->depth <= CLOSED_DEPTH_MOST;
    if (!closed || t->kind == TYPE_TENSOR)
        return closed;
    for (uint32_t i = 0; i < t->n && closed; i++)
        closed = is_closed(t->parts[i]);
    return closed && (t->kind != TYPE_FUNC || (t->n_params == 0 && is_closed(t->result)));
}

static Tally *find_at(const Code *code, uint32_t n, const Type *const *types)
{
    uint32_t others = 0;
    for (Tally *t = code->tally; t; t = t->other, others++)
        if (memcmp(t->types, types, n * sizeof *types) == 0)
            return t;
    if (others >= TALLIES_MOST)
        return NULL;
    Arena *a = &code->unit->arena;
    Tally *t = arena_new(a, Tally);
    *t = (Tally){
        .code = code, .next = code->unit->in->tier_begin, .n_types = n, .other = code->tally};
    t->types = arena_copy(a, types, n * sizeof *types);
    ((Code *)(uintptr_t)code)->tally = t;
    return t;
}

Tally *tally_at(Interp *in, const Step *s, const Code *code)
{
    TypedCall *call = s->typed;
    const Tally *of = in->frame->tally;
    if (call->n != code->n_vars)
        return NULL;
    if (call->epoch == in->epoch && call->of == of)
        return call->tally;
    ArenaMark mark = arena_mark(&in->scratch);
    const Type **types = arena_new_array(&in->scratch, const Type *, call->n);
    bool closed = types != NULL;
    for (uint32_t i = 0; closed && i < call->n; i++) {
        types[i] = type_resolve(in->cx, call->types[i]);
        if (of && of->n_types > 0)
            types[i] = type_subst(in->cx, types[i], of->n_types, of->code->vars, of->types);
        closed = is_closed(types[i]);
    }
    call->of = of;
    call->epoch = in->epoch;
    call->tally = closed ? find_at(code, call->n, types) : NULL;
    arena_reset(&in->scratch, mark);
    return call->tally;
}

/* ---- the counts are reached ---------------------------------------------------------------------------- */

static HotDef hot_def(const Interp *in, const Tally *t)
{
    return (HotDef){in->env, t->code->name, t->n_types, t->types};
}

/* Whether anybody counts. */
static bool counts(const Interp *in, Tally *t)
{
    bool on = in->tier_on && !in->observer;
    if (!on && !t->made)
        t->work = 0;
    return on;
}

static void begin(Interp *in, Tally *t)
{
    const HotDef hot = hot_def(in, t);
    if (t->begun)
        return;
    t->begun = true;
    t->next = in->tier_take;
    set_made(in, t, in->tier->begin(in->tier->data, &hot));
}

void tally_wants(Interp *in, Tally *t)
{
    if (counts(in, t))
        begin(in, t);
}

bool tally_takes(Interp *in, Tally *t)
{
    if (!counts(in, t) || in->turns_between >= BETWEEN_MOST)
        return false;
    if (t->epoch == in->epoch)
        return true;
    begin(in, t);
    if (t->work < in->tier_take)
        return false;
    const HotDef hot = hot_def(in, t);
    if (t->made)
        set_made(in, t, in->tier->take(in->tier->data, &hot, t->made));
    t->epoch = t->made ? in->epoch : 0;
    t->next = t->made ? 0 : UINT64_MAX;
    return t->made != NULL;
}

Value tally_call(Interp *in, const Tally *t, uint32_t n, const Value *args, Span span)
{
    in->turns_between++;
    Value v = in->tier->call(in->tier->data, t->made, n, args, span);
    in->turns_between--;
    return v;
}
