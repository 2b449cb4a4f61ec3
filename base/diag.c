#include "base/diag.h"

#include "base/buf.h"
#include "base/str.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static const DiagInfo infos[] = {
#define DIAG(code, name, severity, title) {#code, #name, severity, title},
#include "base/diag.def"
#undef DIAG
};

/* What is written to nobody: without an arena, additions to it are dropped and it never changes. */
static const Diag nowhere = {.code = E0901_BUG, .message = ""};

const DiagInfo *diag_info(DiagCode code)
{
    return &infos[code];
}

DiagCode diag_find(const char *text)
{
    for (int i = 0; i < DIAG_CODES; i++) {
        if (strcasecmp(infos[i].code, text) == 0)
            return (DiagCode)i;
    }
    return DIAG_CODES;
}

void diags_init(Diags *ds, Limits *limits)
{
    *ds = (Diags){0};
    arena_init(&ds->arena, limits);
}

void diags_deinit(Diags *ds)
{
    diags_clear(ds);
}

void diags_clear(Diags *ds)
{
    Limits *limits = ds->arena.limits;
    size_t most = ds->most;
    arena_deinit(&ds->arena);
    diags_init(ds, limits);
    ds->most = most;
}

DiagsMark diags_mark(const Diags *ds)
{
    return (DiagsMark){ds->last, ds->n, ds->errors, ds->warnings, ds->cut};
}

void diags_back(Diags *ds, DiagsMark mark)
{
    ds->last = mark.last;
    ds->n = mark.n;
    ds->errors = mark.errors;
    ds->warnings = mark.warnings;
    ds->cut = mark.cut;
    if (mark.last)
        mark.last->next = NULL;
    else
        ds->first = NULL;
}

Diag *diags_within(const Diags *ds, DiagsMark mark, Span whole)
{
    Diag *d = mark.last ? mark.last->next : ds->first;
    while (d && (d->severity != SEVERITY_ERROR || d->span.source != whole.source ||
                 d->span.from < whole.from || d->span.to > whole.to))
        d = d->next;
    return d;
}

/* Nobody reads a message that is longer: a name may have a million letters. */
#define TEXT_MOST 4000
#define MORE "…"

/* Puts a mark where the text was cut, behind its last whole character. */
static void cut_text(char *text, size_t n)
{
    while (n > 0 && ((unsigned char)text[n - 1] & 0xc0) == 0x80)
        n--;
    if (n > 0 && (unsigned char)text[n - 1] >= 0xc0)
        n--;
    strcpy(text + n, MORE);
}

__attribute__((format(printf, 2, 0))) static const char *text_of(Arena *a, const char *format,
                                                                 va_list args)
{
    char small[256];
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    const char *text = "";
    if (n >= 0 && (size_t)n < sizeof small) {
        text = arena_copy_text(a, small, (size_t)n);
    } else if (n >= 0) {
        size_t room = (n < TEXT_MOST ? (size_t)n : TEXT_MOST) + 1;
        char *large = arena_alloc_must(a, room + sizeof MORE, 1);
        vsnprintf(large, room, format, again);
        if (n >= TEXT_MOST)
            cut_text(large, TEXT_MOST);
        text = large;
    }
    va_end(again);
    return text;
}

#define MOST 100

static size_t most_of(const Diags *ds)
{
    return ds->most ? ds->most : MOST;
}

bool diags_full(const Diags *ds)
{
    return ds && ds->errors > most_of(ds);
}

Diag *diag_add(Diags *ds, DiagCode code, Span span, const char *format, va_list args)
{
    if (!ds)
        return (Diag *)&nowhere;
    Severity severity = infos[code].severity;
    if (severity == SEVERITY_ERROR && ++ds->errors > most_of(ds))
        return (Diag *)&nowhere;
    if (severity == SEVERITY_WARNING && ++ds->warnings > most_of(ds)) {
        ds->cut = true;
        return (Diag *)&nowhere;
    }
    if (severity == SEVERITY_BUG)
        ds->errors++;
    Diag *d = arena_new(&ds->arena, Diag);
    *d = (Diag){
        .code = code,
        .severity = severity,
        .span = span,
        .message = text_of(&ds->arena, format, args),
        .arena = &ds->arena,
    };
    if (ds->last)
        ds->last->next = d;
    else
        ds->first = d;
    ds->last = d;
    ds->n++;
    return d;
}

Diag *diag_error(Diags *ds, DiagCode code, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *d = diag_add(ds, code, span, format, args);
    va_end(args);
    return d;
}

void diag_label(Diag *d, Span span, const char *format, ...)
{
    if (!d || !d->arena)
        return;
    DiagLabel *label = arena_new(d->arena, DiagLabel);
    va_list args;
    va_start(args, format);
    *label = (DiagLabel){.span = span, .text = text_of(d->arena, format, args)};
    va_end(args);
    DiagLabel **end = &d->labels;
    while (*end)
        end = &(*end)->next;
    *end = label;
}

__attribute__((format(printf, 3, 0))) static void add_text(Diag *d, DiagText **list,
                                                           const char *format, va_list args)
{
    const char *text = text_of(d->arena, format, args);
    /* Nothing is left of it where memory was refused. */
    if (!*text)
        return;
    DiagText *t = arena_new(d->arena, DiagText);
    t->text = text;
    while (*list)
        list = &(*list)->next;
    *list = t;
}

void diag_note(Diag *d, const char *format, ...)
{
    if (!d || !d->arena)
        return;
    va_list args;
    va_start(args, format);
    add_text(d, &d->notes, format, args);
    va_end(args);
}

void diag_help(Diag *d, const char *format, ...)
{
    if (!d || !d->arena)
        return;
    va_list args;
    va_start(args, format);
    add_text(d, &d->helps, format, args);
    va_end(args);
}

void diag_fix(Diag *d, Span span, const char *wanted, const char *text)
{
    if (!d || !d->arena || span_is_none(span))
        return;
    DiagFix **end = &d->fixes;
    while (*end)
        end = &(*end)->next;
    *end = arena_new(d->arena, DiagFix);
    **end = (DiagFix){
        .span = span,
        .wanted = wanted ? arena_copy_text(d->arena, wanted, strlen(wanted)) : NULL,
        .text = arena_copy_text(d->arena, text, strlen(text)),
    };
}

/* How far a name is from what was wanted; 100 and above: not near. One letter of three may differ.
 * `dense` is meant for `nn.dense`. */
static int name_distance(Str wanted, Str name)
{
    int most = wanted.len < 6 ? 1 : wanted.len < 9 ? 2 : 3;
    if ((size_t)most >= wanted.len)
        most = (int)wanted.len - 1;
    if (wanted.len == name.len && strncasecmp(wanted.ptr, name.ptr, name.len) == 0)
        return 0;
    bool tail = name.len > wanted.len + 1 && name.ptr[name.len - wanted.len - 1] == '.' &&
                str_eq((Str){name.ptr + name.len - wanted.len, wanted.len}, wanted);
    if (tail)
        return 1;
    int distance = str_distance(wanted, name, most);
    return distance > most ? 100 : distance;
}

bool diag_suggest(Diag *d, const char *wanted, size_t n, const char *const *names)
{
    return diag_suggest_as(d, "", wanted, n, names);
}

bool diag_suggest_as(Diag *d, const char *sigil, const char *wanted, size_t n,
                     const char *const *names)
{
    if (!d || !d->arena || !wanted[0])
        return false;
    int nearest = 100;
    const char *name = NULL;
    for (size_t i = 0; i < n; i++) {
        int distance = names[i] ? name_distance(str_of(wanted), str_of(names[i])) : 100;
        if (distance < nearest) {
            nearest = distance;
            name = names[i];
        }
    }
    if (!name)
        return false;
    diag_help(d, "did you mean `%s%s`?", sigil, name);
    diag_fix(d, d->span, wanted, name);
    return true;
}

Diag *diag_bug(Diags *ds, Span span, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    Diag *d = diag_add(ds, E0901_BUG, span, format, args);
    va_end(args);
    diag_note(d, "this is a mistake in relay %s, not in your program", RELAY_VERSION);
    diag_help(d, "please report it, with the program that shows it");
    return d;
}

/* ---- order --------------------------------------------------------------------------------- */

/* Those without a place come last. */
static bool comes_before(const Diag *a, const Diag *b)
{
    uint32_t source_a = a->span.source - 1, source_b = b->span.source - 1;
    return source_a != source_b ? source_a < source_b : a->span.from < b->span.from;
}

/* Merges two ordered lists; of equals the first list's comes first. */
static Diag *merge(Diag *a, Diag *b)
{
    Diag *first = NULL, **end = &first;
    while (a && b) {
        Diag **from = comes_before(b, a) ? &b : &a;
        *end = *from;
        end = &(*end)->next;
        *from = (*from)->next;
    }
    *end = a ? a : b;
    return first;
}

static Diag *sort_list(Diag *list)
{
    /* The list in bin k has 2^k diagnostics or none, and comes before those of lower bins. */
    Diag *bins[32] = {0};
    while (list) {
        Diag *one = list;
        list = list->next;
        one->next = NULL;
        uint32_t k = 0;
        for (; k < 31 && bins[k]; k++) {
            one = merge(bins[k], one);
            bins[k] = NULL;
        }
        bins[k] = merge(bins[k], one);
    }
    Diag *all = NULL;
    for (uint32_t k = 0; k < 32; k++)
        all = merge(bins[k], all);
    return all;
}

void diags_are_asked(Diags *ds, Diag *after)
{
    for (Diag *d = after ? after->next : ds->first; d; d = d->next)
        d->asked = true;
}

void diags_are_written(Diags *ds, Diag *after)
{
    for (Diag *d = after ? after->next : ds->first; d; d = d->next)
        d->written = true;
}

void diags_sort(Diags *ds, Diag *after)
{
    Diag **first = after ? &after->next : &ds->first;
    *first = sort_list(*first);
    for (Diag *d = *first; d; d = d->next)
        ds->last = d;
}
