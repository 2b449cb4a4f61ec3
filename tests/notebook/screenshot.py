"""The tour in JupyterLab, in a browser without a window: runs every cell, checks what is on the page and takes
pictures of it.

    RELAY=build/release/relay RELAY_SOURCE=. .venv/bin/python tests/notebook/screenshot.py [FOLDER]

With a folder the pictures stay there, in both themes: NAME-light.png and NAME-dark.png for each of the places in
PLACES. Skipped (77) without JupyterLab (`make notebook` installs it) or without Chromium.
"""
# LABELS: slow

import json
import os
import sys
import time

from browser import PANEL, Lab, command

THEMES = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}
# Name of the picture: the text of the cell that stands at its top.
PLACES = {
    "start": "# A walk through Relay",
    "error": "A `match` must name every case",
    "shape": "A type is known before",
    "passes": "## Passes",
    "engines": "## Two engines",
    "digits": "The first ten of the 450",
}


# A notebook of the views that one steps through, and the pictures of them.
VIEWS = {
    "definition": "def @fact(%n: int32) -> int32 {\n  if (%n == 0) { 1 } else { %n * @fact(%n - 1) }\n}",
    "step": ":step @fact(2)",
    "explain": ":explain types { let %w = ones(shape=[4, 3], dtype=\"float32\"); nn.dense(zeros(shape=[2, 3], "
               "dtype=\"float32\"), %w, units=4) }",
    "conflict": "def @wrong(%x: Tensor[(2, 3), float32], %w: Tensor[(4, 5), float32]) {\n"
                "  let %y = nn.relu(%x);\n  nn.dense(%y, %w, units=4)\n}",
    "explain-conflict": ":explain types",
    "why": ":why if (True) { zeros(shape=[2, 3], dtype=\"float32\") } else { ones(shape=[2, 3], dtype=\"float32\") }",
}


CELLS_SECONDS = 80


def run_cells(page):
    """Runs all cells one by one, since an error that is meant does not end the run; whether the page saw all of them end."""
    return page.value(f"""(async () => {{
        const panel = {PANEL};
        const late = new Promise(resolve => setTimeout(() => resolve('late'), {CELLS_SECONDS * 1000}));
        for (const cell of panel.content.widgets)
            if (cell.model.type === 'code') {{
                panel.content.activeCellIndex = panel.content.widgets.indexOf(cell);
                const run = jupyterapp.commands.execute('notebook:run-cell');
                if (await Promise.race([run, late]) === 'late')
                    return false;
            }}
        return true;
    }})()""")


def run_notebook(lab, name, cells):
    """On a busy machine a page may connect too late to hear the end of a cell: then it is opened again."""
    for _ in range(3):
        page = lab.open(name, cells)
        if run_cells(page):
            break
    page.wait(f"{PANEL}.content.widgets.every(cell => cell.model.type !== 'code' || cell.model.executionCount)", 120,
              "all cells ran")
    return page


def outputs(page):
    """Text and output bundles of the code cells."""
    return page.value(f"""{PANEL}.content.widgets.filter(cell => cell.model.type === 'code').map(cell => ({{
        source: cell.model.sharedModel.getSource(), tags: cell.model.getMetadata('tags') || [],
        outputs: cell.model.outputs.toJSON()}}))""")


def show(page, text):
    """Scrolls the cell with this text to the top."""
    index = page.value(f"""{PANEL}.content.widgets.findIndex(
        cell => cell.model.sharedModel.getSource().startsWith({json.dumps(text)}))""")
    assert index >= 0, text
    page.value(f"{PANEL}.content.scrollToItem({index}, 'start').then(() => true)")
    time.sleep(1)
    page.value(f"{PANEL}.content.widgets[{index}].node.scrollIntoView({{block: 'start'}}), true")
    time.sleep(1)
    box = page.value(f"""(() => {{ const b = {PANEL}.content.node.getBoundingClientRect();
        return {{x: b.x, y: b.y, width: b.width, height: b.height}}; }})()""")
    return box


def check(cells):
    errors = [cell["source"] for cell in cells if any(o["output_type"] == "error" for o in cell["outputs"])]
    meant = [cell["source"] for cell in cells if "raises-exception" in cell["tags"]]
    assert errors == meant, f"errors in {errors}, meant in {meant}"
    bundles = [o["data"] for cell in cells for o in cell["outputs"] if "data" in o]
    assert sum("image/svg+xml" in bundle for bundle in bundles) == 2
    assert sum("text/html" in bundle for bundle in bundles) >= 5


def check_page(page):
    """What is really drawn: pictures with a size, programs in a monospaced font, cells in colours."""
    show(page, PLACES["digits"])
    page.wait("""[...document.querySelectorAll('.jp-RenderedSVG img, .jp-RenderedSVG svg')].some(
        picture => picture.getBoundingClientRect().width > 100)""", 20, "the digits are drawn")
    show(page, PLACES["passes"])
    page.wait("document.querySelectorAll('.relay-program .relay-keyword').length > 0", 20, "programs have colours")
    assert "mono" in page.value("getComputedStyle(document.querySelector('.relay-program')).fontFamily")
    colors = page.value("""new Set([...document.querySelectorAll('.jp-CodeCell .cm-line span')].map(
        span => getComputedStyle(span).color)).size""")
    assert colors >= 4, f"{colors} colours in cells"


# ---- the views that one steps through

# What is seen of a view: the title of its step, and the text that is marked, by a colour behind it.
SEEN = """(output => {
    const seen = element => element.checkVisibility();
    const marks = [...output.querySelectorAll('mark')].filter(mark => seen(mark) &&
        !/rgba\\(.*, 0\\)|transparent/.test(getComputedStyle(mark).backgroundColor));
    const titles = [...output.querySelectorAll('nav b')].filter(seen).map(title => title.textContent);
    return {title: titles.join('|'), marks: marks.map(mark => mark.textContent).join('')};
})"""


class View:
    """The output of a cell of VIEWS."""

    def __init__(self, page, name):
        self.page = page
        self.name = name
        self.output = f"{PANEL}.content.widgets[{list(VIEWS).index(name)}].outputArea.node"
        show(page, VIEWS[name])
        page.wait(f"{self.output}.querySelector('.relay-steps, .relay-diagnostic') !== null", 20, f"the view {name}")

    def seen(self):
        return self.page.value(f"{SEEN}({self.output})")

    def click(self, what):
        """A click of the mouse on the middle of what an expression of `output` gives."""
        box = self.page.value(f"""(output => {{ const box = ({what}).getBoundingClientRect();
            return {{x: box.x + box.width / 2, y: box.y + box.height / 2}}; }})({self.output})""")
        for kind in ("mousePressed", "mouseReleased"):
            self.page.call("Input.dispatchMouseEvent", type=kind, button="left", clickCount=1, **box)
        time.sleep(0.1)

    def press(self, label):
        self.click(f"[...output.querySelectorAll('nav label')].find(label => label.checkVisibility() && "
                   f"label.textContent.includes({json.dumps(label)}))")
        return self.seen()


def expect(seen, title, marks):
    assert title in seen["title"], f"the step is {seen['title']!r}, not {title!r}"
    assert marks in seen["marks"], f"{seen['marks']!r} is marked, not {marks!r}"


def check_views(page):
    """Forward, back, over, to the ends, and by a click on the source."""
    step = View(page, "step")
    expect(step.seen(), "@fact(2)", "@fact(2)")
    step.press("forward")
    expect(step.press("forward"), "@fact(%n = 2)", "%n == 0")
    expect(step.press("forward"), "@fact(%n = 2)", "if (%n == 0) { 1 } else { %n * @fact(%n - 1) }")
    expect(step.press("back"), "@fact(%n = 2)", "%n == 0")
    # A click on an expression runs to the next step that evaluates it.
    step.click("[...output.querySelectorAll('mark')].find(mark => mark.checkVisibility() && "
               "mark.textContent.trim() === '%n - 1')")
    expect(step.seen(), "@fact(%n = 2)", "%n - 1")
    step.press("⇥")
    expect(step.seen(), "@fact(2)", "@fact(2)")
    expect(step.press("⇤"), "@fact(2)", "@fact(2)")

    explain = View(page, "explain")
    expect(explain.seen(), "ones relates", 'ones(shape=[4, 3], dtype="float32")')
    expect(explain.press("forward"), "zeros relates", 'zeros(shape=[2, 3], dtype="float32")')
    expect(explain.press("⇥"), "nn.dense relates", "nn.dense(zeros(")
    expect(explain.press("back"), "zeros relates", 'zeros(shape=[2, 3], dtype="float32")')
    wide = page.value(f"[...{explain.output}.querySelectorAll('pre')].some(pre => pre.scrollWidth > pre.clientWidth + 1)")
    assert not wide, "a line of the view goes beyond its width"

    conflict = View(page, "explain-conflict")
    # It opens where it fails.
    expect(conflict.seen(), "do not fit", "nn.dense(%y, %w, units=4)")
    conflict.press("back")
    expect(conflict.press("forward"), "do not fit", "nn.dense(%y, %w, units=4)")
    align = page.value(f"getComputedStyle({step.output}.querySelector('.relay-state td')).textAlign")
    assert align == "left", f"the table of the steps is aligned to the {align}"
    View(page, "why")


def take_pictures(page, folder, places):
    os.makedirs(folder, exist_ok=True)
    for name, theme in THEMES.items():
        command(page, "apputils:change-theme", {"theme": theme})
        time.sleep(2)
        for place, text in places.items():
            page.picture(os.path.join(folder, f"{place}-{name}.png"), show(page, text))


def main():
    with Lab() as lab:
        pictures = sys.argv[1] if len(sys.argv) > 1 else os.path.join(lab.folder, "pictures")
        page = run_notebook(lab, "tour.ipynb", 10)
        check(outputs(page))
        check_page(page)
        take_pictures(page, pictures, PLACES)
        lab.write("views.ipynb", VIEWS)
        run_notebook(lab, "views.ipynb", len(VIEWS))
        check_views(page)
        take_pictures(page, pictures, VIEWS)


main()
