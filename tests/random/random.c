/* Random well-typed programs, each examined; the first that lacks a property is made small and shown.
 *
 *     random [--count N] [--from SEED] [--size S] [--jit EVERY] [--passes MOST] [--mistakes] [--stats] [--show]
 *            [--no-shrink] [--go-on]
 *     random --symbolic [--from SEED]
 *     random --gpu OPERATOR|all [--from SEED]
 *     random --graphs [--count N] [--from SEED]
 *     random --cells [--count N] [--from SEED] [--jit EVERY]
 *     random --data [--count N] [--from SEED] [--jit EVERY]
 *     random --derivatives [--count N] [--from SEED] [--jit EVERY]
 *     random --higher [--count N] [--from SEED] [--jit EVERY]
 *
 * `--mistakes` makes one in the text of each program, which must then be refused. `--jit 5` compares every fifth program with the JIT's value; `--show` prints the programs. Each program meets one
 * pass; with `--passes 8` up to eight, one after the other, and after each its value is the same. With `--graphs`
 * each goes through a saved graph, and its text must be the same; with `--cells` it
 * is entered in sessions, and with `--data` it is one of data types that hold functions, of references and of patterns that lie in each
 * other. With `--derivatives` it has such, as `grad(fn …)`, and what is examined is what they stand for. With `--higher` it is
 * one of functions of higher rank, whose types may be refused. */
#include "tests/random/examine.h"

#include "base/plugin.h"
#include "base/random.h"
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
    int size, passes;
    const char *gpu; /* the operator, or `all` */
    bool stats, show, no_shrink, go_on, mistakes, symbolic, graphs, cells, data, derivatives,
        higher;
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
        else if (!strcmp(argv[i], "--gpu") && i + 1 < argc)
            o->gpu = argv[++i];
        else if (!strcmp(argv[i], "--graphs"))
            o->graphs = true;
        else if (!strcmp(argv[i], "--cells"))
            o->cells = true;
        else if (!strcmp(argv[i], "--data"))
            o->data = true;
        else if (!strcmp(argv[i], "--derivatives"))
            o->derivatives = true;
        else if (!strcmp(argv[i], "--higher"))
            o->higher = true;
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
        else if (!strcmp(argv[i], "--passes") && ++i < argc)
            o->passes = atoi(value);
        else if (!strcmp(argv[i], "--jit") && ++i < argc)
            o->jit = atol(value);
        else
            return false;
    }
    return o->passes == 0 || (o->passes > 1 && o->passes <= PASSES_MOST);
}

/* With its constants: a file that shows the fault. */
static void print_module(const char *title, const Module *m)
{
    Buf text = {0};
    ir_print_module(&text, m, (PrintStyle){0});
    printf("%s\n%s", title, buf_text(&text));
    buf_deinit(&text);
}

#define SUPPORTED \
    "supported={\"acc\": [\"add\", \"multiply\", \"nn.relu\", \"split\", \"where\", \"exp\"]}"

/* With parameters, or such that mean something together only. */
static const char *const pipelines[] = {
    "EtaExpand{expand_constructor=True, expand_global_var=True}",
    "DeadCodeElimination{inline_once=True}",
    "FoldConstant{fold_qnn=True}",
    "FuseOps{fuse_opt_level=0}",
    "FuseOps{fuse_opt_level=1}",
    "FuseOps{fuse_opt_level=2}",
    "FuseOps{fuse_opt_level=2},Inline",
    "AnnotateTarget{targets=[\"acc\"], " SUPPORTED "}",
    "AnnotateTarget{targets=[\"acc\"], " SUPPORTED "},MergeCompilerRegions,PartitionGraph",
    "AnnotateTarget{targets=[\"acc\"], " SUPPORTED
    ", include_non_call_ops=False},PartitionGraph{bind_constants=False}",
    ("ConvertLayout{desired_layouts={\"nn.conv2d\": [\"NHWC\", \"default\"], \"nn.max_pool2d\": "
     "[\"NHWC\"]}}"),
    "ToANormalForm,FuseOps",
    "-O0",
    "-O1",
    "-O2",
    "-O3",
};
#define PIPELINES (sizeof pipelines / sizeof *pipelines)

/* Without parameters EtaExpand says that it has nothing to do. */
static bool stands_alone(const Pass *pass)
{
    return !pass->other_values && strcmp(pass->name, "EtaExpand") != 0;
}

/* All that keep values, then the pipelines. */
static const char *pass_at(uint64_t i)
{
    size_t n = 0;
    for (size_t k = 0; passes[k]; k++)
        n += stands_alone(passes[k]);
    i %= n + PIPELINES;
    if (i >= n)
        return pipelines[i - n];
    for (size_t k = 0;; k++)
        if (stands_alone(passes[k]) && i-- == 0)
            return passes[k]->name;
}

/* Each program meets one of them in turn, or up to so many in a random order. */
static void choose_passes(Examiner *x, const Options *o, uint64_t seed)
{
    x->n_passes = o->passes ? 2 + random_at(~seed, 0) % (uint64_t)(o->passes - 1) : 1;
    for (size_t i = 0; i < x->n_passes; i++)
        x->passes[i] = pass_at(o->passes ? random_at(~seed, i + 1) : seed);
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
        print_module("the program:", m);
    if (o->no_shrink || o->graphs || o->cells)
        return;
    shrink_passes(x, m, bad);
    Module *least = shrink(x, m, bad);
    shrink_passes(x, least, bad);
    printf("the smallest program:\n// RUN: relay opt -p '");
    for (size_t i = 0; i < x->n_passes; i++)
        printf("%s%s", i ? "," : "", x->passes[i]);
    print_module("' %s", least);
    examine(x, least);
    printf("%s\n", buf_text(&x->what));
    module_release(least);
}

typedef struct Totals {
    long failed, valued, compiled, lost, went, exactly, refused, mistaken, metadata;
} Totals;

static const char *examine_as_cells(Examiner *x, Module *m, const Options *o, uint64_t seed,
                                    bool jit)
{
    Module *other =
        random_program(&x->cx, (RandomOptions){seed + 1, o->size, o->data, false, false}, NULL);
    const char *bad = examine_cells(x, m, other, jit);
    module_release(other);
    return bad;
}

static void examine_one(const Options *o, uint64_t seed, const JitTable *jit, RandomStats *stats,
                        Totals *totals)
{
    Examiner x;
    if (!examiner_init(&x, jit)) {
        totals->failed++;
        return;
    }
    choose_passes(&x, o, seed);
    x.may_refuse = o->higher;
    x.cx.limits.seconds_most = 30;
    limits_start(&x.cx.limits);
    Module *m = random_program(
        &x.cx, (RandomOptions){seed, o->size, o->data, o->derivatives, o->higher}, stats);
    if (o->show && o->count == 1 && !o->graphs)
        print_module("", m);
    const char *bad = NULL;
    if (o->graphs)
        bad = examine_graph(&x, m, seed);
    else if (o->cells)
        bad = examine_as_cells(&x, m, o, seed, jit != NULL);
    else
        bad = examine(&x, m);
    if (o->show && o->count == 1 && o->graphs)
        print_module("", m);
    if (o->cells && o->show)
        printf("seed %llu: %s", (unsigned long long)seed, buf_text(&x.what));
    totals->lost += (long)x.lost;
    totals->exactly += (long)x.exactly;
    totals->refused += (long)x.refused;
    totals->went += (long)x.went;
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
        fputs("usage: random [--count N] [--from SEED] [--size S] [--jit EVERY] [--passes MOST] "
              "[--stats] "
              "[--show]\n",
              stderr);
        return 2;
    }
    Ctx cx;
    if (o.symbolic && ctx_init(&cx, &stdlib_ops)) {
        long wrong = check_symbolic(&cx, o.from);
        ctx_deinit(&cx);
        return wrong > 0;
    }
    if (o.gpu && ctx_init(&cx, &stdlib_ops)) {
        long wrong = check_gpu(&cx, o.from, strcmp(o.gpu, "all") ? o.gpu : NULL);
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
    printf("%zu programs, %ld with a value, %ld compiled, %ld went through pipelines, %ld texts "
           "lost an annotation, %ld compared exactly, %ld refused, %ld mistakes, %ld "
           "with metadata, %ld failed\n",
           stats.programs, totals.valued, totals.compiled, totals.went, totals.lost, totals.exactly,
           totals.refused, totals.mistaken, totals.metadata, totals.failed);
    stats_deinit(&stats);
    return totals.failed > 0;
}
