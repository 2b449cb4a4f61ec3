"""Products and convolutions of small integers, of odd shapes and with least and greatest numbers among them: compiled code gives what
the evaluator gives, whether weights are known when code is made or not. Quotients are what Python says."""

import ctypes
import json
import math
import os
import random
import struct
import subprocess
import tempfile
import unittest
import zipfile

RELAY = os.environ.get("RELAY", "build/release/relay")
TYPES = {"int8": ("|i1", "b", -128, 127), "uint8": ("|u1", "B", 0, 255), "int16": ("<i2", "h", -32768, 32767),
         "uint16": ("<u2", "H", 0, 65535), "int32": ("<i4", "i", -2**31, 2**31 - 1), "uint32": ("<u4", "I", 0, 2**32 - 1),
         "int64": ("<i8", "q", -2**63, 2**63 - 1), "uint64": ("<u8", "Q", 0, 2**64 - 1)}


def npy(dice, dtype, shape):
    """The bytes of a NumPy file of numbers of the dice."""
    _, _, least, most = TYPES[dtype]
    extreme = dice.random() < 0.3
    return npy_of(dtype, shape, [dice.choice([least, most]) if extreme else dice.randint(least, most) for _ in range(math.prod(shape))])


def npy_of(dtype, shape, values):
    descr, code, _, _ = TYPES[dtype]
    head = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': ({', '.join(map(str, shape))},), }}"
    head += " " * (63 - (10 + len(head)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(values)}{code}", *values)


def dense(dice):
    m, n, k = dice.randint(1, 40), dice.randint(8, 70), dice.randint(5, 70)
    return (m, k), (n, k), f'nn.dense(%x, %w, units={n}, out_dtype="int32")'


def batch_matmul(dice):
    b, m, n, k = dice.randint(1, 3), dice.randint(8, 20), dice.randint(16, 40), dice.randint(8, 40)
    return (b, m, k), (b, n, k), 'nn.batch_matmul(%x, %w, transpose_b=True, out_dtype="int32")'


def conv2d(dice):
    groups = dice.choice([1, 1, 1, 2, 5])
    ic, oc = dice.randint(1, 9) * groups, dice.randint(8, 36) * groups
    if dice.random() < 0.25:
        groups = ic = oc = dice.randint(2, 20)
    taps = [dice.randint(1, 3), dice.randint(1, 3)]
    x = (dice.randint(1, 2), ic, dice.randint(6, 20), dice.randint(6, 20))
    strides, padding = [dice.randint(1, 2), dice.randint(1, 2)], [dice.randint(0, 2) for _ in range(4)]
    return x, (oc, ic // groups, *taps), (f"nn.conv2d(%x, %w, strides={strides}, padding={padding}, groups={groups}, channels={oc}, "
                                          f'kernel_size={taps}, out_dtype="int32")')


def dense_wide(dice):
    """Sums that fill registers of matrices, where the processor has them, and some that do not."""
    m, n, k = dice.randint(10, 70), dice.randint(20, 100), dice.randint(60, 300)
    return (m, k), (n, k), f'nn.dense(%x, %w, units={n}, out_dtype="int32")'


def conv2d_wide(dice):
    groups = dice.choice([1, 1, 2])
    ic, oc, taps = dice.randint(20, 90) * groups, dice.randint(10, 50) * groups, [dice.randint(1, 3), dice.randint(1, 5)]
    x = (dice.randint(1, 2), ic, dice.randint(5, 9), dice.randint(6, 40))
    return x, (oc, ic // groups, *taps), (f"nn.conv2d(%x, %w, strides=[{dice.randint(1, 2)}, 1], padding={[dice.randint(0, 2) for _ in range(4)]}, "
                                          f"dilation=[{dice.randint(1, 2)}, 1], groups={groups}, channels={oc}, kernel_size={taps}, "
                                          f'out_dtype="int32")')


def depthwise(dice):
    """Windows of one word a row and of several, of each channel on its own."""
    channels, taps, dilation = dice.choice([2, 3, 5, 8, 16, 40]), [dice.randint(1, 5), dice.randint(1, 9)], [dice.randint(1, 2), dice.randint(1, 3)]
    reach = [(t - 1) * d + 1 for t, d in zip(taps, dilation)]
    # Rows of bytes may be no longer than their window; there may be no image.
    x = (dice.choice([0, 1, 1, 1, 2]), channels, reach[0] + dice.randint(0, 12), reach[1] + dice.choice([0, 1, 2, 6, 7, 13, 16, 31, 40]))
    strides, padding = [dice.randint(1, 3), dice.randint(1, 5)], [dice.randint(0, 4) for _ in range(4)]
    return x, (channels, 1, *taps), (f"nn.conv2d(%x, %w, strides={strides}, padding={padding}, dilation={dilation}, groups={channels}, "
                                     f'channels={channels}, kernel_size={taps}, out_dtype="int32")')


def conv1d(dice):
    groups = dice.choice([1, 1, 2])
    ic, oc, taps = dice.randint(1, 9) * groups, dice.randint(8, 36) * groups, dice.randint(1, 9)
    if dice.random() < 0.25:
        groups = ic = oc = dice.randint(2, 20)
    x, strides = (dice.randint(1, 3), ic, dice.randint(10, 60)), dice.randint(1, 3)
    padding = [dice.randint(0, 4), dice.randint(0, 4)]
    return x, (oc, ic // groups, taps), (f"nn.conv1d(%x, %w, strides=[{strides}], padding={padding}, groups={groups}, channels={oc}, "
                                         f'kernel_size=[{taps}], out_dtype="int32")')


class Integers(unittest.TestCase):
    def answer(self, program, engine, *options, cpu=os.environ.get("RELAY_CPU", "")):
        run = subprocess.run([RELAY, "run", program, "--exec", engine, "--json", *options], capture_output=True, text=True, timeout=300,
                             env={**os.environ, "RELAY_CPU": cpu})
        self.assertEqual(run.returncode, 0, run.stderr + run.stdout)
        self.assertNotIn("W0701", run.stderr)
        return json.loads(run.stdout)

    def check(self, make, seed, **limit):
        dice = random.Random(seed)
        types = dice.choice(["int8", "uint8", "int8", "uint8", "int16"]), dice.choice(["int8", "uint8", "int8", "int16"])
        x, w, call = make(dice)
        with tempfile.TemporaryDirectory() as room:
            program, params = os.path.join(room, "p.rly"), os.path.join(room, "w.npz")
            data, weights = os.path.join(room, "x.npy"), os.path.join(room, "w.npy")
            with open(program, "w") as file:
                file.write(f'#[version = "0.0.5"]\ndef @main(%x: Tensor[{x}, {types[0]}], %w: Tensor[{w}, {types[1]}]) '
                           f"{{ let %y = {call}; right_shift(add(%y, 9), 1) }}\n")
            with open(data, "wb") as file:
                file.write(npy(dice, types[0], x))
            bits = npy(dice, types[1], w)
            with open(weights, "wb") as file:
                file.write(bits)
            with zipfile.ZipFile(params, "w") as archive:
                archive.writestr("w.npy", bits)
            wanted = self.answer(program, "interp", "--arg", f"x={data}", "--arg", f"w={weights}")
            given = ["--params", params] if seed % 2 else ["--arg", f"w={weights}"]
            self.assertEqual(self.answer(program, "jit", "--arg", f"x={data}", *given, **limit), wanted, f"seed {seed}: {call} {types} {x}")

    def test_dense(self):
        for seed in range(16):
            self.check(dense, seed)

    def test_wide(self):
        for seed in range(1, 25, 2):
            self.check(dense_wide, seed)
            self.check(conv2d_wide, seed)

    def test_limited(self):
        """Without registers of matrices, and without all since AVX2."""
        for cpu in ("avx512", "avx2"):
            self.check(dense_wide, 1, cpu=cpu)
            self.check(conv2d_wide, 1, cpu=cpu)

    def test_rows_of_threads(self):
        """Each thread has rows of its own, the last of which do not fill a register."""
        for rows in (450, 418, 322):
            self.check(lambda dice: ((rows, 128), (64, 128), 'nn.dense(%x, %w, units=64, out_dtype="int32")'), 1)

    def test_views(self):
        """The loops and the assembly that are shown have registers of matrices where the system lets a process use them."""
        with open("/proc/cpuinfo") as file:
            there = " amx_int8" in file.read() and ctypes.CDLL(None).syscall(158, 0x1023, 18) == 0
        there = there and os.environ.get("RELAY_CPU", "") == ""
        weights = 'cast(reshape(arange(0, 8192, 1, dtype="int32"), newshape=[64, 128]), dtype="int8")'
        product = f'fn (%x: Tensor[(96, 128), int8]) {{ nn.dense(%x, {weights}, units=64, out_dtype="int32") }}'
        run = subprocess.run([RELAY], input=f":show lowered {product}\n:show asm {product}\n", capture_output=True, text=True, timeout=300)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(("= matrix of" in run.stdout, "tdpbssd" in run.stdout), (there, there), run.stdout)

    def test_batch_matmul(self):
        for seed in range(8):
            self.check(batch_matmul, seed)

    def test_conv1d(self):
        for seed in range(24):
            self.check(conv1d, seed)

    def test_conv2d(self):
        for seed in range(24):
            self.check(conv2d, seed)

    def test_depthwise(self):
        for seed in range(1, 81, 2):
            self.check(depthwise, seed)

    def test_quotients(self):
        """Of least, greatest and neighbouring numbers, where a quotient that is rounded might be the next integer."""
        def toward_zero(x, y):
            return abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        dice = random.Random(1)
        for dtype, (_, _, least, most) in TYPES.items():
            edges = {v for e in (least, most, 0, 255, 2**15, 2**16, 2**24, 2**51, -2**51, most // 2, most // 3) for v in range(e - 3, e + 4)}
            some = sorted(v for v in edges if least <= v <= most) + [dice.randint(least, most) for _ in range(30)]
            pairs = [(x, y) for x in some for y in some if y]
            pairs += [(min(most, q * y + more), y) for y in some if y > 0 for q in (1, 2, most // y) for more in (-1, 0) if q * y + more >= least]
            wanted = [[toward_zero(x, y) for x, y in pairs], [x // y for x, y in pairs],
                      [x - toward_zero(x, y) * y for x, y in pairs], [x % y for x, y in pairs]]
            wrapped = [[(v - least) % (most - least + 1) + least for v in values] for values in wanted]
            with tempfile.TemporaryDirectory() as room:
                program, args, of = os.path.join(room, "p.rly"), [], f"Tensor[({len(pairs)}), {dtype}]"
                with open(program, "w") as file:
                    file.write(f'#[version = "0.0.5"]\ndef @main(%x: {of}, %y: {of}) '
                               "{ (divide(%x, %y), floor_divide(%x, %y), mod(%x, %y), floor_mod(%x, %y)) }\n")
                for i, name in enumerate("xy"):
                    args += ["--arg", f"{name}={os.path.join(room, name)}.npy"]
                    with open(os.path.join(room, name + ".npy"), "wb") as file:
                        file.write(npy_of(dtype, (len(pairs),), [pair[i] for pair in pairs]))
                for engine in ("interp", "jit"):
                    got = [part["data"] for part in self.answer(program, engine, *args)["tuple"]]
                    for name, a, b in zip(("divide", "floor_divide", "mod", "floor_mod"), got, wrapped):
                        wrong = [(pair, x, y) for pair, x, y in zip(pairs, a, b) if x != y]
                        self.assertFalse(wrong[:3], f"{engine} {name} of {dtype}: of what, found, wanted")


if __name__ == "__main__":
    unittest.main()
