/* A shared library of ELF, without a linker: functions that hand their call on, and the bytes that they hand on.
 *
 *     page 0    headers, symbols, what is to be filled in, the functions         read, executed
 *     page n    what the loader fills in and works by                           read, and written until then
 *     page m    the code of relay, as session/compiled.h says                   read
 *
 * Each function puts the address of the code and its own number behind its arguments and goes to relay_compiled_call. */
#include "session/compiled.h"

#include <elf.h>
#include <string.h>

#define PAGE ((size_t)4096)
#define STUB ((size_t)32)

#define DT_FLAGS_1_WISHES (DF_1_NOW | DF_1_NODELETE) /* code that was opened stays (compiled_c.c) */

/* In the order in which they stand in the file. */
enum {
    S_NONE,
    S_HASH,
    S_SYMBOLS,
    S_NAMES,
    S_FILLED,
    S_STUBS,
    S_DYNAMIC,
    S_TABLE,
    S_CODE,
    S_TITLES,
    SECTIONS
};
enum { FROM_TEXT, FROM_TABLES, FROM_CODE, WISHES, STACK, SAFE, SEGMENTS };

typedef struct Library {
    Buf names, symbols, filled, hash, stubs, dynamic;
    Elf64_Shdr at[SECTIONS];
} Library;

static uint32_t add_name(Library *l, const char *text)
{
    uint32_t at = (uint32_t)l->names.n;
    buf_bytes(&l->names, text, strlen(text) + 1);
    return at;
}

static void add_bytes(Buf *b, const void *bytes, size_t n)
{
    buf_bytes(b, bytes, n);
}

static void add_symbol(Library *l, const char *name, uint16_t section)
{
    Elf64_Sym s = {.st_name = add_name(l, name),
                   .st_info = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC),
                   .st_shndx = section,
                   .st_size = section ? STUB : 0};
    add_bytes(&l->symbols, &s, sizeof s);
}

/* The usual hash of names, with one list for all. */
static void add_hash(Library *l, uint32_t n_symbols)
{
    uint32_t head[3] = {1, n_symbols, n_symbols - 1};
    add_bytes(&l->hash, head, sizeof head);
    for (uint32_t i = 0; i < n_symbols; i++)
        add_bytes(&l->hash, &(uint32_t){i > 0 ? i - 1 : 0}, sizeof(uint32_t));
}

/* `lea code, %rdx; mov number, %ecx; jmp *slot`, or the jump alone. */
static void add_stub(Library *l, bool call, uint32_t number, uint64_t code, uint64_t slot)
{
    static const unsigned char landing[] = {0xf3, 0x0f, 0x1e, 0xfa}, lea[] = {0x48, 0x8d, 0x15},
                               jump[] = {0xff, 0x25};
    size_t begin = l->stubs.n;
    uint64_t here = l->at[S_STUBS].sh_addr;
    add_bytes(&l->stubs, landing, sizeof landing);
    if (call) {
        add_bytes(&l->stubs, lea, sizeof lea);
        add_bytes(&l->stubs, &(uint32_t){(uint32_t)(code - (here + l->stubs.n + 4))}, 4);
        buf_char(&l->stubs, (char)0xb9);
        add_bytes(&l->stubs, &number, 4);
    }
    add_bytes(&l->stubs, jump, sizeof jump);
    add_bytes(&l->stubs, &(uint32_t){(uint32_t)(slot - (here + l->stubs.n + 4))}, 4);
    buf_repeat(&l->stubs, (char)0xcc, STUB - (l->stubs.n - begin));
}

static void add_wish(Library *l, Elf64_Sxword tag, uint64_t value)
{
    Elf64_Dyn d = {.d_tag = tag, .d_un.d_val = value};
    add_bytes(&l->dynamic, &d, sizeof d);
}

/* Where everything lies; sizes follow from the number of functions and the names. Places in the file are addresses. */
static void place(Library *l, size_t n, size_t n_wishes, size_t code, size_t titles)
{
    static const struct {
        uint32_t type;
        uint64_t flags, align, entry;
        uint32_t link;
    } kinds[SECTIONS] = {
        [S_HASH] = {SHT_HASH, SHF_ALLOC, 8, 4, S_SYMBOLS},
        [S_SYMBOLS] = {SHT_DYNSYM, SHF_ALLOC, 8, sizeof(Elf64_Sym), S_NAMES},
        [S_NAMES] = {SHT_STRTAB, SHF_ALLOC, 1, 0, 0},
        [S_FILLED] = {SHT_RELA, SHF_ALLOC, 8, sizeof(Elf64_Rela), S_SYMBOLS},
        [S_STUBS] = {SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 32, 0, 0},
        [S_DYNAMIC] = {SHT_DYNAMIC, SHF_ALLOC | SHF_WRITE, PAGE, sizeof(Elf64_Dyn), S_NAMES},
        [S_TABLE] = {SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, 8, 8, 0},
        [S_CODE] = {SHT_PROGBITS, SHF_ALLOC, PAGE, 0, 0},
        [S_TITLES] = {SHT_STRTAB, 0, 1, 0, 0},
    };
    size_t n_symbols = n + 4; /* none, the two of librelay, and `error` */
    size_t sizes[SECTIONS] = {
        [S_HASH] = (3 + n_symbols) * 4,
        [S_SYMBOLS] = n_symbols * sizeof(Elf64_Sym),
        [S_NAMES] = l->names.n,
        [S_FILLED] = 2 * sizeof(Elf64_Rela),
        [S_STUBS] = (n + 1) * STUB,
        [S_DYNAMIC] = n_wishes * sizeof(Elf64_Dyn),
        [S_TABLE] = 16,
        [S_CODE] = code,
        [S_TITLES] = titles,
    };
    uint64_t at = sizeof(Elf64_Ehdr) + SEGMENTS * sizeof(Elf64_Phdr);
    for (int i = 1; i < SECTIONS; i++) {
        at = (at + kinds[i].align - 1) & ~(kinds[i].align - 1);
        l->at[i] = (Elf64_Shdr){.sh_type = kinds[i].type,
                                .sh_flags = kinds[i].flags,
                                .sh_addr = kinds[i].flags ? at : 0,
                                .sh_offset = at,
                                .sh_size = sizes[i],
                                .sh_link = kinds[i].link,
                                .sh_info = i == S_SYMBOLS ? 1 : 0, /* the first that is global */
                                .sh_addralign = kinds[i].align,
                                .sh_entsize = kinds[i].entry};
        at += sizes[i];
    }
}

static Elf64_Phdr segment(uint32_t type, uint32_t flags, uint64_t from, uint64_t to, uint64_t align)
{
    return (Elf64_Phdr){.p_type = type,
                        .p_flags = flags,
                        .p_offset = from,
                        .p_vaddr = from,
                        .p_paddr = from,
                        .p_filesz = to - from,
                        .p_memsz = to - from,
                        .p_align = align};
}

static uint64_t end_of(const Elf64_Shdr *s)
{
    return s->sh_offset + s->sh_size;
}

static void add_head(const Library *l, Buf *out)
{
    const Elf64_Shdr *at = l->at;
    uint64_t tables = at[S_DYNAMIC].sh_offset,
             tables_end = (end_of(&at[S_TABLE]) + PAGE - 1) & ~(PAGE - 1);
    const Elf64_Ehdr head = {
        .e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
        .e_type = ET_DYN,
        .e_machine = EM_X86_64,
        .e_version = EV_CURRENT,
        .e_phoff = sizeof head,
        .e_shoff = (end_of(&at[S_TITLES]) + 7) & ~(uint64_t)7,
        .e_ehsize = sizeof head,
        .e_phentsize = sizeof(Elf64_Phdr),
        .e_phnum = SEGMENTS,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = SECTIONS,
        .e_shstrndx = S_TITLES,
    };
    const Elf64_Phdr segments[SEGMENTS] = {
        [FROM_TEXT] = segment(PT_LOAD, PF_R | PF_X, 0, end_of(&at[S_STUBS]), PAGE),
        [FROM_TABLES] = segment(PT_LOAD, PF_R | PF_W, tables, tables_end, PAGE),
        [FROM_CODE] = segment(PT_LOAD, PF_R, at[S_CODE].sh_offset, end_of(&at[S_CODE]), PAGE),
        [WISHES] = segment(PT_DYNAMIC, PF_R | PF_W, tables, end_of(&at[S_DYNAMIC]), 8),
        [STACK] = {.p_type = PT_GNU_STACK, .p_flags = PF_R | PF_W, .p_align = 16},
        [SAFE] = segment(PT_GNU_RELRO, PF_R, tables, tables_end, 1),
    };
    add_bytes(out, &head, sizeof head);
    add_bytes(out, segments, sizeof segments);
}

static void add_section(Buf *out, const Elf64_Shdr *s, const Buf *bytes)
{
    buf_repeat(out, 0, s->sh_offset - out->n);
    buf_bytes(out, buf_text(bytes), bytes->n);
}

void shared_object(Buf *out, const Buf *code, const char *name, const char *folder, size_t n,
                   const Buf *symbols, const char *error)
{
    static const char titles[] =
        "\0.hash\0.dynsym\0.dynstr\0.rela.dyn\0.text\0.dynamic\0.got\0.rodata\0"
        ".shstrtab";
    enum { N_WISHES = 14 };
    Library l = {0};
    const Elf64_Shdr *at = l.at;
    buf_char(&l.names, '\0');
    uint32_t needs = add_name(&l, RELAY_LIBRARY), self = add_name(&l, name),
             where = add_name(&l, folder);
    add_bytes(&l.symbols, &(Elf64_Sym){0}, sizeof(Elf64_Sym));
    add_symbol(&l, "relay_compiled_call", SHN_UNDEF);
    add_symbol(&l, "relay_compiled_error", SHN_UNDEF);
    for (size_t i = 0; i < n; i++)
        add_symbol(&l, buf_text(&symbols[i]), S_STUBS);
    add_symbol(&l, error, S_STUBS);
    place(&l, n, N_WISHES, code->n, sizeof titles);
    Elf64_Sym *own_symbols = (Elf64_Sym *)(void *)l.symbols.at;
    for (size_t i = 0; !l.symbols.failed && i <= n; i++)
        own_symbols[i + 3].st_value = at[S_STUBS].sh_addr + i * STUB;
    uint64_t slot = at[S_TABLE].sh_addr;
    for (uint32_t i = 0; i < 2; i++)
        add_bytes(&l.filled,
                  &(Elf64_Rela){slot + 8 * i, ELF64_R_INFO((uint64_t)i + 1, R_X86_64_GLOB_DAT), 0},
                  sizeof(Elf64_Rela));
    add_hash(&l, (uint32_t)n + 4);
    for (size_t i = 0; i < n; i++)
        add_stub(&l, true, (uint32_t)i, at[S_CODE].sh_addr, slot);
    add_stub(&l, false, 0, 0, slot + 8);
    add_wish(&l, DT_NEEDED, needs);
    add_wish(&l, DT_SONAME, self);
    add_wish(&l, DT_RUNPATH, where);
    add_wish(&l, DT_HASH, at[S_HASH].sh_addr);
    add_wish(&l, DT_STRTAB, at[S_NAMES].sh_addr);
    add_wish(&l, DT_STRSZ, at[S_NAMES].sh_size);
    add_wish(&l, DT_SYMTAB, at[S_SYMBOLS].sh_addr);
    add_wish(&l, DT_SYMENT, sizeof(Elf64_Sym));
    add_wish(&l, DT_RELA, at[S_FILLED].sh_addr);
    add_wish(&l, DT_RELASZ, at[S_FILLED].sh_size);
    add_wish(&l, DT_RELAENT, sizeof(Elf64_Rela));
    add_wish(&l, DT_FLAGS, DF_BIND_NOW);
    add_wish(&l, DT_FLAGS_1, DT_FLAGS_1_WISHES);
    add_wish(&l, DT_NULL, 0);
    Buf slots = {0}, titles_text = {0};
    buf_repeat(&slots, 0, 16);
    buf_bytes(&titles_text, titles, sizeof titles);
    const Buf *const parts[SECTIONS] = {
        [S_HASH] = &l.hash,     [S_SYMBOLS] = &l.symbols, [S_NAMES] = &l.names,
        [S_FILLED] = &l.filled, [S_STUBS] = &l.stubs,     [S_DYNAMIC] = &l.dynamic,
        [S_TABLE] = &slots,     [S_CODE] = code,          [S_TITLES] = &titles_text,
    };
    add_head(&l, out);
    uint32_t title = 0;
    for (int i = 1; i < SECTIONS; i++) {
        add_section(out, &at[i], parts[i]);
        title += (uint32_t)strlen(titles + title) + 1;
        l.at[i].sh_name = title;
    }
    buf_repeat(out, 0, -out->n % 8);
    add_bytes(out, l.at, sizeof l.at);
    Buf *const own[] = {&l.names, &l.symbols, &l.filled, &l.hash,
                        &l.stubs, &l.dynamic, &slots,    &titles_text};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        out->failed |= own[i]->failed;
        buf_deinit(own[i]);
    }
}
