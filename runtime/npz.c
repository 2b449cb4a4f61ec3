#include "runtime/npy.h"
#include "runtime/npy_internal.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <zip.h>

/* libzip is opened when an archive is: with what it needs itself it would double the time that the
 * program takes to start. */
#define ZIP_FUNCTIONS(M)        \
    M(zip_open)                 \
    M(zip_close)                \
    M(zip_discard)              \
    M(zip_strerror)             \
    M(zip_error_init_with_code) \
    M(zip_error_strerror)       \
    M(zip_error_fini)           \
    M(zip_get_num_entries)      \
    M(zip_get_name)             \
    M(zip_fopen_index)          \
    M(zip_fread)                \
    M(zip_fclose)               \
    M(zip_source_buffer)        \
    M(zip_source_free)          \
    M(zip_file_add)             \
    M(zip_set_file_compression) \
    M(zip_file_set_dostime)

typedef struct Zip {
    void *library;
#define MEMBER(name) __typeof__(name) *name;
    ZIP_FUNCTIONS(MEMBER)
#undef MEMBER
} Zip;

static const char *const names[] = {"libzip.so.5", "libzip.so.4", "libzip.so"};

static bool zip_ready(Zip *z, Diags *diags)
{
    *z = (Zip){0};
    for (size_t i = 0; i < sizeof names / sizeof names[0] && !z->library; i++)
        z->library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    bool good = z->library != NULL;
    void *symbol;
    /* POSIX lets a data pointer from dlsym hold a function; ISO C has no conversion for it. */
#define FIND(name)                                   \
    symbol = good ? dlsym(z->library, #name) : NULL; \
    good = good && symbol;                           \
    memcpy(&z->name, &symbol, sizeof symbol);
    ZIP_FUNCTIONS(FIND)
#undef FIND
    if (good)
        return true;
    if (z->library)
        dlclose(z->library);
    Diag *d = diag_error(diags, E0404_LIBRARY, (Span){0},
                         "libzip is missing, so .npz files cannot be read or written");
    diag_help(d, "install libzip4, or use .npy files");
    return false;
}

static zip_t *open_archive(Zip *z, Diags *diags, const char *path, int flags)
{
    int code = 0;
    zip_t *archive = z->zip_open(path, flags, &code);
    if (archive)
        return archive;
    if (code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS) {
        diag_error(diags, E0403_FORMAT, (Span){0}, "`%s` is no archive of arrays", path);
        return NULL;
    }
    zip_error_t error;
    z->zip_error_init_with_code(&error, code);
    diag_error(diags, E0401_FILE, (Span){0}, "cannot %s `%s`: %s",
               flags & ZIP_CREATE ? "write" : "read", path, z->zip_error_strerror(&error));
    z->zip_error_fini(&error);
    return NULL;
}

typedef struct Entry {
    const Zip *zip;
    zip_file_t *file;
} Entry;

static bool read_entry(void *from, void *to, size_t n)
{
    Entry *e = from;
    for (char *p = to; n > 0;) {
        zip_int64_t got = e->zip->zip_fread(e->file, p, n);
        if (got <= 0)
            return false;
        p += got;
        n -= (size_t)got;
    }
    return true;
}

/* The checksum is compared when the end is reached. */
static bool entry_is_intact(Entry *e)
{
    char rest;
    return e->zip->zip_fread(e->file, &rest, 1) >= 0;
}

static Tensor *read_array(const Zip *z, zip_t *archive, zip_uint64_t index, NpyStream *s)
{
    Entry e = {z, z->zip_fopen_index(archive, index, 0)};
    if (!e.file) {
        npy_error(s->diags, s->name, z->zip_strerror(archive));
        return NULL;
    }
    s->read = read_entry;
    s->from = &e;
    Tensor *t = npy_read_stream(s);
    if (t && !entry_is_intact(&e)) {
        npy_error(s->diags, s->name, "its checksum is wrong");
        tensor_release(t);
        t = NULL;
    }
    z->zip_fclose(e.file);
    return t;
}

typedef bool Found(void *data, const char *name, Tensor *t);

/* What is in the archive beside arrays is not for us. */
static bool read_member(const Zip *z, zip_t *archive, zip_uint64_t index, NpyStream s, Found *found,
                        void *data)
{
    const char *file = z->zip_get_name(archive, index, 0);
    size_t n = file ? strlen(file) : 0;
    if (n < 4 || strcmp(file + n - 4, ".npy") != 0)
        return true;
    Buf name = {0}, where = {0};
    buf_bytes(&name, file, n - 4);
    buf_printf(&where, "%s: %s", s.name, buf_text(&name));
    s.name = buf_text(&where);
    Tensor *t = read_array(z, archive, index, &s);
    bool good = t && found(data, buf_text(&name), t);
    buf_deinit(&name);
    buf_deinit(&where);
    return good;
}

bool npz_read(Limits *limits, Diags *diags, const char *path,
              bool (*found)(void *data, const char *name, Tensor *t), void *data)
{
    Zip z;
    zip_t *archive = zip_ready(&z, diags) ? open_archive(&z, diags, path, ZIP_RDONLY) : NULL;
    if (!archive)
        return false;
    NpyStream s = {.name = path, .limits = limits, .diags = diags};
    zip_int64_t n = z.zip_get_num_entries(archive, 0);
    bool good = true;
    for (zip_int64_t i = 0; i < n && good; i++)
        good = read_member(&z, archive, (zip_uint64_t)i, s, found, data);
    z.zip_discard(archive);
    return good;
}

/* Adds one array, uncompressed as NumPy writes them; the archive frees the bytes. Two archives of
 * the same arrays are the same. */
static bool add_array(const Zip *z, zip_t *archive, const char *name, const Tensor *t)
{
    Tensor *rows = tensor_contiguous(NULL, t);
    Buf bytes = {0}, file = {0};
    buf_printf(&file, "%s.npy", name);
    npy_print_header(&bytes, t);
    if (rows)
        buf_bytes(&bytes, rows->data, (size_t)rows->size * dtype_size(rows->dtype));
    bool good = rows && !bytes.failed;
    size_t n = bytes.n;
    char *text = buf_take(&bytes);
    zip_source_t *source = good ? z->zip_source_buffer(archive, text, n, 1) : NULL;
    if (!source)
        free(text);
    zip_int64_t at =
        source ? z->zip_file_add(archive, buf_text(&file), source, ZIP_FL_ENC_UTF_8) : -1;
    if (source && at < 0)
        z->zip_source_free(source);
    good = at >= 0 &&
           z->zip_set_file_compression(archive, (zip_uint64_t)at, ZIP_CM_STORE, 0) == 0 &&
           z->zip_file_set_dostime(archive, (zip_uint64_t)at, 0, 0x21, 0) == 0;
    tensor_release(rows);
    buf_deinit(&file);
    return good;
}

bool npz_write(Diags *diags, const char *path, size_t n, const char *const *array_names,
               Tensor *const *tensors)
{
    /* libzip writes no archive without entries; it is an end record alone. */
    static const char empty[22] = "PK\5\6";
    if (n == 0)
        return file_write(diags, path, empty, sizeof empty);
    Zip z;
    zip_t *archive =
        zip_ready(&z, diags) ? open_archive(&z, diags, path, ZIP_CREATE | ZIP_TRUNCATE) : NULL;
    if (!archive)
        return false;
    bool good = true;
    for (size_t i = 0; i < n && good; i++)
        good = add_array(&z, archive, array_names[i], tensors[i]);
    good = good && z.zip_close(archive) == 0;
    if (good)
        return true;
    diag_error(diags, E0401_FILE, (Span){0}, "cannot write `%s`: %s", path,
               z.zip_strerror(archive));
    z.zip_discard(archive);
    return false;
}
