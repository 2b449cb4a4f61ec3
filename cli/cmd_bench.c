#include "cli/cli.h"

#include <string.h>

static const CliOption options[] = {
    {.name = "bench", .arg = "DIR", .doc = "the folder of the named workloads"},
    {.name = "threads", .arg = "N", .number = true, .doc = "default: one"},
    {.name = "seconds", .arg = "S", .number = true, .doc = "the least time to measure"},
    {.name = "runs", .arg = "R", .number = true, .doc = "the least number of runs"},
    {.name = "exec",
     .arg = "auto|interp|jit|gpu",
     .doc = "the engine; default `jit` where it is built in"},
    {.name = "args", .arg = "FILE.json", .doc = "the arguments of a program"},
    {.name = "arg", .arg = "NAME=FILE.npy", .doc = "one of them; may be repeated"},
    {.name = "bytes",
     .arg = "NAME=FILE",
     .doc = "one argument: the bytes of any file; may be repeated"},
    {.name = "params",
     .arg = "FILE",
     .doc = "parameters of the function by name, which become constants: .npz or .params"},
    {.name = "random",
     .arg = "SEED",
     .seed = true,
     .doc = "uniform values for the tensors that remain"},
    {.name = "peers",
     .arg = "FILE",
     .doc = "what others need for the workload, as tests/bench/compare.py writes it, beside ours"},
    {.name = "json", .doc = "one JSON line each, not a table"},
    {.letter = 'O',
     .key = "O",
     .arg = "N",
     .number = true,
     .doc = "the level of the pipeline before code is made; default 2; 0: as written"},
    {.name = "exact", .doc = "no sum in another order than written, nothing approximated"},
    {.name = "target",
     .arg = "GPU",
     .doc = "with `--exec gpu`: what kernels are made for; default: all that the card has"},
    {.name = "tf32", .doc = "on a card, products of float32 may round their factors to TF32"},
    {.name = "no-cache", .doc = "compiled code is neither kept in files nor taken from them"},
    {0},
};

static bool is_program(const char *operand)
{
    size_t n = strlen(operand);
    return strcmp(operand, "-") == 0 || (n > 4 && strcmp(operand + n - 4, ".rly") == 0);
}

static int run_bench(const CliArgs *args)
{
    int worst = RELAY_OK;
    for (size_t i = 0; i < args->n_operands && worst < RELAY_LIMIT; i++) {
        const char *operand = args->operands[i];
        int status = is_program(operand) ? cli_stage(args, "bench", operand)
                                         : cli_stage_with(args, "bench", NULL, "workload", operand);
        worst = status > worst ? status : worst;
    }
    return worst;
}

const CliCommand cmd_bench = {
    .name = "bench",
    .args = "WORKLOAD…|DIR",
    .doc = "Times named workloads of the benchmark folder, or the `@main` of programs.",
    .options = options,
    .limits = true,
    .least = 1,
    .most = SIZE_MAX,
    .run = run_bench,
};
