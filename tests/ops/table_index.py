"""Entries of operators that choose elements: indexing, scattering, sorting, scans."""
import numpy as np

from peer import ALL, INTS, NUMBERS, Case, entry, is_float, np_dtype, to, wide
from table_elementwise import listed


# ---- indexing ----------------------------------------------------------------------------------------

def take_of(x, ids, axis, batch, mode):
    if axis is None:
        return np.take(x.reshape(-1), ids, mode=mode)
    axis %= x.ndim
    if not batch:
        return np.take(x, ids, axis, mode=mode)
    parts = [take_of(a, i, axis - 1, batch - 1, mode) for a, i in zip(x, ids)]
    return np.stack(parts)


@entry("take", ALL)
def take(g, name):
    for i, (shape, ids, axis, batch) in enumerate([((5,), (3,), 0, 0), ((5,), (), 0, 0), ((3, 4), (2, 2), 0, 0), ((3, 4), (2,), 1, 0), ((3, 4), (), -1, 0),
                                                   ((3, 4), (5,), None, 0), ((2, 3, 4), (2, 3), 1, 0), ((2, 3, 4), (2,), 1, 1), ((2, 3, 4), (2, 5), 1, 1),
                                                   ((2, 3, 4), (2, 3, 2), 2, 2), ((2, 3, 4), (0,), 1, 0), ((2, 3, 4), (2, 2, 2), -2, 0), ((6,), (40,), 0, 0)]):
        x, mode = g.array(shape), ["clip", "wrap"][i % 2]
        ids = g.ints(ids, -7, 9, ["int32", "int64", "int8", "int16"][i % 4])
        yield Case(f'take({{}}, {{}}, batch_dims={batch}, axis={axis}, mode="{mode}")', [x, ids], lambda: take_of(x, ids, axis, batch, mode))
    x, ids = g.array((4, 3)), g.ints((5,), 0, 4, "int32")
    yield Case('take({}, {}, axis=0, mode="fast")', [x, ids], lambda: np.take(x, ids, 0))
    ids = g.ints((5,), 0, 9, "uint8")
    yield Case("take({}, {}, axis=0)", [x, ids], lambda: np.take(x, ids, 0, mode="clip"))


def slice_part(d, b, e, s):
    if s > 0:
        b, e = (min(max(v + d if v < 0 else v, 0), d) for v in (b, e))
    else:
        b, e = (min(max(v + d if v < 0 else v, -1), d - 1) for v in (b, e))
    return np.array([k for k in range(b, e, s)], int)


def sliced(x, begin, end, strides, axes=None):
    axes = range(len(begin)) if axes is None else axes
    for k, a in enumerate(axes):
        s = strides[k] if k < len(strides) else 1
        x = np.take(x, slice_part(x.shape[a], begin[k], end[k], s), a)
    return x


SLICES = [((7,), [1], [5], [2]), ((7,), [-3], [7], [1]), ((7,), [5], [-7], [-2]), ((7,), [0], [100], [3]), ((3, 4), [1], [3], [1]),
          ((3, 4), [0, 1], [2, 4], [1, 2]), ((3, 4), [-1, -1], [-4, -5], [-1, -1]), ((2, 3, 4), [0, 0, 0], [2, 3, 4], [1, 1, 1]),
          ((2, 3, 4), [0, 2, 3], [2, -4, 0], [1, -1, -2]), ((0, 3), [0, 1], [0, 3], [1, 1]), ((2, 3, 4), [1, 0], [2, 2], [1, 1]),
          ((40, 33), [3, 5], [39, 31], [5, 4]), ((7,), [2], [2], [1])]


@entry("strided_slice", ALL)
def strided_slice(g, name):
    for shape, b, e, s in SLICES:
        x = g.array(shape)
        yield Case(f"strided_slice({{}}, begin={b}, end={e}, strides={s}, axes=None)", [x], lambda: sliced(x, b, e, s))
    for shape, b, e, s, axes in [((2, 3, 4), [1], [3], [1], [2]), ((2, 3, 4), [2, 0], [0, 4], [-1, 3], [1, -1])]:
        x = g.array(shape)
        yield Case(f"strided_slice({{}}, begin={b}, end={e}, strides={s}, axes={axes})", [x], lambda: sliced(x, b, e, s, axes))
    for shape, b, n in [((7,), [1], [3]), ((3, 4), [0, 1], [2, -1]), ((2, 3, 4), [1, 0, 2], [1, 3, 2])]:
        x = g.array(shape)
        end = [shape[i] if k < 0 else v + k for i, (v, k) in enumerate(zip(b, n))]
        yield Case(f'strided_slice({{}}, begin={b}, end={n}, strides=[1], slice_mode="size", axes=None)', [x],
                   lambda: sliced(x, b, end, [1] * len(b)))


@entry("dyn.strided_slice", ALL)
def dyn_strided_slice(g, name):
    for shape, b, e, s in SLICES:
        x = g.array(shape)
        yield Case("dyn.strided_slice({}, {}, {}, {}, begin=None, end=None, strides=None, axes=None)",
                   [x] + [np.array(v, "int64") for v in (b, e, s)], lambda: sliced(x, b, e, s))


@entry("strided_set", ALL)
def strided_set(g, name):
    for shape, b, e, s in SLICES[:3] + SLICES[4:9] + SLICES[10:12] + [((6, 2), [1, 0], [5, 2], [2, 1]), ((5,), [0], [1], [1])]:
        x = g.array(shape)
        parts = [slice_part(d, *v) for d, v in zip(shape, zip(b, e, s))]
        parts += [np.arange(d) for d in shape[len(parts):]]
        v = g.array(tuple(len(p) for p in parts))

        def want():
            y = x.copy()
            y[np.ix_(*parts)] = v
            return y
        yield Case("strided_set({}, {}, {}, {}, {})", [x, v] + [np.array(k, "int32") for k in (b, e, s)], want)


@entry("slice_like", ALL)
def slice_like(g, name):
    for a, b, axes in [((3,), (2,), None), ((3, 4), (2, 2), None), ((3, 4), (2,), None), ((3, 4), (2, 4), [0]), ((3, 4), (9, 2), [1]), ((3, 4), (9, 2), [-1]),
                       ((2, 3, 4), (1, 2, 3), None), ((2, 3, 4), (1, 2, 3), [0, 2]), ((2, 3, 4), (1, 1), None), ((3,), (3,), None), ((3, 4), (0, 2), None),
                       ((2, 3, 4), (2, 1, 4), [1])]:
        x, y = g.array(a), g.array(b)
        on = range(min(len(a), len(b))) if axes is None else [k % len(a) for k in axes]
        yield Case(f"slice_like({{}}, {{}}, axes={axes})", [x, y],
                   lambda: x[tuple(slice(b[k]) if k in on else slice(None) for k in range(len(a)))])


@entry("gather", ALL)
def gather(g, name):
    for i, (shape, n, axis) in enumerate([((5,), 3, 0), ((3, 4), 2, 0), ((3, 4), 6, 1), ((3, 4), 1, -1), ((2, 3, 4), 2, 0), ((2, 3, 4), 2, 1), ((2, 3, 4), 5, 2),
                                          ((2, 3, 4), 4, -2), ((3, 4), 0, 1), ((1,), 1, 0), ((2, 2, 2, 2), 3, 3), ((40, 3), 40, 0)]):
        x, k = g.array(shape), axis % len(shape)
        ids = g.ints(shape[:k] + (n,) + shape[k + 1:], 0 if i % 2 else -shape[k], shape[k], ["int32", "int64"][i % 2])
        yield Case(f"gather({{}}, {{}}, axis={axis})", [x, ids], lambda: np.take_along_axis(x, ids.astype("int64") % shape[k], k))


def gather_nd_of(x, ids, batch):
    if batch:
        return np.stack([gather_nd_of(a, i, batch - 1) for a, i in zip(x, np.moveaxis(ids, 1, 0))])
    return x[tuple(ids)]


@entry("gather_nd", ALL)
def gather_nd(g, name):
    for i, (shape, m, y, batch) in enumerate([((5,), 1, (3,), 0), ((3, 4), 1, (2,), 0), ((3, 4), 2, (2,), 0), ((3, 4), 2, (2, 3), 0), ((2, 3, 4), 1, (2,), 0),
                                              ((2, 3, 4), 2, (5,), 0), ((2, 3, 4), 3, (2, 2), 0), ((2, 3, 4), 1, (2,), 1), ((2, 3, 4), 2, (2, 3), 1),
                                              ((2, 3, 4), 1, (2, 3), 2), ((3, 4), 2, (), 0), ((3, 4), 1, (0,), 0), ((7,), 1, (4, 5), 0)]):
        x = g.array(shape)
        ids = np.stack([g.ints(y, 0, shape[batch + k], ["int32", "int64"][i % 2]) for k in range(m)])
        yield Case(f"gather_nd({{}}, {{}}, batch_dims={batch})", [x, ids], lambda: np.asarray(gather_nd_of(x, ids, batch)))


REDUCTIONS = {"update": lambda a, b: b, "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "min": lambda a, b: b if b < a else a,
              "max": lambda a, b: b if b > a else a}


def put(y, at, v, mode):
    with np.errstate(all="ignore"):
        if y.dtype == bool and mode in ("add", "mul"):
            y[at] = y[at] or v if mode == "add" else y[at] and v
        elif mode == "mean":
            put(y, at, v, "add")
            if y.dtype.kind in "iu":
                y[at] = int(int(y[at]) / 2)
            elif y.dtype != bool:
                y[at] = to(y.dtype, wide(np.array([y[at]], y.dtype)) / 2)[0]
        elif mode == "add" or mode == "mul":
            a = np.array([y[at], v], y.dtype)
            y[at] = to(y.dtype, np.add.reduce(wide(a), dtype=wide(a).dtype) if mode == "add" else np.multiply.reduce(wide(a), dtype=wide(a).dtype))
        else:
            y[at] = REDUCTIONS[mode](y[at], v)


SCATTERS = [((5,), 3, 0), ((3, 4), 2, 0), ((3, 4), 6, 1), ((3, 4), 1, -1), ((2, 3, 4), 2, 0), ((2, 3, 4), 5, 1), ((2, 3, 4), 5, 2), ((2, 3, 4), 4, -2),
            ((3, 4), 0, 1), ((1,), 4, 0), ((2, 2, 2, 2), 3, 3), ((10, 3), 10, 0)]


def scatters(g):
    for i, (shape, n, axis) in enumerate(SCATTERS):
        k = axis % len(shape)
        part = shape[:k] + (n,) + shape[k + 1:]
        if i in (4, 6):
            part = tuple(1 if j != k else d for j, d in enumerate(part))
        ids = g.ints(part, -shape[k] if i % 3 == 0 else 0, shape[k], ["int32", "int64"][i % 2])
        yield i, axis, k, g.small(shape, -3, 4), ids, g.small(part, -3, 4)


def scattered(x, ids, updates, k, mode):
    y = x.copy()
    for at in np.ndindex(*ids.shape):
        put(y, at[:k] + (int(ids[at]),) + at[k + 1:], updates[at], mode)
    return y


@entry("scatter_elements", ALL, ulp=2)
def scatter_elements(g, name):
    for i, axis, k, x, ids, updates in scatters(g):
        for mode in (["update", "add", "mul", "min", "max"][i % 5], "mean"):
            yield Case(f'scatter_elements({{}}, {{}}, {{}}, axis={axis}, reduction="{mode}")', [x, ids, updates],
                       lambda: scattered(x, ids, updates, k, mode))


@entry("scatter scatter_add", ALL)
def scatter(g, name):
    for i, axis, k, x, ids, updates in scatters(g):
        yield Case(f"{name}({{}}, {{}}, {{}}, axis={axis})", [x, ids, updates],
                   lambda: scattered(x, ids, updates, k, "update" if name == "scatter" else "add"))


@entry("scatter_nd", ALL)
def scatter_nd(g, name):
    for i, (shape, m, y) in enumerate([((5,), 1, (3,)), ((3, 4), 1, (2,)), ((3, 4), 2, (2,)), ((3, 4), 2, (2, 3)), ((2, 3, 4), 1, (2,)), ((2, 3, 4), 2, (5,)),
                                       ((2, 3, 4), 3, (2, 2)), ((3, 4), 1, (5,)), ((3, 4), 2, ()), ((3, 4), 1, (0,)), ((7,), 1, (4, 5)), ((2, 2, 2, 2), 2, (3,))]):
        x, mode = g.small(shape, -3, 4), ["update", "add", "mul", "min", "max"][i % 5]
        ids = np.stack([g.ints(y, 0, shape[k], ["int32", "int64"][i % 2]) for k in range(m)])
        updates = g.small(y + shape[m:], -3, 4)

        def want():
            out = x.copy()
            for at in np.ndindex(*y):
                for rest in np.ndindex(*shape[m:]):
                    put(out, tuple(int(ids[(k,) + at]) for k in range(m)) + rest, updates[at + rest], mode)
            return out
        yield Case(f'scatter_nd({{}}, {{}}, {{}}, mode="{mode}")', [x, ids, updates], want)


@entry("argwhere", ALL)
def argwhere(g, name):
    for shape in [(1,), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 17, 1), (2, 0), (33,), (4, 1, 3, 2), (130,), (6, 6), (2, 2)]:
        x = g.small(shape, -1, 2)
        yield Case("argwhere({})", [x], lambda: np.argwhere(x).astype("int32"))


@entry("adv_index", ALL)
def adv_index(g, name):
    for i, (shape, ids) in enumerate([((5,), [(3,)]), ((3, 4), [(2,)]), ((3, 4), [(2,), (2,)]), ((3, 4), [(2, 1), (3,)]), ((2, 3, 4), [(2,), (2,)]), ((2, 3, 4), [(5,)]),
                                      ((2, 3, 4), [(2, 2), (2, 2), (2, 2)]), ((2, 3, 4), [(2, 1), (1, 3)]), ((5,), [(2, 3, 2)]), ((3, 4), [(1,), (6,)]), ((5,), [(0,)]),
                                      ((2, 2, 2, 2), [(3,), (3,)])]):
        x = g.array(shape)
        at = [g.ints(s, 0, shape[k], "int64" if i % 2 else "int32") for k, s in enumerate(ids)]
        yield Case(f"adv_index(({', '.join(['{}'] * (1 + len(at)))}))", [x] + at, lambda: x[tuple(at)])


@entry("unravel_index", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def unravel_index(g, name):
    for shape, n in [((4,), (3,)), ((2, 3), (4,)), ((2, 3, 4), (7,)), ((2, 3), ()), ((5, 1), (2,)), ((1,), (1,)), ((3, 3), (9,)), ((2, 2, 2, 2), (5,)),
                     ((7,), (0,)), ((10, 10), (30,)), ((2, 50), (3,)), ((3, 2, 1), (6,))]:
        ids = g.ints(n, 0, int(np.prod(shape)), g.dtype if g.dtype in INTS else "int32").astype(np_dtype(g.dtype))
        yield Case("unravel_index({}, {})", [ids, np.array(shape, np_dtype(g.dtype))],
                   lambda: np.stack(np.unravel_index(ids.astype("int64"), shape)).astype(ids.dtype))
    if g.dtype == "uint64":
        far, wide = np.array([2**63 + 5, 2**64 - 1], "uint64"), np.uint64(2**32)
        yield Case("unravel_index({}, {})", [far, np.array([wide, wide])], lambda: np.stack([far // wide, far % wide]))
        yield Case("unravel_index({}, {})", [far, np.array([2**64 - 1], "uint64")], lambda: np.array([[2**63 + 5, 0]], "uint64"))


@entry("invert_permutation", INTS)
def invert_permutation(g, name):
    for n in [1, 2, 3, 4, 5, 7, 8, 16, 33, 64, 100, 127]:
        p = g.rng.permutation(n).astype(np_dtype(g.dtype))
        yield Case("invert_permutation({})", [p], lambda: np.argsort(p.astype("int64")).astype(p.dtype))


@entry("sequence_mask", ALL)
def sequence_mask(g, name):
    for i, shape in enumerate([(4, 3), (3, 4), (1, 1), (5, 2, 3), (2, 5, 3), (6, 1), (1, 6), (2, 2, 2, 2), (3, 0), (7, 2), (2, 7), (4, 4)]):
        x, axis, value = g.array(shape), i % 2, [0, 1, 3][i % 3]
        n = g.ints((shape[1 - axis],), 0, shape[axis] + 1, ["int32", "int64", "int16"][i % 3])
        steps = np.arange(shape[axis])
        keep = steps[:, None] < n[None, :] if axis == 0 else steps[None, :] < n[:, None]
        yield Case(f"sequence_mask({{}}, {{}}, mask_value={value}f, axis={axis})", [x, n],
                   lambda: np.where(keep.reshape(keep.shape + (1,) * (x.ndim - 2)), x, to(g.dtype, np.float64(value))))


@entry("sparse_to_dense", ALL)
def sparse_to_dense(g, name):
    for shape, n in [((5,), None), ((5,), 3), ((3, 4), 1), ((3, 4), 5), ((2, 3, 4), 6), ((1,), 1), ((9,), 9), ((2, 2), 4), ((6,), 2), ((4, 1), 2), ((2, 2, 2, 2), 5), ((33,), 20)]:
        at = np.unravel_index(g.rng.permutation(int(np.prod(shape)))[:n or 1], shape)
        ids = np.stack(at, 1).astype("int32")
        ids = ids[0, 0] if n is None else ids[:, 0] if len(shape) == 1 else ids
        v, d = g.array(() if n is None else (n,)), g.array(())

        def want():
            y = np.full(shape, d)
            y[at] = v
            return y
        yield Case(f"sparse_to_dense({{}}, {{}}, {{}}, output_shape={listed(shape)})", [np.asarray(ids), v, d], want)


@entry("dyn.sparse_to_dense", ALL)
def dyn_sparse_to_dense(g, name):
    for c in sparse_to_dense(g, name):
        shape = c.text.split("output_shape=")[1][:-1]
        arrays = c.arrays + [np.array([int(v) for v in shape[1:-1].split(",")], "int64")]
        yield Case("dyn.sparse_to_dense({}, {}, {}, {}, output_shape=[])", arrays, c.want)


@entry("matrix_set_diag", ALL)
def matrix_set_diag(g, name):
    for i, (shape, k1, k2, right_up, right_down) in enumerate([((3, 3), 0, 0, True, False), ((3, 4), 0, 0, True, False), ((4, 3), 1, 1, True, False), ((3, 4), -1, -1, True, False),
                                                               ((2, 3, 3), 0, 0, True, False), ((3, 3), -1, 1, True, False), ((3, 4), 0, 2, True, False), ((4, 4), -2, 1, False, False),
                                                               ((4, 5), -2, 0, True, True), ((2, 4, 4), -1, 2, False, True), ((5, 3), -3, 1, True, False), ((1, 1), 0, 0, True, False)]):
        x, rows, cols = g.array(shape), shape[-2], shape[-1]
        longest = min(rows + min(k2, 0), cols - max(k1, 0))
        d = g.array(shape[:-2] + ((k2 - k1 + 1, longest) if k1 != k2 else (longest,)))

        def want():
            y = x.copy()
            dd = d if k1 != k2 else d[..., None, :]
            for k in range(k1, k2 + 1):
                n = min(rows + min(k, 0), cols - max(k, 0))
                # Shorter diagonals lie on the left or on the right of their row.
                off = longest - n if (right_up if k >= 0 else right_down) else 0
                for j in range(n):
                    y[..., j - min(k, 0), j + max(k, 0)] = dd[..., k2 - k, j + off]
            return y
        yield Case(f"matrix_set_diag({{}}, {{}}, k1={k1}, k2={k2}, super_diag_right_align={right_up}, sub_diag_right_align={right_down})",
                   [x, d], want)


# ---- sorting ---------------------------------------------------------------------------------------------

SORTS = [((1,), 0), ((7,), 0), ((7,), -1), ((3, 5), 0), ((3, 5), 1), ((3, 5), -1), ((2, 3, 4), 1), ((2, 3, 4), -3), ((0, 3), 1), ((3, 0), 1), ((2, 40), 1), ((130,), 0)]


def argsorted(x, axis, ascending):
    # Stable in both directions: ranks of equal elements keep their order.
    v = x.astype("float64") if is_float(x.dtype) else x.astype(object) + 0
    return np.argsort(v if ascending else -v, axis, kind="stable")


LONG_SORTS = [((37, 8), 1), ((3, 9, 19), 1), ((35, 16), 1), ((33, 17), 1), ((3, 300), 1), ((300, 2), 0), ((1000,), 0),
              ((21, 40), 1), ((40, 21), 0), ((17, 270), 1), ((2, 33, 18), 1), ((3000,), 0)]


def with_ties(g, shape):
    """Long rows have elements of the full range too."""
    small = g.small(shape, -4, 5)
    return np.where(g.rng.random(shape) < 0.5, g.array(shape), small) if small.size > 150 else small


@entry("sort argsort", ALL)
def sorting(g, name):
    for i, (shape, axis) in enumerate(SORTS + LONG_SORTS + SORTS + LONG_SORTS):
        x, up = with_ties(g, shape), i < len(SORTS + LONG_SORTS)
        t = ["int32", "int64", "float32", "int16"][i % 4]
        if name == "sort":
            yield Case(f"sort({{}}, axis={axis}, is_ascend={up})", [x], lambda: np.take_along_axis(x, argsorted(x, axis, up), axis))
        else:
            yield Case(f'argsort({{}}, axis={axis}, is_ascend={up}, dtype="{t}")', [x], lambda: argsorted(x, axis, up).astype(t))


def topk_of(x, k, axis, up, kind, t):
    at = argsorted(x, axis, up)
    at = np.take(at, range(k if k >= 1 else x.shape[axis]), axis)
    values, indices = np.take_along_axis(x, at, axis), at.astype(t)
    return {"both": (values, indices), "values": values, "indices": indices}[kind]


TOPK = [((7,), 3, 0), ((7,), 7, -1), ((7,), 0, 0), ((3, 5), 2, 0), ((3, 5), 2, 1), ((3, 5), 1, -1), ((2, 3, 4), 2, 1), ((2, 3, 4), 1, -3), ((2, 40), 11, 1), ((130,), 100, 0),
        ((1,), 1, 0), ((4, 4), 3, -2), ((1000,), 5, 0), ((3, 200), 32, 1), ((200, 3), 1, 0), ((400,), 33, 0), ((2, 130), 7, 1), ((3, 150), 9, 1), ((999,), 32, 0),
        ((37, 8), 8, 1), ((37, 9), 5, 1), ((16, 19), 16, 0), ((40, 37), 3, 0), ((2, 50, 21), 8, 1), ((70, 17), 1, 0), ((2, 33, 3), 5, 1), ((50, 18), 9, 0), ((35, 33), 4, 1),
        ((19, 70), 5, 1), ((70, 19), 6, 0), ((17, 300), 30, 1), ((600,), 300, 0)]


@entry("topk", ALL)
def topk(g, name):
    for i, (shape, k, axis) in enumerate(TOPK):
        x, up, kind, t = with_ties(g, shape), i % 3 == 0, ["both", "values", "indices"][i % 3 if i % 2 else 0], ["int32", "int64"][i % 2]
        yield Case(f'topk({{}}, k={k}, axis={axis}, ret_type="{kind}", is_ascend={up}, dtype="{t}")', [x], lambda: topk_of(x, k, axis, up, kind, t))
    for up in (True, False):
        x = with_ties(g, (4, 200))
        if is_float(x.dtype):
            x[g.rng.random(x.shape) < [[0.1], [0.5], [0.95], [1]]] = np.nan
        yield Case(f'topk({{}}, k=12, axis=1, ret_type="indices", is_ascend={up}, dtype="int32")', [x], lambda: topk_of(x, 12, 1, up, "indices", "int32"))
        y = np.ascontiguousarray(x.T)
        yield Case(f'topk({{}}, k=7, axis=0, ret_type="indices", is_ascend={up}, dtype="int32")', [y], lambda: topk_of(y, 7, 0, up, "indices", "int32"))


@entry("dyn.topk", ALL)
def dyn_topk(g, name):
    for i, (shape, k, axis) in enumerate(TOPK):
        x, up, kind, t = with_ties(g, shape), i % 3 == 0, ["both", "values", "indices"][i % 3 if i % 2 else 0], ["int32", "int64"][i % 2]
        yield Case(f'dyn.topk({{}}, {{}}, k=None, axis={axis}, ret_type="{kind}", is_ascend={up}, dtype="{t}")',
                   [x, np.array(k, "int64")], lambda: topk_of(x, k, axis, up, kind, t))


@entry("searchsorted", ALL)
def searchsorted(g, name):
    for i, (shape, values) in enumerate([((5,), (3,)), ((5,), ()), ((5,), (2, 3)), ((1,), (4,)), ((33,), (40,)), ((2, 5), (2, 3)), ((2, 5), (2, 1)), ((2, 3, 4), (2, 3, 5)), ((8,), (8,)),
                                         ((3, 1), (3, 2)), ((100,), (7,)), ((2, 2, 2), (2, 2, 2))]):
        s, v = np.sort(with_ties(g, shape), -1), with_ties(g, values)
        right, t = i % 2 == 1, ["int32", "int64"][i % 3 == 0]

        def want():
            side = "right" if right else "left"
            if s.ndim == 1:
                return np.asarray(np.searchsorted(wide(s), wide(v), side)).astype(t)
            return np.stack([np.searchsorted(a, b, side) for a, b in zip(wide(s).reshape(-1, shape[-1]), wide(v).reshape(-1, values[-1]))]
                            ).reshape(values).astype(t)
        yield Case(f'searchsorted({{}}, {{}}, right={right}, dtype="{t}")', [s, v], want)


@entry("unique", ALL)
def unique(g, name):
    """What lies behind the number of unique elements is undefined: only the numbers and the elements' places are compared."""
    for i, n in enumerate([1, 2, 3, 5, 7, 8, 16, 33, 64, 100, 130, 200]):
        x, counts, ordered = with_ties(g, (n,)), i % 2 == 0, i % 3 != 0

        def want():
            values, first, inverse, count = np.unique(wide(x), return_index=True, return_inverse=True, return_counts=True)
            if not ordered:
                rank = np.argsort(np.argsort(first))
                inverse, count = rank[inverse], count[np.argsort(first)]
            out = (None, None, inverse.astype("int32"), np.array([len(values)], "int32"))
            return out + ((None,) if counts else ())
        yield Case(f"unique({{}}, sorted={ordered}, return_counts={counts})", [x], want)


# ---- scans ------------------------------------------------------------------------------------------

# Blocks that are scanned side by side: rows of one element, of fewer than a vector has, of as many and some more.
BLOCKS = [((19, 8), 1), ((11, 3), 1), ((17, 1), 1), ((3, 6, 2), 1), ((3, 6, 7), 1), ((3, 6, 4), 1), ((3, 6, 18), 1), ((2, 5, 37), 1), ((3, 0, 9), 1),
          ((8, 70), -1), ((2, 5, 67), 1), ((9, 131), 0)]


@entry("cumsum cumprod", ALL, ulp=(24, 12, 12))
def scans(g, name):
    f = np.cumsum if name == "cumsum" else np.cumprod
    for i, (shape, axis) in enumerate([((7,), 0), ((7,), None), ((3, 5), 0), ((3, 5), 1), ((3, 5), -1), ((3, 5), None), ((2, 3, 4), 1), ((2, 3, 4), -1), ((0, 3), 1), ((1, 17), 1),
                                       ((33,), 0), ((2, 0), 1), ((), None)] + BLOCKS + BLOCKS[2:]):
        exclusive = i % 3 == 2
        t = ["int32", "float32", "float64"][i % 3] if i % 4 == 3 else g.dtype
        # Products of large numbers are infinite in one order of folding, and not in another.
        x = g.array(shape, 0.5, 1.5) if g.float or not is_float(t) else g.small(shape, 0, 50)

        def want():
            # Each element becomes the result's type first.
            y = to(t, x)
            y = wide(y) if is_float(t) else y
            flat = y.reshape(-1) if axis is None else y
            kind = flat.dtype if t != "bool" else np.dtype("int64")
            z = np.asarray(f(flat, axis=axis if axis is not None else 0, dtype=kind))
            if exclusive and z.size:
                first = np.full_like(np.take(z, [0], axis or 0), name == "cumprod")
                z = np.concatenate([first, np.take(z, range(z.shape[axis or 0] - 1), axis or 0)], axis or 0)
            return to(t, z)
        text = f', dtype="{t}"' if t != g.dtype else ""
        with np.errstate(all="ignore"):
            yield Case(f"{name}({{}}, axis={axis}{text}, exclusive={exclusive})", [x], want, scale=1)
