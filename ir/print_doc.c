/* Docs: texts that are put together from pieces of one buffer. */
#include "ir/print_internal.h"

#include <string.h>

/* Deeper than this nothing more is added: the blanks would fill the memory. */
#define DEEPER_MOST 64

/* Whether `next` goes on where the doc ends: then they are one piece. */
static bool joins(const Doc *doc, const Piece *next)
{
    const Piece *last = doc->last;
    return last && last->from != PIECE_DEEPER && next->from != PIECE_DEEPER && next->blanks == 0 &&
           last->to == next->from;
}

static void add_piece(Printer *p, Doc *doc, Piece one)
{
    if (joins(doc, &one)) {
        doc->last->to = one.to;
        return;
    }
    Piece *piece = arena_new(&p->arena, Piece);
    *piece = one;
    if (doc->last)
        doc->last->next = piece;
    else
        doc->first = piece;
    doc->last = piece;
}

void doc_add(Printer *p, Doc *doc, size_t from, size_t to)
{
    if (from != to || p->blanks)
        add_piece(p, doc, (Piece){.from = from, .to = to, .blanks = p->blanks});
    p->blanks = 0;
}

void doc_settle(Printer *p)
{
    if (p->docs.n)
        doc_add(p, &vec_last(&p->docs), p->open, p->text.n);
    p->open = p->text.n;
}

void doc_begin(Printer *p, const Expr *opened_by)
{
    Doc empty = {.opened_by = opened_by};
    doc_settle(p);
    order_open(p, opened_by, p->docs.n ? vec_last(&p->docs).opened_by : NULL);
    vec_push(&p->docs, &p->arena, empty);
}

Doc doc_end(Printer *p)
{
    doc_settle(p);
    order_close(p, vec_last(&p->docs).opened_by);
    return vec_pop(&p->docs);
}

void doc_splice(Printer *p, Doc inner)
{
    doc_settle(p);
    Doc *doc = &vec_last(&p->docs);
    if (!inner.first)
        return;
    if (joins(doc, inner.first)) {
        doc->last->to = inner.first->to;
        doc->last->next = inner.first->next;
        doc->last = inner.first == inner.last ? doc->last : inner.last;
        return;
    }
    if (doc->last)
        doc->last->next = inner.first;
    else
        doc->first = inner.first;
    doc->last = inner.last;
}

void doc_splice_deeper(Printer *p, Doc inner)
{
    doc_settle(p);
    add_piece(p, &vec_last(&p->docs), (Piece){.from = PIECE_DEEPER, .to = PIECE_IN});
    doc_splice(p, inner);
    add_piece(p, &vec_last(&p->docs), (Piece){.from = PIECE_DEEPER, .to = PIECE_OUT});
}

static void write_deeper(Buf *out, const char *text, size_t n, int deeper)
{
    while (n > 0) {
        const char *end = memchr(text, '\n', n);
        size_t line = end ? (size_t)(end - text) + 1 : n;
        buf_bytes(out, text, line);
        if (end)
            buf_repeat(out, ' ', 2 * (size_t)deeper);
        text += line;
        n -= line;
    }
}

void doc_blanks(Printer *p, uint32_t n)
{
    doc_settle(p);
    p->blanks = n;
}

/* So that a long text is never copied to a larger place. */
static void reserve(Buf *out, Doc doc)
{
    size_t n = 0;
    for (const Piece *piece = doc.first; piece; piece = piece->next)
        n += piece->from == PIECE_DEEPER ? 0 : piece->to - piece->from + piece->blanks;
    if (n > out->cap - out->n)
        buf_reserve(out, n);
}

void doc_write(const Printer *p, Buf *out, Doc doc)
{
    int deeper = 0;
    /* Not all that the pieces speak of is there. */
    out->failed |= p->text.failed;
    if (out->failed)
        return;
    reserve(out, doc);
    for (const Piece *piece = doc.first; piece; piece = piece->next) {
        buf_repeat(out, ' ', piece->blanks);
        if (piece->from == PIECE_DEEPER)
            deeper += piece->to == PIECE_IN ? 1 : -1;
        else if (deeper > 0 && deeper < DEEPER_MOST)
            write_deeper(out, p->text.at + piece->from, piece->to - piece->from, deeper);
        else
            buf_bytes(out, p->text.at + piece->from, piece->to - piece->from);
    }
}
