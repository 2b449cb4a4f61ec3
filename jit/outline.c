/* Function outlining: LLVM's time grows with the square of a function's length, and nothing interrupts it within one.
 *
 *     fn (%x) { let %a = …; … 5,000 lets …; %r }
 *  => fn (%x) { let %part = fn (%a, %d) { … the last 500 …; %r }; …; let %a = …; …; let %p = %part(%a, %d); %p }
 *
 * A part is the rest of a block, a branch, or the last clauses of a match: it takes the variables that it uses as parameters and is
 * called in the place of its code. Parts are bound where their function begins, in an order in which each comes before those that call
 * it, so that they take nothing with them and each is known where it is called. What is bound before them in the function and costs
 * nothing (groups of operators, atoms) is bound again in each part that uses it; literals that take nothing from the function move to
 * its beginning. Where a part would take very many values, those that were bound together are handed on in one tuple. */
#include "jit/outline.h"

#include "base/limit.h"
#include "ir/ctx.h"
#include "ir/walk.h"
#include "jit/live.h"
#include "passes/types.h"

#include <string.h>

/* Lets, blocks and patterns of what is left as it is, of a part, and of the least that becomes one. */
#define WHOLE_MOST 700
#define PART_MOST 400
#define PART_LEAST 40
/* Branches inside each other; and inside one part. */
#define DEPTH_WHOLE 200
#define DEPTH_PART 60
/* Values that a part takes one by one. */
#define TAKEN_MOST 100
/* Lets, or parameters, whose values go into one tuple when they are handed on; such tuples that go into one again. */
#define FRAME_LETS 400
#define FRAME_FRAMES 50

typedef struct Frame Frame;

/* What a function binds. */
typedef struct Home {
    struct Home *outer;
    bool large;
    uint32_t size, depth, depth_most;
    Vec(Let *) first; /* bound where it begins, in this order; their bodies say nothing */
    Vec(Frame *) given; /* of its parameters, where they are many */
} Home;

/* The variables of lets that follow each other in one block, parameters, or the tuples of such. */
struct Frame {
    Var *tuple; /* NULL: nobody takes it */
    Vec(Var *) fields; /* that are handed on in it */
    PtrMap index; /* of a field, from 1 */
    uint32_t n; /* lets or frames that belong to it */
    bool passed; /* what is rewritten now comes behind all of them */
    bool begun; /* the tuple has been bound, or will not be */
    Frame *before; /* in the block, on the same level */
    Frame *above; /* to which its tuple belongs; NULL for those that are above */
};

typedef struct Bound {
    Var *var;
    Expr *value;
} Bound;

typedef struct Outline {
    Ctx *cx;
    Module *module;
    Arena scratch;
    Home *home; /* of the function at hand */
    PtrMap homes; /* Function -> its Home; Var -> the Home of the function that binds it */
    PtrMap values; /* Var -> the value of its let */
    PtrMap names; /* function literal -> the Var of its let */
    PtrMap frames; /* Var of a let, Let that follows -> their Frame */
    PtrMap ends; /* the last Let of a Frame -> Frame */
    PtrMap known; /* variables that are bound where their function begins */
    PtrMap sizes; /* node -> Size as a pointer */
    Vec(Let *) parts; /* all of them */
    Vec(Bound) above; /* tuples of tuples, whose types are known at the end */
    Vec(Bound) gets; /* of what had no type yet */
    bool any_large;
} Outline;

typedef struct Size {
    uint32_t weight; /* lets, blocks and patterns in it */
    uint32_t depth; /* branches inside each other */
} Size;

static Size size_of(const Outline *o, const Expr *e)
{
    uintptr_t bits = (uintptr_t)ptrmap_find(&o->sizes, e);
    return (Size){(uint32_t)(bits >> 8), bits & 0xff};
}

static void set_size(Outline *o, const Expr *e, Size s)
{
    ptrmap_put(&o->sizes, e, (void *)(((uintptr_t)s.weight << 8) | s.depth));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t pattern_weight(const Pattern *p)
{
    uint32_t n = 1;
    for (uint32_t i = 0; i < p->n; i++)
        n += pattern_weight(p->fields[i]);
    return n;
}

/* A call or tuple of very many operands is more than one. */
static uint32_t operands_weight(const Expr *e)
{
    const Call *call = expr_as_call(e);
    const Tuple *tuple = expr_as_tuple(e);
    return (call ? call->args.n : tuple ? tuple->fields.n : 0) / 8;
}

/* ---- what there is ------------------------------------------------------------------------------------------------- */

static void note_binder(void *data, Var *v)
{
    Outline *o = data;
    ptrmap_put(&o->homes, v, o->home);
}

static void enter_home(Outline *o, const Function *fn)
{
    Home *home = arena_new(&o->scratch, Home);
    home->outer = o->home;
    ptrmap_put(&o->homes, fn, home);
    o->home = home;
}

static void leave_home(Outline *o)
{
    Home *home = o->home;
    home->large = home->size > WHOLE_MOST || home->depth_most > DEPTH_WHOLE;
    o->any_large |= home->large;
    o->home = home->outer;
}

static void free_map(void *map)
{
    ptrmap_deinit(map);
}

static Frame *frame_alone(Outline *o, Frame *before)
{
    Frame *frame = arena_new(&o->scratch, Frame);
    arena_on_free(&o->scratch, free_map, &frame->index);
    frame->before = before;
    return frame;
}

static Frame *frame_new(Outline *o, Frame *before)
{
    Frame *frame = frame_alone(o, before), *above = before ? before->above : NULL;
    bool fits = above && above->n < FRAME_FRAMES;
    frame->above = fits ? above : frame_alone(o, above);
    frame->above->n++;
    return frame;
}

/* Parameters of which a part could not take all one by one. */
static void note_parameters(Outline *o, const Function *fn)
{
    Frame *frame = NULL;
    for (uint32_t i = 0; i < fn->params.n && fn->params.n > TAKEN_MOST; i++) {
        if (i % FRAME_LETS == 0) {
            frame = frame_new(o, frame);
            frame->passed = frame->above->passed = true;
            vec_push(&o->home->given, &o->scratch, frame);
        }
        ptrmap_put(&o->frames, fn->params.at[i], frame);
    }
}

/* Lets are met in the order of their block. */
static void note_frame(Outline *o, const Let *let)
{
    Frame *frame = ptrmap_find(&o->frames, let);
    if (!frame)
        frame = frame_new(o, NULL);
    ptrmap_put(&o->frames, let->var, frame);
    bool ends = let->body->kind != EXPR_LET || ++frame->n >= FRAME_LETS;
    if (ends)
        ptrmap_put(&o->ends, let, frame);
    if (let->body->kind == EXPR_LET)
        ptrmap_put(&o->frames, let->body, ends ? frame_new(o, frame) : frame);
}

static void note_let(Outline *o, const Let *let)
{
    o->home->size++;
    ptrmap_put(&o->values, let->var, let->value);
    if (let->value->kind == EXPR_FUNCTION)
        ptrmap_put(&o->names, let->value, let->var);
    note_frame(o, let);
}

static void note_branches(Outline *o, const Expr *e)
{
    const Match *m = expr_as_match(e);
    o->home->size += 2;
    for (uint32_t i = 0; m && i < m->clauses.n; i++)
        o->home->size += pattern_weight(m->clauses.at[i].pattern);
    o->home->depth_most = larger(o->home->depth_most, ++o->home->depth);
}

static WalkNext note(void *data, const Expr *e)
{
    Outline *o = data;
    const Function *fn = expr_as_function(e);
    if (limit_hit(&o->cx->limits))
        return WALK_STOP;
    if (fn && function_is_primitive(fn) && o->home)
        return WALK_SKIP;
    if (fn) {
        enter_home(o, fn);
        note_parameters(o, fn);
    }
    ir_binders(e, note_binder, o);
    if (e->kind == EXPR_LET)
        note_let(o, expr_as_let(e));
    else if (e->kind == EXPR_IF || e->kind == EXPR_MATCH)
        note_branches(o, e);
    o->home->size += operands_weight(e);
    return WALK_ON;
}

static WalkNext note_end(void *data, const Expr *e)
{
    Outline *o = data;
    if (e->kind == EXPR_FUNCTION)
        leave_home(o);
    else if (e->kind == EXPR_IF || e->kind == EXPR_MATCH)
        o->home->depth--;
    return WALK_ON;
}

/* ---- a part -------------------------------------------------------------------------------------------------------- */

static Expr *let_of(Outline *o, Var *var, Expr *value, Expr *body)
{
    Expr *e = expr_let(&o->module->arena, value->span, var, value, body);
    e->type = body->type;
    Size of_value = size_of(o, value), of_body = size_of(o, body);
    set_size(o, e,
             (Size){1 + operands_weight(value) + of_value.weight + of_body.weight,
                    larger(of_value.depth, of_body.depth)});
    return e;
}

static Var *var_of(Outline *o, const char *name, const Type *type, Span span)
{
    Var *v = expr_var(&o->module->arena, span, ctx_name(o->cx, name), NULL);
    v->base.type = type;
    ptrmap_put(&o->homes, v, o->home);
    return v;
}

/* A block that is this value. */
static Expr *block_of(Outline *o, Expr *value)
{
    Var *v = var_of(o, "", value->type, value->span);
    return let_of(o, v, value, &v->base);
}

typedef struct Taking {
    Outline *o;
    Vec(Var *) anew; /* bound again in the part */
    Vec(Var *) taken; /* its parameters */
} Taking;

static bool costs_nothing(const Expr *value)
{
    switch ((ExprKind)value->kind) {
    case EXPR_CONSTANT:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON: return true;
    case EXPR_FUNCTION: return live_is_group(expr_as_function(value));
    default: return false;
    }
}

/* What is bound outside the function is taken from there, as any literal does. */
static void take(void *data, Var *v)
{
    Taking *t = data;
    Outline *o = t->o;
    const Expr *value = ptrmap_find(&o->values, v);
    if (ptrmap_find(&o->homes, v) != o->home || ptrmap_has(&o->known, v))
        return;
    if (value && costs_nothing(value))
        vec_push(&t->anew, &o->scratch, v);
    else
        vec_push(&t->taken, &o->scratch, v);
}

/* Whether the tuple is there where the part at hand is called. */
static bool is_usable(const Frame *frame)
{
    return frame->passed && !frame->begun;
}

static void name_tuple(Outline *o, Frame *frame, Span span)
{
    if (frame->tuple)
        return;
    frame->tuple = var_of(o, "frame", NULL, span);
    if (frame->above)
        ptrmap_put(&o->frames, frame->tuple, frame->above);
}

/* Types of tuples are known at the end (set_types). */
static Expr *field_of(Outline *o, Frame *frame, Var *v, Expr *body)
{
    size_t i = (size_t)(uintptr_t)ptrmap_find(&frame->index, v);
    if (i == 0) {
        vec_push(&frame->fields, &o->scratch, v);
        i = frame->fields.n;
        ptrmap_put(&frame->index, v, (void *)(uintptr_t)i);
    }
    Expr *get =
        expr_tuple_get(&o->module->arena, v->base.span, &frame->tuple->base, (int64_t)i - 1);
    get->type = v->base.type;
    if (!get->type)
        vec_push(&o->gets, &o->scratch, ((Bound){v, get}));
    return let_of(o, v, get, body);
}

/* Tuples take the place of what comes in them. */
static Expr *take_level(Taking *t, Expr *body, bool above)
{
    Outline *o = t->o;
    PtrMap known = {0}; /* what is taken already */
    size_t n = 0;
    for (size_t i = 0; i < t->taken.n; i++)
        ptrmap_put(&known, t->taken.at[i], t);
    for (size_t i = 0; i < t->taken.n; i++) {
        Var *v = t->taken.at[i];
        Frame *frame = ptrmap_find(&o->frames, v);
        if (!frame || above == (frame->above != NULL) || !is_usable(frame)) {
            t->taken.at[n++] = v;
            continue;
        }
        name_tuple(o, frame, v->base.span);
        body = field_of(o, frame, v, body);
        if (!ptrmap_has(&known, frame->tuple))
            vec_push(&t->taken, &o->scratch, frame->tuple);
        ptrmap_put(&known, frame->tuple, t);
    }
    ptrmap_deinit(&known);
    t->taken.n = n;
    return body;
}

static Expr *call_of_part(Outline *o, Function *part, Var *name)
{
    uint32_t n = part->params.n;
    Expr **args = arena_new_array(&o->scratch, Expr *, n + 1);
    for (uint32_t i = 0; args && i < n; i++)
        args[i] = &part->params.at[i]->base;
    Expr *call =
        expr_call(&o->module->arena, part->body->span, &name->base, args ? n : 0, args, NULL);
    call->type = part->body->type;
    return block_of(o, call);
}

bool function_is_part(const Function *fn)
{
    return attrs_find(fn->attrs, "Part") != NULL;
}

/* The block as a function, and a block that calls it. */
static Expr *part(Outline *o, Expr *block)
{
    Taking t = {.o = o};
    ir_free_vars(block, take, &t);
    Expr *body = block;
    for (int above = 0; above < 2 && t.taken.n > TAKEN_MOST; above++)
        body = take_level(&t, body, above);
    for (size_t i = 0; i < t.anew.n; i++)
        body = let_of(o, t.anew.at[i], ptrmap_find(&o->values, t.anew.at[i]), body);
    const Attrs *attrs =
        attrs_with(&o->module->arena, NULL, "Part", (AttrValue){.kind = ATTR_INT, .i = 1});
    Function *fn = expr_function(&o->module->arena, block->span, (TypeVarList){0},
                                 (uint32_t)t.taken.n, t.taken.at, attrs, block->type, body);
    Var *name = var_of(o, "part", NULL, block->span);
    ptrmap_put(&o->known, name, fn);
    Let *let = expr_as_let(expr_let(&o->module->arena, block->span, name, &fn->base, block));
    vec_push(&o->home->first, &o->scratch, let);
    vec_push(&o->parts, &o->scratch, let);
    return call_of_part(o, fn, name);
}

/* ---- one node over its parts --------------------------------------------------------------------------------------- */

static void set_tuple_type(Outline *o, Var *var, Expr *e)
{
    const Tuple *tuple = expr_as_tuple(e);
    uint32_t n = tuple->fields.n;
    const Type **types = arena_new_array(&o->scratch, const Type *, n);
    for (uint32_t i = 0; types && i < n; i++)
        types[i] = tuple->fields.at[i]->type;
    e->type = var->base.type = types ? type_tuple(o->cx, n, types) : NULL;
}

/* The tuple of what later parts take. The types of tuples in tuples are known at the end. */
static Expr *bind_tuple(Outline *o, Frame *frame, Span span, Expr *body)
{
    frame->begun = true;
    if (!frame->tuple)
        return body;
    uint32_t n = (uint32_t)frame->fields.n;
    Expr **fields = arena_new_array(&o->scratch, Expr *, n);
    for (uint32_t i = 0; fields && i < n; i++)
        fields[i] = &frame->fields.at[i]->base;
    Expr *tuple = expr_tuple(&o->module->arena, span, fields ? n : 0, fields);
    if (frame->above)
        set_tuple_type(o, frame->tuple, tuple);
    else
        vec_push(&o->above, &o->scratch, ((Bound){frame->tuple, tuple}));
    return let_of(o, frame->tuple, tuple, body);
}

/* The tuple of the frame, and before it that to which it belongs, unless another of its tuples came with it. */
static Expr *bind_tuples(Outline *o, Frame *frame, Span span, Expr *body)
{
    if (!frame->above->begun)
        body = bind_tuple(o, frame->above, span, body);
    return bind_tuple(o, frame, span, body);
}

/* The tuples that are made behind the last of their lets. */
static Expr *with_tuples(Outline *o, const Let *last, Expr *body)
{
    Frame *frame = ptrmap_find(&o->ends, last);
    return frame ? bind_tuples(o, frame, last->base.span, body) : body;
}

static Expr *let_now(Outline *o, const Let *old, const Let *let)
{
    if (ptrmap_has(&o->known, let->var))
        return with_tuples(o, old, let->body);
    Expr *body = let->body;
    uint32_t rest = size_of(o, body).weight;
    if (rest >= PART_LEAST && 1 + size_of(o, let->value).weight + rest > PART_MOST)
        body = part(o, body);
    return let_of(o, let->var, let->value, with_tuples(o, old, body));
}

static Expr *if_now(Outline *o, const If *e)
{
    Expr *branch[2] = {e->then, e->otherwise};
    for (int i = 0; i < 2; i++)
        if (size_of(o, branch[i]).depth >= DEPTH_PART)
            branch[i] = part(o, branch[i]);
    Size s[2] = {size_of(o, branch[0]), size_of(o, branch[1])};
    if (s[0].weight + s[1].weight > PART_MOST) {
        int heavy = s[1].weight > s[0].weight;
        branch[heavy] = part(o, branch[heavy]);
        s[heavy] = size_of(o, branch[heavy]);
    }
    Expr *now = expr_if(&o->module->arena, e->base.span, e->cond, branch[0], branch[1]);
    now->type = e->base.type;
    set_size(o, now, (Size){2 + s[0].weight + s[1].weight, 1 + larger(s[0].depth, s[1].depth)});
    return now;
}

static uint32_t clause_weight(const Outline *o, const Clause *c)
{
    return pattern_weight(c->pattern) + size_of(o, c->body).weight;
}

static Expr *match_of(Outline *o, const Match *e, uint32_t n, const Clause *clauses)
{
    Expr *now = expr_match(&o->module->arena, e->base.span, e->scrutinee, n, clauses, e->complete);
    now->type = e->base.type;
    Size s = {0};
    for (uint32_t i = 0; i < n; i++) {
        s.weight += clause_weight(o, &clauses[i]);
        s.depth = larger(s.depth, size_of(o, clauses[i].body).depth);
    }
    s.depth++;
    set_size(o, now, s);
    return now;
}

/* Clauses are tried in their order: what the first do not take, a part with the rest does. */
static Expr *match_now(Outline *o, const Match *e)
{
    uint32_t n = e->clauses.n, weight = 0;
    Clause *clauses = arena_new_array(&o->scratch, Clause, n + 1);
    if (!clauses)
        return NULL;
    for (uint32_t i = 0; i < n; i++) {
        clauses[i] = e->clauses.at[i];
        weight += clause_weight(o, &clauses[i]);
    }
    for (uint32_t i = 0; i < n; i++) {
        Size s = size_of(o, clauses[i].body);
        if (s.depth >= DEPTH_PART || (weight > PART_MOST && s.weight >= PART_LEAST))
            clauses[i].body = part(o, clauses[i].body);
    }
    uint32_t last = 0;
    for (uint32_t i = n; i-- > 0;) {
        last += clause_weight(o, &clauses[i]);
        if (last <= PART_MOST || i + 1 == n)
            continue;
        Expr *rest = part(o, block_of(o, match_of(o, e, n - i - 1, clauses + i + 1)));
        n = i + 2;
        clauses[i + 1] =
            (Clause){pattern_wildcard(&o->module->arena, e->base.span), rest, e->base.span};
        last = clause_weight(o, &clauses[i]) + clause_weight(o, &clauses[i + 1]);
    }
    return match_of(o, e, n, clauses);
}

/* ---- functions ----------------------------------------------------------------------------------------------------- */

typedef struct Closed {
    const Outline *o;
    bool closed;
} Closed;

static void note_free(void *data, Var *v)
{
    Closed *c = data;
    c->closed &= ptrmap_find(&c->o->homes, v) != c->o->home || ptrmap_has(&c->o->known, v);
}

/* A literal that takes nothing from the large function around it is bound where that begins: parts know it there. */
static void move_literal(Outline *o, const Expr *old, Expr *now)
{
    Var *name = ptrmap_find(&o->names, old);
    if (!name || !o->home->large || ptrmap_find(&o->homes, name) != o->home)
        return;
    Closed c = {o, true};
    ptrmap_put(&o->known, name, now); /* it may call itself */
    ir_free_vars(now, note_free, &c);
    if (!c.closed) {
        ptrmap_remove(&o->known, name);
        return;
    }
    vec_push(&o->home->first, &o->scratch,
             expr_as_let(expr_let(&o->module->arena, now->span, name, now, now)));
}

static Expr *function_now(Outline *o, const Expr *old, Expr *now)
{
    Home *home = o->home;
    Function *fn = expr_as_function(now);
    Expr *body = fn->body;
    for (size_t i = home->first.n; i-- > 0;)
        body = let_of(o, home->first.at[i]->var, home->first.at[i]->value, body);
    for (size_t i = home->given.n; i-- > 0;)
        body = bind_tuples(o, home->given.at[i], now->span, body);
    if (body != fn->body) {
        fn = expr_function(&o->module->arena, now->span, fn->type_params, fn->params.n,
                           fn->params.at, fn->attrs, fn->ret_type, body);
        fn->base.type = old->type;
    }
    o->home = home->outer;
    if (o->home)
        move_literal(o, old, &fn->base);
    return &fn->base;
}

static bool enter(Rewriter *rw, const Expr *e, Expr **now)
{
    Outline *o = rw->data;
    const Function *fn = expr_as_function(e);
    if (fn && function_is_primitive(fn) && o->home) {
        *now = (Expr *)(uintptr_t)e;
        return true;
    }
    if (fn)
        o->home = ptrmap_find(&o->homes, fn);
    const Frame *frame = e->kind == EXPR_LET ? ptrmap_find(&o->frames, e) : NULL;
    for (const Frame *f = frame; f && f->before; f = f->above)
        f->before->passed = true;
    return false;
}

static Expr *node_now(Rewriter *rw, const Expr *old, Expr *now)
{
    Outline *o = rw->data;
    expr_keep_type(now, old);
    if (old->kind == EXPR_FUNCTION)
        return function_now(o, old, now);
    if (!o->home->large)
        return now;
    switch ((ExprKind)old->kind) {
    case EXPR_LET: return let_now(o, expr_as_let(old), expr_as_let(now));
    case EXPR_IF: return if_now(o, expr_as_if(now));
    case EXPR_MATCH: return match_now(o, expr_as_match(now));
    default: return now;
    }
}

/* Types that name those of tuples, which are known now. */
static void set_types(Outline *o)
{
    for (size_t i = 0; i < o->above.n; i++)
        set_tuple_type(o, o->above.at[i].var, o->above.at[i].value);
    for (size_t i = 0; i < o->gets.n; i++)
        o->gets.at[i].value->type = o->gets.at[i].var->base.type;
    for (size_t i = 0; i < o->parts.n; i++) {
        Let *let = o->parts.at[i];
        Function *fn = expr_as_function(let->value);
        const Type **types = arena_new_array(&o->scratch, const Type *, fn->params.n + 1);
        for (uint32_t k = 0; types && k < fn->params.n; k++)
            types[k] = fn->params.at[k]->base.type;
        fn->base.type = type_func(o->cx, 0, NULL, types ? fn->params.n : 0, types, fn->ret_type);
        let->var->base.type = fn->base.type;
    }
}

static Function *rewrite(Outline *o, Function *fn)
{
    Rewriter rw;
    rewriter_init(&rw, o->cx, o->module, node_now, o);
    rw.enter = enter;
    Function *now = expr_as_function(ir_rewrite(&rw, &fn->base));
    rewriter_deinit(&rw);
    if (now)
        set_types(o);
    return now;
}

Function *outline_large(Ctx *cx, Module *module, Function *fn)
{
    Outline o = {.cx = cx, .module = module};
    arena_init(&o.scratch, &cx->limits);
    ir_walk(&fn->base, note, note_end, &o);
    Function *now = o.any_large && !limit_hit(&cx->limits) ? rewrite(&o, fn) : fn;
    PtrMap *const maps[] = {&o.homes, &o.values, &o.names, &o.frames, &o.ends, &o.known, &o.sizes};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    arena_deinit(&o.scratch);
    return limit_hit(&cx->limits) ? NULL : now;
}
