/* Factors for each channel, behind and in front of convolutions and dense, become part of the weights, which are folded where they are
 * constants. */
#include "passes/pass.h"

const Pass pass_fold_scale_axis = {
    .name = "FoldScaleAxis",
    .doc = "Moves factors for each channel into weights, and evaluates what is then known.",
    .opt_level = 3,
    .reorders = true,
    .needs_types = true,
    .parts = "BackwardFoldScaleAxis,ForwardFoldScaleAxis,FoldConstant",
};
