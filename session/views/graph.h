/* A program as a graph of what flows where: calls as boxes, their shapes on the lines, fused groups as regions, large programs folded by
 * the names of their weights. */
#ifndef SESSION_VIEWS_GRAPH_H
#define SESSION_VIEWS_GRAPH_H

#include "session/internal.h"

/* Shows the definition, or without one the module's expression. */
void show_graph(RelaySession *s, const Module *m, const Name *entry);

#endif
