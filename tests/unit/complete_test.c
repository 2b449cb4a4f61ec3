/* What completion offers, and in which order. */
#include "check.h"
#include "include/relay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first offers with blanks between them, for a text that has a `^` where the cursor is. */
static const char *offers(RelaySession *s, const char *marked)
{
    static char out[1000];
    char text[500];
    size_t cursor = strcspn(marked, "^");
    memcpy(text, marked, cursor);
    strcpy(text + cursor, marked + cursor + 1);
    RelayCompletions *c = relay_session_complete(s, text, strlen(text), cursor);
    out[0] = 0;
    for (size_t i = 0; i < c->n && i < 4; i++) {
        strcat(out, i ? " " : "");
        strcat(out, c->items[i].text);
    }
    relay_completions_free(c);
    return out;
}

static bool first(RelaySession *s, const char *marked, const char *wanted)
{
    const char *all = offers(s, marked);
    size_t n = strlen(wanted);
    bool good = !strncmp(all, wanted, n) && (!all[n] || all[n] == ' ');
    if (!good)
        printf("%s: %s\n", marked, all);
    return good;
}

static void run(RelaySession *s, const char *cell)
{
    relay_session_eval(s, &(RelayCell){.text = cell, .len = strlen(cell), .name = "In[1]"},
                       (RelaySink){0});
}

int main(void)
{
    RelaySession *s = relay_session_new(NULL);

    /* The usual before the rare, whatever the alphabet says. */
    CHECK(first(s, "nn.con^", "nn.conv2d"));
    CHECK(first(s, "nn.max^", "nn.max_pool2d"));
    CHECK(first(s, "re^", "reshape"));
    CHECK(first(s, "su^", "sum"));
    /* By the word behind the point, or by letters alone, when nothing begins so. */
    CHECK(first(s, "softm^", "nn.softmax"));
    CHECK(first(s, "conv2d^", "nn.conv2d"));
    CHECK(first(s, "maxpool^", "nn.max_pool2d"));
    CHECK(first(s, "bnorm^", "nn.batch_norm"));
    CHECK_TEXT(offers(s, "nn.dense^"), "nn.dense");

    /* What the session has used before both. */
    run(s, "let %c = fn (%d: Tensor[(1, 1, 4), float32], %w: Tensor[(1, 1, 3), float32]) { "
           "nn.conv1d(%d, %w) };");
    CHECK(first(s, "nn.con^", "nn.conv1d"));

    run(s, "let %x = ones(shape=[2, 3], dtype=\"float32\");");
    run(s, "let %pair = (%x, (1, 2f));");
    run(s, "let %list = Cons(1, Nil);");
    run(s, "def @area(%w: int32) { %w }");
    /* In a call what fits its argument; then the attributes, those that must be given first. */
    CHECK_TEXT(offers(s, "nn.relu(^"), "%x");
    CHECK_TEXT(offers(s, "concatenate(^"), "%pair axis=");
    CHECK_TEXT(offers(s, "@length(^"), "%list Cons Nil");
    CHECK(first(s, "nn.dense(%x, %^", "%x"));
    CHECK(first(s, "nn.dense(%x, %x, ^", "units="));
    CHECK(first(s, "nn.dense(%x, %x, units=3, ^", "out_dtype="));
    CHECK(first(s, "nn.conv2d(%x, %x, ker^", "kernel_size="));
    /* Functions of the session before those of its libraries. */
    CHECK(first(s, "@a^", "@area"));
    CHECK_TEXT(offers(s, "let %y = 1; %y^"), "%y");
    /* Fields of tuples, also of those inside. */
    CHECK_TEXT(offers(s, "%pair.^"), "%pair.0 %pair.1");
    CHECK_TEXT(offers(s, "%pair.1.^"), "%pair.1.0 %pair.1.1");
    CHECK_TEXT(offers(s, "%x.^"), "");
    /* What is of the type that is wanted there first, whatever stands around it; `_` is what it replaces. */
    run(s, "let %n = 3; let %z = 1f; def @half(%x: float32, %by: float32) { %x / %by }");
    CHECK_TEXT(offers(s, "let %y: float32 = ^"), "%z @half");
    CHECK_TEXT(offers(s, "let %y: float32 = _^"), "%z @half(_, _)");
    CHECK(first(s, "@half(%z, ^", "%z"));
    CHECK(first(s, "@half(^)", "%z"));
    CHECK(first(s, "@area(@half(^, 1f))", "%z"));
    CHECK(first(s, "@area(^", "%n"));
    CHECK(first(s, "@area(%^)", "%n"));
    CHECK_TEXT(offers(s, "fn (%b: bool, %c: float32) { if (^"), "%b");
    CHECK_TEXT(offers(s, "def @g(%in: float32, %i: int32) -> float32 {\n  let %t = %i;\n  ^\n}"),
               "%in %z @g @half");
    CHECK_TEXT(offers(s, "def @g(%in: float32) -> float32 { @half(%in, %i^"), "%in");
    CHECK(first(s, "let %l: List[int32] = ^", "%list"));
    CHECK(first(s, "let %l: List[int32] = C^", "Cons"));
    CHECK(first(s, ":time @half(^", "%z"));
    /* Arguments of commands. */
    CHECK_TEXT(offers(s, ":eng^"), ":engine");
    CHECK_TEXT(offers(s, ":engine ^"), "auto interp jit gpu");
    CHECK_TEXT(offers(s, ":limit ^"), "time memory depth output");
    CHECK_TEXT(offers(s, ":show l^"), "lowered llvm");
    CHECK_TEXT(offers(s, ":show llvm @ar^"), "@area");
    CHECK_TEXT(offers(s, ":schedule @area vec^"), "vectorise");
    CHECK_TEXT(offers(s, ":sched exp(%x + 1f) s^"), "split settle sum subtract");
    CHECK_TEXT(offers(s, ":schedule exp(%x + 1f) ^"), "direct plain split reorder");
    CHECK_TEXT(offers(s, ":schedule exp(%x) split j1 16; vec^"), "vectorise");
    CHECK(!first(s, ":schedule exp(%x) + s^", "split"));
    CHECK(!first(s, ":schedule exp(%x) split s^", "split"));
    CHECK_TEXT(offers(s, ":pass FuseOps @area a^"), "as add arange argmax");
    CHECK(first(s, ":step ste^", "steps="));
    CHECK(first(s, ":step steps=3 fr^", "from="));
    CHECK(first(s, ":train steps=3 %l^", "%list"));
    CHECK(!first(s, ":bench add(1f, se^", "seconds="));
    CHECK_TEXT(offers(s, ":set exact ^"), "on off");
    CHECK(first(s, ":explain pass Fus^", "FuseOps"));
    CHECK_TEXT(offers(s, ":explain pa^"), "pass");
    CHECK_TEXT(offers(s, ":break na^"), "nan");
    CHECK_TEXT(offers(s, ":set ^"), "opt exact tf32 cache");
    CHECK_TEXT(offers(s, ":explain E020^"), "E0201 E0202 E0203 E0204");
    CHECK(first(s, ":pass FoldConstant,Fuse^", "FuseOps"));
    CHECK(first(s, ":doc nn.rel^", "nn.relu"));
    CHECK(first(s, ":doc tim^", "time"));
    CHECK(first(s, ":type nn.rel^", "nn.relu"));
    CHECK(first(s, ":analyze op_^", "op_freqs"));
    /* Element types and libraries in strings. */
    CHECK(first(s, "cast(%x, dtype=\"float^", "float16"));
    CHECK(first(s, "import \"prel^", "prelude.rly"));
    CHECK_TEXT(offers(s, "\"nn.rel^"), "");

    char folder[] = "/tmp/relay-complete-XXXXXX", path[100], marked[200], wanted[200];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/net", folder);
    CHECK(mkdir(path, 0700) == 0);
    snprintf(path, sizeof path, "%s/net.rly", folder);
    FILE *f = fopen(path, "w");
    CHECK(f && fclose(f) == 0);
    snprintf(marked, sizeof marked, ":load %s/n^", folder);
    snprintf(wanted, sizeof wanted, "%s/net.rly %s/net/", folder, folder);
    CHECK_TEXT(offers(s, marked), wanted);
    snprintf(marked, sizeof marked, ":bytes %%text %s/ne^", folder);
    CHECK_TEXT(offers(s, marked), wanted);
    CHECK(unlink(path) == 0);
    snprintf(path, sizeof path, "%s/net", folder);
    CHECK(rmdir(path) == 0 && rmdir(folder) == 0);
    /* In a pattern: the constructors that are left, with names for the fields that the text does not use, and all at once. */
    run(s, "let %list = Cons(1, Nil); type Shape { Circle(float32), Box(float32, float32), Dot }");
    CHECK_TEXT(offers(s, "match (%list) { ^"), "Cons(%x, %y) Nil Cons(%x, %y) => _, Nil => _");
    CHECK_TEXT(offers(s, "match (%list) { Nil => 0, ^ }"), "Cons(%x, %y)");
    CHECK_TEXT(offers(s, "match (%list) { ^ Nil => 0 }"), "Cons(%x, %y)");
    CHECK_TEXT(offers(s, "match (%list) { Nil => 0, Cons(%x, %y) => %x, ^ }"), "");
    CHECK_TEXT(offers(s, "match (%list) { Nil => 0, N^ }"), "Nil");
    CHECK_TEXT(offers(s, "match (%list) { Cons(%x, ^"), "Cons(%y, %z) Nil");
    CHECK_TEXT(offers(s, "match (%list) { Cons(%x, Nil) => 1, Cons(%x, _^) => 2 }"),
               "Cons(%y, %z)");
    CHECK_TEXT(offers(s, "match (%list) { Co^(%h, %t) => %h }"), "Cons");
    CHECK_TEXT(offers(s, "match (%list) { Nil => if (True) { 0 } else { 1 }, ^"), "Cons(%x, %y)");
    CHECK_TEXT(offers(s, "match ((%list, 1)) { (Nil, _) => 0, ^ }"), "(%x, %y)");
    CHECK_TEXT(offers(s, "match ((%list, 1)) { (^, _) => 0 }"), "Cons(%x, %y) Nil");
    CHECK_TEXT(offers(s, "match (%list) { Cons(%^, _) => 0 }"), "");
    CHECK_TEXT(offers(s, "def @area(%s: Shape) { match (%s) { Box(%x, %y) => %x * %y, ^"),
               "Circle(%z) Dot Circle(%z) => _, Dot => _");
    relay_session_free(s);
    return check_done();
}
