#include "ir/walk.h"

#include "ir/ctx.h"

#include <string.h>

typedef struct RewriteFrame {
    Expr *e;
    size_t next;            /* of its children in `children` */
    size_t first, n;
} RewriteFrame;

void rewriter_init(Rewriter *rw, Ctx *cx, Module *module, RewriteFn *fn, void *data)
{
    *rw = (Rewriter){.cx = cx, .module = module, .fn = fn, .data = data};
    arena_init(&rw->memory, &cx->limits);
}

void rewriter_deinit(Rewriter *rw)
{
    arena_deinit(&rw->memory);
}

Expr *rewriter_now(const Rewriter *rw, const void *old)
{
    return places_value(&rw->done, old);
}

void rewriter_put(Rewriter *rw, const void *old, void *now)
{
    *places_slot(&rw->done, &rw->memory, old) = now;
}

/* Gives a finished node to the callback and remembers what came of it. */
static void finish(Rewriter *rw, const Expr *old, Expr *now)
{
    Expr *given = now;
    if (rw->fn)
        now = rw->fn(rw, old, now);
    if (rw->replaced && now && now != given)
        rw->replaced(rw->watcher, old, now);
    if (rw->most && now && now != given && *rw->most == 0)
        now = given;
    else if (rw->most && now != given)
        --*rw->most;
    if (!now) {
        rw->failed = true;
        return;
    }
    rewriter_put(rw, old, now);
}

/* ---- rebuilding one node over its finished children --------------------------------------------------------------- */

static Var *binder_now(Rewriter *rw, Var *v)
{
    if (!rewriter_now(rw, v))
        finish(rw, &v->base, &v->base);
    Var *now = expr_as_var(rewriter_now(rw, &v->base));
    return now ? now : v;
}

static Pattern *pattern_now(Rewriter *rw, Pattern *p)
{
    Arena *a = &rw->module->arena;
    if (p->kind == PATTERN_VAR) {
        Var *v = binder_now(rw, p->var);
        return v == p->var ? p : pattern_var(a, p->span, v);
    }
    Pattern *copy = NULL;
    for (uint32_t i = 0; i < p->n; i++) {
        Pattern *field = pattern_now(rw, p->fields[i]);
        if (field == p->fields[i])
            continue;
        if (!copy) {
            copy = arena_copy(a, p, sizeof *p);
            copy->fields = arena_copy(a, p->fields, p->n * sizeof *p->fields);
        }
        copy->fields[i] = field;
    }
    return copy ? copy : p;
}

static bool list_now(Rewriter *rw, ExprList *list)
{
    bool changed = false;
    for (uint32_t i = 0; i < list->n && !changed; i++)
        changed = rewriter_now(rw, list->at[i]) != list->at[i];
    if (!changed)
        return false;
    Expr **at = arena_new_array(&rw->module->arena, Expr *, list->n);
    for (uint32_t i = 0; i < list->n; i++)
        at[i] = rewriter_now(rw, list->at[i]);
    list->at = at;
    return true;
}

static bool vars_now(Rewriter *rw, VarList *list)
{
    Var **at = arena_new_array(&rw->module->arena, Var *, list->n);
    bool changed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        at[i] = binder_now(rw, list->at[i]);
        changed |= at[i] != list->at[i];
    }
    if (changed)
        list->at = at;
    return changed;
}

static bool clauses_now(Rewriter *rw, ClauseList *list)
{
    Clause *at = arena_copy(&rw->module->arena, list->at, list->n * sizeof *at);
    bool changed = false;
    for (uint32_t i = 0; i < list->n; i++) {
        at[i].pattern = pattern_now(rw, at[i].pattern);
        at[i].body = rewriter_now(rw, at[i].body);
        changed |= at[i].pattern != list->at[i].pattern || at[i].body != list->at[i].body;
    }
    if (changed)
        list->at = at;
    return changed;
}

static bool field_now(Rewriter *rw, FieldKind kind, void *at)
{
    switch (kind) {
    case FIELD_EXPR: {
        Expr **slot = at, *old = *slot;
        *slot = rewriter_now(rw, old);
        return *slot != old;
    }
    case FIELD_EXPRS: return list_now(rw, at);
    case FIELD_BINDER: {
        Var **slot = at, *old = *slot;
        *slot = binder_now(rw, old);
        return *slot != old;
    }
    case FIELD_BINDERS: return ((VarList *)at)->n && vars_now(rw, at);
    case FIELD_CLAUSES: return ((ClauseList *)at)->n && clauses_now(rw, at);
    case FIELD_TYPE:
    case FIELD_TYPES:
    case FIELD_TYPEVARS:
    case FIELD_ATTRS:
    case FIELD_VALUE:
    case FIELD_NAME:
    case FIELD_INT:
    case FIELD_BOOL:
    case FIELD_OP:
    case FIELD_CON: break;
    }
    return false;
}

typedef union NodeSpace {
    Expr base;
#define NODE(KIND, Struct, name, fields) Struct name##_node;
#define FIELD(what, name)
#include "ir/nodes.def"
#undef NODE
#undef FIELD
} NodeSpace;

/* Of a call of what turns out to be an operator: what it carried along as one of a function says nothing. */
static const Attrs *own_attrs(Rewriter *rw, const Op *op, Span span)
{
    return op->attrs ? attrs_check(rw->cx, &rw->module->arena, op->name, op->attrs, NULL, span)
                     : NULL;
}

/* The node over its rewritten children: itself when they are the same, else a copy without a type. */
static Expr *rebuild(Rewriter *rw, Expr *e)
{
    const NodeInfo *info = node_info((ExprKind)e->kind);
    NodeSpace copy;
    memcpy(&copy, e, info->size);
    bool changed = false;
    for (int i = 0; i < info->n; i++)
        changed |= field_now(rw, info->fields[i].kind, (char *)&copy + info->fields[i].offset);
    if (!changed && !rw->copying)
        return e;
    Expr *now = arena_copy(&rw->module->arena, &copy, info->size);
    now->type = NULL;
    Call *call = expr_as_call(now);
    if (call)
        call->type_args = (TypeList){0};
    if (call && expr_call_of_op(now) && !expr_call_of_op(e))
        call->attrs = own_attrs(rw, expr_call_of_op(now), now->span);
    Constant *constant = expr_as_constant(now);
    return constant ? expr_constant(&rw->module->arena, now->span, constant->value) : now;
}

/* ---- the traversal ---------------------------------------------------------------------------------------------------- */

typedef struct Rewrite {
    Rewriter *rw;
    Arena arena;
    Vec(RewriteFrame) stack;
    Vec(Expr *) children; /* of the nodes on the stack, one after the other */
} Rewrite;

static void note_child(void *data, Expr *const *slot)
{
    Rewrite *r = data;
    vec_push(&r->children, &r->arena, *slot);
}

static void enter(Rewrite *r, Expr *e)
{
    Rewriter *rw = r->rw;
    if (rewriter_now(rw, e))
        return;
    Expr *now = NULL;
    if (rw->enter && rw->enter(rw, e, &now)) {
        if (now)
            rewriter_put(rw, e, now);
        rw->failed |= !now;
        return;
    }
    RewriteFrame frame = {.e = e, .first = r->children.n, .next = r->children.n};
    ir_children(e, note_child, r);
    frame.n = r->children.n;
    vec_push(&r->stack, &r->arena, frame);
}

/* A pass may make a program that grows without end. */
#define STEPS_TO_ASK 256

Expr *ir_rewrite(Rewriter *rw, Expr *root)
{
    Rewrite r = {.rw = rw};
    unsigned steps = 0;
    arena_init(&r.arena, &rw->cx->limits);
    enter(&r, root);
    while (r.stack.n && !rw->failed) {
        if (steps++ % STEPS_TO_ASK == 0 && limit_hit(&rw->cx->limits)) {
            rw->failed = true;
            break;
        }
        RewriteFrame *top = &vec_last(&r.stack);
        if (top->next < top->n) {
            enter(&r, r.children.at[top->next++]);
            continue;
        }
        Expr *old = top->e;
        r.children.n = top->first;
        r.stack.n--;
        if (old->kind != EXPR_VAR || !rewriter_now(rw, old))
            finish(rw, old, old->kind == EXPR_VAR ? old : rebuild(rw, old));
    }
    arena_deinit(&r.arena);
    return rw->failed ? NULL : rewriter_now(rw, root);
}

Module *ir_rewrite_module(Ctx *cx, Module *m, RewriteFn *fn, void *data)
{
    Module *out = module_derive(m);
    if (!out)
        return NULL;
    Rewriter rw;
    rewriter_init(&rw, cx, out, fn, data);
    for (size_t i = 0; i < m->defs.n && !rw.failed; i++) {
        const Def *def = &m->defs.at[i];
        Expr *now = def->fn && !def->imported ? ir_rewrite(&rw, &def->fn->base) : NULL;
        Function *f = expr_as_function(now);
        if (f && f != def->fn)
            module_define(out, def->name, f, def->span, out);
    }
    if (m->expr && !rw.failed)
        out->expr = ir_rewrite(&rw, m->expr);
    bool failed = rw.failed;
    rewriter_deinit(&rw);
    if (!failed)
        return out;
    module_release(out);
    return NULL;
}

/* ---- copies ------------------------------------------------------------------------------------------------------------- */

static void fresh_binder(void *data, Var *v)
{
    Rewriter *rw = data;
    const Type *annotation = v->annotation ? type_refresh(rw->cx, v->annotation) : NULL;
    rewriter_put(rw, v, expr_var(&rw->module->arena, v->base.span, v->name, annotation));
}

/* Binders are renamed when their owner is entered, before any use of them. */
static bool enter_copy(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)now;
    ir_binders(old, fresh_binder, rw);
    return false;
}

static Expr *fresh_types(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)old;
    Function *f = expr_as_function(now);
    if (f && f->ret_type)
        f->ret_type = type_refresh(rw->cx, f->ret_type);
    return now;
}

Expr *ir_copy(Ctx *cx, Module *module, const Expr *root)
{
    Rewriter rw;
    rewriter_init(&rw, cx, module, fresh_types, NULL);
    rw.enter = enter_copy;
    rw.copying = true;
    Expr *now = ir_rewrite(&rw, (Expr *)(uintptr_t)root);
    rewriter_deinit(&rw);
    return now;
}

static Expr *put_substitute(Rewriter *rw, const Expr *old, Expr *now)
{
    Expr *with = old->kind == EXPR_VAR ? ptrmap_find(rw->data, old) : NULL;
    return with ? with : now;
}

Expr *ir_substitute(Ctx *cx, Module *module, Expr *root, const PtrMap *map)
{
    Rewriter rw;
    rewriter_init(&rw, cx, module, put_substitute, (void *)(uintptr_t)map);
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    return now;
}
