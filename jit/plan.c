#include "jit/plan.h"

#include "ir/walk.h"
#include "jit/kernel.h"

/* A variable whose value waits: a tensor of the program, or a tuple of such. */
typedef struct Item Item;
struct Item {
    const Type *type;
    int n;              /* fields of a tuple; -1: one tensor */
    Item *fields;
    TeTensor tensor;
    int output;         /* of the kernel + 1; 0: none */
    Ssa made;           /* the tensor, once the kernel ran */
    bool given;         /* `made` has been handed to an owner */
};

typedef struct Waiting {
    Let *let;
    const Type *type;
    Item *item;         /* once the program is built */
} Waiting;

typedef struct Input {
    const Expr *atom;
    const Type *type;
    Ssa value;          /* what the kernel gets: a scalar, or the address of the elements */
    Ssa held;           /* a tensor that is released after the kernel */
} Input;

struct Plan {
    Vec(Waiting) lets;
    PtrMap index;       /* Var -> position in lets + 1 */
    Vec(Input) inputs;
    PtrMap input_index; /* Var -> position in inputs + 1 */
    PtrMap reads; /* variables that what waits will read */
    TeBuilder b;
    Vec(Item *) outputs;
    bool flushing;
};

void plan_begin(Fn *f)
{
    f->plan = arena_new(f->g->arena, Plan);
}

void plan_end(Fn *f)
{
    ptrmap_deinit(&f->plan->index);
    ptrmap_deinit(&f->plan->input_index);
    ptrmap_deinit(&f->plan->reads);
}

/* ---- what may wait --------------------------------------------------------------------------------------------------- */

static bool is_static_tensor(const Type *t)
{
    if (t->kind != TYPE_TENSOR || dtype_id(t->dtype) == DTYPE_IDS)
        return false;
    for (uint32_t i = 0; i < t->n; i++)
        if (t->dims[i] < 0)
            return false;
    return true;
}

static bool is_static(const Type *t)
{
    bool ok = t->kind == TYPE_TENSOR ? is_static_tensor(t) : t->kind == TYPE_TUPLE;
    for (uint32_t i = 0; ok && t->kind == TYPE_TUPLE && i < t->n; i++)
        ok = is_static_tensor(t->parts[i]);
    return ok;
}

static bool waits(const Fn *f, const Expr *atom)
{
    return ptrmap_has(&f->plan->index, atom);
}

static bool is_scalar(const Type *t)
{
    return t->kind == TYPE_TENSOR && t->n == 0;
}

/* An argument that is no variable, or a tuple that exists as an object, is nothing for a program. */
static bool argument_fits(Fn *f, const Expr *atom)
{
    const Type *t = fn_type(f, atom);
    if (!expr_as_var(atom) || !is_static(t))
        return false;
    return t->kind == TYPE_TENSOR || waits(f, atom);
}

/* Tensors that one operator reads. What joins more than these is a choice among all of them in each element: its own loops are
 * faster, and the code of such a choice takes LLVM time beyond all proportion. */
#define TENSORS_MOST 64

static uint32_t tensors_read(Fn *f, const Call *call)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = fn_type(f, call->args.at[i]);
        n += t->kind == TYPE_TUPLE ? t->n : 1;
    }
    return n;
}

static bool call_fits(Fn *f, const Call *call, const Type *type)
{
    const Op *op = expr_call_of_op(&call->base);
    if (!op || !op->compute || op->flags & (OP_STATEFUL | OP_SHAPE_FROM_DATA) || !is_static(type) ||
        tensors_read(f, call) > TENSORS_MOST)
        return false;
    bool scalars = is_scalar(type), any_waits = false;
    for (uint32_t i = 0; i < call->args.n; i++) {
        if (!argument_fits(f, call->args.at[i]))
            return false;
        scalars &= is_scalar(fn_type(f, call->args.at[i]));
        any_waits |= waits(f, call->args.at[i]);
    }
    return !scalars || any_waits;
}

/* A tuple of tensors is worth holding back when it is likely to be an operator's argument or full of what waits. */
static bool tuple_fits(Fn *f, const Tuple *t, const Type *type)
{
    if (t->fields.n == 0 || !is_static(type))
        return false;
    for (uint32_t i = 0; i < t->fields.n; i++)
        if (!argument_fits(f, t->fields.at[i]))
            return false;
    return true;
}

static bool fits(Fn *f, Expr *value, const Type *type)
{
    const Call *call = expr_as_call(value);
    if (call)
        return call_fits(f, call, type);
    const Tuple *tuple = expr_as_tuple(value);
    if (tuple)
        return tuple_fits(f, tuple, type);
    const TupleGet *get = expr_as_tuple_get(value);
    return get && waits(f, get->tuple);
}

/* The let's last uses are last uses of the plan. */
static void hold_slot(void *data, Expr *const *slot)
{
    Fn *f = data;
    const Var *v = expr_as_var(*slot);
    if (!v || waits(f, *slot))
        return;
    ptrmap_put(&f->plan->reads, v, f);
    if (!fn_dies(f, v))
        return;
    Val *val = ptrmap_find(&f->vals, v);
    fn_moved(f, v);
    if (val->at && !val->fixed && val->repr.kind != REPR_SCALAR)
        vec_push(&f->waiting, f->g->arena, v);
}

/* Operators of one program: what is written for it grows faster than their number. */
#define LETS_MOST 128

bool plan_add(Fn *f, Let *let, const Type *type)
{
    Plan *p = f->plan;
    if (p->lets.n >= LETS_MOST)
        plan_flush(f);
    if (!fits(f, let->value, type))
        return false;
    ir_children(let->value, hold_slot, f);
    vec_push(&p->lets, f->g->arena, ((Waiting){let, type, NULL}));
    ptrmap_put(&p->index, let->var, (void *)(uintptr_t)p->lets.n);
    fn_bind(f, let->var, type, NULL);
    return true;
}

static void look_for_loss(void *data, Expr *const *slot)
{
    Fn *f = data;
    const Var *v = expr_as_var(*slot);
    if (v && ptrmap_has(&f->plan->reads, v) && fn_dies(f, v))
        plan_flush(f);
}

void plan_before(Fn *f, const Expr *value)
{
    if (value->kind == EXPR_IF || value->kind == EXPR_MATCH || value->kind == EXPR_FUNCTION)
        plan_flush(f);
    else if (value->kind == EXPR_VAR) /* an alias: what it takes over may be dropped with it */
        look_for_loss(f, &(Expr *){(Expr *)(uintptr_t)value});
    else
        ir_children(value, look_for_loss, f);
}

/* ---- the program --------------------------------------------------------------------------------------------------------- */

static Item *item_of(Plan *p, const Expr *atom)
{
    size_t i = (size_t)(uintptr_t)ptrmap_find(&p->index, atom);
    return i ? p->lets.at[i - 1].item : NULL;
}

static void add_input(void *data, Expr *const *slot)
{
    Fn *f = data;
    Plan *p = f->plan;
    if (!expr_as_var(*slot) || waits(f, *slot) || ptrmap_has(&p->input_index, *slot))
        return;
    const Type *t = fn_type(f, *slot);
    te_add_input(&p->b, t->dtype, (int)t->n, t->dims);
    vec_push(&p->inputs, f->g->arena, ((Input){.atom = *slot, .type = t}));
    ptrmap_put(&p->input_index, *slot, (void *)(uintptr_t)p->inputs.n);
}

static Item *tensor_item(Fn *f, const Type *type, TeTensor t)
{
    Item *item = arena_new(f->g->arena, Item);
    *item = (Item){.type = type, .n = -1, .tensor = t};
    return item;
}

static Item *atom_item(Fn *f, const Expr *atom)
{
    Item *item = item_of(f->plan, atom);
    if (item)
        return item;
    size_t i = (size_t)(uintptr_t)ptrmap_find(&f->plan->input_index, atom) - 1;
    return tensor_item(f, f->plan->inputs.at[i].type, f->plan->b.tensors.at[i]);
}

static Item *tuple_item(Fn *f, const Type *type, uint32_t n)
{
    Item *item = arena_new(f->g->arena, Item);
    *item = (Item){.type = type, .n = (int)n};
    item->fields = arena_new_array(f->g->arena, Item, n + 1);
    return item;
}

static int flatten(const Item *item, TeTensor *out)
{
    if (item->n < 0) {
        out[0] = item->tensor;
        return 1;
    }
    for (int i = 0; i < item->n; i++)
        out[i] = item->fields[i].tensor;
    return item->n;
}

static Item *call_item(Fn *f, const Call *call, const Type *type)
{
    Gen *g = f->g;
    uint32_t n_out = type->kind == TYPE_TUPLE ? type->n : 1, most = 1, n = 0;
    for (uint32_t i = 0; i < call->args.n; i++) {
        const Type *t = fn_type(f, call->args.at[i]);
        most += t->kind == TYPE_TUPLE ? t->n : 1;
    }
    TeTensor *args = arena_new_array(g->arena, TeTensor, most);
    TeTensor *out = arena_new_array(g->arena, TeTensor, n_out + 1);
    for (uint32_t i = 0; i < call->args.n; i++)
        n += (uint32_t)flatten(atom_item(f, call->args.at[i]), args + n);
    const Op *op = expr_call_of_op(&call->base);
    int made =
        te_call(&f->plan->b, op, call->attrs, call->base.span, type, (int)n, args, (int)n_out, out);
    if (made < 0) {
        g->failed = true;
        return NULL;
    }
    if (type->kind != TYPE_TUPLE)
        return tensor_item(f, type, out[0]);
    Item *item = tuple_item(f, type, n_out);
    for (uint32_t i = 0; i < n_out; i++)
        item->fields[i] = (Item){.type = type->parts[i], .n = -1, .tensor = out[i]};
    return item;
}

static Item *let_item(Fn *f, const Waiting *w)
{
    Expr *value = w->let->value;
    const Call *call = expr_as_call(value);
    if (call)
        return call_item(f, call, w->type);
    const TupleGet *get = expr_as_tuple_get(value);
    if (get)
        return &item_of(f->plan, get->tuple)->fields[get->index];
    const Tuple *tuple = expr_as_tuple(value);
    Item *item = tuple_item(f, w->type, tuple->fields.n);
    for (uint32_t i = 0; i < tuple->fields.n; i++)
        item->fields[i] = *atom_item(f, tuple->fields.at[i]);
    return item;
}

/* Whether the variable is used at the current position or behind it. */
static bool is_wanted(Fn *f, const Waiting *w)
{
    return f->at == 0 || live_after(f->live, f->block, f->at - 1, w->let->var);
}

/* Each tensor that is wanted becomes one output, however many variables want it. */
static void want(Plan *p, Arena *arena, Item *item)
{
    for (int i = 0; i < item->n; i++)
        want(p, arena, &item->fields[i]);
    if (item->n >= 0)
        return;
    for (size_t i = 0; i < p->outputs.n && !item->output; i++)
        if (p->outputs.at[i]->tensor.id == item->tensor.id)
            item->output = (int)i + 1;
    if (item->output)
        return;
    vec_push(&p->outputs, arena, item);
    item->output = (int)p->outputs.n;
}

static TeProgram *build_program(Fn *f)
{
    Plan *p = f->plan;
    Gen *g = f->g;
    te_begin(&p->b, g->cx, g->arena);
    for (size_t i = 0; i < p->lets.n; i++)
        ir_children(p->lets.at[i].let->value, add_input, f);
    for (size_t i = 0; i < p->lets.n && !g->failed; i++)
        p->lets.at[i].item = let_item(f, &p->lets.at[i]);
    for (size_t i = 0; i < p->lets.n && !g->failed; i++)
        if (is_wanted(f, &p->lets.at[i]))
            want(p, g->arena, p->lets.at[i].item);
    if (g->failed)
        return NULL;
    TeTensor *outputs = arena_new_array(g->arena, TeTensor, p->outputs.n + 1);
    for (size_t i = 0; i < p->outputs.n; i++)
        outputs[i] = p->outputs.at[i]->tensor;
    TeProgram *program = te_finish(&p->b, (int)p->outputs.n, outputs, true);
    program = program ? te_inline(g->cx, g->arena, program) : NULL;
    g->failed |= program == NULL;
    bool idle = p->outputs.n == 0 && program && program->n_stages == 0;
    return idle ? NULL : program;
}

/* ---- the call ------------------------------------------------------------------------------------------------------------- */

static TensorSite *tensor_site(Gen *g, const Type *t)
{
    TensorSite *site = arena_new(g->arena, TensorSite);
    *site = (TensorSite){.dtype = t->dtype, .rank = (int32_t)t->n, .shape = t->dims};
    return site;
}

/* Lets go of tensors that may be NULL, and of everything else. */
static void leave_if_failed(Fn *f, const Ssa *held, size_t n)
{
    Gen *g = f->g;
    Ssa failed = gen_load(g, g->i32, f->state, offsetof(JitState, failed));
    LLVMBasicBlockRef fail = gen_block(g, f->fn, "fail"), go = gen_block(g, f->fn, "go");
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntNE, failed, gen_int(g->i32, 0), ""), fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    for (size_t i = 0; i < n; i++) {
        Ssa t = held[i];
        gen_call_abi(g, "relay_free_tensor", &t, 1);
    }
    fn_leave(f);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* Inputs must be what their types say, without gaps. */
static size_t hold_inputs(Fn *f, Ssa *held)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    size_t n = 0;
    for (size_t i = 0; i < p->inputs.n; i++) {
        Input *in = &p->inputs.at[i];
        Val *val = ptrmap_find(&f->vals, in->atom);
        if (in->type->n == 0 || (val->fixed && val->dense)) {
            in->value = val->at;
            continue;
        }
        Ssa args[3] = {f->state, val->at, gen_outside(g, tensor_site(g, in->type), "shape")};
        in->held = held[n++] = gen_call_abi(g, "relay_input", args, 3);
    }
    return n;
}

static void make_outputs(Fn *f, const TeProgram *program, Ssa *held, size_t *n)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    for (size_t i = 0; i < p->outputs.n; i++) {
        Item *out = p->outputs.at[i];
        if (program->outputs[i] < program->n_inputs)
            continue;
        if (out->type->n == 0) {
            out->made = fn_room(f, g->i64, 1);
            continue;
        }
        Ssa args[2] = {f->state, gen_outside(g, tensor_site(g, out->type), "shape")};
        out->made = held[(*n)++] = gen_call_abi(g, "relay_tensor", args, 2);
    }
}

static Ssa elements_of(Gen *g, Ssa tensor)
{
    return gen_load(g, g->ptr, tensor, offsetof(Tensor, data));
}

static void call_kernel(Fn *f, const TeProgram *program, Ssa kernel, Ssa scratch)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    Ssa *args = arena_new_array(g->arena, Ssa, p->inputs.n + p->outputs.n + 2);
    unsigned n = 0;
    args[n++] = f->state;
    for (size_t i = 0; i < p->inputs.n; i++) {
        Input *in = &p->inputs.at[i];
        Ssa tensor = in->held ? in->held : in->value;
        args[n++] = in->type->n == 0 ? in->value : elements_of(g, tensor);
    }
    for (size_t i = 0; i < p->outputs.n; i++) {
        Item *out = p->outputs.at[i];
        bool is_input = program->outputs[i] < program->n_inputs;
        args[n++] = is_input            ? LLVMConstNull(g->ptr)
                    : out->type->n == 0 ? out->made
                                        : elements_of(g, out->made);
    }
    args[n++] = scratch ? scratch : LLVMConstNull(g->ptr);
    LLVMBuildCall2(g->b, LLVMGlobalGetValueType(kernel), kernel, args, n, "");
}

/* Scalars are read from their room; an output that is an input is that tensor itself. */
static void read_outputs(Fn *f, const TeProgram *program)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    for (size_t i = 0; i < p->outputs.n; i++) {
        Item *out = p->outputs.at[i];
        if (program->outputs[i] < program->n_inputs) {
            Input *in = &p->inputs.at[program->outputs[i]];
            out->made = in->type->n == 0 || !in->held ? in->value : in->held;
            fn_retain(f, repr_of(out->type), out->made);
        } else if (out->type->n == 0) {
            Ssa v = gen_load(g, gen_stored(g, out->type->dtype), out->made, 0);
            out->made = gen_from_stored(g, out->type->dtype, v);
        }
    }
}

static void release_inputs(Fn *f)
{
    Plan *p = f->plan;
    for (size_t i = 0; i < p->inputs.n; i++)
        if (p->inputs.at[i].held)
            fn_release(f, (Repr){.kind = REPR_TENSOR}, p->inputs.at[i].held);
    for (size_t i = 0; i < f->waiting.n; i++) {
        Val *val = ptrmap_find(&f->vals, f->waiting.at[i]);
        fn_release(f, val->repr, val->at);
    }
    f->waiting.n = 0;
}

/* ---- results ---------------------------------------------------------------------------------------------------------------- */

/* The tensor for one more owner. */
static Ssa give(Fn *f, Item *item)
{
    Item *out = f->plan->outputs.at[item->output - 1];
    if (out->given)
        fn_retain(f, repr_of(out->type), out->made);
    out->given = true;
    return out->made;
}

static void bind_result(Fn *f, const Waiting *w)
{
    Val *val = ptrmap_find(&f->vals, w->let->var);
    Item *item = w->item;
    if (item->n < 0) {
        val->at = give(f, item);
        val->dense = true;
        return;
    }
    Ssa object = fn_object(f, &tuple_info, "tuple", (uint32_t)item->n);
    for (int i = 0; i < item->n; i++)
        fn_set_field(f, object, (uint32_t)i, repr_of(item->fields[i].type),
                     give(f, &item->fields[i]));
    val->at = object;
}

static void run_kernel(Fn *f, const TeProgram *program)
{
    Gen *g = f->g;
    Plan *p = f->plan;
    KernelInput *known = arena_new_array(g->arena, KernelInput, p->inputs.n + 1);
    for (size_t i = 0; i < p->inputs.n; i++) {
        Val *val = ptrmap_find(&f->vals, p->inputs.at[i].atom);
        bool scalar = p->inputs.at[i].type->n == 0;
        known[i].scalar = scalar && LLVMIsConstant(val->at) ? val->at : NULL;
        known[i].tensor = scalar ? NULL : val->tensor;
    }
    size_t bytes = 0, n = 0;
    Ssa kernel = kernel_make(g, program, p->lets.at[0].let->value->span, known, &bytes);
    if (!kernel)
        return;
    Ssa *held = arena_new_array(g->arena, Ssa, p->inputs.n + p->outputs.n + 2), scratch = NULL;
    n = hold_inputs(f, held);
    make_outputs(f, program, held, &n);
    if (bytes > 0) {
        Ssa args[2] = {f->state, gen_int(g->i64, (int64_t)bytes)};
        scratch = gen_call_abi(g, "relay_scratch", args, 2);
    }
    if (n > 0 || scratch)
        leave_if_failed(f, held, n);
    call_kernel(f, program, kernel, scratch);
    leave_if_failed(f, held, n);
    read_outputs(f, program);
    release_inputs(f);
    /* Tuples are made last: making one may fail, and then the tensors have their owners. */
    for (int tuples = 0; tuples < 2; tuples++)
        for (size_t i = 0; i < p->lets.n; i++)
            if (is_wanted(f, &p->lets.at[i]) && (p->lets.at[i].item->n >= 0) == tuples)
                bind_result(f, &p->lets.at[i]);
}

void plan_flush(Fn *f)
{
    Plan *p = f->plan;
    if (p->lets.n == 0 || p->flushing || f->g->failed)
        return;
    p->flushing = true;
    TeProgram *program = build_program(f);
    if (program)
        run_kernel(f, program);
    else
        release_inputs(f);
    p->flushing = false;
    p->lets.n = p->inputs.n = p->outputs.n = 0;
    ptrmap_clear(&p->index);
    ptrmap_clear(&p->input_index);
    ptrmap_clear(&p->reads);
}
