/* From an LLVM module to objects: the target and its settings, modules in parts. */
#include "base/memory.h"
#include "jit/internal.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool refused(Ctx *cx, char *text, const char *doing)
{
    diag_error(cx->diags, E0702_LLVM, (Span){0}, "LLVM refused while %s: %s", doing,
               text ? text : "");
    LLVMDisposeMessage(text);
    return false;
}

static LLVMTargetMachineRef machine_new(const Orc *o, LLVMTargetRef target,
                                        LLVMCodeGenOptLevel level)
{
    return LLVMCreateTargetMachine(target, o->triple, o->cpu, o->features, level, LLVMRelocPIC,
                                   LLVMCodeModelSmall);
}

/* What costs LLVM much time and gains nothing here: addresses are made ready by the emitter, code is not looked through for equal ends,
 * and nothing here moves from plain registers to masks. These settings are the library's, and can be made once. */
static void set_options(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    static const char *const options[] = {
        "relay",
        "-disable-lsr",
        "-enable-tail-merge=0",
#ifdef __x86_64__
        "-disable-x86-domain-reassignment",
#endif
    };
    if (!atomic_flag_test_and_set(&done))
        LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, "");
}

bool orc_init(Jit *jit)
{
    Orc *o = &jit->orc;
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    set_options();
    o->triple = LLVMGetDefaultTargetTriple();
    o->cpu = LLVMGetHostCPUName();
    o->features = LLVMGetHostCPUFeatures();
    LLVMTargetRef target;
    char *text = NULL;
    if (LLVMGetTargetFromTriple(o->triple, &target, &text))
        return refused(jit->cx, text, "looking for this machine's target");
    o->machine = machine_new(o, target, LLVMCodeGenLevelLess);
    o->plain = machine_new(o, target, LLVMCodeGenLevelNone);
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(o->machine);
    o->layout = LLVMCopyStringRepOfTargetData(data);
    LLVMDisposeTargetData(data);
    return true;
}

size_t orc_vector_bytes(const Orc *o)
{
    return strstr(o->features, "+avx512f") ? 64 : 32;
}

void orc_deinit(Jit *jit)
{
    Orc *o = &jit->orc;
    if (o->machine)
        LLVMDisposeTargetMachine(o->machine);
    if (o->plain)
        LLVMDisposeTargetMachine(o->plain);
    LLVMDisposeMessage(o->triple);
    LLVMDisposeMessage(o->cpu);
    LLVMDisposeMessage(o->features);
    LLVMDisposeMessage(o->layout);
}

/* Characters that assembly text would need quotes for become underscores. */
const char *orc_name(Jit *jit, Arena *arena, const char *hint)
{
    Orc *o = &jit->orc;
    char text[96];
    int n = snprintf(text, sizeof text, "%.64s.%u", hint, ++o->numbers);
    for (char *p = text; *p; p++) {
        bool plain =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!plain && *p != '.' && *p != '_')
            *p = '_';
    }
    return arena_copy_text(arena, text, (size_t)n);
}

/* An object that was made in spite of errors in it is none. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
        *(bool *)data = true;
}

static bool emit(Jit *jit, LLVMTargetMachineRef machine, LLVMModuleRef m, LLVMCodeGenFileType kind,
                 LLVMMemoryBufferRef *out)
{
    char *text = NULL;
#ifndef NDEBUG
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &text)) {
        char *ir = LLVMPrintModuleToString(m);
        diag_bug(jit->cx->diags, (Span){0}, "the JIT made a malformed module: %s\n%s", text, ir);
        LLVMDisposeMessage(ir);
        LLVMDisposeMessage(text);
        return false;
    }
    LLVMDisposeMessage(text);
    text = NULL;
#endif
    bool failed = false;
    LLVMContextSetDiagnosticHandler(LLVMGetModuleContext(m), on_diagnostic, &failed);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, kind, &text, out))
        return refused(jit->cx, text, "making code");
    if (!failed)
        return true;
    LLVMDisposeMemoryBuffer(*out);
    return refused(jit->cx, NULL, "making code");
}

bool orc_emit(Jit *jit, LLVMModuleRef m, LLVMCodeGenFileType kind, Buf *out)
{
    LLVMMemoryBufferRef buffer;
    if (!emit(jit, jit->orc.machine, m, kind, &buffer))
        return false;
    buf_bytes(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
    return true;
}

/* ---- a module in parts --------------------------------------------------------------------------------------------- */

/* Functions that are compiled at once; before each part the limits are asked. */
#define PART_MOST 32

static uint32_t count_bodies(LLVMModuleRef m)
{
    uint32_t n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        n += !LLVMIsDeclaration(f);
    return n;
}

/* A function becomes the mention of one elsewhere. */
static void drop_body(LLVMModuleRef m, LLVMValueRef f)
{
    LLVMValueRef elsewhere = LLVMAddFunction(m, "", LLVMGlobalGetValueType(f));
    LLVMSetFunctionCallConv(elsewhere, LLVMGetFunctionCallConv(f));
    LLVMReplaceAllUsesWith(f, elsewhere);
    size_t len;
    const char *old = LLVMGetValueName2(f, &len);
    char *name = memory_must(len);
    memcpy(name, old, len);
    LLVMDeleteFunction(f);
    LLVMSetValueName2(elsewhere, name, len);
    memory_free(name);
}

static bool is_large(LLVMValueRef f)
{
    unsigned kind = LLVMGetEnumAttributeKindForName("optnone", 7);
    return LLVMGetEnumAttributeAtIndex(f, LLVMAttributeFunctionIndex, kind) != NULL;
}

/* Leaves the functions that stay; the others are elsewhere. */
static void keep_bodies(LLVMModuleRef m, bool (*stays)(LLVMValueRef f, uint32_t i, uint32_t n),
                        bool wanted)
{
    uint32_t i = 0, n = count_bodies(m);
    for (LLVMValueRef f = LLVMGetFirstFunction(m), next; f; f = next) {
        next = LLVMGetNextFunction(f);
        if (LLVMIsDeclaration(f))
            continue;
        LLVMSetLinkage(f, LLVMExternalLinkage);
        if (stays(f, i++, n) != wanted)
            drop_body(m, f);
    }
}

static bool in_first_half(LLVMValueRef f, uint32_t i, uint32_t n)
{
    (void)f;
    return i < n / 2;
}

static bool is_large_one(LLVMValueRef f, uint32_t i, uint32_t n)
{
    (void)i;
    (void)n;
    return is_large(f);
}

typedef struct Adding {
    Jit *jit;
    Code *code;
    Arena *arena;
    LLVMTargetMachineRef machine;
} Adding;

static bool add_object(Adding *a, LLVMModuleRef m)
{
    LLVMMemoryBufferRef object;
    if (!emit(a->jit, a->machine, m, LLVMObjectFile, &object))
        return false;
    size_t n = LLVMGetBufferSize(object);
    char *copy = memory_aligned(16, (n + 15) & ~(size_t)15);
    if (copy) {
        memcpy(copy, LLVMGetBufferStart(object), n);
        vec_push(&a->code->objects, a->arena, ((Str){copy, n}));
    }
    LLVMDisposeMemoryBuffer(object);
    return copy != NULL;
}

/* By halves, so that copying costs little. */
static bool add_parts(Adding *a, LLVMModuleRef m)
{
    if (limit_hit(&a->jit->cx->limits))
        return false;
    if (count_bodies(m) <= PART_MOST)
        return add_object(a, m);
    LLVMModuleRef half = LLVMCloneModule(m);
    keep_bodies(m, in_first_half, true);
    keep_bodies(half, in_first_half, false);
    bool ok = add_parts(a, m) && add_parts(a, half);
    LLVMDisposeModule(half);
    return ok;
}

static bool has_large(LLVMModuleRef m)
{
    bool found = false;
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f && !found; f = LLVMGetNextFunction(f))
        found = is_large(f);
    return found;
}

static bool add_all(Adding *a, LLVMModuleRef m)
{
    if (!has_large(m))
        return add_parts(a, m);
    LLVMModuleRef large = LLVMCloneModule(m);
    keep_bodies(m, is_large_one, false);
    keep_bodies(large, is_large_one, true);
    Adding plain = *a;
    plain.machine = a->jit->orc.plain;
    bool ok = add_parts(&plain, large) && add_parts(a, m);
    LLVMDisposeModule(large);
    return ok;
}

bool orc_add(Gen *g)
{
    Adding a = {g->jit, g->out, g->arena, g->jit->orc.machine};
    Buf why = {0};
    if (!add_all(&a, g->m))
        return false;
    if (!code_link(g->unit, g->out, &why))
        diag_error(g->cx->diags, E0702_LLVM, (Span){0}, "the code cannot be linked: %s",
                   buf_text(&why));
    buf_deinit(&why);
    if (!g->jit->content)
        code_drop_objects(g->out);
    return g->out->image != NULL;
}
