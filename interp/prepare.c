/* From an expression to resolved code: A normal form, then blocks of steps whose variables are places.
 *
 * A block is worked through from front to back; the blocks inside it wait in a list, so that the depth of the program never becomes
 * the depth of the C stack. They come after the block that holds them, so every variable outside is known. */
#include "interp/internal.h"
#include "base/memory.h"

#include "passes/declared_shapes.h"
#include "passes/to_a_normal_form.h"

#include <stdlib.h>

typedef struct Fn Fn;

/* Where a variable's value stands: in a slot or among the constants. */
typedef struct Place {
    Fn *fn; /* whose frame; NULL for a constant, which all functions share */
    const Var *var; /* of the text, whose value it is */
    Operand at;
} Place;

struct Fn {
    Fn *outer;
    Code *code;
    Step *maker; /* makes the closure; NULL for the root */
    const Place *self; /* the variable that the closure is bound to; NULL: none */
    PtrMap captured; /* Place -> its number among the captured values + 1 */
    Vec(Operand) sources; /* the same in the outer function, in order */
};

typedef struct Pending {
    Fn *fn;
    CodeBlock *block;
    Expr *body;
    uint32_t slot; /* the first that the block may use */
    const Step *join; /* where its value goes; NULL: it is returned */
} Pending;

typedef struct Prepare {
    Interp *in;
    Unit *unit;
    Module *anf; /* holds the normal form while this runs */
    Arena scratch;
    PtrMap places; /* Var -> Place */
    Vec(Fn *) fns;
    Vec(Pending) pending;
    Pending now; /* the block at work */
    Vec(StepNote) notes; /* for the next step */
    bool failed;
} Prepare;

/* ---- units ------------------------------------------------------------------------------------- */

static Unit *unit_new(Interp *in, Module *keep)
{
    Ctx *cx = in->cx;
    Unit *u = memory_zeroed(1, sizeof *u);
    if (!u) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    u->in = in;
    u->refs = 1;
    u->keep = keep ? module_retain(keep) : NULL;
    arena_init(&u->arena, &cx->limits);
    ctx_root_add(cx, &u->root, &u->arena);
    return u;
}

void unit_release(Unit *u)
{
    if (--u->refs > 0)
        return;
    tally_drop(u);
    for (size_t i = 0; i < u->constants.n; i++)
        value_release(u->constants.at[i]);
    ctx_root_remove(&u->root);
    arena_deinit(&u->arena);
    module_release(u->keep);
    module_release(u->checks);
    free(u);
}

/* ---- closures ---------------------------------------------------------------------------------- */

static const ObjectInfo closure_gone = {.kind = VALUE_FUNCTION};

static void closure_destroy(Object *o)
{
    Code *code = (Code *)(uintptr_t)object_info(o);
    o->fields[FUNCTION_INFO].bits = (uint64_t)(uintptr_t)&closure_gone;
    unit_release(code->unit);
}

static void closure_print(Buf *out, const Object *o)
{
    const Code *code = (const Code *)(const void *)object_info(o);
    buf_char(out, '<');
    if (code->type)
        type_print(out, code->type);
    else
        buf_str(out, "fn");
    buf_char(out, '>');
}

Value closure_new(Interp *in, const Code *code, uint32_t n)
{
    Object *o = object_new(&in->cx->limits, &code->info, FUNCTION_CAPTURED + n);
    if (!o)
        return value_none();
    code->unit->refs++;
    return value_object(o);
}

static const Type *closure_type(const Object *o)
{
    return ((const Code *)(const void *)object_info(o))->type;
}

/* Whether the step stands in the closure's code, or in a function within. What it captured says for itself what it names. */
static bool names(const Code *code, const Named *named)
{
    const Code *in = named->in;
    while (in && in != code)
        in = in->outer;
    return in == code;
}

static const Name *closure_uses(const Object *o, const PtrMap *wanted)
{
    const Code *code = (const Code *)(const void *)object_info(o);
    const Unit *u = code->unit;
    for (size_t i = 0; i < u->globals.n; i++)
        if (ptrmap_has(wanted, u->globals.at[i].name) && names(code, &u->globals.at[i]))
            return u->globals.at[i].name;
    return NULL;
}

static const Name *closure_misfit(const Object *o, const Module *env)
{
    const Code *code = (const Code *)(const void *)object_info(o);
    const Unit *u = code->unit;
    for (size_t i = 0; i < u->globals.n; i++) {
        const Named *g = &u->globals.at[i];
        if (names(code, g) && !module_defines(env, g->name, g->type))
            return g->name;
    }
    return NULL;
}

static Value closure_call(Object *o, uint32_t n, const Value *args)
{
    Interp *in = ((const Code *)(const void *)object_info(o))->unit->in;
    return interp_call(in, in->env, value_object(o), n, args, (Span){0});
}

const FunctionKind evaluated_functions = {
    .call = closure_call,
    .type = closure_type,
    .uses = closure_uses,
    .misfit = closure_misfit,
};

static Code *code_new(Prepare *p, const Expr *e)
{
    Code *code = arena_new(&p->unit->arena, Code);
    code->info = (ObjectInfo){.kind = VALUE_FUNCTION,
                              .function = &evaluated_functions,
                              .destroy = closure_destroy,
                              .print = closure_print};
    code->unit = p->unit;
    code->type = e->type;
    code->span = e->span;
    code->self_slot = NO_SLOT;
    vec_push(&p->unit->codes, &p->unit->arena, code);
    return code;
}

/* ---- places ------------------------------------------------------------------------------------ */

/* The variables of a normal form, which no text can name, have empty names. */
static const Var *text_var(const Var *v)
{
    return v->name->text[0] ? v : NULL;
}

uint8_t known_of(const Type *t)
{
    t = t ? type_find(t) : NULL;
    if (!t)
        return KNOWN_NOTHING;
    switch ((TypeKind)t->kind) {
    case TYPE_TENSOR:
        return t->n == 0 && dtype_id(t->dtype) < DTYPE_IDS
                   ? (uint8_t)(KNOWN_SCALAR + dtype_id(t->dtype))
                   : KNOWN_NOTHING;
    case TYPE_TUPLE: return KNOWN_TUPLE;
    case TYPE_FUNC: return KNOWN_FUNCTION;
    case TYPE_REF: return KNOWN_REF;
    /* What has no constructors is not made of any: a storage is a tensor. */
    case TYPE_ADT: return t->def->n_cons > 0 ? KNOWN_CON : KNOWN_NOTHING;
    case TYPE_VAR:
    case TYPE_HOLE:
    case TYPE_POISON: break;
    }
    return KNOWN_NOTHING;
}

static Place *place_new(Prepare *p, Fn *fn, const Var *v, Operand at)
{
    Place *place = arena_new(&p->scratch, Place);
    *place = (Place){fn, text_var(v), at};
    place->at.known = known_of(v->base.type);
    return place;
}

uint64_t known_head(uint8_t known)
{
    static const ValueKind kinds[] = {VALUE_NONE, VALUE_TUPLE, VALUE_CON, VALUE_REF,
                                      VALUE_FUNCTION};
    if (known < KNOWN_SCALAR)
        return value_head(&(Value){.kind = kinds[known]});
    return value_head(
        &(Value){.kind = VALUE_SCALAR, .dtype = dtype_of((DTypeId)(known - KNOWN_SCALAR))});
}

static Operand slot_operand(uint32_t slot)
{
    return (Operand){.at = slot, .base = BASE_SLOTS};
}

static uint32_t slot_new(Prepare *p)
{
    uint32_t slot = p->now.slot++;
    if (p->now.fn->code->n_slots < p->now.slot)
        p->now.fn->code->n_slots = p->now.slot;
    return slot;
}

static uint32_t bind_slot(void *data, Var *v)
{
    Prepare *p = data;
    uint32_t slot = slot_new(p);
    ptrmap_put(&p->places, v, place_new(p, p->now.fn, v, slot_operand(slot)));
    return slot;
}

static Operand constant(Prepare *p, Value v)
{
    Unit *u = p->unit;
    vec_push(&u->constants, &u->arena, value_retain(v));
    return (Operand){.at = (uint32_t)u->constants.n - 1, .base = BASE_CONSTANTS};
}

/* How `fn` reaches the place without capturing it anew. */
static bool reach(const Fn *fn, const Place *place, Operand *out)
{
    if (place->fn == fn || !place->fn) {
        *out = place->at;
        return true;
    }
    if (fn->self == place) {
        *out = (Operand){.at = fn->code->self_slot, .base = BASE_SLOTS, .known = place->at.known};
        return true;
    }
    size_t at = (size_t)(uintptr_t)ptrmap_find(&fn->captured, place);
    *out = (Operand){.at = (uint32_t)at - 1, .base = BASE_CAPTURED, .known = place->at.known};
    return at > 0;
}

static Operand capture(Prepare *p, Fn *fn, const Place *place, Operand source)
{
    vec_push(&fn->sources, &p->scratch, source);
    vec_push(&fn->code->captured, &p->unit->arena, place->var);
    ptrmap_put(&fn->captured, place, (void *)(uintptr_t)fn->sources.n);
    return (Operand){
        .at = (uint32_t)fn->sources.n - 1, .base = BASE_CAPTURED, .known = place->at.known};
}

/* Each function between the place and its use captures the value from the one around it. */
static Operand place_operand(Prepare *p, Fn *fn, const Place *place)
{
    Operand o;
    Vec(Fn *) between = {0};
    while (!reach(fn, place, &o)) {
        vec_push(&between, &p->scratch, fn);
        fn = fn->outer;
    }
    while (between.n)
        o = capture(p, vec_pop(&between), place, o);
    return o;
}

/* A variable that nothing binds is captured by the root from whoever evaluates it. */
static const Place *var_place(Prepare *p, Var *v)
{
    Place *place = ptrmap_find(&p->places, v);
    if (place)
        return place;
    Fn *root = p->fns.at[0];
    Operand at = {.at = (uint32_t)root->code->free_vars.n, .base = BASE_CAPTURED};
    place = place_new(p, root, v, at);
    vec_push(&root->code->free_vars, &p->unit->arena, v);
    vec_push(&root->code->captured, &p->unit->arena, v);
    ptrmap_put(&p->places, v, place);
    return place;
}

/* ---- steps ------------------------------------------------------------------------------------- */

static Step *step_new(Prepare *p, StepKind kind, const Expr *origin, uint32_t n)
{
    Arena *a = &p->unit->arena;
    Step *s = arena_new(a, Step);
    s->kind = (uint8_t)kind;
    s->span = origin->span;
    s->known = known_of(origin->type);
    s->dest = NO_SLOT;
    s->n = n;
    p->unit->steps++;
    p->now.fn->code->cost++;
    /* One more than n: the callee of a call. */
    s->args = arena_new_array(a, Operand, n + 1);
    p->failed |= !s->args;
    if (p->unit->most_args < n + 1)
        p->unit->most_args = n + 1;
    return s;
}

static StepInfo *step_info(Prepare *p, Step *s)
{
    if (!s->info)
        s->info = arena_new(&p->unit->arena, StepInfo);
    return s->info;
}

static void take_notes(Prepare *p, Step *s)
{
    StepInfo *info = step_info(p, s);
    for (size_t i = 0; i < p->notes.n; i++)
        vec_push(&info->notes, &p->unit->arena, p->notes.at[i]);
    p->notes.n = 0;
}

static void emit(Prepare *p, Step *s)
{
    CodeBlock *b = p->now.block;
    if (p->notes.n)
        take_notes(p, s);
    if (b->steps.n)
        vec_last(&b->steps)->next = s;
    else
        b->first = s;
    vec_push(&b->steps, &p->unit->arena, s);
}

static Fn *fn_new(Prepare *p, Fn *outer, Code *code, Step *maker)
{
    Fn *fn = arena_new(&p->scratch, Fn);
    fn->outer = outer;
    fn->code = code;
    fn->maker = maker;
    code->outer = outer ? outer->code : NULL;
    vec_push(&p->fns, &p->scratch, fn);
    return fn;
}

/* The parameters take the first slots, then the closure itself if it has a name. */
static void push_body(Prepare *p, Fn *fn, Expr *body, VarList params, const Place *self)
{
    Code *code = fn->code;
    code->n_params = params.n;
    code->n_slots = params.n;
    for (uint32_t i = 0; i < params.n; i++) {
        Place *place = place_new(p, fn, params.at[i], slot_operand(i));
        ptrmap_put(&p->places, params.at[i], place);
        vec_push(&code->params, &p->unit->arena, place->var);
    }
    if (self) {
        fn->self = self;
        code->var = self->var;
        code->self_slot = code->n_slots++;
    }
    Pending body_block = {fn, &code->body, body, code->n_slots, NULL};
    vec_push(&p->pending, &p->scratch, body_block);
}

static void set_op(Prepare *p, Step *s, const Op *op, const Attrs *attrs)
{
    s->op = op;
    s->attrs = attrs;
    s->site = arena_new(&p->unit->arena, OpSite);
}

/* `fn (%a, %b) { add(%a, %b) }` for an operator or constructor that is used as a value. */
static Step *eta_closure(Prepare *p, const Expr *e)
{
    const OpRef *op = expr_as_op(e);
    const ConRef *con = expr_as_con(e);
    Code *code = code_new(p, e);
    uint32_t n = op ? (uint32_t)op_arity(op->op) : con->con->n;
    code->n_params = n;
    code->n_slots = n + 1;
    Step *apply = step_new(p, op ? STEP_OP : STEP_CON, e, n);
    Step *back = step_new(p, STEP_RETURN, e, 1);
    apply->dest = n;
    apply->known = KNOWN_NOTHING;
    apply->next = back;
    const Type *type = e->type ? type_find(e->type) : NULL;
    bool typed = type && type->kind == TYPE_FUNC && type->n == n;
    for (uint32_t i = 0; apply->args && i < n; i++) {
        apply->args[i] = slot_operand(i);
        apply->args[i].known = typed ? known_of(type->parts[i]) : KNOWN_NOTHING;
    }
    back->args[0] = slot_operand(n);
    if (op) {
        set_op(p, apply, op->op, NULL);
        if (op->op->attrs && !attrs_are_needed(op->op->name, op->op->attrs)) {
            apply->attrs =
                attrs_check(p->in->cx, &p->unit->arena, op->op->name, op->op->attrs, NULL, e->span);
            p->failed |= !apply->attrs;
        }
    } else {
        apply->con = con->con;
    }
    code->body.first = apply;
    vec_push(&code->body.steps, &p->unit->arena, apply);
    vec_push(&code->body.steps, &p->unit->arena, back);
    Step *s = step_new(p, STEP_CLOSURE, e, 0);
    s->code = code;
    return s;
}

static bool con_is_value(const ConRef *con)
{
    return con->con->n == 0 && !(con->base.type && con->base.type->kind == TYPE_FUNC);
}

static Value nullary(const Constructor *con)
{
    return (Value){.kind = VALUE_CON, .object = con->info->nullary};
}

static void name_global(Prepare *p, Step *s, const GlobalVar *global)
{
    s->name = global->name;
    vec_push(&p->unit->globals, &p->unit->arena,
             ((Named){global->name, global->base.type, p->now.fn->code}));
}

/* The step that makes a value of an atom that is no variable. */
static Step *atom_step(Prepare *p, const Expr *e)
{
    const GlobalVar *global = expr_as_global(e);
    if (!global)
        return eta_closure(p, e);
    Step *s = step_new(p, STEP_GLOBAL, e, 0);
    name_global(p, s, global);
    return s;
}

/* Where the value of an atom stands. */
static Operand atom_operand(Prepare *p, Expr *e)
{
    Var *v = expr_as_var(e);
    if (v)
        return place_operand(p, p->now.fn, var_place(p, v));
    const ConRef *con = expr_as_con(e);
    if (con && con_is_value(con))
        return constant(p, nullary(con->con));
    Step *s = atom_step(p, e);
    s->dest = slot_new(p);
    emit(p, s);
    return slot_operand(s->dest);
}

static Operand operand(Prepare *p, Expr *e)
{
    Operand o = atom_operand(p, e);
    o.known = known_of(e->type);
    return o;
}

static void operands(Prepare *p, Step *s, ExprList list)
{
    for (uint32_t i = 0; s->args && i < list.n; i++)
        s->args[i] = operand(p, list.at[i]);
}

static Step *step_with(Prepare *p, StepKind kind, const Expr *e, uint32_t n, Expr *a, Expr *b)
{
    Step *s = step_new(p, kind, e, n);
    s->args[0] = operand(p, a);
    if (b)
        s->args[1] = operand(p, b);
    return s;
}

/* The types lie where those of the text do not. */
static TypedCall *typed_call(Prepare *p, const Call *call)
{
    uint32_t n = call->type_args.n;
    if (n == 0)
        return NULL;
    TypedCall *typed = arena_new(&p->unit->arena, TypedCall);
    typed->n = n;
    typed->types = arena_copy(&p->unit->arena, call->type_args.at, n * sizeof *typed->types);
    p->failed |= !typed->types;
    return typed;
}

static Step *call_step(Prepare *p, const Call *call, bool tail)
{
    const Expr *e = &call->base;
    const OpRef *op = expr_as_op(call->callee);
    const ConRef *con = expr_as_con(call->callee);
    const GlobalVar *global = expr_as_global(call->callee);
    StepKind kind = op       ? STEP_OP
                    : con    ? STEP_CON
                    : global ? (tail ? STEP_TAIL_GLOBAL : STEP_CALL_GLOBAL)
                    : tail   ? STEP_TAIL_CALL
                             : STEP_CALL;
    Step *s = step_new(p, kind, e, call->args.n);
    operands(p, s, call->args);
    if (op)
        set_op(p, s, op->op, call->attrs);
    else if (con)
        s->con = con->con;
    else if (global) {
        name_global(p, s, global);
        s->typed = typed_call(p, call);
    } else if (s->args)
        s->args[s->n] = operand(p, call->callee);
    return s;
}

static Step *closure_step(Prepare *p, Function *f, const Place *self)
{
    Expr *body = f->body;
    if (function_is_primitive(f)) {
        Function *normal = expr_as_function(to_anf_unnamed(p->in->cx, p->anf, &f->base));
        p->failed |= !normal;
        body = normal ? normal->body : body;
    }
    Step *s = step_new(p, STEP_CLOSURE, &f->base, 0);
    Code *code = code_new(p, &f->base);
    s->code = code;
    push_body(p, fn_new(p, p->now.fn, code, s), body, f->params, self);
    return s;
}

/* The blocks of a branching step go where `join` says, or where the block at work goes when nothing comes after the step. */
static void push_blocks(Prepare *p, Step *s, uint32_t n, const Step *join)
{
    s->n_blocks = n;
    s->blocks = arena_new_array(&p->unit->arena, CodeBlock, n);
    for (uint32_t i = 0; s->blocks && i < n; i++) {
        Pending block = {p->now.fn, &s->blocks[i], NULL, p->now.slot, join};
        vec_push(&p->pending, &p->scratch, block);
    }
    p->failed |= !s->blocks;
}

static Step *if_step(Prepare *p, const If *e, bool tail)
{
    Step *s = step_with(p, STEP_IF, &e->base, 1, e->cond, NULL);
    push_blocks(p, s, 2, tail ? p->now.join : s);
    if (!s->blocks)
        return s;
    Pending *blocks = &p->pending.at[p->pending.n - 2];
    blocks[0].body = e->then;
    blocks[1].body = e->otherwise;
    return s;
}

static Step *match_step(Prepare *p, const Match *e, bool tail)
{
    Step *s = step_with(p, STEP_MATCH, &e->base, 1, e->scrutinee, NULL);
    uint32_t n = e->clauses.n;
    push_blocks(p, s, n, tail ? p->now.join : s);
    s->patterns = arena_new_array(&p->unit->arena, PatternCode, n);
    p->failed |= !s->patterns;
    uint32_t slot = p->now.slot;
    for (uint32_t i = 0; !p->failed && i < n; i++) {
        pattern_compile(p->unit, e->clauses.at[i].pattern, &s->patterns[i], bind_slot, p);
        Pending *block = &p->pending.at[p->pending.n - n + i];
        block->body = e->clauses.at[i].body;
        block->slot = p->now.slot;
        p->now.slot = slot;
    }
    s->decision = p->failed ? NULL : pattern_decide(p->unit, e, s->patterns);
    return s;
}

/* The step that computes the value of a `let`. `tail`: the block's value is this one. */
static Step *value_step(Prepare *p, Expr *e, bool tail, const Place *self)
{
    switch ((ExprKind)e->kind) {
    case EXPR_TUPLE: {
        Step *s = step_new(p, STEP_TUPLE, e, expr_as_tuple(e)->fields.n);
        operands(p, s, expr_as_tuple(e)->fields);
        return s;
    }
    case EXPR_TUPLE_GET: {
        Step *s = step_with(p, STEP_GET, e, 1, expr_as_tuple_get(e)->tuple, NULL);
        s->index = expr_as_tuple_get(e)->index;
        return s;
    }
    case EXPR_CALL: return call_step(p, expr_as_call(e), tail && !p->now.join);
    case EXPR_FUNCTION: return closure_step(p, expr_as_function(e), self);
    case EXPR_IF: return if_step(p, expr_as_if(e), tail);
    case EXPR_MATCH: return match_step(p, expr_as_match(e), tail);
    case EXPR_REF_NEW: return step_with(p, STEP_REF_NEW, e, 1, expr_as_ref_new(e)->value, NULL);
    case EXPR_REF_READ: return step_with(p, STEP_REF_READ, e, 1, expr_as_ref_read(e)->ref, NULL);
    case EXPR_REF_WRITE: {
        const RefWrite *write = expr_as_ref_write(e);
        return step_with(p, STEP_REF_WRITE, e, 2, write->ref, write->value);
    }
    case EXPR_GLOBAL:
    case EXPR_OP:
    case EXPR_CON: return atom_step(p, e);
    case EXPR_CONSTANT:
    case EXPR_VAR:
    case EXPR_LET:
    case EXPR_KINDS: break;
    }
    diag_bug(p->in->cx->diags, e->span, "an expression is not in A normal form");
    p->failed = true;
    return step_new(p, STEP_DROP, e, 0);
}

/* ---- blocks ------------------------------------------------------------------------------------ */

static void note_let(Prepare *p, const Let *let, Place *place)
{
    const Var *v = text_var(let->var);
    if (!v)
        return;
    StepNote note = {.var = v, .span = let->value->span};
    note.at = place_operand(p, p->now.fn, place);
    vec_push(&p->notes, &p->scratch, note);
    place->var = place->var ? place->var : v;
}

/* A `let` whose value needs no step: its variable is another name for a place. */
static bool bind_known(Prepare *p, const Let *let)
{
    Expr *e = let->value;
    Place *place = NULL;
    Value known = value_none();
    const Call *call = expr_as_call(e);
    const ConRef *con = expr_as_con(call && call->args.n == 0 ? call->callee : e);
    const Tuple *tuple = expr_as_tuple(e);
    if (e->kind == EXPR_VAR)
        place = (Place *)(uintptr_t)var_place(p, expr_as_var(e));
    else if (e->kind == EXPR_CONSTANT)
        known = expr_as_constant(e)->value;
    else if (tuple && tuple->fields.n == 0)
        known = value_unit();
    else if (con && con->con->n == 0 && (call || con_is_value(con)))
        known = nullary(con->con);
    if (!value_is_none(known))
        place = place_new(p, NULL, let->var, constant(p, known));
    if (place) {
        ptrmap_put(&p->places, let->var, place);
        note_let(p, let, place);
    }
    return place != NULL;
}

/* Whether the value of the block is that of the variable, through other names for it. */
static bool is_result(const Var *v, const Expr *body)
{
    for (const Let *let; (let = expr_as_let(body)) && let->value == &v->base; body = let->body)
        v = let->var;
    return body == &v->base;
}

static void end_block(Prepare *p, Expr *result)
{
    Operand value = operand(p, result);
    Step *s = step_new(p, p->now.join ? STEP_JOIN : STEP_RETURN, result, 1);
    s->args[0] = value;
    s->join = p->now.join;
    emit(p, s);
}

static void bind_step(Prepare *p, const Let *let, bool tail)
{
    /* The place comes before the value, which may be a function that calls itself, and is none of those in its branches. */
    Place *place = place_new(p, p->now.fn, let->var, slot_operand(slot_new(p)));
    Step *s = value_step(p, let->value, tail, place);
    s->dest = place->at.at;
    if (place->var)
        step_info(p, s)->var = place->var;
    ptrmap_put(&p->places, let->var, place);
    emit(p, s);
}

/* Whether control goes on behind the step. */
static bool ends_block(const Step *s, bool tail)
{
    bool branches = s->kind == STEP_IF || s->kind == STEP_MATCH;
    return s->kind == STEP_TAIL_CALL || s->kind == STEP_TAIL_GLOBAL || (branches && tail);
}

static void prepare_block(Prepare *p)
{
    Expr *e = p->now.body;
    for (const Let *let; (let = expr_as_let(e)) && !p->failed; e = let->body) {
        p->failed = limit_hit(&p->in->cx->limits);
        if (bind_known(p, let))
            continue;
        bool tail = is_result(let->var, let->body);
        bind_step(p, let, tail);
        Step *s = vec_last(&p->now.block->steps);
        if (ends_block(s, tail)) {
            s->dest = NO_SLOT;
            return;
        }
    }
    if (!p->failed)
        end_block(p, e);
}

/* ---- the whole --------------------------------------------------------------------------------- */

static void finish_fn(Prepare *p, Fn *fn)
{
    Step *s = fn->maker;
    if (s) {
        s->n = (uint32_t)fn->sources.n;
        s->args = arena_copy(&p->unit->arena, fn->sources.at, s->n * sizeof *s->args);
        p->failed |= !s->args;
    }
    ptrmap_deinit(&fn->captured);
}

static Expr *with_checks(Prepare *p, Expr *root)
{
    Unit *u = p->unit;
    if (!declared_shapes_open(root))
        return root;
    u->checks = module_new(p->in->cx);
    return u->checks ? declared_shapes(p->in->cx, u->checks, u->keep, p->in->env, u->keep, root)
                     : NULL;
}

static void prepare_all(Prepare *p, Code *code, Expr *root)
{
    Expr *checked = with_checks(p, root);
    Expr *normal = checked ? to_anf_unnamed(p->in->cx, p->anf, checked) : NULL;
    const Function *f = expr_as_function(normal);
    bool whole = f && expr_as_function(root);
    if (normal)
        push_body(p, fn_new(p, NULL, code, NULL), whole ? f->body : normal,
                  whole ? f->params : (VarList){0}, NULL);
    p->failed |= !normal;
    while (p->pending.n && !p->failed) {
        p->now = vec_pop(&p->pending);
        prepare_block(p);
    }
    for (size_t i = 0; i < p->fns.n; i++)
        finish_fn(p, p->fns.at[i]);
    for (size_t i = 0; i < p->unit->codes.n && !p->failed; i++) {
        p->failed = limit_hit(&p->in->cx->limits);
        code_mark_last(p->unit, p->unit->codes.at[i]);
        code_share_slots(p->unit, p->unit->codes.at[i]);
    }
    for (size_t i = 0; i < p->unit->codes.n && !p->failed; i++)
        code_choose_runs(p->in, p->unit, p->unit->codes.at[i]);
}

/* Room for the arguments and tests of every step, so that evaluation need not ask. */
static bool reserve(Interp *in, const Unit *u)
{
    if (u->most_args > in->args_cap) {
        Value *args = memory_resize(in->args, u->most_args * sizeof *args);
        if (!args)
            return !limit_reach(&in->cx->limits, LIMIT_MEMORY);
        in->args = args;
        in->args_cap = u->most_args;
    }
    if (u->most_tests > in->held_cap) {
        Held *held = memory_resize(in->held, u->most_tests * sizeof *held);
        if (!held)
            return !limit_reach(&in->cx->limits, LIMIT_MEMORY);
        in->held = held;
        in->held_cap = u->most_tests;
    }
    return true;
}

Code *code_prepare(Interp *in, Module *keep, Expr *root)
{
    Prepare p = {.in = in, .unit = unit_new(in, keep), .anf = module_new(in->cx)};
    Code *code = NULL;
    arena_init(&p.scratch, &in->cx->limits);
    if (p.unit && p.anf) {
        code = code_new(&p, root);
        prepare_all(&p, code, root);
        if (p.failed || !reserve(in, p.unit))
            code = NULL;
    }
    if (p.unit && !code)
        unit_release(p.unit);
    eval_ask_soon(in); /* it may have taken long, and met a limit */
    ptrmap_deinit(&p.places);
    arena_deinit(&p.scratch);
    module_release(p.anf);
    return code;
}
