/* A graph that the original saved, as a model that is imported: arrays among its constants become weights. */
#include "ir/print.h"
#include "ir/walk.h"
#include "runtime/npy.h"
#include "session/exchange.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

typedef struct Saved {
    RelaySession *s;
    Imported *out;
    const Name *main, *entry;
    Vec(Var *) params; /* of the entry: inputs, then weights */
    bool called; /* the entry, somewhere: then it keeps its parameters, and its constants */
    bool weights; /* become parameters of what is being rewritten */
    PtrMap ops; /* Op -> its number among those of the table + 1 */
} Saved;

bool saved_graph_is(const char *path)
{
    struct stat st;
    FILE *f = stat(path, &st) == 0 && S_ISREG(st.st_mode) ? fopen(path, "rbe") : NULL;
    bool is = f && getc(f) == '{';
    if (f)
        fclose(f);
    return is;
}

/* ---- the table ---------------------------------------------------------------------------------------------------------------- */

static WalkNext count_call(void *data, const Expr *e)
{
    Saved *sv = data;
    const Op *op = expr_call_of_op(e);
    const GlobalVar *g = expr_as_global(e);
    sv->called |= g && g->name == sv->main;
    if (!op)
        return WALK_ON;
    size_t at = (size_t)(uintptr_t)ptrmap_find(&sv->ops, op);
    if (at == 0) {
        vec_push(&sv->out->ops, &sv->out->arena, (ImportedOp){.name = op->name});
        at = sv->out->ops.n;
        ptrmap_put(&sv->ops, op, (void *)(uintptr_t)at);
    }
    sv->out->ops.at[at - 1].nodes++;
    return WALK_ON;
}

/* ---- weights ------------------------------------------------------------------------------------------------------------------- */

static bool is_taken(const Saved *sv, const Name *name)
{
    for (size_t i = 0; i < sv->params.n; i++)
        if (sv->params.at[i]->name == name)
            return true;
    return false;
}

static const Name *free_name(const Saved *sv)
{
    char text[32] = "constant";
    const Name *name = ctx_name(&sv->s->cx, text);
    for (size_t k = 1; is_taken(sv, name); k++) {
        snprintf(text, sizeof text, "constant_%zu", k);
        name = ctx_name(&sv->s->cx, text);
    }
    return name;
}

static Expr *weight_of(Rewriter *rw, Saved *sv, const Expr *old, Value v)
{
    Tensor *t = value_to_tensor(&sv->s->cx.limits, v);
    if (!t)
        return NULL;
    const Name *name = free_name(sv);
    Var *var = expr_var(&rw->module->arena, old->span, name, type_of_tensor(&sv->s->cx, t));
    vec_push(&sv->params, &sv->out->arena, var);
    vec_push(&sv->out->arrays, &sv->out->arena, ((ImportedArray){.name = name->text, .value = t}));
    return &var->base;
}

static Expr *change(Rewriter *rw, const Expr *old, Expr *now)
{
    Saved *sv = rw->data;
    const Constant *c = expr_as_constant(old);
    const GlobalVar *g = expr_as_global(old);
    if (g && g->name == sv->main && sv->entry != sv->main)
        return expr_global(&rw->module->arena, old->span, sv->entry);
    if (c && sv->weights && c->value.kind == VALUE_TENSOR)
        return weight_of(rw, sv, old, c->value);
    return now;
}

/* ---- the program -------------------------------------------------------------------------------------------------------------- */

static void add_input(void *data, Var *v)
{
    Saved *sv = data;
    vec_push(&sv->params, &sv->out->arena, v);
}

/* What is defined as the entry: `main`, or the expression that the graph is, as a function of what is free in it; NULL: neither. */
static Function *entry_of(Saved *sv, Module *m)
{
    const Def *main = module_find(m, sv->main);
    Function *fn = main ? main->fn : expr_as_function(m->expr);
    for (uint32_t i = 0; fn && i < fn->params.n; i++)
        add_input(sv, fn->params.at[i]);
    if (m->expr)
        ir_free_vars(m->expr, add_input, sv);
    if (!fn && m->expr)
        fn =
            expr_function(&m->arena, m->expr->span, (TypeVarList){0}, 0, NULL, NULL, NULL, m->expr);
    sv->out->inputs = (uint32_t)sv->params.n;
    return fn;
}

static Expr *changed(Saved *sv, Rewriter *rw, Expr *e, bool weights)
{
    ir_walk(e, count_call, NULL, sv);
    sv->weights = weights && !sv->called;
    /* Begun anew: a constant that two functions share is a weight of one. */
    rewriter_deinit(rw);
    rewriter_init(rw, rw->cx, rw->module, rw->fn, rw->data);
    return ir_rewrite(rw, e);
}

static Module *with_weights(Saved *sv, Module *m)
{
    Module *out = module_derive(m);
    if (!out)
        return NULL;
    Rewriter rw;
    rewriter_init(&rw, &sv->s->cx, out, change, sv);
    Function *entry = entry_of(sv, m);
    for (size_t i = 0; i < m->defs.n && !rw.failed; i++) {
        const Def *def = &m->defs.at[i];
        if (!def->fn || def->imported || def->fn == entry)
            continue;
        Function *fn = expr_as_function(changed(sv, &rw, &def->fn->base, false));
        if (fn && fn != def->fn)
            module_define(out, def->name, fn, def->span, out);
    }
    Expr *body = entry && !rw.failed ? changed(sv, &rw, entry->body, true) : NULL;
    if (body) {
        Function *fn =
            expr_function(&out->arena, entry->base.span, entry->type_params, (uint32_t)sv->params.n,
                          sv->params.at, entry->attrs, entry->ret_type, body);
        module_remove(out, sv->main);
        module_define(out, sv->entry, fn, entry->base.span, out);
    }
    bool failed = rw.failed;
    rewriter_deinit(&rw);
    if (!failed)
        return out;
    module_release(out);
    return NULL;
}

bool saved_graph_import(RelaySession *s, const ImportWish *wish, Imported *out)
{
    Saved sv = {.s = s, .out = out, .main = ctx_name(&s->cx, "main")};
    sv.entry = wish->entry ? ctx_name(&s->cx, wish->entry) : sv.main;
    *out = (Imported){0};
    arena_init(&out->arena, &s->cx.limits);
    if (wish->n_shapes > 0) {
        Diag *d =
            diag_error(s->cx.diags, E0402_USAGE, (Span){0},
                       "a saved graph states the shapes of its inputs: `--shape` is for others");
        diag_help(d, "leave `--shape` out");
        return false;
    }
    size_t n;
    char *text = file_read(&s->cx.limits, s->cx.diags, wish->path, &n);
    Module *m = text ? load_program(s, wish->path, text, n, true) : NULL;
    Module *program = m ? with_weights(&sv, m) : NULL;
    free(text);
    if (program)
        ir_print_module(&out->text, program, (PrintStyle){.annotations = true});
    module_release(program);
    if (m)
        interp_forget(s->interp, m);
    module_release(m);
    ptrmap_deinit(&sv.ops);
    return program && !out->text.failed && session_status(s) == RELAY_OK;
}
