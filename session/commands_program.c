/* Commands that show a program: its types, its stages of compilation. */
#include "base/memory.h"
#include "ir/print.h"
#include "session/commands.h"
#include "session/views/follow.h"
#include "session/views/graph.h"
#include "session/sass.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ------------------------------------------------------------------------------------------------------------------- */

void command_type(CommandCall *c)
{
    Module *m = command_expr(c);
    if (!m)
        return;
    Buf b = {0};
    type_print(&b, m->expr->type);
    emit_text(c->s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
    module_release(m);
}

static bool is_library_type(const Module *env, const TypeDef *def)
{
    for (size_t i = 0; i < env->imported_types.n; i++)
        if (env->imported_types.at[i] == def)
            return true;
    return false;
}

/* What failed is in no list, though a script knows it by its type. */
static void list_types(const RelaySession *s, Buf *b, bool library)
{
    for (size_t i = 0; i < s->env->types.n; i++) {
        const TypeDef *def = s->env->types.at[i];
        if (!def->broken && is_library_type(s->env, def) == library)
            buf_printf(b, "type %s\n", def->name->text);
    }
}

static void list_functions(const RelaySession *s, Buf *b, size_t n, const Def *const *defs,
                           bool library)
{
    for (size_t i = 0; i < n; i++) {
        if (defs[i]->imported != library || strchr(defs[i]->name->text, '.') ||
            ptrmap_has(&s->failed_names, defs[i]->name))
            continue;
        buf_printf(b, "@%s: ", defs[i]->name->text);
        type_print(b, defs[i]->fn->base.type);
        buf_char(b, '\n');
    }
}

static void list_variables(const RelaySession *s, Buf *b)
{
    for (size_t i = 0; i < s->n_locals; i++) {
        if (s->locals[i].result)
            continue;
        buf_printf(b, "%%%s: ", s->locals[i].var->name->text);
        type_print(b, s->locals[i].var->base.type);
        buf_char(b, '\n');
    }
}

void command_defs(CommandCall *c)
{
    RelaySession *s = c->s;
    bool mine = str_is(c->text, "mine");
    if (c->text.len && !mine) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, c->args, "`:defs` takes `mine` or nothing");
        diag_help(d, "`:doc NAME` tells about one definition");
        return;
    }
    Buf b = {0};
    const Def **defs = arena_new_array(&s->cx.own_diags.arena, const Def *, s->env->defs.n);
    size_t n = module_sorted_defs(s->env, defs, true);
    list_types(s, &b, false);
    list_functions(s, &b, n, defs, false);
    list_variables(s, &b);
    for (const Stale *old = s->stale; old; old = old->next)
        buf_printf(&b, "%s%.*s%s: no longer fits `%.*s%s`\n", old->sigil ? "" : "type ",
                   old->sigil != 0, &old->sigil, old->name->text, old->changed_sigil != 0,
                   &old->changed_sigil, old->changed->text);
    if (mine && !b.n)
        buf_str(&b, "nothing is defined yet: `def @f(…) { … }`, `let %x = …;`, `type T { … }`");
    if (!mine) {
        buf_printf(&b, "%s// from the libraries (`:defs mine` leaves them out)\n", b.n ? "\n" : "");
        list_types(s, &b, true);
        list_functions(s, &b, n, defs, true);
    }
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

/* ---- stages of one program ------------------------------------------------------------------------------------------------- */

static bool show_text(RelaySession *s, Module *m, PrintStyle style, const char *title)
{
    Buf text = {0};
    style.no_header = style.no_metadata = true;
    ir_print_module(&text, m, style);
    display_program(s, title, &text);
    buf_deinit(&text);
    return true;
}

typedef struct ShowRow {
    const char *name, *doc;
    bool code; /* and no Relay text */
    CodeLanguage language;
    JitText kind;
    bool by_tools; /* that make machine code of the text */
    PrintStyle style; /* of text */
    bool graph;
    bool all; /* stages beside each other */
} ShowRow;

/* The code is made to be shown, as it is made to be run. */
static bool show_code(RelaySession *s, const Thunk *t, const ShowRow *row)
{
    Module *env = t->module;
    const Name *name = t->name;
    JitTextWish wish = {.kind = row->kind, .n = t->n, .args = t->args};
    Buf why = {0}, text = {0};
    Runnable code;
    bool was = engine_on_gpu(s, s->on_gpu || row->kind == JIT_TEXT_PTX);
    bool ok = engine_compile(s, env, name, COMPILE_TO_SHOW, &code, &why);
    if (!s->jit)
        diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "there is no JIT: %s", buf_text(&why));
    else if (!ok && session_status(s) == RELAY_OK)
        diag_error(s->cx.diags, E0701_CANNOT_COMPILE, (Span){0}, "`@%s` cannot be compiled: %s",
                   name->text, buf_text(&why));
    if (ok) {
        Buf made = {0};
        ok = s->jit_table->text(s->jit, code.env, name, &wish, &made);
        if (ok && row->by_tools)
            ok = sass_of(s, &made);
        if (ok && made.n == 0)
            buf_str(&made, NO_LOOPS);
        buf_printf(&text, "%s JIT at level %d\n%s", code_comment(row->language), s->opt_level,
                   buf_text(&made));
        buf_deinit(&made);
        engine_release(s, &code);
    }
    if (ok)
        display_code(s, row->language, &text);
    engine_on_gpu(s, was);
    buf_deinit(&why);
    buf_deinit(&text);
    return ok;
}

bool code_thunk(RelaySession *s, Module *m, Thunk *out)
{
    Function *fn = expr_as_function(m->expr);
    return fn ? thunk_of_function(s, m, fn, out)
              : thunk_make(s, s->env, m, m->expr, CLOSURES_ALL, out);
}

static bool show_thunk(CommandCall *c, const Thunk *t, const ShowRow *row, uint64_t lines)
{
    return row->all ? show_all(c->s, t, lines) : show_code(c->s, t, row);
}

static bool show_code_of(CommandCall *c, const ShowRow *row)
{
    uint64_t lines = 3;
    if (row->all && !command_setting(c, "lines", &lines))
        return false;
    const Def *def = command_global(c);
    Module *m = command_module(c);
    Thunk t;
    if (m && def) {
        module_release(m);
        return show_thunk(c, &(Thunk){.module = c->s->env, .name = def->name}, row, lines);
    }
    if (!m || !code_thunk(c->s, m, &t)) {
        module_release(m);
        return false;
    }
    bool ok = show_thunk(c, &t, row, lines);
    thunk_free(c->s, &t);
    module_release(m);
    return ok;
}

static const ShowRow show_rows[] = {
    {.name = "text", .doc = "canonical text"},
    {.name = "types", .doc = "canonical text with every inferred type", .style = {.types = true}},
    {.name = "graph", .doc = "what flows where, as a picture", .graph = true},
    {.name = "lowered",
     .doc = "the loop nests",
     .code = true,
     .language = CODE_LOOPS,
     .kind = JIT_TEXT_LOWERED},
    {.name = "llvm", .doc = "LLVM IR", .code = true, .language = CODE_LLVM, .kind = JIT_TEXT_LLVM},
    {.name = "asm",
     .doc = "machine code",
     .code = true,
     .language = CODE_ASM,
     .kind = JIT_TEXT_ASM},
    {.name = "ptx",
     .doc = "the kernels of a GPU",
     .code = true,
     .language = CODE_PTX,
     .kind = JIT_TEXT_PTX},
    {.name = "sass",
     .doc = "a GPU's machine code",
     .code = true,
     .language = CODE_PTX,
     .kind = JIT_TEXT_PTX,
     .by_tools = true},
    {.name = "all",
     .doc = "passes, loops, LLVM IR and machine code, and which expression each line is from",
     .code = true,
     .all = true},
};

void command_show(CommandCall *c)
{
    const char *names[sizeof show_rows / sizeof *show_rows];
    Span from = c->args;
    Str word = command_word(c);
    for (size_t i = 0; i < sizeof show_rows / sizeof *show_rows; i++) {
        const ShowRow *row = &show_rows[i];
        names[i] = row->name;
        if (!str_is(word, row->name))
            continue;
        if (!command_need(c, "what to show (`@f`, or an expression)"))
            return;
        if (row->code) {
            show_code_of(c, row);
            return;
        }
        const Def *def = command_global(c);
        Module *m = command_module(c);
        if (m && row->graph)
            show_graph(c->s, m, def ? def->name : NULL);
        else if (m)
            show_text(c->s, m, row->style, NULL);
        module_release(m);
        return;
    }
    Span span = {from.source, from.from, from.from + (uint32_t)word.len};
    Diag *d = diag_error(c->s->cx.diags, E0402_USAGE, span,
                         "`:show` wants to know what: text, types, graph, lowered, "
                         "llvm, asm, ptx, sass or all");
    char *wanted = memory_text(word.ptr, word.len);
    diag_suggest(d, wanted ? wanted : "", sizeof names / sizeof *names, names);
    diag_help(d, "for instance `:show llvm @f`");
    free(wanted);
}
