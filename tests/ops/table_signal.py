"""Entries of Fourier transforms, sparse matrices and correlation."""
import numpy as np

from peer import ALL, FLOATS, INTS, Case, entry, to, wide
from table_reduce import ULP_SUM, product_case


@entry("dft", ["float32", "float64"], ulp=(64, 200, 2000))
def dft(g, name):
    for i, shape in enumerate([(1,), (2,), (5,), (8,), (3, 4), (2, 7), (2, 3, 6), (16,), (1, 33), (4, 1), (64,), (2, 2, 2, 5), (2, 60), (121,)]):
        re, im, inverse = g.array(shape), g.array(shape), i % 2 == 1

        def want():
            y = (np.fft.ifft if inverse else np.fft.fft)(wide(re) + 1j * wide(im))
            return to(g.dtype, y.real), to(g.dtype, y.imag)
        yield Case(f"dft({{}}, {{}}, inverse={inverse})", [re, im], want, scale=8)


@entry("stft", FLOATS, ulp=(64, 200, 2000))
def stft(g, name):
    for i, (shape, n, hop, *part) in enumerate([((8,), 4, 2), ((8,), 8, 4), ((2, 16), 4, 4), ((2, 16), 8, 3), ((1, 10), 5, 5), ((3, 9), 3, 1), ((20,), 16, 2), ((4, 12), 6, 3), ((7,), 7, 1),
                                         ((2, 32), 16, 8), ((1, 64), 32, 16), ((2, 11), 4, 3),
                                               ((2, 100), 40, 15, 25), ((50,), 31, 9, 10)]):
        onesided, normalized = i % 2 == 0, i % 3 == 1
        m = part[0] if part else n
        x, window = g.array(shape), g.array((m,), 0, 1)
        before = (n - m) // 2

        def want():
            rows = wide(x).reshape(-1, shape[-1])
            whole = np.pad(wide(window), (before, n - m - before))
            frames = np.stack([rows[:, k * hop:k * hop + n] * whole for k in range((shape[-1] - n) // hop + 1)], 1)
            y = np.fft.rfft(frames) if onesided else np.fft.fft(frames)
            y = (y / np.sqrt(n) if normalized else y).transpose(0, 2, 1)
            y = np.stack([y.real, y.imag], -1)
            return to(g.dtype, y if len(shape) > 1 else y[0])
        yield Case(f"stft({{}}, {{}}, n_fft={n}, hop_length={hop}, win_length={m}, normalized={normalized}, onesided={onesided})", [x, window], want, scale=8)


SPARSE = [(1, 1, 1), (2, 4, 3), (3, 5, 8), (4, 4, 4), (1, 20, 6), (8, 3, 9), (5, 6, 7), (2, 2, 16), (6, 10, 5), (3, 1, 4), (1, 7, 7), (9, 9, 9)]


def compressed(g, n, k):
    """A matrix of n rows, half of it 0, and its compressed rows: elements, their columns, where rows begin."""
    w = g.array((n, k), -1, 1)
    w = np.where(g.rng.random((n, k)) < 0.5, np.zeros_like(w), w)
    rows, columns = np.nonzero(w)
    starts = np.searchsorted(rows, np.arange(n + 1))
    return w, [w[rows, columns], columns.astype("int32"), starts.astype("int32")]


@entry("nn.sparse_dense nn.internal.sparse_dense_padded", ALL, ulp=ULP_SUM)
def sparse_dense(g, name):
    for m, n, k in SPARSE:
        x, (w, parts) = g.array((m, k), -1, 1), compressed(g, n, k)
        case = product_case(g, f"{name}({{}}, {{}}, {{}}, {{}})", [x, w], lambda a, b: a @ b.T, g.dtype)
        case.arrays = [x] + parts
        yield case


@entry("nn.sparse_transpose", ALL)
def sparse_transpose(g, name):
    for n in [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 20]:
        w, parts = compressed(g, n, n)

        def want():
            columns, rows = np.nonzero(w.T)
            return w.T[columns, rows], rows.astype("int32"), np.searchsorted(columns, np.arange(n + 1)).astype("int32")
        yield Case(f"{name}({{}}, {{}}, {{}})", parts, want)


@entry("nn.sparse_add", ALL)
def sparse_add(g, name):
    for _, n, k in SPARSE:
        x, (w, parts) = g.array((n, k)), compressed(g, n, k)
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}})", [x] + parts, lambda: to(g.dtype, x | w if g.dtype == "bool" else wide(x) + wide(w)))


@entry("sparse_reshape", INTS)
def sparse_reshape(g, name):
    for old, new in [((4,), (2, 2)), ((2, 3), (6,)), ((2, 3), (3, 2)), ((2, 3, 6), (6, 6)), ((4, 6), (-1, 3)), ((12,), (3, -1)), ((1, 5), (5,)), ((2, 2, 2), (8,)), ((8,), (2, 2, 2)), ((3, 4), (2, 6)),
                     ((5, 5), (25, 1)), ((6, 4), (2, 3, 4))]:
        n, total = 3, int(np.prod(old))
        if g.dtype[0] == "u":
            new = tuple(total // -int(np.prod(new)) if d == -1 else d for d in new)
        at = np.sort(g.rng.permutation(total)[:n])
        ids = np.stack(np.unravel_index(at, old), 1).astype(g.dtype)
        shape = [total // -int(np.prod(new)) if d == -1 else d for d in new]
        yield Case(f"{name}({{}}, {{}}, {{}})", [ids, np.array(old, g.dtype), np.array(new, g.dtype)],
                   lambda: (np.stack(np.unravel_index(at, shape), 1).astype(g.dtype), np.array(shape, g.dtype)))


@entry("nn.correlation", FLOATS, ulp=(16, 32, 32))
def correlation(g, name):
    for i, (h, w, k, most, s1, s2, pad) in enumerate([(5, 5, 1, 1, 1, 1, 1), (6, 7, 1, 2, 1, 1, 2), (8, 8, 3, 1, 1, 1, 2), (7, 5, 1, 1, 2, 1, 1), (9, 9, 3, 2, 2, 1, 3), (6, 6, 1, 2, 1, 2, 2),
                                                      (10, 8, 3, 2, 1, 2, 3), (5, 6, 1, 1, 1, 1, 1), (4, 4, 1, 1, 1, 1, 2), (7, 7, 3, 1, 2, 1, 2), (6, 9, 1, 3, 1, 3, 3), (8, 5, 1, 1, 1, 1, 1)]):
        multiply, c = i % 2 == 0, 1 + i % 3
        a, b = g.array((1, c, h, w), -1, 1), g.array((1, c, h, w), -1, 1)

        def want():
            radius, border = (k - 1) // 2, most + (k - 1) // 2
            x, y = (np.pad(wide(v), [(0, 0), (0, 0), (pad, pad), (pad, pad)]) for v in (a, b))
            grid = most // s2
            oh, ow = (-(-(d + 2 * pad - 2 * border) // s1) for d in (h, w))
            out = np.zeros((1, (2 * grid + 1) ** 2, oh, ow))
            for q, (dy, dx) in enumerate((p, r) for p in range(-grid, grid + 1) for r in range(-grid, grid + 1)):
                for r in range(oh):
                    for s in range(ow):
                        t, l = r * s1 + most, s * s1 + most
                        u = x[0, :, t:t + k, l:l + k]
                        v = y[0, :, t + dy * s2:t + dy * s2 + k, l + dx * s2:l + dx * s2 + k]
                        out[0, q, r, s] = ((u * v) if multiply else np.abs(u - v)).sum() / (k * k * c)
            return to(g.dtype, out)
        yield Case(f"{name}({{}}, {{}}, kernel_size={k}, max_displacement={most}, stride1={s1}, stride2={s2}, padding=[{pad}, {pad}], is_multiply={multiply})", [a, b], want, scale=2)


@entry("sparse_fill_empty_rows", ALL)
def fill_empty_rows(g, name):
    for rows, cols, n in [(3, 4, 2), (1, 1, 1), (5, 2, 3), (4, 4, 4), (6, 3, 2), (2, 7, 5), (8, 2, 3), (3, 3, 0), (7, 5, 6), (10, 1, 2), (4, 9, 8), (5, 5, 1)]:
        at = np.sort(g.rng.permutation(rows * cols)[:n])
        ids, v, d = np.stack([at // cols, at % cols], 1).astype("int64"), g.array((n,)), g.array(())

        def want():
            empty = [r for r in range(rows) if r not in ids[:, 0]]
            all_ids = np.concatenate([ids, np.array([[r, 0] for r in empty], "int64").reshape(-1, 2)])
            order = np.argsort(all_ids[:, 0], kind="stable")
            return all_ids[order], np.concatenate([v, np.full(len(empty), d)])[order], np.isin(np.arange(rows), empty).astype("int64")
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}})", [ids, v, np.array([rows, cols], "int64"), d], want)
