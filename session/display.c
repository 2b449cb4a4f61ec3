/* Values and programs as bundles of mime types. */
#include "base/utf8.h"
#include "ir/print.h"
#include "runtime/show.h"
#include "session/internal.h"
#include "session/views/value_html.h"

#include <math.h>
#include <string.h>

#define PROGRAM_LINES_MOST 1000000      /* a diff shows the whole program */
#define BOUND_ELEMENTS_MOST \
    100 /* a `let`, or a part of a value, of more is told about instead of shown */

static const Type *field_type(void *data, const Type *of, const Object *o, uint32_t i)
{
    of = type_find(of);
    if (of->kind == TYPE_TUPLE || of->kind == TYPE_REF)
        return i < of->n ? of->parts[i] : NULL;
    uint32_t tag = object_info(o)->tag;
    const Constructor *con =
        of->kind == TYPE_ADT && tag < of->def->n_cons ? of->def->cons[tag] : NULL;
    return con && i < con->n ? type_subst(data, con->fields[i], of->n, of->def->params, of->parts)
                             : NULL;
}

static bool show_function(Buf *out, const Type *type)
{
    type = type_find(type);
    if (type->kind != TYPE_FUNC)
        return false;
    buf_char(out, '<');
    type_print(out, type);
    buf_char(out, '>');
    return true;
}

/* Where the type holds no function nobody asks what the fields are. */
const Type *display_types(RelaySession *s, const Type *t, ShowTypes *out)
{
    *out = (ShowTypes){&s->cx, field_type, show_function};
    return t && type_holds_code(t) ? t : NULL;
}

static void show_as(Buf *out, RelaySession *s, Value v, const Type *t, ShowStyle style)
{
    ShowTypes types;
    style.type = display_types(s, t, &types);
    style.types = &types;
    value_show(out, v, style);
}

/* A large tensor among other things is told by its type, first elements and statistics; by itself its corners are shown. */
static ShowStyle show_style(RelaySession *s, Value v)
{
    ShowStyle style = {
        .width = s->options.width,
        .elements = s->output_most,
        .list = s->output_most,
        .limits = &s->cx.limits,
    };
    if (value_is_object(v)) {
        style.elements = BOUND_ELEMENTS_MOST;
        style.large = SHOW_SUMMARY;
    }
    return style;
}

void display_value(RelaySession *s, RelayOutputKind kind, Value v, const Type *t)
{
    Buf text = {0}, html = {0}, json = {0};
    show_as(&text, s, v, t, show_style(s, v));
    if (v.kind == VALUE_TENSOR && v.tensor->size > (s->output_most ? s->output_most : SHOW_MOST)) {
        buf_char(&text, '\n');
        value_facts(s, &text, v.tensor);
    }
    value_views(s, v, t, &html, &json);
    html_one_sheet(&html);
    RelayMime mimes[] = {
        {"text/plain", buf_text(&text), text.n},
        {"application/json", buf_text(&json), json.n},
        {"text/html", buf_text(&html), html.n},
    };
    emit_mimes(s, kind, html.n ? 3 : 1, mimes);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

/* Of the text of a `let` so many bytes, seven lines of 80 columns, are shown; a cell with the variable shows all of it. */
enum { BOUND_TEXT_MOST = 560 };

static void cut_text(Buf *b, size_t from, const char *name)
{
    size_t to = from + BOUND_TEXT_MOST;
    if (b->n <= to)
        return;
    while (to > from && buf_text(b)[to] != ' ')
        to--;
    buf_cut(b, to);
    buf_printf(b, " …; `%%%s` shows all of it", name);
}

void display_binding(RelaySession *s, const Local *local)
{
    Buf b = {0};
    buf_printf(&b, "%%%s: ", local->var->name->text);
    if (local->var->base.type)
        type_print(&b, local->var->base.type);
    if (local->value.kind == VALUE_TENSOR && local->value.tensor->size > BOUND_ELEMENTS_MOST) {
        buf_str(&b, " = ");
        tensor_summary(&b, local->value.tensor, &s->cx.limits);
    } else if (local->value.kind != VALUE_FUNCTION) {
        ShowStyle style = show_style(s, local->value);
        style.bare = true;
        buf_str(&b, " = ");
        size_t from = b.n;
        show_as(&b, s, local->value, local->var->base.type, style);
        if (value_is_object(local->value))
            cut_text(&b, from, local->var->name->text);
    }
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* ---- programs --------------------------------------------------------------------------------------------------------------- */

void display_program(RelaySession *s, const char *title, const Buf *text)
{
    Buf plain = {0}, html = {0}, json = {0};
    if (title)
        buf_printf(&plain, "// %s\n", title);
    buf_bytes(&plain, buf_text(text), text->n);
    html_program(&html, buf_text(&plain), plain.n);
    buf_char(&json, '{');
    if (title) {
        buf_json_field(&json, "title", title, strlen(title));
        buf_str(&json, ", ");
    }
    buf_json_field(&json, "program", buf_text(text), text->n);
    buf_str(&json, "}\n");
    emit_code(s, "text/x-relay", &plain, &html, &json);
    buf_deinit(&plain);
    buf_deinit(&html);
    buf_deinit(&json);
}

void display_code(RelaySession *s, CodeLanguage language, const Buf *text)
{
    Buf html = {0}, json = {0};
    html_code(&html, language, buf_text(text), text->n);
    buf_char(&json, '{');
    buf_json_field(&json, "code", buf_text(text), text->n);
    buf_str(&json, "}\n");
    emit_code(s, code_type(language), text, &html, &json);
    buf_deinit(&html);
    buf_deinit(&json);
}

/* ---- pictures --------------------------------------------------------------------------------------------------------------- */

#define IMAGE_SIDE_MOST 256
#define IMAGES_MOST 24

typedef struct Images {
    const Tensor *t;
    int64_t n, h, w; /* pictures, rows, columns */
    double low, high;
} Images;

static double brightness(const Images *im, int64_t k, int64_t y, int64_t x)
{
    double v = tensor_get_double(im->t, (k * im->h + y) * im->w + x);
    double span = im->high - im->low;
    return isfinite(v) && span > 0 ? (v - im->low) / span : 0;
}

static void images_range(Images *im)
{
    im->low = INFINITY;
    im->high = -INFINITY;
    for (int64_t i = 0; i < im->n * im->h * im->w; i++) {
        double v = tensor_get_double(im->t, i);
        im->low = v < im->low ? v : im->low;
        im->high = v > im->high ? v : im->high;
    }
}

/* Two columns a pixel, so that a square stays one on a terminal. */
static void images_text(Buf *b, const Images *im)
{
    static const char *const shades[] = {"  ", "░░", "▒▒", "▓▓", "██"};
    for (int64_t k = 0; k < im->n; k++) {
        buf_str(b, k ? "\n" : "");
        for (int64_t y = 0; y < im->h; y++) {
            for (int64_t x = 0; x < im->w; x++)
                buf_str(b, shades[(int)(brightness(im, k, y, x) * 4.999)]);
            buf_char(b, '\n');
        }
    }
    if (b->n && b->at[b->n - 1] == '\n')
        b->at[--b->n] = 0;
}

static void images_svg(Buf *b, const Images *im)
{
    int64_t cell = im->w > 64 ? 2 : im->w > 16 ? 4 : 8, gap = 8, across = im->n < 8 ? im->n : 8;
    int64_t down = (im->n + across - 1) / across;
    int64_t width = across * (im->w * cell + gap) - gap, height = down * (im->h * cell + gap) - gap;
    buf_printf(
        b,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%lld\" height=\"%lld\" role=\"img\" "
        "shape-rendering=\"crispEdges\">",
        (long long)width, (long long)height);
    for (int64_t k = 0; k < im->n; k++) {
        long long left = k % across * (im->w * cell + gap), top = k / across * (im->h * cell + gap);
        buf_printf(b,
                   "<g transform=\"translate(%lld %lld)\"><rect width=\"%lld\" height=\"%lld\" "
                   "fill=\"#000\"/>",
                   left, top, (long long)(im->w * cell), (long long)(im->h * cell));
        for (int64_t i = 0; i < im->h * im->w; i++) {
            int level = (int)(brightness(im, k, i / im->w, i % im->w) * 255 + 0.5);
            if (level)
                buf_printf(b,
                           "<rect x=\"%lld\" y=\"%lld\" width=\"%lld\" height=\"%lld\" "
                           "fill=\"#%02x%02x%02x\"/>",
                           (long long)(i % im->w * cell), (long long)(i / im->w * cell),
                           (long long)cell, (long long)cell, level, level, level);
        }
        buf_str(b, "</g>");
    }
    buf_str(b, "</svg>");
}

/* A portable graymap: a header in text, and a byte a pixel. */
static void images_pixels(Buf *b, const Images *im)
{
    int64_t cell = im->w > 64 ? 1 : im->w > 16 ? 4 : 8, gap = 8, across = im->n < 8 ? im->n : 8;
    int64_t down = (im->n + across - 1) / across;
    int64_t width = across * (im->w * cell + gap) - gap, height = down * (im->h * cell + gap) - gap;
    buf_printf(b, "P5 %lld %lld 255\n", (long long)width, (long long)height);
    for (int64_t y = 0; y < height; y++)
        for (int64_t x = 0; x < width; x++) {
            int64_t k = y / (im->h * cell + gap) * across + x / (im->w * cell + gap);
            int64_t row = y % (im->h * cell + gap) / cell, column = x % (im->w * cell + gap) / cell;
            bool inside = k < im->n && row < im->h && column < im->w;
            buf_char(b, (char)(inside ? (int)(brightness(im, k, row, column) * 255 + 0.5) : 0));
        }
}

bool display_image(RelaySession *s, Value v, Span span)
{
    TensorView view;
    bool tensor = value_view(&v, &view);
    int32_t r = tensor ? view.t.rank : 0;
    if (!tensor || r < 2 || view.t.size == 0 || view.t.shape[r - 1] > IMAGE_SIDE_MOST ||
        view.t.shape[r - 2] > IMAGE_SIDE_MOST) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, span, "this is no picture");
        diag_help(d,
                  "a picture is a tensor of rows and columns, at most %d each, or a stack of them",
                  IMAGE_SIDE_MOST);
        return false;
    }
    Images im = {.t = &view.t, .h = view.t.shape[r - 2], .w = view.t.shape[r - 1]};
    im.n = view.t.size / (im.h * im.w);
    im.n = im.n > IMAGES_MOST ? IMAGES_MOST : im.n;
    images_range(&im);
    Buf text = {0}, svg = {0}, json = {0}, pixels = {0};
    images_text(&text, &im);
    buf_printf(&json, "{\"pictures\": %lld, \"rows\": %lld, \"columns\": %lld}\n", (long long)im.n,
               (long long)im.h, (long long)im.w);
    images_svg(&svg, &im);
    if (s->options.pixels)
        images_pixels(&pixels, &im);
    RelayMime mimes[] = {
        {"text/plain", buf_text(&text), text.n},
        {"application/json", buf_text(&json), json.n},
        {"image/svg+xml", buf_text(&svg), svg.n},
        {"image/x-portable-graymap", buf_text(&pixels), pixels.n},
    };
    emit_mimes(s, RELAY_OUTPUT_DISPLAY, pixels.n ? 4 : 3, mimes);
    buf_deinit(&json);
    buf_deinit(&pixels);
    buf_deinit(&text);
    buf_deinit(&svg);
    return true;
}

/* ---- text -------------------------------------------------------------------------------------------------------------------- */

/* What cannot be shown becomes U+FFFD. */
static void put_code(Buf *out, int64_t code)
{
    char bytes[4];
    bool shown = code == '\n' || code == '\t' || (code >= 32 && code != 127 && code <= 0x10FFFF);
    bool surrogate = code >= 0xD800 && code < 0xE000;
    buf_bytes(out, bytes, utf8_encode(shown && !surrogate ? (uint32_t)code : 0xFFFD, bytes));
}

static bool put_codes(RelaySession *s, Buf *out, Value v)
{
    TensorView view;
    if (!value_view(&v, &view) || view.t.rank > 1 || !dtype_is_int(view.t.dtype))
        return false;
    for (int64_t i = 0; i < view.t.size && !limit_hit_at(&s->cx.limits, i); i++)
        put_code(out, tensor_get_int(&view.t, i));
    return true;
}

/* As other languages print; in pieces, since whoever interrupts a long text wants no more of it. */
static void emit_pieces(RelaySession *s, const Buf *text)
{
    enum { PIECE = 1 << 16 };
    for (size_t at = 0, n; at < text->n && !limit_hit(&s->cx.limits); at += n) {
        n = text->n - at < PIECE ? text->n - at : PIECE;
        while (at + n < text->n && ((unsigned char)text->at[at + n] & 0xC0) == 0x80)
            n--;
        emit_mimes(s, RELAY_OUTPUT_STREAM, 1, &(RelayMime){"text/plain", text->at + at, n});
    }
}

bool display_text(RelaySession *s, Value v, Span span)
{
    Buf text = {0};
    bool ok = true;
    /* A list by any name: constructors of a value and of what comes behind it. */
    while (ok && v.kind == VALUE_CON && object_n(v.object) == 2 && !limit_hit(&s->cx.limits)) {
        ok = put_codes(s, &text, object_get(v.object, 0));
        v = object_get(v.object, 1);
    }
    ok = ok && (v.kind == VALUE_CON ? object_n(v.object) == 0 : put_codes(s, &text, v));
    buf_char(&text, '\n');
    if (limit_hit(&s->cx.limits)) {
        ok = false;
    } else if (text.failed) {
        limit_reach(&s->cx.limits, LIMIT_MEMORY);
    } else if (ok) {
        emit_pieces(s, &text);
    } else {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, span, "this is no text");
        diag_help(d, "a text is a vector or a list of integers, each a code point");
    }
    buf_deinit(&text);
    return ok;
}

/* ---- colouring -------------------------------------------------------------------------------------------------------------- */

typedef struct Highlight {
    void (*token)(void *data, const RelayToken *t);
    void *data;
} Highlight;

static void pass_token(void *data, const LexedToken *t)
{
    Highlight *h = data;
    h->token(h->data, &(RelayToken){t->from, t->to, t->kind});
}

void relay_highlight(const char *language, const char *text, size_t len,
                     void (*token)(void *data, const RelayToken *t), void *data)
{
    Highlight h = {token, data};
    CodeLanguage code;
    if (language && code_find(language, &code))
        code_each(code, text, len, pass_token, &h);
    else
        lex_each(text, len, pass_token, &h);
}
