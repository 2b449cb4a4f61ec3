/* How fast this machine is, measured: what a program could reach at best. */
#ifndef RUNTIME_SPEED_H
#define RUNTIME_SPEED_H

#include "runtime/pool.h"

/* Operations a second of one core on float32 in registers: a multiplication with an addition counts 2. Takes a millisecond or two. */
double speed_of_sums(void);
/* Bytes a second of the pool's threads (NULL: of one) that copy from one half of so many bytes to the other, or of one where there is too
 * little to share. Takes some milliseconds; 0 where there is no memory for it. */
double speed_of_copies(Pool *pool, double bytes);

#endif
