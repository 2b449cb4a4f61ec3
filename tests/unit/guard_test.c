/* Work that is left at once comes back to the guard for its cause, on any stack, and what nobody guards is as it was. */
#include "base/guard.h"

#include "base/memory.h"
#include "base/poison.h"
#include "base/thread.h"
#include "check.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile size_t nowhere = 8;

static void leave(void *data)
{
    guard_leave(GUARD_MEMORY, 5);
    guard_leave(GUARD_DEATH, 6);
    *(int *)data = 7;
}

static void guard_again(void *data)
{
    *(int *)data = guard_call(GUARD_DEATH, leave, data);
}

static void test_causes(void)
{
    int with = 0;
    guard_again(&with);
    CHECK(with == 6); /* nobody guards memory */
    CHECK(guard_call(GUARD_MEMORY, guard_again, &with) == 5 && with == 6);
    leave(&with); /* nobody guards anything */
    CHECK(with == 7);
}

static void read_nowhere(void *data)
{
    *(int *)data = *(volatile int *)nowhere;
}

static size_t deep(volatile char *from, size_t n)
{
    volatile char here[4096];
    here[0] = from[0];
    return n == 0 ? 0 : 1 + deep(here, n + 1) + (size_t)here[0];
}

static void use_up_stack(void *data)
{
    char first = 1;
    *(size_t *)data = deep(&first, 1);
}

static void *die_in_thread(void *data)
{
    *(int *)data = guard_death(read_nowhere, data);
    return NULL;
}

static void test_deaths(void)
{
    int number = 0;
    size_t depth = 0;
    pthread_t thread;
    CHECK(guard_death(read_nowhere, &number) == SIGSEGV);
    CHECK(guard_death(use_up_stack, &depth) == SIGSEGV);
    CHECK(guard_death(read_nowhere, &number) == SIGSEGV);
    CHECK(thread_begin(&thread, die_in_thread, &number) && pthread_join(thread, NULL) == 0);
    CHECK(number == SIGSEGV);
    CHECK(strstr(guard_signal_words(number), "SIGSEGV"));
}

/* A program that dies unguarded, also after it was guarded, dies of what it dies of. */
static void test_unguarded(void)
{
    pid_t child = fork();
    if (child == 0) {
        int number;
        guard_death(read_nowhere, &number);
        read_nowhere(&number);
        _exit(0);
    }
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
}

int main(void)
{
    test_causes();
    if (!ADDRESSES_WATCHED) {
        test_deaths();
        test_unguarded();
    }
    return check_done();
}
