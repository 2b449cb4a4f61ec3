#define _GNU_SOURCE 1
#include "base/plugin.h"

#include "base/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

void *library_open(const char *const *names, size_t n, int flags, Buf *why)
{
    void *handle = NULL;
    for (size_t i = 0; i < n && !handle; i++) {
        errno = 0;
        handle = dlopen(names[i], flags);
        /* The loader's texts do not all say so. */
        if (!handle && errno == ENOMEM)
            memory_refused();
        if (!handle && why && why->n == 0)
            buf_str(why, dlerror());
    }
    return handle;
}

/* Where a plug-in lies, seen from the folder of the executable or of librelay. */
static const char *const places[] = {"", "../" RELAY_LIBDIR "/relay/", "relay/"};

/* The folder of the running executable, ending in a slash. */
static bool executable_folder(char folder[PATH_MAX])
{
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0)
        return false;
    folder[n] = '\0';
    char *slash = strrchr(folder, '/');
    if (!slash)
        return false;
    slash[1] = '\0';
    return true;
}

/* The folder of the library that this code was linked into, when that is not the executable. */
static bool library_folder(char folder[PATH_MAX])
{
    Dl_info info;
    if (!dladdr((const void *)places, &info) || !info.dli_fname)
        return false;
    size_t n = strlen(info.dli_fname);
    const char *slash = strrchr(info.dli_fname, '/');
    if (!slash || n >= PATH_MAX)
        return false;
    n = (size_t)(slash - info.dli_fname) + 1;
    memcpy(folder, info.dli_fname, n);
    folder[n] = '\0';
    return true;
}

/* Opens the plug-in in one of the places below `folder`; NULL when none of them has it or it does
   not load, which only the latter explains. */
static void *open_below(const char *folder, const char *name, Buf *why)
{
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        Buf path = {0};
        buf_printf(&path, "%s%srelay-%s.so", folder, places[i], name);
        void *handle = NULL;
        bool there = access(buf_text(&path), R_OK) == 0;
        if (there)
            handle =
                library_open(&(const char *){buf_text(&path)}, 1, RTLD_LAZY | RTLD_GLOBAL, why);
        buf_deinit(&path);
        if (there)
            return handle;
    }
    return NULL;
}

/* Who opened this library for itself alone, as Python does, hides what plug-ins take from it. */
static void show_library(void)
{
    Dl_info info;
    if (dladdr((const void *)places, &info) && info.dli_fname)
        dlopen(info.dli_fname, RTLD_LAZY | RTLD_GLOBAL | RTLD_NOLOAD);
}

static const char *also;

void plugin_also_in(const char *folder)
{
    also = folder;
}

bool plugin_sibling(const char *name, Buf *path)
{
    static const char *const there[] = {"", "../bin/", "../" RELAY_LIBDIR "/"};
    char folder[PATH_MAX];
    for (int from = 0; from < 2; from++)
        for (size_t i = 0; i < sizeof there / sizeof there[0]; i++) {
            if (!(from ? library_folder(folder) : executable_folder(folder)))
                continue;
            buf_clear(path);
            buf_printf(path, "%s%s%s", folder, there[i], name);
            if (access(buf_text(path), R_OK) == 0)
                return true;
        }
    return false;
}

PluginEntry *plugin_open(const char *name, const char *entry, Buf *why)
{
    char folder[PATH_MAX];
    void *handle = NULL;
    show_library();
    if (executable_folder(folder))
        handle = open_below(folder, name, why);
    if (!handle && why->n == 0 && library_folder(folder))
        handle = open_below(folder, name, why);
    if (!handle && why->n == 0 && also)
        handle = open_below(also, name, why);
    if (!handle) {
        if (why->n == 0)
            buf_printf(why, "the plug-in relay-%s.so is not installed", name);
        return NULL;
    }
    /* relay-llvm.so has none, because it takes nothing of the program. */
    const char *mark = dlsym(handle, "relay_plugin_mark");
    if (mark && strcmp(mark, relay_plugin_mark) != 0) {
        buf_printf(why, "the plug-in relay-%s.so is of another build of relay than the program",
                   name);
        return NULL;
    }
    void *symbol = dlsym(handle, entry);
    if (!symbol) {
        buf_printf(why, "the plug-in relay-%s.so does not have `%s`", name, entry);
        return NULL;
    }
    /* POSIX lets a data pointer from dlsym hold a function; ISO C has no conversion for it. */
    PluginEntry *function;
    memcpy(&function, &symbol, sizeof function);
    return function;
}

PluginEntry *library_entry(const char *library, const char *name)
{
    void *handle = library_open(&library, 1, RTLD_LAZY | RTLD_LOCAL, NULL);
    return handle ? (PluginEntry *)(uintptr_t)dlsym(handle, name) : NULL;
}

/* ---- builds ------------------------------------------------------------------------------------------------------------ */

typedef struct Build {
    uintptr_t address;
    Buf *out;
    bool found;
} Build;

/* Notes are a name and what it says, each padded to a word. */
static void read_notes(Build *b, const char *at, size_t n)
{
    const ElfW(Nhdr) * note;
    for (; n >= sizeof *note;) {
        note = (const void *)at;
        size_t name = ((size_t)note->n_namesz + 3) & ~(size_t)3;
        size_t size = sizeof *note + name + (((size_t)note->n_descsz + 3) & ~(size_t)3);
        if (size > n)
            return;
        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4 &&
            !memcmp(at + sizeof *note, "GNU", 4)) {
            buf_bytes(b->out, at + sizeof *note + name, note->n_descsz);
            b->found = true;
        }
        at += size;
        n -= size;
    }
}

static int look_at(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)size;
    Build *b = data;
    bool here = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr;
        here |= p->p_type == PT_LOAD && b->address >= from && b->address - from < p->p_memsz;
    }
    for (int i = 0; here && i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_NOTE)
            read_notes(b, (const char *)(uintptr_t)(info->dlpi_addr + p->p_vaddr), p->p_memsz);
    }
    return here;
}

bool plugin_build(const void *address, Buf *out)
{
    Build b = {(uintptr_t)address, out, false};
    dl_iterate_phdr(look_at, &b);
    return b.found;
}
