/* From an LLVM module to code that can be called: target, object, link, remove.
 *
 * A target machine of our own makes the object; LLJIT only links it, so its one target machine is never used. What lies outside the
 * module (runtime functions, constants, constructors' identities) is an absolute symbol, defined when it is first named. */
#include "jit/internal.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/LLJITUtils.h>
#include <llvm-c/Target.h>
#include <stdio.h>
#include <string.h>

bool llvm_failed(Ctx *cx, LLVMErrorRef error, const char *doing)
{
    if (!error)
        return false;
    char *text = LLVMGetErrorMessage(error);
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

static LLVMTargetMachineRef machine_new(const Orc *o, LLVMTargetRef target)
{
    return LLVMCreateTargetMachine(target, o->triple, o->cpu, o->features, LLVMCodeGenLevelLess,
                                   LLVMRelocPIC, LLVMCodeModelSmall);
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

bool orc_init(Jit *jit)
{
    Orc *o = &jit->orc;
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    arena_init(&o->arena, NULL);
    o->triple = LLVMGetDefaultTargetTriple();
    o->cpu = LLVMGetHostCPUName();
    o->features = LLVMGetHostCPUFeatures();
    LLVMTargetRef target;
    char *text = NULL;
    if (LLVMGetTargetFromTriple(o->triple, &target, &text))
        return refused(jit->cx, text, "looking for this machine's target");
    o->machine = machine_new(o, target);
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(o->machine);
    o->layout = LLVMCopyStringRepOfTargetData(data);
    LLVMDisposeTargetData(data);
    LLVMOrcLLJITBuilderRef b = LLVMOrcCreateLLJITBuilder();
    LLVMOrcLLJITBuilderSetJITTargetMachineBuilder(
        b, LLVMOrcJITTargetMachineBuilderCreateFromTargetMachine(machine_new(o, target)));
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
    LLVMDisposeMessage(o->triple);
    LLVMDisposeMessage(o->cpu);
    LLVMDisposeMessage(o->features);
    LLVMDisposeMessage(o->layout);
    ptrmap_deinit(&o->names);
    arena_deinit(&o->arena);
}

/* Characters that assembly text would need quotes for become underscores. */
const char *orc_name(Jit *jit, const char *hint)
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
    return arena_copy_text(&o->arena, text, (size_t)n);
}

const char *orc_symbol(Jit *jit, const void *address, const char *hint)
{
    Orc *o = &jit->orc;
    const char *name = ptrmap_find(&o->names, address);
    if (name)
        return name;
    name = orc_name(jit, hint);
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

static bool emit(Jit *jit, LLVMModuleRef m, LLVMCodeGenFileType kind, LLVMMemoryBufferRef *out)
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
    if (LLVMTargetMachineEmitToMemoryBuffer(jit->orc.machine, m, kind, &text, out))
        return refused(jit->cx, text, "making code");
    if (!failed)
        return true;
    LLVMDisposeMemoryBuffer(*out);
    return refused(jit->cx, NULL, "making code");
}

bool orc_emit(Jit *jit, LLVMModuleRef m, LLVMCodeGenFileType kind, Buf *out)
{
    LLVMMemoryBufferRef buffer;
    if (!emit(jit, m, kind, &buffer))
        return false;
    buf_bytes(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
    LLVMDisposeMemoryBuffer(buffer);
    return true;
}

bool orc_add(Jit *jit, LLVMModuleRef m, LLVMOrcResourceTrackerRef *tracker)
{
    LLVMMemoryBufferRef object;
    if (jit->orc.failed || !emit(jit, m, LLVMObjectFile, &object))
        return false;
    LLVMOrcJITDylibRef lib = LLVMOrcLLJITGetMainJITDylib(jit->orc.lljit);
    *tracker = LLVMOrcJITDylibCreateResourceTracker(lib);
    LLVMErrorRef error = LLVMOrcLLJITAddObjectFileWithRT(jit->orc.lljit, *tracker, object);
    if (!llvm_failed(jit->cx, error, "adding code"))
        return true;
    LLVMOrcReleaseResourceTracker(*tracker);
    *tracker = NULL;
    return false;
}

void orc_remove(Jit *jit, LLVMOrcResourceTrackerRef tracker)
{
    if (!tracker)
        return;
    llvm_failed(jit->cx, LLVMOrcResourceTrackerRemove(tracker), "removing code");
    LLVMOrcReleaseResourceTracker(tracker);
}

void *orc_find(Jit *jit, const char *symbol)
{
    LLVMOrcExecutorAddress at = 0;
    if (llvm_failed(jit->cx, LLVMOrcLLJITLookup(jit->orc.lljit, &at, symbol), "linking"))
        return NULL;
    return (void *)(uintptr_t)at;
}
