/* What is on this machine, and what to do about what is missing. */
#include "runtime/cuda.h"
#include "session/sass.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GOOD "ok "
#define BAD "-- "

static void line_value(const char *text, const char *key, Buf *out)
{
    const char *at = strstr(text, key);
    at = at ? strchr(at, ':') : NULL;
    if (at)
        buf_bytes(out, at + 2, strcspn(at + 2, "\n"));
}

static void doctor_cpu(Buf *b)
{
    static const char *const wanted[] = {"avx2",        "fma",         "f16c",    "avx512f",
                                         "avx512_vnni", "avx512_bf16", "amx_tile"};
    char text[16384];
    FILE *f = fopen("/proc/cpuinfo", "r");
    size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
    Buf model = {0}, flags = {0};
    line_value(text, "model name", &model);
    line_value(text, "flags", &flags);
    buf_printf(b, GOOD "processor   %s, %ld cores\n", model.n ? buf_text(&model) : "unknown",
               sysconf(_SC_NPROCESSORS_ONLN));
    buf_str(b, "   features   ");
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        Buf key = {0};
        buf_printf(&key, " %s ", wanted[i]);
        if (strstr(buf_text(&flags), buf_text(&key)))
            buf_printf(b, " %s", wanted[i]);
        buf_deinit(&key);
    }
    buf_char(b, '\n');
    buf_deinit(&model);
    buf_deinit(&flags);
}

static void doctor_blas(RelaySession *s, Buf *b)
{
    const char *core = blas_core(s->cx.blas);
    if (!core) {
        buf_printf(b, BAD "OpenBLAS    %s\n   try         apt-get install libopenblas0-pthread\n",
                   blas_error(s->cx.blas));
        return;
    }
    const char *asked = blas_core_asked(s->cx.blas);
    buf_printf(b, GOOD "OpenBLAS    core %s%s%s\n   build       %s\n", core,
               asked ? ", asked for " : "", asked ? asked : "", blas_config(s->cx.blas));
}

static void doctor_jit(RelaySession *s, Buf *b)
{
    Buf why = {0};
    const char *cpu = session_jit(s) ? s->jit_table->cpu_name(s->jit, &why) : NULL;
    if (cpu)
        buf_printf(b, GOOD "LLVM        %s, compiling for %s\n", s->jit_table->version_text(), cpu);
    else
        buf_printf(b, BAD "LLVM        %s; the evaluator runs everything\n",
                   buf_text(s->jit ? &why : &s->jit_why));
    buf_deinit(&why);
}

/* A program of NVIDIA's toolkit. */
static void doctor_tool(Buf *b, const char *name, const char *use)
{
    Buf file = {0};
    bool found = sass_tool(name, &file);
    buf_printf(b, "   %-11s %s; it %s\n", name, found ? buf_text(&file) : "not found", use);
    buf_deinit(&file);
}

static void doctor_gpu(Buf *b)
{
    CudaInfo info;
    Buf why = {0};
    if (cuda_find(&info, &why)) {
        buf_printf(b, GOOD "GPU         %s, sm_%d%d, %d multiprocessors, %.1f GiB", info.name,
                   info.major, info.minor, info.processors, (double)info.memory / (1 << 30));
        if (info.devices > 1)
            buf_printf(b, "; the first of %d", info.devices);
        buf_printf(b, "\n   driver      for CUDA %d.%d\n", info.driver / 1000,
                   info.driver % 1000 / 10);
    } else {
        buf_printf(b, BAD "GPU         %s; `:engine gpu` needs one\n", buf_text(&why));
    }
    buf_deinit(&why);
    doctor_tool(b, "ptxas", "checks compiled kernels");
    doctor_tool(b, "nvdisasm", "shows their machine code");
}

static void doctor_jupyter(Buf *b)
{
    const char *home = getenv("HOME"), *data = getenv("JUPYTER_DATA_DIR"),
               *prefix = getenv("VIRTUAL_ENV");
    const char *dirs[4] = {data, NULL, "/usr/local/share/jupyter", "/usr/share/jupyter"};
    Buf user = {0}, env = {0};
    if (!data && home) {
        buf_printf(&user, "%s/.local/share/jupyter", home);
        dirs[0] = buf_text(&user);
    }
    if (prefix) {
        buf_printf(&env, "%s/share/jupyter", prefix);
        dirs[1] = buf_text(&env);
    }
    bool found = false;
    for (int i = 0; i < 4; i++) {
        Buf path = {0};
        buf_printf(&path, "%s/kernels/relay/kernel.json", dirs[i] ? dirs[i] : "");
        if (dirs[i] && access(buf_text(&path), R_OK) == 0) {
            buf_printf(b, GOOD "Jupyter     kernel at %s\n", buf_text(&path));
            found = true;
        }
        buf_deinit(&path);
    }
    if (!found)
        buf_str(b, BAD "Jupyter     the kernel is not installed\n   try         relay kernel "
                       "install --user\n");
    buf_deinit(&user);
    buf_deinit(&env);
}

RelayStatus stage_doctor(RelaySession *s, const RelayRequest *r)
{
    (void)r;
    Buf b = {0};
    doctor_cpu(&b);
    buf_printf(&b, GOOD "threads     %d\n", pool_threads(s->cx.pool));
    doctor_blas(s, &b);
    doctor_jit(s, &b);
    doctor_gpu(&b);
    doctor_jupyter(&b);
    emit_text(s, RELAY_OUTPUT_TEXT, &b);
    buf_deinit(&b);
    return session_status(s);
}

RelayStatus stage_version(RelaySession *s, const RelayRequest *r)
{
    (void)r;
    Buf b = {0};
    buf_printf(&b, "relay %s (text format 0.0.5)\n", RELAY_VERSION);
    buf_printf(&b, "compiler   %s\n",
#ifdef __clang__
               "clang " __clang_version__
#else
               "gcc " __VERSION__
#endif
    );
    const char *config = blas_config(s->cx.blas);
    buf_printf(&b, "LLVM       %s\n", session_jit(s) ? s->jit_table->version_text() : "none");
    buf_printf(&b, "OpenBLAS   %s\n", config ? config : "none");
    emit_text(s, RELAY_OUTPUT_TEXT, &b);
    buf_deinit(&b);
    return session_status(s);
}
