"""What the differential tests of operators share: entries, cases, running them, comparing.

An entry says what an operator does, by another program's means:

    @entry("floor ceil", FLOATS)
    def rounding(g, name):
        for shape in SHAPES:
            x = g.array(shape)
            yield Case(f"{name}({{}})", [x], lambda: getattr(np, name)(x))

The function yields cases for the element type `g.dtype`: Relay text with a hole for each array, the
arrays, and a function that computes what must come out, called before the next case is made. At
least LEAST cases an operator and element type, for each type that the type checker admits.
"""
import json
import os
import re
import subprocess
import tempfile
import zlib

import ml_dtypes
import numpy as np

RELAY = os.environ.get("RELAY", "build/relay")
LEAST = 12

FLOATS = ["float16", "bfloat16", "float32", "float64"]
SIGNED = ["int8", "int16", "int32", "int64"]
UNSIGNED = ["uint8", "uint16", "uint32", "uint64"]
INTS = SIGNED + UNSIGNED
NUMBERS = FLOATS + INTS
ALL = NUMBERS + ["bool"]

SHAPES = [(), (1,), (7,), (3, 5), (2, 3, 4), (0, 3), (1, 17, 1), (2, 0), (33,), (4, 1, 3, 2),
          (2, 1, 1, 1, 3), (130,)]
EPS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
LEAST_NUMBER = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149, "float64": 5e-324}


def np_dtype(name):
    return np.dtype(ml_dtypes.bfloat16 if name == "bfloat16" else name)


def is_float(dtype):
    return str(dtype) in EPS


# ---- numbers ---------------------------------------------------------------------------------------

def to(dtype, x):
    """x, of any type, as the dtype: floats to nearest even in one step, floats to integers towards
    zero, integers modulo their width."""
    x, target = np.asarray(x), np_dtype(str(dtype))
    if x.dtype == target:
        return x
    with np.errstate(all="ignore"):
        if target == np.dtype(bool):
            return x != 0
        if is_float(target):
            if is_float(x.dtype):
                x = x.astype("float64") if x.dtype != np.longdouble else x
            elif x.dtype.itemsize == 8:
                x = x.astype(np.longdouble)  # holds 64 bits
            return odd(x, np.float32).astype(target) if str(target) == "bfloat16" else x.astype(target)
        if is_float(x.dtype) or x.dtype == np.longdouble:
            whole = np.trunc(x.astype("float64"))
            if target == np.dtype("uint64"):
                big = (whole >= 2.0**63) & (whole < 2.0**64)
                high = np.where(big, whole - 2.0**63, 0).astype("int64").astype("uint64") + np.uint64(1 << 63)
                return np.where(big, high, int64_of(whole).astype("uint64"))
            return int64_of(whole).astype(target)
        return x.astype(target)


def int64_of(whole):
    """What int64 cannot hold becomes its least value."""
    holds = (whole >= -2.0**63) & (whole < 2.0**63)
    return np.where(holds, np.where(holds, whole, 0).astype("int64"), np.int64(-2**63))


def odd(x, narrow):
    """Rounded to odd, so that rounding once more is as good as rounding once."""
    y = x.astype(narrow)
    bits = y.view(np.uint32 if narrow is np.float32 else np.uint16)
    down = np.where((np.abs(y).astype(x.dtype) > np.abs(x)) & np.isfinite(x), bits - 1, bits)
    lost = (down.astype(bits.dtype).view(narrow).astype(x.dtype) != x) & ~np.isnan(x)
    return np.where(lost, down | 1, down).astype(bits.dtype).view(narrow).reshape(x.shape)


def wide(x):
    """For computing what is rounded afterwards."""
    return x.astype("float64") if is_float(x.dtype) else x


# ---- cases ------------------------------------------------------------------------------------------

class Case:
    """`ulp`: how many units in the last place of max(|want|, scale) the result may be away; None
    leaves it to the entry. Integers may be `slack` away. `want` gives an array or a tuple of them; None as a field is not compared."""

    def __init__(self, text, arrays, want, ulp=None, scale=0, slack=0):
        self.text, self.arrays, self.want, self.ulp, self.scale, self.slack = text, arrays, want, ulp, scale, slack
        self.definition = ""  # what the text calls


class Gen:
    def __init__(self, dtype, seed):
        self.dtype, self.rng = dtype, np.random.default_rng(seed)
        self.float = is_float(dtype)

    def array(self, shape, low=-4.0, high=4.0, dtype=None):
        """Floats in [low, high); integers small in every second element, else of the full range."""
        dtype = dtype or self.dtype
        if dtype == "bool":
            return self.rng.integers(0, 2, shape).astype(bool) if shape else np.asarray(self.rng.random() < 0.5)
        if is_float(dtype):
            return to(dtype, self.rng.uniform(low, high, shape))
        info = np.iinfo(dtype)
        full = np.asarray(self.rng.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))
        return np.where(self.rng.random(shape) < 0.5, full, self.small(shape, dtype=dtype)).astype(dtype)

    def small(self, shape, low=-9, high=10, dtype=None):
        """Integers in [low, high) as the dtype; floats likewise, with halves."""
        dtype = dtype or self.dtype
        if dtype == "bool":
            return self.array(shape, dtype="bool")
        if is_float(dtype):
            return to(dtype, self.rng.integers(2 * low, 2 * high, shape) / 2)
        low = max(low, np.iinfo(dtype).min)
        return np.asarray(self.rng.integers(low, max(high, low + 1), shape)).astype(dtype)

    def ints(self, shape, low, high, dtype="int32"):
        return np.asarray(self.rng.integers(low, high, shape)).astype(dtype)

    def special(self, dtype=None):
        dtype = dtype or self.dtype
        if dtype == "bool":
            return np.array([False, True])
        if not is_float(dtype):
            i = np.iinfo(dtype)
            return np.array([i.min, i.min + 1, i.max, i.max - 1, i.max // 2, i.max // 2 + 1, 0, 1, 2, 100]
                            + ([-1, -2, -100] if i.min else []), dtype)
        f = ml_dtypes.finfo(np_dtype(dtype))
        return to(dtype, np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5,
                                   f.max, f.min, f.tiny, -f.tiny, f.smallest_subnormal, 88.9, -88.9, -104.0,
                                   1e-3, 3.0, 1e4, 300.7, -2.7, 1 + float(f.eps)]))


ENTRIES = {}  # name: Entry


class Entry:
    def __init__(self, name, dtypes, make, ulp, free):
        self.name, self.dtypes, self.make, self.ulp, self.free = name, dtypes, make, ulp, free

    def cases(self, dtype, seed=7):
        g = Gen(dtype, zlib.crc32(f"{self.name} {dtype} {seed}".encode()))
        return self.make(g, self.name)


def entry(names, dtypes, ulp=0, free=True):
    """ulp: a number, or one for each float type: (float16 and bfloat16, float32, float64). The element type of operators that are not
    `free` is none of the program's choices."""
    def register(make):
        for name in names.split():
            assert name not in ENTRIES, name
            ENTRIES[name] = Entry(name, dtypes, make, ulp, free)
        return make
    return register


def ulps(ulp, dtype):
    if isinstance(ulp, tuple):
        return ulp[{"float16": 0, "bfloat16": 0, "float32": 1}.get(dtype, 2)]
    return ulp


# ---- running ----------------------------------------------------------------------------------------

def type_of(a):
    return f"Tensor[({', '.join(map(str, a.shape))}), {a.dtype}]" if a.ndim else str(a.dtype)


def function_text(name, prefix, cases):
    params, fields = [], []
    for i, c in enumerate(cases):
        names = [f"{prefix}{i}_{k}" for k in range(len(c.arrays))]
        params += [f"%{n}: {type_of(a)}" for n, a in zip(names, c.arrays)]
        fields.append(c.text.format(*["%" + n for n in names]))
    return f"def @{name}(" + ", ".join(params) + ") {\n  (" + ",\n   ".join(fields) + ",)\n}\n"


def relay(*args):
    return subprocess.run([RELAY, *args], capture_output=True, text=True, timeout=500)


class Got:
    """The arrays of a result, by their place in the tuples."""

    def __init__(self, path):
        with np.load(path) as z:
            self.arrays = {k: z[k] for k in z.files}

    def at(self, *place):
        a = self.arrays.get(".".join(["result", *map(str, place)]))
        return a if a is None or a.dtype.kind != "V" else a.view(ml_dtypes.bfloat16)


def run_cases(cases, engine="interp", differs=None):
    """Failures as (case, message); differs(case, want, got) gives the messages of an array."""
    if not cases:
        return []
    with tempfile.TemporaryDirectory() as folder:
        program, inputs, out = (os.path.join(folder, f) for f in ("p.rly", "in.npz", "out.npz"))
        with open(program, "w") as f:
            f.write('#[version = "0.0.5"]\n' + "".join(c.definition for c in cases) + function_text("main", "x", cases))
        files = {f"x{i}_{k}": a for i, c in enumerate(cases) for k, a in enumerate(c.arrays)}
        if files:
            np.savez(inputs, **files)
        done = relay("run", "--exec", engine, "--out", out, program, *(["--params", inputs] if files else []))
        if done.returncode:
            if len(cases) == 1:
                return [(cases[0], f"exit {done.returncode}: " + done.stderr.strip().split("\n")[0])]
            half = len(cases) // 2
            return run_cases(cases[:half], engine, differs) + run_cases(cases[half:], engine, differs)
        got = Got(out)
    return [(c, e) for i, c in enumerate(cases) for e in compare(c, got, i, differs or differs_by_ulp)]


def compare(c, got, i, differs):
    if not isinstance(c.want, tuple):
        return differs(c, c.want, got.at(i))
    return [f"field {k}: {e}" for k, w in enumerate(c.want) if w is not None for e in differs(c, w, got.at(i, k))][:1]


def differs_by_ulp(c, want, v):
    want = np.asarray(want)
    if v is None:
        return ["no result here"]
    if want.shape != v.shape or want.dtype != v.dtype:
        return [f"{v.dtype}{list(v.shape)}, wanted {want.dtype}{list(want.shape)}"]
    if want.size == 0:
        return []
    if is_float(want.dtype):
        name = str(want.dtype)
        with np.errstate(all="ignore"):
            a, b = v.astype("float64"), want.astype("float64")
            ulp = ulps(c.ulp, name)
            room = ulp * (EPS[name] * np.maximum(np.abs(b), np.broadcast_to(c.scale, b.shape)) + LEAST_NUMBER[name])
            bad = ~((a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= room))
    else:
        bad = np.abs(v.astype(object) - want.astype(object)) > c.slack if c.slack else v != want
    if not bad.any():
        return []
    worst = np.flatnonzero(bad.reshape(-1))[0]
    return [f"{bad.sum()} of {bad.size}: {v.reshape(-1)[worst]!r}, wanted {want.reshape(-1)[worst]!r} at {worst}"]


def describe(c):
    return f"{c.text} on {', '.join(type_of(a) for a in c.arrays)}"


# ---- the operators that there are -----------------------------------------------------------------

def operators():
    """From the page that is made from the rows."""
    root = os.environ.get("RELAY_SOURCE", ".")
    with open(os.path.join(root, "docs", "operators.md")) as f:
        return re.findall(r"^### (\S+)$", f.read(), re.M)


def admitted(e):
    """The element types with which the entry's first case passes the type checker: a module with a function for each,
    whose errors tell by their lines."""
    if not e.free:
        return e.dtypes
    text, asked = ['#[version = "0.0.5"]'], {}
    for dtype in ALL:
        try:
            with np.errstate(all="ignore"):
                case = next(iter(e.cases(dtype)))
        except (TypeError, ValueError, OverflowError):
            if dtype in e.dtypes:
                raise
            continue  # NumPy has no such operation
        body = function_text(f"f_{dtype}", "x", [case]).split("\n")[:-1]
        asked[dtype] = range(len(text) + 1, len(text) + 1 + len(body))
        text += body
    done = subprocess.run([RELAY, "check", "--json", "-"], input="\n".join(text) + "\n", capture_output=True,
                          text=True, timeout=100)
    wrong = {json.loads(line)["line"] for line in done.stderr.split("\n") if line.startswith("{")}
    return [dtype for dtype, lines in asked.items() if not wrong & set(lines)]
