"""Six stories of the laboratory in JupyterLab, in a browser without a window: what a person wants to see is on the page, and the text form
of the same answer, which a terminal of 80 columns shows, says it too.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/stories.py [FOLDER]

With a folder pictures of each stay there, light and dark. Skipped (77) without JupyterLab (`make notebook` installs it) or Chromium.
"""
# LABELS: slow

import os
import subprocess
import sys
import time

import browser
from browser import PANEL, RELAY, Lab, command

browser.WIDTH = 1400
THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
NET = ("fn (%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32]) { "
       "%0 = nn.conv2d(%x, %w, padding=[1, 1]); %1 = nn.relu(%0 * 2f); nn.softmax(exp(sum(%1, axis=[2, 3]))) }")
WRONG = "fn (%y: float32) { let %d = exp(%y); let %r = ref(%y); let %u = ref_write(%r, 3f); ref_read(%r) + 1f }"
DROPS = "DeadCodeElimination{ignore_impurity=True}"
# Name: the cell, and what both forms of the answer say.
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


def in_terminal(cell):
    """The answer as text at 80 columns."""
    done = subprocess.run([RELAY], input=cell + "\n", env={**os.environ, "COLUMNS": "80", "NO_COLOR": "1"},
                          capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return plain(done.stdout)


def output(name):
    return f"{PANEL}.content.widgets[{list(STORIES).index(name)}].outputArea.node"


def click(page, what):
    """A click of the mouse on the middle of an element."""
    page.value(f"({what}).scrollIntoView({{block: 'center'}}), true")
    time.sleep(0.3)
    box = page.value(f"(() => {{ const b = ({what}).getBoundingClientRect(); "
                     "return {x: b.x + b.width / 2, y: b.y + b.height / 2}; })()")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)
    time.sleep(0.3)


def seen(page, name):
    """The text that is to be seen of an output."""
    return plain(page.value(f"{output(name)}.innerText"))


def travel_on(page):
    """Forward and back through the rewrites."""
    def button(word):
        return (f"[...{output('travel')}.querySelectorAll('nav label')].find(l => l.checkVisibility() && "
                f"l.textContent.includes('{word}'))")
    assert "1 of 2" in seen(page, "travel") and "%u goes" in seen(page, "travel")
    click(page, button("forward"))
    assert "2 of 2" in seen(page, "travel") and "%d goes" in seen(page, "travel"), seen(page, "travel")
    click(page, button("back"))
    assert "1 of 2" in seen(page, "travel"), seen(page, "travel")


def check_roofline(page):
    """Every kernel has its point; that of the slowest is the one which lies under the flat part of the roof."""
    points = page.value(f"[...{output('roofline')}.querySelectorAll('circle[data-kernel] title')].map(t => t.textContent)")
    assert len(points) == 3 and all("operations a byte" in point for point in points), points
    intensity = {point.split(".")[0]: float(point.split(": ")[1].split()[0]) for point in points}
    assert intensity["dense"] > 50 > max(n for name, n in intensity.items() if name != "dense"), points


def lines_of(page):
    """The lines that are to be seen of each stage."""
    return page.value(f"""Object.fromEntries([...{output('constant')}.querySelectorAll('section')].map(section =>
        [section.dataset.stage, [...section.querySelectorAll('details>pre>*')].filter(
            line => line.checkVisibility()).map(line => line.textContent.trim())]))""")


def follow_constant(page):
    """A click on the product with the constant, its sign, leaves its lines in the loops, in LLVM IR and in the machine code."""
    before = lines_of(page)
    click(page, f"[...{output('constant')}.querySelectorAll('label')].find(l => l.textContent === '*')")
    after = lines_of(page)
    for stage in ("loops", "llvm", "asm"):
        assert 0 < len(after[stage]) < len(before[stage]), (stage, after)
    assert any("3.000000e+00" in line for line in after["llvm"]), after


def take_pictures(page, folder):
    os.makedirs(folder, exist_ok=True)
    for theme, title in THEMES.items():
        command(page, "apputils:change-theme", {"theme": title})
        time.sleep(2)
        for i, name in enumerate(STORIES):
            page.value(f"{PANEL}.content.scrollToItem({i}, 'start').then(() => true)")
            time.sleep(0.7)
            page.picture(os.path.join(folder, f"{name}-{theme}.png"))


def opens_at_once(page, folder):
    """The pipeline of a network by itself, as a page: what it takes from the start to the picture, at best of some times."""
    path = os.path.join(folder, "network.html")
    program = os.path.join(browser.SOURCE, "tests", "bench", "programs", "resnet18.rly")
    subprocess.run([RELAY, "opt", "-p", "-O3", "--html", path, program], check=True, stdout=subprocess.DEVNULL, timeout=60)
    taken = []
    for _ in range(5):
        page.call("Page.navigate", url=f"file://{path}")
        page.wait("document.readyState === 'complete' && performance.getEntriesByType('paint').length", 20, "the page opens")
        taken.append(page.value("Math.max(performance.getEntriesByType('navigation')[0].loadEventEnd, "
                                "...performance.getEntriesByType('paint').map(p => p.startTime))"))
    assert min(taken) < 500, taken
    print(f"the pipeline of ResNet-18 opens in {min(taken):.0f} ms")


def main():
    with Lab() as lab:
        opens_at_once(lab.page, lab.folder)
        lab.write("stories.ipynb", {name: cell for name, (cell, _) in STORIES.items()})
        page = lab.open("stories.ipynb", len(STORIES))
        page.value("jupyterapp.commands.execute('notebook:run-all-cells').then(() => true)")
        page.wait(f"{PANEL}.content.widgets.every(cell => cell.model.type !== 'code' || cell.model.outputs.length)", 120,
                  "all cells ran")
        time.sleep(1)
        for name, (cell, facts) in STORIES.items():
            text, page_text = in_terminal(cell), plain(page.value(f"{output(name)}.textContent"))
            for fact in facts:
                assert fact in text, f"{name}: the text does not say {fact!r}: {text}"
                assert fact in page_text, f"{name}: the page does not say {fact!r}: {page_text}"
        travel_on(page)
        check_roofline(page)
        follow_constant(page)
        if len(sys.argv) > 1:
            take_pictures(page, sys.argv[1])


main()
