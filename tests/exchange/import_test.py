"""`relay import` as a person uses it: names, files, shapes, constants, refusals, and files that mean harm."""
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper, save
from onnx.reference import ReferenceEvaluator

RELAY = os.environ["RELAY"]
failures = 0


def check(what, holds, shown=""):
    global failures
    if not holds:
        failures += 1
        print(f"FAILED {what}\n{shown}")


def relay(*arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=120)


def value(name, shape, element=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def model(nodes, inputs, outputs, arrays=(), version=13):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in dict(arrays).items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", version)])


def array(*shape):
    return np.random.default_rng(3).standard_normal(shape).astype("float32")


def images(folder, batch):
    path = f"{folder}/images{batch}.npy"
    np.save(path, array(batch, 3, 8, 8))
    return path


def test_shapes(folder):
    """What Relay must know of a shape is said by name; a symbol may be given a number."""
    node = helper.make_node
    save(model([node("AveragePool", ["x"], ["y"], kernel_shape=[3], strides=[2], auto_pad="SAME_UPPER")], [value("x", [1, 2, "length"])],
               [value("y", None)]), f"{folder}/pool.onnx")
    got = relay("import", f"{folder}/pool.onnx", "-o", folder)
    check("a shape that is not known is said", got.returncode == 2 and "AveragePool `y`: the extent of axis 2 of input 0" in got.stderr, got.stderr)
    check("nothing is written then", not os.path.exists(f"{folder}/pool.rly"))
    for shape in ["x=1,2,9", "length=9"]:
        got = relay("import", f"{folder}/pool.onnx", "-o", folder, "--shape", shape)
        check(shape, got.returncode == 0 and "%x: Tensor[(1, 2, 9), float32]" in open(f"{folder}/pool.rly").read(), got.stderr)


def test_network(folder):
    """A network as PyTorch writes it: names with slashes and dots, a reshape whose shape is computed."""
    node = helper.make_node
    save(model([node("Conv", ["image", "conv.weight", "conv.bias"], ["/conv/Conv_output_0"], pads=[1, 1, 1, 1], strides=[2, 2]),
                node("Relu", ["/conv/Conv_output_0"], ["/relu/Relu_output_0"]),
                node("Shape", ["/relu/Relu_output_0"], ["s"]), node("Gather", ["s", "0"], ["n"]),
                node("Unsqueeze", ["n", "axes"], ["n1"]), node("Concat", ["n1", "rest"], ["shape"], axis=0),
                node("Reshape", ["/relu/Relu_output_0", "shape"], ["flat"]),
                node("Gemm", ["flat", "fc.weight", "fc.bias"], ["logits"], transB=1)],
               [value("image", ["N", 3, 8, 8])], [value("logits", ["N", 10])],
               {"conv.weight": array(4, 3, 3, 3), "conv.bias": array(4), "0": np.array(0), "axes": np.array([0]),
                "rest": np.array([-1]), "fc.weight": array(10, 64), "fc.bias": array(10)}), f"{folder}/net.onnx")
    got = relay("import", f"{folder}/net.onnx", "-o", folder)
    open_text = open(f"{folder}/net.rly").read() if got.returncode == 0 else got.stderr
    check("a batch with a name stays symbolic", "meta[tir.SizeVar][0], 3, 8, 8" in open_text and '"name": "4"' in open_text, open_text)
    check("and what takes its shape apart is no line", "shape_of" not in open_text and "newshape=[0, -1]" in open_text, open_text)
    for batch in [1, 3]:
        ran = relay("run", f"{folder}/net.rly", "--params", f"{folder}/net.npz", "--arg", f"image={images(folder, batch)}", "--json")
        check(f"run with a batch of {batch}", f'"shape": [{batch}, 10]' in ran.stdout, ran.stdout + ran.stderr)
    got = relay("import", f"{folder}/net.onnx", "-o", folder, "--shape", "image=2,3,8,8")
    check("import", got.returncode == 0, got.stderr)
    text = open(f"{folder}/net.rly").read()
    for part in ["%conv_weight: Tensor[(4, 3, 3, 3), float32], %conv_bias", "let %conv: ", 'values=["conv = /conv/Conv_output_0", "relu = /relu/Relu_output_0"]', "nn.dense(%flat, %fc_weight", "newshape=[2, -1]"]:
        check(f"`{part}` in the program", part in text, text)
    formatted = relay("fmt", f"{folder}/net.rly")
    check("the program is formatted", formatted.stdout == text, formatted.stdout)
    image = np.random.default_rng(0).standard_normal((2, 3, 8, 8)).astype("float32")
    np.save(f"{folder}/image.npy", image)
    results = []
    for engine in ["interp", "jit"]:
        ran = relay("run", f"{folder}/net.rly", "--params", f"{folder}/net.npz", "--arg", f"image={folder}/image.npy", "--exec", engine,
                    "-o", f"{folder}/out.npz")
        check(f"run by {engine}", ran.returncode == 0, ran.stderr)
        with np.load(f"{folder}/out.npz") as out:
            results.append(out[out.files[0]])
    padded = np.pad(image, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))[:, :, ::2, ::2]
    conv = np.einsum("ncyxij,ocij->noyx", windows, array(4, 3, 3, 3)) + array(4)[:, None, None]
    want = np.maximum(conv, 0).reshape(2, -1) @ array(10, 64).T + array(10)
    for r in results:
        check("the network's result", r.shape == want.shape and np.allclose(r, want, atol=1e-4), f"{r}\n{want}")


def test_places(folder):
    """A folder with one program stands for it with its weights; a session takes the model itself."""
    small = os.path.join(os.environ.get("RELAY_SOURCE", "."), "tests", "exchange", "small.onnx")
    made = relay("import", small, "-o", folder)
    check("import", made.returncode == 0, made.stderr)
    x = f"{folder}/x.npy"
    np.save(x, np.ones((1, 4), "float32"))
    ran = relay("run", folder, "--arg", f"x={x}")
    check("run DIR", ran.stdout == "[[0.203125, 0.671875]] : Tensor[(1, 2), float32]\n", ran.stdout + ran.stderr)
    check("summary DIR", "multiply-adds" in relay("summary", folder).stdout)
    check("bench DIR", "small.rly" in relay("bench", folder, "--arg", f"x={x}", "--runs", "2", "--seconds", "0.01").stdout)
    open(f"{folder}/other.rly", "w").write("1")
    check("of two programs none is meant", relay("run", folder).returncode == 2)
    gone = subprocess.run([RELAY], input=":import nowhere.onnx\n:import\n", capture_output=True, text=True, timeout=60)
    check(":import says what it cannot read", "E0401" in gone.stderr and "a model's file" in gone.stderr, gone.stderr)


def test_refusals(folder):
    """Everything that cannot be said is listed, once, and what depends on it is not."""
    node = helper.make_node
    save(model([node("Relu", ["x"], ["a"]), node("Foo", ["a"], ["b"], domain="my.own"), node("Relu", ["b"], ["c"]),
                node("GRU", ["c", "c", "c"], ["d"]), node("Bar", ["x"], ["e"], name="second")],
               [value("x", [2])], [value("d", [2]), value("e", [2])]), f"{folder}/bad.onnx")
    got = relay("import", f"{folder}/bad.onnx", "-o", folder)
    check("refused", got.returncode == 2 and "`my.own.Foo`" in got.stderr and "Bar `second`" in got.stderr, got.stderr)
    check("nothing written", not os.path.exists(f"{folder}/bad.rly"))


def run_both(folder, name, **given):
    """The results of both engines, which are the same."""
    results = []
    for k, v in given.items():
        np.save(f"{folder}/{k}.npy", v)
    for engine in ["interp", "jit"]:
        ran = relay("run", f"{folder}/{name}.rly", "--params", f"{folder}/{name}.npz", *sum((["--arg", f"{k}={folder}/{k}.npy"] for k in given), []),
                    "--exec", engine, "-o", f"{folder}/out.npz")
        check(f"{name} by {engine}", ran.returncode == 0, ran.stderr)
        with np.load(f"{folder}/out.npz") as out:
            results.append([out[k] for k in out.files])
    for a, b in zip(*results):
        check(f"{name}: both engines", np.allclose(a, b, atol=1e-5, equal_nan=True), f"{a} {b}")
    return results[0]


def test_nan(folder):
    """NaN stays NaN in extremes, signs and bounds, whichever operand it is."""
    node = helper.make_node
    x, y = (np.array(v, "float32") for v in ([np.nan, -2, 0.5, 3, np.nan], [1, np.nan, 1, -3, np.nan]))
    save(model([node("Max", ["x", "y"], ["a"]), node("Min", ["x", "y", "z"], ["b"]), node("Sign", ["x"], ["c"]), node("Clip", ["x", "low", "high"], ["d"]),
                node("HardSigmoid", ["x"], ["e"])], [value(k, [5]) for k in "xyz"], [value(k, [5]) for k in "abcde"],
               {"low": np.float32(-1), "high": np.float32(1)}), f"{folder}/nan.onnx")
    got = relay("import", f"{folder}/nan.onnx", "-o", folder)
    check("import of extremes", got.returncode == 0, got.stderr)
    z = y[::-1].copy()
    wants = [np.maximum(x, y), np.minimum(np.minimum(x, y), z), np.sign(x), np.clip(x, -1, 1), np.clip(x * np.float32(0.2) + np.float32(0.5), 0, 1)]
    for what, a, b in zip(["Max", "Min", "Sign", "Clip", "HardSigmoid"], run_both(folder, "nan", x=x, y=y, z=z), wants):
        check(f"{what} of NaN", np.allclose(a, b, atol=1e-6, equal_nan=True), f"{a} {b}")


def test_blocks(folder):
    """What a graph repeats becomes a function; so does what the model calls one."""
    node = helper.make_node
    nodes, arrays, x, want, given = [], {}, "x", array(2, 4), array(2, 4)
    for i in range(5):
        w = array(4, 4) * (i + 1) / 5
        arrays |= {f"layers.{i}.weight": w, f"layers.{i}.bias": array(4)}
        nodes += [node("MatMul", [x, f"layers.{i}.weight"], [f"/layers.{i}/MatMul"]), node("Add", [f"/layers.{i}/MatMul", f"layers.{i}.bias"], [f"a{i}"]),
                  node("Relu", [f"a{i}"], [f"r{i}"]), node("Neg", [f"r{i}"], [f"n{i}"]), node("Add", [x, f"n{i}"], [f"/layers.{i}/Add"])]
        x = f"/layers.{i}/Add"
        want = want - np.maximum(want @ w + array(4), 0)
    save(model(nodes, [value("x", [2, 4])], [value(x, [2, 4])], arrays), f"{folder}/layers.onnx")
    got = relay("import", f"{folder}/layers.onnx", "-o", folder)
    check("import", got.returncode == 0, got.stderr)
    text = open(f"{folder}/layers.rly").read()
    check("one function, called five times", text.count("def @") == 2 and text.count("@layers(") == 6 and "%weight: " in text, text)
    check("it is formatted", relay("fmt", f"{folder}/layers.rly").stdout == text)
    check("the layers' result", np.allclose(run_both(folder, "layers", x=given)[0], want, atol=1e-4))

    inner = helper.make_function("own", "half", ["a"], ["b"], [node("Constant", [], ["h"], value_float=0.5), node("Mul", ["a", "h"], ["b"])],
                                 [helper.make_opsetid("", 13)])
    outer = helper.make_function("own", "both", ["a", "b"], ["s", "d"], [
        node("half", ["a"], ["c"], domain="own"), node("Add", ["c", "b"], ["s"]), node("Sub", ["c", "b"], ["d"])],
        [helper.make_opsetid("", 13), helper.make_opsetid("own", 1)])
    m = model([node("both", ["x", "y"], ["p", "q"], domain="own"), node("both", ["q", "p"], ["r", ""], domain="own"),
               node("both", ["z", "z"], ["t", "u"], domain="own")],
              [value("x", [3]), value("y", [3]), value("z", [2])], [value(k, None) for k in "pqrtu"])
    m.functions.extend([inner, outer])
    m.opset_import.append(helper.make_opsetid("own", 1))
    save(m, f"{folder}/calls.onnx")
    got = relay("import", f"{folder}/calls.onnx", "-o", folder)
    check("import of calls", got.returncode == 0, got.stderr)
    text = open(f"{folder}/calls.rly").read()
    check("functions of the model", "def @both(" in text and "@both(%x, %y)" in text, text)
    x, y, z = array(3), array(3) + 1, array(2)
    p, q = x / 2 + y, x / 2 - y
    for a, b in zip(run_both(folder, "calls", x=x, y=y, z=z), [p, q, q / 2 + p, z * 1.5, -z / 2]):
        check("what calls give", np.allclose(a, b, atol=1e-6), f"{a} {b}")
    ran = subprocess.run([RELAY], input=f":import {folder}/layers.onnx\n%layers(ones(shape=[2, 4], dtype=\"float32\"))\n", capture_output=True, text=True, timeout=60)
    check("in a session", "with @layers_layers\n" in ran.stdout and "Tensor[(2, 4), float32]" in ran.stdout and not ran.stderr, ran.stdout + ran.stderr)


EXPORTED = """#[version = "0.0.5"]
def @twice(%x: Tensor[(?, 3), float32]) { add(%x, %x) }
def @main(%x: Tensor[(?, 3), float32], %w: Tensor[(2, 3), float32], %n: int64) {
  let %turns = fn (%i: int64, %y: Tensor[(?, 3), float32]) -> Tensor[(?, 3), float32] {
    if (less(%i, %n)) { %turns(add(%i, 1i64), multiply(%y, 0.5f)) } else { %y }
  };
  let %y = %turns(0i64, @twice(%x));
  let %s = if (greater(sum(%y), 0f)) { (%y, 1f) } else { (negative(%y), 2f) };
  (nn.dense(%s.0, %w, units=None), %s.1, argmax(%y, axis=[1]))
}
"""


def test_export(folder):
    """A program as ONNX: weights, functions, branches and turns; what ONNX cannot say is listed and nothing is written."""
    from onnx import checker, load
    from onnx.reference import ReferenceEvaluator
    program, path = f"{folder}/p.rly", f"{folder}/p.onnx"
    open(program, "w").write(EXPORTED)
    np.savez(f"{folder}/p.npz", w=array(2, 3))
    got = relay("export", "--to", "onnx", folder)
    check("export", got.returncode == 0 and got.stdout == f"written: {path}\n", got.stdout + got.stderr)
    m = load(path)
    checker.check_model(m, full_check=True)
    check("weights and inputs", [i.name for i in m.graph.input] == ["x", "n"] and "w" in [i.name for i in m.graph.initializer])
    check("control flow", {"Loop", "If"} <= {n.op_type for n in m.graph.node})
    for sign, turns in [(1, 3), (-1, 0)]:
        x = sign * np.abs(array(4, 3))
        y = 2 * x * 0.5**turns
        want = [np.abs(y) @ array(2, 3).T, 1.0 if sign > 0 else 2.0, y.argmax(1)]
        for w, r in zip(want, ReferenceEvaluator(m).run(None, {"x": x, "n": np.array(turns)})):
            check("what the model gives", np.allclose(w, r, atol=1e-5), f"{r}, wanted {w}")
    back = relay("import", "--check", path)
    check("and back", back.returncode == 0, back.stderr)
    open(program, "w").write("""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3), float32], %boxes: Tensor[(1, 4, 4), float32], %scores: Tensor[(1, 2, 4), float32]) {
  (stack((%x, negative(%x)), axis=1), vision.all_class_non_max_suppression(%boxes, %scores, 3i64, 0.5f, 0.1f, output_format="onnx").1, nn.bias_add(stack((%x, %x), axis=2), sum(%x, axis=[0])))
}
""")
    got = relay("export", "--to", "onnx", program)
    check("export", got.returncode == 0, got.stderr)
    got = relay("import", path, "-o", f"{folder}/back")
    check("and back", got.returncode == 0, got.stderr)
    x, boxes = array(2, 3), np.array([[[0, 0, 1, 1], [0, 0, 1, 0.9], [2, 2, 3, 3], [5, 5, 6, 7]]], "float32")
    got = run_both(f"{folder}/back", "p", x=x, boxes=boxes, scores=np.array([[[0.9, 0.8, 0.7, 0], [0, 0, 0, 0.5]]], "float32"))
    check("rows of a tuple", np.array_equal(got[0], np.stack([x, -x], 1)), str(got[0]))
    check("a bias along an axis inside", np.allclose(got[2], np.stack([x, x], 2) + x.sum(0)[:, None]), str(got[2]))
    check("how many boxes are left", got[1].tolist() == [3], str(got[1]))
    open(program, "w").write("""#[version = "0.0.5"]
def @f(%x: int32) -> int32 { if (less(%x, 1)) { 1 } else { multiply(%x, @f(subtract(%x, 1))) } }
type T { A, B, }
def @main(%x: int32) { (@f(%x), match (A) { A => %x, B => 2 }, nn.fifo_buffer(ones(shape=[2], dtype="float32"), ones(shape=[2], dtype="float32"), axis=0), ref(%x)) }
""")
    os.remove(path)
    got = relay("export", "--to", "onnx", program)
    check("what cannot be said is listed", got.returncode == 2 and "E0406" in got.stderr and "`match`" in got.stderr and "fifo_buffer" in got.stderr
          and "reference" in got.stderr and "calls itself" in got.stderr, got.stderr)
    check("nothing is written", not os.path.exists(path))
    check("another format", relay("export", "--to", "coreml", program).returncode == 2)


def test_export_norms(folder):
    """Norms that do not scale or shift, and pools of whole images; the format need not be said."""
    from onnx import load
    from onnx.reference import ReferenceEvaluator
    program, path = f"{folder}/p.rly", f"{folder}/p.onnx"
    open(program, "w").write("""#[version = "0.0.5"]
def @main(%x: Tensor[(2, 3, 2, 2), float32], %g: Tensor[(3), float32], %b: Tensor[(3), float32], %m: Tensor[(3), float32]) {
  let %v = abs(%m) + 1f;
  (nn.batch_norm(%x, %g, %b, %m, %v, scale=False).0, nn.batch_norm(%x, %g, %b, %m, %v, center=False).0,
   nn.layer_norm(transpose(%x, axes=[0, 2, 3, 1]), %g, %b, scale=False, center=False),
   nn.adaptive_avg_pool3d(expand_dims(%x, axis=4), output_size=[1, 1, 1]), nn.adaptive_avg_pool1d(reshape(%x, newshape=[2, 3, 4]), output_size=[1]))
}
""")
    got = relay("export", program)
    check("export", got.returncode == 0 and got.stdout == f"written: {path}\n", got.stdout + got.stderr)
    x, (g, b, m) = array(2, 3, 2, 2), array(3, 3)
    along = x.transpose(0, 2, 3, 1)
    y, centred = (along - m) / np.sqrt(np.abs(m) + 1 + 1e-5), along - along.mean(-1, keepdims=True)
    want = [(y + b).transpose(0, 3, 1, 2), (y * g).transpose(0, 3, 1, 2), centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5),
            x.mean((2, 3))[..., None, None, None], x.mean((2, 3))[..., None]]
    for i, (w, r) in enumerate(zip(want, ReferenceEvaluator(load(path)).run(None, {"x": x, "g": g, "b": b, "m": m}))):
        check(f"result {i}", w.shape == r.shape and np.allclose(w, r, atol=1e-4), f"{r}, wanted {w}")


def test_export_windows(folder):
    """Borders that are not the same on both sides; what ONNX has no word for is refused."""
    from onnx import load
    from onnx.reference import ReferenceEvaluator
    program = f"{folder}/p.rly"
    head = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 2, 5, 6), float32], %w: Tensor[(3, 2, 3, 2), float32], %g: Tensor[(5), float32]) {
  """
    open(program, "w").write(head + """(nn.conv2d(%x, %w, padding=[2, 0, 1, 1], channels=3, kernel_size=[3, 2]), nn.max_pool2d(%x, pool_size=[2, 3], padding=[0, 1, 1, 2]),
   nn.avg_pool2d(%x, pool_size=[2, 3], padding=[0, 1, 1, 2], count_include_pad=True))
}
""")
    got = relay("export", program)
    check("export", got.returncode == 0, got.stderr)
    given = {"x": array(1, 2, 5, 6), "w": array(3, 2, 3, 2), "g": array(5)}
    m = load(f"{folder}/p.onnx")
    np.savez(f"{folder}/p.npz")
    given = {i.name: given[i.name] for i in m.graph.input}
    for i, (w, r) in enumerate(zip(ReferenceEvaluator(m).run(None, given), run_both(folder, "p", **given))):
        check(f"result {i}", w.shape == r.shape and np.allclose(w, r, atol=1e-5), f"{r}, wanted {w}")
    for text, why in [("nn.adaptive_avg_pool2d(%x, output_size=[2, 1])", "more than one place"),
                      ("nn.batch_norm(%x, %g, %g, %g, %g, axis=2).0", "another axis than 1"),
                      ("nn.layer_norm(%x, %g, %g, axis=2)", "another axis than the last"),
                      ('nn.conv2d_transpose(%x, ones(shape=[1, 2, 3, 2], dtype="float32"), kernel_layout="OIHW", channels=2, groups=2, '
                       'kernel_size=[3, 2])', "another layout than NCHW")]:
        open(program, "w").write(f"{head}{text} }}\n")
        got = relay("export", program)
        check(text, got.returncode == 2 and why in got.stderr, got.stderr)


SAVED = """#[version = "0.0.5"]
def @half(%x: Tensor[(3), float32]) { multiply(%x, 0.5f) }
def @main(%constant: Tensor[(3), float32], %n: int32) {
  let %w = arange(0f, 3f, 1f, dtype="float32");
  if (less(%n, 1)) { add(@half(%constant), %w) } else { multiply(%constant, %w) }
}
"""


def test_saved(folder):
    """A graph that the original saved: its arrays become weights of other names than the parameters', scalars stay."""
    program, graph, out = f"{folder}/p.rly", f"{folder}/graph.json", f"{folder}/a/b"
    open(program, "w").write(SAVED)
    open(graph, "w").write(subprocess.run(f"{RELAY} opt -p FoldConstant {program} | {RELAY} fmt --to json -", shell=True, capture_output=True, text=True).stdout)
    got = relay("import", graph, "-o", out)
    text = open(f"{out}/graph.rly").read() if got.returncode == 0 else ""
    check("a saved graph", "multiply      2\n" in got.stdout and "def @half(" in text and "%constant_1: Tensor[(3), float32])" in text, got.stdout + got.stderr + text)
    check("scalars stay", "0.5f" in text and "metadata" not in text, text)
    check("--check writes nothing", relay("import", graph, "--check", "-o", f"{folder}/c").returncode == 0 and not os.path.exists(f"{folder}/c"))
    got = relay("import", graph, "--shape", "n=1", "-o", f"{folder}/c")
    check("--shape", got.returncode == 2 and "states the shapes" in got.stderr, got.stderr)
    open(program, "w").write(SAVED.replace("multiply(%constant, %w)", "@main(%w, 0)"))
    open(f"{folder}/turns.json", "w").write(subprocess.run(f"{RELAY} opt -p FoldConstant {program} | {RELAY} fmt --to json -", shell=True, capture_output=True, text=True).stdout)
    got = relay("import", f"{folder}/turns.json", "-o", out)
    check("a function that calls itself keeps its constants", got.returncode == 0 and "meta[relay.Constant][0]" in open(f"{out}/turns.rly").read(), got.stderr)
    session = f":import {graph}\n%graph(ones(shape=[3], dtype=\"float32\"), 1)\n"
    ran = subprocess.run([RELAY], input=session, capture_output=True, text=True, timeout=60)
    check("in a session", "[0, 1, 2]" in ran.stdout and not ran.stderr, ran.stdout + ran.stderr)
    open(graph, "w").write('{"nodes": [{"op": "null", "name": "x", "inputs": []}], "arg_nodes": [0], "heads": [[0, 0, 0]]}')
    got = relay("import", graph, "-o", folder)
    check("a compiled graph", got.returncode == 1 and "names kernels" in got.stderr, got.stderr)


def test_session_import(folder):
    """Models whose weights have the same names live beside each other."""
    node = helper.make_node
    for k in (1, 2):
        save(model([node("Mul", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": np.full(2, k, "float32")}), f"{folder}/m{k}.onnx")
    lines = [f":import {folder}/m1.onnx", f":import {folder}/m2.onnx", "%m1(%m2_w)", f":export {folder}/again.onnx %m1"]
    ran = subprocess.run([RELAY], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60)
    for said in ["@m1: 1 nodes, 1 weights", "%m2: fn", "[2, 2] : Tensor[(2), float32]", "written: "]:
        check(said, said in ran.stdout and not ran.stderr, ran.stdout + ran.stderr)


def test_session_export(folder):
    """Variables of the session are weights, functions that it uses are written out, and what is no file or no model says so."""
    from onnx import load
    from onnx.reference import ReferenceEvaluator
    lines = ["let %w = ones(shape=[2, 3], dtype=\"float32\");", "let %f = fn (%x: Tensor[(4, 3), float32]) { nn.dense(%x, %w, units=None) };",
             "let %w = add(%w, 1f);", "let %g = fn (%x: Tensor[(4, 3), float32]) { nn.dense(%x, %w, units=None) };",
             "def @h(%a: Tensor[(4, 2), float32]) { nn.relu(%a) }",
             f":export {folder}/g.onnx fn (%w: Tensor[(4, 3), float32]) {{ @h(%g(%w)) }}",
             f":export {folder}/h.onnx @h", f":export {folder}/f.onnx %f", f":export {folder}/f.txt @h", f":export {folder}/f.onnx"]
    ran = subprocess.run([RELAY], input="\n".join(lines) + "\n", capture_output=True, text=True, timeout=60)
    check("what is written", ran.stdout.count("written: ") == 2 and os.path.exists(f"{folder}/h.onnx"), ran.stdout + ran.stderr)
    for said in ["`%f` is known only as a value", "has no ending of a format", "what to write"]:
        check(said, said in ran.stderr, ran.stderr)
    if os.path.exists(f"{folder}/g.onnx"):
        m = load(f"{folder}/g.onnx")
        check("names", [i.name for i in m.graph.input] == ["w"] and [a.name for a in m.graph.initializer][0] != "w", str(m.graph.input))
        y, = ReferenceEvaluator(m).run(None, {"w": array(4, 3)})
        check("values", np.allclose(y, np.maximum(array(4, 3) @ np.full((3, 2), 2, "float32"), 0), atol=1e-5), str(y))


def test_names(folder):
    """Parameters that are called otherwise in the model say so, whatever the name is made of."""
    node, odd = helper.make_node, 'a "b"\\\n\u00e9/c'
    save(model([node("Add", [odd, "w.0"], ["y"])], [value(odd, [2])], [value("y", [2])], {"w.0": array(2)}), f"{folder}/odd.onnx")
    got = relay("import", f"{folder}/odd.onnx", "-o", folder)
    text = open(f"{folder}/odd.rly").read() if got.returncode == 0 else ""
    check("names", ', names=["a \\"b\\"' in text and '"w.0"]' in text, got.stderr + text)
    check("and they are read again", relay("fmt", f"{folder}/odd.rly").stdout == text)


def test_titles(folder):
    """Values are called after the module that gives them, and the model's own name is noted: in functions with `*` for what differs."""
    node, last, arrays, nodes = helper.make_node, "x", {}, []
    for layer in ["layer1.0", "layer1.1", "layer1.2"]:
        at = f"/layer1/{layer}"
        for k, (op, name, inside) in enumerate([("Conv", "conv1", True), ("Relu", "relu", True), ("Conv", "conv2", True), ("Add", "", False), ("Relu", "relu_1", True)]):
            value_of = f"{at}/{name}/{op}_output_0" if inside else f"{at}/{op}_output_0"
            if op == "Conv":
                arrays[f"{layer}.{name}.weight"] = array(2, 2, 1, 1)
            more = {"Conv": [f"{layer}.{name}.weight"], "Add": [last]}.get(op, [])
            nodes.append(node(op, [previous if k else last, *more], [value_of], name=f"{at}/{name}/{op}"))  # noqa: F821
            previous = value_of
        last = previous
    nodes.append(node("Relu", [last], ["17"], name="/head/Relu"))
    save(model(nodes, [value("x", [1, 2, 4, 4])], [value("17", [1, 2, 4, 4])], arrays), f"{folder}/deep.onnx")
    got = relay("import", f"{folder}/deep.onnx", "-o", folder)
    text = open(f"{folder}/deep.rly").read() if got.returncode == 0 else ""
    for part in ["def @layer1(", "= /layer1/layer1.*/conv1/Conv_output_0", "let %layer1_0_relu_1: ", "layer1_0_relu_1 = /layer1/layer1.0/relu_1/Relu_output_0",
                 "let %head: ", '"head = 17"']:
        check(f"`{part}`", part in text, got.stderr + text)
    check("they are read again", relay("fmt", f"{folder}/deep.rly").stdout == text)
    one = model([node("Neg", ["x"], ["neg_3"])], [value("x", [2])], [value("neg_3", [2])])
    one.graph.node[0].metadata_props.add(key="namespace", value="n")
    one.graph.node[0].metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'head', 'head.2', 'neg_3']")
    save(one, f"{folder}/scoped.onnx")
    relay("import", f"{folder}/scoped.onnx", "-o", folder)
    text = open(f"{folder}/scoped.rly").read()
    check("modules that metadata says", "let %head_2: " in text and 'values=["head_2 = neg_3"]' in text, text)


def test_later(folder):
    """Fields that came after the schema are read where they matter; what nobody knows is said."""
    node = helper.make_node
    m = model([node("scaled", ["x"], ["a"], domain="own", overload="one"), node("scaled", ["x"], ["b"], domain="own", overload="two"),
               node("scaled", ["x"], ["c"], domain="own", overload="one", alpha=0.5)], [value("x", [2])], [value(k, [2]) for k in "abc"], version=18)
    m.opset_import.append(helper.make_opsetid("own", 1))
    for name, op in [("one", "LeakyRelu"), ("two", "Elu")]:
        inside = node(op, ["v"], ["w"])
        inside.attribute.add(name="alpha", ref_attr_name="alpha", type=1)
        f = helper.make_function("own", "scaled", ["v"], ["w"], [inside], [helper.make_opsetid("", 18)],
                                 attribute_protos=[helper.make_attribute("alpha", 0.25)])
        f.overload = name
        m.functions.append(f)
    save(m, f"{folder}/later.onnx")
    x = np.array([-2, 1], "float32")
    np.save(f"{folder}/x.npy", x)
    got = relay("import", f"{folder}/later.onnx", "-o", folder)
    check("nothing is reported", got.returncode == 0 and not got.stderr, got.stderr)
    a, b, c = run_both(folder, "later", x=x)
    check("an attribute that the function says", np.allclose(a, [-0.5, 1]), a)
    check("another function of the name", np.allclose(b, [0.25 * (np.exp(-2) - 1), 1]), b)
    check("and one that the call says", np.allclose(c, [-1, 1]), c)
    raw = m.SerializeToString() + bytes([0xfa, 0x07, 2, 1, 2])  # field 127
    open(f"{folder}/newer.onnx", "wb").write(raw)
    got = relay("import", f"{folder}/newer.onnx", "-o", folder)
    check("a field that nobody knows", got.returncode == 0 and "W0401" in got.stderr and "ModelProto 127" in got.stderr, got.stderr)


def against_reference(folder, name, m, want=None, **given):
    """The program's results on both engines are those of ONNX's own evaluator, an exported one's too; or `want` where that cannot run it."""
    save(m, f"{folder}/{name}.onnx")
    got = relay("import", f"{folder}/{name}.onnx", "-o", folder)
    check(f"{name} is imported", got.returncode == 0, got.stderr)
    evaluated = want is None
    want = ReferenceEvaluator(m).run(None, given) if evaluated else want
    for w, r in zip(want, run_both(folder, name, **given)):
        check(name, w.shape == r.shape and np.allclose(w, r, atol=1e-5, equal_nan=True), f"{r}\n{w}")
    back = relay("export", "--to", "onnx", f"{folder}/{name}.rly", "--params", f"{folder}/{name}.npz", "-o", f"{folder}/{name}_back.onnx")
    if back.returncode == 0 and evaluated:
        for w, r in zip(want, ReferenceEvaluator(f"{folder}/{name}_back.onnx").run(None, given)):
            check(f"{name} exported", w.shape == r.shape and np.allclose(w, r, atol=1e-5), f"{r}\n{w}")
    return back


def test_lengths(folder):
    """Of sequences of their own lengths each gives what it gives alone, and nothing behind its end."""
    for kind, gates in [("LSTM", 4), ("GRU", 3)]:
        names = ["y", "h", "c"][:3 if gates == 4 else 2]
        for name, more in [("alone", []), ("several", ["", "n"])]:
            save(model([helper.make_node(kind, ["x", "w", "r", *more], names, hidden_size=3, direction="bidirectional")],
                       [value("x", ["steps", "batch", 2])] + [value("n", ["batch"], TensorProto.INT32)] * bool(more), [value(k, None) for k in names],
                       {"w": array(2, 3 * gates, 2), "r": array(2, 3 * gates, 3)}), f"{folder}/{name}.onnx")
            got = relay("import", f"{folder}/{name}.onnx", "-o", folder)
            check(f"{kind} is imported", got.returncode == 0, got.stderr)
        x, lengths = array(4, 2, 2), [4, 2]
        got = run_both(folder, "several", x=x, n=np.array(lengths, "int32"))
        for b, n in enumerate(lengths):
            y, *states = run_both(folder, "alone", x=x[:n, b:b + 1])
            check(f"{kind} of {n} steps", np.allclose(got[0][:n, :, b:b + 1], y, atol=1e-5) and not got[0][n:, :, b].any(), f"{got[0]}\n{y}")
            for v, w in zip(got[1:], states):
                check(f"{kind}: the state after {n} steps", np.allclose(v[:, b:b + 1], w, atol=1e-5), f"{v}\n{w}")


def test_open(folder):
    """Extents that are known when the program runs: what the model says of them beside that is kept."""
    node, i64 = helper.make_node, TensorProto.INT64
    shape = [node("Shape", ["x"], ["s"]), node("Slice", ["s", "0", "2"], ["front"])]
    m = model([*shape, node("Concat", ["front", "heads"], ["to"], axis=0), node("Reshape", ["x", "to"], ["y"], allowzero=1),
               node("Split", ["y"], ["a", "b"], axis=3, num_outputs=2)],
              [value("x", ["batch", "length", 8])], [value("a", None), value("b", None)],
              {"0": np.array([0]), "2": np.array([2]), "heads": np.array([2, 4])}, 18)
    check("exported", against_reference(folder, "heads", m, x=array(2, 3, 8)).returncode == 0)
    check("a reshape of extents at their places is one", "dyn" not in open(f"{folder}/heads.rly").read())
    m = model([node("Reshape", ["x", "to"], ["y"], allowzero=1), node("Split", ["y"], ["a", "b"], axis=1, num_outputs=2)],
              [value("x", ["n"]), value("to", [2], i64)], [value("a", None)], version=18)
    m.graph.node.insert(0, node("Concat", ["rows", "2"], ["to2"], axis=0))
    m.graph.node[1].input[1] = "to2"
    m.graph.input[1].CopyFrom(value("rows", [1], i64))
    m.graph.initializer.append(numpy_helper.from_array(np.array([2]), "2"))
    against_reference(folder, "rows", m, x=array(6), rows=np.array([3]))
    m = model([node("Slice", ["x", "from", "to"], ["y"])], [value("x", [4, 5]), value("from", ["k"], i64), value("to", ["k"], i64)], [value("y", None)])
    against_reference(folder, "bounds", m, x=array(4, 5), **{"from": np.array([1]), "to": np.array([3])})
    against_reference(folder, "bounds", m, x=array(4, 5), **{"from": np.array([1, -2]), "to": np.array([3, 5])})
    for mode, way in [("nearest", "asymmetric"), ("linear", "half_pixel"), ("cubic", "half_pixel")]:
        m = model([*shape, node("Slice", ["s", "2", "4"], ["size"]), node("Add", ["size", "2"], ["larger"]),
                   node("Concat", ["front", "larger"], ["to"], axis=0),
                   node("Resize", ["x", "", "", "to"], ["y"], mode=mode, coordinate_transformation_mode=way, nearest_mode="floor")],
                  [value("x", ["n", 2, "h", "w"])], [value("y", None)], {"0": np.array([0]), "2": np.array([2]), "4": np.array([4])}, 18)
        check("exported", against_reference(folder, f"resize_{mode}", m, x=array(1, 2, 5, 4)).returncode == 0)
    m = model([node("Resize", ["x", "", "scales"], ["y"], mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor")],
              [value("x", ["n", 2, "h", "w"])], [value("y", None)], {"scales": np.array([1, 1, 2, 3], "float32")}, 18)
    against_reference(folder, "resize_scales", m, x=array(1, 2, 5, 4))
    m = model([node("Shape", ["x"], ["s"]), node("Shape", ["y"], ["place"]), node("Gather", ["s", "place"], ["z"])],
              [value("x", ["n", 3]), value("y", [None])], [value("z", None)])
    against_reference(folder, "place", m, x=array(2, 3), y=array(0))
    m = model([node("Shape", ["x"], ["s"]), node("Slice", ["s", "0", "0"], ["none"]), node("Concat", ["none", "6"], ["to"], axis=0),
               node("Reshape", ["x", "to"], ["y"])], [value("x", ["n", 3])], [value("y", None)], {"0": np.array([0]), "6": np.array([6])})
    against_reference(folder, "no_extents", m, x=array(2, 3))
    m = model([node("Cast", ["x"], ["i"], to=i64), node("Squeeze", ["y", "1"], ["z"]), node("Add", ["z", "z"], ["w"])],
              [value("x", [3]), value("y", [3, 1])], [value("i", None, i64), value("w", None)], {"1": np.array([1])})
    against_reference(folder, "no_shapes", m, x=np.array([1.5, -2, 3], "float32"), y=array(3, 1))
    longer, same = (helper.make_graph([n], "g", [], [value("r", None)]) for n in (node("Concat", ["x", "x"], ["r"], axis=0), node("Identity", ["x"], ["r"])))
    m = model([node("If", ["flag"], ["y"], then_branch=longer, else_branch=same), node("Split", ["y"], ["a", "b"], axis=1)],
              [value("flag", [], TensorProto.BOOL), value("x", [3, 4])], [value("a", None), value("b", None)])
    against_reference(folder, "branches", m, flag=np.array(True), x=array(3, 4))
    against_reference(folder, "branches", m, flag=np.array(False), x=array(3, 4))
    m = model([node("Einsum", ["x", "y"], ["z"], equation="b i, i o -> b o")], [value("x", ["n", 3]), value("y", [3, 2])], [value("z", None)])
    against_reference(folder, "einsum", m, x=array(2, 3), y=array(3, 2))
    for mode in ["linear", "cubic"]:
        m = model([node("Resize", ["x", "", "", "to"], ["y"], mode=mode, axes=[1])], [value("x", [2, 5])], [value("y", None)], {"to": np.array([11])}, 18)
        against_reference(folder, f"one_axis_{mode}", m, x=array(2, 5))


def test_collected(folder):
    """What turns of a loop give, put together: of any batch, and of a number of turns that is known or not; nothing where there is none."""
    node = helper.make_node
    body = helper.make_graph([node("Add", ["h", "v"], ["h2"]), node("Mul", ["h2", "h2"], ["out"]), node("ReduceSum", ["v"], ["total"], keepdims=0)], "body",
                             [value("h", ["n", 3]), value("v", ["n", 3])], [value("h2", ["n", 3]), value("out", ["n", 3]), value("total", [])])
    for back in (0, 1):
        m = model([node("Scan", ["h0", "x"], ["h1", "y", "s"], num_scan_inputs=1, body=body, scan_input_axes=[1], scan_output_axes=[1, 0],
                        scan_output_directions=[back, 0])],
                  [value("h0", ["n", 3]), value("x", ["n", "t", 3])], [value(k, None) for k in ("h1", "y", "s")], version=16)
        sums = array(2, 3)[:, None] + np.cumsum(array(2, 4, 3), axis=1)
        want = [sums[:, -1], (sums ** 2)[:, ::-1 if back else 1], array(2, 4, 3).sum(axis=(0, 2))]
        against_reference(folder, f"scan{back}", m, want, h0=array(2, 3), x=array(2, 4, 3))
    body = helper.make_graph([node("Identity", ["go"], ["on"]), node("Add", ["h", "x"], ["h2"]), node("Identity", ["h2"], ["out"])], "body",
                             [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("h", ["n", 3])],
                             [value("on", [], TensorProto.BOOL), value("h2", ["n", 3]), value("out", ["n", 3])])
    m = model([node("Loop", ["turns", "", "x"], ["z", "y"], body=body)], [value("x", ["n", 3]), value("turns", [], TensorProto.INT64)], [value("y", None)])
    for turns in (1, 4):
        sums = array(2, 3) * np.arange(2, turns + 2)[:, None, None]
        against_reference(folder, "loop", m, [sums], x=array(2, 3), turns=np.array(turns))
    np.save(f"{folder}/turns.npy", np.array(0))
    run = relay("run", f"{folder}/loop.rly", "--params", f"{folder}/loop.npz", "--arg", f"x={folder}/x.npy", "--arg", f"turns={folder}/turns.npy", "--json")
    check("no turn", '"shape": [0, 0, 3]' in run.stdout, run.stdout + run.stderr)


def test_regions(folder):
    """Regions that are sampled in ways that the operators of Relay do not have."""
    node = helper.make_node
    boxes = np.array([[0, 0, 10, 12], [2, 3, 6.5, 5], [-3, -2, 20, 25], [5, 5, 5.5, 5.2]], "float32")
    for way in ["half_pixel", "output_half_pixel"]:
        for mode in ["avg", "max"]:
            for ratio in [0, 2]:
                m = model([node("RoiAlign", ["x", "boxes", "which"], ["y"], output_height=3, output_width=2, sampling_ratio=ratio, spatial_scale=0.5, mode=mode,
                                coordinate_transformation_mode=way)],
                          [value("x", [2, 3, 9, 7]), value("boxes", ["n", 4]), value("which", ["n"], TensorProto.INT64)], [value("y", None)], version=16)
                against_reference(folder, f"{way}_{mode}_{ratio}", m, x=array(2, 3, 9, 7), boxes=boxes, which=np.array([0, 1, 1, 0]))
    m = model([node("DeformConv", ["x", "w", "offset", "bias", "mask"], ["y"], pads=[1, 0, 1, 1], strides=[2, 1], dilations=[1, 2], group=2, offset_group=4)],
              [value("x", [2, 4, 6, 7]), value("offset", [2, 48, 3, 4]), value("mask", [2, 24, 3, 4])], [value("y", None)],
              {"w": array(6, 2, 3, 2)[:, :, :, :], "bias": array(6)}, 19)
    m.graph.input[1].CopyFrom(value("offset", [2, 48, 3, 6]))
    m.graph.input[2].CopyFrom(value("mask", [2, 24, 3, 6]))
    against_reference(folder, "masked", m, x=array(2, 4, 6, 7), offset=array(2, 48, 3, 6), mask=array(2, 24, 3, 6))


def test_far(folder):
    """Numbers whose powers no float holds, and what is no number: what comes out is finite where the operator's result is."""
    node, inf = helper.make_node, np.inf
    x = np.array([[100, 99], [-100, -101], [inf, 1], [-inf, -inf], [-inf, 2], [np.nan, 3]], "float32")
    for keep in [0, 1]:
        m = model([node("ReduceLogSumExp", ["x", "axes"], ["y"], keepdims=keep)], [value("x", ["n", 2])], [value("y", None)], {"axes": np.array([-1])}, 18)
        with np.errstate(all="ignore"):
            want = np.log(np.exp(x.astype("float64")).sum(1, keepdims=bool(keep))).astype("float32")
        against_reference(folder, f"log_sum_exp{keep}", m, [want], x=x)
    m = model([node("ReduceLogSumExp", ["x", "axes"], ["y"])], [value("x", [2, 0])], [value("y", None)], {"axes": np.array([1])}, 18)
    against_reference(folder, "log_sum_exp_of_none", m, [np.full((2, 1), -inf, "float32")], x=np.zeros((2, 0), "float32"))
    for bits in [16, 32]:
        float_, x = f"float{bits}", np.array([89, 100, -100, 12, 11, 0, inf, -inf, np.nan], f"float{bits}")
        for op, f in [("Softplus", lambda v: np.logaddexp(v, 0)), ("Celu", lambda v: np.where(v < 0, np.expm1(np.minimum(v, 0)), v)),
                      ("Mish", lambda v: np.where(v == -inf, np.nan, v * np.tanh(np.logaddexp(v, 0))))]:
            m = model([node(op, ["x"], ["y"])], [value("x", [9], helper.np_dtype_to_tensor_dtype(x.dtype))], [value("y", None)], version=18)
            with np.errstate(all="ignore"):
                want = f(x.astype("float64")).astype(float_)
            name = f"{op}{bits}"
            save(m, f"{folder}/{name}.onnx")
            relay("import", f"{folder}/{name}.onnx", "-o", folder)
            got = run_both(folder, name, x=x)[0]
            check(name, np.allclose(want, got, rtol=2e-3 if bits == 16 else 1e-5, atol=1e-4, equal_nan=True), f"{got}\n{want}")


def test_nothing(folder):
    """Results without elements, also where only the run says that there are none."""
    node, i64, x = helper.make_node, TensorProto.INT64, array(3, 4)
    m = model([node("TopK", ["x", "k"], ["y", "z"], axis=0)], [value("x", ["n", 4])], [value("y", None), value("z", None, i64)], {"k": np.array([0])})
    against_reference(folder, "top0", m, [np.zeros((0, 4), "float32"), np.zeros((0, 4), "int64")], x=x)
    m = model([node("NonMaxSuppression", ["boxes", "scores", "most", "overlap", "least"], ["y"])], [value("boxes", [1, "n", 4]), value("scores", [1, 1, "n"])],
              [value("y", None, i64)], {"most": np.array([5]), "overlap": np.array([0.5], "float32"), "least": np.array([0.9], "float32")})
    for score in [0.1, 0.95]:
        against_reference(folder, "boxes", m, [np.zeros((int(score > 0.9), 3), "int64")], boxes=np.array([[[0, 0, 1, 1]]], "float32"),
                          scores=np.array([[[score]]], "float32"))
    for version in [13, 18]:
        m = model([node("Range", ["from", "to", "by"], ["y"])], [], [value("y", None, i64)], {"from": np.array(5), "to": np.array(2), "by": np.array(1)}, version)
        against_reference(folder, "range", m, [np.zeros(0, "int64")])
    m = model([node("Range", ["from", "to", "by"], ["y"])], [value(k, [], i64) for k in ["from", "to", "by"]], [value("y", None, i64)])
    for bounds in [(0, 0, 1), (3, 1, 2), (1, 3, -1), (5, 0, -2)]:
        against_reference(folder, "ranges", m, [np.arange(*bounds)], **dict(zip(["from", "to", "by"], map(np.array, bounds))))
    slices, nodes, arrays = [(b, e, s) for b in [-4, -1, 0, 2] for e in [-2**62, -3, -1, 0, 3, 2**62] for s in [1, 2, -1, -2]], [], {"a": np.array([0])}
    for i, bounds in enumerate(slices):
        arrays |= {f"{k}{i}": np.array([v]) for k, v in zip("bes", bounds)}
        nodes.append(node("Slice", ["x", f"b{i}", f"e{i}", "a", f"s{i}"], [f"y{i}"]))
    m = model(nodes, [value("x", ["n"])], [value(f"y{i}", None) for i in range(len(slices))], arrays)
    for n in [0, 1, 3, 7]:
        x = np.arange(n, dtype="float32")
        against_reference(folder, f"slices{n}", m, [x[b:e:s] for b, e, s in slices], x=x)
    m = model([node("Slice", ["x", "b", "e", "a", "s"], ["y"])], [value("x", ["n", 2]), *[value(k, [1], i64) for k in "bes"]], [value("y", None)], {"a": arrays["a"]})
    for b, e, s in [(2, -2, 1), (0, 0, 1), (-1, 1, 1), (0, 2, -1), (-1, -9, -2)]:
        x = array(3, 2)
        against_reference(folder, "sliced", m, [x[b:e:s]], x=x, b=np.array([b]), e=np.array([e]), s=np.array([s]))
    for times in [[0, 2], [2, 0], [0, 0]]:
        m = model([node("Tile", ["x", "n"], ["y"])], [value("x", ["rows", 2])], [value("y", None)], {"n": np.array(times)})
        against_reference(folder, "tiled", m, [np.tile(array(3, 2), times)], x=array(3, 2))
        m = model([node("Tile", ["x", "n"], ["y"])], [value("x", ["rows", 2]), value("n", [2], i64)], [value("y", None)])
        against_reference(folder, "tiled", m, [np.tile(array(3, 2), times)], x=array(3, 2), n=np.array(times))


def test_windows(folder):
    """A window of channels of even size lies as ONNX says."""
    x = array(2, 6, 3)
    for size in [1, 2, 3, 4]:
        m = model([helper.make_node("LRN", ["x"], ["y"], size=size, alpha=1.0, beta=1.0, bias=0.5)], [value("x", [2, 6, 3])], [value("y", None)])
        padded = np.pad(x * x, ((0, 0), ((size - 1) // 2, size // 2), (0, 0)))
        want = x / (0.5 + np.lib.stride_tricks.sliding_window_view(padded, size, axis=1).sum(-1) / size)
        against_reference(folder, f"window{size}", m, [want], x=x)


def test_transformed(folder):
    """Signals that are made longer or shorter before they are transformed."""
    node = helper.make_node
    for element, dtype in [(TensorProto.FLOAT, "float32"), (TensorProto.DOUBLE, "float64")]:
        for axis, length, parts, onesided in [(1, 4, 1, 0), (2, 4, 1, 0), (1, 1, 1, 1), (2, 5, 1, 1), (1, 5, 2, 0)]:
            m = model([node("DFT", ["x", "n"], ["y"], axis=axis, onesided=onesided)], [value("x", [1, 2, 2, parts], element)], [value("y", None, element)],
                      {"n": np.array(length)}, 17)
            x = array(1, 2, 2, parts).astype(dtype)
            of = (np.fft.rfft if onesided else np.fft.fft)(x[..., 0] + (1j * x[..., 1] if parts == 2 else 0), length, axis)
            against_reference(folder, f"dft{axis}{length}{dtype}", m, [np.stack([of.real, of.imag], -1).astype(dtype)], x=x)
    m = model([node("RotaryEmbedding", ["x", "c", "s"], ["y"])], [value("x", [1, 2, 3, "size"]), *[value(k, [1, 3, 2]) for k in "cs"]], [value("y", None)], (), 23)
    save(m, f"{folder}/turned.onnx")
    got = relay("import", f"{folder}/turned.onnx", "-o", folder)
    check("what is not known is said in words", got.returncode == 2 and "how many features a head has" in got.stderr, got.stderr)


def test_branch_arrays(folder):
    """Few elements of an array in a graph that is read more than once."""
    node = helper.make_node
    zeros = helper.make_graph([node("Identity", ["few"], ["r"])], "no", [], [value("r", [2])], [numpy_helper.from_array(array(2), "few")])
    same = helper.make_graph([node("Identity", ["v"], ["r2"])], "yes", [], [value("r2", [2])])
    body = helper.make_graph([node("ReduceSum", ["v"], ["sum"], keepdims=0), node("Greater", ["sum", "bound"], ["flag"]),
                              node("If", ["flag"], ["picked"], then_branch=same, else_branch=zeros), node("Concat", ["list", "picked"], ["longer"], axis=0),
                              node("Identity", ["go"], ["on"])],
                             "body", [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("list", [None]), value("v0", [2])],
                             [value("on", [], TensorProto.BOOL), value("longer", [None]), value("v0", [2])],
                             [numpy_helper.from_array(np.array(0, "float32"), "bound")])
    m = model([node("Identity", ["x"], ["v"]), node("Loop", ["three", "start", "first", "x"], ["y", "z"], body=body)], [value("x", [2])], [value("y", None)],
              {"three": np.array(3), "start": np.array(True), "first": np.zeros(1, "float32")})
    against_reference(folder, "branch", m, x=np.array([-1, -2], "float32"))


def test_found(folder):
    """What the fuzzer found: numbers that no double holds, a graph that cannot be said in a loop, extents that no tensor has, large tables,
    inputs without names, results whose type nothing says, numbers by which it is divided or that add up to too much,
    diagonals beyond all."""
    node, big = helper.make_node, 2**62 + 1
    save(model([node("Constant", [], ["c"], value=numpy_helper.from_array(np.array(big))), node("Add", ["x", "c"], ["y"])],
               [value("x", [2], TensorProto.INT64)], [value("y", None, TensorProto.INT64)]), f"{folder}/number.onnx")
    got = relay("import", f"{folder}/number.onnx", "-o", folder)
    check("a number of 63 bits", got.returncode == 0 and f"{big}i64" in open(f"{folder}/number.rly").read(), got.stderr)
    body = helper.make_graph([node("Identity", ["go"], ["more"]), node("NoSuch", ["v"], ["w"])], "body",
                             [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("v", [2])],
                             [value("more", [], TensorProto.BOOL), value("w", [2])])
    cases = {"loop": model([node("Loop", ["n", "", "x"], ["y"], body=body)], [value("x", [2]), value("n", [], TensorProto.INT64)], [value("y", None)]),
             "extent": model([node("Relu", ["x"], ["y"])], [value("x", [2**40, 2**40])], [value("y", None)]),
             "extents": model([node("Relu", ["x"], ["y"])], [value("x", [2, 2**40, 2**40])], [value("y", None)]),
             "nothing": model([node("SequenceEmpty", [], ["s"]), node("ConcatFromSequence", ["s"], ["y"], axis=0)], [], [value("y", None)]),
             "blocks": model([node("SpaceToDepth", ["x"], ["y"], blocksize=0, mode="CRD")], [value("x", [1, 4, 4, 4])], [value("y", None)]),
             "parts": model([node("Split", ["x", "s"], ["y", "z", "w"])], [value("x", [8])], [value(k, None) for k in "yzw"], {"s": np.array([2**62, 2**62, 2**62])}),
             "window": model([node("ConvTranspose", ["x", "k"], ["y"], output_shape=[-2**63, 4])], [value("x", [1, 1, 4, 4])], [value("y", None)],
                             {"k": array(1, 1, 3, 3)}),
             "dilation": model([node("MaxPool", ["x"], ["y"], kernel_shape=[2], dilations=[2**62], ceil_mode=1)], [value("x", [1, 1, 8])], [value("y", None)]),
             "table": model([node("HannWindow", ["n"], ["y"])], [], [value("y", None)], {"n": np.array(2**40)}, 17)}
    for name, m in cases.items():
        save(m, f"{folder}/{name}.onnx")
        got = relay("import", f"{folder}/{name}.onnx", "-o", folder)
        check(name, got.returncode in (2, 3) and "E0406" in got.stderr, f"{got.returncode} {got.stderr}")
    save(model([node("Trilu", ["x", "k"], ["y"])], [value("x", [2, 2])], [value("y", [2, 2])], {"k": np.array(2**63 - 1)}), f"{folder}/diagonal.onnx")
    got = relay("import", f"{folder}/diagonal.onnx", "-o", folder)
    check("a diagonal far away", got.returncode == 0, got.stderr)
    body = helper.make_graph([node("Abs", ["e"], ["a"])], "body", [value("e", [2])], [value("a", [2])])
    unnamed = model([node("SequenceMap", ["xs"], ["ys"], body=body)], [helper.make_tensor_sequence_value_info("xs", 1, [2])],
                    [helper.make_tensor_sequence_value_info("ys", 1, [2])], (), 17)
    for i in [unnamed.graph.node[0].attribute[0].g.input[0], unnamed.graph.input[0]]:
        i.ClearField("name")
        open(f"{folder}/unnamed.onnx", "wb").write(unnamed.SerializeToString())
        got = relay("import", f"{folder}/unnamed.onnx", "-o", folder)
        check("an input without a name", got.returncode == 2 and "E0406" in got.stderr, f"{got.returncode} {got.stderr}")
    for kind, tensor in [("sequence", helper.make_tensor_sequence_value_info("s", 1, [2])), ("tensor", value("s", [2]))]:
        save(model([node("SequenceEmpty", [], ["s"])], [], [tensor], (), 17), f"{folder}/{kind}.onnx")
        got = relay("import", f"{folder}/{kind}.onnx", "-o", folder)
        check(f"an empty list that is said to be a {kind}", got.returncode == (0 if kind == "sequence" else 2) and (not got.stderr or "E0406" in got.stderr), got.stderr)
    check("the loop's node", "NoSuch" in relay("import", f"{folder}/loop.onnx", "-o", folder).stderr)


def test_check(folder):
    """Nothing is written, and types that the model states are compared."""
    node = helper.make_node
    for name, extent in [("right", 3), ("wrong", 4)]:
        save(model([node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", ["n", extent])]), f"{folder}/{name}.onnx")
        got = relay("import", "--check", f"{folder}/{name}.onnx", "-o", folder)
        check(f"the {name} one", (got.returncode == 0) == (name == "right") and (name == "right" or "E0406" in got.stderr), got.stdout + got.stderr)
        check("nothing is written", not os.path.exists(f"{folder}/{name}.rly"))


def test_large(folder):
    """Large arrays are read from the file when they are asked for; what comes through a pipe is held."""
    rng = np.random.default_rng(1)
    arrays = {"a": rng.standard_normal((700, 900)).astype("float32"), "b": rng.integers(-9, 9, 5000), "c": array(3)}
    node = helper.make_node
    m = model([node("Identity", [k], [f"y{k}"]) for k in arrays], [], [value(f"y{k}", None, TensorProto.INT64 if k == "b" else 1) for k in arrays], arrays)
    save(m, f"{folder}/large.onnx")
    for source in [f"{folder}/large.onnx", "/dev/stdin"]:
        with open(f"{folder}/large.onnx", "rb") as f:
            got = subprocess.run(f"cat | {RELAY} import {source} -o {folder}", shell=True, stdin=f, capture_output=True, text=True)
        check(f"import of {source}", got.returncode == 0, got.stderr)
        with np.load(f"{folder}/{'large' if 'large' in source else 'stdin'}.npz") as out:
            check("the arrays are whole", all((out[f"y{k}"] == v).all() for k, v in arrays.items()))
    m.graph.initializer[0].raw_data = m.graph.initializer[0].raw_data[:-4]
    save(m, f"{folder}/short.onnx")
    got = relay("import", f"{folder}/short.onnx", "-o", folder)
    check("an array that is short", got.returncode == 2 and "it has 2519996 bytes of elements, not 2520000" in got.stderr, got.stderr)


def varint(n):
    out = b""
    while n > 127:
        out += bytes([n & 127 | 128])
        n >>= 7
    return out + bytes([n])


def message(field, inside):
    return varint(field << 3 | 2) + varint(len(inside)) + inside


def test_hostile(folder):
    deep = b""
    for _ in range(20000):  # a graph in an attribute in a node in a graph
        deep = message(1, message(5, message(6, deep)))
    node = helper.make_node
    outside = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": array(2)})
    w = outside.graph.initializer[0]
    w.ClearField("raw_data")
    w.data_location = TensorProto.EXTERNAL
    entry = w.external_data.add()
    entry.key, entry.value = "location", "../secret.bin"
    open(f"{folder}/secret.bin", "wb").write(struct.pack("2f", 1, 2))
    os.makedirs(f"{folder}/inner")
    large = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": array(2)})
    large.graph.initializer[0].dims[0] = 2**62
    good = model([node("Add", ["x", "w"], ["y"])], [value("x", [2])], [value("y", [2])], {"w": array(2)}).SerializeToString()
    cases = {"empty": b"", "text": b"hello, this is no model", "deep": message(7, deep), "outside": outside.SerializeToString(),
             "large": large.SerializeToString(), "bomb": message(7, message(1, b"") * 300000),
             "parts": model([node("DFT", ["x"], ["y"])], [value("x", [1, 10, 0])], [value("y", [1, 10, 2])]).SerializeToString()}
    cases |= {f"cut{n}": good[:n] for n in range(1, len(good), 7)}
    for name, data in cases.items():
        path = f"{folder}/inner/{name}.onnx"
        open(path, "wb").write(data)
        got = relay("import", path, "-o", folder, "--memory-limit", "200")
        check(f"{name} ends with a diagnostic", got.returncode in (0, 2, 3) and (got.returncode == 0) == (got.stderr == ""), f"{got.returncode} {got.stderr}")
        if name in ("deep", "outside", "large", "text", "parts"):
            check(f"{name} is refused", got.returncode == 2, got.stderr)


with tempfile.TemporaryDirectory() as root:
    for test in [f for name, f in list(globals().items()) if name.startswith("test_")]:
        place = os.path.join(root, test.__name__)
        os.makedirs(place)
        test(place)
sys.exit(1 if failures else 0)
