/* Parameters whose values are known before a program is compiled: constants from then on.
 *
 *     def @main(%x: …, %w: …) { nn.dense(%x, %w) }     with %w bound     def @main(%x: …) { nn.dense(%x, meta[relay.Constant][0]) }
 *
 * The optimiser folds what they decide. A function that the program calls itself stays as it was, under another name. */
#include "ir/walk.h"
#include "passes/facts.h"
#include "passes/fold.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

typedef struct Renaming {
    const Name *from, *to;
} Renaming;

static Expr *rename_one(Rewriter *rw, const Expr *old, Expr *now)
{
    const Renaming *r = rw->data;
    const GlobalVar *g = expr_as_global(old);
    return g && g->name == r->from ? expr_global(&rw->module->arena, now->span, r->to) : now;
}

Expr *rename_global(Ctx *cx, Module *m, Expr *e, const Name *from, const Name *to)
{
    Rewriter rw;
    Renaming r = {from, to};
    rewriter_init(&rw, cx, m, rename_one, &r);
    Expr *now = ir_rewrite(&rw, e);
    rewriter_deinit(&rw);
    return now;
}

static const Name *free_name(RelaySession *s, const Module *m, const Name *name)
{
    const Name *found = NULL;
    for (int i = 1; !found; i++) {
        Buf b = {0};
        buf_printf(&b, "%s_%d", name->text, i);
        found = ctx_name(&s->cx, buf_text(&b));
        if (module_find(m, found))
            found = NULL;
        buf_deinit(&b);
    }
    return found;
}

/* What calls the function goes on calling it with all of its parameters: a copy of it under another name. */
static bool keep_whole(RelaySession *s, Module *out, const Def *def)
{
    PtrMap named = {0};
    note_named(out, &named);
    bool used = ptrmap_has(&named, def->name);
    ptrmap_deinit(&named);
    if (!used)
        return true;
    const Name *from = def->name, *to = free_name(s, out, from);
    Expr *copy = ir_copy(&s->cx, out, &def->fn->base);
    if (!copy)
        return false;
    module_define(out, to, expr_as_function(copy), def->span, out);
    bool ok = true;
    for (size_t i = 0; i < out->defs.n && ok; i++) {
        const Def *d = &out->defs.at[i];
        if (!d->fn)
            continue;
        Expr *now = rename_global(&s->cx, out, &d->fn->base, from, to);
        ok = now != NULL;
        if (ok && now != &d->fn->base)
            module_define(out, d->name, expr_as_function(now), d->span, out);
    }
    return ok;
}

Module *bind_params(RelaySession *s, Module *m, const Name *entry, const bool *known, Value *values)
{
    const Def *def = module_find(m, entry);
    Module *out = module_derive(m);
    if (!out || !keep_whole(s, out, def)) {
        module_release(out);
        return NULL;
    }
    const Function *fn = module_find(out, entry)->fn;
    Var **params = arena_new_array(&out->arena, Var *, fn->params.n);
    PtrMap map = {0};
    uint32_t n = 0;
    for (uint32_t i = 0; i < fn->params.n; i++) {
        Var *p = fn->params.at[i];
        Expr *constant = known[i] ? fold_value_expr(&out->arena, p->base.span, values[i]) : NULL;
        if (constant) {
            ptrmap_put(&map, p, constant);
            value_release(values[i]);
        } else {
            values[n] = values[i];
            params[n++] = p;
        }
    }
    for (uint32_t i = n; i < fn->params.n; i++)
        values[i] = value_none();
    Expr *body = ir_substitute(&s->cx, out, fn->body, &map);
    ptrmap_deinit(&map);
    if (body) {
        Function *now = expr_function(&out->arena, fn->base.span, fn->type_params, n, params,
                                      fn->attrs, fn->ret_type, body);
        module_define(out, entry, now, def->span, out);
        if (typecheck_module(&s->cx, out, NULL))
            return out;
    }
    module_release(out);
    return NULL;
}
