#include "cli/cli.h"

#include "base/document.h"
#include "base/file.h"
#include "base/plugin.h"
#include "kernel/kernel_main.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static const CliOption run_options[] = {
    {.letter = 'f',
     .name = "connection",
     .arg = "FILE",
     .doc = "the connection file that Jupyter has written"},
    {.name = "sandbox",
     .doc = "for notebooks of strangers: opens no file, no network but Jupyter's, no process"},
    {0},
};

/* The kernel and its libraries are opened only here. */
static PluginEntry *open_kernel(const char *entry)
{
    Show show;
    Buf why = {0};
    PluginEntry *found = plugin_open("kernel", entry, &why);
    show_init(&show, COLOR_NEVER);
    if (!found)
        show_error(&show, "the kernel cannot be opened: %s", buf_text(&why));
    buf_deinit(&why);
    return found;
}

/* A socket that listens there; below 0: that cannot be yet, or not so. */
static int listen_at(Str ip, int64_t port)
{
    char text[INET_ADDRSTRLEN] = "";
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    if (port <= 0 || port > UINT16_MAX || ip.len >= sizeof text)
        return -1;
    memcpy(text, ip.ptr, ip.len);
    int fd = inet_pton(AF_INET, text, &to.sin_addr) == 1
                 ? socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)
                 : -1;
    bool listens = fd >= 0 &&
                   setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) == 0 &&
                   bind(fd, (struct sockaddr *)&to, sizeof to) == 0 && listen(fd, 100) == 0;
    if (fd >= 0 && !listens)
        close(fd);
    return listens ? fd : -1;
}

/* Listens at the ports of the connection file before the libraries are loaded. A client that came in vain would wait for a tenth of a
 * second or two and try again; so it waits for as long as the kernel needs. What cannot be so, and what is wrong with the file, is the
 * kernel's to say. */
static void listen_early(const char *path, KernelOptions *options)
{
    Arena arena;
    Buf text = {0};
    Document d = {0};
    DocumentError error;
    struct stat info;
    arena_init(&arena, NULL);
    /* A pipe can be read only once. */
    bool file = path && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    bool read = file && file_load(path, NULL, &text) &&
                document_read(&d, &arena, (Str){buf_text(&text), text.n}, &error);
    const DocumentValue *at = read ? d.at : NULL;
    Str transport = document_str(&d, read ? document_get(&d, at, "transport") : NULL);
    Str ip = document_str(&d, read ? document_get(&d, at, "ip") : NULL);
    bool tcp = read && str_is(transport, "tcp") && !document_get(&d, at, "registration_port");
    const DocumentValue *key = at + 1;
    for (size_t i = document_count(at); tcp && i-- > 0;) {
        const DocumentValue *value = document_next(&d, key);
        Str name = document_str(&d, key);
        int64_t port;
        bool is_port = name.len > 5 && !memcmp(name.ptr + name.len - 5, "_port", 5);
        if (is_port && options->n_early < KERNEL_PORTS && document_int(&d, value, &port)) {
            int fd = listen_at(ip, port);
            if (fd >= 0)
                options->early[options->n_early++] = (EarlyPort){(int)port, fd};
        }
        key = document_next(&d, value);
    }
    arena_deinit(&arena);
    buf_deinit(&text);
}

static int run_kernel(const CliArgs *args)
{
    KernelOptions asked = {
        .connection_file = cli_value(args, "connection"),
        .sandbox = cli_value(args, "sandbox") != NULL,
    };
    /* Jupyter interrupts a kernel whenever it likes, and one that is still being loaded is not to end of that. */
    sigset_t interrupts;
    sigemptyset(&interrupts);
    sigaddset(&interrupts, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupts, NULL);
    listen_early(asked.connection_file, &asked);
    int (*run)(const KernelOptions *) =
        (int (*)(const KernelOptions *))open_kernel("relay_kernel_run");
    return run ? run(&asked) : RELAY_USAGE;
}

static const CliCommand kernel_run = {
    .name = "kernel run",
    .args = "",
    .doc = "Serves a notebook; without -f it makes a connection file and prints its name.",
    .options = run_options,
    .run = run_kernel,
};

static int install_kernel(int argc, char **argv)
{
    int (*install)(int, char **) = (int (*)(int, char **))open_kernel("relay_kernel_install");
    return install ? install(argc, argv) : RELAY_USAGE;
}

static int dispatch(int argc, char **argv)
{
    if (argc > 0 && strcmp(argv[0], "install") == 0)
        return install_kernel(argc - 1, argv + 1);
    if (argc > 0 && strcmp(argv[0], "run") == 0)
        return cli_run(&kernel_run, argc - 1, argv + 1);
    if (argc > 0 && (strcmp(argv[0], "--help") == 0 || strcmp(argv[0], "-h") == 0))
        return cli_help(&cmd_kernel);
    return cli_wrong(&cmd_kernel, "`install` or `run` is missing");
}

const CliCommand cmd_kernel = {
    .name = "kernel",
    .args = "install | run -f CONNECTION",
    .doc = "Installs the Jupyter kernel, or runs it.",
    .more = "`relay kernel install --help` and `relay kernel run --help` say more.\n",
    .raw = dispatch,
};
