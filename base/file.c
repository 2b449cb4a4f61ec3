#define _GNU_SOURCE 1
#include "base/file.h"

#include "base/limit.h"
#include "base/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Whoever waits asks so often, and between so many bytes. */
enum { ASK_MILLISECONDS = 50, ASK_BYTES = 4 << 20 };

/* Until the file can be read or written; false, and errno says ECANCELED, when a limit ends the work. */
static bool is_ready(int fd, short events, Limits *limits)
{
    for (;;) {
        if (limits && limit_hit(limits)) {
            errno = ECANCELED;
            return false;
        }
        struct pollfd p = {.fd = fd, .events = events};
        int n = poll(&p, 1, limits ? ASK_MILLISECONDS : -1);
        if (n != 0 && (n > 0 || errno != EINTR))
            return n > 0;
    }
}

/* 0, or the errno that ended it. */
static int write_all(int fd, const char *p, size_t n, Limits *limits)
{
    while (n > 0) {
        if (limits && limit_hit(limits))
            return ECANCELED;
        ssize_t k = write(fd, p, limits && n > ASK_BYTES ? ASK_BYTES : n);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0 && errno == EAGAIN) {
            if (!is_ready(fd, POLLOUT, limits))
                return errno;
            continue;
        }
        if (k <= 0)
            return k < 0 ? errno : EIO;
        p += k;
        n -= (size_t)k;
    }
    return 0;
}

int fd_write(int fd, const char *p, size_t n)
{
    return write_all(fd, p, n, NULL);
}

/* Room for so many bytes in all, while the limits allow them. */
static bool make_room(Buf *out, size_t n, Limits *limits, size_t *charged)
{
    size_t more = n > *charged ? n - *charged : 0;
    if (limits && more && !limit_charge(limits, more)) {
        errno = ECANCELED;
        return false;
    }
    *charged += more;
    if (buf_reserve(out, n - out->n))
        return true;
    errno = ENOMEM;
    return false;
}

static bool read_all(int fd, Limits *limits, size_t expected, size_t most, Buf *out,
                     size_t *charged)
{
    enum { PIECE = 65536 };
    if (!make_room(out, out->n + expected + 1, limits, charged))
        return false;
    for (;;) {
        if (!is_ready(fd, POLLIN, limits) ||
            (out->cap - out->n < 2 && !make_room(out, out->n + PIECE, limits, charged)))
            return false;
        size_t room = out->cap - out->n - 1;
        ssize_t k = read(fd, out->at + out->n, room < ASK_BYTES ? room : ASK_BYTES);
        if (k < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        out->n += k > 0 ? (size_t)k : 0;
        out->at[out->n] = '\0';
        if (k <= 0)
            return k == 0;
        if (out->n > most) {
            errno = EFBIG;
            return false;
        }
    }
}

/* What was charged is given back at the end: whoever has the bytes then counts them. */
static bool read_to_end(int fd, Limits *limits, size_t most, Buf *out)
{
    struct stat st;
    size_t before = out->n, charged = before;
    bool regular = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && (size_t)st.st_size <= most;
    bool good = read_all(fd, limits, regular ? (size_t)st.st_size : 0, regular ? most : TEXT_MOST,
                         out, &charged);
    if (limits)
        limit_release(limits, charged - before);
    return good;
}

bool fd_read(int fd, Buf *out)
{
    return read_to_end(fd, NULL, TEXT_MOST, out);
}

/* A pipe is opened without waiting for whoever writes: that is waited for when it is read. */
static bool load(const char *path, Limits *limits, size_t most, Buf *out)
{
    if (strcmp(path, "-") == 0)
        return read_to_end(STDIN_FILENO, limits, most, out);
    if (!sandbox_shows(path)) {
        errno = EACCES;
        return false;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return false;
    bool good = read_to_end(fd, limits, most, out);
    int why = errno;
    close(fd);
    errno = why;
    return good;
}

bool file_load(const char *path, Limits *limits, Buf *out)
{
    return load(path, limits, TEXT_MOST, out);
}

bool file_load_data(const char *path, Limits *limits, Buf *out)
{
    return load(path, limits, SIZE_MAX, out);
}

/* ---- putting a file in place ------------------------------------------------------------------- */

/* Names beside that others left are not ours to remove. */
#define NAMES_MOST 100

/* A file that is to take the place of `path`. It has no name of its own until it is whole, so that nothing is left of it when the process is
 * killed; where the file system has only files with names, it has one beside, as it has anywhere just before it takes its place. */
typedef struct Draft {
    int fd;
    Buf path, beside; /* beside: empty while it has no name */
} Draft;

static bool resolve(Draft *d, const char *path)
{
    char *real = realpath(path, NULL);
    if (!real && errno != ENOENT)
        return false;
    buf_str(&d->path, real ? real : path);
    free(real);
    return true;
}

/* Where the path's last part lies. */
static void folder_of(const Draft *d, Buf *out)
{
    const char *path = buf_text(&d->path), *slash = strrchr(path, '/');
    buf_bytes(out, slash ? path : ".", slash > path ? (size_t)(slash - path) : 1);
}

/* Gives it the first free name beside: as a new file, or, `d->fd` being one without a name, that. */
static bool name_beside(Draft *d, mode_t mode)
{
    char unnamed[32];
    snprintf(unnamed, sizeof unnamed, "/proc/self/fd/%d", d->fd);
    bool named = false;
    for (int i = 0; i < NAMES_MOST && !named; i++) {
        buf_clear(&d->beside);
        buf_printf(&d->beside, "%s.%ld-%d.new", buf_text(&d->path), (long)getpid(), i);
        const char *beside = buf_text(&d->beside);
        if (d->beside.failed || d->path.failed) {
            errno = ENOMEM;
        } else if (d->fd >= 0) {
            named = linkat(AT_FDCWD, unnamed, AT_FDCWD, beside, AT_SYMLINK_FOLLOW) == 0;
        } else {
            d->fd = open(beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
            named = d->fd >= 0;
        }
        if (!named && errno != EEXIST)
            break;
    }
    if (!named)
        buf_clear(&d->beside);
    return named;
}

static bool open_draft(Draft *d, mode_t mode)
{
    Buf folder = {0};
    folder_of(d, &folder);
    if (!folder.failed && access("/proc/self/fd", X_OK) == 0)
        d->fd = open(buf_text(&folder), O_WRONLY | O_TMPFILE | O_CLOEXEC, mode);
    else
        errno = folder.failed ? ENOMEM : EOPNOTSUPP;
    int why = errno;
    buf_deinit(&folder);
    errno = why;
    return d->fd >= 0 || ((why == EOPNOTSUPP || why == EISDIR) && name_beside(d, mode));
}

/* Gives the file what the one that it replaces has. */
static bool take_rights(const Draft *d)
{
    struct stat old, now;
    if (stat(buf_text(&d->path), &old) != 0)
        return errno == ENOENT;
    if (fstat(d->fd, &now) != 0)
        return false;
    bool same = old.st_uid == now.st_uid && old.st_gid == now.st_gid;
    return (same || fchown(d->fd, old.st_uid, old.st_gid) == 0) &&
           fchmod(d->fd, old.st_mode & 07777) == 0;
}

static bool let_run(int fd)
{
    struct stat st;
    return fstat(fd, &st) == 0 && fchmod(fd, (st.st_mode & 07777) | (st.st_mode & 0444) >> 2) == 0;
}

/* The new name is kept when the machine stops now; a file system that cannot say so has done what it can. */
static void keep_name(const Draft *d)
{
    Buf folder = {0};
    folder_of(d, &folder);
    int fd = folder.failed ? -1 : open(buf_text(&folder), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    buf_deinit(&folder);
    if (fd < 0)
        return;
    fsync(fd);
    close(fd);
}

/* Puts it in place when it is `good`, else nothing is left of it; closes it. */
static bool end_draft(Draft *d, bool good, FilePrivacy privacy)
{
    good = good && take_rights(d) && (privacy != FILE_PROGRAM || let_run(d->fd)) &&
           fsync(d->fd) == 0 && (d->beside.n > 0 || name_beside(d, 0));
    int why = errno;
    if (close(d->fd) != 0 && good) {
        why = errno;
        good = false;
    }
    if (good && rename(buf_text(&d->beside), buf_text(&d->path)) != 0) {
        why = errno;
        good = false;
    }
    if (good)
        keep_name(d);
    else if (d->beside.n > 0)
        unlink(buf_text(&d->beside));
    errno = why;
    return good;
}

/* A pipe that nobody reads yet is waited for. */
static int open_to_write(const char *path, Limits *limits)
{
    struct stat st;
    bool pipe = limits && stat(path, &st) == 0 && S_ISFIFO(st.st_mode);
    int fd;
    while ((fd = open(path, O_WRONLY | O_CLOEXEC | (pipe ? O_NONBLOCK : 0))) < 0 && pipe &&
           errno == ENXIO) {
        if (limit_hit(limits)) {
            errno = ECANCELED;
            return -1;
        }
        poll(NULL, 0, ASK_MILLISECONDS);
    }
    return fd;
}

static bool write_pieces(int fd, Limits *limits, const FilePiece *pieces, size_t n)
{
    int why = 0;
    for (size_t i = 0; i < n && !why; i++)
        why = write_all(fd, pieces[i].bytes, pieces[i].n, limits);
    errno = why;
    return !why;
}

/* A device, or a pipe. */
static bool write_through(const char *path, Limits *limits, const FilePiece *pieces, size_t n)
{
    int fd = open_to_write(path, limits);
    if (fd < 0)
        return false;
    bool good = write_pieces(fd, limits, pieces, n);
    int why = errno;
    if (close(fd) != 0 && good)
        return false;
    errno = why;
    return good;
}

/* What may not be written is not replaced either. What takes another's place is nobody's business before. */
bool file_store_pieces(const char *path, Limits *limits, const FilePiece *pieces, size_t n,
                       FilePrivacy privacy)
{
    struct stat old;
    bool exists = stat(path, &old) == 0;
    if (exists && !S_ISREG(old.st_mode))
        return write_through(path, limits, pieces, n);
    if (exists && access(path, W_OK) != 0)
        return false;
    mode_t mode = exists || privacy == FILE_OURS ? 0600 : privacy == FILE_PROGRAM ? 0777 : 0666;
    Draft d = {.fd = -1};
    bool good = resolve(&d, path) && open_draft(&d, mode) &&
                end_draft(&d, write_pieces(d.fd, limits, pieces, n), privacy);
    int why = errno;
    buf_deinit(&d.path);
    buf_deinit(&d.beside);
    errno = why;
    return good;
}

bool file_store(const char *path, const void *bytes, size_t n, FilePrivacy privacy)
{
    return file_store_pieces(path, NULL, &(FilePiece){bytes, n}, 1, privacy);
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
