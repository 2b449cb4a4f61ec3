/* Puts parts of a program that have a given shape into functions, each of which stands for one operator of an external back end.
 *
 *     nn.relu(add(%x, %y))                     with patterns=[["acc.add_relu", "nn.relu(add($a, $b))"]]
 *  => %0 = fn (%a, %b, PartitionedFromPattern="add_nn.relu_", Composite="acc.add_relu") { nn.relu(add(%a, %b)) };  %0(%x, %y)
 *
 * The rows of the table go one after the other over each function, from its result downwards. A part is taken when nothing in it
 * belongs to another and nothing but its result is used elsewhere; a value inside may be used on the way to the part itself, and is
 * then computed there once more. */
#include "passes/motif.h"
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/op.h"

#include <stdio.h>

typedef struct Users {
    Vec(const Expr *) at;
} Users;

typedef struct Merge Merge;

typedef struct Part {
    Merge *merge;
    Expr *root;
    Vec(Expr *) args;
    Vec(Var *) params;
    PtrMap inputs; /* node -> Var: the last of its parameters */
    PtrMap nodes; /* what stands in it */
    Vec(const Expr *) order; /* the same, operands first */
    Buf name; /* of the operators, in that order */
    Function *fn;
} Part;

struct Merge {
    PassRun *run;
    const char *composite;
    Vec(Expr *) order; /* of evaluation */
    PtrMap users; /* node -> Users */
    PtrMap made; /* what stands in a part, or in a function that was one before -> NULL */
    PtrMap parts; /* root -> Part */
    unsigned number;
};

/* ---- the function at hand --------------------------------------------------------------------------------------------- */

typedef struct Use {
    Merge *merge;
    const Expr *user;
} Use;

static void note_use(void *data, Expr *const *slot)
{
    Use *use = data;
    Arena *arena = &use->merge->run->scratch;
    void **at = ptrmap_slot(&use->merge->users, *slot);
    if (!at)
        return;
    Users *users = *at = *at ? *at : arena_new(arena, Users);
    vec_push(&users->at, arena, use->user);
}

static WalkNext note_node(void *data, const Expr *e)
{
    Merge *m = data;
    Use use = {m, e};
    vec_push(&m->order, &m->run->scratch, (Expr *)(uintptr_t)e);
    ir_children(e, note_use, &use);
    return WALK_ON;
}

static WalkNext note_made(void *data, const Expr *e)
{
    ptrmap_put(data, e, NULL);
    return WALK_ON;
}

/* Whatever is computed from `from` reaches the root, and nothing else. */
static bool flows_into(Merge *m, const Expr *from, const Expr *root)
{
    Vec(const Expr *) todo = {0};
    PtrMap seen = {0};
    bool all = true;
    vec_push(&todo, &m->run->scratch, from);
    while (all && todo.n) {
        const Expr *e = vec_pop(&todo);
        const Users *users = ptrmap_find(&m->users, e);
        if (e == root || ptrmap_has(&seen, e))
            continue;
        ptrmap_put(&seen, e, NULL);
        all = users != NULL;
        for (size_t i = 0; all && i < users->at.n; i++)
            vec_push(&todo, &m->run->scratch, users->at.at[i]);
    }
    ptrmap_deinit(&seen);
    return all;
}

/* ---- a part ----------------------------------------------------------------------------------------------------------- */

static void note_leaf(void *data, Expr *e)
{
    Part *p = data;
    PassRun *run = p->merge->run;
    char text[64];
    snprintf(text, sizeof text, "FunctionVar_%u_%zu", p->merge->number, p->params.n);
    Var *v = expr_var(&run->module->arena, e->span, ctx_name(run->cx, text), e->type);
    vec_push(&p->args, &run->scratch, e);
    vec_push(&p->params, &run->scratch, v);
    ptrmap_put(&p->inputs, e, v);
}

static WalkNext note_inside(void *data, const Expr *e)
{
    Part *p = data;
    if (ptrmap_has(&p->inputs, e))
        return WALK_SKIP;
    ptrmap_put(&p->nodes, e, NULL);
    return WALK_ON;
}

static WalkNext name_node(void *data, const Expr *e)
{
    Part *p = data;
    const Op *op = expr_call_of_op(e);
    const TupleGet *get = expr_as_tuple_get(e);
    vec_push(&p->order, &p->merge->run->scratch, e);
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: buf_printf(&p->name, "%s_", op ? op->name : "FunctionCall"); break;
    case EXPR_TUPLE: buf_printf(&p->name, "Tuple_"); break;
    case EXPR_TUPLE_GET: buf_printf(&p->name, "TupleGetItem%lld_", (long long)get->index); break;
    case EXPR_LET: buf_printf(&p->name, "Let_"); break;
    case EXPR_IF: buf_printf(&p->name, "If_"); break;
    case EXPR_MATCH: buf_printf(&p->name, "Match_"); break;
    case EXPR_REF_NEW: buf_printf(&p->name, "RefCreate_"); break;
    case EXPR_REF_READ: buf_printf(&p->name, "RefRead_"); break;
    case EXPR_REF_WRITE: buf_printf(&p->name, "RefWrite_"); break;
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_FUNCTION:
    case EXPR_KINDS: break;
    }
    return WALK_ON;
}

/* What may be computed twice. */
static bool may_repeat(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    return op ? !(op->flags & OP_STATEFUL) : e->kind == EXPR_TUPLE || e->kind == EXPR_TUPLE_GET;
}

/* Nothing inside belongs to another part, and what is used outside flows back into the root. */
static bool is_whole(Merge *m, const Part *p)
{
    for (size_t i = 0; i < p->order.n; i++) {
        const Expr *e = p->order.at[i];
        const Users *users = ptrmap_find(&m->users, e);
        if (e->kind == EXPR_OP || e->kind == EXPR_FUNCTION || e->kind == EXPR_CONSTANT)
            continue;
        if (ptrmap_has(&m->made, e))
            return false;
        for (size_t k = 0; e != p->root && users && k < users->at.n; k++)
            if (!ptrmap_has(&p->nodes, users->at.at[k]) &&
                !(may_repeat(e) && flows_into(m, users->at.at[k], p->root)))
                return false;
    }
    return true;
}

/* The function that stands for the part: a copy of it over parameters. */
static Function *make_function(Merge *m, Part *p)
{
    PassRun *run = m->run;
    Arena *arena = &run->module->arena;
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, NULL, NULL);
    for (size_t i = 0; i < p->args.n; i++)
        rewriter_put(&rw, p->args.at[i], ptrmap_find(&p->inputs, p->args.at[i]));
    Expr *body = ir_rewrite(&rw, p->root);
    rewriter_deinit(&rw);
    if (!body)
        return NULL;
    AttrValue name = {.kind = ATTR_STRING, .s = str_of(buf_text(&p->name))};
    AttrValue composite = {.kind = ATTR_STRING, .s = str_of(m->composite)};
    name.s.ptr = arena_copy_text(arena, name.s.ptr, name.s.len);
    const Attrs *attrs = attrs_with(arena, NULL, "PartitionedFromPattern", name);
    attrs = attrs_with(arena, attrs, "Composite", composite);
    Function *f = expr_function(arena, p->root->span, (TypeVarList){0}, (uint32_t)p->params.n,
                                p->params.at, attrs, p->root->type, body);
    return expr_as_function(ir_copy(run->cx, run->module, &f->base));
}

static bool take_part(Merge *m, MotifSearch *search, Expr *root)
{
    Part *p = arena_new(&m->run->scratch, Part);
    *p = (Part){.merge = m, .root = root};
    motif_leaves(search, note_leaf, p);
    ir_walk(root, note_inside, name_node, p);
    m->number++;
    bool whole = is_whole(m, p);
    p->fn = whole ? make_function(m, p) : NULL;
    if (p->fn)
        ptrmap_put(&m->parts, root, p);
    for (size_t i = 0; p->fn && i < p->order.n; i++)
        ptrmap_put(&m->made, p->order.at[i], NULL);
    ptrmap_deinit(&p->inputs);
    ptrmap_deinit(&p->nodes);
    buf_deinit(&p->name);
    return !whole || p->fn;
}

/* ---- the pass --------------------------------------------------------------------------------------------------------- */

static Expr *put_part(Rewriter *rw, const Expr *old, Expr *now)
{
    Merge *m = rw->data;
    Part *p = ptrmap_find(&m->parts, old);
    expr_keep_type(now, old);
    if (!p)
        return now;
    for (size_t i = 0; i < p->args.n; i++) {
        Expr *arg = rewriter_now(rw, p->args.at[i]);
        p->args.at[i] = arg ? arg : p->args.at[i];
    }
    Expr *call = expr_call(&rw->module->arena, old->span, &p->fn->base, (uint32_t)p->args.n,
                           p->args.at, NULL);
    call->type = old->type;
    return call;
}

static bool may_be_part(const Expr *e)
{
    return e->kind == EXPR_CALL || e->kind == EXPR_TUPLE || e->kind == EXPR_TUPLE_GET;
}

static bool find_parts(Merge *m, const Motif *motif)
{
    MotifSearch *search = motif_search(m->run->cx, &m->run->scratch, motif);
    for (size_t i = m->order.n; i--;) {
        Expr *e = m->order.at[i];
        const Function *f = expr_as_function(e);
        if (limit_hit(&m->run->cx->limits))
            return false;
        if (ptrmap_has(&m->made, e))
            continue;
        if (f && attrs_find(f->attrs, "PartitionedFromPattern"))
            ir_walk(e, note_made, NULL, &m->made);
        else if (may_be_part(e) && motif_matches(search, e) && !take_part(m, search, e))
            return false;
    }
    return true;
}

static Expr *merge_row(PassRun *run, Expr *root, const AttrValue *row, const Motif *motif)
{
    Merge m = {.run = run, .composite = row->list.at[0].s.ptr};
    Expr *now = NULL;
    m.composite = arena_copy_text(&run->module->arena, m.composite, row->list.at[0].s.len);
    ir_walk(root, NULL, note_node, &m);
    if (find_parts(&m, motif)) {
        Rewriter rw;
        pass_rewriter_init(&rw, run, put_part, &m);
        now = ir_rewrite(&rw, root);
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&m.users);
    ptrmap_deinit(&m.made);
    ptrmap_deinit(&m.parts);
    return now;
}

static Function *merge(PassRun *run, const Def *def)
{
    const AttrValue *table = attrs_find(run->params, "patterns");
    Span where = attrs_get(run->params, "patterns", 0)->span;
    Expr *now = &def->fn->base;
    for (uint32_t i = 0; now && i < table->list.n; i++) {
        const AttrValue *row = &table->list.at[i];
        if (row->list.n != 2) {
            Diag *d = diag_error(run->cx->diags, E0603_PIPELINE, where,
                                 "a row of `patterns` has a name and a pattern, and no more");
            diag_help(d, "for instance `[\"acc.relu\", \"nn.relu($x)\"]`");
            return NULL;
        }
        const Motif *motif = motif_parse(run->cx, &run->scratch, row->list.at[1].s, where);
        now = motif ? merge_row(run, now, row, motif) : NULL;
    }
    /* Calls of parts have their types, so that later rows see them, and the parts have none yet: all are inferred again. */
    if (now && now != &def->fn->base)
        now = ir_copy(run->cx, run->module, now);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"patterns", ATTR_TYPE_STRING_LISTS, .otherwise = {.kind = ATTR_LIST},
     .doc = "names of composite functions and the patterns that they are made of, in order"},
    {0},
};

const Pass pass_merge_composite = {
    .name = "MergeComposite",
    .doc = "Puts parts that match a pattern into functions with `Composite`.",
    .opt_level = 0,
    .needs_types = true,
    .order = ORDER_SEVERAL,
    .params = params,
    .function = merge,
};
