/* Units of which more code may be made (late.c), in files: how many sites there are, and for each module what it was made for. The order
 * of modules is that of their making, which a unit that wakes goes through again.
 *
 * What a unit finds when it wakes follows from the program as it was compiled, so the file says what that was. */
#include "jit/keep.h"

#include <string.h>

/* The contents of what the optimiser left of the program. */
static void find_compiled(const Unit *u, uint64_t out[2])
{
    const Def *def = module_find(u->env, u->name);
    Content c;
    Buf how = {0};
    if (!def)
        return;
    buf_str(&how, "compiled");
    content_init(&c, u->env, def, &how);
    memcpy(out, c.key, sizeof c.key);
    content_deinit(&c);
    buf_deinit(&how);
}

static void put_info(Writing *w, const FunctionInfo *info)
{
    keep_put_text(w, info->info.name);
    keep_put(w, info->type->n_params > 0);
    if (info->type->n_params == 0)
        keep_put_type(w, info->type);
}

void keep_put_sites(Writing *w, const Unit *u)
{
    keep_put(w, late_grows(u));
    if (!late_grows(u))
        return;
    uint64_t compiled[2] = {u->compiled[0], u->compiled[1]};
    if (!compiled[0] && !compiled[1])
        find_compiled(u, compiled);
    keep_put(w, compiled[0]);
    keep_put(w, compiled[1]);
    keep_put(w, u->open);
    keep_put(w, u->epoch);
    keep_put(w, u->jit->orc.numbers);
    keep_put(w, u->lates.n);
    keep_put(w, u->variants.n);
    for (size_t i = 0; i < u->variants.n; i++)
        keep_put(w, u->variants.at[i]->n_args);
    keep_put(w, u->infos.n);
    for (size_t i = 0; i < u->infos.n; i++)
        w->here |= !u->infos.at[i]->type;
    for (size_t i = 0; i < u->infos.n && !w->here; i++)
        put_info(w, u->infos.at[i]);
}

static void take_info(Taking *t)
{
    FunctionInfo *info = late_info_new(t->u);
    closure_describe(info, keep_take_text(t));
    bool open = keep_take(t);
    info->type = t->wrong || open ? NULL : keep_take_type(t);
}

void keep_take_sites(Taking *t)
{
    Unit *u = t->u;
    if (!keep_take(t))
        return;
    uint64_t compiled[2] = {keep_take(t), keep_take(t)};
    if (t->compiled)
        find_compiled(u, u->compiled);
    t->other = !t->compiled || memcmp(compiled, u->compiled, sizeof compiled) != 0;
    if (t->other)
        return;
    u->asleep = true;
    u->open = keep_take(t);
    u->epoch = (uint32_t)keep_take(t);
    uint64_t numbers = keep_take(t);
    t->wrong |= numbers > UINT32_MAX;
    if (numbers > u->jit->orc.numbers && !t->wrong) /* names of the file are nobody else's */
        u->jit->orc.numbers = (uint32_t)numbers;
    uint64_t n = keep_take_count(t); /* code of each refers to it */
    for (; n > 0 && !t->wrong; n--)
        late_site_new(u);
    for (n = keep_take_count(t); n > 0 && !t->wrong; n--) {
        uint64_t args = keep_take(t);
        t->wrong |= args > UINT32_MAX;
        late_variants_new(u, (uint32_t)args);
    }
    for (n = keep_take_count(t); n > 0 && !t->wrong; n--)
        take_info(t);
}

void keep_put_made(Writing *w, const Unit *u, const Code *code)
{
    LateWish wish = code->wish;
    keep_put(w, wish.kind);
    keep_put(w, wish.number);
    uint32_t n = late_types(u, wish);
    for (uint32_t i = 0; i < n && !w->here; i++)
        keep_put_type(w, wish.kind == LATE_TYPE ? wish.type : wish.shapes[i]);
    keep_put(w, code->epoch);
    keep_put_text(w, code->table ? code->table : "");
    keep_put(w, code->infos.n);
    for (size_t i = 0; i < code->infos.n; i++)
        keep_put(w, code->infos.at[i]->number);
}

static bool is_there(const Unit *u, LateWish wish)
{
    switch (wish.kind) {
    case LATE_NOTHING:
    case LATE_ENTRY: return true;
    case LATE_SITE: return wish.number < u->lates.n;
    case LATE_GENERIC:
    case LATE_SHAPES: return wish.number < u->variants.n;
    case LATE_TYPE: return wish.number < u->infos.n;
    }
    return false;
}

void keep_take_made(Taking *t, Code *code)
{
    Unit *u = t->u;
    uint64_t kind = keep_take(t), number = keep_take(t);
    code->wish = (LateWish){.kind = (LateKind)kind, .number = (uint32_t)number};
    t->wrong |= number > UINT32_MAX || !is_there(u, code->wish);
    uint32_t n = t->wrong ? 0 : late_types(u, code->wish);
    t->wrong |= n > (size_t)(t->end - t->at) / 8;
    const Type **types = arena_new_array(&u->arena, const Type *, t->wrong ? 1 : n + 1);
    for (uint32_t i = 0; i < n && !t->wrong; i++)
        types[i] = keep_take_type(t);
    if (kind == LATE_SHAPES)
        code->wish.shapes = types;
    if (kind == LATE_TYPE)
        code->wish.type = types[0];
    code->epoch = (uint32_t)keep_take(t);
    const char *table = keep_take_text(t);
    code->table = *table ? table : NULL;
    for (uint64_t i = keep_take_count(t); i > 0 && !t->wrong; i--) {
        uint64_t info = keep_take(t);
        t->wrong |= info >= u->infos.n;
        if (!t->wrong)
            vec_push(&code->infos, &u->arena, u->infos.at[info]);
    }
}
