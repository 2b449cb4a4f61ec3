#define _GNU_SOURCE 1
#include "base/guard.h"

#include "base/poison.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

typedef struct Guard {
    struct Guard *outer;
    jmp_buf at;
    GuardCause cause;
} Guard;

static _Thread_local Guard *innermost;

int guard_call(GuardCause cause, void (*work)(void *data), void *data)
{
    Guard g = {.outer = innermost, .cause = cause};
    innermost = &g;
    int with = _setjmp(g.at);
    if (with == 0)
        work(data);
    innermost = g.outer;
    return with;
}

void guard_leave(GuardCause cause, int with)
{
    Guard *g = innermost;
    while (g && g->cause != cause)
        g = g->outer;
    if (g)
        _longjmp(g->at, with);
}

/* ---- signals ------------------------------------------------------------------------------------- */

static const struct {
    int number;
    const char *what;
} signals[] = {
    {SIGSEGV, "a place in memory that is not there (SIGSEGV)"},
    {SIGBUS, "a place in memory that cannot be had (SIGBUS)"},
    {SIGILL, "an instruction that this processor does not know (SIGILL)"},
    {SIGFPE, "an arithmetic fault of the processor (SIGFPE)"},
};
#define SIGNALS (sizeof signals / sizeof *signals)

/* Who looked after them before. */
static struct sigaction before_us[SIGNALS];

int guard_signal(size_t i)
{
    return i < SIGNALS ? signals[i].number : 0;
}

const char *guard_signal_words(int number)
{
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i].number == number)
            return signals[i].what;
    return "a signal";
}

/* Where nobody guards, all is as it was: the instruction is tried again and meets whoever was there before. */
static void on_signal(int number, siginfo_t *info, void *context)
{
    (void)context;
    guard_leave(GUARD_DEATH, number);
    for (size_t i = 0; i < SIGNALS; i++)
        if (signals[i].number == number)
            sigaction(number, &before_us[i], NULL);
    if (info->si_code <= 0) /* somebody sent it */
        raise(number);
}

static void catch_signals(void)
{
    struct sigaction ours = {.sa_sigaction = on_signal,
                             .sa_flags = (int)(SA_SIGINFO | SA_ONSTACK | SA_NODEFER)};
    for (size_t i = 0; i < SIGNALS; i++)
        sigaction(signals[i].number, &ours, &before_us[i]);
}

/* For the handler, where the stack itself is used up; the frame that holds it is whole. */
#define STACK_SIZE ((size_t)32 << 10)

int guard_death(void (*work)(void *data), void *data)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ADDRESSES_WATCHED)
        return guard_call(GUARD_DEATH, work, data);
    pthread_once(&once, catch_signals);
    char stack[STACK_SIZE];
    stack_t before;
    bool kept = sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, &before) == 0;
    int with = guard_call(GUARD_DEATH, work, data);
    if (kept)
        sigaltstack(&before, NULL);
    return with;
}
