/* Structural equality and hash (types.md section 14): equal up to a bijection of bound variables and of shared nodes; names, spans and
 * types are not compared. */
#ifndef IR_EQUAL_H
#define IR_EQUAL_H

#include "ir/module.h"

bool ir_equal(const Expr *a, const Expr *b, bool map_free_vars);
bool ir_module_equal(const Module *a, const Module *b);
/* Whether using the node twice differs from two equal nodes. Names do not, nor do scalars that text can write: `1` twice is one node or
 * two. */
bool ir_has_identity(const Expr *e);

/* Equal programs have equal hashes, in every run: they depend on no address. */
uint64_t ir_hash(const Expr *e);
uint64_t ir_module_hash(const Module *m);

/* The first place, in the order of evaluation, where two programs differ. */
typedef struct IrDifference {
    Span a, b;
    Buf why; /* what differs, in words: "`add` here, `subtract` there"; the caller's */
    Buf at_a, at_b; /* what stands on each side: "`add`"; empty when `why` says all */
} IrDifference;

/* As ir_module_equal, of bare expressions too. Data types and constructors of one name correspond when their definitions agree. `*out` is
 * filled when the answer is no; the buffers must be let go of in any case. */
bool ir_module_compare(const Module *a, const Module *b, bool map_free_vars, IrDifference *out);
void ir_difference_free(IrDifference *d);

#endif
