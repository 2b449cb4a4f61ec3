/* Says of every value on which device it is, and copies values where they are needed elsewhere.
 *
 *     subtract(on_device(add(%a, %b), virtual_device="cpu:0"), %c)            with default="cuda:0"
 *  => %0 = on_device(add(%a, %b), virtual_device="cpu:0", constrain_result=True);
 *     subtract(device_copy(%0, src_virtual_device="cpu:0", dst_virtual_device="cuda:0"), %c)
 *
 * What a call takes and gives is on one device, and so are a variable and its value, a choice and its branches; a function has a
 * device for each parameter and its result. `on_device` says it of its argument alone, with constrain_result=True of itself as well.
 * What nothing says anything about is on the default device. */
#include "passes/pass.h"
#include "passes/types.h"

#include "ir/device.h"
#include "ir/op.h"
#include "stdlib/ops/ops.h"

#include <string.h>

/* Where a value is; a function has places for what it takes and gives. */
typedef struct Place Place;
struct Place {
    Place *same; /* as that one; NULL: it stands for itself */
    Str device;  /* "": not known */
    uint32_t n;
    uint32_t seen; /* by the search of that number */
    Place **params;
    Place *result; /* NULL: no function */
};

typedef struct Plan {
    PassRun *run;
    PtrMap places;  /* node -> Place */
    PtrMap globals; /* name -> Place of the function */
    PtrMap params;  /* Var -> NULL: parameters of functions */
    Str fallback;
    uint32_t searches;
    bool failed;
} Plan;

static Place *standing(Place *p)
{
    while (p->same) {
        if (p->same->same)
            p->same = p->same->same;
        p = p->same;
    }
    return p;
}

/* ---- places ------------------------------------------------------------------------------------------------------------ */

static Place *new_place(Plan *p, const Type *t)
{
    Place *place = arena_new(&p->run->scratch, Place);
    *place = (Place){.n = 0};
    t = t ? type_find(t) : NULL;
    if (!t || t->kind != TYPE_FUNC)
        return place;
    place->n = t->n;
    place->params = arena_new_array(&p->run->scratch, Place *, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++)
        place->params[i] = new_place(p, t->parts[i]);
    place->result = new_place(p, t->result);
    return place;
}

static const Expr *without_mark(const Expr *e);

static Place *place_of(Plan *p, const Expr *e)
{
    const GlobalVar *g = expr_as_global(e);
    void **slot = g ? ptrmap_slot(&p->globals, g->name) : ptrmap_slot(&p->places, e);
    if (slot && !*slot)
        *slot = new_place(p, e->type);
    return slot ? standing(*slot) : new_place(p, NULL);
}

/* The place of what a function gives, at last; of anything else its own. */
static Place *last_place(Place *place)
{
    for (place = standing(place); place->result;)
        place = standing(place->result);
    return place;
}

static Str without_scope(Str device)
{
    const char *slash = device.len ? memchr(device.ptr, '/', device.len) : NULL;
    return slash ? (Str){device.ptr, (size_t)(slash - device.ptr)} : device;
}

static void set_device(Plan *p, Place *place, Str device, const Expr *at)
{
    place = last_place(place);
    if (!device.len || str_eq(place->device, device))
        return;
    /* A device says less than one with the scope of memory. */
    if (!place->device.len || str_eq(place->device, without_scope(device))) {
        place->device = device;
        return;
    }
    if (p->failed || str_eq(without_scope(place->device), device))
        return;
    p->failed = true;
    Diag *d = diag_error(p->run->cx->diags, E0609_DEVICES, at->span,
                         "this would have to be on `%.*s` and on `%.*s`", (int)place->device.len,
                         place->device.ptr, (int)device.len, device.ptr);
    diag_help(d, "put it on one of them, and `device_copy(…)` where it is needed on the other");
}

static void unify(Plan *p, Place *a, Place *b, const Expr *at);

/* All that a function takes and gives is where `b` is. */
static void collapse(Plan *p, Place *a, Place *b, const Expr *at)
{
    Place *result = a->result;
    for (uint32_t i = 0; i < a->n; i++)
        unify(p, a->params[i], b, at);
    unify(p, result, b, at);
}

static bool is_part(const Plan *p, Place *part, Place *of)
{
    of = standing(of);
    if (of == part || !of->result || of->seen == p->searches)
        return of == part;
    of->seen = p->searches;
    for (uint32_t i = 0; i < of->n; i++)
        if (is_part(p, part, of->params[i]))
            return true;
    return is_part(p, part, of->result);
}

/* A polymorphic function that is called with functions has the places of all these calls, so one that `a` takes or gives may come to be
 * `a` itself. */
static bool are_parts(Plan *p, Place *a, Place *b)
{
    p->searches++;
    if (is_part(p, a, b))
        return true;
    p->searches++;
    return is_part(p, b, a);
}

/* Functions of different types meet where a `match` of one gives another. */
static void unify(Plan *p, Place *a, Place *b, const Expr *at)
{
    a = standing(a);
    b = standing(b);
    if (a == b)
        return;
    if (!a->result && !b->result) {
        Str device = a->device;
        a->same = b;
        set_device(p, b, device, at);
    } else if (!a->result) {
        collapse(p, b, a, at);
    } else if (!b->result) {
        collapse(p, a, b, at);
    } else if (a->n != b->n || are_parts(p, a, b)) {
        Place *all = last_place(b);
        collapse(p, a, all, at);
        collapse(p, b, all, at);
    } else {
        a->same = b;
        for (uint32_t i = 0; i < a->n && i < b->n; i++)
            unify(p, a->params[i], b->params[i], at);
        unify(p, a->result, b->result, at);
    }
}

static void same_place(Plan *p, const Expr *a, const Expr *b)
{
    unify(p, place_of(p, a), place_of(p, b), a);
}

/* ---- what is known ------------------------------------------------------------------------------------------------------ */

typedef enum Role { ROLE_NONE, ROLE_ON_DEVICE, ROLE_COPY, ROLE_LOWERED } Role;

static Role role_of(const Expr *e)
{
    const Op *op = expr_call_of_op(e);
    return !op                                 ? ROLE_NONE
           : !strcmp(op->name, "on_device")    ? ROLE_ON_DEVICE
           : !strcmp(op->name, "device_copy")  ? ROLE_COPY
           : !strcmp(op->name, "call_lowered") ? ROLE_LOWERED
                                               : ROLE_NONE;
}

static Str device_attr(Plan *p, const Attrs *a, const char *key)
{
    return device_of_attr(&p->run->module->arena, attrs_find(a, key));
}

static const Expr *without_mark(const Expr *e)
{
    while (role_of(e) == ROLE_ON_DEVICE)
        e = expr_as_call(e)->args.at[0];
    return e;
}

static void look_at_mark(Plan *p, const Call *call)
{
    const Expr *of = call->args.at[0];
    Str device = device_attr(p, call->attrs, "virtual_device");
    bool function = place_of(p, of)->result != NULL;
    if (attrs_bool(call->attrs, "constrain_body"))
        set_device(p, place_of(p, of), device, &call->base);
    if (attrs_bool(call->attrs, "constrain_result"))
        set_device(p, place_of(p, &call->base), device, &call->base);
    if (function || !attrs_bool(call->attrs, "constrain_body"))
        same_place(p, &call->base, of);
}

static void look_at_call(Plan *p, const Call *call)
{
    const Expr *e = &call->base;
    const Function *f = expr_as_function(call->callee);
    const Tuple *args = call->args.n == 2 ? expr_as_tuple(call->args.at[1]) : NULL;
    Role role = role_of(e);
    if (role == ROLE_ON_DEVICE) {
        look_at_mark(p, call);
    } else if (role == ROLE_COPY) {
        set_device(p, place_of(p, call->args.at[0]),
                   device_attr(p, call->attrs, "src_virtual_device"), e);
        set_device(p, place_of(p, e), device_attr(p, call->attrs, "dst_virtual_device"), e);
    } else if (role == ROLE_LOWERED && args) {
        Place *callee = place_of(p, call->args.at[0]);
        if (callee->result)
            unify(p, callee->result, place_of(p, e), e);
    } else if (call->callee->kind == EXPR_OP || call->callee->kind == EXPR_CON ||
               (f && function_is_primitive(f))) {
        for (uint32_t i = 0; i < call->args.n; i++)
            same_place(p, e, call->args.at[i]);
    } else {
        Place *callee = place_of(p, call->callee);
        for (uint32_t i = 0; i < call->args.n; i++)
            unify(p, callee->result ? callee->params[i] : callee, place_of(p, call->args.at[i]), e);
        unify(p, callee->result ? callee->result : callee, place_of(p, e), e);
    }
}

static void look_at_function(Plan *p, const Function *f)
{
    Place *place = place_of(p, &f->base);
    if (!place->result || function_is_primitive(f))
        return;
    for (uint32_t i = 0; i < f->params.n; i++) {
        Var *v = f->params.at[i];
        ptrmap_put(&p->params, v, NULL);
        unify(p, place->params[i], place_of(p, &v->base), &v->base);
        set_device(p, place_of(p, &v->base), device_attr(p, v->attrs, "virtual_device"), &v->base);
    }
    /* A body that is marked may be copied to where the result is. */
    unify(p, place->result, place_of(p, f->body), &f->base);
    set_device(p, place->result, device_attr(p, f->attrs, "virtual_device"), &f->base);
}

static void look_at_pattern(Plan *p, const Pattern *pattern, const Expr *of)
{
    if (pattern->var)
        unify(p, place_of(p, &pattern->var->base), place_of(p, of), of);
    for (uint32_t i = 0; i < pattern->n; i++)
        look_at_pattern(p, pattern->fields[i], of);
}

typedef struct Parts {
    Plan *plan;
    const Expr *of;
} Parts;

static void same_as_part(void *data, Expr *const *slot)
{
    Parts *parts = data;
    same_place(parts->plan, parts->of, *slot);
}

static WalkNext look(void *data, const Expr *e)
{
    Plan *p = data;
    Parts parts = {p, e};
    const Let *let = expr_as_let(e);
    const Match *match = expr_as_match(e);
    const TupleGet *get = expr_as_tuple_get(e);
    if (e->kind == EXPR_CALL) {
        look_at_call(p, expr_as_call(e));
    } else if (e->kind == EXPR_FUNCTION) {
        look_at_function(p, expr_as_function(e));
    } else if (let) {
        same_place(p, &let->var->base, let->value);
        same_place(p, &let->var->base, without_mark(let->value));
        same_place(p, e, let->body);
    } else if (get) {
        same_place(p, e, without_mark(get->tuple));
    } else {
        ir_children(e, same_as_part, &parts);
    }
    for (uint32_t i = 0; match && i < match->clauses.n; i++)
        look_at_pattern(p, match->clauses.at[i].pattern, match->scrutinee);
    return p->failed ? WALK_STOP : WALK_ON;
}

/* ---- where it stands ------------------------------------------------------------------------------------------------------ */

static Str device_of_place(Plan *p, Place *place)
{
    Str device = last_place(place)->device;
    return device.len ? device : p->fallback;
}

static Str device_of(Plan *p, const Expr *e)
{
    return device_of_place(p, place_of(p, without_mark(e)));
}

static Attr device_attr_of(Plan *p, const char *key, Str device)
{
    AttrValue v = {.kind = ATTR_STRING, .s = device};
    v.s.ptr = arena_copy_text(&p->run->module->arena, device.ptr, device.len);
    return (Attr){.key = key, .value = v};
}

/* What is bound or a function says where it is itself. */
static Expr *mark(Plan *p, Expr *e, Str device)
{
    const Call *call = expr_as_call(e);
    bool marked = role_of(e) == ROLE_ON_DEVICE &&
                  str_eq(device_attr(p, call->attrs, "virtual_device"), device);
    if (marked || e->kind == EXPR_VAR || e->kind == EXPR_GLOBAL || e->kind == EXPR_OP ||
        e->kind == EXPR_CON || e->kind == EXPR_FUNCTION)
        return e;
    OpsMake m = {p->run->cx, &p->run->module->arena, e->span};
    Attr attrs[2] = {device_attr_of(p, "virtual_device", device),
                     ops_attr_bool("constrain_result", true)};
    Expr *on = ops_call(&m, "on_device", 1, &e, 2, attrs);
    on->type = e->type;
    return on;
}

static Expr *copy(Plan *p, Expr *e, Str from, Str to)
{
    OpsMake m = {p->run->cx, &p->run->module->arena, e->span};
    Attr attrs[2] = {device_attr_of(p, "src_virtual_device", from),
                     device_attr_of(p, "dst_virtual_device", to)};
    Expr *copied = ops_call(&m, "device_copy", 1, &e, 2, attrs);
    copied->type = e->type;
    return copied;
}

/* A value that is on `from` and is needed on `to`, where everything is on `around` that does not say otherwise. */
static Expr *bring(Plan *p, Str around, Str to, Str from, Expr *e)
{
    bool function = e->type && type_find(e->type)->kind == TYPE_FUNC;
    if (e->kind == EXPR_OP || e->kind == EXPR_CON || function)
        return e;
    if (!str_eq(from, to)) {
        if (!str_eq(from, around))
            e = mark(p, e, from);
        e = copy(p, e, from, to);
    }
    return str_eq(to, around) ? e : mark(p, e, to);
}

static Expr *bring_part(Plan *p, const Expr *of, const Expr *old, Expr *now)
{
    Str to = device_of(p, of);
    return bring(p, to, to, device_of(p, old), now);
}

static Expr *put_call(Plan *p, const Call *old, const Call *now)
{
    Arena *arena = &p->run->module->arena;
    Role role = role_of(&old->base);
    Expr *first = now->args.n ? now->args.at[0] : NULL;
    if (role == ROLE_ON_DEVICE)
        return first;
    if (role == ROLE_COPY) {
        Str from = device_attr(p, old->attrs, "src_virtual_device");
        Str to = device_attr(p, old->attrs, "dst_virtual_device");
        return str_eq(from, to) ? first : bring(p, to, to, from, first);
    }
    const Function *f = expr_as_function(old->callee);
    Place *callee = old->callee->kind == EXPR_OP || old->callee->kind == EXPR_CON ||
                            (f && function_is_primitive(f))
                        ? NULL
                        : place_of(p, old->callee);
    Str around = device_of(p, &old->base);
    Expr **args = arena_copy(&p->run->scratch, now->args.at, now->args.n * sizeof *args);
    for (uint32_t i = 0; i < now->args.n && role != ROLE_LOWERED; i++) {
        Str to = callee && callee->result ? device_of_place(p, callee->params[i]) : around;
        args[i] = bring(p, around, to, device_of(p, old->args.at[i]), args[i]);
    }
    Expr *e = expr_call(arena, now->base.span, now->callee, now->args.n, args, now->attrs);
    expr_as_call(e)->type_args = old->type_args;
    return e;
}

static Expr *put_function(Plan *p, const Function *old, const Function *now)
{
    Arena *arena = &p->run->module->arena;
    Place *place = place_of(p, &old->base);
    if (function_is_primitive(old) || !place->result)
        return (Expr *)(uintptr_t)&now->base;
    Str to = device_of_place(p, place->result);
    Expr *body = bring(p, to, to, device_of(p, old->body), now->body);
    const Attrs *attrs =
        attrs_with(arena, now->attrs, "virtual_device", device_attr_of(p, "", to).value);
    return &expr_function(arena, now->base.span, now->type_params, now->params.n, now->params.at,
                          attrs, now->ret_type, body)
                ->base;
}

static Expr *put_param(Plan *p, Var *old)
{
    Arena *arena = &p->run->module->arena;
    Attr attr = device_attr_of(p, "virtual_device", device_of(p, &old->base));
    Var *v = expr_var(arena, old->base.span, old->name, old->annotation);
    v->attrs = attrs_with(arena, old->attrs, attr.key, attr.value);
    return &v->base;
}

/* A value that is bound always says where it is. */
static Expr *put_let(Plan *p, const Let *old, const Let *now)
{
    Str nowhere = {"", 0}, at = device_of(p, old->value);
    Expr *value = bring(p, nowhere, at, at, now->value);
    Expr *body = bring_part(p, &old->base, old->body, now->body);
    return expr_let(&p->run->module->arena, now->base.span, now->var, value, body);
}

static Expr *put_parts(Plan *p, const Expr *old, Expr *now)
{
    Arena *arena = &p->run->module->arena;
    const If *i = expr_as_if(now), *was_if = expr_as_if(old);
    const Tuple *t = expr_as_tuple(now), *was_tuple = expr_as_tuple(old);
    const Match *m = expr_as_match(now), *was_match = expr_as_match(old);
    if (i)
        return expr_if(arena, now->span, bring_part(p, old, was_if->cond, i->cond),
                       bring_part(p, old, was_if->then, i->then),
                       bring_part(p, old, was_if->otherwise, i->otherwise));
    if (t) {
        Expr **fields = arena_copy(&p->run->scratch, t->fields.at, t->fields.n * sizeof *fields);
        for (uint32_t k = 0; k < t->fields.n; k++)
            fields[k] = bring_part(p, old, was_tuple->fields.at[k], fields[k]);
        return expr_tuple(arena, now->span, t->fields.n, fields);
    }
    if (old->kind == EXPR_REF_NEW)
        return expr_ref_new(
            arena, now->span,
            bring_part(p, old, expr_as_ref_new(old)->value, expr_as_ref_new(now)->value));
    if (old->kind == EXPR_REF_READ)
        return expr_ref_read(
            arena, now->span,
            bring_part(p, old, expr_as_ref_read(old)->ref, expr_as_ref_read(now)->ref));
    if (old->kind == EXPR_REF_WRITE) {
        const RefWrite *was = expr_as_ref_write(old), *w = expr_as_ref_write(now);
        return expr_ref_write(arena, now->span, bring_part(p, old, was->ref, w->ref),
                              bring_part(p, old, was->value, w->value));
    }
    if (!m)
        return now;
    Clause *clauses = arena_copy(arena, m->clauses.at, m->clauses.n * sizeof *clauses);
    for (uint32_t k = 0; k < m->clauses.n; k++)
        clauses[k].body = bring_part(p, old, was_match->clauses.at[k].body, clauses[k].body);
    return expr_match(arena, now->span, bring_part(p, old, was_match->scrutinee, m->scrutinee),
                      m->clauses.n, clauses, m->complete);
}

static Expr *put(Rewriter *rw, const Expr *old, Expr *now)
{
    Plan *p = rw->data;
    Expr *e = now;
    if (old->kind == EXPR_VAR)
        e = ptrmap_has(&p->params, old) ? put_param(p, expr_as_var(now)) : now;
    else if (old->kind == EXPR_CALL)
        e = put_call(p, expr_as_call(old), expr_as_call(now));
    else if (old->kind == EXPR_FUNCTION)
        e = put_function(p, expr_as_function(old), expr_as_function(now));
    else if (old->kind == EXPR_LET)
        e = put_let(p, expr_as_let(old), expr_as_let(now));
    else
        e = put_parts(p, old, now);
    if (!e->type)
        e->type = old->type;
    return e;
}

static bool leave_primitive(Rewriter *rw, const Expr *old, Expr **now)
{
    (void)rw;
    const Function *f = expr_as_function(old);
    *now = (Expr *)(uintptr_t)old;
    return f && function_is_primitive(f);
}

static WalkNext skip_primitive(void *data, const Expr *e)
{
    (void)data;
    const Function *f = expr_as_function(e);
    return f && function_is_primitive(f) ? WALK_SKIP : WALK_ON;
}

/* ---- the pass -------------------------------------------------------------------------------------------------------------- */

static bool is_planned(const Def *def)
{
    return def->fn && !def->imported && !function_is_skipped(def->fn) &&
           !function_is_primitive(def->fn);
}

static bool look_at_all(Plan *p, Module *old)
{
    for (size_t i = 0; i < old->defs.n && !p->failed; i++) {
        const Def *def = &old->defs.at[i];
        if (!is_planned(def))
            continue;
        ptrmap_put(&p->globals, def->name, place_of(p, &def->fn->base));
    }
    for (size_t i = 0; i < old->defs.n && !p->failed; i++)
        if (is_planned(&old->defs.at[i]))
            ir_walk(&old->defs.at[i].fn->base, skip_primitive, look, p);
    return !p->failed;
}

static bool plan(PassRun *run, Module *old)
{
    Plan p = {.run = run, .fallback = attrs_string(run->params, "default")};
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, put, &p);
    rw.enter = leave_primitive;
    bool good = look_at_all(&p, old);
    for (size_t i = 0; i < old->defs.n && good; i++) {
        const Def *def = &old->defs.at[i];
        Expr *now = is_planned(def) ? ir_rewrite(&rw, &def->fn->base) : NULL;
        good = now || !is_planned(def);
        if (now)
            module_define(run->module, def->name, expr_as_function(now), def->span, run->module);
    }
    rewriter_deinit(&rw);
    ptrmap_deinit(&p.places);
    ptrmap_deinit(&p.globals);
    ptrmap_deinit(&p.params);
    return good;
}

static const OpAttr params[] = {
    {"default", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("cpu:0"),
     .names = ATTR_NAMES_DEVICES, .doc = "the device of what nothing else says"},
    {"targets", ATTR_TYPE_STRINGS, .otherwise = {.kind = ATTR_LIST},
     .names = ATTR_NAMES_DEVICE_KINDS, .doc = "the kinds of devices that there are"},
    {"host", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("cpu:0"),
     .names = ATTR_NAMES_DEVICES, .doc = "the device that runs the program"},
    {0},
};

const Pass pass_plan_devices = {
    .name = "PlanDevices",
    .doc = "Says on which device each value is, and copies values between devices.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .module = plan,
};
