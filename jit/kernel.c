/* A tensor program as one function: its nest, part after part.
 *
 * Results are written to the results; what lies between stages is in one scratch block, where a tensor takes the place of one that
 * nobody reads any more. */
#include "jit/kernel.h"

#include "jit/emit.h"
#include "loop/access.h"
#include "sched/memory.h"
#include "sched/sched.h"

#include <string.h>

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* By buffer: where the scratch buffers lie, and the parts of the root between which they are needed. */
static void note_lives(MemoryNeed *needs, Nest *n)
{
    for (size_t part = 0; part < n->root.n; part++) {
        NestAccesses all = nest_accesses(n, n->root.at[part]);
        for (size_t i = 0; i < all.n; i++) {
            MemoryNeed *m = &needs[all.at[i].buffer];
            if (n->buffers.at[all.at[i].buffer].place != NEST_SCRATCH)
                continue;
            if (m->last < 0)
                m->first = (int)part;
            m->last = (int)part;
        }
    }
}

static MemoryNeed *plan_memory(Gen *g, Nest *n, size_t *total)
{
    MemoryNeed *needs = arena_alloc_must(g->arena, n->buffers.n + 1, sizeof *needs);
    for (size_t i = 0; i < n->buffers.n; i++)
        needs[i] = (MemoryNeed){.last = -1};
    note_lives(needs, n);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        if (needs[i].last >= 0 && b->size > INT64_MAX / 16) {
            gen_refuse(g, "`%s` needs a tensor that is too large", b->name);
            return NULL;
        }
        needs[i].size = (size_t)b->size * dtype_size(b->dtype);
    }
    *total = memory_plan(g->arena, needs, n->buffers.n);
    return needs;
}

/* ---- the function ------------------------------------------------------------------------------------------------------ */

static LLVMTypeRef kernel_type(Gen *g, const TeProgram *p, size_t packed)
{
    unsigned n = 0;
    LLVMTypeRef *types =
        arena_new_array(g->arena, LLVMTypeRef, (size_t)(p->n_inputs + p->n_outputs) + packed + 2);
    types[n++] = g->ptr;
    for (int i = 0; i < p->n_inputs; i++)
        types[n++] = p->inputs[i].rank == 0 ? gen_dtype(g, p->inputs[i].dtype) : g->ptr;
    for (size_t i = 0; i <= (size_t)p->n_outputs + packed; i++)
        types[n++] = g->ptr;
    return LLVMFunctionType(g->nothing, types, n, false);
}

static void set_bases(Emit *e, const MemoryNeed *needs, const TeProgram *p,
                      const KernelInput *known)
{
    unsigned param = 1, packed = (unsigned)(2 + p->n_inputs + p->n_outputs);
    Ssa block = LLVMGetParam(e->fn, packed - 1);
    for (int i = 0; i < p->n_inputs; i++, param++)
        e->base[i] = known[i].scalar ? known[i].scalar : LLVMGetParam(e->fn, param);
    for (size_t i = 0; i < e->n->buffers.n; i++) {
        if (e->n->buffers.at[i].place == NEST_CONSTANT)
            e->base[i] = LLVMGetParam(e->fn, packed++);
        else if (needs[i].last >= 0)
            e->base[i] = gen_offset(e->g, block, needs[i].offset);
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

static void note_packed(Gen *g, Kernel *k, const Nest *n, const TeProgram *p,
                        const KernelInput *known)
{
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        if (b->place != NEST_CONSTANT)
            continue;
        Packed packed = {.program = b->made, .from = b->from};
        packed.input = arena_new_array(g->arena, int, (size_t)b->made->n_inputs + 1);
        for (int j = 0; j < b->made->n_inputs; j++) {
            packed.input[j] = -1;
            for (int at = 0; at < p->n_inputs; at++)
                if (known[at].tensor == b->from[j])
                    packed.input[j] = at;
        }
        vec_push(&k->packed, g->arena, packed);
    }
}

static Nest *kernel_nest(Gen *g, const TeProgram *p, const KernelInput *known)
{
    Machine machine = machine_of(g);
    const char *why = NULL;
    const Tensor **tensors = arena_new_array(g->arena, const Tensor *, (size_t)p->n_inputs + 1);
    for (int i = 0; i < p->n_inputs; i++)
        tensors[i] = known[i].tensor;
    Nest *n = sched_program(g->cx, g->arena, &machine, p, tensors, &why);
    if (!n && why)
        gen_refuse(g, "`%s` reduces over nothing", why);
    g->failed |= !n;
    return n;
}

static bool kernel_make(Gen *g, Kernel *k, const TeProgram *p, const char *hint, Span span,
                        const KernelInput *known)
{
    Nest *n = kernel_nest(g, p, known);
    MemoryNeed *needs = n ? plan_memory(g, n, &k->bytes) : NULL;
    if (!needs)
        return false;
    note_packed(g, k, n, p, known);
#ifndef NDEBUG
    const char *wrong = nest_verify(n);
    if (wrong)
        diag_bug(g->cx->diags, span, "the schedule made a malformed nest: %s", wrong);
#endif
    const char *name = orc_name(g->jit, hint);
    show_lowered(g, p, n, name);
    Emit *e = arena_new(g->arena, Emit);
    emit_begin(e, g, n, span);
    k->fn = e->fn = LLVMAddFunction(g->m, name, kernel_type(g, p, k->packed.n));
    emit_attributes(g, e->fn);
    e->state = LLVMGetParam(e->fn, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, e->fn, ""));
    set_bases(e, needs, p, known);
    bool ok = true;
    for (size_t i = 0; i < n->root.n && ok; i++)
        ok = emit_root(e, n->root.at[i]);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, before);
    emit_end(e);
    k->fails = e->fails;
    return ok;
}

/* ---- equal ones ---------------------------------------------------------------------------------------------------------- */

/* Where an error happens is part of a kernel that may stop with one. */
static void key_of(Gen *g, const TeProgram *p, Span span, const KernelInput *known, Buf *out)
{
    te_key(g->cx, g->arena, p, out);
    for (int i = 0; i < p->n_inputs; i++) {
        char *text = known[i].scalar ? LLVMPrintValueToString(known[i].scalar) : NULL;
        buf_str(out, text ? text : known[i].tensor ? "known" : "");
        buf_char(out, ';');
        LLVMDisposeMessage(text);
    }
    for (int i = 0; i < p->n_stages; i++)
        if (te_holds_fault(g->arena, p->stages[i].body)) {
            buf_bytes(out, (const char *)&span, sizeof span);
            break;
        }
}

Kernel *kernel_of(Gen *g, const TeProgram *p, const char *hint, Span span, const KernelInput *known)
{
    Buf key = {0};
    key_of(g, p, span, known, &key);
    uint64_t hash = hash_bytes(buf_text(&key), key.n, 0);
    Kernel *k = NULL;
    for (size_t i = 0; i < g->kernels.n && !k; i++) {
        Kernel *made = g->kernels.at[i];
        if (made->hash == hash && made->len == key.n && !memcmp(made->key, buf_text(&key), key.n))
            k = made;
    }
    g->calls++;
    if (!k) {
        k = arena_new(g->arena, Kernel);
        *k = (Kernel){
            .hash = hash, .key = arena_copy_text(g->arena, buf_text(&key), key.n), .len = key.n};
        vec_push(&g->kernels, g->arena, k);
        if (!kernel_make(g, k, p, hint, span, known))
            k = NULL;
    }
    buf_deinit(&key);
    return k;
}

static void release_tensor(void *t)
{
    tensor_release(t);
}

Ssa kernel_packed(Gen *g, const Kernel *k, size_t i, const KernelInput *known)
{
    const Packed *p = &k->packed.at[i];
    int n = p->program->n_inputs;
    TensorView *views = arena_new_array(g->arena, TensorView, (size_t)n + 1);
    Tensor *out = NULL;
    for (int j = 0; j < n; j++)
        views[j].t = p->input[j] < 0 ? *p->from[j] : *known[p->input[j]].tensor;
    if (!te_run(g->cx, p->program, (Span){0}, views, &out)) {
        g->failed = true;
        return NULL;
    }
    arena_on_free(g->arena, release_tensor, out);
    return gen_outside(g, out->data, "packed");
}
