/* What the plug-in with LLVM in it shows beside LLVM's own C functions. */
#ifndef JIT_LLVM_CUSHION_H
#define JIT_LLVM_CUSHION_H

#include <stdbool.h>

/* Before anything is asked of LLVM: it can be refused memory from here on. False when memory is refused now. */
bool relay_llvm_cushion(void);
/* LLVM was left in the middle of something that others need: there is no cushion any more. */
void relay_llvm_leave(void);
bool relay_llvm_there(void);

#endif
