#define _GNU_SOURCE 1
#include "base/history_log.h"

#include "base/buf.h"
#include "base/file.h"
#include "base/memory.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

/* Before the texts of an entry. */
typedef struct Head {
    int64_t session, line;
    uint32_t input, output; /* bytes */
} Head;

/* The files are the database's name, this, and what makes them different. */
#define MARK "-waiting-"

static bool open_log(HistoryLog *log, const char *database)
{
    Buf path = {0};
    buf_printf(&path, "%s" MARK "XXXXXX", database);
    char *name = buf_take(&path);
    log->fd =
        name && file_make_folders(name, FILE_OURS) ? mkostemp(name, O_APPEND | O_CLOEXEC) : -1;
    if (log->fd >= 0 && flock(log->fd, LOCK_EX | LOCK_NB) == 0) {
        log->path = name;
        return true;
    }
    if (log->fd >= 0) {
        unlink(name);
        close(log->fd);
    }
    free(name);
    return false;
}

void history_log_add(HistoryLog *log, const char *database, HistoryEntry e)
{
    if (e.input.len > INT32_MAX || e.output.len > INT32_MAX ||
        (!log->path && !open_log(log, database)))
        return;
    Head head = {e.session, e.line, (uint32_t)e.input.len, (uint32_t)e.output.len};
    struct iovec parts[] = {
        {&head, sizeof head},
        {(void *)(uintptr_t)e.input.ptr, e.input.len},
        {(void *)(uintptr_t)e.output.ptr, e.output.len},
    };
    /* A part of one, where the disk is full, is passed over by who reads it. */
    log->used |= writev(log->fd, parts, 3) > 0;
}

void history_log_clear(HistoryLog *log)
{
    if (log->used && ftruncate(log->fd, 0) == 0)
        log->used = false;
}

void history_log_end(HistoryLog *log)
{
    if (!log->path)
        return;
    unlink(log->path);
    close(log->fd);
    free(log->path);
    log->path = NULL;
}

/* ---- what the dead have left --------------------------------------------------------------------------------------- */

/* False where one was not taken. */
static bool take_entries(const Buf *text, int64_t (*take)(void *data, HistoryEntry entry),
                         void *data)
{
    int64_t unnumbered = 0;
    Head head;
    for (size_t at = 0; text->n - at >= sizeof head;) {
        memcpy(&head, text->at + at, sizeof head);
        at += sizeof head;
        if (head.input > text->n - at || head.output > text->n - at - head.input)
            return true;
        HistoryEntry e = {head.session ? head.session : unnumbered,
                          head.line,
                          {text->at + at, head.input},
                          {text->at + at + head.input, head.output}};
        int64_t session = take(data, e);
        if (!session)
            return false;
        unnumbered = head.session ? unnumbered : session;
        at += (size_t)head.input + head.output;
    }
    return true;
}

/* Its process may live: then it has the lock. */
static void take_log(const char *path, int64_t (*take)(void *data, HistoryEntry entry), void *data)
{
    Buf text = {0};
    struct stat about;
    int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    bool ours = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) &&
                about.st_uid == geteuid() && flock(fd, LOCK_EX | LOCK_NB) == 0;
    if (ours && fd_read(fd, &text) && take_entries(&text, take, data))
        unlink(path);
    buf_deinit(&text);
    if (fd >= 0)
        close(fd);
}

void history_logs_take(const char *database, int64_t (*take)(void *data, HistoryEntry entry),
                       void *data)
{
    const char *slash = strrchr(database, '/'), *name = slash ? slash + 1 : database;
    Buf path = {0};
    buf_bytes(&path, database, (size_t)(name - database));
    size_t folder = path.n;
    DIR *files = opendir(folder ? buf_text(&path) : ".");
    for (struct dirent *file; files && (file = readdir(files));)
        if (!strncmp(file->d_name, name, strlen(name)) &&
            !strncmp(file->d_name + strlen(name), MARK, sizeof MARK - 1)) {
            path.n = folder;
            buf_str(&path, file->d_name);
            if (!path.failed)
                take_log(buf_text(&path), take, data);
        }
    if (files)
        closedir(files);
    buf_deinit(&path);
}
