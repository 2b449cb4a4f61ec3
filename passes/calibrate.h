/* How large the numbers of a quantised program's inputs are, by what they are on samples.
 *
 * The function is evaluated on each sample with simulated quantisations left out; what goes into each of them is collected, and a mode
 * says how much of it the integers shall reach. */
#ifndef PASSES_CALIBRATE_H
#define PASSES_CALIBRATE_H

#include "passes/pass.h"

/* The modes by name: "percentile", "kl_divergence", "mean_square". */
bool calibrate_is_mode(Str name);

typedef struct CalibrateWish {
    Str mode;
    const char *
        samples; /* a file of arrays named as the parameters; with an axis in front: one sample after the other */
    double percentile; /* the share of the numbers that is reached */
    int64_t bits;
} CalibrateWish;

/* For each `simulated_quantize` of an input in the typed function, the largest number that it shall reach: Expr -> double *, in the pass's
 * scratch memory. False after a diagnostic. */
bool calibrate(PassRun *run, const Def *def, const CalibrateWish *wish, PtrMap *out);

#endif
