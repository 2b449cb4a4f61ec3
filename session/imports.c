/* `import`: the libraries, and files beside the importing one. A file is one module for all that import it, so that its types are
 * the same wherever they come from; it is read again when its text, or that of a file it imports, has changed. */
#include "runtime/npy.h"
#include "base/memory.h"
#include "session/internal.h"
#include "stdlib/stdlib.h"
#include "typecheck/typecheck.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct Imported {
    Imported *next;
    char *path; /* without links and dots: who it is */
    char *name; /* as it is called in messages */
    char *text;
    size_t len;
    Module *module; /* NULL: it is being read, or was wrong */
    bool open; /* it is being read: to import it now is to go round in a circle */
};

static Module *check_source(RelaySession *s, uint32_t source)
{
    ParseEnv env = {.import = session_import, .data = s, .keep_broken = true};
    Diag *before = s->cx.diags->last;
    Module *m = session_parse(s, source, &env);
    if (m && session_check(s, m, NULL, (CheckWish){0}) && !limit_refused(&s->cx.limits))
        return m;
    if (m && m->broken)
        diags_sort(s->cx.diags, before);
    module_release(m);
    return NULL;
}

static Module *library(RelaySession *s, const PreludeFile *file)
{
    size_t at = (size_t)(file - prelude_files);
    if (at >= sizeof s->libraries / sizeof *s->libraries)
        return NULL;
    if (!s->libraries[at]) {
        uint32_t source = sources_add(&s->cx.sources, file->name, file->text, file->len);
        s->libraries[at] = check_source(s, source);
    }
    return s->libraries[at] ? module_retain(s->libraries[at]) : NULL;
}

Module *session_library(RelaySession *s, Str name)
{
    const PreludeFile *file = stdlib_text(name);
    return file ? library(s, file) : NULL;
}

/* ---- files -------------------------------------------------------------------------------------- */

/* The path from the file `from`. */
static char *beside(const char *from, Str path)
{
    Buf b = {0};
    const char *slash = from ? strrchr(from, '/') : NULL;
    if (slash && (path.len == 0 || path.ptr[0] != '/'))
        buf_bytes(&b, from, (size_t)(slash - from) + 1);
    buf_bytes(&b, path.ptr, path.len);
    return buf_take(&b);
}

static Imported *find(RelaySession *s, const char *path)
{
    Imported *e = s->imported;
    while (e && strcmp(e->path, path) != 0)
        e = e->next;
    return e;
}

/* Whether the module is still what its file says: nesting is bounded by that of the imports that were read. */
static bool is_current(RelaySession *s, const Imported *e)
{
    size_t len;
    char *text = e->module ? file_read(&s->cx.limits, s->cx.diags, e->name, &len) : NULL;
    bool same = text && len == e->len && memcmp(text, e->text, len) == 0;
    free(text);
    for (size_t i = 0; same && i < e->module->imports.n; i++) {
        if (stdlib_text(e->module->imports.at[i]))
            continue;
        char *name = beside(e->name, e->module->imports.at[i]);
        char *path = name ? realpath(name, NULL) : NULL;
        const Imported *below = path ? find(s, path) : NULL;
        same = below && below->module && ptrmap_has(&e->module->used, below->module) &&
               is_current(s, below);
        free(path);
        free(name);
    }
    return same;
}

/* Takes path and name. */
static Imported *add(RelaySession *s, char *path, char *name)
{
    Imported *e = memory_zeroed(1, sizeof *e);
    if (!e)
        return NULL;
    *e = (Imported){.next = s->imported, .path = path, .name = name};
    s->imported = e;
    return e;
}

static bool read_file(RelaySession *s, Imported *e)
{
    module_release(e->module);
    free(e->text);
    e->module = NULL;
    struct stat st;
    if (stat(e->path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)) {
        diag_error(s->cx.diags, E0401_FILE, (Span){0},
                   "cannot import `%s`: it is no file, which can be read again", e->name);
        return false;
    }
    e->text = file_read(&s->cx.limits, s->cx.diags, e->name, &e->len);
    if (!e->text)
        return false;
    e->open = true;
    e->module = check_source(s, sources_add(&s->cx.sources, e->name, e->text, e->len));
    e->open = false;
    return e->module != NULL;
}

static void report_circle(RelaySession *s, const Imported *e, Span span)
{
    Diag *d = diag_error(s->cx.diags, E0120_IMPORT, span, "imports go round in a circle");
    for (const Imported *on = s->imported; on; on = on->next)
        if (on->open)
            diag_note(d, "`%s` is being imported%s", on->name, on == e ? ", and here again" : "");
}

static Module *import_file(RelaySession *s, char *name, char *path, Span span)
{
    Imported *e = find(s, path);
    if (e) {
        free(name);
        free(path);
    } else {
        e = add(s, path, name);
    }
    if (e && e->open)
        report_circle(s, e, span);
    else if (e && (is_current(s, e) || read_file(s, e)))
        return module_retain(e->module);
    return NULL;
}

static void report_missing(RelaySession *s, Str path, Span span)
{
    enum { MOST = 16 };
    Diag *d = diag_error(s->cx.diags, E0120_IMPORT, span, "there is no file or library `%.*s`",
                         (int)path.len, path.ptr);
    const char *names[MOST];
    size_t n = 0;
    Buf b = {0};
    for (const PreludeFile *f = prelude_files; f->name && n < MOST; f++) {
        buf_printf(&b, "%s`%s`", n ? ", " : "", f->name);
        names[n++] = f->name;
    }
    char *wanted = memory_text(path.ptr, path.len);
    diag_suggest(d, wanted ? wanted : "", n, names);
    diag_help(d, "a path counts from the file that imports; the libraries are %s", buf_text(&b));
    free(wanted);
    buf_deinit(&b);
}

Module *session_import(void *session, Str path, Span span)
{
    RelaySession *s = session;
    const PreludeFile *file = stdlib_text(path);
    if (file)
        return library(s, file);
    const Source *from = sources_get(&s->cx.sources, span.source);
    char *name = beside(from ? from->name : NULL, path);
    char *real = name && access(name, R_OK) == 0 ? realpath(name, NULL) : NULL;
    if (real)
        return import_file(s, name, real, span);
    report_missing(s, path, span);
    free(name);
    return NULL;
}

void session_forget_imports(RelaySession *s)
{
    while (s->imported) {
        Imported *e = s->imported;
        s->imported = e->next;
        module_release(e->module);
        free(e->path);
        free(e->name);
        free(e->text);
        free(e);
    }
}
