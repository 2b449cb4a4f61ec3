"""Times products and convolutions of int8 beside those of float32, and MobileNetV2 quantised by our own passes beside itself on reals.

    PYTHON tests/bench/int8.py [--relay build/release/relay] [--threads 1] [--seconds 0.2] [--bar 2] [PART OF A NAME...]

PYTHON has numpy. Weights are constants, as they are in a network; sums of int8 are int32. Prints milliseconds of each and how many times
faster int8 is: than what float32 takes by default, where windows of 3 x 3 go by transforms that round otherwise, and than the same sums on
reals (`:schedule ... direct`). Ends with 1 where a product or convolution is less than --bar times as fast as the same sums,
or the network is not faster than by default. That says something on processors with dot-product instructions: of four products at a time,
where transforms leave out all but a quarter of them.
"""
import argparse
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import engines
import shares


def depthwise(channels, side, taps, stride=1, dilation=1):
    """Each channel on its own, as networks for phones have it."""
    border = taps // 2 * dilation
    name = f"depthwise_{channels}_{side}_{taps}x{taps}" + (f"_stride_{stride}" if stride > 1 else "") + (f"_dilation_{dilation}" if dilation > 1 else "")
    return (name, (1, channels, side, side), (channels, 1, taps, taps),
            f"nn.conv2d(%x, %w, strides=[{stride}, {stride}], padding={[border] * 4}, dilation=[{dilation}, {dilation}], groups={channels}, "
            f"channels={channels}, kernel_size=[{taps}, {taps}]{{out}})")


# The name, the data, the weights, and what is computed of them.
CASES = [
    ("dense_row", (1, 1024), (1024, 1024), "nn.dense(%x, %w, units=None{out})"),
    ("dense", (64, 768), (768, 768), "nn.dense(%x, %w, units=None{out})"),
    ("dense_odd", (33, 250), (131, 250), "nn.dense(%x, %w, units=None{out})"),
    ("conv_1x1", (1, 64, 56, 56), (128, 64, 1, 1), "nn.conv2d(%x, %w, channels=128, kernel_size=[1, 1]{out})"),
    ("conv_3x3", (1, 128, 28, 28), (128, 128, 3, 3), "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=128, kernel_size=[3, 3]{out})"),
    ("conv_3x3_stride_2", (1, 64, 56, 56), (128, 64, 3, 3),
     "nn.conv2d(%x, %w, strides=[2, 2], padding=[1, 1, 1, 1], channels=128, kernel_size=[3, 3]{out})"),
    ("conv_5x5", (1, 48, 28, 28), (64, 48, 5, 5), "nn.conv2d(%x, %w, padding=[2, 2, 2, 2], channels=64, kernel_size=[5, 5]{out})"),
    ("conv_7x7", (1, 3, 224, 224), (64, 3, 7, 7),
     "nn.conv2d(%x, %w, strides=[2, 2], padding=[3, 3, 3, 3], channels=64, kernel_size=[7, 7]{out})"),
    ("conv_dilated", (1, 64, 28, 28), (64, 64, 3, 3),
     "nn.conv2d(%x, %w, padding=[2, 2, 2, 2], dilation=[2, 2], channels=64, kernel_size=[3, 3]{out})"),
    ("conv_groups", (1, 128, 28, 28), (128, 32, 3, 3),
     "nn.conv2d(%x, %w, padding=[1, 1, 1, 1], groups=4, channels=128, kernel_size=[3, 3]{out})"),
    *(depthwise(*case) for case in ((32, 112, 3), (96, 112, 3, 2), (144, 56, 3), (128, 28, 3), (192, 28, 3, 2), (240, 28, 5), (576, 14, 3),
                                    (576, 14, 3, 2), (960, 7, 3), (96, 56, 7), (256, 28, 7), (128, 28, 3, 1, 2), (256, 28, 3, 1, 4))),
]
NETWORK = "mobilenet_v2"
QUANTISED = "SimplifyInference,FoldConstant,FoldScaleAxis,FoldConstant,quantize,FoldConstant"


def relay(options, *words):
    ran = subprocess.run([options.relay, *words], capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"int8.py: relay {words[0]}: {ran.stderr.strip()[:500]}")
    return ran.stdout


def time_of(options, path, weights):
    took = engines.time_of(options, [path, "--params", weights, "--random", "1"], "jit")
    return took if took else sys.exit(f"int8.py: `{path}` was not measured")


def sums_of(options, case):
    """The same sums on reals."""
    _, data, weights, computed = case
    text = "".join(f'let %{n} = full(0.5f, shape={list(shape)}, dtype="float32");\n' for n, shape in (("x", data), ("w", weights)))
    text += f"let %f = fn (%x: Tensor[{data}, float32]) {{ {computed.format(out='')} }};\n:schedule %f(%x) direct\n"
    return shares.measure(options.relay, text)[1] * 1e3


def numbers(rng, shape, dtype):
    if dtype == "int8":
        return rng.integers(-128, 128, shape).astype(dtype)
    return (rng.standard_normal(shape) * (2 / max(1, np.prod(shape[1:]))) ** 0.5).astype(dtype)


def files_of(case, dtype, folder, rng):
    name, data, weights, computed = case
    text = computed.format(out=', out_dtype="int32"' if dtype == "int8" else "")
    path, params = (os.path.join(folder, f"{name}_{dtype}.{e}") for e in ("rly", "npz"))
    with open(path, "w") as f:
        f.write(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{data}, {dtype}], %w: Tensor[{weights}, {dtype}]) {{ {text} }}\n')
    np.savez(params, w=numbers(rng, weights, dtype))
    return path, params


def network_files(options, folder, rng):
    text = relay(options, "new", "model", NETWORK)
    weights = {}
    for name, dims in re.findall(r"%(\w+): Tensor\[\(([^)]*)\), float32\]", text):
        shape = tuple(int(x) for x in dims.split(",") if x.strip())
        if name != "data":
            weights[name] = np.ones(shape, "float32") if re.search("_(var|gamma)$", name) else numbers(rng, shape, "float32")
    path, small, params = (os.path.join(folder, x) for x in ("network.rly", "quantised.rly", "network.npz"))
    with open(path, "w") as f:
        f.write(text)
    np.savez(params, **weights)
    with open(small, "w") as f:
        f.write(relay(options, "opt", path, "--params", params, "-p", QUANTISED))
    return path, small, params


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parse.add_argument("--relay", default="build/release/relay")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=0.2)
    parse.add_argument("--bar", type=float, default=2)
    parse.add_argument("names", nargs="*")
    options = parse.parse_args()
    rng, below = np.random.default_rng(1), 0
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:options.threads])

    def wanted(name):
        return not options.names or any(n in name for n in options.names)

    def show(name, real, sums, small, is_below):
        print(f"{name:28} float32 {real:9.4f}  sums {sums:9.4f}  int8 {small:9.4f}  {real / small:6.2f}  {sums / small:6.2f}"
              f"{'  below' if is_below else ''}", flush=True)
        return is_below

    with tempfile.TemporaryDirectory() as folder:
        for case in CASES:
            if not wanted(case[0]):
                continue
            reals, smalls = (files_of(case, t, folder, rng) for t in ("float32", "int8"))
            real, sums, small = time_of(options, *reals), sums_of(options, case), time_of(options, *smalls)
            below += show(case[0], real, sums, small, sums < options.bar * small)
        if wanted(NETWORK):
            path, quantised, params = network_files(options, folder, rng)
            real, small = time_of(options, path, params), time_of(options, quantised, params)
            below += show(NETWORK, real, real, small, real <= small)
    return 1 if below else 0


if __name__ == "__main__":
    sys.exit(main())
