/* Parts of a function that is too long for LLVM as functions of their own. */
#ifndef JIT_OUTLINE_H
#define JIT_OUTLINE_H

#include "ir/module.h"

/* A typed function in A normal form with the same meaning in which no function is longer, and no branches are nested more deeply, than
 * what LLVM makes good code of in time; itself when it is so already. New nodes lie in the module's arena. NULL when a limit was hit. */
Function *outline_large(Ctx *cx, Module *module, Function *fn);

/* Whether the function is a part of another, which runs it at most once each time. */
bool function_is_part(const Function *fn);

#endif
