"""`relay kernel install` for a person, for an environment and for the system: Jupyter finds the kernel and the extension, and nbconvert the
colours."""

import glob
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

NOTEBOOK = {"cells": [{"cell_type": "code", "id": "one", "metadata": {}, "outputs": [], "execution_count": None,
                       "source": "let %x = 20;\n%x + 1f // no\n%x + 1"}],
            "metadata": {"kernelspec": {"name": "relay", "display_name": "Relay"},
                         "language_info": {"name": "relay", "pygments_lexer": "relay"}}, "nbformat": 4, "nbformat_minor": 5}


class Install(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="relay-install-")
        self.addCleanup(shutil.rmtree, self.folder)
        drop = ("VIRTUAL_ENV", "CONDA_PREFIX", "JUPYTER_DATA_DIR", "JUPYTER_PATH", "XDG_DATA_HOME", "PYTHONPATH")
        self.environment = {**{k: v for k, v in os.environ.items() if k not in drop}, "HOME": self.folder,
                            "XDG_STATE_HOME": self.folder, "JUPYTER_RUNTIME_DIR": self.folder,
                            "JUPYTER_PREFER_ENV_PATH": "0"}   # the tests' own environment may have the kernel too

    def run_as(self, *command, **environment):
        done = subprocess.run(command, env={**self.environment, **environment}, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def install(self, *options, **environment):
        self.assertIn("Installed", self.run_as(os.environ["RELAY"], "kernel", "install", *options, **environment))

    def check(self, prefix, packages, **environment):
        """What Jupyter finds, and what a notebook looks like that is run and made a page."""
        share = os.path.join(prefix, "share", "jupyter")
        found = json.loads(self.run_as(sys.executable, "-m", "jupyter_client.kernelspecapp", "list", "--json", **environment))
        self.assertEqual(found["kernelspecs"]["relay"]["resource_dir"], os.path.join(share, "kernels", "relay"))
        spec = found["kernelspecs"]["relay"]["spec"]
        self.assertTrue(os.path.isabs(spec["argv"][0]) and spec["metadata"]["debugger"])
        with open(os.path.join(share, "labextensions", "relay-lang", "package.json")) as file:
            load = json.load(file)["jupyterlab"]["_build"]["load"]
        self.assertTrue(os.path.exists(os.path.join(share, "labextensions", "relay-lang", load)))
        with open(os.path.join(share, "labextensions", "relay-lang", "schemas", "relay-lang", "types.json")) as file:
            self.assertIs(json.load(file)["properties"]["inline"]["default"], True)
        lexers = glob.glob(os.path.join(prefix, "lib", "python3*", "*", "relay_pygments.py"))
        self.assertEqual([os.path.basename(os.path.dirname(path)) for path in lexers], [packages] * len(lexers))
        self.assertTrue(lexers)
        notebook = os.path.join(self.folder, "one.ipynb")
        with open(notebook, "w") as file:
            json.dump(NOTEBOOK, file)
        try:
            import nbconvert  # noqa: F401
        except ImportError:
            return
        self.run_as(sys.executable, "-m", "nbconvert", "--to", "html", "--execute", "--allow-errors", notebook,
                    PYTHONPATH=os.path.dirname(lexers[0]), **environment)
        with open(os.path.join(self.folder, "one.html")) as file:
            page = file.read()
        self.assertTrue('<span class="nv">%x</span>' in page, "no colours")
        self.assertTrue("E0203" in page, "the notebook did not run")

    def test_no_python(self):
        """The kernel is installed, and it is said what is not."""
        done = subprocess.run([os.environ["RELAY"], "kernel", "install", "--prefix", os.path.join(self.folder, "opt")],
                              env=self.environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0)
        self.assertIn("Installed", done.stdout)
        self.assertIn(f"no Python is in {self.folder}/opt,", done.stderr)

    def test_user(self):
        """Who never installed a package has no folder for them."""
        self.install("--user")
        self.check(os.path.join(self.folder, ".local"), "site-packages")

    def test_environment(self):
        prefix = os.path.join(self.folder, "venv")
        os.makedirs(os.path.join(prefix, "lib", "python%d.%d" % sys.version_info[:2], "site-packages"))
        self.install("--sys-prefix", VIRTUAL_ENV=prefix)
        self.check(prefix, "site-packages", JUPYTER_PATH=os.path.join(prefix, "share", "jupyter"))

    def test_system(self):
        """Debian's Python has its own name for the folder of packages."""
        prefix = os.path.join(self.folder, "usr", "local")
        os.makedirs(os.path.join(prefix, "lib", "python%d.%d" % sys.version_info[:2], "dist-packages"))
        self.install("--prefix", prefix)
        self.check(prefix, "dist-packages", JUPYTER_PATH=os.path.join(prefix, "share", "jupyter"))

    def test_last_place(self):
        """Of several places the last one counts."""
        prefix, home = os.path.join(self.folder, "prefix"), os.path.join(self.folder, ".local")
        for options, last, other in [(("--prefix", prefix, "--user"), home, prefix), (("--user", "--prefix", prefix), prefix, home)]:
            self.install(*options)
            self.assertEqual(os.listdir(os.path.join(last, "share", "jupyter", "kernels")), ["relay"])
            self.assertFalse(os.path.exists(other))
            shutil.rmtree(last)

if __name__ == "__main__":
    unittest.main()
