#include "repl/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int fd_write(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) {
            poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1);
            continue;
        }
        if (k <= 0)
            return k < 0 ? errno : EIO;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

bool fd_read(int fd, Buf *out)
{
    enum { PIECE = 65536 };
    for (;;) {
        if (!buf_reserve(out, PIECE)) {
            errno = ENOMEM;
            return false;
        }
        ssize_t k = read(fd, out->at + out->n, PIECE);
        if (k < 0 && errno == EINTR)
            continue;
        if (k <= 0) {
            out->at[out->n] = '\0';
            return k == 0;
        }
        out->n += (size_t)k;
        if (out->n > TEXT_MOST) {
            errno = EFBIG;
            return false;
        }
    }
}

bool file_load(const char *path, Buf *out)
{
    if (strcmp(path, "-") == 0)
        return fd_read(STDIN_FILENO, out);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    bool good = fd_read(fd, out);
    int why = errno;
    close(fd);
    errno = why;
    return good;
}

/* Writes a new file beside the old one and gives it the old one's name. */
static bool store_beside(const char *path, const char *text, size_t n)
{
    struct stat old;
    if (stat(path, &old) != 0 || access(path, W_OK) != 0)
        return false;
    Buf name = {0};
    buf_printf(&name, "%s.%ld.tmp", path, (long)getpid());
    int fd = open(buf_text(&name), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    bool good = fd >= 0 && fd_write(fd, text, n) == 0 && fsync(fd) == 0 &&
                fchmod(fd, old.st_mode & 07777) == 0;
    int why = errno;
    if (fd >= 0)
        close(fd);
    if (good && rename(buf_text(&name), path) != 0) {
        why = errno;
        good = false;
    }
    if (!good && fd >= 0)
        unlink(buf_text(&name));
    buf_deinit(&name);
    errno = why;
    return good;
}

bool file_store(const char *path, const char *text, size_t n)
{
    char *real = realpath(path, NULL);
    if (!real)
        return false;
    bool good = store_beside(real, text, n);
    int why = errno;
    free(real);
    errno = why;
    return good;
}
