/* Cells: a text item by item, because what an item means depends on those before it. */
#include "parser/internal.h"

#include <string.h>

void cell_parser_init(CellParser *p, Ctx *cx, uint32_t source)
{
    *p = (CellParser){.cx = cx, .source = source};
}

/* `:name arguments` to the end of the line. */
static void command(Parser *p, CellItem *out)
{
    const char *text = p->lx.text;
    uint32_t at = p->tok.to, end = p->lx.end;
    const char *line = memchr(text + at, '\n', end - at);
    uint32_t stop = line ? (uint32_t)(line - text) : end;
    uint32_t to = at;
    while (to < stop &&
           ((text[to] >= 'a' && text[to] <= 'z') || (text[to] >= 'A' && text[to] <= 'Z') ||
            text[to] == '_' || text[to] == '-' || text[to] == '?' ||
            (text[to] >= '0' && text[to] <= '9')))
        to++;
    out->kind = CELL_COMMAND;
    out->command = (Str){text + at, to - at};
    uint32_t last = stop;
    while (to < stop && (text[to] == ' ' || text[to] == '\t'))
        to++;
    while (last > to && strchr(" \t\r", text[last - 1]))
        last--;
    out->args = parse_span(p, to, last);
    out->span = parse_span(p, p->tok.from, last);
    p->last_to = stop;
    p->lx.at = stop;
    p->tok.from = p->tok.to = stop;
}

/* ---- what other consoles take for a command ------------------------------------------------------------------------------- */

static bool in_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           strchr("_./", c) != NULL;
}

/* The name at the beginning of what is left, taken from it with the blanks behind; empty where none is. */
static Str take_name(Str *left)
{
    size_t n = left->len > 0 && left->ptr[0] && strchr("@%:", left->ptr[0]) ? 1 : 0;
    while (n < left->len && left->ptr[n] && in_name(left->ptr[n]))
        n++;
    Str name = {left->ptr, n};
    while (n < left->len && (left->ptr[n] == ' ' || left->ptr[n] == '\t'))
        n++;
    *left = (Str){left->ptr + n, left->len - n};
    return name;
}

static bool take_marks(Str *left)
{
    size_t n = 0;
    while (n < left->len && (left->ptr[n] == '?' || left->ptr[n] == ' '))
        n++;
    bool any = n > 0 && left->ptr[0] == '?';
    *left = (Str){left->ptr + n, left->len - n};
    return any;
}

/* The words that leave, or ask for help, as long as no constructor has the name: `quit`, `exit()`. */
static const char *spoken_word(Parser *p, Str word)
{
    static const char *const words[][2] = {{"help", "help"}, {"quit", "quit"}, {"exit", "quit"}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (str_is(word, words[i][0]) && !symbol_con(p, symbol_get(p, word)))
            return words[i][1];
    return NULL;
}

/* A line `?`, `nn.dense?`, `?nn.dense`, `help nn.dense`, `help(nn.dense)` or `quit` is the command that it stands for; false for any other. */
static bool spoken(Parser *p, CellItem *out)
{
    const char *at = p->lx.text + p->tok.from;
    size_t most = p->lx.end - p->tok.from;
    const char *end = memchr(at, '\n', most);
    Str left = {at, end ? (size_t)(end - at) : most};
    while (left.len > 0 && left.ptr[left.len - 1] && strchr(" \t\r;", left.ptr[left.len - 1]))
        left.len--;
    uint32_t to = p->tok.from + (uint32_t)left.len;
    bool asked = take_marks(&left);
    Str name = take_name(&left);
    const char *word = asked ? NULL : spoken_word(p, name);
    if (word && left.len >= 2 && left.ptr[0] == '(' && left.ptr[left.len - 1] == ')') {
        left = (Str){left.ptr + 1, left.len - 2};
        name = take_name(&left);
        asked = name.len > 0 && str_is(str_of(word), "help");
    } else if (word) {
        name = str_is(name, "help") && left.len > 0 ? take_name(&left) : (Str){name.ptr, 0};
        asked = name.len > 0;
    } else {
        asked |= take_marks(&left) && !str_is(name, "match");
    }
    if (left.len > 0 || (!asked && (!word || name.len > 0)))
        return false;
    uint32_t from = (uint32_t)(name.ptr - p->lx.text);
    out->kind = CELL_COMMAND;
    out->command = str_of(name.len > 0 ? "doc" : word ? word : "help");
    out->args = parse_span(p, from, from + (uint32_t)name.len);
    out->span = parse_span(p, p->tok.from, to);
    p->last_to = p->lx.at = p->tok.from = p->tok.to = to;
    return true;
}

/* An item ends at a `;`, at a new line, or at the end. */
static bool item_end(Parser *p)
{
    if (parse_take(p, TOKEN_SEMICOLON) || parse_at(p, TOKEN_END) || parse_line_before(p))
        return true;
    parse_expected(p, E0104_EXPECTED_TOKEN, "`;` or a new line");
    return false;
}

static const Name *graph_name(Parser *p, Token t)
{
    return ctx_name_str(p->cx, token_name(p, t));
}

/* A binding without what it is the binding of: its value is an item. */
static void binding(Parser *p, CellItem *out)
{
    Token name = p->tok;
    out->kind = CELL_LET;
    out->graph = parse_at(p, TOKEN_GRAPH);
    if (!step_statement(p))
        return;
    Frame f = *frame_top(p);
    parse_frame_pop(p);
    out->var =
        out->graph ? expr_var(p->arena, token_span(p, name), graph_name(p, name), NULL) : f.let.var;
    p->item = out->var;
    if (parse_expr(p, FRAME_ITEM))
        item_end(p);
}

static void definitions(Parser *p, CellItem *out)
{
    out->kind = CELL_DEFINITIONS;
    while (parse_at_import(p))
        parse_import(p);
    declare_types(p, DECLARE_GROUP);
    while (parse_at_definition(p) && p->cx->limits.hit == LIMIT_NONE)
        parse_definition(p);
    parse_take(p, TOKEN_SEMICOLON);
}

/* A piece of a program that declares its free variables is one item, with all its bindings. */
static void expression(Parser *p, CellItem *out)
{
    out->kind = CELL_EXPR;
    if (parse_expr(p, parse_at(p, TOKEN_FREE_VAR) ? FRAME_TOP : FRAME_ITEM))
        item_end(p);
}

static void header(Parser *p)
{
    while (parse_at(p, TOKEN_HASH)) {
        if (parse_at_mark(p, "metadata")) {
            p->lx.at = p->lx.end;
            parse_advance(p);
            return;
        }
        if (parse_at_mark(p, "version"))
            parse_header(p);
        else
            parse_wrong_mark(p);
    }
}

static void item(Parser *p, CellItem *out)
{
    header(p);
    while (parse_take(p, TOKEN_SEMICOLON))
        ;
    out->span = token_span(p, p->tok);
    if (parse_at(p, TOKEN_END)) {
        out->kind = CELL_END;
    } else if (spoken(p, out)) {
        return;
    } else if (parse_at(p, TOKEN_COLON)) {
        command(p, out);
        return;
    } else if (parse_at_definition(p)) {
        definitions(p, out);
    } else if (parse_at(p, TOKEN_LET) ||
               (parse_at(p, TOKEN_GRAPH) && parse_peek(p).kind == TOKEN_ASSIGN)) {
        binding(p, out);
    } else {
        expression(p, out);
    }
    out->span.to = p->last_to > out->span.from ? p->last_to : out->span.from;
}

static bool begins_item(const Parser *p)
{
    return parse_at_definition(p) || parse_at(p, TOKEN_LET) || parse_at(p, TOKEN_COLON);
}

/* Where what was passed over may end: at the next line that begins as items do. */
static void find_item(Parser *p)
{
    while (!parse_at(p, TOKEN_END) && !(begins_item(p) && parse_line_before(p)))
        parse_advance(p);
}

static bool is_done(CellItemKind kind)
{
    return kind == CELL_END || kind == CELL_COMMAND;
}

void cell_parser_next(CellParser *cp, const ParseEnv *env, CellItem *out)
{
    Parser p;
    *out = (CellItem){.kind = CELL_ERROR, .lost = true};
    const Source *text = sources_get(&cp->cx->sources, cp->source);
    Diag *before = cp->cx->diags->last;
    if (!text || cp->at > text->len ||
        !parser_init(&p, cp->cx, cp->source, cp->at, (uint32_t)text->len, env))
        return;
    p.lines = true;
    p.lenient = cp->lenient;
    p.m->gaps |= cp->lenient;
    item(&p, out);
    out->lost = p.errors > p.passable + p.unjudged;
    if (out->lost && !limit_hit(&cp->cx->limits))
        find_item(&p);
    bool stopped = limit_hit(&cp->cx->limits), failed = p.errors > 0 || stopped;
    cp->lenient |= out->lost;
    cp->at = stopped ? (uint32_t)text->len : p.tok.from;
    out->module = p.m;
    p.m->broken = failed;
    if (parse_unreadable(&p))
        p.m->expr = NULL;
    parser_deinit(&p);
    bool kept = failed ? env->keep_broken : !is_done(out->kind);
    if (failed) {
        out->kind = CELL_ERROR;
        diags_sort(cp->cx->diags, before);
    }
    if (kept)
        return;
    module_release(out->module);
    out->module = NULL;
    out->var = NULL;
}
