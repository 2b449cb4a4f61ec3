/* Tuples field by field: what functions give in registers (signature.h), and what comes where ways meet.
 *
 * Such a tuple is one value of LLVM's, a struct, which is owned as a whole. Where a function goes on with it its fields get their owners:
 * the variables of the projections that follow. Where it is wanted as a tuple one is made. */
#include "jit/internal.h"
#include "jit/open_tuples.h"

/* What a function may give in registers. */
#define WORDS_MOST 3
#define FLOATS_MOST 2

bool fields_fit(const Type *t)
{
    unsigned words = 0, floats = 0;
    for (uint32_t i = 0; t->kind == TYPE_TUPLE && i < t->n; i++) {
        Repr r = repr_of(t->parts[i]);
        bool is_float = r.kind == REPR_SCALAR && dtype_is_float(r.dtype);
        floats += is_float;
        words += !is_float;
    }
    return tuple_is_worth_opening(t) && words <= WORDS_MOST && floats <= FLOATS_MOST;
}

LLVMTypeRef fields_type(Gen *g, const Type *t)
{
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, t->n + 1);
    for (uint32_t i = 0; i < t->n; i++)
        types[i] = gen_type(g, repr_of(t->parts[i]));
    return LLVMStructTypeInContext(g->c, types, t->n, false);
}

bool fn_is_fields(Ssa v)
{
    return LLVMGetTypeKind(LLVMTypeOf(v)) == LLVMStructTypeKind;
}

/* The struct takes over the values. */
static Ssa join_fields(Fn *f, const Type *type, const Ssa *values)
{
    Gen *g = f->g;
    Ssa all = LLVMGetUndef(fields_type(g, type));
    for (uint32_t i = 0; i < type->n; i++)
        all = LLVMBuildInsertValue(g->b, all, values[i], i, "");
    for (uint32_t i = 0; i < type->n; i++)
        own_lose(f, values[i]);
    own_make(f, all);
    return all;
}

static Ssa *part_fields(Fn *f, const Type *type, Ssa fields)
{
    Gen *g = f->g;
    Ssa *values = arena_new_array(g->arena, Ssa, type->n + 1);
    for (uint32_t i = 0; i < type->n; i++)
        values[i] = LLVMBuildExtractValue(g->b, fields, i, "");
    own_lose(f, fields);
    for (uint32_t i = 0; i < type->n; i++)
        own_make(f, values[i]);
    return values;
}

Ssa fn_fields(Fn *f, const Type *type, Expr *const *fields)
{
    fn_settle(f, type->n, fields, type->parts);
    Ssa *values = arena_new_array(f->g->arena, Ssa, type->n + 1);
    for (uint32_t i = 0; i < type->n; i++)
        values[i] = fn_take_as(f, fields[i], type->parts[i]);
    return join_fields(f, type, values);
}

Ssa fn_open_tuple(Fn *f, const Type *type, Ssa tuple)
{
    Ssa *values = arena_new_array(f->g->arena, Ssa, type->n + 1);
    for (uint32_t i = 0; i < type->n; i++) {
        Repr r = repr_of(type->parts[i]);
        values[i] = fn_get_field(f, tuple, i, r);
        fn_retain(f, r, values[i]);
    }
    fn_release_as(f, type, tuple);
    return join_fields(f, type, values);
}

/* To make a cell may fail: then nothing has the fields, which are let go of like what was made for an operand. */
Ssa fn_close_tuple(Fn *f, const Type *type, Ssa fields)
{
    Ssa *values = part_fields(f, type, fields);
    Repr *reprs = arena_new_array(f->g->arena, Repr, type->n + 1);
    for (uint32_t i = 0; i < type->n; i++) {
        reprs[i] = repr_of(type->parts[i]);
        fn_hold(f, type->parts[i], values[i]);
    }
    Ssa o = fn_object(f, VALUE_TUPLE, NULL, type->n, reprs);
    for (uint32_t i = 0; i < type->n; i++) {
        fn_unhold(f, values[i]);
        fn_set_field(f, o, i, reprs[i], values[i]);
    }
    return o;
}

uint32_t fn_projections(Fn *f, const Let *let)
{
    const LiveBlock *b = f->block;
    uint64_t seen = 0;
    uint32_t n = 0;
    for (const Let *next = expr_as_let(let->body); next; next = expr_as_let(next->body), n++) {
        const TupleGet *get = expr_as_tuple_get(next->value);
        if (!get || get->tuple != &let->var->base || (seen >> get->index & 1))
            break;
        seen |= (uint64_t)1 << get->index;
    }
    uint32_t last = (uint32_t)(uintptr_t)ptrmap_find(&b->last, let->var);
    return last == f->at + n + 1 ? n : 0;
}

Let *fn_bind_projections(Fn *f, Let *let, uint32_t n, const Type *type, Ssa fields)
{
    Ssa *values = part_fields(f, type, fields);
    uint64_t bound = 0;
    for (uint32_t i = 0; i < n; i++) {
        let = expr_as_let(let->body);
        uint32_t at = (uint32_t)expr_as_tuple_get(let->value)->index;
        const Type *wanted = fn_type(f, &let->var->base);
        f->at++;
        if (!fn_stands_for(f, type->parts[at], wanted))
            return NULL;
        fn_bind(f, let->var, wanted, values[at]);
        bound |= (uint64_t)1 << at;
    }
    for (uint32_t i = 0; i < type->n; i++)
        if (!(bound >> i & 1))
            fn_release_as(f, type->parts[i], values[i]);
    return let;
}
