/* The views of types in their richest form: steps without scripts, one for each constraint; and types of any size. */
#include "check.h"
#include "include/relay.h"

#include <stdio.h>
#include <string.h>

typedef struct Page {
    char html[200000];
    size_t errors;
} Page;

static void take(void *data, const RelayOutput *out)
{
    Page *p = data;
    const RelayMime *m = relay_output_find(out, "text/html");
    p->errors += out->kind == RELAY_OUTPUT_DIAGNOSTIC && out->severity == RELAY_ERROR;
    if (!m || out->kind == RELAY_OUTPUT_DIAGNOSTIC || m->size >= sizeof p->html)
        return;
    memcpy(p->html, m->data, m->size);
    p->html[m->size] = 0;
}

static void run(RelaySession *s, Page *p, const char *text)
{
    p->html[0] = 0;
    p->errors = 0;
    RelayCell cell = {.text = text, .len = strlen(text), .name = "In"};
    relay_session_eval(s, &cell, (RelaySink){take, p});
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p++)
        n++;
    return n;
}

/* As many axes as a tensor can have, in every place that looks at axes. */
static void test_ranks(RelaySession *s, Page *p)
{
    char type[400] = "Tensor[(2", text[2000];
    for (int i = 0; i < 30; i++)
        strcat(type, ", 2");
    snprintf(text, sizeof text,
             "def @f(%%a: %s), float32], %%b: Tensor[(3), float32]) { add(%%a, %%b) }\n", type);
    run(s, p, text);
    CHECK(p->errors == 1);
    snprintf(text, sizeof text, "def @f(%%a: %s), float32]) -> %s, 3), float32] { %%a }\n", type,
             type);
    run(s, p, text);
    CHECK(p->errors == 1);
    snprintf(text, sizeof text, ":why fn (%%a: %s), float32]) { %%a }\n", type);
    run(s, p, text);
    CHECK(p->errors == 0);
}

/* The same view twice in one page: what is chosen in one leaves the other alone, so no group of buttons has the same name. */
static void test_twice(RelaySession *s, Page *p)
{
    static const char text[] = ":explain types add(multiply(1, 2), 3)\n";
    char first[64] = "", second[64] = "";
    run(s, p, text);
    const char *name = strstr(p->html, "name=\"");
    CHECK(name && sscanf(name, "name=\"%63[^\"]", first) == 1);
    run(s, p, text);
    name = strstr(p->html, "name=\"");
    CHECK(name && sscanf(name, "name=\"%63[^\"]", second) == 1);
    CHECK(first[0] && strcmp(first, second) != 0);
}

int main(void)
{
    static Page page;
    Page *p = &page;
    RelaySession *s = relay_session_new(NULL);
    run(s, p, ":explain types (1 + 2, 3f)\n");
    CHECK(count(p->html, "<input type=\"radio\"") == 1);
    run(s, p,
        ":explain types fn (%a) { nn.relu(nn.dense(%a, ones(shape=[2, 3], dtype=\"float32\"), "
        "units=2)) }\n");
    /* The error is a part of the view, once, and no second answer. */
    CHECK(p->errors == 0);
    CHECK(count(p->html, "relay-diagnostic") == 1);
    CHECK(strstr(p->html, "relay-wrong"));
    run(s, p, ":explain types add(multiply(1, 2), 3)\n");
    CHECK(count(p->html, "<input type=\"radio\"") == 2);
    CHECK(count(p->html, "checked>") == 1);
    CHECK(count(p->html, "<section") == count(p->html, "</section>"));
    CHECK(strstr(p->html, "<mark class=\"relay-mark-at\">"));
    CHECK(!strstr(p->html, "<script") && !strstr(p->html, "http"));
    test_ranks(s, p);
    test_twice(s, p);
    relay_session_free(s);
    return check_done();
}
