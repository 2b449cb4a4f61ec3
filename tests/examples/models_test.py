"""`relay new model`: the benchmark's models give what its workloads must give, the original's have the sizes that are known of them."""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import numpy

from examples import complaints, has_jit

SOURCE = os.environ["RELAY_SOURCE"]
BENCH = os.path.join(SOURCE, "tests", "bench")
sys.path.insert(0, BENCH)
import peers  # noqa: E402

LARGE = {"vgg16"}       # 550 MB of weights; checked when RELAY_STRICT is set

# Elements of all weights, and how many weights: the counts of the original's builders.
SIZES = {
    "testing.mlp": (109386, 6), "testing.dqn": (1693362, 10), "testing.resnet18": (11699892, 99),
    "testing.resnet34": (21815476, 179), "testing.resnet50": (25595060, 259), "testing.resnet101": (44639412, 514),
    "testing.resnet152": (60329140, 769), "testing.resnet20": (273926, 104), "testing.resnet3d_18": (33689652, 99),
    "testing.mobilenet": (4253864, 137), "mobilenet_v2": (3538984, 262), "testing.vgg11": (132863336, 22),
    "testing.vgg13": (133047848, 26), "testing.vgg16": (138357544, 32), "testing.vgg19": (143667240, 38),
    "testing.vgg16_bn": (138374440, 84), "testing.dcgan": (12658176, 17), "testing.squeezenet1_0": (1248424, 52),
    "testing.squeezenet1_1": (1235496, 52), "testing.densenet121": (3568808, 606), "testing.densenet161": (10848136, None),
    "testing.densenet169": (5363899, None), "testing.densenet201": (6783656, None),
    "testing.inception_v3": (23869000, 472), "testing.lstm": (640, 16), "testing.synthetic": (465, 9),
    "testing.rnn": (33024, 4), "testing.gru": (99072, 4), "testing.lstm_loop": (132096, 4), "testing.charrnn": (11232, 6),
    "testing.treelstm": (271200, 8),
}
# Multiply-adds of all products and convolutions.
MULTIPLY_ADDS = {
    "testing.mlp": 109184, "testing.dqn": 9352192, "testing.resnet18": 1826918400, "testing.resnet34": 3676606464,
    "testing.resnet50": 3857973248, "testing.resnet101": 7570194432, "testing.resnet152": 11282415616,
    "testing.resnet20": 31448448, "testing.resnet3d_18": 40902381568, "testing.mobilenet": 568740352,
    "mobilenet_v2": 300774272, "testing.vgg11": 7609090048, "testing.vgg13": 11308466176, "testing.vgg16": 15470264320,
    "testing.vgg19": 19632062464, "testing.dcgan": 1637416960, "testing.squeezenet1_0": 835814912,
    "testing.squeezenet1_1": 349537280, "testing.densenet121": 1761689600, "testing.densenet161": 4315133952,
    "testing.densenet169": 1923680512, "testing.densenet201": 2182074368, "testing.inception_v3": 5713216096,
    "testing.lstm": 512, "testing.synthetic": 67392,
    # a round of the recursion; the tree: a node with one child
    "testing.rnn": 32768, "testing.gru": 98304, "testing.lstm_loop": 131072, "testing.charrnn": 11100, "testing.treelstm": 270000,
}
INPUTS = {"data", "data1", "data2", "data3", "category", "letter", "word"}


def relay(*args, text=None):
    done = subprocess.run([os.environ["RELAY"], *args], input=text, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0 and not complaints(done.stderr), f"{args}: {done.stdout}{done.stderr}"
    return done.stdout


def parameters(text):
    """The shape of each parameter of @main by name."""
    head = re.search(r"def @main\((.*?)\) (?:->.*)?\{\n", text).group(1)
    found = re.findall(r"%(\w+): Tensor\[\(([\d, ]*)\), \w+\]", head)
    return {name: [int(d) for d in dims.split(",") if d.strip()] for name, dims in found}


def flatten(value):
    if "tuple" in value:
        return numpy.concatenate([flatten(v) for v in value["tuple"]])
    return numpy.array(value["data"], dtype=numpy.float64).reshape(-1)


def summary(flat):
    """As the benchmark's `out`."""
    spread = [i * flat.size // 24 for i in range(min(24, flat.size))]
    return {"size": int(flat.size), "first": flat[:8].tolist(), "spread": flat[spread].tolist(),
            "sum": float(flat.sum()), "l2": float(numpy.sqrt((flat * flat).sum()))}


class Models(unittest.TestCase):
    def setUp(self):
        with open(os.path.join(BENCH, "expected.json")) as f:
            self.expected = json.load(f)
        with open(os.path.join(BENCH, "manifest.json")) as f:
            self.manifest = json.load(f)
        self.names = [line.split()[0] for line in relay("new", "model").splitlines()]

    def run_model(self, folder, name, engine):
        path = os.path.join(folder, name)
        return flatten(json.loads(relay("run", path + ".rly", "--params", path + ".weights.npz", "--args",
                                        path + ".inputs.json", "--exec", engine, "--json")))

    def test_answers(self):
        engines = ["interp", "jit"] if has_jit() else ["interp"]
        for name in self.names:
            if name.startswith("testing.") or name in LARGE and not os.environ.get("RELAY_STRICT"):
                continue
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                relay("new", "model", name, "-o", os.path.join(folder, name + ".rly"))
                for engine in engines:
                    got = summary(self.run_model(folder, name, engine))
                    error, right = peers.check(got, self.expected[name], self.manifest[name]["tolerance"])
                    print(f"{name} {engine}: error {error:.3g}")
                    self.assertTrue(right, f"{name}, {engine}: {error}")

    def test_sizes(self):
        for name, (elements, weights) in SIZES.items():
            with self.subTest(name):
                shapes = parameters(relay("new", "model", name))
                kept = {k: s for k, s in shapes.items() if k not in INPUTS}
                self.assertEqual(sum(int(numpy.prod(s)) for s in kept.values()), elements)
                self.assertIn(weights, (None, len(kept)))

    def test_multiply_adds(self):
        for name, count in MULTIPLY_ADDS.items():
            with self.subTest(name):
                text = relay("summary", "-", text=relay("new", "model", name))
                self.assertEqual(int(re.search(r"^multiply-adds +([\d ]+)$", text, re.M).group(1).replace(" ", "")), count)

    def test_every_row_has_known_answers_or_sizes(self):
        self.assertEqual([n for n in self.names if n not in SIZES and n not in self.expected], [])

    def test_seed(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [os.path.join(folder, f"{i}.rly") for i in range(3)]
            for path, seed in zip(files, ["0", "7", "7"]):
                relay("new", "model", "testing.mlp", "--seed", seed, "-o", path)
            weights = [dict(numpy.load(f[:-4] + ".weights.npz")) for f in files]
            self.assertFalse(numpy.array_equal(weights[0]["fc1_weight"], weights[1]["fc1_weight"]))
            self.assertTrue(numpy.array_equal(weights[1]["fc1_weight"], weights[2]["fc1_weight"]))
            bound = (6 / (784 + 128)) ** 0.5
            self.assertLessEqual(abs(weights[1]["fc1_weight"]).max(), bound)
            self.assertGreater(abs(weights[1]["fc1_weight"]).max(), 0.99 * bound)

    def test_original_models_run(self):
        """Small enough for a test; classifiers end in probabilities."""
        for name in ["testing.mlp", "testing.resnet20", "testing.lstm", "testing.rnn", "testing.gru",
                     "testing.lstm_loop", "testing.treelstm", "testing.dcgan", "testing.squeezenet1_1"]:
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                relay("new", "model", name, "-o", os.path.join(folder, name + ".rly"))
                out = self.run_model(folder, name, "interp")
                self.assertTrue(numpy.isfinite(out).all())
                if name in ("testing.mlp", "testing.resnet20", "testing.squeezenet1_1"):
                    self.assertAlmostEqual(out.sum(), 1, places=5)


if __name__ == "__main__":
    unittest.main()
