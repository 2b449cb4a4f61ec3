/* Reading and writing to the end. On failure errno says why. */
#ifndef REPL_FILE_H
#define REPL_FILE_H

#include "base/buf.h"

/* Writes all of it, waiting where it must; 0, or the errno that ended it. */
int fd_write(int fd, const char *p, size_t n);
/* Appends what is left to read: at most TEXT_MOST bytes, since a device may never end; more is EFBIG. */
#define TEXT_MOST ((size_t)1 << 30)
bool fd_read(int fd, Buf *out);

/* Appends what the file holds; "-" is standard input. */
bool file_load(const char *path, Buf *out);
/* Puts the text in place of the file, whole or not at all; links are followed and permissions
 * kept. */
bool file_store(const char *path, const char *text, size_t n);

#endif
