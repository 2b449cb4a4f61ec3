#define _GNU_SOURCE 1
#include "jit/image.h"

#include "base/memory.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Where sections lie, by what may be done with them: each begins a page. */
typedef enum Segment { SEGMENT_CODE, SEGMENT_CONSTANT, SEGMENT_DATA, SEGMENTS } Segment;

static const int protections[SEGMENTS] = {PROT_READ | PROT_EXEC, PROT_READ, PROT_READ | PROT_WRITE};

/* jmp *[rip + …] to what lies outside and may be far away. */
#define STUB_SIZE 8

typedef struct Place {
    Segment segment;
    size_t at; /* from the segment's beginning, before `laid`; then from the image's */
    bool there;
} Place;

/* A symbol as one object sees it. */
typedef struct Seen {
    char *address;
    uint32_t got, stub; /* number + 1; 0: it has none */
    bool near; /* in this image */
} Seen;

typedef struct Object {
    const char *at;
    size_t n;
    const Elf64_Shdr *sections;
    size_t n_sections;
    const char *names; /* of sections */
    size_t names_n;
    Place *places; /* by section */
    const Elf64_Sym *symbols;
    size_t n_symbols;
    const char *texts; /* names of symbols */
    size_t texts_n;
    Seen *seen; /* by symbol */
} Object;

typedef struct Defined {
    char *name; /* NULL: free */
    char *address;
} Defined;

struct Image {
    char *memory;
    size_t size;
    Defined *table; /* by the name's hash */
    size_t cap;
    Arena arena; /* of the names */
};

typedef struct Link {
    const ImageParts *parts;
    Image *im;
    Object *objects;
    size_t sizes[SEGMENTS], begin[SEGMENTS];
    size_t n_got, n_stubs, got_at, stubs_at, n_defined;
    Arena arena;
    Buf *why;
} Link;

static bool wrong(Link *l, const char *what)
{
    if (l->why->n == 0)
        buf_str(l->why, what);
    return false;
}

/* ---- reading an object ------------------------------------------------------------------------------------------------------ */

/* The table of `n` entries of this size, when all of it lies in the object. */
static const void *table_at(const Object *o, uint64_t from, uint64_t n, size_t size)
{
    bool in = from <= o->n && n <= (o->n - from) / size && from % 8 == 0;
    return in ? o->at + from : NULL;
}

/* The text at this offset, when it ends inside. */
static const char *text_at(const char *texts, size_t n, size_t at)
{
    return at < n && memchr(texts + at, 0, n - at) ? texts + at : NULL;
}

static bool read_head(Link *l, Object *o)
{
    const Elf64_Ehdr *head = table_at(o, 0, 1, sizeof *head);
    if (!head || memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 ||
        head->e_ident[EI_CLASS] != ELFCLASS64 || head->e_ident[EI_DATA] != ELFDATA2LSB ||
        head->e_type != ET_REL || head->e_machine != EM_X86_64 ||
        head->e_shentsize != sizeof(Elf64_Shdr))
        return wrong(l, "an object is none for this processor");
    o->n_sections = head->e_shnum;
    o->sections = table_at(o, head->e_shoff, 1, sizeof(Elf64_Shdr));
    /* More sections than the head has room for are counted in the first one. */
    if (o->sections && o->n_sections == 0)
        o->n_sections = o->sections[0].sh_size;
    if (!table_at(o, head->e_shoff, o->n_sections, sizeof(Elf64_Shdr)))
        return wrong(l, "an object ends within its sections");
    size_t names =
        head->e_shstrndx == SHN_XINDEX && o->n_sections ? o->sections[0].sh_link : head->e_shstrndx;
    if (names >= o->n_sections)
        return wrong(l, "an object's sections have no names");
    const Elf64_Shdr *s = &o->sections[names];
    o->names_n = s->sh_size;
    o->names =
        s->sh_offset <= o->n && s->sh_size <= o->n - s->sh_offset ? o->at + s->sh_offset : NULL;
    return o->names ? true : wrong(l, "an object's sections have no names");
}

/* Tables for unwinding are not wanted: nothing here unwinds. */
static bool is_wanted(const Object *o, const Elf64_Shdr *s)
{
    const char *name = text_at(o->names, o->names_n, s->sh_name);
    return (s->sh_flags & SHF_ALLOC) && (s->sh_type == SHT_PROGBITS || s->sh_type == SHT_NOBITS) &&
           s->sh_size > 0 && name && strcmp(name, ".eh_frame") != 0;
}

static bool place_section(Link *l, Object *o, size_t i)
{
    const Elf64_Shdr *s = &o->sections[i];
    size_t align = s->sh_addralign ? s->sh_addralign : 1;
    bool in =
        s->sh_type == SHT_NOBITS || (s->sh_offset <= o->n && s->sh_size <= o->n - s->sh_offset);
    if (!in || align & (align - 1) || align > 4096 || s->sh_size > INT32_MAX)
        return wrong(l, "an object ends within a section");
    Segment to = s->sh_flags & SHF_EXECINSTR ? SEGMENT_CODE
                 : s->sh_flags & SHF_WRITE   ? SEGMENT_DATA
                                             : SEGMENT_CONSTANT;
    size_t at = (l->sizes[to] + align - 1) & ~(align - 1);
    o->places[i] = (Place){to, at, true};
    l->sizes[to] = at + s->sh_size;
    return l->sizes[to] <= INT32_MAX / 4 ? true : wrong(l, "there is too much code");
}

static bool read_symbols(Link *l, Object *o, const Elf64_Shdr *s)
{
    if (s->sh_entsize != sizeof(Elf64_Sym) || s->sh_link >= o->n_sections || o->symbols)
        return wrong(l, "an object's symbols cannot be read");
    const Elf64_Shdr *texts = &o->sections[s->sh_link];
    o->n_symbols = s->sh_size / sizeof(Elf64_Sym);
    o->symbols = table_at(o, s->sh_offset, o->n_symbols, sizeof(Elf64_Sym));
    bool in = texts->sh_offset <= o->n && texts->sh_size <= o->n - texts->sh_offset;
    if (!o->symbols || !in)
        return wrong(l, "an object ends within its symbols");
    o->texts = o->at + texts->sh_offset;
    o->texts_n = texts->sh_size;
    o->seen = arena_new_array(&l->arena, Seen, o->n_symbols + 1);
    for (size_t i = 0; i < o->n_symbols; i++) {
        const Elf64_Sym *y = &o->symbols[i];
        bool defined = y->st_shndx != SHN_UNDEF && y->st_shndx != SHN_ABS;
        if (y->st_shndx == SHN_COMMON || y->st_shndx == SHN_XINDEX ||
            !text_at(o->texts, o->texts_n, y->st_name) ||
            (defined &&
             (y->st_shndx >= o->n_sections || y->st_value > o->sections[y->st_shndx].sh_size)))
            return wrong(l, "an object has a symbol that lies nowhere");
        l->n_defined += defined;
    }
    return true;
}

/* Which symbols are reached through a word with their address, and which are called that may be far away. */
static bool note_relocation(Link *l, Object *o, size_t into, const Elf64_Rela *r)
{
    (void)into;
    size_t symbol = ELF64_R_SYM(r->r_info);
    if (symbol >= o->n_symbols)
        return wrong(l, "an object refers to no symbol");
    Seen *seen = &o->seen[symbol];
    bool outside = o->symbols[symbol].st_shndx == SHN_UNDEF;
    switch (ELF64_R_TYPE(r->r_info)) {
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        if (!seen->got)
            seen->got = (uint32_t)++l->n_got;
        return true;
    case R_X86_64_PLT32:
    case R_X86_64_PC32:
        if (outside && !seen->stub) {
            seen->stub = (uint32_t)++l->n_stubs;
            if (!seen->got)
                seen->got = (uint32_t)++l->n_got;
        }
        return true;
    default: return true;
    }
}

typedef bool EachRelocation(Link *l, Object *o, size_t into, const Elf64_Rela *r);

/* What is written into sections that are loaded. */
static bool each_relocation(Link *l, Object *o, const Elf64_Shdr *s, EachRelocation *visit)
{
    if (s->sh_type != SHT_RELA || s->sh_info >= o->n_sections || !o->places[s->sh_info].there)
        return true;
    size_t n = s->sh_size / sizeof(Elf64_Rela);
    const Elf64_Rela *all = table_at(o, s->sh_offset, n, sizeof *all);
    if (!all || s->sh_entsize != sizeof *all)
        return wrong(l, "an object ends within its relocations");
    for (size_t i = 0; i < n; i++)
        if (!visit(l, o, s->sh_info, &all[i]))
            return false;
    return true;
}

static bool read_object(Link *l, Object *o)
{
    bool ok = read_head(l, o);
    if (ok)
        o->places = arena_new_array(&l->arena, Place, o->n_sections + 1);
    for (size_t i = 0; ok && i < o->n_sections; i++) {
        const Elf64_Shdr *s = &o->sections[i];
        if (is_wanted(o, s))
            ok = place_section(l, o, i);
        else if (s->sh_type == SHT_SYMTAB)
            ok = read_symbols(l, o, s);
    }
    for (size_t i = 0; ok && i < o->n_sections; i++)
        ok = each_relocation(l, o, &o->sections[i], note_relocation);
    return ok;
}

/* ---- symbols ---------------------------------------------------------------------------------------------------------------- */

static Defined *slot_of(const Image *im, const char *name)
{
    size_t i = hash_bytes(name, strlen(name), 0) & (im->cap - 1);
    while (im->table[i].name && strcmp(im->table[i].name, name) != 0)
        i = (i + 1) & (im->cap - 1);
    return &im->table[i];
}

void *image_find(const Image *im, const char *name)
{
    return slot_of(im, name)->address;
}

static bool define(Link *l, Object *o, size_t i)
{
    const Elf64_Sym *y = &o->symbols[i];
    const char *name = o->texts + y->st_name;
    if (y->st_shndx == SHN_UNDEF || y->st_shndx == SHN_ABS || !o->places[y->st_shndx].there)
        return true;
    o->seen[i].near = true;
    o->seen[i].address = l->im->memory + o->places[y->st_shndx].at + y->st_value;
    if (ELF64_ST_BIND(y->st_info) == STB_LOCAL)
        return true;
    Defined *d = slot_of(l->im, name);
    if (d->name)
        return ELF64_ST_BIND(y->st_info) == STB_WEAK ? true
                                                     : wrong(l, "two objects define one symbol");
    d->name = (char *)(uintptr_t)arena_copy_text(&l->im->arena, name, strlen(name));
    d->address = o->seen[i].address;
    return true;
}

/* What others define. A weak symbol that nobody defines is nothing. */
static bool resolve(Link *l, Object *o, size_t i)
{
    const Elf64_Sym *y = &o->symbols[i];
    const char *name = o->texts + y->st_name;
    Seen *seen = &o->seen[i];
    if (y->st_shndx == SHN_ABS)
        seen->address = (char *)(uintptr_t)y->st_value;
    if (y->st_shndx != SHN_UNDEF || i == 0)
        return true;
    seen->address = image_find(l->im, name);
    seen->near = seen->address != NULL;
    if (!seen->address)
        seen->address = (char *)(uintptr_t)l->parts->find(l->parts->data, name);
    if (seen->address || ELF64_ST_BIND(y->st_info) == STB_WEAK)
        return true;
    buf_printf(l->why, "there is no `%s`", name);
    return false;
}

/* ---- writing it ------------------------------------------------------------------------------------------------------------- */

static bool lay(Link *l)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE), at = 0;
    l->stubs_at = (l->sizes[SEGMENT_CODE] + STUB_SIZE - 1) & ~(size_t)(STUB_SIZE - 1);
    l->sizes[SEGMENT_CODE] = l->stubs_at + l->n_stubs * STUB_SIZE;
    l->got_at = (l->sizes[SEGMENT_CONSTANT] + 7) & ~(size_t)7;
    l->sizes[SEGMENT_CONSTANT] = l->got_at + l->n_got * 8;
    for (int i = 0; i < SEGMENTS; i++) {
        l->begin[i] = at;
        at += (l->sizes[i] + page - 1) & ~(page - 1);
    }
    l->stubs_at += l->begin[SEGMENT_CODE];
    l->got_at += l->begin[SEGMENT_CONSTANT];
    if (at > INT32_MAX)
        return wrong(l, "there is too much code");
    l->im->size = at ? at : page;
    l->im->memory =
        mmap(NULL, l->im->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->im->memory == MAP_FAILED) {
        l->im->memory = NULL;
        memory_refused();
        return wrong(l, "the system gives no memory for code");
    }
    return true;
}

static void copy_sections(Link *l, Object *o)
{
    for (size_t i = 0; i < o->n_sections; i++) {
        Place *p = &o->places[i];
        if (!p->there)
            continue;
        p->at += l->begin[p->segment];
        if (o->sections[i].sh_type != SHT_NOBITS)
            memcpy(l->im->memory + p->at, o->at + o->sections[i].sh_offset, o->sections[i].sh_size);
    }
}

static void write_ways(Link *l, const Seen *seen)
{
    if (seen->got)
        memcpy(l->im->memory + l->got_at + 8 * (seen->got - 1), &seen->address, 8);
    if (!seen->stub)
        return;
    char *stub = l->im->memory + l->stubs_at + STUB_SIZE * (seen->stub - 1);
    char *word = l->im->memory + l->got_at + 8 * (seen->got - 1);
    int32_t far = (int32_t)(word - (stub + 6));
    memcpy(stub, "\xff\x25", 2);
    memcpy(stub + 2, &far, 4);
}

static bool write_near(Link *l, char *at, int64_t v)
{
    int32_t word = (int32_t)v;
    if (word != v)
        return wrong(l, "a distance in an object is too large");
    memcpy(at, &word, 4);
    return true;
}

static bool relocate(Link *l, Object *o, size_t section, const Elf64_Rela *r)
{
    const Elf64_Shdr *into = &o->sections[section];
    uint32_t kind = ELF64_R_TYPE(r->r_info);
    size_t width = kind == R_X86_64_64 || kind == R_X86_64_PC64 ? 8 : 4;
    const Seen *seen = &o->seen[ELF64_R_SYM(r->r_info)];
    if (r->r_offset > into->sh_size || into->sh_size - r->r_offset < width ||
        into->sh_type == SHT_NOBITS)
        return wrong(l, "a relocation lies outside of its section");
    char *memory = l->im->memory, *at = memory + o->places[section].at + r->r_offset;
    uint64_t symbol = (uint64_t)(uintptr_t)seen->address, add = (uint64_t)r->r_addend,
             here = (uint64_t)(uintptr_t)at, v;
    switch (kind) {
    case R_X86_64_NONE: return true;
    case R_X86_64_64:
        v = symbol + add;
        memcpy(at, &v, 8);
        return true;
    case R_X86_64_PC64:
        v = symbol + add - here;
        memcpy(at, &v, 8);
        return true;
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        if (!seen->near && seen->stub)
            symbol = (uint64_t)(uintptr_t)(memory + l->stubs_at + STUB_SIZE * (seen->stub - 1));
        return write_near(l, at, (int64_t)(symbol + add - here));
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        symbol = (uint64_t)(uintptr_t)(memory + l->got_at + 8 * (seen->got - 1));
        return write_near(l, at, (int64_t)(symbol + add - here));
    default: buf_printf(l->why, "an object has relocations of kind %u", kind); return false;
    }
}

/* No page is writable while it can be executed. */
static bool protect(Link *l)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < SEGMENTS; i++) {
        size_t n = (l->sizes[i] + page - 1) & ~(page - 1);
        if (n && mprotect(l->im->memory + l->begin[i], n, protections[i]) != 0)
            return wrong(l, "the system lets no code be made");
    }
    return true;
}

static bool link_all(Link *l)
{
    size_t n = l->parts->n;
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = read_object(l, &l->objects[i]);
    if (!ok || !lay(l))
        return false;
    for (l->im->cap = 16; l->im->cap < 2 * l->n_defined;)
        l->im->cap *= 2;
    l->im->table = arena_new_array(&l->im->arena, Defined, l->im->cap);
    for (size_t i = 0; i < n; i++)
        copy_sections(l, &l->objects[i]);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; ok && k < l->objects[i].n_symbols; k++)
            ok = define(l, &l->objects[i], k);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; ok && k < l->objects[i].n_symbols; k++) {
            ok = resolve(l, &l->objects[i], k);
            if (ok)
                write_ways(l, &l->objects[i].seen[k]);
        }
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; ok && k < l->objects[i].n_sections; k++)
            ok = each_relocation(l, &l->objects[i], &l->objects[i].sections[k], relocate);
    return ok && protect(l);
}

Image *image_link(const ImageParts *parts, Buf *why)
{
    Link l = {.parts = parts, .im = memory_zeroed(1, sizeof *l.im), .why = why};
    if (!l.im) {
        wrong(&l, "there is no memory for code");
        return NULL;
    }
    arena_init(&l.arena, NULL);
    arena_init(&l.im->arena, NULL);
    l.objects = arena_new_array(&l.arena, Object, parts->n + 1);
    for (size_t i = 0; i < parts->n; i++)
        l.objects[i] = (Object){.at = parts->objects[i].ptr, .n = parts->objects[i].len};
    bool ok = link_all(&l);
    arena_deinit(&l.arena);
    if (ok)
        return l.im;
    image_free(l.im);
    return NULL;
}

void image_free(Image *im)
{
    if (!im)
        return;
    if (im->memory)
        munmap(im->memory, im->size);
    arena_deinit(&im->arena);
    memory_free(im);
}
