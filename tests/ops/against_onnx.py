"""The node tests of the `onnx` package, run by Relay.

    RELAY=build/release/relay .venv/bin/python tests/ops/against_onnx.py [--engine interp|jit] [--verbose] [TEST…]

Each test is a small ONNX model with inputs and expected outputs. onnx_nodes.py writes its nodes as Relay text, shape-like inputs as
attributes; many tests become one program. Prints a table: tests whose operators have a counterpart, how many of them pass, and
why the rest is left out. TEST is a name or a part of one.
"""
import argparse
import collections
import re
import sys
import warnings

import numpy as np

import peer
from onnx_nodes import LeftOut, translate

TOLERANCE = {"float16": (2e-3, 2e-3), "bfloat16": (2e-2, 2e-2), "float32": (1e-3, 1e-6), "float64": (1e-6, 1e-9)}
BATCH = 60
OPERATORS = set(peer.operators())


def testcases():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.case.node import collect_testcases
        with np.errstate(all="ignore"):
            return collect_testcases(None)


class Test(peer.Case):
    """One test: a function of its own, called with the inputs."""

    def __init__(self, case, index):
        self.name = case.name
        text, arrays, want = translate(case.model, *case.data_sets[0], f"t{index}")
        for name in re.findall(r"(?<![@%\w.])([a-z][\w.]*)\(", text.split("{", 1)[1]):
            if name not in OPERATORS:
                raise LeftOut(f"Relay has no operator `{name}`")
        holes = ", ".join(["{}"] * len(arrays))
        super().__init__(f"@t{index}({holes})", arrays, tuple(want))
        self.definition = text
        self.rtol, self.atol = case.rtol, case.atol
        if self.name.startswith("test_dft"):
            # Terms cancel: what rounding leaves is small beside the largest sum, not beside each.
            self.atol = 4 * np.finfo(np.float32).eps * max(np.abs(np.asarray(w)).max() for w in want)


def differs(test, want, v):
    want = np.asarray(want)
    if v is None:
        return ["no result here"]
    if want.shape != v.shape or want.dtype != v.dtype:
        return [f"{v.dtype}{list(v.shape)}, wanted {want.dtype}{list(want.shape)}"]
    rtol, atol = TOLERANCE.get(str(want.dtype), (0, 0))
    if not peer.is_float(want.dtype):
        good = v == want
    else:
        a, b = v.astype("float64"), want.astype("float64")
        with np.errstate(all="ignore"):
            good = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= max(atol, test.atol) + max(rtol, test.rtol) * np.abs(b))
    if good.all():
        return []
    worst = np.flatnonzero(~good.reshape(-1))[0]
    return [f"{(~good).sum()} of {good.size}: {v.reshape(-1)[worst]!r}, wanted {want.reshape(-1)[worst]!r} at {worst}"]


def main(arguments=None):
    p = argparse.ArgumentParser()
    p.add_argument("--engine", default="interp")
    p.add_argument("--verbose", action="store_true")
    p.add_argument("--part", type=int, default=1)
    p.add_argument("names", nargs="*")
    options = p.parse_args(arguments)
    tests, left_out = [], collections.Counter()
    cases = [c for c in testcases() if not options.names or any(n in c.name for n in options.names)]
    for i, case in enumerate(cases):
        if i % options.part:
            continue
        try:
            tests.append(Test(case, i))
        except LeftOut as x:
            left_out[str(x)] += 1
            if options.verbose:
                print(f"left out: {case.name}: {x}")
    failures = []
    for i in range(0, len(tests), BATCH):
        failures += peer.run_cases(tests[i:i + BATCH], options.engine, differs)
    wrong = sorted({t.name: m for t, m in failures}.items())
    for name, message in wrong:
        print(f"FAILED {name}: {message}")
    print(f"{len(tests)} node tests have counterparts, {len(tests) - len(wrong)} pass, {len(wrong)} fail; {sum(left_out.values())} are left out:")
    for why, n in left_out.most_common():
        print(f"{n:>6}  {why}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
