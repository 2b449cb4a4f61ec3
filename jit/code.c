/* Modules that were compiled, from objects to code that can be called.
 *
 * What lies outside of an object is found by its name: functions of the runtime stand in a table, what the module imports has a number,
 * and all else is code of the same unit or of a kernel that it calls. */
#include "base/memory.h"
#include "base/plugin.h"
#include "jit/internal.h"
#include "jit/kernel.h"

#include <stdlib.h>
#include <string.h>

typedef struct Finding {
    const Unit *u;
    Code *code;
} Finding;

static const void *find_import(Code *code, const char *name)
{
    char *end;
    unsigned long i = strtoul(name, &end, 10);
    if (*end != '.' || end == name || i >= code->imports.n)
        return NULL;
    code->imports.at[i].used = true;
    return code->imports.at[i].address;
}

static const void *find_row(const char *name)
{
    for (const AbiRow *row = abi_table; row->name; row++)
        if (!strcmp(row->name, name))
            return row->address;
    return NULL;
}

void *code_find(const Code *code, const char *symbol)
{
    return code->image ? image_find(code->image, symbol) : NULL;
}

static const void *find_name(void *data, const char *name)
{
    const Finding *f = data;
    if (!strncmp(name, IMPORT_PREFIX, strlen(IMPORT_PREFIX)))
        return find_import(f->code, name + strlen(IMPORT_PREFIX));
    const void *at = find_row(name);
    for (size_t i = 0; !at && i < f->u->codes.n; i++)
        at = code_find(f->u->codes.at[i], name);
    for (size_t i = 0; !at && i < f->u->batches.n; i++)
        at = batch_find(f->u->batches.at[i], name);
    /* What LLVM calls by itself: conversions of small floats, say. */
    return at ? at : (const void *)(uintptr_t)library_entry(NULL, name);
}

bool code_link(Unit *u, Code *code, Buf *why)
{
    Finding f = {u, code};
    ImageParts parts = {code->objects.n, code->objects.at, find_name, &f};
    code->image = image_link(&parts, why);
    return code->image != NULL;
}

bool code_finish(Unit *u, Code *code)
{
    Buf why = {0};
    bool ok = code_link(u, code, &why);
    if (!ok)
        diag_error(u->jit->cx->diags, E0702_LLVM, (Span){0}, "the code cannot be linked: %s",
                   why.n ? buf_text(&why) : "there is no memory for it");
    buf_deinit(&why);
    if (!u->key && !u->whole)
        code_drop_objects(code);
    return ok;
}

void code_drop_objects(Code *code)
{
    for (size_t i = 0; i < code->objects.n && !code->lent; i++)
        memory_free((char *)(uintptr_t)code->objects.at[i].ptr);
    code->objects.n = 0;
}

void code_free(Code *code)
{
    if (!code)
        return;
    image_free(code->image);
    code_drop_objects(code);
    code->image = NULL;
}
