/* A tensor program as one function: its nest, part after part.
 *
 * Results are written to the results; what lies between stages is in one scratch block, where a tensor takes the place of one that
 * nobody reads any more. */
#include "jit/kernel.h"

#include "base/memory.h"
#include "jit/emit.h"
#include "jit/origin.h"
#include "loop/access.h"
#include "runtime/cpu.h"
#include "runtime/show.h"
#include "sched/hand.h"
#include "sched/memory.h"
#include "sched/sched.h"
#include "te/print.h"
#include "te/walk.h"

#include <string.h>

/* A kernel that is called again costs as much again. */
static void report_again(Gen *g, const char *symbol)
{
    JitReport *report = g->jit->report;
    for (size_t i = 0; report && i < report->kernels.n; i++)
        if (!strcmp(report->kernels.at[i].name, symbol)) {
            JitKernelCost cost = report->kernels.at[i];
            vec_push(&report->kernels, report->arena, cost);
            return;
        }
}

/* ---- memory ---------------------------------------------------------------------------------------------------------- */

/* By buffer: where the scratch buffers lie, and the parts of the root between which they are needed. */
typedef struct Lives {
    MemoryNeed *needs;
    const Nest *n;
    int part;
} Lives;

static void note_life(void *data, const NestAccess *a)
{
    Lives *l = data;
    MemoryNeed *m = &l->needs[a->buffer];
    if (l->n->buffers.at[a->buffer].place != NEST_SCRATCH)
        return;
    if (m->last < 0)
        m->first = l->part;
    m->last = l->part;
}

static void note_lives(MemoryNeed *needs, Nest *n)
{
    Lives l = {needs, n, 0};
    for (; l.part < (int)n->root.n; l.part++)
        nest_each_access(n, n->root.at[l.part], note_life, &l);
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
    *total = memory_plan(g->arena, needs, n->buffers.n, pool_threads(g->cx->pool));
    return needs;
}

static const void *place_of(uint64_t hash)
{
    return (const void *)(uintptr_t)(hash | 1);
}

/* ---- the function ------------------------------------------------------------------------------------------------------ */

static LLVMTypeRef kernel_type(Gen *g, const Kernel *k)
{
    unsigned n = 0;
    size_t pointers = 1 + k->n_outputs + k->packed.n;
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, 1 + k->n_inputs + pointers);
    types[n++] = g->ptr;
    for (uint32_t i = 0; i < k->n_inputs; i++)
        types[n++] = k->numbers[i].bits ? gen_dtype(g, k->numbers[i]) : g->ptr;
    for (size_t i = 0; i < pointers; i++)
        types[n++] = g->ptr;
    return LLVMFunctionType(g->nothing, types, n, false);
}

static void set_bases(Emit *e, const MemoryNeed *needs, const TeProgram *p,
                      const KernelInput *known)
{
    unsigned param = 1, packed = (unsigned)(2 + p->n_inputs + p->n_outputs);
    Ssa block = LLVMGetParam(e->fn, packed - 1);
    Lanes one = {.g = e->g, .n = 1};
    for (int i = 0; i < p->n_inputs; i++, param++)
        e->base[i] =
            known[i].number ? lanes_const(&one, *known[i].number) : LLVMGetParam(e->fn, param);
    for (size_t i = 0; i < e->n->buffers.n; i++) {
        if (e->n->buffers.at[i].place == NEST_CONSTANT)
            e->base[i] = LLVMGetParam(e->fn, packed++);
        else if (needs[i].last >= 0)
            e->base[i] = gen_offset(e->g, block, needs[i].offset);
    }
    for (int i = 0; i < p->n_outputs; i++, param++)
        if (p->outputs[i] >= p->n_inputs)
            e->base[e->n->p->outputs[i]] = LLVMGetParam(e->fn, param);
}

static Machine machine_of(Gen *g)
{
    size_t bytes = cpu_vector_bytes();
    return (Machine){.vector_bytes = bytes,
                     .registers = bytes == 64 ? 32 : 16,
                     .threads = pool_threads(g->cx->pool),
                     .second_cache = (int64_t)cpu_second_cache(),
                     .dots = orc_has_dots(&g->jit->orc),
                     .matrices = !g->elsewhere && orc_has(&g->jit->orc, "amx-int8"),
                     .exchanges = bytes == 64 && orc_has(&g->jit->orc, "avx512vbmi"),
                     .transforms = !g->jit->exact,
                     .reorders = !g->jit->exact};
}

typedef struct Showing {
    Gen *g;
    Nest *n;
    PtrMap spans; /* of the line, that were noted */
} Showing;

static void note_span(Showing *sh, Span span)
{
    const void *key = place_of(hash_bytes(&span, sizeof span, 0));
    if (!ptrmap_has(&sh->spans, key))
        origin_of_line(sh->g, span);
    ptrmap_put(&sh->spans, key, sh);
}

static void note_origin(void *data, Te *e)
{
    note_span(data, e->span);
}

static void note_statement(void *data, NestNode *s)
{
    Showing *sh = data;
    PtrMap seen = {0};
    if (s->kind == NEST_PRODUCT)
        note_span(sh, s->product.span);
    if (s->value)
        te_each(sh->g->arena, &seen, s->value, note_origin, sh);
    ptrmap_deinit(&seen);
}

/* A loop is of all that is computed in it. */
static void note_node(void *data, const NestNode *node)
{
    Showing *sh = data;
    nest_each((NestNode *)(uintptr_t)node, note_statement, sh);
    ptrmap_clear(&sh->spans);
}

/* Inputs by the names they have where they come from, numbers that are known as such, the rest as in the program. */
static const char *const *names_of(Gen *g, const TeProgram *p, const KernelInput *known,
                                   const char *const *inputs)
{
    int n = p->n_inputs + p->n_stages;
    const char **names = arena_new_array(g->arena, const char *, (size_t)n + 1);
    for (int i = 0; i < n; i++) {
        Buf name = {0};
        if (i < p->n_inputs && known[i].number)
            element_show(&name, known[i].number->dtype, &known[i].number->bits);
        else
            te_print_tensor(&name, p, inputs, i);
        names[i] = buf_keep(&name, g->arena);
    }
    return names;
}

static void show_loops(Gen *g, Nest *n, const KernelOrigin *from, const KernelInput *known)
{
    Showing sh = {g, n, {0}};
    /* It may have been made of another program of the same inputs and results. */
    const char *const *names = names_of(g, n->p, known, from->names);
    int n_names = n->p->n_inputs + n->p->n_stages;
    NestReader reader = {names, n_names, g->origins ? note_node : NULL, &sh};
    nest_print_for(g->lowered, n, &reader);
    ptrmap_deinit(&sh.spans);
}

static void show_lowered(Gen *g, const char *symbol, const TeProgram *p, Nest *n,
                         const KernelOrigin *from, const KernelInput *known)
{
    JitReport *report = g->jit->report;
    if (!g->lowered)
        return;
    if (!report) {
        te_print(g->lowered, p, names_of(g, p, known, from->names));
        buf_char(g->lowered, '\n');
    }
    show_loops(g, n, from, known);
    if (!report)
        return;
    Machine machine = machine_of(g);
    SchedCost c = sched_cost(g->arena, &machine, p, n);
    buf_printf(g->lowered, "// %.3g operations on vectors, %.3g on elements; %.3g bytes\n", c.work,
               c.operations, c.bytes);
    JitKernelCost cost = {arena_copy_text(report->arena, symbol, strlen(symbol)), c.work,
                          c.operations, c.bytes};
    vec_push(&report->kernels, report->arena, cost);
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

static Nest *nest_by_hand(Gen *g, const TeProgram *p, const Tensor *const *known, Machine machine)
{
    Buf why = {0};
    Nest *n = NULL;
    machine.transforms = false;
    bool direct = hand_is(g->jit->steps, "direct");
    if (g->unit->counts.made > 1 && !direct && !hand_is(g->jit->steps, "plain"))
        gen_refuse(g, "%s", HAND_ONE_KERNEL);
    else if (direct)
        n = sched_program(g->cx, g->arena, &machine, p, known);
    else
        n = sched_by_hand(g->cx, g->arena, p, g->jit->steps, &why);
    if (why.n)
        gen_refuse(g, "%s", buf_text(&why));
    buf_deinit(&why);
    return n;
}

static Nest *kernel_nest(Gen *g, const TeProgram *p, const KernelInput *known)
{
    Machine machine = machine_of(g);
    const Tensor **tensors = arena_new_array(g->arena, const Tensor *, (size_t)p->n_inputs + 1);
    for (int i = 0; i < p->n_inputs; i++)
        tensors[i] = known[i].tensor;
    Nest *n = g->jit->steps ? nest_by_hand(g, p, tensors, machine)
                            : sched_program(g->cx, g->arena, &machine, p, tensors);
    g->failed |= !n;
    return n;
}

static void note_read(void *data, const NestAccess *a)
{
    Kernel *k = data;
    if (a->buffer < (int)k->n_inputs)
        k->reads[a->buffer] = true;
}

static void note_reads(Kernel *k, Nest *n)
{
    for (size_t part = 0; part < n->root.n; part++)
        nest_each_access(n, n->root.at[part], note_read, k);
}

static bool kernel_make(Gen *g, Kernel *k, const TeProgram *p, const KernelOrigin *from,
                        const KernelInput *known)
{
    Nest *n = kernel_nest(g, p, known);
    MemoryNeed *needs = n ? plan_memory(g, n, &k->bytes) : NULL;
    if (!needs)
        return false;
    note_packed(g, k, n, p, known);
    note_reads(k, n);
#ifndef NDEBUG
    const char *wrong = nest_verify(n);
    if (wrong)
        diag_bug(g->cx->diags, from->span, "the schedule made a malformed nest: %s", wrong);
#endif
    show_lowered(g, k->symbol, p, n, from, known);
    Emit *e = arena_new(g->arena, Emit);
    emit_begin(e, g, n, from->span);
    e->fn = kernel_function(g, k);
    emit_attributes(g, e->fn);
    if (!g->alone)
        LLVMSetLinkage(e->fn, LLVMExternalLinkage);
    e->state = LLVMGetParam(e->fn, 0);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, e->fn, ""));
    set_bases(e, needs, p, known);
    bool ok = true;
    for (size_t i = 0; i < n->root.n && ok; i++)
        ok = emit_root(e, n->root.at[i]);
    LLVMBuildRetVoid(g->b);
    emit_settle(e);
    if (before)
        LLVMPositionBuilderAtEnd(g->b, before);
    emit_end(e);
    k->fails = e->fails;
    return ok;
}

Ssa kernel_function(Gen *g, const Kernel *k)
{
    Ssa fn = ptrmap_find(&g->kernels, k);
    if (fn)
        return fn;
    fn = LLVMAddFunction(g->m, k->symbol, kernel_type(g, k));
    LLVMSetVisibility(fn, LLVMHiddenVisibility);
    ptrmap_put(&g->kernels, k, fn);
    return fn;
}

/* ---- batches ------------------------------------------------------------------------------------------------------------- */

struct KernelBatch {
    KernelBatch *next; /* of those that nobody counts */
    uint32_t refs; /* of units; one for the module that makes it */
    Arena arena;
    TypeRoot root;
    bool linked;
    Vec(Gen *) gens; /* a module each, until they are linked */
    Gen *open; /* that the next kernel goes into; NULL: none */
    Vec(Kernel *) kernels;
    PtrMap shared; /* half of a digest -> Shared */
    Code code;
};

/* Batches that are kept for what may come, beyond those that units call. */
#define UNUSED_MOST 32

static void forget(Jit *jit, const Kernel *k)
{
    Kernel **at = (Kernel **)ptrmap_slot(&jit->kernels, place_of(k->hash));
    while (*at && *at != k)
        at = &(*at)->next;
    if (*at)
        *at = k->next;
    if (!ptrmap_find(&jit->kernels, place_of(k->hash)))
        ptrmap_remove(&jit->kernels, place_of(k->hash));
}

static void drop_gens(KernelBatch *b)
{
    for (size_t i = 0; i < b->gens.n; i++) {
        gen_close(b->gens.at[i]);
        memory_free(b->gens.at[i]);
    }
    b->gens.n = 0;
    b->open = NULL;
}

static void batch_free(Jit *jit, KernelBatch *b)
{
    for (size_t i = 0; i < b->kernels.n; i++)
        forget(jit, b->kernels.at[i]);
    code_free(&b->code);
    ptrmap_deinit(&b->shared);
    ctx_root_remove(&b->root);
    arena_deinit(&b->arena);
    memory_free(b);
}

void batch_release(Jit *jit, KernelBatch *b)
{
    if (--b->refs > 0)
        return;
    b->next = jit->unused_batches;
    jit->unused_batches = b;
    uint32_t n = 0;
    KernelBatch **at = &jit->unused_batches;
    while (*at && n++ < UNUSED_MOST)
        at = &(*at)->next;
    while (*at) {
        KernelBatch *last = *at;
        *at = last->next;
        batch_free(jit, last);
    }
}

void batches_free(Jit *jit)
{
    while (jit->unused_batches) {
        KernelBatch *b = jit->unused_batches;
        jit->unused_batches = b->next;
        batch_free(jit, b);
    }
    ptrmap_deinit(&jit->kernels);
}

const void *batch_find(const KernelBatch *b, const char *symbol)
{
    return code_find(&b->code, symbol);
}

const Code *batch_code(const KernelBatch *b)
{
    return &b->code;
}

/* The unit's code calls a kernel of the batch. */
static void use_batch(Unit *u, KernelBatch *b)
{
    for (size_t i = 0; i < u->batches.n; i++)
        if (u->batches.at[i] == b)
            return;
    KernelBatch **at = &u->jit->unused_batches;
    while (b->refs == 0 && *at && *at != b)
        at = &(*at)->next;
    if (b->refs == 0 && *at == b)
        *at = b->next;
    b->refs++;
    vec_push(&u->batches, &u->arena, b);
}

static KernelBatch *batch_of(Gen *g)
{
    KernelBatch *b = g->batch;
    if (b)
        return b;
    b = memory_must(sizeof *b);
    *b = (KernelBatch){.refs = 1};
    arena_init(&b->arena, &g->cx->limits);
    ctx_root_add(g->cx, &b->root, &b->arena);
    return g->batch = b;
}

Shared *kernel_shared(Gen *g, const uint64_t digest[2])
{
    KernelBatch *b = g->batch;
    Shared **first = (Shared **)ptrmap_slot(&b->shared, place_of(digest[0])), *it = *first;
    while (it && memcmp(it->digest, digest, sizeof it->digest) != 0)
        it = it->next;
    if (it)
        return it;
    it = arena_new(&b->arena, Shared);
    *it = (Shared){.next = *first, .digest = {digest[0], digest[1]}};
    return *first = it;
}

/* Instructions of a module that is worth LLVM's beginning and ending it, which takes as long as some hundred of them. The first ones are
 * small, so that LLVM begins early; none is so large that an interrupt waits for it. */
#define MODULE_LEAST 400
#define MODULE_MOST 1600

static uint32_t module_size(const KernelBatch *b)
{
    size_t wanted = MODULE_LEAST * b->gens.n / 4;
    return wanted < MODULE_LEAST  ? MODULE_LEAST
           : wanted > MODULE_MOST ? MODULE_MOST
                                  : (uint32_t)wanted;
}

/* Where the code of the batch's next kernel is made: in a module that LLVM makes code of while the next is made. */
static Gen *gen_for_kernel(Gen *g, KernelBatch *b)
{
    if (g->alone)
        return g;
    if (b->open)
        return b->open;
    Gen *own = memory_must(sizeof *own);
    *own = (Gen){.jit = g->jit,
                 .cx = g->cx,
                 .unit = g->unit,
                 .env = g->env,
                 .code = g->code,
                 .arena = &b->arena,
                 .batch = b,
                 .out = &b->code,
                 .beside = g->beside,
                 .why = g->why};
    vec_push(&b->gens, &b->arena, own);
    gen_open(own, "kernel");
    return b->open = own;
}

void kernels_give(Gen *g)
{
    Gen *open = g->batch ? g->batch->open : NULL;
    if (!open)
        return;
    g->batch->open = NULL;
    orc_give(&g->work, (OrcModule){.g = open, .m = open->m});
}

bool kernels_link(Gen *g)
{
    KernelBatch *b = g->batch;
    if (!b)
        return true;
    bool ok = g->alone || code_finish(g->unit, &b->code);
    if (ok)
        use_batch(g->unit, b);
    if (ok)
        drop_gens(b);
    return b->linked = ok;
}

void kernels_drop(Gen *g)
{
    KernelBatch *b = g->batch;
    if (!b)
        return;
    drop_gens(b);
    if (b->linked)
        batch_release(g->jit, b);
    else
        batch_free(g->jit, b);
    g->batch = NULL;
}

/* ---- equal ones ---------------------------------------------------------------------------------------------------------- */

/* Where an error happens is part of a kernel that may stop with one. */
static void key_of(Gen *g, const TeProgram *p, Span span, const KernelInput *known, Buf *out)
{
    Machine machine = machine_of(g);
    te_key(g->cx, g->arena, p, out);
    buf_printf(out, "%zu %d %d %lld %d %d %d %d %d;", machine.vector_bytes, machine.registers,
               machine.threads, (long long)machine.second_cache, machine.dots, machine.matrices,
               machine.exchanges, machine.transforms, machine.reorders);
    if (g->jit->steps)
        buf_printf(out, "%s;", g->jit->steps);
    for (int i = 0; i < p->n_inputs; i++) {
        buf_char(out, known[i].number ? 'n' : known[i].tensor ? 't' : '-');
        if (known[i].number)
            buf_bytes(out, (const char *)&known[i].number->bits, sizeof known[i].number->bits);
    }
    te_program_fault_places(g->arena, p, span, out);
}

static bool is_it(const Gen *g, const Kernel *k, const Buf *key)
{
    /* The kernels of a module that stands alone are nobody else's. */
    return (k->batch == g->batch || (!g->alone && k->batch->linked)) && k->len == key->n &&
           !memcmp(k->key, key->at, key->n);
}

static Kernel *kernel_new(Gen *g, const TeProgram *p, const Buf *key, const char *hint)
{
    KernelBatch *b = batch_of(g);
    Kernel *k = arena_new(&b->arena, Kernel);
    *k = (Kernel){.hash = hash_bytes(key->at, key->n, 0),
                  .key = arena_copy_text(&b->arena, key->at, key->n),
                  .len = key->n,
                  .batch = b,
                  .symbol = orc_name(g->jit, &b->arena, hint),
                  .n_inputs = (uint32_t)p->n_inputs,
                  .n_outputs = (uint32_t)p->n_outputs};
    k->numbers = arena_new_array(&b->arena, DType, k->n_inputs + 1);
    k->reads = arena_alloc_must(&b->arena, k->n_inputs + 1, sizeof *k->reads);
    for (uint32_t i = 0; i < k->n_inputs; i++)
        if (p->inputs[i].rank == 0)
            k->numbers[i] = p->inputs[i].dtype;
    Kernel **first = (Kernel **)ptrmap_slot(&g->jit->kernels, place_of(k->hash));
    k->next = *first;
    *first = k;
    vec_push(&b->kernels, &b->arena, k);
    return k;
}

Kernel *kernel_of(Gen *g, const TeProgram *p, const KernelOrigin *from, const KernelInput *known)
{
    Buf key = {0};
    key_of(g, p, from->span, known, &key);
    Kernel *k = ptrmap_find(&g->jit->kernels, place_of(hash_bytes(key.at, key.n, 0)));
    while (k && !is_it(g, k, &key))
        k = k->next;
    bool make = !k;
    if (make)
        k = kernel_new(g, p, &key, from->name);
    buf_deinit(&key);
    g->unit->counts.calls++;
    g->unit->counts.made += make;
    if (g->lowered)
        buf_printf(g->lowered, "%s%s%s:\n%s", g->lowered->n ? "\n" : "", k->symbol,
                   make ? "" : " again", from->text);
    if (!make)
        report_again(g, k->symbol);
    if (make) {
        Gen *in = gen_for_kernel(g, k->batch);
        bool ok = !in->failed && kernel_make(in, k, p, from, known);
        g->failed |= in->failed || !ok;
        bool full =
            in != g && !g->failed && orc_module_instructions(in->m) >= module_size(k->batch);
        if (full && !g->again)
            kernels_give(g);
    } else if (k->batch != g->batch) {
        use_batch(g->unit, k->batch);
    }
    return g->failed ? NULL : k;
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
    return gen_outside(g, IMPORT_PACKED, out);
}
