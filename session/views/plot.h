/* `:plot`: numbers as curves, matrices as heat maps, constructors as trees; for terminals and pages. */
#ifndef SESSION_VIEWS_PLOT_H
#define SESSION_VIEWS_PLOT_H

#include "session/internal.h"

/* A vector or a list of numbers over its positions, a tuple of vectors over its first, a matrix, or a value of constructors. False after
 * a diagnostic. */
bool plot_value(RelaySession *s, Value v, const Type *type, Span span);

/* Curves that grow: n numbers of each, under a title. `live` and `more` as RelayOutput says. */
typedef struct PlotLive {
    const double *const *curves;
    size_t n_curves;
    int64_t n;
    const char *title;
    unsigned live;
    bool more;
} PlotLive;

enum { PLOT_CURVES_MOST = 6 };
void plot_live(RelaySession *s, const PlotLive *what);

#endif
