#ifndef STDLIB_PRELUDE_H
#define STDLIB_PRELUDE_H

/* The part of the standard library that is written in Relay: the files of stdlib/prelude/, put
   into the program when it is built, in the order of their names.

       for (const PreludeFile *f = prelude_files; f->name; f++)
           parse(f->name, f->text, f->len);                                                     */

#include <stddef.h>

/* One source file; `text` ends with a NUL that `len` does not count. */
typedef struct {
    const char *name;
    const char *text;
    size_t len;
} PreludeFile;

/* All files; the row after the last has no name. */
extern const PreludeFile prelude_files[];

#endif
