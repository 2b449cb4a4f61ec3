"""An expression followed into machine code: `:show all` and `relay compile --emit html|json` say the same, and every line that is said
to be of an expression is."""

import html.parser
import json
import os
import re
import subprocess
import tempfile
import unittest

RELAY = os.environ["RELAY"]
RESNET = os.path.join(os.environ["RELAY_SOURCE"], "tests", "bench", "programs", "resnet18.rly")
BODY = """(%x: Tensor[(64, 128), float32], %w: Tensor[(32, 128), float32]) {
  let %y = nn.dense(%x, %w, units=32);
  nn.relu(%y * 3f + (1f + 3f))
}
"""
COUNT = """(%n: int32) -> int32 {
  if (%n <= 1) { 1 } else { %n * @main(%n - 1) }
}
"""
STAGES = ["passes", "loops", "llvm", "asm"]


class Page(html.parser.HTMLParser):
    """Which radio buttons there are, and of which one each line is a label, by stage."""

    def __init__(self, text):
        super().__init__()
        self.ids, self.fors, self.stage, self.lines = [], [], "text", {}
        self.elements = 0
        self.open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements += 1
        self.stage = attrs.get("data-stage", self.stage)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "label":
            self.fors.append(attrs["for"])
            self.open = [attrs.get("class", ""), ""]

    def handle_data(self, data):
        if self.open:
            self.open[1] += data

    def handle_endtag(self, tag):
        if tag == "label" and self.open:
            self.lines.setdefault(self.stage, []).append(tuple(self.open))
            self.open = None


def compiled(program, kind, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "program.rly")
        with open(path, "w") as f:
            f.write('#[version = "0.0.5"]\ndef @main' + program)
        run = subprocess.run([RELAY, "compile", "--emit", kind, *options, path], capture_output=True, text=True, check=True)
        return run.stdout


class Follow(unittest.TestCase):
    def setUp(self):
        self.told = json.loads(compiled(BODY, "json"))
        self.by_text = {origin["text"]: origin for origin in self.told["origins"]}
        self.stages = {stage["stage"]: stage for stage in self.told["stages"]}

    def lines(self, stage, text):
        origin = self.by_text[text]["id"]
        return [line["text"] for part in self.stages[stage]["parts"] for line in part["lines"] if origin in line["of"]]

    def test_stages(self):
        self.assertEqual(list(self.stages), STAGES)
        for stage in self.stages.values():
            self.assertEqual(stage["lines"], sum(len(part["lines"]) for part in stage["parts"]))

    def test_expressions_reach_code(self):
        self.assertTrue(any("sum(" in line or "+=" in line for line in self.lines("loops", "nn.dense(%x, %w, units=32)")))
        self.assertTrue(any("fmul" in line or "fma" in line for line in self.lines("llvm", "%y * 3f")))
        self.assertTrue(all("call void @dense" not in line for line in self.lines("llvm", "%y * 3f")))
        self.assertTrue(any(re.search(r"\b(nn\.)?dense\b", line) for line in self.lines("passes", "nn.dense(%x, %w, units=32)")))

    def test_constant_to_instruction(self):
        """A constant is an operand of what is around it; what was folded stands where its expression was."""
        constants = [o for o in self.told["origins"] if o["text"] == "3f"]
        self.assertEqual([o["merged"] for o in constants], [["loops", "llvm", "asm"]] * 2)
        self.assertTrue(any("add(1f, 3f)" in line for line in self.lines("passes", "1f")))
        self.assertTrue(any(" * 3 + 4" in line for line in self.lines("loops", "%y * 3f")))
        self.assertTrue(any("fmul" in line and "3.0" in line for line in self.lines("llvm", "%y * 3f")))
        self.assertTrue(any("4f" in line for line in self.lines("passes", "1f + 3f")))
        self.assertTrue(self.lines("asm", "1f + 3f"))

    def test_library(self):
        """A product that the library computes is followed into its call."""
        told = json.loads(compiled("(%x: Tensor[(1000, 8), float32], %w: Tensor[(200, 1000), float32]) "
                                   "{ nn.matmul(%x, %w, units=200, transpose_a=True, transpose_b=True) }\n", "json"))
        made = {stage["stage"]: [line["text"] for part in stage["parts"] for line in part["lines"] if 1 in line["of"]]
                for stage in told["stages"]}
        self.assertTrue(any("product of x and w" in line for line in made["loops"]), made["loops"])
        self.assertTrue(any("relay_sgemm" in line for line in made["llvm"]), made["llvm"])
        self.assertTrue(any("relay_sgemm" in line for line in made["asm"]), made["asm"])

    def test_needs(self):
        """What the kernels need stands beside them, by their names."""
        kernels = {part["part"] for part in self.stages["loops"]["parts"]}
        needs = self.told["needs"]
        self.assertLessEqual({kernel["kernel"] for kernel in needs["kernels"]}, kernels)
        for kernel in needs["kernels"] + [needs["all"]]:
            self.assertGreaterEqual(kernel["predicted_us"] * 1.0001, kernel["bound_us"])
            self.assertGreater(kernel["bytes"], 0)
            self.assertIn(kernel["by"], ("memory", "arithmetic"))

    def test_names(self):
        """Loops, LLVM IR and machine code call a kernel by one name, and tensors as the text does."""
        kernels = [{part["part"] for part in self.stages[stage]["parts"] if part["part"].startswith("dense")}
                   for stage in STAGES[1:]]
        self.assertEqual(kernels[0], kernels[1])
        self.assertEqual(kernels[1], kernels[2])
        loops = "\n".join(self.lines("loops", "nn.dense(%x, %w, units=32)"))
        self.assertIn("x[", loops)
        self.assertIn("w[", loops)

    def test_no_debug_information(self):
        for stage in ("llvm", "asm"):
            text = "\n".join(line["text"] for part in self.stages[stage]["parts"] for line in part["lines"])
            self.assertNotRegex(text, r"!dbg|\.loc\b|debug_|\.cfi_")

    def test_page(self):
        text = compiled(BODY, "html")
        page = Page(text)
        self.assertLess(len(text.encode()), 200000)
        self.assertLess(page.elements, 3000)
        self.assertEqual(len(page.ids), len(set(page.ids)))
        self.assertLessEqual(set(page.fors), set(page.ids))
        self.assertNotIn("<script", text)
        for stage in STAGES:
            told = {line["text"].rstrip(): {f"k{k}" for k in line["of"]}
                    for part in self.stages[stage]["parts"] for line in part["lines"] if line["of"]}
            for classes, line in page.lines[stage]:
                line = line.rstrip()
                if not line.endswith("…"):
                    self.assertIn(line, told)

    def test_large(self):
        """The page of a large program is as small; what does not fit is counted."""
        calls = "".join(f"  let %y{i} = nn.relu(%y{i - 1 if i else ''} * {i}f + exp(%x));\n" for i in range(200))
        text = compiled(f"(%x: Tensor[(32), float32]) {{\n  let %y = %x;\n{calls}  %y199\n}}\n", "html")
        self.assertLess(len(text.encode()), 200000)
        self.assertLess(Page(text).elements, 3000)
        self.assertRegex(text, r"<p>⋮ \d+ lines</p>")

    def test_network(self):
        """A network has its operators to choose from, and not its hundred parameters."""
        text = subprocess.run([RELAY, "compile", "--emit", "html", RESNET], capture_output=True, text=True, check=True).stdout
        page = Page(text)
        self.assertLess(len(text.encode()), 200_000)
        self.assertLess(page.elements, 3000)
        self.assertLess(text.index("⋮ 102 lines"), text.index("data-stage"))
        choices = [line for _, line in page.lines["text"]]
        for call in ("nn.conv2d(%data, %stem_w, strides=[2, 2]", "nn.batch_norm(%0, %stem_gamma", "nn.relu(", "nn.max_pool2d(%2"):
            self.assertTrue(any(line.startswith(call) for line in choices), call)

    def test_scalars(self):
        """Control code, without any kernel."""
        told = json.loads(compiled(COUNT, "json"))
        origins = {o["text"]: o["id"] for o in told["origins"]}
        llvm = [line for stage in told["stages"] if stage["stage"] == "llvm" for part in stage["parts"] for line in part["lines"]]
        product = [line["text"] for line in llvm if origins["%n * @main(%n - 1)"] in line["of"]]
        self.assertTrue(any(" mul i32" in line for line in product), product)
        test = [line["text"] for line in llvm if origins["%n <= 1"] in line["of"]]
        self.assertTrue(any("icmp" in line for line in test), test)

    def test_text(self):
        run = subprocess.run([RELAY], input="def @f" + BODY + ":show all lines=2 @f\n", capture_output=True, text=True, check=True)
        self.assertIn("nn.dense(%x, %w, units=32)\n  passes  ", run.stdout)
        self.assertIn("\n  llvm    ", run.stdout)
        for origin in self.told["origins"]:
            if origin["lines"]:
                self.assertIn("  " + origin["text"] + "\n", run.stdout)
        self.assertLessEqual(max(len(line) for line in run.stdout.splitlines() if line.startswith("  ")), 100)


unittest.main()
