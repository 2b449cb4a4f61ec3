"""Derivatives by the typed forms: of whole programs, first and second, of some third, against finite differences in float64.

Each program is a function @f of real tensors (and data made of them) in a real number. Along a random direction its slope is compared
with grad and with jvp, the slope of that with grad of grad, and so on."""
# LABELS: slow
import os
import subprocess
import sys
import tempfile

import numpy as np

RELAY = os.environ.get("RELAY", "build/relay")
RNG = np.random.default_rng(11)
STEP, NEAR = 1e-6, 5e-7

# Those that are differentiated three times, by the evaluator: making code of that takes seconds.
THIRD = {"dense", "attention", "trees", "map and foldl with closures", "functions of functions", "closures that keep numbers", "records in records",
         "loops, branches and references"}
# name, shapes of the parameters, definitions.
PROGRAMS = [
    ("dense", [(2, 3), (4, 3), (4,)], """
def @f(%x: Tensor[(2, 3), float64], %w: Tensor[(4, 3), float64], %b: Tensor[(4), float64]) -> float64 {
  sum(tanh(nn.bias_add(nn.dense(%x, %w, units=4), %b)))
}"""),
    ("softmax cross entropy", [(3, 4)], """
def @f(%x: Tensor[(3, 4), float64]) -> float64 { negative(mean(nn.log_softmax(%x) * nn.softmax(%x * 2f64, axis=0))) }"""),
    ("layer norm and gelu", [(3, 5), (5,), (5,)], """
def @f(%x: Tensor[(3, 5), float64], %g: Tensor[(5), float64], %b: Tensor[(5), float64]) -> float64 {
  let %y = nn.layer_norm(%x, %g, %b);
  sum(%y * (0.5f64 + 0.5f64 * erf(%y * 0.70710678f64)) * %x)
}"""),
    ("batch norm", [(2, 3, 4), (3,), (3,)], """
def @f(%x: Tensor[(2, 3, 4), float64], %g: Tensor[(3), float64], %b: Tensor[(3), float64]) -> float64 {
  let %y = nn.batch_norm(%x, %g, %b, mean(%x, axis=[0, 2]), exp(mean(%x, axis=[0, 2])));
  sum(sin(%y.0))
}"""),
    ("group norm, l2, instance norm", [(2, 4, 3), (4,), (4,)], """
def @f(%x: Tensor[(2, 4, 3), float64], %g: Tensor[(4), float64], %b: Tensor[(4), float64]) -> float64 {
  let %y = nn.group_norm(%x, %g, %b, num_groups=2);
  sum(sin(nn.instance_norm(%y, %g, %b))) + sum(nn.l2_normalize(%y, eps=1e-5f, axis=[1]) * %x)
}"""),
    ("convolutions and pools", [(1, 2, 6, 6), (3, 2, 3, 3)], """
def @f(%x: Tensor[(1, 2, 6, 6), float64], %w: Tensor[(3, 2, 3, 3), float64]) -> float64 {
  let %y = nn.conv2d(%x, %w, padding=[1, 1], channels=3, kernel_size=[3, 3]);
  sum(sin(nn.avg_pool2d(%y, pool_size=[2, 2], strides=[2, 2])) * max(%y))
}"""),
    ("attention", [(2, 4, 3), (3, 3)], """
def @f(%x: Tensor[(2, 4, 3), float64], %w: Tensor[(3, 3), float64]) -> float64 {
  let %q = nn.dense(%x, %w, units=3);
  let %a = nn.softmax(nn.batch_matmul(%q, %x, transpose_a=False, transpose_b=True));
  sum(nn.batch_matmul(%a, %q, transpose_a=False, transpose_b=False) * %x)
}"""),
    ("LSTM over a list", [(8, 5), (1, 3), (1, 2)], """
def @step(%w: Tensor[(8, 5), float64], %x: Tensor[(1, 3), float64], %h: Tensor[(1, 2), float64], %c: Tensor[(1, 2), float64]) {
  let %g = split(nn.dense(concatenate((%x, %h), axis=1), %w, units=8), indices_or_sections=4, axis=1);
  let %d = sigmoid(%g.0) * %c + sigmoid(%g.1) * tanh(%g.2);
  (sigmoid(%g.3) * tanh(%d), %d)
}
def @f(%w: Tensor[(8, 5), float64], %x: Tensor[(1, 3), float64], %h: Tensor[(1, 2), float64]) -> float64 {
  let %xs = Cons(%x, Cons(%x * 2f64, Cons(sin(%x), Nil)));
  let %end = @foldl(fn (%s: (Tensor[(1, 2), float64], Tensor[(1, 2), float64]), %e: Tensor[(1, 3), float64]) { @step(%w, %e, %s.0, %s.1) },
                    (%h, %h), %xs);
  sum(%end.0 * %end.1)
}"""),
    ("trees", [(3, 3), (1, 3)], """
type Node { Leaf(Tensor[(1, 3), float64]), Branch(Node, Node) }
def @fold(%w: Tensor[(3, 3), float64], %n: Node) -> Tensor[(1, 3), float64] {
  match (%n) {
    Leaf(%x) => tanh(%x),
    Branch(%l, %r) => tanh(nn.dense(@fold(%w, %l) + 2f64 * @fold(%w, %r), %w, units=3))
  }
}
def @f(%w: Tensor[(3, 3), float64], %x: Tensor[(1, 3), float64]) -> float64 {
  sum(@fold(%w, Branch(Leaf(%x), Branch(Leaf(%x * %x), Leaf(%x)))))
}"""),
    ("BERT block", [(4, 6), (6, 6), (6, 6), (6, 6), (8, 6), (6, 8), (6,), (6,)], """
def @heads(%x: Tensor[(4, 6), float64], %w: Tensor[(6, 6), float64]) {
  transpose(reshape(nn.dense(%x, %w, units=6), newshape=[4, 2, 3]), axes=[1, 0, 2])
}
def @f(%x: Tensor[(4, 6), float64], %q: Tensor[(6, 6), float64], %k: Tensor[(6, 6), float64], %v: Tensor[(6, 6), float64],
       %up: Tensor[(8, 6), float64], %down: Tensor[(6, 8), float64], %g: Tensor[(6), float64], %b: Tensor[(6), float64]) -> float64 {
  let %s = nn.batch_matmul(@heads(%x, %q), @heads(%x, %k), transpose_a=False, transpose_b=True) * 0.5773f64;
  let %c = nn.batch_matmul(nn.softmax(%s), @heads(%x, %v), transpose_a=False, transpose_b=False);
  let %y = nn.layer_norm(%x + nn.dropout(reshape(transpose(%c, axes=[1, 0, 2]), newshape=[4, 6])).0, %g, %b);
  let %h = nn.dense(%y, %up, units=8);
  let %e = nn.dense(%h * (0.5f64 + 0.5f64 * erf(%h * 0.70710678f64)), %down, units=6);
  sum(sin(nn.layer_norm(%y + %e, %g, %b)))
}"""),
    ("TreeLSTM", [(6, 3), (6, 2), (2, 2), (1, 3)], """
type Words { Phrase(Tensor[(1, 3), float64], List[Words]) }
def @cell(%w: Tensor[(6, 3), float64], %u: Tensor[(6, 2), float64], %k: Tensor[(2, 2), float64], %t: Words) -> (Tensor[(1, 2), float64], Tensor[(1, 2), float64]) {
  match (%t) {
    Phrase(%x, %of) => {
      let %all = @map(fn (%c: Words) { @cell(%w, %u, %k, %c) }, %of);
      let %h = @foldl(fn (%s: Tensor[(1, 2), float64], %c: (Tensor[(1, 2), float64], Tensor[(1, 2), float64])) { %s + %c.0 }, zeros(shape=[1, 2], dtype="float64"), %all);
      let %g = split(nn.dense(%x, %w, units=6) + nn.dense(%h, %u, units=6), indices_or_sections=3, axis=1);
      let %kept = @foldl(fn (%s: Tensor[(1, 2), float64], %c: (Tensor[(1, 2), float64], Tensor[(1, 2), float64])) { %s + sigmoid(nn.dense(%c.0, %k, units=2)) * %c.1 },
                         zeros(shape=[1, 2], dtype="float64"), %all);
      let %c = sigmoid(%g.0) * tanh(%g.1) + %kept;
      (sigmoid(%g.2) * tanh(%c), %c)
    }
  }
}
def @f(%w: Tensor[(6, 3), float64], %u: Tensor[(6, 2), float64], %k: Tensor[(2, 2), float64], %x: Tensor[(1, 3), float64]) -> float64 {
  let %leaf = Phrase(%x, Nil);
  let %end = @cell(%w, %u, %k, Phrase(%x * %x, Cons(%leaf, Cons(Phrase(sin(%x), Cons(%leaf, Nil)), Nil))));
  sum(%end.0 * %end.1)
}"""),
    ("loops, branches and references", [(), ()], """
def @f(%x: float64, %y: float64) -> float64 {
  let %r = ref(%x);
  let %loop = fn (%i: int32, %a: float64) -> float64 {
    if (%i < 5) {
      ref_write(%r, ref_read(%r) * %y);
      %loop(%i + 1, if (sum(%a) > 1f64) { sin(%a) * %x } else { exp(%a) })
    } else { %a * ref_read(%r) }
  };
  %loop(0, %y)
}"""),
    ("functions of functions", [(3,)], """
def @compose(%f: fn (Tensor[(3), float64]) -> Tensor[(3), float64], %g: fn (Tensor[(3), float64]) -> Tensor[(3), float64]) {
  fn (%x: Tensor[(3), float64]) { %f(%g(%x)) }
}
def @f(%x: Tensor[(3), float64]) -> float64 {
  let %scale = fn (%y: Tensor[(3), float64]) { %y * %x };
  let %both = @compose(%scale, fn (%y: Tensor[(3), float64]) { sin(%y) });
  sum(@compose(%both, %scale)(%x))
}"""),
    ("map and foldl with closures", [(3,), (3,)], """
def @times(%k: Tensor[(3), float64]) { fn (%y: Tensor[(3), float64]) { sin(%y * %k) } }
def @f(%x: Tensor[(3), float64], %k: Tensor[(3), float64]) -> float64 {
  let %g = @times(%k);
  let %h = @compose(%g, fn (%y: Tensor[(3), float64]) { %y * %x });
  let %all = @map(%h, @map(fn (%a: float64) { %g(%k * %a) }, Cons(sum(%x), Cons(2f64, Nil))));
  sum(@foldl(fn (%s: Tensor[(3), float64], %y: Tensor[(3), float64]) { %g(%s) * %y + %k }, %x, %all))
}"""),
    ("a derivative inside", [(3,)], """
def @inner(%x: Tensor[(3), float64]) -> float64 { sum(exp(%x) * %x) }
def @f(%x: Tensor[(3), float64]) -> float64 { let %g = grad(@inner)(%x * %x).0; sum(sin(%g * 0.1f64)) }"""),
    ("records in records", [(4, 3), (4,), (2, 3)], """
type Layer { Layer(Tensor[(4, 3), float64], Tensor[(4), float64], int32) }
type Net[A] { Net(A, (A, float64)) }
def @apply(%l: Layer, %x: Tensor[(2, 3), float64]) {
  match (%l) { Layer(%w, %b, %n) => if (%n == 1) { tanh(nn.bias_add(nn.dense(%x, %w, units=4), %b)) } else { nn.dense(%x, %w, units=4) } }
}
def @net(%n: Net[Layer], %x: Tensor[(2, 3), float64]) -> float64 {
  match (%n) { Net(%a, (%b, %s)) => { let %y = @apply(%a, %x); sum(%y * @apply(%b, %x * %s) * %y) } }
}
def @f(%w: Tensor[(4, 3), float64], %b: Tensor[(4), float64], %x: Tensor[(2, 3), float64]) -> float64 {
  @net(Net(Layer(%w, %b, 1), (Layer(%w * %w, %b, 0), sum(%b))), %x)
}"""),
    ("derivatives by data", [(3,), (3,)], """
type Pair { Pair(Tensor[(3), float64], int32) }
def @inner(%p: Pair, %t: (float64, Tensor[(3), float64])) -> float64 {
  match (%p) { Pair(%a, %n) => sum(exp(%a) * %t.1) * %t.0 * cast(%n, dtype="float64") }
}
def @product(%l: List[float64]) -> float64 { match (%l) { Cons(%h, %t) => %h * @product(%t), Nil => 1f64 } }
def @f(%x: Tensor[(3), float64], %y: Tensor[(3), float64]) -> float64 {
  let %d = grad(@inner)(Pair(%x * %x, 3), (sum(%y), %y));
  let %l = grad(@product)(Cons(sum(%x), Cons(sum(%y), Cons(sum(%x * %y), Nil)))).0;
  match (%d.0) { Pair(%a, _) => sum(sin(%a)) } + %d.1.0 * sum(%d.1.1) + @product(%l)
}"""),
    ("closures that keep numbers", [(3,), (3,)], """
def @scaled(%k: Tensor[(3), float64]) { fn (%x: Tensor[(3), float64]) -> Tensor[(3), float64] { sin(%x * %k) } }
def @f(%x: Tensor[(3), float64], %k: Tensor[(3), float64]) -> float64 {
  let %g = @scaled(%k);
  let %h = @scaled(%g(%k));
  let %pair = (%g, (%h, %x));
  sum(%pair.1.0(%pair.0(%pair.1.1)) * %g(%x))
}"""),
]


def type_of(shape):
    return f"Tensor[({', '.join(map(str, shape))}), float64]" if shape else "float64"


def run(engine, program, values, folder):
    text, inputs, out = (os.path.join(folder, n) for n in ("p.rly", "in.npz", "out.npz"))
    with open(text, "w") as f:
        f.write('#[version = "0.0.5"]\nimport "prelude.rly"\n' + program)
    np.savez(inputs, **values)
    done = subprocess.run([RELAY, "run", "--exec", engine, "--params", inputs, "--out", out, text], capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise RuntimeError(done.stderr)
    with np.load(out) as z:
        return {k: z[k] for k in z.files}


def main_of(shapes, order):
    """@f, its slope along %v… by grad and by jvp, then the slope of the slope, and so on."""
    params = lambda letter: ", ".join(f"%{letter}{i}: {type_of(s)}" for i, s in enumerate(shapes))
    names = lambda letter: ", ".join(f"%{letter}{i}" for i in range(len(shapes)))
    along = " + ".join(f"sum(%g.{i} * %v{i})" for i in range(len(shapes)))
    f, slopes = "@f", []
    for _ in range(order):
        f = f"fn ({params('q')}) {{ let %g = grad({f})({names('q')}); {along} }}"
        slopes.append(f"({f})({names('p')})")
    return f"""
def @main({params('p')}, {params('v')}) {{ (@f({names('p')}), jvp(@f)({names('p')}, {names('v')}).1, {', '.join(slopes)}) }}
"""


def main():
    failures, checked = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for name, shapes, text in PROGRAMS:
            at = [RNG.uniform(0.2, 1.2, s) for s in shapes]
            to = [RNG.normal(size=s) for s in shapes]
            for engine in ("interp", "jit"):
                program = text + main_of(shapes, 3 if name in THIRD and engine == "interp" else 2)
                try:
                    def moved(step):
                        values = {f"p{i}": x + step * d for i, (x, d) in enumerate(zip(at, to))}
                        values.update({f"v{i}": d for i, d in enumerate(to)})
                        return list(run(engine, program, values, folder).values())
                    low, here, high = moved(-STEP), moved(0), moved(STEP)
                except RuntimeError as e:
                    failures.append(f"{engine}: {name}: {e}")
                    continue
                slope = lambda k: (high[k] - low[k]) / (2 * STEP)
                pairs = [("jvp", here[1], slope(0)), ("grad", here[2], slope(0))]
                pairs += [("grad of " * k + "grad", here[k + 2], slope(k + 1)) for k in range(1, len(here) - 2)]
                for what, got, want in pairs:
                    checked += 1
                    if not abs(got - want) <= NEAR * (1 + 10 * abs(want)):
                        failures.append(f"{engine}: {name}: {what} gives {got}, and the slope is {want}")
    print("\n".join(failures + [f"{len(PROGRAMS)} programs, {checked} slopes, {len(failures)} failures"]))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
