/* The table behind relay_jit_table. */
#include "base/memory.h"
#include "jit/gpu/record.h"
#include "jit/gpu/run.h"
#include "jit/gpu/twin.h"
#include "jit/origin.h"
#include "runtime/cpu.h"
#include "runtime/cuda.h"

#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static void jit_destroy(Jit *jit)
{
    units_free(jit);
    device_close(jit);
    ptrmap_deinit(&jit->infos);
    orc_deinit(jit);
    cache_deinit(&jit->cache);
    stack_free(jit);
    jit_free_scratch(jit);
    free(jit);
}

_Static_assert(sizeof(JitState) <= offsetof(LimitWords, cells), "the state lies in the words");

static Jit *jit_create(Ctx *cx)
{
    Jit *jit = memory_zeroed(1, sizeof *jit);
    if (!jit) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    jit->cx = cx;
    jit->gpu_boxes = true;
    jit->state = (JitState *)(void *)&cx->limits.words;
    jit->state->jit = jit;
    jit->state->interrupted = &cx->limits.interrupted;
    return jit;
}

static bool jit_load(Jit *jit, Module *env, const Name *name, JitKey **key)
{
    const Def *def = module_find(env, name);
    *key = def && def->fn && !jit->steps ? keep_key(jit, env, def) : NULL;
    return *key && !unit_waits(env, name) && unit_kept(jit, env, def, *key);
}

static bool jit_prepare(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why)
{
    if (unit_waits(env, name)) {
        keep_wait(jit, env, module_find(env, name)->fn, key);
        return true;
    }
    jit->key = key;
    bool ok = unit_of(jit, env, name, why) != NULL;
    jit->key = NULL;
    keep_free_key(key);
    return ok;
}

static bool jit_begin(Jit *jit, Module *env, const Name *name, JitKey *key, Buf *why)
{
    return unit_waits(env, name) ? jit_prepare(jit, env, name, key, why)
                                 : unit_begin(jit, env, name, key, why);
}

static bool argument_fits(const Type *t, Value v)
{
    Repr r = repr_of(t);
    if (v.kind != r.value)
        return false;
    if (r.kind == REPR_SCALAR)
        return dtype_eq(v.dtype, r.dtype);
    return r.kind != REPR_TENSOR ||
           (dtype_eq(v.tensor->dtype, r.dtype) && v.tensor->rank == (int32_t)t->n);
}

static bool check_arguments(Jit *jit, const Unit *u, uint32_t n, const Value *args, Span span)
{
    if (n != u->n) {
        diag_error(jit->cx->diags, E0305_ARGUMENTS, span, "`@%s` takes %u arguments, not %u",
                   u->name->text, u->n, n);
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (argument_fits(u->params[i], args[i]))
            continue;
        diag_error(jit->cx->diags, E0305_ARGUMENTS, span, "argument %u of `@%s` is no `%s`", i + 1,
                   u->name->text, type_str(jit->cx, u->params[i]));
        return false;
    }
    return true;
}

static Value jit_call(Jit *jit, Module *env, const Name *name, uint32_t n, const Value *args,
                      Span span, Buf *why)
{
    Unit *u = unit_of_call(jit, env, name, n, args, why);
    if (!u && limit_hit(&jit->cx->limits))
        buf_clear(why);
    if (why->n > 0)
        return value_none();
    if (!u || !check_arguments(jit, u, n, args, span)) {
        values_release(n, args);
        return value_none();
    }
    return unit_call(u, u->entry, n, args);
}

typedef struct TextWanted {
    JitText kind;
    Buf *out;
} TextWanted;

static bool print_code(Gen *g, const TextWanted *w)
{
    Buf own = {0}, *text = g->origins ? &own : w->out;
    bool ok = true;
    if (w->kind == JIT_TEXT_LLVM) {
        char *printed = LLVMPrintModuleToString(g->m);
        buf_str(text, printed);
        LLVMDisposeMessage(printed);
    } else {
        ok = orc_emit(g, NULL, LLVMAssemblyFile, text);
    }
    if (ok && g->origins)
        origins_read(g, w->kind, &own, w->out);
    buf_deinit(&own);
    return ok;
}

static bool print_module(Gen *g, void *data)
{
    TextWanted *w = data;
    if (w->kind == JIT_TEXT_LLVM || w->kind == JIT_TEXT_ASM)
        return print_code(g, w);
    if (w->kind == JIT_TEXT_OBJECT)
        return orc_emit(g, NULL, LLVMObjectFile, w->out);
    if (w->kind == JIT_TEXT_PTX)
        return record_text(g->ptx, w->out);
    return true;
}

static bool jit_text(Jit *jit, Module *env, const Name *name, const JitTextWish *wish, Buf *out)
{
    Buf why = {0};
    TextWanted wanted = {wish->kind, out};
    bool nests = wish->kind == JIT_TEXT_LOWERED || wish->kind == JIT_TEXT_SCHEDULE;
    UnitWish unit = {.target = wish->target,
                     .n = wish->n,
                     .args = wish->args,
                     .lowered = nests ? out : NULL,
                     .places = wish->places,
                     .elsewhere = wish->kind == JIT_TEXT_OBJECT};
    if (wish->kind == JIT_TEXT_PTX && !unit.target)
        unit.target = jit->gpu ? jit->gpu : ptx_target(0);
    bool ok = orc_open(jit, &why);
    jit->report = wish->report;
    if (ok && wish->report)
        wish->report->vector_bytes = (int)cpu_vector_bytes();
    ok = ok && unit_module(jit, env, name, &unit, &why, print_module, &wanted);
    jit->report = NULL;
    if (!ok && why.n > 0)
        diag_error(jit->cx->diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
    buf_deinit(&why);
    return ok;
}

static void jit_forget(Jit *jit, const Module *m)
{
    if (jit->running > 0)
        return;
    jit_free_scratch(jit);
    units_forget(jit, m);
}

static void jit_set_mode(Jit *jit, JitMode mode)
{
    jit->exact = mode.exact;
    jit->tf32 = mode.tf32 && !mode.exact;
    jit->level = mode.level;
    jit->steps = mode.steps;
    jit->gpu = !mode.gpu ? NULL : mode.target ? mode.target : jit->gpu_target;
    jit->clocked = mode.clocked;
    jit->cache.off = !mode.keep;
}

static const char *jit_version(void)
{
    return LLVM_VERSION_STRING;
}

static const char *jit_cpu(Jit *jit, Buf *why)
{
    if (!orc_open(jit, why))
        return NULL;
    return cpu_limit() ? cpu_limit() : jit->orc.cpu;
}

static CudaWork jit_gpu_work(Jit *jit)
{
    return jit->cuda ? cuda_work(jit->cuda) : (CudaWork){0};
}

static void jit_gpu_leave(Jit *jit, bool leave)
{
    jit->gpu_leave = leave;
}

static JitDevice jit_gpu_memory(const Jit *jit)
{
    JitDevice d = {0};
    if (jit->cuda)
        cuda_memory(jit->cuda, &d.used, &d.kept);
    d.twins = twins_count(jit, &d.twin_bytes);
    return d;
}

static const JitTable table = {
    .create = jit_create,
    .destroy = jit_destroy,
    .load = jit_load,
    .free_key = keep_free_key,
    .prepare = jit_prepare,
    .begin = jit_begin,
    .call = jit_call,
    .text = jit_text,
    .save = unit_save,
    .open = unit_open,
    .build = keep_build,
    .features = keep_features,
    .gpu_target = ptx_target,
    .gpu_open = device_open,
    .gpu_work = jit_gpu_work,
    .gpu_leave = jit_gpu_leave,
    .gpu_memory = jit_gpu_memory,
    .forget = jit_forget,
    .set_mode = jit_set_mode,
    .settle = units_settle,
    .counts = unit_counts,
    .clocks = unit_clocks,
    .version_text = jit_version,
    .cpu_name = jit_cpu,
};

const JitTable *relay_jit_table(void)
{
    return &table;
}
