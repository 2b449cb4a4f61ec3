/* The code of one function: blocks, variables, who owns what. */
#include "ir/walk.h"
#include "jit/internal.h"
#include "jit/open_tuples.h"
#include "jit/origin.h"
#include "jit/plan.h"

#include <string.h>

/* ---- variables ---------------------------------------------------------------------------------------------- */

const Type *fn_type(Fn *f, const Expr *e)
{
    const Type *known = f->in->facts ? ptrmap_find(&f->in->facts->types, e) : NULL;
    return known ? known : instance_type(f->g, f->in, e->type);
}

static uint32_t uses_in(const LiveBlock *b, const Var *v)
{
    return (uint32_t)(uintptr_t)ptrmap_find(&b->last, v);
}

void fn_moved(Fn *f, const Var *v)
{
    vec_push(&f->moved, f->g->arena, v);
    scope_drop(f, v);
}

static bool was_moved(const Fn *f, const Var *v)
{
    for (size_t i = 0; i < f->moved.n; i++)
        if (f->moved.at[i] == v)
            return true;
    return false;
}

Val *fn_bind(Fn *f, const Var *v, const Type *t, Ssa at)
{
    Val *val = arena_new(f->g->arena, Val);
    val->type = t;
    val->repr = repr_of(t);
    val->at = at;
    if (ptrmap_find(&f->vals, v))
        scope_drop(f, v); /* it was lent the value so far */
    ptrmap_put(&f->vals, v, val);
    if (val->repr.kind == REPR_NONE) {
        gen_refuse(f->g, "the type `%s` of `%%%s` is not known well enough", type_str(f->g->cx, t),
                   v->name->text);
        return val;
    }
    if (at && uses_in(f->block, v) == 0 && val_is_counted(val))
        fn_release_as(f, val->type, at);
    else if (val->repr.kind != REPR_SCALAR)
        scope_add(f, v);
    return val;
}

bool fn_let_go(const Fn *f, uint32_t param)
{
    return uses_in(f->live->root, f->in->fn->params.at[param]) == 0;
}

bool fn_dies(Fn *f, const Var *v)
{
    return live_is_last(f->live, f->block, f->at, v) && !was_moved(f, v);
}

static Ssa constructor_object(Fn *f, const Constructor *con)
{
    return gen_outside(f->g, IMPORT_NULLARY, con);
}

Instance *fn_instance_of_atom(Fn *f, const Expr *e, const Type *type)
{
    const GlobalVar *global = expr_as_global(e);
    const OpRef *op = expr_as_op(e);
    const ConRef *con = expr_as_con(e);
    if (type->kind == TYPE_FUNC && type->n_params > 0 && (global || op || con))
        return instance_of_atom(f->g, e, type);
    if (global)
        return instance_of_global(f->g, &(GlobalUse){.name = global->name,
                                                     .n = type->n,
                                                     .args = type->parts,
                                                     .result = type->result});
    if (op || con)
        return instance_of_row(f->g, op ? op->op : NULL, con ? con->con : NULL, type, e->span);
    gen_refuse(f->g, "an operand that is no atom");
    return NULL;
}

/* The value of an atom that is no variable, owned. */
static Ssa atom_value(Fn *f, const Expr *e, const Type *type)
{
    const ConRef *con = expr_as_con(e);
    if (con && type->kind != TYPE_FUNC)
        return constructor_object(f, con->con);
    Instance *in = fn_instance_of_atom(f, e, type);
    return in ? fn_closure(f, in) : LLVMConstNull(f->g->ptr);
}

/* A group that is more than called as a kernel is a function like others. */
static void make_group_known(Fn *f, Val *val, const Expr *var)
{
    val->known =
        instance_of_literal(f, expr_as_function(val->atom), expr_as_var((Expr *)(uintptr_t)var));
    val->atom = NULL;
}

Val *fn_val(Fn *f, const Expr *atom)
{
    Val *val = ptrmap_find(&f->vals, atom);
    if (val && val->group && !val->known && val->atom)
        make_group_known(f, val, atom);
    if (val && !val->at && !val->known && !val->atom)
        plan_flush(f);
    if (!val && expr_as_var(atom))
        gen_refuse(f->g, "the free variable `%%%s`", expr_as_var(atom)->name->text);
    return val;
}

static bool is_open_at(const Val *val, const Type *type)
{
    return val->known && val->known->open && type->kind == TYPE_FUNC && type->n_params == 0;
}

/* A polymorphic function wanted as a value of a type that is not, owned. */
static Ssa open_at(Fn *f, const Val *val, const Type *type)
{
    Instance *in = instance_at(f->g, val->known, type->n, type->parts, type->result);
    return in ? fn_closure_at(f, in, val->at) : LLVMConstNull(f->g->ptr);
}

/* A polymorphic closure that nobody knows, wanted as one of a single type. */
static bool is_wrapped_at(const Val *val, const Type *type)
{
    return val->at && !val->known && !val->atom && val->type && val->type->kind == TYPE_FUNC &&
           val->type->n_params > 0 && type->kind == TYPE_FUNC && type->n_params == 0;
}

/* `fn (…) { %v(…) }` at the type, owned. */
static Ssa wrapped_at(Fn *f, const Expr *atom, const Type *type)
{
    Gen *g = f->g;
    const Function *fn = instance_eta(g, (Expr *)(uintptr_t)atom, NULL, type, f->here->span);
    if (!fn)
        return g->failed = true, LLVMConstNull(g->ptr);
    Var *self = expr_var(&g->code->arena, f->here->span, expr_as_var(atom)->name, NULL);
    Instance *in = instance_of_literal(f, fn, self);
    return in ? fn_closure(f, in) : LLVMConstNull(g->ptr);
}

/* Whether the operand is no variable with a value of its own: then it is made anew, owned. */
static bool is_new(Fn *f, const Expr *atom, const Type *type)
{
    if (!expr_as_var(atom))
        return true;
    const Val *val = fn_val(f, atom);
    if (!val)
        return false;
    return (!val->at && (val->known || val->atom)) || val->spread || is_open_at(val, type) ||
           is_wrapped_at(val, type);
}

static Ssa new_value(Fn *f, const Expr *atom, const Type *type)
{
    const Val *val = expr_as_var(atom) ? ptrmap_find(&f->vals, atom) : NULL;
    if (!val)
        return atom_value(f, atom, type);
    if (is_open_at(val, type))
        return open_at(f, val, type);
    if (is_wrapped_at(val, type))
        return wrapped_at(f, atom, type);
    if (val->spread)
        return fn_closure_of_spread(f, val->known, fn_spread(f, atom));
    return val->known ? fn_closure(f, val->known) : atom_value(f, val->atom, type);
}

/* What was made for such an operand; NULL: nothing. */
static Ssa made_value(const Fn *f, const Expr *atom, const Type *type)
{
    for (size_t i = f->made.n; i-- > 0;)
        if (f->made.at[i].atom == atom && f->made.at[i].type == type)
            return f->made.at[i].value;
    return NULL;
}

static Ssa make_value(Fn *f, const Expr *atom, const Type *type)
{
    Ssa v = new_value(f, atom, type);
    if (!LLVMIsConstant(v))
        vec_push(&f->made, f->g->arena, ((Made){atom, type, v, f->block}));
    return v;
}

void fn_settle(Fn *f, uint32_t n, Expr *const *atoms, const Type *const *types)
{
    for (uint32_t i = 0; i < n; i++)
        if (expr_as_var(atoms[i]))
            fn_val(f, atoms[i]);
    for (uint32_t i = 0; i < n && !f->g->failed; i++) {
        const Type *type = types ? types[i] : fn_type(f, atoms[i]);
        if (is_new(f, atoms[i], type))
            make_value(f, atoms[i], type);
    }
}

void fn_hold(Fn *f, const Type *type, Ssa v)
{
    vec_push(&f->made, f->g->arena, ((Made){NULL, type, v, f->block}));
}

void fn_unhold(Fn *f, Ssa v)
{
    size_t i = f->made.n;
    while (f->made.at[--i].value != v)
        ;
    made_drop(f, i);
}

Ssa fn_borrow(Fn *f, const Expr *atom)
{
    const Val *val = expr_as_var(atom) ? fn_val(f, atom) : NULL;
    const Type *type = val ? val->type : fn_type(f, atom);
    if (is_new(f, atom, type)) {
        Ssa made = made_value(f, atom, type);
        return made ? made : make_value(f, atom, type);
    }
    return val && val->at ? val->at : LLVMGetUndef(gen_type(f->g, repr_of(type)));
}

bool fn_stands_for(Fn *f, const Type *own, const Type *wanted)
{
    if (own == wanted || !type_holds_polymorphic(own) || type_holds_polymorphic(wanted))
        return true;
    return gen_refuse(f->g, "a polymorphic function stands where `%s` is wanted",
                      type_str(f->g->cx, wanted));
}

static bool is_of_type(Fn *f, const Val *val, const Type *type)
{
    return val->repr.kind == REPR_SCALAR || !val->type || fn_stands_for(f, val->type, type);
}

Ssa fn_take_as(Fn *f, const Expr *atom, const Type *type)
{
    if (is_new(f, atom, type)) {
        Ssa made = made_value(f, atom, type);
        if (!made)
            return new_value(f, atom, type);
        fn_unhold(f, made);
        return made;
    }
    const Var *v = expr_as_var(atom);
    Val *val = fn_val(f, atom);
    if (!val || !val->at || !is_of_type(f, val, type))
        return LLVMGetUndef(gen_type(f->g, repr_of(type)));
    Ssa at = val->at;
    if (val->repr.kind == REPR_SCALAR)
        return at;
    if (!val->fixed && !val->lent && fn_dies(f, v))
        fn_moved(f, v);
    else
        fn_retain(f, val->repr, at);
    return at;
}

Ssa fn_take(Fn *f, const Expr *atom)
{
    return fn_take_as(f, atom, fn_type(f, atom));
}

/* ---- counting ------------------------------------------------------------------------------------------------ */

/* Immortal objects may lie in memory that cannot be written: goes on in a block for the others, and gives the one behind it. */
static LLVMBasicBlockRef unless_immortal(Fn *f, Repr r, Ssa refs)
{
    Gen *g = f->g;
    if (r.kind != REPR_OBJECT || r.mortal)
        return NULL;
    LLVMBasicBlockRef mortal = gen_block(g, f->fn, "mortal"), go = gen_block(g, f->fn, "go");
    Ssa immortal = LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, -1), "");
    LLVMBuildCondBr(g->b, immortal, go, mortal);
    LLVMPositionBuilderAtEnd(g->b, mortal);
    return go;
}

static void go_on(Fn *f, LLVMBasicBlockRef block)
{
    if (!block)
        return;
    LLVMBuildBr(f->g->b, block);
    LLVMPositionBuilderAtEnd(f->g->b, block);
}

/* Both Tensor and Object begin with their count. */
void fn_retain(Fn *f, Repr r, Ssa v)
{
    Gen *g = f->g;
    if (r.kind == REPR_SCALAR)
        return;
    Ssa refs = gen_load(g, g->i32, v, 0);
    LLVMBasicBlockRef go = unless_immortal(f, r, refs);
    gen_store(g, LLVMBuildAdd(g->b, refs, gen_int(g->i32, 1), ""), v, 0);
    go_on(f, go);
    own_gain(f, v);
}

/* Type: NULL when it is not known; and so with the function that it is a closure of. */
static void release(Fn *f, Repr r, const Type *type, const Instance *closure, Ssa v)
{
    Gen *g = f->g;
    if (r.kind == REPR_SCALAR)
        return;
    LLVMBasicBlockRef last = gen_block(g, f->fn, "last"), less = gen_block(g, f->fn, "less");
    LLVMBasicBlockRef done = gen_block(g, f->fn, "go");
    Ssa refs = gen_load(g, g->i32, v, 0);
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), last, less);
    LLVMPositionBuilderAtEnd(g->b, last);
    if (type && r.kind == REPR_OBJECT)
        fn_drop(f, type, closure, v);
    else
        gen_call_rare(g, r.kind == REPR_TENSOR ? "relay_free_tensor" : "relay_free_object", &v, 1);
    LLVMBuildBr(g->b, done);
    LLVMPositionBuilderAtEnd(g->b, less);
    LLVMBasicBlockRef go = unless_immortal(f, r, refs);
    gen_store(g, LLVMBuildSub(g->b, refs, gen_int(g->i32, 1), ""), v, 0);
    go_on(f, go);
    LLVMBuildBr(g->b, done);
    LLVMPositionBuilderAtEnd(g->b, done);
    own_lose(f, v);
}

void fn_release(Fn *f, Repr r, Ssa v)
{
    release(f, r, NULL, NULL, v);
}

void fn_release_as(Fn *f, const Type *type, Ssa v)
{
    release(f, repr_of(type), type, NULL, v);
}

void fn_release_val(Fn *f, const Val *val)
{
    release(f, repr_of(val->type), val->type, val->known, val->at);
}

/* Of an object whose count, just read, is not 1. */
void fn_release_shared(Fn *f, Repr r, Ssa object, Ssa refs)
{
    Gen *g = f->g;
    LLVMBasicBlockRef go = unless_immortal(f, r, refs);
    gen_store(g, LLVMBuildSub(g->b, refs, gen_int(g->i32, 1), ""), object, 0);
    go_on(f, go);
    own_lose(f, object);
}

/* The same where it is rarely done: a call, for less code. */
void fn_release_cold(Fn *f, Repr r, Ssa v)
{
    if (r.kind == REPR_SCALAR)
        return;
    const char *name = r.kind == REPR_TENSOR ? "relay_free_tensor" : "relay_free_object";
    gen_call_rare(f->g, name, &v, 1);
    own_lose(f, v);
}

static void release_if_dead(Fn *f, const Var *v)
{
    Val *val = ptrmap_find(&f->vals, v);
    if (!val || !fn_dies(f, v))
        return;
    fn_moved(f, v);
    if (val_is_counted(val))
        fn_release_val(f, val);
}

static void release_slot(void *data, Expr *const *slot)
{
    if (expr_as_var(*slot))
        release_if_dead(data, expr_as_var(*slot));
}

static void release_free(void *data, Var *v)
{
    release_if_dead(data, v);
}

static void release_operands(Fn *f, const Expr *value)
{
    if (value->kind == EXPR_VAR)
        release_if_dead(f, expr_as_var(value));
    else if (value->kind == EXPR_FUNCTION)
        ir_free_vars(value, release_free, f);
    else if (value->kind != EXPR_IF && value->kind != EXPR_MATCH)
        ir_children(value, release_slot, f);
}

void fn_release_dead(Fn *f)
{
    for (; f->made.n > 0 && vec_last(&f->made).block == f->block; made_drop(f, f->made.n - 1))
        fn_release_cold(f, repr_of(vec_last(&f->made).type), vec_last(&f->made).value);
    const Let *let = expr_as_let(f->here);
    release_operands(f, let ? let->value : f->here);
}

/* ---- blocks -------------------------------------------------------------------------------------------------- */

void fn_return(Fn *f, Ssa v)
{
    if (!f->in->terms.lends_result)
        own_lose(f, v);
    LLVMBuildRet(f->g->b, v);
    f->ended = true;
}

static Ssa constant_value(Fn *f, const Constant *c, const Var *var, const Type *type)
{
    Gen *g = f->g;
    Lanes one = {.g = g, .n = 1};
    Val *val = fn_bind(f, var, type, NULL);
    if (value_is_object(c->value)) { /* the unit counts it */
        val->at = gen_outside(g, IMPORT_CLOSED, ptrmap_find(&g->unit->closed, c->value.object));
        val->lent = val->stays = true;
        return NULL;
    }
    if (c->value.kind == VALUE_SCALAR) {
        val->at = lanes_const(&one, c->value);
        val->number = &c->value;
        return NULL;
    }
    val->at = gen_outside(g, IMPORT_TENSOR, c->value.tensor);
    val->fixed = true;
    val->dense = tensor_is_contiguous(c->value.tensor);
    val->tensor = c->value.tensor;
    return NULL;
}

static Ssa ref_new(Fn *f, const RefNew *e)
{
    fn_settle(f, 1, &e->value, NULL);
    Repr r = repr_of(fn_type(f, e->value));
    Ssa o = fn_object(f, VALUE_REF, NULL, 1, &r);
    fn_set_field(f, o, 0, r, fn_take(f, e->value));
    return o;
}

static Ssa ref_read(Fn *f, const RefRead *e, const Type *type)
{
    Repr r = repr_of(type);
    Ssa v = fn_get_field(f, fn_borrow(f, e->ref), 0, r);
    fn_retain(f, r, v);
    return v;
}

static Ssa ref_write(Fn *f, const RefWrite *e)
{
    const Type *content = fn_type(f, e->ref)->parts[0];
    Repr r = repr_of(content);
    if (f->g->unit->gpu)
        gen_call_abi(f->g, "relay_home", &f->state, 1);
    fn_fail_if_failed(f); /* others see what is written */
    Ssa o = fn_borrow(f, e->ref);
    Ssa now = fn_take_as(f, e->value, content);
    Ssa old = fn_get_field(f, o, 0, r);
    fn_set_field(f, o, 0, r, now);
    own_make(f, old); /* what the reference had */
    fn_release(f, r, old);
    return gen_outside(f->g, IMPORT_UNIT, NULL);
}

static Ssa tuple_get(Fn *f, const TupleGet *e, const Type *type)
{
    Repr r = repr_of(type);
    Ssa v = fn_get_field(f, fn_borrow(f, e->tuple), (uint32_t)e->index, r);
    fn_retain(f, r, v);
    return v;
}

/* A function literal: known by name, and an object only when it captures something. */
static Ssa literal(Fn *f, const Function *fn, Var *var)
{
    Instance *in = instance_of_literal(f, fn, var);
    if (!in)
        return NULL;
    bool spread = instance_is_spread(in);
    for (size_t i = 0; i < in->captures.n && spread; i++)
        fn_val(f, &in->captures.at[i].var->base); /* what waits for it is computed here */
    Ssa object = in->has_self && !spread ? fn_closure(f, in) : NULL;
    Val *val = fn_bind(f, var, fn_type(f, &fn->base), object);
    val->known = in;
    val->spread = spread;
    return NULL;
}

/* A second name for what exists. */
static Ssa alias(Fn *f, const Var *var, Expr *value)
{
    Val *old = fn_val(f, value);
    if (!old)
        return fn_take(f, value);
    const Type *type = fn_type(f, &var->base);
    if (is_wrapped_at(old, type))
        return fn_take_as(f, value, type);
    if (old->at && !is_of_type(f, old, type))
        return NULL;
    Ssa at = old->at && !old->fixed ? fn_take(f, value) : NULL;
    Val *val = fn_bind(f, var, old->type, at);
    if (old->fixed) /* nobody counts it, under either name */
        val->at = old->at;
    val->known = old->known;
    val->spread = old->spread && !at;
    val->atom = old->atom;
    val->group = old->group;
    val->fixed = old->fixed;
    val->dense = old->dense;
    val->tensor = old->tensor;
    val->number = old->number;
    return NULL;
}

static Ssa named_atom(Fn *f, const Var *var, const Expr *e, const Type *type)
{
    if (type->kind != TYPE_FUNC)
        return fn_take_as(f, e, type);
    fn_bind(f, var, type, NULL)->atom = e;
    return NULL;
}

static Ssa let_value(Fn *f, Let *let, const Type *type, bool tail)
{
    Expr *e = let->value;
    switch ((ExprKind)e->kind) {
    case EXPR_CONSTANT: return constant_value(f, expr_as_constant(e), let->var, type);
    case EXPR_VAR: return alias(f, let->var, e);
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON: return named_atom(f, let->var, e, type);
    case EXPR_TUPLE:
        if (f->wants_fields)
            return fn_fields(f, type, expr_as_tuple(e)->fields.at);
        return fn_tuple(f, type, expr_as_tuple(e)->fields.n, expr_as_tuple(e)->fields.at);
    case EXPR_TUPLE_GET: return tuple_get(f, expr_as_tuple_get(e), type);
    case EXPR_CALL: return fn_call(f, expr_as_call(e), let->var, tail);
    case EXPR_FUNCTION: return literal(f, expr_as_function(e), let->var);
    case EXPR_IF: return fn_if(f, expr_as_if(e), type, tail);
    case EXPR_MATCH: return fn_match(f, expr_as_match(e), type, tail);
    case EXPR_REF_NEW: return ref_new(f, expr_as_ref_new(e));
    case EXPR_REF_READ: return ref_read(f, expr_as_ref_read(e), type);
    case EXPR_REF_WRITE: return ref_write(f, expr_as_ref_write(e));
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    return NULL;
}

/* The let with the value that it comes to here. */
static Let *known_let(Fn *f, Let *let)
{
    Expr *value = f->in->facts ? ptrmap_find(&f->in->facts->lets, let) : NULL;
    if (!value)
        return let;
    Let *now = arena_new(f->g->arena, Let);
    *now = *let;
    now->value = value;
    return now;
}

/* The value of the let that is computed here, as the tuple's fields where these are wanted. */
static Let *compute_let(Fn *f, Let *let, const Type *type, bool tail)
{
    bool last = let_is_last(let), wants = f->wants_fields;
    uint32_t projections = last || !tuple_is_worth_opening(type) ? 0 : fn_projections(f, let);
    if (tail && last && type->kind == TYPE_FUNC && type->n_params > 0) {
        /* Where the function gives one of a single type, branches make it; what is made elsewhere is not handed through. */
        bool branches = let->value->kind == EXPR_IF || let->value->kind == EXPR_MATCH;
        const Type *result = f->in->result;
        bool single = result->kind == TYPE_FUNC && result->n_params == 0;
        type = single && branches ? result : type;
        tail = !single || branches;
    }
    if (last && wants)
        plan_flush(f); /* first: when it fails, the fields have no owner yet */
    f->wants_fields = last ? wants : projections > 0;
    Ssa v = let_value(f, let, type, tail && last);
    f->wants_fields = wants;
    if (f->g->failed || f->ended)
        return NULL;
    scope_end(f);
    fn_release_dead(f);
    bool fields = v && fn_is_fields(v);
    if (fields && last && wants)
        f->fields = v;
    else if (fields && projections > 0)
        return fn_bind_projections(f, let, projections, type, v);
    else if (v)
        fn_bind(f, let->var, type, fields ? fn_close_tuple(f, type, v) : v);
    return let;
}

/* Whether the variable has a type that what the value gives, which was made elsewhere, can have. */
static bool gives_type(Fn *f, const Let *let, const Type *type)
{
    const Expr *e = let->value;
    bool made = e->kind == EXPR_CALL || e->kind == EXPR_TUPLE_GET || e->kind == EXPR_REF_READ;
    return !made || e->type == let->var->base.type || fn_stands_for(f, fn_type(f, e), type);
}

/* The last let that is made with this one; NULL when the block does not go on. */
static Let *make_let(Fn *f, Let *written, bool tail)
{
    Let *let = known_let(f, written);
    const Type *type = fn_type(f, &let->var->base);
    f->moved.n = 0;
    if (gen_ended(f->g))
        return NULL;
    if (repr_of(type).kind == REPR_NONE) {
        gen_refuse(f->g, "the type `%s` of `%%%s` is not known well enough",
                   type_str(f->g->cx, type), let->var->name->text);
        return NULL;
    }
    if (!gives_type(f, let, type))
        return NULL;
    if (plan_group(f, let, type))
        return f->g->failed ? NULL : written;
    bool given = f->wants_fields && let_is_last(let);
    if (!given && plan_add(f, let, type)) {
        if (let != written)
            fn_release_dead(f); /* what the value does not take any more */
        return f->g->failed ? NULL : written;
    }
    origin_at(f->g, let->value->span);
    plan_before(f, written->value);
    return compute_let(f, let, type, tail);
}

/* What the block above hands down and this one does not use ends here. */
static void release_handed_down(Fn *f, LiveBlock *block)
{
    for (size_t i = f->scope.n; i-- > 0;) {
        const Var *v = f->scope.at[i];
        if (!block->parent || uses_in(block, v) > 0 ||
            !live_is_last(f->live, block->parent, block->parent_at, v))
            continue;
        Val *val = ptrmap_find(&f->vals, v);
        scope_drop(f, v);
        if (val_is_counted(val))
            fn_end_value(f, v);
    }
}

/* What a function gives that lends its result (results.c says when it does). */
static Ssa lent_end(Fn *f, Expr *e)
{
    Ssa v = fn_borrow(f, e);
    const Val *val = expr_as_var(e) ? fn_val(f, e) : NULL;
    if (!(val && val->lent && val->stays) && !LLVMIsConstant(v))
        gen_refuse(f->g, "`%s` gives more than it is lent", f->in->name);
    return v;
}

static Ssa make_block(Fn *f, const Type *type, bool tail)
{
    f->fields = NULL;
    for (Let *let = expr_as_let(f->here); let; let = expr_as_let(f->here)) {
        fn_cut(f);
        let = make_let(f, let, tail);
        if (!let)
            return NULL;
        f->at++;
        f->here = let->body;
    }
    Expr *e = f->here;
    Ssa v = f->fields;
    f->fields = NULL;
    f->moved.n = 0;
    if (!v) {
        plan_flush(f); /* first: when it fails, the result has no owner yet */
        bool lends = tail && f->in->terms.lends_result;
        v = lends ? lent_end(f, e) : fn_take_as(f, e, type);
        if (!lends &&
            expr_as_var(
                e)) /* what was not taken itself: a polymorphic function of which one of a single type was made */
            release_if_dead(f, expr_as_var(e));
        if (f->wants_fields && !f->g->failed)
            v = fn_open_tuple(f, type, v);
    }
    fn_cells_end(f);
    if (!tail || f->g->failed)
        return v;
    fn_return(f, v);
    return NULL;
}

static KeptCells cells_copy(Fn *f)
{
    KeptCells copy = {0};
    for (size_t i = 0; i < f->kept.n; i++)
        vec_push(&copy, f->g->arena, f->kept.at[i]);
    return copy;
}

static VarStack stack_copy(Fn *f, const VarStack *s)
{
    VarStack copy = {0};
    for (size_t i = 0; i < s->n; i++)
        vec_push(&copy, f->g->arena, s->at[i]);
    return copy;
}

Ssa fn_block(Fn *f, LiveBlock *block, const Type *type, bool tail, BlockStart *start, void *data)
{
    LiveBlock *outer = f->block;
    uint32_t at = f->at;
    Expr *here = f->here;
    bool outer_tail = f->tail;
    VarStack moved = stack_copy(f, &f->moved);
    KeptCells kept = cells_copy(f);
    size_t opened = f->opened.n, rebound = f->rebound.n, changes = f->changes.n;
    f->block = block;
    f->tail = tail;
    f->at = 0;
    f->here = block->body;
    fn_cells_enter(f);
    if (start)
        start(f, data);
    release_handed_down(f, block);
    bool guarded = f->guarded;
    if (block->calls && !guarded)
        fn_guard(f);
    f->ended = false;
    Ssa v = make_block(f, type, tail);
    scope_return(f, changes);
    f->block = outer;
    f->tail = outer_tail;
    f->at = at;
    f->here = here;
    f->moved = moved;
    f->kept = kept;
    f->opened.n = opened;
    f->guarded = guarded;
    while (f->rebound.n > rebound) {
        Rebound r = vec_pop(&f->rebound);
        ptrmap_put(&f->vals, r.var, r.before);
    }
    return f->ended ? NULL : v;
}
