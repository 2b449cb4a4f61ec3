/* The one door to Graphviz: its program `dot` finds places for boxes and lines. */
#ifndef SESSION_VIEWS_DOT_H
#define SESSION_VIEWS_DOT_H

#include "base/buf.h"
#include "base/limit.h"

/* What `dot -Tplain` makes of a graph. False where it is not installed, does not answer, or a limit is hit. */
bool dot_layout(Limits *limits, const Buf *graph, Buf *out);

#endif
