/* Nodes with graphs in them. `If` is one in Relay too; `Loop` and `Scan` become a function that calls itself in tail position, with what
 * is carried from turn to turn as its parameters. A carried value whose extents change has `?` for them, which is found by reading the
 * graph again. What each turn adds to a result is written into an array of all turns where their number is known, and is put behind the
 * others where it is not. */
#include "exchange/onnx.h"

#include <string.h>

#define CARRIED_MOST 64

static const Onnx__GraphProto *graph_of(OnnxNode *n, const char *name)
{
    const Onnx__AttributeProto *a = onnx_attr(n, name);
    if (a && a->g)
        return a->g;
    onnx_refuse(n, "there is no graph `%s`", name);
    return NULL;
}

/* ---- If --------------------------------------------------------------------------------------------------------------------- */

typedef struct Branch {
    const OnnxBlock *block;
    size_t n;
    const char *texts[CARRIED_MOST];
    const Type *types[CARRIED_MOST]; /* NULL: open */
} Branch;

static bool read_branch(OnnxNode *n, const Onnx__GraphProto *g, Branch *out)
{
    out->n = n->proto->n_output;
    if (g->n_output != out->n || out->n > CARRIED_MOST)
        onnx_refuse(n, "a graph with %zu results for %zu", g->n_output, out->n);
    if (n->failed || !onnx_block_graph(n, g))
        return false;
    for (size_t i = 0; i < out->n; i++) {
        const OnnxValue *v = onnx_block_result(n, g->output[i]->name);
        out->texts[i] = v ? v->text : "0";
        out->types[i] = v ? v->type : NULL;
    }
    return !n->failed;
}

/* The results of a branch as one value; a line declares the type where the branches differ in extents. */
static const char *branch_text(OnnxNode *n, const Branch *b, const Type *const *types)
{
    Buf lines = {0}, results = {0};
    for (size_t i = 0; i < b->n; i++) {
        const char *text = b->texts[i];
        if (types[i] && b->types[i] != types[i]) {
            const char *name = onnx_name(n, "branch");
            buf_printf(&lines, "let %%%s: %s = %s; ", name, onnx_type_text(n, types[i]), text);
            text = onnx_text(n, "%%%s", name);
        }
        buf_printf(&results, "%s%s", i ? ", " : "", text);
    }
    const char *text =
        onnx_text(n, b->n == 1 ? "%s%s" : "%s(%s)", buf_text(&lines), buf_text(&results));
    buf_deinit(&lines);
    buf_deinit(&results);
    return text;
}

static void give_parts(OnnxNode *n, const char *y, size_t count)
{
    for (size_t i = 0; i < count; i++)
        onnx_give(n, count == 1 ? y : onnx_text(n, "%s.%zu", y, i));
}

/* The branch that is taken stands where the node stood. */
static void give_branch(OnnxNode *n, const Onnx__GraphProto *g)
{
    const OnnxValue *results[CARRIED_MOST] = {0};
    onnx_block_begin(n);
    bool ok = onnx_block_graph(n, g);
    for (size_t i = 0; ok && i < g->n_output && i < CARRIED_MOST; i++)
        results[i] = onnx_block_result(n, g->output[i]->name);
    onnx_block_splice(n);
    for (size_t i = 0; ok && i < g->n_output && i < CARRIED_MOST; i++)
        onnx_give_value(n, results[i]);
}

void rule_if(OnnxNode *n)
{
    const Onnx__GraphProto *graphs[] = {graph_of(n, "then_branch"), graph_of(n, "else_branch")};
    const OnnxValue *c = onnx_value(n, 0);
    if (!graphs[0] || !graphs[1] || !c)
        return;
    if (c->constant) {
        give_branch(n, graphs[onnx_number(n, 0, 0) == 0]);
        return;
    }
    Branch branches[2] = {{.n = 0}};
    const char *texts[2] = {"", ""};
    const Type *types[CARRIED_MOST] = {0};
    onnx_block_begin(n);
    bool ok = read_branch(n, graphs[0], &branches[0]);
    onnx_block_begin(n);
    ok = ok && read_branch(n, graphs[1], &branches[1]);
    for (size_t i = 0; ok && i < branches[0].n; i++) {
        const Type *a = branches[0].types[i], *b = branches[1].types[i];
        types[i] = !a ? b : !b ? a : onnx_join(n, a, b);
        if (a && b && !types[i])
            onnx_refuse(n, "result %zu is `%s` in one branch and `%s` in the other", i,
                        onnx_type_text(n, a), onnx_type_text(n, b));
    }
    for (int k = 1; k >= 0; k--)
        texts[k] = onnx_block_end(n, ok ? branch_text(n, &branches[k], types) : "()");
    if (n->failed)
        return;
    const char *y =
        onnx_text(n, "if (%s) {\n%s\n} else {\n%s\n}", onnx_scalar(n, 0), texts[0], texts[1]);
    give_parts(n, branches[0].n > 1 ? onnx_let(n, y) : y, branches[0].n);
}

/* ---- functions that call themselves ------------------------------------------------------------------------------------------ */

void onnx_fold_begin(OnnxNode *n, OnnxFold *f)
{
    onnx_block_begin(n);
    f->index = onnx_param(n, "turn", type_scalar(onnx_ctx(n), dtype_of(DT_INT64)));
    for (size_t i = 0; i < f->n; i++)
        f->states[i].param = onnx_param(n, f->states[i].param, f->states[i].type);
}

typedef struct FoldTexts {
    Buf params, types, firsts, nexts, results;
} FoldTexts;

static void put_state(OnnxNode *n, FoldTexts *b, const OnnxState *s)
{
    buf_printf(&b->params, ", %s: %s", s->param, onnx_type_text(n, s->type));
    buf_printf(&b->firsts, ", %s", s->first);
    buf_printf(&b->nexts, ", %s", s->next);
}

const char *onnx_fold_end(OnnxNode *n, OnnxFold *f)
{
    const char *name = onnx_name(n, onnx_text(n, "%s_turns", f->hint));
    if (n->failed) {
        onnx_block_drop(n);
        return "0";
    }
    FoldTexts b = {0};
    buf_printf(&b.params, "%s: int64", f->index);
    buf_str(&b.firsts, "0i64");
    buf_printf(&b.nexts, "add(%s, 1i64)", f->index);
    if (f->keep.param)
        put_state(n, &b, &f->keep);
    for (size_t i = 0; i < f->n; i++) {
        put_state(n, &b, &f->states[i]);
        buf_printf(&b.types, "%s%s", i ? ", " : "", onnx_type_text(n, f->states[i].type));
        buf_printf(&b.results, "%s%s", i ? ", " : "", f->states[i].param);
    }
    const char *more = f->count ? onnx_text(n, "less(%s, %s)", f->index, f->count) : "True";
    if (f->keep.param)
        more = f->count ? onnx_text(n, "logical_and(%s, %s)", f->keep.param, more) : f->keep.param;
    const char *turn = onnx_block_end(n, onnx_text(n, "%%%s(%s)", name, buf_text(&b.nexts)));
    const char *open = f->n == 1 ? "" : "(", *close = f->n == 1 ? "" : ")";
    onnx_define(n, name,
                onnx_text(n, "fn (%s) -> %s%s%s {\nif (%s) {\n%s\n} else {\n%s%s%s\n}\n}",
                          buf_text(&b.params), open, buf_text(&b.types), close, more, turn, open,
                          buf_text(&b.results), close));
    const char *y = onnx_text(n, "%%%s(%s)", name, buf_text(&b.firsts));
    buf_deinit(&b.params);
    buf_deinit(&b.types);
    buf_deinit(&b.firsts);
    buf_deinit(&b.nexts);
    buf_deinit(&b.results);
    return f->n == 1 ? y : onnx_let(n, y);
}

/* ---- Loop and Scan ---------------------------------------------------------------------------------------------------------- */

typedef struct Carried {
    OnnxValue first; /* before the first turn */
    const Type *type; /* of all turns; NULL: open */
    const char *param, *next;
} Carried;

typedef struct Collected {
    const Type *type; /* of what one turn gives */
    const char *param, *next, *first;
    OnnxState
        shape; /* of all turns so far: where a turn's extents are known at run time only; `param` is NULL else */
    int64_t axis;
    bool backwards;
} Collected;

typedef struct Turns {
    const Onnx__GraphProto *graph;
    const char *count; /* how many; NULL: no such limit */
    int64_t known; /* the same, where it is known; -1 */
    bool asks; /* each turn says whether there is another */
    const char *keep, *keep_first, *keep_next; /* then */
    const char *index; /* of the turn: int64 */
    size_t n_carried, n_collected;
    Carried carried[CARRIED_MOST];
    Collected collected[CARRIED_MOST];
    bool again; /* a type was too narrow */
} Turns;

static const char *unique_text(OnnxNode *n, const char *hint, const char *text)
{
    const char *name = onnx_name(n, hint);
    onnx_define(n, name, text);
    return onnx_text(n, "%%%s", name);
}

/* What the graph says of the next turn. */
static void read_results(OnnxNode *n, Turns *t, size_t first)
{
    const Onnx__GraphProto *g = t->graph;
    t->again = false;
    for (size_t i = 0; i < t->n_carried && !n->failed; i++) {
        Carried *c = &t->carried[i];
        const OnnxValue *v = onnx_block_result(n, g->output[first + i]->name);
        if (!v)
            return;
        c->next = v->text;
        const Type *join = !v->type ? c->type : c->type ? onnx_join(n, c->type, v->type) : v->type;
        if (!join)
            onnx_refuse(n, "`%s` changes its type from turn to turn", g->output[first + i]->name);
        t->again |= join != c->type;
        c->type = join;
    }
    for (size_t i = 0; i < t->n_collected && !n->failed; i++) {
        Collected *c = &t->collected[i];
        const OnnxValue *v = onnx_block_result(n, g->output[first + t->n_carried + i]->name);
        if (v && (!v->type || v->type->kind != TYPE_TENSOR))
            onnx_refuse(n, "collects what is no tensor");
        if (n->failed)
            return;
        c->next = v->text;
        c->type = v->type;
    }
}

static const Type *collected_type(OnnxNode *n, const Turns *t, const Type *one)
{
    Dim dims[TENSOR_RANK_MOST + 1] = {t->known >= 0 ? t->known : DIM_ANY};
    if (one->n + 1 > TENSOR_RANK_MOST) {
        onnx_refuse(n, "collects tensors of rank %u", one->n);
        return one;
    }
    memcpy(dims + 1, one->dims, one->n * sizeof *dims);
    return type_tensor(onnx_ctx(n), one->dtype, one->n + 1, dims);
}

/* Of extents that are not known there is no array before the first turn: the elements lie in a row, and beside it the shape that they have. */
static void collect_flat(OnnxNode *n, const Turns *t, Collected *c, const OnnxInts *shape)
{
    Ctx *cx = onnx_ctx(n);
    Buf first = {0};
    for (int k = 0; k < shape->n; k++)
        buf_printf(&first, "%s%lldi64", k ? ", " : "",
                   k && shape->at[k] > 0 ? (long long)shape->at[k] : 0LL);
    c->shape = (OnnxState){
        .first = onnx_text(n, "stack((%s,), axis=0)", buf_text(&first)),
        .type = type_tensor(cx, dtype_of(DT_INT64), 1, &(Dim){shape->n}),
    };
    buf_deinit(&first);
    c->shape.param = onnx_param(n, "shape", c->shape.type);
    c->shape.next = onnx_text(
        n, "concatenate((reshape(add(%s, 1i64), newshape=[1]), shape_of(%s, dtype=\"int64\")))",
        t->index, c->next);
    c->first = onnx_text(n, "zeros(shape=[0], dtype=\"%s\")", onnx_dtype_text(n, c->type->dtype));
    c->param = onnx_param(n, "collected", type_tensor(cx, c->type->dtype, 1, &(Dim){DIM_ANY}));
    const char *one = onnx_text(n, "reshape(%s, newshape=[-1])", c->next);
    c->next = c->backwards ? onnx_text(n, "concatenate((%s, %s))", one, c->param)
                           : onnx_text(n, "concatenate((%s, %s))", c->param, one);
}

static void collect(OnnxNode *n, const Turns *t, Collected *c)
{
    OnnxInts shape = {{t->known >= 0 ? t->known : 0}, 1};
    bool known = true;
    for (uint32_t k = 0; k < c->type->n; k++) {
        shape.at[shape.n++] = c->type->dims[k];
        known &= c->type->dims[k] >= 0;
    }
    if (!known) {
        collect_flat(n, t, c, &shape);
        return;
    }
    c->first = onnx_text(n, "zeros(shape=%s, dtype=\"%s\")", onnx_list(n, shape),
                         onnx_dtype_text(n, c->type->dtype));
    c->param = onnx_param(n, "collected", collected_type(n, t, c->type));
    const char *one = onnx_text(n, "expand_dims(%s, axis=0)", c->next);
    if (t->known < 0) {
        c->next = c->backwards ? onnx_text(n, "concatenate((%s, %s))", one, c->param)
                               : onnx_text(n, "concatenate((%s, %s))", c->param, one);
        return;
    }
    const char *at = c->backwards
                         ? onnx_text(n, "subtract(%lldi64, %s)", (long long)t->known - 1, t->index)
                         : t->index;
    c->next = onnx_text(n, "scatter_nd(%s, reshape(%s, newshape=[1, 1]), %s, mode=\"update\")",
                        c->param, at, one);
}

/* A permutation that moves the first axis behind `to` others. */
static const char *with_axis_at(OnnxNode *n, const char *x, int64_t to, int rank)
{
    OnnxInts axes = {.n = rank};
    for (int k = 0; k < rank; k++)
        axes.at[k] = k < to ? k + 1 : k == to ? 0 : k;
    return to == 0 ? x : onnx_text(n, "transpose(%s, axes=%s)", x, onnx_list(n, axes));
}

/* The row of elements in its shape; what is known of that stays known. */
static const char *shaped(OnnxNode *n, const Turns *t, const Collected *c, const char *row,
                          const char *shape)
{
    OnnxInts known = {{t->known > 0 ? t->known : 0}, 1};
    for (uint32_t k = 0; k < c->type->n; k++)
        known.at[known.n++] = c->type->dims[k] > 0 ? c->type->dims[k] : 0;
    return onnx_step(n, "reshape(dyn.reshape(%s, %s, newshape=None, allowzero=True), newshape=%s)",
                     row, shape, onnx_list(n, known));
}

static void write_turns(OnnxNode *n, Turns *t)
{
    OnnxFold f = {.count = t->count, .index = t->index, .hint = n->proto->output[0]};
    if (t->asks)
        f.keep = (OnnxState){t->keep_first, t->keep, t->keep_next, type_bool(onnx_ctx(n))};
    for (size_t i = 0; i < t->n_carried; i++) {
        const Carried *c = &t->carried[i];
        f.states[f.n++] = (OnnxState){c->first.text, c->param, c->next, c->type};
    }
    for (size_t i = 0; i < t->n_collected && !n->failed; i++) {
        Collected *c = &t->collected[i];
        collect(n, t, c);
        const Type *type = collected_type(n, t, c->type);
        if (c->shape.param)
            type = type_tensor(onnx_ctx(n), type->dtype, 1, &(Dim){DIM_ANY});
        f.states[f.n++] = (OnnxState){c->first, c->param, c->next, type};
        if (c->shape.param)
            f.states[f.n++] = c->shape;
    }
    const char *y = onnx_fold_end(n, &f);
    for (size_t i = 0, at = 0; i < t->n_carried + t->n_collected && !n->failed; i++) {
        const char *part = f.n == 1 ? y : onnx_text(n, "%s.%zu", y, at);
        at++;
        if (i >= t->n_carried) {
            const Collected *c = &t->collected[i - t->n_carried];
            int rank = (int)c->type->n + 1;
            if (c->shape.param)
                part = shaped(n, t, c, part, onnx_text(n, "%s.%zu", y, at++));
            part = with_axis_at(n, part, c->axis + (c->axis < 0 ? rank : 0), rank);
        }
        onnx_give(n, part);
    }
}

static const Type *int64_type(OnnxNode *n)
{
    return type_scalar(onnx_ctx(n), dtype_of(DT_INT64));
}

static void bind_carried(OnnxNode *n, Turns *t, size_t first)
{
    for (size_t i = 0; i < t->n_carried; i++) {
        Carried *c = &t->carried[i];
        const char *name = t->graph->input[first + i]->name;
        OnnxValue v = c->first;
        if (c->type) {
            c->param = onnx_param(n, name ? name : "carried", c->type);
            v = (OnnxValue){.text = c->param, .type = c->type};
        }
        onnx_block_bind(n, name, v);
    }
}

static bool counts_fit(OnnxNode *n, const Turns *t, size_t inputs, size_t outputs)
{
    const Onnx__GraphProto *g = t->graph;
    if (g->n_input == inputs && g->n_output == outputs && n->proto->n_output > 0 &&
        t->n_carried < CARRIED_MOST && t->n_collected < CARRIED_MOST)
        return true;
    onnx_refuse(n, "its graph has %zu inputs and %zu results, not %zu and %zu", g->n_input,
                g->n_output, inputs, outputs);
    return false;
}

/* What is carried into the first turn: inputs from `first`. */
static void read_first(OnnxNode *n, Turns *t, size_t first)
{
    for (size_t i = 0; i < t->n_carried && !n->failed; i++) {
        OnnxValue *v = onnx_value(n, first + i);
        if (!v)
            return;
        v->text = onnx_in(n, first + i);
        t->carried[i] = (Carried){.first = *v, .type = v->type};
    }
}

/* The turns of a loop: the values of one of them, read until their types stay. */
static void read_turn(OnnxNode *n, Turns *t)
{
    const Onnx__GraphProto *g = t->graph;
    onnx_block_begin(n);
    t->index = onnx_param(n, g->input[0]->name ? g->input[0]->name : "turn", int64_type(n));
    t->keep = onnx_param(n, g->input[1]->name ? g->input[1]->name : "more", type_bool(onnx_ctx(n)));
    onnx_block_bind(n, g->input[0]->name, (OnnxValue){.text = t->index, .type = int64_type(n)});
    onnx_block_bind(n, g->input[1]->name,
                    (OnnxValue){.text = t->keep, .type = type_bool(onnx_ctx(n))});
    bind_carried(n, t, 2);
    if (!onnx_block_graph(n, g))
        return;
    read_results(n, t, 1);
    const OnnxValue *more = onnx_block_result(n, g->output[0]->name);
    if (more && more->type->n > 0)
        onnx_refuse(n, "a condition that is no scalar");
    t->keep_next = more ? more->text : "True";
}

/* A constant condition that the turns pass on asks nothing. */
static bool asks(const Turns *t)
{
    bool same = !strcmp(t->keep_next, t->keep) || !strcmp(t->keep_next, "True");
    return !same || strcmp(t->keep_first, "True") != 0;
}

void rule_loop(OnnxNode *n)
{
    Turns t = {.graph = graph_of(n, "body"), .known = -1};
    if (!t.graph)
        return;
    t.n_carried = n->proto->n_input > 2 ? n->proto->n_input - 2 : 0;
    t.n_collected = t.graph->n_output > t.n_carried ? t.graph->n_output - t.n_carried - 1 : 0;
    if (!counts_fit(n, &t, t.n_carried + 2, t.n_carried + t.n_collected + 1))
        return;
    const OnnxValue *most = onnx_has(n, 0) ? onnx_value(n, 0) : NULL;
    bool endless = most && most->constant && onnx_number(n, 0, 0) >= 9e18;
    t.count = most && !endless ? onnx_scalar(n, 0) : NULL;
    t.keep_first = onnx_has(n, 1) ? onnx_scalar(n, 1) : "True";
    read_first(n, &t, 2);
    for (int tries = 0; !n->failed && tries < TENSOR_RANK_MOST * (int)(t.n_carried + 1) + 2;
         tries++) {
        read_turn(n, &t);
        if (n->failed || t.again)
            onnx_block_drop(n);
        if (!t.again)
            break;
    }
    if (n->failed || t.again) {
        onnx_refuse(n, "what it carries has no type");
        return;
    }
    t.asks = asks(&t);
    if (!t.asks && most && most->constant && !endless)
        t.known = onnx_integer(n, 0);
    t.known = t.known < 0 ? -1 : t.known;
    write_turns(n, &t);
}

/* The part of an input that a turn sees. */
static void bind_slices(OnnxNode *n, const Turns *t, size_t first, size_t count,
                        const OnnxInts *axes, const OnnxInts *backwards)
{
    for (size_t i = 0; i < count; i++) {
        size_t from = first + t->n_carried + i;
        int64_t axis = axes->n > (int)i ? axes->at[i] : 0;
        const char *at = backwards->n > (int)i && backwards->at[i]
                             ? onnx_text(n, "subtract(subtract(%s, 1i64), %s)", t->count, t->index)
                             : t->index;
        const char *name = t->graph->input[t->n_carried + i]->name;
        const char *x = unique_text(
            n, name ? name : "slice",
            onnx_text(n, "take(%s, %s, axis=%lld)", onnx_in(n, from), at, (long long)axis));
        if (n->failed)
            return;
        onnx_block_bind(n, name, (OnnxValue){.text = x, .type = onnx_type_of(n, x)});
    }
}

void rule_scan(OnnxNode *n)
{
    Turns t = {.graph = graph_of(n, "body"), .known = -1};
    size_t slices = (size_t)onnx_attr_int(n, "num_scan_inputs", 0);
    if (!t.graph || n->version < 9 || slices < 1 || slices > n->proto->n_input) {
        onnx_refuse(n, n->version < 9 ? "version 8, which scans batches" : "it scans nothing");
        return;
    }
    t.n_carried = n->proto->n_input - slices;
    t.n_collected = t.graph->n_output > t.n_carried ? t.graph->n_output - t.n_carried : 0;
    if (!counts_fit(n, &t, n->proto->n_input, t.n_carried + t.n_collected))
        return;
    OnnxInts axes = onnx_attr_ints(n, "scan_input_axes"),
             back = onnx_attr_ints(n, "scan_input_directions");
    OnnxInts out_axes = onnx_attr_ints(n, "scan_output_axes"),
             out_back = onnx_attr_ints(n, "scan_output_directions");
    int64_t axis = axes.n > 0 ? axes.at[0] : 0;
    axis += axis < 0 ? onnx_rank(n, t.n_carried) : 0;
    t.known = onnx_extent(n, t.n_carried, axis);
    t.count = t.known >= 0 ? onnx_text(n, "%lldi64", (long long)t.known)
                           : onnx_step(n, "take(shape_of(%s, dtype=\"int64\"), %lldi64, axis=0)",
                                       onnx_in(n, t.n_carried), (long long)axis);
    for (size_t i = 0; i < t.n_collected; i++)
        t.collected[i] = (Collected){.axis = out_axes.n > (int)i ? out_axes.at[i] : 0,
                                     .backwards = out_back.n > (int)i && out_back.at[i]};
    read_first(n, &t, 0);
    t.again = true;
    for (int tries = 0;
         t.again && !n->failed && tries < TENSOR_RANK_MOST * (int)(t.n_carried + 1) + 2; tries++) {
        onnx_block_begin(n);
        t.index = onnx_param(n, "turn", int64_type(n));
        bind_carried(n, &t, 0);
        bind_slices(n, &t, 0, slices, &axes, &back);
        if (!n->failed && onnx_block_graph(n, t.graph))
            read_results(n, &t, 0);
        if (n->failed || t.again)
            onnx_block_drop(n);
    }
    if (n->failed || t.again)
        onnx_refuse(n, "what it carries has no type");
    else
        write_turns(n, &t);
}
