/* `:limit`: what cells may use up. */
#include "runtime/show.h"
#include "session/commands.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Enough to work with, and little enough that the machine stays usable. */
size_t limit_default_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 ? (size_t)pages / 4 * 3 * (size_t)size : 0;
}

static void set_time(RelaySession *s, double seconds)
{
    s->cx.limits.seconds_most = seconds;
    s->cx.limits.started = clock_seconds();
}

static void set_memory(RelaySession *s, double mib)
{
    s->cx.limits.memory_most = mib > 0 ? (size_t)(mib * (1 << 20)) : limit_default_memory();
}

static void set_depth(RelaySession *s, double calls)
{
    s->cx.limits.depth_most = (uint64_t)calls;
}

static void set_output(RelaySession *s, double elements)
{
    s->output_most = elements > 0 ? (int64_t)elements : INT64_MAX;
}

static void show_time(const RelaySession *s, Buf *b)
{
    double seconds = s->cx.limits.seconds_most;
    if (seconds > 0)
        buf_printf(b, "%g second%s a cell", seconds, seconds == 1 ? "" : "s");
    else
        buf_str(b, "none");
}

static void show_memory(const RelaySession *s, Buf *b)
{
    buf_printf(b, "%.0f MiB", (double)s->cx.limits.memory_most / (1 << 20));
}

static void show_depth(const RelaySession *s, Buf *b)
{
    if (s->cx.limits.depth_most)
        buf_printf(b, "%llu nested call%s", (unsigned long long)s->cx.limits.depth_most,
                   s->cx.limits.depth_most == 1 ? "" : "s");
    else
        buf_str(b, "as many nested calls as memory allows");
}

static void show_output(const RelaySession *s, Buf *b)
{
    if (s->output_most == INT64_MAX)
        buf_str(b, "all elements of a value");
    else
        buf_printf(b, "%lld element%s of a value",
                   (long long)(s->output_most ? s->output_most : SHOW_MOST),
                   s->output_most == 1 ? "" : "s");
}

static const struct LimitRow {
    const char *name, *option;
    double least, most; /* amounts; what is less is none that a person can mean */
    void (*set)(RelaySession *s, double amount); /* 0: as it is without a limit */
    void (*show)(const RelaySession *s, Buf *b);
} rows[] = {
    /* cli/args.c says the same */
    {"time", "time_limit", 1e-6, 1e9, set_time, show_time},
    {"memory", "memory_limit", 1e-6, 1e9, set_memory, show_memory},
    {"depth", "depth_limit", 1, 1e15, set_depth, show_depth},
    {"output", "output_limit", 1, 1e9, set_output, show_output},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* The amount that is written there; NAN where there is none. */
static double amount_of(const struct LimitRow *row, const char *text)
{
    char *end;
    double v = strtod(text, &end);
    if (end == text || *end)
        return strcmp(text, "none") == 0 ? 0 : (double)NAN;
    return v >= 0 && v <= row->most ? v : (double)NAN;
}

bool limit_set(RelaySession *s, const char *option, const char *amount)
{
    for (int i = 0; i < N_ROWS; i++) {
        double v = strcmp(option, rows[i].option) == 0 ? amount_of(&rows[i], amount) : (double)NAN;
        if (!isnan(v)) {
            rows[i].set(s, v);
            return true;
        }
    }
    return false;
}

static void list_limits(RelaySession *s)
{
    Buf b = {0};
    for (int i = 0; i < N_ROWS; i++) {
        buf_printf(&b, "%s%-8s", i ? "\n" : "", rows[i].name);
        rows[i].show(s, &b);
    }
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* Inside, 0 is no limit; a person says `none`. */
static bool is_too_little(const struct LimitRow *row, const char *amount)
{
    double v = amount_of(row, amount);
    return v < row->least && strcmp(amount, "none") != 0;
}

void command_limit(CommandCall *c)
{
    Span at = c->args;
    Str word = command_word(c);
    char *amount = command_rest(c);
    const struct LimitRow *row = NULL;
    for (int i = 0; i < N_ROWS; i++)
        if (str_is(word, rows[i].name))
            row = &rows[i];
    bool little = row && amount && is_too_little(row, amount);
    if (word.len && (!row || !amount || little || !limit_set(c->s, row->option, amount))) {
        Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, at, "%s",
                             little ? "this is too little for a limit; no limit is `none`"
                             : row  ? "this is no amount"
                                    : "there is no such limit");
        diag_help(d, "for instance `:limit time 10` (seconds), `:limit memory 500` (MiB), `:limit "
                     "depth 1000`, `:limit output 50`, `:limit time none`");
    } else {
        list_limits(c->s);
    }
    free(amount);
}
