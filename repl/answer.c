#include "repl/answer.h"

#include "base/utf8.h"
#include "repl/internal.h"

#include <string.h>

/* A question that leaves fewer columns for the answer has lines of its own. */
enum { ANSWER_COLUMNS = 20 };

static void say(Term *term, const char *question, int columns)
{
    Buf b = {0};
    term_wrap(&b, question, strlen(question), columns);
    buf_str(&b, b.n > 0 && b.at[b.n - 1] == '\n' ? "" : "\n");
    term_write(term, &b);
    buf_deinit(&b);
}

RelayAskEnd answer_read(Term *term, const char *question, bool color, Buf *out)
{
    Line *l = line_new(term, NULL, NULL, color);
    if (!l)
        return RELAY_ASK_NOBODY;
    bool beside =
        (int)utf8_text_width(question, strlen(question)) + ANSWER_COLUMNS <= l->view.columns;
    if (!beside)
        say(term, question, l->view.columns);
    l->view.prompt = l->view.more = beside ? question : "> ";
    LineEnd end = line_read(l, out);
    line_free(l);
    if (end == LINE_CANCELLED)
        return RELAY_ASK_INTERRUPTED;
    return end == LINE_LEFT ? RELAY_ASK_ENDED : RELAY_ASK_ANSWERED;
}
