/* What the kernel and its machine use up: front ends show it beside the notebook. */
#include "kernel/usage.h"

#include "base/limit.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* The number behind a key of /proc/meminfo, in bytes. */
static json_int_t memory_of(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    unsigned long long kib = 0;
    if (at && sscanf(at + strlen(key), " %llu", &kib) != 1)
        kib = 0;
    return (json_int_t)(kib * 1024);
}

static size_t read_text(const char *path, char *out, size_t room)
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(out, 1, room - 1, f) : 0;
    out[n] = '\0';
    if (f)
        fclose(f);
    return n;
}

static json_t *memory(void)
{
    char text[4096];
    read_text("/proc/meminfo", text, sizeof text);
    json_int_t total = memory_of(text, "MemTotal:"), available = memory_of(text, "MemAvailable:"),
               free = memory_of(text, "MemFree:");
    double percent = total > 0 ? 100.0 * (double)(total - available) / (double)total : 0;
    return json_pack("{s:I, s:I, s:f, s:I, s:I}", "total", total, "available", available, "percent",
                     percent, "used", total - available, "free", free);
}

static json_int_t resident(void)
{
    char text[128];
    unsigned long long size = 0, pages = 0;
    read_text("/proc/self/statm", text, sizeof text);
    if (sscanf(text, "%llu %llu", &size, &pages) != 2)
        pages = 0;
    return (json_int_t)(pages * (unsigned long long)sysconf(_SC_PAGESIZE));
}

static double seconds_of(struct timeval t)
{
    return (double)t.tv_sec + 1e-6 * (double)t.tv_usec;
}

/* Of the machine, in ticks: all of them, and those in which it had work. */
static void machine_ticks(double *all, double *busy)
{
    char text[512];
    unsigned long long t[8] = {0};
    read_text("/proc/stat", text, sizeof text);
    sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4],
           &t[5], &t[6], &t[7]);
    *all = 0;
    for (int i = 0; i < 8; i++)
        *all += (double)t[i];
    *busy = *all - (double)t[3] - (double)t[4];
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

json_t *usage_content(Usage *last)
{
    struct rusage r;
    char host[256] = "";
    Usage now = {.wall = clock_seconds()};
    getrusage(RUSAGE_SELF, &r);
    now.cpu = seconds_of(r.ru_utime) + seconds_of(r.ru_stime);
    machine_ticks(&now.all, &now.busy);
    gethostname(host, sizeof host - 1);
    json_t *content =
        json_pack("{s:s, s:i, s:i, s:f, s:I, s:f, s:o}", "hostname", host, "pid", (int)getpid(),
                  "cpu_count", (int)sysconf(_SC_NPROCESSORS_ONLN), "kernel_cpu",
                  percent(now.cpu - last->cpu, now.wall - last->wall), "kernel_memory", resident(),
                  "host_cpu_percent", percent(now.busy - last->busy, now.all - last->all),
                  "host_virtual_memory", memory());
    *last = now;
    return content;
}
