"""The letter model and the tree network: programs over lists and trees on texts and headers that Debian systems have."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import nbformat
import numpy
from nbclient import NotebookClient

from examples import RELAY, SOURCE, complaints, has_jit

EXAMPLES = os.path.join(SOURCE, "examples")
TEXT = "/usr/share/common-licenses/GPL-2"
FOLDER = tempfile.mkdtemp(prefix="relay-sequences-")
os.environ.update(JUPYTER_PATH=os.path.join(FOLDER, "share", "jupyter"), XDG_STATE_HOME=FOLDER,
                  JUPYTER_RUNTIME_DIR=FOLDER)


def setUpModule():
    subprocess.run([RELAY, "kernel", "install", "--prefix", FOLDER], check=True, stdout=subprocess.DEVNULL)
    for name in ("letters", "trees"):
        shutil.copytree(os.path.join(EXAMPLES, name), os.path.join(FOLDER, name))
    subprocess.run([sys.executable, "prototypes.py"], cwd=os.path.join(FOLDER, "trees"), check=True)


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


def run(name, engine, *args):
    folder = os.path.join(FOLDER, name)
    done = subprocess.run([RELAY, "run", os.path.join(folder, name + ".rly"), "--params",
                           os.path.join(folder, "weights.npz"), *args, "--exec", engine, "--json"],
                          capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and not complaints(done.stderr), f"{engine}: {done.stdout}{done.stderr}"
    number, numbers = json.loads(done.stdout)["tuple"]
    return number["data"][0], items(numbers)


def items(value):
    """The numbers of a list."""
    found = []
    while value["constructor"] == "Cons":
        found.append(value["fields"][0]["data"][0])
        value = value["fields"][1]
    return found


class Sequences(unittest.TestCase):
    engines = ["interp", "jit"] if has_jit() else ["interp"]

    def test_letters(self):
        texts = []
        for engine in self.engines:
            bits, codes = run("letters", engine, "--bytes", f"text={TEXT}")
            self.assertAlmostEqual(bits, 1.828, places=2)     # what train.py says
            texts.append(bytes(codes).decode("ascii"))
        self.assertEqual(len(texts[0]), 400)
        self.assertEqual(texts[0], texts[-1])
        self.assertIn("the", texts[0].split())

    def test_trees(self):
        """The headers may be of another release than those that the network has seen."""
        with numpy.load(os.path.join(FOLDER, "trees", "prototypes.npz")) as data:
            header = data["header"][data["test"] == 1]
        most = numpy.bincount(header).max() / len(header)
        for engine in self.engines:
            share, guesses = run("trees", engine, "--params", os.path.join(FOLDER, "trees", "prototypes.npz"))
            self.assertAlmostEqual(share, (numpy.array(guesses) == header).mean(), places=5)
            self.assertGreater(share, 0.7)
            self.assertGreater(share, most + 0.2)

    def notebook(self, name):
        notebook = nbformat.read(os.path.join(FOLDER, name, name + ".ipynb"), as_version=4)
        nbformat.validate(notebook)
        NotebookClient(notebook, kernel_name="relay", timeout=120,
                       resources={"metadata": {"path": os.path.join(FOLDER, name)}}).execute()
        texts = {}
        for cell in notebook.cells:
            if cell.cell_type == "code":
                self.assertFalse([o for o in cell.outputs if o.output_type == "error"], cell.source)
                self.assertTrue(cell.outputs, cell.source)
                texts[cell.source.splitlines()[0]] = "\n".join(o.text if o.output_type == "stream" else o.data["text/plain"] for o in cell.outputs)
        return texts

    def test_letters_notebook(self):
        texts = self.notebook("letters")
        self.assertIn("GNU GENERAL PUBLIC LICENSE", texts[":text strided_slice(%gpl, begin=[0], end=[400], strides=[1], axes=[0])"])
        self.assertIn("1.82", texts["@bits(%model, %gpl)"])
        self.assertTrue(texts[":text %best.1"].startswith("m"), texts[":text %best.1"])

    def test_trees_notebook(self):
        texts = self.notebook("trees")
        self.assertIn("Rose(", texts['let %n = take(shape_of(%header, dtype="int32"), 0, axis=0);'])


if __name__ == "__main__":
    unittest.main()
