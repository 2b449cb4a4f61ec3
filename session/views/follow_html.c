/* An expression followed, as a page: the text above, below it a column for each stage.
 *
 * Each expression is a hidden radio button; whatever is of it is a label of that button, so that a click anywhere, or the arrow keys,
 * choose it in all columns. Then the lines that are not of it are folded. Without styles everything can be read. */
#include "session/views/follow.h"

#include "base/memory.h"

#include <string.h>
#include <sys/random.h>

#define LINES 140 /* of a column */
#define TEXT_LINES 40 /* of all definitions together */
#define ORIGINS 120
#define COLOURED 40 /* lines of a column with tokens in colours, some of each part */
#define COLUMNS 200
#define KERNELS_OPEN 12 /* more of them stand folded above the columns */
#define HUES 8

typedef struct Page {
    Follow *f;
    Buf *out;
    uint64_t id;
    uint32_t n; /* origins that can be chosen */
    uint32_t left; /* lines of the text that may still be shown */
} Page;

static const char style[] =
    "<style>.relay-follow{border:1px solid var(--jp-border-color2,#d0d4da);border-radius:6px;"
    "max-width:100%;color:var(--jp-ui-font-color1,#1f2328);background:var(--jp-layout-color1,#fff);"
    "font-family:var(--jp-ui-font-family,sans-serif);font-size:var(--jp-ui-font-size1,13px)}"
    ".relay-follow>header{padding:8px 14px;border-bottom:1px solid var(--jp-border-color2,#d0d4da);"
    "display:flex;flex-wrap:wrap;gap:4px 14px}"
    ".relay-follow>header "
    "label{cursor:pointer;color:var(--jp-brand-color1,#1976d2);margin-left:auto}"
    ".relay-follow>input{position:absolute;opacity:0;width:0;height:0;margin:0}"
    ".relay-follow:has(>input:focus-visible){outline:2px solid var(--jp-brand-color1,#1976d2)}"
    ".relay-text{max-height:30em;overflow:auto}"
    ".relay-text p{margin:0 14px;color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-follow pre.relay-program{margin:0;padding:8px 14px;background:none;color:inherit}"
    ".relay-follow label.relay-choice{cursor:pointer;border-radius:2px;padding:1px 0}"
    ".relay-columns{display:grid;grid-template-columns:repeat(auto-fit,minmax(22em,1fr));"
    "border-top:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-columns>section{min-width:0;padding:6px 0 6px 10px;"
    "border-right:1px solid var(--jp-border-color2,#d0d4da)}"
    ".relay-columns h4{margin:0 0 4px;font-size:1em;font-weight:600}"
    ".relay-columns section>div{max-height:38em;overflow:auto}"
    ".relay-columns summary{cursor:pointer;color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-columns details{font-family:var(--jp-code-font-family,monospace);"
    "font-size:var(--jp-code-font-size,12px);line-height:1.4;white-space:pre}"
    ".relay-follow .relay-columns details>pre{margin:0;padding:0;background:none;color:inherit;"
    "font:inherit;white-space:pre;overflow:visible}"
    ".relay-columns details>pre>*{display:block;width:max-content;min-width:100%;"
    "border-left:3px solid transparent;padding-left:4px;box-sizing:border-box}"
    ".relay-columns details>pre>label{cursor:pointer}"
    "@media print{.relay-columns{display:block}"
    ".relay-text,.relay-columns section>div{max-height:none}"
    ".relay-follow .relay-columns details>pre{white-space:pre-wrap}"
    ".relay-columns details>pre>*{width:auto}.relay-follow>header "
    "label{display:none}}" HTML_UNFOLDED(
        ".relay-follow") ".relay-columns p{margin:2px 0;color:var(--jp-ui-font-color2,#57606a)}"
                         ".relay-follow .relay-needs{padding:6px 14px;overflow-x:auto;"
                         "border-top:1px solid var(--jp-border-color2,#d0d4da)}"
                         ".relay-needs summary{cursor:pointer}"
                         ".relay-follow .relay-needs.relay-needs "
                         "pre{margin:0;background:none;color:inherit}";

static void put_style(Page *p)
{
    static const int hues[HUES] = {210, 25, 130, 280, 55, 340, 175, 95};
    Buf *out = p->out;
    buf_str(out, style);
    for (int i = 0; i < HUES; i++)
        buf_printf(out,
                   ".relay-follow .h%d{border-left-color:hsl(%d 70%% 50%%)}"
                   ".relay-text>pre .h%d{box-shadow:inset 0 -2px 0 hsl(%d 70%% 50%%)}",
                   i, hues[i], i, hues[i]);
    const char *between = "";
    for (uint32_t i = 1; i <= p->n; i++, between = ",")
        buf_printf(out, "%s.relay-follow:has(#rf%016llx-%u:checked) .relay-text .k%u", between,
                   (unsigned long long)p->id, (unsigned)i, (unsigned)i);
    if (p->n)
        buf_str(out, "{background:rgba(255,193,7,.28)}");
    between = "";
    for (uint32_t i = 1; i <= p->n; i++, between = ",")
        buf_printf(out,
                   "%s.relay-follow:has(#rf%016llx-%u:checked) :is(.relay-columns :is(details,"
                   "details>pre>*),.relay-needs tr[class]):not(.k%u)",
                   between, (unsigned long long)p->id, (unsigned)i, (unsigned)i);
    if (p->n)
        buf_str(out, "{display:none}");
    /* Whatever else a line is of, it has the colour of what is followed. */
    for (uint32_t i = 1; i <= p->n; i++)
        buf_printf(out,
                   ".relay-follow.relay-follow:has(#rf%016llx-%u:checked) pre>.k%u"
                   "{border-left-color:hsl(%d 70%% 50%%)}",
                   (unsigned long long)p->id, (unsigned)i, (unsigned)i, hues[i % HUES]);
    buf_str(out, "</style>");
}

static void put_radios(Page *p)
{
    for (uint32_t i = 0; i <= p->n; i++) {
        Buf place = {0};
        if (i)
            follow_place(p->f, &place, i);
        buf_printf(p->out, "<input type=\"radio\" name=\"rf%016llx\" id=\"rf%016llx-%u\"%s>",
                   (unsigned long long)p->id, (unsigned long long)p->id, (unsigned)i,
                   i ? "" : " checked");
        buf_deinit(&place);
    }
}

/* What has no lines is chosen as what is around it. */
static uint32_t chosen(const Page *p, uint32_t origin)
{
    while (origin && (origin > p->n || !p->f->origins.at[origin].lines))
        origin = p->f->origins.at[origin].around;
    return origin;
}

/* ---- the text ------------------------------------------------------------------------------------------------------------------- */

static void put_fold(Page *p, uint32_t lines)
{
    if (lines)
        buf_printf(p->out, "<p>⋮ %u line%s</p>", (unsigned)lines, lines == 1 ? "" : "s");
}

/* A definition has its first line, its last, and those with something to choose; a network has more parameters than fit a screen. */
static bool *seen_lines(Page *p, uint32_t first, uint32_t last, size_t n, const HtmlMark *marks,
                        uint32_t source)
{
    SourceMap *map = &p->f->s->cx.sources;
    bool *seen = arena_new_array(&p->f->arena, bool, last - first + 1);
    seen[0] = seen[last - first] = true;
    for (size_t i = 0; i < n; i++) {
        Span at = {source, (uint32_t)marks[i].from, (uint32_t)marks[i].from};
        uint32_t line = span_start(map, at).line;
        if (line >= first && line <= last)
            seen[line - first] = true;
    }
    /* A fold takes a line itself. */
    for (uint32_t i = 1; i + 1 <= last - first; i++)
        seen[i] |= seen[i - 1] && (seen[i + 1] || (i + 2 <= last - first && seen[i + 2]));
    return seen;
}

static void put_region(Page *p, Span region)
{
    const Follow *f = p->f;
    SourceMap *map = &f->s->cx.sources;
    const Source *source = sources_get(map, region.source);
    uint32_t first = source ? span_start(map, region).line : 0, last = first;
    if (!source || !p->left)
        return;
    last = span_end(map, region).line;
    HtmlMark *marks = arena_new_array(&p->f->arena, HtmlMark, p->n + 1);
    size_t n = 0;
    for (uint32_t i = 1; i <= p->n; i++) {
        Span span = f->origins.at[i].span;
        uint32_t k = chosen(p, i);
        if (k && span.source == region.source && span.from >= region.from && span.to <= region.to)
            marks[n++] = (HtmlMark){span.from, span.to, HTML_MARK_CHOICE, k, "rf", p->id, k % HUES};
    }
    const bool *seen = seen_lines(p, first, last, n, marks, region.source);
    uint32_t folded = 0;
    for (uint32_t i = 0; i <= last - first; i++) {
        uint32_t end = i;
        while (end <= last - first && seen[end] && p->left)
            end++, p->left--;
        if (end == i) {
            folded++;
            continue;
        }
        put_fold(p, folded);
        folded = 0;
        HtmlLines lines = {first + i, first + end - 1, 0};
        html_source(p->out, source->text, source->len, lines, n, marks);
        i = end - 1;
    }
    put_fold(p, folded);
}

/* ---- the columns ---------------------------------------------------------------------------------------------------------------- */

static void put_classes(Page *p, const uint32_t *of, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (of[i] <= p->n)
            buf_printf(p->out, "%sk%u", i ? " " : "", (unsigned)of[i]);
}

/* A line of a stage; the passes give Relay text. */
static void put_tokens(Buf *out, FollowStageKind kind, Str text)
{
    static const CodeLanguage languages[FOLLOW_STAGES] = {
        [FOLLOW_LOOPS] = CODE_LOOPS, [FOLLOW_LLVM] = CODE_LLVM, [FOLLOW_ASM] = CODE_ASM};
    if (kind == FOLLOW_PASSES)
        html_tokens(out, text.ptr, text.len);
    else
        html_code_tokens(out, languages[kind], text.ptr, text.len);
}

static void put_line(Page *p, FollowStageKind kind, const FollowLine *line, bool coloured)
{
    Buf *out = p->out;
    uint32_t first = line->n ? chosen(p, line->of[0]) : 0;
    Str text = line->text;
    bool cut = text.len > COLUMNS;
    while (cut && (text.len > COLUMNS || (text.ptr[text.len] & 0xC0) == 0x80))
        text.len--;
    if (first) {
        buf_printf(out, "<label for=\"rf%016llx-%u\" class=\"h%u ", (unsigned long long)p->id,
                   (unsigned)first, (unsigned)first % HUES);
        put_classes(p, line->of, line->n);
        buf_str(out, "\">");
    } else {
        buf_str(out, "<span>");
    }
    if (coloured)
        put_tokens(out, kind, text);
    else
        buf_html(out, text.ptr, text.len);
    buf_str(out, cut ? "…\n" : "\n");
    buf_str(out, first ? "</label>" : "</span>");
}

/* Each origin of its lines once. */
static void put_part_classes(Page *p, const FollowStage *stage, const FollowPart *part)
{
    bool *seen = arena_new_array(&p->f->arena, bool, p->n + 1);
    buf_str(p->out, " class=\"");
    for (size_t i = part->from; i < part->to; i++)
        for (uint32_t k = 0; k < stage->lines.at[i].n; k++) {
            uint32_t origin = stage->lines.at[i].of[k];
            if (origin > p->n || seen[origin])
                continue;
            seen[origin] = true;
            buf_printf(p->out, "k%u ", (unsigned)origin);
        }
    buf_char(p->out, '"');
}

static bool has_origins(const FollowStage *stage, const FollowPart *part)
{
    for (size_t i = part->from; i < part->to; i++)
        if (stage->lines.at[i].n)
            return true;
    return false;
}

/* Lines are shared out: those of expressions come first, so that each part shows some. */
static void put_part(Page *p, FollowStageKind kind, const FollowPart *part, size_t most,
                     size_t *coloured)
{
    const FollowStage *stage = &p->f->stages[kind];
    size_t n = part->to - part->from, wanted = 0, shown = 0;
    for (size_t i = part->from; i < part->to; i++)
        wanted += stage->lines.at[i].n > 0;
    bool open = has_origins(stage, part);
    size_t others = most > wanted ? most - wanted : 0;
    buf_str(p->out, "<details");
    put_part_classes(p, stage, part);
    buf_printf(p->out, "%s><summary>%.*s · %zu line%s</summary><pre>", open ? " open" : "",
               (int)part->title.len, part->title.ptr, n, n == 1 ? "" : "s");
    for (size_t i = part->from; i < part->to && shown < most; i++) {
        bool of_one = stage->lines.at[i].n > 0;
        if (!of_one && !others)
            continue;
        others -= !of_one;
        bool paint = open && *coloured > 0;
        put_line(p, kind, &stage->lines.at[i], paint);
        *coloured -= paint;
        shown++;
    }
    if (shown < n)
        buf_printf(p->out, "<span>⋮ %zu line%s\n</span>", n - shown, n - shown == 1 ? "" : "s");
    buf_str(p->out, "</pre></details>");
}

static void put_stage(Page *p, FollowStageKind kind)
{
    static const char *const titles[] = {"After each pass", "Loops", "LLVM IR", "Machine code"};
    const FollowStage *stage = &p->f->stages[kind];
    size_t left = LINES, coloured = COLOURED, i = 0;
    buf_printf(p->out, "<section data-stage=\"%s\" data-lines=\"%zu\"><h4>%s</h4><div>",
               follow_stage_names[kind], stage->lines.n, titles[kind]);
    for (; i < stage->parts.n && left; i++) {
        const FollowPart *part = &stage->parts.at[i];
        size_t share = left / (stage->parts.n - i < 8 ? stage->parts.n - i : 8) + 1;
        size_t n = part->to - part->from;
        share = share < 12 ? 12 : share;
        share = share < left ? share : left;
        size_t behind = stage->parts.n - i - 1;
        size_t paint = (coloured + behind) / (behind + 1), unused = paint;
        put_part(p, kind, part, share, &unused);
        coloured -= paint - unused;
        left -= n < share ? n : share;
    }
    if (i < stage->parts.n)
        buf_printf(p->out, "<p>⋮ %zu more</p>", stage->parts.n - i);
    if (!stage->parts.n)
        buf_str(p->out, "<p>nothing changed</p>");
    buf_str(p->out, "</div></section>");
}

/* ---- what kernels need --------------------------------------------------------------------------------------------------------- */

/* A kernel's row goes with the expressions that its loops are of. */
static void put_kernel_classes(void *data, Buf *out, const char *kernel)
{
    Page *p = data;
    const FollowStage *loops = &p->f->stages[FOLLOW_LOOPS];
    size_t i = 0;
    while (i < loops->parts.n && !str_is(loops->parts.at[i].title, kernel))
        i++;
    (void)out;
    if (i < loops->parts.n)
        put_part_classes(p, loops, &loops->parts.at[i]);
}

static void put_needs(Page *p)
{
    Buf sums = {0};
    if (!p->f->report.kernels.n)
        return;
    cost_sums(&p->f->costs, &sums);
    buf_printf(p->out,
               "<details class=\"relay-cost relay-needs\"%s><summary>What the kernels need of this "
               "machine</summary>",
               p->f->report.kernels.n > KERNELS_OPEN ? "" : " open");
    cost_table(&p->f->costs, p->out, put_kernel_classes, p);
    buf_str(p->out, "<pre>");
    buf_html(p->out, buf_text(&sums), sums.n);
    buf_str(p->out, "</pre></details>");
    buf_deinit(&sums);
}

void follow_html(Follow *f, Buf *out)
{
    Page p = {.f = f, .out = out, .left = TEXT_LINES};
    p.n = f->origins.n - 1 < ORIGINS ? (uint32_t)f->origins.n - 1 : ORIGINS;
    if (getrandom(&p.id, sizeof p.id, 0) != (ssize_t)sizeof p.id)
        p.id = (uint64_t)(clock_seconds() * 1e9);
    html_source_style(out);
    cost_style(out);
    put_style(&p);
    buf_str(out, "<div class=\"relay-follow\">");
    put_radios(&p);
    buf_printf(out,
               "<header>JIT at level %d: a click, or an arrow key, follows an expression"
               "<label for=\"rf%016llx-0\">all lines</label></header>",
               f->s->opt_level, (unsigned long long)p.id);
    buf_str(out, "<div class=\"relay-text\">");
    for (size_t i = 0; i < f->regions.n; i++)
        put_region(&p, f->regions.at[i].span);
    buf_str(out, "</div>");
    put_needs(&p);
    buf_str(out, "<div class=\"relay-columns\">");
    for (FollowStageKind kind = 0; kind < FOLLOW_STAGES; kind++)
        put_stage(&p, kind);
    buf_str(out, "</div></div>");
}
