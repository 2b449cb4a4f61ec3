/* Makes a function of the module of each region that another compiler is given.
 *
 *     exp(annotation.compiler_end(nn.relu(annotation.compiler_begin(%x, compiler="acc")), compiler="acc"))
 *  => def @main(%x: …) { exp(@tvmgen_default_acc_main_0(%x)) }
 *     def @tvmgen_default_acc_main_0(%acc_0_i0: …, Inline=1, Compiler="acc", …) { nn.relu(%acc_0_i0) }
 *
 * A region with several results gives a tuple. Marks of the target `default` fall away before. Constants that go into a region are
 * copied into its function, unless bind_constants=False. */
#include "passes/annotate.h"
#include "passes/facts.h"
#include "passes/types.h"

#include <ctype.h>
#include <string.h>

typedef struct Output {
    Expr *value; /* as it was */
    Expr *now;   /* the call of the function, or a projection of it */
} Output;

typedef struct Made {
    Region *region;
    Vec(Output) outputs;
    Vec(Expr *) values; /* what goes in, as it was */
    Vec(Var *) params;
    PtrMap by_value;    /* value -> what stands for it in the function */
    const Name *name;
    Call *call;         /* its arguments are filled in when all is rewritten */
} Made;

typedef struct Partition {
    PassRun *run;
    const Def *def;
    Regions regions;
    Places uses; /* node -> how often */
    Vec(Made *) made;
    bool bind;
} Partition;

/* ---- before ------------------------------------------------------------------------------------------------------------ */

/* Takes marks of `default` away; a tuple that leaves a region leaves it field by field. */
static Expr *prepare(Rewriter *rw, const Expr *old, Expr *now)
{
    PassRun *run = rw->data;
    Str target;
    Mark mark = annotate_mark(now, &target);
    expr_keep_type(now, old);
    if (!mark)
        return now;
    Expr *of = expr_as_call(now)->args.at[0];
    const Tuple *tuple = expr_as_tuple(of);
    if (str_is(target, ANNOTATE_DEFAULT))
        return of;
    if (mark == MARK_BEGIN || !tuple)
        return now;
    Expr **fields = arena_copy(&run->scratch, tuple->fields.at, tuple->fields.n * sizeof *fields);
    for (uint32_t i = 0; i < tuple->fields.n; i++)
        fields[i] = annotate_with(run, MARK_END, fields[i], target);
    Expr *flat = expr_tuple(&rw->module->arena, of->span, tuple->fields.n, fields);
    flat->type = of->type;
    return flat;
}

/* ---- functions of regions ---------------------------------------------------------------------------------------------- */

static bool is_inner(const Partition *p, const Call *begin)
{
    const Expr *of = begin->args.at[0];
    return annotate_mark(of, NULL) == MARK_END &&
           regions_of(&p->regions, of) == regions_of(&p->regions, &begin->base);
}

/* How many inner marks begin the region again behind this end of it. */
static size_t inner_uses(const Partition *p, const Call *end)
{
    size_t n = 0;
    for (const MarkList *in = regions_of(&p->regions, &end->base)->ins; in; in = in->next)
        n += in->mark->args.at[0] == &end->base;
    return n;
}

static void note_outputs(Partition *p, Made *m)
{
    PtrMap seen = {0};
    bool inner = false;
    for (const MarkList *in = m->region->ins; in; in = in->next)
        inner |= is_inner(p, in->mark);
    for (const MarkList *out = m->region->outs; out; out = out->next) {
        Expr *value = out->mark->args.at[0];
        size_t uses = times_used(&p->uses, &out->mark->base);
        if (ptrmap_has(&seen, value) || (inner && uses == inner_uses(p, out->mark)))
            continue;
        ptrmap_put(&seen, value, NULL);
        vec_push(&m->outputs, &p->run->scratch, ((Output){.value = value}));
    }
    ptrmap_deinit(&seen);
}

static bool is_constant(const Expr *e)
{
    const Tuple *t = expr_as_tuple(e);
    for (uint32_t i = 0; t && i < t->fields.n; i++)
        if (t->fields.at[i]->kind != EXPR_CONSTANT)
            return false;
    return t || e->kind == EXPR_CONSTANT;
}

/* What stands in the function for a value that goes in. */
static Expr *input_of(Partition *p, Made *m, Expr *value)
{
    Expr *known = ptrmap_find(&m->by_value, value);
    if (known)
        return known;
    known = value;
    if (!p->bind || !is_constant(value)) {
        Str target = m->region->target;
        Buf name = {0};
        buf_printf(&name, "%.*s_%u_i%zu", (int)target.len, target.ptr, m->region->id, m->params.n);
        Var *v = expr_var(&p->run->module->arena, value->span,
                          ctx_name(p->run->cx, buf_text(&name)), value->type);
        v->base.type = value->type;
        buf_deinit(&name);
        vec_push(&m->values, &p->run->scratch, value);
        vec_push(&m->params, &p->run->scratch, v);
        known = &v->base;
    }
    ptrmap_put(&m->by_value, value, known);
    return known;
}

/* Within a region: marks that begin it are its inputs, others are nothing. */
static bool enter_region(Rewriter *rw, const Expr *old, Expr **now)
{
    Partition *p = rw->data;
    const Call *call = expr_as_call(old);
    if (annotate_mark(old, NULL) != MARK_BEGIN || is_inner(p, call))
        return false;
    *now = input_of(p, regions_of(&p->regions, old)->data, call->args.at[0]);
    return true;
}

static Expr *within_region(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)rw;
    expr_keep_type(now, old);
    return annotate_mark(now, NULL) ? expr_as_call(now)->args.at[0] : now;
}

static void append_word(Buf *b, Str s)
{
    for (size_t i = 0; i < s.len; i++)
        buf_char(b, isalnum((unsigned char)s.ptr[i]) ? s.ptr[i] : '_');
}

static const Name *name_of(Partition *p, const Made *m)
{
    Buf b = {0};
    buf_printf(&b, "tvmgen_");
    append_word(&b, attrs_string(p->run->params, "mod_name"));
    buf_char(&b, '_');
    append_word(&b, m->region->target);
    buf_printf(&b, "_%s_%u", p->def->name->text, m->region->id);
    while (module_find_text(p->run->module, buf_text(&b)))
        buf_char(&b, '_');
    const Name *name = ctx_name(p->run->cx, buf_text(&b));
    buf_deinit(&b);
    return name;
}

static const Attrs *attrs_of(Partition *p, const Made *m)
{
    Arena *arena = &p->run->module->arena;
    AttrValue one = {.kind = ATTR_INT, .i = 1};
    AttrValue target = {.kind = ATTR_STRING, .s = m->region->target};
    AttrValue symbol = {.kind = ATTR_STRING, .s = {m->name->text, m->name->len}};
    target.s.ptr = arena_copy_text(arena, target.s.ptr, target.s.len);
    const Attrs *attrs = attrs_with(arena, NULL, "Inline", one);
    attrs = attrs_with(arena, attrs, "Compiler", target);
    attrs = attrs_with(arena, attrs, "global_symbol", symbol);
    return attrs_with(arena, attrs, "Primitive", one);
}

static void note_free(void *data, Var *v)
{
    Var **first = data;
    *first = *first ? *first : v;
}

static bool define(Partition *p, Made *m, Expr *body)
{
    PassRun *run = p->run;
    Arena *arena = &run->module->arena;
    Function *f = expr_function(arena, body->span, (TypeVarList){0}, (uint32_t)m->params.n,
                                m->params.at, attrs_of(p, m), body->type, body);
    Var *unmarked = NULL;
    ir_free_vars(&f->base, note_free, &unmarked);
    if (unmarked) {
        Diag *d = diag_error(run->cx->diags, E0608_REGION, body->span,
                             "the region uses `%%%s`, which is not marked", unmarked->name->text);
        diag_help(d, "what a region uses goes into it by `annotation.compiler_begin(…)`");
        return false;
    }
    Function *copy = expr_as_function(ir_copy(run->cx, run->module, &f->base));
    if (!copy)
        return false;
    module_define(run->module, m->name, copy, body->span, run->module);
    return true;
}

/* The function, and what its results are where it is called. */
static bool make_function(Partition *p, Rewriter *rw, Made *m)
{
    Arena *arena = &p->run->module->arena;
    uint32_t n = (uint32_t)m->outputs.n;
    Expr **fields = arena_new_array(&p->run->scratch, Expr *, n + 1);
    const Type **types = arena_new_array(&p->run->scratch, const Type *, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        fields[i] = ir_rewrite(rw, m->outputs.at[i].value);
        if (!fields[i])
            return false;
        types[i] = m->outputs.at[i].value->type;
    }
    Expr *body = n == 1 ? fields[0] : expr_tuple(arena, fields[0]->span, n, fields);
    body->type = n == 1 ? types[0] : type_tuple(p->run->cx, n, types);
    m->name = name_of(p, m);
    if (!define(p, m, body))
        return false;
    Expr *callee = expr_global(arena, body->span, m->name);
    m->call = expr_as_call(
        expr_call(arena, body->span, callee, (uint32_t)m->values.n, m->values.at, NULL));
    m->call->base.type = body->type;
    for (uint32_t i = 0; i < n; i++) {
        Expr *e = n == 1 ? &m->call->base : expr_tuple_get(arena, body->span, &m->call->base, i);
        e->type = types[i];
        m->outputs.at[i].now = e;
    }
    return true;
}

static bool make_functions(Partition *p)
{
    Rewriter rw;
    bool good = true;
    for (size_t i = 0; i < p->regions.all.n; i++) {
        Region *region = p->regions.all.at[i];
        if (region->into || !region->outs)
            continue;
        Made *m = region->data = arena_new(&p->run->scratch, Made);
        *m = (Made){.region = region};
        note_outputs(p, m);
        if (m->outputs.n)
            vec_push(&p->made, &p->run->scratch, m);
    }
    rewriter_init(&rw, p->run->cx, p->run->module, within_region, p);
    rw.enter = enter_region;
    for (size_t i = 0; i < p->made.n && good; i++)
        good = make_function(p, &rw, p->made.at[i]);
    rewriter_deinit(&rw);
    return good;
}

/* ---- where they are called ----------------------------------------------------------------------------------------------- */

static Expr *put_call(Rewriter *rw, const Expr *old, Expr *now)
{
    Partition *p = rw->data;
    Mark mark = annotate_mark(old, NULL);
    expr_keep_type(now, old);
    if (!mark)
        return now;
    Region *region = regions_of(&p->regions, old);
    const Made *m = region->data;
    for (size_t i = 0; mark == MARK_END && m && i < m->outputs.n; i++)
        if (m->outputs.at[i].value == expr_as_call(old)->args.at[0])
            return m->outputs.at[i].now;
    return expr_as_call(now)->args.at[0];
}

enum { OPEN = 1, CLOSED = 2 };

typedef struct Search {
    Vec(Expr *) todo;
    PtrMap state;
    Arena *arena;
    bool cycle;
} Search;

static void search_child(void *data, Expr *const *slot)
{
    Search *s = data;
    uintptr_t state = (uintptr_t)ptrmap_find(&s->state, *slot);
    s->cycle |= state == OPEN;
    if (!state)
        vec_push(&s->todo, s->arena, *slot);
}

/* A region that needs its own result can be no function. */
static bool needs_itself(Partition *p, Expr *root)
{
    Search s = {.arena = &p->run->scratch};
    vec_push(&s.todo, s.arena, root);
    while (s.todo.n && !s.cycle) {
        Expr *e = vec_last(&s.todo);
        void **state = ptrmap_slot(&s.state, e);
        if (!state || *state) {
            if (state)
                *state = (void *)(uintptr_t)CLOSED;
            s.todo.n--;
            continue;
        }
        *state = (void *)(uintptr_t)OPEN;
        ir_children(e, search_child, &s);
    }
    ptrmap_deinit(&s.state);
    return s.cycle;
}

static Expr *put_calls(Partition *p, Expr *root)
{
    Rewriter rw;
    rewriter_init(&rw, p->run->cx, p->run->module, put_call, p);
    Expr *now = ir_rewrite(&rw, root);
    bool several = false;
    for (size_t i = 0; i < p->made.n && now; i++) {
        Made *m = p->made.at[i];
        several |= m->outputs.n > 1;
        for (uint32_t k = 0; k < m->call->args.n; k++)
            m->call->args.at[k] = rewriter_now(&rw, m->values.at[k]);
    }
    rewriter_deinit(&rw);
    if (now && several && needs_itself(p, now)) {
        Diag *d = diag_error(p->run->cx->diags, E0608_REGION, root->span,
                             "a region needs its own result");
        diag_help(d, "what stands between two parts of a region belongs to it as well, or they "
                     "are two regions");
        return NULL;
    }
    return now;
}

/* ---- the pass ------------------------------------------------------------------------------------------------------------ */

/* A bare expression stays: its text has no place for functions. */
static Function *partition(PassRun *run, const Def *def)
{
    if (def->name->len == 0)
        return def->fn;
    Rewriter rw;
    rewriter_init(&rw, run->cx, run->module, prepare, run);
    Expr *now = ir_rewrite(&rw, &def->fn->base);
    rewriter_deinit(&rw);
    Function *f = expr_as_function(now);
    if (!f)
        return NULL;
    Partition p = {.run = run, .def = def, .bind = attrs_bool(run->params, "bind_constants")};
    count_uses(&f->base, &run->scratch, &p.uses);
    now = regions_init(&p.regions, run, f) && make_functions(&p) ? put_calls(&p, &f->base) : NULL;
    regions_deinit(&p.regions);
    for (size_t i = 0; i < p.made.n; i++)
        ptrmap_deinit(&p.made.at[i]->by_value);
    return expr_as_function(now);
}

static const OpAttr params[] = {
    {"mod_name", ATTR_TYPE_STRING, .otherwise = ATTR_DEFAULT_STRING("default"),
     .doc = "a part of the names of the functions"},
    {"bind_constants", ATTR_TYPE_BOOL, .otherwise = ATTR_DEFAULT_BOOL(true),
     .doc = "constants are copied into the functions"},
    {0},
};

const Pass pass_partition_graph = {
    .name = "PartitionGraph",
    .doc = "Makes a function of each region that is marked for an external back end.",
    .opt_level = 0,
    .needs_types = true,
    .params = params,
    .function = partition,
};
