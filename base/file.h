/* Reading and writing to the end. Where something returns false, errno says why: ECANCELED, when one of the `limits` ended it, which have
 * reported that. They are asked while nothing comes or goes, and count what is held while it is read; NULL: it is waited for.
 *
 * All files that the program makes are put in place whole or not at all: what is new is written without a name, reaches the disk, gets the
 * owner, group and mode of what it replaces, and takes its name. Links stay links. A device or a pipe is written as it is. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include "base/buf.h"

typedef struct Limits Limits;

/* Writes all of it, waiting where it must; 0, or the errno that ended it. */
int fd_write(int fd, const char *p, size_t n);
/* Appends what is left to read: at most TEXT_MOST bytes, since a device may never end; more is EFBIG. */
#define TEXT_MOST ((size_t)1 << 30)
bool fd_read(int fd, Buf *out);

/* Appends what the file holds; "-" is standard input. A text has at most TEXT_MOST bytes, and so has what comes from a device or pipe. */
bool file_load(const char *path, Limits *limits, Buf *out);
bool file_load_data(const char *path, Limits *limits, Buf *out);

/* Who may read a file that was not there before; who may read a program may run it, also where something else was before. */
typedef enum FilePrivacy { FILE_OURS, FILE_EVERYBODYS, FILE_PROGRAM } FilePrivacy;

bool file_store(const char *path, const void *bytes, size_t n, FilePrivacy privacy);
/* The same of what does not lie in one place. */
typedef struct FilePiece {
    const void *bytes;
    size_t n;
} FilePiece;
bool file_store_pieces(const char *path, Limits *limits, const FilePiece *pieces, size_t n,
                       FilePrivacy privacy);

/* Makes the folders that lead to the last part of the path; `path` is changed meanwhile and restored. False when one cannot be made. */
bool file_make_folders(char *path, FilePrivacy privacy);

/* Where files go that nobody keeps: $TMPDIR when that is a whole path, else /tmp. */
const char *file_temporary_folder(void);

/* Gives what lies at `beside` the name `path`, in place of what has it. For what may be lost, such as a cache: it need not have reached
 * the disk. */
bool file_take_name(const char *beside, const char *path);

#endif
