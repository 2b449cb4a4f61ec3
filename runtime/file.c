#include "base/file.h"
#include "base/limit.h"
#include "runtime/npy.h"

#include <errno.h>
#include <string.h>

static void cannot(Diags *diags, const char *verb, const char *path, const char *why)
{
    diag_error(diags, E0401_FILE, (Span){0}, "cannot %s `%s`: %s", verb, path, why);
}

char *file_read(Limits *limits, Diags *diags, const char *path, size_t *len)
{
    Buf text = {0};
    if (file_load_data(path, limits, &text)) {
        *len = text.n;
        return buf_take(&text);
    }
    const char *name = strcmp(path, "-") == 0 ? "standard input" : path;
    if (errno == EFBIG)
        diag_error(diags, E0503_MEMORY, (Span){0}, "`%s` gives more than %zu MiB", name,
                   TEXT_MOST >> 20);
    else if (errno != ECANCELED)
        cannot(diags, "read", name, strerror(errno));
    buf_deinit(&text);
    return NULL;
}

/* What was made while memory was refused may not be whole. */
bool file_write_pieces(Limits *limits, Diags *diags, const char *path, const FilePiece *pieces,
                       size_t n, FilePrivacy privacy)
{
    if (limits && limit_refused(limits))
        return false;
    bool good = file_store_pieces(path, limits, pieces, n, privacy);
    if (!good && errno != ECANCELED)
        cannot(diags, "write", path, strerror(errno));
    return good;
}

bool file_write(Limits *limits, Diags *diags, const char *path, const void *bytes, size_t n)
{
    return file_write_pieces(limits, diags, path, &(FilePiece){bytes, n}, 1, FILE_EVERYBODYS);
}
