/* Source texts, and places in them.
 *
 * A SourceMap keeps every text that diagnostics may want to show, as long as somebody counts on it. A Span is a range of bytes in one
 * of them; the zero Span is no place at all. Lines and columns count from 1, columns in code
 * points. */
#ifndef BASE_SOURCE_H
#define BASE_SOURCE_H

#include "base/arena.h"

#include <stdint.h>

typedef struct Span {
    uint32_t source;        /* number of the source; 0: none */
    uint32_t from, to;      /* bytes [from, to) */
} Span;

typedef struct Source {
    uint32_t number;
    char *name;             /* "In[4]", "model.rly" */
    char *text;             /* owned, NUL behind it */
    size_t len;
    uint32_t *lines;        /* offset of each line's start; made when first asked for */
    uint32_t known, column; /* the place that was asked for last, and its column from 0 */
    size_t n_lines;
    uint32_t lines_before;  /* when the text is a part of a file: the lines in front of it */
    uint32_t refs;          /* of whoever has places in it */
    bool listed;            /* among those that may be free */
} Source;

typedef struct SourceConstant {
    const char *text;
    uint32_t number;
} SourceConstant;

typedef struct SourceMap {
    Source **sources;       /* those that are kept, in the order of their numbers */
    size_t n, cap;
    uint32_t last;          /* the newest number */
    SourceConstant constants[16];
    size_t n_constants;
    uint32_t *idle; /* numbers of those that nobody counted on when they were last looked at */
    size_t n_idle, cap_idle;
} SourceMap;

typedef struct Position {
    uint32_t line, column;
} Position;

void sources_init(SourceMap *m);
void sources_deinit(SourceMap *m);
/* Adds a copy of the text (at most 4 GiB - 1) and returns its number; 0 when it cannot be kept. Nobody counts on it yet. */
uint32_t sources_add(SourceMap *m, const char *name, const char *text, size_t len);
/* A text that is part of this program (a string literal), as a source: the same text is added once. */
uint32_t sources_constant(SourceMap *m, const char *name, const char *text);
/* Takes the newest source away again; nothing may refer to it any more. */
void sources_drop(SourceMap *m, uint32_t number);
/* Whoever keeps places in a text counts on it. */
void sources_retain(SourceMap *m, uint32_t number);
void sources_release(SourceMap *m, uint32_t number);
/* Frees the texts that nobody counts on; their numbers then mean no text for ever. */
void sources_sweep(SourceMap *m);
/* The text's first line is line `line` of the file that it is a part of. */
void sources_set_first_line(SourceMap *m, uint32_t number, uint32_t line);
const Source *sources_get(const SourceMap *m, uint32_t number);

bool span_is_none(Span s);
/* The least span that covers both; spans of different sources give the first. */
Span span_join(Span a, Span b);
Position span_start(SourceMap *m, Span s);
Position span_end(SourceMap *m, Span s); /* just behind the last character */
/* The text of line `line` without its end. */
void source_line(SourceMap *m, uint32_t source, uint32_t line, const char **text, size_t *len);

#endif
