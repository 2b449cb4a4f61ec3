/* Large pages for large memory: a text of many megabytes becomes a program in a fraction of the page faults. */
#ifndef BASE_PAGES_H
#define BASE_PAGES_H

#include <stddef.h>

/* From this size on it is worth asking. */
#define PAGES_LARGE ((size_t)2 << 20)

/* Asks the system to back [p, p + size) with large pages where they fit; nothing else changes, and a system without them
 * does nothing. */
void pages_prefer_large(void *p, size_t size);

#endif
