"""Deep, wide and broken texts: each ends with an answer or a limit's diagnostic, soon, and twice the text takes about twice
the time.

    python3 tests/parse/depth_test.py                       the test
    python3 tests/parse/depth_test.py --size 1000000 --most 2 [--only WORD] [--verb fmt,check]
                                                            a table of times at a quarter, a half and the whole size

Every program runs on a stack of 8 MiB.
# LABELS: slow
"""

import argparse
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
HEADER = '#[version = "0.0.5"]\n'
VERBS = {
    "fmt": ["fmt"],
    "check": ["check"],
    "run": ["run", "--exec", "interp"],
    "anf": ["opt", "-p", "ToANormalForm"],
    "gnf": ["opt", "-p", "ToGraphNormalForm"],
    "bbnf": ["opt", "-p", "ToBasicBlockNormalForm"],
    "fold": ["opt", "-p", "FoldConstant"],
    "dce": ["opt", "-p", "DeadCodeElimination"],
    "cse": ["opt", "-p", "EliminateCommonSubexpr"],
    "fuse": ["opt", "-p", "FuseOps"],
    "lift": ["opt", "-p", "LambdaLift"],
    "simplify": ["opt", "-p", "SimplifyExpr"],
}
FIRST, MOST_ERRORS = ("fmt", "check", "run", "anf"), 110
STRICT = os.environ.get("RELAY_STRICT") == "1"
SIZE, SECONDS = 20_000, 1
BYTES_A_BYTE = 60


def main(body, params="%x: int32", before=""):
    return f"{HEADER}{before}def @main({params}) {{\n{body}\n}}\n"


def nest(n, left, inner, right):
    return left * n + inner + right * n


DEEP = {
    "parens": lambda n: main(nest(n, "(", "1", ")"), ""),
    "calls": lambda n: main(nest(n, "negative(", "1", ")"), ""),
    "curried": lambda n: main("%f" + "(1)" * n, "%f: fn (int32) -> int32"),
    "tuple types": lambda n: main("1", "%x: " + nest(n, "(", "int32", ",)")),
    "function types": lambda n: main("1", "%x: " + "fn (int32) -> " * n + "int32"),
    "type arguments": lambda n: main("1", "%x: " + nest(n, "L[", "int32", "]"), "type L[A] { C(A) }\n"),
    "ref types": lambda n: main("1", "%x: " + nest(n, "ref(", "int32", ")")),
    "patterns": lambda n: main("match (%x) { " + nest(n, "S(", "_", ")") + " => 1, _ => 2 }", "%x: N",
                               "type N { Z, S(N) }\n"),
    "tuple patterns": lambda n: main("match (%x) { " + nest(n, "(", "%y", ",)") + " => 1 }", "%x: int32"),
    "ifs": lambda n: main(nest(n, "if (True) { ", "1", " } else { 2 }"), ""),
    "else ifs": lambda n: main("if (True) { 1 } else " * n + "{ 2 }", ""),
    "conditions": lambda n: main(nest(n, "if (", "True", ") { True } else { False }"), ""),
    "lets": lambda n: main("let %a = 1;\n" * n + "%a", ""),
    "lets in values": lambda n: main(nest(n, "let %a = (", "1", "); %a"), ""),
    "lets without parens": lambda n: main("let %a = " * n + "1" + "; %a" * n, ""),
    "blocks": lambda n: main(nest(n, "{ ", "1", " }"), ""),
    "tuples": lambda n: main(nest(n, "(", "1", ",)"), ""),
    "lists": lambda n: main("zeros(shape=" + nest(n, "[", "1", "]") + ', dtype="float32")', ""),
    "functions": lambda n: main(nest(n, "fn () { ", "1", " }"), ""),
    "functions with parameters": lambda n: main(nest(n, "fn (%a: int32) { ", "%a", " }"), ""),
    "matches": lambda n: main(nest(n, "match (%x) { _ => ", "1", " }")),
    "scrutinees": lambda n: main(nest(n, "match (", "1", ") { %a => %a }"), ""),
    "sequences": lambda n: main("(); " * n + "1", ""),
    "operators": lambda n: main("1" + " + 1" * n, ""),
    "operators to the right": lambda n: main(nest(n, "1 + (", "1", ")"), ""),
    "projections": lambda n: main("%x" + ".0" * n, "%x: (int32,)"),
    "references": lambda n: main(nest(n, "ref(", "1", ")"), ""),
    "reads": lambda n: main(nest(n, "ref_read(", "%x", ")"), "%x: ref(int32)"),
    "comments": lambda n: nest(n, "/*", "", "*/") + main("1", ""),
    "graph": lambda n: main("%0 = 1;\n" + "".join(f"%{i} = negative(%{i - 1});\n" for i in range(1, n)) + f"%{n - 1}",
                            ""),
    "shared": lambda n: main("%0 = 1;\n" + "".join(f"%{i} = add(%{i - 1}, %{i - 1});\n" for i in range(1, n)) +
                             f"%{n - 1}", ""),
    "lets of sums": lambda n: main("let %v0 = 1;\n" + "".join(f"let %v{i} = add(%v{i - 1}, 1);\n" for i in range(1, n))
                                   + f"%v{n - 1}", ""),
    "closures": lambda n: main(nest(n, "(fn (%a: int32) { ", "%a", " })(1)"), ""),
    "lines that move out": lambda n: main(
        "%0 = negative(%x); " + nest(n, "(if (True) { %f(", "multiply(%0, 2)", "); %f } else { %f })(3)")[:-2] + "negative(%0))",
        "%x: int32, %f: fn (int32) -> int32"),
    "constructors": lambda n: main(nest(n, "S(", "Z", ")"), "", "type N { Z, S(N) }\n"),
}

WIDE = {
    "arguments": lambda n: main("@f(" + "1, " * n + "1)", "", "def @f(%x: int32) { %x }\n"),
    "parameters": lambda n: main("1", ", ".join(f"%a{i}: int32" for i in range(n))),
    "parameter twice": lambda n: main("1", ", ".join(f"%a{i % (n // 2)}: int32" for i in range(n))),
    "type parameters": lambda n: HEADER + "def @f[" + ", ".join(f"A{i}" for i in range(n)) + "](%x: int32) { %x }\n",
    "fields": lambda n: main("(" + "1, " * n + ")", ""),
    "fields of calls": lambda n: main("(" + "negative(1), " * n + ")", ""),
    "definitions": lambda n: HEADER + "".join(f"def @f{i}() {{ {i} }}\n" for i in range(n)),
    "chain of definitions": lambda n: HEADER + "def @f0() { 1 }\n" + "".join(
        f"def @f{i}() {{ @f{i - 1}() }}\n" for i in range(1, n)),
    "mutual definitions": lambda n: HEADER + "".join(
        f"def @f{i}(%x: int32) -> int32 {{ @f{(i + 1) % n}(%x) }}\n" for i in range(n)),
    "one definition again": lambda n: HEADER + "def @f() { 1 }\n" * n,
    "clauses": lambda n: main("match (%x) { " + "_ => 1, " * n + "}"),
    "clauses of constructors": lambda n: main(
        "match (%x) { " + "".join(f"C{i} => 1, " for i in range(n)) + "}", "%x: T",
        "type T { " + "".join(f"C{i}, " for i in range(n)) + "}\n"),
    "constructors of a type": lambda n: HEADER + "type T { " + "".join(f"C{i}(int32), " for i in range(n)) + "}\n",
    "constructor twice": lambda n: HEADER + "type T { " + "C, " * n + "}\n",
    "types": lambda n: HEADER + "".join(f"type T{i} {{ C{i} }}\n" for i in range(n)),
    "fields of a constructor": lambda n: HEADER + "type T { C(" + "int32, " * n + ") }\n",
    "fields of a pattern": lambda n: main("match (%x) { (" + "".join(f"%p{i}, " for i in range(n)) + ") => 1 }"),
    "variables of a pattern": lambda n: main("match (%x) { (" + "%p, " * n + ") => 1 }"),
    "dimensions": lambda n: main("%x", "%x: Tensor[(" + "1, " * n + "), float32]"),
    "tuple type": lambda n: main("%x", "%x: (" + "int32, " * n + ")"),
    "list": lambda n: main("reshape(%x, newshape=[" + "1, " * n + "])"),
    "attributes": lambda n: main("fn (%y: int32, " + ", ".join(f"a{i}={i}" for i in range(n)) + ") { %y }"),
    "attribute twice": lambda n: main("cast(1" + ', dtype="int32"' * n + ")", ""),
    "attributes of a call": lambda n: main("%f(1, " + "".join(f"a{i}={i}, " for i in range(n)) +
                                           'attrs_type_key="k")', "%f: fn (int32) -> int32"),
    "names": lambda n: main("".join(f"let %a{i} = 1;\n" for i in range(n)) + "1", ""),
    "one name": lambda n: main("fn (%a: int32) { %a };\n" * n + "1", ""),
    "identifier": lambda n: main("%" + "a" * (50 * n), "%" + "a" * (50 * n) + ": int32"),
    "string": lambda n: main('fn (%y: int32, k="' + "s" * (50 * n) + '") { %y }'),
    "number": lambda n: main("1" * (50 * n), ""),
    "float": lambda n: main("1." + "1" * (50 * n) + "f", ""),
    "comment": lambda n: main("/* " + "c" * (50 * n) + " */ 1", ""),
    "line comment": lambda n: main("// " + "c" * (50 * n) + "\n1", ""),
    "blanks": lambda n: main(" " * (50 * n) + "1", ""),
    "operator name": lambda n: main("a" * (50 * n) + "(1)", ""),
    "dotted name": lambda n: main("a" + ".a" * n, ""),
    "dotted name apart": lambda n: main("a" + " . a" * n, ""),
}

BROKEN = {
    "unknown variables": lambda n: main("".join(f"%u{i}; " for i in range(n)) + "1", ""),
    "unknown operators": lambda n: main("".join(f"op{i}(); " for i in range(n)) + "1", ""),
    "unknown graph variables": lambda n: main("".join(f"%{i}; " for i in range(n)) + "1", ""),
    "unknown functions": lambda n: main("".join(f"@u{i}(); " for i in range(n)) + "1", ""),
    "unknown types": lambda n: main("1", ", ".join(f"%a{i}: U{i}" for i in range(n))),
    "unknown constructors": lambda n: main("match (%x) { " + "".join(f"U{i} => 1, " for i in range(n)) + "}"),
    "unknown attributes": lambda n: main("".join(f"negative(1, k{i}=1); " for i in range(n)) + "1", ""),
    "wrong types": lambda n: main("".join(f"add({i}, ({i},)); " for i in range(n)) + "1", ""),
    "mismatches": lambda n: main("".join(f"let %a{i}: float32 = {i};\n" for i in range(n)) + "1", ""),
    "numbers": lambda n: main("1.0; " * n + "1", ""),
    "characters": lambda n: HEADER + "$" * n,
    "characters in names": lambda n: main("%\u00e4; " * n + "1", ""),
    "characters apart": lambda n: HEADER + "$ " * n,
    "quotes": lambda n: HEADER + '"\n' * n,
    "semicolons": lambda n: main("; " * n + "1", ""),
    "commas": lambda n: main(", " * n, ""),
    "lets without values": lambda n: main("let %a = ; " * n + "1", ""),
    "lets unfinished": lambda n: main("let %a = " * n, ""),
    "lets unfinished, in parens": lambda n: main("let %a = (" * n, ""),
    "lets unfinished, in lines": lambda n: main("let %a = (1\n" * n, ""),
    "lets unfinished, named": lambda n: main("".join(f"let %a{i} = ({'%b'}{i};\n" for i in range(n)), ""),
    "lets of themselves": lambda n: main("".join(f"let %a{i} = (%a{i}, \n" for i in range(n)), ""),
    "ifs without else": lambda n: main(nest(n, "if (True) { ", "1", " }"), ""),
    "definitions without bodies": lambda n: HEADER + "def @f(%x)\n" * n,
    "definitions unclosed": lambda n: HEADER + "def @f(%x) { add(%x, \n" * n,
    "types unclosed": lambda n: HEADER + "type T { C(\n" * n,
    "matches unclosed": lambda n: main("match (1) { _ => add(1, ] " * n, ""),
    "brackets in turn": lambda n: main("({[" * n, ""),
    "parens and brackets": lambda n: main("(] " * n, ""),
    "calls and semicolons": lambda n: main("f(; " * n, ""),
    "errors in nested parens": lambda n: main("(!, " * n, ""),
    "errors in nested blocks": lambda n: main("{ !; " * n, ""),
    "errors in nested calls": lambda n: main("add(!, " * n + "1" + ")" * n, ""),
    "errors in nested braces": lambda n: main("{ let %a = (; " * n + "1" + "}" * n, ""),
    "functions unclosed": lambda n: main("fn (%a) { add(%a, ; " * n, ""),
    "comments unclosed": lambda n: HEADER + "/*" * n,
    "marks": lambda n: HEADER + "#[a]\n" * n,
    "metadata unknown": lambda n: main("meta[relay.Constant][0]; " * n + "1", ""),
    "metadata": lambda n: main("1", "") + "\n#[metadata]\n" + "[" * n,
    "metadata, objects": lambda n: main("meta[relay.Constant][0]", "") + "\n#[metadata]\n" + '{"a":' * n,
    "infinite types": lambda n: main("fn (%f) { " * n + "%f(%f)" + "}" * n, ""),
}


def breaks(deep):
    """The same texts, never closed, closed once too often, and with a wrong bracket in the middle."""
    out = {}
    for name, make in deep.items():
        def never(n, make=make):
            text = make(n)
            cut = max(text.rfind(c, 0, -2) for c in ")]};=")
            middle = text.find("1", len(HEADER) + 20)
            return text[:middle + 1] if middle > 0 else text[:cut]

        def often(n, make=make):
            return make(n)[:-2] + ")\n}\n"

        def wrong(n, make=make):
            text = make(n)
            at = max(text.find(c, len(text) // 2) for c in ")]}")
            return text if at < 0 else text[:at] + {")": "]", "]": "}", "}": ")"}[text[at]] + text[at + 1:]
        out.update({f"{name}: never closed": never, f"{name}: closed too often": often,
                    f"{name}: wrong bracket": wrong})
    return out


GROUPS = {"deep": DEEP, "wide": WIDE, "broken": BROKEN, "torn": breaks(DEEP)}


def limited(most):
    def limit():
        resource.setrlimit(resource.RLIMIT_STACK, (8 << 20, 8 << 20))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (int(most), int(most)))
    return limit


def run(path, verb, most):
    """Seconds of the processor, exit status or "slow", number of errors, bytes of memory."""
    args = [RELAY, *VERBS[verb][:1], path, *VERBS[verb][1:]]
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen(args, stdout=subprocess.DEVNULL, stderr=errors, preexec_fn=limited(most))
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        spent = used.ru_utime + used.ru_stime
        errors.seek(0)
        text = errors.read(1 << 22)
    code = "slow" if child.returncode in (-9, -24) else child.returncode
    return spent, code, text.count(b"\nerror[") + text.startswith(b"error["), used.ru_maxrss << 10


def table(args):
    sizes = [args.size // 4, args.size // 2, args.size]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "text.rly")
        for group, cases in GROUPS.items():
            for name, make in cases.items():
                if args.only not in f"{group}: {name}":
                    continue
                rows = {verb: [] for verb in args.verb.split(",")}
                for size in sizes:
                    with open(path, "w", encoding="utf-8", newline="") as file:
                        file.write(make(size))
                    for verb, row in rows.items():
                        if row and row[-1][1] == "slow":
                            row.append((args.most * 4, "slow", 0, 0))
                        else:
                            row.append(run(path, verb, args.most * 4))
                for verb, row in rows.items():
                    times = " ".join(f"{spent:6.2f}" for spent, *_ in row)
                    base = max(row[1][0], 0.05)
                    ok = row[2][1] in (0, 1, 3) and row[2][0] <= args.most and row[2][2] <= MOST_ERRORS
                    note = "" if ok else "  <-- BAD"
                    if row[2][0] / base > 2.6:
                        note += "  <-- superlinear"
                    print(f"{group + ': ' + name:48} {verb:8} {times}  {row[2][3] >> 20:5} MiB exit {row[2][1]} errors {row[2][2]}{note}",
                          flush=True)
    return 0


class Texts(unittest.TestCase):
    """Whatever costs the square of the size takes far more than a second here."""

    def ends(self, group, verbs):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text.rly")
            for name, make in GROUPS[group].items():
                with open(path, "w", encoding="utf-8", newline="") as file:
                    file.write(make(SIZE))
                for verb in verbs:
                    with self.subTest(f"{group}: {name}: {verb}"):
                        spent, code, errors, _ = run(path, verb, 3 * SECONDS)
                        self.assertIn(code, (0, 1, 3))
                        self.assertLess(spent, SECONDS)
                        self.assertLessEqual(errors, MOST_ERRORS)
                        if group == "torn":
                            self.assertNotEqual(code, 0)

    def test_deep(self):
        self.ends("deep", FIRST)

    def test_wide(self):
        self.ends("wide", ("fmt", "check"))

    def test_broken(self):
        self.ends("broken", ("fmt", "check"))

    def test_torn(self):
        self.ends("torn", ("fmt",))

    def test_memory(self):
        """Text of ten megabytes is read and printed in a bounded multiple of its size."""
        lines = 10_000_000 // 40
        text = main("let %v0 = 1;\n" + "".join(f"let %v{i} = add(%v{i - 1}, %v{i // 2});\n" for i in range(1, lines)) +
                    "%v1", "")
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text.rly")
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            _, code, _, memory = run(path, "fmt", 20)
        print(f"{memory / len(text):.1f} bytes of memory for a byte of text")
        self.assertEqual(code, 0)
        self.assertLess(memory, BYTES_A_BYTE * len(text))

    def test_endless(self):
        """A device that never ends is no text."""
        with open("/dev/zero", "rb") as zero:
            done = subprocess.run([RELAY, "fmt", "-"], stdin=zero, capture_output=True, check=False)
        self.assertEqual(done.returncode, 3)
        self.assertIn(b"cannot be read", done.stderr)

    def test_interrupt(self):
        """An interrupt ends reading, checking and printing of a large text at once."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "text.rly")
            with open(path, "w", encoding="ascii") as file:
                file.write(DEEP["lets of sums"](400_000))
            for verb in ("fmt", "check"):
                for wait in (0.1, 0.2, 0.4):
                    with self.subTest(f"{verb} after {wait}"):
                        child = subprocess.Popen([RELAY, verb, path], stdout=subprocess.DEVNULL,
                                                 stderr=subprocess.PIPE)
                        time.sleep(wait)
                        child.send_signal(signal.SIGINT)
                        started = time.perf_counter()
                        child.communicate(timeout=60)
                        spent = time.perf_counter() - started
                        print(f"{verb}, interrupted after {wait} s: ends after {1000 * spent:.0f} ms")
                        if child.returncode == 0:
                            continue
                        self.assertEqual(child.returncode, 3)
                        self.assertLess(spent, 0.1 if STRICT else 3)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--most", type=float, default=2.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--verb", default=",".join(FIRST))
    arguments, rest = parser.parse_known_args()
    if arguments.size:
        sys.exit(table(arguments))
    unittest.main(argv=sys.argv[:1] + rest)
