/* NumPy files and whole files, in a folder of their own. */
#include "base/diag.h"
#include "check.h"
#include "runtime/npy.h"
#include "runtime/value.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static Limits limits;
static Diags diags;
static char folder[] = "/tmp/relay-npy-XXXXXX";
static char path[64];

static const char *at(const char *name)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static Tensor *make(DTypeId id, int32_t rank, const int64_t *shape)
{
    Tensor *t = tensor_new(&limits, dtype_of(id), rank, shape);
    for (int64_t i = 0; i < t->size; i++)
        dtype_set_int(t->dtype, t->data + i * (int64_t)dtype_size(t->dtype), i * 37 - 11);
    return t;
}

static bool same(Tensor *a, Tensor *b)
{
    Value x = {.kind = VALUE_TENSOR, .tensor = a}, y = {.kind = VALUE_TENSOR, .tensor = b};
    return value_equal(x, y);
}

static void test_round_trip(void)
{
    static const int64_t shapes[][3] = {{2, 3, 4}, {0, 3, 1}, {1, 1, 1}, {7, 1, 9}};
    for (int id = 0; id < DTYPE_IDS; id++) {
        for (int32_t rank = 0; rank <= 3; rank++) {
            for (size_t k = 0; k < 4; k++) {
                Tensor *t = make((DTypeId)id, rank, shapes[k]);
                CHECK(npy_write(&limits, &diags, at("a.npy"), t));
                Tensor *back = npy_read(&limits, &diags, at("a.npy"));
                CHECK(back && same(t, back));
                tensor_release(back);
                tensor_release(t);
            }
        }
    }
    CHECK(diags.n == 0);
}

static void write_npy(const char *header, const void *data, size_t n)
{
    Buf b = {0};
    buf_bytes(&b, "\x93NUMPY\x01\0", 8);
    buf_char(&b, (char)strlen(header));
    buf_char(&b, 0);
    buf_str(&b, header);
    buf_bytes(&b, data, n);
    CHECK(file_write(&limits, &diags, at("b.npy"), buf_text(&b), b.n));
    buf_deinit(&b);
}

static void test_orders(void)
{
    const unsigned char big[] = {0, 1, 0, 2, 0, 3, 0, 4, 1, 0, 0, 6};
    write_npy("{'shape': (2, 3), 'fortran_order': True, 'descr': '>i2'}\n", big, sizeof big);
    Tensor *t = npy_read(&limits, &diags, at("b.npy"));
    CHECK(t && t->rank == 2 && t->shape[0] == 2 && t->shape[1] == 3);
    static const int wanted[] = {1, 3, 256, 2, 4, 6};
    for (int i = 0; t && i < 6; i++)
        CHECK(tensor_get_int(t, i) == wanted[i]);
    tensor_release(t);
    write_npy("{\"descr\": \"|b1\", \"fortran_order\": False, \"shape\": (3L,), }", "\0\1\7", 3);
    t = npy_read(&limits, &diags, at("b.npy"));
    CHECK(t && t->data[2] == 1 && dtype_is_bool(t->dtype));
    tensor_release(t);
    CHECK(diags.n == 0);
}

static void test_damage(void)
{
    static const char *const headers[] = {
        "",
        "{",
        "{}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': Maybe, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1",
        "{'descr': '<f4, 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<c8', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (1,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'more': 1}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)}",
    };
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        write_npy(headers[i], "12345678", 8);
        CHECK(!npy_read(&limits, &diags, at("b.npy")));
        CHECK(diags.n == 1 && diags.first->code == E0403_FORMAT);
        diags_clear(&diags);
    }
    write_npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4000000000000000000,)}", "", 0);
    CHECK(!npy_read(&limits, &diags, at("b.npy")));
    CHECK(diags.n == 1 && diags.first->code == E0503_MEMORY);
    diags_clear(&diags);
    limits_start(&limits);
    CHECK(!npy_read(&limits, &diags, at("none.npy")));
    CHECK(diags.n == 1 && diags.first->code == E0401_FILE);
    CHECK(!npy_read(&limits, &diags, folder));
    CHECK(!npz_read(&limits, &diags, at("b.npy"), NULL, NULL));
    CHECK(!npz_write(&limits, &diags, "/nowhere/x.npz", 0, NULL, NULL));
    Tensor *one = make(DT_INT32, 0, NULL);
    CHECK(!npz_write(&limits, &diags, "/nowhere/x.npz", 1, (const char *[]){"x"}, &one));
    tensor_release(one);
    CHECK(diags.n == 5);
    diags_clear(&diags);
}

typedef struct Found {
    Tensor **tensors;
    const char *const *names;
    size_t n;
} Found;

static bool found(void *data, const char *name, Tensor *t)
{
    Found *f = data;
    CHECK(strcmp(name, f->names[f->n]) == 0 && same(t, f->tensors[f->n]));
    f->n++;
    tensor_release(t);
    return f->n < 3;
}

static void test_archive(void)
{
    static const char *const names[] = {"w", "b/\xc3\xa9", "z"};
    Tensor *tensors[3] = {make(DT_FLOAT32, 2, (int64_t[]){300, 400}), make(DT_INT64, 0, NULL),
                          NULL};
    tensors[2] = tensor_view(tensors[0], 2, (int64_t[]){400, 300}, (int64_t[]){1, 400}, 0);
    CHECK(npz_write(&limits, &diags, at("c.npz"), 3, names, tensors));
    Found f = {tensors, names, 0};
    CHECK(!npz_read(&limits, &diags, at("c.npz"), found, &f) && f.n == 3 && diags.n == 0);
    /* A damaged archive: some byte of the first array. */
    size_t n;
    char *bytes = file_read(&limits, &diags, at("c.npz"), &n);
    CHECK(bytes && n > 900000);
    bytes[5000] ^= 1;
    CHECK(file_write(&limits, &diags, at("c.npz"), bytes, n));
    f.n = 0;
    CHECK(!npz_read(&limits, &diags, at("c.npz"), found, &f) && f.n == 0);
    CHECK(diags.n == 1 && diags.first->code == E0403_FORMAT);
    diags_clear(&diags);
    free(bytes);
    CHECK(npz_write(&limits, &diags, at("c.npz"), 0, NULL, NULL));
    CHECK(npz_read(&limits, &diags, at("c.npz"), found, &f) && f.n == 0);
    for (int i = 0; i < 3; i++)
        tensor_release(tensors[i]);
}

static void test_files(void)
{
    size_t n;
    CHECK(file_write(&limits, &diags, at("t"), "one", 3) && chmod(path, 0600) == 0);
    CHECK(file_write(&limits, &diags, at("t"), "two\0!", 5));
    struct stat st;
    CHECK(stat(at("t"), &st) == 0 && (st.st_mode & 0777) == 0600);
    char *text = file_read(&limits, &diags, at("t"), &n);
    CHECK(text && n == 5 && memcmp(text, "two\0!", 6) == 0);
    free(text);
    char link[64];
    snprintf(link, sizeof link, "%s/link", folder);
    CHECK(symlink("t", link) == 0 && file_write(&limits, &diags, link, "", 0));
    CHECK(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    text = file_read(&limits, &diags, at("t"), &n);
    CHECK(text && n == 0 && text[0] == '\0');
    free(text);
    CHECK(file_write(&limits, &diags, "/dev/null", "x", 1) && diags.n == 0);
    CHECK(!file_read(&limits, &diags, folder, &n) && diags.last->code == E0401_FILE);
    CHECK(!file_write(&limits, &diags, folder, "x", 1));
    CHECK(!file_write(&limits, &diags, at("no/such"), "x", 1) && diags.n == 3);
    unlink(link);
    text = file_read(&limits, &diags, "/proc/self/status", &n);
    CHECK(text && n > 100);
    free(text);
}

int main(void)
{
    if (!mkdtemp(folder))
        return 1;
    diags_init(&diags, NULL);
    limits_init(&limits, &diags);
    test_round_trip();
    test_orders();
    test_damage();
    test_archive();
    test_files();
    static const char *const left[] = {"a.npy", "b.npy", "c.npz", "t"};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
        unlink(at(left[i]));
    CHECK(rmdir(folder) == 0);
    diags_deinit(&diags);
    limits_deinit(&limits); /* with what is kept for large tensors */
    CHECK(limits.memory == 0);
    return check_done();
}
