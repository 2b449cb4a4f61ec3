/* A session over many different cells: what they leave behind, and what `:reset` gives back.
 *
 *     build/release/cells interp 20000
 *     build/release/cells requests        programs that are run whole, whose code is kept in files
 *
 * What counts is what the allocator has given out, which no other program on the machine changes. After the first thousand cells the
 * session knows all kinds of them; from there on it may grow by a twentieth of the memory that the process has then. */
#include "tests/unit/check.h"
#include "include/relay.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { FIRST = 1000 };

static void drop(void *data, const RelayOutput *out)
{
    (void)data, (void)out;
}

/* One of many kinds of cell, with numbers and names that vary. */
static void write_cell(char *text, size_t size, unsigned i)
{
    unsigned n = i * 2654435761u >> 16, a = 1 + n % 7, b = 1 + n / 7 % 5;
    switch (i % 18) {
    case 0: snprintf(text, size, "%u + %u * %u", n, a, b); break;
    case 1:
        snprintf(text, size, "let %%x%u = ones(shape=[%u, %u], dtype=\"float32\");", a, a, b);
        break;
    case 2: snprintf(text, size, "def @f%u(%%n: int32) -> int32 { %%n * %u }", a, n); break;
    case 3:
        snprintf(text, size,
                 "def @g(%%n: int32) -> int32 { @h(%%n) + %u }\ndef @h(%%n: int32) -> int32 { %u }",
                 n, a);
        break;
    case 4:
        snprintf(text, size, "@map(fn (%%v: int32) { %%v + %u }, Cons(%u, Cons(2, Nil)))", n, a);
        break;
    case 5:
        snprintf(text, size,
                 "type Shape%u { Circle%u(float32), Square%u(Tensor[(%u), float32]), Dot%u }", a, a,
                 a, b, a);
        break;
    case 6: snprintf(text, size, "let %%count = 0; let %%count = %%count + %u; %%count", n); break;
    case 7:
        snprintf(text, size, "let %%k%u = fn (%%n: int32) { @f1(%%n) + %u }; %%k%u(3)", a, n, a);
        break;
    case 8: snprintf(text, size, "%%nothing%u + %u", a, n); break;
    case 9: snprintf(text, size, "add(ones(shape=[%u], dtype=\"float32\"), 1)", a); break;
    case 10:
        snprintf(text, size, ":type fn (%%a: Tensor[(%u, %u), float32]) { nn.relu(%%a) }", a, b);
        break;
    case 11:
        snprintf(text, size,
                 "def @poly%u[A, B](%%a: A, %%b: B) -> (B, A) { (%%b, %%a) }\n@poly%u(%u, True)", a,
                 a, n);
        break;
    case 12: snprintf(text, size, "let %%total = %u;", n); break;
    case 13: snprintf(text, size, "let %%total = %%total + %u;", a); break;
    case 14:
        snprintf(text, size,
                 ":explain types nn.dense(ones(shape=[%u, 4], dtype=\"float32\"), ones(shape=[%u, "
                 "4], dtype=\"float32\"), units=%u)",
                 a, b, b);
        break;
    case 15: snprintf(text, size, "sum(ones(shape=[%u], dtype=\"float32\"))", 1 + n % 5000); break;
    case 16:
        snprintf(text, size, "type Row { Row%u(Tensor[(%u), float32]), Empty }", a, 1 + n % 5000);
        break;
    default:
        snprintf(text, size, "/* %u */ let %%t = (%u, (%u, True)); (%%t.1).0\n:defs", n, a, b);
        break;
    }
}

static void run(RelaySession *s, const char *text, unsigned i)
{
    char name[20];
    snprintf(name, sizeof name, "In[%u]", i);
    RelayCell cell = {.text = text, .len = strlen(text), .name = name};
    relay_session_eval(s, &cell, (RelaySink){drop, NULL});
}

/* What the allocator and tables that grew may keep; a session that gave nothing back holds six times as much. */
#define SLACK ((size_t)128 << 10)

static size_t held(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

static size_t resident(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*u %lu", &pages) != 1)
        pages = 0;
    if (file)
        fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* It calls itself at ever other shapes, so that its code is made when it is called. */
static const char program[] =
    "#[version = \"0.0.5\"]\n"
    "def @main(%n: int32, %x: Tensor[(?), int32]) -> int32 {\n"
    "  if (%n == 0) { sum(%x) }\n"
    "  else { @main(%n - 1, concatenate((%x, ones(shape=[2], dtype=\"int32\")), axis=0)) }\n"
    "}\n";

static const char arguments[] = "[{\"dtype\": \"int32\", \"shape\": [], \"data\": [2]}, "
                                "{\"dtype\": \"int32\", \"shape\": [2], \"data\": [3, 4]}]\n";

/* What is known of a program goes with it. */
static int run_requests(void)
{
    enum { SOON = 20, LATE = 120 };
    char folder[] = "/tmp/relay-cells-XXXXXX", args[60], remove[60];
    CHECK(mkdtemp(folder) && !setenv("XDG_CACHE_HOME", folder, 1) &&
          !setenv("RELAY_CACHE", "on", 1));
    snprintf(args, sizeof args, "%s/args.json", folder);
    FILE *file = fopen(args, "w");
    CHECK(file && fputs(arguments, file) >= 0 && fclose(file) == 0);
    const RelayParam params[] = {{"exec", "jit"}, {"args", args}};
    const RelayRequest request = {.stage = "run",
                                  .text = program,
                                  .len = strlen(program),
                                  .name = "a.rly",
                                  .params = params,
                                  .n_params = sizeof params / sizeof *params};
    RelaySession *s = relay_session_new(&(RelayOptions){.threads = 1});
    size_t soon = 0;
    for (unsigned i = 1; i <= LATE; i++) {
        CHECK(relay_session_stage(s, &request, (RelaySink){drop, NULL}) == RELAY_OK);
        soon = i == SOON ? held() : soon;
    }
    printf("%zu KB after %d requests, %zu KB after %d\n", soon >> 10, SOON, held() >> 10, LATE);
    if (soon > 0)
        CHECK(held() < soon + SLACK);
    relay_session_free(s);
    snprintf(remove, sizeof remove, "rm -r %s", folder);
    CHECK(system(remove) == 0);
    return check_done();
}

int main(int argc, char **argv)
{
    const char *engine = argc > 1 ? argv[1] : "interp";
    if (!strcmp(engine, "requests"))
        return run_requests();
    unsigned cells = argc > 2 ? (unsigned)atoi(argv[2]) : 3 * FIRST;
    char text[500];
    RelaySession *s = relay_session_new(&(RelayOptions){.threads = 1, .engine = engine});
    size_t fresh = 0, first = 0, process = 0;
    for (unsigned i = 1; i <= cells; i++) {
        write_cell(text, sizeof text, i);
        run(s, text, i);
        fresh = i == 1 ? held() : fresh;
        if (i == FIRST) {
            first = held();
            process = resident();
        }
    }
    size_t last = held();
    printf("%zu KB after one cell, %zu KB after %d, %zu KB after %u; %zu KB resident\n",
           fresh >> 10, first >> 10, FIRST, last >> 10, cells, process >> 10);
    /* A sanitizer's allocator tells nothing. */
    if (first > 0)
        CHECK(last < first + process / 20);
    run(s, ":reset", cells + 1);
    run(s, "1 + 1", cells + 2);
    printf("%zu KB after :reset\n", held() >> 10);
    if (first > 0)
        CHECK(held() < fresh + SLACK);
    relay_session_free(s);
    return check_done();
}
