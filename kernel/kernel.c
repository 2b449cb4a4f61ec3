#define _GNU_SOURCE 1
#include "kernel/kernel_main.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/sandbox.h"

#include "kernel/crash.h"
#include "kernel/handlers.h"
#include "kernel/handshake.h"
#include "kernel/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* How long a cell has to end once the kernel is to end, in tenths of a second. */
enum { PATIENCE = 10 };

/* Who runs a whole notebook sends its cells one after the other. The reply about one that failed
 * leaves when no request came for so long, in milliseconds, or after so many of these. */
enum { QUIET_MS = 50, QUIET_MOST = 20 };

/* When no request has come for so long, the history is written. */
enum { HISTORY_MS = 5 };

/* The evaluator does not nest on the C stack, but LLVM does. */
static const size_t shell_stack = (size_t)16 << 20;

void kernel_log(const Kernel *k, const char *format, ...)
{
    Buf line = {0};
    va_list args;
    va_start(args, format);
    buf_str(&line, "relay kernel: ");
    buf_vprintf(&line, format, args);
    va_end(args);
    buf_char(&line, '\n');
    ssize_t n = write(k->log, buf_text(&line), line.n);
    (void)n;
    buf_deinit(&line);
}

void kernel_interrupt(Kernel *k)
{
    atomic_store(&k->interrupted, true);
    relay_session_interrupt(k->session);
    debug_wake(&k->debugger);
    asking_wake(&k->asking);
}

void kernel_stop(Kernel *k)
{
    if (atomic_exchange(&k->stopping, true))
        return;
    ssize_t n = write(k->stop_write, "", 1);
    (void)n;
    debug_wake(&k->debugger);
    aside_wake(&k->aside);
    pthread_kill(k->supervisor, SIGTERM);
}

/* ---- channels ---- */

static Str parent_of(const Channel *c)
{
    return c->request.header_text;
}

/* What was printed so far goes before what comes next. */
static void settle(Channel *c)
{
    if (c->kind == CHANNEL_SHELL && !c->aside)
        publisher_settle(&c->kernel->publisher);
}

void channel_publish_for(Channel *c, Str parent, const char *type, json_t *content)
{
    publish_begin(&c->out, type);
    message_write(&c->out, &c->kernel->sender, type, parent, NULL, content);
    settle(c);
    publish(&c->kernel->publisher, &c->out);
}

void channel_publish(Channel *c, const char *type, json_t *content)
{
    channel_publish_for(c, parent_of(c), type, content);
}

void channel_stream(Channel *c, const char *name, Str text)
{
    settle(c);
    publish_text(&c->kernel->publisher, name, parent_of(c), text);
}

bool channel_send(Channel *c, Socket *to, const char *type, json_t *metadata, json_t *content)
{
    packet_clear(&c->out);
    for (size_t i = 0; i < c->request.prefix; i++)
        packet_add(&c->out, packet_frame(&c->request.packet, i));
    message_write(&c->out, &c->kernel->sender, type, parent_of(c), metadata, content);
    settle(c);
    return !c->out.overflow && socket_send(to, &c->out);
}

void channel_reply(Channel *c, const char *type, json_t *content)
{
    channel_send(c, c->socket, type, c->metadata, content);
    c->metadata = NULL;
}

static Channel channel_of(Kernel *k, ChannelKind kind, const char *name)
{
    return (Channel){
        .kernel = k, .kind = kind, .name = name, .socket = k->sockets[kind], .session = k->session};
}

static void channel_deinit(Channel *c)
{
    for (Held *h = c->held; h; h = c->held) {
        c->held = h->next;
        packet_deinit(&h->packet);
        free(h);
    }
    message_deinit(&c->request);
    packet_deinit(&c->out);
    buf_deinit(&c->result);
    json_decref(c->metadata);
}

bool channel_hold(Channel *c, Packet *packet, bool abort)
{
    Held *h = memory_zeroed(1, sizeof *h);
    bool any = h && packet;
    if (any) {
        h->packet = *packet;
        *packet = (Packet){0};
    } else if (h) {
        any = socket_receive(c->socket, &h->packet);
    }
    if (!any) {
        if (h)
            packet_deinit(&h->packet);
        free(h);
        return false;
    }
    h->abort = abort;
    if (c->held)
        c->held_last->next = h;
    else
        c->held = h;
    c->held_last = h;
    return true;
}

/* Everything that waits in the socket is held. */
static void hold_waiting(Channel *c, int *room)
{
    while (*room > 0 && channel_hold(c, NULL, true))
        --*room;
}

/* What was sent before the reply left is on its way for a moment yet: most of it arrives while the
 * reply waits, the rest is known by its date. Who interrupts saw the cell run, so all was sent long ago. */
void channel_abort_waiting(Channel *c)
{
    int room = HELD_MOST;
    for (Held *h = c->held; h; h = h->next)
        h->abort = true;
    for (int i = 0; i < QUIET_MOST && !atomic_load(&c->kernel->stopping); i++) {
        hold_waiting(c, &room);
        if (atomic_load(&c->kernel->interrupted))
            break;
        Watch watches[] = {{c->socket, -1, false}, {NULL, c->kernel->stop_read, false}};
        if (!wire_wait(watches, 2, QUIET_MS) || !watches[0].ready)
            break;
    }
    c->failed = message_now();
}

/* A request that is older than this when it arrives was not on its way: its clock was changed, or
 * it has none. */
static const double oldest_request = 2;

void channel_note_date(Channel *c)
{
    const char *client = json_string_value(json_object_get(c->request.header, "session"));
    double lag = message_now() - message_time(c->request.header);
    if (!client || isnan(lag))
        return;
    if (strncmp(client, c->client, sizeof c->client - 1) != 0) {
        snprintf(c->client, sizeof c->client, "%s", client);
        c->lag = lag;
        c->failed = 0;
    }
    c->lag = fmin(c->lag, lag);
}

/* The clock of a client need not agree with ours: the quickest of its requests tells by how much. */
bool channel_sent_before_failure(Channel *c)
{
    double sent = message_time(c->request.header) + c->lag;
    bool before = sent < c->failed && message_now() - sent < oldest_request;
    if (!before)
        c->failed = 0;
    return before;
}

void channel_held_goes_first(Channel *c)
{
    c->held_last->first = true;
}

/* Takes the one that is next out of those that are held; NULL when there is none. */
static Held *next_held(Channel *c)
{
    Held **at = &c->held, *before = NULL;
    for (Held *last = c->held; last && last->next && !(*at)->first; last = last->next)
        if (last->next->first) {
            at = &last->next;
            before = last;
        }
    Held *found = *at;
    if (found == c->held_last)
        c->held_last = before;
    if (found)
        *at = found->next;
    return found;
}

/* Puts the next request into `c->request`; false when none waits. */
static bool next_request(Channel *c)
{
    Held *h = next_held(c);
    c->abort = h && h->abort;
    if (!h)
        return socket_receive(c->socket, &c->request.packet);
    packet_deinit(&c->request.packet);
    c->request.packet = h->packet;
    free(h);
    return true;
}

/* Everything that waits on the channel. */
static void serve_waiting(Channel *c)
{
    while (!atomic_load(&c->kernel->stopping) && c->handed < HELD_MOST && next_request(c)) {
        channel_handle(c);
        if (c->stop)
            kernel_stop(c->kernel);
    }
}

void channel_serve_beside(Channel *c, int fd, int milliseconds)
{
    Channel *b = c->beside;
    bool full = b->handed >= HELD_MOST;
    Watch watches[] = {{full ? NULL : b->socket, -1, false}, {NULL, fd, false}};
    wire_wait(watches, 2, milliseconds);
    if (watches[0].ready)
        serve_waiting(b);
}

static void log_output(void *data, const RelayOutput *out)
{
    kernel_log(data, "at the start: %s", out->title ? out->title : "");
}

/* What a person wants of every session may take long: requests are answered meanwhile as while a cell runs. */
static void start_session(Channel *shell)
{
    Kernel *k = shell->kernel;
    working_begin(shell, true);
    aside_lend(&k->aside);
    relay_session_start(k->session, (RelaySink){log_output, k});
    aside_take_back(&k->aside);
}

static void *shell_main(void *data)
{
    Channel *c = data;
    Kernel *k = c->kernel;
    memory_patient(true);
    crash_own_stack();
    aside_own(&k->aside);
    if (!k->sandbox)
        start_session(c);
    relay_session_set_asker(k->session, (RelayAsker){asking_ask, &k->asking});
    aside_note(c);
    serve_waiting(c);
    while (!atomic_load(&k->stopping)) {
        Watch watches[] = {{c->socket, -1, false},
                           {k->sockets[CHANNEL_STDIN], -1, false},
                           {NULL, k->debugger.wake_read, false},
                           {NULL, k->stop_read, false}};
        if (!wire_wait(watches, 4, history_waits(k->history) ? HISTORY_MS : -1))
            break;
        bool quiet = !watches[0].ready && !watches[1].ready && !watches[2].ready;
        if (quiet)
            history_write(k->history);
        if (watches[1].ready)
            asking_drop(&k->asking);
        if (watches[2].ready)
            debug_answer(c);
        serve_waiting(c);
    }
    comms_close(c);
    debug_leave(&k->debugger);
    aside_disown(&k->aside);
    sem_post(&k->shell_ended);
    return NULL;
}

static void *control_main(void *data)
{
    Channel *c = data;
    Kernel *k = c->kernel;
    memory_patient(true);
    while (!atomic_load(&k->stopping)) {
        Watch watches[] = {{c->socket, -1, false}, {NULL, k->stop_read, false}};
        if (!wire_wait(watches, 2, -1))
            break;
        serve_waiting(c);
    }
    return NULL;
}

static void *heartbeat_main(void *data)
{
    socket_echo(data);
    return NULL;
}

/* ---- start ---- */

/* The socket that listens at the port of a channel since before the kernel was loaded; below 0: none does. */
static int early_socket(const Kernel *k, const KernelOptions *options, int channel)
{
    for (size_t i = 0; i < options->n_early; i++)
        if (options->early[i].port == k->connection.ports[channel])
            return options->early[i].fd;
    return -1;
}

static bool open_sockets(Kernel *k, const KernelOptions *options, Buf *why)
{
    static const SocketRole roles[CHANNEL_KINDS] = {
        [CHANNEL_SHELL] = SOCKET_REQUESTS, [CHANNEL_CONTROL] = SOCKET_REQUESTS,
        [CHANNEL_STDIN] = SOCKET_REQUESTS, [CHANNEL_IOPUB] = SOCKET_BROADCAST,
        [CHANNEL_HEARTBEAT] = SOCKET_ECHO,
    };
    Connection *c = &k->connection;
    k->wire = wire_new();
    Buf endpoint = {0};
    bool ok = k->wire != NULL;
    for (int i = 0; i < CHANNEL_KINDS && ok; i++) {
        k->sockets[i] = socket_new(k->wire, roles[i], c->encrypted ? &c->curve : NULL);
        buf_clear(&endpoint);
        connection_endpoint(c, (ChannelKind)i, &endpoint);
        int early = early_socket(k, options, i);
        ok = k->sockets[i] && (early < 0 || socket_take(k->sockets[i], early)) &&
             socket_bind(k->sockets[i], buf_text(&endpoint), why);
        buf_clear(&endpoint);
        if (ok)
            socket_endpoint(k->sockets[i], &endpoint);
        if (ok)
            connection_bound(c, (ChannelKind)i, buf_text(&endpoint));
    }
    buf_deinit(&endpoint);
    if (!ok && why->n == 0)
        buf_str(why, "cannot make the sockets");
    return ok;
}

/* The process that wants to be outlived by nothing it started; 0 when it did not say so. */
static int find_parent(void)
{
    const char *text = getenv("JPY_PARENT_PID");
    long pid = text ? strtol(text, NULL, 10) : 0;
    return pid > 1 && pid < 1 << 30 ? (int)pid : 0;
}

/* Before there are threads. The code generator is opened here, since it could not be later. */
static bool enter_sandbox(Kernel *k, Buf *why)
{
    history_ready(k->history);
    Buf missing = {0};
    plugin_open("jit", "relay_jit_table", &missing);
    plugin_open("llvm", "relay_llvm_cushion", &missing);
    buf_deinit(&missing);
    return sandbox_enter(NULL, 0, SANDBOX_NETWORK, why);
}

/* A pipe may give its text late. Until then there is nothing that must end in order, and SIGTERM ends the process. */
static bool load_connection(Kernel *k, const char *path, Buf *why)
{
    sigset_t term, before;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    pthread_sigmask(SIG_UNBLOCK, &term, &before);
    bool ok = connection_load(&k->connection, path, why);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static bool kernel_open(Kernel *k, const KernelOptions *options, Buf *why)
{
    k->sandbox = options->sandbox;
    json_set_alloc_funcs(memory_alloc, free);
    /* The tables of Jansson get their seed before there are threads. */
    json_object_seed(0);
    sem_init(&k->shell_ended, 0, 0);
    pthread_mutex_init(&k->working.lock, NULL);
    bool debugs = debug_init(&k->debugger) && aside_init(&k->aside) && asking_init(&k->asking, k);
    k->history = history_new(options->sandbox ? "" : NULL);
    k->comms = json_object();
    bool shells = subshells_init(&k->subshells);
    if (!k->history || !debugs || !k->comms || !shells) {
        buf_str(why, "there is no memory");
        return false;
    }
    if (!load_connection(k, options->connection_file, why) ||
        (options->sandbox && !enter_sandbox(k, why)))
        return false;
    int ends[2];
    if (!sender_init(&k->sender, k->connection.key) || pipe2(ends, O_CLOEXEC) != 0) {
        buf_printf(why, "the system refuses: %s", strerror(errno));
        return false;
    }
    k->stop_read = ends[0];
    k->stop_write = ends[1];
    k->log = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    memory_voice(k->log);
    crash_watch(k->connection.path, k->log, &k->crash);
    k->parent = find_parent();
    k->started_by = getppid();
    k->supervisor = pthread_self();
    if (!open_sockets(k, options, why) ||
        !handshake(&k->connection, k->wire, &k->sender.signer, why) ||
        !connection_save(&k->connection, why) || (options->sandbox && !sandbox_close_network(why)))
        return false;
    k->session = relay_session_new(&(RelayOptions){.color = true, .width = 100});
    if (!k->session)
        buf_str(why, "there is no memory for a session");
    else if (k->sandbox)
        relay_session_set(k->session, "cache", "off");
    return k->session != NULL;
}

static void kernel_close(Kernel *k)
{
    relay_session_free(k->session);
    history_free(k->history);
    json_decref(k->comms);
    subshells_deinit(&k->subshells);
    debug_deinit(&k->debugger);
    aside_deinit(&k->aside);
    asking_deinit(&k->asking);
    for (int i = 0; i < CHANNEL_KINDS; i++)
        socket_free(k->sockets[i]);
    if (k->wire)
        wire_free(k->wire);
    connection_deinit(&k->connection);
    crash_end();
    buf_deinit(&k->crash);
    sem_destroy(&k->shell_ended);
    pthread_mutex_destroy(&k->working.lock);
    if (k->stop_read >= 0)
        close(k->stop_read);
    if (k->stop_write >= 0)
        close(k->stop_write);
    memory_voice(STDERR_FILENO);
    if (k->log >= 0)
        close(k->log);
}

/* ---- supervision ---- */

/* Whether the process that started the kernel is gone. A wrapper may stand between the two. */
static bool parent_gone(const Kernel *k)
{
    if (k->parent == 0)
        return false;
    return getppid() != k->started_by || (kill(k->parent, 0) != 0 && errno == ESRCH);
}

static void supervise(Kernel *k, const sigset_t *signals)
{
    const struct timespec second = {.tv_sec = 1};
    while (!atomic_load(&k->stopping)) {
        int number = sigtimedwait(signals, NULL, &second);
        if (number == SIGINT)
            kernel_interrupt(k);
        else if (number == SIGTERM || parent_gone(k))
            kernel_stop(k);
    }
}

/* Waits for the running cell. It is interrupted again and again, since an interrupt that comes
 * just before a cell begins does not count. A thread that runs somebody's loop cannot be ended,
 * only its process. */
static void await_shell(Kernel *k)
{
    for (int i = 0; i < PATIENCE; i++) {
        relay_session_interrupt(k->session);
        struct timespec until = clock_after(0.1);
        int waited;
        do {
            waited = sem_timedwait(&k->shell_ended, &until);
        } while (waited != 0 && errno == EINTR);
        if (waited == 0)
            return;
    }
    kernel_log(k, "the running cell does not end; the process does");
    _exit(RELAY_OK);
}

static bool start_thread(pthread_t *thread, void *(*run)(void *), void *data)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, shell_stack);
    bool ok = pthread_create(thread, &attributes, run, data) == 0;
    pthread_attr_destroy(&attributes);
    return ok;
}

/* Runs the threads from first to last word. */
static bool kernel_serve(Kernel *k, const sigset_t *signals)
{
    Channel shell = channel_of(k, CHANNEL_SHELL, "shell"),
            control = channel_of(k, CHANNEL_CONTROL, "control"),
            beside = channel_of(k, CHANNEL_CONTROL, "control"),
            aside = channel_of(k, CHANNEL_SHELL, "shell");
    pthread_t heartbeat_thread, shell_thread, control_thread, aside_thread;
    if (!publisher_start(&k->publisher, k->sockets[CHANNEL_IOPUB], &k->sender))
        return false;
    aside.aside = true;
    aside.rest = &shell;
    beside.rest = &control;
    control.beside = &beside;
    k->aside.shell = &shell;
    bool beats = start_thread(&heartbeat_thread, heartbeat_main, k->sockets[CHANNEL_HEARTBEAT]);
    channel_publish(&shell, "status", json_pack("{s:s}", "execution_state", "starting"));
    bool serves = beats && start_thread(&shell_thread, shell_main, &shell);
    bool answers = serves && start_thread(&aside_thread, aside_main, &aside);
    bool controls = answers && start_thread(&control_thread, control_main, &control);
    if (controls)
        supervise(k, signals);
    else
        kernel_stop(k);
    if (serves)
        await_shell(k);
    if (serves)
        pthread_join(shell_thread, NULL);
    if (controls)
        pthread_join(control_thread, NULL);
    if (answers)
        pthread_join(aside_thread, NULL);
    channel_deinit(&shell);
    channel_deinit(&control);
    channel_deinit(&beside);
    channel_deinit(&aside);
    publisher_end(&k->publisher);
    wire_shutdown(k->wire);
    if (beats)
        pthread_join(heartbeat_thread, NULL);
    return controls;
}

int relay_kernel_run(const KernelOptions *options)
{
    sigset_t signals, before;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    Kernel k = {.stop_read = -1, .stop_write = -1, .log = -1};
    Buf why = {0};
    bool ok = kernel_open(&k, options, &why);
    if (ok && !options->connection_file)
        kernel_log(&k, "to connect a client: --existing %s", k.connection.path);
    if (ok && !kernel_serve(&k, &signals)) {
        buf_str(&why, "the system refuses to start threads");
        ok = false;
    }
    if (!ok)
        dprintf(STDERR_FILENO, "relay kernel: %s\n", buf_text(&why));
    kernel_close(&k);
    buf_deinit(&why);
    /* A signal that came too late must not end the process once it is let through. */
    while (sigtimedwait(&signals, NULL, &(struct timespec){0}) > 0)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok ? RELAY_OK : RELAY_USAGE;
}
