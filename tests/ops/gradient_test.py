"""The gradient in each operator's row is the slope: of a sum of sines of its result, against finite differences.

Each entry is the text of a call of %a, %b, … and their shapes; `int` arguments have no slope. An operator whose row
has a rule for its gradient and that no entry names fails, but for those whose result does not depend on real numbers, or is drawn (rows_test.py).
"""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
RELAY = os.environ.get("RELAY", "build/relay")
RNG = np.random.default_rng(3)
STEP, NEAR = 1e-6, 2e-7
FLAT = "random.uniform random.normal ndarray_size zeros ones shape_of dyn.zeros dyn.ones zeros_like ones_like less_equal not_equal dyn.reshape collapse_sum_to".split()


def real(*shape, low=-2.0, high=2.0):
    return RNG.uniform(low, high, shape)


def positive(*shape):
    return real(*shape, low=0.3, high=2.0)


def small(*shape):
    return real(*shape, low=-0.9, high=0.9)


def ints(most, *shape):
    return RNG.integers(0, most, shape).astype("int32")


def unary():
    for name in "exp sigmoid tanh erf sin cos sinh cosh atan asinh abs negative copy nn.relu nn.leaky_relu".split():
        yield f"{name}(%a)", [real(2, 5)]
    for name in "log log2 log10 sqrt rsqrt".split():
        yield f"{name}(%a)", [positive(3, 4)]
    for name in "asin acos atanh tan".split():
        yield f"{name}(%a)", [small(7)]
    yield "acosh(%a)", [positive(6) + 1.2]
    for name in "floor ceil trunc round sign".split():
        yield f"{name}(%a)", [real(3, 4)]
    for name in "fast_exp fast_tanh fast_erf nn.fast_softmax".split():
        yield f"multiply(%a, {name}(%a))", [small(2, 5)]
    for name in "annotation.stop_fusion annotation.checkpoint annotation.bitpack_start annotation.bitpack_end annotation.with_funcid device_copy on_device debug".split():
        yield f"{name}(%a)", [real(3)]
    yield "annotation.expect_shape(%a, shape=[3])", [real(3)]
    yield 'annotation.cast_hint(%a, dtype="int8")', [real(3)]
    yield 'annotation.compiler_end(annotation.compiler_begin(%a, compiler="other"), compiler="other")', [real(3)]
    yield "clip(%a, a_min=-1f, a_max=0.5f)", [real(20)]
    yield "nn.leaky_relu(%a, alpha=0.1f)", [real(3, 3)]
    yield 'cast(%a, dtype="float64")', [real(3)]
    yield "cast_like(%a, %b)", [real(3), real(2)]
    yield "where(%b, %a, %c)", [real(2, 3), ints(2, 3).astype(bool), real(2, 1)]


def binary():
    for name in "add subtract multiply maximum minimum".split():
        yield f"{name}(%a, %b)", [real(2, 3, 4), real(3, 1)]
        yield f"{name}(%a, %b)", [real(4), real(2, 1)]
    yield "divide(%a, %b)", [real(2, 3), positive(3)]
    for name in "floor_divide trunc_divide floor_mod trunc_mod mod".split():
        yield f"{name}(%a, %b)", [real(2, 3), positive(3)]
    yield "power(%a, %b)", [positive(2, 3), real(3)]


def reduce():
    for axis in ("0", "-1", "None"):
        for exclusive in (False, True):
            yield f"cumsum(%a, axis={axis}, exclusive={exclusive})", [real(3, 4)]
    yield "prod(%a, axis=[1])", [np.array([[0.0, 1.5, 2.0], [0.0, 3.0, 0.0], [1.5, -2.0, 0.5]])]
    for axis in ("0", "-1", "None"):
        for exclusive in (False, True):
            yield f"cumprod(%a, axis={axis}, exclusive={exclusive})", [positive(3, 4)]
    yield "cumprod(%a, axis=1)", [np.array([[0.0, 1.5, 2.0], [2.0, 0.0, 3.0], [1.5, -2.0, 0.5], [2.0, 0.0, 0.0]])]
    yield 'topk(%a, k=2, ret_type="values", axis=0)', [real(5, 3)]
    yield 'topk(%a, k=2, is_ascend=True).0', [real(5, 3)]
    yield "dyn.topk(%a, %b, k=None).0", [real(5), np.asarray(3, "int64")]
    for is_ascend in (False, True):
        yield f"sort(%a, axis=0, is_ascend={is_ascend})", [real(5, 3)]
    for name in "sum mean max min prod".split():
        for attrs in ["", ", axis=[1]", ", axis=[0, -1], keepdims=True", ", axis=[1], exclude=True", ", axis=[]"]:
            yield f"{name}(%a{attrs})", [real(2, 3, 4)]
    for attrs in ["axis=[1]", "axis=[0, 2]", "axis=[1], unbiased=True", "axis=None", "axis=[1], exclude=True, unbiased=True"]:
        yield f"variance(%a, mean(%a, {attrs.replace(', unbiased=True', '')}, keepdims=True), {attrs})", [real(2, 3, 4)]
    yield "variance(%a, %b, axis=[1], keepdims=True)", [real(2, 3), real(2, 1)]


def shape():
    yield "reshape(%a, newshape=[3, -1])", [real(2, 3, 4)]
    yield "contrib_reverse_reshape(%a, newshape=[-1, 0])", [real(2, 3, 4)]
    yield "squeeze(%a, axis=[1])", [real(2, 1, 4)]
    yield "nn.batch_flatten(%a)", [real(2, 3, 4)]
    yield "reshape_like(%a, %b)", [real(2, 6), real(3, 4)]
    yield "expand_dims(%a, axis=-2, num_newaxis=2)", [real(2, 3)]
    for axes in ("None", "[2, 0, 1]", "[0, -1, 1]"):
        yield f"transpose(%a, axes={axes})", [real(2, 3, 4)]
    yield "broadcast_to(%a, shape=[4, 2, 3])", [real(2, 1)]
    yield "broadcast_to_like(%a, %b)", [real(2, 1), real(4, 2, 3)]
    yield 'full(%a, shape=[2, 3], dtype="float64")', [np.asarray(0.7)]
    yield "full_like(%a, %b)", [real(2, 3), np.asarray(0.7)]
    yield "tile(%a, reps=[2, 1, 3])", [real(2, 3)]
    yield "repeat(%a, repeats=2, axis=-1)", [real(2, 3)]
    yield "reverse(%a, axis=1)", [real(2, 3)]
    for k in (-1, 0, 1):
        yield f"trilu(%a, {k}, upper={k == 0})", [real(2, 3, 4)]
    yield 'layout_transform(%a, src_layout="NCHW", dst_layout="NHWC2c")', [real(1, 4, 2, 3)]
    for mode in ("DCR", "CRD"):
        yield f'nn.depth_to_space(%a, block_size=2, mode="{mode}")', [real(1, 8, 2, 3)]
    yield "nn.space_to_depth(%a, block_size=2)", [real(1, 2, 4, 6)]
    yield "nn.space_to_batch_nd(%a, block_shape=[2, 2], paddings=[[1, 0], [0, 1]], pad_value=3f)", [real(1, 3, 5, 2)]
    yield "nn.batch_to_space_nd(%a, block_shape=[2, 2], crops=[[1, 0], [0, 1]])", [real(4, 3, 2, 2)]
    yield 'nn.mirror_pad(%a, mode="REFLECT", pad_width=[[1, 0], [0, 2]])', [real(3, 4)]
    yield "nn.dilate(%a, strides=[2, 3], dilation_value=0.5f)", [real(3, 4)]
    yield "sliding_window(%a, axis=0, window_shape=[2, 3], strides=[1, 2])", [real(4, 6)]
    yield "dyn.squeeze(%a, %b)", [real(1, 4), np.array([0], "int64")]
    yield "dyn.expand_dims(%a, %b)", [real(3, 4), np.asarray(1, "int64")]
    yield "dyn.broadcast_to(%a, %b, shape=None)", [real(3, 1), np.array([2, 3, 4], "int64")]
    yield "collapse_sum_like(%a, %b)", [real(2, 3, 4), real(3, 1)]
    for axis in (0, -1):
        yield f"concatenate((%a, %b, %c), axis={axis})", [real(2, 3), real(2, 3), real(2, 3)]
    yield "concatenate((%a,), axis=0)", [real(2, 3)]
    for axis in (0, 1, -1):
        yield f"stack((%a, %b), axis={axis})", [real(2, 3), real(2, 3)]
    yield "split(%a, indices_or_sections=2, axis=1).1", [real(3, 4)]
    yield "let %s = split(%a, indices_or_sections=[1, 3], axis=0); multiply(%s.0, sum(multiply(%s.1, %s.1), axis=[0]))", [real(5, 4)]


def index():
    for attrs, at in [("axis=1", ints(4, 3)), ("axis=0", ints(3)), ("axis=None", ints(24, 2, 2)), ('axis=-1, mode="wrap"', ints(30, 2, 3)),
                      ('axis=1, mode="clip"', ints(9, 5)), ("axis=1, batch_dims=1", ints(3, 2, 4))]:
        yield f"take(%a, %b, {attrs})", [real(2, 4, 3), at]
    yield "strided_slice(%a, begin=[0, 1], end=[2, 5], strides=[1, 2], axes=None)", [real(3, 6)]
    yield "strided_slice(%a, begin=[5], end=[0], strides=[-2], axes=[1])", [real(3, 6)]
    yield 'strided_slice(%a, begin=[1, 2], end=[-1, 3], strides=[1], slice_mode="size", axes=None)', [real(3, 6)]
    yield "slice_like(%a, %b, axes=[1])", [real(4, 5), real(2, 3)]
    yield "gather(%a, %b, axis=1)", [real(3, 4), ints(4, 3, 6)]
    yield 'scatter_elements(%a, %b, %c, axis=1, reduction="add")', [real(3, 4), ints(4, 3, 6), real(3, 6)]
    # Fewer indices than there is data along the other axis.
    yield "gather(%a, %b, axis=1)", [real(3, 4), ints(4, 2, 6)]
    for how in ("update", "add", "mul", "max", "mean"):
        yield f'scatter_elements(%a, %b, %c, axis=1, reduction="{how}")', [real(3, 4), np.array([[0, 2, 0], [3, 1, 1]], "int32"), real(2, 3)]
    yield "scatter_elements(%a, %b, %c, axis=0)", [real(4, 2), np.array([[0, 3], [2, 1]], "int32"), real(2, 2)]
    yield "scatter(%a, %b, %c, axis=0)", [real(4, 2), np.array([[0, 3], [2, 1]], "int32"), real(2, 2)]
    yield 'scatter_nd(%a, %b, %c, mode="add")', [real(4, 3), ints(3, 1, 5), real(5, 3)]
    yield 'scatter_nd(%a, %b, %c, mode="update")', [real(4, 3), np.array([[2, 0]], "int32"), real(2, 3)]
    # Places that several updates meet, and factors that are 0: once, and twice at one place.
    once, twice = np.array([2.0, 0.0, -1.5, 0.5, 3.0]), np.array([0.0, 0.0, -1.5, 0.0, 3.0])
    meet = np.array([0, 1, 0, 1, 3], "int32")
    for how in ("update", "add", "mul", "min", "max"):
        yield f'scatter_elements(%a, %b, %c, reduction="{how}")', [real(4), meet, real(5)]
        yield f'scatter_nd(%a, %b, %c, mode="{how}")', [real(4, 2), meet.reshape(1, 5), real(5, 2)]
    yield 'scatter_elements(%a, %b, %c, reduction="mean")', [real(4), meet, real(5)]
    yield 'scatter_elements(%a, %b, %c, axis=-1, reduction="mean")', [real(2, 4), np.array([[1, -3, 1, 0, 1], [0, 0, 2, 0, -4]], "int32"), real(2, 5)]
    for factors in (once, twice):
        yield 'scatter_elements(%a, %b, %c, reduction="mul")', [real(4), meet, factors]
    yield "scatter(%a, %b, %c)", [real(4), meet, real(5)]
    # Rows that have none, and elements that no row has.
    columns, rows = np.array([2, 0, 2, 1, 0], "int32"), np.array([1, 3, 3, 4], "int32")
    for name in ("nn.sparse_dense", "nn.internal.sparse_dense_padded"):
        for lhs in (False, True):
            yield f"{name}(%a, %b, %c, %d, sparse_lhs={lhs})", [real(2, 3), real(5), columns, rows]
            yield f"{name}(%a, %b, %c, %d, sparse_lhs={lhs})", [real(2, 6), real(5, 3, 2), columns, rows]
    for layout, kernel in (("NHWC", "[3, 2]"), ("NCHW", "[2, 3]")):
        at = f', layout="{layout}", kernel_size={kernel}'
        yield "nn.sparse_conv2d(%a, %b, %c, %d" + at + ")", [real(2, 4, 3, 4), real(5), np.array([0, 17, 5, 11, 2], "int32"), rows]
        yield "nn.sparse_conv2d(%a, %b, %c, %d" + at + ")", [real(1, 4, 3, 4), real(5, 3, 2), np.array([0, 8, 5, 1, 2], "int32"), rows]
    yield "nn.sparse_add(%a, %b, %c, %d)", [real(3, 3), real(5), columns, rows]
    yield "nn.sparse_transpose(%a, %b, %c).0", [real(5), columns, np.array([0, 3, 3, 5], "int32")]
    yield "sparse_fill_empty_rows(%a, %b, %c, %d).1", [np.array([[0, 1], [2, 0], [2, 3]]), real(3), np.array([4, 4]), real()]
    yield "vision.get_valid_counts(%a, %b).1", [positive(2, 3, 6), np.array(1.0)]
    yield "sparse_to_dense(%a, %b, %c, output_shape=[3, 4])", [np.array([[0, 1], [2, 3]], "int32"), real(2), real()]
    yield "sparse_to_dense(%a, %b, %c, output_shape=[5])", [np.array([3, 1], "int32"), real(), real()]
    yield "dyn.sparse_to_dense(%a, %b, %c, %d)", [np.array([[1], [2]], "int32"), real(2), real(), np.array([4], "int64")]
    yield "dyn.strided_slice(%a, %b, %c, %d, begin=None, end=None, strides=None, axes=None)", [real(4, 6), np.array([1, 0], "int64"), np.array([4, 5], "int64"), np.array([1, 2], "int64")]
    yield "scatter_add(%a, %b, %c, axis=0)", [real(4, 2), ints(4, 5, 2), real(5, 2)]
    yield "sequence_mask(%a, %b, mask_value=2f, axis=0)", [real(4, 3), ints(5, 3)]
    yield "reverse_sequence(%a, %b, seq_axis=1, batch_axis=0)", [real(3, 4), ints(5, 3)]
    yield "gather_nd(%a, %b)", [real(3, 4, 2), ints(3, 2, 5)]
    yield "one_hot(%a, %b, %c, depth=5, axis=0, dtype=\"float64\")", [ints(5, 3), real(), real()]
    yield "arange(%a, 9f64, %b, dtype=\"float64\")", [np.asarray(0.7), np.asarray(1.3)]
    for width, mode in [("[[1, 0], [2, 1]]", "constant"), ("[[1, 1], [0, 2]]", "edge"), ("[[1, 2], [2, 0]]", "reflect"), ("[[0, -1], [1, 0]]", "constant")]:
        yield f'nn.pad(%a, %b, pad_width={width}, pad_mode="{mode}")', [real(3, 4), real()]


def network():
    yield "nn.dense(%a, %b, units=None)", [real(2, 3), real(4, 3)]
    yield "nn.dense(%a, %b, units=4)", [real(2, 2, 3), real(4, 3)]
    for ta in (False, True):
        for tb in (False, True):
            a, b = ((3, 2) if ta else (2, 3)), ((4, 3) if tb else (3, 4))
            yield f"nn.matmul(%a, %b, units=None, transpose_a={ta}, transpose_b={tb})", [real(*a), real(*b)]
            yield f"nn.batch_matmul(%a, %b, transpose_a={ta}, transpose_b={tb})", [real(2, *a), real(1 if ta else 2, *b)]
    for axis in (1, -1, 0):
        x = real(2, 3, 4)
        yield f"nn.bias_add(%a, %b, axis={axis})", [x, real(x.shape[axis])]
    for name in ("nn.softmax", "nn.log_softmax"):
        for axis in (1, -1):
            yield f"{name}(%a, axis={axis})", [real(2, 3, 4)]
    yield "nn.cross_entropy(%a, %b)", [positive(3, 4), positive(3, 4)]
    yield "nn.cross_entropy_with_logits(%a, %b)", [real(3, 4), real(3, 4)]
    for x, w, attrs in [((1, 2, 5, 5), (3, 2, 3, 3), ""), ((2, 2, 6, 5), (3, 2, 3, 2), "strides=[2, 2], padding=[1, 1]"),
                        ((1, 4, 7, 6), (6, 2, 3, 3), "groups=2, strides=[3, 2], padding=[0, 1, 2, 1]"),
                        ((1, 3, 6, 6), (3, 1, 3, 3), "groups=3, padding=[1, 1]"), ((1, 2, 8, 8), (2, 2, 3, 3), "dilation=[2, 2], strides=[2, 1]"),
                        ((1, 5, 5, 2), (3, 3, 2, 3), 'data_layout="NHWC", kernel_layout="HWIO", strides=[2, 2]'),
                        ((1, 5, 5, 2), (3, 2, 3, 3), 'data_layout="NHWC", out_layout="NCHW"'),
                        ((1, 3, 5, 6), (3, 2, 3, 3), "groups=3, strides=[1, 2], padding=[1, 0]"), ((1, 2, 4, 5), (2, 3, 2, 3), "groups=2, channels=6"),
                        ((1, 5, 5, 2), (3, 3, 2, 3), 'groups=2, data_layout="NHWC", kernel_layout="HWOI", strides=[2, 1]')]:
        yield f"nn.conv2d(%a, %b, {attrs})".replace(", )", ")"), [real(*x), real(*w)]
    for attrs in ["pool_size=[2, 2], strides=[2, 2]", "pool_size=[3, 3], strides=[2, 1], padding=[1, 1]", "pool_size=[3, 2], strides=[2, 2], ceil_mode=True"]:
        yield f"nn.max_pool2d(%a, {attrs})", [real(1, 2, 6, 5)]
        yield f"nn.avg_pool2d(%a, {attrs})", [real(1, 2, 6, 5)]
    yield "nn.prelu(%a, %b, axis=1)", [real(2, 3, 4), real(3)]
    yield "nn.conv2d_transpose(%a, %b, strides=[2, 1], padding=[1, 0], output_padding=[1, 0], kernel_layout=\"IOHW\")", [real(1, 2, 4, 3), real(2, 3, 3, 2)]
    yield "nn.avg_pool2d_grad(%a, %b, pool_size=[2, 2], strides=[2, 2], padding=[1, 1])", [real(1, 2, 3, 3), real(1, 2, 4, 4)]
    yield "nn.conv2d_backward_weight(%a, %b, kernel_size=[3, 2], strides=[2, 1], padding=[1, 0])", [real(1, 3, 3, 4), real(1, 2, 6, 5)]
    yield "nn.global_max_pool2d(%a)", [real(2, 3, 4, 5)]
    yield "nn.avg_pool2d(%a, pool_size=[3, 3], padding=[1, 1], count_include_pad=True)", [real(1, 2, 6, 5)]
    yield 'nn.max_pool2d(%a, pool_size=[2, 2], layout="NHWC")', [real(1, 5, 4, 2)]
    yield "nn.global_avg_pool2d(%a)", [real(2, 3, 4, 5)]


def type_of(x):
    return f"Tensor[({', '.join(map(str, x.shape))}), {x.dtype}]" if x.ndim else str(x.dtype)


def letters(arrays, number=""):
    return [f"{'abcdef'[k]}{number}" for k in range(len(arrays))]


def relay(*arguments):
    done = subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=300)
    if done.returncode:
        print(done.stderr)
        sys.exit(1)
    return done.stdout


class Checks:
    def __init__(self, entries, folder):
        self.entries, self.folder = entries, folder
        program = '#[version = "0.0.5"]\n'
        for i, (text, arrays) in enumerate(entries):
            parameters = ", ".join(f"%{k}: {type_of(x)}" for k, x in zip(letters(arrays), arrays))
            *lets, last = text.split("; ")
            body = "".join(f"{let}; " for let in lets) + f"sum(sin({last}))"
            program += f"def @f{i}({parameters}) -> float64 {{ {body} }}\n"
        self.plain = self.path("plain.rly", program)
        self.slopes = self.path("slopes.rly", relay("opt", "-p", "FirstOrderGradient", self.plain))

    def path(self, name, text):
        path = os.path.join(self.folder, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def run(self, path, engine, moved):
        """What each function gives on its arguments, moved by a multiple of their directions."""
        with open(path) as f:
            program = f.read()
        parameters, calls, values = [], [], {}
        for i, (_, arrays) in enumerate(self.entries):
            for k, x, d in zip(letters(arrays, i), arrays, self.directions[i]):
                parameters.append(f"%{k}: {type_of(x)}")
                values[k] = x if d is None else x + moved * d
            calls.append(f"@f{i}({', '.join('%' + k for k in letters(arrays, i))})")
        program += f"def @main({', '.join(parameters)}) {{\n  ({', '.join(calls)},)\n}}\n"
        out, inputs = os.path.join(self.folder, "out.npz"), os.path.join(self.folder, "in.npz")
        np.savez(inputs, **values)
        relay("run", "--exec", engine, "--params", inputs, "--out", out, self.path("run.rly", program))
        with np.load(out) as z:
            return {k: z[k] for k in z.files}

    def wrong(self, engine):
        """Directions one argument after the other, so that each slope is seen."""
        slopes, most = None, max(len(arrays) for _, arrays in self.entries)
        for turn in range(most):
            self.directions = [[RNG.normal(size=x.shape) if k == turn and x.dtype == np.float64 else None for k, x in enumerate(arrays)]
                               for _, arrays in self.entries]
            slopes = slopes or self.run(self.slopes, engine, 0)
            high, low = (self.run(self.plain, engine, s) for s in (STEP, -STEP))
            for i, (text, arrays) in enumerate(self.entries):
                if turn >= len(arrays) or self.directions[i][turn] is None:
                    continue
                want = (high[f"result.{i}"] - low[f"result.{i}"]) / (2 * STEP)
                got = np.sum(slopes[f"result.{i}.1.{turn}"] * self.directions[i][turn])
                if not abs(got - want) <= NEAR * (1 + abs(want) * 10):
                    yield f"{engine}: {text} by %{'abcdef'[turn]}: {got}, but the slope is {want}"


def with_gradient():
    with open(os.path.join(HERE, "../../docs/operators.md")) as f:
        sections = re.split(r"^### ", f.read(), flags=re.M)[1:]
    return [[s.split("\n")[0] for s in sections if re.search(what, s, re.M)] for what in (r"^- gradient: `", r"^- gradient: ")]


def main():
    entries = [e for group in (unary, binary, reduce, shape, index, network) for e in group()]
    named = {name for text, _ in entries for name in re.findall(r"[\w.]+(?=\()", text)}
    names, any_names = with_gradient()
    failures = [f"{n}: no entry" for n in names if n not in named and n not in FLAT]
    failures += [f"{n} has no gradient" for n in sorted(named | set(FLAT)) if n not in any_names]
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(entries, folder)
        for engine in ("interp", "jit"):
            failures += list(checks.wrong(engine))
    print("\n".join(failures + [f"{len(names)} operators with a gradient, {len(entries)} calls, {len(failures)} failures"]))
    return 1 if failures or len(names) < 120 else 0


if __name__ == "__main__":
    sys.exit(main())
