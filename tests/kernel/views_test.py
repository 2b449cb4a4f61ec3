"""Every command of the table that shows more than a text: what its text says, its page says too, and what programs read of it.

A new row of session/commands.def is in one of the two lists below, or this fails.
"""

import html.parser
import os
import re
import unittest

from client import Kernel

SOURCE = os.environ["RELAY_SOURCE"]
NET = ("fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) { "
       "%0 = nn.conv2d(%x, %w, padding=[1, 1]); %1 = nn.relu(%0 * (2f + 3f)); nn.softmax(exp(sum(%1, axis=[2, 3]))) }")
WRONG = "fn (%y: float32) { let %d = exp(%y); let %r = ref(%y); let %u = ref_write(%r, 3f); ref_read(%r) + 1f }"
DROPS = "DeadCodeElimination{ignore_impurity=True}"
BEFORE = ("def @fact(%n: int32) -> int32 { if (%n == 0) { 1 } else { %n * @fact(%n - 1) } }\n"
          "let %v = arange(0f, 3f, 1f, dtype=\"float32\") * 1.5f;\nlet %m = reshape(arange(0f, 4f, 1f, dtype=\"float32\"), newshape=[2, 2]);")
PEERS = os.path.join(SOURCE, "tests", "repl", "peers.json")
# Command: cells, each with an answer to look at.
VIEWS = {
    "type": [":type %v + 1f"],
    "pass": [f":pass FoldConstant,FuseOps {NET}", f":pass -O3 {NET}"],
    "show": [":show text @fact", ":show types @fact", f":show graph {NET}", ":show lowered nn.relu(%m * 3f + 1f)",
             ":show all fn (%x: Tensor[(16), float32]) { nn.relu(%x * 3f + 1f) }"],
    "schedule": [":schedule fn (%x: Tensor[(256, 256), float32]) { sqrt(nn.softmax(%x)) + 1f }"],
    "blame": [f":blame FoldConstant,{DROPS} {WRONG}", ":blame engines @fact(3)"],
    "rewrites": [f":rewrites {DROPS} {WRONG}"],
    "step": [":step @fact(2)"],
    "break": [":break @fact if %n == 1\n@fact(3)\n:break -"],
    "image": [":image %m"],
    "plot": [":plot %v", ":plot %m", ":plot Cons(1, Cons(2, Nil()))", ":plot Some(3)"],
    "explain": [":explain types { %m + 1f }", f":explain pass FuseOps {NET}", ":explain E0201"],
    "why": [":why %m + 1f"],
    "doc": [":doc nn.relu"],
    "summary": [f":summary {NET}"],
    "bench": [":bench seconds=1 runs=2 nn.softmax(%m)", f":bench seconds=1 runs=2 peers={PEERS} workload=softmax nn.softmax(%m)"],
}
# What only a text says: where lines are, which a page shows, and what it leaves out for want of room.
ONLY_TEXT = {"show": {"In", "around", "from", "in", "is", "line", "lines", "more", "of", "part", "what", "and"}, "step": {"el", "els"}, "break": {"el", "els"},
             "explain": {"In"}, "summary": {"fn"}, "why": {"In"}}
# Texts with places, line and column, and counts of lines that are left out.
PLACES = {"show", "explain", "why", "summary"}
# Those whose answer is a text, or an effect.
TEXTS = {"help", "defs", "analyze", "equal", "hash", "time", "trace", "unbreak", "watch", "train", "text", "load", "edit",
         "reload", "save", "undo", "import", "export", "params", "write", "read", "bytes", "set", "engine", "device", "limit", "reset",
         "clear", "quit"}


class Page(html.parser.HTMLParser):
    """The words of a page, and those of its titles and facts; not of its styles and scripts."""

    def __init__(self, text):
        super().__init__()
        self.words, self.hidden, self.ids = [], 0, []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.hidden += tag in ("style", "script")
        for key, value in attrs:
            if key in ("title", "alt") or key.startswith("data-"):
                self.words.append(f" {value} ")
            if key == "id":
                self.ids.append(value)

    def handle_endtag(self, tag):
        self.hidden -= tag in ("style", "script")

    def handle_data(self, data):
        if not self.hidden:
            self.words.append(data)


def facts(text):
    """Names with their sigil, operators, words and numbers; times change from run to run."""
    text = re.sub(r"\033\[[\d;]*m", "", text)
    text = re.sub(r"[\d.]+(?:e[+-]?\d+)? (?:µs|ms|s|ns)\b", " ", text)
    return set(re.findall(r"[%@]\w+|[A-Za-z_][\w.]*[\w]|-?\d+(?:\.\d+)?", text))


def page_facts(page):
    """Names may be broken into coloured parts, and cells of a table stand close together."""
    return facts("".join(page.words)) | facts(" ".join(page.words))


class Views(unittest.TestCase):
    def test_every_command_is_here(self):
        with open(os.path.join(SOURCE, "session", "commands.def")) as file:
            rows = re.findall(r'^COMMAND\("(\w+)"', file.read(), re.M)
        self.assertEqual(sorted(rows), sorted(VIEWS.keys() | TEXTS))

    def test_pages_say_what_texts_say(self):
        with Kernel() as kernel:
            client = kernel.client()
            client.execute(BEFORE)
            for name, cells in VIEWS.items():
                for cell in cells:
                    with self.subTest(cell):
                        self.compare(name, client.execute(cell)[1])

    def compare(self, name, messages):
        answers = [m["content"]["data"] for m in messages if "data" in m["content"]]
        self.assertTrue(answers, messages)
        for answer in answers:
            self.assertTrue(answer["text/plain"])
            if "text/html" not in answer:
                continue
            self.assertTrue(answer["text/html"], "an empty page")
            page = Page(answer["text/html"])
            missing = facts(answer["text/plain"]) - page_facts(page) - ONLY_TEXT.get(name, set())
            self.assertFalse({word for word in missing if not (name in PLACES and word.isdigit())})
            self.assertEqual(len(page.ids), len(set(page.ids)))


if __name__ == "__main__":
    unittest.main()
