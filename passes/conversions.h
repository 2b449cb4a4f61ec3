/* A quantised function in three: what makes integers of its inputs, what works on integers, what makes results of them.
 *
 *     def @main(%x) { f(%x) }
 *  => def @quantize_inputs(%x) { (cast(clip(…%x…), dtype="int8"),) }
 *     def @quantized_main(%q) { (…integers…,) }
 *     def @dequantize_outputs(%q) { …reals… }
 *     def @main(%x) { … @dequantize_outputs(@quantized_main(@quantize_inputs(%x).0).0) }                                           */
#ifndef PASSES_CONVERSIONS_H
#define PASSES_CONVERSIONS_H

#include "passes/pass.h"

/* Takes apart the function that passes on @main work on, in graph normal form; where it has no integers it stays. With `integral` it is an
 * error when the middle has reals. The module is the caller's, untyped where it is new; NULL after a diagnostic. */
Module *conversions_apart(PassRun *run, Module *m, bool integral);

#endif
