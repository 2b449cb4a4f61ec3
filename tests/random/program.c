/* Whole programs: data types, definitions, and @main or a bare expression. */
#include "tests/random/internal.h"

#include "base/random.h"

#include <stdio.h>
#include <string.h>

#define NOWHERE ((Span){0})

/* ---- numbers */

uint64_t draw(Gen *g)
{
    return random_at(g->seed, g->drawn++);
}

uint32_t below(Gen *g, size_t n)
{
    return (uint32_t)(draw(g) % n);
}

int64_t between(Gen *g, int64_t from, int64_t to)
{
    return from + below(g, (size_t)(to - from + 1));
}

bool once_in(Gen *g, uint32_t n)
{
    return below(g, n) == 0;
}

void count_form(Gen *g, const char *form)
{
    if (g->stats)
        ++*(size_t *)ptrmap_slot(&g->stats->forms, form);
}

/* ---- data types */

static const Type *own_type(Gen *g, const TypeDef *def)
{
    const Type *args[4];
    for (uint32_t i = 0; i < def->n_params; i++)
        args[i] = type_var(g->cx, def->params[i]);
    return type_adt(g->cx, def, def->n_params, args);
}

static TypeDef *new_type(Gen *g, const char *name, uint32_t n_params)
{
    static const char *const names[] = {"A", "B"};
    const TypeVar **params = arena_new_array(&g->cx->arena, const TypeVar *, n_params);
    for (uint32_t i = 0; i < n_params; i++)
        params[i] = typevar_new(g->cx, ctx_name(g->cx, names[i]), NOWHERE);
    return typedef_new(g->cx, ctx_name(g->cx, name), n_params, params, NOWHERE);
}

static void add_con(Gen *g, TypeDef *def, const char *name, uint32_t n, const Type *const *fields)
{
    typedef_con(g->cx, def, ctx_name(g->cx, name), n, fields, NOWHERE);
}

static void add_type(Gen *g, TypeDef *def)
{
    module_define_type(g->m, def);
    vec_push(&g->types, &g->scratch, def);
}

static void known_types(Gen *g)
{
    TypeDef *list = new_type(g, "List", 1), *option = new_type(g, "Option", 1),
            *tree = new_type(g, "Tree", 1);
    const Type *a = type_var(g->cx, list->params[0]);
    add_con(g, list, "Nil", 0, NULL);
    add_con(g, list, "Cons", 2, (const Type *[]){a, own_type(g, list)});
    add_type(g, list);
    a = type_var(g->cx, option->params[0]);
    add_con(g, option, "None", 0, NULL);
    add_con(g, option, "Some", 1, &a);
    add_type(g, option);
    a = type_var(g->cx, tree->params[0]);
    const Type *trees = type_adt(g->cx, list, 1, (const Type *[]){own_type(g, tree)});
    add_con(g, tree, "Leaf", 0, NULL);
    add_con(g, tree, "Rose", 2, (const Type *[]){a, trees});
    add_type(g, tree);
    TypeDef *fork = new_type(g, "Fork", 1);
    a = type_var(g->cx, fork->params[0]);
    const Type *self = own_type(g, fork);
    add_con(g, fork, "Tip", 1, &a);
    add_con(g, fork, "Branch", 2, (const Type *[]){self, self});
    add_con(g, fork, "Stem", 1, &self);
    add_type(g, fork);
}

/* A function that gives such a value. */
static const Type *delayed(Gen *g, const Type *t)
{
    const Type *arg = random_scalar(g);
    count_form(g, "a function in a data type");
    return type_func(g->cx, 0, NULL, below(g, 2), &arg, t);
}

/* The first constructor does not need a value of the type itself. */
static void random_typedef(Gen *g, int number)
{
    char name[32];
    snprintf(name, sizeof name, "T%d", number);
    TypeDef *def = new_type(g, name, below(g, 3));
    const Type *self = own_type(g, def);
    uint32_t n = 1 + below(g, 4);
    for (uint32_t i = 0; i < n; i++) {
        const Type *fields[4];
        uint32_t n_fields = below(g, 4);
        for (uint32_t k = 0; k < n_fields; k++) {
            bool param = def->n_params && once_in(g, 2);
            fields[k] = param                    ? self->parts[below(g, def->n_params)]
                        : i > 0 && once_in(g, 3) ? self
                                                 : random_type(g, 1);
            if (!param && fields[k] != self && !is_data(fields[k]) && !g->higher)
                fields[k] = random_tensor(g);
            if (g->data && i > 0 && once_in(g, 4))
                fields[k] = delayed(g, fields[k]);
        }
        snprintf(name, sizeof name, "C%d/%u", number, i);
        add_con(g, def, name, n_fields, fields);
    }
    add_type(g, def);
}

/* Nobody has a value of it. */
static void extern_type(Gen *g)
{
    TypeDef *def = new_type(g, "Handle", below(g, 2));
    def->is_extern = true;
    module_define_type(g->m, def);
    const Type *arg = random_scalar(g), *t = type_adt(g->cx, def, def->n_params, &arg);
    Var *v = fresh_var(g, t);
    Function *keep =
        expr_function(g->arena, NOWHERE, (TypeVarList){0}, 1, &v, NULL, NULL, &v->base);
    module_define(g->m, ctx_name(g->cx, "keep"), keep, NOWHERE, g->m);
    count_form(g, "an extern type");
}

/* ---- programs */

/* Indices, shapes and permutations that an argument decides would mostly be wrong; what is random has no one value. */
static bool collect(void *data, const Op *op)
{
    Gen *g = data;
    unsigned without = OP_STATEFUL | OP_NON_COMPUTATIONAL | OP_SHAPE_FROM_DATA;
    if (!(op->flags & without) && strncmp(op->name, "dyn.", 4) != 0)
        vec_push(&g->ops, &g->scratch, op);
    return true;
}

static const Type *data_type(Gen *g)
{
    const Type *t = random_type(g, 3);
    while (!is_data(t))
        t = random_type(g, 2);
    return t;
}

static void make_main(Gen *g, int size)
{
    const Type *args[2], *result = data_type(g);
    uint32_t n = below(g, 3);
    for (uint32_t i = 0; i < n; i++)
        args[i] = random_tensor(g);
    g->fuel = size;
    g->cost = 0;
    g->in_turns = once_in(g, 8);
    if (g->in_turns)
        result = random_tensor(g);
    Function *fn = make_function(g, type_func(g->cx, 0, NULL, n, args, result), size, NULL);
    module_define(g->m, ctx_name(g->cx, "main"), fn, NOWHERE, g->m);
}

/* An expression by itself, with variables that nothing binds. */
static void make_expression(Gen *g, int size)
{
    for (uint32_t n = below(g, 3); n > 0; n--) {
        Var *v = fresh_var(g, random_type(g, 2));
        vec_push(&g->m->free_vars, g->arena, v);
        learn(g, &v->base, v->annotation);
    }
    g->fuel = size;
    g->m->expr = make(g, data_type(g), size);
}

Module *random_program(Ctx *cx, RandomOptions options, RandomStats *stats)
{
    Module *m = module_new(cx);
    Gen g = {.cx = cx,
             .m = m,
             .arena = &m->arena,
             .seed = options.seed,
             .stats = stats,
             .data = options.data || options.higher,
             .higher = options.higher,
             .derivatives = options.derivatives};
    arena_init(&g.scratch, NULL);
    diags_init(&g.quiet, NULL);
    op_each(cx->ops, collect, &g);
    if (once_in(&g, 8)) {
        make_expression(&g, options.size);
    } else {
        if (g.data || !once_in(&g, 4))
            known_types(&g);
        for (int i = 0; i < 3 && (g.data || once_in(&g, 2)); i++)
            random_typedef(&g, i);
        if (once_in(&g, 8))
            extern_type(&g);
        make_definitions(&g, options.size);
        make_main(&g, options.size);
    }
    if (stats)
        stats->programs++;
    diags_deinit(&g.quiet);
    ptrmap_deinit(&g.holders);
    arena_deinit(&g.scratch);
    return m;
}

/* ---- statistics */

void stats_deinit(RandomStats *stats)
{
    ptrmap_deinit(&stats->forms);
    ptrmap_deinit(&stats->ops);
    ptrmap_deinit(&stats->negative);
}

void stats_print(const RandomStats *stats)
{
    printf("%zu programs\n", stats->programs);
    for (size_t i = 0; i < stats->forms.n; i++)
        printf("%8zu  %s\n", (size_t)stats->forms.entries[i].value,
               (const char *)stats->forms.entries[i].key);
    printf("%zu operators\n", stats->ops.n);
    for (size_t i = 0; i < stats->ops.n; i++)
        printf("%8zu  %s\n", (size_t)stats->ops.entries[i].value,
               ((const Op *)stats->ops.entries[i].key)->name);
}
