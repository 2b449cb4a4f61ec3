/* Compiled functions as values that leave compiled code: what others may ask of them. */
#include "base/memory.h"
#include "ir/walk.h"
#include "jit/internal.h"
#include "jit/open_tuples.h"

#include <stdlib.h>

static FunctionInfo *info_of(const Object *fn)
{
    return (FunctionInfo *)(uintptr_t)object_info(fn);
}

static Value function_call(Object *fn, uint32_t n, const Value *args)
{
    FunctionInfo *info = info_of(fn);
    Ctx *cx = info->unit->jit->cx;
    uint32_t wanted = info->type->n;
    if (n != wanted) {
        diag_error(cx->diags, E0305_ARGUMENTS, (Span){0},
                   "the function takes %u argument%s, not %u", wanted, wanted == 1 ? "" : "s", n);
        return value_none();
    }
    Value few[8], *all = n < 8 ? few : memory_zeroed(n + 1, sizeof *all);
    if (!all) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return value_none();
    }
    all[0] = value_object(fn);
    for (uint32_t i = 0; i < n; i++)
        all[i + 1] = args[i];
    values_retain(n + 1, all);
    Value v = unit_call(info->unit, info->invoke, n + 1, all);
    if (all != few)
        free(all);
    return v;
}

static const Type *function_type_of(const Object *fn)
{
    return info_of(fn)->type;
}

/* The instance that it is a closure of; NULL after a diagnostic. */
static const Instance *instance_of(const Object *fn)
{
    return unit_wake(info_of(fn)->unit) ? info_of(fn)->in : NULL;
}

/* ---- what it was made from ------------------------------------------------------------------------------------------ */

/* The functions around it that capture nothing are no fields of the closure; each is found behind those that use it. */
typedef struct Around {
    Arena arena;
    PtrMap seen;
    Vec(const Instance *) found;
} Around;

static void note_around(Around *a, const Instance *in)
{
    if (!in || ptrmap_has(&a->seen, in))
        return;
    ptrmap_put(&a->seen, in, a);
    vec_push(&a->found, &a->arena, in);
}

static const PtrMap *known_of(const Instance *in)
{
    return in->of ? &in->of->known : &in->known;
}

static void find_around(Around *a, const Instance *in)
{
    arena_init(&a->arena, NULL);
    note_around(a, in);
    for (size_t at = 0; at < a->found.n; at++) {
        in = a->found.at[at];
        for (size_t i = 0; i < in->captures.n; i++)
            note_around(a, in->captures.at[i].known);
        for (size_t i = 0; i < known_of(in)->n; i++)
            note_around(a, known_of(in)->entries[i].value);
    }
}

static void forget_around(Around *a)
{
    ptrmap_deinit(&a->seen);
    arena_deinit(&a->arena);
}

/* What is looked for: one of the names, or one that does not fit the module. */
typedef struct Using {
    const PtrMap *names;
    const Module *env;
    const Name *found;
} Using;

static WalkNext note_use(void *data, const Expr *e)
{
    Using *u = data;
    const GlobalVar *global = expr_as_global(e);
    if (global && (u->env ? !module_defines(u->env, global->name, e->type)
                          : ptrmap_has(u->names, global->name)))
        u->found = global->name;
    return u->found ? WALK_STOP : WALK_ON;
}

static const Name *find_use(const Object *fn, Using u)
{
    Around a = {0};
    find_around(&a, instance_of(fn));
    for (size_t i = 0; i < a.found.n && !u.found; i++)
        ir_walk(&a.found.at[i]->fn->base, note_use, NULL, &u);
    forget_around(&a);
    return u.found;
}

static const Name *function_uses(const Object *fn, const PtrMap *names)
{
    return find_use(fn, (Using){.names = names});
}

static const Name *function_misfit(const Object *fn, const Module *env)
{
    return find_use(fn, (Using){.env = env});
}

/* The literal, bound to the variable that it is called by. */
static Expr *bound(Arena *arena, const Instance *in, Var *v, Expr *body)
{
    Expr *fn = (Expr *)(uintptr_t)&in->fn->base;
    if (in->self_var && in->self_var != v)
        fn = expr_let(arena, fn->span, in->self_var, fn, &in->self_var->base);
    return v ? expr_let(arena, fn->span, v, fn, body ? body : &v->base) : fn;
}

/* The arguments before each round in which tuples were opened (open_tuples.h): the types that the definition takes, then of what came of
 * these. False for a call that takes them as they are. */
typedef struct Rounds {
    const Signature *signature;
    const Type **types[SIGNATURE_ROUNDS + 1];
    uint32_t n[SIGNATURE_ROUNDS + 1];
} Rounds;

static uint32_t fields_of(const Rounds *r, int round, uint32_t i)
{
    return i < 64 && r->signature->opened[round] >> i & 1 ? r->types[round][i]->n : 0;
}

static bool find_rounds(Arena *arena, const Function *callee, uint32_t n, Rounds *r)
{
    r->n[0] = callee->params.n;
    r->types[0] = arena_new_array(arena, const Type *, r->n[0] + 1);
    for (uint32_t i = 0; i < r->n[0]; i++)
        r->types[0][i] = callee->params.at[i]->base.type;
    for (int k = 0; k < SIGNATURE_ROUNDS; k++) {
        r->n[k + 1] = 0;
        r->types[k + 1] = arena_new_array(arena, const Type *, n + 1);
        for (uint32_t i = 0; i < r->n[k]; i++) {
            const Type *t = r->types[k][i];
            uint32_t fields = fields_of(r, k, i);
            for (uint32_t j = 0; j < (fields ? fields : 1); j++) {
                if (r->n[k + 1] == n)
                    return false;
                r->types[k + 1][r->n[k + 1]++] = fields ? t->parts[j] : t;
            }
        }
    }
    return r->n[SIGNATURE_ROUNDS] == n;
}

/* A call that hands on the fields of tuples makes the tuples again, which the definition takes as it was written. */
static Expr *written_call(Rewriter *rw, const Expr *old, Expr *now)
{
    const Unit *u = rw->data;
    const Call *call = expr_as_call(now);
    const GlobalVar *g = call ? expr_as_global(call->callee) : NULL;
    const Def *def = g ? module_find(u->env, g->name) : NULL;
    Arena *arena = &rw->module->arena;
    Rounds r = {.signature = g ? ptrmap_find(&u->signatures, g->name) : NULL};
    if (r.signature && def && def->fn && find_rounds(arena, def->fn, call->args.n, &r)) {
        Expr **args = call->args.at;
        for (int k = SIGNATURE_ROUNDS - 1; k >= 0; k--) {
            Expr **outer = arena_new_array(arena, Expr *, r.n[k] + 1);
            for (uint32_t i = 0, at = 0; i < r.n[k]; i++) {
                uint32_t fields = fields_of(&r, k, i);
                outer[i] = args[at];
                if (fields) {
                    outer[i] = expr_tuple(arena, now->span, fields, args + at);
                    outer[i]->type = r.types[k][i];
                }
                at += fields ? fields : 1;
            }
            args = outer;
        }
        now = expr_call(arena, now->span, call->callee, r.n[0], args, call->attrs);
    }
    now->type = now->type ? now->type : old->type;
    return now;
}

/* The expression as the definitions that were written take it. */
static Expr *as_written(const Unit *u, Module *into, Expr *e)
{
    if (u->signatures.n == 0)
        return e;
    Rewriter rw;
    rewriter_init(&rw, u->jit->cx, into, written_call, (void *)(uintptr_t)u);
    e = ir_rewrite(&rw, e);
    rewriter_deinit(&rw);
    return e;
}

/* Functions that are found later are used by those found before, so their bindings go around. */
static struct Expr *function_source(const Object *fn, struct Module *into, PtrMap *locals)
{
    const Instance *self = instance_of(fn);
    Around a = {0};
    if (!self)
        return NULL;
    PtrMap done = {0};
    find_around(&a, self);
    module_use(into, info_of(fn)->unit->code);
    Expr *e = bound(&into->arena, self, self->self_var, NULL);
    Value *captured = arena_new_array(&into->arena, Value, self->captures.n + 1);
    for (size_t i = 0; i < self->captures.n; i++) {
        captured[i] = object_get(fn, FUNCTION_CAPTURED + (uint32_t)i);
        ptrmap_put(locals, self->captures.at[i].var, &captured[i]);
    }
    for (size_t i = 0; i < a.found.n; i++) {
        const PtrMap *known = known_of(a.found.at[i]);
        for (size_t k = 0; k < known->n; k++) {
            Var *v = (Var *)(uintptr_t)known->entries[k].key;
            if (!v || ptrmap_has(&done, v))
                continue;
            ptrmap_put(&done, v, e);
            e = bound(&into->arena, known->entries[k].value, v, e);
        }
    }
    ptrmap_deinit(&done);
    forget_around(&a);
    return as_written(info_of(fn)->unit, into, e);
}

static bool function_renew(Object *fn, Module *env)
{
    FunctionInfo *info = info_of(fn);
    bool ok = unit_renew(info->unit, env);
    fn->fields[FUNCTION_CODE].bits = (uint64_t)(uintptr_t)info->code;
    return ok;
}

const FunctionKind compiled_functions = {
    .call = function_call,
    .type = function_type_of,
    .uses = function_uses,
    .misfit = function_misfit,
    .source = function_source,
    .renew = function_renew,
};
