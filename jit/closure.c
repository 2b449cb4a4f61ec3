/* Functions as values.
 *
 * The first field of a closure is the address of its code, which takes the closure after the state. In a unit that no function
 * enters or leaves that is all. In an open one a closure may come from elsewhere: one that is not compiled has no address there and
 * is called through a bridge, which hands boxed values to whoever made it; and closures made here can be called from C, so their
 * unit knows for each kind of them how (FunctionInfo). */
#include "jit/internal.h"

/* Where the address of a closure's code stands. */
#define CODE_AT (offsetof(Object, fields) + FUNCTION_CODE * sizeof(Field))

static Ssa add_function(Gen *g, const char *hint, LLVMTypeRef type, unsigned convention)
{
    Ssa fn = LLVMAddFunction(g->m, orc_name(g->jit, g->arena, hint), type);
    LLVMSetLinkage(fn, LLVMInternalLinkage);
    gen_function_convention(g, fn, convention);
    gen_attribute(g, fn, "nounwind");
    return fn;
}

/* ---- closures that are made here ----------------------------------------------------------------------------- */

static void print_function(Buf *out, const Object *o)
{
    buf_printf(out, "<fn %s>", object_info(o)->name);
}

static void print_typed(Buf *out, const Object *o)
{
    const FunctionInfo *info = (const FunctionInfo *)(const void *)object_info(o);
    if (!info->type) {
        print_function(out, o);
        return;
    }
    buf_char(out, '<');
    type_print(out, info->type);
    buf_char(out, '>');
}

static const ObjectInfo function_gone = {.kind = VALUE_FUNCTION};

static void closure_destroy(Object *o)
{
    FunctionInfo *info = (FunctionInfo *)(uintptr_t)object_info(o);
    o->fields[FUNCTION_INFO].bits = (uint64_t)(uintptr_t)&function_gone;
    unit_release(info->unit);
}

static void tail_call(Fn *f, LLVMTypeRef type, Ssa code, Ssa *args, unsigned n)
{
    Ssa call = LLVMBuildCall2(f->g->b, type, code, args, n, "");
    if (gen_set_convention(call) == TAILCC)
        LLVMSetTailCallKind(call, LLVMTailCallKindMustTail);
    for (unsigned i = 1; i < n; i++)
        own_lose(f, args[i]);
    LLVMBuildRet(f->g->b, call);
}

/* The closure and the arguments are the function's. */
static void own_params(Fn *f, uint32_t n)
{
    own_begin(f);
    for (uint32_t i = 0; i <= n; i++)
        own_make(f, LLVMGetParam(f->fn, i + 1));
}

/* The code that is made when it is first called; without it everything is let go of. */
static Ssa late_code(Fn *f, Instance *in)
{
    Gen *g = f->g;
    Ssa what[2] = {LLVMGetParam(f->fn, 0), gen_outside(g, IMPORT_LATE, in->late)};
    Ssa code = gen_call_abi(g, "relay_late", what, 2);
    LLVMBasicBlockRef fail = gen_block(g, f->fn, "fail"), go = gen_block(g, f->fn, "go");
    gen_branch(g, LLVMBuildIsNull(g->b, code, ""), fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    for (uint32_t i = 0; i < in->n; i++)
        fn_release_cold(f, repr_of(in->params[i]), LLVMGetParam(f->fn, i + 2));
    fn_release_cold(f, (Repr){.kind = REPR_OBJECT}, LLVMGetParam(f->fn, 1));
    LLVMBuildRet(g->b, fn_zero(f));
    LLVMPositionBuilderAtEnd(g->b, go);
    return code;
}

/* A function behind the convention of closures when its own is another, or its code is not there yet. */
static Ssa make_thunk(Gen *g, Instance *in)
{
    Fn f = {.g = g, .in = in};
    LLVMTypeRef type = instance_function_type(g, in);
    const Type *closure = type_func(g->cx, 0, NULL, in->n, in->params, in->result);
    f.fn = add_function(g, in->name, closure_type(g, closure), TAILCC);
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, f.fn, ""));
    own_params(&f, in->n);
    Ssa *args = arena_new_array(g->arena, Ssa, in->n + 2);
    Ssa code = in->late ? late_code(&f, in) : in->value;
    unsigned k = 0;
    args[k++] = LLVMGetParam(f.fn, 0);
    if (in->has_self)
        args[k++] = LLVMGetParam(f.fn, 1);
    else
        fn_release(&f, (Repr){.kind = REPR_OBJECT}, LLVMGetParam(f.fn, 1));
    for (uint32_t i = 0; i < in->n; i++)
        args[k++] = LLVMGetParam(f.fn, i + 2);
    tail_call(&f, type, code, args, k);
    own_end(&f);
    LLVMPositionBuilderAtEnd(g->b, before);
    return f.fn;
}

Ssa closure_thunk(Gen *g, Instance *in)
{
    if (!in->late)
        instance_enter(g, in);
    if (in->thunk_number == g->number)
        return in->thunk;
    in->thunk_number = g->number;
    in->thunk = in->has_self && !in->late ? in->value : make_thunk(g, in);
    return in->thunk;
}

/* Closures may outlive the code (in a cycle of references), so what they say of themselves lives as long as the context. */
const ObjectInfo *closure_info(Jit *jit, const Name *name)
{
    ObjectInfo *info = ptrmap_find(&jit->infos, name);
    if (info)
        return info;
    info = arena_new(&jit->cx->arena, ObjectInfo);
    *info = (ObjectInfo){.kind = VALUE_FUNCTION, .name = name->text, .print = print_function};
    ptrmap_put(&jit->infos, name, info);
    return info;
}

void closure_describe(FunctionInfo *info, const char *name)
{
    info->info = (ObjectInfo){.kind = VALUE_FUNCTION,
                              .name = name,
                              .function = &compiled_functions,
                              .destroy = closure_destroy,
                              .print = print_typed};
}

static FunctionInfo *open_info(Gen *g, Instance *in)
{
    if (in->info)
        return in->info;
    FunctionInfo *info = in->info = late_info(g->unit);
    closure_describe(info, in->name);
    info->in = in;
    info->type = in->fn ? instance_type(g, in, in->fn->base.type)
                        : type_func(g->cx, 0, NULL, in->n, in->params, in->result);
    if (!in->open)
        info->type = type_func(g->cx, 0, NULL, in->n, in->params, in->result);
    return info;
}

void closure_list(Gen *g, Instance *in)
{
    closure_thunk(g, in);
    if (in->listed == g->begun)
        return;
    in->listed = g->begun;
    vec_push(&g->out->infos, g->arena, open_info(g, in));
}

/* How the fields of a closure of the instance are held. */
static const Repr *closure_fields(Gen *g, const Instance *in)
{
    Repr *fields = arena_new_array(g->arena, Repr, FUNCTION_CAPTURED + in->captures.n);
    fields[FUNCTION_CODE] = fields[FUNCTION_INFO] =
        (Repr){.kind = REPR_SCALAR, .value = VALUE_SCALAR, .dtype = dtype_of(DT_UINT64)};
    for (size_t i = 0; i < in->captures.n; i++)
        fields[FUNCTION_CAPTURED + i] = repr_of(in->captures.at[i].type);
    return fields;
}

bool closure_is_plain(const Gen *g, const Instance *in)
{
    return !g->unit->open && !in->open;
}

/* An object for a closure that the unit outlives, or that keeps its unit alive; what it captures is still to be stored. */
static Ssa new_closure(Fn *f, Instance *in, Ssa code)
{
    Gen *g = f->g;
    bool counts = !closure_is_plain(g, in);
    if (counts && in->open)
        open_info(g, in);
    else if (counts)
        closure_list(g, in);
    uint32_t n = FUNCTION_CAPTURED + (uint32_t)in->captures.n;
    Ssa o = fn_object(f, VALUE_FUNCTION, NULL, n, closure_fields(g, in));
    Ssa info = counts ? gen_outside(g, IMPORT_INFO, in->info)
                      : gen_outside(g, IMPORT_CLOSURE, ctx_name(g->cx, in->name));
    if (counts)
        gen_call_abi(g, "relay_count_unit", &info, 1);
    gen_store(g, code, o, CODE_AT);
    gen_store(g, info, o, offsetof(Object, fields) + FUNCTION_INFO * sizeof(Field));
    return o;
}

Ssa fn_closure(Fn *f, Instance *in)
{
    Gen *g = f->g;
    for (size_t i = 0; i < in->captures.n; i++)
        fn_settle(f, 1, &(Expr *){&in->captures.at[i].var->base}, NULL);
    Ssa code = in->open ? LLVMConstNull(g->ptr) : closure_thunk(g, in);
    Ssa o = new_closure(f, in, code);
    for (uint32_t i = 0; i < in->captures.n; i++) {
        Capture *c = &in->captures.at[i];
        fn_set_field(f, o, FUNCTION_CAPTURED + i, repr_of(c->type), fn_take(f, &c->var->base));
    }
    return o;
}

/* ---- closures that are not made ------------------------------------------------------------------------------ */

LLVMTypeRef spread_type(Gen *g, const Instance *in)
{
    LLVMTypeRef *types = arena_new_array(g->arena, LLVMTypeRef, in->captures.n);
    for (size_t i = 0; i < in->captures.n; i++)
        types[i] = gen_type(g, repr_of(in->captures.at[i].type));
    return LLVMStructTypeInContext(g->c, types, (unsigned)in->captures.n, false);
}

Ssa fn_spread(Fn *f, const Expr *atom)
{
    Gen *g = f->g;
    const Val *val = fn_val(f, atom);
    if (val->spread && val->at)
        return val->at;
    const Instance *in = val->known;
    Ssa all = LLVMGetUndef(spread_type(g, in));
    for (unsigned i = 0; i < in->captures.n; i++) {
        const Capture *c = &in->captures.at[i];
        Ssa one = val->at ? fn_get_field(f, val->at, FUNCTION_CAPTURED + i, repr_of(c->type))
                          : fn_borrow(f, &c->var->base);
        all = LLVMBuildInsertValue(g->b, all, one, i, "");
    }
    return all;
}

Ssa fn_closure_of_spread(Fn *f, Instance *in, Ssa captured)
{
    Gen *g = f->g;
    Ssa o = new_closure(f, in, closure_thunk(g, in));
    for (unsigned i = 0; i < in->captures.n; i++)
        fn_set_field(f, o, FUNCTION_CAPTURED + i, repr_of(in->captures.at[i].type),
                     LLVMBuildExtractValue(g->b, captured, i, ""));
    return o;
}

Ssa fn_closure_at(Fn *f, Instance *in, Ssa open)
{
    Gen *g = f->g;
    if (!in->has_self)
        return fn_closure(f, in);
    Ssa o = new_closure(f, in, closure_thunk(g, in));
    for (uint32_t i = 0; i < in->captures.n; i++) {
        Repr r = repr_of(in->captures.at[i].type);
        Ssa v = fn_get_field(f, open, FUNCTION_CAPTURED + i, r);
        fn_retain(f, r, v);
        fn_set_field(f, o, FUNCTION_CAPTURED + i, r, v);
    }
    return o;
}

/* ---- closures from elsewhere ----------------------------------------------------------------------------------- */

/* Boxes the arguments for whoever made the closure. */
static Ssa make_bridge(Gen *g, const Type *fn)
{
    Repr closure = {.kind = REPR_OBJECT, .value = VALUE_FUNCTION}, result = repr_of(fn->result);
    Fn f = {.g = g, .fn = add_function(g, "bridge", closure_type(g, fn), TAILCC)};
    LLVMBasicBlockRef before = LLVMGetInsertBlock(g->b);
    f.entry = gen_block(g, f.fn, "entry");
    LLVMBasicBlockRef start = gen_block(g, f.fn, "start");
    LLVMPositionBuilderAtEnd(g->b, start);
    own_params(&f, fn->n);
    Ssa room = fn_room(&f, LLVMArrayType2(g->i64, 2), fn->n + 1);
    for (uint32_t i = 0; i < fn->n; i++) {
        Repr r = repr_of(fn->parts[i]);
        gen_store(g, gen_head(g, r), room, i * sizeof(Value));
        gen_store(g, gen_bits(g, r, LLVMGetParam(f.fn, i + 2)), room, i * sizeof(Value) + 8);
    }
    Ssa self = LLVMGetParam(f.fn, 1), out = gen_offset(g, room, fn->n * sizeof(Value));
    Ssa args[5] = {LLVMGetParam(f.fn, 0), self, gen_int(g->i32, fn->n), room, out};
    gen_call_abi(g, "relay_apply", args, 5);
    for (uint32_t i = 0; i < fn->n; i++)
        fn_release(&f, repr_of(fn->parts[i]), LLVMGetParam(f.fn, i + 2));
    fn_release(&f, closure, self);
    LLVMTypeRef bits = result.kind == REPR_SCALAR ? g->i64 : g->ptr;
    LLVMBuildRet(g->b, gen_unbits(g, result, gen_load(g, bits, out, 8)));
    LLVMPositionBuilderAtEnd(g->b, f.entry);
    LLVMBuildBr(g->b, start);
    own_end(&f);
    LLVMPositionBuilderAtEnd(g->b, before);
    g->unit->nests = true;
    return f.fn;
}

static Ssa bridge_of(Gen *g, const Type *fn)
{
    Ssa bridge = ptrmap_find(&g->bridges, fn);
    for (uint32_t i = 0; i < fn->n && !bridge; i++)
        if (type_holds_polymorphic(fn->parts[i]))
            gen_refuse(g, "a polymorphic function is an argument of a function from outside");
    if (!bridge && !g->failed)
        ptrmap_put(&g->bridges, fn, bridge = make_bridge(g, fn));
    return bridge;
}

Ssa closure_code(Fn *f, const Type *fn, const Type *type, Ssa closure)
{
    Gen *g = f->g;
    Ssa code;
    if (type->n_params == 0) {
        code = gen_load(g, g->ptr, closure, CODE_AT);
    } else {
        Ssa args[3] = {f->state, closure, gen_outside(g, IMPORT_TYPE, fn)};
        vec_push(&g->unit->types, &g->unit->arena, fn);
        code = gen_call_abi(g, "relay_instantiate", args, 3);
        if (!g->unit->open)
            return code;
    }
    Ssa bridge = g->unit->open ? bridge_of(g, fn) : NULL;
    return bridge ? LLVMBuildSelect(g->b, LLVMBuildIsNull(g->b, code, ""), bridge, code, "") : code;
}

/* ---- calls from C ---------------------------------------------------------------------------------------------- */

/* A UnitEntry for closures of the type: args[0] is the closure. */
static Ssa make_invoke(Gen *g, const Type *fn)
{
    LLVMTypeRef params[3] = {g->ptr, g->ptr, g->ptr};
    Fn f = {.g = g,
            .fn = add_function(g, "invoke", LLVMFunctionType(g->nothing, params, 3, false), 0)};
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, f.fn, ""));
    Ssa *args = arena_new_array(g->arena, Ssa, fn->n + 2), values = LLVMGetParam(f.fn, 1);
    args[0] = LLVMGetParam(f.fn, 0);
    args[1] = gen_argument(g, (Repr){.kind = REPR_OBJECT}, values, 0);
    for (uint32_t i = 0; i < fn->n; i++)
        args[i + 2] = gen_argument(g, repr_of(fn->parts[i]), values, i + 1);
    Ssa code = gen_load(g, g->ptr, args[1], CODE_AT);
    gen_give_back(&f, closure_type(g, fn), code, args, fn->n + 2, fn->result);
    return f.fn;
}

static Ssa late_function(Gen *g)
{
    if (!g->late)
        return LLVMConstNull(g->ptr);
    instance_enter(g, g->late);
    return g->late_thunk ? closure_thunk(g, g->late) : g->late->value;
}

/* It stands in the last module. */
void closure_table(Gen *g)
{
    size_t n = g->out->infos.n;
    if (n == 0 && !g->late)
        return;
    Ssa *cells = arena_new_array(g->arena, Ssa, 2 * n + 1);
    for (size_t i = 0; i < n; i++) {
        const FunctionInfo *info = g->out->infos.at[i];
        Ssa invoke = ptrmap_find(&g->invokes, info->type);
        if (!invoke)
            ptrmap_put(&g->invokes, info->type, invoke = make_invoke(g, info->type));
        cells[2 * i] = closure_thunk(g, info->in);
        cells[2 * i + 1] = invoke;
    }
    cells[2 * n] = late_function(g);
    LLVMTypeRef type = LLVMArrayType2(g->ptr, 2 * n + 1);
    g->out->table = orc_name(g->jit, g->arena, "closures");
    Ssa table = LLVMAddGlobal(g->m, type, g->out->table);
    LLVMSetInitializer(table, LLVMConstArray2(g->ptr, cells, 2 * n + 1));
    LLVMSetGlobalConstant(table, true);
}

bool closure_addresses(Unit *u, const Code *code)
{
    void *const *table = code->table ? code_find(code, code->table) : NULL;
    if (!table)
        return !code->table;
    for (size_t i = 0; i < code->infos.n; i++) {
        code->infos.at[i]->code = table[2 * i];
        code->infos.at[i]->invoke = (UnitEntry *)(uintptr_t)table[2 * i + 1];
    }
    if (table[2 * code->infos.n])
        late_made(u, code->wish, table[2 * code->infos.n]);
    return true;
}
