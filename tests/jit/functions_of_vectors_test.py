"""Functions as vector code, and of doubles as code for a card: all exponents, signs, and what is special, within a few units in the last
place of the exact value."""

import math
import os
import subprocess
import tempfile
import unittest

import numpy as np

RELAY = os.environ.get("RELAY", "build/release/relay")
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1, -1, 0.5, 2, 3, -3, 8, 1000, 1e-45, -1e-45, 1e-38, 3e38, -3e38]
# Units in the last place; exact values by double precision.
FUNCTIONS = {
    "exp": (np.exp, 1.1), "log": (np.log, 1.2), "tanh": (np.tanh, 2), "sin": (np.sin, 1.9), "cos": (np.cos, 1.9),
    "tan": (np.tan, 1.6), "log2": (np.log2, 0.51), "log10": (np.log10, 0.51), "sqrt": (np.sqrt, 0.5),
    "sinh": (np.sinh, 0.51), "cosh": (np.cosh, 0.51), "asin": (np.arcsin, 1.5), "acos": (np.arccos, 1.5), "atan": (np.arctan, 1.6),
    "erf": (np.vectorize(math.erf), 2), "asinh": (np.arcsinh, 0.51), "acosh": (np.arccosh, 0.51), "atanh": (np.arctanh, 0.51),
}


def run(expression, *options, **arguments):
    with tempfile.TemporaryDirectory() as d:
        at = lambda name: os.path.join(d, name)
        params = ", ".join(f"%{k}: Tensor[({len(v)}), {v.dtype}]" for k, v in arguments.items())
        with open(at("f.rly"), "w") as f:
            f.write(f'#[version = "0.0.5"]\ndef @main({params}) {{ {expression} }}\n')
        command = [RELAY, "run", at("f.rly"), "-o", at("out.npz"), *(options or ["--exec", "jit"])]
        for k, v in arguments.items():
            np.save(at(k + ".npy"), v)
            command += ["--arg", f"{k}={at(k)}.npy"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        out = np.load(at("out.npz"))
        return out[out.files[0]]


class Functions(unittest.TestCase):
    def check(self, name, got, wanted, most, x):
        with np.errstate(all="ignore"):
            near = wanted.astype(got.dtype)
            unit = np.spacing(np.abs(near)).astype(wanted.dtype)
            error = np.abs(got.astype(wanted.dtype) - wanted) / unit
        finite = np.isfinite(near)
        same = (got == near) | (np.isnan(got) & np.isnan(near))
        self.assertTrue(same[~finite].all(), f"{name} of {x[~finite][~same[~finite]][:5]}")
        signs = np.signbit(got) == np.signbit(near)
        self.assertTrue(signs[~np.isnan(near)].all(), f"{name}: signs")
        worst = np.argmax(np.where(finite, error, 0))
        self.assertLessEqual(error[worst], most, f"{name} of {x[worst]}")

    def test_functions(self):
        r = np.random.default_rng(1)
        any_bits = r.integers(0, 2**32, 1 << 16, dtype=np.uint64).astype(np.uint32).view(np.float32)
        x = np.concatenate([any_bits, r.uniform(-12, 12, 1 << 16), r.uniform(-1, 1, 1 << 16), r.uniform(-2e5, 2e5, 1 << 16),
                            SPECIAL]).astype(np.float32)
        for name, (exact, most) in FUNCTIONS.items():
            with self.subTest(name), np.errstate(all="ignore"):
                self.check(name, run(f"{name}(%x)", x=x), exact(x.astype(np.float64)), most, x)

    def test_power(self):
        r = np.random.default_rng(2)
        n = 1 << 15
        x = np.concatenate([r.uniform(0, 10, n), r.lognormal(0, 5, n), -np.round(r.uniform(0, 10, n)), np.repeat(SPECIAL, len(SPECIAL))])
        y = np.concatenate([r.uniform(-10, 10, n), r.normal(0, 5, n), np.round(r.uniform(-9, 9, n)), np.tile(SPECIAL, len(SPECIAL))])
        x, y = x.astype(np.float32), y.astype(np.float32)
        with np.errstate(all="ignore"):
            self.check("power", run("power(%x, %y)", x=x, y=y), np.power(x.astype(np.float64), y.astype(np.float64)), 0.53, x)

    def test_doubles(self):
        """Beside 64 bits of a number's digits; on the stand-in for a card, too."""
        most = {"exp": 1.1, "log": 1, "log2": 1, "log10": 1, "erf": 2.1, "sin": 2.3, "cos": 2.3, "tan": 3.3, "atan": 1.6}
        r = np.random.default_rng(6)
        special = [float(v) for v in SPECIAL] + [5e-324, -5e-324, 1e-308, 1.7e308, -1.7e308, math.pi, -math.pi / 2, 1e22, -1e300]
        # Enough of them for the card's threads to take two at once.
        for engine, n in ("jit", 1 << 14), ("gpu", 1 << 13):
            x = np.concatenate([r.integers(0, 2**64, n, dtype=np.uint64).view(np.float64), r.uniform(-40, 40, n), r.uniform(-1, 1, n),
                                r.uniform(-800, 800, n), r.uniform(-1e10, 1e10, n), special])
            x = x[len(x) % 2 :]
            for name, (exact, _) in FUNCTIONS.items():
                if name == "sqrt":
                    continue
                with self.subTest(name, engine=engine), np.errstate(all="ignore"):
                    wanted = exact(x if name == "erf" else x.astype(np.longdouble)).astype(np.longdouble)
                    self.check(name, run(f"{name}(%x)", "--exec", engine, x=x), wanted, most.get(name, 2.6), x)
            x = np.concatenate([r.uniform(0, 10, n), r.lognormal(0, 40, n), -np.round(r.uniform(0, 10, n)), np.repeat(special, len(special))])
            y = np.concatenate([r.uniform(-50, 50, n), r.normal(0, 5, n), np.round(r.uniform(-9, 9, n)), np.tile(special, len(special))])
            with self.subTest("power", engine=engine), np.errstate(all="ignore"):
                wanted = np.power(x.astype(np.longdouble), y.astype(np.longdouble))
                self.check("power", run("power(%x, %y)", "--exec", engine, x=x, y=y), wanted, 2.6, x)

    def test_divide(self):
        x = np.concatenate([np.random.default_rng(3).normal(0, 100, 1 << 12), SPECIAL]).astype(np.float32)
        for by, most in (("3", 1.5), ("49", 1.5), ("-0.25", 0.5), ("1e-40", 0.5), ("3e38", 1.5)):
            with self.subTest(by), np.errstate(all="ignore"):
                exact = x.astype(np.float64) / np.float64(np.float32(by))
                self.check("divide", run(f"divide(%x, {by}f)", x=x), exact, most, x)
                self.check("divide", run(f"divide(%x, {by}f)", "--exec", "jit", "--exact", x=x), exact, 0.5, x)

    def test_casts(self):
        r = np.random.default_rng(5)
        any_bits = r.integers(0, 2**32, 1 << 10, dtype=np.uint64).astype(np.uint32).view(np.float32)
        # Vectors of numbers that fit in 32 bits, of some that do not, and of anything.
        x = np.concatenate([r.uniform(-300, 300, 1 << 10), r.uniform(-(2.0**31), 2.0**31, 1 << 10), r.normal(0, 2.0**31, 1 << 10),
                            [2.0**31, -(2.0**31), 2.0**31 - 128, 2.0**63, -(2.0**63)], any_bits, SPECIAL]).astype(np.float32)
        fits = (x >= -(2.0**63)) & (x < 2.0**63)
        whole = np.where(fits, np.trunc(np.where(fits, x, 0).astype(np.float64)).astype(np.int64), np.iinfo(np.int64).min)
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64"):
            with self.subTest(dtype):
                np.testing.assert_array_equal(run(f'cast(%x, dtype="{dtype}")', x=x), whole.astype(dtype))

    def test_halves(self):
        """Each function of 16-bit floats is rounded, as NumPy rounds it: also of what is subnormal, too great, or no number."""
        bits = np.random.default_rng(6).integers(0, 2**16, (2, 1 << 16), dtype=np.uint16)
        x, y = bits.view(np.float16)
        with np.errstate(all="ignore"):
            wanted = {"add": x + y, "subtract": x - y, "multiply": x * y}
            wanted["add(multiply(%x, %y), %y)"] = x * y + y
        for name, value in wanted.items():
            with self.subTest(name):
                np.testing.assert_array_equal(run(name if "(" in name else f"{name}(%x, %y)", x=x, y=y), value)

    def test_softmax_in_place(self):
        x = np.random.default_rng(4).normal(0, 10, (7, 100)).astype(np.float32)
        x[2, 50], x[3, :], x[4, 60:] = np.nan, -np.inf, -np.inf
        with np.errstate(all="ignore"):
            e = np.exp(x.astype(np.float64) - x.astype(np.float64).max(axis=1, keepdims=True))
            wanted = e / e.sum(axis=1, keepdims=True)
        got = run("nn.softmax(reshape(%x, newshape=[7, 100]))", x=x.ravel())
        np.testing.assert_allclose(got, wanted, rtol=1e-5)


if __name__ == "__main__":
    unittest.main()
