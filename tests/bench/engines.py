"""Times compiled code beside the evaluator, one operator or network a line: no kernel is to be slower.

    engines.py [--relay build/release/relay] [--threads 1] [--seconds 0.1] [--bar 0.9] [PART OF A NAME...]

prints both times in ms and their ratio (above 1: compiled code is faster), the least first, and ends with 1 when a ratio lies below the
bar. A machine that does something else meanwhile makes the figures unsteady: those below the bar are measured again.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

F = "float32"
# The name, the shapes of the parameters (with a dtype where it is not float32), and what is computed of %a, %b ...
CASES = [
    ("add", [(1 << 20,), (1 << 20,)], "add(%a, %b)"),
    ("add_row", [(1024, 1024), (1024,)], "add(%a, %b)"),
    ("add_column", [(1024, 1024), (1024, 1)], "add(%a, %b)"),
    ("add_int8", [((1 << 20,), "int8"), ((1 << 20,), "int8")], "add(%a, %b)"),
    ("add_int32", [((1 << 20,), "int32"), ((1 << 20,), "int32")], "add(%a, %b)"),
    ("add_float16", [((1 << 20,), "float16"), ((1 << 20,), "float16")], "add(%a, %b)"),
    ("add_float64", [((1 << 19,), "float64"), ((1 << 19,), "float64")], "add(%a, %b)"),
    *[(f, [(1 << 18,)], f"{f}(%a)") for f in ("exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "sinh", "cosh", "atan", "asin",
                                              "acos", "log2", "log10", "sqrt", "rsqrt", "floor", "round", "sign", "abs", "nn.relu")],
    ("power", [(1 << 18,), (1 << 18,)], "power(abs(%a), %b)"),
    ("floor_mod", [(1 << 18,), (1 << 18,)], "floor_mod(%a, %b)"),
    ("mod", [(1 << 18,), (1 << 18,)], "mod(%a, %b)"),
    ("divide_int32", [((1 << 18,), "int32"), ((1 << 18,), "int32")], "divide(%a, %b + 3)"),
    ("where", [(1 << 20,), (1 << 20,)], "where(greater(%a, %b), %a, %b)"),
    ("cast_int8", [(1 << 20,)], 'cast(%a, dtype="int8")'),
    ("cast_float16", [(1 << 20,)], 'cast(%a, dtype="float16")'),
    *[(f"{f}_{n}", [(1024, 1024)], f"{f}(%a{x})") for f in ("sum", "max", "min", "prod", "mean", "argmax", "argmin")
      for n, x in (("all", ""), ("rows", ", axis=[1]"), ("columns", ", axis=[0]"))],
    ("all_rows", [(1024, 1024)], "all(greater(%a, 0.1f), axis=[1])"),
    ("variance_rows", [(1024, 1024)], "variance(%a, mean(%a, axis=[1], keepdims=True), axis=[1])"),
    ("sum_middle", [(64, 128, 128)], "sum(%a, axis=[1])"),
    ("argmax_middle", [(64, 128, 128)], "argmax(%a, axis=[1])"),
    ("sum_int32_rows", [((1024, 1024), "int32")], "sum(%a, axis=[1])"),
    ("softmax", [(1024, 1024)], "nn.softmax(%a)"),
    ("softmax_columns", [(512, 512)], "nn.softmax(%a, axis=0)"),
    ("log_softmax", [(1024, 1024)], "nn.log_softmax(%a)"),
    ("layer_norm", [(512, 768), (768,), (768,)], "nn.layer_norm(%a, %b, %c)"),
    ("group_norm", [(1, 64, 56, 56), (64,), (64,)], "nn.group_norm(%a, %b, %c, num_groups=8)"),
    ("instance_norm", [(1, 64, 56, 56), (64,), (64,)], "nn.instance_norm(%a, %b, %c)"),
    ("l2_normalize", [(1024, 512)], "nn.l2_normalize(%a, eps=0.0001f, axis=[1])"),
    ("transpose", [(1024, 1024)], "transpose(%a, axes=None)"),
    ("transpose_odd", [(1001, 1003)], "transpose(%a, axes=None)"),
    ("transpose_nchw", [(1, 64, 112, 112)], "transpose(%a, axes=[0, 2, 3, 1])"),
    ("transpose_nhwc", [(1, 112, 112, 64)], "transpose(%a, axes=[0, 3, 1, 2])"),
    ("concatenate", [(512, 512), (512, 512)], "concatenate((%a, %b), axis=1)"),
    ("concatenate_front", [(512, 512), (512, 512)], "concatenate((%a, %b), axis=0)"),
    ("split", [(512, 1024)], "split(%a, indices_or_sections=4, axis=1)"),
    ("stack", [(512, 512), (512, 512)], "stack((%a, %b), axis=1)"),
    ("take_rows", [(4096, 256), ((1024,), "int32")], "take(%a, %b, axis=0)"),
    ("take_elements", [(4096,), ((65536,), "int32")], "take(%a, %b)"),
    ("gather", [(512, 512), ((512, 512), "int32")], "gather(%a, %b, axis=1)"),
    ("one_hot", [((4096,), "int32")], 'one_hot(%a, 1f, 0f, depth=128, axis=-1, dtype="float32")'),
    ("strided_slice", [(1024, 1024)], "strided_slice(%a, begin=[0, 1], end=[1024, 1023], strides=[1, 2], axes=None)"),
    ("pad", [(1, 64, 112, 112)], "nn.pad(%a, 0f, pad_width=[[0, 0], [0, 0], [1, 1], [1, 1]])"),
    ("reverse", [(1024, 1024)], "reverse(%a, axis=1)"),
    ("tile", [(256, 256)], "tile(%a, reps=[2, 3])"),
    ("repeat", [(256, 256)], "repeat(%a, repeats=3, axis=1)"),
    ("broadcast_to", [(1024, 1)], "broadcast_to(%a, shape=[1024, 1024])"),
    ("cumsum", [(512, 1024)], "cumsum(%a, axis=1)"),
    ("sort", [(256, 1024)], "sort(%a)"),
    ("topk", [(256, 1024)], "topk(%a, k=5)"),
    ("scatter_elements", [(512, 512), ((512, 512), "int64"), (512, 512)], "scatter_elements(%a, %b, %c, axis=1)"),
    ("dense", [(64, 256), (256, 256)], "nn.dense(%a, %b, units=None)"),
    ("dense_one_row", [(1, 1024), (1024, 1024)], "nn.dense(%a, %b, units=None)"),
    ("dense_float64", [((64, 256), "float64"), ((256, 256), "float64")], "nn.dense(%a, %b, units=None)"),
    ("dense_float16", [((64, 256), "float16"), ((256, 256), "float16")], "nn.dense(%a, %b, units=None)"),
    ("dense_int8", [((64, 256), "int8"), ((256, 256), "int8")], 'nn.dense(%a, %b, units=None, out_dtype="int32")'),
    ("dense_int32", [((64, 256), "int32"), ((256, 256), "int32")], "nn.dense(%a, %b, units=None)"),
    ("matmul", [(128, 128), (128, 128)], "nn.matmul(%a, %b, units=None)"),
    ("matmul_small", [(8, 8), (8, 8)], "nn.matmul(%a, %b, units=None)"),
    ("batch_matmul", [(16, 64, 64), (16, 64, 64)], "nn.batch_matmul(%a, %b)"),
    ("einsum", [(32, 64, 48), (32, 48, 40)], 'einsum((%a, %b), equation="bij,bjk->bik")'),
    ("conv2d", [(1, 64, 28, 28), (64, 64, 3, 3)], "nn.conv2d(%a, %b, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3])"),
    ("conv2d_1x1", [(1, 64, 28, 28), (96, 64, 1, 1)], "nn.conv2d(%a, %b, channels=96, kernel_size=[1, 1])"),
    ("conv2d_groups", [(1, 64, 28, 28), (64, 16, 3, 3)],
     "nn.conv2d(%a, %b, padding=[1, 1, 1, 1], groups=4, channels=64, kernel_size=[3, 3])"),
    ("conv2d_depthwise", [(1, 64, 28, 28), (64, 1, 3, 3)],
     "nn.conv2d(%a, %b, padding=[1, 1, 1, 1], groups=64, channels=64, kernel_size=[3, 3])"),
    ("conv2d_nhwc", [(1, 28, 28, 64), (3, 3, 64, 64)],
     'nn.conv2d(%a, %b, padding=[1, 1, 1, 1], channels=64, kernel_size=[3, 3], data_layout="NHWC", kernel_layout="HWIO")'),
    ("conv2d_int8", [((1, 32, 28, 28), "int8"), ((32, 32, 3, 3), "int8")],
     'nn.conv2d(%a, %b, padding=[1, 1, 1, 1], channels=32, kernel_size=[3, 3], out_dtype="int32")'),
    ("conv1d", [(1, 64, 512), (64, 64, 3)], "nn.conv1d(%a, %b, padding=[1, 1], channels=64, kernel_size=[3])"),
    ("conv3d", [(1, 16, 12, 12, 12), (16, 16, 3, 3, 3)],
     "nn.conv3d(%a, %b, padding=[1, 1, 1, 1, 1, 1], channels=16, kernel_size=[3, 3, 3])"),
    ("conv2d_transpose", [(1, 32, 14, 14), (32, 32, 4, 4)],
     "nn.conv2d_transpose(%a, %b, strides=[2, 2], padding=[1, 1, 1, 1], channels=32, kernel_size=[4, 4])"),
    ("max_pool2d", [(1, 64, 112, 112)], "nn.max_pool2d(%a, pool_size=[3, 3], strides=[2, 2], padding=[1, 1, 1, 1])"),
    ("avg_pool2d", [(1, 64, 56, 56)], "nn.avg_pool2d(%a, pool_size=[2, 2], strides=[2, 2])"),
    ("max_pool2d_nhwc", [(1, 56, 56, 64)], 'nn.max_pool2d(%a, pool_size=[3, 3], strides=[2, 2], layout="NHWC")'),
    ("global_avg_pool2d", [(1, 512, 14, 14)], "nn.global_avg_pool2d(%a)"),
    ("adaptive_avg_pool2d", [(1, 64, 30, 30)], "nn.adaptive_avg_pool2d(%a, output_size=[7, 7])"),
    ("resize2d", [(1, 16, 56, 56)], 'image.resize2d(%a, size=[112, 112], method="linear")'),
    ("upsampling", [(1, 32, 28, 28)], "nn.upsampling(%a, scale_h=2f64, scale_w=2f64)"),
    ("batch_norm", [(1, 64, 56, 56), (64,), (64,), (64,), (64,)], "nn.batch_norm(%a, %b, %c, %d, abs(%e)).0"),
    ("bias_add", [(1, 64, 56, 56), (64,)], "nn.bias_add(%a, %b)"),
    ("prelu", [(1, 64, 56, 56), (64,)], "nn.prelu(%a, %b)"),
    ("lrn", [(1, 64, 28, 28)], "nn.lrn(%a)"),
    ("depth_to_space", [(1, 64, 28, 28)], "nn.depth_to_space(%a, block_size=2)"),
]
MODELS = ["mlp", "dqn", "bert_tiny", "lstm_64x128", "treelstm_16", "mobilenet_v2", "resnet18"]


def program(shapes, expression):
    params = []
    for name, shape in zip("abcdefgh", shapes):
        shape, dtype = shape if isinstance(shape[0], tuple) else (shape, F)
        params.append(f"%{name}: Tensor[({', '.join(map(str, shape))}), {dtype}]")
    return f'#[version = "0.0.5"]\ndef @main({", ".join(params)}) {{ {expression} }}\n'


def time_of(options, what, engine):
    command = [options.relay, "bench", *what, "--exec", engine, "--threads", str(options.threads), "--seconds", str(options.seconds), "--json"]
    out = subprocess.run(command, capture_output=True, text=True)
    for line in out.stdout.splitlines():
        row = json.loads(line)
        if "min_ms" in row:
            return row["min_ms"] if row.get("exec", engine) == engine else None
    return None


def main():
    parse = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    here = os.path.dirname(os.path.abspath(__file__))
    parse.add_argument("--relay", default="build/release/relay")
    parse.add_argument("--threads", type=int, default=1)
    parse.add_argument("--seconds", type=float, default=0.1)
    parse.add_argument("--bar", type=float, default=0.9)
    parse.add_argument("names", nargs="*")
    options = parse.parse_args()
    rows, wrong = [], 0
    with tempfile.TemporaryDirectory() as folder:
        jobs = []
        for name, shapes, expression in CASES:
            path = os.path.join(folder, name + ".rly")
            with open(path, "w") as f:
                f.write(program(shapes, expression))
            jobs.append((name, [path, "--random", "1"]))
        jobs += [(name, [name, "--bench", here]) for name in MODELS]
        for name, what in jobs:
            if options.names and not any(n in name for n in options.names):
                continue
            best = {}
            for turn in range(3):
                for engine in ("jit", "interp"):
                    ms = time_of(options, what, engine)
                    best[engine] = min(best.get(engine, ms), ms) if ms else None
                if None in best.values() or best["interp"] >= options.bar * best["jit"]:
                    break
            if None in best.values():
                print(f"{name:24} does not run: {best}")
                wrong += 1
            else:
                rows.append((best["interp"] / best["jit"], name, best))
    for ratio, name, best in sorted(rows):
        print(f"{name:24} compiled {best['jit']:10.4f}  evaluator {best['interp']:10.4f}  ratio {ratio:8.2f}")
    slower = sum(r[0] < options.bar for r in rows)
    print(f"{len(rows)} kernels, {slower} slower than the evaluator (below {options.bar}), {wrong} that do not run")
    return 1 if slower or wrong else 0


if __name__ == "__main__":
    sys.exit(main())
