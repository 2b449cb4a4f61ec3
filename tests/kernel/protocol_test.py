"""Runs the conversations in tests/kernel/*.json: requests, the replies and the published messages they must get.

A file is {"doc": …, "steps": [step, …]}; each file has a kernel of its own. A step is

    {"send": TYPE, "content": {…}, "channel": "shell", "reply": CONTENT, "published": [[TYPE, CONTENT], …]}

where `reply` null means that none comes. {"queue": [step, …]} sends all its requests at once. In what is expected,
"<any>" stands for anything, "<text>" for a string that is not empty, "<number>" for a number, "<like RE>" for a string in
which the pattern is found; an object with the key "..." may have further keys.
"""

import glob
import json
import os
import re
import unittest

from client import Kernel

FOLDER = os.path.dirname(os.path.abspath(__file__))


def differs(got, want, where="content"):
    """Where `got` is not as wanted, in words; None when it is."""
    if want == "<any>":
        return None
    if isinstance(want, str) and want.startswith("<like "):
        ok = isinstance(got, str) and re.search(want[6:-1], got)
        return None if ok else f"{where}: {got!r} is not {want}"
    if want == "<text>":
        return None if isinstance(got, str) and got else f"{where}: {got!r} is no text"
    if want == "<number>":
        ok = isinstance(got, (int, float)) and not isinstance(got, bool)
        return None if ok else f"{where}: {got!r} is no number"
    if isinstance(want, dict) and isinstance(got, dict):
        keys = set(want) - {"..."}
        if not keys <= set(got) or ("..." not in want and set(got) != keys):
            return f"{where}: {got!r} has other keys than {sorted(keys)}"
        return next(filter(None, (differs(got[k], want[k], f"{where}.{k}") for k in sorted(keys))), None)
    if isinstance(want, list) and isinstance(got, list):
        if len(want) != len(got):
            return f"{where}: {got!r} has {len(got)} items, not {len(want)}"
        return next(filter(None, (differs(g, w, f"{where}[{i}]") for i, (g, w) in enumerate(zip(got, want)))), None)
    return None if got == want and type(got) is type(want) else f"{where}: {got!r} is not {want!r}"


class Protocol(unittest.TestCase):
    def finish(self, client, step, message_id):
        """Takes the answers to a request and compares them."""
        channel = step.get("channel", "shell")
        if step.get("reply") is not None:
            reply = client.reply_to(message_id, channel)
            self.assertIsNotNone(reply, f"no reply to {step['send']}")
            self.assertIsNone(differs(reply["content"], step["reply"], "reply"))
        published = [[message["header"]["msg_type"], message["content"]] for message in client.published(message_id)]
        if "published" in step:
            self.assertIsNone(differs(published, step["published"], "published"))
        if step.get("reply") is None:
            self.assertIsNone(client.receive(channel, 0.05), "a reply where none belongs")

    def converse(self, path):
        with open(path, encoding="utf-8") as file:
            conversation = json.load(file)
        with Kernel() as kernel:
            client = kernel.client()
            for step in conversation["steps"]:
                steps = step.get("queue", [step])
                ids = [client.send(s["send"], s.get("content", {}), s.get("channel", "shell")) for s in steps]
                for one, message_id in zip(steps, ids):
                    with self.subTest(send=one["send"], content=one.get("content")):
                        self.finish(client, one, message_id)


def add_tests():
    for path in sorted(glob.glob(os.path.join(FOLDER, "*.json"))):
        name = os.path.basename(path)[:-len(".json")]
        setattr(Protocol, f"test_{name}", lambda self, path=path: self.converse(path))


add_tests()

if __name__ == "__main__":
    unittest.main()
