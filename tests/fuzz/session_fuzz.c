/* Sessions: cells between empty lines, their commands, and what an editor asks while somebody types them. Whatever is entered, the session
 * answers, says of each cell that fails why, and answers the next one. */
#include "include/relay.h"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { CELLS_MOST = 12 };

static int here, room; /* where the fuzzer works, and the folder in which the cells may write */

/* ---- who types may take the limit of time away, and begin what never ends */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static RelaySession *running;

static void run(RelaySession *s)
{
    pthread_mutex_lock(&lock);
    running = s;
    pthread_mutex_unlock(&lock);
}

static void *interrupt_now_and_then(void *data)
{
    (void)data;
    for (;;) {
        sleep(5);
        pthread_mutex_lock(&lock);
        if (running)
            relay_session_interrupt(running);
        pthread_mutex_unlock(&lock);
    }
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    char path[] = "/dev/shm/relay_fuzz_XXXXXX";
    (void)argc;
    (void)argv;
    if (!mkdtemp(path) || (here = open(".", O_RDONLY)) < 0 || (room = open(path, O_RDONLY)) < 0)
        abort();
    const char *const homes[] = {"HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME",
                                 "XDG_CACHE_HOME"};
    for (size_t i = 0; i < sizeof homes / sizeof *homes; i++)
        setenv(homes[i], path, 1);
    setenv("PATH", "", 1); /* no other program is started */
    pthread_t thread;
    if (pthread_create(&thread, NULL, interrupt_now_and_then, NULL) != 0)
        abort();
    return 0;
}

static void empty_room(void)
{
    int copy = dup(room);
    DIR *folder = copy < 0 ? NULL : fdopendir(copy);
    if (!folder)
        abort();
    rewinddir(folder);
    for (const struct dirent *e; (e = readdir(folder));)
        if (e->d_type == DT_REG)
            unlinkat(room, e->d_name, 0);
    closedir(folder);
}

/* A command that names a file elsewhere. */
static bool leaves_the_room(const char *text, size_t len)
{
    bool command = false;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\n')
            command = false;
        command |= text[i] == ':' && (i == 0 || text[i - 1] == '\n' || text[i - 1] == ' ');
        if (command && (text[i] == '/' || text[i] == '~'))
            return true;
    }
    return false;
}

/* ---- what comes back */

static void take(void *data, const RelayOutput *out)
{
    size_t *errors = data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR)
        ++*errors;
    for (size_t i = 0; i < out->n_mimes; i++)
        if (strlen(out->mimes[i].data) > out->mimes[i].size)
            abort();
}

static void take_token(void *data, const RelayToken *t)
{
    size_t *end = data;
    if (t->from < *end || t->to < t->from)
        abort();
    *end = t->to;
}

/* ---- what is asked */

static void ask_while_typing(RelaySession *s, const char *text, size_t len, size_t cursor)
{
    size_t errors = 0, end = 0;
    RelaySink sink = {take, &errors};
    int indent;
    relay_highlight(NULL, text, len, take_token, &end);
    if (end > len)
        abort();
    relay_session_is_complete(s, text, len, &indent);
    RelayCompletions *found = relay_session_complete(s, text, len, cursor);
    if (found && (found->from > found->to || found->to > len))
        abort();
    relay_completions_free(found);
    relay_session_inspect(s, text, len, cursor, 1, sink);
}

static void ask_of_document(RelaySession *s, const char *text, size_t len, size_t cursor)
{
    size_t n, errors = 0;
    RelayDocument *d = relay_document_new(s, "fuzz.rly");
    if (d && relay_document_set(d, text, len)) {
        const RelayFinding *findings = relay_document_findings(d, &n);
        for (size_t i = 0; i < n; i++)
            if (findings[i].range.from > findings[i].range.to || findings[i].range.to > len)
                abort();
        RelaySymbol *symbols = relay_document_symbols(d, &n);
        relay_symbols_free(symbols, n);
        relay_uses_free(relay_document_uses(d, cursor));
        RelayRange range;
        relay_document_inspect(d, cursor, &range, (RelaySink){take, &errors});
        relay_completions_free(relay_document_complete(d, cursor));
    }
    relay_document_free(d);
    free(relay_layout(text, len, &n));
}

static void enter(RelaySession *s, const char *text, size_t len, uint32_t number)
{
    size_t errors = 0;
    RelayCell cell = {.text = text, .len = len, .name = "fuzz", .number = number};
    RelayStatus status = relay_session_eval(s, &cell, (RelaySink){take, &errors});
    if (status == RELAY_BUG || (status != RELAY_OK && errors == 0))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    if (!text)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    RelayOptions options = {.engine = "interp",
                            .threads = 1,
                            .memory_limit = 256 << 20,
                            .time_limit = 0.5,
                            .depth_limit = 2000};
    options.no_prelude = size % 2; /* half of them are read in no time */
    RelaySession *s = leaves_the_room(text, size) ? NULL : relay_session_new(&options);
    size_t from = 0;
    run(s);
    if (s && fchdir(room) == 0) {
        for (uint32_t number = 1; from < size && number <= CELLS_MOST; number++) {
            const char *gap = strstr(text + from, "\n\n");
            size_t len = gap ? (size_t)(gap - text) - from : size - from;
            size_t cursor = len ? (len * 31 + size) % (len + 1) : 0;
            ask_while_typing(s, text + from, len, cursor);
            enter(s, text + from, len, number);
            from += len + 2;
        }
        ask_of_document(s, text, size, size / 2);
        enter(s, "add(1, 2)", 9, 99); /* it lives */
        empty_room();
        if (fchdir(here) != 0)
            abort();
    }
    run(NULL);
    relay_session_free(s);
    free(text);
    return 0;
}
