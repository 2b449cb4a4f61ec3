#include "passes/cost.h"

/* A type may be exponentially larger than what is stored. */
#define STEPS_MOST 1000000

static void add_tensor(TypeSize *sum, const Type *t)
{
    double n = 1;
    for (uint32_t i = 0; i < t->n; i++) {
        sum->unknown |= t->dims[i] < 0;
        n *= t->dims[i] < 0 ? 0 : (double)t->dims[i];
    }
    sum->elements += n;
    sum->bytes += n * (double)dtype_size(t->dtype);
}

void type_size_add(TypeSize *sum, const Type *t)
{
    Arena arena;
    Vec(const Type *) work = {0};
    arena_init(&arena, NULL);
    if (t)
        vec_push(&work, &arena, t);
    while (work.n && sum->steps++ < STEPS_MOST) {
        t = type_find(vec_pop(&work));
        if (t->kind == TYPE_TENSOR)
            add_tensor(sum, t);
        for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++)
            vec_push(&work, &arena, t->parts[i]);
    }
    sum->unknown |= work.n > 0;
    arena_deinit(&arena);
}

bool call_cost(Ctx *cx, Arena *arena, const Call *c, const Op *op, TeCost *out)
{
    const Type **args = arena_alloc_must(arena, c->args.n + 1, sizeof *args);
    TypeSize sizes = {0};
    type_size_add(&sizes, c->base.type);
    for (uint32_t i = 0; i < c->args.n; i++) {
        args[i] = c->args.at[i]->type;
        sizes.unknown |= !args[i];
        type_size_add(&sizes, args[i]);
    }
    *out = (TeCost){0};
    if (!op->compute || sizes.unknown || !c->base.type)
        return false;
    TeProgram *p =
        te_of_op(cx, arena, op, c->attrs, c->base.span, c->args.n, args, type_find(c->base.type));
    if (p)
        *out = te_cost(p);
    return p != NULL;
}
