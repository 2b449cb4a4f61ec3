/* Networks of practice as Relay programs: the original's own test builders (names that begin with `testing.`) and the models of the
 * benchmark's workloads (named as those). A row of models.def is a model; session/model.c checks the text and makes the weights. */
#ifndef STDLIB_MODELS_MODELS_H
#define STDLIB_MODELS_MODELS_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/vec.h"

/* How a parameter is filled; fan_in is the product of all dimensions but the first, of all but the first two times the first one
 * fan_out. */
typedef enum FillKind {
    FILL_UNIFORM, /* in b ± a */
    FILL_FAN_IN, /* uniform in ± sqrt(a / fan_in) */
    FILL_XAVIER, /* uniform in ± sqrt(3 / mean of fan_in and fan_out); X. Glorot, Y. Bengio 2010 */
    FILL_INT, /* integers from a to below b */
    FILL_VALUE, /* a */
    FILL_EXPR, /* what the program's function of the parameter's name gives */
} FillKind;

typedef struct Fill {
    FillKind kind;
    double a, b;
} Fill;

typedef struct ModelParam {
    const char *name; /* of its stream of numbers, with dots */
    const char *var; /* in the program */
    bool weight;
    Fill fill;
} ModelParam;

typedef struct Model {
    Arena *arena; /* for the texts of params; the caller's */
    Buf text; /* the caller's to let go of */
    Vec(ModelParam) params; /* in the order of @main */
} Model;

struct Net;

typedef struct ModelRow {
    const char *name, *doc;
    void (*build)(struct Net *net, const int *args);
    bool workload; /* parameters as the benchmark's workloads have them */
    int args[4];
} ModelRow;

extern const ModelRow model_rows[];
extern const size_t n_model_rows;

/* The model of this name, or of `testing.NAME`; NULL when there is none. */
const ModelRow *model_find(const char *name);
void model_build(const ModelRow *row, Model *out);

/* Files of this folder. */
typedef struct ModelFile {
    const char *name, *text;
    size_t len;
} ModelFile;
extern const ModelFile model_files[];

#endif
