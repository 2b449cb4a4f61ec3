/* A tensor program as one function: its nest, part after part.
 *
 * Results are written to the results; what lies between stages is in one scratch block, where a tensor takes the place of one that
 * nobody reads any more. */
#include "jit/kernel.h"

#include "jit/emit.h"
#include "loop/access.h"
#include "sched/sched.h"

#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* Where the scratch buffers lie, and the parts of the root between which they are needed. */
typedef struct Memory {
    size_t *offset, *size;
    int *first, *last; /* by buffer; last < 0: it is not scratch */
} Memory;

/* The least offset at which buffer i fits among those before it that live at the same time. */
static size_t first_fit(const Memory *m, size_t i)
{
    size_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (size_t k = 0; k < i; k++) {
            bool together = m->last[k] >= m->first[i] && m->last[i] >= m->first[k];
            if (m->last[k] >= 0 && together && at < m->offset[k] + m->size[k] &&
                m->offset[k] < at + m->size[i]) {
                at = m->offset[k] + m->size[k];
                moved = true;
            }
        }
    }
    return at;
}

static void note_lives(Memory *m, Nest *n)
{
    for (size_t part = 0; part < n->root.n; part++) {
        NestAccesses all = nest_accesses(n, n->root.at[part]);
        for (size_t i = 0; i < all.n; i++) {
            int b = all.at[i].buffer;
            if (n->buffers.at[b].place != NEST_SCRATCH)
                continue;
            if (m->last[b] < 0)
                m->first[b] = (int)part;
            m->last[b] = (int)part;
        }
    }
}

static bool plan_memory(Memory *m, Gen *g, Nest *n, size_t *total)
{
    size_t count = n->buffers.n + 1;
    m->offset = arena_alloc_must(g->arena, count, sizeof *m->offset);
    m->size = arena_alloc_must(g->arena, count, sizeof *m->size);
    m->first = arena_alloc_must(g->arena, count, sizeof *m->first);
    m->last = arena_alloc_must(g->arena, count, sizeof *m->last);
    for (size_t i = 0; i < n->buffers.n; i++)
        m->last[i] = -1;
    note_lives(m, n);
    *total = 0;
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        if (m->last[i] < 0)
            continue;
        if (b->size > INT64_MAX / 16)
            return gen_refuse(g, "`%s` needs a tensor that is too large", b->name);
        m->size[i] = ((size_t)b->size * dtype_size(b->dtype) + 63) & ~(size_t)63;
        m->offset[i] = first_fit(m, i);
        if (m->offset[i] + m->size[i] > *total)
            *total = m->offset[i] + m->size[i];
    }
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

static void set_bases(Emit *e, const Memory *m, const TeProgram *p, const KernelInput *known)
{
    unsigned param = 1;
    Ssa scratch = LLVMGetParam(e->fn, (unsigned)(1 + p->n_inputs + p->n_outputs));
    for (int i = 0; i < p->n_inputs; i++, param++)
        e->base[i] = known[i].scalar ? known[i].scalar : LLVMGetParam(e->fn, param);
    for (size_t i = 0; i < e->n->buffers.n; i++) {
        const NestBuffer *b = &e->n->buffers.at[i];
        if (b->place == NEST_CONSTANT)
            e->base[i] = gen_outside(e->g, b->data->data, "packed");
        else if (m->last[i] >= 0)
            e->base[i] = gen_offset(e->g, scratch, m->offset[i]);
    }
    for (int i = 0; i < p->n_outputs; i++, param++)
        if (p->outputs[i] >= p->n_inputs)
            e->base[e->n->outputs[i]] = LLVMGetParam(e->fn, param);
}

static void show_lowered(Gen *g, const TeProgram *p, const Nest *n, const char *name)
{
    if (!g->lowered)
        return;
    buf_printf(g->lowered, "\n%s:\n", name);
    te_print(g->lowered, p, NULL);
    buf_char(g->lowered, '\n');
    nest_print(g->lowered, n);
}

static Machine machine_of(Gen *g)
{
    size_t bytes = orc_vector_bytes(&g->jit->orc);
    return (Machine){bytes, bytes == 64 ? 32 : 16, pool_threads(g->cx->pool), true};
}

Ssa kernel_make(Gen *g, const TeProgram *p, Span span, const KernelInput *known, size_t *scratch)
{
    Memory m;
    Machine machine = machine_of(g);
    const char *why = NULL;
    const Tensor **tensors = arena_new_array(g->arena, const Tensor *, (size_t)p->n_inputs + 1);
    for (int i = 0; i < p->n_inputs; i++)
        tensors[i] = known[i].tensor;
    Nest *n = sched_program(g->cx, g->arena, &machine, p, tensors, &why);
    if (!n) {
        if (why)
            gen_refuse(g, "`%s` reduces over nothing", why);
        g->failed = true;
        return NULL;
    }
    if (!plan_memory(&m, g, n, scratch))
        return NULL;
#ifndef NDEBUG
    const char *wrong = nest_verify(n);
    if (wrong)
        diag_bug(g->cx->diags, span, "the schedule made a malformed nest: %s", wrong);
#endif
    const char *name = orc_name(g->jit, "kernel");
    show_lowered(g, p, n, name);
    Emit *e = arena_new(g->arena, Emit);
    emit_begin(e, g, n, span);
    e->fn = LLVMAddFunction(g->m, name, kernel_type(g, p));
    emit_attributes(g, e->fn);
    e->state = LLVMGetParam(e->fn, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, e->fn, ""));
    set_bases(e, &m, p, known);
    bool ok = true;
    for (size_t i = 0; i < n->root.n && ok; i++)
        ok = emit_root(e, n->root.at[i]);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, before);
    emit_end(e);
    return ok ? e->fn : NULL;
}
