#include "session/views/dot.h"

#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Large graphs take long; somebody waits. */
#define LAYOUT_SECONDS 20.0

/* The child reads a file rather than a pipe: so neither waits for the other. */
static pid_t start(FILE *in, int out)
{
    char name[] = "dot", plain[] = "-Tplain", *const args[] = {name, plain, NULL};
    posix_spawn_file_actions_t to;
    pid_t child = -1;
    if (posix_spawn_file_actions_init(&to))
        return -1;
    bool ok = !posix_spawn_file_actions_adddup2(&to, fileno(in), STDIN_FILENO) &&
              !posix_spawn_file_actions_adddup2(&to, out, STDOUT_FILENO) &&
              !posix_spawn_file_actions_addopen(&to, STDERR_FILENO, "/dev/null", 1, 0);
    if (ok && posix_spawnp(&child, name, &to, NULL, args, environ))
        child = -1;
    posix_spawn_file_actions_destroy(&to);
    return child;
}

static bool read_all(Limits *limits, int from, Buf *out)
{
    char block[4096];
    double end = clock_seconds() + LAYOUT_SECONDS;
    struct pollfd ready = {.fd = from, .events = POLLIN};
    while (!limit_hit(limits) && clock_seconds() < end) {
        if (poll(&ready, 1, 50) <= 0)
            continue;
        ssize_t n = read(from, block, sizeof block);
        if (n <= 0)
            return n == 0 && !out->failed;
        buf_bytes(out, block, (size_t)n);
    }
    return false;
}

static bool run(Limits *limits, FILE *in, Buf *out)
{
    int ends[2], status = -1;
    if (pipe(ends))
        return false;
    pid_t child = start(in, ends[1]);
    close(ends[1]);
    bool ok = child > 0 && read_all(limits, ends[0], out);
    close(ends[0]);
    if (child > 0 && !ok)
        kill(child, SIGKILL);
    return child > 0 && waitpid(child, &status, 0) == child && ok && WIFEXITED(status) &&
           WEXITSTATUS(status) == 0;
}

bool dot_layout(Limits *limits, const Buf *graph, Buf *out)
{
    FILE *in = tmpfile();
    bool ok = in && fwrite(buf_text(graph), 1, graph->n, in) == graph->n && fflush(in) == 0 &&
              fseek(in, 0, SEEK_SET) == 0 && run(limits, in, out);
    if (in)
        fclose(in);
    return ok;
}
