/* Values as HTML: tensors as tables with what is told of their numbers, constructors as trees that unfold. Never more than a screen. */
#ifndef SESSION_VIEWS_VALUE_HTML_H
#define SESSION_VIEWS_VALUE_HTML_H

#include "base/buf.h"
#include "base/limit.h"
#include "runtime/value.h"

/* Nothing for what a line of text says as well. */
void value_html(Buf *out, Value v, Limits *limits);
/* A tree as text, with lines. */
void value_tree(Buf *out, Value v, Limits *limits);

#endif
