/* What a match covers.
 *
 * The patterns are a matrix, a row for each clause that may still fit and a column for each part of the value that is not looked at
 * yet. The first column decides: for each constructor that stands there, the rows that agree go on with its fields in place of the
 * column; for the constructors that no row names, the rows that do not look at the column go on without it. No row left is a missing
 * case; no column left, or a first row that looks at nothing more, is where that row's clause is reached.
 *
 * The cases can be exponentially many, so the work is bounded. Beyond the bound nothing is claimed: neither that a case is missing nor
 * that a clause is never reached; a value that no clause fits is an error of the running program. */
#include "typecheck/internal.h"

#include <ctype.h>
#include <string.h>

#define WORK_MOST 2000000
#define WORK_TYPED 20000 /* while somebody types */
#define DEPTH_MOST 2000
#define CASES_MOST 6

/* A step of a case in preorder: a constructor, a tuple or, with neither, `_`. */
typedef struct Symbol {
    const Constructor *con;
    bool tuple;
    uint32_t n;
} Symbol;

typedef struct Row {
    const Pattern **at;
    uint32_t clause;
} Row;

typedef struct Matrix {
    Row *rows;
    uint32_t n, columns;
} Matrix;

typedef struct Cover {
    Arena *arena;
    Vec(Symbol) path;       /* the case in work, as far as it is decided */
    Arena path_arena;       /* its own: the other goes back and forth */
    bool *reached;          /* by clause; may be NULL */
    Buf *out;               /* the missing cases, one a line; may be NULL */
    const Source *text;     /* the cases are clauses to put into this text; may be NULL */
    size_t most, missing;
    uint64_t work, work_most;
} Cover;

static bool looks(const Pattern *p)
{
    return p && (p->kind == PATTERN_CON || p->kind == PATTERN_TUPLE);
}

static bool row_looks(const Row *row, uint32_t columns)
{
    for (uint32_t i = 0; i < columns; i++)
        if (looks(row->at[i]))
            return true;
    return false;
}

/* ---- the missing cases as text ------------------------------------------------------------------------------------------------ */

static bool uses_variable(const Source *text, const char *name, size_t n)
{
    for (const char *p = strchr(text->text, '%'); p; p = strchr(p + 1, '%'))
        if (!strncmp(p + 1, name, n) && !isalnum((unsigned char)p[1 + n]) && p[1 + n] != '_')
            return true;
    return false;
}

/* The next variable that the text does not use: a letter, or one with a number behind it. */
static void print_variable(Buf *out, const Source *text, uint32_t *named)
{
    static const char letters[] = "xyzuvwabcdefghijklmnopqrst";
    Buf name = {0};
    do {
        uint32_t i = (*named)++, many = sizeof letters - 1;
        buf_clear(&name);
        buf_char(&name, letters[i % many]);
        if (i >= many)
            buf_printf(&name, "%u", i / many);
    } while (uses_variable(text, buf_text(&name), name.n));
    buf_printf(out, "%%%s", buf_text(&name));
    buf_deinit(&name);
}

/* `text` NULL: what is not looked at is `_`, and else a variable that is new there. */
static void print_symbol(Buf *out, const Symbol *s, const Source *text, uint32_t *named)
{
    if (s->con)
        buf_str(out, s->con->name->text);
    else if (!s->tuple && text)
        print_variable(out, text, named);
    else if (!s->tuple)
        buf_char(out, '_');
    if (s->n || s->tuple)
        buf_char(out, '(');
}

void pattern_sketch(Buf *out, const Constructor *con, uint32_t n, const Source *text)
{
    uint32_t named = 0;
    print_symbol(out, &(Symbol){con, !con, n}, text, &named);
    for (uint32_t i = 0; i < n; i++) {
        buf_str(out, i ? ", " : "");
        print_variable(out, text, &named);
    }
    if (n || !con)
        buf_str(out, !con && n == 1 ? ",)" : ")");
}

typedef struct Open {
    uint32_t left;
    bool one_tuple;
} Open;

/* The path is the case in preorder; what it does not reach is `_`. */
static void report_case(Cover *c)
{
    if (c->missing++ >= c->most || !c->out)
        return;
    Vec(Open) open = {0};
    size_t next = 0;
    uint32_t named = 0;
    do {
        Symbol s = next < c->path.n ? c->path.at[next] : (Symbol){0};
        next++;
        print_symbol(c->out, &s, c->text, &named);
        if (s.n) {
            vec_push(&open, c->arena, ((Open){s.n, s.tuple && s.n == 1}));
            continue;
        }
        if (s.tuple)
            buf_char(c->out, ')');
        while (open.n && --vec_last(&open).left == 0)
            buf_str(c->out, vec_pop(&open).one_tuple ? ",)" : ")");
        if (open.n)
            buf_str(c->out, ", ");
    } while (open.n);
    buf_str(c->out, c->text ? " => _\n" : "\n");
}

/* ---- the matrix ------------------------------------------------------------------------------------------------------------------ */

/* The rows of a matrix, in order, by what stands in their first column. */
typedef struct Sorted {
    uint32_t *first; /* of each constructor; NULL where no row looks for one: all rows agree then */
    uint32_t *next; /* row of the same kind behind each; the number of rows: none */
    uint32_t others; /* the first row that takes every constructor */
} Sorted;

static Sorted sort_rows(Cover *c, const Matrix *m, const TypeDef *def)
{
    Sorted s = {
        .first = arena_alloc_must(c->arena, def->n_cons + 1, sizeof *s.first),
        .next = arena_alloc_must(c->arena, m->n + 1, sizeof *s.next),
        .others = m->n,
    };
    for (uint32_t i = 0; i < def->n_cons; i++)
        s.first[i] = m->n;
    for (uint32_t i = m->n; i-- > 0;) {
        const Pattern *p = m->rows[i].at[0];
        uint32_t *head = looks(p) ? &s.first[p->con->index] : &s.others;
        s.next[i] = *head;
        *head = i;
    }
    return s;
}

static uint32_t count_rows(const Sorted *s, const Matrix *m, uint32_t first)
{
    uint32_t n = 0;
    for (uint32_t i = first; i < m->n; i = s->next[i])
        n++;
    return n;
}

/* The rows that agree with the symbol in their first column, with its fields in the column's place. */
static Matrix specialize(Cover *c, const Matrix *m, const Symbol *s, const Sorted *sorted)
{
    uint32_t own = sorted->first ? sorted->first[s->con->index] : 0, other = sorted->others;
    uint32_t most =
        sorted->first ? count_rows(sorted, m, own) + count_rows(sorted, m, other) : m->n;
    Matrix to = {arena_new_array(c->arena, Row, most), 0, m->columns - 1 + s->n};
    while ((own < m->n || other < m->n) && to.rows) {
        uint32_t *next = own < other ? &own : &other, i = *next;
        *next = sorted->first ? sorted->next[i] : i + 1;
        const Pattern *first = m->rows[i].at[0];
        c->work++;
        const Pattern **at = arena_new_array(c->arena, const Pattern *, to.columns);
        if (!at)
            break;
        for (uint32_t k = 0; k < s->n; k++)
            at[k] = looks(first) ? first->fields[k] : NULL;
        for (uint32_t k = 1; k < m->columns; k++)
            at[s->n + k - 1] = m->rows[i].at[k];
        c->work += to.columns;
        to.rows[to.n++] = (Row){at, m->rows[i].clause};
    }
    return to;
}

static void cover(Cover *c, const Matrix *m);

static void cover_symbol(Cover *c, const Matrix *m, Symbol s, const Sorted *sorted)
{
    if (c->work > c->work_most)
        return;
    ArenaMark mark = arena_mark(c->arena);
    vec_push(&c->path, &c->path_arena, s);
    Matrix inner = specialize(c, m, &s, sorted);
    cover(c, &inner);
    c->path.n--;
    arena_reset(c->arena, mark);
}

/* The constructors that no row names all meet the same rows: when one of them misses nothing, none does. */
static void cover_constructors(Cover *c, const Matrix *m, const TypeDef *def)
{
    Sorted sorted = sort_rows(c, m, def);
    bool others_done = false;
    for (uint32_t i = 0; i < def->n_cons; i++) {
        bool named = sorted.first[i] < m->n;
        if (!named && others_done)
            continue;
        size_t before = c->missing;
        cover_symbol(c, m, (Symbol){def->cons[i], false, def->cons[i]->n}, &sorted);
        others_done = others_done || (!named && c->missing == before);
    }
}

/* Whether the patterns of the first column take values of one type, each with the fields that there are. In a text that is being written they
 * need not. */
static bool are_alike(const Matrix *m, const Pattern *head)
{
    bool alike = true;
    for (uint32_t i = 0; i < m->n && alike; i++) {
        const Pattern *p = m->rows[i].at[0];
        if (!looks(p))
            continue;
        alike = p->kind == head->kind;
        if (alike && p->kind == PATTERN_TUPLE)
            alike = p->n == head->n;
        else if (alike)
            alike = p->con->type == head->con->type && p->n == p->con->n;
    }
    return alike;
}

static void cover_first(Cover *c, const Matrix *m)
{
    const Pattern *head = NULL;
    for (uint32_t i = 0; i < m->n && !looks(head); i++)
        head = m->rows[i].at[0];
    if (looks(head) && !are_alike(m, head)) {
        c->work = c->work_most + 1; /* nothing is said of what is ill-typed */
        return;
    }
    const Sorted all = {.others = m->n};
    if (!looks(head))
        cover_symbol(c, m, (Symbol){0}, &all);
    else if (head->kind == PATTERN_TUPLE)
        cover_symbol(c, m, (Symbol){NULL, true, head->n}, &all);
    else
        cover_constructors(c, m, head->con->type);
}

static void cover(Cover *c, const Matrix *m)
{
    if (++c->work > c->work_most || c->path.n >= DEPTH_MOST) {
        c->work = c->work_most + 1;
        return;
    }
    if (m->n == 0) {
        report_case(c);
        return;
    }
    if (!row_looks(&m->rows[0], m->columns)) {
        if (c->reached)
            c->reached[m->rows[0].clause] = true;
        return;
    }
    cover_first(c, m);
}

/* No pattern says of what type the value is. */
static void cover_unmatched(Cover *c, const Type *t)
{
    const TypeDef *def = t->kind == TYPE_ADT ? t->def : NULL;
    for (uint32_t i = 0; def && i < def->n_cons; i++) {
        vec_push(&c->path, &c->path_arena, ((Symbol){def->cons[i], false, def->cons[i]->n}));
        report_case(c);
        c->path.n--;
    }
    if (t->kind == TYPE_TUPLE)
        vec_push(&c->path, &c->path_arena, ((Symbol){NULL, true, t->n}));
    if (!def)
        report_case(c);
}

static void cover_match(Cover *c, const Match *match)
{
    const Type *t = match->scrutinee->type;
    Matrix m = {arena_new_array(c->arena, Row, match->clauses.n), match->clauses.n, 1};
    if (!m.rows)
        return;
    arena_init(&c->path_arena, c->arena->limits);
    for (uint32_t i = 0; i < m.n; i++) {
        m.rows[i] = (Row){arena_new(c->arena, const Pattern *), i};
        m.rows[i].at[0] = match->clauses.at[i].pattern;
    }
    if (m.n == 0 && t)
        cover_unmatched(c, type_find(t));
    else
        cover(c, &m);
    arena_deinit(&c->path_arena);
}

size_t match_missing(Ctx *cx, const Match *match, size_t most, Buf *out)
{
    Arena arena;
    arena_init(&arena, &cx->limits);
    Cover c = {.arena = &arena, .out = out, .most = most, .work_most = WORK_MOST};
    cover_match(&c, match);
    arena_deinit(&arena);
    return c.missing;
}

size_t match_clauses(Ctx *cx, const Match *match, const char *between, Buf *out)
{
    enum { MOST = 30 };
    Arena arena;
    Buf lines = {0};
    arena_init(&arena, &cx->limits);
    Cover c = {
        .arena = &arena,
        .out = &lines,
        .text = sources_get(&cx->sources, match->base.span.source),
        .most = MOST,
        .work_most = WORK_TYPED,
    };
    if (c.text)
        cover_match(&c, match);
    size_t n = c.missing <= MOST && c.work <= WORK_TYPED ? c.missing : 0;
    const char *at = buf_text(&lines);
    for (size_t i = 0; i < n; i++, at += strcspn(at, "\n") + 1)
        buf_printf(out, "%s%.*s", i ? between : "", (int)strcspn(at, "\n"), at);
    buf_deinit(&lines);
    arena_deinit(&arena);
    return n;
}

bool match_takes(Ctx *cx, const Match *match, uint32_t clause)
{
    Arena arena;
    arena_init(&arena, &cx->limits);
    Cover c = {
        .arena = &arena,
        .reached = arena_new_array(&arena, bool, match->clauses.n),
        .work_most = WORK_TYPED,
    };
    if (c.reached)
        cover_match(&c, match);
    bool takes = !c.reached || c.reached[clause] || c.work > WORK_TYPED;
    arena_deinit(&arena);
    return takes;
}

/* The missing clauses, behind those that there are: on lines of their own where the last one has one. */
static void offer_clauses(Checker *ck, Diag *d, const Match *match)
{
    const ClauseList *clauses = &match->clauses;
    Span span = clauses->n ? clauses->at[clauses->n - 1].span : match->base.span;
    const Source *text = sources_get(&ck->cx->sources, span.source);
    Buf between = {0}, fix = {0};
    if (!text || span.to > text->len || span.to == 0)
        return;
    size_t line = span.from;
    while (clauses->n && line > 0 && strchr(" \t", text->text[line - 1]))
        line--;
    bool own = clauses->n && line > 0 && text->text[line - 1] == '\n';
    buf_char(&between, ',');
    buf_char(&between, own ? '\n' : ' ');
    buf_bytes(&between, text->text + line, own ? span.from - line : 0);
    if (clauses->n)
        buf_str(&fix, buf_text(&between));
    bool known = match_clauses(ck->cx, match, buf_text(&between), &fix) > 0;
    /* Without clauses they stand in front of the brace that ends the match. */
    span.from = span.to -= clauses->n ? 0 : 1;
    if (known)
        diag_fix(d, span, NULL, buf_text(&fix));
    buf_deinit(&between);
    buf_deinit(&fix);
}

static void report_missing(Checker *ck, const Match *match, const Cover *c)
{
    const char *at = buf_text(c->out);
    size_t len = strcspn(at, "\n");
    bool empty = !match->clauses.n && len == 1 && *at == '_';
    Diag *d = diag_error(ck->cx->diags, E0209_INCOMPLETE_MATCH, match->base.span,
                         empty ? "the match has no clauses" : "the match does not handle `%.*s`%s",
                         (int)len, at, c->missing > 1 ? " and other cases" : "");
    diag_label(d, ir_use_span(ck->home, &match->scrutinee), "this is `%s`",
               type_str(ck->cx, type_resolve(ck->cx, match->scrutinee->type)));
    for (at += len + 1; c->missing > 1 && *at; at += len + 1) {
        len = strcspn(at, "\n");
        diag_note(d, "nor does it handle `%.*s`", (int)len, at);
    }
    if (c->missing > c->most)
        diag_note(d, "there are more");
    Buf clauses = {0};
    if (empty)
        diag_help(d, "the clause `_ => …` takes every value");
    bool few = !empty && c->missing <= 3 && match_clauses(ck->cx, match, ", ", &clauses) > 0;
    if (!empty)
        diag_help(d, "add %s%s%s, or write `match?` where no value can be one of them",
                  few ? "`" : "", few ? buf_text(&clauses) : "the clauses", few ? "`" : "");
    buf_deinit(&clauses);
    offer_clauses(ck, d, match);
}

void match_check(Checker *ck, Match *match)
{
    if (ptrmap_has(&ck->ill_matches, match))
        return;
    Buf out = {0};
    Arena arena;
    arena_init(&arena, &ck->cx->limits);
    Cover c = {
        .arena = &arena,
        .out = &out,
        .most = CASES_MOST,
        .work_most = WORK_MOST,
        .reached = arena_new_array(&arena, bool, match->clauses.n),
    };
    cover_match(&c, match);
    if (c.missing && match->complete)
        report_missing(ck, match, &c);
    for (uint32_t i = 0; i < match->clauses.n && c.work <= WORK_MOST; i++)
        if (!c.reached[i])
            diag_error(
                ck->cx->diags, W0201_UNREACHABLE, match->clauses.at[i].pattern->span,
                "this clause can never match: the ones before it take every value that it would");
    arena_deinit(&arena);
    buf_deinit(&out);
}
