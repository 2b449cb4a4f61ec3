/* Unification and holes, by themselves. */
#include "check.h"
#include "typecheck/internal.h"

typedef struct Fixture {
    Ctx cx;
    Module *m;
    Checker ck;
} Fixture;

static void setup(Fixture *f)
{
    CHECK(ctx_init(&f->cx, NULL));
    limits_start(&f->cx.limits);
    f->m = module_new(&f->cx);
    f->ck = (Checker){.cx = &f->cx, .m = f->m, .home = f->m};
    arena_init(&f->ck.scratch, &f->cx.limits);
}

static void teardown(Fixture *f)
{
    ptrmap_deinit(&f->ck.functions);
    arena_deinit(&f->ck.scratch);
    module_release(f->m);
    ctx_deinit(&f->cx);
}

static const Type *tensor(Fixture *f, uint32_t rank, const Dim *dims)
{
    return type_tensor(&f->cx, dtype_of(DT_FLOAT32), rank, dims);
}

static const Type *int32_type(Fixture *f)
{
    return type_scalar(&f->cx, dtype_of(DT_INT32));
}

static const Type *hole(Fixture *f)
{
    return hole_new(&f->ck, (HoleInfo){HOLE_PARAM, {0}, "x", NULL});
}

static const char *text(Fixture *f, const Type *t)
{
    return t ? type_str(&f->cx, type_resolve(&f->cx, t)) : "none";
}

static const char *both(Fixture *f, const Type *a, const Type *b)
{
    return text(f, unify(&f->ck, a, b, WIDEN_BOTH, FLOW_TO_A));
}

static void test_tensors(Fixture *f)
{
    const Type *known = tensor(f, 2, (Dim[]){2, 3}), *any = tensor(f, 2, (Dim[]){DIM_ANY, 3});
    CHECK_TEXT(both(f, known, known), "Tensor[(2, 3), float32]");
    CHECK_TEXT(both(f, known, any), "Tensor[(?, 3), float32]");
    CHECK_TEXT(both(f, known, tensor(f, 2, (Dim[]){2, 4})), "none");
    CHECK(f->ck.misfit.kind == MISFIT_DIMS);
    CHECK_TEXT(both(f, known, tensor(f, 1, (Dim[]){2})), "none");
    CHECK(f->ck.misfit.kind == MISFIT_RANK);
    CHECK_TEXT(both(f, known, int32_type(f)), "none");
    CHECK(f->ck.misfit.kind == MISFIT_DTYPE);
    CHECK_TEXT(both(f, known, f->cx.poison), "Tensor[(2, 3), float32]");
}

static void test_holes(Fixture *f)
{
    const Type *a = hole(f), *b = hole(f), *c = hole(f);
    CHECK_TEXT(both(f, a, b), "_");
    CHECK_TEXT(both(f, b, c), "_");
    CHECK_TEXT(both(f, a, int32_type(f)), "int32");
    CHECK_TEXT(text(f, c), "int32");
    CHECK_TEXT(both(f, c, tensor(f, 1, (Dim[]){2})), "none");

    const Type *inner = hole(f);
    const Type *pair = type_tuple(&f->cx, 2, (const Type *[]){inner, int32_type(f)});
    CHECK_TEXT(both(f, inner, pair), "none");
    CHECK(f->ck.misfit.kind == MISFIT_INFINITE);
    CHECK_TEXT(both(f, pair, type_tuple(&f->cx, 2, (const Type *[]){f->cx.unit, int32_type(f)})),
               "((), int32)");
    CHECK_TEXT(text(f, pair), "((), int32)");
}

/* A hole becomes less precise only where that side may. */
static void test_widening(Fixture *f)
{
    const Type *known = tensor(f, 1, (Dim[]){2}), *any = tensor(f, 1, (Dim[]){DIM_ANY});
    const Type *a = hole(f), *b = hole(f);
    unify(&f->ck, a, known, WIDEN_BOTH, FLOW_TO_A);
    unify(&f->ck, b, known, WIDEN_BOTH, FLOW_TO_A);
    CHECK_TEXT(text(f, unify(&f->ck, a, any, WIDEN_NONE, FLOW_TO_A)), "Tensor[(?), float32]");
    CHECK_TEXT(text(f, a), "Tensor[(2), float32]");
    unify(&f->ck, any, a, WIDEN_LEFT, FLOW_TO_A);
    CHECK_TEXT(text(f, a), "Tensor[(2), float32]");
    unify(&f->ck, b, any, WIDEN_LEFT, FLOW_TO_A);
    CHECK_TEXT(text(f, b), "Tensor[(?), float32]");
    CHECK_TEXT(text(f, a), "Tensor[(2), float32]");
}

static const Type *identity(Fixture *f, const char *name)
{
    const TypeVar *v = typevar_new(&f->cx, ctx_name(&f->cx, name), (Span){0});
    const Type *t = type_var(&f->cx, v);
    return type_func(&f->cx, 1, &v, 1, &t, t);
}

static void test_functions(Fixture *f)
{
    const Type *a = identity(f, "A"), *b = identity(f, "B");
    CHECK_TEXT(both(f, a, b), "fn [A](A) -> A");
    const Type *arg = int32_type(f), *result = hole(f);
    CHECK_TEXT(both(f, type_func(&f->cx, 0, NULL, 1, &arg, result), a), "fn (int32) -> int32");
    CHECK_TEXT(text(f, result), "int32");
    /* What can be called at one type is none that can be called at each, and either is enough where the result is called at one. */
    const Type *one = type_func(&f->cx, 0, NULL, 1, &arg, arg);
    CHECK_TEXT(both(f, a, one), "none");
    CHECK(f->ck.misfit.kind == MISFIT_LESS);
    CHECK_TEXT(text(f, unify(&f->ck, a, one, WIDEN_BOTH, FLOW_JOIN)), "fn (int32) -> int32");
    CHECK_TEXT(text(f, unify(&f->ck, one, a, WIDEN_BOTH, FLOW_SAME)), "none");
    /* For what takes them it is the other way. */
    const Type *takes_each = type_func(&f->cx, 0, NULL, 1, &a, arg);
    const Type *takes_one = type_func(&f->cx, 0, NULL, 1, &one, arg);
    CHECK_TEXT(both(f, takes_each, takes_one), "fn (fn (int32) -> int32) -> int32");
    CHECK_TEXT(both(f, takes_one, takes_each), "none");
    CHECK_TEXT(text(f, unify(&f->ck, takes_one, takes_each, WIDEN_BOTH, FLOW_JOIN)), "none");
    CHECK_TEXT(both(f, type_ref(&f->cx, one), type_ref(&f->cx, a)), "none");
    CHECK_TEXT(
        both(f, type_func(&f->cx, 0, NULL, 1, &arg, arg), type_func(&f->cx, 0, NULL, 0, NULL, arg)),
        "none");
    CHECK(f->ck.misfit.kind == MISFIT_ARITY);
    /* What was reported as wrong is equal to itself, wherever it stands. */
    const Type *bad = f->cx.poison;
    const TypeVar *v = a->params[0], *w = b->params[0];
    CHECK(type_equal(type_func(&f->cx, 1, &v, 1, &bad, a->result),
                     type_func(&f->cx, 1, &w, 1, &bad, b->result)));
    /* A type parameter is rigid. */
    CHECK_TEXT(both(f, a->parts[0], int32_type(f)), "none");
    CHECK_TEXT(both(f, a->parts[0], b->parts[0]), "none");
}

/* Twenty thousand holes in a chain, filled at one end; and types whose parts are shared two to the power of a hundred times. */
static void test_size(Fixture *f)
{
    const Type *first = hole(f), *last = first;
    for (int i = 0; i < 20000; i++) {
        const Type *next = hole(f);
        unify(&f->ck, next, last, WIDEN_BOTH, FLOW_TO_A);
        last = next;
    }
    unify(&f->ck, last, int32_type(f), WIDEN_BOTH, FLOW_TO_A);
    CHECK_TEXT(text(f, first), "int32");

    const Type *a = hole(f), *b = hole(f);
    for (int i = 0; i < 100; i++) {
        a = type_tuple(&f->cx, 2, (const Type *[]){a, a});
        b = type_tuple(&f->cx, 2, (const Type *[]){b, b});
    }
    CHECK(!unify(&f->ck, a, b, WIDEN_BOTH, FLOW_TO_A) || f->ck.work <= 2000000);
}

int main(void)
{
    Fixture f;
    setup(&f);
    test_tensors(&f);
    test_holes(&f);
    test_widening(&f);
    test_functions(&f);
    test_size(&f);
    teardown(&f);
    return check_done();
}
