#define _GNU_SOURCE 1
#include "kernel/kernel_main.h"

#include "base/buf.h"
#include "base/str.h"
#include "include/relay.h"
#include "kernel/assets.h"
#include "base/file.h"

#include <errno.h>
#include <glob.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: relay kernel install [--user | --sys-prefix | --prefix DIR] [--name NAME] [--sandbox]\n"
    "\n"
    "  --user        for this user (the default)\n"
    "  --sys-prefix  into the Python environment that is active\n"
    "  --prefix DIR  below DIR/share/jupyter\n"
    "  --name NAME   what Jupyter calls the kernel; `relay` if not given\n"
    "  --sandbox     notebooks open no file, no network and no process\n";

typedef struct Install {
    Buf root;                   /* the data folder of Jupyter */
    const char *name;
    bool help, sandbox;
    bool user; /* for one person, in his home */
} Install;

/* ---- where ---- */

static bool user_root(Buf *root)
{
    const char *data = getenv("JUPYTER_DATA_DIR"), *share = getenv("XDG_DATA_HOME"),
               *home = getenv("HOME");
    if (data && *data)
        buf_str(root, data);
    else if (share && *share)
        buf_printf(root, "%s/jupyter", share);
    else if (home && *home)
        buf_printf(root, "%s/.local/share/jupyter", home);
    else
        dprintf(STDERR_FILENO, "relay kernel install: there is no home folder; use --prefix\n");
    return root->n > 0;
}

static bool environment_root(Buf *root)
{
    const char *prefix = getenv("VIRTUAL_ENV");
    if (!prefix || !*prefix)
        prefix = getenv("CONDA_PREFIX");
    if (prefix && *prefix)
        buf_printf(root, "%s/share/jupyter", prefix);
    else
        dprintf(STDERR_FILENO,
                "relay kernel install: no Python environment is active; use --prefix\n");
    return root->n > 0;
}

/* Jupyter's rule for the names of kernels. */
static bool is_name(const char *name)
{
    size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-");
    return *name && name[good] == '\0' && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

/* The argument of an option at argv[*i]: behind `=` or the next one; NULL when it is another
 * option. */
static const char *option(int argc, char **argv, int *i, const char *name)
{
    size_t n = strlen(name);
    if (strncmp(argv[*i], name, n) != 0)
        return NULL;
    if (argv[*i][n] == '=')
        return argv[*i] + n + 1;
    return argv[*i][n] == '\0' && *i + 1 < argc ? argv[++*i] : NULL;
}

static bool read_argument(Install *in, int argc, char **argv, int *i)
{
    const char *value;
    if (strcmp(argv[*i], "--help") == 0) {
        in->help = true;
        return true;
    }
    if (strcmp(argv[*i], "--sandbox") == 0) {
        in->sandbox = true;
        return true;
    }
    if (strcmp(argv[*i], "--user") == 0 || strcmp(argv[*i], "--sys-prefix") == 0) {
        buf_clear(&in->root);
        in->user = argv[*i][2] == 'u';
        return in->user ? user_root(&in->root) : environment_root(&in->root);
    }
    if ((value = option(argc, argv, i, "--prefix"))) {
        buf_clear(&in->root);
        in->user = false;
        buf_printf(&in->root, "%s/share/jupyter", value);
        return true;
    }
    if ((value = option(argc, argv, i, "--name")) && is_name(value)) {
        in->name = value;
        return true;
    }
    const char *why = value ? "is no name: letters, digits, `.`, `-` and `_` make one"
                      : strcmp(argv[*i], "--prefix") == 0 ? "wants a folder behind it"
                      : strcmp(argv[*i], "--name") == 0   ? "wants a name behind it"
                                                          : "is no option";
    dprintf(STDERR_FILENO, "relay kernel install: `%s` %s\n%s", argv[*i], why, usage);
    return false;
}

/* ---- what ---- */

/* Writes one file below the data folder of Jupyter. */
static bool write_file(const Install *in, const char *folder, const char *name, const void *bytes,
                       size_t n)
{
    Buf path = {0};
    buf_printf(&path, "%s/%s/%s", buf_text(&in->root), folder, name);
    bool ok = !path.failed && file_make_folders(path.at, FILE_EVERYBODYS) &&
              file_store(path.at, bytes, n, FILE_EVERYBODYS);
    if (!ok)
        dprintf(STDERR_FILENO, "relay kernel install: cannot write %s: %s\n", buf_text(&path),
                strerror(errno));
    buf_deinit(&path);
    return ok;
}

/* The description names the program that runs now, by its absolute path. */
static bool write_description(const Install *in, const char *folder)
{
    char program[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    if (n <= 0) {
        dprintf(STDERR_FILENO, "relay kernel install: cannot find this program: %s\n",
                strerror(errno));
        return false;
    }
    program[n] = '\0';
    json_t *description =
        json_pack("{s:[s, s, s, s, s], s:s, s:s, s:s, s:s, s:{s:b, s:[s]}}", "argv", program,
                  "kernel", "run", "-f", "{connection_file}", "display_name", "Relay", "language",
                  "relay", "interrupt_mode", "message", "kernel_protocol_version", "5.5.0",
                  "metadata", "debugger", 1, "supported_encryption", "curve");
    if (description && in->sandbox)
        json_array_append_new(json_object_get(description, "argv"), json_string("--sandbox"));
    if (description && in->sandbox)
        json_object_set_new(description, "display_name", json_string("Relay (sandbox)"));
    char *text = description ? json_dumps(description, JSON_INDENT(2)) : NULL;
    json_decref(description);
    bool ok = text && write_file(in, folder, "kernel.json", text, strlen(text));
    free(text);
    return ok;
}

static bool is_logo(const char *name)
{
    return strncmp(name, "logo-", 5) == 0;
}

/* ---- colours for what is made of notebooks ---- */

static const char lexer_file[] = "relay_pygments.py",
                  lexer_folder[] = "relay_pygments-0.0.5.dist-info";

/* What Python's tools know an installed package by. */
static const struct {
    const char *name, *text;
} lexer_facts[] = {
    {"METADATA", "Metadata-Version: 2.1\nName: relay-pygments\nVersion: 0.0.5\n"
                 "Summary: Colours for Relay\n"},
    {"entry_points.txt", "[pygments.lexers]\nrelay = relay_pygments:RelayLexer\n"},
    {"INSTALLER", "relay\n"},
    {"RECORD", "relay_pygments.py,,\nrelay_pygments-0.0.5.dist-info/METADATA,,\n"
               "relay_pygments-0.0.5.dist-info/entry_points.txt,,\n"
               "relay_pygments-0.0.5.dist-info/INSTALLER,,\n"
               "relay_pygments-0.0.5.dist-info/RECORD,,\n"},
};

static bool write_lexer(const char *packages, const Asset *lexer)
{
    const Install at = {.root = {.at = (char *)(uintptr_t)packages, .n = strlen(packages)}};
    bool ok = write_file(&at, ".", lexer_file, lexer->bytes, lexer->size);
    for (size_t i = 0; i < sizeof lexer_facts / sizeof *lexer_facts && ok; i++)
        ok = write_file(&at, lexer_folder, lexer_facts[i].name, lexer_facts[i].text,
                        strlen(lexer_facts[i].text));
    return ok;
}

/* Into every Python that stands beside the data folder, `PREFIX/share/jupyter`; for a user's own folder that is his packages. Debian's
 * Python looks into `dist-packages` where it was not built by a person. How many there are; -1 after a message. */
static int write_beside(Str prefix, const Asset *lexer)
{
    static const char *const folders[] = {"site-packages", "dist-packages"};
    int n = 0;
    for (size_t k = 0; k < sizeof folders / sizeof *folders && n >= 0; k++) {
        Buf pattern = {0};
        glob_t found = {0};
        buf_printf(&pattern, "%.*s/lib/python3*/%s", (int)prefix.len, prefix.ptr, folders[k]);
        if (glob(buf_text(&pattern), GLOB_ONLYDIR, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc && n >= 0; i++)
                n = write_lexer(found.gl_pathv[i], lexer) ? n + 1 : -1;
        globfree(&found);
        buf_deinit(&pattern);
    }
    return n;
}

/* Who never installed a package for himself has no folder for them: it is made for each Python of the system. */
static bool write_for_user(Str prefix, const Asset *lexer)
{
    static const char *const systems[] = {"/usr/lib", "/usr/local/lib"};
    bool ok = true;
    for (size_t k = 0; k < sizeof systems / sizeof *systems && ok; k++) {
        Buf pattern = {0};
        glob_t found = {0};
        buf_printf(&pattern, "%s/python3.*", systems[k]);
        if (glob(buf_text(&pattern), GLOB_ONLYDIR, NULL, &found) == 0)
            for (size_t i = 0; i < found.gl_pathc && ok; i++) {
                Buf path = {0};
                buf_printf(&path, "%.*s/lib/%s/site-packages", (int)prefix.len, prefix.ptr,
                           strrchr(found.gl_pathv[i], '/') + 1);
                ok = write_lexer(buf_text(&path), lexer);
                buf_deinit(&path);
            }
        globfree(&found);
        buf_deinit(&pattern);
    }
    return ok;
}

static bool write_lexers(const Install *in, const Asset *lexer)
{
    static const char share[] = "/share/jupyter";
    size_t n = in->root.n - (sizeof share - 1);
    if (in->root.n < sizeof share || strcmp(buf_text(&in->root) + n, share) != 0)
        return true;
    Str prefix = {buf_text(&in->root), n};
    int found = write_beside(prefix, lexer);
    if (found == 0 && !in->user)
        dprintf(STDERR_FILENO,
                "note: no Python is in %.*s, so nbconvert shows code without colours; where "
                "Jupyter stands in an "
                "environment of its own, `--sys-prefix` in that brings them\n",
                (int)prefix.len, prefix.ptr);
    return found > 0 || (found == 0 && (!in->user || write_for_user(prefix, lexer)));
}

/* In the extension. */
static const char *place_of(const char *name)
{
    if (strcmp(name, "package.json") == 0)
        return "labextensions/relay-lang";
    return strcmp(name, "types.json") == 0 ? "labextensions/relay-lang/schemas/relay-lang"
                                           : "labextensions/relay-lang/static";
}

/* Logos go beside the description, the lexer into Python, the rest is the extension for JupyterLab. */
static bool write_assets(const Install *in, const char *folder)
{
    for (const Asset *a = kernel_assets; a->name; a++) {
        const char *place = folder;
        if (strcmp(a->name, lexer_file) == 0) {
            if (!write_lexers(in, a))
                return false;
            continue;
        }
        if (!is_logo(a->name))
            place = place_of(a->name);
        if (!write_file(in, place, a->name, a->bytes, a->size))
            return false;
    }
    return true;
}

int relay_kernel_install(int argc, char **argv)
{
    Install in = {.name = "relay", .user = true};
    bool ok = true;
    for (int i = 0; i < argc && ok && !in.help; i++)
        ok = read_argument(&in, argc, argv, &i);
    if (ok && in.help)
        dprintf(STDOUT_FILENO, "%s", usage);
    if (ok && !in.help && in.root.n == 0)
        ok = user_root(&in.root);
    if (ok && !in.help) {
        Buf folder = {0};
        buf_printf(&folder, "kernels/%s", in.name);
        ok = write_description(&in, buf_text(&folder)) && write_assets(&in, buf_text(&folder));
        if (ok)
            dprintf(STDOUT_FILENO, "Installed the kernel in %s/%s\n", buf_text(&in.root),
                    buf_text(&folder));
        buf_deinit(&folder);
    }
    buf_deinit(&in.root);
    return ok ? RELAY_OK : RELAY_USAGE;
}
