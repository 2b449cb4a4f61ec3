"""Entries of operators that move elements: shapes, layouts, blocks, padding."""
import numpy as np

from peer import ALL, SHAPES, Case, entry, np_dtype, to, wide
from table_elementwise import ONE_HOT, listed, one_hot_of, wrapped


def reshape_codes(shape, codes, allowzero=False):
    """The shape that Relay's codes make of a shape."""
    out, i, k, infer = [], 0, 0, None
    total = int(np.prod(shape, dtype="int64"))
    while k < len(codes):
        c = codes[k]
        k += 1
        if c > 0 or (c == 0 and allowzero):
            out.append(c)
            i += 1
        elif c == 0:
            out.append(shape[i])
            i += 1
        elif c == -1:
            infer = len(out)
            out.append(1)
            i += 1
        elif c == -2:
            out += shape[i:]
            i = len(shape)
        elif c == -3:
            out.append(shape[i] * shape[i + 1])
            i += 2
        else:
            a, b = codes[k:k + 2]
            k += 2
            a, b = (shape[i] // b if a == -1 else a), (shape[i] // a if b == -1 else b)
            out += [a, b]
            i += 1
    if infer is not None:
        out[infer] = total // max(1, int(np.prod(out, dtype="int64")))
    return out


RESHAPES = [((2, 3, 4), [4, 0, 2]), ((2, 3, 4), [-2]), ((2, 3, 4), [2, -2]), ((2, 3, 4), [-2, 1, 1]),
            ((2, 3, 4), [-3, 4]), ((2, 3, 4), [-4, 1, 2, -2]), ((2, 3, 4), [2, -4, -1, 3, -2]), ((2, 3, 4), [-1]),
            ((), [1, 1]), ((1,), []), ((0, 3), [3, 0]), ((24,), [2, -1, 4]), ((2, 3, 4), [0, -3]), ((2, 3, 4), [0, -1]),
            ((5, 6), [-4, 5, -1, 0])]


@entry("reshape", ALL)
def reshape(g, name):
    for shape, codes in RESHAPES:
        x, zero = g.array(shape), 0 in shape
        yield Case(f"reshape({{}}, newshape={codes}, allowzero={zero})", [x],
                   lambda: x.reshape(reshape_codes(shape, codes, zero)))


@entry("dyn.reshape", ALL)
def dyn_reshape(g, name):
    for shape, codes in RESHAPES + [((6,), [-1]), ((6,), [0]), ((2, 3, 4), [0, 0, 0]), ((2, 3, 4), [0, -1, 2]), ((2, 3), [3, -1])]:
        x, zero = g.array(shape), 0 in shape
        if len(reshape_codes(shape, codes, zero)) != len(codes):
            continue  # its type has as many axes as there are codes
        yield Case(f"dyn.reshape({{}}, {{}}, newshape=[], allowzero={zero})", [x, np.array(codes, "int64")],
                   lambda: x.reshape(reshape_codes(shape, codes, zero)))


@entry("vm.reshape_tensor", ALL)
def reshape_tensor(g, name):
    for shape, codes in RESHAPES:
        x, want = g.array(shape), reshape_codes(shape, codes, 0 in shape)
        yield Case(f"vm.reshape_tensor({{}}, {{}}, newshape={want})", [x, np.array(want, "int64")], lambda: x.reshape(want))


@entry("contrib_reverse_reshape", ALL)
def reverse_reshape(g, name):
    for shape, codes, want in [((10, 5, 4), [-1, 0], (50, 4)), ((2, 3, 4), [0, -3], (2, 12)), ((2, 3, 4), [4, -1], (4, 6)),
                               ((2, 3, 4), [-2], (2, 3, 4)), ((2, 3, 4), [-1], (24,)), ((2, 3, 4), [-1, 0, 0], (2, 3, 4)),
                               ((2, 3, 4), [-3, 0], (6, 4)), ((24,), [2, 3, 4], (2, 3, 4)), ((6, 4), [-1, 4], (6, 4)),
                               ((1, 1), [1], (1,)), ((5, 6), [-1], (30,)), ((8, 3), [-1, 2, 0], (4, 2, 3))]:
        x = g.array(shape)
        yield Case(f"contrib_reverse_reshape({{}}, newshape={codes})", [x], lambda: x.reshape(want))


@entry("reshape_like", ALL)
def reshape_like(g, name):
    for a, b, args in [((2, 3), (6,), ""), ((6,), (3, 2), ""), ((), (1, 1), ""), ((0, 2), (2, 0, 3), ""), ((4, 4), (2, 8), ""),
                       ((12,), (2, 2, 3), ""), ((2, 3, 4), (4, 6), ""), ((1,), (1,), ""), ((30, 7), (30, 2, 3, 5), "lhs_end=1, rhs_end=1"),
                       ((2, 6), (9, 2, 3), "lhs_begin=1, rhs_begin=1"), ((4, 6, 5), (7, 2, 3, 9), "lhs_begin=1, lhs_end=2, rhs_begin=1, rhs_end=3"),
                       ((8, 5), (2, 4), "lhs_end=-1"), ((3, 8), (4, 2), "lhs_begin=-1")]:
        at = dict(p.split("=") for p in args.split(", ") if p)
        lb, rb = int(at.get("lhs_begin", 0)) % max(1, len(a)), int(at.get("rhs_begin", 0))
        le, re = int(at.get("lhs_end", len(a))), int(at.get("rhs_end", len(b)))
        le = le + len(a) if le < 0 else le
        x, y = g.array(a), g.array(b, dtype="float32")
        yield Case("reshape_like({}, {}" + (f", {args}" if args else "") + ")", [x, y],
                   lambda: x.reshape(a[:lb] + b[rb:re] + a[le:]))


EXPANDS = [((), 0, 1), ((), -1, 2), ((3,), 0, 1), ((3,), 1, 1), ((3,), -1, 3), ((3,), -2, 1), ((2, 3), 1, 2), ((2, 3), 2, 1),
           ((2, 3), -3, 1), ((0, 3), 1, 1), ((2, 3, 4), -2, 2), ((2, 3), 1, 0)]


@entry("expand_dims", ALL)
def expand_dims(g, name):
    for shape, axis, n in EXPANDS:
        x = g.array(shape)
        at = axis if axis >= 0 else axis + len(shape) + 1
        yield Case(f"expand_dims({{}}, axis={axis}, num_newaxis={n})", [x],
                   lambda: x.reshape(shape[:at] + (1,) * n + shape[at:]))


@entry("dyn.expand_dims", ALL)
def dyn_expand_dims(g, name):
    for shape, axis, n in EXPANDS:
        x = g.array(shape)
        at = axis if axis >= 0 else axis + len(shape) + 1
        yield Case(f"dyn.expand_dims({{}}, {{}}, num_newaxis={n})", [x, np.array(axis, "int64")],
                   lambda: x.reshape(shape[:at] + (1,) * n + shape[at:]))


SQUEEZES = [((1, 3, 1), None), ((1, 3, 1), [0]), ((1, 3, 1), [2]), ((1, 3, 1), [-1]), ((1, 3, 1), [0, 2]), ((1, 3, 1), [-3, -1]),
            ((1,), None), ((1, 1), [1]), ((2, 3), None), ((0, 1), [1]), ((), None), ((1, 2, 1, 3), [2]), ((1, 2, 1, 3), [])]


@entry("squeeze", ALL)
def squeeze(g, name):
    for shape, axes in SQUEEZES:
        x = g.array(shape)
        yield Case(f"squeeze({{}}, axis={axes})", [x], lambda: np.squeeze(x, None if axes is None else tuple(axes)))


@entry("dyn.squeeze", ALL)
def dyn_squeeze(g, name):
    for shape, axes in SQUEEZES + [((1, 5), [0]), ((4, 1), [1]), ((1, 1, 1), [0, 1])]:
        if axes is None:
            continue
        x = g.array(shape)
        yield Case("dyn.squeeze({}, {})", [x, np.array(axes, "int64")], lambda: np.squeeze(x, tuple(axes)))


@entry("nn.batch_flatten", ALL)
def batch_flatten(g, name):
    for shape in [(1,), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 17, 1), (2, 0), (4, 1, 3, 2), (2, 1, 1, 1, 3), (5, 2), (6, 1), (3, 3, 3)]:
        x = g.array(shape)
        yield Case("nn.batch_flatten({})", [x], lambda: x.reshape(shape[0], int(np.prod(shape[1:]))))


BROADCASTS = [((), (3,)), ((), ()), ((1,), (4,)), ((3,), (2, 3)), ((2, 1), (2, 5)), ((1, 1), (0, 3)), ((2, 3), (4, 2, 3)),
              ((3, 1), (2, 3, 4)), ((5,), (5,)), ((1, 3, 1), (2, 3, 4)), ((1,), (2, 2, 2, 2)), ((0, 1), (0, 7))]


@entry("broadcast_to", ALL)
def broadcast_to(g, name):
    for a, b in BROADCASTS:
        x = g.array(a)
        yield Case(f"broadcast_to({{}}, shape={listed(b)})", [x], lambda: np.broadcast_to(x, b))


@entry("dyn.broadcast_to", ALL)
def dyn_broadcast_to(g, name):
    for a, b in BROADCASTS + [((7, 1), (7, 3))]:
        if b:
            x = g.array(a)
            yield Case("dyn.broadcast_to({}, {}, shape=None)", [x, np.array(b, "int64")], lambda: np.broadcast_to(x, b))


@entry("broadcast_to_like", ALL)
def broadcast_to_like(g, name):
    for a, b in BROADCASTS:
        x, y = g.array(a), g.array(b)
        yield Case("broadcast_to_like({}, {})", [x, y], lambda: np.broadcast_to(x, b))


def collapsed(x, shape):
    y = wide(x).astype(object) if x.dtype.kind in "iu" else wide(x)
    y = y.sum(axis=tuple(range(x.ndim - len(shape))))
    y = np.asarray(y).sum(axis=tuple(i for i, d in enumerate(shape) if d == 1 and np.asarray(y).shape[i] != 1), keepdims=True)
    if x.dtype == bool:
        return np.asarray(y != 0).reshape(shape)
    return wrapped(x.dtype, np.asarray(y)).reshape(shape) if x.dtype.kind in "iu" else to(x.dtype, y)


@entry("collapse_sum_like", ALL, ulp=(12, 12, 12))
def collapse_sum_like(g, name):
    for b, a in BROADCASTS:
        x, y = g.array(a), g.array(b)
        yield Case("collapse_sum_like({}, {})", [x, y], lambda: collapsed(x, b), scale=8)


@entry("collapse_sum_to", ALL, ulp=(12, 12, 12))
def collapse_sum_to(g, name):
    for b, a in BROADCASTS:
        x = g.array(a)
        yield Case(f"collapse_sum_to({{}}, {{}}, shape={listed(b)})", [x, np.array(b, "int32").reshape(len(b))],
                   lambda: collapsed(x, b), scale=8)


@entry("transpose", ALL)
def transpose(g, name):
    for shape, axes in [((), None), ((4,), [0]), ((3, 5), None), ((3, 5), [0, 1]), ((3, 5), [-1, 0]), ((2, 3, 4), [2, 0, 1]),
                        ((2, 3, 4), [0, 2, 1]), ((2, 3, 4), None), ((0, 3), [1, 0]), ((2, 1, 4, 3), [0, 2, 3, 1]),
                        ((2, 1, 4, 3), [3, 1, 0, 2]), ((33, 40), None), ((2, 1, 2, 1, 3), [4, 3, 2, 1, 0])]:
        x = g.array(shape)
        yield Case(f"transpose({{}}, axes={axes})", [x], lambda: x.transpose(axes))


JOINS = [((3,), (4,), 0), ((2, 3), (4, 3), 0), ((2, 3), (2, 1), 1), ((2, 3), (2, 5), -1), ((2, 3, 4), (2, 1, 4), 1), ((0, 3), (2, 3), 0),
         ((2, 3, 4), (2, 3, 2), -1), ((2, 3, 4), (5, 3, 4), -3), ((1,), (1,), 0), ((40, 3), (1, 3), 0), ((2, 0), (2, 3), 1),
         ((1, 2, 3, 4), (1, 2, 3, 1), 3)]


@entry("concatenate", ALL)
def concatenate(g, name):
    for i, (a, b, axis) in enumerate(JOINS):
        x = [g.array(a), g.array(b)] + [g.array(a) for _ in range(i % 3)]
        yield Case(f"concatenate(({', '.join(['{}'] * len(x))}), axis={axis})", x, lambda: np.concatenate(x, axis))


@entry("stack", ALL)
def stack(g, name):
    for i, (shape, axis) in enumerate([((), 0), ((), -1), ((3,), 0), ((3,), 1), ((3,), -2), ((2, 3), 0), ((2, 3), 1), ((2, 3), 2), ((2, 3), -1),
                                       ((0, 3), 1), ((2, 3, 4), -4), ((2, 3, 4), 3)]):
        x = [g.array(shape) for _ in range(1 + i % 4)]
        holes = ", ".join(["{}"] * len(x)) + ("," if len(x) == 1 else "")
        yield Case(f"stack(({holes}), axis={axis})", x, lambda: np.stack(x, axis))


@entry("split", ALL)
def split(g, name):
    for shape, parts, axis in [((6,), 3, 0), ((6,), 1, 0), ((6, 4), 2, 1), ((6, 4), 2, -1), ((6, 4), [1, 3], 0), ((6, 4), [2], 1),
                               ((2, 6, 4), 3, 1), ((2, 6, 4), [1, 2, 5], 1), ((2, 6, 4), [3], -2), ((0, 4), 2, 1), ((5,), [2, 4], 0),
                               ((2, 2, 2), 2, -3)]:
        x = g.array(shape)
        yield Case(f"split({{}}, indices_or_sections={parts}, axis={axis})", [x], lambda: tuple(np.split(x, parts, axis)))


TILES = [((), [2]), ((3,), [2]), ((3,), [2, 1]), ((2, 3), [2]), ((2, 3), [1, 2]), ((2, 3), [3, 1]), ((2, 3), [2, 2, 2]), ((0, 3), [2, 1]),
         ((2, 3, 4), [1, 2, 1]), ((1,), [5]), ((2, 1), [1, 4]), ((2, 3, 4), [2])]


@entry("tile", ALL)
def tile(g, name):
    for shape, reps in TILES:
        x = g.array(shape)
        yield Case(f"tile({{}}, reps={reps})", [x], lambda: np.tile(x, reps))


@entry("dyn.tile", ALL)
def dyn_tile(g, name):
    for shape, reps in TILES:
        x = g.array(shape)
        yield Case("dyn.tile({}, {}, reps=None)", [x, np.array(reps, "int64")], lambda: np.tile(x, reps))


@entry("repeat", ALL)
def repeat(g, name):
    for shape, n, axis in [((3,), 2, 0), ((3,), 1, -1), ((2, 3), 2, 0), ((2, 3), 3, 1), ((2, 3), 2, -1), ((2, 3), 2, -2), ((0, 3), 2, 1),
                           ((2, 3, 4), 2, 1), ((2, 3, 4), 3, -1), ((1,), 6, 0), ((2, 1, 3), 4, 1), ((2, 2, 2, 2), 2, 2)]:
        x = g.array(shape)
        yield Case(f"repeat({{}}, repeats={n}, axis={axis})", [x], lambda: np.repeat(x, n, axis))


@entry("reverse", ALL)
def reverse(g, name):
    for shape, axis in [((3,), 0), ((3,), -1), ((2, 3), 0), ((2, 3), 1), ((2, 3), -1), ((0, 3), 1), ((2, 3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), -1),
                        ((1,), 0), ((130,), 0), ((2, 3, 4, 5), -2)]:
        x = g.array(shape)
        yield Case(f"reverse({{}}, axis={axis})", [x], lambda: np.flip(x, axis))


@entry("reverse_sequence", ALL)
def reverse_sequence(g, name):
    for shape, seq, batch in [((3, 4), 1, 0), ((3, 4), 0, 1), ((2, 3, 4), 1, 0), ((2, 3, 4), 2, 0), ((2, 3, 4), 0, 2), ((2, 3, 4), 2, 1),
                              ((2, 3, 4), -1, 0), ((2, 3, 4), 0, -1), ((1, 5), 1, 0), ((4, 1), 1, 0), ((2, 3, 2, 2), 1, 0), ((2, 3, 2, 2), 3, 1)]:
        x, n = g.array(shape), shape[seq]
        lengths = g.ints((shape[batch],), -1, n + 3, "int64")  # past the end: all of the axis

        def want():
            y = np.moveaxis(x.copy(), (batch, seq), (0, 1))
            for b, k in enumerate(lengths):
                y[b, :max(k, 0)] = y[b, :max(k, 0)][::-1].copy()
            return np.moveaxis(y, (0, 1), (batch, seq))
        yield Case(f"reverse_sequence({{}}, {{}}, seq_axis={seq}, batch_axis={batch})", [x, lengths], want)


def blocked(x, src, dst):
    """x of layout src, such as NCHW4c, in layout dst."""
    def parts(layout):
        out, n = [], 0
        for ch in layout:
            if ch.isdigit():
                n = 10 * n + int(ch)
            else:
                out.append((ch, n))
                n = 0
        return out
    s, d = parts(src), parts(dst)
    plain = [p for p, n in s if not n]
    # to the primal axes, blocks behind their axis
    y = x.transpose([k for p in plain for k, (q, n) in enumerate(s) if q.upper() == p])
    extent = {p: int(np.prod([x.shape[k] for k, (q, n) in enumerate(s) if q.upper() == p])) for p in plain}
    y = y.reshape([extent[p] for p in plain])
    y = y.transpose([plain.index(p) for p in (q for q, n in d if not n)])
    shape, order = [], {}
    for p in (q for q, n in d if not n):
        blocks = [n for q, n in d if n and q.upper() == p]
        order[p, 0] = len(shape)
        shape.append(extent[p] // int(np.prod(blocks, dtype=int)))
        for k, n in enumerate(blocks):
            order[p, k + 1] = len(shape)
            shape.append(n)
    seen, axes = {}, []
    for q, n in d:
        k = seen.get(q.upper(), 0) + 1 if n else 0
        seen[q.upper()] = max(seen.get(q.upper(), 0), k)
        axes.append(order[q.upper(), k])
    return y.reshape(shape).transpose(axes)


@entry("layout_transform", ALL)
def layout_transform(g, name):
    for shape, src, dst in [((2, 4, 3, 5), "NCHW", "NHWC"), ((2, 3, 5, 4), "NHWC", "NCHW"), ((2, 8, 3, 2), "NCHW", "NCHW4c"),
                            ((2, 2, 3, 2, 4), "NCHW4c", "NCHW"), ((2, 8, 3, 2), "NCHW", "NHWC4c"), ((8, 4, 1, 1), "OIHW", "OIHW2i4o"),
                            ((4, 2, 3, 3), "OIHW", "HWIO"), ((2, 3), "NC", "CN"), ((2, 3, 4), "NCW", "NWC"), ((1, 4, 2, 2, 2), "NCDHW", "NDHWC"),
                            ((2, 1, 3, 2, 8), "NCHW8c", "NCHW4c"), ((2, 2, 3, 2, 4), "NCHW4c", "NHWC"), ((0, 4, 1, 2), "NCHW", "NCHW2c")]:
        x = g.array(shape)
        yield Case(f'layout_transform({{}}, src_layout="{src}", dst_layout="{dst}")', [x], lambda: blocked(x, src, dst))


@entry("sliding_window", ALL)
def sliding_window(g, name):
    for shape, axis, window, strides in [((5,), 0, [2], [1]), ((5,), 0, [3], [2]), ((2, 6), 1, [3], [1]), ((2, 6), 1, [2], [2]), ((4, 6), 0, [2, 3], [1, 1]),
                                         ((4, 6), 0, [2, 3], [2, 3]), ((2, 4, 6), 1, [2, 2], [1, 2]), ((2, 3, 5, 5), 1, [3, 3, 3], [1, 1, 1]),
                                         ((2, 3, 5, 5), 2, [2, 2], [3, 1]), ((1, 1), 0, [1, 1], [1, 1]), ((7,), 0, [7], [1]), ((3, 3, 3), 0, [2, 2, 2], [1, 1, 1]),
                                         ((2, 6), -1, [4], [1])]:
        x = g.array(shape)

        def want():
            at = axis % len(shape)
            y = np.lib.stride_tricks.sliding_window_view(x, window, axis=tuple(range(at, len(shape))))
            return y[(slice(None),) * at + tuple(slice(None, None, s) for s in strides)]
        yield Case(f"sliding_window({{}}, axis={axis}, window_shape={window}, strides={strides})", [x], want)


# ---- creation by shapes that are values ------------------------------------------------------------

@entry("dyn.zeros dyn.ones", ALL)
def dyn_constant(g, name):
    for s in SHAPES[1:] + [(2, 2)]:
        yield Case(f'{name}({{}}, shape=[], dtype="{g.dtype}")', [np.array(s, "int64")],
                   lambda: np.full(s, name == "dyn.ones", np_dtype(g.dtype)))


@entry("dyn.full", ALL)
def dyn_full(g, name):
    for s in SHAPES[1:] + [(2, 2)]:
        v = g.array(())
        yield Case(f'dyn.full({{}}, {{}}, shape=[], dtype="{g.dtype}")', [v, np.array(s, "int64")], lambda: np.full(s, v))


@entry("dyn.one_hot", ALL)
def dyn_one_hot(g, name):
    for i, (shape, depth, axis) in enumerate(ONE_HOT):
        ids, on, off = g.ints(shape, -1, depth + 2), g.array(()), g.array(())
        yield Case(f'dyn.one_hot({{}}, {{}}, {{}}, {{}}, depth=0, axis={axis}, dtype="{g.dtype}")', [ids, on, off, np.array(depth, "int32")],
                   lambda: one_hot_of(ids, depth, axis, on, off, g.dtype))


# ---- blocks ------------------------------------------------------------------------------------------

def channels_last(layout, x):
    return x.transpose(0, 2, 3, 1) if layout == "NHWC" else x


def depth_to_space_of(x, b, mode):
    n, c, h, w = x.shape
    y = x.reshape((n, b, b, c // b**2, h, w) if mode == "DCR" else (n, c // b**2, b, b, h, w))
    y = y.transpose((0, 3, 4, 1, 5, 2) if mode == "DCR" else (0, 1, 4, 2, 5, 3))
    return y.reshape(n, c // b**2, h * b, w * b)


def space_to_depth_of(x, b, mode):
    n, c, h, w = x.shape
    y = x.reshape(n, c, h // b, b, w // b, b).transpose((0, 3, 5, 1, 2, 4) if mode == "DCR" else (0, 1, 3, 5, 2, 4))
    return y.reshape(n, c * b * b, h // b, w // b)


BLOCKS = [((1, 4, 1, 1), 2), ((2, 8, 2, 3), 2), ((1, 9, 2, 2), 3), ((1, 16, 1, 2), 4), ((1, 3, 2, 2), 1), ((0, 4, 2, 2), 2)]


@entry("nn.depth_to_space", ALL)
def depth_to_space(g, name):
    for i, (shape, b) in enumerate(BLOCKS):
        for layout in ("NCHW", "NHWC"):
            mode, x = ["DCR", "CRD"][i % 2], g.array(shape)
            yield Case(f'{name}({{}}, block_size={b}, layout="{layout}", mode="{mode}")', [channels_last(layout, x).copy()],
                       lambda: channels_last(layout, depth_to_space_of(x, b, mode)))


@entry("nn.space_to_depth", ALL)
def space_to_depth(g, name):
    for i, (shape, b) in enumerate(BLOCKS):
        for layout in ("NCHW", "NHWC"):
            n, c, h, w = shape
            x = g.array((n, max(c // (b * b), 1), h * b, w * b))
            yield Case(f'{name}({{}}, block_size={b}, layout="{layout}")', [channels_last(layout, x).copy()],
                       lambda: channels_last(layout, space_to_depth_of(x, b, "DCR")))


BATCHED = [((1, 2, 2, 1), [2, 2], [[0, 0], [0, 0]]), ((1, 2, 2, 3), [2, 2], [[0, 0], [0, 0]]), ((1, 4, 4, 1), [2, 2], [[0, 0], [0, 0]]),
           ((2, 2, 4, 1), [2, 2], [[0, 0], [2, 0]]), ((2, 3, 5, 2), [2, 2], [[1, 0], [0, 1]]), ((1, 3, 3), [3], [[0, 0]]), ((2, 5), [3], [[1, 0]]),
           ((1, 4, 4, 2), [1, 1], [[0, 0], [0, 0]]), ((1, 4, 4, 2), [4, 1], [[0, 0], [1, 1]]), ((3, 7, 2), [4], [[0, 1]]), ((1, 2, 3, 4), [2, 3, 2], [[0, 0], [1, 2], [0, 0]]),
           ((2, 6, 6, 1), [3, 2], [[0, 0], [0, 0]])]


def space_to_batch_of(x, block, paddings, value):
    m = len(block)
    x = np.pad(x, [(0, 0)] + [tuple(p) for p in paddings] + [(0, 0)] * (x.ndim - m - 1), constant_values=value)
    n, spatial, rest = x.shape[0], x.shape[1:m + 1], x.shape[m + 1:]
    y = x.reshape((n,) + sum(((d // b, b) for d, b in zip(spatial, block)), ()) + rest)
    order = [2 + 2 * k for k in range(m)] + [0] + [1 + 2 * k for k in range(m)] + [2 * m + 1 + k for k in range(len(rest))]
    return y.transpose(order).reshape((n * int(np.prod(block)),) + tuple(d // b for d, b in zip(spatial, block)) + rest)


@entry("nn.space_to_batch_nd", ALL)
def space_to_batch(g, name):
    for i, (shape, block, paddings) in enumerate(BATCHED):
        x, value = g.array(shape), [0, 1, 3][i % 3]
        yield Case(f"{name}({{}}, block_shape={block}, paddings={paddings}, pad_value={value}f)", [x],
                   lambda: space_to_batch_of(x, block, paddings, to(g.dtype, np.float64(value))))


@entry("nn.batch_to_space_nd", ALL)
def batch_to_space(g, name):
    for shape, block, crops in BATCHED:
        m, k = len(block), int(np.prod(block))
        x = g.array((shape[0] * k,) + tuple(max(2, d) for d in shape[1:]))

        def want():
            n, spatial, rest = x.shape[0] // k, x.shape[1:m + 1], x.shape[m + 1:]
            y = x.reshape(tuple(block) + (n,) + spatial + rest)
            order = [m] + sum(([m + 1 + j, j] for j in range(m)), []) + [2 * m + 1 + j for j in range(len(rest))]
            y = y.transpose(order).reshape((n,) + tuple(d * b for d, b in zip(spatial, block)) + rest)
            return y[(slice(None),) + tuple(slice(a, y.shape[1 + j] - b) for j, (a, b) in enumerate(crops))]
        yield Case(f"{name}({{}}, block_shape={block}, crops={crops})", [x], want)


PADS = [((3,), [[1, 2]]), ((3, 4), [[1, 1], [0, 2]]), ((3, 4), [[0, 0], [0, 0]]), ((2, 3, 4), [[1, 0], [0, 1], [2, 2]]), ((5,), [[2, 2]]), ((3, 3), [[2, 2], [2, 2]]),
        ((4, 4), [[1, 0], [0, 1]]), ((2, 2, 2, 2), [[0, 0], [1, 1], [1, 1], [0, 0]]), ((6, 1), [[3, 2], [0, 0]]), ((33, 4), [[1, 1], [1, 1]]), ((4,), [[3, 0]]), ((2, 5), [[0, 1], [1, 3]])]


@entry("nn.pad", ALL)
def pad(g, name):
    for i, (shape, width) in enumerate(PADS):
        x, v = g.array(shape), g.array(())
        mode = ["constant", "edge", "reflect"][i % 3]
        extra = {"constant_values": v} if mode == "constant" else {}
        yield Case(f'nn.pad({{}}, {{}}, pad_width={width}, pad_mode="{mode}")', [x, v], lambda: np.pad(x, width, mode=mode, **extra))
    x = g.array((4, 5))
    yield Case("nn.pad({}, 0, pad_width=[[-1, 2], [1, -2]])", [x], lambda: np.pad(x[1:, :-2], [(0, 2), (1, 0)]))
    x = g.array((0, 2))
    yield Case("nn.pad({}, 1, pad_width=[[2, 0], [0, 1]])", [x], lambda: np.ones((2, 3), x.dtype))


@entry("dyn.nn.pad", ALL)
def dyn_pad(g, name):
    for i, (shape, width) in enumerate(PADS):
        x, v = g.array(shape), g.array(())
        mode = ["constant", "edge", "reflect"][i % 3]
        extra = {"constant_values": v} if mode == "constant" else {}
        yield Case(f'dyn.nn.pad({{}}, {{}}, {{}}, pad_width=[], pad_mode="{mode}")', [x, np.array(width, "int64"), v],
                   lambda: np.pad(x, width, mode=mode, **extra))


@entry("nn.mirror_pad", ALL)
def mirror_pad(g, name):
    for i, (shape, width) in enumerate(PADS):
        x, mode = g.array(shape), ["SYMMETRIC", "REFLECT"][i % 2]
        yield Case(f'nn.mirror_pad({{}}, mode="{mode}", pad_width={width})', [x], lambda: np.pad(x, width, mode=mode.lower()))


@entry("nn.dilate", ALL)
def dilate(g, name):
    for i, (shape, strides) in enumerate([((3,), [2]), ((3,), [1]), ((2, 3), [2, 3]), ((2, 3), [1, 2]), ((2, 3, 4), [1, 1, 2]), ((2, 3, 4), [3, 2, 1]), ((1,), [5]), ((4, 4), [2, 2]),
                                          ((2, 2, 2, 2), [1, 1, 2, 2]), ((5, 1), [1, 4]), ((1, 5), [4, 1]), ((7,), [3])]):
        x, value = g.array(shape), [0, 1, 3][i % 3]

        def want():
            y = np.full([(d - 1) * s + 1 for d, s in zip(shape, strides)], to(g.dtype, np.float64(value)))
            y[tuple(slice(None, None, s) for s in strides)] = x
            return y
        yield Case(f"nn.dilate({{}}, strides={strides}, dilation_value={value}f)", [x], want)


@entry("nn.fifo_buffer", ALL)
def fifo_buffer(g, name):
    for a, b, axis in [((1,), (4,), 0), ((2,), (4,), 0), ((4,), (4,), 0), ((1, 3), (4, 3), 0), ((2, 3), (4, 3), 0), ((3, 1), (3, 5), 1), ((3, 2), (3, 5), -1), ((3, 5), (3, 5), 1),
                       ((2, 1, 3), (2, 4, 3), 1), ((2, 3, 3), (2, 4, 3), 1), ((1, 2), (1, 2), 0), ((1, 1, 2), (1, 1, 9), 2)]:
        x, y = g.array(a), g.array(b)
        yield Case(f"nn.fifo_buffer({{}}, {{}}, axis={axis})", [x, y],
                   lambda: np.take(np.concatenate([y, x], axis), range(a[axis], a[axis] + b[axis]), axis))


