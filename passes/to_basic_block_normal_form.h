/* Functions in which one block alone uses each value that is not bound to a variable. */
#ifndef PASSES_TO_BASIC_BLOCK_NORMAL_FORM_H
#define PASSES_TO_BASIC_BLOCK_NORMAL_FORM_H

#include "passes/pass.h"

/* The function, typed as before, with what several blocks use bound by `let`s. `shares`: several blocks use a value with an effect,
 * which could not be bound. NULL when memory ran out. */
Function *function_to_blocks(PassRun *run, Function *f, bool *shares);

#endif
