/* The kernels of a GPU, against the evaluator: calls of every operator that has a tensor expression, if only for a card, as nests that are bound to a grid and
 * its threads (sched/gpu.h), run by the interpreter of nests, which finds races, barriers that some thread misses and places outside of
 * their buffers. */
#include "sched/gpu.h"
#include "te/op_eval.h"
#include "tests/random/internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SAMPLES = 24, INPUTS_MOST = 64 };

typedef struct Check {
    Gen g;
    const char *only; /* the operator's name; NULL: all */
    long rows, calls, wrong, refused;
} Check;

static double tolerance_of(DType t)
{
    return !dtype_is_float(t) ? 0 : t.bits == 64 ? 1e-9 : t.bits == 32 ? 1e-4 : 2e-2;
}

/* That of the coarsest of the floats that are folded, in whatever order. */
static double tolerance(const TeProgram *p)
{
    double most = 0;
    for (int i = 0; i < p->n_stages; i++) {
        double t = tolerance_of(p->stages[i].dtype);
        most = p->stages[i].reduce != TE_NO_REDUCE && t > most ? t : most;
    }
    return most;
}

/* Whole numbers from `low` on: indices of a kernel, which ends the program where there is no such place, are few. */
static Tensor *random_input(Check *c, const TeTensor *of, int64_t low)
{
    Tensor *t = tensor_new(&c->g.cx->limits, of->dtype, of->rank, of->shape);
    size_t size = dtype_size(of->dtype);
    for (int64_t i = 0; t && i < t->size; i++) {
        double v = dtype_is_float(of->dtype) ? (double)between(&c->g, -800, 800) / 256
                                             : (double)between(&c->g, low, low + 3);
        dtype_set_double(of->dtype, t->data + (size_t)i * size, v);
    }
    return t;
}

/* What is no float says nothing when it was made of floats that are not the same. */
static bool is_close(DType t, const char *wanted, const char *got, int64_t n, double near)
{
    if (near > 0 && !dtype_is_float(t))
        return true;
    near = near < tolerance_of(t) ? tolerance_of(t) : near;
    size_t size = dtype_size(t);
    for (int64_t i = 0; i < n; i++) {
        if (near == 0 && memcmp(wanted + (size_t)i * size, got + (size_t)i * size, size) != 0)
            return false;
        double a = dtype_get_double(t, wanted + (size_t)i * size);
        double b = dtype_get_double(t, got + (size_t)i * size);
        if (near > 0 && !(isnan(a) && isnan(b)) && a != b && !(fabs(a - b) <= near * (1 + fabs(a))))
            return false;
    }
    return true;
}

static void report(Check *c, const Sample *s, const TeProgram *p, const Nest *n, const char *what)
{
    Buf text = {0};
    te_print(&text, p, NULL);
    buf_char(&text, '\n');
    if (n)
        nest_print(&text, n);
    printf("`%s` of", s->op->name);
    for (uint32_t i = 0; i < s->n; i++)
        printf(" %s", type_str(c->g.cx, s->args[i]));
    printf(": %s\n%.6000s\n", what, buf_text(&text));
    buf_deinit(&text);
    c->wrong++;
}

/* Memory of the nest's own, in which what nobody wrote is seen. */
static char **memory_of(const Nest *n, TensorView *inputs)
{
    char **memory = calloc(n->buffers.n + 1, sizeof *memory);
    for (size_t i = 0; i < n->buffers.n; i++) {
        const NestBuffer *b = &n->buffers.at[i];
        size_t bytes = (size_t)b->size * dtype_size(b->dtype);
        if ((int)i < n->n_inputs) {
            memory[i] = inputs[i].t.data;
        } else if (b->place == NEST_GIVEN || b->place == NEST_SCRATCH) {
            memory[i] = malloc(bytes + 1);
            memset(memory[i], 0xff, bytes);
        }
    }
    return memory;
}

static void free_memory(const Nest *n, char **memory)
{
    for (size_t i = (size_t)n->n_inputs; i < n->buffers.n; i++)
        if (n->buffers.at[i].place == NEST_GIVEN || n->buffers.at[i].place == NEST_SCRATCH)
            free(memory[i]);
    free(memory);
}

/* Numbers that say a shape may not fit it here, and others have no value. */
static bool is_sound(Check *c, const TeProgram *p, TensorView *inputs)
{
    Nest *plain = nest_of(c->g.cx, &c->g.scratch, p, NULL);
    char **memory = memory_of(plain, inputs);
    bool sound = nest_run(plain, memory);
    free_memory(plain, memory);
    return sound;
}

static void compare(Check *c, const Sample *s, const TeProgram *p, TensorView *inputs,
                    Tensor *const *wanted)
{
    Ctx *cx = c->g.cx;
    GpuMachine machine = {.threads = 32 << between(&c->g, 0, 2),
                          .wide_least = once_in(&c->g, 2) ? 1 : 16384,
                          .folds_least = once_in(&c->g, 2) ? 2 : 32,
                          .blocks = 128,
                          .reorders = !once_in(&c->g, 5)};
    Nest *n = sched_gpu(cx, &c->g.scratch, &machine, p, NULL);
    if (!n) {
        c->refused++;
        return;
    }
    const char *wrong = nest_verify(n);
    char **memory = memory_of(n, inputs);
    wrong = wrong ? wrong : nest_fault(n, memory);
    for (int i = 0; i < p->n_outputs && !wrong; i++) {
        const NestBuffer *b = &n->buffers.at[n->p->outputs[i]];
        if (n->p->outputs[i] >= n->n_inputs &&
            !is_close(b->dtype, wanted[i]->data, memory[n->p->outputs[i]], b->size, tolerance(p)))
            wrong = "it gives other numbers";
    }
    if (wrong)
        report(c, s, p, n, wrong);
    free_memory(n, memory);
}

/* The evaluator's results, of a kernel by the kernel. */
static bool evaluate(Check *c, const Sample *s, const TeProgram *p, Tensor **given,
                     const TensorView *inputs, Tensor **wanted)
{
    Value args[INPUTS_MOST];
    if (s->op->compute)
        return te_run(c->g.cx, p, (Span){0}, inputs, wanted);
    for (int i = 0; i < p->n_inputs; i++)
        args[i] = value_tensor(given[i]);
    Value v = op_eval(c->g.cx, s->op, s->attrs, (Span){0}, s->n, args);
    if (v.kind != VALUE_TENSOR)
        return false;
    wanted[0] = v.tensor;
    return true;
}

static void check_sample(Check *c, const Sample *s, const Type *result)
{
    Ctx *cx = c->g.cx;
    Tensor *wanted[INPUTS_MOST];
    TensorView inputs[INPUTS_MOST];
    Diags *kept = cx->diags;
    cx->diags = &c->g.quiet;
    TeProgram *p = te_of_op(cx, &c->g.scratch, s->op, s->attrs, (Span){0}, s->n, s->args, result);
    p = p ? te_inline(cx, &c->g.scratch, p) : NULL;
    if (p && p->n_inputs <= INPUTS_MOST && p->n_outputs <= INPUTS_MOST) {
        Tensor *given[INPUTS_MOST];
        for (int i = 0; i < p->n_inputs; i++) {
            given[i] = random_input(c, &p->inputs[i], s->op->compute ? 0 : -2);
            inputs[i].t = *given[i];
        }
        /* What has no value has none on a GPU. */
        if (evaluate(c, s, p, given, inputs, wanted)) {
            c->calls++;
            if (is_sound(c, p, inputs))
                compare(c, s, p, inputs, wanted);
            for (int i = 0; i < p->n_outputs; i++)
                tensor_release(wanted[i]);
        }
        for (int i = 0; i < p->n_inputs; i++)
            tensor_release(given[i]);
    }
    cx->diags = kept;
    diags_clear(&c->g.quiet);
}

static bool check_op(void *data, const Op *op)
{
    Check *c = data;
    long wrong = c->wrong;
    if ((!op->compute && !op->card) || !op->samples || op->samples[0] != '(' ||
        (c->only && strcmp(c->only, op->name) != 0))
        return true;
    c->rows++;
    for (int i = 0; i < SAMPLES && c->wrong == wrong; i++) {
        Sample s;
        const Type *t = draw_sample(&c->g, op, i < 4 ? 0 : 2, &s);
        bool fixed = t && !has_any(t);
        for (uint32_t k = 0; fixed && k < s.n; k++)
            fixed = !has_any(s.args[k]);
        fixed = fixed && (op->compute || op_is_for_card(op, s.attrs));
        ArenaMark mark = arena_mark(&c->g.scratch);
        if (fixed)
            check_sample(c, &s, t);
        arena_reset(&c->g.scratch, mark);
    }
    return true;
}

long check_gpu(Ctx *cx, uint64_t seed, const char *only)
{
    Module *m = module_new(cx);
    Check c = {.g = {.cx = cx, .m = m, .arena = &m->arena, .seed = seed}, .only = only};
    diags_init(&c.g.quiet, NULL);
    arena_init(&c.g.scratch, &cx->limits);
    limits_start(&cx->limits);
    op_each(cx->ops, check_op, &c);
    printf("%ld operators, %ld calls, %ld without kernels, %ld wrong\n", c.rows, c.calls, c.refused,
           c.wrong);
    arena_deinit(&c.g.scratch);
    diags_deinit(&c.g.quiet);
    module_release(m);
    return c.wrong;
}
