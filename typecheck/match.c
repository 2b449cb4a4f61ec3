/* Patterns: their types, the cases that a match misses, and the clauses that it never reaches. */
#include "typecheck/internal.h"

/* ---- types of patterns ------------------------------------------------------------------------------------------------------ */

typedef struct Facing {
    Pattern *pattern;
    const Type *type; /* of what the pattern is held against */
} Facing;

typedef Vec(Facing) Facings;

/* The fields' turn comes next, from left to right. */
static void push_fields(Checker *ck, Facings *todo, const Pattern *p, uint32_t n,
                        const Type *const *types)
{
    for (uint32_t i = p->n; i-- > 0;)
        vec_push(todo, &ck->scratch, ((Facing){p->fields[i], i < n ? types[i] : ck->cx->poison}));
}

static void type_pattern_var(Checker *ck, Var *v, const Type *t)
{
    if (!v->base.type && !v->annotation) {
        set_type(ck, &v->base, t);
        return;
    }
    bool typed = v->base.type;
    HoleInfo info = {HOLE_WRITTEN, v->base.span, v->name->text, NULL};
    const Type *declared = typed ? v->base.type : written_type(ck, v->annotation, info);
    Rule rule = {"what a variable of a pattern stands for has the declared type",
                 {.e = &v->base},
                 {.slot = &ck->match->scrutinee}};
    const Type *both = unify_by(ck, rule, declared, t, WIDEN_LEFT, FLOW_TO_A);
    if (!both)
        report_misfit(ck, v->base.span, "what the pattern takes apart", t, declared);
    if (!typed)
        set_type(ck, &v->base, both ? both : declared);
}

static void foreign_constructor(Checker *ck, const Pattern *p, const Constructor *con,
                                const Type *matched)
{
    Diag *d = diag_error(ck->cx->diags, E0201_MISMATCH, p->span,
                         "`%s` belongs to `%s`, but what is matched is `%s`", con->name->text,
                         con->type->name->text, type_str(ck->cx, type_resolve(ck->cx, matched)));
    if (matched->kind == TYPE_ADT && note_type_namesakes(d, con->type, matched->def))
        return;
    if (matched->kind == TYPE_ADT)
        help_constructors(d, matched->def);
    else if (matched->kind == TYPE_REF)
        diag_help(d, "`ref_read(…)` gives what a reference holds");
    else
        diag_help(d, "`match` takes data types and tuples apart; `if (… == …)` compares numbers");
}

/* False after a diagnostic. */
static bool type_con_pattern(Checker *ck, const Pattern *p, const Type *t, Facings *todo)
{
    const Constructor *con = p->con;
    const Type *adt = type_find(t);
    if (adt->kind == TYPE_HOLE) {
        adt = infer_constructor(ck, con, p->span, NULL);
        Rule rule = {"what is matched belongs to the constructor's type",
                     {.slot = &ck->match->scrutinee},
                     {.span = p->span}};
        unify_by(ck, rule, t, adt, WIDEN_BOTH, FLOW_TO_A);
    }
    bool ok = adt->kind == TYPE_POISON || (adt->kind == TYPE_ADT && adt->def == con->type);
    if (!ok)
        foreign_constructor(ck, p, con, adt);
    if (ok && p->n != con->n) {
        Diag *d = diag_error(ck->cx->diags, E0210_PATTERN_ARITY, p->span,
                             "`%s` has %u field%s, the pattern %u", con->name->text, con->n,
                             con->n == 1 ? "" : "s", p->n);
        diag_label(d, con->span, "defined here");
        diag_help(d, "a pattern names each field, and `_` is for one that is not needed");
        ok = false;
    }
    if (!ok || adt->kind == TYPE_POISON) {
        push_fields(ck, todo, p, 0, NULL);
        return ok;
    }
    const Type **fields = arena_new_array(&ck->scratch, const Type *, con->n);
    for (uint32_t i = 0; i < con->n; i++)
        fields[i] = type_subst(ck->cx, con->fields[i], adt->n, con->type->params, adt->parts);
    push_fields(ck, todo, p, con->n, fields);
    return true;
}

static bool type_tuple_pattern(Checker *ck, const Pattern *p, const Type *t, Facings *todo)
{
    const Type *tuple = type_find(t);
    if (tuple->kind == TYPE_HOLE) {
        const Type **fields = arena_new_array(&ck->scratch, const Type *, p->n);
        const Var *matched = expr_as_var(ck->match->scrutinee);
        for (uint32_t i = 0; i < p->n; i++)
            fields[i] = hole_new(ck, (HoleInfo){HOLE_PATTERN, p->fields[i]->span, NULL,
                                                matched ? matched->name->text : NULL});
        tuple = type_tuple(ck->cx, p->n, fields);
        Rule rule = {"what is matched is a tuple of as many fields",
                     {.slot = &ck->match->scrutinee},
                     {.span = p->span}};
        unify_by(ck, rule, t, tuple, WIDEN_BOTH, FLOW_TO_A);
    }
    if (tuple->kind == TYPE_TUPLE && tuple->n == p->n) {
        push_fields(ck, todo, p, p->n, tuple->parts);
        return true;
    }
    push_fields(ck, todo, p, 0, NULL);
    if (tuple->kind == TYPE_POISON)
        return true;
    Diag *d;
    if (tuple->kind == TYPE_TUPLE) {
        d = diag_error(ck->cx->diags, E0210_PATTERN_ARITY, p->span,
                       "the tuple has %u field%s, the pattern %u", tuple->n,
                       tuple->n == 1 ? "" : "s", p->n);
        diag_help(d, "a pattern names each field, and `_` is for one that is not needed");
    } else {
        d = diag_error(ck->cx->diags, E0201_MISMATCH, p->span, "a tuple pattern cannot match `%s`",
                       type_str(ck->cx, type_resolve(ck->cx, tuple)));
        diag_help(d, "a tuple pattern takes tuples apart; `%%x` is for any value");
    }
    return false;
}

void infer_patterns(Checker *ck, Match *match)
{
    Facings todo = {0};
    for (uint32_t i = match->clauses.n; i-- > 0;)
        vec_push(&todo, &ck->scratch,
                 ((Facing){match->clauses.at[i].pattern, match->scrutinee->type}));
    bool ok = true;
    ck->match = match;
    while (todo.n) {
        Facing f = vec_pop(&todo);
        switch (f.pattern->kind) {
        case PATTERN_WILDCARD: break;
        case PATTERN_VAR: type_pattern_var(ck, f.pattern->var, f.type); break;
        case PATTERN_CON: ok = type_con_pattern(ck, f.pattern, f.type, &todo) && ok; break;
        case PATTERN_TUPLE: ok = type_tuple_pattern(ck, f.pattern, f.type, &todo) && ok; break;
        }
    }
    if (!ok)
        ptrmap_put(&ck->ill_matches, match, match);
}
