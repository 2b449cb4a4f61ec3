/* The value of a stage's expression inside its loops.
 *
 * A node depends on some axes; it is a vector when the vector axis is among them, and is computed as far out as its axes allow. Values
 * are remembered by the loop in which they were computed, for each copy that tiles and vectors make. */
#include "jit/loops.h"

#include <string.h>

/* ---- levels -------------------------------------------------------------------------------------------------------- */

static int level_of(const Nest *n, const Te *e)
{
    uint64_t axes = schedule_axes(&n->s, e);
    int level = 0;
    for (int a = 0; axes >> a; a++)
        if (axes >> a & 1 && n->s.level[a] > level)
            level = n->s.level[a];
    return level;
}

static bool depends(const Nest *n, const Te *e, int axis)
{
    return axis >= 0 && (schedule_axes(&n->s, e) >> axis & 1);
}

bool element_is_vector(const Nest *n, const Te *e)
{
    return depends(n, e, n->s.vector_axis);
}

void element_enter(Nest *n)
{
    n->level++;
    ptrmap_clear(&n->values[n->level]);
    ptrmap_clear(&n->places[n->level]);
}

void element_leave(Nest *n)
{
    n->level--;
}

static int copy_of(const Nest *n, const Te *e, int vector, int tile)
{
    int v = element_is_vector(n, e) ? vector : 0, t = depends(n, e, n->s.tile_axis) ? tile : 0;
    return v * 16 + t;
}

static Ssa find(Nest *n, const Te *e, int copy)
{
    for (int l = n->level; l >= 0; l--) {
        Ssa *copies = ptrmap_find(&n->values[l], e);
        if (copies && copies[copy])
            return copies[copy];
    }
    return NULL;
}

static void remember(Nest *n, const Te *e, int copy, Ssa v)
{
    Ssa *copies = ptrmap_find(&n->values[n->level], e);
    if (!copies) {
        copies = arena_new_array(n->k->g->arena, Ssa, 16 * 8);
        ptrmap_put(&n->values[n->level], e, copies);
    }
    copies[copy] = v;
}

Ssa element_mask(const Nest *n, int vector)
{
    return vector == n->vectors - 1 ? n->mask : NULL;
}

static const Lanes *lanes_of(Nest *n, bool vector, int copy)
{
    if (!vector)
        return &n->one;
    n->many.mask = element_mask(n, copy);
    return &n->many;
}

/* ---- axes ------------------------------------------------------------------------------------------------------------ */

/* 0, by, 2 by, … in lanes of the type. */
static Ssa ramp(const Nest *n, LLVMTypeRef t, int64_t by)
{
    Ssa parts[64];
    for (unsigned i = 0; i < n->many.n; i++)
        parts[i] = gen_int(t, (int64_t)i * by);
    return LLVMConstVector(parts, n->many.n);
}

/* The axis of a copy: its first lane. */
static Ssa axis_start(Nest *n, int axis, int vector, int tile)
{
    Gen *g = n->k->g;
    int64_t more = axis == n->s.tile_axis     ? tile
                   : axis == n->s.vector_axis ? (int64_t)vector * n->many.n
                                              : 0;
    Ssa v = n->axis[axis] ? n->axis[axis] : gen_int(g->i64, 0);
    return more ? LLVMBuildAdd(g->b, v, gen_int(g->i64, more), "") : v;
}

static Ssa axis_value(Nest *n, int axis, int vector, int tile)
{
    Gen *g = n->k->g;
    Ssa start = axis_start(n, axis, vector, tile);
    if (axis != n->s.vector_axis)
        return start;
    return LLVMBuildAdd(g->b, lanes_splat(&n->many, start), ramp(n, g->i64, 1), "");
}

/* ---- loads --------------------------------------------------------------------------------------------------------- */

static Ssa step_by(Nest *n, const Te *load, Ssa base, Ssa elements)
{
    Gen *g = n->k->g;
    return LLVMBuildGEP2(g->b, gen_stored(g, program_tensor(n->p, load->tensor).dtype), base,
                         &elements, 1, "");
}

/* The address with the axes of the loops down to this level; the others at zero. */
static Ssa place_at(Nest *n, const Te *load, const LoadInfo *info, int level)
{
    Gen *g = n->k->g;
    Ssa v = ptrmap_find(&n->places[level], load);
    if (v)
        return v;
    if (level == 0) {
        v = n->k->base[load->tensor];
        if (info->at.offset)
            v = step_by(n, load, v, gen_int(g->i64, info->at.offset));
        return v;
    }
    v = place_at(n, load, info, level - 1);
    int axis = n->s.loops[level - 1].axis;
    int64_t stride = info->at.stride[axis];
    if (stride == 0 || !n->axis[axis])
        return v;
    Ssa steps = n->axis[axis];
    if (stride != 1)
        steps = LLVMBuildMul(g->b, steps, gen_int(g->i64, stride), "");
    v = step_by(n, load, v, steps);
    ptrmap_put(&n->places[level], load, v);
    return v;
}

static Ssa place_of(Nest *n, const Te *load, const LoadInfo *info, int vector, int tile)
{
    int64_t more = 0;
    if (n->s.vector_axis >= 0)
        more += info->at.stride[n->s.vector_axis] * vector * (int64_t)n->many.n;
    if (n->s.tile_axis >= 0)
        more += info->at.stride[n->s.tile_axis] * tile;
    Ssa base = place_at(n, load, info, n->level);
    return more ? step_by(n, load, base, gen_int(n->k->g->i64, more)) : base;
}

static Ssa both(Gen *g, Ssa a, Ssa b)
{
    return !a ? b : !b ? a : LLVMBuildAnd(g->b, a, b, "");
}

/* Whether index i, a linear one, lies inside: a bit, or a vector of them along the vector axis. NULL: always. */
static Ssa linear_inside(Nest *n, const Linear *at, int64_t extent, int vector, int tile)
{
    Gen *g = n->k->g;
    int64_t low, high, along = n->s.vector_axis >= 0 ? at->k[n->s.vector_axis] : 0;
    linear_range(at, n->stage, &low, &high);
    if (low >= 0 && high < extent)
        return NULL;
    Ssa v = gen_int(g->i64, at->c);
    for (int a = 0; a < n->stage->rank + n->stage->n_reduced; a++) {
        if (at->k[a] == 0 || !n->s.level[a])
            continue;
        Ssa x = axis_start(n, a, vector, tile);
        x = at->k[a] == 1 ? x : LLVMBuildMul(g->b, x, gen_int(g->i64, at->k[a]), "");
        v = LLVMBuildAdd(g->b, v, x, "");
    }
    bool narrow = low > INT32_MIN && high < INT32_MAX && extent < INT32_MAX;
    if (along == 0 || !narrow) {
        if (along)
            v = LLVMBuildAdd(g->b, lanes_splat(&n->many, v), ramp(n, g->i64, along), "");
        Ssa most = gen_int(g->i64, extent);
        return LLVMBuildICmp(g->b, LLVMIntULT, v, along ? lanes_splat(&n->many, most) : most, "");
    }
    v = lanes_splat(&n->many, LLVMBuildTrunc(g->b, v, g->i32, ""));
    v = LLVMBuildAdd(g->b, v, ramp(n, g->i32, along), "");
    return LLVMBuildICmp(g->b, LLVMIntULT, v, lanes_int(&n->many, g->i32, extent), "");
}

/* Whether the load's indices lie inside the tensor. NULL: always. Parts that are the same in all lanes come in `all`. */
static Ssa inside(Nest *n, const Te *load, int vector, int tile, Ssa *all)
{
    Gen *g = n->k->g;
    TeTensor t = program_tensor(n->p, load->tensor);
    Ssa lanes = NULL;
    *all = NULL;
    for (int i = 0; i < load->n && load->otherwise; i++) {
        Linear at;
        Ssa in;
        bool is_vector = element_is_vector(n, load->index[i]);
        if (linear_of(load->index[i], &at)) {
            in = linear_inside(n, &at, t.shape[i], vector, tile);
        } else {
            Ssa v = element_value(n, load->index[i], vector, tile);
            Ssa most = gen_int(g->i64, t.shape[i]);
            most = is_vector ? lanes_splat(&n->many, most) : most;
            in = LLVMBuildICmp(g->b, LLVMIntULT, v, most, "");
        }
        if (in && is_vector)
            lanes = both(g, lanes, in);
        else
            *all = both(g, *all, in);
    }
    return lanes;
}

static Ssa masked(Nest *n, const char *name, LLVMTypeRef t, Ssa from, LLVMTypeRef from_type,
                  size_t align, Ssa mask)
{
    Gen *g = n->k->g;
    LLVMTypeRef overloads[2] = {t, from_type};
    unsigned id = LLVMLookupIntrinsicID(name, strlen(name));
    Ssa fn = LLVMGetIntrinsicDeclaration(g->m, id, overloads, 2);
    if (!mask)
        mask = lanes_int(&n->many, g->i1, 1);
    Ssa args[4] = {from, gen_int(g->i32, (int64_t)align), mask, LLVMConstNull(t)};
    return LLVMBuildCall2(g->b, LLVMGlobalGetValueType(fn), fn, args, 4, "");
}

/* n.lanes elements, `stride` apart; those outside the mask are zero and not touched. */
static Ssa load_lanes(Nest *n, DType dtype, Ssa at, int64_t stride, Ssa mask)
{
    Gen *g = n->k->g;
    LLVMTypeRef element = gen_stored(g, dtype), t = LLVMVectorType(element, n->many.n);
    size_t align = dtype_size(dtype);
    if (stride == 1 && mask)
        return masked(n, "llvm.masked.load", t, at, g->ptr, align, mask);
    if (stride == 1) {
        Ssa v = LLVMBuildLoad2(g->b, t, at, "");
        LLVMSetAlignment(v, (unsigned)align);
        return v;
    }
    Ssa steps = ramp(n, g->i64, stride);
    Ssa places = LLVMBuildGEP2(g->b, element, at, &steps, 1, "");
    return masked(n, "llvm.masked.gather", t, places, LLVMVectorType(g->ptr, n->many.n), align,
                  mask);
}

/* A bit as a mask of lanes. LLVM 19 makes an unmasked load of a half whose mask is the `and` of a repeated bit and zeros (on processors
 * without AVX-512), so the mask is a comparison of numbers that differ by lane. */
static Ssa bit_mask(Nest *n, Ssa bit)
{
    Gen *g = n->k->g;
    Ssa start = LLVMBuildSelect(g->b, bit, gen_int(g->i32, 0), gen_int(g->i32, 1 << 30), "");
    Ssa lanes = LLVMBuildAdd(g->b, lanes_splat(&n->many, start), ramp(n, g->i32, 1), "");
    return LLVMBuildICmp(g->b, LLVMIntULT, lanes, lanes_int(&n->many, g->i32, n->many.n), "");
}

/* A value that stands for the lanes, or for all of them, where the load is inside; `otherwise` elsewhere. */
static Ssa guarded(Nest *n, const Te *load, Ssa v, bool is_vector, Ssa ok, int vector, int tile)
{
    Gen *g = n->k->g;
    if (!ok)
        return v;
    const Te *e = load->otherwise;
    bool zero = e->kind == TE_NODE_CONST && value_as_double(e->value) == 0;
    if (zero && is_vector)
        return v; /* lanes that were masked off are zero already */
    Ssa other = is_vector ? element_vector(n, e, vector, tile) : element_value(n, e, vector, tile);
    return LLVMBuildSelect(g->b, ok, v, other, "");
}

static Ssa flat_index(Nest *n, const Te *load, int vector, int tile, bool *is_vector)
{
    Gen *g = n->k->g;
    TeTensor t = program_tensor(n->p, load->tensor);
    int64_t stride = 1;
    Ssa sum = NULL;
    *is_vector = false;
    for (int i = 0; i < load->n; i++)
        *is_vector |= element_is_vector(n, load->index[i]);
    for (int i = load->n - 1; i >= 0; i--) {
        Ssa v = *is_vector ? element_vector(n, load->index[i], vector, tile)
                           : element_value(n, load->index[i], vector, tile);
        const Lanes *l = *is_vector ? &n->many : &n->one;
        v = LLVMBuildMul(g->b, v, lanes_int(l, g->i64, stride), "");
        sum = sum ? LLVMBuildAdd(g->b, sum, v, "") : v;
        stride *= t.shape[i];
    }
    return sum ? sum : gen_int(g->i64, 0);
}

static Ssa load_vector(Nest *n, const Te *load, const LoadInfo *info, int vector, int tile)
{
    Gen *g = n->k->g;
    DType dtype = program_tensor(n->p, load->tensor).dtype;
    Ssa all, ok = inside(n, load, vector, tile, &all), v;
    if (all)
        ok = both(g, ok, bit_mask(n, all));
    Ssa mask = both(g, ok, element_mask(n, vector));
    int64_t stride = info->affine ? info->at.stride[n->s.vector_axis] : 0;
    bool scattered = true;
    if (info->affine && stride != 0) {
        v = load_lanes(n, dtype, place_of(n, load, info, vector, tile), stride, mask);
    } else {
        Ssa at = flat_index(n, load, vector, tile, &scattered);
        if (!scattered)
            at = lanes_splat(&n->many, at);
        Ssa places = step_by(n, load, n->k->base[load->tensor], at);
        v = masked(n, "llvm.masked.gather", LLVMVectorType(gen_stored(g, dtype), n->many.n), places,
                   LLVMVectorType(g->ptr, n->many.n), dtype_size(dtype), mask);
    }
    return guarded(n, load, gen_from_stored(g, dtype, v), true, ok, vector, tile);
}

static Ssa load_scalar(Nest *n, const Te *load, const LoadInfo *info, int vector, int tile)
{
    Gen *g = n->k->g;
    TeTensor t = program_tensor(n->p, load->tensor);
    if (t.rank == 0 && load->tensor < n->p->n_inputs)
        return n->k->base[load->tensor];
    Ssa ok, at, none = inside(n, load, vector, tile, &ok);
    (void)none;
    if (info->affine) {
        at = place_of(n, load, info, vector, tile);
    } else {
        bool is_vector;
        at = step_by(n, load, n->k->base[load->tensor],
                     flat_index(n, load, vector, tile, &is_vector));
    }
    if (ok)
        at = LLVMBuildSelect(g->b, ok, at, n->k->base[load->tensor], "");
    Ssa v = LLVMBuildLoad2(g->b, gen_stored(g, t.dtype), at, "");
    LLVMSetAlignment(v, (unsigned)dtype_size(t.dtype));
    return guarded(n, load, gen_from_stored(g, t.dtype, v), false, ok, vector, tile);
}

/* ---- expressions ------------------------------------------------------------------------------------------------------ */

static Ssa operand(Nest *n, const Te *e, bool is_vector, int vector, int tile)
{
    return is_vector ? element_vector(n, e, vector, tile) : element_value(n, e, vector, tile);
}

static Ssa compute(Nest *n, const Te *e, int vector, int tile)
{
    bool is_vector = element_is_vector(n, e);
    const Lanes *l = lanes_of(n, is_vector, vector);
    switch ((TeKind)e->kind) {
    case TE_NODE_CONST: return lanes_const(&n->one, e->value);
    case TE_NODE_AXIS: return axis_value(n, e->axis, vector, tile);
    case TE_NODE_LOAD: {
        const LoadInfo *info = ptrmap_find(&n->s.loads, e);
        return is_vector ? load_vector(n, e, info, vector, tile)
                         : load_scalar(n, e, info, vector, tile);
    }
    case TE_NODE_UNARY: {
        Ssa a = operand(n, e->a, is_vector, vector, tile);
        return lanes_unary(lanes_of(n, is_vector, vector), e->op, e->a->dtype, a);
    }
    case TE_NODE_BINARY: {
        Ssa a = operand(n, e->a, is_vector, vector, tile);
        Ssa b = operand(n, e->b, is_vector, vector, tile);
        return lanes_binary(lanes_of(n, is_vector, vector), e->op, e->a->dtype, a, b);
    }
    case TE_NODE_CAST:
        return lanes_cast(l, e->dtype, e->a->dtype, operand(n, e->a, is_vector, vector, tile));
    case TE_NODE_SELECT: {
        Ssa a = operand(n, e->a, is_vector, vector, tile);
        Ssa b = operand(n, e->b, is_vector, vector, tile);
        Ssa c = operand(n, e->c, is_vector, vector, tile);
        return LLVMBuildSelect(n->k->g->b, a, b, c, "");
    }
    }
    return NULL;
}

Ssa element_value(Nest *n, const Te *e, int vector, int tile)
{
    int copy = copy_of(n, e, vector, tile);
    Ssa v = find(n, e, copy);
    if (v)
        return v;
    v = compute(n, e, vector, tile);
    remember(n, e, copy, v);
    return v;
}

Ssa element_vector(Nest *n, const Te *e, int vector, int tile)
{
    Ssa v = element_value(n, e, vector, tile);
    return element_is_vector(n, e) ? v : lanes_splat(&n->many, v);
}

static void hoist_copies(Nest *n, const Te *e)
{
    int vectors = element_is_vector(n, e) ? n->vectors : 1;
    int tiles = depends(n, e, n->s.tile_axis) ? n->tiles : 1;
    for (int v = 0; v < vectors; v++)
        for (int t = 0; t < tiles; t++)
            element_value(n, e, v, t);
}

void element_hoist(Nest *n, const Te *e)
{
    if (!e || e->kind == TE_NODE_CONST)
        return;
    if (level_of(n, e) <= n->level) {
        if (e->kind != TE_NODE_AXIS)
            hoist_copies(n, e);
        return;
    }
    if (e->kind >= TE_NODE_UNARY) {
        element_hoist(n, e->a);
        element_hoist(n, e->b);
        element_hoist(n, e->c);
    }
    if (e->kind != TE_NODE_LOAD)
        return;
    element_hoist(n, e->otherwise);
    const LoadInfo *info = ptrmap_find(&n->s.loads, e);
    if (info->affine)
        place_at(n, e, info, n->level);
    for (int i = 0; i < e->n && !info->affine; i++)
        element_hoist(n, e->index[i]);
}
