/* What a form does to every tensor of a value, as a program over the value's type: data is taken apart and made anew, constructor by
 * constructor, and where a data type contains itself a function is called.
 *
 *     each(fn (%x, %y) { %x - %y }, (%a, %b))      at type (Tensor[(2), float32], int32)
 *  => (subtract(%a.0, %b.0), %a.1)                                                                                                */
#ifndef PASSES_EACH_H
#define PASSES_EACH_H

#include "ir/module.h"
#include "passes/lets.h"

/* What is asked, and where nodes go. `form` has types; `args` are its arguments as they are now. */
typedef struct EachCall {
    Module *module;
    LetMaker make;
    const Call *form;
    Expr *const *args;
} EachCall;

/* The numbers of values of one type, by a function of numbers. NULL after a diagnostic. */
Expr *each_of_function(EachCall *call, const Function *f);
/* The sum of a function of them. NULL after a diagnostic. */
Expr *each_total(EachCall *call, const Function *f);
/* Random numbers in place of weights. NULL after a diagnostic. */
Expr *each_initial(EachCall *call);

#endif
