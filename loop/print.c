/* Nests as a reader would write them. */
#include "loop/nest.h"

#include "te/print.h"

typedef struct NestNames {
    TeNames base;
    const Nest *n;
    const NestReader *reader;
} NestNames;

static void axis_name(const TeNames *names, Buf *out, int var)
{
    const Nest *n = ((const NestNames *)names)->n;
    buf_printf(out, "%s%d", n->vars.at[var], var);
}

static void buffer_name(const TeNames *names, Buf *out, int id)
{
    const Nest *n = ((const NestNames *)names)->n;
    const NestReader *reader = ((const NestNames *)names)->reader;
    const NestBuffer *b = &n->buffers.at[id];
    if (reader->names && id < reader->n_names) {
        buf_str(out, reader->names[id]);
        return;
    }
    if (reader->names && b->name) {
        buf_printf(out, "%s%d", b->name, id);
        return;
    }
    bool own = b->place == NEST_LOCAL || b->place == NEST_REGISTER || b->place == NEST_SHARED;
    buf_printf(out, "%s%d", own ? b->name : id < n->n_inputs ? "x" : "t", id);
}

static bool is_number(const TeNames *names, int id)
{
    const Nest *n = ((const NestNames *)names)->n;
    return id < n->n_inputs && n->buffers.at[id].rank == 0;
}

static void print_place(const NestNames *names, Buf *out, int buffer, const Te *at)
{
    buffer_name(&names->base, out, buffer);
    buf_char(out, '[');
    te_print_expr(out, at, &names->base, 0);
    buf_char(out, ']');
}

static void print_fold(const NestNames *names, Buf *out, const NestNode *s, int indent)
{
    buf_printf(out, "%s %s= ", s->atomic ? " atomic" : "",
               s->fold == TE_SUM ? "+" : te_reduce_name(s->fold));
    te_print_expr(out, s->value, &names->base, indent + 4);
    if (s->ahead)
        buf_printf(out, ", %lld bytes ahead", (long long)s->ahead);
    if (!nest_is_position(s->fold))
        return;
    buf_str(out, " at ");
    te_print_expr(out, s->number, &names->base, indent + 4);
}

static void print_loop(const NestNames *names, Buf *out, const NestNode *loop)
{
    static const char *const ways[] = {"for",  "unrolled", "vector", "parallel",
                                       "grid", "threads",  "let"};
    buf_printf(out, "%s ", ways[loop->way]);
    axis_name(&names->base, out, loop->var);
    buf_printf(out, " in 0..%lld", (long long)loop->extent);
    if (loop->way == NEST_VECTOR && loop->lanes != loop->extent)
        buf_printf(out, " of %d", loop->lanes);
    if (loop->way == NEST_BOUND) {
        buf_str(out, " = ");
        te_print_expr(out, loop->value, &names->base, 0);
        if (nest_may_leave(loop))
            buf_str(out, ", where it is less");
    }
    buf_str(out, loop->apart ? ", apart:\n" : ":\n");
}

/* What the threads of a block share. */
static void print_shared(const NestNames *names, Buf *out, const NestNode *home, int indent)
{
    for (size_t i = 0; i < names->n->buffers.n; i++) {
        const NestBuffer *b = &names->n->buffers.at[i];
        if (b->place != NEST_SHARED || b->home != home)
            continue;
        buf_printf(out, "%*sshared %s%zu: ", indent, "", b->name, i);
        dtype_print(out, b->dtype);
        buf_printf(out, "[%lld]\n", (long long)b->size);
    }
}

static void print_product(const NestNames *names, Buf *out, const NestNode *s)
{
    const NestProduct *p = &s->product;
    buffer_name(&names->base, out, s->buffer);
    buf_str(out, " = product of ");
    buffer_name(&names->base, out, p->a);
    buf_str(out, " and ");
    buffer_name(&names->base, out, p->b);
    buf_printf(out, ", %lld times %lld by %lld by %lld\n", (long long)p->batch.extent,
               (long long)p->m.extent, (long long)p->k.extent, (long long)p->n.extent);
}

/* rows3[0…] <- box of x0: 64 from k * 64 in 0..512, 128 from i * 128 in 0..1024 by 512; counts at gates5[k % 3] */
static void print_bulk(const NestNames *names, Buf *out, const NestNode *s)
{
    const NestBox *box = s->box;
    print_place(names, out, s->buffer, s->at);
    buf_str(out, " <- box of ");
    buffer_name(&names->base, out, box->from);
    for (int i = 0; i < box->n; i++) {
        buf_printf(out, "%s %d from ", i ? "," : ":", box->axis[i].length);
        te_print_expr(out, box->axis[i].first, &names->base, 0);
        buf_printf(out, " in 0..%lld", (long long)box->axis[i].extent);
        if (i)
            buf_printf(out, " by %lld", (long long)box->axis[i].step);
    }
    buf_str(out, "; counts at ");
    print_place(names, out, s->gate, s->number);
}

static void print_block(const NestNames *names, Buf *out, const NestBlock *block, int indent);

static void print_node(const NestNames *names, Buf *out, const NestNode *s, int indent)
{
    if (names->reader->comes)
        names->reader->comes(names->reader->data, s);
    buf_printf(out, "%*s", indent, "");
    switch (s->kind) {
    case NEST_LOOP:
        print_loop(names, out, s);
        print_shared(names, out, s, indent + 2);
        print_block(names, out, &s->body, indent + 2);
        return;
    case NEST_IF:
        buf_str(out, "if ");
        te_print_expr(out, s->value, &names->base, indent + 4);
        buf_str(out, ":\n");
        print_block(names, out, &s->body, indent + 2);
        return;
    case NEST_PRODUCT: print_product(names, out, s); return;
    case NEST_BARRIER: buf_str(out, "barrier"); break;
    case NEST_WAIT:
        buf_printf(out, "wait for all copies but %d groups%s", s->lanes, s->shown ? ", shown" : "");
        break;
    case NEST_NEAR:
        buf_str(out, "near ");
        print_place(names, out, s->buffer, s->at);
        break;
    case NEST_OPEN:
        print_place(names, out, s->buffer, s->at);
        buf_printf(out, " = gate for %d boxes a turn", s->lanes);
        break;
    case NEST_BULK: print_bulk(names, out, s); break;
    case NEST_PASS:
        buf_str(out, "wait for turn ");
        te_print_expr(out, s->value, &names->base, indent + 4);
        buf_str(out, " of ");
        print_place(names, out, s->buffer, s->at);
        break;
    case NEST_GROUP:
        print_place(names, out, s->buffer, s->at);
        buf_printf(out, " += product of %d rows from ", NEST_GROUP_ROWS);
        te_print_expr(out, s->value, &names->base, indent + 4);
        buf_printf(out, " and %d columns from ", s->lanes);
        te_print_expr(out, s->number, &names->base, indent + 4);
        buf_printf(out, ", %lld folds%s", (long long)s->folds, s->boxed ? " of boxes" : "");
        break;
    case NEST_MATRIX:
        print_place(names, out, s->buffer, s->at);
        buf_printf(out, " = matrix of %d rows from ", s->matrix->rows);
        te_print_expr(out, s->value, &names->base, indent + 4);
        buf_printf(out, " and %d columns from ", s->matrix->columns);
        te_print_expr(out, s->number, &names->base, indent + 4);
        for (int i = 0; i < s->matrix->n; i++)
            buf_printf(out, "%s%lld", i ? " x " : ", turns ", (long long)s->matrix->axis[i].extent);
        break;
    case NEST_FETCH:
        print_place(names, out, s->buffer, s->at);
        buf_printf(out, " = %d matrices%s of rows from ", s->lanes, s->turned ? ", turned," : "");
        te_print_expr(out, s->value, &names->base, indent + 4);
        break;
    case NEST_TILE:
    case NEST_PAIR:
        print_place(names, out, s->buffer, s->at);
        buf_str(out, s->kind == NEST_TILE ? " += tile of " : " = word of ");
        te_print_expr(out, s->value, &names->base, indent + 4);
        buf_str(out, " and ");
        te_print_expr(out, s->number, &names->base, indent + 4);
        break;
    case NEST_SHUFFLE:
        print_place(names, out, s->buffer, s->at);
        buf_printf(out, " = shuffle by %d of ", s->lanes);
        te_print_expr(out, s->value, &names->base, indent + 4);
        break;
    case NEST_STORE:
        print_place(names, out, s->buffer, s->at);
        buf_str(out, s->copies ? " <- " : " = ");
        te_print_expr(out, s->value, &names->base, indent + 4);
        break;
    case NEST_FOLD:
        print_place(names, out, s->buffer, s->at);
        print_fold(names, out, s, indent);
        break;
    }
    buf_char(out, '\n');
}

static void print_block(const NestNames *names, Buf *out, const NestBlock *block, int indent)
{
    for (size_t i = 0; i < block->n; i++)
        print_node(names, out, block->at[i], indent);
}

void nest_print_for(Buf *out, const Nest *n, const NestReader *reader)
{
    NestNames names = {{axis_name, buffer_name, reader->names ? is_number : NULL}, n, reader};
    print_block(&names, out, &n->root, 0);
}

void nest_print(Buf *out, const Nest *n)
{
    nest_print_for(out, n, &(NestReader){0});
}
