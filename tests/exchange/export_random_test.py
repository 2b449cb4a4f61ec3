"""Random programs as ONNX models and back: the values stay what they are.

    RELAY=build/release/relay python tests/exchange/export_random_test.py [COUNT [FROM [SIZE]]]

Programs come from tests/random. Each that ONNX can say goes through `relay export`, the package's checker and `relay import`, and both programs
run on the same numbers; where ONNX Runtime is there, it runs the model too. Prints how many were compared, and what the others are.
"""
import collections
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx

try:
    import onnxruntime
    onnxruntime.set_default_logger_severity(4)
except ImportError:
    onnxruntime = None

RELAY = os.environ["RELAY"]
RANDOM = os.path.join(os.path.dirname(RELAY), "random")
count, first, size = [int(v) for v in sys.argv[1:4]] + [120, 1, 6][len(sys.argv[1:4]):]
# What gives other numbers elsewhere: a sum in another order, halves that are rounded otherwise, infinities that meet.
RTOL, ATOL = 2e-3, 1e-4


def relay(*arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=120)


def loaded(path):
    with np.load(path) as f:  # bfloat16 comes as two bytes
        return [(f[k].view("uint16").astype("uint32") << 16).view("float32") if f[k].dtype.kind == "V" else f[k] for k in f.files]


def differs(a, b):
    if len(a) != len(b):
        return f"{len(b)} results for {len(a)}"
    for v, w in zip(a, b):
        if v.shape != w.shape or v.dtype != w.dtype:
            return f"{w.dtype}{list(w.shape)} for {v.dtype}{list(v.shape)}"
        with np.errstate(all="ignore"):
            if v.dtype.kind == "f" and not np.allclose(v.astype("float64"), w.astype("float64"), RTOL, ATOL, equal_nan=True):
                return f"{w.reshape(-1)[:8]} for {v.reshape(-1)[:8]}"
            if v.dtype.kind != "f" and (v != w).any():
                return f"{w.reshape(-1)[:8]} for {v.reshape(-1)[:8]}"
    return None


def by_runtime(folder, path, want):
    """The same by ONNX Runtime, where the model has no inputs; None: nothing to say."""
    model = onnx.load(path)
    if not onnxruntime or model.graph.input:
        return None
    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    except Exception:  # it has no code for an element type
        return None
    try:
        got = [np.asarray(v) for v in session.run(None, {})]
    except Exception as x:
        return None if "out of data bounds" in str(x) else str(x)[:300]  # indices that Relay wraps
    return differs(want, [v.astype("float32") if str(v.dtype) == "bfloat16" else v for v in got])


def test(text, folder):
    """What is wrong, or None; the second: why nothing was compared, or None."""
    program, path, back = f"{folder}/p.rly", f"{folder}/p.onnx", f"{folder}/back"
    open(program, "w").write(text)
    exported = relay("export", "--to", "onnx", program, "-o", path)
    if exported.returncode not in (0, 1, 2, 3):
        return f"export ended with {exported.returncode}", None
    if exported.returncode:
        notes = re.findall(r"^note: (.*)", exported.stderr, re.M)
        return None, notes[0] if notes else exported.stderr.splitlines()[0]
    try:
        onnx.checker.check_model(path, full_check=True)
    except Exception as x:
        return f"the checker: {str(x)[:300]}", None
    ran = relay("run", program, "--random", "1", "-o", f"{folder}/a.npz", "--exec", "interp")
    if ran.returncode:
        return None, "it has no value here: " + ran.stderr.splitlines()[0]
    imported = relay("import", path, "-o", back)
    if imported.returncode:
        notes = re.findall(r"^note: (.*)", imported.stderr, re.M)
        return f"import: {(notes or [imported.stderr])[0]}", None
    again = relay("run", back, "--random", "1", "-o", f"{folder}/b.npz", "--exec", "interp")
    if again.returncode:
        return f"run: {again.stderr[:300]}", None
    want = loaded(f"{folder}/a.npz")
    message = differs(want, loaded(f"{folder}/b.npz"))
    if not message:
        message = by_runtime(folder, path, want)
        return message and f"ONNX Runtime: {message}", None
    return message, None


compared, left, wrong = 0, collections.Counter(), 0
for seed in range(first, first + count):
    shown = subprocess.run([RANDOM, "--show", "--count", "1", "--size", str(size), "--from", str(seed)], capture_output=True, text=True, timeout=120).stdout
    text = re.sub(r"^\d+ programs?, .*\n?", "", shown, flags=re.M)
    if "def @main" not in text:
        left["no function @main"] += 1
        continue
    with tempfile.TemporaryDirectory() as folder:
        message, why = test(text, folder)
    if message:
        wrong += 1
        print(f"FAILED {seed}: {message}")
    elif why:
        left[why] += 1
    else:
        compared += 1
print(f"{compared} of {count} compared, {wrong} fail, {sum(left.values())} that ONNX cannot say or that have no value:")
for why, n in left.most_common():
    print(f"{n:>6}  {why}")
sys.exit(1 if wrong else 0)
