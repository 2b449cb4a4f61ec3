/* The checker on large programs: its time is linear and its C stack does not grow with the program. */
#include "check.h"
#include "base/limit.h"
#include "ir/rel.h"
#include "typecheck/typecheck.h"

static const Span nowhere = {0};

static RelResult rel_add(Rel *r)
{
    const Type *a = rel_tensor(r, 0), *b = rel_tensor(r, 1);
    if (!a || !b)
        return rel_blocked(r);
    return rel_set_input(r, 1, a) ? rel_set_output(r, a) : REL_FAILED;
}

static const OpArg two_args[] = {{"lhs", "left"}, {"rhs", "right"}, {0}};
static const Op ops[] = {{.name = "add", .doc = "sum", .args = two_args, .rel = rel_add}, {0}};
static const Op *const families[] = {ops, NULL};
static const OpTable table = {families};

static Expr *add(Arena *a, Expr *x, Expr *y)
{
    Expr *args[] = {x, y};
    return expr_call_op(a, nowhere, &ops[0], 2, args, NULL);
}

static Var *var(Module *m, const char *name, const Type *t)
{
    return expr_var(&m->arena, nowhere, ctx_name(m->cx, name), t);
}

static Expr *function(Module *m, Var *param, Expr *body)
{
    Function *fn = expr_function(&m->arena, nowhere, (TypeVarList){0}, 1, &param, NULL, NULL, body);
    return &fn->base;
}

static void define(Module *m, const char *name, Expr *fn)
{
    module_define(m, ctx_name(m->cx, name), expr_as_function(fn), nowhere, NULL);
}

/* %1 = add(%x, %x); %2 = add(%1, %1); … */
static Expr *calls(Module *m, Expr *x, int n)
{
    for (int i = 0; i < n; i++)
        x = add(&m->arena, x, x);
    return x;
}

/* let %v1 = add(%x, %x); let %v2 = add(%v1, %x); … */
static Expr *lets(Module *m, Expr *x, int n)
{
    Var **vars = arena_new_array(&m->arena, Var *, n);
    Expr **values = arena_new_array(&m->arena, Expr *, n);
    Expr *last = x;
    for (int i = 0; i < n; i++) {
        values[i] = add(&m->arena, last, x);
        vars[i] = var(m, "v", NULL);
        last = &vars[i]->base;
    }
    for (int i = n; i-- > 0;)
        last = expr_let(&m->arena, nowhere, vars[i], values[i], last);
    return last;
}

/* `fn (%p) { body }` without annotation, applied to %x: nothing is known until the call. */
static Expr *later(Module *m, Expr *x, Expr *(*body)(Module *m, Expr *x, int n), int n)
{
    Var *p = var(m, "p", NULL), *f = var(m, "f", NULL);
    Expr *fn = function(m, p, body(m, &p->base, n));
    return expr_let(&m->arena, nowhere, f, fn,
                    expr_call(&m->arena, nowhere, &f->base, 1, &x, NULL));
}

/* Checks the module within a second; the type of @main. */
static const char *check(Module *m)
{
    double before = clock_seconds();
    CHECK(typecheck_module(m->cx, m, NULL));
    CHECK(clock_seconds() - before < 1);
    /* Once more there is nothing to do. */
    CHECK(typecheck_module(m->cx, m, NULL));
    const Type *t = module_find_text(m, "main")->fn->base.type;
    return t ? type_str(m->cx, t) : "none";
}

static void test_straight(Ctx *cx, Expr *(*body)(Module *m, Expr *x, int n), bool known)
{
    Module *m = module_new(cx);
    Var *x = var(m, "x", type_scalar(cx, dtype_of(DT_INT32)));
    define(m, "main",
           function(m, x, known ? body(m, &x->base, 10000) : later(m, &x->base, body, 10000)));
    CHECK_TEXT(check(m), "fn (int32) -> int32");
    module_release(m);
}

/* A thousand functions, each of which calls the next, the last one the first; only one says what it gives. */
static void test_ring(Ctx *cx)
{
    Module *m = module_new(cx);
    char name[2][20];
    for (int i = 0; i < 1000; i++) {
        snprintf(name[0], sizeof name[0], i ? "f%d" : "main", i);
        snprintf(name[1], sizeof name[1], i < 999 ? "f%d" : "main", i + 1);
        Var *x = var(m, "x", type_scalar(cx, dtype_of(DT_INT32)));
        Expr *arg = add(&m->arena, &x->base, &x->base);
        Expr *next = expr_global(&m->arena, nowhere, ctx_name(cx, name[1]));
        Expr *body = expr_call(&m->arena, nowhere, next, 1, &arg, NULL);
        Expr *yes = expr_constant(&m->arena, nowhere, value_bool(true));
        define(m, name[0],
               function(m, x, i == 500 ? expr_if(&m->arena, nowhere, yes, &x->base, body) : body));
    }
    CHECK_TEXT(check(m), "fn (int32) -> int32");
    module_release(m);
}

int main(void)
{
    Ctx cx;
    CHECK(ctx_init(&cx, &table));
    limits_start(&cx.limits);
    for (int known = 0; known < 2; known++) {
        test_straight(&cx, calls, known);
        test_straight(&cx, lets, known);
    }
    test_ring(&cx);
    ctx_deinit(&cx);
    return check_done();
}
