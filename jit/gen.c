/* One module: the entry that C calls, the functions, their beginnings. */
#include "ir/print.h"
#include "ir/walk.h"
#include "jit/gpu/ptx.h"
#include "jit/internal.h"
#include "jit/outline.h"
#include "jit/plan.h"
#include "jit/signature.h"
#include "typecheck/subsume.h"

#include <stdarg.h>
#include <string.h>

bool gen_refuse(Gen *g, const char *format, ...)
{
    if (!g->failed) {
        va_list args;
        va_start(args, format);
        buf_vprintf(g->why, format, args);
        va_end(args);
    }
    g->failed = true;
    return false;
}

bool gen_has(const Gen *g, const char *feature)
{
    return g->device ? !strcmp(feature, "fma") : orc_has(&g->jit->orc, feature);
}

bool gen_ended(Gen *g)
{
    g->failed |= limit_hit(&g->cx->limits);
    return g->failed;
}

/* ---- the beginning of a function ---------------------------------------------------------------------------------- */

/* The function up to its parameters. */
static Span head_span(const Gen *g, const Function *fn)
{
    Span span = fn->base.span;
    const Source *text = span.source ? sources_get(&g->cx->sources, span.source) : NULL;
    for (uint32_t at = span.from; text && at < span.to; at++)
        if (strchr("([{", text->text[at]) && at > span.from) {
            span.to = at;
            break;
        }
    return span;
}

static Ssa stack_pointer(Gen *g)
{
#if defined(__x86_64__)
    const char *name = "rsp";
#else
    const char *name = "sp";
#endif
    LLVMMetadataRef text = LLVMMDStringInContext2(g->c, name, strlen(name));
    Ssa node = LLVMMetadataAsValue(g->c, LLVMMDNodeInContext2(g->c, &text, 1));
    return gen_intrinsic(g, "llvm.read_register", g->i64, &node, 1);
}

/* Instructions of a block that is long. */
#define BLOCK_MOST 400

/* What LLVM does with a block, from selecting instructions to ordering them, takes the square of its length. The branch is one that it
 * cannot see through, or it would put together again what stands around it. */
void fn_cut(Fn *f)
{
    Gen *g = f->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    if (f->counted != here) {
        f->counted = here;
        f->counted_to = NULL;
        f->count = 0;
    }
    Ssa next =
        f->counted_to ? LLVMGetNextInstruction(f->counted_to) : LLVMGetFirstInstruction(here);
    for (; next; next = LLVMGetNextInstruction(next), f->count++)
        f->counted_to = next;
    if (f->count < BLOCK_MOST)
        return;
    LLVMBasicBlockRef other = gen_block(g, f->fn, "other"), go = gen_block(g, f->fn, "go");
    Ssa word = gen_load(g, g->i32, f->state, offsetof(JitState, failed));
    LLVMSetVolatile(word, true);
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntNE, word, gen_int(g->i32, 0), ""), other, go, false);
    LLVMPositionBuilderAtEnd(g->b, other);
    LLVMTypeRef type = LLVMFunctionType(g->nothing, NULL, 0, false);
    Ssa nothing = LLVMGetInlineAsm(type, "", 0, "", 0, true, false, LLVMInlineAsmDialectATT, false);
    LLVMBuildCall2(g->b, type, nothing, NULL, 0, "");
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* One word says both how deep the stack may be and whether the work is to stop. */
void fn_guard(Fn *f)
{
    Gen *g = f->g;
    f->guarded = true;
    if (f->in->around && !f->in->loops) /* the function around it asked */
        return;
    LLVMBasicBlockRef stop = gen_block(g, f->fn, "stop"), go = gen_block(g, f->fn, "go");
    /* In this order they are compared by one instruction. */
    Ssa stack = stack_pointer(g), limit = gen_load(g, g->i64, f->state, offsetof(JitState, guard));
    LLVMSetVolatile(limit, true);
    gen_branch(g, LLVMBuildICmp(g->b, LLVMIntULT, stack, limit, ""), stop, go, false);
    LLVMPositionBuilderAtEnd(g->b, stop);
    Ssa what[4] = {f->state};
    gen_span(g, head_span(g, f->in->fn), what + 1);
    gen_call_rare(g, "relay_stop", what, 4);
    fn_leave(f);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* Calls to itself in tail position come back to here with other arguments. */
static void make_loop(Fn *f, Ssa *args)
{
    Gen *g = f->g;
    LLVMBasicBlockRef here = LLVMGetInsertBlock(g->b);
    f->loop = gen_block(g, f->fn, "loop");
    LLVMBuildBr(g->b, f->loop);
    LLVMPositionBuilderAtEnd(g->b, f->loop);
    f->phis = arena_new_array(g->arena, Ssa, f->in->n + 1);
    for (uint32_t i = 0; i < f->in->n; i++) {
        f->phis[i] = LLVMBuildPhi(g->b, LLVMTypeOf(args[i]), "");
        LLVMAddIncoming(f->phis[i], &args[i], &here, 1);
        if (!instance_is_lent(f->in, i))
            own_phi(f, f->phis[i]);
        args[i] = f->phis[i];
    }
}

/* Functions around a literal that it calls and need not take along: Var -> Instance. */
static const PtrMap *known_of(const Instance *in)
{
    return in->of ? &in->of->known : &in->known;
}

static Ssa captured(Fn *f, uint32_t i)
{
    if (f->in->terms.spread)
        return LLVMBuildExtractValue(f->g->b, f->self, i, "");
    return fn_get_field(f, f->self, FUNCTION_CAPTURED + i, repr_of(f->in->captures.at[i].type));
}

/* Nobody wants the closure beyond what it captured: when nobody else holds it that moves out of it, and its cell is there
 * for what comes. */
static void open_self(Fn *f, const Ssa *values)
{
    Gen *g = f->g;
    const Instance *in = f->in;
    uint32_t n = (uint32_t)in->captures.n;
    LLVMBasicBlockRef alone = gen_block(g, f->fn, "alone"), shared = gen_block(g, f->fn, "shared");
    LLVMBasicBlockRef go = gen_block(g, f->fn, "go");
    Ssa refs = gen_load(g, g->i32, f->self, offsetof(Object, refs));
    LLVMBuildCondBr(g->b, LLVMBuildICmp(g->b, LLVMIntEQ, refs, gen_int(g->i32, 1), ""), alone,
                    shared);
    LLVMPositionBuilderAtEnd(g->b, alone);
    for (uint32_t i = 0; i < n; i++)
        own_gain(f, values[i]);
    bool kept = fn_wants_cell(f, FUNCTION_CAPTURED + n);
    if (!kept)
        fn_free_cell(f, f->self, FUNCTION_CAPTURED + n);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, shared);
    for (uint32_t i = 0; i < n; i++)
        fn_retain(f, repr_of(in->captures.at[i].type), values[i]);
    fn_release_shared(f, (Repr){.kind = REPR_OBJECT, .mortal = true}, f->self, refs);
    shared = LLVMGetInsertBlock(g->b);
    LLVMBuildBr(g->b, go);
    LLVMPositionBuilderAtEnd(g->b, go);
    if (kept)
        fn_keep_moved(f, f->self, FUNCTION_CAPTURED + n, alone, shared);
}

/* What nobody uses is let go of where it is bound, and what is lent is not ours. */
static Val *bind_lent(Fn *f, const Var *v, const Type *type, Ssa at, bool lent)
{
    Val *val = fn_bind(f, v, type, lent ? NULL : at);
    val->at = at;
    val->lent = val->stays = lent;
    return val;
}

static void bind_captures(Fn *f)
{
    Instance *in = f->in;
    Ssa *values = arena_new_array(f->g->arena, Ssa, in->captures.n + 1);
    for (uint32_t i = 0; i < in->captures.n; i++)
        values[i] = captured(f, i);
    bool wanted = in->self_var && ptrmap_has(&f->live->root->last, in->self_var);
    bool lent = in->terms.lends_self || in->terms.spread;
    bool opens = f->self && !wanted && !in->of && !lent && closure_is_plain(f->g, in);
    if (opens)
        open_self(f, values);
    for (uint32_t i = 0; i < in->captures.n; i++) {
        Capture *c = &in->captures.at[i];
        if (!opens && !lent)
            fn_retain(f, repr_of(c->type), values[i]);
        bind_lent(f, c->var, c->type, values[i], lent)->known = c->known;
    }
    const PtrMap *known = known_of(in);
    for (size_t i = 0; i < known->n; i++) {
        Instance *one = known->entries[i].value;
        fn_bind(f, known->entries[i].key, one->fn->base.type, NULL)->known = one;
    }
    if (in->self_var && !opens) {
        Val *self =
            bind_lent(f, in->self_var, instance_type(f->g, in, in->fn->base.type), f->self, lent);
        self->known = in->of ? in->of : in->own ? in->own : in->front ? in->front : in;
        self->spread = in->terms.spread;
    } else if (f->self && !opens && !lent)
        fn_release(f, (Repr){.kind = REPR_OBJECT}, f->self);
}

static Live *live_of(Gen *g, const Instance *in)
{
    uint32_t n = 0;
    Var **captured = arena_new_array(g->arena, Var *, in->captures.n + 1);
    for (size_t i = 0; i < in->captures.n; i++)
        captured[n++] = in->captures.at[i].var;
    if (in->self_var && in->has_self)
        captured[n++] = in->self_var;
    const PtrMap *known = known_of(in);
    const Var **parts = arena_new_array(g->arena, const Var *, known->n + 1);
    uint32_t n_parts = 0;
    for (size_t i = 0; i < known->n; i++) {
        const Instance *one = known->entries[i].value;
        if (one->fn && function_is_part(one->fn))
            parts[n_parts++] = known->entries[i].key;
    }
    return live_make(g->arena, in->fn, n, captured, n_parts, parts);
}

/* What the front has let go of already is not ours either. */
static bool comes_lent(const Fn *f, uint32_t i)
{
    return instance_is_lent(f->in, i) || (f->in->front && fn_let_go(f, i));
}

static void bind_param(Fn *f, uint32_t i, Ssa at)
{
    const Instance *in = f->in;
    bool without = instance_goes_without(in, i);
    Val *val = bind_lent(f, in->fn->params.at[i], in->params[i], without ? NULL : at,
                         comes_lent(f, i) && !without);
    val->known = instance_given(in, i);
    val->spread = instance_takes_spread(in, i);
}

static void make_body(Fn *f)
{
    Gen *g = f->g;
    Instance *in = f->in;
    Ssa *args = arena_new_array(g->arena, Ssa, in->n + 1);
    for (uint32_t i = 0; i < in->n; i++)
        args[i] = LLVMGetParam(f->fn, i + 1 + in->has_self);
    LLVMBasicBlockRef start = gen_block(g, f->fn, "start");
    LLVMPositionBuilderAtEnd(g->b, start);
    for (uint32_t i = 0; i < in->n; i++)
        if (!comes_lent(f, i))
            own_make(f, args[i]);
    if (f->self && !in->terms.lends_self && !in->terms.spread)
        own_make(f, f->self);
    if (f->live->calls && !in->front && (!in->has_self || in->terms.lends_self))
        make_loop(f, args);
    frame_begin(f);
    f->block = f->live->root;
    f->tail = true;
    if (in->terms.spare) {
        Ssa spare = LLVMGetParam(f->fn, 1 + in->has_self + in->n);
        own_make(f, spare);
        fn_keep_cell(f, spare, in->terms.spare, false);
    }
    for (uint32_t i = 0; i < in->n; i++)
        bind_param(f, i, args[i]);
    bind_captures(f);
    f->wants_fields = in->gives_fields;
    fn_block(f, f->live->root, in->result, true, NULL, NULL);
    frame_end(f);
    LLVMPositionBuilderAtEnd(g->b, f->entry);
    LLVMBuildBr(g->b, start);
}

/* The function as it is compiled; its loops follow. */
static void show_lowered(Gen *g, const Instance *in)
{
    if (!g->lowered || g->jit->report || in->front)
        return;
    buf_printf(g->lowered, "%s%s = ", g->lowered->n > 0 ? "\n" : "", in->name);
    ir_print_expr(g->lowered, &in->fn->base, (PrintStyle){.no_header = true, .no_metadata = true});
    buf_char(g->lowered, '\n');
}

/* Lets of a function that is worth a module of its own. */
#define STRAIGHT_LEAST 100
/* Operations of kernels for an instruction of the code that calls them: beside these nobody notices what the code is like. */
#define OPERATIONS_LEAST 1e4

/* Constructors that a front tells apart by comparisons: in a tree they come without order, and each comparison is foreseen better
 * than one jump through a table. */
#define WAYS_MOST 7

/* What does not fit at all was proved to by the checker: a function whose tuples come field by field here has another type under another name. */
static bool suits(void *data, const Use *use)
{
    Gen *g = data;
    Fit fit = type_fit(g->cx, &g->holders, use->found, use->needed);
    ExprKind kind = use->value->kind;
    bool elsewhere = kind == EXPR_CALL || kind == EXPR_TUPLE_GET || kind == EXPR_REF_READ;
    bool made = fit == FIT_CALLED_AT_ONE && use->slot && !elsewhere;
    return fit == FIT_AS_IT_IS || fit == FIT_NOT || made ||
           gen_refuse(g, "a value of type `%s` stands where `%s` is wanted",
                      type_str(g->cx, use->found), type_str(g->cx, use->needed));
}

/* Those of a function inside too: it may be made when the code runs, and then it is too late. */
static WalkNext look_at_uses(void *data, const Expr *e)
{
    Gen *g = data;
    if (e->kind == EXPR_FUNCTION)
        ptrmap_put(&g->looked_at, e, g);
    return expr_uses(g->cx, e, suits, g) ? WALK_ON : WALK_STOP;
}

/* A polymorphic function has code once it is known at which types it is called: where it is used itself as one of a single type, that is made,
 * but what holds it is a value already. Of many instances the first one asks. */
bool function_uses_suit(Gen *g, const Function *fn)
{
    if (ptrmap_has(&g->looked_at, fn))
        return true;
    ptrmap_put(&g->looked_at, fn, g);
    return ir_walk(&fn->base, look_at_uses, NULL, g);
}

bool function_make(Gen *g, Instance *in)
{
    if (!function_uses_suit(g, in->fn))
        return false;
    Live *live = live_of(g, in);
    /* Each of its instructions is run once, as its kernels are. */
    bool straight = live->size >= STRAIGHT_LEAST && !live->calls && !in->around && !g->alone;
    if (g->plain || (straight && g->instructions > 0))
        gen_turn(g);
    instance_enter(g, in);
    g->operations = 0;
    Fn f = {.g = g,
            .in = in,
            .fn = in->value,
            .live = live,
            .front = live->copies == 0 && instance_has_front(in)};
    if (f.front || in->front)
        live->root->calls = false; /* each clause asks by itself */
    g->size += f.live->size;
    show_lowered(g, in);
    gen_attribute(g, f.fn, "nounwind");
    f.state = LLVMGetParam(f.fn, 0);
    f.self = in->has_self ? LLVMGetParam(f.fn, 1) : NULL;
    LLVMSetValueName2(f.state, "state", 5);
    f.entry = gen_block(g, f.fn, "entry");
    plan_begin(&f);
    own_begin(&f);
    make_body(&f);
    own_end(&f);
    plan_end(&f);
    if (f.front && f.ways <= WAYS_MOST)
        gen_compare_tags(g, f.fn);
    ptrmap_deinit(&f.vals);
    ptrmap_deinit(&f.sizes);
    ptrmap_deinit(&f.last_sizes);
    g->unit->nests |= f.live->nests;
    g->calls |= f.live->calls;
    uint32_t made = orc_instructions(f.fn);
    g->instructions += made;
    g->plain = straight && g->operations >= OPERATIONS_LEAST * made;
    return !g->failed;
}

/* ---- the entry -------------------------------------------------------------------------------------------------------- */

/* void (state, args, out): arguments are taken. */
static void make_entry(Gen *g, Instance *in)
{
    LLVMTypeRef params[3] = {g->ptr, g->ptr, g->ptr};
    LLVMTypeRef type = LLVMFunctionType(g->nothing, params, 3, false);
    Fn f = {.g = g, .in = in};
    instance_enter(g, in);
    g->entry = orc_name(g->jit, g->arena, "entry");
    f.fn = LLVMAddFunction(g->m, g->entry, type);
    LLVMPositionBuilderAtEnd(g->b, gen_block(g, f.fn, ""));
    Ssa *args = arena_new_array(g->arena, Ssa, in->n + 1);
    args[0] = f.state = LLVMGetParam(f.fn, 0);
    for (uint32_t i = 0; i < in->n; i++) {
        fn_cut(&f);
        args[i + 1] = gen_argument(g, repr_of(in->params[i]), LLVMGetParam(f.fn, 1), i);
    }
    gen_give_back(&f, in->type, in->value, args, in->n + 1, in->result);
}

/* A value of this type may bring functions along that were made elsewhere, or carry some away. */
static bool is_open(const Instance *in)
{
    bool open = type_holds_function(in->result);
    for (uint32_t i = 0; i < in->n && !open; i++)
        open = type_holds_function(in->params[i]);
    return open;
}

/* A polymorphic function has no code before somebody says at which types it is called. Compiled code says so and calls any that comes
 * in; what goes out may be called by those who cannot say. */
static bool check_interface(Gen *g, const Instance *in)
{
    for (uint32_t i = 0; i < in->n; i++) {
        const Type *t = in->params[i];
        if (type_holds_polymorphic(t) && (t->kind != TYPE_FUNC || t->n_params == 0))
            return gen_refuse(g, "a polymorphic function may leave `@%s` through `%%%s`", in->name,
                              in->fn->params.at[i]->name->text);
    }
    if (type_holds_polymorphic(in->result))
        return gen_refuse(g, "the result of `@%s` holds a polymorphic function", in->name);
    return true;
}

/* Instructions of one module: LLVM takes a few hundredths of a second for them, and hears nothing in it. */
#define MODULE_MOST 3000
/* Modules that wait for the others. */
#define FULL_MOST 64

static bool make_all(Gen *g)
{
    while (g->done < g->todo.n && !gen_ended(g)) {
        if (g->instructions > MODULE_MOST && !g->alone)
            gen_turn(g);
        if (g->full.n >= FULL_MOST && orc_is_plain(g) && !g->again && !gen_empty(g))
            return false;
        function_make(g, g->todo.at[g->done++]);
    }
    g->once = !g->calls;
    if (!g->failed)
        closure_table(g);
    if (!g->failed) {
        conventions_choose(g);
        fronts_choose(g);
    }
    if (!g->failed && g->device_code)
        g->failed = !ptx_keep(g->ptx);
    return !g->failed;
}

bool gen_unit(Gen *g, const Function *fn)
{
    uint32_t n = fn->params.n;
    if (fn->type_params.n > 0)
        return gen_refuse(g, "`@%s` is polymorphic", g->unit->name->text);
    const Type **types = arena_new_array(g->arena, const Type *, n + 1);
    for (uint32_t i = 0; i < n; i++)
        types[i] = fn->params.at[i]->base.type;
    GlobalUse use = {.name = g->unit->name, .n = n, .args = types, .shapes = g->unit->shapes};
    signatures_find(g, use.name);
    if (g->failed)
        return false;
    Instance *in = instance_of_global(g, &use);
    if (!in || !check_interface(g, in))
        return false;
    g->unit->n = in->n;
    g->unit->params = in->params;
    g->unit->result = in->result;
    g->unit->open = is_open(in);
    g->out->wish = (LateWish){.kind = LATE_ENTRY};
    make_entry(g, in);
    return make_all(g);
}

bool gen_again(Gen *g)
{
    for (size_t i = 0; i < g->unit->infos.n; i++)
        if (!g->unit->infos.at[i]->in->open)
            closure_list(g, g->unit->infos.at[i]->in);
    return make_all(g);
}

static Instance *wished(Gen *g, LateWish wish)
{
    Instance *in = late_wanted(g->unit, wish);
    if (wish.type)
        return instance_at(g, in, wish.type->n, wish.type->parts, wish.type->result);
    if (!wish.shapes)
        return in;
    GlobalUse use = {in->global, in->n, in->params, wish.shapes, NULL, in->n_vars, in->types, true};
    return instance_of_global(g, &use);
}

bool gen_late(Gen *g, LateWish wish)
{
    Instance *in = wished(g, wish);
    g->out->wish = wish;
    if (!in)
        return false;
    instance_enter(g, in);
    g->late = in;
    g->late_thunk = wish.type != NULL;
    return make_all(g);
}
