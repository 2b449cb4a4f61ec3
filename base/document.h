/* Large JSON documents, read where they lie.
 *
 * All values of a document stand in one array in the order of the text, and each says where its text
 * is; nothing is copied but strings with escapes. So a document takes little more memory than its text
 * and is read at a speed near that of memory. The text must stay as long as the document.
 *
 *     Document d;
 *     DocumentError e;
 *     if (document_read(&d, &arena, text, &e)) … document_get(&d, d.at, "nodes") … */
#ifndef BASE_DOCUMENT_H
#define BASE_DOCUMENT_H

#include "base/arena.h"
#include "base/str.h"
#include "base/vec.h"

#include <stdint.h>

typedef enum DocumentKind {
    DOCUMENT_NULL,
    DOCUMENT_BOOL,
    DOCUMENT_NUMBER, /* as it is written */
    DOCUMENT_STRING,
    DOCUMENT_LIST,   /* its items follow */
    DOCUMENT_OBJECT, /* its keys and values follow, a string and a value in turn */
} DocumentKind;

typedef struct DocumentValue {
    uint32_t from; /* where it begins in the text; a string behind its quote */
    uint32_t n;    /* bytes; items or pairs of what has parts */
    uint32_t end;  /* behind its last part: the place of what follows, among the values */
    uint8_t kind;
    bool decoded; /* a string with escapes: `from` counts in Document.decoded */
    bool flat;    /* none of its items has parts, so that the i-th is found at once */
} DocumentValue;

typedef struct Document {
    const char *text;
    DocumentValue *at; /* the first one is the document */
    const char *decoded;
} Document;

typedef struct DocumentError {
    const char *what; /* NULL: the work ended at a limit */
    size_t at, line; /* the place in the text; lines from 1 */
} DocumentError;

enum { DOCUMENT_DEPTH_MOST = 2048 };

/* False when the text is no JSON, is nested more deeply than DOCUMENT_DEPTH_MOST, or has an object with
 * a key twice, or when a limit of the arena ended the work. Strings hold no NUL and are UTF-8. */
bool document_read(Document *d, Arena *arena, Str text, DocumentError *error);

/* Writes `\ufffd` over each half of a pair of `\u` that stands alone in a text of JSON: what a front end sends when its user's text was cut
 * inside a character, and what no text here can hold. Columns stay, in any count. Whether there was one. */
bool document_mend(char *text, size_t n);

/* All of these take NULL for a value that is not there, and give NULL or nothing for one of another kind. */
static inline bool document_is(const DocumentValue *v, DocumentKind kind)
{
    return v && v->kind == kind;
}
Str document_str(const Document *d, const DocumentValue *v); /* of a string or number */
bool document_int(const Document *d, const DocumentValue *v, int64_t *out); /* a whole number */
const DocumentValue *document_get(const Document *d, const DocumentValue *object, const char *key);
/* The i-th item of a list; NULL where items have parts. */
const DocumentValue *document_item(const Document *d, const DocumentValue *list, size_t i);
/* What follows an item in its list, or a key, whose value this is, or a value, in its object. */
static inline const DocumentValue *document_next(const Document *d, const DocumentValue *v)
{
    return d->at + v->end;
}
static inline size_t document_count(const DocumentValue *v)
{
    return v && v->kind >= DOCUMENT_LIST ? v->n : 0;
}

#endif
