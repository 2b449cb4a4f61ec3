/* The files that `relay kernel install` writes beside the kernel's description, as they stand in
 * kernel/assets. */
#ifndef KERNEL_ASSETS_H
#define KERNEL_ASSETS_H

#include <stddef.h>

typedef struct Asset {
    const char *name; /* of the file; NULL ends the list */
    const unsigned char *bytes;
    size_t size;
} Asset;

extern const Asset kernel_assets[];

#endif
