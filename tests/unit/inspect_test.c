/* The type of what stands at the cursor, whatever expression it is. */
#include "check.h"
#include "include/relay.h"

#include <string.h>

typedef struct Answer {
    char text[2000];
} Answer;

static void take(void *data, const RelayOutput *out)
{
    Answer *a = data;
    const RelayMime *m = relay_output_find(out, "text/plain");
    size_t n = m && m->size < sizeof a->text ? m->size : 0;
    memcpy(a->text, m ? m->data : "", n);
    a->text[n] = 0;
}

/* The text has a `^` where the cursor is. */
static const char *at(RelaySession *s, Answer *a, const char *marked)
{
    char text[500];
    size_t cursor = strcspn(marked, "^");
    memcpy(text, marked, cursor);
    strcpy(text + cursor, marked + cursor + 1);
    a->text[0] = 0;
    relay_session_inspect(s, text, strlen(text), cursor, 0, (RelaySink){take, a});
    return a->text;
}

int main(void)
{
    RelaySession *s = relay_session_new(NULL);
    Answer a;
    const char *cell = "let %x: Tensor[(2, 3), float32] = zeros(shape=[2, 3], dtype=\"float32\");";
    RelaySink none = {0};
    relay_session_eval(s, &(RelayCell){.text = cell, .len = strlen(cell), .name = "In[1]"}, none);

    /* Names of the session are shown with their values, as before. */
    CHECK(strstr(at(s, &a, "exp(%^x)"), "%x: Tensor[(2, 3), float32]\n"));
    /* Operators, calls, projections, parentheses, literals. */
    CHECK_TEXT(at(s, &a, "%x ^+ 1f"), "%x + 1f: Tensor[(2, 3), float32]");
    CHECK_TEXT(at(s, &a, "sum(%x, axis=[^1])"), "sum(%x, axis=[1]): Tensor[(2), float32]");
    CHECK_TEXT(at(s, &a, "(%x, 1).^0"), "(%x, 1).0: Tensor[(2, 3), float32]");
    CHECK_TEXT(at(s, &a, "^(%x, 1).0"), "(%x, 1): (Tensor[(2, 3), float32], int32)");
    CHECK_TEXT(at(s, &a, "add(%x, 1^2f)"), "12f: float32");
    CHECK(strstr(at(s, &a, "ex^p(%x)"), "this call: Tensor[(2, 3), float32]"));
    /* What the text binds itself: lets, graph variables, parameters, patterns, definitions. */
    CHECK_TEXT(at(s, &a, "let %y = sum(%x);\n%^y"), "%y: float32");
    CHECK_TEXT(at(s, &a, "let %^y = sum(%x);"), "%y: float32");
    CHECK_TEXT(at(s, &a, "%0 = exp(%x);\nsum(%^0)"), "%0: Tensor[(2, 3), float32]");
    CHECK_TEXT(at(s, &a, "fn (%^w) { nn.dense(%x, %w, units=4) }"), "%w: Tensor[(4, 3), float32]");
    CHECK_TEXT(at(s, &a, "match (Some(%x)) { Some(%^v) => %v, None => %x }"),
               "%v: Tensor[(2, 3), float32]");
    CHECK_TEXT(at(s, &a, "def @f(%a: int32) { %a ^* 2 }\n@f(1)"), "%a * 2: int32");
    CHECK_TEXT(at(s, &a, ":type exp(%x).^"), "");
    CHECK_TEXT(at(s, &a, ":type %x ^* %x"), "%x * %x: Tensor[(2, 3), float32]");
    /* What stands before a mistake still has its type; the cell changed nothing. */
    CHECK_TEXT(at(s, &a, "let %z = sum(%^q);"), "");
    CHECK_TEXT(at(s, &a, "let %y = 1;\n%y ^+ 1; let %b ="), "%y + 1: int32");
    CHECK_TEXT(at(s, &a, "%^y"), "");
    /* A word of the language, also where what is called is not known. */
    CHECK(strstr(at(s, &a, "le^t %b ="), "let %x = "));
    CHECK(strstr(at(s, &a, "nobody(le^t"), "let %x = "));
    relay_session_free(s);
    return check_done();
}
