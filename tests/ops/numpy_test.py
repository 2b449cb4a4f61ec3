"""The operators against NumPy, over generated shapes and element types.

Each case is an expression over tensors and what NumPy makes of it. All cases of a group are the
fields of one program's result. RELAY is the binary, ENGINE the engine (default: interp).
"""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

RELAY = os.environ.get("RELAY", "build/relay")
ENGINE = os.environ.get("ENGINE", "interp")
RNG = np.random.default_rng(7)

FLOATS = ["float32", "float64", "float16"]
INTS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (1, 17, 1), (0, 3), (33, 70)]
TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-12}


class Case:
    def __init__(self, text, arrays, want, rtol=None, atol=None):
        self.text, self.arrays, self.want, self.rtol, self.atol = text, arrays, want, rtol, atol


def type_of(a):
    name = str(a.dtype)
    return f"Tensor[({', '.join(map(str, a.shape))}), {name}]" if a.ndim else name


def values(shape, dtype, low=-4.0, high=4.0):
    if dtype == "bool":
        return RNG.integers(0, 2, shape).astype(bool)
    if dtype in FLOATS:
        return np.asarray(RNG.uniform(low, high, shape)).astype(dtype)
    info = np.iinfo(dtype)
    return np.asarray(RNG.integers(max(info.min, -100), min(info.max, 100), shape)).astype(dtype)


def decode(v):
    if "tuple" in v:
        return [decode(f) for f in v["tuple"]]
    data = [float(x) if isinstance(x, str) else x for x in v["data"]]
    return np.array(data, dtype=v["dtype"]).reshape(v["shape"])


def run_cases(cases):
    params, fields, files = [], [], {}
    for i, c in enumerate(cases):
        names = []
        for k, a in enumerate(c.arrays):
            name = f"x{i}_{k}"
            params.append(f"%{name}: {type_of(a)}")
            files[name] = a
            names.append("%" + name)
        fields.append(c.text.format(*names))
    text = '#[version = "0.0.5"]\ndef @main(' + ", ".join(params) + ") {\n  (" + ",\n   ".join(fields) + ",)\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program, inputs = os.path.join(folder, "p.rly"), os.path.join(folder, "p.npz")
        with open(program, "w") as f:
            f.write(text)
        command = [RELAY, "run", "--exec", ENGINE, "--json", program]
        if files:
            np.savez(inputs, **files)
            command += ["--params", inputs]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode:
            if len(cases) > 1:
                half = len(cases) // 2
                return run_cases(cases[:half]) + run_cases(cases[half:])
            return [f"{cases[0].text} on {[type_of(a) for a in cases[0].arrays]}: {done.stderr[:800]}"]
        return [e for c, got in zip(cases, decode(json.loads(done.stdout))) for e in compare(c, got)]


def compare(c, got):
    wants = c.want if isinstance(c.want, (tuple, list)) else [c.want]
    gots = got if isinstance(got, list) else [got]
    for want, v in zip(wants, gots):
        want = np.asarray(want)
        where = f"{c.text} on {[type_of(a) for a in c.arrays]}"
        if want.shape != v.shape or want.dtype != v.dtype:
            return [f"{where}: {v.dtype}{v.shape}, wanted {want.dtype}{want.shape}"]
        rtol = c.rtol if c.rtol is not None else TOLERANCE.get(str(v.dtype), 0)
        atol = c.atol if c.atol is not None else rtol
        if not np.allclose(v.astype(float), want.astype(float), rtol=rtol, atol=atol, equal_nan=True):
            worst = np.argmax(np.abs(v.astype(float) - want.astype(float)))
            return [f"{where}: {v.flat[worst]!r}, wanted {want.flat[worst]!r} at {worst}"]
    return []


# ---- element-wise --------------------------------------------------------------------------------

def wide(a):
    return a.astype("float32") if a.dtype == np.float16 else a


def erf(x):
    import math
    return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)


def half_away(x):
    return np.trunc(x + np.copysign(0.5, x)).astype(x.dtype)


UNARY = {
    "exp": np.exp, "sqrt": np.sqrt, "log": np.log, "log2": np.log2, "log10": np.log10, "tanh": np.tanh,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinh": np.sinh, "cosh": np.cosh, "atan": np.arctan,
    "asinh": np.arcsinh, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "abs": np.abs,
    "negative": np.negative, "sign": np.sign, "round": half_away, "erf": erf,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "rsqrt": lambda x: 1 / np.sqrt(x),
    "nn.relu": lambda x: np.maximum(x, np.zeros_like(x)), "copy": lambda x: x,
    "zeros_like": np.zeros_like, "ones_like": np.ones_like,
}
POSITIVE = {"sqrt", "log", "log2", "log10", "rsqrt"}
OF_INTEGERS = {"abs", "negative", "sign", "nn.relu", "copy", "zeros_like", "ones_like"}


def unary_cases():
    for name, f in UNARY.items():
        dtypes = FLOATS + (INTS if name in OF_INTEGERS else [])
        for i, dtype in enumerate(dtypes):
            for shape in (SHAPES if i == 0 else SHAPES[i % 7:i % 7 + 2]):
                x = values(shape, dtype, 0.01 if name in POSITIVE else -4.0)
                with np.errstate(all="ignore"):
                    want = f(wide(x)).astype(x.dtype)
                yield Case(f"{name}({{}})", [x], want, rtol=TOLERANCE.get(dtype, 0) * 4)
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-40, 88.9, -88.9, -104.0, 1.0], "float32")
    with np.errstate(all="ignore"):
        for name in ["exp", "log", "tanh", "sqrt", "sigmoid", "erf"]:
            yield Case(f"{name}({{}})", [special], UNARY[name](special).astype("float32"), rtol=2e-6, atol=1e-44)
    for name, f in {"isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite}.items():
        for dtype in ["float32", "float64"]:
            yield Case(f"{name}({{}})", [special.astype(dtype)], f(special))
    for dtype in INTS:
        x = values((5, 3), dtype)
        yield Case("bitwise_not({})", [x], np.invert(x))
    b = values((4, 5), "bool")
    yield Case("logical_not({})", [b], ~b)
    for dtype in ["float32", "int32", "int8"]:
        x = values((3, 9), dtype)
        yield Case("clip({}, a_min=-2f, a_max=3f)", [x], np.clip(x, -2, 3).astype(dtype))


BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "maximum": np.maximum,
    "minimum": np.minimum, "equal": np.equal, "not_equal": np.not_equal, "less": np.less,
    "less_equal": np.less_equal, "greater": np.greater, "greater_equal": np.greater_equal,
}
PAIRS = [((), ()), ((4,), ()), ((3, 5), (5,)), ((3, 1), (1, 6)), ((2, 3, 4), (3, 1)), ((0, 3), (3,)),
         ((1,), (2, 2)), ((33, 70), (33, 70)), ((2, 1, 3), (4, 1))]


def trunc_divide(x, y):
    q = np.abs(x.astype(object)) // np.abs(y.astype(object))
    return np.where((x < 0) != (y < 0), -q, q).astype(x.dtype)


def binary_cases():
    for name, f in BINARY.items():
        for i, dtype in enumerate(FLOATS + INTS):
            for a, b in (PAIRS if i == 0 else PAIRS[i % 5:i % 5 + 3]):
                x, y = values(a, dtype), values(b, dtype)
                with np.errstate(all="ignore"):
                    yield Case(f"{name}({{}}, {{}})", [x, y], f(x, y))
    for dtype in INTS:
        for a, b in PAIRS[1:4]:
            x, y = values(a, dtype), values(b, dtype)
            y = np.where(y == 0, 3, y).astype(dtype)
            with np.errstate(all="ignore"):
                yield Case("divide({}, {})", [x, y], trunc_divide(x, y))
                yield Case("trunc_divide({}, {})", [x, y], trunc_divide(x, y))
                yield Case("floor_divide({}, {})", [x, y], x // y)
                yield Case("floor_mod({}, {})", [x, y], x % y)
                yield Case("mod({}, {})", [x, y], np.fmod(x, y))
                yield Case("trunc_mod({}, {})", [x, y], np.fmod(x, y))
            yield Case("bitwise_and({}, {})", [x, y], x & y)
            yield Case("bitwise_or({}, {})", [x, y], x | y)
            yield Case("bitwise_xor({}, {})", [x, y], x ^ y)
            shift = np.asarray(RNG.integers(0, 7, b)).astype(dtype)
            with np.errstate(all="ignore"):
                yield Case("left_shift({}, {})", [x, shift], np.left_shift(x, shift))
            yield Case("right_shift({}, {})", [x, shift], np.right_shift(x, shift))
    for dtype in FLOATS:
        for a, b in PAIRS[:5]:
            x, y = values(a, dtype), values(b, dtype)
            tol = TOLERANCE[dtype] * 4
            yield Case("divide({}, {})", [x, y], x / y, rtol=tol)
            yield Case("mod({}, {})", [x, y], np.fmod(x, y), rtol=tol)
            yield Case("floor_divide({}, {})", [x, y], np.floor(x / y))
            p = values(a, dtype, 0.1, 3)
            yield Case("power({}, {})", [p, y], np.power(wide(p), wide(y)).astype(dtype), rtol=tol)
    for name, f in {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor}.items():
        x, y = values((4, 5), "bool"), values((5,), "bool")
        yield Case(f"{name}({{}}, {{}})", [x, y], f(x, y))
    for dtype in ["float32", "int32", "float64", "int8", "bool"]:
        c, x, y = values((3, 1), "bool"), values((3, 4), dtype), values((4,), dtype)
        yield Case("where({}, {}, {})", [c, x, y], np.where(c, x, y))


def cast_cases():
    names = FLOATS + INTS + ["bool"]
    for a in names:
        for b in names:
            x = values((19,), a, 0.0 if b.startswith("uint") else -90.0, 90.0)
            if b.startswith("uint") and a in INTS:
                x = np.abs(x).astype(a)
            with np.errstate(all="ignore"):
                yield Case(f'cast({{}}, dtype="{b}")', [x], x.astype(b))


# ---- reductions ----------------------------------------------------------------------------------

REDUCE_SHAPES = [((7,), None), ((3, 5), (0,)), ((3, 5), (1,)), ((2, 3, 4), (1,)), ((2, 3, 4), (0, 2)),
                 ((2, 3, 4), None), ((1000, 3), (0,)), ((3, 3000), (1,)), ((40, 50), (0,)), ((70, 4, 4), (1, 2)),
                 ((1, 200000), (1,)), ((5000, 40), (0,)), ((), None), ((6, 1, 5), (1,))]


def reduce_cases():
    for name, f in {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod}.items():
        for i, dtype in enumerate(["float32", "float64", "int32", "int64", "uint8", "float16"]):
            for shape, axes in REDUCE_SHAPES:
                for keep in (False, True):
                    if (name == "mean" and dtype[0] != "f") or (dtype == "float16" and np.prod(shape) > 3000):
                        continue
                    x = values(shape, dtype, *((0.9, 1.1) if name == "prod" else (-4, 4)))
                    full = x.astype("float64") if dtype in FLOATS else x
                    with np.errstate(all="ignore"):
                        want = f(full, axis=axes, keepdims=keep).astype(dtype)
                    axis = "None" if axes is None else str(list(axes))
                    n = np.prod(shape, dtype=float) ** 0.5
                    tol = TOLERANCE.get(dtype, 0) * max(1, n) * (20 if name == "prod" else 1)
                    yield Case(f"{name}({{}}, axis={axis}, keepdims={keep})", [x], want, rtol=tol, atol=tol * 4)
    for name, f in {"argmax": np.argmax, "argmin": np.argmin}.items():
        for dtype in ["float32", "int32", "uint8"]:
            for shape, axis in [((7,), 0), ((3, 5), 1), ((3, 5), 0), ((100, 40), 0), ((2, 3000), 1), ((2, 200000), 1)]:
                x = values(shape, dtype)
                yield Case(f"{name}({{}}, axis=[{axis}])", [x], f(x, axis=axis).astype("int32"))
    for name, f in {"all": np.all, "any": np.any}.items():
        for shape, axis in [((7,), 0), ((3, 5), 1), ((50, 40), 0)]:
            x = values(shape, "bool")
            yield Case(f"{name}({{}}, axis=[{axis}])", [x], f(x, axis=axis))
    x = values((6, 50), "float32")
    m = x.mean(axis=1, keepdims=True)
    yield Case("variance({}, {}, axis=[1])", [x, m], x.var(axis=1), rtol=1e-5)
    yield Case("sum({}, axis=[1], exclude=True)", [values((2, 3, 4), "int32")], None)
    for dtype in ["float32", "int32", "int64"]:
        x = values((4, 9), dtype)
        yield Case("cumsum({}, axis=1)", [x], np.cumsum(x, axis=1, dtype=dtype), rtol=1e-5, atol=1e-5)
        yield Case("cumsum({}, axis=0)", [x], np.cumsum(x, axis=0, dtype=dtype), rtol=1e-5, atol=1e-5)
        with np.errstate(all="ignore"):
            yield Case("cumprod({})", [x], np.cumprod(x, dtype=dtype), rtol=1e-4, atol=1e-5)


# ---- moving elements ------------------------------------------------------------------------------

def move_cases():
    for dtype in ["float32", "int64", "uint8", "float16"]:
        x = values((2, 3, 4), dtype)
        for axes in [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1), (1, 0, 2)]:
            yield Case(f"transpose({{}}, axes={list(axes)})", [x], x.transpose(axes))
        yield Case("transpose({}, axes=None)", [values((40, 70), dtype)], None)
        for shape in [(4, 6), (24,), (2, 2, 2, 3), (-1, 8), (0, -1)]:
            want = x.reshape([x.shape[i] if d == 0 else d for i, d in enumerate(shape)])
            yield Case(f"reshape({{}}, newshape={list(shape)})", [x], want)
        yield Case("expand_dims({}, axis=1, num_newaxis=2)", [x], x.reshape(2, 1, 1, 3, 4))
        yield Case("squeeze({}, axis=[0])", [values((1, 3, 1), dtype)], None)
        y = values((2, 5, 4), dtype)
        yield Case("concatenate(({}, {}, {}), axis=1)", [x, y, x], np.concatenate([x, y, x], 1))
        yield Case("concatenate(({}, {}), axis=0)", [x, x], np.concatenate([x, x], 0))
        yield Case("concatenate(({}, {}), axis=-1)", [x, x], np.concatenate([x, x], -1))
        yield Case("transpose(concatenate(({}, {}), axis=-1), axes=[2, 0, 1])", [x, x],
                   np.concatenate([x, x], -1).transpose(2, 0, 1))
        for axis in range(4):
            yield Case(f"stack(({{}}, {{}}, {{}}), axis={axis})", [x, x + x, x], np.stack([x, x + x, x], axis))
        yield Case("split({}, indices_or_sections=3, axis=1)", [x], list(np.split(x, 3, 1)))
        yield Case("split({}, indices_or_sections=[1, 3], axis=2)", [x], list(np.split(x, [1, 3], 2)))
        yield Case("tile({}, reps=[2, 1, 3])", [x], np.tile(x, (2, 1, 3)))
        yield Case("tile({}, reps=[2, 1, 1, 2])", [x], np.tile(x, (2, 1, 1, 2)))
        yield Case("repeat({}, repeats=3, axis=1)", [x], np.repeat(x, 3, 1))
        yield Case("reverse({}, axis=1)", [x], x[:, ::-1])
        yield Case("broadcast_to({}, shape=[5, 2, 3, 4])", [x], np.broadcast_to(x, (5, 2, 3, 4)))
        yield Case("nn.batch_flatten({})", [x], x.reshape(2, 12))
        for b, e, s in [((0, 0, 0), (2, 3, 4), (1, 1, 1)), ((1, 0, 1), (2, 2, 4), (1, 1, 2)),
                        ((-1, -2, -1), (-3, 3, -5), (-1, 1, -1)), ((0, 2, 3), (2, -4, 0), (1, -1, -2))]:
            cut = tuple(slice(i, None if (t < 0 and j < -x.shape[k]) else j, t) for k, (i, j, t) in enumerate(zip(b, e, s)))
            yield Case(f"strided_slice({{}}, begin={list(b)}, end={list(e)}, strides={list(s)}, axes=None)", [x], x[cut])
        for pads in [((1, 2), (0, 1), (3, 0)), ((0, 0), (1, 1), (2, 2))]:
            text = [list(p) for p in pads]
            yield Case(f"nn.pad({{}}, {{}}, pad_width={text})", [x, np.asarray(5).astype(dtype)],
                       np.pad(x, pads, constant_values=5))
            yield Case(f'nn.pad({{}}, {{}}, pad_width={text}, pad_mode="edge")', [x, np.asarray(5).astype(dtype)],
                       np.pad(x, pads, mode="edge"))
        yield Case('nn.pad({}, 0, pad_width=[[1, 1], [2, 2], [3, 1]], pad_mode="reflect")', [x],
                   np.pad(x, ((1, 1), (2, 2), (3, 1)), mode="reflect"))
        yield Case('nn.mirror_pad({}, pad_width=[[1, 1], [2, 2], [3, 1]])', [x],
                   np.pad(x, ((1, 1), (2, 2), (3, 1)), mode="symmetric"))
        index = np.asarray(RNG.integers(-2, 5, (3, 2))).astype("int32")
        yield Case("take({}, {}, axis=1)", [x, index], np.take(x, index, 1, mode="clip"))
        yield Case('take({}, {}, axis=2, mode="wrap")', [x, index], np.take(x, index, 2, mode="wrap"))
        yield Case("take({}, {})", [x, index], np.take(x, index, mode="clip"))
        inside = np.asarray(RNG.integers(0, 4, (2, 3, 2))).astype("int64")
        yield Case("gather({}, {}, axis=2)", [x, inside], np.take_along_axis(x, inside, 2))
        rows = np.stack([RNG.integers(0, 2, 5), RNG.integers(0, 3, 5)]).astype("int32")
        yield Case("gather_nd({}, {})", [x, rows], x[rows[0], rows[1]])
        yield Case("slice_like({}, {}, axes=None)", [x, values((1, 2, 3), dtype)], x[:1, :2, :3])
        s = values((4, 30), dtype)
        s = np.round(s) if dtype[0] == "f" else s
        yield Case("sort({}, axis=1)", [s], np.sort(s, 1))
        yield Case('argsort({}, axis=1, dtype="int32")', [s], np.argsort(s, 1, kind="stable").astype("int32"))
    yield Case('one_hot({}, 1f, 0f, depth=4, axis=-1, dtype="float32")', [np.array([0, 3, 5, -1], "int32")],
               np.array([[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 0, 0], [0, 0, 0, 0]], "float32"))
    yield Case('arange(0, 7, 2, dtype="int32")', [], np.arange(0, 7, 2, dtype="int32"))
    yield Case('arange(1f, 3f, 0.5f, dtype="float32")', [], np.arange(1, 3, 0.5, dtype="float32"))


# ---- products and windows ---------------------------------------------------------------------------

def product_cases():
    for dtype, tol in [("float32", 1e-5), ("float64", 1e-12), ("int32", 0), ("float16", 2e-2)]:
        for m, k, n in [(1, 1, 1), (2, 3, 4), (17, 33, 9), (1, 64, 20), (40, 50, 60), (3, 0, 2), (64, 200, 1)]:
            x, w = values((m, k), dtype, -1, 1), values((n, k), dtype, -1, 1)
            full = np.float64 if dtype[0] == "f" else dtype
            want = (x.astype(full) @ w.T.astype(full)).astype(dtype)
            yield Case(f"nn.dense({{}}, {{}}, units={n})", [x, w], want, rtol=tol, atol=tol * 4)
            for ta in (False, True):
                for tb in (False, True):
                    a, b = (x.T.copy() if ta else x), (w.copy() if tb else w.T.copy())
                    yield Case(f"nn.matmul({{}}, {{}}, units=None, transpose_a={ta}, transpose_b={tb})", [a, b],
                               want, rtol=tol, atol=tol * 4)
        for ba, bb in [(3, 3), (1, 4), (4, 1)]:
            a, b = values((ba, 5, 40), dtype, -1, 1), values((bb, 40, 6), dtype, -1, 1)
            want = (a.astype(np.float64) @ b.astype(np.float64)).astype(dtype)
            yield Case("nn.batch_matmul({}, {})", [a, b], want, rtol=tol, atol=tol * 4)
            c = b.transpose(0, 2, 1).copy()
            yield Case("nn.batch_matmul({}, {}, transpose_b=True)", [a, c], want, rtol=tol, atol=tol * 4)
    x = values((2, 3, 4), "float32")
    yield Case("nn.dense({}, {}, units=5)", [x, values((5, 4), "float32")], None)
    for axis in (0, 1, 2, -1):
        for scale in (1, 30):
            y = x * scale
            e = np.exp(y.astype("float64") - y.max(axis=axis, keepdims=True))
            p = e / e.sum(axis=axis, keepdims=True)
            yield Case(f"nn.softmax({{}}, axis={axis})", [y], p.astype("float32"), rtol=1e-5, atol=1e-6)
            yield Case(f"nn.log_softmax({{}}, axis={axis})", [y], np.log(p).astype("float32"), rtol=1e-5, atol=1e-5)
    yield Case("nn.bias_add({}, {}, axis=1)", [x, values((3,), "float32")], None)
    g, b = values((4,), "float32"), values((4,), "float32")
    d = x.astype("float64")
    norm = (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-5) * g + b
    yield Case("nn.layer_norm({}, {}, {})", [x, g, b], norm.astype("float32"), rtol=1e-4, atol=1e-5)


def conv_reference(x, w, strides, pads, dilation, groups):
    """NCHW, OIHW; pads: top, left, bottom, right."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    n, c, h, wd = x.shape
    o, ci, kh, kw = w.shape
    oh = (h - (kh - 1) * dilation[0] - 1) // strides[0] + 1
    ow = (wd - (kw - 1) * dilation[1] - 1) // strides[1] + 1
    out = np.zeros((n, o, oh, ow))
    for i in range(kh):
        for j in range(kw):
            top, left = i * dilation[0], j * dilation[1]
            part = x[:, :, top:top + (oh - 1) * strides[0] + 1:strides[0], left:left + (ow - 1) * strides[1] + 1:strides[1]]
            for g in range(groups):
                cs, os_ = slice(g * ci, (g + 1) * ci), slice(g * (o // groups), (g + 1) * (o // groups))
                out[:, os_] += np.einsum("nchw,oc->nohw", part[:, cs], w[os_, :, i, j].astype(np.float64))
    return out


CONVS = [  # n, c, h, w, o, k, stride, padding, dilation, groups
    (1, 1, 5, 5, 1, (3, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (2, 3, 9, 8, 4, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1),
    (1, 8, 14, 14, 16, (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), 1),
    (1, 16, 7, 7, 8, (1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1),
    (2, 16, 8, 8, 12, (1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1),
    (1, 6, 10, 10, 6, (3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 6),
    (2, 8, 9, 9, 12, (3, 3), (1, 1), (1, 0, 2, 1), (1, 1), 4),
    (1, 4, 12, 12, 5, (3, 2), (1, 2), (2, 1, 2, 1), (2, 3), 1),
    (1, 3, 32, 32, 8, (7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1),
]


def conv_cases():
    for n, c, h, w, o, k, s, p, d, g in CONVS:
        for dtype, tol in [("float32", 1e-4), ("float64", 1e-10)]:
            x, weight = values((n, c, h, w), dtype, -1, 1), values((o, c // g) + k, dtype, -1, 1)
            want = conv_reference(x, weight, s, p, d, g).astype(dtype)
            attrs = f"strides={list(s)}, padding={list(p)}, dilation={list(d)}, groups={g}"
            yield Case(f"nn.conv2d({{}}, {{}}, {attrs})", [x, weight], want, rtol=tol, atol=tol)
            yield Case(f'nn.conv2d({{}}, {{}}, {attrs}, data_layout="NHWC", kernel_layout="HWIO")',
                       [x.transpose(0, 2, 3, 1).copy(), weight.transpose(2, 3, 1, 0).copy()],
                       want.transpose(0, 2, 3, 1), rtol=tol, atol=tol)
            yield Case(f'nn.conv2d({{}}, {{}}, {attrs}, out_layout="NHWC", kernel_layout="OHWI")',
                       [x, weight.transpose(0, 2, 3, 1).copy()], want.transpose(0, 2, 3, 1), rtol=tol, atol=tol)


def windows(x, k, s, p, d, fill):
    x = np.pad(x, ((0, 0), (0, 0), (p[0], p[2] + 50), (p[1], p[3] + 50)), constant_values=fill)
    return lambda oh, ow: np.stack([
        x[:, :, i * d[0]:i * d[0] + (oh - 1) * s[0] + 1:s[0], j * d[1]:j * d[1] + (ow - 1) * s[1] + 1:s[1]]
        for i in range(k[0]) for j in range(k[1])])


def pool_cases():
    for (h, w), k, s, p, d, ceil in [((6, 6), (2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False),
                                     ((7, 9), (3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False),
                                     ((7, 8), (3, 2), (2, 3), (1, 0, 0, 1), (1, 1), True),
                                     ((9, 9), (2, 3), (1, 2), (0, 1, 1, 0), (2, 2), False)]:
        x = values((2, 3, h, w), "float32")
        attrs = (f"pool_size={list(k)}, strides={list(s)}, padding={list(p)}, dilation={list(d)}, ceil_mode={ceil}")

        def out(n, i):
            room = n + p[i] + p[i + 2] - ((k[i] - 1) * d[i] + 1)
            return (room + (s[i] - 1 if ceil else 0)) // s[i] + 1

        oh, ow = out(h, 0), out(w, 1)
        want = windows(x, k, s, p, d, -np.inf)(oh, ow).max(0)
        yield Case(f"nn.max_pool2d({{}}, {attrs})", [x], want)
        yield Case(f'nn.max_pool2d({{}}, {attrs}, layout="NHWC")', [x.transpose(0, 2, 3, 1).copy()],
                   want.transpose(0, 2, 3, 1))
        total = windows(x, k, s, p, d, 0)(oh, ow).sum(0)
        inside = windows(np.ones_like(x), k, s, p, d, 0)(oh, ow).sum(0)
        yield Case(f"nn.avg_pool2d({{}}, {attrs})", [x], total / np.maximum(inside, 1), rtol=1e-5, atol=1e-5)
        padded = np.pad(np.ones_like(x), ((0, 0), (0, 0), (p[0], p[2]), (p[1], p[3])), constant_values=1)
        whole = windows(padded, k, s, (0, 0, 0, 0), d, 0)(oh, ow).sum(0)
        yield Case(f"nn.avg_pool2d({{}}, {attrs}, count_include_pad=True)", [x], total / np.maximum(whole, 1),
                   rtol=1e-5, atol=1e-5)
    x = values((2, 3, 6, 5), "float32")
    yield Case("nn.global_avg_pool2d({})", [x], x.mean((2, 3), keepdims=True), rtol=1e-5, atol=1e-6)
    yield Case("nn.global_max_pool2d({})", [x], x.max((2, 3), keepdims=True))


GROUPS = [unary_cases, binary_cases, cast_cases, reduce_cases, move_cases, product_cases, conv_cases, pool_cases]


def main():
    wanted = sys.argv[1:]
    failures, count = [], 0
    for group in GROUPS:
        if wanted and group.__name__ not in wanted:
            continue
        cases = [c for c in group() if c.want is not None]
        count += len(cases)
        for i in range(0, len(cases), 60):
            failures += run_cases(cases[i:i + 60])
    for f in failures:
        print(f)
    print(f"{count} cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
