/* Modules: definitions in the order of dependence, and what is reported when nothing more can be learnt. */
#include "typecheck/internal.h"
#include "ir/verify.h"
#include "ir/walk.h"

/* ---- the call graph -------------------------------------------------------------------------------------------------------- */

typedef struct Node {
    const Def *def;
    uint32_t *calls; /* positions of the definitions that its body names */
    uint32_t n_calls, next; /* next: the call that the search looks at */
    uint32_t order, low; /* order of discovery from 1; 0: not seen */
    bool on_stack;
} Node;

/* Tarjan's strongly connected components, without recursion: cycles come out callees first. */
typedef struct Graph {
    Checker *ck;
    Node *nodes;
    uint32_t n, found;
    Vec(uint32_t) path; /* the search */
    Vec(uint32_t) stack; /* seen and not yet in a component */
    Vec(uint32_t) calls; /* of the body being walked */
} Graph;

static WalkNext note_call(void *data, const Expr *e)
{
    Graph *g = data;
    if (checker_ends(g->ck))
        return WALK_STOP;
    /* Below a typed node nothing is inferred any more. */
    if (e->type && !e->type->open)
        return WALK_SKIP;
    const GlobalVar *global = expr_as_global(e);
    const Def *def = global ? module_find(g->ck->m, global->name) : NULL;
    if (def)
        vec_push(&g->calls, &g->ck->scratch, (uint32_t)(def - g->ck->m->defs.at));
    return WALK_ON;
}

static void graph_node(Graph *g, uint32_t i)
{
    Node *node = &g->nodes[i];
    node->def = &g->ck->m->defs.at[i];
    if (!node->def->fn || node->def->fn->base.type)
        return;
    g->calls.n = 0;
    ir_walk(&node->def->fn->base, note_call, NULL, g);
    node->calls = arena_copy(&g->ck->scratch, g->calls.at, g->calls.n * sizeof *g->calls.at);
    node->n_calls = node->calls ? (uint32_t)g->calls.n : 0;
}

static void discover(Graph *g, uint32_t i)
{
    g->nodes[i].order = g->nodes[i].low = ++g->found;
    g->nodes[i].on_stack = true;
    vec_push(&g->path, &g->ck->scratch, i);
    vec_push(&g->stack, &g->ck->scratch, i);
}

static void infer_cycle(Graph *g, uint32_t from);

/* The search leaves the node on top of the path: all it reaches has been seen. */
static void leave(Graph *g)
{
    uint32_t i = vec_pop(&g->path);
    Node *node = &g->nodes[i];
    if (g->path.n && g->nodes[vec_last(&g->path)].low > node->low)
        g->nodes[vec_last(&g->path)].low = node->low;
    if (node->low != node->order)
        return;
    uint32_t from = (uint32_t)g->stack.n;
    do {
        from--;
        g->nodes[g->stack.at[from]].on_stack = false;
    } while (g->stack.at[from] != i);
    infer_cycle(g, from);
    g->stack.n = from;
}

static void search(Graph *g, uint32_t root)
{
    discover(g, root);
    while (g->path.n) {
        Node *node = &g->nodes[vec_last(&g->path)];
        if (node->next == node->n_calls) {
            leave(g);
            continue;
        }
        Node *to = &g->nodes[node->calls[node->next]];
        uint32_t to_at = node->calls[node->next++];
        if (!to->order)
            discover(g, to_at);
        else if (to->on_stack && to->order < node->low)
            node->low = to->order;
    }
}

/* ---- what stays unknown ------------------------------------------------------------------------------------------------------- */

/* Part i of a list, where the brackets of all before it are closed. */
static const char *list_part(const char *at, uint32_t i)
{
    for (int open = 0; *at && (i || open); at++) {
        open += (*at == '(' || *at == '[') - (*at == ')' || *at == ']');
        i -= *at == ',' && !open;
    }
    return at + strspn(at, " ");
}

/* A type to be written for what an operator takes: of its first sample's rank, where the argument has an axis that is its own. */
static const char *type_advised(Checker *ck, const Hole *hole)
{
    for (const RelationLink *l = hole->first; l; l = l->next) {
        const Op *op = l->relation->op;
        bool known = op && op->shapes && op->samples && *op->samples; /* a form has no samples */
        for (uint32_t i = 0; known && i < l->relation->n; i++) {
            const char *shape = list_part(op->shapes, i), *sample = list_part(op->samples + 1, i);
            size_t dtype = strcspn(sample, "[,("), n = strcspn(sample + dtype, "]");
            size_t axis = strcspn(shape, ",)");
            if (type_find(l->relation->in[i]) != &hole->type || sample[dtype] != '[' ||
                shape[0] != '(' || axis < 2 || shape[axis - 1] == '.')
                continue;
            Buf b = {0};
            buf_str(&b, "Tensor[(?");
            for (size_t k = dtype; k < dtype + n; k++)
                buf_str(&b, sample[k] == ',' ? ", ?" : "");
            buf_printf(&b, "), %.*s]", (int)dtype, sample);
            return buf_keep(&b, &ck->scratch);
        }
    }
    return "int32";
}

static void report_hole(Checker *ck, const Hole *hole)
{
    const HoleInfo *h = &hole->info;
    Diags *ds = ck->cx->diags;
    const char *name = h->name ? h->name : "_";
    Diag *d;
    switch (h->origin) {
    case HOLE_PARAM:
        d = diag_error(ds, E0208_UNSOLVED, h->span,
                       "nothing decides the type of the parameter `%%%s`", name);
        diag_help(d, "write it: `%%%s: %s`", name, type_advised(ck, hole));
        return;
    case HOLE_WRITTEN:
        d = diag_error(ds, E0208_UNSOLVED, h->span,
                       "nothing decides what `_` stands for in the type of `%%%s`", name);
        diag_help(d, "write a type in its place");
        return;
    case HOLE_VAR:
        if (!strcmp(name, HOLE_NAME)) {
            diag_error(ds, E0219_HOLE, h->span, "`_` is to be filled, and nothing says by what");
            return;
        }
        d = diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the type of `%%%s`", name);
        diag_help(d, "write it: `free_var %%%s: %s;`", name, type_advised(ck, hole));
        return;
    case HOLE_TYPE_ARG:
        d = diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the type `%s` of %s%s%s here",
                       name, h->of ? "`" : "", h->of ? h->of : "the function", h->of ? "`" : "");
        diag_help(d, "use it where its type is known, or bind it to a variable with its type");
        return;
    case HOLE_RESULT:
        d = h->name ? diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides what `@%s` returns",
                                 name)
                    : diag_error(ds, E0208_UNSOLVED, h->span,
                                 "nothing decides what this function returns");
        diag_help(d, "write it behind the parameters: `-> int32`");
        return;
    case HOLE_PATTERN:
        d = diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the type of this");
        if (h->of)
            diag_help(d, "give `%%%s`, which is matched, its type where it is bound", h->of);
        return;
    case HOLE_CALL:
        diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the type of this");
        return;
    case HOLE_OP:
        if (h->name)
            diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the result of `%s`", name);
        else
            diag_error(ds, E0208_UNSOLVED, h->span, "nothing decides the type of this field");
        return;
    }
}

/* Types that get their final value at the end. */
typedef Vec(const Type **) Slots;

/* Reports the holes inside the type whose origin is `most` or before it, and makes them poison, so that what depends on them is
 * silent. */
static void report_holes(Checker *ck, const Type *t, HoleOrigin most)
{
    TypeVec holes = holes_inside(ck, t);
    for (size_t i = 0; i < holes.n; i++) {
        const Type *at = holes.at[i];
        const Hole *h = hole_of(ck, at);
        if (at->bound || (h && h->info.origin > most))
            continue;
        if (h) {
            report_hole(ck, h);
            story_unsolved(ck, at, h->info);
        }
        hole_bind(ck, at, ck->cx->poison);
    }
    solve(ck);
}

/* Types that were given to a call before (by the pass that made it) decide where nothing else does. */
static void use_old_instances(Checker *ck)
{
    for (size_t i = 0; i < ck->instances.n; i++) {
        const Instance *in = &ck->instances.at[i];
        const TypeList *old = &in->call->type_args;
        for (uint32_t k = 0; k < in->n && old->n == in->n; k++)
            if (!old->at[k]->open && type_find(in->types[k])->kind == TYPE_HOLE)
                hole_bind(ck, type_find(in->types[k]), old->at[k]);
    }
    solve(ck);
}

/* Nobody said which operator is meant. */
static void use_written_operators(Checker *ck)
{
    for (size_t i = 0; i < ck->operators.n; i++) {
        const Type *hole = type_find(ck->operators.at[i].hole);
        if (hole->kind == TYPE_HOLE)
            hole_bind(ck, hole, ck->operators.at[i].written);
    }
    ck->operators.n = 0;
    solve(ck);
}

static void forgive_blamed(Checker *ck)
{
    for (size_t i = 0; i < ck->blamed.n; i++)
        holes_poison(ck, ck->blamed.at[i]);
    solve(ck);
}

/* Replaces the types without holes; what is left has some. Holes go first, in the order of their making: those that others stand
 * in are mostly older, and so no type is looked through twice. Nor is one that many slots have, as all bindings have the type of
 * the value behind them. */
static void resolve_slots(Checker *ck, Slots *slots)
{
    PtrMap known = {0};
    for (size_t i = 0; i < ck->holes.n && !limit_hit(&ck->cx->limits); i++) {
        Type *hole = &ck->holes.at[i]->type;
        if (hole->bound && hole->bound->open)
            hole->bound = type_resolve_known(ck->cx, hole, &known);
    }
    size_t left = 0;
    for (size_t i = 0; i < slots->n; i++) {
        const Type **slot = slots->at[i];
        bool ends = limit_hit(&ck->cx->limits);
        if (!ends)
            *slot = type_resolve_known(ck->cx, *slot, &known);
        if (ends || (*slot)->open)
            slots->at[left++] = slot;
    }
    slots->n = left;
    ptrmap_deinit(&known);
}

/* Nodes come behind their parts: what is left open by the first that takes a type for granted is known once that says it. */
static void note_unsaid(Checker *ck, Slots *slots)
{
    PtrMap known = {0};
    for (size_t i = 0; slots->n && i < ck->open.n && !limit_hit(&ck->cx->limits); i++) {
        Expr *e = ck->open.at[i];
        e->type = type_resolve_known(ck->cx, e->type, &known);
        if (!e->type->open || e->kind == EXPR_VAR)
            continue;
        TypeVec holes = holes_inside(ck, e->type);
        bool here = false;
        for (size_t k = 0; k < holes.n; k++) {
            const Hole *h = hole_of(ck, holes.at[k]);
            here = here || (h && h->info.origin == HOLE_TYPE_ARG);
        }
        if (!here)
            continue;
        ptrmap_put(ck->unsaid, e, e);
        holes_poison(ck, e->type);
        solve(ck);
        ptrmap_clear(&known);
    }
    ptrmap_deinit(&known);
    resolve_slots(ck, slots);
}

/* Causes are reported before effects: a parameter before the result of the call that it is passed to. */
static void report_unsolved(Checker *ck, Slots *slots)
{
    static const HoleOrigin stages[] = {HOLE_PATTERN, HOLE_CALL, HOLE_OP};
    for (size_t s = 0;
         slots->n && s < sizeof stages / sizeof *stages && !limit_hit(&ck->cx->limits); s++) {
        for (size_t i = 0; i < slots->n; i++)
            report_holes(ck, *slots->at[i], stages[s]);
        resolve_slots(ck, slots);
    }
    /* Work that was cut short leaves holes behind. */
    for (size_t i = 0; i < slots->n; i++)
        *slots->at[i] = ck->cx->poison;
}

/* What was asked for with `_`. */
static void answer_holes(Checker *ck)
{
    for (size_t i = 0; i < ck->asked.n; i++) {
        const Type *t = type_resolve(ck->cx, ck->asked.at[i].hole);
        if (!t->open && !type_is_poison(t))
            diag_error(ck->cx->diags, N0201_HOLE, ck->asked.at[i].written->span, "`_` is `%s`",
                       type_str(ck->cx, t));
    }
    ck->asked.n = 0;
}

/* ---- holes in expressions ----------------------------------------------------------------------------------------------------- */

/* What could fill a hole of the type, each a change of the text. */
typedef struct Filling {
    Checker *ck;
    const Type *wanted;
    Diag *d;
    Buf names;
    int n;
} Filling;

enum { FILLINGS_MOST = 6 };

static void fill(Filling *f, const char *sigil, const Name *name, const Type *function)
{
    Buf b = {0};
    if (f->n == FILLINGS_MOST)
        return;
    buf_printf(&b, "%s%s", sigil, name->text);
    for (uint32_t i = 0; function && i < function->n; i++)
        buf_str(&b, i ? ", _" : "(_");
    if (function)
        buf_str(&b, function->n ? ")" : *sigil ? "()" : "");
    buf_printf(&f->names, "%s`%s`", f->n++ ? ", " : "", buf_text(&b));
    diag_fix(f->d, f->d->span, "_", buf_text(&b));
    buf_deinit(&b);
}

static bool fits(const Filling *f, const Type *t)
{
    return t && !t->open && !type_is_poison(t) && type_equal(t, f->wanted);
}

static void fill_with(Filling *f, const char *sigil, const Name *name, const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (fits(f, t))
        fill(f, sigil, name, NULL);
    else if (t && t->kind == TYPE_FUNC && t->n_params == 0 && fits(f, type_find(t->result)))
        fill(f, sigil, name, t);
}

static void fill_with_defs(Filling *f, const Module *m)
{
    for (size_t i = m ? m->defs.n : 0; i-- > 0;)
        if (m->defs.at[i].fn)
            fill_with(f, "@", m->defs.at[i].name, m->defs.at[i].fn->base.type);
}

/* `_` in an expression: what it must be, and what fits. */
static void answer_hole(Checker *ck, const ExprHole *h)
{
    const Type *t = h->var->base.type ? type_find(h->var->base.type) : NULL;
    if (!t || t->open || type_is_poison(t))
        return;
    Filling f = {.ck = ck, .wanted = t};
    f.d = diag_error(ck->cx->diags, E0219_HOLE, h->var->base.span, "`_` is to be filled by `%s`",
                     type_str(ck->cx, t));
    for (uint32_t i = h->n; i-- > 0;)
        fill_with(&f, "%", h->scope[i]->name, h->scope[i]->base.type);
    fill_with_defs(&f, ck->m);
    fill_with_defs(&f, ck->env);
    for (uint32_t i = 0; t->kind == TYPE_ADT && i < t->def->n_cons; i++) {
        const Constructor *con = t->def->cons[i];
        fill(&f, "", con->name, &(Type){.kind = TYPE_FUNC, .n = con->n});
    }
    if (f.n)
        diag_help(f.d, "it may be %s", buf_text(&f.names));
    else
        diag_help(f.d, "nothing that has a name here is of that type");
    buf_deinit(&f.names);
}

/* The end of a cycle of definitions: types without holes. */
static void settle(Checker *ck)
{
    solve(ck);
    use_old_instances(ck);
    use_written_operators(ck);
    forgive_blamed(ck);
    Slots slots = {0};
    for (size_t i = 0; i < ck->open.n; i++)
        vec_push(&slots, &ck->scratch, &ck->open.at[i]->type);
    for (size_t i = 0; i < ck->instances.n; i++) {
        const Instance *in = &ck->instances.at[i];
        const Type **types = arena_copy(&in->home->arena, in->types, in->n * sizeof *in->types);
        in->call->type_args = (TypeList){types, types ? in->n : 0};
        for (uint32_t k = 0; types && k < in->n; k++)
            vec_push(&slots, &ck->scratch, &types[k]);
    }
    resolve_slots(ck, &slots);
    if (ck->unsaid)
        note_unsaid(ck, &slots);
    report_unsolved(ck, &slots);
    answer_holes(ck);
    ck->open.n = ck->instances.n = ck->holes.n = ck->blamed.n = 0;
    ck->queue_first = ck->queue_last = NULL;
    ptrmap_clear(&ck->functions);
}

/* ---- cycles --------------------------------------------------------------------------------------------------------------------- */

/* The components on the stack from here on: their declared types first, then each body. */
static void infer_cycle(Graph *g, uint32_t from)
{
    Checker *ck = g->ck;
    bool any = false;
    ck->errors = ck->cx->diags->errors;
    for (size_t i = g->stack.n; i-- > from;) {
        const Def *def = g->nodes[g->stack.at[i]].def;
        if (!def->fn || def->fn->base.type)
            continue;
        any = true;
        ck->polymorphic = ck->polymorphic || def->fn->type_params.n;
        ck->home = def->home ? def->home : ck->m;
        function_begin(ck, def->fn, def->name->text, def->span);
    }
    for (size_t i = from; any && i < g->stack.n; i++) {
        const Def *def = g->nodes[g->stack.at[i]].def;
        ck->home = def->home ? def->home : ck->m;
        infer(ck, &def->fn->base);
    }
    if (checker_ends(ck))
        return;
    if (any)
        settle(ck);
    for (size_t i = from; ck->polymorphic && i < g->stack.n; i++)
        if (g->nodes[g->stack.at[i]].def->fn)
            check_proof(ck, &g->nodes[g->stack.at[i]].def->fn->base);
    ck->polymorphic = false;
}

static void infer_defs(Checker *ck)
{
    Graph g = {.ck = ck, .n = (uint32_t)ck->m->defs.n};
    g.nodes = arena_new_array(&ck->scratch, Node, g.n);
    for (uint32_t i = 0; g.nodes && i < g.n; i++)
        graph_node(&g, i);
    for (uint32_t i = 0; g.nodes && i < g.n && !checker_ends(ck); i++)
        if (g.nodes[i].def->fn && !g.nodes[i].def->fn->base.type && !g.nodes[i].order)
            search(&g, i);
}

static void infer_expr(Checker *ck)
{
    ck->home = ck->m;
    ck->errors = ck->cx->diags->errors;
    for (size_t i = 0; i < ck->m->free_vars.n; i++)
        infer(ck, &ck->m->free_vars.at[i]->base);
    infer(ck, ck->m->expr);
    if (checker_ends(ck))
        return;
    settle(ck);
    if (ck->polymorphic)
        check_proof(ck, ck->m->expr);
}

bool typecheck_module(Ctx *cx, Module *m, const Module *env)
{
    return typecheck_module_as(cx, m, env, (CheckWish){0});
}

bool typecheck_module_as(Ctx *cx, Module *m, const Module *env, CheckWish wish)
{
    Checker ck = {.cx = cx,
                  .own_holes = SIZE_MAX,
                  .m = m,
                  .env = env,
                  .home = m,
                  .story = wish.story,
                  .answers = wish.answers,
                  .unsaid = wish.unsaid};
    size_t errors = cx->diags->errors;
    Diag *before = cx->diags->last;
    arena_init(&ck.scratch, &cx->limits);
    Arena *outer = cx->open;
    cx->open = &ck.scratch;
    if (m->scopes_open && !m->broken)
        m->scopes_open = !ir_verify_scopes(cx, m);
    for (size_t i = 0; i < m->types.n; i++)
        check_typedef(&ck, m->types.at[i]);
    infer_defs(&ck);
    if (m->expr && !limit_hit(&cx->limits))
        infer_expr(&ck);
    /* Work that was cut short leaves nodes whose types end with it. */
    for (size_t i = 0; i < ck.open.n; i++)
        ck.open.at[i]->type = cx->poison;
    for (size_t i = 0; i < m->holes.n; i++)
        answer_hole(&ck, &m->holes.at[i]);
    diags_sort(cx->diags, before);
    why_deinit(&ck.why);
    ptrmap_deinit(&ck.functions);
    ptrmap_deinit(&ck.holders);
    ptrmap_deinit(&ck.checked);
    ptrmap_deinit(&ck.ill_matches);
    cx->open = outer;
    arena_deinit(&ck.scratch);
    return !m->broken && cx->diags->errors == errors && !limit_hit(&cx->limits);
}
