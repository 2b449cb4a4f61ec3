/* What becomes of the variables of a session when what they use is redefined. A value of a type that changes becomes one of the new
 * type if that can hold it; else it stays what it is. A function that a cell wrote (`let %f = fn …`) is read again as a definition is,
 * and is stale when it does not fit. Any other function that calls what changes its type is stale until it is bound again. */
#include "ir/walk.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

#include <string.h>

/* ---- what a value holds ---------------------------------------------------------------------------------------------------- */

typedef struct Search {
    Arena arena;
    PtrMap seen;
    Vec(Value) todo;
} Search;

static void search_value(Search *f, Value v)
{
    if (!value_is_object(v) || object_n(v.object) == 0 || ptrmap_has(&f->seen, v.object))
        return;
    ptrmap_put(&f->seen, v.object, NULL);
    vec_push(&f->todo, &f->arena, v);
}

/* Each function in the value, until one is found. */
static const Name *each_function(RelaySession *s, Value v,
                                 const Name *(*found)(Object *fn, void *data), void *data)
{
    const Name *name = NULL;
    Search f = {0};
    arena_init(&f.arena, &s->cx.limits);
    search_value(&f, v);
    while (f.todo.n && !name && !limit_hit(&s->cx.limits)) {
        Value now = vec_pop(&f.todo);
        if (now.kind == VALUE_FUNCTION)
            name = found(now.object, data);
        for (uint32_t i = 0; i < object_n(now.object); i++)
            search_value(&f, object_get(now.object, i));
    }
    ptrmap_deinit(&f.seen);
    arena_deinit(&f.arena);
    return name;
}

static const Name *uses(Object *fn, void *names)
{
    return function_kind(fn)->uses(fn, names);
}

/* The changed function that a function in the value calls; NULL for none. */
static const Name *calls_retyped(Redefinition *r, Value v)
{
    return r->retyped.n ? each_function(r->s, v, uses, &r->retyped) : NULL;
}

static const Name *renew(Object *fn, void *env)
{
    if (function_kind(fn)->renew)
        function_kind(fn)->renew(fn, env);
    return NULL;
}

/* ---- a value of another type ------------------------------------------------------------------------------------------------ */

typedef struct Copied {
    Object *old, *now;
} Copied;

typedef struct Moving {
    Redefinition *r;
    Arena arena;
    PtrMap infos; /* of the old constructors -> the new constructor */
    PtrMap done; /* Object -> its copy */
    Vec(Copied) todo; /* counted until the end; all of them */
    bool failed;
    const char *gone; /* the constructor that is; NULL: something that is no data */
} Moving;

static const Constructor *find_con(const TypeDef *def, const Constructor *like)
{
    for (uint32_t i = 0; i < def->n_cons; i++)
        if (def->cons[i]->name == like->name && def->cons[i]->n == like->n)
            return def->cons[i];
    return NULL;
}

static void map_constructors(Moving *m)
{
    const PtrMap *types = &m->r->types;
    for (size_t i = 0; i < types->n; i++) {
        const TypeDef *old = types->entries[i].key, *now = types->entries[i].value;
        for (uint32_t k = 0; old && now && k < old->n_cons; k++) {
            const Constructor *con = find_con(now, old->cons[k]);
            /* One that is gone is known as such. */
            ptrmap_put(&m->infos, old->cons[k]->info, (void *)(uintptr_t)con);
        }
    }
}

/* The copy of an object, whose fields may still be missing; lent. */
static Object *copy_of(Moving *m, Object *old)
{
    Object *now = ptrmap_find(&m->done, old);
    if (now)
        return now;
    const ObjectInfo *info = object_info(old);
    const Constructor *con = ptrmap_find(&m->infos, info);
    bool gone = !con && ptrmap_has(&m->infos, info);
    bool data = info->kind == VALUE_CON || info->kind == VALUE_TUPLE;
    if (gone || !data) {
        m->failed = true;
        m->gone = gone ? info->name : NULL;
        return NULL;
    }
    info = con ? con->info : info;
    if (info->nullary)
        return info->nullary;
    now = object_new(&m->r->s->cx.limits, info, object_n(old));
    m->failed |= !now;
    if (now)
        vec_push(&m->todo, &m->arena, ((Copied){old, now}));
    ptrmap_put(&m->done, old, now);
    return now;
}

static Value moved_field(Moving *m, Value v)
{
    if (!value_is_object(v))
        return value_retain(v);
    Object *o = copy_of(m, v.object);
    return o ? value_retain(value_object(o)) : value_none();
}

/* The value with the new constructors in place of the old; NONE when one of them is gone (which one goes to *gone), or for what is no
 * data. */
static Value moved_value(Redefinition *r, Value v, const char **gone)
{
    Moving m = {.r = r};
    arena_init(&m.arena, &r->s->cx.limits);
    map_constructors(&m);
    Value now = moved_field(&m, v);
    for (size_t i = 0; i < m.todo.n && !m.failed && !limit_hit(&r->s->cx.limits); i++) {
        Copied c = m.todo.at[i];
        for (uint32_t k = 0; k < object_n(c.old) && !m.failed; k++)
            object_set(c.now, k, moved_field(&m, object_get(c.old, k)));
    }
    for (size_t i = 0; i < m.todo.n; i++)
        value_release(value_object(m.todo.at[i].now));
    if (m.failed || limit_hit(&r->s->cx.limits)) {
        value_release(now);
        now = value_none();
    }
    *gone = m.gone;
    ptrmap_deinit(&m.infos);
    ptrmap_deinit(&m.done);
    arena_deinit(&m.arena);
    return now;
}

static bool keeps_params(const Redefinition *r)
{
    for (size_t i = 0; i < r->types.n; i++) {
        const TypeDef *old = r->types.entries[i].key, *now = r->types.entries[i].value;
        if (old && (!now || old->n_params != now->n_params))
            return false;
    }
    return true;
}

static void warn_old_value(const Redefinition *r, const Local *l, const char *gone)
{
    const TypeDef *old = NULL, *now = NULL;
    for (size_t i = 0; i < r->types.n && !now; i++) {
        PtrMap one = {0};
        old = r->types.entries[i].key;
        ptrmap_put(&one, old, NULL);
        if (old && type_mentions(l->var->base.type, &one))
            now = r->types.entries[i].value;
        ptrmap_deinit(&one);
    }
    Diag *d = diag_error(r->s->cx.diags, W0202_OLD_VALUE, now ? now->span : (Span){0},
                         "`%%%s` keeps its value, which is of the old type `%s`",
                         l->var->name->text, old->name->text);
    diag_label(d, l->var->base.span, "bound here");
    if (gone)
        diag_note(d, "`%s`, which it holds, is gone or has other fields now", gone);
    diag_help(d, "bind it again to use it with what is defined now");
}

static void move_data(Redefinition *r, const Local *l)
{
    Ctx *cx = &r->s->cx;
    const Type *type = keeps_params(r) ? type_with_defs(cx, l->var->base.type, &r->types) : NULL;
    const char *gone = NULL;
    Value v = type ? moved_value(r, l->value, &gone) : value_none();
    if (!value_is_none(v) && value_has_type(cx, v, type, NULL)) {
        Var *var = expr_var(&r->m->arena, l->var->base.span, l->var->name, NULL);
        var->base.type = type;
        vec_push(&r->carried, &r->arena,
                 ((Carried){.old = l->var, .var = var, .value = v, .item = {.graph = l->graph}}));
        return;
    }
    value_release(v);
    warn_old_value(r, l, gone);
}

/* ---- a function that was written in a cell --------------------------------------------------------------------------------- */

/* Its binding, if that is a function written out whose free variables are still what they were. */
static const Let *written_function(const RelaySession *s, const Local *l)
{
    const Let *let = expr_as_let(l->module->expr);
    if (!let || let->var != l->var || !expr_as_function(let->value))
        return NULL;
    return session_is_current(s, &let->base) ? let : NULL;
}

static PtrMap *names_of(RelaySession *s, bool graph)
{
    return graph ? &s->graph_names : &s->local_names;
}

bool read_binding(RelaySession *s, Module *globals, Span text, CellItem *out)
{
    ParseEnv env = session_parse_env(s);
    env.globals = globals;
    CellParser p;
    cell_parser_init(&p, &s->cx, text.source);
    p.at = text.from;
    *out = (CellItem){0};
    cell_parser_next(&p, &env, out);
    if (out->kind != CELL_LET)
        return false;
    Module *m = out->module;
    m->expr = expr_let(&m->arena, out->span, out->var, m->expr, &out->var->base);
    return session_check(s, m, globals, (CheckWish){0});
}

static void make_stale(Redefinition *r, const Local *l, Span where, Span text, const char *why)
{
    vec_push(&r->carried, &r->arena,
             ((Carried){.old = l->var,
                        .item = {.graph = l->graph},
                        .where = where,
                        .text = text,
                        .why = arena_copy_text(&r->arena, why, strlen(why))}));
}

/* A function that does not fit any more is stale, and so is one that uses a variable that is. */
static void read_function(Redefinition *r, const Local *l, const Let *let)
{
    RelaySession *s = r->s;
    DiagsMark before = diags_mark(s->cx.diags);
    CellItem item;
    Span text = let->base.span;
    if (read_binding(s, r->env, text, &item)) {
        vec_push(&r->carried, &r->arena, ((Carried){.old = l->var, .var = item.var, .item = item}));
        ptrmap_put(names_of(s, l->graph), l->var->name, item.var);
        return;
    }
    const Diag *wrong = diags_within(s->cx.diags, before, text);
    make_stale(r, l, wrong ? wrong->span : l->var->base.span, text,
               wrong ? stale_reason(s, &r->arena, wrong, r->dropped.n > 0) : "does not fit");
    diags_back(s->cx.diags, before);
    module_release(item.module);
}

static void refuse(Redefinition *r, const Local *l, const Name *called)
{
    Buf why = {0};
    buf_printf(&why, "holds a function that calls `@%s`, whose type changed", called->text);
    make_stale(r, l, l->var->base.span, (Span){0}, buf_text(&why));
    buf_deinit(&why);
}

/* ---- all variables ---------------------------------------------------------------------------------------------------------- */

/* Its binding, if that asks for a derivative or the like of something that changes. */
static const Let *derived_function(Redefinition *r, const Local *l)
{
    const Let *let = expr_as_let(l->module->written);
    const Op *op = let && let->var == l->var ? expr_call_of_op(let->value) : NULL;
    if (!op || !(op->flags & OP_FORM) || !redefinition_depends(r, let->value))
        return NULL;
    return session_is_current(r->s, &let->base) ? let : NULL;
}

static void carry_local(Redefinition *r, const Local *l)
{
    const Let *derived = derived_function(r, l);
    if (derived) {
        read_function(r, l, derived);
        return;
    }
    const Type *type = l->var->base.type;
    const Name *called = calls_retyped(r, l->value);
    bool typed = redefinition_mentions(r, type);
    if (!called && !typed)
        return;
    const Let *let = written_function(r->s, l);
    if (let)
        read_function(r, l, let);
    else if (called)
        refuse(r, l, called);
    else
        move_data(r, l);
}

bool carry_check(Redefinition *r)
{
    ptrmap_clear(&r->looked);
    for (size_t i = 0; i < r->s->n_locals && (r->types.n || r->names.n); i++)
        if (!r->s->locals[i].result)
            carry_local(r, &r->s->locals[i]);
    /* The names mean the old variables until all is done. */
    for (size_t i = 0; i < r->carried.n; i++) {
        const Carried *c = &r->carried.at[i];
        ptrmap_put(names_of(r->s, c->item.graph), c->old->name, c->old);
    }
    return !limit_hit(&r->s->cx.limits);
}

bool carry_commit(Redefinition *r)
{
    RelaySession *s = r->s;
    bool ok = true;
    for (size_t i = 0; i < r->carried.n && ok; i++) {
        Carried *c = &r->carried.at[i];
        if (c->why)
            continue;
        Module *home = c->item.module ? c->item.module : r->m;
        if (c->item.module)
            session_keep_used(s, home);
        if (c->item.module)
            c->value = engine_eval(s, ENGINE_INTERP, s->env, home, home->expr);
        ok = !value_is_none(c->value);
        if (ok)
            session_bind(s, c->var, c->value, home, c->item.graph);
        c->value = value_none();
    }
    if (r->retyped.n)
        results_forget_code(s);
    carry_renew(s);
    return ok;
}

static const Name *misfit(Object *fn, void *env)
{
    return function_kind(fn)->misfit(fn, env);
}

void carry_back(RelaySession *s)
{
    Stale *before = s->stale;
    size_t n = 0;
    const Name *first = NULL;
    for (size_t i = s->n_locals; i-- > 0;) {
        const Local *l = &s->locals[i];
        const Name *called = each_function(s, l->value, misfit, s->env);
        if (!called)
            continue;
        if (l->result) {
            results_drop(s, l);
            continue;
        }
        Buf why = {0};
        buf_printf(&why, "holds a function that calls `@%s`, which was taken back", called->text);
        stale_add(s, (Stale){.name = l->var->name,
                             .sigil = '%',
                             .graph = l->graph,
                             .span = l->var->base.span,
                             .where = l->var->base.span,
                             .why = (char *)(uintptr_t)buf_text(&why),
                             .changed = called,
                             .changed_sigil = '@'});
        buf_deinit(&why);
        n++;
        first = called;
    }
    if (n && s->stale != before)
        stale_warn(s, n, (Renewed){first, '@', {0}});
}

void carry_renew(RelaySession *s)
{
    for (size_t i = 0; i < s->n_locals && s->jit; i++)
        each_function(s, s->locals[i].value, renew, s->env);
}

void carry_deinit(Redefinition *r)
{
    for (size_t i = 0; i < r->carried.n; i++) {
        value_release(r->carried.at[i].value);
        module_release(r->carried.at[i].item.module);
    }
}
