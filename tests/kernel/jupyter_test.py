"""Jupyter's own suite for kernels, on the kernel as `relay kernel install` installs it."""

import os
import shutil
import subprocess
import tempfile
import unittest

import jupyter_kernel_test

FOLDER = tempfile.mkdtemp(prefix="relay-jupyter-")
os.environ.update(JUPYTER_PATH=os.path.join(FOLDER, "share", "jupyter"), XDG_STATE_HOME=FOLDER,
                  JUPYTER_RUNTIME_DIR=FOLDER)


def setUpModule():
    subprocess.run([os.environ["RELAY"], "kernel", "install", "--prefix", FOLDER], check=True, stdout=subprocess.DEVNULL)


def tearDownModule():
    shutil.rmtree(FOLDER, ignore_errors=True)


class RelayKernel(jupyter_kernel_test.KernelTests):
    kernel_name = "relay"
    language_name = "relay"
    file_extension = ".rly"
    completion_samples = [
        {"text": "nn.den", "matches": {"nn.dense"}},
        {"text": "fn (%input) { nn.re", "matches": {"nn.relu"}},
    ]
    complete_code_samples = ["1", "let %x = 1; %x", "def @f(%x: int32) { %x }", ":type 1", "// nothing"]
    incomplete_code_samples = ["fn (%x) {", "let %x =", "(1, ", "/* and", "if (True) { 1 }"]
    invalid_code_samples = ["}", ")"]
    code_hello_world = ":text stack((104, 101, 108, 108, 111, 44, 32, 119, 111, 114, 108, 100), axis=0)"
    code_stderr = "match (Cons(1, Nil)) { Cons(%a, _) => %a, Nil => 2, _ => 3 }"    # warns
    code_generate_error = "%nothing"
    code_execute_result = [
        {"code": "1 + 2", "result": "3"},
        {"code": "2 * 3", "result": "6", "mime": "text/plain"},
        {"code": "(1, True)", "result": "(1, True)"},
        {"code": "let %x = 20; %x + %x", "result": "40"},
    ]
    code_display_data = [{"code": ":image ones(shape=[2, 2], dtype=\"float32\")", "mime": "image/svg+xml"}]
    code_page_something = "?nn.dense"
    code_history_pattern = "1 ? 2*"
    supported_history_operations = ("tail", "range", "search")
    code_inspect_sample = "nn.dense"
    code_clear_output = ":clear"


class RelayWelcome(jupyter_kernel_test.IopubWelcomeTests):
    kernel_name = "relay"
    support_iopub_welcome = True


if __name__ == "__main__":
    unittest.main()
