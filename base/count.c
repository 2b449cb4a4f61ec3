/* How much work the program did: only in builds with RELAY_COUNT, where every basic block calls the function below.
 *
 *     RELAY_COUNT_TO=FILE   the number of blocks goes there when the program ends, and how many came after the interrupt
 *     RELAY_COUNT_STOP=N    the Nth block interrupts the program, as a person would
 *
 * Unlike time it is the same in each run, and no loop escapes it. tests/growth/growth.py stands on it. */
#ifdef RELAY_COUNT
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define UNCOUNTED __attribute__((no_sanitize_coverage))

void __sanitizer_cov_trace_pc(void);

static uint64_t blocks, stop;

UNCOUNTED void __sanitizer_cov_trace_pc(void)
{
    if (++blocks != stop)
        return;
    /* The thread that waits for signals gets its turn. */
    kill(getpid(), SIGINT);
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
}

UNCOUNTED __attribute__((constructor)) static void begin(void)
{
    const char *at = getenv("RELAY_COUNT_STOP");
    stop = at ? strtoull(at, NULL, 10) : 0;
}

UNCOUNTED __attribute__((destructor)) static void end(void)
{
    const char *path = getenv("RELAY_COUNT_TO");
    FILE *out = path ? fopen(path, "w") : NULL;
    if (!out)
        return;
    fprintf(out, "%llu %llu\n", (unsigned long long)blocks,
            (unsigned long long)(stop && blocks > stop ? blocks - stop : 0));
    fclose(out);
}
#else
typedef int CountNothing;
#endif
