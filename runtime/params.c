#include "runtime/params.h"

#include "base/number.h"
#include "runtime/npy.h"
#include "runtime/npy_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define ARRAY_MAGIC 0xDD5E40F096B4A13Fu
#define LIST_MAGIC 0xF7E58D4F05049CB7u

static uint64_t get_word(const char *p, int bytes)
{
    uint64_t v = 0;
    for (int i = bytes; i-- > 0;)
        v = v << 8 | (unsigned char)p[i];
    return v;
}

static void put_word(Buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(v >> 8 * i & 255));
}

/* ---- one array ----------------------------------------------------------------------------------- */

/* Magic, 8 bytes reserved, device type and id, rank, element type; then shape; size; data. */
enum { HEAD = 32 };

Tensor *tensor_record_read(Limits *limits, const char *p, size_t n, size_t *used, const char **why)
{
    int64_t shape[TENSOR_RANK_MOST];
    *why = "does not begin as an array must";
    if (n < HEAD || get_word(p, 8) != ARRAY_MAGIC)
        return NULL;
    uint64_t rank = get_word(p + 24, 4);
    DType dtype = {
        .code = (uint8_t)p[28], .bits = (uint8_t)p[29], .lanes = (uint16_t)get_word(p + 30, 2)};
    *why = "has too many axes, or ends before its shape does";
    if (rank > TENSOR_RANK_MOST || n < HEAD + 8 * rank + 8)
        return NULL;
    for (uint64_t i = 0; i < rank; i++)
        shape[i] = (int64_t)get_word(p + HEAD + 8 * i, 8);
    size_t head = HEAD + 8 * (size_t)rank + 8, wanted;
    int64_t count;
    *why = "has an element type that cannot be stored";
    if (dtype_size(dtype) == 0)
        return NULL;
    *why = "is shorter than its shape says";
    if (!shape_size((int32_t)rank, shape, &count) ||
        !size_mul((size_t)count, dtype_size(dtype), &wanted) || wanted > n - head)
        return NULL;
    *why = "says another size than its shape";
    if (get_word(p + head - 8, 8) != wanted)
        return NULL;
    *why = NULL;
    Tensor *t = tensor_new_raw(limits, dtype, (int32_t)rank, shape);
    if (t && wanted)
        memcpy(t->data, p + head, wanted);
    for (int64_t i = 0; t && dtype_is_bool(dtype) && i < t->size; i++)
        t->data[i] = t->data[i] != 0;
    *used = head + wanted;
    return t;
}

void tensor_record_write(Buf *out, const Tensor *t)
{
    size_t element = dtype_size(t->dtype);
    put_word(out, ARRAY_MAGIC, 8);
    put_word(out, 0, 8);
    put_word(out, 1, 4);
    put_word(out, 0, 4);
    put_word(out, (uint64_t)t->rank, 4);
    put_word(out, t->dtype.code, 1);
    put_word(out, t->dtype.bits, 1);
    put_word(out, t->dtype.lanes, 2);
    for (int32_t i = 0; i < t->rank; i++)
        put_word(out, (uint64_t)t->shape[i], 8);
    put_word(out, (uint64_t)t->size * element, 8);
    if (tensor_is_contiguous(t)) {
        buf_bytes(out, t->data, (size_t)t->size * element);
        return;
    }
    for (int64_t i = 0; i < t->size; i++)
        buf_bytes(out, tensor_element(t, i), element);
}

/* ---- a list of them ------------------------------------------------------------------------------ */

typedef struct ListReader {
    const char *at, *end;
    Limits *limits;
    Diags *diags;
    const char *path;
} ListReader;

static bool take_count(ListReader *r, uint64_t *out)
{
    if (r->end - r->at < 8)
        return false;
    *out = get_word(r->at, 8);
    r->at += 8;
    return true;
}

static bool wrong_list(ListReader *r, const char *what)
{
    diag_error(r->diags, E0403_FORMAT, (Span){0}, "`%s` is no parameter file that can be read: %s",
               r->path, what);
    return false;
}

/* The names stand in front of all arrays: `*arrays` is where these begin, `*n` how many there are. */
static bool skip_names(ListReader *r, uint64_t *n, const char **arrays)
{
    ListReader ahead = *r;
    uint64_t names, len, tensors;
    bool ok = take_count(&ahead, &names);
    for (uint64_t i = 0; ok && i < names; i++) {
        ok = take_count(&ahead, &len) && len <= (uint64_t)(ahead.end - ahead.at);
        ahead.at += ok ? len : 0;
    }
    if (!ok || !take_count(&ahead, &tensors))
        return wrong_list(r, "it ends before its names do");
    if (tensors != names)
        return wrong_list(r, "it has another number of names than of arrays");
    *arrays = ahead.at;
    *n = names;
    return true;
}

static bool read_list(ListReader *r, bool (*found)(void *data, const char *name, Tensor *t),
                      void *data)
{
    uint64_t n = 0, len;
    const char *arrays = NULL, *why;
    if (!skip_names(r, &n, &arrays))
        return false;
    r->at += 8;
    for (uint64_t i = 0; i < n; i++) {
        size_t used;
        Buf name = {0};
        if (!take_count(r, &len))
            return false;
        buf_bytes(&name, r->at, (size_t)len);
        r->at += len;
        Tensor *t = tensor_record_read(r->limits, arrays, (size_t)(r->end - arrays), &used, &why);
        if (!t && why) {
            Buf what = {0};
            buf_printf(&what, "the array `%s` %s", buf_text(&name), why);
            wrong_list(r, buf_text(&what));
            buf_deinit(&what);
        }
        bool ok = t && found(data, buf_text(&name), t);
        buf_deinit(&name);
        if (!ok)
            return false;
        arrays += used;
    }
    return arrays == r->end || wrong_list(r, "something stands behind its last array");
}

static bool begins_as_list(const char *path)
{
    char head[8];
    FILE *f = fopen(path, "rb");
    bool is = f && fread(head, 1, sizeof head, f) == sizeof head && get_word(head, 8) == LIST_MAGIC;
    if (f)
        fclose(f);
    return is;
}

bool params_read(Limits *limits, Diags *diags, const char *path,
                 bool (*found)(void *data, const char *name, Tensor *t), void *data)
{
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        diag_error(diags, E0401_FILE, (Span){0}, "cannot read `%s`: %s", path,
                   S_ISDIR(st.st_mode) ? strerror(EISDIR)
                                       : "it is no file, which can be read at any place");
        return false;
    }
    if (!begins_as_list(path))
        return npz_read(limits, diags, path, found, data);
    size_t n;
    char *text = file_read(limits, diags, path, &n);
    if (!text)
        return false;
    ListReader r = {
        .at = text + 16, .end = text + n, .limits = limits, .diags = diags, .path = path};
    bool ok = n >= 16 ? read_list(&r, found, data) : wrong_list(&r, "it ends before its names do");
    free(text);
    return ok;
}

static bool ends_in(const char *path, const char *end)
{
    size_t n = strlen(path), k = strlen(end);
    return n > k && strcmp(path + n - k, end) == 0;
}

bool params_can_write(Diags *diags, const char *path)
{
    const char *slash = strrchr(path, '/'), *file = slash ? slash + 1 : path;
    if (!strchr(file, '.') || ends_in(path, ".npz") || ends_in(path, ".params"))
        return true;
    Diag *d = diag_error(diags, E0402_USAGE, (Span){0},
                         "`%s`: what kind of file this is to be is not known", path);
    diag_help(d, "arrays are written to files that end in `.npz` or `.params`");
    return false;
}

bool params_write(Limits *limits, Diags *diags, const char *path, size_t n,
                  const char *const *names, Tensor *const *tensors)
{
    if (!params_can_write(diags, path))
        return false;
    if (!ends_in(path, ".params"))
        return npz_write(limits, diags, path, n, names, tensors);
    Buf b = {0};
    put_word(&b, LIST_MAGIC, 8);
    put_word(&b, 0, 8);
    put_word(&b, n, 8);
    for (size_t i = 0; i < n; i++) {
        put_word(&b, strlen(names[i]), 8);
        buf_str(&b, names[i]);
    }
    put_word(&b, n, 8);
    for (size_t i = 0; i < n; i++)
        tensor_record_write(&b, tensors[i]);
    bool good = !b.failed;
    if (!good)
        limit_reach(limits, LIMIT_MEMORY);
    good = good && file_write(limits, diags, path, buf_text(&b), b.n);
    buf_deinit(&b);
    return good;
}
