"""Operators that no NumPy function matches, against references written out here: random numbers, boxes and regions.

RELAY is the binary, ENGINE the engine (default: interp).
"""
import sys

import numpy as np

from cases import RNG, Case, run_all

MASK = 2**64 - 1


# ---- random ---------------------------------------------------------------------------------------

def threefry(key, x):
    turns = [(14, 16), (52, 57), (23, 40), (5, 37), (25, 33), (46, 12), (58, 22), (32, 32)]
    k = list(key) + [0x1BD11BDAA9FC1A22]
    for w in key:
        k[4] ^= w

    def turn(v, n):
        return (v << n | v >> (64 - n)) & MASK

    x = list(x)
    for r in range(20):
        if r % 4 == 0:
            s = r // 4
            x = [(x[j] + k[(s + j) % 5] + (s if j == 3 else 0)) & MASK for j in range(4)]
        a, c = (x[0] + x[1]) & MASK, (x[2] + x[3]) & MASK
        x = [a, c ^ turn(x[3], turns[r % 8][1]), c, a ^ turn(x[1], turns[r % 8][0])]
    return x


def words(key, n):
    blocks = [threefry(key[:4], [(w + i) & MASK for w in key[4:8]]) for i in range(n // 4)]
    if n % 4:
        blocks.append(threefry(key[:4], key[4:7] + [key[7] + n // 4 * 4]))
    return [w for b in blocks for w in b][:n]


def u64(values):
    return np.array([int(v) for v in values], dtype="uint64")


def random_cases():
    keys = [[0] * 8 + [1 << 63, 0], [1, 2, 3, 4, 5, 6, 0, 40, 0, 1 << 20]]
    for key in keys:
        for n in (1, 4, 10, 64):
            after = key[:6] + [0, key[7] + (n + 3) // 4 * 4] + key[8:]
            yield Case(f"random.threefry_generate({{}}, out_shape=[{n}])", [u64(key)],
                       [u64(after), u64(words(key, n))])
            unit = np.array([w >> 41 for w in words(key, n)], "float32") / np.float32(2**23)
            yield Case(f'random.uniform({{}}, -1f, 3f, out_shape=[{n}], out_dtype="float32")', [u64(key)],
                       [u64(after), unit * np.float32(4) - np.float32(1)])
    yield Case("random.threefry_split({})", [u64(keys[0])],
               [u64([0] * 8 + [1 << 62, 0]), u64([0] * 4 + [1 << 63, 0, 0, 0, 1 << 62, 0])])
    spent = [1, 2, 3, 4, 5, 6, 0, 7, 0, 0]  # the path is at its end
    new = threefry(spent[:4], spent[4:8])
    yield Case("random.threefry_split({})", [u64(spent)],
               [u64(new + [0] * 4 + [1 << 62, 0]), u64(new + [1 << 63, 0, 0, 0, 1 << 62, 0])])
    full = [1, 2, 3, 4, 0, 0, 0, 2**64 - 2, 1, 0]  # the counter is at its end, the path is not
    moved = [1, 2, 3, 4, 1, 0, 0, 0, 0, 1 << 63]
    yield Case("random.threefry_generate({}, out_shape=[4])", [u64(full)],
               [u64(moved[:7] + [4] + moved[8:]), u64(words(moved, 4))])
    w = np.array(words(keys[0], 12), "uint64") >> np.uint64(12)
    u = w.astype("float64") / 2.0**52
    normal = np.sqrt(-2 * np.log(1 - u[:6])) * np.sin(2 * np.pi * u[6:]) * 3 + 2
    yield Case('random.normal({}, 2f64, 3f64, out_shape=[2, 3], out_dtype="float64")', [u64(keys[0])],
               [u64([0] * 7 + [12, 1 << 63, 0]), normal.reshape(2, 3)], rtol=1e-12)
    p = np.array([[1, 0, 0], [0, 0, 2]], "float32")
    yield Case("random.multinomial({}, {}, num_samples=4)", [u64(keys[0]), p],
               [u64([0] * 7 + [8, 1 << 63, 0]), np.array([[0] * 4, [2] * 4], "int32")])


# ---- boxes ----------------------------------------------------------------------------------------

def iou(a, b):
    low, high = np.maximum(a[:2], b[:2]), np.minimum(a[2:], b[2:])
    inside = np.prod(np.maximum(high - low, 0))
    both = np.prod(a[2:] - a[:2]) + np.prod(b[2:] - b[:2]) - inside
    return inside / both if both > 0 else 0


def boxes(n):
    low = RNG.uniform(0, 3, (n, 2))
    return np.concatenate([low, low + RNG.uniform(0.5, 2, (n, 2))], 1).astype("float32")


def nms_cases():
    for n, most, top in [(1, -1, -1), (6, -1, -1), (20, -1, -1), (20, 3, -1), (20, -1, 8), (0, -1, -1),
                         (300, -1, -1), (300, 40, -1)]:
        classes = RNG.integers(0, 2, n).astype("float32")
        rows = np.concatenate([classes[:, None], RNG.uniform(0.1, 1, (n, 1)).astype("float32"), boxes(n)], 1)
        order = np.argsort(-rows[:, 1], kind="stable")
        kept = []
        for i in order[:top] if top > 0 else order:
            if all(rows[k, 0] != rows[i, 0] or iou(rows[k, 2:].astype(float), rows[i, 2:].astype(float)) < 0.4
                   for k in kept):
                kept.append(i)
        there = np.full((1, n, 6), -1, "float32")  # what is suppressed has lost class and score, what is too much all
        for place, i in enumerate(order[:top] if top > 0 else order):
            if i not in kept:
                there[0, place, 2:] = rows[i, 2:]
            elif most < 0 or i in kept[:most]:
                there[0, place] = rows[i]
        kept = kept[:most] if most > 0 else kept
        names = np.full((1, n), -1, "int32")
        names[0, :len(kept)] = kept
        args = [rows[None], np.array([n], "int32"), np.arange(n, dtype="int32")[None]]
        text = f"vision.non_max_suppression({{}}, {{}}, {{}}, {most}, 0.4f, top_k={top}"
        yield Case(text + ")", args, [names, np.array([[len(kept)]], "int32")])
        front = np.full((1, n, 6), -1, "float32")
        front[0, :len(kept)] = rows[kept]
        yield Case(text + ", return_indices=False, invalid_to_bottom=True)", args, front)
        yield Case(text + ", return_indices=False)", args, there)
        good = rows[:, 1] > 0.5
        counted = np.full((1, n, 6), -1, "float32")
        counted[0, :good.sum()] = rows[good]
        where = np.full((1, n), -1, "int32")
        where[0, :good.sum()] = np.nonzero(good)[0]
        yield Case("vision.get_valid_counts({}, 0.5f)", [rows[None]],
                   [np.array([good.sum()], "int32"), counted, where])


def class_cases():
    for b, c, n, most in [(1, 1, 5, 5), (2, 3, 8, 2), (1, 2, 30, 10)]:
        box = np.stack([boxes(n) for _ in range(b)])
        scores = RNG.uniform(0, 1, (b, c, n)).astype("float32")
        rows, counts, best = [], [], []
        for i in range(b):
            first = len(rows)
            for k in range(c):
                kept = []
                for j in np.argsort(-scores[i, k], kind="stable"):
                    if scores[i, k, j] > np.float32(0.2) and len(kept) < most and all(
                            iou(box[i, j].astype(float), box[i, q].astype(float)) <= 0.5 for q in kept):
                        kept.append(j)
                rows += [(i, k, j) for j in kept]
            counts.append(len(rows) - first)
            best.append(sorted(rows[first:], key=lambda r: -scores[r])[:4])
        want = np.zeros((b * c * n, 3), "int64")
        want[:len(rows)] = rows
        text = f"vision.all_class_non_max_suppression({{}}, {{}}, {most}i64, 0.5f, 0.2f"
        yield Case(text + ")", [box, scores], [want, np.array([len(rows)], "int64")])
        pairs, values = np.zeros((b, c * n, 2), "int64"), np.zeros((b, c * n), "float32")
        at = 0
        for i, m in enumerate(counts):
            for q in range(m):
                pairs[i, q], values[i, q] = rows[at][1:], scores[rows[at]]
                at += 1
        yield Case(text + ', output_format="tensorflow")', [box, scores], [pairs, values, np.array(counts)])
        out = [np.zeros((b, 4, 4), "float32"), np.zeros((b, 4), "float32"), np.zeros((b, 4), "float32")]
        for i, found in enumerate(best):
            for q, r in enumerate(found):
                out[0][i, q], out[1][i, q], out[2][i, q] = box[i, r[2]], r[1], scores[r]
        yield Case(f"vision.regular_non_max_suppression({{}}, {{}}, max_detections_per_class={most}, max_detections=4, "
                   f"num_classes={c}, iou_threshold=0.5f, score_threshold=0.2f)",
                   [box, scores.transpose(0, 2, 1).copy()], out + [np.array([len(f) for f in best], "int32")])


# ---- regions --------------------------------------------------------------------------------------

def bilinear(plane, y, x):
    h, w = plane.shape
    if y < -1 or y > h or x < -1 or x > w:
        return 0
    y, x = min(max(y, 0), h - 1), min(max(x, 0), w - 1)
    y0, x0 = int(y), int(x)
    y1, x1 = min(y0 + 1, h - 1), min(x0 + 1, w - 1)
    dy, dx = y - y0, x - x0
    return ((plane[y0, x0] * (1 - dx) + plane[y0, x1] * dx) * (1 - dy)
            + (plane[y1, x0] * (1 - dx) + plane[y1, x1] * dx) * dy)


def region_cases():
    for (n, c, h, w), (ph, pw), scale, ratio in [((1, 1, 4, 5), (1, 1), 1.0, 2), ((2, 3, 8, 7), (2, 3), 0.5, -1),
                                                 ((1, 2, 6, 6), (3, 3), 2.0, 3), ((2, 2, 5, 3), (4, 9), 1.5, -1)]:
        x = RNG.uniform(-1, 1, (n, c, h, w)).astype("float32")
        low = RNG.uniform(-5, 4, (5, 2))
        rois = np.concatenate([RNG.integers(0, n, (5, 1)), low, low + RNG.uniform(0, 12, (5, 2))], 1).astype("float32")
        mean, most, pool = (np.zeros((5, c, ph, pw), "float32") for _ in range(3))
        for r, (image, *corners) in enumerate(rois.astype(float)):
            x0, y0, x1, y1 = (v * scale for v in corners)
            bh, bw = max(y1 - y0, 1) / ph, max(x1 - x0, 1) / pw
            ny, nx = (ratio, ratio) if ratio > 0 else (int(np.ceil(bh)), int(np.ceil(bw)))
            px0, py0, px1, py1 = (np.floor(v + 0.5) for v in (x0, y0, x1, y1))
            qh, qw = max(py1 - py0 + 1, 1) / ph, max(px1 - px0 + 1, 1) / pw
            for k in range(c):
                plane = x[int(image), k].astype(float)
                for i in range(ph):
                    for j in range(pw):
                        v = [bilinear(plane, y0 + (i + (a + .5) / ny) * bh, x0 + (j + (b + .5) / nx) * bw)
                             for a in range(ny) for b in range(nx)]
                        mean[r, k, i, j], most[r, k, i, j] = np.mean(v), np.max(v)
                        rows = [int(min(max(q + py0, 0), h)) for q in (np.floor(i * qh), np.ceil((i + 1) * qh))]
                        cols = [int(min(max(q + px0, 0), w)) for q in (np.floor(j * qw), np.ceil((j + 1) * qw))]
                        part = plane[rows[0]:rows[1], cols[0]:cols[1]]
                        pool[r, k, i, j] = part.max() if part.size else 0
        attrs = f"pooled_size=[{ph}, {pw}], spatial_scale={scale}f"
        yield Case(f"vision.roi_align({{}}, {{}}, {attrs}, sample_ratio={ratio})", [x, rois], mean, rtol=1e-5, atol=1e-6)
        yield Case(f'vision.roi_align({{}}, {{}}, {attrs}, sample_ratio={ratio}, mode="max")', [x, rois], most,
                   rtol=1e-5, atol=1e-6)
        across = x.transpose(0, 2, 3, 1).astype("float64")
        yield Case(f'vision.roi_align({{}}, {{}}, {attrs}, sample_ratio={ratio}, layout="NHWC")', [across, rois],
                   mean.transpose(0, 2, 3, 1).astype("float64"), rtol=1e-5, atol=1e-6)
        yield Case(f"vision.roi_pool({{}}, {{}}, {attrs})", [x, rois], pool)
        yield Case(f'vision.roi_pool({{}}, {{}}, {attrs}, layout="NHWC")', [x.transpose(0, 2, 3, 1).copy(), rois],
                   pool.transpose(0, 2, 3, 1))
    x = np.arange(16, dtype="float32").reshape(1, 4, 2, 2)
    want = np.array([0, 2, 8, 10, 1, 3, 9, 11, 4, 6, 12, 14, 5, 7, 13, 15], "float32").reshape(1, 16, 1, 1)
    yield Case("vision.yolo_reorg({}, stride=2)", [x], want)
    yield Case("vision.multibox_prior({}, sizes=[0.5f, 0.25f], ratios=[1f, 4f])", [np.zeros((1, 1, 1, 2), "float32")],
               np.array([[[0.125, 0.25, 0.375, 0.75], [0.1875, 0.375, 0.3125, 0.625], [0, 0.375, 0.5, 0.625],
                          [0.625, 0.25, 0.875, 0.75], [0.6875, 0.375, 0.8125, 0.625], [0.5, 0.375, 1, 0.625]]], "float32"),
               rtol=1e-6)
    scores = np.array([[[.1, .6, .995], [.9, .4, .005]]], "float32")
    anchor = np.array([[[0, 0, .5, .5], [.5, .5, 1, 1], [0, 0, 1, 1]]], "float32")
    moves = np.array([[1, 0, 0, 0, 0, 0, np.log(2) / .2, 0, 0, 0, 0, 0]], "float32")
    yield Case("vision.multibox_transform_loc({}, {}, {})", [scores, moves, anchor],
               [np.array([[[0, .9, .05, 0, .55, .5], [0, .4, .25, .5, 1, 1], [-1] * 6]], "float32"),
                np.array([2], "int32")], rtol=1e-5)
    chance = np.array([[[[.1, .2]], [[.9, .8]]]], "float32")
    yield Case("vision.proposal({}, {}, {}, scales=[1f], ratios=[1f], rpn_post_nms_top_n=3, rpn_min_size=1)",
               [chance, np.zeros((1, 4, 1, 2), "float32"), np.array([[16, 32, 1]], "float32")],
               np.array([[0, 0, 0, 15, 15], [0, 16, 0, 31, 15], [0, 0, 0, 15, 15]], "float32"))


# ---- between pixels -------------------------------------------------------------------------------

def bring_in(v, extent, outside, corners):
    if outside == "reflection":
        low, span = (0, extent - 1) if corners else (-0.5, extent)
        d = abs(v - low)
        rest, turns = d % span, d // span
        v = low + (span - rest if turns % 2 else rest)
    return v if outside == "zeros" else min(max(v, 0), extent - 1)


def taps(v, extent, method, outside, corners):
    if method != "bicubic":
        v = bring_in(v, extent, outside, corners)
    if method == "nearest":
        return [(np.rint(v), 1)]
    low = np.floor(v)
    t = v - low
    if method == "bilinear":
        return [(low, 1 - t), (low + 1, t)]

    def weight(d):
        a = -0.75
        return ((a + 2) * d - (a + 3)) * d * d + 1 if d <= 1 else ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return [(np.trunc(bring_in(low + k, extent, outside, corners)), weight(abs(t - k))) for k in range(-1, 3)]


def read(image, place, *how):
    if image.ndim == 1:
        return image
    total = 0
    for at, w in taps(place[0], image.shape[0], *how):
        if 0 <= at < image.shape[0]:
            total = total + w * read(image[int(at)], place[1:], *how)
    return total


def sample_cases():
    for shape in [(2, 3, 5, 6), (1, 2, 3, 4, 5)]:
        n = len(shape) - 2
        x = RNG.normal(size=shape).astype("float32")
        grid = RNG.uniform(-1.4, 1.4, (shape[0], n) + (3, 4, 2)[:n]).astype("float32")
        for method in ("bilinear", "nearest", "bicubic")[:5 - n]:
            for outside in ("zeros", "border", "reflection"):
                for corners in (True, False):
                    want = np.zeros((shape[0], shape[1]) + grid.shape[2:], "float32")
                    for at in np.ndindex(*want.shape[:1], *grid.shape[2:]):
                        g = grid[(at[0], slice(None)) + at[1:]][::-1].astype(float)
                        place = [((v + 1) / 2 * (e - 1)) if corners else ((v + 1) * e - 1) / 2
                                 for v, e in zip(g, shape[2:])]
                        image = np.moveaxis(x[at[0]].astype(float), 0, -1)
                        want[(at[0], slice(None)) + at[1:]] = read(image, place, method, outside, corners)
                    layout = ', layout="NCDHW"' if n == 3 else ""
                    yield Case(f'image.grid_sample({{}}, {{}}, method="{method}", padding_mode="{outside}", '
                               f"align_corners={corners}{layout})", [x, grid], want, rtol=1e-4, atol=1e-4)
    m = RNG.normal(size=(2, 2, 3)).astype("float32")
    ys, xs = np.meshgrid(np.linspace(-1, 1, 3), np.linspace(-1, 1, 5), indexing="ij")
    yield Case("image.affine_grid({}, target_shape=[3, 5])", [m],
               np.einsum("nij,jhw->nihw", m, np.stack([xs, ys, np.ones_like(xs)])).astype("float32"), rtol=1e-5, atol=1e-5)
    x = np.arange(32, dtype="float32").reshape(2, 1, 4, 4)
    yield Case("image.crop_and_resize({}, {}, {}, crop_size=[2, 3], extrapolation_value=9f)",
               [x, np.array([[0, 0, 1, 1], [.5, .5, 1.5, 1]], "float32"), np.array([1, 0], "int32")],
               np.array([[[[16, 17.5, 19], [28, 29.5, 31]]], [[[7.5, 8.25, 9], [9, 9, 9]]]], "float32"), rtol=1e-5)
    for groups, parts in [(1, 1), (2, 1), (1, 2), (2, 2)]:
        x, w = (RNG.normal(size=s).astype("float32") for s in ((2, 4, 5, 6), (6, 4 // groups, 3, 2)))
        offset = RNG.uniform(-2, 2, (2, 12 * parts, 3, 3)).astype("float32")
        want = np.zeros((2, 6, 3, 3))
        for n, o, y, z in np.ndindex(want.shape):
            for i, a, c in np.ndindex(4 // groups, 3, 2):
                channel = o // (6 // groups) * (4 // groups) + i
                q = (channel // (4 // parts) * 6 + a * 2 + c) * 2
                v, h = y * 2 - 1 + a + offset[n, q, y, z], z * 2 - 1 + c * 2 + offset[n, q + 1, y, z]
                if 0 <= v < 5 and 0 <= h < 6:
                    plane = x[n, channel].astype(float)[..., None]
                    want[n, o, y, z] += w[o, i, a, c] * read(plane, [v, h], "bilinear", "border", True)[0]
        yield Case(f"nn.deformable_conv2d({{}}, {{}}, {{}}, strides=[2, 2], padding=[1, 1, 1, 1], dilation=[1, 2], "
                   f"groups={groups}, deformable_groups={parts})", [x, offset, w], want.astype("float32"), rtol=1e-3, atol=1e-3)


# ---- gradients of windows -------------------------------------------------------------------------

WINDOWS = [((2, 2), (2, 2), (0, 0, 0, 0), (1, 1), False), ((3, 3), (2, 2), (1, 1, 1, 1), (1, 1), False),
           ((3, 2), (1, 2), (1, 0, 1, 0), (1, 1), True), ((2, 2), (1, 1), (0, 1, 2, 0), (2, 1), False)]


def window_cases():
    for k, s, p, d, ceil in WINDOWS:
        x = RNG.normal(size=(2, 3, 7, 6)).astype("float64")
        size = [(x.shape[2 + i] + p[i] + p[2 + i] - (k[i] - 1) * d[i] - 1 + (s[i] - 1 if ceil else 0)) // s[i] + 1
                for i in range(2)]
        g = RNG.normal(size=(2, 3, *size)).astype("float64")
        most, mean, whole = (np.zeros_like(x) for _ in range(3))
        for n, c, y, z in np.ndindex(g.shape):
            at = [(y * s[0] - p[0] + a * d[0], z * s[1] - p[1] + e * d[1]) for a in range(k[0]) for e in range(k[1])]
            inside = [(v, h) for v, h in at if 0 <= v < 7 and 0 <= h < 6]
            padded = [(v, h) for v, h in at if v < 7 + p[2] and h < 6 + p[3]]
            if inside:
                most[(n, c) + max(inside, key=lambda q: x[(n, c) + q])] += g[n, c, y, z]
            for q in inside:
                mean[(n, c) + q] += g[n, c, y, z] / len(inside)
                whole[(n, c) + q] += g[n, c, y, z] / len(padded)
        attrs = f"pool_size={list(k)}, strides={list(s)}, padding={list(p)}, dilation={list(d)}, ceil_mode={ceil}"
        yield Case(f"nn.max_pool2d_grad({{}}, {{}}, {attrs})", [g, x], most, atol=1e-12)
        yield Case(f"nn.avg_pool2d_grad({{}}, {{}}, {attrs})", [g, x], mean, atol=1e-12)
        yield Case(f"nn.avg_pool2d_grad({{}}, {{}}, {attrs}, count_include_pad=True)", [g, x], whole, atol=1e-12)
    for n, c, o, k, s, p, d, groups in [(1, 2, 3, (3, 3), (1, 1), (0, 0), (1, 1), 1),
                                        (2, 4, 6, (3, 2), (2, 1), (1, 0), (1, 2), 2),
                                        (2, 4, 8, (3, 3), (1, 1), (1, 1), (1, 1), 4)]:
        x = RNG.normal(size=(n, c, 7, 8))
        size = [(x.shape[2 + i] + 2 * p[i] - (k[i] - 1) * d[i] - 1) // s[i] + 1 for i in range(2)]
        g = RNG.normal(size=(n, o, *size))
        wide = np.pad(x, ((0, 0), (0, 0), (p[0],) * 2, (p[1],) * 2))
        want = np.zeros((o, c // groups) + k)
        for q, i, a, e in np.ndindex(want.shape):
            part = wide[:, q // (o // groups) * (c // groups) + i, a * d[0]:, e * d[1]:]
            want[q, i, a, e] = (part[:, ::s[0], ::s[1]][:, :size[0], :size[1]] * g[:, q]).sum()
        if groups == c:
            want = want.reshape((c, o // c) + k)
        attrs = f"strides={list(s)}, padding={list(p)}, dilation={list(d)}, groups={groups}, kernel_size={list(k)}"
        yield Case(f'nn.conv2d_backward_weight({{}}, {{}}, {attrs}, kernel_layout="NCHW")', [g, x], want, atol=1e-11)
        yield Case(f'nn.conv2d_backward_weight({{}}, {{}}, {attrs}, data_layout="NHWC", kernel_layout="NHWC", '
                   'out_layout="HWIO")', [g.transpose(0, 2, 3, 1).copy(), x.transpose(0, 2, 3, 1).copy()],
                   want.transpose(2, 3, 1, 0), atol=1e-11)
    x = RNG.normal(size=(3, 2)).astype("float32")
    want = np.full((5, 4), 7, "float32")
    want[::2, ::3] = x
    yield Case("nn.dilate({}, strides=[2, 3], dilation_value=7f)", [x], want)


# ---- shapes that are arguments --------------------------------------------------------------------

def dyn_cases():
    for dtype in ("float32", "int64", "uint8"):
        x = RNG.integers(0, 50, (3, 4)).astype(dtype)
        for pads in ([[1, 0], [0, 2]], [[0, 0], [0, 0]], [[2, 2], [3, 3]]):
            wide = np.array(pads)
            for mode in ("constant", "edge", "reflect"):
                want = np.pad(x, pads, constant_values=7) if mode == "constant" else np.pad(x, pads, mode=mode)
                yield Case(f'dyn.nn.pad({{}}, {{}}, 7, pad_width=None, pad_mode="{mode}")', [x, wide], want)
        at = np.array([[0, 1], [2, 3]], "int64")
        want = np.full((3, 5), 9, dtype)
        want[at[:, 0], at[:, 1]] = x[0, :2]
        yield Case("dyn.sparse_to_dense({}, {}, {}, {}, output_shape=None)",
                   [at, x[0, :2].copy(), np.array(9, dtype), np.array([3, 5])], want)
    image = RNG.uniform(-1, 1, (1, 2, 3, 4)).astype("float32")
    yield Case("dyn.nn.upsampling({}, 2f, 3f)", [image], image.repeat(2, 2).repeat(3, 3))
    yield Case("dyn.nn.upsampling3d({}, 2f, 1f, 3f)", [image[None]], image[None].repeat(2, 2).repeat(3, 4))
    yield Case('dyn.image.resize2d({}, {}, {}, method="nearest_neighbor", rounding_method="floor", '
               'coordinate_transformation_mode="asymmetric")',
               [image, np.array([6, 4]), np.zeros(4, "float32")], image.repeat(2, 2))


def main():
    groups = (random_cases, nms_cases, class_cases, region_cases, sample_cases, window_cases, dyn_cases)
    return run_all([c for group in groups for c in group()])


if __name__ == "__main__":
    sys.exit(main())
