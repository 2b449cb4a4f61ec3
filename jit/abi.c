/* The functions that generated code may call.
 *
 * Those that can fail set `failed` of the state after the diagnostic. Pointers to values are to `n` of them on the caller's stack. */
#include "jit/gpu/run.h"
#include "jit/gpu/twin.h"
#include "jit/internal.h"
#include "runtime/heap.h"
#include "runtime/show.h"
#include "te/op_eval.h"
#include "te/te.h"

#include <assert.h>
#include <math.h>
#include <string.h>

/* Whoever calls aligns the stack (align.c). */
static Limits *limits_of(JitState *s)
{
    assert((uintptr_t)__builtin_frame_address(0) % 16 == 0);
    return &s->jit->cx->limits;
}

/* What code still calls before it is back where it was called from stops at its guard. */
static void fails(JitState *s)
{
    s->failed = 1;
    atomic_store(&s->guard, UINTPTR_MAX);
}

/* Elements that are on a card alone come here, before something reads them. */
static void abi_home(JitState *s)
{
    if (!twins_home(s->jit))
        fails(s);
}

/* ---- objects ---------------------------------------------------------------------------------------------- */

/* Fields are filled in by the code at once, without a call in between. */
static Object *abi_object(JitState *s, uint64_t first)
{
    Object like;
    memcpy(&like, &first, sizeof first);
    Object *o = object_of_form(limits_of(s), object_form(&like));
    if (!o)
        fails(s);
    return o;
}

/* A closure keeps its unit alive. */
static void abi_count_unit(const FunctionInfo *info)
{
    info->unit->refs++;
}

static uint32_t abi_tag(const Object *o)
{
    return object_info(o)->tag;
}

static void abi_too_deep(JitState *s, int32_t source, int32_t from, int32_t to);

/* Calls a function that is not compiled; the arguments stay. */
static void abi_apply(JitState *s, Object *fn, uint32_t n, const Value *args, Value *out)
{
    *out = value_none();
    abi_home(s);
    if (s->failed)
        return;
    if ((const char *)__builtin_frame_address(0) < s->stack_limit)
        abi_too_deep(s, 0, 0, 0);
    else
        *out = function_kind(fn)->call(fn, n, args);
    if (value_is_none(*out))
        fails(s);
}

/* A module is compiled in the midst of a run: that needs more room than a frame. */
#define ROOM_TO_COMPILE ((ptrdiff_t)4 << 20)

/* Whether code may be made for the unit now; what says no has failed. */
static bool may_compile(JitState *s, Unit *u)
{
    const char *here = __builtin_frame_address(0);
    const Jit *jit = s->jit;
    bool there = jit->stack && here >= jit->stack && here < jit->stack + jit->stack_size;
    abi_home(s);
    if (s->failed)
        return false;
    if (there && here - jit->stack < ROOM_TO_COMPILE)
        abi_too_deep(s, 0, 0, 0);
    else if (unit_wake(u))
        return true;
    fails(s);
    return false;
}

static void *late(JitState *s, Unit *u, LateWish wish)
{
    void *code = may_compile(s, u) ? unit_late(u, wish) : NULL;
    if (!code && !s->failed && !wish.shapes)
        fails(s);
    return code;
}

static bool shape_fits(const Type *t, const Value *v)
{
    if (v->kind == VALUE_TENSOR && t->kind == TYPE_TENSOR)
        return (uint32_t)v->tensor->rank == t->n &&
               memcmp(v->tensor->shape, t->dims, t->n * sizeof *t->dims) == 0;
    bool fits = true;
    for (uint32_t i = 0; v->kind == VALUE_TUPLE && i < t->n && fits; i++) {
        Value field = object_get(v->object, i);
        fits = t->parts[i]->kind == TYPE_ADT || shape_fits(t->parts[i], &field);
    }
    return fits;
}

/* Values whose shapes are known in the site's types have the kind NONE. */
static void *find_variant(const VariantSite *site, const Value *args)
{
    for (uint32_t i = 0; i < site->n; i++) {
        bool fits = true;
        for (uint32_t k = 0; k < site->n_args && fits; k++)
            fits = shape_fits(site->variants[i].shapes[k], &args[k]);
        if (fits)
            return site->variants[i].code;
    }
    return NULL;
}

static void *generic_variant(JitState *s, VariantSite *site)
{
    if (!site->generic)
        late(s, site->unit, (LateWish){.kind = LATE_GENERIC, .number = site->number});
    return site->generic;
}

static void *new_variant(JitState *s, VariantSite *site, const Value *args)
{
    if (!may_compile(s, site->unit))
        return NULL;
    Instance *in = site->in;
    const Type **shapes = arena_new_array(&site->unit->arena, const Type *, in->n + 1);
    for (uint32_t i = 0; i < in->n; i++)
        shapes[i] = shapes_of_value(s->jit->cx, in->params[i], args[i]);
    LateWish wish = {.kind = LATE_SHAPES, .number = site->number, .shapes = shapes};
    void *code = late(s, site->unit, wish);
    if (!code && !s->failed && s->jit->cx->limits.hit == LIMIT_NONE) {
        code = generic_variant(s, site);
        if (code)
            late_made(site->unit, wish, code);
    }
    return code;
}

/* The code for arguments of these shapes. NULL after a diagnostic. */
static void *abi_variant(JitState *s, VariantSite *site, const Value *args)
{
    void *code = find_variant(site, args);
    if (code)
        return code;
    return site->n < VARIANTS_MOST ? new_variant(s, site, args) : generic_variant(s, site);
}

static void *abi_late(JitState *s, LateSite *site)
{
    if (!site->code)
        late(s, site->unit, (LateWish){.kind = LATE_SITE, .number = site->number});
    return site->code;
}

/* The code of a polymorphic closure at this type; NULL when it is not compiled, or after a diagnostic. */
static void *abi_instantiate(JitState *s, Object *fn, const Type *type)
{
    if (function_kind(fn) != &compiled_functions)
        return NULL;
    FunctionInfo *info = (FunctionInfo *)(uintptr_t)object_info(fn);
    void *code = ptrmap_find(&info->at, type);
    return code ? code
                : late(s, info->unit,
                       (LateWish){.kind = LATE_TYPE, .number = info->number, .type = type});
}

/* One reference is given up. */
static void abi_free_object(Object *o)
{
    object_release(o);
}

/* The memory of an object whose fields were moved out; NULL for none. */
static void abi_free_cell(Object *o)
{
    if (o)
        object_free(o);
}

static void abi_release_value(const Value *v)
{
    value_release(*v);
}

/* ---- loops on all threads ------------------------------------------------------------------------------------ */

/* What code puts before the bases of its buffers, so that a thread that takes a part looks in one place. */
typedef struct PartWords {
    const JitState *s;
    void (*part)(void *words, int64_t from, int64_t to);
} PartWords;

/* Once one part was to stop, the others do not begin. */
static void run_part(void *data, int64_t from, int64_t to)
{
    const PartWords *words = data;
    if (!atomic_load_explicit(words->s->interrupted, memory_order_relaxed))
        words->part(data, from, to);
}

/* Parts for each thread: more than one, so that a slow thread does not hold up the rest; few, as to take one costs a cache line from
 * another core. */
#define PARTS_EACH 8

static void abi_parts(JitState *s, int64_t n, void *words)
{
    Pool *pool = s->jit->cx->pool;
    pool_share(pool, n, n / ((int64_t)pool_threads(pool) * PARTS_EACH), run_part, words);
}

/* ---- tensors ---------------------------------------------------------------------------------------------- */

static Tensor *abi_tensor(JitState *s, const TensorSite *site)
{
    Tensor *t = tensor_new_raw(limits_of(s), site->dtype, site->rank, site->shape);
    if (!t)
        fails(s);
    return t;
}

/* Memory for one kernel's run. Kernels never run inside each other, so all share one block, which stays. */
static char *abi_scratch(JitState *s, int64_t bytes)
{
    if (jit_scratch(s->jit, (size_t)bytes))
        return s->jit->scratch;
    fails(s);
    return NULL;
}

static void abi_free_tensor(Tensor *t)
{
    tensor_release(t);
}

/* What a function owned that failed: the number of places, and in each nothing, a tensor, or an object with its lowest bit set. */
static void abi_leave(const uintptr_t *frame)
{
    for (uintptr_t i = 1; i <= frame[0]; i++)
        if (frame[i] & 1)
            object_release((Object *)(frame[i] - 1));
        else if (frame[i])
            tensor_release((Tensor *)frame[i]);
}

static bool shape_is(const Tensor *t, const TensorSite *site)
{
    if (t->rank != site->rank || !dtype_eq(t->dtype, site->dtype))
        return false;
    for (int32_t i = 0; i < t->rank; i++)
        if (site->shape[i] >= 0 && t->shape[i] != site->shape[i])
            return false;
    return true;
}

/* The tensor as its type has it, without gaps, owned by the caller. NULL when an extent that was known only now is another one. */
static Tensor *abi_input(JitState *s, const Tensor *t, const TensorSite *site)
{
    Ctx *cx = s->jit->cx;
    if (s->failed)
        return NULL;
    if (!shape_is(t, site)) {
        const Type *wanted = type_tensor(cx, site->dtype, (uint32_t)site->rank, site->shape);
        diag_error(cx->diags, E0303_RUNTIME_SHAPE, (Span){0},
                   "a `%s` stands where `%s` is expected", type_str(cx, type_of_tensor(cx, t)),
                   type_str(cx, wanted));
        fails(s);
        return NULL;
    }
    if (!tensor_is_contiguous(t))
        abi_home(s);
    Tensor *c = tensor_contiguous(limits_of(s), t);
    if (!c)
        fails(s);
    return c;
}

/* A run on the card. */
static void abi_device(JitState *s, DeviceRun *run, const DeviceValue *values)
{
    if (!device_run(run, values))
        fails(s);
}

static double abi_clock(void)
{
    return clock_seconds();
}

static void abi_clocked(JitClock *c, double begun)
{
    double seconds = clock_seconds() - begun;
    c->least = c->calls++ && c->least < seconds ? c->least : seconds;
    c->all += seconds;
}

/* ---- operators ---------------------------------------------------------------------------------------------- */

static void abi_op(JitState *s, const OpSite *site, const Value *args, Value *out)
{
    abi_home(s);
    *out = s->failed ? value_none()
                     : (site->last ? op_eval_last : op_eval)(s->jit->cx, site->op, site->attrs,
                                                             site->span, site->n, args);
    if (value_is_none(*out))
        fails(s);
}

/* As many products as `batch`. */
#define GEMM(name, gemm, type)                                                               \
    static void name(JitState *s, const type *a, const type *b, type *c, const GemmSite *g)  \
    {                                                                                        \
        for (int64_t i = 0; i < g->batch && !atomic_load(s->interrupted); i++)               \
            gemm(s->jit->cx->blas, g->transpose_a, g->transpose_b, g->m, g->n, g->k, 1,      \
                 a + i * g->step_a, g->lda, b + i * g->step_b, g->ldb, 0, c + i * g->step_c, \
                 g->ldc);                                                                    \
        if (limit_hit(limits_of(s)))                                                         \
            fails(s);                                                                        \
    }
GEMM(abi_sgemm, blas_sgemm, float)
GEMM(abi_dgemm, blas_dgemm, double)
#undef GEMM

/* ---- what goes wrong ---------------------------------------------------------------------------------------- */

static Span span_of(int32_t source, int32_t from, int32_t to)
{
    return (Span){(uint32_t)source, (uint32_t)from, (uint32_t)to};
}

static void abi_divided_by_zero(JitState *s, int32_t source, int32_t from, int32_t to)
{
    if (!s->failed)
        te_fault(s->jit->cx->diags, span_of(source, from, to), TE_FAULT_ZERO);
    fails(s);
}

static void abi_bad_shift(JitState *s, int32_t source, int32_t from, int32_t to)
{
    if (!s->failed)
        te_fault(s->jit->cx->diags, span_of(source, from, to), TE_FAULT_SHIFT);
    fails(s);
}

static void abi_bad_place(JitState *s, int32_t source, int32_t from, int32_t to)
{
    if (!s->failed)
        te_fault(s->jit->cx->diags, span_of(source, from, to), TE_FAULT_PLACE);
    fails(s);
}

static void abi_no_match(JitState *s, const Value *v, int32_t source, int32_t from, int32_t to)
{
    Buf text = {0};
    abi_home(s);
    if (s->failed)
        return;
    value_show(&text, *v, (ShowStyle){.elements = 20, .list = 20, .exact = true});
    Diag *d = diag_error(s->jit->cx->diags, E0301_NO_MATCH, span_of(source, from, to),
                         "no clause of the match fits the value");
    diag_note(d, "the value is %s", buf_text(&text));
    diag_help(d, "add a clause for it: `match` without `?` is checked for missing ones");
    buf_deinit(&text);
    fails(s);
}

/* The place is the function that was called once too often. */
static void abi_too_deep(JitState *s, int32_t source, int32_t from, int32_t to)
{
    Diags *ds = s->jit->cx->diags;
    const Diag *before = ds->last;
    limit_reach(limits_of(s), LIMIT_DEPTH);
    if (ds->last != before)
        ds->last->span = span_of(source, from, to);
    fails(s);
}

/* The interrupt flag was seen. */
static void abi_stopped(JitState *s)
{
    limit_hit(limits_of(s));
    fails(s);
}

/* The guard was reached. */
static void abi_stop(JitState *s, int32_t source, int32_t from, int32_t to)
{
    if (s->failed)
        return;
    if (atomic_load(s->interrupted))
        abi_stopped(s);
    else
        abi_too_deep(s, source, from, to);
}

/* ---- the table ---------------------------------------------------------------------------------------------- */

#define ADDRESS(fn) ((void *)(uintptr_t)(fn))
#define MATH1(name) {#name "f", ADDRESS(name##f), "ff"}, {#name, ADDRESS(name), "dd"}
#define MATH2(name) {#name "f", ADDRESS(name##f), "fff"}, {#name, ADDRESS(name), "ddd"}

const AbiRow abi_table[] = {
    {"relay_home", ADDRESS(abi_home), "vp"},
    {"relay_object", ADDRESS(abi_object), "ppl"},
    {"relay_count_unit", ADDRESS(abi_count_unit), "vp"},
    {"relay_tag", ADDRESS(abi_tag), "ip"},
    {"relay_apply", ADDRESS(abi_apply), "vppipp"},
    {"relay_late", ADDRESS(abi_late), "ppp"},
    {"relay_variant", ADDRESS(abi_variant), "pppp"},
    {"relay_instantiate", ADDRESS(abi_instantiate), "pppp"},
    {"relay_free_object", ADDRESS(abi_free_object), "vp"},
    {"relay_free_cell", ADDRESS(abi_free_cell), "vp"},
    {"relay_release_value", ADDRESS(abi_release_value), "vp"},
    {"relay_tensor", ADDRESS(abi_tensor), "ppp"},
    {"relay_scratch", ADDRESS(abi_scratch), "ppl"},
    {"relay_leave", ADDRESS(abi_leave), "vp"},
    {"relay_free_tensor", ADDRESS(abi_free_tensor), "vp"},
    {"relay_input", ADDRESS(abi_input), "pppp"},
    {"relay_device", ADDRESS(abi_device), "vppp"},
    {"relay_clock", ADDRESS(abi_clock), "d"},
    {"relay_clocked", ADDRESS(abi_clocked), "vpd"},
    {"relay_op", ADDRESS(abi_op), "vpppp"},
    {"relay_parts", ADDRESS(abi_parts), "vplp"},
    {"relay_sgemm", ADDRESS(abi_sgemm), "vppppp"},
    {"relay_dgemm", ADDRESS(abi_dgemm), "vppppp"},
    {"relay_divided_by_zero", ADDRESS(abi_divided_by_zero), "vpiii"},
    {"relay_bad_place", ADDRESS(abi_bad_place), "vpiii"},
    {"relay_bad_shift", ADDRESS(abi_bad_shift), "vpiii"},
    {"relay_no_match", ADDRESS(abi_no_match), "vppiii"},
    {"relay_stop", ADDRESS(abi_stop), "vpiii"},
    {"relay_stopped", ADDRESS(abi_stopped), "vp"},
    {"memcpy", ADDRESS(memcpy), "pppl"},
    {"memset", ADDRESS(memset), "ppil"},
    {"memmove", ADDRESS(memmove), "pppl"},
    MATH1(exp),
    MATH1(log),
    MATH1(log2),
    MATH1(log10),
    MATH1(tanh),
    MATH1(erf),
    MATH1(sin),
    MATH1(cos),
    MATH1(tan),
    MATH1(sinh),
    MATH1(cosh),
    MATH1(asin),
    MATH1(acos),
    MATH1(atan),
    MATH1(asinh),
    MATH1(acosh),
    MATH1(atanh),
    MATH1(floor),
    MATH1(ceil),
    MATH1(trunc),
    MATH1(round),
    MATH1(rint),
    MATH2(pow),
    MATH2(fmod),
    MATH2(fma),
    {0},
};
