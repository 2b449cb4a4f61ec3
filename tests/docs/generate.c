/* The pages that are made from tables: operators, passes, commands and the index of diagnostics, and grammars for editors.
 *
 *     generate [--bless | --rows]
 *
 * Compares the pages under docs/ with the tables, and every diagnostic with the files in docs/errors. `--bless` writes the
 * pages. `--rows` prints the samples of each operator, for tests that go over all of them. */
#include "grammars.h"

#include "base/buf.h"
#include "base/diag.h"
#include "include/relay.h"
#include "passes/analysis.h"
#include "passes/pass.h"
#include "session/explain.h"
#include "session/op_doc.h"
#include "stdlib/families.h"
#include "stdlib/stdlib.h"

#include <stdio.h>
#include <string.h>

/* ---- operators */

static Ctx cx;

static void family(Buf *b, const char *name, const Op *ops)
{
    buf_printf(b, "## %s\n\n", name);
    for (const Op *op = ops; op->name; op++)
        op_page(&cx, b, op, false);
}

static void operators(Buf *b)
{
    buf_str(b,
            "# Operators\n\nEvery operator with its arguments (`%name`) and attributes "
            "(`name=value`), by family. Made "
            "from the\nrows in `stdlib/ops/`; `:doc NAME` shows the same.\n\n"
            "In shapes, `d...` is any number of extents, `/` leaves out the rest, and what ends in "
            "`...` is\ncomputed for each of them. Axes stand in the order of the default layouts. "
            "Words in "
            "them:\n\n");
    for (const ShapeWord *w = shape_words; w->word; w++)
        buf_printf(b, "- `%s`: %s\n", w->word, w->meaning);
    buf_str(b, "\nIn loops, `x[i] or v` is v where the index lies outside x.\n\n");
#define FAMILY(name) family(b, #name, name##_ops);
#include "stdlib/families.def"
#undef FAMILY
}

/* ---- passes, commands, diagnostics */

static void pass_page(Buf *b)
{
    buf_str(b, "# Passes\n\nMade from the rows in `passes/`. A pass runs when the level of the "
               "pipeline is at least its "
               "own:\n`relay opt -O LEVEL -p PASS,… FILE`, `:pass PASS,… @f`.\n\n");
    for (const Pass *const *p = passes; *p; p++) {
        buf_printf(b, "## %s\n\n%s Level %d%s%s.\n\n", (*p)->name, (*p)->doc, (*p)->opt_level,
                   (*p)->needs_types ? "; types are inferred before" : "",
                   (*p)->other_values ? "; programs compute something else afterwards" : "");
        doc_attributes(b, (*p)->params);
        if ((*p)->params)
            buf_char(b, '\n');
        if ((*p)->rules)
            buf_str(b, "What it decides (`:explain pass`):\n\n");
        for (const PassRule *rule = (*p)->rules; rule && rule->name; rule++)
            buf_printf(b, "- `%s`: %s\n", rule->name, rule->says);
        if ((*p)->rules)
            buf_char(b, '\n');
    }
    buf_str(b, "## Passes of the original that are none here\n\n");
    for (const PassAbsent *a = passes_absent; a->name; a++)
        buf_printf(b, "- `%s`: %s\n", a->name, a->why);
    buf_str(b, "\n## Default pipelines\n\n");
    for (int level = 0; level <= 3; level++)
        buf_printf(b, "- `-O%d`: `%s`\n", level, passes_default(level));
}

static void analysis_page(Buf *b)
{
    buf_str(b,
            "# Analyses\n\nQuestions about a program, made from `passes/analyses.def`: "
            "`relay analyze NAME FILE`,\n`:analyze NAME @f`. What they look at: PROGRAM is a "
            "function or an expression, MODULE all\nfunctions. Amounts follow from the types and "
            "from the operators' tensor expressions.\n\n| name | looks at | answers |\n"
            "| --- | --- | --- |\n");
    for (const AnalysisRow *row = analyses; row->name; row++)
        buf_printf(b, "| `%s` | %s | %s |\n", row->name, analysis_takes(row), row->doc);
}

/* The words of a command, and below them its examples. */
static void command_parts(Buf *b, const char *command)
{
    size_t n;
    const RelayCommandPart *parts = relay_command_parts(&n);
    bool before = false, any = false;
    for (size_t i = 0; i < n; i++) {
        bool word = *parts[i].word != 0;
        if (strcmp(parts[i].command, command) != 0)
            continue;
        buf_str(b, any && word == before ? "" : "\n");
        if (word)
            buf_printf(b, "- `%s`: %s\n", parts[i].word, parts[i].text);
        else
            buf_printf(b, "    %s\n", parts[i].text);
        any = true;
        before = word;
    }
}

static void command_page(Buf *b)
{
    size_t n;
    const RelayCommand *rows = relay_commands(&n);
    buf_str(b, "# Commands\n\nWhat can be typed in a session besides Relay. Made from the rows in "
               "`session/commands.def`;\n`:help NAME` shows one.\n");
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || strcmp(rows[i].group, rows[i - 1].group) != 0)
            buf_printf(b, "\n## %s\n", rows[i].group);
        buf_printf(b, "\n`:%s%s%s`\n\n%s%s%s\n", rows[i].name, *rows[i].args ? " " : "",
                   rows[i].args, rows[i].doc, *rows[i].more ? " " : "", rows[i].more);
        command_parts(b, rows[i].name);
    }
}

static void error_index(Buf *b)
{
    buf_str(b, "# Diagnostics\n\nWhat each code means, with a program that gets it and one that "
               "does not. `:explain CODE` "
               "shows the\nsame page. Made from `base/diag.def`.\n\n| code | |\n| --- | --- |\n");
    for (int code = 0; code < DIAG_CODES; code++) {
        const DiagInfo *info = diag_info((DiagCode)code);
        buf_printf(b, "| [%s](%s.md) | %s |\n", info->code, info->code, info->title);
    }
}

/* ---- comparing */

typedef struct {
    const char *path;
    void (*print)(Buf *b);
} Page;

static const Page pages[] = {
    {"docs/operators.md", operators},
    {"docs/passes.md", pass_page},
    {"docs/analyses.md", analysis_page},
    {"docs/commands.md", command_page},
    {"docs/errors/README.md", error_index},
    {"docs/grammars/relay.tmLanguage.json", textmate_grammar},
    {"docs/grammars/relay.vim", vim_grammar},
    {"kernel/assets/relay_pygments.py", pygments_lexer},
};

static bool same_as(const char *path, const Buf *text)
{
    FILE *f = fopen(path, "r");
    size_t at = 0;
    int c = f ? fgetc(f) : 0;
    for (; f && c != EOF && at < text->n && c == (unsigned char)text->at[at]; at++)
        c = fgetc(f);
    bool same = f && c == EOF && at == text->n;
    if (f)
        fclose(f);
    return same;
}

static bool page_write(const char *path, const Buf *text)
{
    FILE *f = fopen(path, "w");
    bool ok = f && fwrite(buf_text(text), 1, text->n, f) == text->n;
    return f && fclose(f) == 0 && ok;
}

/* Each diagnostic has a page whose first line is its code and title. */
static int check_pages(void)
{
    int wrong = 0;
    for (int code = 0; code < DIAG_CODES; code++) {
        const DiagInfo *info = diag_info((DiagCode)code);
        const ErrorPage *page = error_page((DiagCode)code);
        Buf title = {0};
        buf_printf(&title, "# %s: %s\n", info->code, info->title);
        if (!page || strncmp(page->text, buf_text(&title), title.n) != 0) {
            printf("docs/errors/%s.md must begin with: %s", info->code, buf_text(&title));
            wrong++;
        }
        buf_deinit(&title);
    }
    for (const ErrorPage *p = error_pages; p->name; p++) {
        char code[8] = {0};
        strncpy(code, p->name, strcspn(p->name, ".") % sizeof code);
        if (diag_find(code) == DIAG_CODES && ++wrong)
            printf("docs/errors/%s explains what base/diag.def does not have\n", p->name);
    }
    return wrong;
}

static bool print_row(void *data, const Op *op)
{
    (void)data;
    printf("%s\t%s\t%s\t%s\n", op->name,
           op->grad      ? "rule"
           : op->compute ? "loops"
                         : "kernel",
           op->no_grad ? op->no_grad : "", op->samples ? op->samples : "");
    return true;
}

int main(int argc, char **argv)
{
    bool bless = argc > 1 && strcmp(argv[1], "--bless") == 0;
    if (!ctx_init(&cx, &stdlib_ops))
        return 70;
    if (argc > 1 && strcmp(argv[1], "--rows") == 0)
        return op_each(&stdlib_ops, print_row, NULL), 0;
    limits_start(&cx.limits);
    int wrong = check_pages();
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++) {
        Buf text = {0};
        pages[i].print(&text);
        if (bless ? !page_write(pages[i].path, &text) : !same_as(pages[i].path, &text)) {
            printf("%s is not what the tables say; `generate --bless` writes it\n", pages[i].path);
            wrong++;
        }
        buf_deinit(&text);
    }
    ctx_deinit(&cx);
    return wrong ? 1 : 0;
}
