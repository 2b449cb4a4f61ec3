"""Random sessions that define, bind, write to references, switch the engine and take back: all engines say the same, and none dies. Others,
four times as many, ask for views, passes, steps and files in between: none dies.

    taken_back_test.py [COUNT [SEED]]

A function that a reference or a tuple holds outlives what it calls: that may be defined anew, with another type, or taken back."""
import os
import random
import re
import subprocess
import sys
import tempfile

RELAY = os.environ.get("RELAY", "build/release/relay")
with open(RELAY, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
CELLS = 40
ENGINES = ["interp", "jit", "auto"]

# Of a function of an integer: its head, a call with the integer `{}`, and its body.
FUNCTIONS = [
    ("(%x: int32) -> int32", "{f}({x})", "%x + {k}"),
    ("(%x: int32, %y: int32) -> int32", "{f}({x}, {k})", "%x - %y"),
    ("(%x: (int32, int32)) -> int32", "{f}(({x}, {k}))", "%x.0 * %x.1"),
    ("(%x: float32) -> float32", 'cast({f}(cast({x}, dtype="float32")), dtype="int32")', "%x * {k}f"),
    ("(%x: float32) -> float32", 'cast(grad({f})(cast({x}, dtype="float32")).0, dtype="int32")', "%x * %x * {k}f"),
    ("[A](%x: A) -> (A, A)", "{f}({x}).1", "(%x, %x)"),
    ("(%x: fn (int32) -> int32) -> int32", "{f}(fn (%n: int32) -> int32 {{ %n + {x} }})", "%x({k})"),
    ("(%x: T) -> int32", "{f}(One({x}))", "match (%x) {{ One(%n) => {k}, _ => 0 }}"),
    ("(%x: ref(int32)) -> int32", "{f}(ref({x}))", "ref_read(%x) + {k}"),
]
TYPES = [
    "type T { One(int32), Two, }",
    "type T { Two, One(int32), }",
    "type T { One(int32), Two, Three(int32, int32), }",
    "type T { Three(T), One(int32), Two, }",
]


class Session:
    """What was defined, as far as the next cells want to know: a wrong guess gives an error, which is an answer, too."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.known = {name: FUNCTIONS[0] for name in ("@f", "@g", "@h")}
        self.before = []
        self.cells = [self.step(TYPES[0]), *map(self.define, self.known), self.step("let %r = ref(fn (%x: int32) -> int32 { %x });"),
                      self.step("let %p = (fn (%x: int32) -> int32 { %x }, 1);")]
        while len(self.cells) < CELLS:
            self.cells.append(self.cell())

    def number(self):
        return self.rng.randint(1, 9)

    def call(self, x):
        name = self.rng.choice(list(self.known))
        return self.known[name][1].format(f=name, x=x, k=self.number())

    def define(self, name):
        self.before.append(dict(self.known))
        head, call, body = self.rng.choice(FUNCTIONS)
        self.known[name] = (head, call, body)
        body = body.format(k=self.number())
        if head == FUNCTIONS[0][0] and self.rng.random() < 0.5:
            other = self.rng.choice([n for n in self.known if n != name])
            body = f"if (less(%x, 0)) {{ 0 }} else {{ {self.known[other][1].format(f=other, x='(%x - 1)', k=self.number())} }}"
        return f"def {name}{head} {{ {body} }}"

    def function(self):
        return f"fn (%x: int32) -> int32 {{ {self.call('%x')} }}"

    def data(self):
        return self.rng.choice(["Two", "%d", f"One({self.number()})"])

    def match(self, what):
        return f"match ({what}) {{ One(%n) => %n, _ => {self.number()} }}"

    def step(self, text):
        """A cell that can be taken back."""
        self.before.append(dict(self.known))
        return text

    def undo(self):
        self.known = self.before.pop() if self.before else self.known
        return ":undo"

    def cell(self):
        kinds = [(3, lambda: self.define(self.rng.choice(list(self.known)))), (1, lambda: self.step(self.rng.choice(TYPES))), (3, self.undo),
                 (1, lambda: self.step(f"let %r = ref({self.function()});")), (4, lambda: f"ref_write(%r, {self.function()})"),
                 (2, lambda: self.step(f"let %p = ({self.function()}, {self.number()});")), (2, lambda: f"(%p.0)(%p.1 + {self.number()})"),
                 (1, lambda: self.call(self.number())), (1, lambda: self.rng.choice(["%_", "ref_read(%r)", ":defs mine"])),
                 (4, lambda: f"(ref_read(%r))({self.number()})"), (1, lambda: self.step(f"let %d = {self.data()};")),
                 (1, lambda: self.step(f"let %q = ref({self.data()});")), (1, lambda: f"ref_write(%q, {self.data()})"),
                 (1, lambda: self.match("%d")), (1, lambda: self.match("ref_read(%q)"))]
        return self.rng.choices([make for _, make in kinds], weights=[weight for weight, _ in kinds])[0]()


class Asking(Session):
    """One that asks for what can be seen of it."""

    def cell(self):
        if self.rng.random() < 0.6:
            return super().cell()
        f, g = self.rng.choices(list(self.known), k=2)
        e = self.rng.choice([self.call(self.number()), f"(ref_read(%r))({self.number()})", "(%p.0)(%p.1)", self.match("%d")])
        return self.rng.choice([
            f":step {e}", f":step steps=5 from=3 {e}", f":trace {e}", f":break {f}", f":break {f} if %x == {self.number()}", ":break error",
            ":unbreak", f":unbreak {f}", ":watch %x", ":watch %r", ":watch -", f":why {f}", ":why %r", f":type {e}", f":show types {f}",
            f":show graph {f}", f":show lowered {f}", f":show all {f}", f":show text {e}", f":pass ToANormalForm,Inline,PartialEvaluate {f}",
            f":pass Inline {f} as {g}", f":blame ToANormalForm,DeadCodeElimination {e}", f":rewrites seed=1 SimplifyExpr,Inline {f}",
            f":explain types {f}", f":explain pass Inline {f}", f":summary {f}", f":hash {f}", f":equal ({f}, {g})", f":edit {f}", f":doc {f}",
            f":schedule {f}", f":export FOLDER/model.onnx {f}", ":save FOLDER/session.rly", ":load FOLDER/session.rly", ":reload", ":defs",
            f":train steps=2 %d {e}", f":plot {e}", f":analyze op_freqs {f}", ":limit depth 50", ":limit", f":set opt {self.rng.randrange(4)}",
            f"let %m = vjp({f});", f"let %j = jvp({f});", 'import "prelude.rly"', ":write %d FOLDER/data.npz", ":read %d FOLDER/data.npz",
            "let %k = ref_read(%r);", "%k(1)", ":reset"])


def ends_well(seed, folder):
    rng = random.Random(-seed)
    lines = [line for cell in Asking(seed).cells for line in ([f":engine {rng.choice(ENGINES)}"] if rng.random() < 0.4 else []) + [cell]]
    text = "\n".join(lines).replace("FOLDER", folder) + "\n"
    done = subprocess.run([RELAY], input=text, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    good = done.returncode in (0, 1, 2, 3) and "Sanitizer" not in said and "runtime error" not in said
    if not good:
        print(f"seed {seed}: asking ends with {done.returncode}\n{said[-2000:]}")
    return good


def answers(lines, engine):
    """What is said, without what only tells the engine."""
    # A command ends the cell before it, in which definitions side by side would be one step.
    text = "".join(f":engine {engine or one}\n{cell}\n" for one, cell in lines)
    done = subprocess.run([RELAY], input=text, capture_output=True, text=True, timeout=300)
    text = done.stdout + done.stderr
    if done.returncode not in (0, 1, 2):
        return f"ends with {done.returncode}\n{text}"
    text = re.sub(r"^(cells run on: .*|note: this ran on .*|==\d+==WARNING: ASan does.*)\n", "", text, flags=re.M)
    return re.sub(r":engine \w+", ":engine", text)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 6 if SANITIZED else 40
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    wrong = 0
    for seed in range(first, first + count):
        cells = Session(seed).cells
        lines = list(zip(random.Random(-seed).choices(ENGINES, k=len(cells)), cells))
        want = None
        for engine in [*ENGINES, None]:
            got = answers(lines, engine)
            want = want or got
            if got != want or got.startswith("ends with"):
                wrong += 1
                other = [(a, b) for a, b in zip(want.splitlines() + [""], got.splitlines() + [""]) if a != b][:1]
                print(f"seed {seed}: {engine or 'mixed'}: {other or got[:200]}")
    with tempfile.TemporaryDirectory() as folder:
        wrong += sum(not ends_well(seed, folder) for seed in range(first, first + 4 * count))
    print(f"{count} sessions on {len(ENGINES)} engines, {4 * count} that ask, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
