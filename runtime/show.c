#include "runtime/show.h"

#include "base/memory.h"
#include "base/number.h"
#include "base/table.h"
#include "base/utf8.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void element_show(Buf *out, DType dtype, const void *element)
{
    uint16_t bits;
    float f;
    uint64_t u;
    switch (dtype_id(dtype)) {
    case DT_BOOL: buf_str(out, dtype_get_int(dtype, element) ? "True" : "False"); return;
    case DT_FLOAT16:
        memcpy(&bits, element, sizeof bits);
        number_print_half(out, bits);
        return;
    case DT_BFLOAT16:
        memcpy(&bits, element, sizeof bits);
        number_print_bfloat(out, bits);
        return;
    case DT_FLOAT32:
        memcpy(&f, element, sizeof f);
        number_print_float(out, f);
        return;
    case DT_FLOAT64: number_print_double(out, dtype_get_double(dtype, element)); return;
    case DT_UINT64:
        memcpy(&u, element, sizeof u);
        buf_uint(out, u);
        return;
    case DT_INT8:
    case DT_INT16:
    case DT_INT32:
    case DT_INT64:
    case DT_UINT8:
    case DT_UINT16:
    case DT_UINT32: buf_int(out, dtype_get_int(dtype, element)); return;
    case DTYPE_IDS: buf_char(out, '?'); return;
    }
}

void tensor_type_show(Buf *out, const Tensor *t)
{
    if (t->rank == 0) {
        dtype_print(out, t->dtype);
        return;
    }
    buf_str(out, "Tensor[(");
    for (int32_t i = 0; i < t->rank; i++) {
        buf_str(out, i > 0 ? ", " : "");
        buf_int(out, t->shape[i]);
    }
    buf_str(out, "), ");
    dtype_print(out, t->dtype);
    buf_char(out, ']');
}

/* --- Tensors: first on one line; when that is too long, a row a line, elements aligned at the
 * right. */

typedef struct Grid {
    const Tensor *t;
    int64_t edge;   /* kept at each end of every axis; 0: nothing is left out */
    size_t element; /* columns of an element; 0: one line, not aligned */
    size_t before;  /* of them, those before the decimal point */
    size_t indent;  /* column of the opening bracket */
    size_t width;   /* columns at which rows break */
    bool scientific; /* some element has an exponent: then all have one */
    Buf scratch;
    Limits *limits;
    int64_t turn; /* elements that were looked at */
} Grid;

static bool must_stop(Limits *limits, int64_t turn)
{
    return limits && limit_hit_at(limits, turn);
}

static bool axis_is_cut(const Grid *g, int32_t axis)
{
    return g->edge > 0 && g->t->shape[axis] > 2 * g->edge;
}

/* Moves to the next element that is shown. Returns how many axes came to their end (the rank: all
 * is shown) and whether the axis that moved jumped over the middle. */
static int32_t next_shown(const Grid *g, int64_t *at, bool *jumped)
{
    int32_t ended = 0;
    for (int32_t axis = g->t->rank - 1; axis >= 0; axis--, ended++) {
        int64_t next = at[axis] + 1;
        *jumped = axis_is_cut(g, axis) && next == g->edge;
        if (*jumped)
            next = g->t->shape[axis] - g->edge;
        at[axis] = next;
        if (next < g->t->shape[axis])
            return ended;
        at[axis] = 0;
    }
    return ended;
}

static const char *element_at(const Tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int32_t axis = 0; axis < t->rank; axis++)
        offset += at[axis] * t->strides[axis];
    return t->data + offset * (int64_t)dtype_size(t->dtype);
}

/* `12.5` becomes `1.25e+01`, with the digits that it has; what has an exponent, or is no number, stays. */
static void make_scientific(Buf *number)
{
    const char *text = buf_text(number);
    size_t sign = text[0] == '-', n = 0, lead = 0;
    enum { MOST = 40 };
    char digits[MOST];
    if (!isdigit((unsigned char)text[sign]) || strchr(text, 'e') || number->n >= MOST)
        return;
    const char *point = strchr(text, '.');
    int exponent = (int)(point ? point - text : (long)number->n) - (int)sign - 1;
    for (const char *p = text + sign; *p; p++)
        if (*p != '.')
            digits[n++] = *p;
    while (lead + 1 < n && digits[lead] == '0')
        lead++;
    while (n > lead + 1 && digits[n - 1] == '0')
        n--;
    exponent = digits[lead] == '0' ? 0 : exponent - (int)lead;
    Buf out = {0};
    buf_printf(&out, "%s%c%s%.*se%c%02d", sign ? "-" : "", digits[lead], n > lead + 1 ? "." : "",
               (int)(n - lead - 1), digits + lead + 1, exponent < 0 ? '-' : '+', abs(exponent));
    buf_deinit(number);
    *number = out;
}

/* An element as the grid writes it, in the scratch buffer. */
static void element_text(Grid *g, const char *element)
{
    buf_clear(&g->scratch);
    element_show(&g->scratch, g->t->dtype, element);
    if (g->scientific)
        make_scientific(&g->scratch);
}

/* Columns before the decimal point; all of them for an integer, "inf" or what has an exponent. */
static size_t point_of(const Buf *number)
{
    const char *text = buf_text(number);
    const char *point = strchr(text, '.');
    return point && !strchr(text, 'e') ? (size_t)(point - text) : number->n;
}

/* Whether some of what is shown has an exponent. */
static bool any_exponent(Grid *g)
{
    int64_t at[TENSOR_RANK_MOST] = {0};
    bool any = false, jumped;
    do {
        element_text(g, element_at(g->t, at));
        any = g->scratch.n > 0 && isdigit((unsigned char)g->scratch.at[g->scratch.n - 1]) &&
              strchr(buf_text(&g->scratch), 'e');
    } while (!any && !must_stop(g->limits, g->turn++) && next_shown(g, at, &jumped) < g->t->rank);
    return any;
}

static void measure(Grid *g)
{
    int64_t at[TENSOR_RANK_MOST] = {0};
    size_t after = 0;
    bool jumped;
    g->scientific = dtype_is_float(g->t->dtype) && any_exponent(g);
    do {
        element_text(g, element_at(g->t, at));
        size_t point = point_of(&g->scratch);
        if (point > g->before)
            g->before = point;
        if (g->scratch.n - point > after)
            after = g->scratch.n - point;
    } while (!must_stop(g->limits, g->turn++) && next_shown(g, at, &jumped) < g->t->rank);
    g->element = g->before + after;
}

/* Where a text that grows ended when it was looked at last. */
typedef struct Column {
    size_t at, n;
} Column;

/* The column in which the text ends; what was counted before is not counted again, as a long line of many values would be. */
static size_t column_now(const Buf *out, Column *c)
{
    size_t from = out->n;
    while (from > c->at && out->at[from - 1] != '\n')
        from--;
    c->n = (from > c->at ? 0 : c->n) + utf8_text_width(buf_text(out) + from, out->n - from);
    c->at = out->n;
    return c->n;
}

static void new_line(const Grid *g, Buf *out, int32_t lines, int32_t open)
{
    buf_repeat(out, '\n', lines > 1 ? 2 : 1);
    buf_repeat(out, ' ', g->indent + (size_t)open);
}

/* What stands between two elements when `ended` axes ended: `, `, or brackets closed and opened. */
static void separate(const Grid *g, Buf *out, int32_t ended, bool jumped, size_t *column)
{
    bool lines = g->element > 0;
    int32_t open = g->t->rank - ended;
    buf_repeat(out, ']', (size_t)ended);
    buf_char(out, ',');
    if (ended == 0) {
        /* Behind the element stands a comma, or all the brackets. */
        size_t wanted = *column + 2 + (jumped ? 5 : 0) + g->element + (size_t)g->t->rank;
        if (lines && wanted > g->width) {
            new_line(g, out, 1, open);
            *column = g->indent + (size_t)open;
        } else {
            buf_char(out, ' ');
            *column += 2;
        }
        buf_str(out, jumped ? "..., " : "");
        *column += jumped ? 5 : 0;
        return;
    }
    if (lines)
        new_line(g, out, ended, open);
    else
        buf_char(out, ' ');
    if (jumped) {
        buf_str(out, "...,");
        if (lines)
            new_line(g, out, ended, open);
        else
            buf_char(out, ' ');
    }
    buf_repeat(out, '[', (size_t)ended);
    *column = g->indent + (size_t)g->t->rank;
}

/* One element, with the points of all below one another. */
static void cell_show(Grid *g, Buf *out, const char *element)
{
    element_text(g, element);
    size_t point = point_of(&g->scratch);
    if (g->element > 0)
        buf_repeat(out, ' ', g->before - point);
    buf_bytes(out, buf_text(&g->scratch), g->scratch.n);
    if (g->element > 0)
        buf_repeat(out, ' ', g->element - g->before - (g->scratch.n - point));
}

/* As one line it ends where that is full. */
static void grid_show(Grid *g, Buf *out)
{
    int64_t at[TENSOR_RANK_MOST] = {0};
    size_t column = g->indent + (size_t)g->t->rank;
    buf_repeat(out, '[', (size_t)g->t->rank);
    for (;;) {
        cell_show(g, out, element_at(g->t, at));
        column += g->element;
        bool jumped;
        int32_t ended = next_shown(g, at, &jumped);
        if (ended == g->t->rank || must_stop(g->limits, g->turn++) ||
            (g->element == 0 && out->n > g->width))
            break;
        separate(g, out, ended, jumped, &column);
    }
    buf_repeat(out, ']', (size_t)g->t->rank);
}

static void tensor_told(Buf *out, const Tensor *t, const ShowStyle *style)
{
    tensor_type_show(out, t);
    buf_str(out, style->large == SHOW_SUMMARY ? ": " : "");
    if (style->large == SHOW_SUMMARY)
        tensor_summary(out, t, style->limits);
}

/* Rows need room: what begins far to the right, in data, stands in one line if it is short, and else is told as a large one is. */
static void tensor_show(Buf *out, const Tensor *t, const ShowStyle *style, Column *column)
{
    if (t->size == 0) {
        buf_str(out, "[]");
        return;
    }
    if (t->size > style->elements && style->large != SHOW_CUT) {
        tensor_told(out, t, style);
        return;
    }
    Grid g = {.t = t,
              .indent = column_now(out, column),
              .width = (size_t)style->width,
              .limits = style->limits};
    if (t->size > style->elements)
        g.edge = style->edge;
    Buf line = {0};
    grid_show(&g, &line);
    bool far = g.indent > g.width / 2;
    if (t->rank == 0 || g.indent + line.n <= g.width || (far && line.n <= g.width)) {
        buf_bytes(out, buf_text(&line), line.n);
    } else if (far && style->large == SHOW_SUMMARY) {
        tensor_told(out, t, style);
    } else {
        measure(&g);
        grid_show(&g, out);
    }
    buf_deinit(&line);
    buf_deinit(&g.scratch);
}

/* --- Other values, with a stack of what is open. */

typedef struct Frame {
    const Object *o;
    const struct Type *type; /* NULL: nobody knows */
    uint32_t next; /* field to show next */
    bool list; /* `o` is a cell of a list in brackets */
    int64_t shown; /* elements of the list so far */
} Frame;

typedef struct Shower {
    Buf *out;
    Column column;
    ShowStyle style;
    Frame *frames;
    size_t n, cap;
    int64_t left; /* values that may still be shown: sharing makes small values long */
} Shower;

static bool is_list(const Object *o)
{
    const ObjectInfo *info = object_info(o);
    uint32_t n = object_n(o);
    if (info->kind != VALUE_CON || !info->type_name || strcmp(info->type_name, "List") != 0)
        return false;
    return info->name &&
           (n == 0 ? strcmp(info->name, "Nil") == 0 : n == 2 && strcmp(info->name, "Cons") == 0);
}

static bool is_open(const Shower *s, const Object *o)
{
    for (size_t i = 0; i < s->n; i++) {
        if (s->frames[i].o == o)
            return true;
    }
    return false;
}

static bool open_frame(Shower *s, Frame f)
{
    if (s->n == s->cap) {
        size_t cap = s->cap ? s->cap * 2 : 16;
        Frame *frames = memory_resize(s->frames, cap * sizeof *frames);
        if (!frames)
            return false;
        s->frames = frames;
        s->cap = cap;
    }
    s->frames[s->n++] = f;
    return true;
}

/* Writes what stands before the fields and opens a frame for them; an object without fields is
 * complete at once. */
static void object_begin(Shower *s, const Object *o, const struct Type *type)
{
    const ObjectInfo *info = object_info(o);
    uint32_t n = object_n(o);
    if (info->kind == VALUE_FUNCTION) {
        if (type && s->style.types->function(s->out, type))
            return;
        if (info->print)
            info->print(s->out, o);
        else
            buf_str(s->out, "<fn>");
        return;
    }
    if (info->kind == VALUE_REF && s->style.ref) {
        s->style.ref(s->style.data, s->out, o);
        return;
    }
    bool list = !s->style.exact && is_list(o);
    bool again = info->kind == VALUE_REF && is_open(s, o);
    if (list && n == 0) {
        buf_str(s->out, "[]");
        return;
    }
    if (info->kind == VALUE_CON && !list)
        buf_str(s->out, info->name ? info->name : "?");
    if (info->kind == VALUE_CON && n == 0)
        return;
    buf_str(s->out, info->kind == VALUE_REF ? "ref(" : list ? "[" : "(");
    if (again)
        buf_str(s->out, "...)");
    else if ((int64_t)s->n >= s->style.list ||
             !open_frame(s, (Frame){.o = o, .type = type, .list = list}))
        buf_str(s->out, list ? "...]" : "...)");
}

static void value_begin(Shower *s, Value v, const struct Type *type)
{
    if (s->left-- <= 0) {
        buf_str(s->out, "...");
        return;
    }
    TensorView view;
    if (value_is_object(v))
        object_begin(s, v.object, type);
    else if (value_view(&v, &view))
        tensor_show(s->out, &view.t, &s->style, &s->column);
    else
        buf_str(s->out, "<none>");
}

static void field_begin(Shower *s, const Frame *f, uint32_t i)
{
    const ShowTypes *types = s->style.types;
    const struct Type *type = f->type ? types->field(types->data, f->type, f->o, i) : NULL;
    value_begin(s, object_get(f->o, i), type);
}

static void close_frame(Shower *s)
{
    const Frame *f = &s->frames[--s->n];
    bool single = object_info(f->o)->kind == VALUE_TUPLE && object_n(f->o) == 1;
    buf_str(s->out, f->list ? "]" : single ? ",)" : ")");
}

/* The next element of a list; its frame goes from cell to cell. */
static void list_step(Shower *s, Frame *f)
{
    if (f->next == 1) {
        Value tail = object_get(f->o, 1);
        bool goes_on = tail.kind == VALUE_CON && is_list(tail.object) && object_n(tail.object) > 0;
        if (!goes_on) {
            close_frame(s);
            return;
        }
        f->o = tail.object;
        f->next = 0;
        buf_str(s->out, ", ");
    }
    if (f->shown >= s->style.list || s->left <= 0) {
        buf_str(s->out, "...");
        close_frame(s);
        return;
    }
    f->shown++;
    f->next = 1;
    field_begin(s, f, 0);
}

static void step(Shower *s)
{
    Frame *f = &s->frames[s->n - 1];
    if (f->list) {
        list_step(s, f);
        return;
    }
    if (f->next == object_n(f->o)) {
        close_frame(s);
        return;
    }
    if (f->next > 0)
        buf_str(s->out, ", ");
    if (s->left <= 0) {
        f->next = object_n(f->o);
        buf_str(s->out, "...");
        return;
    }
    field_begin(s, f, f->next++);
}

static ShowStyle with_defaults(ShowStyle style)
{
    if (style.elements <= 0)
        style.elements = SHOW_MOST;
    if (style.edge <= 0)
        style.edge = 3;
    if (style.list <= 0)
        style.list = SHOW_MOST;
    if (style.width <= 0)
        style.width = 80;
    return style;
}

/* On the line of the last row, or, where that is full, on one of its own if it fits there. */
static void show_type_behind(Buf *out, const Tensor *t, size_t width)
{
    Buf type = {0};
    Column column = {0};
    tensor_type_show(&type, t);
    bool rows = column_now(out, &column) + 3 + type.n > width && type.n + 3 <= width;
    buf_str(out, rows ? "\n : " : " : ");
    buf_bytes(out, buf_text(&type), type.n);
    buf_deinit(&type);
}

void value_show(Buf *out, Value v, ShowStyle style)
{
    Shower s = {.out = out, .style = with_defaults(style)};
    s.left = s.style.list > INT64_MAX / 16 ? INT64_MAX : s.style.list * 16;
    value_begin(&s, v, style.types ? style.type : NULL);
    for (int64_t turn = 0; s.n > 0 && !must_stop(style.limits, turn); turn++)
        step(&s);
    free(s.frames);
    if (v.kind == VALUE_TENSOR && !style.bare)
        show_type_behind(out, v.tensor, (size_t)s.style.width);
}

/* --- Statistics */

enum { FIRST_ELEMENTS = 3, AT_ONCE = 1024 };

static void first_elements(Buf *out, const Tensor *t)
{
    for (int64_t i = 0; i < t->size && i < FIRST_ELEMENTS; i++) {
        double v = tensor_get_double(t, i);
        buf_str(out, i > 0 ? ", " : "");
        if (dtype_is_bool(t->dtype))
            buf_str(out, v != 0 ? "True" : "False");
        else
            number_print_g6(out, v);
    }
    buf_str(out, t->size > FIRST_ELEMENTS ? ", …; " : "; ");
}

static void bool_summary(Buf *out, const Tensor *t, Limits *limits)
{
    int64_t set = 0;
    for (int64_t i = 0; i < t->size && !must_stop(limits, i); i++)
        set += tensor_get_int(t, i) != 0;
    buf_printf(out, "%lld of %lld true", (long long)set, (long long)t->size);
}

/* What most tensors hold is read in a row, which is ten times as fast. */
static void read_doubles(const Tensor *t, int64_t from, int64_t n, double *out)
{
    if (dtype_id(t->dtype) == DT_FLOAT32 && tensor_is_contiguous(t)) {
        const float *in = (const float *)t->data + from;
        for (int64_t i = 0; i < n; i++)
            out[i] = (double)in[i];
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = tensor_get_double(t, from + i);
}

void tensor_summary(Buf *out, const Tensor *t, Limits *limits)
{
    if (t->size == 0) {
        buf_str(out, "empty");
        return;
    }
    first_elements(out, t);
    if (dtype_is_bool(t->dtype)) {
        bool_summary(out, t, limits);
        return;
    }
    double least = INFINITY, most = -INFINITY, sum = 0;
    int64_t nans = 0;
    double at_once[AT_ONCE];
    for (int64_t i = 0; i < t->size && !must_stop(limits, i); i += AT_ONCE) {
        int64_t n = t->size - i < AT_ONCE ? t->size - i : AT_ONCE;
        read_doubles(t, i, n, at_once);
        for (int64_t k = 0; k < n; k++) {
            double v = at_once[k];
            bool number = !isnan(v);
            nans += !number;
            least = v < least ? v : least;
            most = v > most ? v : most;
            sum += number ? v : 0;
        }
    }
    if (nans < t->size) {
        buf_str(out, "min ");
        number_print_g6(out, least);
        buf_str(out, ", max ");
        number_print_g6(out, most);
        buf_str(out, ", mean ");
        number_print_g6(out, sum / (double)(t->size - nans));
    }
    if (nans > 0)
        buf_printf(out, "%s%lld NaN", nans < t->size ? ", " : "", (long long)nans);
}
