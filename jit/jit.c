/* The table behind relay_jit_table: units and their cache, calls, texts. */
#include "jit/internal.h"
#include "jit/watch.h"

#include <llvm-c/Target.h>
#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <string.h>

/* ---- making a unit ---------------------------------------------------------------------------------------------- */

static void gen_init(Gen *g, Jit *jit, Unit *u, Buf *why)
{
    *g = (Gen){
        .jit = jit, .cx = jit->cx, .unit = u, .env = u->env, .code = u->code, .arena = &u->arena};
    g->why = why;
    g->c = LLVMContextCreate();
    g->m = LLVMModuleCreateWithNameInContext(u->name->text, g->c);
    LLVMSetTarget(g->m, jit->orc.triple);
    LLVMSetDataLayout(g->m, jit->orc.layout);
    g->b = LLVMCreateBuilderInContext(g->c);
    g->i1 = LLVMInt1TypeInContext(g->c);
    g->i8 = LLVMInt8TypeInContext(g->c);
    g->i16 = LLVMInt16TypeInContext(g->c);
    g->i32 = LLVMInt32TypeInContext(g->c);
    g->i64 = LLVMInt64TypeInContext(g->c);
    g->f32 = LLVMFloatTypeInContext(g->c);
    g->f64 = LLVMDoubleTypeInContext(g->c);
    g->ptr = LLVMPointerTypeInContext(g->c, 0);
    g->nothing = LLVMVoidTypeInContext(g->c);
}

static void gen_deinit(Gen *g)
{
    LLVMDisposeBuilder(g->b);
    LLVMDisposeModule(g->m);
    LLVMContextDispose(g->c);
    ptrmap_deinit(&g->anf);
    ptrmap_deinit(&g->abi);
    ptrmap_deinit(&g->outside);
}

static Unit *unit_new(Jit *jit, Module *env, const Name *name)
{
    Unit *u = calloc(1, sizeof *u);
    Module *code = u ? module_new(jit->cx) : NULL;
    if (!code) {
        free(u);
        limit_reach(&jit->cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    arena_init(&u->arena, &jit->cx->limits);
    u->jit = jit;
    u->name = name;
    u->env = module_retain(env);
    u->code = code;
    return u;
}

static void unit_free(Unit *u)
{
    orc_remove(u->jit, u->tracker);
    arena_deinit(&u->arena);
    module_release(u->code);
    module_release(u->env);
    free(u);
}

/* Makes the module and hands it to `use`; `why` says when it cannot be compiled. */
static bool with_module(Jit *jit, Unit *u, const Function *fn, Buf *why, Buf *lowered,
                        bool (*use)(Gen *g, void *data), void *data)
{
    Gen g;
    gen_init(&g, jit, u, why);
    g.lowered = lowered;
    u->needs.n = 0;
    bool ok = gen_unit(&g, fn) && !g.failed && use(&g, data);
    gen_deinit(&g);
    return ok;
}

static bool link_module(Gen *g, void *data)
{
    Unit *u = data;
    size_t len;
    const char *name = LLVMGetValueName2(g->entry, &len);
    char *entry = arena_copy_text(g->arena, name, len);
    if (!orc_add(g->jit, g->m, &u->tracker))
        return false;
    u->entry = (UnitEntry *)(uintptr_t)orc_find(g->jit, entry);
    return u->entry != NULL;
}

/* Nothing that the unit was made from has been redefined. */
static bool is_current(const Unit *u, const Module *env)
{
    for (size_t i = 0; i < u->needs.n; i++) {
        const Def *def = module_find(env, u->needs.at[i].name);
        if (!def || def->fn != u->needs.at[i].fn)
            return false;
    }
    return true;
}

static Unit *unit_of(Jit *jit, Module *env, const Name *name, Buf *why)
{
    const Def *def = module_find(env, name);
    if (!def || !def->fn) {
        buf_printf(why, "`@%s` is not defined", name->text);
        return NULL;
    }
    Unit *u = ptrmap_find(&jit->units, def->fn);
    if (u && !is_current(u, env) && jit->running == 0) {
        ptrmap_remove(&jit->units, def->fn);
        unit_free(u);
        u = NULL;
    }
    if (!u) {
        u = unit_new(jit, env, name);
        if (!u)
            return NULL;
        Buf reason = {0};
        if (!with_module(jit, u, def->fn, &reason, NULL, link_module, u))
            u->why = arena_copy_text(&u->arena, buf_text(&reason), reason.n);
        buf_deinit(&reason);
        if (limit_hit(&jit->cx->limits)) { /* another time it may be made */
            unit_free(u);
            return NULL;
        }
        ptrmap_put(&jit->units, def->fn, u);
    }
    if (u->why)
        buf_str(why, u->why);
    return u->why ? NULL : u;
}

/* ---- the table ---------------------------------------------------------------------------------------------------- */

static void jit_destroy(Jit *jit)
{
    for (size_t i = 0; i < jit->units.n; i++)
        if (jit->units.entries[i].key)
            unit_free(jit->units.entries[i].value);
    ptrmap_deinit(&jit->units);
    ptrmap_deinit(&jit->infos);
    orc_deinit(jit);
    stack_free(jit);
    jit_free_scratch(jit);
    free(jit);
}

static Jit *jit_create(Ctx *cx)
{
    Jit *jit = calloc(1, sizeof *jit);
    if (!jit) {
        limit_reach(&cx->limits, LIMIT_MEMORY);
        return NULL;
    }
    jit->cx = cx;
    jit->state.jit = jit;
    jit->state.interrupted = &cx->limits.interrupted;
    if (orc_init(jit))
        return jit;
    jit_destroy(jit);
    return NULL;
}

static bool jit_prepare(Jit *jit, Module *env, const Name *name, Buf *why)
{
    return unit_of(jit, env, name, why) != NULL;
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
                      Span span)
{
    Buf why = {0};
    Unit *u = unit_of(jit, env, name, &why);
    if (!u) {
        if (!limit_hit(&jit->cx->limits))
            diag_error(jit->cx->diags, E0701_CANNOT_COMPILE, span, "%s", buf_text(&why));
        buf_deinit(&why);
        return value_none();
    }
    if (!check_arguments(jit, u, n, args, span))
        return value_none();
    Value out = value_none();
    uint32_t failed = jit->state.failed;
    jit->state.failed = 0;
    jit->running++;
    bool ran = true;
    Watch *watch = jit->watch;
    jit->watch = watch_begin(&jit->cx->limits);
    if (u->nests)
        ran = stack_run(jit, u->entry, args, &out);
    else
        u->entry(&jit->state, args, &out);
    watch_end(jit->watch);
    jit->watch = watch;
    jit->running--;
    ran &= jit->state.failed == 0;
    jit->state.failed = failed;
    return ran ? out : value_none();
}

typedef struct TextWanted {
    JitText kind;
    Buf *out;
} TextWanted;

static bool print_module(Gen *g, void *data)
{
    TextWanted *w = data;
    if (w->kind == JIT_TEXT_LLVM) {
        char *text = LLVMPrintModuleToString(g->m);
        buf_str(w->out, text);
        LLVMDisposeMessage(text);
    }
    if (w->kind == JIT_TEXT_ASM)
        return orc_emit(g->jit, g->m, LLVMAssemblyFile, w->out);
    if (w->kind == JIT_TEXT_OBJECT)
        return orc_emit(g->jit, g->m, LLVMObjectFile, w->out);
    return true;
}

static bool jit_text(Jit *jit, Module *env, const Name *name, JitText kind, Buf *out)
{
    Buf why = {0};
    const Def *def = module_find(env, name);
    Unit *u = def && def->fn ? unit_new(jit, env, name) : NULL;
    TextWanted wanted = {kind, out};
    bool ok = false;
    if (kind == JIT_TEXT_PTX)
        buf_str(&why, "GPU code is not made yet");
    else if (u)
        ok = with_module(jit, u, def->fn, &why, kind == JIT_TEXT_LOWERED ? out : NULL, print_module,
                         &wanted);
    else
        buf_printf(&why, "`@%s` is not defined", name->text);
    if (!ok && why.n > 0)
        diag_error(jit->cx->diags, E0701_CANNOT_COMPILE, (Span){0}, "%s", buf_text(&why));
    buf_deinit(&why);
    if (u)
        unit_free(u);
    return ok;
}

static void jit_forget(Jit *jit, const Module *m)
{
    if (jit->running == 0)
        jit_free_scratch(jit);
    for (size_t i = 0; i < jit->units.n && jit->running == 0; i++) {
        PtrEntry *e = &jit->units.entries[i];
        Unit *u = e->key ? e->value : NULL;
        if (!u || u->env != m)
            continue;
        ptrmap_remove(&jit->units, e->key);
        unit_free(u);
    }
}

static const char *jit_version(void)
{
    return LLVM_VERSION_STRING;
}

/* The name lives as long as the library. */
static const char *jit_cpu(void)
{
    static char name[64];
    if (!name[0]) {
        char *cpu = LLVMGetHostCPUName();
        strncpy(name, cpu, sizeof name - 1);
        LLVMDisposeMessage(cpu);
    }
    return name;
}

static const JitTable table = {
    .version = JIT_TABLE_VERSION,
    .create = jit_create,
    .destroy = jit_destroy,
    .prepare = jit_prepare,
    .call = jit_call,
    .text = jit_text,
    .forget = jit_forget,
    .version_text = jit_version,
    .cpu_name = jit_cpu,
};

const JitTable *relay_jit_table(void)
{
    return &table;
}
