"""Entries of operators on windows: convolution, pooling, resizing."""
import itertools

import ml_dtypes
import numpy as np

from peer import ALL, FLOATS, NUMBERS, Case, entry, is_float, np_dtype, to, wide
from table_reduce import ULP_SUM, out_text, outs, product, product_case
from table_elementwise import wrapped

LETTERS = {1: "W", 2: "HW", 3: "DHW"}


def permuted(x, src, dst):
    """x of layout src in layout dst, both words over the same letters."""
    return np.ascontiguousarray(x.transpose([src.index(c) for c in dst]))


def conv_of(x, w, strides, pads, dilation, groups):
    """N C spatial and O I spatial; pads (before, after) for each axis."""
    n = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + list(pads))
    k = w.shape[2:]
    size = [(x.shape[2 + i] - (k[i] - 1) * dilation[i] - 1) // strides[i] + 1 for i in range(n)]
    o, ci = w.shape[:2]
    out = np.zeros([x.shape[0], o] + size, x.dtype)
    for at in itertools.product(*map(range, k)):
        part = x[(slice(None), slice(None)) + tuple(
            slice(at[i] * dilation[i], at[i] * dilation[i] + (size[i] - 1) * strides[i] + 1, strides[i]) for i in range(n))]
        for g in range(groups):
            os = slice(g * (o // groups), (g + 1) * (o // groups))
            cut = part[:, g * ci:(g + 1) * ci]
            out[:, os] += np.moveaxis(np.tensordot(w[(os, slice(None)) + at], cut, (1, 1)), 0, 1)
    return out


def transposed_of(x, w, strides, pads, extra, dilation, groups):
    """N C spatial and C O/groups spatial: each input element adds a kernel to the result."""
    n, k = x.ndim - 2, w.shape[2:]
    full = [(x.shape[2 + i] - 1) * strides[i] + (k[i] - 1) * dilation[i] + 1 + extra[i] for i in range(n)]
    og, cg = w.shape[1], x.shape[1] // groups
    out = np.zeros([x.shape[0], og * groups] + full, x.dtype)
    for at in itertools.product(*map(range, k)):
        to_ = tuple(slice(at[i] * dilation[i], at[i] * dilation[i] + (x.shape[2 + i] - 1) * strides[i] + 1, strides[i]) for i in range(n))
        for g in range(groups):
            cs, os = slice(g * cg, (g + 1) * cg), slice(g * og, (g + 1) * og)
            out[(slice(None), os) + to_] += np.moveaxis(np.tensordot(w[(cs, slice(None)) + at], x[:, cs], (0, 1)), 0, 1)
    return out[(slice(None), slice(None)) + tuple(slice(a, out.shape[2 + i] - b) for i, (a, b) in enumerate(pads))]


# batch, channels, out channels, groups; then an axis each: extent, kernel, stride, before, after, dilation
CONVS = [(1, 1, 1, 1, (5, 3, 1, 0, 0, 1)), (2, 3, 4, 1, (7, 3, 1, 1, 1, 1)), (1, 4, 8, 1, (6, 3, 2, 1, 1, 1)), (1, 6, 4, 1, (4, 1, 1, 0, 0, 1)), (2, 4, 6, 1, (5, 1, 2, 0, 0, 1)),
         (1, 4, 4, 4, (6, 3, 1, 1, 1, 1)), (2, 4, 6, 2, (5, 3, 1, 1, 0, 1)), (1, 2, 3, 1, (8, 3, 1, 2, 1, 2)), (1, 3, 2, 1, (9, 5, 2, 2, 2, 1)), (1, 2, 4, 2, (7, 2, 3, 0, 1, 3)),
         (1, 3, 6, 3, (5, 3, 2, 0, 2, 1)), (3, 1, 2, 1, (4, 4, 1, 0, 0, 1))]


def axes_of(n, window, i):
    """One window for each axis; the axes differ a little."""
    e, k, s, a, b, d = window
    return [(e + j, max(1, k - (j == 1 and i % 4 == 3 and k > 1)), s, a, b, d) for j in range(n)]


def layouts(n, i, kernels):
    s = LETTERS[n]
    data = ["NC" + s, "N" + s + "C"][i % 2]
    return data, [k.replace("*", s) for k in kernels][i % len(kernels)]


@entry("nn.conv1d nn.conv2d nn.conv3d", ALL, ulp=ULP_SUM)
def conv(g, name):
    n = int(name[7])
    for i, (batch, c, o, groups, window) in enumerate(CONVS):
        axes = axes_of(n, window, i)
        base, kernel = "NC" + LETTERS[n], "OI" + LETTERS[n]
        data_layout, kernel_layout = layouts(n, i, ["OI*", "*IO"] if groups == 1 or i % 2 == 0 else ["OI*"])
        x, w = g.array((batch, c, *[a[0] for a in axes]), -1, 1), g.array((o, c // groups, *[a[1] for a in axes]), -1, 1)
        out = outs(g, i)
        stride, dilation = [a[2] for a in axes], [a[5] for a in axes]
        pads = [(a[3], a[4]) for a in axes]
        padding = [p[0] for p in pads] + [p[1] for p in pads]

        def f(a, b):
            y = conv_of(permuted(a, data_layout, base), permuted(b, kernel_layout, kernel), stride, pads, dilation, groups)
            return permuted(y, base, data_layout)
        text = (f"{name}({{}}, {{}}, strides={stride}, padding={padding}, dilation={dilation}, groups={groups}, channels={o}, "
                f'kernel_size={[a[1] for a in axes]}, data_layout="{data_layout}", kernel_layout="{kernel_layout}"{out_text(g, out)})')
        yield product_case(g, text, [permuted(x, base, data_layout), permuted(w, kernel, kernel_layout)], f, out)


@entry("nn.conv1d_transpose nn.conv2d_transpose nn.conv3d_transpose", ALL, ulp=ULP_SUM)
def conv_transpose(g, name):
    n = int(name[7])
    for i, (batch, c, o, groups, window) in enumerate(CONVS):
        axes = axes_of(n, window, i)
        axes = [(max(2, e // 2), k, s, min(a, k - 1), min(b, k - 1), d if i != 9 else 1) for e, k, s, a, b, d in axes]
        base, kernel = "NC" + LETTERS[n], "IO" + LETTERS[n]
        data_layout, kernel_layout = layouts(n, i, ["IO*", "OI*"] if groups == 1 else ["IO*"])
        # Of one and three axes the weight is (channels of the data, of the result, …) by either name.
        order = kernel_layout if n == 2 else kernel
        x, w = g.array((batch, c, *[a[0] for a in axes]), -1, 1), g.array((c, o // groups, *[a[1] for a in axes]), -1, 1)
        out = outs(g, i)
        stride, dilation, pads = [a[2] for a in axes], [a[5] for a in axes], [(a[3], a[4]) for a in axes]
        extra = [(s - 1) * (i % 2) for s in stride]
        padding = [p[0] for p in pads] + [p[1] for p in pads]

        def f(a, b):
            y = transposed_of(permuted(a, data_layout, base), permuted(b, order, kernel), stride, pads, extra, dilation, groups)
            return permuted(y, base, data_layout)
        text = (f"{name}({{}}, {{}}, channels={o}, kernel_size={[a[1] for a in axes]}, strides={stride}, output_padding={extra}, padding={padding}, "
                f'dilation={dilation}, groups={groups}, data_layout="{data_layout}", kernel_layout="{kernel_layout}"{out_text(g, out)})')
        yield product_case(g, text, [permuted(x, base, data_layout), permuted(w, kernel, order)], f, out)


@entry("nn.conv2d_backward_weight", FLOATS, ulp=ULP_SUM)
def backward_weight(g, name):
    for i, (batch, c, o, groups, window) in enumerate(CONVS):
        axes = axes_of(2, window, i)
        stride, dilation, pads, k = [a[2] for a in axes], [a[5] for a in axes], [(a[3], a[4]) for a in axes], [a[1] for a in axes]
        x = g.array((batch, c, *[a[0] for a in axes]), -1, 1)
        size = [(e + a + b - (kk - 1) * d - 1) // s + 1 for e, kk, s, a, b, d in axes]
        grad = g.array((batch, o, *size), -1, 1)

        def f(gr, data):
            xp = np.pad(data, [(0, 0), (0, 0)] + pads)
            out = np.zeros((o, c // groups, *k))
            for at in itertools.product(*map(range, k)):
                part = xp[:, :, at[0] * dilation[0]:, at[1] * dilation[1]:][:, :, :(size[0] - 1) * stride[0] + 1:stride[0], :(size[1] - 1) * stride[1] + 1:stride[1]]
                for q in range(groups):
                    os, cs = slice(q * (o // groups), (q + 1) * (o // groups)), slice(q * (c // groups), (q + 1) * (c // groups))
                    out[(os, slice(None)) + at] = np.einsum("nohw,nchw->oc", gr[:, os], part[:, cs])
            # The weight of a convolution by channel is (channels, results of each).
            return out.reshape(c, o // c, *k) if groups == c and c > 1 else out
        padding = [p[0] for p in pads] + [p[1] for p in pads]
        yield product_case(g, f"{name}({{}}, {{}}, strides={stride}, padding={padding}, dilation={dilation}, groups={groups}, channels={o}, kernel_size={k})",
                           [grad, x], f, g.dtype)


# ---- pooling ---------------------------------------------------------------------------------------------

# an axis: extent, window, stride, before, after, dilation; and ceil_mode
POOLS = [((6, 2, 2, 0, 0, 1), False), ((7, 3, 2, 1, 1, 1), False), ((7, 3, 3, 1, 0, 1), True), ((9, 2, 1, 0, 1, 2), False), ((5, 5, 1, 0, 0, 1), False), ((4, 1, 1, 0, 0, 1), False),
         ((8, 3, 2, 0, 0, 1), True), ((6, 2, 3, 1, 1, 1), True), ((5, 3, 1, 1, 1, 1), False), ((7, 2, 2, 0, 1, 1), True), ((9, 3, 2, 1, 1, 2), False), ((10, 4, 3, 2, 1, 1), True)]


def pool_out(a, ceil):
    e, k, s, before, after, d = a
    room = e + before + after - ((k - 1) * d + 1)
    return (room + (s - 1 if ceil else 0)) // s + 1


def pooled(x, axes, ceil, f):
    """f(the elements of a window inside the input, the number of its places inside the padded input) for N C spatial."""
    n = len(axes)
    out = np.empty(x.shape[:2] + tuple(pool_out(a, ceil) for a in axes), object)
    for at in itertools.product(*[range(m) for m in out.shape[2:]]):
        index, padded = [], 1
        for j, (e, k, s, before, after, d) in enumerate(axes):
            places = at[j] * s - before + d * np.arange(k)
            index.append(places[(places >= 0) & (places < e)])
            padded *= ((places >= -before) & (places < e + after)).sum()
        part = x[np.ix_(range(x.shape[0]), range(x.shape[1]), *index)]
        out[(slice(None), slice(None)) + at] = f(part.reshape(x.shape[:2] + (-1,)), int(padded))
    return out


def pool_text(axes, layout, ceil):
    return (f"pool_size={[a[1] for a in axes]}, strides={[a[2] for a in axes]}, dilation={[a[5] for a in axes]}, "
            f'padding={[a[3] for a in axes] + [a[4] for a in axes]}, layout="{layout}", ceil_mode={ceil}')


def least_of(dtype):
    if dtype == "bool":
        return False
    return -np.inf if is_float(dtype) else np.iinfo(dtype).min


@entry("nn.max_pool1d nn.max_pool2d nn.max_pool3d", ALL)
def max_pool(g, name):
    n = int(name[11])
    for i, (window, ceil) in enumerate(POOLS):
        axes, base = axes_of(n, window, i), "NC" + LETTERS[n]
        layout = [base, "N" + LETTERS[n] + "C"][i % 2]
        x = g.array((1 + i % 2, 2, *[a[0] for a in axes]))

        # In the padding alone the greatest is the least finite number.
        least = float(ml_dtypes.finfo(np_dtype(g.dtype)).min) if g.float else least_of(g.dtype)

        def want():
            y = pooled(wide(x), axes, ceil, lambda part, _: part.max(-1, initial=least))
            return permuted(to(g.dtype, y.astype(wide(x).dtype)), base, layout)
        yield Case(f"{name}({{}}, {pool_text(axes, layout, ceil)})", [permuted(x, base, layout)], want)


def mean_of(dtype, part, count):
    if is_float(dtype):
        return part.sum(-1) / max(count, 1)
    s = wrapped(dtype, part.astype(object).sum(-1)).astype(object)
    return np.sign(s) * (abs(s) // max(count, 1))


@entry("nn.avg_pool1d nn.avg_pool2d nn.avg_pool3d", NUMBERS, ulp=ULP_SUM)
def avg_pool(g, name):
    n = int(name[11])
    for i, (window, ceil) in enumerate(POOLS):
        axes, base, include = axes_of(n, window, i), "NC" + LETTERS[n], i % 3 == 1
        layout = [base, "N" + LETTERS[n] + "C"][i % 2]
        shape = (1 + i % 2, 2, *[a[0] for a in axes])
        x = g.array(shape) if g.float else g.small(shape, 0, 3)

        def want():
            y = pooled(wide(x), axes, ceil, lambda part, p: mean_of(g.dtype, part, p if include else part.shape[-1]))
            return permuted(to(g.dtype, y.astype("float64" if g.float else np_dtype(g.dtype))), base, layout)
        yield Case(f"{name}({{}}, {pool_text(axes, layout, ceil)}, count_include_pad={include})", [permuted(x, base, layout)], want, scale=1)


def global_pool(g, name):
    for i, (h, w) in enumerate([(1, 1), (3, 5), (7, 7), (1, 9), (9, 1), (2, 2), (4, 6), (10, 10), (3, 3), (5, 2), (6, 1), (8, 3)]):
        layout = ["NCHW", "NHWC"][i % 2]
        x = g.array((1 + i % 3, 3, h, w)) if g.float or "max" in name else g.small((1 + i % 3, 3, h, w), 0, 2)

        def want():
            y = wide(x).max((2, 3)) if "max" in name else mean_of(g.dtype, wide(x).reshape(x.shape[:2] + (-1,)), h * w)
            y = np.asarray(y).astype("float64") if g.float else np.asarray(y)
            return permuted(to(g.dtype, y if g.float else y.astype(np_dtype(g.dtype))).reshape(x.shape[:2] + (1, 1)), "NCHW", layout)
        yield Case(f'{name}({{}}, layout="{layout}")', [permuted(x, "NCHW", layout)], want, scale=1)


entry("nn.global_max_pool2d", ALL)(global_pool)
entry("nn.global_avg_pool2d", NUMBERS, ulp=ULP_SUM)(global_pool)


def adaptive_pool(g, name):
    n, most = int(name[-2]), "max" in name
    for i, (e, o) in enumerate([(4, 2), (5, 2), (7, 3), (3, 3), (4, 1), (2, 4), (6, 4), (9, 2), (8, 8), (10, 3), (1, 1), (7, 5)]):
        base = "NC" + LETTERS[n]
        layout = [base, "N" + LETTERS[n] + "C"][i % 2]
        size = [e + j for j in range(n)]
        asked = [[o] * n, [o], []][i % 3 if i > 5 else 0]
        outs_ = size if not asked else [o] * n
        x = g.array((1, 2, *size)) if g.float or most else g.small((1, 2, *size), 0, 2)

        def want():
            y = np.empty((1, 2, *outs_), object)
            for at in itertools.product(*map(range, outs_)):
                part = wide(x)[(slice(None), slice(None)) + tuple(
                    slice(k * d // m, -(-(k + 1) * d // m)) for k, d, m in zip(at, size, outs_))].reshape(1, 2, -1)
                y[(slice(None), slice(None)) + at] = part.max(-1) if most else mean_of(g.dtype, part, part.shape[-1])
            return permuted(to(g.dtype, y.astype("float64" if g.float else np_dtype(g.dtype))), base, layout)
        yield Case(f'{name}({{}}, output_size={asked}, layout="{layout}")', [permuted(x, base, layout)], want, scale=1)


entry(" ".join(f"nn.adaptive_max_pool{n}d" for n in (1, 2, 3)), ALL)(adaptive_pool)
entry(" ".join(f"nn.adaptive_avg_pool{n}d" for n in (1, 2, 3)), NUMBERS, ulp=ULP_SUM)(adaptive_pool)


@entry("nn.max_pool2d_grad nn.avg_pool2d_grad", FLOATS, ulp=ULP_SUM)
def pool_grad(g, name):
    for i, (window, ceil) in enumerate(POOLS):
        axes, include = axes_of(2, window, i), i % 3 == 1
        x = g.array((1, 2, axes[0][0], axes[1][0]))
        size = [pool_out(a, ceil) for a in axes]
        grad = g.array((1, 2, *size))

        def want():
            out, xs, gs = np.zeros(x.shape), wide(x), wide(grad)
            for at in itertools.product(*map(range, size)):
                index, padded = [], 1
                for j, (e, k, s, before, after, d) in enumerate(axes):
                    places = at[j] * s - before + d * np.arange(k)
                    index.append(places[(places >= 0) & (places < e)])
                    padded *= ((places >= -before) & (places < e + after)).sum()
                inside = list(itertools.product(*index))
                for c in range(2):
                    v = gs[(0, c) + at]
                    if "max" in name and inside:
                        best = max(inside, key=lambda p: (xs[0, c, p[0], p[1]], -inside.index(p)))
                        out[0, c, best[0], best[1]] += v
                    elif inside:
                        for p in inside:
                            out[0, c, p[0], p[1]] += v / max(1, padded if include else len(inside))
            return to(g.dtype, out)
        more = f", count_include_pad={include}" if "avg" in name else ""
        yield Case(f'{name}({{}}, {{}}, {pool_text(axes, "NCHW", ceil)}{more})', [grad, x], want, scale=4)


# ---- resizing ---------------------------------------------------------------------------------------------

def source(mode, x, n, m, roi=(0, 1)):
    """Where output x of m lies in an input of n."""
    sc = n / m
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and m > 1):
        return (x + 0.5) * sc - 0.5
    if mode == "pytorch_half_pixel":
        return 0.0
    if mode == "align_corners":
        return x * (n - 1) / (m - 1) if m > 1 else 0.0
    if mode == "asymmetric":
        return x * sc
    if mode == "tf_half_pixel_for_nn":
        return (x + 0.5) * sc
    s, e = roi
    return s * (n - 1) + x * (e - s) * (n - 1) / (m - 1) if m > 1 else 0.5 * (s + e) * (n - 1)


def nearest(rounding, mode, v):
    if rounding == "":
        rounding = "round" if mode == "align_corners" else "floor"
    return {"round": lambda v: np.floor(v + 0.5), "floor": lambda v: np.floor(v + 1e-5), "ceil": lambda v: np.ceil(v - 1e-5),
            "round_prefer_floor": lambda v: np.ceil(v - 0.5), "round_prefer_ceil": lambda v: np.floor(v + 0.5)}[rounding](v)


def cubic_weights(t, a):
    d = np.array([1 + t, t, 1 - t, 2 - t])
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    return np.where(d <= 1, near, far)


def taps(method, mode, rounding, alpha, exclude, x, n, m, roi=(0, 1)):
    """(places, weights) of an output along an axis."""
    v = source(mode, x, n, m, roi)
    if method == "nearest_neighbor":
        return [int(np.clip(nearest(rounding, mode, v), 0, n - 1))], [1.0], v
    low = int(np.floor(v))
    t = v - low
    if method == "linear":
        places, weights = [low, low + 1], [1 - t, t]
    else:
        places, weights = [low - 1, low, low + 1, low + 2], cubic_weights(t, alpha)
        if exclude:
            weights = np.where([0 <= p < n for p in places], weights, 0)
            weights = weights / weights.sum()
    return [min(max(p, 0), n - 1) for p in places], weights, v


def resized(x, size, method, mode, rounding="round", alpha=-0.5, exclude=0, roi=None, extrapolation=0.0):
    """The spatial axes of N C spatial, one after the other."""
    outside = np.zeros(x.shape[:2] + tuple(size), bool)
    for j, m in enumerate(size):
        n, axis = x.shape[2 + j], 2 + j
        part = []
        for k in range(m):
            r = (roi[j], roi[len(size) + j]) if roi else (0, 1)
            places, weights, v = taps(method, mode, rounding, alpha, exclude, k, n, m, r)
            part.append(sum(np.take(x, p, axis) * w for p, w in zip(places, weights)))
            if mode == "tf_crop_and_resize" and not 0 <= v <= n - 1:
                outside[(slice(None),) * axis + (k,)] = True
        x = np.stack(part, axis)
    return np.where(outside, extrapolation, x)


RESIZES = [("nearest_neighbor", "asymmetric", "floor"), ("nearest_neighbor", "half_pixel", "round"), ("nearest_neighbor", "align_corners", "round"),
           ("nearest_neighbor", "half_pixel", "round_prefer_floor"), ("nearest_neighbor", "asymmetric", "ceil"), ("nearest_neighbor", "align_corners", ""),
           ("linear", "half_pixel", "round"), ("linear", "align_corners", "round"), ("linear", "asymmetric", "round"), ("linear", "pytorch_half_pixel", "round"),
           ("cubic", "half_pixel", "round"), ("cubic", "align_corners", "round"), ("cubic", "asymmetric", "round"), ("linear", "tf_crop_and_resize", "round")]
SIZES = [(4, 8), (5, 3), (3, 7), (6, 6), (5, 10), (7, 2), (4, 9), (3, 5), (8, 4), (5, 1), (6, 11), (4, 7), (5, 8), (6, 5)]


@entry("image.resize1d image.resize2d image.resize3d", NUMBERS, ulp=(8, 64, 2e10))
def resize(g, name):
    n = int(name[-2])
    for i, ((method, mode, rounding), (e, m)) in enumerate(zip(RESIZES, SIZES)):
        base = "NC" + LETTERS[n]
        layout = [base, "N" + LETTERS[n] + "C"][i % 2]
        alpha, exclude = [-0.5, -0.75][i % 2], i % 2
        shape, size = (1, 2, *[e + j for j in range(n)]), [m + (j if m > 1 else 0) for j in range(n)]
        if not g.float and method != "nearest_neighbor":
            # Integers are computed as float32 and cut: the weights must be exact, halves and quarters.
            mode, size, exclude = mode if mode == "half_pixel" else "asymmetric", [2 * d for d in shape[2:]], 0
        x = g.array(shape) if g.float else g.small(shape, 0, 50 if n < 3 else 4)
        roi = [0.1] * n + [0.8] * n if mode.startswith("tf_crop") else [0.0] * 2 * n
        text = ", ".join(f"{v}f" for v in roi)

        def want():
            return permuted(to(g.dtype, resized(wide(x), size, method, mode, rounding, alpha, exclude, roi)), base, layout)
        yield Case(f'{name}({{}}, size={size}, roi=[{text}], layout="{layout}", method="{method}", coordinate_transformation_mode="{mode}", '
                   f'rounding_method="{rounding}", cubic_alpha={alpha}f, cubic_exclude={exclude})', [permuted(x, base, layout)], want, scale=4)


UPSAMPLES = [("nearest_neighbor", False), ("bilinear", False), ("bilinear", True), ("nearest_neighbor", False), ("bicubic", False), ("bicubic", True)]


def upsampled(g, x, size, method, align):
    mode = "align_corners" if align else "asymmetric"
    kind = {"nearest_neighbor": "nearest_neighbor", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}[method]
    return to(g.dtype, resized(wide(x), size, kind, mode, "" if kind == "nearest_neighbor" else "round"))


@entry("nn.upsampling", NUMBERS, ulp=(8, 64, 2e10))
def upsampling(g, name):
    for i, (h, w, sh, sw) in enumerate([(3, 4, 2, 2), (3, 4, 2, 2), (2, 5, 3, 2), (4, 4, 1, 3), (5, 3, 2, 2), (4, 5, 2, 3), (9, 3, 1.5, 2), (4, 4, 0.5, 0.5), (3, 3, 2.5, 1), (1, 1, 4, 4),
                                        (4, 6, 1.5, 1.5), (2, 2, 5, 5)]):
        method, align = UPSAMPLES[i % 6]
        layout = ["NCHW", "NHWC"][i % 2]
        if not g.float and method != "nearest_neighbor":
            align, sh, sw = False, 2, 4
        x = g.array((1, 2, h, w)) if g.float else g.small((1, 2, h, w), 0, 50)
        size = [int(np.round(h * sh)), int(np.round(w * sw))]
        yield Case(f'{name}({{}}, scale_h={float(sh)}f, scale_w={float(sw)}f, layout="{layout}", method="{method}", align_corners={align})', [permuted(x, "NCHW", layout)],
                   lambda: permuted(upsampled(g, x, size, method, align), "NCHW", layout), scale=4)


@entry("dyn.nn.upsampling", NUMBERS, ulp=(8, 64, 2e10))
def dyn_upsampling(g, name):
    for c in upsampling(g, name):
        sh, sw = (float(part.split("=")[1][:-1]) for part in c.text.split(", ")[1:3])
        rest = ", ".join(c.text[:-1].split(", ")[3:])
        yield Case(f"dyn.nn.upsampling({{}}, {{}}, {{}}, {rest})", c.arrays + [np.array(sh, "float32"), np.array(sw, "float32")], c.want, scale=4)


@entry("nn.upsampling3d", NUMBERS, ulp=(8, 64, 2e10))
def upsampling3d(g, name):
    for i, (shape, scales) in enumerate([((2, 3, 4), (2, 2, 2)), ((2, 3, 4), (2, 1, 3)), ((3, 3, 3), (2, 2, 2)), ((1, 4, 4), (3, 2, 1)), ((2, 2, 2), (4, 1, 2)), ((3, 2, 4), (1, 1, 1)),
                                         ((2, 4, 2), (2, 2, 2)), ((4, 4, 4), (0.5, 0.5, 0.5)), ((2, 2, 5), (2, 3, 2)), ((3, 3, 2), (1, 2, 2)), ((1, 1, 1), (2, 2, 2)), ((2, 3, 2), (3, 3, 3))]):
        method, mode = [("nearest_neighbor", "asymmetric"), ("trilinear", "half_pixel"), ("trilinear", "align_corners"), ("trilinear", "asymmetric")][i % 4]
        if not g.float and method != "nearest_neighbor":
            mode, scales = "asymmetric", (2, 2, 4)
        x = g.array((1, 2, *shape)) if g.float else g.small((1, 2, *shape), 0, 50)
        size = [int(np.round(d * s)) for d, s in zip(shape, scales)]
        kind = "linear" if method == "trilinear" else method
        yield Case(f'{name}({{}}, scale_d={float(scales[0])}f, scale_h={float(scales[1])}f, scale_w={float(scales[2])}f, method="{method}", coordinate_transformation_mode="{mode}")', [x],
                   lambda: to(g.dtype, resized(wide(x), size, kind, mode, "")), scale=4)


@entry("image.dilation2d", NUMBERS, ulp=1)
def dilation2d(g, name):
    for i, (window, _) in enumerate(POOLS):
        axes, layout = axes_of(2, window, i), ["NCHW", "NHWC"][i % 2]
        kernel = "IHW" if layout == "NCHW" else "HWI"
        x, w = ((g.array if g.float else g.small)(s) for s in ((1, 3, axes[0][0], axes[1][0]), (3, axes[0][1], axes[1][1])))
        stride, dilation, pads = [a[2] for a in axes], [a[5] for a in axes], [(a[3], a[4]) for a in axes]

        def want():
            # Places outside count as the least number.
            padded = np.pad(x.astype("float64"), [(0, 0), (0, 0)] + pads, constant_values=-np.inf)
            size = [pool_out(a, False) for a in axes]
            out = np.full((1, 3, *size), -np.inf)
            for p, q in itertools.product(range(axes[0][1]), range(axes[1][1])):
                part = padded[:, :, p * dilation[0]:, q * dilation[1]:][:, :, :(size[0] - 1) * stride[0] + 1:stride[0], :(size[1] - 1) * stride[1] + 1:stride[1]]
                part = part + wide(w)[None, :, p, q, None, None]
                out = np.maximum(out, wide(to(g.dtype, part)) if g.float else part)
            return permuted(to(g.dtype, np.maximum(out, float(least_of(g.dtype)))), "NCHW", layout)
        padding = [p[0] for p in pads] + [p[1] for p in pads]
        yield Case(f'{name}({{}}, {{}}, strides={stride}, padding={padding}, dilations={dilation}, data_layout="{layout}", kernel_layout="{kernel}")',
                   [permuted(x, "NCHW", layout), permuted(w, "IHW", kernel)], want)
