/* Grammars of Relay for what colours text by patterns, made from the token table and the element types. */
#ifndef TESTS_DOCS_GRAMMARS_H
#define TESTS_DOCS_GRAMMARS_H

#include "base/buf.h"

void textmate_grammar(Buf *b);
void vim_grammar(Buf *b);
void pygments_lexer(Buf *b);

#endif
