/* What could stand at the cursor. */
#include "passes/pass.h"
#include "session/internal.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct Completer {
    RelaySession *s;
    RelayCompletions *out;
    size_t cap;
    Str prefix;             /* what stands before the cursor, sigil included */
    PtrMap seen;
} Completer;

static char *copy(const char *text, size_t n)
{
    char *p = malloc(n + 1);
    if (p) {
        memcpy(p, text, n);
        p[n] = 0;
    }
    return p;
}

/* Adds `sigil` and `name` when they continue the prefix; the type is printed when there is one, else `detail`. */
static void offer(Completer *c, const char *sigil, const char *name, const char *kind,
                  const Type *type, const char *detail)
{
    Buf text = {0}, more = {0};
    buf_printf(&text, "%s%s", sigil, name);
    bool fits = text.n >= c->prefix.len && !memcmp(buf_text(&text), c->prefix.ptr, c->prefix.len);
    const Name *key = ctx_name(&c->s->cx, buf_text(&text));
    if (fits && !ptrmap_has(&c->seen, key)) {
        ptrmap_put(&c->seen, key, NULL);
        if (c->out->n == c->cap) {
            size_t cap = c->cap ? 2 * c->cap : 64;
            RelayCompletion *grown = realloc(c->out->items, cap * sizeof *grown);
            fits = grown != NULL;
            c->out->items = grown ? grown : c->out->items;
            c->cap = grown ? cap : c->cap;
        }
        if (type)
            type_print(&more, type);
        else
            buf_str(&more, detail ? detail : "");
        if (fits)
            c->out->items[c->out->n++] = (RelayCompletion){buf_take(&text), kind, buf_take(&more)};
    }
    buf_deinit(&text);
    buf_deinit(&more);
}

static bool offer_op(void *data, const Op *op)
{
    offer(data, "", op->name, "operator", NULL, op->doc);
    return true;
}

static void offer_globals(Completer *c)
{
    const Module *env = c->s->env;
    for (size_t i = 0; i < env->defs.n; i++)
        if (env->defs.at[i].fn && !strchr(env->defs.at[i].name->text, '.'))
            offer(c, "@", env->defs.at[i].name->text, "global", env->defs.at[i].fn->base.type,
                  NULL);
}

static void offer_locals(Completer *c)
{
    for (size_t i = 0; i < c->s->n_locals; i++)
        offer(c, "%", c->s->locals[i].var->name->text, "local", c->s->locals[i].var->base.type,
              NULL);
}

typedef struct TextLocals {
    Completer *c;
    const char *text;
    size_t cursor;
} TextLocals;

/* Variables and functions that the text itself names. */
static void offer_token(void *data, const LexedToken *t)
{
    TextLocals *tl = data;
    bool local = !strcmp(t->kind, "local"), global = !strcmp(t->kind, "global");
    if ((!local && !global) || t->to == tl->cursor || t->to <= t->from + 1)
        return;
    char *name = copy(tl->text + t->from + 1, t->to - t->from - 1);
    if (name)
        offer(tl->c, local ? "%" : "@", name, t->kind, NULL, "");
    free(name);
}

static void offer_types(Completer *c)
{
    const Module *env = c->s->env;
    for (size_t i = 0; i < env->types.n; i++) {
        const TypeDef *def = env->types.at[i];
        offer(c, "", def->name->text, "type", NULL, "data type");
        for (uint32_t k = 0; k < def->n_cons; k++)
            offer(c, "", def->cons[k]->name->text, "constructor",
                  type_of_constructor(&c->s->cx, def->cons[k]), NULL);
    }
    offer(c, "", "Tensor", "type", NULL, "Tensor[(2, 3), float32]");
    for (int i = 0; i < DTYPE_IDS; i++)
        offer(c, "", dtype_row((DTypeId)i)->name, "dtype", NULL, "element type");
}

/* The operator whose argument list the cursor stands in, from the last bracket that is open. */
static const Op *enclosing_op(RelaySession *s, const char *text, size_t cursor)
{
    int depth = 0;
    size_t i = cursor;
    while (i > 0) {
        char ch = text[--i];
        if (strchr(")]}", ch))
            depth++;
        else if (strchr("([{", ch) && depth-- == 0) {
            if (ch != '(')
                return NULL;
            size_t to = i;
            while (i > 0 && (isalnum((unsigned char)text[i - 1]) || text[i - 1] == '_' ||
                             text[i - 1] == '.'))
                i--;
            return to > i ? op_find(&s->cx, (Str){text + i, to - i}) : NULL;
        }
    }
    return NULL;
}

static void offer_attributes(Completer *c, const Op *op)
{
    for (const OpAttr *a = op ? op->attrs : NULL; a && a->name; a++) {
        Buf b = {0};
        buf_printf(&b, "%s=", a->name);
        offer(c, "", buf_text(&b), "attribute", NULL, a->doc);
        buf_deinit(&b);
    }
}

static void offer_words(Completer *c, const Op *op)
{
    offer_attributes(c, op);
    offer_types(c);
    op_each(c->s->cx.ops, offer_op, c);
    for (const char *const *k = relay_keywords; *k; k++)
        offer(c, "", *k, "keyword", NULL, "");
    offer(c, "", "True", "keyword", NULL, "bool");
    offer(c, "", "False", "keyword", NULL, "bool");
}

static bool is_word(char ch)
{
    return isalnum((unsigned char)ch) || strchr("_./", ch) != NULL;
}

static void offer_commands(Completer *c)
{
    size_t n;
    const RelayCommand *rows = relay_commands(&n);
    for (size_t i = 0; i < n; i++)
        offer(c, ":", rows[i].name, "command", NULL, rows[i].doc);
}

static int by_text(const void *a, const void *b)
{
    const RelayCompletion *x = a, *y = b;
    return strcmp(x->text, y->text);
}

RelayCompletions *relay_session_complete(RelaySession *s, const char *text, size_t len,
                                         size_t cursor)
{
    RelayCompletions *out = calloc(1, sizeof *out);
    if (!out)
        return NULL;
    session_load_prelude(s);
    cursor = cursor > len ? len : cursor;
    size_t from = cursor, line = cursor;
    while (from > 0 && is_word(text[from - 1]))
        from--;
    if (from > 0 && strchr("@%:", text[from - 1]))
        from--;
    while (line > 0 && text[line - 1] != '\n')
        line--;
    Completer c = {.s = s, .out = out, .prefix = {text + from, cursor - from}};
    out->from = from;
    out->to = cursor;
    TextLocals tl = {&c, text, cursor};
    char sigil = from < cursor ? text[from] : 0;
    if (sigil == ':' && from == line)
        offer_commands(&c);
    else if (len - line > 5 && !strncmp(text + line, ":pass", 5))
        for (const Pass *const *p = passes; *p; p++)
            offer(&c, "", (*p)->name, "pass", NULL, (*p)->doc);
    if (sigil == '@')
        offer_globals(&c);
    else if (sigil == '%')
        offer_locals(&c);
    else if (sigil != ':' && (from < cursor || enclosing_op(s, text, from)))
        offer_words(&c, enclosing_op(s, text, from));
    if (sigil == '@' || sigil == '%')
        lex_each(text, len, offer_token, &tl);
    ptrmap_deinit(&c.seen);
    if (out->n)
        qsort(out->items, out->n, sizeof *out->items, by_text);
    return out;
}

void relay_completions_free(RelayCompletions *c)
{
    for (size_t i = 0; c && i < c->n; i++) {
        free((char *)(uintptr_t)c->items[i].text);
        free((char *)(uintptr_t)c->items[i].detail);
    }
    if (c)
        free(c->items);
    free(c);
}
