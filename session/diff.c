/* A unified diff by lines: E. W. Myers, "An O(ND) Difference Algorithm and Its Variations", 1986, with the plain table of
 * furthest points; texts that differ in more than DIFF_MOST lines are shown as one replaced block. */
#include "session/internal.h"
#include "base/memory.h"

#include <stdlib.h>
#include <string.h>

#define DIFF_MOST 2000

typedef struct Lines {
    Str *at;
    int n;
} Lines;

static Lines split_lines(const char *text)
{
    Lines ls = {0};
    int cap = 1;
    for (const char *p = text; *p; p++)
        cap += *p == '\n';
    ls.at = memory_zeroed((size_t)cap + 1, sizeof *ls.at);
    for (const char *p = text; ls.at && *p;) {
        size_t len = strcspn(p, "\n");
        ls.at[ls.n++] = (Str){p, len};
        p += len + (p[len] == '\n');
    }
    return ls;
}

static bool same_line(const Lines *a, int i, const Lines *b, int k)
{
    return i < a->n && k < b->n && str_eq(a->at[i], b->at[k]);
}

/* marks[i] of a: the line stays (' ') or goes ('-'); of b: stays or is new ('+'). False when the texts differ too much. */
static bool mark(const Lines *a, const Lines *b, char *keep_a, char *keep_b)
{
    int most = a->n + b->n;
    most = most > DIFF_MOST ? DIFF_MOST : most;
    size_t width = 2 * (size_t)most + 3;
    int *trace = memory_zeroed(width * ((size_t)most + 1), sizeof *trace);
    int *v = memory_zeroed(width, sizeof *v);
    int found = -1, mid = most + 1;
    for (int d = 0; trace && v && d <= most && found < 0; d++) {
        for (int k = -d; k <= d; k += 2) {
            int x = k == -d || (k != d && v[mid + k - 1] < v[mid + k + 1]) ? v[mid + k + 1]
                                                                           : v[mid + k - 1] + 1;
            while (same_line(a, x, b, x - k))
                x++;
            v[mid + k] = x;
            if (x >= a->n && x - k >= b->n)
                found = d;
        }
        memcpy(trace + (size_t)d * width, v, width * sizeof *v);
    }
    memset(keep_a, ' ', (size_t)a->n);
    memset(keep_b, ' ', (size_t)b->n);
    int x = a->n, y = b->n;
    for (int d = found; d > 0; d--) {
        const int *u = trace + (size_t)(d - 1) * width;
        int k = x - y;
        bool down = k == -d || (k != d && u[mid + k - 1] < u[mid + k + 1]);
        int from = down ? u[mid + k + 1] : u[mid + k - 1];
        int before = from - (down ? k + 1 : k - 1);
        if (down)
            keep_b[before] = '+';
        else
            keep_a[from] = '-';
        x = from;
        y = before;
    }
    free(trace);
    free(v);
    return found >= 0;
}

static void put_line(Buf *out, char sign, Str line, bool color)
{
    const char *on = !color || sign == ' ' ? "" : sign == '+' ? "\033[32m" : "\033[31m";
    buf_printf(out, "%s%c%.*s%s\n", on, sign, (int)line.len, line.ptr, *on ? "\033[0m" : "");
}

typedef struct DiffRow {
    char sign;
    Str line;
} DiffRow;

static void print_rows(Buf *out, const DiffRow *rows, int n, int context, bool color)
{
    int next = 0;
    for (int i = 0; i < n; i++) {
        if (rows[i].sign == ' ')
            continue;
        int from = i - context > next ? i - context : next;
        if (from > next || (next == 0 && from > 0))
            buf_str(out, "  ⋮\n");
        for (int k = from; k < i; k++)
            put_line(out, ' ', rows[k].line, color);
        int end = i;
        while (end < n && rows[end].sign != ' ')
            put_line(out, rows[end].sign, rows[end].line, color), end++;
        int tail = end;
        while (tail < n && tail < end + context && rows[tail].sign == ' ')
            put_line(out, ' ', rows[tail].line, color), tail++;
        next = tail;
        i = tail - 1;
    }
    if (next && next < n)
        buf_str(out, "  ⋮\n");
}

void diff_lines(Buf *out, const char *before, const char *after, int context, bool color)
{
    Lines a = split_lines(before), b = split_lines(after);
    char *keep_a = memory_alloc((size_t)a.n + 1), *keep_b = memory_alloc((size_t)b.n + 1);
    DiffRow *rows = memory_zeroed((size_t)a.n + (size_t)b.n + 1, sizeof *rows);
    if (a.at && b.at && keep_a && keep_b && rows) {
        if (!mark(&a, &b, keep_a, keep_b)) {
            memset(keep_a, '-', (size_t)a.n);
            memset(keep_b, '+', (size_t)b.n);
        }
        int n = 0;
        for (int i = 0, k = 0; i < a.n || k < b.n;) {
            if (i < a.n && keep_a[i] == '-')
                rows[n++] = (DiffRow){'-', a.at[i++]};
            else if (k < b.n && keep_b[k] == '+')
                rows[n++] = (DiffRow){'+', b.at[k++]};
            else
                rows[n++] = (DiffRow){' ', a.at[i++]}, k++;
        }
        print_rows(out, rows, n, context, color);
    }
    free(a.at);
    free(b.at);
    free(keep_a);
    free(keep_b);
    free(rows);
}
