/* Blocks that a graph repeats, and functions of the model, as functions of the program: of lines that say the same with other names one copy
 * stays, and each of the places calls it. */
#include "exchange/onnx_internal.h"

#include "base/memory.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Lines of a block that is worth a function, and how many lines it must save. */
#define LINES_LEAST 4
#define SAVED_LEAST 3
/* Pairs of lines that are compared in search of blocks: beyond, what is left stays as it is. */
#define PAIRS_MOST ((size_t)1 << 24)
#define ROUNDS_MOST 64
#define RESULTS_MOST 8

/* A variable that a line mentions. */
typedef struct Mention {
    size_t at, n; /* in the text, behind the `%` */
    const Name *name;
    size_t line; /* that gives it + 1; 0: none of the block's */
    size_t local; /* it is bound in the line itself: which one + 1 */
} Mention;

typedef struct Line {
    OnnxLine said;
    const Name *skeleton; /* the text without names */
    Mention *mentions;
    size_t n;
    size_t
        last_use; /* the last line that mentions what it gives; as many as there are lines: the result does */
} Line;

typedef struct Blocks {
    OnnxImport *im;
    const char *result;
    Line *lines;
    size_t n;
    size_t pairs;
} Blocks;

/* Lines from each of the starts on are one function. */
typedef struct Repeat {
    size_t length, saved;
    size_t n;
    size_t *starts; /* ascending */
} Repeat;

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

/* Position of the variable among those that the block's lines give + 1. */
static size_t line_of(const PtrMap *index, const Name *name)
{
    return (size_t)(uintptr_t)ptrmap_find(index, name);
}

static void read_line(Blocks *b, Line *l, const PtrMap *index, const PtrMap *outside)
{
    OnnxImport *im = b->im;
    const char *text = l->said.text;
    Vec(Mention) found = {0};
    Buf skeleton = {0};
    PtrMap locals = {0};
    for (const char *p = text; *p; p++) {
        buf_char(&skeleton, *p);
        if (*p != '%' || !is_word(p[1]))
            continue;
        Mention m = {.at = (size_t)(p + 1 - text)};
        while (is_word(p[1 + m.n]))
            m.n++;
        m.name = ctx_name_str(im->cx, (Str){p + 1, m.n});
        m.line = line_of(index, m.name);
        if (m.line == 0 && !ptrmap_has(outside, m.name)) {
            if (!ptrmap_has(&locals, m.name))
                ptrmap_put(&locals, m.name, (void *)(uintptr_t)(locals.n + 1));
            m.local = (size_t)(uintptr_t)ptrmap_find(&locals, m.name);
        }
        vec_push(&found, &im->out->arena, m);
        p += m.n;
    }
    l->skeleton = ctx_name_str(im->cx, (Str){buf_text(&skeleton), skeleton.n});
    l->mentions = found.at;
    l->n = found.n;
    ptrmap_deinit(&locals);
    buf_deinit(&skeleton);
}

static void note_uses(Blocks *b, const PtrMap *index)
{
    for (size_t i = 0; i < b->n; i++)
        for (size_t k = 0; k < b->lines[i].n; k++) {
            size_t from = b->lines[i].mentions[k].line;
            if (from > 0)
                b->lines[from - 1].last_use = i;
        }
    for (const char *p = strchr(b->result, '%'); p; p = strchr(p + 1, '%')) {
        size_t n = 0;
        while (is_word(p[1 + n]))
            n++;
        size_t from = line_of(index, ctx_name_str(b->im->cx, (Str){p + 1, n}));
        if (from > 0)
            b->lines[from - 1].last_use = b->n;
    }
}

/* What the lines of now mention. */
static void read_lines(Blocks *b)
{
    OnnxImport *im = b->im;
    PtrMap index = {0}, outside = {0};
    for (size_t i = 0; i < b->n; i++)
        ptrmap_put(&index, b->lines[i].said.name, (void *)(uintptr_t)(i + 1));
    for (size_t i = 0; i < im->out->arrays.n; i++)
        ptrmap_put(&outside, ctx_name(im->cx, im->out->arrays.at[i].name), im);
    for (size_t i = 0; i < im->inputs.n; i++)
        ptrmap_put(&outside, im->inputs.at[i], im);
    for (size_t i = 0; i < b->n; i++)
        read_line(b, &b->lines[i], &index, &outside);
    note_uses(b, &index);
    ptrmap_deinit(&index);
    ptrmap_deinit(&outside);
}

/* ---- what repeats ----------------------------------------------------------------------------------------------------------- */

static const Type *type_of_name(const Blocks *b, const Name *name)
{
    const Var *v = ptrmap_find(&b->im->locals, name);
    return v ? v->base.type : NULL;
}

/* Whether line k of the lines from x on says what line k of those from y on says. */
static bool same_line(const Blocks *b, size_t x, size_t y, size_t k)
{
    const Line *p = &b->lines[x + k], *q = &b->lines[y + k];
    bool same = p->skeleton == q->skeleton && p->n == q->n;
    for (size_t i = 0; same && i < p->n; i++) {
        const Mention *m = &p->mentions[i], *o = &q->mentions[i];
        bool m_inside = m->line > x, o_inside = o->line > y;
        if (m->local || o->local)
            same = m->local == o->local;
        else if (m_inside || o_inside)
            same = m_inside && o_inside && m->line - x == o->line - y;
        else
            same = type_of_name(b, m->name) == type_of_name(b, o->name);
    }
    return same;
}

static size_t same_length(Blocks *b, size_t x, size_t y)
{
    size_t most = y - x < b->n - y ? y - x : b->n - y, k = 0;
    while (k < most && same_line(b, x, y, k))
        k++;
    b->pairs += k;
    return k;
}

/* How many of the lines are used behind them. */
static size_t count_results(const Blocks *b, size_t start, size_t length)
{
    size_t n = 0;
    for (size_t k = 0; k < length; k++)
        n += b->lines[start + k].last_use >= start + length;
    return n;
}

/* The best of the repeats that begin in line x: with each of the lengths at which another line does. */
static void best_from(Blocks *b, size_t x, size_t *lengths, Repeat *best)
{
    Vec(size_t) at = {0};
    for (size_t y = x + LINES_LEAST; y < b->n && b->pairs < PAIRS_MOST; y++) {
        b->pairs++;
        lengths[y] = b->lines[x].skeleton == b->lines[y].skeleton ? same_length(b, x, y) : 0;
        if (lengths[y] >= LINES_LEAST)
            vec_push(&at, &b->im->out->arena, y);
    }
    for (size_t i = 0; i < at.n && b->pairs < PAIRS_MOST; i++) {
        size_t length = lengths[at.at[i]], end = x + length, n = 1;
        size_t results = count_results(b, x, length);
        for (size_t k = 0; k < at.n; k++)
            if (at.at[k] >= end && lengths[at.at[k]] >= length) {
                size_t more = count_results(b, at.at[k], length);
                results = more > results ? more : results;
                end = at.at[k] + length;
                n++;
            }
        b->pairs += at.n + n * length;
        size_t cost = n * (results > 1 ? 1 + results : 1) + 2 + length;
        if (results > RESULTS_MOST || n * length < cost + SAVED_LEAST ||
            n * length - cost <= best->saved)
            continue;
        best->length = length;
        best->saved = n * length - cost;
        best->starts[0] = x;
        best->n = 1;
        end = x + length;
        for (size_t k = 0; k < at.n; k++)
            if (at.at[k] >= end && lengths[at.at[k]] >= length) {
                best->starts[best->n++] = at.at[k];
                end = at.at[k] + length;
            }
    }
}

/* ---- as functions ----------------------------------------------------------------------------------------------------------- */

/* What the names have in common at their ends, or else at their beginnings; the first of them where that is next to nothing. */
static const char *common_name(OnnxImport *im, size_t n, const Name *const *names, bool ends)
{
    const char *first = names[0]->text;
    size_t front = strlen(first), back = front;
    for (size_t i = 1; i < n; i++) {
        const char *other = names[i]->text;
        size_t length = strlen(other), k = 0;
        while (k < front && first[k] == other[k])
            k++;
        front = k;
        for (k = 0;
             k < back && k < length && first[strlen(first) - 1 - k] == other[length - 1 - k];)
            k++;
        back = k;
    }
    const char *tail = first + strlen(first) - back;
    while (*tail && !isalpha((unsigned char)*tail))
        tail++;
    if (first[front] && first[front] != '_') /* a number, or a word, that differs in its end */
        while (front > 0 && isdigit((unsigned char)first[front - 1]))
            front--;
    while (front > 0 && first[front - 1] == '_')
        front--;
    if (ends && strlen(tail) >= 2)
        return tail;
    return front >= 2 ? import_text(im, "%.*s", (int)front, first) : ends ? first : "block";
}

/* What the model calls the values, with `*` for what differs; NULL: it has no name for them. */
static const char *common_origin(OnnxImport *im, size_t n, const Name *const *names)
{
    const char *first = ptrmap_find(&im->origins, names[0]);
    size_t all = first ? strlen(first) : 0, front = all, back = all;
    bool same = true;
    for (size_t i = 1; first && i < n; i++) {
        const char *other = ptrmap_find(&im->origins, names[i]);
        size_t length = other ? strlen(other) : 0, k = 0;
        if (!other)
            return NULL;
        same &= !strcmp(first, other);
        while (k < front && first[k] == other[k])
            k++;
        front = k;
        for (k = 0; k < back && k < length - front && k < all - front &&
                    first[all - 1 - k] == other[length - 1 - k];)
            k++;
        back = k;
    }
    return !first || same ? first
                          : import_text(im, "%.*s*%s", (int)front, first, first + all - back);
}

/* The text with other names. */
static const char *renamed(OnnxImport *im, const Line *l, const PtrMap *names)
{
    Buf b = {0};
    size_t at = 0;
    for (size_t i = 0; i < l->n; i++) {
        const Mention *m = &l->mentions[i];
        const char *other = ptrmap_find(names, m->name);
        buf_bytes(&b, l->said.text + at, m->at - at);
        buf_str(&b, other ? other : m->name->text);
        at = m->at + m->n;
    }
    buf_str(&b, l->said.text + at);
    return buf_keep(&b, &im->out->arena);
}

/* What stands at one place of a block: a name for each repetition. */
typedef struct Slot {
    const Name **names;
} Slot;

typedef struct Outline {
    Blocks *b;
    const Repeat *r;
    PtrMap names; /* of the first repetition -> what the function calls it */
    Vec(Slot) params;
    bool *results; /* lines that are used behind a repetition */
    size_t n_results;
} Outline;

static const Name **names_at(Outline *o, size_t line, size_t mention)
{
    const Repeat *r = o->r;
    const Name **names = arena_new_array(&o->b->im->out->arena, const Name *, r->n);
    for (size_t i = 0; i < r->n; i++) {
        const Line *l = &o->b->lines[r->starts[i] + line];
        names[i] = mention == SIZE_MAX ? l->said.name : l->mentions[mention].name;
    }
    return names;
}

static bool is_param(const Outline *o, const Name *const *names)
{
    for (size_t i = 0; i < o->params.n; i++)
        if (!memcmp(o->params.at[i].names, names, o->r->n * sizeof(Name *)))
            return true;
    return false;
}

/* What comes from elsewhere, once. */
static void find_params(Outline *o)
{
    OnnxImport *im = o->b->im;
    for (size_t k = 0; k < o->r->length; k++) {
        const Line *l = &o->b->lines[o->r->starts[0] + k];
        for (size_t i = 0; i < l->n; i++) {
            if (l->mentions[i].local || l->mentions[i].line > o->r->starts[0])
                continue;
            const Name **names = names_at(o, k, i);
            if (!is_param(o, names))
                vec_push(&o->params, &im->out->arena, ((Slot){names}));
        }
    }
}

static void find_results(Outline *o)
{
    const Repeat *r = o->r;
    for (size_t k = 0; k < r->length; k++)
        for (size_t i = 0; i < r->n; i++)
            o->results[k] |= o->b->lines[r->starts[i] + k].last_use >= r->starts[i] + r->length;
    for (size_t k = 0; k < r->length; k++)
        o->n_results += o->results[k];
}

static const char *fresh(OnnxImport *im, const char *hint)
{
    return import_name(im, hint, "v_")->text;
}

/* Whether one name of the first repetition stands for different ones elsewhere: then no renaming says it. */
static bool splits(const Outline *o)
{
    for (size_t i = 0; i < o->params.n; i++)
        for (size_t k = i + 1; k < o->params.n; k++)
            if (o->params.at[i].names[0] == o->params.at[k].names[0])
                return true;
    return false;
}

static const char *write_function(Outline *o, const char *hint)
{
    OnnxImport *im = o->b->im;
    const Repeat *r = o->r;
    const char *entry = im->wish->entry;
    const Name **last = NULL;
    for (size_t k = 0; k < r->length; k++)
        last = o->results[k] ? names_at(o, k, SIZE_MAX) : last;
    hint = hint ? hint : common_name(im, r->n, last, false);
    const char *name =
        fresh(im, import_text(im, "%s%s%s", entry ? entry : "", entry ? "_" : "", hint));
    Buf *out = &im->defs;
    buf_printf(out, "def @%s(", name);
    for (size_t i = 0; i < o->params.n; i++) {
        const Name **names = o->params.at[i].names;
        const char *called = fresh(im, common_name(im, r->n, names, true));
        ptrmap_put(&o->names, names[0], (void *)(uintptr_t)called);
        buf_printf(out, "%%%s: %s, ", called, import_type_text(im, type_of_name(o->b, names[0])));
    }
    Buf results = {0}, body = {0};
    for (size_t k = 0; k < r->length; k++) {
        const Line *l = &o->b->lines[r->starts[0] + k];
        const char *called = fresh(im, common_name(im, r->n, names_at(o, k, SIZE_MAX), true));
        const char *origin = common_origin(im, r->n, names_at(o, k, SIZE_MAX));
        ptrmap_put(&o->names, l->said.name, (void *)(uintptr_t)called);
        ptrmap_put(&im->origins, ctx_name(im->cx, called), (void *)(uintptr_t)origin);
        buf_printf(&body, "  let %%%s = %s;\n", called, renamed(im, l, &o->names));
        if (o->results[k])
            buf_printf(&results, "%s%%%s", results.n ? ", " : "", called);
    }
    buf_printf(out, "Inline=1%s) {\n%s", import_origins(im, buf_text(&body)), buf_text(&body));
    buf_printf(out, o->n_results == 1 ? "  %s\n}\n" : "  (%s)\n}\n", buf_text(&results));
    buf_deinit(&results);
    buf_deinit(&body);
    return name;
}

static void put_line(Line *to, size_t *n, const Name *name, const char *text)
{
    to[(*n)++] = (Line){.said = {.name = name, .text = text}};
}

/* The call in place of repetition i. */
static void put_call(Outline *o, const char *name, size_t i, Line *to, size_t *n)
{
    OnnxImport *im = o->b->im;
    Buf call = {0};
    buf_printf(&call, "@%s(", name);
    for (size_t k = 0; k < o->params.n; k++)
        buf_printf(&call, "%s%%%s", k ? ", " : "", o->params.at[k].names[i]->text);
    buf_char(&call, ')');
    const char *text = buf_keep(&call, &im->out->arena);
    const Name *several = o->n_results == 1 ? NULL : import_name(im, name, "v_");
    const Type *types[RESULTS_MOST];
    size_t field = 0;
    for (size_t k = 0; k < o->r->length; k++)
        if (o->results[k])
            types[field++] = type_of_name(o->b, o->b->lines[o->r->starts[i] + k].said.name);
    if (several) {
        import_var(im, several, type_tuple(im->cx, (uint32_t)field, types));
        put_line(to, n, several, text);
    }
    field = 0;
    for (size_t k = 0; k < o->r->length; k++) {
        if (!o->results[k])
            continue;
        const Name *result = o->b->lines[o->r->starts[i] + k].said.name;
        put_line(to, n, result,
                 several ? import_text(im, "%%%s.%zu", several->text, field++) : text);
    }
}

/* False: they stay as they are. */
static bool outline(Blocks *b, const Repeat *r, const char *hint)
{
    OnnxImport *im = b->im;
    Outline o = {.b = b, .r = r};
    o.results = memory_zeroed(r->length, sizeof *o.results);
    Line *to = memory_zeroed(b->n + r->n * (RESULTS_MOST + 1), sizeof *to);
    bool ok = o.results && to;
    if (ok) {
        find_params(&o);
        find_results(&o);
        ok = o.n_results > 0 && o.n_results <= RESULTS_MOST && !splits(&o);
    }
    if (ok) {
        const char *name = write_function(&o, hint);
        size_t n = 0, at = 0;
        for (size_t i = 0; i < r->n; i++) {
            memcpy(to + n, b->lines + at, (r->starts[i] - at) * sizeof *to);
            n += r->starts[i] - at;
            put_call(&o, name, i, to, &n);
            at = r->starts[i] + r->length;
        }
        memcpy(to + n, b->lines + at, (b->n - at) * sizeof *to);
        b->n = n + b->n - at;
        memory_free(b->lines);
        b->lines = to;
        to = NULL;
    } else if (!o.results || !to) {
        limit_reach(&im->cx->limits, LIMIT_MEMORY);
    }
    memory_free(to);
    memory_free(o.results);
    ptrmap_deinit(&o.names);
    return ok;
}

/* The repeat that saves most lines becomes a function, as long as one saves enough. */
static void outline_repeats(Blocks *b)
{
    for (int round = 0; round < ROUNDS_MOST && b->pairs < PAIRS_MOST; round++) {
        size_t *lengths = memory_zeroed(b->n + 1, sizeof *lengths);
        Repeat best = {.starts = memory_zeroed(b->n + 1, sizeof *best.starts)};
        read_lines(b);
        for (size_t i = 0; lengths && best.starts && i < b->n; i++)
            best_from(b, i, lengths, &best);
        bool more = best.n > 0 && outline(b, &best, NULL);
        memory_free(lengths);
        memory_free(best.starts);
        if (!more)
            return;
    }
}

/* Whether line x begins what a call of a function of the model said, and how many lines that is. */
static size_t call_length(const Blocks *b, size_t x)
{
    const OnnxCall *call = b->lines[x].said.call;
    size_t n = 0;
    if (call && (x == 0 || b->lines[x - 1].said.call != call))
        while (x + n < b->n && b->lines[x + n].said.call == call)
            n++;
    return n;
}

static bool same_call(Blocks *b, size_t x, size_t y, size_t length)
{
    bool same =
        call_length(b, y) == length && b->lines[y].said.call->name == b->lines[x].said.call->name;
    for (size_t k = 0; same && k < length; k++)
        same = same_line(b, x, y, k);
    b->pairs += length;
    return same;
}

/* What the model's own functions said becomes one each, or several where calls differ in types; one line stays one. */
static void outline_calls(Blocks *b)
{
    size_t at = 0;
    read_lines(b);
    while (at < b->n && b->pairs < PAIRS_MOST) {
        Repeat r = {.length = call_length(b, at)};
        r.starts = r.length > 1 ? memory_zeroed(b->n, sizeof *r.starts) : NULL;
        for (size_t y = at; r.starts && y < b->n;) {
            bool same = y == at || same_call(b, at, y, r.length);
            if (same)
                r.starts[r.n++] = y;
            y += same ? r.length : 1;
        }
        bool done = r.n > 0 && outline(b, &r, b->lines[at].said.call->name);
        memory_free(r.starts);
        if (done)
            read_lines(b);
        at += done || r.length == 0 ? 1 : r.length;
    }
}

void import_outline(OnnxImport *im, OnnxLine **lines, size_t *n, const char *result)
{
    Blocks b = {.im = im, .result = result, .n = *n};
    b.lines = memory_zeroed(*n + 1, sizeof *b.lines);
    for (size_t i = 0; b.lines && i < *n; i++)
        b.lines[i].said = (*lines)[i];
    if (b.lines) {
        outline_calls(&b);
        outline_repeats(&b);
    }
    OnnxLine *out = b.lines ? arena_new_array(&im->out->arena, OnnxLine, b.n + 1) : NULL;
    for (size_t i = 0; out && i < b.n; i++)
        out[i] = b.lines[i].said;
    if (out) {
        *lines = out;
        *n = b.n;
    }
    memory_free(b.lines);
}
