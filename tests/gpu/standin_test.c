/* The stand-in for the driver, by itself: what LLVM made of kernels.h must compute what the same text computes here, and the
 * programs of ptx/ what their first lines say:
 *
 *     // buffer x f32 1 2 3 4     a buffer with these elements; `*8` in their place: eight that nobody has set
 *     // run add<2, 32> x y u32:8 the kernel's blocks and threads (x, or x/y/z), a third number is shared memory; its values
 *     // => y 2 4 6 8             elements of a buffer behind it
 *     // => fails 700 outside     what the driver says, and a part of what the stand-in's log says
 *     // refused line 12: …       of the whole text: why it is not taken */
#include "tests/gpu/standin/standin.h"
#include "tests/unit/check.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#define CUDA_ENTRY(field, symbol, parameters) int symbol parameters;
#include "runtime/cuda.def"
#undef CUDA_ENTRY

#include "tests/gpu/kernels.h"

static char log_path[] = "/tmp/standin-XXXXXX";

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    size_t n = (size_t)ftell(f);
    rewind(f);
    char *text = calloc(1, n + 1);
    n = fread(text, 1, n, f);
    fclose(f);
    return text;
}

static void *load(const char *text, char *log, size_t room)
{
    int options[2] = {5, 6};
    void *values[2] = {log, (void *)(uintptr_t)room}, *module = NULL;
    int code = cuModuleLoadDataEx(&module, text, 2, options, values);
    return code ? NULL : module;
}

/* ---- kernels.h ------------------------------------------------------------------------------------------------------ */

enum { THREADS = 192, MOST_RESULTS = 16 };

static uint64_t seed = 88172645463325252u;

static uint64_t next_bits(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    return seed ^= seed << 17;
}

static double sample(int i)
{
    static const double some[] = {0.0,      -0.0,      1,   -1,    0.5,  2.5,   -3.5,
                                  INFINITY, -INFINITY, NAN, 1e-40, 3e38, 1e300, 7e9};
    if (i % 3 == 0)
        return some[next_bits() % (sizeof some / sizeof *some)];
    double x = (double)(int64_t)next_bits() * 0x1p-63;
    return i % 3 == 1 ? x * 50 : x * 1e6;
}

/* Fills the operands of a kernel: `kind` is that of Type. */
static void fill(char kind, size_t width, void *to)
{
    for (int i = 0; i < THREADS; i++) {
        double x = sample(i);
        uint64_t bits =
            i % 4 ? next_bits() >> next_bits() % 60 : (uint64_t)(i - 90) * (uint64_t)(i % 5);
        float f = (float)x;
        if (kind == 'f')
            memcpy(&bits, width == 4 ? (void *)&f : (void *)&x, width);
        memcpy((char *)to + width * (size_t)i, &bits, width);
    }
}

static bool equal(char kind, size_t width, const void *a, const void *b)
{
    double x[2];
    float f[2];
    if (!memcmp(a, b, width))
        return true;
    if (kind != 'f')
        return false;
    memcpy(f, a, 4);
    memcpy(f + 1, b, 4);
    x[0] = f[0];
    x[1] = f[1];
    if (width == 8) {
        memcpy(x, a, 8);
        memcpy(x + 1, b, 8);
    }
    return isnan(x[0]) && isnan(x[1]);
}

static void compare(void *module, const char *name, char kind, size_t width, int results,
                    void (*here)(void *, const void *, const void *, int))
{
    uint64_t at[3];
    size_t bytes = width * THREADS;
    char x[8 * THREADS], y[8 * THREADS];
    char *got = malloc(bytes * MOST_RESULTS), *want = malloc(bytes * MOST_RESULTS);
    int n = THREADS;
    void *kernel = NULL, *args[4] = {&at[0], &at[1], &at[2], &n};
    fill(kind, width, x);
    fill(kind, width, y);
    CHECK(!cuModuleGetFunction(&kernel, module, name));
    CHECK(!cuMemAlloc_v2(&at[0], bytes * MOST_RESULTS) && !cuMemAlloc_v2(&at[1], bytes) &&
          !cuMemAlloc_v2(&at[2], bytes));
    CHECK(!cuMemcpyHtoDAsync_v2(at[1], x, bytes, NULL) &&
          !cuMemcpyHtoDAsync_v2(at[2], y, bytes, NULL));
    CHECK(!cuLaunchKernel(kernel, THREADS / 96, 1, 1, 96, 1, 1, 0, NULL, args, NULL));
    CHECK(!cuMemcpyDtoHAsync_v2(got, at[0], bytes * MOST_RESULTS, NULL));
    here(want, x, y, n);
    int wrong = 0;
    for (int i = 0; i < results * THREADS; i++)
        if (!equal(kind, width, got + width * (size_t)i, want + width * (size_t)i) && wrong++ < 3)
            printf("%s: result %d of thread %d differs\n", name, i / THREADS, i % THREADS);
    CHECK(wrong == 0);
    for (int i = 0; i < 3; i++)
        CHECK(!cuMemFree_v2(at[i]));
    free(got);
    free(want);
}

#define HERE(name, T)                                                     \
    static void here_##name(void *a, const void *x, const void *y, int n) \
    {                                                                     \
        name((T *)a, (const T *)x, (const T *)y, n);                      \
    }
HERE(ints, int32_t)
HERE(longs, int64_t)
HERE(floats, float)
HERE(doubles, double)
HERE(ways, int32_t)

static void test_kernels(void)
{
    char log[512];
    char *text = read_file("tests/gpu/kernels.ptx");
    void *module = text ? load(text, log, sizeof log) : NULL;
    if (!CHECK(module != NULL)) {
        printf("%s\n", log);
        return;
    }
    compare(module, "ints", 's', 4, 14, here_ints);
    compare(module, "longs", 's', 8, 10, here_longs);
    compare(module, "floats", 'f', 4, 13, here_floats);
    compare(module, "doubles", 'f', 8, 10, here_doubles);
    compare(module, "ways", 's', 4, 2, here_ways);
    CHECK(!cuModuleUnload(module));
    free(text);
}

/* ---- ptx/ ----------------------------------------------------------------------------------------------------------- */

typedef struct Buffer {
    char name[16];
    Type type;
    int n;
    uint64_t at;
} Buffer;

typedef struct Program {
    const char *path;
    void *module;
    Buffer buffers[8];
    int n;
    int code; /* of the last run */
} Program;

static uint64_t value_bits(Type t, const char *text)
{
    double x = strtod(text, NULL);
    float f = (float)x;
    uint64_t bits = strchr(text, '-') ? (uint64_t)strtoll(text, NULL, 0) : strtoull(text, NULL, 0);
    if (t.kind == 'f' && t.width >= 4)
        memcpy(&bits, t.width == 4 ? (void *)&f : (void *)&x, t.width);
    return bits & (~0ull >> (64 - 8 * t.width));
}

static Buffer *buffer(Program *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (!strcmp(p->buffers[i].name, name))
            return &p->buffers[i];
    printf("%s: no buffer `%s`\n", p->path, name);
    exit(1);
}

static void make_buffer(Program *p, char *line)
{
    Buffer *b = &p->buffers[p->n++];
    char *save, *w = strtok_r(line, " ", &save);
    snprintf(b->name, sizeof b->name, "%s", w);
    CHECK(type_parse(strtok_r(NULL, " ", &save), &b->type));
    uint64_t values[512];
    w = strtok_r(NULL, " ", &save);
    if (*w == '*') {
        b->n = atoi(w + 1);
        CHECK(!cuMemAlloc_v2(&b->at, b->type.width * (size_t)b->n));
        return;
    }
    for (; w; w = strtok_r(NULL, " ", &save))
        values[b->n++] = value_bits(b->type, w);
    CHECK(!cuMemAlloc_v2(&b->at, b->type.width * (size_t)b->n));
    for (int i = 0; i < b->n; i++)
        CHECK(!cuMemcpyHtoDAsync_v2(b->at + b->type.width * (uint64_t)i, &values[i], b->type.width,
                                    NULL));
}

typedef struct MapBytes {
    _Alignas(64) char at[128];
} MapBytes;

/* map:buffer:type:40x3:160:32x2 are the extents, the steps in bytes of all axes but the first, and the lengths of the box. */
static void make_map(Program *p, char *text, MapBytes *out)
{
    char *save, *name = strtok_r(text + 4, ":", &save), *type = strtok_r(NULL, ":", &save);
    uint64_t extents[5], steps[5];
    unsigned lengths[5], together[5] = {1, 1, 1, 1, 1}, n = 0, m = 0;
    for (char *at = strtok_r(NULL, ":", &save); *at && n < 5; at += *at == 'x')
        extents[n++] = strtoull(at, &at, 10);
    for (char *at = strtok_r(NULL, ":", &save); *at && m < 5; at += *at == 'x')
        steps[m++] = strtoull(at, &at, 10);
    m = 0;
    for (char *at = strtok_r(NULL, ":", &save); *at && m < 5; at += *at == 'x')
        lengths[m++] = (unsigned)strtoul(at, &at, 10);
    int kind = !strcmp(type, "f32") ? 7 : !strcmp(type, "f16") ? 6 : 0;
    CHECK(!cuTensorMapEncodeTiled(out, kind, n, (void *)(uintptr_t)buffer(p, name)->at, extents,
                                  steps, lengths, together, 0, 3, 0, 0));
}

static void run(Program *p, char *line)
{
    char name[64];
    unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared = 0;
    size_t n = strcspn(line, "<");
    memcpy(name, line, n < 63 ? n : 63);
    name[n < 63 ? n : 63] = 0;
    char *at = line + n + 1, *end = strchr(line, '>');
    for (int i = 0; i < 3; i++, at += *at == '/')
        if (isdigit((unsigned char)*at))
            grid[i] = (unsigned)strtoul(at, &at, 10);
    at += *at == ',';
    at += strspn(at, " ");
    for (int i = 0; i < 3; i++, at += *at == '/')
        if (isdigit((unsigned char)*at))
            block[i] = (unsigned)strtoul(at, &at, 10);
    if (*at == ',')
        shared = (unsigned)strtoul(at + 1, NULL, 10);
    uint64_t values[16];
    MapBytes maps[16];
    void *args[16], *kernel = NULL;
    int n_args = 0;
    char *save;
    for (char *w = strtok_r(end + 1, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
        char *colon = strchr(w, ':');
        Type t;
        if (!strncmp(w, "map:", 4)) {
            make_map(p, w, &maps[n_args]);
            args[n_args] = &maps[n_args];
            n_args++;
            continue;
        }
        if (colon)
            *colon = 0;
        values[n_args] = colon && type_parse(w, &t) ? value_bits(t, colon + 1) : buffer(p, w)->at;
        args[n_args] = &values[n_args];
        n_args++;
    }
    CHECK(!cuModuleGetFunction(&kernel, p->module, name));
    fclose(fopen(log_path, "w"));
    p->code = cuLaunchKernel(kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2],
                             shared, NULL, args, NULL);
    size_t unused, total;
    if (!p->code)
        p->code = cuMemGetInfo_v2(&unused, &total);
}

static void expect_failure(Program *p, char *line)
{
    char *text;
    int code = (int)strtol(line, &text, 10);
    char *log = read_file(log_path);
    text += strspn(text, " ");
    if (!CHECK(p->code == code) || !CHECK(strstr(log, text)))
        printf("%s: ended with %d: %s\n", p->path, p->code, log);
    free(log);
    /* What is broken stays so until the context is reset, and its memory with it. */
    CHECK(!cuDevicePrimaryCtxReset_v2(0));
    p->module = NULL;
    p->n = 0;
}

static void expect_values(Program *p, char *line)
{
    char *save, *w = strtok_r(line, " ", &save);
    const Buffer *b = buffer(p, w);
    int i = 0;
    if (!CHECK(p->code == 0))
        printf("%s: ended with %d\n", p->path, p->code);
    for (w = strtok_r(NULL, " ", &save); w; w = strtok_r(NULL, " ", &save), i++) {
        uint64_t got = 0, want = value_bits(b->type, w);
        CHECK(
            !cuMemcpyDtoHAsync_v2(&got, b->at + b->type.width * (uint64_t)i, b->type.width, NULL));
        if (!CHECK(equal(b->type.kind, b->type.width, &got, &want)))
            printf("%s: %s[%d] is %#llx, not %s (%#llx)\n", p->path, b->name, i,
                   (unsigned long long)got, w, (unsigned long long)want);
    }
}

/* False where the text is to be refused. */
static bool begin(Program *p, const char *text, const char *refused)
{
    char log[512];
    p->module = load(text, log, sizeof log);
    if (refused) {
        if (!CHECK(!p->module && !strncmp(log, refused, strlen(refused))))
            printf("%s: %s\n", p->path, log);
        return false;
    }
    if (!CHECK(p->module != NULL))
        printf("%s: %s\n", p->path, log);
    return p->module != NULL;
}

static void test_program(const char *path)
{
    static const struct {
        const char *word;
        void (*take)(Program *p, char *line);
    } words[] = {{"buffer ", make_buffer},
                 {"run ", run},
                 {"=> fails ", expect_failure},
                 {"=> ", expect_values}};
    Program p = {.path = path};
    char *text = read_file(path), line[4096];
    for (const char *at = text; *at == '/'; at += strcspn(at, "\n") + 1) {
        snprintf(line, sizeof line, "%.*s", (int)strcspn(at, "\n"), at);
        char *rest = line + 3;
        bool refused = !strncmp(rest, "refused ", 8);
        if (!p.module && !begin(&p, text, refused ? rest + 8 : NULL))
            break;
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            if (!strncmp(rest, words[i].word, strlen(words[i].word))) {
                words[i].take(&p, rest + strlen(words[i].word));
                break;
            }
    }
    CHECK(!cuDevicePrimaryCtxReset_v2(0));
    free(text);
}

static int is_ptx(const struct dirent *e)
{
    const char *dot = strrchr(e->d_name, '.');
    return dot && !strcmp(dot, ".ptx");
}

/* ---- the driver ----------------------------------------------------------------------------------------------------- */

/* What the driver says of maps that a card cannot copy by. */
static void test_maps(void)
{
    MapBytes map;
    uint64_t at = 0, extents[2] = {64, 8}, steps[1] = {128};
    unsigned lengths[2] = {64, 8}, together[2] = {1, 1};
    CHECK(!cuMemAlloc_v2(&at, 1024));
    for (int i = 0; i < 8; i++) {
        uint64_t off = i == 1 ? 8 : 0, step = i == 2 ? 120 : 128;
        steps[0] = step;
        lengths[0] = i == 3 ? 32 : 64;
        lengths[1] = i == 4 ? 257 : 8;
        together[1] = i == 5 ? 2 : 1;
        extents[1] = i == 6 ? 0 : 8;
        int code =
            cuTensorMapEncodeTiled(map.at + (i == 7 ? 8 : 0), 6, 2, (void *)(uintptr_t)(at + off),
                                   extents, steps, lengths, together, 0, 3, 0, 0);
        CHECK(code == (i ? INVALID_VALUE : 0));
    }
    CHECK(!cuMemFree_v2(at));
}

static void test_failures(void)
{
    uint64_t at = 0;
    void *event = NULL;
    setenv("STANDIN_FAIL", "cuMemAlloc_v2:2:2,cuMemFree_v2:2:1", 1);
    CHECK(cuMemAlloc_v2(&at, 16) == 0 && at);
    CHECK(cuMemAlloc_v2(&at, 16) == OUT_OF_MEMORY);
    CHECK(!cuMemFree_v2(at));
    CHECK(cuMemFree_v2(at) == INVALID_VALUE);
    setenv("STANDIN_FAIL", "cuEventCreate:1:700", 1);
    CHECK(cuEventCreate(&event, 0) == ILLEGAL_ADDRESS);
    CHECK(cuMemAlloc_v2(&at, 16) == ILLEGAL_ADDRESS);
    unsetenv("STANDIN_FAIL");
    CHECK(cuMemAlloc_v2(&at, 16) == ILLEGAL_ADDRESS);
    CHECK(!cuDevicePrimaryCtxReset_v2(0));
    CHECK(!cuMemAlloc_v2(&at, 16));
    CHECK(cuMemcpyDtoHAsync_v2(&event, at + 12, 8, NULL) == INVALID_VALUE);
    setenv("STANDIN_MEMORY", "1000", 1);
    CHECK(cuMemAlloc_v2(&at, 1000) == OUT_OF_MEMORY);
    unsetenv("STANDIN_MEMORY");
    setenv("STANDIN_BUSY", "2", 1);
    CHECK(!cuEventCreate(&event, 0) && !cuEventRecord(event, NULL));
    CHECK(cuEventQuery(event) == NOT_READY && cuEventQuery(event) == NOT_READY &&
          cuEventQuery(event) == 0);
    unsetenv("STANDIN_BUSY");
}

int main(void)
{
    void *context = NULL;
    uint64_t at;
    CHECK(cuMemAlloc_v2(&at, 8) == NOT_INITIALIZED);
    CHECK(!cuInit(0));
    CHECK(cuMemAlloc_v2(&at, 8) == INVALID_CONTEXT);
    CHECK(!cuDevicePrimaryCtxRetain(&context, 0));
    close(mkstemp(log_path));
    setenv("STANDIN_LOG", log_path, 1);
    setenv("STANDIN_STEPS", "1000000", 1);
    test_kernels();
    struct dirent **names;
    int n = scandir("tests/gpu/ptx", &names, is_ptx, alphasort);
    CHECK(n > 10);
    for (int i = 0; i < n; i++) {
        char path[512];
        snprintf(path, sizeof path, "tests/gpu/ptx/%s", names[i]->d_name);
        test_program(path);
        free(names[i]);
    }
    free(names);
    test_maps();
    test_failures();
    CHECK(!cuDevicePrimaryCtxRelease_v2(0));
    unlink(log_path);
    return check_done();
}
