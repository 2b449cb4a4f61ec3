#include "jit/cache.h"

#include "base/file.h"
#include "base/memory.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

/* The folder is looked through at the first file that is made, and then whenever this part of what there may be has come. */
#define SWEEP_PART 8
#define NAME_LENGTH 32
/* What a process that ended in the middle has left goes after so many seconds. */
#define DRAFT_AGE 600

void cache_deinit(Cache *c)
{
    buf_deinit(&c->folder);
}

/* ---- the folder ------------------------------------------------------------------------------------------------------------ */

static bool find_folder(Buf *out)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache && *cache == '/')
        buf_printf(out, "%s/relay/code/", cache);
    else if (home && *home == '/')
        buf_printf(out, "%s/.cache/relay/code/", home);
    return out->n > 0 && !out->failed;
}

/* For this person alone, those above it too. */
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

/* Why code from the folder may not be run; NULL: it may. */
static const char *objection(const char *path)
{
    struct stat st;
    if (lstat(path, &st) != 0)
        return "it cannot be made";
    if (!S_ISDIR(st.st_mode))
        return "it is no folder";
    if (st.st_uid != geteuid())
        return "it belongs to somebody else";
    return st.st_mode & 077 ? "others may use it (`chmod 700` would change that)" : NULL;
}

/* How many bytes there may be, 0: nobody says it; false: what the environment says is no number of mebibytes, nor `on`. */
static bool find_most(size_t *out)
{
    const char *said = getenv("RELAY_CACHE");
    uint64_t mebibytes;
    *out = 0;
    if (!said || !*said || !strcmp(said, "on"))
        return true;
    if (!number_parse_uint((Str){said, strlen(said)}, &mebibytes) || mebibytes == 0 ||
        mebibytes > SIZE_MAX >> 20)
        return false;
    *out = (size_t)mebibytes << 20;
    return true;
}

/* How many bytes the disk of the folder has room for. */
static size_t most_on_disk(const char *folder)
{
    struct statvfs disk;
    if (statvfs(folder, &disk) != 0 || disk.f_bavail / CACHE_PART >= CACHE_MOST / disk.f_frsize)
        return CACHE_MOST;
    return (size_t)(disk.f_bavail / CACHE_PART * disk.f_frsize);
}

bool cache_open(Cache *c, Diags *diags)
{
    if (c->off)
        return false;
    if (c->tried)
        return c->folder.n > 0;
    c->tried = true;
    if (!find_most(&c->most)) {
        Diag *d = diag_error(diags, W0702_CACHE, (Span){0},
                             "compiled code is not kept: `RELAY_CACHE=%s` says nothing",
                             getenv("RELAY_CACHE"));
        diag_help(d, "it may be `on`, `off`, or how many mebibytes the files may take, such as "
                     "`RELAY_CACHE=256`");
        return false;
    }
    Buf path = {0};
    const char *why = NULL;
    if (find_folder(&path)) {
        make_folders(path.at);
        path.at[path.n - 1] = '\0';
        why = objection(path.at);
        if (!why)
            buf_printf(&c->folder, "%s/", path.at);
        else if (access(path.at, F_OK) == 0) {
            Diag *d = diag_error(diags, W0702_CACHE, (Span){0},
                                 "compiled code is not kept in %s: %s", path.at, why);
            diag_help(d, "`:set cache off`, `--no-cache` or `RELAY_CACHE=off` leave this out");
        }
    }
    buf_deinit(&path);
    if (c->folder.n > 0 && c->most == 0)
        c->most = most_on_disk(buf_text(&c->folder));
    return c->folder.n > 0;
}

static void path_of(const Cache *c, const uint64_t key[2], Buf *out)
{
    buf_printf(out, "%s%016" PRIx64 "%016" PRIx64, buf_text(&c->folder), key[0], key[1]);
}

/* ---- one file -------------------------------------------------------------------------------------------------------------- */

/* When a file was last used is the time of its last change: that of reading is not kept everywhere. */
static CacheFile *map_file(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022 ||
        st.st_size <= 0)
        return NULL;
    CacheFile *f = memory_alloc(sizeof *f);
    void *at = f ? mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0)
                 : MAP_FAILED;
    if (at == MAP_FAILED) {
        memory_free(f);
        return NULL;
    }
    futimens(fd, NULL);
    *f = (CacheFile){1, false, at, (size_t)st.st_size};
    return f;
}

CacheFile *cache_read(Cache *c, const uint64_t key[2])
{
    Buf path = {0};
    CacheFile *f = NULL;
    path_of(c, key, &path);
    int fd = open(buf_text(&path), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0) {
        f = map_file(fd);
        close(fd);
    }
    buf_deinit(&path);
    return f;
}

CacheFile *cache_lent(Str bytes)
{
    CacheFile *f = memory_must(sizeof *f);
    *f = (CacheFile){1, true, (char *)(uintptr_t)bytes.ptr, bytes.len};
    return f;
}

void cache_release(CacheFile *f)
{
    if (!f || --f->refs > 0)
        return;
    if (!f->lent)
        munmap(f->at, f->n);
    memory_free(f);
}

void cache_remove(Cache *c, const uint64_t key[2])
{
    Buf path = {0};
    path_of(c, key, &path);
    unlink(buf_text(&path));
    buf_deinit(&path);
}

/* ---- the oldest go ---------------------------------------------------------------------------------------------------------- */

typedef struct Entry {
    char name[NAME_LENGTH + 1];
    size_t size;
    struct timespec used;
} Entry;

static int by_use(const void *a, const void *b)
{
    const struct timespec *x = &((const Entry *)a)->used, *y = &((const Entry *)b)->used;
    if (x->tv_sec != y->tv_sec)
        return x->tv_sec < y->tv_sec ? -1 : 1;
    return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static bool is_old(const struct stat *st)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec - st->st_mtim.tv_sec > DRAFT_AGE;
}

static size_t remove_oldest(int folder, Entry *entries, size_t n, size_t total, size_t most)
{
    qsort(entries, n, sizeof *entries, by_use);
    for (size_t i = 0; i < n && total > most; i++)
        if (unlinkat(folder, entries[i].name, 0) == 0)
            total -= entries[i].size;
    return total;
}

/* Leaves the files that were used last, as many as there is room for beside so many bytes. */
static void sweep(Cache *c, size_t more)
{
    DIR *dir = opendir(buf_text(&c->folder));
    Entry *entries = NULL;
    size_t n = 0, cap = 0, total = 0;
    for (struct dirent *e; dir && (e = readdir(dir));) {
        struct stat st;
        size_t len = strlen(e->d_name);
        if (e->d_name[0] == '.' || fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        if (len != NAME_LENGTH) {
            if (is_old(&st))
                unlinkat(dirfd(dir), e->d_name, 0);
            continue;
        }
        if (n == cap) {
            cap = cap ? 2 * cap : 64;
            Entry *grown = memory_resize(entries, cap * sizeof *grown);
            if (!grown)
                break;
            entries = grown;
        }
        entries[n] = (Entry){.size = (size_t)st.st_size, .used = st.st_mtim};
        memcpy(entries[n++].name, e->d_name, len + 1);
        total += (size_t)st.st_size;
    }
    size_t leave = c->most / 4 * 3;
    if (dir && total + more > c->most)
        remove_oldest(dirfd(dir), entries, n, total, leave > more ? leave - more : 0);
    if (dir)
        closedir(dir);
    memory_free(entries);
}

/* It need not reach the disk at once: what is cut short is noticed. */
void cache_write(Cache *c, const uint64_t key[2], size_t n, const Str *pieces)
{
    Buf path = {0}, beside = {0};
    size_t size = 0;
    for (size_t i = 0; i < n; i++)
        size += pieces[i].len;
    if (size > c->most / 2)
        return;
    bool first = atomic_fetch_add(&c->stores, 1) == 0;
    if (atomic_fetch_add(&c->since, size) + size > c->most / SWEEP_PART || first) {
        atomic_store(&c->since, 0);
        sweep(c, size);
    }
    path_of(c, key, &path);
    buf_printf(&beside, "%s.%ld.%u.new", buf_text(&path), (long)getpid(), atomic_load(&c->stores));
    int fd = open(buf_text(&beside), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool ok = fd >= 0;
    for (size_t i = 0; i < n && ok; i++)
        ok = fd_write(fd, pieces[i].ptr, pieces[i].len) == 0;
    if (fd >= 0)
        ok &= close(fd) == 0;
    if (fd >= 0 && (!ok || !file_take_name(buf_text(&beside), buf_text(&path))))
        unlink(buf_text(&beside));
    buf_deinit(&path);
    buf_deinit(&beside);
}
