/* From an LLVM module to code that can be called: target, object, link, remove.
 *
 * A target machine of our own makes the object; LLJIT only links it, so its one target machine is never used. What lies outside the
 * module (runtime functions, constants, constructors' identities) is an absolute symbol, defined when it is first named. */
#include "base/memory.h"
#include "jit/internal.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJITUtils.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool llvm_failed(Ctx *cx, LLVMErrorRef error, const char *doing)
{
    if (!error)
        return false;
    char *text = LLVMGetErrorMessage(error);
    if (strstr(text, strerror(ENOMEM)))
        memory_refused();
    diag_error(cx->diags, E0702_LLVM, (Span){0}, "LLVM refused while %s: %s", doing, text);
    LLVMDisposeErrorMessage(text);
    return true;
}

static bool refused(Ctx *cx, char *text, const char *doing)
{
    diag_error(cx->diags, E0702_LLVM, (Span){0}, "LLVM refused while %s: %s", doing,
               text ? text : "");
    LLVMDisposeMessage(text);
    return false;
}

/* The session's own reports repeat what the failing call returns. */
static void say_nothing(void *data, LLVMErrorRef error)
{
    (void)data;
    LLVMConsumeError(error);
}

static LLVMTargetMachineRef machine_new(const Orc *o, LLVMTargetRef target,
                                        LLVMCodeGenOptLevel level)
{
    return LLVMCreateTargetMachine(target, o->triple, o->cpu, o->features, level, LLVMRelocPIC,
                                   LLVMCodeModelSmall);
}

static bool define(Jit *jit, LLVMOrcCSymbolMapPair *pairs, size_t n)
{
    LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(jit->orc.lljit);
    LLVMOrcMaterializationUnitRef unit = LLVMOrcAbsoluteSymbols(pairs, n);
    LLVMErrorRef error = LLVMOrcJITDylibDefine(lib, unit);
    if (error)
        LLVMOrcDisposeMaterializationUnit(unit);
    return !llvm_failed(jit->cx, error, "naming a symbol");
}

static LLVMOrcCSymbolMapPair pair_of(Jit *jit, const char *name, const void *address)
{
    return (LLVMOrcCSymbolMapPair){
        LLVMOrcLLJITMangleAndIntern(jit->orc.lljit, name),
        {(LLVMOrcExecutorAddress)(uintptr_t)address,
         {LLVMJITSymbolGenericFlagsExported | LLVMJITSymbolGenericFlagsCallable, 0}},
    };
}

static bool define_abi(Jit *jit)
{
    LLVMOrcCSymbolMapPair pairs[256];
    size_t n = 0;
    for (const AbiRow *row = abi_table; row->name && n < 256; row++)
        pairs[n++] = pair_of(jit, row->name, row->address);
    return define(jit, pairs, n);
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
    arena_init(&o->arena, NULL);
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
    LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(
               machine_new(o, target, LLVMCodeGenLevelLess)));
    if (llvm_failed(jit->cx, LLVMOrcCreateLLJIT(&o->lljit, b), "starting"))
        return false;
    LLVMOrcExecutionSessionSetErrorReporter(LLVMOrcLLJITGetExecutionSession(o->lljit), say_nothing,
                                            NULL);
    return define_abi(jit);
}

size_t orc_vector_bytes(const Orc *o)
{
    return strstr(o->features, "+avx512f") ? 64 : 32;
}

void orc_deinit(Jit *jit)
{
    Orc *o = &jit->orc;
    if (o->lljit)
        llvm_failed(jit->cx, LLVMOrcDisposeLLJIT(o->lljit), "ending");
    if (o->machine)
        LLVMDisposeTargetMachine(o->machine);
    if (o->plain)
        LLVMDisposeTargetMachine(o->plain);
    LLVMDisposeMessage(o->triple);
    LLVMDisposeMessage(o->cpu);
    LLVMDisposeMessage(o->features);
    LLVMDisposeMessage(o->layout);
    ptrmap_deinit(&o->names);
    arena_deinit(&o->arena);
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

const char *orc_symbol(Jit *jit, const void *address, const char *hint)
{
    Orc *o = &jit->orc;
    const char *name = ptrmap_find(&o->names, address);
    if (name)
        return name;
    name = orc_name(jit, &o->arena, hint);
    ptrmap_put(&o->names, address, (void *)(uintptr_t)name);
    LLVMOrcCSymbolMapPair pair = pair_of(jit, name, address);
    if (!define(jit, &pair, 1))
        o->failed = true;
    return name;
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
    LLVMOrcResourceTrackerRef tracker;
    LLVMTargetMachineRef machine;
} Adding;

static bool add_object(Adding *a, LLVMModuleRef m)
{
    LLVMMemoryBufferRef object;
    if (!emit(a->jit, a->machine, m, LLVMObjectFile, &object))
        return false;
    LLVMErrorRef error = LLVMOrcLLJITAddObjectFileWithRT(a->jit->orc.lljit, a->tracker, object);
    return !llvm_failed(a->jit->cx, error, "adding code");
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
    Adding plain = {a->jit, a->tracker, a->jit->orc.plain};
    bool ok = add_parts(&plain, large) && add_parts(a, m);
    LLVMDisposeModule(large);
    return ok;
}

bool orc_add(Jit *jit, LLVMModuleRef m, LLVMOrcResourceTrackerRef *tracker)
{
    if (jit->orc.failed)
        return false;
    *tracker = LLVMOrcJITDylibCreateResourceTracker(LLVMOrcLLJITGetMainJITDylib(jit->orc.lljit));
    if (add_all(&(Adding){jit, *tracker, jit->orc.machine}, m))
        return true;
    orc_remove(jit, *tracker);
    *tracker = NULL;
    return false;
}

void orc_remove(Jit *jit, LLVMOrcResourceTrackerRef tracker)
{
    if (!tracker)
        return;
    llvm_failed(jit->cx, LLVMOrcResourceTrackerRemove(tracker), "removing code");
    LLVMOrcReleaseResourceTracker(tracker);
    LLVMOrcSymbolStringPoolClearDeadEntries(LLVMOrcExecutionSessionGetSymbolStringPool(
        LLVMOrcLLJITGetExecutionSession(jit->orc.lljit)));
}

void *orc_find(Jit *jit, const char *symbol)
{
    LLVMOrcExecutorAddress at = 0;
    if (llvm_failed(jit->cx, LLVMOrcLLJITLookup(jit->orc.lljit, &at, symbol), "linking"))
        return NULL;
    return (void *)(uintptr_t)at;
}
