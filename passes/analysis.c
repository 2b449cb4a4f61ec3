#include "passes/analysis.h"

const AnalysisRow analyses[] = {
#define ANALYSIS(name, takes, doc, fn) {name, ANALYSIS_##takes, doc, fn},
#include "passes/analyses.def"
#undef ANALYSIS
    {0},
};

const AnalysisRow *analysis_find(Str name)
{
    for (const AnalysisRow *row = analyses; row->name; row++)
        if (str_is(name, row->name))
            return row;
    return NULL;
}

bool analysis_run(Analysis *a, const AnalysisRow *row)
{
    size_t errors = a->cx->diags->errors;
    arena_init(&a->arena, &a->cx->limits);
    row->run(a);
    arena_deinit(&a->arena);
    return a->cx->diags->errors == errors && !limit_hit(&a->cx->limits);
}

const char *analysis_takes(const AnalysisRow *row)
{
    switch (row->takes) {
    case ANALYSIS_PROGRAM: return "PROGRAM";
    case ANALYSIS_NUMBER: return "NUMBER PROGRAM";
    case ANALYSIS_MODULE: return "MODULE";
    }
    return "";
}
