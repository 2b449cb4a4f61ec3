/* Random well-typed programs, each examined; the first that lacks a property is made small and shown.
 *
 *     random [--count N] [--from SEED] [--size S] [--jit EVERY] [--mistakes] [--stats] [--show]
 *            [--no-shrink] [--go-on]
 *     random --symbolic [--from SEED]
 *     random --graphs [--count N] [--from SEED]
 *
 * `--mistakes` makes one in the text of each program, which must then be refused. `--jit 5` compares every fifth program with the JIT's value; `--show` prints the programs. With `--graphs`
 * each goes through a saved graph, and its text must be the same. */
#include "tests/random/examine.h"

#include "base/plugin.h"
#include "ir/print.h"
#include "passes/pass.h"
#include "stdlib/stdlib.h"
#include "tests/random/generate.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Options {
    uint64_t from;
    long count, jit;
    int size;
    bool stats, show, no_shrink, go_on, mistakes, symbolic, graphs;
} Options;

static bool read_options(int argc, char **argv, Options *o)
{
    *o = (Options){.count = 1000, .size = 40};
    for (int i = 1; i < argc; i++) {
        const char *value = i + 1 < argc ? argv[i + 1] : "";
        if (!strcmp(argv[i], "--stats"))
            o->stats = true;
        else if (!strcmp(argv[i], "--show"))
            o->show = true;
        else if (!strcmp(argv[i], "--no-shrink"))
            o->no_shrink = true;
        else if (!strcmp(argv[i], "--symbolic"))
            o->symbolic = true;
        else if (!strcmp(argv[i], "--graphs"))
            o->graphs = true;
        else if (!strcmp(argv[i], "--mistakes"))
            o->mistakes = true;
        else if (!strcmp(argv[i], "--go-on"))
            o->go_on = true;
        else if (!strcmp(argv[i], "--count") && ++i < argc)
            o->count = atol(value);
        else if (!strcmp(argv[i], "--from") && ++i < argc)
            o->from = strtoull(value, NULL, 10);
        else if (!strcmp(argv[i], "--size") && ++i < argc)
            o->size = atoi(value);
        else if (!strcmp(argv[i], "--jit") && ++i < argc)
            o->jit = atol(value);
        else
            return false;
    }
    return true;
}

static void print_module(const char *title, const Module *m, bool with_metadata)
{
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){.no_metadata = !with_metadata});
    printf("%s\n%s", title, buf_text(&text));
    buf_deinit(&text);
}

/* Each program meets one pass that keeps values, in turn, or the default pipeline. */
static const char *pass_for(uint64_t seed)
{
    const Pass *kept[128];
    size_t n = 0;
    for (size_t i = 0; passes[i] && n < sizeof kept / sizeof *kept; i++)
        if (!passes[i]->other_values)
            kept[n++] = passes[i];
    size_t i = seed % (n + 1);
    if (i == n)
        return "-O3";
    return strcmp(kept[i]->name, "EtaExpand") ? kept[i]->name
                                              : "EtaExpand{expand_constructor=True, "
                                                "expand_global_var=True}";
}

static const JitTable *open_jit(void)
{
    Buf why = {0};
    const JitTable *(*entry)(void) =
        (const JitTable *(*)(void))plugin_open("jit", "relay_jit_table", &why);
    if (!entry)
        printf("no JIT: %s\n", buf_text(&why));
    buf_deinit(&why);
    return entry ? entry() : NULL;
}

static void show_fault(Examiner *x, Module *m, const Options *o, uint64_t seed, const char *bad)
{
    printf("seed %llu: it does not hold that %s\n%s", (unsigned long long)seed, bad,
           buf_text(&x->what));
    if (o->show)
        print_module("the program:", m, o->graphs);
    if (o->no_shrink || o->graphs)
        return;
    Module *least = shrink(x, m, bad);
    print_module("the smallest program:", least, false);
    examine(x, least);
    printf("%s\n", buf_text(&x->what));
    module_release(least);
}

typedef struct Totals {
    long failed, valued, compiled, lost, mistaken, metadata;
} Totals;

static void examine_one(const Options *o, uint64_t seed, const JitTable *jit, RandomStats *stats,
                        Totals *totals)
{
    Examiner x;
    if (!examiner_init(&x, jit)) {
        totals->failed++;
        return;
    }
    x.pass = pass_for(seed);
    x.cx.limits.seconds_most = 5;
    Module *m = random_program(&x.cx, (RandomOptions){seed, o->size}, stats);
    if (o->show && o->count == 1 && !o->graphs)
        print_module("", m, false);
    const char *bad = o->graphs ? examine_graph(&x, m, seed) : examine(&x, m);
    if (o->show && o->count == 1 && o->graphs)
        print_module("", m, true);
    totals->lost += (long)x.lost;
    totals->valued += x.valued;
    totals->metadata += x.metadata;
    totals->compiled += x.compiled;
    bool made = false;
    if (!bad && o->mistakes && !examine_mistake(&x, m, seed, &made)) {
        totals->failed++;
        printf("seed %llu: %s", (unsigned long long)seed, buf_text(&x.what));
    }
    totals->mistaken += made;
    if (bad) {
        totals->failed++;
        show_fault(&x, m, o, seed, bad);
    }
    module_release(m);
    if (!examiner_deinit(&x)) {
        totals->failed++;
        printf("seed %llu: objects are left behind, or were let go of twice\n",
               (unsigned long long)seed);
    }
}

int main(int argc, char **argv)
{
    Options o;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (!read_options(argc, argv, &o)) {
        fputs(
            "usage: random [--count N] [--from SEED] [--size S] [--jit EVERY] [--stats] [--show]\n",
            stderr);
        return 2;
    }
    Ctx cx;
    if (o.symbolic && ctx_init(&cx, &stdlib_ops)) {
        long wrong = check_symbolic(&cx, o.from);
        ctx_deinit(&cx);
        return wrong > 0;
    }
    const JitTable *jit = o.jit ? open_jit() : NULL;
    RandomStats stats = {0};
    Totals totals = {0};
    for (long i = 0; i < o.count && (o.go_on || !totals.failed); i++)
        examine_one(&o, o.from + (uint64_t)i, jit && i % o.jit == 0 ? jit : NULL, &stats, &totals);
    for (size_t i = 0; i < stats.negative.n; i++, totals.failed++)
        printf("`%s` has a type with an extent below zero\n",
               ((const Op *)stats.negative.entries[i].key)->name);
    if (o.stats)
        stats_print(&stats);
    printf("%zu programs, %ld with a value, %ld compiled, %ld texts lost an annotation, %ld "
           "mistakes, %ld with metadata, %ld failed\n",
           stats.programs, totals.valued, totals.compiled, totals.lost, totals.mistaken,
           totals.metadata, totals.failed);
    stats_deinit(&stats);
    return totals.failed > 0;
}
