/* Schedules by hand: primitives by name, on loops and buffers as they are printed. */
#include "sched/hand.h"

#include "base/number.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A step as it was read. */
typedef struct Step {
    Nest *n;
    NestNode *loop;
    int buffer;
    int64_t number; /* 0: none was given */
} Step;

static bool step_split(Step *s)
{
    NestNode *inner, *tail;
    return nest_split(s->n, s->loop, s->number, &inner, &tail);
}

static bool step_reorder(Step *s)
{
    return nest_reorder(s->n, s->loop);
}

static bool step_fuse(Step *s)
{
    return nest_fuse(s->n, s->loop);
}

static bool step_unroll(Step *s)
{
    if (!nest_run_as(s->n, s->loop, NEST_UNROLLED, 0))
        return false;
    nest_jam(s->n, s->loop);
    return true;
}

#define LANES_MOST 16

static bool step_vectorise(Step *s)
{
    int lanes = 2;
    while (lanes < LANES_MOST && lanes < s->loop->extent)
        lanes *= 2;
    if (!nest_run_as(s->n, s->loop, NEST_VECTOR, lanes))
        return false;
    nest_jam(s->n, s->loop);
    return true;
}

static bool step_parallel(Step *s)
{
    return nest_run_as(s->n, s->loop, NEST_PARALLEL, 0);
}

static bool step_partial(Step *s)
{
    return nest_partial(s->n, s->loop, (NestNode *[]){NULL});
}

static bool step_join(Step *s)
{
    return nest_join(s->n, s->loop);
}

static bool step_raise(Step *s)
{
    return nest_raise(s->n, s->loop);
}

static bool step_narrow(Step *s)
{
    return nest_narrow(s->n, s->buffer);
}

static bool step_registers(Step *s)
{
    return nest_to_registers(s->n, s->buffer);
}

static bool step_settle(Step *s)
{
    return nest_settle(s->n, s->buffer);
}

typedef enum StepOf { OF_LOOP, OF_LOOP_AND_NUMBER, OF_BUFFER } StepOf;

typedef struct StepRow {
    const char *name;
    StepOf of;
    bool (*apply)(Step *s);
    const char *needs; /* what it refuses without */
} StepRow;

static const StepRow rows[] = {
    {"split", OF_LOOP_AND_NUMBER, step_split,
     "a serial loop with more turns than the number, of 2 or more"},
    {"reorder", OF_LOOP, step_reorder,
     "a loop with nothing in it but another, and turns in any order"},
    {"fuse", OF_LOOP, step_fuse, "a serial loop with nothing in it but another, and even steps"},
    {"unroll", OF_LOOP, step_unroll, "a serial loop"},
    {"vectorise", OF_LOOP, step_vectorise,
     "a serial loop of at most 16 turns, in any order, without vectors around or in it"},
    {"parallel", OF_LOOP, step_parallel, "an outermost loop whose turns do not touch the same"},
    {"partial", OF_LOOP, step_partial, "a vector or unrolled loop that folds into a register"},
    {"join", OF_LOOP, step_join,
     "a loop of as many turns behind it, none of which reads what a later turn makes"},
    {"raise", OF_LOOP, step_raise, "something in front of it that touches nothing that it writes"},
    {"narrow", OF_BUFFER, step_narrow, "a tensor between stages that one loop makes and reads"},
    {"registers", OF_BUFFER, step_registers, "a local buffer of known places"},
    {"settle", OF_BUFFER, step_settle,
     "a local buffer of whose elements a result is made in its order"},
};

/* ---- reading ------------------------------------------------------------------------------------------------------------------ */

static Str next_word(const char **at)
{
    const char *p = *at + strspn(*at, " ");
    size_t n = strcspn(p, " ;");
    *at = p + n;
    return (Str){p, n};
}

static const StepRow *row_of(Str word)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (str_is(word, rows[i].name))
            return &rows[i];
    return NULL;
}

const char *hand_name(size_t i)
{
    return i < sizeof rows / sizeof *rows ? rows[i].name : NULL;
}

const char *hand_steps(const char *text, size_t len)
{
    int depth = 0;
    for (size_t i = 0; i < len; i++) {
        depth += strchr("([{", text[i]) != NULL;
        depth -= strchr(")]}", text[i]) != NULL;
        if (depth || text[i] != ' ')
            continue;
        size_t n = 0;
        while (i + 1 + n < len && !strchr(" ;(", text[i + 1 + n]))
            n++;
        bool ends = i + 1 + n == len || text[i + 1 + n] != '(';
        Str word = {text + i + 1, n};
        if (ends && (row_of(word) || str_is(word, "plain") || str_is(word, "direct")))
            return text + i + 1;
    }
    return NULL;
}

bool hand_is(const char *steps, const char *word)
{
    return str_is(next_word(&steps), word) && !steps[strspn(steps, " ;")];
}

typedef struct Find {
    const Nest *n;
    Str word;
    NestNode *whole,
        *base; /* by the name with its number, and without when there is one such loop */
    int bases;
} Find;

static void look_at_loop(void *data, NestNode *node)
{
    Find *f = data;
    char name[64];
    if (node->kind != NEST_LOOP)
        return;
    const char *base = f->n->vars.at[node->var];
    snprintf(name, sizeof name, "%s%d", base, node->var);
    if (str_is(f->word, name))
        f->whole = node;
    if (str_is(f->word, base)) {
        f->base = node;
        f->bases++;
    }
}

static NestNode *find_loop(Nest *n, Str word)
{
    Find f = {.n = n, .word = word};
    for (size_t i = 0; i < n->root.n; i++)
        nest_each(n->root.at[i], look_at_loop, &f);
    return f.whole ? f.whole : f.bases == 1 ? f.base : NULL;
}

/* The number behind the letters of a buffer's name. */
static int find_buffer(const Nest *n, Str word)
{
    size_t from = 0;
    long id = -1;
    while (from < word.len && !(word.ptr[from] >= '0' && word.ptr[from] <= '9'))
        from++;
    if (from > 0 && from < word.len)
        id = strtol(word.ptr + from, NULL, 10);
    return id >= n->n_inputs && (size_t)id < n->buffers.n ? (int)id : -1;
}

/* Statements that become code, each as often as straight code repeats it: what is too long is never compiled in time. */
#define STRAIGHT_MOST 4096.0

static double straight_size(const NestNode *node)
{
    double size = node->kind == NEST_LOOP ? 0 : 1;
    for (size_t i = 0; i < node->body.n; i++)
        size += straight_size(node->body.at[i]);
    return node->kind == NEST_LOOP && node->way == NEST_UNROLLED ? size * (double)node->extent
                                                                 : size;
}

/* Of the loops that are there some names, for whoever named none of them. */
#define NAMES_MOST 12

typedef struct Names {
    const Nest *n;
    Buf *out;
    int count;
} Names;

static void add_name(void *data, NestNode *node)
{
    Names *s = data;
    if (node->kind != NEST_LOOP || s->count++ >= NAMES_MOST)
        return;
    buf_printf(s->out, "%s%s%d", s->count > 1 ? ", " : "", s->n->vars.at[node->var], node->var);
}

static void say_loops(Nest *n, Buf *why)
{
    Names names = {n, why, 0};
    buf_str(why, "; there are ");
    for (size_t i = 0; i < n->root.n; i++)
        nest_each(n->root.at[i], add_name, &names);
    buf_str(why, names.count > NAMES_MOST ? " and more" : names.count ? "" : "none");
}

static bool take_number(Step *s, const StepRow *row, Str loop, const char **at, Buf *why)
{
    Str number = next_word(at);
    if (number_parse_int(number, &s->number) && s->number)
        return true;
    buf_printf(why, "`%s %.*s` wants a number behind the loop: `%s %.*s 16`", row->name,
               (int)loop.len, loop.ptr, row->name, (int)loop.len, loop.ptr);
    if (number.len)
        buf_printf(why, "; `%.*s` is none", (int)number.len, number.ptr);
    return false;
}

static bool take_step(Nest *n, const StepRow *row, const char **at, Buf *why)
{
    Step s = {.n = n};
    Str word = next_word(at);
    if (row->of == OF_BUFFER)
        s.buffer = find_buffer(n, word);
    else
        s.loop = find_loop(n, word);
    if (row->of == OF_BUFFER ? s.buffer < 0 : !s.loop) {
        buf_printf(why, "`%s` wants a %s of the nest; `%.*s` is none", row->name,
                   row->of == OF_BUFFER ? "buffer" : "loop", (int)word.len, word.ptr);
        if (row->of != OF_BUFFER)
            say_loops(n, why);
        return false;
    }
    if (row->of == OF_LOOP_AND_NUMBER && !take_number(&s, row, word, at, why))
        return false;
    if (!row->apply(&s)) {
        buf_printf(why, "`%s %.*s` wants %s", row->name, (int)word.len, word.ptr, row->needs);
        return false;
    }
    double size = 0;
    for (size_t i = 0; i < n->root.n; i++)
        size += straight_size(n->root.at[i]);
    if (size > STRAIGHT_MOST)
        buf_printf(why, "`%s %.*s` makes %.0f statements; %.0f are the most", row->name,
                   (int)word.len, word.ptr, size, STRAIGHT_MOST);
    return size <= STRAIGHT_MOST;
}

bool hand_apply(Nest *n, const char *steps, Buf *why)
{
    while (*(steps += strspn(steps, " ;"))) {
        Str word = next_word(&steps);
        const StepRow *row = row_of(word);
        if (str_is(word, "plain"))
            continue;
        if (!row) {
            buf_printf(why, "`%.*s` is no step; steps are direct alone, plain", (int)word.len,
                       word.ptr);
            for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
                buf_printf(why, ", %s", rows[i].name);
            return false;
        }
        if (!take_step(n, row, &steps, why))
            return false;
        steps += strspn(steps, " ");
        if (*steps && *steps != ';') {
            buf_printf(why, "a `;` is missing between steps, in front of `%s`", steps);
            return false;
        }
    }
    return true;
}
