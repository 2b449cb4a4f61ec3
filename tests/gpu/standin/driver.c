/* The driver's interface: one device, its primary context, modules, streams, events. Work is done when it is asked for, and
 * what goes wrong in it shows as it does on a card: at the next call, and at every one after that until the context is reset.
 *
 * Variables of the environment ask for what tests need:
 *   STANDIN_FAIL=entry:nth:code,…   the nth call of an entry gives this code, counted from when the variable was changed;
 *                                   `*` is any entry
 *   STANDIN_DEVICES=0               a driver without a card
 *   STANDIN_MEMORY=bytes            how much there is
 *   STANDIN_BUSY=n                  an event is reached at the nth question; -1: never
 *   STANDIN_LOG=file                where what went wrong in a kernel is written, a line each
 *   STANDIN_COUNT=file              where the number of calls of each entry is written at the end */
#include "tests/gpu/standin/standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* What tests call themselves. */
#define OWN_ENTRIES                               \
    CUDA_ENTRY(copy_within, cuMemcpyDtoDAsync_v2, \
               (uint64_t to, uint64_t from, size_t n, void *stream))

#define CUDA_ENTRY(field, symbol, parameters) \
    __attribute__((visibility("default"))) int symbol parameters;
#include "runtime/cuda.def"
OWN_ENTRIES
#undef CUDA_ENTRY

typedef enum Handle {
    HANDLE_MODULE,
    HANDLE_LINK,
    HANDLE_STREAM,
    HANDLE_EVENT,
    HANDLE_GRAPH,
    HANDLE_READY
} Handle;

typedef struct Object {
    Handle kind;
    Module *module;
    char *log; /* of a link: the caller's, for what is wrong with its text */
    size_t room;
    char *image; /* that it makes */
    size_t image_size;
    double time;
    int asked; /* of an event: how often since it was recorded; -1: it never was */
    struct Object
        *notes; /* of a stream: the graph for which launches are noted; NULL: they are done */
    Launch *launches; /* of a graph */
    int n_launches;
    struct Object *next;
} Object;

static struct {
    pthread_mutex_t lock;
    bool inited;
    int retained;
    int sticky;
    Object *objects;
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

static const char *const entries[] = {
#define CUDA_ENTRY(field, symbol, parameters) #symbol,
#include "runtime/cuda.def"
    OWN_ENTRIES
#undef CUDA_ENTRY
};

enum { ENTRIES = sizeof entries / sizeof *entries };
static int calls[ENTRIES], asked[ENTRIES], all_asked;
static char wish[256]; /* what STANDIN_FAIL was when they were last asked */

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("STANDIN_COUNT");
    FILE *f = path ? fopen(path, "a") : NULL;
    for (int i = 0; f && i < ENTRIES; i++)
        if (calls[i])
            fprintf(f, "%s %d\n", entries[i], calls[i]);
    if (f)
        fclose(f);
}

static bool is_sticky(int code)
{
    return code >= ILLEGAL_ADDRESS && code <= LAUNCH_FAILED;
}

static int injected(const char *entry)
{
    int mine = 0;
    const char *at = getenv("STANDIN_FAIL");
    if (strncmp(wish, at ? at : "", sizeof wish - 1)) {
        snprintf(wish, sizeof wish, "%s", at ? at : "");
        memset(asked, 0, sizeof asked);
        all_asked = 0;
    }
    for (int i = 0; i < ENTRIES; i++)
        if (!strcmp(entries[i], entry)) {
            calls[i]++;
            mine = ++asked[i];
        }
    all_asked++;
    while (at && *at) {
        char name[48];
        int nth, code;
        if (sscanf(at, "%47[^:]:%d:%d", name, &nth, &code) == 3) {
            bool any = !strcmp(name, "*");
            if ((any || !strcmp(name, entry)) && (any ? all_asked : mine) == nth)
                return code;
        }
        at = strchr(at, ',');
        at = at ? at + 1 : NULL;
    }
    return OK;
}

/* Each entry begins with ENTER, which leaves it on a failure that was asked for or that went before, and ends with `leave`. */
static int enter(const char *entry, bool in_context)
{
    pthread_mutex_lock(&state.lock);
    int code = injected(entry);
    if (is_sticky(code))
        state.sticky = code;
    if (code)
        return code;
    if (!state.inited)
        return NOT_INITIALIZED;
    if (in_context && !state.retained)
        return INVALID_CONTEXT;
    return in_context ? state.sticky : OK;
}

static int leave(int code)
{
    pthread_mutex_unlock(&state.lock);
    return code;
}

#define ENTER(in_context)                        \
    do {                                         \
        int code_ = enter(__func__, in_context); \
        if (code_)                               \
            return leave(code_);                 \
    } while (0)

static Object *object_new(Handle kind)
{
    Object *o = calloc(1, sizeof *o);
    o->kind = kind;
    o->asked = -1;
    o->next = state.objects;
    state.objects = o;
    return o;
}

static Object **object_place(const void *handle, Handle kind)
{
    for (Object **o = &state.objects; *o; o = &(*o)->next)
        if (*o == handle && (*o)->kind == kind)
            return o;
    return NULL;
}

static int object_end(const void *handle, Handle kind)
{
    Object **place = object_place(handle, kind), *o = place ? *place : NULL;
    if (!o)
        return INVALID_HANDLE;
    *place = o->next;
    if (o->module)
        module_free(o->module);
    for (int i = 0; i < o->n_launches; i++)
        free(o->launches[i].params);
    free(o->launches);
    free(o->image);
    free(o);
    return OK;
}

static void context_end(void)
{
    while (state.objects)
        object_end(state.objects, state.objects->kind);
    device_reset();
    state.sticky = OK;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t memory_size(void)
{
    const char *text = getenv("STANDIN_MEMORY");
    return text ? (size_t)strtoull(text, NULL, 10) : (size_t)4 << 30;
}

static int devices(void)
{
    const char *text = getenv("STANDIN_DEVICES");
    return text ? atoi(text) : 1;
}

/* ---- the driver and its device -------------------------------------------------------------------------------------- */

int cuInit(unsigned flags)
{
    pthread_mutex_lock(&state.lock);
    int code = injected(__func__);
    code = code ? code : flags ? INVALID_VALUE : devices() ? OK : NO_DEVICE;
    state.inited = code == OK;
    return leave(code);
}

int cuDriverGetVersion(int *version)
{
    pthread_mutex_lock(&state.lock);
    int code = injected(__func__);
    if (!code)
        *version = 13000;
    return leave(code);
}

static const struct {
    int code;
    const char *name, *text;
} errors[] = {
    {OK, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {NO_DEVICE, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"},
    {INVALID_DEVICE, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {INVALID_PTX, "CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"},
    {INVALID_HANDLE, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
     "operation not permitted when stream is capturing"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_TIMEOUT, "CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"},
    {MISALIGNED_ADDRESS, "CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
};

static int error_row(int code)
{
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (errors[i].code == code)
            return (int)i;
    return -1;
}

int cuGetErrorName(int code, const char **text)
{
    int row = error_row(code);
    *text = row < 0 ? NULL : errors[row].name;
    return row < 0 ? INVALID_VALUE : OK;
}

int cuGetErrorString(int code, const char **text)
{
    int row = error_row(code);
    *text = row < 0 ? NULL : errors[row].text;
    return row < 0 ? INVALID_VALUE : OK;
}

int cuDeviceGetCount(int *n)
{
    ENTER(false);
    *n = devices();
    return leave(OK);
}

int cuDeviceGet(int *device, int ordinal)
{
    ENTER(false);
    *device = ordinal;
    return leave(ordinal < 0 || ordinal >= devices() ? INVALID_DEVICE : OK);
}

int cuDeviceGetName(char *name, int room, int device)
{
    ENTER(false);
    snprintf(name, (size_t)room, "stand-in");
    return leave(device ? INVALID_DEVICE : OK);
}

int cuDeviceGetAttribute(int *value, int attribute, int device)
{
    static const struct {
        int attribute, value;
    } values[] = {
        {1, MAX_THREADS}, /* in a block */
        {8, STATIC_SHARED}, /* bytes of shared memory in a block, */
        {97, MOST_SHARED}, /* and for kernels that were told so */
        {10, LANES},
        {13, 1000000}, /* kHz of the cores, */
        {36, 1000000}, /* of the memory, */
        {37, 4096}, /* and the bits of its bus */
        {16, 4}, /* multiprocessors */
        {38, 1 << 22}, /* bytes of the cache */
        {75, 9}, /* sm_90 */
        {76, 0},
    };
    ENTER(false);
    for (size_t i = 0; i < sizeof values / sizeof *values; i++)
        if (values[i].attribute == attribute && !device) {
            *value = values[i].value;
            return leave(OK);
        }
    return leave(INVALID_VALUE);
}

int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
    ENTER(false);
    *bytes = memory_size();
    return leave(device ? INVALID_DEVICE : OK);
}

int cuDevicePrimaryCtxRetain(void **context, int device)
{
    ENTER(false);
    state.retained++;
    *context = &state;
    return leave(device ? INVALID_DEVICE : OK);
}

int cuDevicePrimaryCtxRelease_v2(int device)
{
    ENTER(false);
    if (device || !state.retained)
        return leave(INVALID_CONTEXT);
    if (--state.retained == 0)
        context_end();
    return leave(OK);
}

int cuDevicePrimaryCtxReset_v2(int device)
{
    ENTER(false);
    context_end();
    return leave(device ? INVALID_DEVICE : OK);
}

int cuCtxSetCurrent(void *context)
{
    ENTER(false);
    return leave(context == &state || !context ? OK : INVALID_CONTEXT);
}

/* ---- modules -------------------------------------------------------------------------------------------------------- */

enum { JIT_ERROR_LOG = 5, JIT_ERROR_LOG_SIZE = 6 };

static void find_log(unsigned n, const int *options, void **values, char **log, size_t *room)
{
    for (unsigned i = 0; i < n; i++) {
        if (options[i] == JIT_ERROR_LOG)
            *log = values[i];
        if (options[i] == JIT_ERROR_LOG_SIZE)
            *room = (size_t)(uintptr_t)values[i];
    }
    if (*room)
        **log = 0;
}

/* Its machine code is the text behind these characters. */
static const char machine_code[8] = "\177ELF ptx";

int cuModuleLoadDataEx(void **module, const void *image, unsigned n, int *options, void **values)
{
    ENTER(true);
    char none[1], *log = none;
    size_t room = 0;
    find_log(n, options, values, &log, &room);
    bool is_code = !strncmp(image, machine_code, sizeof machine_code);
    Module *m = module_parse((const char *)image + (is_code ? sizeof machine_code : 0), log, room);
    if (!m)
        return leave(INVALID_PTX);
    Object *o = object_new(HANDLE_MODULE);
    o->module = m;
    *module = o;
    return leave(OK);
}

int cuLinkCreate_v2(unsigned n, int *options, void **values, void **link)
{
    ENTER(true);
    Object *o = object_new(HANDLE_LINK);
    find_log(n, options, values, &o->log, &o->room);
    *link = o;
    return leave(OK);
}

int cuLinkAddData_v2(void *link, int type, void *data, size_t n, const char *name,
                     unsigned n_options, int *options, void **values)
{
    ENTER(true);
    enum { TEXT = 1 };
    (void)options, (void)values;
    Object **place = object_place(link, HANDLE_LINK), *o = place ? *place : NULL;
    if (!o)
        return leave(INVALID_HANDLE);
    if (type != TEXT || !name || n_options || o->image || !n || ((const char *)data)[n - 1])
        return leave(INVALID_VALUE);
    Module *m = module_parse(data, o->log, o->room);
    if (!m)
        return leave(INVALID_PTX);
    module_free(m);
    o->image_size = sizeof machine_code + n;
    o->image = malloc(o->image_size);
    memcpy(o->image, machine_code, sizeof machine_code);
    memcpy(o->image + sizeof machine_code, data, n);
    return leave(OK);
}

int cuLinkComplete(void *link, void **image, size_t *n)
{
    ENTER(true);
    Object **place = object_place(link, HANDLE_LINK);
    if (!place || !(*place)->image)
        return leave(INVALID_HANDLE);
    *image = (*place)->image;
    *n = (*place)->image_size;
    return leave(OK);
}

int cuLinkDestroy(void *link)
{
    ENTER(true);
    return leave(object_end(link, HANDLE_LINK));
}

int cuModuleUnload(void *module)
{
    ENTER(true);
    return leave(object_end(module, HANDLE_MODULE));
}

int cuModuleGetFunction(void **function, void *module, const char *name)
{
    ENTER(true);
    Object **o = object_place(module, HANDLE_MODULE);
    Kernel *k = o ? module_kernel((*o)->module, name) : NULL;
    *function = k;
    return leave(k ? OK : o ? NOT_FOUND : INVALID_HANDLE);
}

static Kernel *kernel_of(const void *function)
{
    for (const Object *o = state.objects; o; o = o->next)
        for (int i = 0; o->module && i < o->module->n_kernels; i++)
            if (o->module->kernels[i] == function)
                return o->module->kernels[i];
    return NULL;
}

int cuFuncSetAttribute(void *function, int attribute, int value)
{
    ENTER(true);
    enum { MAX_DYNAMIC_SHARED = 8 };
    Kernel *k = kernel_of(function);
    if (!k)
        return leave(INVALID_HANDLE);
    if (attribute != MAX_DYNAMIC_SHARED || value < 0 ||
        (uint32_t)value + k->shared_size > MOST_SHARED)
        return leave(INVALID_VALUE);
    k->dynamic_most = (uint32_t)value + k->shared_size;
    return leave(OK);
}

/* ---- memory --------------------------------------------------------------------------------------------------------- */

int cuMemAlloc_v2(uint64_t *at, size_t n)
{
    ENTER(true);
    if (n == 0)
        return leave(INVALID_VALUE);
    *at = device_used() + n > memory_size() ? 0 : device_alloc(n);
    return leave(*at ? OK : OUT_OF_MEMORY);
}

int cuMemFree_v2(uint64_t at)
{
    ENTER(true);
    return leave(device_free(at) ? OK : INVALID_VALUE);
}

int cuMemGetInfo_v2(size_t *unused, size_t *total)
{
    ENTER(true);
    *total = memory_size();
    *unused = *total - device_used();
    return leave(OK);
}

static bool stream_known(const void *stream)
{
    return !stream || object_place(stream, HANDLE_STREAM);
}

/* The graph in which what the stream is asked for is noted; NULL: it is done. */
static Object *takes_notes(const void *stream)
{
    Object **o = stream ? object_place(stream, HANDLE_STREAM) : NULL;
    return o ? (*o)->notes : NULL;
}

int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t n, void *stream)
{
    ENTER(true);
    void *p = device_find(to, n);
    if (p)
        memcpy(p, from, n);
    return leave(!stream_known(stream) ? INVALID_HANDLE
                 : takes_notes(stream) ? CAPTURE_UNSUPPORTED
                 : p                   ? OK
                                       : INVALID_VALUE);
}

int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t n, void *stream)
{
    ENTER(true);
    const void *p = device_find(from, n);
    if (p)
        memcpy(to, p, n);
    return leave(!stream_known(stream) ? INVALID_HANDLE
                 : takes_notes(stream) ? CAPTURE_UNSUPPORTED
                 : p                   ? OK
                                       : INVALID_VALUE);
}

int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t n, void *stream)
{
    ENTER(true);
    void *p = device_find(to, n);
    const void *q = device_find(from, n);
    if (p && q)
        memmove(p, q, n);
    return leave(!stream_known(stream) ? INVALID_HANDLE
                 : takes_notes(stream) ? CAPTURE_UNSUPPORTED
                 : p && q              ? OK
                                       : INVALID_VALUE);
}

int cuMemsetD8Async(uint64_t at, unsigned char value, size_t n, void *stream)
{
    ENTER(true);
    void *p = device_find(at, n);
    if (p)
        memset(p, value, n);
    return leave(!stream_known(stream) ? INVALID_HANDLE
                 : takes_notes(stream) ? CAPTURE_UNSUPPORTED
                 : p                   ? OK
                                       : INVALID_VALUE);
}

/* ---- streams, events, launches -------------------------------------------------------------------------------------- */

int cuStreamCreate(void **stream, unsigned flags)
{
    ENTER(true);
    (void)flags;
    *stream = object_new(HANDLE_STREAM);
    return leave(OK);
}

int cuStreamDestroy_v2(void *stream)
{
    ENTER(true);
    return leave(object_end(stream, HANDLE_STREAM));
}

int cuEventCreate(void **event, unsigned flags)
{
    ENTER(true);
    (void)flags;
    *event = object_new(HANDLE_EVENT);
    return leave(OK);
}

int cuEventDestroy_v2(void *event)
{
    ENTER(true);
    return leave(object_end(event, HANDLE_EVENT));
}

int cuEventRecord(void *event, void *stream)
{
    ENTER(true);
    Object **o = object_place(event, HANDLE_EVENT);
    if (!o || !stream_known(stream))
        return leave(INVALID_HANDLE);
    if (takes_notes(stream))
        return leave(CAPTURE_UNSUPPORTED);
    (*o)->time = seconds();
    (*o)->asked = 0;
    return leave(OK);
}

int cuEventQuery(void *event)
{
    ENTER(true);
    Object **o = object_place(event, HANDLE_EVENT);
    if (!o)
        return leave(INVALID_HANDLE);
    const char *text = getenv("STANDIN_BUSY");
    int busy = text ? atoi(text) : 0;
    if ((*o)->asked < 0 || !busy)
        return leave(OK);
    return leave(busy < 0 || (*o)->asked++ < busy ? NOT_READY : OK);
}

int cuEventElapsedTime(float *ms, void *from, void *to)
{
    ENTER(true);
    Object **a = object_place(from, HANDLE_EVENT), **b = object_place(to, HANDLE_EVENT);
    if (!a || !b || (*a)->asked < 0 || (*b)->asked < 0)
        return leave(INVALID_HANDLE);
    *ms = (float)(1e3 * ((*b)->time - (*a)->time));
    return leave(OK);
}

/* What the driver says of a map: sixteen bytes as the unit of memory, rows of 128 bytes with their parts exchanged, which is the only form
 * that is known here. */
static bool map_fits(const Map *m, const void *map)
{
    bool fits = (uintptr_t)map % 64 == 0 && m->at % 16 == 0 && m->n >= 1 && m->n <= MAP_AXES &&
                (uint64_t)m->element * m->length[0] == 128;
    for (uint32_t i = 0; fits && i < m->n; i++)
        fits = m->extent[i] >= 1 && m->length[i] >= 1 && m->length[i] <= 256 &&
               (i == 0 || (m->step[i] % 16 == 0 && m->step[i] < (uint64_t)1 << 40));
    return fits;
}

int cuTensorMapEncodeTiled(void *map, int type, unsigned rank, void *at, const uint64_t *extents,
                           const uint64_t *steps, const unsigned *lengths, const unsigned *strides,
                           int interleave, int swizzle, int promotion, int fill)
{
    ENTER(false);
    enum { SWIZZLE_128 = 3, PROMOTIONS = 4 };
    static const uint32_t sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
    Map m = {.mark = MAP_MARK, .n = rank, .at = (uint64_t)(uintptr_t)at};
    if (type < 0 || type >= (int)(sizeof sizes / sizeof *sizes) || !rank || rank > MAP_AXES ||
        interleave || swizzle != SWIZZLE_128 || promotion < 0 || promotion >= PROMOTIONS || fill)
        return leave(INVALID_VALUE);
    m.element = sizes[type];
    for (unsigned i = 0; i < rank; i++) {
        if (extents[i] > UINT32_MAX || strides[i] != 1)
            return leave(INVALID_VALUE);
        m.extent[i] = (uint32_t)extents[i];
        m.length[i] = lengths[i];
        m.step[i] = i ? steps[i - 1] : m.element;
    }
    if (!map_fits(&m, map))
        return leave(INVALID_VALUE);
    memset(map, 0, 128);
    memcpy(map, &m, sizeof m);
    return leave(OK);
}

_Static_assert(sizeof(Map) <= 128, "a map has 128 bytes");

static bool launch_fits(const Launch *l)
{
    const Kernel *k = l->kernel;
    const uint32_t *g = l->grid, *b = l->block;
    uint64_t threads = (uint64_t)b[0] * b[1] * b[2];
    for (int i = 0; i < 3; i++)
        if (g[i] == 0 || b[i] == 0 || (k->most[0] && b[i] > k->most[i]))
            return false;
    return g[0] <= 0x7fffffff && g[1] <= 65535 && g[2] <= 65535 && b[0] <= MAX_THREADS &&
           b[1] <= MAX_THREADS && b[2] <= 64 && threads <= MAX_THREADS &&
           (uint64_t)l->dynamic + k->shared_size <= k->dynamic_most;
}

static void log_fault(const char *text)
{
    const char *path = getenv("STANDIN_LOG");
    FILE *f = path ? fopen(path, "a") : NULL;
    if (!f)
        return;
    fprintf(f, "%s\n", text);
    fclose(f);
}

static void launch_now(const Launch *l)
{
    char text[512] = "";
    state.sticky = launch_run(l, text, sizeof text);
    if (state.sticky)
        log_fault(text);
}

/* The graph has the launch's values. */
static void graph_add(Object *graph, const Launch *l)
{
    size_t n = (size_t)graph->n_launches + 1;
    graph->launches = realloc(graph->launches, n * sizeof *graph->launches);
    graph->launches[n - 1] = *l;
    graph->n_launches = (int)n;
}

int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared,
                   void *stream, void **params, void **extra)
{
    ENTER(true);
    Kernel *k = kernel_of(function);
    if (!k || !stream_known(stream))
        return leave(INVALID_HANDLE);
    Launch l = {k, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared, NULL};
    if (extra || !launch_fits(&l) || (k->n_params && !params))
        return leave(INVALID_VALUE);
    l.params = calloc(1, k->param_size + 1);
    for (int i = 0; i < k->n_params; i++)
        memcpy(l.params + k->params[i].at, params[i], k->params[i].size);
    Object *notes = takes_notes(stream);
    if (notes) {
        graph_add(notes, &l);
    } else {
        launch_now(&l);
        free(l.params);
    }
    return leave(OK);
}

int cuStreamBeginCapture_v2(void *stream, int mode)
{
    ENTER(true);
    Object **o = stream ? object_place(stream, HANDLE_STREAM) : NULL;
    if (!o || (*o)->notes || mode < 0 || mode > 2)
        return leave(INVALID_VALUE);
    (*o)->notes = object_new(HANDLE_GRAPH);
    return leave(OK);
}

int cuStreamEndCapture(void *stream, void **graph)
{
    ENTER(true);
    Object **o = stream ? object_place(stream, HANDLE_STREAM) : NULL;
    if (!o || !(*o)->notes)
        return leave(INVALID_VALUE);
    *graph = (*o)->notes;
    (*o)->notes = NULL;
    return leave(OK);
}

int cuGraphInstantiateWithFlags(void **ready, void *graph, unsigned long long flags)
{
    ENTER(true);
    Object **o = object_place(graph, HANDLE_GRAPH);
    if (!o || flags)
        return leave(INVALID_VALUE);
    Object *from = *o, *made = object_new(HANDLE_READY);
    for (int i = 0; i < from->n_launches; i++) {
        Launch l = from->launches[i];
        l.params = calloc(1, l.kernel->param_size + 1);
        memcpy(l.params, from->launches[i].params, l.kernel->param_size);
        graph_add(made, &l);
    }
    *ready = made;
    return leave(OK);
}

int cuGraphDestroy(void *graph)
{
    ENTER(true);
    return leave(object_end(graph, HANDLE_GRAPH));
}

int cuGraphLaunch(void *ready, void *stream)
{
    ENTER(true);
    Object **o = object_place(ready, HANDLE_READY);
    if (!o || !stream_known(stream))
        return leave(INVALID_HANDLE);
    if (takes_notes(stream))
        return leave(CAPTURE_UNSUPPORTED);
    for (int i = 0; i < (*o)->n_launches && !state.sticky; i++) {
        if (!kernel_of((*o)->launches[i].kernel))
            return leave(INVALID_HANDLE);
        launch_now(&(*o)->launches[i]);
    }
    return leave(OK);
}

int cuGraphExecDestroy(void *ready)
{
    ENTER(true);
    return leave(object_end(ready, HANDLE_READY));
}
