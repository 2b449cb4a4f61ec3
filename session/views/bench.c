#include "session/views/bench.h"

#include "base/document.h"
#include "base/number.h"
#include "runtime/npy.h"
#include "session/html.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- figures of others ------------------------------------------------------------------------------------------------------------ */

typedef struct PeersFile {
    RelaySession *s;
    Arena *arena;
    const char *path;
    Str workload; /* that is wanted; empty: any */
    PtrMap known; /* names of workloads, in this context */
    Peers *out;
} PeersFile;

static const char *kept_text(const PeersFile *f, const Document *d, const DocumentValue *j,
                             const char *key)
{
    const DocumentValue *v = document_get(d, j, key);
    Str text = document_str(d, v);
    return document_is(v, DOCUMENT_STRING) ? arena_copy_text(f->arena, text.ptr, text.len) : NULL;
}

static double seconds_of(const Document *d, const DocumentValue *j, const char *key)
{
    const DocumentValue *v = document_get(d, j, key);
    double ms;
    return document_is(v, DOCUMENT_NUMBER) && number_parse_double(document_str(d, v), &ms)
               ? ms / 1e3
               : 0;
}

/* False where the object is none of a peer. */
static bool take_peer(PeersFile *f, const Document *d, const DocumentValue *j)
{
    Peer p = {.name = kept_text(f, d, j, "peer"), .skipped = kept_text(f, d, j, "skipped")};
    const char *workload = kept_text(f, d, j, "workload");
    p.least = seconds_of(d, j, "min_ms");
    p.median = seconds_of(d, j, "median_ms");
    document_int(d, document_get(d, j, "threads"), &p.threads);
    if (!workload || !p.name || (!p.skipped && !(p.least > 0)))
        return false;
    ptrmap_put(&f->known, ctx_name(&f->s->cx, workload), NULL);
    if (f->workload.len && !str_is(f->workload, workload))
        return true;
    f->out->workload = workload;
    /* What we took when the file was made is not what we take now. */
    if (strcmp(p.name, "ours") != 0)
        vec_push(&f->out->all, f->arena, p);
    return true;
}

static bool bad_line(const PeersFile *f, size_t line)
{
    Diag *d = diag_error(f->s->cx.diags, E0403_FORMAT, (Span){0},
                         "`%s`, line %zu: this is no figure of a peer", f->path, line);
    diag_help(d, "a line is `{\"workload\": …, \"peer\": …, \"min_ms\": …, \"median_ms\": …}`, as "
                 "`tests/bench/compare.py --json FILE` writes it");
    return false;
}

static bool take_list(PeersFile *f, const Document *d)
{
    const DocumentValue *item = d->at + 1;
    for (size_t i = 0; i < document_count(d->at); i++, item = document_next(d, item))
        if (!take_peer(f, d, item))
            return bad_line(f, i + 1);
    return true;
}

static bool take_lines(PeersFile *f, const char *text, size_t len)
{
    const char *end = text + len;
    for (size_t line = 1; text < end; line++) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        Str one = {text, (size_t)((newline ? newline : end) - text)};
        Document d;
        DocumentError e;
        bool blank = strspn(text, " \t\r") >= one.len;
        if (!blank && !(document_read(&d, f->arena, one, &e) && take_peer(f, &d, d.at)))
            return bad_line(f, line);
        text += one.len + (newline != NULL);
    }
    return true;
}

static bool take_file(PeersFile *f, const char *text, size_t len)
{
    Document d;
    DocumentError e;
    bool list = text[strspn(text, " \t\r\n")] == '[';
    if (!list)
        return take_lines(f, text, len);
    return document_read(&d, f->arena, (Str){text, len}, &e) ? take_list(f, &d)
                                                             : bad_line(f, e.line);
}

/* One workload with figures of others. */
static bool is_found(const PeersFile *f)
{
    Buf names = {0};
    bool one = f->workload.len || f->known.n == 1;
    if (one && f->out->all.n)
        return true;
    for (size_t i = 0; i < f->known.n; i++)
        buf_printf(&names, "%s`%s`", i ? ", " : "", ((const Name *)f->known.entries[i].key)->text);
    Diag *d = one || !f->known.n ? diag_error(f->s->cx.diags, E0402_USAGE, (Span){0},
                                              "`%s` has no figures of others%s%.*s", f->path,
                                              f->workload.len ? " for " : "", (int)f->workload.len,
                                              f->workload.ptr)
                                 : diag_error(f->s->cx.diags, E0402_USAGE, (Span){0},
                                              "`%s` has figures of several workloads", f->path);
    if (names.n)
        diag_help(d, "say `workload=NAME`, of %s", buf_text(&names));
    buf_deinit(&names);
    return false;
}

bool peers_read(RelaySession *s, Arena *arena, const char *path, Str workload, Peers *out)
{
    size_t len;
    char *text = file_read(&s->cx.limits, s->cx.diags, path, &len);
    *out = (Peers){.file = path};
    PeersFile f = {.s = s, .arena = arena, .path = path, .workload = workload, .out = out};
    bool ok = text && take_file(&f, text, len) && is_found(&f);
    ptrmap_deinit(&f.known);
    free(text);
    return ok;
}

double peer_ratio(const Peer *p, const Timing *ours)
{
    return p->least / ours->least;
}

void peers_json(const Peers *peers, const Timing *ours, Buf *out)
{
    buf_str(out, "\"peers\": [");
    for (size_t i = 0; i < peers->all.n; i++) {
        const Peer *p = &peers->all.at[i];
        buf_printf(out, "%s{\"peer\": \"", i ? ", " : "");
        buf_json(out, p->name, strlen(p->name));
        buf_printf(out, "\", \"threads\": %lld, ", (long long)p->threads);
        if (p->skipped) {
            buf_str(out, "\"skipped\": \"");
            buf_json(out, p->skipped, strlen(p->skipped));
            buf_str(out, "\"}");
            continue;
        }
        buf_printf(out, "\"min_ms\": %.6g, \"median_ms\": %.6g, \"ratio\": %.2f}", p->least * 1e3,
                   p->median * 1e3, peer_ratio(p, ours));
    }
    buf_char(out, ']');
}

void peers_text(const Peers *peers, const Timing *ours, Buf *out)
{
    buf_printf(out, "%s, figures of others from %s; ratio: their minimum by ours\n",
               peers->workload, peers->file);
    buf_printf(out, "%-14s%11s %11s%8s\n%-14s", "peer", "minimum", "median", "ratio", "ours");
    print_time(out, ours->least);
    buf_char(out, ' ');
    print_time(out, ours->median);
    for (size_t i = 0; i < peers->all.n; i++) {
        const Peer *p = &peers->all.at[i];
        buf_printf(out, "\n%-14s", p->name);
        if (p->skipped) {
            buf_printf(out, "skipped: %s", p->skipped);
            continue;
        }
        print_time(out, p->least);
        buf_char(out, ' ');
        print_time(out, p->median);
        buf_printf(out, "%8.2f", peer_ratio(p, ours));
        if (p->threads > 1)
            buf_printf(out, "  on %lld threads", (long long)p->threads);
    }
}

/* ---- what was measured --------------------------------------------------------------------------------------------------------- */

enum { BENCH_ROWS = 7 };

typedef struct BenchRow {
    const char *name, *key;
    double seconds;
} BenchRow;

/* How many there are; that of the card is the last. */
static size_t rows_of(const BenchView *v, BenchRow rows[BENCH_ROWS])
{
    const Timing *t = v->timing;
    const BenchRow all[BENCH_ROWS] = {{"minimum", "min_ms", t->least},
                                      {"lower quarter", "low_ms", t->low},
                                      {"median", "median_ms", t->median},
                                      {"upper quarter", "high_ms", t->high},
                                      {"maximum", "max_ms", t->most},
                                      {"first", "first_ms", t->first},
                                      {"on the card", "gpu_ms", t->card.seconds}};
    memcpy(rows, all, sizeof all);
    return BENCH_ROWS - (v->code->engine != ENGINE_GPU);
}

static void put_how(const BenchView *v, Buf *out)
{
    buf_printf(out, "%d run%s by %s", v->timing->runs, v->timing->runs == 1 ? "" : "s",
               engine_names[v->code->engine]);
    if (engine_compiles(v->code->engine))
        buf_printf(out, " at level %d", v->opt_level);
}

static void put_transfers(const BenchView *v, Buf *out)
{
    if (v->code->engine == ENGINE_GPU)
        buf_printf(out, "%.1f KiB go to the card and %.1f KiB come back", v->timing->card.to / 1024,
                   v->timing->card.from / 1024);
}

/* NULL: there is nothing to say. */
static const char *remark(const BenchView *v)
{
    return v->constant ? TIME_KNOWN : v->function ? TIME_FUNCTION : NULL;
}

static void bench_text(const BenchView *v, Buf *out)
{
    BenchRow rows[BENCH_ROWS];
    size_t n = rows_of(v, rows);
    put_how(v, out);
    for (size_t i = 0; i < n; i++) {
        buf_printf(out, "\n%-14s", rows[i].name);
        print_time(out, rows[i].seconds);
    }
    if (v->code->engine == ENGINE_GPU)
        buf_str(out, ", ");
    put_transfers(v, out);
    if (remark(v))
        buf_printf(out, "\n%s", remark(v));
    if (!v->peers)
        return;
    buf_str(out, "\n\n");
    peers_text(v->peers, v->timing, out);
}

static void bench_json(const BenchView *v, Buf *out)
{
    BenchRow rows[BENCH_ROWS];
    size_t n = rows_of(v, rows);
    buf_printf(out, "{\"exec\": \"%s\", \"opt_level\": %d, \"runs\": %d, \"constant\": %s",
               engine_names[v->code->engine], v->opt_level, v->timing->runs,
               v->constant ? "true" : "false");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, ", \"%s\": %.6g", rows[i].key, rows[i].seconds * 1e3);
    if (v->code->engine == ENGINE_GPU)
        buf_printf(out, ", \"gpu_in\": %.0f, \"gpu_out\": %.0f", v->timing->card.to,
                   v->timing->card.from);
    if (v->peers) {
        buf_str(out, ", \"workload\": \"");
        buf_json(out, v->peers->workload, strlen(v->peers->workload));
        buf_str(out, "\", ");
        peers_json(v->peers, v->timing, out);
    }
    buf_str(out, "}\n");
}

/* ---- as a page ----------------------------------------------------------------------------------------------------------------- */

#define BAR 260
#define TALL 16

static const char style[] =
    "<style>.relay-bench{color:var(--jp-ui-font-color1,#1f2328);font-family:var(--jp-ui-font-"
    "family,"
    "sans-serif);font-size:var(--jp-ui-font-size1,13px);max-width:100%;overflow-x:auto}"
    ".relay-bench>p{margin:0 0 6px}"
    ".relay-bench.relay-bench table{border-collapse:collapse;margin:0 0 10px;font-size:1em}"
    ".relay-bench.relay-bench th,.relay-bench.relay-bench td{text-align:right;font-weight:400;"
    "padding:2px 12px 2px 0;background:none;white-space:nowrap}"
    ".relay-bench.relay-bench th{color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-bench.relay-bench th:first-child,.relay-bench.relay-bench td:first-child,"
    ".relay-bench.relay-bench td.relay-skipped{text-align:left}"
    ".relay-bench td.relay-skipped{color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-bench svg{display:block}"
    ".relay-bench svg .ours{fill:hsl(210 60% 55%)}"
    ".relay-bench svg .peer{fill:hsl(25 70% 60%)}"
    ".relay-bench svg .spread{stroke:currentColor;stroke-width:1.5;fill:none}"
    "</style>";

static void put_cell(Buf *out, double seconds)
{
    buf_str(out, "<td>");
    print_time(out, seconds);
    buf_str(out, "</td>");
}

static void put_svg(Buf *out)
{
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
               "height=\"%d\" role=\"img\" aria-label=\"times\">",
               BAR, TALL, BAR, TALL);
}

/* As long as its least time; a line goes on to the median. */
static void put_bar(Buf *out, const char *class, double least, double median, double most)
{
    double to = least / most * (BAR - 4), mid = median / most * (BAR - 4);
    buf_str(out, "<td>");
    put_svg(out);
    buf_printf(out,
               "<rect class=\"%s\" x=\"0\" y=\"3\" width=\"%.1f\" height=\"10\"/>"
               "<path class=\"spread\" d=\"M%.1f 8H%.1fM%.1f 4V12\"/></svg></td>",
               class, to, to, mid, mid);
}

static void peers_html(const BenchView *v, Buf *out)
{
    const Timing *t = v->timing;
    double most = t->median;
    for (size_t i = 0; i < v->peers->all.n; i++)
        most = fmax(most, fmax(v->peers->all.at[i].least, v->peers->all.at[i].median));
    buf_str(out, "<p>");
    buf_html(out, v->peers->workload, strlen(v->peers->workload));
    buf_str(out, ", figures of others from <code>");
    buf_html(out, v->peers->file, strlen(v->peers->file));
    buf_str(out, "</code>; ratio: their minimum by ours</p><table><tr><th>peer</th><th>minimum</th>"
                 "<th>median</th><th>ratio</th><th></th></tr><tr><td>ours</td>");
    put_cell(out, t->least);
    put_cell(out, t->median);
    buf_str(out, "<td></td>");
    put_bar(out, "ours", t->least, t->median, most);
    buf_str(out, "</tr>");
    for (size_t i = 0; i < v->peers->all.n; i++) {
        const Peer *p = &v->peers->all.at[i];
        buf_str(out, "<tr><td>");
        buf_html(out, p->name, strlen(p->name));
        if (p->threads > 1)
            buf_printf(out, ", on %lld threads", (long long)p->threads);
        buf_str(out, "</td>");
        if (p->skipped) {
            buf_str(out, "<td class=\"relay-skipped\" colspan=\"4\">skipped: ");
            buf_html(out, p->skipped, strlen(p->skipped));
            buf_str(out, "</td></tr>");
            continue;
        }
        put_cell(out, p->least);
        put_cell(out, p->median);
        buf_printf(out, "<td>%.2f</td>", peer_ratio(p, t));
        put_bar(out, "peer", p->least, p->median, most);
        buf_str(out, "</tr>");
    }
    buf_str(out, "</table>");
}

/* From the least to the most, with a box around the half that lies in the middle. What took many times as long lies outside. */
static void spread_html(const Timing *t, Buf *out)
{
    double end = fmin(t->most, t->least + 6 * (t->high - t->least) + .1 * t->least);
    double scale = (BAR - 8) / fmax(end - t->least, 1e-12);
    put_svg(out);
    buf_printf(out, "<path class=\"spread\" d=\"M4 4V12M4 8H%.1f%s\"/>",
               4 + (end - t->least) * scale, end < t->most ? "l-4 -4m4 4l-4 4" : "m0 -4v8");
    buf_printf(out,
               "<rect class=\"ours\" x=\"%.1f\" y=\"3\" width=\"%.1f\" height=\"10\"/><path "
               "class=\"spread\" d=\"M%.1f 1V15\"/></svg>",
               4 + (t->low - t->least) * scale, fmax((t->high - t->low) * scale, 1),
               4 + (t->median - t->least) * scale);
}

static void bench_html(const BenchView *v, Buf *out)
{
    BenchRow rows[BENCH_ROWS];
    size_t n = rows_of(v, rows);
    buf_printf(out, "%s<div class=\"relay-bench\"><p>", style);
    put_how(v, out);
    buf_str(out, "</p><table><tr>");
    for (size_t i = 0; i < n; i++)
        buf_printf(out, "<th>%s</th>", rows[i].name);
    buf_str(out, "<th></th></tr><tr>");
    for (size_t i = 0; i < n; i++)
        put_cell(out, rows[i].seconds);
    buf_str(out, "<td>");
    spread_html(v->timing, out);
    buf_str(out, "</td></tr></table>");
    if (v->code->engine == ENGINE_GPU) {
        buf_str(out, "<p>");
        put_transfers(v, out);
        buf_str(out, "</p>");
    }
    if (remark(v)) {
        buf_str(out, "<p>");
        html_words(out, remark(v));
        buf_str(out, "</p>");
    }
    if (v->peers)
        peers_html(v, out);
    buf_str(out, "</div>");
}

void bench_emit(RelaySession *s, const BenchView *v)
{
    Buf text = {0}, html = {0}, json = {0};
    bench_text(v, &text);
    bench_html(v, &html);
    bench_json(v, &json);
    emit_bundle(s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}
