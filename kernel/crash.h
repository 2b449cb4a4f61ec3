/* What a kernel leaves that a signal ends: a line on the log, and the same in a file beside the connection file. Front ends say no more than
 * that it died; the next kernel of this connection shows the line below its first cell. */
#ifndef KERNEL_CRASH_H
#define KERNEL_CRASH_H

#include "base/buf.h"

/* Before there are threads. Takes what the kernel before this one left of the same connection into `left`. Signals that somebody looks
 * after already stay his. */
void crash_watch(const char *connection_file, int log, Buf *left);
/* Forgets the file's name. */
void crash_end(void);
/* The calling thread's reports need none of its stack. */
void crash_own_stack(void);
/* What runs, in one short word; "" when nothing does. */
void crash_running(const char *name);

#endif
