/* Where the parts of a conflict come from: notes and labels of an error. */
#include "ir/dim.h"
#include "typecheck/internal.h"

#define SOURCES_MOST 3

Span side_span(const Checker *ck, Side side)
{
    if (side.slot)
        return ir_use_span(ck->home, side.slot);
    const Function *fn = expr_as_function(side.e);
    if (fn)
        return function_head_span(ck->cx, fn);
    return side.e ? side.e->span : side.span;
}

/* Questions about the definition in work; what is bound in it is looked up once. */
static Why *why_of(Checker *ck)
{
    if (ck->why_root == ck->root)
        return &ck->why;
    why_deinit(&ck->why);
    why_init(&ck->why, ck->cx, ck->m, ck->env);
    why_add(&ck->why, ck->root);
    ck->why_root = ck->root;
    return &ck->why;
}

static bool same_place(Span a, Span b)
{
    return a.source == b.source && a.from == b.from && a.to == b.to;
}

/* What is said about one error. */
typedef struct Blame {
    Checker *ck;
    Diag *d;
    Buf text;
    Span seen[3]; /* places that the message shows anyway */
    uint32_t n_seen;
    bool news; /* some source stands elsewhere */
} Blame;

/* "because …" and labels for the sources; those that the message shows anyway get none. */
static void print_because(Blame *bl, const WhySource *sources, size_t n, const char *what)
{
    if (n == 0)
        return;
    buf_str(&bl->text, " because ");
    why_print_sources(&bl->text, bl->ck->cx, sources, n, bl->d->span);
    for (size_t i = 0; i < n; i++) {
        Span s = sources[i].span;
        bool shown = span_is_none(s);
        for (uint32_t k = 0; k < bl->n_seen; k++)
            shown = shown || same_place(s, bl->seen[k]);
        bl->news = bl->news || !shown;
        for (const DiagLabel *l = bl->d->labels; l; l = l->next)
            shown = shown || same_place(l->span, s);
        if (!shown)
            diag_label(bl->d, s, "%s", what);
    }
}

/* What a part of a tensor type is: "3", "`float32`", "2 dimensions". */
static const char *part_value(Checker *ck, const Type *t, const Part *part)
{
    Buf b = {0};
    switch (part->kind) {
    case PART_DIM:
        if (t->dims[part->dim] >= 0)
            buf_int(&b, t->dims[part->dim]);
        else if (dim_is_symbol(t->dims[part->dim]))
            dim_print(&b, ck->cx, t->dims[part->dim]);
        else
            buf_str(&b, "known at run time");
        break;
    case PART_RANK: buf_printf(&b, "%u dimension%s", t->n, t->n == 1 ? "" : "s"); break;
    case PART_DTYPE:
        buf_char(&b, '`');
        dtype_print(&b, t->dtype);
        buf_char(&b, '`');
        break;
    case PART_WHOLE: type_print(&b, t); break;
    }
    return buf_keep(&b, &ck->scratch);
}

/* ---- types that must agree --------------------------------------------------------------------------------------------------------- */

static size_t side_sources(Checker *ck, Side side, Part part, WhySource *out)
{
    const Expr *e = side.slot ? *side.slot : side.e;
    if (side.call)
        return why_parameter(why_of(ck), side.call, side.part - 1, part, out, SOURCES_MOST);
    if (!e || (side.part && !part_inside(&part, side.part - 1)))
        return 0;
    return why_part(why_of(ck), e, part, out, SOURCES_MOST);
}

/* The path of the misfit, from the outside in; false when it is too long to be followed. */
static bool misfit_part(const Misfit *m, PartKind kind, Part *out)
{
    *out = (Part){.kind = kind, .n = m->n_path};
    if (m->n_path >= PART_PATH)
        return false;
    for (uint32_t i = 0; i < m->n_path; i++)
        out->path[i] = m->path[m->n_path - 1 - i];
    return true;
}

/* "dimension 1 is 3 because …, and 4 is needed because …". */
static void print_conflict(Blame *bl, const Misfit *m, Part part)
{
    Checker *ck = bl->ck;
    Buf *b = &bl->text;
    WhySource sources[SOURCES_MOST];
    Rule rule = ck->rule;
    const char *found = part_value(ck, m->b, &part), *needed = part_value(ck, m->a, &part);
    if (part.kind == PART_DIM)
        buf_printf(b, "dimension %u is %s", part.dim, found);
    else
        buf_printf(b, "%s %s", part.kind == PART_RANK ? "it has" : "the elements are", found);
    size_t n = side_sources(ck, rule.found, part, sources);
    print_because(bl, sources, n, found);
    n = side_sources(ck, rule.needed, part, sources);
    buf_printf(b, ",\nand %s %s needed", needed,
               part.kind == PART_RANK && m->a->n != 1 ? "are" : "is");
    print_because(bl, sources, n, needed);
}

void blame_misfit(Checker *ck, Diag *d)
{
    Misfit m = ck->misfit;
    if (!d->arena)
        return;
    m.a = m.a ? type_find(m.a) : NULL;
    m.b = m.b ? type_find(m.b) : NULL;
    PartKind kind = m.kind == MISFIT_DIMS   ? PART_DIM
                    : m.kind == MISFIT_RANK ? PART_RANK
                                            : PART_DTYPE;
    bool tensors = m.kind == MISFIT_DIMS || m.kind == MISFIT_RANK || m.kind == MISFIT_DTYPE;
    Part part;
    if (!tensors || m.a->n > TENSOR_RANK_MOST || !misfit_part(&m, kind, &part))
        return;
    Blame bl = {.ck = ck, .d = d, .n_seen = 2};
    bl.seen[0] = d->span;
    bl.seen[1] = side_span(ck, ck->rule.found);
    uint32_t axes = 0;
    Dim both;
    if (kind != PART_DIM)
        print_conflict(&bl, &m, part);
    for (uint32_t i = 0; kind == PART_DIM && i < m.a->n; i++) {
        if (unify_dim(m.a->dims[i], m.b->dims[i], &both))
            continue;
        part.dim = i;
        buf_str(&bl.text, axes ? "\n" : "");
        print_conflict(&bl, &m, part);
        axes |= 1u << i;
    }
    if (axes) {
        buf_char(&bl.text, '\n');
        why_draw_shapes(&bl.text, m.b, axes, m.a, axes);
    }
    if (bl.text.n && (bl.news || kind != PART_DTYPE))
        diag_note(d, "%s", buf_text(&bl.text));
    buf_deinit(&bl.text);
}

/* ---- operators ---------------------------------------------------------------------------------------------------------------------- */

#define GIVENS_MOST 8

/* "axis 1 of `lhs` is 3 because …". */
static void print_given(Blame *bl, const Trial *t, const Given *g)
{
    Checker *ck = bl->ck;
    Buf *b = &bl->text;
    const Type *in = part_type(t->in[g->arg], &g->part);
    const char *value = part_value(ck, in, &g->part);
    if (g->part.kind == PART_DIM)
        buf_printf(b, "axis %u of `%s`", g->part.dim, t->op->args[g->arg].name);
    else
        buf_printf(b, "`%s`", t->op->args[g->arg].name);
    if (g->part.n)
        buf_printf(b, ", field %u,", g->part.path[0]);
    buf_printf(b, " is %s", value);
    WhySource sources[SOURCES_MOST];
    size_t n = why_part(why_of(ck), t->call->args.at[g->arg], g->part, sources, SOURCES_MOST);
    print_because(bl, sources, n, value);
}

static void print_attr(Blame *bl, const Trial *t, const Given *g)
{
    WhySource s = trial_attr_source(t, g->attr);
    buf_str(&bl->text, s.text);
    why_print_place(&bl->text, bl->ck->cx, s.span, bl->d->span);
}

/* The shapes of two tensors whose extents are at odds. */
static void draw_givens(Buf *b, const Trial *t, const Given *all, size_t n)
{
    const Type *shapes[2] = {0};
    uint32_t axes[2] = {0};
    for (size_t i = 0; i < n; i++) {
        if (all[i].attr >= 0 || all[i].part.kind != PART_DIM)
            return;
        const Type *p = part_type(t->in[all[i].arg], &all[i].part);
        uint32_t k = !shapes[0] || (all[i].arg == all[0].arg && p == shapes[0]) ? 0 : 1;
        if (shapes[k] && (shapes[k] != p || all[i].part.dim >= TENSOR_RANK_MOST))
            return;
        shapes[k] = p;
        axes[k] |= 1u << all[i].part.dim;
    }
    if (!shapes[0] || !shapes[1])
        return;
    buf_char(b, '\n');
    why_draw_shapes(b, shapes[0], axes[0], shapes[1], axes[1]);
}

/* A message about the value of one attribute points at it. */
static void point_at_attr(Diag *d, const Trial *t, const Given *all, size_t n)
{
    size_t attrs = 0, at = 0;
    for (size_t i = 0; i < n; i++)
        if (all[i].attr >= 0) {
            attrs++;
            at = i;
        }
    bool about = d->code == E0216_OPERATOR_ARGUMENT || d->code == E0217_AXIS;
    if (attrs != 1 || !(about || attrs == n))
        return;
    d->span = trial_attr_source(t, all[at].attr).span;
}

void blame_relation(Checker *ck, const Relation *r, Diag *d)
{
    if (!d || !d->arena || !r->call || limit_hit(&ck->cx->limits))
        return;
    Why *w = why_of(ck);
    Trial t = trial_of(w, r->call, -1);
    Given all[GIVENS_MOST];
    size_t n = trial_run(&t) == TRIAL_FAILED ? trial_conflict(&t, all, GIVENS_MOST) : 0;
    if (n == 0)
        return;
    point_at_attr(d, &t, all, n);
    Blame bl = {.ck = ck, .d = d};
    bool dims = false;
    for (uint32_t i = 0; i < r->n && i < 3; i++)
        bl.seen[bl.n_seen++] = r->in_spans[i];
    for (size_t i = 0; i < n; i++) {
        buf_str(&bl.text, i ? ",\nand " : "");
        dims = dims || (all[i].attr < 0 && all[i].part.kind == PART_DIM);
        if (all[i].attr >= 0)
            print_attr(&bl, &t, &all[i]);
        else
            print_given(&bl, &t, &all[i]);
    }
    draw_givens(&bl.text, &t, all, n);
    if (bl.news || dims)
        diag_note(d, "%s", buf_text(&bl.text));
    buf_deinit(&bl.text);
}
