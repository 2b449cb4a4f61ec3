#include "runtime/cuda.h"

#include "base/memory.h"
#include "base/plugin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIBRARY "libcuda.so.1"

typedef struct Driver {
#define CUDA_ENTRY(field, symbol, parameters) int(*field) parameters;
#include "runtime/cuda.def"
#undef CUDA_ENTRY
} Driver;

/* The driver's numbers that are asked about. */
enum {
    CUDA_OUT_OF_MEMORY = 2,
    CUDA_STUB = 34,
    CUDA_NO_DEVICE = 100,
    CUDA_OTHER_PTX = 222, /* a version of PTX that the driver does not know */
    CUDA_NOT_READY = 600
};

enum { ATTRIBUTE_DYNAMIC_SHARED = 8, JIT_ERROR_LOG = 5, JIT_ERROR_LOG_SIZE = 6, LINK_PTX = 1 };

typedef struct Piece {
    uint64_t at;
    size_t n;
    bool used;
} Piece;

struct CudaModule {
    void *handle;
    uint32_t generation;
};

struct CudaGraph {
    void *handle;
    uint32_t generation;
};

/* So many pieces of work may be under way whose time is taken. */
enum { CLOCKS_MOST = 16 };

struct Cuda {
    Driver d;
    CudaInfo info;
    Limits *limits;
    Diags *diags;
    Span span;
    int device;
    void *context, *stream;
    void *done, *clocks[2 * CLOCKS_MOST]; /* events */
    int clocked; /* of those, begun */
    CudaWork work; /* that ended */
    bool live; /* context, stream and events are there */
    bool behind; /* there was work that nobody waited for to the end */
    uint32_t generation;
    Piece *pieces; /* by size, those of one size as they came */
    size_t n_pieces, cap_pieces;
    size_t used, kept;
    bool (*before)(void *data); /* NULL: nobody wants to know */
    void *before_data;
};

/* ---- what is there ---------------------------------------------------------------------------------------------------------- */

static bool driver_open(Driver *d, Buf *why)
{
    static const struct {
        const char *symbol;
        size_t at;
        bool optional;
    } entries[] = {
#define CUDA_ENTRY(field, symbol, parameters) {#symbol, offsetof(Driver, field), false},
#define CUDA_OPTIONAL(field, symbol, parameters) {#symbol, offsetof(Driver, field), true},
#include "runtime/cuda.def"
#undef CUDA_ENTRY
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++) {
        PluginEntry *entry = library_entry(LIBRARY, entries[i].symbol);
        if (!entry && !entries[i].optional) {
            if (i == 0)
                buf_str(why, "no driver (" LIBRARY ")");
            else
                buf_printf(why, "the driver is too old: it has no %s", entries[i].symbol);
            return false;
        }
        memcpy((char *)d + entries[i].at, &entry, sizeof entry);
    }
    return true;
}

/* "an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS, 700)" */
static void code_text(const Driver *d, int code, Buf *out)
{
    const char *name = NULL, *text = NULL;
    d->error_name(code, &name);
    d->error_text(code, &text);
    if (text)
        buf_printf(out, "%s (%s, %d)", text, name ? name : "error", code);
    else
        buf_printf(out, "error %d", code);
}

static bool first_failure(const Driver *d, int code, const char *what, Buf *why)
{
    if (code == CUDA_NO_DEVICE) {
        buf_str(why, "the driver finds no card");
    } else if (code == CUDA_STUB) {
        buf_str(why, LIBRARY " is the stub of a toolkit, not a driver");
    } else {
        buf_printf(why, "%s: ", what);
        code_text(d, code, why);
    }
    return false;
}

static bool info_read(const Driver *d, CudaInfo *info, Buf *why)
{
    int device = 0, cache = 0, shared = 0, code = d->init(0);
    if (code)
        return first_failure(d, code, "the driver does not start", why);
    const struct {
        int attribute, *to;
    } wanted[] = {
        {75, &info->major},
        {76, &info->minor},
        {16, &info->processors},
        {13, &info->clock},
        {36, &info->memory_clock},
        {37, &info->bus},
        {38, &cache},
        {97, &shared},
    };
    code = d->driver_version(&info->driver);
    code = code ? code : d->device_count(&info->devices);
    if (!code && info->devices == 0)
        code = CUDA_NO_DEVICE;
    code = code ? code : d->device_get(&device, 0);
    code = code ? code : d->device_name(info->name, sizeof info->name, device);
    code = code ? code : d->device_memory(&info->memory, device);
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted && !code; i++)
        code = d->device_attribute(wanted[i].to, wanted[i].attribute, device);
    info->cache = (size_t)cache;
    info->shared = (size_t)shared;
    info->boxes = d->map_encode != NULL;
    return code == 0 || first_failure(d, code, "the driver does not say what there is", why);
}

bool cuda_find(CudaInfo *out, Buf *why)
{
    Driver d;
    *out = (CudaInfo){0};
    return driver_open(&d, why) && info_read(&d, out, why);
}

/* ---- the context ------------------------------------------------------------------------------------------------------------ */

static int context_make(Cuda *c)
{
    int code = c->d.device_get(&c->device, 0);
    code = code ? code : c->d.context_retain(&c->context, c->device);
    if (code)
        return code;
    code = c->d.context_set(c->context);
    code = code ? code : c->d.stream_create(&c->stream, 1); /* not behind the default stream */
    code = code ? code : c->d.event_create(&c->done, 2); /* without its time */
    for (int i = 0; i < 2 * CLOCKS_MOST; i++)
        code = code ? code : c->d.event_create(&c->clocks[i], 0);
    c->live = code == 0;
    if (!c->live)
        c->d.context_release(c->device);
    return code;
}

/* What lay on the card is gone. Blocks and modules that others still hold know it by the generation. */
static void context_lost(Cuda *c)
{
    limit_release(c->limits, c->used);
    c->n_pieces = 0;
    c->used = c->kept = 0;
    c->clocked = 0;
    c->generation++;
    c->behind = false;
    if (!c->live)
        return;
    c->live = false;
    c->d.context_release(c->device);
    c->d.context_reset(c->device);
}

Cuda *cuda_open(Limits *limits, Diags *diags, Buf *why)
{
    Cuda *c = memory_zeroed(1, sizeof *c);
    if (!c)
        return NULL;
    c->limits = limits;
    c->diags = diags;
    c->generation = 1;
    bool ok = driver_open(&c->d, why) && info_read(&c->d, &c->info, why);
    int code = ok ? context_make(c) : 0;
    if (code)
        ok = first_failure(&c->d, code, "the card cannot be used", why);
    if (ok)
        return c;
    memory_free(c);
    return NULL;
}

/* The driver waits for what is under way before it gives up a context or code. What was abandoned may never end; the end of the process
 * ends it. */
static bool is_done(const Cuda *c)
{
    return !c->live || !c->behind || c->d.event_query(c->done) != CUDA_NOT_READY;
}

void cuda_close(Cuda *c)
{
    if (!c)
        return;
    bool done = is_done(c);
    if (done)
        cuda_trim(c);
    if (done && c->live) {
        for (int i = 0; i < 2 * CLOCKS_MOST; i++)
            c->d.event_destroy(c->clocks[i]);
        c->d.event_destroy(c->done);
        c->d.stream_destroy(c->stream);
        c->d.context_release(c->device);
    }
    limit_release(c->limits, c->used);
    memory_free(c->pieces);
    memory_free(c);
}

const CudaInfo *cuda_info(const Cuda *c)
{
    return &c->info;
}

uint32_t cuda_generation(const Cuda *c)
{
    return c->generation;
}

/* Behind a failure: a context that does not even answer this question gives that error for ever, and is made anew. True: it was. */
static bool context_settle(Cuda *c, int code)
{
    size_t unused, total;
    if (!code || !c->live || !c->d.memory_info(&unused, &total))
        return false;
    context_lost(c);
    return true;
}

/* Reports what the driver said about what was done; false, unless it said nothing. */
static bool check(Cuda *c, int code, const char *what)
{
    if (!code)
        return true;
    Buf said = {0};
    code_text(&c->d, code, &said);
    bool full = code == CUDA_OUT_OF_MEMORY;
    Diag *d = diag_error(c->diags, full ? E0409_DEVICE_MEMORY : E0408_DRIVER, c->span,
                         "%s: the driver says: %s", what, buf_text(&said));
    buf_deinit(&said);
    if (context_settle(c, code))
        diag_note(d, "what lay on the card is gone; what comes next begins anew there");
    return false;
}

void cuda_before(Cuda *c, bool (*settle)(void *data), void *data)
{
    c->before = settle;
    c->before_data = data;
}

/* Somebody is about to look at the card. */
static bool settle(Cuda *c)
{
    return (!c->before || c->before(c->before_data)) && c->live;
}

/* All that was begun has ended. */
static bool read_clocks(Cuda *c)
{
    int code = 0, n = c->clocked;
    c->clocked = 0;
    for (int i = 0; i < n && !code; i++) {
        float ms = 0;
        code = c->d.event_elapsed(&ms, c->clocks[2 * i], c->clocks[2 * i + 1]);
        c->work.seconds += 1e-3 * (double)ms;
    }
    return check(c, code, "reading the time");
}

static bool wait_for(Cuda *c, void *event)
{
    long pause = 2000;
    for (;;) {
        int code = c->d.event_query(event);
        if (code != CUDA_NOT_READY) {
            c->behind = false;
            return check(c, code, "the card's work") && read_clocks(c);
        }
        if (limit_hit(c->limits))
            return false;
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        pause = pause < 1000000 ? 2 * pause : pause;
    }
}

bool cuda_begin(Cuda *c, Diags *diags, Span span)
{
    c->diags = diags;
    c->span = span;
    if (!c->live && !check(c, context_make(c), "making a context"))
        return false;
    if (!check(c, c->d.context_set(c->context), "choosing the card"))
        return false;
    return !c->behind || wait_for(c, c->done);
}

void cuda_place(Cuda *c, Span span)
{
    c->span = span;
}

bool cuda_wait(Cuda *c)
{
    if (!settle(c) || !check(c, c->d.event_record(c->done, c->stream), "marking the end of work"))
        return false;
    c->behind = true;
    return wait_for(c, c->done);
}

bool cuda_clock_begin(Cuda *c)
{
    return (c->clocked < CLOCKS_MOST || cuda_wait(c)) &&
           check(c, c->d.event_record(c->clocks[2 * c->clocked], c->stream), "noting the time");
}

bool cuda_clock_end(Cuda *c)
{
    if (!check(c, c->d.event_record(c->clocks[2 * c->clocked + 1], c->stream), "noting the time"))
        return false;
    c->clocked++;
    return true;
}

CudaWork cuda_work(Cuda *c)
{
    CudaWork work = c->work;
    c->work = (CudaWork){0};
    return work;
}

/* ---- memory ----------------------------------------------------------------------------------------------------------------- */

/* Few sizes, so that blocks are found again: powers of two and halves between them, from 512 bytes. */
static size_t piece_size(size_t n)
{
    size_t size = 512;
    while (size < n && size <= SIZE_MAX / 4)
        size *= 2;
    if (n > SIZE_MAX / 4)
        return n;
    return size / 4 * 3 >= n && size > 512 ? size / 4 * 3 : size;
}

static Piece *piece_unused(Cuda *c, size_t n)
{
    for (size_t i = 0; i < c->n_pieces; i++)
        if (!c->pieces[i].used && c->pieces[i].n == n)
            return &c->pieces[i];
    return NULL;
}

static bool piece_room(Cuda *c)
{
    if (c->n_pieces < c->cap_pieces)
        return true;
    size_t cap = c->cap_pieces ? 2 * c->cap_pieces : 64;
    Piece *p = memory_resize(c->pieces, cap * sizeof *p);
    if (!p)
        return false;
    c->pieces = p;
    c->cap_pieces = cap;
    return true;
}

void cuda_trim(Cuda *c)
{
    size_t kept = 0;
    int code = 0;
    settle(c);
    for (size_t i = 0; i < c->n_pieces; i++) {
        const Piece p = c->pieces[i];
        if (p.used)
            c->pieces[kept++] = p;
        else if (c->live && !code)
            code = c->d.memory_free(p.at);
    }
    c->n_pieces = kept;
    c->kept = 0;
    context_settle(c, code);
}

static Piece *piece_new(Cuda *c, size_t n, int *code)
{
    uint64_t at = 0;
    if (!piece_room(c))
        return NULL;
    *code = c->d.memory_alloc(&at, n);
    if (*code == CUDA_OUT_OF_MEMORY && c->kept) {
        cuda_trim(c);
        *code = c->live ? c->d.memory_alloc(&at, n) : *code;
    }
    if (*code)
        return NULL;
    c->pieces[c->n_pieces] = (Piece){.at = at, .n = n};
    c->kept += n;
    return &c->pieces[c->n_pieces++];
}

bool cuda_has_room(Cuda *c, size_t n)
{
    size_t size = piece_size(n), most = c->limits->memory_most, unused = 0, total;
    size_t now = atomic_load_explicit(&c->limits->memory, memory_order_relaxed);
    if (most > 0 && (now > most || size > most - now))
        return false;
    return !c->live || size <= c->kept || c->used + c->kept + size < c->info.memory / 2 ||
           c->d.memory_info(&unused, &total) || size <= unused;
}

bool cuda_take(Cuda *c, size_t n, CudaBlock *out)
{
    size_t size = piece_size(n);
    int code = 0;
    *out = (CudaBlock){0};
    if (!c->live || !limit_charge(c->limits, size))
        return false;
    Piece *p = piece_unused(c, size);
    p = p ? p : piece_new(c, size, &code);
    if (!p) {
        limit_release(c->limits, size);
        Buf what = {0};
        buf_printf(&what, "taking %zu bytes", n);
        check(c, code, buf_text(&what));
        buf_deinit(&what);
        return false;
    }
    p->used = true;
    c->used += size;
    c->kept -= size;
    *out = (CudaBlock){.at = p->at, .n = size, .generation = c->generation};
    return true;
}

void cuda_give(Cuda *c, CudaBlock *block)
{
    for (size_t i = 0; i < c->n_pieces && block->generation == c->generation; i++) {
        if (c->pieces[i].at != block->at || !c->pieces[i].used)
            continue;
        c->pieces[i].used = false;
        c->used -= block->n;
        c->kept += block->n;
        limit_release(c->limits, block->n);
        break;
    }
    *block = (CudaBlock){0};
}

void cuda_memory(const Cuda *c, size_t *used, size_t *kept)
{
    *used = c->used;
    *kept = c->kept;
}

bool cuda_write(Cuda *c, uint64_t to, const void *from, size_t n)
{
    c->work.to += (double)n;
    return settle(c) &&
           check(c, c->d.copy_in(to, from, n, c->stream), "bringing values to the card");
}

bool cuda_read(Cuda *c, void *to, uint64_t from, size_t n)
{
    /* What the driver waits for cannot be interrupted, what is asked about can. */
    return cuda_wait(c) && cuda_copy_out(c, to, from, n) && cuda_wait(c);
}

bool cuda_copy_out(Cuda *c, void *to, uint64_t from, size_t n)
{
    c->work.from += (double)n;
    return settle(c) &&
           check(c, c->d.copy_out(to, from, n, c->stream), "bringing values from the card");
}

bool cuda_fill(Cuda *c, uint64_t at, uint8_t value, size_t n)
{
    return settle(c) && check(c, c->d.fill(at, value, n, c->stream), "filling memory");
}

/* ---- code ------------------------------------------------------------------------------------------------------------------- */

/* What the driver says of the text that it takes. */
typedef struct Words {
    char log[2048];
    int options[2];
    void *values[2];
} Words;

static void words_begin(Words *w)
{
    *w = (Words){.options = {JIT_ERROR_LOG, JIT_ERROR_LOG_SIZE}};
    w->values[0] = w->log;
    w->values[1] = (void *)(uintptr_t)sizeof w->log;
}

static bool check_code(Cuda *c, int code, Words *w)
{
    if (check(c, code, "loading compiled kernels"))
        return true;
    Diag *d = c->diags ? c->diags->last : NULL;
    w->log[sizeof w->log - 1] = 0;
    if (d && *w->log)
        diag_note(d, "%s", w->log);
    if (d && code == CUDA_OTHER_PTX)
        diag_help(d, "a newer driver knows this version of PTX");
    return false;
}

CudaModule *cuda_load(Cuda *c, const void *image)
{
    Words words;
    CudaModule *m = memory_zeroed(1, sizeof *m);
    if (!m || !c->live) {
        memory_free(m);
        return NULL;
    }
    words_begin(&words);
    int code = c->d.module_load(&m->handle, image, 2, words.options, words.values);
    m->generation = c->generation;
    if (check_code(c, code, &words))
        return m;
    memory_free(m);
    return NULL;
}

bool cuda_assembles(const Cuda *c)
{
    return c->d.link_begin && c->d.link_add && c->d.link_end && c->d.link_destroy;
}

bool cuda_assemble(Cuda *c, const char *ptx, Buf *out)
{
    Words words;
    void *link = NULL, *image = NULL;
    size_t n = 0;
    if (!c->live)
        return false;
    uint32_t generation = c->generation;
    words_begin(&words);
    int code = c->d.link_begin(2, words.options, words.values, &link);
    bool begun = code == 0;
    if (begun)
        code = c->d.link_add(link, LINK_PTX, (void *)(uintptr_t)ptx, strlen(ptx) + 1, "kernels", 0,
                             NULL, NULL);
    if (!code)
        code = c->d.link_end(link, &image, &n);
    bool ok = check_code(c, code, &words);
    if (ok)
        buf_bytes(out, image, n); /* which the driver owns */
    /* After some errors it is gone with the context. */
    if (begun && c->live && c->generation == generation)
        ok = check(c, c->d.link_destroy(link), "loading compiled kernels") && ok;
    return ok && !out->failed;
}

void cuda_unload(Cuda *c, CudaModule *m)
{
    if (m && c->live && m->generation == c->generation && is_done(c))
        context_settle(c, c->d.module_unload(m->handle));
    memory_free(m);
}

void *cuda_kernel(Cuda *c, CudaModule *m, const char *name, uint32_t shared)
{
    void *kernel = NULL;
    if (!c->live || !check(c, c->d.module_function(&kernel, m->handle, name), "finding a kernel"))
        return NULL;
    /* More than this a kernel gets only when it is said before. */
    const uint32_t usual = 48 * 1024;
    if (shared > usual &&
        !check(c, c->d.function_set(kernel, ATTRIBUTE_DYNAMIC_SHARED, (int)shared),
               "asking for shared memory"))
        return NULL;
    return kernel;
}

/* The driver's numbers: elements of 1, 2 and 4 bytes that nothing is done to, rows of 128 bytes with their parts exchanged, the widest
 * reading ahead; outside of the tensor are zeros. */
enum { ELEMENTS_OF_1 = 0, SWIZZLE_128 = 3, AHEAD_256 = 3, NOT_SUPPORTED = 801 };

bool cuda_map(Cuda *c, uint64_t at, const CudaBox *box, CudaMap *out)
{
    unsigned together[CUDA_BOX_AXES] = {1, 1, 1, 1, 1};
    int type = ELEMENTS_OF_1 + (box->element > 1) + (box->element > 2);
    if (!c->live)
        return false;
    void *begins = (void *)(uintptr_t)(at + box->offset); /* on the card */
    int code = !c->d.map_encode
                   ? NOT_SUPPORTED
                   : c->d.map_encode(out, type, box->n, begins, box->extent, box->step + 1,
                                     box->length, together, 0, SWIZZLE_128, AHEAD_256, 0);
    return check(c, code, "making a map of a tensor");
}

bool cuda_launch(Cuda *c, const CudaLaunch *l)
{
    if (!c->live)
        return false;
    int code = c->d.launch(l->kernel, l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                           l->block[2], l->shared, c->stream, l->values, NULL);
    if (!code)
        return true;
    Buf what = {0};
    buf_printf(&what, "starting `%s`", l->name);
    check(c, code, buf_text(&what));
    buf_deinit(&what);
    return false;
}

/* ---- graphs ----------------------------------------------------------------------------------------------------------------- */

enum { CAPTURE_RELAXED = 2 };

CudaGraph *cuda_record(Cuda *c, bool (*launches)(void *data), void *data)
{
    CudaGraph *g = memory_zeroed(1, sizeof *g);
    void *graph = NULL;
    if (!g || !c->live ||
        !check(c, c->d.capture_begin(c->stream, CAPTURE_RELAXED), "noting launches")) {
        memory_free(g);
        return NULL;
    }
    bool ok = launches(data);
    int code = c->live ? c->d.capture_end(c->stream, &graph) : 0;
    ok = ok && check(c, code, "noting launches");
    /* A stream that may still take notes is of no use. */
    if (code && c->live)
        context_lost(c);
    g->generation = c->generation;
    ok = ok && check(c, c->d.graph_make(&g->handle, graph, 0), "making a graph of launches");
    code = graph && c->live ? c->d.graph_destroy(graph) : 0;
    if (ok && check(c, code, "making a graph of launches"))
        return g;
    context_settle(c, ok ? 0 : code);
    cuda_graph_free(c, g);
    return NULL;
}

bool cuda_replay(Cuda *c, const CudaGraph *g)
{
    return c->live && g->generation == c->generation &&
           check(c, c->d.graph_launch(g->handle, c->stream), "starting a graph of launches");
}

void cuda_graph_free(Cuda *c, CudaGraph *g)
{
    if (g && g->handle && c->live && g->generation == c->generation && is_done(c))
        context_settle(c, c->d.graph_end(g->handle));
    memory_free(g);
}
