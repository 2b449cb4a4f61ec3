/* What dies with the last count of a value: a function of the module for each type of data or tuples.
 *
 * It knows where the counted fields are and to which list the cell goes, where the runtime's must look both up. A field of the same type
 * is the next to die, in a loop: a list goes cell by cell. Other fields die by such functions of their own, and what is below them is the
 * runtime's, which needs no stack for depth. */
#include "jit/internal.h"

/* Fields and constructors of a type for which it is worth the code. */
#define DROP_FIELDS_MOST 16
#define DROP_CONS_MOST 16

typedef struct Dropping {
    Fn *f;
    const Type *type;
    Ssa value;
    LLVMBasicBlockRef loop;
} Dropping;

static const Type *field_type(Gen *g, const Type *t, uint32_t con, uint32_t i)
{
    if (t->kind == TYPE_TUPLE)
        return t->parts[i];
    return type_subst(g->cx, t->def->cons[con]->fields[i], t->def->n_params, t->def->params,
                      t->parts);
}

static uint32_t n_cons(const Type *t)
{
    return t->kind == TYPE_TUPLE ? 1 : t->def->n_cons;
}

static uint32_t n_fields(const Type *t, uint32_t con)
{
    return t->kind == TYPE_TUPLE ? t->n : t->def->cons[con]->n;
}

static bool is_worth_it(Gen *g, const Type *t)
{
    if ((t->kind != TYPE_ADT && t->kind != TYPE_TUPLE) || n_cons(t) > DROP_CONS_MOST)
        return false;
    uint32_t fields = 0;
    for (uint32_t i = 0; i < n_cons(t); i++) {
        uint32_t n = n_fields(t, i);
        fields += n;
        if (fields > DROP_FIELDS_MOST || !fn_cell_is_listed(n))
            return false;
        for (uint32_t k = 0; k < n; k++)
            if (repr_of(field_type(g, t, i, k)).kind == REPR_NONE)
                return false;
    }
    return fields > 0;
}

/* The field goes on in the loop when it dies, too. */
static void drop_next(Dropping *d, Ssa next)
{
    Gen *g = d->f->g;
    LLVMBasicBlockRef here, less = gen_block(g, d->f->fn, "less"),
                            end = gen_block(g, d->f->fn, "end");
    Ssa refs = gen_load(g, g->i32, next, offsetof(Object, refs));
    here = LLVMGetInsertBlock(g->b);
    LLVMAddIncoming(d->value, &next, &here, 1);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), d->loop,
                    less);
    LLVMPositionBuilderAtEnd(g->b, less);
    fn_release_shared(d->f, repr_of(d->type), next, refs);
    LLVMBuildBr(g->b, end);
    LLVMPositionBuilderAtEnd(g->b, end);
    LLVMBuildRetVoid(g->b);
}

static void drop_fields(Dropping *d, uint32_t con)
{
    Gen *g = d->f->g;
    uint32_t n = n_fields(d->type, con);
    Ssa next = NULL;
    for (uint32_t i = n; i-- > 0;) {
        const Type *t = field_type(g, d->type, con, i);
        Repr r = repr_of(t);
        if (r.kind == REPR_SCALAR)
            continue;
        Ssa field = fn_get_field(d->f, d->value, i, r);
        if (t == d->type && !next)
            next = field;
        else
            fn_release_as(d->f, t, field);
    }
    fn_free_cell(d->f, d->value, n);
    if (next)
        drop_next(d, next);
    else
        LLVMBuildRetVoid(g->b);
}

static void drop_constructors(Dropping *d)
{
    Gen *g = d->f->g;
    uint32_t n = n_cons(d->type), last = 0;
    LLVMBasicBlockRef blocks[DROP_CONS_MOST] = {0}, here = LLVMGetInsertBlock(g->b);
    for (uint32_t i = 0; i < n; i++) {
        if (n_fields(d->type, i) == 0) /* immortal */
            continue;
        blocks[last = i] = gen_block(g, d->f->fn, "fields");
        LLVMPositionBuilderAtEnd(g->b, blocks[i]);
        drop_fields(d, i);
    }
    LLVMPositionBuilderAtEnd(g->b, here);
    if (n == 1) {
        LLVMBuildBr(g->b, blocks[last]);
        return;
    }
    Ssa to = LLVMBuildSwitch(g->b, fn_tag(d->f, d->value, n), blocks[last], n);
    for (uint32_t i = 0; i < last; i++)
        if (n_fields(d->type, i) > 0)
            LLVMAddCase(to, gen_int(g->i32, i), blocks[i]);
}

static Ssa drop_function(Gen *g)
{
    LLVMTypeRef params[2] = {g->ptr, g->ptr};
    Ssa fn = LLVMAddFunction(g->m, orc_name(g->jit, g->arena, "drop"),
                             LLVMFunctionType(g->nothing, params, 2, false));
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    LLVMSetFunctionCallConv(fn, KEEPCC);
    gen_attribute(g, fn, "nounwind");
    gen_attribute(g, fn, "noinline");
    return fn;
}

static void drop_data(Fn *f, const Type *t)
{
    Gen *g = f->g;
    LLVMBasicBlockRef entry = gen_block(g, f->fn, "");
    Dropping d = {.f = f, .type = t, .loop = gen_block(g, f->fn, "loop")};
    LLVMPositionBuilderAtEnd(g->b, entry);
    LLVMBuildBr(g->b, d.loop);
    LLVMPositionBuilderAtEnd(g->b, d.loop);
    d.value = LLVMBuildPhi(g->b, g->ptr, "");
    LLVMAddIncoming(d.value, &(Ssa){LLVMGetParam(f->fn, 1)}, &entry, 1);
    drop_constructors(&d);
}

static void drop_closure(Fn *f, const Instance *in)
{
    Gen *g = f->g;
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, f->fn, ""));
    Ssa closure = LLVMGetParam(f->fn, 1);
    for (uint32_t i = 0; i < in->captures.n; i++) {
        const Capture *c = &in->captures.at[i];
        Repr r = repr_of(c->type);
        Ssa field = fn_get_field(f, closure, FUNCTION_CAPTURED + i, r);
        fn_release_val(f, &(Val){.type = c->type, .repr = r, .known = c->known, .at = field});
    }
    fn_free_cell(f, closure, FUNCTION_CAPTURED + (uint32_t)in->captures.n);
    LLVMBuildRetVoid(g->b);
}

/* What ends values of the type, or closures of the instance. */
static Ssa make_drop(Gen *g, const Type *t, const Instance *in, unsigned level)
{
    Ssa fn = drop_function(g);
    Fn f = {.g = g, .fn = fn, .state = LLVMGetParam(fn, 0), .drops = level + 1};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    if (in)
        drop_closure(&f, in);
    else
        drop_data(&f, t);
    LLVMPositionBuilderAtEnd(g->b, before);
    return fn;
}

static bool has_own_drop(Gen *g, const Instance *closure)
{
    return closure && closure->has_self && closure_is_plain(g, closure) &&
           fn_cell_is_listed(FUNCTION_CAPTURED + (uint32_t)closure->captures.n);
}

void fn_drop(Fn *f, const Type *type, const Instance *closure, Ssa v)
{
    Gen *g = f->g;
    const Instance *known = has_own_drop(g, closure) ? closure : NULL;
    if (f->drops >= DROP_LEVELS || (!known && !is_worth_it(g, type))) {
        gen_call_rare(g, "relay_free_object", &v, 1);
        return;
    }
    PtrMap *made = &g->drops[f->drops];
    const void *key = known ? (const void *)known : type;
    Ssa fn = ptrmap_find(made, key);
    if (!fn)
        ptrmap_put(made, key, fn = make_drop(g, type, known, f->drops));
    Ssa args[2] = {f->state, v};
    LLVMSetInstructionCallConv(LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, 2, ""),
                               KEEPCC);
}
