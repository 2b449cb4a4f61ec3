/* Rows that come near while others are computed. Functions of a row's elements take many instructions, more than a processor looks ahead, so
 * that it would begin to read the next row only when it comes to it, and wait. Sums and products alone are few enough. */
#include "sched/sched.h"

#include "te/walk.h"

/* Where a row is stored, it, the one that it is made of and the next are to stay in the first cache. */
#define THREE_ROWS_BYTES ((int64_t)32 << 10)

typedef struct Near {
    Sched *s;
    const NestNode *rows;
    NestNode *statement, *vector; /* the loop that it stands in */
} Near;

static void find_function(void *data, Te *e)
{
    *(bool *)data |= e->kind == TE_NODE_UNARY;
}

static bool fits(const Near *f, int input, int64_t row)
{
    const NestBuffer *b = &f->s->n->buffers.at[f->statement->buffer];
    int64_t most = THREE_ROWS_BYTES / 3 / (int64_t)dtype_size(f->s->n->buffers.at[input].dtype);
    return b->place == NEST_REGISTER || (row <= most && row >= -most);
}

/* The elements of an input that are read as a vector in one turn are asked for in the turn before. */
static void ask(void *data, Te *e)
{
    Near *f = data;
    Nest *n = f->s->n;
    NestLinear at;
    if (e->kind != TE_NODE_LOAD || e->tensor >= n->n_inputs || e->n != 1 || e->otherwise ||
        !nest_linear(e->index[0], &at) || nest_coefficient(&at, f->vector->var) != 1)
        return;
    int64_t row = nest_coefficient(&at, f->rows->var);
    if (row == 0 || !fits(f, e->tensor, row) || !sched_outgrows(f->s, e->tensor) ||
        __builtin_add_overflow(at.c, row, &at.c))
        return;
    nest_insert(n, f->vector, nest_index(n, f->statement),
                nest_near(n, e->tensor, nest_position(n, &at)));
}

static void visit(const Near *f, void (*with)(void *data, Te *e), void *data)
{
    PtrMap seen = {0};
    te_each(f->s->arena, &seen, f->statement->value, with, data);
    ptrmap_deinit(&seen);
}

static void look(Near *f, NestNode *node)
{
    NestBlock body = {0};
    for (size_t i = 0; i < node->body.n; i++)
        vec_push(&body, f->s->n->arena, node->body.at[i]);
    for (size_t i = 0; i < body.n; i++) {
        bool functions = false;
        f->statement = body.at[i];
        if (f->statement->kind == NEST_LOOP) {
            look(f, f->statement);
        } else if (f->statement->value && node->way == NEST_VECTOR) {
            f->vector = node;
            visit(f, find_function, &functions);
            if (functions)
                visit(f, ask, f);
        }
    }
}

void sched_near(Sched *s, NestNode *rows)
{
    look(&(Near){.s = s, .rows = rows}, rows);
}
