/* Runs a launch: blocks one after the other, their warps in turns between barriers, and of a warp always the threads that are
 * furthest behind, together. Threads that went different ways meet again where the earliest of them arrives, and what a warp
 * does together waits until all threads that are named in its mask are there. */
#include "tests/gpu/standin/standin.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL 0xffffffffu

typedef struct Copy {
    void *to;
    const void *from;
    uint32_t n, read;
    int lane, group;
} Copy;

/* A box that comes to shared memory by itself. */
typedef struct Box {
    Map map;
    int32_t first[MAP_AXES];
    uint32_t to, gate;
} Box;

/* What lies in a gate's 8 bytes. */
typedef struct Gate {
    int32_t bytes; /* that are still to come in this turn */
    uint8_t wanted, left, turn, mark;
} Gate;

enum { GATE_MARK = 0x5a, TRIES_MOST = 1 << 20 };

typedef struct Warp {
    uint8_t *file;
    uint8_t *local; /* of all its lanes, one behind the other */
    uint32_t live, waiting; /* at a barrier, or for others of the warp */
    uint32_t at_barrier;
    int pc[LANES];
    uint8_t barrier[LANES];
    uint32_t expected[LANES];
    int group[LANES]; /* of asynchronous copies, how many were committed */
    Copy *copies;
    int n_copies, room;
    int number;
} Warp;

typedef struct Block {
    const Launch *l;
    const Kernel *k;
    uint32_t at[3], threads, n_warps;
    Warp *warps;
    uint8_t *shared;
    uint32_t shared_size;
    uint32_t arrived[16];
    Box *boxes;
    int n_boxes, boxes_room;
    bool yields; /* the warp that runs waits for boxes, and others may ask for them */
    int tries; /* that nothing came of */
    uint64_t steps, most_steps;
    const Ins *in; /* the one that is run */
    int code;
    char *text;
    size_t room;
} Block;

static bool fault(Block *b, const Warp *w, int lane, int code, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
static bool fault(Block *b, const Warp *w, int lane, int code, const char *format, ...)
{
    if (b->code)
        return false;
    b->code = code;
    int n = snprintf(
        b->text, b->room, "%s, block (%u, %u, %u), thread %d, line %d of the text: ", b->k->name,
        b->at[0], b->at[1], b->at[2], w->number * LANES + lane, b->in ? b->in->line : 0);
    va_list args;
    va_start(args, format);
    if (n >= 0 && (size_t)n < b->room)
        vsnprintf(b->text + n, b->room - (size_t)n, format, args);
    va_end(args);
    return false;
}

/* ---- registers and addresses ---------------------------------------------------------------------------------------- */

static uint64_t lane_get(const Warp *w, const Operand *o, int lane)
{
    uint64_t bits = 0;
    memcpy(&bits, w->file + o->at + (size_t)o->width * (size_t)lane, o->width);
    return bits;
}

static void lane_set(Warp *w, const Operand *o, int lane, uint64_t bits)
{
    memcpy(w->file + o->at + (size_t)o->width * (size_t)lane, &bits, o->width);
}

static bool pred_get(const Warp *w, const Operand *o, int lane)
{
    return (w->file[o->at + (uint32_t)lane] & 1) != o->negated;
}

static uint32_t pred_mask(const Warp *w, uint32_t at)
{
    uint32_t mask = 0;
    for (int i = 0; i < LANES; i++)
        mask |= (uint32_t)(w->file[at + (uint32_t)i] & 1) << i;
    return mask;
}

static const char *const space_names[] = {"generic",      "global memory",     "shared memory",
                                          "local memory", "a kernel's values", "constants"};

static void *outside(Block *b, const Warp *w, int lane, Space space, uint64_t at, size_t n)
{
    uint64_t begin;
    size_t size;
    if (space == SPACE_GLOBAL && device_nearest(at, &begin, &size))
        fault(b, w, lane, ILLEGAL_ADDRESS,
              "%zu bytes at %#llx, which is byte %llu of the nearest allocation of %zu", n,
              (unsigned long long)at, (unsigned long long)(at - begin), size);
    else
        fault(b, w, lane, ILLEGAL_ADDRESS, "%zu bytes at %#llx are outside of %s", n,
              (unsigned long long)at, space_names[space]);
    return NULL;
}

/* Where a lane's address lies on the host; NULL after a fault. */
static void *find(Block *b, const Warp *w, int lane, Space space, uint64_t at, size_t n)
{
    if (at & (n - 1)) {
        fault(b, w, lane, MISALIGNED_ADDRESS, "%zu bytes at %#llx, which is no multiple of that", n,
              (unsigned long long)at);
        return NULL;
    }
    if (space == SPACE_GENERIC) {
        space = SPACE_GLOBAL;
        for (int s = SPACE_SHARED; s <= SPACE_PARAM; s++)
            if (at >= WINDOW(s) && at - WINDOW(s) < WINDOW_SIZE) {
                space = (Space)s;
                at -= WINDOW(s);
            }
    }
    uint8_t *base = NULL;
    uint64_t size = 0;
    switch (space) {
    case SPACE_SHARED:
        base = b->shared;
        size = b->shared_size;
        break;
    case SPACE_LOCAL:
        base = w->local + (size_t)lane * b->k->local_size;
        size = b->k->local_size;
        break;
    case SPACE_PARAM:
        base = b->l->params;
        size = b->k->param_size;
        break;
    default:
        base = device_find(at, n);
        return base ? base : outside(b, w, lane, SPACE_GLOBAL, at, n);
    }
    return n <= size && at <= size - n ? base + at : outside(b, w, lane, space, at, n);
}

static uint64_t address(const Warp *w, const Operand *o, int lane)
{
    uint64_t base = 0;
    if (o->width)
        base = lane_get(w, o, lane);
    return base + (uint64_t)o->offset;
}

/* ---- what single lanes do ------------------------------------------------------------------------------------------- */

static void flush(void *values)
{
    float *f = values;
    for (int i = 0; i < LANES; i++)
        if (f[i] != 0 && fabsf(f[i]) < 0x1p-126f)
            f[i] = copysignf(0, f[i]);
}

static void saturate(const Ins *in, void *values)
{
    float *f = values;
    double *d = values;
    for (int i = 0; i < LANES; i++)
        if (in->type.width == 4)
            f[i] = f[i] > 0 ? fminf(f[i], 1) : 0;
        else
            d[i] = d[i] > 0 ? fmin(d[i], 1) : 0;
}

/* Takes results over for the lanes of the mask. */
static void blend(Warp *w, const Operand *o, const void *from, uint32_t mask)
{
    uint8_t *to = w->file + o->at;
    size_t width = o->width;
    if (mask == ALL) {
        memcpy(to, from, width * LANES);
        return;
    }
    for (; mask; mask &= mask - 1) {
        size_t at = width * (size_t)__builtin_ctz(mask);
        memcpy(to + at, (const uint8_t *)from + at, width);
    }
}

static void run_lanes(Warp *w, const Ins *in, uint32_t mask)
{
    _Alignas(64) uint64_t to[LANES];
    _Alignas(64) float flushed[3][LANES];
    const void *s[MAX_OPERANDS];
    for (int i = 1; i < in->n; i++)
        s[i - 1] = w->file + in->op[i].at;
    bool ftz = in->ftz && in->type.kind == 'f' && in->type.width == 4;
    for (int i = 1; ftz && i < in->n && i < 4; i++)
        if (in->op[i].width == 4) {
            memcpy(flushed[i - 1], s[i - 1], sizeof flushed[0]);
            flush(flushed[i - 1]);
            s[i - 1] = flushed[i - 1];
        }
    bool rounds = in->round && in->round != 'n' && in->round != 'N';
    int old = rounds ? rounding_set(in->round) : 0;
    if (in->kind == KIND_CVT)
        lanes_convert(in, to, s[0], s[1 % (in->n - 1)]);
    else
        in->fn(to, s);
    if (rounds)
        rounding_reset(old);
    if (in->sat && in->kind == KIND_LANES)
        saturate(in, to);
    if (ftz && in->op[0].width == 4)
        flush(to);
    blend(w, &in->op[0], to, mask);
}

static void run_move(Warp *w, const Ins *in, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t all = 0;
        for (int i = in->n; i-- > in->results;)
            all = (in->n - in->results > 1 ? all << 8 * in->op[i].width : 0) |
                  lane_get(w, &in->op[i], lane);
        for (int i = 0; i < in->results; i++) {
            lane_set(w, &in->op[i], lane, all);
            all = in->results > 1 ? all >> 8 * in->op[i].width : all;
        }
    }
}

static uint64_t extend(Type t, uint64_t bits)
{
    if (t.kind != 's' || t.width == 8)
        return bits;
    int up = 64 - 8 * t.width;
    return (uint64_t)((int64_t)(bits << up) >> up);
}

static bool run_memory(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    bool load = in->kind == KIND_LD;
    const Operand *a = &in->op[load ? in->n - 1 : 0], *values = &in->op[load ? 0 : 1];
    size_t width = in->type.width, n = (size_t)in->n - 1;
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint8_t *p = find(b, w, lane, in->space, address(w, a, lane), width * n);
        if (!p)
            return false;
        for (size_t i = 0; i < n; i++, p += width) {
            uint64_t bits = 0;
            if (load) {
                memcpy(&bits, p, width);
                lane_set(w, &values[i], lane, extend(in->type, bits));
            } else {
                bits = lane_get(w, &values[i], lane);
                memcpy(p, &bits, width);
            }
        }
    }
    return true;
}

static bool run_atom(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    const Operand *a = &in->op[in->results];
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        void *p = find(b, w, lane, in->space, address(w, a, lane), in->type.width);
        if (!p)
            return false;
        uint64_t old = 0;
        memcpy(&old, p, in->type.width);
        uint64_t c = in->n > in->results + 2 ? lane_get(w, a + 2, lane) : 0;
        uint64_t new = lanes_atomic(in, old, lane_get(w, a + 1, lane), c);
        memcpy(p, &new, in->type.width);
        if (in->results)
            lane_set(w, &in->op[0], lane, old);
    }
    return true;
}

/* A copy takes place when it is waited for; until then its place holds what nobody can mean. */
static bool run_copy(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint32_t n = (uint32_t)lane_get(w, &in->op[2], lane), read = n;
        if (in->n > 3)
            read = (uint32_t)lane_get(w, &in->op[3], lane);
        uint8_t *to = find(b, w, lane, SPACE_SHARED, address(w, &in->op[0], lane), n);
        const uint8_t *from = to;
        if (to && read)
            from = find(b, w, lane, SPACE_GLOBAL, address(w, &in->op[1], lane), n);
        if (!to || !from)
            return false;
        memset(to, 0xff, n);
        if (w->n_copies == w->room) {
            w->room = w->room ? 2 * w->room : 64;
            w->copies = realloc(w->copies, (size_t)w->room * sizeof *w->copies);
        }
        w->copies[w->n_copies++] = (Copy){to, from, n, read < n ? read : n, lane, w->group[lane]};
    }
    return true;
}

static void run_copy_wait(Warp *w, const Ins *in, uint32_t mask)
{
    if (in->what[0] == 'c') {
        for (; mask; mask &= mask - 1)
            w->group[__builtin_ctz(mask)]++;
        return;
    }
    int kept = 0;
    for (int i = 0; i < w->n_copies; i++) {
        Copy *c = &w->copies[i];
        int pending = in->what[0] == 'a' ? 0 : (int)lane_get(w, &in->op[0], c->lane);
        bool all = in->what[0] == 'a';
        if (!(mask >> c->lane & 1) || (!all && c->group >= w->group[c->lane] - pending)) {
            w->copies[kept++] = *c;
            continue;
        }
        memcpy(c->to, c->from, c->read);
        memset((uint8_t *)c->to + c->read, 0, c->n - c->read);
    }
    w->n_copies = kept;
}

/* ---- boxes ----------------------------------------------------------------------------------------------------------- */

static Gate *gate_at(Block *b, const Warp *w, int lane, uint64_t at, bool makes)
{
    Gate *g = find(b, w, lane, SPACE_SHARED, at, 8);
    if (g && !makes && g->mark != GATE_MARK) {
        fault(b, w, lane, LAUNCH_FAILED, "what lies at %#llx of shared memory is no `mbarrier`",
              (unsigned long long)at);
        return NULL;
    }
    return g;
}

/* Where a byte stands whose parts of 16 are exchanged by the row of 128 bytes that it is in. */
static uint32_t exchanged(uint32_t at)
{
    return at ^ (at >> 3 & 0x70);
}

/* Nobody can mean what lies there until it has come. */
static bool run_bulk(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        Box box = {.to = (uint32_t)address(w, &in->op[0], lane)};
        const void *map = find(b, w, lane, SPACE_GENERIC, lane_get(w, &in->op[1], lane), 64);
        box.gate = (uint32_t)address(w, &in->op[in->n - 1], lane);
        if (!map || !gate_at(b, w, lane, box.gate, false))
            return false;
        memcpy(&box.map, map, sizeof box.map);
        if (box.map.mark != MAP_MARK || (int)box.map.n != in->n - 3)
            return fault(b, w, lane, LAUNCH_FAILED, "the map is none, or of another rank");
        uint32_t bytes = box.map.element;
        for (int i = 0; i < in->n - 3; i++) {
            box.first[i] = (int32_t)lane_get(w, &in->op[2 + i], lane);
            bytes *= box.map.length[i];
        }
        if (box.to % 128)
            return fault(b, w, lane, MISALIGNED_ADDRESS, "a box at %#x of shared memory", box.to);
        for (uint32_t i = 0; i < bytes; i += 128) {
            void *row = find(b, w, lane, SPACE_SHARED, box.to + i, 128);
            if (!row)
                return false;
            memset(row, 0xff, 128);
        }
        if (b->n_boxes == b->boxes_room) {
            b->boxes_room = b->boxes_room ? 2 * b->boxes_room : 16;
            b->boxes = realloc(b->boxes, (size_t)b->boxes_room * sizeof *b->boxes);
        }
        b->boxes[b->n_boxes++] = box;
    }
    return true;
}

/* A row of the box, by the numbers of its other axes in one; what lies outside of the tensor is 0. */
static bool bring_row(Block *b, const Warp *w, int lane, const Box *box, uint32_t number)
{
    const Map *m = &box->map;
    uint64_t at = m->at;
    bool inside = true;
    uint32_t rest = number;
    for (uint32_t i = 1; i < m->n; i++) {
        int64_t v = (int64_t)box->first[i] + rest % m->length[i];
        rest /= m->length[i];
        inside = inside && v >= 0 && v < (int64_t)m->extent[i];
        at += (uint64_t)v * m->step[i];
    }
    for (uint32_t k = 0; k < m->length[0]; k++) {
        int64_t v = (int64_t)box->first[0] + k;
        uint64_t element = 0, from = at + (uint64_t)v * m->element;
        if (inside && v >= 0 && v < (int64_t)m->extent[0]) {
            const void *p = find(b, w, lane, SPACE_GLOBAL, from, m->element);
            if (!p)
                return false;
            memcpy(&element, p, m->element);
        }
        memcpy(b->shared + exchanged(box->to + number * 128 + k * m->element), &element,
               m->element);
    }
    return true;
}

/* All that was asked for at the gate comes, and its turn ends when that is what was to come. */
static bool bring_boxes(Block *b, const Warp *w, int lane, uint32_t at, Gate *g)
{
    int kept = 0;
    for (int i = 0; i < b->n_boxes; i++) {
        const Box box = b->boxes[i];
        uint32_t rows = 1;
        for (uint32_t a = 1; a < box.map.n; a++)
            rows *= box.map.length[a];
        if (box.gate != at)
            b->boxes[kept++] = box;
        for (uint32_t r = 0; box.gate == at && r < rows; r++, g->bytes -= 128)
            if (!bring_row(b, w, lane, &box, r))
                return false;
    }
    b->n_boxes = kept;
    if (g->bytes)
        return fault(b, w, lane, LAUNCH_FAILED, "%d bytes more were to come to a gate", g->bytes);
    g->left = g->wanted;
    g->turn++;
    return true;
}

static bool run_gate(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        const Operand *a = &in->op[in->n - 2];
        uint32_t at = (uint32_t)address(w, a, lane), x = (uint32_t)lane_get(w, a + 1, lane);
        Gate *g = gate_at(b, w, lane, at, in->what[0] == 'i');
        if (!g)
            return false;
        if (in->what[0] == 'i') {
            *g = (Gate){.wanted = (uint8_t)x, .left = (uint8_t)x, .mark = GATE_MARK};
            if (x < 1 || x > 255)
                return fault(b, w, lane, LAUNCH_FAILED, "a gate for %u", x);
        } else if (in->what[0] == 'a') {
            if (!g->left--)
                return fault(b, w, lane, LAUNCH_FAILED, "more come to a gate than it waits for");
            g->bytes += (int32_t)x;
        } else {
            if ((g->turn & 1) == (x & 1) && !g->left && !bring_boxes(b, w, lane, at, g))
                return false;
            bool there = (g->turn & 1) != (x & 1);
            lane_set(w, &in->op[0], lane, there);
            b->yields |= !there;
            b->tries = there ? 0 : b->tries + 1;
            if (b->tries > TRIES_MOST)
                return fault(b, w, lane, LAUNCH_FAILED, "waits for boxes that never come");
        }
    }
    return true;
}

/* ---- what a warp does together -------------------------------------------------------------------------------------- */

/* Which lane a shuffle reads; -1: none of its segment. */
static int shuffle_lane(const char *what, int lane, uint32_t b, uint32_t c)
{
    int by = (int)(b & 31), clamp = (int)(c & 31), segment = (int)(c >> 8 & 31);
    int low = lane & segment, high = low | (clamp & ~segment), j;
    switch (what[0]) {
    case 'u': j = lane - by; return j >= high ? j : -1;
    case 'd': j = lane + by; return j <= high ? j : -1;
    case 'b': j = lane ^ by; return j <= high ? j : -1;
    default: j = low | (by & ~segment); return j <= high ? j : -1;
    }
}

static void run_shuffle(Warp *w, const Ins *in, uint32_t mask)
{
    uint32_t values[LANES], to[LANES];
    uint8_t within[LANES];
    memcpy(values, w->file + in->op[2].at, sizeof values);
    memset(to, 0xff, sizeof to);
    memset(within, 0, sizeof within);
    for (uint32_t m = mask; m; m &= m - 1) {
        int lane = __builtin_ctz(m);
        int from = shuffle_lane(in->what, lane, (uint32_t)lane_get(w, &in->op[3], lane),
                                (uint32_t)lane_get(w, &in->op[4], lane));
        within[lane] = from >= 0;
        from = from < 0 ? lane : from;
        /* What a thread that takes no part would give is undefined: the NaN that `to` began with. */
        if (mask >> from & 1)
            to[lane] = values[from];
    }
    blend(w, &in->op[0], to, mask);
    if (in->op[1].kind)
        blend(w, &in->op[1], within, mask);
}

static void run_vote(Warp *w, const Ins *in, uint32_t mask)
{
    uint32_t ballot = 0;
    for (uint32_t m = mask; m; m &= m - 1)
        ballot |= (uint32_t)pred_get(w, &in->op[1], __builtin_ctz(m)) << __builtin_ctz(m);
    uint64_t r = in->what[0] == 'b' ? ballot
                 : in->what[1] == 'n'
                     ? (in->what[0] == 'a' ? ballot != 0 : ballot == 0 || ballot == mask)
                     : ballot == mask;
    for (uint32_t m = mask; m; m &= m - 1)
        lane_set(w, &in->op[0], __builtin_ctz(m), r);
}

static void run_redux(Warp *w, const Ins *in, uint32_t mask)
{
    uint64_t r = 0;
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t x = lane_get(w, &in->op[1], __builtin_ctz(m));
        r = m == mask ? x : lanes_atomic(in, r, x, 0);
    }
    for (uint32_t m = mask; m; m &= m - 1)
        lane_set(w, &in->op[0], __builtin_ctz(m), r);
}

static void run_match(Warp *w, const Ins *in, uint32_t mask)
{
    for (uint32_t m = mask; m; m &= m - 1) {
        uint64_t mine = lane_get(w, &in->op[1], __builtin_ctz(m)), equal = 0;
        for (uint32_t o = mask; o; o &= o - 1)
            if (lane_get(w, &in->op[1], __builtin_ctz(o)) == mine)
                equal |= 1ull << __builtin_ctz(o);
        lane_set(w, &in->op[0], __builtin_ctz(m),
                 in->what[1] == 'n' ? equal
                 : equal == mask    ? mask
                                    : 0);
    }
}

/* Thread i of each eight holds elements 2 * (i % 4) and the next one of row i / 4; the rows' addresses come from eight threads
 * for each matrix. */
static bool run_ldmatrix(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    if (mask != ALL)
        return fault(b, w, __builtin_ctz(mask), LAUNCH_FAILED,
                     "`ldmatrix` without all threads of the warp");
    for (int part = 0; part < in->results; part++) {
        uint16_t rows[8][8];
        for (int r = 0; r < 8; r++) {
            const void *p = find(b, w, 8 * part + r, SPACE_SHARED,
                                 address(w, &in->op[in->n - 1], 8 * part + r), 16);
            if (!p)
                return false;
            memcpy(rows[r], p, 16);
        }
        for (int lane = 0; lane < LANES; lane++) {
            int r = lane / 4, c = lane % 4 * 2;
            uint32_t low = in->trans ? rows[c][r] : rows[r][c];
            uint32_t high = in->trans ? rows[c + 1][r] : rows[r][c + 1];
            lane_set(w, &in->op[part], lane, low | high << 16);
        }
    }
    return true;
}

static double element(char kind, uint32_t word, int which)
{
    float f;
    switch (kind) {
    case 's': return (int8_t)(word >> 8 * which);
    case 'u': return (uint8_t)(word >> 8 * which);
    case 'h': return brain_float((uint16_t)(word >> 16 * which));
    case 't':
        word &= 0xffffe000; /* the bits that tensor cores look at */
        memcpy(&f, &word, sizeof f);
        return f;
    default: return half_float((uint16_t)(word >> 16 * which));
    }
}

/* d = a * b + c of 16 rows and 8 columns; thread i holds rows i / 4 and 8 more, columns 2 * (i % 4) and the next. */
static bool run_mma(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    if (mask != ALL)
        return fault(b, w, __builtin_ctz(mask), LAUNCH_FAILED,
                     "`mma` without all threads of the warp");
    int depth = in->what[0], each = 4 / in->from.width, regs_a = depth / each / 4 * 2;
    const Operand *a = &in->op[4], *bb = a + regs_a, *c = bb + regs_a / 2;
    double x[16][32], y[32][8];
    for (int lane = 0; lane < LANES; lane++)
        for (int r = 0; r < regs_a; r++)
            for (int e = 0; e < each; e++) {
                int k = r / 2 * 4 * each + lane % 4 * each + e, row = lane / 4 + r % 2 * 8;
                x[row][k] = element(in->from.kind, (uint32_t)lane_get(w, &a[r], lane), e);
                if (r < regs_a / 2) {
                    int kb = r * 4 * each + lane % 4 * each + e;
                    y[kb][lane / 4] = element(in->what[1], (uint32_t)lane_get(w, &bb[r], lane), e);
                }
            }
    for (int lane = 0; lane < LANES; lane++)
        for (int r = 0; r < 4; r++) {
            int row = lane / 4 + r / 2 * 8, col = lane % 4 * 2 + r % 2;
            uint32_t bits = (uint32_t)lane_get(w, &c[r], lane);
            float f;
            memcpy(&f, &bits, sizeof f);
            double sum = in->from.width == 1 ? (double)(int32_t)bits : (double)f;
            for (int k = 0; k < depth; k++)
                sum += x[row][k] * y[k][col];
            f = (float)sum;
            memcpy(&bits, &f, sizeof bits);
            lane_set(w, &in->op[r], lane, in->from.width == 1 ? (uint32_t)(int64_t)sum : bits);
        }
    return true;
}

/* An element of what a group multiplies, in shared memory as the descriptor says: rows of 128 bytes whose parts are exchanged, or matrices of
 * eight rows of 16 bytes. */
static bool group_element(Block *b, const Warp *w, uint64_t form, uint32_t row, uint32_t byte,
                          char kind, uint32_t width, double *out)
{
    uint32_t at = (uint32_t)(form & 0x3fff) << 4, along = (uint32_t)(form >> 16 & 0x3fff) << 4;
    uint32_t beside = (uint32_t)(form >> 32 & 0x3fff) << 4, swizzle = (uint32_t)(form >> 62);
    if (swizzle == 1)
        at = exchanged(at + row / 8 * beside + row % 8 * 128 + byte);
    else if (swizzle == 0)
        at += byte / 16 * along + row / 8 * beside + row % 8 * 16 + byte % 16;
    else
        return fault(b, w, 0, LAUNCH_FAILED, "parts exchanged in another way than is known here");
    const void *p = find(b, w, 0, SPACE_SHARED, at, width);
    uint32_t word = 0;
    if (!p)
        return false;
    memcpy(&word, p, width);
    *out = element(kind, word, 0);
    return true;
}

/* The warp's 16 of the 64 rows, as `mma` has them, of all columns. */
static bool run_wgmma(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    if (mask != ALL)
        return fault(b, w, __builtin_ctz(mask), LAUNCH_FAILED,
                     "`wgmma` without all threads of the warp");
    uint32_t width = in->from.width, depth = 32 / width, first = (uint32_t)w->number % 4 * 16;
    int n = (int)in->op[0].offset * 2;
    double x[16][32], y[32];
    uint64_t forms[2] = {lane_get(w, &in->op[1], 0), lane_get(w, &in->op[2], 0)};
    bool adds = pred_get(w, &in->op[3], 0);
    const Operand *sums = b->k->sums + in->op[0].at;
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t k = 0; k < depth; k++)
            if (!group_element(b, w, forms[0], first + row, k * width, in->from.kind, width,
                               &x[row][k]))
                return false;
    for (int column = 0; column < n; column++) {
        for (uint32_t k = 0; k < depth; k++)
            if (!group_element(b, w, forms[1], (uint32_t)column, k * width, in->what[1], width,
                               &y[k]))
                return false;
        for (int row = 0; row < 16; row++) {
            int lane = row % 8 * 4 + column % 8 / 2;
            const Operand *to = &sums[column / 8 * 4 + row / 8 * 2 + column % 2];
            uint32_t bits = (uint32_t)lane_get(w, to, lane);
            float f;
            memcpy(&f, &bits, sizeof f);
            double sum = !adds ? 0 : width == 1 ? (double)(int32_t)bits : (double)f;
            for (uint32_t k = 0; k < depth; k++)
                sum += x[row][k] * y[k];
            f = (float)sum;
            memcpy(&bits, &f, sizeof bits);
            lane_set(w, to, lane, width == 1 ? (uint32_t)(int64_t)sum : bits);
        }
    }
    return true;
}

/* Whether the threads that the instruction's mask names are all here; else those that are wait. */
static bool together(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    uint32_t named = ALL;
    if (in->kind != KIND_LDMATRIX && in->kind != KIND_MMA && in->kind != KIND_WGMMA) {
        const Operand *o = &in->op[in->n - 1];
        named = (uint32_t)lane_get(w, o, __builtin_ctz(mask));
        if (mask & ~named)
            return fault(b, w, __builtin_ctz(mask & ~named), LAUNCH_FAILED,
                         "a thread that the mask %#x does not name", named);
    }
    if ((named & w->live) == (mask & w->live))
        return true;
    w->waiting |= mask;
    return false;
}

static bool run_together(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    switch (in->kind) {
    case KIND_SHFL: run_shuffle(w, in, mask); return true;
    case KIND_VOTE: run_vote(w, in, mask); return true;
    case KIND_REDUX: run_redux(w, in, mask); return true;
    case KIND_MATCH: run_match(w, in, mask); return true;
    case KIND_LDMATRIX: return run_ldmatrix(b, w, in, mask);
    case KIND_MMA: return run_mma(b, w, in, mask);
    case KIND_WGMMA: return run_wgmma(b, w, in, mask);
    default: return true;
    }
}

/* ---- a warp --------------------------------------------------------------------------------------------------------- */

static void set_pc(Warp *w, uint32_t mask, int pc)
{
    for (; mask; mask &= mask - 1)
        w->pc[__builtin_ctz(mask)] = pc;
}

static bool run_brx(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    const int *table = b->k->targets + in->op[1].at;
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t i = lane_get(w, &in->op[0], lane);
        if (i >= (uint64_t)table[0])
            return fault(b, w, lane, LAUNCH_FAILED, "no label %llu among %d", (unsigned long long)i,
                         table[0]);
        w->pc[lane] = table[1 + i];
    }
    return true;
}

static bool run_barrier(Block *b, Warp *w, const Ins *in, uint32_t mask)
{
    for (; mask; mask &= mask - 1) {
        int lane = __builtin_ctz(mask);
        uint64_t id = lane_get(w, &in->op[0], lane);
        if (id >= 16)
            return fault(b, w, lane, LAUNCH_FAILED, "there is no barrier %llu",
                         (unsigned long long)id);
        if (in->kind == KIND_ARRIVE) {
            b->arrived[id]++;
            continue;
        }
        w->barrier[lane] = (uint8_t)id;
        w->expected[lane] = in->n > 1 ? (uint32_t)lane_get(w, &in->op[1], lane) : 0;
        w->at_barrier |= 1u << lane;
        w->waiting |= 1u << lane;
    }
    return true;
}

/* Runs one instruction for the lanes of the mask, which stand at `pc`. Gives where they go on; -1: their own `pc` says it, or
 * they wait, or have ended, or there is a fault. */
static int step(Block *b, Warp *w, int pc, uint32_t mask)
{
    const Ins *in = &b->k->ins[pc];
    b->in = in;
    uint32_t run = mask;
    if (in->guarded) {
        uint32_t p = pred_mask(w, in->guard);
        run &= in->guard_not ? ~p : p;
        if (!run)
            return pc + 1;
        if (run != mask)
            set_pc(w, mask & ~run, pc + 1);
    }
    bool ok = true, moved = false;
    switch (in->kind) {
    case KIND_LANES:
    case KIND_CVT: run_lanes(w, in, run); break;
    case KIND_MOVE: run_move(w, in, run); break;
    case KIND_LD:
    case KIND_ST: ok = run_memory(b, w, in, run); break;
    case KIND_ATOM: ok = run_atom(b, w, in, run); break;
    case KIND_CP_ASYNC: ok = run_copy(b, w, in, run); break;
    case KIND_CP_WAIT: run_copy_wait(w, in, run); break;
    case KIND_BULK: ok = run_bulk(b, w, in, run); break;
    case KIND_GATE: ok = run_gate(b, w, in, run); break;
    case KIND_ACTIVE:
        for (uint32_t m = run; m; m &= m - 1)
            lane_set(w, &in->op[0], __builtin_ctz(m), run);
        break;
    case KIND_NOTHING: break;
    case KIND_BRA:
        if (run == mask)
            return (int)in->op[0].at;
        set_pc(w, run, (int)in->op[0].at);
        return -1;
    case KIND_BRX: run_brx(b, w, in, run); return -1;
    case KIND_EXIT: w->live &= ~run; return run == mask ? -1 : pc + 1;
    case KIND_TRAP: fault(b, w, __builtin_ctz(run), LAUNCH_FAILED, "a trap"); return -1;
    case KIND_BAR:
    case KIND_ARRIVE:
        set_pc(w, run, in->kind == KIND_BAR ? pc : pc + 1);
        run_barrier(b, w, in, run);
        return -1;
    case KIND_SHFL:
    case KIND_VOTE:
    case KIND_REDUX:
    case KIND_MATCH:
    case KIND_LDMATRIX:
    case KIND_MMA:
    case KIND_WGMMA:
    case KIND_WARP_BAR:
        moved = !together(b, w, in, run);
        if (moved)
            set_pc(w, run, pc);
        else
            ok = run_together(b, w, in, run);
        if (!moved)
            w->waiting &= ~run;
        break;
    }
    return ok && !moved ? pc + 1 : -1;
}

/* Until no thread of the warp can go on, or it waits for what another may have to ask for. */
static void run_warp(Block *b, Warp *w)
{
    b->yields = false;
    while (!b->code && !b->yields && (w->live & ~w->waiting)) {
        int pc = INT32_MAX, next = INT32_MAX;
        for (uint32_t m = w->live & ~w->waiting; m; m &= m - 1) {
            int at = w->pc[__builtin_ctz(m)];
            if (at < pc) {
                next = pc;
                pc = at;
            } else if (at > pc && at < next) {
                next = at;
            }
        }
        uint32_t mask = 0;
        /* Those that wait for others of the warp at this instruction count as here. */
        for (uint32_t m = w->live & ~w->at_barrier; m; m &= m - 1)
            if (w->pc[__builtin_ctz(m)] == pc)
                mask |= m & (0 - m);
        w->waiting &= ~mask;
        for (;;) {
            if (++b->steps > b->most_steps) {
                fault(b, w, 0, LAUNCH_TIMEOUT, "still running after %llu steps",
                      (unsigned long long)b->most_steps);
                return;
            }
            uint32_t live = w->live, waiting = w->waiting;
            int to = step(b, w, pc, mask);
            if (to < 0)
                break;
            pc = to;
            /* Threads with other places to go are looked at again when one of them comes first, or waits. */
            if (pc >= next || b->yields || w->live != live || w->waiting != waiting ||
                (w->waiting & ~w->at_barrier)) {
                set_pc(w, mask & w->live, pc);
                break;
            }
        }
    }
}

/* ---- a block -------------------------------------------------------------------------------------------------------- */

static uint32_t special_value(const Block *b, int which, uint32_t warp, uint32_t lane)
{
    const uint32_t *d = b->l->block;
    uint32_t t = warp * LANES + lane, tid[3] = {t % d[0], t / d[0] % d[1], t / d[0] / d[1]};
    switch (which / 3) {
    case 0: return tid[which];
    case 1: return d[which - 3];
    case 2: return b->at[which - 6];
    case 3: return b->l->grid[which - 9];
    default: break;
    }
    switch (which) {
    case 12: return lane;
    case 13: return warp;
    case 14: return b->n_warps;
    case 15: return 1u << lane;
    case 16: return (2u << lane) - 1;
    case 17: return (1u << lane) - 1;
    case 18: return ~((1u << lane) - 1);
    case 19: return ~((2u << lane) - 1);
    default: return b->l->dynamic;
    }
}

static void warp_begin(Block *b, Warp *w, uint32_t number)
{
    const Kernel *k = b->k;
    uint32_t left = b->threads - number * LANES;
    w->number = (int)number;
    w->live = left >= LANES ? ALL : (1u << left) - 1;
    w->waiting = w->at_barrier = 0;
    w->n_copies = 0;
    memset(w->pc, 0, sizeof w->pc);
    memset(w->group, 0, sizeof w->group);
    memset(w->file, 0xff, k->file_size);
    memset(w->local, 0xff, (size_t)k->local_size * LANES);
    for (int i = 0; i < k->n_constants; i++)
        for (int lane = 0; lane < LANES; lane++)
            memcpy(w->file + k->constants[i].at + k->constants[i].width * lane,
                   &k->constants[i].bits, k->constants[i].width);
    for (int i = 0; i < k->n_specials; i++)
        for (uint32_t lane = 0; lane < LANES; lane++) {
            uint32_t x = special_value(b, k->specials[i].which, number, lane);
            memcpy(w->file + k->specials[i].at + 4 * lane, &x, 4);
        }
}

/* Lets go those who wait at a barrier that all have reached; false when nobody can go on. */
static bool release(Block *b)
{
    uint32_t waits[16] = {0}, wanted[16] = {0}, live = 0;
    for (uint32_t i = 0; i < b->n_warps; i++) {
        const Warp *w = &b->warps[i];
        live += (uint32_t)__builtin_popcount(w->live);
        for (uint32_t m = w->live & w->at_barrier; m; m &= m - 1) {
            int lane = __builtin_ctz(m);
            waits[w->barrier[lane]]++;
            if (w->expected[lane])
                wanted[w->barrier[lane]] = w->expected[lane];
            /* The form that is emitted is one that all threads of a warp must run together. */
            if (w->pc[lane] != w->pc[__builtin_ctz(w->live & w->at_barrier)])
                return fault(b, w, lane, LAUNCH_FAILED, "threads of a warp at different barriers");
        }
    }
    bool any = false;
    for (uint8_t id = 0; id < 16; id++) {
        if (!waits[id] || waits[id] + b->arrived[id] < (wanted[id] ? wanted[id] : live))
            continue;
        any = true;
        b->arrived[id] = 0;
        for (uint32_t i = 0; i < b->n_warps; i++)
            for (uint32_t m = b->warps[i].live & b->warps[i].at_barrier; m; m &= m - 1) {
                int lane = __builtin_ctz(m);
                if (b->warps[i].barrier[lane] != id)
                    continue;
                b->warps[i].pc[lane]++;
                b->warps[i].at_barrier &= ~(1u << lane);
                b->warps[i].waiting &= ~(1u << lane);
            }
    }
    return any;
}

static void run_block(Block *b)
{
    memset(b->shared, 0xff, b->shared_size);
    memset(b->arrived, 0, sizeof b->arrived);
    b->n_boxes = b->tries = 0;
    for (uint32_t i = 0; i < b->n_warps; i++)
        warp_begin(b, &b->warps[i], i);
    for (;;) {
        const Warp *stuck = NULL;
        bool yields = false;
        for (uint32_t i = 0; i < b->n_warps && !b->code; i++) {
            run_warp(b, &b->warps[i]);
            yields |= b->yields;
            if (b->warps[i].live)
                stuck = &b->warps[i];
        }
        if (b->code || !stuck)
            return;
        if (release(b) || yields)
            continue;
        int lane = __builtin_ctz(stuck->live);
        b->in = &b->k->ins[stuck->pc[lane]];
        fault(b, stuck, lane, LAUNCH_FAILED, "waits for threads that never come");
        return;
    }
}

int launch_run(const Launch *l, char *text, size_t room)
{
    const Kernel *k = l->kernel;
    const char *most = getenv("STANDIN_STEPS");
    Block b = {.l = l, .k = k, .text = text, .room = room};
    b.most_steps = most ? strtoull(most, NULL, 10) : 20000000000u;
    b.threads = l->block[0] * l->block[1] * l->block[2];
    b.n_warps = (b.threads + LANES - 1) / LANES;
    b.shared_size = l->dynamic ? k->dynamic_at + l->dynamic : k->shared_size;
    b.shared = aligned_alloc(64, (b.shared_size + 64u) & ~63u);
    b.warps = calloc(b.n_warps, sizeof *b.warps);
    for (uint32_t i = 0; i < b.n_warps; i++) {
        b.warps[i].file = aligned_alloc(64, (k->file_size + 64u) & ~63u);
        b.warps[i].local = malloc((size_t)k->local_size * LANES + 1);
    }
    for (b.at[2] = 0; b.at[2] < l->grid[2] && !b.code; b.at[2]++)
        for (b.at[1] = 0; b.at[1] < l->grid[1] && !b.code; b.at[1]++)
            for (b.at[0] = 0; b.at[0] < l->grid[0] && !b.code; b.at[0]++)
                run_block(&b);
    for (uint32_t i = 0; i < b.n_warps; i++) {
        free(b.warps[i].file);
        free(b.warps[i].local);
        free(b.warps[i].copies);
    }
    free(b.warps);
    free(b.boxes);
    free(b.shared);
    return b.code;
}
