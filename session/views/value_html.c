#include "session/views/value_html.h"

#include "runtime/show.h"
#include "session/views/facts.h"

#include <math.h>
#include <string.h>

enum {
    EDGE = 5,          /* rows and columns at each end */
    SLICES = 4,        /* of a tensor of more axes */
    DEEP = 12,         /* levels of a tree */
    PARTS = 200,       /* of a tree, in all */
    FIELDS = 12,       /* of one part */
    LOOKED = 1 << 20,  /* elements that facts are about */
    ENCODED = 1000,    /* elements that programs get one by one */
};

static const char style[] =
    "<style>.relay-value{color:var(--jp-ui-font-color1,#1f2328);font-family:var(--jp-ui-font-"
    "family,"
    "sans-serif);font-size:var(--jp-ui-font-size1,13px);max-width:100%;overflow-x:auto}"
    ".relay-value header{display:flex;gap:14px;align-items:end;margin-bottom:4px;flex-wrap:wrap}"
    ".relay-value header code{background:none;color:inherit;padding:0;font-weight:600}"
    ".relay-value header span,.relay-value summary small{color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-value.relay-value table{border-collapse:collapse;margin:2px 0 6px;border:0;"
    "font-family:var(--jp-code-font-family,monospace);font-size:.95em}"
    ".relay-value.relay-value tr,.relay-value.relay-value tr:hover{background:none}"
    ".relay-value.relay-value td,.relay-value.relay-value th{padding:1px 8px;text-align:right;"
    "border:1px solid var(--jp-border-color2,#d0d4da);font-weight:400;max-width:none;"
    "white-space:nowrap}"
    ".relay-value.relay-value th{border:0;color:var(--jp-ui-font-color2,#57606a)}"
    ".relay-value details{margin-left:1.2em}.relay-value summary{cursor:pointer}"
    "@media print{.relay-value td{-webkit-print-color-adjust:exact;print-color-adjust:exact}}"
    ".relay-value "
    "details>div{margin-left:2.2em;font-family:var(--jp-code-font-family,monospace)}" HTML_UNFOLDED(
        ".relay-value") "</style>";

/* ---- tensors ------------------------------------------------------------------------------------------------------------------- */

typedef struct Sheet {
    Buf *out;
    const Tensor *t;
    TensorFacts facts;
    int64_t rows, columns;
} Sheet;

/* The next of n that is shown; the middle is left out. */
static int64_t after(int64_t i, int64_t n)
{
    return n > 2 * EDGE + 1 && i + 1 == EDGE ? n - EDGE : i + 1;
}

static void put_element(Sheet *s, int64_t at)
{
    double v = tensor_get_double(s->t, at), width = s->facts.most - s->facts.least;
    double heat = isfinite(v) && width > 0 ? (v - s->facts.least) / width : 0;
    Buf text = {0};
    char element[16];
    dtype_set_double(s->t->dtype, element, v);
    if (dtype_is_int(s->t->dtype))
        buf_printf(&text, "%lld", (long long)tensor_get_int(s->t, at));
    else
        element_show(&text, s->t->dtype, element);
    if (isfinite(v))
        buf_printf(s->out, "<td style=\"background:rgba(33,150,243,%.2f)\">", heat * .55);
    else
        buf_str(s->out, "<td style=\"background:rgba(244,67,54,.32)\">");
    buf_html(s->out, buf_text(&text), text.n);
    buf_str(s->out, "</td>");
    buf_deinit(&text);
}

/* The matrix whose first element is at `from`. */
static void put_sheet(Sheet *s, int64_t from)
{
    Buf *out = s->out;
    buf_str(out, "<table><tr><th></th>");
    for (int64_t x = 0, last = -1; x < s->columns; last = x, x = after(x, s->columns))
        buf_printf(out, "%s<th>%lld</th>", x > last + 1 ? "<th>…</th>" : "", (long long)x);
    buf_str(out, "</tr>");
    for (int64_t y = 0, above = -1; y < s->rows; above = y, y = after(y, s->rows)) {
        if (y > above + 1)
            buf_str(out, "<tr><th>⋮</th></tr>");
        buf_str(out, "<tr><th>");
        if (s->rows > 1)
            buf_printf(out, "%lld", (long long)y);
        buf_str(out, "</th>");
        for (int64_t x = 0, last = -1; x < s->columns; last = x, x = after(x, s->columns)) {
            if (x > last + 1)
                buf_str(out, "<td>…</td>");
            put_element(s, from + y * s->columns + x);
        }
        buf_str(out, "</tr>");
    }
    buf_str(out, "</table>");
}

static void put_slices(Sheet *s)
{
    int64_t size = s->rows * s->columns, n = s->t->size / size;
    for (int64_t k = 0; k < n && k < SLICES; k++) {
        int64_t rest = k, inner = n;
        buf_printf(s->out, "<details%s><summary>[", k ? "" : " open");
        for (int32_t i = 0; i < s->t->rank - 2; i++) {
            inner /= s->t->shape[i];
            buf_printf(s->out, "%lld, ", (long long)(rest / inner));
            rest %= inner;
        }
        buf_str(s->out, "·, ·]</summary>");
        put_sheet(s, k * size);
        buf_str(s->out, "</details>");
    }
    if (n > SLICES)
        buf_printf(s->out, "<div>… and %lld more slices</div>", (long long)(n - SLICES));
}

/* What the page says; elements where they are few. */
static void tensor_json(RelaySession *s, Buf *out, Value v, const Buf *type, const Buf *facts,
                        const TensorFacts *f, int64_t size)
{
    buf_char(out, '{');
    buf_json_field(out, "type", buf_text(type), type->n);
    buf_str(out, ", ");
    buf_json_field(out, "facts", buf_text(facts), facts->n);
    buf_printf(out, ", \"looked_at\": %lld, \"bins\": [", (long long)f->n);
    for (size_t i = 0; i < FACTS_BINS; i++)
        buf_printf(out, "%s%llu", i ? ", " : "", (unsigned long long)f->bins[i]);
    buf_char(out, ']');
    if (size <= ENCODED) {
        buf_str(out, ", \"value\": ");
        json_encode_value(s, out, v);
    }
    buf_str(out, "}\n");
}

static void put_facts(Buf *out, const TensorFacts *f, const Tensor *t)
{
    facts_print(out, f);
    if (f->n < t->size)
        buf_printf(out, " (of the first %lld)", (long long)f->n);
}

void value_facts(RelaySession *s, Buf *out, const Tensor *t)
{
    TensorFacts facts = tensor_facts(t, LOOKED, &s->cx.limits);
    put_facts(out, &facts, t);
    if (facts.bin_most)
        buf_str(out, "  ");
    facts_bars(out, &facts);
}

static void put_tensor(RelaySession *session, Buf *out, Buf *json, Value v, const Tensor *t)
{
    Sheet s = {.out = out, .t = t, .facts = tensor_facts(t, LOOKED, &session->cx.limits)};
    Buf type = {0}, facts = {0};
    tensor_type_show(&type, t);
    put_facts(&facts, &s.facts, t);
    tensor_json(session, json, v, &type, &facts, &s.facts, t->size);
    buf_str(out, "<header><code>");
    buf_html(out, buf_text(&type), type.n);
    buf_printf(out, "</code><span>%s</span>", buf_text(&facts));
    facts_svg(out, &s.facts);
    buf_str(out, "</header>");
    s.columns = t->shape[t->rank - 1];
    s.rows = t->rank > 1 ? t->shape[t->rank - 2] : 1;
    if (t->size && t->rank > 2)
        put_slices(&s);
    else if (t->size)
        put_sheet(&s, 0);
    buf_deinit(&type);
    buf_deinit(&facts);
}

/* ---- trees ----------------------------------------------------------------------------------------------------------------------- */

typedef struct Tree {
    Buf *out;
    Limits *limits;
    ShowTypes types;
    int left; /* parts that may still be shown */
} Tree;

/* A part of a value and its type; NULL where nothing is told by that. */
typedef struct Typed {
    Value v;
    const Type *type;
} Typed;

static bool is_list(Value v)
{
    const ObjectInfo *info = v.kind == VALUE_CON ? object_info(v.object) : NULL;
    return info && info->type_name && strcmp(info->type_name, "List") == 0;
}

static const char *part_name(Value v)
{
    return is_list(v)              ? "list"
           : v.kind == VALUE_CON   ? object_info(v.object)->name
           : v.kind == VALUE_TUPLE ? "tuple"
           : v.kind == VALUE_REF   ? "ref"
                                   : NULL;
}

static void put_leaf(const Tree *t, Buf *text, Typed part)
{
    value_show(text, part.v,
               (ShowStyle){.elements = 8,
                           .list = 8,
                           .large = SHOW_SUMMARY,
                           .types = &t->types,
                           .type = part.type,
                           .limits = t->limits});
}

/* What hangs below a node: fields, or items of a list, of which nobody counts those that are not shown. */
typedef struct Below {
    Value at[FIELDS];
    uint32_t n, more; /* shown; what is not */
    bool goes_on; /* a list that is longer */
} Below;

static Below below(Value v)
{
    Below b = {0};
    if (!is_list(v)) {
        uint32_t all = object_n(v.object);
        for (; b.n < all && b.n < FIELDS; b.n++)
            b.at[b.n] = object_get(v.object, b.n);
        b.more = all - b.n;
        return b;
    }
    for (; object_n(v.object) == 2 && b.n < FIELDS; v = object_get(v.object, 1))
        b.at[b.n++] = object_get(v.object, 0);
    b.goes_on = object_n(v.object) == 2;
    return b;
}

/* What holds numbers alone reads best on a line, and a list of what does. Lists in lists are as deep as their type. */
static bool is_leaf(Value v)
{
    if (!part_name(v))
        return true;
    Below b = below(v);
    for (uint32_t i = 0; i < b.n; i++)
        if (is_list(v)
                ? !is_leaf(b.at[i])
                : b.at[i].kind != VALUE_SCALAR && !(is_list(b.at[i]) && !object_n(b.at[i].object)))
            return false;
    return true;
}

static Below shown_below(const Tree *t, Value v, int depth)
{
    Below b = below(v);
    if (depth < DEEP && t->left > 0)
        return b;
    b.goes_on |= is_list(v) && b.n;
    b.more += is_list(v) ? 0 : b.n;
    b.n = 0;
    return b;
}

/* All cells of a list have its type. */
static Typed part_below(const Tree *t, Typed whole, const Below *b, uint32_t i)
{
    uint32_t field = is_list(whole.v) ? 0 : i;
    const Type *type =
        whole.type ? t->types.field(t->types.data, whole.type, whole.v.object, field) : NULL;
    return (Typed){b->at[i], type};
}

static void put_more(Buf *out, const Below *b)
{
    if (b->goes_on)
        buf_str(out, "… more");
    else
        buf_printf(out, "… %u more", (unsigned)b->more);
}

/* Recursion ends with DEEP. */
static void put_part(Tree *t, Typed part, int depth)
{
    Value v = part.v;
    t->left--;
    if (is_leaf(v)) {
        Buf text = {0};
        put_leaf(t, &text, part);
        buf_str(t->out, "<div>");
        buf_html(t->out, buf_text(&text), text.n);
        buf_str(t->out, "</div>");
        buf_deinit(&text);
        return;
    }
    Below b = shown_below(t, v, depth);
    buf_printf(t->out, "<details%s><summary>%s</summary>", depth < 3 ? " open" : "", part_name(v));
    for (uint32_t i = 0; i < b.n; i++)
        put_part(t, part_below(t, part, &b, i), depth + 1);
    if (b.more || b.goes_on) {
        buf_str(t->out, "<div>");
        put_more(t->out, &b);
        buf_str(t->out, "</div>");
    }
    buf_str(t->out, "</details>");
}

static void text_part(Tree *t, Typed part, int depth, Buf *before)
{
    Value v = part.v;
    t->left--;
    if (is_leaf(v)) {
        put_leaf(t, t->out, part);
        buf_char(t->out, '\n');
        return;
    }
    Below b = shown_below(t, v, depth);
    uint32_t lines = b.n + (b.more || b.goes_on);
    buf_printf(t->out, "%s\n", part_name(v));
    for (uint32_t i = 0; i < lines; i++) {
        bool last = i + 1 == lines;
        size_t was = before->n;
        buf_printf(t->out, "%s%s", buf_text(before), last ? "└─ " : "├─ ");
        buf_str(before, last ? "   " : "│  ");
        if (i < b.n) {
            text_part(t, part_below(t, part, &b, i), depth + 1, before);
        } else {
            put_more(t->out, &b);
            buf_char(t->out, '\n');
        }
        buf_cut(before, was);
    }
}

void value_tree(RelaySession *s, Buf *out, Value v, const Type *type)
{
    Tree t = {.out = out, .limits = &s->cx.limits, .left = PARTS};
    Buf before = {0};
    type = display_types(s, type, &t.types);
    text_part(&t, (Typed){v, type}, 0, &before);
    buf_deinit(&before);
}

void value_tree_html(RelaySession *s, Buf *out, Value v, const Type *type)
{
    Tree t = {.out = out, .limits = &s->cx.limits, .left = PARTS};
    type = display_types(s, type, &t.types);
    buf_str(out, style);
    buf_str(out, "<div class=\"relay-value\">");
    put_part(&t, (Typed){v, type}, 0);
    buf_str(out, "</div>");
}

void value_views(RelaySession *s, Value v, const Type *type, Buf *out, Buf *json)
{
    TensorView view;
    bool tensor = value_view(&v, &view);
    if (tensor ? view.t.rank == 0 : is_leaf(v))
        return;
    if (tensor) {
        buf_str(out, style);
        buf_str(out, "<div class=\"relay-value\">");
        put_tensor(s, out, json, v, &view.t);
        buf_str(out, "</div>");
        return;
    }
    Buf tree = {0};
    value_tree_html(s, out, v, type);
    value_tree(s, &tree, v, type);
    buf_char(json, '{');
    buf_json_field(json, "tree", buf_text(&tree), tree.n);
    buf_str(json, "}\n");
    buf_deinit(&tree);
}
