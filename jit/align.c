/* How the stack and functions are aligned.
 *
 * LLVM keeps the stack to 16 bytes at every call, as C wants: a function that has nothing on the stack moves it, and each call of one that may
 * end in others in tail position moves it twice. Code of ours wants words alone: it moves nothing, and what calls C, or keeps vectors, aligns
 * its own frame. Functions begin where processors begin to read a line of instructions, so that one function's length does not decide how
 * fast the next one is. */
#include "jit/internal.h"

#include <string.h>

#define STACK_OWN 8
#define STACK_OF_C 16
#define FUNCTION_BEGIN 32

/* AArch64's stack pointer is always as C wants it. */
static bool may_choose(LLVMModuleRef m)
{
    return strncmp(LLVMGetTarget(m), "x86_64", 6) == 0;
}

void align_open(Gen *g)
{
    static const char name[] = "override-stack-alignment";
    if (may_choose(g->m))
        LLVMAddModuleFlag(g->m, LLVMModuleFlagBehaviorError, name, sizeof name - 1,
                          LLVMValueAsMetadata(gen_int(g->i32, STACK_OWN)));
}

static LLVMTypeKind element_kind(Ssa v)
{
    LLVMTypeRef t = LLVMTypeOf(v);
    bool vector = LLVMGetTypeKind(t) == LLVMVectorTypeKind;
    return LLVMGetTypeKind(vector ? LLVMGetElementType(t) : t);
}

static bool is_short(Ssa v)
{
    LLVMTypeKind kind = element_kind(v);
    return kind == LLVMHalfTypeKind || kind == LLVMBFloatTypeKind;
}

/* What processors without the instruction call C for: functions of floats, and what has short ones. */
static bool may_call_c(Ssa instruction)
{
    bool may = LLVMGetInstructionOpcode(instruction) == LLVMFRem || is_short(instruction);
    for (int i = 0; i < LLVMGetNumOperands(instruction) && !may; i++)
        may = is_short(LLVMGetOperand(instruction, (unsigned)i));
    return may;
}

/* Of what stands for instructions, what fills or moves memory may be a call after all, and what older processors have no instruction for;
 * `llvm.fmuladd`, of which tiles consist, is two then. */
static bool intrinsic_calls_c(Ssa callee)
{
    static const char *const names[] = {"llvm.mem", "llvm.fma.", "llvm.rint."};
    size_t n;
    const char *name = LLVMGetValueName2(callee, &n);
    bool calls = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        calls |= strncmp(name, names[i], strlen(names[i])) == 0;
    return calls;
}

static bool calls_c(Ssa instruction)
{
    Ssa call = LLVMIsACallInst(instruction);
    if (!call)
        return may_call_c(instruction);
    Ssa called = LLVMGetCalledValue(call), callee = LLVMIsAFunction(called);
    if (callee && LLVMGetIntrinsicID(callee) != 0)
        return intrinsic_calls_c(callee);
    return LLVMGetInstructionCallConv(call) == LLVMCCallConv &&
           (callee ? LLVMIsDeclaration(callee) : !LLVMIsAInlineAsm(called));
}

static bool any_calls_c(Ssa fn)
{
    bool any = false;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b && !any; b = LLVMGetNextBasicBlock(b))
        for (Ssa i = LLVMGetFirstInstruction(b); i && !any; i = LLVMGetNextInstruction(i))
            any = calls_c(i);
    return any;
}

void align_settle(LLVMModuleRef m)
{
    static const char name[] = "alignstack";
    unsigned kind = LLVMGetEnumAttributeKindForName(name, sizeof name - 1);
    LLVMAttributeRef of_c = LLVMCreateEnumAttribute(LLVMGetModuleContext(m), kind, STACK_OF_C);
    for (Ssa fn = may_choose(m) ? LLVMGetFirstFunction(m) : NULL; fn;
         fn = LLVMGetNextFunction(fn)) {
        LLVMSetAlignment(fn, FUNCTION_BEGIN);
        if (any_calls_c(fn))
            LLVMAddAttributeAtIndex(fn, LLVMAttributeFunctionIndex, of_c);
    }
}
