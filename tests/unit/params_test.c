/* Parameter files in a folder of their own: every element type, and files with something wrong in them. */
#include "base/diag.h"
#include "check.h"
#include "runtime/npy.h"
#include "runtime/params.h"
#include "runtime/value.h"

#include <stdlib.h>
#include <unistd.h>

static Limits limits;
static Diags diags;
static char folder[] = "/tmp/relay-params-XXXXXX";
static char path[64];

static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

enum { N = DTYPE_IDS + 2 };

typedef struct Found {
    Tensor **tensors;
    const char *const *names;
    size_t n;
} Found;

static bool found(void *data, const char *name, Tensor *t)
{
    Found *f = data;
    Value a = {.kind = VALUE_TENSOR, .tensor = t},
          b = {.kind = VALUE_TENSOR, .tensor = f->tensors[f->n]};
    CHECK(strcmp(name, f->names[f->n]) == 0 && dtype_eq(t->dtype, b.tensor->dtype));
    CHECK(value_equal(a, b));
    f->n++;
    tensor_release(t);
    return true;
}

static bool forget(void *data, const char *name, Tensor *t)
{
    (void)data, (void)name;
    tensor_release(t);
    return true;
}

static const char *names[N];
static Tensor *tensors[N];

static void make_arrays(void)
{
    for (int i = 0; i < N; i++) {
        int32_t rank = i < DTYPE_IDS ? 2 : i == DTYPE_IDS ? 0 : 3;
        int64_t shape[] = {2, i == DTYPE_IDS + 1 ? 0 : 3, 4};
        DType t = dtype_of(i < DTYPE_IDS ? (DTypeId)i : DT_FLOAT32);
        names[i] = i < DTYPE_IDS ? dtype_row((DTypeId)i)->name : i == DTYPE_IDS ? "a b/c" : "";
        tensors[i] = tensor_new(&limits, t, rank, shape);
        for (int64_t k = 0; k < tensors[i]->size; k++)
            dtype_set_int(t, tensors[i]->data + k * (int64_t)dtype_size(t),
                          dtype_is_bool(t) ? k & 1 : k * 37 - 11);
    }
}

static void test_round_trip(void)
{
    Found f = {tensors, names, 0};
    CHECK(params_write(&limits, &diags, at("a.params"), N, names, tensors));
    CHECK(params_read(&limits, &diags, path, found, &f) && f.n == N);
    /* What it is, its bytes say and not its name. */
    f.n = 0;
    size_t n;
    char *bytes = file_read(&limits, &diags, path, &n);
    CHECK(bytes && file_write(&limits, &diags, at("other.npz"), bytes, n));
    free(bytes);
    CHECK(params_read(&limits, &diags, path, found, &f) && f.n == N);
    f.n = 0;
    CHECK(params_write(&limits, &diags, at("a.npz"), N - 1, names, tensors));
    CHECK(params_read(&limits, &diags, path, found, &f) && f.n == N - 1);
    CHECK(params_write(&limits, &diags, at("none.params"), 0, NULL, NULL));
    CHECK(params_read(&limits, &diags, path, found, &f) && diags.n == 0);
}

/* Bytes as the format lists them. */
static void test_layout(void)
{
    static const char bytes[] = "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0"
                                "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0w\1\0\0\0\0\0\0\0"
                                "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
                                "\1\0\0\0\1\1\1\0\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\1\0";
    Tensor *pair = tensor_new(&limits, dtype_of(DT_BOOL), 1, (int64_t[]){2});
    pair->data[0] = 1;
    const char *name = "w";
    Found f = {&pair, &name, 0};
    CHECK(file_write(&limits, &diags, at("l.params"), bytes, sizeof bytes - 1));
    CHECK(params_read(&limits, &diags, path, found, &f) && f.n == 1);
    tensor_release(pair);
}

static void test_damaged(void)
{
    size_t n;
    char *bytes = file_read(&limits, &diags, at("a.params"), &n);
    for (size_t i = 9; bytes && i < n; i++) {
        CHECK(file_write(&limits, &diags, at("b.params"), bytes, i));
        CHECK(!params_read(&limits, &diags, path, forget, NULL) && diags.n == 1);
        diags_clear(&diags);
    }
    for (size_t i = 0; bytes && i < n && i < 700; i++) {
        bytes[i] ^= (char)0xff;
        CHECK(file_write(&limits, &diags, at("b.params"), bytes, n));
        CHECK(params_read(&limits, &diags, path, forget, NULL) == (diags.n == 0));
        diags_clear(&diags);
        bytes[i] ^= (char)0xff;
    }
    free(bytes);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    diags_init(&diags, NULL);
    limits_init(&limits, &diags);
    make_arrays();
    test_round_trip();
    test_layout();
    test_damaged();
    for (int i = 0; i < N; i++)
        tensor_release(tensors[i]);
    CHECK(limits.memory == 0);
    static const char *const files[] = {"a.params", "b.params",    "l.params",
                                        "a.npz",    "none.params", "other.npz"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(at(files[i]));
    CHECK(rmdir(folder) == 0);
    diags_deinit(&diags);
    limits_deinit(&limits);
    return check_done();
}
