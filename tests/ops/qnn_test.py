"""Quantised operators against whole-number arithmetic written out here: every result must be equal to the last unit.

RELAY is the binary, ENGINE the engine (default: interp).
"""
import math
import sys

import numpy as np

from cases import RNG, Case, run_all

LIMITS = {"int8": (-128, 127), "uint8": (0, 255), "int32": (-2**31, 2**31 - 1)}


def clamp(v, dtype):
    return min(max(v, LIMITS[dtype][0]), LIMITS[dtype][1])


def half_away(v):
    return math.floor(abs(v) + 0.5) * (1 if v >= 0 else -1)


def requantize(q, ratio, zero, out_zero, dtype, away=False, real=None):
    """A 31-bit mantissa, a product of 64 bits, half of what is shifted out added before."""
    v = int(q) - zero
    if real:
        v = real(real(v) * real(ratio)) + real(out_zero)
        return clamp(half_away(float(v)) if away else math.floor(v + real(0.5)), dtype)
    m, e = math.frexp(ratio)
    m = half_away(m * 2**31)
    if m == 2**31:
        m, e = m // 2, e + 1
    v = (v << max(e, 0)) * m
    right = 31 - min(e, 0)
    half = 1 << (right - 1)
    return clamp(((v + half - (1 if away and v < 0 else 0)) >> right) + out_zero, dtype)


def over(f, *arrays, dtype):
    return np.array([f(*v) for v in zip(*(np.ravel(a) for a in np.broadcast_arrays(*arrays)))], dtype).reshape(
        np.broadcast_shapes(*(np.shape(a) for a in arrays)))


def integers(shape, dtype, most=None):
    low, high = LIMITS[dtype]
    if most:
        low, high = max(low, -most), min(high, most)
    return RNG.integers(low, high, shape, endpoint=True).astype(dtype)


def f32(v):
    return np.float32(v)


SCALES = [0.5, 1.0, 0.1, 0.0237, 3.7, 1e-4]


def requantize_cases():
    for a in SCALES:
        for b in SCALES[:4]:
            for source, most in (("int32", 100000), ("int8", None), ("uint8", None)):
                x = np.concatenate([integers(40, source, most), np.array([1, 3, 5, 7, 0]).astype(source)])
                ratio = float(f32(a)) / float(f32(b))
                for rounding in ("UPWARD", "TONEAREST"):
                    for compute in ("None", "float32", "float64"):
                        want = over(lambda q: requantize(q, ratio, 3, -4, "int8", rounding == "TONEAREST",
                                                         None if compute == "None" else getattr(np, compute)), x, dtype="int8")
                        yield Case(f'qnn.requantize({{}}, {{}}, 3, {{}}, -4, rounding="{rounding}", '
                                   f'compute_dtype="{compute}", out_dtype="int8")', [x, f32(a), f32(b)], want)
    x = integers((2, 3, 4), "int32", 5000)
    scales = np.array([0.5, 0.1, 0.03], "float32")
    want = over(lambda q, s: requantize(q, float(s) / 0.25, 0, 1, "uint8"), x, scales[:, None], dtype="uint8")
    yield Case('qnn.requantize({}, {}, 0, 0.25f, 1, axis=1, out_dtype="uint8")', [x, scales], want)


def quantize_cases():
    for scale in SCALES:
        for dtype in ("int8", "uint8", "int32"):
            x = RNG.normal(0, 20, (5, 7)).astype("float32")
            want = over(lambda v: clamp(half_away(f32(v) / f32(scale)) + 5, dtype), x, dtype=dtype)
            yield Case(f'qnn.quantize({{}}, {{}}, 5, out_dtype="{dtype}")', [x, f32(scale)], want)
            q = integers((5, 7), dtype, 10000)
            yield Case("qnn.dequantize({}, {}, 7)", [q, f32(scale)],
                       ((q.astype("int64") - 7).astype("float32") * f32(scale)).astype("float32"), rtol=0)
    x = RNG.normal(0, 3, (2, 3, 2)).astype("float32")
    scales, zeros = np.array([.1, .2, .3], "float32"), np.array([1, 2, 3], "int32")
    want = over(lambda v, s, z: clamp(half_away(v / s) + z, "int8"), x, scales[:, None], zeros[:, None], dtype="int8")
    yield Case('qnn.quantize({}, {}, {}, out_dtype="int8", axis=1)', [x, scales, zeros], want)
    for code, dtype in enumerate(["none", "int8", "uint8", "int32"]):
        whole = over(lambda v: v if not code else clamp(half_away(f32(v) / f32(.1)) + 2, dtype), x, dtype="float32")
        yield Case(f"qnn.simulated_quantize({{}}, {code}, 0.1f, 2)", [x], whole)
        yield Case(f"qnn.simulated_dequantize({{}}, {code}, 0.1f, 2)", [whole],
                   (whole - f32(2)) * f32(.1) if code else whole, rtol=0)


def binary_cases():
    for dtype in ("int8", "uint8"):
        for a, b, c in [(.5, .5, 1.), (.1, .03, .2), (.7, 1.3, .01)]:
            x, y = integers((4, 9), dtype), integers((9,), dtype)
            ra, rb = float(f32(a)) / float(f32(c)), float(f32(b)) / float(f32(c))
            args = [x, y, f32(a), f32(b), f32(c)]
            for name, sign in (("add", 1), ("subtract", -1)):
                want = over(lambda p, q: clamp(requantize(p, ra, 1, 0, "int32") + sign * requantize(q, rb, 2, 0, "int32")
                                               + 3, dtype), x, y, dtype=dtype)
                yield Case(f"qnn.{name}({{}}, {{}}, {{}}, 1, {{}}, 2, {{}}, 3)", args, want)
            product = float(f32(a) * f32(b)) / float(f32(c))
            want = over(lambda p, q: requantize((int(p) - 1) * (int(q) - 2), product, 0, 3, dtype), x, y, dtype=dtype)
            yield Case("qnn.mul({}, {}, {}, 1, {}, 2, {}, 3)", args, want)
            want = np.concatenate([over(lambda p: requantize(p, ra, 1, 3, dtype), x, dtype=dtype),
                                   over(lambda p: requantize(p, rb, 2, 3, dtype), y[None], dtype=dtype)])
            yield Case("qnn.concatenate(({}, {}), ({}, {}), (1, 2), {}, 3)",
                       [x, y[None], f32(a), f32(b), f32(c)], want)


def product_cases():
    for dtype in ("int8", "uint8"):
        x, w = integers((3, 50), dtype), integers((4, 50), dtype)
        wide = (x.astype(int) - 3) @ (w.astype(int) - 5).T
        yield Case('qnn.dense({}, {}, 3, 5, 0.5f, 0.5f, units=4, out_dtype="int32")', [x, w], wide.astype("int32"))
        zeros = np.arange(4).astype("int32")
        wide = (x.astype(int) - 3) @ (w.astype(int) - zeros[:, None]).T
        yield Case('qnn.dense({}, {}, 3, {}, 0.5f, 0.5f, units=4, out_dtype="int32")', [x, w, zeros],
                   wide.astype("int32"))
        a, b = integers((2, 3, 20), dtype), integers((2, 4, 20), dtype)
        wide = np.einsum("bik,bjk->bij", a.astype(int) - 1, b.astype(int) - 2).astype("int32")
        yield Case('qnn.batch_matmul({}, {}, 1, 2, 0.5f, 0.5f, transpose_b=True, out_dtype="int32")', [a, b], wide)
        x, w = integers((2, 3, 6, 5), dtype), integers((4, 3, 3, 2), dtype)
        p = np.pad(x.astype(int) - 3, ((0, 0), (0, 0), (1, 1), (1, 1)))
        wide = np.zeros((2, 4, 6, 6), int)
        for i in range(3):
            for j in range(2):
                wide += np.einsum("nchw,oc->nohw", p[:, :, i:i + 6, j:j + 6], w[:, :, i, j].astype(int) - 5)
        yield Case('qnn.conv2d({}, {}, 3, 5, 0.5f, 0.5f, padding=[1, 1, 1, 1], out_dtype="int32")', [x, w],
                   wide.astype("int32"))
        wide = np.zeros((2, 4, 13, 10), int)
        for y, z, i, j in np.ndindex(6, 5, 3, 2):
            wide[:, :, 2 * y + i, 2 * z + j] += np.einsum("nc,oc->no", x[:, :, y, z].astype(int) - 3,
                                                          w[:, :, i, j].astype(int) - 5)
        yield Case('qnn.conv2d_transpose({}, {}, 3, 5, 0.5f, 0.5f, strides=[2, 2], out_dtype="int32")', [x, w],
                   wide.astype("int32"))
        q = over(lambda v: requantize(v, 0.5 / 0.25, 3, 1, "int32"), x[:, :, :, :4], dtype="int64")
        total = q.reshape(2, 3, 3, 2, 2, 2).sum((3, 5))
        want = over(lambda v: clamp(int(v / 4), dtype), total, dtype=dtype)
        yield Case("qnn.avg_pool2d({}, 0.5f, 3, 0.25f, 1, pool_size=[2, 2], strides=[2, 2])",
                   [x[:, :, :, :4].copy()], want)


def function_cases():
    functions = {"tanh": np.tanh, "exp": np.exp, "erf": np.vectorize(math.erf), "abs": np.abs,
                 "sigmoid": lambda v: 1 / (1 + np.exp(-v)), "hardswish": lambda v: v * np.clip(v + 3, 0, 6) / 6}
    x = np.arange(-128, 128).astype("int8")
    real = (x.astype("float32") - 3) * f32(0.03)
    for name, f in functions.items():
        want = np.clip(np.floor(np.abs(f(real) / f32(0.02)) + 0.5) * np.sign(f(real)) - 5, -128, 127).astype("int8")
        # A real next to a half may fall on either side.
        yield Case(f"qnn.{name}({{}}, 0.03f, 3, 0.02f, -5)", [x], want, atol=1)
    rows = x.reshape(16, 16)
    e = np.exp((rows.astype(float) - 3) * 0.03)
    p = e / e.sum(1, keepdims=True)
    yield Case("qnn.softmax({}, 0.03f, 3, 0.00390625f, -128, axis=1)", [rows],
               np.clip(np.round(p * 256) - 128, -128, 127).astype("int8"), atol=1)


def main():
    groups = (requantize_cases, quantize_cases, binary_cases, product_cases, function_cases)
    return run_all([c for group in groups for c in group()])


if __name__ == "__main__":
    sys.exit(main())
