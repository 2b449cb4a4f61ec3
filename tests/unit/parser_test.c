/* The lexer, the parser and the printer: tokens, cells, depth, and that what was printed reads back. */
#include "base/buf.h"
#include "base/source.h"
#include "ir/print.h"
#include "parser/lexer.h"
#include "parser/parser.h"
#include "stdlib/stdlib.h"
#include "tests/unit/check.h"

#include <dirent.h>
#include <stdlib.h>

static Ctx cx;

/* A library of nothing: programs that need one are passed over. */
static Module *import_nothing(void *data, Str path, Span span)
{
    (void)data, (void)path, (void)span;
    return module_new(&cx);
}

static Module *parse(const char *text, size_t n)
{
    ParseEnv env = {.import = import_nothing};
    diags_clear(cx.diags);
    limits_start(&cx.limits);
    return parse_text(&cx, sources_add(&cx.sources, "test", text, n), &env);
}

/* Prints what the text means; "" when it means nothing. */
static void format(const char *text, size_t n, Buf *out)
{
    Module *m = parse(text, n);
    buf_clear(out);
    if (m)
        ir_print_module(out, m, (PrintStyle){0});
    module_release(m);
}

/* ---- tokens --------------------------------------------------------------------------------------------------- */

static void check_tokens(const char *text, const char *wanted)
{
    Buf b = {0};
    Lexer lx = {.text = text, .end = (uint32_t)strlen(text)};
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx)) {
        buf_printf(&b, "%s%.*s%s", b.n ? "|" : "", (int)(t.to - t.from), text + t.from,
                   t.fault ? "!" : "");
        CHECK(t.to > t.from);
    }
    CHECK_TEXT(buf_text(&b), wanted);
    buf_deinit(&b);
}

static void test_tokens(void)
{
    check_tokens("%a+%b", "%a|+|%b");
    check_tokens("%a/%b /%c", "%a/|%b|/|%c");
    check_tokens("%x -1", "%x|-1");
    check_tokens("1+2", "1|+|2");
    check_tokens("2e-3-1f", "2e-3|-1f");
    check_tokens("--5 - - 5", "--5|-|-|5");
    check_tokens("-inff inff64 infinity", "-inff|inff64|infinity");
    check_tokens("1e+1f 2.E-4f16 7i64", "1e+1f|2.E-4f16|7i64");
    check_tokens("a/* c */b", "a/|*|c|*|/|b");
    check_tokens("a /* b /* c */ d **/e", "a|e");
    check_tokens("a // b\nc", "a|c");
    check_tokens("/* open", "/*!");
    check_tokens("- > => >= ->", "- >|=>|>=|->");
    check_tokens("match? match ?", "match?|match|?");
    check_tokens("meta[a][0] meta [", "meta[|a|]|[|0|]|meta|[");
    check_tokens("%let %True @type %_", "%let!|%True|@type!|%_");
    check_tokens("\"a\\\"b\" \"open", "\"a\\\"b\"|\"open!");
    check_tokens("%0.1", "%0|.|1");
    check_tokens("# #[", "#!|#[");
    check_tokens("a\r\nb\rc", "a|b|\r!|c");
}

/* ---- is it whole? ---------------------------------------------------------------------------------------------- */

static void check_state(const char *text, TextState wanted)
{
    int indent;
    if (!CHECK(text_state(text, strlen(text), &indent) == wanted))
        printf("%s\n", text);
}

static void test_states(void)
{
    check_state("1 + 2", TEXT_COMPLETE);
    check_state("1 +", TEXT_INCOMPLETE);
    check_state("let %x = 1;", TEXT_COMPLETE);
    check_state("let %x =", TEXT_INCOMPLETE);
    check_state("def @f(%x: int32) {", TEXT_INCOMPLETE);
    check_state("def @f(%x: int32)", TEXT_INCOMPLETE);
    check_state("def @f(%x: int32) -> int32", TEXT_INCOMPLETE);
    check_state("def @f(%x: int32) { %x }", TEXT_COMPLETE);
    check_state("fn (%x) { %x }(1)", TEXT_COMPLETE);
    check_state("if (%c) { 1 }", TEXT_INCOMPLETE);
    check_state("if (%c) { 1 } else { 2 }", TEXT_COMPLETE);
    check_state("match (%c) { A =>", TEXT_INCOMPLETE);
    check_state("f(\"abc", TEXT_INCOMPLETE);
    check_state("/* abc", TEXT_INCOMPLETE);
    check_state(":type (1", TEXT_COMPLETE);
    check_state(":type (1\r\n\r\n", TEXT_COMPLETE);
    check_state("1)", TEXT_INVALID);
    check_state("1 $ 2", TEXT_INVALID);
    check_state("", TEXT_COMPLETE);
}

/* ---- cells -------------------------------------------------------------------------------------------------------- */

static void check_cell(const char *text, const char *wanted)
{
    static const char *const names[] = {"defs", "let", "expr", "command", "end", "error"};
    Buf b = {0};
    PtrMap locals = {0};
    ParseEnv env = {.redefine = true, .locals = &locals};
    Module *kept[16];
    size_t n = 0;
    CellParser cp;
    CellItem item;
    diags_clear(cx.diags);
    cell_parser_init(&cp, &cx, sources_add(&cx.sources, "cell", text, strlen(text)));
    do {
        cell_parser_next(&cp, &env, &item);
        buf_printf(&b, "%s%s", b.n ? " " : "", names[item.kind]);
        if (item.kind == CELL_LET)
            ptrmap_put(&locals, item.var->name, item.var);
        if (item.kind == CELL_COMMAND)
            buf_printf(&b, "(%.*s)", (int)(item.args.to - item.args.from), text + item.args.from);
        if (item.module)
            kept[n++] = item.module;
    } while (item.kind != CELL_END && item.kind != CELL_ERROR && n < 16);
    CHECK_TEXT(buf_text(&b), wanted);
    while (n > 0)
        module_release(kept[--n]);
    ptrmap_deinit(&locals);
    buf_deinit(&b);
}

static void test_cells(void)
{
    check_cell("", "end");
    check_cell("1 + 2", "expr end");
    check_cell("let %x = 1; %x", "let expr end");
    check_cell("let %x = 1\n%x\n(%x, 2)\n", "let expr expr end");
    check_cell("%0 = 1;\n2; 3;", "let expr expr end");
    check_cell("def @f() { 1 }\ntype T { A }\n@f()", "defs expr end");
    check_cell("  :type 1 + 2  \n:help\n1", "command(1 + 2) command() expr end");
    check_cell("match (A) { A => 1 }\ntype T { A }", "error");
    check_cell("1 2", "error");
    check_cell("#[version = \"0.0.5\"]\n1 +\n2", "expr end");
    check_cell("let %f = fn (%n: int32) { %f(%n) };\n%f(1)", "let expr end");
    check_cell("let %x = (let %y = 1; %y);", "let end");
    check_cell("{ let %a = 1; %a }", "expr end");
    check_cell("add(1,\n  2)\n  .0\n", "expr end");
}

/* ---- colours, values of parameters, places --------------------------------------------------------------------------- */

typedef struct Colored {
    Buf out;
    const char *text;
} Colored;

static void add_color(void *data, const LexedToken *t)
{
    Colored *c = data;
    buf_printf(&c->out, "%s%.*s:%s", c->out.n ? " " : "", (int)(t->to - t->from), c->text + t->from,
               t->kind);
}

static void check_colors(const char *text, const char *wanted)
{
    Colored c = {.text = text};
    lex_each(text, strlen(text), add_color, &c);
    CHECK_TEXT(buf_text(&c.out), wanted);
    buf_deinit(&c.out);
}

static void test_colors(void)
{
    check_colors(
        "let %x: float32 = 1f;",
        "let:keyword %x:local ::punctuation float32:type =:punctuation 1f:number ;:punctuation");
    check_colors("Cons(%0, nn.relu(@f)) // c",
                 "Cons:constructor (:punctuation %0:graph ,:punctuation nn:operator .:punctuation "
                 "relu:operator "
                 "(:punctuation @f:global ):punctuation ):punctuation // c:comment");
    check_colors(":type \"a\" /* open", ":type:command \"a\":string /* open:error");
    check_colors("$", "$:error");
}

static void check_value(const char *text, const char *wanted)
{
    Buf b = {0};
    AttrValue v;
    uint32_t n = (uint32_t)strlen(text);
    uint32_t source = sources_add(&cx.sources, "value", text, n);
    diags_clear(cx.diags);
    if (parse_attr_value(&cx, &cx.arena, source, (Span){source, 0, n}, &v))
        ir_print_attr(&b, &v);
    CHECK_TEXT(buf_text(&b), wanted);
    CHECK((b.n == 0) == (cx.diags->errors > 0));
    buf_deinit(&b);
}

static void test_values(void)
{
    check_value("3", "3");
    check_value("-2i64", "-2i64");
    check_value("1e-5f", "1e-05f");
    check_value("(1)", "1");
    check_value("[1, [True, None], \"a\\n\"]", "[1, [True, None], \"a\\n\"]");
    check_value("{\"nn.conv2d\": [\"NHWC\", \"default\"]}",
                "[\"nn.conv2d\", [\"NHWC\", \"default\"]]");
    check_value("[1, 2", "");
    check_value("1 2", "");
    check_value("%x", "");
}

static void check_place(Module *m, Expr *const *slot, const char *text, const char *wanted)
{
    Span s = ir_use_span(m, slot);
    CHECK(s.to - s.from == strlen(wanted) && !memcmp(text + s.from, wanted, s.to - s.from));
}

static void test_places(void)
{
    const char *text = "let %a = 1; %0 = (%a, 2); (%0.0 + %a, ( %0 ))";
    Module *m = parse(text, strlen(text));
    if (!CHECK(m != NULL))
        return;
    const Let *let = expr_as_let(m->expr);
    const Tuple *tuple = expr_as_tuple(let->body);
    const Call *sum = expr_as_call(tuple->fields.at[0]);
    check_place(m, &let->value, text, "1");
    check_place(m, &tuple->fields.at[1], text, "( %0 )");
    check_place(m, &sum->args.at[0], text, "%0.0");
    check_place(m, &sum->args.at[1], text, "%a");
    check_place(m, &sum->callee, text, "+");
    CHECK(tuple->fields.at[1]->span.from == 17 && tuple->fields.at[1]->span.to == 24);
    module_release(m);
    text = "free_var %a: int32; (%a)";
    m = parse(text, strlen(text));
    if (CHECK(m != NULL))
        check_place(m, &m->expr, text, "(%a)");
    module_release(m);
}

/* ---- depth ---------------------------------------------------------------------------------------------------------- */

static void repeat(Buf *b, const char *text, int n)
{
    for (int i = 0; i < n; i++)
        buf_str(b, text);
}

/* Reads `n` levels, prints them, and reads and prints that once more. */
static void check_depth(const char *open, const char *middle, const char *close, int n)
{
    Buf text = {0}, once = {0}, twice = {0};
    repeat(&text, open, n);
    buf_str(&text, middle);
    repeat(&text, close, n);
    format(text.at, text.n, &once);
    if (!CHECK(once.n > 0))
        printf("%s…\n", open);
    format(buf_text(&once), once.n, &twice);
    CHECK(once.n == twice.n && !memcmp(buf_text(&once), buf_text(&twice), once.n));
    buf_deinit(&text);
    buf_deinit(&once);
    buf_deinit(&twice);
}

static void test_depth(void)
{
    check_depth("(", "1", ")", 200000);
    check_depth("(", "1", " + 1)", 50000);
    check_depth("add(1, ", "1", ")", 50000);
    check_depth("", "1", " + 1", 50000);
    check_depth("let %x = 1; ", "%x", "", 50000);
    check_depth("1; ", "2", "", 50000);
    check_depth("let %x = (", "1", "); %x", 10000);
    check_depth("fn () { ", "1", " }", 10000);
    check_depth("if (True) { ", "1", " } else { 2 }", 10000);
    check_depth("if (True) { 1 } else ", "{ 2 }", "", 10000);
    check_depth("match (1) { _ => ", "1", " }", 10000);
    check_depth("ref(", "1", ")", 50000);
    check_depth("{", "1", "}", 50000);
    check_depth("((1, 2)", "", ", 3).0", 0 + 1);
    check_depth("fn (%x: (", "int32", ",)) { %x }", 1);
}

static void check_too_deep(const char *head, const char *open)
{
    Buf text = {0}, out = {0};
    buf_str(&text, head);
    repeat(&text, open, 100000);
    format(text.at, text.n, &out);
    CHECK(out.n == 0 && cx.limits.hit == LIMIT_DEPTH && cx.diags->first &&
          cx.diags->first->code == E0121_TOO_DEEP && !cx.diags->first->next);
    buf_deinit(&text);
    buf_deinit(&out);
}

static void test_too_deep(void)
{
    check_too_deep("fn (%x: ", "fn () -> (");
    check_too_deep("match (1) { ", "(");
    check_too_deep("zeros(shape=", "[");
    limits_start(&cx.limits);
}

/* ---- memory is refused ------------------------------------------------------------------------------------------------- */

static void test_refusals(void)
{
    Buf text = {0}, out = {0};
    buf_str(&text, "#[version = \"0.0.5\"]\ntype L[A] { C(A, L[A]), N }\ndef @main(%x: Tensor[(2, "
                   "3), float32]) {\n");
    for (int i = 0; i < 3000; i++)
        buf_printf(&text, "let %%v%d = (sum(%%x, axis=[1]), (C(%d, N), fn (%%y) { %%y }));\n", i,
                   i);
    buf_str(&text, "%v0\n}\n");
    for (uint64_t charge = 1; charge < 60; charge++) {
        Ctx small;
        CHECK(ctx_init(&small, &stdlib_ops));
        uint32_t source = sources_add(&small.sources, "test", text.at, text.n);
        small.limits.refuse = small.limits.charges + charge;
        Module *m = parse_text(&small, source, NULL);
        CHECK(m || small.diags->errors > 0);
        buf_clear(&out);
        if (m)
            ir_print_module(&out, m, (PrintStyle){.types = true});
        module_release(m);
        ctx_deinit(&small);
    }
    buf_deinit(&text);
    buf_deinit(&out);
}

/* ---- all programs of the corpus --------------------------------------------------------------------------------------- */

static uint32_t seed = 12345;

static uint32_t draw(uint32_t n)
{
    seed = seed * 1664525u + 1013904223u;
    return (seed >> 8) % n;
}

static bool read_file(const char *path, Buf *out)
{
    char part[4096];
    FILE *f = fopen(path, "rb");
    if (!f)
        return false;
    for (size_t n; (n = fread(part, 1, sizeof part, f)) > 0;)
        buf_bytes(out, part, n);
    fclose(f);
    return out->n > 0;
}

/* The same text as a cell: its items come to an end. */
static void check_cell_ends(const Buf *text)
{
    CellParser cp;
    CellItem item;
    ParseEnv env = {.redefine = true, .import = import_nothing};
    diags_clear(cx.diags);
    cell_parser_init(&cp, &cx, sources_add(&cx.sources, "cell", buf_text(text), text->n));
    for (size_t i = 0;; i++) {
        cell_parser_next(&cp, &env, &item);
        module_release(item.module);
        if (item.kind == CELL_END || item.kind == CELL_ERROR)
            return;
        if (!CHECK(i <= text->n))
            return;
    }
}

/* Whatever stands in a text, the parser ends with a module or a message. */
static void check_damaged(const Buf *text)
{
    static const char *const pieces[] = {
        "(",  ")",   "{",     "}",     "[",   "]",   ";",  ",",   "=",      "=>",
        "%x", "%0",  "let",   "fn",    "def", "if",  "\"", "/*",  "match",  ":",
        "1",  "1.5", "Nil",   "add",   "->",  "ref", "@f", ".0",  "Tensor", "_",
        "#[", "-",   "type ", "meta[", "\r",  "é",   "$",  "else"};
    Buf b = {0};
    for (int round = 0; round < 6; round++) {
        uint32_t at = draw((uint32_t)text->n), skip = draw(12);
        const char *piece = pieces[draw(sizeof pieces / sizeof *pieces)];
        if (at + skip > text->n)
            skip = 0;
        buf_clear(&b);
        buf_bytes(&b, text->at, at);
        if (round > 0)
            buf_str(&b, piece);
        if (round != 1)
            buf_bytes(&b, text->at + at + skip, text->n - at - skip);
        Module *m = parse(buf_text(&b), b.n);
        if (!CHECK((m == NULL) == (cx.diags->errors > 0)))
            printf("%s\n", buf_text(&b));
        module_release(m);
        check_cell_ends(&b);
    }
    buf_deinit(&b);
}

static void check_program(const Buf *text)
{
    Buf once = {0}, twice = {0};
    format(buf_text(text), text->n, &once);
    if (once.n > 0) {
        format(buf_text(&once), once.n, &twice);
        CHECK_TEXT(buf_text(&twice), buf_text(&once));
    }
    check_damaged(text);
    buf_deinit(&once);
    buf_deinit(&twice);
}

static void test_corpus(const char *folder)
{
    char path[512], file[1024];
    DIR *dir = opendir(folder);
    CHECK(dir != NULL);
    for (struct dirent *e; dir && (e = readdir(dir));) {
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        DIR *group = opendir(path);
        for (struct dirent *f; group && (f = readdir(group));) {
            size_t n = strlen(f->d_name);
            if (n < 4 || strcmp(f->d_name + n - 4, ".rly") != 0)
                continue;
            snprintf(file, sizeof file, "%s/%s", path, f->d_name);
            Buf text = {0};
            if (CHECK(read_file(file, &text)))
                check_program(&text);
            buf_deinit(&text);
        }
        if (group)
            closedir(group);
    }
    if (dir)
        closedir(dir);
}

/* A number that one text binds means nothing in another, be it among the first or far from them. */
static void test_texts(void)
{
    static const char *const bound[] = {"def @a(%x: int32) { %1 = add(%x, 1); %1 }",
                                        "def @a(%x: int32) { %99999 = add(%x, 1); %99999 }"};
    static const char *const unbound[] = {"def @b() { %1 }", "def @b() { %99999 }"};
    for (int i = 0; i < 2; i++) {
        const char *texts[] = {bound[i], unbound[i]};
        Span ranges[2];
        ParseEnv env = {0};
        for (int k = 0; k < 2; k++) {
            uint32_t n = (uint32_t)strlen(texts[k]);
            ranges[k] = (Span){sources_add(&cx.sources, "test", texts[k], n), 0, n};
        }
        diags_clear(cx.diags);
        limits_start(&cx.limits);
        Module *m = parse_definitions(&cx, 1, ranges, NULL, &env);
        CHECK(m != NULL);
        module_release(m);
        CHECK(!parse_definitions(&cx, 2, ranges, NULL, &env));
        CHECK(cx.diags->first && cx.diags->first->code == E0110_UNDEFINED_VARIABLE);
    }
}

/* A chain of projections might begin with a name that has dots and numbers: none of these is kept that is not there. */
static void test_projections(void)
{
    enum { MANY = 20000 };
    Buf text = {0};
    buf_str(&text, "fn (%x: int32) { let %x.0.0 = 1; %x");
    for (int i = 0; i < MANY; i++)
        buf_str(&text, ".0");
    buf_str(&text, " }");
    size_t before = cx.names.names.n;
    Module *m = parse(text.at, text.n);
    CHECK(m != NULL);
    CHECK(cx.names.names.n < before + 10);
    module_release(m);
    static const char names[] = "fn (%x: int32) { let %x.0.0 = 1; (%x.0.0.2, %x.0.1) }";
    format(names, sizeof names - 1, &text);
    CHECK(strstr(buf_text(&text), "= %x_0_0.2;") && strstr(buf_text(&text), "= %x.0;"));
    buf_deinit(&text);
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    test_tokens();
    test_states();
    test_cells();
    test_colors();
    test_values();
    test_places();
    test_depth();
    test_too_deep();
    test_texts();
    test_projections();
    test_refusals();
    test_corpus("tests/conformance/cases");
    ctx_deinit(&cx);
    return check_done();
}
