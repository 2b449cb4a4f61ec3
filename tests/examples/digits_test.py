"""The classifier of handwritten digits: at least 95 % right from both engines, and the same digits from both."""

import json
import os
import subprocess
import unittest

import numpy

from examples import complaints, has_jit

DIGITS = os.path.join(os.environ["RELAY_SOURCE"], "examples", "digits")
FIRST_TEST = 1347
WRONG = [206, 236, 285, 311, 382]       # what these weights take for another digit


def classify(engine):
    """The accuracy that the program gives, and its 450 digits."""
    command = [os.environ["RELAY"], "run", os.path.join(DIGITS, "digits.rly"), "--exec", engine, "--json",
               "--params", os.path.join(DIGITS, "weights.npz"), "--params", os.path.join(DIGITS, "digits.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not complaints(done.stderr), f"{engine}: {done.stdout}{done.stderr}"
    accuracy, digits = json.loads(done.stdout)["tuple"]
    return accuracy["data"][0], numpy.array(digits["data"])


def wrong_ones(accuracy, digits):
    """Which of the test images are not what their label says."""
    with numpy.load(os.path.join(DIGITS, "digits.npz")) as data:
        wrong = digits != data["labels"][FIRST_TEST:]
    assert abs(accuracy - (1 - wrong.mean())) < 1e-6, f"{accuracy} is not the share of right digits"
    return numpy.flatnonzero(wrong).tolist()


class Digits(unittest.TestCase):
    def check(self, engine):
        accuracy, digits = classify(engine)
        print(f"{engine}: {accuracy:.4f}")
        self.assertGreaterEqual(accuracy, 0.95)
        self.assertEqual(wrong_ones(accuracy, digits), WRONG)

    def test_evaluator(self):
        self.check("interp")

    @unittest.skipUnless(has_jit(), "built without the JIT")
    def test_jit(self):
        self.check("jit")

    @unittest.skipUnless(has_jit(), "built without the JIT")
    def test_training(self):
        """The training that is written in Relay: the loss falls, and what was learned is right on images that were not seen."""
        command = [os.environ["RELAY"], "run", os.path.join(DIGITS, "train.rly"), "--json", "--params", os.path.join(DIGITS, "digits.npz")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600)
        self.assertTrue(done.returncode == 0 and not complaints(done.stderr), done.stdout + done.stderr)
        accuracy, losses = json.loads(done.stdout)["tuple"]
        print(f"trained: {accuracy['data'][0]:.4f}")
        self.assertGreaterEqual(accuracy["data"][0], 0.95)
        last = losses["fields"][0]["data"][0]
        self.assertLess(last, 0.1)


if __name__ == "__main__":
    unittest.main()
