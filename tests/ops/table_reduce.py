"""Entries of reductions, products and normalisations."""
import numpy as np

from peer import ALL, FLOATS, INTS, NUMBERS, Case, entry, is_float, np_dtype, to, wide
from table_elementwise import wrapped


REDUCES = [((7,), None), ((3, 5), [0]), ((3, 5), [1]), ((2, 3, 4), [1]), ((2, 3, 4), [0, 2]), ((2, 3, 4), [-1]), ((40, 3), [0]), ((3, 130), [1]), ((2, 3, 4), [-3, 1]),
           ((), None), ((6, 1, 5), [1]), ((4, 1, 3, 2), [2, 3]), ((5, 6), None), ((3, 3), [0])]


def reduces(shape, axis, exclude):
    """The axes that are folded."""
    n = len(shape)
    named = tuple(range(n)) if axis is None else tuple(a % n for a in axis)
    return tuple(i for i in range(n) if i not in named) if exclude else named


def attributes(axis, keep, exclude):
    return f"axis={axis}, keepdims={keep}, exclude={exclude}"


def reduce_cases(shapes=REDUCES):
    for i, (shape, axis) in enumerate(shapes):
        exclude = i % 5 == 4 and axis is not None
        yield shape, reduces(shape, axis, exclude), i % 2 == 1, attributes(axis, i % 2 == 1, exclude)


@entry("sum prod", ALL, ulp=(40, 12, 12))
def total(g, name):
    for shape, axes, keep, text in list(reduce_cases()) + [((0, 3), (0,), False, "axis=[0]"), ((3, 0), (1,), True, "axis=[1], keepdims=True")]:
        x = g.array(shape, *((0.8, 1.2) if name == "prod" else (-4, 4)))

        def want():
            f = np.sum if name == "sum" else np.prod
            if g.dtype == "bool":
                return np.asarray((np.any if name == "sum" else np.all)(x, axis=axes, keepdims=keep))
            if g.float:
                return to(g.dtype, f(wide(x), axis=axes, keepdims=keep))
            return np.asarray(f(x, axis=axes, keepdims=keep, dtype=g.dtype))
        scale = np.sum(np.abs(wide(x)), axis=axes, keepdims=keep) if name == "sum" and g.float else 0
        yield Case(f"{name}({{}}, {text})", [x], want, scale=scale)


@entry("mean", NUMBERS, ulp=(2, 12, 12))
def mean(g, name):
    for shape, axes, keep, text in reduce_cases():
        x = g.array(shape) if g.float else g.small(shape, 0, 100)

        def want():
            if g.float:
                return to(g.dtype, np.mean(wide(x), axis=axes, keepdims=keep))
            n = int(np.prod([shape[a] for a in axes], dtype=int))
            s = np.asarray(np.sum(x, axis=axes, keepdims=keep, dtype=g.dtype)).astype(object)
            return wrapped(g.dtype, np.sign(s + 0) * (abs(s) // n))
        if g.dtype in ("int8", "uint8") and np.prod([shape[a] for a in axes], dtype=int) > 1:  # the sum must fit
            x = g.small(shape, 0, 2)
        scale = np.mean(np.abs(wide(x)), axis=axes, keepdims=keep) if g.float else 0
        yield Case(f"mean({{}}, {text})", [x], want, scale=scale)


@entry("max min", ALL)
def extreme(g, name):
    f = np.max if name == "max" else np.min
    for shape, axes, keep, text in reduce_cases():
        x = g.array(shape)
        yield Case(f"{name}({{}}, {text})", [x], lambda: to(g.dtype, f(wide(x), axis=axes, keepdims=keep)))


@entry("all any", ["bool"])
def truth(g, name):
    f = np.all if name == "all" else np.any
    for shape, axes, keep, text in list(reduce_cases()) + [((0, 3), (0,), False, "axis=[0]")]:
        x = g.array(shape)
        yield Case(f"{name}({{}}, {text})", [x], lambda: np.asarray(f(x, axis=axes, keepdims=keep)))


@entry("argmax argmin", ALL)
def arg_extreme(g, name):
    f = np.argmax if name == "argmax" else np.argmin
    for i, (shape, axes, keep, text) in enumerate(reduce_cases([r for r in REDUCES if r[0]] + [((8, 8), [1])])):
        x, last = g.small(shape, -3, 4), i % 3 == 2

        def want():
            rest = [a for a in range(len(shape)) if a not in axes]
            y = wide(x).transpose(rest + list(axes)).reshape([shape[a] for a in rest] + [-1])
            at = y.shape[-1] - 1 - f(y[..., ::-1], -1) if last else f(y, -1)
            at = np.asarray(at).astype("int32")
            return at.reshape([1 if a in axes else d for a, d in enumerate(shape)]) if keep else at
        yield Case(f"{name}({{}}, {text}, select_last_index={last})", [x], want)


@entry("variance", NUMBERS, ulp=(40, 24, 24))
def variance(g, name):
    for i, (shape, axes, keep, text) in enumerate(reduce_cases(REDUCES[:-1])):
        unbiased = i % 3 == 1 and (g.float or shape != (6, 1, 5))
        x = g.array(shape)
        if not g.float:
            x = g.small(shape, 0, 3)
        m = to(g.dtype, np.mean(wide(x), axis=axes, keepdims=True))

        def want():
            n = int(np.prod([shape[a] for a in axes], dtype=int)) - unbiased
            if g.float:
                return to(g.dtype, np.sum((wide(x) - wide(m)) ** 2, axis=axes, keepdims=keep) / n)
            s = wrapped(g.dtype, np.sum((x.astype(object) - m) ** 2, axis=axes, keepdims=keep))
            s = s.astype(object)
            return wrapped(g.dtype, np.sign(s) * (abs(s) // n))
        yield Case(f"variance({{}}, {{}}, {text}, unbiased={unbiased})", [x, m], want, scale=1)


# ---- products --------------------------------------------------------------------------------------------

def product(g, f, arrays, out):
    """f of the arrays, computed wide, as the element type `out`; and the sum of magnitudes, which rounding errors are
    relative to."""
    if is_float(out):
        a = [wide(to(out, x)) for x in arrays]
        return to(out, f(*a)), f(*[np.abs(v) for v in a])
    a = [to(out, x) for x in arrays]
    return np.asarray(f(*a)).astype(np_dtype(out)), 0


def operands(g, *shapes):
    return [g.array(s, -1, 1) for s in shapes]


def outs(g, i):
    """Every third case has a wider result."""
    wider = {"float16": "float32", "bfloat16": "float32", "float32": "float64", "int8": "int32", "int16": "int32", "uint8": "int32",
             "int32": "int64", "uint16": "uint32", "uint32": "uint64"}
    return wider.get(g.dtype, g.dtype) if i % 3 == 2 else g.dtype


def out_text(g, out, key="out_dtype"):
    return f', {key}="{out}"' if out != g.dtype else ""


ULP_SUM = (16, 8, 8)


def product_case(g, text, arrays, f, out):
    want, scale = product(g, f, arrays, out)
    return Case(text, arrays, lambda: want, scale=scale)


MNK = [(1, 1, 1), (2, 4, 3), (17, 9, 33), (1, 20, 64), (8, 8, 8), (3, 2, 0), (5, 1, 7), (16, 16, 40), (1, 1, 130), (33, 2, 5), (4, 40, 4), (2, 2, 2)]


@entry("nn.dense", ALL, ulp=ULP_SUM)
def dense(g, name):
    for i, (m, n, k) in enumerate(MNK):
        lead = [(m,), (2, m), ()][i % 3] if k else (m,)
        x, w = operands(g, lead + (k,), (n, k))
        out = outs(g, i)
        yield product_case(g, f"nn.dense({{}}, {{}}, units={n if i % 2 else None}{out_text(g, out)})", [x, w],
                           lambda a, b: np.matmul(a, b.T), out)
    other = {"int8": "uint8", "uint8": "int8", "int16": "int8", "uint16": "uint8"}.get(g.dtype)
    for i, (m, n, k) in enumerate(MNK[:6] if other else []):
        x, w = operands(g, (m, k), (n, k))
        w = w.astype(other)
        yield product_case(g, 'nn.dense({}, {}, units=None, out_dtype="int32")', [x, w], lambda a, b: np.matmul(a, b.T), "int32")


@entry("nn.matmul", ALL, ulp=ULP_SUM)
def matmul(g, name):
    for i, (m, n, k) in enumerate(MNK):
        ta, tb, out = i % 2 == 1, i % 4 > 1, outs(g, i)
        lead = [(), (2,), (), (1, 3), ()][i % 5] if k else ()
        a, b = operands(g, lead + ((k, m) if ta else (m, k)), (n, k) if tb else (k, n))
        yield product_case(g, f"nn.matmul({{}}, {{}}, units={n if i % 2 else None}{out_text(g, out)}, transpose_a={ta}, transpose_b={tb})", [a, b],
                           lambda a, b: np.matmul(a.swapaxes(-1, -2) if ta else a, b.T if tb else b), out)


@entry("nn.batch_matmul", ALL, ulp=ULP_SUM)
def batch_matmul(g, name):
    for i, (m, n, k) in enumerate(MNK):
        ta, tb, out = i % 2 == 1, i % 4 > 1, outs(g, i)
        ba, bb = [(3, 3), (1, 4), (4, 1), (1, 1)][i % 4]
        a, b = operands(g, (ba,) + ((k, m) if ta else (m, k)), (bb,) + ((n, k) if tb else (k, n)))
        yield product_case(g, f"nn.batch_matmul({{}}, {{}}{out_text(g, out)}, transpose_a={ta}, transpose_b={tb})", [a, b],
                           lambda a, b: np.matmul(a.swapaxes(1, 2) if ta else a, b.swapaxes(1, 2) if tb else b), out)


@entry("einsum", ALL, ulp=ULP_SUM)
def einsum(g, name):
    for eq, shapes in [("ij,jk->ik", [(2, 3), (3, 4)]), ("ij->ji", [(2, 3)]), ("ii->i", [(3, 3)]), ("ii", [(4, 4)]), ("i,j->ij", [(3,), (4,)]), ("bij,bjk->bik", [(2, 2, 3), (2, 3, 2)]),
                       ("...ij,...jk->...ik", [(2, 2, 3), (3, 4)]), ("ij,jk", [(2, 3), (3, 4)]), ("ijk->", [(2, 3, 4)]), ("ij,ij->i", [(3, 4), (3, 4)]), ("i,i", [(5,), (5,)]),
                       ("bhqd,bhkd->bhqk", [(1, 2, 3, 4), (1, 2, 5, 4)]), ("ij,jk,kl->il", [(2, 3), (3, 2), (2, 2)]), ("...->...", [(2, 3)])]:
        arrays = operands(g, *shapes)
        holes = ", ".join(["{}"] * len(arrays)) + ("," if len(arrays) == 1 else "")
        yield product_case(g, f'einsum(({holes}), equation="{eq}")', arrays, lambda *a: np.einsum(eq, *a), g.dtype)


# ---- normalising -------------------------------------------------------------------------------------------

NORMS = [((2, 3), 1), ((2, 3), 0), ((2, 3, 4), 1), ((2, 3, 4), -1), ((2, 3, 4), 2), ((1, 4, 3, 3), 1), ((2, 3, 3, 4), 3), ((5, 1), 1), ((1, 8, 2, 2), 1), ((2, 2, 2, 2, 2), 1),
         ((3, 7), 1), ((4, 6, 5), 1)]


def along(v, shape, axis):
    return v.reshape([-1 if i == axis % len(shape) else 1 for i in range(len(shape))])


def affine(g, x, y, gamma, beta, axis, i):
    """(text of the attributes, y scaled and shifted)."""
    center, scale = i % 4 != 1, i % 4 != 2
    if scale:
        y = y * along(wide(gamma), x.shape, axis)
    if center:
        y = y + along(wide(beta), x.shape, axis)
    return f"center={center}, scale={scale}", to(g.dtype, y)


ULP_NORM = (24, 64, 64)


@entry("nn.batch_norm", FLOATS, ulp=ULP_NORM)
def batch_norm(g, name):
    for i, (shape, axis) in enumerate(NORMS):
        x, n, eps = g.array(shape), shape[axis], [1e-5, 1e-3][i % 2]
        gamma, beta, m, v = g.array((n,)), g.array((n,)), g.array((n,), -1, 1), g.array((n,), 0.5, 2)
        y = (wide(x) - along(wide(m), shape, axis)) / np.sqrt(along(wide(v), shape, axis) + eps)
        text, want = affine(g, x, y, gamma, beta, axis, i)
        # Means and variances that move belong to training: only the first field is compared with the reference.
        yield Case(f"nn.batch_norm({{}}, {{}}, {{}}, {{}}, {{}}, axis={axis}, epsilon={eps}f, {text})", [x, gamma, beta, m, v],
                   lambda: (want, m, v), scale=8)


@entry("nn.layer_norm", FLOATS, ulp=ULP_NORM)
def layer_norm(g, name):
    for i, (shape, axis) in enumerate(NORMS):
        x, n, eps = g.array(shape), shape[axis], [1e-5, 1e-3][i % 2]
        gamma, beta, w = g.array((n,)), g.array((n,)), wide(x)
        y = (w - w.mean(axis, keepdims=True)) / np.sqrt(w.var(axis, keepdims=True) + eps)
        text, want = affine(g, x, y, gamma, beta, axis, i)
        yield Case(f"nn.layer_norm({{}}, {{}}, {{}}, axis={axis}, epsilon={eps}f, {text})", [x, gamma, beta], lambda: want, scale=8)


@entry("nn.instance_norm", FLOATS, ulp=ULP_NORM)
def instance_norm(g, name):
    for i, (shape, axis) in enumerate([((2, 3, 4), 1), ((2, 3, 4), 2), ((2, 3, 4), -1), ((1, 4, 3, 3), 1), ((2, 3, 3, 4), 3), ((1, 8, 2, 2), 1), ((2, 2, 2, 2, 2), 1), ((4, 6, 5), 1),
                                       ((1, 1, 30), 1), ((3, 2, 7), 2), ((2, 5, 1, 9), 1), ((1, 2, 4, 4), -3)]):
        x, n, eps = g.array(shape), shape[axis], [1e-5, 1e-3][i % 2]
        gamma, beta, w = g.array((n,)), g.array((n,)), wide(x)
        over = tuple(a for a in range(1, len(shape)) if a != axis % len(shape))
        y = (w - w.mean(over, keepdims=True)) / np.sqrt(w.var(over, keepdims=True) + eps)
        text, want = affine(g, x, y, gamma, beta, axis, i)
        yield Case(f"nn.instance_norm({{}}, {{}}, {{}}, axis={axis}, epsilon={eps}f, {text})", [x, gamma, beta], lambda: want, scale=8)


@entry("nn.group_norm", FLOATS, ulp=ULP_NORM)
def group_norm(g, name):
    for i, (shape, groups) in enumerate([((2, 4, 3), 2), ((2, 4, 3), 1), ((2, 4, 3), 4), ((1, 6, 2, 2), 3), ((1, 6, 2, 2), 2), ((2, 8, 3, 3), 4), ((3, 2, 5), 2), ((1, 9, 4), 3), ((2, 4, 2, 2, 2), 2),
                                         ((1, 2, 30), 1), ((4, 4, 4), 2), ((1, 12, 3), 6)]):
        x, n, eps = g.array(shape), shape[1], [1e-5, 1e-3][i % 2]
        gamma, beta = g.array((n,)), g.array((n,))
        w = wide(x).reshape((shape[0], groups, -1))
        y = ((w - w.mean(-1, keepdims=True)) / np.sqrt(w.var(-1, keepdims=True) + eps)).reshape(shape)
        text, want = affine(g, x, y, gamma, beta, 1, i)
        yield Case(f"nn.group_norm({{}}, {{}}, {{}}, num_groups={groups}, axis=1, epsilon={eps}f, {text})", [x, gamma, beta], lambda: want, scale=8)


@entry("nn.l2_normalize", FLOATS, ulp=ULP_SUM)
def l2_normalize(g, name):
    for i, (shape, axis) in enumerate([((3,), [0]), ((2, 3), [1]), ((2, 3), [0]), ((2, 3, 4), [1]), ((2, 3, 4), [1, 2]), ((2, 3, 4), [-1]), ((2, 3, 4, 2), [1]), ((2, 3, 4), None), ((1, 40), [1]),
                                       ((5, 5), [0, 1]), ((7, 1), [1]), ((1, 2, 3), [0])]):
        x, eps = g.array(shape), [1e-5, 2.0, 1e-2][i % 3]
        over = None if axis is None else tuple(axis)
        yield Case(f"nn.l2_normalize({{}}, eps={eps}f, axis={axis})", [x],
                   lambda: to(g.dtype, wide(x) / np.sqrt(np.maximum((wide(x) ** 2).sum(over, keepdims=True), eps))))


@entry("nn.lrn", FLOATS, ulp=ULP_SUM)
def lrn(g, name):
    for i, (shape, size, axis) in enumerate([((1, 5, 2, 2), 3, 1), ((1, 5, 2, 2), 5, 1), ((2, 7, 3, 1), 1, 1), ((1, 2, 2, 5), 3, 3), ((1, 2, 2, 9), 5, 3), ((2, 3, 4, 5), 7, 1), ((2, 3, 4, 5), 3, 3),
                                             ((1, 1, 1, 1), 5, 1), ((1, 12, 2, 2), 9, 1), ((1, 3, 3, 3), 3, 1), ((2, 8, 1, 1), 5, 1), ((1, 2, 3, 6), 1, 3)]):
        x, bias, alpha, beta = g.array(shape), [2.0, 1.0][i % 2], [1e-4, 0.5, 0.1][i % 3], [0.75, 0.5][i % 2]

        def want():
            w = np.moveaxis(wide(x), axis, -1)
            padded = np.pad(w ** 2, [(0, 0)] * 3 + [(size // 2, size // 2)])
            total = sum(padded[..., k:k + w.shape[-1]] for k in range(size))
            return to(g.dtype, np.moveaxis(w / (bias + alpha / size * total) ** beta, -1, axis))
        yield Case(f"nn.lrn({{}}, size={size}, axis={axis}, bias={bias}f, alpha={alpha}f, beta={beta}f)", [x], want)


@entry("nn.dropout", ALL)
def dropout(g, name):
    for i, shape in enumerate([(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 17, 1), (2, 0), (33,), (4, 1, 3, 2), (2, 1, 1, 1, 3), (130,)]):
        x = g.array(shape)
        yield Case(f"nn.dropout({{}}, rate={[0.5, 0.1, 0.0][i % 3]}f).0", [x], lambda: x)


SOFTMAX = [((7,), 0), ((7,), -1), ((3, 5), 0), ((3, 5), 1), ((3, 5), -1), ((2, 3, 4), 1), ((2, 3, 4), -3), ((1, 17), 1), ((33,), 0), ((4, 1, 3, 2), 2), ((1,), 0), ((2, 130), 1)]


@entry("nn.softmax nn.log_softmax nn.fast_softmax", FLOATS, ulp=(4, 24, 24))
def softmax(g, name):
    for i, (shape, axis) in enumerate(SOFTMAX):
        x = g.array(shape, *[(-4, 4), (-30, 30), (80, 100)][i % 3])

        def want():
            w = wide(x) - wide(x).max(axis, keepdims=True)
            e = np.exp(w).sum(axis, keepdims=True)
            return to(g.dtype, w - np.log(e) if name == "nn.log_softmax" else np.exp(w) / e)
        yield Case(f"{name}({{}}, axis={axis})", [x], want, ulp=(8, 60, 2e11) if name == "nn.fast_softmax" else None, scale=1)


@entry("nn.bias_add", ALL)
def bias_add(g, name):
    for shape, axis in NORMS + [((4,), 0)]:
        x, b = g.array(shape), g.array((shape[axis],))
        f = np.logical_or if g.dtype == "bool" else np.add
        with np.errstate(all="ignore"):
            yield Case(f"nn.bias_add({{}}, {{}}, axis={axis})", [x, b], lambda: to(g.dtype, f(wide(x), along(wide(b), shape, axis))))


@entry("nn.prelu", ALL)
def prelu(g, name):
    for shape, axis in NORMS:
        x, a = g.array(shape), g.array((shape[axis],))

        def want():
            f = np.logical_and if g.dtype == "bool" else np.multiply
            return to(g.dtype, np.where(x > 0, wide(x), f(wide(x), along(wide(a), shape, axis))))
        yield Case(f"nn.prelu({{}}, {{}}, axis={axis})", [x, a], want)


@entry("nn.cross_entropy nn.cross_entropy_with_logits", FLOATS, ulp=(24, 24, 24))
def cross_entropy(g, name):
    for b, n in [(1, 1), (2, 3), (5, 4), (3, 10), (1, 40), (40, 2), (7, 7), (2, 130), (4, 1), (10, 10), (3, 3), (6, 5)]:
        x, y = g.array((b, n), 0.1, 1), g.array((b, n), 0, 1)

        def want():
            w = np.log(wide(x)) if name == "nn.cross_entropy" else wide(x)
            return to(g.dtype, -(w * wide(y)).sum() / b)
        yield Case(f"{name}({{}}, {{}})", [x, y], want, scale=float(n))


@entry("nn.nll_loss", FLOATS, ulp=(24, 24, 24))
def nll_loss(g, name):
    for i, shape in enumerate([(1, 2), (3, 4), (3, 4), (5, 10), (2, 3, 4), (2, 3, 4), (2, 3, 2, 2), (1, 7, 3), (40, 3), (2, 5, 1, 1), (6, 6), (4, 2, 5)]):
        x, w, kind = g.array(shape), g.array((shape[1],), 0.5, 2), ["mean", "sum", "none"][i % 3]
        t = g.ints(shape[:1] + shape[2:], 0, shape[1], ["int32", "int64"][i % 2])
        ignore = [-100, 0, 1][i % 3] if i > 5 else -100

        def want():
            at = np.expand_dims(t.astype("int64"), 1)
            weight = np.where(t == ignore, 0, wide(w)[t])
            loss = -weight * np.take_along_axis(wide(x), at, 1).squeeze(1)
            if kind == "none":
                return to(g.dtype, loss)
            return to(g.dtype, loss.sum() / weight.sum() if kind == "mean" else loss.sum())
        yield Case(f'nn.nll_loss({{}}, {{}}, {{}}, reduction="{kind}", ignore_index={ignore})', [x, t, w], want, scale=8 * t.size ** 0.5)
