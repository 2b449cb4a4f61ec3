#include "repl/history.h"

#include "base/memory.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    FILE_MOST = 4 << 20,    /* bytes; a larger file is cut to its newer half */
};

struct LineHistory {
    char *path;             /* NULL: in memory alone */
    char **entries;
    size_t n, cap;
    bool loaded;            /* what the file had stands in front of what was added since */
};

/* ---- entries ------------------------------------------------------------------------------- */

static bool push(LineHistory *h, const char *text, size_t n)
{
    if (h->n == h->cap) {
        size_t cap = h->cap ? h->cap * 2 : 64;
        char **grown = memory_resize(h->entries, cap * sizeof *grown);
        if (!grown)
            return false;
        h->entries = grown;
        h->cap = cap;
    }
    char *copy = memory_alloc(n + 1);
    if (!copy)
        return false;
    memcpy(copy, text, n);
    copy[n] = '\0';
    h->entries[h->n++] = copy;
    return true;
}

static void encode(Buf *b, const char *text, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (text[i] == '\n')
            buf_str(b, "\\n");
        else if (text[i] == '\\')
            buf_str(b, "\\\\");
        else
            buf_char(b, text[i]);
    }
    buf_char(b, '\n');
}

static void decode(Buf *b, const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (line[i] != '\\' || i + 1 == n)
            buf_char(b, line[i]);
        else
            buf_char(b, line[++i] == 'n' ? '\n' : line[i]);
    }
}

/* ---- the file ------------------------------------------------------------------------------ */

static char *default_path(void)
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    Buf b = {0};
    if (state && *state == '/')
        buf_printf(&b, "%s/relay/history", state);
    else if (home && *home)
        buf_printf(&b, "%s/.local/state/relay/history", home);
    return b.n ? buf_take(&b) : NULL;
}

/* Makes the folders above the file, for this person alone. */
static void make_folders(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(path, 0700);
        *p = '/';
    }
}

static int open_file(const char *path, int flags)
{
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0600);
    while (fd < 0 && errno == EINTR);
    return fd;
}

static bool lock_file(int fd)
{
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int rc;
    do
        rc = fcntl(fd, F_SETLKW, &lock);
    while (rc < 0 && errno == EINTR);
    return rc == 0;
}

/* Opens and locks the file that the path names now: another program may have put a shorter one in
 * its place while we waited. The lock ends with the descriptor. */
static int open_locked(char *path)
{
    for (int tries = 0; tries < 8; tries++) {
        int fd = open_file(path, O_RDWR | O_APPEND | O_CREAT);
        if (fd < 0 && errno == ENOENT) {
            make_folders(path);
            fd = open_file(path, O_RDWR | O_APPEND | O_CREAT);
        }
        if (fd < 0)
            return -1;
        struct stat ours, there;
        if (lock_file(fd) && fstat(fd, &ours) == 0 && stat(path, &there) == 0 &&
            ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
            return fd;
        close(fd);
    }
    return -1;
}

/* Puts the newer half in place of the file, whole or not at all. The caller holds the lock. */
static void shorten(const LineHistory *h, const char *text, size_t n)
{
    const char *from = memchr(text + n / 2, '\n', n - n / 2);
    if (!from)
        return;
    from++;
    file_store(h->path, from, n - (size_t)(from - text), FILE_OURS);
}

static void load_lines(LineHistory *h, const char *text, size_t n)
{
    Buf entry = {0};
    for (const char *p = text, *all = text + n; p < all;) {
        const char *end = memchr(p, '\n', (size_t)(all - p));
        if (!end)
            end = all;
        buf_clear(&entry);
        decode(&entry, p, (size_t)(end - p));
        if (entry.n > 0)
            push(h, buf_text(&entry), entry.n);
        p = end + 1;
    }
    buf_deinit(&entry);
}

static void load(LineHistory *h)
{
    if (h->loaded)
        return;
    h->loaded = true;
    if (!h->path)
        return;
    int fd = open_file(h->path, O_RDONLY);
    if (fd < 0)
        return;
    Buf text = {0};
    fd_read(fd, &text);
    close(fd);
    if (text.n > FILE_MOST && (fd = open_locked(h->path)) >= 0) {
        buf_clear(&text);
        fd_read(fd, &text);
        shorten(h, buf_text(&text), text.n);
        close(fd);
    }
    load_lines(h, buf_text(&text), text.n);
    buf_deinit(&text);
}

/* A program that was killed while it wrote has left a line without an end. */
static bool ends_in_line(int fd)
{
    char last;
    off_t size = lseek(fd, 0, SEEK_END);
    return size <= 0 || (pread(fd, &last, 1, size - 1) == 1 && last == '\n');
}

static void append(LineHistory *h, const char *text, size_t n)
{
    int fd = open_locked(h->path);
    if (fd < 0)
        return;
    Buf line = {0};
    if (!ends_in_line(fd))
        buf_char(&line, '\n');
    encode(&line, text, n);
    if (!line.failed)
        fd_write(fd, buf_text(&line), line.n);
    buf_deinit(&line);
    close(fd);
}

/* ---- interface ----------------------------------------------------------------------------- */

LineHistory *line_history_new(const char *path)
{
    LineHistory *h = memory_zeroed(1, sizeof *h);
    if (!h)
        return NULL;
    if (!path)
        h->path = default_path();
    else if (*path)
        h->path = memory_text(path, strlen(path));
    return h;
}

void line_history_free(LineHistory *h)
{
    if (!h)
        return;
    for (size_t i = 0; i < h->n; i++)
        free(h->entries[i]);
    free(h->entries);
    free(h->path);
    free(h);
}

void line_history_add(LineHistory *h, const char *text, size_t n)
{
    load(h);
    if (n == 0)
        return;
    if (h->n > 0 && strlen(h->entries[h->n - 1]) == n && memcmp(h->entries[h->n - 1], text, n) == 0)
        return;
    if (push(h, text, n) && h->path)
        append(h, text, n);
}

size_t line_history_count(LineHistory *h)
{
    load(h);
    return h->n;
}

const char *line_history_entry(LineHistory *h, size_t i)
{
    return h->entries[i];
}

static size_t last_occurrence(const char *in, const char *text, bool *found)
{
    size_t at = 0;
    *found = false;
    for (const char *p = in; (p = strstr(p, text)) != NULL; p++) {
        at = (size_t)(p - in);
        *found = true;
        if (!*p)
            break;
    }
    return at;
}

size_t line_history_search(LineHistory *h, size_t from, int step, const char *text, size_t *at)
{
    load(h);
    bool found;
    for (size_t i = from + (size_t)step; i < h->n; i += (size_t)step) {
        size_t place = last_occurrence(h->entries[i], text, &found);
        if (found) {
            *at = place;
            return i;
        }
    }
    return h->n;
}

size_t line_history_match(LineHistory *h, size_t from, int step, const char *text, size_t n)
{
    load(h);
    for (size_t i = from + (size_t)step; i < h->n; i += (size_t)step)
        if (strncmp(h->entries[i], text, n) == 0)
            return i;
    return h->n;
}
