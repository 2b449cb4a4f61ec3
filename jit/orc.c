/* From LLVM modules to objects: the target and its settings, modules on several threads.
 *
 * LLVM is a plug-in of its own, behind that of the JIT: code that another process made is run without it. Its functions are found when
 * they are first called, so `orc_open` comes before any of them. */
#include "base/memory.h"
#include "base/plugin.h"
#include "jit/internal.h"
#include "jit/llvm/cushion.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool refused(Jit *jit, const char *why)
{
    diag_error(jit->cx->diags, E0702_LLVM, (Span){0}, "LLVM refused while making code: %s", why);
    return false;
}

/* Each thread that makes code takes a machine of its own. */
static LLVMTargetMachineRef machine_take(Orc *o, MachineKind kind)
{
    static const LLVMCodeGenOptLevel levels[] = {
        [MACHINE_GOOD] = LLVMCodeGenLevelLess,
        [MACHINE_PLAIN] = LLVMCodeGenLevelNone,
    };
    for (size_t i = 0; i < MACHINES_MOST; i++) {
        LLVMTargetMachineRef machine = atomic_exchange(&o->machines[kind][i], NULL);
        if (machine)
            return machine;
    }
    return LLVMCreateTargetMachine(o->target, o->triple, o->cpu, o->features, levels[kind],
                                   LLVMRelocPIC, LLVMCodeModelSmall);
}

static void machine_give_back(Orc *o, MachineKind kind, LLVMTargetMachineRef machine)
{
    for (size_t i = 0; i < MACHINES_MOST && machine; i++)
        machine = atomic_exchange(&o->machines[kind][i], machine);
    if (machine)
        LLVMDisposeTargetMachine(machine);
}

/* What costs LLVM much time and gains nothing here: addresses are made ready by the emitter, code is not looked through for equal ends,
 * and nothing here moves from plain registers to masks. These settings are the library's, and can be made once. */
static void set_options(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    static const char *const options[] = {
        "relay",
        "-disable-lsr",
        "-enable-tail-merge=0",
#ifdef __x86_64__
        "-disable-x86-domain-reassignment",
#endif
    };
    if (!atomic_flag_test_and_set(&done))
        LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, "");
}

static bool open_library(Orc *o, Buf *why)
{
    if (!o->tried) {
        o->tried = true;
        o->there = plugin_open("llvm", "relay_llvm_cushion", &o->why) != NULL;
    }
    if (!o->there)
        buf_str(why, buf_text(&o->why));
    return o->there && relay_llvm_cushion();
}

const char *orc_limit(void)
{
    const char *cpu = getenv("RELAY_CPU");
    return cpu && *cpu ? cpu : NULL;
}

/* Without what processors have since AVX2. */
static void limit_features(char *features)
{
    static const char *const later[] = {"avx512", "avx10", "evex512"};
    for (char *at = features; (at = strchr(at, '+')); at++)
        for (size_t i = 0; i < sizeof later / sizeof *later; i++)
            if (!strncmp(at + 1, later[i], strlen(later[i])))
                *at = '-';
}

static bool find_target(Jit *jit)
{
    Orc *o = &jit->orc;
    if (orc_limit() && strcmp(orc_limit(), "avx2"))
        return refused(jit, "the environment's RELAY_CPU is neither `avx2` nor empty");
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    set_options();
    o->triple = LLVMGetDefaultTargetTriple();
    o->cpu = LLVMGetHostCPUName();
    o->features = LLVMGetHostCPUFeatures();
    if (orc_limit())
        limit_features(o->features);
    LLVMTargetRef target;
    char *text = NULL;
    if (LLVMGetTargetFromTriple(o->triple, &target, &text))
        return refused(jit, text ? text : "there is no such target");
    o->target = target;
    LLVMTargetMachineRef machine = machine_take(o, MACHINE_GOOD);
    LLVMTargetDataRef data = LLVMCreateTargetDataLayout(machine);
    o->layout = LLVMCopyStringRepOfTargetData(data);
    LLVMDisposeTargetData(data);
    machine_give_back(o, MACHINE_GOOD, machine);
    return true;
}

bool orc_open(Jit *jit, Buf *why)
{
    return open_library(&jit->orc, why) && (jit->orc.target || find_target(jit));
}

size_t orc_vector_bytes(const Orc *o)
{
    return orc_has(o, "avx512f") ? 64 : 32;
}

bool orc_has(const Orc *o, const char *feature)
{
    size_t n = strlen(feature);
    for (const char *at = o->features; (at = strchr(at, '+')); at++)
        if (!strncmp(at + 1, feature, n) && (at[n + 1] == ',' || at[n + 1] == 0))
            return true;
    return false;
}

bool orc_has_dots(const Orc *o)
{
    return orc_has(o, "avx512f") ? orc_has(o, "avx512vnni") && orc_has(o, "avx512vl")
                                 : orc_has(o, "avxvnni");
}

void orc_deinit(Jit *jit)
{
    Orc *o = &jit->orc;
    pool_free(o->pool);
    buf_deinit(&o->why);
    if (!o->target)
        return;
    for (int kind = 0; kind < MACHINE_KINDS; kind++)
        for (size_t i = 0; i < MACHINES_MOST; i++)
            if (o->machines[kind][i])
                LLVMDisposeTargetMachine(o->machines[kind][i]);
    LLVMDisposeMessage(o->triple);
    LLVMDisposeMessage(o->cpu);
    LLVMDisposeMessage(o->features);
    LLVMDisposeMessage(o->layout);
}

/* Characters that assembly text would need quotes for become underscores. */
const char *orc_name(Jit *jit, Arena *arena, const char *hint)
{
    Orc *o = &jit->orc;
    char text[96];
    int n = snprintf(text, sizeof text, "%.64s.%u", hint, ++o->numbers);
    for (char *p = text; *p; p++) {
        bool plain =
            (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || (*p >= '0' && *p <= '9');
        if (!plain && *p != '.' && *p != '_')
            *p = '_';
    }
    return arena_copy_text(arena, text, (size_t)n);
}

/* An object that was made in spite of errors in it is none. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
        *(bool *)data = true;
}

/* Any thread may ask; what goes wrong is said in `why`. */
static bool emit(LLVMTargetMachineRef machine, LLVMModuleRef m, LLVMCodeGenFileType kind,
                 LLVMMemoryBufferRef *out, Buf *why)
{
    char *text = NULL;
#ifndef NDEBUG
    if (LLVMVerifyModule(m, LLVMReturnStatusAction, &text)) {
        char *ir = LLVMPrintModuleToString(m);
        buf_printf(why, "a malformed module: %s\n%s", text, ir);
        LLVMDisposeMessage(ir);
        LLVMDisposeMessage(text);
        return false;
    }
    LLVMDisposeMessage(text);
    text = NULL;
#endif
    bool failed = false;
    LLVMContextSetDiagnosticHandler(LLVMGetModuleContext(m), on_diagnostic, &failed);
    if (LLVMTargetMachineEmitToMemoryBuffer(machine, m, kind, &text, out)) {
        buf_str(why, text ? text : "");
        LLVMDisposeMessage(text);
        return false;
    }
    if (failed) {
        buf_str(why, "there were errors");
        LLVMDisposeMemoryBuffer(*out);
    }
    return !failed;
}

bool orc_emit(Jit *jit, LLVMTargetMachineRef machine, LLVMModuleRef m, LLVMCodeGenFileType kind,
              Buf *out)
{
    LLVMMemoryBufferRef buffer;
    Buf why = {0};
    LLVMTargetMachineRef own = machine ? NULL : machine_take(&jit->orc, MACHINE_GOOD);
    bool ok = emit(own ? own : machine, m, kind, &buffer, &why) || refused(jit, buf_text(&why));
    if (own)
        machine_give_back(&jit->orc, MACHINE_GOOD, own);
    if (ok) {
        buf_bytes(out, LLVMGetBufferStart(buffer), LLVMGetBufferSize(buffer));
        LLVMDisposeMemoryBuffer(buffer);
    }
    buf_deinit(&why);
    return ok;
}

/* ---- modules on several threads ------------------------------------------------------------------------------------- */

uint32_t orc_instructions(LLVMValueRef f)
{
    uint32_t n = 0;
    for (LLVMBasicBlockRef b = LLVMGetFirstBasicBlock(f); b; b = LLVMGetNextBasicBlock(b))
        for (LLVMValueRef i = LLVMGetFirstInstruction(b); i; i = LLVMGetNextInstruction(i))
            n++;
    return n;
}

/* What one thread makes of a module. */
typedef struct Job {
    OrcModule in;
    Str object;
    Buf why;
    bool beside; /* of all work of the session: no limit of what runs now ends it */
    bool ok;
} Job;

static bool make_object(Job *job, MachineKind kind)
{
    Orc *o = &job->in.g->jit->orc;
    LLVMMemoryBufferRef object;
    LLVMTargetMachineRef machine = machine_take(o, kind);
    bool ok = emit(machine, job->in.m, LLVMObjectFile, &object, &job->why);
    machine_give_back(o, kind, machine);
    if (!ok)
        return false;
    size_t n = LLVMGetBufferSize(object);
    char *copy = memory_aligned(16, (n + 15) & ~(size_t)15);
    if (copy) {
        memcpy(copy, LLVMGetBufferStart(object), n);
        job->object = (Str){copy, n};
    }
    LLVMDisposeMemoryBuffer(object);
    return copy != NULL;
}

/* Lets and blocks of which LLVM makes good code in a second or two; more gets plain code, which takes a fourth of the time. */
#define SIZE_GOOD 10000

bool orc_is_plain(const Gen *g)
{
    return g->size > SIZE_GOOD;
}

/* Control code: small functions are put in place of their calls, what was read is not read again, what a loop computes each time anew is
 * computed before it. Each pass was measured; more (`default<O2>`) takes longer and gains nothing. Kernels are left as they are: their
 * nests say all that is to be done. Asked to verify its fixpoint, as it does by itself, instcombine ends the process where it has none. */
#define PASSES                                              \
    "cgscc(inline),function(simplifycfg,early-cse<memssa>," \
    "instcombine<no-verify-fixpoint>,loop-mssa(licm),simplifycfg)"

static bool improve(Job *job)
{
    Orc *o = &job->in.g->jit->orc;
    LLVMTargetMachineRef machine = machine_take(o, MACHINE_GOOD);
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(job->in.m, PASSES, machine, options);
    LLVMDisposePassBuilderOptions(options);
    machine_give_back(o, MACHINE_GOOD, machine);
    if (!error)
        return true;
    char *text = LLVMGetErrorMessage(error);
    buf_str(&job->why, text);
    LLVMDisposeErrorMessage(text);
    return false;
}

static void do_job(void *data)
{
    Job *job = data;
    const Gen *g = job->in.g;
    bool plain = g->once || orc_is_plain(g), improves = g->control && !plain;
    job->ok = (job->beside || !limit_waits(&g->cx->limits)) && (!improves || improve(job)) &&
              make_object(job, plain ? MACHINE_PLAIN : MACHINE_GOOD);
}

typedef struct Jobs {
    Job *at;
    atomic_bool gone; /* memory was, for good, on one of the threads */
} Jobs;

static void do_jobs(void *data, int64_t from, int64_t to)
{
    Jobs *jobs = data;
    for (int64_t i = from; i < to; i++)
        if (!atomic_load(&jobs->gone) && !memory_guard(do_job, &jobs->at[i]))
            atomic_store(&jobs->gone, true);
}

/* Takes the objects over; false after a diagnostic. */
static bool end_job(Jit *jit, Job *job)
{
    Gen *g = job->in.g;
    if (job->object.ptr)
        vec_push(&g->out->objects, g->arena, job->object);
    if (!job->ok && !limit_hit(&jit->cx->limits))
        refused(jit, buf_text(&job->why));
    buf_deinit(&job->why);
    return job->ok;
}

/* Waking threads takes as long as making a little code. */
#define SHARED_LEAST 1500

static bool is_worth_sharing(size_t n, const OrcModule *modules)
{
    uint32_t instructions = 0;
    for (size_t i = 0; i < n && instructions < SHARED_LEAST; i++)
        for (LLVMValueRef f = LLVMGetFirstFunction(modules[i].m); f; f = LLVMGetNextFunction(f))
            instructions += orc_instructions(f);
    return n > 1 && instructions >= SHARED_LEAST;
}

static Job *jobs_new(size_t n, const OrcModule *modules, bool beside)
{
    Job *all = memory_must(n * sizeof *all);
    for (size_t i = 0; i < n; i++)
        all[i] = (Job){.in = modules[i], .beside = beside};
    return all;
}

static bool end_jobs(Jit *jit, size_t n, Jobs *jobs)
{
    bool ok = true;
    if (atomic_load(&jobs->gone))
        memory_gone();
    for (size_t i = 0; i < n; i++)
        ok &= end_job(jit, &jobs->at[i]);
    memory_free(jobs->at);
    return ok;
}

bool orc_make(Jit *jit, size_t n, const OrcModule *modules)
{
    Orc *o = &jit->orc;
    Jobs jobs = {.at = jobs_new(n, modules, false)};
    bool shared = is_worth_sharing(n, modules);
    if (!o->pool && shared)
        o->pool = pool_new(0);
    pool_for(shared ? o->pool : NULL, (int64_t)n, 1, do_jobs, &jobs);
    return end_jobs(jit, n, &jobs);
}

/* ---- beside what the session does -------------------------------------------------------------------------------------- */

struct OrcWork {
    size_t n;
    Jobs jobs;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool done;
};

static void *work_main(void *data)
{
    OrcWork *w = data;
    do_jobs(&w->jobs, 0, (int64_t)w->n);
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

OrcWork *orc_begin(size_t n, const OrcModule *modules)
{
    OrcWork *w = memory_zeroed(1, sizeof *w);
    if (!w)
        return NULL;
    w->n = n;
    w->jobs.at = jobs_new(n, modules, true);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->change, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int status = pthread_create(&w->thread, NULL, work_main, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (status == 0)
        return w;
    memory_free(w->jobs.at);
    free(w);
    return NULL;
}

/* So often somebody who waits asks the limits. */
#define WAIT_NANOSECONDS 10000000

bool orc_wait(Jit *jit, OrcWork *w)
{
    bool done = false;
    while (!done && !limit_hit(&jit->cx->limits)) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += WAIT_NANOSECONDS;
        if (until.tv_nsec >= 1000000000) {
            until.tv_sec++;
            until.tv_nsec -= 1000000000;
        }
        pthread_mutex_lock(&w->lock);
        if (!w->done)
            pthread_cond_timedwait(&w->change, &w->lock, &until);
        done = w->done;
        pthread_mutex_unlock(&w->lock);
    }
    return done;
}

bool orc_end(Jit *jit, OrcWork *w)
{
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->change);
    Jobs jobs = {.at = w->jobs.at, .gone = atomic_load(&w->jobs.gone)};
    size_t n = w->n;
    free(w);
    return end_jobs(jit, n, &jobs);
}
