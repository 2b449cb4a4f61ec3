/* How long a cell goes on after it was told to end.
 *
 *     build/release/delay                     every operator on every engine, ended by an interrupt and by a time limit
 *     build/release/delay --engine jit sort   those whose name contains the word
 *     build/release/delay --every 4           each fourth operator
 *     build/release/delay --random 300        so many interrupts at random moments: of operators, of checking, passes, compiling and printing
 *
 * Each row is a cell that works for long. Another thread asks it to end within that time, and what is
 * measured is how long the answer takes: on the clock, and in time of the processor, since a machine that is busy with
 * other things makes the clock alone tell nothing. The lesser of the two must stay below the bound. What is late is asked once more, and
 * fails when it is late again. */
#include "base/buf.h"
#include "base/random.h"
#include "include/relay.h"

#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BOUND 0.1

static const struct Row {
    const char *name;
    const char *before; /* cells that bind what the last one works on, one a line */
    const char *cell;
} rows[] = {
#define FLOATS(shape) "ones(shape=" shape ", dtype=\"float32\")"
#define LINE "let %x = arange(0f, 40000000f, 1f, dtype=\"float32\");"
#define KEY "let %k = cast(arange(0, 10, 1, dtype=\"int32\"), dtype=\"uint64\");"
#define PLACES "let %i = cast(arange(0f, 16000000f, 1f, dtype=\"float32\"), dtype=\"int32\");"
    {"dense", "let %x = " FLOATS("[5000, 5000]") ";", "nn.dense(%x, %x, units=None)"},
    {"dense_float64", "let %x = ones(shape=[4000, 4000], dtype=\"float64\");",
     "nn.dense(%x, %x, units=None)"},
    {"dense_int", "let %x = ones(shape=[3000, 3000], dtype=\"int32\");",
     "nn.dense(%x, %x, units=None)"},
    {"dense_thin", "let %x = " FLOATS("[64, 1000000]") ";\nlet %y = " FLOATS("[30, 30000]") ";",
     "(nn.dense(%x, %x, units=None), nn.matmul(%y, %y, units=None, transpose_a=True))"},
    {"matmul", "let %x = " FLOATS("[5000, 5000]") ";",
     "nn.matmul(%x, %x, units=None, transpose_a=True)"},
    {"batch_matmul", "let %x = " FLOATS("[20, 2000, 2000]") ";", "nn.batch_matmul(%x, %x)"},
    {"conv2d",
     "let %x = " FLOATS("[4, 128, 224, 224]") ";\nlet %w = " FLOATS("[256, 128, 3, 3]") ";",
     "nn.conv2d(%x, %w, padding=[1, 1])"},
    {"conv2d_strided",
     "let %x = " FLOATS("[4, 128, 448, 448]") ";\nlet %w = " FLOATS("[256, 128, 3, 3]") ";",
     "nn.conv2d(%x, %w, strides=[2, 2])"},
    {"conv2d_depthwise",
     "let %x = " FLOATS("[8, 128, 448, 448]") ";\nlet %w = " FLOATS("[128, 1, 5, 5]") ";",
     "nn.conv2d(%x, %w, groups=128, padding=[2, 2])"},
    {"conv2d_transpose",
     "let %x = " FLOATS("[2, 128, 112, 112]") ";\nlet %w = " FLOATS("[64, 128, 3, 3]") ";",
     "nn.conv2d_transpose(%x, %w, strides=[2, 2])"},
    {"conv2d_weight_gradient",
     "let %x = " FLOATS("[4, 128, 112, 112]") ";\nlet %g = " FLOATS("[4, 128, 112, 112]") ";",
     "nn.conv2d_backward_weight(%g, %x, padding=[1, 1], kernel_size=[3, 3])"},
    {"conv3d",
     "let %x = " FLOATS("[1, 32, 32, 112, 112]") ";\nlet %w = " FLOATS("[64, 32, 3, 3, 3]") ";",
     "nn.conv3d(%x, %w)"},
    {"sort", LINE, "sort(negative(%x))"},
    {"argsort", LINE, "argsort(sin(%x))"},
    {"topk", LINE, "topk(sin(%x), k=100000)"},
    {"topk_few", LINE, "topk(%x, k=30)"},
    {"sort_across",
     "let %x = reshape(arange(0f, 40000000f, 1f, dtype=\"float32\"), newshape=[2000, 20000]);",
     "sort(%x, axis=0)"},
    {"cumsum", LINE, "cumsum(%x)"},
    {"cumsum_double", LINE, "cumsum(%x, dtype=\"float64\")"},
    {"cumprod", LINE, "cumprod(%x)"},
    {"cumsum_across", "let %x = " FLOATS("[4000, 10000]") ";", "cumsum(%x, axis=0)"},
    {"take", PLACES, "take(sin(sin(cast(%i, dtype=\"float32\"))), %i)"},
    {"gather", LINE "\n" PLACES, "gather(%x, %i, axis=0)"},
    {"gather_nd", LINE "\n" PLACES, "gather_nd(%x, reshape(%i, newshape=[1, 16000000]))"},
    {"scatter_elements", LINE "\n" PLACES,
     "scatter_elements(%x, %i, cast(%i, dtype=\"float32\"), axis=0)"},
    {"scatter_nd", LINE "\n" PLACES,
     "scatter_nd(%x, reshape(%i, newshape=[1, 16000000]), cast(%i, dtype=\"float32\"), "
     "mode=\"add\")"},
    {"transpose", "let %x = " FLOATS("[10000, 10000]") ";", "transpose(%x, axes=None)"},
    {"transpose_many", "let %x = " FLOATS("[100, 100, 100, 100]") ";",
     "transpose(%x, axes=[3, 1, 2, 0])"},
    {"einsum", "let %x = " FLOATS("[2000, 2000]") ";", "einsum((%x, %x), equation=\"ij,jk->ik\")"},
    {"einsum_three", "let %x = " FLOATS("[300, 300]") ";",
     "einsum((%x, %x, %x), equation=\"ij,jk,kl->il\")"},
    {"threefry", KEY, "random.threefry_generate(%k, out_shape=[40000000])"},
    {"random_uniform", KEY,
     "random.uniform(%k, 0f, 1f, out_shape=[40000000], out_dtype=\"float32\")"},
    {"random_normal", KEY,
     "random.normal(%k, 0f, 1f, out_shape=[40000000], out_dtype=\"float32\")"},
    {"unique", PLACES, "unique(%i)"},
    {"unique_unsorted", PLACES, "unique(%i, sorted=False)"},
    {"searchsorted", LINE, "searchsorted(%x, sin(%x))"},
    {"argwhere", LINE, "argwhere(%x)"},
    {"resize2d", "let %x = " FLOATS("[1, 64, 512, 512]") ";",
     "image.resize2d(%x, size=[2048, 2048], method=\"cubic\", roi=[0f, 0f, 0f, 0f])"},
    {"upsampling", "let %x = " FLOATS("[1, 64, 512, 512]") ";",
     "nn.upsampling(%x, scale_h=4f, scale_w=4f, method=\"bilinear\")"},
    {"nms",
     "let %b = concatenate((reshape(sin(arange(0f, 90000f, 1f, dtype=\"float32\")), newshape=[1, "
     "45000, 2]), "
     "reshape(multiply(arange(0f, 180000f, 1f, dtype=\"float32\"), 10f), newshape=[1, 45000, 4])), "
     "axis=2);\n"
     "let %n = full(45000, shape=[1], dtype=\"int32\");\n"
     "let %at = reshape(arange(0, 45000, 1, dtype=\"int32\"), newshape=[1, 45000]);",
     "vision.non_max_suppression(%b, %n, %at, -1, 0.9f, force_suppress=True, "
     "return_indices=False)"},
    {"all_class_nms",
     "let %b = reshape(multiply(arange(0f, 180000f, 1f, dtype=\"float32\"), 10f), newshape=[1, "
     "45000, 4]);\n"
     "let %s = reshape(sin(arange(0f, 9000000f, 1f, dtype=\"float32\")), newshape=[1, 200, "
     "45000]);",
     "vision.all_class_non_max_suppression(%b, %s, 45000i64, 0.9f, 0f)"},
    {"roi_align",
     "let %r = broadcast_to(reshape(stack((0f, 0f, 0f, 512f, 512f), axis=0), newshape=[1, 5]), "
     "shape=[1000, 5]);\n"
     "let %x = " FLOATS("[1, 64, 512, 512]") ";",
     "vision.roi_align(%x, %r, pooled_size=[2, 2], spatial_scale=1f)"},
    {"roi_pool",
     "let %r = broadcast_to(reshape(stack((0f, 0f, 0f, 512f, 512f), axis=0), newshape=[1, 5]), "
     "shape=[1000, 5]);\n"
     "let %x = " FLOATS("[1, 64, 512, 512]") ";",
     "vision.roi_pool(%x, %r, pooled_size=[2, 2], spatial_scale=1f)"},
    {"get_valid_counts",
     "let %b = reshape(sin(arange(0f, 60000000f, 1f, dtype=\"float32\")), newshape=[1, 10000000, "
     "6]);",
     "vision.get_valid_counts(%b, 0.1f)"},
    {"exp", LINE, "tan(exp(sin(exp(sin(cos(exp(sin(%x))))))))"},
    {"pow", LINE, "power(sin(%x), cos(%x))"},
    {"erf", LINE, "erf(erf(erf(erf(erf(%x)))))"},
    {"sum", "let %x = " FLOATS("[200, 300, 2000]") ";", "sum(exp(sin(exp(sin(%x)))), axis=[1])"},
    {"sum_all", LINE, "sum(exp(sin(exp(sin(%x)))))"},
    {"argmax", "let %x = " FLOATS("[40000, 2000]") ";", "argmax(sin(exp(%x)), axis=[0])"},
    {"softmax", "let %x = " FLOATS("[20, 4000000]") ";", "nn.softmax(%x)"},
    {"layer_norm", "let %x = " FLOATS("[40000, 2000]") ";\nlet %s = " FLOATS("[2000]") ";",
     "nn.layer_norm(%x, %s, %s)"},
    {"max_pool", "let %x = " FLOATS("[8, 64, 448, 448]") ";",
     "nn.max_pool2d(%x, pool_size=[5, 5], padding=[2, 2])"},
    {"cast", LINE,
     "cast(cast(cast(cast(%x, dtype=\"float16\"), dtype=\"float64\"), dtype=\"bfloat16\"), "
     "dtype=\"int8\")"},
    {"concatenate", LINE, "concatenate((%x, %x, %x, %x), axis=0)"},
    {"repeat", LINE, "repeat(%x, repeats=8, axis=0)"},
    {"tile", LINE, "tile(%x, reps=[8])"},
    {"one_hot", PLACES,
     "one_hot(strided_slice(%i, begin=[0], end=[4000000], strides=[1], axes=None), 1f, 0f, "
     "depth=60, axis=-1, dtype=\"float32\")"},
    {"reverse_sequence",
     "let %x = " FLOATS("[1000, 100000]") ";\nlet %n = full(500, shape=[100000], dtype=\"int64\");",
     "reverse_sequence(%x, %n, seq_axis=0, batch_axis=1)"},
    {"sparse_dense",
     "let %w = " FLOATS("[4000000]") ";\nlet %at = full(5, shape=[4000000], dtype=\"int32\");\n"
                                     "let %rows = multiply(arange(0, 4001, 1, dtype=\"int32\"), "
                                     "1000);\nlet %x = " FLOATS("[2000, 4000]") ";",
     "nn.sparse_dense(%x, %w, %at, %rows)"},
    {"matrix_set_diag", "let %x = " FLOATS("[10000, 10000]") ";\nlet %d = " FLOATS("[10000]") ";",
     "matrix_set_diag(%x, %d)"},
    {"arange", "", "arange(0f, 16000000f, 0.1f, dtype=\"float32\")"},
    {"printing", ":limit output none\nlet %x = arange(0f, 4000000f, 1f, dtype=\"float32\");",
     "sin(%x)"},
    {"equal", LINE, "(%x == %x, %x < sin(%x), logical_and(%x < %x, %x > %x))"},
    {"fold_constant", LINE,
     ":pass FoldConstant fn () { exp(sin(exp(sin(exp(sin(cos(exp(sin(arange(0f, 40000000f, 1f, "
     "dtype=\"float32\"))))))))))}"},
    {"fold_sort", "",
     ":pass FoldConstant fn () { sort(negative(arange(0f, 40000000f, 1f, dtype=\"float32\"))) }"},
    {"compile_clauses", "", "@f(C7(3))"},
    {"compile_lets", "let %x = " FLOATS("[3]") ";", "@g(%x)"},
    {"compile_branches", "", "@h(3)"},
};

enum { N_ROWS = sizeof rows / sizeof *rows };

/* Definitions before the cell of that name: pieces between head and tail, with their number for `#`. */
static const struct Long {
    const char *name, *head, *piece, *tail;
} longs[] = {
    {"compile_clauses", "type T { N, ", "C#(int32), ", "}"},
    {"compile_clauses", "def @f(%t: T) -> int32 { match? (%t) { ", "C#(%x) => add(%x, #), ", "} }"},
    {"compile_lets", "def @g(%x: Tensor[(3), float32]) -> Tensor[(3), float32] { ",
     "let %x = cumsum(nn.softmax(%x), axis=0); ", "%x }"},
    {"compile_branches", "def @h(%x: int32) -> int32 { let %y = %x; ",
     "let %y = if (%y == #) { multiply(%x, #) } else { if (%x < #) { add(%y, #) } else { %x } }; ",
     "%y }"},
};

#define PIECES 20000
/* ---- cells that are long as texts ---- */

/* On one line, as commands are. */
static void write_function(Buf *b, const char *head, unsigned lets, uint64_t draw)
{
    buf_printf(b, "%s(%%v0: Tensor[(4), float32]) { ", head);
    for (unsigned i = 1; i <= lets; i++)
        buf_printf(b, "let %%v%u = %s(multiply(%%v%u, %uf), %%v%u); ", i,
                   random_at(draw, i) % 3 ? "add" : "maximum", i - 1, i,
                   (unsigned)(random_at(draw, i) / 3 % i));
    buf_printf(b, "%%v%u }\n", lets);
}

static void write_check(Buf *b, uint64_t draw)
{
    write_function(b, "def @checked", 20000, draw);
}

static void write_pass(Buf *b, uint64_t draw)
{
    static const char *const pipelines[] = {"-O3",
                                            "FuseOps{fuse_opt_level=2}",
                                            "PartialEvaluate",
                                            "EliminateCommonSubexpr",
                                            "ToANormalForm,ToGraphNormalForm",
                                            "FirstOrderGradient",
                                            "DeadCodeElimination{inline_once=True}"};
    buf_printf(b, ":pass %s ", pipelines[draw % (sizeof pipelines / sizeof *pipelines)]);
    write_function(b, "fn ", 4000, draw);
}

static void write_compiled(Buf *b, uint64_t draw)
{
    write_function(b, "def @compiled", 2000, draw);
    buf_str(b, "@compiled(ones(shape=[4], dtype=\"float32\"))");
}

static void write_printed(Buf *b, uint64_t draw)
{
    buf_str(b, ":limit output none\n");
    write_function(b, "def @printed", 8000, draw);
    buf_str(b, ":show text @printed");
}

static const struct Text {
    const char *name;
    void (*write)(Buf *b, uint64_t draw);
} texts[] = {{"checking", write_check},
             {"a pass", write_pass},
             {"compiling", write_compiled},
             {"printing a program", write_printed}};

enum { N_TEXTS = sizeof texts / sizeof *texts };

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

typedef struct Call {
    RelaySession *s;
    double after;
    bool interrupts;
    double wall, cpu; /* when the cell was told to end; 0: it had ended before */
    bool ended;
    pthread_mutex_t lock;
    pthread_cond_t end;
} Call;

static void *tell_main(void *data)
{
    Call *c = data;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    long nanos = until.tv_nsec + (long)(c->after * 1e9);
    until.tv_sec += nanos / 1000000000;
    until.tv_nsec = nanos % 1000000000;
    pthread_mutex_lock(&c->lock);
    int status = 0;
    while (!c->ended && status == 0)
        status = pthread_cond_timedwait(&c->end, &c->lock, &until);
    if (!c->ended) {
        c->wall = seconds(CLOCK_MONOTONIC);
        c->cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        if (c->interrupts)
            relay_session_interrupt(c->s);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static const char *last_code;
static int short_ones; /* cells that ended by themselves */

static void note(void *data, const RelayOutput *out)
{
    bool *loud = data;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR)
        last_code = out->code;
    if (out->kind == RELAY_OUTPUT_DIAGNOSTIC && *loud)
        fwrite(out->mimes[0].data, 1, out->mimes[0].size, stdout);
}

static RelayStatus eval(RelaySession *s, const char *text, size_t len, bool loud)
{
    RelayCell cell = {.text = text, .len = len, .name = "delay"};
    last_code = NULL;
    return relay_session_eval(s, &cell, (RelaySink){note, &loud});
}

static void put(FILE *out, const char *text, int number)
{
    for (; *text; text++)
        if (*text == '#')
            fprintf(out, "%d", number);
        else
            fputc(*text, out);
}

static bool define(RelaySession *s, const struct Long *def)
{
    char *text = NULL;
    size_t n = 0;
    FILE *out = open_memstream(&text, &n);
    if (!out)
        return false;
    put(out, def->head, 0);
    for (int i = 0; i < PIECES; i++)
        put(out, def->piece, i);
    put(out, def->tail, 0);
    fclose(out);
    bool ok = eval(s, text, n, true) == RELAY_OK;
    free(text);
    return ok;
}

/* The cells before, which nothing ends. */
static bool prepare(RelaySession *s, const struct Row *row)
{
    for (size_t i = 0; i < sizeof longs / sizeof *longs; i++)
        if (strcmp(longs[i].name, row->name) == 0 && !define(s, &longs[i]))
            return false;
    for (const char *at = row->before, *end; *at; at = *end ? end + 1 : end) {
        end = at + strcspn(at, "\n");
        if (eval(s, at, (size_t)(end - at), true) != RELAY_OK)
            return false;
    }
    return true;
}

static bool measure(const struct Row *row, const char *engine, double after, bool interrupts)
{
    RelaySession *s = relay_session_new(&(RelayOptions){.engine = engine});
    if (!prepare(s, row)) {
        printf("%s: a cell before fails\n", row->name);
        relay_session_free(s);
        return false;
    }
    char limit[30];
    snprintf(limit, sizeof limit, "%g", after);
    relay_session_set(s, "time_limit", interrupts ? "none" : limit);
    Call c = {.s = s, .after = after, .interrupts = interrupts};
    pthread_mutex_init(&c.lock, NULL);
    pthread_cond_init(&c.end, NULL);
    pthread_t teller;
    pthread_create(&teller, NULL, tell_main, &c);
    RelayStatus status = eval(s, row->cell, strlen(row->cell), getenv("DELAY_LOUD") != NULL);
    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    pthread_mutex_lock(&c.lock);
    c.ended = true;
    pthread_cond_signal(&c.end);
    pthread_mutex_unlock(&c.lock);
    pthread_join(teller, NULL);
    pthread_cond_destroy(&c.end);
    pthread_mutex_destroy(&c.lock);
    relay_session_free(s);
    double delay = wall - c.wall < cpu - c.cpu ? wall - c.wall : cpu - c.cpu;
    /* What ends by itself in that moment was not told. */
    bool told = c.wall > 0 && !(status == RELAY_OK && delay < BOUND), good = told && delay < BOUND;
    const char *wanted = interrupts ? "E0501" : "E0502";
    if (told && (status != RELAY_LIMIT || !last_code || strcmp(last_code, wanted) != 0)) {
        printf("%-24s %-7s %-9s ended with status %d, %s\n", row->name, engine,
               interrupts ? "interrupt" : "time", (int)status, last_code ? last_code : "no error");
        return false;
    }
    if (told)
        printf("%-24s %-7s %-9s after %3.0f ms: %5.1f ms%s\n", row->name, engine,
               interrupts ? "interrupt" : "time", after * 1e3, delay * 1e3,
               good ? "" : "  TOO LATE");
    else
        printf("%-24s %-7s %-9s had ended before, with %s\n", row->name, engine,
               interrupts ? "interrupt" : "time", last_code ? last_code : "no error");
    fflush(stdout);
    short_ones += !told;
    return good || (!told && (!last_code || strcmp(last_code, wanted) == 0));
}

static bool in_time(const struct Row *row, const char *engine, double after, bool interrupts)
{
    return measure(row, engine, after, interrupts) || measure(row, engine, after, interrupts);
}

/* Half of them while an operator works; after 2 to 300 ms. */
static int interrupt_at_random(int n, uint64_t seed, const char *const *engines)
{
    int failed = 0;
    for (int i = 0; i < n; i++) {
        uint64_t draw = random_at(seed, (uint64_t)i);
        double part = (double)(random_at(draw, 0) % 1000) / 1000;
        Buf cell = {0};
        struct Row row = rows[random_at(draw, 1) % N_ROWS];
        if (draw % 2) {
            const struct Text *one = &texts[random_at(draw, 2) % N_TEXTS];
            one->write(&cell, random_at(draw, 3));
            row = (struct Row){one->name, "", buf_text(&cell)};
        }
        failed += !in_time(&row, engines[random_at(draw, 4) % 2], 0.002 * pow(150, part), true);
        buf_deinit(&cell);
    }
    printf("%d of %d interrupts too late, %d cells ended by themselves\n", failed, n, short_ones);
    return failed > 0 || 2 * short_ones > n;
}

int main(int argc, char **argv)
{
    const char *engines[] = {"interp", "jit"}, *only = NULL, *word = "";
    size_t every = 1;
    int random = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--engine") == 0 && i + 1 < argc)
            only = argv[++i];
        else if (strcmp(argv[i], "--every") == 0 && i + 1 < argc && atoi(argv[i + 1]) > 0)
            every = (size_t)atoi(argv[++i]);
        else if (strcmp(argv[i], "--random") == 0 && i + 1 < argc)
            random = atoi(argv[++i]);
        else
            word = argv[i];
    }
    if (random > 0)
        return interrupt_at_random(random, 7, engines);
    int failed = 0, all = 0;
    for (size_t i = 0; i < N_ROWS; i += every)
        for (int e = 0; e < 2; e++) {
            if (!strstr(rows[i].name, word) || (only && strcmp(only, engines[e]) != 0))
                continue;
            failed += !in_time(&rows[i], engines[e], 0.1, true);
            failed += !in_time(&rows[i], engines[e], 0.06, false);
            all += 2;
        }
    printf("%d of %d failed, %d ended by themselves\n", failed, all, short_ones);
    return failed > 0 || 2 * short_ones > all;
}
