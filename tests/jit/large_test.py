"""Wide matches and programs of many functions: compiled in time that grows with their length, in parts before which the limits are
asked, and with the answer of the evaluator."""

import os
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
        for text in (fields(3000), tensors(100), calls(3000), nested(1200), nested(30), fields(20), calls(20), functions(80, 1100), chain(4000)):
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

    def test_limit(self):
        start = time.monotonic()
        ended = self.run_text(tensors(6000), "--time-limit", "0.3")
        self.assertIn("E0502", ended.stderr)
        self.assertEqual(ended.returncode, 3)
        self.assertLess(time.monotonic() - start, 15)


if __name__ == "__main__":
    unittest.main()
