"""The record of a pipeline: its text, its JSON and its page say the same, node by node, and the page stays small."""

import html.parser
import json
import os
import re
import subprocess
import tempfile
import time
import unittest

RELAY = os.environ["RELAY"]
SOURCE = os.environ["RELAY_SOURCE"]
HEAD = '#[version = "0.0.5"]\n'
RESNET = os.path.join(SOURCE, "tests", "bench", "programs", "resnet18.rly")
PROGRAMS = {
    "fold": ("FoldConstant,FuseOps",
             "def @main(%x: Tensor[(3), float32]) { nn.relu(%x * (2f + 3f)) + 1f }"),
    "levels": ("-O3", "def @main(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 3), float32]) "
                      "{ let %y = nn.dense(%x, %w, units=4); nn.softmax(exp(%y + 0f)) + exp(%y + 0f) }"),
    "normal": ("ToANormalForm,ToGraphNormalForm,DeadCodeElimination",
               "def @main(%n: int32) -> int32 { let %dead = %n * 2; if (%n == 0) { 1 } else { %n * @main(%n - 1) } }"),
    "moved": ("ToGraphNormalForm,EliminateCommonSubexpr",
              "def @main(%a: float32) { let %x = exp(%a); let %y = sqrt(%a); (%y, %x, exp(%a)) }"),
    "nothing": ("InferType", "def @main() { 1 }"),
}
with open(RELAY, "rb") as program:
    SANITIZED = b"__asan_init" in program.read()
COUNTS = ("new", "gone", "replaced", "moved")
MARKS = (r"\+", "−", "~", "↕")


class Page(html.parser.HTMLParser):
    """What a page holds: facts of its steps, ids, elements, the signs of its lines."""

    def __init__(self, text):
        super().__init__()
        self.steps, self.ids, self.fors, self.rules = [], [], [], []
        self.elements = self.scripts = 0
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements += 1
        self.scripts += tag == "script"
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if "for" in attrs:
            self.fors.append(attrs["for"])
        if "data-rule" in attrs:
            self.rules.append(attrs["data-rule"])
        if "data-pass" in attrs:
            self.steps.append({"pass": attrs["data-pass"], "changed": attrs["data-changed"] == "1",
                               "nodes": int(attrs["data-nodes"]), "events": int(attrs["data-events"]),
                               **{count: int(attrs[f"data-{count}"]) for count in COUNTS}})


def views(pipeline, path):
    """The record of `relay opt`: what JSON and page say."""
    with tempfile.TemporaryDirectory() as folder:
        page, trace = os.path.join(folder, "o.html"), os.path.join(folder, "o.json")
        subprocess.run([RELAY, "opt", "-p", pipeline, "--html", page, "--trace", trace, path], check=True,
                       stdout=subprocess.DEVNULL, timeout=100)
        with open(page) as p, open(trace) as t:
            return p.read(), json.load(t)


def facts(steps):
    return [{"pass": step["pass"], "changed": step["changed"], "nodes": step["nodes"]["all"],
             "events": len(step["events"]), **{count: step[count] for count in COUNTS}} for step in steps]


def rows(text):
    """The rows that the text has for the passes."""
    found = re.findall(r"^// +\d+  (\S+) +[\d.]+ ms +(?:\d+ → )?(\d+) nodes  (.*)$", text, re.M)
    return [{"pass": name, "changed": counts != "no change", "nodes": int(nodes),
             **{count: int((re.search(rf"{mark}(\d+)", counts) or [0, 0])[1]) for count, mark in zip(COUNTS, MARKS)}}
            for name, nodes, counts in found]


class Views(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def file(self, text):
        path = os.path.join(self.folder.name, "program.rly")
        with open(path, "w") as file:
            file.write(text)
        return path

    def test_the_same_facts(self):
        for name, (pipeline, program) in PROGRAMS.items():
            with self.subTest(name):
                text, trace = views(pipeline, self.file(HEAD + program))
                page, told = Page(text), facts(trace["steps"])
                said = subprocess.run([RELAY], input=f"{program}\n:pass {pipeline} @main\n", capture_output=True,
                                      text=True, timeout=60, check=True).stdout
                if len(told) > 1:
                    self.assertEqual(page.steps, told)
                    self.assertEqual(rows(said), [{k: v for k, v in step.items() if k != "events"} for step in told])
                self.assertEqual(sum(step["changed"] for step in told), trace_changes(trace))
                self.assertEqual(page.rules, [event["rule"] for step in trace["steps"] if step["changed"]
                                              for event in step["events"]] if len(told) > 1 else page.rules)
                for event in (event for step in trace["steps"] if step["changed"] for event in step["events"][:6]):
                    self.assertIn(f"// - {event['says']}\n", said)
                self.assertEqual(page.scripts, 0)
                self.assertEqual(len(page.ids), len(set(page.ids)))
                self.assertLessEqual(set(page.fors), set(page.ids))

    def test_lines_are_those_of_nodes(self):
        _, trace = views(*("FoldConstant,FuseOps", self.file(HEAD + PROGRAMS["fold"][1])))
        fold, fuse = trace["steps"]
        was = next(line for line in fold["lines"] if line["change"] == "was")
        now = next(line for line in fold["lines"] if line["change"] == "replaced")
        self.assertEqual(was["node"], now["node"])
        self.assertEqual((was["text"].strip(), now["text"].strip()),
                         ("%1 = multiply(%x, %0);", "%1 = multiply(%x, 5f);"))
        self.assertEqual(now["type"], "Tensor[(3), float32]")
        # What a pass leaves alone keeps its number, and what is new gets one that nothing had.
        self.assertEqual([line["text"].strip() for line in fuse["lines"] if line["change"] == "new" and "node" in line],
                         ["%3 = fn (%p0: Tensor[(3), float32], Primitive=1) -> Tensor[(3), float32] {", "%3(%x)"])
        self.assertIn("%2 = nn.relu(%1);",
                      [line["text"].strip() for line in fuse["lines"] if line["change"] == "kept"])

    def test_a_network_is_seen_at_once(self):
        text, trace = views("-O3", RESNET)
        self.assertGreater(sum(step["changed"] for step in trace["steps"]), 2)
        self.assertLess(len(text.encode()), 200_000)
        self.assertLess(Page(text).elements, 3000)

    def test_the_graph_of_a_network_is_folded(self):
        """A box for each part, by the names of its weights and of what was made of them, before the pipeline and behind it."""
        said = subprocess.run([RELAY], input=f":load {RESNET}\n:show graph @main\n:pass -O3 @main as @fast\n:show graph @fast\n",
                              capture_output=True, text=True, check=True, timeout=60).stdout
        parts = ["stem", *(f"s{i}b{k}" for i in range(1, 5) for k in (1, 2)), "fc"]
        before, behind = (re.findall(r"^ +\d+  (\w+): (\d+) calls(?: in (\d+) groups)?", text, re.M)
                          for text in said.split("\nboxes ")[1:])
        self.assertEqual([part for part, _, _ in before], parts)
        self.assertEqual([part for part, _, _ in behind], ["stem"] + parts)
        self.assertTrue(all(groups for part, _, groups in behind if part != "fc"))

    def test_long_programs(self):
        lines = "".join(f"  %{i + 1} = exp(%{i});\n" for i in range(100_000))
        path = self.file(f"{HEAD}def @main(%x: Tensor[(4), float32]) {{\n  %0 = negative(%x);\n{lines}  %100000\n}}\n")
        started = time.monotonic()
        text, _ = views("FastMath", path)
        self.assertLess(len(text.encode()), 200_000)
        self.assertLess(time.monotonic() - started, 80)


class Blame(unittest.TestCase):
    def run_cells(self, text, **environment):
        return subprocess.run([RELAY], input=text, capture_output=True, text=True, timeout=60, check=True,
                              env={**os.environ, **environment}).stdout

    def test_the_cell_shows_it_again(self):
        """What is found is offered as a cell; that, typed in, finds the same."""
        pipeline = "FoldConstant,DeadCodeElimination{ignore_impurity=True}"
        said = self.run_cells(f":blame {pipeline} fn (%x: Tensor[(3), float32]) {{ let %r = ref(%x * 2f); "
                              "let %u = ref_write(%r, exp(%x)); nn.relu(ref_read(%r) + 3f) }\n")
        self.assertIn("`DeadCodeElimination`, pass 2 of 2, is the first", said)
        cell = re.search(r"^cell    (.*)$", said, re.M)[1]
        self.assertNotIn("nn.relu", cell)
        self.assertIn("`DeadCodeElimination`, pass 1 of 1, is the first", self.run_cells(cell + "\n"))

    def test_the_rewrite_inside_the_pass(self):
        """One of several rewrites is wrong: blame says which, shows that one alone, and time travel marks the same."""
        lets = "".join(f"let %d{i} = exp(%y + {i}f); " for i in range(9))
        program = f"fn (%y: float32) {{ {lets}let %r = ref(%y); let %u = ref_write(%r, 3f); {lets.replace('d', 'e')}ref_read(%r) + 1f }}"
        wrong = "DeadCodeElimination{ignore_impurity=True}"
        said = self.run_cells(f":blame FoldConstant,{wrong} {program}\n")
        which, of = map(int, re.search(r"^rewrite (\d+) of (\d+) of that pass, shown below$", said, re.M).groups())
        self.assertEqual(of, 19)
        shown = said[said.index(f"// {wrong}"):]
        self.assertEqual(re.findall(r"^-(.*)$", shown, re.M), ["  let %u = ref_write(%r, 3f);"])
        marked = re.search(rf"^// (\d+) {wrong}\n// - `%u` goes: .*\n// - the result differs from here on",
                           self.run_cells(f":rewrites {wrong} {program}\n"), re.M)
        self.assertEqual(int(marked[1]), which)

    @unittest.skipIf(SANITIZED, "what sanitizers do to memory takes longer than what a pass does")
    def test_the_pass_that_makes_it_slower(self):
        """Sixteen operators by themselves are sixteen passes over memory."""
        calls = "%x"
        for i in range(2, 10):
            calls = f"nn.relu({calls} * {i}f)"
        program = f"fn (%x: Tensor[(256, 4096), float32]) {{ {calls} }}\n"
        said = self.run_cells(f":blame time FoldConstant,FuseOps{{fuse_opt_level=0}} {program}:blame time FoldConstant {program}")
        self.assertIn("no pass makes it slower", said)
        self.assertIn("`FuseOps`, pass 2 of 2, is the first after which it takes longer", said)
        self.assertRegex(said, r"(?m)^cell +:blame time FuseOps{fuse_opt_level=0} fn ")


def trace_changes(trace):
    """How many steps have a line that is not as it was."""
    return sum(any(line["change"] not in ("kept", "fold") for line in step["lines"]) for step in trace["steps"])


if __name__ == "__main__":
    unittest.main()
