"""Wide matches and programs of many functions: compiled in time that grows with their length, in parts before which the limits are
asked, and with the answer of the evaluator."""

import os
import random
import re
import resource
import subprocess
import tempfile
import time
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
HEADER = '#[version = "0.0.5"]\n'


def wide(n, field, arm, main):
    cons = " ".join(f"C{i}{field}," for i in range(n))
    arms = " ".join(f"C{i}{'(%x)' if field else ''} => {arm(i)}," for i in range(n))
    return f"{HEADER}type T {{ N, {cons} }}\ndef @f(%t: T) {{ match? (%t) {{ {arms} }} }}\ndef @main() {{ {main} }}\n"


def fields(n):
    return wide(n, "(int32)", lambda i: f"add(%x, {i})", f"(@f(C{n - 1}(1)), @f(C7(7)))")


def tensors(n):
    return wide(n, "(Tensor[(3), float32])", lambda i: f"add(%x, {i}f)", 'let %a = C7(ones(shape=[3], dtype="float32")); (@f(%a), @f(%a))')


def calls(n):
    return wide(n, "(T)", lambda i: f"%x" if i == 0 else "{ let %y = @f(%x); %y }", "@f(C9(C0(C3(C2(C0(N))))))").replace(
        "{ match?", "-> T { match?")


def nested(n):
    """Where the fields of a clause do not fit, later clauses of the same constructor and of any are tried."""
    arms = " ".join(f"P(C{i}, C{i * 7 % n}) => {i}, Q(C{i}) => -{i}," for i in range(n))
    cons = " ".join(f"C{i}," for i in range(n))
    return (f"{HEADER}type T {{ {cons} }} type P {{ P(T, T), Q(T), R, }}\n"
            f"def @f(%p: P) -> int32 {{ match (%p) {{ P(_, C3) => -1000, {arms} P(C5, %x) => 5000, %y => 7000 }} }}\n"
            "def @main() { (@f(P(C4, C28)), @f(P(C9, C3)), @f(Q(C6)), @f(P(C5, C1)), @f(P(C6, C1)), @f(R)) }\n")


def functions(n, body):
    """Functions that call each other in tail position across the parts, and large ones, that recursion goes through."""
    text = HEADER
    for i in range(n):
        text += (f"def @f{i}(%n: int64, %a: Tensor[(2), float32]) -> Tensor[(2), float32] {{ if (%n == 0i64) {{ %a }} else "
                 f"{{ @f{(i + 1) % n}(%n - 1i64, add(%a, {i % 3}f)) }} }}\n")
    lets = "".join(f"let %x{i} = add(%x{i - 1 if i else ''}, {i % 5}i64); " for i in range(body))
    for name, last in (("deep", f"let %r = @deep(%n - 1i64, %x{body - 1}); %r + 1i64"), ("ping", f"@pong(%n - 1i64, %x{body - 1})")):
        text += f"def @{name}(%n: int64, %x: int64) -> int64 {{ if (%n == 0i64) {{ %x }} else {{ {lets} {last} }} }}\n"
    return text + ("def @pong(%n: int64, %x: int64) -> int64 { if (%n == 0i64) { %x } else { @ping(%n - 1i64, %x) } }\n"
                   'def @main() { (@f0(100000i64, ones(shape=[2], dtype="float32")), @deep(300i64, 2i64), @ping(3001i64, 0i64)) }\n')


def chain(n):
    """More than fits into one part of good code, in functions of which each is short."""
    text = HEADER
    for i in range(n):
        last = f"@f{i + 1}(add(%x, 1))" if i + 1 < n else "%x"
        text += f"def @f{i}(%x: int32) -> int32 {{ if (less(%x, 0)) {{ 0 }} else {{ {last} }} }}\n"
    return text + "def @main() { (@f0(5), @f7(-1)) }\n"


def varied(n, seed):
    """One function whose parts need of each other: numbers, tensors, lists, references, closures, polymorphic ones too."""
    some = random.Random(seed)
    ints, tensors_, fns, lists, lets = ["%x"], ["%t"], ["%add"], ["N"], []

    def pick(names):
        return some.choice(names[-30:] if some.random() < 0.8 else names)

    def number(i):
        return some.choice((
            lambda: f"add(multiply({pick(ints)}, {i % 5}i64), {pick(ints)})",
            lambda: f"%keep({pick(ints)}).0",
            lambda: f"%id({pick(ints)})",
            lambda: f"if ({pick(ints)} > 10i64) {{ let %q{i} = %id({pick(ints)}); {pick(fns)}(%q{i}) }} else {{ {pick(ints)} - ref_read(%r) }}",
            lambda: f"%sum({pick(lists)})",
            lambda: f"match ({pick(lists)}) {{ N => {pick(ints)}, C(%h{i}, N) => %h{i}, C(_, %t{i}) => {{ let %z{i} = %sum(%t{i}); %z{i} + {pick(ints)} }} }}",
        ))()

    kinds = ((ints, number), (ints, number), (ints, number),
             (tensors_, lambda i: f"tanh(add({pick(tensors_)}, {pick(tensors_)}))"),
             (tensors_, lambda i: f"nn.softmax(%keep({pick(tensors_)}).0)"),
             (fns, lambda i: f"fn (%a: int64) -> int64 {{ add({pick(fns)}(%a), {pick(ints)}) }}"),
             (lists, lambda i: f"C({pick(ints)}, {pick(lists)})"),
             ([], lambda i: f"ref_write(%r, add(ref_read(%r), {pick(ints)}))"))
    for i in range(n):
        names, value = some.choice(kinds)
        lets.append(f"let %v{i} = {value(i)};")
        names.append(f"%v{i}")
    return (HEADER + "type L { N, C(int64, L), }\n"
            "def @f(%x: int64, %t: Tensor[(3), float32]) -> (int64, Tensor[(3), float32], int64) {\n"
            "let %r = ref(0i64); let %keep = fn[A](%a: A) { let %u = %x; (%a, %u) }; let %id = fn[A](%a: A) -> A { %a };\n"
            "let %add = fn (%a: int64) -> int64 { add(%a, %x) };\n"
            "let %sum = fn (%l: L) -> int64 { match (%l) { N => 0i64, C(%h, %q) => { let %k = %sum(%q); add(add(%k, %h), %x) } } };\n"
            + "\n".join(lets) + f"\n({ints[-1]}, {tensors_[-1]}, ref_read(%r))\n}}\n"
            'def @main() { @f(3i64, arange(0f, 3f, 1f, dtype="float32")) }\n')


def wide_data(n):
    """Each let adds one of all before it: at every place very many values are still wanted."""
    some = random.Random(n)
    lets = "".join(f"let %v{i} = add(%v{i - 1}, %v{some.randrange(i)}); " for i in range(1, n))
    return f"{HEADER}def @main() -> int64 {{ let %v0 = ref_read(ref(1i64)); {lets} %v{n - 1} }}\n"


def deep(n, tail):
    """Branches inside each other, in tail position or not."""
    begin = "".join(("" if tail else f"let %a{i} = ") + f"if (%x > {i % 11 + 100}i64) {{ add(%x, {i}i64) }} else {{ " for i in range(n))
    end = "".join("}" if tail else f"}}; add(%a{i}, 1i64)" for i in reversed(range(n)))
    return (f"{HEADER}def @f(%x: int64) -> int64 {{ {begin} %x {end} }}\n"
            "def @main() { (@f(3i64), @f(105i64)) }\n")


def step(n):
    """Of an optimiser, over many weights: all of its values come in and go out at once."""
    names = [f"%{kind}{i}" for i in range(n) for kind in "wmvg"]
    params = ", ".join(f"{name}: Tensor[({2 + i // 4 % 5}), float32]" for i, name in enumerate(names))
    lets = "".join(f"let %a{i} = 0.5f * %m{i} + 0.25f * %g{i}; let %b{i} = 0.5f * %v{i} + 0.25f * %g{i} * %g{i}; "
                   f"let %c{i} = %w{i} - 0.125f * %a{i} / (sqrt(%b{i}) + 1f);\n" for i in range(n))
    results = ", ".join(f"%c{i}, %a{i}, %b{i}" for i in range(n))
    values = ", ".join(f'full({i % 7}f, shape=[{2 + i // 4 % 5}], dtype="float32")' for i in range(4 * n))
    return f"{HEADER}def @step({params}) {{ {lets} ({results}) }}\ndef @main() {{ @step({values}) }}\n"


def alive(n):
    """At every place very many values of all kinds are owned, and what is made may fail there, in branches too."""
    kinds = ("ref(%x)", "fn (%a: int32) -> int32 { %a + ref_read(%r) }", "C(%x, C(1, N))", "((%x, 2), ref(%t))", "tanh(%t) * #f",
             "if (%x < #) { nn.softmax(%t) } else { tanh(%t) }", "if (%x < #) { C(#, C(%x, N)) } else { C(#, N) }",
             "match (%l) { N => C(#, N), C(%h, _) => C(%h, C(#, N)) }", "@double")
    lets = "".join(f"let %v{i} = {kinds[i % len(kinds)].replace('#', str(i))};\n" for i in range(n))
    results = ", ".join(f"%v{i}" for i in range(n))
    return (f"{HEADER}type L {{ N, C(int32, L), }}\ndef @double(%x: int32) -> int32 {{ %x + %x }}\n"
            "def @all(%x: int32, %t: Tensor[(3), float32], %l: L) {\nlet %r = ref(%x);\n" + lets + f"({results})\n}}\n"
            "def @main() { @all(3, arange(0f, 3f, 1f), C(5, N)) }\n")


class Large(unittest.TestCase):
    def run_text(self, text, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
            file.write(text)
            file.flush()
            return subprocess.run([RELAY, "run", *options, file.name], capture_output=True, text=True, timeout=300)

    def same_value(self, text):
        by_jit, by_interp = (self.run_text(text, "--exec", engine) for engine in ("jit", "interp"))
        self.assertNotIn("W0701", by_jit.stderr)
        self.assertEqual(by_jit.returncode, 0)
        self.assertEqual(by_jit.stdout, by_interp.stdout)

    def test_values(self):
        for text in (fields(3000), tensors(100), calls(3000), nested(1200), nested(30), fields(20), calls(20), functions(80, 1100), chain(4000),
                     fields(12000), varied(1500, 1), varied(1500, 2), wide_data(12000), deep(3000, True), deep(3000, False), step(250), alive(900)):
            with self.subTest(text[:80]):
                self.same_value(text)

    def cpu(self, text):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        self.assertEqual(self.run_text(text).returncode, 0)
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before

    def test_time(self):
        """Four times the clauses take no sixteen times as long: that is what a chain of tests cost."""
        for program in (fields, calls, nested):
            with self.subTest(program.__name__):
                small, large = self.cpu(program(750)), self.cpu(program(3000))
                self.assertLess(large, 8 * small + 0.2)

    def test_blocks(self):
        """LLVM takes the square of a block's length, and that of the operands of a call."""
        with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
            file.write(step(250))
            file.flush()
            code = subprocess.run([RELAY, "compile", "--emit", "llvm-ir", "--entry", "step", file.name], capture_output=True, text=True)
        self.assertEqual(code.returncode, 0)
        blocks = re.split(r"^\w[^\n]*:.*$", code.stdout.split("define hidden", 1)[1], flags=re.M)
        self.assertLess(max(block.count("\n") for block in blocks), 1000)
        parts = re.findall(r"^define hidden .*part.*", code.stdout, re.M)
        self.assertTrue(parts)
        self.assertLess(max(part.count("ptr %") for part in parts), 200)

    def test_ways_that_fail(self):
        """Each lets go of what is owned there, and has no code for each of it: else this is five times as long."""
        with tempfile.NamedTemporaryFile("w", suffix=".rly") as file:
            file.write(alive(540))
            file.flush()
            code = subprocess.run([RELAY, "compile", "--emit", "llvm-ir", "--entry", "all", file.name], capture_output=True, text=True)
        self.assertEqual(code.returncode, 0, code.stderr)
        self.assertLess(len(code.stdout), 540 * 6000)

    def test_limit(self):
        """In the middle of making code the limit is heard: what is left to do then is a small part of the whole."""
        text = tensors(6000)
        start = time.monotonic()
        self.assertEqual(self.run_text(text, "--no-cache").returncode, 0)
        whole = time.monotonic() - start
        start = time.monotonic()
        ended = self.run_text(text, "--no-cache", "--time-limit", f"{whole / 4:.3f}")
        self.assertIn("E0502", ended.stderr)
        self.assertEqual(ended.returncode, 3)
        self.assertLess(time.monotonic() - start, 15)


if __name__ == "__main__":
    unittest.main()
