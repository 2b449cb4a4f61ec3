/* What a network is made of: its calls with shapes, weights, multiply-adds and memory. All of it follows from the types and from the
 * operators' tensor expressions; no operator is known by name. */
#include "ir/print.h"
#include "ir/walk.h"
#include "passes/cost.h"
#include "session/commands.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- sizes ------------------------------------------------------------------------------------------------------------------- */

static TypeSize size_of(const Type *t)
{
    TypeSize size = {0};
    type_size_add(&size, t);
    return size;
}

/* 1234567 as 1 234 567. */
static void put_count(Buf *b, double n)
{
    char digits[32];
    int len = snprintf(digits, sizeof digits, "%.0f", n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            buf_char(b, ' ');
        buf_char(b, digits[i]);
    }
}

static void put_bytes(Buf *b, double n)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int unit = 0;
    for (; n >= 1024 && unit < 4; unit++)
        n /= 1024;
    buf_printf(b, unit ? "%.2f %s" : "%.0f %s", n, units[unit]);
}

/* ---- the parameters that are weights ----------------------------------------------------------------------------------------- */

/* The arguments of operators that hold what was learnt; `moving_…` are statistics, not trained. */
static bool is_weight_name(const char *name)
{
    static const char *const names[] = {"weight", "bias",        "gamma",      "beta",
                                        "alpha",  "moving_mean", "moving_var", "kernel"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

typedef struct Weights {
    const Module *module;
    PtrMap lets; /* Var -> the value that a let gives it */
    PtrMap of; /* Var -> the name of the operator's argument that it is given as */
    bool changed;
} Weights;

static void learn(Weights *w, const Expr *arg, const char *as)
{
    const Var *v = expr_as_var(arg);
    if (!v || !as || ptrmap_find(&w->of, v))
        return;
    ptrmap_put(&w->of, v, (void *)(uintptr_t)as);
    w->changed = true;
}

/* The function that a call calls, where its name says so. */
static const Function *callee_of(const Weights *w, const Call *c)
{
    const GlobalVar *g = expr_as_global(c->callee);
    const Def *def = g ? module_find(w->module, g->name) : NULL;
    const Expr *local = ptrmap_find(&w->lets, c->callee);
    return def ? def->fn : local ? expr_as_function(local) : NULL;
}

static WalkNext learn_call(void *data, const Expr *e)
{
    Weights *w = data;
    const Let *let = expr_as_let(e);
    if (let)
        ptrmap_put(&w->lets, let->var, let->value);
    const Call *c = expr_as_call(e);
    const OpRef *op = c ? expr_as_op(c->callee) : NULL;
    const Function *fn = c ? callee_of(w, c) : NULL;
    for (uint32_t i = 0; op && i < c->args.n && op->op->args[i].name; i++)
        if (is_weight_name(op->op->args[i].name))
            learn(w, c->args.at[i], op->op->args[i].name);
    for (uint32_t i = 0; fn && i < c->args.n && i < fn->params.n; i++)
        learn(w, c->args.at[i], ptrmap_find(&w->of, fn->params.at[i]));
    return WALK_ON;
}

/* Parameters that `:import` has bound beside the function, whatever is done with them. */
static void learn_imported(RelaySession *s, Weights *w)
{
    Buf name = {0};
    for (size_t i = 0; i < w->module->defs.n; i++) {
        const Def *def = &w->module->defs.at[i];
        for (uint32_t k = 0; def->fn && k < def->fn->params.n; k++) {
            buf_clear(&name);
            buf_printf(&name, "%s_%s", def->name->text, def->fn->params.at[k]->name->text);
            if (session_local(s, ctx_name(&s->cx, buf_text(&name)), false))
                learn(w, &def->fn->params.at[k]->base, "imported");
        }
    }
    buf_deinit(&name);
}

/* Through calls of functions, whose parameters may be weights in turn. */
static void follow_weights(Weights *w)
{
    do {
        w->changed = false;
        for (size_t i = 0; i < w->module->defs.n; i++)
            if (w->module->defs.at[i].fn)
                ir_walk(&w->module->defs.at[i].fn->base, learn_call, NULL, w);
    } while (w->changed);
}

static void find_weights(RelaySession *s, Weights *w)
{
    follow_weights(w);
    learn_imported(s, w);
    follow_weights(w);
}

/* ---- the calls of a function ------------------------------------------------------------------------------------------------- */

typedef struct Row {
    const Call *call;
    const Op *op; /* NULL: a call of a function */
    const char *layer, *what, *type; /* in the arena */
    double weights; /* elements */
    TeCost cost; /* of a call of a function: of what that does, a recursion counted once */
    double bytes; /* of its result, as far as known */
    double inside; /* of the results of the function at the most */
    bool again; /* it calls a function that is under way */
    size_t
        open; /* calls whose cost depends on shapes that are known only at run time: itself, or in what it calls */
    size_t last_use; /* of its result: a row */
} Row;

typedef struct Totals {
    double weights, trainable, bytes; /* of the parameters that are weights */
    double inputs; /* bytes of the others */
    size_t n_weights;
    double multiply_adds, operations;
    double most; /* bytes of results that are alive at one time */
    bool again; /* there is a recursion in it */
    size_t open;
} Totals;

/* What is said of a function. */
typedef struct Piece {
    Totals totals;
    bool done, plain; /* its totals are there; there are no weights and products in it */
    const char *text, *html, *json; /* in the arena */
} Piece;

typedef struct Summary {
    RelaySession *s;
    Module *module;
    Weights weights;
    Arena arena;
    PtrMap pieces; /* Function -> Piece */
    Vec(Row) rows; /* of the function in work, in the order of evaluation */
    PtrMap row_of; /* Call -> its row's position + 1 */
    PtrMap counted; /* weights that a row has shown */
    const Name *first;
    const char *title; /* of that, where it is no function of the program; or NULL */
    Buf text;
} Summary;

/* What the names of a call's weights begin with: `conv1` of `conv1_weight` and `conv1_bias`. */
static void layer_name(Summary *m, Row *row, const char *weight)
{
    size_t n = strlen(weight);
    const char *cut = strrchr(weight, '_');
    Buf b = {0};
    buf_bytes(&b, weight, cut && cut > weight ? (size_t)(cut - weight) : n);
    row->layer = buf_keep(&b, &m->arena);
}

static void count_weights(Summary *m, Row *row)
{
    for (uint32_t i = 0; i < row->call->args.n; i++) {
        const Var *v = expr_as_var(row->call->args.at[i]);
        if (!v || !ptrmap_find(&m->weights.of, v) || !v->base.type)
            continue;
        if (!row->layer)
            layer_name(m, row, v->name->text);
        if (ptrmap_find(&m->counted, v) || !row->op)
            continue;
        ptrmap_put(&m->counted, v, row);
        row->weights += size_of(v->base.type).elements;
    }
}

/* The rows behind an argument, through variables, tuples and projections, are used by row `at`. */
static void note_uses(Summary *m, const Expr *arg, size_t at)
{
    Vec(const Expr *) work = {0};
    vec_push(&work, &m->arena, arg);
    while (work.n) {
        const Expr *e = vec_pop(&work);
        const Tuple *t = expr_as_tuple(e);
        const TupleGet *g = expr_as_tuple_get(e);
        const Expr *value = ptrmap_find(&m->weights.lets, e);
        size_t row = (size_t)(uintptr_t)ptrmap_find(&m->row_of, e);
        if (row)
            m->rows.at[row - 1].last_use = at;
        else if (g || value)
            vec_push(&work, &m->arena, g ? g->tuple : value);
        for (uint32_t i = 0; t && i < t->fields.n; i++)
            vec_push(&work, &m->arena, t->fields.at[i]);
    }
}

/* A call of a function costs what the function does; within itself nothing. */
static void call_totals(const Summary *m, const Call *c, Row *row)
{
    const Piece *p = ptrmap_find(&m->pieces, callee_of(&m->weights, c));
    row->again = p && (!p->done || p->totals.again);
    if (!p || !p->done)
        return;
    row->cost.multiply_adds = p->totals.multiply_adds;
    row->cost.operations = p->totals.operations;
    row->inside = p->totals.most;
    row->open = p->totals.open;
}

static bool has_open_shapes(const Call *c)
{
    bool open = size_of(c->base.type).unknown;
    for (uint32_t i = 0; i < c->args.n; i++)
        open |= size_of(c->args.at[i]->type).unknown;
    return open;
}

static bool is_cut(const Summary *m)
{
    return limit_hit(&m->s->cx.limits);
}

static WalkNext add_row(void *data, const Expr *e)
{
    Summary *m = data;
    if (is_cut(m))
        return WALK_STOP;
    const Call *c = expr_as_call(e);
    const OpRef *op = c ? expr_as_op(c->callee) : NULL;
    const GlobalVar *g = c ? expr_as_global(c->callee) : NULL;
    if (!op && !g)
        return WALK_ON;
    Row row = {.call = c, .op = op ? op->op : NULL, .last_use = m->rows.n};
    Buf what = {0};
    buf_printf(&what, op ? "%s" : "@%s", op ? op->op->name : g->name->text);
    row.what = buf_keep(&what, &m->arena);
    row.type = c->base.type ? type_str(&m->s->cx, c->base.type) : "?";
    row.bytes = size_of(c->base.type).bytes;
    if (op && !call_cost(&m->s->cx, &m->arena, c, op->op, &row.cost))
        row.open = op->op->compute && has_open_shapes(c);
    else if (!op)
        call_totals(m, c, &row);
    buf_deinit(&what);
    count_weights(m, &row);
    for (uint32_t i = 0; i < c->args.n; i++)
        note_uses(m, c->args.at[i], m->rows.n);
    vec_push(&m->rows, &m->arena, row);
    ptrmap_put(&m->row_of, e, (void *)(uintptr_t)m->rows.n);
    return WALK_ON;
}

/* ---- totals ------------------------------------------------------------------------------------------------------------------ */

typedef struct Params {
    const Summary *m;
    const Function *fn;
    Totals *totals;
} Params;

static void total_weight(Totals *t, const Var *v, const char *as)
{
    TypeSize a = size_of(v->base.type);
    t->n_weights++;
    t->weights += a.elements;
    t->bytes += a.bytes;
    t->trainable += strncmp(as, "moving_", 7) == 0 ? 0 : a.elements;
}

/* A tensor that a function keeps from where it was made is no input; what has no parameters is an expression, and variables are its inputs. */
static void total_kept(void *data, Var *v)
{
    const Params *p = data;
    const char *as = ptrmap_find(&p->m->weights.of, v);
    if (!v->base.type || type_find(v->base.type)->kind != TYPE_TENSOR)
        return;
    if (as || p->fn->params.n)
        total_weight(p->totals, v, as ? as : "");
    else
        p->totals->inputs += size_of(v->base.type).bytes;
}

static void total_params(const Summary *m, const Function *fn, Totals *t)
{
    for (uint32_t i = 0; i < fn->params.n; i++) {
        const Var *v = fn->params.at[i];
        const char *as = ptrmap_find(&m->weights.of, v);
        if (as)
            total_weight(t, v, as);
        else
            t->inputs += size_of(v->base.type).bytes;
    }
    ir_free_vars(&fn->base, total_kept, &(Params){m, fn, t});
}

/* A result lives from its row to the last one that reads it; the function's own result to the end. */
static void total_rows(Summary *m, const Function *fn, Totals *t)
{
    double alive = 0;
    double *ends = arena_alloc_must(&m->arena, m->rows.n + 1, sizeof *ends);
    memset(ends, 0, (m->rows.n + 1) * sizeof *ends);
    if (m->rows.n)
        note_uses(m, fn->body, m->rows.n);
    for (size_t i = 0; i < m->rows.n; i++) {
        const Row *row = &m->rows.at[i];
        t->multiply_adds += row->cost.multiply_adds;
        t->operations += row->cost.operations;
        t->again = t->again || row->again;
        t->open += row->open;
        t->most = alive + row->inside > t->most ? alive + row->inside : t->most;
        alive += row->bytes;
        t->most = alive > t->most ? alive : t->most;
        ends[row->last_use] += row->bytes;
        alive -= ends[i];
    }
}

/* ---- the table --------------------------------------------------------------------------------------------------------------- */

enum { COLUMNS = 5 };

/* The cells of a row; the caller lets go of them. */
static void cells_of(const Row *row, Buf cells[COLUMNS])
{
    buf_str(&cells[0], row->layer ? row->layer : "");
    buf_str(&cells[1], row->what);
    buf_str(&cells[2], row->type);
    if (row->weights)
        put_count(&cells[3], row->weights);
    if (row->cost.multiply_adds)
        put_count(&cells[4], row->cost.multiply_adds);
    else if (row->open)
        buf_char(&cells[4], '?');
}

static const char *const heads[COLUMNS] = {"layer", "call", "result", "weights", "multiply-adds"};

/* Numbers stand at the right of their columns; nothing stands behind the last cell. */
static void put_line(Buf *out, const char *const cells[COLUMNS], const size_t width[COLUMNS])
{
    size_t blanks = 0;
    for (int k = 0; k < COLUMNS; k++) {
        size_t n = strlen(cells[k]), pad = width[k] - n;
        if (n) {
            buf_repeat(out, ' ', blanks + (k > 2 ? pad : 0));
            buf_str(out, cells[k]);
            blanks = k > 2 ? 2 : pad + 2;
        } else {
            blanks += width[k] + 2;
        }
    }
    buf_char(out, '\n');
}

static void table_text(Summary *m, Buf *out)
{
    size_t width[COLUMNS];
    const char *(*lines)[COLUMNS] = arena_alloc_must(&m->arena, m->rows.n + 1, sizeof *lines);
    for (size_t i = 0; i <= m->rows.n && !is_cut(m); i++) {
        Buf cells[COLUMNS] = {0};
        if (i)
            cells_of(&m->rows.at[i - 1], cells);
        for (int k = 0; k < COLUMNS; k++) {
            lines[i][k] = i ? buf_keep(&cells[k], &m->arena) : heads[k];
            size_t n = strlen(lines[i][k]);
            width[k] = i && width[k] > n ? width[k] : n;
            buf_deinit(&cells[k]);
        }
    }
    for (size_t i = 0; i <= m->rows.n && !is_cut(m); i++)
        put_line(out, lines[i], width);
}

static void table_html(Summary *m, Buf *out)
{
    buf_str(out, "<table><tr>");
    for (int k = 0; k < COLUMNS; k++)
        buf_printf(out, "<th style=\"text-align:%s\">%s</th>", k > 2 ? "right" : "left", heads[k]);
    buf_str(out, "</tr>");
    for (size_t i = 0; i < m->rows.n && !is_cut(m); i++) {
        Buf cells[COLUMNS] = {0};
        cells_of(&m->rows.at[i], cells);
        buf_str(out, "<tr>");
        for (int k = 0; k < COLUMNS; k++) {
            buf_printf(out, "<td style=\"text-align:%s\">", k > 2 ? "right" : "left");
            buf_html(out, buf_text(&cells[k]), cells[k].n);
            buf_str(out, "</td>");
            buf_deinit(&cells[k]);
        }
        buf_str(out, "</tr>");
    }
    buf_str(out, "</table>");
}

static void totals_text(const Totals *t, Buf *out)
{
    buf_str(out, "weights        ");
    put_count(out, t->weights);
    buf_printf(out, " in %zu tensor%s", t->n_weights, t->n_weights == 1 ? "" : "s");
    if (t->trainable != t->weights) {
        buf_str(out, ", ");
        put_count(out, t->trainable);
        buf_str(out, " of them trained");
    }
    buf_str(out, "\nmultiply-adds  ");
    put_count(out, t->multiply_adds);
    buf_str(out, "\noperations     ");
    put_count(out, t->operations);
    if (t->again)
        buf_str(out, "\nrecursion      each round is counted once");
    if (t->open)
        buf_printf(out, "\nnot counted    %zu call%s of shapes that are known only at run time",
                   t->open, t->open == 1 ? "" : "s");
    buf_str(out, "\nmemory         ");
    put_bytes(out, t->bytes);
    buf_str(out, " weights, ");
    put_bytes(out, t->inputs);
    buf_str(out, " inputs, ");
    put_bytes(out, t->most);
    buf_str(out, " results at the most\n");
}

static void table_json(Summary *m, Buf *out)
{
    buf_str(out, "\"rows\": [");
    for (size_t i = 0; i < m->rows.n && !is_cut(m); i++) {
        const Row *row = &m->rows.at[i];
        const char *layer = row->layer ? row->layer : "";
        buf_str(out, i ? ",\n{" : "\n{");
        buf_json_field(out, "layer", layer, strlen(layer));
        buf_str(out, ", ");
        buf_json_field(out, "call", row->what, strlen(row->what));
        buf_str(out, ", ");
        buf_json_field(out, "result", row->type, strlen(row->type));
        buf_printf(out, ", \"weights\": %.0f, \"multiply_adds\": %.0f}", row->weights,
                   row->cost.multiply_adds);
    }
    buf_str(out, "]");
}

static void totals_json(const Totals *t, Buf *out)
{
    buf_printf(out,
               "\"weights\": %.0f, \"tensors\": %zu, \"trained\": %.0f, \"multiply_adds\": %.0f, "
               "\"operations\": %.0f, \"recursion\": %s, \"not_counted\": %zu, \"bytes\": "
               "{\"weights\": %.0f, "
               "\"inputs\": %.0f, \"results\": %.0f}",
               t->weights, t->n_weights, t->trainable, t->multiply_adds, t->operations,
               t->again ? "true" : "false", t->open, t->bytes, t->inputs, t->most);
}

static void json_piece(Summary *m, const char *title, Piece *p, const char *result)
{
    Buf json = {0};
    buf_char(&json, '{');
    buf_printf(&json, "\"function\": \"%s\"", title);
    buf_str(&json, ", ");
    buf_json_field(&json, "result", result, strlen(result));
    buf_str(&json, ", ");
    totals_json(&p->totals, &json);
    buf_str(&json, ", ");
    table_json(m, &json);
    buf_char(&json, '}');
    p->json = buf_keep(&json, &m->arena);
}

static void print_piece(Summary *m, const Def *def, Piece *p)
{
    Buf text = {0}, html = {0};
    const Type *type = def->fn->base.type;
    const char *result = type ? type_str(&m->s->cx, type_find(type)->result) : "?";
    const char *given = def->name == m->first ? m->title : NULL;
    Buf title = {0};
    buf_printf(&title, given ? "%s" : "@%s", given ? given : def->name->text);
    buf_printf(&text, "%s: %s\n\n", buf_text(&title), result);
    buf_printf(&html, "<p><b>%s</b>: ", buf_text(&title));
    buf_html(&html, result, strlen(result));
    buf_str(&html, "</p>");
    json_piece(m, buf_text(&title), p, result);
    buf_deinit(&title);
    table_text(m, &text);
    table_html(m, &html);
    buf_char(&text, '\n');
    size_t from = text.n;
    totals_text(&p->totals, &text);
    buf_str(&html, "<pre>");
    buf_html(&html, buf_text(&text) + from, text.n - from);
    buf_str(&html, "</pre>");
    p->text = buf_keep(&text, &m->arena);
    p->html = buf_keep(&html, &m->arena);
}

static void summarise(Summary *m, const Def *def)
{
    Piece *p = ptrmap_find(&m->pieces, def->fn);
    m->rows.n = 0;
    ptrmap_clear(&m->row_of);
    ir_walk(def->fn->body, NULL, add_row, m);
    total_params(m, def->fn, &p->totals);
    total_rows(m, def->fn, &p->totals);
    p->plain = p->totals.n_weights == 0 && p->totals.multiply_adds == 0 && p->totals.open == 0;
    p->done = true;
    print_piece(m, def, p);
}

/* ---- all functions ----------------------------------------------------------------------------------------------------------- */

/* A function whose callees are summarised before it. */
typedef struct Visit {
    const Def *def;
    Summary *m;
    Vec(const Def *) callees;
    size_t next;
} Visit;

static WalkNext add_callee(void *data, const Expr *e)
{
    Visit *v = data;
    const GlobalVar *g = expr_as_global(e);
    const Def *def = g ? module_find(v->m->module, g->name) : NULL;
    if (def && def->fn)
        vec_push(&v->callees, &v->m->arena, def);
    return WALK_ON;
}

/* The first visit of a function; NULL where it was visited before. */
static Visit *visit(Summary *m, const Def *def)
{
    if (ptrmap_find(&m->pieces, def->fn))
        return NULL;
    ptrmap_put(&m->pieces, def->fn, arena_alloc_must(&m->arena, 1, sizeof(Piece)));
    memset(ptrmap_find(&m->pieces, def->fn), 0, sizeof(Piece));
    Visit *v = arena_alloc_must(&m->arena, 1, sizeof *v);
    *v = (Visit){.def = def, .m = m};
    ir_walk(&def->fn->base, NULL, add_callee, v);
    return v;
}

/* Callees first; a function that is called while its own are under way counts nothing there. */
static void summarise_reached(Summary *m, const Def *def)
{
    Vec(Visit *) under_way = {0};
    vec_push(&under_way, &m->arena, visit(m, def));
    while (under_way.n && !is_cut(m)) {
        Visit *v = under_way.at[under_way.n - 1], *next = NULL;
        while (v && v->next < v->callees.n && !next)
            next = visit(m, v->callees.at[v->next++]);
        if (next) {
            vec_push(&under_way, &m->arena, next);
            continue;
        }
        if (v)
            summarise(m, v->def);
        under_way.n--;
    }
}

static void join_pieces(Summary *m, size_t n, const Def *const *defs, const Name *first)
{
    Buf text = {0}, html = {0}, json = {0};
    buf_str(&json, "{\"functions\": [");
    for (int rest = 0; rest < 2; rest++)
        for (size_t i = 0; i < n; i++) {
            const Piece *p = ptrmap_find(&m->pieces, defs[i]->fn);
            if (!p || !p->done || (defs[i]->name == first) == rest || (rest && p->plain))
                continue;
            buf_printf(&json, "%s%s", text.n ? ",\n" : "\n", p->json);
            buf_printf(&text, "%s%s", text.n ? "\n" : "", p->text);
            buf_str(&html, p->html);
        }
    buf_str(&json, "]}\n");
    emit_bundle(m->s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

/* Every function with weights or products in it, `first` before the others; what a loop does counts once. */
static void summary_show(RelaySession *s, Module *m, const Name *first, const char *title)
{
    Summary sum = {.s = s, .module = m, .weights = {.module = m}, .first = first, .title = title};
    arena_init(&sum.arena, &s->cx.limits);
    find_weights(s, &sum.weights);
    const Def **defs = arena_new_array(&sum.arena, const Def *, m->defs.n);
    size_t n = defs ? module_sorted_defs(m, defs, false) : 0;
    const Def *entry = module_find(m, first);
    if (entry && entry->fn)
        summarise_reached(&sum, entry);
    for (size_t i = 0; i < n; i++)
        summarise_reached(&sum, defs[i]);
    join_pieces(&sum, n, defs, first);
    PtrMap *maps[] = {&sum.weights.of, &sum.weights.lets, &sum.row_of, &sum.counted, &sum.pieces};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        ptrmap_deinit(maps[i]);
    arena_deinit(&sum.arena);
}

/* The expression as a function beside those that it calls: itself where it is one. */
static Module *program_of(RelaySession *s, Module *m, const Name *name)
{
    Module *out = module_with_reached(s->env, m);
    const Function *fn = out ? expr_as_function(m->expr) : NULL;
    if (!out)
        return NULL;
    if (!fn)
        fn = expr_function(&out->arena, m->expr->span, (TypeVarList){0}, (uint32_t)m->free_vars.n,
                           m->free_vars.at, NULL, NULL, m->expr);
    module_define(out, name, (Function *)(uintptr_t)fn, m->expr->span, out);
    if (typecheck_module(&s->cx, out, NULL))
        return out;
    module_release(out);
    return NULL;
}

void command_summary(CommandCall *c)
{
    RelaySession *s = c->s;
    if (!command_need(c, "a function (`@f`), or an expression"))
        return;
    const Def *def = command_global(c);
    char *text = command_rest(c);
    Module *m = command_module(c);
    const Name *name = def ? def->name : ctx_name(&s->cx, "it");
    Module *whole = !m ? NULL : def ? module_retain(m) : program_of(s, m, name);
    if (whole)
        summary_show(s, whole, name,
                     def                                 ? NULL
                     : text && command_is_variable(text) ? text
                                                         : "the expression");
    free(text);
    module_release(whole);
    module_release(m);
}

RelayStatus stage_summary(RelaySession *s, const RelayRequest *r)
{
    const char *entry = request_find(r, "entry");
    Module *text = load_program(s, r->name, r->text, r->len, true);
    Module *m = text ? with_entry(s, r, text, entry ? entry : "main") : NULL;
    if (m)
        summary_show(s, m, ctx_name(&s->cx, entry ? entry : "main"), NULL);
    module_release(m);
    module_release(text);
    return session_status(s);
}
