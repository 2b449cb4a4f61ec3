#define _GNU_SOURCE 1
#include "base/attached.h"

#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE ((size_t)4096)

typedef struct End {
    char what[16];
    uint64_t from, n; /* bytes of the file */
    uint64_t folder; /* of its text, with its NUL */
} End;

static const char what_it_is[16] = "relay attached\n";

/* At the end of what an ELF file begins with are bytes that nobody reads. */
enum { MARK_AT = 9, MARK_N = 7 };
static const char mark[MARK_N + 1] = "carries";

void attached_pieces(const Buf *program, const Buf *bytes, const char *folder, Buf *rest,
                     FilePiece out[ATTACHED_PIECES])
{
    size_t gap = -program->n % PAGE;
    size_t behind = program->n < MARK_AT + MARK_N ? program->n : MARK_AT + MARK_N;
    End end = {.from = program->n + gap, .n = bytes->n, .folder = strlen(folder) + 1};
    memcpy(end.what, what_it_is, sizeof end.what);
    buf_repeat(rest, '\0', gap);
    buf_bytes(rest, folder, end.folder);
    buf_bytes(rest, (const char *)&end, sizeof end);
    out[0] = (FilePiece){buf_text(program), behind < MARK_AT ? behind : MARK_AT};
    out[1] = (FilePiece){mark, MARK_N};
    out[2] = (FilePiece){buf_text(program) + behind, program->n - behind};
    out[3] = (FilePiece){buf_text(rest), rest->failed ? 0 : gap};
    out[4] = (FilePiece){buf_text(bytes), bytes->n};
    out[5] = (FilePiece){buf_text(rest) + out[3].n, rest->n - out[3].n};
}

/* Of the program itself, which is the first: whether it is marked. The system has its beginning in memory, where reading cannot fail. */
static int look_at_first(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_LOAD && part->p_offset == 0 && part->p_filesz >= MARK_AT + MARK_N)
            *(bool *)data =
                memcmp((const char *)(uintptr_t)(info->dlpi_addr + part->p_vaddr) + MARK_AT, mark,
                       MARK_N) == 0;
    }
    return 1;
}

static bool find(int fd, Attached *out)
{
    off_t size = lseek(fd, 0, SEEK_END);
    End end;
    if (size < (off_t)sizeof end ||
        pread(fd, &end, sizeof end, size - (off_t)sizeof end) != (ssize_t)sizeof end ||
        memcmp(end.what, what_it_is, sizeof end.what) != 0)
        return false;
    size_t n = (size_t)size - sizeof end;
    if (end.from % PAGE || end.from > n || end.n > n - end.from || !end.folder ||
        end.folder != n - end.from - end.n)
        return false;
    char *at = mmap(NULL, n - end.from, PROT_READ, MAP_PRIVATE, fd, (off_t)end.from);
    if (at == MAP_FAILED || at[n - end.from - 1])
        return false;
    *out = (Attached){.at = at, .n = end.n, .folder = at + end.n};
    return true;
}

bool attached_find(Attached *out)
{
    bool marked = false;
    dl_iterate_phdr(look_at_first, &marked);
    if (!marked)
        return false;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0 || !find(fd, out))
        *out = (Attached){.at = "", .folder = "/"};
    if (fd >= 0)
        close(fd);
    return true;
}
