/* Strips: an expression turned into steps, each of which runs over a whole strip in one loop.
 *
 * A load whose position is linear in the axes is a sequence of runs with one stride each; where a strip
 * lies within one run of stride 1, its elements are used where they are. A load that may leave its tensor
 * is cut, run by run, to the part inside. All others compute their positions as strips of int64. */
#include "te/strip.h"

#include "base/number.h"
#include "base/table.h"

#include <assert.h>
#include <string.h>

typedef struct Maker {
    Arena *arena;
    const TeProgram *p;
    char *const *data;
    const StripSpace *space;
    Strip *strip;
    PtrMap done;                /* node -> its step + 1 */
    bool failed;
} Maker;

/* ---- linear functions ---------------------------------------------------------------------------- */

static void *array_of(Maker *m, int n)
{
    return arena_alloc_must(m->arena, (size_t)n + 1, sizeof(int64_t));
}

static int64_t *fixed_part(Maker *m, const TeLinear *at)
{
    int64_t *fixed = array_of(m, m->space->n_fixed);
    for (int i = 0; i < m->space->n_fixed; i++)
        fixed[i] = at->k[m->space->fixed[i]];
    return fixed;
}

/* Neighbouring axes that the function passes through evenly become one. */
static Runs runs_of(Maker *m, const TeLinear *at)
{
    const StripSpace *s = m->space;
    Runs r = {.base = at->c,
              .extent = array_of(m, s->n),
              .stride = array_of(m, s->n),
              .fixed = fixed_part(m, at)};
    for (int i = 0; i < s->n; i++) {
        int64_t e = s->extent[i], k = at->k[s->axis[i]];
        if (e == 1)
            continue;
        int64_t whole, both;
        if (r.n && int64_mul(k, e, &whole) && r.stride[r.n - 1] == whole &&
            int64_mul(r.extent[r.n - 1], e, &both)) {
            r.extent[r.n - 1] = both;
            r.stride[r.n - 1] = k;
            continue;
        }
        r.extent[r.n] = e;
        r.stride[r.n++] = k;
    }
    return r;
}

static bool runs_still(const Maker *m, const Runs *r)
{
    for (int i = 0; i < r->n; i++)
        if (r->stride[i])
            return false;
    for (int i = 0; i < m->space->n_fixed; i++)
        if (r->fixed[i])
            return false;
    return true;
}

/* The least and greatest value that a linear index takes. */
static void linear_range(const Maker *m, const TeLinear *at, int64_t *low, int64_t *high)
{
    const StripSpace *s = m->space;
    *low = *high = at->c;
    for (int i = 0; i < s->n + s->n_fixed; i++) {
        int axis = i < s->n ? s->axis[i] : s->fixed[i - s->n];
        int64_t k = at->k[axis], first = k * s->low[axis], last = k * (s->high[axis] - 1);
        *low += first < last ? first : last;
        *high += first < last ? last : first;
    }
}

/* ---- making steps -------------------------------------------------------------------------------- */

static int add_step(Maker *m, const Te *e, Step s)
{
    if (e)
        s.id = dtype_id(e->dtype);
    vec_push(&m->strip->steps, m->arena, s);
    int i = (int)m->strip->steps.n - 1;
    if (e)
        ptrmap_put(&m->done, e, (void *)(intptr_t)(i + 1));
    return i;
}

static int step_of(const Maker *m, const Te *e)
{
    return e ? (int)(intptr_t)ptrmap_find(&m->done, e) - 1 : -1;
}

static bool still(const Maker *m, int step)
{
    return step < 0 || m->strip->steps.at[step].invariant;
}

static int add_ramp(Maker *m, const Te *e, const TeLinear *at)
{
    Step s = {.kind = STEP_RAMP, .id = DT_INT64, .a = -1, .b = -1, .c = -1, .runs = runs_of(m, at)};
    s.invariant = runs_still(m, &s.runs);
    return add_step(m, e, s);
}

static int add_const(Maker *m, const Te *e, DTypeId id, uint64_t bits)
{
    return add_step(m, e,
                    (Step){.kind = STEP_CONST,
                           .id = id,
                           .a = -1,
                           .b = -1,
                           .c = -1,
                           .bits = bits,
                           .invariant = true});
}

static int add_binary(Maker *m, TeOp op, int a, int b)
{
    return add_step(m, NULL,
                    (Step){.kind = STEP_BINARY,
                           .op = (uint8_t)op,
                           .id = DT_INT64,
                           .from = DT_INT64,
                           .a = a,
                           .b = b,
                           .c = -1,
                           .invariant = still(m, a) && still(m, b)});
}

/* The borders that a padded load may cross; those that it cannot are none. */
static bool find_borders(Maker *m, const Te *e, Step *s)
{
    TeTensor t = te_tensor(m->p, e->tensor);
    s->borders = arena_alloc_must(m->arena, (size_t)t.rank + 1, sizeof *s->borders);
    for (int i = 0; i < t.rank; i++) {
        TeLinear at;
        int64_t low, high;
        if (!te_linear(e->index[i], &at))
            return false;
        linear_range(m, &at, &low, &high);
        if (low >= 0 && high < t.shape[i])
            continue;
        Border *b = &s->borders[s->n_borders++];
        *b = (Border){.extent = t.shape[i],
                      .c = at.c,
                      .k = array_of(m, m->space->n),
                      .fixed = fixed_part(m, &at)};
        for (int j = 0; j < m->space->n; j++)
            b->k[j] = at.k[m->space->axis[j]];
    }
    return true;
}

#ifndef NDEBUG
/* Relations let no shapes through of which a load would leave its tensor. */
static bool stays_inside(const Maker *m, const Te *e)
{
    TeTensor t = te_tensor(m->p, e->tensor);
    TeLinear at;
    int64_t low, high;
    const StripSpace *s = m->space;
    for (int i = 0; i < s->n + s->n_fixed; i++) {
        int axis = i < s->n ? s->axis[i] : s->fixed[i - s->n];
        if (s->low[axis] >= s->high[axis])
            return true;
    }
    for (int i = 0; i < t.rank; i++) {
        if (!te_linear(e->index[i], &at))
            continue;
        linear_range(m, &at, &low, &high);
        if (low < 0 || high >= t.shape[i])
            return false;
    }
    return true;
}
#endif

/* A load of linear position. */
static bool add_linear_load(Maker *m, const Te *e)
{
    TeLinear at;
    Step s = {.kind = STEP_LOAD, .a = -1, .b = -1, .c = -1, .data = m->data[e->tensor]};
    if (!te_position(m->p, e, &at))
        return false;
    assert(e->otherwise || stays_inside(m, e));
    if (e->otherwise) {
        if (!find_borders(m, e, &s))
            return false;
        if (s.n_borders) {
            s.kind = STEP_WINDOW;
            s.c = step_of(m, e->otherwise);
            s.window = array_of(m, m->space->n);
            for (int i = 0; i < m->space->n; i++)
                s.window[i] = at.k[m->space->axis[i]];
        }
    }
    s.runs = runs_of(m, &at);
    s.invariant = s.kind == STEP_LOAD && runs_still(m, &s.runs);
    add_step(m, e, s);
    return true;
}

/* A load of any position: the linear part of it is one ramp, the rest is added index by index. */
static void add_gather(Maker *m, const Te *e)
{
    TeTensor t = te_tensor(m->p, e->tensor);
    TeLinear sum = {0};
    int64_t stride = 1;
    int position = -1, inside = -1;
    for (int i = t.rank - 1; i >= 0; stride *= t.shape[i], i--) {
        TeLinear at;
        bool linear = te_linear(e->index[i], &at);
        if (e->otherwise) {
            int index = linear ? add_ramp(m, NULL, &at) : step_of(m, e->index[i]);
            inside = add_step(m, NULL,
                              (Step){.kind = STEP_RANGE,
                                     .id = DT_BOOL,
                                     .a = index,
                                     .b = inside,
                                     .c = -1,
                                     .extent = t.shape[i],
                                     .invariant = still(m, index) && still(m, inside)});
        }
        if (linear) {
            sum.c += stride * at.c;
            for (int k = 0; k < TE_AXES_MOST; k++)
                sum.k[k] += stride * at.k[k];
            continue;
        }
        int part = step_of(m, e->index[i]);
        if (stride != 1)
            part = add_binary(m, TE_MUL, part, add_const(m, NULL, DT_INT64, (uint64_t)stride));
        position = position < 0 ? part : add_binary(m, TE_ADD, position, part);
    }
    int base = add_ramp(m, NULL, &sum);
    position = position < 0 ? base : add_binary(m, TE_ADD, position, base);
    int other = step_of(m, e->otherwise);
    add_step(m, e,
             (Step){.kind = STEP_GATHER,
                    .a = position,
                    .b = inside,
                    .c = other,
                    .data = m->data[e->tensor],
                    .extent = stride,
                    .invariant = still(m, position) && still(m, inside) && still(m, other)});
}

static void add_operation(Maker *m, const Te *e)
{
    static const uint8_t kinds[] = {[TE_NODE_UNARY] = STEP_UNARY,
                                    [TE_NODE_BINARY] = STEP_BINARY,
                                    [TE_NODE_CAST] = STEP_CAST,
                                    [TE_NODE_SELECT] = STEP_SELECT};
    int a = step_of(m, e->a), b = step_of(m, e->b), c = step_of(m, e->c);
    add_step(m, e,
             (Step){.kind = kinds[e->kind],
                    .op = e->op,
                    .from = dtype_id(e->a->dtype),
                    .a = a,
                    .b = b,
                    .c = c,
                    .checked = te_may_fault(e),
                    .invariant = still(m, a) && still(m, b) && still(m, c)});
}

/* The step of a node whose children have theirs. */
static void add_node(Maker *m, const Te *e)
{
    TeLinear at;
    if (e->kind == TE_NODE_CONST)
        add_const(m, e, dtype_id(e->dtype), e->value.bits);
    else if (te_linear(e, &at))
        add_ramp(m, e, &at);
    else if (e->kind != TE_NODE_LOAD)
        add_operation(m, e);
    else if (!add_linear_load(m, e))
        add_gather(m, e);
}

typedef struct Pending {
    const Te *e;
    bool entered;
} Pending;
typedef Vec(Pending) PendingVec;

/* The children that a node's step reads. */
static void push_children(Maker *m, PendingVec *work, const Te *e)
{
    TeLinear at;
    if (e->kind == TE_NODE_CONST || te_linear(e, &at))
        return;
    if (e->kind != TE_NODE_LOAD) {
        const Te *children[3] = {e->c, e->b, e->a};
        for (int i = 0; i < 3; i++)
            if (children[i])
                vec_push(work, m->arena, ((Pending){children[i], false}));
        return;
    }
    if (e->otherwise)
        vec_push(work, m->arena, ((Pending){e->otherwise, false}));
    if (te_position(m->p, e, &at))
        return;
    for (int i = 0; i < e->n; i++)
        if (!te_linear(e->index[i], &at))
            vec_push(work, m->arena, ((Pending){e->index[i], false}));
}

static void add_body(Maker *m, const Te *body)
{
    PendingVec work = {0};
    vec_push(&work, m->arena, ((Pending){body, false}));
    while (work.n) {
        Pending *top = &vec_last(&work);
        const Te *e = top->e;
        if (step_of(m, e) >= 0) {
            work.n--;
        } else if (top->entered) {
            work.n--;
            add_node(m, e);
        } else {
            top->entered = true;
            push_children(m, &work, e);
        }
    }
}

/* ---- slots --------------------------------------------------------------------------------------- */

static void note_use(Strip *s, int step, int user)
{
    if (step >= 0)
        s->steps.at[step].last_use = user;
}

/* A result may take the place of an operand as large that nobody needs any more. */
static bool in_place(const Step *step, const Step *operand)
{
    return (step->kind == STEP_UNARY || step->kind == STEP_BINARY) &&
           dtype_row(step->id)->size == dtype_row(operand->id)->size;
}

static void free_slot(const Strip *s, int step, int user, bool *used)
{
    const Step *o = step < 0 ? NULL : &s->steps.at[step];
    if (o && !o->invariant && o->last_use == user)
        used[o->slot] = false;
}

static void assign_slots(Strip *s, Arena *arena)
{
    int n = (int)s->steps.n;
    bool *used = arena_alloc_must(arena, (size_t)n + 1, sizeof *used);
    for (int i = 0; i < n; i++) {
        note_use(s, s->steps.at[i].a, i);
        note_use(s, s->steps.at[i].b, i);
        note_use(s, s->steps.at[i].c, i);
    }
    /* What is computed once a frame keeps its slot throughout. */
    for (int i = 0; i < n; i++)
        if (s->steps.at[i].invariant)
            s->steps.at[i].slot = s->n_slots++;
    for (int i = 0; i < s->n_slots; i++)
        used[i] = true;
    for (int i = 0; i < n; i++) {
        Step *step = &s->steps.at[i];
        int operands[3] = {step->a, step->b, step->c};
        if (step->invariant)
            continue;
        for (int k = 0; k < 3; k++)
            if (operands[k] >= 0 && in_place(step, &s->steps.at[operands[k]]))
                free_slot(s, operands[k], i, used);
        while (used[step->slot])
            step->slot++;
        used[step->slot] = true;
        if (step->slot >= s->n_slots)
            s->n_slots = step->slot + 1;
        for (int k = 0; k < 3; k++)
            if (operands[k] >= 0 && !in_place(step, &s->steps.at[operands[k]]))
                free_slot(s, operands[k], i, used);
    }
}

Strip *strip_make(Arena *arena, const TeProgram *p, char *const *data, const Te *body,
                  const StripSpace *space)
{
    Strip *s = arena_new(arena, Strip);
    Maker m = {.arena = arena, .p = p, .data = data, .space = space, .strip = s};
    s->space = *space;
    add_body(&m, body);
    /* The body's own step comes last, also when something below it has the same. */
    ptrmap_deinit(&m.done);
    assign_slots(s, arena);
    s->length = s->n_slots <= 6 ? 1024 : s->n_slots <= 12 ? 512 : 256;
    return s;
}

int64_t strip_length(const Strip *s)
{
    return s->length;
}
