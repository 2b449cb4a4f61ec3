"""The examples that `:help` shows: each one works as a cell and as a line of a session, where the files and variables that it names are."""

import os
import re
import subprocess
import tempfile
import unittest

from client import Kernel

RELAY = os.environ["RELAY"]
TABLE = os.path.join(os.environ["RELAY_SOURCE"], "session", "commands.def")
BEFORE = ["def @f(%x: Tensor[(3), float32]) { exp(%x) + 1f }", "let %w = 1f;", "let %x = ones(shape=[100, 64], dtype=\"float32\");",
          "let %total = 0;",
          "let %weights = (ones(shape=[2], dtype=\"float32\"), 3);", ":export model.onnx @f", ":write %weights weights.npz",
          ":save session.rly"]


def examples():
    with open(TABLE, encoding="utf-8") as file:
        table = file.read()
    rows = re.findall(r'^EXAMPLE\("(\w+)", "(.*)"\)$', table, re.M)
    assert rows and len(rows) == table.count("\nEXAMPLE("), "an example that is not on one line"
    return [(name, cell.replace('\\"', '"')) for name, cell in rows]


class Examples(unittest.TestCase):
    def test_as_cells(self):
        with Kernel() as kernel:
            with open(os.path.join(kernel.folder, "book.txt"), "w") as file:
                file.write("a book")
            client = kernel.client()
            for cell in BEFORE + [cell for _, cell in examples()]:
                with self.subTest(cell):
                    reply, published = client.execute(cell)
                    self.assertEqual(reply["status"], "ok", published)

    def test_as_lines(self):
        """And the command of each is the one that it stands below."""
        with tempfile.TemporaryDirectory() as folder:
            with open(os.path.join(folder, "book.txt"), "w") as file:
                file.write("a book")
            lines = "".join(cell + "\n" for cell in BEFORE + [cell for _, cell in examples()])
            done = subprocess.run([RELAY], input=lines, cwd=folder, capture_output=True, text=True, check=False,
                                  env=dict(os.environ, XDG_CONFIG_HOME=folder, XDG_STATE_HOME=folder))
            self.assertEqual((done.returncode, "error[" in done.stderr), (0, False), done.stdout + done.stderr)
        for name, cell in examples():
            self.assertTrue(cell.startswith(f":{name} "), cell)

    def test_choices(self):
        """Every word of the arguments that stands for itself is explained, and no other is; what takes arguments has an example."""
        with open(TABLE, encoding="utf-8") as file:
            table = file.read()
        shown = {name for name, _ in examples()}
        for name, args in re.findall(r'^COMMAND\("(\w+)", \w+, "([^"]*)"', table, re.M):
            own = {word + sign for word, sign in re.findall(r"(?<![@%\w])([a-z]\w*)(=?)", args)} - {"on", "off"}
            choices = {re.match(r"[^ =]*=?", form)[0] for form in re.findall(rf'^CHOICE\("{name}", "([^"]*)"', table, re.M)}
            self.assertTrue(own <= choices, (name, own - choices))
            self.assertTrue(own == choices or "STEP" in args, (name, choices - own))
            self.assertTrue(not args or name in shown, name)


if __name__ == "__main__":
    unittest.main()
