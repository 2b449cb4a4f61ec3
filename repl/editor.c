#include "repl/editor.h"

#include "base/file.h"

#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool run_on(const char *path)
{
    char *args[] = {
        "sh", "-c", "exec ${VISUAL:-${EDITOR:-vi}} \"$1\"", "sh", (char *)(uintptr_t)path, NULL};
    pid_t pid;
    int status = 1;
    if (posix_spawn(&pid, "/bin/sh", NULL, NULL, args, environ) != 0)
        return false;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool editor_run(Buf *text)
{
    Buf path = {0}, now = {0};
    buf_printf(&path, "%s/relay-%ld.rly", file_temporary_folder(), (long)getpid());
    bool made = !path.failed && access(buf_text(&path), F_OK) != 0 &&
                file_store(buf_text(&path), buf_text(text), text->n, FILE_OURS);
    bool ok =
        made && run_on(buf_text(&path)) && file_load(buf_text(&path), NULL, &now) && !now.failed;
    if (made)
        unlink(buf_text(&path));
    if (ok) {
        while (now.n > 0 && now.at[now.n - 1] == '\n')
            buf_cut(&now, now.n - 1);
        buf_deinit(text);
        *text = now;
    } else {
        buf_deinit(&now);
    }
    buf_deinit(&path);
    return ok;
}
