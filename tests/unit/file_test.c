/* Files are put in place whole or not at all, stay whose they were, and nothing is left beside them. */
#define _GNU_SOURCE 1
#include "base/file.h"
#include "check.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/relay-file-XXXXXX";
static char path[160];

static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static bool holds(const char *name, const char *text)
{
    Buf b = {0};
    bool same = file_load(at(name), NULL, &b) && strcmp(buf_text(&b), text) == 0;
    buf_deinit(&b);
    return same;
}

static int files(void)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (readdir(d))
        n++;
    closedir(d);
    return n - 2;
}

static struct stat status_of(const char *name)
{
    struct stat st = {0};
    CHECK(lstat(at(name), &st) == 0);
    return st;
}

static void test_rights(void)
{
    mode_t mask = umask(022);
    CHECK(file_store(at("new"), "1", 1, FILE_EVERYBODYS));
    CHECK((status_of("new").st_mode & 0777) == 0644);
    CHECK(file_store(at("ours"), "1", 1, FILE_OURS) && (status_of("ours").st_mode & 0777) == 0600);
    umask(mask);
    CHECK(chmod(at("ours"), 0640) == 0 && file_store(path, "2", 1, FILE_EVERYBODYS));
    CHECK((status_of("ours").st_mode & 0777) == 0640 && holds("ours", "2"));
    /* Only the superuser can give a file away. */
    if (geteuid() == 0) {
        CHECK(chown(at("ours"), 12, 34) == 0 && file_store(path, "3", 1, FILE_OURS));
        struct stat st = status_of("ours");
        CHECK(st.st_uid == 12 && st.st_gid == 34 && (st.st_mode & 0777) == 0640);
    }
    CHECK(files() == 2);
}

static void test_links(void)
{
    char to[sizeof path];
    snprintf(to, sizeof to, "%s", at("new"));
    CHECK(symlink(to, at("link")) == 0 && file_store(path, "through", 7, FILE_OURS));
    CHECK(S_ISLNK(status_of("link").st_mode) && holds("new", "through"));
    CHECK(unlink(at("link")) == 0);
    CHECK(file_store("/dev/null", "x", 1, FILE_OURS));
    CHECK(!file_store(folder, "x", 1, FILE_OURS) && errno == EISDIR);
    CHECK(!file_store(at("no/such"), "x", 1, FILE_OURS) && errno == ENOENT);
}

/* Who is killed while he writes leaves what was there, and nothing beside it: here the system does it when a file becomes too long. Where
 * files have names from the beginning it cannot be so. */
static void test_killed(void)
{
    int unnamed = open(folder, O_WRONLY | O_TMPFILE, 0600);
    if (unnamed < 0)
        return;
    close(unnamed);
    static char much[1 << 16];
    pid_t child = fork();
    if (child == 0) {
        const struct rlimit none = {0, 0}, little = {sizeof much / 2, sizeof much / 2};
        setrlimit(RLIMIT_CORE, &none);
        setrlimit(RLIMIT_FSIZE, &little);
        const FilePiece pieces[2] = {{much, sizeof much / 2}, {much, sizeof much}};
        file_store_pieces(at("new"), NULL, pieces, 2, FILE_OURS);
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
    CHECK(files() == 2 && holds("new", "through"));
}

/* Who was killed between giving a file its name and moving it left one beside, maybe with the same number of a process. */
static void test_name_taken(void)
{
    char names[2][48];
    for (int i = 0; i < 2; i++) {
        snprintf(names[i], sizeof names[i], "new.%ld-%d.new", (long)getpid(), i);
        CHECK(file_store(at(names[i]), "left", 4, FILE_OURS));
    }
    CHECK(file_store(at("new"), "past them", 9, FILE_OURS) && holds("new", "past them"));
    CHECK(files() == 4);
    for (int i = 0; i < 2; i++)
        CHECK(holds(names[i], "left") && unlink(at(names[i])) == 0);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    test_rights();
    test_links();
    test_killed();
    test_name_taken();
    unlink(at("new"));
    unlink(at("ours"));
    CHECK(rmdir(folder) == 0);
    return check_done();
}
