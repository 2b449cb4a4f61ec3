/* What the printer knows about nodes, and the names that it gives to variables. */
#include "ir/print_internal.h"

#include <string.h>

/* ---- nodes ------------------------------------------------------------------------------------------------------------------ */

PrintNode *node_find(Printer *p, const Expr *e)
{
    const uint32_t *page = places_find(&p->nodes.places, e);
    uint32_t at = page ? page[places_index(e)] : 0;
    return at ? &p->nodes.nodes.at[at - 1] : NULL;
}

PrintNode *node_get(Printer *p, const Expr *e)
{
    uint32_t *page = places_get(&p->nodes.places, &p->arena, e, PLACES * sizeof *page);
    uint32_t *at = &page[places_index(e)];
    if (!*at) {
        vec_push(&p->nodes.nodes, &p->arena, ((PrintNode){.e = e, .number = -1}));
        *at = (uint32_t)p->nodes.nodes.n;
    }
    return &p->nodes.nodes.at[*at - 1];
}

/* ---- names of variables ------------------------------------------------------------------------------------------------------ */

/* The name with this text; `used` has an entry for it. */
static const Name *name_of(Printer *p, const char *text, size_t n)
{
    const Name *name = name_intern(&p->names, text, n);
    while (p->used.n <= name->id)
        vec_push(&p->used, &p->arena, ((UsedName){0}));
    return name;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static bool fits_name(char c)
{
    return is_letter(c) || (c >= '0' && c <= '9') || c == '_' || c == '/';
}

/* `::` in the middle of a name, as values of other frameworks have it. */
static bool at_colons(const Name *hint, size_t i)
{
    return i > 0 && i + 2 < hint->len && hint->text[i] == ':' && hint->text[i + 1] == ':' &&
           is_letter(hint->text[i + 2]);
}

/* Words that cannot stand behind a `%`. */
static bool is_reserved(const char *s, size_t n)
{
    static const Str words[] = {{"let", 3},      {"fn", 2},   {"def", 3},      {"if", 2},
                                {"else", 4},     {"type", 4}, {"match", 5},    {"extern", 6},
                                {"free_var", 8}, {"ref", 3},  {"ref_read", 8}, {"ref_write", 9}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (words[i].len == n && words[i].ptr[0] == s[0] && !memcmp(words[i].ptr, s, n))
            return true;
    return false;
}

/* Whether the hint is a name that can be read back. */
static bool is_plain(const Name *hint)
{
    if (!hint || hint->len == 0 || !is_letter(hint->text[0]))
        return false;
    for (size_t i = 1; i < hint->len; i++)
        if (at_colons(hint, i))
            i++;
        else if (!fits_name(hint->text[i]))
            return false;
    return !is_reserved(hint->text, hint->len);
}

/* The hint as a name that can be read back, in p->head. */
static void spell(Printer *p, const Name *hint)
{
    Buf *b = &p->head;
    buf_clear(b);
    size_t n = hint ? hint->len : 0;
    if (n == 0 || !is_letter(hint->text[0]) || is_reserved(hint->text, n))
        buf_char(b, 'v');
    for (size_t i = 0; i < n; i++)
        buf_char(b, fits_name(hint->text[i]) || at_colons(hint, i) || (i && at_colons(hint, i - 1))
                        ? hint->text[i]
                        : '_');
}

#define HINT_PAGE 1024

/* Whether the plain hint is used for the first time; notes it. */
static bool hint_is_new(Printer *p, const Name *hint)
{
    size_t page = hint->id / (8 * HINT_PAGE), at = hint->id / 8 % HINT_PAGE;
    unsigned char bit = (unsigned char)(1u << hint->id % 8);
    while (p->hints.n <= page)
        vec_push(&p->hints, &p->arena, NULL);
    if (!p->hints.at[page])
        p->hints.at[page] = arena_alloc_must(&p->arena, HINT_PAGE, 1);
    bool is_new = !(p->hints.at[page][at] & bit);
    p->hints.at[page][at] |= bit;
    return is_new;
}

/* As long as each variable has a plain hint of its own, the table of names is not needed. */
static void names_begin(Printer *p)
{
    p->names_made = true;
    for (size_t i = 0; i < p->nodes.nodes.n; i++) {
        const PrintNode *node = &p->nodes.nodes.at[i];
        if (node->e->kind != EXPR_VAR || !node->met)
            continue;
        const Name *name = name_of(p, node->name.at, node->name.n);
        p->used.at[name->id].used = true;
    }
}

/* The hint, or behind it the first number that makes a new name. */
static Str new_name(Printer *p, const Name *hint)
{
    if (!p->names_made)
        names_begin(p);
    spell(p, hint);
    size_t stem = p->head.n;
    const Name *name = name_of(p, buf_text(&p->head), stem);
    for (uint32_t first = name->id; p->used.at[name->id].used && !p->head.failed;) {
        p->head.n = stem;
        buf_uint(&p->head, ++p->used.at[first].next);
        name = name_of(p, buf_text(&p->head), p->head.n);
    }
    p->failed |= p->head.failed;
    p->used.at[name->id].used = true;
    return (Str){name->text, name->len};
}

static Str hinted_name(Printer *p, const Var *v)
{
    bool plain = !p->names_made && is_plain(v->name) && hint_is_new(p, v->name);
    return plain ? (Str){v->name->text, v->name->len} : new_name(p, v->name);
}

static Str asked_name(Printer *p, const Var *v)
{
    const PrintNodes *nodes = p->style.nodes;
    spell(p, v->name);
    return str_of(nodes->name(nodes->data, v, buf_text(&p->head)));
}

PrintNode *name_var(Printer *p, const Var *v)
{
    if (var_is_hole(v)) {
        PrintNode *hole = node_get(p, &v->base);
        hole->met = true;
        hole->name.at = v->name->text;
        hole->name.n = v->name->len;
        return hole;
    }
    Str name = p->style.nodes ? asked_name(p, v) : hinted_name(p, v);
    PrintNode *node = node_get(p, &v->base);
    node->met = true;
    node->name.at = name.ptr;
    node->name.n = name.len;
    return node;
}

void put_var(Buf *b, const PrintNode *node)
{
    if (node->name.n == 1 && node->name.at[0] == HOLE_NAME[0]) {
        buf_char(b, '_');
        return;
    }
    buf_char(b, '%');
    buf_bytes(b, node->name.at, node->name.n);
}
