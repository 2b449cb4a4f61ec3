/* Conventions, once the functions of a module are there. Calls in tail position that take no stack cost their convention at every call and
 * return: what ends with none, and is called by none, is called as C calls. */
#include "jit/internal.h"

static bool takes_no_stack(Ssa call)
{
    return LLVMGetTailCallKind(call) == LLVMTailCallKindMustTail;
}

/* Whether all that is done with the function is to call it and to come back. */
static bool is_only_called(Ssa fn)
{
    bool only = true;
    for (LLVMUseRef use = LLVMGetFirstUse(fn); use && only; use = LLVMGetNextUse(use)) {
        Ssa call = LLVMIsACallInst(LLVMGetUser(use));
        only = call && LLVMGetCalledValue(call) == fn && !takes_no_stack(call);
        for (unsigned i = 0; only && i < LLVMGetNumArgOperands(call); i++)
            only = LLVMGetOperand(call, i) != fn;
    }
    return only;
}

static bool always_returns(Ssa fn)
{
    bool returns = true;
    LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(fn);
    for (; b && returns; b = LLVMGetNextBasicBlock(b)) {
        Ssa end = LLVMGetBasicBlockTerminator(b);
        Ssa last = end ? LLVMGetPreviousInstruction(end) : NULL;
        returns = !last || !LLVMIsACallInst(last) || !takes_no_stack(last);
    }
    return returns;
}

/* What another module knows already stays as it is. */
static bool may_change(Gen *g, const Instance *in)
{
    return in->number == g->number && in->first == g->number && in != g->late && !in->fast &&
           LLVMCountBasicBlocks(in->value) > 0 && instance_is_called_by_name(g, in) &&
           is_only_called(in->value) && always_returns(in->value);
}

void conventions_choose(Gen *g)
{
    for (size_t i = 0; i < g->done; i++)
        if (may_change(g, g->todo.at[i]))
            instance_make_fast(g->todo.at[i]);
}
