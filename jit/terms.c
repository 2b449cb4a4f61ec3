/* Copies of functions for calls of which more is known than types: which arguments the caller lends, because they live longer than the
 * call, and which functions are given as arguments, so that they are called by name and may stand where they are called; and whether a cell comes
 * along for an object that the function makes. */
#include "ir/walk.h"
#include "jit/internal.h"

#include <string.h>

/* Calls that are looked through for what they do with their arguments. */
#define DEPTH_MOST 4
/* Copies of one function that are given others. */
#define GIVEN_MOST 8
/* Functions that are given to ones that are given to others, and so on. */
#define GIVEN_DEPTH_MOST 6

/* Numbers that a closure captured and that go in its place: with the arguments they come in registers. */
#define SPREAD_MOST 3

/* Parameters, as bits. */
typedef struct Handling {
    uint64_t looked; /* that a function takes apart, or hands to one that does */
    uint64_t called; /* the same of calling; functions that stand in it count */
} Handling;

typedef struct Search {
    Gen *g;
    const Function *fn;
    const Name *self; /* the definition; NULL: it is none */
    Handling *of;
    unsigned depth; /* of calls that are looked through */
} Search;

static const Handling *handling(Gen *g, const Function *fn, const Name *self, unsigned depth);

/* The parameters that are this operand, as bits. */
static uint64_t params_that_are(const Function *fn, const Expr *e)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < fn->params.n && i < TERMS_PARAMS_MOST; i++)
        bits |= (uint64_t)(e == &fn->params.at[i]->base) << i;
    return bits;
}

static Handling handling_of_callee(const Search *s, const Call *call)
{
    const GlobalVar *callee = expr_as_global(call->callee);
    const Def *def = callee ? module_find(s->g->env, callee->name) : NULL;
    if (callee && callee->name == s->self)
        return *s->of;
    if (!def || s->depth == 0)
        return (Handling){0};
    return *handling(s->g, definition_form(s->g, def), callee->name, s->depth - 1);
}

static void note_call(Search *s, const Call *call, bool inside)
{
    Handling does = handling_of_callee(s, call);
    s->of->called |= params_that_are(s->fn, call->callee);
    for (uint32_t i = 0; (does.looked | does.called) && i < call->args.n && i < TERMS_PARAMS_MOST;
         i++) {
        uint64_t params = params_that_are(s->fn, call->args.at[i]);
        s->of->looked |= does.looked >> i & 1 && !inside ? params : 0;
        s->of->called |= does.called >> i & 1 ? params : 0;
    }
}

/* In a function that stands in it. */
static WalkNext note_inside(void *data, const Expr *e)
{
    if (expr_as_call(e))
        note_call(data, expr_as_call(e), true);
    return WALK_ON;
}

static WalkNext note_handling(void *data, const Expr *e)
{
    Search *s = data;
    if (e->kind == EXPR_FUNCTION && e != &s->fn->base) {
        ir_walk(e, note_inside, NULL, s);
        return WALK_SKIP;
    }
    const Match *match = expr_as_match(e);
    for (uint32_t i = 0; match && i < s->fn->params.n && i < TERMS_PARAMS_MOST; i++)
        if (match_looks_at(match, s->fn->params.at[i]))
            s->of->looked |= (uint64_t)1 << i;
    if (expr_as_call(e))
        note_call(s, expr_as_call(e), false);
    return WALK_ON;
}

/* Of a definition whose calls lead back here what was found so far. */
static const Handling *handling(Gen *g, const Function *fn, const Name *self, unsigned depth)
{
    static const Handling none;
    Handling *of = fn ? ptrmap_find(&g->unit->handling, fn) : NULL;
    if (of || !fn)
        return of ? of : &none;
    of = arena_new(g->arena, Handling);
    ptrmap_put(&g->unit->handling, fn, of);
    Handling before;
    do {
        before = *of;
        ir_walk(&fn->base, note_handling, NULL, &(Search){g, fn, self, of, depth});
    } while (of->looked != before.looked || of->called != before.called);
    return of;
}

static const Handling *instance_handling(Gen *g, const Instance *in)
{
    static const Handling none;
    bool plain = in->fn && !in->late && !in->open;
    return plain ? handling(g, in->fn, in->global, DEPTH_MOST) : &none;
}

uint64_t instance_lendable(Gen *g, const Instance *in)
{
    return instance_handling(g, in)->looked;
}

uint64_t instance_called(Gen *g, const Instance *in)
{
    return instance_handling(g, in)->called;
}

bool instance_takes_lent(Gen *g, const Name *global, uint32_t arg)
{
    const Function *fn = definition_form(g, module_find(g->env, global));
    return fn && arg < TERMS_PARAMS_MOST &&
           (handling(g, fn, global, DEPTH_MOST)->looked >> arg & 1);
}

/* ---- functions that are given ---------------------------------------------------------------------------------- */

Instance *instance_given(const Instance *in, uint32_t param)
{
    return in->terms.given ? in->terms.given[param] : NULL;
}

bool instance_goes_without(const Instance *in, uint32_t param)
{
    const Instance *given = instance_given(in, param);
    return given && !given->has_self;
}

bool instance_is_spread(const Instance *in)
{
    bool spread =
        in->has_self && !in->open && !in->of && !in->late && in->captures.n <= SPREAD_MOST;
    for (size_t i = 0; i < in->captures.n && spread; i++)
        spread = repr_of(in->captures.at[i].type).kind == REPR_SCALAR;
    return spread;
}

bool instance_takes_spread(const Instance *in, uint32_t param)
{
    const Instance *given = instance_given(in, param);
    return given && instance_is_spread(given);
}

bool instance_is_lent(const Instance *in, uint32_t param)
{
    return (param < TERMS_PARAMS_MOST && (in->terms.lent >> param & 1)) ||
           instance_goes_without(in, param) || instance_takes_spread(in, param);
}

/* ---- cells that come along ------------------------------------------------------------------------------------- */

/* Parameters of a function that takes one: with it they come in registers. */
#define SPARE_PARAMS_MOST 4

uint64_t definition_takes_spare(Gen *g, const Instance *caller, const Name *callee)
{
    const Function *fn = definition_form(g, module_find(g->env, callee));
    bool takes = fn && fn->params.n <= SPARE_PARAMS_MOST && callee != caller->global;
    return takes ? cell_sizes(g, fn, callee) : 0;
}

uint32_t instance_takes_spare(Gen *g, const Instance *caller, const Instance *in, uint64_t sizes)
{
    bool named = in->fn && in->global && instance_is_called_by_name(g, in);
    sizes &= sizes && named ? definition_takes_spare(g, caller, in->global) : 0;
    uint32_t n = 0;
    for (; sizes; sizes >>= 1)
        n++;
    return n > 0 ? n - 1 : 0;
}

/* Whether the function is, stands in, or is given to a copy of this one: with it as argument there would be ever more copies. */
static bool stands_in(const Instance *in, const Function *fn, unsigned depth)
{
    bool stands = depth == 0;
    for (; in && !stands; in = in->home) {
        stands = in->fn == fn;
        for (uint32_t i = 0; i < in->n && !stands; i++)
            stands = instance_given(in, i) && stands_in(instance_given(in, i), fn, depth - 1);
    }
    return stands;
}

bool instance_may_be_given(Gen *g, Instance *in, uint32_t param, const Instance *given)
{
    return in->global && param < TERMS_PARAMS_MOST && (instance_called(g, in) >> param & 1) &&
           !given->open && !given->late && !given->of &&
           in->params[param] == type_func(g->cx, 0, NULL, given->n, given->params, given->result) &&
           !stands_in(given, in->fn, GIVEN_DEPTH_MOST);
}

static bool same_given(const Instance *in, Instance *const *given)
{
    for (uint32_t i = 0; i < in->n; i++)
        if (instance_given(in, i) != (given ? given[i] : NULL))
            return false;
    return true;
}

/* The copy on such terms; `*n` are given functions. */
static Instance *found(Instance *own, const Terms *terms, uint32_t *n)
{
    *n = 0;
    for (Instance *copy = own->copies; copy; copy = copy->copies) {
        *n += copy->terms.given != NULL;
        if (copy->terms.lent == terms->lent && copy->terms.lends_self == terms->lends_self &&
            copy->terms.lends_result == terms->lends_result &&
            copy->terms.spread == terms->spread && copy->terms.spare == terms->spare &&
            same_given(copy, terms->given))
            return copy;
    }
    return NULL;
}

Instance *instance_on(Gen *g, Instance *in, Terms terms)
{
    Instance *own = in->own ? in->own : in;
    uint32_t n;
    Instance *copy = found(own, &terms, &n);
    if (!copy && terms.given && n >= GIVEN_MOST) {
        terms.given = NULL;
        copy = found(own, &terms, &n);
    }
    if (copy || (!terms.lent && !terms.lends_self && !terms.spread && !terms.spare && !terms.given))
        return copy ? copy : own;
    copy = arena_new(g->arena, Instance);
    *copy = *own;
    copy->symbol = NULL;
    copy->number = copy->thunk_number = 0;
    copy->variants = NULL;
    copy->info = NULL;
    copy->inner = NULL;
    copy->behind = NULL;
    copy->judged = false;
    copy->terms = terms;
    copy->own = own;
    own->copies = copy;
    return copy;
}
