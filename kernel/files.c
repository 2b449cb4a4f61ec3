#define _GNU_SOURCE 1
#include "kernel/files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool files_make_folders(char *path, FilePrivacy privacy)
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

static bool write_all(int fd, const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return false;
        bytes += done;
        n -= (size_t)done;
    }
    return true;
}

bool files_write(const char *path, const void *bytes, size_t n, FilePrivacy privacy)
{
    int fd =
        open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, privacy == FILE_OURS ? 0600 : 0666);
    if (fd < 0)
        return false;
    bool ok = write_all(fd, bytes, n);
    return close(fd) == 0 && ok;
}
