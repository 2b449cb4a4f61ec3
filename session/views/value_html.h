/* Values as HTML: tensors as tables with what is told of their numbers, constructors as trees that unfold. Never more than a screen. */
#ifndef SESSION_VIEWS_VALUE_HTML_H
#define SESSION_VIEWS_VALUE_HTML_H

#include "session/internal.h"

/* As a page and as JSON; nothing for what a line of text says as well. */
void value_views(RelaySession *s, Value v, Buf *html, Buf *json);
/* What is told of a tensor's numbers, and how they are spread, as a line of text. */
void value_facts(RelaySession *s, Buf *out, const Tensor *t);
/* A tree as text, with lines. */
void value_tree(Buf *out, Value v, Limits *limits);
/* The same as HTML, which unfolds. */
void value_tree_html(Buf *out, Value v, Limits *limits);

#endif
