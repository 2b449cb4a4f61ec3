/* `meta[KEY][k]`: what stands in the metadata section, behind everything else. */
#include "base/random.h"
#include "parser/internal.h"

#include <string.h>

/* The section is looked for when it is first needed, or where it begins. */
bool parse_metadata(Parser *p)
{
    if (p->meta_known)
        return p->meta_from != 0;
    p->meta_known = true;
    uint32_t end = (uint32_t)sources_get(&p->cx->sources, p->source)->len;
    Lexer ahead = {.text = p->lx.text, .end = end, .at = p->tok.from};
    for (Token t = lexer_next(&ahead); t.kind != TOKEN_END; t = lexer_next(&ahead)) {
        if (t.kind != TOKEN_HASH)
            continue;
        Token key = lexer_next(&ahead);
        if (key.kind != TOKEN_IDENT || !str_is(token_text(p, key), "metadata"))
            continue;
        if (lexer_next(&ahead).kind != TOKEN_RBRACKET)
            continue;
        p->meta_from = ahead.at;
        Str json = {p->lx.text + ahead.at, end - ahead.at};
        p->meta_broken =
            !metadata_open(&p->meta, p->cx, &p->scratch, p->m, json, parse_span(p, ahead.at, end));
        p->errors += p->meta_broken;
        return true;
    }
    return false;
}

/* ---- texts without their metadata ---------------------------------------------------------------------- */

/* The type in a comment behind the token before this one, as printed texts have it; NULL: there is none. */
static const Type *type_in_comment(Parser *p)
{
    static const char mark[] = "/* ty=";
    size_t n = sizeof mark - 1;
    const char *text = p->lx.text;
    uint32_t at = p->last_to, end = p->tok.from;
    while (at < end && (text[at] == ' ' || text[at] == '\n'))
        at++;
    if (end - at < n || memcmp(text + at, mark, n) != 0)
        return NULL;
    Lexer lx = p->lx;
    Token tok = p->tok;
    uint32_t last_to = p->last_to, from = at + (uint32_t)n;
    for (end = from; text[end] != '*' || text[end + 1] != '/';)
        end++;
    p->lx = (Lexer){.text = text, .at = from, .end = end};
    parse_advance(p);
    const Type *t = parse_type(p);
    p->lx = lx;
    p->tok = tok;
    p->last_to = last_to;
    return t;
}

static Value make_up(Parser *p, const MetaRef *ref, const Type *t)
{
    Tensor *made = tensor_new(&p->cx->limits, t->dtype, (int32_t)t->n, t->dims);
    uint64_t drawn = 0;
    if (made && strcmp(p->env->missing, "random") == 0)
        tensor_fill_uniform(&p->cx->limits, made,
                            random_at(random_seed("missing"), (uint64_t)ref->index), &drawn);
    return made ? value_tensor(made) : value_none();
}

/* A constant that the metadata lacks, of the type that stands behind it; the same wherever it is named. NULL: there is no such type,
 * or nobody wants one. */
static Expr *missing_constant(Parser *p, const MetaRef *ref)
{
    if (!p->env->missing || parse_metadata(p))
        return NULL;
    void **known = ptrmap_slot(&p->made_up, (const void *)((uintptr_t)ref->index + 1));
    const Type *t = known && !*known ? type_in_comment(p) : NULL;
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_TENSOR || !type_is_static(t) || t->n > TENSOR_RANK_MOST)
        return known ? *known : NULL;
    Value v = make_up(p, ref, t);
    *known = value_is_none(v) ? p->poison : expr_constant(p->arena, ref->span, v);
    value_release(v);
    return *known;
}

static void no_section(Parser *p, const MetaRef *ref)
{
    bool typed = p->tok.from > p->last_to + 2 && p->lx.text[p->last_to + 1] == '/';
    Diag *d = parse_error(p, E0117_METADATA, ref->span, "the text has no metadata section");
    if (p->env->missing)
        diag_help(d, "a constant is made up where its type stands in a comment behind it");
    else if (typed && str_is(ref->key, "relay.Constant"))
        diag_help(d, "`--missing zeros` or `--missing random` makes up constants of the types that "
                     "stand in comments");
    else
        diag_help(
            d, "the section `#[metadata]` behind the definitions holds what `meta[…]` refers to");
}

static bool find_node(Parser *p, const MetaRef *ref, size_t *node)
{
    if (!parse_metadata(p)) {
        no_section(p, ref);
        return false;
    }
    bool found = !p->meta_broken && metadata_find(&p->meta, ref->key, ref->index, ref->span, node);
    p->errors += !found;
    return found;
}

bool parse_meta_ref(Parser *p, MetaRef *out)
{
    uint32_t from = p->tok.from, to;
    parse_advance(p);
    if (!parse_dotted(p, &out->key) || !parse_expect(p, TOKEN_RBRACKET) ||
        !parse_expect(p, TOKEN_LBRACKET) || !parse_index(p, false, &out->index, &to))
        return false;
    to = p->tok.to;
    if (!parse_expect(p, TOKEN_RBRACKET))
        return false;
    out->span = parse_span(p, from, to);
    if (memchr(p->lx.text + from, ' ', to - from) || memchr(p->lx.text + from, '\n', to - from))
        parse_wider(p, out->span, "a blank inside of `meta[…][…]`", "leave it out");
    return true;
}

bool parse_at_meta_expr(const Parser *p)
{
    if (!parse_at(p, TOKEN_META))
        return false;
    Str rest = {p->lx.text + p->tok.to, p->lx.end - p->tok.to};
    size_t n = 0;
    while (n < rest.len && rest.ptr[n] != ']' && rest.ptr[n] != '\n')
        n++;
    rest.len = n;
    return str_is(rest, "relay.Constant");
}

Expr *parse_meta(Parser *p)
{
    MetaRef ref;
    size_t node;
    if (!parse_meta_ref(p, &ref))
        return NULL;
    Expr *made = missing_constant(p, &ref);
    if (made || !find_node(p, &ref, &node))
        return made;
    Expr *known = graph_kind(&p->meta.graph, node) < GRAPH_NULL ? p->meta.reader.made[node] : NULL;
    if (known)
        return known;
    Expr *e = graph_read_expr(&p->meta.reader, node);
    p->errors += !e;
    if (e)
        e->span = ref.span;
    return e;
}

bool parse_meta_extent(Parser *p, Dim *out)
{
    MetaRef ref;
    size_t node;
    *out = DIM_ANY;
    if (!parse_meta_ref(p, &ref))
        return false;
    if (str_is(ref.key, "tir.Any") || !find_node(p, &ref, &node))
        return true;
    p->errors += !graph_read_extent(&p->meta.reader, node, out);
    return true;
}

bool parse_meta_value(Parser *p, AttrValue *out)
{
    MetaRef ref;
    size_t node;
    *out = (AttrValue){.kind = ATTR_NONE};
    if (!parse_meta_ref(p, &ref))
        return false;
    if (!find_node(p, &ref, &node))
        return true;
    bool made =
        graph_kind(&p->meta.graph, node) >= GRAPH_NULL || graph_read_expr(&p->meta.reader, node);
    p->errors += !made || !graph_read_attr(&p->meta.reader, node, out);
    return true;
}

/* A record is unpacked for an operator whose record it is; for another call it stays one, and so does a dictionary for an operator
 * that has no attributes of its own. */
bool parse_meta_record(Parser *p, const Op *op)
{
    MetaRef ref;
    size_t node;
    Attrs *fields;
    Attr whole = {.key = ""};
    if (!parse_meta_ref(p, &ref))
        return false;
    if (!find_node(p, &ref, &node))
        return true;
    whole.span = whole.key_span = ref.span;
    const GraphRecord *row = graph_record(&p->meta.graph, node);
    bool noted = op && !op->attrs && graph_kind(&p->meta.graph, node) == GRAPH_DICT_ATTRS;
    if (op && !noted && (!row || !graph_has_word(row->ops, op->name))) {
        parse_error(p, E0117_METADATA, ref.span, "the attributes of `%s` are no `%.*s`", op->name,
                    (int)ref.key.len, ref.key.ptr);
    } else if (!op || noted) {
        p->errors += !graph_read_attr(&p->meta.reader, node, &whole.value);
        vec_push(&p->attrs, &p->scratch, whole);
    } else if (graph_read_record(&p->meta.reader, node, op->name, op->attrs, &fields)) {
        for (uint32_t i = 0; i < fields->n; i++) {
            fields->at[i].span = fields->at[i].key_span = ref.span;
            vec_push(&p->attrs, &p->scratch, fields->at[i]);
        }
    } else {
        p->errors++;
    }
    return true;
}
