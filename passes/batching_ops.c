/* Convolutions and products of the same data become one each, or a product of batches. */
#include "passes/pass.h"

const Pass pass_batching_ops = {
    .name = "BatchingOps",
    .doc = "Makes one convolution or product of several of the same data.",
    .opt_level = 4,
    .needs_types = true,
    .parts = "CombineParallelConv2D,CombineParallelDense,CombineParallelBatchMatmul",
};
