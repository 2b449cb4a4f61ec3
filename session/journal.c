/* The journal: the text of all that was defined and bound, which `:save` writes. Names of results mean something only beside the cells
 * that gave these, so what uses one has a mark with its number there, and what is used is bound, at the place where it was made, to a
 * variable whose name nothing else has. */
#include "base/memory.h"
#include "ir/walk.h"
#include "runtime/npy.h"
#include "session/commands.h"

#include <stdlib.h>
#include <string.h>

/* Stands between the sigil and the number of a result; no text holds this byte. */
#define MARK '\xff'

struct Told {
    uint64_t result;
    size_t place; /* in the journal, before which it was made */
    size_t n;
    char *text;
};

/* From so many on, those that nothing uses any more are let go of. */
enum { TOLD_MOST = 256 };

/* NULL when it is not there any more. */
static Told *find_told(const RelaySession *s, uint64_t result)
{
    size_t from = 0, to = s->n_told;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (s->told[middle].result < result)
            from = middle + 1;
        else
            to = middle;
    }
    return from < s->n_told && s->told[from].result == result ? &s->told[from] : NULL;
}

/* ---- noting ----------------------------------------------------------------------------------------------------------------- */

typedef struct Telling {
    RelaySession *s;
    Str text;
    size_t binder; /* where the name that the text binds stands; else the end */
    const PtrMap *used; /* the variables that it uses; NULL: nobody knows */
    Buf *out;
    size_t at;
    bool lost; /* a result is among them whose text is not there any more */
} Telling;

static void tell_token(void *data, const LexedToken *token)
{
    Telling *t = data;
    const char *at = t->text.ptr + token->from;
    size_t n = token->to - token->from;
    if (n < 2 || at[0] != '%' || at[1] != '_' || token->from == t->binder)
        return;
    const Local *l = session_local(t->s, ctx_name_str(&t->s->cx, (Str){at + 1, n - 1}), false);
    if (!l || !l->result || (t->used && !ptrmap_has(t->used, l->var)))
        return;
    t->lost |= !find_told(t->s, l->result);
    buf_bytes(t->out, t->text.ptr + t->at, token->from - t->at);
    buf_printf(t->out, "%%%c%llu", MARK, (unsigned long long)l->result);
    t->at = token->to;
}

/* Appends the text with marks; nothing where it cannot be said. */
static void tell(Telling t)
{
    lex_each(t.text.ptr, t.text.len, tell_token, &t);
    buf_bytes(t.out, t.text.ptr + t.at, t.text.len - t.at);
    if (t.lost)
        buf_clear(t.out);
}

void journal_tell(RelaySession *s, const CellItem *item, Buf *out)
{
    const Source *source = sources_get(&s->cx.sources, item->span.source);
    PtrMap used = {0};
    Span at = item->span;
    if (!s->journals || !source || at.to > source->len)
        return;
    ir_free_set(item->module->expr, &used);
    tell((Telling){.s = s,
                   .text = {source->text + at.from, at.to - at.from},
                   .binder = item->var ? item->var->base.span.from - at.from : SIZE_MAX,
                   .used = &used,
                   .out = out});
    ptrmap_deinit(&used);
}

static void put(RelaySession *s, const char *text, size_t len)
{
    if (!s->journals)
        return;
    buf_bytes(&s->journal, text, len);
    buf_char(&s->journal, '\n');
}

void journal_add(RelaySession *s, Span span)
{
    const Source *source = sources_get(&s->cx.sources, span.source);
    if (source && span.to <= source->len)
        put(s, source->text + span.from, span.to - span.from);
}

void journal_put(RelaySession *s, const Buf *told)
{
    if (told->n)
        put(s, told->at, told->n);
    else
        s->untold += s->journals;
}

void journal_text(RelaySession *s, const char *text, size_t len)
{
    Buf told = {0};
    if (!s->journals)
        return;
    tell((Telling){.s = s, .text = {text, len}, .binder = SIZE_MAX, .out = &told});
    journal_put(s, &told);
    buf_deinit(&told);
}

/* Definitions that follow each other are one item. What is defined anew ends that of the older one, which has its own meaning of the
 * name: the `;` does. A command goes to the end of its line and ends it anyhow. */
void journal_part(RelaySession *s)
{
    Buf *b = &s->journal;
    if (!s->journals || b->n < 2 || b->at[b->n - 2] == ';')
        return;
    size_t line = b->n - 1;
    while (line && b->at[line - 1] != '\n')
        line--;
    if (b->at[line] == ':')
        return;
    b->at[b->n - 1] = ';';
    buf_char(b, '\n');
}

void journal_cut(RelaySession *s, size_t place)
{
    buf_cut(&s->journal, place);
    if (place && place <= s->journal.n)
        s->journal.at[place - 1] = '\n'; /* and no `;` of journal_part */
    while (s->n_told && s->told[s->n_told - 1].place > place)
        free(s->told[--s->n_told].text);
}

void journal_free(RelaySession *s)
{
    buf_deinit(&s->journal);
    for (size_t i = 0; i < s->n_told; i++)
        free(s->told[i].text);
    free(s->told);
    s->told = NULL;
    s->n_told = s->cap_told = s->told_most = 0;
    s->journal_seconds = 0;
    s->unsaid = s->untold = 0;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

/* The next name that has a mark, which is behind its sigil; NULL: there is none. */
static const char *next_mark(const char *at, const char *end)
{
    const char *mark = at < end ? memchr(at + 1, MARK, (size_t)(end - at) - 1) : NULL;
    while (mark && mark[-1] != '%')
        mark = memchr(mark + 1, MARK, (size_t)(end - mark) - 1);
    return mark ? mark - 1 : NULL;
}

/* Notes in `used`, by place, which results the text has marks of. */
static void find_marks(const RelaySession *s, const char *text, size_t n, bool *used)
{
    for (const char *at = text; n && (at = next_mark(at, text + n)); at++) {
        const Told *told = find_told(s, strtoull(at + 2, NULL, 10));
        if (told)
            used[told - s->told] = true;
    }
}

/* Which results are used by the journal, by others that are, and by what is noted there already. */
static void find_used(const RelaySession *s, bool *used)
{
    find_marks(s, s->journal.at, s->journal.n, used);
    for (size_t i = s->n_told; i-- > 0;)
        if (used[i])
            find_marks(s, s->told[i].text, s->told[i].n, used);
}

static void let_go(RelaySession *s)
{
    bool *used = memory_zeroed(s->n_told, sizeof *used);
    size_t left = 0;
    if (!used)
        return;
    for (size_t i = 0; i < s->n_locals; i++) {
        const Told *told = s->locals[i].result ? find_told(s, s->locals[i].result) : NULL;
        if (told)
            used[told - s->told] = true;
    }
    find_used(s, used);
    for (size_t i = 0; i < s->n_told; i++) {
        if (used[i])
            s->told[left++] = s->told[i];
        else
            free(s->told[i].text);
    }
    s->n_told = left;
    free(used);
}

static bool make_room(RelaySession *s)
{
    if (s->n_told >= s->told_most && s->n_told >= TOLD_MOST) {
        let_go(s);
        s->told_most = 2 * s->n_told;
    }
    if (s->n_told < s->cap_told)
        return true;
    size_t cap = s->cap_told ? 2 * s->cap_told : 16;
    Told *grown = memory_resize(s->told, cap * sizeof *grown);
    if (grown) {
        s->told = grown;
        s->cap_told = cap;
    }
    return grown != NULL;
}

void journal_result(RelaySession *s, const CellItem *item)
{
    Buf text = {0};
    journal_tell(s, item, &text);
    if (text.n && text.at[text.n - 1] == ';')
        buf_cut(&text, text.n - 1);
    /* A piece that declares its free variables is nothing that is bound. */
    bool binds = text.n && strncmp(buf_text(&text), "free_var", strlen("free_var")) != 0;
    if (binds && !text.failed && make_room(s))
        s->told[s->n_told++] = (Told){s->results, s->journal.n, text.n, buf_take(&text)};
    buf_deinit(&text);
}

/* ---- saving ----------------------------------------------------------------------------------------------------------------- */

/* The journal with the results that it uses, each with its mark. */
static void write_marked(const RelaySession *s, const bool *used, Buf *out)
{
    const Buf *b = &s->journal;
    size_t at = 0;
    for (size_t i = 0; i < s->n_told; i++) {
        const Told *told = &s->told[i];
        if (!used[i])
            continue;
        size_t to = told->place;
        if (to && b->at[to - 1] != '\n')
            to++; /* behind the line end that a `;` of journal_part moved */
        buf_bytes(out, b->at + at, to - at);
        buf_printf(out, "let %%%c%llu = ", MARK, (unsigned long long)told->result);
        buf_bytes(out, told->text, told->n);
        buf_str(out, ";\n");
        at = to;
    }
    if (b->n)
        buf_bytes(out, b->at + at, b->n - at);
}

/* What the marks become: no variable in the text begins so. */
static void find_prefix(const Buf *marked, Buf *prefix)
{
    buf_str(prefix, "%result_");
    while (strstr(buf_text(marked), buf_text(prefix)) && !prefix->failed)
        buf_char(prefix, '_');
}

static void write_journal(const RelaySession *s, Buf *out)
{
    bool *used = memory_zeroed(s->n_told + 1, sizeof *used);
    Buf marked = {0}, prefix = {0};
    if (used) {
        find_used(s, used);
        write_marked(s, used, &marked);
    } else {
        out->failed = true;
    }
    find_prefix(&marked, &prefix);
    const char *at = buf_text(&marked), *end = at + marked.n;
    for (const char *name; (name = next_mark(at, end)); at = name + 2) {
        buf_bytes(out, at, (size_t)(name - at));
        buf_bytes(out, prefix.at, prefix.n);
    }
    buf_bytes(out, at, (size_t)(end - at));
    out->failed |= marked.failed || prefix.failed;
    buf_deinit(&marked);
    buf_deinit(&prefix);
    free(used);
}

static const char *several(size_t n)
{
    return n == 1 ? "" : "s";
}

static void say_saved(RelaySession *s, const char *path, const Buf *text)
{
    size_t lines = 0;
    for (size_t i = 0; i < text->n; i++)
        lines += text->at[i] == '\n';
    Buf b = {0};
    buf_printf(&b, "%zu line%s in %s; `:load` defines it all again", lines, several(lines), path);
    if (s->unsaid)
        buf_printf(&b, ", without what %zu cell%s wrote into references", s->unsaid,
                   several(s->unsaid));
    if (s->untold)
        buf_printf(&b, ", without what was made %zu time%s of a result of what was taken back",
                   s->untold, several(s->untold));
    if (s->journal_seconds >= LONG_SECONDS)
        buf_printf(&b, ", which took %.0f s; `:write` keeps what a variable is",
                   s->journal_seconds);
    emit_text(s, RELAY_OUTPUT_DISPLAY, &b);
    buf_deinit(&b);
}

void command_save(CommandCall *c)
{
    RelaySession *s = c->s;
    char *path = command_need(c, "a file") ? command_rest(c) : NULL;
    if (path && session_may_write(s, path)) {
        Buf text = {0};
        write_journal(s, &text);
        if (text.failed)
            limit_reach(&s->cx.limits, LIMIT_MEMORY);
        else if (file_write(&s->cx.limits, s->cx.diags, path, buf_text(&text), text.n))
            say_saved(s, path, &text);
        buf_deinit(&text);
    }
    free(path);
}
