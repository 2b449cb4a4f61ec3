"""Every operator's derivative: of each sample in its row, the first and the second, against finite differences in float64 away from kinks.

A row is differentiable, or its derivative is zero (no argument or no result is real), or it is refused with a reason. Which it is stands
nowhere: each row is tried, and what is neither is a failure."""
import collections
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

RELAY = os.environ.get("RELAY", "build/relay")
JIT_EVERY = 10  # of the rows that are differentiable, so many are tried by compiled code

# Where functions are real, or smooth.
POSITIVE = "log log2 log10 sqrt rsqrt power nn.batch_norm nn.cross_entropy nn.lrn nn.l2_normalize nn.layer_norm nn.group_norm nn.instance_norm vision.get_valid_counts".split()
RANGES = {"acosh": (1.3, 2.5), "dyn.nn.upsampling": (2.1, 2.4), "dyn.nn.upsampling3d": (2.1, 2.4)}
# Arguments that are not real numbers, by operator and position; else zeros and ones.
INTS = {("dyn.squeeze", 1): 1, ("dyn.sparse_to_dense", 3): 3, ("dyn.reshape", 1): 1, ("dyn.strided_slice", 1): 0, ("dyn.strided_slice", 2): 5,
        ("dyn.strided_slice", 3): 1, ("scatter_nd", 1): [0, 1], ("strided_set", 2): [1, 0], ("strided_set", 3): 3, ("strided_set", 4): 1, ("sparse_fill_empty_rows", 2): [3, 1]}
# Where the rows of a sparse matrix with two elements begin, by operator and position; some are empty.
BEGINS = {("nn.sparse_dense", 3), ("nn.internal.sparse_dense_padded", 3), ("nn.sparse_add", 3), ("nn.sparse_transpose", 2), ("nn.sparse_conv2d", 3)}
# Rows of an image and four corners, the first ones around all of it, by operator and position.
REGIONS = {("vision.roi_align", 1), ("vision.roi_pool", 1)}
# They compute with float32 inside, so that differences must be greater.
ROUGH = "qnn.dequantize relay.op.annotation.simulated_quantize image.resize1d image.resize2d image.resize3d dyn.image.resize2d random.uniform random.normal".split()


def parts(text):
    """Split at commas outside of brackets and quotes."""
    out, depth, quoted, at = [], 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        depth += 0 if quoted else (c in "([{") - (c in ")]}")
        if c == "," and depth == 0 and not quoted:
            out.append(text[at:i].strip())
            at = i + 1
    return [p for p in out + [text[at:].strip()] if p]


def samples_of(text):
    depth, quoted, at = 0, False, 0
    for i, c in enumerate(text):
        quoted ^= c == '"'
        if quoted or c not in "()":
            continue
        at = i + 1 if depth == 0 else at
        depth += 1 if c == "(" else -1
        if depth == 0:
            yield text[at:i]


class Array:
    """An argument's tensor: `float32[2,3]`."""

    def __init__(self, text, wide):
        word, _, extents = text.partition("[")
        self.real = word.startswith("float") or word.startswith("bfloat")
        self.dtype = "float64" if self.real and wide else word
        self.shape = tuple(int(d) for d in extents.rstrip("]").split(",") if d)

    def type(self):
        return f"Tensor[({', '.join(map(str, self.shape))}), {self.dtype}]" if self.shape else self.dtype


def run(arguments):
    return subprocess.run([RELAY, *arguments], capture_output=True, text=True, timeout=300)


class Sample:
    """One call, whose tensors are parameters %p0, %p1 and so on."""

    def __init__(self, name, text, wide=True):
        self.name, self.arrays, call = name, [], []

        def argument(word):
            if word.startswith("("):
                fields = [argument(w) for w in parts(word[1:-1])]
                return "(" + ", ".join(fields) + ("," if len(fields) == 1 else "") + ")"
            self.arrays.append(Array(word, wide))
            return f"%p{len(self.arrays) - 1}"

        for part in parts(text):
            attribute = re.match(r"\w+=", part)
            call.append(part.replace('"float32"', '"float64"') if attribute and wide else part if attribute else argument(part))
        self.call = f"{name}({', '.join(call)})"

    def names(self, letter="p", real=False):
        return [f"%{letter}{i}" for i, a in enumerate(self.arrays) if a.real or not real]

    def parameters(self, letter="p", real=False):
        return ", ".join(f"%{letter}{i}: {a.type()}" for i, a in enumerate(self.arrays) if a.real or not real)

    def values(self, rng):
        low, high = RANGES.get(self.name, (0.25, 0.95))
        out = {}
        for i, a in enumerate(self.arrays):
            if a.real:
                x = rng.uniform(low, high, a.shape)
                out[f"p{i}"] = x if self.name in POSITIVE or low > 1 else x * rng.choice([-1.0, 1.0], a.shape)
                if (self.name, i) in REGIONS:
                    out[f"p{i}"] = np.concatenate([x[:, :1], rng.uniform(-2, 8, (len(x), 4))], axis=1)
                    out[f"p{i}"][0, 1:] = rng.uniform((-2, -2, 9, 9), (1, 1, 14, 14))
                out[f"v{i}"] = rng.normal(size=a.shape)
            else:
                begins = (self.name, i) in BEGINS
                fixed = np.arange(a.shape[0]) * 2 // (a.shape[0] - 1) if begins else INTS.get((self.name, i))
                x = rng.integers(0, 2, a.shape) if fixed is None else np.resize(fixed, a.shape)
                out[f"p{i}"] = np.asarray(x).astype(a.dtype)
        for k, x in out.items():
            a = self.arrays[int(k[1:])]
            out[k] = x.astype(a.dtype) if a.real else x
        return out

    def program(self, result):
        """@f sums sines of the real results; its slope along %v…, that of the slope, and the slope by the way forward."""
        fields = re.findall(r"Tensor\[\([^)]*\), (\w+)\]|\b(float\d+|int\d+|uint\d+|bool)\b", result)
        fields = [a or b for a, b in fields]
        tuple_ = result.startswith("(")
        real = [f"%y.{k}" if tuple_ else "%y" for k, t in enumerate(fields) if t.startswith("float")]
        terms = " + ".join(f'sum(sin(cast({y}, dtype="float64")))' for y in real) or "0f64"
        grads = self.names("q", True)
        all_names = ", ".join(n if not a.real else f"%q{i}" for i, (n, a) in enumerate(zip(self.names(), self.arrays)))
        ints = ", ".join(f"%p{i}: {a.type()}" for i, a in enumerate(self.arrays) if not a.real)
        dots = lambda g: " + ".join(f'sum(cast(%{g}.{k} * %v{n[2:]}, dtype="float64"))' for k, n in enumerate(grads)) or "0f64"
        inner = self.call
        for i, a in enumerate(self.arrays):
            if a.real:
                inner = re.sub(rf"%p{i}\b", f"%q{i}", inner)
        real_args = ", ".join(self.names("p", True))
        function = f"fn ({self.parameters('q', True)}) {{ let %y = {inner}; {terms} }}"
        directions = self.parameters("v", True)
        along = ", ".join(self.names("p", True) + self.names("v", True))
        forward = f"jvp(%f)({along}).1" if grads else "0f64"
        return f"""
def @main({self.parameters()}, {directions}) {{
  let %f = {function};
  let %g = grad(%f)({real_args});
  let %h = grad(fn ({self.parameters('q', True)}) {{ let %g = grad({function})({', '.join(grads)}); {dots('g')} }})({real_args});
  (%f({real_args}), {dots('g')}, {dots('h')}, {forward})
}}
"""


# Functions of %q0, whose third derivatives are tried: rules and what follows from loops, one upon the other.
COMPOSED = ["tanh(%q0) * sigmoid(%q0 * %q0)", "nn.softmax(sin(%q0))", "nn.dense(tanh(%q0), exp(%q0), units=None)", "mean(%q0 * %q0 * %q0, axis=[1])",
            "nn.layer_norm(%q0 * %q0, ones(shape=[3], dtype=\"float64\"), ones(shape=[3], dtype=\"float64\"))",
            "einsum((sin(%q0), %q0 * %q0), equation=\"ij,kj->ik\")", "tile(exp(%q0), reps=[2, 1]) / 3f64", "cumprod(%q0, axis=1)",
            "where(%q0 > 0f64, exp(%q0), %q0 * %q0 * %q0)", "nn.lrn(reshape(%q0, newshape=[1, 6, 1, 1]), size=3)",
            "nn.conv1d(reshape(%q0, newshape=[1, 1, 6]), reshape(sin(%q0), newshape=[1, 1, 6]), padding=[2, 2], channels=1, kernel_size=[6])",
            "nn.avg_pool1d(reshape(%q0 * %q0 * %q0, newshape=[1, 1, 6]), pool_size=[3], strides=[2])", "nn.upsampling(reshape(exp(%q0), newshape=[1, 1, 2, 3]), scale_h=2f, scale_w=2f)"]


class Rows:
    def __init__(self, folder):
        self.folder = folder

    def write(self, text):
        path = os.path.join(self.folder, "p.rly")
        with open(path, "w") as f:
            f.write('#[version = "0.0.5"]\n' + text)
        return path

    def result_type(self, sample):
        """That of the call, or None where the sample does not type."""
        done = run(["opt", "-p", "InferType", self.write(f"def @main({sample.parameters()}) {{ {sample.call} }}\n")])
        found = re.search(r"\) -> (.*) \{$", done.stdout, re.M)
        return found.group(1) if not done.returncode and found else None

    def values(self, sample, program, engine, values, moved):
        inputs, out = os.path.join(self.folder, "in.npz"), os.path.join(self.folder, "out.npz")
        at = {k: x + moved * values["v" + k[1:]] if "v" + k[1:] in values and k[0] == "p" else x for k, x in values.items()}
        np.savez(inputs, **at)
        done = run(["run", "--exec", engine, "--params", inputs, "--out", out, self.write(program)])
        if done.returncode:
            raise RuntimeError(done.stderr)
        with np.load(out) as z:
            return [float(z[f"result.{i}"]) for i in range(len(z.files))]

    def wrong(self, sample, result, engine, rng):
        """What is not as it should be; None where all is."""
        values, program = sample.values(rng), sample.program(result)
        step, near = (1e-3, 1e-3) if sample.name in ROUGH else (1e-6, 2e-6)
        low, here, high = (self.values(sample, program, engine, values, s) for s in (-step, 0, step))
        for what, k in (("first", 0), ("second", 1)):
            got, want = here[k + 1], (high[k] - low[k]) / (2 * step)
            if not abs(got - want) <= near * (1 + 10 * abs(want)):
                return f"{engine}: {sample.call}: the {what} derivative is {got}, and the slope {want}"
        if not abs(here[3] - here[1]) <= 1e-9 * (1 + abs(here[1])) and sample.name not in ROUGH:
            return f"{engine}: {sample.call}: the derivative is {here[1]}, and {here[3]} by the way forward"
        return None

    def wrong_third(self, text, engine, rng):
        """As `wrong`, of the third derivative of a function of one tensor."""
        body = "fn (%q0: Tensor[(2, 3), float64]) { sum(sin(cast(" + text + ', dtype="float64"))) }'
        slopes = []
        for _ in range(3):
            body = f"fn (%q0: Tensor[(2, 3), float64]) {{ sum(grad({body})(%q0).0 * %v0) }}"
            slopes.append(f"({body})(%p0)")
        program = f"def @main(%p0: Tensor[(2, 3), float64], %v0: Tensor[(2, 3), float64]) {{ ({', '.join(slopes)}) }}"
        values = {"p0": rng.uniform(0.3, 0.9, (2, 3)), "v0": rng.normal(size=(2, 3))}
        low, here, high = (self.values(None, program, engine, values, s) for s in (-1e-5, 0, 1e-5))
        want = (high[1] - low[1]) / 2e-5
        return None if abs(here[2] - want) <= 1e-4 * (1 + abs(want)) else f"{engine}: {text}: the third derivative is {here[2]}, and the slope {want}"

    def state(self, name, text, rng, engine="interp"):
        """differentiable, zero, refused, or failed, with words."""
        sample = Sample(name, text)
        result = self.result_type(sample)
        if not result:
            sample = Sample(name, text, wide=False)
            result = self.result_type(sample)
        if not result:
            return "failed", f"{name}({text}) does not type"
        if not any(a.real for a in sample.arrays) or not re.search(r"float", result):
            return "zero", "no argument or no result is real"
        try:
            wrong = self.wrong(sample, result, engine, rng)
        except RuntimeError as e:
            found = re.search(r"E0605\]?:? .*?`[\w.]+` has no gradient: (.*)", str(e))
            return ("refused", found.group(1)) if found else ("failed", f"{sample.call}: {e}")
        return ("failed", wrong) if wrong else ("differentiable", "")


def main():
    rows = subprocess.run([os.path.join(os.path.dirname(os.path.realpath(RELAY)), "generate"), "--rows"], capture_output=True, text=True).stdout
    only = sys.argv[1:]
    counts, failures, reasons, zeros, turn = collections.Counter(), [], {}, [], 0
    with tempfile.TemporaryDirectory() as folder:
        tests = Rows(folder)
        for line in rows.rstrip("\n").split("\n"):
            name, kind, reason, samples = line.split("\t")
            if only and name not in only:
                continue
            rng = np.random.default_rng(5)
            states = [tests.state(name, s, rng) for s in samples_of(samples)]
            if not states:
                states = [("refused", reason)] if reason else [("failed", f"{name}: there is no sample, and no reason")]
            for state, words in states:
                if state == "failed":
                    failures.append(words)
                if state == "refused":
                    reasons[name] = words
            worst = max(states, key=lambda s: ["zero", "refused", "differentiable", "failed"].index(s[0]))[0]
            counts[worst] += 1
            zeros += [name] if worst == "zero" else []
            if worst == "differentiable":
                turn += 1
                if turn % JIT_EVERY == 0:
                    state, words = tests.state(name, next(samples_of(samples)), rng, "jit")
                    failures += [words] if state == "failed" else []
        for engine in () if only else ("interp", "jit"):
            rng = np.random.default_rng(6)
            failures += [w for w in (tests.wrong_third(text, engine, rng) for text in COMPOSED) if w]
    print("\n".join(f"{name} is refused: {words}" for name, words in sorted(reasons.items())))
    print("\n".join(failures))
    if os.environ.get("ROWS"):
        print("zero:", " ".join(zeros))
    total = sum(counts.values())
    print(f"{total} rows: {counts['differentiable']} with first and second derivatives, {counts['zero']} of which they are zero, "
          f"{counts['refused']} refused with a reason, {counts['failed']} failed; {len(COMPOSED)} third derivatives")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
