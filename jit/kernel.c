/* A tensor program as one function: its stages one after the other.
 *
 * Stages that are results are written to the results, the others lie in one scratch block, where a stage takes the place of one that
 * nobody reads any more. Products of large matrices go to BLAS. */
#include "jit/loops.h"

#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

typedef struct Memory {
    Arena *arena;
    const TeProgram *p;
    int *last;          /* by stage: the last stage that reads it */
    size_t *offset, *size;
    bool *is_output;
    int now;
} Memory;

static void note_loads(Memory *m, PtrMap *seen, const Te *e, int depth)
{
    if (!e || ptrmap_has(seen, e) || depth > 1000)
        return;
    ptrmap_put(seen, e, m);
    if (e->kind == TE_NODE_LOAD) {
        if (e->tensor >= m->p->n_inputs)
            m->last[e->tensor - m->p->n_inputs] = m->now;
        for (int i = 0; i < e->n; i++)
            note_loads(m, seen, e->index[i], depth + 1);
        note_loads(m, seen, e->otherwise, depth + 1);
    } else if (e->kind >= TE_NODE_UNARY) {
        note_loads(m, seen, e->a, depth + 1);
        note_loads(m, seen, e->b, depth + 1);
        note_loads(m, seen, e->c, depth + 1);
    }
}

/* The least offset at which stage i fits among those that live at the same time. */
static size_t first_fit(const Memory *m, int i)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < i; k++) {
            bool alive = !m->is_output[k] && m->last[k] >= i;
            if (alive && at < m->offset[k] + m->size[k] && m->offset[k] < at + m->size[i]) {
                at = m->offset[k] + m->size[k];
                moved = true;
            }
        }
    }
    return at;
}

static bool plan_memory(Memory *m, Gen *g, const TeProgram *p, size_t *total)
{
    size_t n = (size_t)p->n_stages + 1;
    *m = (Memory){.arena = g->arena, .p = p};
    m->last = arena_alloc_must(g->arena, n, sizeof *m->last);
    m->offset = arena_alloc_must(g->arena, n, sizeof *m->offset);
    m->size = arena_alloc_must(g->arena, n, sizeof *m->size);
    m->is_output = arena_alloc_must(g->arena, n, sizeof *m->is_output);
    for (int i = 0; i < p->n_outputs; i++)
        if (p->outputs[i] >= p->n_inputs)
            m->is_output[p->outputs[i] - p->n_inputs] = true;
    for (m->now = 0; m->now < p->n_stages; m->now++) {
        PtrMap seen = {0};
        note_loads(m, &seen, p->stages[m->now].body, 0);
        ptrmap_deinit(&seen);
    }
    *total = 0;
    for (int i = 0; i < p->n_stages; i++) {
        const TeStage *s = &p->stages[i];
        int64_t size;
        if (!shape_size(s->rank, s->shape, &size) || size > INT64_MAX / 16)
            return gen_refuse(g, "`%s` needs a tensor that is too large", s->name);
        m->size[i] = ((size_t)size * dtype_size(s->dtype) + 63) & ~(size_t)63;
        if (m->is_output[i])
            continue;
        m->offset[i] = first_fit(m, i);
        if (m->offset[i] + m->size[i] > *total)
            *total = m->offset[i] + m->size[i];
    }
    return true;
}

/* ---- matrix products --------------------------------------------------------------------------------------------------- */

/* An axis of a product, or several that count as one: its extent, and its steps in A, B and C. */
typedef struct Side {
    int64_t extent, a, b, c;
} Side;

typedef struct Product {
    Side batch, m, n, k;
} Product;

/* Joins an axis that lies outside of what the side holds; false when they do not step evenly. Axes come innermost first. */
static bool join(Side *s, Side outer)
{
    if (s->extent == 1) {
        *s = outer;
        return true;
    }
    bool even = outer.a == s->a * s->extent && outer.b == s->b * s->extent && outer.c == s->c * s->extent;
    s->extent *= outer.extent;
    return even;
}

static bool product_of(const TeProgram *p, int stage, Product *out)
{
    const TeStage *s = &p->stages[stage];
    TeContraction t;
    if (!te_contraction(p, stage, &t) || t.a.padded || t.b.padded)
        return false;
    Side one = {.extent = 1};
    *out = (Product){one, one, one, one};
    int64_t c = 1;
    for (int a = s->rank + s->n_reduced - 1; a >= 0; a--) {
        bool reduced = a >= s->rank;
        Side axis = {stage_extent(s, a), t.a.stride[a], t.b.stride[a], reduced ? 0 : c};
        c *= reduced ? 1 : axis.extent;
        if (axis.extent == 1)
            continue;
        if (axis.a < 0 || axis.b < 0 || (axis.a == 0 && axis.b == 0))
            return false;
        Side *side = reduced ? &out->k : axis.b == 0 ? &out->m : axis.a == 0 ? &out->n : &out->batch;
        if (reduced && (axis.a == 0 || axis.b == 0))
            return false;
        if (!join(side, axis))
            return false;
    }
    return true;
}

/* Swaps the operands, so that the rows of C are those of the first. */
static void turn(Product *p)
{
    Product t = {{p->batch.extent, p->batch.b, p->batch.a, p->batch.c},
                 {p->n.extent, p->n.b, p->n.a, p->n.c},
                 {p->m.extent, p->m.b, p->m.a, p->m.c},
                 {p->k.extent, p->k.b, p->k.a, p->k.c}};
    *p = t;
}

/* BLAS's way to see an operand of rows and columns with these steps: one of them is 1. */
static bool leading(int64_t rows, int64_t row_step, int64_t columns, int64_t column_step, bool *transposed,
                    int64_t *lead)
{
    *transposed = column_step != 1 && columns > 1;
    if (*transposed && row_step != 1 && rows > 1)
        return false;
    *lead = *transposed ? column_step : row_step;
    int64_t least = *transposed ? rows : columns;
    if (*lead < least && (*transposed ? columns : rows) > 1)
        return false;
    *lead = *lead < least ? least : *lead;
    return true;
}

/* Small products, and those with vectors, are as fast as loops. */
static bool is_large(const Product *p)
{
    return p->m.extent >= 4 && p->n.extent >= 4 && p->k.extent >= 8 &&
           p->m.extent * p->n.extent * p->k.extent >= 32768;
}

static bool gemm_make(Kernel *k, int stage, Ssa out)
{
    Gen *g = k->g;
    const TeStage *s = &k->p->stages[stage];
    Product p;
    TeContraction t;
    if (s->dtype.code != DTYPE_CODE_FLOAT || s->dtype.bits < 32 || !product_of(k->p, stage, &p))
        return false;
    te_contraction(k->p, stage, &t);
    if (p.n.c != 1) {
        turn(&p);
        TeAffine a = t.a;
        t.a = t.b;
        t.b = a;
    }
    bool ta, tb;
    int64_t lda, ldb;
    if (!is_large(&p) || p.n.c != 1 || p.m.c < p.n.extent ||
        !leading(p.m.extent, p.m.a, p.k.extent, p.k.a, &ta, &lda) ||
        !leading(p.k.extent, p.k.b, p.n.extent, p.n.b, &tb, &ldb))
        return false;
    DType da = program_tensor(k->p, t.a.tensor).dtype, db = program_tensor(k->p, t.b.tensor).dtype;
    if (!dtype_eq(da, s->dtype) || !dtype_eq(db, s->dtype))
        return false;
    GemmSite *site = arena_new(g->arena, GemmSite);
    *site = (GemmSite){p.batch.extent, p.m.extent, p.n.extent, p.k.extent, lda, ldb, p.m.c,
                       p.batch.a,      p.batch.b,  p.batch.c,  ta,         tb};
    size_t size = dtype_size(s->dtype);
    Ssa args[5] = {k->state, gen_offset(g, k->base[t.a.tensor], (size_t)t.a.offset * size),
                   gen_offset(g, k->base[t.b.tensor], (size_t)t.b.offset * size), out,
                   gen_outside(g, site, "gemm")};
    gen_call_abi(g, s->dtype.bits == 32 ? "relay_sgemm" : "relay_dgemm", args, 5);
    return true;
}

/* ---- the function ------------------------------------------------------------------------------------------------------ */

static LLVMTypeRef kernel_type(Gen *g, const TeProgram *p)
{
    unsigned n = 0;
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, (size_t)(p->n_inputs + p->n_outputs) + 2);
    types[n++] = g->ptr;
    for (int i = 0; i < p->n_inputs; i++)
        types[n++] = p->inputs[i].rank == 0 ? gen_dtype(g, p->inputs[i].dtype) : g->ptr;
    for (int i = 0; i <= p->n_outputs; i++)
        types[n++] = g->ptr;
    return LLVMFunctionType(g->nothing, types, n, false);
}

static void set_bases(Kernel *k, const Memory *m, const Ssa *constants)
{
    const TeProgram *p = k->p;
    unsigned param = 1;
    Ssa scratch = LLVMGetParam(k->fn, (unsigned)(1 + p->n_inputs + p->n_outputs));
    for (int i = 0; i < p->n_inputs; i++, param++)
        k->base[i] = constants[i] ? constants[i] : LLVMGetParam(k->fn, param);
    for (int i = 0; i < p->n_stages; i++)
        if (!m->is_output[i])
            k->base[p->n_inputs + i] = gen_offset(k->g, scratch, m->offset[i]);
    for (int i = 0; i < p->n_outputs; i++, param++)
        if (p->outputs[i] >= p->n_inputs)
            k->base[p->outputs[i]] = LLVMGetParam(k->fn, param);
}

static void show_lowered(Gen *g, const TeProgram *p, const char *name)
{
    if (!g->lowered)
        return;
    buf_printf(g->lowered, "%s:\n", name);
    te_print(g->lowered, p);
}

Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const Ssa *constants, size_t *scratch)
{
    Memory m;
    if (!plan_memory(&m, g, p, scratch))
        return NULL;
    const char *name = orc_name(g->jit, "kernel");
    show_lowered(g, p, name);
    Kernel k = {.g = g, .p = p, .span = span};
    k.fn = LLVMAddFunction(g->m, name, kernel_type(g, p));
    LLVMSetLinkage(k.fn, LLVMInternalLinkage);
    gen_attribute(g, k.fn, "nounwind");
    LLVMAddAttributeAtIndex(k.fn, LLVMAttributeFunctionIndex,
                            LLVMCreateStringAttribute(g->c, "prefer-vector-width", 19, "512", 3));
    k.state = LLVMGetParam(k.fn, 0);
    k.base = arena_alloc_must(g->arena, (size_t)(p->n_inputs + p->n_stages) + 1, sizeof *k.base);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, k.fn, ""));
    set_bases(&k, &m, constants);
    bool ok = true;
    for (int i = 0; i < p->n_stages && ok; i++) {
        Ssa out = k.base[p->n_inputs + i];
        ok = gemm_make(&k, i, out) || nest_make(&k, &p->stages[i], out);
    }
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, before);
    return ok ? k.fn : NULL;
}
