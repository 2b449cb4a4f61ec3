#include "te/walk.h"

int te_children(const Te *e)
{
    if (e->kind == TE_NODE_LOAD)
        return e->n + (e->otherwise != NULL);
    return e->kind < TE_NODE_UNARY ? 0 : e->c ? 3 : e->b ? 2 : 1;
}

Te *te_child(const Te *e, int i)
{
    if (e->kind == TE_NODE_LOAD)
        return i < e->n ? e->index[i] : e->otherwise;
    return i == 0 ? e->a : i == 1 ? e->b : e->c;
}

void te_each(Arena *arena, PtrMap *seen, Te *body, void (*found)(void *data, Te *e), void *data)
{
    Vec(Te *) work = {0};
    vec_push(&work, arena, body);
    while (work.n) {
        Te *e = vec_pop(&work);
        if (ptrmap_find(seen, e))
            continue;
        ptrmap_put(seen, e, e);
        found(data, e);
        for (int i = 0; i < te_children(e); i++)
            vec_push(&work, arena, te_child(e, i));
    }
}

typedef struct Rewrite {
    TeBuilder *b;
    TeMake *make;
    void *data;
    PtrMap done;
} Rewrite;

static Te *again(TeBuilder *b, const Te *e)
{
    Te *made = NULL;
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST:
    case TE_NODE_AXIS: return (Te *)(uintptr_t)e;
    case TE_NODE_LOAD:
        made = arena_new(b->arena, Te);
        *made = *e;
        made->index = arena_copy(b->arena, e->index, e->n * sizeof *e->index);
        break;
    case TE_NODE_UNARY: return te_unary(b, (TeOp)e->op, e->a);
    case TE_NODE_BINARY:
        made = te_binary(b, (TeOp)e->op, e->a, e->b);
        if (made->kind == e->kind && made->op == e->op && made->a == e->a && made->b == e->b)
            made->n = e->n;
        break;
    case TE_NODE_CAST: return te_cast(b, e->dtype, e->a);
    case TE_NODE_SELECT: return te_select(b, e->a, e->b, e->c);
    }
    return made;
}

static Te *rewritten(const Rewrite *r, const Te *e)
{
    return e ? ptrmap_find(&r->done, e) : NULL;
}

static Te *rewrite_node(Rewrite *r, const Te *e)
{
    Te now = *e, *index[TENSOR_RANK_MOST];
    bool same = true;
    if (e->kind == TE_NODE_LOAD) {
        for (int i = 0; i < e->n; i++) {
            index[i] = rewritten(r, e->index[i]);
            same = same && index[i] == e->index[i];
        }
        now.index = index;
        now.otherwise = rewritten(r, e->otherwise);
        same = same && now.otherwise == e->otherwise;
    } else if (e->kind >= TE_NODE_UNARY) {
        now.a = rewritten(r, e->a);
        now.b = rewritten(r, e->b);
        now.c = rewritten(r, e->c);
        same = now.a == e->a && now.b == e->b && now.c == e->c;
    }
    Span outer = r->b->span;
    if (!span_is_none(e->span))
        r->b->span = e->span;
    Te *made = r->make(r->data, r->b, &now, e);
    made = made ? made : same ? (Te *)(uintptr_t)e : again(r->b, &now);
    r->b->span = outer;
    return made;
}

Te *te_rewrite(TeBuilder *b, const Te *body, TeMake *make, void *data)
{
    Rewrite r = {.b = b, .make = make, .data = data};
    PtrMap entered = {0};
    Vec(const Te *) work = {0};
    vec_push(&work, b->arena, body);
    while (work.n) {
        const Te *e = vec_last(&work);
        if (ptrmap_find(&r.done, e)) {
            work.n--;
        } else if (ptrmap_find(&entered, e)) {
            work.n--;
            ptrmap_put(&r.done, e, rewrite_node(&r, e));
        } else {
            ptrmap_put(&entered, e, r.b);
            for (int i = 0; i < te_children(e); i++)
                vec_push(&work, b->arena, te_child(e, i));
        }
    }
    Te *made = rewritten(&r, body);
    ptrmap_deinit(&entered);
    ptrmap_deinit(&r.done);
    return made;
}
