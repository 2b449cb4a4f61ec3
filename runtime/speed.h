/* How fast this machine is, measured: what a program could reach at best. */
#ifndef RUNTIME_SPEED_H
#define RUNTIME_SPEED_H

/* Operations a second of one core on float32 in registers: a multiplication with an addition counts 2. Takes a millisecond or two. */
double speed_of_sums(void);
/* Bytes a second of one core that copies from one half of so many bytes to the other. Takes some milliseconds; 0 where there is no memory
 * for it. */
double speed_of_copies(double bytes);

#endif
