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
    int *last; /* by stage: the last stage that reads it */
    size_t *offset, *size;
    bool *is_output;
    TeProgram **window; /* by stage: what stands for it, a copy and a sum; or NULL */
    size_t copies; /* where the copies go */
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

/* Copies live while their stage runs, so all of them share one place behind the stages. */
static void plan_copies(Memory *m, Kernel *k, size_t *total)
{
    m->copies = *total;
    for (int i = 0; i < m->p->n_stages; i++) {
        m->window[i] = window_program(k, i);
        int64_t size = 0;
        const TeStage *copy = m->window[i] ? &m->window[i]->stages[0] : NULL;
        if (!copy || !shape_size(copy->rank, copy->shape, &size))
            continue;
        size_t end = m->copies + (((size_t)size * dtype_size(copy->dtype) + 63) & ~(size_t)63);
        *total = end > *total ? end : *total;
    }
}

static bool plan_memory(Memory *m, Kernel *k, size_t *total)
{
    Gen *g = k->g;
    const TeProgram *p = k->p;
    size_t n = (size_t)p->n_stages + 1;
    *m = (Memory){.arena = g->arena, .p = p};
    m->last = arena_alloc_must(g->arena, n, sizeof *m->last);
    m->offset = arena_alloc_must(g->arena, n, sizeof *m->offset);
    m->size = arena_alloc_must(g->arena, n, sizeof *m->size);
    m->is_output = arena_alloc_must(g->arena, n, sizeof *m->is_output);
    m->window = arena_alloc_must(g->arena, n, sizeof *m->window);
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
    plan_copies(m, k, total);
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
    bool even =
        outer.a == s->a * s->extent && outer.b == s->b * s->extent && outer.c == s->c * s->extent;
    s->extent *= even ? outer.extent : 1;
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
        Side *side = reduced       ? &out->k
                     : axis.b == 0 ? &out->m
                     : axis.a == 0 ? &out->n
                                   : &out->batch;
        if (reduced && (axis.a == 0 || axis.b == 0))
            return false;
        /* What does not join the rows or columns is one product for each of its values. */
        if (!join(side, axis) && (reduced || out->batch.extent > 1 || !join(&out->batch, axis)))
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
static bool leading(int64_t rows, int64_t row_step, int64_t columns, int64_t column_step,
                    bool *transposed, int64_t *lead)
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

/* The product as BLAS takes it, and which tensors it reads; false when it is none that BLAS does well. */
static bool gemm_of(const TeProgram *p, int stage, GemmSite *site, TeContraction *t)
{
    const TeStage *s = &p->stages[stage];
    Product q;
    if (s->dtype.code != DTYPE_CODE_FLOAT || s->dtype.bits < 32 || !product_of(p, stage, &q))
        return false;
    te_contraction(p, stage, t);
    if (q.n.c != 1) {
        turn(&q);
        TeAffine a = t->a;
        t->a = t->b;
        t->b = a;
    }
    bool ta, tb;
    int64_t lda, ldb;
    if (!is_large(&q) || q.n.c != 1 || q.m.c < q.n.extent ||
        !leading(q.m.extent, q.m.a, q.k.extent, q.k.a, &ta, &lda) ||
        !leading(q.k.extent, q.k.b, q.n.extent, q.n.b, &tb, &ldb))
        return false;
    *site = (GemmSite){q.batch.extent, q.m.extent, q.n.extent, q.k.extent, lda, ldb,
                       q.m.c,          q.batch.a,  q.batch.b,  q.batch.c,  ta,  tb};
    return dtype_eq(program_tensor(p, t->a.tensor).dtype, s->dtype) &&
           dtype_eq(program_tensor(p, t->b.tensor).dtype, s->dtype);
}

bool product_is_gemm(const TeProgram *p, int stage)
{
    GemmSite site;
    TeContraction t;
    return gemm_of(p, stage, &site, &t);
}

static bool gemm_make(Kernel *k, int stage, Ssa out)
{
    Gen *g = k->g;
    GemmSite *site = arena_new(g->arena, GemmSite);
    TeContraction t;
    if (!gemm_of(k->p, stage, site, &t))
        return false;
    bool is_single = k->p->stages[stage].dtype.bits == 32;
    size_t size = is_single ? 4 : 8;
    Ssa args[5] = {k->state, gen_offset(g, k->base[t.a.tensor], (size_t)t.a.offset * size),
                   gen_offset(g, k->base[t.b.tensor], (size_t)t.b.offset * size), out,
                   gen_outside(g, site, "gemm")};
    gen_call_abi(g, is_single ? "relay_sgemm" : "relay_dgemm", args, 5);
    return true;
}

/* ---- the function ------------------------------------------------------------------------------------------------------ */

static LLVMTypeRef kernel_type(Gen *g, const TeProgram *p)
{
    unsigned n = 0;
    LLVMTypeRef *types =
        arena_new_array(g->arena, LLVMTypeRef, (size_t)(p->n_inputs + p->n_outputs) + 2);
    types[n++] = g->ptr;
    for (int i = 0; i < p->n_inputs; i++)
        types[n++] = p->inputs[i].rank == 0 ? gen_dtype(g, p->inputs[i].dtype) : g->ptr;
    for (int i = 0; i <= p->n_outputs; i++)
        types[n++] = g->ptr;
    return LLVMFunctionType(g->nothing, types, n, false);
}

static Ssa scratch_of(const Kernel *k)
{
    return LLVMGetParam(k->fn, (unsigned)(1 + k->p->n_inputs + k->p->n_outputs));
}

static void set_bases(Kernel *k, const Memory *m, const Ssa *constants)
{
    const TeProgram *p = k->p;
    unsigned param = 1;
    Ssa scratch = scratch_of(k);
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
    buf_printf(g->lowered, "\n%s:\n", name);
    te_print(g->lowered, p, NULL);
}

static bool make_stage(Kernel *k, int stage, Ssa out)
{
    return gemm_make(k, stage, out) || nest_make(k, &k->p->stages[stage], out);
}

/* The copy and the sum, on the tensors of the whole. */
static bool make_window(const Kernel *k, const TeProgram *p, Ssa copy, Ssa out)
{
    Kernel two = *k;
    two.p = p;
    two.base = arena_alloc_must(k->g->arena, (size_t)p->n_inputs + 2, sizeof *two.base);
    memcpy(two.base, k->base, (size_t)p->n_inputs * sizeof *two.base);
    two.base[p->n_inputs] = copy;
    return make_stage(&two, 0, copy) && make_stage(&two, 1, out);
}

Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const Ssa *constants, size_t *scratch)
{
    Memory m;
    Kernel k = {.g = g, .p = p, .span = span};
    if (!plan_memory(&m, &k, scratch))
        return NULL;
    const char *name = orc_name(g->jit, "kernel");
    show_lowered(g, p, name);
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
        ok = m.window[i]
                 ? make_window(&k, m.window[i], gen_offset(g, scratch_of(&k), m.copies), out)
                 : make_stage(&k, i, out);
    }
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, before);
    return ok ? k.fn : NULL;
}
