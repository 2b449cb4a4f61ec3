/* How fast large texts are read and printed, on one core.
 *
 *     speed [--size MB] [--rounds N] [--least MB/S] [FILE…]
 *
 * Without files, texts of the three kinds that programs of practice are made of: layers in graph form with attributes, one
 * long chain of lets, and small functions with branches and closures. Each is read and printed N times; the best processor
 * time of each counts, and what was printed must be the text. Megabytes are 10^6 bytes. The exit status is 1 when a text
 * comes back otherwise, or a speed is below the one asked for. */
#include "base/buf.h"
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

/* ---- measuring ------------------------------------------------------------------------------------------------------ */

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

typedef struct Speed {
    double read, print; /* seconds; the best so far */
    size_t held; /* bytes while a module and its text were there */
    bool same;
} Speed;

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
    double parsed = cpu_seconds();
    if (m)
        ir_print_module(&out, m, (PrintStyle){0});
    double printed = cpu_seconds();
    s->same = s->same && m && out.n == text->n && !memcmp(out.at, text->at, out.n);
    s->read = parsed - start < s->read ? parsed - start : s->read;
    s->print = printed - parsed < s->print ? printed - parsed : s->print;
    s->held = atomic_load(&cx.limits.memory);
    module_release(m);
    buf_deinit(&out);
    ctx_deinit(&cx);
}

static bool measure(const char *name, const Buf *text, int rounds, double least)
{
    Speed s = {.read = 1e9, .print = 1e9, .same = true};
    for (int i = 0; i < rounds; i++)
        one_round(name, text, &s);
    double mb = 1e-6 * (double)text->n;
    bool good = s.same && mb / s.read >= least && mb / s.print >= least;
    printf(
        "%-12s %7.1f MB   read %6.1f MB/s   print %6.1f MB/s   %5.1f bytes of module a byte%s%s\n",
        name, mb, mb / s.read, mb / s.print, (double)s.held / (double)text->n,
        s.same ? "" : "   comes back otherwise", good || !s.same ? "" : "   too slow");
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
    } kinds[] = {{"layers", layers}, {"lets", lets}, {"small", small}};
    double size = 8, least = 0;
    int rounds = 3, at = 1;
    bool good = true;
    for (; at + 1 < argc && argv[at][0] == '-'; at += 2) {
        double value = atof(argv[at + 1]);
        if (!strcmp(argv[at], "--size"))
            size = value;
        else if (!strcmp(argv[at], "--rounds"))
            rounds = (int)value;
        else if (!strcmp(argv[at], "--least"))
            least = value;
    }
    for (int i = at; i < argc; i++) {
        Buf text = {0};
        good &= read_file(argv[i], &text) && measure(argv[i], &text, rounds, least);
        buf_deinit(&text);
    }
    for (size_t k = 0; at >= argc && k < sizeof kinds / sizeof *kinds; k++) {
        Buf text = {0};
        buf_str(&text, "#[version = \"0.0.5\"]\n");
        kinds[k].make(&text, (size_t)(1e6 * size));
        good &= measure(kinds[k].name, &text, rounds, least);
        buf_deinit(&text);
    }
    return good ? 0 : 1;
}
