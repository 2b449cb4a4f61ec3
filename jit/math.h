/* Steps of elementary functions in double precision, for math.c (floats computed as doubles) and math_double.c. */
#ifndef JIT_MATH_H
#define JIT_MATH_H

#include "jit/internal.h"

#define COUNT(a) ((int)(sizeof(a) / sizeof *(a)))

/* x * y + z, in one rounding where the processor has it. */
Ssa lanes_fused(const Lanes *l, Ssa x, Ssa y, Ssa z);
Ssa wide_number(const Lanes *l, double v);
/* c[0] + c[1] x + c[2] x² … */
Ssa wide_polynomial(const Lanes *l, Ssa x, const double *c, int n);
/* `then` where x compares so with the number. */
Ssa wide_when(const Lanes *l, LLVMRealPredicate p, Ssa x, double than, Ssa then, Ssa otherwise);
/* An intrinsic of one number. */
Ssa wide_call(const Lanes *l, const char *name, Ssa x);
/* What has the sign of x, as all odd functions have. */
Ssa with_sign(const Lanes *l, Ssa v, Ssa x);
/* What is computed where some lane is far off, in place of `near`: between far_begin and far_end code is made for that case alone. */
typedef struct Far {
    LLVMBasicBlockRef go, from[2];
    Ssa values[2];
} Far;
Far far_begin(const Lanes *l, Ssa far, Ssa near);
/* The value of all lanes, which in that case is `v`. */
Ssa far_end(const Lanes *l, Far *f, Ssa v);
/* What the C library gives where some lane is far off, a call for each, else what is near. */
Ssa unless_far(const Lanes *l, DType t, Ssa far, Ssa near, const char *name, Ssa *args, unsigned n);
/* x^y of |x|^y: what the C library says of signs, zeros and infinities. */
Ssa signed_power(const Lanes *l, Ssa x, Ssa y, Ssa size, Ssa v);

/* Functions of float64; NULL for those that have none. */
Ssa double_math(const Lanes *l, int op, Ssa x);
Ssa double_power(const Lanes *l, Ssa x, Ssa y);

#endif
