#include "base/file.h"
#include "base/limit.h"
#include "runtime/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void cannot(Diags *diags, const char *verb, const char *path, const char *why)
{
    diag_error(diags, E0401_FILE, (Span){0}, "cannot %s `%s`: %s", verb, path, why);
}

/* What gives more than this and is no file, such as /dev/zero, never ends. */
#define STREAM_MOST ((size_t)1 << 30)

/* Everything up to the end into `text`; false with errno set, EFBIG for what never ends. */
static bool read_all(int fd, Buf *text, size_t expected)
{
    size_t most = expected ? SIZE_MAX : STREAM_MOST;
    if (!buf_reserve(text, expected + 1)) {
        errno = ENOMEM;
        return false;
    }
    for (;;) {
        if (!buf_reserve(text, text->n < 4096 ? 4096 : 1)) {
            errno = ENOMEM;
            return false;
        }
        size_t room = text->cap - text->n - 1;
        ssize_t n = read(fd, text->at + text->n, room < INT_MAX ? room : INT_MAX);
        if (n == 0)
            return true;
        if (n < 0 && errno != EINTR)
            return false;
        if (n > 0 && (size_t)n > most - text->n) {
            errno = EFBIG;
            return false;
        }
        text->n += n > 0 ? (size_t)n : 0;
        text->at[text->n] = '\0';
    }
}

char *file_read(Diags *diags, const char *path, size_t *len)
{
    bool standard = strcmp(path, "-") == 0;
    int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    Buf text = {0};
    bool good = fd >= 0 && fstat(fd, &st) == 0;
    if (good && S_ISDIR(st.st_mode)) {
        errno = EISDIR;
        good = false;
    }
    good = good && read_all(fd, &text, S_ISREG(st.st_mode) ? (size_t)st.st_size : 0);
    int error = errno;
    if (fd >= 0 && !standard)
        close(fd);
    if (!good) {
        path = standard ? "standard input" : path;
        if (error == EFBIG)
            diag_error(diags, E0503_MEMORY, (Span){0}, "`%s` gives more than %zu MiB", path,
                       STREAM_MOST >> 20);
        else
            cannot(diags, "read", path, strerror(error));
        buf_deinit(&text);
        return NULL;
    }
    *len = text.n;
    return buf_take(&text);
}

/* What was made while memory was refused may not be whole. */
bool file_write_pieces(Limits *limits, Diags *diags, const char *path, const FilePiece *pieces,
                       size_t n, FilePrivacy privacy)
{
    if (limits && limit_refused(limits))
        return false;
    bool good = file_store_pieces(path, pieces, n, privacy);
    if (!good)
        cannot(diags, "write", path, strerror(errno));
    return good;
}

bool file_write(Limits *limits, Diags *diags, const char *path, const void *bytes, size_t n)
{
    return file_write_pieces(limits, diags, path, &(FilePiece){bytes, n}, 1, FILE_EVERYBODYS);
}
