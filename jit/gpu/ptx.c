#include "jit/gpu/ptx.h"

#include "jit/emit.h"
#include "loop/access.h"
#include "sched/gpu.h"
#include "sched/memory.h"
#include "te/walk.h"

#include <llvm-c/Target.h>
#include <stdio.h>
#include <string.h>

/* LLVM's address spaces. */
enum { GLOBAL = 1, SHARED = 3 };

#define TRIPLE "nvptx64-nvidia-cuda"
#define LAYOUT "e-i64:64-i128:128-v16:16-v32:32-n16:32:64"

typedef struct Target {
    const char *name, *features; /* the least version of the text that has what the card has */
    bool groups; /* its tensor cores read shared memory, to which boxes come by themselves */
} Target;

static const Target targets[] = {
    {"sm_80", "+ptx70", false}, {"sm_86", "+ptx71", false}, {"sm_89", "+ptx78", false},
    {"sm_90", "+ptx80", false}, {"sm_90a", "+ptx80", true},
};

typedef struct PtxMade {
    const char *key;
    size_t len;
    GpuCode code;
} PtxMade;

struct Ptx {
    Gen gen; /* of the module */
    Gen *outer;
    const Target *target;
    LLVMTargetMachineRef machine;
    Vec(PtxMade *) made;
    Vec(DeviceMessage) messages;
    Vec(DeviceProgram *) runs;
    uint32_t kernels;
    Ssa fault; /* where faults of the kernel that is made are noted */
};

const char *ptx_target(int i)
{
    return i < (int)(sizeof targets / sizeof *targets) ? targets[i].name : NULL;
}

const char *ptx_target_of(const Ptx *ptx)
{
    return ptx->target->name;
}

Ptx *ptx_open(Gen *g, const char *name)
{
    Ptx *ptx = arena_new(g->arena, Ptx);
    LLVMTargetRef target;
    char *text = NULL;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++)
        if (!strcmp(targets[i].name, name))
            ptx->target = &targets[i];
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
    if (!ptx->target || LLVMGetTargetFromTriple(TRIPLE, &target, &text)) {
        gen_refuse(g, "LLVM has no code for `%s`: %s", name, text ? text : "it is not known");
        LLVMDisposeMessage(text);
        return NULL;
    }
    ptx->outer = g;
    ptx->gen = (Gen){.jit = g->jit,
                     .cx = g->cx,
                     .unit = g->unit,
                     .env = g->env,
                     .code = g->code,
                     .arena = g->arena,
                     .out = arena_new(g->arena, Code),
                     .device = true,
                     .why = g->why};
    gen_open(&ptx->gen, "kernels");
    if (ptx->gen.failed)
        return NULL;
    ptx->machine =
        LLVMCreateTargetMachine(target, TRIPLE, ptx->target->name, ptx->target->features,
                                LLVMCodeGenLevelAggressive, LLVMRelocPIC, LLVMCodeModelDefault);
    LLVMSetTarget(ptx->gen.m, TRIPLE);
    LLVMSetDataLayout(ptx->gen.m, LAYOUT);
    return ptx;
}

void ptx_close(Ptx *ptx)
{
    LLVMDisposeTargetMachine(ptx->machine);
    gen_close(&ptx->gen);
}

/* ---- memory ---------------------------------------------------------------------------------------------------------------- */

/* What stands in scratch memory between the kernels of the nest. */
static bool plan_scratch(Ptx *ptx, Nest *n, MemoryNeed *needs, size_t *total)
{
    for (size_t i = 0; i < n->buffers.n; i++)
        needs[i] = (MemoryNeed){.last = -1};
    for (size_t part = 0; part < n->root.n; part++) {
        NestAccesses all = nest_accesses(n, n->root.at[part]);
        for (size_t i = 0; i < all.n; i++) {
            MemoryNeed *m = &needs[all.at[i].buffer];
            const NestBuffer *b = &n->buffers.at[all.at[i].buffer];
            if (b->place != NEST_SCRATCH)
                continue;
            if (b->size > INT64_MAX / 16)
                return gen_refuse(ptx->outer, "`%s` needs a tensor that is too large", b->name);
            m->first = m->last < 0 ? (int)part : m->first;
            m->last = (int)part;
            m->size = (size_t)b->size * dtype_size(b->dtype);
        }
    }
    *total = memory_plan(ptx->gen.arena, needs, n->buffers.n, 1);
    return true;
}

/* ---- a kernel ---------------------------------------------------------------------------------------------------------------- */

static void note_fault(Emit *e, Ssa bad, const char *report, Span span)
{
    Ptx *ptx = e->data;
    Gen *g = e->g;
    const char *fault = !strcmp(report, "relay_bad_shift")   ? TE_FAULT_SHIFT
                        : !strcmp(report, "relay_bad_place") ? TE_FAULT_PLACE
                                                             : TE_FAULT_ZERO;
    uint32_t number = 0;
    while (number < ptx->messages.n &&
           (ptx->messages.at[number].fault != fault ||
            memcmp(&ptx->messages.at[number].span, &span, sizeof span) != 0))
        number++;
    if (number == ptx->messages.n)
        vec_push(&ptx->messages, g->arena, ((DeviceMessage){fault, span}));
    LLVMBasicBlockRef note = gen_block(g, e->fn, "fault"), go = gen_block(g, e->fn, "go");
    gen_branch(g, bad, note, go, false);
    LLVMPositionBuilderAtEnd(g->b, note);
    LLVMBuildStore(g->b, gen_int(g->i32, number + 1), ptx->fault);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
}

typedef struct Faults {
    Arena *arena;
    bool any;
} Faults;

static void find_fault(void *data, NestNode *node)
{
    Faults *f = data;
    f->any |= node->value && te_holds_fault(f->arena, node->value);
    f->any |= node->kind != NEST_LOOP && node->at && te_holds_fault(f->arena, node->at);
}

static const char *kernel_name(Ptx *ptx, const char *hint)
{
    char text[96];
    bool letter = (*hint >= 'a' && *hint <= 'z') || (*hint >= 'A' && *hint <= 'Z');
    int n = snprintf(text, sizeof text, "%s%.64s_%u", letter ? "" : "k_", hint, ++ptx->kernels);
    for (char *p = text; *p; p++)
        if (!(*p >= 'a' && *p <= 'z') && !(*p >= 'A' && *p <= 'Z') && !(*p >= '0' && *p <= '9'))
            *p = '_';
    return arena_copy_text(ptx->gen.arena, text, (size_t)n);
}

typedef struct Making {
    Ptx *ptx;
    Nest *n;
    const TeProgram *p;
    const KernelOrigin *from;
    const KernelInput *known;
    const MemoryNeed *needs;
    Emit *e;
    GpuCode *code;
} Making;

static int output_of(const Making *m, int buffer)
{
    for (int i = 0; i < m->p->n_outputs; i++)
        if (m->n->p->outputs[i] == buffer)
            return i;
    return -1;
}

static GpuOperand operand_of(const Making *m, int buffer)
{
    const NestBuffer *b = &m->n->buffers.at[buffer];
    bool given = b->place == NEST_GIVEN, input = buffer < m->n->n_inputs;
    GpuOperand o = {.kind = input   ? GPU_INPUT
                            : given ? GPU_OUTPUT
                                    : GPU_SCRATCH,
                    .number = input   ? buffer
                              : given ? output_of(m, buffer)
                                      : 0,
                    .name = b->name,
                    .dtype = b->dtype};
    if (o.kind == GPU_SCRATCH) {
        o.offset = m->needs[buffer].offset;
        o.bytes = m->needs[buffer].size;
    }
    return o;
}

/* What comes as a box is known by its map, and not by its address. */
static bool is_boxed(const NestAccess *a)
{
    return a->node->kind == NEST_BULK && a->buffer == a->node->box->from && !a->writes;
}

typedef struct Boxes {
    Vec(NestNode *) all;
    Arena *arena;
} Boxes;

static void find_box(void *data, NestNode *node)
{
    Boxes *b = data;
    if (node->kind == NEST_BULK)
        vec_push(&b->all, b->arena, node);
}

static CudaBox cuda_box(const Making *m, const NestBox *b)
{
    size_t element = dtype_size(m->n->buffers.at[b->from].dtype);
    CudaBox out;
    memset(&out, 0, sizeof out); /* compared as a whole */
    out.offset = (size_t)b->offset * element;
    out.element = element;
    out.n = (uint32_t)b->n;
    for (int i = 0; i < b->n; i++) {
        out.extent[i] = (uint64_t)b->axis[i].extent;
        out.step[i] = (uint64_t)b->axis[i].step * element;
        out.length[i] = (uint32_t)b->axis[i].length;
    }
    return out;
}

/* The map of each tensor of which boxes come is a parameter; which one is noted for who makes their code. */
static void add_boxes(const Making *m, NestNode *node, GpuLaunch *launch, GpuOperand *operands,
                      int *buffers)
{
    Arena *arena = m->ptx->gen.arena;
    DeviceKernel *k = &launch->kernel;
    Boxes found = {.arena = arena};
    DeviceBox *boxes = arena_new_array(arena, DeviceBox, DEVICE_BOXES_MOST);
    nest_each(node, find_box, &found);
    for (size_t i = 0; i < found.all.n; i++) {
        const NestBox *b = found.all.at[i]->box;
        CudaBox box = cuda_box(m, b);
        uint32_t at = 0;
        while (at < k->n_boxes && (buffers[boxes[at].parameter] != b->from ||
                                   memcmp(&boxes[at].box, &box, sizeof box) != 0))
            at++;
        if (at == DEVICE_BOXES_MOST) {
            gen_refuse(m->ptx->outer, "a kernel copies boxes of too many tensors");
            return;
        }
        if (at == k->n_boxes) {
            boxes[k->n_boxes++] = (DeviceBox){k->n, box};
            buffers[k->n] = b->from;
            operands[k->n++] = operand_of(m, b->from);
        }
        ptrmap_put(&m->e->boxes, b, (void *)(uintptr_t)(boxes[at].parameter + 1));
    }
    k->boxes = boxes;
}

/* The buffers that the node touches and that are memory outside of it, by number. */
static GpuLaunch launch_of(const Making *m, NestNode *node, int *buffers)
{
    Arena *arena = m->ptx->gen.arena;
    NestAccesses all = nest_accesses(m->n, node);
    bool *touched = arena_alloc_must(arena, m->n->buffers.n + 1, sizeof *touched);
    GpuOperand *operands =
        arena_new_array(arena, GpuOperand, m->n->buffers.n + DEVICE_BOXES_MOST + 1);
    GpuLaunch launch = {.operands = operands};
    Faults faults = {.arena = arena};
    nest_each(node, find_fault, &faults);
    for (size_t i = 0; i < all.n; i++)
        touched[all.at[i].buffer] |= !is_boxed(&all.at[i]);
    for (int i = 0; i < (int)m->n->buffers.n; i++) {
        const NestBuffer *b = &m->n->buffers.at[i];
        bool given = b->place == NEST_GIVEN, input = i < m->n->n_inputs;
        if (!touched[i] || (!given && b->place != NEST_SCRATCH) || (input && m->known[i].number))
            continue;
        buffers[launch.kernel.n] = i;
        operands[launch.kernel.n++] = operand_of(m, i);
    }
    add_boxes(m, node, &launch, operands, buffers);
    if (faults.any) {
        buffers[launch.kernel.n] = -1;
        operands[launch.kernel.n++] = (GpuOperand){.kind = GPU_FAULT, .bytes = sizeof(uint32_t)};
    }
    return launch;
}

static void set_sizes(DeviceKernel *k, const NestNode *node)
{
    for (int i = 0; i < 3; i++)
        k->grid[i] = k->block[i] = 1;
    for (; node->kind == NEST_LOOP && (node->way == NEST_GRID || node->way == NEST_THREADS);
         node = node->body.at[0]) {
        uint32_t *size = node->way == NEST_GRID ? k->grid : k->block;
        /* The loops come with the innermost last, which is x. */
        size[2] = size[1];
        size[1] = size[0];
        size[0] = (uint32_t)node->extent;
        if (node->body.n != 1)
            break;
    }
}

static void annotate(Gen *g, Ssa fn, const char *name, int64_t value)
{
    LLVMMetadataRef parts[3] = {LLVMValueAsMetadata(fn),
                                LLVMMDStringInContext2(g->c, name, strlen(name)),
                                LLVMValueAsMetadata(gen_int(g->i32, value))};
    LLVMMetadataRef node = LLVMMDNodeInContext2(g->c, parts, 3);
    LLVMAddNamedMetadataOperand(g->m, "nvvm.annotations", LLVMMetadataAsValue(g->c, node));
}

/* The parameter is a map itself, and not where one lies. */
static void pass_whole(Gen *g, Ssa fn, uint32_t parameter)
{
    LLVMTypeRef bytes = LLVMArrayType2(g->i8, sizeof(CudaMap));
    unsigned whole = LLVMGetEnumAttributeKindForName("byval", 5);
    unsigned align = LLVMGetEnumAttributeKindForName("align", 5);
    LLVMAddAttributeAtIndex(fn, parameter + 1, LLVMCreateTypeAttribute(g->c, whole, bytes));
    LLVMAddAttributeAtIndex(fn, parameter + 1,
                            LLVMCreateEnumAttribute(g->c, align, _Alignof(CudaMap)));
}

static Ssa kernel_function_of(Gen *g, const DeviceKernel *k)
{
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, k->n + 1);
    for (uint32_t i = 0; i < k->n; i++)
        types[i] = LLVMPointerTypeInContext(g->c, GLOBAL);
    for (uint32_t i = 0; i < k->n_boxes; i++)
        types[k->boxes[i].parameter] = LLVMPointerTypeInContext(g->c, 0);
    LLVMTypeRef type = LLVMFunctionType(g->nothing, types, k->n, false);
    Ssa fn = LLVMAddFunction(g->m, k->name, type);
    LLVMSetFunctionCallConv(fn, LLVMPTXKernelCallConv);
    gen_attribute(g, fn, "nounwind");
    for (uint32_t i = 0; i < k->n_boxes; i++)
        pass_whole(g, fn, k->boxes[i].parameter);
    annotate(g, fn, "maxntidx", k->block[0]);
    annotate(g, fn, "maxntidy", k->block[1]);
    annotate(g, fn, "maxntidz", k->block[2]);
    return fn;
}

/* What a kernel may have without saying so at its launch. */
#define SHARED_USUAL ((size_t)48 << 10)

static bool is_shared_by(const Making *m, size_t buffer, const NestNode *node)
{
    const NestBuffer *b = &m->n->buffers.at[buffer];
    return b->place == NEST_SHARED && nest_holds(node, b->home);
}

static size_t shared_align(const Making *m, size_t buffer)
{
    return m->n->buffers.at[buffer].boxed ? NEST_BOX_ALIGN : EMIT_ALIGN_MOST;
}

/* Where it begins behind so many bytes; and what there is then. */
static size_t shared_place(const Making *m, size_t buffer, size_t *all)
{
    const NestBuffer *b = &m->n->buffers.at[buffer];
    size_t align = shared_align(m, buffer), at = (*all + align - 1) & ~(align - 1);
    *all = at + (size_t)b->size * dtype_size(b->dtype);
    return at;
}

/* The memory whose size the launch says. */
static Ssa any_shared(const Ptx *ptx)
{
    const Gen *g = &ptx->gen;
    Ssa v = LLVMGetNamedGlobal(g->m, "shared_of_launch");
    if (v)
        return v;
    v = LLVMAddGlobalInAddressSpace(g->m, LLVMArrayType2(g->i8, 0), "shared_of_launch", SHARED);
    LLVMSetAlignment(v, ptx->target->groups ? NEST_BOX_ALIGN : EMIT_ALIGN_MOST);
    return v;
}

static void make_shared(Making *m, const NestNode *node, GpuLaunch *launch)
{
    Gen *g = m->e->g;
    char text[128];
    size_t all = 0;
    for (size_t i = 0; i < m->n->buffers.n; i++)
        if (is_shared_by(m, i, node))
            shared_place(m, i, &all);
    launch->kernel.shared = all > SHARED_USUAL ? (uint32_t)all : 0;
    all = 0;
    for (size_t i = 0; i < m->n->buffers.n; i++) {
        const NestBuffer *b = &m->n->buffers.at[i];
        if (!is_shared_by(m, i, node))
            continue;
        if (launch->kernel.shared) {
            m->e->base[i] = gen_offset(g, any_shared(m->ptx), shared_place(m, i, &all));
            continue;
        }
        LLVMTypeRef type = LLVMArrayType2(gen_stored(g, b->dtype), (uint64_t)b->size);
        snprintf(text, sizeof text, "%s_shared%zu", launch->kernel.name, i);
        Ssa v = LLVMAddGlobalInAddressSpace(g->m, type, text, SHARED);
        LLVMSetLinkage(v, LLVMInternalLinkage);
        LLVMSetInitializer(v, LLVMGetUndef(type));
        LLVMSetAlignment(v, (unsigned)shared_align(m, i));
        m->e->base[i] = v;
    }
}

static void set_bases(Making *m, const GpuLaunch *launch, const int *buffers)
{
    Emit *e = m->e;
    Gen *g = e->g;
    Lanes one = {.g = g, .n = 1};
    for (int i = 0; i < m->n->n_inputs; i++)
        if (m->known[i].number)
            e->base[i] = lanes_const(&one, *m->known[i].number);
    const DeviceKernel *k = &launch->kernel;
    uint32_t boxed = 0;
    for (uint32_t i = 0; i < k->n; i++) {
        if (boxed < k->n_boxes && k->boxes[boxed].parameter == i) {
            boxed++;
            continue;
        }
        Ssa at = LLVMGetParam(e->fn, i);
        const NestBuffer *b = buffers[i] < 0 ? NULL : &m->n->buffers.at[buffers[i]];
        if (!b) {
            m->ptx->fault = at;
        } else if (b->rank == 0 && buffers[i] < m->n->n_inputs) {
            Ssa v = gen_load(g, gen_stored(g, b->dtype), at, 0);
            e->base[buffers[i]] = gen_from_stored(g, b->dtype, v);
        } else {
            e->base[buffers[i]] = at;
        }
    }
}

static bool make_kernel(Making *m, NestNode *node)
{
    Gen *g = m->e->g;
    int *buffers = arena_new_array(g->arena, int, m->n->buffers.n + DEVICE_BOXES_MOST + 1);
    GpuLaunch launch = launch_of(m, node, buffers);
    launch.kernel.name = kernel_name(m->ptx, m->from->name);
    set_sizes(&launch.kernel, node);
    m->e->fn = kernel_function_of(g, &launch.kernel);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, m->e->fn, ""));
    set_bases(m, &launch, buffers);
    make_shared(m, node, &launch);
    bool ok = emit_root(m->e, node);
    LLVMBuildRetVoid(g->b);
    vec_push(&m->code->launches, g->arena, launch);
    return ok;
}

/* ---- programs ------------------------------------------------------------------------------------------------------------------ */

static bool make_code(Ptx *ptx, GpuCode *code, const TeProgram *p, const KernelOrigin *from,
                      const KernelInput *known, const bool *loose)
{
    Gen *g = &ptx->gen;
    GpuMachine machine = {.threads = 256,
                          .wide_least = 16384,
                          .folds_least = 32,
                          .blocks = 128,
                          .reorders = !g->jit->exact,
                          .groups = ptx->target->groups,
                          .boxes = ptx->target->groups && g->jit->gpu_boxes,
                          .tf32 = g->jit->tf32};
    if (ptx->outer->lowered)
        buf_printf(ptx->outer->lowered, "\n%s:\n%s", from->name, from->text);
    Nest *n = sched_gpu(g->cx, g->arena, &machine, p, loose);
    if (!n)
        return false;
#ifndef NDEBUG
    const char *wrong = nest_verify(n);
    if (wrong)
        diag_bug(g->cx->diags, from->span, "the schedule made a malformed nest: %s", wrong);
#endif
    if (ptx->outer->lowered) {
        te_print(ptx->outer->lowered, p, from->names);
        buf_char(ptx->outer->lowered, '\n');
        nest_print(ptx->outer->lowered, n);
    }
    MemoryNeed *needs = arena_alloc_must(g->arena, n->buffers.n + 1, sizeof *needs);
    if (!plan_scratch(ptx, n, needs, &code->bytes))
        return false;
    Emit *e = arena_new(g->arena, Emit);
    Making m = {ptx, n, p, from, known, needs, e, code};
    emit_begin(e, g, n, from->span);
    e->fault = note_fault;
    e->data = ptx;
    bool ok = true;
    for (size_t i = 0; i < n->root.n && ok; i++)
        ok = make_kernel(&m, n->root.at[i]);
    emit_end(e);
    return ok;
}

/* Where an error happens is part of a kernel that may stop with one. */
static void key_of(Ptx *ptx, const TeProgram *p, Span span, const KernelInput *known,
                   const bool *loose, Buf *out)
{
    te_key(ptx->gen.cx, ptx->gen.arena, p, out);
    for (int i = 0; i < p->n_inputs; i++) {
        buf_char(out, known[i].number ? 'n' : loose[i] ? 'l' : '-');
        if (known[i].number)
            buf_bytes(out, (const char *)&known[i].number->bits, sizeof known[i].number->bits);
    }
    te_program_fault_places(ptx->gen.arena, p, span, out);
}

const GpuCode *ptx_code(Ptx *ptx, const TeProgram *p, const KernelOrigin *from,
                        const KernelInput *known, const bool *loose)
{
    Arena *arena = ptx->gen.arena;
    Buf key = {0};
    key_of(ptx, p, from->span, known, loose, &key);
    for (size_t i = 0; i < ptx->made.n; i++)
        if (ptx->made.at[i]->len == key.n && !memcmp(ptx->made.at[i]->key, key.at, key.n)) {
            buf_deinit(&key);
            return &ptx->made.at[i]->code;
        }
    PtxMade *made = arena_new(arena, PtxMade);
    made->key = arena_copy_text(arena, key.at, key.n);
    made->len = key.n;
    buf_deinit(&key);
    if (!make_code(ptx, &made->code, p, from, known, loose) || ptx->gen.failed) {
        ptx->outer->failed = true;
        return NULL;
    }
    vec_push(&ptx->made, arena, made);
    return &made->code;
}

Arena *ptx_arena(Ptx *ptx)
{
    return ptx->gen.arena;
}

Ctx *ptx_ctx(Ptx *ptx)
{
    return ptx->gen.cx;
}

uint32_t ptx_kernels(const Ptx *ptx)
{
    return ptx->kernels;
}

void ptx_add_run(Ptx *ptx, DeviceProgram *run)
{
    vec_push(&ptx->runs, ptx->gen.arena, run);
}

DeviceProgram *const *ptx_runs(const Ptx *ptx, size_t *n)
{
    *n = ptx->runs.n;
    return ptx->runs.at;
}

bool ptx_text(Ptx *ptx, Buf *out)
{
    size_t from = out->n;
    /* Kernels call nothing: what they share is put in its place. */
    if (ptx->kernels > 0 && (!orc_improve(&ptx->gen, ptx->machine, "always-inline") ||
                             !orc_emit(&ptx->gen, ptx->machine, LLVMAssemblyFile, out)))
        return false;
    const char *text = arena_copy_text(ptx->gen.arena, buf_text(out) + from, out->n - from);
    for (size_t i = 0; i < ptx->runs.n; i++) {
        DeviceProgram *run = ptx->runs.at[i];
        run->ptx = text;
        run->ptx_bytes = out->n - from;
        run->messages = ptx->messages.at;
        run->n_messages = (uint32_t)ptx->messages.n;
    }
    return true;
}

bool ptx_keep(Ptx *ptx)
{
    Buf text = {0};
    bool ok = ptx_text(ptx, &text);
    buf_deinit(&text);
    return ok;
}
