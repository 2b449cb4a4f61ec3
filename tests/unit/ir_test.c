/* Types, walking, rewriting, copies and equality, on expressions built by hand. */
#include "ir/ctx.h"
#include "ir/equal.h"
#include "ir/walk.h"
#include "stdlib/stdlib.h"
#include "tests/unit/check.h"

static Ctx cx;

static Expr *number(Module *m, int32_t v)
{
    return expr_constant(&m->arena, (Span){0}, value_int32(v));
}

static Expr *add(Module *m, Expr *a, Expr *b)
{
    Expr *args[] = {a, b};
    return expr_call_op(&m->arena, (Span){0}, op_find(&cx, str_of("add")), 2, args, NULL);
}

static Var *var(Module *m, const char *name)
{
    return expr_var(&m->arena, (Span){0}, ctx_name(&cx, name), NULL);
}

static void test_types(void)
{
    Dim dims[] = {2, DIM_ANY};
    DType f32 = dtype_of(DT_FLOAT32);
    CHECK(type_tensor(&cx, f32, 2, dims) == type_tensor(&cx, f32, 2, dims));
    CHECK(type_tensor(&cx, f32, 1, dims) != type_tensor(&cx, f32, 2, dims));
    const TypeVar *a = typevar_new(&cx, ctx_name(&cx, "A"), (Span){0}),
                  *b = typevar_new(&cx, ctx_name(&cx, "B"), (Span){0});
    const Type *ta = type_var(&cx, a), *tb = type_var(&cx, b);
    const Type *fa = type_func(&cx, 1, &a, 1, &ta, ta), *fb = type_func(&cx, 1, &b, 1, &tb, tb);
    CHECK(fa != fb && type_equal(fa, fb));
    CHECK(!type_equal(type_func(&cx, 1, &a, 1, &ta, tb), fb));
    Type *hole = type_hole(&cx, (Span){0});
    const Type *open = type_ref(&cx, hole);
    CHECK(open->open);
    hole->bound = type_bool(&cx);
    CHECK(type_resolve(&cx, open) == type_ref(&cx, type_bool(&cx)));
    Type *fresh = (Type *)(uintptr_t)type_refresh(&cx, open)->parts[0];
    CHECK(fresh->kind == TYPE_HOLE && !fresh->bound);
    const Type *deep = type_bool(&cx);
    for (int i = 0; i < TYPE_DEPTH_MOST + 10; i++)
        deep = type_tuple(&cx, 1, &deep);
    CHECK(cx.diags->errors == 1 && cx.diags->first->code == E0121_TOO_DEEP);
    limits_start(&cx.limits);
    diags_clear(cx.diags);
}

/* What an arena leads to stays, and is the same type as before; the rest goes. */
static void test_collect(void)
{
    Module *m = module_new(&cx);
    const Name *name = ctx_name(&cx, "Shape");
    const TypeVar *a = typevar_new(&cx, ctx_name(&cx, "A"), (Span){0});
    TypeDef *kept = typedef_new(&cx, name, 1, &a, (Span){0});
    const Type *field = type_var(&cx, a);
    for (int i = 0; i < 200; i++)
        typedef_con(&cx, kept, ctx_name(&cx, "Con"), 1, &field, (Span){0});
    const Type *bool_shape = type_adt(&cx, kept, 1, &(const Type *){type_bool(&cx)});
    Var *x = var(m, "x");
    x->base.type = type_ref(&cx, bool_shape);
    m->expr = &x->base;
    size_t used = cx.heap.used;
    for (int i = 0; i < 5000; i++) {
        TypeDef *gone = typedef_new(&cx, name, 0, NULL, (Span){0});
        typedef_con(&cx, gone, ctx_name(&cx, "Con"), 1,
                    &(const Type *){type_adt(&cx, gone, 0, NULL)}, (Span){0});
    }
    CHECK(cx.heap.used > used + 5000 * sizeof(TypeDef));
    ctx_collect(&cx);
    CHECK(cx.heap.used <= used);
    CHECK(kept->n_cons == 200 && kept->cons[199]->fields[0] == field && field->var == a);
    CHECK(x->base.type == type_ref(&cx, type_adt(&cx, kept, 1, &(const Type *){type_bool(&cx)})));
    module_release(m);
    cx.heap.due = 0;
    ctx_collect(&cx);
    CHECK(cx.heap.used < used);
}

/* A module notes each text once, in whatever order it is told of them. */
static void test_sources(void)
{
    enum { MANY = 1000, STEP = 389 };
    Module *m = module_new(&cx);
    uint32_t first = sources_add(&cx.sources, "test", "1", 1);
    for (uint32_t i = 1; i < MANY; i++)
        CHECK(sources_add(&cx.sources, "test", "1", 1) == first + i);
    for (uint32_t i = 0; i < 2 * MANY; i++)
        module_use_source(m, first + i * STEP % MANY);
    CHECK(m->sources.n == MANY);
    for (uint32_t i = 0; i < MANY; i++)
        CHECK(m->sources.at[i] == first + i);
    module_release(m);
}

/* A type that was put into itself binds its variable again: what stands there is not the outer one. */
static void test_subst(void)
{
    const TypeVar *a = typevar_new(&cx, ctx_name(&cx, "A"), (Span){0});
    const Type *of_a = type_var(&cx, a), *number = type_scalar(&cx, dtype_of(DT_INT32));
    const Type *identity = type_func(&cx, 1, &a, 1, &of_a, of_a);
    const Type *args[] = {of_a, identity}, *pair = type_tuple(&cx, 2, args);
    const Type *wanted[] = {number, identity};
    CHECK(type_subst(&cx, pair, 1, &a, &number) == type_tuple(&cx, 2, wanted));
}

static WalkNext count(void *data, const Expr *e)
{
    (void)e;
    ++*(int *)data;
    return WALK_ON;
}

/* A chain of a million lets, and a graph as deep, are walked without the C stack. */
static void test_depth(Module *m)
{
    Var *x = var(m, "x");
    Expr *graph = &x->base;
    for (int i = 0; i < 1000000; i++)
        graph = add(m, graph, graph);
    int n = 0;
    CHECK(ir_walk(graph, NULL, count, &n));
    CHECK(n == 2000001);
    Expr *chain = &x->base;
    for (int i = 0; i < 1000000; i++)
        chain = expr_let(&m->arena, (Span){0}, var(m, "y"), number(m, i), chain);
    n = 0;
    ir_walk(chain, count, NULL, &n);
    CHECK(n == 3000001);
    Expr *copy = ir_copy(&cx, m, chain);
    CHECK(copy != chain && ir_equal(copy, chain, false));
    CHECK(ir_hash(copy) == ir_hash(chain));
}

static Expr *increment(Rewriter *rw, const Expr *old, Expr *now)
{
    (void)old;
    const Constant *c = expr_as_constant(now);
    return c ? expr_constant(&rw->module->arena, now->span,
                             value_int32((int32_t)value_as_int(c->value) + 1))
             : now;
}

static void test_rewrite(Module *m)
{
    Var *x = var(m, "x");
    Expr *shared = add(m, &x->base, number(m, 1)), *root = add(m, shared, shared);
    Rewriter rw;
    rewriter_init(&rw, &cx, m, increment, NULL);
    Expr *now = ir_rewrite(&rw, root);
    rewriter_deinit(&rw);
    const Call *call = expr_as_call(now);
    CHECK(call && call->args.at[0] == call->args.at[1]);
    CHECK(value_as_int(expr_as_constant(expr_as_call(call->args.at[0])->args.at[1])->value) == 2);
    PtrMap map = {0};
    ptrmap_put(&map, x, number(m, 7));
    Expr *closed = ir_substitute(&cx, m, root, &map);
    ptrmap_deinit(&map);
    CHECK(expr_as_call(expr_as_call(closed)->args.at[0])->args.at[0]->kind == EXPR_CONSTANT);
    CHECK(expr_as_call(root)->args.at[0] == shared);
}

static void test_equal(Module *m)
{
    Var *x = var(m, "x"), *y = var(m, "y");
    Expr *one = number(m, 1);
    Function *f = expr_function(&m->arena, (Span){0}, (TypeVarList){0}, 1, &x, NULL, NULL,
                                add(m, &x->base, one));
    Function *g = expr_function(&m->arena, (Span){0}, (TypeVarList){0}, 1, &y, NULL, NULL,
                                add(m, &y->base, number(m, 1)));
    CHECK(ir_equal(&f->base, &g->base, false));
    CHECK(!ir_equal(&f->base, &ir_copy(&cx, m, one)[0], false));
    CHECK(ir_equal(add(m, one, one), add(m, number(m, 1), number(m, 1)), false));
    CHECK(ir_hash(add(m, one, one)) == ir_hash(add(m, number(m, 1), number(m, 1))));
    CHECK(ir_hash(add(m, one, one)) != ir_hash(add(m, one, number(m, 2))));
    Expr *two = add(m, one, one), *a = add(m, two, two), *b = add(m, two, add(m, one, one));
    CHECK(!ir_equal(a, b, false));
    CHECK(!ir_equal(&x->base, &y->base, false) && ir_equal(&x->base, &y->base, true));
}

static void note_free(void *data, Var *v)
{
    Buf *b = data;
    buf_str(b, v->name->text);
}

static void test_free(Module *m)
{
    Var *x = var(m, "x"), *y = var(m, "y"), *z = var(m, "z");
    Expr *body = add(m, add(m, &z->base, &x->base), &y->base);
    Function *f = expr_function(&m->arena, (Span){0}, (TypeVarList){0}, 1, &x, NULL, NULL, body);
    Buf b = {0};
    ir_free_vars(&f->base, note_free, &b);
    CHECK(str_is((Str){buf_text(&b), b.n}, "zy"));
    buf_deinit(&b);
}

int main(void)
{
    CHECK(ctx_init(&cx, &stdlib_ops));
    limits_start(&cx.limits);
    Module *m = module_new(&cx);
    test_types();
    test_subst();
    test_collect();
    test_sources();
    test_rewrite(m);
    test_equal(m);
    test_free(m);
    test_depth(m);
    module_release(m);
    ctx_deinit(&cx);
    return check_done();
}
