"""The notebooks of the examples through a Jupyter client: all of them run, of the tour every cell, what it shows and how; and the
colours of what nbconvert makes of one."""

import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys
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


# The network that a shell wrote before, as the notebook's text says.
PRACTICE = {"digits/finetune.ipynb": "mlp_b64"}


def run_notebook(name="tour.ipynb"):
    """The code cells of a notebook, by its path below the examples, with their outputs."""
    subprocess.run([RELAY, "kernel", "install", "--prefix", FOLDER], check=True, stdout=subprocess.DEVNULL)
    path = os.path.join(SOURCE, "examples", name)
    if name in PRACTICE:
        path = os.path.join(shutil.copytree(os.path.dirname(path), os.path.join(FOLDER, "practice")), os.path.basename(path))
        subprocess.run([RELAY, "new", "model", PRACTICE[name], "-o", "mlp.rly"], check=True, cwd=os.path.dirname(path), stdout=subprocess.DEVNULL)
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(notebook, kernel_name="relay", timeout=240,
                            resources={"metadata": {"path": os.path.dirname(path)}})
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


# Notebooks that train: what their cells say in the end, and the least and the most that this may be.
LEARNED = {"digits/digits.ipynb": ("@accuracy", 0.97, 1), "trees/train.ipynb": ("@accuracy", 0.8, 1),
           "letters/train.ipynb": ("@bits_unseen", 0, 3.6), "digits/finetune.ipynb": ("let %weights", 0.93, 1)}


class Others(unittest.TestCase):
    def test_all_run(self):
        """With what is in the repository and no other package than the client's."""
        examples = pathlib.Path(SOURCE, "examples")
        others = sorted(str(path.relative_to(examples)) for path in examples.rglob("*/*.ipynb")
                        if ".ipynb_checkpoints" not in path.parts)
        self.assertGreaterEqual(len(others), 6)
        for path in others:
            if path in LEARNED and not has_jit():
                continue                                # the evaluator would take too long
            with self.subTest(path):
                cells = run_notebook(path)
                for cell in cells:
                    self.assertFalse([o for o in cell.outputs if o.output_type == "error"], cell.source)
                self.check_training(path, cells)

    def check_training(self, path, cells):
        """What was learned in a notebook, and how that was shown."""
        if path not in LEARNED:
            return
        question, least, most = LEARNED[path]
        answer = next(cell for cell in cells if cell.source.startswith(question))
        value = float(answer.outputs[-1].data["text/plain"])
        print(f"{path}: {value}")
        self.assertTrue(least <= value <= most, value)
        curve = next(cell for cell in cells if cell.source.startswith(":train"))
        shown = [o for o in curve.outputs if "WARNING: ASan" not in o.get("text", "")]
        self.assertEqual(len(shown), 1)                     # one picture, which was replaced
        self.assertIn("<svg", shown[0].data["text/html"])
        steps = re.search(r"steps=(\d+)", curve.source).group(1)
        self.assertIn(f"step {steps} of {steps}", shown[0].data["text/plain"])
        mistakes = [cell for cell in cells if cell.source.startswith(":image take(%images, %mistakes")]
        for cell in mistakes:
            self.assertGreater(cell.outputs[0].data["image/svg+xml"].count("<g "), 3)

    @unittest.skipUnless(importlib.util.find_spec("pygments"), "no Pygments")
    def test_lexer(self):
        """`relay kernel install` puts the lexer where a Python beside it finds it, under the name that the kernel tells."""
        import pygments.lexers
        packages = os.path.join(FOLDER, "lib", "python3.99", "site-packages")
        os.makedirs(packages)
        subprocess.run([RELAY, "kernel", "install", "--prefix", FOLDER], check=True, stdout=subprocess.DEVNULL)
        sys.path.insert(0, packages)
        lexer = pygments.lexers.get_lexer_by_name("relay")
        program = 'def @f(%x: Tensor[(2), float32]) { /* a /* b */ */ nn.relu(%x) + 1f } // end\n:type "s"\n'
        tokens = list(lexer.get_tokens(program))
        self.assertEqual("".join(text for _, text in tokens), program)
        kinds = {text: str(kind) for kind, text in tokens}
        self.assertEqual([kinds[text] for text in ("def", "@f", "%x", "Tensor", "nn.relu", "1f", "// end", ":type")],
                         ["Token.Keyword", "Token.Name.Function", "Token.Name.Variable", "Token.Keyword.Type", "Token.Name",
                          "Token.Literal.Number", "Token.Comment.Single", "Token.Name.Builtin.Pseudo"])
        self.assertNotIn("Token.Error", kinds.values())


if __name__ == "__main__":
    unittest.main()
