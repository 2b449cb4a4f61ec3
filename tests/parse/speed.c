/* How fast large texts, and the saved graphs of the same programs, are read and printed, on one core.
 *
 *     speed [--size MB] [--graph MB] [--rounds N] [--least MB/S] [FILE…]
 *
 * Without files, texts of the kinds that programs of practice are made of: layers in graph form with attributes, one
 * long chain of lets, small functions with branches and closures, and weights in the metadata. Each is read and printed N
 * times; the best processor time of each counts, and what was printed must be the text. With --graph each is also written as a
 * graph and read, and has the size at which its graph has so many megabytes. Megabytes are 10^6 bytes. The exit status is 1 when a text comes back
 * otherwise, or a speed is below the one asked for. */
#include "base/buf.h"
#include "ir/json_read.h"
#include "ir/json_write.h"
#include "ir/print.h"
#include "parser/parser.h"
#include "stdlib/stdlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- texts ------------------------------------------------------------------------------------------------------ */

static void lets(Buf *b, size_t size)
{
    unsigned i = 0;
    buf_str(b, "def @main(%x: Tensor[(3), float32]) -> Tensor[(3), float32] {\n");
    buf_str(b, "  let %x0: Tensor[(3), float32] = exp(%x);\n");
    for (; b->n < size; i++)
        buf_printf(b, "  let %%x%u: Tensor[(3), float32] = add(%%x%u, 1f);\n", i + 1, i);
    buf_printf(b, "  %%x%u\n}\n", i);
}

/* Graph variables are numbered through the whole text, and a name of a variable stands once in it. */
static void layers(Buf *b, size_t size)
{
    static const char shape[] = "Tensor[(1, 64, 56, 56), float32]";
    unsigned n = 0;
    for (unsigned f = 0; b->n < size; f++) {
        buf_printf(b, "%sdef @layer%08u(%%x%u: %s, %%w%u: Tensor[(64, 64, 3, 3), float32], ",
                   f ? "\n" : "", f, f, shape, f);
        buf_printf(b, "%%b%u: Tensor[(64), float32]) -> %s {\n", f, shape);
        for (unsigned k = 0; k < 8; k++, n += 4) {
            char before[16];
            snprintf(before, sizeof before, k ? "%%%u" : "%%x%u", k ? n - 1 : f);
            buf_printf(b, "  %%%u = nn.conv2d(%s, %%w%u, ", n, before, f);
            buf_str(b, "padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3]);\n");
            buf_printf(b, "  %%%u = nn.bias_add(%%%u, %%b%u);\n", n + 1, n, f);
            buf_printf(b, "  %%%u = reshape(%%%u, newshape=[1, 64, 56, 56]);\n", n + 2, n + 1);
            buf_printf(b, "  %%%u = add(%%%u, %s);\n", n + 3, n + 2, before);
        }
        buf_printf(b, "  nn.relu(%%%u)\n}\n", n - 1);
    }
}

static void small(Buf *b, size_t size)
{
    for (unsigned f = 0, n = 0; b->n < size; f++, n += 5)
        buf_printf(b,
                   "%sdef @f%08u(%%a%u: int32) -> float32 {\n"
                   "  %%%u = greater(%%a%u, %u);\n"
                   "  if (%%%u) {\n"
                   "    let %%y%u = subtract(%%a%u, 1);\n"
                   "    let %%g%u = fn (%%q%u: int32) -> int32 {\n"
                   "      add(%%q%u, %%y%u)\n"
                   "    };\n"
                   "    %%%u = (%%y%u, %%a%u);\n"
                   "    %%%u = %%%u.0;\n"
                   "    %%%u = %%g%u(%%%u);\n"
                   "    cast(%%%u, dtype=\"float32\")\n"
                   "  } else {\n"
                   "    let %%r%u = ref(2.5f);\n"
                   "    %%%u = ref_read(%%r%u);\n"
                   "    negative(%%%u)\n"
                   "  }\n"
                   "}\n",
                   f ? "\n" : "", f, f, n, f, f % 1000, n, f, f, f, f, f, f, n + 1, f, f, n + 2,
                   n + 1, n + 3, f, n + 2, n + 3, f, n + 4, f, n + 4);
}

static void weights(Buf *b, size_t size)
{
    static const char before[] =
        "meta[relay.Constant][0]\n\n#[metadata]\n"
        "{\n  \"root\": 1, \n  \"nodes\": [\n"
        "    {\n      \"type_key\": \"\"\n    }, \n"
        "    {\n      \"type_key\": \"Map\", \n      \"keys\": [\n"
        "        \"relay.Constant\"\n      ], \n      \"data\": [2]\n    }, \n"
        "    {\n      \"type_key\": \"Array\", \n      \"data\": [3]\n    }, \n"
        "    {\n      \"type_key\": \"relay.Constant\", \n      \"attrs\": {\n"
        "        \"_checked_type_\": \"0\", \n        \"data\": \"0\", \n"
        "        \"span\": \"0\", \n        \"virtual_device_\": \"4\"\n      }\n"
        "    }, \n    {\n      \"type_key\": \"VirtualDevice\", \n"
        "      \"attrs\": {\n        \"device_type_int\": \"-1\", \n"
        "        \"memory_scope\": \"5\", \n        \"target\": \"0\", \n"
        "        \"virtual_device_id\": \"-1\"\n      }\n    }, \n"
        "    {\n      \"type_key\": \"runtime.String\"\n    }\n  ], \n"
        "  \"b64ndarrays\": [\n    \"",
                      after[] = "\"\n  ], \n  \"attrs\": {\"tvm_version\": \"0.9.0\"}\n}\n";
    int64_t n = (int64_t)(size / 4 * 3 / 4) + 1;
    Tensor *t = tensor_new(NULL, dtype_of(DT_FLOAT32), 1, &n);
    for (int64_t i = 0; t && i < n; i++)
        ((uint32_t *)t->data)[i] = (uint32_t)i * 2654435761u;
    buf_str(b, before);
    if (t)
        tensor_write_base64(b, t);
    buf_str(b, after);
    tensor_release(t);
}

/* ---- measuring ------------------------------------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Speed {
    double read, print, read_graph, write_graph; /* seconds; the best so far */
    size_t graph; /* bytes */
    bool with_graph;
    size_t held; /* bytes while a module and its text were there */
    bool same;
} Speed;

static void keep_best(double *best, double start)
{
    double seconds = cpu_seconds() - start;
    *best = seconds < *best ? seconds : *best;
}

static bool is_text(const Module *m, const Buf *text)
{
    Buf out = {0};
    if (m)
        ir_print_module(&out, m, (PrintStyle){0});
    bool same = m && out.n == text->n && !memcmp(out.at, text->at, out.n);
    buf_deinit(&out);
    return same;
}

static void graph_round(Ctx *cx, const Module *m, const Buf *text, Speed *s)
{
    Buf json = {0};
    double start = cpu_seconds();
    graph_write_module(&json, cx, m);
    keep_best(&s->write_graph, start);
    s->graph = json.n;
    uint32_t source = sources_add(&cx->sources, "graph", buf_text(&json), json.n);
    buf_deinit(&json);
    start = cpu_seconds();
    Module *again = graph_read_module(cx, source, (GraphImport){0});
    keep_best(&s->read_graph, start);
    s->same = s->same && is_text(again, text);
    module_release(again);
}

static void one_round(const char *name, const Buf *text, Speed *s)
{
    Ctx cx;
    Buf out = {0};
    Module *m = NULL;
    if (!ctx_init(&cx, &stdlib_ops)) {
        s->same = false;
        return;
    }
    limits_start(&cx.limits);
    uint32_t source = sources_add(&cx.sources, name, text->at, text->n);
    double start = cpu_seconds();
    m = parse_text(&cx, source, NULL);
    keep_best(&s->read, start);
    start = cpu_seconds();
    if (m)
        ir_print_module(&out, m, (PrintStyle){0});
    keep_best(&s->print, start);
    s->same = s->same && m && out.n == text->n && !memcmp(out.at, text->at, out.n);
    s->held = atomic_load(&cx.limits.memory);
    buf_deinit(&out);
    if (m && s->with_graph)
        graph_round(&cx, m, text, s);
    module_release(m);
    ctx_deinit(&cx);
}

static bool measure(const char *name, const Buf *text, bool with_graph, int rounds, double least)
{
    Speed s = {.read = 1e9, .print = 1e9, .read_graph = 1e9, .write_graph = 1e9, .same = true};
    s.with_graph = with_graph;
    for (int i = 0; i < rounds; i++)
        one_round(name, text, &s);
    double mb = 1e-6 * (double)text->n, graph = 1e-6 * (double)s.graph;
    bool good = s.same && mb / s.read >= least && mb / s.print >= least &&
                (!with_graph || (graph / s.read_graph >= least && graph / s.write_graph >= least));
    printf(
        "%-12s %7.1f MB   read %6.1f MB/s   print %6.1f MB/s   %5.1f bytes of module a byte%s%s\n",
        name, mb, mb / s.read, mb / s.print, (double)s.held / (double)text->n,
        s.same ? "" : "   comes back otherwise", good || !s.same ? "" : "   too slow");
    if (with_graph)
        printf("  as a graph %7.1f MB   read %6.1f MB/s   print %6.1f MB/s   read in %.2f s\n",
               graph, graph / s.read_graph, graph / s.write_graph, s.read_graph);
    return good;
}

static bool read_file(const char *path, Buf *out)
{
    char piece[65536];
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;)
        buf_bytes(out, piece, n);
    fclose(f);
    return true;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*make)(Buf *b, size_t size);
        double graph; /* bytes of its graph a byte of its text, about */
    } kinds[] = {
        {"layers", layers, 21}, {"lets", lets, 20}, {"small", small, 20}, {"weights", weights, 1}};
    double size = 8, graph = 0, least = 0;
    int rounds = 3, at = 1;
    bool good = true;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        double value = atof(argv[at + 1]);
        if (!strcmp(argv[at], "--size"))
            size = value;
        else if (!strcmp(argv[at], "--graph"))
            graph = value;
        else if (!strcmp(argv[at], "--rounds"))
            rounds = (int)value;
        else if (!strcmp(argv[at], "--least"))
            least = value;
    }
    for (int i = at; i < argc; i++) {
        Buf text = {0};
        good &= read_file(argv[i], &text) && measure(argv[i], &text, graph > 0, rounds, least);
        buf_deinit(&text);
    }
    for (size_t k = 0; at >= argc && k < sizeof kinds / sizeof *kinds; k++) {
        Buf text = {0};
        buf_str(&text, "#[version = \"0.0.5\"]\n");
        kinds[k].make(&text, (size_t)(1e6 * (graph > 0 ? graph / kinds[k].graph : size)));
        good &= measure(kinds[k].name, &text, graph > 0, rounds, least);
        buf_deinit(&text);
    }
    return good ? 0 : 1;
}
