/* Code that finds the clause of a match that takes a value: a switch for each choice (ir/decide.h). */
#include "jit/internal.h"

typedef struct Emitting {
    Fn *f;
    const Type *const *types; /* of the values that are matched */
    const Ssa *values;
    const LLVMBasicBlockRef *clauses;
    LLVMBasicBlockRef *blocks; /* of the choices */
} Emitting;

static const Type *field_type(Fn *f, const Constructor *of, const Type *type, uint32_t i)
{
    if (!of)
        return type->parts[i];
    const TypeDef *def = of->type;
    return type_subst(f->g->cx, of->fields[i], def->n_params, def->params, type->parts);
}

const Type *pattern_field_type(Fn *f, const Pattern *p, const Type *type, uint32_t i)
{
    return field_type(f, p->kind == PATTERN_TUPLE ? NULL : p->con, type, i);
}

static const Type *type_at(const Emitting *d, const MatchPlace *p)
{
    return p->in ? field_type(d->f, p->of, type_at(d, p->in), p->at) : d->types[p->at];
}

static Ssa value_at(const Emitting *d, const MatchPlace *p)
{
    return p->in ? fn_get_field(d->f, value_at(d, p->in), p->at, repr_of(type_at(d, p)))
                 : d->values[p->at];
}

/* NULL: no value comes there. */
static LLVMBasicBlockRef block_of(const Emitting *d, MatchGoal to)
{
    return to.choice ? d->blocks[to.choice->number] : d->clauses[to.clause];
}

static void choose(Emitting *d, const MatchChoice *c)
{
    Gen *g = d->f->g;
    uint32_t n_cons = c->ways.at[0].con->type->n_cons;
    size_t cases = c->ways.n;
    LLVMBasicBlockRef other = cases < n_cons ? block_of(d, c->other) : NULL;
    if (d->f->ways < cases)
        d->f->ways = cases;
    if (!other) /* the last is what the others leave */
        other = block_of(d, c->ways.at[--cases].to);
    Ssa chosen =
        LLVMBuildSwitch(g->b, fn_tag(d->f, value_at(d, c->place), n_cons), other, (unsigned)cases);
    for (size_t i = 0; i < cases; i++)
        LLVMAddCase(chosen, gen_int(g->i32, c->ways.at[i].con->index),
                    block_of(d, c->ways.at[i].to));
}

void fn_decide(Fn *f, const Match *e, const Type *const *types, const Ssa *values,
               const LLVMBasicBlockRef *clauses)
{
    Gen *g = f->g;
    Emitting d = {.f = f, .types = types, .values = values, .clauses = clauses};
    MatchDecision decision = {0};
    if (!match_decide(g->arena, e, &decision))
        gen_refuse(g, "a pattern that is nested too deeply");
    if (gen_ended(g))
        return;
    size_t n = decision.choices.n;
    d.blocks = arena_new_array(g->arena, LLVMBasicBlockRef, n + 1);
    if (!d.blocks)
        return;
    for (size_t i = 0; i < n; i++)
        d.blocks[i] = gen_block(g, f->fn, "decide");
    LLVMBuildBr(g->b, block_of(&d, decision.first));
    for (size_t i = 0; i < n && !gen_ended(g); i++) {
        LLVMPositionBuilderAtEnd(g->b, d.blocks[i]);
        choose(&d, decision.choices.at[i]);
    }
}
