/* Docs: texts that are put together from pieces of one buffer. */
#include "ir/print_internal.h"

void doc_add(Printer *p, Doc *doc, size_t from, size_t to)
{
    if (from == to)
        return;
    Piece *piece = arena_new(&p->arena, Piece);
    *piece = (Piece){.from = from, .to = to};
    if (doc->last)
        doc->last->next = piece;
    else
        doc->first = piece;
    doc->last = piece;
}

void doc_settle(Printer *p)
{
    if (p->docs.n)
        doc_add(p, &vec_last(&p->docs), p->open, p->text.n);
    p->open = p->text.n;
}

void doc_begin(Printer *p)
{
    Doc empty = {0};
    doc_settle(p);
    vec_push(&p->docs, &p->arena, empty);
}

Doc doc_end(Printer *p)
{
    doc_settle(p);
    return vec_pop(&p->docs);
}

void doc_splice(Printer *p, Doc inner)
{
    doc_settle(p);
    Doc *doc = &vec_last(&p->docs);
    if (!inner.first)
        return;
    if (doc->last)
        doc->last->next = inner.first;
    else
        doc->first = inner.first;
    doc->last = inner.last;
}

void doc_write(const Printer *p, Buf *out, Doc doc)
{
    for (const Piece *piece = doc.first; piece; piece = piece->next)
        buf_bytes(out, p->text.at + piece->from, piece->to - piece->from);
}
