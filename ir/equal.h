/* Structural equality and hash (types.md section 14): equal up to a bijection of bound variables and of shared nodes; names, spans and
 * types are not compared. */
#ifndef IR_EQUAL_H
#define IR_EQUAL_H

#include "ir/module.h"

bool ir_equal(const Expr *a, const Expr *b, bool map_free_vars);
bool ir_module_equal(const Module *a, const Module *b);
uint64_t ir_hash(const Expr *e);

#endif
