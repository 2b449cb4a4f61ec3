/* What views of values, graphs and pipelines show: the same in text, in HTML and in JSON, without scripts. */
#include "tests/unit/bundle.h"

#include <stdlib.h>
#include <string.h>

static void check_values(RelaySession *s, Bundle *b)
{
    run(s, b, "reshape(arange(0, 400, 1, dtype=\"int32\"), newshape=[20, 20])");
    CHECK(strstr(b->html, "<code>Tensor[(20, 20), int32]</code>") != NULL);
    CHECK(strstr(b->html, "min 0, max 399, mean 199.5, spread 115.47; 1 zero") != NULL);
    CHECK(strstr(b->html, ">399</td>") != NULL);
    /* Five at each end of both sides, and a row and a column that say that there is more. */
    CHECK(count(b->html, "<td") == 10 * 11);
    CHECK(strlen(b->html) < 20000);

    run(s, b, "zeros(shape=[30, 30, 30, 30], dtype=\"float32\")");
    CHECK(count(b->html, "<details") == 4 && strstr(b->html, "896 more slices") != NULL);
    run(s, b, "stack((1f / 0f, 0f / 0f, 2f), axis=0)");
    CHECK(strstr(b->html, "1 NaN, 1 infinity") != NULL);

    run(s, b,
        "type Arith { Plus(Arith, Arith), Number(int32) }\n"
        "Plus(Number(1), Plus(Number(2), Number(3)))");
    CHECK(count(b->html, "<summary>Plus</summary>") == 2 && count(b->html, "Number(") == 3);
}

static void check_plots(RelaySession *s, Bundle *b)
{
    static const char facts[] = "min 0, max 5, mean 2.5, spread 1.70783; 1 zero";
    run(s, b, ":plot reshape(arange(0f, 6f, 1f, dtype=\"float32\"), newshape=[2, 3])");
    CHECK(strstr(b->text, facts) && strstr(b->html, facts) && strstr(b->json, facts));
    CHECK(count(b->html, "<rect") == 6);

    run(s, b, ":plot arange(3f, 1000000f, 1f, dtype=\"float32\")");
    CHECK(strstr(b->text, "999999 ┤") && strstr(b->html, ">999999</text>"));
    CHECK(strstr(b->json, "\"points\": [999997]") != NULL);
    CHECK(strlen(b->html) < 100000);
}

/* Every box of the text is one of the JSON, and of the picture where there is one. */
static void check_graphs(RelaySession *s, Bundle *b)
{
    run(s, b,
        "let %fused = pass(fn (%x: Tensor[(2, 3), float32]) { sum(exp(%x * 2f), axis=[1]) }, "
        "passes=\"FuseOps\"); arange(0f, 2f, 1f, dtype=\"float32\")");
    run(s, b, ":show graph %fused");
    CHECK(strstr(b->text, "boxes 4, lines 3, fused groups 1") != NULL);
    CHECK(count(b->json, "\"name\"") == 4 && strstr(b->json, "\"groups\": 1") != NULL);
    bool picture = strstr(b->html, "<svg") != NULL;
    CHECK(picture == !strstr(b->text, "Graphviz"));
    CHECK(!picture || (count(b->html, "<g data-group=") == 4 && strstr(b->html, ">exp</text>")));
    CHECK(!picture || count(b->html, "stroke-dasharray") == 1);
}

/* A type that cannot be found is explained from where it fails on. */
static void check_first_step(RelaySession *s, Bundle *b)
{
    run(s, b,
        ":explain types fn (%x: Tensor[(2, 3), float32], %y: Tensor[(2, 4), float32]) { %x + %y }");
    const char *on = strstr(b->html, " checked");
    const char *wrong = strstr(b->html, "class=\"relay-wrong\"");
    CHECK(count(b->html, " checked") == 1 && on && wrong && on < wrong && wrong - on < 40);
}

/* What a step reads stands in its expression as values, in every form; the same variable elsewhere keeps its name. */
static void check_substitution(RelaySession *s, Bundle *b)
{
    look(s, b,
         ":step { let %n = 7; let %f = fn (%k: int32) { %k + %n }; (%n * (2 + 1) - %f(1)) * 2 }");
    CHECK(strstr(b->text, "  2 + 1 ") && strstr(b->text, "  7 * 3 ") &&
          strstr(b->text, "  21 - 8 "));
    CHECK(strstr(b->text, "  13 * 2 ") != NULL);
    CHECK(strstr(b->json, "\"expression\": \"(7 * 3 - %f(1)) * 2\", \"own\": \"7 * 3\", "
                          "\"becomes\": \"21\"") != NULL);
    CHECK(strstr(b->json, "\"expression\": \"13 * 2\"") != NULL);
    CHECK(strstr(b->html, "  (<mark class=\"relay-mark-at\">21 - 8</mark>) * 2\n"
                          "→ (<mark class=\"relay-mark-other\">13</mark>) * 2\n") != NULL);
    look(s, b, ":step { let %n = 7; match (Some(%n + 1)) { Some(%n) => %n * 2, None => %n } }");
    CHECK(strstr(b->json, "\"own\": \"match (Some(8)) { Some(%n) => %n * 2, None => %n }\"") !=
          NULL);
    CHECK(strstr(b->text, "  8 * 2 ") && strstr(b->text, "  7 + 1 "));
}

/* ---- what programs read ----------------------------------------------------------------------------------------------------------- */

#define NET                                                                        \
    "fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) { " \
    "%0 = nn.conv2d(%x, %w, padding=[1, 1]); %1 = nn.relu(%0 * (2f + 3f)); "       \
    "nn.softmax(mean(%1, axis=[2, 3])) }"
#define WRONG                                                                             \
    "fn (%y: float32) { let %d = exp(%y); let %r = ref(%y); let %u = ref_write(%r, 3f); " \
    "ref_read(%r) + 1f }"
#define DROPS "DeadCodeElimination{ignore_impurity=True}"

static const struct {
    const char *cell;
    const char
        *only_text; /* words that say where lines are, or what is left out for want of room */
} views[] = {
    {":pass FoldConstant,FuseOps " NET, "pass passes of them change changes something ms lines"},
    {":explain pass FoldScaleAxis " NET, "pass passes of them change changes something ms"},
    {":show text @fact", ""},
    {":show types @fact", ""},
    {":show graph " NET,
     "of deeper more from fused the picture needs Graphviz whose program dot is not there"},
    {":blame FoldConstant," DROPS " " WRONG, "inputs cell differs before after rewrite"},
    {":blame engines @fact(3)", ""},
    {":rewrites " DROPS " " WRONG, "rewrites rewrite"},
    {":step @fact(2)", "el els"},
    {":break @fact if %n == 1\n@fact(3)\n:break -", "el els"},
    {":plot %v", ""},
    {":plot %m", ""},
    {":plot Cons(1, Cons(2, Nil()))", ""},
    {":explain types { %m + 1f }", "explain types %m In the is so"},
    {":why %m + 1f", "why dtype In through and"},
    {":summary " NET, "KiB adds at the most of in memory trained tensor"},
    {":bench seconds=1 runs=2 @fact(3)", "runs run by at level minimum lower quarter upper median "
                                         "maximum first ns us ms"},
    {"%m", ""},
    {"Rose(Some(1), Cons(Rose(Some(2), Nil()), Nil()))", ""},
};

/* Commands whose answer is a text, a picture or an effect; jit/views has those of code. */
static const char others[] =
    " help type doc defs analyze equal hash time schedule trace unbreak watch train image text "
    "load "
    "edit reload save undo import export params write read bytes set engine device limit reset "
    "clear quit ";

/* A new command has its view above, or none. */
static void check_all_are_here(void)
{
    static const char *const commands[] = {
#define COMMAND(name, group, args, doc, more, function) name,
#include "session/commands.def"
    };
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        char other[32], cell[32];
        snprintf(other, sizeof other, " %s ", commands[i]);
        snprintf(cell, sizeof cell, ":%s ", commands[i]);
        bool found = false;
        for (size_t k = 0; k < sizeof views / sizeof *views; k++)
            found |= strncmp(views[k].cell, cell, strlen(cell)) == 0;
        if (!CHECK(found != (strstr(others, other) != NULL)))
            printf("%s\n", commands[i]);
    }
}

/* Every view has a form for programs, which says what the text says. */
static void check_json(RelaySession *s, Bundle *b)
{
    run(s, b,
        "def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }\n"
        "let %v = arange(0f, 3f, 1f, dtype=\"float32\") * 1.5f;"
        "let %m = reshape(arange(0f, 4f, 1f, dtype=\"float32\"), newshape=[2, 2]); %m");
    for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
        look(s, b, views[i].cell);
        check_forms(views[i].cell, b, views[i].only_text);
    }
}

/* A page may hold the same view twice. */
static void check_ids(RelaySession *s, Bundle *b)
{
    static const char cell[] = ":pass -O3 fn (%x: Tensor[(3), float32]) { exp(%x * (2f + 3f)) }";
    run(s, b, cell);
    char *first = strdup(b->html);
    run(s, b, cell);
    const char *one = strstr(first, " id=\""), *other = strstr(b->html, " id=\"");
    CHECK(one && other && strncmp(one, other, 20) != 0);
    free(first);
}

/* Of the cells of references those are marked that a step has made or written. */
static void check_cells(RelaySession *s, Bundle *b)
{
    look(s, b,
         ":step { let %a = ref(1); let %b = ref(2); let %u = ref_write(%a, 3); ref_read(%b) }");
    CHECK(count(b->html, "<tr class=\"relay-new\"><th>r1") == 2);
    CHECK(count(b->html, "<tr class=\"relay-new\"><th>r2") == 1);
}

int main(void)
{
    RelaySession *s = relay_session_new(NULL);
    Bundle b = {0};
    check_values(s, &b);
    check_plots(s, &b);
    check_graphs(s, &b);
    check_ids(s, &b);
    check_cells(s, &b);
    check_first_step(s, &b);
    check_substitution(s, &b);
    check_all_are_here();
    check_json(s, &b);
    forget(&b);
    relay_session_free(s);
    return check_done();
}
