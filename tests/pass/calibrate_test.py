"""Quantisation by samples: the digits on small integers, by each way to say how far they reach, beside the same network on reals."""

import json
import os
import re
import subprocess
import tempfile
import unittest

import numpy

RELAY, SOURCE = os.environ["RELAY"], os.environ["RELAY_SOURCE"]
DIGITS = os.path.join(SOURCE, "examples", "digits")
FIRST_TEST, BATCH = 1347, 450


def relay(*args):
    done = subprocess.run([RELAY, *args], capture_output=True, text=True, timeout=300)
    return done.returncode, done.stdout, done.stderr


class Calibrate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="relay-calibrate-")
        cls.program, cls.samples = cls.path("scores.rly"), cls.path("samples.npz")
        with open(os.path.join(DIGITS, "digits.rly"), encoding="utf-8") as f:
            text = f.read()
        with open(cls.program, "w", encoding="utf-8") as f:      # the network alone
            f.write(text[:text.index("// The digit with the highest score")].replace("@scores", "@main"))
        with numpy.load(os.path.join(DIGITS, "digits.npz")) as data:
            images, cls.labels = data["images"], data["labels"][FIRST_TEST:]
        numpy.savez(cls.samples, batch=images[:2 * BATCH].reshape(2, BATCH, 8, 8))
        numpy.save(cls.path("test.npy"), images[FIRST_TEST:])
        with numpy.load(os.path.join(DIGITS, "weights.npz")) as weights:
            numpy.savez(cls.path("weights.npz"), **weights)
        cls.real = cls.accuracy(cls.program, "--params", cls.path("weights.npz"))

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder.name, name)

    @classmethod
    def accuracy(cls, program, *args):
        code, out, err = relay("run", program, "--json", "--arg", f"batch={cls.path('test.npy')}", *args)
        assert code == 0, err
        found = json.loads(out)
        scores = numpy.array(found["data"]).reshape(found["shape"])
        return (scores.argmax(axis=1) == cls.labels).mean()

    def quantised(self, params):
        """The program on integers, and its accuracy."""
        code, out, err = relay("opt", "-p", f"quantize{{{params}}}", self.program, "--params", self.path("weights.npz"))
        self.assertEqual(code, 0, err)
        with open(self.path("quantised.rly"), "w", encoding="utf-8") as f:
            f.write(out)
        return out, self.accuracy(self.path("quantised.rly"))

    def check(self, mode, more=""):
        text, accuracy = self.quantised(f'calibrate_mode="{mode}", skip_conv_layers=[], skip_dense_layer=False{more}')
        print(f"{mode}: {accuracy:.4f} on integers, {self.real:.4f} on reals")
        self.assertEqual(len(re.findall(r'nn.conv2d\(.*out_dtype="int32"', text)), 3)
        self.assertEqual(len(re.findall(r'nn.dense\(.*out_dtype="int32"', text)), 2)
        self.assertGreaterEqual(accuracy, self.real - 0.005)
        return text

    def test_global_scale(self):
        self.check("global_scale")

    def test_percentile(self):
        self.check("percentile", f', samples="{self.samples}"')

    def test_kl_divergence(self):
        self.check("kl_divergence", f', samples="{self.samples}"')

    def test_mean_square(self):
        text = self.check("mean_square", f', samples="{self.samples}"')
        self.assertIn("left_shift", text)

    def test_apart(self):
        """What makes integers of the images and reals of sums stands apart, and the accuracy is the same."""
        for apart in ("enabled", "fully_integral"):
            text, accuracy = self.quantised('skip_conv_layers=[], skip_dense_layer=False, partition_conversions="%s"' % apart)
            self.assertGreaterEqual(accuracy, self.real - 0.005)
            parts = dict(re.findall(r"(?ms)^def @(\w+)(.*?)^}", text))
            self.assertEqual(set(parts), {"quantize_inputs", "quantized_main", "dequantize_outputs", "main"})
            self.assertEqual(parts["quantized_main"].count("nn.conv2d("), 3)
            self.assertNotIn("float32", parts["quantized_main"])

    def test_reach(self):
        """A percentile of all is the greatest number, and of half of them the median."""
        relu = self.path("relu.rly")
        with open(relu, "w", encoding="utf-8") as f:
            f.write("""#[version = "0.0.5"]
def @main(%x: Tensor[(1, 1, 2, 2), float32]) -> Tensor[(1, 1, 2, 2), float32] {
  nn.conv2d(%x, full(1f, shape=[1, 1, 1, 1], dtype="float32"), channels=1, kernel_size=[1, 1])
}
""")
        x = numpy.array([1, 2, -3, 64], numpy.float32).reshape(1, 1, 2, 2)
        numpy.savez(self.path("x.npz"), x=x)
        for share, reach in ((1, 64), (0.5, 2), (0.75, 3)):
            code, out, err = relay("opt", "-p", f'quantize{{skip_conv_layers=[], do_simulation=True, calibrate_mode="percentile", '
                                   f'percentile={share}, samples="{self.path("x.npz")}"}}', relu)
            self.assertEqual(code, 0, err)
            scale = re.search(r"simulated_quantize\(%x, ([\d.e-]+)f", out).group(1)
            self.assertAlmostEqual(float(scale), reach / 128, places=6)

    def test_refused(self):
        numpy.savez(self.path("other.npz"), other=numpy.zeros(3, numpy.float32))
        numpy.savez(self.path("shape.npz"), batch=numpy.zeros((3, 8, 8), numpy.uint8))
        for params, message in (('calibrate_mode="percentile"', "asks for `samples`"),
                                ('calibrate_mode="least"', "cannot be `least`"),
                                ('samples="x.npz"', "say nothing"),
                                (f'calibrate_mode="percentile", percentile=2.0, samples="{self.samples}"', "more than 0 and at most 1"),
                                (f'calibrate_mode="percentile", samples="{self.path("none.npz")}"', "none.npz"),
                                (f'calibrate_mode="percentile", samples="{self.path("other.npz")}"', "the parameter `batch`"),
                                (f'calibrate_mode="percentile", samples="{self.path("shape.npz")}"', "the parameter `batch`")):
            code, _, err = relay("opt", "-p", f"quantize{{{params}}}", self.program, "--params", self.path("weights.npz"))
            self.assertIn(code, (1, 2), params)
            self.assertIn(message, err)

    def test_nothing_finite(self):
        with open(self.path("conv.rly"), "w", encoding="utf-8") as f:
            f.write('#[version = "0.0.5"]\ndef @main(%x: Tensor[(1, 2, 3, 3), float32]) {\n'
                    '  nn.relu(nn.conv2d(%x, full(0.5f, shape=[2, 2, 3, 3], dtype="float32"), channels=2, kernel_size=[3, 3]))\n}\n')
        for number in numpy.nan, numpy.inf:
            numpy.savez(self.path("nothing.npz"), x=numpy.full((2, 1, 2, 3, 3), number, numpy.float32))
            code, _, err = relay("opt", "-p", 'FoldConstant,quantize{skip_conv_layers=[], calibrate_mode="percentile", '
                                 f'samples="{self.path("nothing.npz")}"}}', self.path("conv.rly"))
            self.assertEqual(code, 2, err)
            self.assertIn("no finite number of this is known", err)


if __name__ == "__main__":
    unittest.main()
