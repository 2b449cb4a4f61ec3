"""Entries of operators on boxes and regions, of sampling at places that are data, and of random numbers."""
import itertools
import math

import numpy as np

from peer import ALL, FLOATS, NUMBERS, Case, entry, np_dtype, to, wide
from table_elementwise import listed
from table_reduce import ULP_SUM, product_case
from table_window import POOLS, SIZES, RESIZES, axes_of, cubic_weights, permuted, pool_out, resized, upsampling3d

# ---- sampling ---------------------------------------------------------------------------------------------


def reflected(v, low, high):
    if high <= low:
        return 0.0
    v = abs(v - low) % (2 * (high - low))
    return low + min(v, 2 * (high - low) - v)


def brought_in(v, n, padding, align):
    """A coordinate brought to the border, or turned back there."""
    if padding == "reflection":
        v = reflected(v, 0.0, n - 1.0) if align else reflected(v, -0.5, n - 0.5)
    return min(max(v, 0.0), n - 1.0) if padding != "zeros" else v


def grid_taps(v, n, method, padding, align):
    v = (v + 1) / 2 * (n - 1) if align else ((v + 1) * n - 1) / 2
    if method == "bicubic":
        low = math.floor(v)
        weights = cubic_weights(v - low, -0.75)
        return [(int(brought_in(low - 1 + k, n, padding, align)), w) for k, w in enumerate(weights)]
    v = brought_in(v, n, padding, align)
    if method == "nearest":
        return [(int(np.rint(v)), 1.0)]
    low = math.floor(v)
    return [(low, 1 - (v - low)), (low + 1, v - low)]


def sampled(x, taps):
    """The sum over taps, one list an axis; x is C spatial, pixels outside are 0."""
    total = np.zeros(x.shape[0])
    for at in itertools.product(*taps):
        index = tuple(p for p, _ in at)
        if all(0 <= p < n for p, n in zip(index, x.shape[1:])):
            total += x[(slice(None),) + index] * math.prod(w for _, w in at)
    return total


@entry("image.grid_sample", FLOATS, ulp=(16, 200, 1e4))
def grid_sample(g, name):
    for i, (space, out) in enumerate([((3, 4), (2, 3)), ((5, 5), (4, 4)), ((2, 7), (3, 2)), ((4, 4), (1, 6)), ((1, 5), (3, 3)), ((6, 3), (5, 1)), ((4, 5), (2, 2)), ((3, 3), (3, 3)),
                                      ((2, 3, 4), (2, 2, 2)), ((3, 3, 3), (1, 2, 3)), ((4, 2, 3), (2, 3, 1)), ((5, 4), (3, 4)), ((3, 6), (4, 2)), ((4, 4), (3, 3))]):
        method = ["bilinear", "nearest", "bicubic"][i % 3] if len(space) == 2 else ["bilinear", "nearest"][i % 2]
        padding, align = ["zeros", "border", "reflection"][(i // 3) % 3], i % 2 == 0
        x, grid = g.array((2, 2, *space)), g.array((2, len(space), *out), -1.4, 1.4)
        if method == "nearest":  # away from halves, where the last bit decides
            grid = to(g.dtype, np.round(wide(grid) * 4) / 4 + 0.01)

        def want():
            y = np.zeros((2, 2, *out))
            for b, *at in itertools.product(range(2), *map(range, out)):
                where = wide(grid)[(b, slice(None), *at)][::-1]
                y[(b, slice(None), *at)] = sampled(wide(x)[b], [grid_taps(v, n, method, padding, align) for v, n in zip(where, space)])
            return to(g.dtype, y)
        layout = "NCHW" if len(space) == 2 else "NCDHW"
        yield Case(f'image.grid_sample({{}}, {{}}, method="{method}", layout="{layout}", padding_mode="{padding}", align_corners={align})', [x, grid], want, scale=16)


@entry("image.affine_grid", FLOATS, ulp=(8, 16, 16))
def affine_grid(g, name):
    for b, h, w in [(1, 2, 2), (2, 3, 4), (1, 5, 2), (3, 2, 7), (1, 4, 4), (2, 6, 3), (1, 8, 8), (4, 2, 3), (1, 3, 9), (2, 2, 5), (1, 7, 7), (5, 3, 3)]:
        m = g.array((b, 2, 3))

        def want():
            ys, xs = np.meshgrid(np.linspace(-1, 1, h), np.linspace(-1, 1, w), indexing="ij")
            return to(g.dtype, np.einsum("bij,jhw->bihw", wide(m), np.stack([xs, ys, np.ones_like(xs)])))
        yield Case(f"image.affine_grid({{}}, target_shape=[{h}, {w}])", [m], want, scale=8)


@entry("image.crop_and_resize", FLOATS, ulp=(16, 200, 2e11))
def crop_and_resize(g, name):
    for i, (h, w, n, ch, cw) in enumerate([(4, 5, 1, 2, 2), (6, 6, 2, 3, 3), (3, 7, 3, 2, 4), (8, 4, 1, 5, 1), (5, 5, 2, 1, 1), (4, 4, 2, 4, 4), (7, 3, 1, 3, 2), (6, 8, 4, 2, 3),
                                           (5, 9, 2, 4, 2), (3, 3, 1, 6, 6), (4, 6, 2, 3, 5), (9, 9, 3, 2, 2)]):
        method = ["bilinear", "nearest_neighbor"][i % 2]
        x, ids = g.array((2, 2, h, w)), g.ints((n,), 0, 2)
        # Results of the nearest pixel lie away from halves.
        boxes = np.asarray(g.rng.uniform(-0.2, 1.2, (n, 4)), "float32").astype(np_dtype(g.dtype))

        def want():
            y = np.zeros((n, 2, ch, cw))
            for k, r, c in itertools.product(range(n), range(ch), range(cw)):
                y1, x1, y2, x2 = wide(boxes)[k]
                py = y1 * (h - 1) + r * (y2 - y1) * (h - 1) / (ch - 1) if ch > 1 else 0.5 * (y1 + y2) * (h - 1)
                px = x1 * (w - 1) + c * (x2 - x1) * (w - 1) / (cw - 1) if cw > 1 else 0.5 * (x1 + x2) * (w - 1)
                if not (0 <= py <= h - 1 and 0 <= px <= w - 1):
                    y[k, :, r, c] = 0.5
                    continue
                if method == "nearest_neighbor":
                    y[k, :, r, c] = wide(x)[ids[k], :, int(np.floor(py + 0.5)), int(np.floor(px + 0.5))]
                else:
                    taps = [[(math.floor(v), 1 - (v - math.floor(v))), (math.floor(v) + 1, v - math.floor(v))] for v in (py, px)]
                    y[k, :, r, c] = sampled(wide(x)[ids[k]], taps)
            return to(g.dtype, y)
        yield Case(f'{name}({{}}, {{}}, {{}}, crop_size=[{ch}, {cw}], method="{method}", extrapolation_value=0.5f)', [x, boxes, ids], want, scale=8)


@entry("nn.deformable_conv2d", FLOATS, ulp=(32, 64, 1e4))
def deformable_conv2d(g, name):
    for i, (window, _) in enumerate(POOLS):
        axes, parts, groups = axes_of(2, window, i), [1, 2][i % 2], [1, 2][i % 3 == 1]
        size, k = [pool_out(a, False) for a in axes], [a[1] for a in axes]
        stride, dilation, before = [a[2] for a in axes], [a[5] for a in axes], [a[3] for a in axes]
        x, w = g.array((1, 4, axes[0][0], axes[1][0]), -1, 1), g.array((2, 4 // groups, *k), -1, 1)
        offset = g.array((1, 2 * k[0] * k[1] * parts, *size), -1.5, 1.5)

        def want():
            y = np.zeros((1, 2, *size))
            for r, c, a, b in itertools.product(range(size[0]), range(size[1]), range(k[0]), range(k[1])):
                for p in range(parts):
                    at = p * 2 * k[0] * k[1] + 2 * (a * k[1] + b)
                    py = r * stride[0] - before[0] + a * dilation[0] + float(wide(offset)[0, at, r, c])
                    px = c * stride[1] - before[1] + b * dilation[1] + float(wide(offset)[0, at + 1, r, c])
                    # Places outside count as 0, and the pixels beside those inside are brought to the border.
                    inside = all(0 <= v < a[0] for v, a in zip((py, px), axes))
                    taps = [[(math.floor(v), 1 - (v - math.floor(v))), (min(math.floor(v) + 1, a[0] - 1), v - math.floor(v))]
                            for v, a in zip((py, px), axes)]
                    part = 4 // parts
                    values = sampled(wide(x)[0, p * part:(p + 1) * part], taps) * inside
                    for q, channel in enumerate(range(p * part, (p + 1) * part)):
                        group = channel // (4 // groups)
                        for o in range(group * 2 // groups, (group + 1) * 2 // groups):
                            y[0, o, r, c] += values[q] * float(wide(w)[o, channel % (4 // groups), a, b])
            return to(g.dtype, y)
        padding = [a[3] for a in axes] + [a[4] for a in axes]
        yield Case(f"{name}({{}}, {{}}, {{}}, strides={stride}, padding={padding}, dilation={dilation}, deformable_groups={parts}, groups={groups}, channels=2, kernel_size={k})",
                   [x, offset, w], want, scale=8)


@entry("dyn.image.resize2d", NUMBERS, ulp=(8, 64, 2e10))
def dyn_resize2d(g, name):
    for i, ((method, mode, rounding), (e, m)) in enumerate(zip(RESIZES, SIZES)):
        shape, size = (1, 2, e, e + 1), [m, m + (m > 1)]
        if mode.startswith("tf"):
            continue
        if not g.float and method != "nearest_neighbor":
            mode, size = mode if mode == "half_pixel" else "asymmetric", [2 * e, 2 * e + 2]
        x = g.array(shape) if g.float else g.small(shape, 0, 50)
        yield Case(f'{name}({{}}, {{}}, {{}}, method="{method}", coordinate_transformation_mode="{mode}", rounding_method="{rounding}")',
                   [x, np.array(size, "int64"), np.zeros(4, "float32")], lambda: to(g.dtype, resized(wide(x), size, method, mode, rounding)), scale=4)


@entry("dyn.nn.upsampling3d", NUMBERS, ulp=(8, 64, 2e10))
def dyn_upsampling3d(g, name):
    for c in upsampling3d(g, name):
        scales = [np.array(float(part.split("=")[1][:-1]), "float32") for part in c.text.split(", ")[1:4]]
        rest = ", ".join(c.text[:-1].split(", ")[4:])
        yield Case(f"dyn.nn.upsampling3d({{}}, {{}}, {{}}, {{}}, {rest})", c.arrays + scales, c.want, scale=4)


# ---- regions ---------------------------------------------------------------------------------------------

REGIONS = [(6, 6, 1, 2, 2), (8, 5, 2, 3, 2), (5, 9, 3, 2, 4), (4, 4, 1, 1, 1), (10, 10, 2, 3, 3), (7, 7, 4, 2, 2), (6, 8, 1, 4, 4), (9, 5, 2, 1, 3), (5, 5, 3, 5, 5), (12, 6, 2, 2, 1),
           (8, 8, 1, 3, 2), (6, 10, 2, 2, 3)]


def regions(g, h, w, n, scale):
    corners = g.rng.uniform(0, 1, (n, 4)) * np.array([w, h, w, h]) / scale
    corners[:, 2:] = np.maximum(corners[:, :2] + 1, corners[:, 2:])
    return to(g.dtype, np.concatenate([g.rng.integers(0, 2, (n, 1)), np.round(corners * 8) / 8], 1))


def bilinear_inside(x, y, xx):
    """roi_align's pixels: 0 more than one outside, else brought to the border."""
    h, w = x.shape[1:]
    if y < -1 or y > h or xx < -1 or xx > w:
        return np.zeros(x.shape[0])
    y, xx = max(y, 0.0), max(xx, 0.0)
    taps = []
    for v, n in ((y, h), (xx, w)):
        low = min(int(v), n - 1)
        t = v - low if low < n - 1 else 0.0
        taps.append([(low, 1 - t), (min(low + 1, n - 1), t)])
    return sampled(x, taps)


@entry("vision.roi_align", FLOATS, ulp=(32, 400, 2e11))
def roi_align(g, name):
    for i, (h, w, n, ph, pw) in enumerate(REGIONS):
        scale, ratio, mode = [1.0, 0.5, 0.25][i % 3], [-1, 2, 1, 3][i % 4], ["avg", "max"][i % 2]
        x, rois = g.array((2, 2, h, w)), regions(g, h, w, n, scale)

        def want():
            out = np.zeros((n, 2, ph, pw))
            for k, (b, x1, y1, x2, y2) in enumerate(wide(rois)):
                left, top = x1 * scale, y1 * scale
                rw, rh = max(x2 * scale - left, 1.0), max(y2 * scale - top, 1.0)
                bw, bh = rw / pw, rh / ph
                nw, nh = (ratio, ratio) if ratio > 0 else (math.ceil(rw / pw), math.ceil(rh / ph))
                for r, c in itertools.product(range(ph), range(pw)):
                    s = [bilinear_inside(wide(x)[int(b)], top + r * bh + (a + 0.5) * bh / nh, left + c * bw + (d + 0.5) * bw / nw)
                         for a in range(nh) for d in range(nw)]
                    out[k, :, r, c] = np.mean(s, 0) if mode == "avg" else np.max(s, 0)
            return to(g.dtype, out)
        yield Case(f'{name}({{}}, {{}}, pooled_size=[{ph}, {pw}], spatial_scale={scale}f, sample_ratio={ratio}, mode="{mode}")', [x, rois], want, scale=8)


@entry("vision.roi_pool", FLOATS)
def roi_pool(g, name):
    for i, (h, w, n, ph, pw) in enumerate(REGIONS):
        scale = [1.0, 0.5, 0.25][i % 3]
        x, rois = g.array((2, 2, h, w)), regions(g, h, w, n, scale)

        def want():
            half = lambda v: int(math.floor(v + 0.5))  # noqa: E731
            out = np.zeros((n, 2, ph, pw))
            for k, (b, *corners) in enumerate(wide(rois)):
                x1, y1, x2, y2 = (half(v * scale) for v in corners)
                rh, rw = max(y2 - y1 + 1, 1), max(x2 - x1 + 1, 1)
                for r, c in itertools.product(range(ph), range(pw)):
                    top, bottom = (min(max(v + y1, 0), h) for v in (r * rh // ph, -(-(r + 1) * rh // ph)))
                    left, right = (min(max(v + x1, 0), w) for v in (c * rw // pw, -(-(c + 1) * rw // pw)))
                    if bottom > top and right > left:
                        out[k, :, r, c] = wide(x)[int(b), :, top:bottom, left:right].max((1, 2))
            return to(g.dtype, out)
        yield Case(f"{name}({{}}, {{}}, pooled_size=[{ph}, {pw}], spatial_scale={scale}f)", [x, rois], want)


def darknet_reorg(x, s):
    """Element by element, as Darknet's reorg_cpu walks over an image."""
    n, c, h, w = x.shape
    out = []
    for image in x.reshape(n, -1):
        for k in range(c):
            block, channel = divmod(k, c // (s * s))
            for j in range(h):
                for i in range(w):
                    row, column = j * s + block // s, i * s + block % s
                    out.append(image[column + w * s * (row + h * s * channel)])
    return np.array(out, x.dtype).reshape(n, c * s * s, h // s, w // s)


@entry("vision.yolo_reorg", ALL)
def yolo_reorg(g, name):
    for n, c, h, w, s in [(1, 4, 2, 2, 2), (2, 4, 4, 6, 2), (1, 9, 3, 3, 3), (1, 16, 4, 4, 4), (2, 8, 6, 2, 2), (1, 1, 1, 1, 1), (1, 5, 2, 4, 2), (3, 2, 2, 2, 1), (1, 18, 6, 9, 3), (1, 12, 8, 8, 2),
                          (2, 8, 4, 4, 2), (1, 25, 5, 5, 5)]:
        x = g.array((n, c, h, w))
        yield Case(f"{name}({{}}, stride={s})", [x], lambda: darknet_reorg(x, s))


@entry("vision.multibox_prior", FLOATS, ulp=(2, 16, 2e10))
def multibox_prior(g, name):
    for i, (h, w) in enumerate([(1, 1), (2, 3), (4, 4), (3, 5), (5, 2), (1, 7), (6, 6), (2, 2), (3, 3), (4, 2), (7, 1), (2, 8)]):
        sizes, ratios = [[1.0], [0.5, 0.25], [0.3, 0.6, 0.9]][i % 3], [[1.0], [1.0, 2.0], [1.0, 0.5, 3.0]][i % 4 % 3]
        steps, clip = [(-1.0, -1.0), (0.25, 0.5)][i % 2], i % 5 == 0
        x = g.array((1, 2, h, w))

        def want():
            sy, sx = (steps[0], steps[1]) if steps[0] > 0 else (1 / h, 1 / w)
            half = [(s * h / w / 2, s / 2) for s in sizes] + [(sizes[0] * h / w * math.sqrt(r) / 2, sizes[0] / math.sqrt(r) / 2) for r in ratios[1:]]
            boxes = [(((c + 0.5) * sx - a), ((r + 0.5) * sy - b), ((c + 0.5) * sx + a), ((r + 0.5) * sy + b)) for r in range(h) for c in range(w) for a, b in half]
            y = np.array(boxes).reshape(1, -1, 4)
            return to(g.dtype, np.clip(y, 0, 1) if clip else y)
        text = lambda v: "[" + ", ".join(f"{e}f" for e in v) + "]"  # noqa: E731
        yield Case(f"{name}({{}}, sizes={text(sizes)}, ratios={text(ratios)}, steps={text(steps)}, clip={clip})", [x], want, scale=4)


# ---- boxes -------------------------------------------------------------------------------------------------

def overlap(a, b):
    ys, xs = max(0.0, min(a[2], b[2]) - max(a[0], b[0])), max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    area = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - ys * xs
    return ys * xs / area if area > 0 else 0.0


def random_boxes(g, *shape):
    low = g.rng.uniform(0, 0.7, (*shape, 2))
    return np.concatenate([low, low + g.rng.uniform(0.05, 0.3, (*shape, 2))], -1)


def distinct(g, *shape):
    """Scores, no two of which are equal."""
    n = int(np.prod(shape))
    return (g.rng.permutation(n) + 0.5).reshape(shape) / n


BOXES = [(1, 1), (1, 5), (2, 8), (1, 20), (3, 4), (1, 40), (2, 10), (1, 7), (2, 3), (1, 13), (2, 25), (4, 6)]


@entry("vision.get_valid_counts", FLOATS)
def get_valid_counts(g, name):
    for i, (b, n) in enumerate(BOXES):
        limit = [0.0, 0.3, 0.7][i % 3]
        data = np.concatenate([g.rng.integers(-1, 3, (b, n, 1)), distinct(g, b, n)[..., None], random_boxes(g, b, n)], -1)
        data = to(g.dtype, data)

        def want():
            count, out, at = np.zeros(b, "int32"), np.full_like(data, -1), np.full((b, n), -1, "int32")
            for k in range(b):
                good = [j for j in range(n) if data[k, j, 1] > np.float32(limit) and data[k, j, 0] >= 0]
                count[k], out[k, :len(good)], at[k, :len(good)] = len(good), data[k, good], good
            return count, out, at
        yield Case(f"{name}({{}}, {{}}, id_index=0, score_index=1)", [data, np.array(limit, "float32")], want)


@entry("vision.non_max_suppression", FLOATS)
def non_max_suppression(g, name):
    for i, (b, n) in enumerate(BOXES):
        limit, force, most = [0.5, 0.3, 0.1][i % 3], i % 2 == 1, [-1, 3][i % 4 == 3]
        data = to(g.dtype, np.concatenate([g.rng.integers(0, 3, (b, n, 1)), distinct(g, b, n)[..., None], random_boxes(g, b, n)], -1))
        valid = np.full(b, n, "int32")
        indices = np.tile(np.arange(n, dtype="int32"), (b, 1))

        def want():
            names, counts = np.full((b, n), -1, "int32"), np.zeros((b, 1), "int32")
            for k in range(b):
                kept = []
                for j in np.argsort(-data[k, :, 1], kind="stable"):
                    if len(kept) == most:
                        break
                    if not any((force or data[k, m, 0] == data[k, j, 0]) and overlap(wide(data)[k, m, 2:], wide(data)[k, j, 2:]) >= np.float32(limit) for m in kept):
                        kept.append(j)
                names[k, :len(kept)], counts[k] = kept, len(kept)
            return names, counts
        yield Case(f"{name}({{}}, {{}}, {{}}, {{}}, {{}}, force_suppress={force}, return_indices=True, invalid_to_bottom=True)",
                   [data, valid, indices, np.array(most, "int32"), np.array(limit, "float32")], want)


def by_class(boxes, scores, most, limit, least):
    """For one image: (class, box) kept, class by class."""
    out = []
    for c, row in enumerate(scores):
        kept = []
        for j in np.argsort(-row, kind="stable"):
            if len(kept) >= most or row[j] <= least:
                break
            if all(overlap(boxes[m], boxes[j]) <= limit for m in kept):
                kept.append(j)
        out += [(c, j) for j in kept]
    return out


@entry("vision.all_class_non_max_suppression", FLOATS)
def all_class_nms(g, name):
    for i, (b, n) in enumerate(BOXES):
        classes, most, limit, least = 1 + i % 3, [2, 5, 100][i % 3], [0.5, 0.2][i % 2], [0.0, 0.4][i % 2]
        boxes, scores = to(g.dtype, random_boxes(g, b, n)), to(g.dtype, distinct(g, b, classes, n))
        kept = [(k, c, j) for k in range(b) for c, j in by_class(wide(boxes)[k], wide(scores)[k], most, np.float32(limit), np.float32(least))]
        yield Case(f'strided_slice({name}({{}}, {{}}, {{}}, {{}}, {{}}, output_format="onnx").0, begin=[0, 0], end=[{len(kept)}, 3], strides=[1, 1], axes=None)',
                   [boxes, scores, np.array(most, "int64"), np.array(limit, "float32"), np.array(least, "float32")], lambda: np.array(kept, "int64").reshape(-1, 3))


@entry("vision.regular_non_max_suppression", FLOATS)
def regular_nms(g, name):
    for i, (b, n) in enumerate(BOXES):
        classes, per, most, limit, least = 1 + i % 3, [2, 5][i % 2], [3, 6, 10][i % 3], [0.5, 0.25][i % 2], 0.25
        boxes, scores = to(g.dtype, random_boxes(g, b, n)), to(g.dtype, distinct(g, b, n, classes))

        def want():
            out = np.zeros((b, most, 4), "float32"), np.zeros((b, most), "float32"), np.zeros((b, most), "float32"), np.zeros(b, "int32")
            for k in range(b):
                kept = by_class(boxes[k].astype(float), scores[k].T.astype(float), per, limit, np.nextafter(least, 0))
                kept = sorted(kept, key=lambda e: -scores[k, e[1], e[0]])[:most]
                for j, (c, at) in enumerate(kept):
                    out[0][k, j], out[1][k, j], out[2][k, j] = boxes[k, at], c, scores[k, at, c]
                out[3][k] = len(kept)
            return out
        yield Case(f"{name}({{}}, {{}}, max_detections_per_class={per}, max_detections={most}, num_classes={classes}, iou_threshold={limit}f, score_threshold={least}f)", [boxes, scores], want)


@entry("vision.multibox_transform_loc", FLOATS, ulp=(8, 32, 2e10))
def transform_loc(g, name):
    for i, (b, n) in enumerate(BOXES):
        classes, clip, limit = 2 + i % 3, i % 2 == 0, [0.01, 0.5][i % 2]
        prob, move, anchor = to(g.dtype, distinct(g, b, classes, n)), g.array((b, 4 * n), -1, 1), to(g.dtype, random_boxes(g, 1, n))

        def want():
            out, count = np.full((b, n, 6), -1.0), np.zeros(b, "int32")
            for k in range(b):
                for j in range(n):
                    best = 1 + int(np.argmax(prob[k, 1:, j]))
                    if prob[k, best, j] < limit:
                        continue
                    left, top, right, bottom = wide(anchor)[0, j]
                    w, h = right - left, bottom - top
                    m = wide(move)[k, 4 * j:4 * j + 4] * np.float64([0.1, 0.1, 0.2, 0.2])
                    x, y, ow, oh = m[0] * w + (left + right) / 2, m[1] * h + (top + bottom) / 2, np.exp(m[2]) * w / 2, np.exp(m[3]) * h / 2
                    box = np.array([x - ow, y - oh, x + ow, y + oh])
                    out[k, count[k]] = [best - 1, prob[k, best, j], *(np.clip(box, 0, 1) if clip else box)]
                    count[k] += 1
            return to(g.dtype, out), count
        yield Case(f"{name}({{}}, {{}}, {{}}, clip={clip}, threshold={limit}f)", [prob, move, anchor], want, scale=4)


# ---- random numbers --------------------------------------------------------------------------------------------

WORD = 2**64


def threefry(key, x):
    """Threefry-4x64 with 20 rounds, after the paper."""
    k = list(key) + [0x1BD11BDAA9FC1A22 ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    turns = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
    turn = lambda v, n: (v << n | v >> (64 - n)) % WORD  # noqa: E731
    x = [(v + k[j]) % WORD for j, v in enumerate(x)]
    for r in range(20):
        a, b = turns[r % 8]
        x[0] = (x[0] + x[1]) % WORD
        x[2] = (x[2] + x[3]) % WORD
        x[1], x[3] = turn(x[1], a) ^ x[0], turn(x[3], b) ^ x[2]
        x[1], x[3] = x[3], x[1]
        if r % 4 == 3:
            s = r // 4 + 1
            x = [(v + k[(s + j) % 5] + (s if j == 3 else 0)) % WORD for j, v in enumerate(x)]
    return x


assert threefry([0] * 4, [0] * 4)[0] == 0x09218EBDE6C85537  # the paper's first test


def random_key(g):
    words = [int(v) for v in g.rng.integers(0, WORD, 4, dtype="uint64")]
    return np.array(words + [0, 0, 0, int(g.rng.integers(0, 1000)) * 4, 1 << 63, 0], "uint64")


def drawn(key, n):
    """n words after the key's counter: block i is the hash of path and counter, with i added to each word; what does not fill a block has one
    of its own."""
    k, state, out = [int(v) for v in key[:4]], [int(v) for v in key[4:8]], []
    for i in range(0, n, 4):
        whole = n - i >= 4
        x = [(v + (i // 4 if whole else 0) + (i if j == 3 and not whole else 0)) % WORD for j, v in enumerate(state)]
        out += threefry(k, x)[:min(4, n - i)]
    after = key.copy()
    after[7] += np.uint64(-(-n // 4) * 4)
    return after, np.array(out, "uint64")


DRAWS = [(1,), (4,), (5,), (2, 3), (8,), (3, 3, 3), (17,), (2, 2, 2, 2), (100,), (1, 1), (6, 4), (33,)]


@entry("random.threefry_generate", ["uint64"], free=False)
def threefry_generate(g, name):
    for s in DRAWS:
        key = random_key(g)
        yield Case(f"{name}({{}}, out_shape={listed(s)})", [key], lambda: (lambda k, v: (k, v.reshape(s)))(*drawn(key, int(np.prod(s)))))


@entry("random.threefry_split", ["uint64"], free=False)
def threefry_split(g, name):
    for i in range(12):
        key = random_key(g)
        key[8], key[9] = (1 << (63 - 5 * i), 0) if i < 8 else (0, 1 << (60 - i))
        if i == 5:
            key[8], key[9] = 1, 0

        def want():
            left = key.copy()
            bit = (int(key[8]) << 64 | int(key[9]))
            left[8], left[9] = bit >> 1 >> 64, (bit >> 1) % WORD
            right = left.copy()
            right[4] |= key[8]
            right[5] |= key[9]
            return left, right
        yield Case(f"{name}({{}})", [key], want)


def unit(bits, dtype):
    n = 23 if dtype == "float32" else 52
    return (bits >> np.uint64(64 - n)).astype("float64") / 2.0**n


@entry("random.uniform random.normal", ["float32", "float64"], ulp=(0, 16, 16))
def random(g, name):
    for s in DRAWS:
        key, a, b = random_key(g), g.array((), -2, 0), g.array((), 1, 3)
        n = int(np.prod(s))

        def want():
            if name == "random.uniform":
                after, bits = drawn(key, n)
                return after, to(g.dtype, (unit(bits, g.dtype) * (float(b) - float(a)) + float(a)).reshape(s))
            after, bits = drawn(key, 2 * n)
            u, v = unit(bits[:n], g.dtype), unit(bits[n:], g.dtype)
            y = np.sqrt(-2 * np.log(1 - u)) * np.sin(2 * np.pi * v) * float(b) + float(a)
            return after, to(g.dtype, y.reshape(s))
        yield Case(f'{name}({{}}, {{}}, {{}}, out_shape={listed(s)}, out_dtype="{g.dtype}")', [key, a, b], want, scale=8)


@entry("random.multinomial", FLOATS)
def multinomial(g, name):
    for i, s in enumerate([(3,), (5,), (2, 4), (3, 3), (1,), (2, 2, 3), (10,), (4, 2), (30,), (1, 6), (7,), (2, 5)]):
        key, p, n = random_key(g), g.array(s, 0.1, 1), [1, 4, 9][i % 3]

        def want():
            after, bits = drawn(key, int(np.prod(s[:-1])) * n)
            total = np.cumsum(wide(p).reshape(-1, s[-1]), -1)
            u = unit(bits, "float32").reshape(-1, n)
            y = [[np.searchsorted(row, v * row[-1], "right") for v in us] for row, us in zip(total, u)]
            return after, np.minimum(np.array(y, "int32"), s[-1] - 1).reshape(s[:-1] + (n,))
        yield Case(f"{name}({{}}, {{}}, num_samples={n})", [key, p], want)
