"""Every message of the protocol, and the tests of this folder that exchange it. A message that the kernel knows and that is not in the table
fails, and so does one whose tests no longer name it. The same for what the protocol demands besides, in docs/protocol.md."""

import os
import re
import unittest

FOLDER = os.path.dirname(os.path.abspath(__file__))
# Message: the file of this folder in which it is sent or waited for, and by which word where the test does not write it out.
SHELL = {
    "execute_request": "execute.json", "execute_reply": "client.py", "complete_request": "complete.json",
    "inspect_request": "inspect.json", "is_complete_request": "is_complete.json", "history_request": "history.json",
    "kernel_info_request": "kernel_info.json", "comm_info_request": "comm.json", "comm_open": "comm.json",
    "comm_msg": "comm.json", "comm_close": "comm.json", "connect_request": "connect.json",
    "shutdown_request": "lifecycle_test.py",
}
CONTROL = {
    "kernel_info_request": "kernel_info.json", "shutdown_request": "lifecycle_test.py",
    "interrupt_request": "interrupt_idle.json", "usage_request": "usage.json", "debug_request": "debug_test.py",
    "create_subshell_request": "subshell_test.py", "delete_subshell_request": "subshell_test.py",
    "list_subshell_request": "subshell_test.py",
}
PUBLISHED = {
    "status": "client.py", "iopub_welcome": "lifecycle_test.py", "stream": "jupyter_test.py: code_hello_world", "display_data": "progress_test.py",
    "update_display_data": "progress_test.py", "execute_input": "execute.json", "execute_result": "execute.json",
    "error": "execute_error.json", "clear_output": "jupyter_test.py: code_clear_output", "debug_event": "debug_test.py", "comm_msg": "comm.json",
    "comm_close": "comm.json", "shutdown_reply": "lifecycle_test.py: shutdown_request",
}
STDIN = {"input_request": "input_test.py", "input_reply": "input_test.py"}


def text_of(*path):
    with open(os.path.join(FOLDER, *path), encoding="utf-8") as file:
        return file.read()


class Messages(unittest.TestCase):
    def test_each_has_its_test(self):
        for table in (SHELL, CONTROL, PUBLISHED, STDIN):
            for message, place in table.items():
                with self.subTest(message=message):
                    file, _, word = place.partition(": ")
                    self.assertTrue(re.search(rf"\b{word or message}\b", text_of(file)), f"{file} does not exchange {message}")

    def test_each_of_the_kernel_is_listed(self):
        rows = re.findall(r'\{\s*"(\w+)",\s*(SHELL \| CONTROL|SHELL|CONTROL),', text_of("..", "..", "kernel", "handlers.c"))
        self.assertGreater(len(rows), 15)
        for message, channels in rows:
            for name, table in (("SHELL", SHELL), ("CONTROL", CONTROL)):
                self.assertEqual(name in channels, message in table, f"{message} on {name.lower()}")

    def test_each_published_is_listed(self):
        folder = os.path.join(FOLDER, "..", "..", "kernel")
        texts = "".join(text_of("..", "..", "kernel", name) for name in sorted(os.listdir(folder)) if name.endswith(".c"))
        sent = set(re.findall(r'\b(?:channel_publish|emit_bundle|message_write)\([^;"]*"(\w+)"', texts))
        self.assertGreater(len(sent), 6)
        self.assertEqual(sent - set(PUBLISHED), set())
        for message in STDIN:
            self.assertIn(f'"{message}"', texts)

    def test_the_page_names_tests(self):
        """docs/protocol.md, from which whoever changes the kernel learns what holds what."""
        page = text_of("..", "..", "docs", "protocol.md")
        rows = re.findall(r"^\| [^*|][^|]* \| ([^|]+) \|$", page, re.M)[1:]
        self.assertGreater(len(rows), 45)
        named = set()
        for row in rows[1:]:
            for part in row.split("; "):
                file, _, tests = part.partition(": ")
                self.assertRegex(part, r"^(\w+\.json|client\.py|\w+_test: test_\w+(, test_\w+)*)$")
                text = text_of(file if "." in file else f"{file}.py")
                named.add(file)
                for test in filter(None, tests.split(", ")):
                    self.assertTrue(f"    def {test}(self" in text, f"{file} has no {test}")
        here = {name for name in os.listdir(FOLDER) if name.endswith(".json")}
        self.assertEqual(here - named, set())


if __name__ == "__main__":
    unittest.main()
