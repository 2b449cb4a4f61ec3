/* Calls and what they make: functions, closures, constructors, tuples, operators. */
#include "jit/internal.h"
#include "jit/signature.h"
#include "jit/plan.h"

/* ---- objects -------------------------------------------------------------------------------------------------- */

static size_t field_at(uint32_t i)
{
    return offsetof(Object, fields) + (size_t)i * sizeof(Field);
}

Ssa fn_tag(Fn *f, Ssa object, uint32_t n_cons)
{
    Gen *g = f->g;
    if (n_cons > FORM_TAG_MOST + 1)
        return gen_call_abi(g, "relay_tag", &object, 1);
    _Static_assert(FORM_TAG_SHIFT == 24, "the tag is the form's last byte");
    Ssa tag = gen_load(g, g->i8, object, offsetof(Object, form) + FORM_TAG_SHIFT / 8);
    return LLVMBuildZExt(g->b, tag, g->i32, "");
}

void fn_set_field(Fn *f, Ssa object, uint32_t i, Repr r, Ssa v)
{
    gen_store(f->g, gen_bits(f->g, r, v), object, field_at(i));
    own_lose(f, v);
}

Ssa fn_get_field(Fn *f, Ssa object, uint32_t i, Repr r)
{
    Gen *g = f->g;
    if (r.kind != REPR_SCALAR)
        return gen_load(g, g->ptr, object, field_at(i));
    return gen_from_stored(g, r.dtype, gen_load(g, gen_stored(g, r.dtype), object, field_at(i)));
}

Ssa fn_room(Fn *f, LLVMTypeRef type, unsigned n)
{
    Gen *g = f->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    LLVMPositionBuilderAtEnd(g->b, f->entry);
    Ssa at = LLVMBuildArrayAlloca(g->b, type, gen_int(g->i32, n), "");
    LLVMSetAlignment(at, 16);
    LLVMPositionBuilderAtEnd(g->b, here);
    return at;
}

static Ssa filled(Fn *f, ValueKind kind, const Constructor *con, uint32_t n, Expr *const *fields,
                  const Type *const *types)
{
    fn_settle(f, n, fields, types);
    Repr *reprs = arena_new_array(f->g->arena, Repr, n + 1);
    for (uint32_t i = 0; i < n; i++)
        reprs[i] = repr_of(types[i]);
    Ssa o = fn_object(f, kind, con, n, reprs);
    Ssa *values = arena_new_array(f->g->arena, Ssa, n + 1);
    for (uint32_t i = 0; i < n; i++)
        values[i] = fn_take_as(f, fields[i], types[i]);
    for (uint32_t i = 0; i < n; i++)
        fn_set_field(f, o, i, reprs[i], values[i]);
    return o;
}

Ssa fn_tuple(Fn *f, const Type *type, uint32_t n, Expr *const *fields)
{
    if (n == 0)
        return gen_outside(f->g, IMPORT_UNIT, NULL);
    return filled(f, VALUE_TUPLE, NULL, n, fields, type->parts);
}

/* The field types of a constructor in this data type. */
static const Type *const *constructor_fields(Fn *f, const Constructor *con, const Type *type)
{
    Gen *g = f->g;
    const Type **types = arena_new_array(g->arena, const Type *, con->n + 1);
    for (uint32_t i = 0; i < con->n; i++)
        types[i] =
            type_subst(g->cx, con->fields[i], con->type->n_params, con->type->params, type->parts);
    return types;
}

static Ssa construct(Fn *f, const Constructor *con, const Type *type, uint32_t n, Expr *const *args)
{
    if (n == 0)
        return gen_outside(f->g, IMPORT_NULLARY, con);
    return filled(f, VALUE_CON, con, n, args, constructor_fields(f, con, type));
}

/* ---- operators -------------------------------------------------------------------------------------------------- */

/* Behind the operation the code lets go of a count of it. */
static bool is_let_go(Fn *f, const Expr *atom)
{
    const Val *val = expr_as_var(atom) ? ptrmap_find(&f->vals, atom) : NULL;
    return val && val_is_counted(val) && fn_dies(f, expr_as_var(atom));
}

static Ssa op_eval(Fn *f, const Op *op, const Call *call, const Repr *reprs, Ssa *args,
                   const Type *result)
{
    Gen *g = f->g;
    uint32_t n = call->args.n;
    OpSite *site = arena_new(g->arena, OpSite);
    *site = (OpSite){.op = op,
                     .attrs = call->attrs,
                     .span = call->base.span,
                     .n = n,
                     .last = n > 0 && is_let_go(f, call->args.at[0]),
                     .result = result};
    LLVMTypeRef value = LLVMArrayType2(g->i64, 2);
    Ssa values = fn_room(f, value, n + 1);
    for (uint32_t i = 0; i < n; i++) {
        gen_store(g, gen_head(g, reprs[i]), values, i * sizeof(Value));
        gen_store(g, gen_bits(g, reprs[i], args[i]), values, i * sizeof(Value) + 8);
    }
    Ssa out = gen_offset(g, values, n * sizeof(Value));
    Ssa abi[4] = {f->state, gen_outside(g, IMPORT_SITE, site), values, out};
    gen_call_abi(g, "relay_op", abi, 4);
    frame_fill(f, NULL);
    fn_fail_if_failed(f);
    Repr r = repr_of(result);
    Ssa v = gen_unbits(g, r, gen_load(g, r.kind == REPR_SCALAR ? g->i64 : g->ptr, out, 8));
    own_make(f, v);
    return v;
}

static Ssa call_op(Fn *f, const Op *op, const Call *call, const Type *result)
{
    Gen *g = f->g;
    uint32_t n = call->args.n;
    Repr *reprs = arena_new_array(g->arena, Repr, n + 1);
    Ssa *args = arena_new_array(g->arena, Ssa, n + 1);
    const Type **types = arena_new_array(g->arena, const Type *, n + 1);
    fn_settle(f, n, call->args.at, NULL);
    for (uint32_t i = 0; i < n; i++) {
        types[i] = fn_type(f, call->args.at[i]);
        reprs[i] = repr_of(types[i]);
        args[i] = fn_borrow(f, call->args.at[i]);
    }
    if (g->failed)
        return NULL;
    Ssa v = fn_scalar_op(f, op, call->attrs, call->base.span, n, types, args, result);
    if (v || g->failed)
        return v;
    return op_eval(f, op, call, reprs, args, result);
}

/* ---- functions -------------------------------------------------------------------------------------------------- */

typedef struct Callee {
    LLVMTypeRef type;
    Ssa code;
    uint64_t lent; /* arguments, as bits, that are not handed over */
    bool lends_result;
    bool gives_fields;
    bool own; /* the function that the code at hand is a clause of */
} Callee;

/* What is NULL when the call failed; NULL: nothing is. */
static Ssa asked_for_null(Fn *f, const Callee *callee, Ssa v)
{
    LLVMTypeRef type = LLVMTypeOf(v);
    if (!callee->gives_fields)
        return LLVMGetTypeKind(type) == LLVMPointerTypeKind ? v : NULL;
    for (unsigned i = 0; i < LLVMCountStructElementTypes(type); i++)
        if (LLVMGetTypeKind(LLVMStructGetTypeAtIndex(type, i)) == LLVMPointerTypeKind)
            return LLVMBuildExtractValue(f->g->b, v, i, "");
    return NULL;
}

/* Arguments are handed over; what else ends here ends before a call in tail position. */
static Ssa finish_call(Fn *f, const Callee *callee, Ssa *args, unsigned n, bool tail)
{
    Gen *g = f->g;
    if (tail) {
        fn_release_dead(f);
        fn_cells_end(f);
    }
    Ssa v = LLVMBuildCall2(g->b, callee->type, callee->code, args, n, "");
    unsigned convention = gen_set_convention(v);
    for (unsigned i = 1; i < n; i++)
        if (i >= 64 || !(callee->lent >> i & 1))
            own_lose(f, args[i]);
    if (!callee->lends_result)
        own_make(f, v);
    Ssa pointer = tail ? NULL : asked_for_null(f, callee, v);
    if (pointer) {
        frame_fill(f, NULL);
        fn_fail_if_null(f, pointer);
    }
    if (!tail)
        return v;
    if (convention == TAILCC || callee->own)
        LLVMSetTailCallKind(v, LLVMTailCallKindMustTail);
    fn_return(f, v);
    return NULL;
}

void fn_go_behind(Fn *f, uint32_t clause)
{
    Gen *g = f->g;
    uint32_t n = f->in->n;
    Instance *behind = instance_behind(g, f->in, clause);
    instance_enter(g, behind);
    Ssa *args = arena_new_array(g->arena, Ssa, n + 1);
    args[0] = f->state;
    uint64_t lent = 0;
    for (uint32_t i = 0; i < n; i++) {
        Ssa arg = f->phis ? f->phis[i] : LLVMGetParam(f->fn, i + 1);
        bool gone = fn_let_go(f, i);
        args[i + 1] = gone ? LLVMConstNull(LLVMTypeOf(arg)) : arg;
        lent |= (uint64_t)(instance_is_lent(f->in, i) || gone) << (i + 1);
    }
    Callee callee = {behind->type,        behind->value, lent, f->in->terms.lends_result,
                     f->in->gives_fields, true};
    finish_call(f, &callee, args, n + 1, true);
}

static void jump_to_start(Fn *f, Ssa *args, uint32_t n)
{
    fn_release_dead(f);
    fn_cells_end(f);
    LLVMBasicBlockRef here = LLVMGetInsertBlock(f->g->b);
    for (uint32_t i = 0; i < n; i++)
        LLVMAddIncoming(f->phis[i], &args[i], &here, 1);
    LLVMBuildBr(f->g->b, f->loop);
    f->ended = true;
}

/* The code of the instance, which may be made when it is first wanted. */
static Ssa instance_code(Fn *f, Instance *in)
{
    Gen *g = f->g;
    if (!in->late) {
        instance_enter(g, in);
        return in->value;
    }
    in->type = instance_function_type(g, in);
    Ssa args[2] = {f->state, gen_outside(g, IMPORT_LATE, in->late)};
    Ssa known = gen_load(g, g->ptr, args[1], offsetof(LateSite, code));
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    LLVMBasicBlockRef make = gen_block(g, f->fn, "make"), go = gen_block(g, f->fn, "made");
    gen_branch(g, LLVMBuildIsNull(g->b, known, ""), make, go, false);
    LLVMPositionBuilderAtEnd(g->b, make);
    Ssa made = gen_call_abi(g, "relay_late", args, 2);
    fn_fail_if_null(f, made);
    LLVMBasicBlockRef end = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    return gen_either(g, go, (Ssa[]){known, made}, (LLVMBasicBlockRef[]){here, end});
}

/* Whether the shapes that decide which code is best are known when the call happens. */
static bool has_variants(const Fn *f, const Instance *in)
{
    bool unknown = false;
    for (uint32_t i = 0; i < in->n && !unknown; i++)
        unknown = shapes_unknown(in->params[i]);
    return unknown && in->global && in != f->in && !f->g->unit->whole;
}

static Ssa variant_code(Fn *f, Instance *in, const Call *call)
{
    Gen *g = f->g;
    if (!in->variants)
        in->variants = late_variants(g, in);
    in->type = instance_function_type(g, in);
    Ssa room = fn_room(f, LLVMArrayType2(g->i64, 2), in->n);
    for (uint32_t i = 0; i < in->n; i++) {
        Repr r = repr_of(in->params[i]);
        bool asked = shapes_unknown(in->params[i]) && expr_as_var(call->args.at[i]);
        Ssa head = asked ? gen_head(g, r) : gen_int(g->i64, VALUE_NONE);
        gen_store(g, head, room, i * sizeof(Value));
        if (asked)
            gen_store(g, gen_bits(g, r, fn_borrow(f, call->args.at[i])), room,
                      i * sizeof(Value) + 8);
    }
    Ssa args[3] = {f->state, gen_outside(g, IMPORT_VARIANTS, in->variants), room};
    Ssa code = gen_call_abi(g, "relay_variant", args, 3);
    fn_fail_if_null(f, code);
    return code;
}

/* Whether the operand needs no count of its own for the call, because its value lives longer than that. What another value lends that
 * ends with the call does not. */
static bool may_lend(Fn *f, const Expr *atom, bool tail)
{
    const Var *v = expr_as_var(atom);
    const Val *val = v ? fn_val(f, atom) : NULL;
    if (!val || !val->at || val->fixed)
        return false;
    return val->lent ? val->stays || (val->held && !tail)
                     : !tail && live_after(f->live, f->block, f->at, v);
}

/* Whether it stays where it is until the function has returned. */
static bool stays(Fn *f, const Expr *atom)
{
    const Val *val = expr_as_var(atom) ? fn_val(f, atom) : NULL;
    return val && val->lent && val->stays;
}

static uint64_t lendable_args(Fn *f, const Instance *in)
{
    uint64_t lendable = instance_lendable(f->g, in);
    for (uint32_t i = 0; i < in->n && i < TERMS_PARAMS_MOST; i++)
        if (in->params[i]->kind != TYPE_ADT)
            lendable &= ~((uint64_t)1 << i);
    return lendable;
}

/* Arguments, as bits, that are the same value, which ends here: lent they need one count, handed over one each. */
static uint64_t same_args(Fn *f, const Instance *in, const Call *call)
{
    uint64_t lendable = in->global && !in->late ? lendable_args(f, in) : 0, all = 0;
    for (uint32_t i = 0; i < in->n && i < TERMS_PARAMS_MOST && lendable >> i; i++) {
        Expr *arg = call->args.at[i];
        uint64_t same = 0, n = 0;
        for (uint32_t k = 0; k < in->n && k < TERMS_PARAMS_MOST; k++)
            if (call->args.at[k] == arg)
                same |= (uint64_t)1 << k, n++;
        const Val *val = n > 1 && (same & ~lendable) == 0 ? fn_val(f, arg) : NULL;
        if (val && val_is_counted(val) && fn_dies(f, expr_as_var(arg)))
            all |= same;
    }
    return all;
}

/* The function that the operand is; NULL: it may be any. */
static Instance *known_function(Fn *f, const Expr *atom, const Type *type)
{
    const Val *val = expr_as_var(atom) ? fn_val(f, atom) : NULL;
    if (type->kind != TYPE_FUNC || type->n_params > 0 || f->g->failed)
        return NULL;
    if (val && (val->known || !val->atom))
        return val->known;
    return fn_instance_of_atom(f, val ? val->atom : atom, type);
}

/* What is known of the call: which of its arguments are lent, `same` among them, and which are always the same functions. */
static Terms terms_of(Fn *f, Instance *in, const Call *call, uint64_t same, bool tail)
{
    Gen *g = f->g;
    uint64_t lendable = lendable_args(f, in), called = instance_called(g, in), staying = 0;
    Terms terms = {.lent = same, .spread = instance_is_spread(in)};
    terms.lends_self =
        in->has_self && !in->of && !in->late && !terms.spread && may_lend(f, call->callee, tail);
    Instance **given = arena_new_array(g->arena, Instance *, in->n + 1);
    for (uint32_t i = 0; i < in->n && i < TERMS_PARAMS_MOST && (lendable | called) >> i; i++) {
        Expr *arg = call->args.at[i];
        Instance *known = called >> i & 1 ? known_function(f, arg, in->params[i]) : NULL;
        if (known && instance_may_be_given(g, in, i, known)) {
            given[i] = known;
            terms.given = given;
        }
        bool asked = given[i] ? !instance_is_spread(given[i]) : lendable >> i & 1;
        if (asked && may_lend(f, arg, tail))
            terms.lent |= (uint64_t)1 << i;
        staying |= (uint64_t)(lendable >> i & 1 && stays(f, arg)) << i;
    }
    if (!tail || f->in->terms.lends_result)
        terms.lends_result = instance_may_lend_result(g, in, staying);
    if (tail)
        terms.spare = instance_takes_spare(g, f->in, in, fn_spare_sizes(f));
    return terms;
}

/* A result that is lent, and its variable. */
static Ssa lent_result(Fn *f, const Var *var, Ssa v)
{
    Val *val = fn_bind(f, var, fn_type(f, &var->base), NULL);
    val->at = v;
    val->lent = val->stays = true;
    return NULL;
}

/* The arguments that come with values. */
static void settle_args(Fn *f, const Instance *in, const Call *call)
{
    Expr **args = arena_new_array(f->g->arena, Expr *, in->n + 1);
    const Type **types = arena_new_array(f->g->arena, const Type *, in->n + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < in->n; i++) {
        if (instance_goes_without(in, i) || instance_takes_spread(in, i))
            continue;
        args[n] = call->args.at[i];
        types[n++] = in->params[i];
    }
    fn_settle(f, n, args, types);
}

static Ssa argument(Fn *f, const Instance *in, const Call *call, uint32_t i)
{
    if (instance_goes_without(in, i))
        return LLVMConstNull(f->g->ptr);
    if (instance_takes_spread(in, i))
        return fn_spread(f, call->args.at[i]);
    return instance_is_lent(in, i) ? fn_borrow(f, call->args.at[i])
                                   : fn_take_as(f, call->args.at[i], in->params[i]);
}

/* Whether a call in tail position ends the function: not when it gives a tuple where the fields are wanted, or the other way round. */
static bool ends_with(Fn *f, bool gives_fields, bool tail)
{
    bool ends = gives_fields == f->in->gives_fields;
    f->live->nests |= tail && !ends;
    return tail && ends;
}

/* Whether a call in tail position may take stack all the same: it never leads back to here, so that is taken once. */
static bool may_come_back(Fn *f, const Instance *in)
{
    return f->in->global && !f->in->terms.lends_result &&
           !definition_leads_back(f->g, in->global, f->in->global);
}

static Ssa call_instance(Fn *f, Instance *in, const Call *call, const Var *var, bool tail)
{
    Gen *g = f->g;
    uint32_t n = call->args.n;
    if (n != in->n) {
        gen_refuse(g, "`%s` is called with %u arguments instead of %u", in->name, n, in->n);
        return NULL;
    }
    tail = ends_with(f, in->gives_fields, tail);
    bool variants = has_variants(f, in);
    uint64_t same = variants ? 0 : same_args(f, in, call);
    if (same && tail && may_come_back(f, in)) {
        f->live->nests = true;
        tail = false;
    }
    if (!variants)
        in = instance_on(g, in, terms_of(f, in, call, tail ? 0 : same, tail));
    if (tail && f->in->terms.lends_result && !in->terms.lends_result)
        gen_refuse(g, "`%s` gives what it is lent", f->in->name);
    settle_args(f, in, call);
    if (tail)
        plan_flush(f);
    bool itself = in == f->in || in == f->in->around, jumps = tail && f->loop && itself;
    Ssa *args = arena_new_array(g->arena, Ssa, n + 3), code;
    if (!tail && itself && f->in->depth < f->live->copies && instance_is_plain(g, in))
        in = instance_inner(g, f->in);
    code = variants ? variant_code(f, in, call) : instance_code(f, in);
    unsigned k = 0;
    args[k++] = f->state;
    bool spread = in->terms.spread, lends_self = in->terms.lends_self || spread;
    if (in->has_self)
        args[k++] = spread       ? fn_spread(f, call->callee)
                    : lends_self ? fn_borrow(f, call->callee)
                                 : fn_take(f, call->callee);
    for (uint32_t i = 0; i < n; i++)
        args[k++] = argument(f, in, call, i);
    if (g->failed)
        return NULL;
    if (jumps) {
        jump_to_start(f, args + k - n, n);
        return NULL;
    }
    /* LLVM wants equal result types; those that differ in Relay alone are equal there. */
    uint64_t lent = in->terms.lent << (k - n) | (uint64_t)lends_self << 1;
    for (uint32_t i = 0; i < n && i < TERMS_PARAMS_MOST; i++)
        lent |= (uint64_t)instance_takes_spread(in, i) << (i + k - n);
    if (in->terms.spare)
        args[k++] = fn_spare(f, in->terms.spare);
    Callee callee = {in->type,          code, lent, in->terms.lends_result, in->gives_fields,
                     in == f->in->front};
    Ssa v = finish_call(f, &callee, args, k, tail);
    return v && callee.lends_result ? lent_result(f, var, v) : v;
}

/* The type at which a value of a polymorphic type is called. */
static const Type *called_type(Fn *f, const Call *call, const Type *type, const Type *result)
{
    Gen *g = f->g;
    if (type->n_params == 0)
        return type;
    const Type **args = arena_new_array(g->arena, const Type *, call->args.n + 1);
    for (uint32_t i = 0; i < call->args.n; i++)
        args[i] = instance_argument(g, f->in, call, i);
    return type_func(g->cx, 0, NULL, call->args.n, args, result);
}

static Ssa call_closure(Fn *f, const Call *call, const Type *type, const Type *result, bool tail)
{
    Gen *g = f->g;
    uint32_t n = call->args.n;
    if (type->kind != TYPE_FUNC || type->n != n) {
        gen_refuse(g, "a call of a value of type `%s`", type_str(g->cx, type));
        return NULL;
    }
    const Type *at = called_type(f, call, type, result);
    tail = ends_with(f, false, tail);
    fn_settle(f, n, call->args.at, at->parts);
    fn_settle(f, 1, &call->callee, NULL);
    if (tail)
        plan_flush(f);
    Ssa *args = arena_new_array(g->arena, Ssa, n + 2), code = NULL;
    if (at != type) {
        code = closure_code(f, at, type, fn_borrow(f, call->callee));
        fn_fail_if_failed(f);
    }
    args[0] = f->state;
    args[1] = fn_take(f, call->callee);
    for (uint32_t i = 0; i < n; i++)
        args[i + 2] = fn_take_as(f, call->args.at[i], at->parts[i]);
    if (!code && !g->failed)
        code = closure_code(f, at, type, args[1]);
    if (g->failed)
        return NULL;
    return finish_call(f, &(Callee){.type = closure_type(g, at), .code = code}, args, n + 2, tail);
}

static Ssa call_open(Fn *f, const Val *val, const Call *call, const Var *var, const Type *result,
                     bool tail)
{
    Gen *g = f->g;
    uint32_t n = call->args.n;
    const Type **types = arena_new_array(g->arena, const Type *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        types[i] = instance_argument(g, f->in, call, i);
    Instance *in = instance_at(g, val->known, n, types, result);
    return in ? call_instance(f, in, call, var, tail) : NULL;
}

/* A call through another name of an operator, a constructor or a global function. */
static Ssa call_atom(Fn *f, const Expr *atom, const Call *call, const Var *var, bool tail)
{
    Call direct = *call;
    direct.callee = (Expr *)(uintptr_t)atom;
    const OpRef *op = expr_as_op(atom);
    const GlobalVar *global = expr_as_global(atom);
    if (global && signature_opens(f->g, global->name)) {
        gen_refuse(f->g, "`@%s` is called by another name", global->name->text);
        return NULL;
    }
    if (op && op->op->attrs && !direct.attrs) {
        direct.attrs = attrs_check(f->g->cx, &f->g->code->arena, op->op->name, op->op->attrs, NULL,
                                   call->base.span);
        f->g->failed |= !direct.attrs;
    }
    return f->g->failed ? NULL : fn_call(f, &direct, var, tail);
}

Ssa fn_call(Fn *f, const Call *call, const Var *var, bool tail)
{
    const Type *result = fn_type(f, &var->base),
               *written = instance_type(f->g, f->in, var->base.type);
    switch ((ExprKind)call->callee->kind) {
    case EXPR_OP: return call_op(f, expr_as_op(call->callee)->op, call, result);
    case EXPR_CON:
        return construct(f, expr_as_con(call->callee)->con, result, call->args.n, call->args.at);
    case EXPR_GLOBAL: {
        Instance *in = shapes_callee(f->g, f->in, call, var->base.type);
        return in ? call_instance(f, in, call, var, tail) : NULL;
    }
    default: break;
    }
    Val *val = fn_val(f, call->callee);
    if (!val)
        return NULL;
    if (val->known && val->known->open)
        return call_open(f, val, call, var, written, tail);
    if (val->known)
        return call_instance(f, val->known, call, var, tail);
    if (val->atom)
        return call_atom(f, val->atom, call, var, tail);
    return call_closure(f, call, val->type, written, tail);
}
