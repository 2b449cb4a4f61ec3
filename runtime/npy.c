#include "runtime/npy.h"

#include "base/memory.h"
#include "base/number.h"
#include "runtime/npy_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The format allows 4 GiB of header; a real one takes a hundred bytes. */
#define HEADER_MOST ((size_t)1 << 20)

static const char magic[] = "\x93NUMPY";

bool npy_error(Diags *diags, const char *name, const char *what)
{
    diag_error(diags, E0403_FORMAT, (Span){0}, "`%s` is no array that can be read: %s", name, what);
    return false;
}

/* --- The header: the text of a Python dictionary. */

typedef struct Header {
    const char *at, *end;
    char descr[16];
    bool fortran, has_order, has_shape;
    int32_t rank;
    int64_t shape[TENSOR_RANK_MOST];
} Header;

static void skip_blanks(Header *h)
{
    while (h->at < h->end && (*h->at == ' ' || *h->at == '\n' || *h->at == '\t'))
        h->at++;
}

static bool take(Header *h, const char *word)
{
    skip_blanks(h);
    size_t n = strlen(word);
    if ((size_t)(h->end - h->at) < n || memcmp(h->at, word, n) != 0)
        return false;
    h->at += n;
    return true;
}

static bool take_string(Header *h, char *out, size_t size)
{
    skip_blanks(h);
    if (h->at == h->end || (*h->at != '\'' && *h->at != '"'))
        return false;
    char quote = *h->at++;
    size_t n = 0;
    for (; h->at < h->end && *h->at != quote; h->at++) {
        if (n + 1 < size)
            out[n++] = *h->at;
    }
    out[n] = '\0';
    return take(h, quote == '"' ? "\"" : "'");
}

/* shape ::= "(" [ integer { "," integer } [","] ] ")" */
static bool take_shape(Header *h)
{
    if (!take(h, "("))
        return false;
    while (!take(h, ")")) {
        skip_blanks(h);
        const char *from = h->at;
        while (h->at < h->end && *h->at >= '0' && *h->at <= '9')
            h->at++;
        int64_t extent;
        if (!number_parse_int((Str){from, (size_t)(h->at - from)}, &extent))
            return false;
        take(h, "L");
        if (h->rank == TENSOR_RANK_MOST)
            return false;
        h->shape[h->rank++] = extent;
        if (!take(h, ",")) {
            if (!take(h, ")"))
                return false;
            break;
        }
    }
    h->has_shape = true;
    return true;
}

static bool take_entry(Header *h)
{
    char key[16];
    if (!take_string(h, key, sizeof key) || !take(h, ":"))
        return false;
    if (strcmp(key, "descr") == 0)
        return take_string(h, h->descr, sizeof h->descr);
    if (strcmp(key, "shape") == 0)
        return take_shape(h);
    if (strcmp(key, "fortran_order") != 0)
        return false;
    h->has_order = true;
    h->fortran = take(h, "True");
    return h->fortran || take(h, "False");
}

static bool parse_header(Header *h)
{
    if (!take(h, "{"))
        return false;
    while (!take(h, "}")) {
        if (!take_entry(h))
            return false;
        take(h, ",");
    }
    return h->descr[0] && h->has_order && h->has_shape;
}

/* The element type of NumPy's letters; the first one is the byte order. */
static bool dtype_of_descr(const char *descr, DType *out, bool *swapped)
{
    bool swap = descr[0] == '>';
    const char *letters = descr[0] && strchr("<>=|", descr[0]) ? descr + 1 : descr;
    if (strcmp(letters, "?") == 0)
        letters = "b1";
    for (int i = 0; i < DTYPE_IDS; i++) {
        const DTypeRow *row = dtype_row((DTypeId)i);
        if (strcmp(row->numpy + 1, letters) != 0)
            continue;
        *out = row->dtype;
        *swapped = swap && row->size > 1;
        return true;
    }
    return false;
}

static void swap_bytes(char *p, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++, p += size) {
        for (size_t k = 0; k < size / 2; k++) {
            char c = p[k];
            p[k] = p[size - 1 - k];
            p[size - 1 - k] = c;
        }
    }
}

/* Elements in the order of the file. One in Fortran order is the transpose of a row-major array. */
static Tensor *read_elements(NpyStream *s, const Header *h, DType dtype, bool swapped)
{
    int64_t shape[TENSOR_RANK_MOST], strides[TENSOR_RANK_MOST];
    for (int32_t i = 0; i < h->rank; i++)
        shape[i] = h->shape[h->fortran ? h->rank - 1 - i : i];
    Tensor *t = tensor_new_raw(s->limits, dtype, h->rank, shape);
    if (!t) {
        if (!s->limits)
            npy_error(s->diags, s->name, "it is too large for the memory there is");
        return NULL;
    }
    size_t size = dtype_size(dtype);
    if (!s->read(s->from, t->data, (size_t)t->size * size)) {
        npy_error(s->diags, s->name, "it ends before its last element");
        tensor_release(t);
        return NULL;
    }
    if (swapped)
        swap_bytes(t->data, t->size, size);
    for (int64_t i = 0; dtype_is_bool(dtype) && i < t->size; i++)
        t->data[i] = t->data[i] != 0;
    if (!h->fortran || h->rank < 2)
        return t;
    for (int32_t i = 0; i < h->rank; i++)
        strides[i] = t->strides[h->rank - 1 - i];
    Tensor *view = tensor_view(t, h->rank, h->shape, strides, 0);
    Tensor *rows = view ? tensor_contiguous(s->limits, view) : NULL;
    tensor_release(view);
    tensor_release(t);
    return rows;
}

/* Length of the header, behind the magic and the version; 0: not of this format. */
static size_t header_length(NpyStream *s)
{
    unsigned char start[8], length[4] = {0};
    if (!s->read(s->from, start, sizeof start) || memcmp(start, magic, 6) != 0) {
        npy_error(s->diags, s->name, "it does not begin as a .npy file");
        return 0;
    }
    if (start[6] < 1 || start[6] > 3) {
        npy_error(s->diags, s->name, "its version of the format is unknown");
        return 0;
    }
    size_t n = 0;
    if (s->read(s->from, length, start[6] == 1 ? 2 : 4))
        n = length[0] | (size_t)length[1] << 8 | (size_t)length[2] << 16 | (size_t)length[3] << 24;
    if (n > 0 && n <= HEADER_MOST)
        return n;
    npy_error(s->diags, s->name, "its header is damaged");
    return 0;
}

Tensor *npy_read_stream(NpyStream *s)
{
    size_t n = header_length(s);
    if (n == 0)
        return NULL;
    char *text = memory_alloc(n);
    Header h = {.at = text, .end = text + n};
    bool good = text && s->read(s->from, text, n) && parse_header(&h);
    free(text);
    if (!good) {
        npy_error(s->diags, s->name, "its header is damaged");
        return NULL;
    }
    DType dtype;
    bool swapped;
    if (dtype_of_descr(h.descr, &dtype, &swapped))
        return read_elements(s, &h, dtype, swapped);
    diag_error(s->diags, E0403_FORMAT, (Span){0},
               "`%s` has elements of NumPy's type `%s`, which has no counterpart", s->name,
               h.descr);
    return NULL;
}

void npy_print_header(Buf *out, const Tensor *t)
{
    Buf dict = {0};
    buf_printf(&dict, "{'descr': '%s', 'fortran_order': False, 'shape': (",
               dtype_row(dtype_id(t->dtype))->numpy);
    for (int32_t i = 0; i < t->rank; i++) {
        buf_int(&dict, t->shape[i]);
        buf_str(&dict, t->rank == 1 ? "," : i + 1 < t->rank ? ", " : "");
    }
    buf_str(&dict, "), }");
    /* The elements start at a multiple of 64, behind 10 bytes, this text and a line's end. */
    buf_repeat(&dict, ' ', (64 - (10 + dict.n + 1) % 64) % 64);
    buf_char(&dict, '\n');
    buf_bytes(out, magic, 6);
    buf_char(out, 1);
    buf_char(out, 0);
    buf_char(out, (char)(dict.n & 0xff));
    buf_char(out, (char)(dict.n >> 8));
    buf_bytes(out, buf_text(&dict), dict.n);
    buf_deinit(&dict);
}

static bool read_file(void *from, void *to, size_t n)
{
    return n == 0 || fread(to, 1, n, from) == n;
}

Tensor *npy_read(Limits *limits, Diags *diags, const char *path)
{
    struct stat st;
    bool regular = stat(path, &st) != 0 || S_ISREG(st.st_mode);
    size_t n = 0;
    char *bytes = regular ? NULL : file_read(limits, diags, path, &n);
    if (!regular && !bytes)
        return NULL;
    FILE *f = regular ? fopen(path, "rb") : fmemopen(bytes, n, "rb");
    Tensor *t = NULL;
    if (f)
        t = npy_read_stream(&(NpyStream){read_file, f, path, limits, diags});
    else
        diag_error(diags, E0401_FILE, (Span){0}, "cannot read `%s`: %s", path, strerror(errno));
    if (f)
        fclose(f);
    free(bytes);
    return t;
}

bool npy_write(Limits *limits, Diags *diags, const char *path, const Tensor *t)
{
    Tensor *rows = tensor_contiguous(NULL, t);
    Buf text = {0};
    npy_print_header(&text, t);
    if (rows)
        buf_bytes(&text, rows->data, (size_t)rows->size * dtype_size(rows->dtype));
    bool good = rows && !text.failed;
    if (!good)
        limit_reach(limits, LIMIT_MEMORY);
    good = good && file_write(limits, diags, path, buf_text(&text), text.n);
    tensor_release(rows);
    buf_deinit(&text);
    return good;
}
