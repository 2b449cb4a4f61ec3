"""Kernels for a GPU as `compile --emit ptx` writes them: what is launched is said in front of the text. gpu/assemble_test.py gives the texts to
NVIDIA's assembler."""

import os
import re
import subprocess
import unittest

RELAY = os.environ.get("RELAY", "build/release/relay")
TARGETS = ("sm_80", "sm_90", "sm_90a")
HEADER = '#[version = "0.0.5"]\n'


def main(params, body):
    return f"{HEADER}def @main({', '.join(f'%{n}: {t}' for n, t in params.items())}) {{ {body} }}\n"


def tensor(dtype, *shape):
    return f"Tensor[({', '.join(map(str, shape))}), {dtype}]"


def ptx_of(text, *options):
    run = subprocess.run([RELAY, "compile", "-", "--emit", "ptx", *options], input=text, capture_output=True, text=True)
    return run.stdout, run.stderr


class Ptx(unittest.TestCase):
    def test_record(self):
        out, err = ptx_of(main({"x": tensor("float32", 64, 1024)}, "nn.relu(add(%x, 1f))"))
        self.assertEqual(err, "")
        self.assertRegex(out, r"^// run 1: 1 arguments, 1 results, 0 bytes for itself\n"
                         r"//   (\w+), grid 64 1 1, block 256 1 1, shared 0: argument 0, result 0\n")
        self.assertRegex(out, r"\.visible \.entry add_relu_1\(")
        self.assertIn(".maxntid 256, 1, 1", out)
        self.assertIn("ld.global.v4.f32", out)
        self.assertIn("st.global.v4.f32", out)

    def test_kernels_are_shared(self):
        out, _ = ptx_of(main({"x": tensor("float32", 8, 8)}, "let %a = sum(%x, axis=[1]); let %b = exp(%a); sum(outer(%b), axis=[1])")
                        .replace("outer(%b)", "multiply(%x, %b)"), "-O", "0")
        entries = re.findall(r"\.entry (\w+)\(", out)
        launches = re.findall(r"^//   (\w+), grid", out, re.M)
        self.assertEqual(len(launches), 4)
        self.assertEqual(len(set(launches)), 3, "two equal sums are one kernel")
        self.assertEqual(sorted(set(launches)), sorted(entries))

    def test_targets(self):
        text = main({"x": tensor("float32", 4)}, "exp(%x)")
        for target in TARGETS:
            out, err = ptx_of(text, "--target", target)
            self.assertEqual(err, "")
            self.assertIn(f".target {target}\n", out)
        out, err = ptx_of(text, "--target", "sm_12")
        self.assertEqual(out, "")
        self.assertIn("error[E0402]", err)
        self.assertIn("sm_90a", err)


if __name__ == "__main__":
    unittest.main()
