/* Sources, diagnostics and how they are shown. */
#include "base/limit.h"
#include "base/render.h"
#include "base/str.h"
#include "check.h"

#include <stdlib.h>

typedef struct Fixture {
    SourceMap sources;
    Diags diags;
    Buf out;
    uint32_t source;
    const char *text;
} Fixture;

static void begin(Fixture *f, const char *text)
{
    *f = (Fixture){.text = text};
    sources_init(&f->sources);
    diags_init(&f->diags, NULL);
    f->source = sources_add(&f->sources, "In[4]", text, strlen(text));
}

static void end(Fixture *f)
{
    sources_deinit(&f->sources);
    diags_deinit(&f->diags);
    buf_deinit(&f->out);
}

/* The place of `part`, which must occur in the text. */
static Span span(const Fixture *f, const char *part)
{
    const char *at = strstr(f->text, part);
    uint32_t from = at ? (uint32_t)(at - f->text) : 0;
    CHECK(at != NULL);
    return (Span){f->source, from, from + (uint32_t)strlen(part)};
}

static const char *shown(Fixture *f, const Diag *d)
{
    buf_clear(&f->out);
    render_text(&f->out, &f->sources, d, (RenderStyle){0});
    return buf_text(&f->out);
}

static void test_positions(void)
{
    Fixture f;
    begin(&f, "one\r\ntw\xc3\xb6 x\n\nlast");
    Position p = span_start(&f.sources, (Span){f.source, 10, 11});
    CHECK(p.line == 2 && p.column == 5);
    p = span_end(&f.sources, (Span){f.source, 0, 16});
    CHECK(p.line == 4 && p.column == 4);
    p = span_end(&f.sources, (Span){f.source, 0, 1000});
    CHECK(p.line == 4 && p.column == 5);
    p = span_start(&f.sources, (Span){0});
    CHECK(p.line == 1 && p.column == 1);
    const char *line;
    size_t len;
    source_line(&f.sources, f.source, 1, &line, &len);
    CHECK(len == 3 && memcmp(line, "one", 3) == 0);
    source_line(&f.sources, f.source, 3, &line, &len);
    CHECK(len == 0);
    source_line(&f.sources, f.source, 4, &line, &len);
    CHECK(len == 4);
    source_line(&f.sources, f.source, 5, &line, &len);
    CHECK(len == 0);
    source_line(&f.sources, 77, 1, &line, &len);
    CHECK(len == 0 && sources_get(&f.sources, 0) == NULL);
    Span a = {1, 5, 7}, b = {1, 2, 6}, other = {2, 0, 1};
    Span joined = span_join(a, b);
    CHECK(joined.from == 2 && joined.to == 7);
    joined = span_join(a, other);
    CHECK(joined.source == 1 && joined.from == 5 && joined.to == 7);
    CHECK(span_join((Span){0}, b).from == 2 && span_is_none((Span){0}));
    end(&f);
}

static void test_label(void)
{
    Fixture f;
    begin(&f, "fn (%x) {\n  let %a = 1;\n  let %b = %pair.2;\n  %b\n}\n");
    Diag *d = diag_error(&f.diags, E0207_TUPLE_INDEX, span(&f, ".2"),
                         "tuple index %d is out of range", 2);
    diag_label(d, span(&f, "%pair"), "this is %s", "(Tensor[(3), float32], int32)");
    diag_help(d, "fields count from 0; the last one is `.1`");
    CHECK_TEXT(shown(&f, d), "error[E0207]: tuple index 2 is out of range\n"
                             "  --> In[4]:3:17\n"
                             "   |\n"
                             " 3 |   let %b = %pair.2;\n"
                             "   |            -----^^\n"
                             "   |            this is (Tensor[(3), float32], int32)\n"
                             "help: fields count from 0; the last one is `.1`\n");
    buf_clear(&f.out);
    render_json(&f.out, &f.sources, d);
    CHECK_TEXT(
        buf_text(&f.out),
        "{\"severity\": \"error\", \"code\": \"E0207\", \"message\": \"tuple index 2 is out of "
        "range\", \"file\": \"In[4]\", \"line\": 3, \"column\": 17, \"end_line\": 3, "
        "\"end_column\": 19, \"labels\": [{\"message\": \"this is (Tensor[(3), float32], "
        "int32)\", \"file\": \"In[4]\", \"line\": 3, \"column\": 12, \"end_line\": 3, "
        "\"end_column\": 17}], \"notes\": [], \"help\": \"fields count from 0; the last one is "
        "`.1`\"}");
    buf_clear(&f.out);
    render_html(&f.out, &f.sources, d);
    CHECK(strstr(buf_text(&f.out), "--&gt;") && strstr(buf_text(&f.out), "var(--relay-error"));
    buf_clear(&f.out);
    render_text(&f.out, &f.sources, d, (RenderStyle){.color = true});
    CHECK(strncmp(buf_text(&f.out), "\x1b[1;31merror[E0207]\x1b[0m", 20) == 0);
    end(&f);
}

static void test_many_places(void)
{
    Fixture f;
    begin(&f, "one\ntwo\nthree\nfour\n\tadd(\xe4\xbd\xa0, %q,\n    5)\n\n\n\nten\neleven\n");
    const char *other = "def @f() { 1 }\n";
    uint32_t source = sources_add(&f.sources, "other.rly", other, strlen(other));
    Diag *d =
        diag_error(&f.diags, E0202_SHAPE, span(&f, "add(\xe4\xbd\xa0, %q,\n    5)"), "it is wrong");
    diag_label(d, span(&f, "%q"), "right");
    diag_label(d, span(&f, "\xe4\xbd\xa0"), "left");
    diag_label(d, span(&f, "eleven"), "below");
    diag_label(d, span(&f, "three"), "above");
    diag_label(d, (Span){source, 4, 6}, "elsewhere");
    diag_note(d, "two\nlines");
    CHECK_TEXT(shown(&f, d), "error[E0202]: it is wrong\n"
                             "   --> In[4]:5:2\n"
                             "    |\n"
                             "  3 | three\n"
                             "    | ----- above\n"
                             "  4 | four\n"
                             "  5 |     add(\xe4\xbd\xa0, %q,\n"
                             "    |     ^^^^--^^--^\n"
                             "    |         |   right\n"
                             "    |         left\n"
                             "  6 |     5)\n"
                             "    |     ^^\n"
                             "...\n"
                             " 11 | eleven\n"
                             "    | ------ below\n"
                             "   ::: other.rly:1:5\n"
                             "    |\n"
                             "  1 | def @f() { 1 }\n"
                             "    |     -- elsewhere\n"
                             "note: two\n"
                             "      lines\n");
    end(&f);
}

static void test_edges(void)
{
    Fixture f;
    begin(&f, "a\x1b[31mb\n\xe2\x80\xae"
              "c");
    Diag *d = diag_error(&f.diags, E0101_BAD_CHARACTER, (Span){f.source, 1, 2}, "not \x1b this");
    CHECK_TEXT(shown(&f, d), "error[E0101]: not \xe2\x90\x9b this\n"
                             "  --> In[4]:1:2\n"
                             "   |\n"
                             " 1 | a\xe2\x90\x9b[31mb\n"
                             "   |  ^\n");
    /* The end of the text, and a span that ends with its line. */
    uint32_t len = (uint32_t)strlen(f.text);
    d = diag_error(&f.diags, E0108_UNTERMINATED, (Span){f.source, len, len}, "it ends");
    CHECK_TEXT(shown(&f, d), "error[E0108]: it ends\n"
                             "  --> In[4]:2:3\n"
                             "   |\n"
                             " 2 | \xef\xbf\xbd"
                             "c\n"
                             "   |   ^\n");
    d = diag_error(&f.diags, E0108_UNTERMINATED, (Span){f.source, 6, 8}, "at the end");
    CHECK(strstr(shown(&f, d), "   |       ^\n") && !strstr(shown(&f, d), " 2 |"));
    /* No place at all, or one that does not exist. */
    d = diag_error(&f.diags, E0401_FILE, (Span){0}, "no file");
    CHECK_TEXT(shown(&f, d), "error[E0401]: no file\n");
    d = diag_error(&f.diags, E0401_FILE, (Span){9, 4, 2}, "no file");
    CHECK_TEXT(shown(&f, d), "error[E0401]: no file\n");
    buf_clear(&f.out);
    render_json(&f.out, &f.sources, d);
    CHECK_TEXT(buf_text(&f.out), "{\"severity\": \"error\", \"code\": \"E0401\", \"message\": \"no "
                                 "file\", \"notes\": []}");
    end(&f);
}

static void test_long_line(void)
{
    char text[5001];
    memset(text, 'a', 5000);
    text[5000] = '\0';
    memcpy(text + 2500, "HERE", 4);
    Fixture f;
    begin(&f, text);
    Diag *d = diag_error(&f.diags, E0102_BAD_NUMBER, span(&f, "HERE"), "long");
    diag_label(d, (Span){f.source, 0, 5}, "far left");
    diag_label(d, (Span){f.source, 4990, 5000}, "far right");
    const char *out = shown(&f, d);
    const char *here = strstr(out, "HERE"), *caret = strstr(out, "^^^^");
    CHECK(here && caret && strlen(out) < 800);
    const char *line = strstr(out, " 1 | ..."), *marks = line ? strchr(line, '\n') : NULL;
    CHECK(line && marks && here - line == caret - (marks + 1));
    end(&f);
}

/* Any span in any bytes: nothing crashes. */
static void test_wild_spans(void)
{
    char text[200];
    uint32_t random = 1;
    for (int round = 0; round < 300; round++) {
        for (size_t i = 0; i < sizeof text - 1; i++) {
            random = random * 1664525 + 1013904223;
            uint32_t c = random >> 24;
            text[i] = c % 7 == 0 ? '\n' : c % 11 == 0 ? '\t' : (char)(c ? c : 1);
        }
        text[sizeof text - 1] = '\0';
        Fixture f;
        begin(&f, text);
        Diag *d = diag_error(&f.diags, E0201_MISMATCH,
                             (Span){f.source, random % 250, (random >> 8) % 250}, "wild %d", round);
        for (int i = 0; i < 5; i++) {
            random = random * 1664525 + 1013904223;
            diag_label(d, (Span){f.source, (random >> 4) % 250, (random >> 12) % 250}, "label %d",
                       i);
        }
        CHECK(strlen(shown(&f, d)) > 20);
        render_json(&f.out, &f.sources, d);
        render_html(&f.out, &f.sources, d);
        end(&f);
    }
}

static void test_collecting(void)
{
    Diags ds;
    diags_init(&ds, NULL);
    ds.most = 3;
    for (int i = 0; i < 10; i++) {
        Diag *d = diag_error(&ds, E0110_UNDEFINED_VARIABLE, (Span){0}, "number %d", i);
        diag_label(d, (Span){0}, "a label");
        diag_note(d, "a note");
        diag_help(d, "a help");
    }
    CHECK(ds.n == 3 && ds.errors == 10);
    diag_error(&ds, W0201_UNREACHABLE, (Span){0}, "a warning");
    CHECK(ds.n == 4 && ds.errors == 10 && ds.last->severity == SEVERITY_WARNING);
    diags_clear(&ds);
    CHECK(ds.n == 0 && !ds.first && ds.most == 3);
    Diag *d = diag_error(NULL, E0110_UNDEFINED_VARIABLE, (Span){0}, "nowhere");
    diag_label(d, (Span){0}, "x");
    diag_note(NULL, "x");
    CHECK(d && !d->labels);
    static const char *const names[] = {"nn.dense", "nn.conv2d", "add", "multiply", NULL};
    d = diag_error(&ds, E0111_UNDEFINED_OPERATOR, (Span){0}, "x");
    diag_suggest(d, "dense", 5, names);
    CHECK_TEXT(d->helps->text, "did you mean `nn.dense`?");
    d = diag_error(&ds, E0111_UNDEFINED_OPERATOR, (Span){0}, "x");
    diag_suggest(d, "mutliply", 5, names);
    CHECK_TEXT(d->helps->text, "did you mean `multiply`?");
    d = diag_error(&ds, E0111_UNDEFINED_OPERATOR, (Span){0}, "x");
    diag_suggest(d, "elephant", 5, names);
    diag_suggest(d, "x", 5, names);
    diag_suggest(d, "", 5, names);
    CHECK(!d->helps);
    d = diag_bug(&ds, (Span){0}, "broken");
    CHECK(d->severity == SEVERITY_BUG && d->helps && d->notes);
    char large[1000];
    memset(large, 'y', sizeof large - 1);
    large[sizeof large - 1] = '\0';
    ds.most = 0;
    d = diag_error(&ds, E0201_MISMATCH, (Span){0}, "%s%s", large, large);
    CHECK(strlen(d->message) == 1998);
    diags_deinit(&ds);
}

static void test_codes(void)
{
    for (int i = 0; i < DIAG_CODES; i++) {
        const DiagInfo *info = diag_info((DiagCode)i);
        CHECK(diag_find(info->code) == (DiagCode)i && info->title[0] && info->name[0]);
        CHECK(i == 0 || info->code[0] != diag_info((DiagCode)(i - 1))->code[0] ||
              strcmp(diag_info((DiagCode)(i - 1))->code, info->code) < 0);
    }
    CHECK(diag_find("e0207") == E0207_TUPLE_INDEX && diag_find("E9999") == DIAG_CODES);
}

int main(void)
{
    test_positions();
    test_label();
    test_many_places();
    test_edges();
    test_long_line();
    test_wild_spans();
    test_collecting();
    test_codes();
    return check_done();
}
