/* Questions about programs (passes.md section 9): one row each in analyses.def.
 *
 *     Analysis a = {.cx = cx, .module = m, .root = e};
 *     if (analysis_run(&a, analysis_find("op_freqs"))) use(buf_text(&a.out));
 *     buf_deinit(&a.out);
 *
 * They read a checked program and change nothing; the answer is lines of text. */
#ifndef PASSES_ANALYSIS_H
#define PASSES_ANALYSIS_H

#include "ir/ctx.h"
#include "ir/module.h"

typedef struct Analysis {
    Ctx *cx;
    Module *module; /* where globals are found */
    const Module *env; /* and where else; may be NULL */
    Expr *root; /* the function or expression in question */
    int64_t number; /* for those that look at NUMBER */
    Buf out;
    Arena arena;
} Analysis;

/* What a question looks at: the expression; a number before it; or all functions of the module. */
typedef enum AnalysisTakes { ANALYSIS_PROGRAM, ANALYSIS_NUMBER, ANALYSIS_MODULE } AnalysisTakes;

typedef struct AnalysisRow {
    const char *name;
    AnalysisTakes takes;
    const char *doc;
    void (*run)(Analysis *a); /* may report; then there is no answer */
} AnalysisRow;

extern const AnalysisRow analyses[]; /* ends with a NULL name */
const AnalysisRow *analysis_find(Str name);
/* False after a diagnostic. */
bool analysis_run(Analysis *a, const AnalysisRow *row);
/* "PROGRAM", "NUMBER PROGRAM", "MODULE". */
const char *analysis_takes(const AnalysisRow *row);

#define ANALYSIS(name, takes, doc, fn) void fn(Analysis *a);
#include "passes/analyses.def"
#undef ANALYSIS

#endif
