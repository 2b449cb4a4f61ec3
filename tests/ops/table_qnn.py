"""Entries of operators on quantised numbers: q stands for scale * (q - zero point). The references compute with whole numbers of any
size, and results must agree to the last bit."""
import math
from fractions import Fraction

import numpy as np

from peer import FLOATS, SIGNED, UNSIGNED, Case, entry, np_dtype, to, wide
from table_elementwise import PAIRS, erf
from table_window import CONVS, POOLS, axes_of, conv_of, mean_of, pool_text, pooled, transposed_of

QUANTISED = ["int8", "uint8", "int16", "uint16", "int32"]
TAKEN = QUANTISED + ["uint32", "int64"]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 17), (33,), (4, 1, 3, 2), (130,), (2, 0), (5, 5)]
f32 = np.float32


def clamp(values, shape, dtype):
    i = np.iinfo(dtype)
    return np.array([min(max(v, i.min), i.max) for v in values], object).reshape(shape).astype(dtype)


def up(v):
    """Halves go up."""
    return math.floor(v + Fraction(1, 2))


def away(v):
    """Halves go away from zero."""
    return up(v) if v >= 0 else -up(-v)


def flat(x):
    return [int(v) for v in np.asarray(x).reshape(-1)]


def scale_of(g):
    return np.asarray(g.rng.uniform(0.01, 0.3), "float32") if g.rng.random() < 0.7 else np.asarray(0.25, "float32")


def zero_of(g, dtype="int8"):
    return np.asarray(g.rng.integers(0 if dtype[0] == "u" else -9, 10), "int32")


def q_array(g, shape, dtype=None):
    dtype = dtype or g.dtype
    if dtype[-2:] in ("32", "64"):
        return g.ints(shape, 0 if dtype[0] == "u" else -100000, 100000, dtype)
    i = np.iinfo(dtype)
    return np.asarray(g.rng.integers(i.min, i.max, shape, endpoint=True)).astype(dtype)


def scaled(v, ratio, nearest=False):
    """v times the ratio, as a fixed-point number of 31 bits; halves go up, or away from zero."""
    m, e = math.frexp(ratio)
    m = away(Fraction(m) * 2**31)
    if m == 2**31:
        m, e = m // 2, e + 1
    right = 31 - min(e, 0)
    p = (v << max(e, 0)) * m
    return (p + (1 << (right - 1)) - (nearest and p < 0)) >> right


def requantised(q, scale, zero, out_scale, out_zero, dtype, nearest=False):
    """The elements one by one; scales and zero points broadcast."""
    args = np.broadcast_arrays(q.astype(object), *[np.asarray(v).astype(object) for v in (scale, zero, out_scale, out_zero)])
    out = [scaled(int(v) - int(z), float(s) / float(os), nearest) + int(oz)
           for v, s, z, os, oz in zip(*[a.reshape(-1) for a in args])]
    return clamp(out, q.shape, dtype)


def along(v, shape, axis):
    return v.reshape([-1 if k == axis % len(shape) else 1 for k in range(len(shape))]) if v.ndim else v


@entry("qnn.quantize", ["float32"])
def quantize(g, name):
    for i, shape in enumerate(SHAPES + [(2, 3), (4, 2, 3)]):
        x, t = g.array(shape, -30, 30), QUANTISED[i % 5]
        axis = [-1, 0, 1][i % 3] if len(shape) > 1 else -1
        vector = i > 11
        n = shape[axis] if vector else None
        s = np.array([scale_of(g) for _ in range(n)], "float32") if vector else scale_of(g)
        z = np.array([zero_of(g, t) for _ in range(n)], "int32") if vector else zero_of(g, t)

        def want():
            v = (x / along(s, shape, axis)).astype("float32")
            zs = np.broadcast_to(along(z, shape, axis), shape)
            return clamp([away(Fraction(float(a))) + int(b) for a, b in zip(np.asarray(v).reshape(-1), zs.reshape(-1))], shape, t)
        yield Case(f'qnn.quantize({{}}, {{}}, {{}}, out_dtype="{t}", axis={axis})', [x, s, z], want)


@entry("qnn.dequantize", TAKEN)
def dequantize(g, name):
    for i, shape in enumerate(SHAPES + [(2, 3), (4, 2, 3)]):
        x, t = q_array(g, shape), ["float32", "float16"][i % 2] if g.dtype[-1] == "8" else "float32"
        axis, vector = [-1, 0, 1][i % 3] if len(shape) > 1 else -1, i > 11
        n = shape[axis] if vector else None
        s = np.array([scale_of(g) for _ in range(n)], "float32") if vector else scale_of(g)
        z = np.array([zero_of(g) for _ in range(n)], "int32") if vector else zero_of(g)

        def want():
            v = (x.astype("int64") - along(z, shape, axis)).astype("float32") * along(s, shape, axis)
            return np.asarray(v, "float32").astype(t)
        yield Case(f'qnn.dequantize({{}}, {{}}, {{}}, out_dtype="{t}", axis={axis})', [x, s, z], want)


@entry("qnn.requantize", TAKEN)
def requantize(g, name):
    for i, shape in enumerate(SHAPES + [(2, 3), (4, 2, 3)]):
        x, t = q_array(g, shape), QUANTISED[i % 5]
        axis, vector = [-1, 0, 1][i % 3] if len(shape) > 1 else -1, i > 11
        n = shape[axis] if vector else None
        s = np.array([scale_of(g) for _ in range(n)], "float32") if vector else scale_of(g)
        z = np.array([zero_of(g) for _ in range(n)], "int32") if vector else zero_of(g)
        os, oz, rounding = scale_of(g), zero_of(g, t), ["UPWARD", "TONEAREST"][i % 2]
        yield Case(f'qnn.requantize({{}}, {{}}, {{}}, {{}}, {{}}, axis={axis}, rounding="{rounding}", out_dtype="{t}")', [x, s, z, os, oz],
                   lambda: requantised(x, along(s, shape, axis), along(z, shape, axis), os, oz, t, i % 2 == 1))


@entry("qnn.dense", TAKEN)
def dense(g, name):
    for m, n, k in [(1, 1, 1), (2, 4, 3), (17, 9, 33), (1, 20, 64), (8, 8, 8), (5, 1, 7), (16, 16, 40), (1, 1, 130), (33, 2, 5), (4, 40, 4), (2, 2, 2), (3, 2, 1)]:
        x, w = q_array(g, (m, k)), q_array(g, (n, k), "int8")
        zx, zw = zero_of(g), zero_of(g)
        yield Case(f'qnn.dense({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, units={n}, out_dtype="int32")', [x, w, zx, zw, scale_of(g), scale_of(g)],
                   lambda: ((x.astype("int64") - zx) @ (w.astype("int64") - zw).T).astype("int32"))


@entry("qnn.batch_matmul", ["int8", "uint8"])
def batch_matmul(g, name):
    for i, (m, n, k) in enumerate([(1, 1, 1), (2, 4, 3), (17, 9, 33), (1, 20, 64), (8, 8, 8), (5, 1, 7), (6, 6, 40), (1, 1, 130), (33, 2, 5), (4, 40, 4), (2, 2, 2), (3, 2, 1)]):
        b = 1 + i % 3
        x, y, zx, zy = q_array(g, (b, m, k)), q_array(g, (b, n, k)), zero_of(g), zero_of(g)
        yield Case('qnn.batch_matmul({}, {}, {}, {}, {}, {}, out_dtype="int32", transpose_b=True)', [x, y, zx, zy, scale_of(g), scale_of(g)],
                   lambda: ((x.astype("int64") - zx) @ (y.astype("int64") - zy).swapaxes(1, 2)).astype("int32"))


@entry("qnn.conv2d", TAKEN)
def conv2d(g, name):
    for i, (batch, c, o, groups, window) in enumerate(CONVS):
        axes = axes_of(2, window, i)
        x, w = q_array(g, (batch, c, *[a[0] for a in axes])), q_array(g, (o, c // groups, *[a[1] for a in axes]), "int8")
        zx, zw = zero_of(g), zero_of(g)
        stride, dilation, pads = [a[2] for a in axes], [a[5] for a in axes], [(a[3], a[4]) for a in axes]
        padding = [p[0] for p in pads] + [p[1] for p in pads]
        yield Case(f"qnn.conv2d({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, strides={stride}, padding={padding}, dilation={dilation}, groups={groups}, channels={o}, "
                   f'kernel_size={[a[1] for a in axes]}, out_dtype="int32")', [x, w, zx, zw, scale_of(g), scale_of(g)],
                   lambda: conv_of(x.astype("int64") - zx, w.astype("int64") - zw, stride, pads, dilation, groups).astype("int32"))


@entry("qnn.conv2d_transpose", ["int8", "uint8"])
def conv2d_transpose(g, name):
    for i, (batch, c, o, groups, window) in enumerate(CONVS):
        axes = [(max(2, e // 2), k, s, min(a, k - 1), min(b, k - 1), 1) for e, k, s, a, b, d in axes_of(2, window, i)]
        x, w = q_array(g, (batch, c, *[a[0] for a in axes])), q_array(g, (c, o // groups, *[a[1] for a in axes]))
        zx, zw = zero_of(g), zero_of(g)
        stride, pads = [a[2] for a in axes], [(a[3], a[4]) for a in axes]
        padding = [p[0] for p in pads] + [p[1] for p in pads]
        yield Case(f"qnn.conv2d_transpose({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, channels={o}, kernel_size={[a[1] for a in axes]}, strides={stride}, padding={padding}, "
                   f'groups={groups}, kernel_layout="IOHW", out_dtype="int32")', [x, w, zx, zw, scale_of(g), scale_of(g)],
                   lambda: transposed_of(x.astype("int64") - zx, w.astype("int64") - zw, stride, pads, [0, 0], [1, 1], groups).astype("int32"))


@entry("qnn.avg_pool2d", ["int8", "uint8"])
def avg_pool2d(g, name):
    for i, (window, ceil) in enumerate(POOLS):
        axes = axes_of(2, window, i)
        x = q_array(g, (1, 2, axes[0][0], axes[1][0]))
        s, z, so, zo = scale_of(g), zero_of(g, g.dtype), scale_of(g), zero_of(g, g.dtype)

        def want():
            # Each element takes the scale of the result first.
            v = np.array([scaled(q - int(z), float(s) / float(so)) + int(zo) for q in flat(x)], object).reshape(x.shape)
            y = pooled(v, axes, ceil, lambda part, _: mean_of("int32", part, part.shape[-1]))
            return clamp(flat(y), y.shape, g.dtype)
        yield Case(f'{name}({{}}, {{}}, {{}}, {{}}, {{}}, {pool_text(axes, "NCHW", ceil)})', [x, s, z, so, zo], want)


@entry("qnn.softmax", ["int8"])
def softmax(g, name):
    for i, (shape, axis) in enumerate([((7,), 0), ((7,), -1), ((3, 5), 0), ((3, 5), 1), ((3, 5), -1), ((2, 3, 4), 1), ((2, 3, 4), -3), ((1, 17), 1), ((33,), 0), ((4, 1, 3, 2), 2), ((1,), 0),
                                       ((2, 30), 1)]):
        x, s, z, so, zo = q_array(g, shape), scale_of(g), zero_of(g), np.asarray(1 / 256, "float32"), np.asarray(-128, "int32")

        def want():
            v = (x.astype("float64") - z) * float(s)
            e = np.exp(v - v.max(axis, keepdims=True))
            y = e / e.sum(axis, keepdims=True) * 256
            return clamp([int(np.floor(k + 0.5)) - 128 for k in y.reshape(-1)], shape, g.dtype)
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, {{}}, axis={axis})", [x, s, z, so, zo], want, slack=1)


@entry("qnn.simulated_quantize qnn.simulated_dequantize", ["float32"])
def simulated(g, name):
    for i, shape in enumerate(SHAPES):
        code, s, z = [1, 2, 3, 0][i % 4], scale_of(g), zero_of(g)
        x = g.array(shape, -30, 30) if name == "qnn.simulated_quantize" else g.small(shape, -100, 100, "int32").astype("float32")
        low, high = {1: (-128, 127), 2: (0, 255), 3: (-2**31, 2**31 - 1), 0: (None, None)}[code]

        def want():
            if code == 0:
                return x
            if name == "qnn.simulated_dequantize":
                return ((x - z) * s).astype("float32")
            v = (x / s).astype("float32")
            return np.clip([away(Fraction(float(a))) + int(z) for a in v.reshape(-1)], low, high).astype("float32").reshape(shape)
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}})", [x, np.array(code, "int32"), s, z], want)


@entry("relay.op.annotation.simulated_quantize", FLOATS)
def annotated(g, name):
    """The scales are powers of two, so that dividing by them is exact in every type."""
    for i, shape in enumerate(SHAPES):
        x, kind = g.array(shape, -30, 30), i % 4
        scale, low, high = np.float32(2.0 ** (i % 3 - 2)), np.float32(-20 + i), np.float32(30 - i)

        def want():
            v = wide(x) / scale
            whole = np.clip(np.sign(v) * np.floor(np.abs(v) + 0.5), low, high) * scale
            return x if kind == 0 else to(g.dtype, whole)
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, kind={kind})", [x, scale, low, high], want)


@entry("qnn.add qnn.subtract qnn.mul", TAKEN)
def binary(g, name):
    for a, b in PAIRS:
        # Products that need 32 bits do not fit the 64 in which a scale is applied.
        whole = g.dtype[-2:] in ("t8", "16") and (name, g.dtype) != ("qnn.mul", "uint16")
        x, y = (q_array(g, v) if whole else g.small(v, -20000, 20000) for v in (a, b))
        sx, sy, so, zx, zy, zo = scale_of(g), scale_of(g), scale_of(g), zero_of(g, g.dtype), zero_of(g, g.dtype), zero_of(g, g.dtype)

        def want():
            u, v = np.broadcast_arrays(x.astype(object), y.astype(object))
            fx, fy, fo = float(sx), float(sy), float(so)
            out = []
            for p, q in zip(u.reshape(-1), v.reshape(-1)):
                p, q = int(p) - int(zx), int(q) - int(zy)
                if name == "qnn.mul":
                    out.append(scaled(p * q, float(f32(fx) * f32(fy)) / fo) + int(zo))
                else:
                    p, q = scaled(p, fx / fo), scaled(q, fy / fo)
                    out.append((p + q if name == "qnn.add" else p - q) + int(zo))
            return clamp(out, u.shape, g.dtype)
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}})", [x, y, sx, zx, sy, zy, so, zo], want)
    if g.dtype in ("int8", "uint8"):
        yield from by_channel(g, name)


def by_channel(g, name):
    """Scales and zero points of one a channel, on either side or both."""
    for a, b, left, right in [((2, 3, 4), (2, 3, 4), 1, 1), ((3, 4), (2, 3, 4), 0, 1), ((2, 3), (2, 3), -1, None), ((4, 2), (2,), None, 0), ((2, 1, 4), (2, 3, 4), -1, -1)]:
        x, y, so, zo = q_array(g, a), q_array(g, b), scale_of(g), zero_of(g, g.dtype)

        def parameters(shape, axis):
            if axis is None:
                return scale_of(g), zero_of(g, g.dtype), 1, 0
            n = shape[axis]
            s, z = np.array([scale_of(g) for _ in range(n)], "float32"), np.array([zero_of(g, g.dtype) for _ in range(n)], "int32")
            spread = [n if k == axis % len(shape) else 1 for k in range(len(shape))]
            return s, z, s.reshape(spread), z.reshape(spread)
        sx, zx, sl, zl = parameters(a, left)
        sy, zy, sr, zr = parameters(b, right)
        sl, zl, sr, zr = (sx, zx, sr, zr) if left is None else (sl, zl, sr, zr) if right is not None else (sl, zl, sy, zy)

        def want():
            all = np.broadcast_arrays(x.astype(object), y.astype(object), np.asarray(sl, object), np.asarray(zl, object), np.asarray(sr, object), np.asarray(zr, object))
            fo, out = float(so), []
            for p, q, fx, tx, fy, ty in zip(*(v.reshape(-1) for v in all)):
                p, q, fx, fy = int(p) - int(tx), int(q) - int(ty), float(fx), float(fy)
                if name == "qnn.mul":
                    out.append(scaled(p * q, float(f32(fx) * f32(fy)) / fo) + int(zo))
                else:
                    p, q = scaled(p, fx / fo), scaled(q, fy / fo)
                    out.append((p + q if name == "qnn.add" else p - q) + int(zo))
            return clamp(out, all[0].shape, g.dtype)
        axes = (f", lhs_axis={left}" if left is not None else "") + (f", rhs_axis={right}" if right is not None else "")
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}, {{}}{axes})", [x, y, sx, zx, sy, zy, so, zo], want)


@entry("qnn.concatenate", TAKEN)
def concatenate(g, name):
    for a, b, axis in [((3,), (4,), 0), ((2, 3), (4, 3), 0), ((2, 3), (2, 1), 1), ((2, 3), (2, 5), -1), ((2, 3, 4), (2, 1, 4), 1), ((0, 3), (2, 3), 0), ((2, 3, 4), (2, 3, 2), -1),
                       ((1,), (1,), 0), ((40, 3), (1, 3), 0), ((2, 2), (2, 3), 1), ((5, 1), (5, 1), 1), ((1, 2, 3, 4), (1, 2, 3, 1), 3)]:
        x, y = q_array(g, a), q_array(g, b)
        sx, sy, so, zx, zy, zo = scale_of(g), scale_of(g), scale_of(g), zero_of(g, g.dtype), zero_of(g, g.dtype), zero_of(g, g.dtype)
        yield Case(f"qnn.concatenate(({{}}, {{}}), ({{}}, {{}}), ({{}}, {{}}), {{}}, {{}}, axis={axis})", [x, y, sx, sy, zx, zy, so, zo],
                   lambda: np.concatenate([requantised(x, sx, zx, so, zo, g.dtype), requantised(y, sy, zy, so, zo, g.dtype)], axis))


FUNCTIONS = {
    "qnn.tanh": np.tanh, "qnn.exp": np.exp, "qnn.sqrt": np.sqrt, "qnn.rsqrt": lambda x: 1 / np.sqrt(x), "qnn.erf": erf, "qnn.sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "qnn.log": np.log, "qnn.abs": np.abs, "qnn.hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6, "qnn.leaky_relu": None,
}


@entry(" ".join(FUNCTIONS), ["int8", "uint8"])
def functions(g, name):
    for i, shape in enumerate(SHAPES):
        s, so, zo = scale_of(g), scale_of(g), zero_of(g, g.dtype)
        z = np.asarray(np.iinfo(g.dtype).min - 1 if name in ("qnn.log", "qnn.sqrt", "qnn.rsqrt") else zero_of(g, g.dtype), "int32")
        x, alpha = q_array(g, shape), [0.25, 0.1, 0.5][i % 3]
        f = FUNCTIONS[name] or (lambda v: np.where(v > 0, v, v * float(f32(alpha))))

        def real(q):
            return f((q.astype("float64") - z) * float(s)) / float(so)
        # Where halves are near the last bit of a float decides: those elements are others.
        with np.errstate(all="ignore"):
            near = np.abs(np.mod(real(x), 1) - 0.5) < 1e-3
        x = np.where(near, np.where(z + 1 <= np.iinfo(g.dtype).max, z + 1, 0), x).astype(x.dtype)
        near = np.abs(np.mod(real(x), 1) - 0.5) < 1e-3

        def want():
            return clamp([int(np.floor(v + 0.5)) + int(zo) for v in np.asarray(real(x)).reshape(-1)], shape, g.dtype)
        if near.any():
            continue
        more = f", alpha={alpha}f" if name == "qnn.leaky_relu" else ""
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, {{}}{more})", [x, s, z, so, zo], want)
