"""The node tests of the `onnx` package, through the files themselves.

    RELAY=build/release/relay .venv/bin/python tests/ops/against_onnx_files.py [--engine interp|jit|back] [--part N] [--verbose] [TEST…]

Each test's model is written to a file, `relay import` makes a program of it, `relay run` runs that on the test's inputs, and the
results are compared. With `--engine back` the program becomes an
ONNX model again, which ONNX Runtime or the package's own evaluator runs. Inputs that Relay takes as attributes (a shape, axes, a number of elements) are made initializers where the
import asks for them. Prints how many pass, and each of the others with its reason.
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import warnings

import ml_dtypes
import numpy as np
import onnx
from onnx import ModelProto, TensorProto, numpy_helper, save

RELAY = os.environ.get("RELAY", "build/relay")
TOLERANCE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2), "float32": (1e-3, 1e-6), "float64": (1e-6, 1e-9)}
# What no other program can give: each has random numbers of its own.
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
DTYPES = {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64"}


def testcases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        with np.errstate(all="ignore"):
            return collect_testcases(None)


class Left(Exception):
    """Why there is no program."""


def plain(v):
    """Arrays, lists and None; integers of less than 8 bits in 8, as Relay has them."""
    if isinstance(v, TensorProto):
        v = numpy_helper.to_array(v)
    if v is None or isinstance(v, (list, tuple)):
        return None if v is None else [plain(e) for e in v]
    v = np.asarray(v)
    small = re.fullmatch(r"(u?int)[24]", str(v.dtype))
    return v.astype(small[1] + "8") if small else v


def differs(case, want, v):
    if isinstance(want, list) or want is None or isinstance(v, list) or v is None:
        if type(want) is not type(v) or (want is not None and len(want) != len(v)):
            return [f"{v}, wanted {want}"]
        return sum((differs(case, w, e) for w, e in zip(want or [], v or [])), [])
    if want.shape != v.shape or want.dtype != v.dtype:
        return [f"{v.dtype}{list(v.shape)}, wanted {want.dtype}{list(want.shape)}"]
    rtol, atol = TOLERANCE.get(str(want.dtype), (0, 0))
    if case.name.startswith(("test_dft", "test_stft")):
        # Terms cancel: what rounding leaves is small beside the largest sum, not beside each.
        atol = 4 * np.finfo(np.float32).eps * np.abs(want).max()
    if str(want.dtype) not in TOLERANCE:
        good = v == want
    else:
        a, b = v.astype("float64"), want.astype("float64")
        with np.errstate(all="ignore"):
            good = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= max(atol, case.atol) + max(rtol, case.rtol) * np.abs(b))
    if good.all():
        return []
    worst = np.flatnonzero(~good.reshape(-1))[0]
    return [f"{(~good).sum()} of {good.size}: {v.reshape(-1)[worst]!r}, wanted {want.reshape(-1)[worst]!r} at {worst}"]


# ---- values as `relay run` takes and gives them --------------------------------------------------------------

def encode(v, proto):
    kind = proto.WhichOneof("value")
    if kind == "optional_type":
        inner = proto.optional_type.elem_type
        return {"constructor": "None", "fields": []} if v is None else {"constructor": "Some", "fields": [encode(v, inner)]}
    if kind == "sequence_type":
        out = {"constructor": "Nil", "fields": []}
        for e in reversed(v):
            out = {"constructor": "Cons", "fields": [encode(e, proto.sequence_type.elem_type), out]}
        return out
    flat = v.reshape(-1)
    data = flat.tolist() if flat.dtype.kind in "biu" else [float(x) if np.isfinite(x) else str(float(x)) for x in flat.astype("float64")]
    return {"dtype": str(v.dtype), "shape": list(v.shape), "data": data}


def decode(v):
    if "tuple" in v:
        return [decode(e) for e in v["tuple"]]
    if v.get("constructor") in ("None", "Some"):
        return decode(v["fields"][0]) if v["fields"] else None
    if v.get("constructor") in ("Cons", "Nil"):
        out = []
        while v["fields"]:
            out.append(decode(v["fields"][0]))
            v = v["fields"][1]
        return out
    t = ml_dtypes.bfloat16 if v["dtype"] == "bfloat16" else v["dtype"]
    return np.array([float(x) if isinstance(x, str) else x for x in v["data"]], dtype="float64" if str(t)[0] in "fb" and t != "bool" else t
                    ).astype(t).reshape(v["shape"])


def is_array(v):
    return isinstance(v, np.ndarray)


def innermost(proto):
    kind = proto.WhichOneof("value")
    return innermost(getattr(proto, kind).elem_type) if kind in ("sequence_type", "optional_type") else proto


def write(case, inputs, baked, path):
    model = ModelProto()
    model.CopyFrom(case.model)
    for i in sorted(baked, reverse=True):
        if is_array(inputs[i]) and str(inputs[i].dtype) in DTYPES and str(inputs[i].dtype) != "bfloat16":
            name = model.graph.input[i].name
            array = numpy_helper.from_array(inputs[i], name)
            model.graph.initializer.append(array)
            del model.graph.input[i]
    for i in model.graph.input:  # a sequence whose elements may have any rank: they have that of the test's
        t = innermost(i.type)
        if t.HasField("tensor_type") and not t.tensor_type.HasField("shape"):
            v = inputs[[k.name for k in case.model.graph.input].index(i.name)]
            while isinstance(v, list):
                v = v[0] if v else np.zeros(())
            t.tensor_type.shape.CopyFrom(t.tensor_type.shape)
            for _ in range(0 if v is None else v.ndim):
                t.tensor_type.shape.dim.add()
    save(model, path)
    return [i.name for i in model.graph.input]


def relay(*arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=60)


def refusals(text):
    found = [line[6:] for line in text.splitlines() if line.startswith("note: ")]
    return [re.sub(r" `[^`]*`: ", ": ", f, count=1) for f in found] or [text.strip() or "no message"]


def parameters(path):
    """Names of @main's parameters in order."""
    head = open(path).read().split("def @main(", 1)[1].split("->")[0]
    return re.findall(r"%(\w+): ", head)


def back(program, folder, values):
    """The results of the program as an ONNX model again, as another evaluator has them."""
    path = os.path.join(folder, "back.onnx")
    got = relay("export", "--to", "onnx", program, "--params", program[:-3] + "npz", "-o", path)
    if got.returncode not in (0, 1, 2, 3):
        return f"export ended with {got.returncode}", None
    if got.returncode:
        raise Left("export: " + [line[6:] for line in got.stderr.splitlines() if line.startswith("note: ")][0])
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    named = dict(zip([i.name for i in model.graph.input], values))
    try:
        import onnxruntime
        onnxruntime.set_default_logger_severity(4)
        return None, onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, named)
    except Exception:  # it is not there, or has no code for an element type
        from onnx.reference import ReferenceEvaluator
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            evaluator = ReferenceEvaluator(model)
            try:
                return None, evaluator.run(None, named)
            except Exception as x:  # such as negative widths of `Pad`, which the checker and ONNX Runtime take
                raise Left(f"export: ONNX's own evaluator cannot run it: {x}") from x


def run(case, engine, folder):
    """(a message or None, the program's results); Left when there is no program."""
    if any(n.op_type in RANDOM for n in case.model.graph.node):
        raise Left("random numbers, which come out otherwise everywhere")
    inputs = [plain(v) for v in case.data_sets[0][0]]
    path = os.path.join(folder, "model.onnx")
    # What stands behind the first input is data of the operator as often as not: made constant only when it is asked for.
    for baked in [[], list(range(1, len(inputs))), list(range(len(inputs)))]:
        kept = write(case, inputs, baked, path)
        got = relay("import", path, "-o", folder)
        if got.returncode == 0 or "known" not in got.stderr:
            break
    if got.returncode not in (0, 1, 2, 3):
        return f"import ended with {got.returncode}", None
    if got.returncode:
        raise Left(refusals(got.stderr)[0])
    program = os.path.join(folder, "model.rly")
    given = {i.name: (v, i.type) for i, v in zip(case.model.graph.input, inputs)}
    values = [given[name] for name in kept]
    if engine == "back":
        return back(program, folder, [v for v, _ in values])
    command = ["run", program, "--params", os.path.join(folder, "model.npz"), "--exec", engine]
    arguments = {p: encode(v, t) for p, (v, t) in zip(parameters(program), values)}
    with open(os.path.join(folder, "arguments.json"), "w") as f:
        json.dump(arguments, f)
    ran = relay(*command, "--args", os.path.join(folder, "arguments.json"), "--json")
    if ran.returncode:
        return "run: " + ran.stderr.strip().splitlines()[0], None
    out = json.loads(ran.stdout)
    out = decode(out)
    return None, out if len(case.data_sets[0][1]) != 1 else [out]


def main(arguments=None):
    p = argparse.ArgumentParser()
    p.add_argument("--engine", default="interp")
    p.add_argument("--part", type=int, default=1)
    p.add_argument("--verbose", action="store_true")
    p.add_argument("names", nargs="*")
    options = p.parse_args(arguments)
    cases = [c for c in testcases() if not options.names or any(n in c.name for n in options.names)][::options.part]
    left, wrong, passed = collections.Counter(), {}, 0
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            try:
                try:
                    message, got = run(case, options.engine, folder)
                except Left:
                    raise
                except Exception as x:  # of what checks and runs exported models
                    if options.engine != "back":
                        raise
                    message, got = f"{type(x).__name__}: {str(x)[:150]!r}", None
            except Left as x:
                left[str(x)] += 1
                if options.verbose:
                    print(f"left out: {case.name}: {x}")
                continue
            want = [plain(v) for v in case.data_sets[0][1]]
            problems = [message] if message else [] if len(got) == len(want) else [f"{len(got)} results"]
            for w, v in zip(want, got or []):
                problems += differs(case, w, v)
            if problems:
                wrong[case.name] = problems[0]
            else:
                passed += 1
    for name, message in sorted(wrong.items()):
        print(f"FAILED {name}: {message}")
    print(f"{passed} of {len(cases)} node tests pass through the file, {len(wrong)} fail; {sum(left.values())} are refused:")
    for why, n in left.most_common():
        print(f"{n:>6}  {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
