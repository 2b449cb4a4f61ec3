#include "typecheck/subsume.h"

#include "base/vec.h"

/* Steps of one comparison; types that share parts can be exponentially larger than what is stored. */
#define WORK_MOST 1000000

/* ---- data types that hold ------------------------------------------------------------------------------------------ */

/* A data type that others are reached from, and which it was reached from. */
typedef struct Reached {
    const TypeDef *def;
    size_t from;
} Reached;

typedef struct Reach {
    Arena arena;
    Vec(Reached) defs;
    Vec(const Type *) types; /* that the fields of the one in work hold */
    PtrMap seen; /* types, data types */
} Reach;

/* Whether the fields of data type i hold no function and no reference; adds the data types that they hold. */
static bool fields_only_hold(Reach *r, const PtrMap *all_known, size_t i)
{
    const TypeDef *def = r->defs.at[i].def;
    r->types.n = 0;
    for (uint32_t c = 0; c < def->n_cons; c++)
        for (uint32_t f = 0; f < def->cons[c]->n; f++)
            vec_push(&r->types, &r->arena, def->cons[c]->fields[f]);
    while (r->types.n > 0) {
        const Type *t = type_find(vec_pop(&r->types));
        const TypeDef *known = t->kind == TYPE_ADT ? ptrmap_find(all_known, t->def) : NULL;
        if (t->kind == TYPE_FUNC || t->kind == TYPE_REF || (known && known != t->def))
            return false;
        if ((t->kind != TYPE_TUPLE && t->kind != TYPE_ADT) || ptrmap_has(&r->seen, t))
            continue;
        ptrmap_put(&r->seen, t, r);
        for (uint32_t k = 0; k < t->n; k++)
            vec_push(&r->types, &r->arena, t->parts[k]);
        if (t->kind != TYPE_ADT || known || ptrmap_has(&r->seen, t->def))
            continue;
        ptrmap_put(&r->seen, t->def, r);
        vec_push(&r->defs, &r->arena, ((Reached){t->def, i}));
    }
    return true;
}

bool def_only_holds(PtrMap *all_known, const TypeDef *def)
{
    const TypeDef *known = ptrmap_find(all_known, def);
    if (known)
        return known == def;
    Reach r = {0};
    arena_init(&r.arena, NULL);
    vec_push(&r.defs, &r.arena, ((Reached){def, 0}));
    ptrmap_put(&r.seen, def, &r);
    size_t i = 0;
    while (i < r.defs.n && fields_only_hold(&r, all_known, i))
        i++;
    bool good = i == r.defs.n;
    /* What can be reached from a good one is good, and from where a bad one can be reached is bad. */
    for (size_t k = 0; good && k < r.defs.n; k++)
        ptrmap_put(all_known, r.defs.at[k].def, (void *)(uintptr_t)r.defs.at[k].def);
    for (; !good && i > 0; i = r.defs.at[i].from)
        ptrmap_put(all_known, r.defs.at[i].def, all_known);
    if (!good)
        ptrmap_put(all_known, def, all_known);
    ptrmap_deinit(&r.seen);
    arena_deinit(&r.arena);
    return good;
}

/* ---- comparison ---------------------------------------------------------------------------------------------------- */

/* What stands for a type parameter while the inside of its function is compared. */
typedef struct Fresh {
    bool chosen; /* stands for any type that fits; else for one that nothing is known of */
    uint32_t level; /* may be chosen to be what is made of those that came before it */
    const Type *is; /* what was chosen; NULL: nothing yet */
} Fresh;

typedef struct Fitting {
    Ctx *cx;
    PtrMap *holders;
    Arena arena;
    PtrMap fresh; /* TypeVar -> Fresh */
    uint32_t level, depth;
    uint64_t work;
    bool both; /* values go both ways */
    bool too_large;
    Fit fit; /* so far */
} Fitting;

static bool fits(Fitting *s, const Type *found, const Type *needed);

static Fresh *fresh_of(const Fitting *s, const Type *t)
{
    return t->kind == TYPE_VAR && s->level ? ptrmap_find(&s->fresh, t->var) : NULL;
}

static const Type *known_now(const Fitting *s, const Type *t)
{
    t = type_find(t);
    for (const Fresh *f; (f = fresh_of(s, t)) && f->is;)
        t = type_find(f->is);
    return t;
}

static bool is_too_large(Fitting *s)
{
    s->too_large = s->too_large || ++s->work > WORK_MOST || s->depth > TYPE_DEPTH_MOST ||
                   limit_hit(&s->cx->limits);
    return s->too_large;
}

/* Whether the choice may be t: nothing inside came later, or is itself. */
static bool may_be(Fitting *s, Fresh *choice, const Type *t)
{
    t = known_now(s, t);
    Fresh *inside = fresh_of(s, t);
    if (is_too_large(s) || inside == choice)
        return false;
    if (inside && inside->level > choice->level) {
        /* What is still to be chosen may be chosen from no more than this one. */
        inside->level = inside->chosen ? choice->level : inside->level;
        return inside->chosen;
    }
    if (t->kind == TYPE_TENSOR || t->kind == TYPE_VAR || t->kind == TYPE_HOLE ||
        t->kind == TYPE_POISON)
        return true;
    s->depth++;
    bool may = t->kind != TYPE_FUNC || may_be(s, choice, t->result);
    for (uint32_t i = 0; i < t->n && may; i++)
        may = may_be(s, choice, t->parts[i]);
    s->depth--;
    return may;
}

static bool choose(Fitting *s, Fresh *choice, const Type *t)
{
    if (!may_be(s, choice, t))
        return false;
    choice->is = t;
    return true;
}

/* Types that stand for the n parameters. */
static const Type **fresh_types(Fitting *s, uint32_t n, const TypeVar *const *params, bool chosen)
{
    const Type **with = arena_alloc_must(&s->arena, n, sizeof *with);
    for (uint32_t i = 0; i < n; i++) {
        Fresh *f = arena_new(&s->arena, Fresh);
        *f = (Fresh){.chosen = chosen, .level = ++s->level};
        with[i] = type_var(s->cx, typevar_new(s->cx, params[i]->name, params[i]->span));
        ptrmap_put(&s->fresh, with[i]->var, f);
    }
    return with;
}

/* The function at these types. */
static const Type *at_types(Fitting *s, const Type *f, const Type *const *with)
{
    return type_func_with(s->cx, f, with, 0, NULL);
}

const Op *op_behind(const Type *f)
{
    return f->n_params ? f->params[f->n_params - 1]->op : NULL;
}

static bool functions_fit(Fitting *s, const Type *found, const Type *needed)
{
    if (found->n != needed->n)
        return false;
    if (s->both) {
        if (found->n_params != needed->n_params || op_behind(found) != op_behind(needed))
            return false;
        if (found->n_params) {
            const Type **with = fresh_types(s, needed->n_params, needed->params, false);
            found = at_types(s, found, with);
            needed = at_types(s, needed, with);
        }
    } else if (found->n_params && type_equal(found, needed)) {
        return true;
    } else {
        if (found->n_params)
            s->fit = s->depth == 1 && !needed->n_params && s->fit == FIT_AS_IT_IS
                         ? FIT_CALLED_AT_ONE
                         : FIT_INSIDE;
        if (needed->n_params)
            needed = at_types(s, needed, fresh_types(s, needed->n_params, needed->params, false));
        if (found->n_params)
            found = at_types(s, found, fresh_types(s, found->n_params, found->params, true));
    }
    for (uint32_t i = 0; i < found->n; i++)
        if (!fits(s, needed->parts[i], found->parts[i]))
            return false;
    return fits(s, found->result, needed->result);
}

static bool tensors_fit(const Type *found, const Type *needed)
{
    if (!dtype_eq(found->dtype, needed->dtype) || found->n != needed->n)
        return false;
    for (uint32_t i = 0; i < found->n; i++)
        if (found->dims[i] != needed->dims[i] && found->dims[i] >= 0 && needed->dims[i] >= 0)
            return false;
    return true;
}

static bool parts_fit(Fitting *s, const Type *found, const Type *needed)
{
    if (found->n != needed->n)
        return false;
    for (uint32_t i = 0; i < found->n; i++)
        if (!fits(s, found->parts[i], needed->parts[i]))
            return false;
    return true;
}

/* Both have an outermost node of the same kind. */
static bool nodes_fit(Fitting *s, const Type *found, const Type *needed)
{
    bool both = s->both, fit;
    switch ((TypeKind)found->kind) {
    case TYPE_TENSOR: return tensors_fit(found, needed);
    case TYPE_FUNC: return functions_fit(s, found, needed);
    case TYPE_TUPLE: return parts_fit(s, found, needed);
    case TYPE_ADT:
    case TYPE_REF:
        s->both = both || found->kind == TYPE_REF || !def_only_holds(s->holders, found->def);
        fit = found->def == needed->def && parts_fit(s, found, needed);
        s->both = both;
        return fit;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return false;
}

static bool fits(Fitting *s, const Type *found, const Type *needed)
{
    found = known_now(s, found);
    needed = known_now(s, needed);
    if (found == needed || found->kind == TYPE_POISON || needed->kind == TYPE_POISON)
        return true;
    if (is_too_large(s))
        return false;
    Fresh *f = fresh_of(s, found), *n = fresh_of(s, needed);
    if (f && f->chosen)
        return choose(s, f, needed);
    if (n && n->chosen)
        return choose(s, n, found);
    if (found->kind != needed->kind)
        return false;
    s->depth++;
    bool fit = nodes_fit(s, found, needed);
    s->depth--;
    return fit;
}

Fit type_fit(Ctx *cx, PtrMap *holders, const Type *found, const Type *needed)
{
    if (found == needed)
        return FIT_AS_IT_IS;
    Fitting s = {.cx = cx, .holders = holders};
    arena_init(&s.arena, &cx->limits);
    Fit fit = fits(&s, found, needed) ? s.fit : s.too_large ? FIT_TOO_LARGE : FIT_NOT;
    ptrmap_deinit(&s.fresh);
    arena_deinit(&s.arena);
    return fit;
}

/* ---- uses ---------------------------------------------------------------------------------------------------------- */

typedef struct Uses {
    Ctx *cx;
    Arena arena;
    bool (*use)(void *data, const Use *use);
    void *data;
    bool goes_on;
} Uses;

static void use(Uses *u, const Expr *value, Expr *const *slot, const Type *found,
                const Type *needed)
{
    if (u->goes_on && found && needed && found != needed)
        u->goes_on = u->use(u->data, &(Use){value, slot, found, needed});
}

static void use_slot(Uses *u, Expr *const *slot, const Type *needed)
{
    use(u, *slot, slot, (*slot)->type, needed);
}

/* A type inside that of a polymorphic function, where the call has it. */
static const Type *in_call(Uses *u, const Call *call, const Type *f, const Type *t)
{
    return call->type_args.n == f->n_params
               ? type_subst(u->cx, t, f->n_params, f->params, call->type_args.at)
               : NULL;
}

static void uses_of_call(Uses *u, const Call *call)
{
    const Type *f = call->callee->type ? type_find(call->callee->type) : NULL;
    if (expr_as_op(call->callee) || !f || f->kind != TYPE_FUNC || f->n != call->args.n)
        return;
    for (uint32_t i = 0; i < f->n; i++)
        use_slot(u, &call->args.at[i], in_call(u, call, f, f->parts[i]));
    use(u, &call->base, NULL, in_call(u, call, f, f->result), call->base.type);
}

static void uses_of_function(Uses *u, const Function *fn)
{
    const Type *t = type_find(fn->base.type);
    if (t->kind != TYPE_FUNC || t->n != fn->params.n)
        return;
    for (uint32_t i = 0; i < t->n; i++)
        use(u, &fn->params.at[i]->base, NULL, t->parts[i], fn->params.at[i]->base.type);
    use_slot(u, &fn->body, t->result);
}

typedef struct Facing {
    const Pattern *pattern;
    const Type *type; /* of what it is held against */
} Facing;

static void uses_of_pattern(Uses *u, const Pattern *pattern, const Type *type)
{
    Vec(Facing) todo = {0};
    vec_push(&todo, &u->arena, ((Facing){pattern, type}));
    while (todo.n && u->goes_on) {
        Facing f = vec_pop(&todo);
        const Pattern *p = f.pattern;
        const Type *t = type_find(f.type);
        if (p->kind == PATTERN_VAR)
            use(u, &p->var->base, NULL, t, p->var->base.type);
        bool con = p->kind == PATTERN_CON && t->kind == TYPE_ADT && t->def == p->con->type;
        if (!con && (p->kind != PATTERN_TUPLE || t->kind != TYPE_TUPLE))
            continue;
        for (uint32_t i = 0; i < p->n && i < (con ? p->con->n : t->n); i++)
            vec_push(&todo, &u->arena,
                     ((Facing){p->fields[i], con ? type_subst(u->cx, p->con->fields[i], t->n,
                                                              t->def->params, t->parts)
                                                 : t->parts[i]}));
    }
}

static void uses_of_match(Uses *u, const Match *match)
{
    for (uint32_t i = 0; i < match->clauses.n; i++) {
        if (match->scrutinee->type)
            uses_of_pattern(u, match->clauses.at[i].pattern, match->scrutinee->type);
        use_slot(u, &match->clauses.at[i].body, match->base.type);
    }
}

/* Part i of a type of the kind; NULL: it is none. */
static const Type *part_of(const Type *t, TypeKind kind, int64_t i)
{
    t = t ? type_find(t) : NULL;
    return t && t->kind == kind && i >= 0 && i < t->n ? t->parts[i] : NULL;
}

static void uses_of(Uses *u, const Expr *e)
{
    switch ((ExprKind)e->kind) {
    case EXPR_CALL: uses_of_call(u, expr_as_call(e)); return;
    case EXPR_FUNCTION: uses_of_function(u, expr_as_function(e)); return;
    case EXPR_MATCH: uses_of_match(u, expr_as_match(e)); return;
    case EXPR_LET:
        use_slot(u, &expr_as_let(e)->value, expr_as_let(e)->var->base.type);
        use_slot(u, &expr_as_let(e)->body, e->type);
        return;
    case EXPR_IF:
        use_slot(u, &expr_as_if(e)->then, e->type);
        use_slot(u, &expr_as_if(e)->otherwise, e->type);
        return;
    case EXPR_TUPLE:
        for (uint32_t i = 0; i < expr_as_tuple(e)->fields.n; i++)
            use_slot(u, &expr_as_tuple(e)->fields.at[i], part_of(e->type, TYPE_TUPLE, i));
        return;
    case EXPR_TUPLE_GET:
        use(u, e, NULL,
            part_of(expr_as_tuple_get(e)->tuple->type, TYPE_TUPLE, expr_as_tuple_get(e)->index),
            e->type);
        return;
    case EXPR_REF_NEW:
        use_slot(u, &expr_as_ref_new(e)->value, part_of(e->type, TYPE_REF, 0));
        return;
    case EXPR_REF_READ:
        use(u, e, NULL, part_of(expr_as_ref_read(e)->ref->type, TYPE_REF, 0), e->type);
        return;
    case EXPR_REF_WRITE:
        use_slot(u, &expr_as_ref_write(e)->value,
                 part_of(expr_as_ref_write(e)->ref->type, TYPE_REF, 0));
        return;
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON:
    case EXPR_KINDS: return;
    }
}

bool expr_uses(Ctx *cx, const Expr *e, bool (*each)(void *data, const Use *use), void *data)
{
    Uses u = {.cx = cx, .use = each, .data = data, .goes_on = true};
    arena_init(&u.arena, &cx->limits);
    if (e->type)
        uses_of(&u, e);
    arena_deinit(&u.arena);
    return u.goes_on;
}
