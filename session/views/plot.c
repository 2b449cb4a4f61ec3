#include "session/views/plot.h"

#include "base/number.h"
#include "base/utf8.h"
#include "session/views/facts.h"
#include "session/views/value_html.h"

#include <math.h>
#include <string.h>

enum {
    CURVES = PLOT_CURVES_MOST,
    POINTS = 1 << 20, /* of a list */
    /* In a terminal: a character has two dots beside each other and four below each other. */
    WIDE = 64,
    HIGH = 12,
    CELLS = 48, /* of a heat map, along a side */
};

typedef struct Curve {
    const double *x, *y;
    int64_t n;
} Curve;

typedef struct Plot {
    RelaySession *s;
    Arena arena;
    Curve curves[CURVES];
    size_t n;
    double left, right, low, high; /* what is seen */
} Plot;

/* ---- what is plotted ---------------------------------------------------------------------------------------------------------- */

static bool vector(const Value *v, TensorView *out)
{
    return value_view(v, out) && out->t.rank == 1 && out->t.size > 0;
}

static const double *numbers(Plot *p, const Tensor *t)
{
    double *at = arena_alloc_array(&p->arena, (size_t)t->size, sizeof *at);
    for (int64_t i = 0; i < t->size && !limit_hit_at(&p->s->cx.limits, i); i++)
        at[i] = tensor_get_double(t, i);
    return at;
}

static const double *positions(Plot *p, int64_t n)
{
    double *at = arena_alloc_array(&p->arena, (size_t)n, sizeof *at);
    for (int64_t i = 0; i < n && !limit_hit_at(&p->s->cx.limits, i); i++)
        at[i] = (double)i;
    return at;
}

/* A list of numbers by any name: constructors of a number and of what comes behind it. */
static bool take_list(Plot *p, Value v)
{
    Vec(double) all = {0};
    while (v.kind == VALUE_CON && object_n(v.object) == 2 && all.n < POINTS &&
           !limit_hit(&p->s->cx.limits)) {
        TensorView view;
        Value head = object_get(v.object, 0);
        if (!value_view(&head, &view) || view.t.rank != 0)
            return false;
        vec_push(&all, &p->arena, tensor_get_double(&view.t, 0));
        v = object_get(v.object, 1);
    }
    if (!all.n || v.kind != VALUE_CON || object_n(v.object) != 0)
        return false;
    p->curves[p->n++] = (Curve){positions(p, (int64_t)all.n), all.at, (int64_t)all.n};
    return true;
}

static bool take_tuple(Plot *p, Value v)
{
    uint32_t n = v.kind == VALUE_TUPLE ? object_n(v.object) : 0;
    const double *x = NULL;
    int64_t size = 0;
    for (uint32_t i = 0; i < n && p->n < CURVES; i++) {
        TensorView view;
        Value field = object_get(v.object, i);
        if (!vector(&field, &view) || (i && view.t.size != size))
            return false;
        size = view.t.size;
        const double *at = numbers(p, &view.t);
        if (i)
            p->curves[p->n++] = (Curve){x, at, size};
        else
            x = at;
    }
    return p->n > 0;
}

static bool take(Plot *p, Value v)
{
    TensorView view;
    if (!vector(&v, &view))
        return take_list(p, v) || take_tuple(p, v);
    p->curves[p->n++] = (Curve){positions(p, view.t.size), numbers(p, &view.t), view.t.size};
    return true;
}

static void measure(Plot *p)
{
    p->left = p->low = INFINITY;
    p->right = p->high = -INFINITY;
    for (size_t k = 0; k < p->n; k++)
        for (int64_t i = 0; i < p->curves[k].n && !limit_hit_at(&p->s->cx.limits, i); i++) {
            double x = p->curves[k].x[i], y = p->curves[k].y[i];
            if (!isfinite(x) || !isfinite(y))
                continue;
            p->left = fmin(p->left, x);
            p->right = fmax(p->right, x);
            p->low = fmin(p->low, y);
            p->high = fmax(p->high, y);
        }
    if (p->low > p->high)
        p->left = p->low = 0, p->right = p->high = 1;
}

static double place(double v, double from, double to)
{
    return to > from ? (v - from) / (to - from) : 0.5;
}

/* ---- curves as text ------------------------------------------------------------------------------------------------------------ */

typedef struct Dots {
    unsigned char at[HIGH][WIDE];
} Dots;

static void put_dot(Dots *d, int x, int y)
{
    static const unsigned char bits[4][2] = {{1, 8}, {2, 16}, {4, 32}, {64, 128}};
    d->at[y / 4][x / 2] |= bits[y % 4][x % 2];
}

/* The dots on the straight line between two. */
static void put_stroke(Dots *d, int x0, int y0, int x1, int y1)
{
    int wide = x1 > x0 ? x1 - x0 : x0 - x1, high = y1 > y0 ? y1 - y0 : y0 - y1;
    int n = wide > high ? wide : high;
    for (int i = 0; i <= n; i++)
        put_dot(d, n ? x0 + (x1 - x0) * i / n : x0, n ? y0 + (y1 - y0) * i / n : y0);
}

static void draw(const Plot *p, const Curve *c, Dots *d)
{
    bool joined = false;
    int x0 = 0, y0 = 0;
    for (int64_t i = 0; i < c->n && !limit_hit_at(&p->s->cx.limits, i); i++) {
        if (!isfinite(c->x[i]) || !isfinite(c->y[i])) {
            joined = false;
            continue;
        }
        int x = (int)(place(c->x[i], p->left, p->right) * (2 * WIDE - 1) + .5);
        int y = (int)((1 - place(c->y[i], p->low, p->high)) * (4 * HIGH - 1) + .5);
        put_stroke(d, joined ? x0 : x, joined ? y0 : y, x, y);
        x0 = x;
        y0 = y;
        joined = true;
    }
}

static void put_label(Buf *out, double v, int width)
{
    Buf text = {0};
    number_print_g6(&text, v);
    buf_printf(out, "%*s", width, buf_text(&text));
    buf_deinit(&text);
}

static void curves_text(const Plot *p, Buf *out)
{
    enum { LABEL = 11 };
    Dots dots = {0};
    for (size_t k = 0; k < p->n; k++)
        draw(p, &p->curves[k], &dots);
    for (int y = 0; y < HIGH; y++) {
        if (y == 0 || y == HIGH - 1)
            put_label(out, y ? p->low : p->high, LABEL);
        else
            buf_repeat(out, ' ', LABEL);
        buf_str(out, y == 0 || y == HIGH - 1 ? " ┤" : " │");
        int end = WIDE;
        while (end && !dots.at[y][end - 1])
            end--;
        for (int x = 0; x < end; x++) {
            char bytes[4];
            uint32_t code = dots.at[y][x] ? 0x2800 + dots.at[y][x] : ' ';
            buf_bytes(out, bytes, utf8_encode(code, bytes));
        }
        buf_char(out, '\n');
    }
    buf_repeat(out, ' ', LABEL + 1);
    buf_str(out, "└");
    for (int x = 0; x < WIDE; x++)
        buf_str(out, "─");
    buf_char(out, '\n');
    buf_repeat(out, ' ', LABEL + 2);
    size_t from = out->n;
    put_label(out, p->left, 0);
    put_label(out, p->right, WIDE - (int)(out->n - from));
}

/* ---- curves as a picture ------------------------------------------------------------------------------------------------------- */

enum { PAGE_WIDE = 640, PAGE_HIGH = 220, PAGE_LEFT = 70, PAGE_TOP = 10 };

/* Of what lies in one column of the picture, the first, the least, the most and the last. */
static void curve_path(const Plot *p, const Curve *c, Buf *out)
{
    bool joined = false;
    int64_t step = c->n / (4 * PAGE_WIDE) + 1;
    for (int64_t i = 0; i < c->n && !limit_hit(&p->s->cx.limits); i += step) {
        int64_t least = i, most = i, end = i + step < c->n ? i + step : c->n;
        for (int64_t k = i; k < end; k++) {
            least = c->y[k] < c->y[least] ? k : least;
            most = c->y[k] > c->y[most] ? k : most;
        }
        int64_t both[] = {least < most ? least : most, least < most ? most : least};
        for (int k = 0; k < 1 + (both[0] != both[1]); k++) {
            double x = c->x[both[k]], y = c->y[both[k]];
            bool seen = isfinite(x) && isfinite(y);
            if (seen)
                buf_printf(out, "%c%.1f %.1f", joined ? 'L' : 'M',
                           PAGE_LEFT + place(x, p->left, p->right) * PAGE_WIDE,
                           PAGE_TOP + (1 - place(y, p->low, p->high)) * PAGE_HIGH);
            joined = seen;
        }
    }
}

static void put_text(Buf *out, double x, double y, const char *anchor, double v)
{
    buf_printf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"%s\">", x, y, anchor);
    put_label(out, v, 0);
    buf_str(out, "</text>\n");
}

static void curves_html(const Plot *p, Buf *out)
{
    static const char *const colors[CURVES] = {"#1e88e5", "#f4511e", "#43a047",
                                               "#8e24aa", "#fdd835", "#00acc1"};
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" role=\"img\" "
               "style=\"max-width:100%%;color:var(--jp-ui-font-color1,currentColor)\" "
               "font-size=\"11\" font-family=\"sans-serif\" fill=\"currentColor\"><path "
               "fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.5\" d=\"M%d %dv%dh%d\"/>",
               PAGE_LEFT + PAGE_WIDE + 20, PAGE_TOP + PAGE_HIGH + 24, PAGE_LEFT - 4, PAGE_TOP,
               PAGE_HIGH + 4, PAGE_WIDE + 4);
    put_text(out, PAGE_LEFT - 8, PAGE_TOP + 8, "end", p->high);
    put_text(out, PAGE_LEFT - 8, PAGE_TOP + PAGE_HIGH, "end", p->low);
    put_text(out, PAGE_LEFT, PAGE_TOP + PAGE_HIGH + 19, "start", p->left);
    put_text(out, PAGE_LEFT + PAGE_WIDE, PAGE_TOP + PAGE_HIGH + 19, "end", p->right);
    for (size_t k = 0; k < p->n; k++) {
        buf_printf(out,
                   "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" "
                   "stroke-linejoin=\"round\" stroke-linecap=\"round\" d=\"",
                   colors[k]);
        curve_path(p, &p->curves[k], out);
        buf_str(out, "\"/>");
    }
    buf_str(out, "</svg>");
}

static void put_number(Buf *out, double v)
{
    if (isfinite(v))
        number_print_double(out, v);
    else
        buf_str(out, "null");
}

static void curves_json(const Plot *p, Buf *out)
{
    const double ends[] = {p->left, p->right, p->low, p->high};
    static const char *const names[] = {"left", "right", "low", "high"};
    buf_str(out, "{\"plot\": \"curves\"");
    for (size_t i = 0; i < 4; i++) {
        buf_printf(out, ", \"%s\": ", names[i]);
        put_number(out, ends[i]);
    }
    buf_str(out, ", \"points\": [");
    for (size_t k = 0; k < p->n; k++)
        buf_printf(out, "%s%lld", k ? ", " : "", (long long)p->curves[k].n);
    buf_str(out, "]}");
}

/* ---- heat maps --------------------------------------------------------------------------------------------------------------------- */

typedef struct Heat {
    const Tensor *t;
    TensorFacts facts;
    Limits *limits;
    int64_t rows, columns; /* that are drawn: each is the mean of some */
} Heat;

/* The mean of what stands in a cell of the picture, between 0 and 1; below 0: nothing finite. */
static double heat_at(const Heat *h, int64_t y, int64_t x, int64_t rows, int64_t columns)
{
    int64_t all = h->t->shape[0], wide = h->t->shape[1], n = 0;
    double sum = 0;
    if (limit_hit(h->limits))
        return -1;
    for (int64_t i = y * all / rows; i < (y + 1) * all / rows; i++)
        for (int64_t k = x * wide / columns; k < (x + 1) * wide / columns; k++) {
            double v = tensor_get_double(h->t, i * wide + k);
            sum += isfinite(v) ? v : 0;
            n += isfinite(v);
        }
    return n ? place(sum / (double)n, h->facts.least, h->facts.most) : -1;
}

static void heat_text(const Heat *h, Buf *out)
{
    static const char *const shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    int64_t columns = h->columns < 38 ? h->columns : 38, rows = h->rows < 24 ? h->rows : 24;
    for (int64_t y = 0; y < rows; y++) {
        for (int64_t x = 0; x < columns; x++) {
            double v = heat_at(h, y, x, rows, columns);
            buf_str(out, v < 0 ? "××" : shades[(int)(v * 4.999)]);
        }
        buf_char(out, '\n');
    }
    facts_print(out, &h->facts);
    buf_str(out, "\n[");
    facts_bars(out, &h->facts);
    buf_char(out, ']');
}

static void heat_html(const Heat *h, Buf *out)
{
    int64_t cell = 480 / (h->columns > h->rows ? h->columns : h->rows);
    cell = cell > 24 ? 24 : cell < 4 ? 4 : cell;
    buf_str(out, "<div style=\"color:var(--jp-ui-font-color1,inherit);font-family:sans-serif\">");
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" "
               "role=\"img\" shape-rendering=\"crispEdges\">",
               (long long)(cell * h->columns), (long long)(cell * h->rows));
    for (int64_t y = 0; y < h->rows; y++)
        for (int64_t x = 0; x < h->columns; x++) {
            double v = heat_at(h, y, x, h->rows, h->columns);
            buf_printf(out, "<rect x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%lld\" ",
                       (long long)(x * cell), (long long)(y * cell), (long long)cell,
                       (long long)cell);
            if (v < 0)
                buf_str(out, "fill=\"#d32f2f\"/>");
            else
                buf_printf(out, "fill=\"hsl(%.0f 70%% %.0f%%)\"/>", 260 - 200 * v, 20 + 50 * v);
        }
    buf_str(out, "</svg><div>");
    facts_print(out, &h->facts);
    buf_str(out, "</div>");
    facts_svg(out, &h->facts);
    buf_str(out, "</div>");
}

static void heat_json(const Heat *h, Buf *out)
{
    Buf facts = {0};
    facts_print(&facts, &h->facts);
    buf_printf(out, "{\"plot\": \"heat\", \"shape\": [%lld, %lld], \"facts\": \"%s\"}",
               (long long)h->t->shape[0], (long long)h->t->shape[1], buf_text(&facts));
    buf_deinit(&facts);
}

/* ---- all of them ------------------------------------------------------------------------------------------------------------------- */

static bool plot_curves(Plot *p, Value v, Buf out[3])
{
    if (!take(p, v))
        return false;
    measure(p);
    curves_text(p, &out[0]);
    curves_html(p, &out[1]);
    html_as_text(&out[1], &out[0]);
    curves_json(p, &out[2]);
    return true;
}

static bool plot_heat(RelaySession *s, Value v, Buf out[3])
{
    TensorView view;
    if (!value_view(&v, &view) || view.t.rank != 2 || view.t.size == 0)
        return false;
    Heat h = {.t = &view.t,
              .facts = tensor_facts(&view.t, view.t.size, &s->cx.limits),
              .limits = &s->cx.limits};
    h.rows = view.t.shape[0] < CELLS ? view.t.shape[0] : CELLS;
    h.columns = view.t.shape[1] < CELLS ? view.t.shape[1] : CELLS;
    heat_text(&h, &out[0]);
    heat_html(&h, &out[1]);
    html_as_text(&out[1], &out[0]);
    heat_json(&h, &out[2]);
    return true;
}

static bool plot_tree(RelaySession *s, Value v, const Type *type, Buf out[3])
{
    if (v.kind != VALUE_CON || object_n(v.object) == 0)
        return false;
    value_tree(s, &out[0], v, type);
    value_tree_html(s, &out[1], v, type);
    buf_str(&out[2], "{\"plot\": \"tree\", \"value\": ");
    json_encode_value(s, &out[2], v);
    buf_char(&out[2], '}');
    return true;
}

bool plot_value(RelaySession *s, Value v, const Type *type, Span span)
{
    Plot p = {.s = s};
    Buf out[3] = {0};
    arena_init(&p.arena, &s->cx.limits);
    bool ok = plot_curves(&p, v, out) || plot_heat(s, v, out) || plot_tree(s, v, type, out);
    if (ok) {
        emit_bundle(s, &out[0], &out[1], &out[2]);
    } else if (!limit_hit(&s->cx.limits)) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, span, "there is nothing to plot");
        diag_help(d, "a plot is of a vector or a list of numbers, a tuple of vectors (the first "
                     "goes to the right), a matrix, or a value of constructors");
    }
    for (size_t i = 0; i < 3; i++)
        buf_deinit(&out[i]);
    arena_deinit(&p.arena);
    return ok;
}

void plot_live(RelaySession *s, const PlotLive *what)
{
    Plot p = {.s = s};
    Buf out[3] = {0};
    arena_init(&p.arena, &s->cx.limits);
    const double *x = positions(&p, what->n);
    for (; p.n < what->n_curves && p.n < CURVES; p.n++)
        p.curves[p.n] = (Curve){x, what->curves[p.n], what->n};
    measure(&p);
    curves_text(&p, &out[0]);
    buf_printf(&out[0], "\n%s", what->title);
    buf_str(&out[1],
            "<div style=\"color:var(--jp-ui-font-color1,inherit);font-family:sans-serif\">");
    curves_html(&p, &out[1]);
    buf_str(&out[1], "<div>");
    buf_html(&out[1], what->title, strlen(what->title));
    buf_str(&out[1], "</div></div>");
    curves_json(&p, &out[2]);
    RelayMime mimes[] = {
        {"text/plain", buf_text(&out[0]), out[0].n},
        {"application/json", buf_text(&out[2]), out[2].n},
        {"text/html", buf_text(&out[1]), out[1].n},
    };
    emit_live(s, what->live, what->more, sizeof mimes / sizeof *mimes, mimes);
    for (size_t i = 0; i < 3; i++)
        buf_deinit(&out[i]);
    arena_deinit(&p.arena);
}
