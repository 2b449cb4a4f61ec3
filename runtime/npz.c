#include "base/file.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "runtime/npy.h"
#include "runtime/npy_internal.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <zip.h>

/* libzip is opened when an archive is: with what it needs itself it would double the time that the
 * program takes to start. */
#define ZIP_FUNCTIONS(M)        \
    M(zip_open)                 \
    M(zip_discard)              \
    M(zip_strerror)             \
    M(zip_error_init_with_code) \
    M(zip_error_strerror)       \
    M(zip_error_fini)           \
    M(zip_get_num_entries)      \
    M(zip_get_name)             \
    M(zip_fopen_index)          \
    M(zip_fread)                \
    M(zip_fclose)

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
    z->library = library_open(names, sizeof names / sizeof names[0], RTLD_NOW | RTLD_LOCAL, NULL);
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
                         "libzip is missing, so .npz files cannot be read");
    diag_help(d, "install libzip4, or use .npy files");
    return false;
}

static zip_t *open_archive(const Zip *z, Diags *diags, const char *path)
{
    int code = 0;
    zip_t *archive = z->zip_open(path, ZIP_RDONLY, &code);
    if (archive)
        return archive;
    if (code == ZIP_ER_NOZIP || code == ZIP_ER_INCONS) {
        diag_error(diags, E0403_FORMAT, (Span){0}, "`%s` is no archive of arrays", path);
        return NULL;
    }
    zip_error_t error;
    z->zip_error_init_with_code(&error, code);
    diag_error(diags, E0401_FILE, (Span){0}, "cannot read `%s`: %s", path,
               z->zip_error_strerror(&error));
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
    zip_t *archive = zip_ready(&z, diags) ? open_archive(&z, diags, path) : NULL;
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

/* ---- writing ------------------------------------------------------------------------------------ */

/* Arrays are stored uncompressed, as NumPy stores them, and have no date: two archives of the same arrays are the same. That is a
 * few headers, so that a library is needed for reading alone. */

#define ZIP32_MOST 0xffffffffu
#define ZIP_DATE 0x21 /* the first day of 1980, where zip begins */

typedef struct Stored {
    Buf name;
    uint64_t at, size;
    uint32_t crc;
    Tensor *rows; /* counted: its elements stand behind so much of the text */
    size_t behind;
} Stored;

/* The archive: its text, and how many bytes of arrays stand between. */
typedef struct Archive {
    Buf text;
    uint64_t arrays;
} Archive;

static void put(Buf *b, uint64_t v, int bytes)
{
    for (int i = 0; i < bytes; i++)
        buf_char(b, (char)(v >> 8 * i & 0xff));
}

static uint32_t crc_of(uint32_t crc, const char *p, size_t n)
{
    uint32_t table[256];
    crc = ~crc;
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t c = i;
        for (int k = 0; k < 8; k++)
            c = c & 1 ? c >> 1 ^ 0xedb88320u : c >> 1;
        table[i] = c;
    }
    for (size_t i = 0; i < n; i++)
        crc = crc >> 8 ^ table[(crc ^ (unsigned char)p[i]) & 0xff];
    return ~crc;
}

/* The same of many bytes; what it is matters no more when a limit was hit. */
static uint32_t crc_of_long(Limits *limits, uint32_t crc, const char *p, size_t n)
{
    enum { PIECE = 1 << 22 };
    for (size_t at = 0; at < n && !limit_hit(limits); at += PIECE)
        crc = crc_of(crc, p + at, n - at < PIECE ? n - at : PIECE);
    return crc;
}

static uint64_t short_of(uint64_t v)
{
    return v < ZIP32_MOST ? v : ZIP32_MOST;
}

/* What the header before an array and its entry at the end have in common: from the version that is needed to the length of the
 * part behind the name. */
static void put_entry(Buf *b, const Stored *e, size_t extra)
{
    bool plain = true;
    for (size_t i = 0; i < e->name.n; i++)
        plain &= (unsigned char)e->name.at[i] < 0x80;
    put(b, extra ? 45 : 20, 2);
    put(b, plain ? 0 : 0x800, 2); /* the name is UTF-8 */
    put(b, 0, 4); /* stored; midnight */
    put(b, ZIP_DATE, 2);
    put(b, e->crc, 4);
    put(b, short_of(e->size), 4);
    put(b, short_of(e->size), 4);
    put(b, e->name.n, 2);
    put(b, extra, 2);
}

/* The numbers that do not fit where they belong. */
static void put_long(Buf *b, const uint64_t *long_ones, size_t n)
{
    if (n == 0)
        return;
    put(b, 1, 2);
    put(b, 8 * n, 2);
    for (size_t i = 0; i < n; i++)
        put(b, long_ones[i], 8);
}

static bool store_array(Limits *limits, Archive *to, Stored *e, const char *name, const Tensor *t)
{
    Buf header = {0}, *out = &to->text;
    e->rows = tensor_contiguous(NULL, t);
    if (e->rows) {
        npy_print_header(&header, t);
        size_t bytes = (size_t)e->rows->size * dtype_size(e->rows->dtype);
        buf_printf(&e->name, "%s.npy", name);
        e->at = out->n + to->arrays;
        e->size = header.n + bytes;
        e->crc = crc_of_long(limits, crc_of(0, buf_text(&header), header.n), e->rows->data, bytes);
        bool is_long = e->size >= ZIP32_MOST;
        buf_bytes(out, "PK\3\4", 4);
        put_entry(out, e, is_long ? 20 : 0);
        buf_bytes(out, buf_text(&e->name), e->name.n);
        put_long(out, (uint64_t[]){e->size, e->size}, is_long ? 2 : 0);
        buf_bytes(out, buf_text(&header), header.n);
        e->behind = out->n;
        to->arrays += bytes;
    }
    bool good = e->rows && !header.failed && !e->name.failed && !out->failed;
    buf_deinit(&header);
    return good;
}

static void put_directory(Archive *to, const Stored *entries, size_t n)
{
    Buf *out = &to->text;
    uint64_t start = out->n + to->arrays;
    for (size_t i = 0; i < n; i++) {
        const Stored *e = &entries[i];
        uint64_t long_ones[3];
        size_t k = 0;
        if (e->size >= ZIP32_MOST)
            k = (long_ones[0] = long_ones[1] = e->size, 2);
        if (e->at >= ZIP32_MOST)
            long_ones[k++] = e->at;
        buf_bytes(out, "PK\1\2", 4);
        put(out, 0x032d, 2); /* made on Unix */
        put_entry(out, e, k ? 4 + 8 * k : 0);
        put(out, 0, 6); /* no comment, first disk, no kind */
        put(out, (uint64_t)0100644 << 16, 4); /* an ordinary file */
        put(out, short_of(e->at), 4);
        buf_bytes(out, buf_text(&e->name), e->name.n);
        put_long(out, long_ones, k);
    }
    uint64_t end = out->n + to->arrays, size = end - start;
    bool is_long = end >= ZIP32_MOST || n >= 0xffff;
    if (is_long) {
        buf_bytes(out, "PK\6\6", 4);
        put(out, 44, 8);
        put(out, 0x002d032d, 4);
        put(out, 0, 8);
        put(out, n, 8);
        put(out, n, 8);
        put(out, size, 8);
        put(out, start, 8);
        buf_bytes(out, "PK\6\7", 4);
        put(out, 0, 4);
        put(out, end, 8);
        put(out, 1, 4);
    }
    buf_bytes(out, "PK\5\6", 4);
    put(out, 0, 4);
    put(out, is_long ? 0xffff : n, 2);
    put(out, is_long ? 0xffff : n, 2);
    put(out, is_long ? ZIP32_MOST : size, 4);
    put(out, is_long ? ZIP32_MOST : start, 4);
    put(out, 0, 2);
}

/* The text, with the elements of each array in their place. */
static bool write_archive(Limits *limits, Diags *diags, const char *path, const Archive *archive,
                          const Stored *entries, size_t n)
{
    FilePiece *pieces = memory_zeroed(2 * n + 1, sizeof *pieces);
    const char *text = buf_text(&archive->text);
    size_t from = 0;
    for (size_t i = 0; i < n && pieces; i++) {
        const Stored *e = &entries[i];
        size_t bytes = (size_t)e->rows->size * dtype_size(e->rows->dtype);
        pieces[2 * i] = (FilePiece){text + from, e->behind - from};
        pieces[2 * i + 1] = (FilePiece){e->rows->data, bytes};
        from = e->behind;
    }
    if (pieces)
        pieces[2 * n] = (FilePiece){text + from, archive->text.n - from};
    else
        limit_reach(limits, LIMIT_MEMORY);
    bool good =
        pieces && file_write_pieces(limits, diags, path, pieces, 2 * n + 1, FILE_EVERYBODYS);
    memory_free(pieces);
    return good;
}

bool npz_write(Limits *limits, Diags *diags, const char *path, size_t n,
               const char *const *array_names, Tensor *const *tensors)
{
    Archive archive = {0};
    Stored *entries = memory_zeroed(n, sizeof *entries);
    bool good = entries != NULL;
    for (size_t i = 0; i < n && good; i++)
        good = store_array(limits, &archive, &entries[i], array_names[i], tensors[i]);
    if (good)
        put_directory(&archive, entries, n);
    if (!good || archive.text.failed) {
        good = false;
        limit_reach(limits, LIMIT_MEMORY);
    } else {
        good = write_archive(limits, diags, path, &archive, entries, n);
    }
    for (size_t i = 0; i < n && entries; i++) {
        buf_deinit(&entries[i].name);
        tensor_release(entries[i].rows);
    }
    free(entries);
    buf_deinit(&archive.text);
    return good;
}
