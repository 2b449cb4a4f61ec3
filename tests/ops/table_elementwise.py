"""Entries of element-wise, broadcasting and creating operators."""
import math

import numpy as np

from peer import (ALL, FLOATS, INTS, NUMBERS, SHAPES, SIGNED, UNSIGNED, Case, entry, np_dtype, to, wide)

erf = np.vectorize(math.erf, otypes=[float])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def half_away(x):
    return np.where(np.isfinite(x), np.trunc(x + np.copysign(0.49999999999999994, x)), x)


# name: what it is, and the interval from which most elements come
FUNCTIONS = {
    "exp": (np.exp, -10, 10), "log": (np.log, 0, 9), "log2": (np.log2, 0, 9), "log10": (np.log10, 0, 9),
    "sqrt": (np.sqrt, 0, 9), "rsqrt": (lambda x: 1 / np.sqrt(x), 0, 9), "tanh": (np.tanh, -9, 9),
    "sigmoid": (sigmoid, -9, 9), "erf": (erf, -4, 4), "sin": (np.sin, -30, 30), "cos": (np.cos, -30, 30),
    "tan": (np.tan, -9, 9), "sinh": (np.sinh, -9, 9), "cosh": (np.cosh, -9, 9), "asin": (np.arcsin, -1, 1),
    "acos": (np.arccos, -1, 1), "atan": (np.arctan, -9, 9), "asinh": (np.arcsinh, -9, 9),
    "acosh": (np.arccosh, 1, 9), "atanh": (np.arctanh, -1, 1),
}


@entry(" ".join(FUNCTIONS), FLOATS, ulp=(1, 5, 5))
def functions(g, name):
    f, low, high = FUNCTIONS[name]
    with np.errstate(all="ignore"):
        for x in [g.special()] + [g.array(s, low, high) for s in SHAPES]:
            # Below the least normal number results may be zero.
            yield Case(f"{name}({{}})", [x], lambda: to(g.dtype, f(wide(x))), scale=1e-31 if name == "sigmoid" else 0)


@entry("fast_exp fast_tanh fast_erf", ["float16", "bfloat16", "float32", "float64"])
def fast(g, name):
    f = {"fast_exp": np.exp, "fast_tanh": np.tanh, "fast_erf": erf}[name]
    for shape in SHAPES:
        x = g.array(shape, -3, 3)
        yield Case(f"{name}({{}})", [x], lambda: to(g.dtype, f(wide(x))), ulp=(2, 200, 2e11), scale=1)


EXACT = {
    "negative": np.negative, "abs": np.abs, "sign": lambda x: np.where(x > 0, 1, np.where(x < 0, -1, 0)), "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": half_away, "copy": lambda x: x,
    "nn.relu": lambda x: np.where(x > 0, x, np.zeros_like(x)), "zeros_like": np.zeros_like, "ones_like": np.ones_like,
}


def exact(g, name):
    f = EXACT[name]
    with np.errstate(all="ignore"):
        for x in [g.special(), g.small((40,))] + [g.array(s) for s in SHAPES]:
            if name in ("floor", "ceil", "trunc", "round") and not g.float:
                yield Case(f"{name}({{}})", [x], lambda: x)
            else:
                yield Case(f"{name}({{}})", [x], lambda: to(g.dtype, f(wide(x))))


entry("negative abs floor ceil trunc round sign nn.relu", NUMBERS)(exact)
entry("copy zeros_like ones_like", ALL)(exact)


MARKS = {"annotation.compiler_begin": ', compiler="c"', "annotation.compiler_end": ', compiler="c"', "annotation.cast_hint": ', dtype="int8"'}


@entry("annotation.expect_shape", ALL)
def expected(g, name):
    for shape in SHAPES:
        x = g.array(shape)
        yield Case(f"{name}({{}}, shape={list(shape)})", [x], lambda: x)
        yield Case(f"{name}({{}}, shape={[-1] * len(shape)})", [x], lambda: x)


@entry("annotation.stop_fusion annotation.checkpoint annotation.compiler_begin annotation.compiler_end annotation.cast_hint "
       "annotation.bitpack_start annotation.bitpack_end annotation.with_funcid device_copy on_device debug", ALL)
def identity(g, name):
    for shape in SHAPES:
        x = g.array(shape)
        yield Case(f"{name}({{}}{MARKS.get(name, '')})", [x], lambda: x)


@entry("logical_not", ["bool"])
def logical_not(g, name):
    for shape in SHAPES:
        x = g.array(shape)
        yield Case("logical_not({})", [x], lambda: ~x)


@entry("bitwise_not", INTS + ["bool"])
def bitwise_not(g, name):
    for x in [g.special()] + [g.array(s) for s in SHAPES]:
        yield Case("bitwise_not({})", [x], lambda: np.invert(x))


@entry("isnan isinf isfinite", ALL)
def tests_of_floats(g, name):
    f = getattr(np, name)
    for x in [g.special()] + [g.array(s) for s in SHAPES]:
        yield Case(f"{name}({{}})", [x], lambda: np.asarray(f(wide(x))))


@entry("nn.leaky_relu", NUMBERS, ulp=1)
def leaky_relu(g, name):
    for i, x in enumerate([g.special()] + [g.array(s) for s in SHAPES]):
        alpha = [0.25, 0.1, 0.0, 2.0, -0.5][i % 5]
        text = f"nn.leaky_relu({{}}, alpha={alpha}f)" if i % 5 else "nn.leaky_relu({})"
        with np.errstate(all="ignore"):
            yield Case(text, [x], lambda: to(g.dtype, np.where(wide(x) > 0, wide(x), wide(x) * wide(to(g.dtype, alpha)))))


@entry("clip", NUMBERS)
def clip(g, name):
    bounds = [(-2, 3), (0, 6), (1, 1), (0, 100), (-1, 1), (2, 5)]
    for i, x in enumerate([g.special()] + [g.array(s) for s in SHAPES]):
        low, high = bounds[i % 6]
        if g.dtype in UNSIGNED:
            low = max(low, 0)
        with np.errstate(all="ignore"):
            def want():
                a, b = to(g.dtype, low), to(g.dtype, high)
                y = np.where(x < b, x, b)
                return np.where(y > a, y, a)
            yield Case(f"clip({{}}, a_min={low}f, a_max={high}f)", [x], want)


@entry("fixed_point_multiply", INTS)
def fixed_point_multiply(g, name):
    # The product of 64 bits must hold it.
    for x in [g.special() if g.dtype[-2:] != "64" else g.small((30,))] + [
            g.array(s) if g.dtype[-2:] != "64" else g.small(s, -2**31, 2**31) for s in SHAPES]:
        m, s = int(g.rng.integers(2**30, 2**31)), int(g.rng.integers(-20, 0))

        def want():
            exact = [(int(v) * m + (1 << (30 - s))) >> (31 - s) for v in x.reshape(-1)]
            return wrapped(g.dtype, np.array(exact, object).reshape(x.shape))
        yield Case(f"fixed_point_multiply({{}}, multiplier={m}, shift={s})", [x], want)


@entry("fixed_point_multiply_per_axis", ["int32"], free=False)
def fixed_point_per_axis(g, name):
    for i, (shape, axis) in enumerate([((2, 3), 0), ((2, 3), 1), ((4,), 0), ((2, 3, 4), 0), ((2, 3, 4), 1),
                                       ((2, 3, 4), 2), ((1, 5), 1), ((3, 1), 0), ((2, 2, 2, 2), 3), ((6, 5), 0),
                                       ((1, 8, 3, 3), 1), ((7, 2), 1)]):
        n = shape[axis]
        x, m = g.ints(shape, -2**27, 2**27), g.ints((n,), 2**30, 2**31 - 1)
        left, right = (g.ints((n,), 0, 4), g.ints((n,), 0, 8))
        if i % 2:
            left = np.zeros_like(left)

        def want():
            at = lambda v: np.broadcast_to(v.reshape([-1 if k == axis else 1 for k in range(len(shape))]), shape).reshape(-1)
            out = []
            for v, mm, l, r in zip(x.reshape(-1), at(m), at(left), at(right)):
                total = 31 + int(r)
                out.append(((int(v) << int(l)) * int(mm) + (1 << (total - 1))) >> total)
            return np.array([(v + 2**31) % 2**32 - 2**31 for v in out], "int32").reshape(shape)
        yield Case(f"fixed_point_multiply_per_axis({{}}, {{}}, {{}}, {{}}, is_lshift_required={bool(i % 2 == 0)}, "
                   f"is_rshift_required=True, axes=[{axis}])", [x, m, left, right], want)


SAME_WIDTH = [["int8", "uint8"], ["int16", "uint16", "float16", "bfloat16"], ["int32", "uint32", "float32"],
              ["int64", "uint64", "float64"]]


@entry("reinterpret", NUMBERS)
def reinterpret(g, name):
    targets = next((t for t in SAME_WIDTH if g.dtype in t), ["int8"])
    for i, x in enumerate([g.special()] + [g.array(s) for s in SHAPES]):
        t = targets[i % len(targets)]
        yield Case(f'reinterpret({{}}, dtype="{t}")', [x], lambda: x.view(np_dtype(t)))


# ---- two operands ---------------------------------------------------------------------------------

PAIRS = [((), ()), ((4,), ()), ((3, 5), (5,)), ((3, 1), (1, 6)), ((2, 3, 4), (3, 1)), ((0, 3), (3,)), ((1,), (2, 2)),
         ((33, 7), (33, 7)), ((2, 1, 3), (4, 1)), ((), (2, 3)), ((5, 1, 0), (1, 4, 1)), ((1, 1), (130,)),
         ((2, 2, 1, 1, 2), (3, 1))]


def pairs(g, low=-4.0, high=4.0):
    """Operands of many shapes, then all pairs of special values."""
    for a, b in PAIRS:
        yield g.array(a, low, high), g.array(b, low, high)
    s = g.special()
    yield s.reshape(-1, 1), s


ARITHMETIC = {"add": np.add, "subtract": np.subtract, "multiply": np.multiply}
COMPARE = {"equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
           "greater": np.greater, "greater_equal": np.greater_equal}
CHOOSE = {"maximum": lambda x, y: np.where(x > y, x, y), "minimum": lambda x, y: np.where(x < y, x, y)}


BOOLEAN = {"add": np.logical_or, "subtract": np.logical_xor, "multiply": np.logical_and}


@entry(" ".join(ARITHMETIC), ALL)
def arithmetic(g, name):
    with np.errstate(all="ignore"):
        for x, y in pairs(g):
            f = BOOLEAN[name] if g.dtype == "bool" else ARITHMETIC[name]
            yield Case(f"{name}({{}}, {{}})", [x, y], lambda: to(g.dtype, f(wide(x), wide(y))))


@entry(" ".join(COMPARE), ALL)
def comparing(g, name):
    for x, y in pairs(g):
        yield Case(f"{name}({{}}, {{}})", [x, y], lambda: np.asarray(COMPARE[name](x, y)))


@entry(" ".join(CHOOSE), ALL)
def choosing(g, name):
    for x, y in pairs(g):
        yield Case(f"{name}({{}}, {{}})", [x, y], lambda: CHOOSE[name](x, y))


def trunc_divide(x, y):
    x, y = x.astype(object), y.astype(object)
    q = abs(x) // abs(y)
    return np.where((x < 0) != (y < 0), -q, q)


def wrapped(dtype, v):
    if dtype == "bool":
        return np.asarray(v).astype(bool)
    bits = 8 * np.dtype(dtype).itemsize
    low = np.iinfo(dtype).min
    return np.asarray(np.vectorize(lambda e: (int(e) - low) % 2**bits + low, otypes=[object])(v) if np.size(v) else v).astype(dtype)


DIVIDE = {"divide": trunc_divide, "trunc_divide": trunc_divide, "floor_divide": lambda x, y: x.astype(object) // y.astype(object),
          "floor_mod": lambda x, y: x.astype(object) % y.astype(object),
          "trunc_mod": lambda x, y: x.astype(object) - trunc_divide(x, y) * y.astype(object),
          "mod": lambda x, y: x.astype(object) - trunc_divide(x, y) * y.astype(object)}
DIVIDE_FLOATS = {"divide": np.divide, "trunc_divide": lambda x, y: np.trunc(x / y), "floor_divide": lambda x, y: np.floor(x / y),
                 "trunc_mod": np.fmod, "mod": np.fmod, "floor_mod": np.mod}


@entry(" ".join(DIVIDE), ALL)
def dividing(g, name):
    for x, y in pairs(g):
        if g.dtype == "bool":
            y = np.ones_like(y)  # by nothing else can one divide
        elif g.float and name != "divide":
            # Quotients far from whole numbers: there one rounding decides the whole result.
            y = to(g.dtype, np.where(np.abs(wide(y)) < 0.5, 1.5, wide(y)))
            with np.errstate(all="ignore"):
                q = np.abs(np.divide(*np.broadcast_arrays(wide(x), wide(y))))
            if (q > 1000).any() or not np.isfinite(q).all():
                x, y = g.array((5, 7)), g.array((7,), 0.5, 3)
        elif not g.float:
            y = np.where(y == 0, 3, y).astype(g.dtype)
        with np.errstate(all="ignore"):
            yield Case(f"{name}({{}}, {{}})", [x, y],
                       (lambda: to(g.dtype, DIVIDE_FLOATS[name](wide(x), wide(y)))) if g.float else
                       (lambda: wrapped(g.dtype, DIVIDE[name](x, y))), ulp=2 if g.float and "mod" in name else 0,
                       scale=4 if "mod" in name else 0)


@entry("power", FLOATS, ulp=(1, 5, 5))
def power(g, name):
    with np.errstate(all="ignore"):
        for x, y in pairs(g, 0.1, 4):
            yield Case("power({}, {})", [x, y], lambda: to(g.dtype, np.power(wide(x), wide(y))))


@entry("left_shift right_shift", INTS + ["bool"])
def shifts(g, name):
    bits = 1 if g.dtype == "bool" else 8 * np_dtype(g.dtype).itemsize
    for x, y in pairs(g):
        if g.dtype == "bool":
            y = np.zeros_like(y)
        else:
            y = np.asarray(g.rng.integers(0, bits + 4, y.shape)).astype(x.dtype)

        def want():
            f = (lambda a, n: a << n) if name == "left_shift" else (lambda a, n: a >> n)
            a, n = np.broadcast_arrays(x.astype(object), y.astype(object))
            return wrapped(g.dtype, np.array([f(int(p), int(q)) for p, q in zip(a.reshape(-1), n.reshape(-1))],
                                             object).reshape(a.shape))
        yield Case(f"{name}({{}}, {{}})", [x, y], want)


@entry("logical_and logical_or logical_xor", ["bool"])
def logic(g, name):
    for x, y in pairs(g):
        yield Case(f"{name}({{}}, {{}})", [x, y], lambda: np.asarray(getattr(np, name)(x, y)))


@entry("bitwise_and bitwise_or bitwise_xor", INTS + ["bool"])
def bitwise(g, name):
    for x, y in pairs(g):
        yield Case(f"{name}({{}}, {{}})", [x, y], lambda: np.asarray(getattr(np, name)(x, y)))


@entry("where", ALL)
def where(g, name):
    conditions = [(), (3, 1), (5,), (1,), (2, 3, 4), (0, 3)]
    for i, (x, y) in enumerate(pairs(g)):
        shape = np.broadcast_shapes(x.shape, y.shape)
        c = g.array([shape, (), shape[-1:], (1,)][i % 4], dtype=["bool", "bool", "int32", "float32", "uint8"][i % 5])
        if i % 5 > 1:
            c = to(str(c.dtype), np.asarray(g.rng.integers(0, 2, c.shape)))
        yield Case("where({}, {}, {})", [c, x, y], lambda: np.where(c != 0, x, y))


# ---- creating -------------------------------------------------------------------------------------

def listed(shape):
    return "[" + ", ".join(map(str, shape)) + "]"


@entry("zeros ones", ALL)
def constant(g, name):
    for s in SHAPES:
        yield Case(f'{name}(shape={listed(s)}, dtype="{g.dtype}")', [], lambda: np.full(s, name == "ones", np_dtype(g.dtype)))


@entry("full", ALL)
def full(g, name):
    for i, s in enumerate(SHAPES):
        v = g.array(())
        t = g.dtype if i % 2 else ""
        yield Case(f"full({{}}, shape={listed(s)}" + (f', dtype="{t}")' if t else ")"), [v], lambda: np.full(s, v))


@entry("full_like", ALL)
def full_like(g, name):
    for s in SHAPES:
        x, v = g.array(s), g.array(())
        yield Case("full_like({}, {})", [x, v], lambda: np.full(s, v))


@entry("arange", NUMBERS)
def arange(g, name):
    for a, b, s in [(0, 7, 1), (0, 7, 2), (1, 8, 3), (5, 6, 1), (0, 100, 7), (2, 9, 4), (3, 40, 5), (0, 1, 1), (10, 0, -1),
                    (9, 1, -3), (1, 3, 0.5), (-3, 3, 1), (0, 16, 1)]:
        if s != int(s) and not g.float or min(a, s) < 0 and g.dtype not in SIGNED + FLOATS:
            a, b, s = 2, 20, 6
        args = [np.asarray(to(g.dtype, np.float64(v))) for v in (a, b, s)]
        yield Case(f'arange({{}}, {{}}, {{}}, dtype="{g.dtype}")', args, lambda: to(g.dtype, np.arange(a, b, s).astype("float64")))


def halves(g):
    """What lies in the middle between two float16, bfloat16 or float32, and a little beside it."""
    if g.dtype == "bool":
        return g.special()
    if g.float:
        return to(g.dtype, np.array([1 + 2.0**-b + side for b in (8, 9, 11, 12, 24, 25) for side in
                                     (0, 2.0**-30, -2.0**-30, 2.0**-50, -2.0**-50)]))
    bits = 8 * np.dtype(g.dtype).itemsize
    return np.array([v for b in range(bits // 2, bits - 1) for p in (7, 8, 9, 11, 24) if b > p
                     for v in ((1 << b) + (1 << (b - p)), (1 << b) + (1 << (b - p)) + 1, (1 << b) + (1 << (b - p)) - 1)]
                    + [1, 2], g.dtype)


@entry("cast", ALL)
def cast(g, name):
    for t in ALL:
        for x in [g.special(), halves(g), g.array((3, 7), -90, 90), g.array((2, 0)), g.array(())]:
            yield Case(f'cast({{}}, dtype="{t}")', [x], lambda: to(t, x))


@entry("cast_like", ALL)
def cast_like(g, name):
    for i, t in enumerate(ALL):
        x, like = g.array(SHAPES[i % 12], -90, 90), g.array(SHAPES[(i + 3) % 12], dtype=t)
        yield Case("cast_like({}, {})", [x, like], lambda: to(t, x))


def one_hot_of(indices, depth, axis, on, off, dtype):
    out = (np.expand_dims(indices.astype("int64"), -1) == np.arange(depth))
    axis = axis % (indices.ndim + 1)
    return np.where(np.moveaxis(out, -1, axis), on, off).astype(np_dtype(dtype))


ONE_HOT = [((), 3, -1), ((4,), 4, -1), ((4,), 5, 0), ((4,), 1, 1), ((2, 3), 4, -1), ((2, 3), 4, 0), ((2, 3), 4, 1), ((2, 3), 4, 2),
           ((0,), 3, -1), ((2, 2, 2), 6, 1), ((7,), 2, -1), ((3, 1), 8, -1)]


@entry("one_hot", ALL)
def one_hot(g, name):
    for i, (shape, depth, axis) in enumerate(ONE_HOT):
        ids = g.ints(shape, -1, depth + 2, ["int32", "int64", "int8", "int16"][i % 4])
        on, off = g.array(()), g.array(())
        yield Case(f'one_hot({{}}, {{}}, {{}}, depth={depth}, axis={axis}, dtype="{g.dtype}")', [ids, on, off],
                   lambda: one_hot_of(ids, depth, axis, on, off, g.dtype))


@entry("shape_of vm.shape_of ndarray_size", ALL)
def sizes(g, name):
    for i, s in enumerate([(5, 2)] + SHAPES[1:]):
        x, t = g.array(s), ["int32", "int64", "uint8"][i % 3]
        if name != "ndarray_size":
            yield Case(f'{name}({{}}, dtype="{t}")', [x], lambda: np.array(s, t))
        else:
            yield Case(f'ndarray_size({{}}, dtype="{t}")', [x], lambda: np.asarray(np.prod(s, dtype="int64")).astype(t))


@entry("trilu", ALL)
def trilu(g, name):
    for i, s in enumerate([(3, 3), (3, 5), (5, 3), (2, 4, 4), (1, 1), (0, 3), (2, 3, 2, 3), (1, 6), (6, 1), (4, 4), (4, 4), (7, 7)]):
        x, k, upper = g.array(s), np.array([0, 1, -1, 2, -2, 9, -9][i % 7], "int32"), i % 2 == 0
        yield Case(f"trilu({{}}, {{}}, upper={upper})", [x, k], lambda: (np.triu if upper else np.tril)(x, int(k)))


@entry("meshgrid", ALL)
def meshgrid(g, name):
    for i, dims in enumerate([(3,), (2, 3), (3, 2), (1, 4), (2, 2, 2), (2, 3, 4), (5, 1), (1, 1), (4, 3), (2, 1, 3), (6,), (3, 3)]):
        arrays = [g.array((d,)) for d in dims]
        indexing = "xy" if i % 2 else "ij"
        holes = ", ".join(["{}"] * len(dims)) + ("," if len(dims) == 1 else "")
        yield Case(f'meshgrid(({holes}), indexing="{indexing}")', arrays,
                   lambda: tuple(np.meshgrid(*arrays, indexing=indexing)))
