"""The six stories of the laboratory: what a person types, and what the answer says in a terminal and on a page.

repl/stories_test.py tells them in a terminal, notebook/stories.py in a browser.
"""

NET = ("fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) { "
       "%0 = nn.conv2d(%x, %w, padding=[1, 1]); %1 = nn.relu(%0 * 2f); nn.softmax(exp(sum(%1, axis=[2, 3]))) }")
WRONG = "fn (%y: float32) { let %d = exp(%y); let %r = ref(%y); let %u = ref_write(%r, 3f); ref_read(%r) + 1f }"
DROPS = "DeadCodeElimination{ignore_impurity=True}"
# Name: the cell, and what both forms of the answer say. The rewrite planted wrong is found twice, by blame and by time travel.
STORIES = {
    "fold": (":pass FoldConstant fn (%x: float32) { %x + (2f + 2f) }",
             ["add (%0) is 4f: its operands are known", "add(%x, 4f)"]),
    "fusion": (f":explain pass FuseOps {NET}",
               ["one group of 3 calls: nn.conv2d (a kernel), multiply (broadcast), nn.relu (elementwise)",
                "ends there: it is a kernel, and what leads to sum (%3) is a reduction"]),
    "blame": (f":blame FoldConstant,{DROPS},FuseOps {WRONG}",
              ["pass 2 of 3, is the first after which the result differs", "%u goes: nothing that counts uses it",
               "1 of 2 of that pass"]),
    "travel": (f":rewrites {DROPS} {WRONG}", ["2 rewrites", "the result differs from here on: it was 4 and is"]),
    "ranges": (":explain pass FoldConstant,quantize{skip_conv_layers=[]} fn (%x: Tensor[(1, 4, 8, 8), float32]) { "
               "nn.conv2d(%x, full(1f, shape=[4, 4, 3, 3], dtype=\"float32\"), padding=[1, 1]) }",
               ["is taken as a weight: 8 bits, from", "in steps of"]),
    "roofline": (":schedule fn (%x: Tensor[(512, 512), float32], %w: Tensor[(512, 512), float32]) { "
                 "nn.softmax(nn.dense(nn.relu(%x), %w, units=512)) + 1f }",
                 ["slowest dense.", "% of the time, at", "by arithmetic"]),
    "constant": (":show all fn (%x: Tensor[(16), float32]) { nn.relu(%x * 3f + 1f) }", ["3.000000e+00"]),
}


def plain(text):
    """Without the marks of code, and with blanks for line ends: what is to be found may be broken."""
    return " ".join(text.replace("`", "").split())
