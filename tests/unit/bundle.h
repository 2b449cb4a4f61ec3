/* What a cell shows: the representations of its newest output that has HTML. */
#ifndef TESTS_UNIT_BUNDLE_H
#define TESTS_UNIT_BUNDLE_H

#include "include/relay.h"
#include "tests/unit/check.h"

#include <ctype.h>
#include <jansson.h>
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

static inline size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; p && (p = strstr(p, what)); p++)
        n++;
    return n;
}

/* Some views work better with a script, and none needs it. */
static inline void look(RelaySession *s, Bundle *b, const char *cell)
{
    forget(b);
    relay_session_eval(s, &(RelayCell){.text = cell, .len = strlen(cell), .name = "In[1]"},
                       (RelaySink){keep, b});
    if (!CHECK(b->text && b->html && b->json && count(b->html, "<style>") <= 1))
        printf("%s\n", cell);
}

static inline void run(RelaySession *s, Bundle *b, const char *cell)
{
    look(s, b, cell);
    CHECK(!b->html || !strstr(b->html, "<script"));
}

/* Letters, digits and what stands in names of operators and in numbers. */
static inline bool in_word(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '%' || c == '@';
}

static inline bool has_word(const char *text, const char *word, size_t n)
{
    for (const char *p = text; (p = strstr(p, word)); p++)
        if ((p == text || !in_word(p[-1])) && !in_word(p[n]))
            return true;
    return false;
}

/* Names, words of the language, operators: not times, which change from form to form, nor places. */
static inline void check_words(const char *cell, const char *text, const char *json,
                               const char *but)
{
    char word[64];
    for (const char *p = text; *p;) {
        size_t n = 0;
        while (in_word(p[n]) || (n && p[n] == '.' && in_word(p[n + 1])))
            n++;
        if (n > 1 && n < sizeof word && !isdigit((unsigned char)*p)) {
            memcpy(word, p, n);
            word[n] = 0;
            if (!CHECK(has_word(json, word, n) || has_word(but, word, n)))
                printf("%s: the JSON does not say %s\n", cell, word);
        }
        p += n ? n : 1;
    }
}

/* The form for programs is JSON, and says what the text says, but for some words. */
static inline void check_forms(const char *cell, Bundle *b, const char *but)
{
    json_error_t e;
    if (!CHECK(b->text && b->json))
        return;
    json_t *j = json_loads(b->json, JSON_DECODE_ANY, &e);
    if (!CHECK(j != NULL))
        printf("%s: %s at %d\n", cell, e.text, e.position);
    json_decref(j);
    /* Tabs and line ends inside texts. */
    for (char *p = b->json; (p = strchr(p, '\\')); p++)
        if (p[1] == 't' || p[1] == 'n')
            p[0] = p[1] = ' ';
    check_words(cell, b->text, b->json, but);
}

#endif
