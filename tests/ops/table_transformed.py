"""Entries of convolutions and products whose weight lies in blocks or was transformed before."""
import itertools

import numpy as np

from peer import ALL, FLOATS, Case, entry, np_dtype, to, wide
from table_qnn import TAKEN, q_array, scale_of, zero_of
from table_reduce import MNK, ULP_SUM, operands, out_text, outs, product_case
from table_shape import blocked
from table_window import conv_of

# batch, channels, out channels, groups; block of the data's channels, of the result's; extent, kernel, stride, padding, dilation
BLOCKS = [(1, 4, 4, 1, 2, 2, 5, 3, 1, 1, 1), (2, 8, 4, 1, 4, 2, 6, 3, 2, 1, 1), (1, 2, 6, 1, 2, 3, 4, 1, 1, 0, 1), (1, 4, 8, 1, 4, 8, 7, 3, 1, 2, 2),
          (2, 6, 6, 2, 3, 1, 5, 2, 1, 0, 1), (1, 4, 4, 1, 1, 4, 5, 3, 3, 1, 1), (1, 8, 8, 4, 2, 2, 4, 3, 1, 1, 1), (3, 2, 4, 1, 2, 4, 8, 5, 2, 2, 1),
          (1, 16, 2, 1, 8, 2, 3, 3, 1, 0, 1), (1, 6, 4, 1, 2, 2, 9, 2, 2, 1, 3), (2, 4, 2, 2, 2, 1, 3, 1, 2, 0, 1), (1, 12, 12, 1, 4, 6, 4, 3, 1, 1, 1)]


@entry("nn.contrib_conv2d_NCHWc nn.contrib_depthwise_conv2d_NCHWc", ALL, ulp=ULP_SUM)
def conv_in_blocks(g, name):
    for i, (batch, c, o, groups, bi, bo, e, k, s, p, d) in enumerate(BLOCKS):
        if "depthwise" in name:
            o, groups, bo = c, c, bi
        inner = bi if (c // groups) % bi == 0 else 1
        x, w = g.array((batch, c, e, e + 1), -1, 1), g.array((o, c // groups, k, k), -1, 1)
        data, kernel, result = f"NCHW{bi}c", f"OIHW{inner}i{bo}o", f"NCHW{bo}c"
        out = outs(g, i)

        def f(a, b):
            y = conv_of(blocked(a, data, "NCHW"), blocked(b, kernel, "OIHW"), [s, s], [(p, p)] * 2, [d, d], groups)
            return blocked(y, "NCHW", result)
        text = (f"{name}({{}}, {{}}, strides=[{s}, {s}], padding=[{p}, {p}], dilation=[{d}, {d}], groups={groups}, channels={o}, "
                f'kernel_size=[{k}, {k}], data_layout="{data}", kernel_layout="{kernel}", out_layout="{result}"{out_text(g, out)})')
        yield product_case(g, text, [blocked(x, "NCHW", data), blocked(w, "OIHW", kernel)], f, out)


@entry("nn.contrib_dense_pack", ALL, ulp=ULP_SUM)
def dense_pack(g, name):
    for i, (m, n, k) in enumerate(MNK):
        block, layout = [1, 2, 4][i % 3], "NC{}n"
        n, two = n * block, k and k % 2 == 0
        layout = f"NC{block}n2c" if two else f"NC{block}n"
        x, w = operands(g, (m, k), (n, k))
        out = outs(g, i)
        yield product_case(g, f'{name}({{}}, {{}}, units={n if i % 2 else None}, weight_layout="{layout}"{out_text(g, out)})',
                           [x, blocked(w, "NC", layout)], lambda a, b: np.matmul(a, blocked(b, layout, "NC").T), out)


@entry("qnn.contrib_dense_pack", TAKEN)
def qnn_dense_pack(g, name):
    for i, (m, n, k) in enumerate(MNK):
        n, layout = 2 * n, "NC2n"
        x, w = q_array(g, (m, k)), q_array(g, (n, k), "int8")
        zx, zw = zero_of(g), zero_of(g)
        yield Case(f'{name}({{}}, {{}}, {{}}, {{}}, {{}}, {{}}, units={n}, out_dtype="int32", weight_layout="{layout}")',
                   [x, blocked(w, "NC", layout), zx, zw, scale_of(g), scale_of(g)],
                   lambda: ((x.astype("int64") - zx) @ (w.astype("int64") - zw).T).astype("int32"))


# ---- parts of axes ----------------------------------------------------------------------------------------

# extents of the data, how each axis is split, the order of all the parts
PARTS = [((4, 6), [[2, 2], [6]], [0, 2, 1]), ((4, 6), [[4], [3, 2]], [1, 0, 2]), ((8,), [[2, 2, 2]], [2, 1, 0]), ((3, 5), [[3], [5]], [1, 0]),
         ((2, 3, 4), [[2], [3], [4]], [2, 0, 1]), ((1, 8, 2), [[1], [2, 4], [2]], [1, 3, 0, 2]), ((16, 9), [[4, 4], [3, 3]], [0, 2, 1, 3]),
         ((12,), [[3, 4]], [1, 0]), ((6, 6), [[6], [6]], [0, 1]), ((2, 2, 2, 2), [[2], [2], [2], [2]], [3, 2, 1, 0]),
         ((24, 5), [[2, 3, 4], [5]], [3, 2, 0, 1]), ((7, 1), [[7], [1]], [1, 0]), ((10, 4), [[5, 2], [2, 2]], [3, 1, 2, 0])]


def outermost_first(parts, order):
    """The order with the parts of each axis from the outermost to the innermost."""
    axis = [a for a, extents in enumerate(parts) for _ in extents]
    left = {a: [o for o in range(len(axis)) if axis[o] == a] for a in axis}
    return [left[axis[o]].pop(0) for o in order]


@entry("auto_scheduler_layout_transform", ALL)
def chosen_layout(g, name):
    for shape, parts, order in PARTS:
        x, whole = g.array(shape), sum(parts, [])
        named = [f"{e}{chr(97 + a)}" for a, extents in enumerate(parts) for e in extents]
        order = outermost_first(parts, order)
        src = "".join(f"{e}{chr(97 + a)}" for a, e in enumerate(shape))
        yield Case(f'{name}({{}}, src_layout="{src}", dst_layout="{"".join(named[o] for o in order)}")', [x],
                   lambda: x.reshape(whole).transpose(order).copy())
    for x, src, dst in [(g.array((2, 6, 3)), "2h6w3h", "6w6h"), (g.array((4, 2)), "4h2h", "2h4h")]:
        plain = x.transpose(1, 0, 2).reshape(6, 6) if x.ndim == 3 else x.reshape(2, 4)
        yield Case(f'{name}({{}}, src_layout="{src}", dst_layout="{dst}")', [x], lambda: plain.copy())


@entry("meta_schedule_layout_transform", ALL)
def mapped_layout(g, name):
    for shape, parts, order in PARTS:
        x = g.array(shape)
        whole = sum(parts, [])
        steps = [[a, int(np.prod(extents[k + 1:])), e] for a, extents in enumerate(parts) for k, e in enumerate(extents)]
        yield Case(f"{name}({{}}, index_map={[steps[o] for o in order]})", [x], lambda: x.reshape(whole).transpose(order).copy())


# ---- Winograd's algorithm ---------------------------------------------------------------------------------

POINTS = [0, -1, 1, 0.5, -2, -0.5, 2, -0.25, 4, 0.25, -4]


def matrices(size, r):
    """G, B and A of Toom and Cook: evaluation at points and at infinity, and interpolation."""
    n = size + r - 2
    at = np.array(POINTS[:n], "float64")
    g, b, a = np.zeros((n + 1, r)), np.zeros((n + 1, n + 1)), np.zeros((n + 1, size))
    for i in range(n):
        others = np.delete(at, i)
        g[i] = at[i] ** np.arange(r) / np.prod(at[i] - others)
        a[i] = at[i] ** np.arange(size)
        b[i, :n] = np.atleast_1d(np.poly(others))[::-1]
    g[n, -1], a[n, -1] = 1, 1
    b[n] = np.atleast_1d(np.poly(at))[::-1]
    return g, b, a


def along_axis(m, x, axis):
    return np.moveaxis(np.tensordot(m, x, (1, axis)), 0, axis)


def transformed(w, tile, first):
    """O I and places: the last axes transformed, in front of the channels."""
    for axis in range(2 + first, w.ndim):
        w = along_axis(matrices(tile, w.shape[axis])[0], w, axis)
    places = list(range(2 + first, w.ndim)) + ([2] if first else [])
    return w.transpose(places + [0, 1])


def first_of(kernel):
    return int(len(kernel) == 3 and not 2 < kernel[0] < 8)


WINOGRADS = [(1, 1, 1, 2, 3, 0), (2, 3, 4, 2, 3, 1), (1, 4, 2, 4, 3, 1), (1, 2, 3, 3, 3, 0), (1, 3, 2, 2, 2, 1), (2, 1, 3, 1, 3, 0), (1, 2, 2, 2, 5, 2),
             (1, 5, 1, 2, 1, 0), (1, 2, 2, 4, 2, 1), (3, 2, 2, 3, 2, 0), (1, 1, 4, 2, 4, 1), (1, 3, 3, 2, 3, 2)]


def kernel_of(n, i, k):
    """In three dimensions every third kernel is flat."""
    return ([1 if i % 3 == 1 else k] if n == 3 else []) + [k, max(1, k - i % 2)]


@entry("nn.contrib_conv2d_winograd_weight_transform nn.contrib_conv3d_winograd_weight_transform", FLOATS, ulp=ULP_SUM)
def winograd_weight(g, name):
    n = int(name[15])
    for i, (_, c, o, tile, k, _) in enumerate(WINOGRADS):
        kernel = kernel_of(n, i, k)
        w = g.array((o, c, *kernel), -1, 1)
        f = lambda a: transformed(a, tile, first_of(kernel))  # noqa: E731
        scale = np.abs(transformed(wide(w), tile, first_of(kernel)))
        for axis in range(2 + first_of(kernel), w.ndim):
            scale = np.maximum(scale, np.abs(matrices(tile, w.shape[axis])[0]).max())
        yield Case(f"{name}({{}}, tile_size={tile})", [w], lambda: to(g.dtype, f(wide(w))), scale=scale)


@entry("nn.contrib_conv2d_winograd_nnpack_weight_transform", FLOATS, ulp=ULP_SUM)
def nnpack_weight(g, name):
    for i in range(12):
        w = g.array((1 + i % 3, 1 + i % 4, 3, 3), -1, 1)
        yield Case(f"{name}({{}}, convolution_algorithm=0)", [w],
                   lambda: to(g.dtype, transformed(wide(w), 6, 0).transpose(2, 3, 0, 1)), scale=2)


def winograd_bound(x, w, tile, pads, first, out):
    """The sums of magnitudes that the algorithm adds up at each result: what rounding is a part of."""
    n = w.ndim - 2
    u, x = np.abs(w), np.abs(np.pad(x, [(0, 0), (0, 0)] + pads))
    for axis in range(2 + first, w.ndim):
        u = along_axis(np.abs(matrices(tile, w.shape[axis])[0]), u, axis)
    sizes = [1 if i < first else tile for i in range(n)]
    room = [(0, 0), (0, 0)] + [(0, -x.shape[2 + i] % sizes[i] + 16) for i in range(n)]
    x, result = np.pad(x, room), np.zeros((x.shape[0], w.shape[0], *out))
    for corner in itertools.product(*[range(0, out[i], sizes[i]) for i in range(n)]):
        v = x[(slice(None), slice(None)) + tuple(slice(corner[i], corner[i] + sizes[i] + w.shape[2 + i] - 1) for i in range(n))]
        for i in range(first, n):
            v = along_axis(np.abs(matrices(tile, w.shape[2 + i])[1]), v, 2 + i)
        y = np.einsum("oc...,nc...->no...", u, v)
        y = y.sum(2, keepdims=True) if first else y
        for i in range(first, n):
            y = along_axis(np.abs(matrices(tile, w.shape[2 + i])[2].T), y, 2 + i)
        place = tuple(slice(corner[i], corner[i] + sizes[i]) for i in range(n))
        part = result[(slice(None), slice(None)) + place]
        part[...] = y[tuple(slice(0, e) for e in part.shape)]
    return result


@entry("nn.contrib_conv2d_winograd_without_weight_transform nn.contrib_conv3d_winograd_without_weight_transform", FLOATS, ulp=ULP_SUM)
def winograd(g, name):
    n = int(name[15])
    for i, (batch, c, o, tile, k, pad) in enumerate(WINOGRADS):
        kernel = kernel_of(n, i, k)
        first = first_of(kernel)
        x, w = g.array((batch, c, *[5 + i % 4 + j for j in range(n)]), -1, 1), g.array((o, c, *kernel), -1, 1)
        u = to(g.dtype, transformed(wide(w), tile, first))
        pads = [(pad, pad)] * n
        plain, letters = "NC" + "DHW"[3 - n:], "DHW"[3 - n:]
        data = [plain, "N" + letters + "C"][i % 2]

        def want():
            return conv_of(wide(x), wide(w), [1] * n, pads, [1] * n, 1)
        scale = winograd_bound(wide(x), wide(w), tile, pads, first, want().shape[2:])
        text = (f"{name}({{}}, {{}}, tile_size={tile}, padding={[pad] * n}, channels={o}, kernel_size={kernel}, "
                f'data_layout="{data}")')
        yield Case(text, [blocked(x, plain, data), u], lambda: to(g.dtype, blocked(want(), plain, data)), scale=blocked(scale, plain, data))


# ---- as a product of matrices -----------------------------------------------------------------------------

# batch, channels, out channels, rows and columns of a block, extent, kernel, stride, padding, dilation
GEMMS = [(1, 1, 1, 4, 16, 4, 3, 1, 0, 1), (2, 3, 5, 4, 16, 5, 3, 1, 1, 1), (1, 2, 8, 4, 4, 6, 3, 2, 1, 1), (1, 4, 3, 1, 1, 4, 1, 1, 0, 1), (1, 2, 7, 8, 3, 7, 2, 1, 0, 1),
         (1, 1, 4, 2, 5, 8, 5, 2, 2, 1), (2, 2, 2, 16, 32, 5, 3, 1, 2, 2), (1, 6, 1, 3, 7, 4, 2, 2, 1, 1), (1, 3, 12, 12, 27, 5, 3, 1, 1, 1), (1, 8, 4, 4, 8, 3, 1, 2, 0, 1),
         (3, 1, 2, 2, 9, 4, 4, 1, 0, 1), (1, 5, 6, 5, 4, 6, 3, 3, 0, 1)]


def in_blocks(w, rows, columns):
    """H W I O: a matrix with a column for each kernel, in blocks of (output channels, elements)."""
    m = w.reshape(-1, w.shape[3])
    m = np.pad(m, [(0, -m.shape[0] % columns), (0, -m.shape[1] % rows)])
    return m.reshape(m.shape[0] // columns, columns, m.shape[1] // rows, rows).transpose(2, 0, 3, 1)


@entry("nn.contrib_conv2d_gemm_weight_transform", ALL)
def gemm_weight(g, name):
    for _, c, o, rows, columns, _, k, _, _, _ in GEMMS:
        w = g.array((k, k, c, o))
        yield Case(f"{name}({{}}, tile_rows={rows}, tile_cols={columns})", [w], lambda: in_blocks(w, rows, columns))


@entry("nn.contrib_conv2d_gemm_without_weight_transform", ALL, ulp=ULP_SUM)
def gemm(g, name):
    for i, (batch, c, o, rows, columns, e, k, s, p, d) in enumerate(GEMMS):
        x, w = g.array((batch, e, e + 1, c), -1, 1), g.array((k, k, c, o), -1, 1)
        out, packed = outs(g, i), in_blocks(w, rows, columns)

        def f(a, b):
            m = b.transpose(1, 3, 0, 2).reshape(b.shape[1] * columns, -1)[:k * k * c, :o]
            y = conv_of(a.transpose(0, 3, 1, 2), m.reshape(k, k, c, o).transpose(3, 2, 0, 1), [s, s], [(p, p)] * 2, [d, d], 1)
            return y.transpose(0, 2, 3, 1)
        text = (f"{name}({{}}, {{}}, strides=[{s}, {s}], padding=[{p}, {p}], dilation=[{d}, {d}], channels={o}, kernel_size=[{k}, {k}], "
                f'data_layout="NHWC", kernel_layout="HWIO"{out_text(g, out)})')
        yield product_case(g, text, [x, packed], f, out)
