/* Fronts in place of their calls, once the functions of a module are there.
 *
 * A front (match.c) finds the clause that takes a value, and ends there where that comes back from no call, as half of what a tree consists of
 * does. Where its clauses are of that kind it stands where it is called from and comes back to: what is a leaf is no call, and processors
 * foresee what comes at each place by itself. LLVM puts no larger function there than what a call costs. */
#include "jit/internal.h"

/* Of LLVM's, for all calls of one front together. */
#define INSTRUCTIONS_MOST 4096

/* NULL: it is used in another way, or goes on there. */
static Ssa call_that_comes_back(Ssa fn, LLVMUseRef use)
{
    Ssa call = LLVMIsACallInst(LLVMGetUser(use));
    bool comes = call && LLVMGetCalledValue(call) == fn &&
                 LLVMGetTailCallKind(call) != LLVMTailCallKindMustTail;
    return comes ? call : NULL;
}

static uint32_t count_calls(Ssa fn)
{
    uint32_t n = 0;
    for (LLVMUseRef use = LLVMGetFirstUse(fn); use; use = LLVMGetNextUse(use))
        n += call_that_comes_back(fn, use) != NULL;
    return n;
}

static bool may_stand_in_calls(Gen *g, const Instance *in)
{
    return in->number == g->number && in->behind && LLVMCountBasicBlocks(in->value) > 0 &&
           instance_ends_in_front(in) &&
           orc_instructions(in->value) <= INSTRUCTIONS_MOST / (count_calls(in->value) + 1);
}

static unsigned always(void)
{
    static const char name[] = "alwaysinline";
    return LLVMGetEnumAttributeKindForName(name, sizeof name - 1);
}

static void stand_in_calls(Gen *g, Ssa fn)
{
    LLVMAttributeRef stands = LLVMCreateEnumAttribute(g->c, always(), 0);
    for (LLVMUseRef use = LLVMGetFirstUse(fn); use; use = LLVMGetNextUse(use)) {
        Ssa call = call_that_comes_back(fn, use);
        if (call)
            LLVMAddCallSiteAttribute(call, LLVMAttributeFunctionIndex, stands);
    }
}

void fronts_choose(Gen *g)
{
    for (size_t i = 0; i < g->done; i++)
        if (may_stand_in_calls(g, g->todo.at[i]))
            stand_in_calls(g, g->todo.at[i]->value);
}

static void settle_block(LLVMBasicBlockRef block, unsigned kind)
{
    for (Ssa i = LLVMGetFirstInstruction(block); i; i = LLVMGetNextInstruction(i))
        if (LLVMIsACallInst(i))
            LLVMRemoveCallSiteEnumAttribute(i, LLVMAttributeFunctionIndex, kind);
}

void fronts_settle(LLVMModuleRef m)
{
    unsigned kind = always();
    for (Ssa fn = LLVMGetFirstFunction(m); fn; fn = LLVMGetNextFunction(fn))
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn); b; b = LLVMGetNextBasicBlock(b))
            settle_block(b, kind);
}
