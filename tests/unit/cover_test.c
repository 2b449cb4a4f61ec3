/* The cases that a match misses. Patterns are written as text: `C` and `N` are Cons and Nil of a list, `r g b` the constructors of an
 * enumeration, `( )` encloses a tuple, `_` is anything; `D` is a Cons with one field, which is none. */
#include "check.h"
#include "base/limit.h"
#include "typecheck/typecheck.h"

typedef struct Fixture {
    Ctx cx;
    Arena arena;
    const Constructor *cons, *nil, *colours[3];
} Fixture;

static const Constructor *constructor(Fixture *f, TypeDef *def, const char *name, uint32_t n,
                                      const Type *const *fields)
{
    return typedef_con(&f->cx, def, ctx_name(&f->cx, name), n, fields, (Span){0});
}

static void setup(Fixture *f)
{
    CHECK(ctx_init(&f->cx, NULL));
    limits_start(&f->cx.limits);
    arena_init(&f->arena, NULL);
    TypeDef *list = typedef_new(&f->cx, ctx_name(&f->cx, "List"), 0, NULL, (Span){0});
    f->cons = constructor(f, list, "Cons", 2,
                          (const Type *[]){f->cx.boolean, type_adt(&f->cx, list, 0, NULL)});
    f->nil = constructor(f, list, "Nil", 0, NULL);
    TypeDef *colour = typedef_new(&f->cx, ctx_name(&f->cx, "Colour"), 0, NULL, (Span){0});
    f->colours[0] = constructor(f, colour, "Red", 0, NULL);
    f->colours[1] = constructor(f, colour, "Green", 0, NULL);
    f->colours[2] = constructor(f, colour, "Blue", 0, NULL);
}

static Pattern *read(Fixture *f, const char **at)
{
    Pattern *fields[64];
    uint32_t n = 0;
    const Span s = {0};
    switch (*(*at)++) {
    case 'r': return pattern_con(&f->arena, s, f->colours[0], 0, NULL);
    case 'g': return pattern_con(&f->arena, s, f->colours[1], 0, NULL);
    case 'b': return pattern_con(&f->arena, s, f->colours[2], 0, NULL);
    case 'N': return pattern_con(&f->arena, s, f->nil, 0, NULL);
    case 'C':
        fields[0] = read(f, at);
        fields[1] = read(f, at);
        return pattern_con(&f->arena, s, f->cons, 2, fields);
    case 'D': fields[0] = read(f, at); return pattern_con(&f->arena, s, f->cons, 1, fields);
    case '(':
        while (**at != ')')
            fields[n++] = read(f, at);
        ++*at;
        return pattern_tuple(&f->arena, s, n, fields);
    default: return pattern_wildcard(&f->arena, s);
    }
}

/* The missing cases for patterns separated by blanks. */
static void check(Fixture *f, const char *patterns, const char *wanted)
{
    Clause clauses[64];
    uint32_t n = 0;
    Expr *unit = expr_tuple(&f->arena, (Span){0}, 0, NULL);
    for (const char *at = patterns; *at; at += *at == ' ')
        clauses[n++] = (Clause){read(f, &at), unit, {0}};
    Expr *e = expr_match(&f->arena, (Span){0}, unit, n, clauses, true);
    Buf out = {0};
    match_missing(&f->cx, expr_as_match(e), 100, &out);
    CHECK_TEXT(buf_text(&out), wanted);
    buf_deinit(&out);
}

static void test_small(Fixture *f)
{
    check(f, "", "_\n");
    check(f, "_", "");
    check(f, "r g b", "");
    check(f, "r b", "Green\n");
    check(f, "g", "Red\nBlue\n");
    check(f, "r _", "");
    check(f, "N C__", "");
    check(f, "C_N N", "Cons(_, Cons(_, _))\n");
    check(f, "N", "Cons(_, _)\n");
    check(f, "(rr) (g_) (b_)", "(Red, Green)\n(Red, Blue)\n");
    check(f, "(_)", "");
    check(f, "(N)", "(Cons(_, _),)\n");
    check(f, "()", "");
    check(f, "(CrC_N_) (N_) (C__b)",
          "(Cons(Red, Cons(_, Cons(_, _))), Red)\n(Cons(Red, Cons(_, Cons(_, _))), Green)\n"
          "(Cons(Red, Nil), Red)\n(Cons(Red, Nil), Green)\n"
          "(Cons(Green, _), Red)\n(Cons(Green, _), Green)\n"
          "(Cons(Blue, _), Red)\n(Cons(Blue, _), Green)\n");
}

/* Patterns as they stand while a text is being written: of several types, with fields too few. Nothing is claimed of them. */
static void test_ill_typed(Fixture *f)
{
    static const char *const all[] = {"D_ N", "N D_",     "CrD_ N", "r N",
                                      "N r",  "(r) (rr)", "(r) g",  "C_(r) C_N"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        check(f, all[i], "");
}

/* Each clause looks at two of twenty columns, so that the cases are exponentially many. The answer comes soon, and without any of
 * them: nothing is claimed that was not found. */
static void test_work(Fixture *f)
{
    char text[1000] = "";
    for (int row = 0; row < 20; row++) {
        strcat(text, row ? " (" : "(");
        for (int column = 0; column < 20; column++)
            strcat(text, column == row ? "r" : column == (row + 7) % 20 ? "g" : "_");
        strcat(text, ")");
    }
    strcat(text, " _");
    double before = clock_seconds();
    check(f, text, "");
    CHECK(clock_seconds() - before < 5);
}

int main(void)
{
    Fixture f;
    setup(&f);
    test_small(&f);
    test_ill_typed(&f);
    test_work(&f);
    arena_deinit(&f.arena);
    ctx_deinit(&f.cx);
    return check_done();
}
