/* What views of code show: the same in text, in HTML and in JSON. */
#include "tests/unit/bundle.h"

#include <stdio.h>

/* Two kernels, and what lies between them. */
static void check_costs(RelaySession *s, Bundle *b)
{
    run(s, b,
        "let %a = ones(shape=[64, 128], dtype=\"float32\"); let %w = ones(shape=[32, 128], "
        "dtype=\"float32\"); arange(0f, 2f, 1f, dtype=\"float32\")");
    run(s, b, ":schedule { let %y = nn.dense(%a, %w, units=32); nn.softmax(nn.relu(%y * 2f)) }");
    CHECK(count(b->json, "\"kernel\"") == 3 && count(b->html, "class=\"kernel\"") == 2);
    /* Each kernel has what it took, as the table and the roofline say. */
    CHECK(count(b->json, "\"least_us\"") == 2 && count(b->html, "<td>-</td>") == 2);
    CHECK(strstr(b->html, "full: a kernel as measured"));
    CHECK(count(b->html, "class=\"roof\"") == 1 && count(b->html, "class=\"measured\"") == 1);
    const char *memory = strstr(b->json, "\"memory\": [");
    unsigned long first = memory ? strtoul(memory + 11, NULL, 10) : 0;
    char peak[64];
    snprintf(peak, sizeof peak, "at most %lu bytes, while kernel 1 runs", first);
    CHECK(first >= 8192 && strstr(b->html, peak) && strstr(b->text, "  the peak"));
    CHECK(count(b->html, "class=\"peak\"") == 1 && count(b->html, "<rect") > 1);
    CHECK(count(b->text, ", by ") == 2 && strstr(b->text, "measured "));
}

/* Each expression of the text is in the text, and a button of the page. */
static void check_follow(RelaySession *s, Bundle *b)
{
    run(s, b, ":show all fn (%x: Tensor[(300), float32]) { nn.relu(%x * 3f) + 1f }");
    CHECK(count(b->json, "\"place\"") == 5 && count(b->html, "type=\"radio\"") == 6);
    CHECK(strstr(b->text, "  %x * 3f\n") && strstr(b->text, "part of what is around it:"));
    CHECK(count(b->html, "data-stage") == 4);
}

/* What programs read says what the text says. */
static void check_words_of_code(RelaySession *s, Bundle *b)
{
    static const char follow[] =
        ":show all fn (%x: Tensor[(16), float32]) { nn.relu(%x * 3f + 1f) }";
    static const char costs[] =
        ":schedule fn (%x: Tensor[(256, 256), float32]) { sqrt(nn.softmax(%x)) + 1f }";
    run(s, b, follow);
    check_forms(follow, b,
                "ns JIT at level predicted bound part of what is around it and more line lines");
    static const char *const stages[] = {"lowered", "llvm", "asm"};
    for (size_t i = 0; i < 3; i++) {
        char cell[64];
        snprintf(cell, sizeof cell, ":show %s { exp(ones(shape=[8], dtype=\"float32\")) }",
                 stages[i]);
        run(s, b, cell);
        check_forms(cell, b, "");
    }
    run(s, b, costs);
    check_forms(
        costs, b,
        "ns between in block share measured predicted bound arguments let of by second at would "
        "be as call with");
}

int main(void)
{
    RelaySession *s = relay_session_new(NULL);
    Bundle b = {0};
    check_costs(s, &b);
    check_follow(s, &b);
    check_words_of_code(s, &b);
    forget(&b);
    relay_session_free(s);
    return check_done();
}
