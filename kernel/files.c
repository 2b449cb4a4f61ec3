#define _GNU_SOURCE 1
#include "kernel/files.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

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
