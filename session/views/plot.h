/* `:plot`: numbers as curves, matrices as heat maps, constructors as trees; for terminals and pages. */
#ifndef SESSION_VIEWS_PLOT_H
#define SESSION_VIEWS_PLOT_H

#include "session/internal.h"

/* A vector or a list of numbers over its positions, a tuple of vectors over its first, a matrix, or a value of constructors. False after
 * a diagnostic. */
bool plot_value(RelaySession *s, Value v, Span span);

#endif
