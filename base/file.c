#include "base/file.h"

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

/* ---- putting a file in place ------------------------------------------------------------------- */

/* Names beside that others left are not ours to remove. */
#define NAMES_MOST 100

static void draft_forget(FileDraft *d)
{
    int why = errno;
    buf_deinit(&d->path);
    buf_deinit(&d->beside);
    errno = why;
}

static bool resolve(FileDraft *d, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno != ENOENT)
        return false;
    buf_str(&d->path, real ? real : path);
    free(real);
    return true;
}

static int open_beside(FileDraft *d, mode_t mode)
{
    int fd = -1;
    for (int i = 0; i < NAMES_MOST && fd < 0; i++) {
        buf_clear(&d->beside);
        buf_printf(&d->beside, "%s.%ld-%d.new", buf_text(&d->path), (long)getpid(), i);
        if (d->beside.failed || d->path.failed) {
            errno = ENOMEM;
            return -1;
        }
        fd = open(buf_text(&d->beside), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        if (fd < 0 && errno != EEXIST)
            return -1;
    }
    return fd;
}

/* What may not be written is not replaced either. What takes another's place is nobody's business before. */
bool file_draft_begin(FileDraft *d, const char *path, FilePrivacy privacy)
{
    *d = (FileDraft){0};
    struct stat old;
    bool exists = stat(path, &old) == 0;
    bool ours = exists || privacy == FILE_OURS;
    bool may = !exists || access(path, W_OK) == 0;
    d->program = privacy == FILE_PROGRAM;
    mode_t mode = ours ? 0600 : d->program ? 0777 : 0666;
    int fd = may && resolve(d, path) ? open_beside(d, mode) : -1;
    if (fd >= 0 && close(fd) == 0)
        return true;
    if (fd >= 0) {
        int why = errno;
        unlink(buf_text(&d->beside));
        errno = why;
    }
    draft_forget(d);
    return false;
}

/* Gives the open file what the one that it replaces has. */
static bool take_rights(int fd, const char *path)
{
    struct stat old, now;
    if (stat(path, &old) != 0)
        return errno == ENOENT;
    if (fstat(fd, &now) != 0)
        return false;
    bool same = old.st_uid == now.st_uid && old.st_gid == now.st_gid;
    return (same || fchown(fd, old.st_uid, old.st_gid) == 0) &&
           fchmod(fd, old.st_mode & 07777) == 0;
}

static bool let_run(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && fchmod(fd, (st.st_mode & 07777) | (st.st_mode & 0444) >> 2) == 0;
}

/* The new name is kept when the machine stops now; a file system that cannot say so has done what it can. */
static void keep_name(FileDraft *d)
{
    const char *path = buf_text(&d->path), *slash = strrchr(path, '/');
    size_t n = slash ? (size_t)(slash - path) : 0;
    buf_cut(&d->path, n ? n : slash != NULL);
    int fd = open(slash ? buf_text(&d->path) : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

bool file_draft_end(FileDraft *d, bool good)
{
    int fd = good ? open(buf_text(&d->beside), O_RDWR | O_CLOEXEC) : -1;
    good = fd >= 0 && take_rights(fd, buf_text(&d->path)) && (!d->program || let_run(fd)) &&
           fsync(fd) == 0;
    int why = errno;
    if (fd >= 0 && close(fd) != 0 && good) {
        why = errno;
        good = false;
    }
    if (good && rename(buf_text(&d->beside), buf_text(&d->path)) != 0) {
        why = errno;
        good = false;
    }
    if (good)
        keep_name(d);
    else
        unlink(buf_text(&d->beside));
    errno = why;
    draft_forget(d);
    return good;
}

static bool write_to(const char *path, const FilePiece *pieces, size_t n)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    int why = 0;
    for (size_t i = 0; i < n && !why; i++)
        why = fd_write(fd, pieces[i].bytes, pieces[i].n);
    if (close(fd) != 0 && !why)
        why = errno;
    errno = why;
    return !why;
}

bool file_store_pieces(const char *path, const FilePiece *pieces, size_t n, FilePrivacy privacy)
{
    struct stat old;
    if (stat(path, &old) == 0 && !S_ISREG(old.st_mode))
        return write_to(path, pieces, n);
    FileDraft d;
    if (!file_draft_begin(&d, path, privacy))
        return false;
    bool good = write_to(buf_text(&d.beside), pieces, n);
    int why = errno;
    bool placed = file_draft_end(&d, good);
    if (!good)
        errno = why;
    return placed;
}

bool file_store(const char *path, const void *bytes, size_t n, FilePrivacy privacy)
{
    return file_store_pieces(path, &(FilePiece){bytes, n}, 1, privacy);
}

const char *file_temporary_folder(void)
{
    const char *folder = getenv("TMPDIR");
    return folder && *folder == '/' ? folder : "/tmp";
}

bool file_take_name(const char *beside, const char *path)
{
    return rename(beside, path) == 0;
}

bool file_make_folders(char *path, FilePrivacy privacy)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        int made = mkdir(path, privacy == FILE_OURS ? 0700 : 0777);
        *slash = '/';
        if (made != 0 && errno != EEXIST)
            return false;
    }
    return true;
}
