/* Writing files, with the folders that they need. */
#ifndef KERNEL_FILES_H
#define KERNEL_FILES_H

#include <stdbool.h>
#include <stddef.h>

/* Who may read what is written. */
typedef enum FilePrivacy { FILE_OURS, FILE_EVERYBODYS } FilePrivacy;

/* Makes the folders that lead to the last part of the path; `path` is changed meanwhile and
 * restored. False when one cannot be made; errno says why. */
bool files_make_folders(char *path, FilePrivacy privacy);

/* Writes the file whole. False: errno says why. */
bool files_write(const char *path, const void *bytes, size_t n, FilePrivacy privacy);

#endif
