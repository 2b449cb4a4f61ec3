/* The values of a nest's expressions.
 *
 * A value depends on some loops. It is a vector when the vector loop is among them; it is remembered at the level where it was
 * computed, for each turn of the unrolled loops that it depends on. */
#include "jit/emit.h"

#include "jit/origin.h"
#include "te/walk.h"

#include <string.h>

/* ---- what an expression depends on ----------------------------------------------------------------------------------- */

uint64_t emit_mask(Emit *e, const Te *x)
{
    uint64_t known = (uint64_t)(uintptr_t)ptrmap_find(&e->masks, x);
    if (known)
        return known >> 1;
    uint64_t mask = x->kind == TE_NODE_AXIS ? (uint64_t)1 << (e->depth_of[x->axis] - 1) : 0;
    for (int i = 0; i < te_children(x); i++)
        mask |= emit_mask(e, te_child(x, i));
    ptrmap_put(&e->masks, x, (void *)(uintptr_t)(mask << 1 | 1));
    return mask;
}

bool emit_is_vector(Emit *e, const Te *x)
{
    return e->vector && (emit_mask(e, x) >> e->vector & 1);
}

bool emit_is_pure(Emit *e, const Te *x)
{
    uintptr_t known = (uintptr_t)ptrmap_find(&e->impure, x);
    if (known)
        return known == 1;
    bool pure = x->kind != TE_NODE_LOAD || !e->written[x->tensor];
    for (int i = 0; i < te_children(x); i++)
        pure = emit_is_pure(e, te_child(x, i)) && pure;
    ptrmap_put(&e->impure, x, (void *)(uintptr_t)(pure ? 1 : 2));
    return pure;
}

const NestLinear *emit_linear(Emit *e, const Te *at)
{
    NestLinear *l = ptrmap_find(&e->linear, at);
    if (l)
        return l->n < 0 ? NULL : l;
    l = arena_new(e->g->arena, NestLinear);
    if (!nest_linear(at, l))
        l->n = -1;
    ptrmap_put(&e->linear, at, l);
    return l->n < 0 ? NULL : l;
}

/* ---- remembering --------------------------------------------------------------------------------------------------------- */

struct EmitCopy {
    EmitCopy *next;
    uint64_t turn; /* of the unrolled loops that it depends on */
    Ssa value;
};

static uint64_t turn_of(Emit *e, const Te *x)
{
    uint64_t mask = emit_mask(e, x), turn = 0;
    for (int d = 1; d <= e->depth; d++) {
        const NestNode *node = e->level[d].node;
        if ((mask >> d & 1) && node->way == NEST_UNROLLED)
            turn = turn * (uint64_t)node->extent + (uint64_t)e->level[d].number;
    }
    return turn;
}

static Ssa find_copy(const PtrMap *m, const Te *x, uint64_t turn)
{
    const EmitCopy *c = ptrmap_find(m, x);
    while (c && c->turn != turn)
        c = c->next;
    return c ? c->value : NULL;
}

static void add_copy(Emit *e, PtrMap *m, const Te *x, uint64_t turn, Ssa v)
{
    EmitCopy *c = arena_new(e->g->arena, EmitCopy);
    *c = (EmitCopy){ptrmap_find(m, x), turn, v};
    ptrmap_put(m, x, c);
}

/* ---- variables -------------------------------------------------------------------------------------------------------------- */

Lanes emit_lanes_of(Emit *e, bool vector);

static Ssa ramp(Emit *e, unsigned lanes, LLVMTypeRef t, int64_t by)
{
    Ssa parts[64];
    (void)e;
    for (unsigned i = 0; i < lanes; i++)
        parts[i] = gen_int(t, (int64_t)i * by);
    return LLVMConstVector(parts, lanes);
}

static const EmitLevel *level_of(const Emit *e, int var)
{
    return &e->level[e->depth_of[var] - 1];
}

/* A variable's value, of vectors in the first lane; NULL: zero. */
static Ssa first_value(Emit *e, int var)
{
    const EmitLevel *l = level_of(e, var);
    if (l->node->way == NEST_UNROLLED)
        return gen_int(e->g->i64, l->number);
    return l->node->way == NEST_VECTOR ? gen_int(e->g->i64, 0) : l->value;
}

static Ssa axis_value(Emit *e, int var)
{
    const EmitLevel *l = level_of(e, var);
    if (l->node->way != NEST_VECTOR)
        return first_value(e, var);
    return ramp(e, (unsigned)l->node->lanes, e->g->i64, 1);
}

/* ---- places -------------------------------------------------------------------------------------------------------------- */

static LLVMTypeRef stored_type(Emit *e, int buffer)
{
    return gen_stored(e->g, e->n->buffers.at[buffer].dtype);
}

static Ssa step_by(Emit *e, int buffer, Ssa base, Ssa elements)
{
    return LLVMBuildGEP2(e->g->b, stored_type(e, buffer), base, &elements, 1, "");
}

/* What a level makes of an address: positions that differ in what is known share it. */
typedef struct EmitPlace EmitPlace;
struct EmitPlace {
    EmitPlace *next; /* of the same address */
    int64_t step; /* bytes by which a turn of the loop goes on */
    Ssa value;
};

static Ssa find_place(const EmitLevel *level, Ssa base, int64_t step)
{
    const EmitPlace *p = ptrmap_find(&level->places, base);
    while (p && p->step != step)
        p = p->next;
    return p ? p->value : NULL;
}

static void add_place(Emit *e, int depth, Ssa base, int64_t step, Ssa value)
{
    /* What is computed under a condition is known under it alone. */
    for (int d = e->depth; d > depth; d--)
        if (emit_is_condition(e->level[d].node))
            return;
    if (depth < e->branch)
        return;
    PtrMap *places = &e->level[depth].places;
    EmitPlace *p = arena_new(e->g->arena, EmitPlace);
    *p = (EmitPlace){ptrmap_find(places, base), step, value};
    ptrmap_put(places, base, p);
}

/* The address with the variables of the running loops down to a level. */
static Ssa place_at(Emit *e, int buffer, const NestLinear *l, int depth)
{
    Gen *g = e->g;
    if (emit_is_around(e, depth))
        return emit_apart_base(e, buffer, l);
    if (depth == 0)
        return e->base[buffer];
    const EmitLevel *level = &e->level[depth];
    const NestNode *node = level->node;
    bool runs = node->kind == NEST_LOOP && node->way != NEST_UNROLLED && node->way != NEST_VECTOR;
    int64_t by = runs ? nest_coefficient(l, node->var) : 0;
    Ssa base = place_at(e, buffer, l, depth - 1);
    if (by == 0)
        return base;
    int64_t step = by * (int64_t)dtype_size(e->n->buffers.at[buffer].dtype);
    Ssa v = find_place(level, base, step);
    if (v)
        return v;
    Ssa steps = level->value, given = emit_apart_step(e, buffer, l, node);
    if (given)
        steps = LLVMBuildMul(g->b, steps, given, "");
    else if (by != 1)
        steps = LLVMBuildMul(g->b, steps, gen_int(g->i64, by), "");
    v = given ? LLVMBuildGEP2(g->b, g->i8, base, &steps, 1, "") : step_by(e, buffer, base, steps);
    add_place(e, depth, base, step, v);
    return v;
}

void emit_hoist_place(Emit *e, int buffer, const Te *at, int depth)
{
    const NestLinear *l = emit_linear(e, at);
    if (l && e->base[buffer] && e->n->buffers.at[buffer].place != NEST_REGISTER)
        place_at(e, buffer, l, depth);
}

/* What constants and unrolled loops add to a position. */
int64_t emit_known_part(Emit *e, const NestLinear *l)
{
    int64_t more = l->c;
    for (int i = 0; i < l->n; i++) {
        const EmitLevel *level = level_of(e, l->term[i].var);
        if (level->node->way == NEST_UNROLLED)
            more += l->term[i].by * level->number;
    }
    return more;
}

static Ssa place_with(Emit *e, int buffer, const NestLinear *l, int64_t more)
{
    Ssa base = place_at(e, buffer, l, e->depth);
    if (e->apart)
        return emit_apart_place(e, buffer, l, base);
    return more ? step_by(e, buffer, base, gen_int(e->g->i64, more)) : base;
}

Ssa emit_place(Emit *e, int buffer, const Te *at)
{
    const NestLinear *l = emit_linear(e, at);
    if (!l)
        return step_by(e, buffer, e->base[buffer], emit_index(e, at));
    return place_with(e, buffer, l, emit_known_part(e, l));
}

Ssa emit_place_of(Emit *e, int buffer, const NestLinear *at)
{
    return place_with(e, buffer, at, emit_known_part(e, at));
}

unsigned emit_alignment(Emit *e, int buffer, const Te *at)
{
    const NestLinear *l = emit_linear(e, at);
    int64_t size = (int64_t)dtype_size(e->n->buffers.at[buffer].dtype);
    unsigned align = (unsigned)size;
    if (!e->fault || !l)
        return align;
    for (bool even = true; align < EMIT_ALIGN_MOST && even; align *= even ? 2 : 1) {
        even = l->c * size % (2 * align) == 0;
        for (int i = 0; i < l->n; i++) {
            const NestNode *loop = level_of(e, l->term[i].var)->node;
            even &= loop->way == NEST_VECTOR || l->term[i].by * size % (2 * align) == 0;
        }
    }
    return align;
}

int emit_slot(Emit *e, int buffer, const Te *at, int *lane)
{
    int64_t position = emit_known_part(e, emit_linear(e, at));
    int granule = e->granule[buffer];
    *lane = emit_is_vector(e, at) || granule == 1 ? -1 : (int)(position % granule);
    return (int)(position / granule);
}

Ssa emit_register(Emit *e, int buffer, const Te *at)
{
    int lane, slot = emit_slot(e, buffer, at, &lane);
    Ssa v = e->slots[buffer][slot];
    return lane < 0 ? v : LLVMBuildExtractElement(e->g->b, v, gen_int(e->g->i32, lane), "");
}

/* ---- loads ---------------------------------------------------------------------------------------------------------------- */

/* The lanes that count, where not all do. */
static Ssa lane_mask(Emit *e)
{
    const NestNode *loop = e->level[e->vector].node;
    Ssa bits[64];
    if (loop->extent == loop->lanes)
        return NULL;
    for (int i = 0; i < loop->lanes; i++)
        bits[i] = gen_int(e->g->i1, i < loop->extent);
    return LLVMConstVector(bits, (unsigned)loop->lanes);
}

Lanes emit_lanes_of(Emit *e, bool vector)
{
    Lanes l = {.g = e->g, .n = 1};
    if (vector && e->vector) {
        l.n = (unsigned)e->level[e->vector].node->lanes;
        l.mask = lane_mask(e);
    }
    return l;
}

static Ssa both(Gen *g, Ssa a, Ssa b)
{
    return !a ? b : !b ? a : LLVMBuildAnd(g->b, a, b, "");
}

static Ssa masked(Emit *e, const char *name, LLVMTypeRef t, Ssa from, size_t align, Ssa mask)
{
    Gen *g = e->g;
    unsigned lanes = LLVMGetVectorSize(t), id = LLVMLookupIntrinsicID(name, strlen(name));
    LLVMTypeRef overloads[2] = {t, LLVMTypeOf(from)};
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, overloads, 2), ones[64];
    for (unsigned i = 0; i < lanes && !mask; i++)
        ones[i] = gen_int(g->i1, 1);
    mask = mask ? mask : LLVMConstVector(ones, lanes);
    Ssa args[4] = {from, gen_int(g->i32, (int64_t)align), mask, LLVMConstNull(t)};
    return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

/* Steps that whole vectors are loaded for, of which lanes are then picked. */
#define STEP_MOST 4

/* The first `count` lanes of every stride-th element, out of vectors that lie side by side; the last of them ends with the last element, so
 * that nothing behind it is touched. The other lanes are zero. */
static Ssa every_other(Emit *e, LLVMTypeRef element, Ssa at, unsigned lanes, unsigned count,
                       unsigned stride, size_t align)
{
    Gen *g = e->g;
    LLVMTypeRef t = LLVMVectorType(element, lanes);
    unsigned span = (count - 1) * stride + 1, loads = (span + lanes - 1) / lanes;
    Ssa v = NULL, order[64], bits[64];
    for (unsigned k = 0; k < loads; k++) {
        unsigned first = k + 1 < loads || span < lanes ? k * lanes : span - lanes;
        Ssa from = gen_int(g->i64, first), next;
        from = LLVMBuildGEP2(g->b, element, at, &from, 1, "");
        for (unsigned i = 0; i < lanes; i++)
            bits[i] = gen_int(g->i1, i < span);
        if (span < lanes) {
            next = masked(e, "llvm.masked.load", t, from, align, LLVMConstVector(bits, lanes));
        } else {
            next = LLVMBuildLoad2(g->b, t, from, "");
            LLVMSetAlignment(next, (unsigned)align);
        }
        /* What earlier vectors gave stays in its lanes. */
        for (unsigned i = 0; i < lanes; i++) {
            bool here = i < count && i * stride >= k * lanes && i * stride < (k + 1) * lanes;
            order[i] = gen_int(g->i32, here ? (int64_t)(k ? lanes : 0) + i * stride - first : i);
        }
        v = LLVMBuildShuffleVector(g->b, v ? v : next, v ? next : LLVMGetPoison(t),
                                   LLVMConstVector(order, lanes), "");
    }
    for (unsigned i = 0; i < lanes; i++)
        bits[i] = gen_int(g->i1, i < count);
    return count == lanes
               ? v
               : LLVMBuildSelect(g->b, LLVMConstVector(bits, lanes), v, LLVMConstNull(t), "");
}

/* Elements side by side, the last first. */
static Ssa backwards(Emit *e, LLVMTypeRef element, Ssa at, unsigned lanes, size_t align)
{
    Gen *g = e->g;
    LLVMTypeRef t = LLVMVectorType(element, lanes);
    Ssa back = gen_int(g->i64, 1 - (int64_t)lanes), order[64];
    Ssa v = LLVMBuildLoad2(g->b, t, LLVMBuildGEP2(g->b, element, at, &back, 1, ""), "");
    LLVMSetAlignment(v, (unsigned)align);
    for (unsigned i = 0; i < lanes; i++)
        order[i] = gen_int(g->i32, lanes - 1 - i);
    return LLVMBuildShuffleVector(g->b, v, LLVMGetPoison(t), LLVMConstVector(order, lanes), "");
}

/* Elements `stride` apart; those outside of the mask are zero and not touched. */
static Ssa load_lanes(Emit *e, DType dtype, Ssa at, int64_t stride, Ssa mask, size_t align)
{
    Gen *g = e->g;
    unsigned lanes = (unsigned)e->level[e->vector].node->lanes;
    LLVMTypeRef element = gen_stored(g, dtype), t = LLVMVectorType(element, lanes);
    if (stride == 1 && mask)
        return masked(e, "llvm.masked.load", t, at, align, mask);
    if (stride == 1) {
        Ssa v = LLVMBuildLoad2(g->b, t, at, "");
        LLVMSetAlignment(v, (unsigned)align);
        return v;
    }
    if (stride == -1 && !mask)
        return backwards(e, element, at, lanes, align);
    if (stride >= 2 && stride <= STEP_MOST && lanes >= 4 && mask == lane_mask(e)) {
        const NestNode *vector = e->level[e->vector].node;
        unsigned count = vector->extent < (int64_t)lanes ? (unsigned)vector->extent : lanes;
        return every_other(e, element, at, lanes, count, (unsigned)stride, align);
    }
    Ssa steps = ramp(e, lanes, g->i64, stride);
    Ssa places = LLVMBuildGEP2(g->b, element, at, &steps, 1, "");
    return masked(e, "llvm.masked.gather", t, places, align, mask);
}

/* ---- tiles that are turned in registers --------------------------------------------------------------------------------- */

#define COLUMNS_LEAST 2

typedef struct Touch {
    int buffer;
    bool writes;
} Touch;

static void find_write(void *data, NestNode *node)
{
    Touch *t = data;
    t->writes |= node->kind != NEST_LOOP && node->kind != NEST_IF && node->buffer == t->buffer;
}

/* As many columns as lanes, none of them partly there. */
static bool is_square(const NestNode *lanes, const NestNode *columns)
{
    return lanes->lanes >= 8 && lanes->extent == lanes->lanes && columns->extent == lanes->lanes;
}

/* The unrolled loop along which scattered lanes lie side by side: its turns read the columns of one tile. 0: there is none. */
static int column_level(Emit *e, int buffer, const NestLinear *l)
{
    for (int d = e->depth; d > 0; d--) {
        const NestNode *node = e->level[d].node;
        if (!emit_is_straight(node))
            return 0;
        int64_t by = node->way == NEST_UNROLLED ? nest_coefficient(l, node->var) : 0;
        if (by == 0)
            continue;
        const NestNode *lanes = e->level[e->vector].node;
        size_t size = dtype_size(e->n->buffers.at[buffer].dtype);
        if (by != 1 || node->extent < COLUMNS_LEAST || node->extent > 16 || lanes->lanes < 4 ||
            lanes->lanes > 16 || size > 4 || (size < 4 && !is_square(lanes, node)))
            return 0;
        Touch t = {.buffer = buffer};
        nest_each((NestNode *)(uintptr_t)node, find_write, &t);
        return t.writes ? 0 : d;
    }
    return 0;
}

/* Both vectors in one. */
static Ssa side_by_side(Gen *g, Ssa a, Ssa b)
{
    unsigned n = 2 * LLVMGetVectorSize(LLVMTypeOf(a));
    Ssa order[64];
    for (unsigned i = 0; i < n; i++)
        order[i] = gen_int(g->i32, i);
    return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(order, n), "");
}

/* Of each four elements of both vectors those that `four` numbers: 0 to 3 of the first, 4 to 7 of the second. */
static Ssa by_fours(Gen *g, Ssa a, Ssa b, const unsigned four[4])
{
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(a));
    Ssa order[64];
    for (unsigned i = 0; i < n; i++) {
        unsigned k = four[i % 4];
        order[i] = gen_int(g->i32, i / 4 * 4 + k % 4 + (k < 4 ? 0 : n));
    }
    return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(order, n), "");
}

/* Rows of four become four columns: rows that are a quarter of the lanes apart are put side by side, as loads can, and then elements
 * change places within fours, where processors are quick. */
static void turn_tile(Gen *g, Ssa *rows, unsigned n, Ssa out[4])
{
    static const unsigned low[4] = {0, 4, 1, 5}, high[4] = {2, 6, 3, 7};
    static const unsigned first[4] = {0, 1, 4, 5}, second[4] = {2, 3, 6, 7};
    Ssa v[4];
    for (unsigned c = 0; c < 4; c++) {
        v[c] = rows[c];
        if (n >= 8)
            v[c] = side_by_side(g, v[c], rows[4 + c]);
        if (n == 16)
            v[c] = side_by_side(g, v[c], side_by_side(g, rows[8 + c], rows[12 + c]));
    }
    Ssa a = by_fours(g, v[0], v[1], low), b = by_fours(g, v[2], v[3], low);
    Ssa c = by_fours(g, v[0], v[1], high), d = by_fours(g, v[2], v[3], high);
    out[0] = by_fours(g, a, b, first);
    out[1] = by_fours(g, a, b, second);
    out[2] = by_fours(g, c, d, first);
    out[3] = by_fours(g, c, d, second);
}

/* The fours of both vectors that are numbered. */
static Ssa fours_of(Gen *g, Ssa a, Ssa b, const unsigned *fours)
{
    unsigned n = LLVMGetVectorSize(LLVMTypeOf(a));
    Ssa order[16];
    for (unsigned i = 0; i < n; i++)
        order[i] = gen_int(g->i32, fours[i / 4] * 4 + i % 4);
    return LLVMBuildShuffleVector(g->b, a, b, LLVMConstVector(order, n), "");
}

/* LLVM would look for one exchange in place of several in a row, longer than all else takes, and find none. */
static Ssa not_joined(Gen *g, Ssa v)
{
    LLVMTypeRef t = LLVMTypeOf(v), floats = LLVMVectorType(g->f32, LLVMGetVectorSize(t));
    v = LLVMBuildBitCast(g->b, v, floats, "");
    return LLVMBuildBitCast(g->b, gen_intrinsic(g, "llvm.arithmetic.fence", floats, &v, 1), t, "");
}

/* As many rows as columns, 8 or 16: each four rows are turned in their fours, and then whole fours change places. Every row is loaded once,
 * so that rows a power of two apart do not drive each other out of the first cache. */
static void turn_square(Gen *g, Ssa *rows, unsigned n, Ssa *out)
{
    static const unsigned low8[] = {0, 2}, high8[] = {1, 3};
    static const unsigned low[] = {0, 1, 4, 5}, high[] = {2, 3, 6, 7}, even[] = {0, 2, 4, 6},
                          odd[] = {1, 3, 5, 7};
    Ssa u[4][4];
    for (unsigned i = 0; i < n / 4; i++) {
        turn_tile(g, rows + 4 * i, 4, u[i]);
        for (unsigned c = 0; c < 4; c++)
            u[i][c] = not_joined(g, u[i][c]);
    }
    for (unsigned c = 0; c < 4; c++) {
        if (n == 8) {
            out[c] = fours_of(g, u[0][c], u[1][c], low8);
            out[4 + c] = fours_of(g, u[0][c], u[1][c], high8);
            continue;
        }
        Ssa a = fours_of(g, u[0][c], u[1][c], low), b = fours_of(g, u[2][c], u[3][c], low);
        out[c] = fours_of(g, a, b, even);
        out[4 + c] = fours_of(g, a, b, odd);
        a = fours_of(g, u[0][c], u[1][c], high);
        b = fours_of(g, u[2][c], u[3][c], high);
        out[8 + c] = fours_of(g, a, b, even);
        out[12 + c] = fours_of(g, a, b, odd);
    }
}

/* Four columns of a tile, of which `extent` are there, from the place of the first one's first lane. */
static void turn_columns(Emit *e, DType dtype, Ssa at, int64_t stride, int64_t extent, Ssa out[4])
{
    Gen *g = e->g;
    const NestNode *vector = e->level[e->vector].node;
    LLVMTypeRef element = gen_stored(g, dtype), row = LLVMVectorType(element, 4);
    unsigned align = (unsigned)dtype_size(dtype);
    Ssa mask = NULL, bits[4], v[16];
    for (int i = 0; i < 4; i++)
        bits[i] = gen_int(g->i1, i < extent);
    if (extent < 4)
        mask = LLVMConstVector(bits, 4);
    for (int i = 0; i < vector->lanes; i++) {
        v[i] = LLVMConstNull(row);
        if (i >= vector->extent)
            continue;
        Ssa by = gen_int(g->i64, i * stride);
        Ssa from = LLVMBuildGEP2(g->b, element, at, &by, 1, "");
        if (mask) {
            v[i] = masked(e, "llvm.masked.load", row, from, align, mask);
        } else {
            v[i] = LLVMBuildLoad2(g->b, row, from, "");
            LLVMSetAlignment(v[i], align);
        }
    }
    turn_tile(g, v, (unsigned)vector->lanes, out);
}

/* The rows of a square, from the place of the first lane in the turn that is made; elements are turned as words of 32 bits. */
static void turn_rows(Emit *e, DType dtype, Ssa at, int64_t stride, const EmitLevel *columns,
                      Ssa *out)
{
    Gen *g = e->g;
    unsigned n = (unsigned)columns->node->extent, size = (unsigned)dtype_size(dtype);
    LLVMTypeRef element = gen_stored(g, dtype), words = LLVMVectorType(g->i32, n);
    LLVMTypeRef bits = LLVMVectorType(LLVMIntTypeInContext(g->c, 8 * size), n);
    Ssa rows[16];
    for (unsigned i = 0; i < n; i++) {
        Ssa by = gen_int(g->i64, (int64_t)i * stride - columns->number);
        Ssa from = LLVMBuildGEP2(g->b, element, at, &by, 1, "");
        rows[i] = LLVMBuildLoad2(g->b, size < 4 ? bits : LLVMVectorType(element, n), from, "");
        LLVMSetAlignment(rows[i], size);
        rows[i] = size < 4 ? LLVMBuildZExt(g->b, rows[i], words, "") : rows[i];
    }
    turn_square(g, rows, n, out);
    for (unsigned i = 0; i < n && size < 4; i++)
        out[i] = LLVMBuildBitCast(g->b, LLVMBuildTrunc(g->b, out[i], bits, ""),
                                  LLVMVectorType(element, n), "");
}

/* All of a tile's columns, from the place of the first lane in the turn that is made. */
static Ssa *turned_tile(Emit *e, DType dtype, Ssa at, int64_t stride, const EmitLevel *columns)
{
    Gen *g = e->g;
    Ssa *out = arena_alloc_must(g->arena, 16, sizeof *out);
    if (is_square(e->level[e->vector].node, columns->node)) {
        turn_rows(e, dtype, at, stride, columns, out);
        return out;
    }
    for (int64_t c = 0; c < columns->node->extent; c += 4) {
        Ssa by = gen_int(g->i64, c - columns->number);
        Ssa from = LLVMBuildGEP2(g->b, gen_stored(g, dtype), at, &by, 1, "");
        turn_columns(e, dtype, from, stride, columns->node->extent - c, out + c);
    }
    return out;
}

/* The lanes of a column; NULL where the lanes are no column of a tile. */
static Ssa column(Emit *e, const Te *x, const NestLinear *l, int64_t stride, Ssa at)
{
    int d = column_level(e, x->tensor, l);
    if (!d)
        return NULL;
    Ssa *columns = ptrmap_find(&e->columns, x);
    if (!columns) {
        columns = turned_tile(e, e->n->buffers.at[x->tensor].dtype, at, stride, &e->level[d]);
        ptrmap_put(&e->columns, x, columns);
    }
    return columns[e->level[d].number];
}

void emit_end_columns(Emit *e)
{
    ptrmap_clear(&e->columns);
}

/* ---- words ----------------------------------------------------------------------------------------------------------------- */

/* Bytes of a register, at most. */
#define WORDS_MOST 64

/* How many bytes are loaded for lanes whose words are `step` apart: a power of two, with what lies behind the last one. 0: they lie too far
 * apart, or there is not as much behind them. */
static unsigned bytes_of_words(Emit *e, const Te *x, int64_t step)
{
    int64_t low, high, size = NEST_WORD;
    const NestNode *vector = e->level[e->vector].node;
    int64_t last = step * (vector->extent - 1), own = (NEST_WORD - 1) * x->word + 1;
    while (size < last + own && size <= WORDS_MOST)
        size *= 2;
    bool fits = step > 0 && size <= WORDS_MOST && vector->lanes * NEST_WORD <= WORDS_MOST &&
                nest_bounds(x->index[0], e->level[e->depth].node, &low, &high) &&
                high - last + size <= e->n->buffers.at[x->tensor].size;
    return fits ? (unsigned)size : 0;
}

/* The words of the lanes out of such bytes, put in order; lanes that do not count have the first one's. */
static Ssa near_words(Emit *e, Ssa at, int64_t step, int apart, unsigned size)
{
    Gen *g = e->g;
    const NestNode *vector = e->level[e->vector].node;
    unsigned n = (unsigned)vector->lanes * NEST_WORD;
    LLVMTypeRef t = LLVMVectorType(g->i8, size);
    Ssa order[WORDS_MOST], v = LLVMBuildLoad2(g->b, t, at, "");
    LLVMSetAlignment(v, 1);
    for (unsigned i = 0; i < n; i++) {
        int64_t lane = i / NEST_WORD < vector->extent ? i / NEST_WORD : 0;
        order[i] = gen_int(g->i32, lane * step + i % NEST_WORD * apart);
    }
    v = LLVMBuildShuffleVector(g->b, v, LLVMGetPoison(t), LLVMConstVector(order, n), "");
    return LLVMBuildBitCast(g->b, v, LLVMVectorType(g->i32, (unsigned)vector->lanes), "");
}

static Ssa flat_index(Emit *e, const Te *x, bool is_vector)
{
    Gen *g = e->g;
    const NestBuffer *b = &e->n->buffers.at[x->tensor];
    Lanes l = emit_lanes_of(e, is_vector);
    int64_t stride = 1;
    Ssa sum = NULL;
    for (int i = x->n - 1; i >= 0; i--) {
        Ssa v = is_vector ? emit_lanes(e, x->index[i]) : emit_value(e, x->index[i]);
        v = LLVMBuildMul(g->b, v, lanes_int(&l, g->i64, stride), "");
        sum = sum ? LLVMBuildAdd(g->b, sum, v, "") : v;
        stride *= x->n == 1 ? 1 : b->shape[i];
    }
    return sum ? sum : gen_int(g->i64, 0);
}

/* The word at a place, or at one for each lane, byte by byte where these are apart. */
static Ssa word_of(Emit *e, Ssa at, int apart, const NestNode *vector)
{
    Gen *g = e->g;
    Lanes l = emit_lanes_of(e, vector != NULL);
    int parts = apart > 1 ? NEST_WORD : 1;
    LLVMTypeRef part = apart > 1 ? g->i8 : g->i32, word = g->i32;
    if (vector) {
        part = LLVMVectorType(part, (unsigned)vector->lanes);
        word = LLVMVectorType(word, (unsigned)vector->lanes);
    }
    Ssa sum = NULL;
    for (int i = 0; i < parts; i++) {
        Ssa by = gen_int(g->i64, i * apart), v;
        Ssa place = i ? LLVMBuildGEP2(g->b, g->i8, at, &by, 1, "") : at;
        if (vector) {
            v = masked(e, "llvm.masked.gather", part, place, 1, lane_mask(e));
        } else {
            v = LLVMBuildLoad2(g->b, part, place, "");
            LLVMSetAlignment(v, 1);
        }
        v = apart > 1 ? LLVMBuildZExt(g->b, v, word, "") : v;
        v = i ? LLVMBuildShl(g->b, v, lanes_int(&l, g->i32, 8 * i), "") : v;
        sum = sum ? LLVMBuildOr(g->b, sum, v, "") : v;
    }
    return sum;
}

static Ssa word_load(Emit *e, const Te *x, bool is_vector)
{
    Gen *g = e->g;
    const NestLinear *l = emit_linear(e, x->index[0]);
    Ssa at = l ? emit_place(e, x->tensor, x->index[0])
               : step_by(e, x->tensor, e->base[x->tensor], flat_index(e, x, is_vector));
    if (!is_vector)
        return word_of(e, at, x->word, NULL);
    const NestNode *vector = e->level[e->vector].node;
    int64_t step = l ? nest_coefficient(l, vector->var) : 0;
    unsigned size = bytes_of_words(e, x, step);
    if (size)
        return near_words(e, at, step, x->word, size);
    Ssa steps = ramp(e, (unsigned)vector->lanes, g->i64, step);
    Ssa places = l ? LLVMBuildGEP2(g->b, g->i8, at, &steps, 1, "") : at;
    return word_of(e, places, x->word, vector);
}

static Ssa flat_load(Emit *e, const Te *x, bool is_vector)
{
    Gen *g = e->g;
    const NestBuffer *b = &e->n->buffers.at[x->tensor];
    const Te *at = x->index[0];
    if (b->place == NEST_REGISTER)
        return emit_register(e, x->tensor, at);
    if (b->rank == 0 && x->tensor < e->n->n_inputs)
        return e->base[x->tensor];
    Ssa place = emit_place(e, x->tensor, at), v;
    if (is_vector) {
        const NestLinear *l = emit_linear(e, at);
        int64_t stride = nest_coefficient(l, e->level[e->vector].node->var);
        v = stride == 0 || stride == 1 ? NULL : column(e, x, l, stride, place);
        unsigned align = emit_alignment(e, x->tensor, at);
        v = v ? v : load_lanes(e, b->dtype, place, stride, lane_mask(e), align);
    } else {
        v = LLVMBuildLoad2(g->b, gen_stored(g, b->dtype), place, "");
        LLVMSetAlignment(v, (unsigned)dtype_size(b->dtype));
    }
    return gen_from_stored(g, b->dtype, v);
}

/* Whether an index can leave its extent. */
static bool may_leave(Emit *e, const Te *index, int64_t extent)
{
    const NestLinear *l = emit_linear(e, index);
    if (!l)
        return true;
    int64_t low = l->c, high = l->c;
    for (int i = 0; i < l->n; i++) {
        int64_t far = l->term[i].by * (level_of(e, l->term[i].var)->node->extent - 1);
        *(far < 0 ? &low : &high) += far;
    }
    return low < 0 || high >= extent;
}

static bool fits_narrow(Emit *e, const Te *index, int64_t extent)
{
    const NestLinear *l = emit_linear(e, index);
    double most = (double)extent;
    if (!l)
        return false;
    most += (double)(l->c < 0 ? -l->c : l->c);
    for (int i = 0; i < l->n; i++) {
        double by = (double)l->term[i].by;
        most += (by < 0 ? -by : by) * (double)level_of(e, l->term[i].var)->node->extent;
    }
    return most < 1e9;
}

/* The linear index in 32 bits a lane. */
static Ssa narrow_lanes(Emit *e, const Te *index)
{
    Gen *g = e->g;
    const NestLinear *l = emit_linear(e, index);
    const NestNode *loop = e->level[e->vector].node;
    Lanes many = emit_lanes_of(e, true);
    Ssa v = gen_int(g->i64, emit_known_part(e, l)), running = emit_running_part(e, l, 1);
    v = running ? LLVMBuildAdd(g->b, running, v, "") : v;
    v = lanes_splat(&many, LLVMBuildTrunc(g->b, v, g->i32, ""));
    return LLVMBuildAdd(g->b, v, ramp(e, many.n, g->i32, nest_coefficient(l, loop->var)), "");
}

/* Whether the indices lie inside: in `all` the part that is the same for all lanes, as the result the rest. NULL: always. */
static Ssa inside(Emit *e, const Te *x, Ssa *all)
{
    Gen *g = e->g;
    const int64_t *shape = e->n->buffers.at[x->tensor].shape;
    Ssa lanes = NULL;
    *all = NULL;
    for (int i = 0; i < x->n && x->otherwise; i++) {
        if (!may_leave(e, x->index[i], shape[i]))
            continue;
        Lanes many = emit_lanes_of(e, true);
        if (!emit_is_vector(e, x->index[i])) {
            Ssa v = emit_value(e, x->index[i]);
            *all = both(g, *all, LLVMBuildICmp(g->b, LLVMIntULT, v, gen_int(g->i64, shape[i]), ""));
        } else if (fits_narrow(e, x->index[i], shape[i])) {
            Ssa v = narrow_lanes(e, x->index[i]);
            Ssa most = lanes_int(&many, g->i32, shape[i]);
            lanes = both(g, lanes, LLVMBuildICmp(g->b, LLVMIntULT, v, most, ""));
        } else {
            Ssa v = emit_value(e, x->index[i]), most = lanes_int(&many, g->i64, shape[i]);
            lanes = both(g, lanes, LLVMBuildICmp(g->b, LLVMIntULT, v, most, ""));
        }
    }
    return lanes;
}

/* A bit as a mask of lanes. LLVM 19 makes an unmasked load of a half whose mask is the `and` of a repeated bit and zeros (on processors
 * without AVX-512), so the mask is a comparison of numbers that differ by lane. */
static Ssa bit_mask(Emit *e, Ssa bit)
{
    Gen *g = e->g;
    Lanes many = emit_lanes_of(e, true);
    Ssa start = LLVMBuildSelect(g->b, bit, gen_int(g->i32, 0), gen_int(g->i32, 1 << 30), "");
    Ssa lanes = LLVMBuildAdd(g->b, lanes_splat(&many, start), ramp(e, many.n, g->i32, 1), "");
    return LLVMBuildICmp(g->b, LLVMIntULT, lanes, lanes_int(&many, g->i32, many.n), "");
}

/* The value where the load is inside, `otherwise` elsewhere. */
static Ssa guarded(Emit *e, const Te *x, Ssa v, bool is_vector, Ssa ok)
{
    const Te *o = x->otherwise;
    if (!ok)
        return v;
    if (is_vector && o->kind == TE_NODE_CONST && value_as_double(o->value) == 0)
        return v; /* lanes that were masked off are zero already */
    Ssa other = is_vector ? emit_lanes(e, o) : emit_value(e, o);
    return LLVMBuildSelect(e->g->b, ok, v, other, "");
}

/* The row-major position of the indices as a linear one; false when it is none. */
static bool linear_position(Emit *e, const Te *x, NestLinear *out)
{
    const int64_t *shape = e->n->buffers.at[x->tensor].shape;
    int64_t stride = 1;
    *out = (NestLinear){0};
    for (int i = x->n - 1; i >= 0; i--) {
        const NestLinear *l = emit_linear(e, x->index[i]);
        if (!l)
            return false;
        out->c += l->c * stride;
        for (int k = 0; k < l->n; k++)
            if (!nest_add_term(out, l->term[k].var, l->term[k].by * stride))
                return false;
        stride *= shape[i];
    }
    return true;
}

/* A position for the load, kept so that its address is remembered by it. */
static const Te *position_of(Emit *e, const Te *x)
{
    Te *at = ptrmap_find(&e->positions, x);
    NestLinear l;
    if (!at && linear_position(e, x, &l)) {
        at = nest_position(e->n, &l);
        ptrmap_put(&e->positions, x, at);
    }
    return at;
}

/* The lanes' step where each is as far from the one before; 0: they are not. */
static int64_t even_step(const EmitForm *f, int lanes)
{
    int64_t step = f->lane[1] - f->lane[0];
    for (int i = 2; i < lanes; i++)
        if (f->lane[i] - f->lane[i - 1] != step)
            return 0;
    return step;
}

/* The least and the greatest of the lanes that count and are inside; false: there are none. */
static bool ends_of(const EmitForm *f, const NestNode *vector, int64_t *low, int64_t *high)
{
    bool any = false;
    for (int i = 0; i < vector->extent && i < vector->lanes; i++) {
        if (f->outside >> i & 1)
            continue;
        *low = !any || f->lane[i] < *low ? f->lane[i] : *low;
        *high = !any || f->lane[i] > *high ? f->lane[i] : *high;
        any = true;
    }
    return any;
}

/* Lanes out of few elements side by side: those are loaded and put in their places, zeros where they are outside. NULL: they lie too far
 * apart. */
static Ssa load_near(Emit *e, DType dtype, Ssa base, const EmitForm *f, size_t align)
{
    Gen *g = e->g;
    const NestNode *vector = e->level[e->vector].node;
    int lanes = vector->lanes;
    int64_t low, high;
    LLVMTypeRef element = gen_stored(g, dtype), t = LLVMVectorType(element, (unsigned)lanes);
    if (!ends_of(f, vector, &low, &high))
        return LLVMConstNull(t);
    if (high - low >= lanes)
        return NULL;
    Ssa from = gen_int(g->i64, low), bits[64], order[64];
    Ssa at = LLVMBuildGEP2(g->b, element, base, &from, 1, ""), v;
    for (int i = 0; i < lanes; i++) {
        bool is_outside = f->outside >> i & 1;
        int64_t place = is_outside ? lanes : i < vector->extent ? f->lane[i] - low : 0;
        bits[i] = gen_int(g->i1, i <= high - low);
        order[i] = gen_int(g->i32, place);
    }
    if (high - low < lanes - 1) {
        v = masked(e, "llvm.masked.load", t, at, align, LLVMConstVector(bits, (unsigned)lanes));
    } else {
        v = LLVMBuildLoad2(g->b, t, at, "");
        LLVMSetAlignment(v, (unsigned)align);
    }
    return LLVMBuildShuffleVector(g->b, v, LLVMConstNull(t),
                                  LLVMConstVector(order, (unsigned)lanes), "");
}

/* Lanes of which it is known how far apart they lie; NULL: it is not. */
static Ssa load_form(Emit *e, const Te *x, Ssa mask)
{
    Gen *g = e->g;
    const NestNode *vector = e->level[e->vector].node;
    const NestBuffer *b = &e->n->buffers.at[x->tensor];
    LLVMTypeRef element = gen_stored(g, b->dtype);
    size_t align = dtype_size(b->dtype);
    EmitForm f;
    Ssa v, steps[64];
    if (vector->lanes < 2 || !emit_form_of_load(e, x, &f))
        return NULL;
    Ssa base = f.start ? step_by(e, x->tensor, e->base[x->tensor], f.start) : e->base[x->tensor];
    int64_t step = even_step(&f, vector->lanes);
    if (step) {
        Ssa first = gen_int(g->i64, f.lane[0]);
        base = LLVMBuildGEP2(g->b, element, base, &first, 1, "");
        return load_lanes(e, b->dtype, base, step, mask, align);
    }
    v = f.may_leave ? NULL : load_near(e, b->dtype, base, &f, align);
    if (v)
        return v;
    for (int i = 0; i < vector->lanes; i++)
        steps[i] = gen_int(g->i64, f.lane[i]);
    Ssa apart = LLVMConstVector(steps, (unsigned)vector->lanes);
    Ssa places = LLVMBuildGEP2(g->b, element, base, &apart, 1, "");
    return masked(e, "llvm.masked.gather", LLVMVectorType(element, (unsigned)vector->lanes), places,
                  align, mask);
}

/* A load of several indices: one that may leave its tensor, or goes where numbers say. */
static Ssa scattered_load(Emit *e, const Te *x, bool is_vector)
{
    Gen *g = e->g;
    const NestBuffer *b = &e->n->buffers.at[x->tensor];
    Ssa all, ok = inside(e, x, &all), v;
    const Te *at = position_of(e, x);
    LLVMTypeRef element = gen_stored(g, b->dtype);
    size_t align = dtype_size(b->dtype);
    if (!is_vector) {
        Ssa place = at ? emit_place(e, x->tensor, at)
                       : step_by(e, x->tensor, e->base[x->tensor], flat_index(e, x, false));
        if (all)
            place = LLVMBuildSelect(g->b, all, place, e->base[x->tensor], "");
        v = LLVMBuildLoad2(g->b, element, place, "");
        LLVMSetAlignment(v, (unsigned)align);
        return guarded(e, x, gen_from_stored(g, b->dtype, v), false, all);
    }
    if (all)
        ok = both(g, ok, bit_mask(e, all));
    Ssa mask = both(g, ok, lane_mask(e));
    int64_t stride = at ? nest_coefficient(emit_linear(e, at), e->level[e->vector].node->var) : 0;
    if (stride != 0) {
        v = load_lanes(e, b->dtype, emit_place(e, x->tensor, at), stride, mask, align);
    } else if (!(v = load_form(e, x, mask))) {
        unsigned lanes = (unsigned)e->level[e->vector].node->lanes;
        Ssa places = step_by(e, x->tensor, e->base[x->tensor], flat_index(e, x, true));
        v = masked(e, "llvm.masked.gather", LLVMVectorType(element, lanes), places, align, mask);
    }
    return guarded(e, x, gen_from_stored(g, b->dtype, v), true, ok);
}

static Ssa load_value(Emit *e, const Te *x, bool is_vector)
{
    if (x->word)
        return word_load(e, x, is_vector);
    if (x->n == 1 && !x->otherwise && emit_linear(e, x->index[0]))
        return flat_load(e, x, is_vector);
    return scattered_load(e, x, is_vector);
}

/* ---- expressions ----------------------------------------------------------------------------------------------------------- */

/* What is computed, for what may go wrong there. */
typedef struct Computing {
    Emit *e;
    Span span;
} Computing;

static void fault(void *data, Ssa bad, const char *report)
{
    const Computing *c = data;
    Emit *e = c->e;
    Gen *g = e->g;
    Span span = span_is_none(c->span) ? e->span : c->span;
    if (e->fault) {
        e->fault(e, bad, report, span);
        return;
    }
    LLVMBasicBlockRef fail = gen_block(g, e->fn, "fault"), go = gen_block(g, e->fn, "go");
    gen_branch(g, bad, fail, go, false);
    LLVMPositionBuilderAtEnd(g->b, fail);
    e->fails = true;
    Ssa args[4] = {e->state};
    gen_span(g, span, args + 1);
    gen_call_abi(g, report, args, 4);
    LLVMBuildRetVoid(g->b);
    LLVMPositionBuilderAtEnd(g->b, go);
}

/* The index in 32 bits, where all that it is made of fits; NULL: it does not. */
static Ssa narrow_index(Emit *e, const Te *x)
{
    Gen *g = e->g;
    int64_t low, high;
    if (!nest_bounds(x, e->level[e->depth].node, &low, &high) || low < 0 || high > INT32_MAX)
        return NULL;
    if (x->kind == TE_NODE_CONST)
        return gen_int(g->i32, low);
    if (x->kind == TE_NODE_AXIS)
        return LLVMBuildTrunc(g->b, first_value(e, x->axis), g->i32, "");
    Ssa a = narrow_index(e, x->a), b = narrow_index(e, x->b);
    if (!a || !b)
        return NULL;
    switch (x->op) {
    case TE_ADD: return LLVMBuildAdd(g->b, a, b, "");
    case TE_SUB: return LLVMBuildSub(g->b, a, b, "");
    case TE_MUL: return LLVMBuildMul(g->b, a, b, "");
    case TE_DIV: return LLVMBuildUDiv(g->b, a, b, "");
    case TE_MOD: return LLVMBuildURem(g->b, a, b, "");
    default: return NULL;
    }
}

Ssa emit_index(Emit *e, const Te *x)
{
    Ssa v = narrow_index(e, x);
    return v ? LLVMBuildZExt(e->g->b, v, e->g->i64, "") : emit_value(e, x);
}

static Ssa operand(Emit *e, const Te *x, bool is_vector)
{
    return is_vector ? emit_lanes(e, x) : emit_value(e, x);
}

static Ssa compute(Emit *e, const Te *x)
{
    bool is_vector = emit_is_vector(e, x);
    Lanes l = emit_lanes_of(e, is_vector), one = emit_lanes_of(e, false);
    l.fault = fault;
    l.data = &(Computing){e, x->span};
    switch ((TeKind)x->kind) {
    case TE_NODE_CONST: return lanes_const(&one, x->value);
    case TE_NODE_AXIS: return axis_value(e, x->axis);
    case TE_NODE_LOAD: return load_value(e, x, is_vector);
    case TE_NODE_UNARY: return lanes_unary(&l, x->op, x->a->dtype, operand(e, x->a, is_vector));
    case TE_NODE_BINARY: {
        bool divides = is_vector && (x->op == TE_DIV || x->op == TE_MOD) &&
                       x->a->dtype.code == DTYPE_CODE_INT && x->a->dtype.bits == 64;
        Ssa known = divides ? emit_form_lanes(e, x) : NULL;
        if (known)
            return known;
        Ssa a = operand(e, x->a, is_vector), b = operand(e, x->b, is_vector);
        return lanes_binary(&l, x->op, x->a->dtype, a, b);
    }
    case TE_NODE_CAST: return lanes_cast(&l, x->dtype, x->a->dtype, operand(e, x->a, is_vector));
    case TE_NODE_SELECT: {
        Ssa a = operand(e, x->a, is_vector), b = operand(e, x->b, is_vector);
        return LLVMBuildSelect(e->g->b, a, b, operand(e, x->c, is_vector), "");
    }
    }
    return NULL;
}

/* The level that remembers what is computed now. */
static int remembering(const Emit *e)
{
    int block = e->keep ? e->keep - 1 : e->depth;
    while (e->level[block].node && emit_is_straight(e->level[block].node))
        block--;
    return block;
}

Ssa emit_value(Emit *e, const Te *x)
{
    uint64_t turn = turn_of(e, x);
    bool pure = emit_is_pure(e, x);
    Ssa v = pure ? NULL : find_copy(&e->now, x, turn);
    for (int d = e->depth; d >= 0 && pure && !v; d--)
        v = find_copy(&e->level[d].values, x, turn);
    if (v)
        return v;
    Span outer = origin_at(e->g, x->span);
    v = compute(e, x);
    origin_at(e->g, outer);
    add_copy(e, pure ? &e->level[remembering(e)].values : &e->now, x, turn, v);
    return v;
}

Ssa emit_lanes(Emit *e, const Te *x)
{
    Ssa v = emit_value(e, x);
    if (!e->vector || emit_is_vector(e, x))
        return v;
    Lanes l = emit_lanes_of(e, true);
    PtrMap *splats = &e->level[remembering(e)].splats;
    Ssa splat = ptrmap_find(splats, v);
    if (splat && LLVMGetVectorSize(LLVMTypeOf(splat)) == l.n)
        return splat;
    splat = lanes_splat(&l, v);
    ptrmap_put(splats, v, splat);
    return splat;
}
