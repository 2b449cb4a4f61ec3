/* Objects of ELF, linked in memory: code that can be called.
 *
 * The object is what LLVM made, in this process or in another one that kept it in a file; so nothing in it is believed: every offset is
 * looked at before it is used. Code lies in pages that are never writable and executable at once.
 *
 *     Image *code = image_link(&(ImageParts){n, objects, find, data}, &why);
 *     Entry *entry = (Entry *)(uintptr_t)image_find(code, "entry.7"); */
#ifndef JIT_IMAGE_H
#define JIT_IMAGE_H

#include "base/buf.h"
#include "base/str.h"

typedef struct Image Image;

typedef struct ImageParts {
    size_t n;
    const Str *objects; /* read while they are linked, and not kept */
    /* The address of what no object defines; NULL: there is no such thing. */
    const void *(*find)(void *data, const char *name);
    void *data;
} ImageParts;

/* NULL: `why` says why not. */
Image *image_link(const ImageParts *parts, Buf *why);
/* The address of what an object defines for others; NULL: none does. */
void *image_find(const Image *im, const char *name);
/* NULL is nothing. */
void image_free(Image *im);

#endif
