/* Files of parameters: whatever is read can be written, and is read again as it was. */
#include "base/diag.h"
#include "runtime/params.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARRAYS_MOST = 64 };

typedef struct Found {
    size_t n;
    char *names[ARRAYS_MOST];
    Tensor *tensors[ARRAYS_MOST];
} Found;

static bool keep(void *data, const char *name, Tensor *t)
{
    Found *f = data;
    if (f->n == ARRAYS_MOST) {
        tensor_release(t);
        return true;
    }
    f->names[f->n] = strdup(name);
    f->tensors[f->n++] = t;
    return true;
}

static bool compare(void *data, const char *name, Tensor *t)
{
    Found *f = data;
    const Tensor *had = f->tensors[f->n];
    bool same = !strcmp(name, f->names[f->n++]) && had->rank == t->rank &&
                dtype_eq(had->dtype, t->dtype) &&
                !memcmp(had->shape, t->shape, (size_t)t->rank * sizeof *t->shape) &&
                !memcmp(had->data, t->data, (size_t)t->size * dtype_size(t->dtype));
    tensor_release(t);
    if (!same)
        abort();
    return true;
}

/* Files of this process in the memory that looks like a disk. */
static const char *path_of(char *room, size_t n, const char *ending)
{
    snprintf(room, n, "/dev/shm/relay_fuzz_%ld%s", (long)getpid(), ending);
    return room;
}

static void write_file(const uint8_t *data, size_t size, const char *path)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, size, f) != size || fclose(f) != 0)
        abort();
}

static void read_back(const Found *f)
{
    char path[64];
    path_of(path, sizeof path, ".params");
    Limits limits;
    Diags diags;
    diags_init(&diags, &limits);
    limits_init(&limits, &diags);
    if (!params_write(&limits, &diags, path, f->n, (const char *const *)f->names, f->tensors))
        abort();
    Found again = *f;
    again.n = 0;
    if (!params_read(&limits, &diags, path, compare, &again) || again.n != f->n)
        abort();
    unlink(path);
    diags_deinit(&diags);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    Found found = {0};
    Limits limits;
    Diags diags;
    diags_init(&diags, &limits);
    limits_init(&limits, &diags);
    write_file(data, size, path_of(path, sizeof path, ".in"));
    bool ok = params_read(&limits, &diags, path, keep, &found);
    if (!ok && diags.errors == 0 && limits.hit == LIMIT_NONE)
        abort();
    if (ok && found.n < ARRAYS_MOST)
        read_back(&found);
    for (size_t i = 0; i < found.n; i++) {
        free(found.names[i]);
        tensor_release(found.tensors[i]);
    }
    diags_deinit(&diags);
    return 0;
}
