#include "jit/signature.h"

#include "base/limit.h"
#include "ir/walk.h"
#include "jit/outline.h"
#include "passes/declared_shapes.h"
#include "passes/to_a_normal_form.h"
#include "passes/types.h"

/* Fields of a tuple, and parameters of a function, that registers are likely to have room for. */
#define FIELDS_MOST 8
#define PARAMS_MOST 16

/* A parameter that is handed on. */
typedef struct Passing {
    uint32_t param;
    const Name *callee;
    uint32_t at;
} Passing;

typedef struct Candidate Candidate;
struct Candidate {
    const Def *def;
    Function *form;
    Signature *signature;
    uint64_t may, looked; /* parameters, as bits */
    Vec(Passing) passings;
    bool may_give, writes; /* the fields of its result */
    Vec(const Name *) ends; /* what it calls in tail position */
    Vec(Candidate *) users; /* that ask for what is known of it */
    bool queued;
};

typedef struct Search {
    Gen *g;
    Arena arena;
    PtrMap reached; /* Name -> Candidate; NULL for one without tuples */
    Vec(const Def *) defs;
    Vec(Candidate *) candidates, todo;
    unsigned round;
    Candidate *at;
    const Expr *node;
    PtrMap params; /* of the candidate at hand: Var -> position + 1 */
} Search;

static bool is_small_tuple(Ctx *cx, const Type *type)
{
    const Type *t = type ? type_resolve(cx, type) : NULL;
    return t && tuple_is_worth_opening(t) && t->n <= FIELDS_MOST;
}

static bool may_open(Ctx *cx, const Var *param)
{
    return is_small_tuple(cx, param->base.type);
}

static bool may_give(Ctx *cx, const Function *fn)
{
    return is_small_tuple(cx, fn->body->type) && fields_fit(type_resolve(cx, fn->body->type));
}

/* The parameters that are tuples, as bits, as long as all is not too much. */
static uint64_t tuples_of(Ctx *cx, const Function *fn)
{
    uint64_t tuples = 0;
    uint32_t n = fn->params.n;
    for (uint32_t i = 0; i < fn->params.n && i < PARAMS_MOST; i++) {
        const Var *v = fn->params.at[i];
        if (!may_open(cx, v) || n - 1 + type_resolve(cx, v->base.type)->n > PARAMS_MOST)
            continue;
        n += type_resolve(cx, v->base.type)->n - 1;
        tuples |= (uint64_t)1 << i;
    }
    return tuples;
}

/* ---- what is reached ------------------------------------------------------------------------------------------- */

static void reach(Search *s, const Name *name)
{
    const Def *def = module_find(s->g->env, name);
    if (ptrmap_has(&s->reached, name) || !def || !def->fn)
        return;
    ptrmap_put(&s->reached, name, NULL);
    vec_push(&s->defs, &s->arena, def);
    bool gives = may_give(s->g->cx, def->fn);
    if (function_is_primitive(def->fn) || attrs_find(def->fn->attrs, "Compiler") ||
        (!gives && !tuples_of(s->g->cx, def->fn)))
        return;
    Candidate *c = arena_new(&s->arena, Candidate);
    c->def = def;
    c->may_give = gives;
    ptrmap_put(&s->reached, name, c);
    vec_push(&s->candidates, &s->arena, c);
}

static WalkNext note_reached(void *data, const Expr *e)
{
    const GlobalVar *global = expr_as_global(e);
    if (global)
        reach(data, global->name);
    return WALK_ON;
}

/* ---- what is done with parameters -------------------------------------------------------------------------------- */

static uint64_t bit_of(const Search *s, const Expr *e)
{
    uintptr_t i = (uintptr_t)ptrmap_find(&s->params, e);
    return i ? (uint64_t)1 << (i - 1) : 0;
}

/* The one at hand asks for what is known of the definition. */
static void note_user(Search *s, const Name *name)
{
    Candidate *used = ptrmap_find(&s->reached, name);
    if (used)
        vec_push(&used->users, &s->arena, s->at);
}

static void note_passing(Search *s, const Call *call, Expr *const *slot)
{
    const Name *callee = expr_as_global(call->callee)->name;
    uint32_t param = (uint32_t)(uintptr_t)ptrmap_find(&s->params, *slot) - 1;
    vec_push(&s->at->passings, &s->arena,
             ((Passing){param, callee, (uint32_t)(slot - call->args.at)}));
    note_user(s, callee);
}

static void note_slot(void *data, Expr *const *slot)
{
    Search *s = data;
    Candidate *c = s->at;
    uint64_t bit = bit_of(s, *slot);
    const Call *call = expr_as_call(s->node);
    const Match *match = expr_as_match(s->node);
    if (!bit || expr_is_end(s->node, slot))
        return;
    bool looks = s->node->kind == EXPR_TUPLE_GET ||
                 (match && slot == &match->scrutinee && match_only_looks(match));
    if (looks)
        c->looked |= bit;
    else if (call && call->callee->kind == EXPR_GLOBAL && slot != &call->callee)
        note_passing(s, call, slot);
    else
        c->may &= ~bit;
}
static void note_captured(void *data, Var *v)
{
    Search *s = data;
    s->at->may &= ~bit_of(s, &v->base);
}

static WalkNext note_uses(void *data, const Expr *e)
{
    Search *s = data;
    if (e->kind == EXPR_FUNCTION && e != &s->at->form->base) {
        ir_free_vars(e, note_captured, s);
        return WALK_SKIP;
    }
    s->node = e;
    ir_children(e, note_slot, s);
    return WALK_ON;
}

static void look_at(Search *s, Candidate *c)
{
    s->at = c;
    c->may = tuples_of(s->g->cx, c->form);
    c->looked = 0;
    c->passings.n = 0;
    ptrmap_clear(&s->params);
    for (uint32_t i = 0; i < c->form->params.n && i < PARAMS_MOST; i++)
        if (c->may >> i & 1)
            ptrmap_put(&s->params, c->form->params.at[i], (void *)(uintptr_t)(i + 1));
    ir_walk(&c->form->base, note_uses, NULL, s);
    c->looked &= c->may;
}

/* ---- which of them come field by field ------------------------------------------------------------------------------ */

static bool has_bit(const Search *s, const Passing *p, bool looked)
{
    const Candidate *c = ptrmap_find(&s->reached, p->callee);
    return c && p->at < PARAMS_MOST && ((looked ? c->looked : c->may) >> p->at & 1);
}

/* What is handed on to one that is looked into is so too; what is handed on to one that comes as a whole does as well. */
static bool settle_param(const Search *s, Candidate *c)
{
    uint64_t may = c->may, looked = c->looked;
    for (size_t i = 0; i < c->passings.n; i++) {
        const Passing *p = &c->passings.at[i];
        if (!has_bit(s, p, false))
            c->may &= ~((uint64_t)1 << p->param);
        if (has_bit(s, p, true))
            c->looked |= (uint64_t)1 << p->param;
    }
    c->looked &= c->may;
    return c->may != may || c->looked != looked;
}

static void ask_again(Search *s, Candidate *c)
{
    if (!c->queued)
        vec_push(&s->todo, &s->arena, c);
    c->queued = true;
}

/* Until nothing changes: what changed is asked again by those that use it. */
static void settle(Search *s, bool (*one)(const Search *s, Candidate *c))
{
    for (size_t i = 0; i < s->candidates.n; i++)
        ask_again(s, s->candidates.at[i]);
    while (s->todo.n > 0) {
        Candidate *c = vec_pop(&s->todo);
        c->queued = false;
        for (size_t i = 0, n = one(s, c) ? c->users.n : 0; i < n; i++)
            ask_again(s, c->users.at[i]);
    }
}

/* Whether any does in this round. */
static bool choose(Search *s)
{
    bool any = false;
    for (size_t i = 0; i < s->candidates.n; i++)
        look_at(s, s->candidates.at[i]);
    uint64_t left;
    do {
        settle(s, settle_param);
        left = 0;
        for (size_t i = 0; i < s->candidates.n; i++) {
            Candidate *c = s->candidates.at[i];
            left |= c->may & ~c->looked;
            c->may = c->looked;
        }
    } while (left);
    for (size_t i = 0; i < s->candidates.n; i++) {
        const Candidate *c = s->candidates.at[i];
        c->signature->opened[s->round] = c->may;
        if (c->may)
            ptrmap_put(&s->g->unit->signatures, c->def->name, c->signature);
        any |= c->may != 0;
    }
    return any;
}

/* ---- results ------------------------------------------------------------------------------------------------------ */

typedef Vec(const Expr *) Blocks;

/* What the block ends with; blocks inside it that it ends with are to come. */
static void look_at_end(Search *s, Candidate *c, const Expr *e, Blocks *blocks)
{
    const Let *last = NULL;
    for (const Let *let = expr_as_let(e); let; let = expr_as_let(e)) {
        last = let_is_last(let) ? let : NULL;
        e = let->body;
    }
    const Expr *value = last ? last->value : NULL;
    const If *branch = expr_as_if(value);
    const Match *match = expr_as_match(value);
    const Call *call = expr_as_call(value);
    const GlobalVar *callee = call ? expr_as_global(call->callee) : NULL;
    if (branch) {
        vec_push(blocks, &s->arena, branch->then);
        vec_push(blocks, &s->arena, branch->otherwise);
    } else if (match) {
        for (uint32_t i = 0; i < match->clauses.n; i++)
            vec_push(blocks, &s->arena, match->clauses.at[i].body);
    } else if (callee) {
        vec_push(&c->ends, &s->arena, callee->name);
        note_user(s, callee->name);
    } else if (value && value->kind == EXPR_TUPLE) {
        c->writes = true;
    } else {
        c->may_give = false;
    }
}

static void look_at_ends(Search *s, Candidate *c)
{
    s->at = c;
    Blocks blocks = {0};
    vec_push(&blocks, &s->arena, c->form->body);
    while (c->may_give && blocks.n > 0)
        look_at_end(s, c, vec_pop(&blocks), &blocks);
}

static bool settle_result(const Search *s, Candidate *c)
{
    bool may = c->may_give, writes = c->writes;
    for (size_t i = 0; i < c->ends.n && c->may_give; i++) {
        const Candidate *callee = ptrmap_find(&s->reached, c->ends.at[i]);
        c->may_give = callee && callee->may_give;
        c->writes |= c->may_give && callee->writes;
    }
    return c->may_give != may || c->writes != writes;
}

/* Results come field by field where each end of the function may, and some write them. */
static bool choose_results(Search *s)
{
    for (size_t i = 0; i < s->candidates.n; i++)
        look_at_ends(s, s->candidates.at[i]);
    bool any = false;
    settle(s, settle_result);
    for (size_t i = 0; i < s->candidates.n; i++) {
        Candidate *c = s->candidates.at[i];
        c->signature->gives_fields = c->may_give && c->writes;
        if (c->signature->gives_fields)
            ptrmap_put(&s->g->unit->signatures, c->def->name, c->signature);
        any |= c->signature->gives_fields;
    }
    return any;
}

/* ---- forms -------------------------------------------------------------------------------------------------------- */

static Function *opened_form(Gen *g, Function *fn, const Signature *own, unsigned round)
{
    Opens opens = {&g->unit->signatures, round, own ? own->opened[round] : 0, false};
    return fn ? open_tuples(g->cx, g->code, fn, &opens) : NULL;
}

static Function *form_with_results(Gen *g, Function *fn)
{
    Opens opens = {.signatures = &g->unit->signatures, .results = true};
    return fn && g->unit->results ? open_tuples(g->cx, g->code, fn, &opens) : fn;
}

/* Second names of global functions. */
static WalkNext note_second_name(void *data, const Expr *e)
{
    const Let *let = expr_as_let(e);
    Expr *global = let && expr_as_global(let->value) ? let->value : NULL;
    if (let && expr_as_var(let->value))
        global = ptrmap_find(data, let->value);
    if (global)
        ptrmap_put(data, let->var, global);
    return WALK_ON;
}

static Expr *call_by_name(Rewriter *rw, const Expr *old, Expr *now)
{
    const Call *call = expr_as_call(old);
    Expr *global = call ? ptrmap_find(rw->data, call->callee) : NULL;
    expr_keep_type(now, old);
    if (!global)
        return now;
    const Call *is = expr_as_call(now);
    Expr *direct =
        expr_call(&rw->module->arena, now->span, global, is->args.n, is->args.at, is->attrs);
    expr_keep_type(direct, old);
    return direct;
}

/* Calls go to global functions themselves: which of their arguments are opened is looked up by the callee. */
static Function *with_direct_calls(Gen *g, Function *fn)
{
    PtrMap names = {0};
    ir_walk(&fn->base, note_second_name, NULL, &names);
    if (names.n) {
        Rewriter rw;
        rewriter_init(&rw, g->cx, g->code, call_by_name, &names);
        fn = expr_as_function(ir_rewrite(&rw, &fn->base));
        rewriter_deinit(&rw);
    }
    ptrmap_deinit(&names);
    return fn;
}

/* What the pipeline saw has its checks of shapes; a definition that is compiled as written gets them here. */
static Expr *checked_form(Gen *g, const Function *fn, const Name *name)
{
    Expr *e = (Expr *)(uintptr_t)&fn->base;
    const Def *def = name ? module_find(g->env, name) : NULL;
    return def && g->unit->level == 0 ? declared_shapes(g->cx, g->code, g->env, NULL, def->home, e)
                                      : e;
}

static Function *plain_form(Gen *g, const Function *fn, const Name *name)
{
    Expr *checked = checked_form(g, fn, name);
    Function *now = checked ? expr_as_function(to_anf_unnamed(g->cx, g->code, checked)) : NULL;
    now = now ? with_direct_calls(g, now) : NULL;
    return now && !live_is_group(now) ? open_tuples(g->cx, g->code, now, NULL) : now;
}

/* Whether the function has tuples where the signature says; one that replaces another by that name may not. */
static bool fits(Gen *g, const Function *fn, uint64_t opened)
{
    for (uint32_t i = 0; i < 64; i++)
        if ((opened >> i & 1) && (i >= fn->params.n || !may_open(g->cx, fn->params.at[i])))
            return gen_refuse(g, "a definition takes other arguments than before");
    return true;
}

static Function *last_form(Gen *g, Function *fn)
{
    fn = closed_once(g, fn);
    fn = fn ? rebuilt_once(g, fn) : NULL;
    return fn ? outline_large(g->cx, g->code, fn) : NULL;
}

#ifndef NDEBUG
/* What is made of a function uses no other variables from outside. */
static bool is_sound(Gen *g, const Function *was, const Function *now)
{
    PtrMap before = {0}, behind = {0};
    const Var *lost = NULL;
    ir_free_set(&was->base, &before);
    ir_free_set(&now->base, &behind);
    for (size_t i = 0; i < behind.n; i++)
        lost = ptrmap_has(&before, behind.entries[i].key) ? lost : behind.entries[i].key;
    ptrmap_deinit(&before);
    ptrmap_deinit(&behind);
    if (lost)
        diag_bug(g->cx->diags, lost->base.span,
                 "the JIT's form of a function lost what binds `%%%s`", lost->name->text);
    return !lost;
}
#else
static bool is_sound(Gen *g, const Function *was, const Function *now)
{
    (void)g;
    (void)was;
    (void)now;
    return true;
}
#endif

static Function *made_form(Gen *g, const Function *fn, const Name *name, const Signature *own)
{
    Function *now = plain_form(g, fn, name);
    if (!now || live_is_group(now))
        return now;
    for (unsigned round = 0; now && round < g->unit->rounds; round++) {
        if (own && !fits(g, now, own->opened[round]))
            return NULL;
        now = opened_form(g, now, own, round);
    }
    now = form_with_results(g, now);
    return now ? last_form(g, now) : NULL;
}

Function *signature_form(Gen *g, const Function *fn, const Name *name)
{
    Function *now = ptrmap_find(&g->unit->anf, fn);
    if (now)
        return now;
    now = made_form(g, fn, name, name ? ptrmap_find(&g->unit->signatures, name) : NULL);
    /* A literal is looked at with the definition that it stands in: literals may be nested deep. */
    if (now && name && !is_sound(g, fn, now))
        return NULL;
    if (now)
        ptrmap_put(&g->unit->anf, fn, now);
    return now;
}

/* `fn (…) { @def(…) }`, which takes the tuples apart. */
static Function *value_form(Gen *g, const Def *def)
{
    const Function *fn = def->fn;
    Arena *a = &g->code->arena;
    uint32_t n = fn->params.n;
    Var **params = arena_new_array(g->arena, Var *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        const Var *was = fn->params.at[i];
        params[i] = expr_var(a, was->base.span, was->name, was->annotation);
        params[i]->base.type = was->base.type;
    }
    Span span = fn->base.span;
    Call *call = expr_as_call(
        expr_call(a, span, expr_global(a, span, def->name), n, (Expr *const *)params, NULL));
    call->base.type = fn->body->type;
    const Type **types = arena_alloc_must(a, fn->type_params.n + 1, sizeof *types);
    for (uint32_t i = 0; i < fn->type_params.n; i++)
        types[i] = type_var(g->cx, fn->type_params.at[i]);
    call->type_args = (TypeList){types, fn->type_params.n};
    Function *now =
        expr_function(a, span, fn->type_params, n, params, NULL, fn->ret_type, &call->base);
    now->base.type = fn->base.type;
    return now;
}

bool signature_gives_fields(const Gen *g, const Name *name)
{
    const Signature *s = ptrmap_find(&g->unit->signatures, name);
    return s && s->gives_fields;
}

bool signature_opens(const Gen *g, const Name *name)
{
    const Signature *s = ptrmap_find(&g->unit->signatures, name);
    bool opens = false;
    for (unsigned round = 0; s && round < SIGNATURE_ROUNDS; round++)
        opens |= s->opened[round] != 0;
    return opens;
}

Function *signature_value(Gen *g, const Def *def)
{
    const Signature *s = ptrmap_find(&g->unit->signatures, def->name);
    if (!s)
        return signature_form(g, def->fn, def->name);
    Function *written = ptrmap_find(&g->unit->values, def->fn);
    if (!written)
        ptrmap_put(&g->unit->values, def->fn, written = value_form(g, def));
    return signature_form(g, written, NULL);
}

/* ---- all of them ---------------------------------------------------------------------------------------------------- */

static bool find_all(Search *s)
{
    Gen *g = s->g;
    for (size_t i = 0; i < s->candidates.n; i++) {
        Candidate *c = s->candidates.at[i];
        c->form = plain_form(g, c->def->fn, c->def->name);
        c->signature = arena_new(g->arena, Signature);
        if (!c->form)
            return false;
    }
    for (; s->round < SIGNATURE_ROUNDS && choose(s); s->round++)
        for (size_t i = 0; i < s->candidates.n; i++) {
            Candidate *c = s->candidates.at[i];
            c->form = opened_form(g, c->form, c->signature, s->round);
            if (!c->form)
                return false;
        }
    g->unit->rounds = s->round;
    g->unit->results = choose_results(s);
    for (size_t i = 0; i < s->candidates.n; i++) {
        const Candidate *c = s->candidates.at[i];
        Function *form = form_with_results(g, c->form);
        form = form && !live_is_group(form) ? last_form(g, form) : form;
        if (!form || !is_sound(g, c->def->fn, form))
            return false;
        ptrmap_put(&g->unit->anf, c->def->fn, form);
    }
    return true;
}

void signatures_find(Gen *g, const Name *root)
{
    Search s = {.g = g};
    arena_init(&s.arena, &g->cx->limits);
    reach(&s, root);
    for (size_t i = 0; i < s.defs.n; i++)
        ir_walk(&s.defs.at[i]->fn->base, note_reached, NULL, &s);
    if (s.candidates.n > 0)
        g->failed |= !find_all(&s);
    ptrmap_deinit(&s.reached);
    ptrmap_deinit(&s.params);
    arena_deinit(&s.arena);
}
