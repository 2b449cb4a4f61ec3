#include "session/commands.h"
#include "session/internal.h"
#include "typecheck/typecheck.h"

static void copy_names(PtrMap *to, const PtrMap *from)
{
    for (size_t i = 0; i < from->n; i++)
        if (from->entries[i].key)
            ptrmap_put(to, from->entries[i].key, from->entries[i].value);
}

bool trail_init(Trail *t, RelaySession *s)
{
    *t = (Trail){.s = s, .env = module_derive(s->env)};
    copy_names(&t->locals, &s->local_names);
    copy_names(&t->graph, &s->graph_names);
    return t->env != NULL;
}

void trail_deinit(Trail *t)
{
    for (size_t i = 0; i < t->seen.n; i++)
        module_release(t->seen.at[i].module);
    module_release(t->env);
    ptrmap_deinit(&t->locals);
    ptrmap_deinit(&t->graph);
}

ParseEnv trail_env(const Trail *t)
{
    ParseEnv env = session_parse_env(t->s);
    env.globals = t->env;
    env.locals = &t->locals;
    env.graph = &t->graph;
    return env;
}

void trail_define(Trail *t, const CellItem *item)
{
    Module *m = item->module;
    const Type *poison = t->s->cx.poison;
    vec_push(&t->seen, &t->env->arena, ((Seen){m, item->span}));
    t->env->gaps |= m->gaps;
    if (item->var && !item->var->base.type)
        item->var->base.type = poison;
    if (item->var)
        ptrmap_put(item->graph ? &t->graph : &t->locals, item->var->name, item->var);
    for (size_t i = 0; i < m->types.n; i++)
        module_define_type(t->env, m->types.at[i]);
    for (size_t i = 0; i < m->defs.n; i++) {
        const Def *d = &m->defs.at[i];
        if (d->fn && !d->fn->base.type)
            d->fn->base.type = poison;
        if (d->fn)
            module_define(t->env, d->name, d->fn, d->span, m);
    }
}

void trail_check(Trail *t, const CellItem *item)
{
    Module *m = item->module;
    if (item->var && m->expr)
        m->expr = expr_let(&m->arena, item->span, item->var, m->expr, &item->var->base);
    typecheck_module(&t->s->cx, m, t->env);
    trail_define(t, item);
}

/* A `let` keeps its name, and what is wrong gives nothing. */
static void bind_result(Trail *t, const char *text, const Type *type)
{
    const Name *name = ctx_name(&t->s->cx, text);
    const Var *old = ptrmap_find(&t->locals, name);
    if (old && (!span_is_none(old->base.span) || type_is_poison(type)))
        return;
    Var *var = expr_var(&t->env->arena, (Span){0}, name, NULL);
    var->base.type = type;
    ptrmap_put(&t->locals, name, var);
}

/* What an expression gives has the names that it would have in a session; where it is wrong, of the poison type. */
static void name_result(Trail *t, const CellItem *item, bool right)
{
    const Type *type = right ? item->module->expr->type : NULL;
    type = type && !item->module->free_vars.n ? type_find(type) : t->s->cx.poison;
    if (type->kind == TYPE_TUPLE && type->n == 0)
        return;
    bind_result(t, "_", type);
    if (!t->script)
        return;
    bind_result(t, result_name(t->number).text, type);
}

/* A command is one that there is. Its argument is an expression too, behind one word at most that says what of it; what is none is no mistake. */
static void read_command(Trail *t, const CellItem *item, const ParseEnv *env)
{
    if (!command_known(t->s, item))
        return;
    Span args = item->args;
    const Source *source = sources_get(&t->s->cx.sources, args.source);
    DiagsMark before = diags_mark(t->s->cx.diags);
    for (int words = 0; words < 2; words++) {
        CellItem inner = {.kind = CELL_EXPR, .span = args};
        inner.module = parse_range(&t->s->cx, args, env);
        if (inner.module) {
            trail_check(t, &inner);
            return;
        }
        diags_back(t->s->cx.diags, before);
        while (args.from < args.to && source->text[args.from] != ' ')
            args.from++;
        while (args.from < args.to && source->text[args.from] == ' ')
            args.from++;
    }
}

void trail_read(Trail *t, uint32_t source, size_t until)
{
    CellParser p;
    cell_parser_init(&p, &t->s->cx, source);
    for (bool there = true; there && !limit_hit(&t->s->cx.limits);) {
        CellItem item = {0};
        ParseEnv env = trail_env(t);
        cell_parser_next(&p, &env, &item);
        there = item.kind != CELL_END && p.at <= until;
        t->number++;
        size_t errors = t->s->cx.diags->errors;
        bool gives = item.kind == CELL_EXPR && item.module && item.module->expr;
        if (item.kind == CELL_COMMAND)
            read_command(t, &item, &env);
        else if (item.module)
            trail_check(t, &item);
        if (gives)
            name_result(t, &item, t->s->cx.diags->errors == errors);
    }
}
