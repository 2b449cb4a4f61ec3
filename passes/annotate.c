#include "passes/annotate.h"

#include "passes/scope.h"
#include "stdlib/ops/ops.h"

#include <string.h>

Mark annotate_mark(const Expr *e, Str *target)
{
    const Op *op = expr_call_of_op(e);
    Mark mark = !op                                              ? MARK_NONE
                : !strcmp(op->name, "annotation.compiler_begin") ? MARK_BEGIN
                : !strcmp(op->name, "annotation.compiler_end")   ? MARK_END
                                                                 : MARK_NONE;
    if (mark && target)
        *target = attrs_string(expr_as_call(e)->attrs, "compiler");
    return mark;
}

Expr *annotate_with(PassRun *run, Mark mark, Expr *e, Str target)
{
    OpsMake m = {run->cx, &run->module->arena, e->span};
    AttrValue value = {.kind = ATTR_STRING, .s = target};
    value.s.ptr = arena_copy_text(m.arena, target.ptr, target.len);
    Attr attr = {.key = "compiler", .value = value};
    Expr *call =
        ops_call(&m, mark == MARK_BEGIN ? "annotation.compiler_begin" : "annotation.compiler_end",
                 1, &e, 1, &attr);
    if (call)
        call->type = e->type;
    return call;
}

/* ---- regions ---------------------------------------------------------------------------------------------------------- */

static Region *standing(Region *r)
{
    while (r && r->into) {
        if (r->into->into)
            r->into = r->into->into;
        r = r->into;
    }
    return r;
}

Region *regions_of(const Regions *r, const Expr *e)
{
    return standing(ptrmap_find(&r->of, e));
}

bool regions_fit(const Region *a, const Region *b)
{
    return str_eq(a->target, b->target) && (a->block == b->block || !a->block || !b->block);
}

static void join(MarkList **first, MarkList **last, MarkList *from, MarkList *from_last)
{
    if (!from)
        return;
    if (*last)
        (*last)->next = from;
    else
        *first = from;
    *last = from_last;
}

void regions_merge(Region *from, Region *into)
{
    join(&into->ins, &into->last_in, from->ins, from->last_in);
    join(&into->outs, &into->last_out, from->outs, from->last_out);
    into->block = into->block ? into->block : from->block;
    from->into = into;
}

static MarkList *list_of(Regions *r, const Call *mark)
{
    MarkList *l = arena_new(&r->run->scratch, MarkList);
    *l = (MarkList){.mark = mark};
    return l;
}

static Diag *report(Regions *r, const Expr *at, const char *what)
{
    r->failed = true;
    return diag_error(r->run->cx->diags, E0608_REGION, at->span, "%s", what);
}

static void begin_region(Regions *r, const Call *mark, Str target)
{
    Region *region = arena_new(&r->run->scratch, Region);
    *region = (Region){.id = (uint32_t)r->all.n, .target = target};
    region->ins = region->last_in = list_of(r, mark);
    vec_push(&r->all, &r->run->scratch, region);
    ptrmap_put(&r->of, mark, region);
}

static void end_region(Regions *r, const Call *mark, Str target)
{
    Region *region = regions_of(r, mark->args.at[0]);
    if (!region || !str_eq(region->target, target)) {
        Diag *d = report(r, &mark->base, "this ends a region that does not begin");
        diag_help(d, "mark what goes into it: `annotation.compiler_begin(…, compiler=\"%.*s\")`",
                  (int)target.len, target.ptr);
        return;
    }
    MarkList *out = list_of(r, mark);
    join(&region->outs, &region->last_out, out, out);
    ptrmap_put(&r->of, mark, region);
}

/* A node over such parts stands in their region. */
static void add_node(Regions *r, const Expr *e, uint32_t n, Expr *const *parts)
{
    ScopeNode *node = scopes_node(&r->scopes, e);
    Region *region = NULL;
    const Expr *outside = NULL;
    for (uint32_t i = 0; i < n; i++) {
        Region *of = annotate_mark(parts[i], NULL) == MARK_END ? NULL : regions_of(r, parts[i]);
        if (!of) {
            outside = parts[i];
        } else if (!region) {
            region = of;
        } else if (of != region && regions_fit(of, region)) {
            regions_merge(of, region);
        } else if (of != region) {
            report(r, e, "this has parts of several regions that are not one");
            return;
        }
    }
    if (!region)
        return;
    if (outside || !node || (region->block && region->block != node->block)) {
        Diag *d = report(r, e,
                         outside ? "this has parts in a region and others that are in none"
                                 : "a region reaches into another block");
        if (outside)
            diag_label(d, outside->span, "in none");
        diag_help(d, "mark each part of it by `annotation.compiler_begin(…, compiler=\"%.*s\")`",
                  (int)region->target.len, region->target.ptr);
        return;
    }
    region->block = node->block;
    ptrmap_put(&r->of, e, region);
}

static WalkNext look(void *data, const Expr *e)
{
    Regions *r = data;
    Str target;
    const Call *call = expr_as_call(e);
    Mark mark = annotate_mark(e, &target);
    vec_push(&r->order, &r->run->scratch, e);
    if (mark == MARK_BEGIN)
        begin_region(r, call, target);
    else if (mark == MARK_END)
        end_region(r, call, target);
    else if (call)
        add_node(r, e, call->args.n, call->args.at);
    else if (e->kind == EXPR_TUPLE)
        add_node(r, e, expr_as_tuple(e)->fields.n, expr_as_tuple(e)->fields.at);
    else if (e->kind == EXPR_TUPLE_GET)
        add_node(r, e, 1, &expr_as_tuple_get(e)->tuple);
    else if (e->kind == EXPR_REF_NEW)
        add_node(r, e, 1, &expr_as_ref_new(e)->value);
    else if (e->kind == EXPR_REF_READ)
        add_node(r, e, 1, &expr_as_ref_read(e)->ref);
    else if (e->kind == EXPR_REF_WRITE)
        add_node(r, e, 2, (Expr *[]){expr_as_ref_write(e)->ref, expr_as_ref_write(e)->value});
    return r->failed ? WALK_STOP : WALK_ON;
}

bool regions_init(Regions *r, PassRun *run, const Function *f)
{
    *r = (Regions){.run = run};
    return scopes_init_with_lets(&r->scopes, run->cx, f->body) && ir_walk(&f->base, NULL, look, r);
}

void regions_deinit(Regions *r)
{
    scopes_deinit(&r->scopes);
    ptrmap_deinit(&r->of);
}
