"""Searching, sparse matrices, bits, spectra and other rare operators, against NumPy.

RELAY is the binary, ENGINE the engine (default: interp).
"""
import sys

import numpy as np

from cases import RNG, Case, run_all


def search_cases():
    for dtype in ("float32", "int32", "int64", "uint8", "uint64"):
        for n in (0, 1, 9, 100):
            rows = np.sort(RNG.integers(0, 40, n).astype(dtype))
            values = RNG.integers(0, 45, (3, 4)).astype(dtype)
            for right in (False, True):
                want = np.searchsorted(rows, values, "right" if right else "left")
                yield Case(f"searchsorted({{}}, {{}}, right={right})", [rows, values], want.astype("int32"))
            x = RNG.integers(0, 20, n).astype(dtype)
            u, first, number, count = np.unique(x, return_index=True, return_inverse=True, return_counts=True)

            def tail(v, kind):
                return np.concatenate([v, np.zeros(n - len(v))]).astype(kind)

            m = np.array([len(u)], "int32")
            yield Case("unique({}, return_counts=True)", [x], [tail(u, dtype), tail(first, "int32"),
                       number.ravel().astype("int32"), m, tail(count, "int32")])
            order = np.argsort(first)
            rank = np.argsort(order)
            yield Case("unique({}, sorted=False)", [x], [tail(u[order], dtype), tail(first[order], "int32"),
                       (rank[number.ravel()] if n else number).astype("int32"), m])
    many = np.sort(RNG.normal(size=(3, 8)).astype("float32"), 1)
    values = RNG.normal(size=(3, 5)).astype("float32")
    yield Case('searchsorted({}, {}, dtype="int64")', [many, values],
               np.stack([np.searchsorted(a, b) for a, b in zip(many, values)]).astype("int64"))


def csr(rows, columns, height=1, width=1, dtype="float32"):
    """A sparse matrix as data, indices, indptr and as what it stands for."""
    mask = RNG.random((rows, columns)) < 0.4
    dense = np.zeros((rows * height, columns * width), dtype)
    data, indices, indptr = [], [], [0]
    for r in range(rows):
        for c in np.nonzero(mask[r])[0]:
            block = RNG.integers(-5, 6, (height, width)).astype(dtype)
            dense[r * height:(r + 1) * height, c * width:(c + 1) * width] = block
            data.append(block)
            indices.append(c)
        indptr.append(len(indices))
    data = np.array(data, dtype).reshape((-1, height, width) if height * width > 1 else (-1,))
    return data, np.array(indices, "int32"), np.array(indptr, "int32"), dense


def sparse_cases():
    for dtype in ("float32", "int32"):
        for height, width in [(1, 1), (2, 3)]:
            data, indices, indptr, w = csr(4, 5, height, width, dtype)
            x = RNG.integers(-4, 5, (3, 5 * width)).astype(dtype)
            parts = [x, data, indices, indptr]
            for name in ("nn.sparse_dense", "nn.internal.sparse_dense_padded"):
                yield Case(name + "({}, {}, {}, {})", parts, x @ w.T)
            yield Case("nn.sparse_dense({}, {}, {}, {}, sparse_lhs=True)", parts, w @ x.T)
            image = RNG.integers(-4, 5, (2, 3, 4, 5 * width)).astype(dtype)
            yield Case("nn.sparse_conv2d({}, {}, {}, {})", [image] + parts[1:], image @ w.T)
            yield Case('nn.sparse_conv2d({}, {}, {}, {}, layout="NCHW")',
                       [image.transpose(0, 3, 1, 2).copy()] + parts[1:], (image @ w.T).transpose(0, 3, 1, 2))
        data, indices, indptr, w = csr(6, 9 * 2, 1, 1, dtype)
        image = RNG.integers(-4, 5, (1, 4, 5, 2)).astype(dtype)
        wide = np.pad(image, ((0, 0), (1, 1), (1, 1), (0, 0)))
        patches = np.concatenate([wide[:, i:i + 4, j:j + 5] for i in range(3) for j in range(3)], -1)
        yield Case("nn.sparse_conv2d({}, {}, {}, {}, kernel_size=[3, 3])", [image, data, indices, indptr], patches @ w.T)
        data, indices, indptr, w = csr(5, 5, 1, 1, dtype)
        x = RNG.integers(-4, 5, (5, 5)).astype(dtype)
        yield Case("nn.sparse_add({}, {}, {}, {})", [x, data, indices, indptr], x + w)
        turned = [(w.T[r, c], c) for r in range(5) for c in range(5) if np.any((indices == r) & (
            np.repeat(np.arange(5), np.diff(indptr)) == c))]
        counts = np.array([np.sum(indices == c) for c in range(5)])
        yield Case("nn.sparse_transpose({}, {}, {})", [data, indices, indptr],
                   [np.array([v for v, _ in turned], dtype), np.array([c for _, c in turned], "int32"),
                    np.concatenate([[0], np.cumsum(counts)]).astype("int32")])
    at = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 0], [1, 2, 3]])
    flat = np.ravel_multi_index(at.T, (2, 3, 6))
    yield Case("sparse_reshape({}, {}, {})", [at, np.array([2, 3, 6]), np.array([9, -1])],
               [np.stack(np.unravel_index(flat, (9, 4)), 1), np.array([9, 4])])
    yield Case("sparse_fill_empty_rows({}, {}, {}, 7f)",
               [np.array([[0, 1], [0, 3], [2, 0]]), np.array([1, 2, 3], "float32"), np.array([4, 5])],
               [np.array([[0, 1], [0, 3], [1, 0], [2, 0], [3, 0]]), np.array([1, 2, 7, 3, 7], "float32"),
                np.array([0, 1, 0, 1])])


def bit_cases():
    for word in (8, 16, 32):
        x = RNG.integers(0, 8, (3, 2 * word, 2)).astype("int32")
        bits = np.stack([x >> b & 1 for b in range(3)]).reshape(3, 3, 2, word, 2).astype("uint64")
        packed = (bits * (1 << np.arange(word - 1, -1, -1, dtype="uint64"))[:, None]).sum(3).astype(f"uint{word}")
        attrs = f'bits=3, pack_axis=1, pack_type="uint{word}"'
        yield Case(f"nn.bitpack({{}}, {attrs})", [x], np.moveaxis(packed, 0, -1))
        yield Case(f"nn.bitpack({{}}, {attrs}, bit_axis=0)", [x], packed)
    for unipolar in (True, False):
        for b, n in [(1, 1), (2, 1), (2, 2)]:
            x, w = RNG.integers(0, 2**b, (3, 20)).astype("uint8"), RNG.integers(0, 2**n, (5, 20)).astype("uint8")
            wide = 2 * w.astype(int) - (2**n - 1) if unipolar else w.astype(int)
            attrs = f"weight_bits={n}, unipolar={unipolar}"
            yield Case(f"nn.bitserial_dense({{}}, {{}}, units=5, data_bits={b}, {attrs})", [x, w],
                       (x.astype(int) @ wide.T).astype("int16"))
            x, w = RNG.integers(0, 2**b, (2, 3, 5, 6)).astype("uint8"), RNG.integers(0, 2**n, (4, 3, 3, 3)).astype("uint8")
            wide = 2 * w.astype(int) - (2**n - 1) if unipolar else w.astype(int)
            p = np.pad(x.astype(int), ((0, 0), (0, 0), (1, 1), (1, 1)))
            want = sum(np.einsum("nchw,oc->nohw", p[:, :, i:i + 5, j:j + 6], wide[:, :, i, j])
                       for i in range(3) for j in range(3))
            yield Case(f"nn.bitserial_conv2d({{}}, {{}}, padding=[1, 1], activation_bits={b}, {attrs})", [x, w],
                       want.astype("int16"))


def other_cases():
    for shape in [(40,), (3, 40)]:
        x, w = RNG.normal(size=shape), RNG.normal(size=8)
        frames = np.stack([x[..., i:i + 8] for i in range(0, 33, 3)], -2) * w
        for onesided in (True, False):
            f = (np.fft.rfft if onesided else np.fft.fft)(frames)
            want = np.stack([f.real, f.imag], -1).swapaxes(-3, -2)
            yield Case(f"stft({{}}, {{}}, n_fft=8, hop_length=3, win_length=8, onesided={onesided})", [x, w], want,
                       atol=1e-12)
            yield Case(f"stft({{}}, {{}}, n_fft=8, hop_length=3, win_length=8, onesided={onesided}, normalized=True)",
                       [x, w], want / np.sqrt(8), atol=1e-12)
    a, b, c = (RNG.normal(size=n).astype("float32") for n in (2, 3, 4))
    for indexing in ("ij", "xy"):
        yield Case(f'meshgrid(({{}}, {{}}, {{}}), indexing="{indexing}")', [a, b, c],
                   list(np.meshgrid(a, b, c, indexing=indexing)))
    yield Case("meshgrid(({},))", [a], [a])
    for dtype in ("float32", "int8"):
        x, old = RNG.integers(0, 9, (2, 1, 3)).astype(dtype), RNG.integers(0, 9, (2, 4, 3)).astype(dtype)
        yield Case("nn.fifo_buffer({}, {}, axis=1)", [x, old], np.concatenate([old[:, 1:], x], 1))
        x = RNG.integers(0, 9, (6, 7)).astype(dtype)
        for part in [(slice(1, 5, 2), slice(0, 7, 3)), (slice(-3, None, 1), slice(6, 0, -2)), (slice(0, 6, 1), slice(2, 3))]:
            v = RNG.integers(0, 9, x[part].shape).astype(dtype)
            want = x.copy()
            want[part] = v
            begin, step = (np.array([getattr(s, key) or otherwise for s in part]) for key, otherwise in (("start", 0), ("step", 1)))
            end = np.array([n if s.stop is None else s.stop for s, n in zip(part, x.shape)])
            yield Case("strided_set({}, {}, {}, {}, {})", [x, v, begin, end, step], want)
    x = RNG.integers(-10**6, 10**6, (4, 3)).astype("int32")
    m = RNG.integers(2**30, 2**31 - 1, 3).astype("int32")
    left, right = np.array([0, 1, 3], "int32"), np.array([0, 2, 5], "int32")
    for ls in (False, True):
        for rs in (False, True):
            down = 31 + (right.astype(object) if rs else np.zeros(3, object))
            up = [1 << int(v) if ls else 1 for v in left]
            want = [[(int(v) * up[j] * int(m[j]) + (1 << int(down[j]) - 1)) >> int(down[j]) for j, v in enumerate(row)]
                    for row in x]
            yield Case(f"fixed_point_multiply_per_axis({{}}, {{}}, {{}}, {{}}, is_lshift_required={ls}, "
                       f"is_rshift_required={rs}, axes=[1])", [x, m, left, right], np.array(want).astype("int32"))
    x = RNG.normal(0, 40, (3, 5)).astype("float32")
    half = np.floor(np.abs(x / np.float32(0.5)) + np.float32(0.5)) * np.sign(x)
    yield Case("relay.op.annotation.simulated_quantize({}, 0.5f, -100f, 99f, kind=1)", [x],
               (np.clip(half, -100, 99) * np.float32(0.5)).astype("float32"))
    yield Case("relay.op.annotation.simulated_quantize({}, 0.5f, -100f, 99f, kind=0)", [x], x)
    for shape in [(1,), (7,), (2, 3, 16)]:
        z = RNG.normal(size=shape) + 1j * RNG.normal(size=shape)
        for text, f in (("False", np.fft.fft(z)), ("True", np.fft.ifft(z))):
            yield Case(f"dft({{}}, {{}}, inverse={text})", [z.real.copy(), z.imag.copy()], [f.real, f.imag], atol=1e-12)
    for kernel, far, s1, s2, pad in [(1, 1, 1, 1, 0), (3, 2, 2, 1, 2), (1, 4, 1, 2, 4)]:
        x, y = RNG.normal(size=(2, 2, 3, 9, 8))
        p, z = (np.pad(v, ((0, 0), (0, 0), (pad, pad), (pad, pad))) for v in (x, y))
        r, edge = far // s2, far + (kernel - 1) // 2
        h, w = (-(-(n + 2 * pad - 2 * edge) // s1) for n in (9, 8))
        for multiply in (True, False):
            want = np.zeros((2, (2 * r + 1) ** 2, h, w))
            for q, i, j in np.ndindex(want.shape[1:]):
                a, b = i * s1 + far, j * s1 + far
                c, e = a + (q // (2 * r + 1) - r) * s2, b + (q % (2 * r + 1) - r) * s2
                one, two = p[:, :, a:a + kernel, b:b + kernel], z[:, :, c:c + kernel, e:e + kernel]
                want[:, q, i, j] = (one * two if multiply else abs(one - two)).mean((1, 2, 3))
            yield Case(f"nn.correlation({{}}, {{}}, kernel_size={kernel}, max_displacement={far}, stride1={s1}, "
                       f"stride2={s2}, padding=[{pad}, {pad}], is_multiply={multiply})", [x, y], want, atol=1e-12)


def main():
    return run_all([c for group in (search_cases, sparse_cases, bit_cases, other_cases) for c in group()])


if __name__ == "__main__":
    sys.exit(main())
