/* Values that were made with the code (closed.c): what they consist of, each part behind its own, so that one stack makes them again. */
#include "jit/keep.h"

typedef enum ClosedWord { CLOSED_SCALAR, CLOSED_TUPLE, CLOSED_CON } ClosedWord;

typedef Vec(const Closed *) ClosedList;

static void put_part(Writing *w, const Closed *c)
{
    bool scalar = c->value.kind == VALUE_SCALAR;
    keep_put(w, scalar ? CLOSED_SCALAR : c->con ? CLOSED_CON : CLOSED_TUPLE);
    if (scalar) {
        keep_put(w, value_head(&c->value));
        keep_put(w, c->value.bits);
        return;
    }
    if (c->con)
        keep_put_constructor(w, c->con);
    keep_put(w, c->n);
}

void keep_put_closed(Writing *w, const Closed *c)
{
    ClosedList todo = {0}, all = {0};
    vec_push(&todo, &w->arena, c);
    while (todo.n > 0) {
        const Closed *part = vec_pop(&todo);
        vec_push(&all, &w->arena, part);
        for (uint32_t i = part->n; i-- > 0;)
            vec_push(&todo, &w->arena, part->fields[i]);
    }
    keep_put(w, all.n);
    while (all.n > 0 && !w->here)
        put_part(w, vec_pop(&all));
}

/* The first field came last. */
static const Closed *take_object(Taking *t, bool is_con, ClosedList *made)
{
    Arena *a = &t->u->arena;
    const Constructor *con = is_con ? keep_take_constructor(t, false) : NULL;
    uint64_t n = keep_take(t);
    t->wrong |= n > made->n || (con && con->n != n) || (n == 0 && !(con && con->info->nullary));
    if (t->wrong)
        return NULL;
    if (n == 0)
        return closed_nullary(a, con);
    const Closed **fields = arena_new_array(a, const Closed *, n);
    for (uint64_t i = 0; i < n; i++)
        fields[i] = vec_pop(made);
    return closed_object(t->u->jit->cx, a, con, (uint32_t)n, fields);
}

static const Closed *take_scalar(Taking *t)
{
    Value v;
    uint64_t head = keep_take(t);
    value_put(&v, head, keep_take(t));
    t->wrong |= v.kind != VALUE_SCALAR || dtype_id(v.dtype) == DTYPE_IDS;
    return t->wrong ? NULL : closed_scalar(&t->u->arena, v);
}

const Closed *keep_take_closed(Taking *t)
{
    ClosedList made = {0};
    for (uint64_t n = keep_take_count(t); n > 0 && !t->wrong; n--) {
        uint64_t word = keep_take(t);
        t->wrong |= word > CLOSED_CON;
        const Closed *part =
            word == CLOSED_SCALAR ? take_scalar(t) : take_object(t, word == CLOSED_CON, &made);
        t->wrong |= !part;
        vec_push(&made, &t->u->arena, part);
    }
    t->wrong = t->wrong || made.n != 1 || !value_is_object(made.at[0]->value);
    return t->wrong ? NULL : made.at[0];
}
