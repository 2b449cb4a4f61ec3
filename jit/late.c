/* Code that is made when it is first called, and what asks for it: sites in code for other types or shapes of what it calls, and
 * polymorphic closures.
 *
 * A unit numbers its sites in the order in which code that refers to them is made. Kept in a file, they are these numbers and the code
 * that they have. A unit that was read is asleep: it knows none of the functions that code was made of. When code is wanted that the
 * file has not, the unit wakes (unit_wake): it goes through the making of its modules once more, in the same order and without LLVM's
 * part in it, so that each site meets its instance again. */
#include "jit/internal.h"

LateSite *late_site_new(Unit *u)
{
    LateSite *site = arena_new(&u->arena, LateSite);
    *site = (LateSite){.unit = u, .number = (uint32_t)u->lates.n};
    vec_push(&u->lates, &u->arena, site);
    return site;
}

LateSite *late_site(Gen *g, Instance *in)
{
    Unit *u = g->unit;
    bool known = u->asleep && u->lates_woken++ < u->lates.n;
    LateSite *site = known ? u->lates.at[u->lates_woken - 1] : late_site_new(u);
    site->in = in;
    return site;
}

VariantSite *late_variants_new(Unit *u, uint32_t n_args)
{
    VariantSite *site = arena_new(&u->arena, VariantSite);
    *site = (VariantSite){.unit = u, .number = (uint32_t)u->variants.n, .n_args = n_args};
    vec_push(&u->variants, &u->arena, site);
    return site;
}

VariantSite *late_variants(Gen *g, Instance *in)
{
    Unit *u = g->unit;
    bool known = u->asleep && u->variants_woken++ < u->variants.n;
    VariantSite *site = known ? u->variants.at[u->variants_woken - 1] : late_variants_new(u, in->n);
    site->in = in;
    return site;
}

static void info_free(void *map)
{
    ptrmap_deinit(map);
}

FunctionInfo *late_info_new(Unit *u)
{
    FunctionInfo *info = arena_new(&u->arena, FunctionInfo);
    *info = (FunctionInfo){.unit = u, .number = (uint32_t)u->infos.n};
    arena_on_free(&u->arena, info_free, &info->at);
    vec_push(&u->infos, &u->arena, info);
    return info;
}

FunctionInfo *late_info(Unit *u)
{
    bool known = u->asleep && u->infos_woken++ < u->infos.n;
    return known ? u->infos.at[u->infos_woken - 1] : late_info_new(u);
}

bool late_grows(const Unit *u)
{
    return u->infos.n + u->lates.n + u->variants.n > 0;
}

Instance *late_wanted(const Unit *u, LateWish wish)
{
    switch (wish.kind) {
    case LATE_SITE: return u->lates.at[wish.number]->in;
    case LATE_GENERIC:
    case LATE_SHAPES: return u->variants.at[wish.number]->in;
    case LATE_TYPE: return u->infos.at[wish.number]->in;
    case LATE_NOTHING:
    case LATE_ENTRY: break;
    }
    return NULL;
}

uint32_t late_types(const Unit *u, LateWish wish)
{
    return wish.kind == LATE_SHAPES ? u->variants.at[wish.number]->n_args : wish.kind == LATE_TYPE;
}

void late_made(Unit *u, LateWish wish, void *code)
{
    VariantSite *site;
    switch (wish.kind) {
    case LATE_SITE: u->lates.at[wish.number]->code = code; return;
    case LATE_GENERIC: u->variants.at[wish.number]->generic = code; return;
    case LATE_SHAPES:
        site = u->variants.at[wish.number];
        if (site->n < VARIANTS_MOST)
            site->variants[site->n++] = (Variant){wish.shapes, code};
        return;
    case LATE_TYPE:
        vec_push(&u->types, &u->arena, wish.type);
        ptrmap_put(&u->infos.at[wish.number]->at, wish.type, code);
        return;
    case LATE_NOTHING:
    case LATE_ENTRY: return;
    }
}

void *late_found(const Unit *u, LateWish wish)
{
    const VariantSite *site;
    switch (wish.kind) {
    case LATE_SITE: return u->lates.at[wish.number]->code;
    case LATE_GENERIC: return u->variants.at[wish.number]->generic;
    case LATE_SHAPES:
        site = u->variants.at[wish.number];
        return site->n > 0 ? site->variants[site->n - 1].code : NULL;
    case LATE_TYPE: return ptrmap_find(&u->infos.at[wish.number]->at, wish.type);
    case LATE_NOTHING:
    case LATE_ENTRY: break;
    }
    return NULL;
}
