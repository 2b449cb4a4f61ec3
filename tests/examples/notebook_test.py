"""The tour notebook through a Jupyter client: every cell, what it shows and how."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest

import nbformat
from nbclient import NotebookClient

from examples import RELAY, SOURCE, complaints, has_jit

FOLDER = tempfile.mkdtemp(prefix="relay-notebook-")
os.environ.update(JUPYTER_PATH=os.path.join(FOLDER, "share", "jupyter"), XDG_STATE_HOME=FOLDER,
                  JUPYTER_RUNTIME_DIR=FOLDER)


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


def run_notebook():
    """The code cells of the tour with their outputs."""
    subprocess.run([RELAY, "kernel", "install", "--prefix", FOLDER], check=True, stdout=subprocess.DEVNULL)
    notebook = nbformat.read(os.path.join(SOURCE, "examples", "tour.ipynb"), as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, kernel_name="relay", timeout=120,
                            resources={"metadata": {"path": os.path.join(SOURCE, "examples")}})
    client.execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cells = run_notebook()

    def cell(self, source):
        """The cell whose text begins so."""
        return next(cell for cell in self.cells if cell.source.startswith(source))

    def bundles(self, source):
        return [output.data for output in self.cell(source).outputs if "data" in output]

    def text(self, source):
        return "\n".join(bundle["text/plain"] for bundle in self.bundles(source))

    def test_only_meant_errors(self):
        for cell in self.cells:
            errors = [output for output in cell.outputs if output.output_type == "error"]
            self.assertEqual(bool(errors), "raises-exception" in cell.metadata.get("tags", []), cell.source)
            streams = [output for output in cell.outputs if output.output_type == "stream" and complaints(output.text)]
            self.assertFalse(streams, cell.source)

    def test_every_cell_shows_something(self):
        for cell in self.cells:
            self.assertTrue(cell.outputs, cell.source)

    def test_values(self):
        self.assertEqual(self.text("1 + 2 * 3"), "7")
        self.assertIn("[3.14159, 6, 0.7853975]", self.text("let %shapes"))
        self.assertIn("0.98888886", self.text("@accuracy(%digits"))
        self.assertEqual(self.text("(take(%digits"), "(5, 8)")

    def test_pictures(self):
        for source, pictures in (("let %test", 10), ("let %wrong", 1)):
            drawn = [bundle["image/svg+xml"] for bundle in self.bundles(source) if "image/svg+xml" in bundle]
            self.assertEqual(len(drawn), 1, source)
            self.assertEqual(drawn[0].count("<g "), pictures)

    def test_programs_are_coloured(self):
        html = [bundle.get("text/html", "") for bundle in self.bundles(":pass FoldConstant @layer")]
        self.assertEqual(len(html), 1)
        self.assertIn("relay-keyword", html[0])
        self.assertNotIn("\x1b", html[0])

    def test_tracebacks(self):
        for source, code in (("def @is_round", "E0209"), ("let %narrow", "E0")):
            error = next(o for o in self.cell(source).outputs if o.output_type == "error")
            lines = [re.sub("\x1b\\[[0-9;]*m", "", line) for line in error.traceback]
            self.assertTrue(error.ename.startswith(code), error.ename)
            self.assertTrue(lines[0].startswith(f"error[{error.ename}]: "), lines[0])
            self.assertTrue(any("^" in line for line in lines))
            self.assertTrue(any("In[" in line for line in lines))

    @unittest.skipUnless(has_jit(), "built without the JIT")
    def test_engines(self):
        for source in (":time @fib", ":time @count", ":time @main"):
            self.assertRegex(self.text(source), r"(?m)^JIT +[\d.]+ (µs|ms|s) +first ")
        self.assertIn("ret i32", self.text(":show llvm"))


if __name__ == "__main__":
    unittest.main()
