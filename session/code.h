/* The tokens of what programs become: loop nests, LLVM IR, machine code. Their kinds are those of Relay text, so that a page and a
 * terminal have one table of colours for all of them.
 *
 *     code_each(CODE_LLVM, text, len, paint, data);
 *
 * A language is a row: how its comments begin, which signs and words stand in front of what. */
#ifndef SESSION_CODE_H
#define SESSION_CODE_H

#include "parser/parser.h"

typedef enum CodeLanguage {
    CODE_LOOPS,
    CODE_LLVM,
    CODE_ASM,
    CODE_PTX,
    CODE_LANGUAGES
} CodeLanguage;

/* What its text is called (RelayOutput.language), and which language that is; false: none of these. */
const char *code_type(CodeLanguage language);
bool code_find(const char *type, CodeLanguage *out);
/* How a line that is a comment begins. */
const char *code_comment(CodeLanguage language);
void code_each(CodeLanguage language, const char *text, size_t len,
               void (*token)(void *data, const LexedToken *t), void *data);

#endif
