/* What code costs, as a page: a table of kernels, the roofline of this machine with the kernels under it, and memory over time.
 *
 * A roofline has for each kernel a point: how many operations it makes of a byte, and how many in a second. No point is above the roof. */
#include "session/views/cost.h"

#include <math.h>
#include <string.h>

#define ROWS 60
#define WIDTH 620
#define HEIGHT 260
#define LEFT 64
#define BOTTOM 34
#define RIGHT 24 /* half of a label */

static const char style[] =
    "<style>.relay-cost{color:var(--jp-ui-font-color1,#1f2328);font-family:var(--jp-ui-font-family,"
    "sans-serif);font-size:var(--jp-ui-font-size1,13px);max-width:100%}"
    ".relay-cost.relay-cost table{border-collapse:collapse;margin:4px 0 10px;font-size:1em}"
    ".relay-cost.relay-cost th,.relay-cost.relay-cost td{text-align:right;padding:2px 12px 2px 0;"
    "background:none;font-weight:400}"
    ".relay-cost.relay-cost th{color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-cost.relay-cost td:first-child,.relay-cost.relay-cost th:first-child{text-align:left}"
    ".relay-cost td:first-child{font-family:var(--jp-code-font-family,monospace)}"
    "@media print{.relay-cost pre{white-space:pre-wrap}}" HTML_UNFOLDED(
        ".relay-cost") ".relay-cost figure{margin:0 0 10px}"
                       ".relay-cost figcaption,.relay-cost "
                       "summary{color:var(--jp-ui-font-color2,#57606a)}"
                       ".relay-cost svg{display:block;max-width:100%;height:auto}"
                       ".relay-cost svg text{fill:currentColor;font-size:11px}"
                       ".relay-cost svg "
                       ".roof{fill:none;stroke:var(--jp-brand-color1,#1976d2);stroke-width:2}"
                       ".relay-cost svg .axis{fill:none;stroke:var(--jp-border-color1,#b8bec8)}"
                       ".relay-cost svg .kernel{fill:hsl(25 85% 50%)}"
                       ".relay-cost svg .measured{fill:none;stroke:hsl(140 60% "
                       "40%);stroke-width:2.5}"
                       ".relay-cost svg .used{fill:hsl(210 60% 55%)}.relay-cost svg "
                       ".peak{fill:hsl(350 70% 50%)}"
                       "</style>";

/* Of both axes, as powers of ten. */
typedef struct Roof {
    const CostView *v;
    Buf *out;
    double x0, x1, y0, y1;
} Roof;

static double x_of(const Roof *r, double intensity)
{
    return LEFT + (log10(intensity) - r->x0) / (r->x1 - r->x0) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const Roof *r, double rate)
{
    return HEIGHT - BOTTOM - (log10(rate) - r->y0) / (r->y1 - r->y0) * (HEIGHT - BOTTOM - 10);
}

static bool has_point(const JitKernelCost *k)
{
    return k->operations > 0 && k->bytes > 0;
}

static void widen(Roof *r, double intensity, double rate)
{
    r->x0 = fmin(r->x0, floor(log10(intensity)));
    r->x1 = fmax(r->x1, ceil(log10(intensity)));
    r->y0 = fmin(r->y0, floor(log10(rate)));
    r->y1 = fmax(r->y1, ceil(log10(rate)));
}

static void put_ticks(const Roof *r)
{
    for (double e = r->x0; e <= r->x1; e++)
        buf_printf(
            r->out,
            "<path class=\"axis\" d=\"M%.1f %dV%d\" opacity=\".4\"/><text x=\"%.1f\" y=\"%d\" "
            "text-anchor=\"middle\">%g</text>\n",
            x_of(r, pow(10, e)), 10, HEIGHT - BOTTOM, x_of(r, pow(10, e)), HEIGHT - BOTTOM + 14,
            pow(10, e));
    for (double e = r->y0; e <= r->y1; e++)
        buf_printf(
            r->out,
            "<path class=\"axis\" d=\"M%d %.1fH%d\" opacity=\".4\"/><text x=\"%d\" y=\"%.1f\" "
            "text-anchor=\"end\">%.0e</text>\n",
            LEFT, y_of(r, pow(10, e)), WIDTH - RIGHT, LEFT - 6, y_of(r, pow(10, e)) + 4,
            pow(10, e));
    buf_printf(r->out,
               "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">operations a byte</text>\n"
               "<text x=\"%d\" y=\"22\">operations a second</text>\n",
               (WIDTH + LEFT) / 2, HEIGHT - 4, LEFT + 6);
}

static void put_point(const Roof *r, const JitKernelCost *k, double seconds, const char *class)
{
    double intensity = k->operations / k->bytes, rate = k->operations / seconds;
    buf_printf(r->out,
               "<circle class=\"%s\" data-kernel=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>%s: "
               "%.3g operations a byte, %.3g a second</title></circle>",
               class, k->name, x_of(r, intensity), y_of(r, rate), k->name, intensity, rate);
}

static void put_roofline(const CostView *v, Buf *out)
{
    JitKernelCost all = cost_total(v);
    double ridge = v->peak / v->bandwidth;
    Roof r = {v, out, log10(ridge), log10(ridge), log10(v->peak), ceil(log10(v->peak))};
    if (!has_point(&all) || !(v->bandwidth > 0))
        return;
    widen(&r, ridge, v->peak);
    for (size_t i = 0; i < v->report->kernels.n; i++) {
        const JitKernelCost *k = &v->report->kernels.at[i];
        if (has_point(k))
            widen(&r, k->operations / k->bytes, k->operations / cost_taken(v, i));
    }
    if (v->measured)
        widen(&r, all.operations / all.bytes, all.operations / v->measured->whole.least);
    widen(&r, ridge * 2, v->peak);
    buf_printf(out,
               "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
               "width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"roofline\">",
               WIDTH, HEIGHT, WIDTH, HEIGHT);
    put_ticks(&r);
    double low = pow(10, fmax(r.x0, r.y0 - log10(v->bandwidth)));
    buf_printf(out, "<path class=\"roof\" d=\"M%.1f %.1fL%.1f %.1fH%d\"/>", x_of(&r, low),
               y_of(&r, low * v->bandwidth), x_of(&r, ridge), y_of(&r, v->peak), WIDTH - RIGHT);
    for (size_t i = 0; i < v->report->kernels.n; i++)
        if (has_point(&v->report->kernels.at[i]))
            put_point(&r, &v->report->kernels.at[i], cost_taken(v, i), "kernel");
    if (v->measured)
        put_point(&r, &all, v->measured->whole.least, "measured");
    buf_printf(out, "</svg><figcaption>the roof of this machine; full: a kernel as %s",
               v->measured && v->measured->kernels.n ? "measured" : "predicted");
    buf_str(out, v->measured ? "; ring: all of them as measured</figcaption></figure>"
                             : "</figcaption></figure>");
}

static void put_time(Buf *out, double seconds)
{
    buf_str(out, "<td>");
    print_time(out, seconds);
    buf_str(out, "</td>");
}

/* `took`: of all that took `all`. */
static void put_row(const CostView *v, Buf *out, const JitKernelCost *k, const JitClock *c,
                    double took, double all)
{
    buf_printf(out, "<td>%s</td>", k->name);
    put_time(out, cost_predicted(v, k));
    if (c) {
        put_time(out, c->least);
        put_time(out, c->all / (double)c->calls);
    } else if (v->measured) {
        buf_str(out, "<td>-</td><td>-</td>");
    }
    buf_printf(out, "<td>%.1f %%</td><td>%.0f %%</td><td>%.3g</td><td>%.3g</td><td>%s</td></tr>",
               100 * took / fmax(all, 1e-30), 100 * cost_bound(v, k) / fmax(took, 1e-30),
               k->operations, k->bytes, cost_by_memory(v, k) ? "memory" : "arithmetic");
}

void cost_style(Buf *out)
{
    buf_str(out, style);
}

void cost_table(const CostView *v, Buf *out,
                void (*classes)(void *data, Buf *out, const char *kernel), void *data)
{
    JitKernelCost all = cost_total(v);
    size_t n = v->report->kernels.n;
    double total = cost_taken_by_all(v);
    buf_str(out, "<table><tr><th>kernel</th><th>predicted</th>");
    buf_str(out, v->measured ? "<th>measured</th><th>mean</th>" : "");
    buf_str(out, "<th>share</th><th>of the bound</th><th>operations</th><th>bytes</th>"
                 "<th>bound by</th></tr>");
    for (size_t i = 0; i < n && i < ROWS; i++) {
        buf_str(out, "<tr");
        if (classes)
            classes(data, out, v->report->kernels.at[i].name);
        buf_char(out, '>');
        put_row(v, out, &v->report->kernels.at[i], cost_clock(v, i), cost_taken(v, i), total);
    }
    if (n > ROWS)
        buf_printf(out, "<tr><td>… and %zu more</td></tr>", n - ROWS);
    if (n > 1) {
        buf_str(out, "<tr>");
        put_row(v, out, &all, NULL, total, total);
    }
    buf_str(out, "</table>");
}

static void put_sums(const CostView *v, Buf *out)
{
    Buf sums = {0};
    cost_sums(v, &sums);
    buf_str(out, "<pre>");
    buf_html(out, buf_text(&sums), sums.n);
    buf_str(out, "</pre>");
    buf_deinit(&sums);
}

static void put_memory(const CostView *v, Buf *out)
{
    enum { TALL = 90 };
    const JitReport *r = v->report;
    int n = cost_steps(r), peak = cost_peak(r);
    size_t most = n ? cost_in_use(r, peak) : 0;
    if (!most)
        return;
    double wide = fmin(40, (double)(WIDTH - 10) / n);
    buf_printf(out,
               "<figure><svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" "
               "width=\"%d\" height=\"%d\" role=\"img\" aria-label=\"memory\">",
               WIDTH, TALL + 4, WIDTH, TALL + 4);
    for (int i = 0; i < n; i++) {
        size_t used = cost_in_use(r, i);
        double tall = (double)used / (double)most * TALL;
        buf_printf(out,
                   "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\">"
                   "<title>kernel %d: %zu bytes</title></rect>",
                   i == peak ? "peak" : "used", 4 + i * wide, TALL + 2 - tall,
                   wide > 3 ? wide - 1 : wide, tall, i + 1, used);
    }
    buf_printf(
        out,
        "</svg><figcaption>memory between kernels over time: at most %zu bytes, while kernel "
        "%d runs, in a block of %zu</figcaption></figure>",
        most, peak + 1, r->block);
}

void cost_html(const CostView *v, Buf *out)
{
    enum { SHOWN = 20000 };
    size_t n = v->nests->n < SHOWN ? v->nests->n : SHOWN;
    while (n < v->nests->n && n && buf_text(v->nests)[n - 1] != '\n')
        n--;
    buf_str(out, style);
    buf_str(out, "<div class=\"relay-cost\">");
    cost_table(v, out, NULL, NULL);
    put_sums(v, out);
    put_roofline(v, out);
    put_memory(v, out);
    buf_printf(out, "<details%s><summary>loops</summary>", n < 4000 ? " open" : "");
    html_code(out, CODE_LOOPS, buf_text(v->nests), n);
    buf_printf(out, "%s</details></div>", n < v->nests->n ? "<p>…</p>" : "");
}
