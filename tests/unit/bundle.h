/* What a cell shows: the representations of its newest output that has HTML. */
#ifndef TESTS_UNIT_BUNDLE_H
#define TESTS_UNIT_BUNDLE_H

#include "include/relay.h"
#include "tests/unit/check.h"

#include <stdlib.h>
#include <string.h>

typedef struct Bundle {
    char *text, *html, *json; /* of the newest output that has HTML */
} Bundle;

static inline char *copied(const RelayOutput *out, const char *type)
{
    const RelayMime *mime = relay_output_find(out, type);
    return mime ? strdup(mime->data) : NULL;
}

static inline void forget(Bundle *b)
{
    free(b->text);
    free(b->html);
    free(b->json);
    *b = (Bundle){0};
}

static inline void keep(void *data, const RelayOutput *out)
{
    Bundle *b = data;
    if (!relay_output_find(out, "text/html") || out->kind == RELAY_OUTPUT_DIAGNOSTIC)
        return;
    forget(b);
    b->text = copied(out, "text/plain");
    b->html = copied(out, "text/html");
    b->json = copied(out, "application/json");
}

static inline void run(RelaySession *s, Bundle *b, const char *cell)
{
    forget(b);
    relay_session_eval(s, &(RelayCell){.text = cell, .len = strlen(cell), .name = "In[1]"},
                       (RelaySink){keep, b});
    if (CHECK(b->text && b->html))
        CHECK(!strstr(b->html, "<script"));
    else
        printf("%s\n", cell);
}

static inline size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; p && (p = strstr(p, what)); p++)
        n++;
    return n;
}

#endif
