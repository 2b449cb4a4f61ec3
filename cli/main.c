#include "cli/cli.h"

#include "base/memory.h"
#include "base/str.h"
#include "base/utf8.h"
#include "repl/repl.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static const CliCommand *const commands[] = {
    &cmd_fmt,    &cmd_check,   &cmd_opt,     &cmd_run,     &cmd_compile, &cmd_bench,
    &cmd_new,    &cmd_import,  &cmd_summary, &cmd_kernel,  &cmd_lsp,     &cmd_explain,
    &cmd_doctor, &cmd_version, &cmd_equal,   &cmd_analyze, &cmd_export,
};

enum { N_COMMANDS = sizeof commands / sizeof *commands };

static const CliOption options[] = {
    {.name = "exec",
     .arg = "auto|interp|jit|gpu",
     .doc = "the engine; default `auto`: the JIT for what is hot"},
    {.name = "plain",
     .doc =
         "for screen readers: lines as the terminal sends them, no colours, nothing drawn again"},
    {.name = "version", .doc = "prints the version"},
    {0},
};

/* ---- scripts and the REPL ------------------------------------------------------------------ */

static int print_version(void)
{
    Show show;
    Buf b = {0};
    show_init(&show, COLOR_NEVER);
    buf_printf(&b, "relay %s\n", relay_version());
    show_text(&show, buf_text(&b), b.n);
    buf_deinit(&b);
    return show_status(&show, RELAY_OK);
}

static int suggest(const CliCommand *self, const char *word)
{
    const char *near = NULL;
    int best = 3;
    for (size_t i = 0; i < N_COMMANDS; i++) {
        int distance = str_distance(str_of(word), str_of(commands[i]->name), best);
        if (distance < best) {
            best = distance;
            near = commands[i]->name;
        }
    }
    if (near)
        return cli_wrong(self, "neither a command nor a file: `%s`, did you mean `relay %s`?", word,
                         near);
    return cli_wrong(self, "neither a command nor a file: `%s`", word);
}

static int run_scripts(const CliArgs *args)
{
    if (cli_value(args, "version"))
        return print_version();
    ReplOptions repl = {.engine = cli_value(args, "exec"),
                        .color = args->color,
                        .plain = cli_value(args, "plain") != NULL,
                        .params = args->params,
                        .n_params = args->n_params};
    if (args->n_operands == 0)
        return repl_run(&repl);
    const char *first = args->operands[0];
    if (!strpbrk(first, "./") && strcmp(first, "-") != 0 && access(first, F_OK) != 0)
        return suggest(args->command, first);
    return repl_run_files(&repl, args->n_operands, args->operands);
}

/* ---- help ---------------------------------------------------------------------------------- */

static const char overview[] =
    "  relay                             The REPL; without a terminal it runs what it reads.\n"
    "  relay FILE…                       Runs scripts as if they were typed.\n";

static const char exit_codes[] =
    "\nexit codes: 0 done, 1 the Relay program is wrong, 2 the command line is wrong or a file "
    "cannot be\n"
    "read or written, 3 a limit was hit or an interrupt came, 70 a bug in relay\n";

static void list_commands(Buf *b)
{
    enum { COLUMN = 34 };
    buf_str(b, overview);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        Buf left = {0};
        buf_printf(&left, "relay %s %s", commands[i]->name, commands[i]->args);
        int width = (int)utf8_text_width(buf_text(&left), left.n);
        buf_printf(b, "  %s", buf_text(&left));
        if (width >= COLUMN) {
            buf_str(b, "\n  ");
            width = 0;
        }
        buf_repeat(b, ' ', (size_t)(COLUMN - width));
        buf_printf(b, "%s\n", commands[i]->doc);
        buf_deinit(&left);
    }
    buf_str(b, "\n`relay COMMAND --help` says more; `-` as a file is standard input.\n");
    buf_str(b, exit_codes);
}

/* The command that stands for none: its help is the overview of all. */
static int run_default(int argc, char **argv)
{
    Buf more = {0};
    list_commands(&more);
    CliCommand self = {
        .name = "",
        .args = "[FILE… | COMMAND …]",
        .doc = "Relay: a functional tensor language, its compiler and its evaluator.",
        .more = buf_text(&more),
        .options = options,
        .limits = true,
        .most = SIZE_MAX,
        .run = run_scripts,
    };
    int status = cli_run(&self, argc, argv);
    buf_deinit(&more);
    return status;
}

/* ---- the program --------------------------------------------------------------------------- */

/* A file that is opened must never become standard output because that was closed, and what is closed fails when it is used; a reader
 * that goes away is a write that fails, as is a file that becomes larger than the system lets it. */
static void settle_streams(void)
{
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 &&
            open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
            return;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

static int run(int argc, char **argv)
{
    for (size_t i = 0; i < N_COMMANDS && argc > 1; i++)
        if (strcmp(argv[1], commands[i]->name) == 0)
            return cli_run(commands[i], argc - 2, argv + 2);
    return run_default(argc > 0 ? argc - 1 : 0, argv + 1);
}

int main(int argc, char **argv)
{
    settle_streams();
    memory_linger();
    Attached code;
    int status = attached_find(&code) ? cli_run_attached(&code, argc, argv) : run(argc, argv);
    if (memory_refusals() == 0)
        return status;
    /* Nothing that was made without memory passes for whole, whoever forgot to look; and libraries that missed some are not asked to
     * tidy up. */
    if (status == RELAY_OK) {
        show_refused();
        status = RELAY_LIMIT;
    }
    _exit(status);
}
