/* Relations that wait for types.
 *
 * A relation is linked to every hole inside its types. When a hole is filled or widened, its relations go to the end of the queue;
 * each run of one costs what its types measure, so that solving is linear in what is learnt. */
#include "typecheck/internal.h"

#include "ir/print.h"

#include <stdio.h>
#include <string.h>

/* ---- the queue ---------------------------------------------------------------------------------------------------------- */

static void relation_queue(Checker *ck, Relation *r)
{
    if (r->queued || r->failed)
        return;
    r->queued = true;
    r->next = NULL;
    if (ck->queue_last)
        ck->queue_last->next = r;
    else
        ck->queue_first = r;
    ck->queue_last = r;
}

static void relation_link(Checker *ck, Hole *hole, Relation *r)
{
    /* A type often mentions one hole several times in a row. */
    if (hole->last && hole->last->relation == r)
        return;
    RelationLink *link = arena_new(&ck->scratch, RelationLink);
    link->relation = r;
    if (hole->last)
        hole->last->next = link;
    else
        hole->first = link;
    hole->last = link;
}

/* More than operators ever look at; types that share parts can be exponentially larger than what is stored. */
#define WATCH_MOST 100000

/* Filled holes are linked too: they may be widened. */
static void watch(Checker *ck, Relation *r, const Type *t, uint32_t depth)
{
    while (t->open && depth <= TYPE_DEPTH_MOST && ++r->watched < WATCH_MOST) {
        Hole *hole = hole_of(ck, t);
        if (hole)
            relation_link(ck, hole, r);
        if (t->kind == TYPE_HOLE) {
            if (!t->bound)
                return;
            t = t->bound;
            continue;
        }
        depth++;
        for (uint32_t i = 0; i < t->n; i++)
            watch(ck, r, t->parts[i], depth);
        if (t->kind != TYPE_FUNC)
            return;
        t = t->result;
    }
}

static void relation_watch(Checker *ck, Relation *r, const Type *t)
{
    watch(ck, r, t, 0);
}

/* Whether the hole stands in the chain of holes that the type begins with. */
static bool leads_to(const Type *t, const Type *hole)
{
    while (t != hole && t->kind == TYPE_HOLE && t->bound)
        t = t->bound;
    return t == hole;
}

/* What a projection depends on: which tuple it is of, and the one field. There may be as many projections as the tuple has fields. */
static void projection_watch(Checker *ck, Relation *r, const Type *t)
{
    for (; t->kind == TYPE_HOLE; t = t->bound) {
        Hole *hole = hole_of(ck, t);
        if (hole)
            relation_link(ck, hole, r);
        if (!t->bound)
            return;
    }
    if (t->kind == TYPE_TUPLE && r->index >= 0 && r->index < t->n)
        relation_watch(ck, r, t->parts[r->index]);
}

void relations_wake(Checker *ck, Hole *hole)
{
    for (RelationLink *link = hole->first; link; link = link->next)
        relation_queue(ck, link->relation);
}

void relations_follow(Checker *ck, Hole *from, const Type *t)
{
    if (!t->open)
        return;
    for (RelationLink *link = from->first; link; link = link->next) {
        Relation *r = link->relation;
        if (!r->op && leads_to(r->in[0], &from->type))
            projection_watch(ck, r, t);
        else
            relation_watch(ck, r, t);
    }
}

/* ---- running one -------------------------------------------------------------------------------------------------------- */

typedef struct Run {
    Checker *ck;
    Relation *relation;
} Run;

static DiagCode misfit_code(const Checker *ck)
{
    switch (ck->misfit.kind) {
    case MISFIT_DIMS:
    case MISFIT_RANK: return E0202_SHAPE;
    case MISFIT_DTYPE: return E0203_DTYPE;
    case MISFIT_TYPES:
    case MISFIT_LESS:
    case MISFIT_ARITY:
    case MISFIT_WORK: return E0201_MISMATCH;
    case MISFIT_INFINITE: return E0214_INFINITE_TYPE;
    }
    return E0201_MISMATCH;
}

/* What a relation says of an input never makes the input less precise; what it says of the result may. */
static bool rel_assign(Rel *rel, int which, const Type *t)
{
    const Run *run = rel->data;
    Checker *ck = run->ck;
    Relation *r = run->relation;
    if (which < 0) {
        if (unify(ck, r->out, t, WIDEN_LEFT, FLOW_TO_A)) {
            rel->out = type_resolve(ck->cx, r->out);
            return true;
        }
        rel_error(rel, misfit_code(ck), -1, "`%s` gives `%s` here, but `%s` is needed", r->op->name,
                  type_str(ck->cx, type_resolve(ck->cx, t)),
                  type_str(ck->cx, type_resolve(ck->cx, r->out)));
        return false;
    }
    if (unify(ck, r->in[which], t, WIDEN_NONE, FLOW_TO_A)) {
        r->now[which] = type_resolve(ck->cx, r->in[which]);
        return true;
    }
    rel_error(rel, misfit_code(ck), which, "argument %d of `%s` is `%s`, but `%s` is needed",
              which + 1, r->op->name, type_str(ck->cx, r->now[which]),
              type_str(ck->cx, type_resolve(ck->cx, t)));
    return false;
}

/* An error was reported for what this type comes from. */
static bool is_tainted(const Type *t)
{
    if (t->kind == TYPE_TUPLE)
        for (uint32_t i = 0; i < t->n; i++)
            if (type_is_poison(t->parts[i]))
                return true;
    return t->kind == TYPE_POISON;
}

/* Nothing more is said about it, nor about what only it could have told. */
static void relation_fail(Checker *ck, Relation *r)
{
    r->failed = true;
    holes_poison(ck, r->out);
    for (uint32_t i = 0; i < r->n; i++)
        if (r->in[i]->open)
            vec_push(&ck->blamed, &ck->scratch, r->in[i]);
}

static RelResult project(Checker *ck, Relation *r)
{
    const Type *tuple = type_find(r->in[0]);
    if (tuple->kind == TYPE_HOLE)
        return REL_WAIT;
    if (tuple->kind == TYPE_TUPLE && r->index >= 0 && r->index < tuple->n) {
        const Type *field = tuple->parts[r->index];
        if (unify(ck, r->out, field, WIDEN_LEFT, FLOW_TO_A))
            return REL_DONE;
        ck->rule = (Rule){NULL, {.span = r->span}, {.span = r->in_spans[0]}};
        report_misfit(ck, r->span, "the field", field, r->out);
    } else if (tuple->kind == TYPE_TUPLE) {
        Diag *d = diag_error(ck->cx->diags, E0207_TUPLE_INDEX, r->span,
                             "tuple index %lld is out of range", (long long)r->index);
        diag_label(d, r->in_spans[0], "this is `%s`", type_str(ck->cx, tuple));
        if (tuple->n)
            diag_help(d, "fields count from 0; the last one is `.%u`", tuple->n - 1);
        else
            diag_help(d, "the empty tuple has no fields");
    } else if (tuple->kind != TYPE_POISON) {
        Diag *d = diag_error(ck->cx->diags, E0206_NOT_A_TUPLE, r->span,
                             "a projection needs a tuple, not `%s`", type_str(ck->cx, tuple));
        diag_label(d, r->in_spans[0], "this is `%s`", type_str(ck->cx, tuple));
        if (tuple->kind == TYPE_TENSOR)
            diag_help(d, "an element of a tensor is `take(…, 0)`");
        else if (tuple->kind == TYPE_REF)
            diag_help(d, "`ref_read(…)` gives what a reference holds");
        else if (tuple->kind == TYPE_FUNC)
            diag_help(d, "is the function to be called? `(…(…)).%lld`", (long long)r->index);
        else
            diag_help(d, "`match (…) { … }` takes data apart");
    }
    relation_fail(ck, r);
    return REL_FAILED;
}

static RelResult relation_step(Checker *ck, Relation *r)
{
    if (!r->op)
        return project(ck, r);
    bool tainted = false;
    for (uint32_t i = 0; i < r->n; i++) {
        r->now[i] = type_resolve(ck->cx, r->in[i]);
        tainted = tainted || is_tainted(r->now[i]);
    }
    RelResult result = REL_FAILED;
    size_t errors = ck->cx->diags->errors;
    if (!tainted) {
        Run run = {ck, r};
        Rel rel = {
            .cx = ck->cx,
            .op = r->op,
            .attrs = r->attrs,
            .span = r->span,
            .n = r->n,
            .in = r->now,
            .out = type_resolve(ck->cx, r->out),
            .in_spans = r->in_spans,
            .values = r->values,
            .module = ck->m,
            .env = ck->env,
            .assign = rel_assign,
            .data = &run,
        };
        result = r->op->rel(&rel);
    }
    if (result == REL_FAILED) {
        if (!tainted && ck->cx->diags->errors > errors)
            blame_relation(ck, r, ck->cx->diags->last);
        relation_fail(ck, r);
    }
    return result;
}

/* `nn.dense(Tensor[(1, 4), float32], ?1, units=3) -> ?2`. */
static const char *relation_text(Checker *ck, const Relation *r)
{
    Buf b = {0};
    if (r->op)
        buf_printf(&b, "%s(", r->op->name);
    for (uint32_t i = 0; i < r->n; i++)
        buf_printf(&b, "%s%s", i ? ", " : "", story_type(ck->story, r->in[i]));
    for (uint32_t i = 0; r->attrs && i < r->attrs->n; i++) {
        /* The record has the fields of the schema in their order; where there is none, those that were written. */
        const OpAttr *field = r->op->attrs ? &r->op->attrs[i] : NULL;
        if (field && !field->required &&
            attr_value_equal(&r->attrs->at[i].value, &field->otherwise))
            continue;
        const char *key = r->attrs->at[i].key; /* a record has none */
        buf_printf(&b, "%s%s%s", b.n && b.at[b.n - 1] != '(' ? ", " : "", key, *key ? "=" : "");
        ir_print_attr(&b, &r->attrs->at[i].value);
    }
    if (r->op)
        buf_char(&b, ')');
    else
        buf_printf(&b, ".%lld", (long long)r->index);
    const char *text = story_text(ck, "%s -> %s", buf_text(&b), story_type(ck->story, r->out));
    buf_deinit(&b);
    return text;
}

static const char *relation_rule(Checker *ck, const Relation *r, RelResult result)
{
    if (!r->op)
        return "a projection takes a field of a tuple";
    if (result == REL_FAILED)
        return "the operands do not fit the operator";
    if (result == REL_WAIT)
        return "too little is known of the operands yet: the relation waits";
    if (r->told)
        return story_text(ck, "`%s` again, now that more is known", r->op->name);
    return story_text(ck, "`%s` relates its operands and its result", r->op->name);
}

static void relation_run(Checker *ck, Relation *r)
{
    if (!story_begin(ck)) {
        relation_step(ck, r);
        return;
    }
    StoryEvent e = {.kind = STORY_RELATION, .at = r->span, .before = relation_text(ck, r)};
    e.n_places = r->n < 2 ? r->n : 2;
    for (uint32_t i = 0; i < e.n_places; i++)
        e.places[i] = (StoryPlace){r->in_spans[i], story_type(ck->story, r->in[i])};
    size_t errors = ck->cx->diags->errors;
    RelResult result = relation_step(ck, r);
    e.result = result == REL_FAILED ? STORY_FAILED
               : result == REL_WAIT ? STORY_WAITS
                                    : STORY_DECIDED;
    if (r->told && result == REL_DONE && !ck->story->changed.n) {
        ck->story->open = false;
        return;
    }
    e.rule = relation_rule(ck, r, result);
    r->told = true;
    story_end(ck, e);
    if (ck->cx->diags->errors > errors)
        story_failed(ck, ck->cx->diags->last);
}

void solve(Checker *ck)
{
    while (ck->queue_first && !limit_hit(&ck->cx->limits)) {
        Relation *r = ck->queue_first;
        ck->queue_first = r->next;
        if (!ck->queue_first)
            ck->queue_last = NULL;
        r->queued = false;
        relation_run(ck, r);
    }
}

/* ---- starting them ------------------------------------------------------------------------------------------------------ */

/* Runs the relation at once; it stays linked to the holes of its types. When nothing can change any more, the result is a plain type. */
static const Type *relation_start(Checker *ck, Relation *r)
{
    bool open = false;
    for (uint32_t i = 0; i < r->n; i++)
        open = open || r->in[i]->open;
    if (open && !r->op)
        projection_watch(ck, r, r->in[0]);
    for (uint32_t i = 0; open && r->op && i < r->n; i++)
        relation_watch(ck, r, r->in[i]);
    relation_run(ck, r);
    const Type *out = type_find(r->out);
    if (out->open)
        relation_watch(ck, r, r->out);
    return open || out->open ? r->out : out;
}

static Relation *relation_new(Checker *ck, const Op *op, Span span, uint32_t n, const Type **in,
                              Span *in_spans)
{
    Relation *r = arena_new(&ck->scratch, Relation);
    *r = (Relation){
        .op = op,
        .span = span,
        .n = n,
        .in = in,
        .now = arena_new_array(&ck->scratch, const Type *, n),
        .in_spans = in_spans,
        .out = hole_new(ck, (HoleInfo){HOLE_OP, span, op ? op->name : NULL, NULL}),
    };
    return r;
}

/* An attribute of that name repeats the argument, as the original has it in its objects; text leaves it out. */
static bool is_repeated(const Op *op, const char *arg)
{
    const OpAttr *a = op->attrs;
    while (a && a->name && (a->type != ATTR_TYPE_EXPR || strcmp(a->name, arg) != 0))
        a++;
    return a && a->name;
}

/* Of what the original knows from attributes: elsewhere a literal says no more than any other argument. */
static const Value *const *literals_of(Checker *ck, const Call *call, const Op *op)
{
    const Value **values = NULL;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Constant *c = expr_as_constant(call->args.at[i]);
        if (!c || !op->args[i].name || !is_repeated(op, op->args[i].name))
            continue;
        if (!values)
            values = arena_new_array(&ck->scratch, const Value *, call->args.n);
        if (values)
            values[i] = &c->value;
    }
    return values;
}

const Type *relation_apply(Checker *ck, const Call *call, const Op *op, const Type **in,
                           Span *in_spans)
{
    Relation *r = relation_new(ck, op, call->base.span, call->args.n, in, in_spans);
    r->call = call;
    r->attrs = call->attrs;
    r->values = literals_of(ck, call, op);
    return relation_start(ck, r);
}

const Type *relation_project(Checker *ck, const Type *tuple, int64_t index, Span span,
                             Span tuple_span)
{
    const Type **in = arena_new(&ck->scratch, const Type *);
    Span *in_span = arena_new(&ck->scratch, Span);
    *in = tuple;
    *in_span = tuple_span;
    Relation *r = relation_new(ck, NULL, span, 1, in, in_span);
    r->index = index;
    return relation_start(ck, r);
}

/* ---- operators as values ------------------------------------------------------------------------------------------------ */

const Type *type_of_op(Ctx *cx, const Op *op)
{
    const Type *known = ptrmap_find(&cx->op_types, op);
    if (known)
        return known;
    uint32_t n = (uint32_t)op_arity(op);
    TypeVar **vars = arena_new_array(ctx_scratch(cx), TypeVar *, (size_t)n + 1);
    const Type **args = arena_new_array(ctx_scratch(cx), const Type *, (size_t)n + 1);
    for (uint32_t i = 0; i <= n; i++) {
        char name[16] = "out";
        if (i < n)
            snprintf(name, sizeof name, "in%u", i);
        vars[i] = typevar_new(cx, ctx_name(cx, name), (Span){0});
        vars[i]->op = op;
        args[i] = type_var(cx, vars[i]);
    }
    const Type *t = type_func(cx, n + 1, (const TypeVar *const *)vars, n, args, args[n]);
    ptrmap_put(&cx->op_types, op, (void *)(uintptr_t)t);
    return t;
}

void relation_of_params(Checker *ck, const Type *f, const Type *const *with)
{
    const Op *op = f->params[f->n_params - 1]->op;
    if (!op)
        return;
    uint32_t n = f->n_params - 1;
    const Attrs *attrs =
        op->attrs ? attrs_check(ck->cx, &ck->home->arena, op->name, op->attrs, NULL, ck->at) : NULL;
    if (op->attrs && !attrs)
        return;
    const Type **in = arena_new_array(&ck->scratch, const Type *, n);
    Span *spans = arena_new_array(&ck->scratch, Span, n);
    if (n)
        memcpy(in, with, n * sizeof *in);
    for (uint32_t i = 0; i < n; i++)
        spans[i] = ck->at;
    Relation *r = relation_new(ck, op, ck->at, n, in, spans);
    r->attrs = attrs;
    r->out = with[n];
    for (uint32_t i = 0; i <= n; i++)
        relation_watch(ck, r, with[i]);
    relation_queue(ck, r);
}
