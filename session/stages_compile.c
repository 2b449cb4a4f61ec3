/* `relay compile`: what is made of a program, to look at or for others to run. */
#include "base/attached.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "runtime/npy.h"
#include "session/compiled.h"
#include "session/views/follow.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

typedef enum Make {
    MAKE_TEXT, /* of one function, by the JIT */
    MAKE_PAGE, /* of all stages */
    MAKE_HEADER,
    MAKE_LIBRARY,
    MAKE_PROGRAM
} Make;

/* Name, what makes it, which text that is, doc. */
#define KINDS(K)                                                                                   \
    K("lowered", MAKE_TEXT, JIT_TEXT_LOWERED, "loop nests")                                        \
    K("llvm-ir", MAKE_TEXT, JIT_TEXT_LLVM, "LLVM IR")                                              \
    K("asm", MAKE_TEXT, JIT_TEXT_ASM, "assembly for this processor")                               \
    K("obj", MAKE_TEXT, JIT_TEXT_OBJECT, "the same as an object, to look into")                    \
    K("ptx", MAKE_TEXT, JIT_TEXT_PTX, "kernels for a GPU")                                         \
    K("html", MAKE_PAGE, JIT_TEXT_LOWERED, "all of it side by side, as a page")                    \
    K("json", MAKE_PAGE, JIT_TEXT_LOWERED, "the same for programs")                                \
    K("lib", MAKE_LIBRARY, JIT_TEXT_OBJECT, "a shared library that C calls; it needs librelay.so") \
    K("header", MAKE_HEADER, JIT_TEXT_OBJECT, "the C header of that library")                      \
    K("exe", MAKE_PROGRAM, JIT_TEXT_OBJECT, "a program that does what `relay run` does")

static const RelayCommand kinds[] = {
#define KIND(name, make, text, doc) {name, "", doc, "", ""},
    KINDS(KIND)
#undef KIND
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

const RelayCommand *relay_kinds(size_t *n)
{
    *n = N_KINDS;
    return kinds;
}

static bool find_kind(RelaySession *s, const char *emit, Make *make, JitText *text)
{
    static const struct {
        Make make;
        JitText text;
    } makes[N_KINDS] = {
#define KIND(name, make, text, doc) {make, text},
        KINDS(KIND)
#undef KIND
    };
    const char *names[N_KINDS];
    for (size_t i = 0; i < N_KINDS; i++) {
        names[i] = kinds[i].name;
        *make = makes[i].make;
        *text = makes[i].text;
        if (!strcmp(emit, kinds[i].name))
            return true;
    }
    Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                         "`--emit %s`: nothing of that kind can be made", emit);
    Buf all = {0};
    for (size_t i = 0; i < N_KINDS; i++)
        buf_printf(&all, "%s%s", i == 0 ? "" : i + 1 < N_KINDS ? ", " : " and ", names[i]);
    diag_suggest(d, emit, N_KINDS, names);
    diag_help(d, "there are %s", buf_text(&all));
    buf_deinit(&all);
    return false;
}

static void name_targets(RelaySession *s, Diag *d)
{
    Buf names = {0};
    for (int i = 0; s->jit_table->gpu_target(i); i++)
        buf_printf(&names, "%s%s", i ? ", " : "", s->jit_table->gpu_target(i));
    diag_help(d, "one of %s", buf_text(&names));
    buf_deinit(&names);
}

/* The GPU of this name; NULL: there is none, and what it may be is said. */
const char *stage_target(RelaySession *s, const char *target)
{
    const char *name;
    for (int i = 0; (name = s->jit_table->gpu_target(i)); i++)
        if (!strcmp(name, target))
            return name;
    name_targets(s, diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                               "`--target %s`: there is no such GPU", target));
    return NULL;
}

/* Whether such text is made for the target, which may be NULL. */
static bool check_target(RelaySession *s, JitText kind, const char *target)
{
    if (!target || kind == JIT_TEXT_PTX || kind == JIT_TEXT_LOWERED)
        return !target || stage_target(s, target);
    name_targets(s, diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                               "`--target` says which GPU `ptx` or `lowered` are for"));
    return false;
}

/* All stages beside each other: a page, or what programs read of it. */
static void compile_page(RelaySession *s, Module *m, const Def *def, bool page, Buf *out)
{
    FollowViews views = {.html = page ? out : NULL, .json = page ? NULL : out};
    if (page)
        html_page_begin(out, def->name->text);
    follow(s, &(Thunk){.module = m, .name = def->name}, &views);
    if (page)
        html_one_sheet(out);
}

static void write_compiled(RelaySession *s, const RelayRequest *r, const Buf *out)
{
    const char *path = request_find(r, "out");
    if (path && strcmp(path, "-"))
        file_write(&s->cx.limits, s->cx.diags, path, buf_text(out), out->n);
    else
        emit_text(s, RELAY_OUTPUT_TEXT, out);
}

/* ---- for others to run --------------------------------------------------------------------------------------------------------- */

/* The functions that are asked for, with what is bound: all of the program when none is named. */
typedef struct Exports {
    Module *m; /* counted */
    size_t n;
    const Def **defs;
} Exports;

static bool exports_add(RelaySession *s, const RelayRequest *r, Exports *w, const Name **names,
                        const char *name)
{
    const Def *def = find_entry(s, w->m, name);
    if (!def || !def->fn)
        return false;
    for (size_t i = 0; i < w->n; i++)
        if (names[i] == def->name)
            return true;
    names[w->n++] = def->name;
    Module *bound = request_bound(s, r, w->m, def->name);
    if (!bound)
        return false;
    module_release(w->m);
    w->m = bound;
    return true;
}

/* False after a diagnostic. */
static bool exports_find(RelaySession *s, const RelayRequest *r, Module *text, bool one, Exports *w)
{
    const char *entry = request_find(r, "entry");
    Module *whole = with_main(s, text);
    *w = (Exports){.m = whole ? module_retain(whole) : NULL};
    bool ok = whole != NULL;
    size_t most = whole ? whole->defs.n + r->n_params + 1 : 1;
    const Name **names = arena_alloc_must(&text->arena, most, sizeof *names);
    if (one)
        ok = ok && exports_add(s, r, w, names, entry ? entry : "main");
    for (size_t i = 0; ok && !one && i < r->n_params; i++)
        if (!strcmp(r->params[i].key, "entry"))
            ok = exports_add(s, r, w, names, r->params[i].value);
    for (size_t i = 0; ok && !one && !entry && i < whole->defs.n; i++)
        if (whole->defs.at[i].fn && !whole->defs.at[i].imported)
            ok = exports_add(s, r, w, names, whole->defs.at[i].name->text);
    if (ok && w->n == 0) {
        diag_error(s->cx.diags, E0402_USAGE, (Span){0}, "the program has no function");
        ok = false;
    }
    w->defs = arena_alloc_must(&text->arena, w->n + 1, sizeof *w->defs);
    for (size_t i = 0; ok && i < w->n; i++)
        w->defs[i] = module_find(w->m, names[i]);
    module_release(whole);
    return ok;
}

/* The path of what is installed with relay, without links and dots. */
static bool find_sibling(RelaySession *s, const char *name, char path[PATH_MAX])
{
    Buf there = {0};
    bool found = plugin_sibling(name, &there) && realpath(buf_text(&there), path);
    buf_deinit(&there);
    if (!found)
        diag_error(s->cx.diags, E0404_LIBRARY, (Span){0},
                   "`%s`, which what is made needs, is not installed", name);
    return found;
}

static void cut_to_folder(char *path)
{
    *strrchr(path, '/') = '\0';
}

static void make_library(RelaySession *s, const RelayRequest *r, const Exports *w)
{
    const char *path = request_find(r, "out"), *slash = strrchr(path, '/'), *file = r->name;
    Buf code = {0}, out = {0};
    /* The last one is `error`. */
    Buf *symbols = memory_must((w->n + 1) * sizeof *symbols);
    char folder[PATH_MAX];
    for (size_t i = 0; i <= w->n; i++) {
        symbols[i] = (Buf){0};
        compiled_symbol(&symbols[i], file, i < w->n ? w->defs[i]->name->text : "error");
    }
    if (find_sibling(s, RELAY_LIBRARY, folder) && compiled_write(s, w->m, w->n, w->defs, &code)) {
        cut_to_folder(folder);
        shared_object(&out, &code, slash ? slash + 1 : path, folder, w->n, symbols,
                      buf_text(&symbols[w->n]));
        if (out.failed)
            limit_reach(&s->cx.limits, LIMIT_MEMORY);
        else
            file_write_pieces(&s->cx.limits, s->cx.diags, path, &(FilePiece){out.at, out.n}, 1,
                              FILE_PROGRAM);
    }
    for (size_t i = 0; i <= w->n; i++)
        buf_deinit(&symbols[i]);
    memory_free(symbols);
    buf_deinit(&code);
    buf_deinit(&out);
}

static void make_program(RelaySession *s, const RelayRequest *r, const Exports *w)
{
    char relay[PATH_MAX];
    Buf code = {0}, program = {0}, rest = {0};
    size_t n;
    char *bytes = NULL;
    if (find_sibling(s, "relay", relay) && compiled_write(s, w->m, w->n, w->defs, &code) &&
        (bytes = file_read(&s->cx.limits, s->cx.diags, relay, &n))) {
        FilePiece pieces[ATTACHED_PIECES];
        buf_bytes(&program, bytes, n);
        cut_to_folder(relay);
        strncat(relay, "/", PATH_MAX - strlen(relay) - 1);
        attached_pieces(&program, &code, relay, &rest, pieces);
        if (program.failed || rest.failed)
            limit_reach(&s->cx.limits, LIMIT_MEMORY);
        else
            file_write_pieces(&s->cx.limits, s->cx.diags, request_find(r, "out"), pieces,
                              ATTACHED_PIECES, FILE_PROGRAM);
    }
    free(bytes);
    buf_deinit(&program);
    buf_deinit(&code);
    buf_deinit(&rest);
}

static void make_for_others(RelaySession *s, const RelayRequest *r, Make make, Module *text)
{
    const char *path = request_find(r, "out");
    Exports w = {0};
    if (make != MAKE_HEADER && (!path || !strcmp(path, "-"))) {
        diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                   "`--emit %s` makes a file: `-o FILE` is missing", request_find(r, "emit"));
    } else if (request_find(r, "target")) {
        Diag *d = diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                             "`--emit %s` is for this machine, not for `--target %s`",
                             request_find(r, "emit"), request_find(r, "target"));
        diag_help(d, "run `relay compile` on the machine that it is for");
    } else if (exports_find(s, r, text, make == MAKE_PROGRAM, &w) &&
               (make == MAKE_PROGRAM || compiled_suits_c(s, r->name, w.n, w.defs))) {
        if (make == MAKE_LIBRARY) {
            make_library(s, r, &w);
        } else if (make == MAKE_PROGRAM) {
            make_program(s, r, &w);
        } else {
            Buf out = {0};
            compiled_header(s, r->name, w.n, w.defs, &out);
            write_compiled(s, r, &out);
            buf_deinit(&out);
        }
    }
    module_release(w.m);
}

/* ---- to look at ----------------------------------------------------------------------------------------------------------------- */

static void make_text(RelaySession *s, const RelayRequest *r, Make make, JitText kind, Module *text)
{
    const char *entry = request_find(r, "entry"), *target = request_find(r, "target");
    bool page = make == MAKE_PAGE;
    Module *m = with_entry(s, r, text, entry ? entry : "main");
    const Def *def = m ? find_entry(s, m, entry ? entry : "main") : NULL;
    Buf why = {0}, out = {0};
    Runnable code = {0};
    /* Programs for a card are optimised for one. */
    bool was = engine_on_gpu(s, !page && (target || kind == JIT_TEXT_PTX));
    if (def && page) {
        compile_page(s, m, def, !strcmp(request_find(r, "emit"), "html"), &out);
        if (session_status(s) == RELAY_OK)
            write_compiled(s, r, &out);
    } else if (def && engine_compile(s, m, def->name, COMPILE_TO_SHOW, &code, &why)) {
        if (check_target(s, kind, target) &&
            s->jit_table->text(s->jit, code.env, def->name,
                               &(JitTextWish){.kind = kind, .target = target}, &out))
            write_compiled(s, r, &out);
        engine_release(s, &code);
    } else if (def && session_status(s) != RELAY_OK) {
        /* It has been said. */
    } else if (def && !s->jit) {
        diag_error(s->cx.diags, E0404_LIBRARY, (Span){0}, "nothing can be compiled: %s",
                   buf_text(&why));
    } else if (def) {
        diag_error(s->cx.diags, E0701_CANNOT_COMPILE, def->span, "`@%s` cannot be compiled: %s",
                   def->name->text, buf_text(&why));
    }
    engine_on_gpu(s, was);
    buf_deinit(&why);
    buf_deinit(&out);
    module_release(m);
}

RelayStatus stage_compile(RelaySession *s, const RelayRequest *r)
{
    const char *emit = request_find(r, "emit");
    Make make;
    JitText kind;
    Module *text = find_kind(s, emit ? emit : "llvm-ir", &make, &kind)
                       ? load_program(s, r->name, r->text, r->len, true)
                       : NULL;
    if (text && (make == MAKE_TEXT || make == MAKE_PAGE))
        make_text(s, r, make, kind, text);
    else if (text)
        make_for_others(s, r, make, text);
    RelayStatus status = session_status(s);
    module_release(text);
    return status;
}
