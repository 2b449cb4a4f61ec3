#include "ir/dim.h"
#include "typecheck/internal.h"
#include "typecheck/subsume.h"

#include <string.h>

/* Steps of one unification; types that share parts can be exponentially larger than what is stored. */
#define WORK_MOST 1000000

/* ---- holes --------------------------------------------------------------------------------------------------------- */

const Type *hole_new(Checker *ck, HoleInfo info)
{
    Hole *h = arena_new(&ck->scratch, Hole);
    h->type = (Type){.kind = TYPE_HOLE,
                     .open = true,
                     .depth = 1,
                     .id = (uint32_t)ck->holes.n,
                     .span = info.span};
    h->info = info;
    vec_push(&ck->holes, &ck->scratch, h);
    return &h->type;
}

Hole *hole_of(const Checker *ck, const Type *t)
{
    if (t->kind != TYPE_HOLE || t->id >= ck->holes.n || &ck->holes.at[t->id]->type != t)
        return NULL;
    return ck->holes.at[t->id];
}

static void collect(Checker *ck, const Type *t, PtrMap *seen, TypeVec *out, uint32_t depth)
{
    if (!t->open || depth > TYPE_DEPTH_MOST)
        return;
    t = type_find(t);
    if (!t->open || ptrmap_has(seen, t))
        return;
    ptrmap_put(seen, t, ck);
    if (t->kind == TYPE_HOLE) {
        vec_push(out, &ck->scratch, t);
        return;
    }
    for (uint32_t i = 0; i < t->n; i++)
        collect(ck, t->parts[i], seen, out, depth + 1);
    if (t->kind == TYPE_FUNC)
        collect(ck, t->result, seen, out, depth + 1);
}

TypeVec holes_inside(Checker *ck, const Type *t)
{
    PtrMap seen = {0};
    TypeVec holes = {0};
    collect(ck, t, &seen, &holes, 0);
    ptrmap_deinit(&seen);
    return holes;
}

static void hole_set(const Type *hole, const Type *t)
{
    ((Type *)(uintptr_t)hole)->bound = t;
}

void hole_bind(Checker *ck, const Type *hole, const Type *t)
{
    hole_set(hole, t);
    story_bound(ck, hole);
    Hole *h = hole_of(ck, hole);
    if (!h || !h->first)
        return;
    relations_wake(ck, h);
    relations_follow(ck, h, t);
}

void holes_poison(Checker *ck, const Type *t)
{
    TypeVec holes = holes_inside(ck, t);
    for (size_t i = 0; i < holes.n; i++)
        hole_bind(ck, holes.at[i], ck->cx->poison);
}

/* The last hole of a chain of holes, NULL for what is no hole. On the way the chain is halved: bindings of a hole to a type must stay
 * with the last hole, since it may be widened. */
static const Type *hole_last(const Type *t)
{
    if (t->kind != TYPE_HOLE)
        return NULL;
    while (t->bound && t->bound->kind == TYPE_HOLE) {
        if (t->bound->bound && t->bound->bound->kind == TYPE_HOLE)
            hole_set(t, t->bound->bound);
        t = t->bound;
    }
    return t;
}

/* ---- unification ----------------------------------------------------------------------------------------------------- */

static const Type *misfit(Checker *ck, MisfitKind kind, const Type *a, const Type *b)
{
    ck->misfit = (Misfit){.kind = kind, .a = a, .b = b};
    return NULL;
}

/* The misfit lies in part i of what is unified here. */
static const Type *misfit_inside(Checker *ck, uint32_t i)
{
    Misfit *m = &ck->misfit;
    if (m->n_path < MISFIT_PATH)
        m->path[m->n_path] = i;
    m->n_path++;
    return NULL;
}

/* Also true, with the work used up, when that cannot be found out. */
static bool occurs(Checker *ck, const Type *hole, const Type *t, uint32_t depth)
{
    if (!t->open)
        return false;
    if (++ck->work > WORK_MOST || depth > TYPE_DEPTH_MOST) {
        ck->work = WORK_MOST + 1;
        return true;
    }
    t = type_find(t);
    if (t == hole)
        return true;
    if (!t->open || t->kind == TYPE_HOLE)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (occurs(ck, hole, t->parts[i], depth + 1))
            return true;
    return t->kind == TYPE_FUNC && occurs(ck, hole, t->result, depth + 1);
}

/* Extents agree when they are equal or one is not known before run time; then neither is the extent of both. */
bool unify_dim(Dim a, Dim b, Dim *out)
{
    if (a == b)
        *out = a;
    else if (a == DIM_ANY || b == DIM_ANY)
        *out = DIM_ANY;
    else if (dim_is_symbol(a))
        *out = b;
    else
        *out = a;
    return a == b || a < 0 || b < 0;
}

/* A symbolic extent that met a number is that number from there on. */
static bool bound_symbol(void *data, Dim symbol, int64_t *out)
{
    const Checker *ck = data;
    for (size_t i = 0; i < ck->dims.n; i++)
        if (ck->dims.at[i].symbol == symbol) {
            *out = ck->dims.at[i].extent;
            return true;
        }
    return false;
}

static Dim bound_dim(Checker *ck, Dim d)
{
    int64_t v;
    if (!dim_is_symbol(d) || ck->dims.n == 0)
        return d;
    return dim_value(ck->cx, d, bound_symbol, ck, &v) && v >= 0 ? v : d;
}

static bool is_arithmetic(const Checker *ck, Dim d)
{
    const DimSymbol *s = dim_symbol_get(ck->cx, d);
    return s && s->op != DIM_VAR;
}

/* What is known of a type by now, for messages. */
static const Type *bound_tensor(Checker *ck, const Type *t)
{
    Dim *dims = arena_alloc_must(&ck->scratch, t->n, sizeof *dims);
    for (uint32_t i = 0; i < t->n; i++)
        dims[i] = bound_dim(ck, t->dims[i]);
    return type_tensor(ck->cx, t->dtype, t->n, dims);
}

static bool unify_dims(Checker *ck, Dim a, Dim b, Dim *out)
{
    a = bound_dim(ck, a);
    b = bound_dim(ck, b);
    if (!unify_dim(a, b, out))
        return false;
    /* Which values of its symbols make an expression equal to something else is not looked for. */
    if (dim_is_symbol(a) && dim_is_symbol(b) && (is_arithmetic(ck, a) || is_arithmetic(ck, b)))
        return dim_same(ck->cx, a, b);
    Dim symbol = dim_is_symbol(a) ? a : b;
    if (dim_is_symbol(symbol) && !is_arithmetic(ck, symbol) && *out >= 0)
        vec_push(&ck->dims, &ck->scratch, ((DimBinding){symbol, *out}));
    return true;
}

static const Type *unify_step(Checker *ck, const Type *a, const Type *b, Widen widen);

static const Type *unify_tensors(Checker *ck, const Type *a, const Type *b)
{
    if (!dtype_eq(a->dtype, b->dtype))
        return misfit(ck, MISFIT_DTYPE, a, b);
    if (a->n != b->n)
        return misfit(ck, MISFIT_RANK, a, b);
    Dim few[16];
    Dim *dims = a->n <= 16 ? few : arena_new_array(&ck->scratch, Dim, a->n);
    for (uint32_t i = 0; i < a->n; i++)
        if (!unify_dims(ck, a->dims[i], b->dims[i], &dims[i]))
            return misfit(ck, MISFIT_DIMS, bound_tensor(ck, a), bound_tensor(ck, b));
    return type_tensor(ck->cx, a->dtype, a->n, dims);
}

/* Where values go that are given to the functions of which a and b are the types. */
static Flow flow_of_arguments(Flow f)
{
    static const Flow turned[] = {[FLOW_TO_A] = FLOW_TO_B,
                                  [FLOW_TO_B] = FLOW_TO_A,
                                  [FLOW_JOIN] = FLOW_MEET,
                                  [FLOW_MEET] = FLOW_JOIN,
                                  [FLOW_SAME] = FLOW_SAME};
    return turned[f];
}

static Flow flow_of_parts(Checker *ck, const Type *t)
{
    if (t->kind == TYPE_FUNC)
        return flow_of_arguments(ck->flow);
    bool both_ways =
        t->kind == TYPE_REF || (t->kind == TYPE_ADT && !def_only_holds(&ck->holders, t->def));
    return both_ways ? FLOW_SAME : ck->flow;
}

/* The parts of both, joined; a or b itself when all are its own. */
static const Type *unify_parts(Checker *ck, const Type *a, const Type *b, Widen widen)
{
    if (a->n != b->n)
        return misfit(ck, MISFIT_ARITY, a, b);
    const Type *few[8];
    const Type **parts = a->n <= 8 ? few : arena_new_array(&ck->scratch, const Type *, a->n);
    bool is_a = true, is_b = true;
    Flow flow = ck->flow;
    ck->flow = flow_of_parts(ck, a);
    for (uint32_t i = 0; i < a->n; i++) {
        parts[i] = unify_step(ck, a->parts[i], b->parts[i], widen);
        if (!parts[i])
            return misfit_inside(ck, i);
        is_a = is_a && parts[i] == a->parts[i];
        is_b = is_b && parts[i] == b->parts[i];
    }
    ck->flow = flow;
    const Type *result = NULL;
    if (a->kind == TYPE_FUNC) {
        result = unify_step(ck, a->result, b->result, widen);
        if (!result)
            return misfit_inside(ck, a->n);
        is_a = is_a && result == a->result;
        is_b = is_b && result == b->result;
    }
    if (is_a || is_b)
        return is_a ? a : b;
    switch ((TypeKind)a->kind) {
    case TYPE_TUPLE: return type_tuple(ck->cx, a->n, parts);
    case TYPE_REF: return type_ref(ck->cx, parts[0]);
    case TYPE_ADT: return type_adt(ck->cx, a->def, a->n, parts);
    case TYPE_FUNC: return type_func(ck->cx, a->n_params, a->params, a->n, parts, result);
    case TYPE_TENSOR:
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return a;
}

/* The function type with its parameters from `keep` on replaced by holes. */
static const Type *drop_params(Checker *ck, const Type *f, uint32_t keep)
{
    const Type **with = arena_new_array(&ck->scratch, const Type *, f->n_params);
    for (uint32_t i = 0; i < f->n_params; i++)
        with[i] = i < keep ? type_var(ck->cx, f->params[i])
                           : hole_new(ck, (HoleInfo){HOLE_TYPE_ARG, ck->at,
                                                     f->params[i]->name->text, "the function"});
    if (keep == 0)
        relation_of_params(ck, f, with);
    return type_func_with(ck->cx, f, with, keep, f->params);
}

/* b with its parameters renamed to those of a. */
static const Type *rename_params(Checker *ck, const Type *a, const Type *b)
{
    if (a->n_params == 0 || !memcmp(a->params, b->params, a->n_params * sizeof *a->params))
        return b;
    const Type **with = arena_new_array(&ck->scratch, const Type *, a->n_params);
    for (uint32_t i = 0; i < a->n_params; i++)
        with[i] = type_var(ck->cx, a->params[i]);
    return type_func_with(ck->cx, b, with, a->n_params, a->params);
}

/* Whether what is an a has a choice for its type parameters: it is a value, or a hole of a call whose arguments are still looked at. */
static bool may_lessen_a(const Checker *ck)
{
    return ck->flow == FLOW_TO_B || ck->flow == FLOW_JOIN || (ck->flow == FLOW_TO_A && ck->in_own);
}

static bool may_lessen_b(const Checker *ck)
{
    return ck->flow == FLOW_TO_A || ck->flow == FLOW_JOIN;
}

static const Type *unify_functions(Checker *ck, const Type *a, const Type *b, Widen widen)
{
    if (a->n != b->n)
        return misfit(ck, MISFIT_ARITY, a, b);
    /* An operator's type that was written says the same; different operators have the same parameters and mean different things. */
    const Op *op_a = op_behind(a), *op_b = op_behind(b);
    bool written = op_a != op_b && (!op_a || !op_b) && type_equal(a, b);
    uint32_t fewest = a->n_params < b->n_params ? a->n_params : b->n_params;
    uint32_t keep = op_a == op_b ? fewest : 0;
    ck->polymorphic = ck->polymorphic || a->n_params || b->n_params;
    bool less_a = written ? op_b != NULL : a->n_params > keep;
    bool less_b = written ? op_a != NULL : b->n_params > keep;
    if ((less_a && !may_lessen_a(ck)) || (less_b && !may_lessen_b(ck)))
        return misfit(ck, MISFIT_LESS, a, b);
    ck->lessened = ck->lessened || less_a || less_b;
    if (written)
        return op_a ? a : b;
    if (less_a)
        a = drop_params(ck, a, keep);
    if (less_b)
        b = drop_params(ck, b, keep);
    /* What is found for a hole stands where the hole does, and only the parameters of its function are known there. */
    if (!type_is_found(b) && type_is_found(a))
        return unify_parts(ck, rename_params(ck, b, a), b, widen);
    return unify_parts(ck, a, rename_params(ck, a, b), widen);
}

/* Both have a known outermost node and differ. */
static const Type *unify_known(Checker *ck, const Type *a, const Type *b, Widen widen)
{
    if (a->kind != b->kind)
        return misfit(ck, MISFIT_TYPES, a, b);
    switch ((TypeKind)a->kind) {
    case TYPE_TENSOR: return unify_tensors(ck, a, b);
    case TYPE_FUNC: return unify_functions(ck, a, b, widen);
    case TYPE_ADT:
        if (a->def != b->def)
            return misfit(ck, MISFIT_TYPES, a, b);
        return unify_parts(ck, a, b, widen);
    case TYPE_TUPLE:
    case TYPE_REF: return unify_parts(ck, a, b, widen);
    case TYPE_VAR: return a->var == b->var ? a : misfit(ck, MISFIT_TYPES, a, b);
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return a;
}

/* Joins two holes without types. The one with the deeper tree below it stays, so that chains are short; it speaks for the cause. */
static void join(Checker *ck, const Type *a, const Type *b)
{
    Hole *ha = hole_of(ck, a), *hb = hole_of(ck, b);
    if (!ha || !hb) {
        hole_bind(ck, ha ? a : b, ha ? b : a);
        return;
    }
    Hole *root = ha->rank > hb->rank ? ha : hb, *leaf = root == ha ? hb : ha;
    if (root->rank == leaf->rank)
        root->rank++;
    if (leaf->info.origin < root->info.origin)
        root->info = leaf->info;
    root->wanted = root->wanted || leaf->wanted;
    hole_bind(ck, &leaf->type, &root->type);
}

/* `hole` has no type yet, t is none of the same. */
static const Type *fill(Checker *ck, const Type *hole, const Type *t)
{
    if (occurs(ck, hole, t, 0))
        return misfit(ck, ck->work > WORK_MOST ? MISFIT_WORK : MISFIT_INFINITE, hole, t);
    hole_bind(ck, hole, t);
    return hole;
}

static void note_wanted(Checker *ck, const Type *hole)
{
    Hole *h = hole_of(ck, hole);
    if (h)
        h->wanted = true;
}

/* Whether nobody has relied on what the hole is bound to. */
static bool may_become_less(Checker *ck, const Type *hole)
{
    Hole *h = hole_of(ck, hole);
    return h && h->type.id >= ck->own_holes && !h->wanted;
}

static const Type *unify_step(Checker *ck, const Type *a, const Type *b, Widen widen)
{
    const Type *ha = hole_last(a), *hb = hole_last(b);
    if (a == b || (ha && ha == hb))
        return a;
    if (++ck->work > WORK_MOST || ck->depth > TYPE_DEPTH_MOST)
        return misfit(ck, MISFIT_WORK, a, b);
    bool wanted = !may_lessen_b(ck);
    if (wanted && ha)
        note_wanted(ck, ha);
    if (wanted && hb)
        note_wanted(ck, hb);
    if (ha && hb && !ha->bound && !hb->bound) {
        join(ck, ha, hb);
        return a;
    }
    if (ha && !ha->bound)
        return fill(ck, ha, widen == WIDEN_BOTH || !hb || !hb->bound ? (hb ? hb : b) : hb->bound);
    if (hb && !hb->bound)
        return fill(ck, hb, widen == WIDEN_BOTH && ha ? ha : type_find(a)) ? a : NULL;
    const Type *known_a = ha ? ha->bound : a, *known_b = hb ? hb->bound : b;
    if (known_a == known_b || known_b->kind == TYPE_POISON)
        return a;
    if (known_a->kind == TYPE_POISON)
        return b;
    bool in_own = ck->in_own, lessened = ck->lessened;
    bool own = ha && widen != WIDEN_NONE && may_become_less(ck, ha);
    ck->in_own = in_own || own;
    ck->lessened = false;
    ck->depth++;
    const Type *both = unify_known(ck, known_a, known_b, widen);
    ck->depth--;
    bool less = ck->lessened;
    ck->in_own = in_own;
    ck->lessened = lessened || less;
    if (!both)
        return NULL;
    if (ha && both != known_a && widen != WIDEN_NONE && (!less || own))
        hole_bind(ck, ha, both);
    if (hb && both != known_b && widen == WIDEN_BOTH && !less)
        hole_bind(ck, hb, both);
    return both == known_a ? a : both == known_b ? b : both;
}

const Type *unify(Checker *ck, const Type *a, const Type *b, Widen widen, Flow flow)
{
    ck->work = 0;
    ck->flow = flow;
    ck->in_own = ck->lessened = false;
    return unify_step(ck, a, b, widen);
}

const Type *instantiate(Checker *ck, const Type *f, HoleInfo info, const Type **holes)
{
    f = type_find(f);
    if (f->kind != TYPE_FUNC || f->n_params == 0)
        return f;
    const Type **with = holes ? holes : arena_new_array(&ck->scratch, const Type *, f->n_params);
    for (uint32_t i = 0; i < f->n_params; i++) {
        info.name = f->params[i]->name->text;
        with[i] = hole_new(ck, info);
    }
    relation_of_params(ck, f, with);
    if (ck->story)
        story_instance(ck, type_str(ck->cx, f), info, f->n_params, f->params, with);
    return type_func_with(ck->cx, f, with, 0, NULL);
}

/* ---- messages ---------------------------------------------------------------------------------------------------------- */

bool note_type_namesakes(Diag *d, const TypeDef *needed, const TypeDef *found)
{
    if (needed == found || needed->name != found->name)
        return false;
    diag_label(d, found->span, "the `%s` that is found", found->name->text);
    diag_label(d, needed->span, "the `%s` that is needed", needed->name->text);
    diag_note(d,
              "these are two types of one name: what was defined with the older one stays with it");
    diag_help(d, "define again what uses the older `%s`", needed->name->text);
    return true;
}

static bool note_namesakes(Checker *ck, Diag *d)
{
    const Type *a = type_find(ck->misfit.a), *b = type_find(ck->misfit.b);
    if (a->kind == TYPE_VAR && b->kind == TYPE_VAR && a->var != b->var &&
        a->var->name == b->var->name) {
        diag_label(d, b->var->span, "the `%s` that is found", b->var->name->text);
        diag_label(d, a->var->span, "the `%s` that is needed", a->var->name->text);
        diag_note(d, "these are two type parameters of one name: inside, the inner one is meant");
        diag_help(d, "give one of them another name");
        return true;
    }
    return a->kind == TYPE_ADT && b->kind == TYPE_ADT && note_type_namesakes(d, a->def, b->def);
}

/* Callers give unify what is needed first and what was found second. */
static void note_misfit(Checker *ck, Diag *d, bool inside)
{
    const Type *a = ck->misfit.a, *b = ck->misfit.b;
    switch (ck->misfit.kind) {
    case MISFIT_DIMS:
    case MISFIT_RANK:
    case MISFIT_WORK: return;
    case MISFIT_TYPES:
    case MISFIT_LESS:
    case MISFIT_DTYPE:
    case MISFIT_ARITY:
    case MISFIT_INFINITE: break;
    }
    if (!note_namesakes(ck, d) && inside)
        diag_note(d, "`%s` does not match `%s`", type_str(ck->cx, type_resolve(ck->cx, b)),
                  type_str(ck->cx, type_resolve(ck->cx, a)));
}

/* Writes out the equation without a solution: the unknown type gets a name for it. */
static void explain_infinite(Checker *ck, Diag *d)
{
    const Type *hole = type_find(ck->misfit.a);
    if (hole->kind == TYPE_HOLE && !hole->bound) {
        const Type *named = type_var(ck->cx, typevar_new(ck->cx, ctx_name(ck->cx, "T"), d->span));
        hole_set(hole, named);
        diag_note(d, "if `T` is the type of one part of it, `T` would have to be `%s`",
                  type_str(ck->cx, type_resolve(ck->cx, ck->misfit.b)));
        hole_set(hole, NULL);
    }
    diag_help(d, "is an argument missing, or one too many? a `type` of its own may contain itself");
}

static bool is_transpose(const Type *a, const Type *b)
{
    bool mirrored = a->n > 1 && a->n == b->n;
    for (uint32_t i = 0; mirrored && i < a->n; i++)
        mirrored = a->dims[i] >= 0 && a->dims[i] == b->dims[a->n - 1 - i];
    return mirrored;
}

/* The elements of the shape; -1 when they are not known, or too many to be counted. */
static int64_t elements_of(const Type *t)
{
    int64_t n = 1;
    for (uint32_t i = 0; i < t->n && n >= 0; i++)
        n = t->dims[i] < 0 || (t->dims[i] > 0 && n > INT64_MAX / t->dims[i]) ? -1 : n * t->dims[i];
    return n;
}

static void help_shape(Diag *d, const Type *found, const Type *needed)
{
    int64_t n = elements_of(needed);
    if (is_transpose(found, needed)) {
        diag_help(d, "its transpose would fit: `transpose(…, axes=None)`");
        return;
    }
    if (n < 0 || n != elements_of(found)) {
        diag_help(d, "`?` in a declared shape is for any extent, and a type that is left out is "
                     "inferred");
        return;
    }
    Buf b = {0};
    for (uint32_t i = 0; i < needed->n; i++)
        buf_printf(&b, "%s%lld", i ? ", " : "", (long long)needed->dims[i]);
    diag_help(d, "it has as many elements: `reshape(…, newshape=[%s])` would fit", buf_text(&b));
    buf_deinit(&b);
}

void help_constructors(Diag *d, const TypeDef *def)
{
    Buf b = {0};
    for (uint32_t i = 0; i < def->n_cons; i++)
        buf_printf(&b, "%s`%s`", i ? ", " : "", def->cons[i]->name->text);
    if (b.n)
        diag_help(d, "the constructors of `%s` are %s", def->name->text, buf_text(&b));
    buf_deinit(&b);
}

/* What makes a value of the type that was found one of the type that is needed. */
static void help_value(Diag *d, const Type *found, const Type *needed)
{
    if (found->kind == TYPE_REF && type_equal(type_find(found->parts[0]), needed))
        diag_help(d, "`ref_read(…)` gives what a reference holds");
    else if (found->kind == TYPE_FUNC && type_equal(type_find(found->result), needed))
        diag_help(d, "is the function to be called? `…(…)`");
    else if (needed->kind == TYPE_REF && type_equal(type_find(needed->parts[0]), found))
        diag_help(d, "`ref(…)` makes a reference to it");
    else if (needed->kind == TYPE_TUPLE && needed->n == 0)
        diag_help(d, "the value of a block is its last expression; `()` is the empty tuple");
    else if (found->kind == TYPE_TUPLE && found->n == 0)
        diag_help(d, "`()` is the empty tuple, as `ref_write(…, …)` gives it; the value of a block "
                     "is its last expression");
    else if (found->kind == TYPE_TUPLE && needed->kind != TYPE_TUPLE)
        diag_help(d, "fields of a tuple are `.0`, `.1` and so on");
    else if (needed->kind == TYPE_TUPLE)
        diag_help(d, "a tuple is written `(…, …)`, one of a single field `(…,)`");
    else if (found->kind == TYPE_ADT && needed->kind != TYPE_ADT)
        diag_help(d, "`match (…) { … }` takes `%s` apart", found->def->name->text);
    else if (needed->kind == TYPE_ADT && found->kind != TYPE_ADT)
        help_constructors(d, needed->def);
    else
        diag_help(d, "`:why` and `:explain types` in a session show where a type comes from");
}

static void help_bool(Diag *d, const Type *found)
{
    if (found->n > 0)
        diag_help(d, "`all(…)` and `any(…)` make one bool of many; `where(…, …, …)` chooses for "
                     "each element");
    else
        diag_help(d, "compare it with something: `%s`",
                  dtype_is_float(found->dtype) ? "… != 0f" : "… != 0");
}

void help_less(Diag *d, const Type *needed, const Type *found)
{
    const Op *a = op_behind(needed), *b = op_behind(found);
    if (a && b)
        diag_help(d,
                  "`%s` and `%s` have types of their own; a function says which one is meant: "
                  "`fn (%%x: Tensor[(2), float32]) { … }`",
                  a->name, b->name);
    else if (a || b)
        diag_help(d,
                  "`%s` does not take every type; a function says which one is meant: "
                  "`fn (%%x: Tensor[(2), float32]) { … }`",
                  a ? a->name : b->name);
    else if (found->n_params > needed->n_params)
        diag_help(d, "what is found can be called at more types, and what holds it could be given "
                     "one that cannot; a function of the type that "
                     "is needed calls it: `fn (%%x: int32) -> int32 { … }`");
    else
        diag_help(d, "what is needed can be called at any type: `fn [A](%%x: A) -> A { … }` is so");
}

/* The next step, where the misfit is one of whole types. */
static void help_misfit(Checker *ck, Diag *d, const Type *found, const Type *needed)
{
    const Type *bool_type = type_bool(ck->cx);
    if (d->helps || found->kind == TYPE_POISON)
        return;
    if (ck->misfit.kind == MISFIT_LESS) {
        help_less(d, ck->misfit.a, ck->misfit.b);
        return;
    }
    if (found->kind != TYPE_TENSOR || needed->kind != TYPE_TENSOR) {
        help_value(d, found, needed);
        return;
    }
    if (needed == bool_type) {
        help_bool(d, found);
        return;
    }
    if (!dtype_eq(found->dtype, needed->dtype)) {
        if (found == bool_type)
            diag_help(d, "a bool is no number: `where(…, 1, 0)` makes one of it");
        else
            rel_help_convert(ck->cx, d, side_span(ck, ck->rule.found), needed->dtype);
        return;
    }
    help_shape(d, found, needed);
}

Diag *report_misfit(Checker *ck, Span span, const char *what, const Type *found, const Type *needed)
{
    vec_push(&ck->blamed, &ck->scratch, found);
    vec_push(&ck->blamed, &ck->scratch, needed);
    found = type_resolve(ck->cx, found);
    needed = type_resolve(ck->cx, needed);
    if (ck->misfit.kind == MISFIT_INFINITE) {
        Diag *d = diag_error(ck->cx->diags, E0214_INFINITE_TYPE, span,
                             "%s would be of a type that contains itself", what);
        explain_infinite(ck, d);
        story_failed(ck, d);
        return d;
    }
    if (ck->misfit.kind == MISFIT_WORK) {
        /* Perhaps that was said where the type was made, where no place is known. */
        Diag *said = ck->cx->diags->last;
        ck->cx->limits.hit = LIMIT_DEPTH;
        if (said && said->code == E0121_TOO_DEEP && span_is_none(said->span))
            said->span = span;
        else
            said = diag_error(ck->cx->diags, E0121_TOO_DEEP, span,
                              "%s has a type that is nested too deep, or too large, to be compared",
                              what);
        diag_help(said, "give the inner part a name of its own");
        return said;
    }
    Diag *d = diag_error(ck->cx->diags, E0201_MISMATCH, span, "%s is `%s`, but `%s` is needed",
                         what, type_str(ck->cx, found), type_str(ck->cx, needed));
    const Type *a = type_find(ck->misfit.a), *b = type_find(ck->misfit.b);
    note_misfit(ck, d, !((a == found && b == needed) || (a == needed && b == found)));
    blame_misfit(ck, d);
    help_misfit(ck, d, type_find(found), type_find(needed));
    story_failed(ck, d);
    return d;
}
