"""The node tests of the `onnx` package, through the files themselves.

    RELAY=build/release/relay .venv/bin/python tests/ops/against_onnx_files.py [--engine interp|jit] [--part N] [--verbose] [TEST…]

Each test's model is written to a file, `relay import` makes a program of it, `relay run` runs that on the test's inputs, and the
results are compared. Inputs that Relay takes as attributes (a shape, axes, a number of elements) are made initializers where the
import asks for them. Prints how many pass, and why the rest is refused.
"""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile

import ml_dtypes
import numpy as np
from onnx import ModelProto, numpy_helper, save

from against_onnx import differs, testcases
from onnx_nodes import LeftOut, plain

RELAY = os.environ.get("RELAY", "build/relay")


def write(case, inputs, baked, path):
    model = ModelProto()
    model.CopyFrom(case.model)
    for i in sorted(baked, reverse=True):
        name = model.graph.input[i].name
        model.graph.initializer.append(numpy_helper.from_array(inputs[i], name))
        del model.graph.input[i]
    save(model, path)


def relay(*arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=60)


def refusals(text):
    found = [line[6:] for line in text.splitlines() if line.startswith("note: ")]
    return [re.sub(r" `[^`]*`: ", ": ", f, count=1) for f in found] or [text.strip() or "no message"]


def bfloat16(a):
    """NumPy's files have no such type."""
    return a.view(ml_dtypes.bfloat16) if a.dtype == np.dtype("V2") else a


class Left(Exception):
    pass


def run(case, engine, folder):
    """The program's results, or Left with the reasons for which there is no program."""
    inputs, _ = case.data_sets[0]
    try:
        inputs = [plain(v) for v in inputs]
    except LeftOut as x:
        raise Left(str(x))
    path = os.path.join(folder, "model.onnx")
    # What stands behind the first input is data of the operator as often as not: made constant only when it is asked for.
    for baked in [[], list(range(1, len(inputs))), list(range(len(inputs)))]:
        write(case, inputs, baked, path)
        got = relay("import", path, "-o", folder)
        if got.returncode == 0 or "known" not in got.stderr:
            break
    if got.returncode not in (0, 1, 2, 3):
        return f"import ended with {got.returncode}", None
    if got.returncode:
        raise Left(refusals(got.stderr)[0])
    command = ["run", os.path.join(folder, "model.rly"), "--params", os.path.join(folder, "model.npz"), "--exec", engine, "-o",
               os.path.join(folder, "out.npz")]
    names = re.findall(r"%(\w+): ", open(os.path.join(folder, "model.rly")).read().split("->")[0])
    for k, i in enumerate(i for i in range(len(inputs)) if i not in baked):
        file = os.path.join(folder, f"in{k}.npy")
        np.save(file, inputs[i])
        command += ["--arg", f"{names[k]}={file}"]
    ran = relay(*command)
    if ran.returncode:
        return "run: " + ran.stderr.strip().splitlines()[0], None
    with np.load(os.path.join(folder, "out.npz")) as out:
        return None, [bfloat16(out[k]) for k in out.files]


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
                message, got = run(case, options.engine, folder)
            except Left as x:
                left[str(x)] += 1
                if options.verbose:
                    print(f"left out: {case.name}: {x}")
                continue
            want = case.data_sets[0][1]
            problems = [message] if message else [] if len(got) == len(want) else [f"{len(got)} results"]
            for w, v in zip(want, got or []):
                problems += differs(case, plain(w), v)
            if problems:
                wrong[case.name] = problems[0]
            else:
                passed += 1
    for name, message in sorted(wrong.items()):
        print(f"FAILED {name}: {message}")
    print(f"{passed} of {len(cases)} node tests pass through the file, {len(wrong)} fail; {sum(left.values())} are refused:")
    for why, n in left.most_common(None if options.verbose else 60):
        print(f"{n:>6}  {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
