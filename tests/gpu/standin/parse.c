/* PTX text to instructions. Registers, numbers and special registers get a place in a warp's register file, symbols become
 * addresses, labels numbers of instructions; what is written is checked against what the instruction wants. */
#include "tests/gpu/standin/standin.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME = 128, MAX_TOKENS = 16 };

typedef struct Range {
    char prefix[NAME];
    bool numbered;
    uint32_t n, at;
    Type type;
} Range;

typedef struct Symbol {
    char name[NAME];
    uint32_t at;
    Space space;
} Symbol;

typedef struct Label {
    char name[NAME];
    int at;
} Label;

typedef struct Use {
    char name[NAME];
    int ins, line; /* of `targets` when `ins` is negative */
    int target;
} Use;

/* An opcode taken apart. */
typedef struct Opcode {
    char token[MAX_TOKENS][32];
    int n;
    Type types[4];
    int n_types;
    char name[96]; /* without what is noted in the instruction */
    int vector;
} Opcode;

typedef struct Parser {
    const char *p;
    int line;
    char *log;
    size_t room;
    bool failed;
    Module *m;
    Kernel *k;
    Range *ranges;
    int n_ranges;
    Symbol *symbols;
    int n_symbols;
    Label *labels;
    int n_labels;
    Use *uses;
    int n_uses;
    Label *tables;
    int n_tables;
} Parser;

/* Appends a zeroed element to an array that grows by powers of two. */
#define PUSH(array, n) ((array) = grow((array), (size_t)(n), sizeof *(array)), &(array)[(n)++])

static void *grow(void *array, size_t n, size_t size)
{
    if ((n & (n - 1)) == 0)
        array = realloc(array, (n ? 2 * n : 1) * size);
    memset((char *)array + n * size, 0, size);
    return array;
}

static bool fail(Parser *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fail(Parser *p, const char *format, ...)
{
    if (!p->failed && p->room) {
        int n = snprintf(p->log, p->room, "line %d: ", p->line);
        va_list args;
        va_start(args, format);
        if (n >= 0 && (size_t)n < p->room)
            vsnprintf(p->log + n, p->room - (size_t)n, format, args);
        va_end(args);
    }
    p->failed = true;
    return false;
}

/* ---- words ---------------------------------------------------------------------------------------------------------- */

static void skip(Parser *p)
{
    for (;; p->p++) {
        if (*p->p == '\n')
            p->line++;
        else if (p->p[0] == '/' && p->p[1] == '/') {
            p->p += strcspn(p->p, "\n") - 1;
        } else if (p->p[0] == '/' && p->p[1] == '*') {
            for (p->p += 2; *p->p && !(p->p[0] == '*' && p->p[1] == '/'); p->p++)
                p->line += *p->p == '\n';
            if (!*p->p)
                return;
            p->p++;
        } else if (!*p->p || !isspace((unsigned char)*p->p))
            return;
    }
}

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%' || c == '.' || c == ':';
}

/* A run of letters, digits and what names may have; a single colon ends it, `::` does not. */
static bool word(Parser *p, char *out)
{
    skip(p);
    size_t n = 0;
    while (is_name(*p->p) && n < NAME - 1) {
        if (*p->p == ':') {
            if (p->p[1] != ':')
                break;
            out[n++] = *p->p++;
        }
        out[n++] = *p->p++;
    }
    out[n] = 0;
    return n > 0;
}

static bool take(Parser *p, char c)
{
    skip(p);
    if (*p->p != c)
        return false;
    p->p++;
    return true;
}

static bool expect(Parser *p, char c)
{
    if (take(p, c))
        return true;
    char here[24];
    snprintf(here, sizeof here, "%.*s", (int)strcspn(p->p, "\n"), p->p);
    return fail(p, "expected `%c`, found `%s`", c, here);
}

static bool take_word(Parser *p, const char *w)
{
    skip(p);
    size_t n = strlen(w);
    if (strncmp(p->p, w, n) || is_name(p->p[n]))
        return false;
    p->p += n;
    return true;
}

static void skip_line(Parser *p)
{
    p->p += strcspn(p->p, "\n");
}

/* A number as its bits: integers, `0f` and `0d` with the digits of a float. */
static bool number(Parser *p, uint64_t *out)
{
    skip(p);
    const char *s = p->p;
    bool negative = *s == '-';
    s += negative || *s == '+';
    if (!isdigit((unsigned char)*s))
        return false;
    char *end;
    if (s[0] == '0' && strchr("fFdD", s[1]) && s[1])
        *out = strtoull(s + 2, &end, 16);
    else
        *out = strtoull(s, &end, 0);
    end += *end == 'U';
    if (negative)
        *out = 0 - *out;
    p->p = end;
    return true;
}

bool type_parse(const char *t, Type *out)
{
    static const struct {
        const char *name;
        Type type;
    } types[] = {
        {"pred", {'p', 1, 1}}, {"b8", {'b', 1, 1}},    {"u8", {'u', 1, 1}},
        {"s8", {'s', 1, 1}},   {"b16", {'b', 2, 1}},   {"u16", {'u', 2, 1}},
        {"s16", {'s', 2, 1}},  {"f16", {'f', 2, 1}},   {"bf16", {'h', 2, 1}},
        {"b32", {'b', 4, 1}},  {"u32", {'u', 4, 1}},   {"s32", {'s', 4, 1}},
        {"f32", {'f', 4, 1}},  {"f16x2", {'f', 4, 2}}, {"bf16x2", {'h', 4, 2}},
        {"tf32", {'t', 4, 1}}, {"b64", {'b', 8, 1}},   {"u64", {'u', 8, 1}},
        {"s64", {'s', 8, 1}},  {"f64", {'f', 8, 1}},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(t, types[i].name)) {
            *out = types[i].type;
            return true;
        }
    return false;
}

/* ---- registers and symbols ------------------------------------------------------------------------------------------ */

static uint32_t file_room(Parser *p, uint32_t width, uint32_t n)
{
    uint32_t at = (p->k->file_size + 63) / 64 * 64;
    p->k->file_size = at + width * LANES * n;
    return at;
}

static uint32_t constant(Parser *p, uint64_t bits, uint8_t width)
{
    Kernel *k = p->k;
    for (int i = 0; i < k->n_constants; i++)
        if (k->constants[i].bits == bits && k->constants[i].width == width)
            return k->constants[i].at;
    Constant *c = PUSH(k->constants, k->n_constants);
    *c = (Constant){file_room(p, width, 1), width, bits};
    return c->at;
}

static const char *const special_names[] = {
    "%tid.x",       "%tid.y",       "%tid.z",
    "%ntid.x",      "%ntid.y",      "%ntid.z",
    "%ctaid.x",     "%ctaid.y",     "%ctaid.z",
    "%nctaid.x",    "%nctaid.y",    "%nctaid.z",
    "%laneid",      "%warpid",      "%nwarpid",
    "%lanemask_eq", "%lanemask_le", "%lanemask_lt",
    "%lanemask_ge", "%lanemask_gt", "%dynamic_smem_size",
};

static bool special(Parser *p, const char *name, Operand *out)
{
    for (int i = 0; i < (int)(sizeof special_names / sizeof *special_names); i++) {
        if (strcmp(name, special_names[i]))
            continue;
        Kernel *k = p->k;
        *out = (Operand){.kind = OPERAND_REG, .width = 4};
        for (int j = 0; j < k->n_specials; j++)
            if (k->specials[j].which == i) {
                out->at = k->specials[j].at;
                return true;
            }
        Special *s = PUSH(k->specials, k->n_specials);
        *s = (Special){file_room(p, 4, 1), i};
        out->at = s->at;
        return true;
    }
    return false;
}

static bool reg(Parser *p, const char *name, Operand *out)
{
    size_t n = strlen(name), d = n;
    while (d > 1 && isdigit((unsigned char)name[d - 1]))
        d--;
    unsigned long i = strtoul(name + d, NULL, 10);
    for (int r = p->n_ranges; r-- > 0;) {
        const Range *range = &p->ranges[r];
        bool is = range->numbered ? strlen(range->prefix) == d &&
                                        !strncmp(range->prefix, name, d) && d < n && i < range->n
                                  : !strcmp(range->prefix, name);
        if (is) {
            uint32_t at =
                range->at + (range->numbered ? (uint32_t)i : 0) * range->type.width * LANES;
            *out = (Operand){.kind = OPERAND_REG, .width = range->type.width, .at = at};
            return true;
        }
    }
    return special(p, name, out);
}

/* The address of a variable in its own space; false when there is none of this name. */
static bool symbol(Parser *p, const char *name, uint64_t *at, Space *space)
{
    for (int i = p->n_symbols; i-- > 0;)
        if (!strcmp(p->symbols[i].name, name)) {
            *at = p->symbols[i].at;
            *space = p->symbols[i].space;
            return true;
        }
    for (int i = 0; i < p->m->n_globals; i++)
        if (!strcmp(p->m->globals[i].name, name)) {
            *at = p->m->globals[i].at;
            *space = p->m->globals[i].space;
            return true;
        }
    return false;
}

/* A register, a number, a special register or a variable's address. A width of 0 takes any register. */
static bool source(Parser *p, uint8_t width, Operand *out)
{
    bool negated = take(p, '!');
    uint64_t bits;
    char name[NAME];
    if (number(p, &bits)) {
        width = width ? width : 4;
        bits &= ~0ull >> (64 - 8 * width);
        *out = (Operand){.kind = OPERAND_REG, .width = width, .at = constant(p, bits, width)};
        return true;
    }
    if (!word(p, name))
        return fail(p, "expected an operand, found `%.12s`", p->p);
    Space space;
    if (*name != '%' && !strcmp(name, "WARP_SZ")) {
        *out = (Operand){.kind = OPERAND_REG, .width = 4, .at = constant(p, LANES, 4)};
    } else if (symbol(p, name, &bits, &space)) {
        width = width ? width : 8;
        *out = (Operand){.kind = OPERAND_REG, .width = width, .at = constant(p, bits, width)};
    } else if (!reg(p, name, out)) {
        return fail(p, "`%s` is no register, variable or special register that is known here",
                    name);
    }
    out->negated = negated;
    if (width && out->width != width)
        return fail(p, "`%s` has %d bits where the instruction takes %d", name, 8 * out->width,
                    8 * width);
    return true;
}

static bool result(Parser *p, uint8_t width, Operand *out)
{
    skip(p);
    if (p->p[0] == '_' && !is_name(p->p[1])) {
        p->p++;
        *out = (Operand){.kind = OPERAND_REG, .width = width ? width : 8, .sink = true};
        out->at = file_room(p, 8, 1);
        return true;
    }
    if (isdigit((unsigned char)*p->p) || *p->p == '-')
        return fail(p, "expected a register, found `%.12s`", p->p);
    return source(p, width, out);
}

/* [register], [register+8], [variable+8], [number] */
static bool address(Parser *p, Space wanted, Operand *out)
{
    char name[NAME];
    uint64_t bits = 0;
    Space space = wanted;
    if (!expect(p, '['))
        return false;
    *out = (Operand){.kind = OPERAND_ADDRESS};
    if (!number(p, &bits)) {
        if (!word(p, name))
            return fail(p, "expected an address, found `%.12s`", p->p);
        if (!symbol(p, name, &bits, &space)) {
            if (!reg(p, name, out))
                return fail(p, "`%s` is no register or variable that is known here", name);
            if (out->width < 4)
                return fail(p, "`%s` is too narrow for an address", name);
            out->kind = OPERAND_ADDRESS;
        } else if (space != wanted && wanted == SPACE_GENERIC && space != SPACE_GLOBAL) {
            bits += WINDOW(space);
        }
    }
    out->offset = (int64_t)bits;
    if (take(p, '+')) {
        if (!number(p, &bits))
            return fail(p, "expected a number behind `+`");
        out->offset += (int64_t)bits;
    }
    return expect(p, ']');
}

/* ---- declarations --------------------------------------------------------------------------------------------------- */

typedef struct Variable {
    char name[NAME];
    Type type;
    uint32_t align;
    uint64_t n;
    bool open; /* [] */
} Variable;

/* [.align 16] [.v4] .b8 name[32] */
static bool variable(Parser *p, Variable *v)
{
    char w[NAME];
    uint64_t x;
    *v = (Variable){.n = 1};
    while (word(p, w)) {
        if (!strcmp(w, ".align")) {
            if (!number(p, &x))
                return fail(p, "expected a number behind `.align`");
            v->align = (uint32_t)x;
        } else if (!strcmp(w, ".ptr")) {
            continue;
        } else if (!strcmp(w, ".global") || !strcmp(w, ".shared") || !strcmp(w, ".const")) {
            continue; /* where a pointer points to */
        } else if (!strcmp(w, ".v2") || !strcmp(w, ".v4")) {
            v->n *= (uint64_t)(w[2] - '0');
        } else if (*w == '.') {
            if (!type_parse(w + 1, &v->type))
                return fail(p, "`%s` is no type", w);
            if (v->align < v->type.width)
                v->align = v->type.width;
        } else {
            snprintf(v->name, NAME, "%s", w);
            while (take(p, '[')) {
                if (take(p, ']')) {
                    v->open = true;
                    continue;
                }
                if (!number(p, &x))
                    return fail(p, "expected the length of `%s`", v->name);
                v->n *= x;
                if (!expect(p, ']'))
                    return false;
            }
            return v->type.width ? true : fail(p, "`%s` has no type", v->name);
        }
    }
    return fail(p, "expected a declaration");
}

static uint32_t aligned(uint32_t at, uint32_t align)
{
    return align ? (at + align - 1) / align * align : at;
}

static bool initialiser(Parser *p, const Variable *v, uint8_t *bytes)
{
    uint64_t x, i = 0, other;
    Space space;
    bool list = take(p, '{');
    char name[NAME];
    do {
        if (list && take(p, '}'))
            return true;
        if (!number(p, &x)) {
            if (!word(p, name) || !symbol(p, name, &other, &space))
                return fail(p, "expected a number among the values of `%s`", v->name);
            x = other;
        }
        if (i >= v->n)
            return fail(p, "`%s` has more values than elements", v->name);
        memcpy(bytes + v->type.width * i++, &x, v->type.width);
    } while (list && take(p, ','));
    return !list || expect(p, '}');
}

static bool global(Parser *p, Space space)
{
    Variable v;
    if (!variable(p, &v))
        return false;
    size_t size = v.n * v.type.width;
    Global *g = PUSH(p->m->globals, p->m->n_globals);
    snprintf(g->name, sizeof g->name, "%s", v.name);
    g->size = size;
    g->space = space;
    g->at = device_alloc(size);
    uint8_t *bytes = device_find(g->at, size);
    if (!bytes)
        return fail(p, "no memory for `%s`", v.name);
    memset(bytes, 0, size);
    return (!take(p, '=') || initialiser(p, &v, bytes)) && expect(p, ';');
}

static bool module_shared(Parser *p)
{
    Variable v;
    if (!variable(p, &v))
        return false;
    /* Each kernel has its own; those of the module come first in all of them. */
    Symbol *s = PUSH(p->symbols, p->n_symbols);
    snprintf(s->name, NAME, "%s", v.name);
    s->space = SPACE_SHARED;
    Global *g = PUSH(p->m->globals, p->m->n_globals);
    snprintf(g->name, sizeof g->name, "%s", v.name);
    g->space = SPACE_SHARED;
    g->size = v.open ? 0 : v.n * v.type.width;
    uint32_t end = 0;
    for (int i = 0; i + 1 < p->m->n_globals; i++)
        if (p->m->globals[i].space == SPACE_SHARED)
            end = (uint32_t)(p->m->globals[i].at + p->m->globals[i].size);
    s->at = aligned(end, v.align);
    g->at = s->at;
    return expect(p, ';');
}

static bool local_variable(Parser *p, Space space)
{
    Variable v;
    if (!variable(p, &v))
        return false;
    uint32_t *size = space == SPACE_SHARED ? &p->k->shared_size : &p->k->local_size;
    Symbol *s = PUSH(p->symbols, p->n_symbols);
    snprintf(s->name, NAME, "%s", v.name);
    s->space = space;
    s->at = aligned(*size, v.align);
    *size = s->at + (uint32_t)(v.n * v.type.width);
    return expect(p, ';');
}

static bool registers(Parser *p)
{
    char t[NAME], name[NAME];
    Type type;
    if (!word(p, t) || *t != '.' || !type_parse(t + 1, &type))
        return fail(p, "`%s` is no type of registers", t);
    do {
        /* LLVM takes halves of registers apart with one called `tmp`. */
        if (!word(p, name))
            return fail(p, "expected a register");
        uint64_t n = 1;
        bool numbered = take(p, '<');
        if (numbered && (!number(p, &n) || !expect(p, '>')))
            return fail(p, "expected how many registers `%s` there are", name);
        Range *r = PUSH(p->ranges, p->n_ranges);
        snprintf(r->prefix, NAME, "%s", name);
        r->numbered = numbered;
        r->n = (uint32_t)n;
        r->type = type;
        r->at = file_room(p, type.width, (uint32_t)n);
    } while (take(p, ','));
    return expect(p, ';');
}

static bool params(Parser *p)
{
    Kernel *k = p->k;
    if (!take(p, '('))
        return true;
    if (take(p, ')'))
        return true;
    do {
        Variable v;
        if (!take_word(p, ".param"))
            return fail(p, "expected `.param`");
        if (!variable(p, &v))
            return false;
        Param *param = PUSH(k->params, k->n_params);
        snprintf(param->name, sizeof param->name, "%s", v.name);
        param->at = aligned(k->param_size, v.align);
        param->size = (uint32_t)(v.n * v.type.width);
        k->param_size = param->at + param->size;
        Symbol *s = PUSH(p->symbols, p->n_symbols);
        snprintf(s->name, NAME, "%s", v.name);
        s->space = SPACE_PARAM;
        s->at = param->at;
    } while (take(p, ','));
    return expect(p, ')');
}

/* ---- instructions --------------------------------------------------------------------------------------------------- */

static bool one_of(const char *w, const char *list)
{
    size_t n = strlen(w);
    for (const char *at = list; (at = strstr(at, w)); at += n)
        if ((at == list || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
            return true;
    return false;
}

static bool space_parse(const char *t, Space *out)
{
    static const struct {
        const char *name;
        Space space;
    } spaces[] = {{"global", SPACE_GLOBAL}, {"shared", SPACE_SHARED}, {"shared::cta", SPACE_SHARED},
                  {"local", SPACE_LOCAL},   {"param", SPACE_PARAM},   {"const", SPACE_CONST}};
    for (size_t i = 0; i < sizeof spaces / sizeof *spaces; i++)
        if (!strcmp(spaces[i].name, t)) {
            *out = spaces[i].space;
            return true;
        }
    return false;
}

/* What stands in an opcode and changes nothing here: caches, scopes, orders, how exact, how uniform. */
static const char neutral[] =
    "approx full uni aligned volatile relaxed acquire release acq_rel sc weak cta gpu sys nc ca cg "
    "cs lu cv wb wt noftz sync mio";

static void opcode_part(Opcode *o, Ins *in, const char *t)
{
    Type type;
    if (one_of(t, "rn rz rm rp"))
        in->round = t[1];
    else if (!strcmp(t, "rna"))
        in->round = 'a';
    else if (one_of(t, "rni rzi rmi rpi"))
        in->round = (char)toupper((unsigned char)t[1]);
    else if (!strcmp(t, "ftz"))
        in->ftz = true;
    else if (!strcmp(t, "sat"))
        in->sat = true;
    else if (one_of(t, "v2 v4 v8"))
        o->vector = t[1] - '0';
    else if (one_of(t, neutral) || !strncmp(t, "L1::", 4) || !strncmp(t, "L2::", 4))
        return;
    else {
        if (type_parse(t, &type) && o->n_types < 4)
            o->types[o->n_types++] = type;
        size_t n = strlen(o->name);
        snprintf(o->name + n, sizeof o->name - n, "%s%s", n ? "." : "", t);
    }
}

static bool opcode(Parser *p, const char *w, Opcode *o, Ins *in)
{
    for (const char *at = w; *at;) {
        size_t n = strcspn(at, ".");
        if (o->n == MAX_TOKENS || n >= sizeof o->token[0])
            return fail(p, "`%s` is not known", w);
        memcpy(o->token[o->n], at, n);
        opcode_part(o, in, o->token[o->n++]);
        at += n + (at[n] == '.');
    }
    if (o->n_types)
        in->type = o->types[0];
    in->from = o->n_types ? o->types[o->n_types - 1] : in->type;
    for (int i = 1; i < o->n; i++)
        space_parse(o->token[i], &in->space);
    return true;
}

static bool has_part(const Opcode *o, const char *part)
{
    for (int i = 1; i < o->n; i++)
        if (!strcmp(o->token[i], part))
            return true;
    return false;
}

/* {a, b, c} or a */
static bool group(Parser *p, Ins *in, int n, uint8_t width, bool results)
{
    bool list = take(p, '{');
    for (int i = 0; i < n; i++) {
        if (i && !expect(p, ','))
            return false;
        if (in->n == MAX_OPERANDS)
            return fail(p, "too many operands");
        Operand *o = &in->op[in->n++];
        if (!(results ? result(p, width, o) : source(p, width, o)))
            return false;
        if (width == 0)
            continue;
    }
    return !list || expect(p, '}');
}

/* Registers of memory instructions may be wider than what lies in memory, and not narrower. */
static bool check_group(Parser *p, const Ins *in, int from, int n)
{
    for (int i = from; i < from + n; i++)
        if (in->op[i].width < in->type.width && !in->op[i].sink)
            return fail(p, "a register of %d bits where the instruction takes %d",
                        8 * in->op[i].width, 8 * in->type.width);
    return true;
}

static bool parse_ld(Parser *p, Opcode *o, Ins *in)
{
    int n = o->vector ? o->vector : 1;
    in->kind = KIND_LD;
    if (!o->n_types)
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->results = (uint8_t)n;
    if (!group(p, in, n, 0, true) || !expect(p, ',') || !check_group(p, in, 0, n))
        return false;
    return address(p, in->space, &in->op[in->n++]);
}

/* A number that is stored takes the width of what is stored. */
static bool parse_st(Parser *p, Opcode *o, Ins *in)
{
    int n = o->vector ? o->vector : 1;
    in->kind = KIND_ST;
    if (!o->n_types)
        return fail(p, "`%s` is not known to the stand-in", o->name);
    if (!address(p, in->space, &in->op[in->n++]) || !expect(p, ','))
        return false;
    bool list = take(p, '{');
    for (int i = 0; i < n; i++) {
        if (i && !expect(p, ','))
            return false;
        skip(p);
        bool literal = isdigit((unsigned char)*p->p) || *p->p == '-';
        if (!source(p, literal ? in->type.width : 0, &in->op[in->n++]))
            return false;
    }
    return (!list || expect(p, '}')) && check_group(p, in, 1, n);
}

static bool parse_atom(Parser *p, Opcode *o, Ins *in)
{
    static const char ops[] = "add and or xor exch min max inc dec cas";
    bool red = !strcmp(o->token[0], "red");
    in->kind = KIND_ATOM;
    in->results = !red;
    for (int i = 1; i < o->n; i++)
        if (one_of(o->token[i], ops))
            snprintf(in->what, sizeof in->what, "%s", o->token[i]);
    if (!*in->what || o->vector || !o->n_types)
        return fail(p, "`%s` is not known to the stand-in", o->name);
    uint8_t width = in->type.width;
    if (!red && (!result(p, width, &in->op[in->n++]) || !expect(p, ',')))
        return false;
    if (!address(p, in->space, &in->op[in->n++]))
        return false;
    for (int i = 0; i < (!strcmp(in->what, "cas") ? 2 : 1); i++)
        if (!expect(p, ',') || !source(p, width, &in->op[in->n++]))
            return false;
    return true;
}

static bool label_use(Parser *p, Operand *out)
{
    char name[NAME];
    if (!word(p, name))
        return fail(p, "expected a label");
    Use *u = PUSH(p->uses, p->n_uses);
    snprintf(u->name, NAME, "%s", name);
    u->ins = p->k->n;
    u->line = p->line;
    *out = (Operand){.kind = OPERAND_LABEL};
    return true;
}

static bool parse_bra(Parser *p, Opcode *o, Ins *in)
{
    (void)o;
    in->kind = KIND_BRA;
    return label_use(p, &in->op[in->n++]);
}

/* brx.idx which, table */
static bool parse_brx(Parser *p, Opcode *o, Ins *in)
{
    (void)o;
    char name[NAME];
    in->kind = KIND_BRX;
    if (!source(p, 4, &in->op[in->n++]) || !expect(p, ',') || !word(p, name))
        return false;
    for (int i = 0; i < p->n_tables; i++)
        if (!strcmp(p->tables[i].name, name)) {
            in->op[in->n++].at = (uint32_t)p->tables[i].at;
            return true;
        }
    return fail(p, "`%s` is no table of labels", name);
}

static bool parse_end(Parser *p, Opcode *o, Ins *in)
{
    (void)p;
    in->kind = !strcmp(o->token[0], "trap") ? KIND_TRAP : KIND_EXIT;
    return true;
}

static bool parse_bar(Parser *p, Opcode *o, Ins *in)
{
    bool warp = has_part(o, "warp"), arrive = has_part(o, "arrive");
    if (has_part(o, "red") || has_part(o, "cluster"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->kind = warp ? KIND_WARP_BAR : arrive ? KIND_ARRIVE : KIND_BAR;
    if (!source(p, 4, &in->op[in->n++]))
        return false;
    return !take(p, ',') || source(p, 4, &in->op[in->n++]);
}

/* shfl.sync.down.b32 d|p, a, b, c, mask */
static bool parse_shfl(Parser *p, Opcode *o, Ins *in)
{
    in->kind = KIND_SHFL;
    if (o->n < 3 || !has_part(o, "sync"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    snprintf(in->what, sizeof in->what, "%.11s", o->token[2]);
    if (!result(p, 4, &in->op[0]))
        return false;
    in->n = 2;
    if (take(p, '|') && !result(p, 1, &in->op[1]))
        return false;
    in->results = in->op[1].kind ? 2 : 1;
    for (int i = 0; i < 4; i++)
        if (!expect(p, ',') || !source(p, 4, &in->op[in->n++]))
            return false;
    return true;
}

/* vote.sync.any.pred p, a, mask; vote.sync.ballot.b32 d, a, mask; match.any.sync.b32 d, a, mask; redux.sync.add.s32 d, a, mask */
static bool parse_vote(Parser *p, Opcode *o, Ins *in)
{
    bool vote = !strcmp(o->token[0], "vote"), match = !strcmp(o->token[0], "match");
    in->kind = vote ? KIND_VOTE : match ? KIND_MATCH : KIND_REDUX;
    if (o->n < 3 || !has_part(o, "sync"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    snprintf(in->what, sizeof in->what, "%.11s", o->token[match ? 1 : 2]);
    in->results = 1;
    return result(p, match ? 4 : in->type.width, &in->op[in->n++]) &&
           (!match || !take(p, '|') ||
            fail(p, "the predicate of `match` is not known to the stand-in")) &&
           expect(p, ',') && source(p, vote ? 1 : in->type.width, &in->op[in->n++]) &&
           expect(p, ',') && source(p, 4, &in->op[in->n++]);
}

static bool parse_active(Parser *p, Opcode *o, Ins *in)
{
    (void)o;
    in->kind = KIND_ACTIVE;
    return result(p, 4, &in->op[in->n++]);
}

/* cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [to], [map, {x, y}], [gate] */
static bool parse_bulk(Parser *p, Opcode *o, Ins *in)
{
    static const char *const axes[] = {"1d", "2d", "3d", "4d", "5d"};
    int n = 0;
    for (int i = 0; i < MAP_AXES; i++)
        n = has_part(o, axes[i]) ? i + 1 : n;
    if (!n || !has_part(o, "tensor") || !has_part(o, "shared::cluster") || !has_part(o, "global") ||
        !has_part(o, "mbarrier::complete_tx::bytes"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->kind = KIND_BULK;
    if (!address(p, SPACE_SHARED, &in->op[in->n++]) || !expect(p, ',') || !expect(p, '[') ||
        !source(p, 8, &in->op[in->n++]) || !expect(p, ',') || !group(p, in, n, 4, false))
        return false;
    return expect(p, ']') && expect(p, ',') && address(p, SPACE_SHARED, &in->op[in->n++]);
}

/* mbarrier.init [at], boxes; mbarrier.arrive.expect_tx _, [at], bytes; mbarrier.try_wait.parity there, [at], parity */
static bool parse_gate(Parser *p, Opcode *o, Ins *in)
{
    in->kind = KIND_GATE;
    bool init = has_part(o, "init"), arrive = has_part(o, "arrive") && has_part(o, "expect_tx");
    bool wait = has_part(o, "try_wait") && has_part(o, "parity");
    if ((!init && !arrive && !wait) || !has_part(o, "shared::cta") || !has_part(o, "b64"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->what[0] = init ? 'i' : arrive ? 'a' : 'w';
    in->results = !init;
    if (!init && (!result(p, wait ? 1 : 8, &in->op[in->n++]) || !expect(p, ',')))
        return false;
    if (arrive && !in->op[0].sink)
        return fail(p, "the state of a gate is not known to the stand-in");
    return address(p, SPACE_SHARED, &in->op[in->n++]) && expect(p, ',') &&
           source(p, 4, &in->op[in->n++]);
}

/* wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {sums}, a, b, p {, 1, 1 {, 0, 0}} */
static bool parse_wgmma(Parser *p, Opcode *o, Ins *in)
{
    if (!has_part(o, "mma_async")) {
        in->kind = KIND_NOTHING;
        return !has_part(o, "wait_group") || source(p, 4, &in->op[in->n++]);
    }
    int n = 0, k = 0;
    for (int i = 1; i < o->n; i++)
        if (sscanf(o->token[i], "m64n%dk%d", &n, &k) == 2)
            break;
    bool sums = o->n_types == 3 && in->type.width == 4;
    if (!sums || n < 8 || n > 256 || n % 8 || k * o->types[1].width != 32 ||
        o->types[1].width != o->types[2].width ||
        (o->types[1].width == 1) != (in->type.kind == 's'))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->kind = KIND_WGMMA;
    in->from = o->types[1];
    in->what[1] = o->types[2].kind;
    in->op[in->n].at = (uint32_t)p->k->n_sums;
    in->op[in->n++].offset = n / 2;
    if (!expect(p, '{'))
        return false;
    for (int i = 0; i < n / 2; i++) {
        if (i && !expect(p, ','))
            return false;
        Operand *sum = PUSH(p->k->sums, p->k->n_sums);
        if (!result(p, 4, sum))
            return false;
    }
    if (!expect(p, '}') || !expect(p, ',') || !source(p, 8, &in->op[in->n++]) || !expect(p, ',') ||
        !source(p, 8, &in->op[in->n++]) || !expect(p, ',') || !source(p, 1, &in->op[in->n++]))
        return false;
    /* Signs, and that neither factor is turned. */
    static const uint64_t usual[] = {1, 1, 0, 0};
    int more = in->from.width == 1 ? 0 : in->from.width == 2 ? 4 : 2;
    for (int i = 0; i < more; i++) {
        uint64_t x;
        if (!expect(p, ',') || !number(p, &x) || x != usual[i])
            return fail(p, "`%s` of this form is not known to the stand-in", o->name);
    }
    return true;
}

/* cp.async.cg.shared.global [to], [from], 16 {, how many of them} */
static bool parse_cp(Parser *p, Opcode *o, Ins *in)
{
    if (has_part(o, "bulk"))
        return parse_bulk(p, o, in);
    if (!has_part(o, "async") || has_part(o, "mbarrier"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    if (has_part(o, "commit_group") || has_part(o, "wait_all") || has_part(o, "wait_group")) {
        in->kind = KIND_CP_WAIT;
        in->what[0] = has_part(o, "commit_group") ? 'c' : has_part(o, "wait_all") ? 'a' : 'g';
        return in->what[0] != 'g' || source(p, 4, &in->op[in->n++]);
    }
    in->kind = KIND_CP_ASYNC;
    if (!address(p, SPACE_SHARED, &in->op[in->n++]) || !expect(p, ',') ||
        !address(p, SPACE_GLOBAL, &in->op[in->n++]) || !expect(p, ',') ||
        !source(p, 4, &in->op[in->n++]))
        return false;
    return !take(p, ',') || source(p, 4, &in->op[in->n++]);
}

/* ldmatrix.sync.aligned.m8n8.x4{.trans}.shared.b16 {a, b, c, d}, [from] */
static bool parse_ldmatrix(Parser *p, Opcode *o, Ins *in)
{
    int n = has_part(o, "x4") ? 4 : has_part(o, "x2") ? 2 : 1;
    if (!has_part(o, "m8n8") || !has_part(o, "b16"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->kind = KIND_LDMATRIX;
    in->trans = has_part(o, "trans");
    in->results = (uint8_t)n;
    return group(p, in, n, 4, true) && expect(p, ',') && address(p, SPACE_SHARED, &in->op[in->n++]);
}

/* How many registers of each operand a shape has. */
static const struct {
    const char *shape, *types;
    uint8_t a, b, c, k;
} products[] = {
    {"m16n8k16", ".f16.f16.", 4, 2, 4, 16}, {"m16n8k16", ".bf16.bf16.", 4, 2, 4, 16},
    {"m16n8k8", ".f16.f16.", 2, 1, 4, 8},   {"m16n8k8", ".bf16.bf16.", 2, 1, 4, 8},
    {"m16n8k8", ".tf32.tf32.", 4, 2, 4, 8}, {"m16n8k4", ".tf32.tf32.", 2, 1, 4, 4},
    {"m16n8k32", ".s8.s8.", 4, 2, 4, 32},   {"m16n8k16", ".s8.s8.", 2, 1, 4, 16},
    {"m16n8k32", ".u8.u8.", 4, 2, 4, 32},   {"m16n8k32", ".u8.s8.", 4, 2, 4, 32},
    {"m16n8k32", ".s8.u8.", 4, 2, 4, 32},
};

/* mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {d}, {a}, {b}, {c} */
static bool parse_mma(Parser *p, Opcode *o, Ins *in)
{
    in->kind = KIND_MMA;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (!has_part(o, products[i].shape) || !strstr(o->name, products[i].types) ||
            o->n_types != 4 || in->type.width != 4 || !has_part(o, "row") || !has_part(o, "col"))
            continue;
        in->from = o->types[1];
        in->results = products[i].c;
        in->what[0] = (char)products[i].k;
        in->what[1] = o->types[2].kind;
        return group(p, in, products[i].c, 4, true) && expect(p, ',') &&
               group(p, in, products[i].a, 4, false) && expect(p, ',') &&
               group(p, in, products[i].b, 4, false) && expect(p, ',') &&
               group(p, in, products[i].c, 4, false);
    }
    return fail(p, "`%s` is not known to the stand-in", o->name);
}

static bool parse_nothing(Parser *p, Opcode *o, Ins *in)
{
    (void)o;
    in->kind = KIND_NOTHING;
    for (skip(p); *p->p && *p->p != ';'; p->p++)
        p->line += *p->p == '\n';
    return true;
}

static bool parse_cvt(Parser *p, Opcode *o, Ins *in)
{
    const LaneRow *row = in->sat || isupper((unsigned char)in->round) ? NULL : lane_row(o->name);
    in->results = 1;
    if (o->n_types != 2)
        return fail(p, "`%s` is not known to the stand-in", o->name);
    in->type = o->types[0];
    in->from = o->types[1];
    bool two = in->type.lanes == 2;
    if (in->type.kind == 'f' || in->type.kind == 'h')
        in->sat |= has_part(o, "satfinite");
    if (has_part(o, "relu"))
        return fail(p, "`%s` is not known to the stand-in", o->name);
    if (!result(p, 0, &in->op[in->n++]) || !expect(p, ','))
        return false;
    skip(p);
    if (!source(p, isdigit((unsigned char)*p->p) || *p->p == '-' ? in->from.width : 0,
                &in->op[in->n++]))
        return false;
    if (two && (!expect(p, ',') || !source(p, in->from.width, &in->op[in->n++])))
        return false;
    if (in->op[0].width < in->type.width || in->op[1].width < in->from.width)
        return fail(p, "`%s` takes wider registers", o->name);
    bool exact = in->op[0].width == in->type.width && in->op[1].width == in->from.width;
    in->kind = row && exact ? KIND_LANES : KIND_CVT;
    in->fn = row ? row->fn : NULL;
    return true;
}

static bool parse_lanes(Parser *p, Opcode *o, Ins *in)
{
    const LaneRow *row = lane_row(o->name);
    if (!row || !o->n_types)
        return fail(p, "`%s` is not known to the stand-in", o->name);
    Type t = o->types[o->n_types - 1], d = o->types[0];
    in->kind = KIND_LANES;
    in->fn = row->fn;
    in->type = t;
    in->results = 1;
    for (const char *c = row->operands; *c; c++) {
        uint8_t width = *c == 't'   ? t.width
                        : *c == 'w' ? (uint8_t)(2 * t.width)
                        : *c == 'd' ? d.width
                        : *c == 'i' ? 4
                                    : 1;
        Operand *op = &in->op[in->n++];
        if (c != row->operands && !expect(p, ','))
            return false;
        if (!(c == row->operands ? result(p, width, op) : source(p, width, op)))
            return false;
        if (op->negated)
            return fail(p, "a negated operand of `%s` is not known to the stand-in", o->name);
    }
    return true;
}

/* mov.b32 d, a; mov.b64 {a, b}, d; mov.b64 d, {a, b} */
static bool parse_mov(Parser *p, Opcode *o, Ins *in)
{
    skip(p);
    const char *comma = p->p + strcspn(p->p, ",;");
    bool split = *p->p == '{', join = *comma == ',' && comma[1 + strspn(comma + 1, " \t")] == '{';
    if (!split && !join)
        return parse_lanes(p, o, in);
    in->kind = KIND_MOVE;
    int n = 1;
    for (const char *c = (split ? p->p : comma + 1); *c && *c != '}'; c++)
        n += *c == ',';
    if (n < 2 || n > 4 || in->type.width % n)
        return fail(p, "expected two or four parts");
    uint8_t part = (uint8_t)(in->type.width / n);
    in->results = (uint8_t)(split ? n : 1);
    return group(p, in, split ? n : 1, split ? part : in->type.width, true) && expect(p, ',') &&
           group(p, in, split ? 1 : n, split ? in->type.width : part, false);
}

static const struct {
    const char *op;
    bool (*parse)(Parser *p, Opcode *o, Ins *in);
} forms[] = {
    {"ld", parse_ld},
    {"ldu", parse_ld},
    {"st", parse_st},
    {"atom", parse_atom},
    {"red", parse_atom},
    {"bra", parse_bra},
    {"brx", parse_brx},
    {"ret", parse_end},
    {"exit", parse_end},
    {"trap", parse_end},
    {"bar", parse_bar},
    {"barrier", parse_bar},
    {"shfl", parse_shfl},
    {"vote", parse_vote},
    {"match", parse_vote},
    {"redux", parse_vote},
    {"activemask", parse_active},
    {"cp", parse_cp},
    {"ldmatrix", parse_ldmatrix},
    {"mma", parse_mma},
    {"wgmma", parse_wgmma},
    {"mbarrier", parse_gate},
    {"membar", parse_nothing},
    {"fence", parse_nothing},
    {"prefetch", parse_nothing},
    {"prefetchu", parse_nothing},
    {"nanosleep", parse_nothing},
    {"cvt", parse_cvt},
    {"mov", parse_mov},
};

static bool instruction(Parser *p, const char *first)
{
    Ins in = {.line = p->line, .round = 0};
    char w[NAME];
    snprintf(w, NAME, "%s", first);
    Opcode o = {0};
    if (!opcode(p, w, &o, &in))
        return false;
    bool (*parse)(Parser *, Opcode *, Ins *) = parse_lanes;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i].op, o.token[0]))
            parse = forms[i].parse;
    if (!parse(p, &o, &in) || !expect(p, ';'))
        return false;
    Ins *to = PUSH(p->k->ins, p->k->n);
    *to = in;
    return true;
}

static bool guarded(Parser *p)
{
    char w[NAME];
    Operand guard;
    bool negated = take(p, '!');
    if (!source(p, 1, &guard) || !word(p, w))
        return fail(p, "expected an instruction behind a predicate");
    int at = p->k->n;
    if (!instruction(p, w))
        return false;
    p->k->ins[at].guarded = true;
    p->k->ins[at].guard = guard.at;
    p->k->ins[at].guard_not = negated;
    return true;
}

/* name: .branchtargets a, b, c; */
static bool branch_targets(Parser *p, const char *name)
{
    Label *t = PUSH(p->tables, p->n_tables);
    snprintf(t->name, NAME, "%s", name);
    t->at = p->k->n_targets;
    *PUSH(p->k->targets, p->k->n_targets) = 0;
    do {
        Operand ignored;
        if (!label_use(p, &ignored))
            return false;
        Use *u = &p->uses[p->n_uses - 1];
        u->ins = -1;
        u->target = p->k->n_targets;
        *PUSH(p->k->targets, p->k->n_targets) = 0;
        p->k->targets[t->at]++;
    } while (take(p, ','));
    return expect(p, ';');
}

static bool statement(Parser *p)
{
    char w[NAME];
    if (take(p, '@'))
        return guarded(p);
    if (!word(p, w))
        return fail(p, "expected an instruction, found `%.12s`", p->p);
    if (take(p, ':')) {
        if (take_word(p, ".branchtargets"))
            return branch_targets(p, w);
        Label *l = PUSH(p->labels, p->n_labels);
        snprintf(l->name, NAME, "%s", w);
        l->at = p->k->n;
        return true;
    }
    if (!strcmp(w, ".reg"))
        return registers(p);
    if (!strcmp(w, ".shared"))
        return local_variable(p, SPACE_SHARED);
    if (!strcmp(w, ".local"))
        return local_variable(p, SPACE_LOCAL);
    if (!strcmp(w, ".loc") || !strcmp(w, ".file") || !strcmp(w, ".pragma")) {
        skip_line(p);
        return true;
    }
    if (*w == '.')
        return fail(p, "`%s` is not known to the stand-in", w);
    return instruction(p, w);
}

static bool resolve(Parser *p)
{
    for (int i = 0; i < p->n_uses; i++) {
        const Use *u = &p->uses[i];
        int at = -1;
        for (int j = 0; j < p->n_labels; j++)
            if (!strcmp(p->labels[j].name, u->name))
                at = p->labels[j].at;
        if (at < 0) {
            p->line = u->line;
            return fail(p, "there is no label `%s`", u->name);
        }
        if (u->ins < 0)
            p->k->targets[u->target] = at;
        else
            p->k->ins[u->ins].op[0].at = (uint32_t)at;
    }
    return true;
}

static bool body(Parser *p)
{
    int depth = 1;
    while (depth) {
        if (take(p, '{'))
            depth++;
        else if (take(p, '}'))
            depth--;
        else if (!*p->p)
            return fail(p, "the body of `%s` does not end", p->k->name);
        else if (!statement(p))
            return false;
    }
    /* Who runs off the end has returned. */
    *PUSH(p->k->ins, p->k->n) = (Ins){.kind = KIND_EXIT, .line = p->line};
    return resolve(p);
}

static bool kernel_limits(Parser *p)
{
    char w[NAME];
    uint64_t x;
    while (*(skip(p), p->p) == '.') {
        if (!word(p, w))
            return fail(p, "expected a directive");
        for (int i = 0; number(p, &x); i++) {
            if (i < 3 && (!strcmp(w, ".maxntid") || !strcmp(w, ".reqntid"))) {
                if (i == 0)
                    p->k->most[1] = p->k->most[2] = 1;
                p->k->most[i] = (uint32_t)x;
            }
            if (!take(p, ','))
                break;
        }
    }
    return true;
}

static bool entry(Parser *p)
{
    char name[NAME];
    if (!word(p, name))
        return fail(p, "expected a kernel's name");
    Kernel *k = calloc(1, sizeof *k);
    *PUSH(p->m->kernels, p->m->n_kernels) = k;
    p->k = k;
    k->module = p->m;
    snprintf(k->name, sizeof k->name, "%s", name);
    int symbols = p->n_symbols;
    p->n_ranges = p->n_labels = p->n_uses = p->n_tables = 0;
    free(p->ranges);
    free(p->labels);
    free(p->uses);
    free(p->tables);
    p->ranges = NULL;
    p->labels = NULL;
    p->uses = NULL;
    p->tables = NULL;
    for (int i = 0; i < p->m->n_globals; i++)
        if (p->m->globals[i].space == SPACE_SHARED)
            k->shared_size = (uint32_t)(p->m->globals[i].at + p->m->globals[i].size);
    if (!params(p) || !kernel_limits(p))
        return false;
    if (!take(p, ';') && (!expect(p, '{') || !body(p)))
        return false;
    if (k->shared_size > STATIC_SHARED)
        return fail(p, "`%s` wants %u bytes of shared memory; there are %d", k->name,
                    k->shared_size, STATIC_SHARED);
    k->dynamic_at = aligned(k->shared_size, 16);
    k->dynamic_most = STATIC_SHARED;
    p->n_symbols = symbols;
    p->symbols = symbols ? p->symbols : (free(p->symbols), NULL);
    return true;
}

static bool directive(Parser *p, const char *w)
{
    if (!strcmp(w, ".version") || !strcmp(w, ".target") || !strcmp(w, ".address_size") ||
        !strcmp(w, ".file") || !strcmp(w, ".pragma")) {
        skip_line(p);
        return true;
    }
    if (!strcmp(w, ".visible") || !strcmp(w, ".extern") || !strcmp(w, ".weak"))
        return true;
    if (!strcmp(w, ".entry"))
        return entry(p);
    if (!strcmp(w, ".global"))
        return global(p, SPACE_GLOBAL);
    if (!strcmp(w, ".const"))
        return global(p, SPACE_CONST);
    if (!strcmp(w, ".shared"))
        return module_shared(p);
    return fail(p, "`%s` is not known to the stand-in", w);
}

Module *module_parse(const char *text, char *log, size_t room)
{
    Module *m = calloc(1, sizeof *m);
    Parser p = {.p = text, .line = 1, .log = log, .room = room, .m = m};
    char w[NAME];
    bool ok = true, version = false;
    while (ok && (skip(&p), *p.p)) {
        ok = word(&p, w) && *w == '.' ? directive(&p, w)
                                      : fail(&p, "expected a directive, found `%.12s`", p.p);
        version = version || !strcmp(w, ".version");
    }
    if (ok && !version)
        ok = fail(&p, "no `.version`");
    free(p.ranges);
    free(p.symbols);
    free(p.labels);
    free(p.uses);
    free(p.tables);
    if (ok)
        return m;
    module_free(m);
    return NULL;
}

void module_free(Module *m)
{
    for (int i = 0; i < m->n_kernels; i++) {
        Kernel *k = m->kernels[i];
        free(k->ins);
        free(k->params);
        free(k->specials);
        free(k->constants);
        free(k->targets);
        free(k->sums);
        free(k);
    }
    for (int i = 0; i < m->n_globals; i++)
        if (m->globals[i].space != SPACE_SHARED)
            device_free(m->globals[i].at);
    free(m->kernels);
    free(m->globals);
    free(m);
}

Kernel *module_kernel(Module *m, const char *name)
{
    for (int i = 0; i < m->n_kernels; i++)
        if (!strcmp(m->kernels[i]->name, name))
            return m->kernels[i];
    return NULL;
}
