/* Labels the functions that become kernels by what they compute.
 *
 *     fn (%p0: …, Primitive=1) { nn.relu(%p0) }
 *  => fn (%p0: …, Primitive=1, hash="5c0f03e6d5d0a2b1") { nn.relu(%p0) }
 *
 * The label is the structural hash before it stands there: equal functions have equal ones, in every program and every run. */
#include "passes/pass.h"

#include "ir/equal.h"

enum { HASH_DIGITS = 16 };

static Expr *label(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)old;
    Arena *arena = &rw->module->arena;
    const Function *f = expr_as_function(now);
    const AttrValue *primitive = f ? attrs_find(f->attrs, "Primitive") : NULL;
    if (!primitive || primitive->kind != ATTR_INT || primitive->i == 0 ||
        attrs_find(f->attrs, "hash"))
        return now;
    Buf b = {0};
    buf_printf(&b, "%0*llx", HASH_DIGITS, (unsigned long long)ir_hash(now));
    AttrValue hash = {.kind = ATTR_STRING, .s = {buf_keep(&b, arena), HASH_DIGITS}};
    return &expr_function(arena, f->base.span, f->type_params, f->params.n, f->params.at,
                          attrs_with(arena, f->attrs, "hash", hash), f->ret_type, f->body)
                ->base;
}

const Pass pass_label_ops = {
    .name = "LabelOps",
    .doc = "Labels the functions that become kernels with their structural hash.",
    .opt_level = 1,
    .rewrite = label,
};
