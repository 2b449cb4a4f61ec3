/* Diagnostics: what is wrong, where, and what to try.
 *
 *     Diag *d = diag_error(diags, E0207_TUPLE_INDEX, span, "tuple index %d is out of range", index);
 *     diag_label(d, tuple_span, "this is %s", type);
 *     diag_help(d, "fields count from 0; the last one is `.%d`", n - 1);
 *
 * Whoever finds the problem reports it, once; everybody above returns. Messages: lower case, no
 * full stop, what is wrong before what was expected, names in backquotes. A Diags collects them
 * in order; the caller shows and clears it. The functions never fail: a NULL Diags swallows
 * everything and diag_error then returns a Diag that goes nowhere. */
#ifndef BASE_DIAG_H
#define BASE_DIAG_H

#include "base/arena.h"
#include "base/source.h"

#include <stdarg.h>

typedef enum Severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR, SEVERITY_BUG } Severity;

/* E0207_TUPLE_INDEX, … : one for each row of diag.def, in its order. */
typedef enum DiagCode {
#define DIAG(code, name, severity, title) code##_##name,
#include "base/diag.def"
#undef DIAG
    DIAG_CODES
} DiagCode;

typedef struct DiagInfo {
    const char *code;       /* "E0207" */
    const char *name;       /* "TUPLE_INDEX" */
    Severity severity;
    const char *title;      /* "tuple index out of range" */
} DiagInfo;

const DiagInfo *diag_info(DiagCode code);
/* The code of "E0207" or "e0207"; DIAG_CODES when there is none. */
DiagCode diag_find(const char *text);

typedef struct DiagLabel {
    Span span;
    const char *text;
    struct DiagLabel *next;
} DiagLabel;

typedef struct DiagText {
    const char *text;
    struct DiagText *next;
} DiagText;

/* A change of the text that an editor offers. */
typedef struct DiagFix {
    Span span;
    const char
        *wanted; /* what is replaced, somewhere in the span; NULL: the text goes in front of it */
    const char *text;
    struct DiagFix *next;
} DiagFix;

typedef struct Diag {
    DiagCode code;
    Severity severity;
    bool asked;             /* about what was asked for, not about the program */
    bool written; /* about what was asked for in the program, so about it all the same */
    Span span; /* none for what is wrong with the world */
    const char *message;
    DiagLabel *labels; /* further places, in order of addition */
    DiagText *notes;
    DiagText *helps;
    DiagFix *fixes;
    struct Diag *next;
    Arena *arena;
} Diag;

typedef struct Diags {
    Arena arena;
    Diag *first, *last;
    size_t n, errors, warnings;
    size_t most; /* further errors are only counted, further warnings dropped; 0: 100 */
    bool cut; /* there may be more than are here or counted */
    Diag *nowhere; /* receives what is over `most` */
} Diags;

void diags_init(Diags *ds, Limits *limits);
void diags_deinit(Diags *ds);
void diags_clear(Diags *ds);
/* Whether an error would only be counted: work that looks for errors may end. */
bool diags_full(const Diags *ds);
/* Those behind `after` (NULL: all) are about what was asked for. */
void diags_are_asked(Diags *ds, Diag *after);
/* It was asked for in the program itself. */
void diags_are_written(Diags *ds, Diag *after);
/* Brings those behind `after` (NULL: all) into the order of the text; those of one place stay as they came. */
void diags_sort(Diags *ds, Diag *after);

/* A place in the list, to take back what was reported behind it: an attempt that is given up. */
typedef struct DiagsMark {
    Diag *last;
    size_t n, errors, warnings;
    bool cut;
} DiagsMark;
DiagsMark diags_mark(const Diags *ds);
void diags_back(Diags *ds, DiagsMark mark);
/* The first error behind the mark that lies within the span; NULL for none. */
Diag *diags_within(const Diags *ds, DiagsMark mark, Span whole);

Diag *diag_error(Diags *ds, DiagCode code, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
Diag *diag_add(Diags *ds, DiagCode code, Span span, const char *format, va_list args)
    __attribute__((format(printf, 4, 0)));
void diag_label(Diag *d, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
void diag_note(Diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
void diag_help(Diag *d, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* What might be meant, as a change of the text; texts are copied. */
void diag_fix(Diag *d, Span span, const char *wanted, const char *text);

/* "did you mean `x`?" when one of the names is near; whether one is. */
bool diag_suggest(Diag *d, const char *wanted, size_t n, const char *const *names);
/* The same for names that are written with a sigil in front. */
bool diag_suggest_as(Diag *d, const char *sigil, const char *wanted, size_t n,
                     const char *const *names);

/* This program is wrong, not the person's: E0901 with how to report it. */
Diag *diag_bug(Diags *ds, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
