#include "jit/origin.h"

#include <llvm-c/DebugInfo.h>
#include <stdlib.h>
#include <string.h>

struct Origins {
    Arena *arena;
    JitPlaces *places;
    LLVMDIBuilderRef b;
    LLVMMetadataRef file, type;
    LLVMMetadataRef
        all; /* a scope that stands for those of all functions until they have their own */
    Vec(Span) spans; /* by number, from 1 */
    Span now;
    size_t counted, lines; /* of g->lowered: bytes, and the lines in them */
};

Origins *origins_open(Gen *g, JitPlaces *places)
{
    Origins *o = arena_new(g->arena, Origins);
    o->arena = g->arena;
    o->places = places;
    o->b = LLVMCreateDIBuilder(g->m);
    o->file = LLVMDIBuilderCreateFile(o->b, "relay", 5, "", 0);
    LLVMDIBuilderCreateCompileUnit(o->b, LLVMDWARFSourceLanguageC, o->file, "relay", 5, false, "",
                                   0, 0, "", 0, LLVMDWARFEmissionLineTablesOnly, 0, false, false,
                                   "", 0, "", 0);
    o->type = LLVMDIBuilderCreateSubroutineType(o->b, o->file, NULL, 0, LLVMDIFlagZero);
    o->all = LLVMDIBuilderCreateFunction(o->b, o->file, "all", 3, "", 0, o->file, 1, o->type, true,
                                         true, 1, LLVMDIFlagZero, false);
    Ssa version = gen_int(g->i32, LLVMDebugMetadataVersion());
    LLVMAddModuleFlag(g->m, LLVMModuleFlagBehaviorWarning, "Debug Info Version", 18,
                      LLVMValueAsMetadata(version));
    vec_push(&o->spans, o->arena, (Span){0});
    return o;
}

void origins_close(Origins *o)
{
    if (o)
        LLVMDisposeDIBuilder(o->b);
}

Span origin_at(Gen *g, Span span)
{
    Origins *o = g->origins;
    if (!o)
        return span;
    Span before = o->now;
    if (span_is_none(span))
        return before;
    o->now = span;
    vec_push(&o->spans, o->arena, span);
    LLVMSetCurrentDebugLocation2(
        g->b, LLVMDIBuilderCreateDebugLocation(g->c, (unsigned)o->spans.n - 1, 0, o->all, NULL));
    return before;
}

/* LLVM wants a place for each call in a function with debug information. */
static void settle_instruction(Gen *g, LLVMValueRef i, LLVMMetadataRef scope)
{
    LLVMMetadataRef at = LLVMInstructionGetDebugLoc(i);
    unsigned line = at ? LLVMDILocationGetLine(at) : 0;
    if (at || LLVMGetInstructionOpcode(i) == LLVMCall)
        LLVMInstructionSetDebugLoc(i, LLVMDIBuilderCreateDebugLocation(g->c, line, 0, scope, NULL));
}

void origins_settle(Gen *g)
{
    Origins *o = g->origins;
    for (LLVMValueRef f = o ? LLVMGetFirstFunction(g->m) : NULL; f; f = LLVMGetNextFunction(f)) {
        size_t n;
        const char *name = LLVMGetValueName2(f, &n);
        if (LLVMIsDeclaration(f))
            continue;
        LLVMMetadataRef scope =
            LLVMDIBuilderCreateFunction(o->b, o->file, name, n, "", 0, o->file, 1, o->type, true,
                                        true, 1, LLVMDIFlagZero, false);
        LLVMSetSubprogram(f, scope);
        for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
            for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
                settle_instruction(g, i, scope);
    }
    if (o)
        LLVMDIBuilderFinalize(o->b);
}

/* ---- reading it again ----------------------------------------------------------------------------------------------------- */

typedef struct Reading {
    Origins *o;
    Buf *out;
    size_t line; /* of `out` */
    Vec(uint32_t) numbers; /* LLVM: by the number of a location */
    uint32_t at; /* assembly: of the instructions that follow */
} Reading;

static void note(Origins *o, size_t line, Span span)
{
    JitPlace place = {line, span};
    if (!span_is_none(span))
        vec_push(&o->places->all, o->places->arena, place);
}

static void put_line(Reading *r, const char *line, size_t n, uint32_t number)
{
    buf_bytes(r->out, line, n);
    buf_char(r->out, '\n');
    note(r->o, r->line++, number < r->o->spans.n ? r->o->spans.at[number] : (Span){0});
}

static bool begins(const char *line, size_t n, const char *with)
{
    size_t len = strlen(with);
    return n >= len && memcmp(line, with, len) == 0;
}

/* `!12 = !DILocation(line: 5, …` */
static void read_location(Reading *r, const char *line, size_t n)
{
    static const char middle[] = " = !DILocation(line: ";
    char *end;
    if (!begins(line, n, "!"))
        return;
    unsigned long number = strtoul(line + 1, &end, 10);
    if (strncmp(end, middle, sizeof middle - 1) != 0)
        return;
    while (r->numbers.n <= number)
        vec_push(&r->numbers, r->o->arena, 0);
    r->numbers.at[number] = (uint32_t)strtoul(end + sizeof middle - 1, NULL, 10);
}

#define MARK " !dbg !"

/* `, !dbg !12` goes out of the line. */
static void read_instruction(Reading *r, const char *line, size_t n)
{
    size_t i = 0;
    while (i < n && !begins(line + i, n - i, MARK))
        i++;
    if (i == n) {
        put_line(r, line, n, 0);
        return;
    }
    const char *at = line + i;
    char *end;
    unsigned long number = strtoul(at + sizeof MARK - 1, &end, 10);
    Buf text = {0};
    buf_bytes(&text, line, (size_t)(at - line) - (at > line && at[-1] == ','));
    buf_bytes(&text, end, (size_t)(line + n - end));
    put_line(r, buf_text(&text), text.n, number < r->numbers.n ? r->numbers.at[number] : 0);
    buf_deinit(&text);
}

static void read_ir(Reading *r, const char *line, size_t n)
{
    if (!begins(line, n, "!"))
        read_instruction(r, line, n);
}

static void read_assembly(Reading *r, const char *line, size_t n)
{
    static const char *const dropped[] = {"\t.file", "\t.cfi_", ".Ltmp", ".Lfunc_begin"};
    if (begins(line, n, "\t.loc\t")) {
        const char *number = memchr(line + 6, ' ', n - 6);
        r->at = number ? (uint32_t)strtoul(number, NULL, 10) : 0;
        return;
    }
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
        if (begins(line, n, dropped[i]))
            return;
    if (!begins(line, n, "\t") && !begins(line, n, ".L"))
        r->at = 0; /* another function */
    put_line(r, line, n, begins(line, n, "\t") && !begins(line, n, "\t.") ? r->at : 0);
}

static void each_line(Reading *r, const Buf *text,
                      void (*read)(Reading *r, const char *line, size_t n))
{
    const char *end = buf_text(text) + text->n;
    for (const char *line = buf_text(text); line < end;) {
        const char *newline = memchr(line, '\n', (size_t)(end - line));
        const char *stop = newline ? newline : end;
        if (begins(line, (size_t)(stop - line), "\t.section\t.debug_"))
            break;
        read(r, line, (size_t)(stop - line));
        line = stop + 1;
    }
}

void origins_read(Gen *g, JitText kind, const Buf *text, Buf *out)
{
    Reading r = {.o = g->origins, .out = out};
    if (kind == JIT_TEXT_LLVM) {
        each_line(&r, text, read_location);
        each_line(&r, text, read_ir);
    } else {
        each_line(&r, text, read_assembly);
    }
}

/* ---- loops ---------------------------------------------------------------------------------------------------------------- */

void origin_of_line(Gen *g, Span span)
{
    Origins *o = g->origins;
    if (!o)
        return;
    for (; o->counted < g->lowered->n; o->counted++)
        o->lines += g->lowered->at[o->counted] == '\n';
    note(o, o->lines, span);
}
