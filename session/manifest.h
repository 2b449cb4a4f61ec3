/* The manifest of a benchmark folder: its workloads and how their parameters are made (its workloads.md). */
#ifndef SESSION_MANIFEST_H
#define SESSION_MANIFEST_H

#include "session/internal.h"

typedef enum GenKind { GEN_UNIFORM, GEN_INT, GEN_VALUE, GEN_VALUES, GEN_EXPR } GenKind;

typedef struct WorkloadParam {
    const char *name; /* with dots; a dot is `_` in the program */
    const char *expr; /* GEN_EXPR: Relay text */
    bool weight; /* known when the program is compiled */
    DType dtype;
    int32_t rank;
    int64_t shape[TENSOR_RANK_MOST];
    GenKind gen;
    double scale, offset; /* uniform */
    int64_t low, high; /* int */
    double value;
    const double *values;
    size_t n_values;
} WorkloadParam;

typedef struct Workload {
    const char *name;
    const char *program; /* path below the folder */
    const char *entry;
    double flops, bytes; /* 0: not said */
    WorkloadParam *params;
    size_t n;
} Workload;

/* Reads one workload; everything lies in `arena`. False after a diagnostic. */
bool manifest_read(RelaySession *s, Arena *arena, const char *dir, const char *name, Workload *out);

/* The parameter's value, from the stream of its name (`seed` 0 for the workload's own) or by evaluating its expression with the
 * definitions of `m`. NONE after a diagnostic. */
Value workload_value(RelaySession *s, Module *m, const char *workload, const WorkloadParam *p,
                     uint64_t seed);

#endif
