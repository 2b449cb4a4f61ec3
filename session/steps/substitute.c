/* The expression of a step with values in place of what is known: of variables, and of what this call has evaluated already.
 *
 * The text is the program's own, token by token, so it reads as it was written. What is shown around the step's expression is its
 * statement: what stands between the semicolons, braces, `=` or `=>` around it. Where a value is too long to be read in a line, what
 * was written stays. */
#include "session/steps/record.h"

#include "base/memory.h"
#include "base/utf8.h"
#include "parser/lexer.h"

#include <stdlib.h>
#include <string.h>

enum {
    TOKENS_AROUND = 200, /* on each side of the expression */
    BYTES_MOST = 2000,
    VALUE_COLUMNS = 40,
    STEPS_BACK = 256, /* in which what a statement has evaluated is looked for */
    VARIABLES_BACK = 1000,
};

/* The tokens of a function's text. */
struct RecordTokens {
    Span of;
    const char *text; /* of the whole source */
    Vec(Token) all;
};

/* What has a value already. */
typedef struct Known {
    uint32_t from, to;
    Str text;
} Known;

typedef struct Work {
    Recorder *r;
    const RecordStep *step;
    const RecordTokens *tokens;
    const Activation *frame; /* in which the expression stands */
    const Bound *bound; /* its variables before the step */
    size_t from, to; /* the tokens that are shown */
    bool cut_before, cut_behind;
    Arena arena;
    Vec(Known) known; /* in the order of the text, none inside another */
    Vec(Str) own; /* names that are bound inside what is shown */
    Buf value; /* for a moment */
    RecordExpression *out;
} Work;

/* ---- tokens ------------------------------------------------------------------------------------ */

static const RecordTokens *tokens_of(Recorder *r, Span span)
{
    for (size_t i = r->tokens.n; i-- > 0;) {
        Span of = r->tokens.at[i].of;
        if (of.source == span.source && of.from == span.from && of.to == span.to)
            return &r->tokens.at[i];
    }
    const Source *source = sources_get(&r->s->cx.sources, span.source);
    if (!source || span.to > source->len)
        return NULL;
    RecordTokens made = {.of = span, .text = source->text};
    Lexer lx = {.text = source->text, .end = span.to, .at = span.from};
    for (Token t = lexer_next(&lx); t.kind != TOKEN_END; t = lexer_next(&lx))
        vec_push(&made.all, &r->texts, t);
    vec_push(&r->tokens, &r->texts, made);
    return &vec_last(&r->tokens);
}

/* The first token that begins at the place or behind it. */
static size_t token_at(const RecordTokens *t, uint32_t place)
{
    size_t low = 0, high = t->all.n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (t->all.at[middle].from < place)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static TokenKind kind_at(const Work *w, size_t i)
{
    return i < w->tokens->all.n ? (TokenKind)w->tokens->all.at[i].kind : TOKEN_END;
}

static Str token_text(const Work *w, size_t i)
{
    Token t = w->tokens->all.at[i];
    return (Str){w->tokens->text + t.from, t.to - t.from};
}

static bool opens(TokenKind kind)
{
    return kind == TOKEN_LPAREN || kind == TOKEN_LBRACKET || kind == TOKEN_LBRACE ||
           kind == TOKEN_META || kind == TOKEN_HASH;
}

static bool closes(TokenKind kind)
{
    return kind == TOKEN_RPAREN || kind == TOKEN_RBRACKET || kind == TOKEN_RBRACE;
}

/* ---- the statement ----------------------------------------------------------------------------- */

/* Back from a token to where its statement begins; returns how many brackets of the statement are open there. An `=` counts only
 * where no bracket stands between it and the end: that of an attribute does not begin a statement. */
static size_t find_begin(Work *w, size_t at)
{
    size_t closed = 0, open = 0, assign = 0;
    w->from = 0;
    for (size_t i = at; i-- > 0;) {
        TokenKind kind = kind_at(w, i);
        bool bound = kind == TOKEN_SEMICOLON || kind == TOKEN_FAT_ARROW || kind == TOKEN_LBRACE;
        w->from = i + 1;
        if (at - i > TOKENS_AROUND) {
            w->cut_before = true;
            break;
        }
        if (closed == 0 && bound)
            break;
        if (closes(kind)) {
            closed++;
        } else if (opens(kind) && closed) {
            closed--;
        } else if (opens(kind)) {
            open++;
            assign = 0;
        } else if (kind == TOKEN_ASSIGN && closed == 0 && assign == 0) {
            assign = i + 1;
        }
        w->from = i;
    }
    w->from = assign ? assign : w->from;
    w->cut_before &= !assign;
    return open;
}

static void find_end(Work *w, size_t at, size_t open)
{
    for (w->to = at; w->to < w->tokens->all.n; w->to++) {
        TokenKind kind = kind_at(w, w->to);
        bool bound = kind == TOKEN_SEMICOLON || kind == TOKEN_COMMA || closes(kind);
        w->cut_behind = w->to - at > TOKENS_AROUND;
        if (w->cut_behind || (open == 0 && bound))
            return;
        open += opens(kind);
        open -= closes(kind);
    }
}

/* The variables between two tokens are bound there. */
static void own_names(Work *w, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++)
        if (kind_at(w, i) == TOKEN_LOCAL)
            vec_push(&w->own, &w->arena, token_text(w, i));
}

/* Where the bracket that opens at a token ends. */
static size_t behind_bracket(const Work *w, size_t at)
{
    size_t open = 0;
    for (; at < w->to; at++) {
        open += opens(kind_at(w, at));
        open -= closes(kind_at(w, at)) && open;
        if (!open)
            break;
    }
    return at;
}

/* Behind `,` or `{`, where the pattern in front of a `=>` begins. */
static size_t pattern_begin(const Work *w, size_t arrow)
{
    size_t closed = 0;
    for (size_t i = arrow; i-- > w->from;) {
        TokenKind kind = kind_at(w, i);
        if (closed == 0 && (kind == TOKEN_COMMA || kind == TOKEN_LBRACE))
            return i + 1;
        closed += closes(kind);
        closed -= opens(kind) && closed;
    }
    return w->from;
}

static void find_own(Work *w)
{
    for (size_t i = w->from; i < w->to; i++) {
        TokenKind kind = kind_at(w, i);
        if (kind == TOKEN_LET)
            own_names(w, i + 1, i + 2);
        else if (kind == TOKEN_FN && kind_at(w, i + 1) == TOKEN_LPAREN)
            own_names(w, i + 2, behind_bracket(w, i + 1));
        else if (kind == TOKEN_COLON && i > w->from)
            own_names(w, i - 1, i);
        else if (kind == TOKEN_FAT_ARROW)
            own_names(w, pattern_begin(w, i), i);
    }
}

/* ---- values ------------------------------------------------------------------------------------ */

/* The value, if it can be read in a line; else nothing. */
static void short_value(Work *w, Buf *out, Value v)
{
    bool large = v.kind == VALUE_TENSOR && v.tensor->size > 6;
    if (!large && v.kind != VALUE_FUNCTION && !value_is_none(v))
        record_brief(w->r, out, v);
    if (utf8_text_width(buf_text(out), out->n) > VALUE_COLUMNS)
        buf_clear(out);
}

/* What stands in front of where a name is bound is another variable. */
static const Bound *find_variable(const Work *w, Str name)
{
    for (size_t i = 0; i < w->own.n; i++)
        if (w->own.at[i].ptr <= name.ptr && str_eq(w->own.at[i], name))
            return NULL;
    const Bound *lists[] = {w->bound, w->frame->params};
    for (size_t k = 0; k < 2; k++) {
        size_t seen = 0;
        for (const Bound *b = lists[k]; b && seen < VARIABLES_BACK; b = b->older, seen++)
            if (strlen(b->is.name->text) == name.len - 1 &&
                memcmp(b->is.name->text, name.ptr + 1, name.len - 1) == 0)
                return b;
    }
    return NULL;
}

static void know(Work *w, const RecordStep *s)
{
    Known k = {.from = s->span.from, .to = s->span.to};
    size_t at = w->known.n;
    for (size_t i = 0; i < w->known.n; i++)
        if (w->known.at[i].from <= k.from && k.to <= w->known.at[i].to)
            return;
    buf_clear(&w->value);
    short_value(w, &w->value, s->value);
    if (w->value.n == 0)
        return;
    k.text = (Str){arena_copy_text(&w->arena, buf_text(&w->value), w->value.n), w->value.n};
    vec_push(&w->known, &w->arena, k);
    for (; at > 0 && w->known.at[at - 1].from > k.from; at--)
        w->known.at[at] = w->known.at[at - 1];
    w->known.at[at] = k;
}

/* What was evaluated in this call so far, of what is shown; the latest first, which contain what they were made of. */
static void find_known(Work *w)
{
    const Recorder *r = w->r;
    const RecordTokens *t = w->tokens;
    Span own = w->step->span;
    uint64_t at = w->step->before;
    for (size_t n = 0; w->from < w->to && at > r->first && n < STEPS_BACK; n++) {
        const RecordStep *s = recorder_step(r, at - 1);
        bool inside = s->span.source == own.source && s->span.from >= t->all.at[w->from].from &&
                      s->span.to <= t->all.at[w->to - 1].to;
        bool around = s->span.from <= own.from && own.to <= s->span.to &&
                      s->span.to - s->span.from > own.to - own.from;
        if (inside && !around)
            know(w, s);
        at = s->before;
    }
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* Whether brackets around a value are those of the grammar alone, and not of a call or a condition. */
static bool is_loose(const Work *w, size_t open, size_t behind)
{
    if (open < w->from || kind_at(w, open) != TOKEN_LPAREN || kind_at(w, behind) != TOKEN_RPAREN ||
        behind >= w->to)
        return false;
    TokenKind before = open > w->from ? kind_at(w, open - 1) : TOKEN_END;
    return before == TOKEN_END || before == TOKEN_COMMA || before == TOKEN_ASSIGN ||
           before == TOKEN_FAT_ARROW || before == TOKEN_MINUS || token_precedence(before) > 0 ||
           (opens(before) && before != TOKEN_META);
}

/* One token, or all those that a value takes the place of; the next token. */
static size_t put_token(Work *w, size_t i, const Known *k)
{
    Buf *out = &w->out->text;
    Token t = w->tokens->all.at[i];
    Str text = token_text(w, i);
    bool variable = t.kind == TOKEN_LOCAL || t.kind == TOKEN_GRAPH;
    const Bound *b = !k && variable ? find_variable(w, text) : NULL;
    if (k) {
        size_t behind = token_at(w->tokens, k->to);
        bool loose = i > 0 && is_loose(w, i - 1, behind);
        out->n -= loose;
        buf_bytes(out, k->text.ptr, k->text.len);
        return behind + loose;
    }
    buf_clear(&w->value);
    if (b)
        short_value(w, &w->value, b->is.value);
    if (w->value.n)
        text = (Str){buf_text(&w->value), w->value.n};
    buf_bytes(out, text.ptr, text.len);
    return i + 1;
}

static void put_statement(Work *w)
{
    Buf *out = &w->out->text;
    Span own = w->step->span;
    bool begun = false, ended = false;
    size_t k = 0, i = w->from;
    if (w->cut_before)
        buf_str(out, "… ");
    while (i < w->to && out->n < BYTES_MOST) {
        Token t = w->tokens->all.at[i];
        if (!ended && begun && t.from >= own.to) {
            w->out->to = out->n;
            ended = true;
        }
        if (i > w->from && t.from > w->tokens->all.at[i - 1].to)
            buf_char(out, ' ');
        if (!begun && t.from >= own.from) {
            w->out->from = out->n;
            begun = true;
        }
        while (k < w->known.n && w->known.at[k].from < t.from)
            k++;
        bool known = k < w->known.n && w->known.at[k].from == t.from;
        i = put_token(w, i, known ? &w->known.at[k] : NULL);
        if (out->n < w->out->from)
            w->out->from = out->n;
    }
    if (!ended)
        w->out->to = out->n;
    if (i < w->to || w->cut_behind)
        buf_str(out, " …");
}

static bool is_call(const RecordStep *step)
{
    return step->kind == EVENT_CALL || step->kind == EVENT_TAIL_CALL;
}

/* The frame in which the expression stands; NULL: it is not kept. */
static const Activation *frame_before(const Recorder *r, uint64_t k)
{
    const RecordStep *step = recorder_step(r, k);
    if (step->kind == EVENT_CALL)
        return step->now ? step->now->caller : NULL;
    if (step->kind == EVENT_TAIL_CALL)
        return k > r->first ? recorder_step(r, k - 1)->now : NULL;
    return step->now;
}

void record_expression(Recorder *r, uint64_t k, RecordExpression *out)
{
    const RecordStep *step = recorder_step(r, k);
    Span region = step->region, own = step->span;
    bool inside = region.source == own.source && region.from <= own.from && own.to <= region.to;
    Work w = {.r = r, .step = step, .out = out, .frame = frame_before(r, k)};
    buf_clear(&out->text);
    buf_clear(&out->value);
    out->from = out->to = 0;
    w.tokens = tokens_of(r, inside ? region : own);
    if (!w.tokens || !w.frame) {
        record_text(r, &out->text, own, BYTES_MOST);
        out->to = out->text.n;
        return;
    }
    arena_init(&w.arena, &r->s->cx.limits);
    w.bound = w.frame->bound;
    for (uint32_t i = 0; !is_call(step) && w.bound && i < step->n_new; i++)
        w.bound = w.bound->older;
    size_t open = find_begin(&w, token_at(w.tokens, own.from));
    find_end(&w, token_at(w.tokens, own.to), open);
    find_own(&w);
    find_known(&w);
    put_statement(&w);
    if (!value_is_none(step->value) && !is_call(step))
        record_brief(r, &out->value, step->value);
    arena_deinit(&w.arena);
    buf_deinit(&w.value);
}

void record_expression_deinit(RecordExpression *e)
{
    buf_deinit(&e->text);
    buf_deinit(&e->value);
}
