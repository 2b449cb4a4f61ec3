/* The machine code of a GPU's kernels, by NVIDIA's own tools: `ptxas` assembles the text and `nvdisasm` takes it apart again. Both come
 * with the CUDA toolkit, which nothing else needs. */
#include "base/file.h"
#include "base/memory.h"
#include "session/sass.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* Where toolkits are that no variable names. */
#define TOOLKIT "/usr/local/cuda/bin"

bool sass_tool(const char *name, Buf *out)
{
    const char *path = getenv("PATH"), *home = getenv("CUDA_HOME");
    Buf all = {0};
    buf_printf(&all, "%s:", path ? path : "");
    if (home)
        buf_printf(&all, "%s/bin:", home);
    buf_printf(&all, "%s:", TOOLKIT);
    bool found = false;
    for (const char *at = buf_text(&all); *at && !found; at += strcspn(at, ":") + 1) {
        size_t n = strcspn(at, ":");
        buf_clear(out);
        buf_printf(out, "%.*s/%s", (int)n, at, name);
        found = n > 0 && access(buf_text(out), X_OK) == 0;
    }
    buf_deinit(&all);
    return found;
}

/* Looks after the child until it has ended, or the limits end it. */
static bool wait_for(RelaySession *s, pid_t child)
{
    int status = 0;
    struct timespec pause = {.tv_nsec = 2000000};
    while (waitpid(child, &status, WNOHANG) == 0) {
        if (limit_hit(&s->cx.limits)) {
            kill(child, SIGKILL);
            waitpid(child, &status, 0);
            return false;
        }
        nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Runs the program with what it prints and complains of going to the file. */
static bool run_tool(RelaySession *s, char *const *argv, const char *out)
{
    posix_spawn_file_actions_t files;
    pid_t child;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, out, O_WRONLY | O_CREAT | O_EXCL, 0600);
    posix_spawn_file_actions_adddup2(&files, 1, 2);
    int error = posix_spawn(&child, argv[0], &files, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&files);
    return error == 0 && wait_for(s, child);
}

typedef struct Folder {
    Buf path, text, code, said, shown; /* the folder, and files in it */
} Folder;

static bool folder_begin(Folder *f)
{
    *f = (Folder){0};
    buf_printf(&f->path, "%s/relay-XXXXXX", file_temporary_folder());
    const char *path = f->path.failed ? NULL : mkdtemp(f->path.at);
    if (!path) {
        buf_deinit(&f->path);
        return false;
    }
    buf_printf(&f->text, "%s/kernels.ptx", path);
    buf_printf(&f->code, "%s/kernels.cubin", path);
    buf_printf(&f->said, "%s/said", path);
    buf_printf(&f->shown, "%s/shown", path);
    return true;
}

static void folder_end(Folder *f)
{
    Buf *const files[] = {&f->text, &f->code, &f->said, &f->shown};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        unlink(buf_text(files[i]));
        buf_deinit(files[i]);
    }
    rmdir(buf_text(&f->path));
    buf_deinit(&f->path);
}

/* The line `.target sm_90a` of the text, as an option of the assembler. */
static void target_option(const Buf *text, Buf *out)
{
    static const char word[] = "\n.target ";
    const char *at = strstr(buf_text(text), word);
    at = at ? at + sizeof word - 1 : "";
    buf_printf(out, "-arch=%.*s", (int)strcspn(at, ", \n"), at);
}

static bool make_sass(RelaySession *s, Folder *f, const Buf *text, char *assembler, char *reader)
{
    Buf arch = {0};
    target_option(text, &arch);
    char *assemble[] = {assembler,
                        (char *)(uintptr_t)buf_text(&arch),
                        "-o",
                        (char *)(uintptr_t)buf_text(&f->code),
                        (char *)(uintptr_t)buf_text(&f->text),
                        NULL};
    char *read[] = {reader, "-c", (char *)(uintptr_t)buf_text(&f->code), NULL};
    bool ok = run_tool(s, assemble, buf_text(&f->said)) && run_tool(s, read, buf_text(&f->shown));
    buf_deinit(&arch);
    return ok;
}

bool sass_of(RelaySession *s, Buf *text)
{
    Buf assembler = {0}, reader = {0}, shown = {0};
    Folder f;
    bool ok = false;
    const char *missing = !sass_tool("ptxas", &assembler)   ? "ptxas"
                          : !sass_tool("nvdisasm", &reader) ? "nvdisasm"
                                                            : NULL;
    if (missing) {
        Diag *d = diag_error(
            s->cx.diags, E0404_LIBRARY, (Span){0},
            "a GPU's machine code is shown by NVIDIA's tools, and there is no `%s`", missing);
        diag_help(d, "they come with the CUDA toolkit; `:show ptx` needs none of them");
    } else if (!folder_begin(&f)) {
        diag_error(s->cx.diags, E0401_FILE, (Span){0}, "no folder can be made in /tmp: %s",
                   strerror(errno));
    } else {
        bool written = file_store(buf_text(&f.text), buf_text(text), text->n, FILE_OURS);
        ok = written && make_sass(s, &f, text, (char *)(uintptr_t)buf_text(&assembler),
                                  (char *)(uintptr_t)buf_text(&reader));
        file_load(buf_text(ok ? &f.shown : &f.said), NULL, &shown);
        if (!ok && session_status(s) == RELAY_OK)
            diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "NVIDIA's tools refused: %.400s",
                       buf_text(&shown));
        folder_end(&f);
    }
    text->n = 0;
    buf_bytes(text, buf_text(&shown), shown.n);
    buf_deinit(&assembler);
    buf_deinit(&reader);
    buf_deinit(&shown);
    return ok;
}
