#include "session/views/graph.h"

#include "base/memory.h"
#include "ir/op.h"
#include "ir/walk.h"
#include "session/views/dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More boxes than these are folded. */
#define BOXES_MOST 60
#define BOXES_SHOWN 160
/* Lines of a picture: Graphviz takes the square of their number. */
#define LINES_SHOWN 500

typedef struct Box {
    const char *name; /* of the operator, or what it is; of a fold, what its members begin with */
    const char *type; /* of its value, `1x64x56x56`; NULL: no tensor */
    double bytes;
    uint32_t group; /* the fused group that it is in, from 1; 0: none, or several */
    uint32_t groups; /* of a fold: how many; else at most 1 */
    const char *block; /* the part of the network, by the names of its weights; NULL: none */
    uint32_t members; /* of a fold; else 1 */
    bool input;
    bool known; /* computed of weights and constants alone */
    double x, y, wide, high; /* where it is drawn, in points from the top left */
} Box;

typedef struct Edge {
    uint32_t from, to;
    const char *type;
    double bytes;
    Buf path; /* of the line, as SVG */
    double label_x, label_y; /* 0: none */
} Edge;

typedef struct Graph {
    RelaySession *s;
    Arena arena;
    Vec(Box) boxes;
    Vec(Edge) edges;
    PtrMap of; /* Expr -> its box + 1: a variable's is that of its value */
    PtrMap lets;   /* Var -> its value */
    bool inside;   /* of a fused function */
    PtrMap groups; /* inside a fused function: node -> its group */
    uint32_t n_groups;
    double wide, high; /* 0: there is no layout */
} Graph;

/* ---- what it is made of -------------------------------------------------------------------------------------------------------- */

static const char *text_of(Graph *g, Buf *b)
{
    return buf_keep(b, &g->arena);
}

static const char *type_words(Graph *g, const Type *t, double *bytes)
{
    Buf b = {0};
    t = t ? type_find(t) : NULL;
    *bytes = 0;
    if (!t || t->kind != TYPE_TENSOR)
        return NULL;
    double size = (double)dtype_size(t->dtype);
    for (uint32_t i = 0; i < t->n; i++) {
        size *= t->dims[i] > 0 ? (double)t->dims[i] : 1;
        if (t->dims[i] < 0)
            buf_printf(&b, "%s?", i ? "x" : "");
        else
            buf_printf(&b, "%s%lld", i ? "x" : "", (long long)t->dims[i]);
    }
    if (!t->n)
        buf_str(&b, "number");
    *bytes = size;
    return text_of(g, &b);
}

static uint32_t box_of(const Graph *g, const Expr *e)
{
    return (uint32_t)(uintptr_t)ptrmap_find(&g->of, e);
}

static void set_box(Graph *g, const Expr *e, uint32_t box)
{
    ptrmap_put(&g->of, e, (void *)(uintptr_t)box);
}

/* What stands in front of the first `_` of a weight's name. */
static const char *block_of(Graph *g, const char *name)
{
    const char *end = strchr(name, '_');
    return *name == '%' && end ? arena_copy_text(&g->arena, name + 1, (size_t)(end - name - 1))
                               : NULL;
}

static uint32_t add_box(Graph *g, const Expr *e, const char *name)
{
    Box box = {.name = name, .members = 1, .input = e->kind <= EXPR_CON};
    box.type = type_words(g, e->type, &box.bytes);
    box.group = (uint32_t)(uintptr_t)ptrmap_find(&g->groups, e);
    box.groups = box.group != 0;
    box.known = !box.input || e->kind == EXPR_CONSTANT || block_of(g, name);
    vec_push(&g->boxes, &g->arena, box);
    set_box(g, e, (uint32_t)g->boxes.n);
    return (uint32_t)g->boxes.n;
}

static void add_edge(Graph *g, uint32_t from, uint32_t to)
{
    if (!from || !to || from == to)
        return;
    const Box *source = &g->boxes.at[from - 1];
    Edge edge = {.from = from - 1, .to = to - 1, .type = source->type, .bytes = source->bytes};
    vec_push(&g->edges, &g->arena, edge);
}

typedef struct Operands {
    Graph *g;
    uint32_t to;
} Operands;

static const char *var_name(Graph *g, const Var *v)
{
    Buf b = {0};
    buf_printf(&b, "%%%s", v->name->text);
    return text_of(g, &b);
}

/* What comes from outside has a box from its first use on. */
static uint32_t input_box(Graph *g, const Expr *e)
{
    const Expr *value = ptrmap_find(&g->lets, e);
    for (; value; value = ptrmap_find(&g->lets, e))
        e = value;
    const Constant *c = expr_as_constant(e);
    uint32_t box = box_of(g, e);
    if (!box && e->kind == EXPR_VAR)
        return add_box(g, e, var_name(g, expr_as_var(e)));
    if (!box && c && c->value.kind != VALUE_SCALAR)
        return add_box(g, e, "constant");
    return box;
}

static void add_input(void *data, Expr *const *slot)
{
    input_box(data, *slot);
}

/* A block's name comes from the weights, and what was made of them, and goes on to what has none. */
static void add_operand(void *data, Expr *const *slot)
{
    Operands *o = data;
    Graph *g = o->g;
    uint32_t from = input_box(g, *slot);
    if (!from)
        return;
    Box *box = &g->boxes.at[o->to - 1];
    const Box *source = &g->boxes.at[from - 1];
    const char *block = source->input ? block_of(g, source->name) : source->block;
    if (block && (!box->block || source->known))
        box->block = block;
    box->known &= source->known;
    add_edge(g, from, o->to);
}

static const char *const kinds[EXPR_KINDS] = {
    [EXPR_TUPLE] = "tuple",       [EXPR_CALL] = "call",
    [EXPR_FUNCTION] = "function", [EXPR_IF] = "if",
    [EXPR_MATCH] = "match",       [EXPR_REF_NEW] = "ref",
    [EXPR_REF_READ] = "ref_read", [EXPR_REF_WRITE] = "ref_write",
};

static const char *name_of(Graph *g, const Expr *e)
{
    const Call *call = expr_as_call(e);
    const TupleGet *get = expr_as_tuple_get(e);
    const Op *op = expr_call_of_op(e);
    const GlobalVar *callee = call ? expr_as_global(call->callee) : NULL;
    const Constructor *con = expr_call_of_con(e);
    Buf b = {0};
    if (op)
        return op->name;
    if (callee)
        buf_printf(&b, "@%s", callee->name->text);
    else if (con)
        buf_str(&b, con->name->text);
    else if (get)
        buf_printf(&b, ".%lld", (long long)get->index);
    else
        buf_str(&b, kinds[e->kind]);
    return text_of(g, &b);
}

static Function *fused(const Expr *e)
{
    const Call *call = expr_as_call(e);
    Function *f = call ? expr_as_function(call->callee) : NULL;
    return f && function_is_primitive(f) ? f : NULL;
}

static WalkNext before_node(void *data, const Expr *e);
static WalkNext after_node(void *data, const Expr *e);

typedef struct Member {
    Graph *g;
    uint32_t group;
} Member;

static WalkNext note_member(void *data, const Expr *e)
{
    Member *m = data;
    if (e->kind > EXPR_CON)
        ptrmap_put(&m->g->groups, e, (void *)(uintptr_t)m->group);
    return WALK_ON;
}

/* A call of a fused function is what is inside, its parameters are the arguments. */
static void open_group(Graph *g, const Call *call, Function *f)
{
    Member m = {g, ++g->n_groups};
    ir_walk(f->body, NULL, note_member, &m);
    for (uint32_t i = 0; i < f->params.n && i < call->args.n; i++) {
        set_box(g, &f->params.at[i]->base, input_box(g, call->args.at[i]));
    }
    g->inside = true;
    ir_walk(f->body, before_node, after_node, g);
    g->inside = false;
    set_box(g, &call->base, input_box(g, f->body));
}

static WalkNext before_node(void *data, const Expr *e)
{
    Graph *g = data;
    const Let *let = expr_as_let(e);
    if (limit_hit(&g->s->cx.limits))
        return WALK_STOP;
    if (let)
        ptrmap_put(&g->lets, let->var, let->value);
    return box_of(g, e) || (e->kind == EXPR_FUNCTION) ? WALK_SKIP : WALK_ON;
}

static WalkNext after_node(void *data, const Expr *e)
{
    Graph *g = data;
    const Let *let = expr_as_let(e);
    if (e->kind <= EXPR_CON || e->kind == EXPR_FUNCTION)
        return WALK_ON;
    if (let) {
        set_box(g, e, input_box(g, let->body));
        return WALK_ON;
    }
    if (fused(e) && !g->inside) {
        open_group(g, expr_as_call(e), fused(e));
        return WALK_ON;
    }
    ir_children(e, add_input, g);
    Operands o = {g, add_box(g, e, name_of(g, e))};
    ir_children(e, add_operand, &o);
    return WALK_ON;
}

/* ---- folding --------------------------------------------------------------------------------------------------------------------- */

/* Boxes of one block that follow each other become one. Weights go into the box that takes them. */
static void fold(Graph *g)
{
    size_t n = g->boxes.n;
    uint32_t *to = arena_alloc_array(&g->arena, n + 1, sizeof *to);
    Vec(Box) boxes = {0};
    uint32_t latest = 0; /* group */
    for (size_t i = 0; i < n; i++) {
        const Box *b = &g->boxes.at[i];
        Box *last = boxes.n ? &vec_last(&boxes) : NULL;
        bool weight = b->input && block_of(g, b->name);
        bool same =
            last && !last->input && b->block && last->block && !strcmp(b->block, last->block);
        if (weight) {
            to[i] = UINT32_MAX;
            continue;
        }
        if (same) {
            if (b->group && b->group != latest)
                last->groups++;
            if (last->group != b->group)
                last->group = 0;
            last->members++;
            last->type = b->type;
            last->bytes = b->bytes;
        } else {
            vec_push(&boxes, &g->arena, *b);
        }
        to[i] = (uint32_t)boxes.n - 1;
        latest = b->group ? b->group : latest;
    }
    Vec(Edge) edges = {0};
    for (size_t i = 0; i < g->edges.n; i++) {
        Edge e = g->edges.at[i];
        e.from = to[e.from];
        e.to = to[e.to];
        bool again = e.from == e.to || e.from == UINT32_MAX || e.to == UINT32_MAX;
        for (size_t k = edges.n; k-- > 0 && !again && edges.n - k < 64;)
            again = edges.at[k].from == e.from && edges.at[k].to == e.to;
        if (!again)
            vec_push(&edges, &g->arena, e);
    }
    g->boxes.at = boxes.at;
    g->boxes.n = boxes.n;
    g->boxes.cap = boxes.cap;
    g->edges.at = edges.at;
    g->edges.n = edges.n;
    g->edges.cap = edges.cap;
}

static void put_name(Buf *out, const Box *b)
{
    if (b->members > 1)
        buf_printf(out, "%s: %u calls", b->block, (unsigned)b->members);
    else
        buf_str(out, b->name);
    if (b->groups > 1)
        buf_printf(out, " in %u groups", (unsigned)b->groups);
}

/* ---- layout ------------------------------------------------------------------------------------------------------------------------ */

#define POINTS 72.0

static void write_dot(Graph *g, Buf *out)
{
    buf_str(out, "digraph{nodesep=.15;ranksep=.35;node[shape=box,label=\"\",fixedsize=true]"
                 "edge[fontsize=8,arrowhead=none]\n");
    for (size_t i = 0; i < g->boxes.n; i++) {
        Buf name = {0};
        put_name(&name, &g->boxes.at[i]);
        buf_printf(out, "n%zu[width=%.2f,height=.32]\n", i, .1 * (double)name.n + .3);
        buf_deinit(&name);
    }
    for (uint32_t k = 1; k <= g->n_groups; k++) {
        buf_printf(out, "subgraph cluster_%u{", (unsigned)k);
        for (size_t i = 0; i < g->boxes.n; i++)
            if (g->boxes.at[i].group == k)
                buf_printf(out, "n%zu;", i);
        buf_str(out, "}\n");
    }
    for (size_t i = 0; i < g->edges.n; i++) {
        const Edge *e = &g->edges.at[i];
        buf_printf(out, "n%u->n%u", (unsigned)e->from, (unsigned)e->to);
        if (e->type)
            buf_printf(out, "[label=\"  %s \"]", e->type);
        buf_char(out, '\n');
    }
    buf_str(out, "}\n");
}

static const char *next_number(const char *p, double *out)
{
    char *end;
    *out = strtod(p, &end);
    return end;
}

static void read_node(Graph *g, const char *p)
{
    double number[4];
    size_t i = strtoul(p + 1, (char **)&p, 10);
    for (int k = 0; k < 4; k++)
        p = next_number(p, &number[k]);
    if (i >= g->boxes.n)
        return;
    Box *b = &g->boxes.at[i];
    b->wide = number[2] * POINTS;
    b->high = number[3] * POINTS;
    b->x = number[0] * POINTS - b->wide / 2;
    b->y = g->high - number[1] * POINTS - b->high / 2;
}

/* `n0 n1 4 x y x y x y x y label x y …`: edges come in another order, and two boxes may have several. */
static void read_edge(Graph *g, const char *p)
{
    size_t from = strtoul(p + 1, (char **)&p, 10), to = strtoul(p + 2, (char **)&p, 10);
    size_t n = strtoul(p, (char **)&p, 10);
    Edge *e = NULL;
    for (size_t i = 0; i < g->edges.n && !e; i++)
        if (g->edges.at[i].from == from && g->edges.at[i].to == to && !g->edges.at[i].path.n)
            e = &g->edges.at[i];
    double x = 0, y = 0, x0 = 0, y0 = 0;
    for (size_t k = 0; e && k < n; k++) {
        x0 = x;
        y0 = y;
        p = next_number(next_number(p, &x), &y);
        x *= POINTS;
        y = g->high - y * POINTS;
        buf_printf(&e->path, "%s%.1f %.1f", k == 0 ? "M" : k == 1 ? "C" : " ", x, y);
    }
    if (!e)
        return;
    double long_ = hypot(x - x0, y - y0), dx = long_ > 0 ? (x - x0) / long_ : 0,
           dy = long_ > 0 ? (y - y0) / long_ : 1;
    buf_printf(&e->path, "M%.1f %.1fL%.1f %.1fL%.1f %.1f", x - 5 * dx - 3 * dy, y - 5 * dy + 3 * dx,
               x, y, x - 5 * dx + 3 * dy, y - 5 * dy - 3 * dx);
    while (*p == ' ')
        p++;
    if (!e->type || !*p)
        return;
    p = *p == '"' ? strchr(p + 1, '"') : strchr(p, ' ');
    if (!p)
        return;
    next_number(next_number(p + 1, &e->label_x), &e->label_y);
    e->label_x *= POINTS;
    e->label_y = g->high - e->label_y * POINTS;
}

/* False where there is no Graphviz. */
static bool lay_out(Graph *g)
{
    Buf dot = {0}, plain = {0};
    write_dot(g, &dot);
    bool ok = dot_layout(&g->s->cx.limits, &dot, &plain);
    const char *p = buf_text(&plain);
    while (ok && *p) {
        double scale;
        if (!strncmp(p, "graph ", 6)) {
            next_number(next_number(next_number(p + 6, &scale), &g->wide), &g->high);
            g->wide *= POINTS;
            g->high *= POINTS;
        } else if (!strncmp(p, "node n", 6)) {
            read_node(g, p + 5);
        } else if (!strncmp(p, "edge n", 6)) {
            read_edge(g, p + 5);
        }
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    buf_deinit(&dot);
    buf_deinit(&plain);
    return ok;
}

/* ---- views --------------------------------------------------------------------------------------------------------------------------- */

static void put_counts(const Graph *g, Buf *out)
{
    buf_printf(out, "boxes %zu, lines %zu, fused groups %u", g->boxes.n, g->edges.n,
               (unsigned)g->n_groups);
}

/* Few enough for a picture. */
static bool fits_picture(const Graph *g)
{
    return g->boxes.n <= BOXES_SHOWN && g->edges.n <= LINES_SHOWN;
}

static void graph_text(const Graph *g, Buf *out, bool picture)
{
    put_counts(g, out);
    buf_str(out, picture ? "\n"
                 : fits_picture(g)
                     ? "; the picture needs Graphviz, whose program `dot` is not there\n"
                     : "; too many for a picture\n");
    size_t shown = g->boxes.n < BOXES_SHOWN ? g->boxes.n : BOXES_SHOWN;
    for (size_t i = 0; i < shown; i++) {
        const Box *b = &g->boxes.at[i];
        Buf name = {0};
        put_name(&name, b);
        buf_printf(out, "%4zu  %-28s %-18s", i, buf_text(&name), b->type ? b->type : "");
        buf_deinit(&name);
        const char *between = "from ";
        for (size_t k = 0; k < g->edges.n; k++)
            if (g->edges.at[k].to == i) {
                buf_printf(out, "%s%u", between, (unsigned)g->edges.at[k].from);
                between = ", ";
            }
        if (b->group)
            buf_printf(out, "  in group %u", (unsigned)b->group);
        while (out->n && out->at[out->n - 1] == ' ')
            buf_cut(out, out->n - 1);
        buf_char(out, '\n');
    }
    if (shown < g->boxes.n)
        buf_printf(out, "… and %zu more\n", g->boxes.n - shown);
}

static void graph_json(const Graph *g, Buf *out)
{
    buf_printf(out, "{\"groups\": %u, \"boxes\": [", (unsigned)g->n_groups);
    for (size_t i = 0; i < g->boxes.n; i++) {
        const Box *b = &g->boxes.at[i];
        Buf name = {0};
        put_name(&name, b);
        buf_printf(out, "%s{\"name\": \"", i ? ", " : "");
        buf_json(out, buf_text(&name), name.n);
        buf_printf(out, "\", \"shape\": \"%s\", \"group\": %u, \"calls\": %u}",
                   b->type ? b->type : "", (unsigned)b->group, (unsigned)b->members);
        buf_deinit(&name);
    }
    buf_str(out, "], \"lines\": [");
    for (size_t i = 0; i < g->edges.n; i++)
        buf_printf(out, "%s[%u, %u]", i ? ", " : "", (unsigned)g->edges.at[i].from,
                   (unsigned)g->edges.at[i].to);
    buf_str(out, "]}");
}

static void put_regions(const Graph *g, Buf *out)
{
    for (uint32_t k = 1; k <= g->n_groups; k++) {
        double left = INFINITY, top = INFINITY, right = -INFINITY, bottom = -INFINITY;
        for (size_t i = 0; i < g->boxes.n; i++) {
            const Box *b = &g->boxes.at[i];
            if (b->group != k)
                continue;
            left = fmin(left, b->x);
            top = fmin(top, b->y);
            right = fmax(right, b->x + b->wide);
            bottom = fmax(bottom, b->y + b->high);
        }
        if (left < right)
            buf_printf(out,
                       "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"6\" "
                       "fill=\"#1e88e5\" fill-opacity=\"0.12\" stroke=\"#1e88e5\" "
                       "stroke-dasharray=\"4 3\"/>",
                       left - 6, top - 6, right - left + 12, bottom - top + 12);
    }
}

static void put_edges(const Graph *g, Buf *out)
{
    for (size_t i = 0; i < g->edges.n; i++) {
        const Edge *e = &g->edges.at[i];
        double width = e->bytes > 0 ? .8 + .25 * fmax(0, log2(e->bytes) - 8) : .8;
        buf_printf(out,
                   "<path d=\"%s\" fill=\"none\" stroke=\"currentColor\" stroke-opacity=\"0.55\" "
                   "stroke-width=\"%.1f\"/>",
                   buf_text(&e->path), fmin(width, 5));
        if (e->label_x > 0)
            buf_printf(out,
                       "<text x=\"%.1f\" y=\"%.1f\" font-size=\"8\" text-anchor=\"middle\" "
                       "fill-opacity=\"0.7\">%s</text>\n",
                       e->label_x, e->label_y + 3, e->type);
    }
}

static void put_boxes(const Graph *g, Buf *out)
{
    for (size_t i = 0; i < g->boxes.n; i++) {
        const Box *b = &g->boxes.at[i];
        Buf name = {0};
        put_name(&name, b);
        buf_printf(out,
                   "<g data-group=\"%u\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
                   "height=\"%.1f\" rx=\"4\" fill=\"var(--jp-layout-color2,Canvas)\" "
                   "stroke=\"currentColor\" stroke-opacity=\"%s\"/><text x=\"%.1f\" y=\"%.1f\" "
                   "font-size=\"11\" text-anchor=\"middle\">",
                   (unsigned)b->group, b->x, b->y, b->wide, b->high, b->input ? "0.25" : "0.8",
                   b->x + b->wide / 2, b->y + b->high / 2 + 4);
        buf_html(out, buf_text(&name), name.n);
        buf_str(out, "</text></g>\n");
        buf_deinit(&name);
    }
}

static void graph_html(const Graph *g, const Buf *text, Buf *out)
{
    buf_printf(out,
               "<div class=\"relay-graph\" style=\"overflow:auto;max-height:48em;color:var(--jp-ui-"
               "font-color1,inherit)\"><svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
               "height=\"%.0f\" viewBox=\"-10 -10 %.0f %.0f\" role=\"img\" "
               "font-family=\"sans-serif\" fill=\"currentColor\">",
               g->wide + 20, g->high + 20, g->wide + 20, g->high + 20);
    put_regions(g, out);
    put_edges(g, out);
    put_boxes(g, out);
    buf_str(out, "</svg><div>");
    put_counts(g, out);
    buf_printf(out, "; %sthe wider a line, the more bytes</div>",
               g->n_groups ? "dashed: a group; " : "");
    html_as_text(out, text);
    buf_str(out, "</div>");
}

static void emit_graph(Graph *g)
{
    Buf text = {0}, html = {0}, json = {0};
    bool picture = fits_picture(g) && lay_out(g);
    graph_text(g, &text, picture);
    graph_json(g, &json);
    if (picture) {
        graph_html(g, &text, &html);
    } else {
        buf_str(&html, "<pre>");
        buf_html(&html, buf_text(&text), text.n);
        buf_str(&html, "</pre>");
    }
    emit_bundle(g->s, &text, &html, &json);
    buf_deinit(&text);
    buf_deinit(&html);
    buf_deinit(&json);
}

void show_graph(RelaySession *s, const Module *m, const Name *entry)
{
    Graph g = {.s = s};
    const Def *def = entry ? module_find(m, entry) : NULL;
    const Function *f = def ? def->fn : expr_as_function(m->expr);
    arena_init(&g.arena, &s->cx.limits);
    ir_walk(f ? f->body : m->expr, before_node, after_node, &g);
    if (g.boxes.n > BOXES_MOST)
        fold(&g);
    if (!limit_hit(&s->cx.limits))
        emit_graph(&g);
    for (size_t i = 0; i < g.edges.n; i++)
        buf_deinit(&g.edges.at[i].path);
    ptrmap_deinit(&g.of);
    ptrmap_deinit(&g.groups);
    ptrmap_deinit(&g.lets);
    arena_deinit(&g.arena);
}
