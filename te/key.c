/* A program as bytes: equal programs give equal bytes. */
#include "te/walk.h"

typedef struct Key {
    Buf *out;
    PtrMap numbers; /* Te -> its position + 1 */
    uintptr_t n;
} Key;

static void put(Key *k, int64_t v)
{
    buf_bytes(k->out, (const char *)&v, sizeof v);
}

static void put_dtype(Key *k, DType t)
{
    put(k, (int64_t)t.code << 32 | (int64_t)t.bits << 16 | t.lanes);
}

static void put_shape(Key *k, int rank, const int64_t *shape)
{
    put(k, rank);
    for (int i = 0; i < rank; i++)
        put(k, shape[i]);
}

/* Children come before what they are part of, and are named by their positions. */
static Te *put_node(void *data, TeBuilder *b, const Te *e, const Te *old)
{
    Key *k = data;
    (void)b;
    (void)e;
    put(k, (int64_t)old->kind << 16 | (int64_t)old->op << 8 | old->n);
    put_dtype(k, old->dtype);
    if (old->kind == TE_NODE_CONST)
        put(k, (int64_t)old->value.bits);
    if (old->kind == TE_NODE_AXIS)
        put(k, old->axis);
    if (old->kind == TE_NODE_LOAD)
        put(k, old->tensor);
    put(k, te_children(old));
    for (int i = 0; i < te_children(old); i++)
        put(k, (int64_t)(uintptr_t)ptrmap_find(&k->numbers, te_child(old, i)));
    ptrmap_put(&k->numbers, old, (void *)++k->n);
    return (Te *)(uintptr_t)old;
}

void te_key(Ctx *cx, Arena *arena, const TeProgram *p, Buf *out)
{
    Key k = {.out = out};
    TeBuilder b;
    te_begin(&b, cx, arena);
    put(&k, p->n_inputs);
    for (int i = 0; i < p->n_inputs; i++) {
        put_dtype(&k, p->inputs[i].dtype);
        put_shape(&k, p->inputs[i].rank, p->inputs[i].shape);
    }
    put(&k, p->n_stages);
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        put_dtype(&k, s->dtype);
        put_shape(&k, s->rank, s->shape);
        put(&k, s->reduce);
        put_shape(&k, s->n_reduced, s->reduced);
        te_rewrite(&b, s->body, put_node, &k);
        put(&k, (int64_t)(uintptr_t)ptrmap_find(&k.numbers, s->body));
        if (s->at) {
            te_rewrite(&b, s->at, put_node, &k);
            put(&k, (int64_t)(uintptr_t)ptrmap_find(&k.numbers, s->at));
            put(&k, s->onto);
        }
        put(&k, s->at != NULL);
        ptrmap_clear(&k.numbers);
        k.n = 0;
    }
    put(&k, p->n_outputs);
    for (int i = 0; i < p->n_outputs; i++)
        put(&k, p->outputs[i]);
    ptrmap_deinit(&k.numbers);
}
