"""Cases: an expression over tensors and what it must give. All cases of a group are the fields of one program's result."""
import json
import os
import subprocess
import tempfile

import numpy as np

RELAY = os.environ.get("RELAY", "build/relay")
ENGINE = os.environ.get("ENGINE", "interp")
RNG = np.random.default_rng(7)


TOLERANCE = {"float16": 4e-3, "float32": 2e-6, "float64": 1e-12}


class Case:
    def __init__(self, text, arrays, want, rtol=None, atol=None):
        self.text, self.arrays, self.want, self.rtol, self.atol = text, arrays, want, rtol, atol


def type_of(a):
    name = str(a.dtype)
    return f"Tensor[({', '.join(map(str, a.shape))}), {name}]" if a.ndim else name


def decode(v):
    if "tuple" in v:
        return [decode(f) for f in v["tuple"]]
    data = [float(x) if isinstance(x, str) else x for x in v["data"]]
    return np.array(data, dtype=v["dtype"]).reshape(v["shape"])


def run_cases(cases):
    params, fields, files = [], [], {}
    for i, c in enumerate(cases):
        names = []
        for k, a in enumerate(c.arrays):
            name = f"x{i}_{k}"
            params.append(f"%{name}: {type_of(a)}")
            files[name] = a
            names.append("%" + name)
        fields.append(c.text.format(*names))
    text = '#[version = "0.0.5"]\ndef @main(' + ", ".join(params) + ") {\n  (" + ",\n   ".join(fields) + ",)\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        program, inputs = os.path.join(folder, "p.rly"), os.path.join(folder, "p.npz")
        with open(program, "w") as f:
            f.write(text)
        command = [RELAY, "run", "--exec", ENGINE, "--json", program]
        if files:
            np.savez(inputs, **files)
            command += ["--params", inputs]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        if done.returncode:
            if len(cases) > 1:
                half = len(cases) // 2
                return run_cases(cases[:half]) + run_cases(cases[half:])
            return [f"{cases[0].text} on {[type_of(a) for a in cases[0].arrays]}: {done.stderr[:800]}"]
        return [e for c, got in zip(cases, decode(json.loads(done.stdout))) for e in compare(c, got)]


def compare(c, got):
    wants = c.want if isinstance(c.want, (tuple, list)) else [c.want]
    gots = got if isinstance(got, list) else [got]
    for want, v in zip(wants, gots):
        want = np.asarray(want)
        where = f"{c.text} on {[type_of(a) for a in c.arrays]}"
        if want.shape != v.shape or want.dtype != v.dtype:
            return [f"{where}: {v.dtype}{v.shape}, wanted {want.dtype}{want.shape}"]
        rtol = c.rtol if c.rtol is not None else TOLERANCE.get(str(v.dtype), 0)
        atol = c.atol if c.atol is not None else rtol
        if not np.allclose(v.astype(float), want.astype(float), rtol=rtol, atol=atol, equal_nan=True):
            worst = np.argmax(np.abs(v.astype(float) - want.astype(float)))
            return [f"{where}: {v.flat[worst]!r}, wanted {want.flat[worst]!r} at {worst}"]
    return []


def run_all(cases):
    """The exit status: 0 when every case gives what it must."""
    failures = []
    for i in range(0, len(cases), 60):
        failures += run_cases(cases[i:i + 60])
    print("\n".join(failures + [f"{len(cases)} cases, {len(failures)} failures"]))
    return 1 if failures else 0
