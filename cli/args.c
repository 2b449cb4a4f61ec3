#include "cli/cli.h"
#include "base/memory.h"

#include "base/buf.h"
#include "base/number.h"
#include "base/str.h"
#include "base/utf8.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const CliOption common_options[] = {
    {.name = "color",
     .arg = "auto|always|never",
     .doc = "colours; `auto` means on a terminal without NO_COLOR"},
    {.letter = 'h', .name = "help", .doc = "shows this"},
    {0},
};

static const CliOption limit_options[] = {
    {.name = "time-limit",
     .arg = "SECONDS",
     .number = true,
     .most = 1e9,
     .key = "time_limit",
     .doc = "the work ends then; default: none"},
    {.name = "memory-limit",
     .arg = "MIB",
     .number = true,
     .most = 1e9,
     .key = "memory_limit",
     .doc = "default: three quarters of the machine's"},
    {.name = "depth-limit",
     .arg = "CALLS",
     .number = true,
     .most = 1e15,
     .key = "depth_limit",
     .doc = "how deep calls nest; default: as memory allows"},
    {0},
};

enum { TABLES = 3 };

/* The options of a command: its own, what programs may use up, and those of every command. */
static void options_of(const CliCommand *c, const CliOption *tables[TABLES])
{
    tables[0] = c->options;
    tables[1] = c->limits ? limit_options : NULL;
    tables[2] = common_options;
}

static bool is_last(const CliOption *o)
{
    return !o->name && !o->letter;
}

/* ---- help ---------------------------------------------------------------------------------- */

static void spell(Buf *b, const CliOption *o)
{
    if (o->letter)
        buf_printf(b, "-%c", o->letter);
    if (o->letter && o->name)
        buf_str(b, ", ");
    if (o->name)
        buf_printf(b, "%s--%s", o->letter ? "" : "    ", o->name);
    if (o->arg)
        buf_printf(b, " %s", o->arg);
}

static void list_options(Buf *b, const CliOption *o)
{
    enum { COLUMN = 32 };
    for (; o && !is_last(o); o++) {
        Buf left = {0};
        spell(&left, o);
        size_t width = (size_t)utf8_text_width(buf_text(&left), left.n);
        buf_printf(b, "  %s", buf_text(&left));
        if (width + 2 > COLUMN) {
            buf_char(b, '\n');
            width = 0;
            buf_str(b, "  ");
        }
        buf_repeat(b, ' ', COLUMN - width);
        buf_printf(b, "%s\n", o->doc);
        buf_deinit(&left);
    }
}

static const char *program_of(const CliCommand *c)
{
    return c->program ? c->program : "relay";
}

static void list_words(Buf *b, const RelayCommand *rows, size_t n)
{
    enum { COLUMN = 12 };
    buf_char(b, '\n');
    for (size_t i = 0; i < n; i++) {
        buf_printf(b, "  %s", rows[i].name);
        buf_repeat(b, ' ', COLUMN > strlen(rows[i].name) ? COLUMN - strlen(rows[i].name) : 1);
        buf_printf(b, "%s\n", rows[i].doc);
    }
}

int cli_help(const CliCommand *c)
{
    Show show;
    Buf b = {0};
    show_init(&show, COLOR_NEVER);
    buf_printf(&b, "usage: %s%s%s%s%s%s\n\n%s\n", program_of(c), *c->name ? " " : "", c->name,
               c->options ? " [OPTION…]" : "", *c->args ? " " : "", c->args, c->doc);
    if (c->more)
        buf_printf(&b, "\n%s", c->more);
    size_t n_words;
    const RelayCommand *words = c->list ? c->list(&n_words) : NULL;
    if (words)
        list_words(&b, words, n_words);
    buf_str(&b, "\noptions:\n");
    const CliOption *tables[TABLES];
    options_of(c, tables);
    for (int i = 0; i < TABLES; i++)
        list_options(&b, tables[i]);
    show_text(&show, buf_text(&b), b.n);
    buf_deinit(&b);
    return show_status(&show, RELAY_OK);
}

int cli_wrong(const CliCommand *c, const char *format, ...)
{
    Show show;
    Buf b = {0};
    va_list args;
    show_init(&show, COLOR_NEVER);
    va_start(args, format);
    buf_vprintf(&b, format, args);
    va_end(args);
    show_error(&show, "%s\nhelp: see `%s %s%s--help`", buf_text(&b), program_of(c), c->name,
               *c->name ? " " : "");
    buf_deinit(&b);
    return RELAY_USAGE;
}

/* ---- parsing ------------------------------------------------------------------------------- */

typedef struct Parser {
    CliArgs *args;
    int argc, at;
    char **argv;
    bool help;
} Parser;

static const CliOption *find_in(const CliOption *o, Str name, char letter)
{
    for (; o && !is_last(o); o++)
        if (letter ? o->letter == letter : o->name && str_is(name, o->name))
            return o;
    return NULL;
}

static const CliOption *find_option(const Parser *p, Str name, char letter)
{
    const CliOption *tables[TABLES], *o = NULL;
    options_of(p->args->command, tables);
    for (int i = 0; i < TABLES && !o; i++)
        o = find_in(tables[i], name, letter);
    return o;
}

static bool is_number(const char *value)
{
    char *end;
    double v = strtod(value, &end);
    return end != value && !*end && v >= 0;
}

/* Whether the value is one of `a|b|c`. */
static bool is_choice(const char *choices, const char *value)
{
    size_t n = strlen(value);
    for (const char *p = choices; *p; p += strcspn(p, "|"), p += *p == '|')
        if (strcspn(p, "|") == n && memcmp(p, value, n) == 0)
            return true;
    return false;
}

static bool check_value(const Parser *p, const CliOption *o, const char *value)
{
    const char *dashes = o->name ? "--" : "-";
    char letter[2] = {o->letter, 0};
    const char *name = o->name ? o->name : letter;
    if (o->number && !is_number(value)) {
        cli_wrong(p->args->command, "%s%s wants a number, not `%s`", dashes, name, value);
        return false;
    }
    uint64_t seed;
    if (o->seed && !number_parse_uint(str_of(value), &seed)) {
        cli_wrong(p->args->command, "%s%s wants a whole number below 2^64, not `%s`", dashes, name,
                  value);
        return false;
    }
    if (o->most > 0 && strtod(value, NULL) > o->most) {
        cli_wrong(p->args->command, "%s%s is at most %.0f, not `%s`", dashes, name, o->most, value);
        return false;
    }
    if (strchr(o->arg, '|') && !is_choice(o->arg, value)) {
        cli_wrong(p->args->command, "%s%s is one of %s, not `%s`", dashes, name, o->arg, value);
        return false;
    }
    return true;
}

static bool take(Parser *p, const CliOption *o, const char *value)
{
    CliArgs *a = p->args;
    char letter[2] = {o->letter, 0};
    if (o->arg && !value && p->at + 1 < p->argc)
        value = p->argv[++p->at];
    if (o->arg && !value) {
        cli_wrong(a->command, "%s%s wants a value: %s", o->name ? "--" : "-",
                  o->name ? o->name : letter, o->arg);
        return false;
    }
    if (!o->arg && value) {
        cli_wrong(a->command, "--%s takes no value", o->name);
        return false;
    }
    if (o->arg && !check_value(p, o, value))
        return false;
    if (o == &common_options[0])
        a->color = *value == 'n' ? COLOR_NEVER : value[1] == 'l' ? COLOR_ALWAYS : COLOR_AUTO;
    else if (o == &common_options[1])
        p->help = true;
    else
        a->params[a->n_params++] = (RelayParam){o->key ? o->key : o->name, o->arg ? value : "1"};
    return true;
}

static bool unknown_option(const Parser *p, const char *arg, Str name)
{
    const CliOption *tables[TABLES];
    const char *near = NULL;
    int best = 3;
    options_of(p->args->command, tables);
    for (size_t t = 0; t < TABLES; t++) {
        for (const CliOption *o = tables[t]; o && !is_last(o); o++) {
            int distance = o->name && name.len ? str_distance(name, str_of(o->name), best) : best;
            if (distance < best) {
                best = distance;
                near = o->name;
            }
        }
    }
    if (near)
        cli_wrong(p->args->command, "unknown option `%s`, did you mean `--%s`?", arg, near);
    else
        cli_wrong(p->args->command, "unknown option `%s`", arg);
    return false;
}

/* --name, --name VALUE, --name=VALUE */
static bool take_long(Parser *p, const char *arg)
{
    const char *equals = strchr(arg, '=');
    Str name = {arg + 2, equals ? (size_t)(equals - arg - 2) : strlen(arg) - 2};
    const CliOption *o = find_option(p, name, 0);
    if (!o)
        return unknown_option(p, arg, name);
    return take(p, o, equals ? equals + 1 : NULL);
}

/* -x, -x VALUE, -xVALUE */
static bool take_short(Parser *p, const char *arg)
{
    const CliOption *o = find_option(p, (Str){0}, arg[1]);
    if (!o || (!o->arg && arg[2]))
        return unknown_option(p, arg, (Str){0});
    return take(p, o, arg[2] ? arg + 2 : NULL);
}

static bool parse(Parser *p)
{
    bool options = true;
    for (p->at = 0; p->at < p->argc; p->at++) {
        char *arg = p->argv[p->at];
        bool good = true;
        if (options && strcmp(arg, "--") == 0)
            options = false;
        else if (options && strncmp(arg, "--", 2) == 0)
            good = take_long(p, arg);
        else if (options && arg[0] == '-' && arg[1])
            good = take_short(p, arg);
        else
            p->args->operands[p->args->n_operands++] = arg;
        if (!good)
            return false;
    }
    return true;
}

static bool count_operands(const CliArgs *a)
{
    const CliCommand *c = a->command;
    if (a->n_operands < c->least)
        cli_wrong(c, "%s is missing", c->args);
    else if (a->n_operands > c->most)
        cli_wrong(c, "`%s` is more than it takes", a->operands[c->most]);
    else
        return true;
    return false;
}

static const char *name_in(const char *folder, const char *base, const char *ending)
{
    Buf b = {0};
    buf_printf(&b, "%s/%s%s", folder, base, ending);
    return buf_take(&b);
}

/* A folder with one program, as `relay import` writes it, stands for that program with its weights. The two names are the caller's. */
static void open_folder(CliArgs *a, const char **program, const char **weights)
{
    bool takes_weights = false;
    for (const CliOption *o = a->command->options; o && !is_last(o); o++)
        takes_weights |= o->name && !strcmp(o->name, "params");
    DIR *folder = takes_weights && a->n_operands == 1 ? opendir(a->operands[0]) : NULL;
    if (!folder)
        return;
    char *base = NULL;
    size_t found = 0;
    for (struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        size_t n = strlen(e->d_name);
        if (n <= 4 || strcmp(e->d_name + n - 4, ".rly") != 0)
            continue;
        found++;
        free(base);
        base = memory_text(e->d_name, n - 4);
    }
    closedir(folder);
    if (found == 1 && base) {
        *program = name_in(a->operands[0], base, ".rly");
        *weights = name_in(a->operands[0], base, ".npz");
    }
    free(base);
    if (*program && *weights) {
        a->operands[0] = (char *)(uintptr_t)*program;
        if (!cli_value(a, "params") && access(*weights, R_OK) == 0)
            a->params[a->n_params++] = (RelayParam){"params", *weights};
    }
}

int cli_run(const CliCommand *command, int argc, char **argv)
{
    if (command->raw)
        return command->raw(argc, argv);
    CliArgs args = {.command = command};
    args.params = memory_zeroed((size_t)argc + 2, sizeof *args.params);
    args.operands = memory_zeroed((size_t)argc + 1, sizeof *args.operands);
    const char *program = NULL, *weights = NULL;
    int status = RELAY_LIMIT;
    if (args.params && args.operands) {
        Parser p = {.args = &args, .argc = argc, .argv = argv};
        status = RELAY_USAGE;
        if (parse(&p)) {
            if (p.help)
                status = cli_help(command);
            else if (count_operands(&args)) {
                open_folder(&args, &program, &weights);
                status = command->run(&args);
            }
        }
    } else {
        show_refused();
    }
    free(args.params);
    free(args.operands);
    free((char *)(uintptr_t)program);
    free((char *)(uintptr_t)weights);
    return status;
}

const char *cli_value(const CliArgs *args, const char *key)
{
    for (size_t i = args->n_params; i > 0; i--)
        if (strcmp(args->params[i - 1].key, key) == 0)
            return args->params[i - 1].value;
    return NULL;
}
