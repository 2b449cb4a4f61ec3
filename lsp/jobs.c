/* Programs that a lens over a text runs: this one, on the file, in a process of its own, so that the editor is served meanwhile. */
#include "lsp/internal.h"

#include "base/file.h"
#include "base/memory.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef enum LensPlace { LENS_FUNCTION, LENS_MAIN, LENS_SCRIPT } LensPlace;

/* What a lens is called, and what it runs; FILE and NAME stand for those it is about. */
static const struct Lens {
    const char *command, *title;
    LensPlace place;
    const char *args[10];
} lenses[] = {
    {"relay.run",
     "run",
     LENS_FUNCTION,
     {"run", "--random", "1", "--time-limit", "60", "--entry", "NAME", "FILE"}},
    {"relay.time", "time", LENS_MAIN, {"bench", "--random", "1", "--time-limit", "60", "FILE"}},
    {"relay.optimised", "show optimised", LENS_MAIN, {"opt", "--time-limit", "60", "FILE"}},
    {"relay.script", "run", LENS_SCRIPT, {"--time-limit", "60", "FILE"}},
};

enum { N_LENSES = sizeof lenses / sizeof *lenses, JOBS_AT_ONCE = 4, OUTPUT_MOST = 1 << 20 };

struct Job {
    Job *next;
    json_t *id;
    pid_t pid;
    int out;
    Buf text;
};

json_t *job_commands(void)
{
    json_t *list = json_array();
    for (size_t i = 0; i < N_LENSES; i++)
        json_array_append_new(list, json_string(lenses[i].command));
    return list;
}

/* ---- lenses ---------------------------------------------------------------------------------------------------------- */

static json_t *lens(Server *s, Open *o, size_t which, const char *name, RelayRange at)
{
    return json_pack("{s:o, s:{s:s, s:s, s:[s, s]}}", "range", range_json(o, at, s->utf8),
                     "command", "title", lenses[which].title, "command", lenses[which].command,
                     "arguments", o->uri, name);
}

Answer code_lenses(Server *s, const json_t *params)
{
    Open *o = open_of(s, params);
    json_t *list = json_array();
    size_t n = 0;
    if (!o)
        return answer_with(list);
    bool module = relay_document_is_module(o->document);
    RelaySymbol *found = relay_document_symbols(o->document, &n);
    if (!module && n)
        json_array_append_new(list, lens(s, o, N_LENSES - 1, "", (RelayRange){0, 0}));
    for (size_t i = 0; module && i < n; i++) {
        bool global = !strcmp(found[i].kind, "global"), main = !strcmp(found[i].name, "@main");
        for (size_t k = 0; global && k < N_LENSES; k++)
            if (lenses[k].place == LENS_FUNCTION || (lenses[k].place == LENS_MAIN && main))
                json_array_append_new(list, lens(s, o, k, found[i].name, found[i].at));
    }
    relay_symbols_free(found, n);
    return answer_with(list);
}

/* ---- processes ------------------------------------------------------------------------------------------------------- */

static size_t count(const Server *s)
{
    size_t n = 0;
    for (const Job *j = s->jobs; j; j = j->next)
        n++;
    return n;
}

/* What the file holds is what runs. */
static bool is_saved(const Open *o)
{
    Buf file = {0};
    bool same = strcmp(o->path, o->uri) != 0 && file_load(o->path, NULL, &file) &&
                file.n == o->text.n && memcmp(buf_text(&file), buf_text(&o->text), file.n) == 0;
    buf_deinit(&file);
    return same;
}

static bool start(Job *job, const struct Lens *l, const char *file, const char *name)
{
    int ends[2];
    char *args[16] = {(char *)(uintptr_t)"relay"};
    for (size_t i = 0; i < sizeof l->args / sizeof *l->args && l->args[i]; i++) {
        const char *a = l->args[i];
        a = !strcmp(a, "FILE") ? file : !strcmp(a, "NAME") ? name + (name[0] == '@') : a;
        args[i + 1] = (char *)(uintptr_t)a;
    }
    if (pipe(ends) != 0)
        return false;
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", 0, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    bool ok = posix_spawn(&job->pid, "/proc/self/exe", &actions, NULL, args, environ) == 0;
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    job->out = ends[0];
    if (!ok)
        close(ends[0]);
    return ok;
}

Answer execute(Server *s, const json_t *params, const json_t *id)
{
    const char *command = json_string_value(json_object_get(params, "command"));
    const json_t *given = json_object_get(params, "arguments");
    const char *uri = json_string_value(json_array_get(given, 0));
    const char *name = json_string_value(json_array_get(given, 1));
    size_t which = 0;
    while (which < N_LENSES && (!command || strcmp(lenses[which].command, command) != 0))
        which++;
    if (which == N_LENSES || !uri || !name)
        return answer_error(ERROR_PARAMS, "there is no such command");
    const Open *o = s->open;
    while (o && strcmp(o->uri, uri) != 0)
        o = o->next;
    if (!o || !is_saved(o))
        return answer_error(ERROR_FAILED, "save the file first: what it holds is what runs");
    if (count(s) >= JOBS_AT_ONCE)
        return answer_error(ERROR_FAILED, "enough programs are running");
    Job *job = memory_zeroed(1, sizeof *job);
    if (!job || !start(job, &lenses[which], o->path, name)) {
        free(job);
        return answer_error(ERROR_FAILED, "the program cannot be started");
    }
    job->id = json_incref((json_t *)(uintptr_t)id);
    job->next = s->jobs;
    s->jobs = job;
    return (Answer){.later = true};
}

static void job_free(Job *j)
{
    close(j->out);
    json_decref(j->id);
    buf_deinit(&j->text);
    free(j);
}

static void finish(Server *s, Job *j)
{
    int status = 0;
    while (waitpid(j->pid, &status, 0) < 0 && errno == EINTR)
        continue;
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    json_t *text = text_json(buf_text(&j->text), j->text.n);
    server_notify(s, "window/showMessage",
                  json_pack("{s:i, s:O}", "type", code == 0 ? 3 : 1, "message", text));
    server_reply(s, j->id, answer_with(json_pack("{s:i, s:o}", "status", code, "output", text)));
    job_free(j);
}

void jobs_cancel(Server *s, const json_t *id)
{
    for (Job *j = s->jobs; j; j = j->next)
        if (json_equal(j->id, id))
            kill(j->pid, SIGTERM);
}

size_t jobs_poll(const Server *s, PollFd *fds, size_t most)
{
    size_t n = 0;
    for (const Job *j = s->jobs; j && n < most; j = j->next)
        fds[n++] = (PollFd){.fd = j->out, .events = POLLIN};
    return n;
}

/* True at the end of its output. */
static bool read_some(Job *j)
{
    char chunk[4096];
    ssize_t n = read(j->out, chunk, sizeof chunk);
    if (n < 0 && errno == EINTR)
        return false;
    if (n > 0 && j->text.n < OUTPUT_MOST)
        buf_bytes(&j->text, chunk, (size_t)n);
    return n <= 0;
}

void jobs_read(Server *s)
{
    for (Job **at = &s->jobs; *at;) {
        Job *j = *at;
        PollFd fd = {.fd = j->out, .events = POLLIN};
        if (poll(&fd, 1, 0) > 0 && fd.revents && read_some(j)) {
            *at = j->next;
            finish(s, j);
        } else {
            at = &j->next;
        }
    }
}

void jobs_end(Server *s)
{
    while (s->jobs) {
        Job *j = s->jobs;
        s->jobs = j->next;
        kill(j->pid, SIGTERM);
        while (waitpid(j->pid, NULL, 0) < 0 && errno == EINTR)
            continue;
        job_free(j);
    }
}
