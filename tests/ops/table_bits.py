"""Numbers taken apart in bits, and convolutions with sparse weights, against NumPy."""
import numpy as np

from peer import ALL, INTS, Case, entry, to

# Bits of the numbers, the axis that is packed, that of the bits, the word; the shape has a multiple of the word there.
PACKS = [((8,), 1, 0, 1, 8), ((2, 16), 1, 1, 2, 16), ((3, 32, 2), 3, 1, 3, 32), ((16, 3), 2, 0, 0, 8), ((2, 64), 2, 1, 0, 64), ((2, 2, 16), 4, 2, 1, 8),
         ((1, 32), 2, 1, -1, 32), ((0, 8), 1, 1, 0, 8), ((8, 8), 5, 0, 2, 8), ((2, 8, 2, 2), 2, 1, 4, 8), ((48,), 3, 0, 0, 16), ((4, 24), 1, 1, 1, 8)]


@entry("nn.bitpack", INTS)
def bitpack(g, name):
    for shape, bits, axis, at, word in PACKS:
        x = g.small(shape, 0, 1 << min(bits, 5))

        def want():
            cut = x.reshape(shape[:axis] + (shape[axis] // word, word) + shape[axis + 1:]).astype("uint64")
            weights = (np.uint64(1) << np.arange(word - 1, -1, -1, dtype="uint64")).reshape((word,) + (1,) * (len(shape) - 1 - axis))
            packed = [((cut >> np.uint64(b) & np.uint64(1)) * weights).sum(axis + 1, dtype="uint64") for b in range(bits)]
            return np.stack(packed, at).astype(f"uint{word}")
        yield Case(f'{name}({{}}, bits={bits}, pack_axis={axis}, bit_axis={at}, pack_type="uint{word}")', [x], want)


def weights(g, shape, bits, unipolar):
    """Their bits, and the numbers that those stand for."""
    w = g.small(shape, 0, 1 << bits)
    return w, (2 * w.astype(int) - ((1 << bits) - 1) if unipolar else w.astype(int))


BITS = [(1, 1, True), (2, 1, True), (2, 2, True), (1, 2, False), (3, 1, False), (1, 1, False)]


@entry("nn.bitserial_dense", INTS)
def bitserial_dense(g, name):
    for i, (m, k, n) in enumerate([(1, 8, 1), (3, 20, 5), (2, 7, 4), (4, 64, 2), (1, 33, 3), (0, 8, 2), (5, 1, 5), (2, 16, 8), (3, 100, 1), (2, 12, 0), (6, 9, 2), (1, 40, 7)]):
        a, b, unipolar = BITS[i % 6]
        x, (w, real) = g.small((m, k), 0, 1 << a), weights(g, (n, k), b, unipolar)
        out = ["int16", "int32"][i % 2]
        yield Case(f'{name}({{}}, {{}}, units={n}, data_bits={a}, weight_bits={b}, unipolar={unipolar}, out_dtype="{out}")', [x, w],
                   lambda: to(out, x.astype(int) @ real.T))


@entry("nn.bitserial_conv2d", INTS)
def bitserial_conv2d(g, name):
    for i, (c, h, wide, o, k, p, s) in enumerate([(1, 3, 3, 1, 3, 0, 1), (3, 5, 6, 4, 3, 1, 1), (2, 4, 4, 2, 1, 0, 2), (4, 6, 5, 3, 2, 0, 1), (1, 5, 5, 2, 3, 2, 2), (2, 3, 7, 1, 2, 1, 1),
                                                  (5, 4, 4, 2, 3, 1, 1), (1, 1, 1, 1, 1, 0, 1), (2, 8, 3, 2, 3, 1, 3), (3, 3, 3, 5, 3, 0, 1), (2, 4, 6, 2, 4, 1, 2), (1, 7, 2, 3, 2, 1, 1)]):
        a, b, unipolar = BITS[i % 6]
        x, (w, real) = g.small((1 + i % 2, c, h, wide), 0, 1 << a), weights(g, (o, c, k, k), b, unipolar)

        def want():
            q = np.pad(x.astype(int), ((0, 0), (0, 0), (p, p), (p, p)))
            v = np.lib.stride_tricks.sliding_window_view(q, (k, k), (2, 3))[:, :, ::s, ::s]
            return to("int16", np.einsum("nchwij,ocij->nohw", v, real))
        yield Case(f"{name}({{}}, {{}}, channels={o}, kernel_size=[{k}, {k}], strides=[{s}, {s}], padding=[{p}, {p}], activation_bits={a}, weight_bits={b}, "
                   f"unipolar={unipolar})", [x, w], want)


@entry("nn.sparse_conv2d", ALL, ulp=(40, 40, 40))
def sparse_conv2d(g, name):
    for i in range(12):
        kernel, channels, rows = [1, 3][i % 3 == 2], 2 + i % 3, 2 + i % 4
        height, width = [(1, 1), (2, 1), (2, 2), (1, 3)][i % 4]
        columns = kernel * kernel * channels
        full = g.small((rows * height, columns * width), -3, 4)
        data, indices, indptr = [], [], [0]
        for r in range(rows):
            for c in range(columns):
                if g.rng.random() < 0.5:
                    data.append(full[r * height:(r + 1) * height, c * width:(c + 1) * width])
                    indices.append(c)
                else:
                    full[r * height:(r + 1) * height, c * width:(c + 1) * width] = 0
            indptr.append(len(indices))
        blocks = np.array(data, full.dtype).reshape((-1, height, width) if height * width > 1 else (-1,))
        x = g.small((1 + i % 2, 3, 4, channels * width), -3, 4)

        def want():
            p = kernel // 2
            q = np.pad(x.astype("float64"), ((0, 0), (p, p), (p, p), (0, 0)))
            v = np.concatenate([q[:, a:a + 3, b:b + 4] for a in range(kernel) for b in range(kernel)], -1)
            return to(g.dtype, to("int64", v @ full.astype("float64").T) if not g.float else v @ full.astype("float64").T)
        layout = "NHWC" if kernel == 3 or i % 2 else "NCHW"
        turned = (lambda t: t) if layout == "NHWC" else (lambda t: t.transpose(0, 3, 1, 2).copy())
        yield Case(f'{name}({{}}, {{}}, {{}}, {{}}, layout="{layout}", kernel_size=[{kernel}, {kernel}])',
                   [turned(x), blocks, np.array(indices, "int32"), np.array(indptr, "int32")], lambda: turned(want()))
