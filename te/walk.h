/* Going through tensor expressions: the only two walks there are. Both keep their own stack and see a shared node once. */
#ifndef TE_WALK_H
#define TE_WALK_H

#include "base/table.h"
#include "te/te.h"

/* Calls `found` once with each node below the body that is not yet in `seen`. */
void te_each(Arena *arena, PtrMap *seen, Te *body, void (*found)(void *data, Te *e), void *data);

/* What stands for a node: `e` is a copy of `old` whose children are rewritten already. NULL: the node made again of those children,
 * with the foldings of te.h; or `old` itself where they are the same. */
typedef Te *TeMake(void *data, TeBuilder *b, const Te *e, const Te *old);
Te *te_rewrite(TeBuilder *b, const Te *body, TeMake *make, void *data);

/* Nodes of the node: how many there are; those of a load are its indices, then what stands outside. */
int te_children(const Te *e);
Te *te_child(const Te *e, int i);

#endif
