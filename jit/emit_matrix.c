/* NEST_MATRIX by the registers of matrices that some processors have (AMX): four hold sums, two are of rows and two of columns. They are made
 * ready for each statement and given back behind it, so nothing around it knows of them. */
#include "jit/emit.h"

enum { SIDE = NEST_MATRIX_SIDE, BLOCKS = 2 };

/* The numbers of registers. */
enum { SUMS = 0, ROWS = 4, COLUMNS = 6 };

typedef struct Making {
    Emit *e;
    const NestMatrix *m;
    const char *product;
    Ssa row_bytes, word_bytes; /* from row to row of the factors */
} Making;

static Ssa number(const Making *k, int n)
{
    return LLVMConstInt(k->e->g->i8, (unsigned)n, false);
}

/* All registers have 16 rows of 64 bytes. */
static void make_ready(const Making *k)
{
    Gen *g = k->e->g;
    unsigned char form[64] = {1};
    for (int i = 0; i < 8; i++) {
        form[16 + 2 * i] = SIDE * NEST_WORD;
        form[48 + i] = SIDE;
    }
    Ssa at = gen_bytes(g, form, sizeof form);
    gen_intrinsic(g, "llvm.x86.ldtilecfg", NULL, &at, 1);
}

static Ssa further(const Making *k, Ssa at, int64_t words)
{
    Ssa by = gen_int(k->e->g->i64, words * NEST_WORD);
    return words ? LLVMBuildGEP2(k->e->g->b, k->e->g->i8, at, &by, 1, "") : at;
}

static void move_tile(const Making *k, const char *how, int n, Ssa at, Ssa bytes)
{
    Ssa args[3] = {number(k, n), at, bytes};
    gen_intrinsic(k->e->g, how, NULL, args, 3);
}

static void add_products(const Making *k, Ssa first, Ssa second)
{
    const NestMatrix *m = k->m;
    for (int i = 0; i < m->rows / SIDE; i++)
        move_tile(k, "llvm.x86.tileloadd64", ROWS + i, further(k, first, i * SIDE * m->first_row),
                  k->row_bytes);
    for (int j = 0; j < m->columns / SIDE; j++)
        move_tile(k, "llvm.x86.tileloadd64", COLUMNS + j, further(k, second, j * m->second_block),
                  k->word_bytes);
    for (int i = 0; i < m->rows / SIDE; i++)
        for (int j = 0; j < m->columns / SIDE; j++) {
            Ssa args[3] = {number(k, SUMS + BLOCKS * i + j), number(k, ROWS + i),
                           number(k, COLUMNS + j)};
            gen_intrinsic(k->e->g, k->product, NULL, args, 3);
        }
}

/* The turns of an axis and of those inside of it. */
static void make_axis(const Making *k, int axis, Ssa first, Ssa second)
{
    Gen *g = k->e->g;
    if (axis == k->m->n) {
        add_products(k, first, second);
        return;
    }
    int64_t extent = k->m->axis[axis].extent;
    if (extent == 1) {
        make_axis(k, axis + 1, first, second);
        return;
    }
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b), head = gen_block(g, k->e->fn, "matrix");
    LLVMBuildBr(g->b, head);
    LLVMPositionBuilderAtEnd(g->b, head);
    Ssa from[3] = {gen_int(g->i64, 0), first, second}, phi[3];
    for (int i = 0; i < 3; i++) {
        phi[i] = LLVMBuildPhi(g->b, LLVMTypeOf(from[i]), "");
        LLVMAddIncoming(phi[i], &from[i], &before, 1);
    }
    make_axis(k, axis + 1, phi[1], phi[2]);
    Ssa next[3] = {LLVMBuildAdd(g->b, phi[0], gen_int(g->i64, 1), ""),
                   further(k, phi[1], k->m->axis[axis].first),
                   further(k, phi[2], k->m->axis[axis].second)};
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b), after = gen_block(g, k->e->fn, "after");
    for (int i = 0; i < 3; i++)
        LLVMAddIncoming(phi[i], &next[i], &here, 1);
    Ssa again = LLVMBuildICmp(g->b, LLVMIntSLT, next[0], gen_int(g->i64, extent), "");
    LLVMBuildCondBr(g->b, again, head, after);
    LLVMPositionBuilderAtEnd(g->b, after);
}

void emit_matrix(Emit *e, const NestNode *s)
{
    static const char *const products[2][2] = {{"llvm.x86.tdpbssd", "llvm.x86.tdpbsud"},
                                               {"llvm.x86.tdpbusd", "llvm.x86.tdpbuud"}};
    Gen *g = e->g;
    const NestMatrix *m = s->matrix;
    if (!gen_has(g, "amx-int8")) {
        gen_refuse(g, "this processor has no registers of matrices");
        return;
    }
    bool plain[2] = {!dtype_is_signed(m->factors[0]), !dtype_is_signed(m->factors[1])};
    Making k = {e, m, products[plain[0]][plain[1]], gen_int(g->i64, m->first_row * NEST_WORD),
                gen_int(g->i64, m->second_word * NEST_WORD)};
    e->computes = true;
    Ssa first = emit_place(e, s->value->tensor, s->value->index[0]),
        second = emit_place(e, s->number->tensor, s->number->index[0]),
        to = emit_place(e, s->buffer, s->at);
    make_ready(&k);
    for (int i = 0; i < BLOCKS * BLOCKS; i++) {
        Ssa n = number(&k, SUMS + i);
        gen_intrinsic(g, "llvm.x86.tilezero", NULL, &n, 1);
    }
    make_axis(&k, 0, first, second);
    for (int i = 0; i < m->rows / SIDE; i++)
        for (int j = 0; j < m->columns / SIDE; j++)
            move_tile(&k, "llvm.x86.tilestored64", SUMS + BLOCKS * i + j,
                      further(&k, to, i * SIDE * m->row_step + j * SIDE),
                      gen_int(g->i64, m->row_step * NEST_WORD));
    gen_intrinsic(g, "llvm.x86.tilerelease", NULL, NULL, 0);
}
