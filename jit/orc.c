/* From LLVM modules to objects: the target and its settings, modules on several threads.
 *
 * LLVM is a plug-in of its own, behind that of the JIT: code that another process made is run without it. Its functions are found when
 * they are first called, so `orc_open` comes before any of them. */
#include "base/guard.h"
#include "base/limit.h"
#include "base/memory.h"
#include "base/plugin.h"
#include "base/thread.h"
#include "jit/internal.h"
#include "jit/llvm/cushion.h"
#include "runtime/cpu.h"
#include "runtime/pool.h"

#include <llvm-c/Analysis.h>
#include <llvm-c/Error.h>
#include <llvm-c/ErrorHandling.h>
#include <llvm-c/Support.h>
#include <llvm-c/Target.h>
#include <llvm-c/Transforms/PassBuilder.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static bool refused(Jit *jit, const char *why)
{
    Diag *d = diag_error(jit->cx->diags, E0702_LLVM, (Span){0},
                         "LLVM refused while making code: %s", why);
    diag_help(d, "the evaluator runs the program without it: `--exec interp`, `:engine interp`");
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
 * nothing here moves from plain registers to masks, and what five passes look for the emitter never writes. These settings are the
 * library's, and can be made once. */
static void set_options(void)
{
    static atomic_flag done = ATOMIC_FLAG_INIT;
    static const char *const options[] = {
        "relay",
        "-disable-lsr",
        "-enable-tail-merge=0",
        "-disable-early-taildup",
        "-disable-tail-duplicate",
        "-disable-mergeicmps",
        "-disable-constant-hoisting",
        "-disable-early-ifcvt",
#ifdef __x86_64__
        "-disable-x86-domain-reassignment",
#endif
    };
    if (!atomic_flag_test_and_set(&done))
        LLVMParseCommandLineOptions(sizeof options / sizeof *options, options, "");
}

static const char left_words[] = "LLVM was left in the middle of its work";

static bool open_library(Orc *o, Buf *why)
{
    if (!o->tried) {
        uint64_t refusals = memory_refusals();
        buf_clear(&o->why);
        o->there = plugin_open("llvm", "relay_llvm_cushion", &o->why) != NULL;
        /* Of memory there may be some again. */
        o->tried = o->there || memory_refusals() == refusals;
    }
    bool is_left = o->there && !relay_llvm_cushion();
    if (!o->there || is_left)
        buf_str(why, is_left ? left_words : buf_text(&o->why));
    return o->there && !is_left;
}

/* Without those whose names begin so. */
static void limit_features(char *features, const char *begin)
{
    for (char *at = features; (at = strchr(at, '+')); at++)
        if (!strncmp(at + 1, begin, strlen(begin)))
            *at = '-';
}

/* What processors have since AVX2, and what the system does not let this process use. */
static void limit_all(char *features)
{
    static const char *const later[] = {"avx512", "avx10", "evex512"};
    for (size_t i = 0; cpu_is_limited("avx2") && i < sizeof later / sizeof *later; i++)
        limit_features(features, later[i]);
    if (!cpu_has_matrices())
        limit_features(features, "amx");
}

/* With what LLVM gives up by itself. */
#define GIVEN_UP (-1)

static _Thread_local const char *last_words;

/* Returning would end the process. */
static void on_giving_up(const char *reason)
{
    last_words = memory_text(reason, strnlen(reason, 200));
    guard_leave(GUARD_DEATH, GIVEN_UP);
}

static bool find_target(Jit *jit)
{
    Orc *o = &jit->orc;
    if (cpu_limit() && !cpu_is_limited("avx2") && !cpu_is_limited("avx512"))
        return refused(jit, "the environment's RELAY_CPU is neither `avx2` nor `avx512` nor empty");
    LLVMInitializeNativeTarget();
    LLVMInitializeNativeAsmPrinter();
    set_options();
    LLVMInstallFatalErrorHandler(on_giving_up);
    o->triple = LLVMGetDefaultTargetTriple();
    o->cpu = LLVMGetHostCPUName();
    o->features = LLVMGetHostCPUFeatures();
    limit_all(o->features);
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

/* ---- LLVM at work on a module ---------------------------------------------------------------------------------------------
 *
 * Where LLVM dies of what it works on, the work is left and the program goes on without that code (base/guard.h). What LLVM had in hand
 * stays as it is, and is never looked at again: the module, its context and the machine. All else that it has, no two modules share. */

typedef struct Work {
    LLVMTargetMachineRef machine;
    LLVMModuleRef m;
    const char *passes; /* that change the module; NULL: it becomes code */
    LLVMCodeGenFileType kind;
    LLVMMemoryBufferRef out;
    Buf *why; /* it is not done */
    bool errors, done, died;
} Work;

/* An object that was made in spite of errors in it is none. */
static void on_diagnostic(LLVMDiagnosticInfoRef info, void *data)
{
    if (LLVMGetDiagInfoSeverity(info) == LLVMDSError)
        ((Work *)data)->errors = true;
}

static void run_passes(Work *w)
{
    LLVMPassBuilderOptionsRef options = LLVMCreatePassBuilderOptions();
    LLVMErrorRef error = LLVMRunPasses(w->m, w->passes, w->machine, options);
    LLVMDisposePassBuilderOptions(options);
    w->done = !error;
    if (!error) {
        fronts_settle(w->m);
        return;
    }
    char *text = LLVMGetErrorMessage(error);
    buf_str(w->why, text);
    LLVMDisposeErrorMessage(text);
}

static bool is_malformed(Work *w)
{
#ifndef NDEBUG
    char *text = NULL;
    bool malformed = LLVMVerifyModule(w->m, LLVMReturnStatusAction, &text);
    char *ir = malformed ? LLVMPrintModuleToString(w->m) : NULL;
    if (malformed)
        buf_printf(w->why, "a malformed module: %s\n%s", text, ir);
    LLVMDisposeMessage(ir);
    LLVMDisposeMessage(text);
    return malformed;
#else
    (void)w;
    return false;
#endif
}

static void run_emitter(Work *w)
{
    char *text = NULL;
    if (is_malformed(w))
        return;
    align_settle(w->m);
    LLVMContextSetDiagnosticHandler(LLVMGetModuleContext(w->m), on_diagnostic, w);
    if (LLVMTargetMachineEmitToMemoryBuffer(w->machine, w->m, w->kind, &text, &w->out)) {
        buf_str(w->why, text ? text : "");
        LLVMDisposeMessage(text);
    } else if (w->errors) {
        buf_str(w->why, "there were errors");
        LLVMDisposeMemoryBuffer(w->out);
    } else {
        w->done = true;
    }
}

static void work(void *data)
{
    Work *w = data;
    if (w->passes)
        run_passes(w);
    else
        run_emitter(w);
}

/* Whether LLVM changed, and made code of, a module before. What it makes ready once for all, when it first needs it, nobody can use after a
 * death in the middle of that: he would wait for its end. So until then one thread works alone. */
static atomic_bool is_ready[2];
static atomic_flag is_first = ATOMIC_FLAG_INIT;
static _Thread_local bool am_first;

/* Where the thread worked alone and has no memory any more, it does not come back to where it was. */
static void leave_if_first(void)
{
    if (am_first)
        relay_llvm_leave();
}

/* False: LLVM is left. */
static bool wait_for_first(const atomic_bool *ready)
{
    const struct timespec pause = {.tv_nsec = 100000};
    leave_if_first();
    while (relay_llvm_there() && !atomic_load(ready) &&
           !(am_first = !atomic_flag_test_and_set(&is_first)))
        nanosleep(&pause, NULL);
    return relay_llvm_there();
}

static void end_first(void)
{
    if (am_first)
        atomic_flag_clear(&is_first);
    am_first = false;
}

/* Any thread may ask. */
static void work_run(Work *w)
{
    atomic_bool *ready = &is_ready[!w->passes];
    if (!wait_for_first(ready)) {
        w->died = true; /* what it holds stays */
        end_first();
        buf_str(w->why, left_words);
        return;
    }
    int with = guard_death(work, w);
    if (with == GIVEN_UP) {
        buf_printf(w->why, "it gave up: %s", last_words ? last_words : "no memory is left");
        memory_free((char *)(uintptr_t)last_words);
        last_words = NULL;
    } else if (with) {
        buf_printf(w->why, "it died of %s", guard_signal_words(with));
    }
    w->died = with != 0;
    if (w->done)
        atomic_store(ready, true);
    if (w->died && !atomic_load(ready))
        relay_llvm_leave();
    end_first();
}

/* The same, with a machine that is free where none is given. */
static bool work_alone(Orc *o, MachineKind kind, Work *w)
{
    bool own = !w->machine;
    if (own)
        w->machine = machine_take(o, kind);
    work_run(w);
    if (own && !w->died)
        machine_give_back(o, kind, w->machine);
    return w->done;
}

/* The same, where there is a generator to tell. */
static bool work_for(Gen *g, Work *w)
{
    Buf why = {0};
    w->m = g->m;
    w->why = &why;
    bool ok = work_alone(&g->jit->orc, MACHINE_GOOD, w) || refused(g->jit, buf_text(&why));
    g->left |= w->died;
    buf_deinit(&why);
    return ok;
}

bool orc_improve(Gen *g, LLVMTargetMachineRef machine, const char *passes)
{
    Work w = {.machine = machine, .passes = passes};
    return work_for(g, &w);
}

bool orc_emit(Gen *g, LLVMTargetMachineRef machine, LLVMCodeGenFileType kind, Buf *out)
{
    Work w = {.machine = machine, .kind = kind};
    if (!work_for(g, &w))
        return false;
    buf_bytes(out, LLVMGetBufferStart(w.out), LLVMGetBufferSize(w.out));
    LLVMDisposeMemoryBuffer(w.out);
    return true;
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

uint32_t orc_module_instructions(LLVMModuleRef m)
{
    uint32_t n = 0;
    for (LLVMValueRef f = LLVMGetFirstFunction(m); f; f = LLVMGetNextFunction(f))
        n += orc_instructions(f);
    return n;
}

/* What one thread makes of a module. */
typedef struct Job Job;
struct Job {
    Job *next;
    OrcModule in;
    Str object;
    Buf why;
    bool beside; /* of all work of the session: no limit of what runs now ends it */
    bool ok;
    bool left; /* LLVM died of it */
};

static bool job_work(Job *job, MachineKind kind, Work *w)
{
    w->m = job->in.m;
    w->why = &job->why;
    bool ok = work_alone(&job->in.g->jit->orc, kind, w);
    job->left |= w->died;
    return ok;
}

static bool make_object(Job *job, MachineKind kind)
{
    Work w = {.kind = LLVMObjectFile};
    if (!job_work(job, kind, &w))
        return false;
    size_t n = LLVMGetBufferSize(w.out);
    char *copy = memory_aligned(16, (n + 15) & ~(size_t)15);
    if (copy) {
        memcpy(copy, LLVMGetBufferStart(w.out), n);
        job->object = (Str){copy, n};
    }
    LLVMDisposeMemoryBuffer(w.out);
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
    Work w = {.passes = PASSES};
    return job_work(job, MACHINE_GOOD, &w);
}

static void do_job(void *data)
{
    Job *job = data;
    const Gen *g = job->in.g;
    bool plain = g->once || job->in.plain || orc_is_plain(g), improves = g->control && !plain;
    job->ok = (job->beside || !limit_waits(&g->cx->limits)) && (!improves || improve(job)) &&
              make_object(job, plain ? MACHINE_PLAIN : MACHINE_GOOD);
}

/* ---- made beside what makes more of them ------------------------------------------------------------------------------ */

#define THREADS_MOST 8

struct OrcWork {
    Jit *jit;
    pthread_mutex_t lock;
    pthread_cond_t more, done;
    Job *first, *last; /* in the order in which they came */
    Job *next; /* that nobody has taken */
    size_t given, left; /* jobs; those of which no object is made */
    bool ended; /* no more come */
    uint32_t instructions;
    size_t n_threads;
    pthread_t threads[THREADS_MOST];
    atomic_bool gone; /* memory was, for good, on one of the threads */
};

/* NULL: there is none; `waits` for one until no more come. */
static Job *take_job(OrcWork *w, bool waits)
{
    pthread_mutex_lock(&w->lock);
    while (waits && !w->next && !w->ended)
        pthread_cond_wait(&w->more, &w->lock);
    Job *job = w->next;
    if (job)
        w->next = job->next;
    pthread_mutex_unlock(&w->lock);
    return job;
}

static void run_job(OrcWork *w, Job *job)
{
    if (!atomic_load(&w->gone) && !memory_guard(do_job, job)) {
        leave_if_first();
        atomic_store(&w->gone, true);
    }
    pthread_mutex_lock(&w->lock);
    if (--w->left == 0)
        pthread_cond_broadcast(&w->done);
    pthread_mutex_unlock(&w->lock);
}

static void *work_main(void *data)
{
    OrcWork *w = data;
    for (Job *job; (job = take_job(w, true));)
        run_job(w, job);
    return NULL;
}

/* Starting threads takes as long as making a little code. */
#define SHARED_LEAST 1500

static void start_threads(OrcWork *w, size_t n)
{
    while (w->n_threads < n && w->n_threads < THREADS_MOST &&
           thread_begin(&w->threads[w->n_threads], work_main, w))
        w->n_threads++;
}

static OrcWork *work_new(Jit *jit)
{
    OrcWork *w = memory_must(sizeof *w);
    *w = (OrcWork){.jit = jit};
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->more, NULL);
    pthread_cond_init(&w->done, NULL);
    return w;
}

void orc_give(OrcWork **work, OrcModule module)
{
    OrcWork *w = *work ? *work : (*work = work_new(module.g->jit));
    Job *job = memory_must(sizeof *job);
    *job = (Job){.in = module, .beside = module.g->beside};
    bool others = w->first != NULL;
    w->instructions += orc_module_instructions(module.m);
    pthread_mutex_lock(&w->lock);
    *(w->last ? &w->last->next : &w->first) = job;
    w->last = job;
    w->left++;
    w->given++;
    if (!w->next)
        w->next = job;
    pthread_cond_signal(&w->more);
    pthread_mutex_unlock(&w->lock);
    if (others && w->n_threads == 0 && w->instructions >= SHARED_LEAST)
        start_threads(w, (size_t)pool_cores() - 1);
}

static void end_giving(OrcWork *w, bool drop)
{
    pthread_mutex_lock(&w->lock);
    w->ended = true;
    if (drop)
        w->next = NULL;
    pthread_cond_broadcast(&w->more);
    pthread_mutex_unlock(&w->lock);
}

/* What is made on other threads counts as well. */
static void note_left(OrcWork *w)
{
    pthread_mutex_lock(&w->lock);
    uint64_t done = w->given - w->left;
    pthread_mutex_unlock(&w->lock);
    progress_step(w->jit->cx->progress, done);
}

static void end_threads(OrcWork *w)
{
    Progress *progress = w->jit->cx->progress;
    unsigned outer = progress_enter(progress, "machine code", "modules", w->given);
    for (Job *job; (job = take_job(w, false));) {
        run_job(w, job);
        note_left(w);
    }
    for (size_t i = 0; i < w->n_threads; i++)
        pthread_join(w->threads[i], NULL);
    progress_leave(progress, outer);
}

bool orc_leave(OrcWork *w)
{
    end_giving(w, false);
    if (w->n_threads == 0)
        start_threads(w, 1);
    return w->n_threads > 0;
}

/* So often somebody who waits asks the limits. */
#define WAIT_SECONDS 0.01

static bool wait_a_little(OrcWork *w)
{
    struct timespec until = clock_after(WAIT_SECONDS);
    pthread_mutex_lock(&w->lock);
    if (w->left > 0)
        pthread_cond_timedwait(&w->done, &w->lock, &until);
    bool done = w->left == 0;
    pthread_mutex_unlock(&w->lock);
    return done;
}

bool orc_wait(OrcWork *w)
{
    Limits *limits = &w->jit->cx->limits;
    Job *job;
    while (!limit_hit(limits) && (job = take_job(w, false)))
        run_job(w, job);
    bool done = false;
    while (!limit_hit(limits) && !done)
        done = wait_a_little(w);
    return done;
}

/* Takes the object over; false after a diagnostic. */
static bool end_job(Jit *jit, Job *job)
{
    Gen *g = job->in.g;
    g->left |= job->left;
    if (job->object.ptr)
        vec_push(&g->out->objects, g->arena, job->object);
    if (!job->ok && !limit_hit(&jit->cx->limits))
        refused(jit, buf_text(&job->why));
    return job->ok;
}

static void work_free(OrcWork *w)
{
    for (Job *job = w->first, *next; job; job = next) {
        next = job->next;
        buf_deinit(&job->why);
        memory_free(job);
    }
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->more);
    pthread_cond_destroy(&w->done);
    memory_free(w);
}

bool orc_finish(OrcWork **work)
{
    OrcWork *w = *work;
    bool ok = true;
    *work = NULL;
    end_giving(w, false);
    end_threads(w);
    if (atomic_load(&w->gone))
        memory_gone();
    for (Job *job = w->first; job; job = job->next)
        ok &= end_job(w->jit, job);
    work_free(w);
    return ok;
}

void orc_drop(OrcWork **work)
{
    OrcWork *w = *work;
    *work = NULL;
    if (!w)
        return;
    end_giving(w, true);
    end_threads(w);
    for (Job *job = w->first; job; job = job->next) {
        job->in.g->left |= job->left;
        memory_free((char *)(uintptr_t)job->object.ptr);
    }
    work_free(w);
}
