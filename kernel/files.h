/* The folders that files need. */
#ifndef KERNEL_FILES_H
#define KERNEL_FILES_H

#include "base/file.h"

/* Makes the folders that lead to the last part of the path; `path` is changed meanwhile and
 * restored. False when one cannot be made; errno says why. */
bool files_make_folders(char *path, FilePrivacy privacy);

#endif
