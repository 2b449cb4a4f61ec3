/* Values as HTML: tensors as tables with what is told of their numbers, constructors as trees that unfold. Never more than a screen. */
#ifndef SESSION_VIEWS_VALUE_HTML_H
#define SESSION_VIEWS_VALUE_HTML_H

#include "runtime/show.h"
#include "session/internal.h"

/* What tells functions inside a value of type t (NULL: nobody knows) by their types there. Gives the value's type for that; NULL: there is
 * nothing to tell. */
const Type *display_types(RelaySession *s, const Type *t, ShowTypes *out);
/* As a page and as JSON; nothing for what a line of text says as well. `type`: the value's; NULL: nobody knows. */
void value_views(RelaySession *s, Value v, const Type *type, Buf *html, Buf *json);
/* What is told of a tensor's numbers, and how they are spread, as a line of text. */
void value_facts(RelaySession *s, Buf *out, const Tensor *t);
/* A tree as text, with lines. */
void value_tree(RelaySession *s, Buf *out, Value v, const Type *type);
/* The same as HTML, which unfolds. */
void value_tree_html(RelaySession *s, Buf *out, Value v, const Type *type);

#endif
