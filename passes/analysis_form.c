/* The form of a program: scopes, constants, effects, features, hashes, calls between functions. */
#include "ir/equal.h"
#include "ir/op.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "ir/walk.h"
#include "passes/analysis.h"
#include "passes/facts.h"
#include "passes/scope.h"
#include "typecheck/typecheck.h"

static void put_bool(Analysis *a, bool yes)
{
    buf_str(&a->out, yes ? "True\n" : "False\n");
}

/* ---- scopes --------------------------------------------------------------------------------------- */

void analyze_well_formed(Analysis *a)
{
    Module only = *a->module;
    only.expr = a->root;
    only.defs.n = 0;
    if (ir_verify(a->cx, &only, NULL, false))
        put_bool(a, true);
}

void analyze_basic_block(Analysis *a)
{
    Scopes s;
    const Function *f = expr_as_function(a->root);
    size_t before = a->out.n;
    if (!scopes_init_with_lets(&s, a->cx, f ? f->body : a->root))
        return;
    for (size_t i = 0; i < s.steps.n; i++) {
        const ScopeNode *node = s.steps.at[i].node;
        if (s.steps.at[i].event != SCOPE_DONE || !node->spread)
            continue;
        buf_str(&a->out, "used in several scopes: ");
        ir_print_expr(&a->out, node->e, (PrintStyle){0});
        buf_char(&a->out, '\n');
    }
    scopes_deinit(&s);
    if (a->out.n == before)
        put_bool(a, true);
}

/* ---- constants, effects ----------------------------------------------------------------------------- */

static WalkNext is_constant(void *data, const Expr *e)
{
    (void)data;
    bool con = expr_call_of_con(e) != NULL;
    return e->kind == EXPR_CONSTANT || e->kind == EXPR_CON || e->kind == EXPR_TUPLE || con
               ? WALK_ON
               : WALK_STOP;
}

void analyze_constant(Analysis *a)
{
    put_bool(a, ir_walk(a->root, is_constant, NULL, NULL));
}

void analyze_effects(Analysis *a)
{
    Purity p;
    const Function *f = expr_as_function(a->root);
    purity_init(&p, a->module, a->env, a->root);
    put_bool(a, purity_of(&p, f ? f->body : a->root));
    purity_deinit(&p);
}

/* ---- matches ------------------------------------------------------------------------------------------ */

static WalkNext put_missing(void *data, const Expr *e)
{
    Analysis *a = data;
    const Match *m = expr_as_match(e);
    if (!m)
        return WALK_ON;
    Position at = span_start(&a->cx->sources, e->span);
    Buf cases = {0};
    size_t n = match_missing(a->cx, m, 100, &cases);
    buf_printf(&a->out, "the match in line %u: %s\n", at.line, n ? "" : "all cases are handled");
    buf_str(&a->out, buf_text(&cases));
    if (cases.n && buf_text(&cases)[cases.n - 1] != '\n')
        buf_char(&a->out, '\n');
    buf_deinit(&cases);
    return WALK_ON;
}

void analyze_unmatched(Analysis *a)
{
    ir_walk(a->root, put_missing, NULL, a);
}

/* ---- features ------------------------------------------------------------------------------------------ */

/* In the original's order; the last two are facts about the graph. */
static const struct {
    const char *name;
    int kind;
} features[] = {
    {"Var", EXPR_VAR},
    {"GlobalVar", EXPR_GLOBAL},
    {"Constant", EXPR_CONSTANT},
    {"Tuple", EXPR_TUPLE},
    {"TupleGetItem", EXPR_TUPLE_GET},
    {"Function", EXPR_FUNCTION},
    {"Op", EXPR_OP},
    {"Call", EXPR_CALL},
    {"Let", EXPR_LET},
    {"If", EXPR_IF},
    {"RefCreate", EXPR_REF_NEW},
    {"RefRead", EXPR_REF_READ},
    {"RefWrite", EXPR_REF_WRITE},
    {"Constructor", EXPR_CON},
    {"Match", EXPR_MATCH},
    {"Graph", -1},
    {"LetRec", -2},
};

typedef struct Features {
    bool kinds[EXPR_KINDS];
    bool graph, let_rec;
    PtrMap used;
} Features;

static void note_use(void *data, Expr *const *slot)
{
    Features *f = data;
    if ((*slot)->kind <= EXPR_CON)
        return;
    f->graph |= ptrmap_has(&f->used, *slot);
    ptrmap_put(&f->used, *slot, f);
}

static void is_own(void *data, Var *v)
{
    const void **sought = data;
    if (*sought == v)
        *sought = NULL;
}

static WalkNext note_kind(void *data, const Expr *e)
{
    Features *f = data;
    f->kinds[e->kind] = true;
    const Let *let = expr_as_let(e);
    if (let) {
        const void *sought = let->var;
        f->kinds[EXPR_VAR] = true;
        if (let->value->kind == EXPR_FUNCTION)
            ir_free_vars(let->value, is_own, &sought);
        f->let_rec |= !sought;
    }
    ir_children(e, note_use, f);
    return WALK_ON;
}

void analyze_features(Analysis *a)
{
    Features f = {0};
    ir_walk(a->root, note_kind, NULL, &f);
    for (size_t i = 0; i < sizeof features / sizeof *features; i++) {
        int kind = features[i].kind;
        if (kind >= 0 ? f.kinds[kind] : kind == -1 ? f.graph : f.let_rec)
            buf_printf(&a->out, "%s\n", features[i].name);
    }
    ptrmap_deinit(&f.used);
}

/* ---- nodes ----------------------------------------------------------------------------------------------- */

void analyze_hash(Analysis *a)
{
    buf_printf(&a->out, "%016llx\n", (unsigned long long)ir_hash(a->root));
}

typedef struct PostOrder {
    Analysis *a;
    Vec(const Expr *) nodes;
} PostOrder;

static WalkNext collect(void *data, const Expr *e)
{
    PostOrder *p = data;
    vec_push(&p->nodes, &p->a->arena, e);
    return WALK_ON;
}

static PostOrder post_order(Analysis *a)
{
    PostOrder p = {.a = a};
    const Function *f = expr_as_function(a->root);
    ir_walk(f ? f->body : a->root, NULL, collect, &p);
    return p;
}

void analyze_post_order(Analysis *a)
{
    PostOrder p = post_order(a);
    for (size_t i = 0; i < p.nodes.n && !limit_hit(&a->cx->limits); i++) {
        const Expr *e = p.nodes.at[i];
        const Call *call = expr_as_call(e);
        buf_printf(&a->out, "%zu: %s", i, node_info((ExprKind)e->kind)->name);
        if (e->kind <= EXPR_CON || (call && call->callee->kind <= EXPR_CON)) {
            buf_char(&a->out, ' ');
            ir_print_expr(&a->out, call ? call->callee : e, (PrintStyle){0});
        }
        if (e->type && e->kind != EXPR_OP) {
            buf_str(&a->out, ": ");
            type_print(&a->out, e->type);
        }
        buf_char(&a->out, '\n');
    }
}

/* ---- functions of the module -------------------------------------------------------------------------------- */

typedef struct CallGraph {
    Analysis *a;
    PtrMap counts; /* of the function in work: Def -> how often it is named */
    PtrMap done;
    PtrMap ends; /* Def that no chain of calls from it leaves and comes back to */
    Vec(const Def *) path;
} CallGraph;

static void note_global(void *data, Expr *const *slot)
{
    CallGraph *g = data;
    const GlobalVar *var = expr_as_global(*slot);
    const Def *def = var ? module_find(g->a->module, var->name) : NULL;
    if (def)
        ptrmap_put(&g->counts, def, (void *)((uintptr_t)ptrmap_find(&g->counts, def) + 1));
}

static WalkNext note_globals(void *data, const Expr *e)
{
    ir_children(e, note_global, data);
    return WALK_ON;
}

typedef struct Reach {
    const Module *module;
    const Name *sought;
    PtrMap seen;
    Arena *arena;
    Vec(const Def *) todo;
    bool found;
} Reach;

static WalkNext reach_node(void *data, const Expr *e)
{
    Reach *r = data;
    const GlobalVar *var = expr_as_global(e);
    const Def *def = var ? module_find(r->module, var->name) : NULL;
    r->found |= var && var->name == r->sought;
    if (def && !ptrmap_has(&r->seen, def)) {
        ptrmap_put(&r->seen, def, r);
        vec_push(&r->todo, r->arena, def);
    }
    return r->found ? WALK_STOP : WALK_ON;
}

/* Whether a function can come back to itself, through others too. */
static bool is_recursive(Analysis *a, const Def *def)
{
    Reach r = {.module = a->module, .sought = def->name, .arena = &a->arena};
    vec_push(&r.todo, r.arena, def);
    while (r.todo.n && !r.found && !limit_hit(&a->cx->limits))
        ir_walk(&vec_pop(&r.todo)->fn->base, reach_node, NULL, &r);
    ptrmap_deinit(&r.seen);
    return r.found;
}

static void put_def(CallGraph *g, const Def *def)
{
    Buf *out = &g->a->out;
    ptrmap_clear(&g->counts);
    ir_walk(&def->fn->base, note_globals, NULL, g);
    /* Callees were put before, but for those that lead back here: most need no search. */
    bool ends = true;
    for (size_t i = 0; i < g->counts.n; i++)
        ends &= ptrmap_has(&g->ends, g->counts.entries[i].key);
    if (ends)
        ptrmap_put(&g->ends, def, NULL);
    buf_printf(out, "@%s%s:", def->name->text,
               !ends && is_recursive(g->a, def) ? " (recursive)" : "");
    for (size_t i = 0; i < g->counts.n; i++) {
        const Def *callee = g->counts.entries[i].key;
        size_t n = (size_t)(uintptr_t)g->counts.entries[i].value;
        buf_printf(out, "%s @%s %zu time%s", i ? "," : " names", callee->name->text, n,
                   n == 1 ? "" : "s");
    }
    buf_str(out, g->counts.n ? "\n" : " names no function\n");
}

/* Callees first: a function stands on the path until all that it names is done. */
static void put_reachable(CallGraph *g, const Def *def)
{
    vec_push(&g->path, &g->a->arena, def);
    while (g->path.n && !limit_hit(&g->a->cx->limits)) {
        const Def *top = vec_last(&g->path);
        size_t before = g->path.n;
        if (!ptrmap_has(&g->done, top)) {
            ptrmap_put(&g->done, top, NULL);
            ptrmap_clear(&g->counts);
            ir_walk(&top->fn->base, note_globals, NULL, g);
            for (size_t i = g->counts.n; i-- > 0;)
                if (!ptrmap_has(&g->done, g->counts.entries[i].key))
                    vec_push(&g->path, &g->a->arena, g->counts.entries[i].key);
        }
        if (g->path.n > before)
            continue;
        g->path.n--;
        if (!ptrmap_find(&g->done, top))
            put_def(g, top);
        ptrmap_put(&g->done, top, g);
    }
}

void analyze_call_graph(Analysis *a)
{
    CallGraph g = {.a = a};
    const Def **defs = arena_alloc_must(&a->arena, a->module->defs.n, sizeof *defs);
    size_t n = module_sorted_defs(a->module, defs, false);
    for (size_t i = 0; i < n; i++)
        put_reachable(&g, module_find(a->module, defs[i]->name));
    ptrmap_deinit(&g.counts);
    ptrmap_deinit(&g.done);
    ptrmap_deinit(&g.ends);
}

static WalkNext put_fused(void *data, const Expr *e)
{
    Analysis *a = data;
    const Function *f = expr_as_function(e);
    if (!f || !function_is_primitive(f))
        return WALK_ON;
    buf_printf(&a->out, "%016llx: ", (unsigned long long)ir_hash(e));
    ir_print_expr(&a->out, e, (PrintStyle){0});
    buf_char(&a->out, '\n');
    return WALK_SKIP;
}

void analyze_fused(Analysis *a)
{
    const Def **defs = arena_alloc_must(&a->arena, a->module->defs.n, sizeof *defs);
    size_t n = module_sorted_defs(a->module, defs, false);
    for (size_t i = 0; i < n; i++)
        ir_walk(&defs[i]->fn->base, put_fused, NULL, a);
    if (a->module->expr)
        ir_walk(a->module->expr, put_fused, NULL, a);
}

/* ---- a program of one expression ----------------------------------------------------------------------------- */

typedef struct Needed {
    Analysis *a;
    Vec(Var *) params;
} Needed;

static void need_var(void *data, Var *v)
{
    Needed *n = data;
    vec_push(&n->params, &n->a->arena, v);
}

/* A copy of the module that has the function, what it reaches, and no expression; for printing. */
static void put_program(Analysis *a, Function *fn)
{
    Reach r = {.module = a->module, .arena = &a->arena};
    Module only = *a->module;
    const Name *name = ctx_name(a->cx, "main");
    Def main = {.name = name, .fn = fn, .span = fn->base.span};
    memset(&only.defs, 0, sizeof only.defs);
    vec_push(&r.todo, r.arena, &main);
    while (r.todo.n && !limit_hit(&a->cx->limits))
        ir_walk(&vec_pop(&r.todo)->fn->base, reach_node, NULL, &r);
    for (size_t i = 0; i < r.seen.n; i++) {
        const Def *def = r.seen.entries[i].key;
        vec_push(&only.defs, &a->arena, *def);
        if (def->name == name) /* the expression calls what it is a part of */
            main.name = ctx_name(a->cx, "main_part");
    }
    vec_push(&only.defs, &a->arena, main);
    ptrmap_deinit(&r.seen);
    only.expr = NULL;
    ir_print_module(&a->out, &only, (PrintStyle){.annotations = true});
}

/* The same function with another body. What that leaves free are variables of inner scopes: they become parameters too. */
void analyze_intermediate(Analysis *a)
{
    PostOrder p = post_order(a);
    const Function *f = expr_as_function(a->root);
    if ((uint64_t)a->number >= p.nodes.n) {
        Diag *d = diag_error(a->cx->diags, E0402_USAGE, (Span){0}, "there is no expression %lld",
                             (long long)a->number);
        diag_note(d, "there are %zu, counted from 0: `post_order` lists them", p.nodes.n);
        return;
    }
    Expr *e = (Expr *)(uintptr_t)p.nodes.at[a->number];
    TypeVarList types = f ? f->type_params : (TypeVarList){0};
    Needed n = {.a = a};
    for (uint32_t i = 0; f && i < f->params.n; i++)
        need_var(&n, f->params.at[i]);
    Function *bound =
        expr_function(&a->arena, e->span, types, (uint32_t)n.params.n, n.params.at, NULL, NULL, e);
    ir_free_vars(&bound->base, need_var, &n);
    put_program(a, expr_function(&a->arena, e->span, types, (uint32_t)n.params.n, n.params.at, NULL,
                                 NULL, e));
}
